//! Decision after a failed request, as a pure function, and the pause before the next attempt.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of attempts at one request, including the first.
pub(crate) const TRIES: u32 = 5;
/// Pause before the second attempt, unless the service sets it; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum pause, also for services that request a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Kinds of failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// No answer.
    Connection,
    /// The operator's rules do not permit the connection.
    Forbidden,
    /// An answer with this status, and the requested pause if there is one.
    Status(u16, Option<Duration>),
}

impl RequestFailure {
    /// Status of the answer, if there was one.
    pub fn status(self) -> Option<u16> {
        match self {
            RequestFailure::Connection | RequestFailure::Forbidden => None,
            RequestFailure::Status(status, _) => Some(status),
        }
    }
}

/// Decision after a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Ask again after this pause.
    Again(Duration),
    /// Give up for now: all attempts failed with transient errors.
    Later,
    /// The request is wrong.
    Fix,
    /// No request can succeed.
    GiveUp,
}

/// Decides after attempt number `tries` (from 1).
pub(crate) fn choose(failure: RequestFailure, tries: u32) -> RetryDecision {
    let (passes, asked) = match failure {
        RequestFailure::Connection => (true, None),
        RequestFailure::Status(408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529, after) => (true, after),
        RequestFailure::Status(400 | 413 | 422, _) => return RetryDecision::Fix,
        RequestFailure::Forbidden | RequestFailure::Status(..) => (false, None),
    };
    match passes {
        false => RetryDecision::GiveUp,
        true if tries >= TRIES => RetryDecision::Later,
        true => {
            let own = PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16));
            RetryDecision::Again(asked.unwrap_or(own).min(PAUSE_MAX))
        }
    }
}

/// Time until which a service asked for a pause. It applies to all callers.
#[derive(Default)]
pub(crate) struct ServicePause(Mutex<Option<Instant>>);

impl ServicePause {
    /// Waits after a failure: a pause for all callers if the service asked for one, otherwise only for this
    /// caller.
    pub async fn begin(&self, failure: RequestFailure, pause: Duration) {
        if matches!(failure, RequestFailure::Status(_, Some(_))) {
            *self.0.lock() = Some(Instant::now() + pause);
            self.kept().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until the pause is over.
    pub async fn kept(&self) {
        loop {
            let until = *self.0.lock();
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        let ms = Duration::from_millis;
        let check =
            |failure, tries, expected| assert_eq!(choose(failure, tries), expected, "{failure:?} {tries}");
        check(RequestFailure::Connection, 1, RetryDecision::Again(ms(200)));
        check(RequestFailure::Connection, 3, RetryDecision::Again(ms(800)));
        check(RequestFailure::Connection, TRIES, RetryDecision::Later);
        check(RequestFailure::Forbidden, 1, RetryDecision::GiveUp);
        check(RequestFailure::Status(429, Some(ms(7000))), 1, RetryDecision::Again(ms(7000)));
        check(RequestFailure::Status(429, Some(ms(7_000_000))), 1, RetryDecision::Again(ms(60_000)));
        check(RequestFailure::Status(429, None), 2, RetryDecision::Again(ms(400)));
        check(RequestFailure::Status(503, None), 1, RetryDecision::Again(ms(200)));
        check(RequestFailure::Status(500, None), TRIES, RetryDecision::Later);
        check(RequestFailure::Status(400, None), 1, RetryDecision::Fix);
        check(RequestFailure::Status(422, None), 1, RetryDecision::Fix);
        check(RequestFailure::Status(401, None), 1, RetryDecision::GiveUp);
        check(RequestFailure::Status(404, None), 1, RetryDecision::GiveUp);
        check(RequestFailure::Status(302, None), 1, RetryDecision::GiveUp);
    }
}
