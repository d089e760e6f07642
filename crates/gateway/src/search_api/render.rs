//! Results and errors as the result JSON.

use std::time::{Duration, Instant};

use millrace_query::Query;
use millrace_render::{ErrorMessage, Options, Response, Timing, Trace, write_json};

use super::run::Found;
use crate::Error;
use crate::error::Kind;

/// The answer to a query.
pub(super) fn result(query: &Query, found: &Found, started: Instant) -> Result<Vec<u8>, Error> {
    let tensors = match query.presentation.tensors.as_deref() {
        Some(text) => {
            text.parse().map_err(|reason: String| Error::parameter("presentation.format.tensors", reason))?
        }
        None => millrace_tensor::json::Format::default(),
    };
    let timed_out = found.result.coverage.timed_out.then(|| ErrorMessage {
        code: 12,
        summary: "Timed out".to_owned(),
        message: Some(format!("The timeout of {:?} was reached: the result is not complete", found.timeout)),
        source: None,
        transient: Some(true),
    });
    let errors: Vec<ErrorMessage> = timed_out.into_iter().collect();
    let timing = query.presentation.timing.then(|| timing(found, started));
    let trace = (query.trace_level > 0).then(|| trace(query, found, started));
    let response = Response {
        total_count: found.result.total_count,
        hits: &found.result.hits[found.hits.clone()],
        groupings: &found.result.groupings,
        coverage: found.result.coverage,
        errors: &errors,
        timing,
        trace: trace.as_ref(),
    };
    let mut out = Vec::with_capacity(512 + 1024 * found.hits.len());
    write_json(&response, &Options { tensors }, &mut out);
    Ok(out)
}

/// The answer to a query that failed.
pub(super) fn error(error: &Error) -> Vec<u8> {
    let (code, summary) = match error {
        Error::UnknownSource { .. } => (0, "Could not resolve source"),
        _ => match error.kind() {
            Kind::BadRequest | Kind::TooLarge | Kind::Precondition | Kind::MethodNotAllowed => {
                (4, "Invalid query parameter")
            }
            Kind::NotFound | Kind::Unavailable => (1, "No backends in service. Try later"),
            Kind::Overloaded => (21, "Insufficient resources"),
            Kind::Timeout => (12, "Timed out"),
            Kind::Conflict | Kind::Storage | Kind::Internal => (5, "Unspecified error"),
        },
    };
    let message = ErrorMessage {
        code,
        summary: summary.to_owned(),
        message: Some(error.to_string()),
        source: None,
        transient: None,
    };
    let errors = [message];
    let response = Response { errors: &errors, ..Response::default() };
    let mut out = Vec::new();
    write_json(&response, &Options::default(), &mut out);
    out
}

fn timing(found: &Found, started: Instant) -> Timing {
    let sum = |part: fn(&millrace_search::Trace) -> Duration| {
        found.traces.iter().map(|(_, trace)| part(trace)).sum()
    };
    Timing {
        query: sum(|trace| trace.select + trace.matching + trace.order + trace.group),
        summary_fetch: sum(|trace| trace.summary),
        search: started.elapsed(),
    }
}

/// Where the time went, for people.
fn trace(query: &Query, found: &Found, started: Instant) -> Trace {
    let step = |message: String| Trace { timestamp_ms: None, message: Some(message), children: Vec::new() };
    let mut children = vec![
        step(format!("query: {}", query.root)),
        step(format!("collected, parsed and planned after {:?}", found.planned)),
    ];
    for (schema, trace) in &found.traces {
        let parts = [
            ("narrowed by the selection", trace.select),
            ("matched", trace.matching),
            ("ranked or sorted", trace.order),
            ("grouped", trace.group),
            ("filled", trace.summary),
        ];
        let steps = parts.iter().filter(|(_, time)| !time.is_zero());
        children.push(Trace {
            timestamp_ms: None,
            message: Some(format!(
                "schema {schema}: {} documents looked at, {} matched",
                trace.documents, trace.matched
            )),
            children: steps.map(|(name, time)| step(format!("{name} in {time:?}"))).collect(),
        });
    }
    children.push(step(format!("rendering begins after {:?}", started.elapsed())));
    Trace { timestamp_ms: None, message: None, children }
}
