//! Sweep of a page of documents, with changes where necessary: in this node's store, or, in a cluster, on all
//! replicas of the buckets that this node owns.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use millrace_access::Permit;
use millrace_document::{Document, Timestamp, WriteRefusal};
use millrace_store::{DocumentWrite, StoreChange, StoreModification, StoreVisit, SweptPage, VisitedVersion};

use crate::cluster::{BatchedWrite, ClusterView, NodeAddress};
use crate::{Error, Node};

/// Timeout of the replicas of a page's documents.
const REPLICAS_TIMEOUT: Duration = Duration::from_secs(10);

/// Processes the next page. In a cluster, the owner of each document changes it: its changes are writes like
/// others, with its own timestamps. Documents that another node owns are skipped here, wherever else they
/// are; if a bucket gets another owner, that one continues. No document is rewritten under a later time than
/// `until`.
pub(super) fn sweep(
    node: &Node,
    visit: &StoreVisit,
    until: Timestamp,
    decide: &dyn Fn(Document) -> Result<StoreModification, WriteRefusal>,
) -> Result<SweptPage, Error> {
    match node.cluster().view()? {
        None => Ok(node.store().sweep(visit, decide)?),
        Some(cluster) => sweep_owned(node, cluster, visit, until, decide),
    }
}

fn sweep_owned(
    node: &Node,
    cluster: &dyn ClusterView,
    visit: &StoreVisit,
    until: Timestamp,
    decide: &dyn Fn(Document) -> Result<StoreModification, WriteRefusal>,
) -> Result<SweptPage, Error> {
    let page = node.store().visit(visit)?;
    let deadline = Instant::now() + REPLICAS_TIMEOUT;
    let (sender, answers) = mpsc::channel();
    let permit = Permit::of_server();
    let mut seen = 0;
    for visited in page.visited {
        let VisitedVersion::Document(document, timestamp) = visited else { continue };
        seen += 1;
        if !matches!(cluster.owner(document.id.location()), Ok(NodeAddress::Local)) {
            continue;
        }
        let id = document.id.clone();
        let decided = decide(document).map_err(millrace_store::Error::Refused)?;
        let Some(change) = StoreChange::of_found(timestamp, until, decided) else { continue };
        let sender = sender.clone();
        let done = Box::new(move |outcome| {
            // The receiver waits for all answers, unless it has failed by then.
            let _ = sender.send(outcome);
        });
        let write = BatchedWrite::new(&permit, DocumentWrite { id, change }, done);
        cluster.write(vec![write], deadline);
    }
    drop(sender);
    let mut changed = 0;
    for outcome in answers {
        changed += u64::from(outcome?.changed);
    }
    Ok(SweptPage { seen, changed, continuation: page.continuation, progress: page.progress })
}
