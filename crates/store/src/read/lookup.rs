//! Newest versions of documents by their ids, of many at once.
//!
//! The documents are sorted by type and key, the order of rows and chunks. So one pass over a snapshot of
//! each generation of the tail, and over the directories of each segment, finds all of them. It goes on from
//! one document to the next, by a search where much lies in between, and fetches the ids of a chunk once.
//! Generations and segments whose filters say that they do not have a document are not searched for it.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::DocumentSortKey;
use millrace_column::{BytesColumn, FixedColumn};
use millrace_document::{DocumentGroup, DocumentId, ReversedLocation};
use millrace_env::filter::KeyHash;
use millrace_segment::{ChunkInfo, GroupEntry, SegmentFile};

use crate::Error;
use crate::read::masks::{SegmentChunks, ids, removed_rows, timestamps};
use crate::state::{StoreState, StoredBucket};
use crate::tail::{RowKey, TailRow, TailSnapshot};

/// Rows of the tail in a row that no document of a lookup has, above which the next document is searched.
const ROWS_PASSED: usize = 4;

/// Entries of the directory of groups before the next document, above which that is searched.
const ENTRIES_PASSED: usize = 64;

/// Newest version of a document.
pub(crate) enum NewestVersion {
    InTail(TailRow),
    InSegment(SegmentVersion),
    /// Not kept with those of the other documents: it is to be looked up alone. It has this timestamp, or is
    /// not known at all, with the highest one.
    Unread(u64),
}

impl NewestVersion {
    pub fn timestamp(&self) -> u64 {
        match self {
            NewestVersion::InTail(row) => row.timestamp.0,
            NewestVersion::InSegment(found) => found.timestamp,
            NewestVersion::Unread(timestamp) => *timestamp,
        }
    }
}

/// A version in a segment.
pub(crate) struct SegmentVersion {
    pub source: SegmentChunks,
    pub chunk: u32,
    pub row: usize,
    pub timestamp: u64,
    pub removed: bool,
}

/// A document of a lookup, and the newest version of it that was found so far.
struct LookupTarget<'d> {
    /// Position among the documents as they were given.
    index: usize,
    id: &'d DocumentId,
    key: &'d DocumentSortKey,
    hash: KeyHash,
    location: ReversedLocation,
    group: &'d str,
    found: Option<NewestVersion>,
}

impl LookupTarget<'_> {
    /// Timestamp of the version that was found; 0 without one.
    fn known(&self) -> u64 {
        self.found.as_ref().map_or(0, NewestVersion::timestamp)
    }
}

/// Finds the newest versions of different documents, unless they were dropped, in the order in which the
/// documents are given with their keys. Of versions in the tail, those after the first `most_bytes` bytes are
/// left to be looked up alone.
///
/// # Errors
/// A file cannot be read or is damaged; the error may be about any one of the documents.
pub(crate) fn newest_versions(
    state: &StoreState,
    documents: &[(&DocumentId, &DocumentSortKey)],
    most_bytes: usize,
) -> Result<Vec<Option<NewestVersion>>, Error> {
    let targets = documents.iter().enumerate().map(|(index, &(id, key))| {
        let location = key.reversed_location();
        let hash = KeyHash::of(id.as_str().as_bytes());
        LookupTarget { index, id, key, hash, location, group: key.group_key(), found: None }
    });
    let mut targets: Vec<LookupTarget<'_>> = targets.collect();
    targets.sort_unstable_by(|a, b| (a.id.document_type(), a.key).cmp(&(b.id.document_type(), b.key)));
    find_in_tail(state, &mut targets, most_bytes)?;
    let is_of_same_bucket = |a: &LookupTarget<'_>, b: &LookupTarget<'_>| {
        a.id.document_type() == b.id.document_type() && state.bucket(a.location).has(b.location)
    };
    for of_bucket in targets.chunk_by_mut(is_of_same_bucket) {
        let bucket = state.bucket(of_bucket[0].location);
        find_in_bucket(bucket, of_bucket)?;
    }
    let mut found: Vec<Option<NewestVersion>> = documents.iter().map(|_| None).collect();
    for LookupTarget { index, id, location, group, found: newest, .. } in targets {
        let dropped = || state.marks.dropped_until(id.document_type(), location, group);
        found[index] = newest.filter(|newest| newest.timestamp() > dropped());
    }
    Ok(found)
}

/// Finds the newest row of each document in the tail.
fn find_in_tail(
    state: &StoreState,
    documents: &mut [LookupTarget<'_>],
    most_bytes: usize,
) -> Result<(), Error> {
    let mut bytes = 0;
    for generation in &state.generations {
        let newest = generation.newest();
        // Most rows of a generation are newer than all of the previous one.
        let mut older: Vec<_> = documents.iter_mut().filter(|document| document.known() < newest).collect();
        // Before the snapshot is taken: most documents that are not there have no row in it.
        generation.tail.ids().retain(&mut older, |document| document.hash);
        if older.is_empty() {
            continue;
        }
        let snapshot = generation.tail.snapshot();
        for of_type in older.chunk_by_mut(|a, b| a.id.document_type() == b.id.document_type()) {
            visit_rows(&*snapshot, of_type, &mut |document, row, value| {
                if row.timestamp.0 > document.known() {
                    bytes += value.len();
                    document.found = Some(match bytes > most_bytes {
                        true => NewestVersion::Unread(row.timestamp.0),
                        false => NewestVersion::InTail(TailRow::decode(row, value)?),
                    });
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Callback for a document and its newest row in a generation: key, value.
type LookupRowVisitor<'v, 'd> =
    dyn FnMut(&mut LookupTarget<'d>, &RowKey<'_>, &[u8]) -> Result<(), Error> + 'v;

/// Calls `visit` with the newest row of each document that has one in a generation. The documents are in the
/// order of keys.
fn visit_rows<'d>(
    snapshot: &dyn TailSnapshot,
    documents: &mut [&mut LookupTarget<'d>],
    visit: &mut LookupRowVisitor<'_, 'd>,
) -> Result<(), Error> {
    let Some(last) = documents.last() else { return Ok(()) };
    let to = [last.key.as_bytes(), &[1]].concat();
    // The first document that a row can be of.
    let mut next = 0;
    let mut is_searched = true;
    while is_searched && next < documents.len() {
        is_searched = false;
        let mut passed = 0;
        let from = [documents[next].key.as_bytes(), &[0]].concat();
        snapshot.range(&from, Some(&to), &mut |key, value| {
            let row = RowKey::parse(key)?;
            next += documents[next..].partition_point(|document| document.key.as_bytes() < row.sort_key);
            let Some(document) = documents.get_mut(next) else { return Ok(ControlFlow::Break(())) };
            if document.key.as_bytes() == row.sort_key {
                // The newest version of a document comes first.
                visit(document, &row, value)?;
                (next, passed) = (next + 1, 0);
                let is_last = next == documents.len();
                return Ok(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
            }
            passed += 1;
            is_searched = passed > ROWS_PASSED;
            Ok(if is_searched { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(())
}

/// Finds newer versions of documents of one type in the segments of their bucket.
fn find_in_bucket(bucket: &StoredBucket, documents: &mut [LookupTarget<'_>]) -> Result<(), Error> {
    // Most rows are newer than all rows sealed before them.
    let is_known = |sealed: u64| documents.iter().all(|document| document.known() >= sealed);
    if bucket.newest().is_some_and(is_known) {
        return Ok(());
    }
    let mut segments = bucket.open_segments()?;
    segments.sort_unstable_by_key(|segment| Reverse(segment.newest()));
    for segment in segments {
        let newest = segment.newest();
        let older: Vec<_> = documents.iter_mut().filter(|document| document.known() < newest).collect();
        let Some(first) = older.first() else { break };
        let Some(section) = segment.section(first.id.document_type()) else { continue };
        let mut possible = Vec::with_capacity(older.len());
        let mut filter = segment.filter_reader(section);
        for document in older {
            if filter.may_have(document.hash)? {
                possible.push(document);
            }
        }
        find_in_section(segment, section, &mut possible)?;
    }
    Ok(())
}

fn find_in_section(
    segment: &Arc<SegmentFile>,
    section: usize,
    documents: &mut [&mut LookupTarget<'_>],
) -> Result<(), Error> {
    if documents.is_empty() {
        return Ok(());
    }
    // Documents without a group lie from the location of their entry to that of the next one.
    let mut last = u32::MAX;
    for entry in entries_of(segment, section, documents)?.iter().rev() {
        let locations = match entry.group.is_empty() {
            true => entry.location..=std::mem::replace(&mut last, entry.location),
            false => entry.location..=entry.location,
        };
        let mut of_entry: Vec<_> = documents
            .iter_mut()
            .filter(|document| locations.contains(&document.location.high()) && document.group == entry.group)
            .map(|document| &mut **document)
            .collect();
        if !of_entry.is_empty() {
            find_in_entry(segment, section, entry, &mut of_entry)?;
        }
    }
    Ok(())
}

/// The entries of the directory of groups that can have these documents, and others between them.
fn entries_of(
    segment: &SegmentFile,
    section: usize,
    documents: &[&mut LookupTarget<'_>],
) -> Result<Vec<GroupEntry>, Error> {
    let has_ungrouped = documents.iter().any(|document| document.group.is_empty());
    let mut entries: Vec<GroupEntry> = Vec::new();
    // The first document that an entry can have.
    let mut next = 0;
    let mut is_searched = true;
    while is_searched && next < documents.len() {
        is_searched = false;
        let mut passed = 0;
        segment.groups(section, documents[next].location.high(), |entry| {
            let before = documents[next..].partition_point(|it| it.location.high() < entry.location);
            if before > 0 {
                (next, passed) = (next + before, 0);
            }
            let Some(document) = documents.get(next) else { return false };
            passed += usize::from(entry.location < document.location.high());
            is_searched = passed > ENTRIES_PASSED;
            let mut same_place =
                documents[next..].iter().take_while(|it| it.location.high() == entry.location);
            let is_wanted = match entry.group.is_empty() {
                true => has_ungrouped,
                false => same_place.any(|document| document.group == entry.group),
            };
            // A search begins at the last entry before its document again.
            if is_wanted && entries.last().is_none_or(|last| last.first_chunk < entry.first_chunk) {
                entries.push(entry);
            }
            !is_searched
        })?;
    }
    Ok(entries)
}

/// Finds newer versions of documents, given in order, in the chunks of their group.
fn find_in_entry(
    segment: &Arc<SegmentFile>,
    section: usize,
    entry: &GroupEntry,
    documents: &mut [&mut LookupTarget<'_>],
) -> Result<(), Error> {
    let infos = segment.chunks(section, entry.first_chunk..entry.first_chunk + entry.chunks)?;
    let source = SegmentChunks { segment: Arc::clone(segment), section, chunks: Vec::new() };
    let is_likely = segment.has_filter(section);
    let mut opened: Option<LookupChunk> = None;
    for document in documents {
        let location = document.location;
        let after = infos.partition_point(|info| info.first_location <= location);
        let before = infos.partition_point(|info| info.first_location < location);
        for (index, info) in infos.iter().enumerate().take(after).skip(before.saturating_sub(1)) {
            if info.newest <= document.known() {
                continue;
            }
            let number = entry.first_chunk + index as u32;
            let chunk = match &mut opened {
                Some(chunk) if chunk.number == number => chunk,
                other => other.insert(LookupChunk::new(&source, number)?),
            };
            let next = infos.get(index + 1).map(|next| next.first_location);
            let row = row_of(&chunk.ids, document.id, location, info.first_location, next, is_likely);
            let Some(row) = row else { continue };
            let (timestamp, removed) = chunk.version(&source, info, row)?;
            if timestamp > document.known() {
                let source = source.clone();
                let found = SegmentVersion { source, chunk: number, row, timestamp, removed };
                document.found = Some(NewestVersion::InSegment(found));
            }
        }
    }
    Ok(())
}

/// Columns of a chunk by which versions are found.
struct LookupChunk {
    number: u32,
    ids: BytesColumn,
    /// Timestamps of all versions, and the rows of removals; read when the chunk is found to have a document.
    versions: Option<(FixedColumn, Vec<usize>)>,
}

impl LookupChunk {
    fn new(source: &SegmentChunks, number: u32) -> Result<Self, Error> {
        Ok(LookupChunk { number, ids: ids(source, number..number + 1)?.swap_remove(0), versions: None })
    }

    /// Returns the timestamp of a version, and true if it is a removal.
    fn version(
        &mut self,
        source: &SegmentChunks,
        info: &ChunkInfo,
        row: usize,
    ) -> Result<(u64, bool), Error> {
        let (timestamps, removed) = match &mut self.versions {
            Some(versions) => versions,
            none => {
                let removed = if info.removed > 0 { removed_rows(source, self.number)? } else { Vec::new() };
                none.insert((timestamps(source, self.number..self.number + 1)?.swap_remove(0), removed))
            }
        };
        Ok((timestamps.cells::<u64>()[row], removed.binary_search(&row).is_ok()))
    }
}

/// Steps of a search that guess a row from the locations around it, before it halves the rows. Locations are
/// spread evenly, so that few steps are more than these.
const GUESSES: usize = 6;

/// Rows before and after a guess whose ids are compared, in about the time of two locations: of even ones in
/// a full chunk, all but some in a thousand are there.
const ROWS_AROUND: usize = 48;

/// Returns the row of a document in the ids of a chunk, which has documents from `first` to `next`, if there
/// is a chunk after it, in the order of their locations. If the document is likely to be there, ids are
/// compared before any location is computed.
fn row_of(
    ids: &BytesColumn,
    id: &DocumentId,
    location: ReversedLocation,
    first: ReversedLocation,
    next: Option<ReversedLocation>,
    is_likely: bool,
) -> Option<usize> {
    let wanted = location.bits();
    let location_bits =
        |text: Option<&[u8]>| DocumentId::location_of(text.unwrap_or_default(), id.group()).reversed().bits();
    let (mut row, mut end) = (0, ids.len());
    let last = match id.group() {
        DocumentGroup::None => u64::MAX,
        // All documents of a group have these high bits.
        _ => wanted | u64::from(u32::MAX),
    };
    let (mut low, mut high) = (first.bits(), next.map_or(last, ReversedLocation::bits));
    for step in 0.. {
        if row == end {
            break;
        }
        let share = u128::from(wanted.saturating_sub(low)) * (end - row) as u128;
        let guess = (share / (u128::from(high.saturating_sub(low)) + 1)) as usize;
        let middle = if step < GUESSES { row + guess.min(end - row - 1) } else { row.midpoint(end) };
        if step == 0
            && is_likely
            && let Some(found) = row_around(ids, id, middle)
        {
            return Some(found);
        }
        match location_bits(ids.get(middle)) {
            found if found < wanted => (row, low) = (middle + 1, found),
            found => (end, high) = (middle, found),
        }
    }
    // Different documents can have one location.
    (row..ids.len())
        .take_while(|row| location_bits(ids.get(*row)) == wanted)
        .find(|row| ids.get(*row) == Some(id.as_str().as_bytes()))
}

/// Returns the row of a document, if it is near this one.
fn row_around(ids: &BytesColumn, id: &DocumentId, row: usize) -> Option<usize> {
    let wanted = id.as_str().as_bytes();
    let pair = |distance: usize| [row.checked_sub(distance + 1), row.checked_add(distance)];
    let mut near = (0..ROWS_AROUND).flat_map(pair).flatten().filter(|row| *row < ids.len());
    near.find(|row| ids.get(*row) == Some(wanted))
}

#[cfg(test)]
mod tests;
