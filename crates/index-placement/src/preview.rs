use std::collections::BTreeMap;

use millrace_bucket::NodeKey;
use serde::Serialize;

use crate::balance::{BalanceScope, balance, excess};
use crate::draft::PlacementDraft;
use crate::grid::{GridMove, PlacementGrid};
use crate::node::NodeAvailability;
use crate::{PlacementSituation, PlacementTable};

/// The moves of a rebalance, if it began now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlannedRebalance {
    /// Number of copies on all nodes that are not down.
    pub copies: u64,
    /// Their size.
    pub bytes: u64,
    /// Number of moves that have begun already; they are not counted below.
    pub under_way: u64,
    /// Number of moves.
    pub moves: u64,
    /// The number of moves that no plan to this balance is below: those that leave nodes to be emptied or
    /// groups with too many copies, and one for each copy by which a node has more than ⌈mean⌉.
    pub least_moves: u64,
    /// Size of the copies that move.
    pub moved_bytes: u64,
    /// Size of the smallest copies that could move, as many of each node as do. More move where that makes
    /// the nodes more even.
    pub least_bytes: u64,
    /// The moves by pairs of nodes.
    pub pairs: Vec<NodePairMoves>,
}

/// The moves from one node to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePairMoves {
    /// The node that gives copies up.
    pub from: NodeKey,
    /// The node that gets them.
    pub to: NodeKey,
    /// Number of moves.
    pub moves: u64,
    /// Size of the copies.
    pub bytes: u64,
}

/// The moves that [`PlacementCommand::Rebalance`](crate::PlacementCommand::Rebalance) would lead to. Copies
/// that are missing are placed first, and are not moves.
pub fn planned_rebalance(table: &PlacementTable, situation: &PlacementSituation<'_>) -> PlannedRebalance {
    preview(PlacementDraft::new(table, situation), situation)
}

pub(crate) fn preview(mut draft: PlacementDraft<'_>, situation: &PlacementSituation<'_>) -> PlannedRebalance {
    draft.declare(situation.wanted);
    draft.observe();
    draft.drop_surplus();
    let mut grid = draft.grid(&Default::default());
    let size = |grid: &PlacementGrid| (0..grid.nodes.len()).map(|node| grid.bytes(node)).sum();
    let copies = (0..grid.nodes.len()).map(|node| grid.load(node) as u64).sum();
    let bytes = size(&grid);
    let under_way = draft.table.all_copies().filter(|(_, copy)| copy.replacing().is_some()).count() as u64;
    grid.fill_up();
    let mut moves = grid.spread();
    let spread = moves.len();
    let before = excess(&grid);
    let sizes = movable_sizes(&grid);
    balance(&mut grid, BalanceScope::Rebalance);
    let after = excess(&grid);
    let balanced = grid.moves();
    let sheds = |moved: &&GridMove| grid.nodes[moved.from].availability == NodeAvailability::Sheds;
    let required = spread + balanced.iter().filter(sheds).count();
    let mut leaving: BTreeMap<usize, usize> = BTreeMap::new();
    balanced.iter().for_each(|moved| *leaving.entry(moved.from).or_default() += 1);
    let least_of = |(node, count): (&usize, &usize)| sizes[*node].iter().take(*count).sum::<u64>();
    let spread_bytes: u64 = moves.iter().map(|moved| grid.slices[moved.slice].bytes).sum();
    let least_bytes = spread_bytes + leaving.iter().map(least_of).sum::<u64>();
    moves.extend(balanced);
    let mut pairs: BTreeMap<(NodeKey, NodeKey), (u64, u64)> = BTreeMap::new();
    for moved in &moves {
        let pair = (grid.nodes[moved.from].key, grid.nodes[moved.to].key);
        let (count, bytes) = pairs.entry(pair).or_default();
        (*count, *bytes) = (*count + 1, *bytes + grid.slices[moved.slice].bytes);
    }
    let moved_bytes = pairs.values().map(|(_, bytes)| bytes).sum();
    let pair = |((from, to), (moves, bytes))| NodePairMoves { from, to, moves, bytes };
    PlannedRebalance {
        copies,
        bytes,
        under_way,
        moves: moves.len() as u64,
        least_moves: (required + before.saturating_sub(after)) as u64,
        moved_bytes,
        least_bytes,
        pairs: pairs.into_iter().map(pair).collect(),
    }
}

/// Sizes of the copies on each node that may move, in order.
fn movable_sizes(grid: &PlacementGrid) -> Vec<Vec<u64>> {
    let sizes = |node: usize| {
        let slices = grid.slices_on(node).iter();
        let movable = slices.filter(|slice| grid.place(**slice, node).is_some_and(|place| place.movable));
        let mut sizes: Vec<u64> = movable.map(|slice| grid.slices[*slice].bytes).collect();
        sizes.sort_unstable();
        sizes
    };
    (0..grid.nodes.len()).map(sizes).collect()
}
