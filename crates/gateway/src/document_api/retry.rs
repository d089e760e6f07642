//! Repetition of what was refused because of an overload.

use std::time::{Duration, Instant};

use millrace_node::{Error, ErrorKind};

/// Shortest and longest pause before something is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Pauses before further attempts at what was refused, until a deadline.
pub(in crate::document_api) struct RetryPause {
    deadline: Instant,
    pause: Duration,
}

impl RetryPause {
    pub(in crate::document_api) fn until(deadline: Instant) -> Self {
        RetryPause { deadline, pause: PAUSES.0 }
    }

    /// Waits, twice as long each time.
    ///
    /// # Errors
    /// The error, if it is not one of an overload, or the time is up.
    pub(in crate::document_api) async fn after(&mut self, error: Error) -> Result<(), Error> {
        if error.kind() != ErrorKind::Overloaded || Instant::now() + self.pause > self.deadline {
            return Err(error);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
