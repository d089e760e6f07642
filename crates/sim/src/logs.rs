//! Logs: bulks that go as a whole to a partition, to that of another slot after a refusal; partitions that
//! are closed, and dropped after a while.
//!
//! A partition is a group of documents, as in the interfaces that write logs, and an event is a document with
//! a name of its own. The catalog of the partitions is a model here: it never fails. Owners, replicas and
//! drops are the real ones.

use std::collections::BTreeSet;
use std::time::Duration;

use millrace_cluster::{ClusterState, NodeKey};
use millrace_document::{DocumentGroup, DocumentId};

use crate::Sabotage;
use crate::clients::CLIENT_TIMEOUT;
use crate::history::{ClientIntent, ClientOutcome, OperationId};
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::world::SimWorld;

/// Slots, each with one partition that takes events.
const SLOTS: usize = 3;
/// Number of events with which a partition is closed.
const EVENTS_MAX: usize = 12;
/// Time after which a closed partition is dropped.
const RETENTION: Duration = Duration::from_secs(15);
/// Time after which an answer is not waited for any more: the node has ended.
const GIVES_UP: Duration = CLIENT_TIMEOUT.saturating_add(Duration::from_secs(4));
/// Group of the first partition; other clients have lower ones.
const FIRST_GROUP: u64 = 1_000;

/// Partitions, and the attempts to write each event.
#[derive(Debug, Default)]
pub(crate) struct LogEventHistory {
    partitions: Vec<SimLogPartition>,
    events: Vec<Vec<LogAttempt>>,
    /// Bulks whose answers are waited for.
    bulks: Vec<LogBulk>,
}

#[derive(Debug)]
struct SimLogPartition {
    slot: usize,
    events: usize,
    closed_at: Option<Duration>,
    /// Last attempt to drop it, and the time at which that began.
    drop: Option<(OperationId, Duration)>,
}

/// A write of an event to a partition.
#[derive(Debug, Clone, Copy)]
struct LogAttempt {
    partition: usize,
    operation: OperationId,
}

/// Events on their way to a partition.
#[derive(Debug)]
struct LogBulk {
    partition: usize,
    events: Vec<usize>,
    began: Duration,
    /// Slots that have refused them before.
    refused: BTreeSet<usize>,
}

impl LogEventHistory {
    /// Number of events.
    pub fn events(&self) -> u64 {
        self.events.len() as u64
    }

    /// Events that are on their way to a slot.
    fn load(&self, slot: usize) -> usize {
        let there = self.bulks.iter().filter(|bulk| self.partitions[bulk.partition].slot == slot);
        there.map(|bulk| bulk.events.len()).sum()
    }

    /// The partition of a slot that takes events; a new one, if there is none.
    fn open(&mut self, slot: usize) -> usize {
        let is_open = |partition: &SimLogPartition| partition.slot == slot && partition.closed_at.is_none();
        self.partitions.iter().position(is_open).unwrap_or_else(|| {
            self.partitions.push(SimLogPartition { slot, events: 0, closed_at: None, drop: None });
            self.partitions.len() - 1
        })
    }
}

/// Lets time pass for the logs: answers are noted, new events are sent, and old partitions are dropped.
pub(crate) fn operate(world: &mut SimWorld) {
    take_outcomes(world);
    expire(world);
    if world.random.permille(500) {
        let first = world.logs.events.len();
        let count = 2 + world.random.below(4) as usize;
        world.logs.events.resize_with(first + count, Vec::new);
        send(world, (first..first + count).collect(), BTreeSet::new());
    }
}

/// Sends a bulk to one slot: of two, the one with fewer events on their way.
fn send(world: &mut SimWorld, events: Vec<usize>, refused: BTreeSet<usize>) {
    let left: Vec<usize> = (0..SLOTS).filter(|slot| !refused.contains(slot)).collect();
    let drawn = [0; 2].map(|_| world.random.pick(&left).unwrap_or_default());
    let slot = if world.logs.load(drawn[1]) < world.logs.load(drawn[0]) { drawn[1] } else { drawn[0] };
    let number = world.logs.open(slot);
    let mut operations = Vec::new();
    for event in &events {
        let operation = world.history.begin(ClientIntent::Put(document(number, *event)));
        world.logs.events[*event].push(LogAttempt { partition: number, operation });
        operations.push(operation);
    }
    let partition = &mut world.logs.partitions[number];
    partition.events += events.len();
    if partition.events >= EVENTS_MAX {
        partition.closed_at = Some(world.now);
    }
    let began = world.now;
    world.logs.bulks.push(LogBulk { partition: number, events, began, refused });
    let Some(node) = any_node(world) else { return };
    world.send(SimAddress::Node(node), SimAddress::Node(node), SimMessage::ClientBatch(operations));
}

/// Notes the answers to bulks. Events that were certainly not written are sent to another slot.
fn take_outcomes(world: &mut SimWorld) {
    let repeats = world.options.sabotage == Some(Sabotage::WrittenEventsAreSentAgain);
    for bulk in std::mem::take(&mut world.logs.bulks) {
        let LogBulk { partition, events, began, mut refused } = bulk;
        let (mut waiting, mut again) = (Vec::new(), Vec::new());
        for event in events {
            let attempt = world.logs.events[event].last().expect("an event of a bulk was sent");
            match world.history.operations[&attempt.operation].outcome {
                ClientOutcome::Nothing if world.now < began + GIVES_UP => waiting.push(event),
                ClientOutcome::NotWritten => again.push(event),
                ClientOutcome::Acknowledged(_) if repeats => again.push(event),
                // Whether it was written may not be known: without an id, it is not sent again.
                ClientOutcome::Nothing | ClientOutcome::Unknown | ClientOutcome::Acknowledged(_) => {}
            }
        }
        if !waiting.is_empty() {
            let refused = refused.clone();
            world.logs.bulks.push(LogBulk { partition, events: waiting, began, refused });
        }
        if !again.is_empty() {
            refused.insert(world.logs.partitions[partition].slot);
            if refused.len() == SLOTS {
                refused.clear();
            }
            send(world, again, refused);
        }
    }
}

/// Drops partitions that were closed a while ago, once no event is on its way there.
fn expire(world: &mut SimWorld) {
    let takes_open = world.options.sabotage == Some(Sabotage::OpenPartitionsDropped);
    for number in 0..world.logs.partitions.len() {
        let SimLogPartition { closed_at, drop, events, .. } = &world.logs.partitions[number];
        let is_waited_for = world.logs.bulks.iter().any(|bulk| bulk.partition == number);
        if takes_open && closed_at.is_none() && *events > EVENTS_MAX / 2 && !is_waited_for {
            ask_drop(world, number);
            continue;
        }
        let is_over = closed_at.is_some_and(|closed_at| world.now >= closed_at + RETENTION);
        let is_dropping =
            drop.is_some_and(|(operation, began)| match world.history.operations[&operation].outcome {
                ClientOutcome::Acknowledged(_) => true,
                ClientOutcome::Nothing => world.now < began + GIVES_UP,
                ClientOutcome::NotWritten | ClientOutcome::Unknown => false,
            });
        if is_over && !is_waited_for && !is_dropping {
            let operation = ask_drop(world, number);
            world.logs.partitions[number].drop = Some((operation, world.now));
        }
    }
}

/// Has a node drop a partition.
fn ask_drop(world: &mut SimWorld, number: usize) -> OperationId {
    let id = document(number, 0);
    let operation = world.history.begin(ClientIntent::DropGroup(id.group().clone(), id));
    if let Some(node) = any_node(world) {
        let message = SimMessage::Client { operation, unfinished: None, hops: 0 };
        world.send(SimAddress::Node(node), SimAddress::Node(node), message);
    }
    operation
}

fn any_node(world: &mut SimWorld) -> Option<NodeKey> {
    let keys: Vec<NodeKey> = world.nodes.keys().copied().collect();
    world.random.pick(&keys)
}

/// The document of an event in a partition.
fn document(partition: usize, event: usize) -> DocumentId {
    let group = DocumentGroup::Number(FIRST_GROUP + partition as u64);
    DocumentId::new("sim", "note", &group, &event.to_string()).expect("all its parts are there")
}

/// Checks that each event is there once at most, and that one that was acknowledged is there, unless its
/// partition was to be dropped.
pub(crate) fn check(world: &SimWorld) -> Result<(), String> {
    let Some(state) = world.coordination.state() else { return Ok(()) };
    for (event, attempts) in world.logs.events.iter().enumerate() {
        // A partition that could take the event only the second time has two attempts.
        let there: BTreeSet<usize> = attempts
            .iter()
            .map(|attempt| attempt.partition)
            .filter(|partition| has(world, state, &document(*partition, event)))
            .collect();
        if there.len() > 1 {
            return Err(format!("event {event} is in the partitions {there:?}"));
        }
        let is_lost = |attempt: &&LogAttempt| {
            let outcome = world.history.operations[&attempt.operation].outcome;
            matches!(outcome, ClientOutcome::Acknowledged(_))
                && world.logs.partitions[attempt.partition].drop.is_none()
                && !there.contains(&attempt.partition)
        };
        if let Some(attempt) = attempts.iter().find(is_lost) {
            return Err(format!(
                "event {event} was acknowledged as {:?}, and is not in partition {}",
                attempt.operation, attempt.partition
            ));
        }
    }
    Ok(())
}

/// True if the newest version of a document on any node has content.
fn has(world: &SimWorld, state: &ClusterState, id: &DocumentId) -> bool {
    let bucket = state.bucket(id.location());
    let versions = world.nodes.values().filter_map(|node| node.storage.newest_of(bucket, id));
    versions.max_by_key(|version| version.timestamp).is_some_and(|version| version.body.is_some())
}
