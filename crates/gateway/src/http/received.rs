//! Bodies that are refused before they were received.
//!
//! The server closes an HTTP/1 connection after such a response, unless the body is small, since the rest of
//! it stands before the next request. It says so, or a client that keeps its connections would send its next
//! request on this one, and lose it.
//!
//! Over HTTP/2 a refusal may come before the body. Some clients, such as curl 7.88, lose an answer that is
//! complete before they have sent theirs, so the rest of a small body is awaited for a while.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::{Request, StatusCode, Version};
use parking_lot::Mutex;

/// Length in bytes up to which the rest of a body is read and discarded, so that its connection stays open.
const DISCARDED_BYTES_MAX: u64 = 16 << 10;

/// Time for which the rest of a small body is awaited before a refusal over HTTP/2.
const REST_TIMEOUT: Duration = Duration::from_millis(500);

/// Knowledge about the body of a request when its response begins.
#[derive(Clone)]
pub(super) struct BodyReception {
    /// True if the body was received, or is small.
    is_whole: Arc<AtomicBool>,
    version: Version,
    /// Place of a small body over HTTP/2 that is given up before its end.
    rest: Option<UnreceivedBody>,
}

/// Place of a body that is given up before its end.
type UnreceivedBody = Arc<Mutex<Option<Incoming>>>;

impl BodyReception {
    pub(super) fn new(request: &Request<Incoming>) -> Self {
        let body = request.body();
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= DISCARDED_BYTES_MAX);
        let is_whole = Arc::new(AtomicBool::new(is_small || body.is_end_stream()));
        // A client that expects to be asked for its body does not send it before.
        let is_sent = !body.is_end_stream() && !request.headers().contains_key(EXPECT);
        let is_awaited = is_small && is_sent && request.version() == Version::HTTP_2;
        BodyReception { is_whole, version: request.version(), rest: is_awaited.then(UnreceivedBody::default) }
    }

    /// Returns the body, whose end is noted.
    pub(super) fn note(&self, body: Incoming) -> Body {
        if let Some(rest) = &self.rest {
            return Body::new(AwaitedBody { body: Some(body), rest: Arc::clone(rest) });
        }
        if self.is_whole.load(Ordering::Relaxed) {
            return Body::new(body);
        }
        Body::new(EndTrackedBody { body, is_whole: Arc::clone(&self.is_whole) })
    }

    /// Adds `connection: close` to a refusal if the body has not been received. Other responses may begin
    /// before their requests end.
    pub(super) fn announce_close(&self, response: &mut Response) {
        let is_left = !self.is_whole.load(Ordering::Relaxed);
        if is_left && self.version <= Version::HTTP_11 && is_refusal(response.status()) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Receives the rest of a small body before a refusal over HTTP/2, if it comes soon.
    pub(super) async fn receive_rest(&self, status: StatusCode) {
        if !is_refusal(status) {
            return;
        }
        let Some(mut body) = self.rest.as_ref().and_then(|rest| rest.lock().take()) else { return };
        let received = async { while let Some(Ok(_)) = body.frame().await {} };
        // The refusal is sent in any case.
        let _ = tokio::time::timeout(REST_TIMEOUT, received).await;
    }
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// A small body, which is kept if it is given up before its end.
struct AwaitedBody {
    /// `None` once it is given up.
    body: Option<Incoming>,
    rest: UnreceivedBody,
}

impl HttpBody for AwaitedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        *self.rest.lock() = self.body.take().filter(|body| !body.is_end_stream());
    }
}

struct EndTrackedBody {
    body: Incoming,
    is_whole: Arc<AtomicBool>,
}

impl HttpBody for EndTrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_whole.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
