//! Work on what was collected, once all documents of a search are known: samples are divided, and intervals
//! of time chosen.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::automatic::{AutomaticDivision, interval_of};
use super::super::terms::check_values;
use super::streamed_hit::StreamedHit;
use super::{BucketState, StreamPlan, StreamState, StreamWork, mixed_up, value_bytes};
use crate::Error;
use crate::kept_hits::{bytes_of, take};
use crate::search::SearchHit;

/// Buckets of units of time, until the intervals are chosen, which have whole units each; then those of the
/// intervals.
pub(super) struct DateUnits {
    /// Position of the interval in the list of the division: that of one unit at first.
    pub(super) step: usize,
    pub(super) parts: BTreeMap<i64, BucketState>,
    /// First and last point.
    ends: Option<(i64, i64)>,
    /// Documents with points in several units, each with the number of those that it stands for: they count
    /// once in an interval.
    several: Vec<(SearchHit, usize)>,
}

impl DateUnits {
    /// Units of the shortest interval.
    pub(super) fn new(division: &AutomaticDivision) -> Self {
        DateUnits { step: division.shortest(), parts: BTreeMap::new(), ends: None, several: Vec::new() }
    }

    fn widen(&mut self, first: i64, last: i64) {
        self.ends = match self.ends {
            Some(ends) => Some((ends.0.min(first), ends.1.max(last))),
            None => Some((first, last)),
        };
    }
}

impl StreamPlan<'_> {
    /// True if the aggregation, or one inside, takes all documents after those that match.
    pub(super) fn reads_everything(&self) -> bool {
        matches!(self.work, StreamWork::Global | StreamWork::Significant(..) | StreamWork::Terms(.., Some(_)))
            || self.inner.iter().any(StreamPlan::reads_everything)
    }

    /// True if values of all documents are compared with all documents, which are known by then.
    pub(super) fn compares_again(&self) -> bool {
        matches!(self.work, StreamWork::Global) && self.compares()
    }

    fn compares(&self) -> bool {
        matches!(self.work, StreamWork::Significant(..)) || self.inner.iter().any(StreamPlan::compares)
    }

    /// Counts some of all documents, which have the same values, for the comparisons with them, and for the
    /// values that all have.
    pub(super) fn compare(&self, hit: &SearchHit, count: usize) -> Result<(), Error> {
        match &self.work {
            StreamWork::Significant(division, background) => {
                background.borrow_mut().count(division, hit, count)?;
            }
            StreamWork::Terms(source, wanted, Some(all)) => {
                let mut all = all.borrow_mut();
                for value in source.of(hit).into_iter().filter(|value| wanted.has(value)) {
                    let bytes = value_bytes(&value);
                    if all.insert(value) {
                        take(self.memory, bytes)?;
                    }
                }
                check_values(all.len())?;
            }
            _ => {}
        }
        self.inner.iter().try_for_each(|inner| inner.compare(hit, count))
    }

    /// True if there is work to do when all documents are known.
    fn waits(&self) -> bool {
        matches!(self.work, StreamWork::Sampler(_) | StreamWork::Automatic(_) | StreamWork::Significant(..))
            || self.inner.iter().any(StreamPlan::waits)
    }

    /// Does the work that needs all documents that match: from outside to inside.
    ///
    /// # Errors
    /// There is no memory, or the client has left.
    pub(super) fn settle(&self, state: &mut StreamState) -> Result<(), Error> {
        match (&self.work, &mut *state) {
            (StreamWork::Sampler(size), StreamState::Sample(sample, bucket)) => {
                let hits = sample.finish(*size, self.memory);
                for hit in &hits {
                    self.give_way()?;
                    self.fill(bucket, StreamedHit::whole(hit))?;
                }
                self.memory.give_back(hits.iter().map(bytes_of).sum());
            }
            (StreamWork::Automatic(division), StreamState::Units(units)) => {
                self.choose_intervals(division, units)?;
            }
            (StreamWork::Significant(_, background), StreamState::Compared(_, parts)) => {
                let mut background = background.borrow_mut();
                for value in parts.keys() {
                    if background.note(value) {
                        take(self.memory, value_bytes(value))?;
                    }
                }
            }
            _ => {}
        }
        if !self.inner.iter().any(StreamPlan::waits) {
            return Ok(());
        }
        for bucket in state.buckets_mut() {
            for (plan, state) in self.inner.iter().zip(&mut bucket.inner) {
                plan.settle(state)?;
            }
        }
        Ok(())
    }

    /// Gives other work its turn. After the end of the time, too, what was found is divided.
    fn give_way(&self) -> Result<(), Error> {
        let _ = self.scope.pace.next()?;
        Ok(())
    }

    /// Adds a document to the units of its points.
    pub(super) fn add_to_units(
        &self,
        division: &AutomaticDivision,
        units: &mut DateUnits,
        streamed: StreamedHit<'_>,
    ) -> Result<(), Error> {
        let hit = streamed.hit;
        let mut starts = Vec::new();
        for point in division.points(hit) {
            // Others are beyond the calendar.
            if let Some(start) = division.unit_start(units.step, point) {
                units.widen(point, point);
                starts.push(start);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        match starts.as_slice() {
            [] => Ok(()),
            [start] => {
                self.fill_at(&mut units.parts, *start, streamed)?;
                self.limit_units(division, units)
            }
            _ => {
                take(self.memory, bytes_of(hit))?;
                units.several.push((hit.clone(), streamed.count));
                Ok(())
            }
        }
    }

    /// Merges units into larger ones, as long as there are more than the intervals of one can have.
    fn limit_units(&self, division: &AutomaticDivision, units: &mut DateUnits) -> Result<(), Error> {
        while let Some(step) = division.coarser(units.step, units.parts.len()) {
            self.enlarge_units(division, units, step)?;
        }
        Ok(())
    }

    /// Merges units into those at a later position.
    fn enlarge_units(
        &self,
        division: &AutomaticDivision,
        units: &mut DateUnits,
        step: usize,
    ) -> Result<(), Error> {
        for (start, bucket) in std::mem::take(&mut units.parts) {
            let larger = division.unit_start(step, start).unwrap_or(start);
            self.merge_at(&mut units.parts, larger, bucket)?;
        }
        units.step = step;
        Ok(())
    }

    /// Chooses the intervals, and merges units into them.
    fn choose_intervals(&self, division: &AutomaticDivision, units: &mut DateUnits) -> Result<(), Error> {
        let Some((first, last)) = units.ends else { return Ok(()) };
        let (step, starts) = division.chosen(units.step, first, last);
        let mut intervals: BTreeMap<i64, BucketState> = BTreeMap::new();
        for start in &starts {
            intervals.insert(*start, self.bucket()?);
        }
        for (unit, bucket) in std::mem::take(&mut units.parts) {
            self.give_way()?;
            if let Some(start) = interval_of(&starts, unit) {
                self.merge_at(&mut intervals, start, bucket)?;
            }
        }
        for (hit, count) in std::mem::take(&mut units.several) {
            self.give_way()?;
            let points = division.points(&hit).into_iter();
            let mut own: Vec<i64> = points.filter_map(|point| interval_of(&starts, point)).collect();
            own.sort_unstable();
            own.dedup();
            let streamed = StreamedHit::several(&hit, count);
            own.into_iter().try_for_each(|start| self.fill_at(&mut intervals, start, streamed))?;
            self.memory.give_back(bytes_of(&hit));
        }
        (units.step, units.parts) = (step, intervals);
        Ok(())
    }

    /// Merges a bucket into that of a key.
    fn merge_at<K: Ord>(
        &self,
        parts: &mut BTreeMap<K, BucketState>,
        key: K,
        bucket: BucketState,
    ) -> Result<(), Error> {
        match parts.entry(key) {
            Entry::Vacant(place) => {
                place.insert(bucket);
                Ok(())
            }
            Entry::Occupied(mut own) => self.merge(own.get_mut(), bucket),
        }
    }

    fn merge_all<K: Ord>(
        &self,
        own: &mut BTreeMap<K, BucketState>,
        other: BTreeMap<K, BucketState>,
    ) -> Result<(), Error> {
        other.into_iter().try_for_each(|(key, bucket)| self.merge_at(own, key, bucket))
    }

    fn merge(&self, own: &mut BucketState, other: BucketState) -> Result<(), Error> {
        own.documents += other.documents;
        own.bytes += other.bytes;
        for ((plan, own), other) in self.inner.iter().zip(&mut own.inner).zip(other.inner) {
            plan.merge_states(own, other)?;
        }
        Ok(())
    }

    /// Merges what was collected in another bucket. Memory of what both have stays taken.
    fn merge_states(&self, own: &mut StreamState, other: StreamState) -> Result<(), Error> {
        match (&self.work, own, other) {
            (_, StreamState::Nothing, StreamState::Nothing) => {}
            (_, StreamState::Values(own), StreamState::Values(other)) => self.merge_all(own, other)?,
            (_, StreamState::Combined(own), StreamState::Combined(other)) => self.merge_all(own, other)?,
            (_, StreamState::Placed(own), StreamState::Placed(other)) => self.merge_all(own, other)?,
            (_, StreamState::Intervals(own), StreamState::Intervals(other)) => self.merge_all(own, other)?,
            (_, StreamState::Pairs(own), StreamState::Pairs(other)) => self.merge_all(own, other)?,
            (_, StreamState::Compared(documents, own), StreamState::Compared(others, other)) => {
                *documents += others;
                self.merge_all(own, other)?;
            }
            (_, StreamState::List(own), StreamState::List(other)) => {
                own.iter_mut().zip(other).try_for_each(|(own, other)| self.merge(own, other))?;
            }
            // No document is in both: its objects are together in one bucket.
            (_, StreamState::Roots(_, own), StreamState::Roots(_, other)) => self.merge(own, other)?,
            (_, StreamState::Count(own), StreamState::Count(other)) => *own += other,
            (_, StreamState::Different(own), StreamState::Different(other)) => own.extend(other),
            (_, StreamState::Weighted(own), StreamState::Weighted(other)) => own.merge(other),
            (_, StreamState::Summary(own), StreamState::Summary(other)) => own.merge(other),
            (_, StreamState::Numbers(own), StreamState::Numbers(other)) => own.extend(other),
            (StreamWork::TopHits(page), StreamState::Hits(own), StreamState::Hits(other)) => {
                own.merge(other, page, self.memory)?;
            }
            // Their buckets have no documents yet.
            (StreamWork::Sampler(size), StreamState::Sample(own, _), StreamState::Sample(other, _)) => {
                own.merge(other, *size, self.memory);
            }
            (StreamWork::Automatic(division), StreamState::Units(own), StreamState::Units(mut other)) => {
                let step = own.step.max(other.step);
                self.enlarge_units(division, own, step)?;
                self.enlarge_units(division, &mut other, step)?;
                self.merge_all(&mut own.parts, other.parts)?;
                other.ends.into_iter().for_each(|(first, last)| own.widen(first, last));
                own.several.extend(other.several);
                self.limit_units(division, own)?;
            }
            _ => return Err(mixed_up()),
        }
        Ok(())
    }
}

impl StreamState {
    /// Buckets that it has.
    fn buckets_mut(&mut self) -> Vec<&mut BucketState> {
        match self {
            StreamState::Values(parts) | StreamState::Compared(_, parts) => parts.values_mut().collect(),
            StreamState::Combined(parts) => parts.values_mut().collect(),
            StreamState::Placed(parts) => parts.values_mut().collect(),
            StreamState::Intervals(parts) => parts.values_mut().collect(),
            StreamState::Pairs(parts) => parts.values_mut().collect(),
            StreamState::Units(units) => units.parts.values_mut().collect(),
            StreamState::List(buckets) => buckets.iter_mut().collect(),
            StreamState::Sample(_, bucket) | StreamState::Roots(_, bucket) => vec![bucket],
            StreamState::Nothing
            | StreamState::Count(_)
            | StreamState::Different(_)
            | StreamState::Weighted(_)
            | StreamState::Summary(_)
            | StreamState::Numbers(_)
            | StreamState::Hits(_) => Vec::new(),
        }
    }
}
