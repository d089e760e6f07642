//! A search as it is asked for: its body and its parameters.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::aggregations::{self, RequestedAggregation};
use crate::catalog::OpenIndex;
use crate::collapse::HitCollapse;
use crate::highlighting::HitHighlighting;
use crate::hit_form::HitForm;
use crate::hybrid::HybridFusion;
use crate::kept_hits;
use crate::mapping::check_doc_values;
use crate::query::{self, SearchQuery};
use crate::query_nearest;
use crate::rank_fusion::RankFusion;
use crate::request::ElasticParameters;
use crate::rescoring::HitRescoring;
use crate::scan_limit::ScanLimit;
use crate::slices::HitSlice;
use crate::sorting::HitOrder;

/// Setting with the number of hits that a page of an index can reach.
const WINDOW_LIMIT: &str = "index.max_result_window";

/// Setting with the number of hits of an index that can be scored again.
const RESCORE_LIMIT: &str = "index.max_rescore_window";

/// Hits that a page can reach in an index whose settings name no number.
const WINDOW_BY_DEFAULT: u64 = 10_000;

/// A search as it was asked for.
pub(crate) struct HitSearch {
    pub(crate) query: SearchQuery,
    pub(crate) post_filter: Option<SearchQuery>,
    pub(crate) order: Option<HitOrder>,
    pub(crate) from: usize,
    pub(crate) size: usize,
    pub(crate) after: Option<Vec<Value>>,
    pub(crate) aggregations: Vec<RequestedAggregation>,
    pub(crate) form: HitForm,
    pub(crate) highlighting: Option<HitHighlighting>,
    pub(crate) routing: Option<Vec<String>>,
    /// Routing values by indexes, of the aliases that name them. They count if the search has none.
    pub(crate) alias_routing: BTreeMap<String, Vec<String>>,
    pub(crate) collapse: Option<HitCollapse>,
    /// Queries that score the first hits again, one after the other.
    pub(crate) rescoring: Vec<HitRescoring>,
    /// Fusion of the results of its queries, if their scores are not added.
    pub(crate) fusion: Option<RankFusion>,
    /// Way in which the results of a `hybrid` query are joined.
    pub(crate) hybrid: Option<HybridFusion>,
    /// True if hits show how they were scored.
    pub(crate) explains: bool,
    pub(crate) slice: Option<HitSlice>,
    /// Sequence number of the first write that does not count, for each index, at a point in time.
    pub(crate) seq_nos_end: Option<Vec<i64>>,
    /// True for the pages of a scroll.
    is_scroll: bool,
    pub(crate) minimum_score: Option<f64>,
    pub(crate) tracks_scores: bool,
    pub(crate) limit: ScanLimit,
    /// Factors of scores by the names of indexes; the first that fits counts.
    pub(crate) boosts: Vec<(String, f64)>,
    /// Bytes that the search takes without its aggregations, about.
    pub(crate) bytes: usize,
}

/// Members of a body that nothing here depends on: groups of statistics, the choice of a copy, and steps of
/// the merge of shards.
const WITHOUT_EFFECT: [&str; 3] = ["stats", "preference", "batched_reduce_size"];

/// Members of a body that are read elsewhere.
const READ_ELSEWHERE: [&str; 5] =
    ["knn", "query", "timeout", "terminate_after", "allow_partial_search_results"];

/// Members of a body that are not supported, and may be there if they ask for nothing.
const ONLY_EMPTY: [&str; 5] = ["ext", "profile", "runtime_mappings", "script_fields", "suggest"];

/// Setting with the number of fields from values that a search of an index may ask for.
const DOC_FIELDS_LIMIT: &str = "index.max_docvalue_fields_search";

/// Fields from values in a search of an index whose settings name no number.
const DOC_FIELDS_BY_DEFAULT: u64 = 100;

impl HitSearch {
    /// Parses the body and the parameters of a search.
    pub(crate) fn parse(
        body: &Map<String, Value>,
        parameters: &ElasticParameters,
        is_scroll: bool,
    ) -> Result<Self, Error> {
        let has_query = body.contains_key("query") || parameters.has("q");
        let query = query::of_request(body, parameters)?;
        let query = match body.get("knn") {
            None => query,
            Some(nearest) => query_nearest::beside(has_query.then_some(query), nearest)?,
        };
        let mut request = HitSearch {
            query,
            post_filter: None,
            order: None,
            from: 0,
            size: 10,
            after: None,
            aggregations: Vec::new(),
            form: HitForm::default(),
            highlighting: None,
            routing: parameters.list("routing"),
            alias_routing: BTreeMap::new(),
            slice: None,
            seq_nos_end: None,
            is_scroll,
            collapse: None,
            rescoring: Vec::new(),
            fusion: None,
            hybrid: None,
            explains: parameters.flag("explain")?.unwrap_or(false),
            minimum_score: None,
            tracks_scores: parameters.flag("track_scores")?.unwrap_or(false),
            limit: ScanLimit::parse(body, parameters)?,
            boosts: Vec::new(),
            bytes: size_of::<HitSearch>() + kept_hits::members_bytes(body),
        };
        for (name, value) in body {
            request.member(name, value)?;
        }
        let number = |name: &str| -> Result<Option<usize>, Error> {
            match parameters.integer(name)? {
                Some(number) if number < 0 => Err(Error::IllegalArgument(format!(
                    "[{name}] parameter cannot be negative, found [{number}]"
                ))),
                number => Ok(number.map(|number| number as usize)),
            }
        };
        request.from = number("from")?.unwrap_or(request.from);
        request.size = number("size")?.unwrap_or(request.size);
        if let Some(sort) = parameters.get("sort") {
            let fields = sort.split(',').map(|one| match one.split_once(':') {
                Some((field, order)) => json!({ field: order }),
                None => json!(one),
            });
            request.order = HitOrder::parse(&Value::Array(fields.collect()))?;
        }
        request.form.parameters(parameters)?;
        if !request.rescoring.is_empty() && request.order.as_ref().is_some_and(HitOrder::is_score_alone) {
            // It is the order without one.
            request.order = None;
        }
        request.check_page(is_scroll)?;
        let vectors = body.get("knn").map_or(0, |nearest| nearest.as_array().map_or(1, Vec::len));
        request.check_fusion(vectors > 0 && vectors + usize::from(has_query) > 1)?;
        Ok(request)
    }

    /// Routing values of the documents that are searched in an index.
    pub(crate) fn routing_of(&self, index: &str) -> Option<&[String]> {
        self.routing.as_deref().or_else(|| self.alias_routing.get(index).map(Vec::as_slice))
    }

    /// Bytes that the regular expressions of its queries take, about, without those of aggregations.
    pub(crate) fn pattern_bytes(&self) -> usize {
        self.query.pattern_bytes()
            + self.post_filter.as_ref().map_or(0, SearchQuery::pattern_bytes)
            + self.highlighting.as_ref().map_or(0, HitHighlighting::pattern_bytes)
            + self.rescoring.iter().map(|rescoring| rescoring.query.pattern_bytes()).sum::<usize>()
    }

    fn member(&mut self, name: &str, value: &Value) -> Result<(), Error> {
        let whole = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let number = |value: &Value| match whole(value) {
            Some(number) if number >= 0 => Ok(number as usize),
            Some(number) => Err(Error::IllegalArgument(format!(
                "[{name}] parameter cannot be negative, found [{number}]"
            ))),
            None => Err(Error::Parsing(format!("[{name}] must be a whole number"))),
        };
        match name {
            "track_scores" => self.tracks_scores |= *value == Value::Bool(true),
            "rank" => self.fusion = Some(RankFusion::parse(value)?),
            "rescore" => self.rescoring = HitRescoring::parse_all(value)?,
            "explain" => match value {
                Value::Bool(explains) => self.explains |= explains,
                other => {
                    return Err(Error::Parsing(format!("[explain] is true or false, and not [{other}]")));
                }
            },
            "collapse" => self.collapse = Some(HitCollapse::parse(value)?),
            "post_filter" => self.post_filter = Some(query::parse(value)?),
            "from" => self.from = number(value)?,
            "size" => self.size = number(value)?,
            "sort" => self.order = HitOrder::parse(value)?,
            "search_after" => {
                let Value::Array(after) = value else {
                    return Err(Error::Parsing("[search_after] must be an array".to_owned()));
                };
                self.after = Some(after.clone());
            }
            "aggs" | "aggregations" => {
                self.bytes -= kept_hits::bytes_inside(value);
                self.aggregations = aggregations::parse(value)?;
            }
            "highlight" => self.highlighting = Some(HitHighlighting::parse(value)?),
            "indices_boost" => self.boosts = boosts_of(value)?,
            "min_score" => self.minimum_score = value.as_f64(),
            "track_total_hits" => match value {
                Value::Bool(tracks) => self.form.has_no_total = !tracks,
                limit => match (limit.as_u64(), limit.as_i64()) {
                    (Some(limit), _) => self.form.total_limit = Some(limit),
                    (None, Some(-1)) => self.form.has_no_total = true,
                    (None, _) => {
                        return Err(Error::IllegalArgument(format!(
                            "[track_total_hits] parameter must be positive or equals to -1, got {limit}"
                        )));
                    }
                },
            },
            "slice" => self.slice = Some(HitSlice::parse(value)?),
            // Interfaces with people send them without anything in them.
            absent if ONLY_EMPTY.contains(&absent) => {
                let is_empty = value.as_object().is_some_and(Map::is_empty);
                if !is_empty && !matches!(value, Value::Null | Value::Bool(false)) {
                    return Err(Error::unsupported(&format!("[{absent}] in a search")));
                }
            }
            _ if self.form.member(name, value)? => {}
            known if WITHOUT_EFFECT.contains(&known) || READ_ELSEWHERE.contains(&known) => {}
            other => return Err(Error::unknown(&format!("unknown key [{other}] in a search"))),
        }
        Ok(())
    }

    /// Checks the search by the settings and mappings of its indexes.
    ///
    /// # Errors
    /// It has more slices, hits or fields from values than one of them allows, or a field that the mapping
    /// says not to be for that.
    pub(crate) fn check_limits(&self, indexes: &[OpenIndex]) -> Result<(), Error> {
        self.slice.map_or(Ok(()), |slice| slice.check(indexes))?;
        for index in indexes {
            let mappings = &index.entry.mappings;
            let mut queries = self.post_filter.iter().chain(self.rescoring.iter().map(|one| &one.query));
            queries.try_for_each(|query| query.check_fields(index))?;
            self.form.check_formats(mappings)?;
            let mut sorted = self.order.iter().flat_map(HitOrder::fields);
            sorted.try_for_each(|field| check_doc_values(mappings, field))?;
            self.order.iter().try_for_each(|order| order.check(index))?;
        }
        self.order.iter().try_for_each(|order| order.check_mapped(indexes))?;
        self.check_window(indexes)?;
        self.check_rescoring(indexes)?;
        let requested = self.form.doc_fields.len() as u64;
        let limits = indexes.iter().map(|index| index.number_of(DOC_FIELDS_LIMIT, DOC_FIELDS_BY_DEFAULT));
        match limits.min().unwrap_or(DOC_FIELDS_BY_DEFAULT) {
            limit if requested > limit => Err(Error::IllegalArgument(format!(
                "Trying to retrieve too many docvalue_fields. Must be less than or equal to: [{limit}] but was [{requested}]. This limit can \
                 be set by changing the [{DOC_FIELDS_LIMIT}] index level setting."
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the page is one that the settings of the indexes allow. A scroll has no `from`.
    fn check_window(&self, indexes: &[OpenIndex]) -> Result<(), Error> {
        let limits = indexes.iter().map(|index| index.number_of(WINDOW_LIMIT, WINDOW_BY_DEFAULT));
        let limit = limits.min().unwrap_or(WINDOW_BY_DEFAULT);
        let reach = self.from.saturating_add(self.size) as u64;
        if reach <= limit {
            return Ok(());
        }
        Err(Error::IllegalArgument(match self.is_scroll {
            true => format!(
                "Batch size is too large, size must be less than or equal to: [{limit}] but was [{reach}]. Scroll batch sizes cost as much \
                 memory as result windows so they are controlled by the [{WINDOW_LIMIT}] index level setting."
            ),
            false => format!(
                "Result window is too large, from + size must be less than or equal to: [{limit}] but was [{reach}]. See the scroll api for \
                 a more efficient way to request large data sets. This limit can be set by changing the [{WINDOW_LIMIT}] index level \
                 setting."
            ),
        }))
    }

    fn check_rescoring(&self, indexes: &[OpenIndex]) -> Result<(), Error> {
        let of_page = |index: &OpenIndex| index.number_of(WINDOW_LIMIT, WINDOW_BY_DEFAULT);
        let limits = indexes.iter().map(|index| index.number_of(RESCORE_LIMIT, of_page(index)));
        let limit = limits.min().unwrap_or(WINDOW_BY_DEFAULT);
        match self.rescoring.iter().map(|rescoring| rescoring.window).find(|window| *window as u64 > limit) {
            Some(window) => Err(Error::IllegalArgument(format!(
                "Rescore window [{window}] is too large. It must be less than [{limit}]. This limit can be set by changing the \
                 [{RESCORE_LIMIT}] index level setting."
            ))),
            None => Ok(()),
        }
    }

    /// The search with the results of its `hybrid` query joined.
    ///
    /// # Errors
    /// It has members that need another order, or scores of another kind.
    pub(crate) fn with_hybrid(mut self, hybrid: HybridFusion) -> Result<Self, Error> {
        let beside = [
            ("scroll", self.is_scroll),
            ("sort", self.order.is_some()),
            ("rescore", !self.rescoring.is_empty()),
            ("rank", self.fusion.is_some()),
        ];
        if let Some((other, _)) = beside.iter().find(|(_, has)| *has) {
            return Err(Error::Validation(vec![format!("[hybrid] cannot be used with [{other}]")]));
        }
        self.hybrid = Some(hybrid);
        Ok(self)
    }

    /// Checks that a search whose results are joined by their ranks has several queries, and no other order.
    fn check_fusion(&self, has_several: bool) -> Result<(), Error> {
        let Some(fusion) = self.fusion else { return Ok(()) };
        fusion.window(self.size)?;
        let beside = [
            ("scroll", self.is_scroll),
            ("sort", self.order.is_some()),
            ("rescore", !self.rescoring.is_empty()),
        ];
        if let Some((other, _)) = beside.iter().find(|(_, has)| *has) {
            return Err(Error::Validation(vec![format!("[rank] cannot be used with [{other}]")]));
        }
        if has_several {
            return Ok(());
        }
        Err(Error::Validation(vec![
            "[rank] requires a minimum of [2] result sets: a query and [knn], or several [knn]".to_owned(),
        ]))
    }

    /// Number of hits that the search keeps: those of the page, and those that are scored again for it.
    pub(crate) fn reach(&self) -> usize {
        let end = self.from.saturating_add(self.size);
        match end {
            0 => 0,
            end => self.rescoring.iter().map(|rescoring| rescoring.window).fold(end, usize::max),
        }
    }

    fn check_page(&self, is_scroll: bool) -> Result<(), Error> {
        let beside =
            [("scroll", is_scroll), ("collapse", self.collapse.is_some()), ("sort", self.order.is_some())];
        if let Some((other, _)) = beside.iter().find(|(_, has)| *has && !self.rescoring.is_empty()) {
            return Err(match *other {
                "collapse" => {
                    Error::IllegalArgument("cannot use `collapse` in conjunction with `rescore`".to_owned())
                }
                "scroll" => {
                    Error::Validation(vec!["using [rescore] is not allowed in a scroll context".to_owned()])
                }
                _ => Error::IllegalArgument(
                    "Cannot use [sort] option in conjunction with [rescore].".to_owned(),
                ),
            });
        }
        if self.collapse.is_some() && is_scroll {
            return Err(Error::IllegalArgument("cannot use `collapse` in a scroll context".to_owned()));
        }
        if self.collapse.is_some() && self.after.is_some() {
            return Err(Error::IllegalArgument(
                "cannot use `collapse` in conjunction with `search_after`".to_owned(),
            ));
        }
        if is_scroll && self.after.is_some() {
            return Err(Error::Validation(vec![
                "`search_after` cannot be used in a scroll context; the next page is that of the [scroll_id]"
                    .to_owned(),
            ]));
        }
        if is_scroll && self.size == 0 {
            return Err(Error::Validation(vec!["[size] cannot be [0] in a scroll context".to_owned()]));
        }
        if is_scroll && self.from > 0 {
            return Err(Error::Validation(vec![
                "using [from] is not allowed in a scroll context".to_owned(),
            ]));
        }
        if self.after.is_some() && self.order.is_none() {
            // Each page would be the first.
            return Err(Error::IllegalArgument(
                "Sort must contain at least one field: `search_after` has the values of `sort`".to_owned(),
            ));
        }
        if self.after.is_some() && self.from > 0 {
            return Err(Error::Validation(vec![
                "`from` parameter must be set to 0 when `search_after` is used".to_owned(),
            ]));
        }
        Ok(())
    }
}

/// Factors of scores by patterns of indexes.
fn boosts_of(value: &Value) -> Result<Vec<(String, f64)>, Error> {
    let one = |members: &Map<String, Value>| -> Result<Vec<(String, f64)>, Error> {
        let factor = |(name, factor): (&String, &Value)| match factor.as_f64() {
            Some(factor) => Ok((name.clone(), factor)),
            None => Err(Error::Parsing(format!("[indices_boost] of [{name}] must be a number"))),
        };
        members.iter().map(factor).collect()
    };
    match value {
        Value::Object(members) => one(members),
        Value::Array(all) => {
            let all = all.iter().filter_map(Value::as_object).map(one);
            Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => Err(Error::Parsing("[indices_boost] must be an array of objects".to_owned())),
    }
}
