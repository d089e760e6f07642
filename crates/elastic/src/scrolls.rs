//! Scrolls: the hits of a search, read page by page.
//!
//! A scroll keeps a place, and not the documents. Hits in no order, or in that of `_doc`, come in the order
//! in which the store has the documents: the place is that of the last one. Others are ranked again, after
//! the last hit; the next hits are kept beside it, as far as there is room, so that few pages need that.
//! Later writes are known by their sequence numbers.
//!
//! Scrolls are kept in the memory of this node, a bounded number of them, and end by themselves. Each is its
//! caller's: others can neither read nor clear it. A caller has as many as it leaves free, and where there is
//! no room at all, the one that has most loses a scroll, so that all callers can scroll.

mod owners;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use millrace_node::pool;
use millrace_plan::QueryMemory;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

pub(crate) use self::owners::ScrollOwner;
use self::owners::make_room;
use crate::Error;
use crate::catalog::{OpenIndex, now_ms, random_text};
use crate::fields::names_of;
use crate::hit_scan::{HitScan, HitSink, VisitCursor, VisitedDocument, searched};
use crate::kept_hits::{self, HitRank, HitSpan, HitStart};
use crate::query::text_of;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::{ScanProgress, duration_of};
use crate::search::{SearchFacts, SearchHit, answer, read_whole, run_span};
use crate::search_request::HitSearch;
use crate::service::ElasticService;
use crate::storage;

/// Scrolls that may be open.
const SCROLLS_MAX: usize = 500;

/// Hits that a scroll keeps for its next pages, and their bytes, about.
const WAITING_MAX: usize = 10_000;
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of such hits that all scrolls keep, about. Beyond that they are ranked again.
const BYTES_MAX: usize = 64 << 20;

/// Bytes of the searches of all scrolls, about. Beyond that there is no room for one more.
const SEARCH_BYTES_MAX: usize = 64 << 20;

/// Shortest time without a request until a scroll ends, in milliseconds: a shorter one that is asked for is
/// this one.
const IDLE_MS: u64 = 5 * 60 * 1_000;

/// Longest such time that may be asked for.
const IDLE_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Reads the time for which a scroll is kept without a request.
///
/// # Errors
/// It is no time, or longer than a day.
pub(crate) fn kept_ms_of(text: &str) -> Result<u64, Error> {
    let kept_ms = duration_of(text).ok().flatten().map(|kept| kept.as_millis());
    match kept_ms.map(u64::try_from) {
        Some(Ok(kept_ms)) if kept_ms <= IDLE_MS_MAX => Ok(kept_ms.max(IDLE_MS)),
        Some(_) => Err(Error::IllegalArgument(format!(
            "Keep alive for request ({text}) is too large. It must be less than (1d)."
        ))),
        None => Err(Error::IllegalArgument(format!(
            "failed to parse setting [scroll] with value [{text}]; name a time, such as 5m"
        ))),
    }
}

/// Open scrolls by their ids.
#[derive(Default)]
pub(crate) struct OpenScrolls(Mutex<BTreeMap<String, OpenScroll>>);

/// A scroll that is open.
struct OpenScroll {
    owner: ScrollOwner,
    used_ms: u64,
    /// Time without a request until it ends.
    kept_ms: u64,
    /// Bytes of the hits that it keeps.
    bytes: usize,
    /// Bytes of its search.
    search_bytes: usize,
    /// `None` while a page is read.
    state: Option<Box<ScrollState>>,
}

/// A search with the place that its scroll has reached.
struct ScrollState {
    request: HitSearch,
    indexes: Vec<OpenIndex>,
    /// Sequence number of the first write after the beginning, for each index.
    seq_nos_end: Vec<i64>,
    facts: SearchFacts,
    position: ScrollPosition,
    /// Number of documents found up to there, after some of which the search may end: those that match, or,
    /// in another order than that of the store, the hits that were given.
    found: u64,
}

/// Place that a scroll has reached.
enum ScrollPosition {
    /// In the order in which the store has the documents: after this one.
    Place(VisitCursor),
    /// In another order.
    Rank {
        /// Last hit that was given.
        last: Option<HitRank>,
        /// Hits after it.
        waiting: VecDeque<SearchHit>,
        /// True if there are more after those.
        has_more: bool,
    },
    /// All hits were given.
    End,
}

/// Collects one page in the order in which the store has the documents.
struct PageSink<'s> {
    request: &'s HitSearch,
    seq_nos_end: &'s [i64],
    memory: &'s QueryMemory,
    hits: Vec<SearchHit>,
    /// Place of the last hit of a full page.
    last: Option<VisitCursor>,
    /// True to count the hits after the page.
    counts: bool,
    total: u64,
    /// Documents that match, and as many as there were at the last hit of a full page.
    matched: u64,
    matched_at_last: u64,
}

impl HitSink for PageSink<'_> {
    fn reads_documents(&self) -> bool {
        self.last.is_none() || self.request.post_filter.is_some()
    }

    fn only_counts(&self) -> bool {
        self.last.is_some()
    }

    fn add(&mut self, mut hit: SearchHit, at: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        self.matched += 1;
        let is_new = hit.stored.version == 1 && hit.stored.seq_no >= self.seq_nos_end[hit.ordinal];
        let is_shown = match &self.request.post_filter {
            Some(filter) => searched(&hit).score(filter, &mut Vec::new())?.is_some(),
            None => true,
        };
        if is_new || !is_shown {
            return Ok(ControlFlow::Continue(()));
        }
        self.total += 1;
        if self.last.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        kept_hits::take(self.memory, kept_hits::bytes_of(&hit))?;
        if let Some(order) = &self.request.order {
            hit.sort = order.keys(&hit)?;
        }
        self.hits.push(hit);
        if self.hits.len() < self.request.size {
            return Ok(ControlFlow::Continue(()));
        }
        (self.last, self.matched_at_last) = (at.place(), self.matched);
        Ok(if self.counts { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }
}

impl ScrollState {
    /// Begins a scroll. Returns it with its first page.
    fn begin(
        service: &ElasticService,
        indexes: Vec<OpenIndex>,
        request: HitSearch,
    ) -> Result<(Self, Vec<SearchHit>), Error> {
        let is_placed = match &request.order {
            Some(order) => order.is_by_place(),
            None => request.query.has_one_score(),
        };
        let is_hidden = |index: &OpenIndex| index.hides_writes() || index.live.hides_any();
        let is_placed = is_placed && request.boosts.is_empty() && !indexes.iter().any(is_hidden);
        let seq_nos =
            || -> Vec<i64> { indexes.iter().map(|index| seq_no_end(service, index, is_placed)).collect() };
        // Writes that are in flight are waited for, if the order is not that of the store.
        let seq_nos_end = if is_placed { seq_nos() } else { pool::wait_without_slot(seq_nos) };
        let span = if is_placed { HitSpan::NOTHING } else { waiting_span(service, &request, None) };
        // Logs are counted by their columns, and not with the documents of the page, if they have to be read
        // for nothing else.
        let reads_each = request.slice.is_some()
            || request.minimum_score.is_some()
            || request.post_filter.is_some()
            || request.limit.may_terminate();
        let is_counted_apart =
            !request.form.has_no_total && !reads_each && indexes.iter().all(OpenIndex::is_log);
        let is_one_visit = is_placed && request.aggregations.is_empty() && !is_counted_apart;
        let counts = is_one_visit && !request.form.has_no_total;
        let (hits, has_more, facts) = match is_one_visit {
            false => {
                let mut found = run_span(service, &indexes, &request, span, Some(seq_nos_end.as_slice()))?;
                if !is_placed {
                    check_whole(found.facts.is_timed_out)?;
                } else if request.aggregations.is_empty() {
                    // The page is whole.
                    found.facts.is_total_least |= std::mem::take(&mut found.facts.is_timed_out);
                }
                (found.hits, found.is_cut, found.facts)
            }
            true => (Vec::new(), false, SearchFacts::new(&indexes, &request)),
        };
        let mut state = ScrollState {
            request,
            indexes,
            seq_nos_end,
            facts,
            position: ScrollPosition::Rank { last: None, waiting: hits.into(), has_more },
            found: 0,
        };
        let page = match is_placed {
            true => state.page_after(service, None, counts)?,
            false => state.page(service)?,
        };
        Ok((state, page))
    }

    /// The next page. After an error the scroll is where it was.
    fn page(&mut self, service: &ElasticService) -> Result<Vec<SearchHit>, Error> {
        let size = self.request.limit.wanted_after(self.found, self.request.size);
        if size == 0 {
            self.position = ScrollPosition::End;
        }
        let (last, waiting, has_more) = match &mut self.position {
            ScrollPosition::End => return Ok(Vec::new()),
            ScrollPosition::Place(place) => {
                let place = place.clone();
                return self.page_after(service, Some(&place), false);
            }
            ScrollPosition::Rank { last, waiting, has_more } => (last, waiting, has_more),
        };
        if waiting.len() < size && *has_more {
            let after = waiting.back().map(HitRank::of).or_else(|| last.clone()).map(HitStart::Rank);
            let span = waiting_span(service, &self.request, after);
            let seq_nos_end = Some(self.seq_nos_end.as_slice());
            let found = run_span(service, &self.indexes, &self.request, span, seq_nos_end)?;
            check_whole(found.facts.is_timed_out)?;
            waiting.extend(found.hits);
            *has_more = found.is_cut;
        }
        let count = size.min(waiting.len());
        read_whole(&mut waiting.make_contiguous()[..count], &service.node.query_memory())?;
        let page: Vec<SearchHit> = waiting.drain(..count).collect();
        if let Some(hit) = page.last() {
            *last = Some(HitRank::of(hit));
        }
        self.found += page.len() as u64;
        Ok(page)
    }

    /// The next page in the order in which the store has the documents. The first one counts all hits, as far
    /// as there is time.
    fn page_after(
        &mut self,
        service: &ElasticService,
        after: Option<&VisitCursor>,
        counts: bool,
    ) -> Result<Vec<SearchHit>, Error> {
        let memory = service.node.query_memory();
        kept_hits::take(&memory, self.request.pattern_bytes())?;
        let (request, seq_nos_end) = (&self.request, self.seq_nos_end.as_slice());
        let mut sink = PageSink {
            request,
            seq_nos_end,
            memory: &memory,
            hits: Vec::new(),
            last: None,
            counts,
            total: 0,
            matched: self.found,
            matched_at_last: self.found,
        };
        let mut progress = ScanProgress::begin(&request.limit, &service.gone).after(self.found);
        let (query, minimum_score) = (&request.query, request.minimum_score);
        let scan =
            HitScan { service, query, minimum_score, request, after, sees_hidden: true, is_backwards: false };
        for (ordinal, index) in self.indexes.iter().enumerate() {
            let skipped = scan.visit(ordinal, index, &mut progress, &mut sink)?;
            if counts {
                self.facts.skipped += skipped;
            } else if sink.last.is_some() {
                break;
            }
        }
        let PageSink { hits, last, total, matched_at_last, .. } = sink;
        check_whole(progress.is_timed_out && last.is_none())?;
        if counts {
            self.facts.end(&progress);
            // The page is whole.
            self.facts.is_total_least |= std::mem::take(&mut self.facts.is_timed_out);
            self.facts.total = total;
        }
        if progress.may_terminate() {
            let was_terminated = self.facts.is_terminated == Some(true);
            self.facts.is_terminated = Some(was_terminated || progress.is_terminated);
        }
        self.found = matched_at_last;
        self.position = last.map_or(ScrollPosition::End, ScrollPosition::Place);
        Ok(hits)
    }

    /// Bytes of the hits that it keeps.
    fn bytes(&self) -> usize {
        match &self.position {
            ScrollPosition::Rank { waiting, .. } => waiting.iter().map(kept_hits::bytes_of).sum(),
            ScrollPosition::Place(_) | ScrollPosition::End => 0,
        }
    }

    /// False if all its indexes were deleted. One of the same name that was made since is another one.
    fn has_indexes(&self, service: &ElasticService) -> Result<bool, Error> {
        let entries = service.catalog.read()?;
        let is_there = |index: &OpenIndex| {
            let now = entries.index(&index.entry.name);
            now.is_some_and(|now| now.entry.uuid == index.entry.uuid)
        };
        Ok(self.indexes.is_empty() || self.indexes.iter().any(is_there))
    }

    /// Place that it has reached, without the hits that it keeps: they are ranked again.
    fn place(&self) -> ScrollPosition {
        match &self.position {
            ScrollPosition::Place(place) => ScrollPosition::Place(place.clone()),
            ScrollPosition::Rank { last, .. } => {
                ScrollPosition::Rank { last: last.clone(), waiting: VecDeque::new(), has_more: true }
            }
            ScrollPosition::End => ScrollPosition::End,
        }
    }

    /// Forgets the hits that it keeps: they are ranked again.
    fn forget_waiting(&mut self) {
        if let ScrollPosition::Rank { waiting, has_more, .. } = &mut self.position
            && !waiting.is_empty()
        {
            *waiting = VecDeque::new();
            *has_more = true;
        }
    }
}

/// Microseconds by which the times of documents in a cluster may be ahead of this node's clock: the first
/// ones that a new owner gives are, and clocks differ.
const AHEAD_US: i64 = 10_000_000;

/// Sequence number of the first write after the beginning of a scroll. A document whose change is in flight
/// would come twice in an order by its values: before and after the change.
pub(crate) fn seq_no_end(service: &ElasticService, index: &OpenIndex, is_placed: bool) -> i64 {
    match index.typed {
        // Times in microseconds, after those of all documents that are there.
        Some(_) => {
            let now_us = millrace_env::unix_time().as_micros();
            let next = now_us.max(u128::from(storage::newest_write(&service.node).0) + 1);
            let ahead = if service.node.cluster().is_alone() { 0 } else { AHEAD_US };
            i64::try_from(next).unwrap_or(i64::MAX).saturating_add(ahead)
        }
        None if is_placed || index.is_log() => index.live.seq_no(),
        None => index.live.settled_seq_no(),
    }
}

/// Hits that a scroll keeps.
fn waiting_span(service: &ElasticService, request: &HitSearch, after: Option<HitStart>) -> HitSpan {
    let hits_max = WAITING_MAX.max(request.size);
    let bytes_max = WAITING_BYTES_MAX.min(service.node.settings().query_memory_max / 2);
    HitSpan { after, hits_max, hits_min: request.size, bytes_max }
}

/// Checks that a page of a scroll is whole: the hits that it lacks would never come.
fn check_whole(is_timed_out: bool) -> Result<(), Error> {
    match is_timed_out {
        true => Err(Error::Timeout(
            "the page of the scroll was not read within its [timeout]; ask for it again, with a longer one in the \
             search"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Opens a scroll of the caller, and answers with its first page.
///
/// # Errors
/// The search fails, or the caller has too many scrolls or too long searches: no other has more.
pub(crate) fn open(
    service: &ElasticService,
    indexes: Vec<OpenIndex>,
    request: HitSearch,
    kept_ms: u64,
    began_ms: u64,
) -> Result<Value, Error> {
    let (mut state, page) = ScrollState::begin(service, indexes, request)?;
    let mut answer = answer(&state.request, &state.facts, &page, began_ms, &service.answer_memory)?;
    // The first page alone has them.
    state.request.aggregations.clear();
    state.facts.aggregations = None;
    answer["_scroll_id"] = service.scrolls.add(service.caller.scroll_owner(), state, kept_ms)?.into();
    Ok(answer)
}

impl OpenScrolls {
    /// Adds a scroll of a caller after its first page.
    ///
    /// # Errors
    /// The caller has too many, or too long searches: no other has more.
    fn add(&self, owner: ScrollOwner, mut state: ScrollState, kept_ms: u64) -> Result<String, Error> {
        let now = now_ms();
        let mut scrolls = self.0.lock();
        scrolls.retain(|_, scroll| scroll.used_ms + scroll.kept_ms > now);
        if !make_room(&mut scrolls, &owner, 1, SCROLLS_MAX, |_| 1) {
            return Err(Error::Rejected(format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: [{SCROLLS_MAX}] of all \
                 clients, and one may have as many as it leaves free; clear others first"
            )));
        }
        let search_bytes = state.request.bytes + state.request.pattern_bytes();
        if !make_room(&mut scrolls, &owner, search_bytes, SEARCH_BYTES_MAX, |scroll| scroll.search_bytes) {
            return Err(Error::Rejected(format!(
                "the search of the scroll takes {search_bytes} bytes, and those of all scrolls may take \
                 {SEARCH_BYTES_MAX}, of which a client may have as many as it leaves free; clear others first, or \
                 ask with a shorter query"
            )));
        }
        let bytes = kept_bytes(&scrolls, &mut state);
        let id = random_text(32);
        let state = Some(Box::new(state));
        scrolls.insert(id.clone(), OpenScroll { owner, used_ms: now, kept_ms, bytes, search_bytes, state });
        Ok(id)
    }

    /// Takes a scroll of a caller for a page of it. It is put back in any case.
    ///
    /// # Errors
    /// The caller has no such scroll, or another request reads a page of it.
    fn take(&self, id: &str, owner: &ScrollOwner, kept_ms: Option<u64>) -> Result<Box<ScrollState>, Error> {
        let mut scrolls = self.0.lock();
        let Some(scroll) = scrolls.get_mut(id).filter(|scroll| scroll.owner.is(owner)) else {
            return Err(no_scroll(id));
        };
        scroll.used_ms = now_ms();
        scroll.kept_ms = kept_ms.unwrap_or(scroll.kept_ms);
        scroll.state.take().ok_or_else(|| {
            Error::Rejected(format!(
                "a page of the scroll [{id}] is being read; ask for the next one when it is there"
            ))
        })
    }

    /// Puts a scroll back, unless it was cleared meanwhile.
    fn put_back(&self, id: &str, mut state: Box<ScrollState>) {
        let mut scrolls = self.0.lock();
        if let Some(scroll) = scrolls.get_mut(id) {
            scroll.bytes = 0;
        }
        let bytes = kept_bytes(&scrolls, &mut state);
        if let Some(scroll) = scrolls.get_mut(id) {
            (scroll.bytes, scroll.used_ms) = (bytes, now_ms());
            scroll.state = Some(state);
        }
    }
}

fn no_scroll(id: &str) -> Error {
    Error::NotFound(format!("No search context found for id [{id}]"))
}

/// Bytes that a scroll keeps beside others: none if there is no room.
fn kept_bytes(scrolls: &BTreeMap<String, OpenScroll>, state: &mut ScrollState) -> usize {
    let others: usize = scrolls.values().map(|scroll| scroll.bytes).sum();
    if others.saturating_add(state.bytes()) > BYTES_MAX {
        state.forget_waiting();
    }
    state.bytes()
}

fn ids_of(body: &Map<String, Value>, parameters: &ElasticParameters, path: Option<&str>) -> Vec<String> {
    let of_body = body.get("scroll_id").map(names_of).unwrap_or_default();
    let of_request = parameters.list("scroll_id").unwrap_or_default();
    let of_path = path.map(|path| path.split(',').map(str::to_owned).collect()).unwrap_or_default();
    [of_body, of_request, of_path].into_iter().find(|ids| !ids.is_empty()).unwrap_or_default()
}

/// Next page of a scroll.
pub(crate) fn next(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    path: Option<&str>,
) -> Result<ReplyContent, Error> {
    let began_ms = now_ms();
    let body = object_of(&request.body)?;
    let ids = ids_of(&body, parameters, path);
    let kept = body.get("scroll").map(text_of).or_else(|| parameters.get("scroll").map(str::to_owned));
    let kept_ms = kept.as_deref().map(kept_ms_of).transpose()?;
    let Some(id) = ids.first() else {
        return Err(Error::Validation(vec!["scrollId is missing".to_owned()]));
    };
    // What is refused takes no page.
    let total_as_number = parameters.flag("rest_total_hits_as_int")?.unwrap_or(false);
    let mut state = service.scrolls.take(id, &service.caller.scroll_owner(), kept_ms)?;
    match state.has_indexes(service) {
        Ok(true) => {}
        Ok(false) => {
            service.scrolls.0.lock().remove(id);
            return Err(no_scroll(id));
        }
        Err(error) => {
            service.scrolls.put_back(id, state);
            return Err(error);
        }
    }
    let before = (state.place(), state.found);
    let page = state.page(service).and_then(|page| {
        let page = answer(&state.request, &state.facts, &page, began_ms, &service.answer_memory);
        if page.is_err() {
            // The client does not have these hits.
            (state.position, state.found) = before;
        }
        page
    });
    service.scrolls.put_back(id, state);
    let mut page = page?;
    if total_as_number && let Some(total) = page["hits"]["total"].get("value").cloned() {
        page["hits"]["total"] = total;
    }
    page["_scroll_id"] = id.as_str().into();
    ReplyContent::ok(page)
}

/// `DELETE` of scrolls of the caller.
pub(crate) fn clear(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    path: Option<&str>,
) -> Result<ReplyContent, Error> {
    let ids = ids_of(&object_of(&request.body)?, parameters, path);
    let is_all = ids.iter().any(|id| id == "_all");
    let owner = service.caller.scroll_owner();
    let mut scrolls = service.scrolls.0.lock();
    let before = scrolls.len();
    scrolls.retain(|id, scroll| {
        let is_meant = ids.contains(id) && scroll.owner.is(&owner);
        !(is_meant || is_all && scroll.owner.has_share_of(&owner))
    });
    let freed = before - scrolls.len();
    let status = if freed == 0 && !is_all { 404 } else { 200 };
    Ok(ReplyContent::Json(status, json!({ "succeeded": true, "num_freed": freed })))
}
