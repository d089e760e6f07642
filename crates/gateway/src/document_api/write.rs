//! Changes of one document.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::{Permit, WantedGroups};
use millrace_document::{
    Document, DocumentId, DocumentOperation, DocumentUpdate, OperationAction, OperationKind, json,
};
use millrace_elastic::RewriteAdmission;
use millrace_indexing::{ComponentFailure, IndexingCaller};
use millrace_model::SequencePurpose;
use millrace_node::cluster::{BatchedWrite, ClusterError};
use millrace_node::deployment::{CompiledDocumentType, now_s};
use millrace_node::metrics::CountedMetric;
use millrace_node::pool::BodySizeClass;
use millrace_node::work::WorkKind;
use millrace_node::{CompiledApplication, Error};
use millrace_selection::DocumentSelection;
use millrace_store::{
    CommittedWrite, DocumentWrite, ModifyContent, RefusedBatch, StoreChange, StoreModification,
    WriteDurability, WriteRefusal, WriteRefusalKind, WriterId,
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::DocumentCall;
use super::retry::RetryPause;
use super::route::WriteDestination;
use crate::GatewayState;
use crate::http::{self, BudgetReservation};
use crate::quota::{FedBytes, RewrittenBytes, UncommittedSize};

/// `POST` of a document.
pub(super) async fn put(call: &DocumentCall, id: DocumentId, request: Request) -> Result<Response, Error> {
    let ReadOperation { operation, bytes, _room, _size } =
        read(call, OperationKind::Put, &id, request).await?;
    let response = write(call, id, operation, bytes).await?;
    call.node.metrics().count(CountedMetric::Puts);
    Ok(response)
}

/// `PUT` of a document.
pub(super) async fn update(call: &DocumentCall, id: DocumentId, request: Request) -> Result<Response, Error> {
    let ReadOperation { operation, bytes, _room, _size } =
        read(call, OperationKind::Update, &id, request).await?;
    let response = write(call, id, operation, bytes).await?;
    call.node.metrics().count(CountedMetric::Updates);
    Ok(response)
}

/// `DELETE` of a document.
pub(super) async fn remove(call: &DocumentCall, id: DocumentId) -> Result<Response, Error> {
    let operation = DocumentOperation {
        action: OperationAction::Remove(id.clone()),
        condition: None,
        create: false,
        ignored_fields: false,
    };
    let response = write(call, id, operation, 0).await?;
    call.node.metrics().count(CountedMetric::Removes);
    Ok(response)
}

/// An operation, and what it holds until it is done.
struct ReadOperation {
    operation: DocumentOperation,
    /// Its size.
    bytes: usize,
    /// Its share of the memory budget of bodies.
    _room: BudgetReservation,
    /// Its share of the size of its group.
    _size: Option<UncommittedSize>,
}

/// Reads the operation in the body of a request. Its id comes from the path, regardless of the body.
async fn read(
    call: &DocumentCall,
    kind: OperationKind,
    id: &DocumentId,
    request: Request,
) -> Result<ReadOperation, Error> {
    let deployment = call.deployment()?;
    let kind_of_document = deployment.kind(id.document_type())?;
    let (parts, body) = request.into_parts();
    let body = http::read_body(&call.node, &parts.headers, body, call.body_bounds()).await?;
    call.admit_fed(Some(id.group()), body.len())?;
    kind_of_document.clusters.iter().try_for_each(|cluster| cluster.limits.check_operation(body.len()))?;
    let options = json::ParseOptions {
        ignore_undefined_fields: deployment.application.container.ignore_undefined_fields,
        element_bytes_max: call.node.settings().limits.element_bytes_max,
    };
    let (body, mut room) = body.into_parts();
    call.within(room.work(WorkKind::Document(kind_of_document.block), &body)).await?;
    let bytes = body.len();
    let body_size = BodySizeClass::of_document(bytes);
    let (id, document_type) = (id.clone(), Arc::clone(&kind_of_document.schema));
    let (node, permit) = (Arc::clone(&call.node), call.permit.clone());
    let limits = call.caller.as_ref().map(|caller| caller.limits).unwrap_or_default();
    let parse = move || {
        let size = node.admit_size(&limits, &permit, &id, bytes)?;
        let operation = json::parse(&body, kind, id, &document_type.document_type, options)?;
        Ok::<_, Error>((operation, size))
    };
    let (parsed, room) = call.node.pool().run_sized(body_size, room.held_by(parse)).await?;
    let (operation, size) = parsed?;
    Ok(ReadOperation { operation, bytes, _room: room, _size: size })
}

/// Executes an operation of `bytes` bytes.
async fn write(
    call: &DocumentCall,
    id: DocumentId,
    mut operation: DocumentOperation,
    bytes: usize,
) -> Result<Response, Error> {
    let deployment = call.deployment()?;
    let kind = Arc::clone(deployment.kind(id.document_type())?);
    let destination = WriteDestination::read(call, &deployment, &kind)?;
    if let Some(condition) = call.parameters.get("condition").filter(|text| !text.is_empty()) {
        operation.condition = Some(condition.to_owned());
    }
    if let Some(create) = call.parameters.flag("create")? {
        operation.create = create;
    }
    let ignored_fields = operation.ignored_fields;
    let refuses = !call.is_of_stream;
    let rewrites = call.rewrites(id.group()).map(|counter| WriteCharge { counter, bytes, refuses });
    let is_limited = rewrites.is_some();
    let committed = match change(call, &deployment, &kind, &destination, operation, rewrites).await? {
        Some(change) => {
            let write = DocumentWrite { id: id.clone(), change };
            let committed = call.within(commit(&call.node, &call.permit, write, call.deadline())).await;
            Some(committed.map_err(|error| match error {
                Error::Overloaded if is_limited => over_limit(call, &id).err().unwrap_or(error),
                error => error,
            })?)
        }
        None => None,
    };
    let mut response = match call.trace(|| effect(committed.as_ref()))? {
        Some(trace) => {
            let mut answer = call.answer(Some(&id));
            answer.insert("trace".to_owned(), trace);
            http::json(StatusCode::OK, &Value::Object(answer))
        }
        None => http::json(StatusCode::OK, &call.empty_answer(Some(&id))),
    };
    let mut tell = |name| {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static("true"));
    };
    if ignored_fields {
        tell("x-vespa-ignored-fields");
    }
    if committed.is_none() {
        tell("x-vespa-ignored-operation");
    }
    Ok(response)
}

/// Checks that neither the caller nor the group has written too much, after an update was refused as
/// overloaded when it was applied.
///
/// # Errors
/// [`Error::OverFed`].
fn over_limit(call: &DocumentCall, id: &DocumentId) -> Result<(), Error> {
    let fed = FedBytes { caller: call.caller.as_deref(), group: Some(id.group()), bytes: 0 };
    call.node.quotas().fed().admit(fed, Instant::now(), call.node.metrics())
}

/// Counter of the document that an operation writes.
pub(super) struct WriteCharge {
    pub(super) counter: RewrittenBytes,
    /// Bytes of the operation, which are counted already.
    pub(super) bytes: usize,
    /// True if an update is refused beyond the limits. A stream waits instead, before its next updates.
    pub(super) refuses: bool,
}

impl WriteCharge {
    /// Counts a document that an update writes again.
    fn charge(&self, document: &Document) -> Result<(), WriteRefusal> {
        let WriteCharge { counter, bytes, refuses } = self;
        if !refuses {
            counter.count_document(document, *bytes);
            return Ok(());
        }
        let refuse = |error: Error| WriteRefusal::new(WriteRefusalKind::Overloaded, error.to_string());
        counter.admit(document.stored_bytes(), *bytes).map_err(refuse)
    }
}

/// Effect of a write, for its trace.
fn effect(committed: Option<&CommittedWrite>) -> String {
    match committed {
        None => "The document belongs to none of the clusters: nothing was written".to_owned(),
        Some(written) if written.changed => format!("Modification timestamp: {}", written.timestamp.0),
        Some(_) => "Nothing was changed".to_owned(),
    }
}

/// Returns the modification for the store; `None` for a document that belongs to none of the clusters it is
/// sent to, which is ignored.
async fn change(
    call: &DocumentCall,
    deployment: &Arc<CompiledApplication>,
    kind: &Arc<CompiledDocumentType>,
    destination: &WriteDestination,
    operation: DocumentOperation,
    rewrites: Option<WriteCharge>,
) -> Result<Option<StoreChange>, Error> {
    let DocumentOperation { action, condition: text, create, .. } = operation;
    let condition = text.as_deref().map(|text| parse_condition(call, deployment, kind, text)).transpose()?;
    let action = match action {
        OperationAction::Put(document) => {
            let document = indexed(call, kind, document).await?;
            rewrites.iter().for_each(|charge| charge.counter.count_document(&document, charge.bytes));
            OperationAction::Put(document)
        }
        other => other,
    };
    let (deadline, timeout) = (Instant::now() + call.time_left(), call.timeout);
    let operation = IndexedOperation { action, condition, create, deadline, timeout, rewrites };
    Ok(store_change(kind, destination, operation))
}

/// [`change`] on this thread, for a document type whose statements wait for nothing.
///
/// # Errors
/// The condition cannot be parsed; the statements refuse the document.
pub(super) fn change_here(
    call: &DocumentCall,
    deployment: &CompiledApplication,
    kind: &Arc<CompiledDocumentType>,
    operation: DocumentOperation,
    rewrites: Option<WriteCharge>,
) -> Result<Option<StoreChange>, Error> {
    assert!(!kind.scripts.waits(), "statements that wait for models run where a thread may wait");
    let destination = WriteDestination::read(call, deployment, kind)?;
    let DocumentOperation { action, condition: text, create, .. } = operation;
    let condition = text.as_deref().map(|text| parse_condition(call, deployment, kind, text)).transpose()?;
    let action = match action {
        OperationAction::Put(document) => {
            let run = kind.scripts.run(document, &IndexingCaller::default());
            let document = run.map_err(|error| refusal_error(indexing_refusal(&error, call.timeout)))?;
            rewrites.iter().for_each(|charge| charge.counter.count_document(&document, charge.bytes));
            OperationAction::Put(document)
        }
        other => other,
    };
    let (deadline, timeout) = (Instant::now() + call.timeout, call.timeout);
    let operation = IndexedOperation { action, condition, create, deadline, timeout, rewrites };
    Ok(store_change(kind, &destination, operation))
}

/// An operation whose document has the output of its indexing statements.
struct IndexedOperation {
    action: OperationAction,
    condition: Option<WriteCondition>,
    create: bool,
    deadline: Instant,
    /// Time limit of the request, for its error.
    timeout: Duration,
    /// Counter of the document; `None` without a limit.
    rewrites: Option<WriteCharge>,
}

/// Returns the modification for the store; `None` if no cluster takes the document.
fn store_change(
    kind: &Arc<CompiledDocumentType>,
    destination: &WriteDestination,
    operation: IndexedOperation,
) -> Option<StoreChange> {
    let IndexedOperation { action, condition, create, deadline, timeout, rewrites } = operation;
    Some(match (action, condition) {
        (OperationAction::Put(document), condition) => {
            let mut clusters = kind.clusters.iter().filter(|cluster| destination.includes(&cluster.id));
            if !clusters.any(|cluster| cluster.accepts(&document)) {
                return None;
            }
            match condition {
                None => StoreChange::Put(document),
                Some(condition) => StoreChange::ModifyContent(Box::new(move |stored| {
                    condition.check(stored.as_ref(), create)?;
                    Ok(StoreModification::Put(document))
                })),
            }
        }
        (OperationAction::Remove(_), None) => StoreChange::Remove,
        (OperationAction::Remove(_), Some(condition)) => {
            StoreChange::ModifyContent(Box::new(move |stored| {
                condition.check(stored.as_ref(), false)?;
                Ok(StoreModification::Remove)
            }))
        }
        (OperationAction::Update(update), condition) => {
            let caller = IndexingCaller { deadline: Some(deadline), ..IndexingCaller::default() };
            let update = StoredUpdate { update, condition, create, rewrites };
            let modify = modification(Arc::clone(kind), update, caller, timeout);
            match kind.scripts.waits() {
                // Others on the document are not held up by models.
                true => {
                    StoreChange::Modify(Box::new(move |stored| modify(stored.map(|(document, _)| document))))
                }
                false => StoreChange::ModifyContent(modify),
            }
        }
    })
}

/// Returns the document with the output of its indexing statements. Statements that call models run on a
/// thread that may wait.
async fn indexed(
    call: &DocumentCall,
    kind: &Arc<CompiledDocumentType>,
    document: Document,
) -> Result<Document, Error> {
    let outcome = if kind.scripts.waits() {
        let waits = millrace_node::CancelOnDrop::default();
        let caller = IndexingCaller {
            deadline: Some(Instant::now() + call.time_left()),
            gone: Arc::clone(&waits.gone),
        };
        let kind = Arc::clone(kind);
        let run = move || kind.scripts.run(document, &caller);
        call.within(call.node.models().wait(SequencePurpose::Feed, run)).await?
    } else {
        kind.scripts.run(document, &IndexingCaller::default())
    };
    outcome.map_err(|error| refusal_error(indexing_refusal(&error, call.timeout)))
}

/// Refusal of a document whose indexing statements failed, in a request with this time limit.
fn indexing_refusal(error: &millrace_indexing::Error, timeout: Duration) -> WriteRefusal {
    let kind = match error {
        millrace_indexing::Error::Component { failure, .. } => match failure {
            ComponentFailure::Input(_) => WriteRefusalKind::Misfit,
            ComponentFailure::Overloaded(_) => WriteRefusalKind::Overloaded,
            ComponentFailure::Timeout(_) => WriteRefusalKind::Late(timeout),
            ComponentFailure::Fault(_) => WriteRefusalKind::Fault,
        },
        millrace_indexing::Error::Script { .. } | millrace_indexing::Error::Document { .. } => {
            WriteRefusalKind::Misfit
        }
    };
    WriteRefusal::new(kind, error.to_string())
}

/// An update of a stored document.
struct StoredUpdate {
    update: DocumentUpdate,
    condition: Option<WriteCondition>,
    create: bool,
    rewrites: Option<WriteCharge>,
}

/// Applies an update to the stored document.
fn modification(
    kind: Arc<CompiledDocumentType>,
    update: StoredUpdate,
    caller: IndexingCaller,
    timeout: Duration,
) -> ModifyContent {
    let StoredUpdate { update, condition, create, rewrites } = update;
    Box::new(move |document| {
        if let Some(condition) = condition {
            condition.check(document.as_ref(), create)?;
        }
        if document.is_none() && !create {
            return Ok(StoreModification::Nothing);
        }
        let updated = apply(&kind, &update, document, &caller, timeout)?;
        rewrites.map_or(Ok(()), |rewrites| rewrites.charge(&updated))?;
        Ok(StoreModification::Put(updated))
    })
}

/// Returns the document after the update, with the output of its indexing statements. `timeout` is the time
/// limit of the request.
pub(super) fn apply(
    kind: &CompiledDocumentType,
    update: &DocumentUpdate,
    document: Option<Document>,
    caller: &IndexingCaller,
    timeout: Duration,
) -> Result<Document, WriteRefusal> {
    let updated = update
        .apply(document, &kind.schema.document_type)
        .map_err(|error| WriteRefusal::new(WriteRefusalKind::Misfit, error.to_string()))?;
    let run = |shown| kind.scripts.run_update(shown, update, caller);
    kind.change_shown(updated, run).map_err(|error| indexing_refusal(&error, timeout))
}

/// A test-and-set condition.
struct WriteCondition {
    kind: Arc<CompiledDocumentType>,
    text: String,
    selection: DocumentSelection,
}

fn parse_condition(
    call: &DocumentCall,
    deployment: &CompiledApplication,
    kind: &Arc<CompiledDocumentType>,
    text: &str,
) -> Result<WriteCondition, Error> {
    let selection = call.selection_text(text).and_then(|text| deployment.selection(&text));
    let selection = selection.map_err(|error| Error::parameter("condition", error.to_string()))?;
    Ok(WriteCondition { kind: Arc::clone(kind), text: text.to_owned(), selection })
}

impl WriteCondition {
    /// Refuses a document for which the condition does not hold. A missing document is refused as well,
    /// unless it may be created.
    fn check(&self, document: Option<&Document>, create: bool) -> Result<(), WriteRefusal> {
        let refuse = |reason: String| Err(WriteRefusal::new(WriteRefusalKind::Condition, reason));
        match document {
            Some(document) if holds(&self.selection, &self.kind.shown(document)) => Ok(()),
            Some(_) => refuse(format!("{}; the stored document does not match", self.text)),
            None if create => Ok(()),
            None => refuse(format!("{}; the document does not exist", self.text)),
        }
    }
}

/// True if a selection is true for a document.
pub(super) fn holds(selection: &DocumentSelection, document: &Document) -> bool {
    selection.matches(document, now_s())
}

/// Sends a write to the store, or to all replicas on a node of a cluster, and waits until it is durable. It
/// waits for a store that takes no writes for the moment, until the deadline.
pub(super) async fn commit(
    node: &GatewayState,
    permit: &Permit,
    write: DocumentWrite,
    deadline: Instant,
) -> Result<CommittedWrite, Error> {
    let Some(cluster) = node.cluster().view()? else {
        let (writer, durability) = (WriterId::default(), WriteDurability::Synced);
        let mut outcomes = commit_batch(node, permit, vec![write], writer, durability, deadline).await?;
        return outcomes.pop().expect("a batch has an outcome for each of its writes");
    };
    let (write, receiver) = BatchedWrite::awaited(permit, write);
    cluster.write(vec![write], deadline);
    match receiver.await {
        Ok(outcome) => write_outcome(outcome),
        Err(_) => Err(Error::Internal("the cluster dropped a write; see the log".to_owned())),
    }
}

/// Time after which a writer that is held back looks again whether it must be.
const HELD_BACK_STEP: Duration = Duration::from_millis(25);

/// Writes a batch to the store of a node that runs alone, as soon as the store accepts it, and waits until
/// it is as durable as the request wants. The outcomes have the order of the writes.
///
/// # Errors
/// The store accepts nothing, until the deadline if it is overloaded.
pub(super) async fn commit_batch(
    node: &GatewayState,
    permit: &Permit,
    mut writes: Vec<DocumentWrite>,
    writer: WriterId,
    durability: WriteDurability,
    deadline: Instant,
) -> Result<Vec<Result<CommittedWrite, Error>>, Error> {
    let mut retry = RetryPause::until(deadline);
    loop {
        let (sender, receiver) = oneshot::channel();
        let tell = move |outcomes| {
            // The caller may have left; the writes stand all the same.
            let _ = sender.send(outcomes);
        };
        let permitted = |write: &DocumentWrite| {
            node.store(permit, WantedGroups::These(slice::from_ref(write.id.group())))
        };
        // All of them are checked; it is one store.
        let Some(store) = writes.iter().fold(None, |_, write| Some(permitted(write))) else {
            return Ok(Vec::new());
        };
        match store.write_batch(writes, writer, durability, tell) {
            Ok(wait) => {
                let until = tokio::time::Instant::now() + wait;
                let outcomes = receiver.await;
                // The time was computed before the seal that is in progress has made room.
                while tokio::time::Instant::now() < until && store.is_behind() {
                    let next = tokio::time::Instant::now() + HELD_BACK_STEP;
                    tokio::time::sleep_until(next.min(until)).await;
                }
                let outcomes: Vec<Result<CommittedWrite, millrace_store::Error>> = outcomes
                    .map_err(|_| Error::Internal("the store dropped a batch; see the log".to_owned()))?;
                let convert = |outcome: Result<_, _>| write_outcome(outcome.map_err(ClusterError::Store));
                return Ok(outcomes.into_iter().map(convert).collect());
            }
            Err(RefusedBatch { error, writes: refused }) => {
                retry.after(ClusterError::Store(error).into()).await?;
                writes = refused;
            }
        }
    }
}

/// Converts the outcome of a write.
pub(super) fn write_outcome(outcome: Result<CommittedWrite, ClusterError>) -> Result<CommittedWrite, Error> {
    outcome.map_err(|error| match error {
        ClusterError::Store(millrace_store::Error::Refused(refusal)) => refusal_error(refusal),
        other => other.into(),
    })
}

/// Error of a request whose write was refused.
fn refusal_error(refusal: WriteRefusal) -> Error {
    match refusal.kind {
        WriteRefusalKind::Condition => Error::Condition(refusal.reason),
        WriteRefusalKind::Misfit => Error::BadRequest(refusal.reason),
        WriteRefusalKind::Overloaded => Error::Overloaded,
        WriteRefusalKind::Late(timeout) => Error::Timeout(timeout),
        WriteRefusalKind::Fault => Error::Internal(refusal.reason),
    }
}

#[cfg(test)]
mod tests {
    use millrace_node::ErrorKind;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    #[test]
    fn refusals_have_the_kind_of_their_cause() {
        let refusals = [
            (WriteRefusal::new(WriteRefusalKind::Condition, "the condition"), ErrorKind::Precondition),
            (WriteRefusal::new(WriteRefusalKind::Overloaded, "the model"), ErrorKind::Overloaded),
            (WriteRefusal::new(WriteRefusalKind::Late(LIMIT), "the model"), ErrorKind::Timeout),
            (WriteRefusal::new(WriteRefusalKind::Misfit, "the value"), ErrorKind::BadRequest),
            (WriteRefusal::fault("the stored document is damaged"), ErrorKind::Internal),
            (WriteRefusal::panicked(), ErrorKind::Internal),
        ];
        for (refusal, kind) in refusals {
            let reason = refusal.to_string();
            let outcome = write_outcome(Err(ClusterError::Store(millrace_store::Error::Refused(refusal))));
            assert_eq!(outcome.map_err(|error| error.kind()).err(), Some(kind), "{reason}");
        }
        let late = refusal_error(WriteRefusal::new(WriteRefusalKind::Late(LIMIT), "the model"));
        assert!(late.to_string().contains("within 3s"), "it names the limit of the request: {late}");
    }
}
