//! Trace of a query for people: its time, and its interpretation.
//!
//! - From level 1, or from `tracelevel.rules` alone: the effect of rules on the query.
//! - From level 1: the query profile, the searched sources, and for each schema the amount searched and the
//!   time of each part.
//! - From level 2, and by `trace.explainLevel` or `trace.profile`: the plan for each schema, with the
//!   predicates on its fields.

use std::time::{Duration, Instant};

use millrace_query::Query;
use millrace_render::TraceStep;

use millrace_node::search::{PlanTrace, SearchOutcome};

/// Minimum level at which plans are shown.
const PLANS_LEVEL: u8 = 2;

/// The trace of a finished query; `None` if none is wanted.
pub(super) fn query_step(query: &Query, found: &SearchOutcome, started: Instant) -> Option<TraceStep> {
    let mut children: Vec<TraceStep> = found.rule_trace.iter().cloned().map(step).collect();
    if let Some(plans) = &found.plans {
        children.extend(of_run(query, found, plans, started));
    }
    (!children.is_empty()).then_some(TraceStep { timestamp_ms: None, message: None, children })
}

fn step(message: String) -> TraceStep {
    TraceStep { timestamp_ms: None, message: Some(message), children: Vec::new() }
}

/// Steps of planning and running it.
fn of_run(query: &Query, found: &SearchOutcome, plans: &PlanTrace, started: Instant) -> Vec<TraceStep> {
    let tracing = query.tracing;
    let text = if tracing.query { plans.query.as_str() } else { "…" };
    let stamp = |at: Duration| tracing.timestamps.then(|| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
    let explains = tracing.explained || tracing.level >= PLANS_LEVEL;

    let mut children = vec![
        step(match &plans.profile {
            Some(profile) => format!("Using query profile '{profile}'"),
            None => "No query profile is used".to_owned(),
        }),
        TraceStep {
            timestamp_ms: stamp(found.planned),
            ..step(format!(
                "search: query=[{text}] timeout={}ms offset={} hits={} schemas={:?}, planned after {:?}",
                found.timeout.as_millis(),
                query.offset,
                query.hits,
                found.traces.iter().map(|(schema, _)| &**schema).collect::<Vec<_>>(),
                found.planned,
            ))
        },
    ];
    children.extend(plans.indexes.iter().cloned().map(step));
    for (index, (schema, trace)) in found.traces.iter().enumerate() {
        let parts = [
            ("narrowed by the selection", trace.select),
            ("matched", trace.matching),
            ("ranked or sorted", trace.order),
            ("grouped", trace.group),
            ("filled", trace.summary),
        ];
        let steps = parts.iter().filter(|(_, time)| !time.is_zero());
        let mut inside: Vec<TraceStep> =
            steps.map(|(name, time)| step(format!("{name} in {time:?}"))).collect();
        if let Some(plan) = plans.plans.get(index).filter(|_| explains) {
            inside.insert(0, step(format!("plan: {plan}")));
        }
        children.push(TraceStep {
            children: inside,
            ..step(format!(
                "schema {schema}: {} documents looked at, {} matched",
                trace.documents, trace.matched
            ))
        });
    }
    let sum = |part: fn(&millrace_search::SearchTrace) -> Duration| -> Duration {
        found.traces.iter().map(|(_, trace)| part(trace)).sum()
    };
    let matching = sum(|trace| trace.select + trace.matching + trace.order + trace.group);
    children.push(step(format!("Query time query '{text}': {matching:?}")));
    children.push(step(format!("Summary fetch time query '{text}': {:?}", sum(|trace| trace.summary))));
    let whole = started.elapsed();
    children
        .push(TraceStep { timestamp_ms: stamp(whole), ..step(format!("rendering begins after {whole:?}")) });
    children
}
