//! A node's part in the reindexing of one document type.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::BucketId;

use super::buckets::ReindexedBuckets;
use super::{BucketHolders, NodeReindexMark, ReindexNotes, ReindexTask, WalkedPage};
use crate::{ClusterState, ClusterVersion, MachineTime, NodeKey};

/// Interval at which progress is stored. Repeating work after a crash is harmless.
const SAVE: Duration = Duration::from_secs(5);

/// Knowledge of the machine that a pass decides by.
pub(super) struct ReindexContext<'a> {
    pub me: NodeKey,
    pub now: MachineTime,
    pub state: &'a ClusterState,
    pub notes: &'a ReindexNotes,
    pub task: &'a ReindexTask,
}

/// Next action of a pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PassAction {
    /// There is nothing to do now: another type can be tried.
    Rest,
    /// Nodes must come back first.
    Wait,
    /// The mark must be stored.
    Save,
    /// This bucket is the next one.
    Inspect(BucketId),
    /// Everything is done, by all nodes.
    End,
}

/// A node's part in the reindexing of a document type.
pub(super) struct ReindexPass {
    pub mark: NodeReindexMark,
    /// True if the current mark is not stored.
    pub unsaved: bool,
    /// Time of the last attempt to store it.
    pub saved: Duration,
    /// Version of the cluster state on which the other fields are based.
    survey: Option<ClusterVersion>,
    /// Version of the survey that counts once the mark is stored.
    surveying: Option<ClusterVersion>,
    /// Buckets that this node owns and that are not done, the next one last.
    left: Vec<BucketId>,
    /// Positions at which to continue in partly done buckets.
    positions: BTreeMap<BucketId, String>,
}

impl ReindexPass {
    /// Continues from the mark that this node stored before its restart.
    pub fn resumed(context: &ReindexContext<'_>) -> Self {
        let before = context.notes.marks(context.task).remove(&context.me);
        ReindexPass {
            mark: before.unwrap_or_else(|| NodeReindexMark::new(context.task, now_ms(context.now))),
            unsaved: true,
            saved: context.now.monotonic,
            survey: None,
            surveying: None,
            left: Vec::new(),
            positions: BTreeMap::new(),
        }
    }

    pub fn next(&mut self, context: &ReindexContext<'_>) -> PassAction {
        if self.mark.waits(now_ms(context.now)) {
            // Operators see the reason in the mark.
            return if self.unsaved { PassAction::Save } else { PassAction::Rest };
        }
        if !context.state.all_serve() {
            // The mark says that this node has begun.
            return if self.unsaved { PassAction::Save } else { PassAction::Wait };
        }
        let version = context.state.version();
        if self.survey != Some(version) {
            self.survey(context);
            return PassAction::Save;
        }
        if self.unsaved && context.now.monotonic >= self.saved + SAVE {
            return PassAction::Save;
        }
        match self.left.last() {
            None => self.rest(context, version),
            Some(bucket) => PassAction::Inspect(*bucket),
        }
    }

    /// Determines what this node owns. That counts once the mark is stored: the record is then known to be
    /// the newest.
    fn survey(&mut self, context: &ReindexContext<'_>) {
        let state = context.state;
        let mut done = ReindexedBuckets::default();
        for mark in context.notes.marks(context.task).values().chain([&self.mark]) {
            done.extend(&mark.done);
            self.positions.extend(mark.at().map(|(bucket, position)| (bucket, position.to_owned())));
        }
        let own = state.buckets().filter(|bucket| state.owner(*bucket) == Some(context.me));
        self.left = own.filter(|bucket| !done.has(*bucket)).collect();
        self.left.sort_by_key(|bucket| std::cmp::Reverse(bucket.reversed_range()));
        self.surveying = Some(state.version());
        self.unsaved = true;
    }

    /// Everything here is done: reports so, and checks if it is everywhere.
    fn rest(&mut self, context: &ReindexContext<'_>, version: ClusterVersion) -> PassAction {
        if self.mark.clean != Some(version) {
            self.mark.clean_by(version);
            self.unsaved = true;
        }
        if self.unsaved {
            return PassAction::Save;
        }
        let marks = context.notes.marks(context.task);
        let is_done = |mark: &NodeReindexMark| mark.clean == Some(version);
        let nodes = context.state.nodes().iter().filter(|(_, node)| node.state.serves());
        if nodes.map(|(key, _)| marks.get(key)).all(|mark| mark.is_some_and(is_done)) {
            return PassAction::End;
        }
        // An earlier write may have arrived late, and replaced the last one.
        let is_stored = || {
            let stored = context.notes.mark_bytes(context.task, context.me);
            stored.is_some_and(|stored| *stored == *self.mark.to_bytes())
        };
        if context.now.monotonic >= self.saved + SAVE && !is_stored() {
            return PassAction::Save;
        }
        PassAction::Rest
    }

    /// The mark was stored, or not, as the record has changed.
    pub fn saved(&mut self, stored: bool, now: MachineTime) {
        self.saved = now.monotonic;
        let surveying = self.surveying.take();
        if stored {
            self.unsaved = false;
            self.survey = surveying.or(self.survey);
        }
    }

    /// Returns the page to process in a bucket: its position and the version of the state. `None` if there is
    /// nothing to process in it now.
    pub fn inspected(
        &mut self,
        bucket: BucketId,
        holders: &BucketHolders,
        me: NodeKey,
    ) -> Option<(Option<String>, ClusterVersion)> {
        let version = self.survey?;
        if holders.version != version {
            return None;
        }
        if holders.nodes.is_empty() {
            self.done(bucket);
            return None;
        }
        if !holders.full || !holders.nodes.contains(&me) {
            // The bucket is on its way here: others may be ready.
            self.postpone(bucket);
            return None;
        }
        Some((self.positions.get(&bucket).cloned(), version))
    }

    /// Tries the other buckets first.
    fn postpone(&mut self, bucket: BucketId) {
        if self.left.last() == Some(&bucket) {
            self.left.rotate_right(1);
        }
    }

    /// Records a processed page, if it counts: the node had the bucket, and owned it by the state of this
    /// version, from the beginning to the end.
    pub fn walked(&mut self, bucket: BucketId, version: ClusterVersion, page: WalkedPage) -> bool {
        if self.survey != Some(version) || !page.holds || !page.vouched {
            return false;
        }
        match page.position {
            Some(position) => {
                self.mark.set_at(Some((bucket, &position)));
                self.positions.insert(bucket, position);
                self.unsaved = true;
            }
            None => self.done(bucket),
        }
        true
    }

    fn done(&mut self, bucket: BucketId) {
        self.left.retain(|left| *left != bucket);
        self.positions.remove(&bucket);
        self.mark.done.add(bucket);
        self.mark.set_at(None);
        self.unsaved = true;
    }
}

pub(super) fn now_ms(now: MachineTime) -> u64 {
    now.wall_us / 1_000
}
