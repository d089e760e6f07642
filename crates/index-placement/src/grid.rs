//! Positions of copies on nodes, with the rules of where a copy may be.

use millrace_bucket::NodeKey;

use crate::groups::GroupShares;
use crate::node::NodeAvailability;
use crate::{CopyId, SliceId};

/// Copies by slices and nodes, as they are when all that is in flight has ended. Nodes and slices are known
/// by their positions in these lists.
pub(crate) struct PlacementGrid {
    pub nodes: Vec<GridNode>,
    pub slices: Vec<GridSlice>,
    /// For each node the slices that it has a copy of.
    on: Vec<Vec<usize>>,
    bytes: Vec<u64>,
    shares: GroupShares,
}

pub(crate) struct GridNode {
    pub key: NodeKey,
    pub availability: NodeAvailability,
    /// True if it had no copies, so that copies may move onto it without a rebalance that was asked for.
    pub filling: bool,
    groups: Vec<usize>,
}

pub(crate) struct GridSlice {
    pub id: SliceId,
    /// Wanted number of copies.
    pub copies: usize,
    /// Size of one copy.
    pub bytes: u64,
    /// Positions of its copies.
    pub places: Vec<GridCopy>,
    /// Nodes that hold files of it which are to be unlinked: they get a copy only afterwards.
    pub blocked: Vec<NodeKey>,
}

/// A copy, at its position in the grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GridCopy {
    pub node: usize,
    /// The node that has it at present.
    pub home: usize,
    /// Its number, if it is in the table.
    pub copy: Option<CopyId>,
    /// True if it may move: it is ready, and not moving yet.
    pub movable: bool,
}

/// A move of a copy: it goes out, and another one of its slice comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GridMove {
    pub slice: usize,
    pub from: usize,
    pub to: usize,
    pub copy: CopyId,
}

impl PlacementGrid {
    /// A grid without copies of nodes, each with its availability and the path of its groups.
    pub fn new<'a>(
        nodes: impl Iterator<Item = (NodeKey, NodeAvailability, &'a [u16], bool)> + Clone,
    ) -> Self {
        let counts =
            |availability| matches!(availability, NodeAvailability::Takes | NodeAvailability::Pauses);
        let paths = nodes.clone().map(|(_, availability, path, _)| (path, counts(availability)));
        let (shares, of_nodes) = GroupShares::new(paths);
        let nodes = nodes.zip(of_nodes);
        let nodes = nodes.map(|((key, availability, _, filling), groups)| GridNode {
            key,
            availability,
            filling,
            groups,
        });
        let nodes: Vec<GridNode> = nodes.collect();
        let (on, bytes) = (vec![Vec::new(); nodes.len()], vec![0; nodes.len()]);
        PlacementGrid { nodes, slices: Vec::new(), on, bytes, shares }
    }

    /// Position of a node.
    pub fn node(&self, key: NodeKey) -> Option<usize> {
        self.nodes.iter().position(|node| node.key == key)
    }

    pub fn add_slice(&mut self, slice: GridSlice) {
        let at = self.slices.len();
        for place in &slice.places {
            self.on[place.node].push(at);
            self.bytes[place.node] += slice.bytes;
        }
        self.slices.push(slice);
    }

    /// Adds a copy that does not exist yet.
    pub fn add_copy(&mut self, slice: usize, node: usize) {
        let place = GridCopy { node, home: node, copy: None, movable: false };
        self.slices[slice].places.push(place);
        self.on[node].push(slice);
        self.bytes[node] += self.slices[slice].bytes;
    }

    /// Number of copies on a node.
    pub fn load(&self, node: usize) -> usize {
        self.on[node].len()
    }

    /// Size of the copies on a node.
    pub fn bytes(&self, node: usize) -> u64 {
        self.bytes[node]
    }

    /// Slices that a node has copies of.
    pub fn slices_on(&self, node: usize) -> &[usize] {
        &self.on[node]
    }

    pub fn has_copy(&self, slice: usize, node: usize) -> bool {
        self.slices[slice].places.iter().any(|place| place.node == node)
    }

    pub fn place(&self, slice: usize, node: usize) -> Option<&GridCopy> {
        self.slices[slice].places.iter().find(|place| place.node == node)
    }

    /// True if a node may get a copy of a slice, which leaves `from` if there is such a node: it has none,
    /// and no group gets more copies than its share by it.
    pub fn fits(&self, slice: usize, from: Option<usize>, to: usize) -> bool {
        !self.has_copy(slice, to) && self.fits_groups(slice, from, to)
    }

    fn fits_groups(&self, slice: usize, from: Option<usize>, to: usize) -> bool {
        let stays = from.map_or(&[][..], |from| &self.nodes[from].groups);
        let entered = self.nodes[to].groups.iter().filter(|group| !stays.contains(group));
        let copies = self.slices[slice].copies;
        entered.into_iter().all(|group| self.in_group(slice, *group) < self.shares.share(copies, *group))
    }

    fn in_group(&self, slice: usize, group: usize) -> usize {
        let places = self.slices[slice].places.iter();
        places.filter(|place| self.nodes[place.node].groups.contains(&group)).count()
    }

    /// A group of a node that has more copies of a slice than its share.
    fn crowded(&self, slice: usize, node: usize) -> Option<usize> {
        let copies = self.slices[slice].copies;
        let groups = self.nodes[node].groups.iter().copied();
        groups.into_iter().find(|group| self.in_group(slice, *group) > self.shares.share(copies, *group))
    }

    /// Moves a copy.
    pub fn shift(&mut self, slice: usize, from: usize, to: usize) {
        if let Some(place) = self.slices[slice].places.iter_mut().find(|place| place.node == from) {
            place.node = to;
            self.on[from].retain(|other| *other != slice);
            self.on[to].push(slice);
            self.bytes[from] -= self.slices[slice].bytes;
            self.bytes[to] += self.slices[slice].bytes;
        }
    }

    /// Places copies of slices that have too few, each on the node with the fewest copies. Returns them.
    pub fn fill_up(&mut self) -> Vec<(usize, usize)> {
        let mut added = Vec::new();
        for slice in 0..self.slices.len() {
            while self.slices[slice].places.len() < self.slices[slice].copies {
                let takes = |node: &usize| {
                    self.nodes[*node].availability == NodeAvailability::Takes && !self.has_copy(slice, *node)
                };
                let cost = |node: &usize| {
                    let key = self.nodes[*node].key;
                    let is_blocked = self.slices[slice].blocked.contains(&key);
                    let crowds = !self.fits_groups(slice, None, *node);
                    (crowds, is_blocked, self.load(*node), self.bytes(*node), key)
                };
                let Some(node) = (0..self.nodes.len()).filter(takes).min_by_key(cost) else { break };
                self.add_copy(slice, node);
                added.push((slice, node));
            }
        }
        added
    }

    /// Moves copies out of groups that have more of a slice than their share, into groups with room.
    pub fn spread(&mut self) -> Vec<GridMove> {
        let mut moves = Vec::new();
        for slice in 0..self.slices.len() {
            while let Some(found) = self.crowded_place(slice) {
                let (from, to, copy) = found;
                self.shift(slice, from, to);
                let place = self.slices[slice].places.iter_mut().find(|place| place.node == to);
                place.into_iter().for_each(|place| (place.movable, place.home) = (false, to));
                moves.push(GridMove { slice, from, to, copy });
            }
        }
        moves
    }

    /// The copy of a slice that should leave a group, and the node that it should go to.
    fn crowded_place(&self, slice: usize) -> Option<(usize, usize, CopyId)> {
        let movable = self.slices[slice].places.iter().filter(|place| place.movable);
        let crowded = movable.filter_map(|place| Some((place, self.crowded(slice, place.node)?)));
        let stays = |node: usize| self.nodes[node].availability != NodeAvailability::Sheds;
        let mut crowded: Vec<_> = crowded.collect();
        crowded.sort_by_key(|(place, _)| (stays(place.node), usize::MAX - self.load(place.node), place.node));
        crowded.into_iter().find_map(|(place, group)| {
            let fits = |node: &usize| {
                self.nodes[*node].availability == NodeAvailability::Takes
                    && !self.nodes[*node].groups.contains(&group)
                    && self.fits(slice, Some(place.node), *node)
            };
            let nodes = (0..self.nodes.len()).filter(fits);
            let to = nodes.min_by_key(|node| (self.load(*node), self.bytes(*node), self.nodes[*node].key))?;
            Some((place.node, to, place.copy?))
        })
    }

    /// The moves that lead from the present positions to those of the grid. Copies of a slice are equal: one
    /// that takes the position of another one is not a move.
    pub fn moves(&self) -> Vec<GridMove> {
        let mut moves = Vec::new();
        for (at, slice) in self.slices.iter().enumerate() {
            if slice.places.iter().all(|place| place.node == place.home) {
                continue;
            }
            let places = &slice.places;
            let gone = places.iter().filter(|place| !places.iter().any(|other| other.node == place.home));
            let came = places.iter().filter(|place| !places.iter().any(|other| other.home == place.node));
            moves.extend(gone.zip(came).filter_map(|(gone, came)| {
                Some(GridMove { slice: at, from: gone.home, to: came.node, copy: gone.copy? })
            }));
        }
        moves
    }
}
