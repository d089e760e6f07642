use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use millrace_bucket::{BucketId, DividedGroup};
use millrace_document::{DocumentGroup, Location};
use serde::{Deserialize, Serialize};

/// Groups that are too large for one bucket, with the number of buckets that each is divided into.
///
/// A group is identified by the low 32 bits of its documents' locations; two groups whose names have the same
/// digest are divided together. The contents of a divided group leave the bucket of its location for buckets
/// of their own, which use more bits than the group's. Division is never reversed: in a cluster's life groups
/// are only divided further.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DividedGroups(BTreeMap<u32, u8>);

impl DividedGroups {
    /// Numbers of bits that a bucket of a divided group may use.
    pub const BITS: RangeInclusive<u8> = BucketId::GROUP_BITS + 1..=BucketId::GROUP_BITS + 10;

    /// Maximum number of divided groups: the cluster state lists each.
    pub const GROUPS_MAX: usize = 4096;

    /// Returns the same spread with groups divided at least as far as wanted, within the bounds.
    pub fn with(&self, wanted: impl IntoIterator<Item = DividedGroup>) -> DividedGroups {
        let mut groups = self.0.clone();
        for DividedGroup { location, bits } in wanted {
            if !groups.contains_key(&location) && groups.len() >= Self::GROUPS_MAX {
                continue;
            }
            let bits = bits.clamp(*Self::BITS.start(), *Self::BITS.end());
            let known = groups.entry(location).or_insert(bits);
            *known = bits.max(*known);
        }
        DividedGroups(groups)
    }

    /// True if no group is divided.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Divided groups, in the order of their locations.
    pub fn groups(&self) -> impl Iterator<Item = DividedGroup> + '_ {
        self.0.iter().map(|(location, bits)| DividedGroup { location: *location, bits: *bits })
    }

    /// True if a group in this bucket can be divided, or divided further.
    pub fn can_divide(&self, bucket: BucketId) -> bool {
        match bucket.used_bits() > BucketId::GROUP_BITS {
            true => bucket.used_bits() < *Self::BITS.end(),
            false => self.0.len() < Self::GROUPS_MAX,
        }
    }

    /// True if every number of bits is one that a bucket of a divided group may use.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.len() <= Self::GROUPS_MAX && self.0.values().all(|bits| Self::BITS.contains(bits))
    }

    /// Bucket of a location, where `bits` is the number of bits of undivided buckets.
    pub(crate) fn bucket(&self, bits: u8, location: Location) -> BucketId {
        let bits = match self.0.is_empty() {
            true => bits,
            false => self.0.get(&(location.bits() as u32)).copied().unwrap_or(bits),
        };
        BucketId::new(bits, location.bits())
    }

    /// Buckets of all divided groups.
    pub fn buckets(&self) -> impl Iterator<Item = BucketId> + '_ {
        self.groups().flat_map(DividedGroup::parts)
    }

    /// Buckets of a group; `None` if it is not divided.
    pub(crate) fn buckets_of(&self, group: &DocumentGroup) -> Option<impl Iterator<Item = BucketId> + use<>> {
        let location = group.location_bits()?;
        self.0.get(&location).map(|bits| DividedGroup { location, bits: *bits }.parts())
    }

    /// Buckets that this state divides differently than the previous one, where undivided buckets use `bits`
    /// bits: earlier knowledge of them is not valid any more.
    pub fn changed(&self, before: &DividedGroups, bits: u8) -> Vec<BucketId> {
        let gone = |now: DividedGroup| match before.0.get(&now.location) {
            Some(then) if *then == now.bits => Vec::new(),
            Some(then) => DividedGroup { bits: *then, ..now }.parts().collect(),
            None => vec![now.bucket(bits)],
        };
        self.groups().flat_map(gone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups<const COUNT: usize>(groups: [(u32, u8); COUNT]) -> [DividedGroup; COUNT] {
        groups.map(DividedGroup::from)
    }

    #[test]
    fn groups_are_divided_further_and_never_joined() {
        let once = DividedGroups::default().with(groups([(7, 34), (9, 60), (11, 1)]));
        assert_eq!(once.groups().collect::<Vec<_>>(), groups([(7, 34), (9, 42), (11, 33)]));
        assert_eq!(once.with(groups([(7, 33)])), once);
        assert_eq!(once.with(groups([(7, 35)])).groups().next(), Some((7, 35).into()));
        let full = DividedGroups::default().with((0..5000).map(|low| (low, 33).into()));
        assert_eq!(full.groups().count(), DividedGroups::GROUPS_MAX);
        let can = |spread: &DividedGroups, bits| spread.can_divide(BucketId::new(bits, 9));
        assert_eq!([10, 32, 41, 42].map(|bits| can(&once, bits)), [true, true, true, false]);
        assert_eq!([10, 32, 41, 42].map(|bits| can(&full, bits)), [false, false, true, false]);
        assert!(full.is_valid());
    }

    #[test]
    fn what_changes_is_forgotten() {
        let before = DividedGroups::default().with(groups([(0x107, 33), (0x3, 34)]));
        let after = before.with(groups([(0x107, 34), (0x201, 33)]));
        let changed = after.changed(&before, 8);
        let expected = [BucketId::new(33, 0x107), BucketId::new(33, 1 << 32 | 0x107), BucketId::new(8, 1)];
        assert_eq!(changed, expected);
        assert!(before.changed(&after, 8).len() > changed.len(), "an older one knows less");
    }
}
