//! Size of the text that is split into words for a query.

use crate::{QueryItem, UserText};

/// Bytes of the texts of an item and its nested items that linguistics splits into words.
pub(crate) fn text_bytes(item: &QueryItem) -> usize {
    match item {
        QueryItem::Term { text, .. } => text.text.len(),
        QueryItem::Phrase { words, .. } => words.iter().map(|word| word.text.text.len()).sum(),
        QueryItem::Alternatives { words, .. } => words.iter().map(|(word, _)| word.len()).sum(),
        QueryItem::Text(UserText { text, filter, .. }) => text.len() + filter.as_deref().map_or(0, str::len),
        other => other.children().map(text_bytes).sum(),
    }
}
