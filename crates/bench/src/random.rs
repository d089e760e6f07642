//! Pseudo-random numbers and texts that are the same on every run.

use millrace_fixtures::SeededRandom;

/// A stream of numbers and vectors from a seed.
#[derive(Debug, Clone)]
pub struct BenchRandom(SeededRandom);

impl BenchRandom {
    /// Creates the stream of a seed.
    pub const fn new(seed: u64) -> Self {
        BenchRandom(SeededRandom::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number from 0, below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A vector of length 1 in a random direction.
    pub fn direction(&mut self, dimensions: usize) -> Vec<f32> {
        let mut vector: Vec<f64> = (0..dimensions).map(|_| self.normal()).collect();
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        vector.iter_mut().for_each(|x| *x /= length);
        vector.into_iter().map(|x| x as f32).collect()
    }

    /// A word number below `words`, small ones more often, as in texts (Zipf).
    pub fn word(&mut self, words: u64) -> u64 {
        let last = (words.max(1) as f64).ln();
        ((self.share() * last).exp() as u64).saturating_sub(1).min(words.saturating_sub(1))
    }

    /// Normally distributed around 0 (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_bounds_and_the_same_again() {
        let (mut random, mut again) = (BenchRandom::new(7), BenchRandom::new(7));
        for _ in 0..1000 {
            assert_eq!(random.bits(), again.bits());
            assert!(random.below(10) < 10 && (0.0..1.0).contains(&random.share()) && random.word(50) < 50);
            again = random.clone();
        }
        assert_eq!(random.below(0), 0);
        let length: f32 = random.direction(384).iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
    }
}
