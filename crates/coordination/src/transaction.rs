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
pub struct Revision(pub u64);

/// Identifier of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Arc<[u8]>,
    /// Revision at which the key was created; a new one if it is put again after a deletion.
    pub created: Revision,
    /// Revision at which it was last put.
    pub changed: Revision,
    /// Lease that it is bound to.
    pub lease: Option<LeaseId>,
}

/// Change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key was put, with this entry.
    Put(Entry),
    /// The key was deleted.
    Deleted {
        /// The key.
        key: String,
        /// Revision of the deletion.
        at: Revision,
    },
}

impl Change {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match self {
            Change::Put(entry) => &entry.key,
            Change::Deleted { key, .. } => key,
        }
    }

    /// Revision of the change.
    pub fn at(&self) -> Revision {
        match self {
            Change::Put(entry) => entry.changed,
            Change::Deleted { at, .. } => *at,
        }
    }
}

/// Condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key does not exist.
    Absent(String),
    /// The key was last put at this revision.
    Changed(String, Revision),
    /// The key was created at this revision, and has existed since.
    Created(String, Revision),
}

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get(String),
    /// Reads all keys that begin with this prefix, in order.
    List(String),
    /// Like [`Operation::List`], with empty values.
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

impl Operation {
    /// Creates an [`Operation::Get`].
    pub fn get(key: impl Into<String>) -> Self {
        Operation::Get(key.into())
    }

    /// Creates an [`Operation::Put`] without a lease.
    pub fn put(key: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        Operation::Put { key: key.into(), value: value.as_ref().into(), lease: None }
    }

    /// Creates an [`Operation::Put`] that is bound to a lease.
    pub fn put_leased(key: impl Into<String>, value: impl AsRef<[u8]>, lease: LeaseId) -> Self {
        Operation::Put { key: key.into(), value: value.as_ref().into(), lease: Some(lease) }
    }

    /// True if it changes anything.
    pub fn writes(&self) -> bool {
        matches!(self, Operation::Put { .. } | Operation::Delete(_) | Operation::DeletePrefix(_))
    }
}

/// Atomic sequence of operations: one list if all conditions hold, the other if not. All clients see
/// transactions in the same order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Conditions that must all hold.
    pub conditions: Vec<Condition>,
    /// Operations if all conditions hold.
    pub then: Vec<Operation>,
    /// Operations otherwise.
    pub otherwise: Vec<Operation>,
}

impl Transaction {
    /// Creates an empty transaction.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds an operation for the case that the conditions hold.
    #[must_use]
    pub fn then(mut self, operation: Operation) -> Self {
        self.then.push(operation);
        self
    }

    /// Adds an operation for the case that they do not.
    #[must_use]
    pub fn otherwise(mut self, operation: Operation) -> Self {
        self.otherwise.push(operation);
        self
    }

    /// True if it may change anything.
    pub fn writes(&self) -> bool {
        self.then.iter().chain(&self.otherwise).any(Operation::writes)
    }

    /// Refuses transactions that no implementation accepts.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for operations in [&self.then, &self.otherwise] {
            let mut written = BTreeSet::new();
            for operation in operations {
                match operation {
                    Operation::Put { value, .. } if value.len() > VALUE_BYTES_MAX => {
                        let (length, max) = (value.len(), VALUE_BYTES_MAX);
                        return Err(Error::Refused(format!(
                            "a value of {length} bytes is longer than {max}"
                        )));
                    }
                    Operation::Put { key, .. } if !written.insert(key) => {
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
pub struct Outcome {
    /// True if the conditions held.
    pub held: bool,
    /// Revision of its execution; reads are as of this revision.
    pub revision: Revision,
    /// Entries found by each executed operation: empty for writes.
    pub found: Vec<Vec<Entry>>,
}

impl Outcome {
    /// Entries found by one of the operations.
    pub fn entries(&self, operation: usize) -> &[Entry] {
        self.found.get(operation).map_or(&[], Vec::as_slice)
    }
}
