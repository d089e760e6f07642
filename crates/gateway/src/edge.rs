//! The check of each request before any other processing: its host, the web page that sent it, and the media
//! type of a document.
//!
//! A browser sends requests for any page that is open in it, to servers on the same machine and in the same
//! network too. Three properties show that a request was not meant for this server:
//!
//! - A page whose name was made to resolve to the server's address (DNS rebinding) is same-origin to the
//!   browser, but the `Host` has the name of the page.
//! - A page of another site has that site in `Origin`.
//! - Without a preflight, a browser sends to another site only bodies of the media types that HTML forms
//!   have.
//!
//! Clients other than browsers send no `Origin`, and address the server by a name that it has.
//! [`RequestGuard`] also checks the credential of each request: it sees every request of both ports, and no
//! request bypasses it.

mod admission;
mod bound;
mod cors;
mod credentials;
mod declared;
mod fault;
mod forwarded_groups;
mod forwarded_limits;
pub(crate) mod fuzz;
mod group_header;
mod hosts;
mod implied_group;
mod origins;
mod person;
mod published;
mod refusal;
mod stream_credential;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method, Request};
use millrace_access::{PortKind, RequestCaller};

pub(crate) use self::admission::caller_of;
pub(crate) use self::cors::shared_with;
pub use self::credentials::{CredentialFiles, TokenKeySource};
pub(crate) use self::credentials::{CurrentKeyring, SHARED_KEYS};
pub(crate) use self::declared::DeclarationObstacle;
pub use self::fault::EdgeNameFault;
pub use self::group_header::GroupHeaders;
pub use self::hosts::HostNames;
use self::hosts::host_of;
pub use self::origins::WebOrigins;
use self::origins::authority_of_origin;
pub(crate) use self::person::prefix as person_prefix;
pub use self::published::{TokenKeyUrl, TokenKeyUrlFault};
use self::refusal::EdgeRefusal;
pub(crate) use self::stream_credential::{SelfCheckedAnswer, StreamCredential};
use crate::access_log::ConnectionPeer;
use crate::{GatewayState, access_log, forwarding};

/// Media types that a browser sends to another site without a preflight. No client of documents sends them on
/// purpose.
const FORM_TYPES: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// Header by which browsers report the relation of the requesting site to the server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The result of the check.
pub(crate) enum AdmissionDecision {
    /// The request is admitted. With an origin, its page may read the response: see [`shared_with`].
    Pass(Option<HeaderValue>),
    /// The request is answered with this response.
    Answer(Box<Response>),
}

/// The guard of a port.
#[derive(Clone)]
pub(crate) struct RequestGuard {
    node: Arc<GatewayState>,
}

impl RequestGuard {
    /// Creates the guard of a node's ports.
    pub(crate) fn new(node: Arc<GatewayState>) -> Self {
        RequestGuard { node }
    }

    /// Checks a request by its head.
    pub(crate) fn check<B>(&self, port: PortKind, request: &Request<B>) -> AdmissionDecision {
        // A node of the cluster that has shown its certificate may address this one by any name.
        if request.extensions().get::<ConnectionPeer>().is_some_and(|peer| peer.is_node) {
            return AdmissionDecision::Pass(None);
        }
        let answer = match self.examine(port, request) {
            Ok(None) => return AdmissionDecision::Pass(None),
            Ok(Some(origin)) if !cors::is_preflight(request) => return AdmissionDecision::Pass(Some(origin)),
            Ok(Some(origin)) => cors::preflight(request, &origin),
            Err(refusal) => refusal.response(port, request),
        };
        if let Some(log) = self.node.access_log() {
            access_log::log_refused(log, request, answer.status());
        }
        AdmissionDecision::Answer(Box::new(answer))
    }

    /// Returns the origin with which the response is shared; `None` for requests of the server's own pages,
    /// and of clients other than browsers.
    fn examine<B>(&self, port: PortKind, request: &Request<B>) -> Result<Option<HeaderValue>, EdgeRefusal> {
        self.check_host(request)?;
        if self.claims_to_be_forwarded(port, request) {
            return Err(EdgeRefusal::Pretended);
        }
        // The node that forwarded the request has checked the rest. A page of another site cannot send this
        // header: a browser asks first.
        if request.headers().contains_key(forwarding::HOP) && request.method() != Method::OPTIONS {
            return Ok(None);
        }
        let origin = self.check_origin(request)?;
        check_media_type(request)?;
        Ok(origin)
    }

    /// True if a request claims to be forwarded by a node, but comes from another sender; one that a node has
    /// shown its certificate for is not examined. Nodes forward to the data port alone. There, without
    /// certificates of nodes, the sender cannot be determined.
    fn claims_to_be_forwarded<B>(&self, port: PortKind, request: &Request<B>) -> bool {
        let can_be_of_node = port == PortKind::Data && self.node.settings().trust.is_none();
        request.headers().contains_key(forwarding::HOP) && !can_be_of_node
    }

    /// Checks the host in every place that a request can have one. A request without any comes from no
    /// browser.
    fn check_host<B>(&self, request: &Request<B>) -> Result<(), EdgeRefusal> {
        let mut named = request.headers().get_all(HOST).iter();
        let (first, second) = (named.next(), named.next());
        if second.is_some() {
            return Err(EdgeRefusal::SeveralHosts);
        }
        let unreadable =
            |value: &HeaderValue| EdgeRefusal::Host(String::from_utf8_lossy(value.as_bytes()).into());
        let first = first.map(|value| value.to_str().map_err(|_| unreadable(value))).transpose()?;
        // HTTP/2 has it in the URI, and so have requests as proxies get them.
        let authority = request.uri().authority().map(|authority| authority.as_str());
        for authority in [first, authority].into_iter().flatten() {
            let allowed = host_of(authority).is_some_and(|host| self.is_own(host));
            if !allowed {
                return Err(EdgeRefusal::Host(authority.to_owned()));
            }
        }
        Ok(())
    }

    fn is_own(&self, host: &str) -> bool {
        self.node.settings().hosts.permits(host)
            || self.node.cluster().member().is_some_and(|member| {
                let names = member.advertised();
                names.iter().filter_map(|name| host_of(name)).any(|name| name.eq_ignore_ascii_case(host))
            })
    }

    fn check_origin<B>(&self, request: &Request<B>) -> Result<Option<HeaderValue>, EdgeRefusal> {
        let headers = request.headers();
        let Some(origin) = headers.get(ORIGIN) else { return check_fetch_metadata(request).map(|()| None) };
        let refused = || EdgeRefusal::Origin(String::from_utf8_lossy(origin.as_bytes()).into());
        let text = origin.to_str().map_err(|_| refused())?;
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
        if host.is_some_and(|host| authority_of_origin(text).is_some_and(|own| own.is(host))) {
            return Ok(None);
        }
        match self.node.settings().origins.permits(text) {
            true => Ok(Some(origin.clone())),
            false => Err(refused()),
        }
    }
}

/// Checks the fetch metadata of newer browsers on a request without an origin: another site may lead to the
/// server by a link, and no further.
fn check_fetch_metadata<B>(request: &Request<B>) -> Result<(), EdgeRefusal> {
    let says = |name: &HeaderName, value: &str| request.headers().get(name).is_some_and(|said| said == value);
    let is_safe = [Method::GET, Method::HEAD].contains(request.method());
    let follows_link = is_safe && says(&SEC_FETCH_MODE, "navigate");
    match says(&SEC_FETCH_SITE, "cross-site") && !follows_link {
        true => Err(EdgeRefusal::OtherSite),
        false => Ok(()),
    }
}

/// Checks that a body of the documents API is not one that an HTML form could send.
fn check_media_type<B>(request: &Request<B>) -> Result<(), EdgeRefusal> {
    let is_write = [Method::POST, Method::PUT].contains(request.method());
    let path = request.uri().path();
    if !is_write || !["/document/v1", "/feed/v1", "/group/v1"].iter().any(|api| path.starts_with(api)) {
        return Ok(());
    }
    match request.headers().get(CONTENT_TYPE) {
        Some(value) => match form_type(value) {
            Some(media_type) => Err(EdgeRefusal::MediaType(media_type)),
            None => Ok(()),
        },
        None if request.headers().contains_key(ORIGIN) => Err(EdgeRefusal::NoMediaType),
        None => Ok(()),
    }
}

/// Returns the media type of a header, if it is one of [`FORM_TYPES`].
fn form_type(value: &HeaderValue) -> Option<&'static str> {
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    FORM_TYPES.into_iter().find(|known| media_type.eq_ignore_ascii_case(known.as_bytes()))
}

/// Replaces the headers by which the node that answers a forwarded request knows more of its caller than the
/// groups.
pub(crate) fn attach_caller(headers: &mut HeaderMap, caller: &RequestCaller) {
    implied_group::attach(headers, caller);
    forwarded_limits::attach(headers, caller);
}

/// The guard as a layer around the router of the deployment port.
pub(crate) async fn guard(
    State(guard): State<RequestGuard>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    guarded(&guard, PortKind::Config, request, next).await
}

/// The guard as a layer around the router of the port of Elasticsearch's interfaces.
pub(crate) async fn guard_elastic(
    State(guard): State<RequestGuard>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    guarded(&guard, PortKind::Elastic, request, next).await
}

async fn guarded(
    guard: &RequestGuard,
    port: PortKind,
    mut request: axum::extract::Request,
    next: Next,
) -> Response {
    let origin = match guard.check(port, &request) {
        AdmissionDecision::Answer(answer) => return *answer,
        AdmissionDecision::Pass(origin) => origin,
    };
    // The turn lasts until the answer begins.
    let response = match guard.admit(port, &mut request) {
        Ok(_turn) => {
            let credential = StreamCredential::from_request(&guard.node, &request);
            let response = next.run(request).await;
            match credential {
                Some(credential) => credential.guard(response),
                None => response,
            }
        }
        Err(refused) => *refused,
    };
    match origin {
        Some(origin) => shared_with(response, origin),
        None => response,
    }
}
