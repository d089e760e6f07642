//! Background work in small portions.
//!
//! A thread that computes keeps its core until the system's next tick, some milliseconds on most systems,
//! however many others wait for it. A higher nice value changes little: the recent usage of a thread that
//! wakes counts against it. So background work yields by itself. It calls [`step`] between its smallest
//! steps; after each portion the thread's pace determines the length of its rest. Waiting for the disk counts
//! as work, so the disk is left to others for as long.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Length of a portion: far longer than a switch of threads, and too short to be noticed.
const PORTION: Duration = Duration::from_micros(200);

/// Maximum number of short steps from one look at the clock to the next: a look takes as long as some do.
const STEPS_MAX: u32 = 8;
/// Time of short steps below which the clock is looked at less often.
const SHORT: Duration = Duration::from_micros(10);

/// Function that returns the rest of a thread after this time of work; zero: it continues. It must not call
/// [`step`] itself.
pub type RestPolicy = Box<dyn Fn(Duration) -> Duration>;

struct ThreadPace {
    rest: RestPolicy,
    /// Start of the current portion.
    began: Instant,
    /// The last look at the clock.
    looked: Instant,
    /// Number of short steps from that look to the next.
    steps: u32,
    /// Number of short steps before the next look.
    left: u32,
    /// Time of all rests.
    rested: Duration,
}

impl ThreadPace {
    fn new(rest: RestPolicy) -> Self {
        let now = Instant::now();
        ThreadPace { rest, began: now, looked: now, steps: 1, left: 0, rested: Duration::ZERO }
    }

    /// Takes a step. Returns the time of work in the current portion, if the clock is looked at.
    fn step(&mut self, is_short: bool) -> Option<Duration> {
        if is_short && let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return None;
        }
        let now = Instant::now();
        let took = now.saturating_duration_since(self.looked);
        self.steps = if took < SHORT { STEPS_MAX.min(self.steps * 2) } else { 1 };
        self.left = self.steps - 1;
        self.looked = now;
        Some(now - self.began)
    }

    /// Begins a portion.
    fn begin(&mut self) {
        self.began = Instant::now();
        self.looked = self.began;
    }
}

thread_local! {
    static PACE: RefCell<Option<ThreadPace>> = const { RefCell::new(None) };
}

/// Makes the calling thread work in portions from now on, with rests determined by `rest`.
pub fn keep(rest: RestPolicy) {
    PACE.set(Some(ThreadPace::new(rest)));
}

/// Runs work in such portions; afterwards the calling thread has its previous pace.
pub fn during<T>(rest: RestPolicy, work: impl FnOnce() -> T) -> T {
    struct PriorPriority(Option<ThreadPace>);
    impl Drop for PriorPriority {
        fn drop(&mut self) {
            PACE.set(self.0.take());
        }
    }
    let _before = PriorPriority(PACE.replace(Some(ThreadPace::new(rest))));
    work()
}

/// Point between two steps of work, each far shorter than a millisecond if possible. A thread with a pace may
/// rest here, so it must not hold a lock that others wait for; on all other threads nothing happens.
pub fn step() {
    step_of(false);
}

/// Point between two steps of a few microseconds, as those of a row mostly are: [`step`], but the clock is
/// not looked at after each, so that a portion is some of them longer at most.
pub fn short_step() {
    step_of(true);
}

fn step_of(is_short: bool) {
    PACE.with_borrow_mut(|pace| {
        let Some(pace) = pace else { return };
        let Some(worked) = pace.step(is_short).filter(|worked| *worked >= PORTION) else { return };
        let rest = (pace.rest)(worked);
        if rest.is_zero() {
            return pace.begin();
        }
        let resting = Instant::now();
        std::thread::sleep(rest);
        pace.begin();
        pace.rested += pace.began - resting;
    });
}

/// Time that the calling thread has rested since it began to keep its pace.
pub fn rested() -> Duration {
    PACE.with_borrow(|pace| pace.as_ref().map_or(Duration::ZERO, |pace| pace.rested))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn only_a_thread_that_keeps_a_pace_rests_and_only_after_a_portion() {
        let (sender, worked) = mpsc::channel();
        let paced = move || {
            keep(Box::new(move |worked| {
                // The test ends when it has seen enough.
                let _ = sender.send(worked);
                Duration::ZERO
            }));
            let began = Instant::now();
            while began.elapsed() < PORTION * 10 {
                step();
            }
            step();
        };
        std::thread::spawn(paced).join().expect("the thread works to its end");
        let portions: Vec<Duration> = worked.iter().collect();
        assert!(!portions.is_empty() && portions.iter().all(|worked| *worked >= PORTION), "{portions:?}");
        PACE.with_borrow(|pace| assert!(pace.is_none(), "this thread keeps none"));
        let has_pace = || PACE.with_borrow(|pace| pace.is_some());
        assert!(during(Box::new(|_| Duration::ZERO), has_pace), "this thread does for a while");
        assert!(!has_pace(), "and then no more");
    }

    #[test]
    fn the_clock_is_looked_at_after_each_step_that_is_not_short() {
        let mut pace = ThreadPace::new(Box::new(|_| Duration::ZERO));
        // The last look is yet to come: no time has passed since.
        let mut short_steps_until_a_look = || {
            pace.looked = Instant::now() + Duration::from_secs(3600);
            (1..).find(|_| pace.step(true).is_some())
        };
        let counts: Vec<Option<i32>> = (0..5).map(|_| short_steps_until_a_look()).collect();
        assert_eq!(counts, [1, 2, 4, 8, 8].map(Some));
        for _ in 0..20 {
            assert!(pace.step(false).is_some(), "a step may be long after short ones");
        }
        std::thread::sleep(SHORT);
        assert!(pace.step(false).is_some());
        assert!(pace.step(true).is_some(), "those before it were long");
    }

    #[test]
    fn rests_are_counted() {
        let count = || {
            assert_eq!(rested(), Duration::ZERO, "a thread without a pace does not rest");
            keep(Box::new(|_| PORTION));
            let mut seen = rested();
            for _ in 0..2 {
                while rested() == seen {
                    step();
                }
                assert!(rested() - seen >= PORTION);
                seen = rested();
            }
        };
        std::thread::spawn(count).join().expect("the thread counts to its end");
    }
}
