//! Queries as they are asked: the query language in JSON, parsed.

use std::cell::Cell;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::dates::zone_of;
use crate::evaluation::{number_of, words_of};
use crate::fields::names_of;
use crate::hit_form::InnerHits;
use crate::nested::{NestedQuery, NestedScores};
use crate::query_functions::FunctionQuery;
use crate::query_ranges::RangeRelation;
use crate::query_scope::ParseScope;
use crate::query_terms::{FuzzyTerms, TermPattern};
use crate::query_text::BoostedField;
use crate::unread::sent_json;
use crate::{query_members, query_text};

/// Clauses of a query, or terms of one.
pub(crate) const CLAUSES_MAX: usize = 65_536;

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SearchQuery {
    All,
    None,
    Ids(Vec<String>),
    /// Exact values of a field.
    Terms {
        field: String,
        values: Vec<Value>,
        ignores_case: bool,
    },
    /// Words of a text.
    Match {
        field: String,
        text: Value,
        options: MatchOptions,
    },
    /// Bounds of a field, as written.
    Range {
        field: String,
        bounds: RangeBounds,
    },
    Exists(String),
    Prefix {
        field: String,
        value: String,
        ignores_case: bool,
    },
    Wildcard {
        field: String,
        value: String,
        ignores_case: bool,
    },
    Regexp {
        field: String,
        pattern: TermPattern,
    },
    Fuzzy {
        field: String,
        value: String,
        fuzziness: FuzzyTerms,
    },
    Nested(NestedQuery),
    Bool(BoolQuery),
    /// The best of several.
    Best {
        queries: Vec<SearchQuery>,
        /// Share of the other scores that is added to the best.
        tie_breaker: f64,
    },
    /// A query whose scores are combined with others.
    Functions(Box<FunctionQuery>),
    /// One score for all that match.
    Constant(Box<SearchQuery>, f64),
    /// A query with a boost or a name.
    Named {
        query: Box<SearchQuery>,
        boost: f64,
        name: Option<String>,
    },
}

impl SearchQuery {
    /// True if all documents that match have one score.
    pub(crate) fn has_one_score(&self) -> bool {
        match self {
            SearchQuery::Match { .. }
            | SearchQuery::Nested(_)
            | SearchQuery::Best { .. }
            | SearchQuery::Functions(_) => false,
            SearchQuery::Named { query, .. } => query.has_one_score(),
            SearchQuery::Bool(query) => {
                query.should.is_empty() && query.must.iter().all(SearchQuery::has_one_score)
            }
            _ => true,
        }
    }
}

/// Options of a match.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MatchOptions {
    pub(crate) needs_all: bool,
    pub(crate) is_phrase: bool,
    /// True if the last word may go on.
    pub(crate) is_prefix: bool,
    pub(crate) slop: usize,
    pub(crate) minimum: Option<String>,
    pub(crate) fuzziness: Option<FuzzyTerms>,
    pub(crate) is_lenient: bool,
    pub(crate) analyzer: Option<String>,
    /// True if a text without words matches all documents.
    pub(crate) matches_without_words: bool,
}

/// Bounds of a range.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RangeBounds {
    pub(crate) from: Option<(Value, bool)>,
    pub(crate) to: Option<(Value, bool)>,
    pub(crate) format: Option<String>,
    /// Zone of dates without an offset; UTC by default.
    pub(crate) zone: Option<TimeZone>,
    /// Relation of the ranges of documents to this one.
    pub(crate) relation: RangeRelation,
}

/// Queries combined.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BoolQuery {
    pub(crate) must: Vec<SearchQuery>,
    pub(crate) filter: Vec<SearchQuery>,
    pub(crate) should: Vec<SearchQuery>,
    pub(crate) must_not: Vec<SearchQuery>,
    pub(crate) minimum: Option<String>,
}

/// Parses a query.
///
/// # Errors
/// It is malformed, or of a kind that there is not.
pub(crate) fn parse(value: &Value) -> Result<SearchQuery, Error> {
    parse_at(value, ParseScope::of(&Cell::new(0)))
}

/// Parses a query at a place in another one.
pub(crate) fn parse_at(value: &Value, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let Value::Object(object) = value else {
        return Err(Error::Parsing("[_na_] query malformed, must start with start_object".to_owned()));
    };
    let Some((kind, body)) = object.iter().next() else {
        return Err(Error::IllegalArgument("query malformed, empty clause found".to_owned()));
    };
    if object.len() > 1 {
        return Err(Error::Parsing(format!(
            "[{kind}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"
        )));
    }
    let parsed = by_kind(kind, body, scope)?;
    let members = body.as_object();
    // Some kinds have them beside the name of their field, or below it.
    let below = members.filter(|_| OF_ONE_FIELD.contains(&kind.as_str())).and_then(|members| {
        members.iter().find(|(name, _)| !["boost", "_name"].contains(&name.as_str()))?.1.as_object()
    });
    let given = |name: &str| [below, members].into_iter().flatten().find_map(|members| members.get(name));
    let boost = match given("boost") {
        None => None,
        Some(boost) => Some(number_of(boost).ok_or_else(|| {
            Error::Parsing(format!("[boost] of [{kind}] must be a number, and is [{}]", text_of(boost)))
        })?),
    };
    let name = given("_name").map(text_of);
    if boost.is_some() && kind != "constant_score" || name.is_some() {
        return Ok(SearchQuery::Named { query: Box::new(parsed), boost: boost.unwrap_or(1.0), name });
    }
    Ok(parsed)
}

/// Kinds of queries whose members stand below the name of a field.
const OF_ONE_FIELD: [&str; 11] = [
    "term",
    "terms",
    "match",
    "match_phrase",
    "match_phrase_prefix",
    "match_bool_prefix",
    "range",
    "prefix",
    "wildcard",
    "regexp",
    "fuzzy",
];

fn by_kind(kind: &str, body: &Value, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let members = |body: &Value| match body {
        Value::Object(members) => {
            if !OF_ONE_FIELD.contains(&kind) {
                query_members::check(kind, members)?;
            }
            Ok(members.clone())
        }
        _ => Err(Error::Parsing(format!("[{kind}] query malformed, no start_object after query name"))),
    };
    Ok(match kind {
        "match_all" => members(body).map(|_| SearchQuery::All)?,
        "match_none" => members(body).map(|_| SearchQuery::None)?,
        "ids" => {
            let members = members(body)?;
            let values = members.get("values").and_then(Value::as_array).cloned().unwrap_or_default();
            SearchQuery::Ids(values.iter().map(text_of).collect())
        }
        "term" => {
            let (field, value, rest) = field_of(kind, members(body)?, "value")?;
            if value.is_array() {
                return Err(Error::Parsing("[term] query does not support array of values".to_owned()));
            }
            SearchQuery::Terms { field, values: vec![value], ignores_case: ignores_case(&rest) }
        }
        "terms" => {
            let mut members = members(body)?;
            members.retain(|name, _| !["boost", "_name", "value_type"].contains(&name.as_str()));
            let mut members = members.into_iter();
            let (Some((field, values)), None) = (members.next(), members.next()) else {
                return Err(Error::Parsing(
                    "[terms] query requires a field name and no more than one".to_owned(),
                ));
            };
            let Value::Array(values) = values else {
                return Err(Error::unsupported("[terms] with values of another document"));
            };
            if values.len() > CLAUSES_MAX {
                return Err(Error::IllegalArgument(format!(
                    "The number of terms [{}] used in the Terms Query request has exceeded the allowed maximum of [{CLAUSES_MAX}]",
                    values.len()
                )));
            }
            SearchQuery::Terms { field, values, ignores_case: false }
        }
        "match" | "match_phrase" | "match_phrase_prefix" | "match_bool_prefix" => {
            let (field, text, rest) = field_of(kind, members(body)?, "query")?;
            let mut options = match_options(kind, &rest)?;
            options.is_phrase = kind.starts_with("match_phrase");
            options.is_prefix = kind.ends_with("_prefix");
            SearchQuery::Match { field, text, options }
        }
        "multi_match" => multi_match(&members(body)?)?,
        "range" => range(members(body)?)?,
        "exists" => {
            let members = members(body)?;
            match members.get("field").and_then(Value::as_str) {
                Some(field) => SearchQuery::Exists(field.to_owned()),
                None => return Err(Error::Parsing("[exists] must be provided with a [field]".to_owned())),
            }
        }
        "prefix" | "wildcard" | "regexp" => {
            let (field, value, rest) = field_of(kind, members(body)?, "value")?;
            let value = match rest.get("wildcard") {
                Some(wildcard) => text_of(wildcard),
                None => text_of(&value),
            };
            let ignores_case = ignores_case(&rest);
            match kind {
                "prefix" => SearchQuery::Prefix { field, value, ignores_case },
                "wildcard" => SearchQuery::Wildcard { field, value, ignores_case },
                _ => SearchQuery::Regexp { field, pattern: scope.pattern(&value, ignores_case)? },
            }
        }
        "fuzzy" => {
            let (field, value, rest) = field_of(kind, members(body)?, "value")?;
            let mut fuzziness = FuzzyTerms::parse(rest.get("fuzziness"))?;
            fuzziness.prefix_length = length_of("prefix_length", rest.get("prefix_length"))?;
            fuzziness.has_swaps = rest.get("transpositions") != Some(&Value::Bool(false));
            SearchQuery::Fuzzy { field, value: text_of(&value), fuzziness }
        }
        "nested" => nested(&members(body)?, scope)?,
        "bool" => bool_query(members(body)?, scope)?,
        "constant_score" => {
            let members = members(body)?;
            let Some(filter) = members.get("filter") else {
                return Err(Error::Parsing("[constant_score] requires a 'filter' element".to_owned()));
            };
            let boost = members.get("boost").and_then(Value::as_f64).unwrap_or(1.0);
            SearchQuery::Constant(Box::new(parse_at(filter, scope.deeper()?)?), boost)
        }
        "dis_max" => {
            let members = members(body)?;
            let queries = members.get("queries").map(|queries| clauses(queries, scope)).transpose()?;
            let tie_breaker = tie_breaker_of(&members, 0.0)?;
            SearchQuery::Best { queries: queries.unwrap_or_default(), tie_breaker }
        }
        "function_score" | "boosting" => {
            SearchQuery::Functions(Box::new(FunctionQuery::parse(kind, &members(body)?, scope)?))
        }
        "query_string" | "simple_query_string" => query_text::of_members(kind, &members(body)?)?,
        other => {
            return Err(Error::Parsing(format!("unknown query [{other}]")));
        }
    })
}

/// Text of a value.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => sent_json(other),
    }
}

fn is_and(operator: &str) -> bool {
    operator.eq_ignore_ascii_case("and")
}

fn ignores_case(members: &Map<String, Value>) -> bool {
    members.get("case_insensitive") == Some(&Value::Bool(true))
}

/// Field of a query, its value, and the other members beside the value.
fn field_of(
    kind: &str,
    mut members: Map<String, Value>,
    value_name: &str,
) -> Result<(String, Value, Map<String, Value>), Error> {
    members.retain(|name, _| name != "boost" && name != "_name");
    let mut fields = members.into_iter();
    let (Some((field, value)), None) = (fields.next(), fields.next()) else {
        return Err(Error::Parsing(format!("[{kind}] query doesn't support multiple fields, and needs one")));
    };
    match value {
        Value::Object(rest) => {
            query_members::check(kind, &rest)?;
            let value = rest.get(value_name).or_else(|| rest.get("value")).cloned().unwrap_or(Value::Null);
            if value.is_null() && !rest.contains_key("wildcard") {
                return Err(Error::IllegalArgument(format!("[{kind}] value cannot be null")));
            }
            Ok((field, value, rest))
        }
        Value::Null => Err(Error::IllegalArgument(format!("[{kind}] value cannot be null"))),
        value => Ok((field, value, Map::new())),
    }
}

fn match_options(kind: &str, members: &Map<String, Value>) -> Result<MatchOptions, Error> {
    query_members::check(kind, members)?;
    let mut options = MatchOptions::default();
    for (name, value) in members {
        match name.as_str() {
            "operator" => options.needs_all = is_and(&text_of(value)),
            "slop" => options.slop = length_of(name, Some(value))?,
            "minimum_should_match" => options.minimum = Some(text_of(value)),
            "fuzziness" => options.fuzziness = Some(FuzzyTerms::parse(Some(value))?),
            "lenient" => options.is_lenient = *value == Value::Bool(true),
            "analyzer" => options.analyzer = Some(text_of(value)),
            "zero_terms_query" => {
                options.matches_without_words = match text_of(value).to_ascii_lowercase().as_str() {
                    "all" => true,
                    "none" => false,
                    other => {
                        return Err(Error::Parsing(format!("Unsupported zero_terms_query value [{other}]")));
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(fuzziness) = &mut options.fuzziness {
        fuzziness.prefix_length = length_of("prefix_length", members.get("prefix_length"))?;
        fuzziness.has_swaps = members.get("fuzzy_transpositions") != Some(&Value::Bool(false));
    }
    Ok(options)
}

/// A number of letters or words; 0 if it is not given.
fn length_of(name: &str, value: Option<&Value>) -> Result<usize, Error> {
    match value {
        None => Ok(0),
        Some(value) => match text_of(value).parse() {
            Ok(length) => Ok(length),
            Err(_) => Err(Error::IllegalArgument(format!("[{name}] must be a number that is not negative"))),
        },
    }
}

/// Share of the scores beside the best one.
fn tie_breaker_of(members: &Map<String, Value>, otherwise: f64) -> Result<f64, Error> {
    match members.get("tie_breaker") {
        None => Ok(otherwise),
        Some(value) => {
            value.as_f64().ok_or_else(|| Error::Parsing("[tie_breaker] must be a number".to_owned()))
        }
    }
}

fn multi_match(members: &Map<String, Value>) -> Result<SearchQuery, Error> {
    let kind = members.get("type").map(text_of).unwrap_or_else(|| "best_fields".to_owned());
    let mut options = match_options("multi_match", members)?;
    let own_tie_breaker = match kind.as_str() {
        "best_fields" | "phrase" | "phrase_prefix" | "cross_fields" => 0.0,
        "most_fields" | "bool_prefix" => 1.0,
        other => {
            return Err(Error::Parsing(format!(
                "failed to parse [multi_match] query type [{other}]. unknown type."
            )));
        }
    };
    let tie_breaker = tie_breaker_of(members, own_tie_breaker)?;
    options.is_phrase = kind.starts_with("phrase");
    options.is_prefix = kind == "bool_prefix" || kind == "phrase_prefix";
    if kind == "bool_prefix" && members.contains_key("slop") {
        return Err(Error::Parsing("[slop] not allowed for type [bool_prefix]".to_owned()));
    }
    let text = members.get("query").cloned().unwrap_or(Value::Null);
    let fields = members.get("fields").map(names_of).unwrap_or_default();
    let fields = if fields.is_empty() { vec!["*".to_owned()] } else { fields };
    let fields = fields.iter().map(|field| BoostedField::parse(field)).collect::<Result<Vec<_>, _>>()?;
    let of_text = |text: &Value, options: &MatchOptions| {
        let each = fields.iter().cloned().map(|BoostedField { name: field, boost }| {
            let query = SearchQuery::Match { field, text: text.clone(), options: options.clone() };
            SearchQuery::Named { query: Box::new(query), boost, name: None }
        });
        SearchQuery::Best { queries: each.collect(), tie_breaker }
    };
    if kind != "cross_fields" {
        return Ok(of_text(&text, &options));
    }
    // Each word may stand in another field.
    let single = MatchOptions { minimum: None, ..options.clone() };
    let words: Vec<SearchQuery> =
        words_of(&text_of(&text)).into_iter().map(|word| of_text(&word.into(), &single)).collect();
    if words.is_empty() {
        return Ok(if options.matches_without_words { SearchQuery::All } else { SearchQuery::None });
    }
    Ok(SearchQuery::Bool(match options.needs_all && options.minimum.is_none() {
        true => BoolQuery { must: words, ..BoolQuery::default() },
        false => BoolQuery { should: words, minimum: options.minimum, ..BoolQuery::default() },
    }))
}

fn range(mut members: Map<String, Value>) -> Result<SearchQuery, Error> {
    members.retain(|name, _| name != "boost" && name != "_name");
    let mut fields = members.into_iter();
    let (Some((field, Value::Object(body))), None) = (fields.next(), fields.next()) else {
        return Err(Error::Parsing(
            "[range] query doesn't support multiple fields, and needs one".to_owned(),
        ));
    };
    query_members::check("range", &body)?;
    let mut bounds = RangeBounds::default();
    let (mut includes_lower, mut includes_upper) = (true, true);
    for (name, value) in body {
        let bound = |includes| if value.is_null() { None } else { Some((value.clone(), includes)) };
        match name.as_str() {
            "gte" | "from" => bounds.from = bound(true),
            "gt" => bounds.from = bound(false),
            "lte" | "to" => bounds.to = bound(true),
            "lt" => bounds.to = bound(false),
            "format" => bounds.format = Some(text_of(&value)),
            "include_lower" => includes_lower = value != Value::Bool(false),
            "include_upper" => includes_upper = value != Value::Bool(false),
            "time_zone" => {
                let name = text_of(&value);
                let unknown = || Error::IllegalArgument(format!("Unknown time-zone ID: {name}"));
                bounds.zone = Some(zone_of(&name).ok_or_else(unknown)?);
            }
            "relation" => bounds.relation = RangeRelation::parse(&text_of(&value))?,
            _ => {}
        }
    }
    if let (Some((_, includes)), false) = (&mut bounds.from, includes_lower) {
        *includes = false;
    }
    if let (Some((_, includes)), false) = (&mut bounds.to, includes_upper) {
        *includes = false;
    }
    Ok(SearchQuery::Range { field, bounds })
}

fn nested(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let needed = |name: &str| {
        members.get(name).ok_or_else(|| Error::Parsing(format!("[nested] requires '{name}' field")))
    };
    let inner = match members.get("inner_hits") {
        None => None,
        Some(Value::Object(inner)) => {
            InnerHits::parse(inner)?;
            Some(inner.clone())
        }
        Some(_) => return Err(Error::Parsing("[inner_hits] must be an object".to_owned())),
    };
    Ok(SearchQuery::Nested(NestedQuery {
        path: text_of(needed("path")?),
        query: Box::new(parse_at(needed("query")?, scope.deeper()?)?),
        scores: NestedScores::parse(&members.get("score_mode").map_or("avg".to_owned(), text_of))?,
        ignores_unmapped: members.get("ignore_unmapped") == Some(&Value::Bool(true)),
        inner,
    }))
}

fn clauses(value: &Value, scope: ParseScope<'_>) -> Result<Vec<SearchQuery>, Error> {
    let scope = scope.deeper()?;
    match value {
        Value::Array(queries) => queries.iter().map(|query| parse_at(query, scope)).collect(),
        one => Ok(vec![parse_at(one, scope)?]),
    }
}

fn bool_query(members: Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let mut query = BoolQuery::default();
    for (name, value) in &members {
        match name.as_str() {
            "must" => query.must = clauses(value, scope)?,
            "filter" => query.filter = clauses(value, scope)?,
            "should" => query.should = clauses(value, scope)?,
            "must_not" | "mustNot" => query.must_not = clauses(value, scope)?,
            "minimum_should_match" => query.minimum = Some(text_of(value)),
            "boost" | "_name" | "adjust_pure_negative" => {}
            other => return Err(Error::Parsing(format!("[bool] query does not support [{other}]"))),
        }
    }
    Ok(SearchQuery::Bool(query))
}

/// Number of clauses that must match, of `count`.
pub(crate) fn minimum_of(text: Option<&str>, count: usize, otherwise: usize) -> usize {
    let Some(text) = text else { return otherwise };
    let text = text.trim();
    let wanted = match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse::<f64>().unwrap_or(100.0);
            let part = (count as f64 * percent.abs() / 100.0).floor() as i64;
            if percent < 0.0 { count as i64 - part } else { part }
        }
        None => match text.parse::<i64>() {
            Ok(number) if number < 0 => count as i64 + number,
            Ok(number) => number,
            Err(_) => otherwise as i64,
        },
    };
    wanted.max(0) as usize
}

/// Query of a request: the member `query` of its body, or the parameter `q`.
pub(crate) fn of_request(
    body: &Map<String, Value>,
    parameters: &crate::request::DoorParameters,
) -> Result<SearchQuery, Error> {
    if let Some(text) = parameters.get("q") {
        let defaults = query_text::TextDefaults {
            fields: parameters.get("df").map(BoostedField::parse).transpose()?.into_iter().collect(),
            needs_all: parameters.get("default_operator").is_some_and(is_and),
            is_lenient: parameters.flag("lenient")?.unwrap_or(false),
        };
        return query_text::parse(text, &defaults);
    }
    body.get("query").map_or(Ok(SearchQuery::All), |query| match query {
        Value::Object(members) if members.is_empty() => parse(&json!({})),
        query => parse(query),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_queries_are_refused() {
        for query in [
            json!(1),
            json!({}),
            json!({ "nothing": {} }),
            json!({ "match_all": {}, "ids": {} }),
            json!({ "term": {} }),
            json!({ "term": { "a": 1, "b": 2 } }),
            json!({ "term": { "a": null } }),
            json!({ "terms": { "a": 1 } }),
            json!({ "exists": {} }),
            json!({ "range": { "a": { "above": 1 } } }),
            json!({ "bool": { "most": [] } }),
            json!({ "match": { "a": { "query": "x", "what": 1 } } }),
            json!({ "constant_score": {} }),
            json!({ "query_string": {} }),
        ] {
            let error = parse(&query).err().unwrap_or_else(|| panic!("{query} is taken"));
            assert_eq!(error.status(), 400, "{query}: {error}");
        }
        let mut deep = json!({ "match_all": {} });
        for _ in 0..40 {
            deep = json!({ "bool": { "must": deep } });
        }
        assert!(parse(&deep).is_err(), "depth is bounded");
    }

    #[test]
    fn minimum_of_clauses() {
        for (text, expected) in [("2", 2), ("-1", 3), ("50%", 2), ("-25%", 3), ("9", 9)] {
            assert_eq!(minimum_of(Some(text), 4, 1), expected, "{text}");
        }
        assert_eq!(minimum_of(None, 4, 1), 1);
    }
}
