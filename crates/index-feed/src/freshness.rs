//! Answers of a copy to the question for its freshness.

use std::collections::BTreeSet;

use millrace_bucket::BucketId;

/// Result of the comparison of a copy with the positions of owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFreshness {
    /// The copy has everything that was acknowledged before the owners were asked.
    Fresh,
    /// Without something of these buckets, or unable to know: wait, or read the documents of these buckets.
    Missing(BTreeSet<BucketId>),
    /// The copy has never had everything, or acts by another cluster state.
    NotReady,
}
