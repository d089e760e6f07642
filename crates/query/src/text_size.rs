//! The bytes of text that are split into words for a query.

use crate::{Item, UserText};

/// The most bytes of text of a query that are split into words: what is made of a word takes a hundred times its bytes. Values of `in`, of
/// weighted sets and of vectors do not count.
pub(crate) const TEXT_BYTES_MAX: usize = 128 << 10;

/// The bytes of the texts of an item, and of those inside it, that linguistics splits into words.
pub(crate) fn text_bytes(item: &Item) -> usize {
    let of_all = |items: &[Item]| items.iter().map(text_bytes).sum::<usize>();
    match item {
        Item::And(items)
        | Item::Or(items)
        | Item::Rank(items)
        | Item::WeakAnd { children: items, .. }
        | Item::Equiv { words: items, .. }
        | Item::SameElement { children: items, .. } => of_all(items),
        Item::Not { positive, negatives } => text_bytes(positive) + of_all(negatives),
        Item::Near { words, excluded, .. } => of_all(words) + of_all(excluded),
        Item::Term { text, .. } => text.text.len(),
        Item::Phrase { words, .. } => words.iter().map(|word| word.text.text.len()).sum(),
        Item::Alternatives { words, .. } => words.iter().map(|(word, _)| word.len()).sum(),
        Item::Text(UserText { text, filter, .. }) => text.len() + filter.as_deref().map_or(0, str::len),
        Item::Typed(inner) => text_bytes(inner),
        Item::True
        | Item::False
        | Item::In { .. }
        | Item::Weighted { .. }
        | Item::Range { .. }
        | Item::NearestNeighbor(_)
        | Item::GeoLocation { .. }
        | Item::GeoBoundingBox { .. }
        | Item::Predicate { .. } => 0,
    }
}
