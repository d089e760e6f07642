//! Notes: what the nodes of a cluster share besides, each under its name. What they say is known to those who write them.

use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::{Condition, Operation, Revision, Transaction};

use crate::{Error, Membership, Picture};

/// How long it may take until what was written is known here. It is written in any case.
const HEARD_MAX: Duration = Duration::from_secs(3);

/// A note, as this node has heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it says.
    pub value: Arc<[u8]>,
    /// When it was written last: tells one writing of it from the next.
    pub changed: u64,
}

impl Membership {
    /// Writes notes (`None` deletes one) if `guard` was last written then; `None`: if there is no such note. Answers whether it was so. Either way
    /// the notes in [`Membership::pictures`] are those after it, where coordination tells of them in time. At most 128 notes, of at most 1 MiB
    /// together.
    ///
    /// # Errors
    /// Coordination cannot be reached; the notes may have been written all the same.
    pub async fn note(
        &self,
        (guard, changed): (&str, Option<u64>),
        notes: &[(String, Option<Vec<u8>>)],
    ) -> Result<bool, Error> {
        let shared = self.shared();
        let key = shared.keys.note(guard);
        let unchanged = match changed {
            Some(at) => Condition::Changed(key.clone(), Revision(at)),
            None => Condition::Absent(key.clone()),
        };
        let write = notes.iter().fold(Transaction::new().when(unchanged), |write, (name, value)| {
            let key = shared.keys.note(name);
            write.then(match value {
                Some(value) => Operation::put(key, value),
                None => Operation::Delete(key),
            })
        });
        let outcome = shared.coordination.transact(write.otherwise(Operation::get(key))).await?;
        if outcome.held {
            self.heard(|picture| picture.revision >= outcome.revision).await;
        } else {
            let there = outcome.entries(0).first().map(|entry| entry.changed.0);
            self.heard(|picture| picture.notes.get(guard).map(|note| note.changed) == there).await;
        }
        Ok(outcome.held)
    }

    /// Waits until it is so, or for too long.
    async fn heard(&self, mut what: impl FnMut(&Picture) -> bool) {
        let mut pictures = self.pictures();
        // Who waits in vain goes on by what is known.
        let _ = tokio::time::timeout(HEARD_MAX, pictures.wait_for(|picture| what(picture))).await;
    }
}
