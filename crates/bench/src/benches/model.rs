//! Models under concurrent requests, in three settings: every request on all cores, every request on one
//! thread, and the scheduler.
//!
//! Clients send one text at a time and wait for its answer. The first two settings call ONNX Runtime directly
//! from the clients' threads, like a server that passes each request on; the scheduler is compared with the
//! better of them. At every number of clients the settings take short turns, so that a disturbance affects
//! all of them. With many clients, the scheduler is also compared with manually formed batches, one after the
//! other on each core: the gain that batching can give on this machine.
//!
//! A run ends within [`ALLOWANCE`] times the time of a case: points for which too little time remains are
//! left out, and named.

mod subject;
mod turns;

use std::time::{Duration, Instant};

use subject::{ModelUnderTest, SETTINGS, ThreadPolicy};
use turns::{TurnLatencies, by_hand, in_turns};

use super::{Benchmark, Settings};
use crate::{BenchReport, CurvePlot, Error, Figure, FigureUnit, PlotAxis, PlotCurve, embedders};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "model",
    about: "embedding models under 1 to 64 clients: the scheduler beside all cores per request and one thread per request",
    run,
};

/// Models that `scripts/models` makes, and the required gain at saturation with each at 32 tokens.
const MODELS: [(&str, f64); 3] = [("minilm", 1.2), ("small", 1.2), ("bert-base", 1.5)];
/// Numbers of tokens of a text.
const LENGTHS: [usize; 2] = [32, 128];
const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Number of clients from which a machine is saturated.
const SATURATED: usize = 32;
/// Maximum duration of a run, in multiples of the time of a case: six minutes if that is a second.
const ALLOWANCE: u32 = 360;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut run = CurveRun::new(settings);
    let mut any = false;
    for (name, gain) in MODELS {
        let lengths: Vec<usize> =
            LENGTHS.into_iter().filter(|length| !run.points(name, *length).is_empty()).collect();
        if lengths.is_empty() {
            continue;
        }
        let Some(model) = embedders::model(name) else {
            run.report.note(format!("{name} is not there: scripts/models {name} makes it"));
            continue;
        };
        any = true;
        if Instant::now() >= run.end() {
            let left = lengths.iter().flat_map(|length| run.points(name, *length));
            for point in left.collect::<Vec<_>>() {
                run.leave_out(&point.case);
            }
            continue;
        }
        let subject = ModelUnderTest::load(name, &model.join("model.onnx"), cores)?;
        for length in lengths {
            let gain = if length == LENGTHS[0] { gain } else { 1.0 };
            run.curves(&subject, length, gain);
        }
    }
    if any { Ok(run.report) } else { Err(missing(settings)) }
}

fn missing(settings: &Settings) -> Error {
    Error::failed(if settings.only == super::CaseFilter::default() {
        "no models to run: scripts/models minilm small bert-base makes them".to_owned()
    } else {
        let models = MODELS.map(|(name, _)| name).join(", ");
        format!(
            "no case is left, or its model is not there: cases are named as '{models} 32 tokens 8 clients'"
        )
    })
}

/// One point of the curves.
struct CurvePoint {
    case: String,
    clients: usize,
}

/// A run and its results.
struct CurveRun<'s> {
    settings: &'s Settings,
    report: BenchReport,
    began: Instant,
    /// Number of points to measure, and of points measured or left out.
    total: usize,
    done: usize,
}

impl<'s> CurveRun<'s> {
    fn new(settings: &'s Settings) -> Self {
        let report = BenchReport::new(BENCH.name);
        let mut run = CurveRun { settings, report, began: Instant::now(), total: 0, done: 0 };
        run.total = MODELS
            .iter()
            .flat_map(|(name, _)| LENGTHS.map(|length| (*name, length)))
            .map(|(name, length)| run.points(name, length).len())
            .sum();
        run
    }

    /// The requested points of a curve.
    fn points(&self, model: &str, length: usize) -> Vec<CurvePoint> {
        let point =
            |clients| CurvePoint { case: format!("{model} {length} tokens {clients} clients"), clients };
        let only = &self.settings.only;
        let wanted = |point: &CurvePoint| only.takes(&point.case, point.clients);
        CLIENTS.into_iter().map(point).filter(wanted).collect()
    }

    /// Measures all numbers of clients for texts of one length.
    fn curves(&mut self, subject: &ModelUnderTest, length: usize, gain: f64) {
        let mut curves = ThreadCurves::new();
        let mut batches = None;
        // The expected wait of a client follows from the previous point; at first, from one text on one
        // thread.
        let mut rate = 1.0 / subject.time_of(length).as_secs_f64();
        for CurvePoint { case, clients } in self.points(subject.name, length) {
            self.done += 1;
            let round = Duration::from_secs_f64(clients as f64 / rate);
            let time = (self.settings.time_per_case, self.end());
            let fits = Instant::now() + turns::expected(time.0, round) <= time.1;
            let seen = if fits { in_turns(time, round, subject, clients, length) } else { None };
            let Some(seen) = seen else {
                self.leave_out(&case);
                continue;
            };
            let saturated = clients >= SATURATED;
            curves.add(clients, &seen);
            self.compare(&case, &seen, saturated.then_some(gain));
            if saturated {
                batches = batches.or_else(|| by_hand(time, subject, length));
                let ours = seen[ThreadPolicy::Scheduler as usize].rate();
                let figure = Figure::new(&case, "throughput", ours, FigureUnit::PerSecond("texts"));
                self.report.figures.extend(batches.map(|rate| figure.beside("batches by hand", rate)));
            }
            rate = seen[ThreadPolicy::OneThread as usize].rate();
            self.publish(&case, &seen);
        }
        self.report.plots.extend(curves.plots(subject.name, length));
    }

    /// Latest end of the run.
    fn end(&self) -> Instant {
        self.began + self.settings.time_per_case.saturating_mul(ALLOWANCE)
    }

    fn leave_out(&mut self, case: &str) {
        let milliseconds = self.settings.time_per_case.as_millis();
        self.report.note(format!("{case} left out: --milliseconds {milliseconds} leaves no time for it"));
    }

    /// Reports the settings by themselves, and the scheduler compared with the better of the two others. If
    /// saturated, it must gain `gain`.
    fn compare(&mut self, case: &str, seen: &[TurnLatencies; 3], gain: Option<f64>) {
        const BETTER: &str = "the better setting";
        for ((setting, name), seen) in SETTINGS.iter().zip(seen) {
            if !matches!(setting, ThreadPolicy::Scheduler) {
                let of =
                    |measure: &str, value, unit| Figure::new(case, format!("{measure}, {name}"), value, unit);
                self.report.push(of("throughput", seen.rate(), FigureUnit::PerSecond("texts")));
                self.report.push(of("p50", seen.latency.median(), FigureUnit::Seconds));
                self.report.push(of("p95", seen.tail(), FigureUnit::Seconds));
            }
        }
        let [all_cores, one_thread, ours] = seen;
        let least = |of: fn(&TurnLatencies) -> f64| of(all_cores).min(of(one_thread));
        let rate = Figure::new(case, "throughput", ours.rate(), FigureUnit::PerSecond("texts"))
            .beside(BETTER, all_cores.rate().max(one_thread.rate()))
            .at_least(gain.unwrap_or(0.98));
        let median = Figure::new(case, "p50", ours.latency.median(), FigureUnit::Seconds)
            .beside(BETTER, least(|seen| seen.latency.median()));
        let tail = Figure::new(case, "p95", ours.tail(), FigureUnit::Seconds)
            .beside(BETTER, least(TurnLatencies::tail))
            .at_most(if gain.is_some() { 0.4 } else { 1.05 });
        // Steadier than times if other programs run too.
        let work = Figure::new(case, "processor time", ours.processors(), FigureUnit::Seconds)
            .beside(BETTER, least(TurnLatencies::processors));
        for figure in [rate, median, tail, work] {
            self.report.push(figure);
        }
    }

    /// Reports the result of a point, and the progress of the run.
    fn publish(&mut self, case: &str, seen: &[TurnLatencies; 3]) {
        self.report.publish(self.settings.progress);
        let shown = SETTINGS.iter().zip(seen).map(|((_, name), seen)| {
            let (rate, tail) =
                (FigureUnit::PerSecond("texts").format(seen.rate()), FigureUnit::Seconds.format(seen.tail()));
            format!("{name} {rate}, p95 {tail}")
        });
        let shown: Vec<String> = shown.collect();
        let (done, total, seconds) = (self.done, self.total, self.began.elapsed().as_secs());
        (self.settings.progress.step)(&format!("{done}/{total} {seconds} s  {case}: {}", shown.join("; ")));
    }
}

/// Results of the settings at each number of clients.
struct ThreadCurves {
    rates: [PlotCurve; 3],
    medians: [PlotCurve; 3],
    tails: [PlotCurve; 3],
}

impl ThreadCurves {
    fn new() -> Self {
        let lines = || SETTINGS.map(|(_, name)| PlotCurve { name: name.to_owned(), points: Vec::new() });
        ThreadCurves { rates: lines(), medians: lines(), tails: lines() }
    }

    fn add(&mut self, clients: usize, seen: &[TurnLatencies; 3]) {
        let clients = clients as f64;
        for (at, seen) in seen.iter().enumerate() {
            self.rates[at].points.push((clients, seen.rate()));
            self.medians[at].points.push((clients, seen.latency.median()));
            self.tails[at].points.push((clients, seen.tail()));
        }
    }

    fn plots(self, model: &str, length: usize) -> [CurvePlot; 3] {
        let plot = |what: &str, unit, logarithmic, lines: [PlotCurve; 3]| CurvePlot {
            title: format!("{model}, {length} tokens: {what}"),
            x: PlotAxis { label: "clients".to_owned(), unit: FigureUnit::Count(""), logarithmic: true },
            y: PlotAxis { label: what.to_owned(), unit, logarithmic },
            lines: lines.to_vec(),
        };
        [
            plot("texts a second", FigureUnit::PerSecond("texts"), false, self.rates),
            plot("median of the time to an answer", FigureUnit::Seconds, true, self.medians),
            plot("95th percentile of the time to an answer", FigureUnit::Seconds, true, self.tails),
        ]
    }
}
