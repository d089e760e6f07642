//! Updates: a part of a document merged into the stored one, or a script that changes it.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::source::SourceFilter;
use crate::storage::StoredSource;
use crate::update_script::{ScriptedDocument, UpdateScript};
use crate::writing::WriteConditions;

/// An update of a document.
#[derive(Debug, Clone)]
pub(crate) struct UpdateBody {
    pub(crate) doc: Option<Map<String, Value>>,
    pub(crate) upsert: Option<Map<String, Value>>,
    pub(crate) doc_as_upsert: bool,
    pub(crate) detect_noop: bool,
    pub(crate) script: Option<Arc<UpdateScript>>,
    /// True if the script changes what is inserted, too.
    pub(crate) scripted_upsert: bool,
    /// Most repetitions after writes of others that came between.
    pub(crate) retries: Option<u32>,
}

/// Options of an update beside its body: those of its request, or of its line in a bulk.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpdateOptions {
    pub(crate) conditions: WriteConditions,
    /// Part of the document that the answer has.
    pub(crate) shown: Option<SourceFilter>,
    /// Most repetitions after writes of others that came between.
    pub(crate) retries: Option<u32>,
}

/// Effect of an update.
pub(crate) enum UpdateEffect {
    /// The document stays.
    Noop,
    /// The document is removed.
    Remove,
    /// The document becomes this one.
    Write(Map<String, Value>),
}

impl UpdateBody {
    /// Parses the body of an update. Options that it has, too, take precedence over those beside it.
    ///
    /// # Errors
    /// It has members that no update has, or values that these do not take; its script is malformed.
    pub(crate) fn parse(body: Map<String, Value>, options: &mut UpdateOptions) -> Result<Self, Error> {
        let mut parsed = UpdateBody {
            doc: None,
            upsert: None,
            doc_as_upsert: false,
            detect_noop: true,
            script: None,
            scripted_upsert: false,
            retries: options.retries,
        };
        let object = |name: &str, value: Value| match value {
            Value::Object(object) => Ok(Some(object)),
            _ => Err(Error::Content(format!("[UpdateRequest] {name} doesn't support values of this type"))),
        };
        let flag = |name: &str, value: &Value| match value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => Err(Error::Content(format!("[UpdateRequest] failed to parse field [{name}]"))),
        };
        // A condition that was passed over would let the update happen without it.
        let whole = |name: &str, value: &Value| {
            let number = match value {
                Value::Number(number) => number.as_i64(),
                Value::String(text) => text.parse().ok(),
                _ => None,
            };
            let malformed = || Error::Content(format!("[UpdateRequest] failed to parse field [{name}]"));
            number.map(Some).ok_or_else(malformed)
        };
        let conditions = &mut options.conditions;
        for (name, value) in body {
            match name.as_str() {
                "doc" => parsed.doc = object("doc", value)?,
                "upsert" => parsed.upsert = object("upsert", value)?,
                "doc_as_upsert" => parsed.doc_as_upsert = flag("doc_as_upsert", &value)?,
                "detect_noop" => parsed.detect_noop = flag("detect_noop", &value)?,
                "_source" => options.shown = Some(SourceFilter::of_value(&value)?),
                "if_seq_no" => conditions.if_seq_no = whole("if_seq_no", &value)?,
                "if_primary_term" => conditions.if_primary_term = whole("if_primary_term", &value)?,
                "script" => parsed.script = Some(Arc::new(UpdateScript::parse(&value)?)),
                "scripted_upsert" => parsed.scripted_upsert = flag("scripted_upsert", &value)?,
                other => {
                    let best = if other.contains("doc") { "doc" } else { "upsert" };
                    return Err(Error::Content(format!(
                        "[1:1] [UpdateRequest] unknown field [{other}] did you mean [{best}]?"
                    )));
                }
            }
        }
        if parsed.doc.is_some() && parsed.script.is_some() {
            return Err(Error::Validation(vec!["can't provide both script and doc".to_owned()]));
        }
        if parsed.doc.is_none() && (parsed.script.is_none() || parsed.doc_as_upsert) {
            let reason = match parsed.doc_as_upsert {
                true => "doc must be specified if doc_as_upsert is enabled",
                false => "script or doc is missing",
            };
            return Err(Error::Validation(vec![reason.to_owned()]));
        }
        Ok(parsed)
    }
}

impl UpdateBody {
    /// Effect of the update if there is no document; `None` if it has nothing to insert.
    ///
    /// # Errors
    /// The script fails.
    pub(crate) fn inserted(&self, about: ScriptedDocument<'_>) -> Result<Option<UpdateEffect>, Error> {
        let inserted = if self.doc_as_upsert { &self.doc } else { &self.upsert };
        match (inserted, self.script.as_ref().filter(|_| self.scripted_upsert)) {
            (None, _) => Ok(None),
            (Some(document), None) => Ok(Some(UpdateEffect::Write(document.clone()))),
            (Some(document), Some(script)) => script.run(document.clone(), about).map(Some),
        }
    }
}

/// Number of repetitions that `retry_on_conflict` asks for.
pub(crate) fn retries_of(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// Applies an update to the stored document.
///
/// # Errors
/// There is no document, and nothing to insert; the script fails.
pub(crate) fn apply(
    index: &OpenIndex,
    id: &str,
    body: &UpdateBody,
    stored: Option<&StoredSource>,
) -> Result<UpdateEffect, Error> {
    let about = |stored: Option<&StoredSource>| ScriptedDocument {
        index: &index.entry.name,
        id,
        routing: None,
        version: stored.map(|stored| stored.version),
    };
    let Some(stored) = stored else {
        let inserted = body.inserted(about(None))?;
        let missing = || Error::NoDocument { id: id.to_owned(), index: index.entry.name.clone() };
        return inserted.ok_or_else(missing);
    };
    let mut document: Map<String, Value> = serde_json::from_str(&stored.source.text()?)
        .map_err(|error| Error::Internal(format!("the document [{id}] is damaged: {error}")))?;
    if let Some(script) = &body.script {
        let about = about(Some(stored));
        return script.run(document, ScriptedDocument { routing: stored.routing.as_deref(), ..about });
    }
    let changed = body.doc.as_ref().is_some_and(|doc| merge(&mut document, doc));
    if !changed && body.detect_noop {
        return Ok(UpdateEffect::Noop);
    }
    Ok(UpdateEffect::Write(document))
}

/// Merges objects into objects; other values replace. True if anything changed.
pub(crate) fn merge(document: &mut Map<String, Value>, part: &Map<String, Value>) -> bool {
    let mut changed = false;
    for (name, value) in part {
        match (document.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(part)) => changed |= merge(own, part),
            (Some(own), value) if own == value => {}
            (Some(own), value) => {
                *own = value.clone();
                changed = true;
            }
            (None, value) => {
                document.insert(name.clone(), value.clone());
                changed = true;
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_are_merged() {
        let merged = |document: Value, part: Value| {
            let mut document = document.as_object().expect("an object").clone();
            let changed = merge(&mut document, part.as_object().expect("an object"));
            (Value::Object(document), changed)
        };
        assert_eq!(
            merged(json!({ "a": { "b": 1 }, "c": [1] }), json!({ "a": { "d": 2 }, "c": [2] })),
            (json!({ "a": { "b": 1, "d": 2 }, "c": [2] }), true)
        );
        assert_eq!(
            merged(json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1 } })),
            (json!({ "a": { "b": 1 } }), false)
        );
        assert_eq!(merged(json!({}), json!({ "a": null })), (json!({ "a": null }), true));
    }

    #[test]
    fn bodies_that_are_none_are_refused() {
        for (body, kind) in [
            (json!({ "script": "x" }), "illegal_argument_exception"),
            (json!({ "script": "ctx._source.a = 1", "doc": {} }), "action_request_validation_exception"),
            (json!({ "script": 1 }), "illegal_argument_exception"),
            (json!({ "script": { "id": "stored" } }), "illegal_argument_exception"),
            (json!({ "script": "return", "scripted_upsert": 2 }), "x_content_parse_exception"),
            (json!({ "script": "return", "doc_as_upsert": true }), "action_request_validation_exception"),
            (json!({ "scripted_upsert": true }), "action_request_validation_exception"),
            (json!({}), "action_request_validation_exception"),
            (json!({ "doc_as_upsert": true }), "action_request_validation_exception"),
            (json!({ "dac": {} }), "x_content_parse_exception"),
            (json!({ "doc": 1 }), "x_content_parse_exception"),
        ] {
            let body_of = body.as_object().expect("an object").clone();
            let error = UpdateBody::parse(body_of, &mut UpdateOptions::default()).expect_err("refused");
            assert_eq!((error.kind(), error.status()), (kind, 400), "{body}");
        }
    }

    #[test]
    fn options_of_bodies_take_precedence() {
        let beside = |seq_no: Option<i64>| UpdateOptions {
            conditions: WriteConditions { if_seq_no: seq_no, if_primary_term: seq_no, ..Default::default() },
            shown: None,
            retries: Some(2),
        };
        for (members, seq_no, found) in [
            (json!({}), Some(7), Some((Some(7), Some(7)))),
            (json!({ "if_seq_no": 3 }), Some(7), Some((Some(3), Some(7)))),
            (json!({ "if_seq_no": "3", "if_primary_term": 1 }), Some(7), Some((Some(3), Some(1)))),
            (json!({ "if_seq_no": 3, "if_primary_term": "1" }), None, Some((Some(3), Some(1)))),
            (json!({ "if_seq_no": "x" }), None, None),
            (json!({ "if_seq_no": 1.5 }), None, None),
            (json!({ "if_seq_no": null }), None, None),
            (json!({ "if_primary_term": true }), None, None),
            (json!({ "if_primary_term": [1] }), None, None),
        ] {
            let mut body = members.as_object().expect("an object").clone();
            body.insert("doc".to_owned(), json!({}));
            body.insert("_source".to_owned(), json!(true));
            let mut options = beside(seq_no);
            let parsed = UpdateBody::parse(body, &mut options);
            let conditions = &options.conditions;
            let read = parsed.ok().map(|parsed| {
                assert_eq!((parsed.retries, options.shown.is_some()), (Some(2), true), "{members}");
                (conditions.if_seq_no, conditions.if_primary_term)
            });
            assert_eq!(read, found, "{members}");
        }
    }
}
