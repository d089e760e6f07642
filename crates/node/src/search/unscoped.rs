//! The refusal of a query that does not say whose documents it searches.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use millrace_access::{RequestCaller, WantedGroups};
use millrace_plan::{Error as PlanError, Plan, PlanContext};
use millrace_query::{Query, StreamingScope};

use super::sources::ResolvedSources;
use crate::indexes::IndexDefinition;
use crate::{CompiledApplication, Error, Node};

/// Names an index that would answer the query over all groups in the refusal of one without a scope, if its
/// caller may read all groups. Other errors stay as they are.
pub fn naming_index(
    error: Error,
    node: &Node,
    caller: &RequestCaller,
    deployment: &CompiledApplication,
    query: &Query,
) -> Error {
    let Error::Plan(PlanError::Scope(reason)) = &error else { return error };
    if query.streaming != StreamingScope::default() || caller.permit(WantedGroups::All).is_err() {
        return error;
    }
    match answering_index(node, deployment, query) {
        Some(name) => PlanError::Scope(format!("{reason}, which index '{name}' answers")).into(),
        None => error,
    }
}

/// Name of the first index that answers a query over all groups.
fn answering_index(node: &Node, deployment: &CompiledApplication, query: &Query) -> Option<String> {
    if deployment.indexes().is_empty() {
        return None;
    }
    let mut over_all = query.clone();
    over_all.replace_selection("true".to_owned());
    let over_all = Arc::new(over_all);
    let context = PlanContext {
        clock: UNIX_EPOCH + millrace_env::unix_time(),
        known_elsewhere: &|_| None,
        // A query that embeds texts is named no index.
        embedded: &|_, _| None,
        significance: &deployment.application.significance,
        special_tokens: &deployment.application.container.special_tokens,
        regexes_max: node.settings().query_regexes_max,
    };
    let kinds = ResolvedSources::by(&query.sources, deployment).ok()?.kinds;
    kinds.iter().find_map(|requested| {
        let plan = Plan::new(Arc::clone(&over_all), &requested.kind.schema, &context).ok()?;
        let mut indexes = deployment.indexes().iter();
        let answers = |definition: &IndexDefinition| !definition.config.deferred && definition.answers(&plan);
        indexes.find(|definition| answers(definition)).map(|definition| definition.name().to_owned())
    })
}
