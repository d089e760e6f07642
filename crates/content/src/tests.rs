//! Compares the store's replicas with a model of them: after every write, drop, fetch, deletion and restart,
//! both show the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterConfiguration, ClusterState, ClusterVersion, DividedGroups, FenceRefusal, Incarnation,
    NodeHierarchy, NodeKey, NodeReply, NodeRequest, NodeResponse, PullMode, ReplicaContent,
    ReplicaDistribution, ReplicaOrigin, ReplicatedRow, ReportedReplica, RequestFence, RowContent,
    UnfinishedRow,
};
use millrace_column::{Column, ColumnKey, ValueBuilder};
use millrace_coordination::EmbeddedCoordination;
use millrace_document::{
    DataType, Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, DropScope, DroppedScope,
    EncodedDocument, Location, Timestamp,
};
use millrace_membership::{ClusterMembership, PackagePublication, Settings};
use millrace_peer::{PeerAddress, PeerConnections, PeerService, TransferSource};
use millrace_replication::replica::ReplicaStorage;
use millrace_sim::ModelStorage;
use millrace_store::{Store, StoreOptions};
use millrace_trust::Connection;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::pull::{FetchedPart, NodeFetches, WantedReplica};
use crate::source::StoreSource;
use crate::storage::StoreReplicas;
use crate::{ContentNode, PeerPort, TransferPace, TransferThrottle};

mod damaged;

const BITS: u8 = 2;
const GROUPS: u64 = 6;

struct TestNumbers;

impl millrace_store::StoreLayout for TestNumbers {
    fn columns(&self, _: &str) -> Option<Vec<ColumnKey>> {
        Some(vec![ColumnKey::value("number")])
    }

    fn build(
        &self,
        _: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let mut values = ValueBuilder::new(&DataType::Long);
        documents.iter().try_for_each(|document| values.push_encoded(document.get(&key.field)))?;
        Ok(values.finish())
    }

    fn derive(&self, _: &str, _: &ColumnKey, _: &Column) -> Option<Column> {
        None
    }

    fn data_type(&self, _: &str, field: &str) -> Option<DataType> {
        (field == "number").then_some(DataType::Long)
    }
}

/// Source that other nodes fetch from; it gets no other requests here.
struct FetchedSource(Arc<StoreSource>);

impl PeerService for FetchedSource {
    fn incarnation(&self) -> Incarnation {
        Incarnation::new(1)
    }

    fn request(&self, _: RequestFence, _: NodeRequest, _: Box<dyn FnOnce(NodeReply) + Send>) {}

    fn source(&self) -> Arc<dyn TransferSource> {
        Arc::clone(&self.0) as Arc<dyn TransferSource>
    }

    fn http(&self, _: Connection) {}
}

/// A store and its model.
struct ModelledNode {
    directory: TempDir,
    replicas: Arc<StoreReplicas>,
    model: ModelStorage,
    address: PeerAddress,
    /// Ends fetches by other nodes when dropped.
    _serves: watch::Sender<bool>,
}

fn open(directory: &TempDir) -> Arc<StoreReplicas> {
    let options = StoreOptions {
        cache_bytes: 4 << 20,
        seal_idle: Duration::from_secs(3600),
        disk_reserve: 0,
        maintenance: false,
        ..StoreOptions::new(directory.path())
    };
    let replicas = StoreReplicas::new(Store::open(options, Arc::new(TestNumbers)).expect("the store opens"));
    replicas.adopt(BITS).expect("it can be read");
    Arc::new(replicas)
}

fn serve(runtime: &Runtime, replicas: &Arc<StoreReplicas>) -> (PeerAddress, watch::Sender<bool>) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let address = PeerAddress { incarnation: Some(Incarnation::new(1)), ..PeerAddress::of_any_run(&address) };
    let (stop, stopped) = watch::channel(false);
    let service = FetchedSource(Arc::new(StoreSource::new(
        Arc::clone(replicas),
        Arc::new(TransferThrottle::new(None)),
    )));
    runtime.spawn(millrace_peer::serve(listener, None, Arc::new(service), stopped));
    (address, stop)
}

impl ModelledNode {
    fn new(runtime: &Runtime) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let replicas = open(&directory);
        let (address, serves) = serve(runtime, &replicas);
        ModelledNode { directory, replicas, model: ModelStorage::default(), address, _serves: serves }
    }

    /// Ends the process without notice to its store, and starts it again.
    fn restart(self, runtime: &Runtime) -> Self {
        let ModelledNode { directory, replicas, model, address: _, _serves: serves } = self;
        std::mem::drop(serves);
        let mut left = Some(replicas);
        // A handler of a fetch releases it a moment later.
        while let Some(replicas) = left.take() {
            left = match Arc::try_unwrap(replicas) {
                Ok(_) => None,
                Err(shared) => {
                    std::thread::sleep(Duration::from_millis(5));
                    Some(shared)
                }
            };
        }
        let replicas = open(&directory);
        let (address, serves) = serve(runtime, &replicas);
        ModelledNode { directory, replicas, model, address, _serves: serves }
    }

    fn pull(&self, bucket: BucketId, source: &ModelledNode, pull: PullMode) {
        let (sender, parts) = mpsc::channel();
        let wanted = WantedReplica { bucket, from: NodeKey(0), peer: source.address.clone(), pull };
        let tell = move |outcome: Result<Option<FetchedPart>, _>| {
            // The receiver is gone if the caller has failed.
            let _ = sender.send(outcome);
        };
        let fetches =
            NodeFetches::new(Arc::clone(&self.replicas), Arc::new(TransferThrottle::new(None)), None);
        let fetch = fetches.begin(wanted, Arc::new(tell));
        while let Some(part) = parts.recv().expect("it tells how it ends").expect("it can be fetched") {
            part.install(self.replicas.store()).expect("it can be taken in");
            fetch.fetch_next();
        }
        let known = self.model.listing(bucket, None).unwrap_or_default();
        let rows = source.model.listing(bucket, Some(&known)).unwrap_or_default();
        self.model.install(bucket, &rows).expect("there is a replica");
    }

    fn apply(&self, rows: &[ReplicatedRow]) {
        let rows: Vec<&ReplicatedRow> = rows.iter().collect();
        let outcomes = self.replicas.apply(&rows);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        self.model.apply(&rows);
    }

    fn info(&self, bucket: BucketId) -> (Option<ReportedReplica>, Option<ReportedReplica>) {
        let all = Timestamp(0);
        let found = self.replicas.replica(bucket, all).expect("it can be read");
        (found, self.model.replica(bucket, all).expect("a model can be read"))
    }
}

/// Pseudo-random numbers, the same for the same seed.
struct TestRandom(u64);

impl TestRandom {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn bucket_of(group: u64) -> BucketId {
    BucketId::new(BITS, group)
}

fn id(group: u64, name: u64) -> DocumentId {
    DocumentId::new("test", "note", &DocumentGroup::Number(group), &name.to_string())
        .expect("all its parts are there")
}

/// Version of a document with this number: the same from every source.
fn version_of(start: u64, group: u64, name: u64, number: u64) -> ReplicatedRow {
    let (id, timestamp) = (id(group, name), Timestamp(start + number));
    let fields = vec![("number".into(), DocumentValue::Long(number as i64))];
    let version = match number % 4 {
        0 => DocumentVersion::removal(id, timestamp),
        _ => DocumentVersion::put(&Document { id, fields }, timestamp),
    };
    ReplicatedRow { bucket: bucket_of(group), content: Arc::new(RowContent::Version(version)), origin: None }
}

fn of_row(row: &ReplicatedRow) -> Location {
    match &*row.content {
        RowContent::Version(version) => version.id.location(),
        RowContent::Drop(_) => Location::new(row.bucket.bits()),
    }
}

fn drop_of(start: u64, group: u64, number: u64) -> ReplicatedRow {
    let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(group) };
    let drop = DroppedScope { scope, timestamp: Timestamp(start + number) };
    ReplicatedRow { bucket: bucket_of(group), content: Arc::new(RowContent::Drop(drop)), origin: None }
}

/// Time one hour ago, so that nothing is forgotten.
fn start() -> u64 {
    let now = millrace_env::unix_time();
    now.as_micros() as u64 - 3_600_000_000
}

/// Equality of replicas, as far as their reports show it.
fn equal(infos: &[Option<ReportedReplica>]) -> Vec<bool> {
    let contents: Vec<Option<ReplicaContent>> =
        infos.iter().map(|info| info.map(|info| info.content)).collect();
    contents.iter().flat_map(|one| contents.iter().map(move |other| one == other)).collect()
}

/// A state in which these groups are divided; its other parts are not used.
fn divided(spread: DividedGroups) -> ClusterState {
    let distribution =
        ReplicaDistribution { bits: BITS, redundancy: 1, layout: NodeHierarchy::Nodes(Vec::new()) };
    let state = ClusterState::new(ClusterVersion::new(1), BTreeMap::new(), distribution);
    state.expect("no node has to be placed").with_divided_groups(spread)
}

#[track_caller]
fn check_same(nodes: &[ModelledNode], state: &ClusterState, what: &str) {
    for bucket in state.buckets() {
        let (found, expected): (Vec<_>, Vec<_>) = nodes.iter().map(|node| node.info(bucket)).unzip();
        let shown = |infos: &[Option<ReportedReplica>]| -> Vec<_> {
            infos.iter().map(|info| info.map(|info| (info.content.documents, info.complete))).collect()
        };
        assert_eq!(shown(&found), shown(&expected), "{what}: {bucket}");
        assert_eq!(equal(&found), equal(&expected), "{what}: {bucket}: {found:?} {expected:?}");
    }
    for node in nodes {
        for (group, name) in (0..GROUPS).flat_map(|group| (0..3).map(move |name| (group, name))) {
            let id = id(group, name);
            let bucket = state.bucket(id.location());
            let there = node.model.exists(bucket);
            assert_eq!(node.replicas.exists(bucket), there, "{what}: {bucket}");
            if there {
                let found = node.replicas.read(bucket, &id).expect("it can be read");
                let expected = node.model.read(bucket, &id).expect("a model can be read");
                let shown =
                    |version: Option<DocumentVersion>| version.filter(|version| version.body.is_some());
                assert_eq!(shown(found), shown(expected), "{what}: {id}");
            }
        }
    }
}

fn live(seed: u64, runtime: &Runtime) {
    let (mut random, start) = (TestRandom(seed), start());
    let mut nodes: Vec<ModelledNode> = (0..3).map(|_| ModelledNode::new(runtime)).collect();
    let mut state = divided(DividedGroups::default());
    for step in 0..120 {
        let place = random.below(3) as usize;
        let group = random.below(GROUPS);
        let name = random.below(3);
        let bucket = state.bucket(id(group, name).location());
        let node = &nodes[place];
        let there = node.model.exists(bucket);
        let what = match random.below(21) {
            0..3 => {
                let origin =
                    if random.below(2) == 0 { ReplicaOrigin::Complete } else { ReplicaOrigin::Incomplete };
                node.replicas.create(bucket, origin).expect("it can be made");
                node.model.create(bucket, origin).expect("a model can be made");
                format!("{origin:?}")
            }
            3..10 if there => {
                let rows: Vec<ReplicatedRow> = (0..1 + random.below(4))
                    .map(|_| version_of(start, group, random.below(3), 1 + random.below(200)))
                    .filter(|row| bucket.contains(of_row(row)))
                    .map(|row| ReplicatedRow { bucket, ..row })
                    .collect();
                node.apply(&rows);
                format!("{rows:?}")
            }
            10..12 if there => {
                let row = ReplicatedRow { bucket, ..drop_of(start, group, 1 + random.below(200)) };
                node.apply(std::slice::from_ref(&row));
                format!("{row:?}")
            }
            12..16 if there => {
                let other = &nodes[(place + 1 + random.below(2) as usize) % 3];
                let pull = if random.below(2) == 0 { PullMode::Whole } else { PullMode::Missing };
                if other.model.exists(bucket) {
                    node.pull(bucket, other, pull);
                }
                format!("{pull:?} of {bucket} to {place}")
            }
            16 if there => {
                node.replicas.complete(bucket).expect("it is there");
                node.model.complete(bucket).expect("it is there");
                "complete".to_owned()
            }
            17 if there => {
                let (found, expected) = node.info(bucket);
                let wrong = u64::from(random.below(3) == 0);
                let content = |info: Option<ReportedReplica>| {
                    let content = info.map(|info| info.content).unwrap_or_default();
                    ReplicaContent { checksum: content.checksum ^ wrong, ..content }
                };
                let deleted = node.replicas.delete(bucket, content(found));
                assert_eq!(deleted, node.model.delete(bucket, content(expected)), "{bucket}");
                format!("delete {bucket}: {deleted:?}")
            }
            18 => {
                node.replicas.store().seal().expect("it can be sealed");
                if random.below(2) == 0 {
                    node.replicas.store().maintain().expect("it can be merged");
                }
                "seal".to_owned()
            }
            20 => {
                let spread = state.spread().with([(group as u32, 33 + random.below(2) as u8).into()]);
                state = divided(spread);
                for node in &nodes {
                    node.replicas.divide(&state).expect("it can be divided");
                    node.model.divide(&state).expect("a model can be divided");
                }
                format!("{:?}", state.spread())
            }
            19 => {
                let node = nodes.remove(place).restart(runtime);
                nodes.insert(place, node);
                "restart".to_owned()
            }
            _ => continue,
        };
        check_same(&nodes, &state, &format!("seed {seed}, step {step}, node {place}: {what}"));
    }
}

#[test]
fn replicas_in_the_store_are_as_the_simulation_takes_them_to_be() {
    let runtime = Runtime::new().expect("a runtime");
    for seed in 1..=6 {
        live(seed, &runtime);
    }
}

#[test]
fn a_replica_made_later_hears_of_what_was_dropped_before() {
    let runtime = Runtime::new().expect("a runtime");
    let (start, bucket) = (start(), bucket_of(1));
    for pull in [PullMode::Whole, PullMode::Missing] {
        let nodes: Vec<ModelledNode> = (0..2).map(|_| ModelledNode::new(&runtime)).collect();
        nodes
            .iter()
            .for_each(|node| node.replicas.create(bucket, ReplicaOrigin::Complete).expect("it can be made"));
        let drop = [drop_of(start, 1, 100)];
        nodes[0].replicas.apply(&drop.iter().collect::<Vec<_>>());
        let content = |node: &ModelledNode| node.info(bucket).0.map(|info| info.content);
        assert_ne!(content(&nodes[0]), content(&nodes[1]), "one knows of a drop, and the other does not");
        nodes[1].model.create(bucket, ReplicaOrigin::Complete).expect("a model can be made");
        nodes[1].pull(bucket, &nodes[0], pull);
        assert_eq!(content(&nodes[0]), content(&nodes[1]));
        // An earlier write arrives late.
        let late = [version_of(start, 1, 7, 51)];
        nodes[1].replicas.apply(&late.iter().collect::<Vec<_>>());
        assert_eq!(content(&nodes[0]), content(&nodes[1]), "{pull:?}");
    }
}

/// A job that has ended may leave a request for a bucket beside that of the job after it.
#[test]
fn a_bucket_that_is_requested_twice_arrives_twice() {
    let runtime = Runtime::new().expect("a runtime");
    let (start, bucket) = (start(), bucket_of(1));
    let nodes: Vec<ModelledNode> = (0..2).map(|_| ModelledNode::new(&runtime)).collect();
    for node in &nodes {
        node.replicas.create(bucket, ReplicaOrigin::Complete).expect("it can be made");
    }
    nodes[0].replicas.apply(&[&version_of(start, 1, 7, 51)]);
    let fetches =
        NodeFetches::new(Arc::clone(&nodes[1].replicas), Arc::new(TransferThrottle::new(None)), None);
    let running: Vec<_> = (0..2)
        .map(|_| {
            let (sender, parts) = mpsc::channel();
            let wanted = WantedReplica {
                bucket,
                from: NodeKey(0),
                peer: nodes[0].address.clone(),
                pull: PullMode::Whole,
            };
            // The receiver is gone if the test has failed.
            let tell = move |outcome: Result<Option<FetchedPart>, _>| drop(sender.send(outcome));
            (fetches.begin(wanted, Arc::new(tell)), parts)
        })
        .collect();
    for (_, parts) in &running {
        let part = parts.recv().expect("it tells how it ends").expect("it can be fetched");
        assert!(matches!(part, Some(FetchedPart::Whole(whole)) if !whole.files.is_empty()));
    }
}

/// Several replicas have no document in common, each has more than goes in one part of a transfer, and all of
/// them go.
#[test]
fn disjoint_replicas_that_are_given_up_lose_no_document() {
    const DOCUMENTS: u64 = 700;
    let runtime = Runtime::new().expect("a runtime");
    let (start, bucket) = (start(), bucket_of(1));
    for first in [PullMode::Whole, PullMode::Missing] {
        let mut nodes: Vec<ModelledNode> = (0..4).map(|_| ModelledNode::new(&runtime)).collect();
        for (place, node) in nodes.iter().enumerate() {
            let origin = if place == 0 { ReplicaOrigin::Incomplete } else { ReplicaOrigin::Complete };
            node.replicas.create(bucket, origin).expect("it can be made");
            node.model.create(bucket, origin).expect("a model can be made");
            let of_it = |name: u64| version_of(start, 1, place as u64 * DOCUMENTS + name, 4 * name + 1);
            let rows: Vec<ReplicatedRow> = (0..DOCUMENTS).map(of_it).collect();
            if place > 0 {
                node.apply(&rows);
            }
        }
        // In the order of an owner: through the replica with the most data, until all are equal.
        nodes[0].pull(bucket, &nodes[1], first);
        for from in [2, 3] {
            nodes[0].pull(bucket, &nodes[from], PullMode::Missing);
        }
        for to in [1, 2, 3] {
            nodes[to].pull(bucket, &nodes[0], PullMode::Missing);
        }
        check_same(&nodes, &divided(DividedGroups::default()), "all have all");
        let whole = nodes[0].info(bucket).0.map(|info| info.content).unwrap_or_default();
        assert_eq!(whole.documents, 3 * DOCUMENTS);
        for node in &nodes[1..] {
            node.replicas.delete(bucket, whole).expect("it is equal");
            assert!(!node.replicas.exists(bucket));
        }
        let left = nodes.remove(0).restart(&runtime);
        for name in DOCUMENTS..4 * DOCUMENTS {
            let found = left.replicas.read(bucket, &id(1, name)).expect("it can be read");
            assert!(found.is_some_and(|version| version.body.is_some()), "{first:?}: {name} is lost");
        }
    }
}

/// A node that is a cluster by itself.
async fn alone(directory: &TempDir, listener: TcpListener) -> (ClusterMembership, Store, Arc<ContentNode>) {
    let coordination = EmbeddedCoordination::open(&directory.path().join("coordination")).expect("it opens");
    let address = listener.local_addr().expect("it is bound").to_string();
    let settings = Settings::new("n", address, directory.path().join("membership"));
    let membership = ClusterMembership::join(Arc::new(coordination), settings).await.expect("it joins");
    membership
        .publish(PackagePublication::unconditional(b"package", &ClusterConfiguration::default()))
        .await
        .expect("it is published");
    let options = StoreOptions { disk_reserve: 0, ..StoreOptions::new(directory.path().join("store")) };
    let store = Store::open(options, Arc::new(TestNumbers)).expect("the store opens");
    let port = PeerPort { listener, trust: None, forwarded: Box::new(|_| {}) };
    let pace = TransferPace { cap: None, slowest: Box::new(Vec::new) };
    let node = ContentNode::start(store.clone(), membership.clone(), port, pace).await.expect("it starts");
    (membership, store, node)
}

#[test]
fn a_new_owner_ends_what_the_one_before_began_under_its_timestamp() {
    let runtime = Runtime::new().expect("a runtime");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (membership, store, node) = runtime.block_on(alone(&directory, listener));
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    let start = start();
    let own =
        PeerAddress { incarnation: Some(membership.incarnation()), ..PeerAddress::of_any_run(&address) };
    let ask = |peer: &PeerAddress, version: ClusterVersion| {
        let row = version_of(start, 1, 2, 3);
        let bucket =
            membership.states().borrow().as_ref().expect("there is a state").bucket(id(1, 2).location());
        let unfinished = UnfinishedRow { bucket, content: row.content, base: None };
        let fence = RequestFence { from: NodeKey(9), version, number: 0, void_below: 0 };
        let (sender, answer) = mpsc::channel();
        peers.send(peer, fence, NodeRequest::Finish(unfinished), move |reply| {
            // The receiver is gone if the caller has failed.
            let _ = sender.send(reply);
        });
        answer.recv().expect("it is answered or lost").map(|reply| reply.response)
    };
    let version = runtime.block_on(async {
        let mut states = membership.states();
        let state = states.wait_for(Option::is_some).await.expect("the membership lives");
        state.as_ref().map_or(ClusterVersion::NONE, |state| state.version())
    });
    assert_eq!(
        ask(&own, version.next()),
        Some(NodeResponse::Refused(FenceRefusal::Busy)),
        "it has to fetch that state first"
    );
    let other = PeerAddress { incarnation: Some(Incarnation::NEVER), ..own.clone() };
    assert_eq!(ask(&other, version), None, "it is for another process");
    assert_eq!(store.get(&id(1, 2)).expect("it can be read"), None);
    assert_eq!(ask(&own, version), Some(NodeResponse::Finished(1)));
    let (_, timestamp) = store.get(&id(1, 2)).expect("it can be read").expect("it is there");
    assert_eq!(timestamp, Timestamp(start + 3));
    node.stop();
}
