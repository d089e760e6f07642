//! Bodies that are refused before they were received.
//!
//! The server closes an HTTP/1 connection after such a response, unless the body is small, since the rest of
//! it stands before the next request. It says so, or a client that keeps its connections would send its next
//! request on this one, and lose it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Version};

/// Length in bytes up to which the rest of a body is read and discarded, so that its connection stays open.
const DISCARDED_BYTES_MAX: u64 = 16 << 10;

/// Knowledge about the body of a request when its response begins.
#[derive(Clone)]
pub(super) struct BodyReception {
    /// True if the body was received, or is small.
    is_whole: Arc<AtomicBool>,
    version: Version,
}

impl BodyReception {
    pub(super) fn of(request: &Request<Incoming>) -> Self {
        let body = request.body();
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= DISCARDED_BYTES_MAX);
        let is_whole = Arc::new(AtomicBool::new(is_small || body.is_end_stream()));
        BodyReception { is_whole, version: request.version() }
    }

    /// Returns the body, whose end is noted.
    pub(super) fn note(&self, body: Incoming) -> Body {
        if self.is_whole.load(Ordering::Relaxed) {
            return Body::new(body);
        }
        Body::new(NotedBody { body, is_whole: Arc::clone(&self.is_whole) })
    }

    /// Adds `connection: close` to a refusal if the body has not been received. Other responses may begin
    /// before their requests end.
    pub(super) fn announce_close(&self, response: &mut Response) {
        let is_refusal = response.status().is_client_error() || response.status().is_server_error();
        if is_refusal && self.version <= Version::HTTP_11 && !self.is_whole.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct NotedBody {
    body: Incoming,
    is_whole: Arc<AtomicBool>,
}

impl HttpBody for NotedBody {
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
