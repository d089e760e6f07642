use crate::draft::PlacementDraft;
use crate::{CopyId, PlacedCopy, PlacementSituation, PlacementTable};

/// Work that remains of a rebalance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingRebalance {
    /// Number of moves that are in progress or still to begin.
    pub moves: u64,
    /// Bytes that are still to arrive, as far as nodes have reported sizes.
    pub bytes: u64,
}

/// The work that is left of the rebalance in progress; nothing if none is.
pub fn rebalance_left(table: &PlacementTable, situation: &PlacementSituation<'_>) -> RemainingRebalance {
    let mut left = RemainingRebalance::default();
    if table.rebalance.is_none() {
        return left;
    }
    let mut draft = PlacementDraft::new(table, situation);
    draft.declare(situation.wanted);
    draft.observe();
    draft.drop_surplus();
    for (slice, copy) in table.all_copies().filter(|(_, copy)| copy.replacing().is_some()) {
        let size = size(&draft, table.copies(slice), Some(copy.id));
        left.moves += 1;
        // A copy that is built may be larger than the one that it replaces, until its runs are merged.
        left.bytes += match draft.is_caught_up(copy) {
            true => 0,
            false => size.saturating_sub(draft.bytes(copy)),
        };
    }
    for intent in draft.decide().iter().filter(|intent| intent.replacing.is_some()) {
        left.moves += 1;
        left.bytes += size(&draft, table.copies(intent.slice), None);
    }
    left
}

/// Size of the copies of a slice beside one that is being made.
fn size(draft: &PlacementDraft<'_>, copies: &[PlacedCopy], made: Option<CopyId>) -> u64 {
    let others = copies.iter().filter(|copy| Some(copy.id) != made);
    others.map(|copy| draft.bytes(copy)).max().unwrap_or(0)
}
