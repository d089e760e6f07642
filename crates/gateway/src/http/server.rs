//! Connections: HTTP/1.1 and HTTP/2 (prior knowledge or ALPN) on one port, with or without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use millrace_trust::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::access_log::Peer;

/// Bytes of the head of a request: request line and headers.
const HEAD_BYTES_MAX: usize = 512 << 10;

/// Requests that one HTTP/2 connection may have under way.
const STREAMS_MAX: u32 = 1024;

/// Time that a client has for a TLS handshake, or the head of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// What answers the requests of a port; it always does.
pub trait Answers:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// The answers of a router.
pub fn routed(router: Router) -> TowerToHyperService<Router> {
    TowerToHyperService::new(router)
}

/// Serves `service` at `listener` until `stop` turns true; then refuses new connections and lets requests under way end within `drain`.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: impl Answers,
    stop: watch::Receiver<bool>,
    drain: Duration,
) {
    let (_, handed) = mpsc::channel(1);
    serve_with(listener, handed, tls, service, stop, drain).await;
}

/// The same, and over connections that nodes of the cluster have made elsewhere and that are `handed` in.
pub(crate) async fn serve_with(
    listener: TcpListener,
    mut handed: mpsc::Receiver<Connection>,
    tls: Option<TlsAcceptor>,
    service: impl Answers,
    mut stop: watch::Receiver<bool>,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => accept(stream, address, tls.clone(), service.clone(), &graceful),
                Err(error) => {
                    // Out of file descriptors, mostly: connections that end will free some.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(connection) = handed.recv() => take(connection, service.clone(), &graceful),
        }
    }
    drop((listener, handed));
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the time to end them was over");
    }
}

/// Returns when `stop` is true. Its sender being gone is a stop too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn accept(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    service: impl Answers,
    graceful: &GracefulShutdown,
) {
    let peer = Peer { address, tls: tls.is_some(), is_node: false };
    // Without it small answers would wait for acknowledgements of earlier ones; a failure costs only that.
    let _ = stream.set_nodelay(true);
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        match tls {
            None => connection(stream, peer, service, watcher).await,
            Some(acceptor) => match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => connection(stream, peer, service, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
    });
}

/// Serves a node of the cluster, which has shown its certificate.
fn take(stream: Connection, service: impl Answers, graceful: &GracefulShutdown) {
    let Ok(address) = stream.get_ref().0.peer_addr() else { return };
    let peer = Peer { address, tls: true, is_node: true };
    tokio::spawn(connection(stream, peer, service, graceful.watcher()));
}

async fn connection<S>(stream: S, peer: Peer, service: impl Answers, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(8 << 20);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        service.call(request)
    });
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
