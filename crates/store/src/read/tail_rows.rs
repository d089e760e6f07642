//! Rows of a group in the tail: their keys, and chunks made of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millrace_document::ReversedLocation;
use millrace_segment::ChunkInfo;

use crate::Error;
use crate::read::found::TailKey;
use crate::read::masks::{GroupOfBucket, clear};
use crate::read::pieces::place;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, after};
use crate::tail::chunk::TailChunk;
use crate::tail::{RowKey, TailRow, is_removal};

/// Number of rows of the tail that are passed over in the time that it takes to look one up.
pub(super) const SCANNED_PER_SEEK: usize = 8;

impl StoreSnapshot<'_> {
    /// The keys of tail rows in a range, the newest version of each document alone, in order.
    pub fn tail_keys(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        wanted: impl Fn(&RowKey<'_>) -> bool,
    ) -> Result<Vec<TailKey>, Error> {
        Ok(self.first_tail_keys(from, to, usize::MAX, wanted)?.0)
    }

    /// Returns the same for the first `most` documents of one group, and for those that share the last one's
    /// location, with the location before which there are no others; `None`: these are all.
    pub(super) fn first_tail_keys(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
        wanted: impl Fn(&RowKey<'_>) -> bool,
    ) -> Result<(Vec<TailKey>, Option<ReversedLocation>), Error> {
        let mut keys: Vec<TailKey> = Vec::new();
        let mut end: Option<ReversedLocation> = None;
        for snapshot in &self.snapshots {
            let (first, mut count, mut reached) = (keys.len(), 0, ReversedLocation::FIRST);
            let mut next = Some(from.to_vec());
            while let Some(begin) = next.take() {
                let mut passed = 0;
                snapshot.range(&begin, to, &mut |key, value| {
                    let row = RowKey::parse(key)?;
                    if keys[first..].last().is_some_and(|last| is_same_document(&last.key, row.sort_key)) {
                        passed += 1;
                        // A document that is written often has many versions until they are sealed.
                        if passed > SCANNED_PER_SEEK {
                            next = Some(row.after_document());
                            return Ok(ControlFlow::Break(()));
                        }
                    } else {
                        passed = 0;
                        if wanted(&row) {
                            let location = row.reversed_location();
                            if count >= most && location > reached {
                                end = Some(end.map_or(location, |end| end.min(location)));
                                return Ok(ControlFlow::Break(()));
                            }
                            (count, reached) = (count + 1, location);
                            keys.push(TailKey { key: key.to_vec(), removed: is_removal(value) });
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        if self.snapshots.len() > 1 {
            keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            keys.dedup_by(|later, first| {
                RowKey::parse(&later.key).is_ok_and(|later| is_same_document(&first.key, later.sort_key))
            });
        }
        if let Some(end) = end {
            // Another generation can have newer versions of what is behind the end in this one.
            keys.retain(|key| RowKey::parse(&key.key).is_ok_and(|row| row.reversed_location() < end));
        }
        self.count_tail_reads(keys.len());
        Ok((keys, end))
    }

    /// Bytes of the rows in the tail whose keys begin with `prefix`, older versions included.
    pub fn tail_bytes(&self, prefix: &[u8], wanted: impl Fn(&RowKey<'_>) -> bool) -> Result<u64, Error> {
        let (end, mut bytes) = (after(prefix), 0);
        for snapshot in &self.snapshots {
            snapshot.range(prefix, end.as_deref(), &mut |key, value| {
                if wanted(&RowKey::parse(key)?) {
                    bytes += (key.len() + value.len()) as u64;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(bytes)
    }

    /// Rows of the tail as chunks, from the cache where it has them.
    pub(super) fn tail_parts(
        &self,
        group: &GroupOfBucket<'_>,
        keys: &[TailKey],
    ) -> Result<Vec<ChunkPart>, Error> {
        self.note_tail_rows(keys.len());
        self.tail_pieces(group, keys, keys.len())
    }

    /// Does the same for some of the rows of a group that has `all` rows in the tail.
    pub(super) fn tail_pieces(
        &self,
        group: &GroupOfBucket<'_>,
        keys: &[TailKey],
        all: usize,
    ) -> Result<Vec<ChunkPart>, Error> {
        let pieces = self.order.pieces(keys)?;
        let cache = &self.shared.caches.tail_chunks;
        let named = pieces.into_iter().map(|keys| {
            let of_rows = || keys.iter().map(|key| key.key.as_slice());
            let name = cache.name(self.layout_number, of_rows());
            let is_fast = self.shared.options.paths.is_fast();
            let known = if is_fast { cache.get(name, self.layout_number, of_rows()) } else { None };
            (known, name, keys)
        });
        let named: Vec<_> = named.collect();
        let missing = named.iter().enumerate().filter(|(_, (chunk, ..))| chunk.is_none());
        let missing = missing.flat_map(|(place, (.., keys))| keys.iter().map(move |key| (*key, place)));
        let mut rows = self.tail_rows(missing.collect(), all)?;
        let mut parts = Vec::with_capacity(named.len());
        for (place, (known, name, keys)) in named.into_iter().enumerate() {
            let chunk = known.unwrap_or_else(|| {
                let (rows, bytes) = rows.remove(&place).unwrap_or_default();
                assert!(rows.len() == keys.len(), "a piece of the tail has a row for each of its keys");
                let layout = (&self.layout, self.layout_number);
                let number = cache.next_number();
                let chunk = TailChunk::new(number, group.document_type, layout, rows, bytes);
                let chunk = Arc::new(chunk);
                cache.insert(name, Arc::clone(&chunk));
                chunk
            });
            parts.push(self.tail_part(group, chunk));
        }
        Ok(parts)
    }

    /// Returns the rows of these keys, out of `all` of one group, and their bytes, by the number paired with
    /// each key. The keys are of one slice that is in order. Few are read one by one, many in one pass.
    fn tail_rows(
        &self,
        mut keys: Vec<(&TailKey, usize)>,
        all: usize,
    ) -> Result<BTreeMap<usize, (Vec<TailRow>, usize)>, Error> {
        self.count_tail_reads(keys.len());
        keys.sort_unstable_by_key(|(key, _)| place(key));
        let mut rows: Vec<Option<(TailRow, usize)>> = vec![None; keys.len()];
        let at_once = if keys.len() * SCANNED_PER_SEEK < all { 1 } else { keys.len().max(1) };
        for (keys, rows) in keys.chunks(at_once).zip(rows.chunks_mut(at_once)) {
            self.read_rows(keys, rows)?;
        }
        let mut found: BTreeMap<usize, (Vec<TailRow>, usize)> = BTreeMap::new();
        for ((_, place), row) in keys.into_iter().zip(rows) {
            let (rows, bytes) = found.entry(place).or_default();
            let (row, more) =
                row.expect("the keys were read from the same snapshots, and no row is ever taken out of one");
            rows.push(row);
            *bytes += more;
        }
        Ok(found)
    }

    /// Reads the rows of these keys, given in order, in one pass over their range.
    fn read_rows(
        &self,
        keys: &[(&TailKey, usize)],
        rows: &mut [Option<(TailRow, usize)>],
    ) -> Result<(), Error> {
        let (Some((first, _)), Some((last, _))) = (keys.first(), keys.last()) else { return Ok(()) };
        let mut end = last.key.clone();
        end.push(0);
        for snapshot in &self.snapshots {
            let mut next = 0;
            snapshot.range(&first.key, Some(&end), &mut |key, value| {
                while next < keys.len() && keys[next].0.key.as_slice() < key {
                    next += 1;
                }
                if next < keys.len() && keys[next].0.key == key {
                    let row = TailRow::decode(&RowKey::parse(key)?, value)?;
                    rows[next] = Some((row, key.len() + value.len()));
                }
                Ok(if next < keys.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
        Ok(())
    }

    /// Counts rows of the tail whose keys or contents were read.
    pub(super) fn count_tail_reads(&self, rows: usize) {
        self.shared.counters.tail_reads.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn tail_part(&self, group: &GroupOfBucket<'_>, chunk: Arc<TailChunk>) -> ChunkPart {
        let marks = &self.state.marks;
        let dropped = group.dropped(marks);
        let by_place = group.group.is_empty() && marks.has_locations();
        let documents = chunk.rows.len() as u32;
        let (mut newest, mut live) = (None, None);
        for (index, row) in chunk.rows.iter().enumerate() {
            let dropped = if by_place {
                marks.dropped(group.document_type, row.document.id.location().reversed(), "")
            } else {
                dropped
            };
            if row.timestamp.0 <= dropped {
                clear(&mut newest, index, documents);
            }
            if row.removed || row.timestamp.0 <= dropped {
                clear(&mut live, index, documents);
            }
        }
        let timestamps = || chunk.rows.iter().map(|row| row.timestamp.0);
        let info = ChunkInfo {
            documents,
            removed: chunk.rows.iter().filter(|row| row.removed).count() as u32,
            first_location: chunk
                .rows
                .first()
                .map_or(ReversedLocation::FIRST, |row| row.document.id.location().reversed()),
            oldest: timestamps().min().unwrap_or(0),
            newest: timestamps().max().unwrap_or(0),
        };
        ChunkPart { source: ChunkSource::Tail(chunk), info, newest, live }
    }
}

/// Returns true if the row with this key is a version of the document with this sort key.
pub(super) fn is_same_document(row_key: &[u8], sort_key: &[u8]) -> bool {
    row_key.len() == sort_key.len() + 9 && row_key.starts_with(sort_key)
}
