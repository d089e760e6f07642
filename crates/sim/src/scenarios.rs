use std::time::Duration;

use millrace_cluster::controller::RequestedNodeState;
use millrace_cluster::{NodeKey, RowContent};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, Timestamp};
use millrace_replication::distributor::NoRoute;

use crate::history::{ClientIntent, ClientOutcome};
use crate::network::SimAddress;
use crate::world::SimWorld;
use crate::{SimOptions, SimOutcome, ask, end, rest};

/// A majority is cut off from coordination, and from many nodes that join at that moment, while clients write
/// on both sides. By the state that it knows, it could continue without the others.
///
/// The outcome is wrong if both sides continued.
pub fn joined_while_a_majority_is_cut_off(seed: u64) -> SimOutcome {
    let options = SimOptions { nodes: 3, redundancy: Some(2), trace: true, ..SimOptions::default() };
    let mut world = SimWorld::new(seed, options);
    let mut old: Vec<SimAddress> = (0..world.options.nodes).map(|_| SimAddress::Node(world.join())).collect();
    world.pass(Duration::from_secs(4));
    let mut new: Vec<SimAddress> = (0..4).map(|_| SimAddress::Node(world.join())).collect();
    // They register, and then nothing comes through.
    world.pass(Duration::from_millis(4));
    new.push(SimAddress::Coordination);
    // One of three is on the other side.
    new.extend(old.pop());
    world.network.split(&old, &new);
    busy(&mut world, Duration::from_secs(20));
    let healed_in = rest(&mut world);
    end(world, healed_in)
}

/// A majority is cut off from coordination and continues by votes; then one of its nodes ends, and an
/// operator reports it, while clients write on both sides. Its vote of a moment before still counts for the
/// remaining nodes.
///
/// The outcome is wrong if both sides continued.
pub fn set_down_while_a_majority_is_cut_off(seed: u64) -> SimOutcome {
    let options = SimOptions { nodes: 4, redundancy: Some(2), trace: true, ..SimOptions::default() };
    let mut world = SimWorld::new(seed, options);
    let mut cut_off: Vec<SimAddress> =
        (0..world.options.nodes).map(|_| SimAddress::Node(world.join())).collect();
    world.pass(Duration::from_secs(4));
    let left: Vec<SimAddress> = cut_off.pop().into_iter().chain([SimAddress::Coordination]).collect();
    world.network.split(&cut_off, &left);
    busy(&mut world, Duration::from_secs(9));
    world.crash(NodeKey(0));
    world.request_state(NodeKey(0), RequestedNodeState::Down);
    busy(&mut world, Duration::from_secs(8));
    let healed_in = rest(&mut world);
    end(world, healed_in)
}

/// A node joins while another has been absent for long, and a third restarts a little later.
///
/// The outcome is wrong if either has to wait for the absent node before it accepts writes: no node can
/// assume any more that it serves.
pub fn joined_while_one_is_away(seed: u64) -> SimOutcome {
    let options = SimOptions { nodes: 4, bits: 5, redundancy: Some(2), trace: true, ..SimOptions::default() };
    let mut world = SimWorld::new(seed, options);
    for _ in 0..world.options.nodes {
        world.join();
    }
    busy(&mut world, Duration::from_secs(4));
    world.crash(NodeKey(0));
    busy(&mut world, Duration::from_secs(30));
    let joined = world.join();
    check_takes_part_soon(&mut world, joined);
    busy(&mut world, Duration::from_secs(20));
    world.crash(NodeKey(1));
    busy(&mut world, Duration::from_secs(30));
    world.restart(NodeKey(1));
    check_takes_part_soon(&mut world, NodeKey(1));
    world.restart(NodeKey(0));
    let healed_in = rest(&mut world);
    end(world, healed_in)
}

/// Checks that a node which has just started knows within three seconds the contents of its buckets on all
/// others.
fn check_takes_part_soon(world: &mut SimWorld, key: NodeKey) {
    busy(world, Duration::from_secs(3));
    let now = world.now;
    let Some(node) = world.nodes.get_mut(&key) else { return };
    let buckets = node.state.as_ref().map(|state| {
        let own = state.buckets().filter(|bucket| state.owner(*bucket) == Some(key));
        own.collect::<Vec<_>>()
    });
    let buckets = buckets.unwrap_or_default();
    let now = node.now(now);
    let mut waits = buckets.iter().filter(|bucket| {
        let route = node.distributor.route(**bucket, now);
        matches!(route, Err(NoRoute::NotYet))
    });
    let wrong = match waits.next() {
        Some(bucket) => format!("n{} does not know yet who has {bucket:?}", key.0),
        None if buckets.is_empty() => format!("n{} owns nothing", key.0),
        None => return,
    };
    world.wrong.get_or_insert(wrong);
}

/// Clients send many requests for this time.
fn busy(world: &mut SimWorld, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        for _ in 0..4 {
            ask(world);
        }
        let pause = world.random.micros(100_000, 400_000);
        world.pass(pause);
    }
}

/// Several replicas of one bucket have no document in common, and each is larger than one part of a transfer.
/// Their nodes are retired at once. No document may be lost on the way to other nodes.
///
/// The outcome is wrong if one is, or if the retired nodes keep something.
pub fn disjoint_retired_replicas(seed: u64, sources: u16, documents: u64) -> SimOutcome {
    let options = SimOptions {
        nodes: usize::from(sources) + 3,
        redundancy: Some(2),
        trace: true,
        ..SimOptions::default()
    };
    let mut world = SimWorld::new(seed, options);
    for _ in 0..world.options.nodes {
        world.join();
    }
    let group = DocumentGroup::Number(3);
    for source in 0..sources {
        let mut rows = Vec::new();
        for number in 0..documents {
            let name = format!("{source}-{number}");
            let id = DocumentId::new("sim", "note", &group, &name).expect("all its parts are there");
            let operation = world.history.begin(ClientIntent::Put(id.clone()));
            let timestamp = Timestamp(1 + operation.0);
            let body = Some(operation.0.to_le_bytes().as_slice().into());
            rows.push(RowContent::Version(DocumentVersion { id, timestamp, body }));
            world.history.record_outcome(world.now, operation, ClientOutcome::Acknowledged(timestamp));
        }
        let bucket = millrace_bucket::BucketId::new(world.options.bits, 3);
        if let Some(node) = world.nodes.get(&NodeKey(source)) {
            node.storage.create_replica(bucket, true, &rows);
        }
    }
    world.pass(Duration::from_millis(1_200));
    for source in 0..sources {
        world.request_state(NodeKey(source), RequestedNodeState::Retired);
    }
    // During the transfer, one of them is absent for a while.
    let pause = world.random.micros(0, 2_000_000);
    world.pass(pause);
    world.crash(NodeKey(0));
    world.pass(Duration::from_secs(8));
    world.restart(NodeKey(0));
    world.pass(Duration::from_secs(60));
    for source in 0..sources {
        let left =
            world.nodes.get(&NodeKey(source)).map(|node| node.storage.all(Timestamp(0))).unwrap_or_default();
        if !left.is_empty() && world.wrong.is_none() {
            world.wrong = Some(format!("n{source} was retired and still has {left:?}"));
        }
    }
    let healed_in = rest(&mut world);
    end(world, healed_in)
}
