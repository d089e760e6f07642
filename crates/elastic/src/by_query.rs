//! `_delete_by_query`, `_update_by_query` and `_reindex`: writes of the documents that a query finds.
//!
//! The documents are visited in the order in which the store has them, page by page, and those of a page are
//! written before the next one is read. A document is removed, or written again in its place, on the
//! condition that it is still the one that was found: a write of another request is not undone.

mod copies;
mod pacing;

use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_node::pool;
use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use self::copies::CopyTarget;
use self::pacing::await_allowance;
use crate::bulk::check_pipeline;
use crate::catalog::{OpenIndex, now_ms};
use crate::dated_names::with_dates;
use crate::fields::names_of;
use crate::hit_scan::{HitScan, HitSink, VisitCursor, VisitedDocument};
use crate::names::{NameDemand, NameOptions};
use crate::placing::WritePlacer;
use crate::query::text_of;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::{ScanLimit, ScanProgress};
use crate::search::{SearchHit, indexes_of};
use crate::search_request::HitSearch;
use crate::service::ElasticService;
use crate::source::SourceFilter;
use crate::unread::sent_json;
use crate::update::UpdateEffect;
use crate::update_script::{ScriptedDocument, UpdateScript};
use crate::writing::{self, SingleWrite, VersionRule, WriteAction, WriteConditions, WriteResult};
use crate::{Error, alias_scope, kept_hits, lookups};

/// Documents of a page, and bytes of their texts without the last of them.
const PAGE: usize = 1_000;
const PAGE_BYTES: usize = 2 << 20;

/// Writes of the documents of a search.
struct WritesByQuery<'d> {
    service: &'d ElasticService,
    indexes: Vec<OpenIndex>,
    search: HitSearch,
    effect: EffectByQuery,
    /// Script that changes each document.
    script: Option<UpdateScript>,
    options: OptionsByQuery,
}

/// Options that all of these requests have.
struct OptionsByQuery {
    /// Time at which the request was read.
    began_ms: u64,
    /// Documents that are written, at most.
    documents_max: usize,
    /// True to go on after documents that another request has written.
    passes_conflicts: bool,
    /// True to show the writes at once.
    refreshes: bool,
}

/// Effect of each write.
enum EffectByQuery {
    Delete,
    /// The document is written again as it is.
    Rewrite,
    Copy(CopyTarget),
}

/// Documents that are found, and then written, together.
struct PageByQuery<'m> {
    hits_max: usize,
    /// True if parts of the documents are copied.
    reads_documents: bool,
    memory: &'m QueryMemory,
    hits: Vec<SearchHit>,
    bytes: usize,
    /// Place of the last document of a full page.
    last: Option<VisitCursor>,
}

impl HitSink for PageByQuery<'_> {
    fn add(&mut self, hit: SearchHit, at: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        kept_hits::take(self.memory, kept_hits::bytes_of(&hit))?;
        self.bytes += hit.stored.source.len();
        self.hits.push(hit);
        if self.hits.len() < self.hits_max && self.bytes < PAGE_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        self.last = at.place();
        Ok(ControlFlow::Break(()))
    }

    fn reads_documents(&self) -> bool {
        self.reads_documents
    }
}

/// Outcomes of the writes so far.
#[derive(Default)]
struct TallyByQuery {
    total: usize,
    created: usize,
    updated: usize,
    deleted: usize,
    noops: usize,
    batches: usize,
    conflicts: usize,
    failures: Vec<Value>,
    /// Highest status of a failure.
    status: Option<u16>,
    is_timed_out: bool,
}

/// `_delete_by_query`.
pub(crate) fn delete(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    if !object_of(&request.body)?.contains_key("query") && !parameters.has("q") {
        // A forgotten query must not remove all documents.
        return Err(Error::Validation(vec!["query is missing".to_owned()]));
    }
    in_place(service, request, parameters, expression, EffectByQuery::Delete)
}

/// `_update_by_query`: the documents are written again, by the mapping as it is now, and as a script changes
/// them.
pub(crate) fn update(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    in_place(service, request, parameters, expression, EffectByQuery::Rewrite)
}

/// Changes the documents of indexes themselves.
fn in_place(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
    effect: EffectByQuery,
) -> Result<ReplyContent, Error> {
    check_pipeline(service, parameters.get("pipeline"))?;
    let mut body = object_of(&request.body)?;
    let options = OptionsByQuery::take(&mut body, parameters)?;
    let takes_script = matches!(effect, EffectByQuery::Rewrite);
    let script = if takes_script { body.remove("script") } else { None };
    let script = script.map(|script| UpdateScript::parse(&script)).transpose()?;
    check_members(&body, "the body", &["query", "slice"])?;
    let (indexes, search) = search_of(service, body, parameters, expression)?;
    if let Some(index) = indexes.iter().find(|index| index.is_log()) {
        return Err(Error::IllegalArgument(format!(
            "the documents of [{}] are never changed: those of a data stream in logs mode are dropped by its lifecycle",
            index.entry.name
        )));
    }
    indexes.iter().try_for_each(OpenIndex::check_writable)?;
    WritesByQuery { service, indexes, search, effect, script, options }.run()
}

/// `_reindex`: copies of documents in another index.
pub(crate) fn reindex(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
) -> Result<ReplyContent, Error> {
    let mut body = object_of(&request.body)?;
    let options = OptionsByQuery::take(&mut body, parameters)?;
    let mut part = |name: &str| match body.remove(name) {
        Some(Value::Object(members)) => Ok(members),
        _ => Err(Error::Validation(vec![format!("[{name}] is missing: it is an object with an [index]")])),
    };
    let (mut source, dest) = (part("source")?, part("dest")?);
    let script = body.remove("script").map(|script| UpdateScript::parse(&script)).transpose()?;
    check_members(&body, "the body", &[])?;
    let names = source.remove("index").map(|names| names_of(&names).join(",")).unwrap_or_default();
    if names.is_empty() {
        return Err(Error::Validation(vec![
            "use _all if you really want to copy from all indexes".to_owned(),
        ]));
    }
    let shown = source.remove("_source").map(|shown| SourceFilter::of_value(&shown)).transpose()?;
    if shown.as_ref().is_some_and(|shown| shown.is_off) {
        return Err(Error::IllegalArgument("[_source] cannot be false: it is what is copied".to_owned()));
    }
    // Size of the batches.
    source.remove("size");
    check_members(&source, "[source]", &["query", "slice"])?;
    let target = CopyTarget::parse(service, dest, shown.unwrap_or_default())?;
    let (indexes, search) = search_of(service, source, &ElasticParameters::default(), &names)?;
    let effect = EffectByQuery::Copy(target);
    WritesByQuery { service, indexes, search, effect, script, options }.run()
}

/// Refuses options for tasks that go on by themselves.
fn check_options(parameters: &ElasticParameters) -> Result<(), Error> {
    if parameters.flag("wait_for_completion")? == Some(false) {
        return Err(Error::unsupported("a task that goes on after its answer (wait_for_completion=false)"));
    }
    match parameters.get("requests_per_second") {
        None | Some("-1" | "-1.0") => Ok(()),
        Some(_) => Err(Error::unsupported("a limit of requests_per_second")),
    }
}

/// Refuses other members than these.
fn check_members(members: &Map<String, Value>, place: &str, known: &[&str]) -> Result<(), Error> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(other) => Err(Error::unsupported(&format!("[{other}] in {place}"))),
        None => Ok(()),
    }
}

impl OptionsByQuery {
    /// Takes the options from a request.
    fn take(body: &mut Map<String, Value>, parameters: &ElasticParameters) -> Result<Self, Error> {
        check_options(parameters)?;
        Ok(OptionsByQuery {
            began_ms: now_ms(),
            documents_max: documents_max_of(body, parameters)?,
            passes_conflicts: conflicts_of(body, parameters)?,
            refreshes: parameters.flag("refresh")?.unwrap_or(false),
        })
    }
}

/// Takes the maximum number of documents from a request.
fn documents_max_of(body: &mut Map<String, Value>, parameters: &ElasticParameters) -> Result<usize, Error> {
    let of_body = body.remove("max_docs").map(|number| number.as_i64().unwrap_or(0));
    match parameters.integer("max_docs")?.or(of_body) {
        None => Ok(usize::MAX),
        Some(number) if number > 0 => Ok(number as usize),
        Some(number) => {
            Err(Error::IllegalArgument(format!("[max_docs] must be greater than 0, found [{number}]")))
        }
    }
}

/// Takes from a request whether it goes on after conflicts.
fn conflicts_of(body: &mut Map<String, Value>, parameters: &ElasticParameters) -> Result<bool, Error> {
    let of_body = body.remove("conflicts").map(|conflicts| text_of(&conflicts));
    match parameters.get("conflicts").or(of_body.as_deref()) {
        None | Some("abort") => Ok(false),
        Some("proceed") => Ok(true),
        Some(other) => Err(Error::IllegalArgument(format!(
            "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
        ))),
    }
}

/// Indexes that an expression names, and the search of their documents.
fn search_of(
    service: &ElasticService,
    mut body: Map<String, Value>,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<(Vec<OpenIndex>, HitSearch), Error> {
    service.caller.check_read()?;
    let _values = lookups::resolve(service, &mut body)?;
    let mut search = HitSearch::parse(&body, parameters, false)?;
    // `timeout` is that of each write.
    let time = parameters.get("search_timeout").map(|text| ("timeout", text.to_owned()));
    search.limit = ScanLimit::parse(&Map::new(), &ElasticParameters::given(time))?;
    let expression = &*with_dates(expression)?;
    let indexes = indexes_of(service, parameters, expression)?;
    let options = NameOptions::LENIENT.with(parameters)?;
    alias_scope::restrict(&*service.catalog.read()?, expression, options, &indexes, &mut search)?;
    search.check_limits(&indexes)?;
    Ok((indexes, search))
}

impl EffectByQuery {
    /// Name of the index that a document is written to.
    fn index<'e>(&'e self, hit: &'e SearchHit) -> &'e str {
        match self {
            EffectByQuery::Delete | EffectByQuery::Rewrite => &hit.index.entry.name,
            EffectByQuery::Copy(target) => &target.index,
        }
    }

    /// Part of a document that is written, if it is not all of it.
    fn part(&self) -> Option<&SourceFilter> {
        match self {
            EffectByQuery::Copy(target) if !target.shown.is_whole() => Some(&target.shown),
            _ => None,
        }
    }

    /// The write of a document that has this text, or none if it is to be removed.
    fn write(&self, hit: &SearchHit, text: Option<Arc<str>>) -> SingleWrite {
        let stored = &hit.stored;
        let routing = stored.routing.clone();
        let unchanged = WriteConditions {
            if_seq_no: Some(stored.seq_no),
            if_primary_term: Some(1),
            ..WriteConditions::default()
        };
        let (action, conditions, routing) = match (self, &text) {
            (EffectByQuery::Delete | EffectByQuery::Rewrite, None) => {
                (WriteAction::Delete, unchanged, routing)
            }
            (EffectByQuery::Delete | EffectByQuery::Rewrite, Some(_)) => {
                (WriteAction::Index, unchanged, routing)
            }
            (EffectByQuery::Copy(target), None) => {
                (WriteAction::Delete, WriteConditions::default(), target.routing_of(routing))
            }
            (EffectByQuery::Copy(target), Some(_)) => {
                let version = (target.rule != VersionRule::Internal).then_some(stored.version);
                let conditions = WriteConditions { version, rule: target.rule, ..WriteConditions::default() };
                (target.action, conditions, target.routing_of(routing))
            }
        };
        SingleWrite {
            action,
            id: Some(stored.id.clone()),
            routing,
            conditions,
            source: text.unwrap_or_else(|| Arc::from("")),
            update: None,
            shown: None,
            answer: None,
            size: None,
        }
    }
}

impl WritesByQuery<'_> {
    /// Writes all documents, page by page, and answers the request. After a failure no page follows.
    ///
    /// # Errors
    /// The first page cannot be read, or its documents would be copied to their own index.
    fn run(&self) -> Result<ReplyContent, Error> {
        let mut tally = TallyByQuery::default();
        let mut placer = WritePlacer::new(self.service);
        let mut after = None;
        while tally.total < self.options.documents_max && tally.failures.is_empty() {
            let memory = self.service.node.query_memory();
            let hits_max = PAGE.min(self.options.documents_max - tally.total);
            // Documents that were found before the wait would be kept for it, and could be others by its end.
            let is_allowed = match self.effect {
                // Removals make room, and wait for nothing.
                EffectByQuery::Delete => Ok(()),
                EffectByQuery::Rewrite | EffectByQuery::Copy(_) => await_allowance(self.service),
            };
            let found = is_allowed.and_then(|()| self.page(after.as_ref(), hits_max, &memory));
            let (page, is_timed_out) = match found {
                Ok(found) => found,
                Err(error) if tally.total == 0 => return Err(error),
                Err(error) => {
                    tally.fail(json!({ "reason": error.object() }), &error);
                    break;
                }
            };
            if !page.hits.is_empty() {
                tally.batches += 1;
            }
            let mut left = page.hits.as_slice();
            while !left.is_empty() {
                // The disk is waited for, and other nodes.
                let results = pool::wait_without_slot(|| self.write(&mut placer, left))?;
                let (written, others) = left.split_at(results.len());
                self.count(&mut tally, written, results);
                left = others;
            }
            tally.is_timed_out = is_timed_out && page.last.is_none();
            after = page.last;
            if after.is_none() {
                break;
            }
        }
        Ok(tally.reply(self.options.began_ms))
    }

    /// Finds the next documents, and returns true with them if the time was over before.
    fn page<'m>(
        &self,
        after: Option<&VisitCursor>,
        hits_max: usize,
        memory: &'m QueryMemory,
    ) -> Result<(PageByQuery<'m>, bool), Error> {
        kept_hits::take(memory, self.search.pattern_bytes())?;
        let reads_documents = self.script.is_some() || self.effect.part().is_some();
        let mut page =
            PageByQuery { hits_max, reads_documents, memory, hits: Vec::new(), bytes: 0, last: None };
        let mut progress = ScanProgress::begin(&self.search.limit, &self.service.gone);
        let scan = HitScan {
            service: self.service,
            query: &self.search.query,
            minimum_score: None,
            request: &self.search,
            after,
            sees_hidden: true,
            is_backwards: false,
        };
        for (ordinal, index) in self.indexes.iter().enumerate() {
            scan.visit(ordinal, index, &mut progress, &mut page)?;
            if page.last.is_some() {
                break;
            }
        }
        Ok((page, progress.is_timed_out))
    }

    /// The write of a document; `None` if it stays as it is.
    ///
    /// # Errors
    /// Its text cannot be written, or the script fails.
    fn write_of(&self, hit: &SearchHit) -> Result<Option<SingleWrite>, Error> {
        let text = |document: Map<String, Value>| -> Option<Arc<str>> {
            Some(Arc::from(sent_json(&Value::Object(document))))
        };
        let text = match (&self.effect, &self.script, self.effect.part()) {
            (EffectByQuery::Delete, ..) => None,
            (_, None, None) => Some(hit.stored.source.text()?),
            (_, None, Some(part)) => text(part.apply(&hit.document)),
            (_, Some(script), part) => {
                let document = part.map_or_else(|| hit.document.clone(), |part| part.apply(&hit.document));
                let about = ScriptedDocument {
                    index: &hit.index.entry.name,
                    id: &hit.stored.id,
                    routing: hit.stored.routing.as_deref(),
                    version: Some(hit.stored.version),
                };
                match script.run(document, about)? {
                    UpdateEffect::Noop => return Ok(None),
                    UpdateEffect::Remove => None,
                    UpdateEffect::Write(document) => text(document),
                }
            }
        };
        Ok(Some(self.effect.write(hit, text)))
    }

    /// Writes the first of some documents, as many as are not too long together after a script, and waits
    /// until all writes are durable or refused; the results have their order. A document that stays as it is
    /// has none.
    ///
    /// # Errors
    /// They would be copied to their own index. Nothing is written then.
    fn write(
        &self,
        placer: &mut WritePlacer<'_>,
        hits: &[SearchHit],
    ) -> Result<Vec<Result<Option<WriteResult>, Error>>, Error> {
        let (mut placed, mut settled, mut bytes) = (Vec::with_capacity(hits.len()), Vec::new(), 0);
        for (at, hit) in hits.iter().enumerate() {
            if self.script.is_some() && bytes >= PAGE_BYTES {
                break;
            }
            let place = match self.write_of(hit) {
                Ok(None) => Ok(None),
                Ok(Some(write)) => {
                    placer.place(self.effect.index(hit), write, NameDemand::default()).map(Some)
                }
                Err(error) => Err(error),
            };
            match place {
                Ok(Some(place)) => {
                    bytes += place.write.bytes();
                    placed.push(place);
                }
                Ok(None) => settled.push((at, Ok(None))),
                Err(error) => settled.push((at, Err(error))),
            }
        }
        if let (EffectByQuery::Copy(_), Some(place)) = (&self.effect, placed.first()) {
            let name = &place.index.entry.name;
            if self.indexes.iter().any(|index| index.entry.name == *name) {
                let reason = format!("reindex cannot write into an index its reading from [{name}]");
                return Err(Error::Validation(vec![reason]));
            }
        }
        if let Some(rewrites) = self.service.caller.rewrites(None) {
            rewrites.count(placed.iter().map(|place| place.write.bytes()).sum());
        }
        let written = writing::write_all(self.service, &placed).into_iter();
        let mut results: Vec<_> = written.map(|result| result.map(Some)).collect();
        if self.options.refreshes {
            placed.iter().for_each(|place| place.index.live.refresh());
        }
        for (at, result) in settled {
            results.insert(at, result);
        }
        Ok(results)
    }

    /// Counts the results of the writes of a page.
    fn count(
        &self,
        tally: &mut TallyByQuery,
        hits: &[SearchHit],
        results: Vec<Result<Option<WriteResult>, Error>>,
    ) {
        tally.total += hits.len();
        for (hit, result) in hits.iter().zip(results) {
            match result {
                Ok(written) => match written.map(|written| written.result) {
                    Some("created") => tally.created += 1,
                    Some("updated") => tally.updated += 1,
                    Some("deleted") => tally.deleted += 1,
                    _ => tally.noops += 1,
                },
                Err(error) => {
                    let is_conflict = matches!(error, Error::VersionConflict { .. });
                    tally.conflicts += usize::from(is_conflict);
                    if !is_conflict || !self.options.passes_conflicts {
                        let (index, id) = (self.effect.index(hit), &hit.stored.id);
                        tally.fail(json!({ "index": index, "id": id, "cause": error.object() }), &error);
                    }
                }
            }
        }
    }
}

impl TallyByQuery {
    /// Adds a failure.
    fn fail(&mut self, mut failure: Value, error: &Error) {
        let status = error.status();
        failure["status"] = status.into();
        self.failures.push(failure);
        self.status = self.status.max(Some(status));
    }

    fn reply(self, began_ms: u64) -> ReplyContent {
        let answer = json!({
            "took": now_ms().saturating_sub(began_ms),
            "timed_out": self.is_timed_out,
            "total": self.total,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "batches": self.batches,
            "version_conflicts": self.conflicts,
            "noops": self.noops,
            "retries": { "bulk": 0, "search": 0 },
            "throttled_millis": 0,
            "requests_per_second": -1.0,
            "throttled_until_millis": 0,
            "failures": self.failures,
        });
        ReplyContent::Json(self.status.unwrap_or(200), answer)
    }
}
