//! Declared indexes come into the table and leave it; commands are checked and noted.

use std::collections::BTreeMap;

use millrace_bucket::NodeKey;

use crate::draft::{PlacementDraft, is_replaced};
use crate::table::{COPIES_MAX, RequestedMove};
use crate::{
    Error, IndexNumber, IndexRemoval, LeaveReason, PlacedCopy, PlacedCopyState, PlacedIndex,
    PlacementCommand, PlacementStep, RebalanceCause, RebalanceRun, SliceId, WantedIndex,
};

impl PlacementDraft<'_> {
    /// Compares the indexes of the table with the declared ones. Returns the names of those that have no room
    /// in the table.
    pub fn declare(&mut self, wanted: &[WantedIndex]) -> Vec<String> {
        let declared: BTreeMap<(&str, &str), &WantedIndex> =
            wanted.iter().map(|index| ((index.content.as_str(), index.name.as_str()), index)).collect();
        let is_gone =
            |index: &PlacedIndex| !declared.contains_key(&(index.content.as_str(), index.name.as_str()));
        let gone = self.table.indexes.iter().filter(|(_, index)| is_gone(index));
        let gone: Vec<IndexNumber> = gone.map(|(number, _)| *number).collect();
        gone.into_iter().for_each(|number| self.remove_index(number, IndexRemoval::NotDeclared));

        let current = self.table.indexes.iter().filter(|(_, index)| !index.superseded);
        let current: BTreeMap<(String, String), IndexNumber> =
            current.map(|(number, index)| ((index.content.clone(), index.name.clone()), *number)).collect();
        let mut without_room = Vec::new();
        for wanted in declared.into_values() {
            let number = current.get(&(wanted.content.clone(), wanted.name.clone())).copied();
            if !self.declare_index(number, wanted) {
                without_room.push(wanted.name.clone());
            }
        }
        without_room
    }

    /// Takes in one declared index, of which the table may have one with this number. Returns false if the
    /// table has no room for it.
    fn declare_index(&mut self, number: Option<IndexNumber>, wanted: &WantedIndex) -> bool {
        let matches = |index: &PlacedIndex| {
            index.definition == wanted.definition && index.slices.len() == usize::from(wanted.slices)
        };
        let own = number.and_then(|number| self.index(number));
        let of_others = self.copies_wanted() - own.map_or(0, copies_wanted);
        let has_room = of_others + usize::from(wanted.copies) * usize::from(wanted.slices) <= COPIES_MAX;
        let Some((number, index)) = number.zip(own) else {
            if has_room {
                self.add_index(wanted, wanted.deferred);
            }
            return has_room;
        };
        let (is_same, is_deferred) = (matches(index), index.deferred);
        if index.copies == wanted.copies && is_same && (!is_deferred || wanted.deferred) {
            return true;
        }
        if !has_room {
            return false;
        }
        if !is_same {
            let named = self.table.named(&wanted.content, &wanted.name);
            let earlier = named.filter(|(_, index)| index.superseded && index.is_usable() && matches(index));
            let earlier = earlier.map(|(number, _)| number).next();
            match earlier {
                // The definition is the earlier one: its copies serve, and are complete.
                Some(earlier) => {
                    self.remove_index(number, IndexRemoval::Incomplete);
                    self.change_index(earlier, |index| index.superseded = false);
                    self.want_copies(earlier, wanted.copies);
                }
                None => self.supersede(number, wanted, wanted.deferred && is_deferred),
            }
            return true;
        }
        self.want_copies(number, wanted.copies);
        if is_deferred && !wanted.deferred {
            self.build(number);
        }
        true
    }

    /// Number of copies that the declared indexes want together.
    fn copies_wanted(&self) -> usize {
        self.table.indexes.values().filter(|index| !index.superseded).map(copies_wanted).sum()
    }

    fn add_index(&mut self, wanted: &WantedIndex, deferred: bool) {
        let number = IndexNumber(self.table.next_index);
        self.table.next_index += 1;
        let (name, definition) = (wanted.name.clone(), wanted.definition);
        let index = PlacedIndex {
            content: wanted.content.clone(),
            name: name.clone(),
            definition,
            copies: wanted.copies,
            deferred,
            superseded: false,
            slices: vec![Vec::new(); usize::from(wanted.slices)],
        };
        self.table.indexes.insert(number, index);
        self.steps.push(PlacementStep::IndexAdded { index: number, name, definition });
    }

    fn remove_index(&mut self, number: IndexNumber, reason: IndexRemoval) {
        if let Some(index) = self.table.indexes.remove(&number) {
            self.table.requested.retain(|request| request.index != number);
            self.steps.push(PlacementStep::IndexRemoved { index: number, name: index.name, reason });
        }
    }

    fn change_index(&mut self, number: IndexNumber, change: impl FnMut(&mut PlacedIndex)) {
        self.table.indexes.get_mut(&number).into_iter().for_each(change);
    }

    fn want_copies(&mut self, index: IndexNumber, copies: u8) {
        if self.index(index).is_some_and(|index| index.copies != copies) {
            self.change_index(index, |index| index.copies = copies);
            self.steps.push(PlacementStep::CopiesWanted { index, copies });
        }
    }

    fn build(&mut self, index: IndexNumber) {
        self.change_index(index, |index| index.deferred = false);
        self.steps.push(PlacementStep::BuildRequested { index });
    }

    /// Adds an index beside the one of its name, which serves until the new one can, if it can serve.
    fn supersede(&mut self, number: IndexNumber, wanted: &WantedIndex, deferred: bool) {
        match self.index(number).is_some_and(PlacedIndex::is_usable) {
            true => {
                self.change_index(number, |index| index.superseded = true);
                self.undo_made(number);
            }
            false => self.remove_index(number, IndexRemoval::Incomplete),
        }
        self.add_index(wanted, deferred);
        self.table.requested.retain(|request| request.index != number);
    }

    /// Lets the copies of an index that are not ready leave: no more copies are made of its definition.
    fn undo_made(&mut self, number: IndexNumber) {
        self.each_slice(|draft, slice, copies| {
            for copy in copies.iter_mut().filter(|copy| slice.index == number && copy.is_made()) {
                copy.state = PlacedCopyState::Leaving;
                let reason = LeaveReason::Superseded;
                draft.steps.push(PlacementStep::CopyLeaves { slice, node: copy.node, reason });
            }
        });
    }

    /// Removes superseded indexes that another one has replaced, or that cannot serve.
    pub fn remove_superseded(&mut self) {
        let superseded = self.table.indexes.iter().filter(|(_, index)| index.superseded);
        let superseded: Vec<(IndexNumber, bool)> =
            superseded.map(|(number, index)| (*number, index.is_usable())).collect();
        for (number, is_usable) in superseded {
            let is_newer = |(other, index): (IndexNumber, &PlacedIndex)| {
                (!index.superseded || other > number) && other != number && index.is_usable()
            };
            let is_replaced = self
                .index(number)
                .is_some_and(|index| self.table.named(&index.content, &index.name).any(is_newer));
            if !is_usable {
                self.remove_index(number, IndexRemoval::Incomplete);
            } else if is_replaced {
                self.remove_index(number, IndexRemoval::Superseded);
            }
        }
    }

    /// Notes a command in the table, if it is possible.
    pub fn accept(&mut self, command: &PlacementCommand) -> Result<(), Error> {
        match command {
            PlacementCommand::Rebalance { by } => self.begin_rebalance(by),
            PlacementCommand::Stop => self.stop_rebalance(),
            PlacementCommand::Move { index, slice, from, to } => {
                let slice = SliceId { index: self.declared(index)?, slice: *slice };
                self.request_move(slice, *from, *to)
            }
            PlacementCommand::Build { index } => {
                let number = self.declared(index)?;
                if self.index(number).is_some_and(|index| index.deferred) {
                    self.build(number);
                }
                Ok(())
            }
            PlacementCommand::Rebuild { index } => self.rebuild(self.declared(index)?),
            PlacementCommand::Settings(update) => {
                let settings = self.table.settings.updated(update);
                if settings != self.table.settings {
                    self.table.settings = settings;
                    self.steps.push(PlacementStep::SettingsChanged);
                }
                Ok(())
            }
        }
    }

    fn begin_rebalance(&mut self, by: &str) -> Result<(), Error> {
        let earlier = self.table.rebalance.take();
        if let Some(run) = &earlier
            && (run.stopping || run.cause != RebalanceCause::EmptyNode)
        {
            let error = Error::Rebalancing { id: run.id, moves_left: run.moves_left };
            self.table.rebalance = earlier;
            return Err(error);
        }
        self.table.unfilled.clear();
        self.begin_run(RebalanceCause::Requested(by.to_owned()), earlier);
        Ok(())
    }

    /// Begins a rebalance, in place of an earlier one whose moves become part of it.
    pub fn begin_run(&mut self, cause: RebalanceCause, earlier: Option<RebalanceRun>) {
        let id = self.table.next_rebalance;
        self.table.next_rebalance += 1;
        let (filling, held) = earlier.map(|run| (run.filling, run.held)).unwrap_or_default();
        self.steps.push(PlacementStep::RebalanceBegun { id, cause: cause.clone() });
        let run = RebalanceRun { id, cause, stopping: false, moves_left: 0, filling, held, extent: None };
        self.table.rebalance = Some(run);
    }

    fn stop_rebalance(&mut self) -> Result<(), Error> {
        let run = self.table.rebalance.as_mut().ok_or(Error::NotRebalancing)?;
        if !run.stopping {
            run.stopping = true;
            self.steps.push(PlacementStep::RebalanceStopped { id: run.id });
        }
        Ok(())
    }

    fn request_move(&mut self, slice: SliceId, from: NodeKey, to: NodeKey) -> Result<(), Error> {
        let slices = self.index(slice.index).map_or(0, |index| index.slices.len());
        if usize::from(slice.slice) >= slices {
            let last = u8::try_from(slices.saturating_sub(1)).unwrap_or(u8::MAX);
            return Err(Error::UnknownSlice { slice, last });
        }
        self.nodes.get(&from).ok_or(Error::UnknownNode(from))?;
        let target = self.nodes.get(&to).ok_or(Error::UnknownNode(to))?;
        if let Some(reason) = target.takes_none() {
            return Err(Error::TakesNone { node: to, reason });
        }
        let copies = self.table.copies(slice);
        let ready: Vec<&PlacedCopy> = copies.iter().filter(|copy| self.is_scannable(copy)).collect();
        let Some(copy) = ready.iter().find(|copy| copy.node == from).map(|copy| copy.id) else {
            let ready: Vec<String> = ready.iter().map(|copy| copy.node.to_string()).collect();
            let ready = if ready.is_empty() { "none".to_owned() } else { ready.join(", ") };
            return Err(Error::NoReadyCopy { node: from, slice, ready });
        };
        let is_requested = self.table.requested.iter().any(|request| request.copy == copy);
        if is_requested || is_replaced(copies, copy) {
            return Err(Error::Moving { slice, node: from });
        }
        if copies.iter().any(|copy| copy.node == to) {
            return Err(Error::HasCopy { node: to, slice });
        }
        self.table.requested.push(RequestedMove { index: slice.index, slice: slice.slice, copy, to });
        self.steps.push(PlacementStep::MoveRequested { slice, from, to });
        Ok(())
    }

    fn rebuild(&mut self, number: IndexNumber) -> Result<(), Error> {
        let Some(index) = self.index(number) else { return Ok(()) };
        if index.deferred {
            self.build(number);
            return Ok(());
        }
        if self.table.named(&index.content, &index.name).count() > 1 {
            return Err(Error::Rebuilding(number));
        }
        let wanted = WantedIndex {
            content: index.content.clone(),
            name: index.name.clone(),
            definition: index.definition,
            copies: index.copies,
            slices: u8::try_from(index.slices.len()).unwrap_or(u8::MAX),
            deferred: false,
        };
        self.supersede(number, &wanted, false);
        Ok(())
    }
}

fn copies_wanted(index: &PlacedIndex) -> usize {
    index.slices.len() * usize::from(index.copies)
}
