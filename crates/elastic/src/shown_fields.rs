//! Values of fields beside the source of a hit, in the types of their fields: `fields` and `docvalue_fields`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::dates::DateText;
use crate::evaluation::{FieldValueKind, kind_of, number_of, stored_number};
use crate::fields::all_at;
use crate::mapping::{all_fields, field_at, is_object, is_searched, type_of};
use crate::patterns::glob;
use crate::query::text_of;
use crate::sort_keys::HitSortKey;

/// A field that is asked for, by its name or a pattern, with the format of its dates.
pub(crate) type RequestedField = (String, Option<String>);

/// Types whose values are texts, whatever was sent.
const TEXT_TYPES: [&str; 7] =
    ["keyword", "constant_keyword", "wildcard", "version", "text", "match_only_text", "search_as_you_type"];

/// Checks that `docvalue_fields` has no texts: they have words, and no values. Patterns pass over them.
///
/// # Errors
/// One is a text without `fielddata`.
pub(crate) fn check_doc_fields(
    requested: &[RequestedField],
    mappings: &Map<String, Value>,
) -> Result<(), Error> {
    for (name, _) in requested {
        let Some((definition, _)) = field_at(mappings, name) else { continue };
        let is_text = kind_of(type_of(definition)) == FieldValueKind::Text;
        if is_text && definition.get("fielddata") != Some(&Value::Bool(true)) {
            return Err(Error::IllegalArgument(format!(
                "Text fields are not optimised for operations that require per-document field data like aggregations and \
                 sorting, so [docvalue_fields] has no [{name}]; use a keyword field, or [fields]"
            )));
        }
    }
    Ok(())
}

/// Values of the fields that are asked for: sorted, and each once, as `docvalue_fields` has them.
pub(crate) fn doc_values(
    requested: &[RequestedField],
    mappings: &Map<String, Value>,
    document: &Map<String, Value>,
) -> Map<String, Value> {
    let mut shown = Map::new();
    for field in each(requested, mappings) {
        let kind = kind_of(type_of(field.definition));
        let mut values = field.values(document, 0);
        values.sort_by(|(left, _), (right, _)| match (left, right) {
            (Some(left), Some(right)) => left.compare(right, false),
            // Those without a place in the order come last.
            _ => left.is_none().cmp(&right.is_none()),
        });
        if matches!(kind, FieldValueKind::Keyword | FieldValueKind::Ip | FieldValueKind::Version) {
            values.dedup();
        }
        field.insert(values, 0, &mut shown);
    }
    shown
}

/// Values of the fields that are asked for: in the order of the document, and those of nested objects by
/// their objects, as `fields` has them.
pub(crate) fn values(
    requested: &[RequestedField],
    mappings: &Map<String, Value>,
    document: &Map<String, Value>,
) -> Map<String, Value> {
    let mut shown = Map::new();
    for field in each(requested, mappings) {
        field.add(document, 0, &mut shown);
    }
    shown.retain(|name, value| {
        let definition = field_at(mappings, name).map(|(definition, _)| definition);
        definition.is_none_or(|definition| type_of(definition) != "nested") || has_parts(value)
    });
    shown
}

/// Leaves objects out of those of nested fields that have no values; false if none is left.
fn has_parts(value: &mut Value) -> bool {
    let Value::Array(parts) = value else { return true };
    if !parts.iter().all(Value::is_object) {
        return true;
    }
    parts.retain_mut(|part| {
        part.as_object_mut().is_some_and(|part| {
            part.retain(|_, value| has_parts(value));
            !part.is_empty()
        })
    });
    !parts.is_empty()
}

/// A field of an index that is shown.
struct MappedField<'m> {
    path: String,
    /// Path of its values in documents.
    source_path: String,
    definition: &'m Map<String, Value>,
    format: Option<&'m str>,
    /// Ends of the paths of nested objects around it.
    nested: Vec<usize>,
}

/// The fields of an index that are asked for, each once: the format that is asked for last counts.
fn each<'m>(requested: &'m [RequestedField], mappings: &'m Map<String, Value>) -> Vec<MappedField<'m>> {
    let mut fields: Vec<MappedField<'m>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let has_patterns = requested.iter().any(|(pattern, _)| pattern.contains('*'));
    let all = if has_patterns { all_fields(mappings) } else { Vec::new() };
    for (pattern, format) in requested {
        let paths: Vec<String> = match pattern.contains('*') {
            true => all.iter().map(|(path, _)| path).filter(|path| glob(pattern, path)).cloned().collect(),
            false => vec![pattern.clone()],
        };
        for path in paths {
            let Some((definition, source_path)) = field_at(mappings, &path) else { continue };
            if is_object(type_of(definition)) {
                continue;
            }
            let ends = source_path.match_indices('.').map(|(at, _)| at).filter(|end| {
                let around = field_at(mappings, &source_path[..*end]);
                path.starts_with(&source_path[..=*end])
                    && around.is_some_and(|(definition, _)| type_of(definition) == "nested")
            });
            let nested: Vec<usize> = ends.collect();
            let field = MappedField { path, source_path, definition, format: format.as_deref(), nested };
            match places.get(&field.path) {
                Some(place) => fields[*place] = field,
                None => {
                    places.insert(field.path.clone(), fields.len());
                    fields.push(field);
                }
            }
        }
    }
    fields
}

impl MappedField<'_> {
    /// Adds the values in a document, or in the nested object in which the path goes on at `from`.
    fn add(&self, document: &Map<String, Value>, from: usize, shown: &mut Map<String, Value>) {
        let Some(end) = self.nested.iter().find(|end| **end > from) else {
            return self.insert(self.values(document, from), from, shown);
        };
        let name = &self.source_path[from..*end];
        let objects: Vec<&Map<String, Value>> =
            all_at(document, name).into_iter().filter_map(Value::as_object).collect();
        let parts = shown.entry(name).or_insert_with(|| vec![json!({}); objects.len()].into());
        let parts = parts.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        for (object, part) in objects.into_iter().zip(parts) {
            self.add(object, end + 1, part);
        }
    }

    fn insert(&self, values: Vec<(Option<HitSortKey>, Value)>, from: usize, shown: &mut Map<String, Value>) {
        if !values.is_empty() {
            let values = values.into_iter().map(|(_, value)| value).collect();
            shown.insert(self.path[from..].to_owned(), Value::Array(values));
        }
    }

    /// Values with the keys by which they are sorted.
    fn values(&self, document: &Map<String, Value>, from: usize) -> Vec<(Option<HitSortKey>, Value)> {
        let all = all_at(document, &self.source_path[from..]).into_iter();
        all.filter(|value| is_searched(self.definition, value))
            .filter_map(|value| self.typed(value))
            .collect()
    }

    /// A value in the type of the field; `None` if it does not fit.
    fn typed(&self, value: &Value) -> Option<(Option<HitSortKey>, Value)> {
        let field_type = type_of(self.definition);
        let kind = kind_of(field_type);
        let typed: Value = match kind {
            FieldValueKind::Date => {
                let own = self.definition.get("format").and_then(Value::as_str);
                let millis = DateText::parse_value(value, own)?;
                let text = DateText::write(millis, self.format.or(own), &jiff::tz::TimeZone::UTC);
                return Some((Some(HitSortKey::Date(millis, None)), text.into()));
            }
            FieldValueKind::Number if field_type.contains("float") || field_type == "double" => {
                number_of(value)?.into()
            }
            FieldValueKind::Number => match &*stored_number(self.definition, value) {
                Value::String(text) => match text.trim().parse::<i64>() {
                    Ok(number) => number.into(),
                    Err(_) => text.trim().parse::<u64>().ok()?.into(),
                },
                number => number.is_number().then(|| number.clone())?,
            },
            FieldValueKind::Boolean => match value {
                Value::String(text) => (text == "true").into(),
                other => other.clone(),
            },
            _ if TEXT_TYPES.contains(&field_type) && !value.is_object() => text_of(value).into(),
            _ => value.clone(),
        };
        Some((HitSortKey::of_kind(&typed, kind, &[]), typed))
    }
}
