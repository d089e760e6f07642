//! `_search`, `_count` and `_msearch`: documents of indexes, scanned.

mod aggregating;
mod collecting;

use std::cell::Cell;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use self::aggregating::{aggregate, buckets_max, finish_streamed};
use self::collecting::SearchSink;
use crate::Error;
use crate::aggregations::{AggregationScope, StreamedAggregations};
use crate::catalog::{OpenIndex, now_ms};
use crate::dated_names::with_dates;
use crate::fields::names_of;
use crate::hit_scan::HitScan;
use crate::index_admin::shards_of;
use crate::kept_hits::{self, HitCollector, HitSpan, HitStart};
use crate::names::{self, NameOptions};
use crate::nested::{NestedPosition, add_inner_hits};
use crate::points_in_time::PointInTime;
use crate::query::text_of;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::{ScanProgress, SearchPace, duration_of};
use crate::search_request::HitSearch;
use crate::searched_form::SearchedForm;
use crate::service::ElasticService;
use crate::single::parsed;
use crate::sort_keys::HitSortKey;
use crate::sorting::HitOrder;
use crate::storage::{ChunkRow, StoredSource};
use crate::{alias_scope, explanation, hit_form, hybrid, lookups, query_nearest, retrievers, scrolls};

/// A matching document.
#[derive(Debug, Clone)]
pub(crate) struct SearchHit {
    pub(crate) index: OpenIndex,
    /// Position of the index among those that are searched.
    pub(crate) ordinal: usize,
    pub(crate) stored: StoredSource,
    /// Members of the document that were read.
    pub(crate) document: Map<String, Value>,
    /// These members in the form in which searches compare them, if it is another one.
    pub(crate) formed: Option<Map<String, Value>>,
    pub(crate) score: f64,
    pub(crate) matched: Vec<String>,
    pub(crate) sort: Vec<HitSortKey>,
    /// Place of a nested object that is shown as a hit.
    pub(crate) place: Option<NestedPosition>,
    /// Field by which the hits were collapsed, and its value in this one.
    pub(crate) collapsed: Option<(String, Value)>,
    /// Hits that are shown inside of this one.
    pub(crate) inner: Map<String, Value>,
    /// Row with the document, if nothing of it is known but some fields and the sequence number.
    pub(crate) row: Option<ChunkRow>,
}

impl SearchHit {
    /// A hit in an index at a position, with members that were read and their other form.
    pub(crate) fn new(
        index: OpenIndex,
        ordinal: usize,
        stored: StoredSource,
        document: Map<String, Value>,
        formed: Option<Map<String, Value>>,
        score: f64,
    ) -> Self {
        SearchHit {
            index,
            ordinal,
            stored,
            document,
            formed,
            score,
            matched: Vec::new(),
            sort: Vec::new(),
            place: None,
            collapsed: None,
            inner: Map::new(),
            row: None,
        }
    }

    /// Members of the document as searches compare them.
    pub(crate) fn searched_members(&self) -> &Map<String, Value> {
        self.formed.as_ref().unwrap_or(&self.document)
    }
}

/// Result of a search.
pub(crate) struct FoundHits {
    /// The first hits in their order: those that the search keeps. Of their documents they have the fields
    /// that it has read.
    pub(crate) hits: Vec<SearchHit>,
    /// True if there are more after them.
    pub(crate) is_cut: bool,
    pub(crate) facts: SearchFacts,
}

/// Facts that the answer tells of all documents that a search found.
pub(crate) struct SearchFacts {
    pub(crate) total: u64,
    /// True if there can be more than `total`: not all were counted.
    pub(crate) is_total_least: bool,
    pub(crate) has_scores: bool,
    pub(crate) aggregations: Option<Value>,
    /// Shards and partitions of the indexes, and those of them that were not read.
    pub(crate) shards: u64,
    pub(crate) skipped: u64,
    pub(crate) is_timed_out: bool,
    /// True or false if the search could end after a number of documents.
    pub(crate) is_terminated: Option<bool>,
}

impl SearchFacts {
    /// Facts of a search that has found nothing yet.
    pub(crate) fn new(indexes: &[OpenIndex], request: &HitSearch) -> Self {
        let parts = |index| u64::max(shards_of(index), index.live.partitions.len() as u64);
        let is_ranked = request.order.as_ref().is_none_or(HitOrder::is_by_score);
        SearchFacts {
            total: 0,
            is_total_least: false,
            has_scores: is_ranked || request.tracks_scores,
            aggregations: None,
            shards: indexes.iter().map(parts).sum(),
            skipped: 0,
            is_timed_out: false,
            is_terminated: None,
        }
    }

    /// Takes over how a visit ended.
    pub(crate) fn end(&mut self, progress: &ScanProgress<'_>) {
        self.is_timed_out = progress.is_timed_out;
        self.is_total_least = progress.is_late;
        self.is_terminated = progress.may_terminate().then_some(progress.is_terminated);
    }
}

/// Runs a search over indexes. The hits are those of its page, with their whole documents.
pub(crate) fn run(
    service: &ElasticService,
    indexes: &[OpenIndex],
    request: &HitSearch,
) -> Result<FoundHits, Error> {
    let after = match (&request.order, &request.after) {
        (Some(order), Some(after)) => Some(HitStart::Keys(order.after(after, indexes)?)),
        _ => None,
    };
    let (end, reach) = (request.from.saturating_add(request.size), request.reach());
    let span = HitSpan { after, hits_max: reach, hits_min: reach, bytes_max: usize::MAX };
    let mut found = run_span(service, indexes, request, span, request.seq_nos_end.as_deref())?;
    for rescoring in &request.rescoring {
        rescoring.apply(&mut found.hits)?;
    }
    found.hits.truncate(end);
    found.hits.drain(..request.from.min(found.hits.len()));
    read_whole(&mut found.hits, &service.node.query_memory())?;
    Ok(found)
}

/// Runs a search, and keeps other hits than those of its page. `seq_nos_end` has for each index the sequence
/// number of the first write that does not count.
pub(crate) fn run_span(
    service: &ElasticService,
    indexes: &[OpenIndex],
    request: &HitSearch,
    span: HitSpan,
    seq_nos_end: Option<&[i64]>,
) -> Result<FoundHits, Error> {
    let memory = service.node.query_memory();
    kept_hits::take(&memory, request.pattern_bytes())?;
    let pace = SearchPace::begin(&request.limit, &service.gone);
    let scope = AggregationScope {
        indexes,
        query: &request.query,
        matching: &[],
        everything: &[],
        names_types: request.form.names_parts,
        total_as_number: request.form.total_as_number,
        buckets: Cell::new(0),
        buckets_max: if request.aggregations.is_empty() { 0 } else { buckets_max(service)? },
        pace: &pace,
        memory: &memory,
    };
    let streamed = match request.aggregations.is_empty() {
        true => None,
        false => StreamedAggregations::new(&request.aggregations, &scope, &memory)?,
    };
    let kept = HitCollector::new(request.order.as_ref(), span, request.collapse.as_ref(), &memory);
    let mut sink = SearchSink::new(request, &memory, kept, streamed);
    let mut facts = SearchFacts::new(indexes, request);
    let mut progress = ScanProgress::begin(&request.limit, &service.gone);
    let first_field = request.order.as_ref().and_then(HitOrder::first_descending);
    let is_backwards =
        indexes.iter().any(|index| index.is_log() && index.entry.time_field.as_deref() == first_field);
    let (query, minimum_score) = (&request.query, request.minimum_score);
    let scan =
        HitScan { service, query, minimum_score, request, after: None, sees_hidden: false, is_backwards };
    let mut ordinals: Vec<usize> = (0..indexes.len()).collect();
    if is_backwards {
        // The last index of a data stream has its latest documents.
        ordinals.reverse();
    }
    for ordinal in ordinals {
        let index = &indexes[ordinal];
        sink.begin_index(index, seq_nos_end.map_or(i64::MAX, |ends| ends[ordinal]));
        facts.skipped += scan.visit(ordinal, index, &mut progress, &mut sink)?;
    }
    facts.end(&progress);
    let SearchSink { kept, streamed, aggregated, total, .. } = sink;
    facts.total = total;
    let (mut hits, values, is_cut) = kept.finish();
    facts.aggregations = match streamed {
        Some(streamed) => {
            Some(finish_streamed(service, request, indexes, streamed, &mut facts.is_timed_out)?)
        }
        None if request.aggregations.is_empty() => None,
        None => Some(aggregate(service, request, &scope, &aggregated, &memory, &mut facts.is_timed_out)?),
    };
    if let Some(collapse) = &request.collapse {
        hits = collapse.heads(hits, &values, indexes, request, &memory)?;
    }
    Ok(FoundHits { hits, is_cut, facts })
}

/// Reads the whole documents of hits that are shown. The visit has read the fields that it needed.
///
/// # Errors
/// A document is damaged, or there is no memory for one.
pub(crate) fn read_whole(hits: &mut [SearchHit], memory: &QueryMemory) -> Result<(), Error> {
    for hit in hits {
        if let Some(row) = hit.row.take() {
            hit.stored = StoredSource::of(&row.document()?);
        }
        hit.document = parsed(&hit.stored)?;
        hit.formed = SearchedForm::of(&hit.index).apply(&hit.document);
        kept_hits::take(memory, kept_hits::bytes_of(hit))?;
    }
    Ok(())
}

/// Bytes of an answer beside its hits and aggregations, about.
const ANSWER_BYTES: usize = 2048;

/// Answer of a search with the hits of a page.
///
/// # Errors
/// A document is not as its nested query needs it, or there is no memory for all of the answer.
pub(crate) fn answer(
    request: &HitSearch,
    found: &SearchFacts,
    page: &[SearchHit],
    began_ms: u64,
    memory: &QueryMemory,
) -> Result<Value, Error> {
    kept_hits::take(memory, ANSWER_BYTES)?;
    let mut highlighter =
        request.highlighting.as_ref().map(|requested| requested.highlighter(&request.query));
    let mut hits: Vec<Value> = Vec::new();
    for hit in page {
        let mut inner = hit.inner.clone();
        add_inner_hits(&request.query, hit, request.form.total_as_number, memory, &mut inner)?;
        let mut object = request.form.object(hit, found.has_scores);
        if request.explains {
            object["_explanation"] = explanation::of_hit(hit, &request.query)?;
        }
        if let Some(highlighted) = highlighter.as_mut().and_then(|highlighter| highlighter.of(hit)) {
            object["highlight"] = highlighted;
        }
        if !inner.is_empty() {
            object["inner_hits"] = Value::Object(inner);
        }
        kept_hits::take_answer(memory, &object)?;
        hits.push(object);
    }
    let best = page
        .iter()
        .map(|hit| hit.score)
        .fold(None, |best: Option<f64>, score| Some(best.map_or(score, |best| best.max(score))));
    let best = best.filter(|_| found.has_scores).map_or(Value::Null, |best| json!(best));
    let form = &request.form;
    let mut shown = Map::new();
    if form.total_as_number {
        shown.insert("total".to_owned(), if form.has_no_total { json!(-1) } else { json!(found.total) });
    } else if !form.has_no_total {
        let limit = form.total_limit.filter(|limit| found.total > *limit);
        let whole = if found.is_total_least { "gte" } else { "eq" };
        let (value, relation) = limit.map_or((found.total, whole), |limit| (limit, "gte"));
        shown.insert("total".to_owned(), json!({ "value": value, "relation": relation }));
    }
    shown.insert("max_score".to_owned(), best);
    shown.insert("hits".to_owned(), Value::Array(hits));
    let mut answer = json!({
        "took": now_ms().saturating_sub(began_ms),
        "timed_out": found.is_timed_out,
        "_shards": { "total": found.shards, "successful": found.shards, "skipped": found.skipped, "failed": 0 },
        "hits": shown,
    });
    if let Some(is_terminated) = found.is_terminated {
        answer["terminated_early"] = is_terminated.into();
    }
    if let Some(aggregations) = &found.aggregations {
        kept_hits::take_answer(memory, aggregations)?;
        answer["aggregations"] = aggregations.clone();
    }
    Ok(answer)
}

/// Indexes that a search names.
pub(crate) fn indexes_of(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<Vec<OpenIndex>, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let found = names::resolve(&*service.catalog.read()?, expression, options)?;
    service.check_indexes(&found)?;
    found.into_iter().map(|index| index.with_observed(&service.node)).collect()
}

/// `_search`.
pub(crate) fn search(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    ReplyContent::ok(search_body(service, &object_of(&request.body)?, parameters, expression)?)
}

fn search_body(
    service: &ElasticService,
    body: &Map<String, Value>,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<Value, Error> {
    let began_ms = now_ms();
    check_batch(parameters)?;
    let scroll = parameters.get("scroll").map(scrolls::kept_ms_of).transpose()?;
    let mut body = body.clone();
    let point = PointInTime::take(&mut body, parameters, expression)?;
    let _values = lookups::resolve(service, &mut body)?;
    retrievers::resolve(&mut body)?;
    let hybrid = hybrid::resolve(service, &mut body, parameters)?;
    if hybrid.is_some() && body.contains_key("knn") {
        return Err(Error::Validation(vec!["[hybrid] cannot be used with [knn] beside it".to_owned()]));
    }
    let mut request = HitSearch::parse(&body, parameters, scroll.is_some())?;
    if let Some(hybrid) = hybrid {
        request = request.with_hybrid(hybrid)?;
    }
    if scroll.is_none() && point.is_none() && request.slice.is_some() {
        return Err(Error::IllegalArgument(
            "[slice] can only be used with [scroll] or [point-in-time] requests".to_owned(),
        ));
    }
    // The filters of aliases are those of the names as they are at one moment.
    let expression = &*with_dates(point.as_ref().map_or(expression, PointInTime::expression))?;
    let indexes = match &point {
        Some(point) => {
            let indexes = point.indexes(service)?;
            point.restrict(&indexes, &mut request);
            indexes
        }
        None => indexes_of(service, parameters, expression)?,
    };
    for (name, _) in &mut request.boosts {
        *name = with_dates(name)?.into_owned();
        if !names::is_pattern(name) {
            indexes_of(service, parameters, name)?;
        }
    }
    let options = NameOptions::LENIENT.with(parameters)?;
    let restrict = |request: &mut HitSearch| {
        alias_scope::restrict(&*service.catalog.read()?, expression, options, &indexes, request)
    };
    query_nearest::choose_all(service, &indexes, &mut request, &restrict)?;
    restrict(&mut request)?;
    request.check_limits(&indexes)?;
    if let Some(kept_ms) = scroll {
        return scrolls::open(service, indexes, request, kept_ms, began_ms);
    }
    let found = run(service, &indexes, &request)?;
    let mut answer = answer(&request, &found.facts, &found.hits, began_ms, &service.answer_memory)?;
    if let Some(point) = &point {
        answer["pit_id"] = point.shown_id();
    }
    Ok(answer)
}

fn check_batch(parameters: &ElasticParameters) -> Result<(), Error> {
    match parameters.integer("batched_reduce_size")? {
        Some(size) if size < 2 => Err(Error::IllegalArgument("batchedReduceSize must be >= 2".to_owned())),
        _ => Ok(()),
    }
}

/// `_count`.
pub(crate) fn count(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let mut search = query_alone(service, request, parameters)?;
    search.size = 0;
    search.minimum_score = parameters.number("min_score")?;
    let expression = &*with_dates(expression)?;
    let indexes = indexes_of(service, parameters, expression)?;
    let options = NameOptions::LENIENT.with(parameters)?;
    let restrict = |search: &mut HitSearch| {
        alias_scope::restrict(&*service.catalog.read()?, expression, options, &indexes, search)
    };
    query_nearest::choose_all(service, &indexes, &mut search, &restrict)?;
    restrict(&mut search)?;
    let found = run(service, &indexes, &search)?.facts;
    let shards = found.shards;
    let mut answer = json!({
        "count": found.total,
        "_shards": { "total": shards, "successful": shards, "skipped": found.skipped, "failed": 0 },
    });
    if let Some(is_terminated) = found.is_terminated {
        answer["terminated_early"] = is_terminated.into();
    }
    ReplyContent::ok(answer)
}

/// Parses a request whose body has a query alone.
///
/// # Errors
/// It has something else, or the query is not understood; a document that it names cannot be read.
pub(crate) fn query_alone(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
) -> Result<HitSearch, Error> {
    let mut body = object_of(&request.body)?;
    let _values = lookups::resolve(service, &mut body)?;
    if let Some(unknown) = body.keys().find(|name| *name != "query") {
        return Err(Error::Parsing(format!("request does not support [{unknown}]")));
    }
    HitSearch::parse(&body, parameters, false)
}

/// Members of the header of a search in `_msearch` that are parameters of it.
const HEAD_PARAMETERS: [&str; 12] = [
    "allow_no_indices",
    "allow_partial_search_results",
    "ccs_minimize_roundtrips",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "preference",
    "request_cache",
    "routing",
    "search_type",
];

/// Parameters of a search with those of its header.
///
/// # Errors
/// The header has a member that is unknown.
fn parameters_of_head(
    parameters: &ElasticParameters,
    head: &Map<String, Value>,
) -> Result<ElasticParameters, Error> {
    let mut own = parameters.clone();
    for (name, value) in head.iter().filter(|(name, _)| !["index", "type"].contains(&name.as_str())) {
        if !HEAD_PARAMETERS.contains(&name.as_str()) {
            return Err(Error::IllegalArgument(format!(
                "key [{name}] is not supported in the metadata section"
            )));
        }
        let text = match value {
            Value::Null => continue,
            Value::Array(_) => names_of(value).join(","),
            other => text_of(other),
        };
        if !text.is_empty() {
            own = own.with(name, &text);
        }
    }
    Ok(own)
}

/// `_async_search`: a search that is complete when it is answered, so that it needs no id.
///
/// # Errors
/// Those of [`search`], or the result is to be kept.
pub(crate) fn async_search(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    if parameters.flag("keep_on_completion")?.unwrap_or(false) {
        return Err(Error::unsupported("a result that is kept (keep_on_completion=true)"));
    }
    for time in ["keep_alive", "wait_for_completion_timeout"].iter().filter_map(|name| parameters.get(name)) {
        duration_of(time)?;
    }
    let began_ms = now_ms();
    let response = search_body(service, &object_of(&request.body)?, parameters, expression)?;
    let ended_ms = now_ms();
    let mut answer = json!({
        "is_partial": response["timed_out"],
        "is_running": false,
        "start_time_in_millis": began_ms,
        "expiration_time_in_millis": ended_ms,
        "completion_time_in_millis": ended_ms,
    });
    answer["response"] = response;
    ReplyContent::ok(answer)
}

/// `_msearch`: several searches, each with its own result.
pub(crate) fn multi_search(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    index: Option<&str>,
) -> Result<ReplyContent, Error> {
    let began_ms = now_ms();
    let has_plain_totals = parameters.flag("rest_total_hits_as_int")?.unwrap_or(false);
    let lines = request.body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = lines.collect();
    let mut answers = Vec::new();
    for (at, pair) in lines.chunks(2).enumerate() {
        service.check_client()?;
        let [head, body] = pair else {
            return Err(Error::IllegalArgument(
                "a search has a line of its own after each header".to_owned(),
            ));
        };
        let (head, body) = (object_of(head)?, object_of(body)?);
        // The form of the totals is that of the whole answer.
        if let Some(limit) = body.get("track_total_hits").and_then(Value::as_u64).filter(|_| has_plain_totals)
        {
            return Err(hit_form::inexact_total(limit));
        }
        let named = head.get("index").map(names_of).unwrap_or_default().join(",");
        let expression = if named.is_empty() { index.unwrap_or_default() } else { &named };
        let own = parameters_of_head(parameters, &head)?;
        // The first one was counted as the request.
        let admitted = if at == 0 { Ok(()) } else { service.caller.admit_query() };
        answers.push(match admitted.and_then(|()| search_body(service, &body, &own, expression)) {
            Ok(mut answer) => {
                answer["status"] = 200.into();
                answer
            }
            Err(error) => {
                let body = error.body();
                kept_hits::take_answer(&service.answer_memory, &body)?;
                body
            }
        });
    }
    if answers.is_empty() {
        return Err(Error::Validation(vec!["no requests added".to_owned()]));
    }
    ReplyContent::ok(json!({ "took": now_ms().saturating_sub(began_ms), "responses": answers }))
}
