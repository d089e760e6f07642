//! Work in the background, in small portions.
//!
//! A thread that computes keeps its core until the system's next tick, some milliseconds on most systems, however many others wait for it,
//! and being nice changes little: what a thread that wakes has used lately counts against it. So work that nobody waits for steps aside by
//! itself. It calls [`step`] between its smallest steps; whenever a portion is done, whoever set the thread's pace says for how long it
//! rests. What it waits for the disk counts as work, so the disk is left to others for as long.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// A portion: far longer than it takes to switch threads, and shorter than anybody notices.
const PORTION: Duration = Duration::from_micros(200);

/// Says how long a thread rests after it has worked for so long; zero: it goes on. It takes no steps itself.
pub type Rest = Box<dyn Fn(Duration) -> Duration>;

struct Pace {
    rest: Rest,
    /// When the portion under way began.
    began: Instant,
}

thread_local! {
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

/// The calling thread works in portions from now on, and rests between them as `rest` says.
pub fn keep(rest: Rest) {
    PACE.set(Some(Pace { rest, began: Instant::now() }));
}

/// Does something in such portions; after that the calling thread keeps the pace that it had before.
pub fn during<T>(rest: Rest, work: impl FnOnce() -> T) -> T {
    struct Before(Option<Pace>);
    impl Drop for Before {
        fn drop(&mut self) {
            PACE.set(self.0.take());
        }
    }
    let _before = Before(PACE.replace(Some(Pace { rest, began: Instant::now() })));
    work()
}

/// The place between two steps of work, each far shorter than a millisecond where that can be. A thread that keeps a pace may rest here, so
/// it holds no lock that somebody waits for; on all other threads nothing happens.
pub fn step() {
    PACE.with_borrow_mut(|pace| {
        let Some(pace) = pace else { return };
        let worked = pace.began.elapsed();
        if worked < PORTION {
            return;
        }
        let rest = (pace.rest)(worked);
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
        pace.began = Instant::now();
    });
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
}
