//! Times of code: samples with percentiles, and alternating measurements.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use millrace_client::feed::FeedReport;
use rustix::time::ClockId;

use crate::Error;

/// Maximum time that is distinguished from longer ones.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Times of one repeated operation, to three digits, up to an hour.
#[derive(Debug, Clone)]
pub struct TimeSamples {
    histogram: Histogram<u64>,
    total: Duration,
}

impl Default for TimeSamples {
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, HOUR_NS, 3).expect("these bounds are what histograms can have");
        TimeSamples { histogram, total: Duration::ZERO }
    }
}

impl TimeSamples {
    /// Creates an empty set of samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanoseconds);
        self.total += time;
    }

    /// Adds all samples of another.
    pub fn merge(&mut self, other: &TimeSamples) {
        self.histogram.add(&other.histogram).expect("histograms of the same bounds fit each other");
        self.total += other.total;
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Seconds that this share of samples (0 to 1) does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1e9
    }

    /// Seconds of the sample in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Seconds of the fastest: the time without disturbances.
    pub fn fastest(&self) -> f64 {
        self.histogram.min() as f64 / 1e9
    }

    /// Seconds of the slowest.
    pub fn slowest(&self) -> f64 {
        self.histogram.max() as f64 / 1e9
    }

    /// Total seconds.
    pub fn total(&self) -> f64 {
        self.total.as_secs_f64()
    }
}

/// Time of one call. Its return value is not optimized away.
pub fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

/// Calls `run` once to warm up and then for at least `budget` and `least` times.
pub fn repeatedly<T>(budget: Duration, least: usize, mut run: impl FnMut() -> T) -> TimeSamples {
    black_box(run());
    let mut samples = TimeSamples::new();
    let start = Instant::now();
    while samples.len() < least as u64 || start.elapsed() < budget {
        samples.add(time(&mut run));
    }
    samples
}

/// Calls the two in turns, for at least `budget` and `least` times each after a call to warm up: a
/// disturbance affects both.
pub fn alternately<A, B>(
    budget: Duration,
    least: usize,
    mut first: impl FnMut() -> A,
    mut second: impl FnMut() -> B,
) -> (TimeSamples, TimeSamples) {
    black_box(first());
    black_box(second());
    let (mut of_first, mut of_second) = (TimeSamples::new(), TimeSamples::new());
    let start = Instant::now();
    while of_first.len() < least as u64 || start.elapsed() < budget {
        of_first.add(time(&mut first));
        of_second.add(time(&mut second));
    }
    (of_first, of_second)
}

/// Processor time of this process, including ended threads.
pub fn process_time() -> Duration {
    of_clock(ClockId::ProcessCPUTime)
}

/// Processor time of this thread.
pub fn thread_time() -> Duration {
    of_clock(ClockId::ThreadCPUTime)
}

/// Processor time of another process, of all its threads.
///
/// # Errors
/// The process has ended, or the system does not report it.
pub(crate) fn process_time_of(process: u32) -> Result<Duration, Error> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    let time = time_of_stat(&stat);
    time.ok_or_else(|| Error::Failed(format!("{path} does not say how much processor time was used")))
}

/// Times in user and in system mode from the text of `/proc/PROCESS/stat`.
fn time_of_stat(stat: &str) -> Option<Duration> {
    /// Length of a tick in `/proc`: a constant of Linux.
    const TICK: Duration = Duration::from_millis(10);
    // The second field is the name of the program, which may have spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    let (user, system) = (times.next()??, times.next()??);
    Some(TICK * user + TICK * system)
}

fn of_clock(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> Option<u64> {
    resident_bytes_of("self")
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Bytes that this process has read from files and sockets so far, from the page cache or the disk.
///
/// # Errors
/// The system does not report it.
pub(crate) fn bytes_read() -> Result<u64, Error> {
    let path = std::path::Path::new("/proc/self/io");
    let counters = std::fs::read_to_string(path).map_err(Error::file(path))?;
    let read = counters.lines().find_map(|line| line.strip_prefix("rchar:")?.trim().parse().ok());
    read.ok_or_else(|| Error::failed("/proc/self/io does not say how many bytes were read"))
}

/// Documents that were fed in several rounds, with the time and the processor time that they took.
#[derive(Debug, Default)]
pub(crate) struct FeedMeasurement {
    documents: u64,
    took: Duration,
    used: Duration,
}

impl FeedMeasurement {
    /// Feeds `expected` documents by a function, and adds them.
    ///
    /// # Errors
    /// The function fails, or another number of documents was fed.
    pub(crate) fn add<E: std::fmt::Display>(
        &mut self,
        expected: u64,
        feed: impl FnOnce() -> Result<FeedReport, E>,
    ) -> Result<(), Error> {
        let (before, began) = (process_time(), Instant::now());
        let done = feed().map_err(Error::failed)?.progress.done;
        self.took += began.elapsed();
        self.used += process_time().saturating_sub(before);
        self.documents += done;
        match done == expected {
            true => Ok(()),
            false => Err(Error::Failed(format!("{done} of {expected} were fed"))),
        }
    }

    /// Time of all rounds.
    pub(crate) const fn took(&self) -> Duration {
        self.took
    }

    /// Documents a second.
    pub(crate) fn rate(&self) -> f64 {
        self.documents as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Documents for a second of processor time.
    pub(crate) fn per_processor_second(&self) -> f64 {
        self.documents as f64 / self.used.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let mut samples = TimeSamples::new();
        (1..=1000).for_each(|ms| samples.add(Duration::from_millis(ms)));
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.002;
        assert!(near(samples.median(), 0.5) && near(samples.quantile(0.99), 0.99));
        assert!(near(samples.fastest(), 0.001) && near(samples.slowest(), 1.0));
        assert!(near(samples.total(), 500.5));
        let mut both = TimeSamples::new();
        both.merge(&samples);
        both.merge(&samples);
        assert_eq!(both.len(), 2000);
    }

    #[test]
    fn both_are_called_as_often() {
        let (mut first, mut second) = (0, 0);
        let (a, b) = alternately(Duration::ZERO, 5, || first += 1, || second += 1);
        assert_eq!((a.len(), b.len(), first, second), (5, 5, 6, 6));
    }

    #[test]
    fn this_process_uses_processors() {
        let before = process_time();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            black_box(0);
        }
        let spent = process_time().saturating_sub(before);
        assert!(spent > Duration::ZERO, "{spent:?}");
    }

    #[test]
    fn times_of_processes_are_read_from_the_files_of_proc() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 1000 99 5";
        assert_eq!(time_of_stat(stat), Some(Duration::from_secs(3)));
        assert_eq!((time_of_stat("7 (a) S 1"), time_of_stat("")), (None, None));
        assert!(process_time_of(std::process::id()).is_ok());
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
