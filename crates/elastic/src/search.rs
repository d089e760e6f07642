//! `_search`, `_count` and `_msearch`: documents of indexes, scanned.

use std::cell::Cell;
use std::ops::ControlFlow;

use millrace_node::metrics::CountedMetric;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::aggregations::{self, AggregationScope, AskedAggregation};
use crate::catalog::{OpenIndex, now_ms};
use crate::door::ElasticDoor;
use crate::evaluation::SearchedDocument;
use crate::fields::names_of;
use crate::index_admin::shards_of;
use crate::log_settings::{RoutingSlots, ShardSet};
use crate::names::{self, NameOptions};
use crate::nested::{NestedPlace, add_inner_hits};
use crate::partitions::TimeSpan;
use crate::patterns::glob;
use crate::query::{self, SearchQuery};
use crate::request::{DoorParameters, DoorReply, DoorRequest, object_of};
use crate::scan_limit::ScanProgress;
use crate::search_request::HitSearch;
use crate::shelf::{self, StoredSource};
use crate::single::parsed;
use crate::sorting::{HitOrder, HitSortKey};
use crate::{lookups, scrolls, time_bounds, typed};

/// Bytes of documents that one search keeps at a time, about.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// A matching document.
#[derive(Debug, Clone)]
pub(crate) struct SearchHit {
    pub(crate) index: OpenIndex,
    pub(crate) stored: StoredSource,
    pub(crate) document: Map<String, Value>,
    pub(crate) score: f64,
    pub(crate) matched: Vec<String>,
    pub(crate) sort: Vec<HitSortKey>,
    /// Place of a nested object that is shown as a hit.
    pub(crate) place: Option<NestedPlace>,
    /// Field by which the hits were collapsed, and its value in this one.
    pub(crate) collapsed: Option<(String, Value)>,
    /// Hits that are shown inside of this one.
    pub(crate) inner: Map<String, Value>,
}

/// Result of a search before it is cut into pages.
pub(crate) struct FoundHits {
    /// Hits in their order.
    pub(crate) hits: Vec<SearchHit>,
    pub(crate) total: u64,
    pub(crate) has_scores: bool,
    aggregations: Option<Value>,
    /// Shards and partitions of the indexes, and those of them that were not read.
    shards: u64,
    skipped: u64,
    is_timed_out: bool,
    /// True or false if the search could end after a number of documents.
    is_terminated: Option<bool>,
}

/// Runs a search over indexes. All hits are kept, in their order.
pub(crate) fn run(
    door: &ElasticDoor,
    indexes: &[OpenIndex],
    request: &HitSearch,
    keeps_all: bool,
) -> Result<FoundHits, Error> {
    let mut hits: Vec<SearchHit> = Vec::new();
    let mut aggregated: Vec<SearchHit> = Vec::new();
    let mut kept_bytes = 0;
    let mut total = 0;
    let mut progress = ScanProgress::begin(&request.limit);
    let mut skipped = 0;
    let needs_documents = keeps_all || request.size > 0 || request.order.is_some();
    for index in indexes {
        let before = hits.len();
        let names = |pattern: &str| {
            glob(pattern, &index.entry.name) || index.entry.aliases.keys().any(|alias| glob(pattern, alias))
        };
        let boost =
            request.boosts.iter().find(|(pattern, _)| names(pattern)).map_or(1.0, |(_, boost)| *boost);
        let choice = HitChoice { query: &request.query, minimum_score: request.minimum_score, request };
        skipped += visit(door, index, &choice, &mut progress, &mut |mut hit| {
            hit.score *= boost;
            if !request.aggregations.is_empty() {
                kept_bytes += hit.stored.source.len() * 2 + 200;
                aggregated.push(hit.clone());
            }
            if let Some(filter) = &request.post_filter
                && searched(&hit).score(filter, &mut Vec::new())?.is_none()
            {
                return Ok(());
            }
            total += 1;
            if needs_documents {
                kept_bytes += hit.stored.source.len() * 3 + 400;
                hits.push(hit);
            }
            check_kept(kept_bytes)
        })?;
        // Hits that are equal otherwise stay in the order in which they were written.
        hits[before..].sort_by_key(|hit| hit.stored.seq_no);
        if progress.is_over() {
            break;
        }
    }
    let is_ranked = request.order.as_ref().is_none_or(HitOrder::is_by_score);
    let has_scores = is_ranked || request.tracks_scores;
    match &request.order {
        Some(order) => {
            for hit in &mut hits {
                hit.sort = order.keys(hit);
            }
            hits.sort_by(|left, right| order.compare(&left.sort, &right.sort));
            if let Some(after) = &request.after {
                let after = order.after(after, indexes)?;
                hits.retain(|hit| order.compare(&hit.sort, &after) == std::cmp::Ordering::Greater);
            }
        }
        None => hits.sort_by(|left, right| right.score.total_cmp(&left.score)),
    }
    let aggregations = match request.aggregations.is_empty() {
        true => None,
        false => Some(aggregate(door, indexes, request, &aggregated)?),
    };
    if let Some(collapse) = &request.collapse {
        hits = collapse.heads(hits, indexes, request)?;
    }
    let parts = |index| u64::max(shards_of(index), index.live.partitions.len() as u64);
    let shards = indexes.iter().map(parts).sum();
    let is_terminated = progress.may_terminate().then_some(progress.is_terminated);
    let is_timed_out = progress.is_timed_out;
    Ok(FoundHits { hits, total, has_scores, aggregations, shards, skipped, is_timed_out, is_terminated })
}

/// Runs the aggregations of a search over its matching documents.
fn aggregate(
    door: &ElasticDoor,
    indexes: &[OpenIndex],
    request: &HitSearch,
    matching: &[SearchHit],
) -> Result<Value, Error> {
    let mut everything = Vec::new();
    if request.aggregations.iter().any(AskedAggregation::reads_everything) {
        let mut progress = ScanProgress::begin(&request.limit);
        let mut kept_bytes = 0;
        for index in indexes {
            let whole = HitChoice { query: &SearchQuery::All, minimum_score: None, request };
            visit(door, index, &whole, &mut progress, &mut |hit| {
                kept_bytes += hit.stored.source.len() * 2 + 200;
                everything.push(hit);
                check_kept(kept_bytes)
            })?;
        }
    }
    let matching = matching.iter().collect::<Vec<_>>();
    let scope = AggregationScope {
        indexes,
        matching: &matching,
        everything: &everything.iter().collect::<Vec<_>>(),
        names_types: request.form.names_parts,
        total_as_number: request.form.total_as_number,
        buckets: Cell::new(0),
        buckets_max: buckets_max(door)?,
    };
    scope.run(&request.aggregations, &matching).map(Value::Object)
}

/// Buckets that one search may have, by the settings of the cluster.
fn buckets_max(door: &ElasticDoor) -> Result<usize, Error> {
    let number =
        crate::cluster_admin::setting(door, "search.max_buckets")?.and_then(|text| text.parse().ok());
    Ok(number.unwrap_or(aggregations::BUCKETS_MAX))
}

fn check_kept(bytes: usize) -> Result<(), Error> {
    match bytes > KEPT_BYTES_MAX {
        true => Err(Error::Rejected(
            "the search matches more than the memory of one search has room for; narrow its query".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Documents that are visited: those of a search, or all in its reach.
struct HitChoice<'c> {
    query: &'c SearchQuery,
    minimum_score: Option<f64>,
    /// Search with the slice, the routing values and the limits.
    request: &'c HitSearch,
}

/// A hit as a document that is searched.
pub(crate) fn searched(hit: &SearchHit) -> SearchedDocument<'_> {
    SearchedDocument {
        index: &hit.index.entry.name,
        id: &hit.stored.id,
        routing: hit.stored.routing.as_deref(),
        version: hit.stored.version,
        seq_no: hit.stored.seq_no,
        mappings: &hit.index.entry.mappings,
        source: &hit.document,
        now_ms: now_ms() as i64,
        is_log: hit.index.is_log(),
    }
}

/// Calls `visit` with each matching document of an index, within the limits of the search. Returns the number
/// of partitions that cannot have any, and were not read.
fn visit(
    door: &ElasticDoor,
    index: &OpenIndex,
    choice: &HitChoice<'_>,
    progress: &mut ScanProgress<'_>,
    visit: &mut impl FnMut(SearchHit) -> Result<(), Error>,
) -> Result<u64, Error> {
    let HitChoice { query, minimum_score, request } = *choice;
    let mut hidden = index.live.hidden();
    let is_sharded = shards_of(index) > 1;
    let mut each = |stored: StoredSource| -> Result<ControlFlow<()>, Error> {
        if progress.is_over() || progress.next()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if let Some((id, max)) = request.slice {
            let digest = stored.id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
                (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            if digest % max != id {
                return Ok(ControlFlow::Continue(()));
            }
        }
        let is_routed = is_sharded
            && request.routing.as_ref().is_some_and(|routing| {
                let own = stored.routing.as_deref().unwrap_or(&stored.id);
                routing.iter().all(|routing| routing != own)
            });
        if is_routed {
            return Ok(ControlFlow::Continue(()));
        }
        let document = parsed(&stored)?;
        let mut hit = SearchHit {
            index: index.clone(),
            stored,
            document,
            score: 1.0,
            matched: Vec::new(),
            sort: Vec::new(),
            place: None,
            collapsed: None,
            inner: Map::new(),
        };
        let mut matched = Vec::new();
        let score = searched(&hit).score(query, &mut matched)?;
        match score {
            Some(score) if minimum_score.is_none_or(|least| score >= least) => {
                (hit.score, hit.matched) = (score, matched);
                visit(hit)?;
                Ok(progress.count())
            }
            _ => Ok(ControlFlow::Continue(())),
        }
    };
    if let Some(binding) = &index.typed {
        return typed::scan(door, binding, request.routing.as_deref(), each).map(|()| 0);
    }
    if let Some(time_field) = &index.entry.time_field {
        let span = time_bounds::of_query(query, index, time_field);
        return scan_partitions(door, index, span, request.routing.as_deref(), each);
    }
    shelf::scan(&door.node, index.group(), |stored| match hidden.remove(&stored.id) {
        Some(Some(before)) => each(before),
        Some(None) => Ok(ControlFlow::Continue(())),
        None => each(stored),
    })?;
    // Removed documents that searches still see. After the end of the search, the first breaks off.
    for before in hidden.into_values().flatten() {
        if each(before)?.is_break() {
            break;
        }
    }
    Ok(0)
}

/// Calls `visit` with each document of the partitions that may have some with a time in a span, and with one
/// of some routing values. Returns the number of other partitions.
fn scan_partitions(
    door: &ElasticDoor,
    index: &OpenIndex,
    span: Option<TimeSpan>,
    routing: Option<&[String]>,
    mut visit: impl FnMut(StoredSource) -> Result<ControlFlow<()>, Error>,
) -> Result<u64, Error> {
    let slots = RoutingSlots::of_index(index);
    let shards =
        routing.map_or(ShardSet::default(), |routing| slots.of_routing(routing.iter().map(String::as_str)));
    let (all, in_reach) = (index.live.partitions.len(), index.live.partitions.of_shards(&shards));
    let mut read = 0;
    let mut is_over = false;
    for partition in in_reach.iter().filter(|partition| span.is_none_or(|span| partition.meets(span))) {
        read += 1;
        shelf::scan(&door.node, partition.group(), |stored| {
            door.node.metrics().count(CountedMetric::LogDocumentsRead);
            let flow = visit(stored)?;
            is_over = flow.is_break();
            Ok(flow)
        })?;
        if is_over {
            break;
        }
    }
    Ok(if is_over { 0 } else { all.saturating_sub(read) as u64 })
}

/// Answer of a search with the hits of a page.
///
/// # Errors
/// A document is not as its nested query needs it.
pub(crate) fn answer(
    request: &HitSearch,
    found: &FoundHits,
    page: &[SearchHit],
    began_ms: u64,
) -> Result<Value, Error> {
    let mut hits: Vec<Value> = Vec::new();
    for hit in page {
        let mut inner = hit.inner.clone();
        add_inner_hits(&request.query, hit, request.form.total_as_number, &mut inner)?;
        let mut object = request.form.object(hit, found.has_scores);
        if !inner.is_empty() {
            object["inner_hits"] = Value::Object(inner);
        }
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
        let (value, relation) = limit.map_or((found.total, "eq"), |limit| (limit, "gte"));
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
        answer["aggregations"] = aggregations.clone();
    }
    Ok(answer)
}

/// Indexes that a search names, with the filters of the aliases that it names put before its query.
pub(crate) fn indexes_of(
    door: &ElasticDoor,
    parameters: &DoorParameters,
    expression: &str,
) -> Result<Vec<OpenIndex>, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let found = names::resolve(&*door.catalog.read()?, expression, options)?;
    door.check_indexes(&found)?;
    found.into_iter().map(|index| index.with_observed(&door.node)).collect()
}

/// `_search`.
pub(crate) fn search(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    expression: &str,
) -> Result<DoorReply, Error> {
    DoorReply::ok(search_body(door, &object_of(&request.body)?, parameters, expression)?)
}

fn search_body(
    door: &ElasticDoor,
    body: &Map<String, Value>,
    parameters: &DoorParameters,
    expression: &str,
) -> Result<Value, Error> {
    let began_ms = now_ms();
    check_batch(parameters)?;
    let scroll = parameters.get("scroll").map(scrolls::kept_ms_of).transpose()?;
    let mut body = body.clone();
    lookups::resolve(door, &mut body)?;
    let mut request = HitSearch::parse(&body, parameters, scroll.is_some())?;
    if scroll.is_none() && request.slice.is_some() {
        return Err(Error::IllegalArgument(
            "[slice] can only be used with [scroll] or [point-in-time] requests".to_owned(),
        ));
    }
    let indexes = indexes_of(door, parameters, expression)?;
    for (name, _) in request.boosts.iter().filter(|(name, _)| !names::is_pattern(name)) {
        indexes_of(door, parameters, name)?;
    }
    if let Some(filter) = alias_filter(door, expression)? {
        request.query = with_filter(request.query, filter);
    }
    request.routing = alias_routing(door, expression, request.routing)?;
    let found = run(door, &indexes, &request, scroll.is_some())?;
    let from = request.from.min(found.hits.len());
    let to = (request.from + request.size).min(found.hits.len());
    let mut answer = answer(&request, &found, &found.hits[from..to], began_ms)?;
    if let Some(kept_ms) = scroll {
        answer["_scroll_id"] = door.scrolls.open(door.caller.scroll_owner(), request, found, kept_ms)?.into();
    }
    Ok(answer)
}

fn check_batch(parameters: &DoorParameters) -> Result<(), Error> {
    match parameters.integer("batched_reduce_size")? {
        Some(size) if size < 2 => Err(Error::IllegalArgument("batchedReduceSize must be >= 2".to_owned())),
        _ => Ok(()),
    }
}

/// Query with a filter before it.
fn with_filter(query: SearchQuery, filter: SearchQuery) -> SearchQuery {
    let combined =
        query::BoolQuery { must: vec![query], filter: vec![filter], ..query::BoolQuery::default() };
    SearchQuery::Bool(combined)
}

/// Filter of an alias, if the search names one alone.
fn alias_filter(door: &ElasticDoor, expression: &str) -> Result<Option<SearchQuery>, Error> {
    let entries = door.catalog.read()?;
    let Some(index) = entries.with_alias(expression).next() else { return Ok(None) };
    index.entry.aliases[expression].get("filter").map(query::parse).transpose()
}

/// Routing values of a search: its own, or those of the alias, if the search names one alone.
fn alias_routing(
    door: &ElasticDoor,
    expression: &str,
    own: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, Error> {
    if own.is_some() {
        return Ok(own);
    }
    let entries = door.catalog.read()?;
    let Some(index) = entries.with_alias(expression).next() else { return Ok(None) };
    let routing = index.entry.aliases[expression].get("search_routing").and_then(Value::as_str);
    Ok(routing.map(|routing| routing.split(',').map(str::to_owned).collect()))
}

/// `_count`.
pub(crate) fn count(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    expression: &str,
) -> Result<DoorReply, Error> {
    let mut body = object_of(&request.body)?;
    lookups::resolve(door, &mut body)?;
    if let Some(unknown) = body.keys().find(|name| *name != "query") {
        return Err(Error::Parsing(format!("request does not support [{unknown}]")));
    }
    let mut search = HitSearch::parse(&body, parameters, false)?;
    search.size = 0;
    search.minimum_score = parameters.number("min_score")?;
    if let Some(filter) = alias_filter(door, expression)? {
        search.query = with_filter(search.query, filter);
    }
    search.routing = alias_routing(door, expression, search.routing)?;
    let indexes = indexes_of(door, parameters, expression)?;
    let found = run(door, &indexes, &search, false)?;
    let shards = found.shards;
    let mut answer = json!({
        "count": found.total,
        "_shards": { "total": shards, "successful": shards, "skipped": found.skipped, "failed": 0 },
    });
    if let Some(is_terminated) = found.is_terminated {
        answer["terminated_early"] = is_terminated.into();
    }
    DoorReply::ok(answer)
}

/// `_msearch`: several searches, each with its own result.
pub(crate) fn multi_search(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: Option<&str>,
) -> Result<DoorReply, Error> {
    let began_ms = now_ms();
    let lines = request.body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = lines.collect();
    let mut answers = Vec::new();
    for pair in lines.chunks(2) {
        let [head, body] = pair else {
            return Err(Error::IllegalArgument(
                "a search has a line of its own after each header".to_owned(),
            ));
        };
        let (head, body) = (object_of(head)?, object_of(body)?);
        let named = head.get("index").map(names_of).unwrap_or_default().join(",");
        let expression = if named.is_empty() { index.unwrap_or_default() } else { &named };
        let of_head = head.get("routing").map(names_of).unwrap_or_default().join(",");
        let routed = (!of_head.is_empty()).then(|| parameters.with("routing", &of_head));
        answers.push(match search_body(door, &body, routed.as_ref().unwrap_or(parameters), expression) {
            Ok(mut answer) => {
                answer["status"] = 200.into();
                answer
            }
            Err(error) => error.body(),
        });
    }
    if answers.is_empty() {
        return Err(Error::Validation(vec!["no requests added".to_owned()]));
    }
    DoorReply::ok(json!({ "took": now_ms().saturating_sub(began_ms), "responses": answers }))
}
