//! Execution of prepared operations, in waves: a wave has at most one operation on each document, and begins
//! when the one before it has ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::WantedGroups;
use millrace_document::json::FeedPosition;
use millrace_document::{DocumentGroup, DocumentId, OperationKind};
use millrace_store::{CommittedWrite, DocumentWrite, RefusedBatch};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::DocumentCall;
use super::answer::{FailedOperation, FeedAnswer, FeedBreak, FeedTotals};
use super::forward::ForwardedOperation;
use super::prepare::{PreparedItem, PreparedPiece, PreparedStep};
use crate::document_api::write;
use millrace_node::cluster::ClusterError;
use millrace_node::metrics::CountedMetric;
use millrace_node::{Error, ErrorKind};

/// Number of operations of a stream that are executed like single requests at a time.
const FORWARDED_MAX: usize = 64;

/// Shortest and longest pause before something is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Pauses before further attempts at what was refused, until a deadline.
pub(super) struct RetryPause {
    deadline: Instant,
    pause: Duration,
}

impl RetryPause {
    pub(super) fn until(deadline: Instant) -> Self {
        RetryPause { deadline, pause: PAUSES.0 }
    }

    /// Waits, twice as long each time.
    ///
    /// # Errors
    /// The error, if it is not one of an overload, or the time is up.
    pub(super) async fn after(&mut self, error: Error) -> Result<(), Error> {
        if error.kind() != ErrorKind::Overloaded || Instant::now() + self.pause > self.deadline {
            return Err(error);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}

/// Outcome of an operation.
#[derive(Debug)]
pub(super) enum StreamOutcome {
    Ok,
    Ignored,
    Failed(FailedOperation),
}

/// Executes the operations of a stream.
pub(super) struct FeedCommitter {
    call: Arc<DocumentCall>,
    answer: FeedAnswer,
    totals: FeedTotals,
    /// Reason to execute nothing more.
    stopped: Option<FeedBreak>,
}

/// A write of a wave.
struct WaveWrite {
    number: u64,
    place: FeedPosition,
    kind: OperationKind,
    id: DocumentId,
}

/// Operations on different documents.
#[derive(Default)]
struct OperationWave {
    /// Number and end of the last operation, of whatever kind.
    last: Option<(u64, u64)>,
    documents: HashSet<DocumentId>,
    writes: Vec<DocumentWrite>,
    /// Origins of the writes, in their order.
    origins: Vec<WaveWrite>,
    forwarded: Vec<ForwardedOperation>,
    /// Operations that were finished before.
    finished: Vec<StreamOutcome>,
}

impl OperationWave {
    fn has(&self, step: &PreparedStep) -> bool {
        step.id().is_some_and(|id| self.documents.contains(id))
    }

    fn add(&mut self, item: PreparedItem) {
        let PreparedItem { number, place, end, step } = item;
        self.last = Some((number, end));
        self.documents.extend(step.id().cloned());
        match step {
            PreparedStep::Write(kind, write) => {
                self.origins.push(WaveWrite { number, place, kind, id: write.id.clone() });
                self.writes.push(write);
            }
            PreparedStep::Forward(operation, condition) => {
                self.forwarded.push(ForwardedOperation { number, place, operation, condition });
            }
            PreparedStep::Ignored => self.finished.push(StreamOutcome::Ignored),
            PreparedStep::Failed(failed) => self.finished.push(StreamOutcome::Failed(failed)),
        }
    }
}

impl FeedCommitter {
    pub(super) fn new(call: Arc<DocumentCall>, answer: FeedAnswer) -> Self {
        FeedCommitter { call, answer, totals: FeedTotals::default(), stopped: None }
    }

    /// Executes all pieces, until the stream ends or is stopped, and writes the totals.
    pub(super) async fn run(mut self, mut pieces: mpsc::Receiver<PreparedPiece>) {
        while let Some(piece) = pieces.recv().await {
            let mut wave = OperationWave::default();
            for item in piece.items {
                if wave.has(&item.step) {
                    self.execute(std::mem::take(&mut wave)).await;
                }
                if self.stopped.is_some() {
                    break;
                }
                wave.add(item);
            }
            self.execute(wave).await;
            self.stopped = self.stopped.or(piece.stopped);
            // A client that has left gets no answer, and has sent nothing whole after this.
            if self.stopped.is_some() || self.answer.is_gone() {
                break;
            }
        }
        self.answer.total(&self.totals, self.stopped.as_ref());
    }

    /// Executes a wave, unless the stream was stopped.
    async fn execute(&mut self, wave: OperationWave) {
        let OperationWave { last, writes, origins, forwarded, mut finished, .. } = wave;
        let (Some((through, offset)), None) = (last, &self.stopped) else { return };
        if self.call.node.cluster().is_none() {
            self.await_quotas(&origins).await;
        }
        let (written, answered) =
            tokio::join!(commit(&self.call, writes, &origins), forward(&self.call, forwarded));
        finished.extend(written);
        // The failures of forwarded operations were counted by their requests.
        finished.iter().for_each(|outcome| self.count_failure(outcome));
        finished.extend(answered);
        finished.sort_by_key(StreamOutcome::number);
        finished.into_iter().for_each(|outcome| self.count(outcome));
        if self.stopped.is_none() {
            self.totals.operations = through;
            self.totals.bytes = offset;
            self.answer.progress(through, offset);
        }
    }

    /// Waits until the quotas of the groups admit their operations.
    async fn await_quotas(&self, origins: &[WaveWrite]) {
        let (quotas, metrics) = (self.call.node.quotas(), self.call.node.metrics());
        for origin in origins {
            while quotas.admit_group(origin.id.group(), Instant::now(), metrics).is_err() {
                tokio::time::sleep(PAUSES.1 / 10).await;
            }
        }
    }

    fn count_failure(&self, outcome: &StreamOutcome) {
        if let StreamOutcome::Failed(failed) = outcome {
            self.call.node.metrics().count(match failed.is_condition() {
                true => CountedMetric::ConditionFailures,
                false => CountedMetric::FailedOperations,
            });
        }
    }

    fn count(&mut self, outcome: StreamOutcome) {
        let totals = &mut self.totals;
        let failed = match outcome {
            StreamOutcome::Ok => {
                totals.ok += 1;
                return;
            }
            StreamOutcome::Ignored => {
                totals.ignored += 1;
                return;
            }
            StreamOutcome::Failed(failed) => failed,
        };
        if failed.is_passing() {
            // It may succeed when it is sent again, with all that follows it.
            let FailedOperation { number, id, status, message, .. } = failed;
            let message = format!("operation {number} ({id}): {message}");
            self.stopped.get_or_insert(FeedBreak { status, message });
            return;
        }
        match failed.is_condition() {
            true => totals.condition_not_met += 1,
            false => totals.failed += 1,
        }
        totals.unlisted += u64::from(!self.answer.fail(&failed));
    }
}

impl StreamOutcome {
    /// Number of a failed operation, for the order of their lines.
    fn number(&self) -> u64 {
        match self {
            StreamOutcome::Failed(failed) => failed.number,
            StreamOutcome::Ok | StreamOutcome::Ignored => 0,
        }
    }
}

/// Writes a batch to the store of this node.
async fn commit(
    call: &DocumentCall,
    writes: Vec<DocumentWrite>,
    origins: &[WaveWrite],
) -> Vec<StreamOutcome> {
    if writes.is_empty() {
        return Vec::new();
    }
    let outcomes = commit_batch(call, writes).await;
    let metrics = call.node.metrics();
    let finished = |(origin, outcome): (&WaveWrite, Result<CommittedWrite, Error>)| match outcome {
        Ok(_) => {
            metrics.count(match origin.kind {
                OperationKind::Put => CountedMetric::Puts,
                OperationKind::Update => CountedMetric::Updates,
                OperationKind::Remove => CountedMetric::Removes,
            });
            StreamOutcome::Ok
        }
        Err(error) => {
            StreamOutcome::Failed(FailedOperation::of(origin.number, origin.place, &origin.id, &error))
        }
    };
    match outcomes {
        Ok(outcomes) => origins.iter().zip(outcomes).map(finished).collect(),
        Err(error) => {
            let failed =
                |origin: &WaveWrite| FailedOperation::of(origin.number, origin.place, &origin.id, &error);
            origins.iter().map(|origin| StreamOutcome::Failed(failed(origin))).collect()
        }
    }
}

/// Writes a batch as soon as the store takes it on.
///
/// # Errors
/// It takes nothing on.
async fn commit_batch(
    call: &DocumentCall,
    mut writes: Vec<DocumentWrite>,
) -> Result<Vec<Result<CommittedWrite, Error>>, Error> {
    let mut retry = RetryPause::until(Instant::now() + call.timeout);
    loop {
        let (sender, receiver) = oneshot::channel();
        let tell = move |outcomes| {
            // The stream may have ended; the writes stand all the same.
            let _ = sender.send(outcomes);
        };
        let groups: Vec<DocumentGroup> = writes.iter().map(|write| write.id.group().clone()).collect();
        let store = call.node.store(&call.permit, WantedGroups::These(&groups));
        match store.write_batch(writes, tell) {
            Ok(()) => {
                let outcomes: Vec<Result<CommittedWrite, millrace_store::Error>> = receiver
                    .await
                    .map_err(|_| Error::Internal("the store dropped a batch; see the log".to_owned()))?;
                let convert = |outcome: Result<_, _>| write::written(outcome.map_err(ClusterError::Store));
                return Ok(outcomes.into_iter().map(convert).collect());
            }
            Err(RefusedBatch { error, writes: refused }) => {
                retry.after(ClusterError::Store(error).into()).await?;
                writes = refused;
            }
        }
    }
}

/// Executes operations like single requests, some at a time.
async fn forward(call: &Arc<DocumentCall>, operations: Vec<ForwardedOperation>) -> Vec<StreamOutcome> {
    let mut finished = Vec::with_capacity(operations.len());
    let mut under_way = JoinSet::new();
    for operation in operations {
        if under_way.len() >= FORWARDED_MAX {
            finished.extend(under_way.join_next().await);
        }
        under_way.spawn(operation.run(Arc::clone(call)));
    }
    while let Some(outcome) = under_way.join_next().await {
        finished.push(outcome);
    }
    let outcome = |joined: Result<StreamOutcome, _>| joined.unwrap_or_else(|_| lost_operation());
    finished.into_iter().map(outcome).collect()
}

/// Outcome of an operation whose task ended in a panic: the stream ends, and can be sent again from there.
fn lost_operation() -> StreamOutcome {
    StreamOutcome::Failed(FailedOperation {
        number: 0,
        place: FeedPosition::default(),
        id: String::new(),
        status: super::StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        message: "it ended in a panic; see the log".to_owned(),
    })
}
