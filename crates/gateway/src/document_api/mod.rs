//! `/document/v1/`: single documents, visits, and changes of many documents at once.

mod buckets;
mod format;
mod get;
mod path;
mod route;
mod sweep;
mod visit;
mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};
use millrace_document::{DocumentId, Location};
use serde_json::{Map, Value};

use crate::cluster::{self, Access, Forwarded, Hop, Looks, Subject, Vouch, Way};
use crate::error::Kind;
use crate::http::{self, BodyBounds, Parameters};
use crate::metrics::Metric;
use crate::{Deployment, Error, Node};
use path::Target;
pub(crate) use write::MISFIT;

/// How long an operation may take where the request does not say.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A request, taken apart as far as all operations need it.
struct Call {
    node: Arc<Node>,
    /// The path as it came.
    path: String,
    parameters: Parameters,
    started: Instant,
    timeout: Duration,
    /// How far the request has come.
    hop: Hop,
    /// The request again, where its documents lie on several nodes and this one gathers them.
    spread: Option<Forwarded>,
    /// Whether the body was read before, to be handed on.
    body_is_reserved: bool,
}

impl Call {
    /// The active application.
    fn deployment(&self) -> Result<Arc<Deployment>, Error> {
        self.node.deployments().current()
    }

    /// The answer of an operation that has nothing more to say.
    fn done<'a>(&'a self, id: Option<&'a DocumentId>) -> Done<'a> {
        Done { path: &self.path, id: id.map(DocumentId::as_str) }
    }

    /// The beginning of every answer: the path, and the id where there is one.
    fn answer(&self, id: Option<&DocumentId>) -> Map<String, Value> {
        let mut answer = Map::new();
        answer.insert("pathId".to_owned(), Value::String(self.path.clone()));
        if let Some(id) = id {
            answer.insert("id".to_owned(), Value::String(id.as_str().to_owned()));
        }
        answer
    }

    /// When the request's time is over.
    fn deadline(&self) -> Instant {
        self.started + self.timeout
    }

    /// What is left of the request's time.
    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.started.elapsed())
    }

    /// The bounds of the body: while it makes no progress, the request's time counts.
    fn body_bounds(&self) -> BodyBounds {
        let bounds = self.node.body_bounds();
        BodyBounds {
            patience: bounds.patience.min(self.timeout),
            is_reserved: self.body_is_reserved,
            ..bounds
        }
    }

    /// `future`, unless the request's time is over first.
    async fn within<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match tokio::time::timeout(self.left(), future).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout(self.timeout)),
        }
    }
}

/// [`Call::answer`] for those who add nothing: it is written without being gathered first.
#[derive(serde::Serialize)]
struct Done<'a> {
    #[serde(rename = "pathId")]
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Answers any request below `/document/v1/`.
pub(crate) async fn handle(State(node): State<Arc<Node>>, request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        return options();
    }
    let mut call = Call {
        path: request.uri().path().to_owned(),
        parameters: Parameters::default(),
        node,
        started: Instant::now(),
        timeout: TIMEOUT,
        hop: Hop::Client,
        spread: None,
        body_is_reserved: false,
    };
    let most = call.node.settings().limits.parameters_max;
    match Parameters::parse(request.uri().query().unwrap_or(""), most) {
        Ok(parameters) => call.parameters = parameters,
        Err(error) => return render(&call, None, &error),
    }
    let target = match Target::parse(&call.path) {
        Ok(target) => target,
        Err(error) => return render(&call, None, &error),
    };
    let id = match &target {
        Target::Document(id) => Some(id.clone()),
        Target::Documents(_) => None,
    };
    match route(&mut call, target, request).await {
        Ok(response) => {
            call.node.metrics().time(Metric::OperationLatency, call.started.elapsed());
            response
        }
        Err(error) => render(&call, id.as_ref(), &error),
    }
}

async fn route(call: &mut Call, target: Target, request: Request) -> Result<Response, Error> {
    if let Some(timeout) = call.parameters.duration("timeout")? {
        // A longer one is cut: no one waits for so long, and nothing is lost by the answer that comes then.
        call.timeout = timeout.min(call.node.settings().limits.document_timeout_max);
    }
    call.parameters.number("tracelevel", 0, 9)?;
    if call.parameters.flag("dryRun")? == Some(true) {
        return dry_run(call, &target, request).await;
    }
    if call.node.cluster().is_none() {
        return operate(call, target, Vouch::default(), request).await;
    }
    call.hop = Hop::of(request.headers())?;
    let request = Forwarded::of(&call.node, request, call.body_bounds()).await?;
    call.body_is_reserved = true;
    let is_read = request.method == Method::GET;
    let mut looks = Looks::until(call.deadline());
    loop {
        let vouch = match hand_on(call, &target, &request).await? {
            Way::Here(vouch) => vouch,
            Way::There(response) => return Ok(response),
            Way::Divided => {
                call.spread = Some(request.clone());
                Vouch::default()
            }
        };
        let outcome = match operate(call, target.clone(), vouch, request.clone().into_request()).await {
            Ok(response) if is_read => vouch.check(&call.node).map(|()| response),
            outcome => outcome,
        };
        match outcome {
            // What was read does not count, and nothing was written: another node owns the documents, or is about to.
            Err(Error::Unsettled(_)) if call.hop == Hop::Client && looks.again().await => {}
            outcome => return outcome,
        }
    }
}

/// Does on this node what a request asks for, knowing what this node has of it.
async fn operate(call: &Call, target: Target, vouch: Vouch, request: Request) -> Result<Response, Error> {
    let method = request.method().clone();
    match (target, method.as_str()) {
        (Target::Document(id), "GET") => get::document(call, &id, vouch).await,
        (Target::Document(id), "POST") => write::put(call, id, request).await,
        (Target::Document(id), "PUT") => write::update(call, id, request).await,
        (Target::Document(id), "DELETE") => write::remove(call, id).await,
        (Target::Document(_), _) => Err(Error::MethodNotAllowed {
            method: method.to_string(),
            allowed: "GET, POST, PUT, DELETE, OPTIONS",
        }),
        (Target::Documents(documents), "GET") => {
            visit::documents(call, documents, visit::accepts_lines(request.headers())).await
        }
        (Target::Documents(_), "POST") => Err(sweep::copying_refused(call)),
        (Target::Documents(documents), "PUT") => sweep::update_where(call, documents, request).await,
        (Target::Documents(documents), "DELETE") => sweep::delete_where(call, documents).await,
        (Target::Documents(_), _) => Err(Error::MethodNotAllowed {
            method: method.to_string(),
            allowed: "GET, POST, PUT, DELETE, OPTIONS",
        }),
    }
}

/// Has another node of the cluster answer, where that is for another to do.
async fn hand_on(call: &mut Call, target: &Target, request: &Forwarded) -> Result<Way, Error> {
    let location = match call.hop.part() {
        Some(bucket) => Some(Location::new(bucket.bits())),
        None => target.location(),
    };
    let access = match target {
        Target::Document(_) if request.method == Method::GET => Access::Get,
        _ if request.method == Method::GET => Access::Read,
        Target::Document(_) => Access::Write,
        Target::Documents(_) => Access::Sweep,
    };
    let Some(location) = location else {
        call.spread = Some(request.clone()).filter(|_| call.hop == Hop::Client);
        return Ok(Way::Here(Vouch::default()));
    };
    let subject = Subject { location, group: target.group(), part: None };
    cluster::hand_on(&call.node, subject, access, &call.hop, request, call.deadline()).await
}

/// Reads the request and changes nothing: clients measure their connection so.
async fn dry_run(call: &Call, target: &Target, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    http::read_body(&call.node, &parts.headers, body, call.body_bounds()).await?;
    let id = match target {
        Target::Document(id) => Some(id),
        Target::Documents(_) => None,
    };
    Ok(http::json(StatusCode::OK, &call.done(id)))
}

fn options() -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
        .headers_mut()
        .insert(hyper::header::ALLOW, HeaderValue::from_static("GET, POST, PUT, DELETE, OPTIONS"));
    response
}

/// An error as `/document/v1/` tells it.
fn render(call: &Call, id: Option<&DocumentId>, error: &Error) -> Response {
    let metrics = call.node.metrics();
    match error.kind() {
        Kind::Precondition => metrics.count(Metric::ConditionFailures),
        Kind::Overloaded => metrics.count(Metric::Rejected),
        _ => metrics.count(Metric::FailedOperations),
    }
    let mut answer = call.answer(id);
    answer.insert("message".to_owned(), Value::String(error.message()));
    let mut response = http::json(error.status(), &Value::Object(answer));
    response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
    if matches!(error, Error::Unsettled(_)) {
        cluster::unsettled(response.headers_mut());
    }
    response
}
