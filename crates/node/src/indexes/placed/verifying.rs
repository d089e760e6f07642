//! Verification of the copies of a node, one after another: each is compared with the documents at their
//! owners once in an interval, slowly, and looks up again what differs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::ClusterState;
use millrace_env::unix_time;
use millrace_index_placement::{CopyId, PlacedCopy, PlacedCopyState, SliceId};
use serde::{Deserialize, Serialize};

use super::kept::StoredCopy;
use super::service::{PlacedService, now};
use super::verify::{ComparedPart, ComparedSlice, DocumentSource};
use crate::Error;

/// Time after which a copy is tried again that could not be compared.
const AGAIN: Duration = Duration::from_secs(60);

/// Length of a rest, in lengths of the work before it.
const RESTS: u32 = 9;

/// Shortest rest after a page.
const REST_MIN: Duration = Duration::from_millis(10);

/// Longest rest.
const REST_MAX: Duration = Duration::from_secs(10);

/// Verification of a copy, as it is kept with the marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct CopyVerification {
    /// End of the last one, or the time at which the copy was made; in milliseconds since 1970.
    pub from_ms: u64,
    /// Documents that the last one has repaired; `None` before the first.
    pub repaired: Option<u64>,
    /// Time of an attempt that was not possible.
    #[serde(skip)]
    attempted: Option<Instant>,
}

/// A copy for whose verification it is time.
pub(super) struct DueVerification {
    pub copy: CopyId,
    pub slice: SliceId,
    pub kept: Arc<StoredCopy>,
}

impl CopyVerification {
    /// Verification of a copy that is new.
    pub fn of_new() -> Self {
        CopyVerification { from_ms: now_ms(), ..CopyVerification::default() }
    }

    /// True if it is time for the next one.
    pub fn is_due(&self, interval: Duration) -> bool {
        Duration::from_millis(now_ms().saturating_sub(self.from_ms)) >= interval
            && self.attempted.is_none_or(|at| at.elapsed() >= AGAIN)
    }
}

fn now_ms() -> u64 {
    unix_time().as_millis() as u64
}

impl PlacedService {
    /// Begins the verification of a copy for which it is time, unless one is in progress.
    pub fn verify_due(self: &Arc<Self>) {
        let Some(interval) = self.settings().verify_interval() else { return };
        let Ok(turn) = Arc::clone(&self.verifying).try_lock_owned() else { return };
        let Some(due) = self.copies.lock().due_verification(interval) else { return };
        let service = Arc::clone(self);
        self.runtime.spawn(async move {
            let compared = service.verify_copy(&due).await;
            service.verified(&due, compared);
            drop(turn);
        });
    }

    /// Takes the outcome of a verification in.
    fn verified(&self, due: &DueVerification, compared: Result<u64, Error>) {
        let mut verification = due.kept.verification.lock();
        match compared {
            Ok(repaired) => {
                if repaired > 0 {
                    let copy = due.copy.0;
                    tracing::warn!(copy, repaired, "a copy of an index differed from its documents");
                }
                self.repaired.fetch_add(repaired, Ordering::Relaxed);
                *verification = CopyVerification { repaired: Some(repaired), ..CopyVerification::of_new() };
            }
            Err(error) => {
                tracing::info!(%error, copy = due.copy.0, "a copy of an index is verified later");
                verification.attempted = Some(Instant::now());
            }
        }
    }

    /// Compares a copy with all documents of its slice. Returns the number of documents that differed; they
    /// are looked up.
    async fn verify_copy(self: &Arc<Self>, due: &DueVerification) -> Result<u64, Error> {
        let definition = &due.kept.definition;
        let slice = ComparedSlice { id: due.slice, bucket: definition.slice, copies: Vec::new() };
        let state = self.known_state()?;
        let of_slice = |bucket: &BucketId| slice.bucket.covers(*bucket) || bucket.covers(slice.bucket);
        let buckets: Vec<BucketId> = state.buckets().filter(of_slice).collect();
        let mut repaired = 0;
        for bucket in buckets {
            let mut after = None;
            loop {
                let began = Instant::now();
                let (differing, until) = self.verify_page(due, &slice, bucket, after.take()).await?;
                repaired += differing;
                if self.is_stopped() {
                    return Err(Error::Unsettled("this node is being stopped".to_owned()));
                }
                tokio::time::sleep((began.elapsed() * RESTS).clamp(REST_MIN, REST_MAX)).await;
                after = until;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(repaired)
    }

    /// Compares a page of a bucket. Returns the number of documents that differed, and the end of the page.
    async fn verify_page(
        self: &Arc<Self>,
        due: &DueVerification,
        slice: &ComparedSlice,
        bucket: BucketId,
        after: Option<Vec<u8>>,
    ) -> Result<(u64, Option<Vec<u8>>), Error> {
        let state = self.known_state()?;
        let gone = || Error::Unsettled(format!("bucket {bucket} has no owner now"));
        let owner = state.owner(bucket).filter(|_| state.has_bucket(bucket)).ok_or_else(gone)?;
        let source = DocumentSource::Owner { node: owner, definition: due.kept.definition.definition };
        let inside = |other: &BucketId| *other != bucket && bucket.covers(*other);
        let excluded: Vec<BucketId> = state.buckets().filter(inside).collect();
        let mut part = ComparedPart { bucket, excluded, after, until: None };
        let copy = PlacedCopy { id: due.copy, node: self.cluster.own(), state: PlacedCopyState::Ready };
        let expected = self.documents(&source, &mut part).await?;
        let (documents, _) = self.differing(&source, slice, &copy, &part, &expected).await?;
        let version = state.version();
        if self.known_state()?.version() != version {
            return Err(Error::Unsettled("the owners of documents have changed".to_owned()));
        }
        let differing = documents.len() as u64;
        if differing > 0 {
            let (id, version) = (due.copy, version.number());
            self.change(move |copies| copies.recheck(id, version, bucket, documents, now())).await;
        }
        Ok((differing, part.until))
    }

    fn known_state(&self) -> Result<Arc<ClusterState>, Error> {
        let unknown = || Error::Unsettled("this node does not know the state of the cluster yet".to_owned());
        self.cluster.state().ok_or_else(unknown)
    }
}
