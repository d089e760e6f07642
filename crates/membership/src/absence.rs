//! Absence of a node, measured by the activity of the cluster in that time.
//!
//! Nodes forget removals after a while. A node that comes back later with its old documents would restore
//! removed ones, on all replicas. So it is refused, if the cluster was active between the end of its
//! participation and the time from which removals are remembered. If all nodes were stopped for long, or were
//! restored together, there was no such time, and all come back unchanged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_coordination::{KeyCondition, KeyOperation, Leadership, Transaction};
use millrace_env::{RealDisk, SystemClock, WallClock, read_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::membership::MembershipShared;

/// Interval at which a leader records that the cluster is active, and a node that it takes part.
const INTERVAL: Duration = Duration::from_secs(60);

/// A longer pause ends a span of activity.
const PAUSE: Duration = Duration::from_secs(600);

/// Time in which all nodes of a cluster are stopped in succession: activity in that time without the first of
/// them is accepted.
const TOLERANCE: Duration = Duration::from_secs(900);

/// Time for which removals must still be remembered after a node is back, so that it can receive them.
const MARGIN: Duration = Duration::from_secs(3_600);

/// Maximum number of recorded spans. Beyond it, the two oldest are merged.
const SPANS_MAX: usize = 64;

/// File with the time at which the node took part last, in microseconds since 1970.
const TOOK_PART: &str = "took-part";

/// Times at which the cluster had a leader: spans in microseconds since 1970, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ActivityRecord(Vec<(u64, u64)>);

impl ActivityRecord {
    fn extend(&mut self, now: u64) {
        match self.0.last_mut() {
            Some((_, to)) if now <= to.saturating_add(PAUSE.as_micros() as u64) => *to = now.max(*to),
            _ => self.0.push((now, now)),
        }
        if self.0.len() > SPANS_MAX {
            let (from, _) = self.0.remove(0);
            self.0[0].0 = from;
        }
    }

    /// True if the cluster was active after one time and before another.
    fn is_active_between(&self, after: u64, before: u64) -> bool {
        after < before && self.0.iter().any(|(from, to)| *from < before && after < *to)
    }
}

/// Time at which this node took part in the cluster last, in microseconds since 1970; 0 if unknown.
#[derive(Debug, Default)]
pub(crate) struct LastParticipation(AtomicU64);

impl LastParticipation {
    /// Reads the time from the node's directory. A node without data cannot restore removed documents.
    pub(crate) fn read(directory: &Path, is_empty: bool) -> Result<Self, Error> {
        if is_empty {
            return Ok(LastParticipation::default());
        }
        let path = directory.join(TOOK_PART);
        let Some(bytes) = read_file(&RealDisk, &path).map_err(|error| Error::Disk(error.to_string()))? else {
            return Ok(LastParticipation::default());
        };
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
        let fail = || Error::Disk(format!("{} should hold a number; delete it", path.display()));
        Ok(LastParticipation(AtomicU64::new(number.ok_or_else(fail)?)))
    }

    pub(crate) fn note(&self) {
        self.0.store(SystemClock.now_us(), Ordering::Relaxed);
    }

    fn at(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

/// Refuses a node that was absent for longer than removals are remembered, while the cluster was active.
///
/// # Errors
/// [`Error::AwayTooLong`]; coordination is unreachable.
pub(crate) async fn check(shared: &MembershipShared) -> Result<(), Error> {
    let (Some(kept), Some(last_participation)) =
        (shared.settings.removals_kept, shared.last_participation.at())
    else {
        return Ok(());
    };
    let now = SystemClock.now_us();
    let micros = |time: Duration| time.as_micros() as u64;
    let remembered_from = now.saturating_sub(micros(kept.saturating_sub(MARGIN)));
    let missed_from = last_participation.saturating_add(micros(TOLERANCE));
    if remembered_from <= missed_from {
        return Ok(());
    }
    let entry = shared.coordination.get(shared.keys.activity()).await?;
    let record: ActivityRecord =
        entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or_default();
    if !record.is_active_between(missed_from, remembered_from) {
        return Ok(());
    }
    let hours = |micros: u64| micros / 3_600_000_000;
    Err(Error::AwayTooLong {
        away_hours: hours(now.saturating_sub(last_participation)),
        kept_hours: hours(micros(kept)),
        file: shared.settings.directory.join(TOOK_PART),
    })
}

/// Records the time at which the node takes part, until it leaves.
pub(crate) async fn follow(shared: Arc<MembershipShared>) {
    let mut written = None;
    loop {
        tokio::select! {
            () = shared.wait_until_left() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let Some(at) = shared.last_participation.at().filter(|at| written != Some(*at)) else { continue };
        let path = shared.settings.directory.join(TOOK_PART);
        let write = move || replace_file(&RealDisk, &path, at.to_string().as_bytes());
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => written = Some(at),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the last time at which the node took part could not be kept on disk")
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The process ends.
            Err(_) => return,
        }
    }
}

/// Records that the cluster is active, as long as this node leads.
pub(crate) async fn record(shared: &MembershipShared, leadership: &Leadership) {
    loop {
        if let Err(error) = record_once(shared, leadership).await {
            tracing::debug!(%error, "recording activity");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn record_once(shared: &MembershipShared, leadership: &Leadership) -> Result<(), Error> {
    let key = shared.keys.activity();
    let entry = shared.coordination.get(&*key).await?;
    let known = entry.and_then(|entry| serde_json::from_slice::<ActivityRecord>(&entry.value).ok());
    let mut record = known.unwrap_or_default();
    record.extend(SystemClock.now_us());
    let value = serde_json::to_vec(&record).expect("lists of numbers always have a JSON form");
    let guard: KeyCondition = leadership.guard();
    shared.coordination.transact(Transaction::new().when(guard).then(KeyOperation::put(key, value))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000_000;

    #[test]
    fn spans_grow_and_their_number_is_bounded() {
        let mut record = ActivityRecord::default();
        (0..100).for_each(|minute| record.extend(DAY + minute * 60_000_000));
        assert_eq!(record, ActivityRecord(vec![(DAY, DAY + 99 * 60_000_000)]));
        (2..200).for_each(|day| record.extend(day * DAY));
        assert_eq!((record.0.len(), record.0[0].0, record.0[63]), (SPANS_MAX, DAY, (199 * DAY, 199 * DAY)));
        // A clock that went back adds nothing.
        record.extend(5);
        assert_eq!(record.0[63], (199 * DAY, 199 * DAY));
    }

    #[test]
    fn activity_counts_only_where_it_was_missed() {
        let record = ActivityRecord(vec![(DAY, 20 * DAY), (40 * DAY, 41 * DAY)]);
        assert!(record.is_active_between(10 * DAY, 12 * DAY));
        assert!(record.is_active_between(19 * DAY, 30 * DAY));
        assert!(!record.is_active_between(20 * DAY, 39 * DAY));
        assert!(!record.is_active_between(20 * DAY, 40 * DAY));
        assert!(!record.is_active_between(12 * DAY, 11 * DAY));
    }
}
