//! Evaluation of operands on a document.

use std::borrow::Cow;

use md5::{Digest, Md5};
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Location, scalar};

use crate::bindings::{BoundElement, VariableAssignment};
use crate::expression::{
    FieldReference, IdPart, SelectionArithmetic, SelectionFunction, SelectionOperand, SelectionStep,
};

/// Value of an operand on a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperandValue<'d> {
    /// Depends on something missing, so there is no value.
    Invalid,
    /// A field without a value, or `null` itself.
    Null,
    Integer(i128),
    Float(f64),
    Text(Cow<'d, str>),
    /// The location of a document, which is compared with the id of a bucket.
    Location(Location),
    /// An existing value that cannot be compared: a tensor, bytes.
    Opaque,
    /// Elements of a collection, keys of a map, members of a struct: a comparison holds if it holds for one
    /// of them. Several, or under variables.
    Any(Vec<BoundValue<'d>>),
}

/// A single value, and the variables under which a path leads to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundValue<'d> {
    pub assignment: VariableAssignment<'d>,
    pub value: OperandValue<'d>,
}

impl SelectionOperand {
    pub fn find<'d>(&'d self, document: &'d Document, now_s: i64) -> OperandValue<'d> {
        match self {
            SelectionOperand::Null => OperandValue::Null,
            SelectionOperand::Bool(value) => OperandValue::Integer(i128::from(*value)),
            SelectionOperand::Integer(number) => OperandValue::Integer(*number),
            SelectionOperand::Float(number) => OperandValue::Float(*number),
            SelectionOperand::Text(text) => OperandValue::Text(Cow::Borrowed(text)),
            SelectionOperand::Now => OperandValue::Integer(i128::from(now_s)),
            SelectionOperand::Field(field) => field.find(document),
            // Only the first version was ever used.
            SelectionOperand::Version(name) if name == document.id.document_type() => {
                OperandValue::Integer(0)
            }
            SelectionOperand::Version(_) | SelectionOperand::Type(_) => OperandValue::Invalid,
            SelectionOperand::Id(part) => part.find(document),
            SelectionOperand::Arithmetic(operator, left, right) => {
                operator.apply(left.find(document, now_s), right.find(document, now_s))
            }
            SelectionOperand::Call(function, inner) => function.apply(inner.find(document, now_s)),
        }
    }
}

impl FieldReference {
    fn find<'d>(&'d self, document: &'d Document) -> OperandValue<'d> {
        if !self.is_of(document.id.document_type()) {
            return OperandValue::Invalid;
        }
        let Some(value) = document.get(&self.field) else { return OperandValue::Null };
        let mut found = Vec::new();
        walk(value, &self.steps, &VariableAssignment::default(), &mut found);
        match found.len() {
            0 => OperandValue::Null,
            1 if found[0].assignment.is_empty() => found.remove(0).value,
            _ => OperandValue::Any(found),
        }
    }
}

/// Adds the values that the path leads to: arrays are traversed without a step, and at its end collections
/// are taken apart.
fn walk<'d>(
    value: &'d DocumentValue,
    steps: &'d [SelectionStep],
    assignment: &VariableAssignment<'d>,
    found: &mut Vec<BoundValue<'d>>,
) {
    let Some((step, rest)) = steps.split_first() else { return add_leaves(value, assignment, found) };
    let mut add = |value| found.push(BoundValue { assignment: assignment.clone(), value });
    let inner = match (step, value) {
        (SelectionStep::Index(index), DocumentValue::Array(elements)) => elements.get(*index),
        (SelectionStep::Key(key), DocumentValue::Map(entries)) => {
            entries.iter().find(|(name, _)| is_key(name, key)).map(|(_, value)| value)
        }
        (SelectionStep::Key(key), DocumentValue::WeightedSet(elements)) => {
            let element = elements.iter().find(|(element, _)| is_key(element, key));
            return element.into_iter().for_each(|(_, weight)| add(weight_value(*weight)));
        }
        (SelectionStep::Member(name), DocumentValue::Struct(members)) => {
            members.iter().find(|(member, _)| **member == **name).map(|(_, value)| value)
        }
        (SelectionStep::Member(name), DocumentValue::Position { latitude, longitude }) => {
            let degrees = if name == "x" { longitude } else { latitude };
            return add(OperandValue::Integer(i128::from(*degrees)));
        }
        (SelectionStep::Member(_), DocumentValue::Array(elements)) => {
            return elements.iter().for_each(|element| walk(element, steps, assignment, found));
        }
        (SelectionStep::Member(name), DocumentValue::WeightedSet(elements)) if name == "value" => {
            return elements.iter().for_each(|(_, weight)| add(weight_value(*weight)));
        }
        (SelectionStep::Member(_), DocumentValue::WeightedSet(elements)) => {
            return elements.iter().for_each(|(element, _)| walk(element, rest, assignment, found));
        }
        (SelectionStep::Member(name), DocumentValue::Map(entries)) => {
            let part = |entry: &'d (DocumentValue, DocumentValue)| {
                if name == "value" { &entry.1 } else { &entry.0 }
            };
            return entries.iter().for_each(|entry| walk(part(entry), rest, assignment, found));
        }
        (SelectionStep::Variable(name), _) => return walk_variable(value, name, rest, assignment, found),
        _ => return add(OperandValue::Invalid),
    };
    if let Some(inner) = inner {
        walk(inner, rest, assignment, found);
    }
}

/// Walks on from each element that the variable can stand for.
fn walk_variable<'d>(
    value: &'d DocumentValue,
    variable: &'d str,
    rest: &'d [SelectionStep],
    assignment: &VariableAssignment<'d>,
    found: &mut Vec<BoundValue<'d>>,
) {
    let bound = assignment.get(variable);
    // The assignment under which the variable is this element, if it can be.
    let under = |element| match bound {
        None => Some(assignment.with(variable, element)),
        Some(same) => (same == element).then(|| assignment.clone()),
    };
    match value {
        DocumentValue::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                if let Some(assignment) = under(BoundElement::Index(at)) {
                    walk(element, rest, &assignment, found);
                }
            }
        }
        DocumentValue::Map(entries) => {
            for (key, value) in entries {
                if let Some(assignment) = under(BoundElement::Key(key)) {
                    walk(value, rest, &assignment, found);
                }
            }
        }
        DocumentValue::WeightedSet(elements) => {
            for (key, weight) in elements {
                if let Some(assignment) = under(BoundElement::Key(key)) {
                    found.push(BoundValue { assignment, value: weight_value(*weight) });
                }
            }
        }
        _ => found.push(BoundValue { assignment: assignment.clone(), value: OperandValue::Invalid }),
    }
}

fn weight_value<'d>(weight: i32) -> OperandValue<'d> {
    OperandValue::Integer(i128::from(weight))
}

fn is_key(value: &DocumentValue, key: &str) -> bool {
    match value {
        DocumentValue::String(text) => text == key,
        other => scalar::to_text(other).is_some_and(|text| text == key),
    }
}

/// Adds the single values in a value; of maps and weighted sets the keys.
fn add_leaves<'d>(
    value: &'d DocumentValue,
    assignment: &VariableAssignment<'d>,
    found: &mut Vec<BoundValue<'d>>,
) {
    let leaf = match value {
        DocumentValue::Bool(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Byte(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Int(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Long(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Float(value) => OperandValue::Float(f64::from(*value)),
        DocumentValue::Double(value) => OperandValue::Float(*value),
        DocumentValue::String(text) => OperandValue::Text(Cow::Borrowed(text)),
        // A struct of two numbers.
        DocumentValue::Position { latitude, longitude } => {
            return found.extend([longitude, latitude].map(|degrees| BoundValue {
                assignment: assignment.clone(),
                value: OperandValue::Integer(i128::from(*degrees)),
            }));
        }
        DocumentValue::Raw(_) | DocumentValue::Tensor(_) => OperandValue::Opaque,
        DocumentValue::Array(elements) => {
            return elements.iter().for_each(|element| add_leaves(element, assignment, found));
        }
        DocumentValue::WeightedSet(elements) => {
            return elements.iter().for_each(|(element, _)| add_leaves(element, assignment, found));
        }
        DocumentValue::Map(entries) => {
            return entries.iter().for_each(|(key, _)| add_leaves(key, assignment, found));
        }
        DocumentValue::Struct(members) => {
            return members.iter().for_each(|(_, value)| add_leaves(value, assignment, found));
        }
    };
    found.push(BoundValue { assignment: assignment.clone(), value: leaf });
}

impl IdPart {
    fn find(self, document: &Document) -> OperandValue<'_> {
        let id = &document.id;
        let text = |text| OperandValue::Text(Cow::Borrowed(text));
        match (self, id.group()) {
            (IdPart::Whole, _) => text(id.as_str()),
            (IdPart::Scheme, _) => text("id"),
            (IdPart::Namespace, _) => text(id.namespace()),
            (IdPart::Type, _) => text(id.document_type()),
            (IdPart::Specific, _) => text(id.name()),
            (IdPart::User, DocumentGroup::Number(number)) => OperandValue::Integer(i128::from(*number)),
            (IdPart::Group, DocumentGroup::Name(name)) => text(name),
            (IdPart::User | IdPart::Group, _) => OperandValue::Invalid,
            (IdPart::Bucket, _) => OperandValue::Location(id.location()),
            (IdPart::GlobalId, _) => OperandValue::Text(Cow::Owned(global_id(id))),
        }
    }
}

/// Text of the global id: the low 32 bits of the location, and the next eight bytes of the MD5 of the id.
fn global_id(id: &DocumentId) -> String {
    let low = (id.location().bits() as u32).to_le_bytes();
    let digest = Md5::digest(id.as_str().as_bytes());
    let mut text = "gid(0x".to_owned();
    for byte in low.iter().chain(&digest[4..12]) {
        text.push_str(&format!("{byte:02x}"));
    }
    text.push(')');
    text
}

impl SelectionArithmetic {
    /// Applies an operator: arithmetic on numbers, `+` concatenates texts; everything else is invalid.
    fn apply<'d>(self, left: OperandValue<'d>, right: OperandValue<'d>) -> OperandValue<'d> {
        let (left, right) = match (left, right) {
            (OperandValue::Integer(left), OperandValue::Integer(right)) => {
                let result = match self {
                    SelectionArithmetic::Add => left.checked_add(right),
                    SelectionArithmetic::Subtract => left.checked_sub(right),
                    SelectionArithmetic::Multiply => left.checked_mul(right),
                    SelectionArithmetic::Divide => left.checked_div(right),
                    SelectionArithmetic::Remainder => left.checked_rem(right),
                };
                return result.map_or(OperandValue::Invalid, OperandValue::Integer);
            }
            (OperandValue::Text(left), OperandValue::Text(right)) if self == SelectionArithmetic::Add => {
                return OperandValue::Text(left + right);
            }
            (OperandValue::Integer(left), OperandValue::Float(right)) => (left as f64, right),
            (OperandValue::Float(left), OperandValue::Integer(right)) => (left, right as f64),
            (OperandValue::Float(left), OperandValue::Float(right)) => (left, right),
            _ => return OperandValue::Invalid,
        };
        match self {
            SelectionArithmetic::Add => OperandValue::Float(left + right),
            SelectionArithmetic::Subtract => OperandValue::Float(left - right),
            SelectionArithmetic::Multiply => OperandValue::Float(left * right),
            SelectionArithmetic::Divide if right == 0.0 => OperandValue::Invalid,
            SelectionArithmetic::Divide => OperandValue::Float(left / right),
            SelectionArithmetic::Remainder => OperandValue::Invalid,
        }
    }
}

impl SelectionFunction {
    fn apply(self, inner: OperandValue<'_>) -> OperandValue<'_> {
        match (self, inner) {
            (SelectionFunction::Abs, OperandValue::Integer(number)) => {
                OperandValue::Integer(number.saturating_abs())
            }
            (SelectionFunction::Abs, OperandValue::Float(number)) => OperandValue::Float(number.abs()),
            (SelectionFunction::Lowercase, OperandValue::Text(text)) => {
                OperandValue::Text(Cow::Owned(text.to_lowercase()))
            }
            (SelectionFunction::Hash, OperandValue::Text(text)) => hash(text.as_bytes()),
            // Numbers are hashed as eight bytes, lowest first.
            (SelectionFunction::Hash, OperandValue::Integer(number)) => hash(&(number as i64).to_le_bytes()),
            (SelectionFunction::Hash, OperandValue::Float(number)) => hash(&number.to_le_bytes()),
            _ => OperandValue::Invalid,
        }
    }
}

/// First eight bytes of the MD5, lowest first, as a signed number.
fn hash<'d>(bytes: &[u8]) -> OperandValue<'d> {
    let digest = Md5::digest(bytes);
    let low = digest.iter().take(8).rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    OperandValue::Integer(i128::from(low as i64))
}
