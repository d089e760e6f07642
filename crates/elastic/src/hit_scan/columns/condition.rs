//! Conditions of a query on columns.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::{VisitedIndex, searched_document};
use super::{LazyColumns, RowChooser, RowField, RowSink, nothing};
use crate::Error;
use crate::analyzers::IndexAnalyzers;
use crate::dates::common_length;
use crate::evaluation::{FieldValueKind, kind_of};
use crate::log_columns::{LogColumn, LogColumnName, RowSet};
use crate::mapping::{field_at, is_flag, type_of};
use crate::partitions::TimeSpan;
use crate::query::{BoolQuery, SearchQuery, text_of};
use crate::query_ranges::DateEnds;
use crate::read_fields::ReadFields;
use crate::scan_limit::SearchPace;
use crate::searched_form::{copied_to, is_formed};
use crate::text_division::TextDivision;

/// Columns that one search reads, at most.
const COLUMNS_MAX: usize = 32;

/// Evaluations of conditions between two looks at the time: a query may have thousands of conditions.
const EVALUATIONS_PER_LOOK: usize = 8;

/// Parts that texts are searched for before they are looked at, at most.
const PARTS_MAX: usize = 8;

/// Columns that a search reads of each chunk, and its query as conditions on them.
pub(in crate::hit_scan) struct ColumnPlan<'q> {
    pub(super) names: Vec<Arc<LogColumnName>>,
    /// True for columns that are read in most chunks.
    pub(super) is_usual: Vec<bool>,
    condition: ColumnCondition<'q>,
    /// Columns of the fields that the sink reads.
    pub(super) read: Vec<ReadColumn>,
    /// Column of the sequence numbers, if the sink takes each row.
    pub(super) seq_nos: Option<usize>,
    /// Column of the sequence numbers, and the first of those that do not count, if there are any.
    pub(super) seq_nos_before: Option<(usize, i64)>,
    /// Column with the times by which hits are chosen.
    pub(super) times: Option<usize>,
    /// Columns of the fields by which they are, and of the sequence numbers, where times cannot decide.
    pub(super) order: Option<(Vec<usize>, usize)>,
}

/// Columns of a field that the sink reads.
pub(super) struct ReadColumn {
    /// Column of the members that have the field.
    pub(super) members: usize,
    /// Column of its times, and the length of intervals that are alike to the sink.
    pub(super) intervals: Option<(usize, i64)>,
}

enum ColumnCondition<'q> {
    All,
    None,
    Field(FieldCondition<'q>),
    Any(Vec<ColumnCondition<'q>>),
    Combined(Box<CombinedCondition<'q>>),
}

/// A condition on the values of one field.
struct FieldCondition<'q> {
    query: &'q SearchQuery,
    /// Column of the members that have the field.
    members: usize,
    /// Column of its times, and the span of those that match.
    times: Option<(usize, TimeSpan)>,
    /// Parts of texts, in small letters, of which each text has one that matches.
    parts: Option<Vec<String>>,
}

/// Conditions combined as the clauses of a query are.
struct CombinedCondition<'q> {
    must: Vec<ColumnCondition<'q>>,
    must_not: Vec<ColumnCondition<'q>>,
    should: Vec<ColumnCondition<'q>>,
    /// Number of those that should hold that must.
    needed: usize,
}

impl<'q> ColumnPlan<'q> {
    /// Plan of a search; `None` if the query or the sink depends on more than single fields.
    pub(super) fn of(
        query: &'q SearchQuery,
        visited: VisitedIndex<'q>,
        sink: &mut dyn RowSink,
    ) -> Option<Self> {
        let entry = &visited.index.entry;
        let (mappings, ends) = (&entry.mappings, visited.ends);
        let (names, is_usual, by_field) = (Vec::new(), Vec::new(), HashMap::new());
        let analyzers = &*visited.index.analyzers;
        let mut planner = ColumnPlanner { mappings, analyzers, ends, names, is_usual, by_field };
        let condition = planner.condition(query)?;
        let fields = once_each(sink.row_fields()?);
        let read = fields.iter().map(|field| {
            // The type of a field without a definition is that of its first value: columns that are put
            // together may have another one first.
            if field.is_searched && field_at(mappings, &field.name).is_none() {
                return None;
            }
            let members = planner.members(&field.name, true)?;
            let intervals = field.interval_ms.and_then(|length| Some((planner.times(&field.name)?, length)));
            Some(ReadColumn { members, intervals })
        });
        let read: Vec<ReadColumn> = read.collect::<Option<_>>()?;
        let seq_nos = match sink.takes_each_row() {
            true => Some(planner.column(LogColumnName::SeqNos, true)?),
            false => None,
        };
        let seq_nos_before = match sink.seq_no_end() {
            i64::MAX => None,
            end => Some((planner.column(LogColumnName::SeqNos, true)?, end)),
        };
        let (mut times, mut order) = (None, None);
        if let Some(chooser) = sink.chooser() {
            let time_field = entry.time_field.as_deref().filter(|_| chooser.is_by_time());
            times = time_field.and_then(|field| planner.times(field));
            order = planner.order(chooser, times.is_none());
        }
        let ColumnPlanner { names, is_usual, .. } = planner;
        Some(ColumnPlan { names, is_usual, condition, read, seq_nos, seq_nos_before, times, order })
    }

    /// Rows among others that match; `None` if that is not known for all of them.
    pub(super) fn rows(
        &self,
        among: &RowSet,
        columns: &mut LazyColumns<'_>,
        pace: &SearchPace<'_>,
    ) -> Result<Option<RowSet>, Error> {
        self.condition.rows(among, columns, pace)
    }
}

/// Fields, each once, with the intervals that are alike to all of its readers.
fn once_each(fields: Vec<RowField>) -> Vec<RowField> {
    let mut different: Vec<RowField> = Vec::new();
    for field in fields {
        match different.iter_mut().find(|known| known.name == field.name) {
            Some(known) => {
                let both = known.interval_ms.zip(field.interval_ms);
                known.interval_ms = both.map(|(one, other)| common_length(one, other));
                known.is_searched |= field.is_searched;
            }
            None => different.push(field),
        }
    }
    different
}

/// Planner of the columns of a search.
struct ColumnPlanner<'p> {
    mappings: &'p Map<String, Value>,
    analyzers: &'p IndexAnalyzers,
    ends: &'p [DateEnds<'p>],
    names: Vec<Arc<LogColumnName>>,
    is_usual: Vec<bool>,
    /// Positions of the columns of members by the names of their fields.
    by_field: HashMap<String, usize>,
}

impl ColumnPlanner<'_> {
    fn column(&mut self, name: LogColumnName, is_usual: bool) -> Option<usize> {
        let position = match self.names.iter().position(|known| **known == name) {
            Some(position) => position,
            None if self.names.len() < COLUMNS_MAX => {
                self.names.push(Arc::new(name));
                self.is_usual.push(false);
                self.names.len() - 1
            }
            None => return None,
        };
        self.is_usual[position] |= is_usual;
        Some(position)
    }

    /// Column of the members that have a field.
    fn members(&mut self, field: &str, is_usual: bool) -> Option<usize> {
        if let Some(position) = self.by_field.get(field) {
            self.is_usual[*position] |= is_usual;
            return Some(*position);
        }
        // Fields with an underscore are not in the text of a document.
        if field.starts_with('_') {
            return None;
        }
        let mut fields = ReadFields::NONE;
        fields.add(self.mappings, field);
        let ReadFields::At(source_paths) = fields else { return None };
        let position = self.column(LogColumnName::Members(source_paths), is_usual)?;
        self.by_field.insert(field.to_owned(), position);
        Some(position)
    }

    /// Column of the times of a field.
    fn times(&mut self, field: &str) -> Option<usize> {
        let (definition, source_path) = field_at(self.mappings, field)?;
        let copied = copied_to(self.mappings, std::slice::from_ref(&source_path));
        let is_as_sent = !is_formed(definition) && copied.is_empty();
        // Of the dates that can be read, all are searched then.
        let is_whole = type_of(definition) != "date_nanos" || !is_flag(definition, "ignore_malformed");
        if kind_of(type_of(definition)) != FieldValueKind::Date || !is_as_sent || !is_whole {
            return None;
        }
        let format = definition.get("format").and_then(Value::as_str).map(str::to_owned);
        self.column(LogColumnName::Times { source_path, format }, true)
    }

    /// Columns of the fields by which hits are chosen, and of the sequence numbers.
    fn order(&mut self, chooser: &dyn RowChooser, is_usual: bool) -> Option<(Vec<usize>, usize)> {
        let fields = chooser.order_fields()?;
        let members: Option<Vec<usize>> = fields.iter().map(|field| self.members(field, is_usual)).collect();
        Some((members?, self.column(LogColumnName::SeqNos, is_usual)?))
    }

    fn condition<'q>(&mut self, query: &'q SearchQuery) -> Option<ColumnCondition<'q>> {
        let field = match query {
            SearchQuery::All => return Some(ColumnCondition::All),
            SearchQuery::None => return Some(ColumnCondition::None),
            SearchQuery::Bool(query) => return self.combined(query),
            SearchQuery::Best { queries, .. } => return Some(ColumnCondition::Any(self.all(queries)?)),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => {
                return self.condition(query);
            }
            leaf => leaf.single_field()?,
        };
        let span = match query {
            SearchQuery::Range { bounds, .. } => DateEnds::span_of(self.ends, bounds),
            _ => None,
        };
        let times = span.and_then(|span| Some((self.times(field)?, span)));
        let members = self.members(field, times.is_none())?;
        let parts = parts_of(query, self.mappings, self.analyzers);
        Some(ColumnCondition::Field(FieldCondition { query, members, times, parts }))
    }

    fn all<'q>(&mut self, queries: &'q [SearchQuery]) -> Option<Vec<ColumnCondition<'q>>> {
        queries.iter().map(|query| self.condition(query)).collect()
    }

    fn combined<'q>(&mut self, query: &'q BoolQuery) -> Option<ColumnCondition<'q>> {
        let mut must = self.all(&query.must)?;
        must.extend(self.all(&query.filter)?);
        let (must_not, should) = (self.all(&query.must_not)?, self.all(&query.should)?);
        let is_needed = must.is_empty() && !should.is_empty();
        let minimum = query.minimum.as_ref();
        let needed = minimum.map_or(usize::from(is_needed), |minimum| minimum.of(should.len()));
        let combined = CombinedCondition { must, must_not, should, needed };
        Some(ColumnCondition::Combined(Box::new(combined)))
    }
}

impl ColumnCondition<'_> {
    fn rows(
        &self,
        among: &RowSet,
        columns: &mut LazyColumns<'_>,
        pace: &SearchPace<'_>,
    ) -> Result<Option<RowSet>, Error> {
        if among.is_empty() {
            return Ok(Some(among.clone()));
        }
        match self {
            ColumnCondition::All => Ok(Some(among.clone())),
            ColumnCondition::None => Ok(Some(RowSet::none(among.len()))),
            ColumnCondition::Field(field) => field.rows(among, columns, pace),
            ColumnCondition::Any(conditions) => {
                let mut rows = RowSet::none(among.len());
                for condition in conditions {
                    let Some(own) = condition.rows(among, columns, pace)? else { return Ok(None) };
                    rows.add(&own);
                }
                Ok(Some(rows))
            }
            ColumnCondition::Combined(combined) => combined.rows(among, columns, pace),
        }
    }
}

impl CombinedCondition<'_> {
    fn rows(
        &self,
        among: &RowSet,
        columns: &mut LazyColumns<'_>,
        pace: &SearchPace<'_>,
    ) -> Result<Option<RowSet>, Error> {
        let mut rows = among.clone();
        for condition in &self.must {
            let Some(own) = condition.rows(&rows, columns, pace)? else { return Ok(None) };
            rows = own;
        }
        for condition in &self.must_not {
            let Some(own) = condition.rows(&rows, columns, pace)? else { return Ok(None) };
            rows.remove(&own);
        }
        // Those that are not needed are evaluated, too: one that fails is an error of the query.
        let mut counts = vec![0_usize; among.len()];
        for condition in &self.should {
            let Some(own) = condition.rows(&rows, columns, pace)? else { return Ok(None) };
            own.iter().for_each(|row| counts[row] += 1);
        }
        Ok(Some(if self.needed == 0 { rows } else { rows.keep_each(|row| counts[row] >= self.needed) }))
    }
}

impl FieldCondition<'_> {
    fn rows(
        &self,
        among: &RowSet,
        columns: &mut LazyColumns<'_>,
        pace: &SearchPace<'_>,
    ) -> Result<Option<RowSet>, Error> {
        if let Some((position, span)) = self.times
            && let LogColumn::Times(times) = &*columns.get(position)?
        {
            return Ok(Some(times.within(span, among)));
        }
        let column = columns.get(self.members)?;
        let LogColumn::Members(members) = &*column else { return Ok(None) };
        let VisitedIndex { index, now_ms, ends, form, .. } = columns.of.visited;
        let nothing = nothing();
        let rows = members.matching(among, self.parts.as_deref(), |own| {
            columns.evaluations += 1;
            if columns.evaluations.is_multiple_of(EVALUATIONS_PER_LOOK) && pace.next()?.is_break() {
                return Err(Error::Timeout("the time of the search is over".to_owned()));
            }
            let formed = form.apply(own);
            let searched = searched_document(index, &nothing, own, formed.as_ref(), now_ms, ends);
            Ok(searched.score(self.query, &mut Vec::new())?.is_some())
        });
        // Documents that another condition leaves out do not make the query fail. Where the time is over, or
        // the client has left, the visit of the documents ends soon.
        Ok(rows.ok())
    }
}

/// Parts of texts of which one is in each text that a condition on a field of texts or keywords matches, in
/// small letters; `None` if there are none, or too many. They are for texts with letters of ASCII alone.
fn parts_of(
    query: &SearchQuery,
    mappings: &Map<String, Value>,
    analyzers: &IndexAnalyzers,
) -> Option<Vec<String>> {
    let definition_of = |field: &str| {
        let (definition, _) = field_at(mappings, field)?;
        Some(definition).filter(|definition| !is_formed(definition))
    };
    let kind_at = |field: &str| match type_of(definition_of(field)?) {
        "keyword" | "constant_keyword" | "wildcard" => Some(FieldValueKind::Keyword),
        // The steps of an analyzer make words that are not in the texts.
        _ if matches!(analyzers.of_field(definition_of(field)?), TextDivision::Steps(_)) => None,
        other => Some(kind_of(other)).filter(|kind| *kind == FieldValueKind::Text),
    };
    let parts: Vec<String> = match query {
        SearchQuery::Terms { field, values, .. } if values.len() <= PARTS_MAX => {
            kind_at(field)?;
            values.iter().map(text_of).collect()
        }
        SearchQuery::Prefix { field, value, .. } => {
            kind_at(field)?;
            vec![value.clone()]
        }
        SearchQuery::Match { field, text, options } => match kind_at(field)? {
            FieldValueKind::Text => {
                if options.fuzziness.is_some() {
                    return None;
                }
                let division = options.division(analyzers, definition_of(field)?);
                let words = division.words(&text_of(text)).into_words();
                // Of several words at one position one is enough.
                let has_steps = matches!(division, TextDivision::Steps(_));
                // Each of them is there: the longest is the rarest, most often.
                let needs_all = options.is_phrase || options.needs_all && options.minimum.is_none();
                match words.iter().max_by_key(|word| word.len()) {
                    Some(longest) if needs_all && !has_steps => vec![longest.clone()],
                    _ => words,
                }
            }
            _ => vec![text_of(text)],
        },
        _ => return None,
    };
    let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
    let is_of_use = (1..=PARTS_MAX).contains(&parts.len()) && parts.iter().all(|part| !part.is_empty());
    is_of_use.then_some(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_match_have_a_part() {
        let mappings = json!({ "properties": {
            "t": { "type": "text", "fields": { "raw": { "type": "keyword" } } }, "k": { "type": "keyword" },
            "n": { "type": "long" }, "r": { "type": "ip_range" }, "a": { "type": "alias", "path": "t" },
        } });
        let mappings = mappings.as_object().expect("an object");
        for (query, expected) in [
            (json!({ "match": { "t": "Quick FOX" } }), Some("quick fox")),
            (json!({ "match": { "a": { "query": "a quick fox", "operator": "and" } } }), Some("quick")),
            (json!({ "match_phrase": { "t": "the Foxes" } }), Some("foxes")),
            (json!({ "match_phrase_prefix": { "t": "a qui" } }), Some("qui")),
            (json!({ "match": { "t": { "query": "a bb", "minimum_should_match": 2 } } }), Some("a bb")),
            (
                json!({ "match": { "t": { "query": "a bb", "operator": "and", "minimum_should_match": 1 } } }),
                Some("a bb"),
            ),
            (json!({ "match": { "t": { "query": "quick", "fuzziness": 1 } } }), None),
            (json!({ "match": { "t": "?!" } }), None),
            (json!({ "match": { "t": "1 2 3 4 5 6 7 8 9" } }), None),
            (json!({ "match": { "k": "Two Words" } }), Some("two words")),
            (json!({ "term": { "t": "X" } }), Some("x")),
            (json!({ "terms": { "t.raw": ["A", 5] } }), Some("a 5")),
            (json!({ "term": { "k": "" } }), None),
            (json!({ "term": { "k": { "value": "\u{212a}", "case_insensitive": true } } }), Some("k")),
            (json!({ "prefix": { "k": "Pre" } }), Some("pre")),
            (json!({ "term": { "n": 5 } }), None),
            (json!({ "term": { "r": "10.1.2.3" } }), None),
            (json!({ "term": { "unmapped": "x" } }), None),
            (json!({ "wildcard": { "k": "x*" } }), None),
            (json!({ "exists": { "field": "k" } }), None),
        ] {
            let parsed = crate::query::parse(&query).expect("the query is one");
            let analyzers = IndexAnalyzers::default();
            let parts = parts_of(&parsed, mappings, &analyzers).map(|parts| parts.join(" "));
            assert_eq!(parts.as_deref(), expected, "{query}");
        }
    }
}
