use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millrace_env::panic_message;
use parking_lot::Mutex;

use crate::Error;

/// Number of failures from which on no more damaged groups are listed; the log has all.
const FAILURES_MAX: usize = 16;

/// Health of the store: whether writes are accepted, and errors in the background.
#[derive(Default)]
pub(crate) struct StoreHealth {
    poisoned: Mutex<Option<String>>,
    failures: Mutex<Vec<(&'static str, String)>>,
    no_space: Mutex<Option<Error>>,
    panics: AtomicU64,
    pub closed: AtomicBool,
}

impl StoreHealth {
    /// Runs work that a thread of the store must survive: a panic becomes an error, and is counted.
    ///
    /// The resources of the work are released as it unwinds: states are replaced as a whole, and files that
    /// are not in a manifest are deleted.
    pub fn guard<T>(&self, work: &'static str, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let reason = panic_message(&*panic);
            tracing::error!(work, reason, "a bug: work of the store panicked");
            Err(Error::Panicked { work, reason })
        })
    }

    /// Panics that were caught since the start.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// No write is accepted from now on.
    pub fn poison(&self, reason: String) {
        tracing::error!(reason, "a write could not be made durable; writes are refused from now on");
        *self.poisoned.lock() = Some(reason);
    }

    /// Checks that writes are accepted.
    pub fn check_writable(&self) -> Result<(), Error> {
        match &*self.poisoned.lock() {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Records the outcome of work in the background: the reason of its failure, or `None`.
    pub fn record_outcome(&self, work: &'static str, reason: Option<String>) {
        let mut failures = self.failures.lock();
        let known = failures.iter().any(|(of, before)| *of == work && Some(before) == reason.as_ref());
        failures.retain(|(of, _)| *of != work);
        if let Some(reason) = reason {
            if !known {
                tracing::warn!(work, reason, "work in the background failed; it will be tried again");
            }
            failures.push((work, reason));
        }
    }

    /// Notes that documents of a group are kept without columns because of this error. Nothing mends a value
    /// that cannot be read, so it is reported until the store closes; a panic is counted already.
    pub fn note_kept(&self, error: &Error, document_type: &str, group: &str) {
        if matches!(error, Error::Panicked { .. }) {
            return;
        }
        let reason =
            format!("documents of type {document_type} in group '{group}' were kept as they are: {error}");
        tracing::error!(reason, "a document in memory is damaged; write the documents of its group again");
        let mut failures = self.failures.lock();
        if !failures.iter().any(|(_, known)| *known == reason) && failures.len() < FAILURES_MAX {
            failures.push(("seal documents that cannot be read", reason));
        }
    }

    /// Notes the error that prevents sealing for lack of space, or `None`.
    pub fn note_space(&self, error: Option<Error>) {
        *self.no_space.lock() = error;
    }

    /// Returns the error that prevents sealing the tail, if it is a lack of disk space.
    pub fn no_space(&self) -> Option<Error> {
        self.no_space.lock().clone()
    }

    /// Returns the background work that failed at its last attempt, with the reasons.
    pub fn failures(&self) -> Vec<String> {
        let failures = self.failures.lock();
        failures.iter().map(|(work, reason)| format!("{work}: {reason}")).collect()
    }
}
