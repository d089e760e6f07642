//! Selection of the versions in segments that count: the newest of each document, unless it was dropped.
//!
//! If a group is in one segment and nothing of it was removed or dropped, all versions count and nothing is
//! read. Otherwise ids and timestamps of the group's chunks are read and compared once; the result is kept,
//! since segments do not change.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::LocationRange;
use millrace_column::{BytesColumn, Column, ColumnKey, ExecutionPaths, FixedColumn};
use millrace_document::{DocumentId, ReversedLocation};
use millrace_segment::{ChunkInfo, SegmentFile};
use quick_cache::Weighter;
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::read::keyed_hash::KeyedHash;
use crate::state::marks::DropMarks;

/// One bit a version, lowest first, in words of 64; `None`: all are set.
pub(crate) type Mask = Option<Vec<u64>>;

/// Chunks of one group (or of documents without one) in one segment.
#[derive(Clone)]
pub(crate) struct SegmentChunks {
    pub segment: Arc<SegmentFile>,
    pub section: usize,
    /// Numbers of chunks, and their contents.
    pub chunks: Vec<(u32, ChunkInfo)>,
}

/// A group, as seen from one bucket.
#[derive(Clone, Copy)]
pub(crate) struct GroupOfBucket<'a> {
    pub document_type: &'a str,
    /// The group's location, or the bucket's first if there is no group.
    pub location: u32,
    pub group: &'a str,
    /// The bucket's locations: documents without a group, and those of a divided group, can share a
    /// chunk with those of the adjacent bucket.
    pub range: LocationRange,
}

impl GroupOfBucket<'_> {
    /// Returns true if the group is divided, and the bucket has only a part of it.
    pub fn is_divided(&self) -> bool {
        !self.group.is_empty() && self.range.last.bits() - self.range.first.bits() < u64::from(u32::MAX)
    }

    /// Returns true if its chunks can have documents of other buckets.
    fn shares_chunks(&self) -> bool {
        self.group.is_empty() || self.is_divided()
    }

    /// Returns one location of the documents; any of them decides if they were dropped.
    fn reversed_location(&self) -> ReversedLocation {
        match self.is_divided() {
            true => self.range.first,
            false => ReversedLocation::first_of_group(self.location),
        }
    }

    /// The time up to which its documents are dropped.
    pub fn dropped_until(&self, marks: &DropMarks) -> u64 {
        marks.dropped_until(self.document_type, self.reversed_location(), self.group)
    }
}

/// The masks of the chunks of a group in all segments, in the order of sources and chunks.
#[derive(Default)]
pub(crate) struct GroupMasks {
    /// Versions that no newer one replaces and that were not dropped, removals among them.
    pub newest: Vec<Mask>,
    /// The same without removals.
    pub live: Vec<Mask>,
}

/// Masks, and the identity of their sources.
type IdentifiedMasks = (Vec<u8>, Arc<GroupMasks>);

/// Masks that were made lately, up to a number of bytes.
pub(crate) struct MaskCache {
    masks: quick_cache::sync::Cache<u128, Arc<IdentifiedMasks>, MaskWeigher>,
    hash: KeyedHash,
}

/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: usize = 192;
/// Overhead of the masks of each source in an entry, in bytes, about.
const SOURCE_BYTES: usize = 48;
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 1024;

#[derive(Clone)]
struct MaskWeigher;

impl Weighter<u128, Arc<IdentifiedMasks>> for MaskWeigher {
    fn weight(&self, _: &u128, made: &Arc<IdentifiedMasks>) -> u64 {
        let (identity, masks) = &**made;
        let words = masks.newest.iter().chain(&masks.live).flatten().map(Vec::len).sum::<usize>();
        (words * 8 + masks.newest.len() * SOURCE_BYTES + identity.len() + ENTRY_BYTES) as u64
    }
}

impl MaskCache {
    pub fn new(bytes: u64) -> Self {
        let masks = quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, bytes, MaskWeigher);
        MaskCache { masks, hash: KeyedHash::new() }
    }

    /// The masks of a group's chunks in all segments of a bucket.
    pub fn masks(
        &self,
        group: &GroupOfBucket<'_>,
        sources: &[SegmentChunks],
        marks: &DropMarks,
        paths: ExecutionPaths,
    ) -> Result<Arc<GroupMasks>, Error> {
        let dropped = group.dropped_until(marks);
        if !paths.is_fast() {
            return Ok(Arc::new(make(group, sources, dropped, marks)?));
        }
        let by_location = group.shares_chunks();
        let infos = || sources.iter().flat_map(|source| &source.chunks).map(|(_, info)| info);
        let untouched = infos().all(|info| info.removed == 0 && info.oldest > dropped);
        if sources.len() <= 1 && untouched && !by_location {
            let count = infos().count();
            return Ok(Arc::new(GroupMasks { newest: vec![None; count], live: vec![None; count] }));
        }
        let identity = identity(group, sources, dropped, marks);
        let name = self.name(&identity);
        if let Some(masks) = self.get(name, &identity) {
            return Ok(masks);
        }
        let masks = Arc::new(make(group, sources, dropped, marks)?);
        self.masks.insert(name, Arc::new((identity, Arc::clone(&masks))));
        Ok(masks)
    }

    fn name(&self, identity: &[u8]) -> u128 {
        let mut hasher = self.hash.hasher();
        hasher.update(identity);
        hasher.digest128()
    }

    /// Returns the masks of this name, if their identity is the same.
    fn get(&self, name: u128, identity: &[u8]) -> Option<Arc<GroupMasks>> {
        let found = self.masks.get(&name).filter(|found| found.0 == identity)?;
        Some(Arc::clone(&found.1))
    }
}

/// The masks of some of a group's chunks, which are not kept. They are right for the documents of which all
/// chunks that can have them are given.
pub(crate) fn of_some(
    group: &GroupOfBucket<'_>,
    sources: &[SegmentChunks],
    marks: &DropMarks,
) -> Result<GroupMasks, Error> {
    make(group, sources, group.dropped_until(marks), marks)
}

/// All that masks depend on, as bytes: segments do not change.
fn identity(
    group: &GroupOfBucket<'_>,
    sources: &[SegmentChunks],
    dropped: u64,
    marks: &DropMarks,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + group.group.len() + group.document_type.len());
    let mut number = |number: u64| bytes.extend(number.to_le_bytes());
    number(dropped);
    number(group.range.first.bits());
    number(group.range.last.bits());
    number(u64::from(group.location));
    number(group.document_type.len() as u64);
    number(group.group.len() as u64);
    number(sources.len() as u64);
    sources.iter().for_each(|source| number(source.segment.number()));
    if group.group.is_empty() {
        // Bucket drops reach single documents without a group.
        marks.locations().for_each(|(first, last, timestamp)| {
            number(u64::from(first) << 32 | u64::from(last));
            number(timestamp);
        });
    }
    bytes.extend(group.document_type.as_bytes());
    bytes.extend(group.group.as_bytes());
    bytes
}

/// The columns that distinguish versions, for the chunks of one source.
struct SourceKeys {
    ids: Vec<BytesColumn>,
    timestamps: Vec<FixedColumn>,
}

fn make(
    group: &GroupOfBucket<'_>,
    sources: &[SegmentChunks],
    dropped: u64,
    marks: &DropMarks,
) -> Result<GroupMasks, Error> {
    let mut newest: Vec<Vec<Mask>> = sources.iter().map(|source| vec![None; source.chunks.len()]).collect();
    if group.shares_chunks() {
        for (source, masks) in sources.iter().zip(&mut newest) {
            mask_by_location(group, source, masks, marks)?;
        }
    }
    for (source, masks) in sources.iter().zip(&mut newest) {
        for ((chunk, info), mask) in source.chunks.iter().zip(masks) {
            if info.oldest <= dropped {
                let timestamps = timestamps(source, *chunk..*chunk + 1)?;
                for (row, timestamp) in timestamps[0].cells::<u64>().iter().enumerate() {
                    if *timestamp <= dropped {
                        clear(mask, row, info.documents);
                    }
                }
            }
        }
    }
    if sources.len() > 1 {
        mask_replaced(sources, &mut newest)?;
    }
    let mut live = newest.clone();
    for (source, masks) in sources.iter().zip(&mut live) {
        for ((chunk, info), mask) in source.chunks.iter().zip(masks) {
            if info.removed > 0 {
                for row in removed_rows(source, *chunk)? {
                    clear(mask, row, info.documents);
                }
            }
        }
    }
    Ok(GroupMasks {
        newest: newest.into_iter().flatten().collect(),
        live: live.into_iter().flatten().collect(),
    })
}

/// Masks documents without a group, or of a divided one: documents outside the bucket do not count, nor do
/// those without a group whose location was dropped.
fn mask_by_location(
    group: &GroupOfBucket<'_>,
    source: &SegmentChunks,
    masks: &mut [Mask],
    marks: &DropMarks,
) -> Result<(), Error> {
    let dropped_by_location = group.group.is_empty() && marks.has_locations();
    for (index, ((chunk, info), mask)) in source.chunks.iter().zip(masks).enumerate() {
        let begins = info.first_location;
        // The chunk after it may not be the group's next in the file, but everything in between has higher
        // locations.
        let ends = match source.chunks.get(index + 1) {
            Some((_, next)) => next.first_location,
            None => ReversedLocation::LAST,
        };
        let inside = begins >= group.range.first && ends <= group.range.last;
        if inside && !dropped_by_location {
            continue;
        }
        let ids = ids(source, *chunk..*chunk + 1)?;
        let timestamps = timestamps(source, *chunk..*chunk + 1)?;
        for row in 0..info.documents as usize {
            let id = document_id(source.segment.path(), &ids[0], row)?;
            let location = id.location().reversed();
            let dropped = match dropped_by_location {
                true => marks.dropped_until(group.document_type, location, ""),
                false => 0,
            };
            if !group.range.contains(location) || timestamps[0].cells::<u64>()[row] <= dropped {
                clear(mask, row, info.documents);
            }
        }
    }
    Ok(())
}

/// Numbers of a source, of a chunk among its chunks, and of a row there.
type SegmentRow = (u32, u32, u32);

/// Versions that another source has in newer do not count.
fn mask_replaced(sources: &[SegmentChunks], newest: &mut [Vec<Mask>]) -> Result<(), Error> {
    let mut keys = Vec::with_capacity(sources.len());
    for source in sources {
        keys.push(SourceKeys { ids: source.columns_of(ids)?, timestamps: source.columns_of(timestamps)? });
    }
    // By hash first: only ids with the same hash are compared.
    let total =
        sources.iter().flat_map(|source| &source.chunks).map(|(_, info)| info.documents as usize).sum();
    let mut versions: Vec<(u64, SegmentRow)> = Vec::with_capacity(total);
    for (source, of_source) in keys.iter().enumerate() {
        for (chunk, ids) in of_source.ids.iter().enumerate() {
            for row in 0..ids.len() {
                let id = ids.get(row).expect("id columns without some ids are refused");
                versions.push((xxh3_64(id), (source as u32, chunk as u32, row as u32)));
            }
        }
    }
    versions.sort_unstable();
    let id = |(s, c, r): SegmentRow| keys[s as usize].ids[c as usize].get(r as usize);
    let timestamp =
        |(s, c, r): SegmentRow| keys[s as usize].timestamps[c as usize].cells::<u64>()[r as usize];
    let mut best: Vec<SegmentRow> = Vec::new();
    for same_hash in versions.chunk_by(|(a, _), (b, _)| a == b).filter(|versions| versions.len() > 1) {
        best.clear();
        for (_, this) in same_hash.iter().copied() {
            let Some(known) = best.iter_mut().find(|known| id(**known) == id(this)) else {
                best.push(this);
                continue;
            };
            let (old, new) =
                if timestamp(this) > timestamp(*known) { (*known, this) } else { (this, *known) };
            *known = new;
            let (s, c, r) = (old.0 as usize, old.1 as usize, old.2 as usize);
            clear(&mut newest[s][c], r, sources[s].chunks[c].1.documents);
        }
    }
    Ok(())
}

impl SegmentChunks {
    /// A column of all its chunks; neighbours are read together.
    fn columns_of<T>(
        &self,
        read: impl Fn(&SegmentChunks, Range<u32>) -> Result<Vec<T>, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut columns = Vec::with_capacity(self.chunks.len());
        for run in self.chunks.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            columns.extend(read(self, run[0].0..run[0].0 + run.len() as u32)?);
        }
        Ok(columns)
    }
}

/// The id columns of chunks.
pub(crate) fn ids(source: &SegmentChunks, chunks: Range<u32>) -> Result<Vec<BytesColumn>, Error> {
    let columns = source.segment.columns(source.section, &ColumnKey::id(), chunks)?;
    let ids = columns.into_iter().map(|column| match column {
        Some(Column::Bytes(ids)) if has_all(&ids) => Ok(ids),
        _ => Err(lacks_keys(source.segment.path())),
    });
    ids.collect()
}

/// Returns true if each version has an id.
pub(crate) fn has_all(ids: &BytesColumn) -> bool {
    ids.presence().words().iter().map(|word| word.count_ones() as usize).sum::<usize>() == ids.len()
}

/// The timestamp columns of chunks.
pub(crate) fn timestamps(source: &SegmentChunks, chunks: Range<u32>) -> Result<Vec<FixedColumn>, Error> {
    let columns = source.segment.columns(source.section, &ColumnKey::timestamp(), chunks)?;
    let timestamps = columns.into_iter().map(|column| match column {
        Some(Column::Fixed(timestamps)) if timestamps.cell().size() == 8 && timestamps.width() == 1 => {
            Ok(timestamps)
        }
        _ => Err(lacks_keys(source.segment.path())),
    });
    timestamps.collect()
}

/// The rows of a chunk that are removals.
pub(crate) fn removed_rows(source: &SegmentChunks, chunk: u32) -> Result<Vec<usize>, Error> {
    let column =
        source.segment.columns(source.section, &ColumnKey::removed(), chunk..chunk + 1)?.pop().flatten();
    Ok(match column {
        Some(Column::Fixed(removed)) => {
            (0..removed.len()).filter(|row| removed.integer(*row) == Some(1)).collect()
        }
        _ => Vec::new(),
    })
}

/// The id in a row of an id column of a file.
pub(crate) fn document_id(path: &Path, ids: &BytesColumn, row: usize) -> Result<DocumentId, Error> {
    let text = ids.get(row).and_then(|id| std::str::from_utf8(id).ok());
    text.and_then(|text| DocumentId::parse(text).ok()).ok_or_else(|| lacks_keys(path))
}

/// Returns the error for a file whose versions have no keys to distinguish them.
pub(crate) fn lacks_keys(path: &Path) -> Error {
    Error::Corrupt {
        path: path.to_owned(),
        offset: 0,
        reason: "a chunk lacks its ids or timestamps".to_owned(),
    }
}

/// Takes a version out of a mask.
pub(crate) fn clear(mask: &mut Mask, row: usize, documents: u32) {
    let words = mask.get_or_insert_with(|| all(documents as usize));
    words[row / 64] &= !(1 << (row % 64));
}

/// Takes all versions out of a mask except those in these rows.
pub(crate) fn keep_rows(mask: &mut Mask, rows: &[usize], documents: u32) {
    let mut kept = vec![0; (documents as usize).div_ceil(64)];
    for row in rows.iter().filter(|row| is_set(mask, **row)) {
        kept[row / 64] |= 1 << (row % 64);
    }
    *mask = Some(kept);
}

/// Returns true if a version is in a mask.
pub(crate) fn is_set(mask: &Mask, row: usize) -> bool {
    mask.as_ref().is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1)
}

/// Adds the versions of another mask of the same chunk, which has `documents` versions.
pub(crate) fn unite(mask: &mut Mask, other: Mask, documents: u32) {
    let (Some(words), Some(others)) = (mask.as_mut(), other) else { return *mask = None };
    assert!(words.len() == others.len(), "two masks of one chunk have a bit for each of its documents");
    words.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
    if *words == all(documents as usize) {
        *mask = None;
    }
}

/// Takes away the versions that another mask of the same chunk lacks.
pub(crate) fn intersect(mask: &mut Mask, other: &Mask) {
    let Some(others) = other else { return };
    let Some(words) = mask.as_mut() else { return mask.clone_from(other) };
    assert!(words.len() == others.len(), "two masks of one chunk have a bit for each of its documents");
    words.iter_mut().zip(others).for_each(|(word, other)| *word &= other);
}

fn all(documents: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; documents.div_ceil(64)];
    if let Some(last) = words.last_mut()
        && !documents.is_multiple_of(64)
    {
        *last = (1 << (documents % 64)) - 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_whose_name_collides_are_not_used() {
        let cache = MaskCache::new(1 << 20);
        let marks = DropMarks::new(&[]);
        let of = |document_type, group, (first, last)| {
            let range =
                LocationRange { first: ReversedLocation::new(first), last: ReversedLocation::new(last) };
            GroupOfBucket { document_type, location: 1, group, range }
        };
        let ann = identity(&of("mail", "gann", (0, 9)), &[], 5, &marks);
        let name = cache.name(&ann);
        cache.masks.insert(name, Arc::new((ann.clone(), Arc::default())));
        assert!(cache.get(name, &ann).is_some());
        let others = [
            identity(&of("mail", "gbob", (0, 9)), &[], 5, &marks),
            identity(&of("mailg", "ann", (0, 9)), &[], 5, &marks),
            identity(&of("mail", "gann", (1, 9)), &[], 5, &marks),
            identity(&of("mail", "gann", (0, 9)), &[], 6, &marks),
        ];
        assert!(others.iter().all(|other| cache.get(name, other).is_none()));
    }
}
