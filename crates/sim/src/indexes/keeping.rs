//! The side of a node with copies: it makes those that the table gives it, and lets them follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_index_feed::{CopyDefinition, CopyMarks, CopyNumber, FollowEffect};
use millrace_index_placement::{
    CopyId, CopyProgress, CopyReport, PlacedCopy, PlacedCopyState, PlacementTable, SliceId,
};

use super::IndexMessage;
use super::copies::{IndexCopyFiles, IndexedBody, SimIndexCopy, SimIndexStage};
use super::placing::document_type_of;
use crate::Sabotage;
use crate::world::SimWorld;

/// Time for which a copy answers after the table says that it leaves.
const LEAVING: Duration = Duration::from_secs(2);

impl SimWorld {
    /// Carries effects of a follower out, in their order.
    pub(super) fn carry_out(&mut self, key: NodeKey, effects: Vec<FollowEffect<IndexedBody>>) {
        for effect in effects {
            match effect {
                FollowEffect::Follow { owner, request } => {
                    self.send_index(key, owner, IndexMessage::Follow(request));
                }
                FollowEffect::Read { owner, read, .. } => {
                    self.send_index(key, owner, IndexMessage::Read(read));
                }
                FollowEffect::Confirm { owner, receipt } => {
                    self.send_index(key, owner, IndexMessage::Confirm(receipt));
                }
                FollowEffect::AskPositions { copy } => self.ask_positions(key, CopyId(copy.0), None),
                FollowEffect::Ready { copy } => {
                    self.note(|| format!("n{key}: copy {} of an index has caught up", copy.0));
                    self.indexes.caught_up.insert(CopyId(copy.0));
                    if self.random.permille(500)
                        && let Some(node) = self.nodes.get_mut(&key)
                    {
                        node.indexes.flush(CopyId(copy.0));
                    }
                }
                on_copy => {
                    let (now, sabotage) = (self.now, self.options.sabotage);
                    let Some(node) = self.nodes.get_mut(&key) else { return };
                    let wall = node.wall(now);
                    let more = node.indexes.change(on_copy, wall, sabotage);
                    self.carry_out(key, more);
                }
            }
        }
    }

    /// Lets the copies of a node act by the newest state that it knows.
    pub(super) fn adopt_index_state(&mut self, key: NodeKey) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(state) = node.state.clone() else { return };
        if node.indexes.adopted.as_ref().is_some_and(|known| known.version() >= state.version()) {
            return;
        }
        let wall = node.wall(now);
        let owners = state.buckets().map(|bucket| (bucket, state.owner(bucket))).collect();
        let effects = node.indexes.follower.adopt(state.version().number(), owners, wall);
        node.indexes.adopted = Some(state);
        self.carry_out(key, effects);
    }

    /// Looks after the copies of a node.
    pub(super) fn maintain_copies(&mut self, key: NodeKey) {
        self.adopt_index_state(key);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let wall = node.wall(now);
        let mut effects = node.indexes.follower.tick(wall);
        let (mut asked, mut left, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for (id, copy) in &node.indexes.copies {
            match copy.stage {
                SimIndexStage::Gone => {}
                _ if copy.leaving.is_some_and(|since| now >= since + LEAVING) => left.push(*id),
                SimIndexStage::Importing { from } => asked.push((from, *id, copy.slice)),
                SimIndexStage::Open => open.push(*id),
            }
        }
        for id in left {
            effects.extend(node.indexes.follower.remove_copy(CopyNumber(id.0), wall));
            if let Some(copy) = node.indexes.copies.get_mut(&id) {
                *copy = SimIndexCopy::new(copy.slice, copy.definition.clone(), SimIndexStage::Gone);
            }
        }
        for id in open {
            if self.random.permille(100) {
                node.indexes.flush(id);
            }
        }
        self.carry_out(key, effects);
        for (from, copy, slice) in asked {
            self.send_index(key, from, IndexMessage::AskFiles { copy, slice });
        }
        self.compare_again(key);
    }

    /// Makes, keeps and removes copies of a node as a table says.
    pub(super) fn adopt_index_table(&mut self, key: NodeKey, table: &Arc<PlacementTable>) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.indexes.table.version() >= table.version() {
            return;
        }
        node.indexes.table = Arc::clone(table);
        let wall = node.wall(now);
        let placed: BTreeMap<CopyId, (SliceId, PlacedCopy)> =
            table.of_node(key).map(|(slice, copy)| (copy.id, (slice, copy.clone()))).collect();
        let known: Vec<CopyId> = node.indexes.copies.keys().copied().collect();
        let mut effects = Vec::new();
        for id in known.into_iter().filter(|id| !placed.contains_key(id)) {
            node.indexes.copies.remove(&id);
            effects.extend(node.indexes.follower.remove_copy(CopyNumber(id.0), wall));
        }
        self.carry_out(key, effects);
        for (id, (slice, copy)) in placed {
            let Some(definition) = definition(table, slice) else { continue };
            self.maintain_copy(key, id, (slice, definition), copy.state);
        }
    }

    /// Keeps one copy as the table says.
    fn maintain_copy(
        &mut self,
        key: NodeKey,
        id: CopyId,
        (slice, definition): (SliceId, CopyDefinition),
        state: PlacedCopyState,
    ) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let copies = &mut node.indexes.copies;
        let known = copies.get(&id).map(|copy| copy.stage);
        match (state, known) {
            (PlacedCopyState::Made { from: Some(from), .. }, known)
                if known.is_none()
                    || matches!(known, Some(SimIndexStage::Importing { from: former }) if former != from) =>
            {
                let stage = SimIndexStage::Importing { from };
                copies.insert(id, SimIndexCopy::new(slice, definition, stage));
                self.send_index(key, from, IndexMessage::AskFiles { copy: id, slice });
            }
            (PlacedCopyState::Made { from: None, .. }, None | Some(SimIndexStage::Importing { .. })) => {
                let copy = SimIndexCopy::new(slice, definition, SimIndexStage::Open);
                self.open_index_copy(key, id, copy, &CopyMarks::default());
            }
            // It had caught up, and was lost with the process before it was flushed.
            (
                PlacedCopyState::Ready | PlacedCopyState::Leaving,
                None | Some(SimIndexStage::Importing { .. }),
            ) => {
                copies.insert(id, SimIndexCopy::new(slice, definition, SimIndexStage::Gone));
            }
            (PlacedCopyState::Leaving, Some(_)) => {
                if let Some(copy) = copies.get_mut(&id) {
                    copy.leaving.get_or_insert(now);
                }
            }
            _ => {}
        }
    }

    /// Lets a copy follow.
    fn open_index_copy(&mut self, key: NodeKey, id: CopyId, copy: SimIndexCopy, marks: &CopyMarks) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let wall = node.wall(now);
        let definition = copy.definition.clone();
        node.indexes.copies.insert(id, copy);
        let effects = node.indexes.follower.add_copy(CopyNumber(id.0), definition, marks, wall);
        self.carry_out(key, effects);
    }

    /// Sends the files of a ready copy of a slice.
    pub(super) fn send_files(&mut self, key: NodeKey, to: NodeKey, copy: CopyId, slice: SliceId) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let follower = &node.indexes.follower;
        let mut own = node.indexes.copies.iter();
        let ready =
            own.find(|(id, own)| own.slice == slice && own.is_open() && follower.is_ready(CopyNumber(id.0)));
        let Some(id) = ready.map(|(id, _)| *id) else { return };
        node.indexes.flush(id);
        let files = node.indexes.copies.get(&id).and_then(|own| own.files.clone());
        if let Some(files) = files {
            self.send_index(key, to, IndexMessage::Files { copy, files });
        }
    }

    /// Takes over files of a node for a copy that waits for them.
    pub(super) fn files_arrived(&mut self, key: NodeKey, from: NodeKey, id: CopyId, files: IndexCopyFiles) {
        let now = self.now;
        let Some(node) = self.nodes.get(&key) else { return };
        let waits = |copy: &&SimIndexCopy| copy.stage == SimIndexStage::Importing { from };
        let Some(mut copy) = node.indexes.copies.get(&id).filter(waits).cloned() else { return };
        let marks = match self.options.sabotage {
            Some(Sabotage::ImportedMarksAhead) => CopyMarks::all(node.wall(now)),
            _ => files.marks,
        };
        copy.stage = SimIndexStage::Open;
        copy.records = files.records.clone();
        copy.files = Some(IndexCopyFiles { records: files.records, marks: marks.clone() });
        self.indexes.moves += 1;
        self.open_index_copy(key, id, copy, &marks);
    }

    /// Reports of a node about its copies.
    pub(super) fn index_reports(&self, key: NodeKey) -> BTreeMap<CopyId, CopyReport> {
        let is_early = self.options.sabotage == Some(Sabotage::ReadyBeforeCaughtUp);
        let Some(node) = self.nodes.get(&key) else { return BTreeMap::new() };
        let report = |(id, copy): (&CopyId, &SimIndexCopy)| {
            let is_ready = is_early || node.indexes.follower.is_ready(CopyNumber(id.0));
            let progress = match copy.stage {
                SimIndexStage::Gone => CopyProgress::Gone,
                SimIndexStage::Open if is_ready => CopyProgress::CaughtUp,
                SimIndexStage::Open | SimIndexStage::Importing { .. } => CopyProgress::Working,
            };
            (*id, CopyReport { progress, bytes: 100 })
        };
        node.indexes.copies.iter().map(report).collect()
    }
}

/// Documents of a slice of the table.
fn definition(table: &PlacementTable, slice: SliceId) -> Option<CopyDefinition> {
    let index = table.indexes().get(&slice.index)?;
    let bits = index.slices.len().trailing_zeros() as u8;
    let document_type = document_type_of(&index.name)?.to_owned();
    Some(CopyDefinition { document_type, slice: BucketId::new(bits, u64::from(slice.slice)) })
}
