//! Batches: many writes that are admitted together and answered together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::context::StoreContext;
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

/// Writes that are counted in, until this is dropped. A batch is counted in as a whole, and out in a few
/// steps: threads that take writes on and the one that answers them would otherwise contend for the counters.
pub(crate) struct WritesInFlight {
    shared: Arc<StoreContext>,
    writes: usize,
    bytes: usize,
}

impl WritesInFlight {
    /// Counts writes in.
    pub fn count(shared: &Arc<StoreContext>, writes: usize, bytes: usize) -> Self {
        shared.counters.writes_in_flight.fetch_add(writes, Ordering::Relaxed);
        shared.counters.bytes_in_flight.fetch_add(bytes, Ordering::Relaxed);
        WritesInFlight { shared: Arc::clone(shared), writes, bytes }
    }

    /// Counts writes out, all but `writes` with `bytes` bytes.
    fn keep(&mut self, writes: usize, bytes: usize) {
        self.shared.counters.writes_in_flight.fetch_sub(self.writes - writes, Ordering::Relaxed);
        self.shared.counters.bytes_in_flight.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        (self.writes, self.bytes) = (writes, bytes);
    }
}

impl Drop for WritesInFlight {
    fn drop(&mut self) {
        self.keep(0, 0);
    }
}

/// Outcomes of the writes of a batch, which come in any order.
pub(crate) struct BatchOutcomes(Mutex<OpenOutcomes>);

struct OpenOutcomes {
    outcomes: Vec<Result<CommittedWrite, Error>>,
    /// Number of outcomes that have not come yet.
    missing: usize,
    /// Bytes of their writes.
    missing_bytes: usize,
    end: Option<(WritesInFlight, BatchCallback)>,
}

impl BatchOutcomes {
    /// Waits for the outcomes of writes, at least one, that were counted in.
    pub fn new(counted: WritesInFlight, done: BatchCallback) -> Arc<Self> {
        let (missing, missing_bytes) = (counted.writes, counted.bytes);
        assert!(missing > 0, "a batch without writes is answered at once");
        let outcomes = vec![Err(Error::Closed); missing];
        let end = Some((counted, done));
        Arc::new(BatchOutcomes(Mutex::new(OpenOutcomes { outcomes, missing, missing_bytes, end })))
    }

    /// Takes the outcome of the write at `index`, which was counted in with these bytes. The last one answers
    /// the batch.
    pub fn set(&self, index: usize, bytes: usize, outcome: Result<CommittedWrite, Error>) {
        let mut open = self.0.lock();
        open.outcomes[index] = outcome;
        open.missing -= 1;
        open.missing_bytes -= bytes;
        let (missing, missing_bytes) = (open.missing, open.missing_bytes);
        if missing > 0 {
            // One that takes long must not hold the room of all. At most half of those that count are done.
            if missing.is_power_of_two()
                && let Some((counted, _)) = &mut open.end
            {
                counted.keep(missing, missing_bytes);
            }
            return;
        }
        let (outcomes, end) = (std::mem::take(&mut open.outcomes), open.end.take());
        drop(open);
        let (counted, done) = end.expect("the last outcome comes once");
        drop(counted);
        done(outcomes);
    }
}
