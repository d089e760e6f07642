use crate::BucketId;
use crate::draw::{self, DRAWS_PER_BATCH};
use crate::topology::{GroupMembers, NodeGroup, TopologyNode};

/// Assignment of buckets to nodes, for a set of available nodes.
///
/// A lookup costs well under a nanosecond per node of the chosen groups; memory is 14 bytes per node.
#[derive(Debug, Clone, PartialEq)]
pub struct IdealState {
    redundancy: u16,
    root: PlacementLevel,
}

impl IdealState {
    pub(crate) fn new(redundancy: u16, root: &NodeGroup, available: &dyn Fn(u16) -> bool) -> Self {
        IdealState { redundancy, root: PlacementLevel::new(redundancy, root, 0, available) }
    }

    /// Nodes that should hold `bucket`, most preferred first: as many as the redundancy, or fewer if there
    /// are fewer nodes.
    pub fn nodes(&self, bucket: BucketId) -> Vec<u16> {
        let mut nodes = Vec::with_capacity(usize::from(self.redundancy));
        self.nodes_into(bucket, &mut nodes);
        nodes
    }

    /// [`IdealState::nodes`] into an existing list, which is cleared first.
    pub fn nodes_into(&self, bucket: BucketId, nodes: &mut Vec<u16>) {
        nodes.clear();
        self.root.choose(draw::of_bucket(bucket), self.redundancy, nodes);
    }
}

/// One group, prepared for lookups.
#[derive(Debug, Clone, PartialEq)]
enum PlacementLevel {
    Nodes { draws: DrawCandidates, keys: Vec<u16> },
    Groups { draws: DrawCandidates, shares: Vec<u16>, levels: Vec<PlacementLevel> },
}

impl PlacementLevel {
    fn new(redundancy: u16, group: &NodeGroup, path: u32, available: &dyn Fn(u16) -> bool) -> Self {
        match &group.members {
            GroupMembers::Nodes(nodes) => {
                let mut nodes: Vec<&TopologyNode> = nodes.iter().filter(|node| available(node.key)).collect();
                // The lower key wins a tie.
                nodes.sort_unstable_by_key(|node| node.key);
                let draws = nodes.iter().map(|node| (draw::of_node(node.key), node.capacity)).collect();
                PlacementLevel::Nodes { draws, keys: nodes.iter().map(|node| node.key).collect() }
            }
            GroupMembers::Groups(distribution, groups) => {
                let shares = distribution.shares(redundancy);
                let largest = shares.first().copied().unwrap_or(0);
                let mut groups: Vec<&NodeGroup> = groups.iter().collect();
                groups.sort_unstable_by_key(|group| group.key);
                let level = |group: &&NodeGroup| {
                    let path = draw::of_group(path, group.key);
                    ((path, group.capacity()), PlacementLevel::new(largest, group, path, available))
                };
                let (draws, levels) = groups.iter().map(level).filter(|(_, level)| !level.is_empty()).unzip();
                PlacementLevel::Groups { draws, shares, levels }
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            PlacementLevel::Nodes { keys, .. } => keys.is_empty(),
            PlacementLevel::Groups { levels, .. } => levels.is_empty(),
        }
    }

    /// Appends the `count` best nodes for a bucket.
    fn choose(&self, bucket: u32, count: u16, chosen: &mut Vec<u16>) {
        match self {
            PlacementLevel::Nodes { draws, keys } => {
                draws.best(bucket, usize::from(count), |member| chosen.push(keys[member]));
            }
            PlacementLevel::Groups { draws, shares, levels } => {
                let mut shares = shares.iter();
                let mut left = count;
                draws.best(bucket, shares.len(), |member| {
                    let share = shares.next().copied().unwrap_or(0).min(left);
                    left -= share;
                    levels[member].choose(bucket, share, chosen);
                });
            }
        }
    }
}

/// Members of a group that compete in a draw.
#[derive(Debug, Clone, Default, PartialEq)]
struct DrawCandidates {
    members: Vec<u32>,
    capacities: Vec<f64>,
    /// The largest of the capacities.
    capacity: f64,
}

impl Extend<(u32, f64)> for DrawCandidates {
    fn extend<I: IntoIterator<Item = (u32, f64)>>(&mut self, members: I) {
        for (member, capacity) in members {
            self.members.push(member);
            self.capacities.push(capacity);
            self.capacity = self.capacity.max(capacity);
        }
    }
}

impl FromIterator<(u32, f64)> for DrawCandidates {
    fn from_iter<I: IntoIterator<Item = (u32, f64)>>(members: I) -> Self {
        let mut draws = DrawCandidates::default();
        draws.extend(members);
        draws
    }
}

impl DrawCandidates {
    /// Calls `found` with the indices of the `count` members with the best draws for a bucket, best first;
    /// the earlier one wins a tie.
    fn best(&self, bucket: u32, count: usize, mut found: impl FnMut(usize)) {
        if count == 0 {
            return;
        }
        let mut best: Vec<(f64, usize)> = Vec::with_capacity(count + 1);
        // Draws below this can no longer be among the best, with any capacity.
        let mut least = 0;
        let mut draws = [0; DRAWS_PER_BATCH];
        for (chunk, members) in self.members.chunks(DRAWS_PER_BATCH).enumerate() {
            if draw::draw_all(bucket, members, &mut draws) < least {
                continue;
            }
            for (place, draw) in draws.iter().enumerate().take(members.len()) {
                if *draw < least {
                    continue;
                }
                let member = chunk * DRAWS_PER_BATCH + place;
                let score = draw::score(*draw, self.capacities[member]);
                let rank = best.iter().take_while(|(better, _)| *better >= score).count();
                if rank < count {
                    best.insert(rank, (score, member));
                    best.truncate(count);
                    if let Some((worst, _)) = best.get(count - 1) {
                        least = draw::least(*worst, self.capacity);
                    }
                }
            }
        }
        best.iter().for_each(|(_, member)| found(*member));
    }
}
