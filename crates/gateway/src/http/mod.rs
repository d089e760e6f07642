//! HTTP itself: connections, bodies, compression, and the parts of a request that several endpoints read.

mod body;
mod compression;
mod parameters;
mod server;
mod tls;

pub(crate) use body::{collect, read_body};
pub(crate) use compression::compress_response;
pub(crate) use parameters::{Parameters, percent_decode};
pub use server::serve;
pub(crate) use tls::acceptor;

use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;

/// An answer of `content_type`.
pub(crate) fn answer(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response {
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    answer(status, "application/json;charset=utf-8", value.to_string().into_bytes())
}
