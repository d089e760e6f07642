//! Ranges of reversed locations, in order and without overlaps.

use millrace_bucket::LocationRange;
use millrace_document::ReversedLocation;

/// The first range that contains this location, or the first one after it.
pub(crate) fn at_or_after(ranges: &[LocationRange], location: ReversedLocation) -> usize {
    ranges.partition_point(|range| range.last < location)
}

/// True if one of the ranges overlaps these locations.
pub(crate) fn any_overlaps(ranges: &[LocationRange], locations: LocationRange) -> bool {
    ranges.get(at_or_after(ranges, locations.first)).is_some_and(|range| range.overlaps(locations))
}

/// From the beginning of the first range to the end of the last; `None` without ranges.
pub(crate) fn hull(ranges: &[LocationRange]) -> Option<LocationRange> {
    let (first, last) = (ranges.first()?, ranges.last()?);
    Some(LocationRange { first: first.first, last: last.last })
}

/// The same ranges, with adjacent ones joined.
pub(crate) fn joined(ranges: &[LocationRange]) -> Vec<LocationRange> {
    let mut joined: Vec<LocationRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut().filter(|before| before.last.next() == Some(range.first)) {
            Some(before) => before.last = range.last,
            None => joined.push(*range),
        }
    }
    joined
}
