use std::sync::Arc;

use millrace_cluster::NodeKey;
use millrace_cluster::controller::RequestedNodeState;
use millrace_cluster::reindexing::ReindexEvent;
use millrace_replication::replica::StorageWork;

use crate::Sabotage;
use crate::disk::SimDisk;
use crate::network::SimAddress;
use crate::node::SimNode;
use crate::reindexing::reindexed;
use crate::world::SimWorld;

/// Starts or ends a fault.
pub(crate) fn change_faults(world: &mut SimWorld) {
    let keys: Vec<NodeKey> = world.nodes.keys().copied().collect();
    let Some(key) = world.random.pick(&keys) else { return };
    match world.random.below(27) {
        0..3 => {
            world.note(|| format!("n{key} crashes"));
            world.crash(key);
        }
        3..6 => {
            let dead = keys_where(world, |node| !node.alive);
            if let Some(key) = world.random.pick(&dead) {
                world.restart(key);
            }
        }
        6 => {
            world.note(|| format!("n{key} freezes"));
            world.freeze(key);
        }
        7..9 => {
            let frozen = keys_where(world, |node| node.frozen);
            if let Some(key) = world.random.pick(&frozen) {
                world.note(|| format!("n{key} wakes"));
                world.wake(key);
            }
        }
        9..11 => split(world, &keys),
        11..14 => {
            world.note(|| "links are mended".to_owned());
            world.network.mend();
        }
        14 => change_network(world),
        15 => shift_clock(world, key),
        16 if keys.len() < 7 => {
            let key = world.join();
            world.note(|| format!("n{key} joins"));
        }
        17 => request_some_state(world, key, keys.len()),
        18 => {
            if let Some(node) = world.nodes.get_mut(&key) {
                node.slow_disk = !node.slow_disk;
            }
        }
        19 => {
            let (low, bits) = (world.random.below(6) as u32, 33 + world.random.below(2) as u8);
            world.note(|| format!("group {low} is to be divided, to {bits} bits"));
            world.coordination.grows(low, bits);
        }
        20..22 => world.deploy(key),
        22 => {
            world.note(|| format!("n{key}'s disk breaks"));
            world.break_disk(key);
        }
        23..25 => fill_or_clear_disk(world, key),
        25 => {
            // It takes as long as all other faults of a run together.
            if world.random.permille(150) {
                world.stay_away(key);
            }
        }
        _ => {
            world.note(|| "coordination is lost".to_owned());
            for key in keys {
                world.network.block(SimAddress::Node(key), SimAddress::Coordination);
            }
        }
    }
}

fn keys_where(world: &SimWorld, wanted: impl Fn(&SimNode) -> bool) -> Vec<NodeKey> {
    world.nodes.values().filter(|node| wanted(node)).map(|node| node.key).collect()
}

/// Shifts the clock of a node: by hours, or by seconds if there are indexes, whose feed permits clocks to
/// differ by half of its margin.
fn shift_clock(world: &mut SimWorld, key: NodeKey) {
    if world.options.indexes {
        let seconds = world.random.below(21) as i64 - 10;
        world.note(|| format!("n{key}'s clock is off by {seconds} seconds"));
        let off = world.skipped_us + seconds * 1_000_000;
        if let Some(node) = world.nodes.get_mut(&key) {
            node.clock_off = off;
        }
    } else {
        let hours = world.random.below(7) as i64 - 3;
        world.note(|| format!("n{key}'s clock jumps by {hours} hours"));
        if let Some(node) = world.nodes.get_mut(&key) {
            node.clock_off += hours * 3_600_000_000;
        }
    }
}

/// Requests a state for a node that leaves enough of the other nodes.
fn request_some_state(world: &mut SimWorld, key: NodeKey, nodes: usize) {
    let requested = match world.random.below(5) {
        0 if world.coordination.count_requested(RequestedNodeState::Retired) * 2 < nodes => {
            RequestedNodeState::Retired
        }
        1 if world.coordination.count_requested(RequestedNodeState::Maintenance) == 0 => {
            RequestedNodeState::Maintenance
        }
        // The operator's request confirms that such a node has ended.
        2 if world.coordination.count_requested(RequestedNodeState::Down) == 0
            && !world.nodes[&key].alive =>
        {
            RequestedNodeState::Down
        }
        _ => RequestedNodeState::Up,
    };
    world.note(|| format!("n{key} is requested to be {requested:?}"));
    world.request_state(key, requested);
}

/// Fills the disk of a node, or clears a full one.
fn fill_or_clear_disk(world: &mut SimWorld, key: NodeKey) {
    let now = world.now;
    let Some(node) = world.nodes.get_mut(&key) else { return };
    node.disk = match node.disk {
        SimDisk::Works => SimDisk::Full { since: now },
        SimDisk::Full { .. } => SimDisk::Works,
        SimDisk::Broken => SimDisk::Broken,
    };
    let disk = node.disk;
    world.note(|| format!("n{key}'s disk: {disk:?}"));
}

/// Cuts links: both ways, one way, or so that one node still sees both sides.
fn split(world: &mut SimWorld, keys: &[NodeKey]) {
    let mut side = Vec::new();
    let mut other = Vec::new();
    for key in keys {
        if world.random.permille(500) {
            side.push(SimAddress::Node(*key))
        } else {
            other.push(SimAddress::Node(*key))
        }
    }
    let with_coordination = world.random.below(3);
    match with_coordination {
        0 => side.push(SimAddress::Coordination),
        1 => other.push(SimAddress::Coordination),
        _ => {}
    }
    match world.random.below(3) {
        0 => {
            world.note(|| format!("split {side:?} from {other:?}"));
            world.network.split(&side, &other);
        }
        1 => {
            world.note(|| format!("nothing comes from {side:?} to {other:?}"));
            for from in &side {
                for to in &other {
                    world.network.block(*from, *to);
                }
            }
        }
        _ => {
            let bridge = other.pop();
            world.note(|| format!("split {side:?} from {other:?}, both see {bridge:?}"));
            world.network.split(&side, &other);
        }
    }
}

/// Sets the behaviour of the network from now on.
fn change_network(world: &mut SimWorld) {
    world.network.loss = world.random.below(4) * 20;
    world.network.doubled = world.random.below(3) * 50;
    world.network.delayed = world.random.below(3) * 10;
}

/// Ends all faults, and requests every node to be up.
pub(crate) fn heal(world: &mut SimWorld) {
    world.note(|| "all is well again".to_owned());
    world.network.mend();
    (world.network.loss, world.network.doubled, world.network.delayed) = (0, 0, 0);
    let keys: Vec<NodeKey> = world.nodes.keys().copied().collect();
    for key in keys {
        world.wake(key);
        if world.nodes[&key].disk == SimDisk::Broken {
            // Now, instead of when it would notice.
            world.crash(key);
        }
        world.restart(key);
        if let Some(node) = world.nodes.get_mut(&key) {
            node.slow_disk = false;
            node.removal = None;
            if matches!(node.disk, SimDisk::Full { .. }) {
                node.disk = SimDisk::Works;
            }
        }
        world.request_state(key, RequestedNodeState::Up);
    }
    world.unhalt();
}

impl SimWorld {
    pub fn crash(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.alive = false;
        node.frozen = false;
        node.backlog.clear();
        // Some of the writes in progress had reached the disk.
        for work in std::mem::take(&mut node.jobs).into_values() {
            match work {
                StorageWork::Apply(rows) if self.options.sabotage != Some(Sabotage::EarlyAcknowledgement) => {
                    let kept: Vec<_> = rows.into_iter().filter(|_| self.random.permille(400)).collect();
                    StorageWork::Apply(kept).run(&node.storage);
                }
                StorageWork::Create(_) | StorageWork::Complete { .. } | StorageWork::Delete { .. }
                    if self.random.permille(500) =>
                {
                    work.run(&node.storage);
                }
                _ => {}
            }
        }
        node.storage.lose_power();
        node.in_flight.clear();
        node.walk = None;
    }

    pub fn restart(&mut self, key: NodeKey) {
        if let Some(node) = self.nodes.get_mut(&key)
            && !node.alive
        {
            let incarnation = node.incarnation.number() + 1;
            self.note(|| format!("n{key} starts, run {incarnation}"));
            self.come_back(key);
            let Some(node) = self.nodes.get_mut(&key) else { return };
            let application = Arc::new(reindexed(None, &node.package));
            node.application = Some(Arc::clone(&application));
            self.reindex(key, vec![ReindexEvent::Application(application)]);
        }
    }

    pub fn freeze(&mut self, key: NodeKey) {
        if let Some(node) = self.nodes.get_mut(&key).filter(|node| node.alive) {
            node.frozen = true;
        }
    }

    pub fn wake(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.frozen) else { return };
        node.frozen = false;
        node.wakes_at = None;
        let backlog = std::mem::take(&mut node.backlog);
        for message in backlog {
            self.deliver(key, message);
        }
        self.distribute(key, Vec::new());
        self.reindex(key, Vec::new());
    }

    pub fn request_state(&mut self, key: NodeKey, state: RequestedNodeState) {
        self.coordination.request_state(key, state);
    }
}
