//! Makes one segment of several, of which each may be older than another in parts.
//!
//! 1. Types come in order. The columns of a type are those of all sources, as the policy wants them.
//! 2. Each source has a cursor that stands at a row. The cursor whose row comes first in the order of keys moves on.
//! 3. Where only one source has a group, and nothing of it can go, its chunks are taken over as they are.
//! 4. Otherwise rows are taken one by one. Of rows with the same key the newest wins. Versions that were dropped with their group go,
//!    and so do removals that no one has to remember any more.
//! 5. Rows that were taken are noted as runs of a chunk of a source; when a chunk is full, or the group ends, its columns are
//!    concatenated from those runs. No document is parsed.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use millrace_bucket::SortKey;
use millrace_column::{
    Bytes, BytesBuilder, CHUNK_DOCS, Column, ColumnKey, Fixed, FixedBuilder, Form, TokensBuilder,
};
use millrace_document::DocumentId;
use millrace_env::pace;

use crate::ranges::{joined, reach, span};
use crate::writer::is_key_column;
use crate::{ChunkInfo, Error, GroupEntry, NewChunk, Segment, Writer};

/// A source of a merge.
#[derive(Debug, Clone)]
pub struct MergeInput {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Only documents whose location, [reversed](millrace_document::Location::reversed), is in one of these ranges, both ends included. In
    /// order; none reaches into another.
    pub locations: Vec<(u64, u64)>,
}

/// What a merge cannot know from the sources.
pub trait MergePolicy {
    /// Which of these columns of a type to keep, and which to derive beside them; sorted. Those of no field are kept in any case.
    fn columns(&self, document_type: &str, present: &[ColumnKey]) -> Vec<ColumnKey>;

    /// A column, from the value column of its field; `None` when it cannot be derived.
    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column>;

    /// Versions of this group at this reversed location with this timestamp or an earlier one were dropped; 0: none. It is the same at all
    /// locations of a group that are in one range of a source.
    fn dropped(&self, document_type: &str, location: u64, group: &str) -> u64;

    /// Removals with an earlier timestamp need not be remembered, as far as the sources are all that there is of their group.
    fn forget_removals_before(&self) -> u64;

    /// Whether to stop: the result is not wanted any more.
    fn cancelled(&self) -> bool;
}

/// A chunk is closed when it has so many bytes.
const CHUNK_BYTES: u64 = 8 << 20;

/// Writes what the sources hold together. Returns `false` when the policy cancelled it.
///
/// # Errors
/// A source cannot be read or is damaged; the writer cannot write.
pub fn merge(
    inputs: &[MergeInput],
    writer: &mut Writer<'_>,
    policy: &dyn MergePolicy,
) -> Result<bool, Error> {
    let mut types: Vec<&str> = inputs
        .iter()
        .flat_map(|input| input.segment.sections())
        .map(|section| section.document_type.as_str())
        .collect();
    types.sort_unstable();
    types.dedup();
    for document_type in types {
        if !merge_section(document_type, inputs, writer, policy)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn merge_section(
    document_type: &str,
    inputs: &[MergeInput],
    writer: &mut Writer<'_>,
    policy: &dyn MergePolicy,
) -> Result<bool, Error> {
    let mut cursors = Vec::new();
    for input in inputs {
        if let Some(section) = input.segment.section(document_type) {
            cursors.push(Cursor::new(input, section)?);
        }
    }
    let mut present: Vec<ColumnKey> =
        cursors.iter().flat_map(|cursor| cursor.section().columns.iter().cloned()).collect();
    present.sort_unstable();
    present.dedup();
    let mut columns = policy.columns(document_type, &present);
    columns.extend(present.iter().filter(|key| key.field.is_empty()).cloned());
    columns.sort_unstable();
    columns.dedup();

    writer.begin_section(document_type, columns.clone())?;
    let mut output = Output { document_type, columns: &columns, policy, taken: Taken::default() };
    loop {
        if policy.cancelled() {
            return Ok(false);
        }
        let Some(group) = next_group(&cursors) else { break };
        let holders: Vec<usize> =
            (0..cursors.len()).filter(|&index| cursors[index].stands_in(&group)).collect();
        if let [only] = holders[..]
            && cursors[only].is_whole_group()
        {
            let dropped = policy.dropped(document_type, u64::from(group.0) << 32, &group.1);
            if cursors[only].take_whole_group(dropped, &columns, policy, writer)? {
                continue;
            }
        }
        output.rows_of_group(&group, &mut cursors, writer)?;
    }
    Ok(true)
}

/// The group whose rows come next: location and key. Documents without a group are in one as long as no other comes between.
fn next_group(cursors: &[Cursor]) -> Option<(u32, String)> {
    cursors.iter().filter_map(Cursor::group).min()
}

/// A place in a source.
struct Cursor {
    segment: Arc<Segment>,
    section: usize,
    ranges: Vec<(u64, u64)>,
    /// Those of them that do not touch each other.
    joined: Vec<(u64, u64)>,
    entries: std::vec::IntoIter<GroupEntry>,
    entry: Option<GroupEntry>,
    chunk: u32,
    row: usize,
    keys: Option<KeyColumns>,
    sort_key: Option<SortKey>,
}

struct KeyColumns {
    info: ChunkInfo,
    ids: Bytes,
    timestamps: Fixed,
    removed: Option<Fixed>,
}

impl Cursor {
    fn new(input: &MergeInput, section: usize) -> Result<Self, Error> {
        let ranges = input.locations.clone();
        let joined = joined(&ranges);
        let mut entries = Vec::new();
        if let (Some((first, _)), Some((_, last))) = (ranges.first(), ranges.last()) {
            input.segment.groups(section, (*first >> 32) as u32, |entry| {
                let beyond = u64::from(entry.location) << 32 > *last;
                // What begins before a range reaches into it only where it has no group.
                if !beyond && (entry.group.is_empty() || reach(&ranges, span(entry.location))) {
                    entries.push(entry);
                }
                !beyond
            })?;
        }
        let mut cursor = Cursor {
            segment: Arc::clone(&input.segment),
            section,
            ranges,
            joined,
            entries: entries.into_iter(),
            entry: None,
            chunk: 0,
            row: 0,
            keys: None,
            sort_key: None,
        };
        cursor.next_entry()?;
        Ok(cursor)
    }

    fn section(&self) -> &crate::Section {
        &self.segment.sections()[self.section]
    }

    /// The location of the row it stands at.
    fn location(&self) -> Option<u32> {
        let key = self.sort_key.as_ref()?;
        let (location, _) = key.as_bytes().split_first_chunk::<4>()?;
        Some(u32::from_be_bytes(*location))
    }

    /// All of the reversed location of the row it stands at.
    fn place(&self) -> Option<u64> {
        let (key, entry) = (self.sort_key.as_ref()?, self.entry.as_ref()?);
        let after_group = key.as_bytes().get(4 + entry.group.len() + 1..)?;
        let (low, _) = after_group.split_first_chunk::<4>()?;
        Some(u64::from(self.location()?) << 32 | u64::from(u32::from_be_bytes(*low)))
    }

    fn group(&self) -> Option<(u32, String)> {
        let entry = self.entry.as_ref()?;
        Some((self.location().unwrap_or(entry.location), entry.group.clone()))
    }

    /// Which of the ranges a reversed location is in.
    fn range_of(&self, place: u64) -> usize {
        self.ranges.partition_point(|(_, last)| *last < place)
    }

    fn stands_in(&self, group: &(u32, String)) -> bool {
        self.entry
            .as_ref()
            .is_some_and(|entry| entry.group == group.1 && (group.1.is_empty() || entry.location == group.0))
    }

    fn next_entry(&mut self) -> Result<(), Error> {
        self.begin_entry()?;
        self.skip_outside()
    }

    fn next_row(&mut self) -> Result<(), Error> {
        self.step()?;
        self.skip_outside()
    }

    /// Moves on to a row inside the ranges: of this group or of one after it, whose rows may lie at lower locations than the last of this.
    fn skip_outside(&mut self) -> Result<(), Error> {
        while let Some(place) = self.place() {
            let range = self.ranges.partition_point(|(_, last)| *last < place);
            match self.ranges.get(range) {
                Some((first, _)) if *first <= place => break,
                Some((first, _)) => self.skip_to(*first)?,
                None => self.begin_entry()?,
            }
        }
        Ok(())
    }

    /// Moves on towards a reversed location in the group, or to the next group: over the chunks before it that need not be looked at, else to
    /// the next row.
    fn skip_to(&mut self, place: u64) -> Result<(), Error> {
        let Some(entry) = &self.entry else { return Ok(()) };
        let end = entry.first_chunk + entry.chunks;
        if !entry.group.is_empty() && place >> 32 > u64::from(entry.location) {
            return self.begin_entry();
        }
        if self.row == 0 && self.chunk + 1 < end {
            let following = self.segment.chunks(self.section, self.chunk + 1..end)?;
            let before = following.partition_point(|info| info.first_location < place) as u32;
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
        let Some(entry) = &self.entry else { return Ok(()) };
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

    /// Reads the key of the row it stands at.
    fn read_key(&mut self) -> Result<(), Error> {
        if self.keys.is_none() {
            self.keys = Some(self.read_key_columns()?);
        }
        let Some(keys) = &self.keys else { return Ok(()) };
        let id = keys.ids.get(self.row).and_then(|id| std::str::from_utf8(id).ok());
        let id = id.and_then(|id| DocumentId::parse(id).ok());
        let id = id.ok_or_else(|| self.segment.corrupt(0, "a document id is not one"))?;
        self.sort_key = Some(SortKey::new(&id));
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
                Ok(KeyColumns { info, ids, timestamps, removed })
            }
            _ => Err(self.segment.corrupt(0, "a chunk lacks its ids or timestamps")),
        }
    }

    fn timestamp(&self) -> u64 {
        self.keys.as_ref().map_or(0, |keys| keys.timestamps.cells::<u64>()[self.row])
    }

    fn is_removed(&self) -> bool {
        let removed = self.keys.as_ref().and_then(|keys| keys.removed.as_ref());
        removed.is_some_and(|removed| removed.integer(self.row) == Some(1))
    }

    /// Whether two chunks that follow each other would fit into one.
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

    /// Whether it is at the beginning of a group of which everything is inside the ranges.
    fn is_whole_group(&self) -> bool {
        let Some(entry) = self.entry.as_ref().filter(|entry| !entry.group.is_empty()) else { return false };
        let (first, last) = span(entry.location);
        let place = self.joined.partition_point(|(_, end)| *end < last);
        let inside = self.joined.get(place).is_some_and(|(begin, _)| *begin <= first);
        inside && self.chunk == entry.first_chunk && self.row == 0
    }

    /// Takes over the chunks of the group it is at the beginning of, when all of them stay and need nothing.
    fn take_whole_group(
        &mut self,
        dropped: u64,
        columns: &[ColumnKey],
        policy: &dyn MergePolicy,
        writer: &mut Writer<'_>,
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

/// Rows that were taken for the next chunk.
#[derive(Default)]
struct Taken {
    runs: Vec<Run>,
    info: Option<ChunkInfo>,
    bytes: u64,
}

/// Rows of a chunk of a source.
struct Run {
    segment: Arc<Segment>,
    section: usize,
    chunk: u32,
    rows: Range<usize>,
    /// Bytes a row takes, about.
    row_bytes: u64,
}

struct Output<'a> {
    document_type: &'a str,
    columns: &'a [ColumnKey],
    policy: &'a dyn MergePolicy,
    taken: Taken,
}

impl Output<'_> {
    fn rows_of_group(
        &mut self,
        group: &(u32, String),
        cursors: &mut [Cursor],
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let mut location = group.0;
        let mut known: Option<(usize, u64)> = None;
        loop {
            pace::step();
            // Rows without a group end where a group begins.
            let newest = newest_of_first_key(cursors).filter(|&newest| cursors[newest].stands_in(group));
            let Some(newest) = newest else { break };
            let cursor = &cursors[newest];
            let place = cursor.place().unwrap_or(u64::from(group.0) << 32);
            let dropped = match known {
                // It differs from one document without a group to the next.
                Some((range, dropped)) if !group.1.is_empty() && range == cursor.range_of(place) => dropped,
                _ => self.policy.dropped(self.document_type, place, &group.1),
            };
            known = Some((cursor.range_of(place), dropped));
            let timestamp = cursor.timestamp();
            let forgotten = cursor.is_removed() && timestamp < self.policy.forget_removals_before();
            if timestamp > dropped && !forgotten {
                if self.is_full() {
                    self.flush(location, &group.1, writer)?;
                }
                if self.taken.info.is_none() {
                    location = cursor.location().unwrap_or(group.0);
                }
                self.take(cursor)?;
            }
            let key = cursors[newest].sort_key.clone();
            for cursor in cursors.iter_mut().filter(|cursor| cursor.sort_key == key) {
                cursor.next_row()?;
            }
        }
        self.flush(location, &group.1, writer)
    }

    fn is_full(&self) -> bool {
        self.taken.info.is_some_and(|info| info.documents as usize >= CHUNK_DOCS)
            || self.taken.bytes >= CHUNK_BYTES
    }

    fn take(&mut self, cursor: &Cursor) -> Result<(), Error> {
        let timestamp = cursor.timestamp();
        let location = cursor.sort_key.as_ref().map_or(0, reversed_location);
        let info = self.taken.info.get_or_insert(ChunkInfo {
            documents: 0,
            removed: 0,
            first_location: location,
            oldest: timestamp,
            newest: timestamp,
        });
        info.documents += 1;
        info.removed += u32::from(cursor.is_removed());
        info.oldest = info.oldest.min(timestamp);
        info.newest = info.newest.max(timestamp);
        match self.taken.runs.last_mut() {
            Some(run)
                if Arc::ptr_eq(&run.segment, &cursor.segment)
                    && run.chunk == cursor.chunk
                    && run.rows.end == cursor.row =>
            {
                run.rows.end += 1;
                self.taken.bytes += run.row_bytes;
            }
            _ => {
                let documents = cursor.keys.as_ref().map_or(1, |keys| keys.info.documents.max(1));
                let bytes = cursor.segment.chunk_bytes(cursor.section, cursor.chunk)?;
                let run = Run {
                    segment: Arc::clone(&cursor.segment),
                    section: cursor.section,
                    chunk: cursor.chunk,
                    rows: cursor.row..cursor.row + 1,
                    row_bytes: bytes / u64::from(documents),
                };
                self.taken.bytes += run.row_bytes;
                self.taken.runs.push(run);
            }
        }
        Ok(())
    }

    fn flush(&mut self, location: u32, group: &str, writer: &mut Writer<'_>) -> Result<(), Error> {
        let Taken { runs, info, .. } = std::mem::take(&mut self.taken);
        let Some(info) = info else { return Ok(()) };
        let columns = self.columns.iter().map(|key| self.concat(key, &runs)).collect::<Result<_, _>>()?;
        writer.add(NewChunk { location, group, info, columns })
    }

    fn concat(&self, key: &ColumnKey, runs: &[Run]) -> Result<Option<Column>, Error> {
        pace::step();
        let mut read: HashMap<(u64, u32), Option<Column>> = HashMap::new();
        for run in runs {
            if let std::collections::hash_map::Entry::Vacant(place) =
                read.entry((run.segment.number(), run.chunk))
            {
                place.insert(self.read(key, run)?);
            }
        }
        let parts: Vec<(Option<&Column>, Range<usize>)> = runs
            .iter()
            .map(|run| {
                let column = read.get(&(run.segment.number(), run.chunk)).and_then(Option::as_ref);
                (column, run.rows.clone())
            })
            .collect();
        let joined = concat_with_gaps(&parts);
        if joined.is_none() && is_key_column(key) {
            return Err(runs[0].segment.corrupt(0, "a chunk lacks its ids or timestamps"));
        }
        Ok(joined)
    }

    /// The column of a source's chunk, derived where the source lacks it.
    fn read(&self, key: &ColumnKey, run: &Run) -> Result<Option<Column>, Error> {
        let range = run.chunk..run.chunk + 1;
        let column = |key: &ColumnKey| -> Result<Option<Column>, Error> {
            Ok(run.segment.columns_uncached(run.section, key, range.clone())?.pop().flatten())
        };
        if let Some(column) = column(key)? {
            return Ok(Some(column));
        }
        if key.form != Form::Tokens {
            return Ok(None);
        }
        let value = column(&ColumnKey::value(key.root()))?;
        Ok(value.and_then(|value| self.policy.derive(self.document_type, key, &value)))
    }
}

/// Of the rows that have the first key of all, the cursor of the newest.
fn newest_of_first_key(cursors: &[Cursor]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, cursor) in cursors.iter().enumerate() {
        let Some(key) = &cursor.sort_key else { continue };
        let better =
            best.is_none_or(|best| match cursors[best].sort_key.as_ref().map(|other| key.cmp(other)) {
                Some(Ordering::Less) => true,
                Some(Ordering::Equal) => cursor.timestamp() > cursors[best].timestamp(),
                _ => false,
            });
        if better {
            best = Some(index);
        }
    }
    best
}

/// The reversed location that a sort key has in its two parts.
fn reversed_location(key: &SortKey) -> u64 {
    let bytes = key.as_bytes();
    let group_end = bytes[4..].iter().position(|byte| *byte == 0).map_or(bytes.len(), |end| 4 + end + 1);
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map_or(0, |bytes| u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
    };
    word(0) << 32 | word(group_end)
}

/// The columns one after another, without values where there is no column, or one of another type than the last one: it was
/// written under another schema.
fn concat_with_gaps(parts: &[(Option<&Column>, Range<usize>)]) -> Option<Column> {
    let model = parts.iter().rev().find_map(|(column, _)| *column)?;
    let gap = absent_like(model, parts.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0));
    let filled: Vec<(&Column, Range<usize>)> = parts
        .iter()
        .map(|(column, rows)| match column {
            Some(column) if same_layout(column, model) => (*column, rows.clone()),
            _ => (&gap, 0..rows.len()),
        })
        .collect();
    Column::concat(&filled).ok()
}

fn same_layout(a: &Column, b: &Column) -> bool {
    match (a, b) {
        (Column::Fixed(a), Column::Fixed(b)) => a.cell() == b.cell() && a.width() == b.width(),
        (Column::Bytes(_), Column::Bytes(_)) | (Column::Tokens(_), Column::Tokens(_)) => true,
        _ => false,
    }
}

/// A column of the same layout for so many documents, none of which has a value.
pub fn absent_like(model: &Column, documents: usize) -> Column {
    match model {
        Column::Fixed(model) => {
            let mut builder = FixedBuilder::new(model.cell(), model.width());
            (0..documents).for_each(|_| builder.push_absent());
            Column::Fixed(builder.finish())
        }
        Column::Bytes(_) => {
            let mut builder = BytesBuilder::new();
            (0..documents).for_each(|_| builder.push(None));
            Column::Bytes(builder.finish())
        }
        Column::Tokens(_) => {
            let mut builder = TokensBuilder::new();
            (0..documents).for_each(|_| builder.end_document());
            Column::Tokens(builder.finish())
        }
    }
}
