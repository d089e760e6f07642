//! How many operations are under way at a time.
//!
//! The window grows by one for each answer that came quickly, and shrinks a little for each that came slowly: beyond the point
//! where all of the node's cores and its disk are busy, more operations only wait longer. A refusal for too much load halves it.

use std::time::{Duration, Instant};

/// The window of operations under way.
pub(super) struct Throttle {
    window: f64,
    largest: f64,
    /// The quickest answer lately: what an operation takes that does not wait.
    quickest: Duration,
    quickest_at: Instant,
    halved_at: Option<Instant>,
}

/// The window never is smaller.
const SMALLEST: f64 = 8.0;

/// An answer that takes this many times the quickest has waited.
const WAITED: u32 = 12;

/// After so long the quickest answer is measured anew.
const MEMORY: Duration = Duration::from_secs(10);

/// The window is halved at most once in this time, since one overload refuses many operations.
const HALVING: Duration = Duration::from_millis(200);

impl Throttle {
    /// A window of up to `largest`.
    pub(super) fn new(largest: usize, now: Instant) -> Self {
        let largest = (largest as f64).max(1.0);
        Throttle {
            window: (SMALLEST * 8.0).min(largest),
            largest,
            quickest: Duration::MAX,
            quickest_at: now,
            halved_at: None,
        }
    }

    /// How many may be under way.
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// An answer came after `latency`.
    pub(super) fn answered(&mut self, latency: Duration, now: Instant) {
        if latency < self.quickest || now.duration_since(self.quickest_at) > MEMORY {
            self.quickest = latency.max(Duration::from_micros(200));
            self.quickest_at = now;
        }
        if latency > self.quickest.saturating_mul(WAITED) {
            self.window -= 0.25;
        } else {
            self.window += 1.0;
        }
        self.clamp();
    }

    /// The node refused an operation for too much load.
    pub(super) fn refused(&mut self, now: Instant) {
        if self.halved_at.is_none_or(|at| now.duration_since(at) > HALVING) {
            self.halved_at = Some(now);
            self.window /= 2.0;
            self.clamp();
        }
    }

    fn clamp(&mut self) {
        self.window = self.window.clamp(SMALLEST.min(self.largest), self.largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_node() {
        let start = Instant::now();
        let mut throttle = Throttle::new(1000, start);
        for _ in 0..2000 {
            throttle.answered(Duration::from_millis(2), start);
        }
        assert_eq!(throttle.window(), 1000, "quick answers open it");
        for _ in 0..100 {
            throttle.refused(start);
        }
        assert_eq!(throttle.window(), 500, "one overload halves it once");
        for _ in 0..4000 {
            throttle.answered(Duration::from_millis(200), start);
        }
        assert_eq!(throttle.window(), 8, "slow answers close it");
    }
}
