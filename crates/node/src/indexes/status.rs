//! Status of the indexes of a node.

use std::sync::Arc;

use super::opened::OpenedIndex;
use super::{IndexDefinition, NodeIndexes};

/// State of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Waiting for a request to build it.
    Deferred,
    /// Reading documents that it does not have yet.
    Building,
    /// Complete, and read by queries.
    Ready,
    /// Failed in its last step, which is tried again.
    Failed,
}

impl IndexState {
    /// The state of a name in status answers.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [IndexState::Deferred, IndexState::Building, IndexState::Ready, IndexState::Failed];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Name in status answers.
    pub fn name(self) -> &'static str {
        match self {
            IndexState::Deferred => "deferred",
            IndexState::Building => "building",
            IndexState::Ready => "ready",
            IndexState::Failed => "failed",
        }
    }
}

/// Status of an index.
#[derive(Clone)]
pub struct IndexStatus {
    /// The index.
    pub definition: Arc<IndexDefinition>,
    /// Its state.
    pub state: IndexState,
    /// Share of the documents that it has read, from 0 to 1.
    pub progress: f64,
    /// Seconds that the build should still take; known from 1 % on.
    pub seconds_left: Option<f64>,
    /// Number of entries, about.
    pub entries: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Number of files.
    pub runs: usize,
    /// Changes that wait for all indexes together.
    pub waiting: usize,
    /// Buckets whose documents are to be read again: replicas that have arrived or left.
    pub stale_buckets: usize,
    /// True if an earlier definition serves until this one is ready.
    pub replaced: bool,
    /// Reason of the last failure.
    pub reason: Option<String>,
}

impl NodeIndexes {
    /// Status of every index, by name.
    pub fn statuses(&self) -> Vec<IndexStatus> {
        let feed = &self.inner().feed;
        let (waiting, stale_buckets) = (feed.waiting(), feed.stale.len());
        let of = |index: &Arc<OpenedIndex>| IndexStatus { waiting, stale_buckets, ..status(index) };
        let mut statuses: Vec<IndexStatus> = self.inner().all().iter().map(of).collect();
        statuses.extend(self.inner().unopened().iter().map(|index| IndexStatus {
            definition: Arc::clone(&index.definition),
            state: IndexState::Failed,
            progress: 0.0,
            seconds_left: None,
            entries: 0,
            bytes: 0,
            runs: 0,
            waiting,
            stale_buckets,
            replaced: false,
            reason: Some(index.reason.clone()),
        }));
        statuses.sort_by(|one, other| one.definition.name().cmp(other.definition.name()));
        for at in 1..statuses.len() {
            if statuses[at - 1].definition.name() == statuses[at].definition.name() {
                statuses[at].replaced = true;
            }
        }
        statuses.dedup_by(|later, kept| {
            let is_same = later.definition.name() == kept.definition.name();
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        statuses
    }
}

fn status(index: &OpenedIndex) -> IndexStatus {
    let copy = index.copy.status();
    let reason = index.error();
    let state = match () {
        () if reason.is_some() => IndexState::Failed,
        () if index.is_ready() => IndexState::Ready,
        () if index.is_deferred() => IndexState::Deferred,
        () => IndexState::Building,
    };
    IndexStatus {
        definition: Arc::clone(&index.definition),
        state,
        progress: index.progress(),
        seconds_left: index.seconds_left().filter(|_| state == IndexState::Building),
        entries: copy.entries,
        bytes: copy.bytes,
        runs: copy.runs,
        waiting: 0,
        stale_buckets: 0,
        replaced: false,
        reason,
    }
}
