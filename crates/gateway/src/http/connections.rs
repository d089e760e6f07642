//! The connections of a port: their number, in total and by address, and the end of idle ones.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use hyper::body::Body as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::unread::SentAnswers;

/// Minimum size of a write that counts as a part of a response: the writes of HTTP/2 that keep a connection
/// alive are shorter.
const ANSWER_BYTES_MIN: usize = 256;

/// The open client connections of a port.
pub(crate) struct OpenConnections {
    connections_max: usize,
    per_address_max: usize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    open: AtomicUsize,
    refused: AtomicU64,
}

impl OpenConnections {
    /// Creates the count, with up to `connections_max` connections, of which `per_address_max` may be of one
    /// address.
    pub(crate) fn new(connections_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(OpenConnections {
            connections_max,
            per_address_max,
            by_address: Mutex::default(),
            open: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Admits one more connection from `address`. Returns `None` if the limit is reached, and counts the
    /// refusal.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let mut by_address = self.lock();
        let of_address = by_address.get(&address).copied().unwrap_or(0);
        if self.open.load(Ordering::Relaxed) >= self.connections_max || of_address >= self.per_address_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        by_address.insert(address, of_address + 1);
        self.open.fetch_add(1, Ordering::Relaxed);
        drop(by_address);
        Some(ConnectionPermit { connections: Arc::clone(self), address })
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Number of connections refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Locks the connections by address. Nothing panics while they are locked.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock()
    }
}

/// The place of one open connection, released when it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<OpenConnections>,
    address: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut by_address = self.connections.lock();
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// Activity that keeps a connection open: requests in flight, and response data written.
#[derive(Default)]
pub(crate) struct ConnectionActivity {
    in_flight: AtomicUsize,
    /// Grows with each request that begins or ends, and with response data written.
    steps: AtomicUsize,
    /// True if the latest request has a body.
    has_body: AtomicBool,
    /// Streams and large answers that are being sent.
    answers: SentAnswers,
}

impl ConnectionActivity {
    /// Counts a request as in flight until its response is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlightRequest {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        InFlightRequest(Arc::clone(self))
    }

    /// Notes that the request that begins has a body, or that it has none.
    pub(crate) fn expect_body(&self, has_body: bool) {
        self.has_body.store(has_body, Ordering::Relaxed);
    }

    /// Returns true if the client may still be sending the body of the latest request.
    pub(crate) fn may_be_receiving_body(&self) -> bool {
        self.has_body.load(Ordering::Relaxed)
    }

    /// Returns once the connection was inactive for `first` before the first request, or for `idle` after it.
    /// Until then, ends answers that the client does not read for `idle`, or up to twice as long. Returns
    /// also if parts of such answers are still there after that time, and `needs_memory`.
    pub(crate) async fn idle(&self, first: Duration, idle: Duration, needs_memory: impl Fn() -> bool) {
        let (mut steps, mut since) = (0, Instant::now());
        loop {
            let limit = if steps == 0 { first } else { idle };
            tokio::time::sleep_until(since + limit).await;
            if self.answers.keep_ended() && needs_memory() {
                tracing::info!("a connection is closed: it keeps answers that its client does not read");
                return;
            }
            let unread = self.answers.end_unread(idle);
            if unread > 0 {
                tracing::info!(unread, "answers ended early: their client does not read them");
            }
            let now = self.steps.load(Ordering::Relaxed);
            if self.in_flight.load(Ordering::Relaxed) > 0 || now != steps {
                // A client that is inactive from here on has up to twice its time: the clock is read only
                // here.
                (steps, since) = (now.max(1), Instant::now());
            } else {
                return;
            }
        }
    }
}

/// A request in flight.
pub(crate) struct InFlightRequest(Arc<ConnectionActivity>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InFlightRequest {
    /// Returns the response, with which the request ends if it is in memory and has fewer than `bytes_min`
    /// bytes: its writing is noted separately.
    /// A stream, which may be silent for long, is in flight whenever the client waits for the server.
    pub(crate) fn until_answered(self, response: Response, bytes_min: u64) -> Response {
        if response.body().size_hint().exact().is_some_and(|bytes| bytes < bytes_min) {
            return response;
        }
        response.map(|body| self.0.answers.send(body, Arc::clone(&self.0)))
    }
}

/// A stream that notes written response data.
pub(crate) struct WatchedConnection<S> {
    pub(crate) stream: S,
    pub(crate) activity: Arc<ConnectionActivity>,
}

impl<S> WatchedConnection<S> {
    fn note(&self, written: &Poll<std::io::Result<usize>>) {
        if let Poll::Ready(Ok(ANSWER_BYTES_MIN..)) = written {
            self.activity.steps.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(&written);
        written
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use hyper::body::Bytes;

    use super::*;

    /// Size of the answers that are watched.
    const BYTES_MIN: u64 = 1000;

    #[test]
    fn an_address_has_its_share_and_all_have_their_number() {
        let connections = OpenConnections::new(3, 2);
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let first = connections.admit(one).expect("there is room");
        let _second = connections.admit(one).expect("there is room");
        assert!(connections.admit(one).is_none(), "an address has two");
        let _third = connections.admit(other).expect("another has its own");
        assert!(connections.admit(other).is_none(), "three are all");
        drop(first);
        let _fourth = connections.admit(other).expect("one has ended");
        assert_eq!((connections.open(), connections.refused()), (3, 2));
    }

    #[tokio::test]
    async fn a_connection_is_idle_when_nothing_is_in_progress() {
        let (first, idle) = (Duration::from_millis(5), Duration::from_millis(10));
        // Nothing ever happens on it.
        ConnectionActivity::default().idle(first, idle, || false).await;
        let activity = Arc::new(ConnectionActivity::default());
        let request = activity.begin();
        let many_times_idle = tokio::time::timeout(idle * 20, activity.idle(first, idle, || false)).await;
        assert!(many_times_idle.is_err(), "a request is in flight");
        drop(request);
        activity.idle(first, idle, || false).await;
    }

    #[tokio::test]
    async fn a_stream_is_in_progress_while_its_client_waits() {
        let activity = Arc::new(ConnectionActivity::default());
        let in_flight = || activity.in_flight.load(Ordering::Relaxed);
        let in_memory = activity.begin().until_answered(Response::new(Body::from("answer")), BYTES_MIN);
        assert_eq!(in_flight(), 0);
        let (mut sender, stream) =
            http_body_util::channel::Channel::<Bytes, std::convert::Infallible>::new(1);
        let mut streamed = activity.begin().until_answered(Response::new(Body::new(stream)), BYTES_MIN);
        assert_eq!(in_flight(), 0, "the client has not asked for anything of it");
        let silent = tokio::time::timeout(Duration::from_millis(1), streamed.body_mut().frame()).await;
        assert!(silent.is_err());
        assert_eq!(in_flight(), 1);
        sender.send_data(Bytes::from("part")).await.expect("the client is there");
        assert!(streamed.body_mut().frame().await.is_some_and(|frame| frame.is_ok()));
        assert_eq!(in_flight(), 0, "the client may take its time");
        drop((in_memory, streamed));
        assert_eq!(in_flight(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_ends_beside_another_request() {
        let (first, idle) = (Duration::from_millis(5), Duration::from_millis(10));
        let activity = Arc::new(ConnectionActivity::default());
        let _other = activity.begin();
        let (mut sender, stream) =
            http_body_util::channel::Channel::<Bytes, std::convert::Infallible>::new(1);
        let _unread = activity.begin().until_answered(Response::new(Body::new(stream)), BYTES_MIN);
        let maker = async { while sender.send_data(Bytes::from("part")).await.is_ok() {} };
        tokio::select! {
            () = activity.idle(first, idle, || false) => panic!("a request is in flight"),
            () = maker => {}
        }
    }

    #[tokio::test]
    async fn a_connection_that_keeps_an_ended_answer_closes_if_its_memory_is_needed() {
        let (first, idle) = (Duration::from_millis(5), Duration::from_millis(10));
        let activity = Arc::new(ConnectionActivity::default());
        let _other = activity.begin();
        let (_sender, stream) = http_body_util::channel::Channel::<Bytes, std::convert::Infallible>::new(1);
        let _unread = activity.begin().until_answered(Response::new(Body::new(stream)), BYTES_MIN);
        let is_idle = tokio::time::timeout(idle * 20, activity.idle(first, idle, || false)).await;
        assert!(is_idle.is_err(), "another request is in flight");
        activity.idle(first, idle, || true).await;
    }
}
