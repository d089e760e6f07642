//! Explanations: the score of a hit, and the scores of the parts of the query that make it; queries as texts.

use serde_json::{Value, json};

use crate::evaluation::SearchedDocument;
use crate::hit_scan::{hit_of, searched};
use crate::names::NameOptions;
use crate::query::{RangeBounds, SearchQuery, text_of};
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::search::{SearchHit, query_alone};
use crate::service::ElasticService;
use crate::{Error, alias_scope, single};

/// Letters of a query as a text.
const TEXT_LETTERS_MAX: usize = 4_096;

/// Answers `_explain`: whether a query finds a document, and the scores of its parts there.
pub(crate) fn explain(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
    id: &str,
) -> Result<ReplyContent, Error> {
    if !object_of(&request.body)?.contains_key("query") && !parameters.has("q") {
        return Err(Error::Validation(vec!["query is missing".to_owned()]));
    }
    let mut search = query_alone(service, request, parameters)?;
    let (index, found) = single::searched(service, parameters, expression, id)?;
    let indexes = std::slice::from_ref(&index);
    alias_scope::restrict(&*service.catalog.read()?, expression, NameOptions::LENIENT, indexes, &mut search)?;
    search.query.check_fields(&index)?;
    let mut answer = json!({ "_index": index.entry.name, "_id": id, "matched": false });
    let Some(stored) = found else { return Ok(ReplyContent::Json(404, answer)) };
    let shown = single::shown(&index, &stored, parameters)?;
    let hit = hit_of(&index, stored)?;
    let explained = of_part(&searched(&hit), &search.query)?;
    answer["matched"] = explained.is_some().into();
    answer["explanation"] = explained.unwrap_or_else(
        || json!({ "value": 0.0, "description": "the query does not match the document", "details": [] }),
    );
    if let Some(shown) = shown {
        answer["get"] = shown;
    }
    ReplyContent::ok(answer)
}

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

/// A query as a text in the form of `query_string`, as far as that has one.
pub(crate) fn text_of_query(query: &SearchQuery) -> String {
    let mut text = String::new();
    write_query(query, &mut text);
    if let Some((end, _)) = text.char_indices().nth(TEXT_LETTERS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Writes queries with a sign before each.
fn write_all(sign: &str, queries: &[SearchQuery], text: &mut String) {
    for query in queries {
        if !text.is_empty() && !text.ends_with('(') {
            text.push(' ');
        }
        text.push_str(sign);
        write_query(query, text);
    }
}

fn write_query(query: &SearchQuery, text: &mut String) {
    if text.len() > 4 * TEXT_LETTERS_MAX {
        return;
    }
    match query {
        SearchQuery::All => text.push_str("*:*"),
        SearchQuery::None => text.push_str("-*:*"),
        SearchQuery::Ids(ids) => {
            let mut ids: Vec<&str> = ids.iter().take(TEXT_LETTERS_MAX).map(String::as_str).collect();
            ids.sort_unstable();
            text.push_str(&format!("_id:({})", ids.join(" ")));
        }
        SearchQuery::Terms { field, values, .. } => {
            let values: Vec<String> = values.iter().take(TEXT_LETTERS_MAX).map(text_of).collect();
            match values.as_slice() {
                [value] => text.push_str(&format!("{field}:{value}")),
                several => text.push_str(&format!("{field}:({})", several.join(" "))),
            }
        }
        SearchQuery::Match { field, text: words, options } => {
            let words = text_of(words);
            match options.is_phrase {
                true => text.push_str(&format!("{field}:\"{words}\"")),
                false => text.push_str(&format!("{field}:({words})")),
            }
        }
        SearchQuery::Range { field, bounds } => text.push_str(&format!("{field}:{}", text_of_range(bounds))),
        SearchQuery::Exists(field) => text.push_str(&format!("_exists_:{field}")),
        SearchQuery::Prefix { field, value, .. } => text.push_str(&format!("{field}:{value}*")),
        SearchQuery::Wildcard { field, value, .. } => text.push_str(&format!("{field}:{value}")),
        SearchQuery::Regexp { field, .. } => text.push_str(&format!("{field}:/…/")),
        SearchQuery::Fuzzy { field, value, .. } => text.push_str(&format!("{field}:{value}~")),
        SearchQuery::Intervals { field, .. } => text.push_str(&format!("{field}:intervals")),
        SearchQuery::Distance(query) => text.push_str(&format!("{}:distance", query.field)),
        SearchQuery::Nearest(query) => text.push_str(&format!("{}:knn", query.field)),
        SearchQuery::Nested(nested) => {
            text.push_str(&format!("{}:(", nested.path));
            write_query(&nested.query, text);
            text.push(')');
        }
        SearchQuery::Bool(query) => {
            text.push('(');
            write_all("+", &query.must, text);
            write_all("#", &query.filter, text);
            write_all("", &query.should, text);
            write_all("-", &query.must_not, text);
            text.push(')');
        }
        SearchQuery::Best { queries, .. } => {
            text.push('(');
            for (at, query) in queries.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { " | " });
                write_query(query, text);
            }
            text.push(')');
        }
        SearchQuery::Functions(query) => {
            text.push_str("function score (");
            write_query(&query.query, text);
            text.push(')');
        }
        SearchQuery::Constant(query, score) => {
            text.push_str("ConstantScore(");
            write_query(query, text);
            text.push_str(&format!(")^{score}"));
        }
        SearchQuery::Named { query, boost, .. } => {
            write_query(query, text);
            if *boost != 1.0 {
                text.push_str(&format!("^{boost}"));
            }
        }
    }
}

/// Bounds of a range, with brackets for those that are in it.
fn text_of_range(bounds: &RangeBounds) -> String {
    let end = |end: &Option<(Value, bool)>| end.as_ref().map_or("*".to_owned(), |(value, _)| text_of(value));
    let is_in = |end: &Option<(Value, bool)>| end.as_ref().is_none_or(|(_, is_in)| *is_in);
    let open = if is_in(&bounds.from) { '[' } else { '{' };
    let close = if is_in(&bounds.to) { ']' } else { '}' };
    format!("{open}{} TO {}{close}", end(&bounds.from), end(&bounds.to))
}
