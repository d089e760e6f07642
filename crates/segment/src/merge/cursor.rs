use std::ops::Range;
use std::sync::Arc;

use millrace_bucket::{DocumentSortKey, LocationRange};
use millrace_column::{BytesColumn, CHUNK_DOCS, Column, ColumnKey, FixedColumn};
use millrace_document::{DocumentGroup, ReversedLocation};
use millrace_env::pace;

use super::{CHUNK_BYTES, MergeInput, MergePolicy};
use crate::ranges::{any_overlaps, at_or_after, hull, joined};
use crate::{ChunkInfo, Error, GroupEntry, NewChunk, SegmentFile, SegmentWriter, TypeSection};

/// Position in a source: an entry, and a row of one of its chunks.
pub(super) struct MergeCursor {
    pub(super) segment: Arc<SegmentFile>,
    pub(super) section: usize,
    ranges: Vec<LocationRange>,
    /// Those of them that do not touch each other.
    joined: Vec<LocationRange>,
    entries: std::vec::IntoIter<GroupEntry>,
    entry: Option<GroupEntry>,
    /// Group of the documents of that entry.
    of_group: DocumentGroup,
    pub(super) chunk: u32,
    pub(super) row: usize,
    pub(super) keys: Option<KeyColumns>,
    pub(super) sort_key: Option<DocumentSortKey>,
}

pub(super) struct KeyColumns {
    pub(super) info: ChunkInfo,
    ids: BytesColumn,
    timestamps: FixedColumn,
    removed: Option<FixedColumn>,
    /// Bytes of all columns of the chunk in memory.
    pub(super) chunk_bytes: u64,
}

impl MergeCursor {
    pub(super) fn new(input: &MergeInput, section: usize) -> Result<Self, Error> {
        let ranges = input.locations.clone();
        let joined = joined(&ranges);
        let mut entries = Vec::new();
        if let Some(hull) = hull(&ranges) {
            input.segment.groups(section, hull.first.high(), |entry| {
                let beyond = ReversedLocation::first_of_group(entry.location) > hull.last;
                // What begins before a range reaches into it only where it has no group.
                if !beyond
                    && (entry.group.is_empty()
                        || any_overlaps(&ranges, LocationRange::of_group(entry.location)))
                {
                    entries.push(entry);
                }
                !beyond
            })?;
        }
        let mut cursor = MergeCursor {
            segment: Arc::clone(&input.segment),
            section,
            ranges,
            joined,
            entries: entries.into_iter(),
            entry: None,
            of_group: DocumentGroup::None,
            chunk: 0,
            row: 0,
            keys: None,
            sort_key: None,
        };
        cursor.next_entry()?;
        Ok(cursor)
    }

    pub(super) fn section(&self) -> &TypeSection {
        &self.segment.sections()[self.section]
    }

    /// Returns the location of the current row.
    pub(super) fn location(&self) -> Option<u32> {
        self.reversed_location().map(ReversedLocation::high)
    }

    /// Returns the full reversed location of the current row.
    pub(super) fn reversed_location(&self) -> Option<ReversedLocation> {
        self.sort_key.as_ref().map(DocumentSortKey::reversed_location)
    }

    pub(super) fn group(&self) -> Option<(u32, String)> {
        let entry = self.entry.as_ref()?;
        let location = self.location().expect("a cursor that has a group stands at a row of it");
        Some((location, entry.group.clone()))
    }

    /// Returns the index of the range that a reversed location is in.
    pub(super) fn range_of(&self, location: ReversedLocation) -> usize {
        at_or_after(&self.ranges, location)
    }

    pub(super) fn stands_in(&self, group: &(u32, String)) -> bool {
        self.entry
            .as_ref()
            .is_some_and(|entry| entry.group == group.1 && (group.1.is_empty() || entry.location == group.0))
    }

    fn next_entry(&mut self) -> Result<(), Error> {
        self.begin_entry()?;
        self.skip_outside()
    }

    pub(super) fn next_row(&mut self) -> Result<(), Error> {
        self.step()?;
        self.skip_outside()
    }

    /// Advances to a row inside the ranges: of this group or of a later one, whose rows may be at lower
    /// locations than the last row of this group.
    fn skip_outside(&mut self) -> Result<(), Error> {
        while let Some(location) = self.reversed_location() {
            match self.ranges.get(self.range_of(location)) {
                Some(range) if range.first <= location => break,
                Some(range) => self.skip_to(range.first)?,
                None => self.begin_entry()?,
            }
        }
        Ok(())
    }

    /// Moves on towards a reversed location in the group, or to the next group: over the chunks before it
    /// that need not be looked at, else to the next row.
    fn skip_to(&mut self, location: ReversedLocation) -> Result<(), Error> {
        let entry = self.entry.as_ref().expect("a cursor that stands at a row is in a group");
        let end = entry.first_chunk + entry.chunks;
        if !entry.group.is_empty() && location.high() > entry.location {
            return self.begin_entry();
        }
        if self.row == 0 && self.chunk + 1 < end {
            let following = self.segment.chunks(self.section, self.chunk + 1..end)?;
            let before = following.partition_point(|info| info.first_location < location) as u32;
            if before > 0 {
                self.chunk += before;
                self.keys = None;
                return self.read_key();
            }
        }
        self.step()
    }

    fn begin_entry(&mut self) -> Result<(), Error> {
        self.entry = self.entries.next();
        if let Some(entry) = &self.entry {
            let group = DocumentGroup::from_key(&entry.group);
            self.of_group = group.ok_or_else(|| self.segment.corrupt(0, "the name of a group is not one"))?;
            self.chunk = entry.first_chunk;
            self.row = 0;
            self.keys = None;
            self.read_key()?;
        } else {
            self.sort_key = None;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        let entry = self.entry.as_ref().expect("a cursor moves on from a row of a group");
        let last_chunk = entry.first_chunk + entry.chunks;
        self.row += 1;
        if self.keys.as_ref().is_some_and(|keys| self.row >= keys.ids.len()) {
            self.row = 0;
            self.chunk += 1;
            self.keys = None;
            if self.chunk >= last_chunk {
                return self.begin_entry();
            }
        }
        self.read_key()
    }

    /// Reads the key of the current row.
    fn read_key(&mut self) -> Result<(), Error> {
        if self.keys.is_none() {
            self.keys = Some(self.read_key_columns()?);
        }
        let keys = self.keys();
        let id = keys.ids.get(self.row).and_then(|id| std::str::from_utf8(id).ok());
        let id = id.ok_or_else(|| self.segment.corrupt(0, "a document id is not one"))?;
        let key = DocumentSortKey::of_text(id, &self.of_group);
        if self.row > 0 && self.sort_key.as_ref().is_some_and(|before| *before >= key) {
            return Err(self.segment.corrupt(0, "the documents of a chunk are not in order"));
        }
        self.sort_key = Some(key);
        Ok(())
    }

    fn read_key_columns(&self) -> Result<KeyColumns, Error> {
        let column = |key: ColumnKey| -> Result<Option<Column>, Error> {
            let range = self.chunk..self.chunk + 1;
            Ok(self.segment.columns_uncached(self.section, &key, range)?.pop().flatten())
        };
        let info = self.segment.chunks(self.section, self.chunk..self.chunk + 1)?.pop();
        let removed = match column(ColumnKey::removed())? {
            Some(Column::Fixed(removed)) => Some(removed),
            _ => None,
        };
        match (info, column(ColumnKey::id())?, column(ColumnKey::timestamp())?) {
            (Some(info), Some(Column::Bytes(ids)), Some(Column::Fixed(timestamps)))
                if timestamps.cell().size() == 8 =>
            {
                let documents = info.documents as usize;
                if ids.len() != documents || timestamps.len() != documents {
                    return Err(self.segment.corrupt(0, "a chunk has more documents than ids or timestamps"));
                }
                let chunk_bytes = self.segment.chunk_bytes(self.section, self.chunk)?;
                Ok(KeyColumns { info, ids, timestamps, removed, chunk_bytes })
            }
            _ => Err(self.segment.corrupt(0, "a chunk lacks its ids or timestamps")),
        }
    }

    /// Returns the key columns of the current chunk. The cursor must be at a row.
    pub(super) fn keys(&self) -> &KeyColumns {
        self.keys.as_ref().expect("a cursor that stands at a row has read the keys of its chunk")
    }

    pub(super) fn timestamp(&self) -> u64 {
        self.keys().timestamps.cells::<u64>()[self.row]
    }

    pub(super) fn is_removed(&self) -> bool {
        self.keys().removed.as_ref().is_some_and(|removed| removed.integer(self.row) == Some(1))
    }

    /// Returns true if two consecutive chunks would fit into one.
    fn has_small_neighbours(&self, chunks: &Range<u32>, infos: &[ChunkInfo]) -> Result<bool, Error> {
        for (chunk, pair) in chunks.clone().zip(infos.windows(2)) {
            if (pair[0].documents + pair[1].documents) as usize <= CHUNK_DOCS {
                let bytes = self.segment.chunk_bytes(self.section, chunk)?
                    + self.segment.chunk_bytes(self.section, chunk + 1)?;
                if bytes <= CHUNK_BYTES {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the cursor is at the beginning of a group that is entirely inside the ranges.
    pub(super) fn is_whole_group(&self) -> bool {
        let Some(entry) = self.entry.as_ref().filter(|entry| !entry.group.is_empty()) else { return false };
        let of_group = LocationRange::of_group(entry.location);
        let range = self.joined.get(at_or_after(&self.joined, of_group.last));
        let inside = range.is_some_and(|range| range.first <= of_group.first);
        inside && self.chunk == entry.first_chunk && self.row == 0
    }

    /// Takes over the chunks of the group it is at the beginning of, when all of them stay and need nothing.
    pub(super) fn take_whole_group(
        &mut self,
        dropped: u64,
        columns: &[ColumnKey],
        policy: &dyn MergePolicy,
        writer: &mut SegmentWriter<'_>,
    ) -> Result<bool, Error> {
        let Some(entry) = &self.entry else { return Ok(false) };
        let range = entry.first_chunk..entry.first_chunk + entry.chunks;
        let infos = self.segment.chunks(self.section, range.clone())?;
        let forget = policy.forget_removals_before();
        let stays = |info: &ChunkInfo| info.oldest > dropped && (info.removed == 0 || info.oldest >= forget);
        if self.has_small_neighbours(&range, &infos)?
            || !infos.iter().all(stays)
            || self.section().columns != columns
        {
            return Ok(false);
        }
        for (chunk, info) in range.zip(infos) {
            pace::step();
            let columns = columns
                .iter()
                .map(|key| {
                    Ok(self.segment.columns_uncached(self.section, key, chunk..chunk + 1)?.pop().flatten())
                })
                .collect::<Result<_, Error>>()?;
            writer.add(NewChunk { location: entry.location, group: &entry.group, info, columns })?;
        }
        self.next_entry()?;
        Ok(true)
    }
}
