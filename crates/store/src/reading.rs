//! The documents of one type as they are at an instant, found group by group.
//!
//! A [`Reading`] holds a state and snapshots of its generations of the tail. For a group it finds the chunks in the segments of the
//! group's bucket and the rows of the tail, nothing else, and decides which versions count. Rows of the tail are newer than all in
//! segments, since generations are sealed in order.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::group_prefix;
use millrace_column::ColumnKey;
use millrace_document::Group;
use millrace_segment::{ChunkInfo, Segment};

use crate::masks::{GroupIn, Mask, SegmentChunks, clear, ids, is_set};
use crate::shared::Shared;
use crate::state::{Bucket, State};
use crate::tail::{Row, RowKey, TailSnapshot};
use crate::tail_chunk::{self, TailChunk};
use crate::{Error, Layout};

/// So many groups of a segment are looked up at a time.
const GROUPS_AT_A_TIME: usize = 512;

/// A consistent look at the store.
pub(crate) struct Reading<'a> {
    pub shared: &'a Shared,
    pub state: Arc<State>,
    pub layout: Arc<dyn Layout>,
    layout_number: u64,
    snapshots: Vec<Box<dyn TailSnapshot>>,
}

/// A chunk, and which of its versions count.
#[derive(Clone)]
pub(crate) struct Part {
    pub source: Source,
    pub info: ChunkInfo,
    /// Versions that no newer one replaces and that were not dropped, removals among them.
    pub newest: Mask,
    /// The same without removals.
    pub live: Mask,
}

/// Where a chunk is.
#[derive(Clone)]
pub(crate) enum Source {
    Segment { segment: Arc<Segment>, section: usize, chunk: u32 },
    Tail(Arc<TailChunk>),
}

/// Where the group's documents are.
#[derive(Default)]
struct Found {
    segments: Vec<SegmentChunks>,
    /// Keys of tail rows, the newest version of each document, in order.
    tail: Vec<Vec<u8>>,
}

impl<'a> Reading<'a> {
    /// As the store is now.
    pub fn new(shared: &'a Shared) -> Self {
        let state = shared.state();
        let snapshots = state.generations.iter().map(|generation| generation.tail.snapshot()).collect();
        let (layout, layout_number) = shared.layout();
        Reading { shared, state, layout, layout_number, snapshots }
    }

    /// The chunks of a group; of no group, those of the documents without one.
    pub fn group(&self, document_type: &str, group: &Group) -> Result<Vec<Part>, Error> {
        let (Some(bits), Some(prefix)) = (group.location_bits(), group_prefix(group)) else {
            let mut parts = Vec::new();
            for bucket in &self.state.buckets {
                parts.extend(self.ungrouped(document_type, bucket)?);
            }
            return Ok(parts);
        };
        let location = bits.reverse_bits();
        let key = group.key();
        let bucket = self.state.bucket(location);
        let mut found = Found::default();
        for segment in bucket.open_segments()? {
            let Some(section) = segment.section(document_type) else { continue };
            let Some(entry) = segment.group(section, location, &key)? else { continue };
            let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
            let infos = segment.chunks(section, chunks.clone())?;
            let chunks = chunks.zip(infos).collect();
            found.segments.push(SegmentChunks { segment: Arc::clone(segment), section, chunks });
        }
        found.tail =
            self.tail_keys(&prefix, after(&prefix).as_deref(), |row| row.document_type() == document_type)?;
        let locations = bucket.locations();
        self.resolve(&GroupIn { document_type, location, group: &key, locations }, found)
    }

    /// The chunks of the documents of a bucket that have no group.
    pub fn ungrouped(&self, document_type: &str, bucket: &Bucket) -> Result<Vec<Part>, Error> {
        let mut found = Found::default();
        self.entries_of_bucket(document_type, bucket, |segment, section, entry| {
            if entry.group.is_empty() {
                let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
                let infos = segment.chunks(section, chunks.clone())?;
                found.add(segment, section, chunks.zip(infos));
            }
            Ok(())
        })?;
        let (first, last) = bucket.locations();
        let to = last.checked_add(1).map(u32::to_be_bytes);
        let wanted = |row: &RowKey<'_>| row.group.is_empty() && row.document_type() == document_type;
        found.tail = self.tail_keys(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), wanted)?;
        let group = GroupIn { document_type, location: first, group: "", locations: (first, last) };
        self.resolve(&group, found)
    }

    /// Calls `visit` with each group of a bucket that has documents of this type, from a place on, in order, until it breaks off.
    ///
    /// Only some hundred groups are looked up at a time, so that breaking off early costs little.
    pub fn groups_of_bucket(
        &self,
        document_type: &str,
        bucket: &Bucket,
        from: (u32, &str),
        visit: &mut dyn FnMut(&Group, Vec<Part>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<ControlFlow<()>, Error> {
        let (first, last) = bucket.locations();
        let mut begin = first.max(from.0);
        loop {
            let (groups, end) = self.some_groups(document_type, bucket, begin, from)?;
            for ((location, group), mut found) in groups {
                found.read_infos()?;
                let in_bucket = GroupIn { document_type, location, group: &group, locations: (first, last) };
                let parts = self.resolve(&in_bucket, found)?;
                let Some(group) = Group::from_key(&group) else { continue };
                if let ControlFlow::Break(()) = visit(&group, parts)? {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if end == last {
                return Ok(ControlFlow::Continue(()));
            }
            begin = end + 1;
        }
    }

    /// The groups of a bucket whose locations begin at `begin`, up to the location that is returned with them.
    fn some_groups(
        &self,
        document_type: &str,
        bucket: &Bucket,
        begin: u32,
        from: (u32, &str),
    ) -> Result<(BTreeMap<(u32, String), Found>, u32), Error> {
        let wanted = |location: u32, group: &str| !group.is_empty() && (location, group) >= from;
        let (_, mut end) = bucket.locations();
        let mut groups: BTreeMap<(u32, String), Found> = BTreeMap::new();
        for segment in bucket.open_segments()? {
            let Some(section) = segment.section(document_type) else { continue };
            let (mut count, mut reached) = (0, begin);
            segment.groups(section, begin, |entry| {
                if entry.location > end {
                    return false;
                }
                // Groups of one location are taken together.
                if count >= GROUPS_AT_A_TIME && entry.location > reached {
                    end = reached;
                    return false;
                }
                if entry.location >= begin && wanted(entry.location, &entry.group) {
                    count += 1;
                    reached = entry.location;
                    let found = groups.entry((entry.location, entry.group)).or_default();
                    // What the chunks hold is read when the group's turn comes.
                    let unread =
                        ChunkInfo { documents: 0, removed: 0, first_location: 0, oldest: 0, newest: 0 };
                    let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
                    found.add(segment, section, chunks.map(|chunk| (chunk, unread)));
                }
                true
            })?;
        }
        groups.retain(|(location, _), _| *location <= end);
        let to = end.checked_add(1).map(u32::to_be_bytes);
        let keys = self.tail_keys(&begin.to_be_bytes(), to.as_ref().map(|to| &to[..]), |row| {
            wanted(row.location, row.group) && row.document_type() == document_type
        })?;
        for key in keys {
            let row = RowKey::parse(&key)?;
            groups.entry((row.location, row.group.to_owned())).or_default().tail.push(key);
        }
        Ok((groups, end))
    }

    /// Calls `visit` with the entries of all segments of a bucket that are in its range or reach into it.
    fn entries_of_bucket(
        &self,
        document_type: &str,
        bucket: &Bucket,
        mut visit: impl FnMut(&Arc<Segment>, usize, millrace_segment::GroupEntry) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (first, last) = bucket.locations();
        for segment in bucket.open_segments()? {
            let Some(section) = segment.section(document_type) else { continue };
            let mut outcome = Ok(());
            segment.groups(section, first, |entry| {
                if entry.location > last {
                    return false;
                }
                if entry.location >= first || entry.group.is_empty() {
                    outcome = visit(segment, section, entry);
                }
                outcome.is_ok()
            })?;
            outcome?;
        }
        Ok(())
    }

    /// The keys of tail rows in a range, the newest version of each document alone, in order.
    fn tail_keys(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        wanted: impl Fn(&RowKey<'_>) -> bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for snapshot in &self.snapshots {
            snapshot.range(from, to, &mut |key, _| {
                let row = RowKey::parse(key)?;
                let newest = keys.last().is_none_or(|last| !is_same_document(last, row.sort_key));
                if newest && wanted(&row) {
                    keys.push(key.to_vec());
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        if self.snapshots.len() > 1 {
            keys.sort_unstable();
            keys.dedup_by(|later, first| {
                RowKey::parse(later).is_ok_and(|later| is_same_document(first, later.sort_key))
            });
        }
        Ok(keys)
    }

    /// Decides which versions of a group count.
    fn resolve(&self, group: &GroupIn<'_>, found: Found) -> Result<Vec<Part>, Error> {
        let marks = &self.state.marks;
        let masks = self.shared.caches.masks.masks(group, &found.segments, marks)?;
        let mut parts = Vec::new();
        let mut masks = masks.newest.iter().zip(&masks.live);
        for source in &found.segments {
            for (chunk, info) in &source.chunks {
                let (newest, live) =
                    masks.next().map_or((None, None), |(newest, live)| (newest.clone(), live.clone()));
                let segment = Arc::clone(&source.segment);
                let source = Source::Segment { segment, section: source.section, chunk: *chunk };
                parts.push(Part { source, info: *info, newest, live });
            }
        }
        if !found.tail.is_empty() {
            replace_in_segments(&found, &mut parts)?;
            parts.extend(self.tail_parts(group, &found.tail)?);
        }
        Ok(parts)
    }

    /// Rows of the tail as chunks, from the cache where it has them.
    fn tail_parts(&self, group: &GroupIn<'_>, keys: &[Vec<u8>]) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for keys in keys.chunks(millrace_column::CHUNK_DOCS) {
            let name = tail_chunk::name(self.layout_number, keys.iter().map(Vec::as_slice));
            let chunk = match self.shared.caches.tail_chunks.get(name) {
                Some(chunk) => chunk,
                None => {
                    if keys.len() * 2 >= millrace_column::CHUNK_DOCS {
                        self.shared.counters.seal_wanted.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    let chunk = Arc::new(self.tail_chunk(group.document_type, keys)?);
                    self.shared.caches.tail_chunks.insert(name, Arc::clone(&chunk));
                    chunk
                }
            };
            parts.push(self.tail_part(group, chunk));
        }
        Ok(parts)
    }

    fn tail_chunk(&self, document_type: &str, keys: &[Vec<u8>]) -> Result<TailChunk, Error> {
        let mut rows: Vec<Option<Row>> = vec![None; keys.len()];
        let mut bytes = 0;
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(TailChunk::new(document_type, Arc::clone(&self.layout), Vec::new(), 0));
        };
        let mut end = last.clone();
        end.push(0);
        for snapshot in &self.snapshots {
            let mut next = 0;
            snapshot.range(first, Some(&end), &mut |key, value| {
                while next < keys.len() && keys[next].as_slice() < key {
                    next += 1;
                }
                if next < keys.len() && keys[next] == key {
                    rows[next] = Some(Row::decode(&RowKey::parse(key)?, value)?);
                    bytes += key.len() + value.len();
                }
                Ok(if next < keys.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
        let rows = rows.into_iter().flatten().collect();
        Ok(TailChunk::new(document_type, Arc::clone(&self.layout), rows, bytes))
    }

    fn tail_part(&self, group: &GroupIn<'_>, chunk: Arc<TailChunk>) -> Part {
        let marks = &self.state.marks;
        let dropped = marks.dropped(group.document_type, group.location, group.group);
        let by_place = group.group.is_empty() && marks.has_locations();
        let documents = chunk.rows.len() as u32;
        let (mut newest, mut live) = (None, None);
        for (index, row) in chunk.rows.iter().enumerate() {
            let dropped = if by_place {
                let location = (row.document.id.location().reversed() >> 32) as u32;
                marks.dropped(group.document_type, location, "")
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
            first_location: chunk.rows.first().map_or(0, |row| row.document.id.location().reversed()),
            oldest: timestamps().min().unwrap_or(0),
            newest: timestamps().max().unwrap_or(0),
        };
        Part { source: Source::Tail(chunk), info, newest, live }
    }
}

impl Found {
    fn read_infos(&mut self) -> Result<(), Error> {
        for source in &mut self.segments {
            for (chunk, info) in &mut source.chunks {
                if let Some(read) = source.segment.chunks(source.section, *chunk..*chunk + 1)?.pop() {
                    *info = read;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        segment: &Arc<Segment>,
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

/// Takes out of the segments' masks what the tail has newer versions of. Only the chunks that can have such a document are read.
fn replace_in_segments(found: &Found, parts: &mut [Part]) -> Result<(), Error> {
    let mut first_part = 0;
    for source in &found.segments {
        let mut candidates: HashMap<usize, Vec<&str>> = HashMap::new();
        for key in &found.tail {
            let row = RowKey::parse(key)?;
            let location = row.reversed_location();
            let after = source.chunks.partition_point(|(_, info)| info.first_location <= location);
            let before = source.chunks.partition_point(|(_, info)| info.first_location < location);
            for chunk in before.saturating_sub(1)..after {
                candidates.entry(chunk).or_default().push(row.id);
            }
        }
        for (index, wanted) in candidates {
            let (chunk, info) = source.chunks[index];
            let ids = ids(source, chunk..chunk + 1)?;
            let part = &mut parts[first_part + index];
            let wanted: std::collections::HashSet<&[u8]> = wanted.into_iter().map(str::as_bytes).collect();
            for row in 0..info.documents as usize {
                if is_set(&part.newest, row) && ids[0].get(row).is_some_and(|id| wanted.contains(id)) {
                    clear(&mut part.newest, row, info.documents);
                    clear(&mut part.live, row, info.documents);
                }
            }
        }
        first_part += source.chunks.len();
    }
    Ok(())
}

/// Whether the row of this key is a version of the document with this sort key.
fn is_same_document(row_key: &[u8], sort_key: &[u8]) -> bool {
    row_key.len() == sort_key.len() + 9 && row_key.starts_with(sort_key)
}

/// The first key after all that begin with `prefix`.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if last < u8::MAX {
            after.push(last + 1);
            return Some(after);
        }
    }
    None
}

impl Part {
    /// A column of the chunk.
    pub fn column(&self, key: &ColumnKey) -> Result<Option<millrace_column::Column>, Error> {
        match &self.source {
            Source::Tail(chunk) => Ok(chunk.column(key)),
            Source::Segment { segment, section, chunk } => {
                Ok(segment.columns(*section, key, *chunk..*chunk + 1)?.pop().flatten())
            }
        }
    }
}
