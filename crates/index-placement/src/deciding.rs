//! Decides which copies should be made where, without regard to how many can be made at once.

use std::collections::BTreeSet;

use millrace_bucket::NodeKey;

use crate::balance::{BalanceScope, balance};
use crate::draft::{PlacementDraft, PlannerSabotage, is_replaced};
use crate::grid::{GridCopy, GridSlice, PlacementGrid};
use crate::node::NodeAvailability;
use crate::{
    ActivationUnit, CopyId, PlacedCopy, PlacedCopyState, PlacementReason, PlacementStep, RebalanceCause,
    SliceId,
};

/// A copy that should be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyIntent {
    pub reason: PlacementReason,
    pub slice: SliceId,
    pub to: NodeKey,
    /// The copy that leaves when it is ready: then it is a move.
    pub replacing: Option<CopyId>,
}

impl PlacementDraft<'_> {
    /// Copies that should be made, in the order of urgency. Begins a rebalance if nodes without copies get
    /// some.
    pub fn decide(&mut self) -> Vec<CopyIntent> {
        self.drop_requests();
        let empty = self.empty_nodes();
        let run = self.table.rebalance.as_ref().filter(|run| !run.stopping);
        let scope = match run.map(|run| &run.cause) {
            Some(RebalanceCause::Requested(_)) => BalanceScope::Rebalance,
            Some(RebalanceCause::EmptyNode) => BalanceScope::Filling,
            None if self.table.rebalance.is_none() && !empty.is_empty() => BalanceScope::Filling,
            None => BalanceScope::Required,
        };
        let mut filling = run.map(|run| run.filling.clone()).unwrap_or_default();
        if scope != BalanceScope::Required {
            filling.extend(&empty);
        }
        let scope = match scope {
            BalanceScope::Filling if self.has_fault(PlannerSabotage::OldNodesBalanced) => {
                BalanceScope::Rebalance
            }
            scope => scope,
        };
        let mut grid = self.grid(&filling);
        let mut intents = self.requested_moves();
        self.repair(&mut grid, &mut intents);
        balance(&mut grid, scope);
        if self.has_fault(PlannerSabotage::OneMoveTooMany) && scope == BalanceScope::Rebalance {
            move_one_more(&mut grid);
        }
        let mut filled = BTreeSet::new();
        for moved in grid.moves() {
            let (from, to) = (&grid.nodes[moved.from], &grid.nodes[moved.to]);
            let reason = match (from.availability, scope) {
                (NodeAvailability::Sheds, _) => PlacementReason::Retired,
                (_, BalanceScope::Filling) => PlacementReason::Empty,
                _ => PlacementReason::Rebalance,
            };
            if empty.contains(&to.key) {
                filled.insert(to.key);
            }
            let (slice, to, replacing) = (grid.slices[moved.slice].id, to.key, Some(moved.copy));
            intents.push(CopyIntent { reason, slice, to, replacing });
        }
        self.fill(filled);
        intents.sort_by_key(|intent| (intent.reason, intent.slice, intent.to));
        self.count_moves(&intents);
        intents
    }

    /// Copies that repair slices: too few of them, or too close together.
    fn repair(&self, grid: &mut PlacementGrid, intents: &mut Vec<CopyIntent>) {
        for (slice, node) in grid.fill_up() {
            let (slice, to) = (grid.slices[slice].id, grid.nodes[node].key);
            let reason = match self.table.copies(slice).iter().any(|copy| self.is_scannable(copy)) {
                true => PlacementReason::Few,
                false => PlacementReason::None,
            };
            intents.push(CopyIntent { reason, slice, to, replacing: None });
        }
        for moved in grid.spread() {
            let (slice, to) = (grid.slices[moved.slice].id, grid.nodes[moved.to].key);
            let (reason, replacing) = (PlacementReason::Together, Some(moved.copy));
            intents.push(CopyIntent { reason, slice, to, replacing });
        }
    }

    /// Positions of the copies of declared indexes, with what is in progress at its target.
    pub fn grid(&self, filling: &BTreeSet<NodeKey>) -> PlacementGrid {
        let nodes = self.nodes.values().filter(|node| node.availability() != NodeAvailability::Down);
        let nodes = nodes
            .map(|node| (node.key, node.availability(), node.group.as_slice(), filling.contains(&node.key)));
        let mut grid = PlacementGrid::new(nodes);
        for (number, index) in &self.table.indexes {
            if index.superseded || index.deferred {
                continue;
            }
            for (slice, copies) in (0..).zip(&index.slices) {
                let id = SliceId { index: *number, slice };
                let places: Vec<GridCopy> =
                    self.planned(copies).filter_map(|copy| self.grid_place(&grid, copy)).collect();
                let positions: Vec<NodeKey> = places.iter().map(|place| grid.nodes[place.node].key).collect();
                let others = copies.iter().map(|copy| copy.node).filter(|node| !positions.contains(node));
                let blocked = others.collect();
                let bytes = copies.iter().map(|copy| self.bytes(copy)).max().unwrap_or(0);
                grid.add_slice(GridSlice { id, copies: usize::from(index.copies), bytes, places, blocked });
            }
        }
        grid
    }

    fn grid_place(&self, grid: &PlacementGrid, copy: &PlacedCopy) -> Option<GridCopy> {
        let request = self.table.requested.iter().find(|request| request.copy == copy.id);
        let node = grid.node(request.map_or(copy.node, |request| request.to))?;
        let movable = self.is_scannable(copy) && request.is_none();
        Some(GridCopy { node, home: node, copy: Some(copy.id), movable })
    }

    /// Size of a copy, as far as its node has reported it.
    pub fn bytes(&self, copy: &PlacedCopy) -> u64 {
        let node = self.nodes.get(&copy.node);
        node.and_then(|node| node.reports.get(&copy.id)).map_or(0, |report| report.bytes)
    }

    /// Nodes that could take copies, have none, and are to be filled by themselves.
    fn empty_nodes(&mut self) -> BTreeSet<NodeKey> {
        let used: BTreeSet<NodeKey> = self.table.all_copies().map(|(_, copy)| copy.node).collect();
        let takes = |node: &NodeKey| {
            self.nodes.get(node).map(|node| node.availability()) == Some(NodeAvailability::Takes)
        };
        let is_empty = |node: &NodeKey| takes(node) && !used.contains(node);
        // One that is away for a while is as it was when it comes back.
        let stays_empty = |node: &NodeKey| {
            let availability = self.availability(*node);
            availability.is_some_and(|availability| availability != NodeAvailability::Sheds)
                && !self.has_staying(*node)
        };
        let unfilled: BTreeSet<NodeKey> = self.table.unfilled.iter().copied().filter(stays_empty).collect();
        let empty =
            self.nodes.keys().copied().filter(|node| is_empty(node) && !unfilled.contains(node)).collect();
        self.table.unfilled = unfilled;
        empty
    }

    /// Takes nodes into the rebalance that fills them, which begins with them if none runs.
    fn fill(&mut self, nodes: BTreeSet<NodeKey>) {
        if nodes.is_empty() {
            return;
        }
        if self.table.rebalance.is_none() {
            self.begin_run(RebalanceCause::EmptyNode, None);
        }
        let holds = self.table.settings.activation == ActivationUnit::Node
            && !self.has_fault(PlannerSabotage::FilledNodeNotHeld);
        if let Some(run) = &mut self.table.rebalance {
            if holds {
                run.held.extend(&nodes);
            }
            run.filling.extend(nodes);
        }
    }

    /// Drops requested moves that are not possible any more.
    fn drop_requests(&mut self) {
        let requested = std::mem::take(&mut self.table.requested);
        for request in requested {
            let (slice, to) = (request.slice(), request.to);
            let copies = self.table.copies(slice);
            let takes = self.availability(to) == Some(NodeAvailability::Takes);
            let stands = copies.iter().any(|copy| copy.id == request.copy && self.is_scannable(copy));
            let is_free =
                !copies.iter().any(|copy| copy.node == to && copy.state != PlacedCopyState::Leaving);
            if takes && stands && is_free && !is_replaced(copies, request.copy) {
                self.table.requested.push(request);
            } else {
                self.steps.push(PlacementStep::MoveDropped { slice, to });
            }
        }
    }

    fn requested_moves(&self) -> Vec<CopyIntent> {
        let requested = self.table.requested.iter();
        let intents = requested.map(|request| CopyIntent {
            reason: PlacementReason::Asked,
            slice: request.slice(),
            to: request.to,
            replacing: Some(request.copy),
        });
        intents.collect()
    }

    /// Notes the number of moves that are in progress or still to begin.
    fn count_moves(&mut self, intents: &[CopyIntent]) {
        let under_way = self.table.all_copies().filter(|(_, copy)| copy.replacing().is_some()).count();
        let to_begin = intents.iter().filter(|intent| intent.replacing.is_some()).count();
        if let Some(run) = &mut self.table.rebalance {
            run.moves_left = (under_way + to_begin) as u64;
        }
    }
}

/// Moves a copy beyond the plan, if it has moves.
fn move_one_more(grid: &mut PlacementGrid) {
    if grid.moves().is_empty() {
        return;
    }
    for slice in 0..grid.slices.len() {
        let places = grid.slices[slice].places.clone();
        for place in places.iter().filter(|place| place.movable && place.node == place.home) {
            let takes = |node: &usize| grid.nodes[*node].availability == NodeAvailability::Takes;
            let to = (0..grid.nodes.len()).filter(takes).find(|to| grid.fits(slice, Some(place.node), *to));
            if let Some(to) = to {
                grid.shift(slice, place.node, to);
                return;
            }
        }
    }
}
