//! Lifecycles of data streams: documents are kept for a time, and then dropped by partition or by index.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog::{CatalogEntries, OpenIndex, StreamEntry, now_ms};
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::duration_of;
use crate::service::ElasticService;
use crate::{Error, partitions, storage};

/// Lifecycle of a data stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamLifecycle {
    enabled: bool,
    /// Time for which documents are kept, as it was given; `None`: for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_retention: Option<String>,
}

impl StreamLifecycle {
    /// Parses the body of a request, or the member of a template.
    ///
    /// # Errors
    /// It has a member that there is not, or a malformed one.
    pub(crate) fn parse(body: &Map<String, Value>) -> Result<Self, Error> {
        let mut parsed = StreamLifecycle { enabled: true, data_retention: None };
        for (name, value) in body {
            match (name.as_str(), value) {
                ("enabled", Value::Bool(enabled)) => parsed.enabled = *enabled,
                ("data_retention", Value::String(text)) => {
                    let retention = duration_of(text).ok().flatten().filter(|time| !time.is_zero());
                    if retention.is_none() {
                        return Err(Error::IllegalArgument(format!(
                            "failed to parse setting [data_retention] with value [{text}]; name a time, such as 7d"
                        )));
                    }
                    parsed.data_retention = Some(text.clone());
                }
                (_, Value::Null) => {}
                _ => {
                    return Err(Error::Parsing(format!(
                        "a lifecycle with [{name}: {value}] is not supported; it may have [enabled] and [data_retention]"
                    )));
                }
            }
        }
        Ok(parsed)
    }

    /// The lifecycle of the data streams of a policy; `None` if it deletes nothing.
    pub(crate) fn of_policy(policy: &Value) -> Option<Self> {
        let age = deletion_age(policy.get("policy")?)?;
        let retention = duration_of(age).ok().flatten().filter(|time| !time.is_zero());
        retention.map(|_| StreamLifecycle { enabled: true, data_retention: Some(age.to_owned()) })
    }

    /// Time in milliseconds for which documents are kept; `None`: for good.
    fn retention_ms(&self) -> Option<u64> {
        let text = self.data_retention.as_deref().filter(|_| self.enabled)?;
        Some(duration_of(text).ok()??.as_millis() as u64)
    }

    /// The lifecycle in an answer.
    pub(crate) fn object(&self) -> Value {
        let mut object = json!({ "enabled": self.enabled });
        if let Some(retention) = &self.data_retention {
            object["data_retention"] = retention.as_str().into();
            object["effective_retention"] = retention.as_str().into();
            object["retention_determined_by"] = "data_stream_configuration".into();
        }
        object
    }
}

/// Age at which a policy deletes indexes.
fn deletion_age(policy: &Value) -> Option<&str> {
    policy.get("phases")?.get("delete")?.get("min_age")?.as_str()
}

/// Checks a policy.
///
/// # Errors
/// It has no phases, or deletes at an age that is not a time.
pub(crate) fn check_policy(body: &Map<String, Value>) -> Result<(), Error> {
    let policy = body.get("policy").filter(|policy| policy.get("phases").is_some_and(Value::is_object));
    let Some(policy) = policy.filter(|_| body.len() == 1) else {
        return Err(Error::Parsing("a lifecycle policy is an object [policy] with [phases]".to_owned()));
    };
    deletion_age(policy).map_or(Ok(()), |age| duration_of(age).map(drop))
}

/// Warning to the client that gives a policy.
pub(crate) fn policy_note(name: &str) -> String {
    format!(
        "of the lifecycle policy [{name}] the age of deletion has an effect, on data streams that are made with it later, \
         and nothing else"
    )
}

/// Names of the data streams that an expression means.
fn streams_of(entries: &CatalogEntries, expression: &str) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for pattern in expression.split(',').filter(|pattern| !pattern.is_empty()) {
        let pattern = if pattern == "_all" { "*" } else { pattern };
        let before = found.len();
        found.extend(entries.streams.keys().filter(|name| glob(pattern, name)).cloned());
        if found.len() == before && !names::is_pattern(pattern) {
            return Err(Error::no_index(pattern));
        }
    }
    found.dedup();
    Ok(found)
}

/// `PUT` of the lifecycle of data streams.
pub(crate) fn put(
    service: &ElasticService,
    request: &ElasticRequest,
    expression: &str,
) -> Result<ReplyContent, Error> {
    change(service, expression, Some(StreamLifecycle::parse(&object_of(&request.body)?)?))
}

/// Gives data streams a lifecycle, or none.
pub(crate) fn change(
    service: &ElasticService,
    expression: &str,
    lifecycle: Option<StreamLifecycle>,
) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    for name in streams_of(&change, expression)? {
        let stream = change.streams[&name].clone();
        change.put_stream(StreamEntry { lifecycle: lifecycle.clone(), ..stream });
    }
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `GET` and `HEAD` of the lifecycle of data streams.
pub(crate) fn get(service: &ElasticService, expression: &str) -> Result<ReplyContent, Error> {
    let entries = service.catalog.read()?;
    let shown = streams_of(&entries, expression)?.into_iter().map(|name| {
        let mut object = json!({ "name": name });
        if let Some(lifecycle) = &entries.streams[&name].lifecycle {
            object["lifecycle"] = lifecycle.object();
        }
        object
    });
    ReplyContent::ok(json!({ "data_streams": shown.collect::<Vec<_>>(), "global_retention": {} }))
}

/// `INDEX/_lifecycle/explain`.
pub(crate) fn explain(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let entries = service.catalog.read()?;
    let options = NameOptions { hidden: true, ..NameOptions::LENIENT };
    let mut indexes = Map::new();
    for index in names::resolve(&entries, expression, options.with(parameters)?)? {
        let entry = &index.entry;
        let stream = entries.streams.values().find(|stream| stream.indexes.contains(&entry.name));
        let lifecycle = stream.and_then(|stream| stream.lifecycle.as_ref());
        let mut object = json!({ "index": entry.name, "managed_by_lifecycle": lifecycle.is_some() });
        if let Some(lifecycle) = lifecycle {
            object["index_creation_date_millis"] = entry.created_ms.into();
            object["lifecycle"] = lifecycle.object();
        }
        if index.is_log() {
            object["partitions"] = index.live.partitions.len().into();
        }
        indexes.insert(entry.name.clone(), object);
    }
    ReplyContent::ok(json!({ "indices": indexes }))
}

impl ElasticService {
    /// Drops what the lifecycles of data streams say to drop now. Returns the number of partitions and
    /// indexes that were dropped; none on a node of a cluster that does not own the documents of the service.
    ///
    /// # Errors
    /// The catalog cannot be read or changed, or something cannot be dropped.
    pub fn apply_lifecycles(&self) -> Result<u64, Error> {
        if !self.owns_home()? {
            storage::keep_partitions_apart(&self.node);
            return Ok(0);
        }
        if let Err(error) = partitions::complete_drops(&self.catalog, None) {
            tracing::debug!(%error, "the drops of partitions wait");
        }
        let mut dropped = 0;
        let streams: Vec<StreamEntry> = self.catalog.read()?.streams.values().cloned().collect();
        for stream in streams {
            let retention_ms = stream.lifecycle.as_ref().and_then(StreamLifecycle::retention_ms);
            let Some(retention_ms) = retention_ms else { continue };
            dropped += self.apply_retention(&stream.name, retention_ms)?;
        }
        Ok(dropped)
    }

    fn apply_retention(&self, name: &str, retention_ms: u64) -> Result<u64, Error> {
        let indexes: Vec<OpenIndex> = {
            let entries = self.catalog.read()?;
            let Some(stream) = entries.streams.get(name) else { return Ok(0) };
            stream.indexes.iter().filter_map(|index| entries.indexes.get(index)).cloned().collect()
        };
        let mut dropped = 0;
        for index in indexes.iter().filter(|index| index.is_log()) {
            dropped += partitions::expire(self, index, retention_ms)?;
        }
        // An index takes no writes since the next one was made.
        for (index, next) in indexes.iter().zip(indexes.iter().skip(1)) {
            let is_over = now_ms().saturating_sub(next.entry.created_ms) >= retention_ms;
            let mut change = self.catalog.change()?;
            if change.written(index).is_err() {
                // Other partitions of it count now.
                continue;
            }
            let is_empty = index.live.partitions.len() == 0;
            let Some(stream) = change.streams.get(name).filter(|_| is_over && (!index.is_log() || is_empty))
            else {
                continue;
            };
            let mut stream = stream.clone();
            stream.indexes.retain(|other| *other != index.entry.name);
            change.put_stream(stream);
            change.delete_index(&index.entry.name)?;
            change.commit()?;
            dropped += 1;
        }
        Ok(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifecycles_are_parsed() {
        let parsed = |text: &str| {
            let body: Map<String, Value> = serde_json::from_str(text).expect("the test's text is an object");
            StreamLifecycle::parse(&body)
                .map(|lifecycle| lifecycle.retention_ms())
                .map_err(|error| error.to_string())
        };
        for (text, expected) in [
            ("{}", None),
            (r#"{"data_retention":"7d"}"#, Some(7 * 86_400_000)),
            (r#"{"data_retention":"90s","enabled":true}"#, Some(90_000)),
            (r#"{"data_retention":"7d","enabled":false}"#, None),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            (
                r#"{"data_retention":"soon"}"#,
                "failed to parse setting [data_retention] with value [soon]; name a time, such as 7d",
            ),
            (
                r#"{"data_retention":"0s"}"#,
                "failed to parse setting [data_retention] with value [0s]; name a time, such as 7d",
            ),
            (
                r#"{"downsampling":[]}"#,
                "a lifecycle with [downsampling: []] is not supported; it may have [enabled] and [data_retention]",
            ),
        ] {
            assert_eq!(parsed(text), Err(expected.to_owned()), "{text}");
        }
    }
}
