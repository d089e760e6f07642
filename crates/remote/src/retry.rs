//! What to do after a request that failed: a pure function; and the pause before the next.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tries of one request, the first included.
pub(crate) const TRIES: u32 = 5;
/// The pause before the second try, where the service does not say how long; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// No pause is longer, whatever the service says.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no answer.
    Connection,
    /// The operator's rules do not permit the connection.
    Forbidden,
    /// An answer with this status; and how long to wait, where it says so.
    Status(u16, Option<Duration>),
}

impl Failure {
    /// The status of the answer, where there was one.
    pub fn status(self) -> Option<u16> {
        match self {
            Failure::Connection | Failure::Forbidden => None,
            Failure::Status(status, _) => Some(status),
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask again, so much later.
    Again(Duration),
    /// It will not do so soon.
    Later,
    /// What was asked is wrong.
    Fix,
    /// Nothing that is asked will do.
    GiveUp,
}

/// Chooses, after try number `tries` (from 1).
pub(crate) fn choose(failure: Failure, tries: u32) -> Next {
    let (passes, asked) = match failure {
        Failure::Connection => (true, None),
        Failure::Status(408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529, after) => (true, after),
        Failure::Status(400 | 413 | 422, _) => return Next::Fix,
        Failure::Forbidden | Failure::Status(..) => (false, None),
    };
    match passes {
        false => Next::GiveUp,
        true if tries >= TRIES => Next::Later,
        true => {
            let own = PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16));
            Next::Again(asked.unwrap_or(own).min(PAUSE_MAX))
        }
    }
}

/// Until when a service asked not to be asked. All who ask it keep to that.
#[derive(Default)]
pub(crate) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// After a failure: a pause for all where the service asked for one, else for this caller alone, who waits for it to end.
    pub async fn begin(&self, failure: Failure, pause: Duration) {
        if matches!(failure, Failure::Status(_, Some(_))) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
            self.kept().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until it is over.
    pub async fn kept(&self) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        check(Failure::Connection, 1, Next::Again(ms(200)));
        check(Failure::Connection, 3, Next::Again(ms(800)));
        check(Failure::Connection, TRIES, Next::Later);
        check(Failure::Forbidden, 1, Next::GiveUp);
        check(Failure::Status(429, Some(ms(7000))), 1, Next::Again(ms(7000)));
        check(Failure::Status(429, Some(ms(7_000_000))), 1, Next::Again(ms(60_000)));
        check(Failure::Status(429, None), 2, Next::Again(ms(400)));
        check(Failure::Status(503, None), 1, Next::Again(ms(200)));
        check(Failure::Status(500, None), TRIES, Next::Later);
        check(Failure::Status(400, None), 1, Next::Fix);
        check(Failure::Status(422, None), 1, Next::Fix);
        check(Failure::Status(401, None), 1, Next::GiveUp);
        check(Failure::Status(404, None), 1, Next::GiveUp);
        check(Failure::Status(302, None), 1, Next::GiveUp);
    }
}
