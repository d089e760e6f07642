use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest value in bytes. (etcd takes requests up to 1.5 MiB.)
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The most conditions, and the most operations on either side, of one transaction.
pub const OPERATIONS_MAX: usize = 128;

/// A moment in the life of the store: one more with every transaction that changes something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// Names a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// A key and what is under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Arc<[u8]>,
    /// When the key came to be; another one when it is put again after it was deleted.
    pub created: Revision,
    /// When it was last put.
    pub changed: Revision,
    /// The lease that it ends with.
    pub lease: Option<LeaseId>,
}

/// What happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Put(Entry),
    /// It is gone.
    Deleted {
        /// The key.
        key: String,
        /// Since when.
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

    /// When it changed.
    pub fn at(&self) -> Revision {
        match self {
            Change::Put(entry) => entry.changed,
            Change::Deleted { at, .. } => *at,
        }
    }
}

/// What must be so for a transaction to do one thing rather than the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is no such key.
    Absent(String),
    /// The key was last put then.
    Changed(String, Revision),
    /// The key came to be then, and has been there since.
    Created(String, Revision),
}

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get(String),
    /// Reads all keys that begin so, in their order.
    List(String),
    /// As [`Operation::List`], with empty values.
    Keys(String),
    /// Writes a key, bound to a lease or to none.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Arc<[u8]>,
        /// The lease that it ends with.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it is there.
    Delete(String),
    /// Deletes all keys that begin so.
    DeletePrefix(String),
}

impl Operation {
    /// [`Operation::Get`].
    pub fn get(key: impl Into<String>) -> Self {
        Operation::Get(key.into())
    }

    /// [`Operation::Put`] without a lease.
    pub fn put(key: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        Operation::Put { key: key.into(), value: value.as_ref().into(), lease: None }
    }

    /// [`Operation::Put`], bound to a lease.
    pub fn put_leased(key: impl Into<String>, value: impl AsRef<[u8]>, lease: LeaseId) -> Self {
        Operation::Put { key: key.into(), value: value.as_ref().into(), lease: Some(lease) }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        matches!(self, Operation::Put { .. } | Operation::Delete(_) | Operation::DeletePrefix(_))
    }
}

/// Some operations if all conditions hold, others if not; all at one moment, seen by everyone in the same order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What is done if all of it holds.
    pub then: Vec<Operation>,
    /// What is done if not.
    pub otherwise: Vec<Operation>,
}

impl Transaction {
    /// One that does nothing.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// With one more condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// With one more operation for the case that the conditions hold.
    #[must_use]
    pub fn then(mut self, operation: Operation) -> Self {
        self.then.push(operation);
        self
    }

    /// With one more operation for the case that they do not.
    #[must_use]
    pub fn otherwise(mut self, operation: Operation) -> Self {
        self.otherwise.push(operation);
        self
    }

    /// Whether it may change anything.
    pub fn writes(&self) -> bool {
        self.then.iter().chain(&self.otherwise).any(Operation::writes)
    }

    /// Refuses what no implementation takes.
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

/// What came of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the conditions held.
    pub held: bool,
    /// The moment it was done at; what it read is as of then.
    pub revision: Revision,
    /// What each operation that was done found: nothing for those that write.
    pub found: Vec<Vec<Entry>>,
}

impl Outcome {
    /// What one of the operations found.
    pub fn entries(&self, operation: usize) -> &[Entry] {
        self.found.get(operation).map_or(&[], Vec::as_slice)
    }
}
