//! Streams with a key: one that is sent again, until its answer arrives, is executed once.
//!
//! While a stream is in flight, a second one with its key is refused. Afterwards the answer is kept, durably
//! before its last line is sent, and given again to the same body. A stream that has ended without a whole
//! answer is executed again. Each node keeps the keys of the streams that clients have sent to it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use millrace_env::{Disk, WallClock};
use millrace_node::Error;
use millrace_node::metrics::MetricGauge;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::answer_log::{AnswerLog, AnsweredStream};
use super::key::Sha256Digest;

/// Size in bytes of all answers from which on those that follow are kept without the lines of failures.
const LINES_BYTES_MAX: usize = 8 << 20;

/// Bounds on the keys that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredKeyBounds {
    /// Time for which an answer is kept.
    pub(crate) time: Duration,
    /// Maximum number of keys that are kept or in flight.
    pub(crate) keys: usize,
}

/// The keys that are kept or in flight.
pub(crate) struct AnsweredKeys {
    clock: Arc<dyn WallClock>,
    bounds: AnsweredKeyBounds,
    state: Mutex<KeyTable>,
    /// Answers that wait for the log.
    pending: Mutex<Vec<PendingAnswer>>,
    /// Locked before the others.
    log: Mutex<AnswerLog>,
}

/// An answer that waits for the log.
struct PendingAnswer {
    answered: AnsweredStream,
    written: oneshot::Sender<Result<(), Error>>,
}

#[derive(Default)]
struct KeyTable {
    /// Answers, the oldest first.
    answers: VecDeque<AnsweredStream>,
    /// Number of the answer of each key, counted from the first one of the process.
    by_key: HashMap<Sha256Digest, u64>,
    /// Number of answers that are no longer kept.
    dropped: u64,
    /// Size of the answers in bytes.
    bytes: usize,
    in_flight: HashSet<Sha256Digest>,
    /// Number of streams that were answered by a kept answer.
    repeated: u64,
}

impl KeyTable {
    fn keep(&mut self, answered: AnsweredStream) {
        self.bytes += answered.answer.len();
        self.by_key.insert(answered.key, self.dropped + self.answers.len() as u64);
        self.answers.push_back(answered);
    }

    /// Drops what is older than is kept.
    fn expire(&mut self, now_us: u64, kept: Duration) {
        let is_old = |answered: &AnsweredStream| {
            u128::from(now_us.saturating_sub(answered.time_us)) >= kept.as_micros()
        };
        while self.answers.front().is_some_and(is_old) {
            let old = self.answers.pop_front().expect("there is a first one");
            self.bytes -= old.answer.len();
            if self.by_key.get(&old.key) == Some(&self.dropped) {
                self.by_key.remove(&old.key);
            }
            self.dropped += 1;
        }
    }

    fn get(&self, key: &Sha256Digest) -> Option<&AnsweredStream> {
        self.answers.get(usize::try_from(self.by_key.get(key)? - self.dropped).ok()?)
    }
}

/// State of a key at the beginning of a stream.
pub(super) enum KeyState {
    New(ActiveStreamKey),
    Answered(AnsweredStream),
}

/// A key whose stream is in flight, until this is dropped.
pub(super) struct ActiveStreamKey {
    keys: Arc<AnsweredKeys>,
    key: Sha256Digest,
}

impl AnsweredKeys {
    /// Reads the answers that are still kept.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        clock: Arc<dyn WallClock>,
        bounds: AnsweredKeyBounds,
    ) -> io::Result<Arc<Self>> {
        let (log, answers) = AnswerLog::open(disk, directory)?;
        let mut state = KeyTable::default();
        let now_us = clock.now_us();
        for mut answered in answers {
            // The clock may have been set back meanwhile.
            answered.time_us = answered.time_us.min(now_us);
            // A file that replaces another repeats its answers.
            if state.get(&answered.key) != Some(&answered) {
                state.keep(answered);
            }
        }
        state.expire(now_us, bounds.time);
        let (state, pending, log) = (Mutex::new(state), Mutex::default(), Mutex::new(log));
        Ok(Arc::new(AnsweredKeys { clock, bounds, state, pending, log }))
    }

    /// Begins a stream with this key, or returns the answer that it was given.
    ///
    /// # Errors
    /// A stream with the key is in flight; too many keys are kept.
    pub(super) fn find(self: &Arc<Self>, key: Sha256Digest) -> Result<KeyState, Error> {
        let mut state = self.state.lock();
        let now_us = self.clock.now_us();
        state.expire(now_us, self.bounds.time);
        if let Some(answered) = state.get(&key) {
            return Ok(KeyState::Answered(answered.clone()));
        }
        if state.in_flight.contains(&key) {
            let reason = "a stream with this Idempotency-Key, or with dedupe=body and this body, is in flight; send it again when \
                          that has ended";
            return Err(Error::Conflict(reason.to_owned()));
        }
        if state.answers.len() + state.in_flight.len() >= self.bounds.keys {
            let age = |first: &AnsweredStream| Duration::from_micros(now_us.saturating_sub(first.time_us));
            let oldest = state.answers.front().map_or(self.bounds.time, age);
            let retry_after_s = self.bounds.time.saturating_sub(oldest).as_secs() + 1;
            return Err(Error::NoRoom { setting: "feed-keys-max", retry_after_s });
        }
        state.in_flight.insert(key);
        Ok(KeyState::New(ActiveStreamKey { keys: Arc::clone(self), key }))
    }

    /// Counts a stream that was answered by a kept answer.
    pub(super) fn count_repeated(&self) {
        self.state.lock().repeated += 1;
    }

    /// Writes all answers that wait, with one sync, and keeps them.
    fn write_pending(&self) {
        let mut log = self.log.lock();
        let pending = std::mem::take(&mut *self.pending.lock());
        if pending.is_empty() {
            // Another thread has written them.
            return;
        }
        let kept = || {
            let mut state = self.state.lock();
            state.expire(self.clock.now_us(), self.bounds.time);
            state.answers.iter().cloned().collect()
        };
        let outcome = log.append(pending.iter().map(|pending| &pending.answered), kept);
        for PendingAnswer { answered, written } in pending {
            let outcome = match &outcome {
                Ok(()) => {
                    self.state.lock().keep(answered);
                    Ok(())
                }
                Err(error) => Err(not_kept(error)),
            };
            // The stream may be gone; its answer is kept all the same.
            let _ = written.send(outcome);
        }
    }

    /// Gauges of the keys.
    pub(crate) fn gauges(&self) -> [MetricGauge; 2] {
        let state = self.state.lock();
        [
            MetricGauge::new(
                "millrace.feed.keys",
                "Idempotency keys that are kept or in flight",
                (state.answers.len() + state.in_flight.len()) as f64,
            ),
            MetricGauge::counted(
                "millrace.feed.repeated",
                "Streams that were answered by the answer of an earlier one",
                state.repeated,
            ),
        ]
    }
}

fn not_kept(error: &io::Error) -> Error {
    let reason = format!("the answer for the key of the stream cannot be kept: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull(reason),
        _ => Error::Internal(reason),
    }
}

impl ActiveStreamKey {
    /// True if there is room for more than the totals in an answer that is kept.
    pub(super) fn keeps_lines(&self) -> bool {
        self.keys.state.lock().bytes < LINES_BYTES_MAX
    }

    /// Makes the answer of the stream durable, and keeps it.
    ///
    /// # Errors
    /// It cannot be made durable: the stream is executed again if it is sent again.
    pub(super) async fn record(self, body: Sha256Digest, answer: Bytes) -> Result<(), Error> {
        let keys = Arc::clone(&self.keys);
        let answered = AnsweredStream { time_us: keys.clock.now_us(), key: self.key, body, answer };
        let (written, outcome) = oneshot::channel();
        keys.pending.lock().push(PendingAnswer { answered, written });
        let write = tokio::task::spawn_blocking(move || keys.write_pending());
        // The key stays in flight until its answer is kept.
        let lost = |_| Error::Internal("the log of answers has failed; see the log".to_owned());
        let outcome = outcome.await.map_err(lost);
        drop(write);
        drop(self);
        outcome?
    }
}

impl Drop for ActiveStreamKey {
    fn drop(&mut self) {
        self.keys.state.lock().in_flight.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use millrace_env::{DiskFault, FaultyDisk, ManualClock, RealDisk};

    use super::*;

    const BOUNDS: AnsweredKeyBounds = AnsweredKeyBounds { time: Duration::from_secs(600), keys: 1000 };

    fn new(found: Result<KeyState, Error>) -> ActiveStreamKey {
        match found.expect("there is room") {
            KeyState::New(key) => key,
            KeyState::Answered(answered) => panic!("{answered:?}"),
        }
    }

    fn shown(found: Result<KeyState, Error>) -> String {
        match found {
            Ok(KeyState::New(_)) => "new".to_owned(),
            Ok(KeyState::Answered(answered)) => String::from_utf8_lossy(&answered.answer).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    async fn record(keys: &Arc<AnsweredKeys>, key: u8, answer: &'static str) -> Result<(), Error> {
        new(keys.find([key; 32])).record([9; 32], Bytes::from_static(answer.as_bytes())).await
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_its_time_through_restarts() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("answers");
        let clock = Arc::new(ManualClock::new(1_000_000));
        let open =
            || AnsweredKeys::open(Arc::new(RealDisk), path.clone(), clock.clone(), BOUNDS).expect("it opens");
        let keys = open();
        let first = new(keys.find([1; 32]));
        assert!(shown(keys.find([1; 32])).contains("is in flight"));
        drop(first);
        record(&keys, 1, "done").await.expect("it is written");
        for keys in [&keys, &open()] {
            assert_eq!(shown(keys.find([1; 32])), "done");
            assert_eq!(shown(keys.find([2; 32])), "new");
        }
        let kept_us = BOUNDS.time.as_micros() as u64;
        clock.set(1_000_000 + kept_us - 1);
        assert_eq!(shown(open().find([1; 32])), "done");
        clock.set(1_000_000 + kept_us);
        assert_eq!(shown(keys.find([1; 32])), "new");
        assert_eq!(shown(open().find([1; 32])), "new");
        // A clock that is set back keeps it no longer than one that is not.
        clock.set(10);
        let keys = open();
        assert_eq!(shown(keys.find([1; 32])), "done");
        clock.set(10 + kept_us);
        assert_eq!(shown(keys.find([1; 32])), "new");
    }

    #[tokio::test]
    async fn new_keys_are_refused_while_the_kept_ones_are_young() {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(0));
        let bounds = AnsweredKeyBounds { keys: 3, ..BOUNDS };
        let keys = AnsweredKeys::open(Arc::new(RealDisk), directory.path().to_owned(), clock.clone(), bounds)
            .expect("it opens");
        record(&keys, 1, "kept").await.expect("it is written");
        clock.set(100_000_000);
        let in_flight = [2, 3].map(|key| new(keys.find([key; 32])));
        let refused = shown(keys.find([7; 32]));
        assert!(refused.contains("feed-keys-max; try again in 501 s"), "{refused}");
        assert_eq!(shown(keys.find([1; 32])), "kept");
        drop(in_flight);
        assert_eq!(shown(keys.find([7; 32])), "new");
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_written_is_not_kept() {
        for fault in [DiskFault::Full { remaining: 0 }, DiskFault::FailSync] {
            let directory = tempfile::tempdir().expect("a directory");
            let disk = Arc::new(FaultyDisk::new(Arc::new(RealDisk)));
            let clock = Arc::new(ManualClock::new(0));
            let open = || {
                let path = directory.path().to_owned();
                AnsweredKeys::open(disk.clone(), path, clock.clone(), BOUNDS).expect("it opens")
            };
            let keys = open();
            record(&keys, 1, "one").await.expect("it is written");
            disk.inject(fault);
            let error = record(&keys, 2, "two").await.expect_err("it cannot be written").message();
            assert!(error.contains("cannot be kept"), "{error}");
            assert_eq!(shown(keys.find([2; 32])), "new");
            disk.heal();
            record(&keys, 2, "again").await.expect("it is written");
            for keys in [&keys, &open()] {
                assert_eq!([1, 2].map(|key| shown(keys.find([key; 32]))), ["one", "again"]);
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn answers_that_wait_together_are_all_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(0));
        let path = directory.path().to_owned();
        let open =
            || AnsweredKeys::open(Arc::new(RealDisk), path.clone(), clock.clone(), BOUNDS).expect("it opens");
        let keys = open();
        let mut in_flight = tokio::task::JoinSet::new();
        for key in 0..100 {
            let keys = Arc::clone(&keys);
            in_flight.spawn(async move { record(&keys, key, "done").await });
        }
        while let Some(outcome) = in_flight.join_next().await {
            outcome.expect("it ends").expect("it is written");
        }
        assert!((0..100).all(|key| shown(open().find([key; 32])) == "done"));
    }
}
