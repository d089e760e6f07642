use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Coordination, Error, LeaseId};

/// Number of renewals within the duration of a lease.
const TIMES: u32 = 8;

/// A lease that keeps itself alive, and reports its loss.
///
/// It counts as lost if coordination says so, or if no request succeeded for its duration, counted from the
/// moment the last successful request was sent. So a holder never believes in a lease that has ended for
/// others. A dropped lease expires by itself.
pub struct LeaseKeeper {
    coordination: Arc<dyn Coordination>,
    id: LeaseId,
    ttl: Duration,
    until: watch::Receiver<LeaseDeadline>,
    keeper: JoinHandle<()>,
}

/// Known end of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseDeadline {
    At(Instant),
    Lost,
}

impl LeaseKeeper {
    /// Begins a lease that ends `ttl` after it was last kept alive; whole seconds, at least 2.
    ///
    /// # Errors
    /// Those of [`Coordination::grant`].
    pub async fn grant(coordination: Arc<dyn Coordination>, ttl: Duration) -> Result<LeaseKeeper, Error> {
        let asked = Instant::now();
        let id = coordination.grant(ttl).await?;
        let (sender, until) = watch::channel(LeaseDeadline::At(asked + ttl));
        let keeper = tokio::spawn(keep(Arc::clone(&coordination), id, ttl, sender));
        Ok(LeaseKeeper { coordination, id, ttl, until, keeper })
    }

    /// Id to bind keys to.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// Time at which it was last kept alive: for others it ends no sooner than its duration after that.
    /// `None` if it may have ended.
    pub fn kept_alive(&self) -> Option<Instant> {
        match *self.until.borrow() {
            LeaseDeadline::At(until) if Instant::now() < until => until.checked_sub(self.ttl),
            LeaseDeadline::At(_) | LeaseDeadline::Lost => None,
        }
    }

    /// Waits until it is lost.
    pub async fn lost(&self) {
        let mut until = self.until.clone();
        // The keeper ends only when the lease is lost; if it ends otherwise, the lease is not kept alive any
        // more.
        let _ = until.wait_for(|until| *until == LeaseDeadline::Lost).await;
    }

    /// Releases the lease: its keys are deleted at once.
    ///
    /// # Errors
    /// Those of [`Coordination::revoke`]; the lease then expires by itself.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        self.coordination.revoke(self.id).await
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Keeps a lease alive until it is lost.
async fn keep(
    coordination: Arc<dyn Coordination>,
    id: LeaseId,
    ttl: Duration,
    until: watch::Sender<LeaseDeadline>,
) {
    let pause = ttl / TIMES;
    loop {
        tokio::time::sleep(pause).await;
        let LeaseDeadline::At(end) = *until.borrow() else { return };
        let asked = Instant::now();
        let left = end.saturating_duration_since(asked);
        // No answer for this long: by the time of an answer the lease may be over.
        let answer = tokio::time::timeout(left.min(pause * 2), coordination.keep_alive(id)).await;
        match answer {
            Ok(Ok(())) => {
                until.send_replace(LeaseDeadline::At(asked + ttl));
            }
            Ok(Err(error)) if !error.is_passing() => {
                tracing::warn!(%error, "a lease is lost");
                until.send_replace(LeaseDeadline::Lost);
                return;
            }
            _ if Instant::now() >= end => {
                tracing::warn!(lease = id.0, "a lease could not be kept alive for as long as it lasts");
                until.send_replace(LeaseDeadline::Lost);
                return;
            }
            _ => {}
        }
    }
}
