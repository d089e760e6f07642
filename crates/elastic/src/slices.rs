//! Slices of a search: parts of the documents that several clients read beside each other.

use serde_json::Value;

use crate::Error;
use crate::catalog::OpenIndex;
use crate::index_admin::shards_of;
use crate::storage::StoredSource;

/// Setting with the number of slices that a search of an index may have.
const SLICES_LIMIT: &str = "index.max_slices_per_scroll";

/// Slices of an index whose settings name no number.
const SLICES_BY_DEFAULT: u64 = 1_024;

/// A slice of a search, and the number of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitSlice {
    id: u64,
    max: u64,
}

impl HitSlice {
    /// Parses `slice`.
    ///
    /// # Errors
    /// There is no such slice.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let part = |name: &str| value.get(name).and_then(Value::as_u64);
        match (part("id"), part("max")) {
            (Some(id), Some(max)) if max > 1 && id < max => Ok(HitSlice { id, max }),
            (_, Some(0 | 1)) => Err(Error::IllegalArgument("[slice] max must be greater than 1".to_owned())),
            _ => Err(Error::IllegalArgument("[slice] max must be greater than id".to_owned())),
        }
    }

    /// Checks the number of slices.
    ///
    /// # Errors
    /// An index has fewer.
    pub(crate) fn check(self, indexes: &[OpenIndex]) -> Result<(), Error> {
        let limits = indexes.iter().map(|index| index.number_of(SLICES_LIMIT, SLICES_BY_DEFAULT));
        match limits.min().unwrap_or(SLICES_BY_DEFAULT) {
            limit if self.max > limit => Err(Error::IllegalArgument(format!(
                "The number of slices [{}] is too large. It must be less than [{limit}]. This limit can be set by changing the \
                 [{SLICES_LIMIT}] index level setting.",
                self.max
            ))),
            _ => Ok(()),
        }
    }

    /// True if a document is in the slice.
    pub(crate) fn has(self, index: &OpenIndex, stored: &StoredSource) -> bool {
        let routing = stored.routing.as_deref().unwrap_or(&stored.id);
        self.has_document(shards_of(index), routing, &stored.id)
    }

    /// Whole shards are divided among the slices; where there are more slices, the documents of each shard
    /// are divided among some of them.
    fn has_document(self, shards: u64, routing: &str, id: &str) -> bool {
        let wide: Vec<u8> = routing.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let shard = remainder(&wide, shards);
        if self.max < shards {
            return shard % self.max == self.id;
        }
        let own = self.id % shards;
        let slices = self.max / shards + u64::from(self.max % shards > own);
        shard == own && remainder(id.as_bytes(), slices) == self.id / shards
    }
}

/// Remainder of the hash of bytes, which has a sign; it has none.
fn remainder(bytes: &[u8], divisor: u64) -> u64 {
    // Divisors are numbers of shards and slices, and the remainder is not negative.
    let divisor = i64::try_from(divisor).unwrap_or(i64::MAX).max(1);
    i64::from(hash(bytes).cast_signed()).rem_euclid(divisor).unsigned_abs()
}

/// MurmurHash3 of 32 bits for x86, with the seed 0.
fn hash(bytes: &[u8]) -> u32 {
    let mixed = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut words = bytes.chunks_exact(4);
    let mut sum = 0_u32;
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        sum = (sum ^ mixed(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    sum ^= mixed(words.remainder().iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    sum ^= bytes.len() as u32;
    sum = (sum ^ sum >> 16).wrapping_mul(0x85eb_ca6b);
    sum = (sum ^ sum >> 13).wrapping_mul(0xc2b2_ae35);
    sum ^ sum >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_others() {
        for (text, expected) in [
            ("", 0),
            ("hello", 613_153_351),
            ("hello, world", 345_750_399),
            ("The quick brown fox jumps over the lazy dog", 776_992_547),
        ] {
            assert_eq!(hash(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn each_document_is_in_one_slice() {
        for (shards, max) in [(1, 2), (5, 2), (5, 5), (5, 7), (3, 1_025), (1_024, 3)] {
            let slices: Vec<HitSlice> = (0..max).map(|id| HitSlice { id, max }).collect();
            let mut used = vec![false; slices.len()];
            for id in (0..200).map(|number| format!("id-{number}")) {
                for routing in [&*id, "ann"] {
                    let own = slices.iter().filter(|slice| slice.has_document(shards, routing, &id));
                    let own: Vec<u64> = own.map(|slice| slice.id).collect();
                    assert_eq!(own.len(), 1, "{id} {routing}: {own:?} of {max}, {shards} shards");
                    used[own[0] as usize] = true;
                }
            }
            assert!(used.iter().filter(|used| **used).count() > 1, "documents are spread");
        }
    }

    /// The slices of OpenSearch, whose documents go to shards by the same hash of their routing values.
    #[test]
    fn whole_shards_are_in_one_slice() {
        for (id, expected) in [("1", 1), ("2", 0), ("3", 0), ("4", 0)] {
            let own = [0, 1].map(|slice| HitSlice { id: slice, max: 2 }.has_document(5, id, id));
            assert_eq!(own, [expected == 0, expected == 1], "{id}");
        }
    }
}
