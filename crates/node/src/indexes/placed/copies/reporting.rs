//! Reports about the copies of a node, and their lags.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_document::Timestamp;
use millrace_index_placement::{CopyId, CopyProgress, NodeCopyReport, NodeCopyReports, VerifiedCopy};

use super::super::service;
use super::{CopyStage, NodeCopies, NodeCopy, number};
use crate::Error;

/// Lag that is reported, also where the settings accept it: owners say every few seconds how far they have
/// everything, so a copy that keeps up is always some seconds behind.
const LAG_REPORTED: Duration = Duration::from_secs(30);

impl NodeCopies {
    /// Reports about all copies.
    pub fn reports(&self) -> NodeCopyReports {
        let now = Instant::now();
        let reports = self.copies.iter().map(|(id, copy)| (*id, self.report(*id, copy, now)));
        NodeCopyReports { copies: reports.collect() }
    }

    fn report(&self, id: CopyId, copy: &NodeCopy, now: Instant) -> NodeCopyReport {
        let (progress, done) = match &copy.stage {
            CopyStage::Unknown => (CopyProgress::Working, 0.0),
            CopyStage::Importing { status, .. } => {
                let bytes = status.bytes.load(Ordering::Relaxed);
                let received = status.received.load(Ordering::Relaxed);
                let done = if bytes == 0 { 0.0 } else { received as f64 / bytes as f64 };
                (CopyProgress::Working, done)
            }
            CopyStage::Open(open) if open.suspended.is_some() => (CopyProgress::Working, 0.0),
            CopyStage::Open(_) if self.follower.is_ready(number(id)) => (CopyProgress::CaughtUp, 1.0),
            CopyStage::Open(_) => {
                let progress = self.follower.progress(number(id));
                let buckets = progress.buckets.max(1) as f64;
                // The last step is to compare positions.
                (CopyProgress::Working, (progress.caught_up as f64 / buckets).min(0.999))
            }
            CopyStage::Failed { reason, .. } => (CopyProgress::Failed(Arc::clone(reason)), 0.0),
            CopyStage::Gone => (CopyProgress::Gone, 1.0),
        };
        let (status, verification) = match &copy.stage {
            CopyStage::Open(open) => (open.kept.status(), *open.kept.verification.lock()),
            _ => Default::default(),
        };
        let verified =
            verification.repaired.map(|repaired| VerifiedCopy { ended_ms: verification.from_ms, repaired });
        let lag_min = self.lag_max.map_or(LAG_REPORTED, |max| max.min(LAG_REPORTED));
        let lag = (progress == CopyProgress::CaughtUp)
            .then(|| self.lag(id, service::now()).filter(|lag| *lag > lag_min).map(|lag| lag.as_secs()))
            .flatten();
        let elapsed = now.saturating_duration_since(copy.began).as_secs_f64();
        let is_known = progress == CopyProgress::Working && done >= 0.01;
        let seconds_left = is_known.then(|| (elapsed * (1.0 - done) / done).ceil() as u64);
        let (bytes, entries) = (status.bytes, status.entries);
        NodeCopyReport { progress, bytes, entries, done, seconds_left, lag, verified }
    }

    /// Time since the last moment of which a copy is known to have everything, if any is known.
    fn lag(&self, copy: CopyId, now: Timestamp) -> Option<Duration> {
        self.follower.lag(number(copy), now).map(Duration::from_micros)
    }

    /// Checks that a copy lags by no more than the settings accept.
    ///
    /// # Errors
    /// It lags by more, or it is not known by how much.
    pub fn check_lag(&self, copy: CopyId, now: Timestamp) -> Result<(), Error> {
        let Some(lag_max) = self.lag_max else { return Ok(()) };
        let lag = self.lag(copy, now);
        if lag.is_some_and(|lag| lag <= lag_max) {
            return Ok(());
        }
        let lag =
            lag.map_or_else(|| "for an unknown time".to_owned(), |lag| format!("by {} s", lag.as_secs()));
        Err(Error::IndexNotReady(format!(
            "copy {} on node {} lags {lag}, and 'lag-max' accepts {} s",
            copy.0,
            self.own,
            lag_max.as_secs()
        )))
    }
}
