//! `_validate/query` and `_resolve/index`: answers about a request that is not made yet.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{OpenIndex, now_ms};
use crate::dated_names::with_dates;
use crate::evaluation::{SearchedDocument, SearchedWords};
use crate::explanation::text_of_query;
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::query::SearchQuery;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent};
use crate::search::{indexes_of, query_alone};
use crate::service::ElasticService;

/// `_validate/query`: the query is parsed, and evaluated for each index on a document without fields.
pub(crate) fn validate(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let explains = parameters.flag("explain")?.unwrap_or(false);
    let indexes = indexes_of(service, parameters, expression)?;
    let query = match query_alone(service, request, parameters) {
        Ok(search) => search.query,
        Err(error) if error.status() == 400 => {
            let mut answer = json!({ "valid": false });
            if explains {
                answer["error"] = error.to_string().into();
            }
            return ReplyContent::ok(answer);
        }
        Err(error) => return Err(error),
    };
    let (mut is_valid, mut explanations) = (true, Vec::new());
    for index in &indexes {
        let mut explanation = json!({ "index": index.entry.name, "valid": true });
        match evaluate_empty(index, &query) {
            Ok(()) if explains => explanation["explanation"] = text_of_query(&query).into(),
            Ok(()) => {}
            Err(error) if error.status() == 400 => {
                is_valid = false;
                explanation["valid"] = false.into();
                explanation["error"] = error.to_string().into();
            }
            Err(error) => return Err(error),
        }
        if explains {
            take_answer(&service.answer_memory, &explanation)?;
            explanations.push(explanation);
        }
    }
    let count = indexes.len();
    let mut answer = json!({
        "_shards": { "total": count, "successful": count, "failed": 0 }, "valid": is_valid,
    });
    if explains {
        answer["explanations"] = explanations.into();
    }
    ReplyContent::ok(answer)
}

/// Evaluates a query on a document of an index that has no fields.
fn evaluate_empty(index: &OpenIndex, query: &SearchQuery) -> Result<(), Error> {
    query.check_fields(index)?;
    let source = Map::new();
    let document = SearchedDocument {
        index: &index.entry.name,
        id: "",
        routing: None,
        version: 1,
        seq_no: 0,
        mappings: &index.entry.mappings,
        settings: &index.entry.settings,
        analyzers: &index.analyzers,
        source: &source,
        sent: &source,
        now_ms: now_ms() as i64,
        ends: &[],
        is_log: index.is_log(),
        passes_fields: index.passes_fields(),
        words: SearchedWords::default(),
    };
    document.score(query, &mut Vec::new()).map(drop)
}

/// `_resolve/index`: indexes, aliases and data streams, each by its own name.
pub(crate) fn resolve_index(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions { forbid_closed: false, ..NameOptions::LENIENT }.with(parameters)?;
    let expression = &*with_dates(expression)?;
    let entries = service.catalog.read()?;
    let is_named = |name: &str, matches: &dyn Fn(&str) -> bool| {
        expression.split(',').any(|part| match part {
            "_all" => matches("*"),
            pattern if names::is_pattern(pattern) => matches(pattern),
            exact => exact == name,
        })
    };
    let (mut indices, mut aliases) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    let found = names::resolve(&entries, expression, options)?;
    for index in &found {
        let entry = &index.entry;
        for (alias, of) in &entry.aliases {
            if is_named(alias, &|pattern| names::matches_alias(pattern, alias, of, options)) {
                aliases.entry(alias).or_default().push(&entry.name);
            }
        }
        if !is_named(&entry.name, &|pattern| names::matches_name(pattern, index, options)) {
            continue;
        }
        let mut attributes = vec![if entry.is_closed { "closed" } else { "open" }];
        attributes.extend(index.is_hidden().then_some("hidden"));
        attributes.sort_unstable();
        let mut shown = json!({ "name": entry.name, "attributes": attributes });
        if !entry.aliases.is_empty() {
            shown["aliases"] = entry.aliases.keys().map(String::as_str).collect();
        }
        if let Some(stream) = entries.stream_of(&entry.name) {
            shown["data_stream"] = stream.name.as_str().into();
        }
        take_answer(&service.answer_memory, &shown)?;
        indices.push(shown);
    }
    let aliases: Vec<Value> =
        aliases.into_iter().map(|(name, indices)| json!({ "name": name, "indices": indices })).collect();
    aliases.iter().try_for_each(|shown| take_answer(&service.answer_memory, shown))?;
    let mut streams = Vec::new();
    for stream in entries.streams.values() {
        if is_named(&stream.name, &|pattern| glob(pattern, &stream.name)) {
            let shown = json!({
                "name": stream.name, "backing_indices": stream.indexes,
                "timestamp_field": stream.timestamp_field,
            });
            take_answer(&service.answer_memory, &shown)?;
            streams.push(shown);
        }
    }
    ReplyContent::ok(json!({ "indices": indices, "aliases": aliases, "data_streams": streams }))
}
