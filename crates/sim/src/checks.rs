//! Conditions that must hold after all faults have ended.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeKey, ReportedReplica};
use millrace_document::{DocumentId, Timestamp};

use crate::history::OperationId;
use crate::indexes;
use crate::world::SimWorld;

/// Checks that the cluster has come to rest: every replica in its place, equal and complete, and no work in
/// progress. The node `away` has ended, and does not count.
pub(crate) fn at_rest(world: &SimWorld, away: Option<NodeKey>) -> Result<(), String> {
    let Some(state) = world.coordination.state() else { return Err("no state".to_owned()) };
    let nodes = || world.nodes.values().filter(|node| Some(node.key) != away);
    for node in nodes() {
        let key = node.key;
        if node.distributor.version() != Some(state.version()) {
            return Err(format!(
                "n{key} acts by state {:?}, not {}",
                node.distributor.version(),
                state.version()
            ));
        }
        let (active, newest) = (node.package.generation, world.coordination.package().generation);
        if active != newest {
            return Err(format!("n{key} has generation {active} of the application active, not {newest}"));
        }
        if !node.distributor.unreported().is_empty() {
            return Err(format!("n{key} has no report of {:?}", node.distributor.unreported()));
        }
        let metrics = node.distributor.metrics();
        if metrics.unknown + metrics.distance + metrics.running + metrics.requests > 0 {
            return Err(format!("n{key}: {metrics:?}, {:?}", node.distributor.operations()));
        }
        if !node.jobs.is_empty() || !node.fetches.is_empty() {
            return Err(format!("n{key} still works"));
        }
    }
    if world.options.indexes
        && let Some(reason) = indexes::unrest(world, away)
    {
        return Err(reason);
    }
    if let Some(reason) = world.reindexing_unrest() {
        return Err(reason);
    }
    let mut replicas: BTreeMap<BucketId, Vec<(NodeKey, ReportedReplica)>> = BTreeMap::new();
    for node in nodes() {
        for (bucket, info) in node.storage.all(world.history.forgotten()) {
            replicas.entry(bucket).or_default().push((node.key, info));
        }
    }
    for node in nodes() {
        let misplaced = node.storage.misplaced(|id| state.bucket(id.location()));
        if !misplaced.is_empty() {
            return Err(format!("n{} has documents in buckets that are not theirs: {misplaced:?}", node.key));
        }
    }
    for (bucket, replicas) in replicas {
        if !state.buckets().any(|known| known == bucket) {
            return Err(format!("{bucket} is none, and on {replicas:?}"));
        }
        let mut there: Vec<NodeKey> = replicas.iter().map(|(node, _)| *node).collect();
        let mut ideal = state.ideal(bucket);
        there.sort_unstable();
        ideal.sort_unstable();
        if there != ideal {
            return Err(format!("{bucket} is on {there:?}, and should be on {ideal:?}"));
        }
        if replicas.iter().any(|(_, info)| !info.complete) {
            return Err(format!("{bucket}: a replica is incomplete"));
        }
        if replicas.iter().any(|(_, info)| info.content != replicas[0].1.content) {
            return Err(format!("{bucket}: replicas differ: {replicas:?}"));
        }
    }
    Ok(())
}

/// Checks that every acknowledged write is present, and nothing that was not written.
pub(crate) fn nothing_lost(world: &SimWorld) -> Result<(), String> {
    let Some(state) = world.coordination.state() else { return Err("no state".to_owned()) };
    for id in world.history.documents() {
        let found = newest(world, state.bucket(id.location()), &id);
        let timestamp = found.as_ref().map(|(timestamp, _)| *timestamp).unwrap_or_default();
        let writer = found.and_then(|(_, writer)| writer);
        world.history.check_final(&id, timestamp, writer)?;
    }
    world.history.check_drops()
}

fn newest(world: &SimWorld, bucket: BucketId, id: &DocumentId) -> Option<(Timestamp, Option<OperationId>)> {
    let versions = world.nodes.values().filter_map(|node| node.storage.newest_of(bucket, id));
    let newest = versions.max_by_key(|version| version.timestamp)?;
    let writer =
        newest.body.as_deref().and_then(|body| body.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
    Some((newest.timestamp, writer.map(OperationId)))
}
