//! Forwarding of whole requests to another node, and of its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_node::Error;
use millrace_node::cluster::{ForwardKind, RemoteNode};
use millrace_trust::NodeTrust;

use super::encrypted::TrustedConnector;
use super::hop;
use crate::GatewayState;
use crate::http::{self, BodyBounds, BudgetReservation, NODE_STREAMS_MAX};

/// Headers that belong to one connection, and are not forwarded.
const OF_THE_CONNECTION: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE];

/// Maximum time until a node accepts a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A request that can be sent, several times if necessary.
#[derive(Clone)]
pub(crate) struct ForwardedRequest {
    pub(crate) method: Method,
    /// Path and parameters, as received.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    /// Body, compressed or not, as the headers say.
    pub(crate) body: Bytes,
    /// Bytes that it takes of the budget of bodies, if it came from a client.
    pub(crate) room: Option<Arc<BudgetReservation>>,
}

impl ForwardedRequest {
    /// Reads a request with its whole body.
    ///
    /// # Errors
    /// The body exceeds its bounds, or breaks off.
    pub(crate) async fn read(
        node: &GatewayState,
        request: axum::extract::Request,
        bounds: BodyBounds,
    ) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let (body, share) = http::collect(node, body, bounds).await?.into_parts();
        let room = Some(Arc::new(share));
        Ok(ForwardedRequest { method: parts.method, target, headers: parts.headers, body, room })
    }

    /// Converts it back to a request for this node.
    pub(crate) fn into_request(self) -> axum::extract::Request {
        let mut request = Request::new(Body::from(self.body));
        *request.method_mut() = self.method;
        // The target was received as a URI.
        *request.uri_mut() = self.target.parse().unwrap_or_default();
        *request.headers_mut() = self.headers;
        request
    }
}

/// Connections to other nodes, kept open: to their data ports, or, if nodes have certificates, to the ports
/// for communication between nodes.
pub(crate) struct NodeForwarder {
    /// Connections for answers that this node reads itself, and for those to writes, which are short.
    own: ForwardClients,
    /// Connections for answers that are passed on to clients. An answer that its client does not read keeps a
    /// place among the requests of its connection: many such answers stop only requests of their kind.
    passed_on: ForwardClients,
}

/// Clients of other nodes, in turns. Each has its own connection to each node: one connection carries only a
/// limited number of requests at a time.
struct ForwardClients {
    clients: [ForwardClient; CLIENTS],
    next: AtomicUsize,
}

impl ForwardClients {
    fn new(client: &impl Fn() -> ForwardClient) -> Self {
        ForwardClients { clients: std::array::from_fn(|_| client()), next: AtomicUsize::new(0) }
    }

    fn next(&self) -> &ForwardClient {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % CLIENTS]
    }
}

/// A client of other nodes.
enum ForwardClient {
    Plain(Client<HttpConnector, Body>),
    Encrypted(Client<TrustedConnector, Body>),
}

/// Number of connections to each other node, for each kind of answers.
const CLIENTS: usize = 4;

/// Maximum number of bytes of an answer that another node may send before they are read.
const ANSWER_WINDOW: u32 = 256 << 10;

/// The same for all answers of a connection: some are not read for long, since the clients that they are for
/// do not read, and those must not stop the others. As many as the other node has requests of a connection at
/// a time.
const CONNECTION_WINDOW: u32 = NODE_STREAMS_MAX * ANSWER_WINDOW;

/// Maximum number of bytes of an answer in one frame. The other node writes each frame to the socket by
/// itself, and a small answer waits for no more of a large one.
const ANSWER_FRAME: u32 = 64 << 10;

impl NodeForwarder {
    pub(crate) fn new(trust: Option<Arc<NodeTrust>>) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .http2_only(true)
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(Duration::from_secs(5))
            .http2_keep_alive_timeout(Duration::from_secs(5))
            .http2_max_frame_size(ANSWER_FRAME)
            .http2_initial_stream_window_size(ANSWER_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW);
        let client = || match &trust {
            Some(trust) => ForwardClient::Encrypted(builder.build(TrustedConnector(Arc::clone(trust)))),
            None => {
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
                ForwardClient::Plain(builder.build(connector))
            }
        };
        NodeForwarder { own: ForwardClients::new(&client), passed_on: ForwardClients::new(&client) }
    }

    /// Sends a request to a node. The answer's body is passed on as it arrives.
    ///
    /// # Errors
    /// The node cannot be reached: [`Error::Unreachable`], which tells if the node may have seen the request.
    pub(crate) async fn send(
        &self,
        remote: &RemoteNode,
        request: ForwardedRequest,
        stage: &ForwardKind,
    ) -> Result<Response, Error> {
        let ForwardedRequest { method, target, headers, body, room: _room } = request;
        self.stream(remote, method, &target, headers, Body::from(body), stage).await
    }

    /// Sends a request whose body is still being written.
    ///
    /// # Errors
    /// Those of [`NodeForwarder::send`].
    pub(crate) async fn stream(
        &self,
        remote: &RemoteNode,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Body,
        stage: &ForwardKind,
    ) -> Result<Response, Error> {
        let unreachable =
            |reason: String, sent| Error::Unreachable { address: remote.address.clone(), reason, sent };
        let uri: Uri = format!("http://{remote}{target}")
            .parse()
            .map_err(|error: hyper::http::uri::InvalidUri| unreachable(error.to_string(), false))?;
        let clients = if is_passed_on(&method, target, stage) { &self.passed_on } else { &self.own };
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = method;
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        for name in OF_THE_CONNECTION {
            outgoing.headers_mut().remove(name);
        }
        hop::mark(outgoing.headers_mut(), remote, stage);
        let answer = match clients.next() {
            ForwardClient::Plain(client) => client.request(outgoing).await,
            ForwardClient::Encrypted(client) => client.request(outgoing).await,
        };
        let answer = answer.map_err(|error| {
            let sent = !error.is_connect() && !was_not_processed(&error);
            unreachable(millrace_env::text_with_causes(&error), sent)
        })?;
        Ok(answer.map(|body| Body::new(body.map_err(axum::Error::new))))
    }
}

/// True if the answer to a request is for a client, which may read it slowly, and can be long.
fn is_passed_on(method: &Method, target: &str, stage: &ForwardKind) -> bool {
    *stage != ForwardKind::Share && (*method == Method::GET || target.starts_with("/search/"))
}

/// True if the other node has reported that it has not processed the request: it is stopping, or has too many
/// at a time. Such a request of any kind can be sent to another node.
fn was_not_processed(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let stops = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        let refuses = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (stops || refuses)
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use millrace_cluster::{Incarnation, NodeKey};
    use tokio::net::TcpListener;
    use tokio::sync::watch;

    use super::*;
    use crate::{PortLimits, RequestLimits};

    /// Answers of each connection that are not read.
    const UNREAD: usize = 16;

    /// A node with a large and a small answer, of which a connection carries so many at a time.
    async fn other_node(streams_max: u32) -> (RemoteNode, watch::Sender<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let large = || async { vec![0; 1 << 20] };
        let endpoints = Router::new().route("/large", get(large)).route("/small", get(|| async { "small" }));
        let (running, stop) = watch::channel(false);
        let limits = PortLimits::new(&RequestLimits { streams_max, ..RequestLimits::default() });
        tokio::spawn(crate::serve(listener, None, limits, crate::routed(endpoints), stop, Duration::ZERO));
        let protocol = millrace_cluster::PROTOCOL;
        (RemoteNode { address, incarnation: Incarnation::NEVER, protocol }, running)
    }

    async fn ask(
        forwarder: &NodeForwarder,
        remote: &RemoteNode,
        path: &str,
        stage: &ForwardKind,
    ) -> Response {
        let answer =
            forwarder.stream(remote, Method::GET, path, HeaderMap::new(), Body::empty(), stage).await;
        answer.expect("it is answered")
    }

    /// Asks for the small answer over each connection for answers that the node reads.
    async fn check_others(forwarder: &NodeForwarder, remote: &RemoteNode) {
        for _ in 0..CLIENTS {
            let small = async {
                let answer = ask(forwarder, remote, "/small", &ForwardKind::Share).await;
                answer.into_body().collect().await.expect("it is whole").to_bytes()
            };
            let small = tokio::time::timeout(Duration::from_secs(60), small).await;
            assert_eq!(small.expect("the others do not stop it"), "small");
        }
    }

    #[tokio::test]
    async fn answers_that_are_not_read_do_not_stop_others_of_their_connection() {
        let (remote, _running) = other_node(128).await;
        let forwarder = NodeForwarder::new(None);
        let mut unread = Vec::new();
        for _ in 0..UNREAD * CLIENTS {
            unread.push(ask(&forwarder, &remote, "/large", &ForwardKind::Share).await);
        }
        check_others(&forwarder, &remote).await;
        for answer in unread {
            let bytes = answer.into_body().collect().await.expect("it is whole").to_bytes();
            assert_eq!(bytes.len(), 1 << 20);
        }
    }

    #[tokio::test]
    async fn answers_that_clients_do_not_read_stop_none_that_the_node_reads() {
        let (remote, _running) = other_node(UNREAD as u32).await;
        let forwarder = NodeForwarder::new(None);
        let mut unread = Vec::new();
        // As many as the other node answers at a time.
        for _ in 0..UNREAD * CLIENTS {
            unread.push(ask(&forwarder, &remote, "/large", &ForwardKind::Owner(NodeKey(1), None)).await);
        }
        check_others(&forwarder, &remote).await;
    }

    #[test]
    fn long_answers_for_clients_have_connections_of_their_own() {
        let owner = ForwardKind::Owner(NodeKey(1), None);
        let visit = "/document/v1/mail/mail/group/ann/?stream=true";
        for (method, target, stage, expected) in [
            (Method::GET, visit, &owner, true),
            (Method::DELETE, visit, &owner, false),
            (Method::POST, "/search/", &owner, true),
            (Method::POST, "/search/", &ForwardKind::Share, false),
            (Method::POST, "/feed/v1?timeout=5s", &owner, false),
            (Method::POST, "/state/v1/cluster/documents", &ForwardKind::Share, false),
        ] {
            assert_eq!(is_passed_on(&method, target, stage), expected, "{method} {target}");
        }
    }
}
