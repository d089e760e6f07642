//! Limits on the bytes a second of the documents that clients write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_node::metrics::{CountedMetric, NodeMetrics};
use parking_lot::Mutex;

use super::KEYS_MAX;
use super::allowances::TokenBuckets;

/// The longest time that a client pays back what it wrote at once, such as a large document at a low limit.
const DEBT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Shortest wait of a stream.
const WAIT_MIN: Duration = Duration::from_millis(2);

/// Mark of a request whose bytes were counted with the stream that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FedBytesCounted;

/// Bytes that a client writes at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FedBytes<'r> {
    /// The client, unless its bytes were counted before.
    pub(crate) caller: Option<&'r RequestCaller>,
    /// Group of the documents, if it is known.
    pub(crate) group: Option<&'r DocumentGroup>,
    /// Size of the operations, unpacked.
    pub(crate) bytes: usize,
}

/// Limits of callers, by their credentials, and of each group.
pub(crate) struct FedByteLimits {
    /// Limit of each group, in bytes a second.
    group_max: Option<u64>,
    /// Remaining bytes of all writes.
    written: FedAllowances,
    /// Remaining bytes of documents that updates write again. It is looked at while updates are decided,
    /// whose own bytes have been taken from the others.
    rewritten: FedAllowances,
    /// Pieces of streams that have waited.
    paced: AtomicU64,
}

/// Remaining bytes of groups and of callers.
struct FedAllowances {
    groups: Mutex<TokenBuckets<DocumentGroup>>,
    callers: Mutex<TokenBuckets<String>>,
}

impl FedAllowances {
    fn new() -> Self {
        let (groups, callers) =
            (TokenBuckets::new(KEYS_MAX, DEBT_MAX), TokenBuckets::new(KEYS_MAX, DEBT_MAX));
        FedAllowances { groups: Mutex::new(groups), callers: Mutex::new(callers) }
    }
}

/// Limit that is exceeded, and the time until it is not.
struct ExceededLimit {
    of: String,
    limit: u64,
    flag: &'static str,
    wait: Duration,
}

impl From<ExceededLimit> for Error {
    fn from(exceeded: ExceededLimit) -> Self {
        let ExceededLimit { of, limit, flag, wait } = exceeded;
        Error::OverFed { of, limit, flag, retry_after_s: wait.as_secs() + 1 }
    }
}

/// Key of a limit, and its bytes a second; `None`: there is no limit.
type KeyLimit<K> = Option<(K, u64)>;

impl FedByteLimits {
    pub(super) fn new(group_max: Option<u64>) -> Self {
        let (written, rewritten) = (FedAllowances::new(), FedAllowances::new());
        FedByteLimits { group_max, written, rewritten, paced: AtomicU64::new(0) }
    }

    /// Returns true if writes of a caller are limited.
    pub(crate) const fn limits(&self, caller: &RequestCaller) -> bool {
        self.group_max.is_some() || caller.limits.fed_bytes.is_some()
    }

    /// Counts bytes, if neither the caller nor the group is beyond its limit.
    ///
    /// # Errors
    /// [`Error::OverFed`]: nothing is counted.
    pub(crate) fn admit(&self, fed: FedBytes<'_>, now: Instant, metrics: &NodeMetrics) -> Result<(), Error> {
        self.take(&self.written, fed, now).map_err(|exceeded| {
            metrics.count(CountedMetric::OverQuota);
            exceeded.into()
        })
    }

    /// Counts bytes of a document that an update writes again, if neither the caller nor the group has used
    /// up what it may write again in a second.
    ///
    /// # Errors
    /// [`Error::OverFed`]: nothing is counted.
    pub(super) fn admit_rewrite(&self, fed: FedBytes<'_>, now: Instant) -> Result<(), Error> {
        self.take(&self.rewritten, fed, now)?;
        self.spend(&self.written, fed, now);
        Ok(())
    }

    /// Counts bytes of a document that an update writes again, in any case.
    pub(super) fn count_rewrite(&self, fed: FedBytes<'_>, now: Instant) {
        self.spend(&self.rewritten, fed, now);
        self.spend(&self.written, fed, now);
    }

    /// Time until a caller may write documents of a group again by updates.
    pub(crate) fn until_rewrite(&self, caller: &RequestCaller, group: Option<&DocumentGroup>) -> Duration {
        let fed = FedBytes { caller: Some(caller), group, bytes: 0 };
        self.take(&self.rewritten, fed, Instant::now())
            .map_or_else(|exceeded| exceeded.wait, |()| Duration::ZERO)
    }

    /// Waits until a caller may write documents of a group again by updates.
    pub(crate) async fn wait_for_rewrite(&self, caller: &RequestCaller, group: &DocumentGroup) {
        loop {
            let wait = self.until_rewrite(caller, Some(group));
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait.max(WAIT_MIN)).await;
        }
    }

    /// Counts bytes as soon as neither the caller nor the group is beyond its limit.
    pub(crate) async fn wait(&self, fed: FedBytes<'_>) {
        let mut has_waited = false;
        while let Err(ExceededLimit { wait, .. }) = self.take(&self.written, fed, Instant::now()) {
            if !std::mem::replace(&mut has_waited, true) {
                self.paced.fetch_add(1, Ordering::Relaxed);
            }
            // Others may use up what is left then.
            tokio::time::sleep(wait.max(WAIT_MIN)).await;
        }
    }

    /// Number of pieces of streams that have waited.
    pub(crate) fn paced(&self) -> u64 {
        self.paced.load(Ordering::Relaxed)
    }

    /// The caller and the group that have limits.
    fn limited<'f>(&self, fed: FedBytes<'f>) -> (KeyLimit<String>, KeyLimit<&'f DocumentGroup>) {
        let FedBytes { caller, group, .. } = fed;
        let of_caller = caller.and_then(|caller| Some((caller.name.to_string(), caller.limits.fed_bytes?)));
        (of_caller, group.filter(|group| **group != DocumentGroup::None).zip(self.group_max))
    }

    /// Counts bytes in any case.
    fn spend(&self, left: &FedAllowances, fed: FedBytes<'_>, now: Instant) {
        let (of_caller, of_group) = self.limited(fed);
        if let Some((name, limit)) = &of_caller {
            left.callers.lock().spend(name, *limit as f64, fed.bytes as f64, now);
        }
        if let Some((group, limit)) = of_group {
            left.groups.lock().spend(group, limit as f64, fed.bytes as f64, now);
        }
    }

    fn take(&self, left: &FedAllowances, fed: FedBytes<'_>, now: Instant) -> Result<(), ExceededLimit> {
        let (of_caller, of_group) = self.limited(fed);
        let bytes = fed.bytes;
        // Both tables are locked in this order, so that what one refuses is not counted in the other.
        let (mut callers, mut groups) = (left.callers.lock(), left.groups.lock());
        if let Some((name, limit)) = &of_caller {
            let wait = callers.until_left(name, *limit as f64, now);
            if !wait.is_zero() {
                let (of, flag) = (format!("by '{name}'"), "limits.fed_bytes of the credential");
                return Err(ExceededLimit { of, limit: *limit, flag, wait });
            }
        }
        if let Some((group, limit)) = of_group {
            let wait = groups.until_left(group, limit as f64, now);
            if !wait.is_zero() {
                let (of, flag) = (format!("to {}", group.in_words()), "--group-fed-bytes-max");
                return Err(ExceededLimit { of, limit, flag, wait });
            }
            groups.take(group, limit as f64, bytes as f64, now);
        }
        if let Some((name, limit)) = &of_caller {
            callers.take(name, *limit as f64, bytes as f64, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_access::CallerLimits;

    use super::*;

    #[test]
    fn what_one_limit_refuses_is_not_counted_by_the_other() {
        let (limits, metrics, start) = (FedByteLimits::new(Some(1_000)), NodeMetrics::new(), Instant::now());
        let caller = |name: &str, fed_bytes| RequestCaller {
            limits: CallerLimits { fed_bytes, ..CallerLimits::default() },
            ..RequestCaller::unrestricted(name)
        };
        let (slow, other) = (caller("slow", Some(100)), caller("other", None));
        let [ann, bob] = ["ann", "bob"].map(|name| DocumentGroup::Name(name.to_owned()));
        let write = |caller: &RequestCaller, group: &DocumentGroup, bytes, millis| {
            let fed = FedBytes { caller: Some(caller), group: Some(group), bytes };
            let admitted = limits.admit(fed, start + Duration::from_millis(millis), &metrics);
            admitted.map_err(|error| error.to_string())
        };
        assert_eq!(write(&slow, &ann, 300, 0), Ok(()), "what is left is not counted before it is taken");
        assert_eq!(
            write(&slow, &ann, 5_000, 0),
            Err("the documents written by 'slow' exceed 100 bytes a second; try again in 3 s, with less at a time, or \
                 raise limits.fed_bytes of the credential"
                .to_owned())
        );
        assert_eq!(write(&other, &ann, 2_000, 0), Ok(()), "the group has 700 bytes left");
        let refused = write(&other, &ann, 1, 0).expect_err("the group owes 1,300 bytes");
        assert!(refused.contains("to group 'ann' exceed 1000 bytes a second; try again in 2 s"), "{refused}");
        assert_eq!(write(&other, &bob, 1, 0), Ok(()));
        assert_eq!(write(&other, &DocumentGroup::None, 9_999, 0), Ok(()));
        assert!(write(&slow, &ann, 1, 1_000).is_err() && write(&slow, &ann, 1, 2_500).is_ok());
    }

    #[test]
    fn documents_that_updates_write_again_count_beside_the_bytes_of_the_updates() {
        let (limits, metrics, start) = (FedByteLimits::new(Some(1_000)), NodeMetrics::new(), Instant::now());
        let group = DocumentGroup::Name("ann".to_owned());
        let fed = |bytes| FedBytes { caller: None, group: Some(&group), bytes };
        let at = |millis| start + Duration::from_millis(millis);
        assert!(limits.admit(fed(5_000), at(0), &metrics).is_ok());
        assert!(
            limits.admit_rewrite(fed(3_000), at(0)).is_ok(),
            "a large request does not hold up its own updates"
        );
        let refused = limits.admit_rewrite(fed(1), at(0)).expect_err("2,000 bytes are owed").to_string();
        assert!(refused.contains("to group 'ann' exceed 1000 bytes a second; try again in 3 s"), "{refused}");
        assert!(limits.admit_rewrite(fed(1), at(2_001)).is_ok());
        limits.count_rewrite(fed(4_000), at(2_001));
        assert!(
            limits.admit_rewrite(fed(1), at(5_000)).is_err()
                && limits.admit_rewrite(fed(1), at(6_100)).is_ok()
        );
        assert!(limits.admit(fed(1), at(10_900), &metrics).is_err(), "both are owed");
        assert!(limits.admit(fed(1), at(11_100), &metrics).is_ok());
    }
}
