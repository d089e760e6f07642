//! A server that is one node of a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use millrace_content::{
    ContentMember, ContentNode, PeerPort, TransferPace, declare_indexes, follow_placement,
};
use millrace_coordination::EtcdCoordination;
use millrace_env::await_or_exit;
use millrace_gateway::NodeServer;
use millrace_membership::rest::{self, OperatedCluster, ShownMembership};
use millrace_membership::{ClusterMembership, NodeRole, NodeStats, PackagePublication, Settings};
use millrace_node::cluster::ClusterView;
use millrace_node::{Node, PublishedApplication};
use millrace_schema::ApplicationDraft;
use millrace_trust::{NodeTrust, ServiceFiles, TrustFiles};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cluster_stats::stats;
use crate::error::Error;
use crate::supervision;

/// Settings of a node's part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Addresses of coordination: `etcd://HOST:PORT`, several separated by commas.
    pub coordination: String,
    /// Trust in coordination, for `etcds://`; `None`: the system's trust.
    pub etcd_tls: Option<ServiceFiles>,
    /// Trust between nodes; `None`: they communicate without encryption.
    pub nodes_tls: Option<TrustFiles>,
    /// The node's name.
    pub name: String,
    /// Its roles.
    pub roles: Vec<NodeRole>,
    /// The port that other nodes speak to.
    pub peer_port: u16,
    /// Host by which others reach this node; `None`: the address that it listens at.
    pub advertise: Option<String>,
    /// Address to listen at.
    pub listen: IpAddr,
    /// Maximum bytes of replicas that it sends and receives in a second.
    pub transfer_rate_max: Option<u64>,
    /// Directory of its persistent state about the cluster.
    pub directory: PathBuf,
}

impl ClusterSettings {
    /// Host by which others reach this node.
    fn host(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| match self.listen {
            // The unspecified address cannot be connected to; with this one at least other nodes on the same
            // machine can connect.
            listen if listen.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
            IpAddr::V4(address) => address.to_string(),
        })
    }

    /// Recommended changes for an operator.
    pub fn warnings(&self) -> Vec<String> {
        let unreachable = self.advertise.is_none() && self.listen.is_unspecified();
        let warning = || {
            format!(
                "it listens at {} without --advertise, so that it advertises {}, where no other \
                 machine reaches it; start it with --advertise and the host by which others reach it",
                self.listen,
                self.host()
            )
        };
        unreachable.then(warning).into_iter().collect()
    }

    /// Coordination at the addresses of the settings.
    fn coordination(&self) -> Result<EtcdCoordination, Error> {
        let tls = self.etcd_tls.as_ref().map(ServiceFiles::load).transpose();
        let tls = tls.map_err(|error| Error::Cluster(format!("TLS to etcd: {error}")))?;
        EtcdCoordination::new(&self.coordination, tls).map_err(|error| Error::Cluster(error.to_string()))
    }

    /// The node's trust in others, if nodes have certificates.
    ///
    /// # Errors
    /// The certificates are invalid.
    pub fn trust(&self) -> Result<Option<Arc<NodeTrust>>, Error> {
        let load = |files: &TrustFiles| NodeTrust::load(files.clone(), &self.host()).map(Arc::new);
        let trust = self.nodes_tls.as_ref().map(load).transpose();
        trust.map_err(|error| Error::Cluster(format!("TLS between nodes: {error}")))
    }
}

/// Maximum time for coordination to answer at the start.
const COORDINATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before the next attempt, after a package could not be fetched or activated.
const RETRY: Duration = Duration::from_secs(2);

/// Interval of checks for renewed certificates.
const RENEW: Duration = Duration::from_secs(30);

/// The node's part in the cluster, once it has one.
pub type JoinedPart = OnceLock<Arc<ContentNode>>;

/// A node's part in a cluster, while the server runs.
pub struct ClusterNode {
    membership: ClusterMembership,
    part: Arc<JoinedPart>,
    /// Recommended changes for an operator.
    warnings: Arc<[String]>,
    /// Warnings of certificates that expire soon.
    expiring: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    tasks: Vec<JoinHandle<()>>,
}

impl ClusterNode {
    /// Joins the cluster; the node's part follows as soon as the cluster has assigned one.
    ///
    /// # Errors
    /// The settings are invalid, the name or the data directory belongs to another node, or the port is
    /// taken.
    pub async fn join(
        node: &Arc<Node>,
        settings: &ClusterSettings,
        server: &NodeServer,
    ) -> Result<Self, Error> {
        let (data, _) = server.addresses().map_err(Error::Runtime)?;
        let is_empty = check_store(node, settings)?;
        let warnings = settings.warnings();
        warnings.iter().for_each(|warning| tracing::warn!(node = settings.name, "{warning}"));
        let etcd = settings.coordination()?;
        let listener = TcpListener::bind((settings.listen, settings.peer_port))
            .await
            .map_err(|error| Error::Cluster(format!("peer port {}: {error}", settings.peer_port)))?;
        let peer_port = listener.local_addr().map_err(Error::Runtime)?.port();
        let elastic = server.elastic_address().map_err(Error::Runtime)?;
        let scheme = if server.settings().tls.is_some() { "https" } else { "http" };
        let own = Settings {
            roles: settings.roles.clone(),
            is_empty,
            removals_kept: Some(node.removals_kept()),
            url: format!("{scheme}://{}:{}", settings.host(), data.port()),
            elastic: elastic.map(|address| format!("{}:{}", settings.host(), address.port())),
            ..Settings::new(&settings.name, format!("{}:{peer_port}", settings.host()), &settings.directory)
        };
        let membership = ClusterMembership::join(Arc::new(etcd), own)
            .await
            .map_err(|error| Error::Cluster(error.to_string()))?;
        node.set_cluster_member(Arc::new(ContentMember::new(membership.clone())));
        let part = Arc::new(JoinedPart::default());
        let intake = server.intake();
        let port = PeerPort {
            listener,
            trust: server.settings().trust.clone(),
            forwarded: Box::new(move |connection| intake.take(connection)),
        };
        let tasks = start_tasks(node, &membership, &part, port, settings.transfer_rate_max);
        let expiring = server.certificate_warnings();
        Ok(ClusterNode { membership, part, warnings: warnings.into(), expiring, tasks })
    }

    /// Endpoints of a cluster's node: on the data port, and on the deployment port.
    pub fn routers(&self, node: &Arc<Node>) -> (Router, Router) {
        let (part, membership) = (Arc::clone(&self.part), self.membership.clone());
        let (of_node, warnings) = (Arc::clone(node), Arc::clone(&self.warnings));
        let expiring = Arc::clone(&self.expiring);
        let stats = Arc::new(move || NodeStats {
            warnings: warnings
                .iter()
                .cloned()
                .chain(membership.warnings(of_node.generation()))
                .chain(expiring())
                .collect(),
            ..stats(&of_node, &membership, &part)
        });
        let own = Arc::clone(&stats);
        let own_key = self.membership.clone();
        let clusters = Arc::clone(node);
        let shown = ShownMembership {
            membership: self.membership.clone(),
            clusters: move || clusters.content_clusters(),
            stats: move |key| (own_key.key() == Some(key)).then(|| own()),
        };
        let state = |State(stats): State<Arc<dyn Fn() -> NodeStats + Send + Sync>>| async move {
            let stats = serde_json::to_string(&stats()).unwrap_or_default();
            ([(hyper::header::CONTENT_TYPE, "application/json;charset=utf-8")], stats)
        };
        let stats: Arc<dyn Fn() -> NodeStats + Send + Sync> = stats;
        let data = Router::new().route("/state/v1/cluster", get(state)).with_state(stats);
        let shown: Arc<dyn OperatedCluster> = Arc::new(shown);
        (data.merge(rest::reading_router(Arc::clone(&shown))), rest::router(shown))
    }

    /// Makes the application of a fresh cluster the active one, if it works; an existing application stays.
    ///
    /// # Errors
    /// Coordination cannot be reached; the application is rejected.
    pub async fn publish_first(
        &self,
        node: &Arc<Node>,
        path: PathBuf,
        draft: ApplicationDraft,
    ) -> Result<(), Error> {
        // The first state from coordination is complete.
        let mut snapshots = self.membership.snapshots();
        let known = tokio::time::timeout(COORDINATION_TIMEOUT, snapshots.changed()).await;
        if known.is_err() {
            let reason = "coordination does not answer; is etcd running at the address that was given?";
            return Err(Error::Cluster(reason.to_owned()));
        }
        if self.membership.package().is_some() {
            return Ok(());
        }
        let (topology, files) = (draft.application.topology(), draft.application.files.clone());
        // Coordination may have been set up again from scratch, under nodes that had an application.
        let dropped = node.removed_by(&draft.application);
        let checking = Arc::clone(node);
        let check = move || checking.check(draft).map_err(|error| error.to_string());
        // Its models may have to be fetched.
        let checked = tokio::task::spawn_blocking(check).await.unwrap_or_else(|error| Err(error.to_string()));
        checked.map_err(|reason| Error::Application { path, reason })?;
        let archive = millrace_node::pack(&files).map_err(|error| Error::Cluster(error.to_string()))?;
        let publication = PackagePublication {
            archive: &archive,
            configuration: &topology,
            generation: 1,
            based_on: 0,
            dropped: &dropped,
        };
        match self.membership.publish(publication).await {
            // Another node was first.
            Ok(_) | Err(millrace_membership::Error::Conflict(_)) => Ok(()),
            Err(error) => Err(Error::Cluster(error.to_string())),
        }
    }

    /// Announces to the others that this node is about to stop, so that they send it no further requests.
    pub async fn stopping(&self) {
        self.membership.stopping().await;
    }

    /// Leaves the cluster.
    pub async fn leave(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(part) = self.part.get() {
            part.stop();
        }
        self.membership.leave().await;
    }
}

/// Checks that a node's documents may be in its part of the cluster. Returns true if its store is empty.
fn check_store(node: &Node, settings: &ClusterSettings) -> Result<bool, Error> {
    let status = node.store().status();
    if millrace_membership::resident(&settings.directory).is_ok_and(|resident| resident.is_none())
        && status.documents > 0
    {
        return Err(Error::Cluster(format!(
            "{} has documents of a node that was alone, which a cluster would not find; give the node an empty data directory, \
             and bring the documents along with millrace visit and millrace feed",
            node.settings().data_dir.display()
        )));
    }
    let is_empty = status.segments == 0 && status.tail_rows == 0 && status.replicas == 0;
    let has_role = |role| settings.roles.contains(&role);
    if has_role(NodeRole::Index) && !has_role(NodeRole::Content) && !is_empty {
        return Err(Error::Cluster(format!(
            "{} has documents, and a node with the role index and without the role content has none: start it with its former roles, \
             retire it and wait until it is empty; then give it an empty data directory",
            node.settings().data_dir.display()
        )));
    }
    Ok(is_empty)
}

/// Starts the tasks of a node of a cluster, which run until it leaves. `cap` is the maximum number of bytes
/// of replicas that it sends and receives in a second.
fn start_tasks(
    node: &Arc<Node>,
    membership: &ClusterMembership,
    part: &Arc<JoinedPart>,
    port: PeerPort,
    cap: Option<u64>,
) -> Vec<JoinHandle<()>> {
    let trust = port.trust.clone();
    let of_content = take_part(Arc::clone(node), membership.clone(), Arc::clone(part), port, cap);
    let of_health = supervision::watch(Arc::clone(node), membership.clone(), Arc::clone(part));
    let of_indexes = declare_indexes(Arc::clone(node), membership.clone());
    let of_packages = follow_packages(Arc::clone(node), membership.clone(), Arc::clone(part));
    let mut tasks = vec![
        tokio::spawn(await_or_exit("the task that takes part in the cluster", of_content)),
        tokio::spawn(await_or_exit("the task that watches over the node's health", of_health)),
        tokio::spawn(await_or_exit("the task that follows the application", of_packages)),
        tokio::spawn(await_or_exit("the task that declares indexes to the leader", of_indexes)),
    ];
    let of_trust = |trust| tokio::spawn(await_or_exit("the task that renews certificates", renew(trust)));
    tasks.extend(trust.map(of_trust));
    tasks
}

async fn take_part(
    node: Arc<Node>,
    membership: ClusterMembership,
    part: Arc<JoinedPart>,
    port: PeerPort,
    cap: Option<u64>,
) {
    let store = node.store().clone();
    let measured = Arc::clone(&node);
    let pace = TransferPace { cap, slowest: Box::new(move || measured.take_slowest().to_vec()) };
    match ContentNode::start(store, membership.clone(), port, pace).await {
        Ok(joined) => {
            if part.set(Arc::clone(&joined)).is_err() {
                tracing::warn!("the node takes part in the cluster already");
            }
            let own = joined.own().key;
            node.set_cluster_view(joined);
            follow_placement(&node, &membership, own).await;
        }
        // With its registration alone it would own buckets that no node serves.
        Err(error) => {
            let reason = format!(
                "it cannot take part in the cluster: {error}; where files are damaged, run `millrace doctor`, and restore \
                 them, or start the node with an empty data directory if other nodes have its replicas"
            );
            supervision::give_up(&reason, &membership, &part).await;
        }
    }
}

/// Applies renewed certificates as soon as they are there.
async fn renew(trust: Arc<NodeTrust>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let trust = Arc::clone(&trust);
        // A panic has been logged.
        let Ok(renewed) = tokio::task::spawn_blocking(move || trust.renew()).await else { continue };
        match renewed {
            Ok(false) => {}
            Ok(true) => tracing::info!("the certificates for other nodes have been renewed"),
            Err(error) => tracing::warn!(%error, "the certificates for other nodes stay as they were"),
        }
    }
}

/// Activates every package that is published.
async fn follow_packages(node: Arc<Node>, membership: ClusterMembership, part: Arc<JoinedPart>) {
    let mut snapshots = membership.snapshots();
    // The application that was active before the node stopped.
    let mut activated = node.generation();
    membership.activated(activated);
    loop {
        let package = snapshots.borrow_and_update().package.clone();
        if let Some(package) = package.filter(|package| package.generation > activated) {
            match activate(&node, &membership, &part, &package).await {
                Ok(()) => {
                    activated = package.generation;
                    membership.activated(activated);
                }
                Err(reason) => {
                    tracing::warn!(
                        generation = package.generation,
                        %reason,
                        "the application is not active here yet"
                    );
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            }
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

/// Reason for which an application that was published is not active on this node yet.
#[derive(Debug, thiserror::Error)]
enum ActivationFault {
    #[error(transparent)]
    Node(#[from] millrace_node::Error),
    #[error(transparent)]
    Package(#[from] millrace_schema::Error),
    #[error(transparent)]
    Membership(#[from] millrace_membership::Error),
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

async fn activate(
    node: &Arc<Node>,
    membership: &ClusterMembership,
    part: &JoinedPart,
    package: &millrace_membership::PublishedPackage,
) -> Result<(), ActivationFault> {
    // Dropped types are processed at once: the package may take minutes to arrive and to be compiled.
    let (dropping, dropped) = (Arc::clone(node), package.dropped.clone());
    let drop_types = move || dropped.iter().try_for_each(|dropped| dropping.drop_types(dropped));
    tokio::task::spawn_blocking(drop_types).await??;
    // A part that starts later reads it from the store.
    if let (Some(part), Some(dropped)) = (part.get(), &package.dropped) {
        part.observe(dropped.newest());
    }
    let archive = membership.fetch(package).await?;
    let (node, generation, dropped) = (Arc::clone(node), package.generation, package.dropped.clone());
    let deploy = move || {
        let draft = ApplicationDraft::from_zip(&archive)?;
        Ok(node.deploy_as(PublishedApplication { draft, generation, dropped })?)
    };
    tokio::task::spawn_blocking(deploy).await?
}
