use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_access::CallerLimits;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_store::StoredGroup;
use parking_lot::Mutex;

/// Maximum number of groups whose sizes are kept.
const GROUPS_MAX: usize = 10_000;

/// Time for which a size is used without another measurement. Some changes are not counted here.
const VALID: Duration = Duration::from_secs(60);

/// Limits on the stored documents and bytes of each group: those of the server, and those of the credential
/// that writes.
///
/// The size of a group is measured once, and writes are added to it. So it is never below the real one, as
/// long as all writes are counted; only where the sum reaches a limit, the group is measured again. Writes
/// that are admitted and not committed are in no measurement, and count in addition.
pub(crate) struct GroupSizeLimits {
    documents: Option<u64>,
    bytes: Option<u64>,
    sizes: Arc<Mutex<GroupSizes>>,
    /// True once a group is known: before that, writes without a limit are not counted.
    is_used: AtomicBool,
}

/// Sizes of groups, and the writes to them that are in flight.
#[derive(Default)]
struct GroupSizes {
    known: HashMap<DocumentGroup, GroupSize>,
    /// Groups that have such writes.
    in_flight: HashMap<DocumentGroup, InFlightGroupWrites>,
}

/// Upper bound on the size of a group.
#[derive(Clone, Copy)]
struct GroupSize {
    total: DocumentTotals,
    measured: Instant,
}

/// Writes to a group since it last had none in flight: all that were admitted, and of these the ones that
/// have ended.
#[derive(Default, Clone, Copy)]
struct InFlightGroupWrites {
    /// Number of those that have not ended.
    count: usize,
    admitted: DocumentTotals,
    ended: DocumentTotals,
}

/// A number of documents, and a number of bytes.
#[derive(Default, Clone, Copy)]
pub(crate) struct DocumentTotals {
    documents: u64,
    bytes: u64,
}

/// An admitted write that is not committed. It ends when this is dropped.
pub(crate) struct UncommittedSize {
    sizes: Arc<Mutex<GroupSizes>>,
    group: DocumentGroup,
    write: DocumentTotals,
}

impl UncommittedSize {
    /// Bytes of the write.
    pub(crate) const fn bytes(&self) -> usize {
        self.write.bytes as usize
    }
}

impl Drop for UncommittedSize {
    fn drop(&mut self) {
        let mut sizes = self.sizes.lock();
        let Some(writes) = sizes.in_flight.get_mut(&self.group) else { return };
        writes.ended = writes.ended.plus(self.write);
        writes.count -= 1;
        if writes.count == 0 {
            sizes.in_flight.remove(&self.group);
        }
    }
}

impl GroupSizeLimits {
    /// Creates the limits of a server.
    pub fn new(documents: Option<u64>, bytes: Option<u64>) -> Self {
        GroupSizeLimits { documents, bytes, sizes: Arc::default(), is_used: AtomicBool::new(false) }
    }

    /// Returns true if a credential with these limits may write only so much.
    fn limits(&self, own: &CallerLimits) -> bool {
        [self.documents, self.bytes, own.documents, own.bytes].iter().any(Option::is_some)
    }

    /// Returns true if writes of a credential with these limits are counted.
    pub(super) fn counts(&self, own: &CallerLimits) -> bool {
        self.limits(own) || self.is_used.load(Ordering::Relaxed)
    }

    /// Admits a write, and counts it. The result, if there is one, is kept until the write is committed. A
    /// write that may replace a document counts as a new one until then.
    ///
    /// # Errors
    /// [`Error::GroupFull`]; the group cannot be measured.
    pub fn admit(
        &self,
        group: &DocumentGroup,
        write: DocumentTotals,
        own: &CallerLimits,
        now: Instant,
        measure: impl FnOnce() -> Result<StoredGroup, Error>,
    ) -> Result<Option<UncommittedSize>, Error> {
        if !self.limits(own) {
            // Others have limits, perhaps, and count on what is known.
            if !self.is_used.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let mut sizes = self.sizes.lock();
            let Some(size) = sizes.known.get_mut(group) else { return Ok(None) };
            size.total = size.total.plus(write);
            return Ok(Some(self.begin(&mut sizes, group, write)));
        }
        let mut sizes = self.sizes.lock();
        if let Some(size) = sizes.known.get_mut(group)
            && now.saturating_duration_since(size.measured) < VALID
            && self.exceeded(size.total, own).is_none()
        {
            size.total = size.total.plus(write);
            return Ok(Some(self.begin(&mut sizes, group, write)));
        }
        let before = sizes.in_flight.get(group).copied().unwrap_or_default();
        let admitted = self.begin(&mut sizes, group, write);
        // Others do not wait for the files.
        drop(sizes);
        let stored = measure()?;
        let stored = DocumentTotals { documents: stored.documents, bytes: stored.bytes };
        // A write that has ended since may have been committed after it was looked for.
        let totals_with = |admitted: DocumentTotals| stored.plus(admitted.minus(before.ended));
        if let Some((what, limit, flag)) = self.exceeded(totals_with(before.admitted), own) {
            return Err(Error::GroupFull { group: group.to_string(), what, limit, flag });
        }
        let mut sizes = self.sizes.lock();
        // The group has this write in flight, so that its writes are still counted from where they were.
        let all = sizes.in_flight.get(group).map_or(before.admitted.plus(write), |writes| writes.admitted);
        if sizes.known.len() >= GROUPS_MAX {
            sizes.known.clear();
        }
        sizes.known.insert(group.clone(), GroupSize { total: totals_with(all), measured: now });
        self.is_used.store(true, Ordering::Relaxed);
        Ok(Some(admitted))
    }

    /// Counts bytes of a document that an update writes again: its versions are all stored until a merge.
    pub(super) fn grow(&self, group: &DocumentGroup, bytes: usize) {
        if self.is_used.load(Ordering::Relaxed)
            && let Some(size) = self.sizes.lock().known.get_mut(group)
        {
            size.total = size.total.plus(DocumentTotals::growth(bytes));
        }
    }

    /// Returns true if the writes that are in flight have filled a group since its size was measured, without
    /// `bytes` bytes of the updates that ask.
    pub(crate) fn may_be_full(&self, group: &DocumentGroup, own: &CallerLimits, bytes: usize) -> bool {
        if !self.is_used.load(Ordering::Relaxed) || !self.limits(own) {
            return false;
        }
        let known = self.sizes.lock().known.get(group).map(|size| size.total.bytes);
        let limit = self.bytes.into_iter().chain(own.bytes).min();
        limit.zip(known).is_some_and(|(limit, known)| known.saturating_sub(bytes as u64) >= limit)
    }

    /// Counts a write as in flight.
    fn begin(&self, sizes: &mut GroupSizes, group: &DocumentGroup, write: DocumentTotals) -> UncommittedSize {
        let writes = sizes.in_flight.entry(group.clone()).or_default();
        writes.admitted = writes.admitted.plus(write);
        writes.count += 1;
        UncommittedSize { sizes: Arc::clone(&self.sizes), group: group.clone(), write }
    }

    /// Limit that leaves no room for another document.
    fn exceeded(
        &self,
        size: DocumentTotals,
        own: &CallerLimits,
    ) -> Option<(&'static str, u64, &'static str)> {
        [
            ("documents", size.documents, self.documents, "--group-documents-max"),
            ("documents", size.documents, own.documents, "limits.documents of the credential"),
            ("bytes", size.bytes, self.bytes, "--group-bytes-max"),
            ("bytes", size.bytes, own.bytes, "limits.bytes of the credential"),
        ]
        .into_iter()
        .find_map(|(what, stored, limit, flag)| Some((what, limit.filter(|max| stored >= *max)?, flag)))
    }
}

impl DocumentTotals {
    /// A document of `bytes` bytes.
    pub const fn document(bytes: usize) -> Self {
        DocumentTotals { documents: 1, bytes: bytes as u64 }
    }

    /// Growth of existing documents.
    pub const fn growth(bytes: usize) -> Self {
        DocumentTotals { documents: 0, bytes: bytes as u64 }
    }

    fn plus(self, other: DocumentTotals) -> Self {
        DocumentTotals {
            documents: self.documents.saturating_add(other.documents),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: DocumentTotals) -> Self {
        DocumentTotals {
            documents: self.documents.saturating_sub(other.documents),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_document::Timestamp;

    #[test]
    fn a_group_is_measured_only_near_a_limit() {
        let limits = GroupSizeLimits::new(Some(10), Some(1000));
        let none = CallerLimits::default();
        let (start, group) = (Instant::now(), DocumentGroup::Name("ann".to_owned()));
        let admits = |seconds: u64, bytes: usize, stored: Option<(u64, u64)>| {
            let mut is_measured = false;
            let measure = || {
                is_measured = true;
                let (documents, bytes) = stored.expect("not measured now");
                let last_write = Timestamp(0);
                Ok(StoredGroup { group: group.clone(), documents, bytes, last_write })
            };
            let now = start + Duration::from_secs(seconds);
            let outcome = limits.admit(&group, DocumentTotals::document(bytes), &none, now, measure);
            assert_eq!(is_measured, stored.is_some());
            outcome.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(admits(0, 10, Some((8, 80))), Ok(()));
        assert_eq!(admits(0, 10, None), Ok(()), "the ninth and the tenth");
        assert_eq!(admits(0, 10, Some((9, 90))), Ok(()), "one of them replaced another");
        let full = admits(0, 10, Some((10, 100))).expect_err("full");
        assert!(full.contains("10 documents") && full.contains("--group-documents-max"), "{full}");
        assert_eq!(admits(0, 900, Some((1, 100))), Ok(()));
        assert!(admits(1, 1, Some((2, 1000))).expect_err("full").contains("--group-bytes-max"));
        assert_eq!(admits(2, 1, Some((1, 100))), Ok(()), "others were removed");
        assert_eq!(admits(3, 1, None), Ok(()));
        assert_eq!(admits(100, 1, Some((1, 100))), Ok(()), "it is measured now and then");
    }

    #[test]
    fn a_credential_has_limits_of_its_own() {
        let limits = GroupSizeLimits::new(None, None);
        let (now, group) = (Instant::now(), DocumentGroup::Name("ann".to_owned()));
        let few = CallerLimits { documents: Some(3), ..CallerLimits::default() };
        let small = CallerLimits { bytes: Some(100), ..CallerLimits::default() };
        let admit = |own: &CallerLimits, bytes: usize, stored: Option<(u64, u64)>| {
            let mut is_measured = false;
            let measure = || {
                is_measured = true;
                let (documents, bytes) = stored.expect("not measured now");
                Ok(StoredGroup { group: group.clone(), documents, bytes, last_write: Timestamp(0) })
            };
            let outcome = limits.admit(&group, DocumentTotals::document(bytes), own, now, measure);
            assert_eq!(is_measured, stored.is_some());
            outcome.map(drop).map_err(|error| error.to_string())
        };
        let none = CallerLimits::default();
        assert_eq!(admit(&none, 10, None), Ok(()));
        assert_eq!(admit(&few, 10, Some((1, 10))), Ok(()));
        assert_eq!(admit(&none, 10, None), Ok(()), "the third: it has no limit, and is counted");
        let full = admit(&few, 10, Some((3, 30))).expect_err("full");
        assert!(
            full.contains("3 documents") && full.contains("limits.documents of the credential"),
            "{full}"
        );
        assert_eq!(admit(&none, 100, None), Ok(()));
        let full = admit(&small, 1, Some((4, 130))).expect_err("full");
        assert!(full.contains("100 bytes") && full.contains("limits.bytes of the credential"), "{full}");
    }

    #[test]
    fn a_group_grows_by_what_updates_write_again() {
        let limits = GroupSizeLimits::new(None, Some(1_000));
        let (now, group) = (Instant::now(), DocumentGroup::Name("ann".to_owned()));
        let none = CallerLimits::default();
        limits.grow(&group, 5_000);
        assert!(!limits.may_be_full(&group, &none, 0), "its size is not known");
        let admit = |bytes: u64| {
            let last_write = Timestamp(0);
            let measure = || Ok(StoredGroup { group: group.clone(), documents: 1, bytes, last_write });
            let outcome = limits.admit(&group, DocumentTotals::growth(10), &none, now, measure);
            outcome.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(admit(100), Ok(()));
        limits.grow(&group, 900);
        assert!(limits.may_be_full(&group, &none, 0) && !limits.may_be_full(&group, &none, 11));
        assert!(admit(1_000).expect_err("it is measured, and full").contains("--group-bytes-max"));
        assert_eq!(admit(500), Ok(()), "a merge has left out what was replaced");
    }

    #[test]
    fn writes_of_one_request_count_before_the_first_is_committed() {
        let limits = GroupSizeLimits::new(Some(10), None);
        let (now, group) = (Instant::now(), DocumentGroup::Name("ann".to_owned()));
        let none = CallerLimits::default();
        let admit = |stored: u64| {
            let measure = || {
                let last_write = Timestamp(0);
                Ok(StoredGroup { group: group.clone(), documents: stored, bytes: stored, last_write })
            };
            limits.admit(&group, DocumentTotals::document(1), &none, now, measure)
        };
        let mut admitted: Vec<_> = (0..50).filter_map(|_| admit(0).ok()).collect();
        assert_eq!(admitted.len(), 10, "nothing is committed, and the limit holds");
        // Three are committed, and one of these has replaced another.
        admitted.truncate(7);
        assert!(admit(2).is_ok_and(|size| size.is_some()), "2 are stored, and 7 are in flight");
        let last = admit(2).expect("2 are stored, and 7 are in flight");
        assert!(admit(2).is_err(), "2 are stored, and 8 are in flight");
        drop((admitted, last));
        assert!(admit(10).is_err() && admit(9).is_ok());
        assert!(limits.sizes.lock().in_flight.is_empty(), "groups without writes take no memory");
    }
}
