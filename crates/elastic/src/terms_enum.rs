//! `_terms_enum`: values of a field that begin with a text, in their order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use crate::catalog::OpenIndex;
use crate::fields::all_at;
use crate::hit_scan::{HitScan, HitSink, VisitedDocument};
use crate::mapping::{is_searched, type_of};
use crate::names::NameOptions;
use crate::query::text_of;
use crate::read_fields::ReadFields;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::{ScanLimit, ScanProgress};
use crate::search::{SearchHit, indexes_of};
use crate::search_request::HitSearch;
use crate::service::ElasticService;
use crate::{Error, alias_scope, kept_hits, lookups};

/// Values of an answer, by default and at most.
const SIZE_BY_DEFAULT: u64 = 10;
const SIZE_MAX: u64 = 10_000;

/// Types with values that are listed; fields of other types have none.
const LISTED_TYPES: [&str; 8] = [
    "constant_keyword",
    "counted_keyword",
    "flat_object",
    "flattened",
    "ip",
    "keyword",
    "version",
    "wildcard",
];

/// Values that are asked for.
struct EnumeratedTerms {
    field: String,
    /// Their beginning, in small letters if case does not count.
    begin: String,
    ignores_case: bool,
    /// Value that all of them come after.
    after: Option<String>,
    count: usize,
}

impl EnumeratedTerms {
    /// Takes the members from a request.
    ///
    /// # Errors
    /// The field is missing, or a member is malformed.
    fn take(body: &mut Map<String, Value>) -> Result<Self, Error> {
        let missing = || Error::Validation(vec!["field cannot be null".to_owned()]);
        let field = body.remove("field").filter(|value| !value.is_null());
        let field = field.as_ref().map(text_of).ok_or_else(missing)?;
        let ignores_case = match body.remove("case_insensitive") {
            None => false,
            Some(Value::Bool(ignores_case)) => ignores_case,
            Some(other) => {
                return Err(Error::Parsing(format!(
                    "[case_insensitive] is true or false, and not [{other}]"
                )));
            }
        };
        let size = body.remove("size").map_or(Some(SIZE_BY_DEFAULT), |size| size.as_u64());
        let size = size.filter(|size| (1..=SIZE_MAX).contains(size)).ok_or_else(|| {
            Error::IllegalArgument(format!("[size] of _terms_enum is a whole number from 1 to {SIZE_MAX}"))
        })?;
        let mut text = |name: &str| body.remove(name).filter(|value| !value.is_null()).as_ref().map(text_of);
        let (begin, after) = (text("string").unwrap_or_default(), text("search_after"));
        let begin = if ignores_case { begin.to_lowercase() } else { begin };
        Ok(EnumeratedTerms { field, begin, ignores_case, after, count: size as usize })
    }

    /// True if a value is one of those that are asked for.
    fn has(&self, term: &str) -> bool {
        let begins = match self.ignores_case {
            true => term.to_lowercase().starts_with(&self.begin),
            false => term.starts_with(&self.begin),
        };
        begins && self.after.as_deref().is_none_or(|after| term > after)
    }
}

/// The first values of those that were found.
struct FirstTerms<'w> {
    wanted: &'w EnumeratedTerms,
    memory: &'w QueryMemory,
    terms: BTreeSet<String>,
}

impl HitSink for FirstTerms<'_> {
    fn add(&mut self, hit: SearchHit, _: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        let Some((definition, source_path)) = hit.index.searched_at(&self.wanted.field) else {
            return Ok(ControlFlow::Continue(()));
        };
        if !LISTED_TYPES.contains(&type_of(definition)) {
            return Ok(ControlFlow::Continue(()));
        }
        for value in all_at(hit.searched_members(), &source_path) {
            if value.is_null() || value.is_object() || !is_searched(definition, value) {
                continue;
            }
            let term = text_of(value);
            let is_late =
                self.terms.len() >= self.wanted.count && self.terms.last().is_some_and(|last| *last <= term);
            if is_late || !self.wanted.has(&term) || self.terms.contains(&term) {
                continue;
            }
            kept_hits::take(self.memory, term.len() + size_of::<String>())?;
            self.terms.insert(term);
            if self.terms.len() > self.wanted.count
                && let Some(last) = self.terms.pop_last()
            {
                self.memory.give_back(last.len() + size_of::<String>());
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fields(&self, index: &OpenIndex) -> ReadFields {
        let mut fields = ReadFields::NONE;
        fields.add(&index.entry.mappings, &self.wanted.field);
        fields
    }
}

/// Answers `_terms_enum`.
pub(crate) fn terms_enum(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let mut body = object_of(&request.body)?;
    let wanted = EnumeratedTerms::take(&mut body)?;
    let mut of_search = Map::new();
    of_search.extend(body.remove("index_filter").map(|filter| ("query".to_owned(), filter)));
    let _values = lookups::resolve(service, &mut of_search)?;
    let mut search = HitSearch::parse(&of_search, &ElasticParameters::default(), false)?;
    // What was found by the end of the time is answered.
    search.limit = ScanLimit::parse(&body, &ElasticParameters::default())?;
    body.remove("timeout");
    if let Some(unknown) = body.keys().next() {
        return Err(Error::Parsing(format!("[terms_enum] unknown field [{unknown}]")));
    }
    let indexes = indexes_of(service, parameters, expression)?;
    let options = NameOptions::LENIENT.with(parameters)?;
    alias_scope::restrict(&*service.catalog.read()?, expression, options, &indexes, &mut search)?;
    search.check_limits(&indexes)?;
    let memory = service.node.query_memory();
    kept_hits::take(&memory, search.pattern_bytes())?;
    let mut first = FirstTerms { wanted: &wanted, memory: &memory, terms: BTreeSet::new() };
    let mut progress = ScanProgress::begin(&search.limit, &service.gone);
    let scan = HitScan {
        service,
        query: &search.query,
        minimum_score: None,
        request: &search,
        after: None,
        sees_hidden: false,
        is_backwards: false,
    };
    for (ordinal, index) in indexes.iter().enumerate() {
        scan.visit(ordinal, index, &mut progress, &mut first)?;
    }
    let (terms, count) = (first.terms, indexes.len());
    let answer = json!({
        "_shards": { "total": count, "successful": count, "failed": 0 },
        "terms": terms,
        "complete": !progress.is_timed_out,
    });
    kept_hits::take_answer(&service.answer_memory, &answer)?;
    ReplyContent::ok(answer)
}
