//! Explanations: the score of a hit, and the scores of the parts of the query that make it.

use serde_json::{Value, json};

use crate::Error;
use crate::evaluation::SearchedDocument;
use crate::hit_scan::searched;
use crate::query::SearchQuery;
use crate::search::SearchHit;

/// Member `_explanation` of a hit whose whole document was read.
///
/// # Errors
/// The query does not fit the document.
pub(crate) fn of_hit(hit: &SearchHit, query: &SearchQuery) -> Result<Value, Error> {
    let of_query = of_part(&searched(hit), query)?;
    // Factors of indexes, and rescoring, come after the query.
    match of_query {
        Some(explained) if explained["value"] == json!(hit.score) => Ok(explained),
        explained => Ok(json!({
            "value": hit.score,
            "description": "score of the query, with the factor of the index and by [rescore]",
            "details": explained.into_iter().collect::<Vec<_>>(),
        })),
    }
}

/// The score of a part of a query; `None` if it does not match.
fn of_part(document: &SearchedDocument<'_>, query: &SearchQuery) -> Result<Option<Value>, Error> {
    let Some(score) = document.score(query, &mut Vec::new())? else { return Ok(None) };
    let of_field = |kind: &str, field: &str| (format!("{kind} on [{field}]"), Vec::new());
    let (description, parts): (String, Vec<&SearchQuery>) = match query {
        SearchQuery::All => ("*:*".to_owned(), Vec::new()),
        SearchQuery::None | SearchQuery::Ids(_) => ("ids".to_owned(), Vec::new()),
        SearchQuery::Terms { field, .. } => of_field("terms", field),
        SearchQuery::Match { field, .. } => {
            of_field("words, by their number and the length of the text,", field)
        }
        SearchQuery::Range { field, .. } => of_field("range", field),
        SearchQuery::Exists(field) => of_field("exists", field),
        SearchQuery::Prefix { field, .. } => of_field("prefix", field),
        SearchQuery::Wildcard { field, .. } => of_field("wildcard", field),
        SearchQuery::Regexp { field, .. } => of_field("regexp", field),
        SearchQuery::Fuzzy { field, .. } => of_field("fuzzy", field),
        SearchQuery::Intervals { field, .. } => of_field("intervals, by their number and length,", field),
        SearchQuery::Distance(query) => of_field("distance of dates", &query.field),
        SearchQuery::Nearest(query) => of_field("similarity of vectors", &query.field),
        SearchQuery::Nested(nested) => of_field("nested objects", &nested.path),
        SearchQuery::Bool(query) => ("sum of:".to_owned(), query.must.iter().chain(&query.should).collect()),
        SearchQuery::Best { queries, tie_breaker } => {
            (format!("max plus {tie_breaker} times others of:"), queries.iter().collect())
        }
        SearchQuery::Functions(query) => ("functions of:".to_owned(), vec![&query.query]),
        SearchQuery::Constant(..) => ("constant score".to_owned(), Vec::new()),
        SearchQuery::Named { query, boost, .. } => (format!("product of boost {boost} and:"), vec![&**query]),
    };
    let mut details = Vec::new();
    for part in parts {
        details.extend(of_part(document, part)?);
    }
    Ok(Some(json!({ "value": score, "description": description, "details": details })))
}
