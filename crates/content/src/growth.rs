//! Groups that grow too large for one bucket: a node that detects one reports it, and the controller has it
//! divided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::{BucketId, DividedGroup};
use millrace_membership::ClusterMembership;
use tokio::time::MissedTickBehavior;

use crate::storage::StoreReplicas;

/// Interval between checks. A check reads numbers in memory, unless a bucket is too large.
const LOOK: Duration = Duration::from_secs(5);

/// Maximum number of groups that a node reports at a time: its registration has little space. When these are
/// divided, others follow.
const REPORTED_GROUPS_MAX: usize = 64;

/// Number of parts (as a power of two) into which a group is divided when it gets too large. A query takes as
/// long as the node with the most parts: with 512 parts four nodes are 0.95 times as fast as with an even
/// distribution, and eight 0.85 times; with 128 parts 0.85 and 0.7 times.
const PARTS_BITS: u8 = 9;

/// Checks periodically.
pub(crate) async fn watch(replicas: Arc<StoreReplicas>, membership: ClusterMembership) {
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let looking = Arc::clone(&replicas);
        let Some(state) = membership.states().borrow().clone() else { continue };
        let look = move || {
            looking.store().too_large(REPORTED_GROUPS_MAX, |bucket| state.spread().can_divide(bucket))
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(groups)) => membership.too_large(wanted(groups)),
            Ok(Err(error)) => tracing::warn!(%error, "the groups that are too large could not be determined"),
            // The runtime ends.
            Err(error) if error.is_cancelled() => return,
            Err(error) => tracing::error!(%error, "looking for groups that are too large has failed"),
        }
    }
}

/// Returns the division that groups should have, given the buckets of them that are too large.
fn wanted(groups: Vec<DividedGroup>) -> BTreeSet<DividedGroup> {
    let mut wanted = BTreeMap::new();
    for DividedGroup { location, bits } in groups {
        let more = if bits > BucketId::GROUP_BITS { 1 } else { PARTS_BITS };
        let known: &mut u8 = wanted.entry(location).or_default();
        *known = bits.saturating_add(more).max(*known);
    }
    wanted.into_iter().map(DividedGroup::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_gets_many_parts_and_what_is_divided_twice_as_many() {
        let found = [(7, 32), (9, 39), (9, 40), (9, 39)].map(DividedGroup::from);
        assert_eq!(wanted(found.to_vec()), [(7, 41), (9, 41)].map(DividedGroup::from).into());
    }
}
