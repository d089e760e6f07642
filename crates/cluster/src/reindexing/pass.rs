//! A node's part in the reindexing of one document type.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use super::buckets::ReindexedBuckets;
use super::{BucketHolders, NodeReindexMark, ReindexNotes, ReindexTask, WalkedPage};
use crate::{ClusterState, ClusterVersion, MachineTime, NodeKey};

/// Interval at which progress is stored. Repeating work after a crash is harmless.
const SAVE: Duration = Duration::from_secs(5);

/// Time for which a node lets others know in advance that it rewrites documents. A removal of the type is as
/// of the end of that time, so that it is kept short.
const LEASE: Duration = Duration::from_secs(20);

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
    /// The next bucket.
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
    /// Time that no document may be rewritten after, by the stored mark.
    leased_us: u64,
}

/// The page to process next, in a bucket that was inspected.
pub(super) struct NextPage {
    pub position: Option<String>,
    pub version: ClusterVersion,
    pub until: Timestamp,
}

impl ReindexPass {
    /// Continues from the mark that this node stored before its restart.
    pub fn resumed(context: &ReindexContext<'_>) -> Self {
        let before = context.notes.marks_of_type(context.task).remove(&context.me);
        let mark = match before {
            Some(before) if before.is_of(context.task) => before,
            before => NodeReindexMark::new(context.task, before.as_ref(), now_ms(context.now)),
        };
        ReindexPass {
            mark,
            unsaved: true,
            saved: context.now.monotonic,
            survey: None,
            surveying: None,
            left: Vec::new(),
            positions: BTreeMap::new(),
            leased_us: 0,
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
        if !self.left.is_empty() && self.wants_lease() {
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
        self.extend(context.now.wall_us);
    }

    /// Lets the next mark say that documents are rewritten for some time from now on.
    fn extend(&mut self, now_us: u64) {
        self.mark.until_us = self.mark.until_us.max(now_us + LEASE.as_micros() as u64);
        self.unsaved = true;
    }

    /// True if the mark has to be stored before documents can be rewritten.
    pub fn wants_lease(&self) -> bool {
        self.mark.until_us > self.leased_us
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
            self.leased_us = self.mark.until_us;
            self.survey = surveying.or(self.survey);
        }
    }

    /// Returns the page to process in a bucket. `None` if there is nothing to process in it now, or if the
    /// mark has to be stored before.
    pub fn inspected(
        &mut self,
        bucket: BucketId,
        holders: &BucketHolders,
        me: NodeKey,
        now: MachineTime,
    ) -> Option<NextPage> {
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
        let now_us = now.wall_us.max(holders.newest.0);
        if now_us + LEASE.as_micros() as u64 / 2 > self.leased_us {
            self.extend(now_us);
            return None;
        }
        let position = self.positions.get(&bucket).cloned();
        Some(NextPage { position, version, until: Timestamp(self.leased_us) })
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
        if self.survey != Some(version) || !page.holds || !page.confirmed {
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
