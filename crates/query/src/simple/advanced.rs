//! Operators between terms: `type=adv`.
//!
//! `AND`, `OR`, `ANDNOT`, `RANK`, `NEAR`, `ONEAR`, `EQUIV` and `WEAKAND` (or `WAND`) are infix operators, in
//! any case; `NEAR(n)` and `ONEAR(n)` have a distance, `WEAKAND(n)` a number of hits. They are
//! left-associative with equal precedence; parentheses group. A term without an operator before it is one
//! more of the last operator, of the parentheses or of the phrase before it; without these, all terms must
//! match. An operator name in the position of a term is a term. Signs mean nothing, and end a group.

use super::pieces::sole_word;
use super::reader::SimpleReader;
use crate::item::{NEAR_DISTANCE, TARGET_HITS};
use crate::{ItemAnnotations, PhraseWord, QueryItem, TermMatch};

#[derive(Debug, Clone, Copy, PartialEq)]
enum AdvancedOperator {
    And,
    Or,
    AndNot,
    Rank,
    Near { ordered: bool, distance: u32 },
    Equiv,
    WeakAnd { target_hits: u32 },
}

/// Parses the rest of the text, or of a group.
pub(super) fn parse(reader: &mut SimpleReader<'_>) -> Option<QueryItem> {
    let mut whole: Option<QueryItem> = None;
    // A group takes in no operands of the same operator after it.
    let mut is_closed = false;
    let mut expects_operator = false;
    while reader.skip_blanks() {
        let term = reader.term().map(|term| term.item);
        let is_group = term.is_none();
        let Some(item) = term.or_else(|| group(reader)) else {
            if reader.depth > 0 {
                break;
            }
            reader.skip_meaningless();
            continue;
        };
        let operator = match expects_operator {
            true => operator(reader, &item),
            false => None,
        };
        expects_operator = operator.is_none();
        whole = Some(match (whole, operator) {
            (None, _) => {
                is_closed = is_group;
                item
            }
            (Some(left), Some(operator)) => {
                let left = if operator.continues(&left) && !is_closed { left } else { operator.begin(left) };
                is_closed = false;
                left
            }
            (Some(left), None) => adjoin(left, item, &mut is_closed),
        });
    }
    whole.map(without_operator)
}

/// Reads a group; `None`, and no character is taken, where none begins, or it has nothing in it.
fn group(reader: &mut SimpleReader<'_>) -> Option<QueryItem> {
    let start = reader.cursor.offset();
    reader.open_group()?;
    let item = parse(reader);
    reader.close_group();
    if item.is_none() {
        reader.cursor.go_to(start);
    }
    item
}

/// The operator that an item is the name of, with its argument, which is taken.
fn operator(reader: &mut SimpleReader<'_>, item: &QueryItem) -> Option<AdvancedOperator> {
    let argument = |reader: &mut SimpleReader<'_>, default| argument(reader).unwrap_or(default);
    Some(match sole_word(item)?.to_ascii_uppercase().as_str() {
        "AND" => AdvancedOperator::And,
        "OR" => AdvancedOperator::Or,
        "ANDNOT" => AdvancedOperator::AndNot,
        "RANK" => AdvancedOperator::Rank,
        "EQUIV" => AdvancedOperator::Equiv,
        "NEAR" => AdvancedOperator::Near { ordered: false, distance: argument(reader, NEAR_DISTANCE) },
        "ONEAR" => AdvancedOperator::Near { ordered: true, distance: argument(reader, NEAR_DISTANCE) },
        "WEAKAND" | "WAND" => AdvancedOperator::WeakAnd { target_hits: argument(reader, TARGET_HITS) },
        _ => return None,
    })
}

/// Reads a number in parentheses. Zero stands for the default.
fn argument(reader: &mut SimpleReader<'_>) -> Option<u32> {
    let start = reader.cursor.offset();
    let number = if reader.cursor.take("(") { reader.cursor.take_digits() } else { "" };
    let argument = number.parse().ok().filter(|_| reader.cursor.take(")"));
    if argument.is_none() {
        reader.cursor.go_to(start);
    }
    argument.filter(|argument| *argument > 0)
}

impl AdvancedOperator {
    /// True if an item was made by this operator, so that it takes in the operand that follows.
    fn continues(self, item: &QueryItem) -> bool {
        match (self, item) {
            (AdvancedOperator::And, QueryItem::And(_))
            | (AdvancedOperator::Or, QueryItem::Or(_))
            | (AdvancedOperator::AndNot, QueryItem::Not { .. })
            | (AdvancedOperator::Rank, QueryItem::Rank(_))
            | (AdvancedOperator::Equiv, QueryItem::Equiv { .. }) => true,
            (AdvancedOperator::WeakAnd { target_hits }, QueryItem::WeakAnd { target_hits: hits, .. }) => {
                target_hits == *hits
            }
            // Ordered nearness is nearness.
            (
                AdvancedOperator::Near { ordered, distance },
                QueryItem::Near { ordered: is_ordered, distance: reach, .. },
            ) => distance == *reach && (*is_ordered || !ordered),
            _ => false,
        }
    }

    /// This operator with its first operand. What nearness and equivalence cannot be of must match.
    fn begin(self, first: QueryItem) -> QueryItem {
        let field = first.field().unwrap_or_default().to_owned();
        let annotations = ItemAnnotations::default();
        match self {
            AdvancedOperator::Or => QueryItem::Or(vec![first]),
            AdvancedOperator::AndNot => QueryItem::Not { positive: Box::new(first), negatives: Vec::new() },
            AdvancedOperator::Rank => QueryItem::Rank(vec![first]),
            AdvancedOperator::WeakAnd { target_hits } => {
                QueryItem::WeakAnd { children: vec![first], target_hits, annotations }
            }
            AdvancedOperator::Equiv if is_word_or_phrase(&first) => {
                QueryItem::Equiv { field, words: vec![first], annotations }
            }
            AdvancedOperator::Near { ordered, distance } if can_be_near(&first) => QueryItem::Near {
                field,
                words: vec![first],
                excluded: Vec::new(),
                distance,
                exclusion_distance: distance.div_ceil(2),
                ordered,
                annotations,
            },
            AdvancedOperator::And | AdvancedOperator::Equiv | AdvancedOperator::Near { .. } => {
                QueryItem::And(vec![first])
            }
        }
    }
}

/// Adds an operand to what an operator, parentheses or quotes made before it. If that is a word, or does not
/// take the operand, both must match.
fn adjoin(mut left: QueryItem, right: QueryItem, is_closed: &mut bool) -> QueryItem {
    match &mut left {
        QueryItem::Phrase { words, .. } if is_word_or_phrase(&right) => match right {
            QueryItem::Term { text, matching, .. } => words.push(PhraseWord { text, matching }),
            QueryItem::Phrase { words: more, .. } => words.extend(more),
            _ => {}
        },
        QueryItem::And(items)
        | QueryItem::Or(items)
        | QueryItem::Rank(items)
        | QueryItem::WeakAnd { children: items, .. }
        | QueryItem::Not { negatives: items, .. } => items.push(right),
        QueryItem::Near { words: items, .. } if can_be_near(&right) => items.push(right),
        QueryItem::Equiv { words: items, .. } if is_word_or_phrase(&right) => items.push(right),
        _ => {
            *is_closed = false;
            return QueryItem::And(vec![without_operator(left), right]);
        }
    }
    left
}

fn is_word_or_phrase(item: &QueryItem) -> bool {
    matches!(item, QueryItem::Term { .. } | QueryItem::Phrase { .. })
}

fn can_be_near(item: &QueryItem) -> bool {
    let is_word = |item: &QueryItem| matches!(item, QueryItem::Term { matching: TermMatch::Word, .. });
    is_word_or_phrase(item) || matches!(item, QueryItem::Equiv { words, .. } if words.iter().all(is_word))
}

/// The operand of an operator that has one only, which means nothing.
fn without_operator(item: QueryItem) -> QueryItem {
    match item {
        QueryItem::And(mut items)
        | QueryItem::Or(mut items)
        | QueryItem::Rank(mut items)
        | QueryItem::WeakAnd { children: mut items, .. }
        | QueryItem::Near { words: mut items, .. }
        | QueryItem::Equiv { words: mut items, .. }
            if items.len() == 1 =>
        {
            items.remove(0)
        }
        QueryItem::Not { positive, negatives } if negatives.is_empty() => *positive,
        item => item,
    }
}
