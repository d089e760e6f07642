use std::fmt;
use std::sync::Arc;

use md5::{Digest, Md5};
use millrace_document::{DocumentId, DocumentValue, json};
use millrace_result::{FeatureValue, FieldValue, ResultHit};
use millrace_tensor::json::TensorFormat;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::RenderOptions;
use crate::number::special;

/// A hit with its document fields.
pub(crate) struct HitJson<'a> {
    pub(crate) hit: &'a ResultHit,
    pub(crate) options: &'a RenderOptions,
}

impl Serialize for HitJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hit = self.hit;
        let mut map = serializer.serialize_map(None)?;
        match hit.fields.iter().find(|(name, _)| &**name == "documentid") {
            Some((_, FieldValue::Value(DocumentValue::String(id)))) => map.serialize_entry("id", id)?,
            _ => map.serialize_entry("id", &index_id(&hit.source, &hit.id))?,
        }
        map.serialize_entry("relevance", &JsonFloat(hit.relevance))?;
        map.serialize_entry("source", &*hit.source)?;
        if hit.fields.iter().any(|(_, value)| has_form(value)) {
            map.serialize_entry("fields", &HitFields { fields: &hit.fields, options: self.options })?;
        }
        map.end()
    }
}

/// Id of a hit whose summary has no document id: `index:[source]/[node]/[global id]`. The global id consists
/// of the first 12 bytes of the id's MD5, the first 4 of which are replaced by the low bits of its location.
fn index_id(source: &str, id: &DocumentId) -> String {
    let mut global_id: [u8; 16] = Md5::digest(id.as_str().as_bytes()).into();
    global_id[..4].copy_from_slice(&(id.location().bits() as u32).to_le_bytes());
    let mut text = format!("index:{source}/0/");
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    text.extend(global_id[..12].iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]));
    text
}

/// False for a field whose number is NaN. It is left out, as in Vespa, whose content nodes say by it that a
/// field has no value.
pub(crate) fn has_form(value: &FieldValue) -> bool {
    match value {
        FieldValue::Value(DocumentValue::Float(number)) => !number.is_nan(),
        FieldValue::Value(DocumentValue::Double(number)) => !number.is_nan(),
        _ => true,
    }
}

struct HitFields<'a> {
    fields: &'a [(Arc<str>, FieldValue)],
    options: &'a RenderOptions,
}

impl Serialize for HitFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = || self.fields.iter().filter(|(_, value)| has_form(value));
        let mut map = serializer.serialize_map(Some(shown().count()))?;
        for (name, value) in shown() {
            map.serialize_key(&**name)?;
            match value {
                FieldValue::Value(DocumentValue::Map(entries)) if has_text_keys(entries) => {
                    map.serialize_value(&EntriesInHit { entries, options: self.options })?;
                }
                FieldValue::Value(value) => {
                    map.serialize_value(&ValueInHit { value, options: self.options })?;
                }
                FieldValue::Features(features) => {
                    map.serialize_value(&NamedFeatures { features, tensors: self.options.tensors })?;
                }
                FieldValue::Strings(strings) => map.serialize_value(strings)?,
            }
        }
        map.end()
    }
}

/// A value in the document JSON format, except for maps and sets that are written as lists, and raw values
/// that are written as hexadecimal digits.
struct ValueInHit<'a> {
    value: &'a DocumentValue,
    options: &'a RenderOptions,
}

impl Serialize for ValueInHit<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = self.options;
        let inside = |value| ValueInHit { value, options };
        match self.value {
            _ if options.is_of_documents() => json::value(self.value, options.tensors).serialize(serializer),
            DocumentValue::Raw(bytes) if options.raw_as_hex => serializer.collect_str(&HexText(bytes)),
            DocumentValue::Array(elements) => serializer.collect_seq(elements.iter().map(inside)),
            DocumentValue::Struct(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (&**name, inside(value))))
            }
            DocumentValue::Map(entries) if options.maps_as_lists => {
                serializer.collect_seq(entries.iter().map(|(key, value)| TwoMembers {
                    names: ["key", "value"],
                    both: (inside(key), inside(value)),
                }))
            }
            DocumentValue::Map(entries) => EntriesInHit { entries, options }.serialize(serializer),
            DocumentValue::WeightedSet(elements) if options.sets_as_lists => {
                serializer.collect_seq(elements.iter().map(|(item, weight)| TwoMembers {
                    names: ["item", "weight"],
                    both: (inside(item), *weight),
                }))
            }
            other => json::value(other, options.tensors).serialize(serializer),
        }
    }
}

/// True if all keys are texts. A field with such a map is an object in any case: the option is for maps with
/// other keys, and for those inside of other values.
fn has_text_keys(entries: &[(DocumentValue, DocumentValue)]) -> bool {
    entries.iter().all(|(key, _)| matches!(key, DocumentValue::String(_)))
}

/// Entries of a map as an object.
struct EntriesInHit<'a> {
    entries: &'a [(DocumentValue, DocumentValue)],
    options: &'a RenderOptions,
}

impl Serialize for EntriesInHit<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = self.options;
        serializer.collect_map(
            self.entries.iter().map(|(key, value)| (json::key(key), ValueInHit { value, options })),
        )
    }
}

/// Bytes as `0x` and two hexadecimal digits each.
struct HexText<'a>(&'a [u8]);

impl fmt::Display for HexText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// An object with two members.
struct TwoMembers<A, B> {
    names: [&'static str; 2],
    both: (A, B),
}

impl<A: Serialize, B: Serialize> Serialize for TwoMembers<A, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(self.names[0], &self.both.0)?;
        map.serialize_entry(self.names[1], &self.both.1)?;
        map.end()
    }
}

/// Rank features by name. Numbers that JSON cannot represent are `null`, as in Vespa.
pub(crate) struct NamedFeatures<'a> {
    pub(crate) features: &'a [(Arc<str>, FeatureValue)],
    pub(crate) tensors: TensorFormat,
}

impl Serialize for NamedFeatures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.features.len()))?;
        for (name, feature) in self.features {
            match feature {
                FeatureValue::Number(value) => {
                    map.serialize_entry(&**name, &value.is_finite().then_some(JsonFloat(*value)))?;
                }
                FeatureValue::Tensor(tensor) => {
                    map.serialize_entry(&**name, &tensor.rendered(self.tensors))?
                }
            }
        }
        map.end()
    }
}

/// A float; text if JSON cannot represent it.
pub(crate) struct JsonFloat(pub(crate) f64);

impl Serialize for JsonFloat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match special(self.0) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_f64(self.0),
        }
    }
}
