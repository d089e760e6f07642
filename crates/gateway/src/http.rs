//! HTTP itself: connections, bodies, compression, and the parts of a request that several endpoints parse.

mod answer;
mod body;
mod budget;
mod compression;
mod connections;
mod frames;
mod gauges;
mod lines;
mod lingering;
mod parameters;
mod received;
mod server;
mod stream;
mod tls;
mod unread;

pub(crate) use answer::{UncountedAnswer, checked, counted_page, observed};
pub(crate) use body::{
    BodyBounds, BodyReader, OutgoingBodyError, ReadBody, check_ratio, collect, read_body, unpacked_bytes,
};
pub(crate) use budget::{AnswerShare, BudgetBounds, BudgetReservation, RequestBudget};
pub(crate) use compression::{accepts_gzip, compress_response, pack};
pub(crate) use frames::{BodyMessageReader, FrameMemory, frame};
pub(crate) use lines::json_lines;
pub(crate) use parameters::{RequestParameters, decode_path, form_encode, percent_decode};
pub(crate) use server::{NODE_STREAMS_MAX, PortAnswer, serve_with};
pub use server::{PortLimits, PortService, routed, serve};
pub use tls::PortTls;
pub(crate) use tls::RenewedCertificate;

use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// Rest of a path that is `prefix` or below it: empty, or from a slash on; `None` for any other path.
pub(crate) fn rest_below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Creates a response of `content_type`.
pub(crate) fn answer(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response {
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// Creates a JSON response. Values whose maps have names for keys can always be serialized.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    json_bytes(status, serde_json::to_vec(value).unwrap_or_default())
}

fn json_bytes(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json;charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
