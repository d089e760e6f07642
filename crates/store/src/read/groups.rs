//! Groups and the size of each, from directories, masks and keys: no document is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::{BucketId, group_prefix};
use millrace_column::{Column, ColumnKey};
use millrace_document::{DocumentGroup, Timestamp};

use crate::context::StoreContext;
use crate::read::masks::{GroupOfBucket, is_set};
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, ChunkSource, GroupPosition, StoreSnapshot};
use crate::state::StoredBucket;
use crate::tail::RowKey;
use crate::{Error, ViewScope};

/// A group of documents, and its size at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGroup {
    /// Group.
    pub group: DocumentGroup,
    /// Number of documents.
    pub documents: u64,
    /// Bytes in files: the columns of its chunks and its rows in the tail. Replaced and removed versions
    /// count until a merge leaves them out.
    pub bytes: u64,
    /// Timestamp of the newest document; 0 without documents.
    pub last_write: Timestamp,
}

/// A page of the groups of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredGroupPage {
    /// Groups that have documents, in the order in which they are stored.
    pub groups: Vec<StoredGroup>,
    /// Last group that was looked at, after which the next page begins; `None` at the end.
    pub continuation: Option<DocumentGroup>,
}

impl StoredGroup {
    /// Adds other documents of the same group, which are in other buckets.
    pub fn add(&mut self, other: &StoredGroup) {
        assert!(self.group == other.group, "sizes of different groups are not added: {self:?}, {other:?}");
        self.documents += other.documents;
        self.bytes += other.bytes;
        self.last_write = self.last_write.max(other.last_write);
    }
}

impl StoredGroupPage {
    /// Merges the pages of several stores, each of which was read in other buckets after the same group, to
    /// one of at most `wanted` groups.
    pub fn merged(pages: Vec<StoredGroupPage>, wanted: usize) -> StoredGroupPage {
        // Behind the end of any page, groups of its store are not known.
        let ends = pages.iter().filter_map(|page| page.continuation.as_ref());
        let end = ends.filter_map(order_key).min();
        let mut all: BTreeMap<GroupOrderKey, StoredGroup> = BTreeMap::new();
        for group in pages.into_iter().flat_map(|page| page.groups) {
            let order = order_key(&group.group).filter(|order| end.as_ref().is_none_or(|end| order <= end));
            let Some(order) = order else { continue };
            match all.get_mut(&order) {
                Some(sum) => sum.add(&group),
                None => drop(all.insert(order, group)),
            }
        }
        let is_cut = all.len() > wanted;
        while all.len() > wanted {
            all.pop_last();
        }
        let last = if is_cut { all.last_key_value().map(|(order, _)| order.clone()) } else { end };
        let continuation = last.and_then(|(_, key)| DocumentGroup::from_key(&key));
        StoredGroupPage { groups: all.into_values().collect(), continuation }
    }
}

/// Location and key of a group, as [`GroupPosition`] orders them.
type GroupOrderKey = (u32, String);

/// Returns the page of the groups of a scope after a group. At most `wanted` groups are looked at: those
/// without documents are left out, so a page can be shorter.
pub(crate) fn page(
    shared: &StoreContext,
    document_types: &[&str],
    scope: &ViewScope,
    after: Option<&DocumentGroup>,
    wanted: usize,
) -> Result<StoredGroupPage, Error> {
    let reading = StoreSnapshot::new(shared, RowOrder::Keys);
    let after = after.and_then(order_key);
    let buckets = reading.state.within(scope);
    // One more than wanted, to see if another page follows.
    let mut found = find_keys(&reading, document_types, &buckets, after.as_ref(), wanted + 1)?;
    let is_end = found.len() <= wanted;
    while found.len() > wanted {
        found.pop_last();
    }
    let mut groups = Vec::with_capacity(found.len());
    let mut last = None;
    for (_, key) in found {
        let Some(group) = DocumentGroup::from_key(&key) else { continue };
        let measured = measure(&reading, document_types, &group, within_of(scope))?;
        groups.extend(Some(measured).filter(|measured| measured.documents > 0));
        last = Some(group);
    }
    Ok(StoredGroupPage { groups, continuation: last.filter(|_| !is_end) })
}

/// Returns the size of one group, or of its documents in some buckets.
pub(crate) fn one(
    shared: &StoreContext,
    document_types: &[&str],
    group: &DocumentGroup,
    within: Option<&[BucketId]>,
) -> Result<StoredGroup, Error> {
    measure(&StoreSnapshot::new(shared, RowOrder::Keys), document_types, group, within)
}

/// Buckets of a scope; `None`: all.
fn within_of(scope: &ViewScope) -> Option<&[BucketId]> {
    match scope {
        ViewScope::Buckets(buckets) | ViewScope::GroupsIn(_, buckets) => Some(buckets),
        ViewScope::Groups(_) | ViewScope::All => None,
    }
}

/// Returns the number of segment files with versions of a group, in use for any bucket.
pub(crate) fn files_with(shared: &StoreContext, group: &DocumentGroup) -> Result<u64, Error> {
    let state = shared.state();
    let Some((location, key)) = order_key(group) else { return Ok(0) };
    let (mut seen, mut files) = (BTreeSet::new(), 0);
    for bucket in state.within(&ViewScope::All) {
        for segment in bucket.open_segments()? {
            if !seen.insert(segment.number()) {
                continue;
            }
            let sections = 0..segment.sections().len();
            let found = sections.map(|section| segment.group(section, location, &key));
            let found: Vec<_> = found.collect::<Result<_, _>>()?;
            files += u64::from(found.iter().any(Option::is_some));
        }
    }
    Ok(files)
}

fn order_key(group: &DocumentGroup) -> Option<GroupOrderKey> {
    Some((group.location_bits()?.reverse_bits(), group.key()))
}

/// The first groups of buckets after one, at most `wanted`. The buckets are in the order of keys.
fn find_keys(
    reading: &StoreSnapshot<'_>,
    document_types: &[&str],
    buckets: &[Arc<StoredBucket>],
    after: Option<&GroupOrderKey>,
    wanted: usize,
) -> Result<BTreeSet<GroupOrderKey>, Error> {
    let from =
        after.map_or(GroupPosition::FIRST, |(location, key)| GroupPosition { location: *location, key });
    let mut found: BTreeSet<GroupOrderKey> = BTreeSet::new();
    for bucket in buckets {
        let (first, last) = bucket.locations();
        if last < from.location {
            continue;
        }
        // Parts of a divided group have equal locations: what one part has can precede what another has.
        let is_beyond = found.last().is_some_and(|(location, _)| *location < first);
        if found.len() >= wanted && is_beyond {
            break;
        }
        for document_type in document_types {
            let mut count = 0;
            let _ = reading.find_groups(document_type, bucket, from, &mut |group, _| {
                let order = (group.location, group.group.to_owned());
                if after != Some(&order) {
                    count += 1;
                    found.insert(order);
                }
                Ok(if count < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
    }
    while found.len() > wanted {
        found.pop_last();
    }
    Ok(found)
}

fn measure(
    reading: &StoreSnapshot<'_>,
    document_types: &[&str],
    group: &DocumentGroup,
    within: Option<&[BucketId]>,
) -> Result<StoredGroup, Error> {
    let mut measured = StoredGroup { group: group.clone(), documents: 0, bytes: 0, last_write: Timestamp(0) };
    let (Some((location, key)), Some(prefix)) = (order_key(group), group_prefix(group)) else {
        return Ok(measured);
    };
    // The parts of a divided group share chunks.
    let mut chunks = BTreeSet::new();
    let all = reading.state.buckets_of(location);
    let has_location = |bucket: &Arc<StoredBucket>| {
        let (first, last) = bucket.locations();
        (first..=last).contains(&location)
    };
    let buckets: Vec<Arc<StoredBucket>> = match within {
        None => all.to_vec(),
        Some(within) => all.iter().flat_map(|bucket| bucket.parts_of(within)).filter(has_location).collect(),
    };
    for bucket in &buckets {
        for document_type in document_types {
            let found = reading.find_group(document_type, bucket, location, &key, &prefix)?;
            let of_bucket =
                GroupOfBucket { document_type, location, group: &key, range: bucket.reversed_range() };
            let (parts, tail) = reading.newest(&of_bucket, found)?;
            for part in &parts {
                measured.add_chunk(part, &mut chunks)?;
            }
            let marks = &reading.state.marks;
            for row in tail.iter().filter(|row| !row.removed) {
                let row = RowKey::parse(row.key())?;
                if row.timestamp.0 > marks.dropped_until(document_type, row.reversed_location(), row.group) {
                    measured.documents += 1;
                    measured.last_write = measured.last_write.max(row.timestamp);
                }
            }
        }
    }
    measured.bytes += reading.tail_bytes(&prefix, |row| {
        row.group == key
            && document_types.contains(&row.document_type())
            && buckets.iter().any(|bucket| bucket.has(row.reversed_location()))
    })?;
    Ok(measured)
}

impl StoredGroup {
    /// Adds the documents of a chunk that count in one bucket, and its bytes, once.
    fn add_chunk(&mut self, part: &ChunkPart, chunks: &mut BTreeSet<(u64, u32)>) -> Result<(), Error> {
        let ChunkSource::Segment { segment, section, chunk } = &part.source else {
            unreachable!("the rows of the tail are counted by their keys");
        };
        if chunks.insert((segment.number(), *chunk)) {
            self.bytes += segment.chunk_bytes(*section, *chunk)?;
        }
        let live = part.live_documents();
        self.documents += live;
        if live == u64::from(part.info.documents) {
            self.last_write = self.last_write.max(Timestamp(part.info.newest));
        } else if live > 0 && part.info.newest > self.last_write.0 {
            let timestamps = part.column(&ColumnKey::timestamp())?;
            let Some(Column::Fixed(timestamps)) = timestamps else { return part.keys().map(drop) };
            let live = timestamps.cells::<u64>().iter().enumerate();
            let newest = live.filter(|(row, _)| is_set(&part.live, *row)).map(|(_, timestamp)| *timestamp);
            self.last_write = self.last_write.max(Timestamp(newest.max().unwrap_or(0)));
        }
        Ok(())
    }
}
