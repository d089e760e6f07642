//! Documents of one type as of an instant, found group by group.
//!
//! A [`StoreSnapshot`] holds a state and snapshots of its generations of the tail. For a group it finds the
//! chunks in the segments of the group's bucket and the rows of the tail, nothing else. The newest version of
//! each document counts, in the tail or in a segment. Rows of the tail are mostly newer than sealed ones;
//! rows from a replica need not be.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::{BucketId, group_prefix};
use millrace_column::{BytesColumn, Column, ColumnKey, FixedColumn};
use millrace_document::{DocumentGroup, ReversedLocation};
use millrace_segment::{ChunkInfo, SegmentFile};

use crate::context::StoreContext;
use crate::read::group_sources::GroupSources;
use crate::read::masks::{self, GroupMasks, GroupOfBucket, Mask, SegmentChunks, has_all, lacks_keys, unite};
use crate::read::pieces::RowOrder;
use crate::state::{StoreState, StoredBucket, is_of_divided};
use crate::tail::chunk::TailChunk;
use crate::tail::{RowKey, TailSnapshot, TailVersion};
use crate::{Error, StoreLayout, ViewScope};

/// Name of the tail in place of a file, for errors.
pub(crate) const TAIL: &str = "tail";

/// Number of groups of a segment that are looked up together.
const GROUPS_AT_A_TIME: usize = 512;

/// A consistent look at the store.
pub(crate) struct StoreSnapshot<'a> {
    pub shared: &'a StoreContext,
    pub state: Arc<StoreState>,
    pub layout: Arc<dyn StoreLayout>,
    pub layout_number: u64,
    /// Number of the latest write before the snapshots were taken.
    pub written: u64,
    pub(super) snapshots: Vec<Box<dyn TailSnapshot>>,
    pub order: RowOrder,
    /// No request waits for what is read.
    pub(super) is_ahead: bool,
}

/// A chunk, with the masks of the versions that count.
#[derive(Clone)]
pub(crate) struct ChunkPart {
    pub source: ChunkSource,
    pub info: ChunkInfo,
    /// Versions that no newer one replaces and that were not dropped, removals among them.
    pub newest: Mask,
    /// The same without removals.
    pub live: Mask,
}

/// Location of a chunk.
#[derive(Clone)]
pub(crate) enum ChunkSource {
    Segment { segment: Arc<SegmentFile>, section: usize, chunk: u32 },
    Tail(Arc<TailChunk>),
}

/// Position in the order of groups: by location, and by key among those that share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupPosition<'k> {
    pub location: u32,
    pub key: &'k str,
}

impl GroupPosition<'static> {
    /// The position before all groups.
    pub const FIRST: Self = GroupPosition { location: 0, key: "" };
}

/// Callback for each group and its chunks.
pub(crate) type GroupVisitor<'a> =
    dyn FnMut(&DocumentGroup, Vec<ChunkPart>) -> Result<ControlFlow<()>, Error> + 'a;

/// Callback for each group and the locations of its documents.
pub(crate) type FoundVisitor<'a> =
    dyn FnMut(&GroupOfBucket<'_>, GroupSources) -> Result<ControlFlow<()>, Error> + 'a;

/// Groups by location and key, and where their documents are.
type Groups = BTreeMap<(u32, String), GroupSources>;

impl<'a> StoreSnapshot<'a> {
    /// Reads the store as it is now.
    pub fn new(shared: &'a StoreContext, order: RowOrder) -> Self {
        let written = shared.write_numbers.latest();
        let state = shared.state();
        let snapshots = state.generations.iter().map(|generation| generation.tail.snapshot()).collect();
        let (layout, layout_number) = shared.layout();
        StoreSnapshot { shared, state, layout, layout_number, written, snapshots, order, is_ahead: false }
    }

    /// Reads the store as it is now, ahead of those who will ask for it.
    pub fn ahead(shared: &'a StoreContext, order: RowOrder) -> Self {
        StoreSnapshot { is_ahead: true, ..Self::new(shared, order) }
    }

    /// Returns the chunks of a group; without a group, those of the documents without one. If buckets are
    /// given, only their documents are included.
    pub fn group(
        &self,
        document_type: &str,
        group: &DocumentGroup,
        within: Option<&[BucketId]>,
    ) -> Result<Vec<ChunkPart>, Error> {
        let mut parts = Vec::new();
        let (Some(bits), Some(prefix)) = (group.location_bits(), group_prefix(group)) else {
            let within = within.map(|buckets| ViewScope::Buckets(buckets.to_vec()));
            for bucket in self.state.within(&within.unwrap_or(ViewScope::All)) {
                parts.extend(self.ungrouped(document_type, &bucket)?);
            }
            return Ok(once_each(parts));
        };
        let location = bits.reverse_bits();
        let key = group.key();
        let mut of_bucket = |bucket: &StoredBucket| {
            let range = bucket.reversed_range();
            let of = GroupOfBucket { document_type, location, group: &key, range };
            parts.extend(self.recent_group(&of, bucket, &prefix)?);
            Ok::<_, Error>(())
        };
        let buckets = self.state.buckets_of(location);
        for bucket in buckets {
            match within {
                None => of_bucket(bucket)?,
                Some(within) => {
                    // Of several parts of a bucket, those beside the group have none of it.
                    let has_group = |part: &Arc<StoredBucket>| {
                        let (first, last) = part.locations();
                        (first..=last).contains(&location)
                    };
                    bucket.parts_of(within).filter(has_group).try_for_each(|part| of_bucket(&part))?;
                }
            }
        }
        Ok(if buckets.len() > 1 { once_each(parts) } else { parts })
    }

    /// Finds the locations of a group's documents. `prefix`: a prefix of their sort keys.
    pub fn find_group(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        location: u32,
        key: &str,
        prefix: &[u8],
    ) -> Result<GroupSources, Error> {
        let segments = self.find_segments(document_type, bucket, location, key)?;
        let (mut from, mut to) = (prefix.to_vec(), after(prefix));
        if is_of_divided(bucket.id) {
            // The group is followed by the rest of the location, the low half of the reversed one.
            let range = bucket.reversed_range();
            from.extend_from_slice(&range.first.low().to_be_bytes());
            to = range.last.low().checked_add(1).map(|end| [prefix, &end.to_be_bytes()].concat()).or(to);
        }
        let tail = self.tail_rows(&from, to.as_deref(), |row| {
            row.document_type() == document_type && bucket.has(row.reversed_location())
        })?;
        Ok(GroupSources { segments, tail })
    }

    /// The chunks of the documents of a bucket that have no group.
    pub fn ungrouped(&self, document_type: &str, bucket: &StoredBucket) -> Result<Vec<ChunkPart>, Error> {
        let found = self.find_ungrouped(document_type, bucket)?;
        let (location, range) = (bucket.locations().0, bucket.reversed_range());
        self.resolve(&GroupOfBucket { document_type, location, group: "", range }, found)
    }

    /// Finds the locations of documents without a group.
    pub fn find_ungrouped(&self, document_type: &str, bucket: &StoredBucket) -> Result<GroupSources, Error> {
        let segments = self.ungrouped_segments(document_type, bucket)?;
        let (first, last) = bucket.locations();
        let to = last.checked_add(1).map(u32::to_be_bytes);
        let wanted = |row: &RowKey<'_>| {
            row.group.is_empty()
                && row.document_type() == document_type
                && bucket.has(row.reversed_location())
        };
        let tail = self.tail_rows(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), wanted)?;
        Ok(GroupSources { segments, tail })
    }

    /// The chunks in segments that have documents without a group.
    pub(super) fn ungrouped_segments(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
    ) -> Result<Vec<SegmentChunks>, Error> {
        let mut found = GroupSources::default();
        self.entries_of_bucket(document_type, bucket, |segment, section, entry| {
            if entry.group.is_empty() {
                let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
                let infos = segment.chunks(section, chunks.clone())?;
                found.add(segment, section, chunks.zip(infos));
            }
            Ok(())
        })?;
        Ok(found.segments)
    }

    /// Calls `visit` with each group of a bucket that has documents of this type, from a position on, in
    /// order, until it breaks off.
    ///
    /// Only some hundred groups are looked up at a time, so that breaking off early costs little.
    pub fn groups_of_bucket(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        from: GroupPosition<'_>,
        visit: &mut GroupVisitor<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        self.find_groups(document_type, bucket, from, &mut |group, found| {
            let parts = self.resolve(group, found)?;
            match DocumentGroup::from_key(group.group) {
                Some(group) => visit(&group, parts),
                None => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// The same, but only where each group's documents are.
    pub fn find_groups(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        from: GroupPosition<'_>,
        visit: &mut FoundVisitor<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let (first, last) = bucket.locations();
        let mut begin = first.max(from.location);
        loop {
            let (groups, end) = self.some_groups(document_type, bucket, begin, from)?;
            for ((location, group), mut found) in groups {
                found.read_infos()?;
                let range = bucket.reversed_range();
                let in_bucket = GroupOfBucket { document_type, location, group: &group, range };
                if in_bucket.is_divided() {
                    found.segments.iter_mut().for_each(|source| keep_reaching(&mut source.chunks, bucket));
                }
                if let ControlFlow::Break(()) = visit(&in_bucket, found)? {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if end == last {
                return Ok(ControlFlow::Continue(()));
            }
            begin = end + 1;
        }
    }

    /// Returns the groups of a bucket whose locations begin at `begin`, up to the location that is returned
    /// with them.
    fn some_groups(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        begin: u32,
        from: GroupPosition<'_>,
    ) -> Result<(Groups, u32), Error> {
        let wanted = |location: u32, key: &str| !key.is_empty() && GroupPosition { location, key } >= from;
        let (_, mut end) = bucket.locations();
        let mut groups = Groups::new();
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
                    let unread = ChunkInfo {
                        documents: 0,
                        removed: 0,
                        first_location: ReversedLocation::FIRST,
                        oldest: 0,
                        newest: 0,
                    };
                    let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
                    found.add(segment, section, chunks.map(|chunk| (chunk, unread)));
                }
                true
            })?;
        }
        groups.retain(|(location, _), _| *location <= end);
        let to = end.checked_add(1).map(u32::to_be_bytes);
        let mut first = begin.to_be_bytes().to_vec();
        if begin == from.location {
            // What comes before in this location is passed already, and can be much.
            first.extend_from_slice(from.key.as_bytes());
        }
        let rows = self.tail_rows(&first, to.as_ref().map(|to| &to[..]), |row| {
            wanted(row.location, row.group)
                && row.document_type() == document_type
                && bucket.has(row.reversed_location())
        })?;
        for row in rows {
            let key = RowKey::parse(row.key())?;
            groups.entry((key.location, key.group.to_owned())).or_default().tail.push(row);
        }
        Ok((groups, end))
    }

    /// Calls `visit` with the entries of all segments of a bucket that are in its range or reach into it.
    fn entries_of_bucket(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        mut visit: impl FnMut(&Arc<SegmentFile>, usize, millrace_segment::GroupEntry) -> Result<(), Error>,
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

    /// Decides which versions of a group count.
    pub fn resolve(&self, group: &GroupOfBucket<'_>, found: GroupSources) -> Result<Vec<ChunkPart>, Error> {
        let (mut parts, tail) = self.newest(group, found)?;
        if !tail.is_empty() {
            parts.extend(self.tail_parts(group, &tail));
        }
        Ok(parts)
    }

    /// Decides which versions of a group count, in segments and among the rows of the tail: no document is
    /// looked at.
    pub fn newest(
        &self,
        group: &GroupOfBucket<'_>,
        found: GroupSources,
    ) -> Result<(Vec<ChunkPart>, Vec<TailVersion>), Error> {
        let marks = &self.state.marks;
        let masks =
            self.shared.caches.masks.masks(group, &found.segments, marks, self.shared.options.paths)?;
        newest_by(&masks, found)
    }

    /// Decides the same of some of a group's documents. Of the chunks in segments, only those that can have
    /// one of them are given: other documents in these may have newer versions elsewhere.
    pub fn newest_of_some(
        &self,
        group: &GroupOfBucket<'_>,
        found: GroupSources,
    ) -> Result<(Vec<ChunkPart>, Vec<TailVersion>), Error> {
        newest_by(&masks::of_some(group, &found.segments, &self.state.marks)?, found)
    }
}

/// The versions that count in chunks with these masks, and among the rows of the tail.
fn newest_by(
    masks: &GroupMasks,
    mut found: GroupSources,
) -> Result<(Vec<ChunkPart>, Vec<TailVersion>), Error> {
    let mut parts = Vec::new();
    let mut masks = masks.newest.iter().zip(&masks.live);
    for source in &found.segments {
        for (chunk, info) in &source.chunks {
            let (newest, live) =
                masks.next().map_or((None, None), |(newest, live)| (newest.clone(), live.clone()));
            let segment = Arc::clone(&source.segment);
            let source = ChunkSource::Segment { segment, section: source.section, chunk: *chunk };
            parts.push(ChunkPart { source, info: *info, newest, live });
        }
    }
    if !found.tail.is_empty() {
        found.replace(&mut parts)?;
    }
    Ok((parts, found.tail))
}

/// Merges chunks of several buckets, which can share some if a group is divided or there is no group: each
/// chunk once, with the versions that count in any bucket, in the order of their files.
pub(super) fn once_each(parts: Vec<ChunkPart>) -> Vec<ChunkPart> {
    let mut of_segments: BTreeMap<(u64, u32), ChunkPart> = BTreeMap::new();
    let mut of_tail = Vec::new();
    for part in parts {
        let ChunkSource::Segment { segment, chunk, .. } = &part.source else {
            of_tail.push(part);
            continue;
        };
        match of_segments.entry((segment.number(), *chunk)) {
            Entry::Vacant(free) => {
                free.insert(part);
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                unite(&mut known.newest, part.newest, part.info.documents);
                unite(&mut known.live, part.live, part.info.documents);
            }
        }
    }
    of_segments.into_values().chain(of_tail).collect()
}

/// Keeps those of a group's chunks that can have documents of a bucket.
pub(super) fn keep_reaching(chunks: &mut Vec<(u32, ChunkInfo)>, bucket: &StoredBucket) {
    if !is_of_divided(bucket.id) {
        return;
    }
    let range = bucket.reversed_range();
    let end = chunks.partition_point(|(_, info)| info.first_location <= range.last);
    let begin = chunks.partition_point(|(_, info)| info.first_location < range.first).saturating_sub(1);
    chunks.truncate(end);
    chunks.drain(..begin.min(end));
}

/// The first key after all that begin with `prefix`.
pub(super) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if last < u8::MAX {
            after.push(last + 1);
            return Some(after);
        }
    }
    None
}

impl ChunkPart {
    /// The ids and the timestamps of its versions.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it lacks them: nothing can be said of its documents.
    pub fn keys(&self) -> Result<(BytesColumn, FixedColumn), Error> {
        self.keys_of(|key| self.column(key))
    }

    /// [`ChunkPart::keys`] out of columns that are read with `column`.
    pub fn keys_of(
        &self,
        column: impl Fn(&ColumnKey) -> Result<Option<Column>, Error>,
    ) -> Result<(BytesColumn, FixedColumn), Error> {
        match (column(&ColumnKey::id())?, column(&ColumnKey::timestamp())?) {
            (Some(Column::Bytes(ids)), Some(Column::Fixed(timestamps)))
                if timestamps.cell().size() == 8 && timestamps.width() == 1 && has_all(&ids) =>
            {
                Ok((ids, timestamps))
            }
            _ => Err(lacks_keys(self.path())),
        }
    }

    /// Returns the id of a version as text, out of the ids of all.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not text.
    pub fn document_id<'c>(&self, ids: &'c BytesColumn, row: usize) -> Result<&'c str, Error> {
        let id = ids.get(row).and_then(|id| std::str::from_utf8(id).ok());
        id.ok_or_else(|| lacks_keys(self.path()))
    }

    /// The versions that a visit covers: the newest of each document, with or without removals.
    pub fn visited(&self, removals: bool) -> &Mask {
        if removals { &self.newest } else { &self.live }
    }

    /// Number of documents of which it has the version that counts.
    pub fn live_documents(&self) -> u64 {
        match &self.live {
            None => u64::from(self.info.documents),
            Some(words) => words.iter().map(|word| u64::from(word.count_ones())).sum(),
        }
    }

    /// The file that it is in, for errors.
    pub fn path(&self) -> &Path {
        match &self.source {
            ChunkSource::Segment { segment, .. } => segment.path(),
            ChunkSource::Tail(_) => Path::new(TAIL),
        }
    }

    /// A column of the chunk.
    pub fn column(&self, key: &ColumnKey) -> Result<Option<Column>, Error> {
        match &self.source {
            ChunkSource::Tail(chunk) => chunk.column(key),
            ChunkSource::Segment { segment, section, chunk } => {
                Ok(segment.columns(*section, key, *chunk..*chunk + 1)?.pop().flatten())
            }
        }
    }
}
