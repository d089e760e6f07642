//! JSON form of etcd's interface: bytes in base64, 64-bit numbers as strings; empty and zero values are left
//! out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::{
    KeyChange, KeyCondition, KeyEntry, KeyOperation, LeaseId, StoreRevision, Transaction, TransactionOutcome,
};

/// Fault of an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum EtcdAnswerFault {
    #[error("{0} is not a revision")]
    Revision(Value),
    #[error("{0} is not a lease")]
    Lease(Value),
    #[error("'{text}': {source}")]
    Base64 { text: String, source: base64::DecodeError },
    #[error("a key is not text: {0}")]
    Key(#[from] std::string::FromUtf8Error),
    #[error("{results} results of {operations} operations")]
    Results { results: usize, operations: usize },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("'{0}' is not a change")]
    Change(String),
}

/// Parses a number, which may be written as a string; `None` if it is invalid. A missing number is 0.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

fn revision(value: &Value) -> Result<StoreRevision, EtcdAnswerFault> {
    let number = integer(value).and_then(|number| u64::try_from(number).ok());
    number.map(StoreRevision).ok_or_else(|| EtcdAnswerFault::Revision(value.clone()))
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn decoded(value: &Value) -> Result<Vec<u8>, EtcdAnswerFault> {
    let text = value.as_str().unwrap_or_default();
    let wrong = |source| EtcdAnswerFault::Base64 { text: text.to_owned(), source };
    STANDARD.decode(text).map_err(wrong)
}

/// End of the range of keys that begin with `prefix`.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // All keys.
    vec![0]
}

/// Range of the keys that begin with `prefix`. A key is at least one byte long.
fn range(prefix: &str) -> Map<String, Value> {
    let first = if prefix.is_empty() { "\0" } else { prefix };
    let range = [("key", encoded(first)), ("range_end", encoded(end_of(prefix)))];
    range.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
}

/// Request for a transaction.
pub(super) fn transaction(transaction: &Transaction) -> Value {
    let compare: Vec<Value> = transaction.conditions.iter().map(condition).collect();
    let operations = |list: &[KeyOperation]| list.iter().map(operation).collect::<Vec<Value>>();
    json!({
        "compare": compare,
        "success": operations(&transaction.then),
        "failure": operations(&transaction.otherwise),
    })
}

fn condition(condition: &KeyCondition) -> Value {
    let compare = |key: &str, target: &str, number: &str, at: u64| json!({ "key": encoded(key), "result": "EQUAL", "target": target, number: at.to_string() });
    match condition {
        KeyCondition::Absent(key) => compare(key, "CREATE", "create_revision", 0),
        KeyCondition::Created(key, at) => compare(key, "CREATE", "create_revision", at.0),
        KeyCondition::Changed(key, at) => compare(key, "MOD", "mod_revision", at.0),
    }
}

fn operation(operation: &KeyOperation) -> Value {
    match operation {
        KeyOperation::Get(key) => json!({ "request_range": { "key": encoded(key) } }),
        KeyOperation::List(prefix) => json!({ "request_range": range(prefix) }),
        KeyOperation::Keys(prefix) => {
            let mut range = range(prefix);
            range.insert("keys_only".to_owned(), Value::Bool(true));
            json!({ "request_range": range })
        }
        KeyOperation::Put { key, value, lease } => {
            let lease = lease.map_or(0, |lease| lease.0).to_string();
            json!({ "request_put": { "key": encoded(key), "value": encoded(value), "lease": lease } })
        }
        KeyOperation::Delete(key) => json!({ "request_delete_range": { "key": encoded(key) } }),
        KeyOperation::DeletePrefix(prefix) => json!({ "request_delete_range": range(prefix) }),
    }
}

/// Parses the answer to a transaction.
pub(super) fn outcome(
    answer: &Value,
    transaction: &Transaction,
) -> Result<TransactionOutcome, EtcdAnswerFault> {
    let held = answer["succeeded"].as_bool().unwrap_or(false);
    let operations = if held { &transaction.then } else { &transaction.otherwise };
    let responses = answer["responses"].as_array().map_or(&[][..], Vec::as_slice);
    if responses.len() != operations.len() {
        let (results, operations) = (responses.len(), operations.len());
        return Err(EtcdAnswerFault::Results { results, operations });
    }
    let found = responses.iter().map(|response| {
        let entries = response["response_range"]["kvs"].as_array();
        entries.into_iter().flatten().map(entry).collect::<Result<Vec<_>, EtcdAnswerFault>>()
    });
    let found = found.collect::<Result<_, EtcdAnswerFault>>()?;
    Ok(TransactionOutcome { held, revision: revision(&answer["header"]["revision"])?, found })
}

fn entry(value: &Value) -> Result<KeyEntry, EtcdAnswerFault> {
    let lease = integer(&value["lease"]).ok_or_else(|| EtcdAnswerFault::Lease(value["lease"].clone()))?;
    Ok(KeyEntry {
        key: key(value)?,
        value: decoded(&value["value"])?.into(),
        created: revision(&value["create_revision"])?,
        changed: revision(&value["mod_revision"])?,
        lease: (lease != 0).then_some(LeaseId(lease)),
    })
}

fn key(value: &Value) -> Result<String, EtcdAnswerFault> {
    Ok(String::from_utf8(decoded(&value["key"])?)?)
}

/// Request for the changes after a revision.
pub(super) fn watch(prefix: &str, after: StoreRevision) -> Value {
    let mut request = range(prefix);
    let from = after.0.saturating_add(1).to_string();
    request.insert("start_revision".to_owned(), Value::String(from));
    json!({ "create_request": request })
}

/// A message about changes.
pub(super) enum WatchMessage {
    Changes(Vec<KeyChange>),
    Compacted(StoreRevision),
    /// End of the stream, with its reason.
    End(String),
}

/// Parses a line of the answer to [`watch`].
pub(super) fn message(line: &[u8]) -> Result<WatchMessage, EtcdAnswerFault> {
    let line: Value = serde_json::from_slice(line)?;
    if let Some(error) = line.get("error") {
        return Ok(WatchMessage::End(error["message"].as_str().unwrap_or("an error").to_owned()));
    }
    let result = &line["result"];
    match revision(&result["compact_revision"])? {
        StoreRevision(0) => {}
        compacted => return Ok(WatchMessage::Compacted(compacted)),
    }
    if result["canceled"].as_bool() == Some(true) {
        let reason = result["cancel_reason"].as_str().unwrap_or("cancelled");
        return Ok(WatchMessage::End(reason.to_owned()));
    }
    let events = result["events"].as_array().into_iter().flatten();
    events.map(change).collect::<Result<_, _>>().map(WatchMessage::Changes)
}

fn change(event: &Value) -> Result<KeyChange, EtcdAnswerFault> {
    let subject = &event["kv"];
    match event["type"].as_str() {
        Some("DELETE") => {
            Ok(KeyChange::Deleted { key: key(subject)?, at: revision(&subject["mod_revision"])? })
        }
        Some("PUT") | None => entry(subject).map(KeyChange::Put),
        Some(other) => Err(EtcdAnswerFault::Change(other.to_owned())),
    }
}
