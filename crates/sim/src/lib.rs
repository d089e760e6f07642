//! A cluster in one thread from one seed.
//!
//! [`run`] lets a few virtual nodes live for some minutes of virtual time: the real distributor, the real
//! rules of replicas, the real checkers and scheduler, with a virtual clock, a virtual network and a storage
//! in memory. Clients write, read, modify and drop; nodes crash and lose what was not synced, start again,
//! freeze and wake, join, retire; document types are removed and come back; disks are full or break; messages
//! are late, doubled, lost; links break in one direction or both; clocks jump, and differ in speed;
//! coordination goes away. Then all is well again, and what was promised is checked:
//!
//! - every acknowledged write is there with its newest value, and nothing that was removed is back;
//! - all replicas of a bucket are equal, complete, and exactly where they should be;
//! - nothing is stuck: no operation runs or waits, no client is without an answer;
//! - while it ran, no read through an owner missed a write that was acknowledged before and that any node had
//!   which the owner had heard.
//!
//! The same seed gives the same run, event by event. No part of the product.

mod checks;
mod clients;
mod coordination;
mod deployments;
mod disk;
mod faults;
mod history;
mod message;
mod network;
mod node;
mod random;
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

/// Something is broken on purpose, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Replicas take rows from anyone, whatever state the sender has.
    NoFence,
    /// Replicas are completed and deleted without comparing: all say that they hold the same.
    NoComparison,
    /// Nodes say that rows are durable before they are.
    EarlyAcknowledgement,
    /// Each node drops a type that a deployment removes at a time of its own, when it has the deployment
    /// active.
    TypesDroppedLocally,
}

/// How a run goes.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Nodes at the beginning.
    pub nodes: usize,
    /// Distribution bits.
    pub bits: u8,
    /// Replicas of each bucket; 1 to 3 by the seed where there is none.
    pub redundancy: Option<u16>,
    /// Turns of trouble; a turn is up to a second.
    pub turns: usize,
    /// What happened is written down.
    pub trace: bool,
    /// What is broken on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions { nodes: 4, bits: 3, redundancy: None, turns: 60, trace: false, sabotage: None }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct SimOutcome {
    /// What was promised and did not hold.
    pub wrong: Option<String>,
    /// What happened, line by line, where that was asked for.
    pub lines: Vec<String>,
    /// Writes that were acknowledged.
    pub acknowledgements: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// Events in all.
    pub happenings: u64,
    /// Virtual time until everything was where it should be, from when all was well again.
    pub healed_in: Option<Duration>,
}

/// Lives through one seed.
pub fn run(seed: u64, options: SimOptions) -> SimOutcome {
    let mut world = SimWorld::new(seed, options);
    for _ in 0..world.options.nodes {
        world.join();
    }
    world.pass(Duration::from_secs(4));
    // Some lives are calmer than others: where all is broken, little is tried.
    let trouble = [250, 500, 900][world.random.below(3) as usize];
    for _ in 0..world.options.turns {
        if world.random.permille(trouble) {
            faults::strike(&mut world);
        }
        for _ in 0..world.random.below(12) {
            ask(&mut world);
            let pause = world.random.micros(0, 40_000);
            world.pass(pause);
        }
        let pause = world.random.micros(0, 1_000_000);
        world.pass(pause);
        if world.wrong.is_some() {
            break;
        }
    }
    let healed_in = rest(&mut world);
    end(world, healed_in)
}

/// Ends all trouble, and waits until the cluster has come to rest.
pub(crate) fn rest(world: &mut SimWorld) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(240);
    faults::heal(world);
    let healed = world.now;
    while world.wrong.is_none() {
        world.pass(Duration::from_secs(1));
        // A while, so that what was late before has arrived, and clients have given up.
        if world.now - healed < Duration::from_secs(20) {
            continue;
        }
        match checks::at_rest(world) {
            Ok(()) => {
                let healed_in = world.now - healed;
                if let Err(wrong) = checks::nothing_lost(world) {
                    world.wrong = Some(wrong);
                }
                return Some(healed_in);
            }
            Err(reason) if world.now - healed > LONGEST => {
                world.wrong = Some(format!("it does not come to rest: {reason}"));
            }
            Err(_) => {}
        }
    }
    None
}

pub(crate) fn end(mut world: SimWorld, healed_in: Option<Duration>) -> SimOutcome {
    SimOutcome {
        lines: world.take_lines(),
        acknowledgements: world.history.acknowledgements,
        reads: world.history.reads,
        happenings: world.happenings,
        healed_in,
        wrong: world.wrong,
    }
}

/// A client does something with one of few documents, at any node.
fn ask(world: &mut SimWorld) {
    let keys: Vec<_> = world.nodes.keys().copied().collect();
    let Some(node) = world.random.pick(&keys) else { return };
    let group = DocumentGroup::Number(world.random.below(6));
    let name = world.random.below(4).to_string();
    let document_type = if world.random.permille(300) { CHANGING_TYPE } else { "note" };
    let id = DocumentId::new("sim", document_type, &group, &name).expect("all its parts are there");
    let intent = match world.random.below(100) {
        0..45 => ClientIntent::Put(id),
        45..55 => ClientIntent::Remove(id),
        55..75 => ClientIntent::Modify(id),
        75..98 => ClientIntent::Read(id),
        _ => ClientIntent::DropGroup(group, id),
    };
    world.ask(node, intent);
}
