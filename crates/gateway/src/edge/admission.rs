//! Admission of a request by its credential: the caller, its rights, and its limits.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use hyper::{Method, Request};
use millrace_access::{AccessRight, AccessRule, PortKind, RequestCaller, RequestMethod};
use millrace_document::DocumentGroup;
use millrace_node::Error;

use super::person::PersonGroup;
use super::refusal::EdgeRefusal;
use super::stream_credential::{authorization, credentials};
use super::{RequestGuard, bound, forwarded_groups, forwarded_limits, implied_group, person};
use crate::access_log::{self, ConnectionPeer};
use crate::page;
use crate::quota::CallerTurn;

impl RequestGuard {
    /// Takes the person out of the path, if the path names one, and puts the own path of a handler in place
    /// of one that the application binds it to. All later checks see the result.
    pub(crate) fn resolve<B>(&self, request: &mut Request<B>) {
        person::take_out(request);
        if bound::is_free(request.uri().path())
            && let Some(active) = self.node.deployments().active()
        {
            bound::put_own_path(request, &active.application.container.bindings);
        }
    }

    /// Admits a request by its credential, and attaches its caller to it.
    ///
    /// # Errors
    /// The response: 401 without a valid credential, 403 without the right, 429 above a limit of the caller.
    pub(crate) fn admit<B>(
        &self,
        port: PortKind,
        request: &mut Request<B>,
    ) -> Result<Option<CallerTurn>, Box<Response>> {
        self.admitted(port, request).map_err(|refusal| {
            let answer = refusal.response(port, request);
            if let Some(log) = self.node.access_log() {
                access_log::log_refused(log, request, answer.status());
            }
            Box::new(answer)
        })
    }

    fn admitted<B>(
        &self,
        port: PortKind,
        request: &mut Request<B>,
    ) -> Result<Option<CallerTurn>, EdgeRefusal> {
        let method = match *request.method() {
            Method::GET | Method::HEAD | Method::OPTIONS => RequestMethod::Safe,
            Method::DELETE => RequestMethod::Delete,
            _ => RequestMethod::Other,
        };
        let rule = AccessRule::of(port, method, request.uri().path());
        // The page has no data; its user signs in there.
        if rule == AccessRule::Open || (port == PortKind::Data && page::is_requested(request)) {
            return Ok(None);
        }
        let of_proxy = self.group_of_proxy(request)?;
        let mut caller = self.identified(port, request)?;
        let peer = request.extensions().get::<ConnectionPeer>();
        let is_from_node = peer.is_some_and(|peer| peer.is_node);
        let is_from_client = self.node.is_from_client(request.headers());
        if of_proxy.is_none() && is_from_client && port != PortKind::Config {
            self.check_named(rule, method, peer, &caller)?;
        }
        let endpoint = request.extensions().get::<PersonGroup>().map(|PersonGroup(group)| group);
        for group in of_proxy.iter().chain(endpoint) {
            caller = Arc::new(caller.within(group.clone())?);
        }
        if !is_from_client {
            let limits = forwarded_limits::lowered(caller.limits, request.headers());
            if limits != caller.limits {
                caller = Arc::new(RequestCaller { limits, ..(*caller).clone() });
            }
        }
        let implied = match is_from_client {
            true => implied_group::of_client(request.headers(), endpoint.or(of_proxy.as_ref()), &caller),
            // The path of a request that a node forwards can have a group that the client did not name.
            false => implied_group::of_node(request.headers()),
        };
        if implied.is_some() {
            caller = Arc::new(caller.implying(implied));
        }
        // Nothing at the config port is of one group.
        if port == PortKind::Config || matches!(rule, AccessRule::Whole(_)) {
            caller.check_whole()?;
        }
        match rule {
            AccessRule::Open => {}
            AccessRule::AnyOf(rights) => caller.check_right(rights)?,
            AccessRule::Whole(_) if caller.has_all_groups() && caller.rights.has(AccessRight::Read) => {}
            AccessRule::Whole(rights) => caller.check_right(rights)?,
        }
        if !self.node.cluster().is_alone() {
            forwarded_groups::attach(request.headers_mut(), &caller);
        }
        // Another node has counted what it forwards.
        let turn = match is_from_node {
            true => None,
            false => {
                let turn = self.node.quotas().admit_caller(&caller, Instant::now(), self.node.metrics());
                turn.map_err(EdgeRefusal::Limit)?
            }
        };
        request.extensions_mut().insert(caller);
        Ok(turn)
    }

    /// The caller of a request: that of its credential, or the one that another node forwards it for.
    ///
    /// # Errors
    /// The credential is missing or not valid.
    fn identified<B>(&self, port: PortKind, request: &Request<B>) -> Result<Arc<RequestCaller>, EdgeRefusal> {
        let peer = request.extensions().get::<ConnectionPeer>();
        if peer.is_some_and(|peer| peer.is_node) {
            let caller = forwarded_groups::caller_from(request.headers());
            return Ok(Arc::new(forwarded_limits::with_rates(caller, request.headers())));
        }
        let authorization = authorization(request.headers());
        let certificate = peer.and_then(|peer| peer.certificate);
        Ok(self.node.caller_of_credentials(port, credentials(authorization.as_ref(), certificate))?)
    }

    /// Takes the group that a proxy names out of the headers of a request. A node of the cluster that has
    /// shown its certificate has checked the headers of its client.
    fn group_of_proxy<B>(&self, request: &mut Request<B>) -> Result<Option<DocumentGroup>, EdgeRefusal> {
        let peer = request.extensions().get::<ConnectionPeer>();
        if peer.is_some_and(|peer| peer.is_node) {
            return Ok(None);
        }
        let is_trusted = self.is_proxy(peer);
        self.node.settings().group_headers.take_out(request.headers_mut(), is_trusted)
    }

    /// Checks a request in which no proxy names a group, where one has to. A proxy that has not identified
    /// the person sends none, and nothing else says for whom the request is, except a credential of one
    /// group. Clients that are no proxies have a credential of their own.
    fn check_named(
        &self,
        rule: AccessRule,
        method: RequestMethod,
        peer: Option<&ConnectionPeer>,
        caller: &RequestCaller,
    ) -> Result<(), EdgeRefusal> {
        let Some(header) = self.node.settings().group_headers.required() else { return Ok(()) };
        let is_node = peer.is_some_and(|peer| peer.is_node);
        let asks_for_figures = matches!(rule, AccessRule::Whole(_)) && method == RequestMethod::Safe;
        if is_node || asks_for_figures || caller.only_group().is_some() {
            return Ok(());
        }
        match self.is_proxy(peer) || caller.is_anonymous() {
            true => Err(EdgeRefusal::NoGroupHeader(header.clone())),
            false => Ok(()),
        }
    }

    /// True if the sender may name the group of a request.
    fn is_proxy(&self, peer: Option<&ConnectionPeer>) -> bool {
        peer.is_some_and(|peer| self.node.settings().log_details.is_trusted_proxy(peer.address.ip()))
    }
}

/// Returns the caller that is attached to a request.
///
/// # Errors
/// There is none: the request has bypassed the guard.
pub(crate) fn caller_of<B>(request: &Request<B>) -> Result<Arc<RequestCaller>, Error> {
    let caller = request.extensions().get::<Arc<RequestCaller>>().cloned();
    caller.ok_or_else(|| Error::Internal("a request has no caller".to_owned()))
}
