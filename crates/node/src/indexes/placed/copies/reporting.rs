//! Reports about the copies of a node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use millrace_index_placement::{CopyId, CopyProgress, NodeCopyReport, NodeCopyReports};

use super::{CopyStage, NodeCopies, NodeCopy, number};

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
        let status = match &copy.stage {
            CopyStage::Open(open) => open.kept.status(),
            _ => Default::default(),
        };
        let elapsed = now.saturating_duration_since(copy.began).as_secs_f64();
        let is_known = progress == CopyProgress::Working && done >= 0.01;
        let seconds_left = is_known.then(|| (elapsed * (1.0 - done) / done).ceil() as u64);
        NodeCopyReport { progress, bytes: status.bytes, entries: status.entries, done, seconds_left }
    }
}
