//! `/document/v1/`: single documents, visits, and changes of many documents at once.

mod buckets;
mod complete_ids;
pub(crate) mod feed;
mod format;
mod get;
mod group_drop;
mod path;
mod retry;
mod route;
mod sweep;
mod visit;
mod write;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};
use millrace_access::{Permit, RequestCaller, WantedGroups};
use millrace_document::{DocumentGroup, DocumentId, Location};
use millrace_node::ErrorKind;
use millrace_node::cluster::{AccessKind, ForwardKind, ReadFence, RouteBackoff, RouteSubject};
use millrace_node::metrics::CountedMetric;
use millrace_node::{CompiledApplication, Error};
use millrace_selection::DocumentSelection;
use millrace_store::{WriteDurability, WriterId};
use serde_json::{Map, Value, json};

use self::path::{DocumentScope, DocumentTarget};
use crate::GatewayState;
use crate::access_log::ConnectionPeer;
use crate::edge::{StreamCredential, attach_caller, caller_of, person_prefix};
use crate::forwarding::{self, ForwardedRequest, RoutingOutcome};
use crate::http::{self, BodyBounds, BudgetReservation, RequestParameters};
use crate::quota::{FedBytes, FedBytesCounted, GroupTurn, RewrittenBytes};
use crate::status::HttpError;

/// Default timeout of an operation.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A request, parsed as far as all operations need it.
struct DocumentCall {
    node: Arc<GatewayState>,
    /// Original path.
    path: String,
    parameters: RequestParameters,
    started: Instant,
    timeout: Duration,
    /// Permission of its caller to read and write the documents.
    permit: Permit,
    /// Its caller; `None` before the credential is looked at.
    caller: Option<Arc<RequestCaller>>,
    /// Its credential, if it may go on for long; `None` for a single document.
    credential: Option<StreamCredential>,
    /// Prefix of the path for other nodes, if the group of the caller was filled in.
    person_prefix: Option<String>,
    /// Forwarding state of the request.
    stage: ForwardKind,
    /// Copy of the request, if its documents are on several nodes and this one gathers them.
    spread_request: Option<ForwardedRequest>,
    /// Copy of a visit of one group, which continues at another node if its documents move there.
    group_request: Option<ForwardedRequest>,
    /// True if the body was already read for forwarding.
    body_is_reserved: bool,
    /// True if the bytes of the body were counted by the limits of clients.
    is_fed_counted: bool,
    /// True for an operation of a stream, which waits for the limits of clients by itself.
    is_of_stream: bool,
    /// Durability of the writes of a stream when they are acknowledged.
    durability: WriteDurability,
    /// Writer of the batches of a stream.
    writer: WriterId,
}

impl DocumentCall {
    /// A request of which nothing but the path is known. No document is permitted before it is parsed.
    fn new(node: Arc<GatewayState>, path: &str) -> Self {
        DocumentCall {
            path: path.to_owned(),
            parameters: RequestParameters::default(),
            node,
            started: Instant::now(),
            timeout: TIMEOUT,
            permit: Permit::of_nothing(),
            caller: None,
            credential: None,
            person_prefix: None,
            stage: ForwardKind::Client,
            spread_request: None,
            group_request: None,
            body_is_reserved: false,
            is_fed_counted: false,
            is_of_stream: false,
            durability: WriteDurability::Synced,
            writer: WriterId::default(),
        }
    }

    /// Counts the bytes that a client writes, by its caller and the group of the documents.
    ///
    /// # Errors
    /// [`Error::OverFed`].
    fn admit_fed(&self, group: Option<&DocumentGroup>, bytes: usize) -> Result<(), Error> {
        let Some(caller) = self.caller.as_deref().filter(|_| self.stage == ForwardKind::Client) else {
            return Ok(());
        };
        if self.is_fed_counted {
            return Ok(());
        }
        let fed = FedBytes { caller: Some(caller), group, bytes };
        self.node.quotas().fed().admit(fed, Instant::now(), self.node.metrics())
    }

    /// Counter of the documents of a group that updates write again; `None` if nothing limits them.
    fn rewrites(&self, group: &DocumentGroup) -> Option<RewrittenBytes> {
        RewrittenBytes::new(self.node.quotas(), self.caller.as_ref()?, Some(group))
    }

    /// Checks that the credential of the request is still valid.
    ///
    /// # Errors
    /// It is not, or gives less than before.
    fn check_credential(&self) -> Result<(), Error> {
        Ok(self.credential.as_ref().map_or(Ok(()), StreamCredential::check)?)
    }

    /// Active application.
    fn deployment(&self) -> Result<Arc<CompiledApplication>, Error> {
        self.node.deployments().current()
    }

    /// Answer of an operation without further results.
    fn empty_answer<'a>(&'a self, id: Option<&'a DocumentId>) -> EmptyAnswer<'a> {
        EmptyAnswer { path: &self.path, id: id.map(|id| id.shown_within(self.implied_group())) }
    }

    /// Beginning of every answer: the path, and the id if there is one.
    fn answer(&self, id: Option<&DocumentId>) -> Map<String, Value> {
        let mut answer = Map::new();
        answer.insert("pathId".to_owned(), Value::String(self.path.clone()));
        if let Some(id) = id {
            let shown = id.shown_within(self.implied_group());
            answer.insert("id".to_owned(), Value::String(shown.into_owned()));
        }
        answer
    }

    /// Group that ids leave out, in answers and in the conditions of the request.
    fn implied_group(&self) -> Option<&DocumentGroup> {
        self.caller.as_deref().and_then(|caller| caller.implied_group.as_ref())
    }

    /// Text of a selection or a condition, with the implied group in its ids.
    ///
    /// # Errors
    /// The text is not a selection.
    fn selection_text<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, millrace_selection::Error> {
        match self.implied_group() {
            Some(group) => Ok(Cow::Owned(DocumentSelection::parse(text)?.text_within(group))),
            None => Ok(Cow::Borrowed(text)),
        }
    }

    /// Trace for a request with a `tracelevel`: its effect and its time.
    fn trace(&self, effect: impl FnOnce() -> String) -> Result<Option<Value>, Error> {
        let level = self.parameters.number("tracelevel", 0, 9)?.unwrap_or(0);
        let time = || format!("Completed after {:.3} ms", self.started.elapsed().as_secs_f64() * 1e3);
        Ok((level > 0).then(|| json!([{ "message": effect() }, { "message": time() }])))
    }

    /// Time at which the request times out.
    fn deadline(&self) -> Instant {
        self.started + self.timeout
    }

    /// Remaining time of the request.
    fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(self.started.elapsed())
    }

    /// Bounds of the body: the request's timeout also limits the time without progress.
    fn body_bounds(&self) -> BodyBounds {
        let bounds = self.node.body_bounds();
        BodyBounds {
            timeout: bounds.timeout.min(self.timeout),
            is_reserved: self.body_is_reserved,
            is_question: self.stage != ForwardKind::Client,
            ..bounds
        }
    }

    /// Share of the budget of requests, without any bytes yet.
    fn share(&self) -> BudgetReservation {
        match self.stage {
            ForwardKind::Client => self.node.budget().share(),
            _ => self.node.budget().question(),
        }
    }

    /// Runs `future`, unless the request times out first.
    async fn within<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match tokio::time::timeout(self.time_left(), future).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout(self.timeout)),
        }
    }
}

/// [`DocumentCall::answer`] without any additions: it is written without being collected first.
#[derive(serde::Serialize)]
struct EmptyAnswer<'a> {
    #[serde(rename = "pathId")]
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
}

/// Answers any request below `/document/v1/`.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        return options();
    }
    let mut call = DocumentCall::new(node, request.uri().path());
    let parameters_max = call.node.settings().limits.parameters_max;
    match RequestParameters::parse(request.uri().query().unwrap_or(""), parameters_max) {
        Ok(parameters) => call.parameters = parameters,
        Err(error) => return render(&call, None, &error),
    }
    let target = match caller_of(&request).and_then(|caller| admitted_target(&mut call, &caller)) {
        Ok(target) => target,
        Err(error) => return render(&call, None, &error),
    };
    let id = match &target {
        DocumentTarget::Document(id) => Some(id.clone()),
        DocumentTarget::Documents(_) => {
            call.credential = StreamCredential::from_request(&call.node, &request);
            None
        }
    };
    match route(&mut call, target, request).await {
        Ok(response) => {
            call.node.metrics().time(CountedMetric::OperationLatency, call.started.elapsed());
            response
        }
        Err(error) => render(&call, id.as_ref(), &error),
    }
}

/// Parses the path, and permits its documents to the caller. The only group of a caller is filled into a path
/// that names none.
fn admitted_target(call: &mut DocumentCall, caller: &Arc<RequestCaller>) -> Result<DocumentTarget, Error> {
    let mut target = DocumentTarget::parse(&call.path)?;
    if let Some(group) = caller.only_group()
        && let Some(filled) = target.within(group)?
    {
        target = filled;
        call.person_prefix = person_prefix(group);
    }
    call.caller = Some(Arc::clone(caller));
    call.permit = match &target {
        DocumentTarget::Document(id) => {
            caller.permit(WantedGroups::These(std::slice::from_ref(id.group())))?
        }
        DocumentTarget::Documents(DocumentScope { group: Some(group), .. }) => {
            caller.permit(WantedGroups::These(std::slice::from_ref(group)))?
        }
        DocumentTarget::Documents(_) => caller.permit(WantedGroups::All)?,
    };
    Ok(target)
}

async fn route(call: &mut DocumentCall, target: DocumentTarget, request: Request) -> Result<Response, Error> {
    if let Some(timeout) = call.parameters.duration("timeout")? {
        // A longer one is cut: no client waits for so long, and nothing is lost by the answer that comes
        // then.
        call.timeout = timeout.min(call.node.settings().limits.document_timeout_max);
    }
    call.parameters.number("tracelevel", 0, 9)?;
    check_dry_run(call, &target, request.method())?;
    if call.parameters.flag("dryRun")? == Some(true) {
        return dry_run(call, &target, request).await;
    }
    // The turn lasts until the answer begins.
    let _turn = admit(call, &target, &request)?;
    call.is_of_stream = request.extensions().get::<FedBytesCounted>().is_some();
    call.is_fed_counted = call.is_of_stream;
    if call.node.cluster().is_alone() {
        return operate(call, target, ReadFence::default(), request).await;
    }
    call.stage = forwarding::stage_of(request.headers())?;
    let mut request = ForwardedRequest::read(&call.node, request, call.body_bounds()).await?;
    if let Some(caller) = &call.caller {
        attach_caller(&mut request.headers, caller);
    }
    if call.stage == ForwardKind::Client {
        let completed = complete_ids::parameters(call, &target, &request).await?;
        if let Some(completed) = &completed {
            let path = request.target.split('?').next().unwrap_or_default();
            request.target = format!("{path}?{}", http::form_encode(completed.iter()));
        }
        request.target = visit::forwarded(request.target, completed.as_ref().unwrap_or(&call.parameters));
    }
    if request.method != Method::GET && !request.body.is_empty() {
        call.admit_fed(target.named_group(), http::unpacked_bytes(&request.headers, &request.body))?;
        call.is_fed_counted = true;
    }
    if let Some(prefix) = &call.person_prefix {
        request.target.insert_str(0, prefix);
    }
    call.body_is_reserved = true;
    let is_read = request.method == Method::GET;
    call.group_request = Some(&request).filter(|_| is_read && target.group().is_some()).cloned();
    let mut backoff = RouteBackoff::until(call.deadline());
    loop {
        let fence = match forward_request(call, &target, &request).await? {
            RoutingOutcome::Local(fence) => fence,
            RoutingOutcome::Forwarded(response) => return Ok(response),
            RoutingOutcome::Divided => {
                call.spread_request = Some(request.clone());
                ReadFence::default()
            }
        };
        let outcome = match operate(call, target.clone(), fence, request.clone().into_request()).await {
            Ok(response) if is_read => fence.check(&call.node).map(|()| response),
            outcome => outcome,
        };
        match outcome {
            // The reads do not count, and nothing was written: another node owns the documents, or is about
            // to.
            Err(Error::Unsettled(_)) if call.stage == ForwardKind::Client && backoff.pause().await => {}
            outcome => return outcome,
        }
    }
}

/// Counts a request of a client by its address and its group. The turn lasts as long as it is in flight.
/// Parts of other requests, such as the pages of an export and operations of a stream, take none.
fn admit(
    call: &DocumentCall,
    target: &DocumentTarget,
    request: &Request,
) -> Result<Option<GroupTurn>, Error> {
    if !call.node.is_from_client(request.headers()) {
        return Ok(None);
    }
    let (quotas, metrics) = (call.node.quotas(), call.node.metrics());
    let peer = request.extensions().get::<ConnectionPeer>();
    quotas.admit_address(peer, call.started, metrics)?;
    let Some(group) = target.named_group() else { return Ok(None) };
    quotas.admit_group(group, call.started, metrics)?;
    match peer {
        Some(_) => quotas.turn_of_group(group, metrics),
        // The server has made it.
        None => Ok(None),
    }
}

/// Executes a request on this node, with the read fence for its documents.
async fn operate(
    call: &DocumentCall,
    target: DocumentTarget,
    fence: ReadFence,
    request: Request,
) -> Result<Response, Error> {
    let method = request.method().clone();
    match (target, method.as_str()) {
        (DocumentTarget::Document(id), "GET") => get::document(call, &id, fence).await,
        (DocumentTarget::Document(id), "POST") => write::put(call, id, request).await,
        (DocumentTarget::Document(id), "PUT") => write::update(call, id, request).await,
        (DocumentTarget::Document(id), "DELETE") => write::remove(call, id).await,
        (DocumentTarget::Document(_), _) => Err(Error::MethodNotAllowed {
            method: method.to_string(),
            allowed: "GET, POST, PUT, DELETE, OPTIONS",
        }),
        (DocumentTarget::Documents(documents), "GET") => {
            visit::documents(call, documents, fence, visit::accepts_lines(request.headers())).await
        }
        (DocumentTarget::Documents(_), "POST") => Err(sweep::copying_refused(call)),
        (DocumentTarget::Documents(documents), "PUT") => {
            sweep::update_where(call, documents, fence, request).await
        }
        (DocumentTarget::Documents(documents), "DELETE") => sweep::delete_where(call, documents, fence).await,
        (DocumentTarget::Documents(_), _) => Err(Error::MethodNotAllowed {
            method: method.to_string(),
            allowed: "GET, POST, PUT, DELETE, OPTIONS",
        }),
    }
}

/// Forwards a request to the node of the cluster that has to answer, if that is another.
async fn forward_request(
    call: &mut DocumentCall,
    target: &DocumentTarget,
    request: &ForwardedRequest,
) -> Result<RoutingOutcome, Error> {
    let location = match call.stage.part() {
        Some(bucket) => Some(Location::new(bucket.bits())),
        None => target.location(),
    };
    let access = match target {
        DocumentTarget::Document(_) if request.method == Method::GET => AccessKind::Get,
        _ if request.method == Method::GET => AccessKind::Read,
        DocumentTarget::Document(_) => AccessKind::Write,
        DocumentTarget::Documents(_) => AccessKind::Sweep,
    };
    let Some(location) = location else {
        call.spread_request = Some(request.clone()).filter(|_| call.stage == ForwardKind::Client);
        return Ok(RoutingOutcome::Local(ReadFence::default()));
    };
    let subject = RouteSubject { location, group: target.group(), part: None };
    forwarding::forward_request(&call.node, subject, access, &call.stage, request, call.deadline()).await
}

/// Refuses `dryRun` for anything but a write of one document: a read that does not take place has no answer,
/// and many documents are changed by a visit.
fn check_dry_run(call: &DocumentCall, target: &DocumentTarget, method: &Method) -> Result<(), Error> {
    let is_write = [Method::POST, Method::PUT, Method::DELETE].contains(method);
    if call.parameters.get("dryRun").is_none() || is_write && matches!(target, DocumentTarget::Document(_)) {
        return Ok(());
    }
    Err(Error::parameter("dryRun", "it is for writes of single documents; leave it out"))
}

/// Reads the request and changes nothing: clients use it to measure their connection.
async fn dry_run(call: &DocumentCall, target: &DocumentTarget, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    http::read_body(&call.node, &parts.headers, body, call.body_bounds()).await?;
    let id = match target {
        DocumentTarget::Document(id) => Some(id),
        DocumentTarget::Documents(_) => None,
    };
    Ok(http::json(StatusCode::OK, &call.empty_answer(id)))
}

fn options() -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
        .headers_mut()
        .insert(hyper::header::ALLOW, HeaderValue::from_static("GET, POST, PUT, DELETE, OPTIONS"));
    response
}

/// Renders an error in the form of `/document/v1/`.
fn render(call: &DocumentCall, id: Option<&DocumentId>, error: &Error) -> Response {
    let metrics = call.node.metrics();
    match error.kind() {
        ErrorKind::Precondition => metrics.count(CountedMetric::ConditionFailures),
        ErrorKind::Overloaded => metrics.count(CountedMetric::Rejected),
        _ => metrics.count(CountedMetric::FailedOperations),
    }
    let mut answer = call.answer(id);
    answer.insert("message".to_owned(), Value::String(error.message()));
    let mut response = http::json(error.status(), &Value::Object(answer));
    response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
    if matches!(error, Error::Unsettled(_)) {
        forwarding::unsettled(response.headers_mut());
    }
    response
}
