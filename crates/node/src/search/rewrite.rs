//! The query that parameters ask for, rewritten by the semantic rules of the application.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_access::RequestCaller;
use millrace_plan::parsed;
use millrace_query::{BriefItem, Query, QueryLimits, is_same_parameter, value_of};
use millrace_rules::{QueryRewriting, RewriteStep, RuleBase};
use millrace_schema::did_you_mean;

use super::run;
use super::sources::ResolvedSources;
use crate::pool::{BodySizeClass, WorkFlow};
use crate::{CompiledApplication, Error, Node};

/// Minimum trace level that lists each applied rule; lower levels show only the result of all rules.
const RULES_LEVEL: u64 = 2;

/// A query, and the trace of its rules.
pub struct RewrittenQuery {
    /// The query.
    pub query: Query,
    /// The query before its rules, if they have changed it.
    before: Option<Box<Query>>,
    /// Trace of the rules that have rewritten it.
    pub rule_trace: Arc<[String]>,
}

impl RewrittenQuery {
    fn unchanged(query: Query) -> Self {
        RewrittenQuery { query, before: None, rule_trace: Arc::default() }
    }

    /// The query as it was parsed, before its rules.
    pub fn parsed(&self) -> &Query {
        self.before.as_deref().unwrap_or(&self.query)
    }

    /// Fills the only group of a caller into a query that names none.
    pub fn fill_in_group(&mut self, caller: &RequestCaller) {
        if let Some(before) = &mut self.before {
            run::fill_in_group(caller, before);
        }
        run::fill_in_group(caller, &mut self.query);
    }
}

/// Builds the query of these parameters. Its own parameters stay as received, so that another node to which
/// it is forwarded derives the same query.
pub async fn query(
    node: &Node,
    deployment: &Arc<CompiledApplication>,
    parameters: BTreeMap<String, String>,
    limits: QueryLimits,
) -> Result<RewrittenQuery, Error> {
    let size = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
    let parse = move || Query::from_parameters(parameters, &limits);
    let query = node.pool().run_sized(BodySizeClass::of_query(size), parse).await??;
    by_rules(node, deployment, query, limits).await
}

/// Completes a parsed query: by the mode of its sources, and by the rules.
///
/// # Errors
/// The rules cannot be applied to the query.
pub(crate) async fn by_rules(
    node: &Node,
    deployment: &Arc<CompiledApplication>,
    query: Query,
    limits: QueryLimits,
) -> Result<RewrittenQuery, Error> {
    let query = with_scope(query, deployment);
    let Some(base) = base_of(deployment, &query)? else { return Ok(RewrittenQuery::unchanged(query)) };
    let (base, deployment) = (Arc::clone(base), Arc::clone(deployment));
    // A query without a scope is refused later, or is a prompt that searches nothing.
    let flow = run::flow(&query).unwrap_or_else(|_| WorkFlow::short());
    node.pool().run_in(flow, move || rewritten(query, &base, &deployment, &limits)).await?
}

/// Adds the scope to a query that names none: all documents, if the sources have `mode="index"`. Sources that
/// do not exist count as such, so that they are what the planning of the query reports.
fn with_scope(mut query: Query, deployment: &CompiledApplication) -> Query {
    let streaming = &query.streaming;
    let names_scope =
        streaming.user.is_some() || !streaming.groups.is_empty() || streaming.selection.is_some();
    if !names_scope
        && ResolvedSources::by(&query.sources, deployment).map_or(true, |reached| reached.are_indexed())
    {
        query.streaming.selection = Some("true".to_owned());
    }
    query
}

fn rewritten(
    query: Query,
    base: &RuleBase,
    deployment: &CompiledApplication,
    limits: &QueryLimits,
) -> Result<RewrittenQuery, Error> {
    let level = level(&query)?;
    // If nothing can be searched, the planning of the query reports it.
    let Ok(reached) = ResolvedSources::by(&query.sources, deployment) else {
        return Ok(RewrittenQuery::unchanged(query));
    };
    let schemas: Vec<_> = reached.kinds.iter().map(|requested| &*requested.kind.schema).collect();
    let explains = level >= RULES_LEVEL;
    let tokens = &deployment.application.container.special_tokens;
    let typed = parsed(&query, &schemas, tokens);
    let Some(rewriting) = base.rewrite(&typed, &query.parameters, explains) else {
        return Ok(RewrittenQuery::unchanged(query));
    };
    let before = Some(Box::new(query.clone()));
    let rule_trace = trace(base, &query, &rewriting, level).into();
    let query = match rewriting.set.is_empty() {
        true => query,
        false => with_scope(with_parameters(query, &rewriting.set, limits)?, deployment),
    };
    Ok(RewrittenQuery { query: Query { root: rewriting.root, ..query }, before, rule_trace })
}

/// Returns the rule base for rewriting a query.
fn base_of<'d>(
    deployment: &'d CompiledApplication,
    query: &Query,
) -> Result<Option<&'d Arc<RuleBase>>, Error> {
    let bases = deployment.rule_bases();
    match value_of(&query.parameters, "rules.off").map(str::trim) {
        None | Some("false" | "0") => {}
        Some("true" | "1" | "") => return Ok(None),
        Some(text) => {
            return Err(Error::parameter("rules.off", format!("expected true or false, found {text:?}")));
        }
    }
    let Some(name) =
        value_of(&query.parameters, "rules.rulebase").map(str::trim).filter(|name| !name.is_empty())
    else {
        return Ok(bases.default_base());
    };
    bases.get(name).map(Some).ok_or_else(|| {
        let known: Vec<&str> = bases.names().collect();
        let cure = match &known[..] {
            [] => format!("the application has none; add rules/{name}.sr"),
            known => format!("there are {}", known.join(", ")),
        };
        let hint = did_you_mean(name, known.iter().copied());
        Error::parameter("rules.rulebase", format!("no rule base '{name}'{hint}: {cure}"))
    })
}

/// Trace level of rules: `tracelevel.rules`, by default the general trace level.
fn level(query: &Query) -> Result<u64, Error> {
    let Some(text) = value_of(&query.parameters, "tracelevel.rules") else {
        return Ok(u64::from(query.tracing.level));
    };
    let wrong = || format!("expected a whole number from 0, found {text:?}");
    text.trim().parse().map_err(|_| Error::parameter("tracelevel.rules", wrong()))
}

/// Applies parameters that rules have set to the query.
fn with_parameters(
    query: Query,
    set: &BTreeMap<String, String>,
    limits: &QueryLimits,
) -> Result<Query, Error> {
    let mut changed = query.parameters.clone();
    for (name, value) in set {
        changed.retain(|given, _| !is_same_parameter(given, name));
        changed.insert(name.clone(), value.clone());
    }
    Ok(Query { parameters: query.parameters, ..Query::from_parameters(changed, limits)? })
}

fn trace(base: &RuleBase, query: &Query, rewriting: &QueryRewriting, level: u64) -> Vec<String> {
    if level == 0 {
        return Vec::new();
    }
    let shown = |text: String| if query.tracing.query { text } else { "…".to_owned() };
    let step = |step: &RewriteStep| match step {
        RewriteStep::Applied { position, query } => {
            query.clone().map(|query| format!("{position}: query=[{}]", shown(query)))
        }
        RewriteStep::Stopped { reason } => Some(format!("the rules after this are left out: {reason}")),
    };
    let mut rule_trace: Vec<String> = rewriting.steps.iter().filter_map(step).collect();
    let set: Vec<String> =
        rewriting.set.iter().map(|(name, value)| format!(" {name}={}", shown(value.clone()))).collect();
    let root = shown(BriefItem(&rewriting.root).to_string());
    rule_trace.push(format!("rewritten by rule base '{}': query=[{root}]{}", base.name(), set.concat()));
    rule_trace
}
