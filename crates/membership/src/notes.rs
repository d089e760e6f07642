//! Notes: named values that the nodes of a cluster share. Only their writers know their meaning.

use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::{KeyCondition, KeyOperation, StoreRevision, Transaction};

use crate::{ClusterMembership, CoordinationSnapshot, Error};

/// Maximum time to wait until a written note is known here. It is written in any case.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// A note, as received by this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNote {
    /// Content.
    pub value: Arc<[u8]>,
    /// Revision of the last write; distinguishes successive writes.
    pub changed: u64,
}

impl ClusterMembership {
    /// Writes notes (`None` deletes one) if `guard` was last written at revision `changed`, or does not exist
    /// if that is `None`. Returns true if the condition held. In either case the notes in
    /// [`ClusterMembership::snapshots`] are then at least as new, if coordination reports them in time. At
    /// most 128 notes, of at most 1 MiB together.
    ///
    /// # Errors
    /// Coordination cannot be reached; the notes may have been written nevertheless.
    pub async fn note(
        &self,
        guard: &str,
        changed: Option<u64>,
        notes: &[(String, Option<Vec<u8>>)],
    ) -> Result<bool, Error> {
        let shared = self.shared();
        let key = shared.keys.note(guard);
        let unchanged = match changed {
            Some(at) => KeyCondition::Changed(key.clone(), StoreRevision(at)),
            None => KeyCondition::Absent(key.clone()),
        };
        let write = notes.iter().fold(Transaction::new().when(unchanged), |write, (name, value)| {
            let key = shared.keys.note(name);
            write.then(match value {
                Some(value) => KeyOperation::put(key, value),
                None => KeyOperation::Delete(key),
            })
        });
        let outcome = shared.coordination.transact(write.otherwise(KeyOperation::get(key))).await?;
        if outcome.held {
            self.wait_until(|snapshot| snapshot.revision >= outcome.revision).await;
        } else {
            let there = outcome.entries(0).first().map(|entry| entry.changed.0);
            self.wait_until(|snapshot| snapshot.notes.get(guard).map(|note| note.changed) == there).await;
        }
        Ok(outcome.held)
    }

    /// Waits until the condition holds, or for the maximum time.
    async fn wait_until(&self, mut condition: impl FnMut(&CoordinationSnapshot) -> bool) {
        let mut snapshots = self.snapshots();
        // After a timeout the caller continues with the known notes.
        let _ = tokio::time::timeout(WAIT_MAX, snapshots.wait_for(|snapshot| condition(snapshot))).await;
    }
}
