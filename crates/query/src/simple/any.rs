//! Parts of a group, and of text with `type=any`: those with `+` must match, those with `-` must not, a group
//! beside words must match, and where something must, the rest only ranks.
//!
//! The rules are those of Vespa's `any` parser, part by part in the order in which they are written.

use super::reader::{PieceSign, SimplePiece};
use super::{excluding, several};
use crate::QueryItem;

/// What the parts so far have become.
enum Combined {
    /// Any other item: it is not added to.
    Item(QueryItem),
    Or(Vec<Combined>),
    Rank(Vec<Combined>),
    /// The parts with signs, which are collected beside.
    Signed,
    /// Another exclusion, of a group.
    Excluding(QueryItem),
}

#[derive(Default)]
struct Signed {
    positive: Vec<QueryItem>,
    negative: Vec<QueryItem>,
}

/// Combines parts. `is_any` tells `type=any` from groups in other types.
pub(super) fn combine(pieces: Vec<SimplePiece>, is_any: bool) -> Option<QueryItem> {
    let mut top: Option<Combined> = None;
    let mut signed: Option<Signed> = None;
    for SimplePiece { sign, item, is_group } in pieces {
        if sign != PieceSign::None {
            if signed.is_none() {
                top = Some(joined(top, Combined::Signed, is_any));
            }
            let signed = signed.get_or_insert_default();
            let list = if sign == PieceSign::Plus { &mut signed.positive } else { &mut signed.negative };
            list.push(item);
            continue;
        }
        let item = Combined::from(item);
        top = Some(match top {
            None => item,
            Some(top) if is_group => joined(Some(top), item, is_any),
            Some(Combined::Or(mut items)) => {
                items.push(item);
                Combined::Or(items)
            }
            Some(Combined::Rank(mut items)) => {
                items.push(item);
                Combined::Rank(items)
            }
            Some(Combined::Item(first)) => Combined::Or(vec![Combined::Item(first), item]),
            Some(top @ (Combined::Signed | Combined::Excluding(_))) => joined(Some(top), item, is_any),
        });
    }
    let Some(mut signed) = signed else { return top.map(|top| top.into_item(&mut Signed::default())) };
    let top = top?;
    if signed.negative.is_empty() {
        let positive = several(std::mem::take(&mut signed.positive), QueryItem::And);
        let top = match top {
            Combined::Signed => return Some(positive),
            Combined::Rank(items) => {
                let rest = without_signed(items);
                joined(Some(Combined::Rank(rest)), Combined::from(positive), is_any)
            }
            other => other,
        };
        return Some(top.into_item(&mut signed));
    }
    if signed.positive.is_empty() {
        // Only exclusions: the rest must match.
        let rest = match top {
            Combined::Signed => None,
            Combined::Rank(items) => {
                let rest = without_signed(items).into_iter();
                Some(several(rest.map(|item| item.into_item(&mut signed)).collect(), QueryItem::Or))
            }
            other => Some(other.into_item(&mut signed)),
        };
        return Some(excluding(rest.unwrap_or(QueryItem::True), signed.negative));
    }
    Some(top.into_item(&mut signed))
}

fn without_signed(items: Vec<Combined>) -> Vec<Combined> {
    items.into_iter().filter(|item| !matches!(item, Combined::Signed)).collect()
}

/// Adds a group, or the parts with signs.
fn joined(top: Option<Combined>, item: Combined, is_any: bool) -> Combined {
    match (top, item) {
        (None, item) => item,
        (Some(top @ Combined::Or(_)), item @ Combined::Or(_)) => Combined::Or(vec![top, item]),
        (Some(Combined::Rank(others)), Combined::Or(items)) if !is_any => {
            Combined::Or(others.into_iter().rev().chain(items).collect())
        }
        (Some(Combined::Rank(mut items)), Combined::Rank(mut others))
            if matches!(others.first(), Some(Combined::Or(_))) =>
        {
            let first = others.remove(0);
            if let Combined::Or(alternatives) = first {
                items.insert(0, Combined::Or(others.into_iter().rev().chain(alternatives).collect()));
            }
            Combined::Rank(items)
        }
        (Some(Combined::Rank(mut items)), item) => {
            items.insert(0, item);
            Combined::Rank(items)
        }
        (Some(top @ (Combined::Signed | Combined::Excluding(_))), item) => Combined::Rank(vec![top, item]),
        (Some(top), item) => Combined::Rank(vec![item, top]),
    }
}

impl From<QueryItem> for Combined {
    fn from(item: QueryItem) -> Self {
        match item {
            QueryItem::Or(items) => Combined::Or(items.into_iter().map(Combined::Item).collect()),
            QueryItem::Rank(items) => Combined::Rank(items.into_iter().map(Combined::Item).collect()),
            item @ QueryItem::Not { .. } => Combined::Excluding(item),
            item => Combined::Item(item),
        }
    }
}

impl Combined {
    fn into_item(self, signed: &mut Signed) -> QueryItem {
        let mut all = |items: Vec<Combined>| items.into_iter().map(|item| item.into_item(signed)).collect();
        match self {
            Combined::Item(item) | Combined::Excluding(item) => item,
            Combined::Or(items) => several(all(items), QueryItem::Or),
            Combined::Rank(items) => several(all(items), QueryItem::Rank),
            Combined::Signed => {
                let Signed { positive, negative } = std::mem::take(signed);
                let positive = match positive.is_empty() {
                    true => QueryItem::True,
                    false => several(positive, QueryItem::And),
                };
                excluding(positive, negative)
            }
        }
    }
}
