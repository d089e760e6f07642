use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Number of keys that each request looks at for those whose allowance is full again.
const EVICTIONS_PER_REQUEST: usize = 2;

/// The rest of the allowance of each key that asked lately. A key that is not there has all of its allowance.
///
/// At most as many keys are kept as it was made for. Beyond, the key is forgotten that has all of its
/// allowance first: it gains least by that, and all others are held to theirs.
///
/// Cost of a request: logarithmic in the number of keys.
pub(super) struct TokenBuckets<K> {
    keys_max: usize,
    /// The longest time that a key pays back what it took beyond its quota.
    debt_max: Duration,
    left: HashMap<K, RateAllowance>,
    /// All keys of `left`, by when they have all of their allowance.
    by_full: BTreeSet<(Instant, K)>,
}

#[derive(Clone, Copy)]
struct RateAllowance {
    left: f64,
    at: Instant,
    /// Time at which the whole allowance is there again, by the quota of the last request.
    full: Instant,
}

impl<K: Clone + Eq + Hash + Ord> TokenBuckets<K> {
    pub fn new(keys_max: usize, debt_max: Duration) -> Self {
        TokenBuckets { keys_max, debt_max, left: HashMap::new(), by_full: BTreeSet::new() }
    }

    /// Takes `cost` from what is left to a key, whose allowance fills by `quota` a second up to `quota`.
    /// False if nothing is left.
    pub fn take(&mut self, key: &K, quota: f64, cost: f64, now: Instant) -> bool {
        let is_left = self.left_at(key, quota, now) > 0.0;
        self.spend(key, quota, if is_left { cost } else { 0.0 }, now);
        is_left
    }

    /// Takes `cost` even if nothing is left, so that it is paid back later.
    pub fn spend(&mut self, key: &K, quota: f64, cost: f64, now: Instant) {
        self.forget_full(now);
        let mut left = self.left_at(key, quota, now);
        let before = self.left.remove(key);
        if let Some(before) = before {
            self.by_full.remove(&(before.full, key.clone()));
        }
        if cost > 0.0 {
            left = (left - cost).max(-quota * self.debt_max.as_secs_f64());
        }
        let until_full = if quota > 0.0 { (quota - left) / quota } else { 0.0 };
        let until_full =
            Duration::try_from_secs_f64(until_full).unwrap_or(self.debt_max).min(2 * self.debt_max);
        let allowance = RateAllowance { left, at: now, full: now + until_full };
        if before.is_none() && self.left.len() >= self.keys_max {
            self.forget_first();
        }
        self.by_full.insert((allowance.full, key.clone()));
        self.left.insert(key.clone(), allowance);
    }

    /// Remaining allowance of a key at a time.
    fn left_at(&self, key: &K, quota: f64, now: Instant) -> f64 {
        self.left.get(key).map_or(quota, |before| {
            (before.left + quota * now.saturating_duration_since(before.at).as_secs_f64()).min(quota)
        })
    }

    /// Time until something is left to a key again.
    pub fn until_left(&self, key: &K, quota: f64, now: Instant) -> Duration {
        match self.left_at(key, quota, now) {
            left if left > 0.0 => Duration::ZERO,
            // A thousandth of the allowance: of none at all nothing can be taken.
            left => {
                let seconds = (quota / 1e3 - left) / quota;
                Duration::try_from_secs_f64(seconds).unwrap_or(self.debt_max).min(self.debt_max)
            }
        }
    }

    fn forget_full(&mut self, now: Instant) {
        for _ in 0..EVICTIONS_PER_REQUEST {
            if self.by_full.first().is_none_or(|(full, _)| *full > now) {
                return;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, key)) = self.by_full.pop_first() {
            self.left.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBT: Duration = Duration::from_secs(60);

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn an_allowance_is_spent_and_fills_again() {
        let (mut table, start) = (TokenBuckets::new(100, DEBT), Instant::now());
        let mut takes = |key: &str, quota: f64, cost: f64, millis: u64| {
            table.take(&key.to_owned(), quota, cost, after(start, millis))
        };
        assert_eq!([0, 0, 0].map(|millis| takes("a", 2.0, 1.0, millis)), [true, true, false]);
        assert!(takes("b", 2.0, 1.0, 0), "another key has its own");
        assert_eq!([500, 500].map(|millis| takes("a", 2.0, 1.0, millis)), [true, false]);
        let later = [9_000; 3].map(|millis| takes("a", 2.0, 1.0, millis));
        assert_eq!(later, [true, true, false], "no more than a second is saved");
        assert_eq!([9_000, 10_500].map(|millis| takes("c", 2.0, 6.0, millis)), [true, false]);
        assert!(takes("c", 2.0, 6.0, 11_500), "what was taken beyond is paid back");
        assert!(!takes("d", 0.0, 1.0, 0));
        assert!(takes("e", 2.0, 1e300, 0) && takes("e", 2.0, 1.0, 62_000), "no debt is for ever");
    }

    #[test]
    fn the_time_until_something_is_left_is_that_of_the_debt() {
        let (mut table, start) = (TokenBuckets::new(100, DEBT), Instant::now());
        let key = "a".to_owned();
        assert_eq!(table.until_left(&key, 100.0, start), Duration::ZERO);
        assert!(table.take(&key, 100.0, 1_100.0, start));
        for (millis, left) in [(0, 10_001), (4_000, 6_001), (10_001, 0), (90_000, 0)] {
            let until = table.until_left(&key, 100.0, after(start, millis)).as_secs_f64();
            assert_eq!((until * 1e3).round() as u64, left, "after {millis} ms");
        }
        assert!(!table.take(&key, 100.0, 1.0, after(start, 9_999)));
        assert!(table.take(&key, 100.0, 1.0, after(start, 10_001)));
        table.spend(&key, 100.0, 500.0, after(start, 10_001));
        let until = table.until_left(&key, 100.0, after(start, 10_001)).as_secs();
        assert_eq!(until, 5, "what is written in any case is owed as well");
    }

    #[test]
    fn new_keys_push_out_those_that_gain_least_by_it() {
        let (mut table, start) = (TokenBuckets::new(100, DEBT), Instant::now());
        let spend = |table: &mut TokenBuckets<String>, key: &str, count: usize| {
            (0..count).filter(|_| table.take(&key.to_owned(), 10.0, 1.0, start)).count()
        };
        assert_eq!(spend(&mut table, "greedy", 50), 10);
        // Keys without end, each of which asks once.
        for number in 0..10_000 {
            assert_eq!(spend(&mut table, &format!("new{number}"), 1), 1);
            assert!(table.left.len() <= 100 && table.by_full.len() == table.left.len());
        }
        assert_eq!(spend(&mut table, "greedy", 50), 0, "it was not forgotten");
        for number in 0..100 {
            table.take(&format!("later{number}"), 10.0, 1.0, after(start, 5_000));
        }
        table.take(&"last".to_owned(), 10.0, 1.0, after(start, 9_000));
        assert!(table.left.len() < 100, "keys that have all of their allowance are forgotten");
    }
}
