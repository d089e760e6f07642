//! Queries that must see every acknowledged write, and checks of copies against what clients know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::{BucketId, DocumentSortKey, NodeKey};
use millrace_cluster::ClusterState;
use millrace_document::{DocumentId, Timestamp};
use millrace_index_feed::{CopyDefinition, CopyFreshness, CopyNumber, OwnerPosition};
use millrace_index_placement::{CopyId, PlacedCopy};

use super::IndexMessage;
use super::copies::IndexedBody;
use super::placing::{INDEX_COPIES, wanted};
use crate::node::SimNode;
use crate::world::SimWorld;

/// Time that a query waits for a copy.
const INDEX_QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Question of a node to the owners of the documents of a copy.
pub(crate) struct FreshnessQuestion {
    copy: CopyId,
    state: Arc<ClusterState>,
    owners: BTreeSet<NodeKey>,
    positions: BTreeMap<NodeKey, OwnerPosition>,
    /// Nodes whose replicas each owner took into account.
    reported: BTreeMap<NodeKey, Vec<NodeKey>>,
    began: Duration,
    /// Documents that a query must find; `None` for a copy that catches up.
    expected: Option<Vec<AcknowledgedDocument>>,
}

/// A document as clients know it when a query begins.
pub(super) struct AcknowledgedDocument {
    id: DocumentId,
    /// Newest acknowledged write or drop.
    floor: Timestamp,
    /// True if this has left the document there.
    is_left: bool,
    /// Nodes that had exactly that version.
    holders: Vec<NodeKey>,
}

/// Begins a query of any ready copy.
pub(crate) fn query(world: &mut SimWorld) {
    let mut ready: Vec<(NodeKey, CopyId)> = Vec::new();
    for node in world.nodes.values().filter(|node| node.alive && !node.frozen) {
        for (id, copy) in &node.indexes.copies {
            if copy.is_open() && node.indexes.follower.is_ready(CopyNumber(id.0)) {
                ready.push((node.key, *id));
            }
        }
    }
    let Some((key, copy)) = world.random.pick(&ready) else { return };
    world.adopt_index_state(key);
    let Some(known) = world.nodes.get(&key).and_then(|node| node.indexes.copies.get(&copy)) else { return };
    let expected = world.acknowledged(&known.definition);
    world.ask_positions(key, copy, Some(expected));
}

impl SimWorld {
    /// Documents of a copy as clients know them now.
    fn acknowledged(&self, definition: &CopyDefinition) -> Vec<AcknowledgedDocument> {
        let is_of_copy = |id: &DocumentId| {
            *id.document_type() == *definition.document_type && definition.slice.contains(id.location())
        };
        let mut documents = Vec::new();
        for id in self.history.documents().into_iter().filter(is_of_copy) {
            let floor = self.history.newest(&id);
            let has = |node: &&SimNode| {
                node.storage.newest_in_replicas(&id).is_some_and(|version| version.timestamp == floor)
            };
            let holders = self.nodes.values().filter(has).map(|node| node.key).collect();
            let is_left = self.history.leaves_document(&id);
            documents.push(AcknowledgedDocument { id, floor, is_left, holders });
        }
        documents
    }

    /// Asks the owners of the documents of a copy for their positions.
    pub(super) fn ask_positions(
        &mut self,
        key: NodeKey,
        copy: CopyId,
        expected: Option<Vec<AcknowledgedDocument>>,
    ) {
        let began = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(state) = node.indexes.adopted.clone() else { return };
        let Some(slice) = node.indexes.copies.get(&copy).map(|copy| copy.definition.slice) else { return };
        let is_of_copy = |bucket: &BucketId| slice.covers(*bucket) || bucket.covers(slice);
        let owners: BTreeSet<NodeKey> =
            state.buckets().filter(is_of_copy).filter_map(|bucket| state.owner(bucket)).collect();
        let (question, incarnation) = (node.name(), node.incarnation);
        let open = FreshnessQuestion {
            copy,
            state,
            owners: owners.clone(),
            positions: BTreeMap::new(),
            reported: BTreeMap::new(),
            began,
            expected,
        };
        node.indexes.questions.insert(question, open);
        for owner in owners {
            self.send_index(key, owner, IndexMessage::AskPosition { incarnation, question });
        }
    }

    /// Takes in the position of an owner.
    pub(super) fn position_arrived(
        &mut self,
        key: NodeKey,
        from: NodeKey,
        question: u64,
        position: OwnerPosition,
        reported: Vec<NodeKey>,
    ) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(open) = node.indexes.questions.get_mut(&question) else { return };
        open.positions.insert(from, position);
        open.reported.insert(from, reported);
        self.compare_copy(key, question);
    }

    /// Compares the copies of all open questions of a node again.
    pub(super) fn compare_again(&mut self, key: NodeKey) {
        let now = self.now;
        let Some(node) = self.nodes.get(&key) else { return };
        let questions: Vec<u64> = node.indexes.questions.keys().copied().collect();
        questions.into_iter().for_each(|question| self.compare_copy(key, question));
        if let Some(node) = self.nodes.get_mut(&key) {
            node.indexes.questions.retain(|_, open| now < open.began + INDEX_QUERY_TIMEOUT);
        }
    }

    /// Compares a copy with the positions of the owners, if all have answered.
    fn compare_copy(&mut self, key: NodeKey, question: u64) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(open) = node.indexes.questions.remove(&question) else { return };
        if open.positions.len() < open.owners.len() {
            node.indexes.questions.insert(question, open);
            return;
        }
        let number = CopyNumber(open.copy.0);
        if open.expected.is_none() {
            let effects = node.indexes.follower.catch_up(number, &open.positions);
            return self.carry_out(key, effects);
        }
        let version = open.state.version().number();
        let positions = open.positions.values();
        let incomplete: BTreeSet<BucketId> =
            positions.flat_map(|position| &position.incomplete).copied().collect();
        let is_late = now + Duration::from_secs(1) >= open.began + INDEX_QUERY_TIMEOUT;
        match node.indexes.follower.freshness(number, version, &open.positions) {
            CopyFreshness::Fresh => self.check_copy(key, &open, &BTreeSet::new()),
            CopyFreshness::Missing(missing) if is_late || missing.is_subset(&incomplete) => {
                self.check_copy(key, &open, &missing);
            }
            CopyFreshness::Missing(_) | CopyFreshness::NotReady => {
                node.indexes.questions.insert(question, open);
            }
        }
    }

    /// Checks that a copy has every write that was acknowledged before a query, and that is stored on any
    /// node that has reported to the owner, but for the buckets that it says to lack something of.
    fn check_copy(&mut self, key: NodeKey, question: &FreshnessQuestion, missing: &BTreeSet<BucketId>) {
        let FreshnessQuestion { copy, state, reported, expected, .. } = question;
        let Some(known) = self.nodes.get(&key).and_then(|node| node.indexes.copies.get(copy)) else { return };
        self.indexes.queries += 1;
        for AcknowledgedDocument { id, floor, is_left, holders } in expected.iter().flatten() {
            let bucket = state.bucket(id.location());
            let reported = state.owner(bucket).and_then(|owner| reported.get(&owner));
            let is_held =
                reported.is_some_and(|reported| holders.iter().any(|holder| reported.contains(holder)));
            let history = &self.history;
            let is_removed = history.type_removed_at(id.document_type()) >= *floor;
            if missing.contains(&bucket) || !is_held || is_removed || history.may_be_dropped(id) {
                continue;
            }
            let found = known.records.get(DocumentSortKey::new(id).as_bytes());
            let is_wrong = match found {
                Some((timestamp, _)) if timestamp >= floor => false,
                Some((_, Some(_))) => true,
                // The record of a later removal may be forgotten.
                Some((_, None)) | None => {
                    *is_left && !history.may_be_removed(id) && !history.is_dropped_version(id, *floor)
                }
            };
            if is_wrong {
                let found = found.map(|(timestamp, body)| (timestamp.0, body.is_some()));
                self.wrong = Some(format!(
                    "copy {} of an index on n{key} has {found:?} of {id}, and {} was acknowledged before the \
                     query; it lacks {missing:?}",
                    copy.0, floor.0
                ));
                return;
            }
        }
    }
}

/// Reason why the placed indexes have not come to rest: a copy that is missing, made or moved, or that does
/// not have exactly what the documents say. The node `away` has ended, and does not count.
pub(crate) fn unrest(world: &SimWorld, away: Option<NodeKey>) -> Option<String> {
    let placement = &world.indexes.placement;
    let table = &placement.table;
    let declared = wanted(world.coordination.package());
    if table.rebalance().is_some()
        || !placement.commands.is_empty()
        || table.indexes().len() != declared.len()
    {
        return Some(format!("the table of copies is not at rest: {:?}", table.rebalance()));
    }
    let nodes = || world.nodes.values().filter(|node| Some(node.key) != away);
    let copies = usize::from(INDEX_COPIES).min(nodes().count());
    let is_whole = |slice: &Vec<PlacedCopy>| slice.len() == copies && slice.iter().all(PlacedCopy::is_ready);
    for (number, index) in table.indexes() {
        if !index.slices.iter().all(is_whole) {
            return Some(format!("index {number} is not whole: {index:?}"));
        }
    }
    for node in nodes() {
        if node.indexes.table.version() != table.version() {
            return Some(format!("n{} has another table of copies", node.key));
        }
    }
    table.all_copies().find_map(|(_, placed)| copy_unrest(world, placed, away))
}

/// Difference between a ready copy and the documents.
fn copy_unrest(world: &SimWorld, placed: &PlacedCopy, away: Option<NodeKey>) -> Option<String> {
    let node = world.nodes.get(&placed.node)?;
    if Some(node.key) == away {
        return Some(format!("copy {placed} is not made elsewhere"));
    }
    let Some(copy) = node.indexes.copies.get(&placed.id).filter(|copy| copy.is_open()) else {
        return Some(format!("n{} does not have copy {placed}", node.key));
    };
    let progress = node.indexes.follower.progress(CopyNumber(placed.id.0));
    if progress.caught_up < progress.buckets || !node.indexes.follower.is_ready(CopyNumber(placed.id.0)) {
        return Some(format!("copy {placed} has not caught up: {progress:?}"));
    }
    let mut expected: BTreeMap<Vec<u8>, (Timestamp, IndexedBody)> = BTreeMap::new();
    for other in world.nodes.values().filter(|other| Some(other.key) != away) {
        let versions = other.storage.versions(|id| {
            *id.document_type() == *copy.definition.document_type
                && copy.definition.slice.contains(id.location())
        });
        for version in versions.into_iter().filter(|version| version.body.is_some()) {
            let key = DocumentSortKey::new(&version.id).as_bytes().to_vec();
            expected.insert(key, (version.timestamp, version.body));
        }
    }
    let is_same = |key: &Vec<u8>| {
        let found = copy.records.get(key).filter(|(_, body)| body.is_some());
        found == expected.get(key)
    };
    let different = expected.keys().chain(copy.records.keys()).find(|key| !is_same(key))?;
    let shown = String::from_utf8_lossy(different);
    let (found, there) = (copy.records.get(different), expected.get(different));
    Some(format!("copy {placed} has {found:?} of {shown:?}, and the documents say {there:?}"))
}
