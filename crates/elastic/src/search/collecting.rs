//! Collection of what the answer to a search has of the matching documents.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use millrace_plan::QueryMemory;

use super::SearchHit;
use crate::Error;
use crate::aggregations::StreamedAggregations;
use crate::catalog::OpenIndex;
use crate::hit_scan::{HitSink, RowChooser, RowField, RowRank, RowSink, VisitedDocument, searched};
use crate::kept_hits::{self, HitCollector, KnownRank};
use crate::partitions::TimeSpan;
use crate::patterns::glob;
use crate::read_fields::ReadFields;
use crate::search_request::HitSearch;
use crate::sorting::HitOrder;

/// Collects what the answer to a search has of the matching documents.
pub(super) struct SearchSink<'s> {
    request: &'s HitSearch,
    /// Memory of the search.
    memory: &'s QueryMemory,
    pub(super) kept: HitCollector<'s>,
    /// Aggregations that take documents one by one.
    pub(super) streamed: Option<StreamedAggregations<'s>>,
    /// Documents of other aggregations.
    pub(super) aggregated: Vec<SearchHit>,
    pub(super) total: u64,
    /// Factor of scores in the index that is visited.
    boost: f64,
    /// Sequence number that the first write after the beginning of a scroll has in the index.
    seq_no_end: i64,
    /// Field with the time of the documents of the index, if they are in partitions.
    time_field: Option<&'s str>,
    /// Score of all hits of the index, once one is known, if the query gives all the same.
    one_score: Option<f64>,
}

impl<'s> SearchSink<'s> {
    pub(super) fn new(
        request: &'s HitSearch,
        memory: &'s QueryMemory,
        kept: HitCollector<'s>,
        streamed: Option<StreamedAggregations<'s>>,
    ) -> Self {
        SearchSink {
            request,
            memory,
            kept,
            streamed,
            aggregated: Vec::new(),
            total: 0,
            boost: 1.0,
            seq_no_end: i64::MAX,
            time_field: None,
            one_score: None,
        }
    }

    /// Prepares for the documents of an index, of which those from a sequence number on do not count.
    pub(super) fn begin_index(&mut self, index: &'s OpenIndex, seq_no_end: i64) {
        let names = |pattern: &str| {
            glob(pattern, &index.entry.name) || index.entry.aliases.keys().any(|alias| glob(pattern, alias))
        };
        let boost = self.request.boosts.iter().find(|(pattern, _)| names(pattern));
        self.boost = boost.map_or(1.0, |(_, boost)| *boost);
        self.seq_no_end = seq_no_end;
        self.time_field = index.entry.time_field.as_deref();
        self.one_score = None;
    }

    /// Keeps a hit if it is among the first.
    fn keep_in_order(&mut self, mut hit: SearchHit) -> Result<(), Error> {
        if let Some(order) = &self.request.order {
            hit.sort = order.keys(&hit)?;
        }
        self.kept.add(hit)
    }

    /// True if a hit with a time in a span can be among the first. Hits without a time come last, and later
    /// ones are kept already.
    fn can_keep(&self, span: TimeSpan) -> bool {
        let (Some(field), Some(order)) = (self.time_field, &self.request.order) else { return true };
        self.kept.last().is_none_or(|last| order.can_precede(field, span, &last.sort))
    }
}

impl HitSink for SearchSink<'_> {
    fn add(&mut self, mut hit: SearchHit, _: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        if hit.stored.seq_no >= self.seq_no_end {
            return Ok(ControlFlow::Continue(()));
        }
        hit.score *= self.boost;
        if let Some(streamed) = &mut self.streamed {
            streamed.add(&hit)?;
        } else if !self.request.aggregations.is_empty() {
            kept_hits::take(self.memory, kept_hits::bytes_of(&hit))?;
            self.aggregated.push(hit.clone());
        }
        if let Some(filter) = &self.request.post_filter
            && searched(&hit).score(filter, &mut Vec::new())?.is_none()
        {
            return Ok(ControlFlow::Continue(()));
        }
        self.total += 1;
        if self.kept.keeps_any() {
            self.keep_in_order(hit)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fields(&self, index: &OpenIndex) -> ReadFields {
        let mut fields = ReadFields::NONE;
        if self.request.collapse.is_some() || self.streamed.is_none() && !self.request.aggregations.is_empty()
        {
            return ReadFields::All;
        }
        let mappings = &index.entry.mappings;
        fields.add_aggregations(mappings, &self.request.aggregations);
        if let Some(filter) = &self.request.post_filter {
            fields.add_query(mappings, filter);
        }
        for rescoring in self.request.rescoring.iter().filter(|_| self.kept.keeps_any()) {
            fields.add_query(mappings, &rescoring.query);
        }
        if let Some(order) = self.request.order.as_ref().filter(|_| self.kept.keeps_any()) {
            order.fields().for_each(|field| fields.add(mappings, field));
        }
        fields
    }

    fn reads_documents(&self) -> bool {
        let reads_all = !self.request.aggregations.is_empty() || self.request.post_filter.is_some();
        reads_all || self.kept.keeps_any()
    }

    fn uses_texts(&self) -> bool {
        self.reads_documents()
    }

    fn only_counts(&self) -> bool {
        // All others are exact.
        let is_of_scroll = self.seq_no_end != i64::MAX;
        is_of_scroll && !self.kept.keeps_any() && self.request.aggregations.is_empty()
    }

    fn needs(&self, span: Option<TimeSpan>) -> bool {
        let form = &self.request.form;
        let counts = !form.has_no_total && form.total_limit.is_none_or(|limit| self.total <= limit);
        if counts || !self.request.aggregations.is_empty() {
            return true;
        }
        span.is_none_or(|span| self.can_keep(span))
    }

    fn rows(&mut self) -> Option<&mut dyn RowSink> {
        let takes_all = self.request.post_filter.is_none() && self.request.collapse.is_none();
        let is_streamed = self.request.aggregations.is_empty() || self.streamed.is_some();
        if takes_all && is_streamed { Some(self) } else { None }
    }
}

impl RowSink for SearchSink<'_> {
    fn row_fields(&self) -> Option<Vec<RowField>> {
        let Some(streamed) = &self.streamed else { return Some(Vec::new()) };
        // Documents that aggregations show are read after the query was evaluated.
        let shows_names = streamed.takes_each_row() && self.request.query.has_names();
        if shows_names { None } else { streamed.row_fields() }
    }

    fn seq_no_end(&self) -> i64 {
        self.seq_no_end
    }

    fn count_rows(&mut self, count: usize) {
        self.total += count as u64;
    }

    fn aggregates_rows(&self) -> bool {
        self.streamed.is_some()
    }

    fn takes_each_row(&self) -> bool {
        self.streamed.as_ref().is_some_and(StreamedAggregations::takes_each_row)
    }

    fn add_alike(&mut self, hit: &SearchHit, count: usize) -> Result<(), Error> {
        self.streamed.as_mut().map_or(Ok(()), |streamed| streamed.add_alike(hit, count))
    }

    fn chooser(&mut self) -> Option<&mut dyn RowChooser> {
        if self.kept.keeps_any() { Some(self) } else { None }
    }
}

impl RowChooser for SearchSink<'_> {
    fn is_by_time(&self) -> bool {
        let first = self.request.order.as_ref().and_then(HitOrder::first_field);
        first.is_some() && first == self.time_field
    }

    fn order_fields(&self) -> Option<Vec<String>> {
        let knows_score = self.request.query.has_one_score();
        match &self.request.order {
            Some(order) => order.known_fields(knows_score),
            None => knows_score.then(Vec::new),
        }
    }

    fn rank(&self, row: &mut SearchHit) -> KnownRank {
        let knows_score = self.one_score.is_some();
        row.score = self.one_score.unwrap_or(row.score);
        let (sort, is_whole) = match &self.request.order {
            Some(order) => order.known_keys(row, knows_score),
            None => (Vec::new(), true),
        };
        let SearchHit { ordinal, stored, .. } = row;
        KnownRank { sort, is_whole, score: self.one_score, ordinal: *ordinal, seq_no: stored.seq_no }
    }

    fn compare(&self, left: &KnownRank, right: &KnownRank) -> Ordering {
        left.compare_in_index(right, self.request.order.as_ref())
    }

    fn passes_over(&mut self, rank: &RowRank) -> bool {
        match rank {
            RowRank::Unknown => false,
            RowRank::Known(rank) => self.kept.passes_over(rank),
            RowRank::Time(time) => {
                if let (Some(field), Some(order)) = (self.time_field, &self.request.order)
                    && self.kept.start().is_some_and(|start| !order.can_follow(field, *time, start))
                {
                    return true;
                }
                let passes = !self.can_keep((*time, *time));
                if passes {
                    self.kept.pass_over();
                }
                passes
            }
        }
    }

    fn keep(&mut self, mut hit: SearchHit) -> Result<(), Error> {
        hit.score *= self.boost;
        if self.request.query.has_one_score() {
            self.one_score = Some(hit.score);
        }
        self.keep_in_order(hit)
    }
}
