//! Responses to web pages of permitted origins, by the CORS protocol
//! (<https://fetch.spec.whatwg.org/#http-cors-protocol>).

use axum::body::Body;
use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, VARY,
};
use hyper::{Method, Request, StatusCode};

/// Headers by which browsers ask if a page may access a private network.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Seconds for which a browser may cache the response to a preflight.
const PREFLIGHT_MAX_AGE_S: &str = "600";

/// Returns true for a preflight: the question of a browser, if a page may send a request that it has not sent
/// yet.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Creates the response to a preflight, for a page of a permitted origin.
pub(super) fn preflight<B>(request: &Request<B>, origin: &HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_MAX_AGE_S));
    if let Some(names) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(permitted_headers) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    if request.headers().contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    shared_with(response, origin.clone())
}

/// Returns the headers that a page may send: all but those that nodes of a cluster send each other.
fn permitted_headers(asked: &HeaderValue) -> Option<HeaderValue> {
    let names = asked.to_str().ok()?.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.to_ascii_lowercase().starts_with("millrace-")).collect();
    HeaderValue::from_str(&names.join(", ")).ok()
}

/// Makes a response readable for pages of this origin.
pub(crate) fn shared_with(mut response: Response, origin: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}
