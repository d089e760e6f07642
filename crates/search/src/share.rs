//! One query over documents of several nodes.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::View;
use millrace_grouping::{Collected, Execution, HitRef};
use millrace_result::{Coverage, Hit, PartialResult};
use serde::{Deserialize, Serialize};

use crate::collapse::{CollapseKeys, Collapsing};
use crate::run::{fill, passes};
use crate::{Deadline, Error, Outcome, Search, Trace};

/// What the documents of one node give to a query: all that is needed to merge it with what other nodes have. Travels by `serde`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Share {
    /// For each schema, in order.
    schemas: Vec<OfSchema>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OfSchema {
    total_count: u64,
    /// The best hits of this node, filled.
    hits: Vec<Hit>,
    /// What each hit is compared by, where the request collapses hits.
    collapse_keys: Vec<CollapseKeys>,
    coverage: Coverage,
    /// For each grouping request; none where this schema has no part in it.
    groups: Vec<Option<Groups>>,
}

/// Groups as they were collected, and the hits in them that may be shown.
#[derive(Debug, Serialize, Deserialize)]
struct Groups {
    collected: Collected,
    hits: Vec<(Option<String>, HitRef, Hit)>,
}

/// Runs the searches of one query over the documents of this node, one search for each schema. Hits of groups are filled at once, so
/// that nobody has to ask again: a request for all hits of all groups costs as much as it shows.
///
/// # Errors
/// As [`Search::run`].
pub fn share(searches: &[(&Search, &dyn View)], deadline: &Deadline) -> Result<Share, Error> {
    let mut passes = passes(searches, deadline)?;
    let executions: Vec<Vec<Option<Execution>>> =
        passes.iter_mut().map(|pass| std::mem::take(&mut pass.executions)).collect();
    let groups = |execution: Execution| -> Result<Groups, Error> {
        let mut by_summary: HashMap<Option<&str>, Vec<HitRef>> = HashMap::new();
        for (summary, hit) in execution.hits() {
            by_summary.entry(summary).or_default().push(hit);
        }
        let mut hits = Vec::new();
        for (summary, references) in by_summary {
            let filled = fill(&passes, summary, &references, deadline)?;
            let filled = references.into_iter().zip(filled);
            hits.extend(filled.map(|(reference, hit)| (summary.map(str::to_owned), reference, hit)));
        }
        Ok(Groups { hits, collected: execution.collected() })
    };
    let groups = executions
        .into_iter()
        .map(|of_schema| of_schema.into_iter().map(|execution| execution.map(groups).transpose()).collect())
        .collect::<Result<Vec<Vec<Option<Groups>>>, Error>>()?;
    let schemas = passes.into_iter().zip(groups).map(|(pass, groups)| {
        let Outcome { result, collapse_keys, .. } = pass.outcome;
        let PartialResult { total_count, hits, coverage, .. } = result;
        OfSchema { total_count, hits, collapse_keys, coverage, groups }
    });
    Ok(Share { schemas: schemas.collect() })
}

/// Merges what nodes have found: an outcome for each search, in order, the groups of all in the first; as
/// [`run_all`](crate::run_all) over all documents would give them. Two things are as each node alone sees them: the statistics of
/// words, and what a global phase makes of its best hits.
///
/// # Errors
/// A share is not one of these searches.
pub fn merge(searches: &[&Search], shares: Vec<Share>) -> Result<Vec<Outcome>, Error> {
    if shares.iter().any(|share| share.schemas.len() != searches.len()) {
        return Err(Error::Share);
    }
    let mut merged: Vec<Merged<'_>> = searches.iter().map(|search| Merged::new(search)).collect();
    let mut groupings = Groupings::new(searches);
    for (number, share) in (0u32..).zip(shares) {
        let first_part = number.saturating_mul(searches.len() as u32);
        for (place, of_schema) in share.schemas.into_iter().enumerate() {
            let groups = merged[place].add(of_schema);
            groupings.add(place, groups, first_part)?;
        }
    }
    let mut outcomes: Vec<Outcome> = merged.into_iter().map(Merged::finish).collect();
    if let Some(first) = outcomes.first_mut() {
        first.result.groupings = groupings.finish()?;
    }
    Ok(outcomes)
}

/// The hits of one schema, of all nodes so far.
struct Merged<'s> {
    search: &'s Search,
    total_count: u64,
    coverage: Coverage,
    hits: Vec<(Hit, CollapseKeys)>,
}

impl<'s> Merged<'s> {
    fn new(search: &'s Search) -> Self {
        Merged { search, total_count: 0, coverage: Coverage::default(), hits: Vec::new() }
    }

    /// Adds what a node has; its groups are handed back.
    fn add(&mut self, of_schema: OfSchema) -> Vec<Option<Groups>> {
        self.total_count += of_schema.total_count;
        self.coverage.merge(&of_schema.coverage);
        let keys = of_schema.collapse_keys.into_iter().chain(std::iter::repeat_with(Vec::new));
        self.hits.extend(of_schema.hits.into_iter().zip(keys));
        of_schema.groups
    }

    fn finish(self) -> Outcome {
        let plan = self.search.plan();
        let mut hits = self.hits;
        hits.sort_by(|(one, _), (other, _)| one.order(other));
        if let Some(collapse) = &plan.query.collapse {
            let mut collapsing = Collapsing::new(collapse);
            hits.retain(|(_, keys)| collapsing.keeps(keys));
        }
        hits.truncate(plan.offset.saturating_add(plan.hits));
        let (hits, mut collapse_keys): (Vec<Hit>, Vec<CollapseKeys>) = hits.into_iter().unzip();
        if plan.query.collapse.is_none() {
            collapse_keys.clear();
        }
        let trace =
            Trace { documents: self.coverage.documents, matched: self.total_count, ..Trace::default() };
        let result = PartialResult {
            total_count: self.total_count,
            hits,
            groupings: Vec::new(),
            coverage: self.coverage,
        };
        Outcome { result, trace, collapse_keys }
    }
}

/// The groups of each request, of all schemas and nodes so far.
struct Groupings<'s> {
    searches: &'s [&'s Search],
    requests: Vec<(Option<Execution>, GroupHits)>,
}

/// Filled hits by what refers to them. A hit can be in several groups.
type GroupHits = HashMap<(Option<String>, (u32, usize, u16)), Hit>;

impl<'s> Groupings<'s> {
    fn new(searches: &'s [&'s Search]) -> Self {
        let requests = searches.iter().map(|search| search.grouping_requests()).max().unwrap_or(0);
        Groupings { searches, requests: (0..requests).map(|_| (None, HashMap::new())).collect() }
    }

    fn add(&mut self, schema: usize, groups: Vec<Option<Groups>>, first_part: u32) -> Result<(), Error> {
        for (request, groups) in groups.into_iter().enumerate() {
            let Some(groups) = groups else { continue };
            let grouping = self.searches[schema].grouping(request).ok_or(Error::Share)?;
            let (merged, hits) = self.requests.get_mut(request).ok_or(Error::Share)?;
            let execution = groups.collected.resume(Arc::clone(grouping), first_part)?;
            match merged {
                None => *merged = Some(execution),
                Some(merged) => merged.merge(execution),
            }
            hits.extend(groups.hits.into_iter().map(|(summary, reference, hit)| {
                let part = reference.part.saturating_add(first_part);
                ((summary, (part, reference.chunk, reference.document)), hit)
            }));
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<millrace_result::GroupingResult>, Error> {
        let finish = |(number, (execution, hits)): (usize, (Option<Execution>, GroupHits))| {
            let fill = &mut |summary: Option<&str>, references: &[HitRef]| {
                let summary = summary.map(str::to_owned);
                let filled = references.iter().map(|hit| {
                    hits.get(&(summary.clone(), (hit.part, hit.chunk, hit.document)))
                        .cloned()
                        .ok_or(Error::Share)
                });
                filled.collect()
            };
            execution.map(|execution| execution.finish(number as u32, fill)).transpose()
        };
        self.requests.into_iter().enumerate().filter_map(|request| finish(request).transpose()).collect()
    }
}
