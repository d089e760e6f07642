//! The next table while it is made: reports are taken in, and copies that should not be there leave.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use millrace_bucket::NodeKey;

use crate::node::NodeAvailability;
use crate::{
    CopyId, CopyProgress, Error, ForgetReason, IndexNode, IndexNumber, LeaveReason, PlacedCopy,
    PlacedCopyState, PlacedIndex, PlacementSituation, PlacementStep, PlacementTable, SliceId,
};

/// A fault of the planner, for tests that must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlannerSabotage {
    /// A rebalance moves one copy more than needed.
    OneMoveTooMany,
    /// Copies are scanned as soon as they are begun.
    ReadyBeforeCaughtUp,
    /// A node that is filled answers scans of each copy at once.
    FilledNodeNotHeld,
    /// Copies move between all nodes when a node is empty.
    OldNodesBalanced,
}

/// A table that becomes the next one.
pub(crate) struct PlacementDraft<'a> {
    pub table: PlacementTable,
    pub nodes: BTreeMap<NodeKey, &'a IndexNode>,
    pub steps: Vec<PlacementStep>,
    #[cfg(test)]
    pub sabotage: Option<PlannerSabotage>,
}

impl<'a> PlacementDraft<'a> {
    pub fn new(table: &PlacementTable, situation: &PlacementSituation<'a>) -> Self {
        PlacementDraft {
            table: table.clone(),
            nodes: situation.nodes.iter().map(|node| (node.key, node)).collect(),
            steps: Vec::new(),
            #[cfg(test)]
            sabotage: None,
        }
    }

    /// True if a test has asked for this fault.
    #[cfg(test)]
    pub fn has_fault(&self, fault: PlannerSabotage) -> bool {
        self.sabotage == Some(fault)
    }

    /// A fault is only in tests.
    #[cfg(not(test))]
    pub fn has_fault(&self, _fault: PlannerSabotage) -> bool {
        false
    }

    /// Availability of a node; `None` if it is not a node of the cluster.
    pub fn availability(&self, node: NodeKey) -> Option<NodeAvailability> {
        self.nodes.get(&node).map(|node| node.availability())
    }

    /// True if the node answers scans at present.
    pub fn serves(&self, node: NodeKey) -> bool {
        matches!(self.availability(node), Some(NodeAvailability::Takes | NodeAvailability::Sheds))
    }

    /// True if the copy is made, and its node reports that it can be scanned.
    pub fn is_caught_up(&self, copy: &PlacedCopy) -> bool {
        let progress = self.nodes.get(&copy.node).and_then(|node| node.progress(copy.id));
        copy.is_made() && progress == Some(&CopyProgress::CaughtUp)
    }

    /// True if a copy can be scanned now.
    pub fn is_scannable(&self, copy: &PlacedCopy) -> bool {
        copy.is_ready() && self.serves(copy.node)
    }

    /// Applies a function to the copies of each slice.
    pub fn each_slice(&mut self, mut change: impl FnMut(&mut Self, SliceId, &mut Vec<PlacedCopy>)) {
        let indexes = self.table.indexes.iter();
        let slices: Vec<(IndexNumber, usize)> =
            indexes.map(|(number, index)| (*number, index.slices.len())).collect();
        for (index, slices) in slices {
            for at in 0..slices {
                let id = SliceId { index, slice: u8::try_from(at).unwrap_or(u8::MAX) };
                let mut copies = self.slice_mut(id).map(std::mem::take).unwrap_or_default();
                change(self, id, &mut copies);
                if let Some(slice) = self.slice_mut(id) {
                    *slice = copies;
                }
            }
        }
    }

    pub fn slice_mut(&mut self, slice: SliceId) -> Option<&mut Vec<PlacedCopy>> {
        self.table.indexes.get_mut(&slice.index)?.slices.get_mut(usize::from(slice.slice))
    }

    /// True if a node has or makes a copy that does not leave.
    pub fn has_staying(&self, node: NodeKey) -> bool {
        self.table.of_node(node).any(|(_, copy)| copy.state != PlacedCopyState::Leaving)
    }

    /// The index of a slice.
    pub fn index(&self, number: IndexNumber) -> Option<&PlacedIndex> {
        self.table.indexes.get(&number)
    }

    /// The index of this name that is declared.
    pub fn declared(&self, (content, name): &(String, String)) -> Result<IndexNumber, Error> {
        self.table.declared(content, name).ok_or_else(|| {
            let current = self.table.indexes.values().filter(|index| !index.superseded);
            let known: Vec<&str> = current.map(|index| index.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::UnknownIndex { content: content.clone(), name: name.clone(), known }
        })
    }

    /// Takes in what nodes report: copies that failed leave, and those that are gone are forgotten.
    pub fn observe(&mut self) {
        self.each_slice(|draft, slice, copies| {
            copies.retain_mut(|copy| match draft.verdict(copy) {
                CopyVerdict::Stays => true,
                CopyVerdict::Leaves(reason) => {
                    copy.state = PlacedCopyState::Leaving;
                    draft.steps.push(PlacementStep::CopyLeaves { slice, node: copy.node, reason });
                    true
                }
                CopyVerdict::Forgotten(reason) => {
                    draft.steps.push(PlacementStep::CopyForgotten { slice, node: copy.node, reason });
                    false
                }
            });
            forget_replaced(copies);
        });
    }

    fn verdict(&self, copy: &PlacedCopy) -> CopyVerdict {
        let Some(node) = self.nodes.get(&copy.node) else {
            return CopyVerdict::Forgotten(ForgetReason::NodeRemoved);
        };
        let availability = node.availability();
        if availability == NodeAvailability::Down {
            // A ready copy is kept: the node may come back before it has been replaced.
            return match copy.is_ready() {
                true => CopyVerdict::Stays,
                false => CopyVerdict::Forgotten(ForgetReason::NodeDown),
            };
        }
        match (node.progress(copy.id), copy.state) {
            (Some(CopyProgress::Gone), PlacedCopyState::Leaving) => {
                CopyVerdict::Forgotten(ForgetReason::Unlinked)
            }
            (_, PlacedCopyState::Leaving) => CopyVerdict::Stays,
            (Some(CopyProgress::Gone), _) => CopyVerdict::Forgotten(ForgetReason::Lost),
            (Some(CopyProgress::Failed(reason)), _) => {
                CopyVerdict::Leaves(LeaveReason::Failed(reason.clone()))
            }
            _ if copy.is_made() && availability == NodeAvailability::Sheds => {
                CopyVerdict::Leaves(LeaveReason::NodeLeaves)
            }
            _ => CopyVerdict::Stays,
        }
    }

    /// Lets copies leave where a slice has more than wanted: those that are of the least use first.
    pub fn drop_surplus(&mut self) {
        let mut loads: BTreeMap<NodeKey, usize> = BTreeMap::new();
        for (_, copy) in self.table.all_copies() {
            *loads.entry(copy.node).or_default() += 1;
        }
        self.each_slice(|draft, slice, copies| {
            let Some(index) = draft.index(slice.index).filter(|index| !index.superseded) else { return };
            let wanted = usize::from(index.copies);
            loop {
                let planned: Vec<PlacedCopy> = draft.planned(copies).cloned().collect();
                if planned.len() <= wanted {
                    return;
                }
                let use_of = |copy: &&PlacedCopy| {
                    // A move counts as the copy that serves until it has ended.
                    let serving =
                        copies.iter().find(|other| Some(other.id) == copy.replacing()).unwrap_or(copy);
                    let stays = draft.availability(copy.node) != Some(NodeAvailability::Sheds);
                    let load = loads.get(&copy.node).copied().unwrap_or(0);
                    let beside = draft.beside(copy, &planned);
                    (
                        draft.is_scannable(serving),
                        serving.is_ready(),
                        stays,
                        Reverse(beside),
                        Reverse(load),
                        Reverse(copy.id),
                    )
                };
                let Some(least) = planned.iter().min_by_key(use_of) else { return };
                let leaving = [Some(least.id), least.replacing()];
                for copy in copies.iter_mut().filter(|copy| leaving.contains(&Some(copy.id))) {
                    copy.state = PlacedCopyState::Leaving;
                    loads.entry(copy.node).and_modify(|load| *load -= 1);
                    let (node, reason) = (copy.node, LeaveReason::TooMany);
                    draft.steps.push(PlacementStep::CopyLeaves { slice, node, reason });
                }
            }
        });
    }

    /// Number of other copies in the innermost group of a copy's node, if nodes are in groups.
    fn beside(&self, copy: &PlacedCopy, planned: &[PlacedCopy]) -> usize {
        let group = |node: NodeKey| self.nodes.get(&node).map(|node| node.group.as_slice());
        let own = group(copy.node).filter(|group| !group.is_empty());
        planned
            .iter()
            .filter(|other| own.is_some() && other.id != copy.id && group(other.node) == own)
            .count()
    }

    /// Copies that a slice has when everything that is in flight has ended.
    pub fn planned<'c>(&'c self, copies: &'c [PlacedCopy]) -> impl Iterator<Item = &'c PlacedCopy> {
        copies.iter().filter(|copy| {
            let availability = self.availability(copy.node);
            copy.state != PlacedCopyState::Leaving
                && availability.is_some_and(|availability| availability != NodeAvailability::Down)
                && !is_replaced(copies, copy.id)
        })
    }

    /// Forgets copies on nodes that are down, where the slice has as many ready ones as wanted.
    pub fn forget_down(&mut self) {
        self.each_slice(|draft, slice, copies| {
            let Some(index) = draft.index(slice.index) else { return };
            let wanted = usize::from(index.copies);
            let is_down = |copy: &PlacedCopy| draft.availability(copy.node) == Some(NodeAvailability::Down);
            let ready = copies.iter().filter(|copy| copy.is_ready() && !is_down(copy));
            if ready.count() < wanted {
                return;
            }
            let down: Vec<NodeKey> =
                copies.iter().filter(|copy| is_down(copy)).map(|copy| copy.node).collect();
            copies.retain(|copy| !down.contains(&copy.node));
            forget_replaced(copies);
            let reason = ForgetReason::NodeDown;
            draft.steps.extend(down.into_iter().map(|node| PlacementStep::CopyForgotten {
                slice,
                node,
                reason,
            }));
        });
    }
}

/// The consequence of a report for a copy.
enum CopyVerdict {
    Stays,
    Leaves(LeaveReason),
    Forgotten(ForgetReason),
}

/// True if another copy is made in place of this one.
pub(crate) fn is_replaced(copies: &[PlacedCopy], id: CopyId) -> bool {
    copies.iter().any(|other| other.replacing() == Some(id))
}

/// Lets copies replace nothing whose counterpart is not ready any more.
fn forget_replaced(copies: &mut [PlacedCopy]) {
    let ready: Vec<CopyId> = copies.iter().filter(|copy| copy.is_ready()).map(|copy| copy.id).collect();
    for copy in copies {
        if let PlacedCopyState::Made { replacing, .. } = &mut copy.state {
            *replacing = replacing.filter(|id| ready.contains(id));
        }
    }
}
