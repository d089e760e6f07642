/// Pseudo-random numbers that are the same for the same seed, on every machine (splitmix64).
pub struct FeedRandom(u64);

impl FeedRandom {
    pub fn new(seed: u64) -> Self {
        FeedRandom(seed ^ 0x696e_6465_7866_6565)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `chance` of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A time between two, in milliseconds, as microseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> u64 {
        1_000 * least + self.below(1_000 * (most - least) + 1)
    }
}
