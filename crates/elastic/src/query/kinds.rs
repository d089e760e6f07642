//! Kinds of queries: each is parsed from its members.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{BoolQuery, CLAUSES_MAX, MatchOptions, RangeBounds, SearchQuery, is_and, parse_at, text_of};
use crate::Error;
use crate::dates::zone_of;
use crate::evaluation::{TermValues, words_of};
use crate::fields::names_of;
use crate::hit_form::InnerHits;
use crate::intervals::IntervalSource;
use crate::minimum_match::MinimumMatch;
use crate::nested::{NestedQuery, NestedScores};
use crate::query_distance::DistanceQuery;
use crate::query_functions::FunctionQuery;
use crate::query_members;
use crate::query_nearest::NearestQuery;
use crate::query_ranges::RangeRelation;
use crate::query_scope::ParseScope;
use crate::query_terms::{FuzzyTerms, TermCase, check_name, check_wildcard, check_words};
use crate::query_text::{self, BoostedField, FieldsKind};
use crate::regexp_signs::RegexpSigns;

/// Kinds of queries whose members stand below the name of a field.
pub(crate) const OF_ONE_FIELD: [&str; 13] = [
    "term",
    "terms",
    "terms_set",
    "match",
    "match_phrase",
    "match_phrase_prefix",
    "match_bool_prefix",
    "range",
    "prefix",
    "wildcard",
    "regexp",
    "fuzzy",
    "intervals",
];

/// Parses a query of a kind.
///
/// # Errors
/// It is malformed, or the kind does not exist.
pub(super) fn parse(kind: &str, body: &Value, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let members = || members_of(kind, body);
    match kind {
        "match_all" => members().map(|_| SearchQuery::All),
        "match_none" => members().map(|_| SearchQuery::None),
        "ids" => ids(&members()?),
        "term" => term(members()?),
        "terms" => terms(members()?),
        "terms_set" => Ok(SearchQuery::Functions(Box::new(FunctionQuery::of_terms_set(&members()?)?))),
        "match" | "match_phrase" | "match_phrase_prefix" | "match_bool_prefix" => words(kind, members()?),
        "multi_match" => multi_match(&members()?),
        "range" => range(members()?),
        "exists" => exists(&members()?),
        "prefix" | "wildcard" | "regexp" => pattern(kind, members()?, scope),
        "fuzzy" => fuzzy(members()?),
        "intervals" => intervals(members()?, scope),
        "distance_feature" => Ok(SearchQuery::Distance(DistanceQuery::parse(&members()?)?)),
        "knn" => Ok(SearchQuery::Nearest(Box::new(NearestQuery::parse(body, scope)?))),
        "nested" => nested(&members()?, scope),
        "bool" => bool_query(&members()?, scope),
        "constant_score" => constant_score(&members()?, scope),
        "dis_max" => best(&members()?, scope),
        "function_score" | "boosting" | "script_score" => {
            Ok(SearchQuery::Functions(Box::new(FunctionQuery::parse(kind, &members()?, scope)?)))
        }
        "query_string" | "simple_query_string" => query_text::of_members(kind, &members()?, scope),
        "hybrid" => Err(Error::Parsing(
            "hybrid query must be a top level query of a search and cannot be wrapped into other queries"
                .to_owned(),
        )),
        other => Err(Error::unknown(&format!("unknown query [{other}]"))),
    }
}

fn members_of(kind: &str, body: &Value) -> Result<Map<String, Value>, Error> {
    let Value::Object(members) = body else {
        return Err(Error::Parsing(format!("[{kind}] query malformed, no start_object after query name")));
    };
    if !OF_ONE_FIELD.contains(&kind) {
        query_members::check(kind, members)?;
    }
    Ok(members.clone())
}

fn ids(members: &Map<String, Value>) -> Result<SearchQuery, Error> {
    let ids = match members.get("values") {
        None => HashSet::new(),
        Some(Value::Array(values)) => values.iter().map(text_of).collect(),
        Some(one @ (Value::String(_) | Value::Number(_))) => HashSet::from([text_of(one)]),
        Some(_) => return Err(Error::Parsing("[values] of [ids] must be a list of ids".to_owned())),
    };
    Ok(SearchQuery::Ids(ids))
}

fn term(members: Map<String, Value>) -> Result<SearchQuery, Error> {
    let (field, value, rest) = field_of("term", members, "value")?;
    if value.is_array() {
        return Err(Error::Parsing("[term] query does not support array of values".to_owned()));
    }
    Ok(SearchQuery::Terms { field, values: TermValues::new(vec![value]), ignores_case: ignores_case(&rest) })
}

fn terms(mut members: Map<String, Value>) -> Result<SearchQuery, Error> {
    members.retain(|name, _| !["boost", "_name", "value_type"].contains(&name.as_str()));
    let mut members = members.into_iter();
    let (Some((field, values)), None) = (members.next(), members.next()) else {
        return Err(Error::Parsing("[terms] query requires a field name and no more than one".to_owned()));
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
    Ok(SearchQuery::Terms { field, values: TermValues::new(values), ignores_case: false })
}

/// A query for the words of a text.
fn words(kind: &str, members: Map<String, Value>) -> Result<SearchQuery, Error> {
    let (field, text, rest) = field_of(kind, members, "query")?;
    if text.is_array() || text.is_object() {
        return Err(Error::Parsing(format!(
            "[{kind}] query for the field [{field}] needs a text, or a number"
        )));
    }
    check_words(&text_of(&text), 1)?;
    let mut options = match_options(&rest)?;
    options.is_phrase = kind.starts_with("match_phrase");
    options.is_prefix = kind.ends_with("_prefix");
    Ok(SearchQuery::Match { field, text, options })
}

fn exists(members: &Map<String, Value>) -> Result<SearchQuery, Error> {
    match members.get("field").and_then(Value::as_str) {
        Some(field) => Ok(SearchQuery::Exists(field.to_owned())),
        None => Err(Error::Parsing("[exists] must be provided with a [field]".to_owned())),
    }
}

/// A query for terms that begin with a text, or match a pattern.
fn pattern(kind: &str, members: Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let (field, value, rest) = field_of(kind, members, "value")?;
    let value = text_of(rest.get("wildcard").unwrap_or(&value));
    if kind == "wildcard" {
        check_wildcard(&value)?;
    }
    let ignores_case = ignores_case(&rest);
    let case = if ignores_case { TermCase::Ignored } else { TermCase::Exact };
    Ok(match kind {
        "prefix" => SearchQuery::Prefix { field, value, case },
        "wildcard" => SearchQuery::Wildcard { field, value, case },
        _ => {
            let flags = rest.get("flags").map(|flags| RegexpSigns::parse(&text_of(flags))).transpose()?;
            let signs = flags.unwrap_or(RegexpSigns::ALL);
            SearchQuery::Regexp { field, pattern: scope.pattern(&value, signs, ignores_case)? }
        }
    })
}

fn fuzzy(members: Map<String, Value>) -> Result<SearchQuery, Error> {
    let (field, value, rest) = field_of("fuzzy", members, "value")?;
    let mut fuzziness = FuzzyTerms::parse(rest.get("fuzziness"))?;
    fuzziness.prefix_length = length_of("prefix_length", rest.get("prefix_length"))?;
    fuzziness.has_swaps = rest.get("transpositions") != Some(&Value::Bool(false));
    Ok(SearchQuery::Fuzzy { field, value: text_of(&value), case: TermCase::Exact, fuzziness })
}

fn intervals(mut members: Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    members.retain(|name, _| name != "boost" && name != "_name");
    let mut fields = members.into_iter();
    match (fields.next(), fields.next()) {
        (Some((field, Value::Object(source))), None) => {
            Ok(SearchQuery::Intervals { field, source: Box::new(IntervalSource::parse(&source, scope)?) })
        }
        _ => Err(Error::Parsing("[intervals] query needs one field, with an object of one rule".to_owned())),
    }
}

fn constant_score(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let Some(filter) = members.get("filter") else {
        return Err(Error::Parsing("[constant_score] requires a 'filter' element".to_owned()));
    };
    let boost = members.get("boost").and_then(Value::as_f64).unwrap_or(1.0);
    Ok(SearchQuery::Constant(Box::new(parse_at(filter, scope.deeper()?)?), boost))
}

fn best(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let queries = members.get("queries").map_or(Ok(Vec::new()), |queries| clauses(queries, scope))?;
    if queries.is_empty() {
        return Err(Error::Parsing("[dis_max] requires 'queries' field with at least one clause".to_owned()));
    }
    Ok(SearchQuery::Best { queries, tie_breaker: tie_breaker_of(members, 0.0)? })
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

fn match_options(members: &Map<String, Value>) -> Result<MatchOptions, Error> {
    let mut options = MatchOptions::default();
    for (name, value) in members {
        match name.as_str() {
            "operator" => options.needs_all = is_and(&text_of(value)),
            "slop" => options.slop = length_of(name, Some(value))?,
            "minimum_should_match" => options.minimum = Some(MinimumMatch::parse(&text_of(value))?),
            "fuzziness" => options.fuzziness = Some(FuzzyTerms::parse(Some(value))?),
            "lenient" => options.is_lenient = *value == Value::Bool(true),
            "analyzer" => {
                let named = text_of(value);
                check_name(&named)?;
                options.analyzer = Some(named);
            }
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
    let name = members.get("type").map(text_of).unwrap_or_else(|| "best_fields".to_owned());
    let kind = FieldsKind::parse(&name)?;
    let mut options = match_options(members)?;
    let tie_breaker = tie_breaker_of(members, kind.tie_breaker())?;
    options.is_phrase = kind.is_phrase();
    options.is_prefix = kind.is_prefix();
    if kind == FieldsKind::BoolPrefix && members.contains_key("slop") {
        return Err(Error::Parsing("[slop] not allowed for type [bool_prefix]".to_owned()));
    }
    if options.fuzziness.is_some() && (kind.is_phrase() || kind == FieldsKind::Cross) {
        return Err(Error::Parsing(format!("Fuzziness not allowed for type [{name}]")));
    }
    let text = members.get("query").cloned().unwrap_or(Value::Null);
    let fields = members.get("fields").map(names_of).unwrap_or_default();
    check_words(&text_of(&text), fields.len())?;
    let fields = if fields.is_empty() { vec!["*".to_owned()] } else { fields };
    let fields = fields.iter().map(|field| BoostedField::parse(field)).collect::<Result<Vec<_>, _>>()?;
    let of_text = |text: &Value, options: &MatchOptions| {
        let each = fields.iter().cloned().map(|BoostedField { name: field, boost }| {
            let query = SearchQuery::Match { field, text: text.clone(), options: options.clone() };
            SearchQuery::Named { query: Box::new(query), boost, name: None }
        });
        SearchQuery::Best { queries: each.collect(), tie_breaker }
    };
    if kind != FieldsKind::Cross {
        return Ok(of_text(&text, &options));
    }
    // Each word may stand in another field.
    let words = words_of(&text_of(&text));
    if words.is_empty() {
        return Ok(if options.matches_without_words { SearchQuery::All } else { SearchQuery::None });
    }
    let single = MatchOptions { minimum: None, ..options.clone() };
    let words: Vec<SearchQuery> = words.into_iter().map(|word| of_text(&word.into(), &single)).collect();
    Ok(SearchQuery::Bool(match options.needs_all && options.minimum.is_none() {
        true => BoolQuery { must: words, ..BoolQuery::default() }.without_left_out(),
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
    let (path, query) = (text_of(needed("path")?), parse_at(needed("query")?, scope.deeper()?)?);
    let is_nearest = match &query {
        SearchQuery::Named { query, .. } => matches!(**query, SearchQuery::Nearest(_)),
        query => matches!(query, SearchQuery::Nearest(_)),
    };
    if is_nearest && inner.is_none() {
        // Of a document with several vectors, the most similar one counts.
        return Ok(query);
    }
    Ok(SearchQuery::Nested(NestedQuery {
        path,
        query: Box::new(query),
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

fn bool_query(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<SearchQuery, Error> {
    let mut query = BoolQuery::default();
    for (name, value) in members {
        match name.as_str() {
            "must" => query.must = clauses(value, scope)?,
            "filter" => query.filter = clauses(value, scope)?,
            "should" => query.should = clauses(value, scope)?,
            "must_not" | "mustNot" => query.must_not = clauses(value, scope)?,
            "minimum_should_match" => query.minimum = Some(MinimumMatch::parse(&text_of(value))?),
            "boost" | "_name" | "adjust_pure_negative" => {}
            other => return Err(Error::Parsing(format!("[bool] query does not support [{other}]"))),
        }
    }
    Ok(SearchQuery::Bool(query))
}
