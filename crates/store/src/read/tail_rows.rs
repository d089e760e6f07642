//! Rows of a group in the tail, and chunks made of them.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::{Arc, atomic};

use millrace_bucket::reversed_location;
use millrace_document::ReversedLocation;
use millrace_env::pace;
use millrace_segment::ChunkInfo;

use crate::Error;
use crate::read::masks::{GroupOfBucket, clear};
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, after};
use crate::tail::chunk::TailChunk;
use crate::tail::{RowKey, TailVersion};

/// Number of rows of the tail that are passed over in the time that it takes to look one up.
pub(super) const SCANNED_PER_SEEK: usize = 8;

impl StoreSnapshot<'_> {
    /// The tail rows in a range, the newest version of each document alone, in order.
    pub fn tail_rows(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        wanted: impl Fn(&RowKey<'_>) -> bool,
    ) -> Result<Vec<TailVersion>, Error> {
        Ok(self.first_tail_rows(from, to, usize::MAX, wanted)?.0)
    }

    /// Returns the same for the first `rows_max` documents of one group, and for those that share the last
    /// one's location, with the location before which there are no others; `None`: these are all.
    pub(super) fn first_tail_rows(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        rows_max: usize,
        wanted: impl Fn(&RowKey<'_>) -> bool,
    ) -> Result<(Vec<TailVersion>, Option<ReversedLocation>), Error> {
        let mut rows: Vec<(ReversedLocation, TailVersion)> = Vec::new();
        let mut is_one_group = true;
        let mut end: Option<ReversedLocation> = None;
        for snapshot in &self.snapshots {
            let (first, mut count, mut reached) = (rows.len(), 0, ReversedLocation::FIRST);
            let mut next = Some(from.to_vec());
            while let Some(begin) = next.take() {
                let mut passed = 0;
                snapshot.shared_range(&begin, to, &mut |row| {
                    pace::short_step();
                    let key = RowKey::parse(row.key())?;
                    if rows[first..]
                        .last()
                        .is_some_and(|(_, last)| is_same_document(last.key(), key.sort_key))
                    {
                        passed += 1;
                        // A document that is written often has many versions until they are sealed.
                        if passed > SCANNED_PER_SEEK {
                            next = Some(key.after_document());
                            return Ok(ControlFlow::Break(()));
                        }
                    } else {
                        passed = 0;
                        if wanted(&key) {
                            let location = key.reversed_location();
                            if count >= rows_max && location > reached {
                                end = Some(end.map_or(location, |end| end.min(location)));
                                return Ok(ControlFlow::Break(()));
                            }
                            (count, reached) = (count + 1, location);
                            is_one_group &= rows.last().is_none_or(|(_, last)| {
                                RowKey::parse(last.key()).is_ok_and(|last| last.group == key.group)
                            });
                            let timestamp = key.timestamp;
                            rows.push((location, TailVersion::new(row, timestamp)));
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        if self.snapshots.len() > 1 {
            // Those of each generation are in order: a stable sort merges them. Keys of one group are in the
            // order of locations, and few have to be compared.
            rows.sort_by(|(a, first), (b, second)| {
                let by_location = if is_one_group { a.cmp(b) } else { Ordering::Equal };
                by_location.then_with(|| first.key().cmp(second.key()))
            });
            rows.dedup_by(|(a, later), (b, first)| {
                a == b && RowKey::sort_key_in(later.key()) == RowKey::sort_key_in(first.key())
            });
        }
        if let Some(end) = end {
            // Another generation can have newer versions of what is behind the end in this one.
            rows.retain(|(location, _)| *location < end);
        }
        self.count_tail_reads(rows.len());
        Ok((rows.into_iter().map(|(_, row)| row).collect(), end))
    }

    /// Bytes of the rows in the tail whose keys begin with `prefix`, older versions included.
    pub fn tail_bytes(&self, prefix: &[u8], wanted: impl Fn(&RowKey<'_>) -> bool) -> Result<u64, Error> {
        let (end, mut bytes) = (after(prefix), 0);
        for snapshot in &self.snapshots {
            snapshot.range(prefix, end.as_deref(), &mut |key, value| {
                pace::short_step();
                if wanted(&RowKey::parse(key)?) {
                    bytes += (key.len() + value.len()) as u64;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(bytes)
    }

    /// Rows of the tail as chunks, from the cache where it has them.
    pub(super) fn tail_parts(&self, group: &GroupOfBucket<'_>, rows: &[TailVersion]) -> Vec<ChunkPart> {
        self.note_tail_rows(rows.len());
        self.tail_pieces(group, rows)
    }

    /// Does the same for some of the rows of a group, given in order.
    pub(super) fn tail_pieces(&self, group: &GroupOfBucket<'_>, rows: &[TailVersion]) -> Vec<ChunkPart> {
        let cache = &self.shared.caches.tail_chunks;
        let is_fast = self.shared.options.paths.is_fast();
        let layout = (&self.layout, self.layout_number);
        let part = |rows: Vec<&TailVersion>| {
            let keys = || rows.iter().map(|row| row.key());
            let name = cache.name(self.layout_number, keys());
            let known = if is_fast { cache.get(name, self.layout_number, keys()) } else { None };
            let chunk = known.unwrap_or_else(|| {
                self.count_tail_reads(rows.len());
                let rows = rows.into_iter().cloned().collect();
                let chunk = Arc::new(TailChunk::new(cache.next_number(), group.document_type, layout, rows));
                cache.insert(name, Arc::clone(&chunk));
                chunk
            });
            self.tail_part(group, chunk)
        };
        self.order.pieces(rows).into_iter().map(part).collect()
    }

    /// Counts rows of the tail that were read: once where they are found, and once where they come into a
    /// chunk.
    pub(super) fn count_tail_reads(&self, rows: usize) {
        self.shared.counters.tail_reads.fetch_add(rows as u64, atomic::Ordering::Relaxed);
    }

    fn tail_part(&self, group: &GroupOfBucket<'_>, chunk: Arc<TailChunk>) -> ChunkPart {
        let marks = &self.state.marks;
        let dropped = group.dropped_until(marks);
        let by_location = group.group.is_empty() && marks.has_locations();
        let documents = chunk.rows.len() as u32;
        let (mut newest, mut live) = (None, None);
        for (index, row) in chunk.rows.iter().enumerate() {
            let dropped = if by_location {
                marks.dropped_until(group.document_type, reversed_location(row.key()), "")
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
                .map_or(ReversedLocation::FIRST, |row| reversed_location(row.key())),
            oldest: timestamps().min().unwrap_or(0),
            newest: timestamps().max().unwrap_or(0),
        };
        ChunkPart { source: ChunkSource::Tail(chunk), info, newest, live }
    }
}

/// Returns true if the row with this key is a version of the document with this sort key.
pub(crate) fn is_same_document(row_key: &[u8], sort_key: &[u8]) -> bool {
    row_key.len() == sort_key.len() + 9 && row_key.starts_with(sort_key)
}
