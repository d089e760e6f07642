//! Queries as they are asked: the query language in JSON, parsed.

mod kinds;

use std::cell::Cell;
use std::collections::HashSet;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

pub(crate) use self::kinds::OF_ONE_FIELD;
use crate::Error;
use crate::catalog::OpenIndex;
use crate::evaluation::{TermValues, number_of};
use crate::intervals::IntervalSource;
use crate::mapping::{check_compared, check_searchable};
use crate::minimum_match::MinimumMatch;
use crate::nested::NestedQuery;
use crate::query_distance::DistanceQuery;
use crate::query_functions::FunctionQuery;
use crate::query_nearest::NearestQuery;
use crate::query_ranges::RangeRelation;
use crate::query_scope::ParseScope;
use crate::query_terms::{FuzzyTerms, TermCase, TermPattern};
use crate::query_text::{self, BoostedField};
use crate::unread::sent_json;

/// Clauses of a query, or terms of one.
pub(crate) const CLAUSES_MAX: usize = 65_536;

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SearchQuery {
    All,
    None,
    Ids(HashSet<String>),
    /// Exact values of a field.
    Terms {
        field: String,
        values: TermValues,
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
        case: TermCase,
    },
    Wildcard {
        field: String,
        value: String,
        case: TermCase,
    },
    Regexp {
        field: String,
        pattern: TermPattern,
    },
    Fuzzy {
        field: String,
        value: String,
        case: TermCase,
        fuzziness: FuzzyTerms,
    },
    /// Words of a field by their order and their distance.
    Intervals {
        field: String,
        source: Box<IntervalSource>,
    },
    /// Dates by their distance from another.
    Distance(DistanceQuery),
    /// Documents with the vectors that are most similar to one.
    Nearest(Box<NearestQuery>),
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
    /// Name or pattern of the field of a query about one field; `None` for all other kinds.
    pub(crate) fn single_field(&self) -> Option<&str> {
        match self {
            SearchQuery::Terms { field, .. }
            | SearchQuery::Match { field, .. }
            | SearchQuery::Range { field, .. }
            | SearchQuery::Exists(field)
            | SearchQuery::Prefix { field, .. }
            | SearchQuery::Wildcard { field, .. }
            | SearchQuery::Regexp { field, .. }
            | SearchQuery::Fuzzy { field, .. }
            | SearchQuery::Intervals { field, .. }
            | SearchQuery::Distance(DistanceQuery { field, .. }) => Some(field),
            SearchQuery::All
            | SearchQuery::None
            | SearchQuery::Ids(_)
            | SearchQuery::Nearest(_)
            | SearchQuery::Nested(_)
            | SearchQuery::Bool(_)
            | SearchQuery::Best { .. }
            | SearchQuery::Functions(_)
            | SearchQuery::Constant(..)
            | SearchQuery::Named { .. } => None,
        }
    }

    /// Checks that all fields that it names can be searched in an index, and that the index has all analyzers
    /// that it names.
    ///
    /// # Errors
    /// The mapping says of a field that it cannot, or there is no such analyzer.
    pub(crate) fn check_fields(&self, index: &OpenIndex) -> Result<(), Error> {
        let mappings = &index.entry.mappings;
        let all = |queries: &[SearchQuery]| queries.iter().try_for_each(|query| query.check_fields(index));
        match self {
            SearchQuery::All | SearchQuery::None | SearchQuery::Ids(_) | SearchQuery::Exists(_) => Ok(()),
            SearchQuery::Match { field, options, .. } => {
                let name = options.analyzer.as_deref();
                name.map_or(Ok(()), |name| index.analyzers.of_request(name).map(drop))?;
                check_compared(mappings, field)?;
                check_searchable(mappings, field)
            }
            SearchQuery::Intervals { field, source } => {
                source.check_analyzers(&index.analyzers)?;
                check_searchable(mappings, field)
            }
            SearchQuery::Terms { field, .. }
            | SearchQuery::Range { field, .. }
            | SearchQuery::Prefix { field, .. }
            | SearchQuery::Wildcard { field, .. }
            | SearchQuery::Regexp { field, .. }
            | SearchQuery::Fuzzy { field, .. } => {
                check_compared(mappings, field)?;
                check_searchable(mappings, field)
            }
            SearchQuery::Distance(DistanceQuery { field, .. }) => check_searchable(mappings, field),
            SearchQuery::Bool(query) => {
                let clauses = [&query.must, &query.filter, &query.must_not, &query.should];
                clauses.into_iter().try_for_each(|clauses| all(clauses))
            }
            SearchQuery::Best { queries, .. } => all(queries),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => query.check_fields(index),
            SearchQuery::Nearest(query) => query.check(index),
            SearchQuery::Nested(nested) => nested.query.check_fields(index),
            SearchQuery::Functions(query) => query.query.check_fields(index),
        }
    }

    /// True if a clause has a name, which hits that match it show.
    pub(crate) fn has_names(&self) -> bool {
        let any = |queries: &[SearchQuery]| queries.iter().any(SearchQuery::has_names);
        match self {
            SearchQuery::Named { query, name, .. } => name.is_some() || query.has_names(),
            SearchQuery::Constant(query, _) => query.has_names(),
            SearchQuery::Bool(query) => any(&query.must) || any(&query.filter) || any(&query.should),
            SearchQuery::Best { queries, .. } => any(queries),
            SearchQuery::Nested(nested) => nested.query.has_names(),
            SearchQuery::Functions(query) => query.query.has_names(),
            _ => false,
        }
    }

    /// True if all documents that match have one score.
    pub(crate) fn has_one_score(&self) -> bool {
        match self {
            SearchQuery::Match { .. }
            | SearchQuery::Intervals { .. }
            | SearchQuery::Distance(_)
            | SearchQuery::Nearest(_)
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

    /// Adds the fields that the query names; `None` if it depends on more than fields.
    pub(crate) fn add_fields<'q>(&'q self, fields: &mut Vec<&'q str>) -> Option<()> {
        let mut all =
            |queries: &'q [SearchQuery]| queries.iter().try_for_each(|query| query.add_fields(fields));
        match self {
            SearchQuery::All | SearchQuery::None => Some(()),
            SearchQuery::Bool(query) => [&query.must, &query.filter, &query.must_not, &query.should]
                .into_iter()
                .try_for_each(|of| all(of)),
            SearchQuery::Best { queries, .. } => all(queries),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => query.add_fields(fields),
            leaf => {
                fields.push(leaf.single_field()?);
                Some(())
            }
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
    pub(crate) minimum: Option<MinimumMatch>,
    pub(crate) fuzziness: Option<FuzzyTerms>,
    pub(crate) is_lenient: bool,
    /// Name of the analyzer of the text, in the place of that of the field.
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
    pub(crate) minimum: Option<MinimumMatch>,
}

impl BoolQuery {
    /// The query without need for words that the analyzers of their fields leave out, beside others that have
    /// to match.
    pub(crate) fn without_left_out(mut self) -> Self {
        if self.must.len() < 2 {
            return self;
        }
        // Of words alone, one has to be there.
        if self.must.iter().all(SearchQuery::is_of_words) {
            self.filter.push(SearchQuery::Best { queries: self.must.clone(), tie_breaker: 0.0 });
        }
        self.must.iter_mut().for_each(SearchQuery::match_without_words);
        self
    }
}

impl SearchQuery {
    /// True if it looks for words, in one field or in several.
    fn is_of_words(&self) -> bool {
        match self {
            SearchQuery::Match { .. } => true,
            SearchQuery::Best { queries, .. } => queries.iter().all(SearchQuery::is_of_words),
            SearchQuery::Named { query, .. } => query.is_of_words(),
            _ => false,
        }
    }

    /// Lets it match where the analyzer of a field leaves all of its words out.
    fn match_without_words(&mut self) {
        match self {
            SearchQuery::Match { options, .. } => options.matches_without_words = true,
            SearchQuery::Best { queries, .. } => {
                queries.iter_mut().for_each(SearchQuery::match_without_words);
            }
            SearchQuery::Named { query, .. } => query.match_without_words(),
            _ => {}
        }
    }
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
    let parsed = kinds::parse(kind, body, scope)?;
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

/// Query of a request: the member `query` of its body, or the parameter `q`.
pub(crate) fn of_request(
    body: &Map<String, Value>,
    parameters: &crate::request::ElasticParameters,
) -> Result<SearchQuery, Error> {
    if let Some(text) = parameters.get("q") {
        let defaults = query_text::TextDefaults {
            fields: parameters.get("df").map(BoostedField::parse).transpose()?.into_iter().collect(),
            needs_all: parameters.get("default_operator").is_some_and(is_and),
            is_lenient: parameters.flag("lenient")?.unwrap_or(false),
            analyzer: parameters.get("analyzer").map(str::to_owned),
            ..query_text::TextDefaults::default()
        };
        return query_text::parse(text, &defaults, ParseScope::of(&Cell::new(0)));
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
}
