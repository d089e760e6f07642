//! Rendering of results and errors.

use std::time::{Duration, Instant};

use millrace_node::Error;
use millrace_node::search::{LackingSchema, SchemaPart, SearchNotices, SearchOutcome, SourceSearchOutcome};
use millrace_query::Query;
use millrace_render::{ErrorMessage, QueryTiming, RenderOptions, SearchResponse, SourceGroup};

use super::benchmark::{QueryStats, SearchPhases};
use super::codes::{ErrorCode, ILLEGAL_QUERY, INVALID_PARAMETER, TIMED_OUT, code_of};
use super::format::ResultFormat;
use super::trace;

/// Renders the answer to a query.
pub(super) fn result(
    query: &Query,
    found: &SearchOutcome,
    started: Instant,
    format: ResultFormat,
) -> (Vec<u8>, QueryStats) {
    let errors = result_errors(found);
    let timing = query.presentation.timing.then(|| timing(found, started));
    let trace = trace::query_step(query, found, started);
    let options = RenderOptions {
        tensors: query.presentation.tensors.unwrap_or_default(),
        maps_as_lists: query.presentation.maps_as_lists,
        sets_as_lists: query.presentation.sets_as_lists,
        raw_as_hex: query.presentation.raw_as_hex,
    };
    let (hits, groupings) = (&found.result.hits[found.hits.clone()], &found.result.groupings[..]);
    let groups: Vec<SourceGroup<'_>> = found
        .sources
        .iter()
        .filter(|_| found.grouped)
        .map(|source| {
            let (hits, groupings) = (&hits[source.hits.clone()], &groupings[source.groupings.clone()]);
            SourceGroup { name: &source.name, hits, groupings }
        })
        .collect();
    let full = found.sources.iter().filter(|source| source.is_full).count();
    let response = SearchResponse {
        total_count: found.result.total_count,
        hits: if found.grouped { &[] } else { hits },
        groupings: if found.grouped { &[] } else { groupings },
        sources: &groups,
        merged: (!found.sources.is_empty()).then_some((found.sources.len(), full)),
        coverage: found.result.coverage,
        errors: &errors,
        timing,
        trace: trace.as_ref(),
    };
    let body = format.write(&response, &options);
    let stats = QueryStats {
        hits: found.hits.len(),
        total_count: found.result.total_count,
        hits_asked: query.hits,
        offset: query.offset,
        group_hits: found.result.groupings.len(),
        errors: errors.len(),
        search_ms: started.elapsed().as_millis(),
        fill_ms: found.traces.iter().map(|(_, trace)| trace.summary.as_millis()).sum(),
        coverage: found.result.coverage,
        phases: SearchPhases::of_outcome(found),
    };
    (body, stats)
}

/// Errors that accompany a result.
pub(super) fn result_errors(found: &SearchOutcome) -> Vec<ErrorMessage> {
    let of_sources = found.sources.iter().flat_map(of_source);
    notices(&found.notices).into_iter().chain(of_sources).collect()
}

/// Errors of a separately searched source.
fn of_source(source: &SourceSearchOutcome) -> Vec<ErrorMessage> {
    let errors = match &source.notices {
        Ok(of_result) => notices(of_result),
        Err(error) => vec![message(error)],
    };
    let named = |error: ErrorMessage| ErrorMessage {
        source: error.source.or_else(|| Some(source.name.to_string())),
        ..error
    };
    errors.into_iter().map(named).collect()
}

/// Errors of notices.
fn notices(found: &SearchNotices) -> Vec<ErrorMessage> {
    let illegal = |message: String, source: Option<String>| ErrorMessage {
        code: ILLEGAL_QUERY.code,
        summary: ILLEGAL_QUERY.summary.to_owned(),
        message: Some(message),
        source,
        transient: None,
    };
    let timed_out = found.timed_out.map(|timeout| ErrorMessage {
        code: TIMED_OUT.code,
        summary: TIMED_OUT.summary.to_owned(),
        message: Some(format!("The timeout of {timeout:?} was reached: the result is not complete")),
        source: None,
        transient: Some(true),
    });
    let unresolved = found.unresolved.as_deref().map(message);
    let lacking = found.lacking.iter().map(|LackingSchema { schema, lacks }| {
        let (code, part) = match lacks {
            SchemaPart::RankProfile => (INVALID_PARAMETER, "rank profile"),
            SchemaPart::DocumentSummary => (ILLEGAL_QUERY, "document summary"),
        };
        let message = format!("schema '{schema}' lacks the {part} asked for; its documents are left out");
        let error = illegal(message, Some(schema.to_string()));
        ErrorMessage { code: code.code, summary: code.summary.to_owned(), ..error }
    });
    let ungrouped = found.ungrouped.iter().map(|ungrouped| {
        let message = format!(
            "Could not locate field for grouping number {} : {}; the groups are of documents of other schemas",
            ungrouped.request, ungrouped.reason
        );
        illegal(message, Some(ungrouped.schema.to_string()))
    });
    let unshown = found.unshown.iter().map(|unshown| illegal(unshown.reason.clone(), None));
    let whole = timed_out.into_iter().chain(unresolved).chain(lacking).chain(ungrouped).chain(unshown);
    whole.collect()
}

/// Renders the answer to a failed query.
pub(super) fn error(error: &Error, format: ResultFormat) -> Vec<u8> {
    errors(&[message(error)], format)
}

/// Renders errors without a result.
pub(super) fn errors(errors: &[ErrorMessage], format: ResultFormat) -> Vec<u8> {
    let response = SearchResponse { errors, ..SearchResponse::default() };
    format.write(&response, &RenderOptions::default())
}

/// Error message for results.
fn message(error: &Error) -> ErrorMessage {
    let ErrorCode { code, summary } = code_of(error);
    ErrorMessage {
        code,
        summary: summary.to_owned(),
        message: Some(error.message()),
        source: None,
        transient: None,
    }
}

fn timing(found: &SearchOutcome, started: Instant) -> QueryTiming {
    let sum = |part: fn(&millrace_search::SearchTrace) -> Duration| {
        found.traces.iter().map(|(_, trace)| part(trace)).sum()
    };
    QueryTiming {
        query: sum(|trace| trace.select + trace.matching + trace.order + trace.group),
        summary_fetch: sum(|trace| trace.summary),
        search: started.elapsed(),
    }
}
