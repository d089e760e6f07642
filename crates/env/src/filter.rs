//! Bloom filters: pages of a file that say quickly which keys the file does not have.

use xxhash_rust::xxh3::xxh3_128;

/// Keys of one page, at most or about.
pub const PAGE_KEYS: usize = 16_384;

const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 7;

/// Hash of a key, by which filters have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(u64, u64);

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &[u8]) -> Self {
        let hash = xxh3_128(key);
        KeyHash(hash as u64, (hash >> 64) as u64 | 1)
    }

    /// The page of the key where keys are spread over `pages` pages by their hashes.
    pub fn page(self, pages: u32) -> u32 {
        // Less than the number of pages.
        (((self.1 >> 32) * u64::from(pages)) >> 32) as u32
    }

    fn bits(self, count: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(PROBES)).map(move |probe| self.0.wrapping_add(probe.wrapping_mul(self.1)) % count)
    }
}

/// Bytes of the filter of `keys` keys.
pub fn bytes_of(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(8).max(8)
}

/// Filter of these keys.
pub fn build(keys: &[KeyHash]) -> Vec<u8> {
    let mut bytes = vec![0; bytes_of(keys.len())];
    keys.iter().for_each(|key| add(&mut bytes, *key));
    bytes
}

/// Adds a key to a filter, which is not empty.
pub fn add(filter: &mut [u8], key: KeyHash) {
    let count = filter.len() as u64 * 8;
    key.bits(count).for_each(|bit| filter[(bit / 8) as usize] |= 1 << (bit % 8));
}

/// False only if the filter was built without the key.
pub fn may_contain(filter: &[u8], key: KeyHash) -> bool {
    let count = filter.len() as u64 * 8;
    count == 0 || key.bits(count).all(|bit| filter[(bit / 8) as usize] & 1 << (bit % 8) != 0)
}

#[cfg(test)]
mod tests {
    use super::{KeyHash, PAGE_KEYS, build, may_contain};

    fn hash(number: usize) -> KeyHash {
        KeyHash::of(format!("id:n:mail:g=ann:{number}").as_bytes())
    }

    #[test]
    fn a_filter_has_its_keys_and_few_others() {
        for count in [0, 1, 64, 1_000, PAGE_KEYS] {
            let keys: Vec<KeyHash> = (0..count).map(hash).collect();
            let filter = build(&keys);
            assert!(keys.iter().all(|key| may_contain(&filter, *key)), "{count} keys");
            let others = (0..20_000).filter(|number| may_contain(&filter, hash(1 << 20 | number))).count();
            assert!(others < 400, "{others} of 20,000 others in a filter of {count} keys");
        }
    }

    #[test]
    fn keys_are_spread_over_all_pages() {
        for pages in [1, 2, 3, 100] {
            let mut counts = vec![0; pages as usize];
            (0..100_000).for_each(|number| counts[hash(number).page(pages) as usize] += 1);
            let even = 100_000 / pages;
            assert!(counts.iter().all(|count| (even / 2..even * 2).contains(count)), "{pages}: {counts:?}");
        }
    }
}
