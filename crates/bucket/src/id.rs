use std::fmt;
use std::str::FromStr;

use millrace_document::{DocumentGroup, Location, ReversedLocation};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, LocationRange};

/// The set of locations whose lowest `used_bits` bits are those of `bits`.
///
/// It has one text form, `BucketId(0x…)`, which is Vespa's: 16 hexadecimal digits of a word with the number
/// of bits in its top 6 bits. In text formats such as JSON it is serialized as this text, in binary formats
/// as the pair of the number of bits and the bits ([`BucketId::parts`]).
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

    /// Number of bits that define it, and the bits.
    pub const fn parts(self) -> (u8, u64) {
        (self.used_bits, self.bits)
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

    /// The reversed locations in it.
    pub const fn reversed_range(self) -> LocationRange {
        let first = self.bits.reverse_bits();
        let rest = if self.used_bits == 0 { u64::MAX } else { u64::MAX >> self.used_bits };
        LocationRange { first: ReversedLocation::new(first), last: ReversedLocation::new(first | rest) }
    }
}

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketId(0x{:016x})", u64::from(self.used_bits) << Location::BITS | self.bits)
    }
}

impl FromStr for BucketId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix("BucketId(0x").and_then(|rest| rest.strip_suffix(')'));
        let digits = digits.filter(|digits| digits.len() == 16 && !digits.starts_with('+'));
        let word = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let word = word.ok_or_else(|| Error::BucketText(text.to_owned()))?;
        BucketId::try_from(((word >> Location::BITS) as u8, word & mask(Location::BITS as u8)))
    }
}

impl TryFrom<(u8, u64)> for BucketId {
    type Error = Error;

    /// Converts the output of [`BucketId::parts`].
    fn try_from((used_bits, bits): (u8, u64)) -> Result<Self, Error> {
        match u32::from(used_bits) <= Location::BITS {
            true => Ok(BucketId::new(used_bits, bits)),
            false => Err(Error::BucketBits(used_bits)),
        }
    }
}

impl Serialize for BucketId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => self.parts().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for BucketId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => String::deserialize(deserializer)?.parse(),
            false => <(u8, u64)>::deserialize(deserializer)?.try_into(),
        }
        .map_err(D::Error::custom)
    }
}

const fn mask(bits: u8) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_its_text_and_its_parts() {
        for (bucket, text) in [
            (BucketId::ROOT, "BucketId(0x0000000000000000)"),
            (BucketId::new(10, 77), "BucketId(0x280000000000004d)"),
            (BucketId::new(58, u64::MAX), "BucketId(0xebffffffffffffff)"),
        ] {
            assert_eq!(bucket.to_string(), text);
            assert_eq!(text.parse(), Ok(bucket));
            assert_eq!(BucketId::try_from(bucket.parts()), Ok(bucket));
            assert_eq!(serde_json::to_string(&bucket).unwrap(), format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<BucketId>(&format!("\"{text}\"")).unwrap(), bucket);
        }
        for wrong in
            ["", "10.4d", "BucketId(0x4d)", "BucketId(0x+80000000000004d)", "BucketId(0x280000000000004d"]
        {
            assert_eq!(wrong.parse::<BucketId>(), Err(Error::BucketText(wrong.to_owned())));
        }
        assert_eq!("BucketId(0xec00000000000000)".parse::<BucketId>(), Err(Error::BucketBits(59)));
        assert_eq!(BucketId::try_from((200, 1)), Err(Error::BucketBits(200)));
    }
}
