//! Evaluation of operands on a document.

use std::borrow::Cow;

use md5::{Digest, Md5};
use millrace_document::{Document, DocumentGroup, DocumentValue, scalar};

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
    /// An existing value that cannot be compared: a tensor, bytes, a position.
    Opaque,
    /// Elements of a collection, or keys of a map: a comparison holds if it holds for one of them.
    Any(Vec<OperandValue<'d>>),
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
    fn find<'d>(&self, document: &'d Document) -> OperandValue<'d> {
        if document.id.document_type() != self.document_type {
            return OperandValue::Invalid;
        }
        match document.get(&self.field) {
            Some(value) => walk(value, &self.steps),
            None => OperandValue::Null,
        }
    }
}

fn walk<'d>(value: &'d DocumentValue, steps: &[SelectionStep]) -> OperandValue<'d> {
    let Some((step, rest)) = steps.split_first() else { return comparable(value) };
    let inner = match (step, value) {
        (SelectionStep::Index(index), DocumentValue::Array(elements)) => elements.get(*index),
        (SelectionStep::Key(key), DocumentValue::Map(entries)) => {
            entries.iter().find(|(name, _)| is_key(name, key)).map(|(_, value)| value)
        }
        (SelectionStep::Key(key), DocumentValue::WeightedSet(elements)) => {
            let found = elements.iter().find(|(element, _)| is_key(element, key));
            return found
                .map_or(OperandValue::Null, |(_, weight)| OperandValue::Integer(i128::from(*weight)));
        }
        (SelectionStep::Member(name), DocumentValue::Struct(members)) => {
            members.iter().find(|(member, _)| **member == **name).map(|(_, value)| value)
        }
        (SelectionStep::Member(_), DocumentValue::Array(elements)) => {
            return any(elements.iter().map(|element| walk(element, steps)));
        }
        (SelectionStep::Member(name), DocumentValue::WeightedSet(elements)) if name == "key" => {
            return any(elements.iter().map(|(element, _)| walk(element, rest)));
        }
        (SelectionStep::Member(name), DocumentValue::WeightedSet(elements)) if name == "value" => {
            let weight = |(_, weight): &(DocumentValue, i32)| OperandValue::Integer(i128::from(*weight));
            return any(elements.iter().map(weight));
        }
        (SelectionStep::Member(name), DocumentValue::Map(entries)) if name == "key" => {
            return any(entries.iter().map(|(key, _)| walk(key, rest)));
        }
        (SelectionStep::Member(name), DocumentValue::Map(entries)) if name == "value" => {
            return any(entries.iter().map(|(_, value)| walk(value, rest)));
        }
        _ => return OperandValue::Invalid,
    };
    inner.map_or(OperandValue::Null, |inner| walk(inner, rest))
}

fn is_key(value: &DocumentValue, key: &str) -> bool {
    match value {
        DocumentValue::String(text) => text == key,
        other => scalar::to_text(other).is_some_and(|text| text == key),
    }
}

fn any<'d>(found: impl Iterator<Item = OperandValue<'d>>) -> OperandValue<'d> {
    OperandValue::Any(found.filter(|found| *found != OperandValue::Null).collect())
}

fn comparable(value: &DocumentValue) -> OperandValue<'_> {
    match value {
        DocumentValue::Bool(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Byte(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Int(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Long(value) => OperandValue::Integer(i128::from(*value)),
        DocumentValue::Float(value) => OperandValue::Float(f64::from(*value)),
        DocumentValue::Double(value) => OperandValue::Float(*value),
        DocumentValue::String(text) => OperandValue::Text(Cow::Borrowed(text)),
        DocumentValue::Raw(_) | DocumentValue::Position { .. } | DocumentValue::Tensor(_) => {
            OperandValue::Opaque
        }
        DocumentValue::Array(elements) => any(elements.iter().map(comparable)),
        DocumentValue::WeightedSet(elements) => any(elements.iter().map(|(element, _)| comparable(element))),
        DocumentValue::Map(entries) => any(entries.iter().map(|(key, _)| comparable(key))),
        DocumentValue::Struct(members) => any(members.iter().map(|(_, value)| comparable(value))),
    }
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
            (IdPart::User | IdPart::Group, _) => OperandValue::Null,
        }
    }
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
                OperandValue::Text(Cow::Owned(text.to_ascii_lowercase()))
            }
            (SelectionFunction::Hash, OperandValue::Text(text)) => hash(text.as_bytes()),
            (SelectionFunction::Hash, OperandValue::Integer(number)) => hash(number.to_string().as_bytes()),
            (SelectionFunction::Hash, OperandValue::Float(number)) => hash(number.to_string().as_bytes()),
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
