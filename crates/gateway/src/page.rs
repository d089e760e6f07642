//! A page for browsers at `/`: groups, a search in one of them and its documents, the application, the node.
//!
//! It is a client like any other: it has no data, needs no credential itself, and sends that of its user with
//! each request. Its addresses are relative, so at `/person/NAME/` it is for one group. It is plain HTML, CSS
//! and JavaScript without a library: short files that need no build and load nothing else.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, StatusCode};

use crate::http;

const HTML: &str = include_str!("page/page.html");

/// Files that the page loads: path, type and content. No credential is required for them
/// ([`millrace_access::AccessRule::Open`]).
const FILES: [(&str, &str, &str); 8] = [
    ("/page/style.css", STYLE_SHEET, include_str!("page/style.css")),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/page/exact.js", SCRIPT, include_str!("page/exact.js")),
    ("/page/fields.js", SCRIPT, include_str!("page/fields.js")),
    ("/page/search.js", SCRIPT, include_str!("page/search.js")),
    ("/page/application.js", SCRIPT, include_str!("page/application.js")),
    ("/page/node.js", SCRIPT, include_str!("page/node.js")),
];

const STYLE_SHEET: &str = "text/css;charset=utf-8";
const SCRIPT: &str = "text/javascript;charset=utf-8";

/// Policy for the browser: nothing but the page's own files, and requests to this server.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns true if a request is for the page: a browser opens `/`.
pub(crate) fn is_requested<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/"
        && [Method::GET, Method::HEAD].contains(request.method())
        && accepts_html(request.headers())
}

/// Returns true if the client names HTML among the types that it accepts; `*/*` does not suffice.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    offers
        .flat_map(|value| value.split(','))
        .any(|offer| offer.split(';').next().is_some_and(|media| media.trim() == "text/html"))
}

/// Routes of the files that the page loads.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, content_type, text)| {
        router.route(path, get(move || async move { file(content_type, text) }))
    })
}

/// The page.
pub(crate) fn answer() -> Response {
    file("text/html;charset=utf-8", HTML)
}

fn file(content_type: &str, text: &str) -> Response {
    let mut response = http::answer(StatusCode::OK, content_type, text.as_bytes().to_vec());
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "accept"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use millrace_access::{AccessRule, PortKind, RequestMethod};

    use super::FILES;

    /// Without a credential, the page loads whole, and the data behind it does not.
    #[test]
    fn files_of_the_page_are_open() {
        let rule = |path| AccessRule::of(PortKind::Data, RequestMethod::Safe, path);
        for (path, ..) in FILES {
            assert_eq!(rule(path), AccessRule::Open, "{path}");
        }
        for path in ["/page/application", "/state/v1/metrics", "/cluster/v2/", "/group/v1/"] {
            assert_ne!(rule(path), AccessRule::Open, "{path}");
        }
    }
}
