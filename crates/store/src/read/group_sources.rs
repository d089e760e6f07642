//! Locations of a group's documents, before it is decided which versions count.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::DocumentSortKey;
use millrace_column::BytesColumn;
use millrace_env::filter::KeyHash;
use millrace_segment::{ChunkInfo, SegmentFile};

use crate::Error;
use crate::read::masks::{SegmentChunks, clear, document_id, ids, is_set, timestamps};
use crate::read::reading::ChunkPart;
use crate::read::windows::partition_point;
use crate::tail::{RowKey, TailVersion};

/// Locations of the group's documents.
#[derive(Default)]
pub(crate) struct GroupSources {
    pub segments: Vec<SegmentChunks>,
    /// Rows of the tail, the newest version of each document there, in order.
    pub tail: Vec<TailVersion>,
}

impl GroupSources {
    pub fn read_infos(&mut self) -> Result<(), Error> {
        for source in &mut self.segments {
            for (chunk, info) in &mut source.chunks {
                if let Some(read) = source.segment.chunks(source.section, *chunk..*chunk + 1)?.pop() {
                    *info = read;
                }
            }
        }
        Ok(())
    }

    /// Removes documents with newer versions in the tail from the segments' masks, and rows from the tail
    /// whose document has the same or a newer version in a segment. Reads only the chunks that can have such
    /// a document, by its location and by the filter of the segment.
    pub fn replace(&mut self, parts: &mut [ChunkPart]) -> Result<(), Error> {
        let outdated = replace_versions(&self.segments, self.tail.iter(), parts)?;
        let mut tail_rows = 0..;
        self.tail.retain(|_| tail_rows.next().is_some_and(|row| !outdated.contains(&row)));
        Ok(())
    }

    pub fn add(
        &mut self,
        segment: &Arc<SegmentFile>,
        section: usize,
        chunks: impl Iterator<Item = (u32, ChunkInfo)>,
    ) {
        match self.segments.last_mut() {
            Some(last) if Arc::ptr_eq(&last.segment, segment) => last.chunks.extend(chunks),
            _ => self.segments.push(SegmentChunks {
                segment: Arc::clone(segment),
                section,
                chunks: chunks.collect(),
            }),
        }
    }
}

/// Removes documents of which the tail has these newer versions from the masks of segments. Returns the
/// indices of the versions of which a segment has the same or a newer one. `parts`: the chunks of all
/// segments. Reads only the chunks that can have such a document, by its location and by the filter of the
/// segment.
pub(super) fn replace_versions<'v>(
    segments: &[SegmentChunks],
    versions: impl Iterator<Item = &'v TailVersion>,
    parts: &mut [ChunkPart],
) -> Result<HashSet<usize>, Error> {
    let mut outdated: HashSet<usize> = HashSet::new();
    if segments.is_empty() {
        return Ok(outdated);
    }
    // Keys are taken apart once for all segments.
    let mut rows: Vec<(RowKey<'_>, KeyHash)> = Vec::with_capacity(versions.size_hint().0);
    for version in versions {
        let row = RowKey::parse(version.key())?;
        rows.push((row, KeyHash::of(row.id.as_bytes())));
    }
    let mut first_part = 0;
    for source in segments {
        let mut candidates: HashMap<usize, Vec<(usize, RowKey<'_>)>> = HashMap::new();
        let mut filter = source.segment.filter_reader(source.section);
        for (index, (row, hash)) in rows.iter().enumerate() {
            if !filter.may_have(*hash)? {
                continue;
            }
            let location = row.reversed_location();
            let after = source.chunks.partition_point(|(_, info)| info.first_location <= location);
            let before = source.chunks.partition_point(|(_, info)| info.first_location < location);
            for chunk in before.saturating_sub(1)..after {
                candidates.entry(chunk).or_default().push((index, *row));
            }
        }
        for (index, candidates) in candidates {
            let part = &mut parts[first_part + index];
            replace_in_chunk(source, index, &candidates, part, &mut outdated)?;
        }
        first_part += source.chunks.len();
    }
    Ok(outdated)
}

/// Does the same for one chunk and the rows of the tail, given by index, whose documents it can have.
fn replace_in_chunk(
    source: &SegmentChunks,
    index: usize,
    candidates: &[(usize, RowKey<'_>)],
    part: &mut ChunkPart,
    outdated: &mut HashSet<usize>,
) -> Result<(), Error> {
    let (chunk, info) = source.chunks[index];
    let ids = &ids(source, chunk..chunk + 1)?[0];
    // Only rows that arrived late can be older than sealed ones.
    let late = candidates.iter().any(|(_, row)| row.timestamp.0 <= info.newest);
    let timestamps = if late { timestamps(source, chunk..chunk + 1)?.pop() } else { None };
    let mut replace = |row: usize, index: usize, in_tail: u64| {
        if !is_set(&part.newest, row) {
            return;
        }
        if timestamps.as_ref().is_some_and(|timestamps| timestamps.cells::<u64>()[row] >= in_tail) {
            outdated.insert(index);
        } else {
            clear(&mut part.newest, row, info.documents);
            clear(&mut part.live, row, info.documents);
        }
    };
    let rows = info.documents as usize;
    if candidates.len() * COMPARED_PER_LOOKUP < rows {
        let path = source.segment.path();
        for (index, candidate) in candidates {
            for row in rows_of_document(path, ids, rows, candidate.sort_key)? {
                replace(row, *index, candidate.timestamp.0);
            }
        }
        return Ok(());
    }
    let candidates: HashMap<&[u8], (usize, u64)> =
        candidates.iter().map(|(index, row)| (row.id.as_bytes(), (*index, row.timestamp.0))).collect();
    for row in 0..rows {
        if let Some((index, in_tail)) = ids.get(row).and_then(|id| candidates.get(id)) {
            replace(row, *index, *in_tail);
        }
    }
    Ok(())
}

/// Number of rows whose ids are compared in the time that it takes to find one by its key.
pub(super) const COMPARED_PER_LOOKUP: usize = 100;

/// The rows of a chunk with the versions of a document, which lie in the order of sort keys. Costs a binary
/// search, with the key of a document for each step.
pub(super) fn rows_of_document(
    path: &Path,
    ids: &BytesColumn,
    rows: usize,
    sort_key: &[u8],
) -> Result<Range<usize>, Error> {
    let key = |row| document_id(path, ids, row).map(|id| DocumentSortKey::new(&id));
    let first = partition_point(0..rows, |row| Ok(key(row)?.as_bytes() < sort_key))?;
    let mut end = first;
    while end < rows && key(end)?.as_bytes() == sort_key {
        end += 1;
    }
    Ok(first..end)
}
