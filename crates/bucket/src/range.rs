use millrace_document::ReversedLocation;

/// Reversed locations from the first to the last one, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationRange {
    /// The first.
    pub first: ReversedLocation,
    /// The last.
    pub last: ReversedLocation,
}

impl LocationRange {
    /// All locations.
    pub const ALL: LocationRange =
        LocationRange { first: ReversedLocation::FIRST, last: ReversedLocation::LAST };

    /// Locations whose highest 32 bits, those that a group determines, are these.
    pub const fn of_group(high: u32) -> Self {
        let first = ReversedLocation::first_of_group(high);
        LocationRange { first, last: ReversedLocation::new(first.bits() | u32::MAX as u64) }
    }

    /// True if it contains `location`.
    pub fn contains(self, location: ReversedLocation) -> bool {
        self.first <= location && location <= self.last
    }

    /// True if it contains all of `other`.
    pub fn covers(self, other: LocationRange) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// True if a location is in both.
    pub fn overlaps(self, other: LocationRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}
