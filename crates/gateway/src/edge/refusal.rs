use axum::response::Response;
use hyper::StatusCode;
use serde_json::json;

use crate::http;

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
}

impl EdgeRefusal {
    const fn status(&self) -> StatusCode {
        match self {
            EdgeRefusal::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            EdgeRefusal::SeveralHosts => StatusCode::BAD_REQUEST,
            EdgeRefusal::Origin(_) | EdgeRefusal::OtherSite => StatusCode::FORBIDDEN,
            EdgeRefusal::MediaType(_) | EdgeRefusal::NoMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// Creates the response, in a form that clients of all APIs show to people.
    pub(super) fn response(&self, path: &str) -> Response {
        let (status, message) = (self.status(), self.to_string());
        let value = match () {
            () if path.starts_with("/application/v2") => {
                let code = if status == StatusCode::FORBIDDEN { "FORBIDDEN" } else { "BAD_REQUEST" };
                json!({ "error-code": code, "message": message })
            }
            () if path.starts_with("/search") => json!({ "root": {
                "id": "toplevel", "relevance": 1.0, "fields": { "totalCount": 0 },
                "errors": [{ "code": status.as_u16(), "summary": status.canonical_reason(), "message": message }],
            } }),
            () => json!({ "message": message }),
        };
        http::json(status, &value)
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
