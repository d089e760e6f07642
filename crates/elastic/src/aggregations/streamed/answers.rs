//! Answers of aggregations, from what they have collected.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::composite::PlacedKey;
use super::super::filters::FilterPair;
use super::super::metrics;
use super::super::values::AggregatedValue;
use super::super::{AggregationScope, BucketContent, RequestedAggregation};
use super::{BucketState, StreamPlan, StreamState, StreamWork, mixed_up};
use crate::Error;

/// Answer of aggregations beside each other.
pub(super) fn finish_all(
    plans: &[StreamPlan<'_>],
    states: &[StreamState],
    requested: &[RequestedAggregation],
    scope: &AggregationScope<'_>,
) -> Result<Map<String, Value>, Error> {
    let mut answer = Map::new();
    for (plan, state) in plans.iter().zip(states) {
        if !matches!(plan.work, StreamWork::Pipeline) {
            let (kind, value) = plan.finish(state)?;
            scope.add(&mut answer, plan.requested, kind, value)?;
        }
    }
    scope.add_siblings(&mut answer, requested)?;
    Ok(answer)
}

impl StreamPlan<'_> {
    /// A bucket with the plans of what is inside.
    fn kept<'k>(&'k self, bucket: &'k BucketState) -> FinishedBucket<'k> {
        FinishedBucket { plans: &self.inner, bucket: Some(bucket) }
    }

    /// A bucket without documents.
    fn empty(&self) -> FinishedBucket<'_> {
        FinishedBucket { plans: &self.inner, bucket: None }
    }

    /// Answer of the aggregation, with its kind.
    pub(super) fn finish(&self, state: &StreamState) -> Result<(&'static str, Value), Error> {
        let one = self.one();
        match (&self.work, state) {
            (StreamWork::Terms(source, _, all), StreamState::Values(parts)) => {
                let all = all.as_ref().map(RefCell::borrow);
                let mut buckets: BTreeMap<&AggregatedValue, FinishedBucket<'_>> = BTreeMap::new();
                if let Some(all) = &all {
                    buckets.extend(all.iter().map(|value| (value, self.empty())));
                }
                buckets.extend(parts.iter().map(|(value, bucket)| (value, self.kept(bucket))));
                one.finish_terms(source, buckets)
            }
            (StreamWork::RareTerms(source, _, documents_max), StreamState::Values(parts)) => {
                let parts: BTreeMap<&AggregatedValue, FinishedBucket<'_>> =
                    parts.iter().map(|(value, bucket)| (value, self.kept(bucket))).collect();
                one.finish_rare_terms(source, *documents_max, parts)
            }
            (StreamWork::Adjacency(division), StreamState::Pairs(parts)) => {
                let parts: BTreeMap<FilterPair, FinishedBucket<'_>> =
                    parts.iter().map(|(pair, bucket)| (*pair, self.kept(bucket))).collect();
                Ok(("adjacency_matrix", one.finish_adjacency(division, parts)?))
            }
            (StreamWork::Significant(division, background), StreamState::Compared(documents, parts)) => {
                let parts: BTreeMap<&AggregatedValue, FinishedBucket<'_>> =
                    parts.iter().map(|(value, bucket)| (value, self.kept(bucket))).collect();
                one.finish_significant(division, *documents, parts, &background.borrow())
            }
            (StreamWork::Sampler(_), StreamState::Sample(_, bucket)) => {
                one.single("sampler", &self.kept(bucket))
            }
            (StreamWork::ReverseNested, StreamState::Roots(_, bucket)) => {
                one.single("reverse_nested", &self.kept(bucket))
            }
            (StreamWork::Automatic(division), StreamState::Units(units)) => {
                let parts = units.parts.iter().map(|(start, bucket)| (*start, self.kept(bucket))).collect();
                Ok(("auto_date_histogram", one.finish_automatic(division, units.step, parts)?))
            }
            (StreamWork::MultiTerms(sources), StreamState::Combined(parts)) => {
                let parts: BTreeMap<&Vec<AggregatedValue>, FinishedBucket<'_>> =
                    parts.iter().map(|(key, bucket)| (key, self.kept(bucket))).collect();
                one.finish_multi_terms(sources, parts)
            }
            (StreamWork::Composite(division), StreamState::Placed(parts)) => {
                let parts: BTreeMap<&PlacedKey, FinishedBucket<'_>> =
                    parts.iter().map(|(key, bucket)| (key, self.kept(bucket))).collect();
                Ok(("composite", one.finish_composite(division, parts)?))
            }
            (StreamWork::Numbers(division), StreamState::Intervals(parts)) => {
                let parts = parts.iter().map(|(key, bucket)| (*key, self.kept(bucket))).collect();
                Ok(("histogram", one.finish_histogram(division, parts, || self.empty())?))
            }
            (StreamWork::Dates(division), StreamState::Intervals(parts)) => {
                let parts = parts.iter().map(|(key, bucket)| (*key, self.kept(bucket))).collect();
                Ok(("date_histogram", one.finish_date_histogram(division, parts, || self.empty())?))
            }
            (StreamWork::Ranges(division), StreamState::List(buckets)) => {
                let kind = match self.requested.kind.as_str() {
                    "date_range" => "date_range",
                    "ip_range" => "ip_range",
                    _ => "range",
                };
                Ok((kind, one.finish_ranges(division, &self.all_kept(buckets))?))
            }
            (StreamWork::Filters(_), StreamState::List(buckets)) => {
                Ok(("filters", one.finish_filters(&self.all_kept(buckets))?))
            }
            (work, StreamState::List(buckets)) => {
                let kind = match work {
                    StreamWork::Filter(_) => "filter",
                    StreamWork::Global => "global",
                    StreamWork::Missing(_) => "missing",
                    StreamWork::Nested(_) => "nested",
                    _ => return Err(mixed_up()),
                };
                let bucket = buckets.first().map_or_else(|| self.empty(), |bucket| self.kept(bucket));
                one.single(kind, &bucket)
            }
            (_, state) => self.finish_figure(state),
        }
    }

    /// Answer of an aggregation without buckets.
    fn finish_figure(&self, state: &StreamState) -> Result<(&'static str, Value), Error> {
        let figure = |kind: &'static str, value: Value| Ok((kind, json!({ "value": value })));
        match (&self.work, state) {
            (StreamWork::ValueCount(_), StreamState::Count(count)) => figure("value_count", json!(count)),
            (StreamWork::Cardinality(_), StreamState::Different(values)) => {
                figure("cardinality", json!(values.len()))
            }
            (StreamWork::Weighted(_), StreamState::Weighted(sums)) => {
                Ok(("weighted_avg", sums.answer(self.requested.options.get("format"))))
            }
            (StreamWork::Figures(source), StreamState::Summary(summary)) => {
                let (kind, options) = (&self.requested.kind, &self.requested.options);
                metrics::figures_with(kind, options, *summary, Vec::new(), source)
            }
            (StreamWork::Figures(source), StreamState::Numbers(numbers)) => {
                metrics::figures(&self.requested.kind, &self.requested.options, numbers.clone(), source)
            }
            (StreamWork::TopHits(page), StreamState::Hits(top)) => {
                let page = top.answer(page, self.scope, self.memory)?;
                Ok(self.one().top_answer(page))
            }
            _ => Err(mixed_up()),
        }
    }

    fn all_kept<'k>(&'k self, buckets: &'k [BucketState]) -> Vec<FinishedBucket<'k>> {
        buckets.iter().map(|bucket| self.kept(bucket)).collect()
    }
}

/// A finished bucket.
struct FinishedBucket<'k> {
    plans: &'k [StreamPlan<'k>],
    /// None if it has no documents.
    bucket: Option<&'k BucketState>,
}

impl BucketContent for FinishedBucket<'_> {
    fn documents(&self) -> usize {
        self.bucket.map_or(0, |bucket| bucket.documents)
    }

    fn inside(
        &self,
        requested: &[RequestedAggregation],
        scope: &AggregationScope<'_>,
    ) -> Result<Map<String, Value>, Error> {
        match self.bucket {
            Some(bucket) => finish_all(self.plans, &bucket.inner, requested, scope),
            None => {
                let states = self.plans.iter().map(StreamPlan::state).collect::<Result<Vec<_>, _>>()?;
                finish_all(self.plans, &states, requested, scope)
            }
        }
    }
}
