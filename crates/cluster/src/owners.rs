use std::collections::HashMap;
use std::sync::Arc;

use millrace_bucket::BucketId;

use crate::{ClusterState, NodeKey};

/// Who owns what by one state. Computed once for each bucket that is asked for: rows ask thousands of times a second.
pub(crate) struct Owners {
    state: Arc<ClusterState>,
    known: HashMap<BucketId, Option<NodeKey>>,
}

impl Owners {
    pub fn new(state: Arc<ClusterState>) -> Self {
        Owners { state, known: HashMap::new() }
    }

    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// The owner of a bucket.
    pub fn owner(&mut self, bucket: BucketId) -> Option<NodeKey> {
        let state = &self.state;
        *self.known.entry(bucket).or_insert_with(|| state.owner(bucket))
    }
}
