//! One virtual node: the real distributor and keeper, and a model of everything around them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::reindexing::{ReindexNotes, ReindexRecord, ReindexedApplication, Reindexer};
use millrace_cluster::{ClusterState, Incarnation, MachineTime, NodeKey, PullMode, RowContent};
use millrace_document::Timestamp;
use millrace_replication::distributor::{Distributor, RequestTicket, Settings};
use millrace_replication::replica::{KeeperCall, KeeperJob, ReplicaKeeper, StorageWork};

use crate::batches::BatchPart;
use crate::deployments::{SimPackage, StartedRemoval};
use crate::disk::SimDisk;
use crate::history::OperationId;
use crate::indexes::SimNodeIndexes;
use crate::message::SimMessage;
use crate::reindexing::SimWalk;
use crate::storage::ModelStorage;

/// Microseconds since 1970 when the simulation begins.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// A fetch requested by a keeper.
#[derive(Debug, Clone)]
pub(crate) struct SimFetch {
    pub bucket: BucketId,
    /// Local content when it began, if only missing rows are fetched.
    pub known: Option<Vec<RowContent>>,
    /// Number of rows received.
    pub after: usize,
    pub turn: u64,
    /// Received rows that are not installed yet.
    pub laid_aside: Vec<RowContent>,
    pub last: bool,
}

/// A client's operation in progress at this node.
#[derive(Debug, Clone)]
pub(crate) struct RunningOperation {
    pub operation: OperationId,
    /// Newest acknowledged timestamp when it began: no read may return an older version.
    pub floor: Timestamp,
    /// Time of the last removal of the document's type, as far as the node knew when it began: no write may
    /// count as older.
    pub type_removed: Timestamp,
    /// Nodes with exactly that version when it began; newer versions may still be in transit.
    pub holders: Vec<NodeKey>,
    pub hops: u8,
    /// Part of a batch that it belongs to at this node.
    pub part: Option<BatchPart>,
}

pub(crate) struct SimNode {
    pub key: NodeKey,
    pub incarnation: Incarnation,
    pub alive: bool,
    pub frozen: bool,
    pub slow_disk: bool,
    pub disk: SimDisk,
    /// Messages that arrived while it was frozen.
    pub backlog: VecDeque<SimMessage>,
    pub distributor: Distributor,
    pub keeper: ReplicaKeeper,
    pub storage: ModelStorage,
    pub state: Option<Arc<ClusterState>>,
    /// The active package; durable.
    pub package: Arc<SimPackage>,
    /// True while a newer package is being activated.
    pub activating: bool,
    /// Offset of its clock, in microseconds.
    pub clock_off: i64,
    /// Time at which it took part in the cluster last, by its own clock in microseconds; durable.
    pub took_part: u64,
    /// Thousandths of a second that pass on its monotonic clock in a second.
    pub pace: u32,
    pub jobs: BTreeMap<KeeperJob, StorageWork>,
    pub fetches: BTreeMap<KeeperJob, SimFetch>,
    pub in_flight: BTreeMap<RequestTicket, RunningOperation>,
    pub calls: BTreeMap<KeeperCall, (NodeKey, u64)>,
    pub next: u64,
    pub wakes_at: Option<Duration>,
    pub reindexer: Reindexer,
    pub reindexes_at: Option<Duration>,
    /// The notes about reindexing that it has received, and their revision.
    pub notes: Option<Arc<ReindexNotes>>,
    pub notes_revision: u64,
    /// The page that it is reindexing.
    pub walk: Option<SimWalk>,
    /// Its package, as far as its reindexer knows it.
    pub application: Option<Arc<ReindexedApplication>>,
    /// A removal of a type that is being deployed here.
    pub removal: Option<StartedRemoval>,
    /// The first record with a reindexing, for a deliberate defect.
    pub first_run: Option<ReindexRecord>,
    pub indexes: SimNodeIndexes,
}

/// Settings with short intervals, so that little virtual time passes.
fn settings() -> Settings {
    Settings {
        batch_bytes: 600,
        operations_per_node: 4,
        operations_max: 16,
        requests_max: 2_000,
        ..Settings::default()
    }
}

impl SimNode {
    pub fn new(key: NodeKey, pace: u32, now: Duration) -> Self {
        let run = Incarnation::new(1);
        let start = MachineTime { monotonic: now * pace / 1_000 + base(key, run), wall_us: EPOCH_US };
        SimNode {
            key,
            incarnation: run,
            alive: true,
            frozen: false,
            slow_disk: false,
            disk: SimDisk::Works,
            backlog: VecDeque::new(),
            distributor: Distributor::new(key, run, settings()),
            keeper: ReplicaKeeper::new(key, run, settings().confirm, start),
            storage: ModelStorage::default(),
            state: None,
            package: Arc::default(),
            activating: false,
            clock_off: 0,
            took_part: u64::MAX,
            pace,
            jobs: BTreeMap::new(),
            fetches: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            calls: BTreeMap::new(),
            next: 0,
            wakes_at: None,
            reindexer: Reindexer::new(key),
            reindexes_at: None,
            notes: None,
            notes_revision: 0,
            walk: None,
            application: None,
            removal: None,
            first_run: None,
            indexes: SimNodeIndexes::new(run.number(), Timestamp(start.wall_us)),
        }
    }

    /// Starts a new run of its process, with the durable data.
    pub fn restart(&mut self, now: Duration) {
        let storage = std::mem::take(&mut self.storage);
        let (key, incarnation, clock_off) =
            (self.key, Incarnation::new(self.incarnation.number() + 1), self.clock_off);
        let took_part = self.took_part;
        let package = Arc::clone(&self.package);
        let copies = std::mem::take(&mut self.indexes.copies);
        *self = SimNode::new(key, self.pace, now);
        (self.storage, self.package) = (storage, package);
        (self.incarnation, self.clock_off, self.took_part) = (incarnation, clock_off, took_part);
        self.distributor = Distributor::new(key, incarnation, settings());
        let start = self.now(now);
        self.keeper = ReplicaKeeper::new(key, incarnation, settings().confirm, start);
        self.indexes = SimNodeIndexes::restarted(incarnation.number(), self.write_clock(now), copies);
    }

    pub fn now(&self, now: Duration) -> MachineTime {
        let wall_us = (EPOCH_US as i64 + now.as_micros() as i64 + self.clock_off).max(1) as u64;
        MachineTime { monotonic: now * self.pace / 1_000 + base(self.key, self.incarnation), wall_us }
    }

    pub fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins or continues a fetch.
    pub fn fetch(&mut self, job: KeeperJob, bucket: BucketId, pull: PullMode) -> &SimFetch {
        let turn = self.name();
        let storage = &self.storage;
        let fetch = self.fetches.entry(job).or_insert_with(|| SimFetch {
            bucket,
            known: (pull == PullMode::Missing).then(|| storage.listing(bucket, None).unwrap_or_default()),
            after: 0,
            turn,
            laid_aside: Vec::new(),
            last: false,
        });
        fetch.turn = turn;
        fetch
    }
}

/// Initial value of a node's monotonic clock: the clocks of nodes, and of runs, are unrelated.
fn base(key: NodeKey, incarnation: Incarnation) -> Duration {
    Duration::from_secs(1_000 * (1 + u64::from(key.0)) + 77 * incarnation.number())
}
