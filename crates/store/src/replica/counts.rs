//! Contents of a bucket as a few numbers, which are equal on two nodes if the documents are: their layout in
//! files does not matter.
//!
//! Counting reads the ids and timestamps of the documents, nothing else of them. Counts over segments are
//! kept, bucket by bucket, together with the list of counted segments: if segments are added, only the groups
//! in those are counted again, and rows of the tail cost as much as their groups. A merge leaves the counts
//! unchanged. After a start everything is counted again on demand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::{BucketId, group_prefix};
use millrace_document::DocumentGroup;
use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Error;
use crate::read::group_sources::GroupSources;
use crate::read::masks::{GroupOfBucket, is_set};
use crate::read::reading::{GroupPosition, StoreSnapshot};
use crate::state::StoredBucket;
use crate::state::marks::DropMark;
use crate::tail::RowKey;
use crate::upkeep::merging::last_mark;

/// Counts and checksums of a set of documents. They are additive: the sum of the counts of two disjoint sets
/// is that of their union.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReplicaCounts {
    pub documents: u64,
    /// Checksum: the sum of hashes of ids and timestamps of the documents.
    documents_sum: u64,
    /// Checksums of the removals, by spans of time, so that old ones can be left out.
    removals: BTreeMap<u64, u64>,
}

/// Division of removals into spans of time: by the lowest bits of their timestamps, all values of which are
/// in one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemovalSpan(u32);

impl RemovalSpan {
    /// Creates spans for removals that are remembered for `retention`: some dozens of them.
    pub fn new(retention: Duration) -> Self {
        let span_us = (retention.as_micros() as u64 / 64).max(1);
        RemovalSpan(span_us.ilog2())
    }

    fn index(self, timestamp: u64) -> u64 {
        timestamp >> self.0
    }
}

impl ReplicaCounts {
    /// One number over all documents, and the removals from a time on; of that time's own span, those before
    /// it count too.
    pub fn checksum(&self, removals_since: u64, span: RemovalSpan) -> u64 {
        let removals = self.removals.range(span.index(removals_since)..);
        removals.fold(self.documents_sum, |sum, (_, removal)| sum.wrapping_add(*removal))
    }

    /// Returns true if there is no document, and no removal from a time on.
    pub fn is_empty(&self, removals_since: u64, span: RemovalSpan) -> bool {
        self.documents == 0 && self.removals.range(span.index(removals_since)..).next().is_none()
    }

    fn add_version(&mut self, id: &[u8], timestamp: u64, removed: bool, span: RemovalSpan) {
        let hash = xxh3_64_with_seed(id, timestamp);
        if removed {
            let sum = self.removals.entry(span.index(timestamp)).or_default();
            *sum = sum.wrapping_add(hash);
        } else {
            self.documents += 1;
            self.documents_sum = self.documents_sum.wrapping_add(hash);
        }
    }

    /// Adds those of other documents.
    pub fn add(&mut self, other: &ReplicaCounts) {
        self.change(other, u64::wrapping_add);
    }

    /// Subtracts the counts of some of the documents.
    fn subtract(&mut self, other: &ReplicaCounts) {
        self.change(other, u64::wrapping_sub);
    }

    fn change(&mut self, other: &ReplicaCounts, change: impl Fn(u64, u64) -> u64) {
        self.documents = change(self.documents, other.documents);
        self.documents_sum = change(self.documents_sum, other.documents_sum);
        for (span, sum) in &other.removals {
            let own = self.removals.entry(*span).or_default();
            *own = change(*own, *sum);
        }
        self.removals.retain(|_, sum| *sum != 0);
    }
}

/// Counts over segments.
struct SegmentCounts {
    /// Numbers of the counted segments, sorted.
    segments: Vec<u64>,
    /// Time until which drops that the store learned of are taken into account.
    since: u64,
    span: RemovalSpan,
    counts: ReplicaCounts,
}

/// Counts over segments, by bucket.
#[derive(Default)]
pub(crate) struct CountCache(Mutex<HashMap<BucketId, Arc<SegmentCounts>>>);

impl CountCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<BucketId, Arc<SegmentCounts>>> {
        self.0.lock()
    }

    /// Updates the counts after one segment replaced others in these buckets, each with the last mark that is
    /// applied in it. Counts made without that mark are discarded: the merge left out the dropped documents.
    pub fn merged(&self, buckets: &[(BucketId, u64)], gone: &[u64], merged: Option<u64>) {
        let mut all = self.lock();
        for (bucket, applied) in buckets {
            let Some(counted) = all.get(bucket) else { continue };
            if counted.since < *applied {
                all.remove(bucket);
                continue;
            }
            if !gone.iter().all(|number| counted.segments.contains(number)) {
                continue;
            }
            let stay = counted.segments.iter().filter(|number| !gone.contains(number)).copied();
            let mut segments: Vec<u64> = stay.chain(merged).collect();
            segments.sort_unstable();
            let counted = SegmentCounts { segments, counts: counted.counts.clone(), ..**counted };
            all.insert(*bucket, Arc::new(counted));
        }
    }

    /// Documents in a bucket's segments: counted, where they were since these changed; else as the manifest
    /// has them.
    pub fn documents(&self, bucket: &StoredBucket) -> u64 {
        let all = self.lock();
        let counted = all.get(&bucket.id).filter(|counted| {
            counted.segments.len() == bucket.segments.len()
                && counted.segments.iter().all(|number| bucket.has_segment(*number))
        });
        counted.map_or_else(|| bucket.documents(), |counted| counted.counts.documents)
    }

    /// These buckets have nothing any more.
    pub fn forget(&self, buckets: &[BucketId]) {
        let mut all = self.lock();
        buckets.iter().for_each(|bucket| drop(all.remove(bucket)));
    }
}

/// Groups by type, location and key. Documents without a group form one: with the empty key at the bucket's
/// first location.
type Groups = BTreeSet<(String, u32, String)>;

/// Counts buckets, as the store is at one instant.
pub(crate) struct BucketCounting<'a> {
    reading: StoreSnapshot<'a>,
    cache: &'a CountCache,
    marks: Vec<DropMark>,
    span: RemovalSpan,
}

impl<'a> BucketCounting<'a> {
    pub fn new(reading: StoreSnapshot<'a>, cache: &'a CountCache, span: RemovalSpan) -> Self {
        let marks = reading.state.marks.list();
        BucketCounting { reading, cache, marks, span }
    }

    pub fn reading(&self) -> &StoreSnapshot<'a> {
        &self.reading
    }

    /// Counts the contents of a bucket.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn bucket(&self, bucket: &StoredBucket) -> Result<ReplicaCounts, Error> {
        let mut counts = self.sealed(bucket)?;
        let groups = self.groups_in_tail(bucket)?;
        self.recount(bucket, &groups, &mut counts, |found| found.tail.clear())?;
        Ok(counts)
    }

    /// Counts the contents of its segments.
    fn sealed(&self, bucket: &StoredBucket) -> Result<ReplicaCounts, Error> {
        let mut segments: Vec<u64> = bucket.segments.iter().map(|segment| segment.record.number).collect();
        segments.sort_unstable();
        if segments.is_empty() {
            return Ok(ReplicaCounts::default());
        }
        let since = last_mark(&self.marks, bucket);
        let known = self.cache.lock().get(&bucket.id).cloned().filter(|known| {
            known.since == since
                && known.span == self.span
                && known.segments.iter().all(|number| segments.binary_search(number).is_ok())
        });
        let counts = match known {
            Some(known) if known.segments == segments => return Ok(known.counts.clone()),
            Some(known) => {
                let mut counts = known.counts.clone();
                let groups = self.groups_in_segments(bucket, &known.segments)?;
                let before = |found: &mut GroupSources| {
                    found.tail.clear();
                    found.segments.retain(|source| known.segments.contains(&source.segment.number()));
                };
                self.recount_between(bucket, &groups, &mut counts, before, |found| found.tail.clear())?;
                counts
            }
            None => self.count_segments(bucket)?,
        };
        let counted = SegmentCounts { segments, since, span: self.span, counts: counts.clone() };
        self.cache.lock().insert(bucket.id, Arc::new(counted));
        Ok(counts)
    }

    fn count_segments(&self, bucket: &StoredBucket) -> Result<ReplicaCounts, Error> {
        let mut counts = ReplicaCounts::default();
        let mut types = BTreeSet::new();
        for segment in bucket.open_segments()? {
            types.extend(segment.sections().iter().map(|section| section.document_type.as_str()));
        }
        let (location, range) = (bucket.locations().0, bucket.reversed_range());
        for document_type in types {
            let mut found = self.reading.find_ungrouped(document_type, bucket)?;
            found.tail.clear();
            let group = GroupOfBucket { document_type, location, group: "", range };
            self.count(&group, found, &mut counts)?;
            let from = GroupPosition::FIRST;
            let _ = self.reading.find_groups(document_type, bucket, from, &mut |group, mut found| {
                found.tail.clear();
                self.count(group, found, &mut counts)?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(counts)
    }

    /// Counts groups in full, in place of their earlier counts, which lacked something.
    fn recount(
        &self,
        bucket: &StoredBucket,
        groups: &Groups,
        counts: &mut ReplicaCounts,
        before: impl Fn(&mut GroupSources),
    ) -> Result<(), Error> {
        self.recount_between(bucket, groups, counts, before, |_| ())
    }

    fn recount_between(
        &self,
        bucket: &StoredBucket,
        groups: &Groups,
        counts: &mut ReplicaCounts,
        before: impl Fn(&mut GroupSources),
        after: impl Fn(&mut GroupSources),
    ) -> Result<(), Error> {
        for (document_type, location, key) in groups {
            let group = GroupOfBucket {
                document_type,
                location: *location,
                group: key,
                range: bucket.reversed_range(),
            };
            let count = |change: &dyn Fn(&mut GroupSources)| {
                let mut found = self.find(bucket, &group)?;
                change(&mut found);
                let mut counts = ReplicaCounts::default();
                self.count(&group, found, &mut counts)?;
                Ok::<_, Error>(counts)
            };
            counts.subtract(&count(&before)?);
            counts.add(&count(&after)?);
        }
        Ok(())
    }

    fn find(&self, bucket: &StoredBucket, group: &GroupOfBucket<'_>) -> Result<GroupSources, Error> {
        match DocumentGroup::from_key(group.group).as_ref().and_then(group_prefix) {
            Some(prefix) => {
                self.reading.find_group(group.document_type, bucket, group.location, group.group, &prefix)
            }
            None => self.reading.find_ungrouped(group.document_type, bucket),
        }
    }

    /// Counts the versions of a group that are the newest of their documents.
    fn count(
        &self,
        group: &GroupOfBucket<'_>,
        found: GroupSources,
        counts: &mut ReplicaCounts,
    ) -> Result<(), Error> {
        let (parts, tail) = self.reading.newest(group, found)?;
        for part in parts {
            if part.newest.as_ref().is_some_and(|words| words.iter().all(|word| *word == 0)) {
                continue;
            }
            let (ids, timestamps) = part.keys()?;
            for (row, timestamp) in timestamps.cells::<u64>().iter().enumerate() {
                if is_set(&part.newest, row) {
                    let removed = !is_set(&part.live, row);
                    let id = ids.get(row).expect("id columns without some ids are refused");
                    counts.add_version(id, *timestamp, removed, self.span);
                }
            }
        }
        let marks = &self.reading.state.marks;
        for row in tail {
            let key = RowKey::parse(row.key())?;
            if key.timestamp.0 > marks.dropped_until(group.document_type, key.reversed_location(), key.group)
            {
                counts.add_version(key.id.as_bytes(), key.timestamp.0, row.removed, self.span);
            }
        }
        Ok(())
    }

    fn groups_in_tail(&self, bucket: &StoredBucket) -> Result<Groups, Error> {
        let (first, last) = bucket.locations();
        let to = last.checked_add(1).map(u32::to_be_bytes);
        let rows = self.reading.tail_rows(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), |_| true)?;
        let mut groups = Groups::new();
        for row in &rows {
            let key = RowKey::parse(row.key())?;
            if !bucket.has(key.reversed_location()) {
                continue;
            }
            let location = if key.group.is_empty() { first } else { key.location };
            groups.insert((key.document_type().to_owned(), location, key.group.to_owned()));
        }
        Ok(groups)
    }

    /// Those in the segments that were not counted yet.
    fn groups_in_segments(&self, bucket: &StoredBucket, counted: &[u64]) -> Result<Groups, Error> {
        let (first, last) = bucket.locations();
        let mut groups = Groups::new();
        for segment in
            bucket.open_segments()?.into_iter().filter(|segment| !counted.contains(&segment.number()))
        {
            for (number, section) in segment.sections().iter().enumerate() {
                segment.groups(number, first, |entry| {
                    let inside = entry.location <= last;
                    if inside && (entry.location >= first || entry.group.is_empty()) {
                        let location = if entry.group.is_empty() { first } else { entry.location };
                        groups.insert((section.document_type.clone(), location, entry.group));
                    }
                    inside
                })?;
            }
        }
        Ok(groups)
    }
}
