use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::CommitCallback;
use crate::context::{RequestSize, StoreContext};
use crate::write::batch::{BatchOutcomes, WritesInFlight};
use crate::{CommittedWrite, Error};

/// The answer that a writer waits for: [`Error::Closed`] if it is dropped without another.
pub(super) struct WriterReply {
    /// Time at which the write was accepted.
    pub(super) began: Instant,
    owed: Option<AnswerReceiver>,
}

/// Receiver of an answer.
enum AnswerReceiver {
    Single(WritesInFlight, CommitCallback),
    /// The batch of the write, its index there, and its bytes that were counted in.
    Batched(Arc<BatchOutcomes>, usize, usize),
}

impl WriterReply {
    /// Counts a write in that is answered by itself.
    pub(super) fn single(
        shared: &Arc<StoreContext>,
        size: RequestSize,
        bytes: usize,
        done: CommitCallback,
    ) -> Self {
        let counted = WritesInFlight::count(shared, 1, bytes);
        WriterReply { began: shared.note_use(size), owed: Some(AnswerReceiver::Single(counted, done)) }
    }

    pub(super) fn batched(batch: &Arc<BatchOutcomes>, index: usize, bytes: usize, began: Instant) -> Self {
        WriterReply { began, owed: Some(AnswerReceiver::Batched(Arc::clone(batch), index, bytes)) }
    }

    pub(super) fn send(mut self, outcome: Result<CommittedWrite, Error>) {
        self.answer(outcome);
    }

    fn answer(&mut self, outcome: Result<CommittedWrite, Error>) {
        let Some(owed) = self.owed.take() else { return };
        let tell = || match owed {
            AnswerReceiver::Single(counted, done) => {
                drop(counted);
                done(outcome);
            }
            AnswerReceiver::Batched(batch, index, bytes) => batch.set(index, bytes, outcome),
        };
        // A writer's fault must not end the thread that all writers need.
        if catch_unwind(AssertUnwindSafe(tell)).is_err() {
            tracing::error!("the callback of a write panicked");
        }
    }
}

impl Drop for WriterReply {
    fn drop(&mut self) {
        self.answer(Err(Error::Closed));
    }
}
