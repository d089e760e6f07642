//! Documents that are valid JSON, and that no tree of values can hold: with numbers beyond the range of
//! 64-bit floats, single surrogates, or very deep nesting.
//!
//! Such a part is kept as its text, in the place of a value. It has no type and is not searched; answers have
//! it as it was sent.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::action_line::OrderedObject;

/// Levels that are read one by one where a document cannot be read as a whole. An unread part below them is
/// all of the array or object that it is in.
const LEVELS_MAX: usize = 32;

/// Name of the one member of an object that stands for an unread part, with its text. It is drawn for each
/// process, so that no document has it.
static UNREAD: LazyLock<String> =
    LazyLock::new(|| format!("\u{0}unread-{:016x}", RandomState::new().hash_one("unread")));

/// Reads a document. Parts that cannot be read become unread parts.
///
/// # Errors
/// The text is not JSON, or another value than an object.
pub(crate) fn read_document(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let error = match serde_json::from_str(text) {
        Ok(document) => return Ok(document),
        Err(error) => error,
    };
    // This reads no value, and uses no stack for nested ones.
    let raw: &RawValue = serde_json::from_str(text)?;
    match value(raw.get(), 0) {
        Value::Object(document) if raw.get().starts_with('{') => Ok(document),
        _ => Err(error),
    }
}

/// Reads a text that is JSON.
fn value(text: &str, level: usize) -> Value {
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    let below = |part: &RawValue| value(part.get(), level + 1);
    if level < LEVELS_MAX {
        if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) {
            return Value::Array(elements.into_iter().map(below).collect());
        }
        if let Ok(OrderedObject(members)) = serde_json::from_str(text) {
            return Value::Object(members.into_iter().map(|(name, part)| (name, below(part))).collect());
        }
    }
    Value::Object(Map::from_iter([(UNREAD.clone(), Value::String(text.to_owned()))]))
}

/// Text of an unread part; `None` for the members of any other object.
pub(crate) fn unread_text(members: &Map<String, Value>) -> Option<&str> {
    if members.len() != 1 {
        return None;
    }
    members.get(UNREAD.as_str())?.as_str()
}

/// True if a value is an unread part, or an array that has one.
pub(crate) fn has_unread(value: &Value) -> bool {
    match value {
        Value::Object(members) => unread_text(members).is_some(),
        Value::Array(elements) => elements.iter().any(has_unread),
        _ => false,
    }
}

/// A value with its unread parts as they were sent, for writing.
pub(crate) struct SentValue<'v>(pub(crate) &'v Value);

impl Serialize for SentValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // A member of that name whose text is not JSON was sent as it is.
            Value::Object(members) => {
                match unread_text(members).and_then(|text| RawValue::from_string(text.to_owned()).ok()) {
                    Some(raw) => raw.serialize(serializer),
                    None => {
                        serializer.collect_map(members.iter().map(|(name, value)| (name, SentValue(value))))
                    }
                }
            }
            Value::Array(elements) => serializer.collect_seq(elements.iter().map(SentValue)),
            other => other.serialize(serializer),
        }
    }
}

/// Text of a value in JSON, with its unread parts as they were sent. No text has their name: an object that
/// has it would be taken for one of them.
pub(crate) fn sent_json(value: &Value) -> String {
    serde_json::to_string(&SentValue(value)).expect("names are texts, and each other value has a text")
}

/// Name of the member that stands for an unread part, as the text of a document has it between quotes.
pub(crate) fn escaped_name() -> String {
    serde_json::to_string(UNREAD.as_str())
        .expect("each text can be written as JSON")
        .trim_matches('"')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn documents_are_written_as_they_were_read() {
        for text in [
            r#"{"a":1,"b":[true,null,"x"],"c":{}}"#.to_owned(),
            r#"{"a":1e999,"b":2}"#.to_owned(),
            r#"{"a":[1,-1e999,{"b":"\ud800","c":1}]}"#.to_owned(),
            r#"{"\udc00":1}"#.to_owned(),
            r#"{"a":{"\udc00":1,"b":2}}"#.to_owned(),
            format!(r#"{{"a":{},"b":1}}"#, nested(126)),
            format!(r#"{{"a":{},"b":1}}"#, nested(127)),
            format!(r#"{{"a":{},"b":1}}"#, nested(159)),
            format!(r#"{{"a":{},"b":1}}"#, nested(160)),
            format!(r#"{{"a":{},"b":1}}"#, nested(500_000)),
            format!("{}{}", r#"{"a":"#.repeat(100_000), "1".to_owned() + &"}".repeat(100_000)),
        ] {
            let shown = &text[..text.len().min(60)];
            let document = read_document(&text).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert!(sent_json(&Value::Object(document)) == text, "{shown}");
        }
    }

    #[test]
    fn what_is_no_object_of_json_is_refused() {
        for text in
            ["", "1", "1e999", "[1]", "[1e999]", "{", r#"{"a":1e}"#, r#"{"a":1e999}}"#, r#"{"a":"\ud8"}"#]
        {
            assert!(read_document(text).is_err(), "{text}");
        }
        let deep = format!(r#"{{"a":{}"#, nested(1_000));
        assert!(read_document(&deep).is_err());
    }

    #[test]
    fn the_other_parts_are_read() {
        let document = read_document(r#"{"a":1e999,"b":{"c":["\ud800",7]},"d":"x"}"#).expect("a document");
        assert_eq!(document["d"], "x");
        assert_eq!(document["b"]["c"][1], 7);
        assert!(has_unread(&document["a"]) && has_unread(&document["b"]["c"]), "they are unread parts");
        assert!(!has_unread(&document["b"]) && !has_unread(&document["d"]), "these are none themselves");
    }

    #[test]
    fn an_object_with_the_name_of_unread_parts_is_written_as_it_is() {
        for text in ["", "{broken", "1 2", "1e"] {
            let part = Value::Object(Map::from_iter([(UNREAD.clone(), text.into())]));
            let document = Value::Object(Map::from_iter([("a".to_owned(), Value::Array(vec![part]))]));
            let written = sent_json(&document);
            assert_eq!(serde_json::from_str::<Value>(&written).ok(), Some(document), "{written}");
        }
    }
}
