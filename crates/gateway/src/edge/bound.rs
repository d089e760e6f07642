//! Paths to which the application binds handlers.

use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use millrace_schema::HandlerBinding;

/// First parts of the node's own paths, which no application binds. Below those of persons, a path that names
/// no one must not become one for all groups.
const OWN: [&str; 17] = [
    "/person",
    "/person-number",
    "/document/v1",
    "/feed/v1",
    "/group/v1",
    "/v1/logs",
    "/mcp",
    "/model-evaluation",
    "/page",
    "/elastic",
    "/state/v1",
    "/metrics",
    "/prometheus",
    "/cluster/v2",
    "/ApplicationStatus",
    "/status.html",
    "/openapi.json",
];

/// True if an application can bind a handler to the path.
pub(super) fn is_free(path: &str) -> bool {
    let is_below =
        |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !matches!(path, "/" | "/search" | "/search/") && !OWN.into_iter().any(is_below)
}

/// Puts the own path of a handler in place of one that it is bound to. All later checks see its own path.
pub(super) fn put_own_path<B>(request: &mut Request<B>, bindings: &[HandlerBinding]) {
    let path = request.uri().path();
    let Some(own) = HandlerBinding::own_path(bindings, path) else { return };
    let own = match request.uri().query() {
        Some(query) => format!("{own}?{query}"),
        None => own.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    let Ok(path) = PathAndQuery::try_from(own) else { return };
    parts.path_and_query = Some(path);
    let Ok(uri) = Uri::from_parts(parts) else { return };
    *request.uri_mut() = uri;
}
