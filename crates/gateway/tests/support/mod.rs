//! Several gateways in one process, over a cluster controlled by a test: the owner of each bucket, its
//! replicas, and failures.

// Each test file uses a part of this.
#![allow(dead_code)]

pub mod applications;
pub mod faults;
mod leader;
pub mod live;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_bucket::{BucketId, DividedGroup};
use millrace_client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest};
use millrace_cluster::{
    ClusterState, ClusterVersion, DividedGroups, DropHorizon, DroppedTypes, Incarnation, NodeEntry,
    NodeHierarchy, NodeKey, NodeState, PROTOCOL, ReplicaDistribution,
};
use millrace_document::{Document, DocumentGroup, DocumentId, DropScope, DroppedScope, Location, Timestamp};
use millrace_env::LatencyHistogram;
use millrace_gateway::{NodeServer, Settings};
use millrace_index_placement::{PlacementOverview, PlacementRequest};
use millrace_node::cluster::{
    BatchedWrite, BucketHolders, BucketReaders, ClusterDeployment, ClusterError, ClusterMember, ClusterView,
    GroupDropRequest, LeaderAnswer, ListedNode, MemberNode, MemberNodes, MemberRole, MetricGauge,
    NodeAddress, NoteCallback, OwnRun, Published, ReadCallback, RemoteNode, SharedNote, WriteCallback,
};
use millrace_node::{Node, PublishedApplication};
use millrace_store::{CommittedWrite, DocumentWrite, StoreChange};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use self::applications::application;
use self::faults::{HeldBatch, InjectedPanic};

/// Bits of a bucket, if a group is not split.
const BITS: u8 = 4;

/// State that all nodes of the cluster agree on.
pub struct TestCluster {
    pub addresses: Mutex<Vec<String>>,
    /// Addresses of the nodes for deploying applications.
    pub config_addresses: Mutex<Vec<String>>,
    /// Nodes of each bucket, the owner first; other buckets belong to the node of their number.
    pub placed: Mutex<BTreeMap<BucketId, Vec<u16>>>,
    /// Groups, by the low bits of their locations, whose documents are in buckets of more bits.
    pub split: Mutex<BTreeMap<u32, u8>>,
    version: AtomicU64,
    /// Number of checks for which the cluster state will have changed.
    pub doubts: AtomicUsize,
    /// Number of checks of the cluster state.
    pub confirmed: AtomicUsize,
    /// Protocol of the cluster state.
    pub protocol: AtomicU16,
    /// Nodes that the cluster does not count on.
    pub away: Mutex<BTreeSet<u16>>,
    /// Nodes that are in maintenance by the cluster state.
    pub departed: Mutex<BTreeSet<u16>>,
    /// Nodes whose addresses now belong to other processes.
    pub restarted: Mutex<BTreeSet<u16>>,
    /// Nodes that have given up their replicas.
    pub emptied: Mutex<BTreeSet<u16>>,
    /// True if no node is known to have everything that it should.
    pub partial: AtomicBool,
    /// True if the cluster state has one more node, which is away.
    pub is_one_away: AtomicBool,
    /// Notes shared by the nodes, and the number of writes.
    pub notes: Mutex<BTreeMap<String, SharedNote>>,
    /// Placed indexes, as all nodes know them.
    pub placement: Mutex<PlacementOverview>,
    noted: AtomicU64,
    /// Number of times that each node has read the notes.
    pub notes_read: Mutex<BTreeMap<u16, usize>>,
    /// Number of answers for which an owner reports that replicas are being compared.
    pub comparing: AtomicUsize,
    /// True if the last of the nodes with a bucket is asked first.
    pub last_first: AtomicBool,
    /// Number of writes until further ones are refused; refused until this is changed.
    pub writes_left: AtomicUsize,
    /// Number of batches that nodes took on as owners.
    pub batches: AtomicUsize,
    /// Number of writes that are refused, by a node that is no longer the owner.
    pub refusals: AtomicUsize,
    /// Written by others after the horizon of the next drop was taken, and before it is carried out.
    pub before_drop: Mutex<Vec<Document>>,
    /// Written by others before each of the next modifications.
    pub before_modify: Mutex<VecDeque<Vec<Document>>>,
    /// Call that panics, once the others of its name before it have returned.
    pub panics: Mutex<Option<InjectedPanic>>,
    /// Batches of writes that owners do not begin yet; `None`: they begin all at once.
    held: Mutex<Option<Vec<HeldBatch>>>,
}

impl TestCluster {
    fn nodes(&self) -> usize {
        self.addresses.lock().len()
    }

    fn bucket(&self, location: Location) -> BucketId {
        let low = location.bits() as u32;
        let deeper = self.split.lock().get(&low).copied().unwrap_or(0);
        BucketId::new(if deeper > 0 { 32 + deeper } else { BITS }, location.bits())
    }

    fn buckets_of(&self, group: &DocumentGroup) -> Vec<BucketId> {
        let Some(low) = group.location_bits() else { return Vec::new() };
        let deeper = self.split.lock().get(&low).copied().unwrap_or(0);
        let bucket = |number: u64| self.bucket(Location::new(number << 32 | u64::from(low)));
        (0..1_u64 << deeper).map(bucket).collect()
    }

    /// Changes the cluster state.
    pub fn next_version(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    fn holders(&self, bucket: BucketId) -> Vec<u16> {
        // The parts of a divided group, in sequence.
        let number = (u64::from(bucket.bits() as u32) + (bucket.bits() >> 32)) as usize % self.nodes();
        self.placed.lock().get(&bucket).cloned().unwrap_or_else(|| vec![number as u16])
    }

    /// The cluster state: every bucket is where the test has placed it.
    fn state(&self) -> ClusterState {
        let version = ClusterVersion::new(self.version.load(Ordering::SeqCst));
        let nodes = self.nodes() as u16;
        let departed = self.departed.lock().clone();
        let absent = u16::from(self.is_one_away.load(Ordering::SeqCst));
        let entry = |key: u16| NodeEntry {
            name: format!("n{key}"),
            address: "localhost:1".to_owned(),
            state: match key < nodes && !departed.contains(&key) {
                true => NodeState::Up,
                false => NodeState::Maintenance,
            },
            capacity: 1.0,
            incarnation: incarnation_of(NodeKey(key)),
            lease_ended: false,
        };
        let entries = (0..nodes + absent).map(|key| (NodeKey(key), entry(key))).collect();
        let layout = NodeHierarchy::Nodes((0..nodes + absent).map(NodeKey).collect());
        let distribution = ReplicaDistribution { bits: BITS, redundancy: 1, layout };
        let divided =
            self.split.lock().iter().map(|(low, deeper)| (*low, 32 + deeper).into()).collect::<Vec<_>>();
        let holders = |bucket| (bucket, self.holders(bucket).into_iter().map(NodeKey).collect());
        let pinned = self.all_buckets().into_iter().map(holders).collect();
        let state = ClusterState::new(version, entries, distribution).expect("the nodes have room");
        let mut written: Value = serde_json::from_slice(&state.to_json()).expect("a state is JSON");
        written["protocol"] = self.protocol.load(Ordering::Relaxed).into();
        let state = ClusterState::from_json(written.to_string().as_bytes()).expect("it speaks the protocol");
        state.with_divided_groups(DividedGroups::default().with(divided)).with_placement(pinned)
    }

    fn all_buckets(&self) -> Vec<BucketId> {
        let mut all: Vec<BucketId> = (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).collect();
        for (low, deeper) in &*self.split.lock() {
            all.extend(
                (0..1_u64 << deeper).map(|bits| BucketId::new(32 + deeper, bits << 32 | u64::from(*low))),
            );
        }
        all
    }
}

/// Run of a node in the cluster state.
fn incarnation_of(node: NodeKey) -> Incarnation {
    Incarnation::new(u64::from(node.0) + 1)
}

struct TestMember {
    world: Arc<TestCluster>,
    me: u16,
    stores: Mutex<Vec<Arc<Node>>>,
}

impl TestMember {
    fn begin(&self, batch: HeldBatch) {
        for (write, done) in batch.writes.into_iter().map(BatchedWrite::into_parts) {
            self.write_one(write, batch.deadline, done);
        }
    }

    fn write_one(&self, write: DocumentWrite, deadline: Instant, done: WriteCallback) {
        if matches!(write.change, StoreChange::Modify(_) | StoreChange::ModifyContent(_)) {
            // Other modifications wait until these are written.
            let mut meanwhile = self.world.before_modify.lock();
            self.write_all(meanwhile.pop_front().unwrap_or_default(), deadline);
        }
        let left = |left: usize| left.checked_sub(1);
        let is_refused = self.world.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok();
        if is_refused
            || self.world.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err()
        {
            return done(Err(ClusterError::Unavailable("the documents have got another owner".to_owned())));
        }
        let holders = self.world.holders(self.world.bucket(write.id.location()));
        let stores = self.stores.lock();
        if let StoreChange::Put(document) = &write.change {
            for holder in &holders[1..] {
                let copy = DocumentWrite { id: write.id.clone(), change: StoreChange::Put(document.clone()) };
                stores[usize::from(*holder)].store().write(copy, |written| assert!(written.is_ok()));
            }
        }
        let own = stores[usize::from(holders[0])].store();
        own.write(write, move |outcome| done(outcome.map_err(ClusterError::Store)));
    }

    /// Writes of another client in the meantime.
    fn write_all(&self, documents: Vec<Document>, deadline: Instant) {
        for document in documents {
            let (sender, written) = std::sync::mpsc::channel();
            let write = DocumentWrite { id: document.id.clone(), change: StoreChange::Put(document) };
            self.write_one(write, deadline, Box::new(move |outcome| sender.send(outcome.is_ok()).unwrap()));
            assert!(written.recv().unwrap(), "another client's write");
        }
    }
}

impl ClusterView for TestMember {
    fn replication_times(&self) -> &LatencyHistogram {
        static TIMES: LatencyHistogram = LatencyHistogram::new();
        &TIMES
    }

    fn gauges(&self) -> Vec<MetricGauge> {
        vec![MetricGauge::new("vds.idealstate.idealstate_diff", "Replicas to be made", f64::from(self.me))]
    }

    fn own(&self) -> OwnRun {
        self.world.enter("own");
        let key = NodeKey(self.me);
        let incarnation = match self.world.restarted.lock().contains(&self.me) {
            false => incarnation_of(key),
            true => Incarnation::new(1_000),
        };
        OwnRun { key, incarnation }
    }

    fn state(&self) -> Result<Arc<ClusterState>, ClusterError> {
        self.world.enter("state");
        Ok(Arc::new(self.world.state()))
    }

    fn address(&self, node: NodeKey) -> Result<NodeAddress, ClusterError> {
        if node.0 == self.me {
            return Ok(NodeAddress::Local);
        }
        let address = self.world.addresses.lock()[usize::from(node.0)].clone();
        let protocol = self.world.protocol.load(Ordering::Relaxed);
        Ok(NodeAddress::Remote(RemoteNode { address, incarnation: incarnation_of(node), protocol }))
    }

    fn readers(
        &self,
        buckets: Option<&[BucketId]>,
        _: NodeKey,
    ) -> Result<(ClusterVersion, Vec<BucketReaders>), ClusterError> {
        let own = |bucket: &BucketId| self.world.holders(*bucket)[0] == self.me;
        let buckets = buckets.map_or_else(|| self.world.all_buckets(), <[BucketId]>::to_vec);
        let readers = buckets.into_iter().filter(own).map(|bucket| {
            let mut nodes: Vec<NodeKey> = self.world.holders(bucket).into_iter().map(NodeKey).collect();
            if self.world.last_first.load(Ordering::SeqCst) {
                nodes.reverse();
            }
            let left = |left: usize| left.checked_sub(1);
            let soon = self.world.comparing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok();
            let full = !soon && !self.world.partial.load(Ordering::SeqCst);
            BucketReaders { bucket, nodes, full, soon, documents: 7 }
        });
        Ok((ClusterVersion::new(self.world.version.load(Ordering::SeqCst)), readers.collect()))
    }

    fn holders(&self, bucket: BucketId) -> Result<BucketHolders, ClusterError> {
        let (version, readers) = self.readers(Some(&[bucket]), NodeKey(self.me))?;
        let readers = readers.into_iter().next().ok_or_else(|| ClusterError::unavailable("moved"))?;
        let newest = millrace_document::Timestamp::default();
        Ok(BucketHolders { version, nodes: readers.nodes, full: readers.full, newest })
    }

    fn confirms(&self, version: ClusterVersion) -> bool {
        self.world.confirmed.fetch_add(1, Ordering::SeqCst);
        let doubt = |doubts: usize| doubts.checked_sub(1);
        if self.world.doubts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, doubt).is_ok() {
            self.world.version.fetch_add(1, Ordering::SeqCst);
        }
        ClusterVersion::new(self.world.version.load(Ordering::SeqCst)) == version
    }

    fn oldest_writes(&self) -> BTreeMap<BucketId, Timestamp> {
        BTreeMap::new()
    }

    fn pace_transfer(&self, _: u64) {}

    fn holds(&self, _: BucketId) -> bool {
        !self.world.emptied.lock().contains(&self.me)
    }

    fn read(&self, id: DocumentId, _: Instant, done: ReadCallback) {
        let holders = self.world.holders(self.world.bucket(id.location()));
        assert_eq!(holders[0], self.me, "only the owner reads at all");
        let stores = self.stores.lock();
        let versions = holders.iter().filter_map(|at| stores[usize::from(*at)].store().version(&id).unwrap());
        done(Ok(versions.max_by_key(|version| version.timestamp)));
    }

    fn write(&self, writes: Vec<BatchedWrite>, deadline: Instant) {
        self.world.enter("write");
        self.world.batches.fetch_add(usize::from(writes.len() > 1), Ordering::SeqCst);
        let batch = HeldBatch { owner: self.me, writes, deadline };
        let mut held = self.world.held.lock();
        if let Some(held) = held.as_mut() {
            return held.push(batch);
        }
        drop(held);
        self.begin(batch);
    }

    fn drop_horizon(&self, _: &DocumentGroup, _: Option<BucketId>) -> Result<DropHorizon, ClusterError> {
        let stores = self.stores.lock();
        let until = stores.iter().map(|node| node.store().newest()).max().unwrap_or_default();
        Ok(DropHorizon { until, claim: 1 })
    }

    fn drop_group(&self, dropped: GroupDropRequest, deadline: Instant, done: WriteCallback) {
        let GroupDropRequest { document_type, group, part, horizon } = dropped;
        let bucket = part.unwrap_or_else(|| self.world.buckets_of(&group)[0]);
        // Each document is written just before the drop of its own part.
        let meanwhile = {
            let mut waiting = self.world.before_drop.lock();
            let is_here = |document: &Document| self.world.bucket(document.id.location()) == bucket;
            let (here, later) = std::mem::take(&mut *waiting).into_iter().partition(is_here);
            *waiting = later;
            here
        };
        self.write_all(meanwhile, deadline);
        let scope = DropScope::Group { document_type, group };
        let stores = self.stores.lock();
        let newest = || stores.iter().map(|node| node.store().newest()).max().unwrap_or_default();
        let until = horizon.map_or_else(newest, |horizon| horizon.until);
        let dropped = DroppedScope { scope, timestamp: until };
        for holder in self.world.holders(bucket) {
            stores[usize::from(holder)].store().apply_drop(bucket, &dropped).unwrap();
        }
        done(Ok(CommittedWrite { timestamp: dropped.timestamp, existed: None, changed: true }));
    }
}

impl ClusterMember for TestMember {
    fn serves(&self) -> Result<(), ClusterError> {
        match self.world.away.lock().contains(&self.me) {
            true => Err(ClusterError::unavailable("an operator removed it")),
            false => Ok(()),
        }
    }

    fn advertised(&self) -> Vec<String> {
        vec!["n0.example:8080".to_owned(), "[fd00::1]:8080".to_owned()]
    }

    fn nodes(&self) -> MemberNodes {
        let node = |listed: ListedNode| MemberNode {
            address: format!("{}.example:19100", listed.name),
            elastic: Some(format!("{}.example:9200", listed.name)),
            roles: vec![MemberRole::Documents],
            is_leader: listed.key.0 == 0,
            has_run: true,
            listed,
        };
        let state = self.world.state();
        let nodes = ListedNode::all(&state).into_iter().map(node).collect();
        MemberNodes { nodes, redundancy: state.distribution().redundancy.into() }
    }

    fn gauges(&self) -> Vec<MetricGauge> {
        Vec::new()
    }

    fn notes(&self) -> BTreeMap<String, SharedNote> {
        *self.world.notes_read.lock().entry(self.me).or_default() += 1;
        self.world.notes.lock().clone()
    }

    fn note(
        &self,
        guard: &str,
        changed: Option<u64>,
        written: Vec<(String, Option<Vec<u8>>)>,
        done: NoteCallback,
    ) {
        let mut notes = self.world.notes.lock();
        let held = notes.get(guard).map(|note| note.changed) == changed;
        for (name, value) in written.into_iter().filter(|_| held) {
            let changed = self.world.noted.fetch_add(1, Ordering::SeqCst);
            match value {
                Some(value) => notes.insert(name, SharedNote { value: value.into(), changed }),
                None => notes.remove(&name),
            };
        }
        drop(notes);
        done(Ok(held));
    }

    fn publish<'a>(&'a self, deployment: ClusterDeployment<'a>) -> Published<'a> {
        Box::pin(async move { Ok(deployment.generation) })
    }

    fn placement(&self) -> PlacementOverview {
        self.world.placement.lock().clone()
    }

    fn ask_leader(&self, request: PlacementRequest, _: Duration) -> LeaderAnswer<'_> {
        let answer = leader::decide(&mut self.world.placement.lock(), &request);
        Box::pin(async move { Ok(answer) })
    }
}

/// The nodes.
pub struct TestNodes {
    pub world: Arc<TestCluster>,
    pub nodes: Vec<Arc<Node>>,
    members: Vec<Arc<TestMember>>,
    stops: Vec<Option<oneshot::Sender<()>>>,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl TestNodes {
    /// Starts this number of nodes with an application of this schema.
    pub fn start(count: usize, schema: &str) -> Self {
        TestNodes::start_with(count, schema, &|_| ())
    }

    /// Starts nodes with changed settings.
    pub fn start_with(count: usize, schema: &str, change: &dyn Fn(&mut Settings)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let world = Arc::new(TestCluster {
            addresses: Mutex::default(),
            config_addresses: Mutex::default(),
            placed: Mutex::default(),
            split: Mutex::default(),
            version: AtomicU64::new(1),
            doubts: AtomicUsize::new(0),
            confirmed: AtomicUsize::new(0),
            away: Mutex::default(),
            departed: Mutex::default(),
            protocol: AtomicU16::new(PROTOCOL),
            restarted: Mutex::default(),
            emptied: Mutex::default(),
            partial: AtomicBool::new(false),
            is_one_away: AtomicBool::new(false),
            notes: Mutex::default(),
            placement: Mutex::default(),
            noted: AtomicU64::new(1),
            notes_read: Mutex::default(),
            comparing: AtomicUsize::new(0),
            last_first: AtomicBool::new(false),
            writes_left: AtomicUsize::new(usize::MAX),
            batches: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            before_drop: Mutex::default(),
            before_modify: Mutex::default(),
            panics: Mutex::default(),
            held: Mutex::default(),
        });
        let (mut nodes, mut stops, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        for key in 0..count {
            let mut settings = Settings::new(directory.path().join(key.to_string()));
            // No other test gets the port of a node that was stopped: the others still ask there.
            let port = || millrace_env::free_port().expect("a port is free");
            (settings.port, settings.config_port, settings.node.threads) = (port(), port(), 2);
            settings.drain = Duration::from_millis(200);
            change(&mut settings);
            let node = Node::open(settings.node.clone()).expect("a node");
            node.deploy(application(schema, &[])).expect("it is deployed");
            let server = runtime.block_on(NodeServer::bind(Arc::clone(&node), settings)).expect("ports");
            let (address, config_address) = server.addresses().expect("addresses");
            world.addresses.lock().push(address.to_string());
            world.config_addresses.lock().push(config_address.to_string());
            nodes.push(node);
            servers.push(server);
        }
        let mut members = Vec::new();
        for (node, me) in nodes.iter().zip(0u16..) {
            let stores = Mutex::new(nodes.clone());
            let member = Arc::new(TestMember { world: Arc::clone(&world), me, stores });
            node.set_cluster_member(Arc::clone(&member) as Arc<dyn ClusterMember>);
            node.set_cluster_view(Arc::clone(&member) as Arc<dyn ClusterView>);
            members.push(member);
        }
        for server in servers {
            let (stop, stopped) = oneshot::channel::<()>();
            stops.push(Some(stop));
            runtime.spawn(server.run(async move { drop(stopped.await) }));
        }
        TestNodes { world, nodes, members, stops, runtime, _directory: directory }
    }

    /// Deploys the next generation of the application to a node: with another schema, or the same one with
    /// another change.
    pub fn deploy(&self, node: usize, schema: &str) {
        self.deploy_with(node, schema, &[]);
    }

    /// Deploys with additional files in the package.
    pub fn deploy_with(&self, node: usize, schema: &str, more: &[(&str, &str)]) {
        let generation = self.nodes[node].generation() + 1;
        let published = PublishedApplication {
            draft: application(schema, more).into(),
            generation,
            dropped: Some(DroppedTypes::default()),
        };
        self.nodes[node].deploy_as(published).expect("it is deployed");
    }

    /// Stops the node: it no longer answers.
    pub fn stop(&mut self, node: usize) {
        self.stops[node] = None;
        let address = self.world.addresses.lock()[node].clone();
        wait_until("the node stops", || std::net::TcpStream::connect(&address).is_err());
    }

    pub fn call(&self, node: usize, method: Method, path: &str, body: &str) -> (u16, Value) {
        let address = self.world.addresses.lock()[node].clone();
        self.call_at(&address, method, path, body)
    }

    /// Sends a request to the port for deployment.
    pub fn config(&self, node: usize, method: Method, path: &str) -> (u16, Value) {
        self.config_with(node, method, path, "")
    }

    /// Sends a request with a body to the port for deployment.
    pub fn config_with(&self, node: usize, method: Method, path: &str, body: &str) -> (u16, Value) {
        let address = self.world.config_addresses.lock()[node].clone();
        self.call_at(&address, method, path, body)
    }

    /// Sends a request whose answer is not one JSON value; returns its text.
    pub fn text(&self, node: usize, method: Method, path: &str, body: &str) -> String {
        let address = self.world.addresses.lock()[node].clone();
        let client = NodeClient::new(&format!("http://{address}"), HttpProtocol::Http1).expect("an address");
        let request = OutgoingRequest::new(method, path).body("application/json", body.to_owned());
        let answer = self.runtime.block_on(client.send(request)).expect("an answer");
        assert!(answer.status.is_success(), "{}: {}", answer.status, answer.message());
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// Sends any request to a node.
    pub fn send(&self, node: usize, request: OutgoingRequest) -> ClientAnswer {
        let address = self.world.addresses.lock()[node].clone();
        let client = NodeClient::new(&format!("http://{address}"), HttpProtocol::Http1).expect("an address");
        self.runtime.block_on(client.send(request)).expect("an answer")
    }

    fn call_at(&self, address: &str, method: Method, path: &str, body: &str) -> (u16, Value) {
        let client = NodeClient::new(&format!("http://{address}"), HttpProtocol::Http1).expect("an address");
        let mut request = OutgoingRequest::new(method, path);
        if !body.is_empty() {
            request = request.body("application/json", body.to_owned());
        }
        let answer = self.runtime.block_on(client.send(request)).expect("an answer");
        (answer.status.as_u16(), answer.json())
    }

    /// Divides a group into two to the power of `deeper` buckets, for all nodes and in their stores.
    pub fn divide(&self, group: &str, deeper: u8) {
        self.world.split.lock().insert(low_bits(group), deeper);
        for node in &self.nodes {
            node.store()
                .divide(
                    BITS,
                    &[DividedGroup { location: low_bits(group), bits: BucketId::GROUP_BITS + deeper }],
                )
                .expect("it is divided");
        }
    }

    pub fn put(&self, node: usize, group: &str, number: u32, fields: &Value) {
        let path = format!("/document/v1/notes/note/group/{group}/{number}");
        let (status, answer) = self.call(node, Method::POST, &path, &json!({ "fields": fields }).to_string());
        assert_eq!(status, 200, "{answer}");
    }

    pub fn query(&self, node: usize, parameters: &Value) -> (u16, Value) {
        self.call(node, Method::POST, "/search/", &parameters.to_string())
    }
}

/// Waits for a condition.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(120), "waits in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The low bits of a group's locations.
pub fn low_bits(group: &str) -> u32 {
    DocumentGroup::Name(group.to_owned()).location_bits().expect("a named group")
}
