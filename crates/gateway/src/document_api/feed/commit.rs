//! Execution of prepared operations, in waves: each has one operation on a document, or, for the store of a
//! node that is alone, several. Two are in flight at a time, if no document is in both, so that one is synced
//! while the next is sent. They are counted in order, as soon as they have ended: clients wait for that.

mod limits;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::Permit;
use millrace_document::json::FeedPosition;
use millrace_document::{DocumentGroup, DocumentId, OperationKind};
use millrace_node::cluster::{BatchedWrite, ClusterView, ForwardKind, RemoteNode};
use millrace_node::metrics::CountedMetric;
use millrace_node::{Error, ErrorKind};
use millrace_store::{CommittedWrite, DocumentWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use self::limits::{await_quotas, await_rewrites, full_groups, while_valid};
use super::answer::{FailedOperation, FeedAnswer, FeedBreak, FeedTotals, IgnoredOperation};
use super::answered::ActiveStreamKey;
use super::forward::ForwardedOperation;
use super::key::Sha256Digest;
use super::prepare::{PieceMemory, PreparedItem, PreparedPiece, PreparedStep, RepeatableOperation};
use super::relay::RelayedPart;
use super::{DocumentCall, StatusCode};
use crate::document_api::write;
use crate::quota::UncommittedSize;
use crate::status::HttpError;

/// Number of operations of a wave that are executed like single requests at a time.
const FORWARDED_MAX: usize = 64;

/// Number of operations of a wave on documents of its earlier ones, at most.
const REPEATED_MAX: usize = 255;

/// Number of waves that are in flight at a time.
const WAVES_MAX: usize = 2;

/// Time between two looks for the client of a stream that waits.
const CLIENT_PAUSE: Duration = Duration::from_secs(1);

/// Outcome of an operation.
#[derive(Debug)]
pub(super) enum StreamOutcome {
    Ok,
    Ignored(IgnoredOperation),
    Failed(FailedOperation),
}

/// Executes the operations of a stream.
pub(super) struct FeedCommitter {
    call: Arc<DocumentCall>,
    answer: FeedAnswer,
    totals: FeedTotals,
    /// Reason to execute nothing more.
    stopped: Option<FeedBreak>,
    key: Option<StreamKey>,
    /// Waves that have begun, oldest first.
    in_flight: VecDeque<InFlightWave>,
    hasher: RandomState,
}

/// Documents of a wave, by hashes of their ids: operations on two that have one only wait for each other.
type WaveDocuments = HashSet<u64>;

/// A wave that has begun.
struct InFlightWave {
    documents: WaveDocuments,
    /// Number and end of its last operation.
    last: (u64, u64),
    outcomes: JoinHandle<Vec<StreamOutcome>>,
}

/// Key of a stream that is in flight.
pub(super) struct StreamKey {
    pub(super) key: ActiveStreamKey,
    /// Receives the digest of the body once that has ended.
    pub(super) body: oneshot::Receiver<Sha256Digest>,
}

/// A write of a wave.
struct WaveWrite {
    number: u64,
    position: FeedPosition,
    kind: OperationKind,
    id: DocumentId,
    /// The operation, in a cluster.
    again: Option<RepeatableOperation>,
    /// Share of the size of the group.
    size: Option<UncommittedSize>,
}

/// Operations that are executed together.
#[derive(Default)]
struct OperationWave {
    /// Number and end of the last operation, of any kind.
    last: Option<(u64, u64)>,
    documents: WaveDocuments,
    /// Number of operations on documents of earlier ones.
    repeated: usize,
    writes: Vec<DocumentWrite>,
    /// Origins of the writes, in their order.
    origins: Vec<WaveWrite>,
    /// Operations for other nodes.
    relayed: BTreeMap<RemoteNode, Vec<ForwardedOperation>>,
    forwarded: Vec<ForwardedOperation>,
    /// Operations that were finished before.
    finished: Vec<StreamOutcome>,
}

impl OperationWave {
    /// Adds an operation, on the document with this hash.
    fn add(&mut self, item: PreparedItem, document: Option<u64>) {
        let PreparedItem { number, position, end, step } = item;
        self.last = Some((number, end));
        self.documents.extend(document);
        match step {
            PreparedStep::Write { kind, write, again, size } => {
                let id = write.id.clone();
                self.origins.push(WaveWrite { number, position, kind, id, again, size });
                self.writes.push(write);
            }
            PreparedStep::Relay { remote, operation: single } => {
                let operation = ForwardedOperation { number, position, single };
                self.relayed.entry(remote).or_default().push(operation);
            }
            PreparedStep::Forward(single) => {
                self.forwarded.push(ForwardedOperation { number, position, single });
            }
            PreparedStep::Ignored(id) => {
                let ignored = IgnoredOperation { number, position, id: id.to_string() };
                self.finished.push(StreamOutcome::Ignored(ignored));
            }
            PreparedStep::Failed(failed) => self.finished.push(StreamOutcome::Failed(failed)),
        }
    }
}

impl FeedCommitter {
    pub(super) fn new(call: Arc<DocumentCall>, answer: FeedAnswer, key: Option<StreamKey>) -> Self {
        if key.is_some() {
            answer.keep_lines();
        }
        let (totals, in_flight, hasher) = (FeedTotals::default(), VecDeque::new(), RandomState::new());
        FeedCommitter { call, answer, totals, stopped: None, key, in_flight, hasher }
    }

    /// Executes all pieces, until the stream ends or is stopped, and writes the totals. A piece that could
    /// not be prepared, since the work has failed, breaks the stream off.
    pub(super) async fn run(mut self, mut pieces: mpsc::Receiver<JoinHandle<PreparedPiece>>) {
        let mut is_ended = false;
        while let Some(piece) = self.next_piece(&mut pieces).await {
            let PreparedPiece { items, stopped, is_end, memory } = piece;
            self.begin_all(items, memory).await;
            if is_end || stopped.is_some() {
                self.finish_all().await;
            }
            self.stopped = self.stopped.or(stopped);
            is_ended = is_end;
            // A client that has left gets no answer, and has sent nothing whole after this.
            if self.stopped.is_some() || self.answer.is_gone() {
                break;
            }
        }
        self.finish_all().await;
        if !is_ended {
            // A step has failed, and the pieces after it are lost.
            self.stopped.get_or_insert_with(|| FeedBreak {
                status: 500,
                message: format!(
                    "the server failed after operation {}; see its log, and send again what follows",
                    self.totals.operations
                ),
            });
        }
        if self.stopped.is_none()
            && let Some(key) = self.key.take()
        {
            self.stopped = self.record(key).await.err();
        }
        // Who has the end of a stream that was stopped may send it again at once.
        self.key = None;
        self.answer.total(&self.totals, self.stopped.as_ref());
    }

    /// Makes the answer of a whole stream durable for its key, before the client gets it.
    ///
    /// # Errors
    /// It cannot be: then the stream has no whole answer, and is executed again if it is sent again.
    async fn record(&self, key: StreamKey) -> Result<(), FeedBreak> {
        let StreamKey { key, body } = key;
        let Ok(body) = body.await else {
            let message = "the body broke off after its last operation; send it again".to_owned();
            return Err(FeedBreak { status: StatusCode::BAD_REQUEST.as_u16(), message });
        };
        let answer = self.answer.answer_to_keep(&self.totals, key.keeps_lines());
        key.record(body, answer).await.map_err(|error| {
            let message =
                format!("all operations were executed, but {}; send the stream again", error.message());
            FeedBreak { status: error.status().as_u16(), message }
        })
    }

    /// The next piece, once it is prepared; `None` at the end of the stream, and if it is stopped meanwhile.
    async fn next_piece(
        &mut self,
        pieces: &mut mpsc::Receiver<JoinHandle<PreparedPiece>>,
    ) -> Option<PreparedPiece> {
        self.wait_while_committing(async { pieces.recv().await?.await.ok() }).await.flatten()
    }

    /// Begins the waves of the operations of a piece. Each holds the memory of the piece.
    async fn begin_all(&mut self, items: Vec<PreparedItem>, memory: PieceMemory) {
        let memory = Arc::new(memory);
        let mut wave = OperationWave::default();
        for item in items {
            let document = item.step.id().map(|id| self.hasher.hash_one(id.as_str()));
            if document.is_some_and(|document| wave.documents.contains(&document)) {
                match self.takes_repeated(&wave, &item.step) {
                    true => wave.repeated += 1,
                    false => self.begin(std::mem::take(&mut wave), &memory).await,
                }
            }
            if self.stopped.is_some() {
                return;
            }
            wave.add(item, document);
        }
        self.begin(wave, &memory).await;
    }

    /// True if a wave takes another operation on one of its documents.
    fn takes_repeated(&self, wave: &OperationWave, step: &PreparedStep) -> bool {
        // A node that is alone tries none again. Limits on what updates write again count between waves.
        let PreparedStep::Write { again: None, write, .. } = step else { return false };
        let are_of_store = wave.forwarded.is_empty() && wave.relayed.is_empty();
        are_of_store && wave.repeated < REPEATED_MAX && self.call.rewrites(write.id.group()).is_none()
    }

    /// Begins a wave, unless the stream was stopped, once there is a slot for it, no wave that is in flight
    /// has one of its documents, and the quotas of its groups admit it. Stops the stream if its credential is
    /// not valid any more.
    async fn begin(&mut self, mut wave: OperationWave, memory: &Arc<PieceMemory>) {
        let shares = |other: &InFlightWave| !other.documents.is_disjoint(&wave.documents);
        while self.in_flight.len() == WAVES_MAX || self.in_flight.iter().any(shares) {
            self.finish_oldest().await;
        }
        let Some(last) = wave.last else { return };
        let call = Arc::clone(&self.call);
        let limits = async {
            await_quotas(&call, &wave.origins, &wave.relayed).await;
            await_rewrites(&call, &wave.origins, &wave.forwarded).await;
        };
        if self.wait_while_committing(while_valid(&call, limits)).await.is_none() {
            return;
        }
        // Its operations may have waited for long, and the credential be another one since.
        if let Err(error) = call.check_credential() {
            self.finish_all().await;
            self.stopped.get_or_insert_with(|| FeedBreak::from_error(&error));
            return;
        }
        let documents = std::mem::take(&mut wave.documents);
        let outcomes = tokio::spawn(execute(call, wave, Arc::clone(memory)));
        self.in_flight.push_back(InFlightWave { documents, last, outcomes });
    }

    /// Waits for something, and counts the waves that end meanwhile. Returns `None` if the stream was stopped
    /// before; it is stopped if the client leaves during a long wait.
    async fn wait_while_committing<T>(&mut self, awaited: impl Future<Output = T>) -> Option<T> {
        let mut awaited = pin!(awaited);
        while self.stopped.is_none() {
            tokio::select! {
                () = self.finish_oldest(), if !self.in_flight.is_empty() => {}
                value = &mut awaited => return Some(value),
                () = tokio::time::sleep(CLIENT_PAUSE) => {
                    if self.answer.is_gone() {
                        let (status, message) = (StatusCode::BAD_REQUEST, "the client has left".to_owned());
                        self.stopped = Some(FeedBreak { status: status.as_u16(), message });
                    }
                }
            }
        }
        None
    }

    async fn finish_all(&mut self) {
        while !self.in_flight.is_empty() {
            self.finish_oldest().await;
        }
    }

    /// Waits for the oldest wave, and counts its outcomes. It may be given up while it waits.
    async fn finish_oldest(&mut self) {
        let Some(oldest) = self.in_flight.front_mut() else { return };
        let outcomes = (&mut oldest.outcomes).await;
        if let Some(InFlightWave { last: (through, offset), .. }) = self.in_flight.pop_front()
            && self.stopped.is_none()
        {
            self.count_wave(through, offset, outcomes);
        }
    }

    /// Counts the outcomes of a wave, unless one of its operations is to be sent again: then the wave counts
    /// as not executed, like all that follows the last progress, since the client sends all of it again.
    fn count_wave(&mut self, through: u64, offset: u64, outcomes: Result<Vec<StreamOutcome>, JoinError>) {
        let Ok(outcomes) = outcomes else {
            let message = format!(
                "the server failed within operations up to {through}; see its log, and send them again"
            );
            self.stopped = Some(FeedBreak { status: 500, message });
            return;
        };
        self.stopped = outcomes.iter().find_map(|outcome| self.reason_to_stop(outcome));
        if self.stopped.is_none() {
            outcomes.into_iter().for_each(|outcome| self.count(outcome));
            self.totals.operations = through;
            self.totals.bytes = offset;
            self.answer.progress(&self.totals);
        }
    }

    /// The reason to stop at an operation that may succeed when it is sent again, with all that follows it.
    /// The node of another stream tries again by itself what has not been executed.
    fn reason_to_stop(&self, outcome: &StreamOutcome) -> Option<FeedBreak> {
        match outcome {
            StreamOutcome::Failed(failed)
                if failed.is_passing() && self.call.stage == ForwardKind::Client =>
            {
                let FailedOperation { number, id, status, message, .. } = failed;
                let message = format!("operation {number} ({}): {message}", self.answer.shown_id(id));
                Some(FeedBreak { status: *status, message })
            }
            StreamOutcome::Failed(_) | StreamOutcome::Ok | StreamOutcome::Ignored(_) => None,
        }
    }

    fn count(&mut self, outcome: StreamOutcome) {
        let totals = &mut self.totals;
        let failed = match outcome {
            StreamOutcome::Ok => {
                totals.ok += 1;
                return;
            }
            StreamOutcome::Ignored(ignored) => {
                // One is enough to see why.
                if totals.ignored == 0 {
                    self.answer.ignore(&ignored);
                }
                totals.ignored += 1;
                return;
            }
            StreamOutcome::Failed(failed) => failed,
        };
        match failed.is_condition() {
            true => totals.condition_not_met += 1,
            false => totals.failed += 1,
        }
        totals.unlisted += u64::from(!self.answer.fail(&failed));
    }
}

impl StreamOutcome {
    /// Number of a listed operation, for the order of their lines.
    fn number(&self) -> u64 {
        match self {
            StreamOutcome::Failed(failed) => failed.number,
            StreamOutcome::Ignored(ignored) => ignored.number,
            StreamOutcome::Ok => 0,
        }
    }
}

/// Executes the operations of a wave, and returns their outcomes in their order. The memory of a piece is
/// given back before the answers of other nodes come, since these may wait for memory too.
async fn execute(
    call: Arc<DocumentCall>,
    wave: OperationWave,
    memory: Arc<PieceMemory>,
) -> Vec<StreamOutcome> {
    let OperationWave { writes, origins, relayed, forwarded, mut finished, .. } = wave;
    let here = async {
        let written = commit(&call, writes, origins).await;
        drop(memory);
        written
    };
    let (written, relayed, answered) = tokio::join!(here, relay(&call, relayed), forward(&call, forwarded));
    let CommittedWave { finished: written, again } = written;
    finished.extend(written);
    // The failures of operations that were sent on were counted by their requests.
    finished.iter().for_each(|outcome| count_failure(&call, outcome));
    finished.extend(answered);
    finished.extend(relayed.finished);
    let again = again.into_iter().chain(relayed.again).collect();
    finished.extend(forward(&call, again).await);
    finished.sort_by_key(StreamOutcome::number);
    finished
}

fn count_failure(call: &DocumentCall, outcome: &StreamOutcome) {
    if let StreamOutcome::Failed(failed) = outcome {
        call.node.metrics().count(match failed.is_condition() {
            true => CountedMetric::ConditionFailures,
            false => CountedMetric::FailedOperations,
        });
    }
}

/// Outcomes of operations that were executed together.
#[derive(Default)]
pub(super) struct CommittedWave {
    pub(super) finished: Vec<StreamOutcome>,
    /// Operations that were certainly not executed, to be tried like single requests.
    pub(super) again: Vec<ForwardedOperation>,
}

impl CommittedWave {
    /// Notes that writes have failed.
    fn fail(&mut self, origins: impl IntoIterator<Item = WaveWrite>, error: &Error) {
        let failed = |origin: WaveWrite| {
            let WaveWrite { number, position, id, .. } = origin;
            StreamOutcome::Failed(FailedOperation::new(number, position, &id, error))
        };
        self.finished.extend(origins.into_iter().map(failed));
    }

    /// Takes out the updates of groups that are full, and notes the reasons.
    fn without_full(
        &mut self,
        full: &BTreeMap<DocumentGroup, Error>,
        writes: Vec<DocumentWrite>,
        origins: Vec<WaveWrite>,
    ) -> (Vec<DocumentWrite>, Vec<WaveWrite>) {
        if full.is_empty() {
            return (writes, origins);
        }
        let mut left = (Vec::with_capacity(writes.len()), Vec::with_capacity(origins.len()));
        for (write, origin) in writes.into_iter().zip(origins) {
            let is_update = origin.kind == OperationKind::Update;
            if let Some(error) = full.get(origin.id.group()).filter(|_| is_update) {
                self.fail([origin], error);
            } else {
                left.0.push(write);
                left.1.push(origin);
            }
        }
        left
    }
}

/// Writes a batch to the store of this node, or to all replicas of the buckets that it owns.
async fn commit(
    call: &DocumentCall,
    writes: Vec<DocumentWrite>,
    mut origins: Vec<WaveWrite>,
) -> CommittedWave {
    let mut wave = CommittedWave::default();
    let full = full_groups(call, &mut origins).await;
    let (writes, origins) = match full {
        Ok(full) => wave.without_full(&full, writes, origins),
        Err(error) => {
            wave.fail(origins, &error);
            return wave;
        }
    };
    if writes.is_empty() {
        return wave;
    }
    let began = Instant::now();
    let outcomes = match call.node.cluster().view() {
        Err(error) => Err(error.into()),
        Ok(None) => {
            let deadline = Instant::now() + call.timeout;
            write::commit_batch(&call.node, &call.permit, writes, call.writer, call.durability, deadline)
                .await
        }
        Ok(Some(cluster)) => replicate_batch(cluster, &call.permit, writes, call.timeout).await,
    };
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => {
            wave.fail(origins, &error);
            return wave;
        }
    };
    let metrics = call.node.metrics();
    let executed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    if executed > 0 {
        metrics.time_streamed(began.elapsed(), executed as u64);
    }
    for (origin, outcome) in origins.into_iter().zip(outcomes) {
        let WaveWrite { number, position, kind, id, again, size: _size } = origin;
        match (outcome, again) {
            (Ok(_), _) => {
                metrics.count(match kind {
                    OperationKind::Put => CountedMetric::Puts,
                    OperationKind::Update => CountedMetric::Updates,
                    OperationKind::Remove => CountedMetric::Removes,
                });
                wave.finished.push(StreamOutcome::Ok);
            }
            (Err(error), Some(again)) if is_not_executed(&error) && call.stage == ForwardKind::Client => {
                match again.single() {
                    Ok(single) => wave.again.push(ForwardedOperation { number, position, single }),
                    Err(error) => {
                        let failed = FailedOperation::new(number, position, &id, &error);
                        wave.finished.push(StreamOutcome::Failed(failed));
                    }
                }
            }
            (Err(error), _) => {
                wave.finished
                    .push(StreamOutcome::Failed(FailedOperation::new(number, position, &id, &error)));
            }
        }
    }
    wave
}

/// True if an operation with this error was certainly not executed, and can be when it is sent again.
fn is_not_executed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Overloaded | ErrorKind::Unavailable)
}

/// Writes a batch to all replicas of buckets that this node owns.
///
/// # Errors
/// A part of the cluster's code has dropped a write.
async fn replicate_batch(
    cluster: &dyn ClusterView,
    permit: &Permit,
    writes: Vec<DocumentWrite>,
    timeout: Duration,
) -> Result<Vec<Result<CommittedWrite, Error>>, Error> {
    let (batch, receivers): (_, Vec<_>) =
        writes.into_iter().map(|write| BatchedWrite::awaited(permit, write)).unzip();
    cluster.write(batch, Instant::now() + timeout);
    let mut outcomes = Vec::with_capacity(receivers.len());
    for receiver in receivers {
        let dropped = |_| Error::Internal("the cluster dropped a write; see the log".to_owned());
        outcomes.push(write::write_outcome(receiver.await.map_err(dropped)?));
    }
    Ok(outcomes)
}

/// Sends operations to the nodes that own their documents, a batch to each.
async fn relay(
    call: &Arc<DocumentCall>,
    relayed: BTreeMap<RemoteNode, Vec<ForwardedOperation>>,
) -> CommittedWave {
    let mut in_flight = JoinSet::new();
    for (remote, operations) in relayed {
        in_flight.spawn(RelayedPart { remote, operations }.run(Arc::clone(call)));
    }
    let mut all = CommittedWave::default();
    while let Some(joined) = in_flight.join_next().await {
        match joined {
            Ok(CommittedWave { finished, again }) => {
                all.finished.extend(finished);
                all.again.extend(again);
            }
            Err(_) => all.finished.push(lost_operation()),
        }
    }
    all
}

/// Executes operations like single requests, some at a time.
async fn forward(call: &Arc<DocumentCall>, operations: Vec<ForwardedOperation>) -> Vec<StreamOutcome> {
    let mut finished = Vec::with_capacity(operations.len());
    let mut in_flight = JoinSet::new();
    for operation in operations {
        if in_flight.len() >= FORWARDED_MAX {
            finished.extend(in_flight.join_next().await);
        }
        in_flight.spawn(operation.run(Arc::clone(call)));
    }
    while let Some(outcome) = in_flight.join_next().await {
        finished.push(outcome);
    }
    let outcome = |joined: Result<StreamOutcome, _>| joined.unwrap_or_else(|_| lost_operation());
    finished.into_iter().map(outcome).collect()
}

/// Outcome of an operation whose task ended in a panic: the stream ends, and can be sent again from there.
fn lost_operation() -> StreamOutcome {
    StreamOutcome::Failed(FailedOperation {
        number: 0,
        position: FeedPosition::default(),
        id: String::new(),
        status: super::StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        message: "it ended in a panic; see the log".to_owned(),
    })
}
