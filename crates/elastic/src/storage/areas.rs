//! Areas of the partitions of logs: in a cluster, each has nodes of its own.

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, SPREAD_PARTITIONS};
use millrace_document::{Location, Timestamp};
use millrace_node::Node;
use millrace_store::StoreStatus;
use serde::{Deserialize, Serialize};

use super::{HOME, HOME_BITS, StorageGroup};
use crate::Error;
use crate::slot_picking::ReplicaNodes;

/// Areas of partitions. In a cluster they are on different nodes; the first is that of other indexes.
pub(super) const AREAS: u8 = 24;

/// Low bits of the locations in an area. They decide where partitions are, and never change.
pub(super) const fn area_bits(area: u8) -> u32 {
    match area {
        0 => HOME & ((1 << HOME_BITS) - 1),
        area => (area as u32).wrapping_mul(0x9e37_79b9) >> (32 - HOME_BITS),
    }
}

/// Address of a partition: its place in an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionAddress {
    pub(crate) place: u16,
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) area: u8,
}

fn is_first(area: &u8) -> bool {
    *area == 0
}

/// Bytes above which a bucket of several places is split, so that they get files of their own.
const APART_BYTES: u64 = 16 << 20;

/// Has the store keep partitions in files of their own, so that their drop is the removal of files.
pub(crate) fn keep_partitions_apart(node: &Node) {
    let areas = if node.cluster().is_alone() { 0..1 } else { 0..AREAS };
    let areas = areas.map(|area| BucketId::new(HOME_BITS, u64::from(area_bits(area))));
    node.store().separate_files(areas, APART_BYTES);
}

/// Timestamp that no write of this node's store exceeds.
pub(crate) fn newest_write(node: &Node) -> Timestamp {
    node.store().newest()
}

/// Status of the store of this node.
pub(crate) fn store_status(node: &Node) -> StoreStatus {
    node.store().status()
}

/// Areas with different nodes, so that those which follow each other have different owners. One on a node
/// that runs alone, and in a cluster whose nodes do not all know others.
pub(crate) fn spread_areas(node: &Node) -> Result<Vec<u8>, Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(vec![0]) };
    let state = cluster.state()?;
    if state.protocol() < SPREAD_PARTITIONS {
        return Ok(vec![0]);
    }
    let areas = (0..AREAS).map(|area| (area, nodes_at(&state, area_bits(area))));
    Ok(interleaved(areas))
}

/// One area for each set of nodes, in turns of their owners.
fn interleaved(areas: impl IntoIterator<Item = (u8, ReplicaNodes)>) -> Vec<u8> {
    let mut seen: Vec<ReplicaNodes> = Vec::new();
    let mut turns: Vec<(usize, u16, u8)> = Vec::new();
    for (area, nodes) in areas {
        let Some(owner) = nodes.first().copied().filter(|_| !seen.contains(&nodes)) else { continue };
        let turn = seen.iter().filter(|other| other.first() == Some(&owner)).count();
        turns.push((turn, owner, area));
        seen.push(nodes);
    }
    turns.sort_unstable();
    if turns.is_empty() { vec![0] } else { turns.into_iter().map(|(_, _, area)| area).collect() }
}

/// Nodes of the documents of a group, the owner first; none on a node that runs alone.
pub(crate) fn nodes_of(node: &Node, group: StorageGroup) -> Result<ReplicaNodes, Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(Vec::new()) };
    Ok(nodes_at(&*cluster.state()?, group.low_bits()))
}

/// Nodes of an area.
pub(crate) fn nodes_of_area(node: &Node, area: u8) -> Result<ReplicaNodes, Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(Vec::new()) };
    Ok(nodes_at(&*cluster.state()?, area_bits(area)))
}

fn nodes_at(state: &ClusterState, low: u32) -> ReplicaNodes {
    let bucket = state.bucket(Location::new(u64::from(low)));
    let owner = state.owner(bucket);
    let others = state.ideal(bucket).into_iter().filter(|key| state.node_state(*key).serves());
    owner.into_iter().chain(others.filter(|key| Some(*key) != owner)).map(|key| key.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_with_the_same_nodes_count_once_and_owners_take_turns() {
        let check = |text: &str, expected: &[u8]| {
            let nodes = text.split_whitespace().map(|nodes| nodes.bytes().map(u16::from).collect());
            assert_eq!(interleaved((0..).zip(nodes)), expected, "{text}");
        };
        check("", &[0]);
        check("ab ab ab", &[0]);
        check("ab ac ba ca", &[0, 2, 3, 1]);
        check("cb ab ab ac bc", &[1, 4, 0, 3]);
    }

    #[test]
    fn places_are_read_as_they_were_written() {
        let first: PartitionAddress =
            serde_json::from_str(r#"{"place":7}"#).expect("a place without an area");
        assert_eq!(first, PartitionAddress { place: 7, area: 0 });
        assert_eq!(serde_json::to_string(&first).expect("a text"), r#"{"place":7}"#);
    }
}
