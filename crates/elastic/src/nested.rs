//! Nested objects: queries that one object must match as a whole, and the objects that match.

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::evaluation::{SearchedDocument, SearchedWords};
use crate::fields::all_at;
use crate::hit_form::InnerHits;
use crate::hit_scan::searched;
use crate::kept_hits::take_answer;
use crate::mapping::{field_at, type_of};
use crate::query::{BoolQuery, SearchQuery};
use crate::search::SearchHit;

/// A query for nested objects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NestedQuery {
    pub(crate) path: String,
    pub(crate) query: Box<SearchQuery>,
    pub(crate) scores: NestedScores,
    pub(crate) ignores_unmapped: bool,
    /// Members of `inner_hits`, which are checked.
    pub(crate) inner: Option<Map<String, Value>>,
}

/// Score of a document by those of its objects that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NestedScores {
    Average,
    Sum,
    Least,
    Most,
    None,
}

impl NestedScores {
    /// Parses `score_mode`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "avg" => NestedScores::Average,
            "sum" => NestedScores::Sum,
            "min" => NestedScores::Least,
            "max" => NestedScores::Most,
            "none" => NestedScores::None,
            other => {
                return Err(Error::IllegalArgument(format!("No score mode for child query [{other}] found")));
            }
        })
    }

    fn of(self, scores: &[f64]) -> Option<f64> {
        let sum: f64 = scores.iter().sum();
        let least = scores.iter().copied().reduce(f64::min)?;
        Some(match self {
            NestedScores::Average => sum / scores.len() as f64,
            NestedScores::Sum => sum,
            NestedScores::Least => least,
            NestedScores::Most => scores.iter().copied().fold(least, f64::max),
            NestedScores::None => 0.0,
        })
    }
}

/// Documents that have one of the objects at a path each, and nothing else.
pub(crate) fn parts(document: &Map<String, Value>, path: &str) -> Vec<Map<String, Value>> {
    let objects = all_at(document, path).into_iter().filter(|value| value.is_object());
    let alone = objects.map(|object| {
        path.rsplit('.').fold(object.clone(), |inner, name| {
            Value::Object([(name.to_owned(), inner)].into_iter().collect())
        })
    });
    let members = |part| match part {
        Value::Object(members) => Some(members),
        _ => None,
    };
    alone.filter_map(members).collect()
}

/// Checks that a path is one of nested objects.
pub(crate) fn is_nested(mappings: &Map<String, Value>, path: &str) -> bool {
    field_at(mappings, path).is_some_and(|(definition, _)| type_of(definition) == "nested")
}

impl SearchedDocument<'_> {
    /// Score of the document by its nested objects.
    pub(crate) fn score_nested(&self, nested: &NestedQuery) -> Result<Option<f64>, Error> {
        if !is_nested(self.mappings, &nested.path) {
            return match nested.ignores_unmapped {
                true => Ok(None),
                false => Err(Error::IllegalArgument(format!(
                    "failed to create query: [nested] failed to find nested object under path [{}]",
                    nested.path
                ))),
            };
        }
        let mut scores = Vec::new();
        for part in parts(self.source, &nested.path) {
            let part = SearchedDocument { source: &part, words: SearchedWords::default(), ..*self };
            scores.extend(part.score(&nested.query, &mut Vec::new())?);
        }
        Ok(nested.scores.of(&scores))
    }
}

/// Adds the nested objects that match to the answer of a hit, where the query asks for them.
///
/// # Errors
/// The answer has no memory for them, or the query does not fit the mapping.
pub(crate) fn add_inner_hits(
    query: &SearchQuery,
    hit: &SearchHit,
    total_as_number: bool,
    memory: &QueryMemory,
    found: &mut Map<String, Value>,
) -> Result<(), Error> {
    let mut each = |queries: &[SearchQuery]| -> Result<(), Error> {
        queries.iter().try_for_each(|query| add_inner_hits(query, hit, total_as_number, memory, found))
    };
    match query {
        SearchQuery::Bool(BoolQuery { must, filter, should, .. }) => {
            each(must)?;
            each(filter)?;
            each(should)
        }
        SearchQuery::Best { queries, .. } => each(queries),
        SearchQuery::Functions(query) => each(std::slice::from_ref(&query.query)),
        SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => {
            each(std::slice::from_ref(&**query))
        }
        SearchQuery::Nested(nested) => {
            let Some(inner) = &nested.inner else { return Ok(()) };
            let name = inner.get("name").and_then(Value::as_str).unwrap_or(&nested.path);
            let hits = matching(nested, hit)?;
            let hits: Vec<&SearchHit> = hits.iter().collect();
            let shown = InnerHits::parse(inner)?.of(&hits, total_as_number, &nested.query)?;
            // The query may ask for the same objects many times.
            take_answer(memory, &shown)?;
            found.insert(name.to_owned(), json!({ "hits": shown }));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Position of a nested object in its document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NestedPosition {
    pub(crate) path: String,
    pub(crate) offset: usize,
}

/// The nested objects of a hit at a path, each as a hit.
pub(crate) fn part_hits(hit: &SearchHit, path: &str) -> Vec<SearchHit> {
    let all = parts(&hit.document, path).into_iter();
    // Both forms have the same objects.
    let mut formed = hit.formed.as_ref().map(|formed| parts(formed, path).into_iter());
    // The hit may have many, so that its document is not copied for each.
    let one = |(offset, document)| SearchHit {
        formed: formed.as_mut().and_then(Iterator::next),
        index: hit.index.clone(),
        ordinal: hit.ordinal,
        stored: hit.stored.clone(),
        document,
        score: hit.score,
        matched: Vec::new(),
        sort: Vec::new(),
        place: Some(NestedPosition { path: path.to_owned(), offset }),
        collapsed: hit.collapsed.clone(),
        inner: Map::new(),
        row: None,
    };
    all.enumerate().map(one).collect()
}

fn matching(nested: &NestedQuery, hit: &SearchHit) -> Result<Vec<SearchHit>, Error> {
    let mut found = Vec::new();
    for mut part in part_hits(hit, &nested.path) {
        if let Some(score) = searched(&part).score(&nested.query, &mut Vec::new())? {
            part.score = score;
            found.push(part);
        }
    }
    Ok(found)
}
