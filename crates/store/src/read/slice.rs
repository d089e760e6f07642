use std::fmt;

use millrace_bucket::LocationRange;
use millrace_document::{DocumentGroup, DocumentId, ReversedLocation};

#[cfg(doc)]
use crate::StoreVisit;

/// One of several equal shares of all documents, for visits side by side.
///
/// The share of a document follows from its id alone: from the bits of its location that its group does not
/// determine. So the slices of one number are disjoint, make up the whole, and each has about the same number
/// of documents of every group. In the order of a visit, a slice is one contiguous range of each group, and
/// one of the documents without a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisitSlice {
    /// From 0 on.
    number: u32,
    /// At least 1.
    count: u32,
}

impl VisitSlice {
    /// The only slice of one: all documents.
    pub const WHOLE: VisitSlice = VisitSlice { number: 0, count: 1 };

    /// Slice `number`, from 0 on, of `count`; `None` if it is none of them.
    pub const fn new(number: u32, count: u32) -> Option<Self> {
        if number < count { Some(VisitSlice { number, count }) } else { None }
    }

    /// True if it has all documents.
    pub const fn is_whole(self) -> bool {
        self.count == 1
    }

    /// True if it has the document.
    pub fn has(self, id: &DocumentId) -> bool {
        self.locations(id.group()).contains(id.location().reversed())
    }

    /// Locations of the documents of a group in it. [`DocumentGroup::None`] stands for the documents without
    /// a group.
    pub(crate) fn locations(self, group: &DocumentGroup) -> LocationRange {
        let (first, last) = (self.start(self.number), self.start(self.number + 1) - 1);
        let (first, last) = match group.location_bits() {
            Some(bits) => {
                let group = u64::from(bits.reverse_bits()) << 32;
                (group | first, group | last)
            }
            None => (first << 32, last << 32 | u64::from(u32::MAX)),
        };
        LocationRange { first: ReversedLocation::new(first), last: ReversedLocation::new(last) }
    }

    /// First of the 2^32 places of documents that is in slice `number`; 2^32 after the last slice.
    fn start(self, number: u32) -> u64 {
        (u64::from(number) << 32).div_ceil(u64::from(self.count))
    }
}

/// Text in continuations: `0of4`.
impl fmt::Display for VisitSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}of{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_contiguous_and_make_up_the_whole() {
        let groups = [DocumentGroup::None, DocumentGroup::Number(5), DocumentGroup::Name("ann".to_owned())];
        for count in [1, 2, 3, 4, 7, 64, 1000, 65_537] {
            for group in &groups {
                let all = match group.location_bits() {
                    Some(bits) => LocationRange::of_group(bits.reverse_bits()),
                    None => LocationRange::ALL,
                };
                let mut next = Some(all.first);
                for number in 0..count {
                    let slice = VisitSlice::new(number, count).expect("one of them");
                    let LocationRange { first, last } = slice.locations(group);
                    assert!(next == Some(first) && first <= last, "{slice} of {group:?}");
                    next = last.next().filter(|_| last < all.last);
                }
                assert_eq!(next, None, "{count} slices of {group:?} end before its last document");
            }
        }
        let last = VisitSlice::new(u32::MAX - 1, u32::MAX).expect("the last").locations(&DocumentGroup::None);
        assert_eq!(last.last, ReversedLocation::LAST);
        assert_eq!((VisitSlice::new(4, 4), VisitSlice::new(0, 0)), (None, None));
    }
}
