//! A change of several entries of the catalog: all of them are written, or none.
//!
//! The store of a node that runs alone has batches for this. Between the nodes of a cluster, each document is
//! written by itself. There, the whole change is written first, as an entry of its own. From then on it is
//! made: what breaks off is completed before the next change, or by the node that reads the catalog next.

use std::sync::Arc;

use millrace_node::Node;

use crate::Error;
use crate::storage::{self, StorageGroup};

/// Name of the entry.
pub(super) const PENDING: &str = "pending_change";

/// Bytes that the entry may have: less than nodes send each other of a document.
const BYTES_MAX: usize = 16 << 20;

/// Name and text of an entry; `None`: it is removed.
pub(crate) type EntryWrite = (String, Option<String>);

/// Change that was begun, and may not be in all entries yet.
#[derive(Debug, Default)]
pub(super) enum PendingChange {
    /// All changes are complete, and no entry can be there.
    #[default]
    Nothing,
    /// The change is complete, or was not made. Its entry is to be removed, if it is there or may still come.
    Obsolete,
    /// The change is made. Its writes are to be done, once more perhaps.
    Made(Vec<EntryWrite>),
}

impl PendingChange {
    /// Parses the entry.
    pub(super) fn of(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(PendingChange::Made)
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, PendingChange::Nothing)
    }

    /// Makes a change durable. There is no other one.
    ///
    /// # Errors
    /// It was not made, or this is not known. In a cluster, it may be too large.
    pub(super) fn make(&mut self, node: &Arc<Node>, writes: Vec<EntryWrite>) -> Result<(), Error> {
        match writes.as_slice() {
            [] => Ok(()),
            [(name, text)] => {
                self.complete(node)?;
                storage::put(node, StorageGroup::CATALOG, name, text.as_deref())
            }
            _ if node.cluster().is_alone() => storage::put_all(node, StorageGroup::CATALOG, &writes),
            _ => {
                let text = serde_json::to_string(&writes).expect("names and texts are JSON");
                if text.len() > BYTES_MAX {
                    return Err(Error::IllegalArgument(format!(
                        "the change takes {} bytes of the catalog, and may take {BYTES_MAX}: name fewer indexes in a \
                         request",
                        text.len()
                    )));
                }
                // After an error, a later load must not find it.
                *self = PendingChange::Obsolete;
                storage::put(node, StorageGroup::CATALOG, PENDING, Some(&text))?;
                *self = PendingChange::Made(writes);
                if let Err(error) = self.complete(node) {
                    tracing::debug!(%error, "a change of the catalog is completed before the next one");
                }
                Ok(())
            }
        }
    }

    /// Completes a change that was begun.
    ///
    /// # Errors
    /// Its entries cannot be written now.
    pub(super) fn complete(&mut self, node: &Arc<Node>) -> Result<(), Error> {
        if let PendingChange::Made(writes) = self {
            storage::put_all(node, StorageGroup::CATALOG, writes)?;
            *self = PendingChange::Obsolete;
        }
        if !self.is_nothing() {
            storage::put(node, StorageGroup::CATALOG, PENDING, None)?;
            *self = PendingChange::Nothing;
        }
        Ok(())
    }
}
