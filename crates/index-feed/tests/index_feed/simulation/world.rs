//! The world: time, messages, clients, queries, faults and checks.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::Timestamp;
use millrace_fixtures::SeededRandom;
use millrace_index_feed::{
    BatchReceipt, CopyDefinition, CopyNumber, FeedBatch, FeedChange, FeedCut, FeedRead, FeedReadScope,
    FollowEffect, FollowRequest, MARGIN_US, PageContent, SourceRun,
};

use super::copies::{CopyNode, SimCopy, shown};
use super::documents::{BUCKET_BITS, DocumentNode, SimChange, SimDocument, SimFieldValue, SimWrite};
use super::queries::OpenQuery;
use super::replication::{MergeStep, OpenWrite};
use super::{FeedSabotage, millis};

/// Time at which the simulation begins, and the length of its two parts: with faults, and without.
pub const START: u64 = 1_000_000_000;
const FAULTY_US: u64 = 600_000_000;
const QUIET_US: u64 = 300_000_000;

/// Numbers of the nodes.
const DOCUMENT_NODES: u16 = 4;
pub const INDEX_NODES: [u16; 2] = [10, 11];

/// Figures of runs, to verify that all of these happen.
#[derive(Debug, Default)]
pub struct WorldCounts(pub BTreeMap<&'static str, u64>);

impl WorldCounts {
    pub fn add(&mut self, other: &WorldCounts) {
        other.0.iter().for_each(|(name, count)| *self.0.entry(name).or_default() += count);
    }

    pub fn assert_all(&self) {
        for name in [
            "acknowledged",
            "divided",
            "given up",
            "held",
            "crash",
            "away",
            "owner moved",
            "dropped",
            "cut",
            "void page",
            "fresh",
            "missing",
            "ready",
            "index crash",
            "imported",
            "late",
            "merged",
            "lookup",
            "read since",
            "read all",
            "read for several",
            "put off",
        ] {
            assert!(self.0.contains_key(name), "there was nothing of: {name}");
        }
    }
}

/// Something that happens at a time.
#[derive(Debug, Clone)]
pub enum WorldEvent {
    Client,
    Query,
    Fault,
    Leave {
        node: NodeKey,
    },
    Land {
        write: u64,
        node: NodeKey,
        version: u64,
    },
    Feed {
        write: SimWrite,
        node: NodeKey,
        run: SourceRun,
    },
    GiveUp {
        write: u64,
    },
    Merge {
        bucket: BucketId,
        version: u64,
        step: MergeStep,
    },
    Return {
        node: NodeKey,
    },
    IndexReturn {
        node: NodeKey,
    },
    Learn {
        node: NodeKey,
    },
    DocumentTick {
        node: NodeKey,
    },
    Close {
        node: NodeKey,
        run: SourceRun,
        version: u64,
    },
    IndexTick {
        node: NodeKey,
    },
    Follow {
        owner: NodeKey,
        follower: NodeKey,
        request: FollowRequest,
    },
    Read {
        owner: NodeKey,
        follower: NodeKey,
        read: FeedRead,
    },
    ReadStore {
        owner: NodeKey,
        follower: NodeKey,
        read: FeedRead,
        run: SourceRun,
    },
    ReadDone {
        owner: NodeKey,
        follower: NodeKey,
        read: FeedRead,
        run: SourceRun,
        page: PageContent<SimFieldValue>,
    },
    Confirm {
        owner: NodeKey,
        follower: NodeKey,
        receipt: BatchReceipt,
    },
    Batch {
        owner: NodeKey,
        follower: NodeKey,
        batch: FeedBatch<SimFieldValue>,
    },
    Cut {
        owner: NodeKey,
        follower: NodeKey,
        cut: FeedCut,
    },
    Flush {
        node: NodeKey,
        copy: CopyNumber,
    },
    Position {
        query: u64,
        owner: NodeKey,
    },
    Poll {
        query: u64,
    },
}

pub struct FeedWorld {
    pub random: SeededRandom,
    pub sabotage: Option<FeedSabotage>,
    pub now: u64,
    events: BTreeMap<(u64, u64), WorldEvent>,
    scheduled: u64,
    /// Version of the cluster state.
    pub version: u64,
    pub owners: BTreeMap<BucketId, NodeKey>,
    /// Nodes with a replica of each bucket, the preferred owner first.
    pub placed: BTreeMap<BucketId, Vec<NodeKey>>,
    pub documents: BTreeMap<NodeKey, DocumentNode>,
    pub indexes: BTreeMap<NodeKey, CopyNode>,
    pub writes: BTreeMap<u64, OpenWrite>,
    pub next_write: u64,
    /// Buckets of which all complete replicas are known to have the same, but for writes in flight.
    pub settled: BTreeSet<BucketId>,
    /// Buckets that no client writes for now.
    pub idle: BTreeSet<BucketId>,
    /// Newest acknowledged write of each document, with the time of the acknowledgement.
    pub acknowledged: BTreeMap<SimDocument, (u64, Timestamp)>,
    pub queries: BTreeMap<u64, OpenQuery>,
    pub next_query: u64,
    pub next_copy: u64,
    pub counts: WorldCounts,
    log: Vec<String>,
    pub is_faulty: bool,
    pub wrong: Option<String>,
}

impl FeedWorld {
    pub fn new(seed: u64, sabotage: Option<FeedSabotage>) -> Self {
        let mut random = SeededRandom::new(seed ^ 0x696e_6465_7866_6565);
        let now = START;
        let keys: Vec<NodeKey> = (0..DOCUMENT_NODES).map(NodeKey).collect();
        let documents = keys.iter().map(|key| {
            let skew = random.below(20_000_000) as i64 - 10_000_000;
            (*key, DocumentNode::new(*key, skew, now))
        });
        let documents = documents.collect();
        let mut world = FeedWorld {
            random,
            sabotage,
            now,
            events: BTreeMap::new(),
            scheduled: 0,
            version: 0,
            owners: BTreeMap::new(),
            placed: BTreeMap::new(),
            documents,
            indexes: INDEX_NODES.map(|key| (NodeKey(key), CopyNode::new(NodeKey(key)))).into(),
            writes: BTreeMap::new(),
            next_write: 0,
            settled: BTreeSet::new(),
            idle: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            queries: BTreeMap::new(),
            next_query: 0,
            next_copy: 10,
            counts: WorldCounts::default(),
            log: Vec::new(),
            is_faulty: true,
            wrong: None,
        };
        for bits in 0..1 << BUCKET_BITS {
            let mut nodes = keys.clone();
            let gone = world.random.below(nodes.len() as u64) as usize;
            nodes.remove(gone);
            let first = world.random.below(nodes.len() as u64) as usize;
            nodes.rotate_left(first);
            let bucket = BucketId::new(BUCKET_BITS, bits);
            for node in &nodes {
                let node = world.documents.get_mut(node).expect("the node is one of them");
                node.replicas.insert(bucket, Default::default());
                node.complete.insert(bucket);
            }
            world.placed.insert(bucket, nodes);
        }
        world.change_state();
        let slice = |bits, used| BucketId::new(used, bits);
        for (node, number, document_type, slice) in [
            (10, 1, "even", slice(0, 1)),
            (10, 2, "even", slice(1, 1)),
            (10, 3, "odd", BucketId::ROOT),
            (11, 4, "even", slice(0, 1)),
            (11, 5, "odd", slice(2, 2)),
            (10, 6, "even", BucketId::ROOT),
        ] {
            let definition = CopyDefinition { document_type: document_type.to_owned(), slice };
            world.add_copy(NodeKey(node), CopyNumber(number), SimCopy::new(definition));
        }
        for key in keys {
            world.at(1_000, WorldEvent::DocumentTick { node: key });
        }
        for key in INDEX_NODES.map(NodeKey) {
            world.at(2_000, WorldEvent::IndexTick { node: key });
        }
        world.at(5_000, WorldEvent::Client);
        world.at(20_000_000, WorldEvent::Fault);
        world.at(1_000_000, WorldEvent::Query);
        world
    }

    /// Runs until the end of time, or until something is wrong.
    pub fn run(&mut self) -> Result<(), String> {
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            if self.is_faulty && time >= START + FAULTY_US {
                self.is_faulty = false;
                self.heal();
            }
            if time >= START + FAULTY_US + QUIET_US {
                break;
            }
            self.happen(event);
            if let Some(wrong) = self.wrong.take() {
                return Err(format!("at {} ms: {wrong}", (self.now - START) / 1000));
            }
        }
        self.check_rest()
    }

    pub fn log(&self) -> Vec<String> {
        let skipped = self.log.len().saturating_sub(400);
        self.log[skipped..].to_vec()
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.sabotage.is_none() {
            let line = format!("{:>8} {}", (self.now - START) / 1000, line());
            self.log.push(line);
        }
    }

    pub fn count(&mut self, name: &'static str) {
        *self.counts.0.entry(name).or_default() += 1;
    }

    pub fn at(&mut self, delay: u64, event: WorldEvent) {
        self.scheduled += 1;
        self.events.insert((self.now + delay, self.scheduled), event);
    }

    /// Sends a message between nodes: it may be late, lost, or come twice.
    fn send(&mut self, event: WorldEvent) {
        let times = match self.random.below(100) {
            0..=1 if self.is_faulty => 0,
            2..=4 => 2,
            _ => 1,
        };
        for _ in 0..times {
            let delay = match self.random.percent(2) && self.is_faulty {
                true => millis(&mut self.random, 500, 20_000),
                false => millis(&mut self.random, 1, 60),
            };
            self.at(delay, event.clone());
        }
    }

    pub fn document_node(&mut self, key: NodeKey) -> &mut DocumentNode {
        self.documents.get_mut(&key).expect("the node exists")
    }

    pub fn index_node(&mut self, key: NodeKey) -> &mut CopyNode {
        self.indexes.get_mut(&key).expect("the node exists")
    }

    /// True if messages reach the process of a node with documents.
    pub fn is_reachable(&self, key: NodeKey) -> bool {
        let node = &self.documents[&key];
        node.is_running && node.serves
    }

    pub fn add_copy(&mut self, key: NodeKey, number: CopyNumber, copy: SimCopy) {
        let now = Timestamp(self.now);
        let node = self.index_node(key);
        let effects = node.follower.add_copy(number, copy.definition.clone(), &copy.flushed.1, now);
        node.copies.insert(number, copy);
        self.effects(key, effects);
        let delay = millis(&mut self.random, 5_000, 40_000);
        self.at(delay, WorldEvent::Flush { node: key, copy: number });
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Client => {
                if self.is_faulty {
                    self.write();
                    let delay = millis(&mut self.random, 50, 900);
                    self.at(delay, WorldEvent::Client);
                }
            }
            WorldEvent::Query => {
                self.query();
                let delay = millis(&mut self.random, 200, 2_000);
                self.at(delay, WorldEvent::Query);
            }
            WorldEvent::Fault => {
                if self.is_faulty {
                    self.fault();
                    let delay = match self.random.percent(25) {
                        true => millis(&mut self.random, 60_000, 150_000),
                        false => millis(&mut self.random, 500, 15_000),
                    };
                    self.at(delay, WorldEvent::Fault);
                }
            }
            WorldEvent::Leave { node } => {
                if self.is_faulty {
                    self.leave(node);
                }
            }
            WorldEvent::Land { write, node, version } => self.land(write, node, version),
            WorldEvent::Feed { write, node, run } => {
                let now = self.now;
                let known = self.document_node(node);
                if known.source.run() == run {
                    known.feed(write, now);
                    self.pump(node);
                }
            }
            WorldEvent::GiveUp { write } => self.give_up(write),
            WorldEvent::Merge { bucket, version, step } => self.merge(bucket, version, step),
            WorldEvent::Return { node } => self.come_back(node),
            WorldEvent::IndexReturn { node } => {
                let now = Timestamp(self.now);
                if !self.indexes[&node].is_running {
                    let effects = self.index_node(node).start(now);
                    self.effects(node, effects);
                    self.learn(node);
                }
            }
            WorldEvent::Learn { node } => self.learn(node),
            WorldEvent::DocumentTick { node } => {
                if self.is_reachable(node) {
                    self.report(node);
                    // Rows come between the report and the closing.
                    let delay = if self.random.percent(20) { millis(&mut self.random, 1, 3_000) } else { 0 };
                    let version = self.version;
                    let source = &mut self.document_node(node).source;
                    let run = source.run();
                    INDEX_NODES.map(NodeKey).into_iter().for_each(|index| source.resend(index));
                    self.pump(node);
                    self.at(delay, WorldEvent::Close { node, run, version });
                }
                let delay = millis(&mut self.random, 900, 2_000);
                self.at(delay, WorldEvent::DocumentTick { node });
            }
            WorldEvent::Close { node, run, version } => {
                let is_same = self.version == version && self.documents[&node].source.run() == run;
                if is_same && self.is_reachable(node) {
                    self.document_node(node).source.close();
                    self.pump(node);
                }
            }
            WorldEvent::IndexTick { node } => {
                let now = Timestamp(self.now);
                if self.indexes[&node].is_running {
                    let effects = self.index_node(node).follower.tick(now);
                    self.effects(node, effects);
                }
                self.at(1_000_000, WorldEvent::IndexTick { node });
            }
            WorldEvent::Follow { owner, follower, request } => {
                if self.is_reachable(owner) {
                    self.report(owner);
                    let cut = self.document_node(owner).source.follow(follower, request);
                    if let Some(cut) = cut {
                        self.send(WorldEvent::Cut { owner, follower, cut });
                    }
                    self.pump(owner);
                }
            }
            WorldEvent::Read { owner, follower, read } => {
                if self.is_reachable(owner) {
                    let is_put_off = self.random.percent(3);
                    let source = &mut self.document_node(owner).source;
                    let run = source.run();
                    if is_put_off {
                        source.put_off_read(follower, &read);
                        self.count("put off");
                        self.pump(owner);
                    } else if source.begin_read(follower, read.clone()) {
                        let delay = millis(&mut self.random, 0, 300);
                        self.at(delay, WorldEvent::ReadStore { owner, follower, read, run });
                    }
                }
            }
            WorldEvent::ReadStore { owner, follower, read, run } => {
                let page = self.documents[&owner].read(&read);
                let delay = millis(&mut self.random, 0, 300);
                self.at(delay, WorldEvent::ReadDone { owner, follower, read, run, page });
            }
            WorldEvent::ReadDone { owner, follower, read, run, page } => {
                let is_torn = self.sabotage == Some(FeedSabotage::PageTornByRows);
                let known = self.document_node(owner);
                if known.is_running && known.source.run() == run {
                    if is_torn {
                        known.source.abandon_read(follower, &read);
                        known.source.begin_read(follower, read.clone());
                    }
                    known.source.finish_read(follower, &read, page);
                    self.pump(owner);
                }
            }
            WorldEvent::Confirm { owner, follower, receipt } => {
                if self.is_reachable(owner) {
                    self.document_node(owner).source.confirm(follower, receipt);
                    self.pump(owner);
                }
            }
            WorldEvent::Batch { owner, follower, mut batch } => {
                for change in &mut batch.changes {
                    match (self.sabotage, change) {
                        (Some(FeedSabotage::ClosedTooFar), FeedChange::Closed { until, .. }) => {
                            until.0 += MARGIN_US;
                        }
                        (Some(FeedSabotage::ClosedByAnotherState), FeedChange::Closed { version, .. }) => {
                            *version = self.indexes[&follower].state.0;
                        }
                        (
                            Some(FeedSabotage::DisturbanceForgotten),
                            FeedChange::Followed { disturbance, .. },
                        ) => *disturbance = 0,
                        _ => {}
                    }
                }
                let now = Timestamp(self.now);
                let is_void = |change: &FeedChange<_>| matches!(change, FeedChange::Page(page) if page.content.is_none());
                if batch.changes.iter().any(is_void) {
                    self.count("void page");
                }
                if self.is_reachable(owner) && self.indexes[&follower].is_running {
                    let effects = self.index_node(follower).follower.batch(owner, batch, now);
                    self.effects(follower, effects);
                }
            }
            WorldEvent::Cut { owner, follower, cut } => {
                let now = Timestamp(self.now);
                if self.indexes[&follower].is_running {
                    let effects = self.index_node(follower).follower.cut(owner, cut, now);
                    self.effects(follower, effects);
                }
            }
            WorldEvent::Flush { node, copy } => {
                if self.indexes[&node].copies.contains_key(&copy) {
                    if self.indexes[&node].is_running {
                        self.index_node(node).flush(copy);
                    }
                    let delay = millis(&mut self.random, 10_000, 40_000);
                    self.at(delay, WorldEvent::Flush { node, copy });
                }
            }
            WorldEvent::Position { query, owner } => self.position(query, owner),
            WorldEvent::Poll { query } => self.poll(query),
        }
    }

    /// Hands on what waits in a source.
    pub fn pump(&mut self, owner: NodeKey) {
        if !self.is_reachable(owner) {
            return;
        }
        for follower in INDEX_NODES.map(NodeKey) {
            while let Some(batch) = self.document_node(owner).source.next_batch(follower) {
                self.send(WorldEvent::Batch { owner, follower, batch });
            }
        }
        for (follower, cut) in self.document_node(owner).source.take_cuts() {
            self.count("cut");
            self.send(WorldEvent::Cut { owner, follower, cut });
        }
    }

    /// Carries effects of a follower out, in their order.
    pub fn effects(&mut self, key: NodeKey, effects: Vec<FollowEffect<SimFieldValue>>) {
        let (now, sabotage) = (Timestamp(self.now), self.sabotage);
        for effect in effects {
            match effect {
                FollowEffect::Follow { owner, request } => {
                    self.send(WorldEvent::Follow { owner, follower: key, request });
                }
                FollowEffect::Read { owner, copies, read } => {
                    self.count(match &read.scope {
                        _ if copies.len() > 1 => "read for several",
                        FeedReadScope::Documents(_) => "lookup",
                        FeedReadScope::Since { from, .. } if from.0 > 0 => "read since",
                        FeedReadScope::Since { .. } => "read all",
                    });
                    self.send(WorldEvent::Read { owner, follower: key, read });
                }
                FollowEffect::Confirm { owner, receipt } => {
                    self.send(WorldEvent::Confirm { owner, follower: key, receipt });
                }
                FollowEffect::AskPositions { copy } => self.ask(key, copy, true),
                FollowEffect::Ready { .. } => self.count("ready"),
                on_copy => {
                    self.note(|| format!("{key}: {}", shown(&on_copy)));
                    let more = self.index_node(key).carry_out(on_copy, now, sabotage);
                    self.effects(key, more);
                }
            }
        }
    }

    /// An index node learns of the cluster state.
    fn learn(&mut self, key: NodeKey) {
        let late = self.index_node(key).learns_after;
        if self.is_faulty && self.now < late {
            return self.at(late - self.now, WorldEvent::Learn { node: key });
        }
        let (version, now) = (self.version, Timestamp(self.now));
        let owners = self.placed.keys().map(|bucket| (*bucket, self.owners.get(bucket).copied()));
        let owners: BTreeMap<_, _> = owners.collect();
        let node = self.index_node(key);
        if node.is_running {
            node.state = (version, owners.clone());
            let effects = node.follower.adopt(version, owners, now);
            self.effects(key, effects);
        }
    }

    /// Publishes a cluster state: index nodes learn of it later.
    pub fn publish(&mut self) {
        for key in INDEX_NODES.map(NodeKey) {
            let delay = millis(&mut self.random, 1, 3_000);
            self.at(delay, WorldEvent::Learn { node: key });
        }
    }

    pub fn dispatch(&mut self, write: SimWrite, node: NodeKey) {
        let (now, sabotage) = (self.now, self.sabotage);
        let known = self.document_node(node);
        known.store(write, now);
        let is_drop = write.change == SimChange::Drop;
        if is_drop && sabotage == Some(FeedSabotage::DropForgotten) {
            return;
        }
        let run = known.source.run();
        let is_old = write.timestamp.0 + millrace_index_feed::LATE_US < known.clock(now).0;
        match sabotage == Some(FeedSabotage::FedAfterAcknowledgement) {
            true => {
                let delay = millis(&mut self.random, 20, 2_000);
                self.at(delay, WorldEvent::Feed { write, node, run });
            }
            false => known.feed(write, now),
        }
        if is_old {
            self.count("late");
        }
    }
}
