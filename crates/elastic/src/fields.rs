//! Values of fields in documents.

use serde_json::{Map, Value};

use crate::catalog::OpenIndex;
use crate::mapping::field_at;
use crate::unread::unread_text;

/// Calls `visit` with each value at a path, those in arrays one by one. Names may themselves have dots.
pub(crate) fn each_at<'d>(document: &'d Map<String, Value>, path: &str, visit: &mut impl FnMut(&'d Value)) {
    whole_at(document, path, &mut |value| each_in(value, visit));
}

/// Calls `visit` with the value of each member at a path, which may be an array.
pub(crate) fn whole_at<'d>(document: &'d Map<String, Value>, path: &str, visit: &mut impl FnMut(&'d Value)) {
    for (name, value) in document {
        if name == path {
            visit(value);
        } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            below(value, rest, visit);
        }
    }
}

fn below<'d>(value: &'d Value, path: &str, visit: &mut impl FnMut(&'d Value)) {
    match value {
        Value::Object(members) => whole_at(members, path, visit),
        Value::Array(elements) => elements.iter().for_each(|element| below(element, path, visit)),
        _ => {}
    }
}

fn each_in<'d>(value: &'d Value, visit: &mut impl FnMut(&'d Value)) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| each_in(element, visit)),
        Value::Null => {}
        Value::Object(members) if unread_text(members).is_some() => {}
        other => visit(other),
    }
}

/// Values at a path.
pub(crate) fn all_at<'d>(document: &'d Map<String, Value>, path: &str) -> Vec<&'d Value> {
    let mut found = Vec::new();
    each_at(document, path, &mut |value| found.push(value));
    found
}

/// Names in a member of a body: one, or an array of several.
pub(crate) fn names_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Values of the named fields that the mapping says to store.
pub(crate) fn stored(
    index: &OpenIndex,
    document: &Map<String, Value>,
    names: &[String],
) -> Map<String, Value> {
    let mut stored = Map::new();
    for name in names {
        let Some((field, path)) = field_at(&index.entry.mappings, name) else { continue };
        if field.get("store").is_some_and(|store| *store == true || *store == "true") {
            let values: Vec<Value> = all_at(document, &path).into_iter().cloned().collect();
            if !values.is_empty() {
                stored.insert(name.clone(), Value::Array(values));
            }
        }
    }
    stored
}
