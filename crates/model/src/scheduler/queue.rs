//! What waits, in order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Owner;
use super::call::{Call, Grant};
use crate::batch::{self, Limits};
use crate::{Error, Sequence, States};

/// Work that waits.
pub(super) struct Entry {
    pub owner: Arc<Owner>,
    pub call: Arc<Call>,
    /// Its place among the work of its call.
    pub at: usize,
    pub work: Work,
    pub arrived: Instant,
}

/// What is to be done.
pub(super) enum Work {
    /// A sequence, which may run beside others of the same model.
    Sequence(Sequence),
    /// A run by itself, over so many rows; none once it has begun.
    Job(Mutex<Option<Box<JobFunction>>>, usize),
}

/// A run of a model by itself. What comes of it it puts where its caller looks.
pub(super) type JobFunction = dyn FnOnce(&Grant) -> Result<(), Error> + Send;

impl Work {
    /// What it counts in a batch.
    fn len(&self) -> usize {
        match self {
            Work::Sequence(sequence) => sequence.len(),
            Work::Job(..) => 0,
        }
    }
}

impl Entry {
    /// The sequence, where it is one.
    pub fn sequence(&self) -> Option<&Sequence> {
        match &self.work {
            Work::Sequence(sequence) => Some(sequence),
            Work::Job(..) => None,
        }
    }

    pub fn finish(self, result: Result<States, Error>) {
        self.call.finish(self.at, result);
    }
}

/// Entries of all models.
#[derive(Default)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries of one model.
    pub fn len_of(&self, owner: &Arc<Owner>) -> usize {
        self.entries.iter().filter(|entry| Arc::ptr_eq(&entry.owner, owner)).count()
    }

    pub fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.drain(..)
    }

    /// Drops those that nobody waits for.
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

    /// The one that waited longest with those of its model that go with it, and not more than one slot's part of them when `free` slots
    /// could share them. Empty for none waiting.
    pub fn take(&mut self, limits: Limits, free: usize) -> Vec<Entry> {
        let Some(first) = self.entries.front() else { return Vec::new() };
        let owner = Arc::clone(&first.owner);
        let positions: Vec<usize> =
            (0..self.entries.len()).filter(|&at| Arc::ptr_eq(&self.entries[at].owner, &owner)).collect();
        let lengths: Vec<usize> = positions.iter().map(|&at| self.entries[at].work.len()).collect();
        let share = positions.len().div_ceil(free.max(1));
        let own = owner.runner.limits();
        let limits = Limits {
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
}
