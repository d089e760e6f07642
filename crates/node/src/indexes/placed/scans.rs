//! Entries of a copy for a query of another node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_index_feed::CopyFreshness;
use millrace_index_placement::{CopyId, SliceId};
use millrace_keys::KeyRange;

use super::copies::NodeCopies;
use super::message::{CopyScan, CopyScanned};
use super::service::{PlacedService, now};
use crate::Error;

/// Maximum number of entries of a page.
const PAGE_MAX: u64 = 131_072;

/// Time after which the owners are asked for their positions again.
const RETRY: Duration = Duration::from_millis(500);

/// Pause before that.
const PAUSE: Duration = Duration::from_millis(10);

impl PlacedService {
    /// Entries of a copy, with every write that was acknowledged before the call, if that is asked for.
    ///
    /// # Errors
    /// The node does not have the copy, or it does not have all of that in time, or lags by more than the
    /// settings accept; a file cannot be read.
    pub async fn scan(self: &Arc<Self>, scan: CopyScan) -> Result<CopyScanned, Error> {
        let began = Instant::now();
        let scanned = self.scan_in_time(scan).await;
        self.scans.record(began.elapsed());
        let is_behind = match &scanned {
            Ok(scanned) => !scanned.missing.is_empty(),
            Err(error) => matches!(error, Error::IndexNotReady(_)),
        };
        if is_behind {
            self.scans_behind.fetch_add(1, Ordering::Relaxed);
        }
        scanned
    }

    async fn scan_in_time(self: &Arc<Self>, scan: CopyScan) -> Result<CopyScanned, Error> {
        let missing = || Error::Unsettled(format!("copy {} of {} is not here", scan.copy.0, scan.slice));
        let (copy, slice) = (scan.copy, scan.slice);
        let found = self.look(move |copies| copies.readable(copy, slice)).await?.ok_or_else(missing)?;
        let (version, missing) = match scan.timeout_ms {
            Some(timeout) => {
                let deadline = Instant::now() + Duration::from_millis(timeout);
                self.wait_until_fresh(copy, slice, deadline).await?
            }
            None => {
                self.look(move |copies| copies.check_lag(copy, now())).await??;
                (0, BTreeSet::new())
            }
        };
        let missing: Vec<BucketId> = missing.into_iter().collect();
        let service = Arc::clone(self);
        let read = move || {
            let ranges = scan.ranges.into_iter().map(|(low, high)| KeyRange { low, high });
            let ranges: Vec<KeyRange> = ranges.collect();
            let (index, limit) = (&found.kept.copy, scan.limit.min(PAGE_MAX));
            if scan.count {
                let count = index.count(&ranges, scan.limit, &|_| true)?;
                return Ok(CopyScanned { version, count, missing, ..CopyScanned::default() });
            }
            // At most the length of a page.
            let page = index.scan(&ranges, scan.from.as_deref(), limit as usize)?;
            let entries = page.entries.iter();
            let entries: Vec<_> =
                entries.map(|entry| (entry.key.to_vec(), entry.document.to_vec(), entry.timestamp)).collect();
            let count = entries.len() as u64;
            Ok::<_, millrace_index::Error>(CopyScanned {
                version,
                entries,
                count,
                continuation: page.continuation,
                missing,
            })
        };
        let read =
            tokio::task::spawn_blocking(move || read().inspect_err(|error| service.failed(copy, error)));
        Ok(read.await.map_err(|error| Error::Internal(error.to_string()))??)
    }

    /// Waits until the copy has everything that was acknowledged before the call. Returns the version of the
    /// cluster state by which it has, and the buckets of which it does not: those of which the owner itself
    /// lacks something, and those that have not come in time.
    pub async fn wait_until_fresh(
        self: &Arc<Self>,
        copy: CopyId,
        slice: SliceId,
        deadline: Instant,
    ) -> Result<(u64, BTreeSet<BucketId>), Error> {
        let behind = || Error::IndexNotReady(format!("copy {} of an index is behind", copy.0));
        let mut applied = self.applied.subscribe();
        // What the last comparison has shown.
        let mut last = None;
        loop {
            let version = self.adopt_state().await?;
            let found = self.look(move |copies| copies.readable(copy, slice)).await?;
            let owners = found.ok_or_else(behind)?.owners;
            let requested = self.positions(owners);
            let Ok(positions) = tokio::time::timeout_at(deadline.into(), requested).await else { break };
            let positions = Arc::new(positions);
            let incomplete: BTreeSet<BucketId> =
                positions.values().flat_map(|position| &position.incomplete).copied().collect();
            // Positions by another state say nothing about the copy.
            while positions.values().all(|position| position.version == version) {
                applied.borrow_and_update();
                let compared = Arc::clone(&positions);
                let compare =
                    move |copies: &NodeCopies| (copies.freshness(copy, version, &compared), copies.version());
                let (freshness, present) = self.look(compare).await?;
                match freshness {
                    CopyFreshness::Fresh => return Ok((version, BTreeSet::new())),
                    CopyFreshness::Missing(missing) if missing.is_subset(&incomplete) => {
                        return Ok((version, missing));
                    }
                    CopyFreshness::Missing(missing) => last = Some((version, missing)),
                    CopyFreshness::NotReady => {}
                }
                if present != version || Instant::now() >= deadline {
                    break;
                }
                // Sessions begin again without a change of the copy: the positions are asked for again then.
                let until = deadline.min(Instant::now() + RETRY);
                if tokio::time::timeout_at(until.into(), applied.changed()).await.is_err() {
                    break;
                }
            }
            if Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        last.ok_or_else(behind)
    }

    /// Lets the copies act by the newest state. Returns its version.
    async fn adopt_state(self: &Arc<Self>) -> Result<u64, Error> {
        let state = self.cluster.state();
        let known = self.look(NodeCopies::version).await?;
        if let Some(state) = state.filter(|state| state.version().number() > known) {
            self.change(move |copies| copies.adopt_state(&state, now())).await;
        }
        self.look(NodeCopies::version).await
    }
}
