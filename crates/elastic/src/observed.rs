//! Fields of documents in `logs` mode. No write waits for a mapping: fields are noted in memory as documents
//! are written, and read from the partitions that take writes after a restart. The fields of others are in
//! the catalog since the next partition was made.

use std::sync::Arc;

use millrace_node::Node;
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::catalog::{IndexEntry, OpenIndex};
use crate::mapping::FieldRoom;
use crate::single::parsed;
use crate::{Error, mapping, partitions};

/// Fields of an index beside those of its mapping.
#[derive(Debug, Default)]
pub(crate) struct ObservedFields {
    state: RwLock<ObservedState>,
    /// True once the documents of an earlier run were read.
    is_complete: Mutex<bool>,
}

#[derive(Debug, Default)]
struct ObservedState {
    /// Mapping with these fields, those of the index's own mapping among them.
    fields: Map<String, Value>,
    /// Entry of the index with that mapping, and the one that it was made from.
    shown: Option<(Arc<IndexEntry>, Arc<IndexEntry>)>,
}

impl ObservedFields {
    /// Mapping that has all fields.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        self.state.read().fields.clone()
    }

    /// Entry of the index with all fields in its mapping.
    pub(crate) fn entry(&self, own: &Arc<IndexEntry>) -> Arc<IndexEntry> {
        if let Some((shown, _)) = self.state.read().shown.as_ref().filter(|(_, of)| Arc::ptr_eq(of, own)) {
            return Arc::clone(shown);
        }
        let mut state = self.state.write();
        let mut mappings = own.mappings.clone();
        mapping::add_missing(&mut mappings, &own.observed);
        mapping::add_missing(&mut mappings, &state.fields);
        state.fields.clone_from(&mappings);
        let shown = Arc::new(IndexEntry { mappings, ..(**own).clone() });
        state.shown = Some((Arc::clone(&shown), Arc::clone(own)));
        shown
    }

    /// Notes the fields of a document.
    pub(crate) fn note(&self, own: &Arc<IndexEntry>, document: &Map<String, Value>) {
        // The state has the fields of the newest mapping from here on.
        self.entry(own);
        let mut state = self.state.write();
        let ObservedState { fields, shown } = &mut *state;
        let mut room = FieldRoom::of(fields, &own.settings);
        if mapping::observe(fields, &mut room, document).is_changed {
            *shown = None;
        }
    }
}

impl OpenIndex {
    /// The index with the fields of its documents in its mapping, for reading.
    ///
    /// # Errors
    /// Documents cannot be read.
    pub(crate) fn with_observed(self, node: &Arc<Node>) -> Result<OpenIndex, Error> {
        if !self.is_log() {
            return Ok(self);
        }
        let observed = &self.live.observed;
        {
            let mut is_complete = observed.is_complete.lock();
            if !*is_complete {
                partitions::scan_last(node, &self, |stored| {
                    observed.note(&self.entry, &parsed(&stored)?);
                    Ok(())
                })?;
                *is_complete = true;
            }
        }
        let entry = observed.entry(&self.entry);
        Ok(OpenIndex { entry, passes_fields: Arc::default(), ..self })
    }
}
