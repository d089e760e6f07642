//! Visits: documents page by page, in an order that no write, seal, merge or split changes.
//!
//! The order is: type by type as asked for; in a type the documents without a group first, then group by
//! group; within, by sort key. A continuation is the last position in that order. It names no file and no
//! bucket.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use millrace_bucket::{BucketId, DocumentSortKey, LocationRange, reversed_location};
use millrace_column::{BytesColumn, FixedColumn};
use millrace_document::{DocumentGroup, DocumentId, ReversedLocation};

use crate::context::StoreContext;
use crate::read::masks::{GroupOfBucket, is_set, lacks_keys};
use crate::read::pieces::RowOrder;
use crate::read::position::StorePosition;
use crate::read::read_ahead::ColumnsAhead;
use crate::read::reading::{ChunkPart, GroupPosition, StoreSnapshot};
use crate::read::rows::{RowReader, VisitedRow};
use crate::read::windows::{end_of, partition_point, precedes, rows_of_window, sort_key_at, window_end};
use crate::state::{StoredBucket, is_of_divided};
use crate::{Error, StoreVisit, ViewScope, VisitEnd, VisitPage};

/// Number of versions outside of its times, or refused by its filter, that a page passes before it
/// ends, with fewer documents than wanted. It bounds the time of one page.
const PASSED_MAX: usize = 1 << 13;

/// The next page.
pub(crate) fn visit(shared: &StoreContext, visit: &StoreVisit) -> Result<VisitPage, Error> {
    let mut visited = Vec::new();
    let end = pass(shared, visit, None, &mut |row| {
        visited.push(row.version()?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(VisitPage { visited, continuation: end.continuation, progress: end.progress })
}

/// [`visit`] that calls `each` with the versions of the page.
pub(crate) fn visit_rows(
    shared: &StoreContext,
    visit: &StoreVisit,
    each: &mut VisitedRowFn<'_>,
) -> Result<VisitEnd, Error> {
    pass(shared, visit, Some(&RefCell::default()), each)
}

/// [`visit_rows`] with columns that are in the cache, and stay there.
pub(crate) fn visit_cached_rows(
    shared: &StoreContext,
    visit: &StoreVisit,
    each: &mut VisitedRowFn<'_>,
) -> Result<VisitEnd, Error> {
    pass(shared, visit, None, each)
}

/// Callback for each version. It can end the page after it.
pub(crate) type VisitedRowFn<'a> = dyn FnMut(&VisitedRow<'_>) -> Result<ControlFlow<()>, Error> + 'a;

fn pass(
    shared: &StoreContext,
    visit: &StoreVisit,
    ahead: Option<&RefCell<ColumnsAhead>>,
    each: &mut VisitedRowFn<'_>,
) -> Result<VisitEnd, Error> {
    let after = visit.continuation.as_deref().map(StorePosition::decode).transpose()?;
    let reading = StoreSnapshot::new(shared, RowOrder::Keys);
    let mut page = PageInProgress {
        visit,
        reading: &reading,
        ahead,
        each,
        taken: 0,
        last_type: 0,
        last_id: String::new(),
        last: None,
        after: Vec::new(),
        passed: 0,
    };
    let first_type = after.as_ref().map_or(0, |position| position.document_type);
    for (number, document_type) in visit.document_types.iter().enumerate().skip(first_type) {
        let position = after.as_ref().filter(|position| position.document_type == number);
        page.after = position.map_or_else(Vec::new, |position| position.sort_key.clone());
        let grouped_only = position.is_some_and(|position| position.grouped);
        let mut walk = TypeWalk { page: &mut page, number, document_type };
        if let ControlFlow::Break(()) = walk.run(grouped_only)? {
            return Ok(VisitEnd {
                continuation: page.last.as_ref().map(StorePosition::encode),
                progress: page.last.as_ref().map_or(0.0, |last| last.progress(visit.document_types.len())),
            });
        }
    }
    Ok(VisitEnd { continuation: None, progress: 1.0 })
}

/// The continuation of a visit after a document; `None` if it does not visit documents of this type.
pub(crate) fn continuation_after(visit: &StoreVisit, id: &DocumentId) -> Option<String> {
    let document_type = visit.document_types.iter().position(|name| name == id.document_type())?;
    Some(StorePosition::of(document_type, id).encode())
}

/// The continuation of a visit of one type after a sort key.
pub(crate) fn continuation_at(grouped: bool, sort_key: &[u8]) -> String {
    StorePosition { document_type: 0, grouped, sort_key: sort_key.to_vec() }.encode()
}

/// The position of a continuation: its sort key, and true if it is among documents with a group.
pub(crate) fn position_of(continuation: &str) -> Result<(bool, Vec<u8>), Error> {
    let StorePosition { grouped, sort_key, .. } = StorePosition::decode(continuation)?;
    Ok((grouped, sort_key))
}

/// Intermediate result of a visit.
struct PageInProgress<'a> {
    visit: &'a StoreVisit,
    reading: &'a StoreSnapshot<'a>,
    /// Columns that are read for several chunks together.
    ahead: Option<&'a RefCell<ColumnsAhead>>,
    each: &'a mut VisitedRowFn<'a>,
    /// Number of versions of the page.
    taken: usize,
    /// Number of the type and id of the last one.
    last_type: usize,
    last_id: String,
    /// Position at which the page ends, once that is known.
    last: Option<StorePosition>,
    /// Sort key after which the page begins.
    after: Vec<u8>,
    /// Number of versions that were outside of the times, or refused by the filter.
    passed: usize,
}

/// The way through one type.
struct TypeWalk<'p, 'a> {
    page: &'p mut PageInProgress<'a>,
    number: usize,
    document_type: &'a str,
}

impl TypeWalk<'_, '_> {
    fn run(&mut self, grouped_only: bool) -> Result<ControlFlow<()>, Error> {
        let reading = self.page.reading;
        let visit = self.page.visit;
        if !grouped_only {
            let wanted = match &visit.scope {
                ViewScope::All | ViewScope::Buckets(_) => true,
                ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => {
                    groups.contains(&DocumentGroup::None)
                }
            };
            for bucket in reading.state.within(&visit.scope) {
                if !wanted || !self.reaches(&bucket) {
                    continue;
                }
                let (document_type, range) = (self.document_type, bucket.reversed_range());
                let of_none = GroupOfBucket { document_type, location: range.first.high(), group: "", range };
                if let ControlFlow::Break(()) = self.windows(&DocumentGroup::None, &of_none, &bucket)? {
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.page.after.clear();
        }
        match &visit.scope {
            ViewScope::All | ViewScope::Buckets(_) => self.all_groups(),
            ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => {
                let mut groups: Vec<&DocumentGroup> =
                    groups.iter().filter(|group| **group != DocumentGroup::None).collect();
                groups.sort_by_key(|group| (group.location_bits().map(u32::reverse_bits), group.key()));
                groups.dedup();
                for group in groups {
                    let prefix = millrace_bucket::group_prefix(group).unwrap_or_default();
                    if self.page.after.as_slice() > prefix.as_slice() && !self.page.after.starts_with(&prefix)
                    {
                        continue;
                    }
                    if let ControlFlow::Break(()) = self.group(group, visit.scope.within())? {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn all_groups(&mut self) -> Result<ControlFlow<()>, Error> {
        let reading = self.page.reading;
        let after = self.page.after.clone();
        let (location, key) = match after.split_first_chunk::<4>() {
            Some((location, rest)) => {
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                (u32::from_be_bytes(*location), String::from_utf8_lossy(&rest[..end]).into_owned())
            }
            None => (0, String::new()),
        };
        let from = GroupPosition { location, key: &key };
        let same_location = |one: &Arc<StoredBucket>, other: &Arc<StoredBucket>| {
            is_of_divided(one.id) && is_of_divided(other.id) && one.locations() == other.locations()
        };
        for buckets in reading.state.within(&self.page.visit.scope).chunk_by(same_location) {
            let bucket = &buckets[0];
            if bucket.locations().1 < location {
                continue;
            }
            let found = match is_of_divided(bucket.id) {
                true => self.divided_groups(buckets, from)?,
                false => self.groups_of_bucket(bucket, from)?,
            };
            if let ControlFlow::Break(()) = found {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The groups of a bucket from a position on.
    fn groups_of_bucket(
        &mut self,
        bucket: &StoredBucket,
        from: GroupPosition<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let (reading, document_type) = (self.page.reading, self.document_type);
        let mut key = from.key.to_owned();
        // The group in which the last page ended is not looked for among all others.
        if !from.key.is_empty()
            && (bucket.locations().0..=bucket.locations().1).contains(&from.location)
            && let Some(of_page) = DocumentGroup::from_key(from.key)
        {
            if let ControlFlow::Break(()) = self.group(&of_page, Some(&[bucket.id]))? {
                return Ok(ControlFlow::Break(()));
            }
            // No group has a key between these two: there are no control characters in it.
            key.push('\u{1}');
        }
        let rows_max = rows_of_window(self.page.visit.wanted);
        let from = GroupPosition { location: from.location, key: &key };
        reading.find_groups(document_type, bucket, from, &mut |of, found| {
            let Some(group) = DocumentGroup::from_key(of.group) else {
                return Ok(ControlFlow::Continue(()));
            };
            if found.tail.len() > rows_max {
                return self.windows(&group, of, bucket);
            }
            let parts = reading.resolve(of, found)?;
            self.rows(&group, parts, LocationRange::ALL)
        })
    }

    /// The groups of one location, which is divided into these buckets: each with all that is in them, since
    /// one group's documents come before another's.
    fn divided_groups(
        &mut self,
        buckets: &[Arc<StoredBucket>],
        from: GroupPosition<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let (reading, document_type) = (self.page.reading, self.document_type);
        let mut groups = BTreeSet::new();
        for bucket in buckets {
            let _ = reading.find_groups(document_type, bucket, from, &mut |group, _| {
                groups.extend(DocumentGroup::from_key(group.group).map(|of| (group.group.to_owned(), of)));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let ids: Vec<BucketId> = buckets.iter().map(|bucket| bucket.id).collect();
        for (_, group) in groups {
            if let ControlFlow::Break(()) = self.group(&group, Some(&ids))? {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The versions of one group, from the position on; if buckets are given, those that are in them.
    fn group(
        &mut self,
        group: &DocumentGroup,
        within: Option<&[BucketId]>,
    ) -> Result<ControlFlow<()>, Error> {
        let Some(bits) = group.location_bits() else { return Ok(ControlFlow::Continue(())) };
        let (location, key, document_type) = (bits.reverse_bits(), group.key(), self.document_type);
        let buckets = self.page.reading.state.buckets_of(location);
        let mut buckets: Vec<Arc<StoredBucket>> = match within {
            None => buckets.to_vec(),
            Some(within) => buckets.iter().flat_map(|bucket| bucket.parts_of(within)).collect(),
        };
        buckets.sort_by_key(|bucket| bucket.reversed_range());
        for bucket in buckets {
            let of = GroupOfBucket { document_type, location, group: &key, range: bucket.reversed_range() };
            if let ControlFlow::Break(()) = self.windows(group, &of, &bucket)? {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The versions of a group in one bucket, from the position on, window by window.
    fn windows(
        &mut self,
        group: &DocumentGroup,
        of: &GroupOfBucket<'_>,
        bucket: &StoredBucket,
    ) -> Result<ControlFlow<()>, Error> {
        let (left, range) = (self.left_of(group), bucket.reversed_range());
        let (mut from, last) = (left.first.max(range.first), left.last.min(range.last));
        while from <= last {
            let window = self.page.reading.group_window(of, bucket, from, self.page.visit.wanted)?;
            let to = window.next.and_then(ReversedLocation::previous).map_or(last, |end| last.min(end));
            if let ControlFlow::Break(()) =
                self.rows(group, window.parts, LocationRange { first: from, last: to })?
            {
                return Ok(ControlFlow::Break(()));
            }
            match window.next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Locations of a group's documents that are in the slice, and not before the position at which the page
    /// begins.
    fn left_of(&self, group: &DocumentGroup) -> LocationRange {
        let LocationRange { first, last } = self.page.visit.slice.locations(group);
        // The group of the last page continues after its last document; other groups begin at their start.
        let prefix = millrace_bucket::group_prefix(group).unwrap_or_default();
        let goes_on = !self.page.after.is_empty() && self.page.after.starts_with(&prefix);
        let after = goes_on.then(|| reversed_location(&self.page.after));
        LocationRange { first: after.map_or(first, |after| after.max(first)), last }
    }

    /// Returns true if a document without a group in this bucket can be in the slice.
    fn reaches(&self, bucket: &StoredBucket) -> bool {
        let slice = self.page.visit.slice.locations(&DocumentGroup::None);
        let (from, to) = bucket.locations();
        from <= slice.last.high() && slice.first.high() <= to
    }

    /// The versions of one group with these reversed locations, from the position on.
    fn rows(
        &mut self,
        group: &DocumentGroup,
        parts: Vec<ChunkPart>,
        locations: LocationRange,
    ) -> Result<ControlFlow<()>, Error> {
        let visit = self.page.visit;
        let left = self.left_of(group);
        let (mut from, last) = (left.first.max(locations.first), left.last.min(locations.last));
        while from <= last {
            // As many chunks as needed for the wanted documents, in the order of locations; then the next.
            let next = window_end(&parts, from, visit.wanted);
            let to = next.and_then(ReversedLocation::previous).map_or(last, |before| last.min(before));
            let window = LocationRange { first: from, last: to };
            if let ControlFlow::Break(()) = self.window(group, &parts, window)? {
                return Ok(ControlFlow::Break(()));
            }
            // All before is passed; outside of the slice nothing is left.
            let next = next.filter(|next| *next <= last);
            if self.page.passed >= PASSED_MAX {
                let sort_key = match next {
                    Some(next) => sort_key_at(&group.key(), next),
                    None => [sort_key_at(&group.key(), last), vec![u8::MAX]].concat(),
                };
                let grouped = *group != DocumentGroup::None;
                self.page.last = Some(StorePosition { document_type: self.number, grouped, sort_key });
                return Ok(ControlFlow::Break(()));
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The versions with these reversed locations.
    fn window(
        &mut self,
        group: &DocumentGroup,
        parts: &[ChunkPart],
        locations: LocationRange,
    ) -> Result<ControlFlow<()>, Error> {
        let visit = self.page.visit;
        let overlaps = |number: &usize| {
            let part = &parts[*number];
            part.info.newest >= visit.from.0
                && part.info.oldest <= visit.to.0
                && part.info.first_location <= locations.last
                && end_of(parts, *number) >= locations.first
        };
        let numbers: Vec<usize> = (0..parts.len()).filter(overlaps).collect();
        let PageInProgress { reading, ahead, .. } = *self.page;
        if let Some(ahead) = ahead {
            // Of pages of what changed since a time, many chunks are not read.
            let left = if visit.from.0 == 0 { visit.wanted.saturating_sub(self.page.taken) } else { 1 };
            ahead.borrow_mut().left = left as u64;
        }
        let mut reader = RowReader::new(reading, visit, self.document_type, group, parts, ahead);
        if !numbers.windows(2).all(|pair| precedes(&parts[pair[0]], &parts[pair[1]])) {
            return self.rows_of_parts(&numbers, locations, reader);
        }
        for number in numbers {
            if let ControlFlow::Break(()) = self.rows_of_part(number, locations, &mut reader)? {
                return Ok(ControlFlow::Break(()));
            }
            reader.leave(number);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The versions of one part. Its rows lie in the order of their keys, so the keys of a few are enough to
    /// find the first and the last one.
    fn rows_of_part(
        &mut self,
        number: usize,
        locations: LocationRange,
        reader: &mut RowReader<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let (part, (ids, timestamps)) = (&reader.parts()[number], reader.keys(number)?);
        let (first, end) = self.rows_between(reader, number, &ids, locations)?;
        let mask = part.visited(self.page.visit.tombstones);
        for row in (first..end).filter(|row| is_set(mask, *row)) {
            let timestamp = timestamps.cells::<u64>()[row];
            if !(self.page.visit.from.0..=self.page.visit.to.0).contains(&timestamp) {
                self.page.passed += 1;
                continue;
            }
            let id = part.document_id(&ids, row)?;
            if let ControlFlow::Break(()) = self.take(reader, id, number, row, timestamp)? {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a part after the position at which the page begins, with these reversed locations. Costs
    /// the keys of some rows, where the part is not within these bounds as a whole.
    fn rows_between(
        &self,
        reader: &RowReader<'_>,
        number: usize,
        ids: &BytesColumn,
        locations: LocationRange,
    ) -> Result<(usize, usize), Error> {
        let (part, group) = (&reader.parts()[number], reader.group());
        let key = |row| part.document_id(ids, row).map(|id| DocumentSortKey::of_text(id, group));
        let after = self.page.after.as_slice();
        let first = match self.begins_after(group, part) && part.info.first_location >= locations.first {
            true => 0,
            false => partition_point(0..ids.len(), |row| {
                let key = key(row)?;
                Ok(key.as_bytes() <= after || key.reversed_location() < locations.first)
            })?,
        };
        let last = end_of(reader.parts(), number);
        let of_group = group.location_bits().map(|bits| LocationRange::of_group(bits.reverse_bits()));
        let end = match of_group.map_or(last, |of_group| last.min(of_group.last)) <= locations.last {
            true => ids.len(),
            false => partition_point(first..ids.len(), |row| {
                key(row).map(|key| key.reversed_location() <= locations.last)
            })?,
        };
        Ok((first, end))
    }

    /// True if all rows of a part are known to be after the position at which the page begins.
    fn begins_after(&self, group: &DocumentGroup, part: &ChunkPart) -> bool {
        let after = self.page.after.as_slice();
        let prefix = millrace_bucket::group_prefix(group).unwrap_or_default();
        let is_in_group = after.starts_with(&prefix);
        after.is_empty()
            || (!is_in_group && *prefix > *after)
            || (is_in_group && part.info.first_location > reversed_location(after))
    }

    /// The versions of several parts with common locations, merged into one order. The keys of the rows that
    /// are visited are computed, and of some more.
    fn rows_of_parts(
        &mut self,
        numbers: &[usize],
        locations: LocationRange,
        mut reader: RowReader<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let visit = self.page.visit;
        let mut merged: Vec<MergedPart<'_>> = Vec::with_capacity(numbers.len());
        let mut heads: BinaryHeap<Reverse<(DocumentSortKey, usize)>> = BinaryHeap::new();
        for number in numbers {
            let (part, (ids, timestamps)) = (&reader.parts()[*number], reader.keys(*number)?);
            let (first, end) = self.rows_between(&reader, *number, &ids, locations)?;
            merged.push(MergedPart { number: *number, part, ids, timestamps, rows: first..end, head: None });
        }
        for (index, part) in merged.iter_mut().enumerate() {
            let key = part.advance(visit, reader.group(), &mut self.page.passed)?;
            heads.extend(key.map(|key| Reverse((key, index))));
        }
        while let Some(Reverse((_, index))) = heads.pop() {
            let part = &mut merged[index];
            let Some((row, timestamp)) = part.head.take() else { continue };
            let id = part.part.document_id(&part.ids, row)?;
            if let ControlFlow::Break(()) = self.take(&mut reader, id, part.number, row, timestamp)? {
                return Ok(ControlFlow::Break(()));
            }
            match part.advance(visit, reader.group(), &mut self.page.passed)? {
                Some(key) => heads.push(Reverse((key, index))),
                None => reader.leave(part.number),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds a version to the page, unless the filter refuses it. Breaks, without it, if the page is full.
    fn take(
        &mut self,
        reader: &mut RowReader<'_>,
        id: &str,
        part: usize,
        row: usize,
        timestamp: u64,
    ) -> Result<ControlFlow<()>, Error> {
        if self.page.taken >= self.page.visit.wanted {
            return self.end_page(reader);
        }
        let goes_on = match reader.read(id, part, row, timestamp)? {
            Some(version) => (self.page.each)(&version)?,
            None => {
                self.page.passed += 1;
                return Ok(ControlFlow::Continue(()));
            }
        };
        self.page.taken += 1;
        self.page.last_type = self.number;
        self.page.last_id.clear();
        self.page.last_id.push_str(id);
        match goes_on {
            ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
            ControlFlow::Break(()) => self.end_page(reader),
        }
    }

    /// Ends the page after its last version.
    fn end_page(&mut self, reader: &RowReader<'_>) -> Result<ControlFlow<()>, Error> {
        if self.page.taken > 0 {
            let damaged =
                || reader.parts().first().map_or(Error::Continuation, |part| lacks_keys(part.path()));
            let last = DocumentId::parse(&self.page.last_id).map_err(|_| damaged())?;
            self.page.last = Some(StorePosition::of(self.page.last_type, &last));
        }
        Ok(ControlFlow::Break(()))
    }
}

/// Rows of a part that are merged with those of others. They lie in the order of their keys.
struct MergedPart<'r> {
    number: usize,
    part: &'r ChunkPart,
    ids: BytesColumn,
    timestamps: FixedColumn,
    /// Rows after the head.
    rows: Range<usize>,
    /// Row and timestamp of the next version.
    head: Option<(usize, u64)>,
}

impl MergedPart<'_> {
    /// Goes to the next version that is visited, and returns its key. Those at other times are added to
    /// `passed`.
    fn advance(
        &mut self,
        visit: &StoreVisit,
        group: &DocumentGroup,
        passed: &mut usize,
    ) -> Result<Option<DocumentSortKey>, Error> {
        let mask = self.part.visited(visit.tombstones);
        for row in self.rows.by_ref().filter(|row| is_set(mask, *row)) {
            let timestamp = self.timestamps.cells::<u64>()[row];
            if !(visit.from.0..=visit.to.0).contains(&timestamp) {
                *passed += 1;
                continue;
            }
            let id = self.part.document_id(&self.ids, row)?;
            self.head = Some((row, timestamp));
            return Ok(Some(DocumentSortKey::of_text(id, group)));
        }
        Ok(None)
    }
}
