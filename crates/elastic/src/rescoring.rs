//! Rescoring: the first hits of a search are scored again by another query, and ordered by that.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::Error;
use crate::hit_form::tie;
use crate::hit_scan::searched;
use crate::query::{self, SearchQuery};
use crate::query_scope::ParseScope;
use crate::search::SearchHit;
use crate::small_sort::sort_few;

/// Hits that are scored again where none are named.
const WINDOW: usize = 10;

/// Combination of the two scores of a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreMode {
    Total,
    Multiply,
    Average,
    Most,
    Least,
}

impl ScoreMode {
    fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "total" => ScoreMode::Total,
            "multiply" => ScoreMode::Multiply,
            "avg" => ScoreMode::Average,
            "max" => ScoreMode::Most,
            "min" => ScoreMode::Least,
            other => {
                return Err(Error::IllegalArgument(format!(
                    "illegal score_mode [{other}]; there are [total, multiply, avg, max, min]"
                )));
            }
        })
    }

    fn of(self, first: f64, second: f64) -> f64 {
        match self {
            ScoreMode::Total => first + second,
            ScoreMode::Multiply => first * second,
            ScoreMode::Average => (first + second) / 2.0,
            ScoreMode::Most => first.max(second),
            ScoreMode::Least => first.min(second),
        }
    }
}

/// A query that scores the first hits again.
pub(crate) struct HitRescoring {
    /// Number of hits that are scored again.
    pub(crate) window: usize,
    pub(crate) query: SearchQuery,
    first_weight: f64,
    second_weight: f64,
    mode: ScoreMode,
}

impl HitRescoring {
    /// Parses `rescore`: one, or several that follow each other.
    ///
    /// # Errors
    /// One is malformed, or has members that are not known.
    pub(crate) fn parse_all(value: &Value) -> Result<Vec<Self>, Error> {
        let pattern_bytes = Cell::new(0);
        let scope = ParseScope::of(&pattern_bytes);
        let one = |value: &Value| match value {
            Value::Object(members) => Self::parse(members, scope),
            _ => Err(Error::Parsing("[rescore] must be an object, or an array of objects".to_owned())),
        };
        match value {
            Value::Array(all) => all.iter().map(one).collect(),
            single => Ok(vec![one(single)?]),
        }
    }

    fn parse(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let malformed = |name: &str, value: &Value| {
            Err(Error::Parsing(format!("[{name}] of [rescore] cannot be [{value}]")))
        };
        if let Some(unknown) = members.keys().find(|name| !["window_size", "query"].contains(&name.as_str()))
        {
            return Err(Error::Parsing(format!(
                "[rescore] does not support [{unknown}]; there are [window_size] and [query]"
            )));
        }
        let window = match members.get("window_size") {
            None => WINDOW,
            Some(value) => match value.as_u64() {
                Some(window) => window as usize,
                None => return malformed("window_size", value),
            },
        };
        let Some(Value::Object(of_query)) = members.get("query") else {
            return Err(Error::Parsing("missing rescore type: [rescore] needs [query]".to_owned()));
        };
        let (mut query, mut mode) = (None, ScoreMode::Total);
        let (mut first_weight, mut second_weight) = (1.0, 1.0);
        for (name, value) in of_query {
            match (name.as_str(), value.as_f64()) {
                ("rescore_query", _) => query = Some(query::parse_at(value, scope)?),
                ("query_weight", Some(weight)) => first_weight = weight,
                ("rescore_query_weight", Some(weight)) => second_weight = weight,
                ("score_mode", _) => mode = ScoreMode::parse(&query::text_of(value))?,
                ("query_weight" | "rescore_query_weight", None) => return malformed(name, value),
                (other, _) => {
                    return Err(Error::Parsing(format!("[query] of [rescore] does not support [{other}]")));
                }
            }
        }
        match query {
            Some(query) => Ok(HitRescoring { window, query, first_weight, second_weight, mode }),
            None => Err(Error::Parsing("[query] of [rescore] needs [rescore_query]".to_owned())),
        }
    }

    /// Scores the first hits again, and orders them by that; those behind them stay where they are.
    ///
    /// # Errors
    /// The query does not fit a document.
    pub(crate) fn apply(&self, hits: &mut [SearchHit]) -> Result<(), Error> {
        let window = self.window.min(hits.len());
        for (at, hit) in hits.iter_mut().enumerate() {
            let second = match at < window {
                true => searched(hit).score(&self.query, &mut Vec::new())?,
                false => None,
            };
            let first = hit.score * self.first_weight;
            hit.score = second.map_or(first, |second| self.mode.of(first, second * self.second_weight));
        }
        sort_few(&mut hits[..window], |left, right| {
            right.score.total_cmp(&left.score).then_with(|| tie(left).cmp(&tie(right)))
        });
        Ok(())
    }
}
