//! Work on a document that passes: it is added to buckets and figures.

use std::collections::BTreeMap;

use super::super::composite::{CompositeDivision, PlacedKey};
use super::super::filters::filter_indices;
use super::super::terms::{check_values, combinations};
use super::super::values::AggregatedValue;
use super::streamed_hit::StreamedHit;
use super::{BucketState, StreamPlan, StreamState, StreamWork, key_bytes, mixed_up, value_bytes};
use crate::Error;
use crate::hit_scan::searched;
use crate::kept_hits::take;
use crate::nested;

impl StreamPlan<'_> {
    /// Adds a document.
    pub(super) fn add(&self, state: &mut StreamState, streamed: StreamedHit<'_>) -> Result<(), Error> {
        let hit = streamed.hit;
        match (&self.work, state) {
            (StreamWork::Pipeline | StreamWork::Global, _) => Ok(()),
            (StreamWork::Terms(source, wanted, _), StreamState::Values(parts)) => {
                let values = source.of(hit).into_iter().filter(|value| wanted.has(value));
                self.add_to_values(parts, values, usize::MAX, streamed)
            }
            (StreamWork::RareTerms(source, wanted, documents_max), StreamState::Values(parts)) => {
                let values = source.of(hit).into_iter().filter(|value| wanted.has(value));
                self.add_to_values(parts, values, *documents_max, streamed)
            }
            (StreamWork::Significant(division, _), StreamState::Compared(documents, parts)) => {
                *documents += streamed.count;
                self.add_to_values(parts, division.values(hit), usize::MAX, streamed)
            }
            (StreamWork::MultiTerms(sources), StreamState::Combined(parts)) => {
                for key in combinations(sources, hit)? {
                    if !parts.contains_key(&key) {
                        take(self.memory, key.iter().map(value_bytes).sum())?;
                    }
                    self.fill_at(parts, key, streamed)?;
                }
                check_values(parts.len())
            }
            (StreamWork::Composite(division), StreamState::Placed(parts)) => {
                self.add_to_first(division, parts, streamed)
            }
            (StreamWork::Numbers(division), StreamState::Intervals(parts)) => {
                let keys = self.one().number_keys(division, hit)?;
                keys.into_iter().try_for_each(|key| self.fill_at(parts, key, streamed))
            }
            (StreamWork::Dates(division), StreamState::Intervals(parts)) => {
                let keys = self.one().date_keys(division, hit)?;
                keys.into_iter().try_for_each(|key| self.fill_at(parts, key, streamed))
            }
            (StreamWork::Automatic(division), StreamState::Units(units)) => {
                self.add_to_units(division, units, streamed)
            }
            (StreamWork::Adjacency(division), StreamState::Pairs(parts)) => {
                division.pairs(hit)?.into_iter().try_for_each(|pair| self.fill_at(parts, pair, streamed))
            }
            (_, StreamState::List(buckets)) => self.add_to_list(buckets, streamed),
            (StreamWork::ReverseNested, StreamState::Roots(last, bucket)) => {
                // The objects of a document come one after the other.
                match last.is_next(streamed.root, self.memory)? {
                    true => self.fill(bucket, StreamedHit::whole(streamed.root)),
                    false => Ok(()),
                }
            }
            (_, state) => self.add_figure(state, streamed),
        }
    }

    /// Adds a document to the buckets of its values, except those that have more than `documents_max`
    /// documents.
    fn add_to_values(
        &self,
        parts: &mut BTreeMap<AggregatedValue, BucketState>,
        values: impl IntoIterator<Item = AggregatedValue>,
        documents_max: usize,
        streamed: StreamedHit<'_>,
    ) -> Result<(), Error> {
        for value in values {
            match parts.get(&value) {
                // It is not shown any more, and takes no more memory.
                Some(bucket) if bucket.documents > documents_max => continue,
                Some(_) => {}
                None => take(self.memory, value_bytes(&value))?,
            }
            self.fill_at(parts, value, streamed)?;
        }
        check_values(parts.len())
    }

    /// Adds a document to the buckets of its combinations of values, of which only the first are wanted.
    fn add_to_first(
        &self,
        division: &CompositeDivision,
        parts: &mut BTreeMap<PlacedKey, BucketState>,
        streamed: StreamedHit<'_>,
    ) -> Result<(), Error> {
        for key in self.one().composite_keys(division, streamed.hit)? {
            let is_full = parts.len() >= division.size;
            if is_full && parts.last_key_value().is_some_and(|(last, _)| key > *last) {
                continue;
            }
            if !parts.contains_key(&key) {
                take(self.memory, key_bytes(&key))?;
            }
            self.fill_at(parts, key, streamed)?;
            if parts.len() > division.size
                && let Some((key, bucket)) = parts.pop_last()
            {
                self.memory.give_back(key_bytes(&key) + bucket.bytes);
            }
        }
        Ok(())
    }

    /// Adds a document to buckets that are there without documents, too.
    fn add_to_list(&self, buckets: &mut [BucketState], streamed: StreamedHit<'_>) -> Result<(), Error> {
        let hit = streamed.hit;
        match &self.work {
            StreamWork::Ranges(division) => self.fill_each(buckets, division.indices(hit), streamed),
            StreamWork::Filter(query) => {
                let is_match = searched(hit).score(query, &mut Vec::new())?.is_some();
                self.fill_each(buckets, is_match.then_some(0), streamed)
            }
            StreamWork::Filters(queries) => self.fill_each(buckets, filter_indices(queries, hit)?, streamed),
            StreamWork::Missing(source) => {
                self.fill_each(buckets, source.all(hit).is_empty().then_some(0), streamed)
            }
            StreamWork::Nested(path) => {
                let mut parts = nested::part_hits(hit, path).into_iter();
                parts.try_for_each(|part| self.fill_each(buckets, [0], streamed.part(&part)))
            }
            _ => Err(mixed_up()),
        }
    }

    /// Adds a document to what has no buckets, or divides it later.
    fn add_figure(&self, state: &mut StreamState, streamed: StreamedHit<'_>) -> Result<(), Error> {
        let StreamedHit { hit, count: times, .. } = streamed;
        match (&self.work, state) {
            (StreamWork::Sampler(size), StreamState::Sample(sample, _)) => {
                sample.add(hit, *size, self.memory)
            }
            (StreamWork::ValueCount(source), StreamState::Count(count)) => {
                *count += source.all(hit).len() * times;
                Ok(())
            }
            (StreamWork::Cardinality(source), StreamState::Different(values)) => {
                for value in source.of(hit) {
                    let bytes = value_bytes(&value);
                    if values.insert(value) {
                        take(self.memory, bytes)?;
                    }
                }
                Ok(())
            }
            (StreamWork::Weighted(sources), StreamState::Weighted(sums)) => {
                (0..times).try_for_each(|_| sums.add(&self.requested.name, sources, hit))
            }
            (StreamWork::Figures(source), StreamState::Summary(summary)) => {
                let own = source.numbers(hit);
                (0..times).for_each(|_| own.iter().for_each(|number| summary.add(*number)));
                Ok(())
            }
            (StreamWork::Figures(source), StreamState::Numbers(numbers)) => {
                let own = source.numbers(hit);
                // They are sorted in a copy.
                take(self.memory, own.len() * times * 2 * size_of::<f64>())?;
                (0..times).for_each(|_| numbers.extend(&own));
                Ok(())
            }
            (StreamWork::TopHits(page), StreamState::Hits(top)) => top.add(page, hit, self.memory),
            _ => Err(mixed_up()),
        }
    }
}
