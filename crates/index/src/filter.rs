//! Filters that tell quickly that a run has nothing about a document: Bloom filters of pages of documents.

use xxhash_rust::xxh3::xxh3_128;

/// Documents of one page.
pub(crate) const PAGE_DOCUMENTS: usize = 16_384;

const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 7;

/// Hash of a document's key.
#[derive(Clone, Copy)]
pub(crate) struct KeyHash(u64, u64);

impl KeyHash {
    pub fn of(key: &[u8]) -> Self {
        let hash = xxh3_128(key);
        KeyHash(hash as u64, (hash >> 64) as u64 | 1)
    }

    fn bits(self, count: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(PROBES)).map(move |probe| self.0.wrapping_add(probe.wrapping_mul(self.1)) % count)
    }
}

/// Filter of these keys.
pub(crate) fn build(keys: &[KeyHash]) -> Vec<u8> {
    let mut bytes = vec![0; (keys.len() * BITS_PER_KEY).div_ceil(8).max(8)];
    let count = bytes.len() as u64 * 8;
    for key in keys {
        key.bits(count).for_each(|bit| bytes[(bit / 8) as usize] |= 1 << (bit % 8));
    }
    bytes
}

/// False only if the filter was built without the key.
pub(crate) fn may_contain(filter: &[u8], key: KeyHash) -> bool {
    let count = filter.len() as u64 * 8;
    count == 0 || key.bits(count).all(|bit| filter[(bit / 8) as usize] & 1 << (bit % 8) != 0)
}
