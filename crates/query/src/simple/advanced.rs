//! Operators between terms: `type=adv`.
//!
//! `AND`, `OR`, `ANDNOT`, `RANK`, `NEAR`, `ONEAR` and `EQUIV` stand between terms, in any case; `NEAR(n)` and `ONEAR(n)` have a
//! distance. They bind from left to right, and parentheses say otherwise. Terms with nothing between them must all match. A word
//! that stands where a term must be is a term, whatever it says.

use super::reader::Reader;
use crate::{Annotations, Item};

/// How deep parentheses nest; those further in are not heard.
const DEPTH_MAX: usize = 100;
/// Positions that `NEAR` looks over where it does not say.
const NEAR_DISTANCE: u32 = 2;
/// Hits that `WEAKAND` exposes to ranking.
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

/// The item that the rest of the text means.
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

/// The operator that comes next, which is then read.
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

/// The two joined; `again` where the left was made by the same operator, so that it takes the right one in.
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
