//! Limit on the number of operations in flight.
//!
//! The window grows by one for each fast response, and shrinks slightly for each slow one: once all cores and
//! the disk of the node are busy, more operations only wait longer. A rejection because of overload halves
//! it.

use std::time::{Duration, Instant};

/// Window of operations in flight.
pub(super) struct OperationWindow {
    window: f64,
    largest: f64,
    /// Fastest recent response: the duration of an operation without waiting.
    quickest: Duration,
    quickest_at: Instant,
    halved_at: Option<Instant>,
}

/// Minimum size of the window.
const SMALLEST: f64 = 8.0;

/// Ratio to the fastest response from which a response counts as slow.
const WAITED: u32 = 12;

/// Interval after which the fastest response is measured again.
const MEMORY: Duration = Duration::from_secs(10);

/// Minimum time between two halvings, because one overload rejects many operations.
const HALVING: Duration = Duration::from_millis(200);

impl OperationWindow {
    /// Creates a window of up to `largest`.
    pub(super) fn new(largest: usize, now: Instant) -> Self {
        let largest = (largest as f64).max(1.0);
        OperationWindow {
            window: (SMALLEST * 8.0).min(largest),
            largest,
            quickest: Duration::MAX,
            quickest_at: now,
            halved_at: None,
        }
    }

    /// Current size of the window.
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// Records a response after `latency`.
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

    /// Records a rejection because of overload.
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
        let mut throttle = OperationWindow::new(1000, start);
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
