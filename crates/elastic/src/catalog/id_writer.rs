//! The node that writes documents with ids of clients to partitions, as the catalog has it.
//!
//! A client that hears nothing sends a bulk again, and the catalog may have another owner meanwhile. That
//! one does not know which ids are on their way ([`ArrivingIds`]). It finds in the catalog that another node
//! wrote last, and takes writes of that node for possible until none can arrive any more.

use millrace_node::cluster::OwnRun;
use serde_json::json;

use super::{CatalogChange, IndexCatalog};
use crate::Error;
use crate::partitions::ArrivingIds;
use crate::storage::{self, StorageGroup};

/// Name of the entry.
pub(super) const ID_WRITER: &str = "id_writer";

/// The node that wrote last.
#[derive(Debug, Clone, Default)]
pub(super) struct IdWriterEntry {
    /// Node, and run of its process, as text; `None` if none has written.
    last: Option<String>,
    /// True once it is known to be this one.
    is_here: bool,
}

impl IdWriterEntry {
    /// The entry as it is kept.
    pub(super) fn of(text: &str) -> Self {
        IdWriterEntry { last: Some(text.to_owned()), is_here: false }
    }
}

impl IndexCatalog {
    /// Notes that this node writes documents with ids of clients to partitions, before it does. If another
    /// node has, its writes may still be on their way.
    ///
    /// # Errors
    /// The catalog cannot be read or written.
    pub(crate) fn claim_ids(&self, arriving: &ArrivingIds) -> Result<(), Error> {
        let is_here = self.read()?.id_writer.is_here;
        if is_here { Ok(()) } else { self.change()?.claim_ids(arriving) }
    }
}

impl CatalogChange<'_> {
    fn claim_ids(mut self, arriving: &ArrivingIds) -> Result<(), Error> {
        // Writes of a node that runs alone end with its process.
        if let Some(cluster) = self.node.cluster().view()? {
            let OwnRun { key, incarnation } = cluster.own();
            let own = json!({ "node": key, "run": incarnation }).to_string();
            if self.id_writer.last.as_ref().is_some_and(|last| *last != own) {
                let partitions = self.indexes.values().flat_map(|index| index.live.partitions.all());
                arriving.note_others(partitions.map(|partition| partition.number()).max().unwrap_or(0));
            }
            // Also where it is there: that of another owner which was not confirmed may still come, and would
            // say that none has written since.
            storage::put(self.node, StorageGroup::CATALOG, ID_WRITER, Some(&own))?;
            self.entries_mut().id_writer.last = Some(own);
        }
        self.entries_mut().id_writer.is_here = true;
        self.commit()
    }
}
