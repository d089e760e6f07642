//! Ranges of numbers. Those that one number must be within, each and all, become one: documents are looked at once, and ranking sees one term.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use millrace_document::DataType;
use millrace_query::{Annotations, Bound, Item, Match, Number};

use super::{Place, Tree, wrong};
use crate::target::{self, Target};
use crate::words::Words;
use crate::{Error, Node, Predicate, number};

impl Tree<'_> {
    /// Between two bounds.
    pub(super) fn range(
        &mut self,
        field: &str,
        bounds: (Bound, Bound),
        annotations: &Annotations,
        place: Place<'_>,
    ) -> Result<Node, Error> {
        let text = described(bounds);
        let languages = self.languages();
        self.each(field, place, annotations, &text, |target| match bounds {
            // A number is a word where there are only words.
            (Bound::Inclusive(low), Bound::Inclusive(high))
                if low == high && target::holds_text(target.value_type) =>
            {
                Words::new(target, annotations, languages).term(&text, &Match::Word)
            }
            _ => within(target, bounds),
        })
    }

    /// The items of a conjunction with ranges over one field as one, where the first of them stands; none where all stay as they are.
    ///
    /// Those with annotations stay, and those over fields of several values, each of which may be met by another value.
    pub(super) fn join_ranges(&mut self, items: &[Item], place: Place<'_>) -> Option<Vec<Item>> {
        if place.element.is_some() || items.iter().filter(|item| plain(item).is_some()).nth(1).is_none() {
            return None;
        }
        let known = self.joined_ranges.len();
        let mut joined: Vec<Item> = Vec::with_capacity(items.len());
        let mut first_of: BTreeMap<&str, usize> = BTreeMap::new();
        for item in items {
            let Some((field, low, high)) = plain(item).filter(|(field, ..)| self.has_one_number(field))
            else {
                joined.push(item.clone());
                continue;
            };
            let first = first_of.get(field).and_then(|at| joined.get_mut(*at));
            if let Some(Item::Range { low: known_low, high: known_high, .. }) = first
                && let Some(low) = tighter(*known_low, low, Ordering::Greater)
                && let Some(high) = tighter(*known_high, high, Ordering::Less)
            {
                (*known_low, *known_high) = (low, high);
                self.joined_ranges.push(field.to_owned());
            } else {
                first_of.insert(field, joined.len());
                joined.push(item.clone());
            }
        }
        (self.joined_ranges.len() > known).then_some(joined)
    }

    /// Whether a name means one field, of one number.
    fn has_one_number(&self, name: &str) -> bool {
        match target::resolve(self.schema, name).as_deref() {
            Ok([target]) => {
                *target.path == *target.field.name && number::kind(&target.field.data_type).is_some()
            }
            _ => false,
        }
    }
}

/// The predicate of a range in one field; none where nothing can be in it.
fn within(target: &Target<'_>, (low, high): (Bound, Bound)) -> Result<Option<Predicate>, Error> {
    if low == Bound::Open && high == Bound::Open && number::kind(target.value_type).is_some() {
        return Ok(Some(Predicate::Present));
    }
    let kind = number::kind(target.value_type).ok_or_else(|| {
        let hint = match target.value_type {
            DataType::Bool => format!("; write: {} = true", target.path),
            other if target::holds_text(other) => {
                format!("; for text write: {} contains \"word\"", target.path)
            }
            _ => String::new(),
        };
        wrong(&target.path, format!("it holds {}, which is no number{hint}", target.value_type))
    })?;
    Ok(number::range(kind, low, high).map(Predicate::Number))
}

/// A range as ranking shows it.
fn described((low, high): (Bound, Bound)) -> String {
    let text = |bound: Bound| match bound {
        Bound::Open => String::new(),
        Bound::Inclusive(number) | Bound::Exclusive(number) => number.to_string(),
    };
    if low == high { text(low) } else { format!("[{};{}]", text(low), text(high)) }
}

/// The field and the bounds of a range of which nothing more is said.
fn plain(item: &Item) -> Option<(&str, Bound, Bound)> {
    match item {
        Item::Range { field, low, high, hit_limit: None, annotations }
            if *annotations == Annotations::default() =>
        {
            Some((field, *low, *high))
        }
        _ => None,
    }
}

/// The bound that lets less through: the number is the tighter one where it compares to the other as `tight` says. None where the two
/// cannot be compared exactly.
fn tighter(one: Bound, other: Bound, tight: Ordering) -> Option<Bound> {
    let order = match (one, other) {
        (Bound::Open, bound) | (bound, Bound::Open) => return Some(bound),
        (
            Bound::Inclusive(one) | Bound::Exclusive(one),
            Bound::Inclusive(other) | Bound::Exclusive(other),
        ) => match (one, other) {
            (Number::Integer(one), Number::Integer(other)) => one.cmp(&other),
            (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other)?,
            (Number::Integer(_), Number::Float(_)) | (Number::Float(_), Number::Integer(_)) => return None,
        },
    };
    // At the same number the one lets less through that leaves it out.
    let is_one = order == tight || order == Ordering::Equal && matches!(one, Bound::Exclusive(_));
    Some(if is_one { one } else { other })
}
