//! Times that a query can match, by which partitions are passed over.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::catalog::OpenIndex;
use crate::dates::{DateReading, DateText};
use crate::mapping::field_at;
use crate::partitions::{TimeSpan, joined};
use crate::query::{RangeBounds, SearchQuery, text_of};
use crate::query_ranges::RangeRelation;

/// Span of times with which a document can match, at a time in milliseconds; `None` if the query does not
/// restrict them. An empty span ends before it begins.
pub(crate) fn of_query(query: &SearchQuery, index: &OpenIndex, field: &str, now_ms: i64) -> Option<TimeSpan> {
    let definition = field_at(&index.entry.mappings, field).map(|(definition, _)| definition);
    let format = definition.and_then(|definition| definition.get("format")).and_then(Value::as_str);
    TimeBounds { field, format, now_ms }.of(query)
}

/// Times of documents in `logs` mode: those of their time field that can be read.
pub(crate) fn of_document(index: &OpenIndex, document: &Map<String, Value>) -> Option<TimeSpan> {
    let field = index.entry.time_field.as_deref()?;
    let definition = field_at(&index.entry.mappings, field).map(|(definition, _)| definition);
    let format = definition.and_then(|definition| definition.get("format")).and_then(Value::as_str);
    let times = crate::fields::all_at(document, field).into_iter();
    times
        .filter_map(|value| DateText::parse_value(value, format))
        .fold(None, |span, time| joined(span, Some((time, time))))
}

struct TimeBounds<'q> {
    field: &'q str,
    format: Option<&'q str>,
    now_ms: i64,
}

impl TimeBounds<'_> {
    fn of(&self, query: &SearchQuery) -> Option<TimeSpan> {
        match query {
            SearchQuery::Range { field, bounds } if field == self.field => self.of_range(bounds),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => self.of(query),
            SearchQuery::Functions(query) => self.of(&query.query),
            SearchQuery::None => Some((1, 0)),
            SearchQuery::Bool(query) => {
                let needed = query.must.iter().chain(&query.filter).filter_map(|query| self.of(query));
                let needed = needed.reduce(|one, other| (one.0.max(other.0), one.1.min(other.1)));
                let chooses = query.must.is_empty() && query.filter.is_empty() && query.minimum.is_none();
                match needed {
                    None if chooses => {
                        // One of them matches.
                        let each: Option<Vec<TimeSpan>> =
                            query.should.iter().map(|query| self.of(query)).collect();
                        each?.into_iter().reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
                    }
                    needed => needed,
                }
            }
            _ => None,
        }
    }

    fn of_range(&self, bounds: &RangeBounds) -> Option<TimeSpan> {
        if bounds.relation == RangeRelation::Disjoint {
            return None;
        }
        let zone = &bounds.zone.clone().unwrap_or(TimeZone::UTC);
        let format = bounds.format.as_deref().or(self.format);
        let end = |bound: &Option<(Value, bool)>, is_upper: bool| {
            let Some((value, includes)) = bound else { return Some(None) };
            let text = text_of(value);
            let round_up = is_upper == *includes;
            let reading = DateReading { format, now_ms: self.now_ms, zone, round_up };
            Some(Some(DateText::resolve(&text, &reading)?))
        };
        let (from, to) = (end(&bounds.from, false)?, end(&bounds.to, true)?);
        Some((from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_have_the_times_of_their_ranges() {
        let bounds = TimeBounds { field: "@timestamp", format: None, now_ms: 10_000_000 };
        let range = |from: i64, to: i64| json!({ "range": { "@timestamp": { "gte": from, "lt": to } } });
        for (query, expected) in [
            (json!({ "match_all": {} }), None),
            (json!({ "match_none": {} }), Some((1, 0))),
            (range(5, 9), Some((5, 9))),
            (json!({ "range": { "other": { "gte": 5 } } }), None),
            (json!({ "range": { "@timestamp": { "gt": 5 } } }), Some((5, i64::MAX))),
            (json!({ "range": { "@timestamp": { "lt": "now" } } }), Some((i64::MIN, 10_000_000))),
            (json!({ "range": { "@timestamp": { "lte": "1970-01-02" } } }), Some((i64::MIN, 172_799_999))),
            (json!({ "range": { "@timestamp": { "lte": "soon" } } }), None),
            (json!({ "bool": { "must": range(1, 9), "filter": range(4, 20) } }), Some((4, 9))),
            (json!({ "bool": { "must": range(1, 9), "should": range(4, 20) } }), Some((1, 9))),
            (json!({ "bool": { "should": [range(1, 3), range(7, 9)] } }), Some((1, 9))),
            (json!({ "bool": { "should": [range(1, 3), { "match_all": {} }] } }), None),
            (json!({ "bool": { "must_not": range(1, 3) } }), None),
            (json!({ "constant_score": { "filter": range(2, 3) } }), Some((2, 3))),
            (json!({ "query_string": { "query": "@timestamp:[3 TO 8] AND x" } }), Some((3, 8))),
        ] {
            let parsed = crate::query::parse(&query).expect("the query is one");
            assert_eq!(bounds.of(&parsed), expected, "{query}");
        }
    }
}
