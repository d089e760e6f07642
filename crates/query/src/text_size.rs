//! Size of the text that is split into words for a query.

use crate::{QueryItem, UserText};

/// Bytes of the texts of an item and its nested items that linguistics splits into words.
pub(crate) fn text_bytes(item: &QueryItem) -> usize {
    let of_all = |items: &[QueryItem]| items.iter().map(text_bytes).sum::<usize>();
    match item {
        QueryItem::And(items)
        | QueryItem::Or(items)
        | QueryItem::Rank(items)
        | QueryItem::WeakAnd { children: items, .. }
        | QueryItem::Equiv { words: items, .. }
        | QueryItem::SameElement { children: items, .. } => of_all(items),
        QueryItem::Not { positive, negatives } => text_bytes(positive) + of_all(negatives),
        QueryItem::Near { words, excluded, .. } => of_all(words) + of_all(excluded),
        QueryItem::Term { text, .. } => text.text.len(),
        QueryItem::Phrase { words, .. } => words.iter().map(|word| word.text.text.len()).sum(),
        QueryItem::Alternatives { words, .. } => words.iter().map(|(word, _)| word.len()).sum(),
        QueryItem::Text(UserText { text, filter, .. }) => text.len() + filter.as_deref().map_or(0, str::len),
        QueryItem::Typed(inner) | QueryItem::Labeled { item: inner, .. } => text_bytes(inner),
        QueryItem::True
        | QueryItem::False
        | QueryItem::In { .. }
        | QueryItem::Weighted { .. }
        | QueryItem::Range { .. }
        | QueryItem::NearestNeighbor(_)
        | QueryItem::GeoLocation { .. }
        | QueryItem::GeoBoundingBox { .. }
        | QueryItem::Predicate { .. } => 0,
    }
}
