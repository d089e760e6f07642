//! Action lines of bulks: what is to be done, with which document, and under which conditions.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Error;
use crate::source::SourceFilter;
use crate::update::retries_of;
use crate::writing::{VersionRule, WriteAction, WriteConditions};

/// Longest action line in bytes.
const ACTION_BYTES_MAX: usize = 64 << 10;

/// Metadata of an action line.
#[derive(Default)]
pub(crate) struct ActionLine {
    pub(crate) index: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) routing: Option<String>,
    pub(crate) conditions: WriteConditions,
    pub(crate) op_type: Option<String>,
    pub(crate) require_alias: Option<bool>,
    pub(crate) require_data_stream: Option<bool>,
    /// True if fields are to be mapped by templates that the item names.
    pub(crate) has_dynamic_templates: bool,
    pub(crate) pipeline: Option<String>,
    pub(crate) shown: Option<SourceFilter>,
    /// Most repetitions of an update after writes of others.
    pub(crate) retries: Option<u32>,
}

/// Parses an action line.
pub(crate) fn action_line(number: usize, line: &[u8]) -> Result<(WriteAction, ActionLine), Error> {
    let malformed = |expected: &str, found: &str| {
        Error::IllegalArgument(format!(
            "Malformed action/metadata line [{number}], expected {expected} but found [{found}]"
        ))
    };
    if line.len() > ACTION_BYTES_MAX {
        return Err(Error::IllegalArgument(format!(
            "action/metadata line [{number}] has more than {ACTION_BYTES_MAX} bytes"
        )));
    }
    let parsed = serde_json::from_slice::<OrderedObject<'_>>(line);
    let members = match parsed {
        Ok(OrderedObject(members)) => members,
        Err(error) if error.is_data() => {
            let first = line.trim_ascii_start().first().copied().unwrap_or(b' ');
            return Err(malformed("START_OBJECT", token_of(first)));
        }
        Err(error) => {
            return Err(Error::Json(format!("action/metadata line [{number}]: {error}")));
        }
    };
    let [(name, meta)] = members.as_slice() else {
        return Err(match members.len() {
            0 => malformed("FIELD_NAME", "END_OBJECT"),
            _ => malformed("END_OBJECT", "FIELD_NAME"),
        });
    };
    let action = match name.as_str() {
        "index" => WriteAction::Index,
        "create" => WriteAction::Create,
        "update" => WriteAction::Update,
        "delete" => WriteAction::Delete,
        other => {
            return Err(Error::IllegalArgument(format!(
                "Malformed action/metadata line [{number}], expected field [create], [delete], [index] or [update] but found [{other}]"
            )));
        }
    };
    let meta: Value = serde_json::from_str(meta.get())
        .map_err(|error| Error::Json(format!("action/metadata line [{number}]: {error}")))?;
    let Value::Object(meta) = meta else {
        let first = meta.to_string().bytes().next().unwrap_or(b' ');
        return Err(malformed("START_OBJECT", token_of(first)));
    };
    let mut line = ActionLine::default();
    for (name, value) in meta {
        read_member(&mut line, number, &name, value)?;
    }
    Ok((action, line))
}

fn read_member(line: &mut ActionLine, number: usize, name: &str, value: Value) -> Result<(), Error> {
    if name == "_source" {
        line.shown = Some(SourceFilter::of_value(&value)?);
        return Ok(());
    }
    if let ("dynamic_templates", Value::Object(templates)) = (name, &value) {
        line.has_dynamic_templates = !templates.is_empty();
        return Ok(());
    }
    let text = match &value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => {
            let token = if value.is_array() { "START_ARRAY" } else { "START_OBJECT" };
            return Err(Error::IllegalArgument(format!(
                "Malformed action/metadata line [{number}], expected a simple value for field [{name}] but found [{token}]"
            )));
        }
    };
    let whole = || {
        text.parse::<i64>().map_err(|_| {
            Error::IllegalArgument(format!(
                "action/metadata line [{number}]: field [{name}] is not a whole number: [{text}]"
            ))
        })
    };
    match name {
        "_index" => line.index = Some(text),
        "_id" => line.id = Some(text),
        "routing" | "_routing" => line.routing = Some(text),
        "version" | "_version" => line.conditions.version = Some(whole()?),
        "version_type" | "_version_type" => line.conditions.rule = VersionRule::parse(&text)?,
        "if_seq_no" => line.conditions.if_seq_no = Some(whole()?),
        "if_primary_term" => line.conditions.if_primary_term = Some(whole()?),
        "op_type" => line.op_type = Some(text),
        "require_alias" => line.require_alias = Some(text == "true"),
        "require_data_stream" => line.require_data_stream = Some(text == "true"),
        "pipeline" => line.pipeline = Some(text),
        "retry_on_conflict" | "_retry_on_conflict" => line.retries = Some(retries_of(whole()?)),
        // `_type` is of clients before version 8.
        "_type" | "list_executed_pipelines" => {}
        other => {
            return Err(Error::IllegalArgument(format!(
                "Action/metadata line [{number}] contains an unknown parameter [{other}]"
            )));
        }
    }
    Ok(())
}

/// Name of the token that a value begins with.
fn token_of(first: u8) -> &'static str {
    match first {
        b'[' => "START_ARRAY",
        b'{' => "START_OBJECT",
        b'"' => "VALUE_STRING",
        b't' | b'f' => "VALUE_BOOLEAN",
        b'n' => "VALUE_NULL",
        _ => "VALUE_NUMBER",
    }
}

/// Members of an object in their order, repeated ones too.
pub(crate) struct OrderedObject<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for OrderedObject<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl<'de> serde::de::Visitor<'de> for MemberVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(MemberVisitor).map(OrderedObject)
    }
}
