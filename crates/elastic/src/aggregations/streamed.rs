//! Aggregations that take documents one by one: they keep buckets and figures, and no documents.
//!
//! A sample keeps the documents that it is going to have, and is divided when they are known; so are
//! intervals of time that depend on all points. Values of all documents that are compared with all documents
//! have these pass twice. One combination looks at documents again that have passed: the documents of nested
//! objects that are chosen or divided late. A search with it keeps its documents.

mod adding;
mod answers;
mod settling;
mod streamed_hit;

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use millrace_plan::QueryMemory;
use serde_json::{Map, Value};

use self::answers::finish_all;
use self::settling::DateUnits;
use self::streamed_hit::{PreviousDocument, StreamedHit};
use super::automatic::AutomaticDivision;
use super::bucket_hits::BucketTopHits;
use super::composite::{CompositeDivision, PlacedKey};
use super::filters::{AdjacencyDivision, FilterPair};
use super::histograms::{DateDivision, NumberDivision};
use super::metrics::{self, NumberSummary, WeightedSums};
use super::pipelines::PipelineKind;
use super::ranges::RangeDivision;
use super::samples::BucketSample;
use super::significant::{SignificantDivision, TermBackground};
use super::terms::WantedTerms;
use super::values::{AggregatedValue, FieldSource};
use super::{AggregationScope, BucketAggregation, RequestedAggregation};
use crate::Error;
use crate::hit_form::InnerHits;
use crate::hit_scan::RowField;
use crate::kept_hits::take;
use crate::query::{self, SearchQuery};
use crate::search::SearchHit;

/// Bytes that a bucket, a value or a figure takes, about.
const PART_BYTES: usize = 160;

/// Aggregations of a search, and what they have collected.
pub(crate) struct StreamedAggregations<'a> {
    requested: &'a [RequestedAggregation],
    scope: &'a AggregationScope<'a>,
    plans: Vec<StreamPlan<'a>>,
    states: Vec<StreamState>,
    /// True once all documents have passed, and pass again for comparisons.
    passes_again: bool,
}

impl<'a> StreamedAggregations<'a> {
    /// Prepares aggregations; `None` if one of them needs all documents together.
    ///
    /// # Errors
    /// An option has a value that is not possible.
    pub(crate) fn new(
        requested: &'a [RequestedAggregation],
        scope: &'a AggregationScope<'a>,
        memory: &'a QueryMemory,
    ) -> Result<Option<Self>, Error> {
        let Some(plans) = StreamPlan::all(requested, scope, memory)? else { return Ok(None) };
        let states = plans.iter().map(StreamPlan::state).collect::<Result<_, _>>()?;
        Ok(Some(StreamedAggregations { requested, scope, plans, states, passes_again: false }))
    }

    /// Adds a document.
    ///
    /// # Errors
    /// There is no memory for one more bucket or value, or the document is not as an aggregation needs it.
    pub(crate) fn add(&mut self, hit: &SearchHit) -> Result<(), Error> {
        add_all(&self.plans, &mut self.states, StreamedHit::whole(hit))
    }

    /// Fields that the aggregations read of each document; `None` if one needs whole documents.
    pub(crate) fn row_fields(&self) -> Option<Vec<RowField>> {
        let mut fields = Vec::new();
        self.plans.iter().try_for_each(|plan| plan.add_row_fields(&mut fields))?;
        Some(fields)
    }

    /// True if an aggregation shows documents: rows are then added one by one.
    pub(crate) fn takes_each_row(&self) -> bool {
        self.plans.iter().any(StreamPlan::shows_documents)
    }

    /// Adds some documents of which the aggregations read the same values.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub(crate) fn add_alike(&mut self, hit: &SearchHit, count: usize) -> Result<(), Error> {
        add_all(&self.plans, &mut self.states, StreamedHit::several(hit, count))
    }

    /// Ends the documents that the query matches. True if an aggregation takes all documents then
    /// ([`Self::add_of_all`]).
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub(crate) fn end_matching(&mut self) -> Result<bool, Error> {
        self.settle(false)?;
        Ok(self.plans.iter().any(StreamPlan::reads_everything))
    }

    /// Adds some of all documents, which have the same values, whether the query matches them or not.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub(crate) fn add_of_all(&mut self, hit: &SearchHit, count: usize) -> Result<(), Error> {
        for (plan, state) in self.plans.iter().zip(&mut self.states) {
            if let (StreamWork::Global, StreamState::List(buckets), false) =
                (&plan.work, state, self.passes_again)
            {
                plan.fill_each(buckets, [0], StreamedHit::several(hit, count))?;
            }
            if plan.compares_again() == self.passes_again {
                plan.compare(hit, count)?;
            }
        }
        Ok(())
    }

    /// Ends all documents. True if they are to be added once more, for values of all documents that are
    /// compared with all documents.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub(crate) fn end_all(&mut self) -> Result<bool, Error> {
        if std::mem::replace(&mut self.passes_again, true) {
            return Ok(false);
        }
        self.settle(true)?;
        Ok(self.plans.iter().any(StreamPlan::compares_again))
    }

    /// Settles the aggregations of all documents, or the others.
    fn settle(&mut self, is_global: bool) -> Result<(), Error> {
        let plans = self.plans.iter().zip(&mut self.states);
        let mut settled = plans.filter(|(plan, _)| matches!(plan.work, StreamWork::Global) == is_global);
        settled.try_for_each(|(plan, state)| plan.settle(state))
    }

    /// Answer of the aggregations.
    ///
    /// # Errors
    /// There are too many buckets, or an order names no figure.
    pub(crate) fn finish(&self) -> Result<Map<String, Value>, Error> {
        finish_all(&self.plans, &self.states, self.requested, self.scope)
    }
}

fn add_all(plans: &[StreamPlan<'_>], states: &mut [StreamState], hit: StreamedHit<'_>) -> Result<(), Error> {
    plans.iter().zip(states).try_for_each(|(plan, state)| plan.add(state, hit))
}

/// An aggregation with its options, read once for all documents.
struct StreamPlan<'a> {
    requested: &'a RequestedAggregation,
    scope: &'a AggregationScope<'a>,
    memory: &'a QueryMemory,
    work: StreamWork,
    inner: Vec<StreamPlan<'a>>,
}

/// Work of an aggregation on a document.
enum StreamWork {
    /// None: it reads finished buckets.
    Pipeline,
    /// With the values of all documents, which all buckets share, if those without documents are shown.
    Terms(FieldSource, WantedTerms, Option<RefCell<BTreeSet<AggregatedValue>>>),
    /// Values that have this number of documents at most.
    RareTerms(FieldSource, WantedTerms, usize),
    MultiTerms(Vec<FieldSource>),
    Composite(CompositeDivision),
    Numbers(NumberDivision),
    Dates(DateDivision),
    Ranges(RangeDivision),
    Filter(SearchQuery),
    Filters(Vec<SearchQuery>),
    Adjacency(AdjacencyDivision),
    /// Values that are compared with those of all documents, which all buckets share.
    Significant(SignificantDivision, RefCell<TermBackground>),
    /// The best documents, of this number at most.
    Sampler(usize),
    Automatic(AutomaticDivision),
    /// Takes all documents, also those that the query does not match.
    Global,
    Missing(FieldSource),
    Nested(String),
    /// The documents that have the nested objects, each once.
    ReverseNested,
    ValueCount(FieldSource),
    Cardinality(FieldSource),
    Weighted([FieldSource; 2]),
    Figures(FieldSource),
    TopHits(InnerHits),
}

impl StreamWork {
    /// Bytes that its regular expressions take, about.
    fn pattern_bytes(&self) -> usize {
        match self {
            StreamWork::Terms(_, wanted, _) | StreamWork::RareTerms(_, wanted, _) => wanted.pattern_bytes(),
            StreamWork::Filter(query) => query.pattern_bytes(),
            StreamWork::Filters(queries) => queries.iter().map(SearchQuery::pattern_bytes).sum(),
            StreamWork::Adjacency(division) => division.pattern_bytes(),
            StreamWork::Significant(division, _) => division.pattern_bytes(),
            _ => 0,
        }
    }
}

/// Collection of an aggregation in one bucket.
enum StreamState {
    Nothing,
    Values(BTreeMap<AggregatedValue, BucketState>),
    Combined(BTreeMap<Vec<AggregatedValue>, BucketState>),
    Placed(BTreeMap<PlacedKey, BucketState>),
    Intervals(BTreeMap<i64, BucketState>),
    List(Vec<BucketState>),
    /// The document that came last, and the bucket of all.
    Roots(PreviousDocument, BucketState),
    Pairs(BTreeMap<FilterPair, BucketState>),
    /// Number of the documents, and buckets of their values.
    Compared(usize, BTreeMap<AggregatedValue, BucketState>),
    /// Best documents, and the bucket that they are divided in later.
    Sample(BucketSample, BucketState),
    Units(DateUnits),
    Count(usize),
    Different(BTreeSet<AggregatedValue>),
    Weighted(WeightedSums),
    Summary(NumberSummary),
    Numbers(Vec<f64>),
    Hits(BucketTopHits),
}

/// A bucket: the number of its documents, and what the aggregations inside have collected.
struct BucketState {
    documents: usize,
    /// Memory of the search that it has, with what is inside.
    bytes: usize,
    inner: Vec<StreamState>,
}

impl<'a> StreamPlan<'a> {
    /// Plans of aggregations; `None` if one of them needs all documents together.
    fn all(
        requested: &'a [RequestedAggregation],
        scope: &'a AggregationScope<'a>,
        memory: &'a QueryMemory,
    ) -> Result<Option<Vec<Self>>, Error> {
        let plans = requested.iter().map(|one| StreamPlan::of(one, scope, memory));
        plans.collect::<Result<Option<Vec<_>>, Error>>()
    }

    fn of(
        requested: &'a RequestedAggregation,
        scope: &'a AggregationScope<'a>,
        memory: &'a QueryMemory,
    ) -> Result<Option<Self>, Error> {
        let one = BucketAggregation { requested, scope, hits: &[] };
        let work = match requested.kind.as_str() {
            kind if PipelineKind::of(kind).is_some() => StreamWork::Pipeline,
            "terms" => {
                let source = one.source()?;
                let wanted = WantedTerms::parse(&requested.options, &source)?;
                let shows_empty = one.count_of("min_doc_count", 1)? == 0;
                StreamWork::Terms(source, wanted, shows_empty.then(RefCell::default))
            }
            "rare_terms" => {
                let source = one.source()?;
                let wanted = WantedTerms::parse(&requested.options, &source)?;
                StreamWork::RareTerms(source, wanted, one.rare_documents_max()?)
            }
            "multi_terms" => StreamWork::MultiTerms(one.multi_sources()?),
            "composite" => StreamWork::Composite(one.composite_division()?),
            "histogram" => StreamWork::Numbers(one.number_division()?),
            "date_histogram" => StreamWork::Dates(one.date_division()?),
            "range" | "date_range" | "ip_range" => StreamWork::Ranges(one.range_division()?),
            "filter" => StreamWork::Filter(query::parse(&Value::Object(requested.options.clone()))?),
            "filters" => StreamWork::Filters(one.filter_queries()?),
            "adjacency_matrix" => StreamWork::Adjacency(one.adjacency_division()?),
            "significant_terms" | "significant_text" => {
                StreamWork::Significant(one.significant_division()?, RefCell::default())
            }
            "sampler" => StreamWork::Sampler(one.count_of("shard_size", 100)?),
            "auto_date_histogram" => StreamWork::Automatic(one.automatic_division()?),
            "global" => StreamWork::Global,
            "missing" => StreamWork::Missing(one.source()?),
            // The objects of a document would not be together any more where one asks for the document.
            "nested" if !requested.inner.iter().any(RequestedAggregation::divides_roots_late) => {
                StreamWork::Nested(one.nested_path()?)
            }
            "reverse_nested" => StreamWork::ReverseNested,
            "value_count" => StreamWork::ValueCount(one.source()?),
            "cardinality" => StreamWork::Cardinality(one.source()?),
            "weighted_avg" => StreamWork::Weighted(one.weighted_sources()?),
            "top_hits" | "top_metrics" => StreamWork::TopHits(one.top_hits()?),
            kind if metrics::is_metric(kind) => StreamWork::Figures(one.numeric_source()?),
            _ => return Ok(None),
        };
        take(memory, work.pattern_bytes())?;
        let inner = StreamPlan::all(&requested.inner, scope, memory)?;
        Ok(inner.map(|inner| StreamPlan { requested, scope, memory, work, inner }))
    }

    /// Adds the fields that the aggregation and those inside read.
    fn add_row_fields(&self, fields: &mut Vec<RowField>) -> Option<()> {
        let mut own = Vec::new();
        let (mut interval_ms, mut is_searched) = (None, false);
        match &self.work {
            StreamWork::Filter(query) => {
                is_searched = true;
                query.add_fields(&mut own)?;
            }
            StreamWork::Filters(queries) => {
                is_searched = true;
                queries.iter().try_for_each(|query| query.add_fields(&mut own))?;
            }
            StreamWork::Adjacency(division) => {
                is_searched = true;
                division.add_fields(&mut own)?;
            }
            StreamWork::Significant(division, _) => {
                division.add_filter_fields(&mut own)?;
                is_searched = !own.is_empty();
                own.extend(self.requested.named_fields());
            }
            StreamWork::TopHits(page) => own = page.order_fields()?,
            StreamWork::Dates(division) => {
                interval_ms = division.alike_ms();
                own = self.requested.own_fields()?;
            }
            _ => own = self.requested.own_fields()?,
        }
        let of_name = |name: &str| RowField { name: name.to_owned(), interval_ms, is_searched };
        fields.extend(own.into_iter().map(of_name));
        self.inner.iter().try_for_each(|inner| inner.add_row_fields(fields))
    }

    /// True if the aggregation, or one inside, shows documents.
    fn shows_documents(&self) -> bool {
        matches!(self.work, StreamWork::TopHits(_)) || self.inner.iter().any(StreamPlan::shows_documents)
    }

    fn one(&self) -> BucketAggregation<'a> {
        BucketAggregation { requested: self.requested, scope: self.scope, hits: &[] }
    }

    /// State before the first document.
    fn state(&self) -> Result<StreamState, Error> {
        take(self.memory, PART_BYTES)?;
        match &self.work {
            StreamWork::Pipeline => Ok(StreamState::Nothing),
            StreamWork::Terms(..) | StreamWork::RareTerms(..) => Ok(StreamState::Values(BTreeMap::new())),
            StreamWork::Adjacency(_) => Ok(StreamState::Pairs(BTreeMap::new())),
            StreamWork::Significant(..) => Ok(StreamState::Compared(0, BTreeMap::new())),
            StreamWork::Sampler(_) => Ok(StreamState::Sample(BucketSample::default(), self.bucket()?)),
            StreamWork::ReverseNested => Ok(StreamState::Roots(PreviousDocument::default(), self.bucket()?)),
            StreamWork::Automatic(division) => Ok(StreamState::Units(DateUnits::new(division))),
            StreamWork::MultiTerms(_) => Ok(StreamState::Combined(BTreeMap::new())),
            StreamWork::Composite(_) => Ok(StreamState::Placed(BTreeMap::new())),
            StreamWork::Numbers(_) | StreamWork::Dates(_) => Ok(StreamState::Intervals(BTreeMap::new())),
            StreamWork::Ranges(_)
            | StreamWork::Filters(_)
            | StreamWork::Filter(_)
            | StreamWork::Global
            | StreamWork::Missing(_)
            | StreamWork::Nested(_) => {
                let buckets = (0..self.list_len()).map(|_| self.bucket());
                Ok(StreamState::List(buckets.collect::<Result<_, _>>()?))
            }
            StreamWork::ValueCount(_) => Ok(StreamState::Count(0)),
            StreamWork::Cardinality(_) => Ok(StreamState::Different(BTreeSet::new())),
            StreamWork::Weighted(_) => Ok(StreamState::Weighted(WeightedSums::default())),
            StreamWork::Figures(_) if metrics::is_of_summary(&self.requested.kind) => {
                Ok(StreamState::Summary(NumberSummary::default()))
            }
            StreamWork::Figures(_) => Ok(StreamState::Numbers(Vec::new())),
            StreamWork::TopHits(_) => Ok(StreamState::Hits(BucketTopHits::default())),
        }
    }

    /// Number of the buckets of a list, which are there without documents, too.
    fn list_len(&self) -> usize {
        match &self.work {
            StreamWork::Ranges(division) => division.len(),
            // The last one has what no filter matches.
            StreamWork::Filters(queries) => queries.len() + 1,
            StreamWork::Filter(_) | StreamWork::Global | StreamWork::Missing(_) | StreamWork::Nested(_) => 1,
            _ => 0,
        }
    }

    /// An empty bucket.
    fn bucket(&self) -> Result<BucketState, Error> {
        let before = self.memory.taken();
        take(self.memory, PART_BYTES)?;
        let inner = self.inner.iter().map(StreamPlan::state).collect::<Result<_, _>>()?;
        Ok(BucketState { documents: 0, bytes: self.memory.taken() - before, inner })
    }

    /// Adds a document to a bucket.
    fn fill(&self, bucket: &mut BucketState, hit: StreamedHit<'_>) -> Result<(), Error> {
        bucket.documents += hit.count;
        let before = self.memory.taken();
        add_all(&self.inner, &mut bucket.inner, hit)?;
        // What is inside gives back some of its own bytes at most.
        bucket.bytes = bucket.bytes + self.memory.taken() - before;
        Ok(())
    }

    /// Adds a document to the bucket of a key, which is made for the first one.
    fn fill_at<K: Ord>(
        &self,
        parts: &mut BTreeMap<K, BucketState>,
        key: K,
        hit: StreamedHit<'_>,
    ) -> Result<(), Error> {
        let bucket = match parts.entry(key) {
            Entry::Occupied(bucket) => bucket.into_mut(),
            Entry::Vacant(free) => free.insert(self.bucket()?),
        };
        self.fill(bucket, hit)
    }

    /// Adds a document to some buckets of a list.
    fn fill_each(
        &self,
        buckets: &mut [BucketState],
        indices: impl IntoIterator<Item = usize>,
        hit: StreamedHit<'_>,
    ) -> Result<(), Error> {
        indices.into_iter().try_for_each(|index| self.fill(&mut buckets[index], hit))
    }
}

/// Error of a plan that gets the state of another one.
fn mixed_up() -> Error {
    Error::Internal("an aggregation has the state of another one".to_owned())
}

fn value_bytes(value: &AggregatedValue) -> usize {
    match value {
        AggregatedValue::Text(text) => PART_BYTES + text.len(),
        _ => PART_BYTES,
    }
}

fn key_bytes(key: &PlacedKey) -> usize {
    key.values().map(|value| value.map_or(PART_BYTES, value_bytes)).sum()
}
