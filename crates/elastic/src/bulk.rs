//! `_bulk`: many writes in one request, each with its own result.
//!
//! Nothing is done before all action lines are read: a malformed one refuses the whole. The writes of a bulk
//! are one batch of the store.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::bulk_stream::{BulkBatching, BulkSplitter};
use crate::catalog::NamedKind;
use crate::door::ElasticDoor;
use crate::names::NameDemand;
use crate::placing::WritePlacer;
use crate::request::{DoorParameters, DoorReply, DoorRequest};
use crate::source::SourceFilter;
use crate::update::{UpdateBody, retries_of};
use crate::writing::{self, SingleWrite, VersionRule, WriteAction, WriteConditions};
use crate::{Error, unread};

/// A parsed item.
struct BulkItem {
    action: WriteAction,
    index: Option<String>,
    id: Option<String>,
    demand: NameDemand,
    pipeline: Option<String>,
    /// The write, or the reason for which this item alone is refused.
    write: Result<SingleWrite, Error>,
}

/// Defaults of all items, from the parameters of the request.
struct BulkDefaults {
    index: Option<String>,
    routing: Option<String>,
    demand: NameDemand,
    pipeline: Option<String>,
    shown: Option<SourceFilter>,
}

/// `POST` and `PUT` of `_bulk`.
pub(crate) fn bulk(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: Option<&str>,
) -> Result<DoorReply, Error> {
    let began_ms = crate::catalog::now_ms();
    let defaults = BulkDefaults {
        index: index.map(str::to_owned),
        routing: parameters.get("routing").map(str::to_owned),
        demand: NameDemand::of(parameters)?,
        pipeline: parameters.get("pipeline").map(str::to_owned),
        shown: SourceFilter::of_parameters(parameters),
    };
    let refresh = RefreshPolicy::of(parameters)?;
    let items = parse(&request.body, &defaults)?;
    let mut heads = Vec::with_capacity(items.len());
    let mut placed = Vec::with_capacity(items.len());
    let mut touched = Vec::new();
    let mut placer = WritePlacer::new(door);
    for item in items {
        let BulkItem { action, index, id, demand, pipeline, write } = item;
        let name = index.unwrap_or_default();
        let place = write.and_then(|write| {
            check_pipeline(door, pipeline.as_deref())?;
            placer.place(&name, write, demand)
        });
        let refused = match place {
            Ok(place) => {
                if refresh != RefreshPolicy::None && !touched.contains(&place.index.entry.name) {
                    touched.push(place.index.entry.name.clone());
                }
                placed.push(place);
                None
            }
            Err(error) => Some(error),
        };
        heads.push((action, name, id, refused));
    }
    let mut written = writing::write_all(door, &placed).into_iter();
    let mut answers = Vec::with_capacity(heads.len());
    let mut has_errors = false;
    for (action, index, id, refused) in heads {
        let outcome = match refused {
            None => written.next().expect("each write that has a place has a result"),
            Some(error) => Err(error),
        };
        let item = match outcome {
            Ok(result) => {
                let status = result.status;
                let mut object = result.object(refresh == RefreshPolicy::Now);
                object.insert("status".to_owned(), status.into());
                object
            }
            Err(error) => {
                has_errors = true;
                let mut object = Map::new();
                object.insert("_index".to_owned(), index.into());
                object.insert("_id".to_owned(), id.map_or(Value::Null, Value::String));
                object.insert("status".to_owned(), error.status().into());
                object.insert("error".to_owned(), Value::Object(error.object()));
                object
            }
        };
        answers.push(json!({ action.name(): item }));
    }
    for name in touched {
        if let Some(index) = door.catalog.read()?.indexes.get(&name) {
            index.live.refresh();
        }
    }
    let took = crate::catalog::now_ms().saturating_sub(began_ms);
    DoorReply::ok(json!({ "took": took, "errors": has_errors, "items": answers }))
}

/// Refuses a pipeline that does not exist. Those that exist have no processors.
pub(crate) fn check_pipeline(door: &ElasticDoor, pipeline: Option<&str>) -> Result<(), Error> {
    match pipeline.filter(|name| !name.is_empty() && *name != "_none") {
        Some(name) if door.catalog.read()?.named(NamedKind::Pipeline, name).is_none() => {
            Err(Error::IllegalArgument(format!("pipeline with id [{name}] does not exist")))
        }
        _ => Ok(()),
    }
}

/// Time at which writes are shown to searches that an index hides them from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshPolicy {
    None,
    Now,
    Wait,
}

impl RefreshPolicy {
    /// Reads the parameter `refresh`.
    pub(crate) fn of(parameters: &DoorParameters) -> Result<Self, Error> {
        match parameters.get("refresh") {
            None | Some("false") => Ok(RefreshPolicy::None),
            Some("true" | "") => Ok(RefreshPolicy::Now),
            Some("wait_for") => Ok(RefreshPolicy::Wait),
            Some(other) => Err(Error::IllegalArgument(format!("Unknown value for refresh: [{other}]."))),
        }
    }
}

/// Metadata of an action line.
#[derive(Default)]
pub(crate) struct ActionLine {
    index: Option<String>,
    id: Option<String>,
    routing: Option<String>,
    conditions: WriteConditions,
    op_type: Option<String>,
    require_alias: Option<bool>,
    require_data_stream: Option<bool>,
    /// True if fields are to be mapped by templates that the item names.
    has_dynamic_templates: bool,
    pipeline: Option<String>,
    shown: Option<SourceFilter>,
    /// Most repetitions of an update after writes of others.
    retries: Option<u32>,
}

/// Parses all items.
fn parse(body: &[u8], defaults: &BulkDefaults) -> Result<Vec<BulkItem>, Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::Validation(vec!["no requests added".to_owned()]));
    }
    if body.last() != Some(&b'\n') {
        return Err(Error::IllegalArgument(
            "The bulk request must be terminated by a newline [\\n]".to_owned(),
        ));
    }
    let mut items = Vec::new();
    let mut lines = (1_usize..).zip(body.split(|byte| *byte == b'\n'));
    while let Some((number, line)) = lines.next() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (action, meta) = action_line(number, line)?;
        let source = match action {
            WriteAction::Delete => None,
            // The last split is the empty rest after the last newline.
            _ => match lines.next().filter(|(_, line)| !line.is_empty()) {
                Some((_, line)) => Some(line),
                None => {
                    return Err(Error::IllegalArgument(
                        "The bulk request must be terminated by a newline [\\n]".to_owned(),
                    ));
                }
            },
        };
        items.push(item(action, meta, source, defaults)?);
    }
    let missing = items.iter().filter(|item| item.index.as_deref().is_none_or(str::is_empty));
    let missing: Vec<String> = missing.map(|_| "index is missing".to_owned()).collect();
    if !missing.is_empty() {
        return Err(Error::Validation(missing));
    }
    Ok(items)
}

/// Combines an action line, its document and the defaults.
fn item(
    action: WriteAction,
    meta: ActionLine,
    source: Option<&[u8]>,
    defaults: &BulkDefaults,
) -> Result<BulkItem, Error> {
    let action = match meta.op_type.as_deref() {
        Some("create") if action == WriteAction::Index => WriteAction::Create,
        None | Some("index") | Some("create") => action,
        Some(other) => {
            return Err(Error::IllegalArgument(format!(
                "opType must be 'create' or 'index', found: [{other}]"
            )));
        }
    };
    let write = write_of(action, &meta, source, defaults);
    Ok(BulkItem {
        action,
        index: meta.index.or_else(|| defaults.index.clone()),
        id: meta.id,
        demand: NameDemand {
            alias: meta.require_alias.unwrap_or(defaults.demand.alias),
            data_stream: meta.require_data_stream.unwrap_or(defaults.demand.data_stream),
        },
        pipeline: meta.pipeline.or_else(|| defaults.pipeline.clone()),
        write,
    })
}

fn write_of(
    action: WriteAction,
    meta: &ActionLine,
    source: Option<&[u8]>,
    defaults: &BulkDefaults,
) -> Result<SingleWrite, Error> {
    if meta.id.is_none() && matches!(action, WriteAction::Update | WriteAction::Delete) {
        return Err(Error::Validation(vec!["id is missing".to_owned()]));
    }
    if meta.has_dynamic_templates {
        return Err(Error::unsupported("[dynamic_templates] with fields in an item"));
    }
    let malformed = |reason: String| Error::Document {
        reason: "failed to parse".to_owned(),
        cause: Some(("json_parse_exception", reason)),
    };
    let text = std::str::from_utf8(source.unwrap_or(b"{}")).map_err(|error| malformed(error.to_string()))?;
    let (mut update, mut kept) = (None, Arc::from(""));
    let mut shown = meta.shown.clone().or_else(|| defaults.shown.clone());
    let mut conditions = meta.conditions.clone();
    if action == WriteAction::Update {
        let body: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let mut body = UpdateBody::parse(body)?;
        shown = body.shown.take().or(shown);
        conditions.if_seq_no = conditions.if_seq_no.or(body.if_seq_no);
        conditions.if_primary_term = conditions.if_primary_term.or(body.if_primary_term);
        body.retries = meta.retries;
        update = Some(body);
    } else {
        kept = Arc::from(text.trim());
    }
    Ok(SingleWrite {
        action,
        id: meta.id.clone(),
        routing: meta.routing.clone().or_else(|| defaults.routing.clone()),
        conditions,
        source: kept,
        update,
        shown,
        answer: None,
        size: None,
    })
}

/// Parses an action line.
pub(crate) fn action_line(number: usize, line: &[u8]) -> Result<(WriteAction, ActionLine), Error> {
    let malformed = |expected: &str, found: &str| {
        Error::IllegalArgument(format!(
            "Malformed action/metadata line [{number}], expected {expected} but found [{found}]"
        ))
    };
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

/// Reads an input as the body of a bulk, and as a stream of operations, which has the same items however its
/// bytes arrive; documents are written and read again. For fuzzers.
pub fn fuzz(input: &[u8]) {
    let defaults = BulkDefaults {
        index: Some("a".to_owned()),
        routing: None,
        demand: NameDemand::default(),
        pipeline: None,
        shown: None,
    };
    let check = |error: &Error| {
        assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'");
        assert_eq!(error.status(), 400, "what is malformed is not sent again: {error}");
    };
    let whole = parse(input, &defaults);
    match &whole {
        Ok(items) => items.iter().for_each(|item| match &item.write {
            Ok(write) => fuzz_document(&write.source),
            Err(error) => check(error),
        }),
        Err(error) => check(error),
    }
    let batches_of = |piece: usize| {
        let batching = BulkBatching { operations: 2, interval: None };
        let mut splitter = BulkSplitter::new(batching, usize::MAX);
        let mut batches = Vec::new();
        for piece in input.chunks(piece) {
            batches.extend(splitter.add(piece).expect("no operation is too long"));
        }
        batches.extend(splitter.rest());
        batches
    };
    let batches = batches_of(input.len().max(1));
    assert!(batches == batches_of(1), "the batches depend on how the bytes arrive");
    if let Ok(items) = &whole {
        let count = |batch: &Vec<u8>| parse(batch, &defaults).map_or(0, |items| items.len());
        assert_eq!(batches.iter().map(count).sum::<usize>(), items.len(), "a stream has other items");
    }
}

/// Reads a document of a bulk, writes it as answers have it, and reads it again: it has the same values. One
/// with the name of unread parts, which no client knows, is written; what can be read of that stays the same.
fn fuzz_document(text: &str) {
    let read = |text: &str| unread::read_document(text).ok().map(Value::Object);
    let again = |document: &Value| read(&unread::sent_json(document));
    if let Some(document) = read(text) {
        assert!(again(&document).as_ref() == Some(&document), "it has other values: {document:?}");
    }
    let named = read(&text.replace("unread", &unread::escaped_name()));
    if let Some(document) = named.and_then(|document| again(&document)) {
        assert!(again(&document).as_ref() == Some(&document), "it has other values: {document:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> BulkDefaults {
        BulkDefaults {
            index: None,
            routing: None,
            demand: NameDemand::default(),
            pipeline: None,
            shown: None,
        }
    }

    #[test]
    fn a_malformed_line_refuses_the_whole() {
        let good = "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n";
        for (line, expected) in [
            ("{}\n", "Malformed action/metadata line [3], expected FIELD_NAME but found [END_OBJECT]"),
            ("[]\n", "Malformed action/metadata line [3], expected START_OBJECT but found [START_ARRAY]"),
            ("1\n", "Malformed action/metadata line [3], expected START_OBJECT but found [VALUE_NUMBER]"),
            (
                "{\"nothing\":{}}\n{}\n",
                "Malformed action/metadata line [3], expected field [create], [delete], [index] or [update] but found [nothing]",
            ),
            (
                "{\"index\":1}\n{}\n",
                "Malformed action/metadata line [3], expected START_OBJECT but found [VALUE_NUMBER]",
            ),
            (
                "{\"index\":{},\"delete\":{}}\n{}\n",
                "Malformed action/metadata line [3], expected END_OBJECT but found [FIELD_NAME]",
            ),
            (
                "{\"index\":{\"_index\":\"a\",\"what\":1}}\n{}\n",
                "Action/metadata line [3] contains an unknown parameter [what]",
            ),
            (
                "{\"index\":{\"_index\":[]}}\n{}\n",
                "Malformed action/metadata line [3], expected a simple value for field [_index] but found [START_ARRAY]",
            ),
            (
                "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}",
                "The bulk request must be terminated by a newline [\\n]",
            ),
            ("{\"index\":{\"_index\":\"a\"}}\n", "The bulk request must be terminated by a newline [\\n]"),
            (
                "{\"update\":{\"retry_on_conflict\":\"x\"}}\n{}\n",
                "action/metadata line [3]: field [retry_on_conflict] is not a whole number: [x]",
            ),
            ("{\"index\":{\"op_type\":\"put\"}}\n{}\n", "opType must be 'create' or 'index', found: [put]"),
            ("{\"index\":{}}\n{}\n", "Validation Failed: 1: index is missing;"),
        ] {
            let body = format!("{good}{line}");
            let error =
                parse(body.as_bytes(), &defaults()).err().unwrap_or_else(|| panic!("{line} is taken"));
            assert_eq!(error.to_string(), expected, "{line}");
            assert_eq!(error.status(), 400, "{line}");
        }
        let error = parse(format!("{good}{{\"index\":\n{{}}\n").as_bytes(), &defaults()).err();
        assert_eq!(error.map(|error| error.kind()), Some("json_parse_exception"));
        let error = parse(b"\n", &defaults()).err().expect("an empty body is refused");
        assert_eq!(error.to_string(), "Validation Failed: 1: no requests added;");
    }

    #[test]
    fn items_have_their_metadata_and_defaults() {
        let body = b"{\"index\":{\"_id\":7,\"op_type\":\"create\"}}\r\n{\"a\":1}\r\n{\"delete\":{\"_index\":\"b\",\"_id\":\"x\",\"routing\":\"r\"}}\n";
        let defaults =
            BulkDefaults { index: Some("a".to_owned()), routing: Some("q".to_owned()), ..defaults() };
        let items = parse(body, &defaults).expect("the body is valid");
        let shown: Vec<_> = items
            .iter()
            .map(|item| {
                let write = item.write.as_ref().expect("each item is valid");
                (
                    item.action.name(),
                    item.index.as_deref(),
                    item.id.as_deref(),
                    write.routing.as_deref(),
                    &*write.source,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("create", Some("a"), Some("7"), Some("q"), "{\"a\":1}"),
                ("delete", Some("b"), Some("x"), Some("r"), "{}"),
            ]
        );
    }

    #[test]
    fn documents_are_read_as_they_were_written() {
        for text in [
            r#"{"a":-0.0,"b":[1e999,18446744073709551616,0.1],"a":1}"#,
            r#"{"a":"\ud800","b":{"\udc00":[1,{"c":null}]}}"#,
            r#"{"unread":"{broken"}"#,
            r#"{"unread":"1e999"}"#,
            r#"{"a":{"unread":""}}"#,
            r#"{"a":[{"unread":"[ 1, 1e999 ]"}]}"#,
            r#"{"a":{"unread":" 1 "},"b":1e999}"#,
            r#"{"a":{"unread":1},"b":{"unread":"1","c":2}}"#,
        ] {
            assert!(unread::read_document(text).is_ok(), "{text}");
            fuzz_document(text);
        }
    }
}
