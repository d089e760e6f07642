use std::time::Duration;

/// Pseudo-random numbers that are the same for the same seed, on every machine (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct SimRandom(u64);

impl SimRandom {
    pub fn new(seed: u64) -> Self {
        SimRandom(seed ^ 0x6d69_6c6c_7261_6365)
    }

    pub fn next(&mut self) -> u64 {
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

    /// True in `chance` of a thousand cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    pub fn micros(&mut self, min: u64, max: u64) -> Duration {
        Duration::from_micros(min + self.below(max.saturating_sub(min) + 1))
    }

    /// One of these, if there is any.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len() as u64) as usize).copied()
    }
}
