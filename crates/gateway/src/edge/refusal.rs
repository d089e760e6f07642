use axum::response::Response;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use millrace_access::PortKind;
use millrace_elastic::Error as ElasticError;
use serde_json::json;

use crate::forwarding::HOP;
use crate::status::HttpError;
use crate::{elastic_api, http};

/// Maximum number of characters of the request that a message repeats.
const SHOWN: usize = 100;

/// Reason why a request is refused at the edge.
#[derive(Debug, thiserror::Error)]
pub(super) enum EdgeRefusal {
    #[error(
        "the request is for the host '{}', which is not a name of this server; use an address, localhost or the name that the server \
         advertises, or start the server with --allowed-hosts and this name",
        shortened(.0)
    )]
    Host(String),
    #[error("the request has several Host headers; send one")]
    SeveralHosts,
    #[error(
        "the request comes from a web page of '{}', which is not this server's; if pages of this origin should use the server, start it with \
         --allowed-origins and this origin",
        shortened(.0)
    )]
    Origin(String),
    #[error(
        "the request comes from a web page of another site, as the header Sec-Fetch-Site says; a page that should use the server sends its \
         Origin, which --allowed-origins of the server has to name"
    )]
    OtherSite,
    #[error(
        "the header {} is for nodes of the cluster, which ask each other at their own port; leave it out, and let a proxy before the nodes \
         remove it",
        HOP
    )]
    Pretended,
    #[error(
        "a document is not '{0}': send it as JSON, with the header Content-Type: application/json (curl sends another one by default: add \
         -H 'Content-Type: application/json')"
    )]
    MediaType(&'static str),
    #[error("a document from a web page needs the header Content-Type: application/json")]
    NoMediaType,
    #[error(
        "the header {0} names a group, and the request does not come from a proxy that may do so; leave the header out, or name the \
         address of the proxy in --trusted-proxies of the server"
    )]
    GroupHeader(HeaderName),
    #[error(
        "the header {0} names a second group; the proxy has to replace the header of its client, and to set it once"
    )]
    SeveralGroups(HeaderName),
    #[error(
        "the value of the header {0} does not name a group: send a name as UTF-8 without ':', ',' and control characters, \
         or in the header for numbers a number of up to 64 bits"
    )]
    NoGroup(HeaderName),
    #[error(
        "the request has no header {0}, in which a proxy names its group; let the proxy set it in each request (nginx leaves out an empty \
         one), use a credential of one group, or start the server with --group-header-optional"
    )]
    NoGroupHeader(HeaderName),
    #[error(transparent)]
    Access(#[from] millrace_access::Error),
    #[error(transparent)]
    Limit(millrace_node::Error),
}

impl EdgeRefusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            EdgeRefusal::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            EdgeRefusal::SeveralHosts | EdgeRefusal::SeveralGroups(_) | EdgeRefusal::NoGroup(_) => {
                StatusCode::BAD_REQUEST
            }
            EdgeRefusal::Origin(_)
            | EdgeRefusal::OtherSite
            | EdgeRefusal::Pretended
            | EdgeRefusal::GroupHeader(_)
            | EdgeRefusal::NoGroupHeader(_) => StatusCode::FORBIDDEN,
            EdgeRefusal::Access(error) if error.is_unauthenticated() => StatusCode::UNAUTHORIZED,
            EdgeRefusal::Access(_) => StatusCode::FORBIDDEN,
            EdgeRefusal::Limit(error) => error.status(),
            EdgeRefusal::MediaType(_) | EdgeRefusal::NoMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// Creates the response, in the form of the API that the request is for.
    pub(super) fn response<B>(&self, port: PortKind, request: &Request<B>) -> Response {
        let (status, message, path) = (self.status(), self.to_string(), request.uri().path());
        let below = |api: &str| http::rest_below(path, api).is_some();
        let mut response = match port {
            PortKind::Config if ["/application/v2", "/access/v1", "/snapshot/v1"].into_iter().any(below) => {
                let code = match status {
                    StatusCode::UNAUTHORIZED => "UNAUTHORIZED",
                    StatusCode::FORBIDDEN => "FORBIDDEN",
                    StatusCode::TOO_MANY_REQUESTS => "INTERNAL_SERVER_ERROR",
                    _ => "BAD_REQUEST",
                };
                http::json(status, &json!({ "error-code": code, "message": message }))
            }
            PortKind::Config => http::json(status, &json!({ "message": message })),
            PortKind::Elastic => elastic_api::refusal(request, self.for_elastic(message)),
            PortKind::Data if elastic_api::is_below(path) => {
                elastic_api::refusal(request, self.for_elastic(message))
            }
            PortKind::Data if below("/search") => {
                let error = json!({ "code": status.as_u16(), "summary": status.canonical_reason(), "message": message });
                http::json(
                    status,
                    &json!({ "root": {
                    "id": "toplevel", "relevance": 1.0, "fields": { "totalCount": 0 }, "errors": [error],
                } }),
                )
            }
            PortKind::Data if ["/document/v1", "/feed/v1"].into_iter().any(below) => {
                http::json(status, &json!({ "pathId": path, "message": message }))
            }
            PortKind::Data => http::json(status, &json!({ "message": message })),
        };
        // Elasticsearch's interfaces have no word for some of them.
        *response.status_mut() = status;
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let EdgeRefusal::Limit(error) = self {
            // In place of the one that all refusals of an API have.
            let after = error.retry_after();
            after.and_then(|after| response.headers_mut().insert(RETRY_AFTER, after));
        }
        response
    }

    /// The same in the words of Elasticsearch.
    fn for_elastic(&self, message: String) -> ElasticError {
        match self.status() {
            StatusCode::UNAUTHORIZED => ElasticError::Unauthenticated(message),
            StatusCode::FORBIDDEN => ElasticError::Forbidden(message),
            StatusCode::TOO_MANY_REQUESTS => ElasticError::Rejected(message),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ElasticError::MediaType(message),
            _ => ElasticError::IllegalArgument(message),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
