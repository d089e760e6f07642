use std::fmt;

use millrace_document::{DocumentGroup, Location};

/// The set of locations whose lowest `used_bits` bits are those of `bits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId {
    used_bits: u8,
    bits: u64,
}

impl BucketId {
    /// Bits that all documents of one group share. A bucket that uses more is a part of a large group (or of
    /// several groups whose names have the same digest).
    pub const GROUP_BITS: u8 = 32;

    /// The bucket of all locations.
    pub const ROOT: BucketId = BucketId { used_bits: 0, bits: 0 };

    /// Creates the bucket of these lowest bits; higher ones are dropped.
    ///
    /// # Panics
    /// `used_bits` exceeds the number of bits of a location.
    pub const fn new(used_bits: u8, bits: u64) -> Self {
        assert!(used_bits as u32 <= Location::BITS, "a bucket uses at most the bits of a location");
        BucketId { used_bits, bits: bits & mask(used_bits) }
    }

    /// Number of bits that define it.
    pub const fn used_bits(self) -> u8 {
        self.used_bits
    }

    /// The bits that define it.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// True if it contains `location`.
    pub const fn contains(self, location: Location) -> bool {
        location.bits() & mask(self.used_bits) == self.bits
    }

    /// True if it contains all locations of `other`.
    pub const fn covers(self, other: BucketId) -> bool {
        other.used_bits >= self.used_bits && other.bits & mask(self.used_bits) == self.bits
    }

    /// True if it can contain documents of `group`.
    pub fn intersects(self, group: &DocumentGroup) -> bool {
        group.location_bits().is_none_or(|low| {
            let common = mask(self.used_bits.min(Self::GROUP_BITS));
            u64::from(low) & common == self.bits & common
        })
    }

    /// The two halves, first the one whose next bit is 0; `None` if all bits are used.
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

    /// The bucket that it is a half of; `None` for [`BucketId::ROOT`].
    pub const fn parent(self) -> Option<BucketId> {
        if self.used_bits == 0 {
            return None;
        }
        Some(BucketId::new(self.used_bits - 1, self.bits))
    }

    /// First and last reversed location, see [`Location::reversed`].
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
