//! Ranges of numbers. Ranges that must all hold for one number are merged: documents are examined once, and
//! ranking sees one term.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use millrace_document::DataType;
use millrace_query::{ItemAnnotations, QueryItem, QueryNumber, RangeBound, TermMatch};

use super::{ItemScope, TreeBuilder, wrong};
use crate::target::{self, PredicateTarget};
use crate::words::WordPredicates;
use crate::{Error, PlanNode, Predicate, number};

impl TreeBuilder<'_> {
    /// Condition for a value between two bounds.
    pub(super) fn range(
        &mut self,
        field: &str,
        bounds: (RangeBound, RangeBound),
        annotations: &ItemAnnotations,
        scope: ItemScope<'_>,
    ) -> Result<PlanNode, Error> {
        let text = range_text(bounds);
        let languages = self.languages();
        self.term_in_fields(field, scope, annotations, &text, |target| match bounds {
            // A number is a word in a field of words.
            (RangeBound::Inclusive(low), RangeBound::Inclusive(high))
                if low == high && target::holds_text(target.value_type) =>
            {
                WordPredicates::new(target, annotations, languages).term(&text, &TermMatch::Word)
            }
            _ => range_predicate(target, bounds),
        })
    }

    /// Merges ranges over one field in the items of a conjunction, at the place of the first; `None` if
    /// nothing is merged.
    ///
    /// Ranges with annotations stay separate, and so do those over multi-valued fields, where each range may
    /// be met by another value.
    pub(super) fn join_ranges(
        &mut self,
        items: &[QueryItem],
        scope: ItemScope<'_>,
    ) -> Option<Vec<QueryItem>> {
        if scope.element.is_some() || items.iter().filter(|item| plain(item).is_some()).nth(1).is_none() {
            return None;
        }
        let known = self.joined_ranges.len();
        let mut joined: Vec<QueryItem> = Vec::with_capacity(items.len());
        let mut first_of: BTreeMap<&str, usize> = BTreeMap::new();
        for item in items {
            let Some((field, low, high)) = plain(item).filter(|(field, ..)| self.has_one_number(field))
            else {
                joined.push(item.clone());
                continue;
            };
            let first = first_of.get(field).and_then(|at| joined.get_mut(*at));
            if let Some(QueryItem::Range { low: known_low, high: known_high, .. }) = first
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

    /// True if a name denotes one field with a single number.
    fn has_one_number(&self, name: &str) -> bool {
        match target::resolve(self.schema, name).as_deref() {
            Ok([target]) => {
                *target.path == *target.field.name && number::kind(&target.field.data_type).is_some()
            }
            _ => false,
        }
    }
}

/// Predicate of a range in one field; `None` if the range is empty.
fn range_predicate(
    target: &PredicateTarget<'_>,
    (low, high): (RangeBound, RangeBound),
) -> Result<Option<Predicate>, Error> {
    if low == RangeBound::Open && high == RangeBound::Open && number::kind(target.value_type).is_some() {
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
        wrong(&target.path, format!("it holds {}, which is not a number{hint}", target.value_type))
    })?;
    Ok(number::range(kind, low, high).map(Predicate::Number))
}

/// Text of a range for ranking.
fn range_text((low, high): (RangeBound, RangeBound)) -> String {
    let text = |bound: RangeBound| match bound {
        RangeBound::Open => String::new(),
        RangeBound::Inclusive(number) | RangeBound::Exclusive(number) => number.to_string(),
    };
    if low == high { text(low) } else { format!("[{};{}]", text(low), text(high)) }
}

/// Field and bounds of a range without annotations.
fn plain(item: &QueryItem) -> Option<(&str, RangeBound, RangeBound)> {
    match item {
        QueryItem::Range { field, low, high, hit_limit: None, annotations }
            if *annotations == ItemAnnotations::default() =>
        {
            Some((field, *low, *high))
        }
        _ => None,
    }
}

/// The more restrictive of two bounds: the number that compares to the other as `tight` is the tighter one.
/// `None` if they cannot be compared exactly.
fn tighter(one: RangeBound, other: RangeBound, tight: Ordering) -> Option<RangeBound> {
    let order = match (one, other) {
        (RangeBound::Open, bound) | (bound, RangeBound::Open) => return Some(bound),
        (
            RangeBound::Inclusive(one) | RangeBound::Exclusive(one),
            RangeBound::Inclusive(other) | RangeBound::Exclusive(other),
        ) => match (one, other) {
            (QueryNumber::Integer(one), QueryNumber::Integer(other)) => one.cmp(&other),
            (QueryNumber::Float(one), QueryNumber::Float(other)) => one.partial_cmp(&other)?,
            (QueryNumber::Integer(_), QueryNumber::Float(_))
            | (QueryNumber::Float(_), QueryNumber::Integer(_)) => return None,
        },
    };
    // At equal numbers, the exclusive bound is tighter.
    let is_one = order == tight || order == Ordering::Equal && matches!(one, RangeBound::Exclusive(_));
    Some(if is_one { one } else { other })
}
