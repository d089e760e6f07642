//! Models under concurrent requests, in three settings: every request on all cores, every request on one thread, and the scheduler.
//!
//! Clients ask one text at a time and wait for its answer. The first two call ONNX Runtime straight from the clients' threads, as a server
//! does that hands each request on; their better one, in turns with the scheduler, is what the scheduler is held against.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_model::{
    Caller, Encoder, EncoderOptions, Interrupt, Lane, Model, Purpose, Scheduler, SchedulerOptions, Sequence,
    Threads,
};

use super::{Bench, Settings};
use crate::measure::Samples;
use crate::{Axis, Error, Figure, Line, Plot, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "model",
    about: "embedding models under 1 to 64 clients: the scheduler beside all cores per request and one thread per request",
    run,
};

/// The models that `scripts/models` makes, and what saturation is to gain with each at 32 tokens.
const MODELS: [(&str, f64); 3] = [("minilm", 1.2), ("small", 1.2), ("bert-base", 1.5)];
/// Tokens of a text.
const LENGTHS: [usize; 2] = [32, 128];
const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// From so many clients on a machine is saturated.
const SATURATED: usize = 32;
/// Each setting has so many turns.
const TURNS: u32 = 3;

fn run(settings: &Settings) -> Result<Report, Error> {
    let mut report = Report::new(BENCH.name);
    let directory = models_directory().ok_or_else(missing)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut any = false;
    for (name, gain) in MODELS {
        let file = directory.join(name).join("model.onnx");
        if !file.is_file() {
            report.note(format!("{name} is not there: scripts/models {name} makes it"));
            continue;
        }
        any = true;
        let subject = Subject::load(name, &file, cores)?;
        for length in LENGTHS {
            let gain = if length == LENGTHS[0] { gain } else { 1.0 };
            curves(settings, &subject, length, gain, &mut report);
        }
    }
    if any { Ok(report) } else { Err(missing()) }
}

fn missing() -> Error {
    Error::failed("there are no models to run: scripts/models minilm small bert-base makes them")
}

/// Where `scripts/models` puts them.
pub(super) fn models_directory() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))?;
    Some(cache.join("millrace/models"))
}

/// A model in the three settings.
struct Subject {
    name: &'static str,
    all_cores: Encoder,
    one_thread: Encoder,
    lane: Lane,
    /// The lane's.
    _scheduler: Scheduler,
}

impl Subject {
    fn load(name: &'static str, file: &Path, cores: usize) -> Result<Self, Error> {
        let options = |intra_op| EncoderOptions {
            name: name.to_owned(),
            ids: "input_ids".to_owned(),
            mask: "attention_mask".to_owned(),
            types: Some("token_type_ids".to_owned()),
            output: "last_hidden_state".to_owned(),
            output_rank: 3,
            threads: Threads { intra_op, ..Threads::default() },
        };
        let load = |intra_op| Encoder::load(file, options(intra_op)).map_err(Error::failed);
        let scheduler = Scheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
        Ok(Subject {
            name,
            all_cores: load(Some(cores))?,
            one_thread: load(Some(1))?,
            lane: scheduler.lane(name, Arc::new(load(None)?)),
            _scheduler: scheduler,
        })
    }

    /// Runs one text in a setting.
    fn ask(&self, setting: Setting, text: &Sequence) {
        let direct = |encoder: &Encoder| encoder.run(&[text], &Interrupt::default()).map(drop);
        let outcome = match setting {
            Setting::AllCores => direct(&self.all_cores),
            Setting::OneThread => direct(&self.one_thread),
            Setting::Scheduler => {
                self.lane.run(vec![text.clone()], &Caller::patient(Purpose::Query)).map(drop)
            }
        };
        // The model and the text are ours: what fails here fails in every turn, and the figures would say nothing.
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Setting {
    AllCores,
    OneThread,
    Scheduler,
}

const SETTINGS: [(Setting, &str); 3] = [
    (Setting::AllCores, "all cores per request"),
    (Setting::OneThread, "one thread per request"),
    (Setting::Scheduler, "scheduler"),
];

/// What clients saw.
#[derive(Default)]
struct Seen {
    latency: Samples,
    time: Duration,
}

impl Seen {
    fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.time.as_secs_f64()
    }
}

/// All numbers of clients for texts of one length.
fn curves(settings: &Settings, subject: &Subject, length: usize, gain: f64, report: &mut Report) {
    let mut rates = SETTINGS.map(|(_, name)| Line { name: name.to_owned(), points: Vec::new() });
    let mut tails = rates.clone();
    for clients in CLIENTS {
        let seen = in_turns(settings.time_per_case, subject, clients, length);
        for (at, seen) in seen.iter().enumerate() {
            rates[at].points.push((clients as f64, seen.rate()));
            tails[at].points.push((clients as f64, seen.latency.quantile(0.95)));
        }
        let [all_cores, one_thread, ours] = &seen;
        let case = format!("{} {length} tokens {clients} clients", subject.name);
        let better_rate = all_cores.rate().max(one_thread.rate());
        let tail = |seen: &Seen| seen.latency.quantile(0.95);
        let better_tail = tail(all_cores).min(tail(one_thread));
        let saturated = clients >= SATURATED;
        report.push(
            Figure::new(&case, "throughput", ours.rate(), Unit::PerSecond("texts"))
                .beside("the better setting", better_rate)
                .at_least(if saturated { gain } else { 0.98 }),
        );
        report.push(Figure::new(&case, "p50", ours.latency.median(), Unit::Seconds));
        report.push(
            Figure::new(&case, "p95", tail(ours), Unit::Seconds)
                .beside("the better setting", better_tail)
                .at_most(if saturated { 0.4 } else { 1.05 }),
        );
    }
    let clients = || Axis { label: "clients".to_owned(), unit: Unit::Count(""), logarithmic: true };
    let titled = |what: &str| format!("{}, {length} tokens: {what}", subject.name);
    let rate =
        Axis { label: "texts a second".to_owned(), unit: Unit::PerSecond("texts"), logarithmic: false };
    let tail = Axis { label: "95th percentile".to_owned(), unit: Unit::Seconds, logarithmic: true };
    report.plots.push(Plot { title: titled("throughput"), x: clients(), y: rate, lines: rates.to_vec() });
    report.plots.push(Plot { title: titled("latency"), x: clients(), y: tail, lines: tails.to_vec() });
}

/// The settings in turns, so that what disturbs one disturbs the others.
fn in_turns(time: Duration, subject: &Subject, clients: usize, length: usize) -> [Seen; 3] {
    let mut seen = [Seen::default(), Seen::default(), Seen::default()];
    for _ in 0..TURNS {
        for (seen, (setting, _)) in seen.iter_mut().zip(SETTINGS) {
            let (latency, took) = turn(time / TURNS, clients, &|text| subject.ask(setting, text), length);
            seen.latency.merge(&latency);
            seen.time += took;
        }
    }
    seen
}

/// Clients that ask again as soon as they have an answer.
fn turn(
    time: Duration,
    clients: usize,
    ask: &(dyn Fn(&Sequence) + Sync),
    length: usize,
) -> (Samples, Duration) {
    let text = Sequence { ids: vec![2000; length], ..Sequence::default() };
    ask(&text);
    let ended = AtomicBool::new(false);
    let began = Instant::now();
    let mut all = Samples::new();
    std::thread::scope(|scope| {
        let client = || {
            let mut samples = Samples::new();
            while !ended.load(Ordering::Relaxed) {
                let asked = Instant::now();
                ask(&text);
                samples.add(asked.elapsed());
            }
            samples
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        std::thread::sleep(time);
        ended.store(true, Ordering::Relaxed);
        for samples in clients.into_iter().filter_map(|client| client.join().ok()) {
            all.merge(&samples);
        }
    });
    (all, began.elapsed())
}
