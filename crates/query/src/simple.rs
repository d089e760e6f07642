//! The simple query language, for text typed by users. Any text is a valid query; meaningless parts are
//! ignored.

mod advanced;
mod any;
mod pieces;
mod punctuation;
mod reader;
mod special;

use crate::{ItemAnnotations, QueryItem, TextSyntax, UserText, WordComposite};
use pieces::{PieceSign, SimplePiece};
use reader::SimpleReader;

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
    /// [`TermEnd::Blank`], and `^` and `$` around the term stand for the start and the end of a hostname. The
    /// end is meant unless `*` follows.
    Hostname,
    /// At this text (`exact-terminator`).
    Terminator(String),
}

/// Special tokens: texts that are one word, whatever their characters are. Fields whose terms do not end with
/// words have none.
#[derive(Clone, Copy)]
pub struct SpecialTokenRules<'a> {
    /// Finds the token at the start of a text: its length in bytes, and the word in its place.
    pub at_start: &'a dyn Fn(&str) -> Option<(usize, String)>,
    /// True if tokens are also found inside of words.
    pub inside_words: bool,
}

impl SpecialTokenRules<'static> {
    /// No tokens.
    pub const NONE: Self = SpecialTokenRules { at_start: &|_| None, inside_words: false };
}

/// Parses user text into a tree, if [`UserText::grammar`] has a syntax. `None` if it contains nothing to
/// search for.
///
/// Words stay as typed: the field's linguistics split `"New-York,"`. With [`TextSyntax::None`] the whole text
/// is one term for them.
pub fn parse(text: &UserText, fields: Fields<'_>, special: SpecialTokenRules<'_>) -> Option<QueryItem> {
    if text.grammar.syntax == TextSyntax::None {
        return text.text.contains(char::is_alphanumeric).then(|| QueryItem::Term {
            field: text.field.clone(),
            text: text.text.as_str().into(),
            matching: crate::TermMatch::Word,
            annotations: text.annotations.clone(),
        });
    }
    let read = |input: &str, annotations: &ItemAnnotations, grammar| {
        SimpleReader::new(input, &text.field, grammar, annotations, fields, special).pieces()
    };
    let query = match text.grammar.syntax {
        TextSyntax::Advanced => {
            let annotations = &text.annotations;
            let mut reader =
                SimpleReader::new(&text.text, &text.field, text.grammar, annotations, fields, special);
            advanced::parse(&mut reader)?
        }
        _ => combine(read(&text.text, &text.annotations, text.grammar), text)?,
    };
    let Some(filter) = &text.filter else { return Some(query) };
    let annotations = ItemAnnotations { filter: true, ..text.annotations.clone() };
    let grammar = crate::QueryGrammar { composite: WordComposite::Or, ..text.grammar };
    Some(restrict(query, read(filter, &annotations, grammar)))
}

/// Restricts `query` to documents that match the parts of `text` with `+` and not those with `-`; the other
/// parts only rank. Used for `recall` and `filter`; the annotations determine if ranking sees the terms.
pub fn filtered(
    query: QueryItem,
    text: &str,
    annotations: &ItemAnnotations,
    fields: Fields<'_>,
    special: SpecialTokenRules<'_>,
) -> QueryItem {
    let grammar = crate::QueryGrammar { composite: WordComposite::Or, ..crate::QueryGrammar::default() };
    restrict(query, SimpleReader::new(text, "default", grammar, annotations, fields, special).pieces())
}

fn restrict(query: QueryItem, pieces: Vec<SimplePiece>) -> QueryItem {
    let (mut required, mut forbidden, mut others) = (vec![query], Vec::new(), Vec::new());
    for piece in pieces {
        match piece.sign {
            PieceSign::Plus => required.push(piece.item),
            PieceSign::Minus => forbidden.push(piece.item),
            PieceSign::None => others.push(piece.item),
        }
    }
    ranked(excluding(several(required, QueryItem::And), forbidden), others)
}

/// Combines the parts by the grammar's composite.
fn combine(pieces: Vec<SimplePiece>, text: &UserText) -> Option<QueryItem> {
    if text.grammar.composite == WordComposite::Or && text.grammar.syntax == TextSyntax::Simple {
        return any::combine(pieces, true);
    }
    let (mut forbidden, mut others) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece.sign {
            PieceSign::Minus => forbidden.push(piece.item),
            // Signs of what must match count with `any` only.
            PieceSign::Plus | PieceSign::None => others.push(piece.item),
        }
    }
    let weak = |children| QueryItem::WeakAnd {
        children,
        target_hits: text.target_hits,
        annotations: ItemAnnotations::default(),
    };
    let near = |words, ordered, distance| QueryItem::Near {
        field: text.field.clone(),
        words,
        excluded: Vec::new(),
        distance,
        exclusion_distance: text.distance.div_ceil(2),
        ordered,
        annotations: text.annotations.clone(),
    };
    let positive = if others.is_empty() {
        // All documents but those excluded; where nothing is excluded, there is no query.
        if forbidden.is_empty() {
            return None;
        }
        QueryItem::True
    } else {
        match text.grammar.composite {
            WordComposite::And => several(others, QueryItem::And),
            WordComposite::Or => several(others, QueryItem::Or),
            // It stays a weakAnd with any number of children, so that ranking can identify its terms.
            WordComposite::WeakAnd => weak(others),
            WordComposite::Near => several(others, |words| near(words, false, text.distance)),
            WordComposite::OrderedNear => several(others, |words| near(words, true, text.distance)),
            // Each word directly after the previous one.
            WordComposite::Phrase => {
                let distance = u32::try_from(others.len().saturating_sub(1)).unwrap_or(u32::MAX);
                several(others, |words| near(words, true, distance))
            }
        }
    };
    Some(collapsed(excluding(positive, forbidden)))
}

/// Operators directly inside the same operator become one; of an exclusion and of `rank`, the first operand.
fn collapsed(item: QueryItem) -> QueryItem {
    let all = |items: Vec<QueryItem>| items.into_iter().map(collapsed);
    match item {
        QueryItem::And(items) => QueryItem::And(
            all(items)
                .flat_map(|item| if let QueryItem::And(inner) = item { inner } else { vec![item] })
                .collect(),
        ),
        QueryItem::Or(items) => QueryItem::Or(
            all(items)
                .flat_map(|item| if let QueryItem::Or(inner) = item { inner } else { vec![item] })
                .collect(),
        ),
        QueryItem::WeakAnd { children, target_hits, annotations } => {
            QueryItem::WeakAnd { children: all(children).collect(), target_hits, annotations }
        }
        QueryItem::Rank(items) => {
            let mut items = all(items);
            let mut first = match items.next() {
                Some(QueryItem::Rank(inner)) => inner,
                first => first.into_iter().collect(),
            };
            first.extend(items);
            QueryItem::Rank(first)
        }
        QueryItem::Not { positive, negatives } => match collapsed(*positive) {
            QueryItem::Not { positive, negatives: mut inner } => {
                inner.extend(all(negatives));
                QueryItem::Not { positive, negatives: inner }
            }
            positive => QueryItem::Not { positive: Box::new(positive), negatives: all(negatives).collect() },
        },
        item => item,
    }
}

fn several(mut items: Vec<QueryItem>, many: impl FnOnce(Vec<QueryItem>) -> QueryItem) -> QueryItem {
    if items.len() == 1 { items.remove(0) } else { many(items) }
}

fn ranked(first: QueryItem, mut others: Vec<QueryItem>) -> QueryItem {
    if others.is_empty() {
        return first;
    }
    others.insert(0, first);
    QueryItem::Rank(others)
}

fn excluding(positive: QueryItem, negatives: Vec<QueryItem>) -> QueryItem {
    if negatives.is_empty() { positive } else { QueryItem::Not { positive: Box::new(positive), negatives } }
}
