use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_env::WallClock;

/// Environment of statements: `now`, `hostname`, `random`.
pub struct IndexingEnvironment {
    clock: Arc<dyn WallClock>,
    hostname: String,
    random: AtomicU64,
}

impl IndexingEnvironment {
    /// Creates the environment of a host with this name. The same seed gives the same sequence of random
    /// numbers.
    pub fn new(clock: Arc<dyn WallClock>, hostname: impl Into<String>, seed: u64) -> Self {
        IndexingEnvironment { clock, hostname: hostname.into(), random: AtomicU64::new(seed) }
    }

    pub(crate) fn now_s(&self) -> i64 {
        (self.clock.now_us() / 1_000_000) as i64
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.hostname
    }

    /// A number in `0..below`, or 0 if that range is empty. Suitable for sampling, not for secrets.
    pub(crate) fn random(&self, below: u32) -> u32 {
        // SplitMix64: a counter, mixed.
        let mut mixed = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (((mixed >> 32) * u64::from(below)) >> 32) as u32
    }
}
