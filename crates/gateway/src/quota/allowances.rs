use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The longest time that a key pays back what it took beyond its quota.
const DEBT_MAX: Duration = Duration::from_secs(60);

/// Keys that are full again are looked for so many at a time, at each request.
const FORGOTTEN_AT_ONCE: usize = 2;

/// The rest of the allowance of each key that asked lately. A key that is not there has all of its allowance.
///
/// At most as many keys are kept as it was made for. Beyond, the key is forgotten that has all of its
/// allowance first: it gains least by that, and all others are held to theirs.
///
/// Cost of a request: logarithmic in the number of keys.
pub(super) struct TokenBuckets<K> {
    keys_max: usize,
    left: HashMap<K, RateAllowance>,
    /// All keys of `left`, by when they have all of their allowance.
    by_full: BTreeSet<(Instant, K)>,
}

#[derive(Clone, Copy)]
struct RateAllowance {
    left: f64,
    at: Instant,
    /// When it has all, at the quota that it was last asked with.
    full: Instant,
}

impl<K: Clone + Eq + Hash + Ord> TokenBuckets<K> {
    pub fn new(keys_max: usize) -> Self {
        TokenBuckets { keys_max, left: HashMap::new(), by_full: BTreeSet::new() }
    }

    /// Takes `cost` from what is left to a key, whose allowance fills by `quota` a second up to `quota`.
    /// False if nothing is left.
    pub fn take(&mut self, key: &K, quota: f64, cost: f64, now: Instant) -> bool {
        self.forget_full(now);
        let before = self.left.remove(key);
        let mut left = quota;
        if let Some(before) = before {
            self.by_full.remove(&(before.full, key.clone()));
            left = (before.left + quota * now.saturating_duration_since(before.at).as_secs_f64()).min(quota);
        }
        let is_left = left > 0.0;
        if is_left {
            left = (left - cost).max(-quota * DEBT_MAX.as_secs_f64());
        }
        let until_full = if quota > 0.0 { (quota - left) / quota } else { 0.0 };
        let until_full = Duration::try_from_secs_f64(until_full).unwrap_or(DEBT_MAX).min(2 * DEBT_MAX);
        let allowance = RateAllowance { left, at: now, full: now + until_full };
        if before.is_none() && self.left.len() >= self.keys_max {
            self.forget_first();
        }
        self.by_full.insert((allowance.full, key.clone()));
        self.left.insert(key.clone(), allowance);
        is_left
    }

    fn forget_full(&mut self, now: Instant) {
        for _ in 0..FORGOTTEN_AT_ONCE {
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

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn an_allowance_is_spent_and_fills_again() {
        let (mut table, start) = (TokenBuckets::new(100), Instant::now());
        let mut takes = |key: &str, quota: f64, cost: f64, millis: u64| {
            table.take(&key.to_owned(), quota, cost, at(start, millis))
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
    fn new_keys_push_out_those_that_gain_least_by_it() {
        let (mut table, start) = (TokenBuckets::new(100), Instant::now());
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
            table.take(&format!("later{number}"), 10.0, 1.0, at(start, 5_000));
        }
        table.take(&"last".to_owned(), 10.0, 1.0, at(start, 9_000));
        assert!(table.left.len() < 100, "keys that have all of their allowance are forgotten");
    }
}
