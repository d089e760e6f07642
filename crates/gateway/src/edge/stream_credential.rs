//! Credentials of requests that last: a stream goes on only as long as its credential is valid.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use hyper::Request;
use hyper::body::{Body as _, Bytes, Frame};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use millrace_access::{CertificateHash, Error as AccessError, PortKind, RequestCaller, RequestCredentials};

use crate::GatewayState;
use crate::access_log::ConnectionPeer;
use crate::http::checked;

/// Time between two looks at the credential of an answer that is being sent.
const INTERVAL: Duration = Duration::from_millis(250);

/// The credential of a request that lasts, and the caller that it was admitted as.
#[derive(Clone)]
pub(crate) struct StreamCredential {
    node: Arc<GatewayState>,
    authorization: Option<HeaderValue>,
    certificate: Option<CertificateHash>,
    /// True if a node of the cluster has sent it: that node looks at the credential of its client.
    is_of_node: bool,
    caller: Arc<RequestCaller>,
}

/// Mark of an answer that ends by itself, with a reason, when the credential of its request is not valid any
/// more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelfCheckedAnswer;

impl StreamCredential {
    /// The credential of a request; `None` if the request was admitted without one. A request that this
    /// server makes for another one carries the credential of that one.
    pub(crate) fn from_request<B>(node: &Arc<GatewayState>, request: &Request<B>) -> Option<Self> {
        if let Some(carried) = request.extensions().get::<StreamCredential>() {
            return Some(carried.clone());
        }
        let caller = request.extensions().get::<Arc<RequestCaller>>()?;
        let peer = request.extensions().get::<ConnectionPeer>();
        Some(StreamCredential {
            node: Arc::clone(node),
            authorization: authorization(request.headers()),
            certificate: peer.and_then(|peer| peer.certificate),
            is_of_node: peer.is_some_and(|peer| peer.is_node),
            caller: Arc::clone(caller),
        })
    }

    /// Checks that the credential still gives what the request began with.
    ///
    /// # Errors
    /// It has expired, was revoked, or has lost rights or groups.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        if self.is_of_node {
            return Ok(());
        }
        // Streams are on the ports of data.
        let credentials = credentials(self.authorization.as_ref(), self.certificate);
        let caller = self.node.caller_of_credentials(PortKind::Data, credentials)?;
        match caller.covers(&self.caller) {
            true => Ok(()),
            false => Err(AccessError::Lessened { caller: self.caller.name.to_string() }),
        }
    }

    /// Returns a response whose body breaks off when the credential is not valid any more. A body that was
    /// whole before it is sent, or that checks the credential itself, stays as it is.
    pub(crate) fn guard(self, response: Response) -> Response {
        let is_stream = response.body().size_hint().exact().is_none();
        if !is_stream || response.extensions().get::<SelfCheckedAnswer>().is_some() {
            return response;
        }
        let mut next = Instant::now() + INTERVAL;
        let check = move |_: &Frame<Bytes>| {
            let now = Instant::now();
            if now < next {
                return Ok(());
            }
            next = now + INTERVAL;
            self.check().map_err(|error| {
                tracing::warn!(%error, "an answer ends early; the client sees a broken answer");
                axum::Error::new(error)
            })
        };
        response.map(|body| checked(body, check))
    }
}

impl GatewayState {
    /// Returns the caller that credentials identify at a port.
    ///
    /// # Errors
    /// They are missing or not valid.
    pub(super) fn caller_of_credentials(
        &self,
        port: PortKind,
        credentials: RequestCredentials<'_>,
    ) -> Result<Arc<RequestCaller>, AccessError> {
        // Those who deploy and administer have credentials of the server itself.
        let declared = (port != PortKind::Config).then(|| self.declared_clients()).flatten();
        self.credentials().caller(credentials, declared.as_deref())
    }
}

/// The credentials of a request. A header that is no text is like a malformed one.
pub(super) fn credentials(
    authorization: Option<&HeaderValue>,
    certificate: Option<CertificateHash>,
) -> RequestCredentials<'_> {
    let authorization = authorization.map(|value| value.to_str().unwrap_or(""));
    RequestCredentials { authorization, certificate }
}

/// Header `Authorization` of a request; several are like a malformed one.
pub(super) fn authorization(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next()?;
    match values.next() {
        None => Some(first.clone()),
        Some(_) => Some(HeaderValue::from_static("")),
    }
}
