//! Queue of waiting work, in order of arrival, and the work in progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::ModelEntry;
use super::call::{RunGrant, SequenceCall};
use crate::batch::{self, BatchLimits};
use crate::{Error, SequenceStates, TokenizedText};

/// Waiting work.
pub(super) struct QueueEntry {
    pub owner: Arc<ModelEntry>,
    pub call: Arc<SequenceCall>,
    /// Index in the work of its call.
    pub at: usize,
    pub work: QueuedWork,
    pub arrived: Instant,
}

/// Kind of work.
pub(super) enum QueuedWork {
    /// A sequence, which may run together with others of the same model.
    Sequence(TokenizedText),
    /// A separate run over this number of rows; `None` once it has started.
    Job(Mutex<Option<Box<JobFunction>>>, usize),
}

/// A separate run of a model. It stores its result for the caller.
pub(super) type JobFunction = dyn FnOnce(&RunGrant) -> Result<(), Error> + Send;

impl QueuedWork {
    /// Size that it contributes to a batch.
    fn len(&self) -> usize {
        match self {
            QueuedWork::Sequence(sequence) => sequence.len(),
            QueuedWork::Job(..) => 0,
        }
    }
}

impl QueueEntry {
    /// The sequence, if it is one.
    pub fn sequence(&self) -> Option<&TokenizedText> {
        match &self.work {
            QueuedWork::Sequence(sequence) => Some(sequence),
            QueuedWork::Job(..) => None,
        }
    }

    pub fn finish(self, result: Result<SequenceStates, Error>) {
        self.call.finish(self.at, result);
    }
}

/// Waiting entries of all models, and the runs in progress.
#[derive(Default)]
pub(super) struct ModelQueue {
    entries: VecDeque<QueueEntry>,
    runs: Vec<InFlightRun>,
}

/// A run in progress.
struct InFlightRun {
    owner: Arc<ModelEntry>,
    entries: usize,
}

impl ModelQueue {
    /// Number of waiting entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of runs in progress.
    pub fn running(&self) -> usize {
        self.runs.len()
    }

    /// Number of entries of one model.
    pub fn len_of(&self, owner: &Arc<ModelEntry>) -> usize {
        self.entries.iter().filter(|entry| Arc::ptr_eq(&entry.owner, owner)).count()
    }

    pub fn push(&mut self, entry: QueueEntry) {
        self.entries.push_back(entry);
    }

    pub fn drain(&mut self) -> impl Iterator<Item = QueueEntry> + '_ {
        self.entries.drain(..)
    }

    /// Drops entries without a waiting caller.
    pub fn drop_abandoned(&mut self) {
        self.entries.retain(|entry| {
            let wanted = !entry.call.abandoned();
            if !wanted {
                entry.owner.counters.dropped();
                entry.call.finish(entry.at, Err(Error::Abandoned { model: entry.owner.name.clone() }));
            }
            wanted
        });
    }

    /// Takes the entry that waited longest with the entries of its model that fit, as one run. The size of a
    /// run is at most the number of the model's waiting and running entries, divided by the `slots` that
    /// other models leave it. Runs of few callers and of many thus approach the same size, and no caller
    /// waits for a run of many. Empty if nothing waits.
    pub fn take(&mut self, limits: BatchLimits, slots: usize) -> Vec<QueueEntry> {
        let Some(first) = self.entries.front() else { return Vec::new() };
        let owner = Arc::clone(&first.owner);
        let positions: Vec<usize> =
            (0..self.entries.len()).filter(|&at| Arc::ptr_eq(&self.entries[at].owner, &owner)).collect();
        let lengths: Vec<usize> = positions.iter().map(|&at| self.entries[at].work.len()).collect();
        let own_runs = self.runs.iter().filter(|run| Arc::ptr_eq(&run.owner, &owner));
        let (runs, in_flight) =
            own_runs.fold((0, 0), |(runs, entries), run| (runs + 1, entries + run.entries));
        let slots = slots.saturating_sub(self.runs.len() - runs).max(1);
        let share = (positions.len() + in_flight).div_ceil(slots);
        let own = owner.runner.limits();
        let limits = BatchLimits {
            tokens: limits.tokens.min(own.tokens),
            sequences: limits.sequences.min(own.sequences).min(share),
        };
        let mut chosen = batch::choose(&lengths, limits).into_iter().peekable();
        let mut taken = Vec::with_capacity(chosen.len());
        let mut kept = VecDeque::with_capacity(self.entries.len());
        for (at, entry) in self.entries.drain(..).enumerate() {
            if chosen.next_if(|&next| positions[next] == at).is_some() {
                taken.push(entry);
            } else {
                kept.push_back(entry);
            }
        }
        self.entries = kept;
        taken
    }

    /// Records the start of a run of `entries` entries.
    pub fn began(&mut self, owner: &Arc<ModelEntry>, entries: usize) {
        self.runs.push(InFlightRun { owner: Arc::clone(owner), entries });
    }

    /// Records the end of a run of `entries` entries.
    pub fn ended(&mut self, owner: &Arc<ModelEntry>, entries: usize) {
        let of = |run: &InFlightRun| Arc::ptr_eq(&run.owner, owner) && run.entries == entries;
        if let Some(at) = self.runs.iter().position(of) {
            self.runs.swap_remove(at);
        }
    }
}
