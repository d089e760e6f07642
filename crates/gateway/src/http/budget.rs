//! The memory budget for the bodies of all requests in flight, as sent and as unpacked.
//!
//! Bytes are reserved as a body grows. A request that gets none waits, for a bounded time, and is then
//! refused with 429 and the time after which there should be room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use millrace_node::Error;

/// Maximum retry delay for a refused request, in seconds.
const RETRY_AFTER_MAX_S: u64 = 30;

/// The budget of bytes for all bodies in flight. Reserving bytes is one atomic addition while there is room.
pub(crate) struct BodyBudget {
    capacity: usize,
    /// Maximum time that a request waits for room.
    patience: Duration,
    reserved: AtomicUsize,
    /// Number of requests that wait for room.
    waiting: AtomicUsize,
    /// Total of the bytes that they wait for.
    wanted: AtomicUsize,
    /// Bytes released while requests waited.
    given_back: AtomicU64,
    refused: AtomicU64,
    freed: Notify,
}

/// The state of a [`BodyBudget`], for metrics.
pub(crate) struct BudgetFigures {
    /// Reserved bytes.
    pub(crate) reserved: usize,
    /// Number of requests that wait for room.
    pub(crate) waiting: usize,
    /// Number of requests refused since the start.
    pub(crate) refused: u64,
}

impl BodyBudget {
    /// Creates a budget of `capacity` bytes, for which a request waits up to `patience`.
    pub(crate) fn new(capacity: usize, patience: Duration) -> Arc<Self> {
        Arc::new(BodyBudget {
            capacity,
            patience,
            reserved: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            given_back: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Creates a share without any bytes yet.
    pub(crate) fn share(self: &Arc<Self>) -> BodyShare {
        BodyShare { budget: Arc::clone(self), bytes: 0 }
    }

    pub(crate) fn figures(&self) -> BudgetFigures {
        BudgetFigures {
            reserved: self.reserved.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Reserves `bytes` if there is room. A new request may overtake waiting ones: that is bounded by their
    /// patience.
    fn take(&self, bytes: usize) -> bool {
        let fits = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= self.capacity);
        self.reserved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        let before = self.reserved.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "what is given back to the budget of bodies was reserved before");
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Returns the seconds after which there should be room for waiting requests, by the rate of bytes
    /// released in the last `waited`.
    fn retry_after_s(&self, returned: u64, waited: Duration) -> u64 {
        let wanted = self.wanted.load(Ordering::Relaxed) as f64;
        let rate = returned as f64 / waited.as_secs_f64().max(1e-3);
        let seconds = if rate > 0.0 { (wanted / rate).ceil() } else { RETRY_AFTER_MAX_S as f64 };
        (seconds as u64).clamp(1, RETRY_AFTER_MAX_S)
    }
}

/// Bytes of a [`BodyBudget`] that one request has reserved; released when the share is dropped.
pub(crate) struct BodyShare {
    budget: Arc<BodyBudget>,
    bytes: usize,
}

impl BodyShare {
    /// Reserves `bytes` more, and waits for them if there is no room.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none for as long as a request waits; [`Error::OverBudget`] for more
    /// than the whole budget.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        if self.try_grow(bytes) { Ok(()) } else { self.wait(bytes).await }
    }

    /// Reserves `bytes` more if there is room now.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let taken = self.budget.take(bytes);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Reserves up to `bytes` in all.
    ///
    /// # Errors
    /// As [`BodyShare::grow`].
    pub(crate) async fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        match bytes.checked_sub(self.bytes) {
            Some(more) if more > 0 => self.grow(more).await,
            _ => Ok(()),
        }
    }

    async fn wait(&mut self, bytes: usize) -> Result<(), Error> {
        let budget = Arc::clone(&self.budget);
        if self.bytes.saturating_add(bytes) > budget.capacity {
            budget.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::OverBudget { budget: budget.capacity });
        }
        let _waiter = BudgetWaiter::new(&budget, bytes);
        let (began, returned) = (Instant::now(), budget.given_back.load(Ordering::Relaxed));
        let until = began + budget.patience;
        loop {
            let freed = budget.freed.notified();
            tokio::pin!(freed);
            // Any release after this wakes it.
            freed.as_mut().enable();
            if self.try_grow(bytes) {
                return Ok(());
            }
            // Other requests may be woken and take the free room, again and again: time passes all the same.
            let is_late = Instant::now() >= until || tokio::time::timeout_at(until, freed).await.is_err();
            if is_late {
                budget.refused.fetch_add(1, Ordering::Relaxed);
                let returned = budget.given_back.load(Ordering::Relaxed) - returned;
                return Err(Error::NoRoom { retry_after_s: budget.retry_after_s(returned, began.elapsed()) });
            }
        }
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            if self.budget.waiting.load(Ordering::Relaxed) > 0 {
                self.budget.given_back.fetch_add(self.bytes as u64, Ordering::Relaxed);
            }
            self.budget.give_back(self.bytes);
        }
    }
}

/// A request that waits for room.
struct BudgetWaiter<'b> {
    budget: &'b BodyBudget,
    bytes: usize,
}

impl<'b> BudgetWaiter<'b> {
    fn new(budget: &'b BodyBudget, bytes: usize) -> Self {
        budget.waiting.fetch_add(1, Ordering::SeqCst);
        budget.wanted.fetch_add(bytes, Ordering::Relaxed);
        BudgetWaiter { budget, bytes }
    }
}

impl Drop for BudgetWaiter<'_> {
    fn drop(&mut self) {
        self.budget.waiting.fetch_sub(1, Ordering::SeqCst);
        self.budget.wanted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::HttpError;

    #[tokio::test]
    async fn what_does_not_fit_waits_and_is_refused_with_a_time() {
        let budget = BodyBudget::new(100, Duration::from_millis(20));
        let mut first = budget.share();
        first.grow(60).await.expect("there is room");
        let mut second = budget.share();
        assert!(second.try_grow(40) && !second.try_grow(1));
        let mut third = budget.share();
        let refused = third.grow(50).await.expect_err("there is no room");
        assert!(matches!(refused, Error::NoRoom { retry_after_s: RETRY_AFTER_MAX_S }), "{refused}");
        assert_eq!(budget.figures().refused, 1);
        assert_eq!(refused.status(), hyper::StatusCode::TOO_MANY_REQUESTS);
    }

    #[tokio::test]
    async fn whoever_waits_gets_what_another_gives_back() {
        let budget = BodyBudget::new(100, Duration::from_secs(3600));
        let mut first = budget.share();
        first.grow(100).await.expect("there is room");
        let waiting = tokio::spawn({
            let mut share = budget.share();
            async move { share.grow(70).await.map(|()| share) }
        });
        while budget.figures().waiting == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        let share = waiting.await.expect("no panic").expect("there is room now");
        assert_eq!((budget.figures().reserved, budget.figures().waiting), (70, 0));
        drop(share);
        assert_eq!(budget.figures().reserved, 0);
    }

    #[tokio::test]
    async fn those_who_wait_do_not_wake_each_other() {
        let budget = BodyBudget::new(100, Duration::from_millis(20));
        let mut holder = budget.share();
        holder.grow(90).await.expect("there is room");
        let wait = || {
            let mut share = budget.share();
            tokio::spawn(async move { share.grow(50).await.is_ok() })
        };
        for waiting in [wait(), wait(), wait()] {
            assert!(!waiting.await.expect("no panic"));
        }
        assert_eq!((budget.figures().reserved, budget.figures().waiting), (90, 0));
    }

    #[tokio::test]
    async fn more_than_the_whole_budget_is_refused_at_once() {
        let budget = BodyBudget::new(100, Duration::from_secs(3600));
        let mut share = budget.share();
        share.grow(60).await.expect("there is room");
        let refused = share.grow(41).await.expect_err("it never fits");
        assert!(matches!(refused, Error::OverBudget { budget: 100 }), "{refused}");
    }
}
