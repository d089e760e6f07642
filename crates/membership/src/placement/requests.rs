//! Requests of operators on their way to the leader: keys of coordination, which the leader replaces by its
//! answers.
//!
//! A request is bound to a lease of the node that was asked, so that it is gone if that node is. The leader
//! answers in the transaction that writes the table: a request is carried out once, or not at all.

use std::time::Duration;

use millrace_coordination::{KeyEntry, KeyOperation, LeaseKeeper, StoreRevision};
use millrace_index_placement::{PlacementAnswer, PlacementRequest};
use serde::{Deserialize, Serialize};

use crate::kept::random;
use crate::{ClusterMembership, Error};

/// Requests that may wait at the same time.
const REQUESTS_MAX: usize = 64;

/// Time for which the lease of a request outlives the wait for its answer.
const MARGIN: Duration = Duration::from_secs(5);

/// Value of the key of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PlacementRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<PlacementAnswer>,
}

/// A request, as coordination holds it.
#[derive(Debug, Clone)]
pub(crate) struct PlacementRequestEntry {
    /// The request; `None`: a program of another version has written it, and it cannot be read.
    pub(super) request: Option<PlacementRequest>,
    pub(super) answer: Option<PlacementAnswer>,
    pub(super) changed: StoreRevision,
}

impl PlacementRequestEntry {
    pub(crate) fn read(entry: &KeyEntry) -> Self {
        let record: Option<RequestRecord> = serde_json::from_slice(&entry.value).ok();
        let (request, answer) = record.map_or((None, None), |record| (record.request, record.answer));
        PlacementRequestEntry { request, answer, changed: entry.changed }
    }
}

impl RequestRecord {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts always have a JSON form")
    }
}

impl ClusterMembership {
    /// Passes a request about placed indexes to the leader, and waits for its answer.
    ///
    /// # Errors
    /// [`Error::Unanswered`]: it was withdrawn; [`Error::AnswerUnknown`]; [`Error::RequestsFull`];
    /// coordination cannot be reached, and nothing was requested.
    pub async fn ask_leader(
        &self,
        request: PlacementRequest,
        timeout: Duration,
    ) -> Result<PlacementAnswer, Error> {
        let shared = self.shared();
        let mut snapshots = self.snapshots();
        let is_open = |entry: &&PlacementRequestEntry| entry.answer.is_none();
        let waiting = snapshots.borrow().placement_requests.values().filter(is_open).count();
        if waiting >= REQUESTS_MAX {
            return Err(Error::RequestsFull(waiting));
        }
        let lasts = Duration::from_secs(timeout.as_secs() + 1) + MARGIN;
        let lease = LeaseKeeper::grant(shared.coordination.clone(), lasts).await?;
        let id = format!("{:016x}", random());
        let key = shared.keys.placement_request(&id);
        let value = RequestRecord { request: Some(request), answer: None }.to_json();
        let put = shared.coordination.apply(KeyOperation::put_leased(&*key, value, lease.id())).await;
        if let Err(error) = put {
            // It may have been written all the same.
            let _ = lease.release().await;
            return Err(Error::AnswerUnknown { reason: error.to_string() });
        }
        let answer = |entry: Option<&PlacementRequestEntry>| entry.and_then(|entry| entry.answer.clone());
        let answered = snapshots.wait_for(|snapshot| answer(snapshot.placement_requests.get(&id)).is_some());
        let answered = match tokio::time::timeout(timeout, answered).await {
            Ok(Ok(snapshot)) => answer(snapshot.placement_requests.get(&id)),
            _ => None,
        };
        // An answer is not bound to the lease, so that this withdraws a request without one only.
        let withdrawn = lease.release().await;
        if let Some(answer) = answered {
            // The leader deletes it after a while if this fails.
            let _ = shared.coordination.apply(KeyOperation::Delete(key)).await;
            return Ok(answer);
        }
        withdrawn.map_err(|error| Error::AnswerUnknown { reason: error.to_string() })?;
        let there = shared.coordination.get(&*key).await;
        let there = there.map_err(|error| Error::AnswerUnknown { reason: error.to_string() })?;
        if let Some(answer) = answer(there.as_ref().map(PlacementRequestEntry::read).as_ref()) {
            let _ = shared.coordination.apply(KeyOperation::Delete(key)).await;
            return Ok(answer);
        }
        let seconds = timeout.as_secs_f64();
        let leader = match &snapshots.borrow().leader {
            Some(leader) => format!("the leader, {leader}, has not answered within {seconds} s"),
            None => format!("the cluster has had no leader for {seconds} s"),
        };
        Err(Error::Unanswered { leader })
    }
}
