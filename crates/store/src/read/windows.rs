//! Windows: the documents of a group from a location on, about as many as one page of a visit has.
//!
//! A page decides only in its windows which versions count, and reads only their rows of the tail. Otherwise
//! each page of a large group would cost as much as all of the group, and beside writes even more, since
//! these change what is kept of the tail from one page to the next.

use std::ops::Range;

use millrace_column::CHUNK_DOCS;
use millrace_document::ReversedLocation;

use crate::Error;
use crate::read::group_sources::GroupSources;
use crate::read::masks::GroupOfBucket;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, after};
use crate::state::StoredBucket;

/// Documents of a group in one bucket, from a location on.
pub(crate) struct GroupWindow {
    /// Chunks with the versions that count. They hold for the window alone: of documents outside of it,
    /// versions are missing or wrong.
    pub parts: Vec<ChunkPart>,
    /// The first location after the window; `None` if it reaches to the end of the bucket.
    pub next: Option<ReversedLocation>,
}

/// Numbers of rows of the tail that a window has at least and at most. With fewer, finding the chunks of
/// segments for each window would cost more than the rows.
const ROWS_MIN: usize = CHUNK_DOCS / 8;
const ROWS_MAX: usize = 4 * CHUNK_DOCS;

/// Number of rows of the tail in a window, of which a page returns `wanted` documents. The page begins after
/// one of them, and ends before another.
pub(super) fn rows_of_window(wanted: usize) -> usize {
    wanted.saturating_add(2).clamp(ROWS_MIN, ROWS_MAX)
}

impl StoreSnapshot<'_> {
    /// Returns the window of a group in a bucket, or of the documents without a group, that begins at a
    /// location and has `wanted` documents, or some more.
    pub fn group_window(
        &self,
        group: &GroupOfBucket<'_>,
        bucket: &StoredBucket,
        from: ReversedLocation,
        wanted: usize,
    ) -> Result<GroupWindow, Error> {
        let segments = match group.group.is_empty() {
            true => self.ungrouped_segments(group.document_type, bucket)?,
            false => self.find_segments(group.document_type, bucket, group.location, group.group)?,
        };
        let in_segments = GroupSources { segments: segments.clone(), tail: Vec::new() };
        let (mut parts, _) = self.newest(group, in_segments)?;
        // The chunk in which the window begins can have a whole chunk of documents before that.
        let after_segments = window_end(&parts, from, wanted.saturating_add(CHUNK_DOCS));
        let begin = sort_key_at(group.group, from);
        let end = after_segments.or(bucket.reversed_range().last.next());
        let end = match end {
            Some(end) if group.group.is_empty() || end.high() == group.location => {
                Some(sort_key_at(group.group, end))
            }
            _ => after(&begin[..begin.len() - LOW_BYTES]).filter(|_| !group.group.is_empty()),
        };
        let (tail, after_tail) =
            self.first_tail_rows(&begin, end.as_deref(), rows_of_window(wanted), |row| {
                row.group == group.group
                    && row.document_type() == group.document_type
                    && bucket.has(row.reversed_location())
            })?;
        let mut found = GroupSources { segments, tail };
        if !found.tail.is_empty() {
            found.replace(&mut parts)?;
            parts.extend(self.tail_parts(group, &found.tail));
        }
        let ends = [after_segments, after_tail].into_iter().flatten();
        let next = ends.min().filter(|next| *next <= bucket.reversed_range().last);
        Ok(GroupWindow { parts, next })
    }
}

/// Bytes of the lower half of a location in a sort key.
const LOW_BYTES: usize = 4;

/// Start of the sort keys of a group's documents at a reversed location.
pub(super) fn sort_key_at(group: &str, location: ReversedLocation) -> Vec<u8> {
    let (high, low) = (location.high().to_be_bytes(), location.low().to_be_bytes());
    [&high[..], group.as_bytes(), &[0], &low].concat()
}

/// No document of a part has a higher reversed location than this.
pub(super) fn end_of(parts: &[ChunkPart], number: usize) -> ReversedLocation {
    match parts.get(number + 1) {
        Some(next) if is_of_one_source(&parts[number].source, &next.source) => next.info.first_location,
        _ => ReversedLocation::LAST,
    }
}

/// True for two chunks of one segment, or of the tail.
pub(super) fn is_of_one_source(one: &ChunkSource, other: &ChunkSource) -> bool {
    match (one, other) {
        (ChunkSource::Segment { segment: one, .. }, ChunkSource::Segment { segment: other, .. }) => {
            one.number() == other.number()
        }
        (ChunkSource::Tail(_), ChunkSource::Tail(_)) => true,
        _ => false,
    }
}

/// A location before which the chunks have about as many documents as are wanted; `None`: all are needed.
pub(super) fn window_end(
    parts: &[ChunkPart],
    from: ReversedLocation,
    wanted: usize,
) -> Option<ReversedLocation> {
    let mut begins: Vec<(ReversedLocation, u32)> = parts
        .iter()
        .enumerate()
        .filter(|(number, _)| end_of(parts, *number) >= from)
        .map(|(_, part)| (part.info.first_location, part.info.documents))
        .collect();
    begins.sort_unstable();
    let mut documents = 0;
    for (location, count) in begins {
        if documents > wanted && location > from {
            return Some(location);
        }
        documents += count as usize;
    }
    None
}

/// True if all keys of a chunk are known to be below those of another: both are of one segment, or of the
/// tail.
pub(super) fn precedes(one: &ChunkPart, other: &ChunkPart) -> bool {
    match (&one.source, &other.source) {
        (ChunkSource::Segment { chunk, .. }, ChunkSource::Segment { chunk: next, .. }) => {
            is_of_one_source(&one.source, &other.source) && chunk < next
        }
        (ChunkSource::Tail(_), ChunkSource::Tail(_)) => one.info.first_location < other.info.first_location,
        _ => false,
    }
}

/// The first number of a range for which `is_before` is false; the end if there is none. It is true for all
/// numbers before that.
pub(super) fn partition_point(
    range: Range<usize>,
    is_before: impl Fn(usize) -> Result<bool, Error>,
) -> Result<usize, Error> {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = start + (end - start) / 2;
        match is_before(middle)? {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    Ok(start)
}
