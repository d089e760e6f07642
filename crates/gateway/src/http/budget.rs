//! The memory budget of all requests in flight: their bodies as sent and as unpacked, the work of parsing and
//! evaluating them, and their answers.
//!
//! Each of the three has a ledger of its own. Bytes of a body are reserved as it grows; those of the work at
//! once, when the body has been read, by its size and kind ([`WorkKind`]); those of an answer before its
//! first byte is sent. A request that gets none waits, for a bounded time, and is then refused with 429 and
//! the time after which there should be room.
//!
//! Requests cannot block each other. One that holds work has its whole body, and waits for nothing else in
//! the first two ledgers, except of other nodes, where it gets room beyond that of clients ([`questions`]).
//! An answer holds room for answers only. Large requests wait for work in a line, so that smaller ones do not
//! overtake them for ever; the largest run one after another.

mod counted;
mod heads;
mod questions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use millrace_node::Error;
use millrace_node::work::WorkKind;

/// Maximum retry delay for a refused request, in seconds.
const RETRY_AFTER_MAX_S: u64 = 30;

/// Size of a body in bytes up to which it may take the last part of the room for bodies, so that large bodies
/// do not keep small requests out.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Divisor that gives this part.
const SMALL_PART: usize = 32;

/// Maximum time that a package waits for room.
const PACKAGE_ROOM_TIMEOUT: Duration = Duration::from_secs(60);

/// Fraction of the memory for work, as a divisor, that stays free for small requests: the largest take the
/// rest.
const FREE_PART: usize = 4;

/// Fraction of the memory for work, as a divisor, from which on a request waits in line.
const LINE_PART: usize = 64;

/// Fraction of the free room for answers, as a divisor, that a page of a stream takes.
const PAGE_PART: usize = 8;

/// Size of a page of a stream, in bytes, for which it waits where there is no room.
const PAGE_BYTES_MIN: usize = 64 << 10;

/// Work, in bytes, from which on free memory is returned to the system before it begins and after it ends:
/// the allocator keeps what a request has released, and the next one may run on another thread.
const RETURN_BYTES_MIN: usize = 8 << 20;

/// The bounds of a [`RequestBudget`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetBounds {
    /// Bytes of all bodies.
    pub(crate) bodies: usize,
    /// Bytes of the work over them.
    pub(crate) work: usize,
    /// Bytes of all large answers.
    pub(crate) answers: usize,
    /// Maximum time that a request waits for room.
    pub(crate) wait_max: Duration,
    /// Returns the free memory of the process to the system.
    pub(crate) return_memory: fn(),
}

/// The memory budget of all requests in flight. Reserving bytes is one atomic addition while there is room.
pub(crate) struct RequestBudget {
    bodies: ByteLedger,
    work: ByteLedger,
    answers: ByteLedger,
    wait_max: Duration,
    return_memory: fn(),
    /// Held by the large request that is the next to get room for its work.
    line: Mutex<()>,
}

/// The reserved bytes of one kind of memory.
struct ByteLedger {
    /// Setting that has the capacity.
    setting: &'static str,
    capacity: usize,
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

/// The state of a ledger, for metrics.
pub(crate) struct LedgerStats {
    /// Reserved bytes.
    pub(crate) reserved: usize,
    /// Number of requests that wait for room.
    pub(crate) waiting: usize,
    /// Number of requests refused since the start.
    pub(crate) refused: u64,
}

impl ByteLedger {
    fn new(setting: &'static str, capacity: usize) -> Self {
        ByteLedger {
            setting,
            capacity,
            reserved: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            given_back: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            freed: Notify::new(),
        }
    }

    fn stats(&self) -> LedgerStats {
        LedgerStats {
            reserved: self.reserved.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Reserves `bytes` if there is room. A new request may overtake waiting ones: that is bounded by their
    /// limit of waiting.
    fn take(&self, bytes: usize) -> bool {
        self.take_within(bytes, self.capacity)
    }

    /// Reserves `bytes` if all reserved ones are at most `limit` with them.
    fn take_within(&self, bytes: usize, limit: usize) -> bool {
        let fits = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= limit);
        self.reserved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.given_back.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let before = self.reserved.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "what is given back to {} was reserved before", self.setting);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Reserves `bytes` as soon as there is room, until `until`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none.
    async fn take_by(&self, bytes: usize, until: Instant) -> Result<(), Error> {
        self.take_within_by(bytes, self.capacity, until).await
    }

    /// [`ByteLedger::take_by`] within `limit`.
    async fn take_within_by(&self, bytes: usize, limit: usize, until: Instant) -> Result<(), Error> {
        let _waiter = BudgetWaiter::new(self, bytes);
        let (began, returned) = (Instant::now(), self.given_back.load(Ordering::Relaxed));
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Any release after this wakes it.
            freed.as_mut().enable();
            if self.take_within(bytes, limit) {
                return Ok(());
            }
            // Other requests may be woken and take the free room, again and again: time passes all the same.
            let is_late = Instant::now() >= until || tokio::time::timeout_at(until, freed).await.is_err();
            if is_late {
                let returned = self.given_back.load(Ordering::Relaxed) - returned;
                return Err(self.refuse(returned, began.elapsed()));
            }
        }
    }

    /// Counts a request that got no room, of which `returned` bytes were released while it waited.
    fn refuse(&self, returned: u64, waited: Duration) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Error::NoRoom { setting: self.setting, retry_after_s: self.retry_after_s(returned, waited) }
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

impl RequestBudget {
    /// Creates a budget.
    pub(crate) fn new(bounds: BudgetBounds) -> Arc<Self> {
        let BudgetBounds { bodies, work, answers, wait_max, return_memory } = bounds;
        Arc::new(RequestBudget {
            bodies: ByteLedger::new("bodies-bytes-max", bodies),
            work: ByteLedger::new("work-bytes-max", work),
            answers: ByteLedger::new("answers-bytes-max", answers),
            wait_max,
            return_memory,
            line: Mutex::new(()),
        })
    }

    /// Creates a share without any bytes yet.
    pub(crate) fn share(self: &Arc<Self>) -> BudgetReservation {
        BudgetReservation { budget: Arc::clone(self), bytes: 0, work: 0, is_question: false }
    }

    /// State of the bytes of bodies.
    pub(crate) fn of_bodies(&self) -> LedgerStats {
        self.bodies.stats()
    }

    /// State of the bytes of work.
    pub(crate) fn of_work(&self) -> LedgerStats {
        self.work.stats()
    }

    /// State of the bytes of answers.
    pub(crate) fn of_answers(&self) -> LedgerStats {
        self.answers.stats()
    }

    /// Reserves the memory for unpacking an application package of up to `bytes` bytes: the room of the
    /// largest work, and half the room for bodies, since the buffer of a large file is in memory twice while
    /// it grows.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none for a minute.
    pub(crate) async fn package(self: &Arc<Self>, bytes: usize) -> Result<BudgetReservation, Error> {
        let until = Instant::now() + PACKAGE_ROOM_TIMEOUT;
        let mut share = self.share();
        let half = bytes.min(self.bodies.capacity / 2);
        self.bodies.take_by(half, until).await?;
        share.bytes = half;
        share.work_by(bytes, until).await?;
        Ok(share)
    }

    /// Reserves the bytes of an answer. One that is larger than all answers may be needs all of their room.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was no room for as long as a request waits, or at once if those that wait
    /// are half as large as all answers may be: an answer that waits is in memory.
    pub(crate) async fn answer(self: &Arc<Self>, bytes: usize) -> Result<AnswerShare, Error> {
        let answers = &self.answers;
        let bytes = bytes.min(answers.capacity);
        if !answers.take(bytes) {
            if answers.wanted.load(Ordering::Relaxed).saturating_add(bytes) > answers.capacity / 2 {
                return Err(answers.refuse(0, Duration::ZERO));
            }
            answers.take_by(bytes, Instant::now() + self.wait_max).await?;
        }
        Ok(AnswerShare { budget: Arc::clone(self), bytes })
    }

    /// Reserves the bytes of a page of a streamed answer before it is made, as soon as there is room; `None`
    /// if there is none until `until`. It has `bytes_max` bytes, or less where other answers have most of the
    /// room: clients that do not read theirs must not stop all others. [`AnswerShare::settle`] corrects its
    /// size.
    pub(crate) async fn page(self: &Arc<Self>, bytes_max: usize, until: Instant) -> Option<AnswerShare> {
        let answers = &self.answers;
        let bytes_max = bytes_max.min(answers.capacity);
        let bytes_min = bytes_max.min(PAGE_BYTES_MIN);
        let free = answers.capacity.saturating_sub(answers.reserved.load(Ordering::Relaxed));
        let mut bytes = (free / PAGE_PART).clamp(bytes_min, bytes_max);
        if !answers.take(bytes) {
            bytes = bytes_min;
            answers.take_by(bytes, until).await.ok()?;
        }
        Some(AnswerShare { budget: Arc::clone(self), bytes })
    }

    /// Reserves bytes of work until `until`, for a large request after those in line before it.
    async fn take_work(&self, bytes: usize, until: Instant) -> Result<(), Error> {
        if bytes < self.work.capacity / LINE_PART {
            return self.work.take_by(bytes, until).await;
        }
        let began = Instant::now();
        let Ok(_first) = tokio::time::timeout_at(until, self.line.lock()).await else {
            return Err(self.work.refuse(0, began.elapsed()));
        };
        self.work.take_by(bytes, until).await
    }
}

/// Bytes of a [`RequestBudget`] that one request has reserved, for its body and for the work over it;
/// released when the share is dropped. It must be dropped after what was made of the body.
pub(crate) struct BudgetReservation {
    budget: Arc<RequestBudget>,
    bytes: usize,
    work: usize,
    /// True for one of another node, which may reserve more than there is for clients.
    is_question: bool,
}

impl BudgetReservation {
    /// Reserves `bytes` more for the body, and waits for them if there is no room.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none for as long as a request waits; [`Error::OverBudget`] for more
    /// than the whole budget.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let bodies = &self.budget.bodies;
        let limit = match self.bytes.saturating_add(bytes) {
            _ if self.is_question => questions::bodies_max(bodies.capacity),
            ..=SMALL_BYTES_MAX => bodies.capacity,
            _ => bodies.capacity - bodies.capacity / SMALL_PART,
        };
        if self.bytes.saturating_add(bytes) > limit {
            bodies.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::OverBudget { budget: limit });
        }
        if !bodies.take_within(bytes, limit) {
            bodies.take_within_by(bytes, limit, Instant::now() + self.budget.wait_max).await?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Reserves up to `bytes` in all for the body.
    ///
    /// # Errors
    /// Those of [`BudgetReservation::grow`].
    pub(crate) async fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        match bytes.checked_sub(self.bytes) {
            Some(more) if more > 0 => self.grow(more).await,
            _ => Ok(()),
        }
    }

    /// Releases bytes of the body beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.budget.bodies.give_back(less);
    }

    /// Reserves the memory for parsing and evaluating `text`, at most once for each share and after its whole
    /// body has been read. So a request that waits for work holds none, and one that holds work waits for no
    /// other bytes.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none for as long as a request waits.
    pub(crate) async fn work(&mut self, kind: WorkKind, text: &[u8]) -> Result<(), Error> {
        let bytes = kind.bytes(text);
        if bytes < self.budget.work.capacity / LINE_PART && self.budget.work.take(bytes) {
            self.work += bytes;
            return Ok(());
        }
        self.work_by(bytes, Instant::now() + self.budget.wait_max).await
    }

    /// [`BudgetReservation::work`] for several texts that take `bytes` bytes together.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there was none for as long as a request waits.
    pub(crate) async fn work_of(&mut self, bytes: usize) -> Result<(), Error> {
        self.work_by(bytes, Instant::now() + self.budget.wait_max).await
    }

    /// Work that holds the share until it ends, also where its client leaves meanwhile: what has begun on
    /// another thread is not interrupted, and has its memory as long as it goes on.
    pub(crate) fn held_by<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> (T, Self) {
        move || (work(), self)
    }

    /// Reserves `bytes` bytes of work, or as much as the largest request may take, until `until`.
    async fn work_by(&mut self, bytes: usize, until: Instant) -> Result<(), Error> {
        assert_eq!(self.work, 0, "a request that waits for work must not hold work that others wait for");
        let capacity = self.budget.work.capacity;
        let bytes = bytes.min(capacity - capacity / FREE_PART);
        match self.is_question {
            true => self.budget.work.take_within_by(bytes, questions::work_max(capacity), until).await?,
            false => self.budget.take_work(bytes, until).await?,
        }
        self.work = bytes;
        self.return_memory();
        Ok(())
    }

    /// Returns free memory to the system, if the request is large.
    fn return_memory(&self) {
        if self.work.max(self.bytes) >= RETURN_BYTES_MIN {
            (self.budget.return_memory)();
        }
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        self.return_memory();
        self.budget.bodies.give_back(self.bytes);
        self.budget.work.give_back(self.work);
    }
}

/// Bytes of a [`RequestBudget`] that an answer takes; released when the share is dropped.
pub(crate) struct AnswerShare {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl AnswerShare {
    /// Number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the share to the size of the page, which exists: other pages wait if it is larger than was
    /// thought.
    pub(crate) fn settle(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                self.budget.answers.reserved.fetch_add(more, Ordering::SeqCst);
            }
            None => self.budget.answers.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for AnswerShare {
    fn drop(&mut self) {
        if self.bytes >= RETURN_BYTES_MIN {
            (self.budget.return_memory)();
        }
        self.budget.answers.give_back(self.bytes);
    }
}

/// A request that waits for room.
struct BudgetWaiter<'b> {
    ledger: &'b ByteLedger,
    bytes: usize,
}

impl<'b> BudgetWaiter<'b> {
    fn new(ledger: &'b ByteLedger, bytes: usize) -> Self {
        ledger.waiting.fetch_add(1, Ordering::SeqCst);
        ledger.wanted.fetch_add(bytes, Ordering::Relaxed);
        BudgetWaiter { ledger, bytes }
    }
}

impl Drop for BudgetWaiter<'_> {
    fn drop(&mut self) {
        self.ledger.waiting.fetch_sub(1, Ordering::SeqCst);
        self.ledger.wanted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use millrace_node::work::BlockBytes;

    use super::*;
    use crate::status::HttpError;

    /// A budget of 100 bytes of bodies, 1,280 of work and 100 of answers.
    fn budget(wait_max: Duration) -> Arc<RequestBudget> {
        let bounds = BudgetBounds { bodies: 100, work: 1280, answers: 100, wait_max, return_memory: || {} };
        RequestBudget::new(bounds)
    }

    const QUERY: WorkKind = WorkKind::Query(BlockBytes::NONE);
    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn what_does_not_fit_waits_and_is_refused_with_a_time() {
        let budget = budget(SHORT);
        let mut first = budget.share();
        first.grow(60).await.expect("there is room");
        let mut second = budget.share();
        second.grow(40).await.expect("there is room");
        let mut third = budget.share();
        let refused = third.grow(50).await.expect_err("no room");
        assert!(matches!(refused, Error::NoRoom { retry_after_s: RETRY_AFTER_MAX_S, .. }), "{refused}");
        assert_eq!(budget.of_bodies().refused, 1);
        assert_eq!(refused.status(), hyper::StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.to_string().contains("bodies-bytes-max"), "{refused}");
    }

    #[tokio::test]
    async fn a_waiting_request_gets_what_another_gives_back() {
        let budget = budget(LONG);
        let mut first = budget.share();
        first.grow(100).await.expect("there is room");
        let waiting = tokio::spawn({
            let mut share = budget.share();
            async move { share.grow(70).await.map(|()| share) }
        });
        while budget.of_bodies().waiting == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        let mut share = waiting.await.expect("no panic").expect("there is room now");
        assert_eq!((budget.of_bodies().reserved, budget.of_bodies().waiting), (70, 0));
        share.shrink_to(20);
        assert_eq!(budget.of_bodies().reserved, 20);
        drop(share);
        assert_eq!(budget.of_bodies().reserved, 0);
    }

    #[tokio::test]
    async fn those_who_wait_do_not_wake_each_other() {
        let budget = budget(SHORT);
        let mut holder = budget.share();
        holder.grow(90).await.expect("there is room");
        let wait = || {
            let mut share = budget.share();
            tokio::spawn(async move { share.grow(50).await.is_ok() })
        };
        for waiting in [wait(), wait(), wait()] {
            assert!(!waiting.await.expect("no panic"));
        }
        assert_eq!((budget.of_bodies().reserved, budget.of_bodies().waiting), (90, 0));
    }

    #[tokio::test]
    async fn more_than_the_whole_budget_is_refused_at_once() {
        let budget = budget(LONG);
        let mut share = budget.share();
        share.grow(60).await.expect("there is room");
        let refused = share.grow(41).await.expect_err("it never fits");
        assert!(matches!(refused, Error::OverBudget { budget: 100 }), "{refused}");
    }

    /// Bodies that fill their whole budget, whose work is far more than all there may be.
    #[tokio::test]
    async fn the_largest_are_worked_on_one_after_another() {
        let budget = budget(LONG);
        let running = Arc::new(AtomicUsize::new(0));
        let work = |_| {
            let (mut share, running) = (budget.share(), Arc::clone(&running));
            tokio::spawn(async move {
                share.grow(10).await.expect("there is room");
                share.work(QUERY, &[b'a'; 1000]).await.expect("its turn comes");
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "another one is worked on");
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
            })
        };
        for work in (0..10).map(work).collect::<Vec<_>>() {
            work.await.expect("it is worked on alone");
        }
        assert_eq!((budget.of_work().reserved, budget.of_bodies().reserved), (0, 0));
    }

    #[tokio::test]
    async fn small_work_goes_beside_the_largest_and_large_work_waits_in_line() {
        let budget = budget(SHORT);
        let mut largest = budget.share();
        largest.work(QUERY, &[b'a'; 1000]).await.expect("there is room");
        assert_eq!(budget.of_work().reserved, 960, "a quarter stays free");
        let mut small = budget.share();
        small.work(WorkKind::Arguments, b"a").await.expect("there is room for a small one");
        let mut second = budget.share();
        let refused = second.work(QUERY, &[b'a'; 1000]).await.expect_err("it does not fit");
        assert!(refused.to_string().contains("work-bytes-max"), "{refused}");
        drop(largest);
        second.work(QUERY, &[b'a'; 1000]).await.expect("there is room");
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones() {
        let bounds =
            BudgetBounds { bodies: 3_200_000, work: 0, answers: 0, wait_max: SHORT, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let mut large = budget.share();
        large.grow(3_000_000).await.expect("there is room");
        let mut second = budget.share();
        second.grow(150_000).await.expect_err("it is kept for small ones");
        second.grow(SMALL_BYTES_MAX).await.expect("it is small");
        second.grow(SMALL_BYTES_MAX).await.expect_err("it is small no more");
    }

    #[tokio::test]
    async fn answers_have_room_of_their_own() {
        let budget = budget(SHORT);
        let first = budget.answer(1000).await.expect("it is the only one");
        assert_eq!(budget.of_answers().reserved, 100);
        let refused = budget.answer(1).await.err().expect("no room");
        assert!(refused.to_string().contains("answers-bytes-max"), "{refused}");
        let mut share = budget.share();
        share.grow(100).await.expect("bodies have their own");
        drop(first);
        budget.answer(1).await.expect("there is room");
    }

    #[tokio::test]
    async fn pages_wait_for_those_that_were_larger_than_thought() {
        let budget = budget(SHORT);
        let soon = || Instant::now() + SHORT;
        let mut first = budget.page(50, soon()).await.expect("there is room");
        let mut second = budget.page(50, soon()).await.expect("there is room");
        first.settle(120);
        second.settle(10);
        assert_eq!(budget.of_answers().reserved, 130);
        assert!(budget.page(1, soon()).await.is_none());
        drop(first);
        assert!(budget.page(1, soon()).await.is_some());
        drop(second);
        assert_eq!(budget.of_answers().reserved, 0);
    }
}
