//! The copies of a node: what the table gives it, what they follow, and what they take in.

mod effects;
mod erasing;
mod flushing;
mod rechecking;
mod reporting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, NodeKey};
use millrace_document::Timestamp;
use millrace_index::Error as CopyError;
use millrace_index_feed::{
    BatchReceipt, CopyDefinition, CopyFreshness, CopyMarks, CopyNumber, FeedBatch, FeedChange, FeedCut,
    FollowEffect, FollowRequest, IndexFeedFollower, OwnerPosition,
};
use millrace_index_placement::{CopyId, PlacedCopy, PlacedCopyState, PlacementTable, SliceId};

use super::super::opened::IndexDirectory;
use super::kept::{StoredCopy, StoredDefinition};
use super::message::{KeyedRead, VersionKeys};
use super::pacing::ReadPacing;
use super::pages::slice_bucket;

/// Time for which a copy answers after the table says that it leaves.
const LEAVING: Duration = Duration::from_secs(10);

/// Time for which a copy is reported as failed before it is removed.
const FAILED: Duration = Duration::from_secs(30);

/// Pause before a copy goes on whose rows lacked its keys.
const SUSPENDED: Duration = Duration::from_secs(5);

/// Request that a copy needs.
#[derive(Debug, PartialEq)]
pub(super) enum CopyAction {
    /// Ask an owner to be fed.
    Follow { owner: NodeKey, request: FollowRequest, definitions: BTreeSet<u64> },
    /// Ask an owner to read documents.
    Read { owner: NodeKey, reads: Vec<KeyedRead> },
    /// Ask owners for their positions.
    AskPositions { copy: CopyId, owners: BTreeSet<NodeKey> },
    /// Take over the files of another node's copy.
    Import(ImportOrder),
}

impl CopyAction {
    /// The owner that is asked to feed.
    fn follows(&self) -> Option<NodeKey> {
        match self {
            CopyAction::Follow { owner, .. } => Some(*owner),
            _ => None,
        }
    }
}

/// Order to take over a copy.
#[derive(Debug, Clone)]
pub(super) struct ImportOrder {
    pub copy: CopyId,
    pub slice: SliceId,
    pub definition: StoredDefinition,
    pub from: NodeKey,
    pub status: Arc<ImportStatus>,
}

impl PartialEq for ImportOrder {
    fn eq(&self, other: &Self) -> bool {
        (self.copy, self.slice, &self.definition, self.from)
            == (other.copy, other.slice, &other.definition, other.from)
    }
}

/// Progress of an import, shared with its task.
#[derive(Debug, Default)]
pub(super) struct ImportStatus {
    pub bytes: AtomicU64,
    pub received: AtomicU64,
    /// True once its result is not wanted.
    pub is_cancelled: AtomicBool,
}

/// Result of an import.
pub(super) enum ImportOutcome {
    Received(StoredCopy, CopyMarks),
    /// The copy cannot be had by file.
    Refused(String),
    Failed(CopyError),
}

/// A copy in the table.
struct NodeCopy {
    slice: SliceId,
    stage: CopyStage,
    /// Beginning of the stage.
    began: Instant,
    /// Time at which the table said first that it leaves.
    leaving: Option<Instant>,
}

enum CopyStage {
    /// The node does not know the definition yet.
    Unknown,
    Importing {
        from: NodeKey,
        status: Arc<ImportStatus>,
    },
    Open(OpenCopy),
    Failed {
        reason: Arc<str>,
        at: Instant,
    },
    Gone,
}

struct OpenCopy {
    kept: Arc<StoredCopy>,
    /// Time at which it goes on, and from where, while it takes nothing in.
    suspended: Option<(Instant, CopyMarks)>,
    /// Time of the last writing; `None` to write it soon.
    flushed: Option<Instant>,
}

/// A copy that is to be written.
pub(super) struct DueFlush {
    pub copy: CopyId,
    pub kept: Arc<StoredCopy>,
    pub marks: CopyMarks,
}

/// A copy that is read.
pub(super) struct ReadableCopy {
    pub kept: Arc<StoredCopy>,
    /// Owners of the buckets of its slice.
    pub owners: BTreeSet<NodeKey>,
}

/// The copies of a node.
pub(super) struct NodeCopies {
    place: Arc<IndexDirectory>,
    own: NodeKey,
    follower: IndexFeedFollower<VersionKeys>,
    state: Option<Arc<ClusterState>>,
    copies: BTreeMap<CopyId, NodeCopy>,
    pacing: ReadPacing,
    /// The last request to each owner.
    requests: BTreeMap<NodeKey, FollowRequest>,
    /// False while there may be files of copies that the table does not have.
    is_tidy: bool,
    /// Lag above which a copy does not answer queries that need not see every write.
    lag_max: Option<Duration>,
    /// Time until which dropped documents are to be erased.
    erase_until: Timestamp,
}

/// Looks up the document type of a definition.
pub(super) type KnownTypes<'a> = dyn Fn(u64) -> Option<String> + 'a;

/// Table of copies that is adopted.
#[derive(Clone, Copy)]
struct AdoptedTable<'a> {
    table: &'a PlacementTable,
    types: &'a KnownTypes<'a>,
    now: Timestamp,
}

impl NodeCopies {
    /// The copies of a process that starts. `run` is greater than those of all processes before.
    pub fn new(place: Arc<IndexDirectory>, own: NodeKey, run: u64) -> Self {
        NodeCopies {
            place,
            own,
            follower: IndexFeedFollower::new(run),
            state: None,
            copies: BTreeMap::new(),
            pacing: ReadPacing::default(),
            requests: BTreeMap::new(),
            is_tidy: false,
            lag_max: None,
            erase_until: Timestamp(0),
        }
    }

    /// True if the table is to be looked at again: a copy waits for its definition, or can be made again, or
    /// files could not be removed.
    pub fn waits(&self) -> bool {
        !self.is_tidy || self.copies.values().any(|copy| matches!(copy.stage, CopyStage::Unknown))
    }

    /// Adopts a cluster state.
    pub fn adopt_state(&mut self, state: &Arc<ClusterState>, now: Timestamp) -> Vec<CopyAction> {
        let version = state.version();
        if self.state.as_ref().is_some_and(|known| known.version() >= version) {
            return Vec::new();
        }
        self.state = Some(Arc::clone(state));
        self.requests.retain(|owner, _| state.nodes().contains_key(owner));
        let owners = state.buckets().map(|bucket| (bucket, state.owner(bucket))).collect();
        let effects = self.follower.adopt(version.number(), owners, now);
        self.carry_out(effects, now)
    }

    /// Makes, keeps and removes copies as a table says.
    pub fn adopt_table(
        &mut self,
        table: &PlacementTable,
        types: &KnownTypes<'_>,
        now: Timestamp,
    ) -> Vec<CopyAction> {
        self.lag_max = table.settings().lag_max();
        let mut actions = Vec::new();
        let placed: BTreeMap<CopyId, (SliceId, PlacedCopy)> =
            table.of_node(self.own).map(|(slice, copy)| (copy.id, (slice, copy.clone()))).collect();
        let known: Vec<CopyId> = self.copies.keys().copied().collect();
        for copy in known.into_iter().filter(|copy| !placed.contains_key(copy)) {
            actions.extend(self.remove(copy, now));
            self.copies.remove(&copy);
        }
        if !self.is_tidy {
            let files = self
                .place
                .list()
                .inspect_err(|error| tracing::warn!(%error, "copies of indexes cannot be listed"));
            self.is_tidy = files.is_ok();
            for copy in files.unwrap_or_default().into_iter().filter(|copy| !placed.contains_key(copy)) {
                self.remove_files(copy);
            }
        }
        let adopted = AdoptedTable { table, types, now };
        for (slice, copy) in placed.into_values() {
            actions.extend(self.keep(slice, &copy, adopted));
        }
        actions
    }

    /// Keeps one copy as the table says.
    fn keep(&mut self, slice: SliceId, placed: &PlacedCopy, adopted: AdoptedTable<'_>) -> Vec<CopyAction> {
        let began = Instant::now();
        let fresh = NodeCopy { slice, stage: CopyStage::Unknown, began, leaving: None };
        let copy = self.copies.entry(placed.id).or_insert(fresh);
        if placed.state == PlacedCopyState::Leaving {
            copy.leaving.get_or_insert(began);
        }
        let from = match placed.state {
            PlacedCopyState::Made { from, .. } => from,
            PlacedCopyState::Ready | PlacedCopyState::Leaving => None,
        };
        if let CopyStage::Importing { from: former, status, .. } = &copy.stage
            && Some(*former) != from
        {
            // It comes from another node now, or from the documents, once the import has left its files.
            status.is_cancelled.store(true, Ordering::SeqCst);
        }
        if !matches!(copy.stage, CopyStage::Unknown) {
            return Vec::new();
        }
        match self.begin(slice, placed, adopted) {
            Ok(actions) => actions,
            Err(error) => self.fail(placed.id, &error, adopted.now),
        }
    }

    /// Opens a copy that is on the disk, or begins to make it.
    fn begin(
        &mut self,
        slice: SliceId,
        placed: &PlacedCopy,
        adopted: AdoptedTable<'_>,
    ) -> Result<Vec<CopyAction>, CopyError> {
        let (id, AdoptedTable { table, types, now }) = (placed.id, adopted);
        let Some(index) = table.indexes().get(&slice.index) else { return Ok(Vec::new()) };
        let hash = index.definition.0;
        let known = self.place.read_definition(id)?;
        let of_files = known.as_ref().filter(|known| known.definition == hash);
        let document_type = types(hash).or_else(|| of_files.map(|known| known.document_type.clone()));
        let Some(document_type) = document_type else {
            if !placed.is_made() && known.is_none() {
                self.set_stage(id, CopyStage::Gone);
            }
            return Ok(Vec::new());
        };
        let bucket = slice_bucket(slice.slice, index.slices.len());
        let definition = StoredDefinition { definition: hash, document_type, slice: bucket };
        let has_files = known.as_ref() == Some(&definition);
        match placed.state {
            PlacedCopyState::Ready | PlacedCopyState::Leaving if !has_files => {
                self.set_stage(id, CopyStage::Gone);
                Ok(Vec::new())
            }
            PlacedCopyState::Made { from: Some(from), .. } if !has_files && from != self.own => {
                let status = Arc::<ImportStatus>::default();
                let stage = CopyStage::Importing { from, status: Arc::clone(&status) };
                self.set_stage(id, stage);
                Ok(vec![CopyAction::Import(ImportOrder { copy: id, slice, definition, from, status })])
            }
            _ => {
                let (kept, marks) = self.place.open(id, &definition)?;
                let is_lost = !placed.is_made() && !kept.status().built;
                if is_lost {
                    kept.discard();
                    self.set_stage(id, CopyStage::Gone);
                    return Ok(Vec::new());
                }
                Ok(self.open(id, kept, &marks, now))
            }
        }
    }

    fn set_stage(&mut self, id: CopyId, stage: CopyStage) {
        if let Some(copy) = self.copies.get_mut(&id) {
            copy.stage = stage;
            copy.began = Instant::now();
        }
    }

    /// Lets a copy follow.
    fn open(&mut self, id: CopyId, kept: StoredCopy, marks: &CopyMarks, now: Timestamp) -> Vec<CopyAction> {
        let definition = followed(&kept.definition);
        let flushed = Some(Instant::now());
        self.set_stage(id, CopyStage::Open(OpenCopy { kept: Arc::new(kept), suspended: None, flushed }));
        let effects = self.follower.add_copy(number(id), definition, marks, now);
        let mut actions = self.carry_out(effects, now);
        // Owners that are followed already learn of the definition by a request that comes again.
        let informed: BTreeSet<NodeKey> = actions.iter().filter_map(CopyAction::follows).collect();
        let again = self.requests.iter().filter(|(owner, _)| !informed.contains(owner));
        let definitions = self.definitions();
        let again: Vec<CopyAction> = again
            .map(|(owner, request)| CopyAction::Follow {
                owner: *owner,
                request: request.clone(),
                definitions: definitions.clone(),
            })
            .collect();
        // Before the reads.
        actions.splice(0..0, again);
        actions
    }

    /// Definitions of all open copies.
    fn definitions(&self) -> BTreeSet<u64> {
        let open = self.copies.values().filter_map(|copy| match &copy.stage {
            CopyStage::Open(open) => Some(open.kept.definition.definition),
            _ => None,
        });
        open.collect()
    }

    /// An import has ended.
    pub fn imported(
        &mut self,
        order: &ImportOrder,
        outcome: ImportOutcome,
        now: Timestamp,
    ) -> Vec<CopyAction> {
        let id = order.copy;
        let is_wanted = self.copies.get(&id).is_some_and(|copy| {
            matches!(&copy.stage, CopyStage::Importing { status, .. } if Arc::ptr_eq(status, &order.status))
        });
        if !is_wanted || order.status.is_cancelled.load(Ordering::SeqCst) {
            if let ImportOutcome::Received(kept, _) = outcome {
                kept.discard();
            }
            match self.copies.contains_key(&id) {
                true if is_wanted => self.set_stage(id, CopyStage::Unknown),
                true => {}
                false => self.remove_files(id),
            }
            return Vec::new();
        }
        match outcome {
            ImportOutcome::Received(kept, marks) => self.open(id, kept, &marks, now),
            ImportOutcome::Refused(reason) => {
                tracing::warn!(copy = id.0, reason, "a copy of an index is built from the documents instead");
                match self.place.open(id, &order.definition) {
                    Ok((kept, marks)) => self.open(id, kept, &marks, now),
                    Err(error) => self.fail(id, &error, now),
                }
            }
            ImportOutcome::Failed(error) => self.fail(id, &error, now),
        }
    }

    /// A copy cannot be kept.
    pub fn fail(&mut self, id: CopyId, error: &CopyError, now: Timestamp) -> Vec<CopyAction> {
        tracing::error!(%error, copy = id.0, "a copy of an index failed");
        let actions = self.detach(id, now);
        let (reason, at) = (Arc::from(error.to_string()), Instant::now());
        self.set_stage(id, CopyStage::Failed { reason, at });
        actions
    }

    /// Ends the following and the writing of a copy.
    fn detach(&mut self, id: CopyId, now: Timestamp) -> Vec<CopyAction> {
        match self.copies.get(&id).map(|copy| &copy.stage) {
            Some(CopyStage::Open(open)) => open.kept.discard(),
            Some(CopyStage::Importing { status, .. }) => status.is_cancelled.store(true, Ordering::SeqCst),
            _ => {}
        }
        self.pacing.forget(number(id));
        let effects = self.follower.remove_copy(number(id), now);
        self.carry_out(effects, now)
    }

    /// Removes a copy and its files.
    fn remove(&mut self, id: CopyId, now: Timestamp) -> Vec<CopyAction> {
        let actions = self.detach(id, now);
        self.remove_files(id);
        self.set_stage(id, CopyStage::Gone);
        actions
    }

    fn remove_files(&mut self, id: CopyId) {
        if let Err(error) = self.place.remove(id) {
            tracing::warn!(%error, copy = id.0, "files of a copy of an index could not be removed");
            self.is_tidy = false;
        }
    }

    /// Takes a batch in. `None`: there is no such session, or it cannot be taken in now.
    pub fn batch(
        &mut self,
        owner: NodeKey,
        batch: FeedBatch<VersionKeys>,
        now: Timestamp,
    ) -> (Option<BatchReceipt>, Vec<CopyAction>) {
        if self.is_full() {
            return (None, Vec::new());
        }
        for change in &batch.changes {
            if let FeedChange::Page(page) = change {
                self.pacing.answered(owner, page.read, page.content.is_some());
            }
        }
        let effects = self.follower.batch(owner, batch, now);
        let receipt = effects.iter().rev().find_map(|effect| match effect {
            FollowEffect::Confirm { receipt, .. } => Some(*receipt),
            _ => None,
        });
        (receipt, self.carry_out(effects, now))
    }

    /// Takes in that a session was cut.
    pub fn cut(&mut self, owner: NodeKey, cut: FeedCut, now: Timestamp) -> Vec<CopyAction> {
        let effects = self.follower.cut(owner, cut, now);
        self.carry_out(effects, now)
    }

    /// Takes in the positions that [`CopyAction::AskPositions`] asked for.
    pub fn catch_up(
        &mut self,
        copy: CopyId,
        positions: &BTreeMap<NodeKey, OwnerPosition>,
        now: Timestamp,
    ) -> Vec<CopyAction> {
        let effects = self.follower.catch_up(number(copy), positions);
        self.carry_out(effects, now)
    }

    /// Goes on with what waits for its time. Called about once a second.
    pub fn tick(&mut self, now: Timestamp) -> Vec<CopyAction> {
        let time = Instant::now();
        let mut actions = Vec::new();
        let (mut over, mut resumed) = (Vec::new(), Vec::new());
        for (id, copy) in &mut self.copies {
            let has_left = copy.leaving.is_some_and(|since| time >= since + LEAVING);
            match &mut copy.stage {
                CopyStage::Gone => {}
                // The table lets it leave at once; it goes when its reason was there to be seen.
                CopyStage::Failed { at, .. } if time < *at + FAILED => {}
                CopyStage::Failed { .. } => over.push(*id),
                _ if has_left => over.push(*id),
                CopyStage::Open(open) => {
                    if let Some((_, marks)) = open.suspended.take_if(|(until, _)| time >= *until) {
                        resumed.push((*id, followed(&open.kept.definition), marks));
                    }
                }
                _ => {}
            }
        }
        for id in over {
            actions.extend(self.remove(id, now));
        }
        for (id, definition, marks) in resumed {
            let effects = self.follower.add_copy(number(id), definition, &marks, now);
            actions.extend(self.carry_out(effects, now));
        }
        let effects = self.follower.tick(now);
        actions.extend(self.carry_out(effects, now));
        actions
    }

    fn active_copy(&self, copy: CopyId) -> Option<Arc<StoredCopy>> {
        match &self.copies.get(&copy)?.stage {
            CopyStage::Open(open) if open.suspended.is_none() => Some(Arc::clone(&open.kept)),
            _ => None,
        }
    }

    /// Owners of the buckets of a slice.
    fn owners(&self, slice: BucketId) -> BTreeSet<NodeKey> {
        let Some(state) = &self.state else { return BTreeSet::new() };
        let of_slice = state.buckets().filter(|bucket| slice.covers(*bucket) || bucket.covers(slice));
        of_slice.filter_map(|bucket| state.owner(bucket)).collect()
    }

    /// A copy to be read; `None` if the node does not have it open.
    pub fn readable(&self, copy: CopyId, slice: SliceId) -> Option<ReadableCopy> {
        let known = self.copies.get(&copy).filter(|known| known.slice == slice)?;
        let CopyStage::Open(open) = &known.stage else { return None };
        let owners = self.owners(open.kept.definition.slice);
        Some(ReadableCopy { kept: Arc::clone(&open.kept), owners })
    }

    /// Compares a copy with positions of owners.
    pub fn freshness(
        &self,
        copy: CopyId,
        version: u64,
        positions: &BTreeMap<NodeKey, OwnerPosition>,
    ) -> CopyFreshness {
        self.follower.freshness(number(copy), version, positions)
    }

    /// Version of the cluster state that it acts by.
    pub fn version(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.version().number())
    }

    /// The copy of a slice that has everything, with what it has: to be written, and then sent to another
    /// node.
    pub fn exported(&self, slice: SliceId) -> Option<DueFlush> {
        let (copy, open) = self.open_copies().find(|(copy, _)| {
            self.copies.get(copy).is_some_and(|known| known.slice == slice)
                && self.follower.is_ready(number(*copy))
        })?;
        Some(DueFlush { copy, kept: Arc::clone(&open.kept), marks: self.follower.marks(number(copy)) })
    }

    fn open_copies(&self) -> impl Iterator<Item = (CopyId, &OpenCopy)> {
        self.copies.iter().filter_map(|(id, copy)| match &copy.stage {
            CopyStage::Open(open) if open.suspended.is_none() => Some((*id, open)),
            _ => None,
        })
    }
}

fn number(copy: CopyId) -> CopyNumber {
    CopyNumber(copy.0)
}

fn id(copy: CopyNumber) -> CopyId {
    CopyId(copy.0)
}

fn followed(definition: &StoredDefinition) -> CopyDefinition {
    CopyDefinition { document_type: definition.document_type.clone(), slice: definition.slice }
}
