//! Followers of a store: what a commit, a drop and a change of replicas changes is passed on before it is
//! acknowledged.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Timestamp};
use parking_lot::{RwLock, RwLockReadGuard};

use crate::Error;
use crate::read::rows::VisitedRow;
use crate::state::marks::{DropMark, MarkScope};
use crate::tail::{NewRow, RowBytes, RowKey, damaged_row, fields_of};

/// Receiver of the changes of a store, in the order of their commits.
///
/// It is called on threads that writers wait for, so it should only hand the changes on.
pub trait CommitFollower: Send + Sync {
    /// True if the follower needs the documents of this type.
    fn follows(&self, document_type: &str) -> bool;

    /// Learns of the lowest timestamp of the rows of a commit before they are appended. A commit may fail
    /// after this call.
    ///
    /// # Errors
    /// The follower cannot note durably that rows of that time come; the commit is then refused.
    fn appending(&self, oldest: Timestamp) -> Result<(), Error>;

    /// Receives rows that are durable and visible, before they are acknowledged.
    fn committed(&self, rows: Vec<CommittedRow>);

    /// Learns of a drop before it is made. A drop may fail after this call.
    ///
    /// # Errors
    /// The follower cannot note the drop durably; the drop is then refused.
    fn dropping(&self, scope: &DroppingScope) -> Result<(), Error>;

    /// Receives a drop that is durable and visible, before it is acknowledged.
    fn dropped(&self, scope: &DroppingScope, until: Timestamp);

    /// Learns that versions will enter or leave these buckets other than by commits and drops: segments
    /// arrive, or a replica is deleted. [`CommitFollower::changed`] follows in any case.
    ///
    /// # Errors
    /// The follower cannot note the buckets durably; the change is then refused, and no call follows.
    fn changing(&self, buckets: &[BucketId]) -> Result<(), Error>;

    /// Learns that a change of these buckets is durable and visible, or has failed.
    fn changed(&self, buckets: &[BucketId]);
}

/// Documents that a drop removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DroppingScope {
    /// Documents of a group, by [`millrace_document::DocumentGroup::key`].
    Group {
        /// Document type; `None` for all types.
        document_type: Option<String>,
        /// Key of the group.
        group: String,
        /// Part of a divided group; `None` for the whole group.
        part: Option<BucketId>,
    },
    /// All documents of a type.
    Type(String),
    /// All documents of a range of locations.
    Locations,
}

impl DroppingScope {
    pub(crate) fn of(scope: &MarkScope) -> Self {
        match scope {
            MarkScope::Group { document_type, group, part } => DroppingScope::Group {
                document_type: document_type.clone(),
                group: group.clone(),
                part: *part,
            },
            MarkScope::Type(name) => DroppingScope::Type(name.clone()),
            MarkScope::Locations(..) => DroppingScope::Locations,
        }
    }
}

/// A committed version of a document, encoded.
#[derive(Debug, Clone)]
pub struct CommittedRow {
    key: RowBytes,
    value: RowBytes,
}

impl CommittedRow {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// Document type, as the id names it.
    pub fn document_type(&self) -> &str {
        RowKey::parse(&self.key).map_or("", |key| key.document_type())
    }

    /// Sort key of the document, as bytes.
    pub fn sort_key(&self) -> &[u8] {
        RowKey::parse(&self.key).map_or(&[], |key| key.sort_key)
    }

    /// Time of the version.
    pub fn timestamp(&self) -> Timestamp {
        RowKey::parse(&self.key).map_or(Timestamp(0), |key| key.timestamp)
    }

    /// Returns what `read` makes of the version, where it lies.
    ///
    /// # Errors
    /// The row is not one that the store writes; that of `read`.
    pub fn read<T>(&self, read: impl FnOnce(&VisitedRow<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let key = RowKey::parse(&self.key)?;
        let group = DocumentGroup::from_key(key.group).ok_or_else(|| damaged_row(&"its group is not one"))?;
        read(&VisitedRow::committed(&key, &group, fields_of(&self.value)?))
    }
}

/// The follower of a store, if it has one.
#[derive(Default)]
pub(crate) struct FollowerSlot {
    slot: RwLock<Option<Arc<dyn CommitFollower>>>,
}

impl FollowerSlot {
    /// Holds the slot while a commit is made: a follower that is set afterwards gets none of its rows, and
    /// all of later commits.
    pub fn hold(&self) -> HeldFollower<'_> {
        // A commit has the gate of its generation and waits for the slot; a drop has the slot and waits for
        // the gate. So neither may wait behind a follower that is being set and waits for the other.
        HeldFollower(self.slot.read_recursive())
    }

    /// Sets the follower, and returns the result of `then`, which runs while no commit is in flight.
    pub fn set<T>(&self, follower: Option<Arc<dyn CommitFollower>>, then: impl FnOnce() -> T) -> T {
        let mut slot = self.slot.write();
        *slot = follower;
        then()
    }
}

/// The follower during one commit or drop.
pub(crate) struct HeldFollower<'a>(RwLockReadGuard<'a, Option<Arc<dyn CommitFollower>>>);

impl HeldFollower<'_> {
    /// The rows that the follower needs, which share the memory of these.
    pub fn wanted(&self, rows: &[NewRow]) -> Vec<CommittedRow> {
        let Some(follower) = &*self.0 else { return Vec::new() };
        let is_wanted =
            |key: &[u8]| RowKey::parse(key).is_ok_and(|key| follower.follows(key.document_type()));
        let wanted = rows.iter().filter(|(key, _)| is_wanted(key));
        wanted.map(|(key, value)| CommittedRow { key: key.clone(), value: value.clone() }).collect()
    }

    /// Announces rows that the follower needs.
    pub fn appending(&self, rows: &[CommittedRow]) -> Result<(), Error> {
        let oldest = rows.iter().map(CommittedRow::timestamp).min();
        match (self.0.as_ref(), oldest) {
            (Some(follower), Some(oldest)) => follower.appending(oldest),
            _ => Ok(()),
        }
    }

    /// Announces a change of these buckets, which ends when the returned value is dropped.
    pub fn changing<'c>(&'c self, buckets: &'c [BucketId]) -> Result<BucketsInChange<'c>, Error> {
        let follower = self.0.as_deref().filter(|_| !buckets.is_empty());
        if let Some(follower) = follower {
            follower.changing(buckets)?;
        }
        Ok(BucketsInChange { follower, buckets })
    }

    /// Passes rows on.
    pub fn committed(&self, rows: Vec<CommittedRow>) {
        if let Some(follower) = self.0.as_ref().filter(|_| !rows.is_empty()) {
            follower.committed(rows);
        }
    }

    /// Announces a drop.
    pub fn dropping(&self, scope: &MarkScope) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |follower| follower.dropping(&DroppingScope::of(scope)))
    }

    /// Passes a drop on.
    pub fn dropped(&self, mark: &DropMark) {
        if let Some(follower) = &*self.0 {
            follower.dropped(&DroppingScope::of(&mark.scope), Timestamp(mark.timestamp));
        }
    }
}

/// A change of buckets that was announced.
pub(crate) struct BucketsInChange<'c> {
    follower: Option<&'c dyn CommitFollower>,
    buckets: &'c [BucketId],
}

impl Drop for BucketsInChange<'_> {
    fn drop(&mut self) {
        if let Some(follower) = self.follower {
            follower.changed(self.buckets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test does not end if the second holder waits.
    #[test]
    fn a_follower_that_is_being_set_lets_a_second_holder_pass() {
        let slot = FollowerSlot::default();
        std::thread::scope(|threads| {
            let first = slot.hold();
            threads.spawn(|| slot.set(None, || ()));
            while slot.slot.try_read().is_some() {
                std::thread::yield_now();
            }
            drop(slot.hold());
            drop(first);
        });
    }
}
