use std::cmp::Ordering;

use millrace_document::{Document, Location};
use regex::Regex;

use crate::bindings::{BoundOutcome, VariableAssignment};
use crate::expression::{SelectionComparison, SelectionCondition, SelectionOperator};
use crate::operand::{BoundValue, OperandValue};
use crate::{DocumentSelection, glob};

/// Result of a selection for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionOutcome {
    /// The document is selected.
    True,
    /// The document is not selected.
    False,
    /// The result depends on something that the document lacks. It is not selected, and garbage collection
    /// keeps it.
    Invalid,
}

impl From<bool> for SelectionOutcome {
    fn from(value: bool) -> Self {
        if value { SelectionOutcome::True } else { SelectionOutcome::False }
    }
}

impl DocumentSelection {
    /// Evaluates the selection for a document; `now()` is `now_s`, in seconds since 1970.
    pub fn evaluate(&self, document: &Document, now_s: i64) -> SelectionOutcome {
        self.root.evaluate(document, now_s).combined()
    }

    /// True if the document is selected.
    pub fn matches(&self, document: &Document, now_s: i64) -> bool {
        self.evaluate(document, now_s) == SelectionOutcome::True
    }
}

impl std::ops::Not for SelectionOutcome {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            SelectionOutcome::True => SelectionOutcome::False,
            SelectionOutcome::False => SelectionOutcome::True,
            SelectionOutcome::Invalid => SelectionOutcome::Invalid,
        }
    }
}

impl SelectionOutcome {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (SelectionOutcome::False, _) | (_, SelectionOutcome::False) => SelectionOutcome::False,
            (SelectionOutcome::Invalid, _) | (_, SelectionOutcome::Invalid) => SelectionOutcome::Invalid,
            _ => SelectionOutcome::True,
        }
    }

    fn or(self, other: Self) -> Self {
        !(!self).and(!other)
    }
}

impl SelectionCondition {
    fn evaluate<'d>(&'d self, document: &'d Document, now_s: i64) -> BoundOutcome<'d> {
        match self {
            SelectionCondition::Constant(value) => BoundOutcome::Plain(SelectionOutcome::from(*value)),
            SelectionCondition::Type(name) => {
                BoundOutcome::Plain(SelectionOutcome::from(document.id.document_type() == name))
            }
            SelectionCondition::Not(inner) => !inner.evaluate(document, now_s),
            SelectionCondition::And(parts) => {
                junction(parts, SelectionOutcome::False, SelectionOutcome::and, document, now_s)
            }
            SelectionCondition::Or(parts) => {
                junction(parts, SelectionOutcome::True, SelectionOutcome::or, document, now_s)
            }
            SelectionCondition::Compare(comparison) => {
                let left = comparison.left.find(document, now_s);
                let right = comparison.right.find(document, now_s);
                comparison.outcome(&left, &right)
            }
        }
    }
}

/// Combines conditions; one without variables that has the outcome `decisive` decides.
fn junction<'d>(
    parts: &'d [SelectionCondition],
    decisive: SelectionOutcome,
    join: fn(SelectionOutcome, SelectionOutcome) -> SelectionOutcome,
    document: &'d Document,
    now_s: i64,
) -> BoundOutcome<'d> {
    let mut outcome = BoundOutcome::Plain(!decisive);
    for part in parts {
        let next = part.evaluate(document, now_s);
        if matches!(next, BoundOutcome::Plain(found) if found == decisive) {
            return next;
        }
        outcome = outcome.join(next, join);
    }
    outcome
}

impl SelectionComparison {
    pub(crate) fn outcome<'d>(&self, left: &OperandValue<'d>, right: &OperandValue<'d>) -> BoundOutcome<'d> {
        match (left, right) {
            (OperandValue::Any(elements), OperandValue::Any(others)) => {
                BoundOutcome::Plain(self.compare_all(elements, others))
            }
            (OperandValue::Any(elements), _) => any(elements, |element| self.compare(element, right)),
            (_, OperandValue::Any(elements)) => any(elements, |element| self.compare(left, element)),
            _ => BoundOutcome::Plain(self.compare(left, right)),
        }
    }

    /// Compares two collections element by element; of different sizes, their sizes.
    fn compare_all(&self, left: &[BoundValue<'_>], right: &[BoundValue<'_>]) -> SelectionOutcome {
        if left.len() != right.len() {
            return SelectionOutcome::from(self.operator.holds(left.len().cmp(&right.len())));
        }
        let pairs = left.iter().zip(right);
        let mut outcomes = pairs.map(|(left, right)| self.compare(&left.value, &right.value));
        outcomes.find(|outcome| *outcome != SelectionOutcome::True).unwrap_or(SelectionOutcome::True)
    }

    /// Compares two single values.
    fn compare(&self, left: &OperandValue<'_>, right: &OperandValue<'_>) -> SelectionOutcome {
        let is_glob = self.operator == SelectionOperator::Glob;
        let equality =
            is_glob || matches!(self.operator, SelectionOperator::Equal | SelectionOperator::NotEqual);
        match (left, right) {
            (OperandValue::Invalid, _) | (_, OperandValue::Invalid) => SelectionOutcome::Invalid,
            (OperandValue::Text(left), OperandValue::Text(right)) => self.compare_text(left, right),
            // A pattern is for texts only.
            (_, OperandValue::Text(_)) if is_glob => SelectionOutcome::Invalid,
            (OperandValue::Null, OperandValue::Null) if equality => {
                SelectionOutcome::from(self.operator != SelectionOperator::NotEqual)
            }
            (OperandValue::Null, _) | (_, OperandValue::Null) if equality => {
                SelectionOutcome::from(self.operator == SelectionOperator::NotEqual)
            }
            (OperandValue::Location(location), OperandValue::Integer(bucket))
            | (OperandValue::Integer(bucket), OperandValue::Location(location))
                if equality =>
            {
                let wanted = self.operator != SelectionOperator::NotEqual;
                SelectionOutcome::from(is_in_bucket(*location, *bucket) == wanted)
            }
            _ => self.compare_numbers(left, right),
        }
    }

    fn compare_text(&self, left: &str, right: &str) -> SelectionOutcome {
        match self.operator {
            SelectionOperator::Glob => SelectionOutcome::from(glob::matches(right, left)),
            SelectionOperator::Regex => match &self.pattern {
                Some(pattern) => SelectionOutcome::from(pattern.is_match(left)),
                // The pattern differs between documents.
                None => Regex::new(right).map_or(SelectionOutcome::Invalid, |pattern| {
                    SelectionOutcome::from(pattern.is_match(left))
                }),
            },
            operator => SelectionOutcome::from(operator.holds(left.as_bytes().cmp(right.as_bytes()))),
        }
    }

    /// Compares two numbers. Other values cannot be compared.
    fn compare_numbers(&self, left: &OperandValue<'_>, right: &OperandValue<'_>) -> SelectionOutcome {
        let order = match (left, right) {
            (OperandValue::Integer(left), OperandValue::Integer(right)) => Some(left.cmp(right)),
            (OperandValue::Integer(left), OperandValue::Float(right)) => (*left as f64).partial_cmp(right),
            (OperandValue::Float(left), OperandValue::Integer(right)) => left.partial_cmp(&(*right as f64)),
            (OperandValue::Float(left), OperandValue::Float(right)) => left.partial_cmp(right),
            _ => return SelectionOutcome::Invalid,
        };
        match (self.operator, order) {
            (SelectionOperator::Regex, _) => SelectionOutcome::Invalid,
            (operator, Some(order)) => SelectionOutcome::from(operator.holds(order)),
            // NaN is equal to nothing and has no order.
            (operator, None) => SelectionOutcome::from(operator == SelectionOperator::NotEqual),
        }
    }
}

/// True if a location is in the bucket with this id: its highest 6 bits are the number of the lowest ones
/// that count. The id of no bucket contains nothing.
fn is_in_bucket(location: Location, bucket: i128) -> bool {
    let bits = bucket as u64;
    let used = (bits >> Location::BITS) as u32;
    let mask = (1u64 << used.min(Location::BITS)) - 1;
    (1..=Location::BITS).contains(&used) && (location.bits() ^ bits) & mask == 0
}

/// Outcome of a comparison with each of several elements: true if it is for one of them, for each assignment
/// of variables.
fn any<'d>(
    elements: &[BoundValue<'d>],
    compare: impl Fn(&OperandValue<'d>) -> SelectionOutcome,
) -> BoundOutcome<'d> {
    let mut assigned = Vec::new();
    let mut plain: Option<SelectionOutcome> = None;
    for element in elements {
        let outcome = compare(&element.value);
        if element.assignment.is_empty() {
            plain = Some(plain.map_or(outcome, |before| before.or(outcome)));
        } else {
            assigned.push((element.assignment.clone(), outcome));
        }
    }
    match plain {
        Some(outcome) if assigned.is_empty() => BoundOutcome::Plain(outcome),
        Some(outcome) => {
            assigned.push((VariableAssignment::default(), outcome));
            BoundOutcome::Assigned(assigned)
        }
        None => BoundOutcome::Assigned(assigned),
    }
}

impl SelectionOperator {
    const fn holds(self, order: Ordering) -> bool {
        match self {
            SelectionOperator::Equal | SelectionOperator::Glob => order.is_eq(),
            SelectionOperator::NotEqual => order.is_ne(),
            SelectionOperator::Less => order.is_lt(),
            SelectionOperator::LessOrEqual => order.is_le(),
            SelectionOperator::Greater => order.is_gt(),
            SelectionOperator::GreaterOrEqual => order.is_ge(),
            // Patterns are matched, not ordered.
            SelectionOperator::Regex => false,
        }
    }
}
