//! Scans: the documents of groups, page by page, from the beginning or from a place on.

use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_access::{Permit, WantedGroups};
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Timestamp, ValueRef};
use millrace_node::cluster::{ClusterScan, DocumentsAnswer, DocumentsQuestion};
use millrace_node::{Node, pool, search};
use millrace_store::{Store, StoreVisit, ViewScope, VisitedRow, VisitedValue, VisitedVersion};

use super::{
    ELASTIC_TYPE, StorageGroup, StoredSource, check_all_there, misunderstood, name_of, next_page, read,
};
use crate::Error;
use crate::source_text::SourceText;

/// Fields of the documents of indexes beside their texts.
const BESIDE_TEXTS: [&str; 3] = ["version", "seq_no", "routing"];

/// Documents that are read in one step of a scan at most, and as many as are read first: their size is not
/// known.
const PAGE: usize = 1024;
const FIRST_PAGE: usize = 32;

/// Bytes of documents that are read in one step of a scan, about.
const PAGE_BYTES: usize = 1 << 20;

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
    let scan = DocumentScan { node, permit, document_type: ELASTIC_TYPE, after: None };
    scan.of_groups_in(WaitingSlot::Kept, vec![group.group()], each)
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
    let group = group.group();
    if node.cluster().view()?.is_none() {
        let store = node.permitted_store(permit, WantedGroups::These(std::slice::from_ref(&group)));
        return scan_rows(store, group, after, texts, visit);
    }
    let scan = DocumentScan { node, permit, document_type: ELASTIC_TYPE, after };
    scan.of_groups(vec![group], |document, _| visit(StoredSource::of(&document), &document.id))
}

/// [`scan_after`] of this node's own store: texts are copied once, from where they lie.
fn scan_rows(
    store: &Store,
    group: DocumentGroup,
    after: Option<&str>,
    texts: bool,
    mut visit: impl FnMut(StoredSource, &DocumentId) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let mut pass = StoreVisit {
        scope: ViewScope::Groups(vec![group]),
        continuation: after.map(str::to_owned),
        wanted: FIRST_PAGE,
        fields: (!texts).then(|| Vec::from(BESIDE_TEXTS.map(str::to_owned))),
        ..StoreVisit::all(&[ELASTIC_TYPE])
    };
    loop {
        let (mut documents, mut bytes) = (0, 0);
        let mut flow = Ok(ControlFlow::Continue(()));
        let end = store.visit_cached_rows(&pass, &mut |row| {
            if row.is_removed() {
                return Ok(ControlFlow::Continue(()));
            }
            let id = row.document_id()?;
            let stored = source_of(row, &id, texts)?;
            documents += 1;
            bytes += stored.source.len();
            flow = visit(stored, &id);
            Ok(flow.as_ref().map_or(ControlFlow::Break(()), |flow| *flow))
        })?;
        if flow?.is_break() {
            return Ok(());
        }
        let Some(continuation) = end.continuation else { return Ok(()) };
        pass.wanted = wanted_after(documents, bytes);
        pass.continuation = Some(continuation);
    }
}

/// The document in a row.
fn source_of(
    row: &VisitedRow<'_>,
    id: &DocumentId,
    texts: bool,
) -> Result<StoredSource, millrace_store::Error> {
    let number = |field| {
        Ok::<_, millrace_store::Error>(match row.value(field)? {
            Some(
                VisitedValue::InPlace(ValueRef::Long(number))
                | VisitedValue::Decoded(DocumentValue::Long(number)),
            ) => number,
            _ => 0,
        })
    };
    let source = if texts { text_of::<SourceText>(row, "source")? } else { None };
    Ok(StoredSource {
        id: name_of(id),
        source: source.unwrap_or_else(|| "{}".into()),
        version: number("version")?,
        seq_no: number("seq_no")?,
        routing: text_of(row, "routing")?,
    })
}

/// A text in a row, in a form of its own.
fn text_of<T: for<'t> From<&'t str>>(
    row: &VisitedRow<'_>,
    field: &str,
) -> Result<Option<T>, millrace_store::Error> {
    Ok(match row.value(field)? {
        Some(VisitedValue::InPlace(ValueRef::String(text))) => Some(T::from(text)),
        Some(VisitedValue::Decoded(DocumentValue::String(text))) => Some(T::from(text.as_str())),
        _ => None,
    })
}

/// Number of documents for the next step of a scan, after one of this many with these bytes.
fn wanted_after(documents: usize, bytes: usize) -> usize {
    let each = bytes / documents.max(1);
    (PAGE_BYTES / each.max(1)).clamp(1, PAGE)
}

/// Place of a document in the scans of its type. It stays valid while documents are written, files are merged
/// and buckets move.
pub(crate) fn place_of(id: &DocumentId) -> Option<String> {
    StoreVisit::all(&[id.document_type()]).continuation_after(id)
}

/// Use of the slot of a thread of the pool while it waits for other nodes.
#[derive(Debug, Clone, Copy)]
enum WaitingSlot {
    Kept,
    Lent,
}

/// Scan of the documents of a type, in the order of their places. Each of its functions calls `visit` with a
/// document and the time of its write, until that breaks off or returns an error.
#[derive(Clone, Copy)]
pub(crate) struct DocumentScan<'s> {
    pub(crate) node: &'s Arc<Node>,
    pub(crate) permit: &'s Permit,
    pub(crate) document_type: &'s str,
    /// The place after which it begins; `None` for all documents.
    pub(crate) after: Option<&'s str>,
}

impl DocumentScan<'_> {
    /// The documents of groups, for a search. No locks may be held: while other nodes are asked, other work
    /// of this one goes on.
    ///
    /// # Errors
    /// Those of [`super::get`], and those of `visit`.
    ///
    /// # Panics
    /// The permit does not cover the groups.
    pub(crate) fn of_groups(
        self,
        groups: Vec<DocumentGroup>,
        visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.of_groups_in(WaitingSlot::Lent, groups, visit)
    }

    fn of_groups_in(
        self,
        slot: WaitingSlot,
        mut groups: Vec<DocumentGroup>,
        mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let DocumentScan { node, permit, document_type, after } = self;
        // Checked here, since other nodes take the question for permitted.
        node.permitted_store(permit, WantedGroups::These(&groups));
        let Some(cluster) = node.cluster().view()? else {
            return self.here(ViewScope::Groups(groups), visit);
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

    /// The documents of all groups, and those without a group. In a cluster the documents come from the nodes
    /// that have them; all nodes speak [`BUCKET_PAGES`](millrace_cluster::BUCKET_PAGES). No locks may be
    /// held.
    ///
    /// # Errors
    /// Those of [`super::get`], and those of `visit`.
    ///
    /// # Panics
    /// The permit does not cover all groups.
    pub(crate) fn of_all(
        self,
        mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let DocumentScan { node, permit, document_type, after } = self;
        if node.cluster().is_alone() {
            return self.here(ViewScope::All, visit);
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

    /// The documents of this node's own store.
    fn here(
        self,
        scope: ViewScope,
        mut visit: impl FnMut(Document, Timestamp) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let DocumentScan { node, permit, document_type, after } = self;
        let store = node.permitted_store(permit, search::wanted_groups(&scope));
        let continuation = after.map(str::to_owned);
        let mut pass =
            StoreVisit { scope, continuation, wanted: FIRST_PAGE, ..StoreVisit::all(&[document_type]) };
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
            pass.wanted = wanted_after(documents, bytes);
            pass.continuation = Some(continuation);
        }
    }
}
