//! Evaluation of operands on a document.

use std::borrow::Cow;

use md5::{Digest, Md5};
use millrace_document::{Document, Group, Value, scalar};

use crate::expression::{Arithmetic, FieldReference, Function, IdPart, Operand, Step};

/// Value of an operand on a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found<'d> {
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
    Any(Vec<Found<'d>>),
}

impl Operand {
    pub fn find<'d>(&'d self, document: &'d Document, now_s: i64) -> Found<'d> {
        match self {
            Operand::Null => Found::Null,
            Operand::Bool(value) => Found::Integer(i128::from(*value)),
            Operand::Integer(number) => Found::Integer(*number),
            Operand::Float(number) => Found::Float(*number),
            Operand::Text(text) => Found::Text(Cow::Borrowed(text)),
            Operand::Now => Found::Integer(i128::from(now_s)),
            Operand::Field(field) => field.find(document),
            // Only the first version was ever used.
            Operand::Version(name) if name == document.id.document_type() => Found::Integer(0),
            Operand::Version(_) | Operand::Type(_) => Found::Invalid,
            Operand::Id(part) => part.find(document),
            Operand::Arithmetic(operator, left, right) => {
                operator.apply(left.find(document, now_s), right.find(document, now_s))
            }
            Operand::Call(function, inner) => function.apply(inner.find(document, now_s)),
        }
    }
}

impl FieldReference {
    fn find<'d>(&self, document: &'d Document) -> Found<'d> {
        if document.id.document_type() != self.document_type {
            return Found::Invalid;
        }
        match document.get(&self.field) {
            Some(value) => walk(value, &self.steps),
            None => Found::Null,
        }
    }
}

fn walk<'d>(value: &'d Value, steps: &[Step]) -> Found<'d> {
    let Some((step, rest)) = steps.split_first() else { return comparable(value) };
    let inner = match (step, value) {
        (Step::Index(index), Value::Array(elements)) => elements.get(*index),
        (Step::Key(key), Value::Map(entries)) => {
            entries.iter().find(|(name, _)| is_key(name, key)).map(|(_, value)| value)
        }
        (Step::Key(key), Value::WeightedSet(elements)) => {
            let found = elements.iter().find(|(element, _)| is_key(element, key));
            return found.map_or(Found::Null, |(_, weight)| Found::Integer(i128::from(*weight)));
        }
        (Step::Member(name), Value::Struct(members)) => {
            members.iter().find(|(member, _)| **member == **name).map(|(_, value)| value)
        }
        (Step::Member(_), Value::Array(elements)) => {
            return any(elements.iter().map(|element| walk(element, steps)));
        }
        (Step::Member(name), Value::WeightedSet(elements)) if name == "key" => {
            return any(elements.iter().map(|(element, _)| walk(element, rest)));
        }
        (Step::Member(name), Value::WeightedSet(elements)) if name == "value" => {
            let weight = |(_, weight): &(Value, i32)| Found::Integer(i128::from(*weight));
            return any(elements.iter().map(weight));
        }
        (Step::Member(name), Value::Map(entries)) if name == "key" => {
            return any(entries.iter().map(|(key, _)| walk(key, rest)));
        }
        (Step::Member(name), Value::Map(entries)) if name == "value" => {
            return any(entries.iter().map(|(_, value)| walk(value, rest)));
        }
        _ => return Found::Invalid,
    };
    inner.map_or(Found::Null, |inner| walk(inner, rest))
}

fn is_key(value: &Value, key: &str) -> bool {
    match value {
        Value::String(text) => text == key,
        other => scalar::to_text(other).is_some_and(|text| text == key),
    }
}

fn any<'d>(found: impl Iterator<Item = Found<'d>>) -> Found<'d> {
    Found::Any(found.filter(|found| *found != Found::Null).collect())
}

fn comparable(value: &Value) -> Found<'_> {
    match value {
        Value::Bool(value) => Found::Integer(i128::from(*value)),
        Value::Byte(value) => Found::Integer(i128::from(*value)),
        Value::Int(value) => Found::Integer(i128::from(*value)),
        Value::Long(value) => Found::Integer(i128::from(*value)),
        Value::Float(value) => Found::Float(f64::from(*value)),
        Value::Double(value) => Found::Float(*value),
        Value::String(text) => Found::Text(Cow::Borrowed(text)),
        Value::Raw(_) | Value::Position { .. } | Value::Tensor(_) => Found::Opaque,
        Value::Array(elements) => any(elements.iter().map(comparable)),
        Value::WeightedSet(elements) => any(elements.iter().map(|(element, _)| comparable(element))),
        Value::Map(entries) => any(entries.iter().map(|(key, _)| comparable(key))),
        Value::Struct(members) => any(members.iter().map(|(_, value)| comparable(value))),
    }
}

impl IdPart {
    fn find(self, document: &Document) -> Found<'_> {
        let id = &document.id;
        let text = |text| Found::Text(Cow::Borrowed(text));
        match (self, id.group()) {
            (IdPart::Whole, _) => text(id.as_str()),
            (IdPart::Scheme, _) => text("id"),
            (IdPart::Namespace, _) => text(id.namespace()),
            (IdPart::Type, _) => text(id.document_type()),
            (IdPart::Specific, _) => text(id.name()),
            (IdPart::User, Group::Number(number)) => Found::Integer(i128::from(*number)),
            (IdPart::Group, Group::Name(name)) => text(name),
            (IdPart::User | IdPart::Group, _) => Found::Null,
        }
    }
}

impl Arithmetic {
    /// Applies an operator: arithmetic on numbers, `+` concatenates texts; everything else is invalid.
    fn apply<'d>(self, left: Found<'d>, right: Found<'d>) -> Found<'d> {
        let (left, right) = match (left, right) {
            (Found::Integer(left), Found::Integer(right)) => {
                let result = match self {
                    Arithmetic::Add => left.checked_add(right),
                    Arithmetic::Subtract => left.checked_sub(right),
                    Arithmetic::Multiply => left.checked_mul(right),
                    Arithmetic::Divide => left.checked_div(right),
                    Arithmetic::Remainder => left.checked_rem(right),
                };
                return result.map_or(Found::Invalid, Found::Integer);
            }
            (Found::Text(left), Found::Text(right)) if self == Arithmetic::Add => {
                return Found::Text(left + right);
            }
            (Found::Integer(left), Found::Float(right)) => (left as f64, right),
            (Found::Float(left), Found::Integer(right)) => (left, right as f64),
            (Found::Float(left), Found::Float(right)) => (left, right),
            _ => return Found::Invalid,
        };
        match self {
            Arithmetic::Add => Found::Float(left + right),
            Arithmetic::Subtract => Found::Float(left - right),
            Arithmetic::Multiply => Found::Float(left * right),
            Arithmetic::Divide if right == 0.0 => Found::Invalid,
            Arithmetic::Divide => Found::Float(left / right),
            Arithmetic::Remainder => Found::Invalid,
        }
    }
}

impl Function {
    fn apply(self, inner: Found<'_>) -> Found<'_> {
        match (self, inner) {
            (Function::Abs, Found::Integer(number)) => Found::Integer(number.saturating_abs()),
            (Function::Abs, Found::Float(number)) => Found::Float(number.abs()),
            (Function::Lowercase, Found::Text(text)) => Found::Text(Cow::Owned(text.to_ascii_lowercase())),
            (Function::Hash, Found::Text(text)) => hash(text.as_bytes()),
            (Function::Hash, Found::Integer(number)) => hash(number.to_string().as_bytes()),
            (Function::Hash, Found::Float(number)) => hash(number.to_string().as_bytes()),
            _ => Found::Invalid,
        }
    }
}

/// First eight bytes of the MD5, lowest first, as a signed number.
fn hash<'d>(bytes: &[u8]) -> Found<'d> {
    let digest = Md5::digest(bytes);
    let low = digest.iter().take(8).rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Found::Integer(i128::from(low as i64))
}
