//! Clients that send requests in turns.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::subject::{ModelUnderTest, SETTINGS, text};
use crate::measure::{TimeSamples, process_time};

/// Maximum number of turns of a setting, if rounds are short.
const TURNS_MAX: u32 = 5;
/// Number of rounds in a turn, unless it is the only one.
const ROUNDS: u32 = 4;
/// Minimum number of answers of a setting: with fewer, a 95th percentile is merely the slowest.
const LEAST: usize = 20;
/// Maximum sleep while watching.
const NAP: Duration = Duration::from_millis(1);

/// Observations of clients.
#[derive(Default)]
pub(super) struct TurnLatencies {
    pub latency: TimeSamples,
    /// Duration of the observation.
    time: Duration,
    /// Processor time used during the measurement.
    processors: Duration,
}

impl TurnLatencies {
    /// Answers per second.
    pub fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.time.as_secs_f64()
    }

    /// Processor time of an answer, in seconds.
    pub fn processors(&self) -> f64 {
        self.processors.as_secs_f64() / self.latency.len().max(1) as f64
    }

    pub fn tail(&self) -> f64 {
        self.latency.quantile(0.95)
    }

    fn merge(&mut self, other: &TurnLatencies) {
        self.latency.merge(&other.latency);
        self.time += other.time;
        self.processors += other.processors;
    }
}

/// Total time of all settings if a client waits `round` for its answer: each turn has a round to warm up, and
/// half of one to end.
pub(super) fn expected(time: Duration, round: Duration) -> Duration {
    (time.max(round) + round * 3 / 2 * turns(time, round)) * SETTINGS.len() as u32
}

/// Number of turns. Short turns are equal for all settings, and each costs a round to warm up.
fn turns(time: Duration, round: Duration) -> u32 {
    let fitting = time.as_secs_f64() / (round.as_secs_f64() * f64::from(ROUNDS)).max(1e-9);
    (fitting as u32).clamp(1, TURNS_MAX)
}

/// Runs the settings in turns; another begins each time. A client is expected to wait `round` for its answer.
/// `None` if it was not over at `end`.
pub(super) fn in_turns(
    (time, end): (Duration, Instant),
    round: Duration,
    subject: &ModelUnderTest,
    clients: usize,
    length: usize,
) -> Option<[TurnLatencies; SETTINGS.len()]> {
    let text = text(length);
    let mut seen: [TurnLatencies; SETTINGS.len()] = Default::default();
    let turns = turns(time, round);
    for first in 0..turns {
        for at in 0..SETTINGS.len() {
            let at = (at + first as usize) % SETTINGS.len();
            let ask = || subject.ask(SETTINGS[at].0, &text);
            seen[at].merge(&turn((time / turns, end), LEAST.div_ceil(turns as usize), clients, &ask)?);
        }
    }
    Some(seen)
}

/// Texts per second in batches as large as the scheduler's may be, a core for each batch. `None` if it was
/// not over at `end`.
pub(super) fn by_hand(
    (time, end): (Duration, Instant),
    subject: &ModelUnderTest,
    length: usize,
) -> Option<f64> {
    let text = text(length);
    let count = (subject.batch_tokens / length).max(1);
    let batch = vec![&text; count];
    let seen = turn((time, end), LEAST, subject.cores, &|| subject.batch(&batch))?;
    Some(seen.rate() * count as f64)
}

/// Runs clients that send the next request as soon as they have an answer. They are observed from the time
/// when each had its first one, for the given time, and until each had another and there are `least` in all.
/// `None` if that was not so at `end`.
fn turn(
    (time, end): (Duration, Instant),
    least: usize,
    clients: usize,
    ask: &(dyn Fn() + Sync),
) -> Option<TurnLatencies> {
    let answered: Vec<AtomicUsize> = (0..clients).map(|_| AtomicUsize::new(0)).collect();
    let (watched, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let client = |answered: &AtomicUsize| {
        let mut samples = TimeSamples::new();
        while !ended.load(Ordering::Relaxed) {
            let asked = Instant::now();
            ask();
            if watched.load(Ordering::Relaxed) {
                samples.add(asked.elapsed());
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
        samples
    };
    let counts = || answered.iter().map(|count| count.load(Ordering::Relaxed));
    let (mut seen, mut is_complete) = (TurnLatencies::default(), true);
    std::thread::scope(|scope| {
        let threads: Vec<_> = answered.iter().map(|answered| scope.spawn(|| client(answered))).collect();
        // A client whose request fails ends, and is not waited for.
        let mut wait_until = |enough: &dyn Fn() -> bool| {
            while !enough() && !threads.iter().any(|one| one.is_finished()) {
                if Instant::now() >= end {
                    is_complete = false;
                    break;
                }
                std::thread::sleep(NAP);
            }
        };
        wait_until(&|| counts().all(|count| count > 0));
        let (began, processors) = (Instant::now(), process_time());
        let before: Vec<usize> = counts().collect();
        watched.store(true, Ordering::Relaxed);
        wait_until(&|| {
            let since = || counts().zip(&before).map(|(now, before)| now - before);
            began.elapsed() >= time && since().all(|count| count > 0) && since().sum::<usize>() >= least
        });
        watched.store(false, Ordering::Relaxed);
        (seen.time, seen.processors) = (began.elapsed(), process_time().saturating_sub(processors));
        ended.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(samples) => seen.latency.merge(&samples),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    is_complete.then_some(seen)
}
