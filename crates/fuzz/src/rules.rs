//! Semantic rules: a rule base, and a query that it rewrites.

use std::collections::BTreeMap;

use millrace_plan::{PlanContext, parsed};
use millrace_query::{Query, QueryLimits};
use millrace_rules::RuleBases;
use millrace_schema::PackageFindings;

use crate::world::schema;
use crate::{tells, text};

/// A rule base. The text after the first line `---` is the user's query; by default the rule base itself.
pub(crate) fn rules(input: &[u8]) {
    let input = text(input);
    let (rules, typed) = input.split_once("\n---\n").unwrap_or((input, input));
    let files = BTreeMap::from([("rules/x.sr".to_owned(), rules.as_bytes().to_vec())]);
    let mut findings = PackageFindings::default();
    let bases = RuleBases::read(&files, &mut findings);
    if let Err(mistakes) = findings.finish() {
        return tells(&mistakes);
    }
    let asked = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let parameters = [("query", typed), ("type", "all"), ("streaming.groupname", "ann")].map(asked);
    let Ok(query) = Query::from_parameters(parameters.into(), &QueryLimits::default()) else { return };
    let base = bases.get("x").expect("it was read");
    let typed = parsed(&query, &[schema()], PlanContext::standalone().special_tokens);
    if let Some(rewriting) = base.rewrite(&typed, &query.parameters, true) {
        assert!(!rewriting.steps.is_empty(), "what was rewritten was rewritten by something");
    }
}
