//! Elasticsearch's interfaces over HTTP: on a port of their own, and below `/elastic/` on the data port. Log
//! records of OpenTelemetry are at `/v1/logs` of both ports.
//!
//! In a cluster, all requests go to the node that owns the documents of the service ([`ElasticService`]).

mod slots;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::any;
use hyper::body::Body as _;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use hyper::{HeaderMap, StatusCode};
use millrace_access::{AccessRight, Permit, RequestCaller};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_elastic::{
    AdmittedSize, BulkBatching, ElasticCaller, ElasticRequest, ElasticResponse, ElasticService,
    GroupAdmission, RewriteAdmission, RouteRight,
};
use millrace_node::cluster::{AccessKind, ForwardKind, NodeAddress, RouteBackoff, RouteSubject};
use millrace_node::pool::WorkFlow;
use millrace_node::work::WorkKind;
use millrace_node::{CancelOnDrop, Error};
use millrace_store::WriterId;
use tokio::runtime::Handle;

use self::slots::{RequestSlot, RequestSlots};
use crate::access_log::ConnectionPeer;
use crate::document_api::feed::writer_of;
use crate::edge::{RequestGuard, attach_caller, caller_of, guard_elastic, person_prefix};
use crate::forwarding::{self, ForwardedRequest, RoutingOutcome};
use crate::http::{BodyBounds, BudgetReservation};
use crate::quota::{FedBytes, RewrittenBytes, client_network};
use crate::status::HttpError;
use crate::{GatewayState, access_log, http};

/// Path of the service on the data port.
const BELOW: &str = "/elastic";

/// Time limit of a request on its way through a cluster, if it names none, as in Elasticsearch.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Range of the time limits that writes may name.
const TIMEOUT_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];

/// Time between looks for partitions of data streams that are to be dropped.
const LIFECYCLE_INTERVAL: Duration = Duration::from_secs(10);

/// Time between looks for chunks of logs that lack columns which searches have read lately.
const PREPARATION_INTERVAL: Duration = Duration::from_secs(3);

/// Header by which clients of Elasticsearch know a server that they support.
const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");

/// Name of a request by its client, which the answer repeats.
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");

/// Header of a forwarded request whose caller may not read. Nodes that have shown their certificates may all,
/// and an update may show its document.
const CANNOT_READ: HeaderName = HeaderName::from_static("millrace-cannot-read");

/// Header of a forwarded request with the client that has sent it to the other node, as that knows it.
const CLIENT: HeaderName = HeaderName::from_static("millrace-client");

/// Limits on groups that all interfaces count together.
struct CountedGroups(Arc<GatewayState>);

impl GroupAdmission for CountedGroups {
    fn admit_group(&self, group: &DocumentGroup) -> Result<(), Error> {
        self.0.quotas().admit_group(group, Instant::now(), self.0.metrics())
    }

    fn turn_of_group(&self, group: &DocumentGroup) -> Result<Box<dyn Send>, Error> {
        Ok(Box::new(self.0.quotas().turn_of_group(group, self.0.metrics())?))
    }

    fn admit_write(
        &self,
        caller: &RequestCaller,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, Error> {
        let size = self.admit_size(caller, permit, id, bytes)?;
        // The request has counted the bytes of its caller.
        let fed = FedBytes { caller: None, group: Some(id.group()), bytes };
        self.0.quotas().fed().admit(fed, Instant::now(), self.0.metrics())?;
        Ok(size)
    }

    fn admit_size(
        &self,
        caller: &RequestCaller,
        permit: &Permit,
        id: &DocumentId,
        bytes: usize,
    ) -> Result<Option<AdmittedSize>, Error> {
        if !self.counts_size(id) {
            return Ok(None);
        }
        Ok(Some(AdmittedSize::new(self.0.admit_size(&caller.limits, permit, id, bytes)?)))
    }

    fn admit_query(&self, caller: &RequestCaller) -> Result<(), Error> {
        self.0.quotas().admit_query(caller, Instant::now(), self.0.metrics())
    }

    fn rewrites(
        &self,
        caller: &Arc<RequestCaller>,
        group: Option<&DocumentGroup>,
    ) -> Option<Arc<dyn RewriteAdmission>> {
        Some(Arc::new(RewrittenBytes::new(self.0.quotas(), caller, group)?))
    }

    fn element_bytes_max(&self) -> usize {
        self.0.settings().limits.element_bytes_max
    }

    fn query_values_max(&self) -> usize {
        self.0.settings().limits.query_values_max
    }
}

impl CountedGroups {
    /// True if this node counts the size of the group of a document: in a cluster, the owner does, also as it
    /// gets the write from here.
    fn counts_size(&self, id: &DocumentId) -> bool {
        match self.0.cluster().view() {
            Ok(None) => true,
            Ok(Some(cluster)) => matches!(cluster.owner(id.location()), Ok(NodeAddress::Local)),
            // No write is begun, either.
            Err(_) => false,
        }
    }
}

/// The [`ElasticService`] of a node, and the ports on which it answers.
pub(crate) struct ElasticApi {
    node: Arc<GatewayState>,
    service: Arc<ElasticService>,
    slots: RequestSlots,
}

impl ElasticApi {
    /// Creates the service of a node, with the address of its own port if it has one.
    pub(crate) fn new(node: Arc<GatewayState>, port: Option<SocketAddr>) -> Arc<Self> {
        let service = Arc::new(ElasticService::new(Arc::clone(node.node())).listening_at(port));
        Arc::new(ElasticApi { node, service, slots: RequestSlots::new() })
    }

    /// Drops what the lifecycles of data streams say to drop, again and again.
    pub(crate) async fn apply_lifecycles_forever(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LIFECYCLE_INTERVAL).await;
            let service = Arc::clone(&self.service);
            // A panic has been logged. What could not be dropped is tried again.
            let applied = tokio::task::spawn_blocking(move || service.apply_lifecycles()).await;
            match applied {
                Ok(Ok(0)) | Err(_) => {}
                Ok(Ok(dropped)) => tracing::info!(dropped, "partitions of data streams were dropped"),
                Ok(Err(error)) => tracing::debug!(%error, "lifecycles of data streams wait"),
            }
        }
    }

    /// Makes columns of logs ahead of searches, again and again.
    pub(crate) async fn prepare_log_columns_forever(self: Arc<Self>) {
        loop {
            tokio::time::sleep(PREPARATION_INTERVAL).await;
            let service = Arc::clone(&self.service);
            // A panic has been logged. Searches make what is missing.
            let prepared = tokio::task::spawn_blocking(move || service.prepare_log_columns()).await;
            if let Ok(Err(error)) = prepared {
                tracing::debug!(%error, "columns of logs are not made ahead of searches");
            }
        }
    }

    /// The sender of a request. Without a credential it is known by its network, and what another node
    /// forwards by that of the node. Its client is the one that the other node has named.
    fn caller(
        &self,
        caller: Arc<RequestCaller>,
        headers: &HeaderMap,
        peer: Option<&ConnectionPeer>,
    ) -> ElasticCaller {
        let forwarded = if self.node.is_from_client(headers) { None } else { forwarded_client(headers) };
        let client = forwarded.unwrap_or_else(|| writer_of(&caller, peer));
        let network = peer.filter(|peer| caller.is_anonymous() || peer.is_node);
        let network = network.map(|peer| client_network(&peer.address));
        let limits = Arc::new(CountedGroups(Arc::clone(&self.node)));
        ElasticCaller::new(caller, limits).from_network(network).by_client(client)
    }

    /// Bounds of the body of a request. What is no write of documents has those of a query.
    fn bounds(&self, shown: &ElasticRequest) -> BodyBounds {
        match ElasticService::work_kind(shown) {
            WorkKind::JsonQuery => self.node.query_bounds(),
            _ => self.node.body_bounds(),
        }
    }

    /// Routes below `/elastic/` of the data port, whose guard admits requests.
    pub(crate) fn below_data_port(self: &Arc<Self>) -> Router {
        let router = Router::new()
            .route("/elastic", any(handle))
            .route("/elastic/", any(handle))
            .route("/elastic/{*path}", any(handle))
            .route("/v1/logs", any(handle))
            .route("/v1/logs/", any(handle))
            .with_state(Arc::clone(self))
            .layer(from_fn(http::compress_response));
        self.logged(router)
    }

    /// Routes of the service's own port, behind a guard.
    pub(crate) fn own_port(self: &Arc<Self>) -> Router {
        let guarded = RequestGuard::new(Arc::clone(&self.node));
        let router = Router::new()
            .fallback(handle)
            .with_state(Arc::clone(self))
            .layer(from_fn(http::compress_response));
        self.logged(router).layer(from_fn_with_state(guarded, guard_elastic))
    }

    /// Adds the access log to routes, if there is one.
    fn logged(&self, router: Router) -> Router {
        match self.node.access_log().cloned() {
            Some(log) => router.layer(from_fn_with_state(log, access_log::log)),
            None => router,
        }
    }
}

/// A request without its body and its caller.
fn elastic_request<B>(request: &hyper::Request<B>) -> ElasticRequest {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    ElasticRequest {
        method: request.method().as_str().to_owned(),
        host: authority.unwrap_or_else(|| header(request.headers(), &HOST)),
        path: path_of(request.uri().path()).to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        content_type: header(request.headers(), &CONTENT_TYPE),
        accept: header(request.headers(), &ACCEPT),
        ..ElasticRequest::default()
    }
}

/// True if a path of the data port is one of the service.
pub(crate) fn is_below(path: &str) -> bool {
    [BELOW, "/v1/logs"].into_iter().any(|root| http::rest_below(path, root).is_some())
}

/// Refusal of a request at the edge, in the form that clients of the service read.
pub(crate) fn refusal<B>(request: &hyper::Request<B>, error: millrace_elastic::Error) -> Response {
    http_response(ElasticService::refuse_as(&elastic_request(request), error))
}

async fn handle(State(api): State<Arc<ElasticApi>>, mut request: Request) -> Response {
    let mut shown = elastic_request(&request);
    let admitted = caller_of(&request).map(|caller| {
        let caller = as_sent(caller, request.headers());
        request.extensions_mut().insert(Arc::clone(&caller));
        caller
    });
    let opaque_id = request.headers().get(OPAQUE_ID).cloned();
    let peer = request.extensions().get::<ConnectionPeer>();
    let outcome = match admitted.map(|caller| shown.caller = api.caller(caller, request.headers(), peer)) {
        Ok(()) if BulkBatching::is_stream(&shown) => stream::answer(&api, &shown, request).await,
        Ok(()) => route(&api, &shown, request).await,
        Err(error) => Err(error),
    };
    let mut response = match outcome {
        Ok(response) => response,
        Err(error) => {
            let is_unsettled = matches!(error, Error::Unsettled(_));
            let retry_after = error.retry_after();
            let mut response = http_response(ElasticService::refuse(&shown, error));
            if let Some(after) = retry_after {
                // In place of the one that all refusals of this status have.
                response.headers_mut().insert(RETRY_AFTER, after);
            }
            if is_unsettled {
                forwarding::unsettled(response.headers_mut());
            }
            response
        }
    };
    if let Some(id) = opaque_id {
        response.headers_mut().insert(OPAQUE_ID, id);
    }
    response
}

/// Path within the service.
fn path_of(path: &str) -> &str {
    http::rest_below(path, BELOW).unwrap_or(path)
}

fn header(headers: &HeaderMap, name: &HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Forwards a request to the node that owns the service's documents, or answers it here.
async fn route(api: &Arc<ElasticApi>, shown: &ElasticRequest, request: Request) -> Result<Response, Error> {
    if let Err(error) = ElasticService::check_media_types(shown, !request.body().is_end_stream()) {
        return Ok(http_response(ElasticService::refuse_as(shown, error)));
    }
    let caller = caller_of(&request)?;
    check_right(&caller, shown)?;
    let mut writer = None;
    if api.node.is_from_client(request.headers()) {
        writer = Some(&*caller).filter(|_| ElasticService::right_of(shown) == RouteRight::Write);
        let (quotas, metrics) = (api.node.quotas(), api.node.metrics());
        quotas.admit_address(request.extensions().get(), Instant::now(), metrics)?;
    }
    if api.node.cluster().is_alone() {
        return operate(api, shown.clone(), request, writer, None).await;
    }
    if api.service.answers_at_once(shown) {
        let (service, shown) = (Arc::clone(&api.service), shown.clone());
        // The node may own the documents by now, and read the catalog for their health.
        return Ok(http_response(blocking(move || service.answer(&shown)).await?));
    }
    let [shortest, longest] = TIMEOUT_RANGE;
    let named = ElasticService::time_limit(shown).map(|named| named.clamp(shortest, longest));
    let deadline = Instant::now() + named.unwrap_or(DEFAULT_TIMEOUT);
    let stage = forwarding::stage_of(request.headers())?;
    let mut request = ForwardedRequest::read(&api.node, request, api.bounds(shown)).await?;
    attach_caller(&mut request.headers, &caller);
    if let Some(caller) = writer {
        admit_fed(api, caller, http::unpacked_bytes(&request.headers, &request.body))?;
    }
    let query = if shown.query.is_empty() { String::new() } else { format!("?{}", shown.query) };
    // The other node knows the credential, but not the group of the path or of a proxy.
    let group = caller.only_group().filter(|_| caller.is_for_path);
    let prefix = group.and_then(person_prefix).unwrap_or_default();
    request.target = format!("{prefix}{BELOW}{}{query}", shown.path);
    request.headers.remove(CANNOT_READ);
    if !caller.rights.has(AccessRight::Read) {
        request.headers.insert(CANNOT_READ, HeaderValue::from_static("true"));
    }
    request.headers.insert(CLIENT, client_header(shown.caller.client()));
    let home = ElasticService::home();
    let location = millrace_document::Location::new(u64::from(home.location_bits().unwrap_or(0)));
    let mut backoff = RouteBackoff::until(deadline);
    loop {
        let subject = RouteSubject { location, group: Some(&home), part: None };
        let access = access_of(shown);
        match forwarding::forward_request(&api.node, subject, access, &stage, &request, deadline).await? {
            RoutingOutcome::Forwarded(response) => return Ok(response),
            RoutingOutcome::Divided | RoutingOutcome::Local(_) => {}
        }
        let room = request.room.clone();
        match operate(api, shown.clone(), request.clone().into_request(), None, room).await {
            Err(Error::Unsettled(_)) if stage == ForwardKind::Client && backoff.pause().await => {}
            outcome => return outcome,
        }
    }
}

/// Kind of access of a request, all of which the owner of the service's documents answers.
fn access_of(shown: &ElasticRequest) -> AccessKind {
    match ElasticService::right_of(shown) {
        RouteRight::Write => AccessKind::Write,
        RouteRight::Any | RouteRight::Read if ElasticService::repeats(shown) => AccessKind::OwnerRead,
        RouteRight::Any | RouteRight::Read => AccessKind::OwnerReadOnce,
    }
}

/// Checks that the caller has the right that the route needs. The service checks its groups.
///
/// # Errors
/// The caller lacks the right.
fn check_right(caller: &RequestCaller, shown: &ElasticRequest) -> Result<(), Error> {
    let any_of: &[AccessRight] = match ElasticService::right_of(shown) {
        RouteRight::Any => &[AccessRight::Read, AccessRight::Write],
        RouteRight::Read => &[AccessRight::Read],
        RouteRight::Write => &[AccessRight::Write],
    };
    caller.check_right(any_of)?;
    Ok(())
}

/// The caller of a request with the rights that it had at the node that forwards it. A client that sends the
/// header loses a right, and gains none.
fn as_sent(caller: Arc<RequestCaller>, headers: &HeaderMap) -> Arc<RequestCaller> {
    if !headers.contains_key(CANNOT_READ) {
        return caller;
    }
    let kept = AccessRight::ALL.into_iter().filter(|right| *right != AccessRight::Read);
    let rights: Vec<AccessRight> = kept.filter(|right| caller.rights.has(*right)).collect();
    Arc::new(RequestCaller { rights: rights.into(), ..(*caller).clone() })
}

/// The client of a request that another node forwards, if the node names it.
fn forwarded_client(headers: &HeaderMap) -> Option<WriterId> {
    let text = headers.get(CLIENT)?.to_str().ok()?;
    u64::from_str_radix(text, 16).ok().map(WriterId)
}

/// Value of [`CLIENT`].
fn client_header(client: WriterId) -> HeaderValue {
    HeaderValue::try_from(format!("{:x}", client.0)).expect("hexadecimal digits are valid in a header")
}

/// Counts the bytes that a client writes. Their groups count them as documents of types are written; those of
/// indexes belong to no group of a person.
///
/// # Errors
/// [`Error::OverFed`].
fn admit_fed(api: &ElasticApi, caller: &RequestCaller, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        // Such as the deletion of an index, which makes room.
        return Ok(());
    }
    let fed = FedBytes { caller: Some(caller), group: None, bytes };
    api.node.quotas().fed().admit(fed, Instant::now(), api.node.metrics())
}

/// A request with what it holds until its work has ended. Work that cannot be interrupted goes on when its
/// client has left, and counts as long as it does.
struct HeldRequest {
    request: ElasticRequest,
    /// Room of the body as this node has received it, if it is in memory elsewhere.
    _received: Option<Arc<BudgetReservation>>,
    _room: BudgetReservation,
    _slot: RequestSlot,
}

impl HeldRequest {
    /// Answers the request. Blocks.
    ///
    /// # Errors
    /// This node cannot answer it, or its client has left before the work began, and does not get the error.
    fn answer(self, service: &ElasticService) -> Result<ElasticResponse, Error> {
        if self.request.gone.load(Ordering::Relaxed) {
            return Err(Error::Overloaded);
        }
        service.check_ready()?;
        Ok(service.answer(&self.request))
    }
}

/// Answers a request on this node. A `writer` is the client whose bytes are still to be counted; in a cluster
/// the body was received before, and has room in `received`.
async fn operate(
    api: &Arc<ElasticApi>,
    shown: ElasticRequest,
    request: Request,
    writer: Option<&RequestCaller>,
    received: Option<Arc<BudgetReservation>>,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let is_reserved = !api.node.cluster().is_alone();
    let bounds = BodyBounds { is_reserved, ..api.bounds(&shown) };
    let (body, mut room) = http::read_body(&api.node, &parts.headers, body, bounds).await?.into_parts();
    writer.map_or(Ok(()), |caller| admit_fed(api, caller, body.len()))?;
    room.work(ElasticService::work_kind(&shown), &body).await?;
    let scope = api.service.search_scope(&shown);
    let slot = api.slots.take(shown.caller.client(), scope.as_ref());
    let waits = tokio::time::timeout(api.node.settings().limits.bodies_wait, slot);
    let Ok(slot) = waits.await else { return Err(Error::Overloaded) };
    let service = Arc::clone(&api.service);
    // A search ends when this future is dropped, since its client has left.
    let client = CancelOnDrop::default();
    let request = ElasticRequest { body: Vec::from(body), gone: Arc::clone(&client.gone), ..shown };
    let held = HeldRequest { request, _received: received, _room: room, _slot: slot };
    let answer = move || held.answer(&service);
    let answer = match scope {
        Some(scope) => {
            if !api.node.cluster().is_alone() {
                // It may wait for other nodes, and for others that do.
                let service = Arc::clone(&api.service);
                blocking(move || service.check_ready()).await??;
            }
            // It asks other nodes for documents, too.
            let runtime = Handle::current();
            let search = move || {
                let _entered = runtime.enter();
                answer()
            };
            api.node.pool().run_in(WorkFlow::of_scope(&scope), search).await??
        }
        None => blocking(answer).await??,
    };
    Ok(http_response(answer))
}

/// Runs work of a request on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("a request of Elasticsearch's interfaces: {error}")))
}

/// Writes an answer with the headers that clients of Elasticsearch expect.
fn http_response(answer: ElasticResponse) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
    headers.extend(HeaderValue::from_str(&answer.content_type).ok().map(|value| (CONTENT_TYPE, value)));
    headers.extend(answer.retry_after_s.map(|after| (RETRY_AFTER, HeaderValue::from(after))));
    for warning in answer.warnings.iter().filter_map(|text| HeaderValue::from_str(text).ok()) {
        headers.append(WARNING, warning);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_and_pages_of_scrolls_are_not_repeated() {
        for (method, path, expected) in [
            ("POST", "/_bulk", AccessKind::Write),
            ("PUT", "/logs/_doc/1", AccessKind::Write),
            ("POST", "/v1/logs", AccessKind::Write),
            ("POST", "/logs/_search", AccessKind::OwnerRead),
            ("GET", "/logs/_doc/1", AccessKind::OwnerRead),
            ("GET", "/_cat/indices", AccessKind::OwnerRead),
            ("POST", "/logs/_refresh", AccessKind::OwnerRead),
            ("POST", "/_search/scroll", AccessKind::OwnerReadOnce),
            ("DELETE", "/_search/scroll", AccessKind::OwnerRead),
        ] {
            let (method, path) = (method.to_owned(), path.to_owned());
            let shown = ElasticRequest { method, path, ..ElasticRequest::default() };
            assert_eq!(access_of(&shown), expected, "{} {}", shown.method, shown.path);
        }
    }

    #[test]
    fn each_warning_is_a_header() {
        let warnings = vec!["299 Elasticsearch \"a\"".to_owned(), "299 Elasticsearch \"b\"".to_owned()];
        let content_type = "application/json".to_owned();
        let answer =
            ElasticResponse { status: 200, content_type, retry_after_s: None, warnings, body: Vec::new() };
        let response = http_response(answer);
        let shown: Vec<_> = response.headers().get_all(WARNING).iter().collect();
        assert_eq!(shown, ["299 Elasticsearch \"a\"", "299 Elasticsearch \"b\""]);
    }

    #[test]
    fn the_client_of_a_forwarded_request_is_named() {
        let mut headers = HeaderMap::new();
        assert_eq!(forwarded_client(&headers), None, "an older version names none");
        for client in [0, 9, u64::MAX].map(WriterId) {
            headers.insert(CLIENT, client_header(client));
            assert_eq!(forwarded_client(&headers), Some(client));
        }
        headers.insert(CLIENT, HeaderValue::from_static("ann"));
        assert_eq!(forwarded_client(&headers), None);
    }
}
