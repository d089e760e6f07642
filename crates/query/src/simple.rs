//! The simple query language, for text typed by users. Any text is a valid query; meaningless parts are
//! ignored.

mod advanced;
mod reader;

use crate::{Annotations, Composite, Item, Syntax, UserText};
use reader::{Piece, Reader, Sign};

/// Lookup of field names before a colon; returns the rule for the end of a field's terms.
pub type Fields<'a> = &'a dyn Fn(&str) -> Option<TermEnd>;

/// Rule for the end of a term's text, which depends on its field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TermEnd {
    /// At the end of a word.
    #[default]
    Word,
    /// At the next blank, or at the closing quote.
    Blank,
    /// At this text (`exact-terminator`).
    Terminator(String),
}

/// Parses user text into a tree, if [`UserText::grammar`] has a syntax. `None` if it contains nothing to
/// search for, or only parts that must not match.
///
/// Words stay as typed: the field's linguistics split `"New-York,"`. With [`Syntax::None`] the whole text is
/// one term for them.
pub fn parse(text: &UserText, fields: Fields<'_>) -> Option<Item> {
    if text.grammar.syntax == Syntax::None {
        return text.text.contains(char::is_alphanumeric).then(|| Item::Term {
            field: text.field.clone(),
            text: text.text.as_str().into(),
            matching: crate::Match::Word,
            annotations: text.annotations.clone(),
        });
    }
    let read = |input: &str, annotations: &Annotations, grammar| {
        Reader::new(input, &text.field, grammar, annotations, fields).pieces()
    };
    let query = match text.grammar.syntax {
        Syntax::Advanced => {
            let annotations = &text.annotations;
            advanced::parse(&mut Reader::new(&text.text, &text.field, text.grammar, annotations, fields), 0)?
        }
        _ => combine(read(&text.text, &text.annotations, text.grammar), text)?,
    };
    let Some(filter) = &text.filter else { return Some(query) };
    let annotations = Annotations { filter: true, ..text.annotations.clone() };
    let grammar = crate::Grammar { composite: Composite::Or, ..text.grammar };
    Some(restrict(query, read(filter, &annotations, grammar)))
}

/// Restricts `query` to documents that match the parts of `text` with `+` and not those with `-`; the other
/// parts only rank. Used for `recall` and `filter`; the annotations determine if ranking sees the terms.
pub fn filtered(query: Item, text: &str, annotations: &Annotations, fields: Fields<'_>) -> Item {
    let grammar = crate::Grammar { composite: Composite::Or, ..crate::Grammar::default() };
    restrict(query, Reader::new(text, "default", grammar, annotations, fields).pieces())
}

fn restrict(query: Item, pieces: Vec<Piece>) -> Item {
    let (mut required, mut forbidden, mut others) = (vec![query], Vec::new(), Vec::new());
    for piece in pieces {
        match piece.sign {
            Sign::Plus => required.push(piece.item),
            Sign::Minus => forbidden.push(piece.item),
            Sign::None => others.push(piece.item),
        }
    }
    ranked(excluding(several(required, Item::And), forbidden), others)
}

/// Combines the parts by the grammar's composite.
fn combine(pieces: Vec<Piece>, text: &UserText) -> Option<Item> {
    let (mut required, mut forbidden, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let signs_matter = matches!(text.grammar.composite, Composite::WeakAnd | Composite::Or);
    for piece in pieces {
        match piece.sign {
            Sign::Plus if signs_matter => required.push(piece.item),
            Sign::Minus => forbidden.push(piece.item),
            _ => others.push(piece.item),
        }
    }
    let weak = |children| Item::WeakAnd {
        children,
        target_hits: text.target_hits,
        annotations: Annotations::default(),
    };
    let near = |words, ordered, distance| Item::Near {
        field: text.field.clone(),
        words,
        excluded: Vec::new(),
        distance,
        exclusion_distance: text.distance.div_ceil(2),
        ordered,
        annotations: text.annotations.clone(),
    };
    let positive = if !required.is_empty() {
        ranked(several(required, Item::And), others)
    } else if others.is_empty() {
        return None;
    } else {
        match text.grammar.composite {
            Composite::And => several(others, Item::And),
            Composite::Or => several(others, Item::Or),
            // It stays a weakAnd with any number of children, so that ranking can identify its terms.
            Composite::WeakAnd => weak(others),
            Composite::Near => several(others, |words| near(words, false, text.distance)),
            Composite::OrderedNear => several(others, |words| near(words, true, text.distance)),
            // Each word directly after the previous one.
            Composite::Phrase => {
                let distance = u32::try_from(others.len().saturating_sub(1)).unwrap_or(u32::MAX);
                several(others, |words| near(words, true, distance))
            }
        }
    };
    Some(excluding(positive, forbidden))
}

fn several(mut items: Vec<Item>, many: impl FnOnce(Vec<Item>) -> Item) -> Item {
    if items.len() == 1 { items.remove(0) } else { many(items) }
}

fn ranked(first: Item, mut others: Vec<Item>) -> Item {
    if others.is_empty() {
        return first;
    }
    others.insert(0, first);
    Item::Rank(others)
}

fn excluding(positive: Item, negatives: Vec<Item>) -> Item {
    if negatives.is_empty() { positive } else { Item::Not { positive: Box::new(positive), negatives } }
}
