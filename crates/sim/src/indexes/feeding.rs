//! The side of a node with documents: changes of its storage reach the feed before they are acknowledged.

use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::{BucketId, DocumentSortKey};
use millrace_cluster::{ClusterState, Incarnation, NodeKey};
use millrace_document::{DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_index_feed::{
    AdoptedState, FeedRead, FeedReadScope, FeedRow, FollowRequest, IndexFeedSource, OwnerReport, PageContent,
    ReportStart, SourceRun,
};
use millrace_replication::distributor::NoRoute;

use super::copies::IndexedBody;
use super::{IndexEvent, IndexMessage};
use crate::Sabotage;
use crate::node::SimNode;
use crate::storage::StorageChange;
use crate::world::{SimEvent, SimWorld};

/// Number of ticks between two closings.
const CLOSING_TICKS: u64 = 5;

/// Maximum number of documents of a page.
const INDEX_PAGE: usize = 2;

/// Size of a row, as it counts in queues: so large that queues run over while a follower is away for long.
const ROW_BYTES: u32 = 1 << 20;

/// The feed of a node's storage.
pub(crate) struct SimIndexFeed {
    pub(super) source: IndexFeedSource<IndexedBody>,
    /// The state that the buckets of rows are of.
    state: Option<Arc<ClusterState>>,
}

impl SimIndexFeed {
    pub(super) fn new(run: u64, now: Timestamp) -> Self {
        SimIndexFeed { source: IndexFeedSource::new(SourceRun(run), now), state: None }
    }

    /// Takes in a report on the buckets that the node owns.
    fn adopt(&mut self, own: NodeKey, state: Arc<ClusterState>, report: &OwnerReport, now: Timestamp) {
        let adopted =
            AdoptedState { version: state.version().number(), serves: state.node_state(own).serves() };
        if self.source.adopt(adopted, report, now) {
            self.state = Some(state);
        }
    }

    /// Takes a change of the storage in.
    fn take_in(&mut self, change: StorageChange, now: Timestamp) {
        let state = self.state.as_deref();
        match change {
            StorageChange::Version(version) => {
                let location = version.id.location();
                let bucket = state.map_or(BucketId::ROOT, |state| state.bucket(location));
                self.source.committed(&[row(bucket, version)], now);
            }
            StorageChange::Drop(bucket, DroppedScope { scope, timestamp }) => {
                let part = (bucket.used_bits() > BucketId::GROUP_BITS).then_some(bucket);
                let buckets: Vec<BucketId> = match (state, &scope) {
                    (None, _) => vec![BucketId::ROOT],
                    (Some(state), DropScope::Type(_)) => state.buckets().collect(),
                    (Some(state), DropScope::Group { group, .. }) => {
                        let is_concerned = |bucket: &BucketId| {
                            part.is_none_or(|part| part.covers(*bucket) || bucket.covers(part))
                        };
                        state.buckets_of(group).into_iter().filter(is_concerned).collect()
                    }
                };
                self.source.dropped(&scope, part, timestamp, &buckets, now);
            }
            StorageChange::Replica(bucket) => {
                let overlaps = |other: &BucketId| other.covers(bucket) || bucket.covers(*other);
                let buckets: Vec<BucketId> = match state {
                    Some(state) => state.buckets().filter(overlaps).collect(),
                    None => vec![BucketId::ROOT],
                };
                self.source.changing(&buckets, now);
                self.source.changed(&buckets, now);
            }
        }
    }

    /// Documents in the storage of the node that a follower asks for.
    fn page(&self, node: &SimNode, read: &FeedRead) -> PageContent<IndexedBody> {
        let bucket_of = |location| self.state.as_ref().map(|state| state.bucket(location));
        let versions = node.storage.versions(|id| {
            *id.document_type() == *read.document_type && bucket_of(id.location()) == Some(read.bucket)
        });
        let mut rows: Vec<FeedRow<IndexedBody>> =
            versions.into_iter().map(|version| row(read.bucket, version)).collect();
        rows.sort_by(|one, other| one.document.cmp(&other.document));
        let mut until = None;
        match &read.scope {
            FeedReadScope::Documents(documents) => rows.retain(|row| documents.contains(&row.document)),
            FeedReadScope::Since { from, after } => {
                rows.retain(|row| {
                    row.timestamp >= *from && after.as_ref().is_none_or(|after| *after < row.document)
                });
                if rows.len() > INDEX_PAGE {
                    until = Some(rows[INDEX_PAGE - 1].document.clone());
                    rows.truncate(INDEX_PAGE);
                }
            }
        }
        PageContent { rows, until }
    }
}

/// A version as a row of the feed.
fn row(bucket: BucketId, version: DocumentVersion) -> FeedRow<IndexedBody> {
    FeedRow {
        bucket,
        document_type: version.id.document_type().to_owned(),
        document: DocumentSortKey::new(&version.id).as_bytes().to_vec(),
        timestamp: version.timestamp,
        body: version.body,
        bytes: ROW_BYTES,
    }
}

impl SimWorld {
    /// Passes the changes of a node's storage to its feed.
    pub fn feed_changes(&mut self, key: NodeKey) {
        let sabotage = self.options.sabotage;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let incarnation = node.incarnation;
        let mut changes = node.storage.take_changes();
        if sabotage == Some(Sabotage::DropsNotFed) {
            changes.retain(|change| !matches!(change, StorageChange::Drop(..)));
        }
        if changes.is_empty() {
            return;
        }
        if sabotage == Some(Sabotage::FedAfterAcknowledgement) {
            let takes = self.random.micros(20_000, 2_000_000);
            return self.schedule(
                takes,
                SimEvent::Indexes { node: key, incarnation, event: IndexEvent::Feed(changes) },
            );
        }
        self.feed(key, changes);
    }

    pub(super) fn feed(&mut self, key: NodeKey, changes: Vec<StorageChange>) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let clock = node.write_clock(now);
        changes.into_iter().for_each(|change| node.indexes.feed.take_in(change, clock));
        self.send_batches(key);
    }

    /// Sends what waits in the queues of a node.
    pub(super) fn send_batches(&mut self, key: NodeKey) {
        let followers: Vec<NodeKey> = self.nodes.keys().copied().collect();
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let source = &mut node.indexes.feed.source;
        let mut messages = Vec::new();
        for follower in followers {
            while let Some(batch) = source.next_batch(follower) {
                messages.push((follower, IndexMessage::Batch(batch)));
            }
        }
        messages
            .extend(source.take_cuts().into_iter().map(|(follower, cut)| (follower, IndexMessage::Cut(cut))));
        messages.into_iter().for_each(|(follower, message)| self.send_index(key, follower, message));
    }

    /// Looks after the feed of a node.
    pub(super) fn maintain_feed(&mut self, key: NodeKey, number: u64) {
        let (now, is_known) = (self.now, self.refresh_feed(key));
        let followers: Vec<NodeKey> = self.nodes.keys().copied().collect();
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let version = node.indexes.feed.state.as_ref().map(|state| state.version().number());
        let is_closing = is_known && number.is_multiple_of(CLOSING_TICKS);
        if is_closing && version.is_some_and(|version| confirms(node, version, now)) {
            node.indexes.feed.source.close();
        }
        followers.into_iter().for_each(|follower| node.indexes.feed.source.resend(follower));
        self.send_batches(key);
    }

    pub(super) fn follow(&mut self, key: NodeKey, from: NodeKey, request: FollowRequest) {
        self.refresh_feed(key);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if let Some(cut) = node.indexes.feed.source.follow(from, request) {
            self.send_index(key, from, IndexMessage::Cut(cut));
        }
        self.send_batches(key);
    }

    /// Begins to read documents for a follower.
    pub(super) fn begin_index_read(&mut self, key: NodeKey, follower: NodeKey, read: FeedRead) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let incarnation = node.incarnation;
        if node.indexes.feed.source.begin_read(follower, read.clone()) {
            let takes = self.random.micros(100, 300_000);
            let event = IndexEvent::ReadStore { follower, read };
            self.schedule(takes, SimEvent::Indexes { node: key, incarnation, event });
        }
    }

    /// Reads documents for a follower.
    pub(super) fn read_for(&mut self, key: NodeKey, follower: NodeKey, read: &FeedRead) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let page = node.indexes.feed.page(node, read);
        node.indexes.feed.source.finish_read(follower, read, page);
        self.send_batches(key);
    }

    /// Answers the question of a node for the position of an owner.
    pub(super) fn answer_position(
        &mut self,
        key: NodeKey,
        from: NodeKey,
        incarnation: Incarnation,
        question: u64,
    ) {
        let is_checked = self.options.sabotage != Some(Sabotage::PositionsNotRechecked);
        let (now, is_known) = (self.now, self.refresh_feed(key));
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let position = node.indexes.feed.source.position(from);
        // No other owner may have come between.
        if is_checked && !(is_known && confirms(node, position.version, now)) {
            return;
        }
        let reported = self.reported_nodes(key);
        self.send_index(key, from, IndexMessage::Position { incarnation, question, position, reported });
    }

    /// Nodes that serve by the state of a node, and whose replicas it knows.
    fn reported_nodes(&self, key: NodeKey) -> Vec<NodeKey> {
        let Some(node) = self.nodes.get(&key) else { return Vec::new() };
        let Some(state) = &node.state else { return Vec::new() };
        let has_reported = |other: &&SimNode| {
            state.node_state(other.key).serves()
                && state.nodes().get(&other.key).is_some_and(|entry| entry.incarnation == other.incarnation)
                && !node.distributor.unreported().contains(&other.key)
        };
        self.nodes.values().filter(has_reported).map(|other| other.key).collect()
    }

    /// Reports on the buckets that a node owns; `false` if they are not known now.
    fn refresh_feed(&mut self, key: NodeKey) -> bool {
        let (now, sabotage) = (self.now, self.options.sabotage);
        let Some(node) = self.nodes.get_mut(&key) else { return false };
        let Some(state) = node.state.clone() else { return false };
        let clock = node.write_clock(now);
        let start = node.indexes.feed.source.begin_report(clock);
        let Some(report) = owner_report(node, &state, start, now, sabotage) else { return false };
        node.indexes.feed.adopt(key, state, &report, clock);
        true
    }
}

/// True if a node's newest state has this version, and is confirmed.
fn confirms(node: &SimNode, version: u64, now: Duration) -> bool {
    node.state
        .as_ref()
        .map(|state| state.version())
        .is_some_and(|known| known.number() == version && node.distributor.confirms(known, node.now(now)))
}

/// Looks at the buckets that a node owns by a state.
fn owner_report(
    node: &mut SimNode,
    state: &ClusterState,
    start: ReportStart,
    now: Duration,
    sabotage: Option<Sabotage>,
) -> Option<OwnerReport> {
    if node.distributor.version() != Some(state.version()) {
        return None;
    }
    let (key, now) = (node.key, node.now(now));
    let oldest = node.distributor.oldest_writes();
    let owned = state.buckets().filter(|bucket| state.owner(*bucket) == Some(key));
    let known = owned.map(|bucket| match node.distributor.route(bucket, now) {
        Ok(route) if route.version == state.version() => {
            let has_all = route.full && node.distributor.readers(bucket, &route).contains(&key);
            (bucket, Some(has_all))
        }
        // Without documents there is nothing that the replica could lack.
        Err(NoRoute::Nothing) => (bucket, Some(true)),
        _ => (bucket, None),
    });
    let mut known: Vec<(BucketId, Option<bool>)> = known.collect();
    let is_any_known = known.iter().any(|(_, has_all)| has_all.is_some());
    if sabotage == Some(Sabotage::IncompleteOwnersFeed) && is_any_known {
        known.iter_mut().for_each(|(_, has_all)| *has_all = Some(true));
    }
    OwnerReport::new(start, &oldest, known)
}
