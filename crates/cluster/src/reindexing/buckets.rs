use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use serde::{Deserialize, Serialize};

/// Maximum size in bytes of the serialized buckets of divided groups. Buckets beyond it are done again after
/// a restart.
const PARTS_BYTES_MAX: usize = 256 << 10;

/// Buckets all of whose documents are done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReindexedOnWire", into = "ReindexedOnWire")]
pub struct ReindexedBuckets(BTreeSet<BucketId>);

/// Serialized form: for each number of bits that buckets use, and for each divided group with its bits
/// (`BITS-LOW`, in hexadecimal digits), a row of bits, one for each possible bucket, in hexadecimal digits;
/// trailing zeros are left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct ReindexedOnWire(BTreeMap<String, String>);

impl ReindexedBuckets {
    /// Marks a bucket as done.
    pub fn add(&mut self, bucket: BucketId) {
        self.0.insert(bucket);
    }

    /// Adds the buckets of another set.
    pub fn extend(&mut self, other: &ReindexedBuckets) {
        self.0.extend(&other.0);
    }

    /// True if a bucket is done. A part of a group that was divided further since is done if the part that
    /// contained it is. The contents of the bucket of a group that was undivided then may not be: this bucket
    /// says nothing of parts that were elsewhere already.
    pub fn has(&self, bucket: BucketId) -> bool {
        let bits_min = if bucket.used_bits() > BucketId::GROUP_BITS {
            BucketId::GROUP_BITS + 1
        } else {
            bucket.used_bits()
        };
        (bits_min..=bucket.used_bits()).any(|bits| self.0.contains(&BucketId::new(bits, bucket.bits())))
    }
}

impl From<ReindexedBuckets> for ReindexedOnWire {
    fn from(done: ReindexedBuckets) -> Self {
        let mut rows: BTreeMap<(u8, u64), Vec<u8>> = BTreeMap::new();
        for bucket in done.0 {
            let shared = bucket.used_bits().min(BucketId::GROUP_BITS);
            let is_part = bucket.used_bits() > BucketId::GROUP_BITS;
            let (low, number) = match is_part {
                true => (bucket.bits() & ((1 << shared) - 1), bucket.bits() >> shared),
                false => (0, bucket.bits()),
            };
            let digit = (number / 4) as usize;
            let row = rows.entry((bucket.used_bits(), low)).or_default();
            row.resize(row.len().max(digit + 1), 0);
            row[digit] |= 1 << (number % 4);
        }
        let mut left = PARTS_BYTES_MAX;
        let written = rows.into_iter().filter_map(|((bits, low), row)| {
            let row: String =
                row.into_iter().filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
            if bits <= BucketId::GROUP_BITS {
                return Some((bits.to_string(), row));
            }
            let name = format!("{bits}-{low:x}");
            left = left.checked_sub(name.len() + row.len() + 6)?;
            Some((name, row))
        });
        ReindexedOnWire(written.collect())
    }
}

impl From<ReindexedOnWire> for ReindexedBuckets {
    fn from(ReindexedOnWire(rows): ReindexedOnWire) -> Self {
        let buckets = rows.iter().flat_map(|(name, row)| {
            let (bits, low) = name.split_once('-').unwrap_or((name, "0"));
            let bits = bits.parse::<u8>().ok();
            let low = u64::from_str_radix(low, 16).ok();
            let shared = if name.contains('-') { BucketId::GROUP_BITS } else { 0 };
            let numbers = row.chars().zip(0_u64..).flat_map(|(digit, index)| {
                let digit = digit.to_digit(16).unwrap_or(0);
                (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| index * 4 + bit)
            });
            // Unreadable entries are not done.
            let known = bits.zip(low).into_iter();
            known.flat_map(move |(bits, low)| {
                numbers.clone().filter_map(move |number| {
                    // The row of a group may have more digits than it has parts.
                    BucketId::try_from((bits, number << shared | low)).ok()
                })
            })
        });
        ReindexedBuckets(buckets.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_written_down_and_read_again() {
        let mut done = ReindexedBuckets::default();
        let part = |bits, part: u64| BucketId::new(bits, part << 32 | 0x107);
        let buckets = [BucketId::new(10, 0), BucketId::new(10, 5), BucketId::new(10, 1023), part(41, 511)];
        buckets.iter().for_each(|bucket| done.add(*bucket));
        let text = serde_json::to_string(&done).unwrap();
        assert!(text.starts_with(r#"{"10":"120"#) && text.contains(r#""41-107":"00"#), "{text}");
        assert!(text.len() < 500, "{text}");
        let read: ReindexedBuckets = serde_json::from_str(&text).unwrap();
        assert_eq!(read, done);
        assert!(buckets.iter().all(|bucket| read.has(*bucket)));
        assert!(!read.has(BucketId::new(10, 4)) && !read.has(part(41, 510)));
        assert_eq!(
            serde_json::from_str::<ReindexedBuckets>(r#"{"x":"f","99":"f","10":"z"}"#).unwrap(),
            ReindexedBuckets::default()
        );
    }

    #[test]
    fn parts_of_a_part_are_done_with_it_and_not_with_the_rest() {
        let mut done = ReindexedBuckets::default();
        let part = |bits, part: u64| BucketId::new(bits, part << 32 | 5);
        done.add(BucketId::new(10, 5));
        done.add(part(33, 1));
        assert!(done.has(part(34, 1)) && done.has(part(34, 3)));
        assert!(!done.has(part(34, 2)) && !done.has(part(33, 0)));
    }

    #[test]
    fn the_parts_of_a_great_many_groups_are_left_out() {
        let parts = (0..4096_u64).flat_map(|low| (0..1024).map(move |part| part << 32 | low << 8));
        let done = ReindexedBuckets(
            parts.map(|bits| BucketId::new(42, bits)).chain([BucketId::new(10, 3)]).collect(),
        );
        let text = serde_json::to_string(&done).unwrap();
        assert!(text.len() < 600_000, "{}", text.len());
        let read: ReindexedBuckets = serde_json::from_str(&text).unwrap();
        assert!(read.has(BucketId::new(10, 3)) && read.0.len() > 1024 && read.0.len() < done.0.len());
    }
}
