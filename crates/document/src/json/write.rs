use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_tensor::json::TensorFormat;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::{Document, DocumentType, DocumentValue, FieldSet, scalar};

/// The fields of a document in a field set, serialized as the object under `fields`.
///
/// Without a `document_type` (if its schema was removed), all fields count as the document's own.
pub const fn fields<'a>(
    document: &'a Document,
    document_type: Option<&'a DocumentType>,
    field_set: &'a FieldSet,
    tensors: TensorFormat,
) -> FieldsJson<'a> {
    FieldsJson { document, document_type, field_set, tensors }
}

/// A value serialized as JSON, with the given tensor format.
pub const fn value(value: &DocumentValue, tensors: TensorFormat) -> ValueJson<'_> {
    ValueJson { value, tensors }
}

/// See [`fields`].
#[derive(Debug, Clone, Copy)]
pub struct FieldsJson<'a> {
    document: &'a Document,
    document_type: Option<&'a DocumentType>,
    field_set: &'a FieldSet,
    tensors: TensorFormat,
}

impl Serialize for FieldsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.document.fields {
            let shown = match self.document_type {
                Some(document_type) => self.field_set.contains(document_type, name),
                None => matches!(self.field_set, FieldSet::All | FieldSet::Document),
            };
            if shown {
                map.serialize_entry(&**name, &ValueJson { value, tensors: self.tensors })?;
            }
        }
        map.end()
    }
}

/// See [`value`].
#[derive(Debug, Clone, Copy)]
pub struct ValueJson<'a> {
    value: &'a DocumentValue,
    tensors: TensorFormat,
}

impl Serialize for ValueJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = |value| ValueJson { value, tensors: self.tensors };
        match self.value {
            DocumentValue::Bool(value) => serializer.serialize_bool(*value),
            DocumentValue::Byte(value) => serializer.serialize_i8(*value),
            DocumentValue::Int(value) => serializer.serialize_i32(*value),
            DocumentValue::Long(value) => serializer.serialize_i64(*value),
            DocumentValue::Float(value) if value.is_finite() => serializer.serialize_f32(*value),
            DocumentValue::Double(value) if value.is_finite() => serializer.serialize_f64(*value),
            DocumentValue::Float(value) => serializer.serialize_str(special_name(f64::from(*value))),
            DocumentValue::Double(value) => serializer.serialize_str(special_name(*value)),
            DocumentValue::String(text) => serializer.serialize_str(text),
            DocumentValue::Raw(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            DocumentValue::Position { latitude, longitude } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("lat", &(f64::from(*latitude) / 1e6))?;
                map.serialize_entry("lng", &(f64::from(*longitude) / 1e6))?;
                map.end()
            }
            DocumentValue::Tensor(tensor) => tensor.rendered(self.tensors).serialize(serializer),
            DocumentValue::Array(values) => {
                let mut seq = serializer.serialize_seq(Some(values.len()))?;
                values.iter().try_for_each(|value| seq.serialize_element(&inner(value)))?;
                seq.end()
            }
            DocumentValue::WeightedSet(elements) => {
                let mut map = serializer.serialize_map(Some(elements.len()))?;
                for (element, weight) in elements {
                    map.serialize_entry(&key(element), weight)?;
                }
                map.end()
            }
            DocumentValue::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    map.serialize_entry(&key(name), &inner(value))?;
                }
                map.end()
            }
            DocumentValue::Struct(members) => serialize_members(members, self.tensors, serializer),
        }
    }
}

fn serialize_members<S: Serializer>(
    members: &[(Arc<str>, DocumentValue)],
    tensors: TensorFormat,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (name, value) in members {
        map.serialize_entry(&**name, &ValueJson { value, tensors })?;
    }
    map.end()
}

/// A key as JSON text. Keys are single values; a compound one can only come from a damaged row, and is
/// written as empty.
pub fn key(value: &DocumentValue) -> Cow<'_, str> {
    match value {
        DocumentValue::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(scalar::to_text(value).unwrap_or_default()),
    }
}

/// Text of a number that JSON cannot represent.
const fn special_name(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}
