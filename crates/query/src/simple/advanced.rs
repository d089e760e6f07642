//! Operators between terms: `type=adv`.
//!
//! `AND`, `OR`, `ANDNOT`, `RANK`, `NEAR`, `ONEAR` and `EQUIV` are infix operators, in any case; `NEAR(n)` and
//! `ONEAR(n)` have a distance. They are left-associative with equal precedence; parentheses group. Terms
//! without an operator between them must all match. An operator name in the position of a term is a term.

use super::reader::Reader;
use crate::{Annotations, Item};

/// Maximum nesting of parentheses; deeper ones are ignored.
const DEPTH_MAX: usize = 100;
/// Default distance of `NEAR`, in positions.
const NEAR_DISTANCE: u32 = 2;
/// Number of hits that `WEAKAND` exposes to ranking.
const WEAK_AND_HITS: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    And,
    Or,
    AndNot,
    Rank,
    Near { ordered: bool, distance: u32 },
    Equiv,
    WeakAnd,
}

/// Parses the rest of the text.
pub(super) fn parse(reader: &mut Reader<'_>, depth: usize) -> Option<Item> {
    let mut whole: Option<Item> = None;
    let mut last = None;
    while reader.skip_blanks() {
        if reader.peek() == Some(')') {
            reader.skip(1);
            if depth > 0 {
                break;
            }
            continue;
        }
        let operator = match whole {
            None => None,
            Some(_) => operator(reader),
        };
        if operator.is_some() && !reader.skip_blanks() {
            break;
        }
        let Some(operand) = operand(reader, depth) else { continue };
        whole = Some(match whole {
            None => operand,
            Some(left) => {
                let operator = operator.unwrap_or(Operator::And);
                let joined = join(left, operator, operand, last == Some(operator));
                last = Some(operator);
                joined
            }
        });
    }
    whole
}

fn operand(reader: &mut Reader<'_>, depth: usize) -> Option<Item> {
    while matches!(reader.peek(), Some('+')) {
        reader.skip(1);
    }
    if reader.peek() != Some('(') {
        return reader.term();
    }
    reader.skip(1);
    if depth < DEPTH_MAX { parse(reader, depth + 1) } else { None }
}

/// Reads an operator, if one is next.
fn operator(reader: &mut Reader<'_>) -> Option<Operator> {
    let rest = reader.rest();
    let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    let mut taken = length;
    let mut distance = NEAR_DISTANCE;
    let is_near = word.eq_ignore_ascii_case("NEAR") || word.eq_ignore_ascii_case("ONEAR");
    if is_near && let Some((number, _)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
        distance = number.trim().parse().ok()?;
        taken += number.len() + 2;
    }
    if rest[taken..].chars().next().is_some_and(|c| !c.is_whitespace() && c != '(') {
        return None;
    }
    let operator = match word.to_ascii_uppercase().as_str() {
        "AND" => Operator::And,
        "OR" => Operator::Or,
        "ANDNOT" => Operator::AndNot,
        "RANK" => Operator::Rank,
        "NEAR" => Operator::Near { ordered: false, distance },
        "ONEAR" => Operator::Near { ordered: true, distance },
        "EQUIV" => Operator::Equiv,
        "WEAKAND" | "WAND" => Operator::WeakAnd,
        _ => return None,
    };
    reader.skip(taken);
    Some(operator)
}

/// Combines both operands. With `again`, the left operand was made by the same operator, and takes in the
/// right one.
fn join(left: Item, operator: Operator, right: Item, again: bool) -> Item {
    let mut items = match left {
        Item::And(items) | Item::Or(items) | Item::Rank(items) if again => items,
        Item::WeakAnd { children: items, .. } if again => items,
        Item::Near { words: items, .. } | Item::Equiv { words: items, .. } if again => items,
        Item::Not { positive, mut negatives } if again => {
            negatives.push(right);
            return Item::Not { positive, negatives };
        }
        left => vec![left],
    };
    items.push(right);
    let field = items.first().and_then(Item::field).unwrap_or_default().to_owned();
    let annotations = Annotations::default();
    let are_terms = items.iter().all(|item| matches!(item, Item::Term { .. } | Item::Phrase { .. }));
    match operator {
        Operator::Near { .. } | Operator::Equiv if !are_terms => Item::And(items),
        Operator::And => Item::And(items),
        Operator::Or => Item::Or(items),
        Operator::AndNot => {
            let positive = Box::new(items.remove(0));
            Item::Not { positive, negatives: items }
        }
        Operator::Rank => Item::Rank(items),
        Operator::WeakAnd => Item::WeakAnd { children: items, target_hits: WEAK_AND_HITS, annotations },
        Operator::Equiv => Item::Equiv { field, words: items, annotations },
        Operator::Near { ordered, distance } => Item::Near {
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
