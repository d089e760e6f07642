//! Operators between terms: `type=adv`.
//!
//! `AND`, `OR`, `ANDNOT`, `RANK`, `NEAR`, `ONEAR`, `EQUIV` and `WEAKAND` (or `WAND`) are infix operators, in
//! any case; `NEAR(n)` and `ONEAR(n)` have a distance, `WEAKAND(n)` a number of hits. They are
//! left-associative with equal precedence; parentheses group. A term without an operator before it is one
//! more of the last operator, of the parentheses or of the phrase before it; without these, all terms must
//! match. An operator name in the position of a term is a term.

use super::reader::SimpleReader;
use crate::{ItemAnnotations, PhraseWord, QueryItem};

/// Maximum nesting of parentheses; deeper ones are ignored.
const DEPTH_MAX: usize = 100;
/// Default distance of `NEAR`, in positions.
const NEAR_DISTANCE: u32 = 2;
/// Number of hits that `WEAKAND` exposes to ranking.
const WEAK_AND_HITS: u32 = 100;

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

/// Parses the rest of the text.
pub(super) fn parse(reader: &mut SimpleReader<'_>, depth: usize) -> Option<QueryItem> {
    let mut whole: Option<QueryItem> = None;
    let mut last = None;
    while reader.skip_blanks() {
        if reader.peek() == Some(')') {
            reader.skip(1);
            if depth > 0 {
                break;
            }
            continue;
        }
        skip_signs(reader);
        let operator = match whole {
            None => None,
            Some(_) => operator(reader),
        };
        if operator.is_some() && !reader.skip_blanks() {
            break;
        }
        if operator.is_some() && reader.peek() == Some(')') {
            // An operator without a right operand means nothing.
            continue;
        }
        let Some(operand) = operand(reader, depth) else { continue };
        whole = Some(match whole {
            None => operand,
            Some(left) => match operator {
                Some(operator) => {
                    let joined = join(left, operator, operand, last == Some(operator));
                    last = Some(operator);
                    joined
                }
                None => adjoin(left, operand, &mut last),
            },
        });
    }
    whole
}

/// Skips signs, which mean nothing here, but for numbers.
fn skip_signs(reader: &mut SimpleReader<'_>) {
    let is_sign = |rest: &str| {
        rest.starts_with('+')
            || rest.strip_prefix('-').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    while is_sign(reader.rest()) && !reader.is_at_special() {
        reader.skip(1);
    }
}

fn operand(reader: &mut SimpleReader<'_>, depth: usize) -> Option<QueryItem> {
    skip_signs(reader);
    if reader.peek() != Some('(') || reader.is_at_special() {
        return reader.term();
    }
    reader.skip(1);
    if depth < DEPTH_MAX { parse(reader, depth + 1) } else { None }
}

/// Reads an operator, if one is next.
fn operator(reader: &mut SimpleReader<'_>) -> Option<AdvancedOperator> {
    let rest = reader.rest();
    let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    let mut taken = length;
    let mut argument = None;
    let has_argument =
        ["NEAR", "ONEAR", "WEAKAND", "WAND"].iter().any(|name| word.eq_ignore_ascii_case(name));
    if has_argument && let Some((number, _)) = after.strip_prefix('(').and_then(|after| after.split_once(')'))
    {
        // Zero stands for the default.
        argument = Some(number.trim().parse::<u32>().ok()?).filter(|number| *number > 0);
        taken += number.len() + 2;
    }
    let distance = argument.unwrap_or(NEAR_DISTANCE);
    if rest[taken..].chars().next().is_some_and(|c| !c.is_whitespace() && !matches!(c, '(' | ')')) {
        return None;
    }
    let operator = match word.to_ascii_uppercase().as_str() {
        "AND" => AdvancedOperator::And,
        "OR" => AdvancedOperator::Or,
        "ANDNOT" => AdvancedOperator::AndNot,
        "RANK" => AdvancedOperator::Rank,
        "NEAR" => AdvancedOperator::Near { ordered: false, distance },
        "ONEAR" => AdvancedOperator::Near { ordered: true, distance },
        "EQUIV" => AdvancedOperator::Equiv,
        "WEAKAND" | "WAND" => AdvancedOperator::WeakAnd { target_hits: argument.unwrap_or(WEAK_AND_HITS) },
        _ => return None,
    };
    reader.skip(taken);
    Some(operator)
}

/// Adds an operand to what an operator, parentheses or quotes made before it: words and phrases after a
/// phrase go on with it. If that is a word, or does not take the operand, both must match, and the last
/// operator is `AND`.
fn adjoin(mut left: QueryItem, right: QueryItem, last: &mut Option<AdvancedOperator>) -> QueryItem {
    let is_term = matches!(right, QueryItem::Term { .. } | QueryItem::Phrase { .. });
    match &mut left {
        QueryItem::Phrase { words, .. } if is_term => match right {
            QueryItem::Term { text, matching, .. } => words.push(PhraseWord { text, matching }),
            QueryItem::Phrase { words: more, .. } => words.extend(more),
            _ => {}
        },
        QueryItem::And(items)
        | QueryItem::Or(items)
        | QueryItem::Rank(items)
        | QueryItem::WeakAnd { children: items, .. }
        | QueryItem::Not { negatives: items, .. } => items.push(right),
        QueryItem::Near { words: items, .. } | QueryItem::Equiv { words: items, .. } if is_term => {
            items.push(right);
        }
        _ => {
            *last = Some(AdvancedOperator::And);
            return QueryItem::And(vec![left, right]);
        }
    }
    left
}

/// Combines both operands. With `again`, the left operand was made by the same operator, and takes in the
/// right one.
fn join(left: QueryItem, operator: AdvancedOperator, right: QueryItem, again: bool) -> QueryItem {
    let mut items = match left {
        QueryItem::And(items) | QueryItem::Or(items) | QueryItem::Rank(items) if again => items,
        QueryItem::WeakAnd { children: items, .. } if again => items,
        QueryItem::Near { words: items, .. } | QueryItem::Equiv { words: items, .. } if again => items,
        QueryItem::Not { positive, mut negatives } if again => {
            negatives.push(right);
            return QueryItem::Not { positive, negatives };
        }
        left => vec![left],
    };
    items.push(right);
    let field = items.first().and_then(QueryItem::field).unwrap_or_default().to_owned();
    let annotations = ItemAnnotations::default();
    let are_terms =
        items.iter().all(|item| matches!(item, QueryItem::Term { .. } | QueryItem::Phrase { .. }));
    match operator {
        AdvancedOperator::Near { .. } | AdvancedOperator::Equiv if !are_terms => QueryItem::And(items),
        AdvancedOperator::And => QueryItem::And(items),
        AdvancedOperator::Or => QueryItem::Or(items),
        AdvancedOperator::AndNot => {
            let positive = Box::new(items.remove(0));
            QueryItem::Not { positive, negatives: items }
        }
        AdvancedOperator::Rank => QueryItem::Rank(items),
        AdvancedOperator::WeakAnd { target_hits } => {
            QueryItem::WeakAnd { children: items, target_hits, annotations }
        }
        AdvancedOperator::Equiv => QueryItem::Equiv { field, words: items, annotations },
        AdvancedOperator::Near { ordered, distance } => QueryItem::Near {
            field,
            words: items,
            excluded: Vec::new(),
            distance,
            exclusion_distance: distance.div_ceil(2),
            ordered,
            annotations,
        },
    }
}
