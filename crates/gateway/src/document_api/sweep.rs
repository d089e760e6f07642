//! Changes of all documents that a selection picks: delete-where and update-where.
//!
//! The documents are visited; each is checked again at the moment of its change, so that documents that no
//! longer match stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_bucket::BucketId;
use millrace_document::{
    Document, DocumentGroup, DocumentId, DocumentUpdate, OperationAction, OperationKind, json,
};
use millrace_indexing::IndexingCaller;
use millrace_node::Error;
use millrace_node::cluster::{AccessKind, ReadFence};
use millrace_node::deployment::CompiledDocumentType;
use millrace_node::metrics::CountedMetric;
use millrace_node::pool::BodySizeClass;
use millrace_node::work::WorkKind;
use millrace_store::{DocumentWrite, StoreChange, StoreModification, WriteRefusal};
use serde_json::{Value, json as object};

use super::DocumentCall;
use super::buckets::{BucketAnswer, VisitedBuckets};
use super::group_drop::{GroupDrop, drop_all, drop_group};
use super::path::DocumentScope;
use super::visit::VisitPass;
use super::write::{apply, commit};
use crate::http::{self, BudgetReservation};
use crate::quota::UncommittedSize;

/// Number of documents changed at one time.
const DOCUMENTS_PER_STEP: usize = 256;

/// Number of documents selected at one time. Each selection walks the unsealed rows, to which the changes
/// add.
const SELECTED: usize = 32 * DOCUMENTS_PER_STEP;

/// Default time limit of one request.
const TIME_CHUNK: Duration = Duration::from_secs(60);

/// `DELETE` of many documents.
pub(super) async fn delete_where(
    call: &DocumentCall,
    documents: DocumentScope,
    fence: ReadFence,
) -> Result<Response, Error> {
    check_parameters(call)?;
    let pass = Arc::new(VisitPass::new(call, documents)?);
    let extent = match call.parameters.flag("wholeGroup")?.unwrap_or(false) {
        false => SweepExtent::Removals,
        true if pass.everything_of_group().is_some() => SweepExtent::Group,
        true => {
            let cure = "it is for all documents of one group: DELETE /document/v1/?selection=true";
            return Err(Error::parameter("wholeGroup", cure.to_owned()));
        }
    };
    let change = SweepChange { decide: Arc::new(|_| Ok(StoreModification::Remove)), bytes: 0 };
    let going = SweepRequest { pass, change, extent };
    sweep(call, going, fence).await
}

/// `PUT` of many documents.
pub(super) async fn update_where(
    call: &DocumentCall,
    documents: DocumentScope,
    fence: ReadFence,
    request: Request,
) -> Result<Response, Error> {
    check_parameters(call)?;
    let Some((namespace, document_type)) = documents.namespace_and_type.clone() else {
        return Err(Error::BadRequest(
            "an update needs a document type: PUT to /document/v1/NAMESPACE/TYPE/docid/".to_owned(),
        ));
    };
    let group = documents.group.clone();
    let pass = VisitPass::new(call, documents)?;
    let kind = Arc::clone(pass.deployment.kind(&document_type)?);
    let (update, bytes, _room) = read_update(call, &kind, &namespace, group.as_ref(), request).await?;
    let (caller, timeout) = (IndexingCaller::default(), call.timeout);
    let decide =
        move |document| apply(&kind, &update, Some(document), &caller, timeout).map(StoreModification::Put);
    let change = SweepChange { decide: Arc::new(decide), bytes };
    let going = SweepRequest { pass: Arc::new(pass), change, extent: SweepExtent::Changes };
    sweep(call, going, fence).await
}

/// Refusal of `POST` to many documents, which would copy them to another cluster.
pub(super) fn copying_refused(call: &DocumentCall) -> Error {
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

fn check_parameters(call: &DocumentCall) -> Result<(), Error> {
    if call.parameters.get("condition").is_some() {
        let cure = "it is for single documents; write what must hold into 'selection'";
        return Err(Error::parameter("condition", cure.to_owned()));
    }
    for name in ["selection", "cluster"] {
        if call.parameters.get(name).is_none_or(|value| value.trim().is_empty()) {
            let cure = "it says which documents are changed; selection=true stands for all of them";
            return Err(Error::BadRequest(format!("Must specify '{name}' at '{}': {cure}", call.path)));
        }
    }
    Ok(())
}

/// Reads the update in the body of a request, and its size in bytes.
async fn read_update(
    call: &DocumentCall,
    kind: &CompiledDocumentType,
    namespace: &str,
    group: Option<&DocumentGroup>,
    request: Request,
) -> Result<(DocumentUpdate, usize, BudgetReservation), Error> {
    let (parts, body) = request.into_parts();
    let body = http::read_body(&call.node, &parts.headers, body, call.body_bounds()).await?;
    call.admit_fed(group, body.len())?;
    // The update is applied to many documents; parsing wants one id, which is not used after that.
    let id = DocumentId::new(namespace, kind.schema.document_type.name(), &DocumentGroup::None, "any")?;
    let element_bytes_max = call.node.settings().limits.element_bytes_max;
    let options = json::ParseOptions { element_bytes_max, ..json::ParseOptions::default() };
    let schema = Arc::clone(&kind.schema);
    let (body, mut room) = body.into_parts();
    call.within(room.work(WorkKind::Document(kind.block), &body)).await?;
    let size = body.len();
    let parse = move || json::parse(&body, OperationKind::Update, id, &schema.document_type, options);
    let parse = room.held_by(parse);
    let (operation, room) = call.node.pool().run_sized(BodySizeClass::of_document(size), parse).await?;
    match operation?.action {
        OperationAction::Update(update) => Ok((update, size, room)),
        OperationAction::Put(_) | OperationAction::Remove(_) => {
            Err(Error::BadRequest("the body is not an update".to_owned()))
        }
    }
}

/// Decides the modification of a document.
type Decide = dyn Fn(Document) -> Result<StoreModification, WriteRefusal> + Send + Sync;

/// Change of each document.
struct SweepChange {
    decide: Arc<Decide>,
    /// Bytes by which a document grows; 0 for none.
    bytes: usize,
}

/// Change of a request.
struct SweepRequest {
    pass: Arc<VisitPass>,
    change: SweepChange,
    extent: SweepExtent,
}

/// Documents that a request changes, of those that it addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepExtent {
    /// Each as it is decided.
    Changes,
    /// Every one is removed, regardless of its values.
    Removals,
    /// All of their group that exist, also those written meanwhile, are dropped and not counted.
    Group,
}

/// Portion of a request that is executed on this node at one time.
struct SweepPortion {
    /// Bucket that the portion is restricted to.
    part: Option<BucketId>,
    /// Start of the portion.
    from: Option<String>,
    deadline: Instant,
    fence: ReadFence,
}

impl SweepRequest {
    /// Changes the documents of this node, as [`sweep_here`] does; if a whole group is removed, most of it at
    /// once.
    async fn sweep_own(
        &self,
        call: &DocumentCall,
        portion: SweepPortion,
    ) -> Result<(u64, Option<String>), Error> {
        let SweepPortion { part, from, deadline, fence } = portion;
        let pass = match part {
            Some(bucket) => Arc::new(self.pass.within(bucket)),
            None => Arc::clone(&self.pass),
        };
        if self.extent == SweepExtent::Group {
            let missing = || Error::Internal("the request is not for one group any more".to_owned());
            let (group, part) = pass.everything_of_group().ok_or_else(missing)?;
            drop_all(call, group, part).await?;
            return Ok((0, None));
        }
        // A replica that lacks documents does not show the namespaces of a group's documents.
        let whole = pass.whole_group(from.as_deref()).filter(|_| {
            self.extent == SweepExtent::Removals && fence.is_full() && call.node.paths().is_fast()
        });
        let dropped = match whole {
            Some(whole) => drop_group(call, whole, fence).await?,
            None => None,
        };
        let Some(GroupDrop { documents, .. }) = dropped.filter(|dropped| dropped.leaves_some) else {
            return match dropped {
                Some(dropped) => Ok((dropped.documents, None)),
                None => sweep_here(call, &pass, &self.change, from, deadline, fence).await,
            };
        };
        match sweep_here(call, &pass, &self.change, from, deadline, fence).await {
            Ok((changed, continuation)) => Ok((documents + changed, continuation)),
            Err(Error::Unsettled(reason)) => {
                Err(Error::Unknown(format!("documents removed: {documents}; others were not: {reason}")))
            }
            Err(error) => Err(error),
        }
    }
}

/// Changes every addressed document, on any node, until the end or the request's time limit.
async fn sweep(call: &DocumentCall, going: SweepRequest, fence: ReadFence) -> Result<Response, Error> {
    let chunk = call.parameters.duration("timeChunk")?.unwrap_or(TIME_CHUNK);
    let deadline = Instant::now() + chunk.min(call.time_left());
    call.node.metrics().count(CountedMetric::Visits);
    let Some(request) = &call.spread_request else {
        let from = going.pass.start();
        let portion = SweepPortion { part: call.stage.part(), from, deadline, fence };
        let (count, continuation) = going.sweep_own(call, portion).await?;
        return Ok(answer(call, &going.pass, count, continuation));
    };
    let mut place = VisitedBuckets::new(&call.node, going.pass.group())?.resume(going.pass.start())?;
    let mut count = 0;
    loop {
        let left = format!("{}ms", deadline.saturating_duration_since(Instant::now()).as_millis().max(1));
        let asked = place.request(request, &[("timeChunk", Some(left.as_str()))]);
        let outcome =
            match place.forward_request(&call.node, AccessKind::Sweep, &asked, call.deadline()).await {
                Ok(BucketAnswer::Local(fence)) => {
                    let part = Some(place.bucket());
                    going.sweep_own(call, SweepPortion { part, from: place.inner(), deadline, fence }).await
                }
                Ok(BucketAnswer::Forwarded(answer)) if answer.status == StatusCode::OK => {
                    parse_answer(&answer.body)
                }
                Ok(BucketAnswer::Forwarded(answer)) => Err(answer.refusal()),
                Err(error) => Err(error),
            };
        let (changed, inner) = match outcome {
            // Nothing of this bucket was changed: the client continues here, once the cluster has agreed.
            Err(Error::Unsettled(_)) if count > 0 => {
                return Ok(answer(call, &going.pass, count, Some(place.to_string())));
            }
            outcome => outcome?,
        };
        count += changed;
        // Changed documents must not be changed again, so this error must not restart the request.
        let following = place.following(&call.node, going.pass.group(), inner);
        match following.map_err(|error| Error::Unknown(error.to_string()))? {
            Some(next) if !must_end(call, deadline) => place = next,
            next => {
                let next = next.map(|place| place.to_string());
                return Ok(answer(call, &going.pass, count, next));
            }
        }
    }
}

/// Parses the answer of another node: the number of changed documents, and the continuation.
fn parse_answer(body: &[u8]) -> Result<(u64, Option<String>), Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SweepAnswer {
        document_count: u64,
        continuation: Option<String>,
    }
    let answer: SweepAnswer = serde_json::from_slice(body)
        .map_err(|error| Error::Internal(format!("the answer of another node cannot be read: {error}")))?;
    Ok((answer.document_count, answer.continuation))
}

/// Changes the documents of this node, of which it has all by the fence. Returns their number, and the
/// continuation.
///
/// # Errors
/// [`Error::Unsettled`] only if nothing was changed: the caller may retry, and no document is changed twice.
async fn sweep_here(
    call: &DocumentCall,
    pass: &Arc<VisitPass>,
    change: &SweepChange,
    mut continuation: Option<String>,
    deadline: Instant,
    fence: ReadFence,
) -> Result<(u64, Option<String>), Error> {
    let mut count = 0;
    loop {
        let (stepping, from) = (Arc::clone(pass), continuation.clone());
        let selected = call.node.pool().run_in(pass.flow(), move || stepping.ids(from, SELECTED)).await?;
        // Documents that have moved are not among the selected ones: the rest of the request is for the node
        // that has them now.
        match fence.check(&call.node) {
            Err(Error::Unsettled(_)) if count > 0 => return Ok((count, continuation)),
            outcome => outcome?,
        }
        let selected = selected?;
        let mut ids = selected.ids.into_iter().peekable();
        while ids.peek().is_some() {
            let together: Vec<DocumentId> = ids.by_ref().take(DOCUMENTS_PER_STEP).collect();
            if change.bytes > 0 {
                // The first ones are changed in any case, so that a request gets on. They wait as well: each
                // bucket of a divided group has first ones.
                let left = deadline.saturating_duration_since(Instant::now());
                let wait = if count > 0 { left } else { left / 2 };
                if !is_within_limits(call, &together, wait).await && count > 0 {
                    return Ok((count, continuation));
                }
                // It may have been a long wait.
                match call.check_credential() {
                    Err(_) if count > 0 => return Ok((count, continuation)),
                    outcome => outcome?,
                }
            }
            let last = together.last().cloned();
            match change_documents(call, pass, change, together).await? {
                BatchChangeOutcome::Changed(changed) => count += changed,
                BatchChangeOutcome::Unsettled(_) if count > 0 => return Ok((count, continuation)),
                BatchChangeOutcome::Unsettled(reason) => return Err(Error::Unsettled(reason)),
            }
            continuation = last.and_then(|last| pass.continuation_after(&last));
            if ids.peek().is_some() && must_end(call, deadline) {
                return Ok((count, continuation));
            }
        }
        continuation = selected.continuation;
        if continuation.is_none() || must_end(call, deadline) {
            return Ok((count, continuation));
        }
    }
}

/// Waits until the documents before these are paid back, by the limits on written bytes of their groups and
/// of the caller. False if that takes longer than `time`.
async fn is_within_limits(call: &DocumentCall, ids: &[DocumentId], time: Duration) -> bool {
    let limits = call.node.quotas().fed();
    let Some(caller) = call.caller.as_deref().filter(|caller| limits.limits(caller)) else { return true };
    let groups: BTreeSet<&DocumentGroup> = ids.iter().map(DocumentId::group).collect();
    let wait = async {
        for group in groups {
            limits.wait_for_rewrite(caller, group).await;
        }
    };
    tokio::time::timeout(time, wait).await.is_ok()
}

/// True if a request ends here: its time is over, or its credential is not valid any more. Its answer has a
/// continuation then, with which a valid credential goes on.
fn must_end(call: &DocumentCall, deadline: Instant) -> bool {
    Instant::now() >= deadline || call.check_credential().is_err()
}

/// Outcome of changes that were made together.
enum BatchChangeOutcome {
    /// The number of changed documents.
    Changed(u64),
    /// None was changed, for this reason; the caller may retry.
    Unsettled(String),
}

/// Changes these documents.
///
/// # Errors
/// Some were changed, or it cannot be known; or a change is refused.
async fn change_documents(
    call: &DocumentCall,
    pass: &Arc<VisitPass>,
    change: &SweepChange,
    ids: Vec<DocumentId>,
) -> Result<BatchChangeOutcome, Error> {
    let until = call.deadline();
    let _sizes = admit_growth(call, &ids, change.bytes).await?;
    let modified = |id: DocumentId| {
        let (pass, decide) = (Arc::clone(pass), Arc::clone(&change.decide));
        let rewrites = call.rewrites(id.group());
        let modify = StoreChange::Modify(Box::new(move |stored| match stored {
            Some((document, timestamp)) if pass.wants_version(&document, timestamp) => {
                let decided = decide(document)?;
                if let (StoreModification::Put(document), Some(rewrites)) = (&decided, &rewrites) {
                    // The update was counted once, and is written with each of them.
                    rewrites.count_document(document, 0);
                }
                Ok(decided)
            }
            _ => Ok(StoreModification::Nothing),
        }));
        let write = DocumentWrite { id, change: modify };
        let (node, permit) = (Arc::clone(&call.node), call.permit.clone());
        tokio::spawn(async move { commit(&node, &permit, write, until).await })
    };
    // All of them are in flight before the first is awaited: the store syncs once for many.
    let commits: Vec<_> = ids.into_iter().map(modified).collect();
    let mut changed = 0;
    let mut failure = None;
    for commit in commits {
        match commit.await.map_err(|error| Error::Internal(error.to_string()))? {
            Ok(written) => changed += u64::from(written.changed),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        None => Ok(BatchChangeOutcome::Changed(changed)),
        Some(Error::Unsettled(reason)) if changed > 0 => {
            Err(Error::Unknown(format!("documents changed: {changed}; others were not: {reason}")))
        }
        Some(Error::Unsettled(reason)) => Ok(BatchChangeOutcome::Unsettled(reason)),
        Some(error) => Err(error),
    }
}

/// Admits the growth of documents by the sizes of their groups. The result is kept until they are committed.
///
/// # Errors
/// A group is full; it cannot be measured.
async fn admit_growth(
    call: &DocumentCall,
    ids: &[DocumentId],
    bytes: usize,
) -> Result<Vec<UncommittedSize>, Error> {
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let mut together: BTreeMap<DocumentGroup, usize> = BTreeMap::new();
    for id in ids {
        let growth = together.entry(id.group().clone()).or_default();
        *growth = growth.saturating_add(bytes);
    }
    let (node, permit) = (Arc::clone(&call.node), call.permit.clone());
    let limits = call.caller.as_ref().map(|caller| caller.limits).unwrap_or_default();
    let admit = move || {
        let sizes = together.iter().map(|(group, bytes)| node.admit_growth(&limits, &permit, group, *bytes));
        sizes.filter_map(Result::transpose).collect::<Result<Vec<_>, Error>>()
    };
    call.node.pool().run(admit).await?
}

/// Answer of a request that has reached a position; `None`: its end.
fn answer(call: &DocumentCall, pass: &VisitPass, count: u64, position: Option<String>) -> Response {
    let mut answer = call.answer(None);
    answer.insert("documentCount".to_owned(), object!(count));
    if let Some(continuation) = pass.continuation(position) {
        answer.insert("continuation".to_owned(), Value::String(continuation));
    }
    http::json(StatusCode::OK, &Value::Object(answer))
}
