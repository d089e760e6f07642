//! Simulation of a cluster in one thread from one seed.
//!
//! [`run`] simulates a few virtual nodes for some minutes of virtual time: the real distributor, the real
//! rules of replicas, the real checkers and scheduler, with a virtual clock, a virtual network and a storage
//! in memory. Clients write, also in batches, read, modify and drop, also after they have examined a group;
//! nodes crash and lose unsynced data and names, start again, freeze and wake, join, retire, stay away for
//! weeks; document types are removed and come back; disks fill up or break; messages are late, duplicated,
//! lost; links break in one direction or both; clocks jump, and differ in speed; coordination is unavailable
//! at times. Then all faults end, and the guarantees are checked:
//!
//! - every acknowledged write is present with its newest value, and no removed document is back;
//! - all replicas of a bucket are equal, complete, and exactly where they should be;
//! - no group was dropped together with a document that was acknowledged, and that the client's operation had
//!   not counted;
//! - no document is there that nodes have written again, for reindexing, and of which a client's version was
//!   dropped, alone, with its group or with its type;
//! - no part of a batch, the writes of one bucket, was accepted in part;
//! - no event of a log is there twice, though it was sent to other partitions after refusals, and none that
//!   was acknowledged is missing before its partition was to be dropped;
//! - each ready copy of a placed index has exactly what the documents say, and no query of one missed a write
//!   that was acknowledged before and that was stored on any node that had reported to the owner;
//! - nothing is stuck: no operation runs or waits, no client is without an answer;
//! - during the run, no read through an owner missed a write that was acknowledged before and that was stored
//!   on any node that had reported to the owner.
//!
//! The same seed gives the same run, event by event. This crate is not part of the product.

mod absences;
mod batches;
mod checks;
mod clients;
mod coordination;
mod deployments;
mod disk;
mod examined_drops;
mod faults;
mod fetching;
mod history;
mod indexes;
mod logs;
mod message;
mod network;
mod node;
mod reindexing;
mod scenarios;
mod storage;
mod world;

use std::time::Duration;

use millrace_document::{DocumentGroup, DocumentId};

use crate::deployments::CHANGING_TYPE;
use crate::history::ClientIntent;
use crate::world::SimWorld;

pub use scenarios::{
    disjoint_retired_replicas, joined_while_a_majority_is_cut_off, joined_while_one_is_away,
    set_down_while_a_majority_is_cut_off,
};
pub use storage::ModelStorage;

/// A deliberate defect, to verify that the checks detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Replicas take rows from any sender, regardless of its state.
    NoFence,
    /// Replicas are completed and deleted without a comparison: all report equal contents.
    NoComparison,
    /// Nodes report rows as durable before they are.
    EarlyAcknowledgement,
    /// Groups are dropped as of now after their documents were counted, instead of as of the count.
    DropsAfterCounting,
    /// Nodes that were away for longer than removals are remembered keep their documents.
    AbsentAreAdmitted,
    /// New replicas are reported before their names are durable.
    NamesNotSynced,
    /// Each node drops a type that a deployment removes at its own time, when it activates the deployment.
    TypesDroppedLocally,
    /// Nodes report the rows of batches as durable, and do not store the last one of a message.
    BatchPartDropped,
    /// Pages of reindexing are reported as done before their documents are written.
    MarkedBeforeWalked,
    /// Reindexing takes nodes that are away for nodes without data.
    AbsenceIgnored,
    /// Nodes go on with the first reindexing that they have learned of.
    SecondReindexingUnnoticed,
    /// Buckets are reindexed before their owner has all of them.
    PartialBucketsWalked,
    /// Buckets are reindexed before nodes that have come back have reported their replicas.
    UnreportedNodesPassedOver,
    /// Documents are written again as clients modify them: a drop that is being decided does not hold them
    /// up.
    RewrittenLikeClients,
    /// Document types are removed as of now, though their documents are being written again by nodes that
    /// learn of it later.
    RemovedWhileReindexed,
    /// Pages of reindexing count even if the bucket got another owner, or a write failed.
    EveryPageCounts,
    /// Events of logs are sent to another partition though the first has accepted them.
    WrittenEventsAreSentAgain,
    /// Retention drops partitions that take events.
    OpenPartitionsDropped,
    /// Changes of documents reach the queues of copies of indexes after they were acknowledged.
    FedAfterAcknowledgement,
    /// Owners feed copies of indexes from replicas that lack documents.
    IncompleteOwnersFeed,
    /// Owners tell their positions by a state that is not confirmed.
    PositionsNotRechecked,
    /// Copies that follow again do not take in what has changed since they stopped.
    ReadSinceLeftOut,
    /// Nodes report copies that follow as ones that have caught up.
    ReadyBeforeCaughtUp,
    /// Drops of groups and types are not passed to copies.
    DropsNotFed,
    /// Files of a copy count as complete up to the moment at which they arrive.
    ImportedMarksAhead,
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Number of nodes at the beginning.
    pub nodes: usize,
    /// Number of distribution bits.
    pub bits: u8,
    /// Replicas of each bucket; `None`: 1 to 3, depending on the seed.
    pub redundancy: Option<u16>,
    /// Number of turns with faults; a turn is up to a second, and up to 8 with indexes.
    pub turns: usize,
    /// True if operators have document types reindexed.
    pub reindexing: bool,
    /// True if clients write logs.
    pub logs: bool,
    /// True if the cluster places indexes, and clients query them.
    pub indexes: bool,
    /// True to record events as text.
    pub trace: bool,
    /// Deliberate defect, if any.
    pub sabotage: Option<Sabotage>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            nodes: 4,
            bits: 3,
            redundancy: None,
            turns: 60,
            reindexing: false,
            logs: false,
            indexes: false,
            trace: false,
            sabotage: None,
        }
    }
}

/// Outcome of a run.
#[derive(Debug)]
pub struct SimOutcome {
    /// Violated guarantee, if any.
    pub wrong: Option<String>,
    /// Recorded events, one per line, if requested.
    pub lines: Vec<String>,
    /// Number of acknowledged writes.
    pub acknowledgements: u64,
    /// Number of checked reads.
    pub reads: u64,
    /// Total number of events.
    pub processed_events: u64,
    /// Number of reindexings that have ended.
    pub reindexings: u64,
    /// Number of documents that were written again.
    pub rewritten: u64,
    /// Number of events of logs.
    pub events: u64,
    /// Number of copies of indexes that were compared with acknowledged writes.
    pub index_queries: u64,
    /// Number of copies of indexes that came as files.
    pub index_moves: u64,
    /// Virtual time from the end of all faults until the cluster came to rest.
    pub healed_in: Option<Duration>,
}

/// Runs the simulation of one seed.
pub fn run(seed: u64, options: SimOptions) -> SimOutcome {
    let mut world = SimWorld::new(seed, options);
    for _ in 0..world.options.nodes {
        world.join();
    }
    world.pass(Duration::from_secs(4));
    // The probability of faults varies between runs: with constant faults, few operations are attempted.
    let fault_rate = [250, 500, 900][world.random.below(3) as usize];
    for _ in 0..world.options.turns {
        if world.random.permille(fault_rate) {
            faults::change_faults(&mut world);
        }
        if world.options.reindexing && world.random.permille(300) {
            reindexing::operate(&mut world);
        }
        if world.options.logs {
            logs::operate(&mut world);
        }
        if world.options.indexes {
            indexes::operate(&mut world);
        }
        for _ in 0..world.random.below(12) {
            ask(&mut world);
            if world.options.indexes {
                indexes::query(&mut world);
            }
            let pause = world.random.micros(0, 40_000);
            world.pass(pause);
        }
        // Copies of indexes are complete up to a minute ago: that must be in the run.
        let longest = if world.options.indexes { 8_000_000 } else { 1_000_000 };
        let pause = world.random.micros(0, longest);
        world.pass(pause);
        if world.wrong.is_some() {
            break;
        }
    }
    let healed_in = rest(&mut world);
    if world.options.reindexing && world.wrong.is_none() {
        reindexing::reindex_all(&mut world);
    }
    end(world, healed_in)
}

/// Ends all faults, waits until the cluster has come to rest, and checks what is there.
pub(crate) fn rest(world: &mut SimWorld) -> Option<Duration> {
    faults::heal(world);
    let healed_in = world.come_to_rest(None)?;
    if let Err(wrong) = checks::nothing_lost(world).and_then(|()| logs::check(world)) {
        world.wrong = Some(wrong);
    }
    Some(healed_in)
}

pub(crate) fn end(mut world: SimWorld, healed_in: Option<Duration>) -> SimOutcome {
    SimOutcome {
        lines: world.take_lines(),
        acknowledgements: world.history.acknowledgements,
        reads: world.history.reads,
        processed_events: world.processed_events,
        reindexings: world.reindexings.ends,
        rewritten: world.reindexings.rewritten,
        events: world.logs.events(),
        index_queries: world.indexes.queries,
        index_moves: world.indexes.moves,
        healed_in,
        wrong: world.wrong,
    }
}

/// Sends a client's request about one of few documents to any node.
fn ask(world: &mut SimWorld) {
    let keys: Vec<_> = world.nodes.keys().copied().collect();
    let node = world.random.pick(&keys).expect("a cluster has nodes");
    if world.random.permille(60) {
        return batches::ask(world, node);
    }
    let id = any_document(world);
    let intent = match world.random.below(100) {
        0..45 => ClientIntent::Put(id),
        45..53 => ClientIntent::Remove(id),
        53..73 => ClientIntent::Modify(id),
        73..94 => ClientIntent::Read(id),
        94..98 => ClientIntent::DropExamined(id),
        _ => ClientIntent::DropGroup(id.group().clone(), id),
    };
    world.ask(node, intent);
}

/// One of few documents.
fn any_document(world: &mut SimWorld) -> DocumentId {
    let group = DocumentGroup::Number(world.random.below(6));
    let name = world.random.below(4).to_string();
    let document_type = if world.random.permille(300) { CHANGING_TYPE } else { "note" };
    // Groups with documents of several namespaces cannot be dropped for one of them.
    let namespace = if world.random.permille(30) { "other" } else { "sim" };
    DocumentId::new(namespace, document_type, &group, &name).expect("all its parts are there")
}
