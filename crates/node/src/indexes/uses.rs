//! Figures of the uses of indexes by queries.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CandidateReading, IndexUse, NodeIndexes};
use crate::metrics::MetricGauge;

/// Counts of the uses of indexes since the start.
#[derive(Default)]
pub(super) struct IndexUseCounts {
    queries: AtomicU64,
    covered: AtomicU64,
    candidates: AtomicU64,
}

impl NodeIndexes {
    /// Counts a use of an index by a query, or by this node's share of one.
    pub(crate) fn count(&self, index_use: &IndexUse) {
        let IndexUseCounts { queries, covered, candidates } = &self.uses;
        queries.fetch_add(1, Ordering::Relaxed);
        candidates.fetch_add(index_use.candidates, Ordering::Relaxed);
        covered.fetch_add(u64::from(index_use.reading == CandidateReading::FromEntries), Ordering::Relaxed);
    }

    /// Gauges of the indexes that lie with the documents, and of the uses of these and of placed ones; none
    /// where there are neither.
    pub(crate) fn gauges(&self, is_any_placed: bool) -> Vec<MetricGauge> {
        let has_own = !self.inner().all().is_empty();
        let IndexUseCounts { queries, covered, candidates } = &self.uses;
        let counted = |name, description, count: &AtomicU64| {
            MetricGauge::counted(name, description, count.load(Ordering::Relaxed))
        };
        let mut gauges = Vec::new();
        if has_own || is_any_placed {
            gauges.extend([
                counted(
                    "millrace.index.queries",
                    "Queries, or shares of them, that the node has answered by an index",
                    queries,
                ),
                counted(
                    "millrace.index.covered",
                    "Those of them that were answered from entries alone",
                    covered,
                ),
                counted(
                    "millrace.index.candidates",
                    "Candidates that the indexes found for them",
                    candidates,
                ),
            ]);
        }
        if has_own {
            let feed = &self.inner().feed;
            gauges.extend([
                MetricGauge::new(
                    "millrace.index.waiting",
                    "Changes that wait for the indexes that lie with the documents",
                    feed.waiting() as f64,
                ),
                MetricGauge::new(
                    "millrace.index.stale_buckets",
                    "Buckets whose documents these indexes have to read again",
                    feed.stale.len() as f64,
                ),
            ]);
        }
        gauges
    }
}
