use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Maximum length of a value in bytes. (etcd accepts requests up to 1.5 MiB.)
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of conditions, and of operations on either side, of one transaction.
pub const OPERATIONS_MAX: usize = 128;

/// Revision of the store: incremented by every transaction that changes something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreRevision(pub u64);

/// Identifier of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Arc<[u8]>,
    /// Revision at which the key was created; a new one if it is put again after a deletion.
    pub created: StoreRevision,
    /// Revision at which it was last put.
    pub changed: StoreRevision,
    /// Lease that it is bound to.
    pub lease: Option<LeaseId>,
}

/// Change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// The key was put, with this entry.
    Put(KeyEntry),
    /// The key was deleted.
    Deleted {
        /// The key.
        key: String,
        /// Revision of the deletion.
        at: StoreRevision,
    },
}

impl KeyChange {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match self {
            KeyChange::Put(entry) => &entry.key,
            KeyChange::Deleted { key, .. } => key,
        }
    }

    /// Revision of the change.
    pub fn at(&self) -> StoreRevision {
        match self {
            KeyChange::Put(entry) => entry.changed,
            KeyChange::Deleted { at, .. } => *at,
        }
    }
}

/// Condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCondition {
    /// The key does not exist.
    Absent(String),
    /// The key was last put at this revision.
    Changed(String, StoreRevision),
    /// The key was created at this revision, and has existed since.
    Created(String, StoreRevision),
}

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOperation {
    /// Reads a key.
    Get(String),
    /// Reads all keys that begin with this prefix, in order.
    List(String),
    /// Like [`KeyOperation::List`], with empty values.
    Keys(String),
    /// Writes a key, optionally bound to a lease.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Arc<[u8]>,
        /// Lease that it is bound to.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it exists.
    Delete(String),
    /// Deletes all keys that begin with this prefix.
    DeletePrefix(String),
}

impl KeyOperation {
    /// Creates a [`KeyOperation::Get`].
    pub fn get(key: impl Into<String>) -> Self {
        KeyOperation::Get(key.into())
    }

    /// Creates a [`KeyOperation::Put`] without a lease.
    pub fn put(key: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        KeyOperation::Put { key: key.into(), value: value.as_ref().into(), lease: None }
    }

    /// Creates a [`KeyOperation::Put`] that is bound to a lease.
    pub fn put_leased(key: impl Into<String>, value: impl AsRef<[u8]>, lease: LeaseId) -> Self {
        KeyOperation::Put { key: key.into(), value: value.as_ref().into(), lease: Some(lease) }
    }

    /// True if it changes anything.
    pub fn writes(&self) -> bool {
        matches!(self, KeyOperation::Put { .. } | KeyOperation::Delete(_) | KeyOperation::DeletePrefix(_))
    }
}

/// Atomic sequence of operations: one list if all conditions hold, the other if not. All clients see
/// transactions in the same order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Conditions that must all hold.
    pub conditions: Vec<KeyCondition>,
    /// Operations if all conditions hold.
    pub then: Vec<KeyOperation>,
    /// Operations otherwise.
    pub otherwise: Vec<KeyOperation>,
}

impl Transaction {
    /// Creates an empty transaction.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: KeyCondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds an operation for the case that the conditions hold.
    #[must_use]
    pub fn then(mut self, operation: KeyOperation) -> Self {
        self.then.push(operation);
        self
    }

    /// Adds an operation for the case that they do not.
    #[must_use]
    pub fn otherwise(mut self, operation: KeyOperation) -> Self {
        self.otherwise.push(operation);
        self
    }

    /// True if it may change anything.
    pub fn writes(&self) -> bool {
        self.then.iter().chain(&self.otherwise).any(KeyOperation::writes)
    }

    /// Refuses transactions that no implementation accepts.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for operations in [&self.then, &self.otherwise] {
            let mut written = BTreeSet::new();
            for operation in operations {
                match operation {
                    KeyOperation::Put { value, .. } if value.len() > VALUE_BYTES_MAX => {
                        let (length, max) = (value.len(), VALUE_BYTES_MAX);
                        return Err(Error::Refused(format!(
                            "a value of {length} bytes is longer than {max}"
                        )));
                    }
                    KeyOperation::Put { key, .. } if !written.insert(key) => {
                        return Err(Error::Refused(format!("one transaction puts '{key}' twice")));
                    }
                    _ => {}
                }
            }
        }
        let longest = self.conditions.len().max(self.then.len()).max(self.otherwise.len());
        if longest > OPERATIONS_MAX {
            return Err(Error::Refused(format!(
                "{longest} steps are more than the {OPERATIONS_MAX} of one transaction"
            )));
        }
        Ok(())
    }
}

/// Outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOutcome {
    /// True if the conditions held.
    pub held: bool,
    /// Revision of its execution; reads are as of this revision.
    pub revision: StoreRevision,
    /// Entries found by each executed operation: empty for writes.
    pub found: Vec<Vec<KeyEntry>>,
}

impl TransactionOutcome {
    /// Entries found by one of the operations.
    pub fn entries(&self, operation: usize) -> &[KeyEntry] {
        self.found.get(operation).map_or(&[], Vec::as_slice)
    }
}
