//! The fewest moves after which no node has more copies than the mean, rounded up.
//!
//! It is a flow of least cost. Slices send each of their copies to a node. A node takes at most one copy of a
//! slice and at most ⌈mean⌉ in all, and a group of nodes at most its share of a slice. A copy costs nothing
//! where it is, and one move elsewhere. The present positions are a flow with surpluses, on nodes above
//! ⌈mean⌉ and on nodes that are to be emptied. Each surplus is sent along the shortest path of the residual
//! graph, whose arcs are moves of single copies from node to node: the flow stays one of least cost for what
//! it delivers.
//!
//! 1. As long as one move from a node with a surplus to one with room is possible, no path is shorter.
//! 2. Then paths of several moves: a copy goes where another one makes room for it.
//! 3. Nodes that are to be emptied give the rest to the nodes with the fewest copies, also above ⌈mean⌉.
//! 4. Moves are exchanged for others of the same number as long as the bytes on the nodes become more even.

use crate::grid::PlacementGrid;
use crate::node::NodeAvailability;

/// The moves that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BalanceScope {
    /// Only from nodes that are to be emptied.
    Required,
    /// Also from other nodes onto those that are filled.
    Filling,
    /// All.
    Rebalance,
}

/// Largest number of moves whose targets are exchanged in pairs, which takes quadratic time.
const EXCHANGED_MAX: usize = 400;

/// Number of passes that make bytes even.
const PASSES_MAX: usize = 6;

/// Weight of a move in the length of a path; each arc counts 1 in addition. Of paths with the same number of
/// moves the one with fewer arcs is taken: it does not use a slice twice.
const MOVE_WEIGHT: i64 = 1 << 20;

/// Moves copies in the grid.
pub(crate) fn balance(grid: &mut PlacementGrid, scope: BalanceScope) {
    let Some(limit) = limit(grid) else { return };
    let mut balancing = Balancing { swaps: swaps(grid), grid, scope, limit };
    while balancing.move_one() || balancing.move_along_path() {}
    balancing.empty_the_rest();
    balancing.even_bytes();
}

/// The number of copies that no node should exceed: the mean of the nodes that take copies, rounded up, when
/// those of nodes that are to be emptied have come to them. `None` without such nodes.
pub(crate) fn limit(grid: &PlacementGrid) -> Option<usize> {
    let (mut nodes, mut copies) = (0, 0);
    for (at, node) in grid.nodes.iter().enumerate() {
        match node.availability {
            NodeAvailability::Takes => (nodes, copies) = (nodes + 1, copies + grid.load(at)),
            NodeAvailability::Sheds => copies += grid.load(at),
            NodeAvailability::Pauses | NodeAvailability::Down => {}
        }
    }
    (nodes > 0).then(|| copies.div_ceil(nodes))
}

/// Number of copies above the limit, over all nodes that take copies.
pub(crate) fn excess(grid: &PlacementGrid) -> usize {
    let limit = limit(grid).unwrap_or(0);
    let takes = |node: &usize| grid.nodes[*node].availability == NodeAvailability::Takes;
    (0..grid.nodes.len()).filter(takes).map(|node| grid.load(node).saturating_sub(limit)).sum()
}

/// True if nodes are replaced: as many are filled as are emptied.
fn swaps(grid: &PlacementGrid) -> bool {
    let emptied = (0..grid.nodes.len())
        .filter(|node| grid.nodes[*node].availability == NodeAvailability::Sheds && grid.load(*node) > 0)
        .count();
    let filled = grid.nodes.iter().filter(|node| node.filling).count();
    emptied > 0 && filled >= emptied
}

struct Balancing<'a> {
    grid: &'a mut PlacementGrid,
    scope: BalanceScope,
    limit: usize,
    swaps: bool,
}

impl Balancing<'_> {
    /// True if the scope has moves from one node to another.
    fn may_move(&self, from: usize, to: usize) -> bool {
        let nodes = &self.grid.nodes;
        nodes[to].availability == NodeAvailability::Takes
            && from != to
            && match (nodes[from].availability, self.scope) {
                (NodeAvailability::Pauses | NodeAvailability::Down, _) => false,
                // A node that replaces another one gets all that it had, so that no third one takes part.
                (NodeAvailability::Sheds, BalanceScope::Filling) => nodes[to].filling || !self.swaps,
                (NodeAvailability::Sheds, _) => true,
                (NodeAvailability::Takes, BalanceScope::Required) => false,
                (NodeAvailability::Takes, BalanceScope::Filling) => nodes[to].filling,
                (NodeAvailability::Takes, BalanceScope::Rebalance) => true,
            }
    }

    /// Nodes with a surplus: those to be emptied first, then those with the most copies.
    fn sources(&self) -> Vec<usize> {
        let load = |node: usize| self.grid.load(node);
        let is_source = |node: &usize| match self.grid.nodes[*node].availability {
            NodeAvailability::Sheds => load(*node) > 0,
            NodeAvailability::Takes => self.scope != BalanceScope::Required && load(*node) > self.limit,
            NodeAvailability::Pauses | NodeAvailability::Down => false,
        };
        let mut sources: Vec<usize> = (0..self.grid.nodes.len()).filter(is_source).collect();
        let stays = |node: usize| self.grid.nodes[node].availability != NodeAvailability::Sheds;
        sources.sort_by_key(|node| (stays(*node), usize::MAX - load(*node), *node));
        sources
    }

    /// True if a node has room below the limit.
    fn has_room(&self, node: usize) -> bool {
        self.grid.nodes[node].availability == NodeAvailability::Takes && self.grid.load(node) < self.limit
    }

    /// The cheapest move of a copy from one node to another: its slice, and the moves that it adds to the
    /// plan, -1 to 1.
    fn cheapest(&self, from: usize, to: usize) -> Option<(i64, usize)> {
        let slices = self.grid.slices_on(from).iter().copied();
        let fitting = slices.filter(|slice| {
            let movable = self.grid.place(*slice, from).is_some_and(|place| place.movable);
            movable && self.grid.fits(*slice, Some(from), to)
        });
        fitting.map(|slice| (self.cost(slice, to) - self.cost(slice, from), slice)).min()
    }

    /// Moves that a copy of a slice on a node needs.
    fn cost(&self, slice: usize, node: usize) -> i64 {
        i64::from(!self.grid.slices[slice].places.iter().any(|place| place.home == node))
    }

    /// Moves one copy from a node with a surplus to one with room, if there is such a move.
    fn move_one(&mut self) -> bool {
        let mut targets: Vec<usize> =
            (0..self.grid.nodes.len()).filter(|node| self.has_room(*node)).collect();
        targets.sort_by_key(|node| (self.grid.load(*node), self.grid.bytes(*node), *node));
        for from in self.sources() {
            for to in &targets {
                if !self.may_move(from, *to) {
                    continue;
                }
                if let Some((_, slice)) = self.cheapest(from, *to) {
                    self.grid.shift(slice, from, *to);
                    return true;
                }
            }
        }
        false
    }

    /// Sends one surplus along the shortest path of several moves, if there is a path.
    fn move_along_path(&mut self) -> bool {
        let sources = self.sources();
        let nodes = self.grid.nodes.len();
        if sources.is_empty() || !(0..nodes).any(|node| self.has_room(node)) {
            return false;
        }
        let mut arcs = Vec::new();
        for from in 0..nodes {
            for to in 0..nodes {
                if self.may_move(from, to)
                    && let Some((moves, slice)) = self.cheapest(from, to)
                {
                    arcs.push((from, to, moves * MOVE_WEIGHT + 1, slice));
                }
            }
        }
        // Lengths may be negative, where a copy returns to its node; but no cycle is.
        let mut length: Vec<Option<i64>> = vec![None; nodes];
        let mut before: Vec<Option<(usize, usize)>> = vec![None; nodes];
        sources.iter().for_each(|source| length[*source] = Some(0));
        for _ in 0..nodes {
            for (from, to, weight, slice) in &arcs {
                let Some(reached) = length[*from].map(|length| length + weight) else { continue };
                if length[*to].is_none_or(|known| reached < known) {
                    length[*to] = Some(reached);
                    before[*to] = Some((*from, *slice));
                }
            }
        }
        let ends = (0..nodes).filter(|node| self.has_room(*node) && before[*node].is_some());
        let Some(end) = ends.min_by_key(|node| (length[*node], self.grid.load(*node), *node)) else {
            return false;
        };
        let mut path = Vec::new();
        let mut at = end;
        while let Some((from, slice)) = before[at] {
            if path.len() > nodes || path.iter().any(|(_, _, other)| *other == slice) {
                return false;
            }
            path.push((from, at, slice));
            at = from;
        }
        for (from, to, slice) in path {
            self.grid.shift(slice, from, to);
        }
        true
    }

    /// Moves what is left on nodes that are to be emptied to the nodes with the fewest copies.
    fn empty_the_rest(&mut self) {
        for from in 0..self.grid.nodes.len() {
            if self.grid.nodes[from].availability != NodeAvailability::Sheds {
                continue;
            }
            for slice in self.grid.slices_on(from).to_vec() {
                let movable = self.grid.place(slice, from).is_some_and(|place| place.movable);
                let takes = |to: &usize| {
                    let stands = self.grid.nodes[*to].availability == NodeAvailability::Takes;
                    movable && stands && !self.grid.has_copy(slice, *to)
                };
                let cost = |to: &usize| {
                    let crowds = !self.grid.fits(slice, Some(from), *to);
                    (!self.may_move(from, *to), crowds, self.grid.load(*to), self.grid.bytes(*to), *to)
                };
                let to = (0..self.grid.nodes.len()).filter(takes).min_by_key(cost);
                if let Some(to) = to {
                    self.grid.shift(slice, from, to);
                }
            }
        }
    }

    /// Exchanges moves for others of the same number, as long as bytes become more even by it.
    fn even_bytes(&mut self) {
        for _ in 0..PASSES_MAX {
            let mut changed = false;
            let moved = self.moved();
            for (slice, from, to) in &moved {
                changed |= self.exchange_copy(*slice, *from, *to);
            }
            let moved = self.moved();
            if moved.len() <= EXCHANGED_MAX {
                for (at, one) in moved.iter().enumerate() {
                    for other in &moved[at + 1..] {
                        changed |= self.exchange_targets(one.0, other.0);
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Slices of which one copy moves, each with the node that it leaves and its target.
    fn moved(&self) -> Vec<(usize, usize, usize)> {
        let slices = 0..self.grid.slices.len();
        slices.filter_map(|slice| self.only_move(slice).map(|(from, to)| (slice, from, to))).collect()
    }

    fn only_move(&self, slice: usize) -> Option<(usize, usize)> {
        let places = self.grid.slices[slice].places.iter();
        let mut moved = places.filter(|place| place.node != place.home);
        let first = moved.next()?;
        moved.next().is_none().then_some((first.home, first.node))
    }

    /// Moves another copy of the node instead of this one.
    fn exchange_copy(&mut self, slice: usize, from: usize, to: usize) -> bool {
        if self.only_move(slice) != Some((from, to))
            || self.grid.nodes[from].availability == NodeAvailability::Sheds
        {
            return false;
        }
        // The copy returns first, so that it does not stand in the way of the other one.
        self.grid.shift(slice, to, from);
        let own = self.grid.slices[slice].bytes;
        let (left, right) = (self.grid.bytes(from), self.grid.bytes(to));
        let unevenness = |bytes: u64| squares(left - bytes, right + bytes);
        let candidates = self.grid.slices_on(from).iter().copied().filter(|other| {
            let stays =
                self.grid.place(*other, from).is_some_and(|place| place.movable && place.home == from);
            stays && self.grid.fits(*other, Some(from), to)
        });
        let best = candidates.min_by_key(|other| (unevenness(self.grid.slices[*other].bytes), *other));
        let better = best.filter(|best| unevenness(self.grid.slices[*best].bytes) < unevenness(own));
        self.grid.shift(better.unwrap_or(slice), from, to);
        better.is_some()
    }

    /// Exchanges the targets of two moves.
    fn exchange_targets(&mut self, one: usize, other: usize) -> bool {
        let (Some((one_from, one_to)), Some((other_from, other_to))) =
            (self.only_move(one), self.only_move(other))
        else {
            return false;
        };
        let (small, large) = (self.grid.slices[one].bytes, self.grid.slices[other].bytes);
        let (left, right) = (self.grid.bytes(one_to), self.grid.bytes(other_to));
        let is_better = || squares(left - small + large, right - large + small) < squares(left, right);
        let fits = one_to != other_to
            && self.may_move(one_from, other_to)
            && self.may_move(other_from, one_to)
            && self.grid.fits(one, Some(one_to), other_to)
            && self.grid.fits(other, Some(other_to), one_to);
        if !fits || !is_better() {
            return false;
        }
        self.grid.shift(one, one_to, other_to);
        self.grid.shift(other, other_to, one_to);
        true
    }
}

/// Sum of the squares of two sizes: for a given sum, the smaller, the more even they are.
fn squares(one: u64, other: u64) -> u128 {
    u128::from(one).pow(2) + u128::from(other).pow(2)
}
