//! Documents of a type page by page: those of one node, and those of all nodes of a cluster in one order.
//!
//! All stores have the same order of documents, which does not depend on buckets. So a scan of a cluster
//! merges the pages of its nodes, each of which answers for some buckets. After any document it can go on by
//! another cluster state, by which other nodes may have what is left.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use millrace_bucket::{BucketId, DocumentSortKey};
use millrace_cluster::{ClusterState, ClusterVersion, NodeKey};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_store::{StoreVisit, ViewScope, VisitedVersion};
use tokio::task::JoinSet;

use super::documents::{ask_reader, check_read};
use super::{
    ClusterView, DocumentsAnswer, DocumentsQuestion, RouteBackoff, SentVersion, SilentOwners, readers_of_all,
};
use crate::{Error, Node};

/// Bytes of documents after which a page ends, and those of all nodes together. With many nodes, the pages of
/// each are as large as the minimum.
pub(super) const PAGE_BYTES: usize = 4 << 20;
const NODE_BYTES_MIN: usize = 256 << 10;

/// Most documents that are read at a time for a page, and as many as are read first: their size is not known.
const PAGE_STEP: usize = 256;
const FIRST_STEP: usize = 4;

/// Documents of a type in this node's store, and the end of the page, after about so many bytes of them.
///
/// # Errors
/// The store cannot be read; the place after which the page begins is none.
pub(super) fn page(
    node: &Node,
    document_type: &str,
    scope: ViewScope,
    after: Option<String>,
    bytes_max: usize,
) -> Result<DocumentsAnswer, Error> {
    let mut pass =
        StoreVisit { scope, wanted: FIRST_STEP, continuation: after, ..StoreVisit::all(&[document_type]) };
    let (mut documents, mut bytes) = (Vec::new(), 0);
    loop {
        let step = node.store().visit(&pass)?;
        for visited in step.visited {
            let VisitedVersion::Document(document, timestamp) = visited else { continue };
            let sent = SentVersion::new(&document, timestamp);
            bytes += sent.memory_bytes();
            documents.push(sent);
            // Those after it may be much larger than the ones before.
            if bytes >= bytes_max
                && let Some(place) = pass.continuation_after(&document.id)
            {
                return Ok(DocumentsAnswer::Page(documents, Some(place)));
            }
        }
        let Some(next) = step.continuation else { return Ok(DocumentsAnswer::Page(documents, None)) };
        let each = bytes / documents.len().max(1);
        pass.wanted = (bytes_max.saturating_sub(bytes) / each.max(1)).clamp(1, PAGE_STEP);
        pass.continuation = Some(next);
    }
}

/// Returns the reason for which documents may be on nodes that do not serve, and on no other: as many are
/// away as there are replicas.
pub fn documents_away(state: &ClusterState) -> Option<String> {
    let away = state.away().filter(|node| node.incarnation.has_run());
    let names: Vec<&str> = away.map(|node| node.name.as_str()).collect();
    if names.len() < usize::from(state.distribution().redundancy) {
        return None;
    }
    let names = names.join(", ");
    Some(format!(
        "documents may be on nodes that do not serve: {names}; start them, or remove them from the cluster"
    ))
}

/// A pass over the documents of a type in a cluster, of all groups and without a group: each once, in the
/// order of a store.
pub struct ClusterScan {
    document_type: String,
    /// Place after which it goes on.
    after: Option<String>,
    /// Nodes that it reads; `None`: they are to be found.
    readers: Option<ScanReaders>,
}

/// The nodes that a scan reads, by one cluster state.
struct ScanReaders {
    version: ClusterVersion,
    nodes: Vec<NodePages>,
}

/// Pages of one node.
struct NodePages {
    node: NodeKey,
    /// Buckets that it answers for.
    buckets: Vec<BucketId>,
    /// Documents of its last page that are still to come.
    documents: VecDeque<(ScanPosition, SentVersion)>,
    /// Place after which its next page begins.
    after: Option<String>,
    /// False once it has sent its last page.
    has_more: bool,
}

/// Position of a document among those of its type: those without a group come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ScanPosition {
    is_grouped: bool,
    key: DocumentSortKey,
}

impl ScanPosition {
    fn new(id: &DocumentId) -> Self {
        ScanPosition { is_grouped: *id.group() != DocumentGroup::None, key: DocumentSortKey::new(id) }
    }
}

impl NodePages {
    /// True if its next document is not known.
    fn is_awaited(&self) -> bool {
        self.has_more && self.documents.is_empty()
    }

    fn first(&self) -> Option<&ScanPosition> {
        self.documents.front().map(|(place, _)| place)
    }

    /// Takes its next page.
    fn add(&mut self, documents: Vec<SentVersion>, next: Option<String>) {
        self.documents
            .extend(documents.into_iter().map(|document| (ScanPosition::new(document.id()), document)));
        self.has_more = next.is_some();
        self.after = next;
    }
}

impl ClusterScan {
    /// A scan of the documents of a type after a place in a store; `None`: of all.
    pub fn after(document_type: &str, place: Option<&str>) -> Self {
        ClusterScan {
            document_type: document_type.to_owned(),
            after: place.map(str::to_owned),
            readers: None,
        }
    }

    /// Returns the next documents; none after the last. While owners change, the nodes that have what is left
    /// are looked for until the deadline. Each node of the cluster speaks
    /// [`BUCKET_PAGES`](millrace_cluster::BUCKET_PAGES).
    ///
    /// # Errors
    /// Until the deadline, some documents are on no node that answers; this node is not one of a cluster.
    pub async fn next(&mut self, node: &Arc<Node>, deadline: Instant) -> Result<Vec<SentVersion>, Error> {
        let mut backoff = RouteBackoff::until(deadline);
        loop {
            let error = match self.read(node, deadline).await {
                Ok(()) => return Ok(self.take()),
                Err(error @ (Error::Unsettled(_) | Error::Unreachable { .. })) => error,
                Err(error) => return Err(error),
            };
            if !backoff.pause().await {
                return Err(error);
            }
        }
    }

    /// Reads until the next document of each node is known. After an error the nodes are to be found again.
    async fn read(&mut self, node: &Arc<Node>, deadline: Instant) -> Result<(), Error> {
        let Some(cluster) = node.cluster().view()? else {
            return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
        };
        let mut readers = match self.readers.take() {
            Some(readers) => readers,
            None => ScanReaders::find(node, cluster, self.after.as_deref(), deadline).await?,
        };
        while readers.nodes.iter().any(NodePages::is_awaited) {
            readers.read(node, cluster, &self.document_type, deadline).await?;
        }
        self.readers = Some(readers);
        Ok(())
    }

    /// Takes the documents that come before those which are not read yet.
    fn take(&mut self) -> Vec<SentVersion> {
        let mut taken: Vec<SentVersion> = Vec::new();
        let Some(readers) = &mut self.readers else { return taken };
        while !readers.nodes.iter().any(NodePages::is_awaited) {
            let with_any = readers.nodes.iter_mut().filter(|node| !node.documents.is_empty());
            let next = with_any.min_by(|one, other| one.first().cmp(&other.first()));
            let Some((_, document)) = next.and_then(|node| node.documents.pop_front()) else { break };
            taken.push(document);
        }
        if let Some(last) = taken.last() {
            self.after = StoreVisit::all(&[self.document_type.as_str()]).continuation_after(last.id());
        }
        taken
    }
}

impl ScanReaders {
    /// Finds the nodes that have all documents, by the cluster state of the moment.
    async fn find(
        node: &Arc<Node>,
        cluster: &dyn ClusterView,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let found = readers_of_all(node, cluster, None, deadline, SilentOwners::Fail).await?;
        if !found.is_full() {
            return Err(Error::Unsettled("the replicas of the documents are being compared".to_owned()));
        }
        // Buckets of which no node that serves has anything are not among those found.
        let state = cluster.state()?;
        if let Some(reason) = documents_away(&state) {
            return Err(Error::Unsettled(reason));
        }
        let me = cluster.own().key;
        let mut buckets: BTreeMap<NodeKey, Vec<BucketId>> = BTreeMap::new();
        for readers in &found.readers {
            // This node first: it needs no transmission.
            let reader = readers.nodes.iter().find(|node| **node == me).or(readers.nodes.first());
            if let Some(reader) = reader {
                buckets.entry(*reader).or_default().push(readers.bucket);
            }
        }
        let of_node = |(node, buckets)| NodePages {
            node,
            buckets,
            documents: VecDeque::new(),
            after: after.map(str::to_owned),
            has_more: true,
        };
        check_read(cluster, found.version)?;
        Ok(ScanReaders { version: found.version, nodes: buckets.into_iter().map(of_node).collect() })
    }

    /// Reads a page of each node whose next document is not known.
    async fn read(
        &mut self,
        node: &Arc<Node>,
        cluster: &dyn ClusterView,
        document_type: &str,
        deadline: Instant,
    ) -> Result<(), Error> {
        let bytes = (PAGE_BYTES / self.nodes.len().max(1)).max(NODE_BYTES_MIN);
        let mut requested = JoinSet::new();
        for (number, pages) in self.nodes.iter().enumerate().filter(|(_, pages)| pages.is_awaited()) {
            let question = DocumentsQuestion::BucketPage {
                version: self.version,
                buckets: pages.buckets.clone(),
                document_type: document_type.to_owned(),
                after: pages.after.clone(),
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            };
            let (node, reader) = (Arc::clone(node), cluster.address(pages.node)?);
            requested.spawn(async move { (number, ask_reader(&node, reader, question, deadline).await) });
        }
        while let Some(answer) = requested.join_next().await {
            let (number, answer) = answer.map_err(|error| Error::Internal(error.to_string()))?;
            let DocumentsAnswer::Page(documents, next) = answer? else {
                let reason = "a node was asked for a page of documents, and answers something else";
                return Err(Error::Internal(reason.to_owned()));
            };
            self.nodes[number].add(documents, next);
        }
        check_read(cluster, self.version)
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::{Document, Timestamp};

    use super::*;

    fn sent(id: &DocumentId) -> SentVersion {
        SentVersion::new(&Document { id: id.clone(), fields: Vec::new() }, Timestamp(1))
    }

    fn pages(node: u16) -> NodePages {
        NodePages {
            node: NodeKey(node),
            buckets: Vec::new(),
            documents: VecDeque::new(),
            after: None,
            has_more: true,
        }
    }

    #[test]
    fn pages_of_nodes_are_merged_as_far_as_all_are_known() {
        let names = ["g=b:1", "n=7:1", ":2", "g=a:2", "g=a:1", ":1", "n=8:1", "g=c:1"];
        let mut ids = names.map(|name| DocumentId::parse(&format!("id:note:note:{name}")).expect("an id"));
        ids.sort_by_key(ScanPosition::new);
        assert!(
            ids.iter().map(|id| *id.group() == DocumentGroup::None).is_sorted_by(|one, other| one >= other)
        );
        let nodes = vec![pages(1), pages(2), pages(3)];
        let readers = Some(ScanReaders { version: ClusterVersion::new(1), nodes });
        let mut scan = ClusterScan { readers, ..ClusterScan::after("note", None) };
        let place = |id: &DocumentId| StoreVisit::all(&["note"]).continuation_after(id);
        let add = |scan: &mut ClusterScan, node: usize, documents: &[usize], has_more: bool| {
            let documents: Vec<SentVersion> = documents.iter().map(|at| sent(&ids[*at])).collect();
            let next = has_more.then(|| "g0.".to_owned());
            scan.readers.as_mut().expect("there are nodes").nodes[node].add(documents, next);
        };
        let taken = |scan: &mut ClusterScan| -> Vec<usize> {
            let taken = scan.take();
            let at = |sent: &SentVersion| ids.iter().position(|id| id == sent.id()).expect("it was added");
            taken.iter().map(at).collect()
        };
        add(&mut scan, 0, &[0, 3], true);
        add(&mut scan, 1, &[1, 2, 5], false);
        assert_eq!(taken(&mut scan), [0; 0], "the third node may have the first one");
        add(&mut scan, 2, &[4], true);
        assert_eq!(taken(&mut scan), [0, 1, 2, 3]);
        assert_eq!(scan.after, place(&ids[3]), "it goes on there by another cluster state");
        assert_eq!(taken(&mut scan), [0; 0], "the first node may have what comes before the others");
        assert_eq!(scan.after, place(&ids[3]));
        add(&mut scan, 0, &[7], false);
        assert_eq!(taken(&mut scan), [4]);
        add(&mut scan, 2, &[6], false);
        assert_eq!(taken(&mut scan), [5, 6, 7]);
        assert_eq!(taken(&mut scan), [0; 0]);
        assert_eq!(scan.after, place(&ids[7]));
    }
}
