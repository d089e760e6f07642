//! Operations of a piece, parsed and indexed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use millrace_access::WantedGroups;
use millrace_cluster::SHORT_IDS;
use millrace_document::json::{FeedPosition, ParseOptions, split_position};
use millrace_document::{DocumentGroup, DocumentId, OperationKind};
use millrace_node::cluster::{ForwardKind, NodeAddress, RemoteNode};
use millrace_node::deployment::CompiledDocumentType;
use millrace_node::pool::{WorkFlow, pause};
use millrace_node::{CompiledApplication, Error, ErrorKind};
use millrace_store::{DocumentWrite, ViewScope};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::DocumentCall;
use super::answer::{FailedOperation, FeedBreak};
use super::forward::SingleOperation;
use super::input::{FeedItem, FeedPiece};
use super::operation::ReceivedOperation;
use crate::document_api::retry::RetryPause;
use crate::document_api::write::{self, WriteCharge};
use crate::http::BudgetReservation;
use crate::quota::{FedBytes, UncommittedSize};
use crate::status::HttpError;

/// An operation that can be executed, or has its outcome.
pub(super) struct PreparedItem {
    pub(super) number: u64,
    pub(super) position: FeedPosition,
    /// Offset in bytes of its end.
    pub(super) end: u64,
    pub(super) step: PreparedStep,
}

/// Next step of an operation.
pub(super) enum PreparedStep {
    /// A write for the store of this node; in a cluster, with the operation, which is executed like a single
    /// request if the document has got another owner by then.
    Write {
        kind: OperationKind,
        write: DocumentWrite,
        again: Option<RepeatableOperation>,
        /// Share of the size of the group, until it is committed.
        size: Option<UncommittedSize>,
    },
    /// An operation for another node, sent with others for that node.
    Relay {
        remote: RemoteNode,
        operation: SingleOperation,
    },
    /// An operation whose statements wait for models, or that needs a request of its own for another reason.
    Forward(SingleOperation),
    /// No cluster takes the document.
    Ignored(DocumentId),
    Failed(FailedOperation),
}

/// An operation that can be executed like a single request.
pub(super) struct RepeatableOperation {
    operation: ReceivedOperation,
    condition: Option<String>,
}

impl RepeatableOperation {
    /// The operation as a request of its own.
    ///
    /// # Errors
    /// A value does not fit its field.
    pub(super) fn single(self) -> Result<SingleOperation, Error> {
        let RepeatableOperation { operation, condition } = self;
        Ok(SingleOperation { operation: operation.into_json()?, condition })
    }
}

impl PreparedStep {
    /// Document that is changed.
    pub(super) fn id(&self) -> Option<&DocumentId> {
        match self {
            PreparedStep::Write { write, .. } => Some(&write.id),
            PreparedStep::Relay { operation, .. } | PreparedStep::Forward(operation) => Some(operation.id()),
            PreparedStep::Ignored(_) | PreparedStep::Failed(_) => None,
        }
    }
}

/// A piece whose operations are prepared.
pub(super) struct PreparedPiece {
    pub(super) items: Vec<PreparedItem>,
    pub(super) stopped: Option<FeedBreak>,
    /// True if the stream ends with this piece.
    pub(super) is_end: bool,
    pub(super) memory: PieceMemory,
}

/// Memory of a piece, given back when it is dropped.
pub(super) struct PieceMemory {
    /// Memory of the parsed operations that are committed here.
    _room: BudgetReservation,
    /// Memory of the text.
    _text: FeedPiece,
}

/// Prepares all pieces, until the stream ends or is stopped: each as a task, so that one is prepared while
/// others are.
pub(super) async fn run(
    call: Arc<DocumentCall>,
    mut pieces: mpsc::Receiver<FeedPiece>,
    prepared: mpsc::Sender<JoinHandle<PreparedPiece>>,
) {
    while let Some(mut piece) = pieces.recv().await {
        let mut room = call.share();
        let begins = async {
            pace(&call, &piece).await;
            // Room is taken in the order of the pieces, so that none waits for one behind it.
            reserve(&call, &piece.items, &mut room).await
        };
        let begun = tokio::select! {
            begun = begins => begun,
            () = prepared.closed() => return,
        };
        if let Err(error) = begun {
            piece.items.clear();
            piece.stopped = Some(FeedBreak::from_error(&error));
        }
        let is_last = piece.stopped.is_some();
        let piece = tokio::spawn(prepare(Arc::clone(&call), piece, room));
        if prepared.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// Waits until the caller and the groups of a piece are within their limits on written bytes, and counts it.
/// The pieces before it are committed meanwhile, and the body is not read any further.
async fn pace(call: &DocumentCall, piece: &FeedPiece) {
    let caller = call.caller.as_deref().expect("a feed begins with its caller");
    let limits = call.node.quotas().fed();
    if call.stage != ForwardKind::Client || !limits.limits(caller) {
        return;
    }
    let mut bytes_of_groups: HashMap<Option<&DocumentGroup>, usize> = HashMap::new();
    for operation in piece.items.iter().filter_map(|item| item.operation.as_ref().ok()) {
        let group = match (operation.id().group(), caller.only_group()) {
            (DocumentGroup::None, Some(only)) => only,
            (group, _) => group,
        };
        // An operation that will be refused counts for its caller alone: neither does it use up what others
        // may write to the group, nor does its pace tell how much they write.
        let group = Some(group).filter(|group| caller.covers_group(group));
        *bytes_of_groups.entry(group).or_default() += operation.bytes();
    }
    for (group, bytes) in bytes_of_groups {
        limits.wait(FedBytes { caller: Some(caller), group, bytes }).await;
    }
}

async fn prepare(call: Arc<DocumentCall>, mut piece: FeedPiece, room: BudgetReservation) -> PreparedPiece {
    let items = std::mem::take(&mut piece.items);
    let mut stopped = piece.stopped.take();
    let prepared = match prepare_items(&call, items).await {
        Ok(prepared) => prepared,
        Err(error) => {
            stopped = Some(FeedBreak::from_error(&error));
            Vec::new()
        }
    };
    let is_end = piece.is_end;
    PreparedPiece { items: prepared, stopped, is_end, memory: PieceMemory { _room: room, _text: piece } }
}

/// Takes the memory that operations need, once it is there.
///
/// # Errors
/// It was not for the time of an operation; no application is deployed any more.
async fn reserve(call: &DocumentCall, items: &[FeedItem], room: &mut BudgetReservation) -> Result<(), Error> {
    let deployment = call.deployment()?;
    let work = items.iter().map(|item| work_of(call, &deployment, item)).fold(0, usize::saturating_add);
    let mut retry = RetryPause::until(Instant::now() + call.timeout);
    while let Err(error) = room.work_of(work).await {
        retry.after(error).await?;
    }
    Ok(())
}

/// Parses and indexes in the pool.
///
/// # Errors
/// The pool took no work for the time of an operation; no application is deployed any more.
async fn prepare_items(call: &Arc<DocumentCall>, items: Vec<FeedItem>) -> Result<Vec<PreparedItem>, Error> {
    let deployment = call.deployment()?;
    let mut retry = RetryPause::until(Instant::now() + call.timeout);
    // The work may be refused, and is then there no more: so it is kept beside it.
    let items = Arc::new(parking_lot::Mutex::new(items));
    loop {
        let (call_there, deployment, items) = (Arc::clone(call), Arc::clone(&deployment), Arc::clone(&items));
        let work = move || {
            let items = std::mem::take(&mut *items.lock());
            let prepared = items.into_iter().map(|item| {
                pause(Instant::now());
                prepared_item(&call_there, &deployment, item)
            });
            prepared.collect::<Vec<_>>()
        };
        match call.node.pool().run_in(WorkFlow::of_scope(&ViewScope::All), work).await {
            Ok(prepared) => return Ok(prepared),
            Err(error) => retry.after(error).await?,
        }
    }
}

/// Memory that an operation takes while it is parsed and committed, in bytes. One that is executed elsewhere
/// reserves its own there; if its piece did, pieces could wait for each other.
fn work_of(call: &DocumentCall, deployment: &CompiledApplication, item: &FeedItem) -> usize {
    let Ok(operation) = &item.operation else { return 0 };
    match deployment.kind(operation.id().document_type()) {
        Ok(kind) if matches!(destination(call, kind, operation.id()), StepDestination::Local) => {
            operation.work_bytes(kind.block)
        }
        _ => 0,
    }
}

/// Place where an operation is executed.
enum StepDestination {
    /// This node, in a batch.
    Local,
    /// Another node, in a batch.
    Remote(RemoteNode),
    /// Like a single request.
    Single,
    /// Nowhere: another node has sent it here, and no longer to the owner.
    Moved,
}

/// Place for an operation, by the cluster state of now: the document may get another owner before it is
/// executed.
fn destination(call: &DocumentCall, kind: &CompiledDocumentType, id: &DocumentId) -> StepDestination {
    if kind.scripts.waits() {
        return StepDestination::Single;
    }
    let owner = match call.node.cluster().view() {
        Ok(None) => return StepDestination::Local,
        Ok(Some(cluster)) => cluster.owner(id.location()),
        Err(error) => Err(error),
    };
    match owner {
        Ok(NodeAddress::Local) => StepDestination::Local,
        // Nodes that disagree about an owner must not send an operation to and fro.
        _ if call.stage != ForwardKind::Client => StepDestination::Moved,
        Ok(NodeAddress::Remote(remote)) => StepDestination::Remote(remote),
        Err(_) => StepDestination::Single,
    }
}

fn prepared_item(call: &DocumentCall, deployment: &CompiledApplication, item: FeedItem) -> PreparedItem {
    let FeedItem { number, position, end, operation } = item;
    let step = match operation {
        Err(FeedBreak { status, message }) => {
            PreparedStep::Failed(FailedOperation { number, position, id: String::new(), status, message })
        }
        Ok(operation) => match prepared_step(call, deployment, operation) {
            Ok(step) => step,
            Err(refused) => {
                let RefusedOperation { id, json, error } = *refused;
                PreparedStep::Failed(FailedOperation::new(number, position, &id, &error).within(&json))
            }
        },
    };
    PreparedItem { number, position, end, step }
}

/// Fills the only group of the caller into an id without a group, and permits the caller the document.
/// Returns true if the id is another one now.
fn admit(call: &DocumentCall, operation: &mut ReceivedOperation) -> Result<bool, Error> {
    let caller = call.caller.as_ref().expect("a feed begins with its caller");
    let id = operation.id();
    let group = caller.only_group().filter(|_| *id.group() == DocumentGroup::None);
    if let Some(group) = group {
        operation.set_id(DocumentId::new(id.namespace(), id.document_type(), group, id.name())?);
    }
    caller.permit(WantedGroups::These(std::slice::from_ref(operation.id().group())))?;
    Ok(group.is_some())
}

/// True if all nodes know which group the ids in conditions leave out, if any.
fn knows_group(call: &DocumentCall) -> bool {
    call.implied_group().is_none() || call.node.speaks(SHORT_IDS)
}

/// An operation that cannot be executed, and the reason.
struct RefusedOperation {
    id: DocumentId,
    /// Text in which the error has its place; empty for a row.
    json: Vec<u8>,
    error: Error,
}

impl RefusedOperation {
    fn boxed(operation: ReceivedOperation, error: Error) -> Box<Self> {
        let (id, json) = match operation {
            ReceivedOperation::Json(operation) => (operation.id, operation.json),
            ReceivedOperation::Row { id, .. } => (id, Vec::new()),
        };
        Box::new(RefusedOperation { id, json, error })
    }
}

fn prepared_step(
    call: &DocumentCall,
    deployment: &CompiledApplication,
    mut operation: ReceivedOperation,
) -> Result<PreparedStep, Box<RefusedOperation>> {
    let is_renamed = match admit(call, &mut operation) {
        Ok(is_renamed) => is_renamed,
        Err(error) => return Err(RefusedOperation::boxed(operation, error)),
    };
    let kind = match deployment.kind(operation.id().document_type()) {
        Ok(kind) => kind,
        Err(error) => return Err(RefusedOperation::boxed(operation, error)),
    };
    let options = ParseOptions {
        ignore_undefined_fields: deployment.application.container.ignore_undefined_fields,
        element_bytes_max: call.node.settings().limits.element_bytes_max,
    };
    let destination = match destination(call, kind, operation.id()) {
        // The other node would read the ids in the text: that of the document, and those in its condition.
        StepDestination::Remote(_) if is_renamed || !knows_group(call) => StepDestination::Single,
        StepDestination::Moved => {
            let error = Error::Unsettled("the document has got another owner".to_owned());
            return Err(RefusedOperation::boxed(operation, error));
        }
        destination => destination,
    };
    if !matches!(destination, StepDestination::Local) && operation.kind() != OperationKind::Remove {
        return relayed_step(destination, RepeatableOperation { operation, condition: None });
    }
    let parse = || {
        let bytes = operation.bytes();
        kind.clusters.iter().try_for_each(|cluster| cluster.limits.check_operation(bytes))?;
        let mut size = None;
        if operation.kind() != OperationKind::Remove && matches!(destination, StepDestination::Local) {
            let id = operation.id();
            let caller = call.caller.as_ref().expect("a feed begins with its caller");
            let permit = caller.permit(WantedGroups::These(std::slice::from_ref(id.group())))?;
            size = call.node.admit_size(&caller.limits, &permit, id, bytes)?;
        }
        Ok::<_, Error>((operation.parse(&kind.schema.document_type, options)?, size))
    };
    let (parsed, size) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return Err(RefusedOperation::boxed(operation, error)),
    };
    if !matches!(destination, StepDestination::Local) {
        return relayed_step(destination, RepeatableOperation { operation, condition: parsed.condition });
    }
    let condition = parsed.condition.clone().filter(|_| operation.kind() == OperationKind::Remove);
    let bytes = operation.bytes();
    let rewrites = call.rewrites(operation.id().group());
    let rewrites = rewrites.map(|counter| WriteCharge { counter, bytes, refuses: false });
    match write::change_here(call, deployment, kind, parsed, rewrites) {
        Ok(Some(change)) => {
            let kind = operation.kind();
            let (id, again) = match call.node.cluster().is_alone() {
                true => (operation.into_id(), None),
                false => (operation.id().clone(), Some(RepeatableOperation { operation, condition })),
            };
            // Here, since the threads that hand the writes on wait for sockets of other requests.
            let write = DocumentWrite { id, change }.encoded();
            Ok(PreparedStep::Write { kind, write, again, size })
        }
        Ok(None) => Ok(PreparedStep::Ignored(operation.id().clone())),
        Err(error) => Err(RefusedOperation::boxed(operation, error)),
    }
}

/// Step of an operation that is not executed here.
fn relayed_step(
    destination: StepDestination,
    operation: RepeatableOperation,
) -> Result<PreparedStep, Box<RefusedOperation>> {
    let id = operation.operation.id().clone();
    let operation =
        operation.single().map_err(|error| Box::new(RefusedOperation { id, json: Vec::new(), error }))?;
    Ok(match destination {
        StepDestination::Remote(remote) => PreparedStep::Relay { remote, operation },
        StepDestination::Local | StepDestination::Single | StepDestination::Moved => {
            PreparedStep::Forward(operation)
        }
    })
}

impl FailedOperation {
    /// Describes the failure of an operation.
    pub(super) fn new(number: u64, position: FeedPosition, id: &DocumentId, error: &Error) -> Self {
        let (status, message) = (error.status().as_u16(), error.message());
        FailedOperation { number, position, id: id.to_string(), status, message }
    }

    /// Moves a position in the operation `json`, at the end of the message, to that in the stream.
    #[must_use]
    pub(super) fn within(mut self, json: &[u8]) -> Self {
        if let Some((reason, line, column)) = split_position(&self.message) {
            self.position = self.position.within(json, line, column);
            self.message = reason.to_owned();
        }
        self
    }

    /// True if the condition of the operation does not hold.
    pub(super) fn is_condition(&self) -> bool {
        self.status == super::StatusCode::PRECONDITION_FAILED.as_u16()
    }

    /// True if the operation can succeed later as it is.
    pub(super) fn is_passing(&self) -> bool {
        const PASSING: [ErrorKind; 3] = [ErrorKind::Overloaded, ErrorKind::Unavailable, ErrorKind::Timeout];
        PASSING.iter().any(|kind| crate::status::status_of(*kind).as_u16() == self.status)
    }
}
