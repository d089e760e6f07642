//! Batches: many writes that are admitted together and answered together.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::write::committer::CommitCallback;
use crate::{CommittedWrite, DocumentWrite, Error};

/// A batch that was refused. Nothing of it was written, so that it can be sent again as it is.
#[derive(Debug)]
pub struct RefusedBatch {
    /// Reason: [`Error::Overloaded`], or a state in which the store takes no writes.
    pub error: Error,
    /// The writes, in their order.
    pub writes: Vec<DocumentWrite>,
}

/// Callback for the outcomes of a batch, in the order of its writes.
pub(crate) type BatchCallback = Box<dyn FnOnce(Vec<Result<CommittedWrite, Error>>) + Send>;

/// Outcomes of the writes of a batch, which come in any order.
pub(crate) struct BatchOutcomes(Mutex<OpenOutcomes>);

struct OpenOutcomes {
    outcomes: Vec<Result<CommittedWrite, Error>>,
    /// Number of outcomes that have not come yet.
    missing: usize,
    done: Option<BatchCallback>,
}

impl BatchOutcomes {
    /// Waits for `count` outcomes, at least one.
    pub fn new(count: usize, done: BatchCallback) -> Arc<Self> {
        assert!(count > 0, "a batch without writes is answered at once");
        let outcomes = vec![Err(Error::Closed); count];
        Arc::new(BatchOutcomes(Mutex::new(OpenOutcomes { outcomes, missing: count, done: Some(done) })))
    }

    /// Returns the callback of the write at `index`. The last one to be called answers the batch.
    pub fn of(self: &Arc<Self>, index: usize) -> CommitCallback {
        let batch = Arc::clone(self);
        Box::new(move |outcome| batch.set(index, outcome))
    }

    fn set(&self, index: usize, outcome: Result<CommittedWrite, Error>) {
        let mut open = self.0.lock();
        open.outcomes[index] = outcome;
        open.missing -= 1;
        if open.missing > 0 {
            return;
        }
        let (outcomes, done) = (std::mem::take(&mut open.outcomes), open.done.take());
        drop(open);
        done.expect("the last outcome comes once")(outcomes);
    }
}
