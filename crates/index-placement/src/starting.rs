//! Ready copies are activated, and as many of the decided copies are begun as nodes may make at once.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::NodeKey;

use crate::balance::limit;
use crate::deciding::CopyIntent;
use crate::draft::{PlacementDraft, PlannerSabotage};
use crate::node::NodeAvailability;
use crate::{
    ActivationUnit, CopyId, CopyMethod, IndexNumber, LeaveReason, PlacedCopy, PlacedCopyState,
    PlacementReason, PlacementStep, RebalanceCause, SliceId,
};

/// Work of nodes on copies that are not ready.
#[derive(Default)]
struct CopyWork {
    /// Indexes that each node builds.
    built: BTreeMap<NodeKey, BTreeSet<IndexNumber>>,
    sent: BTreeMap<NodeKey, u16>,
    received: BTreeMap<NodeKey, u16>,
    /// Nodes with ready copies.
    scanned: BTreeSet<NodeKey>,
}

/// Origin of a copy that can be begun.
enum CopySource {
    Node(NodeKey),
    Documents,
}

impl PlacementDraft<'_> {
    /// Activates copies that have caught up; those that they replace leave. On a node that is filled none is
    /// activated before all that come to it have caught up, unless its slice has no other copy to scan.
    pub fn activate(&mut self, intents: &[CopyIntent]) {
        let steps = self.steps.len();
        self.activate_free();
        // Copies that have just become ready may have to move, too: then all that comes to a node is known
        // only in the next round.
        if self.steps.len() == steps {
            self.release(intents);
            self.activate_free();
        }
    }

    /// Activates copies on nodes that are not held.
    fn activate_free(&mut self) {
        let held = self.table.rebalance.as_ref().map(|run| run.held.clone()).unwrap_or_default();
        let mut left = BTreeSet::new();
        self.each_slice(|draft, slice, copies| {
            for at in 0..copies.len() {
                let waits =
                    held.contains(&copies[at].node) && copies.iter().any(|copy| draft.is_scannable(copy));
                if waits || !draft.can_be_scanned(&copies[at]) {
                    continue;
                }
                let (node, replaced) = (copies[at].node, copies[at].replacing());
                let is_asked = copies[at].is_asked();
                copies[at].state = PlacedCopyState::Ready;
                draft.steps.push(PlacementStep::CopyReady { slice, node });
                if let Some(other) = copies.iter_mut().find(|copy| Some(copy.id) == replaced) {
                    other.state = PlacedCopyState::Leaving;
                    let reason = LeaveReason::Moved(node);
                    draft.steps.push(PlacementStep::CopyLeaves { slice, node: other.node, reason });
                    if is_asked {
                        left.insert(other.node);
                    }
                }
            }
        });
        // Copies that an operator has moved away from a node are not brought back because it is empty now.
        left.retain(|node| !self.has_staying(*node));
        self.table.unfilled.extend(left);
    }

    /// True if a copy that is made could be activated.
    fn can_be_scanned(&self, copy: &PlacedCopy) -> bool {
        let is_early = copy.is_made() && self.has_fault(PlannerSabotage::ReadyBeforeCaughtUp);
        let takes = self.availability(copy.node) == Some(NodeAvailability::Takes);
        takes && (is_early || self.is_caught_up(copy))
    }

    /// Lets nodes answer scans to which everything has come.
    fn release(&mut self, intents: &[CopyIntent]) {
        let moves = intents.iter().filter(|intent| intent.replacing.is_some());
        let mut awaited: BTreeSet<NodeKey> = moves.map(|intent| intent.to).collect();
        let moving = self.table.all_copies().filter(|(_, copy)| copy.replacing().is_some());
        let moving = moving.filter(|(_, copy)| !self.can_be_scanned(copy)).map(|(_, copy)| copy.node);
        awaited.extend(moving);
        let by_slice = self.table.settings.activation == ActivationUnit::Slice;
        let more = self.awaits_surplus();
        let Some(run) = &self.table.rebalance else { return };
        // A node to which nothing has come yet stays held: what comes later is its first.
        let has_come = |node: &NodeKey| self.table.of_node(*node).any(|(_, copy)| self.can_be_scanned(copy));
        let is_complete = |node: &&NodeKey| !more && !awaited.contains(node) && has_come(node);
        let complete = run.held.iter().filter(|node| by_slice || is_complete(node));
        let mut complete: BTreeSet<NodeKey> = complete.copied().collect();
        // One in each round, the one with the most copies first: some of these can move on to other held
        // nodes once they are ready.
        let grid = self.grid(&run.filling);
        let load = |key: &NodeKey| grid.node(*key).map_or(0, |node| grid.load(node));
        let first = complete.iter().copied().max_by_key(|node| (load(node), *node));
        complete.retain(|node| by_slice || Some(*node) == first);
        if let Some(run) = &mut self.table.rebalance {
            run.held.retain(|node| !complete.contains(node));
        }
    }

    /// Begins copies, as many as nodes may make at once. Returns those that wait.
    pub fn begin(&mut self, intents: Vec<CopyIntent>) -> Vec<CopyIntent> {
        let mut work = self.work();
        let mut waiting = Vec::new();
        for intent in intents {
            let copies = self.table.copies(intent.slice);
            // Files of an earlier copy are unlinked first.
            let is_free = !copies.iter().any(|copy| copy.node == intent.to);
            let source = self.source(&work, intent.slice, copies, intent.to, intent.replacing);
            let Some(source) = source.filter(|_| is_free) else {
                waiting.push(intent);
                continue;
            };
            let replaces = copies.iter().find(|copy| Some(copy.id) == intent.replacing).map(|copy| copy.node);
            let CopyIntent { mut reason, slice, to, replacing } = intent;
            if reason == PlacementReason::None && copies.iter().any(|copy| self.is_scannable(copy)) {
                // Its first copy has become ready since this was decided.
                reason = PlacementReason::Few;
            }
            let from = work.take(&source, slice.index, to);
            let id = CopyId(self.table.next_copy);
            self.table.next_copy += 1;
            let state = PlacedCopyState::Made { from, replacing, reason };
            if let Some(copies) = self.slice_mut(slice) {
                copies.push(PlacedCopy { id, node: to, state });
            }
            self.table.requested.retain(|request| Some(request.copy) != replacing);
            self.steps.push(PlacementStep::CopyBegun { slice, copy: id, node: to, from, replaces, reason });
        }
        waiting
    }

    /// Gives copies whose source cannot send any more another one.
    pub fn change_sources(&mut self) {
        let mut work = self.work();
        self.each_slice(|draft, slice, copies| {
            for at in 0..copies.len() {
                let PlacedCopyState::Made { from: Some(from), replacing, reason } = copies[at].state else {
                    continue;
                };
                if draft.sends(copies, from) || draft.is_caught_up(&copies[at]) {
                    continue;
                }
                let node = copies[at].node;
                if let Some(source) = draft.source(&work, slice, copies, node, replacing) {
                    let from = work.take(&source, slice.index, node);
                    copies[at].state = PlacedCopyState::Made { from, replacing, reason };
                    draft.steps.push(PlacementStep::SourceChanged { slice, node, from });
                }
            }
        });
    }

    /// Ends the rebalance when nothing moves any more.
    pub fn end_rebalance(&mut self, intents: &[CopyIntent]) {
        let moves = self.table.all_copies().any(|(_, copy)| copy.replacing().is_some());
        let is_left =
            moves || intents.iter().any(|intent| intent.replacing.is_some()) || self.awaits_surplus();
        let Some(run) = self.table.rebalance.take_if(|_| !is_left) else { return };
        if run.stopping {
            let empty: Vec<NodeKey> =
                run.filling.iter().copied().filter(|node| !self.has_staying(*node)).collect();
            self.table.unfilled.extend(empty);
        }
        self.steps.push(PlacementStep::RebalanceEnded { id: run.id });
    }

    /// True if a node has more copies than it should, some of them are not ready, and another node has room:
    /// then the rebalance may move them once they are ready.
    fn awaits_surplus(&self) -> bool {
        let Some(run) = self.table.rebalance.as_ref().filter(|run| !run.stopping) else { return false };
        let grid = self.grid(&run.filling);
        let limit = limit(&grid).unwrap_or(0);
        let takes = |node: &usize| grid.nodes[*node].availability == NodeAvailability::Takes;
        let is_unready = |slice: &usize, node: usize| {
            let copies = self.table.copies(grid.slices[*slice].id).iter();
            let mut own = copies.filter(|copy| copy.node == grid.nodes[node].key);
            own.any(|copy| copy.is_made() && !self.is_caught_up(copy))
        };
        let awaits = |node: usize| {
            grid.load(node) > limit && grid.slices_on(node).iter().any(|slice| is_unready(slice, node))
        };
        let receives = |node: usize| {
            let is_scope = run.cause != RebalanceCause::EmptyNode || grid.nodes[node].filling;
            is_scope && grid.load(node) < limit
        };
        let nodes = || (0..grid.nodes.len()).filter(takes);
        nodes().any(awaits) && nodes().any(receives)
    }

    /// The origin of a copy that a node could begin to make now. `None`: it waits, for a copy that is being
    /// made, for a node that will be back, or until nodes have ended other work.
    fn source(
        &self,
        work: &CopyWork,
        slice: SliceId,
        copies: &[PlacedCopy],
        to: NodeKey,
        replacing: Option<CopyId>,
    ) -> Option<CopySource> {
        let settings = &self.table.settings;
        let ready = copies.iter().filter(|copy| copy.is_ready());
        let sources: Vec<&PlacedCopy> =
            ready.filter(|copy| self.serves(copy.node) && copy.node != to).collect();
        if settings.method != CopyMethod::Rebuild {
            if !sources.is_empty() {
                let sent = |copy: &&&PlacedCopy| work.sent.get(&copy.node).copied().unwrap_or(0);
                let received = work.received.get(&to).copied().unwrap_or(0);
                let free = sources.iter().filter(|copy| sent(copy) < settings.transfers_per_node);
                // The copy that leaves is not scanned much longer.
                let best = free.min_by_key(|copy| (Some(copy.id) != replacing, sent(copy), copy.node));
                let best = best.filter(|_| received < settings.transfers_per_node);
                return best.map(|copy| CopySource::Node(copy.node));
            }
            // Another copy, which is being built or comes back with its node, will be sent.
            let will_send = |copy: &&PlacedCopy| match copy.state {
                PlacedCopyState::Made { from, .. } => from.is_none(),
                PlacedCopyState::Ready => self.availability(copy.node) == Some(NodeAvailability::Pauses),
                PlacedCopyState::Leaving => false,
            };
            if copies.iter().filter(|copy| copy.node != to).any(|copy| will_send(&copy)) {
                return None;
            }
        }
        let batch = match work.scanned.contains(&to) {
            true => settings.batch,
            false => settings.empty_node_batch,
        };
        let built = work.built.get(&to);
        let is_built = built.is_some_and(|built| built.contains(&slice.index));
        let has_room = built.map_or(0, BTreeSet::len) < usize::from(batch);
        (is_built || has_room).then_some(CopySource::Documents)
    }

    /// True if the copy on a node can be sent.
    fn sends(&self, copies: &[PlacedCopy], from: NodeKey) -> bool {
        copies.iter().any(|copy| copy.node == from && self.is_scannable(copy))
    }

    /// The work of all nodes at present.
    fn work(&self) -> CopyWork {
        let mut work = CopyWork::default();
        for (slice, copy) in self.table.all_copies() {
            match copy.state {
                PlacedCopyState::Ready => {
                    work.scanned.insert(copy.node);
                }
                PlacedCopyState::Made { from, .. } if !self.is_caught_up(copy) => match from {
                    // One whose source has gone takes no room until it has another one.
                    Some(from) if !self.sends(self.table.copies(slice), from) => {}
                    Some(from) => work.count_transfer(from, copy.node),
                    None => {
                        work.built.entry(copy.node).or_default().insert(slice.index);
                    }
                },
                _ => {}
            }
        }
        work
    }
}

impl CopyWork {
    /// Counts a copy that begins; returns the node that it comes from.
    fn take(&mut self, source: &CopySource, index: IndexNumber, to: NodeKey) -> Option<NodeKey> {
        match *source {
            CopySource::Node(from) => {
                self.count_transfer(from, to);
                Some(from)
            }
            CopySource::Documents => {
                self.built.entry(to).or_default().insert(index);
                None
            }
        }
    }

    fn count_transfer(&mut self, from: NodeKey, to: NodeKey) {
        *self.sent.entry(from).or_default() += 1;
        *self.received.entry(to).or_default() += 1;
    }
}
