//! Use of an index by a query over all groups: the groups that can have hits.
//!
//! The index names candidates, and the query runs over the groups of these. So all of its other conditions,
//! ranking, grouping and summaries work as ever, and a hit is never wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_keys::{ComponentCondition, KeyBound, KeyRange, overflow_range};
use millrace_plan::{NumberRange, Plan, PlanLeaf, PlanNode, Predicate, StreamedScope, WordPattern};
use millrace_query::Query;
use millrace_schema::IndexKeyConfig;
use millrace_store::ViewScope;

use super::opened::OpenedIndex;
use super::service::group_key;
use super::{IndexDefinition, NodeIndexes};
use crate::Error;

/// Default maximum number of candidates.
const CANDIDATES_MAX: u64 = 100_000;

/// Entries that are read together.
const PAGE: usize = 4096;

/// Share of the documents above which streaming is cheaper than the index.
const STREAMED_SHARE: u64 = 5;

/// Choice of an index by a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexChoice {
    /// The index with the fewest candidates, where one helps.
    Automatic,
    /// None.
    None,
    /// This one.
    Named(String),
}

/// Use of an index by one query, for the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexUse {
    /// Name of the index.
    pub name: String,
    /// Entries that were read.
    pub candidates: u64,
    /// Groups that they are in.
    pub groups: usize,
}

/// An index with the ranges of a query.
struct IndexAccess {
    index: Arc<OpenedIndex>,
    ranges: Vec<KeyRange>,
    candidates: u64,
}

impl NodeIndexes {
    /// Begins the build of a deferred index; `false` if it was built or begun already.
    ///
    /// # Errors
    /// There is no such index.
    pub fn build(&self, name: &str) -> Result<bool, Error> {
        Ok(self.inner().named(name).ok_or_else(|| self.unknown(name))?.want())
    }

    /// Discards an index and builds it again.
    ///
    /// # Errors
    /// There is no such index; its files cannot be removed.
    pub fn rebuild(&self, name: &str) -> Result<(), Error> {
        let index = self.inner().named(name).ok_or_else(|| self.unknown(name))?;
        self.inner().rebuild(&index)
    }

    /// Narrows the scope of a query over all groups to those in which an index finds candidates. Sees every
    /// write that was acknowledged before the call. `None`: the query reads all documents of its type.
    ///
    /// # Errors
    /// The request names an index that does not exist, is not ready, or cannot answer the query; there are
    /// too many candidates; a file cannot be read.
    pub fn narrow(&self, plan: &Plan) -> Result<Option<(ViewScope, IndexUse)>, Error> {
        let is_over_all = matches!(plan.scope, StreamedScope::All { .. });
        let all = self.inner().all();
        let choice = choice(plan)?;
        match &choice {
            IndexChoice::Named(name) if !is_over_all => {
                let reason =
                    format!("'{name}': a query of single groups reads their documents; leave it out");
                return Err(Error::parameter("index.use", reason));
            }
            _ if !is_over_all => return Ok(None),
            IndexChoice::None => return Ok(None),
            _ => {}
        }
        if let IndexChoice::Named(name) = &choice {
            self.check_named(name, plan)?;
        } else if all.is_empty() {
            return Ok(None);
        }
        self.inner().settle()?;
        let limit = candidates_max(plan)?;
        let accesses = match &choice {
            IndexChoice::Named(name) => vec![self.access(&self.ready(name)?, plan, limit)?],
            _ => {
                let usable = all.iter().filter(|index| index.is_ready());
                usable.filter_map(|index| self.access(index, plan, limit).ok()).collect()
            }
        };
        let Some(access) = accesses.into_iter().min_by_key(|access| access.candidates) else {
            return Ok(None);
        };
        let is_named = choice != IndexChoice::Automatic;
        if access.candidates > limit {
            if !is_named {
                return Ok(None);
            }
            return Err(Error::BadRequest(format!(
                "index '{}' finds more than {limit} candidates: add a condition, raise index.candidates-max, or let the query stream with index.use=none",
                access.index.definition.name()
            )));
        }
        let documents = self.inner().store.status().documents;
        if !is_named && access.candidates > documents / STREAMED_SHARE {
            return Ok(None);
        }
        self.groups(&access).map(Some)
    }

    /// The ready index of a name.
    ///
    /// # Errors
    /// There is none, or it is not ready.
    pub(super) fn ready(&self, name: &str) -> Result<Arc<OpenedIndex>, Error> {
        self.inner().settle()?;
        let index = self.inner().named(name).ok_or_else(|| self.unknown(name))?;
        if index.is_ready() {
            return Ok(index);
        }
        Err(match index.is_deferred() {
            true => Error::Conflict(format!(
                "index '{name}' is deferred: build it with 'millrace index build {name}'"
            )),
            false => {
                Error::Unsettled(format!("index '{name}' is being built: {:.0} %", index.progress() * 100.0))
            }
        })
    }

    /// Error for an index that does not exist.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let all = self.inner().all();
        let hint = millrace_schema::did_you_mean(name, all.iter().map(|index| index.definition.name()));
        Error::NotFound(format!("no index '{name}'{hint}: declare it in <index-service> of services.xml"))
    }

    fn check_named(&self, name: &str, plan: &Plan) -> Result<(), Error> {
        let index = self.inner().named(name).ok_or_else(|| {
            let Error::NotFound(reason) = self.unknown(name) else {
                unreachable!("an unknown index is not found")
            };
            Error::parameter("index.use", reason)
        })?;
        if let Err(reason) = conditions(&index.definition, plan) {
            return Err(Error::parameter(
                "index.use",
                format!("index '{name}' cannot answer the query: {reason}"),
            ));
        }
        Ok(())
    }

    fn access(&self, index: &Arc<OpenedIndex>, plan: &Plan, limit: u64) -> Result<IndexAccess, Error> {
        let conditions =
            conditions(&index.definition, plan).map_err(|error| Error::BadRequest(error.to_string()))?;
        let ranges = index.definition.layout.ranges(&conditions);
        let mut ranges = ranges.map_err(|error| Error::BadRequest(error.to_string()))?;
        ranges.push(overflow_range());
        let candidates = index.copy.count(&ranges, limit.saturating_add(1))?;
        Ok(IndexAccess { index: Arc::clone(index), ranges, candidates })
    }

    /// Groups of the candidates.
    fn groups(&self, access: &IndexAccess) -> Result<(ViewScope, IndexUse), Error> {
        let (mut groups, mut candidates, mut continuation) = (BTreeSet::new(), 0, None);
        loop {
            let page = access.index.copy.scan(&access.ranges, continuation.as_deref(), PAGE)?;
            candidates += page.entries.len() as u64;
            for entry in &page.entries {
                let key = group_key(&entry.document).and_then(|key| std::str::from_utf8(key).ok());
                groups.extend(key.and_then(DocumentGroup::from_key));
            }
            match page.continuation {
                None => break,
                next => continuation = next,
            }
        }
        let name = access.index.definition.name().to_owned();
        let groups: Vec<DocumentGroup> = groups.into_iter().collect();
        let index_use = IndexUse { name, candidates, groups: groups.len() };
        Ok((ViewScope::Groups(groups), index_use))
    }
}

/// Refuses a query over several nodes that names an index.
pub(crate) fn refuse_in_cluster(query: &Query) -> Result<(), Error> {
    match query.parameters.get("index.use").map(|name| name.trim()) {
        None | Some("none") => Ok(()),
        Some(name) => {
            let reason =
                format!("'{name}': indexes are kept by a server that runs alone; leave it out, or give none");
            Err(Error::parameter("index.use", reason))
        }
    }
}

fn parameter<'p>(plan: &'p Plan, name: &str) -> Option<&'p str> {
    plan.query.parameters.get(name).map(|value| value.trim())
}

fn choice(plan: &Plan) -> Result<IndexChoice, Error> {
    if let Some(consistency) = parameter(plan, "index.consistency")
        && !matches!(consistency, "now" | "eventual")
    {
        let reason = format!("expected 'now' or 'eventual', got '{consistency}'");
        return Err(Error::parameter("index.consistency", reason));
    }
    Ok(match parameter(plan, "index.use") {
        None => IndexChoice::Automatic,
        Some("none") => IndexChoice::None,
        Some(name) => IndexChoice::Named(name.to_owned()),
    })
}

/// Reason why an index cannot answer a query.
#[derive(Debug, thiserror::Error)]
enum UnfitIndex {
    #[error("it has documents of type '{0}'")]
    OtherType(String),
    #[error("it has only documents with {0}: give streaming.selection the same text")]
    Selection(String),
    #[error("its first key '{0}' has no condition that an index can answer")]
    NoCondition(String),
}

fn candidates_max(plan: &Plan) -> Result<u64, Error> {
    let Some(text) = parameter(plan, "index.candidates-max") else { return Ok(CANDIDATES_MAX) };
    let expected = || format!("expected a whole number from 1 to 10000000, got '{text}'");
    let most = text.parse().ok().filter(|most| (1..=10_000_000).contains(most));
    most.ok_or_else(|| Error::parameter("index.candidates-max", expected()))
}

/// Conditions of a query on the leading keys of an index.
///
/// # Errors
/// The index cannot answer the query, for this reason.
fn conditions(definition: &IndexDefinition, plan: &Plan) -> Result<Vec<ComponentCondition>, UnfitIndex> {
    if definition.config.document_type != plan.schema.name {
        return Err(UnfitIndex::OtherType(definition.config.document_type.to_string()));
    }
    if let Some(own) = definition.selection() {
        let is_same = matches!(&plan.scope, StreamedScope::All { selection: Some(selection) } if selection.text().trim() == own);
        if !is_same {
            return Err(UnfitIndex::Selection(own.to_owned()));
        }
    }
    let mut leaves = Vec::new();
    required(&plan.root, plan, &mut leaves);
    let mut conditions = Vec::new();
    for (key, component) in definition.config.keys.iter().zip(definition.layout.components()) {
        let folds = component.analyzer.is_some();
        let found = leaves.iter().filter(|leaf| *leaf.field == *key.path && leaf.dot_product_above.is_none());
        let fitting = found.filter_map(|leaf| condition(&leaf.predicate, folds)).filter(|condition| {
            let mut all = conditions.clone();
            all.push(condition.clone());
            definition.layout.ranges(&all).is_ok()
        });
        let Some(condition) = fitting.max_by_key(ComponentCondition::is_equality) else { break };
        let goes_on = condition.is_equality();
        conditions.push(condition);
        if !goes_on {
            break;
        }
    }
    if conditions.is_empty() {
        let first = definition.config.keys.first().map_or(IndexKeyConfig::GROUP, |key| &key.path);
        return Err(UnfitIndex::NoCondition(first.to_owned()));
    }
    Ok(conditions)
}

/// Leaves that every hit fulfils.
fn required<'p>(node: &PlanNode, plan: &'p Plan, leaves: &mut Vec<&'p PlanLeaf>) {
    match node {
        PlanNode::Leaf(id) => leaves.extend(plan.leaves.get(id.0)),
        PlanNode::And(children) => children.iter().for_each(|child| required(child, plan, leaves)),
        PlanNode::AndNot(positive, _) | PlanNode::Rank(positive, _) => required(positive, plan, leaves),
        _ => {}
    }
}

/// Condition of a predicate; `None` if ranges of keys cannot answer it.
fn condition(predicate: &Predicate, folds: bool) -> Option<ComponentCondition> {
    Some(match predicate {
        Predicate::Value { pattern, cased } if folds || *cased => match pattern {
            WordPattern::Exact(text) | WordPattern::Written(text) => {
                ComponentCondition::Texts(vec![text.clone()])
            }
            WordPattern::Any(texts) => ComponentCondition::Texts(texts.clone()),
            WordPattern::Prefix(text) => ComponentCondition::Prefix(text.clone()),
            _ => return None,
        },
        Predicate::ValueIn { values, cased } if folds || *cased => {
            ComponentCondition::Texts(values.iter().map(|(text, _)| text.clone()).collect())
        }
        Predicate::Number(NumberRange::Integer { low, high }) if low == high => {
            ComponentCondition::Integers(vec![*low])
        }
        Predicate::Number(NumberRange::Integer { low, high }) => {
            ComponentCondition::IntegerRange(*low, *high)
        }
        Predicate::Number(NumberRange::Float { low, low_inclusive, high, high_inclusive }) => {
            let bound = |number, inclusive| KeyBound { number, inclusive };
            ComponentCondition::FloatRange(bound(*low, *low_inclusive), bound(*high, *high_inclusive))
        }
        Predicate::NumberIn(numbers) => {
            ComponentCondition::Integers(numbers.iter().map(|(number, _)| *number).collect())
        }
        // Documents without a value count as false, and have no entry.
        Predicate::Bool(true) => ComponentCondition::Bools(vec![true]),
        Predicate::Present => ComponentCondition::Present,
        _ => return None,
    })
}
