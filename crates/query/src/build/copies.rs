//! Bound of what items copy: a short statement can name a long parameter many times, and an annotation of a
//! condition is one of all conditions in it.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::BuildResult;
use crate::ItemAnnotations;
use crate::syntax::SyntaxFault;

/// Bytes that the items of a query may copy from parameters and annotations, beyond each parameter once.
const COPIED_BYTES_MAX: usize = 2 << 20;

/// Bytes that the items of a query may still copy. An annotation that is looked at counts as one byte.
pub(crate) struct CopyBudget {
    left: Cell<usize>,
}

impl CopyBudget {
    /// The budget of a request with these parameters.
    pub fn of(parameters: &BTreeMap<String, String>) -> Self {
        let bytes: usize = parameters.values().map(String::len).sum();
        CopyBudget { left: Cell::new(bytes + COPIED_BYTES_MAX) }
    }

    /// Counts a copy of so many bytes for a part of the text.
    ///
    /// # Errors
    /// No more is left.
    pub(super) fn take(&self, at: usize, bytes: usize) -> BuildResult<()> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            SyntaxFault::new(
                at,
                format!(
                    "the conditions copy more than {COPIED_BYTES_MAX} bytes beside the request's own, from parameters \
                     (@name), annotations and alternatives; name a long parameter once, and annotate fewer conditions"
                ),
            )
        })?;
        self.left.set(left);
        Ok(())
    }
}

impl ItemAnnotations {
    /// Bytes of its texts.
    pub(super) fn text_bytes(&self) -> usize {
        let own = [&self.label, &self.language].into_iter().flatten().map(String::len);
        own.sum::<usize>() + self.other.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}
