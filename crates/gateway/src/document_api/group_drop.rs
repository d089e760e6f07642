//! Removal of a group's documents at a cost that does not depend on their number: exactly the counted
//! documents are dropped.
//!
//! Other clients write meanwhile. So the drop reaches up to the newest counted document: any write after the
//! count has a later time. On one node, everything up to that time is visible by then. In a cluster, rows
//! arrive at a replica in any order; there, only documents that are not after the horizon of the group's
//! owner are counted and dropped, and the rest is left to a sweep.

use std::sync::Arc;

use millrace_access::WantedGroups;
use millrace_column::{BytesColumn, Column, ColumnKey, FixedColumn, View, ViewChunk};
use millrace_document::Timestamp;
use millrace_store::ViewScope;
use tokio::sync::oneshot;

use super::DocumentCall;
use super::visit::WholeGroup;
use millrace_node::Error;
use millrace_node::cluster::{ClusterView, GroupDropRequest, ReadFence};
use millrace_node::pool::WorkFlow;

/// Result of dropping a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupDrop {
    /// Number of dropped documents.
    pub(super) documents: u64,
    /// True if there were other documents, which were too new.
    pub(super) leaves_some: bool,
}

/// Counts of a group's documents in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct GroupCount {
    /// Number of documents that are not after the horizon.
    documents: u64,
    /// Timestamp of the newest of them.
    newest: Timestamp,
    /// Number of documents after the horizon.
    later: u64,
}

/// Drops a group's documents, if all of the type have the namespace. Returns `None` if they do not, or if
/// there is nothing to drop. `fence` is the condition by which this node has all of the documents.
pub(super) async fn drop_group(
    call: &DocumentCall,
    whole: WholeGroup,
    fence: ReadFence,
) -> Result<Option<GroupDrop>, Error> {
    let WholeGroup { group, part, .. } = &whole;
    let cluster = call.node.cluster().cloned();
    let horizon = cluster.as_ref().map(|cluster| cluster.drop_horizon(group, *part));
    let horizon = horizon.transpose()?;
    let until = horizon.map_or(Timestamp(u64::MAX), |horizon| horizon.until);
    let own = WantedGroups::These(std::slice::from_ref(group));
    let (store, counting) = (call.node.store(&call.permit, own).clone(), whole.clone());
    let counted = call
        .node
        .pool()
        .run_in(WorkFlow::of_group(&whole.group), move || {
            let WholeGroup { namespace, document_type, group, part } = counting;
            let scope = match part {
                Some(part) => ViewScope::GroupsIn(vec![group], vec![part]),
                None => ViewScope::Groups(vec![group]),
            };
            let view = store.view(&document_type, &scope)?;
            count(&*view, format!("id:{namespace}:{document_type}:").as_bytes(), until)
        })
        .await??;
    // By a later state, a node that was away may have documents that were not counted.
    fence.check(&call.node)?;
    let Some(counted) = counted.filter(|counted| counted.documents > 0) else { return Ok(None) };
    let WholeGroup { document_type, group, part, .. } = whole;
    match (cluster, horizon) {
        (Some(cluster), Some(horizon)) => {
            let horizon = millrace_cluster::distributor::DropHorizon { until: counted.newest, ..horizon };
            drop_everywhere(call, &cluster, GroupDropRequest { document_type, group, part, horizon }).await?;
        }
        _ => {
            let own = WantedGroups::These(std::slice::from_ref(&group));
            let store = call.node.store(&call.permit, own).clone();
            let flow = WorkFlow::of_group(&group);
            let dropping = move || store.drop_group_until(&document_type, &group, counted.newest);
            call.node.pool().run_in(flow, dropping).await??;
        }
    }
    Ok(Some(GroupDrop { documents: counted.documents, leaves_some: counted.later > 0 }))
}

/// Drops the group's documents at all replicas.
async fn drop_everywhere(
    call: &DocumentCall,
    cluster: &Arc<dyn ClusterView>,
    dropped: GroupDropRequest,
) -> Result<(), Error> {
    let (sender, receiver) = oneshot::channel();
    let done = move |result| {
        // The caller may have left; the group is dropped all the same.
        let _ = sender.send(result);
    };
    cluster.drop_group(dropped, call.deadline(), Box::new(done));
    receiver.await.map_err(|_| Error::Internal("the cluster dropped a write; see the log".to_owned()))??;
    Ok(())
}

/// Counts the documents in a view. Their ids must begin with `prefix`; `None` if there are others that are
/// not after `until`.
fn count(view: &dyn View, prefix: &[u8], until: Timestamp) -> Result<Option<GroupCount>, Error> {
    let chunks = view.chunks();
    let unreadable = |error: millrace_column::ReadError| Error::Internal(error.to_string());
    let ids = view.columns(&ColumnKey::id(), 0..chunks.len()).map_err(unreadable)?;
    let timestamps = view.columns(&ColumnKey::timestamp(), 0..chunks.len()).map_err(unreadable)?;
    let mut all = GroupCount::default();
    for (chunk, columns) in chunks.iter().zip(ids.into_iter().zip(timestamps)) {
        let (Some(Column::Bytes(ids)), Some(Column::Fixed(timestamps))) = columns else { return Ok(None) };
        match count_chunk(chunk, (&ids, &timestamps), prefix, until) {
            None => return Ok(None),
            Some(GroupCount { documents, newest, later }) => {
                all.documents += documents;
                all.newest = all.newest.max(newest);
                all.later += later;
            }
        }
    }
    Ok(Some(all))
}

fn count_chunk(
    chunk: &ViewChunk,
    (ids, timestamps): (&BytesColumn, &FixedColumn),
    prefix: &[u8],
    until: Timestamp,
) -> Option<GroupCount> {
    let live =
        |index: &usize| chunk.live.as_ref().is_none_or(|words| words[index / 64] >> (index % 64) & 1 == 1);
    let timestamps = timestamps.cells::<u64>();
    let mut count = GroupCount::default();
    for index in (0..chunk.documents).filter(live) {
        let timestamp = Timestamp(timestamps[index]);
        if timestamp > until {
            count.later += 1;
        } else if ids.get(index).is_some_and(|id| id.starts_with(prefix)) {
            count.documents += 1;
            count.newest = count.newest.max(timestamp);
        } else {
            return None;
        }
    }
    Some(count)
}
