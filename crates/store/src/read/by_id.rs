//! Documents of one type, found by their ids: nothing is read of the chunks that cannot have one of them, and
//! in the others only the rows of these documents count.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use millrace_bucket::{BucketId, DocumentSortKey, LocationRange};
use millrace_column::{Column, ColumnKey, View};
use millrace_document::{DocumentId, ReversedLocation};
use millrace_env::filter::KeyHash;

use crate::Error;
use crate::context::StoreContext;
use crate::read::group_sources::{COMPARED_PER_LOOKUP, GroupSources, rows_of_document};
use crate::read::masks::{GroupOfBucket, SegmentChunks, has_all, keep_rows, lacks_keys};
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, StoreSnapshot, once_each};
use crate::read::view::StoreView;
use crate::state::StoredBucket;
use crate::tail::{RowKey, TailVersion};

/// Number of a group's chunks, for each that can have a sought document, above which the masks of all are not
/// made: they are kept for the next view, but cost a look at all ids.
const CHUNKS_PER_REACHED: usize = 4;

/// Number of documents of a group above which all of its rows in the tail are passed over, from the first
/// document to the last, in place of a look for each.
const SEEKS_MAX: usize = 8;

/// Documents of one group, or without a group, that one bucket can have.
struct LookupGroup {
    bucket: Arc<StoredBucket>,
    /// Keys of the documents.
    documents: Vec<DocumentSortKey>,
}

/// The documents with these ids, if they are of this type, as they are now. If buckets are given, only
/// documents in these are included.
pub(crate) fn view(
    shared: &StoreContext,
    document_type: &str,
    documents: &[DocumentId],
    within: Option<&[BucketId]>,
) -> Result<Arc<dyn View>, Error> {
    let reading = StoreSnapshot::new(shared, RowOrder::Age);
    let mut reached: BTreeMap<ReversedLocation, Vec<LocationRange>> = BTreeMap::new();
    let mut groups: BTreeMap<(ReversedLocation, String), LookupGroup> = BTreeMap::new();
    for id in documents.iter().filter(|id| id.document_type() == document_type) {
        let location = id.location().reversed();
        let bucket = reading.state.bucket(location);
        let first = bucket.reversed_range().first;
        if let Some(within) = within {
            let ranges = reached
                .entry(first)
                .or_insert_with(|| bucket.parts_of(within).map(|part| part.reversed_range()).collect());
            if !ranges.iter().any(|range| range.contains(location)) {
                continue;
            }
        }
        let group = groups
            .entry((first, id.group().key()))
            .or_insert_with(|| LookupGroup { bucket: Arc::clone(bucket), documents: Vec::new() });
        group.documents.push(DocumentSortKey::new(id));
    }
    let mut parts = Vec::new();
    for ((_, key), mut lookup) in groups {
        lookup.documents.sort_unstable();
        lookup.documents.dedup();
        let Some(first) = lookup.documents.first() else { continue };
        let location =
            if key.is_empty() { lookup.bucket.locations().0 } else { first.reversed_location().high() };
        let range = lookup.bucket.reversed_range();
        let group = GroupOfBucket { document_type, location, group: &key, range };
        parts.extend(reading.chunks_with(&group, &lookup)?);
    }
    Ok(Arc::new(StoreView::new(reading, document_type, once_each(parts))))
}

impl StoreSnapshot<'_> {
    /// The chunks that have documents of a lookup, with these alone in their masks.
    fn chunks_with(&self, group: &GroupOfBucket<'_>, lookup: &LookupGroup) -> Result<Vec<ChunkPart>, Error> {
        let mut segments = match group.group.is_empty() {
            true => self.ungrouped_segments(group.document_type, &lookup.bucket)?,
            false => self.find_segments(group.document_type, &lookup.bucket, group.location, group.group)?,
        };
        let hash = |document: &DocumentSortKey| KeyHash::of(id_in(document, group.group));
        let hashes: Vec<KeyHash> = lookup.documents.iter().map(hash).collect();
        let tail = self.tail_of_lookup(&lookup.documents, &hashes)?;
        let mut documents_of: Vec<Vec<&DocumentSortKey>> = Vec::new();
        for source in &segments {
            documents_of.extend(documents_of_chunks(source, &lookup.documents, &hashes)?);
        }
        let reached = documents_of.iter().filter(|documents| !documents.is_empty()).count();
        let (parts, tail) = if reached * CHUNKS_PER_REACHED >= documents_of.len() {
            self.newest(group, GroupSources { segments, tail })?
        } else {
            let mut chunk = documents_of.iter();
            let mut is_reached = || chunk.next().is_some_and(|documents| !documents.is_empty());
            segments.iter_mut().for_each(|source| source.chunks.retain(|_| is_reached()));
            segments.retain(|source| !source.chunks.is_empty());
            documents_of.retain(|documents| !documents.is_empty());
            self.newest_of_some(group, GroupSources { segments, tail })?
        };
        let mut found = Vec::with_capacity(reached);
        for (mut part, documents) in parts.into_iter().zip(documents_of) {
            if !documents.is_empty() {
                part.keep_documents(group, &documents)?;
                found.push(part);
            }
        }
        if !tail.is_empty() {
            found.extend(self.tail_parts(group, &tail));
        }
        Ok(found)
    }

    /// The tail rows of documents of one group, given in order with the hashes of their ids.
    fn tail_of_lookup(
        &self,
        documents: &[DocumentSortKey],
        hashes: &[KeyHash],
    ) -> Result<Vec<TailVersion>, Error> {
        // A filter has all ids of the snapshot, which was taken before.
        let can_have = |hash: &KeyHash| {
            self.state.generations.iter().any(|generation| generation.tail.ids().may_have(*hash))
        };
        let possible = documents.iter().zip(hashes).filter(|&(_, hash)| can_have(hash));
        let documents: Vec<&DocumentSortKey> = possible.map(|(document, _)| document).collect();
        let at_once = if documents.len() > SEEKS_MAX { documents.len() } else { 1 };
        let mut tail = Vec::new();
        for documents in documents.chunks(at_once) {
            let (Some(first), Some(last)) = (documents.first(), documents.last()) else { continue };
            let (from, to) = ([first.as_bytes(), &[0]].concat(), [last.as_bytes(), &[1]].concat());
            let is_sought = |row: &RowKey<'_>| {
                documents.binary_search_by(|document| document.as_bytes().cmp(row.sort_key)).is_ok()
            };
            tail.extend(self.tail_rows(&from, Some(&to), is_sought)?);
        }
        Ok(tail)
    }
}

/// The id in the key of a document of this group.
fn id_in<'d>(document: &'d DocumentSortKey, group: &str) -> &'d [u8] {
    // The location, the group, a zero and the rest of the location are before the id.
    document.as_bytes().get(4 + group.len() + 1 + 4..).unwrap_or_default()
}

/// For each chunk the documents that it can have, of some of its group in order, given with the hashes of
/// their ids.
fn documents_of_chunks<'d>(
    source: &SegmentChunks,
    documents: &'d [DocumentSortKey],
    hashes: &[KeyHash],
) -> Result<Vec<Vec<&'d DocumentSortKey>>, Error> {
    let mut of_chunks = vec![Vec::new(); source.chunks.len()];
    let mut filter = source.segment.filter_reader(source.section);
    for (document, hash) in documents.iter().zip(hashes) {
        if !filter.may_have(*hash)? {
            continue;
        }
        let location = document.reversed_location();
        let after = source.chunks.partition_point(|(_, info)| info.first_location <= location);
        let before = source.chunks.partition_point(|(_, info)| info.first_location < location);
        for chunk in &mut of_chunks[before.saturating_sub(1)..after] {
            chunk.push(document);
        }
    }
    Ok(of_chunks)
}

impl ChunkPart {
    /// Takes all versions out of its masks except those of these documents.
    fn keep_documents(
        &mut self,
        group: &GroupOfBucket<'_>,
        documents: &[&DocumentSortKey],
    ) -> Result<(), Error> {
        let ids = match self.column(&ColumnKey::id())? {
            Some(Column::Bytes(ids)) if has_all(&ids) => ids,
            _ => return Err(lacks_keys(self.path())),
        };
        let rows = self.info.documents as usize;
        let mut kept = Vec::new();
        if documents.len() * COMPARED_PER_LOOKUP < rows {
            for document in documents {
                kept.extend(rows_of_document(self.path(), &ids, rows, document.as_bytes())?);
            }
        } else {
            let wanted: HashSet<&[u8]> =
                documents.iter().map(|document| id_in(document, group.group)).collect();
            kept.extend((0..rows).filter(|row| ids.get(*row).is_some_and(|id| wanted.contains(id))));
        }
        keep_rows(&mut self.newest, &kept, self.info.documents);
        keep_rows(&mut self.live, &kept, self.info.documents);
        Ok(())
    }
}
