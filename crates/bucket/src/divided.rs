use serde::{Deserialize, Serialize};

use crate::BucketId;

/// A group that is divided into buckets of its own. Two groups whose locations share the low bits are divided
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u32, u8)", into = "(u32, u8)")]
pub struct DividedGroup {
    /// The low 32 bits of its documents' locations.
    pub location: u32,
    /// Number of bits that its buckets use; at least [`BucketId::GROUP_BITS`], where it is one bucket.
    pub bits: u8,
}

impl DividedGroup {
    /// Returns the bucket of exactly this group.
    pub fn whole(self) -> BucketId {
        self.bucket(BucketId::GROUP_BITS)
    }

    /// Returns the bucket of the group, and of others, that uses at most [`BucketId::GROUP_BITS`] bits.
    pub fn bucket(self, bits: u8) -> BucketId {
        BucketId::new(bits, u64::from(self.location))
    }

    /// Returns its buckets.
    pub fn parts(self) -> impl Iterator<Item = BucketId> + use<> {
        let DividedGroup { location, bits } = self;
        let count = 1_u64 << bits.saturating_sub(BucketId::GROUP_BITS);
        (0..count).map(move |part| BucketId::new(bits, part << BucketId::GROUP_BITS | u64::from(location)))
    }
}

impl From<(u32, u8)> for DividedGroup {
    fn from((location, bits): (u32, u8)) -> Self {
        DividedGroup { location, bits }
    }
}

impl From<DividedGroup> for (u32, u8) {
    fn from(group: DividedGroup) -> Self {
        (group.location, group.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_parts_of_its_bits() {
        let group = DividedGroup { location: 7, bits: 34 };
        assert_eq!(group.whole(), BucketId::new(32, 7));
        assert_eq!(group.bucket(3), BucketId::new(3, 7));
        let parts: Vec<BucketId> = group.parts().collect();
        assert_eq!(parts, [0, 1, 2, 3].map(|part: u64| BucketId::new(34, part << 32 | 7)));
        assert!(parts.iter().all(|part| group.whole().covers(*part)));
        assert_eq!(DividedGroup { bits: 32, ..group }.parts().collect::<Vec<_>>(), [group.whole()]);
    }
}
