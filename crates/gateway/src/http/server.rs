//! Connections: HTTP/1.1 and HTTP/2 (prior knowledge or ALPN) on one port, with or without TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use millrace_trust::Connection;
use rustix::net::sockopt;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::answer::{COUNTED_BYTES_MIN, counted, counted_bytes_min, refusal};
use super::budget::{BudgetReservation, RequestBudget};
use super::connections::{ConnectionActivity, ConnectionPermit, OpenConnections, WatchedConnection};
use super::json;
use super::lingering::LingeringConnection;
use super::received::BodyReception;
use super::stream::PortStream;
use super::tls::{PortTls, shown_certificate};
use crate::RequestLimits;
use crate::access_log::ConnectionPeer;
use crate::document_api::feed::streams_max;

/// Maximum size of the head of a request (request line and headers), in bytes.
const HEAD_BYTES_MAX: usize = 128 << 10;

/// Maximum number of headers of a request over HTTP/2, where a header that was sent before takes a byte. Over
/// HTTP/1 it is 100 (hyper); here a client may send each cookie as a header.
const HEADERS_MAX: usize = 256;

/// Maximum number of bytes of a body that a client may send over HTTP/2 before the server has read them.
const STREAM_WINDOW: u32 = 64 << 10;

/// The same for other nodes, which send documents in few streams.
const NODE_STREAM_WINDOW: u32 = 256 << 10;

/// Number of bodies that are received at full speed over a connection on which all streams stand still.
const SPARE_WINDOWS: u32 = 4;

/// Bytes of an answer that wait in the buffers of an HTTP/2 connection until its client takes them; one frame
/// more of the answer may be there. Other nodes read what they ask for, and get much of it at a time.
const SEND_BUFFER: usize = 64 << 10;
const NODE_SEND_BUFFER: usize = 400 << 10;

/// Interval of keep-alive pings on an HTTP/2 connection, and the time limit of an answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Time without data after which the system asks a client whether it is still there, the interval at which it
/// asks again, and the number of questions without an answer after which the connection ends.
const PROBES: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Maximum number of requests in flight on one HTTP/2 connection of another node.
pub(crate) const NODE_STREAMS_MAX: u32 = 1024;

/// The limits of a port's connections.
#[derive(Clone)]
pub struct PortLimits {
    pub(crate) connections: Arc<OpenConnections>,
    /// Maximum number of requests in flight on one HTTP/2 connection.
    pub(crate) streams_max: u32,
    /// Maximum number of requests at a time whose bodies may stand still for long.
    pub(crate) slow_bodies_max: u32,
    /// Time limit of a client's TLS handshake, its first request, or the head of any.
    pub(crate) head_timeout: Duration,
    /// Time that a connection stays open without a request.
    pub(crate) idle: Duration,
    /// Memory of the answers, if it is bounded.
    pub(crate) answers: Option<Arc<RequestBudget>>,
}

impl PortLimits {
    /// Windows of an HTTP/2 connection: of one body, and of all of them.
    ///
    /// A body that the server does not read keeps its window, and so a part of that of the connection. The
    /// latter is larger than all bodies can keep that may stand still for long, or a client could stop the
    /// requests of others that a proxy sends over the same connection. Other bodies are read, or refused
    /// within the time that a request waits for room.
    fn windows(&self, is_node: bool) -> (u32, u32) {
        let of_body = if is_node { NODE_STREAM_WINDOW } else { STREAM_WINDOW };
        (of_body, self.slow_bodies_max.saturating_add(SPARE_WINDOWS).saturating_mul(of_body))
    }

    /// Limits of each port, by the settings.
    pub fn new(limits: &RequestLimits) -> Self {
        PortLimits {
            connections: OpenConnections::new(limits.connections_max, limits.connections_per_address_max),
            streams_max: limits.streams_max,
            slow_bodies_max: u32::try_from(streams_max(limits.bodies_bytes_max)).unwrap_or(u32::MAX),
            head_timeout: limits.head_timeout,
            idle: limits.connection_idle,
            answers: None,
        }
    }
}

/// The answer of a port, as it is made.
pub(crate) type PortAnswer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// A service that answers the requests of a port, and always does. All ports have the same type, so that the
/// code that serves connections, which is large, exists once.
pub type PortService = Arc<dyn Fn(Request<Body>) -> PortAnswer + Send + Sync>;

/// Wraps a router as a service.
pub fn routed(router: Router) -> PortService {
    let service = TowerToHyperService::new(router);
    Arc::new(move |request: Request<Body>| -> PortAnswer { Box::pin(service.call(request)) })
}

/// Serves `service` at `listener` until `stop` turns true; then refuses new connections and lets requests in
/// flight end within `drain`.
pub async fn serve(
    listener: TcpListener,
    tls: Option<PortTls>,
    limits: PortLimits,
    service: PortService,
    stop: watch::Receiver<bool>,
    drain: Duration,
) {
    let (_, handed) = mpsc::channel(1);
    serve_with(listener, handed, tls, limits, service, stop, drain).await;
}

/// Like [`serve`], also over connections that nodes of the cluster have made elsewhere and that are `handed`
/// in.
pub(crate) async fn serve_with(
    listener: TcpListener,
    mut handed: mpsc::Receiver<Connection>,
    tls: Option<PortTls>,
    limits: PortLimits,
    service: PortService,
    mut stop: watch::Receiver<bool>,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => match limits.connections.admit(address.ip()) {
                    Some(place) => {
                        let client = ServedClient { address, place, limits: limits.clone() };
                        accept(stream, client, tls.clone(), Arc::clone(&service), &graceful);
                    }
                    // The refusal is counted, and the client sees that the connection has ended.
                    None => tracing::debug!(%address, "a connection more than there may be was closed"),
                },
                Err(error) => {
                    // Out of file descriptors, mostly: connections that end will free some.
                    tracing::warn!(%error, "a connection could not be accepted; raise the limit of open files (ulimit -n)");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(connection) = handed.recv() => take(connection, &limits, Arc::clone(&service), &graceful),
        }
    }
    drop((listener, handed));
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still in flight when the time to end them was over; raise drain-s");
    }
}

/// Returns when `stop` is true, or when its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A connected client.
struct ServedClient {
    address: SocketAddr,
    place: ConnectionPermit,
    limits: PortLimits,
}

fn accept(
    stream: TcpStream,
    client: ServedClient,
    tls: Option<PortTls>,
    service: PortService,
    graceful: &GracefulShutdown,
) {
    let ServedClient { address, place, limits } = client;
    let local_port = stream.local_addr().map_or(0, |address| address.port());
    let peer = ConnectionPeer { address, local_port, tls: tls.is_some(), is_node: false, certificate: None };
    // Without it small responses would wait for acknowledgements of earlier ones; a failure costs only that.
    let _ = stream.set_nodelay(true);
    if let Err(error) = probe(&stream) {
        tracing::debug!(%error, "a client that vanishes will not be noticed while it is to be silent");
    }
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        let _place = place;
        match tls {
            None => connection(PortStream::Plain(stream), peer, limits, service, watcher).await,
            Some(tls) => {
                match tokio::time::timeout(limits.head_timeout, tls.acceptor().accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let peer = ConnectionPeer { certificate: shown_certificate(&stream), ..peer };
                        let stream = PortStream::Encrypted(Box::new(Connection::Server(stream)));
                        connection(stream, peer, limits, service, watcher).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            }
        }
    });
}

/// Lets the system look whether the client is still there while neither side sends: a machine that was
/// switched off ends no connection.
fn probe(stream: &TcpStream) -> io::Result<()> {
    let (after, interval, count) = PROBES;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, after)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, count)?;
    Ok(())
}

/// Serves a node of the cluster, which has shown its certificate.
fn take(stream: Connection, limits: &PortLimits, service: PortService, graceful: &GracefulShutdown) {
    let socket = stream.get_ref().0;
    let Ok(address) = socket.peer_addr() else { return };
    let local_port = socket.local_addr().map_or(0, |address| address.port());
    let peer = ConnectionPeer { address, local_port, tls: true, is_node: true, certificate: None };
    let limits = PortLimits { streams_max: NODE_STREAMS_MAX, ..limits.clone() };
    let stream = PortStream::Encrypted(Box::new(stream));
    tokio::spawn(connection(stream, peer, limits, service, graceful.watcher()));
}

async fn connection(
    stream: PortStream,
    peer: ConnectionPeer,
    limits: PortLimits,
    service: PortService,
    watcher: Watcher,
) {
    let activity = Arc::new(ConnectionActivity::default());
    let stream = LingeringConnection::new(stream, Arc::clone(&activity));
    let stream = WatchedConnection { stream, activity: Arc::clone(&activity) };
    let noted = Arc::clone(&activity);
    // Other nodes read what they ask for.
    let budget = limits.answers.clone().filter(|_| !peer.is_node);
    let memory = budget.clone();
    let needs_memory = || memory.as_ref().is_some_and(|budget| budget.needs_answers());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let in_flight = noted.begin();
        noted.expect_body(!request.body().is_end_stream());
        request.extensions_mut().insert(peer);
        let reception = BodyReception::new(&request);
        let bytes_min = if peer.is_node { COUNTED_BYTES_MIN } else { counted_bytes_min(request.version()) };
        let head = if peer.is_node { Ok(None) } else { admit_head(budget.as_ref(), &request) };
        let request = request.map(|body| reception.note(body));
        let (answer, head) = match head {
            Ok(head) => (Ok(service(request)), head),
            Err(refusal) => (Err(refusal), None),
        };
        let budget = budget.clone();
        async move {
            let mut answer = match answer {
                Ok(answer) => answer.await?,
                Err(refusal) => *refusal,
            };
            drop(head);
            reception.announce_close(&mut answer);
            reception.receive_rest(answer.status()).await;
            let answer = match &budget {
                Some(budget) => counted(budget, answer, bytes_min).await,
                None => answer,
            };
            Ok::<_, Infallible>(in_flight.until_answered(answer, bytes_min))
        }
    });
    let builder = protocols(&limits, peer.is_node);
    let served = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::select! {
        served = served => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended with an error");
        },
        // Other nodes keep their connections for the next request.
        () = activity.idle(limits.head_timeout, limits.idle, needs_memory), if !peer.is_node => {
            tracing::debug!("a connection was closed by the server");
        }
    }
}

/// Both versions of HTTP, with the bounds of a connection of a client or of another node.
fn protocols(limits: &PortLimits, is_node: bool) -> Builder<TokioExecutor> {
    let (body_window, window) = limits.windows(is_node);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .initial_stream_window_size(body_window)
        .initial_connection_window_size(window)
        .max_send_buf_size(if is_node { NODE_SEND_BUFFER } else { SEND_BUFFER });
    builder
}

/// Checks the head of a request of a client, and counts it if it is large. What is refused is in memory for
/// no longer than that takes.
///
/// # Errors
/// The refusal of the request.
fn admit_head<B>(
    budget: Option<&Arc<RequestBudget>>,
    request: &Request<B>,
) -> Result<Option<BudgetReservation>, Box<Response>> {
    let headers = request.headers().len();
    if headers > HEADERS_MAX {
        let message = format!("the request has {headers} headers; at most {HEADERS_MAX} are accepted");
        let message = json!({ "message": message });
        return Err(Box::new(json(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &message)));
    }
    let head = budget.map(|budget| budget.head(request)).transpose();
    head.map(Option::flatten).map_err(|error| Box::new(refusal(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_looks_whether_a_client_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_client, (stream, _)) = (client.expect("it listens"), accepted.expect("a client connects"));
        assert!(!sockopt::socket_keepalive(&stream).expect("an open socket"));
        probe(&stream).expect("an open socket");
        assert!(sockopt::socket_keepalive(&stream).expect("an open socket"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("an open socket"), PROBES.0);
        assert_eq!(sockopt::tcp_keepintvl(&stream).expect("an open socket"), PROBES.1);
        assert_eq!(sockopt::tcp_keepcnt(&stream).expect("an open socket"), PROBES.2);
    }

    #[test]
    fn a_request_has_so_many_headers() {
        let status_of = |headers: usize| {
            let mut request = Request::get("/search/");
            for _ in 0..headers {
                request = request.header("a", "");
            }
            let request = request.body(()).expect("its headers are valid");
            admit_head(None, &request).err().map(|refusal| refusal.status().as_u16())
        };
        assert_eq!(status_of(HEADERS_MAX), None);
        assert_eq!(status_of(HEADERS_MAX + 1), Some(431));
    }
}
