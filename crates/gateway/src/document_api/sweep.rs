//! Changing all documents that a selection picks: delete-where and update-where.
//!
//! The documents are visited; each is looked at again in the moment it is changed, so that what no longer matches stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_bucket::BucketId;
use millrace_column::{Column, ColumnKey, View};
use millrace_document::{Action, Document, DocumentId, Group, OperationKind, Update, json};
use millrace_indexing::Caller;
use millrace_store::{Change, Modification, Refusal, ViewScope, Visited, Write};
use serde_json::{Value, json as object};
use tokio::sync::oneshot;

use super::Call;
use super::buckets::{self, Answered, Buckets};
use super::path::Documents;
use super::visit::Pass;
use super::write::{apply, commit};
use crate::Error;
use crate::cluster::Access;
use crate::deployment::DocumentKind;
use crate::http;
use crate::metrics::Metric;

/// Documents changed at one time.
const TOGETHER: usize = 256;

/// How long one request goes on where it does not say.
const TIME_CHUNK: Duration = Duration::from_secs(60);

/// `DELETE` of many documents.
pub(super) async fn delete_where(call: &Call, documents: Documents) -> Result<Response, Error> {
    check_parameters(call)?;
    let pass = Pass::new(call, documents.clone())?;
    let all = call.parameters.get("selection").map(str::trim) == Some("true");
    let whole = match (documents.group, documents.of) {
        (Some(group), Some((namespace, document_type))) if all => {
            Some(WholeGroup { namespace, document_type, group })
        }
        _ => None,
    };
    let going = Going { pass: Arc::new(pass), change: Arc::new(|_| Ok(Modification::Remove)), whole };
    sweep(call, going).await
}

/// `PUT` of many documents.
pub(super) async fn update_where(
    call: &Call,
    documents: Documents,
    request: Request,
) -> Result<Response, Error> {
    check_parameters(call)?;
    let Some((namespace, document_type)) = documents.of.clone() else {
        return Err(Error::BadRequest(
            "an update needs a document type: PUT to /document/v1/NAMESPACE/TYPE/docid/".to_owned(),
        ));
    };
    let pass = Pass::new(call, documents)?;
    let kind = Arc::clone(pass.deployment.kind(&document_type)?);
    let update = read_update(call, &kind, &namespace, request).await?;
    let caller = Caller::default();
    let change = move |document| apply(&kind, &update, Some(document), &caller).map(Modification::Put);
    sweep(call, Going { pass: Arc::new(pass), change: Arc::new(change), whole: None }).await
}

/// `POST` to many documents would copy them to another cluster.
pub(super) fn copying_refused(call: &Call) -> Error {
    match call.parameters.get("destinationCluster") {
        Some(_) => Error::BadRequest(
            "copying between content clusters is not supported: all clusters of this node share one store; visit the \
             documents and feed them again"
                .to_owned(),
        ),
        None => Error::BadRequest(
            "a document id is missing in the path: POST to /document/v1/NAMESPACE/TYPE/docid/ID".to_owned(),
        ),
    }
}

fn check_parameters(call: &Call) -> Result<(), Error> {
    for name in ["selection", "cluster"] {
        if call.parameters.get(name).is_none_or(|value| value.trim().is_empty()) {
            let cure = "it says which documents are changed; selection=true stands for all of them";
            return Err(Error::BadRequest(format!("Must specify '{name}' at '{}': {cure}", call.path)));
        }
    }
    Ok(())
}

async fn read_update(
    call: &Call,
    kind: &DocumentKind,
    namespace: &str,
    request: Request,
) -> Result<Update, Error> {
    let (parts, body) = request.into_parts();
    let body = http::read_body(&call.node, &parts.headers, body, call.body_bounds()).await?;
    // The update is applied to many documents; parsing wants one id, which is not looked at after that.
    let id = DocumentId::new(namespace, kind.schema.document_type.name(), &Group::None, "any")?;
    let options = json::ParseOptions::default();
    let schema = Arc::clone(&kind.schema);
    let size = body.len();
    let parse = move || json::parse(&body, OperationKind::Update, id, &schema.document_type, options);
    let operation = http::within_or_pooled(&call.node, http::WorkSize::of_document(size), parse).await??;
    match operation.action {
        Action::Update(update) => Ok(update),
        Action::Put(_) | Action::Remove(_) => Err(Error::BadRequest("the body is not an update".to_owned())),
    }
}

/// All documents of a type in a group.
#[derive(Clone)]
struct WholeGroup {
    namespace: String,
    document_type: String,
    group: Group,
}

/// Drops a whole group at once, or what of it is in one bucket, at a cost that does not depend on its size. Possible where all of the group's
/// documents are of the namespace; answers how many there were, or `None` where it was not possible.
async fn drop_group(
    call: &Call,
    WholeGroup { namespace, document_type, group }: WholeGroup,
    part: Option<BucketId>,
) -> Result<Option<u64>, Error> {
    let store = call.node.store().clone();
    let of_type = document_type.clone();
    let counted = call
        .node
        .pool()
        .run(move || -> Result<_, Error> {
            let groups = vec![group.clone()];
            let scope = match part {
                Some(part) => ViewScope::GroupsIn(groups, vec![part]),
                None => ViewScope::Groups(groups),
            };
            let view = store.view(&of_type, &scope)?;
            let prefix = format!("id:{namespace}:{of_type}:");
            let Some(count) = count_where_all_begin_with(&*view, prefix.as_bytes())? else { return Ok(None) };
            Ok(Some((count, group)))
        })
        .await??;
    let Some((count, group)) = counted else { return Ok(None) };
    match call.node.cluster() {
        None => {
            let store = call.node.store().clone();
            call.node.pool().run(move || store.drop_group(Some(&document_type), &group)).await??;
        }
        Some(cluster) => {
            let (sender, receiver) = oneshot::channel();
            let done = move |result| {
                // Whoever waited may have left; the group is dropped all the same.
                let _ = sender.send(result);
            };
            cluster.drop_group(Some(&document_type), &group, part, call.deadline(), Box::new(done));
            receiver
                .await
                .map_err(|_| Error::Internal("the cluster dropped a write; see the log".to_owned()))??;
        }
    }
    Ok(Some(count))
}

/// How many documents a view has, if all their ids begin with `prefix`.
fn count_where_all_begin_with(view: &dyn View, prefix: &[u8]) -> Result<Option<u64>, Error> {
    let chunks = view.chunks();
    let columns = view
        .columns(&ColumnKey::id(), 0..chunks.len())
        .map_err(|error| Error::Internal(error.to_string()))?;
    let mut count = 0;
    for (chunk, column) in chunks.iter().zip(columns) {
        let Some(Column::Bytes(ids)) = column else { return Ok(None) };
        let live = |index: &usize| {
            chunk.live.as_ref().is_none_or(|words| words[index / 64] >> (index % 64) & 1 == 1)
        };
        for index in (0..chunk.documents).filter(live) {
            if !ids.get(index).is_some_and(|id| id.starts_with(prefix)) {
                return Ok(None);
            }
            count += 1;
        }
    }
    Ok(Some(count))
}

/// What becomes of a document.
type Decide = dyn Fn(Document) -> Result<Modification, Refusal> + Send + Sync;

/// What a request changes.
struct Going {
    pass: Arc<Pass>,
    change: Arc<Decide>,
    /// It removes all of a group.
    whole: Option<WholeGroup>,
}

impl Going {
    /// Changes what this node has, or what of it is in one bucket, as [`sweep_here`] does; a whole group at once, where that is possible.
    async fn here(
        &self,
        call: &Call,
        part: Option<BucketId>,
        from: Option<String>,
        deadline: Instant,
    ) -> Result<(u64, Option<String>), Error> {
        if let (Some(whole), None) = (&self.whole, &from)
            && let Some(count) = drop_group(call, whole.clone(), part).await?
        {
            return Ok((count, None));
        }
        let pass = match part {
            Some(bucket) => Arc::new(self.pass.within(bucket)),
            None => Arc::clone(&self.pass),
        };
        sweep_here(call, &pass, &self.change, from, deadline).await
    }
}

/// Changes every document that is asked for until the end or the request's time for one go, on whatever node it is.
async fn sweep(call: &Call, going: Going) -> Result<Response, Error> {
    let chunk = call.parameters.duration("timeChunk")?.unwrap_or(TIME_CHUNK);
    let deadline = Instant::now() + chunk.min(call.left());
    call.node.metrics().count(Metric::Visits);
    let Some(request) = &call.spread else {
        let from = going.pass.start();
        let (count, continuation) = going.here(call, call.hop.part(), from, deadline).await?;
        return Ok(answer(call, count, continuation));
    };
    let mut place = Buckets::of(&call.node, going.pass.group())?.resume(going.pass.start())?;
    let mut count = 0;
    loop {
        let left = format!("{}ms", deadline.saturating_duration_since(Instant::now()).as_millis().max(1));
        let asked = place.request(request, &[("timeChunk", Some(left.as_str()))]);
        let outcome = match place.hand_on(&call.node, Access::Sweep, &asked, call.deadline()).await {
            Ok(Answered::Here(_)) => going.here(call, Some(place.bucket()), place.inner(), deadline).await,
            Ok(Answered::There(StatusCode::OK, body)) => swept(&body),
            Ok(Answered::There(status, body)) => Err(buckets::refused(status, &body)),
            Err(error) => Err(error),
        };
        let (changed, inner) = match outcome {
            // Nothing of this bucket was changed: the client goes on here, when the cluster has agreed.
            Err(Error::Unsettled(_)) if count > 0 => {
                return Ok(answer(call, count, Some(place.to_string())));
            }
            outcome => outcome?,
        };
        count += changed;
        // What was changed must not be changed again, so that this is nothing to begin anew for.
        let following = place.following(&call.node, going.pass.group(), inner);
        match following.map_err(|error| Error::Unknown(error.to_string()))? {
            Some(next) if Instant::now() < deadline => place = next,
            next => return Ok(answer(call, count, next.map(|place| place.to_string()))),
        }
    }
}

/// How many documents another node has changed, and where it goes on.
fn swept(body: &[u8]) -> Result<(u64, Option<String>), Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        document_count: u64,
        continuation: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| Error::Internal(format!("the answer of another node cannot be read: {error}")))?;
    Ok((answer.document_count, answer.continuation))
}

/// Changes the documents of this node; how many, and where to go on.
///
/// # Errors
/// [`Error::Unsettled`] only where nothing was changed: whoever asked may ask again, and no document is changed twice.
async fn sweep_here(
    call: &Call,
    pass: &Arc<Pass>,
    change: &Arc<Decide>,
    mut continuation: Option<String>,
    deadline: Instant,
) -> Result<(u64, Option<String>), Error> {
    let mut count = 0;
    loop {
        let (stepping, from) = (Arc::clone(pass), continuation.clone());
        let found = call.node.pool().run(move || stepping.step(from, TOGETHER)).await??;
        let mut writes = Vec::with_capacity(found.documents.len());
        for visited in found.documents {
            let Visited::Document(document, _) = visited else { continue };
            let (pass, change) = (Arc::clone(pass), Arc::clone(change));
            let modify = Change::Modify(Box::new(move |stored| match stored {
                Some((document, _)) if pass.wants(&document) => change(document),
                _ => Ok(Modification::Nothing),
            }));
            writes.push(Write { id: document.id, change: modify });
        }
        // All of them are under way before the first is waited for: the store syncs once for many.
        let until = call.deadline();
        let commits: Vec<_> = writes
            .into_iter()
            .map(|write| {
                let node = Arc::clone(&call.node);
                tokio::spawn(async move { commit(&node, write, until).await })
            })
            .collect();
        let mut changed = 0;
        let mut failure = None;
        for commit in commits {
            match commit.await.map_err(|error| Error::Internal(error.to_string()))? {
                Ok(written) => changed += u64::from(written.changed),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            None => {}
            Some(Error::Unsettled(_)) if changed == 0 && count > 0 => return Ok((count, continuation)),
            Some(Error::Unsettled(reason)) if changed > 0 => {
                return Err(Error::Unknown(format!(
                    "{changed} documents were changed, others were not: {reason}"
                )));
            }
            Some(error) => return Err(error),
        }
        count += changed;
        continuation = found.continuation;
        if continuation.is_none() || Instant::now() >= deadline {
            return Ok((count, continuation));
        }
    }
}

fn answer(call: &Call, count: u64, continuation: Option<String>) -> Response {
    let mut answer = call.answer(None);
    answer.insert("documentCount".to_owned(), object!(count));
    if let Some(continuation) = continuation {
        answer.insert("continuation".to_owned(), Value::String(continuation));
    }
    http::json(StatusCode::OK, &Value::Object(answer))
}
