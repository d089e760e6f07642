//! The two ports of a node.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use millrace_env::ThreadClass;
use millrace_node::Node;
use millrace_trust::Connection;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};

use crate::certificates::log_expiring_forever;
use crate::data_port::DataPort;
use crate::edge::{RequestGuard, SHARED_KEYS, guard};
use crate::elastic_api::ElasticApi;
use crate::{GatewayState, PortError, Settings, config_api, http};

/// Maximum number of connections of nodes that wait to be served: each node makes up to eight, and all of a
/// large cluster may come at once, after a start.
const HANDED_MAX: usize = 512;

/// Intake for connections over which other nodes of the cluster forward requests: each is served like one to
/// the data port.
#[derive(Clone)]
pub struct ForwardedConnections(mpsc::Sender<Connection>);

impl ForwardedConnections {
    /// Serves a connection of a node that has shown its certificate. If the server has stopped, or too many
    /// are waiting, the connection is closed.
    pub fn take(&self, connection: Connection) {
        if let Err(error) = self.0.try_send(connection) {
            tracing::debug!(%error, "a node's connection is not served");
        }
    }
}

/// The ports of a node, bound and ready to be served.
pub struct NodeServer {
    state: Arc<GatewayState>,
    data: TcpListener,
    config: TcpListener,
    elastic: Option<TcpListener>,
    tls: Option<Arc<http::RenewedCertificate>>,
    handed: (ForwardedConnections, mpsc::Receiver<Connection>),
    /// Additional endpoints of other crates: on the data port, and on the deployment port.
    other_routes: (Router, Router),
}

impl NodeServer {
    /// Binds both ports.
    ///
    /// # Errors
    /// A port is taken; the certificate does not work; the access log cannot be written.
    pub async fn bind(node: Arc<Node>, settings: Settings) -> Result<NodeServer, PortError> {
        NodeServer::over(GatewayState::open(node, settings)?).await
    }

    /// Binds the ports of this state.
    pub(crate) async fn over(state: Arc<GatewayState>) -> Result<NodeServer, PortError> {
        let settings = state.settings();
        let tls = settings.tls.clone().map(http::RenewedCertificate::load).transpose()?;
        if let Some(certificate) = &tls {
            state.shows(Arc::clone(certificate));
        }
        let data = listen(SocketAddr::new(settings.listen, settings.port), "--port").await?;
        let config =
            listen(SocketAddr::new(settings.config_listen, settings.config_port), "--config-port").await?;
        let elastic = match settings.elastic_port {
            Some(port) => Some(listen(SocketAddr::new(settings.listen, port), "--elastic-port").await?),
            None => None,
        };
        if let Ok(address) = data.local_addr() {
            state.bound(address.port());
        }
        let (sender, receiver) = mpsc::channel(HANDED_MAX);
        let handed = (ForwardedConnections(sender), receiver);
        Ok(NodeServer { state, data, config, elastic, tls, handed, other_routes: Default::default() })
    }

    /// Settings of the ports.
    pub fn settings(&self) -> &Settings {
        self.state.settings()
    }

    /// Returns the warnings of the node's certificates that expire soon, whenever it is called.
    pub fn certificate_warnings(&self) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
        let state = Arc::clone(&self.state);
        Arc::new(move || state.certificate_warnings())
    }

    /// Addresses of the data port and of the deployment port.
    ///
    /// # Errors
    /// The operating system does not return them.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.data.local_addr()?, self.config.local_addr()?))
    }

    /// Returns true if clients need no credentials.
    pub fn is_open(&self) -> bool {
        self.state.credentials().is_open()
    }

    /// Address of the port of Elasticsearch's interfaces, if there is one.
    ///
    /// # Errors
    /// The operating system does not return it.
    pub fn elastic_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.elastic.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Intake for connections of other nodes.
    pub fn intake(&self) -> ForwardedConnections {
        self.handed.0.clone()
    }

    /// Adds endpoints: to the port for documents and queries, and to the deployment port.
    #[must_use]
    pub fn with_routes(mut self, data: Router, config: Router) -> Self {
        self.other_routes = (data, config);
        self
    }

    /// Serves until `stop` is done; then completes the requests in flight, and closes the store.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.run_and_leave(stop, async {}).await;
    }

    /// Like [`NodeServer::run`], but waits for `leave` before it closes the store, when no request is in
    /// flight any more.
    pub async fn run_and_leave(self, stop: impl Future<Output = ()>, leave: impl Future<Output = ()>) {
        let (stopped, stopping) = watch::channel(false);
        let drain = self.state.settings().drain;
        let renewing = self.tls.clone().map(|certificate| tokio::spawn(certificate.renew_forever()));
        let expiring = tokio::spawn(log_expiring_forever(Arc::clone(&self.state)));
        let tls = self.tls.as_ref().map(http::PortTls::new);
        // The clients that an application declares use its documents, and administer nothing.
        let documents_tls = self.tls.as_ref().zip(tls.as_ref()).map(|(certificate, tls)| {
            let state = Arc::clone(&self.state);
            let is_wanted =
                move || state.declared_clients().is_some_and(|clients| clients.has_certificates());
            tls.requesting_certificates(certificate, Arc::new(is_wanted))
        });
        let state = Arc::clone(&self.state);
        let shared = move || state.cluster().member()?.notes().remove(SHARED_KEYS).map(|note| note.value);
        let credentials = tokio::spawn(Arc::clone(self.state.credentials()).renew_forever(shared));
        let elastic_api = ElasticApi::new(Arc::clone(&self.state), self.elastic_address().ok().flatten());
        let lifecycles = tokio::spawn(Arc::clone(&elastic_api).apply_lifecycles_forever());
        let preparation = tokio::spawn(Arc::clone(&elastic_api).prepare_log_columns_forever());
        let elastic = serve_elastic(ElasticServing {
            listener: self.elastic,
            tls: documents_tls.clone(),
            limits: self.state.port_limits()[0].clone(),
            router: elastic_api.own_port(),
            stop: stopping.clone(),
            drain,
        });
        let data = http::serve_with(
            self.data,
            self.handed.1,
            documents_tls,
            self.state.port_limits()[0].clone(),
            DataPort::new(Arc::clone(&self.state), self.other_routes.0.merge(elastic_api.below_data_port()))
                .into_service(),
            stopping.clone(),
            drain,
        );
        let config = http::serve(
            self.config,
            tls,
            self.state.port_limits()[1].clone(),
            http::routed(config_router(Arc::clone(&self.state), self.other_routes.1)),
            stopping,
            drain,
        );
        let stop = async {
            stop.await;
            // Both servers wait for this; if they have ended by themselves, there is no receiver.
            let _ = stopped.send(true);
        };
        tokio::join!(data, config, elastic, stop);
        renewing.inspect(tokio::task::JoinHandle::abort);
        expiring.abort();
        credentials.abort();
        lifecycles.abort();
        preparation.abort();
        // Nothing waits for an answer any more.
        self.state.node().end_waits();
        leave.await;
        let state = self.state;
        // Closing waits for the disk. A panic in it has been logged; there is nothing left to do then.
        let _ = tokio::task::spawn_blocking(move || state.close()).await;
    }
}

/// The port of Elasticsearch's interfaces, as it is served.
struct ElasticServing {
    listener: Option<TcpListener>,
    tls: Option<http::PortTls>,
    limits: http::PortLimits,
    router: Router,
    stop: watch::Receiver<bool>,
    drain: std::time::Duration,
}

/// Serves the port of Elasticsearch's interfaces, if there is one.
async fn serve_elastic(serving: ElasticServing) {
    let ElasticServing { listener, tls, limits, router, stop, drain } = serving;
    if let Some(listener) = listener {
        http::serve(listener, tls, limits, http::routed(router), stop, drain).await;
    }
}

/// Creates a runtime with `threads` threads that wait for sockets. Callers wait for them, so they are prompt.
/// Threads for work that blocks are not: much of it computes, such as bulks and the compression of answers.
///
/// # Errors
/// The system refuses a thread.
pub fn runtime(threads: usize, name: &str) -> std::io::Result<Runtime> {
    let (threads, started) = (threads.max(1), AtomicUsize::new(0));
    // Those that wait for sockets are started first, all of them.
    let enter_class = move || {
        let is_first = started.fetch_add(1, Ordering::Relaxed) < threads;
        let class = if is_first { ThreadClass::Prompt } else { ThreadClass::Computing };
        class.enter();
    };
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_start(enter_class)
        .enable_all()
        .build()
}

async fn listen(address: SocketAddr, flag: &'static str) -> Result<TcpListener, PortError> {
    TcpListener::bind(address).await.map_err(|source| PortError::Listen { address, flag, source })
}

/// Routes of the config port, with additional ones, all behind the guard.
pub(crate) fn config_router(node: Arc<GatewayState>, others: Router) -> Router {
    let own = config_api::router(Arc::clone(&node)).layer(from_fn(http::compress_response));
    others.merge(own).layer(from_fn_with_state(RequestGuard::new(node), guard))
}
