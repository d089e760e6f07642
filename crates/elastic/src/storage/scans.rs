//! Scans: the documents of groups, page by page, from the beginning or from a place on.

use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_access::{Permit, WantedGroups};
use millrace_document::{Document, DocumentGroup, DocumentId, Timestamp};
use millrace_node::cluster::{ClusterScan, DocumentsAnswer, DocumentsQuestion};
use millrace_node::{Node, pool, search};
use millrace_store::{StoreVisit, ViewScope, VisitedVersion};

use super::{ELASTIC_TYPE, StorageGroup, StoredSource, check_all_there, misunderstood, next_page, read};
use crate::Error;

/// Documents that are read in one step of a scan at most, and as many as are read first: their size is not
/// known.
const PAGE: usize = 1024;
const FIRST_PAGE: usize = 32;

/// Bytes of documents that are read in one step of a scan, about.
const PAGE_BYTES: usize = 1 << 20;

/// Fields of the documents of indexes beside their texts.
const BESIDE_TEXTS: [&str; 3] = ["version", "seq_no", "routing"];

/// Calls `visit` with each document of a group, until it breaks off or returns an error.
///
/// # Errors
/// Those of [`super::get`], and those of `visit`.
pub(crate) fn scan(
    node: &Arc<Node>,
    group: StorageGroup,
    mut visit: impl FnMut(StoredSource) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let each = |document: Document, _| visit(StoredSource::of(&document));
    let permit = &Permit::of_server();
    let reader = ScanReader { slot: WaitingSlot::Kept, node, permit, fields: None };
    scan_by(reader, ELASTIC_TYPE, vec![group.group()], None, each)
}

/// [`scan`] for a search, of the documents after a place ([`place_of`]). `visit` gets the id in the store,
/// too. Without `texts`, it may get documents without members. No locks may be held.
///
/// # Errors
/// Those of [`super::get`], and those of `visit`.
pub(crate) fn scan_after(
    node: &Arc<Node>,
    group: StorageGroup,
    after: Option<&str>,
    texts: bool,
    mut visit: impl FnMut(StoredSource, &DocumentId) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let permit = &Permit::of_server();
    let fields = if texts { None } else { Some(&BESIDE_TEXTS[..]) };
    let reader = ScanReader { slot: WaitingSlot::Lent, node, permit, fields };
    scan_by(reader, ELASTIC_TYPE, vec![group.group()], after, |document, _| {
        visit(StoredSource::of(&document), &document.id)
    })
}

/// Place of a document in the scans of its type. It stays valid while documents are written, files are merged
/// and buckets move.
pub(crate) fn place_of(id: &DocumentId) -> Option<String> {
    StoreVisit::all(&[id.document_type()]).continuation_after(id)
}

/// Calls `visit` for a search with each document of a type in groups that is after a place, and the time of
/// its write, until it breaks off or returns an error. The documents come in the order of their places. No
/// locks may be held: while other nodes are asked, other work of this one goes on.
///
/// # Errors
/// Those of [`super::get`], and those of `visit`.
///
/// # Panics
/// The permit does not cover the groups.
pub(crate) fn scan_documents(
    node: &Arc<Node>,
    permit: &Permit,
    document_type: &str,
    groups: Vec<DocumentGroup>,
    after: Option<&str>,
    visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let reader = ScanReader { slot: WaitingSlot::Lent, node, permit, fields: None };
    scan_by(reader, document_type, groups, after, visit)
}

/// Use of the slot of a thread of the pool while it waits for other nodes.
#[derive(Debug, Clone, Copy)]
enum WaitingSlot {
    Kept,
    Lent,
}

/// Reader of documents for a scan.
#[derive(Clone, Copy)]
struct ScanReader<'r> {
    slot: WaitingSlot,
    node: &'r Arc<Node>,
    permit: &'r Permit,
    /// Fields that the scan needs; others may be missing. `None`: all.
    fields: Option<&'r [&'r str]>,
}

fn scan_by(
    reader: ScanReader<'_>,
    document_type: &str,
    mut groups: Vec<DocumentGroup>,
    after: Option<&str>,
    mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let ScanReader { slot, node, permit, fields } = reader;
    // Checked here, since other nodes take the question for permitted.
    node.permitted_store(permit, WantedGroups::These(&groups));
    let Some(cluster) = node.cluster().view()? else {
        let fields = fields.map(|fields| fields.iter().map(|field| (*field).to_owned()).collect());
        let pass =
            StoreVisit { scope: ViewScope::Groups(groups), fields, ..StoreVisit::all(&[document_type]) };
        return scan_here(node, permit, pass, after, visit);
    };
    // A place is one among all groups and buckets: those before it have nothing after it.
    groups.sort_by_key(|group| (group.location_bits().map(u32::reverse_bits), group.key()));
    for group in &groups {
        let mut buckets = cluster.buckets_of(group)?;
        buckets.sort_by_key(|bucket| bucket.parts().1.reverse_bits());
        for bucket in buckets {
            let mut after = after.map(str::to_owned);
            loop {
                let question = |held| DocumentsQuestion::Page {
                    held,
                    document_type: document_type.to_owned(),
                    group: group.clone(),
                    after: after.clone(),
                };
                let answer = match slot {
                    WaitingSlot::Kept => read(node, group, bucket, question)?,
                    WaitingSlot::Lent => pool::wait_without_slot(|| read(node, group, bucket, question))?,
                };
                let (versions, next) = match answer {
                    None => break,
                    Some(DocumentsAnswer::Page(versions, next)) => (versions, next),
                    Some(other) => return Err(misunderstood(&other)),
                };
                for version in versions {
                    let (document, timestamp) = version.document()?;
                    if visit(document, timestamp)?.is_break() {
                        return Ok(());
                    }
                }
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// [`scan_documents`] of all groups, and of the documents without a group. In a cluster the documents come
/// from the nodes that have them; all nodes speak [`BUCKET_PAGES`](millrace_cluster::BUCKET_PAGES). No locks
/// may be held.
///
/// # Errors
/// Those of [`super::get`], and those of `visit`.
///
/// # Panics
/// The permit does not cover all groups.
pub(crate) fn scan_all(
    node: &Arc<Node>,
    permit: &Permit,
    document_type: &str,
    after: Option<&str>,
    mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    if node.cluster().is_alone() {
        return scan_here(node, permit, StoreVisit::all(&[document_type]), after, visit);
    }
    // Checked here, since other nodes take the question for permitted.
    node.permitted_store(permit, WantedGroups::All);
    check_all_there(node)?;
    let mut scan = ClusterScan::after(document_type, after);
    loop {
        let versions = pool::wait_without_slot(|| next_page(node, &mut scan))?;
        if versions.is_empty() {
            return Ok(());
        }
        for version in versions {
            let (document, timestamp) = version.document()?;
            if visit(document, timestamp)?.is_break() {
                return Ok(());
            }
        }
    }
}

/// [`scan_documents`] of this node's own store, by its types, scope and fields.
fn scan_here(
    node: &Node,
    permit: &Permit,
    mut pass: StoreVisit,
    after: Option<&str>,
    mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let store = node.permitted_store(permit, search::wanted_groups(&pass.scope));
    pass.continuation = after.map(str::to_owned);
    pass.wanted = FIRST_PAGE;
    loop {
        let page = store.visit(&pass)?;
        let (mut documents, mut bytes) = (0, 0);
        for visited in page.visited {
            if let VisitedVersion::Document(document, timestamp) = visited {
                documents += 1;
                bytes += document.fields.iter().map(|(_, value)| value.memory_bytes()).sum::<usize>();
                if visit(document, timestamp)?.is_break() {
                    return Ok(());
                }
            }
        }
        let Some(continuation) = page.continuation else { return Ok(()) };
        let each = bytes / documents.max(1);
        pass.wanted = (PAGE_BYTES / each.max(1)).clamp(1, PAGE);
        pass.continuation = Some(continuation);
    }
}
