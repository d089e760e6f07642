//! `rank` of a search: the results of its queries are joined by the ranks that documents have in each.

use serde_json::Value;

use crate::Error;
use crate::query::text_of;

/// Constant of the scores of ranks, if the request names none.
const CONSTANT: f64 = 60.0;

/// Greatest number of documents of a query that get a rank, and greatest constant.
const NUMBER_MAX: usize = 10_000;

/// Fusion of the results of several queries. The score of a document is the sum of `1 / (constant + rank)`
/// over the queries among whose first documents it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankFusion {
    /// Documents of each query that get a rank; `None`: as many as the page has.
    window: Option<usize>,
    constant: f64,
}

impl RankFusion {
    /// Parses `rank`.
    ///
    /// # Errors
    /// It is malformed, or another fusion than that of reciprocal ranks.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let single = value.as_object().filter(|members| members.len() == 1);
        let members = single.and_then(|members| members.get("rrf")).and_then(Value::as_object);
        let Some(members) = members else {
            return Err(Error::Parsing("[rank] must be an object with [rrf] alone".to_owned()));
        };
        let mut fusion = RankFusion { window: None, constant: CONSTANT };
        for (name, value) in members {
            let number = || match text_of(value).parse() {
                Ok(number @ 1..=NUMBER_MAX) => Ok(number),
                _ => Err(Error::IllegalArgument(format!("[{name}] of [rrf] must be from 1 to {NUMBER_MAX}"))),
            };
            match name.as_str() {
                "rank_window_size" | "window_size" => fusion.window = Some(number()?),
                "rank_constant" => fusion.constant = number()? as f64,
                other => return Err(Error::unknown(&format!("[rrf] unknown field [{other}]"))),
            }
        }
        Ok(fusion)
    }

    /// Number of the documents of each query that get a rank, for a page of a size.
    ///
    /// # Errors
    /// The page is larger.
    pub(crate) fn window(self, size: usize) -> Result<usize, Error> {
        match self.window {
            Some(window) if window < size => Err(Error::IllegalArgument(format!(
                "[rank] requires [rank_window_size: {window}] be greater than or equal to [size: {size}]"
            ))),
            window => Ok(window.unwrap_or(size).clamp(1, NUMBER_MAX)),
        }
    }

    /// Score of a rank; the first one is 0.
    pub(crate) fn score(self, rank: usize) -> f64 {
        1.0 / (self.constant + 1.0 + rank as f64)
    }
}
