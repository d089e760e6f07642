//! Bounds of a query while it is parsed: its depth, and the memory of its regular expressions.

use std::cell::Cell;

use serde_json::Value;

use crate::Error;
use crate::query::{self, SearchQuery};
use crate::query_terms::TermPattern;
use crate::regexp_signs::RegexpSigns;

/// Depth of queries in queries.
const DEPTH_MAX: usize = 30;

/// Bytes of the regular expressions of one query. The memory of the search counts them once it is parsed.
const PATTERN_BYTES_MAX: usize = 32 << 20;

/// Place in a query that is parsed.
#[derive(Clone, Copy)]
pub(crate) struct ParseScope<'p> {
    depth: usize,
    /// Bytes of the regular expressions so far.
    pattern_bytes: &'p Cell<usize>,
}

impl<'p> ParseScope<'p> {
    /// The outermost place. `pattern_bytes` has the bytes of the expressions that count together.
    pub(crate) fn of(pattern_bytes: &'p Cell<usize>) -> Self {
        ParseScope { depth: 0, pattern_bytes }
    }

    /// The place of a query inside of the one here.
    ///
    /// # Errors
    /// It is too deep.
    pub(crate) fn deeper(self) -> Result<Self, Error> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::IllegalArgument(format!("queries may be nested {DEPTH_MAX} deep at most")));
        }
        Ok(ParseScope { depth: self.depth + 1, ..self })
    }

    /// Compiles a regular expression of the query.
    ///
    /// # Errors
    /// It is malformed or too large, or all of the query together are.
    pub(crate) fn pattern(
        self,
        text: &str,
        signs: RegexpSigns,
        ignores_case: bool,
    ) -> Result<TermPattern, Error> {
        let pattern = TermPattern::with_signs(text, signs, ignores_case)?;
        let bytes = self.pattern_bytes.get() + pattern.bytes();
        if bytes > PATTERN_BYTES_MAX {
            return Err(Error::IllegalArgument(format!(
                "the regular expressions of a query take more than {PATTERN_BYTES_MAX} bytes when they are compiled: name \
                 fewer, or use [prefix] and [wildcard] queries"
            )));
        }
        self.pattern_bytes.set(bytes);
        Ok(pattern)
    }
}

/// Parses queries that are kept together: the bounds of one are those of all.
///
/// # Errors
/// Those of [`query::parse`].
pub(crate) fn parse_together<'v>(
    queries: impl IntoIterator<Item = &'v Value>,
) -> Result<Vec<SearchQuery>, Error> {
    let pattern_bytes = Cell::new(0);
    let scope = ParseScope::of(&pattern_bytes);
    queries.into_iter().map(|query| query::parse_at(query, scope)).collect()
}

impl SearchQuery {
    /// Bytes that its regular expressions take, about.
    pub(crate) fn pattern_bytes(&self) -> usize {
        let of_all = |queries: &[SearchQuery]| queries.iter().map(SearchQuery::pattern_bytes).sum::<usize>();
        match self {
            SearchQuery::Regexp { pattern, .. } => pattern.bytes(),
            SearchQuery::Intervals { source, .. } => source.pattern_bytes(),
            SearchQuery::Nested(nested) => nested.query.pattern_bytes(),
            SearchQuery::Bool(query) => {
                of_all(&query.must) + of_all(&query.filter) + of_all(&query.should) + of_all(&query.must_not)
            }
            SearchQuery::Best { queries, .. } => of_all(queries),
            SearchQuery::Functions(query) => query.pattern_bytes(),
            SearchQuery::Nearest(query) => query.filter.as_ref().map_or(0, SearchQuery::pattern_bytes),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => query.pattern_bytes(),
            SearchQuery::All
            | SearchQuery::None
            | SearchQuery::Ids(_)
            | SearchQuery::Terms { .. }
            | SearchQuery::Match { .. }
            | SearchQuery::Range { .. }
            | SearchQuery::Exists(_)
            | SearchQuery::Prefix { .. }
            | SearchQuery::Wildcard { .. }
            | SearchQuery::Fuzzy { .. }
            | SearchQuery::Distance(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn regexps(count: usize) -> Value {
        let one = |n: usize| json!({ "regexp": { "a": format!("x.*{n}") } });
        json!({ "bool": { "should": (0..count).map(one).collect::<Vec<_>>() } })
    }

    #[test]
    fn expressions_count_wherever_they_are_in_a_query() {
        let one = json!({ "regexp": { "a": "x.*" } });
        let bytes = |value: &Value| query::parse(value).expect("the query is one").pattern_bytes();
        let of_one = bytes(&one);
        assert!(of_one > 0);
        for (value, times) in [
            (json!({ "match_all": {} }), 0),
            (json!({ "wildcard": { "a": "x*" } }), 0),
            (json!({ "regexp": { "a": { "value": "x.*", "boost": 2 } } }), 1),
            (json!({ "bool": { "must": one, "filter": [one, one], "should": one, "must_not": one } }), 5),
            (json!({ "dis_max": { "queries": [one, one] } }), 2),
            (json!({ "constant_score": { "filter": one } }), 1),
            (json!({ "nested": { "path": "n", "query": one } }), 1),
            (
                json!({ "intervals": { "a": { "any_of": { "intervals": [
                    { "regexp": { "pattern": "x.*" } },
                    { "match": { "query": "x", "filter": { "before": { "regexp": { "pattern": "x.*" } } } } },
                ] } } } }),
                2,
            ),
        ] {
            assert_eq!(bytes(&value), times * of_one, "{value}");
        }
    }

    #[test]
    fn the_expressions_of_one_query_or_of_several_together_are_bounded() {
        assert!(query::parse(&regexps(60)).is_ok());
        let error = query::parse(&regexps(1_000)).expect_err("too many");
        assert!(error.to_string().contains("name fewer"), "{error}");
        let many = vec![regexps(60); 10];
        assert!(parse_together(&many[..1]).is_ok());
        assert!(parse_together(&many).is_err(), "they are kept together");
    }
}
