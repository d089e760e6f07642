//! How much clients may ask in a second, as their queries say: `rate.id`, `rate.quota`, `rate.cost`, `rate.dryRun`.
//!
//! Each id has an allowance of as much as its quota, which fills again as time passes. A query is let through while something of it is
//! left, and then takes its cost; what it takes beyond is paid back first. Quotas are each node's own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::metrics::{Metric, Metrics};

/// So many ids are kept; beyond, those are forgotten first that have all of their allowance.
const IDS_MAX: usize = 100_000;

/// What the ids that asked lately have left.
#[derive(Default)]
pub(crate) struct Quotas {
    left: Mutex<HashMap<String, Allowance>>,
}

/// What a query says of its client.
#[derive(Debug, PartialEq)]
pub(crate) struct Claim {
    id: String,
    quota: f64,
    cost: f64,
    dry_run: bool,
}

#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: f64,
    quota: f64,
    at: Instant,
}

impl Claim {
    /// What a query's parameters say; none where they lack an id or a quota.
    pub fn of(parameters: &BTreeMap<String, String>) -> Result<Option<Self>, Error> {
        let get = |name| parameters.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let number = |name: &'static str| {
            let number = |text: &str| {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                number
                    .ok_or_else(|| Error::parameter(name, format!("expected a number from 0, got '{text}'")))
            };
            get(name).map(number).transpose()
        };
        let (quota, cost) = (number("rate.quota")?, number("rate.cost")?.unwrap_or(1.0));
        let dry_run = get("rate.dryRun") == Some("true");
        let claim = |(id, quota): (&str, f64)| Claim { id: id.to_owned(), quota, cost, dry_run };
        Ok(get("rate.id").zip(quota).map(claim))
    }
}

impl Quotas {
    /// Lets a query through, or refuses it since its client has asked for as much as it may.
    pub fn admit(&self, claim: &Claim, now: Instant, metrics: &Metrics) -> Result<(), Error> {
        if self.takes(claim, now) {
            return Ok(());
        }
        metrics.count(Metric::OverQuota);
        match claim.dry_run {
            true => Ok(()),
            false => Err(Error::OverQuota { id: claim.id.clone(), quota: claim.quota }),
        }
    }

    fn takes(&self, claim: &Claim, now: Instant) -> bool {
        // A map is whole even where a thread that held it panicked.
        let mut ids = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= IDS_MAX && !ids.contains_key(&claim.id) {
            ids.retain(|_, allowance| !allowance.is_full(now));
            if ids.len() >= IDS_MAX {
                ids.clear();
            }
        }
        let full = Allowance { left: claim.quota, quota: claim.quota, at: now };
        let allowance = ids.entry(claim.id.clone()).or_insert(full);
        *allowance = Allowance { left: allowance.left(claim.quota, now), ..full };
        let is_left = allowance.left > 0.0;
        if is_left {
            allowance.left -= claim.cost;
        }
        is_left
    }
}

impl Allowance {
    /// What is left at an instant, where so much comes back in a second.
    fn left(self, quota: f64, now: Instant) -> f64 {
        (self.left + quota * now.saturating_duration_since(self.at).as_secs_f64()).min(quota)
    }

    fn is_full(self, now: Instant) -> bool {
        self.left(self.quota, now) >= self.quota
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn claim(text: &str) -> Result<Option<Claim>, String> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let parameters = pairs.map(|(name, value)| (format!("rate.{name}"), value.to_owned())).collect();
        Claim::of(&parameters).map_err(|error| error.to_string())
    }

    #[test]
    fn an_allowance_is_spent_and_fills_again() {
        let (quotas, start) = (Quotas::default(), Instant::now());
        let takes = |text: &str, millis: u64| {
            let claim = claim(text).expect("numbers").expect("a claim");
            quotas.takes(&claim, start + Duration::from_millis(millis))
        };
        let two = "id=a&quota=2";
        assert_eq!([takes(two, 0), takes(two, 0), takes(two, 0)], [true, true, false]);
        assert!(takes("id=b&quota=2", 0), "another id has its own");
        assert!(takes(two, 500) && !takes(two, 500), "half a second is worth one query");
        assert!(
            takes(two, 9_000) && takes(two, 9_000) && !takes(two, 9_000),
            "no more than a second is saved"
        );
        let dear = "id=c&quota=2&cost=6";
        assert!(takes(dear, 0) && !takes(dear, 1_500), "what was taken beyond is paid back first");
        assert!(takes(dear, 2_500));
        assert!(!takes("id=d&quota=0", 0));
    }

    #[test]
    fn what_a_query_says() {
        let full = Claim { id: "a".to_owned(), quota: 2.5, cost: 3.0, dry_run: true };
        assert_eq!(claim("id=a&quota=2.5&cost=3&dryRun=true"), Ok(Some(full)));
        assert_eq!(claim("id=a"), Ok(None));
        assert_eq!(claim("quota=2"), Ok(None));
        assert_eq!(
            claim("id=a&quota=x"),
            Err("parameter 'rate.quota': expected a number from 0, got 'x'".to_owned())
        );
        assert_eq!(
            claim("id=a&quota=1&cost=-1"),
            Err("parameter 'rate.cost': expected a number from 0, got '-1'".to_owned())
        );
    }
}
