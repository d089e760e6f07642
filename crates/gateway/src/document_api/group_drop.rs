//! Removal of a group's documents at a cost that does not depend on their number: exactly the counted
//! documents are dropped.
//!
//! Other clients write meanwhile: any write after the count has a later time than the drop. On one node,
//! the drop reaches up to the newest counted document, as everything up to that time is visible by then. In
//! a cluster, rows arrive at a replica in any order; there, only documents that are not after the horizon of
//! the group's owner are counted and dropped, and the rest is left to a sweep. Reindexing waits meanwhile: it
//! would give counted documents a later time.

use millrace_access::WantedGroups;
use millrace_bucket::BucketId;
use millrace_column::{BytesColumn, Column, ColumnKey, FixedColumn, View, ViewChunk};
use millrace_document::{DocumentGroup, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{ClusterView, GroupDropRequest, ReadFence};
use millrace_node::pool::WorkFlow;
use millrace_store::{Store, ViewScope};
use tokio::sync::oneshot;

use super::DocumentCall;
use super::visit::WholeGroup;

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

impl GroupCount {
    /// The result of dropping what was counted.
    fn dropped(self) -> GroupDrop {
        GroupDrop { documents: self.documents, leaves_some: self.later > 0 }
    }
}

/// Drops a group's documents, if all of the type have the namespace. Returns `None` if they do not, or if
/// there is nothing to drop. `fence` is the condition by which this node has all of the documents.
pub(super) async fn drop_group(
    call: &DocumentCall,
    whole: WholeGroup,
    fence: ReadFence,
) -> Result<Option<GroupDrop>, Error> {
    let own = WantedGroups::These(std::slice::from_ref(&whole.group));
    let store = call.node.store(&call.permit, own).clone();
    let flow = WorkFlow::of_group(&whole.group);
    let Some(cluster) = call.node.cluster().view()? else {
        fence.check(&call.node)?;
        let counted = call.node.pool().run_in(flow, move || drop_here(&store, &whole)).await??;
        return Ok(counted.map(GroupCount::dropped));
    };
    let horizon = cluster.drop_horizon(&whole.group, whole.part)?;
    let counting = whole.clone();
    let count = move || count_in(&store, &counting, horizon.until);
    let counted = call.node.pool().run_in(flow, count).await??;
    // By a later state, a node that was away may have documents that were not counted.
    fence.check(&call.node)?;
    let Some(counted) = counted.filter(|counted| counted.documents > 0) else { return Ok(None) };
    let WholeGroup { document_type, group, part, .. } = whole;
    let (document_type, horizon) = (Some(document_type), Some(horizon));
    drop_everywhere(call, cluster, GroupDropRequest { document_type, group, part, horizon }).await?;
    Ok(Some(counted.dropped()))
}

/// Drops all documents of a group that exist now, of all types and namespaces, or those in one bucket.
pub(super) async fn drop_all(
    call: &DocumentCall,
    group: DocumentGroup,
    part: Option<BucketId>,
) -> Result<(), Error> {
    let own = WantedGroups::These(std::slice::from_ref(&group));
    let store = call.node.store(&call.permit, own).clone();
    match call.node.cluster().view()? {
        None => Ok(call.node.pool().run(move || store.drop_group(None, &group)).await??),
        Some(cluster) => {
            let dropped = GroupDropRequest { document_type: None, group, part, horizon: None };
            drop_everywhere(call, cluster, dropped).await
        }
    }
}

/// Counts and drops a group's documents on a node without a cluster. Rewrites wait: they would take counted
/// documents out of reach of the drop.
fn drop_here(store: &Store, whole: &WholeGroup) -> Result<Option<GroupCount>, Error> {
    let pause = store.pause_rewrites();
    let counted = count_in(store, whole, Timestamp(u64::MAX))?;
    let Some(counted) = counted.filter(|counted| counted.documents > 0) else { return Ok(None) };
    store.drop_group_until(&pause, &whole.document_type, &whole.group, counted.newest)?;
    Ok(Some(counted))
}

/// Drops the group's documents at all replicas.
async fn drop_everywhere(
    call: &DocumentCall,
    cluster: &dyn ClusterView,
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

/// Counts a group's documents in a store, see [`count`].
fn count_in(store: &Store, whole: &WholeGroup, until: Timestamp) -> Result<Option<GroupCount>, Error> {
    let WholeGroup { namespace, document_type, group, part } = whole;
    let scope = match part {
        Some(part) => ViewScope::GroupsIn(vec![group.clone()], vec![*part]),
        None => ViewScope::Groups(vec![group.clone()]),
    };
    let view = store.view(document_type, &scope)?;
    count(&*view, format!("id:{namespace}:{document_type}:").as_bytes(), until)
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
        match count_chunk(chunk, &ids, &timestamps, prefix, until) {
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
    ids: &BytesColumn,
    timestamps: &FixedColumn,
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
