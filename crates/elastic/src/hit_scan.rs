//! Visits of the matching documents of indexes, one by one, from the beginning or from a place on.

mod columns;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::ControlFlow;

use millrace_document::DocumentId;
use millrace_node::metrics::CountedMetric;
use serde_json::{Map, Value};

use self::columns::VisitedChunks;
pub(crate) use self::columns::{RowChooser, RowField, RowRank, RowSink, make_columns};
use crate::Error;
use crate::catalog::{OpenIndex, now_ms};
use crate::evaluation::{SearchedDocument, SearchedWords};
use crate::index_admin::shards_of;
use crate::log_settings::{RoutingSlots, ShardSet};
use crate::partitions::TimeSpan;
use crate::query::SearchQuery;
use crate::query_ranges::DateEnds;
use crate::read_fields::ReadFields;
use crate::scan_limit::ScanProgress;
use crate::search::SearchHit;
use crate::search_request::HitSearch;
use crate::searched_form::SearchedForm;
use crate::service::ElasticService;
use crate::single::parsed_fields;
use crate::storage::{self, GroupChunks, StoredSource};
use crate::{time_bounds, typed};

/// Receiver of the documents of a visit.
pub(crate) trait HitSink {
    /// Takes a document that matches; breaks off after the last one that it wants.
    ///
    /// # Errors
    /// The document cannot be used, or there is no memory for it.
    fn add(&mut self, hit: SearchHit, at: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error>;

    /// Fields that it reads of the documents of an index. The hits have others only if the query reads them.
    fn fields(&self, _index: &OpenIndex) -> ReadFields {
        ReadFields::All
    }

    /// False if it reads no fields any more; documents are not parsed then, if the query reads none either.
    fn reads_documents(&self) -> bool {
        true
    }

    /// False if it counts documents alone: nothing is read of their texts then, if the query reads no fields.
    fn uses_texts(&self) -> bool {
        true
    }

    /// True if it has the documents that it wants, and counts the others for a while.
    fn only_counts(&self) -> bool {
        false
    }

    /// True if documents with times in this span alone can still change the result. They are not read
    /// otherwise.
    fn needs(&self, _span: Option<TimeSpan>) -> bool {
        true
    }

    /// The sink as one of rows; `None` if it takes documents alone.
    fn rows(&mut self) -> Option<&mut dyn RowSink> {
        None
    }
}

/// A document of a visit: where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VisitedDocument<'v> {
    ordinal: usize,
    partition: u32,
    /// Id in the store, which a document lacks that was removed and is still seen.
    id: Option<&'v DocumentId>,
}

impl<'v> VisitedDocument<'v> {
    /// A document of an index without partitions.
    fn at(ordinal: usize, id: &'v DocumentId) -> Self {
        VisitedDocument { ordinal, partition: 0, id: Some(id) }
    }

    /// Its place, after which another visit can begin.
    pub(crate) fn place(self) -> Option<VisitCursor> {
        let document = storage::place_of(self.id?)?;
        Some(VisitCursor { ordinal: self.ordinal, partition: self.partition, document })
    }
}

/// Position of a visit of indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VisitCursor {
    /// Position of the index among those that are visited.
    pub(crate) ordinal: usize,
    /// Number of the partition; 0 in other indexes.
    pub(crate) partition: u32,
    /// Place of the document in the store.
    pub(crate) document: String,
}

/// An index that is visited.
#[derive(Clone, Copy)]
struct VisitedIndex<'v> {
    /// Position among those that are visited.
    ordinal: usize,
    index: &'v OpenIndex,
    /// Fields of its documents that the query reads.
    of_query: &'v ReadFields,
    /// Fields that the query or the sink reads.
    fields: &'v ReadFields,
    /// Time that the query takes for now.
    now_ms: i64,
    /// Ends of its ranges of dates.
    ends: &'v [DateEnds<'v>],
    /// Form in which its documents are compared.
    form: &'v SearchedForm<'v>,
}

/// A visit of the documents that match.
pub(crate) struct HitScan<'s> {
    pub(crate) service: &'s ElasticService,
    pub(crate) query: &'s SearchQuery,
    pub(crate) minimum_score: Option<f64>,
    /// Search with the slice, the routing values and the limits.
    pub(crate) request: &'s HitSearch,
    /// Place after which the visit begins.
    pub(crate) after: Option<&'s VisitCursor>,
    /// True for the documents of the store, also where writes are hidden until the next refresh.
    pub(crate) sees_hidden: bool,
    /// True if partitions with the latest documents come first.
    pub(crate) is_backwards: bool,
}

/// A whole document of an index as a hit, whether it matches or not.
///
/// # Errors
/// It cannot be read.
pub(crate) fn hit_of(index: &OpenIndex, stored: StoredSource) -> Result<SearchHit, Error> {
    let document = parsed_fields(&stored, &ReadFields::All)?;
    let formed = SearchedForm::of(index).apply(&document);
    Ok(SearchHit::new(index.clone(), 0, stored, document, formed, 0.0))
}

/// A hit as a document that is searched.
pub(crate) fn searched(hit: &SearchHit) -> SearchedDocument<'_> {
    searched_document(&hit.index, &hit.stored, &hit.document, hit.formed.as_ref(), now_ms() as i64, &[])
}

/// A document of an index as one that is searched, in its form if it has another one.
fn searched_document<'d>(
    index: &'d OpenIndex,
    stored: &'d StoredSource,
    sent: &'d Map<String, Value>,
    formed: Option<&'d Map<String, Value>>,
    now_ms: i64,
    ends: &'d [DateEnds<'d>],
) -> SearchedDocument<'d> {
    SearchedDocument {
        index: &index.entry.name,
        id: &stored.id,
        routing: stored.routing.as_deref(),
        version: stored.version,
        seq_no: stored.seq_no,
        mappings: &index.entry.mappings,
        settings: &index.entry.settings,
        analyzers: &index.analyzers,
        source: formed.unwrap_or(sent),
        sent,
        now_ms,
        ends,
        is_log: index.is_log(),
        passes_fields: index.passes_fields(),
        words: SearchedWords::default(),
    }
}

impl HitScan<'_> {
    /// Hands each matching document of an index to the sink, within the limits of the search. Returns the
    /// number of partitions that cannot have any, and were not read.
    ///
    /// # Errors
    /// Documents cannot be read, the search reaches a limit, or the sink refuses one.
    pub(crate) fn visit(
        &self,
        ordinal: usize,
        index: &OpenIndex,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<u64, Error> {
        let after = self.after.filter(|after| after.ordinal == ordinal);
        if self.after.is_some_and(|after| ordinal < after.ordinal) || progress.is_over() {
            return Ok(0);
        }
        self.query.check_fields(index)?;
        let mut of_query = ReadFields::NONE;
        of_query.add_query(&index.entry.mappings, self.query);
        let fields = &of_query.clone().with(sink.fields(index));
        let now_ms = now_ms() as i64;
        let ends = &DateEnds::of_query(self.query, &index.entry.mappings, now_ms);
        let form = &SearchedForm::of(index);
        let visited = VisitedIndex { ordinal, index, of_query: &of_query, fields, now_ms, ends, form };
        if let Some(binding) = &index.typed {
            let document = after.map(|after| after.document.as_str());
            let routing = self.request.routing_of(&index.entry.name);
            typed::scan(self.service, binding, routing, document, |stored, id| {
                self.each(visited, stored, VisitedDocument::at(ordinal, id), progress, sink)
            })?;
            return Ok(0);
        }
        if let Some(time_field) = &index.entry.time_field {
            let span = time_bounds::of_query(self.query, index, time_field, now_ms);
            return self.visit_partitions(visited, span, after, progress, sink);
        }
        let node = &self.service.node;
        let document = after.map(|after| after.document.as_str());
        let mut hidden = if self.sees_hidden { HashMap::new() } else { index.live.hidden() };
        let texts = self.reads_texts(visited, sink);
        storage::scan_after(node, index.group(), document, texts, |stored, id| {
            match hidden.remove(&stored.id) {
                Some(Some(before)) => {
                    self.each(visited, before, VisitedDocument::at(ordinal, id), progress, sink)
                }
                Some(None) => Ok(ControlFlow::Continue(())),
                None => self.each(visited, stored, VisitedDocument::at(ordinal, id), progress, sink),
            }
        })?;
        // Removed documents that searches still see. After the end of the search, the first breaks off.
        let nowhere = VisitedDocument { ordinal, partition: 0, id: None };
        for before in hidden.into_values().flatten() {
            if self.each(visited, before, nowhere, progress, sink)?.is_break() {
                break;
            }
        }
        Ok(0)
    }

    /// True if the query or the sink needs the texts of documents.
    fn reads_texts(&self, visited: VisitedIndex<'_>, sink: &dyn HitSink) -> bool {
        sink.uses_texts() || !visited.of_query.is_empty()
    }

    /// Hands a document to the sink if it matches.
    fn each(
        &self,
        visited: VisitedIndex<'_>,
        stored: StoredSource,
        at: VisitedDocument<'_>,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<ControlFlow<()>, Error> {
        progress.is_brief = sink.only_counts();
        if progress.is_over() || progress.next()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !self.reaches(visited.index, &stored) {
            return Ok(ControlFlow::Continue(()));
        }
        let fields = if sink.reads_documents() { visited.fields } else { visited.of_query };
        let Some(hit) = self.hit(visited, stored, fields)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if sink.add(hit, at)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(progress.count())
    }

    /// A document with some fields as a hit; `None` if it does not match.
    fn hit(
        &self,
        visited: VisitedIndex<'_>,
        stored: StoredSource,
        fields: &ReadFields,
    ) -> Result<Option<SearchHit>, Error> {
        let document = if fields.is_empty() { Map::new() } else { parsed_fields(&stored, fields)? };
        let mut matched = Vec::new();
        let VisitedIndex { index, ordinal, now_ms, ends, form, .. } = visited;
        let formed = form.apply(&document);
        let searched = searched_document(index, &stored, &document, formed.as_ref(), now_ms, ends);
        let score = searched.score(self.query, &mut matched)?;
        let score = score.filter(|score| self.minimum_score.is_none_or(|least| *score >= least));
        Ok(score.map(|score| SearchHit {
            matched,
            ..SearchHit::new(index.clone(), ordinal, stored, document, formed, score)
        }))
    }

    /// True if a document is in the slice and the shards that are searched.
    fn reaches(&self, index: &OpenIndex, stored: &StoredSource) -> bool {
        if self.request.slice.is_some_and(|slice| !slice.has(index, stored)) {
            return false;
        }
        let is_elsewhere = self.request.routing_of(&index.entry.name).is_some_and(|routing| {
            let own = stored.routing.as_deref().unwrap_or(&stored.id);
            routing.iter().all(|routing| routing != own)
        });
        !is_elsewhere || shards_of(index) <= 1
    }

    /// Visits the partitions that may have documents with a time in a span, and with one of the routing
    /// values of the search. Returns the number of other partitions.
    fn visit_partitions(
        &self,
        visited: VisitedIndex<'_>,
        span: Option<TimeSpan>,
        after: Option<&VisitCursor>,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<u64, Error> {
        let VisitedIndex { ordinal, index, .. } = visited;
        let slots = RoutingSlots::of_index(index);
        let routing = self.request.routing_of(&index.entry.name);
        let shards = routing
            .map_or(ShardSet::default(), |routing| slots.of_routing(routing.iter().map(String::as_str)));
        let (all, mut in_reach) = (index.live.partitions.len(), index.live.partitions.of_shards(&shards));
        if self.is_backwards {
            in_reach.sort_by_cached_key(|partition| Reverse(partition.times().map(|times| times.1)));
        }
        let plan = self.column_plan(visited, progress, sink);
        let mut read = 0;
        let mut is_over = false;
        for partition in in_reach.iter().filter(|partition| span.is_none_or(|span| partition.meets(span))) {
            let number = partition.number();
            if after.is_some_and(|after| number < after.partition) || !sink.needs(partition.times()) {
                continue;
            }
            read += 1;
            let chunks = match &plan {
                Some(plan) => GroupChunks::of(&self.service.node, partition.group())?.zip(Some(plan)),
                None => None,
            };
            if let Some((chunks, plan)) = &chunks {
                let chunks = VisitedChunks { visited, plan, chunks, partition: number };
                is_over = self.visit_chunks(&chunks, progress, sink)?.is_break();
                if is_over {
                    break;
                }
                continue;
            }
            let place = after.filter(|after| number == after.partition).map(|after| after.document.as_str());
            let texts = self.reads_texts(visited, sink);
            storage::scan_after(&self.service.node, partition.group(), place, texts, |stored, id| {
                self.service.node.metrics().count(CountedMetric::LogDocumentsRead);
                let at = VisitedDocument { ordinal, partition: number, id: Some(id) };
                let flow = self.each(visited, stored, at, progress, sink)?;
                is_over = flow.is_break();
                Ok(flow)
            })?;
            if is_over {
                break;
            }
        }
        Ok(if is_over { 0 } else { all.saturating_sub(read) as u64 })
    }
}
