use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::json;

use crate::http;
use crate::status::HttpError;

/// Maximum number of characters of the request that a message repeats.
const SHOWN: usize = 100;

/// Reason why a request is refused at the edge.
#[derive(Debug, thiserror::Error)]
pub(super) enum EdgeRefusal {
    #[error(
        "the request is for the host '{}', which is not a name of this server; use an address, localhost or the name that the server \
         advertises, or start the server with --allowed-hosts and this name",
        shown(.0)
    )]
    Host(String),
    #[error("the request has several Host headers; send one")]
    SeveralHosts,
    #[error(
        "the request comes from a web page of '{}', which is not this server's; if pages of this origin should use the server, start it with \
         --allowed-origins and this origin",
        shown(.0)
    )]
    Origin(String),
    #[error(
        "the request comes from a web page of another site, as the header Sec-Fetch-Site says; a page that should use the server sends its \
         Origin, which --allowed-origins of the server has to name"
    )]
    OtherSite,
    #[error(
        "a document is not '{0}': send it as JSON, with the header Content-Type: application/json (curl sends another one by default: add \
         -H 'Content-Type: application/json')"
    )]
    MediaType(&'static str),
    #[error("a document from a web page needs the header Content-Type: application/json")]
    NoMediaType,
    #[error(transparent)]
    Access(#[from] millrace_access::Error),
    #[error(transparent)]
    Limit(millrace_node::Error),
}

impl EdgeRefusal {
    fn status(&self) -> StatusCode {
        match self {
            EdgeRefusal::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            EdgeRefusal::SeveralHosts => StatusCode::BAD_REQUEST,
            EdgeRefusal::Origin(_) | EdgeRefusal::OtherSite => StatusCode::FORBIDDEN,
            EdgeRefusal::Access(error) if error.is_unauthenticated() => StatusCode::UNAUTHORIZED,
            EdgeRefusal::Access(_) => StatusCode::FORBIDDEN,
            EdgeRefusal::Limit(error) => error.status(),
            EdgeRefusal::MediaType(_) | EdgeRefusal::NoMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// Creates the response, in a form that clients of all APIs show to people.
    pub(super) fn response(&self, path: &str) -> Response {
        let (status, message) = (self.status(), self.to_string());
        let value = match () {
            () if path.starts_with("/application/v2") => {
                let code = match status {
                    StatusCode::UNAUTHORIZED => "UNAUTHORIZED",
                    StatusCode::FORBIDDEN => "FORBIDDEN",
                    _ => "BAD_REQUEST",
                };
                json!({ "error-code": code, "message": message })
            }
            () if path.starts_with("/search") => json!({ "root": {
                "id": "toplevel", "relevance": 1.0, "fields": { "totalCount": 0 },
                "errors": [{ "code": status.as_u16(), "summary": status.canonical_reason(), "message": message }],
            } }),
            () => json!({ "message": message }),
        };
        let mut response = http::json(status, &value);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let EdgeRefusal::Limit(error) = self {
            response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
        }
        response
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
