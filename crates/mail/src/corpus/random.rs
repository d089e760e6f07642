//! Random numbers that are the same on every machine and in every release.

/// SplitMix64 generator: fast, small, and good enough for a corpus.
#[derive(Debug, Clone)]
pub(super) struct CorpusRandom(u64);

impl CorpusRandom {
    /// Creates a generator for a purpose: other purposes with the same seed get other numbers.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut random = CorpusRandom(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number of `low..=high`.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True in this share of cases, in percent.
    pub(super) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of the items, of which there is at least one.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// An index below `end`: small ones often, large ones seldom.
    pub(super) fn skewed(&mut self, end: usize) -> usize {
        let first = self.below(end);
        self.below(first + 1)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
