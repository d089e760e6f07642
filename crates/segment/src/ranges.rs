//! Ranges of reversed locations, both ends included, in order.

/// Reversed locations that begin with these 32 bits.
pub(crate) fn span(location: u32) -> (u64, u64) {
    let first = u64::from(location) << 32;
    (first, first | u64::from(u32::MAX))
}

/// True if one of the ranges overlaps these locations.
pub(crate) fn reach(ranges: &[(u64, u64)], (first, last): (u64, u64)) -> bool {
    let place = ranges.partition_point(|(_, end)| *end < first);
    ranges.get(place).is_some_and(|(begin, _)| *begin <= last)
}

/// The same ranges, with adjacent ones joined.
pub(crate) fn joined(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut().filter(|(_, end)| end.checked_add(1) == Some(*first)) {
            Some((_, end)) => *end = *last,
            None => joined.push((*first, *last)),
        }
    }
    joined
}
