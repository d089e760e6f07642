//! The side of a node with documents: changes of its store on their way to copies of placed indexes.

mod encoding;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_bucket::{BucketId, reversed_location};
use millrace_cluster::{ClusterState, NodeKey};
use millrace_document::{DocumentGroup, DropScope, Timestamp};
use millrace_env::unix_time;
use millrace_index_feed::{
    AdoptedState, FeedBatch, FeedRow, FollowRequest, IndexFeedSource, OwnerPosition, SourceRun,
};
use millrace_store::{CommitFollower, CommittedRow, DroppingScope, Error as StoreError, Store};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::super::IndexDefinition;
use super::cluster::{OwnedReplicas, PlacedCluster};
use super::message::{KeyedRead, PlacedAnswer, PlacedQuestion, VersionKeys};
use super::pages;
use crate::Error;
use encoding::encoded_change;

/// Questions for documents that are answered at a time.
const READS_AT_ONCE: usize = 4;

/// Questions that wait for these. Copies ask again for others.
const READS_WAITING: usize = 64;

/// Bytes of pages after which the further reads of a question are put off.
const READ_BYTES: u64 = 1 << 20;

/// Time after which the further reads of a question are put off.
const READ_TIME: Duration = Duration::from_secs(1);

/// Time after which a question that waited for its turn is put off as a whole: the copies that it is for are
/// about to ask again, and would not take its pages.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);

/// Time in which a batch is to be taken in.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a batch that was not taken in.
const RETRY: Duration = Duration::from_millis(500);

/// Interval at which a queue is looked at without being woken.
const LOOK: Duration = Duration::from_secs(1);

/// Content of a version in the queues, from which its keys are made when it is sent.
#[derive(Debug, Clone)]
pub(super) enum QueuedContent {
    Committed(Arc<CommittedRow>),
    Keys(Arc<VersionKeys>),
}

/// The feed of a node's store.
pub(super) struct PlacedSource {
    store: Store,
    /// Types of the documents of all placed indexes.
    types: RwLock<BTreeSet<String>>,
    inner: Mutex<SourceInner>,
    /// Held from a report on buckets until the feed has them.
    reporting: Mutex<()>,
    /// Wakes those that send batches.
    arrived: watch::Sender<()>,
    reads: Arc<Semaphore>,
    waiting_reads: Arc<Semaphore>,
    /// Number of queues that were cut.
    pub cuts: AtomicU64,
}

/// Types of the documents whose changes the store is to pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassedTypes {
    /// True if there are any.
    pub is_any: bool,
    /// True if some of them are new.
    pub is_more: bool,
}

struct SourceInner {
    feed: IndexFeedSource<QueuedContent>,
    /// True while the store passes its changes on: without them nothing can be followed.
    is_fed: bool,
    /// The state that the buckets of rows are of.
    state: Option<Arc<ClusterState>>,
    /// Definitions by their hashes: those of the application, and others that copies still ask for.
    definitions: BTreeMap<u64, Arc<IndexDefinition>>,
    /// Definitions that each follower asks for.
    requested: BTreeMap<NodeKey, BTreeSet<u64>>,
    /// Followers that have a task which sends them batches.
    served: BTreeSet<NodeKey>,
    /// Changes of buckets of the store that are in progress, with the buckets of the state that they began
    /// with.
    changing: Vec<(Vec<BucketId>, Vec<BucketId>)>,
    /// True if pages were read since the last closing.
    has_read: bool,
}

impl SourceInner {
    /// Hashes of the definitions that followers ask for.
    fn requested_definitions(&self) -> BTreeSet<u64> {
        self.requested.values().flatten().copied().collect()
    }

    /// Bucket of a document.
    fn bucket(&self, sort_key: &[u8]) -> BucketId {
        let location = reversed_location(sort_key).location();
        self.state.as_ref().map_or(BucketId::ROOT, |state| state.bucket(location))
    }

    /// Buckets of the state that have documents of these buckets of the store.
    fn overlapping(&self, buckets: &[BucketId]) -> Vec<BucketId> {
        let Some(state) = &self.state else { return vec![BucketId::ROOT] };
        let mut found: BTreeSet<BucketId> =
            buckets.iter().copied().filter(|bucket| state.has_bucket(*bucket)).collect();
        // Those of other numbers of bits, and those that were divided off.
        let is_other = |bucket: &BucketId| {
            !state.has_bucket(*bucket) || state.spread().buckets().any(|part| bucket.covers(part))
        };
        let others: Vec<BucketId> = buckets.iter().copied().filter(is_other).collect();
        if !others.is_empty() {
            let overlaps =
                |bucket: &BucketId| others.iter().any(|other| other.covers(*bucket) || bucket.covers(*other));
            found.extend(state.buckets().filter(overlaps));
        }
        found.into_iter().collect()
    }

    /// Definitions of a type that a follower asks for, and that are known here.
    fn wanted_definitions<'d>(
        &'d self,
        follower: NodeKey,
        document_type: &str,
    ) -> impl Iterator<Item = &'d Arc<IndexDefinition>> {
        let requested = self.requested.get(&follower).into_iter().flatten();
        let known = requested.filter_map(|hash| self.definitions.get(hash));
        known.filter(move |definition| *definition.config.document_type == *document_type)
    }
}

/// Work of a task that sends batches to a follower.
enum NextWork {
    Send(Box<FeedBatch<QueuedContent>>),
    Wait,
    /// The follower has no session.
    End,
}

impl PlacedSource {
    pub fn new(store: &Store) -> Self {
        let now = clock(store);
        let inner = SourceInner {
            feed: new_feed(now),
            is_fed: false,
            state: None,
            definitions: BTreeMap::new(),
            requested: BTreeMap::new(),
            served: BTreeSet::new(),
            changing: Vec::new(),
            has_read: false,
        };
        PlacedSource {
            store: store.clone(),
            types: RwLock::default(),
            inner: Mutex::new(inner),
            reporting: Mutex::default(),
            arrived: watch::Sender::new(()),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            waiting_reads: Arc::new(Semaphore::new(READS_WAITING)),
            cuts: AtomicU64::new(0),
        }
    }

    /// The store that it feeds the changes of.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes the changes of these definitions' documents from now on, and of those that followers ask for.
    /// [`PlacedSource::adopt`] follows when the store passes them on.
    pub fn pass(&self, definitions: &[Arc<IndexDefinition>]) -> PassedTypes {
        let inner = self.inner.lock();
        let requested = inner.requested_definitions();
        let former = inner.definitions.values().filter(|definition| requested.contains(&definition.hash));
        let all = former.chain(definitions);
        let next: BTreeSet<String> =
            all.map(|definition| definition.config.document_type.to_string()).collect();
        let mut types = self.types.write();
        let is_more = !next.is_subset(&types);
        *types = next;
        PassedTypes { is_any: !types.is_empty(), is_more }
    }

    /// Knows these definitions from now on, and those that followers ask for. No page of them is read before:
    /// a version that comes after it would be missing where the store does not pass it on yet.
    pub fn adopt(&self, definitions: &[Arc<IndexDefinition>], passed: PassedTypes) {
        let now = clock(&self.store);
        let mut inner = self.inner.lock();
        let requested = inner.requested_definitions();
        inner.definitions.retain(|hash, _| requested.contains(hash));
        let new = definitions.iter().map(|definition| (definition.hash, Arc::clone(definition)));
        inner.definitions.extend(new);
        inner.is_fed = passed.is_any;
        if !passed.is_any {
            // Changes from now on are in no queue.
            inner.feed = new_feed(now);
        } else if passed.is_more {
            // Late versions of these types may have passed by.
            inner.feed.disturb_all(now);
        }
    }

    /// Report on the buckets that the node owns; `None` if they are not known now.
    pub fn owned_replicas(&self, cluster: &dyn PlacedCluster) -> Option<OwnedReplicas> {
        let now = clock(&self.store);
        let start = self.inner.lock().feed.begin_report(now);
        cluster.owned_replicas(start)
    }

    /// Reports on the buckets that the node owns; `false` if they are not known now.
    fn refresh(&self, cluster: &dyn PlacedCluster) -> bool {
        let _one_at_a_time = self.reporting.lock();
        let Some(owned) = self.owned_replicas(cluster) else { return false };
        self.inner.lock().adopt_report(owned, cluster.own(), clock(&self.store));
        true
    }

    /// Answers a request to follow buckets.
    ///
    /// # Errors
    /// The store does not pass its changes on yet.
    pub fn follow(
        self: &Arc<Self>,
        cluster: &Arc<dyn PlacedCluster>,
        runtime: &Handle,
        follower: NodeKey,
        request: FollowRequest,
        definitions: BTreeSet<u64>,
    ) -> Result<PlacedAnswer, Error> {
        self.refresh(&**cluster);
        let begins = {
            let mut inner = self.inner.lock();
            if !inner.is_fed {
                return Err(Error::Unsettled("this node does not place indexes yet".to_owned()));
            }
            inner.requested.insert(follower, definitions);
            if let Some(cut) = inner.feed.follow(follower, request) {
                return Ok(PlacedAnswer::Cut(cut));
            }
            inner.served.insert(follower)
        };
        if begins {
            runtime.spawn(Arc::clone(self).serve(Arc::clone(cluster), follower));
        }
        self.arrived.send_replace(());
        Ok(PlacedAnswer::Taken)
    }

    /// Begins to read documents for a follower; the pages come in the feed. If too many questions wait, or no
    /// definition of a read is known, nothing comes, and the follower asks again.
    pub fn read(
        self: &Arc<Self>,
        cluster: &Arc<dyn PlacedCluster>,
        runtime: &Handle,
        follower: NodeKey,
        reads: Vec<KeyedRead>,
    ) {
        let Ok(waiting) = Arc::clone(&self.waiting_reads).try_acquire_owned() else { return };
        let (source, cluster, requested) = (Arc::clone(self), Arc::clone(cluster), Instant::now());
        runtime.spawn(async move {
            let _waiting = waiting;
            let Ok(running) = Arc::clone(&source.reads).acquire_owned().await else { return };
            let work = move || {
                let bytes = source.read_some(follower, &reads, requested.elapsed());
                // The next question waits.
                cluster.pace(bytes);
                drop(running);
            };
            if let Err(error) = tokio::task::spawn_blocking(work).await {
                tracing::error!(%error, "documents could not be read for an index on another node");
            }
        });
    }

    /// Reads the first pages of a question that has waited for this time, and puts off the others. Returns
    /// the size of all.
    fn read_some(&self, follower: NodeKey, reads: &[KeyedRead], waited: Duration) -> u64 {
        let (began, mut bytes) = (Instant::now(), 0);
        for (at, read) in reads.iter().enumerate() {
            if waited >= TURN_TIMEOUT || bytes >= READ_BYTES || began.elapsed() >= READ_TIME {
                let mut inner = self.inner.lock();
                reads[at..].iter().for_each(|other| inner.feed.put_off_read(follower, &other.read));
                drop(inner);
                self.arrived.send_replace(());
                break;
            }
            bytes += self.read_now(follower, read);
        }
        bytes
    }

    /// Reads a page. Returns its size.
    fn read_now(&self, follower: NodeKey, KeyedRead { read, definitions }: &KeyedRead) -> u64 {
        let begun = {
            let mut inner = self.inner.lock();
            // Copies of other definitions find that the rows lack their keys.
            let known: Vec<Arc<IndexDefinition>> =
                definitions.iter().filter_map(|hash| inner.definitions.get(hash).cloned()).collect();
            let state = inner.state.clone().filter(|_| !known.is_empty());
            state.filter(|_| inner.feed.begin_read(follower, read.clone())).map(|state| (known, state))
        };
        let Some((definitions, state)) = begun else { return 0 };
        let content = pages::content(&self.store, &state, &definitions, read);
        let rows = content.iter().flat_map(|content| &content.rows);
        let bytes = rows.map(|row| u64::from(row.bytes)).sum();
        let mut inner = self.inner.lock();
        match content {
            Ok(content) => {
                inner.feed.finish_read(follower, read, content);
                inner.has_read = true;
            }
            Err(error) => {
                tracing::error!(%error, bucket = %read.bucket, "documents could not be read for an index");
                inner.feed.abandon_read(follower, read);
            }
        }
        drop(inner);
        self.arrived.send_replace(());
        bytes
    }

    /// Position of the feed for a query, or for a copy that catches up.
    ///
    /// # Errors
    /// The node does not know now what it owns.
    pub fn position(&self, cluster: &dyn PlacedCluster, follower: NodeKey) -> Result<OwnerPosition, Error> {
        let unknown = || Error::Unsettled("the owner does not know yet who has the documents".to_owned());
        let position = {
            let _one_at_a_time = self.reporting.lock();
            let owned = self.owned_replicas(cluster).ok_or_else(unknown)?;
            let mut inner = self.inner.lock();
            inner.adopt_report(owned, cluster.own(), clock(&self.store));
            inner.feed.position(follower)
        };
        // No other owner may have come between.
        if cluster.confirms(position.version) { Ok(position) } else { Err(unknown()) }
    }

    /// Looks at the cluster, and tells followers how far buckets are complete, if `closes`, or if pages were
    /// read: a copy that has just caught up can be sent with a mark soon. Called about once a second.
    pub fn tick(self: &Arc<Self>, cluster: &Arc<dyn PlacedCluster>, runtime: &Handle, closes: bool) {
        let state = cluster.state();
        {
            let mut inner = self.inner.lock();
            let is_node =
                |node: &NodeKey| state.as_ref().is_none_or(|state| state.nodes().contains_key(node));
            let gone: Vec<NodeKey> = inner.requested.keys().copied().filter(|node| !is_node(node)).collect();
            for follower in gone {
                inner.requested.remove(&follower);
                inner.feed.forget(follower);
            }
            if inner.requested.is_empty() {
                return;
            }
        }
        // A write may have been given up since an earlier report.
        let is_known = self.refresh(&**cluster);
        let (version, has_read) = {
            let inner = self.inner.lock();
            (inner.state.as_ref().map(|state| state.version().number()), inner.has_read)
        };
        let closes = (closes || has_read) && is_known;
        if closes && version.is_some_and(|version| cluster.confirms(version)) {
            let mut inner = self.inner.lock();
            inner.has_read = false;
            inner.feed.close();
        }
        self.arrived.send_replace(());
        let cuts = self.inner.lock().feed.take_cuts();
        for (follower, cut) in cuts {
            self.cuts.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%follower, "an index node did not take changes in fast enough; it reads again");
            let answer = cluster.ask(follower, PlacedQuestion::Cut { owner: cluster.own(), cut });
            // One that does not receive it learns of it with its next request.
            runtime.spawn(async move { drop(answer.await) });
        }
    }

    /// Time at which the replica of a bucket changed last other than by new rows.
    #[cfg(test)]
    pub fn disorder(&self, bucket: BucketId) -> Timestamp {
        self.inner.lock().feed.disorder(bucket)
    }

    /// Bytes that wait for followers, or are on their way to them.
    pub fn queued_bytes(&self) -> usize {
        let inner = self.inner.lock();
        let queues = inner.requested.keys().filter_map(|follower| inner.feed.queue(*follower));
        queues.map(|queue| queue.bytes).sum()
    }

    /// Sends the batches of a follower, until it has no session.
    async fn serve(self: Arc<Self>, cluster: Arc<dyn PlacedCluster>, follower: NodeKey) {
        let mut arrived = self.arrived.subscribe();
        loop {
            arrived.borrow_and_update();
            match self.next(follower) {
                NextWork::End => return,
                NextWork::Wait => {
                    // Woken or not, it looks.
                    let _ = tokio::time::timeout(LOOK, arrived.changed()).await;
                }
                NextWork::Send(batch) => {
                    let source = Arc::clone(&self);
                    let encoded = tokio::task::spawn_blocking(move || source.encoded(follower, *batch)).await;
                    let taken = match encoded {
                        Ok(batch) => {
                            let question = PlacedQuestion::Batch { owner: cluster.own(), batch };
                            let requested = cluster.ask(follower, question);
                            tokio::time::timeout(BATCH_TIMEOUT, requested).await
                        }
                        Err(error) => Ok(Err(Error::Internal(error.to_string()))),
                    };
                    let receipt = match taken {
                        Ok(Ok(PlacedAnswer::Receipt(receipt))) => receipt,
                        Ok(Err(error)) => {
                            tracing::debug!(%error, %follower, "an index node does not take changes in");
                            None
                        }
                        _ => None,
                    };
                    match receipt {
                        Some(receipt) => self.inner.lock().feed.confirm(follower, receipt),
                        None => {
                            tokio::time::sleep(RETRY).await;
                            self.inner.lock().feed.resend(follower);
                        }
                    }
                }
            }
        }
    }

    fn next(&self, follower: NodeKey) -> NextWork {
        let mut inner = self.inner.lock();
        if inner.feed.queue(follower).is_none() {
            inner.served.remove(&follower);
            return NextWork::End;
        }
        inner.feed.next_batch(follower).map_or(NextWork::Wait, |batch| NextWork::Send(Box::new(batch)))
    }

    /// A batch with the keys of its rows.
    fn encoded(&self, follower: NodeKey, batch: FeedBatch<QueuedContent>) -> FeedBatch<VersionKeys> {
        let FeedBatch { run, session, first, changes } = batch;
        let mut types: BTreeMap<String, Vec<Arc<IndexDefinition>>> = BTreeMap::new();
        let mut wanted = |document_type: &str| -> Vec<Arc<IndexDefinition>> {
            if let Some(known) = types.get(document_type) {
                return known.clone();
            }
            let found: Vec<_> =
                self.inner.lock().wanted_definitions(follower, document_type).cloned().collect();
            types.insert(document_type.to_owned(), found.clone());
            found
        };
        let changes = changes.into_iter().map(|change| encoded_change(change, &mut wanted)).collect();
        FeedBatch { run, session, first, changes }
    }
}

impl SourceInner {
    fn adopt_report(&mut self, owned: OwnedReplicas, own: NodeKey, now: Timestamp) {
        let OwnedReplicas { state, report } = owned;
        let adopted =
            AdoptedState { version: state.version().number(), serves: state.node_state(own).serves() };
        if self.feed.adopt(adopted, &report, now) {
            self.state = Some(state);
        }
    }
}

/// A feed that no one follows yet.
fn new_feed(now: Timestamp) -> IndexFeedSource<QueuedContent> {
    IndexFeedSource::new(SourceRun(unix_time().as_micros() as u64), now)
}

/// Reading of the clock that timestamps of writes come from.
fn clock(store: &Store) -> Timestamp {
    store.newest().max(Timestamp(unix_time().as_micros() as u64))
}

impl CommitFollower for PlacedSource {
    fn follows(&self, document_type: &str) -> bool {
        self.types.read().contains(document_type)
    }

    fn appending(&self, _oldest: Timestamp) -> Result<(), StoreError> {
        // Copies know by themselves what they have: nothing has to be noted.
        Ok(())
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        let now = clock(&self.store);
        let mut inner = self.inner.lock();
        let rows = rows.into_iter().map(|row| {
            let document = row.sort_key().to_vec();
            FeedRow {
                bucket: inner.bucket(&document),
                document_type: row.document_type().to_owned(),
                document,
                timestamp: row.timestamp(),
                bytes: u32::try_from(row.bytes()).unwrap_or(u32::MAX),
                body: QueuedContent::Committed(Arc::new(row)),
            }
        });
        let rows: Vec<FeedRow<QueuedContent>> = rows.collect();
        inner.feed.committed(&rows, now);
        drop(inner);
        self.arrived.send_replace(());
    }

    fn dropping(&self, _scope: &DroppingScope) -> Result<(), StoreError> {
        Ok(())
    }

    fn dropped(&self, scope: &DroppingScope, until: Timestamp) {
        let now = clock(&self.store);
        let mut inner = self.inner.lock();
        let all = |inner: &SourceInner| inner.overlapping(&[BucketId::ROOT]);
        let (scope, part, buckets) = match scope {
            DroppingScope::Group { document_type, group, part } => match DocumentGroup::from_key(group) {
                Some(of) => {
                    let buckets = inner.state.as_ref().map(|state| state.buckets_of(&of));
                    let is_concerned = |bucket: &BucketId| {
                        part.is_none_or(|part| part.covers(*bucket) || bucket.covers(part))
                    };
                    let mut buckets = buckets.unwrap_or_else(|| vec![BucketId::ROOT]);
                    buckets.retain(is_concerned);
                    if buckets.is_empty() {
                        buckets = all(&inner);
                    }
                    let scope = DropScope::Group { document_type: document_type.clone(), group: of };
                    (Some(scope), *part, buckets)
                }
                None => (None, None, all(&inner)),
            },
            DroppingScope::Type(name) => (Some(DropScope::Type(name.clone())), None, all(&inner)),
            DroppingScope::Locations => (None, None, all(&inner)),
        };
        match scope {
            Some(scope) => inner.feed.dropped(&scope, part, until, &buckets, now),
            // Some of the documents are gone, and only a reading says which.
            None => {
                inner.feed.changing(&buckets, now);
                inner.feed.changed(&buckets, now);
            }
        }
        drop(inner);
        self.arrived.send_replace(());
    }

    fn changing(&self, buckets: &[BucketId]) -> Result<(), StoreError> {
        let now = clock(&self.store);
        let mut inner = self.inner.lock();
        let of_state = inner.overlapping(buckets);
        inner.feed.changing(&of_state, now);
        inner.changing.push((buckets.to_vec(), of_state));
        Ok(())
    }

    fn changed(&self, buckets: &[BucketId]) {
        let now = clock(&self.store);
        let mut inner = self.inner.lock();
        let begun = inner.changing.iter().position(|(begun, _)| begun == buckets);
        let begun = begun.map(|begun| inner.changing.swap_remove(begun).1).unwrap_or_default();
        // The state may have divided the buckets meanwhile: the change of those that came so begins and ends
        // here, beside others that are in flight in them.
        let mut of_state = inner.overlapping(buckets);
        of_state.retain(|bucket| !begun.contains(bucket));
        inner.feed.changing(&of_state, now);
        of_state.extend(begun);
        inner.feed.changed(&of_state, now);
        drop(inner);
        self.arrived.send_replace(());
    }
}
