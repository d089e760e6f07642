use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Error;

/// Minimum time between two log entries about the same problem.
const PAUSE: Duration = Duration::from_secs(30);

/// Log of nodes that cannot work together, for lack of trust or of a common protocol: that persists, and
/// recurs many times a second.
#[derive(Default)]
pub(crate) struct RejectedPeerLog {
    last: Mutex<Option<Instant>>,
}

impl RejectedPeerLog {
    /// Logs such an error for operators now and then; any other error at debug level.
    pub(crate) fn log(&self, address: &str, error: io::Error) {
        let error = millrace_trust::explained(error);
        let mut last = self.last.lock();
        let matters = millrace_trust::is_of_trust(&error) || is_of_protocol(&error);
        if matters && last.is_none_or(|last| last.elapsed() > PAUSE) {
            *last = Some(Instant::now());
            tracing::warn!(address, %error, "two nodes cannot work together");
        } else {
            tracing::debug!(address, %error, "the connection to a node has ended, or cannot be made");
        }
    }
}

/// True if a node has sent a message that this one does not know.
fn is_of_protocol(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(Error::Unknown(_)))
}
