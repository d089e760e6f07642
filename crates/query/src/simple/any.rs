//! Parts of a group, and of text with `type=any`: those with `+` must match, those with `-` must not, a group
//! beside words must match, and where something must, the rest only ranks.
//!
//! The rules are those of Vespa's `any` parser, part by part in the order in which they are written.

use super::pieces::{PieceSign, SimplePiece};
use super::{excluding, several};
use crate::QueryItem;

/// Query made of the pieces so far.
enum CombinedPieces {
    /// Any other item: it is not added to.
    Item(QueryItem),
    Or(Vec<CombinedPieces>),
    Rank(Vec<CombinedPieces>),
    /// The parts with signs, which are collected beside.
    Signed,
    /// Another exclusion, of a group.
    Excluding(QueryItem),
}

#[derive(Default)]
struct SignedItems {
    positive: Vec<QueryItem>,
    negative: Vec<QueryItem>,
}

/// Combines parts. `is_any` tells `type=any` from groups in other types.
pub(super) fn combine(pieces: Vec<SimplePiece>, is_any: bool) -> Option<QueryItem> {
    let mut top: Option<CombinedPieces> = None;
    let mut signed: Option<SignedItems> = None;
    for SimplePiece { sign, item, is_group } in pieces {
        if sign != PieceSign::None {
            if signed.is_none() {
                top = Some(joined(top, CombinedPieces::Signed, is_any));
            }
            let signed = signed.get_or_insert_default();
            let list = if sign == PieceSign::Plus { &mut signed.positive } else { &mut signed.negative };
            list.push(item);
            continue;
        }
        let item = CombinedPieces::from(item);
        top = Some(match top {
            None => item,
            Some(top) if is_group => joined(Some(top), item, is_any),
            Some(CombinedPieces::Or(mut items)) => {
                items.push(item);
                CombinedPieces::Or(items)
            }
            Some(CombinedPieces::Rank(mut items)) => {
                items.push(item);
                CombinedPieces::Rank(items)
            }
            Some(CombinedPieces::Item(first)) => CombinedPieces::Or(vec![CombinedPieces::Item(first), item]),
            Some(top @ (CombinedPieces::Signed | CombinedPieces::Excluding(_))) => {
                joined(Some(top), item, is_any)
            }
        });
    }
    let Some(mut signed) = signed else { return top.map(|top| top.into_item(&mut SignedItems::default())) };
    let top = top?;
    if signed.negative.is_empty() {
        let top = match top {
            CombinedPieces::Rank(items) => {
                let rest = without_signed(items);
                let positive = several(std::mem::take(&mut signed.positive), QueryItem::And);
                joined(Some(CombinedPieces::Rank(rest)), CombinedPieces::from(positive), is_any)
            }
            other => other,
        };
        return Some(top.into_item(&mut signed));
    }
    if signed.positive.is_empty() {
        // Only exclusions: the rest must match.
        let rest = match top {
            CombinedPieces::Signed => None,
            CombinedPieces::Rank(items) | CombinedPieces::Or(items) => {
                let rest = without_signed(items).into_iter();
                Some(several(rest.map(|item| item.into_item(&mut signed)).collect(), QueryItem::Or))
            }
            other => Some(other.into_item(&mut signed)),
        };
        return Some(excluding(rest.unwrap_or(QueryItem::True), signed.negative));
    }
    Some(top.into_item(&mut signed))
}

fn without_signed(items: Vec<CombinedPieces>) -> Vec<CombinedPieces> {
    items.into_iter().filter(|item| !matches!(item, CombinedPieces::Signed)).collect()
}

/// Adds a group, or the parts with signs.
fn joined(top: Option<CombinedPieces>, item: CombinedPieces, is_any: bool) -> CombinedPieces {
    match (top, item) {
        (None, item) => item,
        (Some(top @ CombinedPieces::Or(_)), item @ CombinedPieces::Or(_)) => {
            CombinedPieces::Or(vec![top, item])
        }
        (Some(CombinedPieces::Rank(others)), CombinedPieces::Or(items)) if !is_any => {
            CombinedPieces::Or(others.into_iter().rev().chain(items).collect())
        }
        (Some(CombinedPieces::Rank(mut items)), CombinedPieces::Rank(mut others))
            if matches!(others.first(), Some(CombinedPieces::Or(_))) =>
        {
            let first = others.remove(0);
            if let CombinedPieces::Or(alternatives) = first {
                items.insert(0, CombinedPieces::Or(others.into_iter().rev().chain(alternatives).collect()));
            }
            CombinedPieces::Rank(items)
        }
        (Some(CombinedPieces::Rank(mut items)), item) => {
            items.insert(0, item);
            CombinedPieces::Rank(items)
        }
        (Some(top @ (CombinedPieces::Signed | CombinedPieces::Excluding(_))), item) => {
            CombinedPieces::Rank(vec![top, item])
        }
        (Some(top), item) => CombinedPieces::Rank(vec![item, top]),
    }
}

impl From<QueryItem> for CombinedPieces {
    fn from(item: QueryItem) -> Self {
        match item {
            QueryItem::Or(items) => CombinedPieces::Or(items.into_iter().map(CombinedPieces::Item).collect()),
            QueryItem::Rank(items) => {
                CombinedPieces::Rank(items.into_iter().map(CombinedPieces::Item).collect())
            }
            item @ QueryItem::Not { .. } => CombinedPieces::Excluding(item),
            item => CombinedPieces::Item(item),
        }
    }
}

impl CombinedPieces {
    fn into_item(self, signed: &mut SignedItems) -> QueryItem {
        let mut all =
            |items: Vec<CombinedPieces>| items.into_iter().map(|item| item.into_item(signed)).collect();
        match self {
            CombinedPieces::Item(item) | CombinedPieces::Excluding(item) => item,
            CombinedPieces::Or(items) => several(all(items), QueryItem::Or),
            CombinedPieces::Rank(items) => several(all(items), QueryItem::Rank),
            CombinedPieces::Signed => {
                let SignedItems { positive, negative } = std::mem::take(signed);
                let positive = match positive.is_empty() {
                    true => QueryItem::True,
                    false => several(positive, QueryItem::And),
                };
                excluding(positive, negative)
            }
        }
    }
}
