//! Parser for the body of one operation and its fields.

use std::fmt;
use std::sync::Arc;

use millrace_tensor::json::SkippedValue;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};

use super::failure::FieldFailure;
use super::nesting::{DEPTH, too_deep};
use super::read::ValueSeed;
use super::update::read_field_update;
use crate::{
    Document, DocumentField, DocumentId, DocumentOperation, DocumentType, DocumentUpdate, DocumentValue,
    Error, FieldUpdate, OperationAction, OperationKind,
};

/// Options for parsing operations.
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions {
    /// True to skip fields that the document type, or a struct, lacks; otherwise they are errors.
    pub ignore_undefined_fields: bool,
    /// Maximum memory in bytes of the elements of all collections of a document, without their text: an
    /// element of two bytes of JSON takes many times that, and as much again while a list grows.
    pub element_bytes_max: usize,
}

impl Default for ParseOptions {
    /// Unknown fields are errors, and elements take at most 32 MB.
    fn default() -> Self {
        ParseOptions { ignore_undefined_fields: false, element_bytes_max: 32 << 20 }
    }
}

/// Reads the JSON of one operation on the document `id`: `fields`, `condition` and `create`. An id in the
/// JSON is skipped, because the caller has already read it; the JSON of a remove may be empty.
///
/// Fields that are null, empty text or an empty collection are absent from a put, and cleared by an
/// assignment.
///
/// # Errors
/// [`Error::Json`], [`Error::Field`], [`Error::UnknownField`] or [`Error::Path`], with the position in
/// `json`.
pub fn parse(
    json: &[u8],
    kind: OperationKind,
    id: DocumentId,
    document_type: &DocumentType,
    options: ParseOptions,
) -> Result<DocumentOperation, Error> {
    if kind == OperationKind::Remove && json.trim_ascii().is_empty() {
        return Ok(DocumentOperation {
            action: OperationAction::Remove(id),
            condition: None,
            create: false,
            ignored_fields: false,
        });
    }
    let at_place = |at: usize, reason: String| {
        let before = &json[..at];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        Error::Json { reason, line, column: before.len() - line_start + 1 }
    };
    let text = std::str::from_utf8(json)
        .map_err(|error| at_place(error.valid_up_to(), "the text is not UTF-8".to_owned()))?;
    if let Some(at) = too_deep(json) {
        return Err(at_place(at, format!("an operation is nested deeper than {DEPTH}")));
    }
    let failure = FieldFailure::new(options);
    let reader = OperationJsonReader { document_type, failure: &failure };
    let mut deserializer = sonic_rs::Deserializer::from_str(text);
    let body = reader.body(kind).deserialize(&mut deserializer).and_then(|body| {
        deserializer.end()?;
        Ok(body)
    });
    let body = match body {
        Ok(body) => body,
        Err(error) => return Err(failure.into_error(&error, document_type)),
    };
    let action = match body.fields {
        OperationFields::Values(fields) => OperationAction::Put(Document { id, fields }),
        OperationFields::Updates(fields) => OperationAction::Update(DocumentUpdate { id, fields }),
        OperationFields::None => OperationAction::Remove(id),
    };
    Ok(DocumentOperation {
        action,
        condition: body.condition,
        create: body.create,
        ignored_fields: failure.has_skipped(),
    })
}

/// Shared state of all readers of one operation.
#[derive(Clone, Copy)]
struct OperationJsonReader<'a> {
    document_type: &'a DocumentType,
    failure: &'a FieldFailure,
}

impl<'a> OperationJsonReader<'a> {
    fn body(self, kind: OperationKind) -> BodySeed<'a> {
        BodySeed { reader: self, kind }
    }
}

struct OperationBody {
    fields: OperationFields,
    condition: Option<String>,
    create: bool,
}

enum OperationFields {
    None,
    Values(Vec<(Arc<str>, DocumentValue)>),
    Updates(Vec<FieldUpdate>),
}

struct BodySeed<'a> {
    reader: OperationJsonReader<'a>,
    kind: OperationKind,
}

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = OperationBody;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<OperationBody, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = OperationBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            OperationKind::Put => r#"a put, for example {"fields": {"title": "text"}}"#,
            OperationKind::Update => r#"an update, for example {"fields": {"title": {"assign": "text"}}}"#,
            OperationKind::Remove => r#"a remove, for example {"condition": "music.year < 2000"}"#,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OperationBody, A::Error> {
        let mut body = OperationBody { fields: OperationFields::None, condition: None, create: false };
        let mut unknown = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "fields" => match self.kind {
                    OperationKind::Put => {
                        body.fields = OperationFields::Values(map.next_value_seed(FieldsSeed(self.reader))?)
                    }
                    OperationKind::Update => {
                        body.fields =
                            OperationFields::Updates(map.next_value_seed(UpdatesSeed(self.reader))?);
                    }
                    OperationKind::Remove => drop(map.next_value::<SkippedValue>()?),
                },
                // As in Vespa, an empty one is none.
                "condition" => {
                    body.condition = map.next_value::<Option<String>>()?.filter(|text| !text.is_empty());
                }
                "create" => body.create = map.next_value::<Option<bool>>()?.unwrap_or(false),
                "put" | "update" | "remove" | "id" | "pathId" => drop(map.next_value::<SkippedValue>()?),
                // Others are skipped, as in Vespa: clients keep notes of their own beside the fields.
                _ => {
                    map.next_value::<SkippedValue>()?;
                    unknown.get_or_insert(key);
                }
            }
        }
        let has_fields = !matches!(body.fields, OperationFields::None) || self.kind == OperationKind::Remove;
        match unknown {
            _ if has_fields => Ok(body),
            Some(key) => Err(A::Error::custom(format!(
                "unknown member '{key}' of an operation, which has fields, condition and create"
            ))),
            None => Err(A::Error::missing_field("fields")),
        }
    }
}

/// The `fields` of a put.
struct FieldsSeed<'a>(OperationJsonReader<'a>);

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Vec<(Arc<str>, DocumentValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Vec<(Arc<str>, DocumentValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"fields with values, for example {"title": "text"}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let reader = self.0;
        let mut fields: Vec<(Arc<str>, DocumentValue)> =
            Vec::with_capacity(reader.document_type.fields().len().min(64));
        while let Some(field) = map.next_key_seed(FieldName(reader))? {
            let Some(field) = field else {
                map.next_value::<SkippedValue>()?;
                continue;
            };
            let seed = ValueSeed { data_type: &field.data_type, failure: reader.failure };
            let value = reader.failure.within(map.next_value_seed(seed), || field.name.to_string())?;
            // The last of several values of one field wins, as in any JSON reader.
            fields.retain(|(name, _)| !Arc::ptr_eq(name, &field.name));
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                fields.push((Arc::clone(&field.name), value));
            }
        }
        Ok(fields)
    }
}

/// The name of a field: `None` if it is unknown and may be skipped.
struct FieldName<'a>(OperationJsonReader<'a>);

impl<'de, 'a> DeserializeSeed<'de> for FieldName<'a> {
    type Value = Option<&'a DocumentField>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for FieldName<'a> {
    type Value = Option<&'a DocumentField>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.0.document_type.field(name);
        if field.is_none() && !self.0.failure.skips_unknown() {
            self.0.failure.at_unknown_field(name);
            return Err(E::custom("unknown field"));
        }
        Ok(field)
    }
}

/// The `fields` of an update.
struct UpdatesSeed<'a>(OperationJsonReader<'a>);

impl<'de> DeserializeSeed<'de> for UpdatesSeed<'_> {
    type Value = Vec<FieldUpdate>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UpdatesSeed<'_> {
    type Value = Vec<FieldUpdate>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"fields with operations, for example {"title": {"assign": "text"}}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let OperationJsonReader { document_type, failure } = self.0;
        let mut updates = Vec::new();
        while let Some(path) = map.next_key::<String>()? {
            let name = &path[..path.find(['{', '[', '.']).unwrap_or(path.len())];
            if document_type.field(name).is_none() {
                if failure.skips_unknown() {
                    map.next_value::<SkippedValue>()?;
                    continue;
                }
                failure.at_unknown_field(name);
                return Err(A::Error::custom("unknown field"));
            }
            let read = read_field_update(&mut map, &path, document_type, failure, &mut updates);
            failure.within(read, || path)?;
        }
        Ok(updates)
    }
}
