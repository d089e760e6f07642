//! Reading of documents for copies: pages of keys in the order of sort keys.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::{BucketId, DocumentSortKey, reversed_location};
use millrace_cluster::ClusterState;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_index::SliceRange;
use millrace_index_feed::{FeedRead, FeedReadScope, FeedRow, PageContent};
use millrace_keys::KeyWriter;
use millrace_store::{Error as StoreError, Store, StoreVisit, ViewScope, VisitedRow, VisitedVersion};

use super::super::IndexDefinition;
use super::super::service::document_id;
use super::message::VersionKeys;
use super::source::QueuedContent;
use crate::Error;

/// Maximum number of documents of a page.
const PAGE: usize = 1024;

/// Bytes of keys after which a page ends.
const PAGE_BYTES: usize = 256 << 10;

/// Reads what is asked for in the store, once for all definitions, which are of one document type.
///
/// # Errors
/// A file cannot be read or is damaged.
pub(super) fn content(
    store: &Store,
    state: &ClusterState,
    definitions: &[Arc<IndexDefinition>],
    read: &FeedRead,
) -> Result<PageContent<QueuedContent>, Error> {
    let is_in = |sort_key: &[u8]| state.bucket(reversed_location(sort_key).location()) == read.bucket;
    match &read.scope {
        FeedReadScope::Documents(documents) => {
            let found = looked_up(store, &read.document_type, documents)?;
            let row = |version: &VisitedVersion| {
                let document = DocumentSortKey::new(version.id()).as_bytes().to_vec();
                let (VisitedVersion::Document(_, timestamp) | VisitedVersion::Removed(_, timestamp)) =
                    version;
                fed_row(read, document, *timestamp, keys_of(version, definitions))
            };
            let rows = found.iter().map(row).filter(|row| is_in(&row.document));
            Ok(PageContent { rows: rows.collect(), until: None })
        }
        FeedReadScope::Since { from, after } => {
            let fields: BTreeSet<String> =
                definitions.iter().flat_map(|definition| definition.fields()).collect();
            let page = PageReading {
                store,
                requested: read,
                definitions,
                fields: fields.into_iter().collect(),
                from: *from,
                after: after.as_deref(),
            };
            // A visit has documents without a group first; sort keys mix them with the others.
            let (mut rows, end) = page.ungrouped(read.bucket)?;
            let (grouped, other_end) = page.grouped(read.bucket)?;
            rows.extend(grouped);
            let mut until = end.into_iter().chain(other_end).min();
            rows.retain(|row| until.as_ref().is_none_or(|until| row.document <= *until));
            rows.sort_by(|one, other| one.document.cmp(&other.document));
            let mut bytes = 0;
            let end = rows.iter().position(|row| {
                bytes += row.bytes as usize;
                bytes > PAGE_BYTES
            });
            if let Some(end) = end.filter(|end| end + 1 < rows.len()) {
                rows.truncate(end + 1);
                until = rows.last().map(|last| last.document.clone());
            }
            // The store divides buckets some time after the state does.
            rows.retain(|row| is_in(&row.document));
            Ok(PageContent { rows, until })
        }
    }
}

/// Rows as the feed has them.
type QueuedRows = Vec<FeedRow<QueuedContent>>;

/// Reading of the versions of a bucket after a sort key.
struct PageReading<'a> {
    store: &'a Store,
    requested: &'a FeedRead,
    /// Definitions of the indexes whose keys the rows have.
    definitions: &'a [Arc<IndexDefinition>],
    /// Fields that some definition needs.
    fields: Vec<String>,
    from: Timestamp,
    after: Option<&'a [u8]>,
}

/// Rows of documents, and the sort key up to which they are all; `None` if there are no more.
type VisitedPage = (QueuedRows, Option<Vec<u8>>);

impl PageReading<'_> {
    /// Rows of the documents of a bucket that have no group.
    fn ungrouped(&self, bucket: BucketId) -> Result<VisitedPage, Error> {
        let continuation = self.after.map(|after| StoreVisit::continuation_at(false, after));
        self.read(ViewScope::GroupsIn(vec![DocumentGroup::None], vec![bucket]), continuation)
    }

    /// Rows of the documents of a bucket that have a group.
    fn grouped(&self, bucket: BucketId) -> Result<VisitedPage, Error> {
        let continuation = StoreVisit::continuation_at(true, self.after.unwrap_or_default());
        self.read(ViewScope::Buckets(vec![bucket]), Some(continuation))
    }

    fn read(&self, scope: ViewScope, continuation: Option<String>) -> Result<VisitedPage, Error> {
        let visit = StoreVisit {
            scope,
            from: self.from,
            tombstones: true,
            continuation,
            wanted: PAGE,
            fields: Some(self.fields.clone()),
            ..StoreVisit::all(&[&self.requested.document_type])
        };
        let (mut rows, mut writer, mut bytes) = (Vec::new(), KeyWriter::default(), 0);
        let end = self.store.visit_rows(&visit, &mut |row| {
            let keys = keys_in_place(row, self.definitions, &mut writer)?;
            let mut document = Vec::new();
            row.write_sort_key(&mut document);
            let fed = fed_row(self.requested, document, row.timestamp(), keys);
            bytes += fed.bytes as usize;
            rows.push(fed);
            Ok(if bytes > PAGE_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let end = end.continuation.map(|end| StoreVisit::position_of(&end)).transpose()?;
        Ok((rows, end.map(|(_, sort_key)| sort_key)))
    }
}

/// The newest versions of documents.
fn looked_up(
    store: &Store,
    document_type: &str,
    documents: &BTreeSet<Vec<u8>>,
) -> Result<Vec<VisitedVersion>, Error> {
    let mut found = Vec::new();
    for sort_key in documents {
        let Some(id) = document_id(sort_key) else { continue };
        if id.document_type() != document_type {
            continue;
        }
        let Some(version) = store.version(&id)? else { continue };
        let (id, timestamp) = (version.id.clone(), version.timestamp);
        let document = version.document().map_err(|error| Error::Internal(error.to_string()))?;
        found.push(match document {
            Some(document) => VisitedVersion::Document(document, timestamp),
            None => VisitedVersion::Removed(id, timestamp),
        });
    }
    Ok(found)
}

/// Keys of a version, where it lies, by some definitions.
pub(super) fn keys_in_place(
    version: &VisitedRow<'_>,
    definitions: &[Arc<IndexDefinition>],
    writer: &mut KeyWriter,
) -> Result<VersionKeys, StoreError> {
    let mut keys = Vec::with_capacity(definitions.len());
    for definition in definitions {
        keys.push((definition.hash, definition.row_keys(version, writer)?.to_vec()));
    }
    Ok(VersionKeys(keys))
}

/// Keys of a version by some definitions.
fn keys_of(version: &VisitedVersion, definitions: &[Arc<IndexDefinition>]) -> VersionKeys {
    let keys = definitions.iter().map(|definition| (definition.hash, definition.change(version).keys));
    VersionKeys(keys.collect())
}

/// Row of a version with these keys.
fn fed_row(
    requested: &FeedRead,
    document: Vec<u8>,
    timestamp: Timestamp,
    keys: VersionKeys,
) -> FeedRow<QueuedContent> {
    let of_definition = |keys: &[Vec<u8>]| 16 + keys.iter().map(|key| key.len() + 8).sum::<usize>();
    let bytes = document.len() + keys.0.iter().map(|(_, keys)| of_definition(keys)).sum::<usize>();
    FeedRow {
        bucket: requested.bucket,
        document_type: requested.document_type.clone(),
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        document,
        timestamp,
        body: QueuedContent::Keys(Arc::new(keys)),
    }
}

/// Range of the sort keys of a slice, as a copy has it.
pub(super) fn slice_range(slice: BucketId) -> SliceRange {
    if slice == BucketId::ROOT {
        return SliceRange::default();
    }
    let range = slice.reversed_range();
    let high = range.last.high().checked_add(1).map(|above| above.to_be_bytes().to_vec());
    SliceRange { low: range.first.high().to_be_bytes().to_vec(), high }
}

/// Slice number `slice` of `slices`, a power of two.
pub(super) fn slice_bucket(slice: u8, slices: usize) -> BucketId {
    BucketId::new(slices.trailing_zeros() as u8, u64::from(slice))
}

#[cfg(test)]
mod tests {
    use millrace_document::DocumentId;

    use super::*;

    #[test]
    fn each_document_is_in_the_range_of_its_slice_alone() {
        for slices in [1, 2, 8, 64] {
            for number in 0..200 {
                let id = DocumentId::parse(&format!("id:a:b:n={number}:c")).expect("an id");
                let key = DocumentSortKey::new(&id);
                let of: Vec<u8> = (0..slices)
                    .filter(|slice| {
                        slice_range(slice_bucket(*slice, usize::from(slices))).contains(key.as_bytes())
                    })
                    .collect();
                assert_eq!(of, [(number % u64::from(slices)) as u8], "{id} of {slices}");
            }
        }
    }
}
