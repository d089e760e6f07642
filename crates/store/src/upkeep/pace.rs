//! Pace of the background work while documents are written and queried.
//!
//! A seal or a merge needs a core for tenths of a second. Run without a pause, it takes slices of some
//! milliseconds, and a write that passes from thread to thread waits for several of them; queries that need
//! all cores fall behind. So it runs in portions with rests between them ([`millrace_env::pace`]): at first
//! on a quarter of one core, and on more as it falls behind, up to a whole one. Sealing takes up to one core
//! for each of its threads, so that the store keeps up with any feed. While no request waits for the store
//! there are no rests. While there are small requests beside a feed, also a thread that has fallen behind
//! rests after each portion: without rests it would keep its core until the system's next tick. Where the
//! tail is nearly full it does not: small requests would then be refused, which is worse for them than to
//! wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millrace_env::pace::RestPolicy;

use crate::context::StoreContext;
use crate::upkeep::merging::fan_in;
use crate::write::backlog::BATCH_LIMIT;

/// Share of a core for work that is on time.
pub(crate) const SHARE_MIN: f64 = 0.25;
/// Maximum share of a core of each thread while there are small requests.
const SHARE_UNDER_LOAD: f64 = 0.75;
/// Maximum duration of a step that counts for the rest after it; a longer step may have waited for a core
/// itself.
const STEP_MAX: Duration = Duration::from_millis(1);

/// Pace of one of `threads` that seal together. Their rests are counted.
pub(crate) fn of_sealing(shared: &Arc<StoreContext>, threads: usize) -> RestPolicy {
    let rest = of_tail(shared, threads);
    let shared = Arc::clone(shared);
    Box::new(move |worked| {
        let rest = rest(worked);
        let of_one = rest.as_nanos() as u64 / threads.max(1) as u64;
        shared.counters.seal_rested_ns.fetch_add(of_one, Ordering::Relaxed);
        rest
    })
}

/// Pace of creating the next generation: that of one thread that seals.
pub(crate) fn of_rolling(shared: &Arc<StoreContext>) -> RestPolicy {
    of_tail(shared, 1)
}

fn of_tail(shared: &Arc<StoreContext>, threads: usize) -> RestPolicy {
    rest(shared, move |shared| {
        let state = shared.state();
        let filled = state.generations[0].bytes.load(Ordering::Relaxed) as f64;
        let filled = filled / shared.options.tail_bytes.max(1) as f64;
        sealing_share(state.generations.len() - 1, filled, threads)
    })
}

/// Pace of merging.
pub(crate) fn of_merging(shared: &Arc<StoreContext>) -> RestPolicy {
    rest(shared, |shared| merging_share(shared.counters.merging.load(Ordering::Relaxed), fan_in(shared)))
}

/// Pace of work ahead of requests.
pub(crate) fn of_preparing(shared: &Arc<StoreContext>) -> RestPolicy {
    rest(shared, |_| SHARE_MIN)
}

fn rest(shared: &Arc<StoreContext>, share: impl Fn(&StoreContext) -> f64 + 'static) -> RestPolicy {
    let shared = Arc::clone(shared);
    Box::new(move |worked| {
        if !shared.is_in_use() || shared.health.closed.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let limit = share_max(shared.has_small_requests(), shared.generations());
        worked.min(STEP_MAX).mul_f64(1.0 / share(&shared).min(limit) - 1.0)
    })
}

/// Maximum share of a core of each thread, with a tail of this many full generations.
fn share_max(has_small_requests: bool, generations: f64) -> f64 {
    if has_small_requests && generations < BATCH_LIMIT { SHARE_UNDER_LOAD } else { 1.0 }
}

/// Share of a core for each of the threads that seal, from the number of generations that wait to be sealed
/// and the fill level of the one that takes the writes (1: full). One should be sealed when the next is full;
/// until then the threads take a core together. Beyond it each takes its own.
fn sealing_share(waiting: usize, filled: f64, threads: usize) -> f64 {
    if waiting > 1 {
        return 1.0;
    }
    (SHARE_MIN + (1.0 - SHARE_MIN) * filled.clamp(0.0, 1.0)) / threads.max(1) as f64
}

/// Share of a core for a merge of this many segments, of which `fan_in` are merged together: an excess over
/// that accumulated during the previous merge.
fn merging_share(segments: usize, fan_in: usize) -> f64 {
    let gathered = segments.saturating_sub(fan_in);
    (SHARE_MIN * (1 + gathered) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::RequestSize;
    use crate::read::columns::EmptyLayout;
    use crate::{Store, StoreOptions};

    #[test]
    fn what_has_fallen_behind_rests_beside_small_requests_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let options =
            StoreOptions { disk_reserve: 0, maintenance: false, ..StoreOptions::new(directory.path()) };
        let store = Store::open(options, Arc::new(EmptyLayout)).expect("the store opens");
        let shared = store.shared();
        let behind = rest(shared, |_| 1.0);
        let worked = Duration::from_micros(300);
        shared.note_use(RequestSize::Batch);
        assert_eq!(behind(worked), Duration::ZERO);
        // The store is in use for a moment only.
        let rests = |_| {
            shared.note_use(RequestSize::Small);
            behind(worked) > Duration::ZERO
        };
        assert!((0..1_000).any(rests));
    }

    #[test]
    fn small_requests_are_spared_until_they_would_be_refused() {
        for (has_small_requests, generations, share) in
            [(true, 0.5, 0.75), (true, 3.4, 0.75), (true, 3.5, 1.0), (true, 9.0, 1.0), (false, 0.5, 1.0)]
        {
            assert_eq!(share_max(has_small_requests, generations), share, "{generations} generations");
        }
    }

    #[test]
    fn shares_grow_with_what_waits() {
        for (waiting, filled, threads, share) in [
            (1, 0.0, 1, 0.25),
            (1, 0.5, 1, 0.625),
            (1, 1.0, 1, 1.0),
            (1, 1.7, 1, 1.0),
            (2, 0.0, 1, 1.0),
            (0, 0.0, 1, 0.25),
            (1, 0.0, 2, 0.125),
            (1, 1.0, 2, 0.5),
            (2, 0.0, 2, 1.0),
            (3, 1.0, 8, 1.0),
        ] {
            let found = sealing_share(waiting, filled, threads);
            assert_eq!(found, share, "{waiting} wait, filled {filled}, {threads} threads");
        }
        for (segments, share) in [(1, 0.25), (4, 0.25), (5, 0.5), (6, 0.75), (7, 1.0), (40, 1.0)] {
            assert_eq!(merging_share(segments, 4), share, "{segments} segments");
        }
        assert_eq!(merging_share(9, 8), 0.5);
    }
}
