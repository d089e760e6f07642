//! Placed indexes: copies of them on nodes, which follow the owners of buckets, move as files, and answer
//! queries that must see every acknowledged write.
//!
//! The feed ([`millrace_index_feed`]) and the planner ([`millrace_index_placement`]) are the real ones, and
//! so are the owners that the feed is driven by. A copy is a map from sort keys to versions, of which the
//! state of its last flush survives a crash. The table of copies is in coordination, which makes one node the
//! leader at a time; it plans from the reports of the nodes and from the commands of operators.
//!
//! Clocks differ by less than the feed permits here, since a closing is a time of the clock of one owner.

mod copies;
mod feeding;
mod keeping;
mod placing;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::{ClusterState, Incarnation, NodeKey};
use millrace_document::Timestamp;
use millrace_index_feed::{
    BatchReceipt, CopyNumber, FeedBatch, FeedCut, FeedRead, FollowRequest, IndexFeedFollower, OwnerPosition,
};
use millrace_index_placement::{CopyId, PlacementTable, SliceId};

use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::node::SimNode;
use crate::storage::StorageChange;
use crate::world::{SimEvent, SimWorld};

use self::copies::{IndexCopyFiles, IndexedBody, SimIndexCopy};
use self::feeding::SimIndexFeed;
use self::placing::{PlacementSnapshot, PlacementWrite, SimCopyReports, SimPlacement};
use self::queries::FreshnessQuestion;

pub(crate) use self::placing::operate;
pub(crate) use self::queries::{query, unrest};

/// Interval at which a node looks after its feed and its copies.
const TICK: Duration = Duration::from_secs(1);

/// Placed indexes of the whole cluster.
#[derive(Default)]
pub(crate) struct SimIndexes {
    pub placement: SimPlacement,
    /// Copies that have caught up at some time.
    pub caught_up: BTreeSet<CopyId>,
    /// Number of copies that were compared with acknowledged writes.
    pub queries: u64,
    /// Number of copies that came as files.
    pub moves: u64,
}

/// Placed indexes of a node.
pub(crate) struct SimNodeIndexes {
    pub feed: SimIndexFeed,
    pub follower: IndexFeedFollower<IndexedBody>,
    /// The cluster state that its copies act by.
    pub adopted: Option<Arc<ClusterState>>,
    pub table: Arc<PlacementTable>,
    pub copies: BTreeMap<CopyId, SimIndexCopy>,
    pub questions: BTreeMap<u64, FreshnessQuestion>,
}

/// Message about placed indexes.
#[derive(Debug, Clone)]
pub(crate) enum IndexMessage {
    Follow(FollowRequest),
    Cut(FeedCut),
    Read(FeedRead),
    Batch(FeedBatch<IndexedBody>),
    Confirm(BatchReceipt),
    /// Requests the position of an owner.
    AskPosition {
        incarnation: Incarnation,
        question: u64,
    },
    Position {
        incarnation: Incarnation,
        question: u64,
        position: OwnerPosition,
        /// Nodes whose replicas the owner took into account.
        reported: Vec<NodeKey>,
    },
    /// Requests the files of a ready copy of a slice, for a copy that is made from them.
    AskFiles {
        copy: CopyId,
        slice: SliceId,
    },
    Files {
        copy: CopyId,
        files: IndexCopyFiles,
    },
    /// Reports of a node, to coordination.
    Reports(SimCopyReports),
    /// The state of coordination, to a node.
    Snapshot(PlacementSnapshot),
    /// A table of a leader, to coordination.
    Write(PlacementWrite),
}

/// Work of a node for placed indexes that begins later.
#[derive(Debug)]
pub(crate) enum IndexEvent {
    /// The node looks after its feed and its copies; with the number of times that it has.
    Tick(u64),
    /// Changes of the storage reach the feed late: a deliberate defect.
    Feed(Vec<StorageChange>),
    /// Documents are read for a follower.
    ReadStore { follower: NodeKey, read: FeedRead },
}

impl SimNodeIndexes {
    /// Indexes of a process that starts without copies.
    pub fn new(run: u64, now: Timestamp) -> Self {
        SimNodeIndexes {
            feed: SimIndexFeed::new(run, now),
            follower: IndexFeedFollower::new(run),
            adopted: None,
            table: Arc::default(),
            copies: BTreeMap::new(),
            questions: BTreeMap::new(),
        }
    }

    /// Indexes of a process that starts with the copies of the one before, as far as they are on the disk.
    pub fn restarted(run: u64, now: Timestamp, copies: BTreeMap<CopyId, SimIndexCopy>) -> Self {
        let mut indexes = SimNodeIndexes::new(run, now);
        for (id, copy) in copies {
            let Some((copy, marks)) = copy.reopened() else { continue };
            // Without a cluster state there is no owner to follow.
            let effects = indexes.follower.add_copy(CopyNumber(id.0), copy.definition.clone(), &marks, now);
            assert!(effects.is_empty(), "a follower without a cluster state asks for nothing");
            indexes.copies.insert(id, copy);
        }
        indexes
    }
}

impl SimNode {
    /// Reading of its clock.
    fn wall(&self, now: Duration) -> Timestamp {
        Timestamp(self.now(now).wall_us)
    }

    /// Removes all copies of indexes, as an operator does before the process starts.
    pub fn empty_indexes(&mut self, now: Duration) {
        self.indexes = SimNodeIndexes::new(self.incarnation.number(), self.write_clock(now));
    }

    /// Reading of the clock that timestamps of writes come from.
    pub fn write_clock(&self, now: Duration) -> Timestamp {
        self.storage.newest_seen().max(self.wall(now))
    }
}

impl SimWorld {
    /// Sends a message about placed indexes from a node to another one, or to itself.
    fn send_index(&mut self, from: NodeKey, to: NodeKey, message: IndexMessage) {
        let message = SimMessage::Indexes { from, message: Box::new(message) };
        self.send(SimAddress::Node(from), SimAddress::Node(to), message);
    }

    /// Begins to look after the placed indexes of a node.
    pub fn begin_indexes(&mut self, key: NodeKey) {
        if let Some(node) = self.nodes.get(&key).filter(|_| self.options.indexes) {
            node.storage.record_changes();
            let incarnation = node.incarnation;
            self.schedule(TICK, SimEvent::Indexes { node: key, incarnation, event: IndexEvent::Tick(1) });
        }
    }

    pub fn index_event(&mut self, (key, incarnation): (NodeKey, Incarnation), event: IndexEvent) {
        let Some(node) = self.nodes.get(&key) else { return };
        let (current, alive, frozen) = (node.incarnation, node.alive, node.frozen);
        if let IndexEvent::Tick(number) = event {
            let next = IndexEvent::Tick(number + 1);
            self.schedule(TICK, SimEvent::Indexes { node: key, incarnation: current, event: next });
            if alive && !frozen {
                self.maintain_feed(key, number);
                self.maintain_copies(key);
                self.send_reports(key);
            }
            return;
        }
        if !alive || current != incarnation {
            return;
        }
        if frozen {
            // It continues when the process does.
            let again = SimEvent::Indexes { node: key, incarnation, event };
            return self.schedule(Duration::from_millis(100), again);
        }
        match event {
            IndexEvent::Feed(changes) => self.feed(key, changes),
            IndexEvent::ReadStore { follower, read } => self.read_for(key, follower, &read),
            IndexEvent::Tick(_) => {}
        }
    }

    /// Delivers a message about placed indexes to a node that can take it.
    pub fn index_message(&mut self, key: NodeKey, from: NodeKey, message: IndexMessage) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let wall = node.wall(now);
        match message {
            IndexMessage::Follow(request) => self.follow(key, from, request),
            IndexMessage::Read(read) => self.begin_index_read(key, from, read),
            IndexMessage::Confirm(receipt) => {
                node.indexes.feed.source.confirm(from, receipt);
                self.send_batches(key);
            }
            IndexMessage::AskPosition { incarnation, question } => {
                self.answer_position(key, from, incarnation, question);
            }
            IndexMessage::Batch(batch) => {
                let effects = node.indexes.follower.batch(from, batch, wall);
                self.carry_out(key, effects);
            }
            IndexMessage::Cut(cut) => {
                let effects = node.indexes.follower.cut(from, cut, wall);
                self.carry_out(key, effects);
            }
            IndexMessage::Position { incarnation, question, position, reported } => {
                if incarnation == node.incarnation {
                    self.position_arrived(key, from, question, position, reported);
                }
            }
            IndexMessage::AskFiles { copy, slice } => self.send_files(key, from, copy, slice),
            IndexMessage::Files { copy, files } => self.files_arrived(key, from, copy, files),
            IndexMessage::Snapshot(snapshot) => self.snapshot_arrived(key, snapshot),
            IndexMessage::Reports(_) | IndexMessage::Write(_) => {}
        }
    }

    /// Delivers a message about placed indexes to coordination.
    pub fn index_message_to_coordination(&mut self, from: NodeKey, message: IndexMessage) {
        match message {
            IndexMessage::Reports(reports) => self.reports_arrived(from, reports),
            IndexMessage::Write(write) => self.write_arrived(from, write),
            _ => {}
        }
    }
}
