//! Documents that updates write again, and show.

use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_plan::QueryMemory;
use millrace_store::StoreModification;
use serde_json::{Map, Value, json};

use super::{SingleWrite, WriteAction};
use crate::Error;
use crate::caller::RewriteAdmission;
use crate::kept_hits;
use crate::service::ElasticService;
use crate::source::SourceFilter;

/// Counter of the document that an update writes again, if something limits that.
pub(crate) struct UpdateCharge {
    rewrites: Arc<dyn RewriteAdmission>,
    /// Bytes of the update, which are counted already.
    sent: usize,
}

impl UpdateCharge {
    /// Creates the counter of a write in a group, or in none; `None` for other writes than updates, which
    /// bring all of their documents, and without a limit.
    pub(crate) fn of(
        service: &ElasticService,
        write: &SingleWrite,
        group: Option<&DocumentGroup>,
    ) -> Option<Self> {
        if write.action != WriteAction::Update {
            return None;
        }
        Some(UpdateCharge { rewrites: service.caller.rewrites(group)?, sent: write.bytes() })
    }

    /// Counts the document of an update that is decided.
    ///
    /// # Errors
    /// The caller or the group has written too much.
    pub(crate) fn count(&self, modification: &StoreModification) -> Result<(), Error> {
        match modification {
            StoreModification::Put(document) => {
                Ok(self.rewrites.admit(document.stored_bytes(), self.sent)?)
            }
            StoreModification::Remove | StoreModification::Nothing => Ok(()),
        }
    }
}

/// Part of a document that the answer of an update has.
#[derive(Debug, Clone)]
pub(crate) struct ShownUpdate {
    filter: SourceFilter,
    memory: Option<Arc<QueryMemory>>,
}

impl ShownUpdate {
    /// The part that a write asks for, if any.
    pub(crate) fn of(write: &SingleWrite) -> Option<Self> {
        let filter = write.shown.as_ref().filter(|filter| !filter.is_off)?;
        let is_update = write.action == WriteAction::Update;
        is_update.then(|| ShownUpdate { filter: filter.clone(), memory: write.answer.clone() })
    }

    /// Member `get` of the answer.
    ///
    /// # Errors
    /// The answer has no memory for it. The update is not to be done then.
    pub(crate) fn get(
        &self,
        seq_no: i64,
        mappings: &Map<String, Value>,
        document: &Map<String, Value>,
    ) -> Result<Value, Error> {
        let mut get = json!({ "_seq_no": seq_no, "_primary_term": 1, "found": true });
        if let Some(part) = self.filter.apply_in(mappings, document) {
            get["_source"] = Value::Object(part);
        }
        self.memory.as_ref().map_or(Ok(()), |memory| kept_hits::take_answer(memory, &get))?;
        Ok(get)
    }
}
