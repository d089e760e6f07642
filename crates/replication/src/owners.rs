use std::collections::HashMap;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, NodeKey};

/// Owners of buckets by one state. Each is computed once: rows ask for them thousands of times a second.
pub(crate) struct BucketOwners {
    state: Arc<ClusterState>,
    known: HashMap<BucketId, Option<NodeKey>>,
}

impl BucketOwners {
    pub fn new(state: Arc<ClusterState>) -> Self {
        BucketOwners { state, known: HashMap::new() }
    }

    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// Returns the owner of a bucket.
    pub fn owner(&mut self, bucket: BucketId) -> Option<NodeKey> {
        let state = &self.state;
        *self.known.entry(bucket).or_insert_with(|| state.owner(bucket))
    }
}
