//! The simple query language: what people type. Any text is a query in it; noise is left out.

mod advanced;
mod reader;

use crate::{Annotations, Composite, Item, Syntax, UserText};
use reader::{Piece, Reader, Sign};

/// Which names before a colon are fields, and how the terms of each end.
pub type Fields<'a> = &'a dyn Fn(&str) -> Option<TermEnd>;

/// How the text of a term is told from what follows it, which depends on its field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TermEnd {
    /// Text is made of words.
    #[default]
    Word,
    /// A value ends with the next blank, or with its closing quote.
    Blank,
    /// A value ends with this (`exact-terminator`).
    Terminator(String),
}

/// The tree that user text means, where [`UserText::grammar`] has a syntax; `None` where nothing in it can be searched for, or
/// only things that must not match.
///
/// Words stay as they were typed: `"New-York,"` is for the field's linguistics to split. With [`Syntax::None`] the whole text is
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

/// `query` where the pieces of `text` with `+` match and those with `-` do not; the others only rank. `recall` and `filter`
/// are this; ranking sees the terms as their annotations say.
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

/// The pieces as the grammar's composite puts them together.
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
            // One child or many, it stays a weakAnd: that is how ranking knows its terms.
            Composite::WeakAnd => weak(others),
            Composite::Near => several(others, |words| near(words, false, text.distance)),
            Composite::OrderedNear => several(others, |words| near(words, true, text.distance)),
            // Each word right behind the one before it.
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
