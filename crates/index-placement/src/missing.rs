//! Copies that slices lack, and the reasons for operators.

use crate::draft::PlacementDraft;
use crate::node::NodeAvailability;
use crate::{
    CopyProgress, IndexNode, PlacedCopy, PlacedCopyState, PlacementSituation, PlacementTable, SliceId,
};

/// Nodes that a reason names at most.
const NAMED_MAX: usize = 3;

/// Copies that a slice should have, and that are neither ready nor being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCopies {
    /// The slice.
    pub slice: SliceId,
    /// Their number.
    pub count: u64,
    /// Reason for which they are not made yet.
    pub reason: String,
}

/// Copies that the slices of declared indexes lack, slice by slice. Copies that have failed, and those on
/// nodes that are down, do not count as there.
pub fn missing_copies(table: &PlacementTable, situation: &PlacementSituation<'_>) -> Vec<MissingCopies> {
    let draft = PlacementDraft::new(table, situation);
    let mut missing = Vec::new();
    for (number, index) in table.indexes.iter().filter(|(_, index)| !index.superseded && !index.deferred) {
        for (slice, copies) in (0..).zip(&index.slices) {
            let there = draft.planned(copies).filter(|copy| !has_failed(&draft, copy)).count();
            let count = usize::from(index.copies).saturating_sub(there) as u64;
            if count > 0 {
                let slice = SliceId { index: *number, slice };
                missing.push(MissingCopies { slice, count, reason: reason(&draft, copies) });
            }
        }
    }
    missing
}

fn has_failed(draft: &PlacementDraft<'_>, copy: &PlacedCopy) -> bool {
    let progress = draft.nodes.get(&copy.node).and_then(|node| node.progress(copy.id));
    matches!(progress, Some(CopyProgress::Failed(_)))
}

/// Reason for which a slice does not get a further copy now.
fn reason(draft: &PlacementDraft<'_>, copies: &[PlacedCopy]) -> String {
    let nodes = || draft.nodes.values().copied();
    let takes = |node: &&IndexNode| node.availability() == NodeAvailability::Takes;
    if !nodes().any(|node| takes(&node)) {
        let refusal = |node: &IndexNode| Some(format!("{}: {}", node.name, node.takes_none()?));
        let refusals: Vec<String> = nodes().filter_map(refusal).take(NAMED_MAX).collect();
        return match refusals.is_empty() {
            true => "the cluster has no nodes".to_owned(),
            false => format!("no node takes copies ({})", refusals.join("; ")),
        };
    }
    let own = |node: &IndexNode| copies.iter().find(|copy| copy.node == node.key);
    if nodes().any(|node| takes(&node) && own(node).is_none()) {
        return "it is to be made: nodes make few copies at once".to_owned();
    }
    let failed = nodes().find(|node| own(node).is_some_and(|copy| has_failed(draft, copy)));
    if let Some(node) = failed {
        return format!("the copy on {} has failed; it is made again once its files are removed", node.name);
    }
    let is_leaving = |copy: &PlacedCopy| copy.state == PlacedCopyState::Leaving;
    match nodes().find(|node| takes(node) && own(node).is_some_and(is_leaving)) {
        Some(node) => format!("it is made once {} has removed an earlier copy of the slice", node.name),
        None => "each node that takes copies has one of the slice: add nodes with the role 'index', or declare fewer copies"
            .to_owned(),
    }
}
