//! The form in which searches read documents: values by the parameters of their fields.
//!
//! `copy_to` gives a field the values of others, `null_value` stands where a document has null, `normalizer`
//! and `scaling_factor` change values, a `token_count` has the number of words, and a `constant_keyword` is
//! in all documents. What a search shows is the document as it was sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::catalog::OpenIndex;
use crate::evaluation::number_of;
use crate::fields::{all_at, names_of};
use crate::mapping::{self, all_fields, field_at, is_part_of_formed, nested_around, type_of};
use crate::normalizer::ValueNormalizer;
use crate::query::text_of;
use crate::text_division::TextDivision;

impl OpenIndex {
    /// True if its mapping has objects that pass their fields through.
    pub(crate) fn passes_fields(&self) -> bool {
        *self.passes_fields.get_or_init(|| mapping::passes_fields(&self.entry.mappings))
    }

    /// Definition of a field, with the name that its values have in the form in which searches read
    /// documents.
    pub(crate) fn searched_at(&self, field: &str) -> Option<(&Map<String, Value>, String)> {
        mapping::searched_at(&self.entry.mappings, field, self.passes_fields())
    }
}

/// Parameters that change the values of a field.
const FORMING: [&str; 3] = ["normalizer", "null_value", "scaling_factor"];

/// True if searches read the values of a field in a form of their own.
pub(crate) fn is_formed(definition: &Map<String, Value>) -> bool {
    definition.keys().any(|name| FORMING.contains(&name.as_str()))
        || type_of(definition) == "token_count"
        || constant_of(definition).is_some()
}

/// Value that all documents have in a field.
fn constant_of(definition: &Map<String, Value>) -> Option<&Value> {
    definition.get("value").filter(|_| type_of(definition) == "constant_keyword")
}

fn is_copied(definition: &Map<String, Value>) -> bool {
    definition.contains_key("copy_to")
}

/// True if a mapping, or an object in it, has a field that passes a test.
fn has_field(mappings: &Map<String, Value>, test: fn(&Map<String, Value>) -> bool) -> bool {
    let below = |name: &str| mappings.get(name).and_then(Value::as_object).into_iter().flatten();
    let mut fields = below("properties").chain(below("fields")).filter_map(|(_, field)| field.as_object());
    fields.any(|field| test(field) || has_field(field, test))
}

/// Source paths whose values are copied to one of some fields.
pub(crate) fn copied_to(mappings: &Map<String, Value>, targets: &[String]) -> Vec<String> {
    if !has_field(mappings, is_copied) {
        return Vec::new();
    }
    let copies = |definition: &Map<String, Value>| {
        let names = definition.get("copy_to").map(names_of).unwrap_or_default();
        names.iter().any(|name| targets.contains(name))
    };
    let all = all_fields(mappings).into_iter();
    all.filter(|(_, definition)| copies(definition)).map(|(path, _)| path).collect()
}

/// A field whose values are read in another form.
struct FormedField<'i> {
    /// Path of its values in documents.
    source_path: String,
    /// Rest of the names of its members after those of the source path, of a multi-field.
    suffix: String,
    definition: &'i Map<String, Value>,
    normalizer: Option<ValueNormalizer>,
    /// Division into the words that are counted in the place of a text.
    counted: Option<TextDivision>,
}

impl FormedField<'_> {
    /// A value, or a list of them, in its form.
    fn formed(&self, value: &Value) -> Value {
        match value {
            Value::Array(elements) => elements.iter().map(|element| self.formed(element)).collect(),
            Value::Null => self.definition.get("null_value").cloned().unwrap_or_default(),
            Value::Object(_) => value.clone(),
            single => {
                if let Some(normalizer) = &self.normalizer {
                    return normalizer.apply(&text_of(single)).into();
                }
                if let Some(division) = &self.counted {
                    let words = division.divided(&text_of(single));
                    return words.last().map_or(0, |last| last.position + 1).into();
                }
                let factor = self.definition.get("scaling_factor").and_then(number_of);
                match (factor, number_of(single)) {
                    (Some(factor), Some(number)) => ((number * factor).round() / factor).into(),
                    _ => single.clone(),
                }
            }
        }
    }

    /// Gives the values at a path of an object their form.
    fn form(&self, members: &mut Map<String, Value>, path: &str) {
        let mut added = Vec::new();
        for (name, value) in members.iter_mut() {
            if name == path {
                let formed = self.formed(value);
                match self.suffix.is_empty() {
                    true => *value = formed,
                    false => added.push((format!("{name}{}", self.suffix), formed)),
                }
            } else if let Some(rest) =
                path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'))
            {
                self.form_below(value, rest);
            }
        }
        members.extend(added);
    }

    fn form_below(&self, value: &mut Value, path: &str) {
        match value {
            Value::Object(members) => self.form(members, path),
            Value::Array(elements) => {
                elements.iter_mut().for_each(|element| self.form_below(element, path));
            }
            _ => {}
        }
    }
}

/// The form of the documents of an index.
#[derive(Default)]
pub(crate) struct SearchedForm<'i> {
    /// Source paths of values, with the fields that they are copied to, in the nested objects around both;
    /// those of the whole document have an empty path. Outer objects come first.
    copies: BTreeMap<String, Vec<(String, String)>>,
    fields: Vec<FormedField<'i>>,
}

/// Copies values of an object to other fields of it. What was copied is not copied on.
fn copy(members: &mut Map<String, Value>, copies: &[(String, String)]) {
    let values =
        |source_path: &str| -> Vec<Value> { all_at(members, source_path).into_iter().cloned().collect() };
    let copied: Vec<Vec<Value>> = copies.iter().map(|(source_path, _)| values(source_path)).collect();
    for ((_, target), values) in copies.iter().zip(copied).filter(|(_, values)| !values.is_empty()) {
        let own = members.remove(target);
        members.insert(target.clone(), own.into_iter().chain(values).collect());
    }
}

/// Changes each object at a path.
fn each_object(
    members: &mut Map<String, Value>,
    path: &str,
    change: &mut dyn FnMut(&mut Map<String, Value>),
) {
    for (name, value) in members.iter_mut() {
        if name == path {
            each_object_in(value, "", change);
        } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            each_object_in(value, rest, change);
        }
    }
}

fn each_object_in(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(members) if path.is_empty() => change(members),
        Value::Object(members) => each_object(members, path, change),
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| each_object_in(element, path, change));
        }
        _ => {}
    }
}

impl<'i> SearchedForm<'i> {
    /// The form that the mapping and the settings of an index ask for.
    pub(crate) fn of(index: &'i OpenIndex) -> Self {
        let (mappings, settings) = (&index.entry.mappings, &index.entry.settings);
        let mut form = SearchedForm::default();
        if !has_field(mappings, |field| is_formed(field) || is_copied(field)) {
            return form;
        }
        for (path, definition) in all_fields(mappings) {
            for target in definition.get("copy_to").map(names_of).unwrap_or_default() {
                let within = nested_around(mappings, &target).unwrap_or_default();
                let inner = |path: &str| path.strip_prefix(within)?.strip_prefix('.').map(str::to_owned);
                let (source, inner_target) = match within.is_empty() {
                    true => (Some(path.clone()), Some(target.clone())),
                    false => (inner(&path), inner(&target)),
                };
                // A nested object that is around one of them alone is refused in mappings.
                if let Some(both) = source.zip(inner_target) {
                    form.copies.entry(within.to_owned()).or_default().push(both);
                }
            }
            // One that stands for another field is that one.
            if type_of(definition) != "alias"
                && let Some((_, source_path)) = field_at(mappings, &path)
                && (is_formed(definition) || is_part_of_formed(mappings, &path, &source_path))
            {
                let suffix = path.strip_prefix(source_path.as_str()).unwrap_or_default().to_owned();
                let normalizer = ValueNormalizer::of(definition, settings);
                let is_count = type_of(definition) == "token_count";
                let counted = is_count.then(|| index.analyzers.of_field(definition));
                form.fields.push(FormedField { source_path, suffix, definition, normalizer, counted });
            }
        }
        // Fields in others are made of the values as they were sent.
        form.fields.sort_by_key(|field| field.suffix.is_empty());
        form
    }

    /// A document in this form; `None` if it is as it was sent.
    pub(crate) fn apply(&self, document: &Map<String, Value>) -> Option<Map<String, Value>> {
        if self.copies.is_empty() && self.fields.is_empty() {
            return None;
        }
        let mut formed = document.clone();
        for (within, copies) in &self.copies {
            match within.is_empty() {
                true => copy(&mut formed, copies),
                false => each_object(&mut formed, within, &mut |members| copy(members, copies)),
            }
        }
        for field in &self.fields {
            field.form(&mut formed, &field.source_path);
            if let Some(constant) = constant_of(field.definition)
                && all_at(&formed, &field.source_path).is_empty()
            {
                formed.insert(format!("{}{}", field.source_path, field.suffix), constant.clone());
            }
        }
        Some(formed)
    }
}
