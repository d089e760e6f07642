//! Aggregations of a search, and the visits of all documents that some of them need.

use std::ops::ControlFlow;

use millrace_plan::QueryMemory;
use serde_json::Value;

use super::SearchHit;
use crate::aggregations::{self, AggregationScope, RequestedAggregation, StreamedAggregations};
use crate::catalog::OpenIndex;
use crate::hit_scan::{HitScan, HitSink, RowChooser, RowField, RowSink, VisitedDocument};
use crate::query::SearchQuery;
use crate::read_fields::ReadFields;
use crate::scan_limit::{ScanProgress, SearchPace};
use crate::search_request::HitSearch;
use crate::service::ElasticService;
use crate::{Error, cluster_admin, kept_hits};

/// Collects all documents of a search.
struct WholeSink<'s> {
    memory: &'s QueryMemory,
    hits: Vec<SearchHit>,
}

impl HitSink for WholeSink<'_> {
    fn add(&mut self, hit: SearchHit, _: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        kept_hits::take(self.memory, kept_hits::bytes_of(&hit))?;
        self.hits.push(hit);
        Ok(ControlFlow::Continue(()))
    }
}

/// Hands all documents of a search to its aggregations.
struct WholeAggregationSink<'s, 'a> {
    requested: &'s [RequestedAggregation],
    streamed: &'s mut StreamedAggregations<'a>,
}

impl HitSink for WholeAggregationSink<'_, '_> {
    fn add(&mut self, hit: SearchHit, _: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        self.streamed.add_of_all(&hit, 1)?;
        Ok(ControlFlow::Continue(()))
    }

    fn fields(&self, index: &OpenIndex) -> ReadFields {
        let mut fields = ReadFields::NONE;
        fields.add_aggregations(&index.entry.mappings, self.requested);
        fields
    }

    fn rows(&mut self) -> Option<&mut dyn RowSink> {
        Some(self)
    }
}

impl RowSink for WholeAggregationSink<'_, '_> {
    fn row_fields(&self) -> Option<Vec<RowField>> {
        self.streamed.row_fields()
    }

    fn count_rows(&mut self, _: usize) {}

    fn aggregates_rows(&self) -> bool {
        true
    }

    fn takes_each_row(&self) -> bool {
        self.streamed.takes_each_row()
    }

    fn add_alike(&mut self, hit: &SearchHit, count: usize) -> Result<(), Error> {
        self.streamed.add_of_all(hit, count)
    }

    fn chooser(&mut self) -> Option<&mut dyn RowChooser> {
        None
    }
}

/// Hands all documents of the indexes to a sink, also those that the query does not match. Returns true if
/// the time was over before; it has as much as the visit of the others.
fn visit_everything(
    service: &ElasticService,
    indexes: &[OpenIndex],
    request: &HitSearch,
    sink: &mut dyn HitSink,
) -> Result<bool, Error> {
    let mut progress = ScanProgress::begin(&request.limit, &service.gone);
    let (query, minimum_score) = (&SearchQuery::All, None);
    let scan = HitScan {
        service,
        query,
        minimum_score,
        request,
        after: None,
        sees_hidden: false,
        is_backwards: false,
    };
    for (ordinal, index) in indexes.iter().enumerate() {
        scan.visit(ordinal, index, &mut progress, sink)?;
    }
    Ok(progress.is_timed_out)
}

/// Answers of aggregations that have taken the matching documents one by one. Those about all documents visit
/// these first; `is_timed_out` is set if the time was over before.
pub(super) fn finish_streamed(
    service: &ElasticService,
    request: &HitSearch,
    indexes: &[OpenIndex],
    mut streamed: StreamedAggregations<'_>,
    is_timed_out: &mut bool,
) -> Result<Value, Error> {
    let mut takes_all = streamed.end_matching()?;
    while takes_all {
        let mut sink = WholeAggregationSink { requested: &request.aggregations, streamed: &mut streamed };
        *is_timed_out |= visit_everything(service, indexes, request, &mut sink)?;
        takes_all = streamed.end_all()?;
    }
    Ok(Value::Object(streamed.finish()?))
}

/// Runs the aggregations of a search over its matching documents together. They have as much time as the
/// visit before them: also where this one has used up its own, its documents are aggregated.
pub(super) fn aggregate(
    service: &ElasticService,
    request: &HitSearch,
    scope: &AggregationScope<'_>,
    matching: &[SearchHit],
    memory: &QueryMemory,
    is_timed_out: &mut bool,
) -> Result<Value, Error> {
    let mut everything = WholeSink { memory, hits: Vec::new() };
    if request.aggregations.iter().any(RequestedAggregation::reads_everything) {
        *is_timed_out |= visit_everything(service, scope.indexes, request, &mut everything)?;
    }
    let matching = matching.iter().collect::<Vec<_>>();
    let everything = everything.hits.iter().collect::<Vec<_>>();
    let pace = SearchPace::begin(&request.limit, &service.gone);
    let scope =
        AggregationScope { matching: &matching, everything: &everything, pace: &pace, ..scope.clone() };
    let answer = scope.run(&request.aggregations, &matching)?;
    *is_timed_out |= pace.is_over();
    Ok(Value::Object(answer))
}

/// Buckets that one search may have, by the settings of the cluster.
pub(super) fn buckets_max(service: &ElasticService) -> Result<usize, Error> {
    let number = cluster_admin::setting(service, cluster_admin::BUCKETS)?.and_then(|text| text.parse().ok());
    Ok(number.unwrap_or(aggregations::BUCKETS_MAX))
}
