//! Models under concurrent requests, in three settings: every request on all cores, every request on one thread, and the scheduler.
//!
//! Clients ask one text at a time and wait for its answer. The first two call ONNX Runtime straight from the clients' threads, as a server
//! does that hands each request on; their better one, in turns with the scheduler, is what the scheduler is held against. Where many ask, it is also held
//! against batches made by hand, one after the other on each core: what batching can give on this machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_model::{
    Caller, Encoder, EncoderOptions, Grant, Lane, Model, Purpose, Scheduler, SchedulerOptions, Sequence,
    Threads,
};

use super::{Bench, Settings};
use crate::embedders;
use crate::measure::{Samples, process_time};
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
const TURNS: u32 = 2;

fn run(settings: &Settings) -> Result<Report, Error> {
    let mut report = Report::new(BENCH.name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut any = false;
    for (name, gain) in MODELS {
        let Some(model) = embedders::model(name) else {
            report.note(format!("{name} is not there: scripts/models {name} makes it"));
            continue;
        };
        any = true;
        let subject = Subject::load(name, &model.join("model.onnx"), cores)?;
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

/// A model in the three settings.
struct Subject {
    name: &'static str,
    all_cores: Encoder,
    one_thread: Encoder,
    lane: Lane,
    /// The most tokens of a batch.
    batch_tokens: usize,
    cores: usize,
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
        let shared = Arc::new(load(None)?);
        let batch_tokens = shared.limits().tokens;
        Ok(Subject {
            name,
            all_cores: load(Some(cores))?,
            one_thread: load(Some(1))?,
            lane: scheduler.lane(name, shared),
            batch_tokens,
            cores,
            _scheduler: scheduler,
        })
    }

    /// Runs one text in a setting.
    fn ask(&self, setting: Setting, text: &Sequence) {
        let direct = |encoder: &Encoder| encoder.run(&[text], &Grant::default()).map(drop);
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
    /// How long they were watched.
    time: Duration,
    /// What processors worked meanwhile.
    processors: Duration,
}

impl Seen {
    /// Answers a second.
    fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.time.as_secs_f64()
    }

    /// Processor time of an answer, in seconds.
    fn processors(&self) -> f64 {
        self.processors.as_secs_f64() / self.latency.len().max(1) as f64
    }

    fn tail(&self) -> f64 {
        self.latency.quantile(0.95)
    }

    fn merge(&mut self, other: &Seen) {
        self.latency.merge(&other.latency);
        self.time += other.time;
        self.processors += other.processors;
    }
}

/// All numbers of clients for texts of one length.
fn curves(settings: &Settings, subject: &Subject, length: usize, gain: f64, report: &mut Report) {
    let mut rates = SETTINGS.map(|(_, name)| Line { name: name.to_owned(), points: Vec::new() });
    let (mut tails, mut costs) = (rates.clone(), rates.clone());
    for clients in CLIENTS {
        let case = format!("{} {length} tokens {clients} clients", subject.name);
        let seen = in_turns(settings.time_per_case, subject, clients, length);
        for (at, seen) in seen.iter().enumerate() {
            rates[at].points.push((clients as f64, seen.rate()));
            tails[at].points.push((clients as f64, seen.tail()));
            costs[at].points.push((clients as f64, seen.processors()));
        }
        compare(&case, &seen, (clients >= SATURATED).then_some(gain), report);
        if clients >= SATURATED {
            let [.., ours] = &seen;
            let by_hand = by_hand(settings.time_per_case, subject, length);
            report.push(
                Figure::new(&case, "throughput", ours.rate(), Unit::PerSecond("texts"))
                    .beside("batches by hand", by_hand),
            );
        }
    }
    let clients = || Axis { label: "clients".to_owned(), unit: Unit::Count(""), logarithmic: true };
    let titled = |what: &str| format!("{}, {length} tokens: {what}", subject.name);
    let rate =
        Axis { label: "texts a second".to_owned(), unit: Unit::PerSecond("texts"), logarithmic: false };
    let tail = Axis { label: "95th percentile".to_owned(), unit: Unit::Seconds, logarithmic: true };
    let cost = Axis { label: "of a text".to_owned(), unit: Unit::Seconds, logarithmic: false };
    report.plots.push(Plot { title: titled("throughput"), x: clients(), y: rate, lines: rates.to_vec() });
    report.plots.push(Plot { title: titled("latency"), x: clients(), y: tail, lines: tails.to_vec() });
    report.plots.push(Plot { title: titled("processor time"), x: clients(), y: cost, lines: costs.to_vec() });
}

/// The scheduler beside the better of the two other settings. Saturated, it is to gain so much.
fn compare(case: &str, [all_cores, one_thread, ours]: &[Seen; 3], gain: Option<f64>, report: &mut Report) {
    const BETTER: &str = "the better setting";
    report.push(
        Figure::new(case, "throughput", ours.rate(), Unit::PerSecond("texts"))
            .beside(BETTER, all_cores.rate().max(one_thread.rate()))
            .at_least(gain.unwrap_or(0.98)),
    );
    report.push(Figure::new(case, "p50", ours.latency.median(), Unit::Seconds));
    report.push(
        Figure::new(case, "p95", ours.tail(), Unit::Seconds)
            .beside(BETTER, all_cores.tail().min(one_thread.tail()))
            .at_most(if gain.is_some() { 0.4 } else { 1.05 }),
    );
    // Steadier than times where other programs run too.
    report.push(
        Figure::new(case, "processor time", ours.processors(), Unit::Seconds)
            .beside(BETTER, all_cores.processors().min(one_thread.processors())),
    );
}

/// The settings in turns, so that what disturbs one disturbs the others.
fn in_turns(time: Duration, subject: &Subject, clients: usize, length: usize) -> [Seen; 3] {
    let text = text(length);
    let mut seen = [Seen::default(), Seen::default(), Seen::default()];
    for _ in 0..TURNS {
        for (seen, (setting, _)) in seen.iter_mut().zip(SETTINGS) {
            seen.merge(&turn(time / TURNS, clients, &|| subject.ask(setting, &text)));
        }
    }
    seen
}

/// Texts a second in batches as large as the scheduler's may be, a core for each batch.
fn by_hand(time: Duration, subject: &Subject, length: usize) -> f64 {
    let text = text(length);
    let count = (subject.batch_tokens / length).max(1);
    let batch = vec![&text; count];
    let run = || {
        let outcome = subject.one_thread.run(&batch, &Grant::default()).map(drop);
        assert!(outcome.is_ok(), "{outcome:?}");
    };
    turn(time, subject.cores, &run).rate() * count as f64
}

fn text(length: usize) -> Sequence {
    Sequence { ids: vec![2000; length], ..Sequence::default() }
}

/// Clients that ask again as soon as they have an answer. They are watched from when each had its first one, for so long and at least as
/// long as that took.
fn turn(time: Duration, clients: usize, ask: &(dyn Fn() + Sync)) -> Seen {
    let (answered, watched, ended) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let client = || {
        ask();
        answered.fetch_add(1, Ordering::Relaxed);
        let mut samples = Samples::new();
        while !ended.load(Ordering::Relaxed) {
            let asked = Instant::now();
            ask();
            if watched.load(Ordering::Relaxed) {
                samples.add(asked.elapsed());
            }
        }
        samples
    };
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let began = Instant::now();
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        while answered.load(Ordering::Relaxed) < clients.len() && !clients.iter().any(|one| one.is_finished())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (time, processors) = (time.max(began.elapsed()), process_time());
        let began = Instant::now();
        watched.store(true, Ordering::Relaxed);
        std::thread::sleep(time);
        watched.store(false, Ordering::Relaxed);
        (seen.time, seen.processors) = (began.elapsed(), process_time().saturating_sub(processors));
        ended.store(true, Ordering::Relaxed);
        for samples in clients.into_iter().filter_map(|client| client.join().ok()) {
            seen.latency.merge(&samples);
        }
    });
    seen
}
