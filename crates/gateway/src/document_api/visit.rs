//! Visiting: reading many documents, in the order in which they are stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};
use millrace_document::{Document, DocumentId, Timestamp};
use millrace_schema::ContentCluster;
use millrace_selection::Selection;
use millrace_store::{Store, ViewScope, Visit, Visited};
use serde_json::{Value, json};

use super::Call;
use super::format::Shape;
use super::path::Documents;
use super::write::holds;
use crate::http;
use crate::metrics::Metric;
use crate::pool::Pool;
use crate::{Deployment, Error, Node};

/// Documents read from the store at a time.
const PAGE: usize = 256;

/// The most documents in an answer that is not streamed.
const WANTED_MAX: usize = 1024;

/// An answer that is not streamed ends when it is this large.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How long before its timeout a visit ends, so that its answer still arrives.
const MARGIN: Duration = Duration::from_millis(500);

/// What of the store a request goes through.
#[derive(Clone)]
pub(super) struct Pass {
    pub(super) deployment: Arc<Deployment>,
    store: Store,
    visit: Visit,
    /// Only documents of this namespace.
    namespace: Option<String>,
    selection: Option<Selection>,
}

/// What one step of a pass found.
pub(super) struct Found {
    pub(super) documents: Vec<Visited>,
    /// Where the next step begins; `None` at the end.
    pub(super) continuation: Option<String>,
}

impl Pass {
    /// What the path and the parameters of a request say.
    pub(super) fn new(call: &Call, documents: Documents) -> Result<Self, Error> {
        let deployment = call.deployment()?;
        let parameters = &call.parameters;
        let cluster = parameters.get("cluster").map(|id| deployment.cluster(id)).transpose()?;
        let document_types = match (&documents.of, cluster) {
            (Some((_, document_type)), cluster) => {
                let kind = deployment.kind(document_type)?;
                let has = |cluster: &&ContentCluster| cluster.document(document_type).is_some();
                if let Some(cluster) = cluster.filter(|cluster| !has(cluster)) {
                    return Err(Error::parameter(
                        "cluster",
                        format!(
                            "document type '{document_type}' is in cluster {}, not in '{}'",
                            kind.cluster_names(),
                            cluster.id
                        ),
                    ));
                }
                vec![document_type.clone()]
            }
            (None, Some(cluster)) => {
                cluster.documents.iter().map(|document| document.document_type.to_string()).collect()
            }
            (None, None) => {
                return Err(Error::parameter(
                    "cluster",
                    "must be set to a content cluster when visiting at the root /document/v1/ level",
                ));
            }
        };
        // Documents of global types would be in a space of their own; there are none.
        let global = match parameters.get("bucketSpace") {
            None | Some("default") => false,
            Some("global") => true,
            Some(other) => {
                return Err(Error::parameter(
                    "bucketSpace",
                    format!("expected default or global, got '{other}'"),
                ));
            }
        };
        let selection = parameters.get("selection").filter(|text| !text.trim().is_empty());
        let selection = selection.map(|text| deployment.selection(text)).transpose()?;
        let visit = Visit {
            document_types: if global { Vec::new() } else { document_types },
            scope: match (documents.group, selection.as_ref().and_then(Selection::groups)) {
                (Some(group), _) => ViewScope::Groups(vec![group]),
                // Nothing of other groups is read.
                (None, Some(groups)) => ViewScope::Groups(groups.into_iter().collect()),
                (None, None) => ViewScope::All,
            },
            slice: slice(call)?,
            continuation: parameters.get("continuation").filter(|text| !text.is_empty()).map(str::to_owned),
            wanted: PAGE,
            tombstones: parameters.flag("includeRemoves")?.unwrap_or(false),
            ..between(call, Visit::all(&[]))?
        };
        let namespace = documents.of.map(|(namespace, _)| namespace);
        Ok(Pass { deployment, store: call.node.store().clone(), visit, namespace, selection })
    }

    /// Goes on from `continuation` for up to `wanted` documents of the store, and hands out those that are selected.
    pub(super) fn step(&self, continuation: Option<String>, wanted: usize) -> Result<Found, Error> {
        let visit = Visit { continuation, wanted: wanted.clamp(1, PAGE), ..self.visit.clone() };
        if visit.document_types.is_empty() {
            return Ok(Found { documents: Vec::new(), continuation: None });
        }
        let page = self.store.visit(&visit)?;
        let mut documents = page.visited;
        documents.retain(|visited| match visited {
            Visited::Document(document, _) => self.wants(document),
            Visited::Removed(id, _) => self.wants_id(id),
        });
        Ok(Found { documents, continuation: page.continuation })
    }

    /// Where the request begins.
    pub(super) fn start(&self) -> Option<String> {
        self.visit.continuation.clone()
    }

    /// Whether a document is one of those that the request addresses.
    pub(super) fn wants(&self, document: &Document) -> bool {
        self.wants_id(&document.id)
            && self.selection.as_ref().is_none_or(|selection| holds(selection, document))
    }

    fn wants_id(&self, id: &DocumentId) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == id.namespace())
    }
}

/// `slices` and `sliceId`.
fn slice(call: &Call) -> Result<(u32, u32), Error> {
    let slices = call.parameters.number("slices", 1, u64::from(u32::MAX))?;
    let slice = call.parameters.number("sliceId", 0, u64::from(u32::MAX))?;
    match (slices, slice) {
        (None, None) => Ok((0, 1)),
        (Some(slices), Some(slice)) if slice < slices => Ok((slice as u32, slices as u32)),
        (Some(slices), Some(slice)) => Err(Error::parameter(
            "sliceId",
            format!("expected less than slices, which is {slices}; got {slice}"),
        )),
        (Some(_), None) => Err(Error::parameter("sliceId", "must be set where slices is")),
        (None, Some(_)) => Err(Error::parameter("slices", "must be set where sliceId is")),
    }
}

/// `fromTimestamp` (inclusive) and `toTimestamp` (exclusive; 0 stands for no end).
fn between(call: &Call, visit: Visit) -> Result<Visit, Error> {
    let from = call.parameters.number("fromTimestamp", 0, u64::MAX)?.unwrap_or(0);
    let to = call.parameters.number("toTimestamp", 0, u64::MAX)?.unwrap_or(0);
    if to != 0 && to < from {
        return Err(Error::parameter("toTimestamp", "must not be less than fromTimestamp"));
    }
    let to = if to == 0 { u64::MAX } else { to - 1 };
    Ok(Visit { from: Timestamp(from), to: Timestamp(to), ..visit })
}

/// `GET` of many documents; `lines` says whether a stream comes as JSON lines.
pub(super) async fn documents(call: &Call, documents: Documents, lines: bool) -> Result<Response, Error> {
    let pass = Pass::new(call, documents)?;
    let shape = Shape::of(call, &pass.deployment)?;
    call.parameters.number("concurrency", 1, 1000)?;
    let wanted = call.parameters.number("wantedDocumentCount", 1, u64::MAX)?;
    let wanted =
        wanted.map_or(WANTED_MAX, |wanted| usize::try_from(wanted).unwrap_or(WANTED_MAX).min(WANTED_MAX));
    call.node.metrics().count(Metric::Visits);
    if call.parameters.flag("stream")?.unwrap_or(false) {
        return Ok(stream(call, pass, shape, lines));
    }
    let deadline = Instant::now() + call.left().saturating_sub(MARGIN);
    let path = call.path.clone();
    let (answer, count) =
        call.node.pool().run(move || collect(&pass, &shape, wanted, deadline, &path)).await??;
    call.node.metrics().add(Metric::DocumentsVisited, count as u64);
    Ok(http::answer(StatusCode::OK, "application/json;charset=utf-8", answer))
}

/// The whole answer of a visit that is not streamed, and how many documents are in it.
fn collect(
    pass: &Pass,
    shape: &Shape,
    wanted: usize,
    deadline: Instant,
    path: &str,
) -> Result<(Vec<u8>, usize), Error> {
    let mut answer = head(path);
    let mut continuation = pass.start();
    let mut count = 0;
    loop {
        let found = pass.step(continuation, wanted - count)?;
        for visited in &found.documents {
            if count > 0 {
                answer.push(b',');
            }
            render(&mut answer, pass, shape, visited, "id")?;
            count += 1;
        }
        continuation = found.continuation;
        let full = count >= wanted || answer.len() > ANSWER_BYTES_MAX || Instant::now() >= deadline;
        if continuation.is_none() || full {
            break;
        }
    }
    tail(&mut answer, count, continuation.as_deref());
    Ok((answer, count))
}

fn head(path: &str) -> Vec<u8> {
    format!("{{\"pathId\":{},\"documents\":[", Value::from(path)).into_bytes()
}

fn tail(answer: &mut Vec<u8>, count: usize, continuation: Option<&str>) {
    answer.extend_from_slice(format!("],\"documentCount\":{count}").as_bytes());
    if let Some(continuation) = continuation {
        answer.extend_from_slice(format!(",\"continuation\":{}", Value::from(continuation)).as_bytes());
    }
    answer.push(b'}');
}

/// Writes one document; `name` is what its id is called.
fn render(out: &mut Vec<u8>, pass: &Pass, shape: &Shape, visited: &Visited, name: &str) -> Result<(), Error> {
    match visited {
        Visited::Document(document, _) => {
            let id = Value::from(document.id.as_str());
            out.extend_from_slice(format!("{{\"{name}\":{id},\"fields\":").as_bytes());
            serde_json::to_writer(&mut *out, &shape.fields(&pass.deployment, document))
                .map_err(|error| Error::Internal(error.to_string()))?;
            out.push(b'}');
        }
        Visited::Removed(id, _) => {
            out.extend_from_slice(format!("{{\"remove\":{}}}", Value::from(id.as_str())).as_bytes());
        }
    }
    Ok(())
}

/// Whether the client would rather have JSON lines.
pub(super) fn accepts_lines(headers: &HeaderMap) -> bool {
    let (mut lines, mut other) = (0.0_f32, 0.0_f32);
    for value in headers.get_all(ACCEPT) {
        for offer in value.to_str().unwrap_or("").split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let media = parts.next().unwrap_or("");
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
            match media {
                "application/jsonl" => lines = quality,
                _ => other = other.max(quality),
            }
        }
    }
    lines > 0.0 && lines >= other
}

/// An answer that is sent while the visit goes on.
fn stream(call: &Call, pass: Pass, shape: Shape, lines: bool) -> Response {
    let (sender, body) = Channel::<Bytes, std::convert::Infallible>::new(2);
    let streaming = Streaming {
        node: Arc::clone(&call.node),
        pass: Arc::new(pass),
        shape: Arc::new(shape),
        deadline: Instant::now() + call.left().saturating_sub(MARGIN),
        lines,
        path: call.path.clone(),
        sender,
    };
    tokio::spawn(streaming.run());
    let mut response = Response::new(Body::new(body));
    let content_type =
        if lines { "application/jsonl;charset=utf-8" } else { "application/json;charset=utf-8" };
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

/// A visit whose answer is being sent.
struct Streaming {
    node: Arc<Node>,
    pass: Arc<Pass>,
    shape: Arc<Shape>,
    deadline: Instant,
    lines: bool,
    path: String,
    sender: Sender<Bytes, std::convert::Infallible>,
}

impl Streaming {
    /// Sends page after page, no faster than the client takes them. Ends when the client leaves.
    async fn run(mut self) {
        let mut continuation = self.pass.start();
        let mut count = 0;
        let mut pending = if self.lines { Vec::new() } else { head(&self.path) };
        let failure = loop {
            let (pass, shape, lines, from) =
                (Arc::clone(&self.pass), Arc::clone(&self.shape), self.lines, continuation.clone());
            let page = page(self.node.pool(), pass, shape, lines, from, count == 0).await;
            let (bytes, found, next) = match page {
                Ok(page) => page,
                Err(error) => break Some(error),
            };
            count += found;
            pending.extend_from_slice(&bytes);
            if self.lines
                && let Some(token) = &next
            {
                line(&mut pending, &json!({ "continuation": { "token": token } }));
            }
            if !self.send(&mut pending).await {
                return;
            }
            continuation = next;
            if continuation.is_none() || Instant::now() >= self.deadline {
                break None;
            }
        };
        self.node.metrics().add(Metric::DocumentsVisited, count as u64);
        self.end(pending, count, continuation, failure).await;
    }

    /// Sends what comes after the documents.
    async fn end(
        mut self,
        mut pending: Vec<u8>,
        count: usize,
        continuation: Option<String>,
        failure: Option<Error>,
    ) {
        match (self.lines, failure) {
            (true, failure) => {
                if let Some(error) = &failure {
                    let message = json!({ "message": { "text": error.to_string(), "severity": "error" } });
                    line(&mut pending, &message);
                }
                line(&mut pending, &json!({ "sessionStats": { "documentCount": count } }));
                match continuation {
                    Some(token) => line(&mut pending, &json!({ "continuation": { "token": token } })),
                    None if failure.is_none() => {
                        line(&mut pending, &json!({ "continuation": { "percentFinished": 100.0 } }));
                    }
                    None => {}
                }
            }
            (false, Some(error)) => {
                let message = Value::from(error.to_string());
                pending.extend_from_slice(
                    format!("],\"documentCount\":{count},\"message\":{message}}}").as_bytes(),
                );
            }
            (false, None) => tail(&mut pending, count, continuation.as_deref()),
        }
        self.send(&mut pending).await;
    }

    /// Sends `bytes`, which are empty then. False when the client has left.
    async fn send(&mut self, bytes: &mut Vec<u8>) -> bool {
        let bytes = std::mem::take(bytes);
        bytes.is_empty() || self.sender.send_data(Bytes::from(bytes)).await.is_ok()
    }
}

/// One page of a streamed answer: its bytes, how many documents are in them, and where the next begins.
async fn page(
    pool: &Pool,
    pass: Arc<Pass>,
    shape: Arc<Shape>,
    lines: bool,
    from: Option<String>,
    mut first: bool,
) -> Result<(Vec<u8>, usize, Option<String>), Error> {
    pool.run(move || {
        let found = pass.step(from, PAGE)?;
        let mut bytes = Vec::new();
        for visited in &found.documents {
            if !lines && !std::mem::take(&mut first) {
                bytes.push(b',');
            }
            render(&mut bytes, &pass, &shape, visited, if lines { "put" } else { "id" })?;
            if lines {
                bytes.push(b'\n');
            }
        }
        Ok((bytes, found.documents.len(), found.continuation))
    })
    .await?
}

fn line(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}
