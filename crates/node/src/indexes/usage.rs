//! Use of an index by a query over all groups: the documents that can be hits.
//!
//! The index names candidates, and the query runs over their newest versions; over all documents of their
//! groups, if there are very many. So all of its other conditions, ranking, grouping and summaries work as
//! ever, and a hit is never wrong.
//!
//! In a cluster each node narrows its share of a query, which is in some buckets, by its own index. Stale
//! buckets among them are read as a whole.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use millrace_bucket::{BucketId, LocationRange, reversed_location};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_keys::{ComponentCondition, KeyBound, KeyRange, overflow_range};
use millrace_plan::{NumberRange, Plan, PlanLeaf, PlanNode, Predicate, StreamedScope, WordPattern};
use millrace_schema::IndexKeyConfig;
use millrace_store::ViewScope;

use super::covering::CoveringEntries;
use super::in_order::{self, OrderedEntries};
use super::opened::OpenedIndex;
use super::service::{document_id, group_key};
use super::stale::overlap;
use super::{IndexDefinition, NodeIndexes};
use crate::Error;

/// Default maximum number of candidates.
const CANDIDATES_MAX: u64 = 100_000;

/// Number of candidates above which whole groups are read, so that few ids are in memory.
pub(super) const SOUGHT_MAX: usize = 100_000;

/// Entries that are read together above that.
const PAGE: usize = 4096;

/// Number of looks at an index while replicas come and go.
const ATTEMPTS: usize = 4;

/// Share of the documents above which streaming is cheaper than the index.
const STREAMED_SHARE: u64 = 5;

/// Choice of an index by a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexChoice {
    /// The index with the fewest candidates, where one helps.
    Automatic,
    /// No index: the documents of all groups in scope are read.
    None,
    /// The index of this name. If it cannot serve the query, that is an error.
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
    /// Documents that are read.
    pub reading: CandidateReading,
    /// Stale buckets that the query reads as a whole.
    pub stale: usize,
}

/// Documents that a query reads of the groups of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateReading {
    /// All candidates.
    ById,
    /// The first candidates in the order of the hits.
    InOrder,
    /// All documents of the groups.
    ByGroup,
    /// None: the entries have all that the query uses.
    FromEntries,
}

impl fmt::Display for IndexUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = match self.reading {
            CandidateReading::ById => "read by id",
            CandidateReading::InOrder => "the first in the order of the hits, read by id",
            CandidateReading::ByGroup => "read by group",
            CandidateReading::FromEntries => "read from the index alone",
        };
        write!(f, "index {}: {} candidates in {} groups, {read}", self.name, self.candidates, self.groups)?;
        if self.stale > 0 {
            write!(f, ", and {} buckets that have just changed are read whole", self.stale)?;
        }
        Ok(())
    }
}

/// Part of the documents of a query that can have hits, by an index.
pub struct NarrowedScope {
    /// Parts without a common document.
    pub parts: Vec<NarrowedPart>,
    /// Use of the index.
    pub index_use: IndexUse,
    /// Entries that the first part is of, if later entries were not read. Then it must have enough hits.
    pub ordered: Option<OrderedEntries>,
    /// Entries of the first part, if a query can be answered from them.
    pub entries: Option<CoveringEntries>,
}

/// Documents that can be hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NarrowedPart {
    /// Documents with these ids; those in these buckets, if any are given.
    Documents(Vec<DocumentId>, Option<Vec<BucketId>>),
    /// All documents of a scope.
    Scope(ViewScope),
}

/// An index with the ranges of a query.
pub(super) struct IndexAccess {
    pub index: Arc<OpenedIndex>,
    pub ranges: Vec<KeyRange>,
    conditions: Vec<ComponentCondition>,
    candidates: u64,
}

/// Buckets in which a query reads documents.
pub(super) struct QueriedBuckets {
    /// Buckets whose entries are those of their documents; `None`: all locations.
    pub fresh: Option<Vec<BucketId>>,
    /// The others.
    pub stale: Vec<BucketId>,
    /// Ranges of reversed locations of the fresh buckets, sorted; those of parts lie in those of wholes.
    ranges: Vec<LocationRange>,
}

impl QueriedBuckets {
    pub fn new(within: Option<&[BucketId]>, stale: &[BucketId]) -> Self {
        let Some(within) = within else {
            return QueriedBuckets { fresh: None, stale: Vec::new(), ranges: Vec::new() };
        };
        let is_stale = |bucket: &BucketId| stale.iter().any(|stale| overlap(*stale, *bucket));
        let (stale, fresh): (Vec<BucketId>, Vec<BucketId>) =
            within.iter().partition(|bucket| is_stale(bucket));
        let mut ranges: Vec<LocationRange> = Vec::with_capacity(fresh.len());
        let mut sorted: Vec<LocationRange> = fresh.iter().map(|bucket| bucket.reversed_range()).collect();
        sorted.sort_unstable_by_key(|range| (range.first, std::cmp::Reverse(range.last)));
        for range in sorted {
            if ranges.last().is_none_or(|before| before.last < range.last) {
                ranges.push(range);
            }
        }
        QueriedBuckets { fresh: Some(fresh), stale, ranges }
    }

    /// True if a document, by its key, can be in a fresh bucket.
    pub fn has(&self, document: &[u8]) -> bool {
        if self.fresh.is_none() {
            return true;
        }
        let location = reversed_location(document);
        let after = self.ranges.partition_point(|range| range.first <= location);
        after.checked_sub(1).is_some_and(|at| location <= self.ranges[at].last)
    }
}

impl NodeIndexes {
    /// Begins the build of a deferred index; `false` if it was built or begun already.
    ///
    /// # Errors
    /// There is no such index.
    pub fn build(&self, name: &str) -> Result<bool, Error> {
        let has_begun = self.inner().named(name).ok_or_else(|| self.unknown(name))?.want();
        self.inner().feed.wake();
        Ok(has_begun)
    }

    /// Discards an index and builds it again. If its files cannot be removed now, that is tried again.
    ///
    /// # Errors
    /// There is no such index.
    pub fn rebuild(&self, name: &str) -> Result<(), Error> {
        if !self.inner().rebuild_unopened(name) {
            let index = self.inner().newest(name).ok_or_else(|| self.unknown(name))?;
            self.inner().rebuild(&index);
        }
        self.inner().feed.wake();
        Ok(())
    }

    /// Checks the parameters of a query about indexes. Reads no index.
    ///
    /// # Errors
    /// A value is not valid; the request names an index that does not exist, or that cannot answer the query.
    pub fn check(&self, plan: &Plan) -> Result<IndexChoice, Error> {
        let choice = choice(plan)?;
        if let IndexChoice::Named(name) = &choice {
            if !matches!(plan.scope, StreamedScope::All { .. }) {
                let reason =
                    format!("'{name}': a query of single groups reads their documents; leave it out");
                return Err(Error::parameter("index.use", reason));
            }
            self.check_named(name, plan)?;
        }
        candidates_max(plan)?;
        Ok(choice)
    }

    /// Number of documents in these buckets, about; of the whole store without any.
    pub(crate) fn documents_in(&self, within: Option<&[BucketId]>) -> u64 {
        self.documents(&QueriedBuckets::new(within, &[]))
    }

    /// Narrows the scope of a query over all groups to the candidates that an index finds; in a cluster,
    /// within the buckets of a share of it. Sees every write that was acknowledged before the call. `None`:
    /// the query reads all documents of its type. `first`: the number of entries that are read in the order
    /// of the hits, if there are too many candidates ([`first_entries`](super::first_entries)).
    ///
    /// # Errors
    /// Those of [`NodeIndexes::check`]; the request names an index that is not ready; there are too many
    /// candidates; a file of an index that the request names cannot be read.
    pub fn narrow(
        &self,
        plan: &Plan,
        within: Option<&[BucketId]>,
        first: Option<usize>,
    ) -> Result<Option<NarrowedScope>, Error> {
        let choice = self.check(plan)?;
        let is_over_all = matches!(plan.scope, StreamedScope::All { .. });
        if !is_over_all || choice == IndexChoice::None || self.inner().all().is_empty() {
            return Ok(None);
        }
        let stale = &self.inner().feed.stale;
        for _ in 0..ATTEMPTS {
            let (buckets, turn) = stale.snapshot();
            if within.is_none() && !buckets.is_empty() {
                // Groups of the whole store can have documents in any bucket.
                return Ok(None);
            }
            let queried = QueriedBuckets::new(within, &buckets);
            let narrowed = self.narrow_once(plan, &choice, &queried, first);
            let narrowed = match narrowed.inspect_err(|error| self.inner().note_damage(error)) {
                // The documents are there.
                Err(Error::Index(_)) if choice == IndexChoice::Automatic => None,
                narrowed => narrowed?,
            };
            // Buckets that became stale meanwhile may have been read while their entries changed.
            if stale.turn() == turn {
                return Ok(narrowed);
            }
        }
        // So many replicas move that no look at the index is of one instant.
        Ok(None)
    }

    fn narrow_once(
        &self,
        plan: &Plan,
        choice: &IndexChoice,
        buckets: &QueriedBuckets,
        first: Option<usize>,
    ) -> Result<Option<NarrowedScope>, Error> {
        self.inner().settle()?;
        let limit = candidates_max(plan)?;
        let accesses = match choice {
            IndexChoice::Named(name) => vec![self.access(&self.ready(name)?, plan, buckets, limit)?],
            _ => {
                let all = self.inner().all();
                let usable = all.iter().filter(|index| index.is_ready());
                let access = |index: &Arc<OpenedIndex>| {
                    let accessed = self.access(index, plan, buckets, limit);
                    accessed.inspect_err(|error| self.inner().note_damage(error)).ok()
                };
                usable.filter_map(access).collect()
            }
        };
        let Some(access) = accesses.into_iter().min_by_key(|access| access.candidates) else {
            return Ok(None);
        };
        let is_named = *choice != IndexChoice::Automatic;
        if access.candidates > limit {
            if !is_named {
                return Ok(None);
            }
            let definition = &access.index.definition;
            if let Some(first) = first
                && let Some(components) = in_order::ordered_components(definition, plan, &access.conditions)
            {
                return in_order::narrow(&access, buckets, components, first).map(Some);
            }
            return Err(Error::BadRequest(format!(
                "index '{}' finds more than {limit} candidates: add a condition, order the hits as the index does, raise index.candidates-max, or let the query stream with index.use=none",
                definition.name()
            )));
        }
        if !is_named && access.candidates > self.documents(buckets) / STREAMED_SHARE {
            return Ok(None);
        }
        candidates(&access, buckets).map(Some)
    }

    /// Number of documents in the fresh buckets of a query, about.
    pub(super) fn documents(&self, buckets: &QueriedBuckets) -> u64 {
        let status = self.inner().store.status();
        match &buckets.fresh {
            None => status.documents,
            Some(fresh) => {
                let all = status.replicas.max(fresh.len()).max(1) as f64;
                (status.documents as f64 * (fresh.len() as f64 / all)) as u64
            }
        }
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
            false => Error::IndexNotReady(format!(
                "index '{name}' is being built: {:.0} %",
                index.progress() * 100.0
            )),
        })
    }

    /// Error for an index that does not exist, or is not open.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let unopened = self.inner().unopened();
        if let Some(index) = unopened.iter().find(|index| index.definition.name() == name) {
            return Error::IndexNotReady(format!("index '{name}' has failed: {}", index.reason));
        }
        let all = self.inner().all();
        let hint = millrace_schema::did_you_mean(name, all.iter().map(|index| index.definition.name()));
        Error::NotFound(format!("no index '{name}'{hint}: declare it in <index-service> of services.xml"))
    }

    fn check_named(&self, name: &str, plan: &Plan) -> Result<(), Error> {
        let index = self.inner().named(name).ok_or_else(|| match self.unknown(name) {
            Error::NotFound(reason) => Error::parameter("index.use", reason),
            other => other,
        })?;
        if let Err(reason) = conditions(&index.definition, plan) {
            return Err(Error::parameter(
                "index.use",
                format!("index '{name}' cannot answer the query: {reason}"),
            ));
        }
        Ok(())
    }

    fn access(
        &self,
        index: &Arc<OpenedIndex>,
        plan: &Plan,
        buckets: &QueriedBuckets,
        limit: u64,
    ) -> Result<IndexAccess, Error> {
        let conditions =
            conditions(&index.definition, plan).map_err(|error| Error::BadRequest(error.to_string()))?;
        let ranges = index.definition.layout.ranges(&conditions);
        let mut ranges = ranges.map_err(|error| Error::BadRequest(error.to_string()))?;
        ranges.push(overflow_range());
        let candidates =
            index.copy.count(&ranges, limit.saturating_add(1), &|document| buckets.has(document))?;
        Ok(IndexAccess { index: Arc::clone(index), ranges, conditions, candidates })
    }
}

/// Candidates of an index: the documents themselves, or their groups if there are very many.
fn candidates(access: &IndexAccess, buckets: &QueriedBuckets) -> Result<NarrowedScope, Error> {
    // One page is of one instant, so that no document is missed whose keys change meanwhile.
    let first = access.index.copy.scan(&access.ranges, None, SOUGHT_MAX)?;
    let by_id = first.continuation.is_none();
    let (mut documents, mut groups) = (BTreeSet::new(), BTreeSet::new());
    let (mut candidates, mut page) = (0, first);
    let mut covering = CoveringEntries::new(&access.index.definition).filter(|_| by_id);
    loop {
        for entry in page.entries.iter().filter(|entry| buckets.has(entry.document)) {
            candidates += 1;
            let key = group_key(entry.document).and_then(|key| std::str::from_utf8(key).ok());
            groups.extend(key.and_then(DocumentGroup::from_key));
            if by_id {
                documents.extend(document_id(entry.document));
            }
            if let Some(covering) = &mut covering {
                covering.push(entry.key, entry.document);
            }
        }
        let Some(next) = page.continuation.take() else { break };
        page = access.index.copy.scan(&access.ranges, Some(next.as_slice()), PAGE)?;
    }
    let name = access.index.definition.name().to_owned();
    let (groups_count, stale) = (groups.len(), buckets.stale.len());
    let reading = if by_id { CandidateReading::ById } else { CandidateReading::ByGroup };
    let index_use = IndexUse { name, candidates, groups: groups_count, reading, stale };
    let mut parts = vec![match (by_id, &buckets.fresh) {
        (true, fresh) => NarrowedPart::Documents(documents.into_iter().collect(), fresh.clone()),
        (false, None) => NarrowedPart::Scope(ViewScope::Groups(groups.into_iter().collect())),
        (false, Some(fresh)) => {
            NarrowedPart::Scope(ViewScope::GroupsIn(groups.into_iter().collect(), fresh.clone()))
        }
    }];
    if !buckets.stale.is_empty() {
        parts.push(NarrowedPart::Scope(ViewScope::Buckets(buckets.stale.clone())));
    }
    Ok(NarrowedScope { parts, index_use, ordered: None, entries: covering })
}

fn parameter<'p>(plan: &'p Plan, name: &str) -> Option<&'p str> {
    plan.query.parameters.get(name).map(|value| value.trim())
}

pub(super) fn choice(plan: &Plan) -> Result<IndexChoice, Error> {
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
pub(super) enum UnfitIndex {
    #[error("it has documents of type '{0}'")]
    OtherType(String),
    #[error("it has only documents with {0}: give streaming.selection the same text")]
    Selection(String),
    #[error("where(true) groups all documents, not the hits alone")]
    AllDocuments,
    #[error("its first key '{0}' has no condition that an index can answer")]
    NoCondition(String),
}

pub(super) fn candidates_max(plan: &Plan) -> Result<u64, Error> {
    let Some(text) = parameter(plan, "index.candidates-max") else { return Ok(CANDIDATES_MAX) };
    let expected = || format!("expected a whole number from 1 to 10000000, got '{text}'");
    let max = text.parse().ok().filter(|max| (1..=10_000_000).contains(max));
    max.ok_or_else(|| Error::parameter("index.candidates-max", expected()))
}

/// Conditions of a query on the leading keys of an index.
///
/// # Errors
/// The index cannot answer the query, for this reason.
pub(super) fn conditions(
    definition: &IndexDefinition,
    plan: &Plan,
) -> Result<Vec<ComponentCondition>, UnfitIndex> {
    if definition.config.document_type != plan.schema.name {
        return Err(UnfitIndex::OtherType(definition.config.document_type.to_string()));
    }
    if let Some(own) = definition.selection() {
        let is_same = matches!(&plan.scope, StreamedScope::All { selection: Some(selection) } if selection.text().trim() == own);
        if !is_same {
            return Err(UnfitIndex::Selection(own.to_owned()));
        }
    }
    if plan.groupings.iter().flatten().any(|grouping| grouping.all_documents()) {
        return Err(UnfitIndex::AllDocuments);
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

impl IndexDefinition {
    /// True if the index can answer a query over all groups.
    pub(crate) fn answers(&self, plan: &Plan) -> bool {
        conditions(self, plan).is_ok()
    }
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

#[cfg(test)]
mod tests {
    use millrace_bucket::DocumentSortKey;

    use super::*;

    #[test]
    fn buckets_that_overlap_a_stale_one_are_read_whole() {
        let bucket = BucketId::new;
        #[track_caller]
        fn check(stale: &[BucketId], expected: &[BucketId]) {
            let within = [BucketId::new(2, 0), BucketId::new(2, 1), BucketId::new(34, 1 << 32 | 3)];
            let buckets = QueriedBuckets::new(Some(&within), stale);
            assert_eq!(buckets.stale, expected);
            let fresh = buckets.fresh.as_ref().expect("the query is in buckets");
            assert!(within.iter().all(|bucket| fresh.contains(bucket) != expected.contains(bucket)));
            for number in 0..64 {
                let id = DocumentId::parse(&format!("id:n:note:n={number}:1")).expect("an id");
                let is_there = fresh.iter().any(|bucket| bucket.contains(id.location()));
                assert_eq!(buckets.has(DocumentSortKey::new(&id).as_bytes()), is_there, "{id}");
            }
        }
        check(&[], &[]);
        check(&[bucket(2, 2)], &[]);
        check(&[bucket(2, 1)], &[bucket(2, 1)]);
        check(&[bucket(5, 9)], &[bucket(2, 1)]);
        check(&[bucket(1, 1)], &[bucket(2, 1), bucket(34, 1 << 32 | 3)]);
        check(&[BucketId::ROOT], &[bucket(2, 0), bucket(2, 1), bucket(34, 1 << 32 | 3)]);
    }
}
