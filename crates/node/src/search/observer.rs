//! Observation of the parts of a query, for distributed traces.

use std::sync::Arc;
use std::time::Instant;

use millrace_search::SearchTrace;

/// Observer of one query.
pub trait QueryObserver: Send + Sync {
    /// Value of the header `traceparent` of a request to another node for its share.
    fn header(&self) -> String;

    /// Called when this node's share of a query over several nodes has ended, with the times of each schema.
    fn share_ended(&self, started: Instant, traces: &[SearchTrace]);
}

/// Observation of a share, which ends with this value.
pub(super) struct ShareObservation {
    observer: Arc<dyn QueryObserver>,
    started: Instant,
    /// Times until now.
    pub(super) traces: Vec<SearchTrace>,
}

impl ShareObservation {
    pub(super) fn begin(observer: &Arc<dyn QueryObserver>) -> Self {
        ShareObservation { observer: Arc::clone(observer), started: Instant::now(), traces: Vec::new() }
    }
}

impl Drop for ShareObservation {
    fn drop(&mut self) {
        self.observer.share_ended(self.started, &self.traces);
    }
}
