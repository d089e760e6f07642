//! Documents as they pass, and nested objects with the documents that they are of.

use millrace_plan::QueryMemory;

use crate::Error;
use crate::kept_hits::take;
use crate::search::SearchHit;

/// A document that passes, or a nested object of it.
#[derive(Clone, Copy)]
pub(super) struct StreamedHit<'h> {
    pub(super) hit: &'h SearchHit,
    /// The document; the same as `hit`, if this one is no nested object.
    pub(super) root: &'h SearchHit,
    /// Number of documents that it stands for: those with the same values.
    pub(super) count: usize,
}

impl<'h> StreamedHit<'h> {
    /// A document itself.
    pub(super) fn whole(hit: &'h SearchHit) -> Self {
        StreamedHit::several(hit, 1)
    }

    /// A document that stands for several with the same values.
    pub(super) fn several(hit: &'h SearchHit, count: usize) -> Self {
        StreamedHit { hit, root: hit, count }
    }

    /// A nested object of the document.
    pub(super) fn part(self, part: &'h SearchHit) -> Self {
        StreamedHit { hit: part, ..self }
    }
}

/// The document that came last: its index and its id.
#[derive(Default)]
pub(super) struct PreviousDocument(Option<(usize, String)>);

impl PreviousDocument {
    /// True if a document is not the one that came last. It is the last one from then on.
    ///
    /// # Errors
    /// There is no memory for its id.
    pub(super) fn is_next(&mut self, root: &SearchHit, memory: &QueryMemory) -> Result<bool, Error> {
        let id = &root.stored.id;
        if self.0.as_ref().is_some_and(|(ordinal, last)| (*ordinal, last) == (root.ordinal, id)) {
            return Ok(false);
        }
        take(memory, id.len())?;
        let before = self.0.replace((root.ordinal, id.clone()));
        memory.give_back(before.map_or(0, |(_, id)| id.len()));
        Ok(true)
    }
}
