use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::scheduler::Spent;

/// What a model has done since the node started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Runs of the model.
    pub runs: u64,
    /// Sequences that ran.
    pub sequences: u64,
    /// Their tokens, without padding.
    pub tokens: u64,
    /// Tokens of padding.
    pub padding: u64,
    /// The time that sequences waited, in microseconds.
    pub queue_us: u64,
    /// The time of the runs, in microseconds.
    pub run_us: u64,
    /// Of it inside ONNX Runtime, in microseconds.
    pub inside_us: u64,
    /// The threads that each run could use, added up.
    pub threads: u64,
    /// Sequences that the model failed on.
    pub failed: u64,
    /// Sequences that were refused because too many waited.
    pub refused: u64,
    /// Sequences that were dropped unbegun because nobody waited for them any more.
    pub dropped: u64,
}

/// Counts the usage of a model.
#[derive(Default)]
pub(crate) struct Counters {
    runs: AtomicU64,
    sequences: AtomicU64,
    tokens: AtomicU64,
    padding: AtomicU64,
    queue_us: AtomicU64,
    run_us: AtomicU64,
    inside_us: AtomicU64,
    threads: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    pub fn waited(&self, time: Duration) {
        add(&self.queue_us, microseconds(time));
    }

    /// A run over sequences of these lengths.
    pub fn ran(&self, lengths: &[usize], spent: Spent, time: Duration) {
        let total: usize = lengths.iter().sum();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        add(&self.runs, 1);
        add(&self.sequences, lengths.len() as u64);
        add(&self.tokens, total as u64);
        add(&self.padding, (longest * lengths.len() - total) as u64);
        add(&self.run_us, microseconds(time));
        add(&self.inside_us, microseconds(spent.inside));
        add(&self.threads, spent.threads as u64);
    }

    pub fn failed(&self) {
        add(&self.failed, 1);
    }

    pub fn refused(&self, sequences: usize) {
        add(&self.refused, sequences as u64);
    }

    pub fn dropped(&self) {
        add(&self.dropped, 1);
    }

    pub fn read(&self) -> Usage {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            runs: of(&self.runs),
            sequences: of(&self.sequences),
            tokens: of(&self.tokens),
            padding: of(&self.padding),
            queue_us: of(&self.queue_us),
            run_us: of(&self.run_us),
            inside_us: of(&self.inside_us),
            threads: of(&self.threads),
            failed: of(&self.failed),
            refused: of(&self.refused),
            dropped: of(&self.dropped),
        }
    }
}
