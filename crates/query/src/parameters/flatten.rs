//! A JSON body to parameters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parts::plain;
use crate::Error;

/// First parts of the names of parameters, which never stand for a value themselves.
const FAMILIES: [&str; 12] = [
    "collapse",
    "dispatch",
    "grouping",
    "input",
    "model",
    "presentation",
    "rankfeature",
    "ranking",
    "rankproperty",
    "rules",
    "streaming",
    "trace",
];

/// The parameters of a JSON body: objects are flattened with dots, so that `{"ranking": {"profile": "x"}}` is
/// `ranking.profile=x`. What is a value by itself stays JSON text: lists, the parts of `select`, query tensors, and maps of tokens
/// that `@name` refers to (which are flattened as well). A list of `streaming.groupname` becomes `streaming.groupnames`.
///
/// # Errors
/// [`Error::Syntax`] where it is not a JSON object, with its place.
pub fn flatten(body: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let value: Value = super::json_text::parse(body).map_err(|error| Error::Syntax {
        language: "JSON",
        line: error.line(),
        column: error.column(),
        reason: format!("{error}; for example: {{\"yql\": \"select * from sources * where true\"}}"),
    })?;
    let Value::Object(entries) = value else {
        return Err(Error::Syntax {
            language: "JSON",
            line: 1,
            column: 1,
            reason: "expected an object; for example: {\"yql\": \"select * from sources * where true\"}"
                .to_owned(),
        });
    };
    let mut parameters = BTreeMap::new();
    for (name, value) in entries {
        put(&mut parameters, name, &value);
    }
    Ok(parameters)
}

fn put(parameters: &mut BTreeMap<String, String>, name: String, value: &Value) {
    let is_value = name.ends_with(')') || name == "select" || name.starts_with("select.");
    match value {
        Value::Object(entries) if !is_value => {
            for (key, value) in entries {
                put(parameters, format!("{name}.{key}"), value);
            }
            if !name.contains('.') && !FAMILIES.contains(&name.as_str()) {
                parameters.entry(name).or_insert_with(|| value.to_string());
            }
        }
        Value::Array(_) if name == "streaming.groupname" => {
            parameters.insert("streaming.groupnames".to_owned(), value.to_string());
        }
        _ => {
            if let Some(text) = plain(value) {
                parameters.insert(name, text);
            }
        }
    }
}
