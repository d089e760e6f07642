//! `millrace serve`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use millrace_cluster::CLUSTER_DIRECTORY;
use millrace_env::write_standard_error;
use millrace_gateway::{NodeServer, Settings};
use millrace_membership::rest::{self, OperatedCluster, SingleNodeStatus};
use millrace_membership::{BucketStats, NodeStats};
use millrace_node::Node;
use millrace_schema::ApplicationDraft;
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::{ClusterNode, ClusterSettings};
use crate::error::Error;
use crate::file_limit;
use crate::settings::{ResolvedSettings, ServeArguments, log_filter};

/// Time until the process ends for computations whose clients have gone, such as a deployment. Ending them is
/// as safe as a power failure.
const UNHEARD: Duration = Duration::from_secs(2);

/// Number of threads for communication between the nodes of a cluster and with coordination.
const MEMBERSHIP_THREADS: usize = 2;

/// Serves until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments) -> Result<ExitCode, Error> {
    let ResolvedSettings { mut settings, app, cluster, passed_over, log } = arguments.resolve()?;
    log_to_standard_error(&log)?;
    // Files written here are accessible to their user only: documents, and texts of queries.
    umask(Mode::RWXG | Mode::RWXO);
    if !passed_over.is_empty() {
        tracing::warn!(
            settings = passed_over.join(", "),
            "the node is alone, and passes over settings that count in a cluster; add --cluster etcd://HOST:2379, or take them out"
        );
    }
    settings.node.open_files_max = file_limit::raise();
    // At most a quarter of the files that the process may open: segments use half.
    settings.limits.connections_max = settings.limits.connections_max.min(settings.node.open_files_max / 2);
    let workers = settings.node.threads;
    settings.trust = cluster.as_ref().map(ClusterSettings::trust).transpose()?.flatten();
    if cluster.is_none() {
        check_standalone(&settings.node.data_dir)?;
    }
    let node = Node::open(settings.node.clone())?;
    let package = app.map(|path| StartPackage::read(path, &node)).transpose()?;
    // Requests of clients have their own threads. Leases, votes and other nodes have others, which no client
    // can block.
    let requests = millrace_gateway::runtime(workers, "serve").map_err(Error::Runtime)?;
    let membership = millrace_gateway::runtime(MEMBERSHIP_THREADS, "member").map_err(Error::Runtime)?;
    let serving = requests.handle().clone();
    let outcome = match &cluster {
        None => package.map_or(Ok(()), |package| package.deploy(&node)).and_then(|()| {
            membership.block_on(async {
                let server = bind(&serving, &node, settings).await?;
                let (of_data, of_config) = standalone_routers(&node, &server)?;
                serve(&serving, server.with_routes(of_data, of_config), None).await
            })
        }),
        Some(cluster) => membership.block_on(async {
            let server = bind(&serving, &node, settings).await?;
            let member = Arc::new(ClusterNode::join(&node, cluster, &server).await?);
            if let Some(StartPackage { path, draft }) = package {
                member.publish_first(&node, path, draft).await?;
            }
            let (of_data, of_config) = member.routers(&node);
            serve(&serving, server.with_routes(of_data, of_config), Some(member)).await
        }),
    };
    requests.shutdown_timeout(UNHEARD);
    membership.shutdown_timeout(UNHEARD);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Binds the ports on the threads that serve their requests.
async fn bind(serving: &Handle, node: &Arc<Node>, settings: Settings) -> Result<NodeServer, Error> {
    let node = Arc::clone(node);
    let bound = serving.spawn(async move { NodeServer::bind(node, settings).await }).await;
    Ok(bound.map_err(|error| Error::Runtime(error.into()))??)
}

fn log_to_standard_error(filter: &str) -> Result<(), Error> {
    let parsed = log_filter(filter)?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A line that cannot be written is lost. It would be reported by `eprintln!`, which panics then.
    let log = tracing_subscriber::fmt().with_env_filter(parsed).log_internal_errors(false);
    log.with_ansi(colours).with_writer(std::io::stderr).init();
    Ok(())
}

/// The application package given at the start.
struct StartPackage {
    path: PathBuf,
    draft: ApplicationDraft,
}

impl StartPackage {
    /// Reads it. On failure, reports all of its errors on this node.
    fn read(path: PathBuf, node: &Node) -> Result<Self, Error> {
        let refused = |reason: String| Error::Application { path: path.clone(), reason };
        let draft = ApplicationDraft::from_dir(&path).map_err(|error| refused(error.to_string()))?;
        if !draft.findings.is_sound() {
            node.check(draft.clone()).map_err(|error| refused(error.to_string()))?;
        }
        Ok(StartPackage { path, draft })
    }

    /// Activates it on a node without a cluster.
    fn deploy(self, node: &Node) -> Result<(), Error> {
        let StartPackage { path, draft } = self;
        node.deploy(draft).map(drop).map_err(|error| Error::Application { path, reason: error.to_string() })
    }
}

/// Serves until a stop signal.
async fn serve(serving: &Handle, server: NodeServer, member: Option<Arc<ClusterNode>>) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    let (data, config) = server.addresses().map_err(Error::Runtime)?;
    let elastic = server.elastic_address().map_err(Error::Runtime)?;
    write_standard_error(format_args!("millrace: documents and queries at {data}, deployment at {config}"));
    if let Some(elastic) = elastic {
        write_standard_error(format_args!("millrace: Elasticsearch's interfaces at {elastic}"));
    }
    let is_open = server.is_open();
    let all = [Some(data), Some(config), elastic].into_iter().flatten();
    let reached = all.filter(|address| !address.ip().to_canonical().is_loopback());
    for address in reached.filter(|_| is_open) {
        tracing::warn!(
            %address,
            "other machines reach this port, and clients need no credentials: each may do all that it offers (--insecure)"
        );
    }
    let leaving = member.clone();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if let Some(member) = member {
            member.stopping().await;
        }
    };
    // Requests in flight may still need the other nodes, and the other nodes this one.
    let leave = async move {
        if let Some(member) = leaving {
            member.leave().await;
        }
    };
    let served = serving.spawn(server.run_and_leave(stop, leave)).await;
    served.map_err(|error| Error::Runtime(error.into()))
}

/// Endpoints that present a node without a cluster in the way Vespa presents a cluster: of the data port, to
/// read only, and of the deployment port.
fn standalone_routers(node: &Arc<Node>, server: &NodeServer) -> Result<(Router, Router), Error> {
    let (data, _) = server.addresses().map_err(Error::Runtime)?;
    let scheme = if server.settings().tls.is_some() { "https" } else { "http" };
    let (of_clusters, of_figures) = (Arc::clone(node), Arc::clone(node));
    let operated: Arc<dyn OperatedCluster> = Arc::new(SingleNodeStatus {
        url: format!("{scheme}://{data}"),
        clusters: move || of_clusters.content_clusters(),
        stats: move || {
            let status = of_figures.store().status();
            let replicas = status.buckets as u64;
            NodeStats {
                buckets: BucketStats { owned: replicas, replicas, incomplete: 0 },
                documents: status.documents,
                bytes: status.segment_bytes + status.tail_bytes,
                ..NodeStats::default()
            }
        },
    });
    Ok((rest::reading_router(Arc::clone(&operated)), rest::router(operated)))
}

/// Refuses to serve the data of a cluster's node alone: writes would never reach the other nodes.
fn check_standalone(data_dir: &Path) -> Result<(), Error> {
    let directory = data_dir.join(CLUSTER_DIRECTORY);
    if !directory.is_dir() {
        return Ok(());
    }
    let resident = millrace_membership::resident(&directory)
        .map_err(|error| Error::Argument(format!("{}: {error}", data_dir.display())))?;
    let Some(name) = resident else { return Ok(()) };
    Err(Error::Argument(format!(
        "{} belongs to {}; start it with --cluster as before, or give this server a data directory of its own. \
         To make it a server that is alone for good, with the replicas that it has, remove {}",
        data_dir.display(),
        if name.is_empty() {
            "a node of a cluster".to_owned()
        } else {
            format!("the node '{name}' of a cluster")
        },
        directory.display()
    )))
}
