use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::scheduler::RunCost;

/// Usage of a model since the start of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelUsage {
    /// Number of runs.
    pub runs: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of tokens, without padding.
    pub tokens: u64,
    /// Number of padding tokens.
    pub padding: u64,
    /// Waiting time of sequences, in microseconds.
    pub queue_us: u64,
    /// Duration of runs, in microseconds.
    pub run_us: u64,
    /// Part of that duration inside ONNX Runtime, in microseconds.
    pub inside_us: u64,
    /// Sum over runs of the number of available threads.
    pub threads: u64,
    /// Number of sequences on which the model failed.
    pub failed: u64,
    /// Number of sequences rejected because too many were waiting.
    pub refused: u64,
    /// Number of sequences dropped before their start because no caller waited for them any more.
    pub dropped: u64,
}

/// Usage counters of a model.
#[derive(Default)]
pub(crate) struct ModelCounters {
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

impl ModelCounters {
    pub fn waited(&self, time: Duration) {
        add(&self.queue_us, microseconds(time));
    }

    /// Counts a run over sequences of these lengths.
    pub fn ran(&self, lengths: &[usize], spent: RunCost, time: Duration) {
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

    pub fn read(&self) -> ModelUsage {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ModelUsage {
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
