use std::cmp::Ordering;

use millrace_document::Document;
use regex::Regex;

use crate::expression::{Comparison, Condition, Operator};
use crate::operand::Found;
use crate::{Selection, glob};

/// Result of a selection for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The document is selected.
    True,
    /// The document is not selected.
    False,
    /// The result depends on something that the document lacks. It is not selected, and garbage collection
    /// keeps it.
    Invalid,
}

impl From<bool> for Outcome {
    fn from(value: bool) -> Self {
        if value { Outcome::True } else { Outcome::False }
    }
}

impl Selection {
    /// Evaluates the selection for a document; `now()` is `now_s`, in seconds since 1970.
    pub fn evaluate(&self, document: &Document, now_s: i64) -> Outcome {
        self.root.evaluate(document, now_s)
    }

    /// True if the document is selected.
    pub fn matches(&self, document: &Document, now_s: i64) -> bool {
        self.evaluate(document, now_s) == Outcome::True
    }
}

impl Condition {
    fn evaluate(&self, document: &Document, now_s: i64) -> Outcome {
        match self {
            Condition::Constant(value) => Outcome::from(*value),
            Condition::Type(name) => Outcome::from(document.id.document_type() == name),
            Condition::Not(inner) => match inner.evaluate(document, now_s) {
                Outcome::True => Outcome::False,
                Outcome::False => Outcome::True,
                Outcome::Invalid => Outcome::Invalid,
            },
            Condition::And(parts) => junction(parts, Outcome::False, document, now_s),
            Condition::Or(parts) => junction(parts, Outcome::True, document, now_s),
            Condition::Compare(comparison) => {
                let left = comparison.left.find(document, now_s);
                let right = comparison.right.find(document, now_s);
                comparison.compare(&left, &right)
            }
        }
    }
}

/// Combines conditions: `decisive` if one part is; else invalid if one part is; else the opposite.
fn junction(parts: &[Condition], decisive: Outcome, document: &Document, now_s: i64) -> Outcome {
    let mut outcome = Outcome::from(decisive != Outcome::True);
    for part in parts {
        match part.evaluate(document, now_s) {
            Outcome::Invalid => outcome = Outcome::Invalid,
            found if found == decisive => return decisive,
            _ => {}
        }
    }
    outcome
}

impl Comparison {
    fn compare(&self, left: &Found<'_>, right: &Found<'_>) -> Outcome {
        let equality = matches!(self.operator, Operator::Equal | Operator::NotEqual);
        match (left, right) {
            (Found::Invalid, _) | (_, Found::Invalid) => Outcome::Invalid,
            (Found::Null, Found::Null) if equality => Outcome::from(self.operator == Operator::Equal),
            (Found::Null, _) | (_, Found::Null) if equality => {
                Outcome::from(self.operator == Operator::NotEqual)
            }
            (Found::Null, _) | (_, Found::Null) => Outcome::Invalid,
            // "Not equal" means equal to no element; other comparisons hold if they hold for one element.
            (Found::Any(_), _) | (_, Found::Any(_)) if self.operator == Operator::NotEqual => {
                let equal = Comparison { operator: Operator::Equal, pattern: None, ..self.clone() };
                match equal.compare(left, right) {
                    Outcome::True => Outcome::False,
                    Outcome::False => Outcome::True,
                    Outcome::Invalid => Outcome::Invalid,
                }
            }
            (Found::Any(elements), _) => {
                Outcome::from(elements.iter().any(|element| self.compare(element, right) == Outcome::True))
            }
            (_, Found::Any(elements)) => {
                Outcome::from(elements.iter().any(|element| self.compare(left, element) == Outcome::True))
            }
            (Found::Opaque, _) | (_, Found::Opaque) => Outcome::Invalid,
            (Found::Text(left), Found::Text(right)) => self.compare_text(left, right),
            _ => self.compare_numbers(left, right),
        }
    }

    fn compare_text(&self, left: &str, right: &str) -> Outcome {
        match self.operator {
            Operator::Glob => Outcome::from(glob::matches(right, left)),
            Operator::Regex => match &self.pattern {
                Some(pattern) => Outcome::from(pattern.is_match(left)),
                // The pattern differs between documents.
                None => Regex::new(right)
                    .map_or(Outcome::Invalid, |pattern| Outcome::from(pattern.is_match(left))),
            },
            operator => Outcome::from(operator.holds(left.as_bytes().cmp(right.as_bytes()))),
        }
    }

    /// Compares two numbers, or a number and a text, which are never equal and have no order.
    fn compare_numbers(&self, left: &Found<'_>, right: &Found<'_>) -> Outcome {
        let order = match (left, right) {
            (Found::Integer(left), Found::Integer(right)) => Some(left.cmp(right)),
            (Found::Integer(left), Found::Float(right)) => (*left as f64).partial_cmp(right),
            (Found::Float(left), Found::Integer(right)) => left.partial_cmp(&(*right as f64)),
            (Found::Float(left), Found::Float(right)) => left.partial_cmp(right),
            _ => {
                return match self.operator {
                    Operator::Equal | Operator::Glob | Operator::Regex => Outcome::False,
                    Operator::NotEqual => Outcome::True,
                    _ => Outcome::Invalid,
                };
            }
        };
        match (self.operator, order) {
            (Operator::Regex, _) => Outcome::False,
            (operator, Some(order)) => Outcome::from(operator.holds(order)),
            // NaN is equal to nothing and has no order.
            (operator, None) => Outcome::from(operator == Operator::NotEqual),
        }
    }
}

impl Operator {
    const fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Equal | Operator::Glob => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            // Patterns are matched, not ordered.
            Operator::Regex => false,
        }
    }
}
