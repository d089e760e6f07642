use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long nothing is said of the same matter again.
const PAUSE: Duration = Duration::from_secs(30);

/// Tells operators of connections that fail for want of trust: that does not mend by itself, and comes back many times a second.
#[derive(Default)]
pub(crate) struct Complaints {
    last: Mutex<Option<Instant>>,
}

impl Complaints {
    /// Says it to operators now and then; anything that is no matter of trust, to those who look closely.
    pub(crate) fn of(&self, address: &str, error: io::Error) {
        let error = millrace_trust::explained(error);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if millrace_trust::is_of_trust(&error) && last.is_none_or(|last| last.elapsed() > PAUSE) {
            *last = Some(Instant::now());
            tracing::warn!(address, %error, "no connection of two nodes that trust each other");
        } else {
            tracing::debug!(address, %error, "the connection to a node has ended, or cannot be made");
        }
    }
}
