use std::cmp::Ordering;

use millrace_document::Document;
use regex::Regex;

use crate::expression::{SelectionComparison, SelectionCondition, SelectionOperator};
use crate::operand::OperandValue;
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
        self.root.evaluate(document, now_s)
    }

    /// True if the document is selected.
    pub fn matches(&self, document: &Document, now_s: i64) -> bool {
        self.evaluate(document, now_s) == SelectionOutcome::True
    }
}

impl SelectionCondition {
    fn evaluate(&self, document: &Document, now_s: i64) -> SelectionOutcome {
        match self {
            SelectionCondition::Constant(value) => SelectionOutcome::from(*value),
            SelectionCondition::Type(name) => SelectionOutcome::from(document.id.document_type() == name),
            SelectionCondition::Not(inner) => match inner.evaluate(document, now_s) {
                SelectionOutcome::True => SelectionOutcome::False,
                SelectionOutcome::False => SelectionOutcome::True,
                SelectionOutcome::Invalid => SelectionOutcome::Invalid,
            },
            SelectionCondition::And(parts) => junction(parts, SelectionOutcome::False, document, now_s),
            SelectionCondition::Or(parts) => junction(parts, SelectionOutcome::True, document, now_s),
            SelectionCondition::Compare(comparison) => {
                let left = comparison.left.find(document, now_s);
                let right = comparison.right.find(document, now_s);
                comparison.compare(&left, &right)
            }
        }
    }
}

/// Combines conditions: `decisive` if one part is; else invalid if one part is; else the opposite.
fn junction(
    parts: &[SelectionCondition],
    decisive: SelectionOutcome,
    document: &Document,
    now_s: i64,
) -> SelectionOutcome {
    let mut outcome = SelectionOutcome::from(decisive != SelectionOutcome::True);
    for part in parts {
        match part.evaluate(document, now_s) {
            SelectionOutcome::Invalid => outcome = SelectionOutcome::Invalid,
            found if found == decisive => return decisive,
            _ => {}
        }
    }
    outcome
}

impl SelectionComparison {
    fn compare(&self, left: &OperandValue<'_>, right: &OperandValue<'_>) -> SelectionOutcome {
        let equality = matches!(self.operator, SelectionOperator::Equal | SelectionOperator::NotEqual);
        match (left, right) {
            (OperandValue::Invalid, _) | (_, OperandValue::Invalid) => SelectionOutcome::Invalid,
            (OperandValue::Null, OperandValue::Null) if equality => {
                SelectionOutcome::from(self.operator == SelectionOperator::Equal)
            }
            (OperandValue::Null, _) | (_, OperandValue::Null) if equality => {
                SelectionOutcome::from(self.operator == SelectionOperator::NotEqual)
            }
            (OperandValue::Null, _) | (_, OperandValue::Null) => SelectionOutcome::Invalid,
            // "Not equal" means equal to no element; other comparisons hold if they hold for one element.
            (OperandValue::Any(_), _) | (_, OperandValue::Any(_))
                if self.operator == SelectionOperator::NotEqual =>
            {
                let equal =
                    SelectionComparison { operator: SelectionOperator::Equal, pattern: None, ..self.clone() };
                match equal.compare(left, right) {
                    SelectionOutcome::True => SelectionOutcome::False,
                    SelectionOutcome::False => SelectionOutcome::True,
                    SelectionOutcome::Invalid => SelectionOutcome::Invalid,
                }
            }
            (OperandValue::Any(elements), _) => SelectionOutcome::from(
                elements.iter().any(|element| self.compare(element, right) == SelectionOutcome::True),
            ),
            (_, OperandValue::Any(elements)) => SelectionOutcome::from(
                elements.iter().any(|element| self.compare(left, element) == SelectionOutcome::True),
            ),
            (OperandValue::Opaque, _) | (_, OperandValue::Opaque) => SelectionOutcome::Invalid,
            (OperandValue::Text(left), OperandValue::Text(right)) => self.compare_text(left, right),
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

    /// Compares two numbers, or a number and a text, which are never equal and have no order.
    fn compare_numbers(&self, left: &OperandValue<'_>, right: &OperandValue<'_>) -> SelectionOutcome {
        let order = match (left, right) {
            (OperandValue::Integer(left), OperandValue::Integer(right)) => Some(left.cmp(right)),
            (OperandValue::Integer(left), OperandValue::Float(right)) => (*left as f64).partial_cmp(right),
            (OperandValue::Float(left), OperandValue::Integer(right)) => left.partial_cmp(&(*right as f64)),
            (OperandValue::Float(left), OperandValue::Float(right)) => left.partial_cmp(right),
            _ => {
                return match self.operator {
                    SelectionOperator::Equal | SelectionOperator::Glob | SelectionOperator::Regex => {
                        SelectionOutcome::False
                    }
                    SelectionOperator::NotEqual => SelectionOutcome::True,
                    _ => SelectionOutcome::Invalid,
                };
            }
        };
        match (self.operator, order) {
            (SelectionOperator::Regex, _) => SelectionOutcome::False,
            (operator, Some(order)) => SelectionOutcome::from(operator.holds(order)),
            // NaN is equal to nothing and has no order.
            (operator, None) => SelectionOutcome::from(operator == SelectionOperator::NotEqual),
        }
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
