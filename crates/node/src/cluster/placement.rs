//! Owners and replicas of buckets by the cluster state.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use millrace_cluster::{NodeEntry, NodeKey};
use millrace_document::{DocumentGroup, Location};

use super::{ClusterError, ClusterView, NodeAddress, OwnerNodes};

/// Reason for which no node owns anything.
const NO_NODE_SERVES: &str = "no node of the cluster serves now";

/// Reason for which a requested bucket does not exist.
pub const NO_SUCH_BUCKET: &str = "the nodes do not agree yet which groups are divided";

impl dyn ClusterView + '_ {
    /// Returns the node that orders the writes of documents at this location. The error is the reason
    /// for which none does now.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    pub fn owner(&self, location: Location) -> Result<NodeAddress, ClusterError> {
        let state = self.state()?;
        let owner = state.owner(state.bucket(location));
        self.address(owner.ok_or_else(|| ClusterError::unavailable(NO_NODE_SERVES))?)
    }

    /// Returns the node that orders the writes in this bucket. Not every location with the bits of the bucket
    /// is in it: groups among them can be divided.
    ///
    /// # Errors
    /// Those of `owner`; the cluster state has no such bucket.
    pub fn owner_of(&self, bucket: BucketId) -> Result<NodeAddress, ClusterError> {
        let state = self.state()?;
        if !state.has_bucket(bucket) {
            return Err(ClusterError::unavailable(NO_SUCH_BUCKET));
        }
        self.address(state.owner(bucket).ok_or_else(|| ClusterError::unavailable(NO_NODE_SERVES))?)
    }

    /// Returns the nodes that own the buckets of these groups, or all buckets.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    pub fn owners(&self, groups: Option<&[DocumentGroup]>) -> Result<OwnerNodes, ClusterError> {
        let state = self.state()?;
        let Some(groups) = groups else {
            let owns =
                |(key, node): &(&NodeKey, &NodeEntry)| node.state.serves() && state.takes_buckets(**key);
            let nodes: Vec<_> = state.nodes().iter().filter(owns).map(|(key, _)| (*key, None)).collect();
            // None of them would read as if there were no documents.
            return match nodes.is_empty() {
                true => Err(ClusterError::unavailable(NO_NODE_SERVES)),
                false => Ok(OwnerNodes { version: state.version(), nodes }),
            };
        };
        let mut nodes: BTreeMap<NodeKey, Option<Vec<BucketId>>> = BTreeMap::new();
        let buckets: BTreeSet<BucketId> = groups.iter().flat_map(|group| state.buckets_of(group)).collect();
        for bucket in buckets {
            let owner = state.owner(bucket).ok_or_else(|| ClusterError::unavailable(NO_NODE_SERVES))?;
            nodes.entry(owner).or_default().get_or_insert_default().push(bucket);
        }
        Ok(OwnerNodes { version: state.version(), nodes: nodes.into_iter().collect() })
    }

    /// Returns the serving nodes that should have a bucket, except its owner. Only the owner knows if they
    /// have all of it.
    ///
    /// # Errors
    /// The cluster has no state yet.
    pub fn replicas(&self, bucket: BucketId) -> Result<Vec<NodeKey>, ClusterError> {
        let state = self.state()?;
        let owner = state.owner(bucket);
        let mut nodes = state.ideal(bucket);
        nodes.retain(|node| Some(*node) != owner && state.node_state(*node).serves());
        Ok(nodes)
    }

    /// Returns the bucket of this location.
    ///
    /// # Errors
    /// The cluster has no state yet.
    pub fn bucket(&self, location: Location) -> Result<BucketId, ClusterError> {
        Ok(self.state()?.bucket(location))
    }

    /// Returns the buckets of a group's documents: several if the group is divided; none if there is no
    /// group.
    ///
    /// # Errors
    /// The cluster has no state yet.
    pub fn buckets_of(&self, group: &DocumentGroup) -> Result<Vec<BucketId>, ClusterError> {
        Ok(self.state()?.buckets_of(group))
    }

    /// Returns all buckets: the number of bits of the buckets of undivided groups, and the buckets of divided
    /// groups. Documents in the latter are in no other bucket.
    ///
    /// # Errors
    /// The cluster has no state yet.
    pub fn buckets(&self) -> Result<(u8, Vec<BucketId>), ClusterError> {
        let state = self.state()?;
        Ok((state.distribution().bits, state.spread().buckets().collect()))
    }
}
