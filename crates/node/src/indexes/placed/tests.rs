//! Nodes with stores and copies in one process, without a network, and the planner as the leader: copies have
//! what the documents say, at once, while nodes are cut off, start again, join, and hand copies over.

mod erasure;
mod verification;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use millrace_bucket::DocumentSortKey;
use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, NodeEntry, NodeHierarchy, NodeKey, NodeState,
    ReplicaDistribution,
};
use millrace_document::{
    Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, DropScope, DroppedScope, Timestamp,
};
use millrace_env::{Disk, RealDisk};
use millrace_index_feed::{FollowRequest, FollowSession, OwnerReport, ReportStart};
use millrace_index_placement::{
    IndexNode, PlacedCopy, PlacementCommand, PlacementSituation, PlacementTable, SliceId, WantedIndex, plan,
};
use millrace_indexing::DocumentColumns;
use millrace_schema::{Application, PackageFindings};
use millrace_store::{Store, StoreOptions};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::cluster::{OwnedReplicas, PlacedCluster};
use super::message::{CopyScan, CopyScanned, PlacedAnswer, PlacedQuestion};
use super::reports::PlacementReporter;
use super::service::{KnownDefinitions, PlacedService, PlacedServiceParts};
use super::source::PlacedSource;
use crate::Error;
use crate::cluster::NodeAnswer;
use crate::indexes::definition::definitions;
use crate::indexes::{FollowerSwitch, IndexDefinition};

pub(super) const SERVICES: &str = "<services version='1.0'><content id='c' version='1.0'>
  <documents><document type='note' mode='streaming'/></documents>
  <index-service placed='true' copies='2' slices='4'>
    <index name='by-owner' document='note'><key field='owner'/></index>
  </index-service>
</content></services>";

const NOTE: &str = "schema note { document note {
  field owner type string { indexing: summary | attribute }
  field due type int { indexing: summary | attribute }
} }";

/// Number of bits of buckets.
const BITS: u8 = 4;

/// Nodes with documents.
const DOCUMENT_NODES: u16 = 3;

/// Time after which a test has failed.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn application() -> Application {
    application_of(SERVICES)
}

pub(super) fn application_of(services: &str) -> Application {
    let files = [("services.xml", services), ("schemas/note.sd", NOTE)];
    let files: BTreeMap<String, Vec<u8>> =
        files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
    Application::from_files(files).expect("an application")
}

fn defined() -> Vec<Arc<IndexDefinition>> {
    definitions(&application(), &mut PackageFindings::default())
}

/// Indexes as a node publishes them for the leader.
fn wanted() -> Vec<WantedIndex> {
    let reporter = PlacementReporter::default();
    reporter.publish_wanted(1, &defined());
    let wanted = reporter.wanted().borrow().indexes.clone();
    assert_eq!(wanted.len(), 1, "the index is declared as placed");
    wanted
}

/// Kinds of questions that are counted.
#[derive(Default)]
struct QuestionCounts {
    parcels: AtomicUsize,
    reads: AtomicUsize,
}

/// The cluster of a test.
struct PlacedTestCluster {
    disk: Arc<dyn Disk>,
    state: Mutex<Arc<ClusterState>>,
    table: watch::Sender<Option<Arc<PlacementTable>>>,
    nodes: Mutex<BTreeMap<NodeKey, Arc<TestNode>>>,
    /// Nodes that no other reaches.
    cut_off: Mutex<BTreeSet<NodeKey>>,
    requested: QuestionCounts,
}

struct TestNode {
    key: NodeKey,
    directory: TempDir,
    store: Store,
    service: Mutex<Arc<PlacedService>>,
}

/// The cluster as one node sees it.
struct PlacedTestMember {
    own: NodeKey,
    cluster: Weak<PlacedTestCluster>,
}

impl PlacedCluster for PlacedTestMember {
    fn own(&self) -> NodeKey {
        self.own
    }

    fn state(&self) -> Option<Arc<ClusterState>> {
        Some(Arc::clone(&self.cluster.upgrade()?.state.lock()))
    }

    fn owned_replicas(&self, start: ReportStart) -> Option<OwnedReplicas> {
        let state = self.state()?;
        let owned = state.buckets().filter(|bucket| state.owner(*bucket) == Some(self.own));
        let owned: Vec<_> = owned.map(|bucket| (bucket, Some(true))).collect();
        let report = OwnerReport::new(start, &BTreeMap::new(), owned)?;
        Some(OwnedReplicas { state, report })
    }

    fn confirms(&self, version: u64) -> bool {
        self.state().is_some_and(|state| state.version().number() == version)
    }

    fn ask(&self, node: NodeKey, question: PlacedQuestion) -> NodeAnswer<'static, PlacedAnswer> {
        let (own, cluster) = (self.own, self.cluster.clone());
        Box::pin(async move {
            let gone = || Error::Unsettled("the node cannot be reached".to_owned());
            let cluster = cluster.upgrade().ok_or_else(gone)?;
            let is_cut_off = |key: &NodeKey| cluster.cut_off.lock().contains(key);
            if own != node && (is_cut_off(&own) || is_cut_off(&node)) {
                return Err(gone());
            }
            match &question {
                PlacedQuestion::Parcel { .. } => cluster.requested.parcels.fetch_add(1, Ordering::SeqCst),
                PlacedQuestion::Read { reads, .. } => {
                    cluster.requested.reads.fetch_add(reads.len(), Ordering::SeqCst)
                }
                _ => 0,
            };
            let requested = cluster.nodes.lock().get(&node).cloned().ok_or_else(gone)?;
            let service = Arc::clone(&requested.service.lock());
            service.answer(question).await
        })
    }
}

pub(super) fn state(version: u64, nodes: &[(u16, NodeState)]) -> Arc<ClusterState> {
    let entry = |(key, state): &(u16, NodeState)| {
        let entry = NodeEntry {
            name: format!("n{key}"),
            address: format!("localhost:{key}"),
            state: *state,
            capacity: 1.0,
            incarnation: Incarnation::new(1),
            lease_ended: false,
        };
        (NodeKey(*key), entry)
    };
    let entries: BTreeMap<NodeKey, NodeEntry> = nodes.iter().map(entry).collect();
    // Nodes after these have no documents.
    let layout = NodeHierarchy::Nodes((0..DOCUMENT_NODES).map(NodeKey).collect());
    let distribution = ReplicaDistribution { bits: BITS, redundancy: DOCUMENT_NODES, layout };
    Arc::new(ClusterState::new(ClusterVersion::new(version), entries, distribution).expect("a state"))
}

pub(super) fn up(count: u16) -> Vec<(u16, NodeState)> {
    (0..count).map(|key| (key, NodeState::Up)).collect()
}

impl TestNode {
    fn service(&self) -> Arc<PlacedService> {
        Arc::clone(&self.service.lock())
    }

    fn start(
        cluster: &Arc<PlacedTestCluster>,
        key: NodeKey,
        root: &TempDir,
        store: &Store,
    ) -> Arc<PlacedService> {
        let follower = FollowerSwitch::new(store.clone());
        let source = Arc::new(PlacedSource::new(store));
        let passed = source.pass(&defined());
        assert!(passed.is_any && passed.is_more);
        follower.set_placed(Some(Arc::clone(&source) as Arc<_>));
        source.adopt(&defined(), passed);
        let known = Arc::<KnownDefinitions>::default();
        known.set(&defined());
        let member = PlacedTestMember { own: key, cluster: Arc::downgrade(cluster) };
        PlacedService::start(PlacedServiceParts {
            cluster: Arc::new(member),
            source,
            reporter: Arc::default(),
            table: cluster.table.subscribe(),
            definitions: known,
            erasure: Arc::default(),
            root: root.path().join("placed"),
            disk: Arc::clone(&cluster.disk),
            runtime: Handle::current(),
        })
    }
}

impl PlacedTestCluster {
    fn new(nodes: u16) -> Arc<Self> {
        PlacedTestCluster::with_disk(nodes, Arc::new(RealDisk))
    }

    /// The nodes have their copies on this disk.
    fn with_disk(nodes: u16, disk: Arc<dyn Disk>) -> Arc<Self> {
        let cluster = Arc::new(PlacedTestCluster {
            disk,
            state: Mutex::new(state(1, &up(nodes))),
            table: watch::Sender::new(Some(Arc::default())),
            nodes: Mutex::default(),
            cut_off: Mutex::default(),
            requested: QuestionCounts::default(),
        });
        (0..nodes).for_each(|key| cluster.add(NodeKey(key)));
        cluster
    }

    /// Starts a node with an empty store.
    fn add(self: &Arc<Self>, key: NodeKey) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = StoreOptions::new(directory.path());
        options.disk_reserve = 0;
        let layout = Arc::new(DocumentColumns::new(&application()));
        let store = Store::open(options, layout).expect("a store");
        let service = Mutex::new(TestNode::start(self, key, &directory, &store));
        let node = TestNode { key, directory, store, service };
        self.nodes.lock().insert(key, Arc::new(node));
    }

    /// Ends the part of a node with copies, and starts it again.
    async fn restart(self: &Arc<Self>, key: NodeKey) {
        let node = Arc::clone(&self.nodes.lock()[&key]);
        let former = node.service();
        former.stop();
        // Work in progress ends before the files are opened again: it holds the service.
        wait("the end of its work", async || Arc::strong_count(&former) <= 2).await;
        *node.service.lock() = TestNode::start(self, key, &node.directory, &node.store);
    }

    fn all(&self) -> Vec<Arc<TestNode>> {
        self.nodes.lock().values().cloned().collect()
    }

    fn set_state(&self, state: Arc<ClusterState>) {
        *self.state.lock() = state;
    }

    fn table(&self) -> Arc<PlacementTable> {
        self.table.borrow().clone().unwrap_or_default()
    }

    /// One turn of the leader.
    fn lead(&self) {
        self.lead_with(&[]);
    }

    /// One turn of the leader, with commands of operators.
    fn lead_with(&self, commands: &[PlacementCommand]) {
        let state = Arc::clone(&self.state.lock());
        let node = |node: &Arc<TestNode>| IndexNode {
            key: node.key,
            name: format!("n{}", node.key).into(),
            state: state.node_state(node.key),
            has_role: true,
            group: Vec::new(),
            reports: node.service().copies.lock().reports().of_node(),
        };
        let nodes: Vec<IndexNode> = self.all().iter().map(node).collect();
        let wanted = wanted();
        let table = self.table();
        let situation = PlacementSituation { nodes: &nodes, wanted: &wanted, commands };
        let planned = plan(&table, &situation);
        if planned.table != *table {
            self.table.send_replace(Some(Arc::new(planned.table)));
        }
    }

    /// Leads until all copies are ready, and enough of them.
    async fn settle(&self, nodes_with_copies: usize) {
        let began = Instant::now();
        loop {
            self.lead();
            let table = self.table();
            let copies: Vec<PlacedCopy> = self.copies().into_iter().map(|(_, copy)| copy).collect();
            let nodes: BTreeSet<NodeKey> = copies.iter().map(|copy| copy.node).collect();
            let ready = copies.iter().filter(|copy| copy.is_ready()).count();
            if ready == 8
                && copies.len() == 8
                && nodes.len() == nodes_with_copies
                && table.rebalance().is_none()
            {
                return;
            }
            assert!(
                began.elapsed() < STEP_TIMEOUT,
                "not settled: {}",
                String::from_utf8_lossy(&table.to_json())
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// All copies of the table.
    fn copies(&self) -> Vec<(SliceId, PlacedCopy)> {
        let table = self.table();
        let keys: Vec<NodeKey> = self.all().iter().map(|node| node.key).collect();
        let of_node = |key: &NodeKey| {
            table.of_node(*key).map(|(slice, copy)| (slice, copy.clone())).collect::<Vec<_>>()
        };
        keys.iter().flat_map(of_node).collect()
    }

    /// Writes versions to all replicas, as the cluster does before it acknowledges.
    fn write(&self, versions: &[(&str, Option<&str>)]) {
        let clock = self.all()[0].store.next_timestamp().0;
        let newest = self.all().iter().map(|node| node.store.newest().0).max().unwrap_or(0);
        let time = clock.max(newest);
        let versions: Vec<DocumentVersion> = (1..)
            .zip(versions)
            .map(|(number, (id, owner))| {
                let (id, at) = (DocumentId::parse(id).expect("an id"), Timestamp(time + number));
                match owner {
                    Some(owner) => {
                        let fields = vec![("owner".into(), DocumentValue::String((*owner).to_owned()))];
                        DocumentVersion::put(&Document { id, fields }, at)
                    }
                    None => DocumentVersion::removal(id, at),
                }
            })
            .collect();
        for node in self.all().iter().filter(|node| node.key.0 < DOCUMENT_NODES) {
            let (sender, answer) = mpsc::channel();
            node.store.apply(versions.clone(), move |outcome| drop(sender.send(outcome)));
            answer.recv().expect("it is answered").expect("it is acknowledged");
        }
    }

    fn drop_group(&self, group: u64) {
        let newest = self.all().iter().map(|node| node.store.next_timestamp().0).max().unwrap_or(0);
        let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(group) };
        let dropped = DroppedScope { scope, timestamp: Timestamp(newest) };
        for node in self.all().iter().filter(|node| node.key.0 < DOCUMENT_NODES) {
            node.store.apply_drop(millrace_bucket::BucketId::ROOT, &dropped).expect("dropped");
        }
    }

    /// Ids of the documents of all ready copies but those on `without`, which must agree, by a `now` scan.
    async fn found(&self, without: Option<NodeKey>) -> BTreeMap<String, String> {
        let mut of_slices: BTreeMap<SliceId, BTreeMap<String, String>> = BTreeMap::new();
        for (slice, copy) in self.copies() {
            if !copy.is_ready() || Some(copy.node) == without {
                continue;
            }
            let node = Arc::clone(&self.nodes.lock()[&copy.node]);
            let scan = whole_scan(slice, &copy, Some(60_000));
            let scanned = node.service().scan(scan).await.expect("the copy is fresh");
            assert!(scanned.missing.is_empty(), "the copy is fresh: {:?}", scanned.missing);
            let entries = entries(&scanned);
            if let Some(other) = of_slices.insert(slice, entries.clone()) {
                assert_eq!(other, entries, "copies of {slice} differ");
            }
        }
        assert_eq!(of_slices.len(), 4, "each slice has a ready copy");
        of_slices.into_values().flatten().collect()
    }

    async fn check(&self, expected: &BTreeMap<String, String>, when: &str) {
        assert_eq!(self.found(None).await, *expected, "{when}");
        let mut documents = 0;
        for node in self.all().iter().filter(|node| node.key.0 < DOCUMENT_NODES) {
            let compared = node.service().verify("c", "by-owner").await.expect("copies are compared");
            assert_eq!(compared.differences, 0, "{when}: {compared:?}");
            documents += compared.documents;
        }
        assert_eq!(documents, expected.len() as u64, "{when}");
    }
}

/// Documents with their keys.
fn entries(scanned: &CopyScanned) -> BTreeMap<String, String> {
    let entry = |(key, document, _): &(Vec<u8>, Vec<u8>, u64)| {
        let id = crate::indexes::service::document_id(document).expect("a key of a document");
        assert_eq!(DocumentSortKey::new(&id).as_bytes(), document);
        (id.as_str().to_owned(), String::from_utf8_lossy(key).chars().filter(|c| c.is_alphabetic()).collect())
    };
    scanned.entries.iter().map(entry).collect()
}

/// Number of groups in the documents of [`written`].
const GROUPS: u64 = 20;

/// Writes some documents, and returns what the index has.
fn written(cluster: &PlacedTestCluster) -> BTreeMap<String, String> {
    let ids: Vec<String> = (0..GROUPS)
        .flat_map(|group| (0..5).map(move |number| format!("id:x:note:n={group}:{number}")))
        .chain((0..7).map(|number| format!("id:x:note::{number}")))
        .collect();
    let versions: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (&**id, Some("ann"))).collect();
    cluster.write(&versions);
    ids.into_iter().map(|id| (id, "ann".to_owned())).collect()
}

/// A cluster whose nodes with documents have copies of [`written`] ones, and what the index has.
async fn settled() -> (Arc<PlacedTestCluster>, BTreeMap<String, String>) {
    let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
    let expected = written(&cluster);
    cluster.settle(DOCUMENT_NODES.into()).await;
    (cluster, expected)
}

/// A copy, and the service of its node.
fn a_copy(cluster: &PlacedTestCluster) -> (SliceId, PlacedCopy, Arc<PlacedService>) {
    let (slice, copy) = cluster.copies().swap_remove(0);
    let service = Arc::clone(&cluster.nodes.lock()[&copy.node]).service();
    (slice, copy, service)
}

/// A scan of a whole copy.
fn whole_scan(slice: SliceId, copy: &PlacedCopy, timeout_ms: Option<u64>) -> CopyScan {
    CopyScan {
        slice,
        copy: copy.id,
        ranges: vec![(Vec::new(), None)],
        from: None,
        limit: 10_000,
        count: false,
        timeout_ms,
    }
}

/// Waits until something holds.
async fn wait(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < STEP_TIMEOUT, "it does not come: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The runtime of the tests: nodes run beside the test.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn indexes_with_the_same_keys_are_known_by_all_of_their_names() {
    let another = "<index name='again' document='note'><key field='owner'/></index>";
    let services = SERVICES.replace("</index-service>", &format!("{another}</index-service>"));
    let declared = definitions(&application_of(&services), &mut PackageFindings::default());
    assert_eq!(declared[0].hash, declared[1].hash, "the name is not a part of the entries");
    let known = KnownDefinitions::default();
    let names = || known.all().iter().map(|definition| definition.name().to_owned()).collect::<Vec<_>>();
    known.set(&declared);
    assert_eq!(names(), ["by-owner", "again"], "in the order of their declaration");
    assert!(known.get(declared[0].hash).is_some());
    known.set(&defined());
    assert_eq!(names(), ["by-owner"]);
}

#[test]
fn copies_are_built_and_have_every_write_at_once() {
    run(async {
        let (cluster, mut expected) = settled().await;
        cluster.check(&expected, "built").await;
        for number in 0..20 {
            let (added, changed) = (format!("id:x:note:n={number}:new"), format!("id:x:note:n={number}:1"));
            let removed = format!("id:x:note:n={number}:2");
            cluster.write(&[(&added, Some("bob")), (&changed, Some("carl")), (&removed, None)]);
            expected.insert(added, "bob".to_owned());
            expected.insert(changed, "carl".to_owned());
            expected.remove(&removed);
            cluster.check(&expected, &format!("after write {number}")).await;
        }
        cluster.drop_group(3);
        expected.retain(|id, _| !id.contains(":n=3:"));
        cluster.check(&expected, "after a drop").await;
    });
}

#[test]
fn a_node_without_copies_gets_them_as_files() {
    run(async {
        let (cluster, mut expected) = settled().await;
        let reads = cluster.requested.reads.load(Ordering::SeqCst);
        assert!(reads > 0, "copies were built from documents");
        cluster.add(NodeKey(DOCUMENT_NODES));
        cluster.set_state(state(2, &up(DOCUMENT_NODES + 1)));
        cluster.settle(4).await;
        assert!(cluster.requested.parcels.load(Ordering::SeqCst) > 0, "copies came as files");
        cluster.write(&[("id:x:note:n=1:late", Some("bob"))]);
        expected.insert("id:x:note:n=1:late".to_owned(), "bob".to_owned());
        cluster.check(&expected, "after the move").await;
    });
}

#[test]
fn copies_that_were_cut_off_or_started_again_catch_up() {
    run(async {
        let (cluster, mut expected) = settled().await;
        cluster.cut_off.lock().insert(NodeKey(1));
        cluster.write(&[("id:x:note:n=1:cut", Some("bob")), ("id:x:note:n=2:1", None)]);
        expected.insert("id:x:note:n=1:cut".to_owned(), "bob".to_owned());
        expected.remove("id:x:note:n=2:1");
        cluster.cut_off.lock().clear();
        cluster.check(&expected, "after a cut").await;
        cluster.restart(NodeKey(2)).await;
        cluster.write(&[("id:x:note:n=4:restarted", Some("bob")), ("id:x:note:n=4:1", None)]);
        expected.insert("id:x:note:n=4:restarted".to_owned(), "bob".to_owned());
        expected.remove("id:x:note:n=4:1");
        // The node opens its copies again.
        let service = Arc::clone(&cluster.nodes.lock()[&NodeKey(2)]).service();
        wait("the copies", async || {
            let copies = service.copies.lock().reports().copies;
            !copies.is_empty() && copies.values().all(|report| report.done >= 1.0)
        })
        .await;
        cluster.check(&expected, "after a restart").await;
    });
}

#[test]
fn other_owners_are_followed_when_the_state_changes() {
    run(async {
        let (cluster, mut expected) = settled().await;
        let states = [(0, NodeState::Up), (1, NodeState::Maintenance), (2, NodeState::Up)];
        cluster.set_state(state(2, &states));
        cluster.write(&[("id:x:note:n=1:moved", Some("bob")), ("id:x:note:n=2:1", None)]);
        expected.insert("id:x:note:n=1:moved".to_owned(), "bob".to_owned());
        expected.remove("id:x:note:n=2:1");
        assert_eq!(cluster.found(Some(NodeKey(1))).await, expected, "one node is in maintenance");
        cluster.set_state(state(3, &up(DOCUMENT_NODES)));
        cluster.write(&[("id:x:note:n=5:back", Some("bob"))]);
        expected.insert("id:x:note:n=5:back".to_owned(), "bob".to_owned());
        cluster.check(&expected, "the node is back").await;
    });
}

#[test]
fn a_node_that_may_have_been_away_has_its_buckets_read_again() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let service = Arc::clone(&cluster.nodes.lock()[&NodeKey(0)]).service();
        let look = || {
            let position = service.source.position(&*service.cluster, NodeKey(1));
            position.expect("the states of its replicas are known");
            service.source.disorder(millrace_bucket::BucketId::new(BITS, 0))
        };
        let first = look();
        cluster.set_state(state(2, &up(DOCUMENT_NODES)));
        assert_eq!(look(), first, "it serves all the time");
        cluster.set_state(state(4, &up(DOCUMENT_NODES)));
        let skipped = look();
        assert!(skipped > first, "it has not seen the state between");
        let away = [(0, NodeState::Maintenance), (1, NodeState::Up), (2, NodeState::Up)];
        cluster.set_state(state(5, &away));
        assert_eq!(look(), skipped, "it has served until then");
        cluster.set_state(state(6, &up(DOCUMENT_NODES)));
        assert!(look() > skipped, "it is back");
    });
}

#[test]
fn a_node_is_followed_while_its_store_passes_changes_on() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let node = Arc::clone(&cluster.nodes.lock()[&NodeKey(0)]);
        let (service, source) = (node.service(), Arc::new(PlacedSource::new(&node.store)));
        let request = FollowRequest {
            session: FollowSession { run: 1, number: 1 },
            run: None,
            sequence: 1,
            version: 1,
            types: BTreeSet::from(["note".to_owned()]),
            buckets: BTreeMap::new(),
        };
        let follow = || {
            let (cluster, runtime) = (&service.cluster, &service.runtime);
            source.follow(cluster, runtime, NodeKey(1), request.clone(), BTreeSet::new())
        };
        follow().expect_err("no index is placed");
        let passed = source.pass(&defined());
        follow().expect_err("a change may pass by yet");
        source.adopt(&defined(), passed);
        assert_eq!(follow().expect("it is followed"), PlacedAnswer::Taken);
        let passed = source.pass(&[]);
        assert!(!passed.is_any);
        source.adopt(&[], passed);
        follow().expect_err("no index is placed any more");
    });
}
