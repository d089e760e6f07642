use std::fmt;

use millrace_document::{Group, Location};

/// The set of locations whose lowest `used_bits` bits are those of `bits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId {
    used_bits: u8,
    bits: u64,
}

impl BucketId {
    /// The bits that all documents of one group share: a bucket that uses more is a part of a large group (or of several whose names
    /// have the same digest).
    pub const GROUP_BITS: u8 = 32;

    /// The bucket of every location.
    pub const ROOT: BucketId = BucketId { used_bits: 0, bits: 0 };

    /// The bucket of these lowest bits; higher ones are dropped.
    ///
    /// # Panics
    /// More bits than a location has.
    pub const fn new(used_bits: u8, bits: u64) -> Self {
        assert!(used_bits as u32 <= Location::BITS, "a bucket uses at most the bits of a location");
        BucketId { used_bits, bits: bits & mask(used_bits) }
    }

    /// How many bits it fixes.
    pub const fn used_bits(self) -> u8 {
        self.used_bits
    }

    /// The bits it fixes.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// Whether `location` falls into it.
    pub const fn contains(self, location: Location) -> bool {
        location.bits() & mask(self.used_bits) == self.bits
    }

    /// Whether every location of `other` falls into it.
    pub const fn covers(self, other: BucketId) -> bool {
        other.used_bits >= self.used_bits && other.bits & mask(self.used_bits) == self.bits
    }

    /// Whether documents of `group` can fall into it.
    pub fn intersects(self, group: &Group) -> bool {
        group.location_bits().is_none_or(|low| {
            let common = mask(self.used_bits.min(Self::GROUP_BITS));
            u64::from(low) & common == self.bits & common
        })
    }

    /// The two halves, the one whose next bit is 0 first; `None` when all bits are used.
    pub const fn children(self) -> Option<[BucketId; 2]> {
        if self.used_bits as u32 >= Location::BITS {
            return None;
        }
        let used_bits = self.used_bits + 1;
        Some([
            BucketId { used_bits, bits: self.bits },
            BucketId { used_bits, bits: self.bits | 1 << self.used_bits },
        ])
    }

    /// The bucket this is a half of; `None` for [`BucketId::ROOT`].
    pub const fn parent(self) -> Option<BucketId> {
        if self.used_bits == 0 {
            return None;
        }
        Some(BucketId::new(self.used_bits - 1, self.bits))
    }

    /// The first and last reversed location in it, see [`Location::reversed`].
    pub const fn reversed_range(self) -> (u64, u64) {
        let first = self.bits.reverse_bits();
        let rest = if self.used_bits == 0 { u64::MAX } else { u64::MAX >> self.used_bits };
        (first, first | rest)
    }
}

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketId(0x{:016x})", u64::from(self.used_bits) << 58 | self.bits)
    }
}

const fn mask(bits: u8) -> u64 {
    (1 << bits) - 1
}
