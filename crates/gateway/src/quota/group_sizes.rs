use std::collections::HashMap;
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
/// long as all writes are counted; only where the sum reaches a limit, the group is measured again.
pub(crate) struct GroupSizeLimits {
    documents: Option<u64>,
    bytes: Option<u64>,
    known: Mutex<HashMap<DocumentGroup, GroupSize>>,
    /// True once a group is known: before that, writes without a limit are not counted.
    is_used: AtomicBool,
}

/// Upper bound on the size of a group.
#[derive(Clone, Copy)]
struct GroupSize {
    documents: u64,
    bytes: u64,
    measured: Instant,
}

impl GroupSizeLimits {
    /// Creates the limits of a server.
    pub fn new(documents: Option<u64>, bytes: Option<u64>) -> Self {
        GroupSizeLimits { documents, bytes, known: Mutex::default(), is_used: AtomicBool::new(false) }
    }

    /// Returns true if a credential with these limits may write only so much.
    fn limits(&self, own: &CallerLimits) -> bool {
        [self.documents, self.bytes, own.documents, own.bytes].iter().any(Option::is_some)
    }

    /// Admits the write of a document of `bytes` bytes, and counts it. Concurrent writes to a group that is
    /// nearly full can exceed a limit by their number.
    ///
    /// # Errors
    /// [`Error::GroupFull`]; the group cannot be measured.
    pub fn admit(
        &self,
        group: &DocumentGroup,
        bytes: u64,
        own: &CallerLimits,
        now: Instant,
        measure: impl FnOnce() -> Result<StoredGroup, Error>,
    ) -> Result<(), Error> {
        if !self.limits(own) {
            // Others have limits, perhaps, and count on what is known.
            if self.is_used.load(Ordering::Relaxed)
                && let Some(size) = self.known.lock().get_mut(group)
            {
                size.add(bytes);
            }
            return Ok(());
        }
        let mut known = self.known.lock();
        if let Some(size) = known.get_mut(group)
            && now.saturating_duration_since(size.measured) < VALID
            && self.exceeded(size, own).is_none()
        {
            size.add(bytes);
            return Ok(());
        }
        // Others do not wait for the files.
        drop(known);
        let stored = measure()?;
        let mut size = GroupSize { documents: stored.documents, bytes: stored.bytes, measured: now };
        if let Some((what, limit, flag)) = self.exceeded(&size, own) {
            return Err(Error::GroupFull { group: group.to_string(), what, limit, flag });
        }
        size.add(bytes);
        let mut known = self.known.lock();
        if known.len() >= GROUPS_MAX {
            known.clear();
        }
        known.insert(group.clone(), size);
        self.is_used.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Limit that leaves no room for another document.
    fn exceeded(&self, size: &GroupSize, own: &CallerLimits) -> Option<(&'static str, u64, &'static str)> {
        [
            ("documents", size.documents, self.documents, "--group-documents-max"),
            ("documents", size.documents, own.documents, "limits.documents of the credential"),
            ("bytes", size.bytes, self.bytes, "--group-bytes-max"),
            ("bytes", size.bytes, own.bytes, "limits.bytes of the credential"),
        ]
        .into_iter()
        .find_map(|(what, stored, limit, flag)| Some((what, limit.filter(|most| stored >= *most)?, flag)))
    }
}

impl GroupSize {
    fn add(&mut self, bytes: u64) {
        self.documents = self.documents.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
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
        let admits = |seconds: u64, bytes: u64, stored: Option<(u64, u64)>| {
            let mut is_measured = false;
            let measure = || {
                is_measured = true;
                let (documents, bytes) = stored.expect("not measured now");
                let last_write = Timestamp(0);
                Ok(StoredGroup { group: group.clone(), documents, bytes, last_write })
            };
            let now = start + Duration::from_secs(seconds);
            let outcome = limits.admit(&group, bytes, &none, now, measure);
            assert_eq!(is_measured, stored.is_some());
            outcome.map_err(|error| error.to_string())
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
        let admit = |own: &CallerLimits, bytes: u64, stored: Option<(u64, u64)>| {
            let mut is_measured = false;
            let measure = || {
                is_measured = true;
                let (documents, bytes) = stored.expect("not measured now");
                Ok(StoredGroup { group: group.clone(), documents, bytes, last_write: Timestamp(0) })
            };
            let outcome = limits.admit(&group, bytes, own, now, measure);
            assert_eq!(is_measured, stored.is_some());
            outcome.map_err(|error| error.to_string())
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
}
