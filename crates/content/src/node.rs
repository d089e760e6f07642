//! A node of a cluster, as its gateway and its operators see it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::{
    COMPRESSED_SEGMENTS, ClusterState, ClusterVersion, DropHorizon, FILTERED_SEGMENTS, Incarnation, NodeKey,
    NodeReply, NodeRequest, RequestFence,
};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, DropScope, Location, Timestamp};
use millrace_env::LatencyHistogram;
use millrace_membership::{ClusterMembership, ConfirmedState};
use millrace_node::cluster::{
    BatchedWrite, BucketHolders, BucketReaders, ClusterError, ClusterView, GroupDropRequest, MetricGauge,
    NO_SUCH_BUCKET, NodeAddress, OwnRun, ReadCallback, RemoteNode, WriteCallback,
};
use millrace_peer::{PeerConnections, PeerService, TransferSource};
use millrace_replication::distributor::{self, DocumentChange, NoRoute, RequestError};
use millrace_store::{SegmentFormat, Store};
use millrace_trust::{Connection, NodeTrust};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::TransferThrottle;
use crate::conversion::{change_of, outcome_callback, refused};
use crate::gauges;
use crate::growth;
use crate::incoming::IncomingTransfer;
use crate::machine::{ContentMachine, MachineDependencies, MachineInput, MachineWrite};
use crate::reader_preference::ReaderPreference;
use crate::source::StoreSource;
use crate::storage::StoreReplicas;

/// Interval at which transfers receive the latencies of requests.
const OBSERVE: Duration = Duration::from_secs(1);

/// Limits of the rate at which a node may move data.
pub struct TransferPace {
    /// Maximum rate in bytes per second, in and out together; `None`: as fast as requests allow.
    pub cap: Option<u64>,
    /// Latency of the slowest hundredth of each kind of request since the previous call; `None` if there were
    /// too few to measure.
    pub slowest: Box<dyn Fn() -> Vec<Option<Duration>> + Send>,
}

/// Port for connections of other nodes.
pub struct PeerPort {
    /// Accepts their connections.
    pub listener: TcpListener,
    /// The node's certificate. If present, nodes use only encrypted connections, to others with certificates.
    pub trust: Option<Arc<NodeTrust>>,
    /// Handles encrypted connections over which requests of clients are forwarded; others use the data port.
    pub forwarded: ConnectionHandler,
}

/// Serves a connection over which another node forwards requests of clients, as HTTP/2.
pub type ConnectionHandler = Box<dyn Fn(Connection) + Send + Sync>;

/// A node's part in its cluster. Dropping it ends the participation; [`ContentNode::stop`] does so in order.
pub struct ContentNode {
    me: NodeKey,
    incarnation: Incarnation,
    store: Store,
    machine: Arc<ContentMachine>,
    throttle: Arc<TransferThrottle>,
    peers: Arc<PeerConnections>,
    source: Arc<StoreSource>,
    /// True if requests are forwarded to the port for nodes.
    is_encrypted: bool,
    membership: ClusterMembership,
    replication_times: Arc<LatencyHistogram>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl ContentNode {
    /// Waits until the cluster state includes this run of the node, and starts. Other nodes are answered at
    /// `port`.
    ///
    /// # Errors
    /// A thread cannot be started; the store cannot be read.
    pub async fn start(
        store: Store,
        membership: ClusterMembership,
        port: PeerPort,
        pace: TransferPace,
    ) -> std::io::Result<Arc<Self>> {
        let PeerPort { listener, trust, forwarded } = port;
        let incarnation = membership.incarnation();
        let (me, state) = first_state(&membership, incarnation).await;
        let runtime = Handle::current();
        let replicas = Arc::new(StoreReplicas::new(store.clone()));
        let throttle = Arc::new(TransferThrottle::new(pace.cap));
        let (adopting, bits) = (Arc::clone(&replicas), state.distribution().bits);
        let adopted = runtime.spawn_blocking(move || adopting.adopt(bits)).await;
        adopted.map_err(std::io::Error::other)?.map_err(std::io::Error::other)?;
        let peers = Arc::new(PeerConnections::new(runtime.clone(), trust.clone()));
        let machine = Arc::new(ContentMachine::start(MachineDependencies {
            me,
            incarnation,
            replicas: Arc::clone(&replicas),
            throttle: Arc::clone(&throttle),
            peers: Arc::clone(&peers),
            membership: membership.clone(),
            trust: trust.clone(),
            runtime,
        })?);
        machine.send(MachineInput::State(state));
        let (stop, stopped) = watch::channel(false);
        let growth = growth::watch(Arc::clone(&replicas), membership.clone());
        let source = Arc::new(StoreSource::new(replicas, Arc::clone(&throttle)));
        let answers = Arc::new(PeerAnswers {
            incarnation,
            machine: Arc::clone(&machine),
            source: Arc::clone(&source),
            forwarded,
        });
        let is_encrypted = trust.is_some();
        let tasks = vec![
            tokio::spawn(millrace_peer::serve(listener, trust, answers, stopped)),
            tokio::spawn(follow(membership.clone(), Arc::clone(&machine), store.clone())),
            tokio::spawn(observe(pace.slowest, Arc::clone(&throttle))),
            tokio::spawn(growth),
        ];
        Ok(Arc::new(ContentNode {
            me,
            incarnation,
            store,
            machine,
            throttle,
            peers,
            source,
            is_encrypted,
            membership,
            replication_times: Arc::default(),
            stop,
            tasks,
        }))
    }

    /// Makes the timestamps of later writes greater than this one.
    pub fn observe(&self, seen: Timestamp) {
        self.machine.with_distributor(|distributor, _| distributor.observe(seen));
    }

    /// This node's key.
    pub fn key(&self) -> NodeKey {
        self.me
    }

    /// Metrics of the buckets that this node owns: their distance from the ideal state.
    pub fn metrics(&self) -> distributor::DistributorMetrics {
        self.machine.with_distributor(|distributor, _| distributor.metrics())
    }

    /// Operations, running and waiting, on the buckets that this node owns.
    pub fn operations(&self) -> Vec<distributor::OperationView> {
        self.machine.with_distributor(|distributor, _| distributor.operations())
    }

    /// Transfers to this node.
    pub fn incoming(&self) -> Vec<Arc<IncomingTransfer>> {
        self.machine.incoming()
    }

    /// Throttle of the data that moves from and to this node: its rate, and the reason of its limit.
    pub fn throttle(&self) -> &TransferThrottle {
        &self.throttle
    }

    /// Number of replicas that other nodes are fetching from this one.
    pub(crate) fn leaving(&self) -> u64 {
        self.source.leaving()
    }

    /// Its connections to other nodes.
    pub(crate) fn peers(&self) -> &PeerConnections {
        &self.peers
    }

    /// Version of the cluster state that it acts by, and true if that is confirmed to be the newest.
    pub fn acting_version(&self) -> (ClusterVersion, bool) {
        self.machine.with_distributor(|distributor, now| {
            (distributor.version().unwrap_or_default(), distributor.is_confirmed(now.monotonic))
        })
    }

    /// Membership of this node.
    pub(crate) fn membership(&self) -> &ClusterMembership {
        &self.membership
    }

    /// True if this node leads the cluster.
    pub(crate) fn leads(&self) -> bool {
        self.membership.snapshots().borrow().leader.as_deref() == Some(&*self.membership.settings().name)
    }

    /// Ends the participation. The membership is left to its owner.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.tasks.iter().for_each(JoinHandle::abort);
        self.machine.stop();
    }

    fn known_state(&self) -> Result<Arc<ClusterState>, ClusterError> {
        let state = self.membership.states().borrow().clone();
        state.ok_or_else(|| ClusterError::unavailable("this node knows no cluster state yet"))
    }

    /// Address of a node's gateway.
    fn address_in(&self, state: &ClusterState, node: NodeKey) -> Result<NodeAddress, ClusterError> {
        if node == self.me {
            return Ok(NodeAddress::Local);
        }
        let unknown = || ClusterError::Unavailable(format!("node {node} is not of this cluster"));
        let entry = state.nodes().get(&node).ok_or_else(unknown)?;
        let (incarnation, protocol) = (entry.incarnation, state.protocol());
        if self.is_encrypted {
            let address = entry.address.clone();
            return Ok(NodeAddress::Remote(RemoteNode { address, incarnation, protocol }));
        }
        let name = entry.name.as_str();
        let snapshots = self.membership.snapshots();
        let snapshot = snapshots.borrow();
        let url = snapshot.members.get(name).map(|member| member.url.as_str()).unwrap_or_default();
        match authority_of(url) {
            "" => {
                let reason = format!("node {node} ({name}) has not said where it serves documents");
                Err(ClusterError::Unavailable(reason))
            }
            address => {
                Ok(NodeAddress::Remote(RemoteNode { address: address.to_owned(), incarnation, protocol }))
            }
        }
    }
}

/// The `host:port` in a URL that a node has published.
pub(crate) fn authority_of(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/')
}

impl Drop for ContentNode {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a cluster state that includes this run of the node.
async fn first_state(
    membership: &ClusterMembership,
    incarnation: Incarnation,
) -> (NodeKey, Arc<ClusterState>) {
    let mut states = membership.states();
    loop {
        let state = states.borrow_and_update().clone();
        if let (Some(key), Some(state)) = (membership.key(), state)
            && state.nodes().get(&key).is_some_and(|node| node.incarnation == incarnation)
        {
            return (key, state);
        }
        if states.changed().await.is_err() {
            // The membership has ended; so will all waiting callers.
            std::future::pending::<()>().await;
        }
    }
}

/// Passes every new state to the machine, and the confirmations of coordination: after the state, since an
/// earlier confirmation has no effect.
async fn follow(membership: ClusterMembership, machine: Arc<ContentMachine>, store: Store) {
    let (mut states, mut confirmations) = (membership.states(), membership.confirmations());
    loop {
        // The order matters: the state may arrive in between.
        let confirmation = *confirmations.borrow_and_update();
        let state = states.borrow_and_update().clone();
        if let Some(state) = state {
            store.set_segment_format(segment_format(&state));
            machine.send(MachineInput::State(state));
        }
        if let Some(ConfirmedState { version, at }) = confirmation {
            machine.send(MachineInput::Confirmed { version, asked: at });
        }
        let changed = tokio::select! {
            changed = states.changed() => changed,
            changed = confirmations.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Format of segments that all nodes know which act by a state.
fn segment_format(state: &ClusterState) -> SegmentFormat {
    match state.protocol() {
        FILTERED_SEGMENTS.. => SegmentFormat::Filtered,
        COMPRESSED_SEGMENTS.. => SegmentFormat::Compressed,
        _ => SegmentFormat::Plain,
    }
}

/// Passes the latencies of requests to the transfers.
async fn observe(slowest: Box<dyn Fn() -> Vec<Option<Duration>> + Send>, throttle: Arc<TransferThrottle>) {
    let mut interval = tokio::time::interval(OBSERVE);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        throttle.observe(&slowest());
    }
}

/// Sources of the answers to other nodes.
struct PeerAnswers {
    incarnation: Incarnation,
    machine: Arc<ContentMachine>,
    source: Arc<StoreSource>,
    forwarded: ConnectionHandler,
}

impl PeerService for PeerAnswers {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn request(&self, fence: RequestFence, request: NodeRequest, reply: Box<dyn FnOnce(NodeReply) + Send>) {
        self.machine.send(MachineInput::Request { fence, request, reply });
    }

    fn source(&self) -> Arc<dyn TransferSource> {
        Arc::clone(&self.source) as Arc<dyn TransferSource>
    }

    fn http(&self, connection: Connection) {
        (self.forwarded)(connection);
    }
}

impl ClusterView for ContentNode {
    fn own(&self) -> OwnRun {
        OwnRun { key: self.me, incarnation: self.incarnation }
    }

    fn state(&self) -> Result<Arc<ClusterState>, ClusterError> {
        self.known_state()
    }

    fn address(&self, node: NodeKey) -> Result<NodeAddress, ClusterError> {
        self.address_in(&*self.state()?, node)
    }

    fn readers(
        &self,
        buckets: Option<&[BucketId]>,
        near: NodeKey,
    ) -> Result<(ClusterVersion, Vec<BucketReaders>), ClusterError> {
        let state = self.state()?;
        let own = |bucket: &BucketId| state.owner(*bucket) == Some(self.me);
        let buckets: Vec<BucketId> = match buckets {
            Some(buckets) => buckets.to_vec(),
            None => state.buckets().filter(own).collect(),
        };
        if !buckets.iter().all(|bucket| state.has_bucket(*bucket)) {
            return Err(ClusterError::unavailable(NO_SUCH_BUCKET));
        }
        let preference = ReaderPreference::new(&state, near, self.me);
        let found = self.machine.with_distributor(|distributor, now| {
            let mut found = Vec::with_capacity(buckets.len());
            for bucket in buckets {
                let (nodes, full, soon) = match distributor.route(bucket, now) {
                    Ok(route) if route.version == state.version() => {
                        (distributor.readers(bucket, &route), route.full, route.soon)
                    }
                    Err(NoRoute::Nothing) => (Vec::new(), true, false),
                    Ok(_) | Err(NoRoute::NotYet) => {
                        return Err("the owner does not know yet who has the documents");
                    }
                    Err(NoRoute::Elsewhere(_)) => return Err("the documents have got another owner"),
                };
                let documents = distributor.documents(bucket);
                found.push(BucketReaders { bucket, nodes, full, soon, documents });
            }
            Ok(found)
        });
        let mut found = found.map_err(ClusterError::unavailable)?;
        for readers in &mut found {
            preference.sort(readers);
        }
        Ok((state.version(), found))
    }

    fn holders(&self, bucket: BucketId) -> Result<BucketHolders, ClusterError> {
        let found = self.machine.with_distributor(|distributor, now| distributor.holders(bucket, now));
        found.map_err(|_| ClusterError::unavailable("the owner does not know yet who has the documents"))
    }

    fn oldest_writes(&self) -> BTreeMap<BucketId, Timestamp> {
        self.machine.with_distributor(|distributor, _| distributor.oldest_writes())
    }

    fn confirms(&self, version: ClusterVersion) -> bool {
        // The newest known state may not have reached the distributor yet, and the store may act by it.
        self.state().is_ok_and(|state| state.version() == version)
            && self.machine.with_distributor(|distributor, now| distributor.confirms(version, now))
    }

    fn holds(&self, bucket: BucketId) -> bool {
        self.store.has_replica(bucket)
    }

    fn gauges(&self) -> Vec<MetricGauge> {
        gauges::all(self)
    }

    fn replication_times(&self) -> &LatencyHistogram {
        &self.replication_times
    }

    fn read(&self, id: DocumentId, deadline: Instant, done: ReadCallback) {
        let done = Box::new(move |outcome: Result<Option<DocumentVersion>, RequestError>| {
            // A read has changed nothing, so that every error of it passes.
            done(outcome.map_err(|error| ClusterError::Unavailable(refused(error).to_string())));
        });
        self.machine.send(MachineInput::Read { id, deadline, done });
    }

    fn write(&self, writes: Vec<BatchedWrite>, deadline: Instant) {
        let began = Instant::now();
        let begin = |batched: BatchedWrite| {
            let (write, done) = batched.into_parts();
            let (done, times) = (outcome_callback(done), Arc::clone(&self.replication_times));
            let done = Box::new(move |outcome: Result<_, _>| {
                if outcome.is_ok() {
                    times.record(began.elapsed());
                }
                done(outcome);
            });
            MachineWrite { change: change_of(write), done }
        };
        let writes = writes.into_iter().map(begin).collect();
        self.machine.send(MachineInput::WriteBatch { writes, deadline });
    }

    fn drop_horizon(
        &self,
        group: &DocumentGroup,
        part: Option<BucketId>,
    ) -> Result<DropHorizon, ClusterError> {
        let bucket = self.dropped_bucket(group, part)?;
        let horizon =
            self.machine.with_distributor(|distributor, now| distributor.drop_horizon(bucket, group, now));
        horizon.map_err(|error| ClusterError::Unavailable(refused(error).to_string()))
    }

    fn pace_transfer(&self, bytes: u64) {
        self.throttle.pass(bytes);
    }

    fn drop_group(&self, dropped: GroupDropRequest, deadline: Instant, done: WriteCallback) {
        let GroupDropRequest { document_type, group, part, horizon } = dropped;
        let bucket = match self.dropped_bucket(&group, part) {
            Ok(bucket) => bucket,
            Err(error) => return done(Err(error)),
        };
        let scope = DropScope::Group { document_type, group };
        let change = DocumentChange::Drop { bucket, scope, until: horizon };
        let write = MachineWrite { change, done: outcome_callback(done) };
        self.machine.send(MachineInput::Write { write, deadline });
    }
}

impl ContentNode {
    /// Bucket of a drop of a group.
    fn dropped_bucket(
        &self,
        group: &DocumentGroup,
        part: Option<BucketId>,
    ) -> Result<BucketId, ClusterError> {
        let everywhere = "documents without a group lie everywhere: remove them one by one";
        let bits = group.location_bits().ok_or_else(|| ClusterError::unavailable(everywhere))?;
        let state = || self.known_state().map(|state| state.bucket(Location::new(u64::from(bits))));
        part.map_or_else(state, Ok)
    }
}
