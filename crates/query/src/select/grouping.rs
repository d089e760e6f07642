//! Conversion of grouping in JSON to the grouping language.

use serde_json::Value;

use crate::Error;

/// Grouping requests of a list (or of one object) as text.
pub(crate) fn requests(value: &Value) -> Result<Vec<String>, Error> {
    match value {
        Value::Array(items) => items.iter().map(statement).collect(),
        Value::String(text) => crate::yql::split_grouping(text, 0)
            .map_err(|fault| Error::value(format!("character {}: {}", fault.at + 1, fault.reason))),
        _ => Ok(vec![statement(value)?]),
    }
}

fn statement(value: &Value) -> Result<String, Error> {
    match value {
        Value::Object(entries) if entries.len() == 1 => Ok(content(value, None)),
        Value::String(text) => Ok(text.clone()),
        _ => Err(Error::value(
            "expected a grouping request, as in {\"all\": {\"group\": \"sender\", \"each\": {\"output\": \"count()\"}}}",
        )),
    }
}

/// Text between the parentheses of `operation`.
fn content(value: &Value, operation: Option<&str>) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| content(item, None)).collect();
            items.join(", ")
        }
        Value::Object(entries) => {
            let label = entries.get("label").and_then(Value::as_str).filter(|_| operation == Some("all"));
            let mut parts = Vec::with_capacity(entries.len());
            for (name, value) in entries {
                match (name.as_str(), value) {
                    ("label", _) if label.is_some() => {}
                    ("bucket", Value::Array(bounds)) => {
                        let bounds: Vec<String> = bounds.iter().map(|bound| content(bound, None)).collect();
                        parts.push(format!("bucket[{}>", bounds.join(", ")));
                    }
                    ("each", _) if label.is_some() => {
                        let inner = content(value, Some("each"));
                        parts.push(format!("each({inner}) as({})", label.unwrap_or_default()));
                    }
                    _ => parts.push(format!("{name}({})", content(value, Some(name)))),
                }
            }
            parts.join(" ")
        }
        other => other.to_string(),
    }
}
