//! Evaluation of a query on one document: its score, or nothing.

mod term_values;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};

pub(crate) use self::term_values::TermValues;
use self::term_values::whole_number;
use self::words::PathWords;
pub(crate) use self::words::{SearchedWords, phrases, word_spans, words_of};
use crate::Error;
use crate::analyzers::IndexAnalyzers;
use crate::fields::{all_at, each_at};
use crate::ignored::ignored;
use crate::mapping::{self, all_fields, check_value, is_kept, is_object, is_searched, searched_at, type_of};
use crate::normalizer::ValueNormalizer;
use crate::patterns::{glob, wildcard};
use crate::query::{BoolQuery, MatchOptions, RangeBounds, SearchQuery, text_of};
use crate::query_ranges::{DateEnds, is_range};
use crate::query_terms::CasedText;

/// A document that is searched.
pub(crate) struct SearchedDocument<'d> {
    pub(crate) index: &'d str,
    pub(crate) id: &'d str,
    pub(crate) routing: Option<&'d str>,
    pub(crate) version: i64,
    pub(crate) seq_no: i64,
    pub(crate) mappings: &'d Map<String, Value>,
    /// Settings of the index, which define normalizers.
    pub(crate) settings: &'d BTreeMap<String, Value>,
    /// Analyzers of the index.
    pub(crate) analyzers: &'d IndexAnalyzers,
    /// Members of the document in the [form](crate::searched_form) in which they are compared.
    pub(crate) source: &'d Map<String, Value>,
    /// Members of the document as it was sent.
    pub(crate) sent: &'d Map<String, Value>,
    pub(crate) now_ms: i64,
    /// Ends of ranges of dates in the query that were read before.
    pub(crate) ends: &'d [DateEnds<'d>],
    /// True in `logs` mode: fields that the mapping lacks are searched, too.
    pub(crate) is_log: bool,
    /// True if the mapping has objects that pass their fields through.
    pub(crate) passes_fields: bool,
    /// Words of `source`, as far as the query has asked for them.
    pub(crate) words: SearchedWords,
}

/// A path in the source at which values of a field are.
struct SearchedPath<'d> {
    definition: Cow<'d, Map<String, Value>>,
    path: String,
    /// Name of the field, if a pattern found it.
    name: Option<String>,
}

impl SearchedPath<'_> {
    fn kind(&self) -> FieldValueKind {
        kind_of(type_of(&self.definition))
    }
}

/// Kind of values, by which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValueKind {
    Number,
    Date,
    Boolean,
    Text,
    Keyword,
    Ip,
    Version,
}

/// Kind of the values of a type of fields.
pub(crate) fn kind_of(field_type: &str) -> FieldValueKind {
    match field_type {
        "long" | "integer" | "short" | "byte" | "double" | "float" | "half_float" | "scaled_float"
        | "unsigned_long" | "token_count" => FieldValueKind::Number,
        "date" | "date_nanos" => FieldValueKind::Date,
        "boolean" => FieldValueKind::Boolean,
        "text" | "match_only_text" | "search_as_you_type" => FieldValueKind::Text,
        "ip" => FieldValueKind::Ip,
        "version" => FieldValueKind::Version,
        _ => FieldValueKind::Keyword,
    }
}

impl SearchedDocument<'_> {
    /// Score of the document; `None` if it does not match. Names of matching queries are added to `names`.
    pub(crate) fn score(&self, query: &SearchQuery, names: &mut Vec<String>) -> Result<Option<f64>, Error> {
        let when = |is_match: bool| Ok(is_match.then_some(1.0));
        match query {
            SearchQuery::All => Ok(Some(1.0)),
            SearchQuery::None => Ok(None),
            SearchQuery::Ids(ids) => when(ids.contains(self.id)),
            SearchQuery::Terms { field, values, ignores_case } => {
                when(self.has_any_term(field, values, *ignores_case)?)
            }
            SearchQuery::Match { field, text, options } => self.matches(field, text, options),
            SearchQuery::Range { field, bounds } => when(self.is_in_range(field, bounds)?),
            SearchQuery::Exists(field) => when(self.exists(field)),
            SearchQuery::Prefix { field, value, case } => {
                let wanted = CasedText::new(&self.normalized(field, value), *case);
                let begins = |wanted: &str, term: &str| term.starts_with(wanted);
                when(self.any_term(field, &mut |term, is_lower| wanted.passes(term, is_lower, begins)))
            }
            SearchQuery::Wildcard { field, value, case } => {
                let wanted = CasedText::new(&self.normalized(field, value), *case);
                when(self.any_term(field, &mut |term, is_lower| wanted.passes(term, is_lower, wildcard)))
            }
            SearchQuery::Regexp { field, pattern } => {
                when(self.any_term(field, &mut |term, _| pattern.matches(term)))
            }
            SearchQuery::Fuzzy { field, value, case, fuzziness } => {
                let wanted = CasedText::new(&self.normalized(field, value), *case);
                let is_near = |wanted: &str, term: &str| fuzziness.has(term, wanted);
                when(self.any_term(field, &mut |term, is_lower| wanted.passes(term, is_lower, is_near)))
            }
            SearchQuery::Intervals { field, source } => self.score_intervals(field, source),
            SearchQuery::Distance(query) => self.score_distance(query),
            SearchQuery::Nearest(query) => self.score_nearest(query),
            SearchQuery::Nested(nested) => self.score_nested(nested),
            SearchQuery::Bool(query) => self.score_bool(query, names),
            SearchQuery::Best { queries, tie_breaker } => {
                let (mut best, mut sum) = (None, 0.0);
                for query in queries {
                    if let Some(score) = self.score(query, names)? {
                        best = Some(best.map_or(score, |best| f64::max(best, score)));
                        sum += score;
                    }
                }
                Ok(best.map(|best| best + tie_breaker * (sum - best)))
            }
            SearchQuery::Functions(query) => self.score_functions(query, names),
            SearchQuery::Constant(query, boost) => Ok(self.score(query, names)?.map(|_| *boost)),
            SearchQuery::Named { query, boost, name } => {
                let score = self.score(query, names)?;
                if score.is_some() {
                    names.extend(name.clone());
                }
                Ok(score.map(|score| score * boost))
            }
        }
    }

    fn score_bool(&self, query: &BoolQuery, names: &mut Vec<String>) -> Result<Option<f64>, Error> {
        let mut total = 0.0;
        for clause in &query.must {
            match self.score(clause, names)? {
                Some(score) => total += score,
                None => return Ok(None),
            }
        }
        for clause in &query.filter {
            if self.score(clause, names)?.is_none() {
                return Ok(None);
            }
        }
        for clause in &query.must_not {
            if self.score(clause, &mut Vec::new())?.is_some() {
                return Ok(None);
            }
        }
        let mut matched = 0;
        for clause in &query.should {
            if let Some(score) = self.score(clause, names)? {
                total += score;
                matched += 1;
            }
        }
        let is_needed = query.must.is_empty() && query.filter.is_empty() && !query.should.is_empty();
        let minimum = query.minimum.as_ref();
        let needed = minimum.map_or(usize::from(is_needed), |minimum| minimum.of(query.should.len()));
        if matched < needed {
            return Ok(None);
        }
        let is_only_negative = query.must.is_empty() && query.should.is_empty() && query.filter.is_empty();
        Ok(Some(if is_only_negative { 1.0 } else { total }))
    }

    /// Values of a field of the document itself, such as `_id`.
    pub(crate) fn meta(&self, field: &str) -> Option<String> {
        match field {
            "_id" => Some(self.id.to_owned()),
            "_index" => Some(self.index.to_owned()),
            "_routing" => Some(self.routing.unwrap_or_default().to_owned()),
            "_version" => Some(self.version.to_string()),
            "_seq_no" => Some(self.seq_no.to_string()),
            _ => None,
        }
    }

    /// Calls `test` with each term of a field, or of all fields: words of texts, whole values of others; and
    /// with true if all terms of the field are in lower case.
    fn any_term(&self, field: &str, test: &mut impl FnMut(&str, bool) -> bool) -> bool {
        if let Some(value) = self.meta(field) {
            return test(&value, false);
        }
        if field == "_ignored" {
            return ignored(self.mappings, self.sent, self.is_log).iter().any(|name| test(name, false));
        }
        for searched in self.searched_paths(field) {
            if searched.kind() == FieldValueKind::Text {
                let is_lower = self.analyzers.of_field(&searched.definition).compared("A") == "a";
                if self.words_at(&searched).any(&mut |word| test(word, is_lower)) {
                    return true;
                }
                continue;
            }
            let values = all_at(self.source, &searched.path).into_iter();
            for value in values.filter(|value| is_searched(&searched.definition, value)) {
                if test(&text_of(value), false) {
                    return true;
                }
            }
        }
        false
    }

    /// Words of the texts of a field, divided as the field says.
    fn words_at(&self, searched: &SearchedPath<'_>) -> Rc<PathWords> {
        self.words.at(self.source, &searched.path, &self.analyzers.of_field(&searched.definition))
    }

    /// A text as the values of a field are compared.
    fn normalized<'t>(&self, field: &str, text: &'t str) -> Cow<'t, str> {
        let found = searched_at(self.mappings, field, self.passes_fields);
        match found.and_then(|(definition, _)| ValueNormalizer::of(definition, self.settings)) {
            Some(normalizer) => Cow::Owned(normalizer.apply(text)),
            None => Cow::Borrowed(text),
        }
    }

    /// Source paths of a field; of all fields for a pattern.
    fn searched_paths(&self, field: &str) -> Vec<SearchedPath<'_>> {
        if field.contains('*') {
            let fields = all_fields(self.mappings).into_iter().filter(|(path, definition)| {
                let kind = type_of(definition);
                let is_value = definition.get("properties").is_none() && !is_object(kind) && !is_kept(kind);
                is_value && glob(field, path)
            });
            let paths = fields.filter_map(|(name, _)| {
                let (definition, path) = searched_at(self.mappings, &name, self.passes_fields)?;
                Some(SearchedPath { definition: Cow::Borrowed(definition), path, name: Some(name) })
            });
            return paths.collect();
        }
        let found = self.field(field);
        found.map(|(definition, path)| SearchedPath { definition, path, name: None }).into_iter().collect()
    }

    /// Definition of a field, and its source path. In `logs` mode a field that the mapping lacks has
    /// the type of its value.
    pub(crate) fn field(&self, field: &str) -> Option<(Cow<'_, Map<String, Value>>, String)> {
        if let Some((definition, source_path)) = searched_at(self.mappings, field, self.passes_fields) {
            return Some((Cow::Borrowed(definition), source_path));
        }
        if !self.is_log {
            return None;
        }
        let whole = field.strip_suffix(".keyword");
        [Some((field, false)), whole.map(|source_path| (source_path, true))].into_iter().flatten().find_map(
            |(source_path, is_keyword)| {
                let value = *all_at(self.source, source_path).first()?;
                let definition = match is_keyword {
                    true => json!({ "type": "keyword" }).as_object().cloned()?,
                    false => mapping::inferred(value)?,
                };
                Some((Cow::Owned(definition), source_path.to_owned()))
            },
        )
    }

    fn has_term(&self, field: &str, value: &Value, ignores_case: bool) -> Result<bool, Error> {
        if field == "_index" {
            return Ok(glob(&text_of(value), self.index));
        }
        if field == "_ignored" {
            return Ok(ignored(self.mappings, self.sent, self.is_log).contains(&text_of(value)));
        }
        if let Some(own) = self.meta(field) {
            return Ok(own == text_of(value));
        }
        let Some((definition, source_path)) = self.field(field) else { return Ok(false) };
        let definition = &*definition;
        let kind = kind_of(type_of(definition));
        let wanted = text_of(value);
        let may_misfit = match kind {
            FieldValueKind::Number => true,
            // Other texts are dates that are computed, or networks.
            FieldValueKind::Date => !wanted.starts_with("now") && !wanted.contains("||"),
            FieldValueKind::Ip => !wanted.contains('/'),
            _ => false,
        };
        if self.is_log && may_misfit && check_value(definition, type_of(definition), value).is_err() {
            // Of values that do not fit the type one is meant.
            return Ok(all_at(self.source, &source_path).iter().any(|own| text_of(own) == wanted));
        }
        if definition.get("ignore_above").and_then(Value::as_u64).is_some_and(|limit| {
            kind == FieldValueKind::Keyword && text_of(value).chars().count() as u64 > limit
        }) {
            return Ok(false);
        }
        let format = definition.get("format").and_then(Value::as_str);
        if kind == FieldValueKind::Date || is_range(type_of(definition)) {
            let bounds = RangeBounds {
                from: Some((value.clone(), true)),
                to: Some((value.clone(), true)),
                format: format.map(str::to_owned),
                ..RangeBounds::default()
            };
            return self.is_in_range(field, &bounds);
        }
        if kind == FieldValueKind::Number && number_of(value).is_none() {
            return Err(Error::IllegalArgument(format!(
                "failed to create query: For input string: \"{}\"",
                text_of(value)
            )));
        }
        if kind == FieldValueKind::Boolean && !self.is_log && !["true", "false"].contains(&wanted.as_str()) {
            return Err(Error::IllegalArgument(format!(
                "failed to create query: Can't parse boolean value [{wanted}], expected [true] or [false]"
            )));
        }
        Ok(self.field_has((definition, source_path.as_str()), value, ignores_case))
    }

    /// True if a field has a value, which its type can have; of a text, if a word is the value.
    fn field_has(
        &self,
        (definition, source_path): (&Map<String, Value>, &str),
        value: &Value,
        ignores_case: bool,
    ) -> bool {
        let kind = kind_of(type_of(definition));
        let fold = |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
        let wanted = match ValueNormalizer::of(definition, self.settings) {
            Some(normalizer) => normalizer.apply(&text_of(value)),
            None => text_of(value),
        };
        if kind == FieldValueKind::Text {
            let words = self.words.at(self.source, source_path, &self.analyzers.of_field(definition));
            return match ignores_case {
                true => words.any(&mut |word| fold(word) == fold(&wanted)),
                false => words.count(&wanted) > 0,
            };
        }
        let folded = fold(&wanted);
        let is_wanted = |own: &Value| match own {
            Value::String(text) if !ignores_case => *text == folded,
            other => fold(&text_of(other)) == folded,
        };
        let mut found = false;
        each_at(self.source, source_path, &mut |own| {
            found = found
                || match kind {
                    FieldValueKind::Number => {
                        compare_numbers(&stored_number(definition, own), value)
                            == Some(std::cmp::Ordering::Equal)
                    }
                    FieldValueKind::Ip => is_in_network(&text_of(own), &wanted),
                    _ => is_wanted(own) && is_searched(definition, own),
                };
        });
        found
    }

    fn exists(&self, field: &str) -> bool {
        if matches!(field, "_id" | "_index" | "_version" | "_seq_no" | "_source") {
            return true;
        }
        if field == "_routing" {
            return self.routing.is_some();
        }
        if field == "_ignored" {
            return !ignored(self.mappings, self.sent, self.is_log).is_empty();
        }
        self.searched_paths(field).iter().any(|SearchedPath { definition, path, .. }| {
            let values = all_at(self.source, path);
            match definition.get("properties") {
                Some(_) => values.iter().any(|value| has_value(value)),
                None => values.iter().any(|value| is_searched(definition, value)),
            }
        })
    }

    fn matches(&self, field: &str, text: &Value, options: &MatchOptions) -> Result<Option<f64>, Error> {
        if let Some(own) = self.meta(field) {
            return Ok((own == text_of(text)).then_some(1.0));
        }
        if field == "_ignored" {
            return Ok(self.has_term(field, text, false)?.then_some(1.0));
        }
        let is_all = field.contains('*');
        let mut best: Option<f64> = None;
        for searched in self.searched_paths(field) {
            let name = searched.name.as_deref().unwrap_or(field);
            let score = match searched.kind() {
                FieldValueKind::Text => self.match_words(&searched, &text_of(text), options)?,
                _ if options.is_prefix => {
                    let wanted = text_of(text);
                    let wanted = self.normalized(name, &wanted);
                    let mut values = all_at(self.source, &searched.path).into_iter();
                    values.any(|value| text_of(value).starts_with(&*wanted)).then_some(1.0)
                }
                _ => {
                    let found = match self.has_term(name, text, false) {
                        Err(_) if options.is_lenient || is_all => false,
                        other => other?,
                    };
                    found.then_some(1.0)
                }
            };
            best = match (best, score) {
                (Some(best), Some(score)) => Some(best.max(score)),
                (best, score) => best.or(score),
            };
        }
        Ok(best)
    }
}

/// True if a value is not empty throughout.
fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(elements) => elements.iter().any(has_value),
        Value::Object(members) => members.values().any(has_value),
        _ => true,
    }
}

/// A number as a field of its type has it: one of whole numbers drops what is behind the point.
pub(crate) fn stored_number<'v>(definition: &Map<String, Value>, value: &'v Value) -> Cow<'v, Value> {
    let is_whole = matches!(
        type_of(definition),
        "long" | "integer" | "short" | "byte" | "unsigned_long" | "token_count"
    );
    match number_of(value).filter(|number| is_whole && number.fract() != 0.0) {
        Some(number) => Cow::Owned((number.trunc() as i64).into()),
        None => Cow::Borrowed(value),
    }
}

/// Number of a value, or of a text that is one.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// Order of two numbers; whole ones exactly.
pub(crate) fn compare_numbers(left: &Value, right: &Value) -> Option<std::cmp::Ordering> {
    match (whole_number(left), whole_number(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => number_of(left)?.partial_cmp(&number_of(right)?),
    }
}

/// True if an address is in a network, or is the address.
fn is_in_network(address: &str, network: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else { return address == network };
    let bytes = |text: &str| match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => Some(address.octets().to_vec()),
        Ok(std::net::IpAddr::V6(address)) => Some(address.octets().to_vec()),
        Err(_) => None,
    };
    let (Some(address), Some(base), Ok(bits)) = (bytes(address), bytes(base), bits.parse::<usize>()) else {
        return false;
    };
    let bit = |bytes: &[u8], at: usize| bytes.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1);
    address.len() == base.len() && (0..bits).all(|at| bit(&address, at) == bit(&base, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_fields::ReadFields;

    const NOW_MS: i64 = 1_709_528_767_000;

    #[track_caller]
    fn check(query: Value, expected: bool) {
        let source = json!({
            "t": "The quick brown fox", "n": [5, 12], "d": "2024-03-04T05:06:07Z", "b": true, "k": "Exact Value",
            "o": { "p": "deep" }, "ip": "10.1.2.3", "z": null,
        });
        let mut mappings = json!({ "properties": { "k": { "type": "keyword" }, "ip": { "type": "ip" } } });
        let mappings = mappings.as_object_mut().expect("an object");
        let source = source.as_object().expect("an object");
        crate::mapping::fit_in_place(mappings, source).expect("the document fits");
        let document = SearchedDocument {
            index: "test",
            id: "1",
            routing: None,
            version: 1,
            seq_no: 0,
            mappings,
            settings: &BTreeMap::new(),
            analyzers: &IndexAnalyzers::default(),
            source,
            sent: source,
            now_ms: NOW_MS,
            ends: &[],
            is_log: false,
            passes_fields: false,
            words: SearchedWords::default(),
        };
        let parsed = crate::query::parse(&query).expect("the query is one");
        let score = document.score(&parsed, &mut Vec::new()).expect("the query fits the fields");
        assert_eq!(score.is_some(), expected, "{query}");
        let mut fields = ReadFields::NONE;
        fields.add_query(mappings, &parsed);
        let read = fields.read(&Value::Object(source.clone()).to_string()).expect("a document");
        let ends = DateEnds::of_query(&parsed, mappings, NOW_MS);
        let words = SearchedWords::default();
        let document = SearchedDocument { source: &read, ends: &ends, words, ..document };
        let by_fields = document.score(&parsed, &mut Vec::new()).expect("the query fits the fields");
        assert_eq!(by_fields, score, "{query} reads its fields alone");
    }

    #[test]
    fn queries_match() {
        for (query, expected) in [
            (json!({ "match_all": {} }), true),
            (json!({ "match_none": {} }), false),
            (json!({ "ids": { "values": ["1", 2] } }), true),
            (json!({ "term": { "_id": 1 } }), true),
            (json!({ "term": { "t": "quick" } }), true),
            (json!({ "term": { "t": "Quick" } }), false),
            (json!({ "term": { "t.keyword": "The quick brown fox" } }), true),
            (json!({ "term": { "k": "Exact Value" } }), true),
            (json!({ "term": { "k": { "value": "exact value", "case_insensitive": true } } }), true),
            (json!({ "term": { "n": 12 } }), true),
            (json!({ "term": { "n": "12" } }), true),
            (json!({ "term": { "b": true } }), true),
            (json!({ "term": { "ip": "10.1.0.0/16" } }), true),
            (json!({ "term": { "ip": "10.2.0.0/16" } }), false),
            (json!({ "terms": { "n": [1, 5] } }), true),
            (json!({ "match": { "t": "slow fox" } }), true),
            (json!({ "match": { "t": { "query": "slow fox", "operator": "and" } } }), false),
            (json!({ "match": { "t": { "query": "quikc", "fuzziness": 1 } } }), true),
            (
                json!({ "match": { "t": { "query": "quikc", "fuzziness": 1, "fuzzy_transpositions": false } } }),
                false,
            ),
            (json!({ "match": { "t": { "query": "fxo", "fuzziness": "AUTO:4,6" } } }), false),
            (json!({ "match": { "t": { "query": "slick", "fuzziness": 2, "prefix_length": 1 } } }), false),
            (json!({ "match": { "t": { "query": "?!" } } }), false),
            (json!({ "match": { "t": { "query": "?!", "zero_terms_query": "all" } } }), true),
            (json!({ "match_phrase": { "t": "quick brown" } }), true),
            (json!({ "match_phrase": { "t": "brown quick" } }), false),
            (json!({ "match_phrase": { "t": { "query": "quick fox", "slop": 1 } } }), true),
            (json!({ "match_phrase_prefix": { "t": "quick bro" } }), true),
            (json!({ "multi_match": { "query": "deep", "fields": ["t", "o.*"] } }), true),
            (
                json!({ "multi_match": { "query": "deep fox", "fields": ["t", "o.*"], "operator": "and" } }),
                false,
            ),
            (
                json!({ "multi_match": {
                    "query": "deep fox", "fields": ["t", "o.*"], "operator": "and", "type": "cross_fields",
                } }),
                true,
            ),
            (json!({ "range": { "n": { "gt": 5, "lt": 12 } } }), false),
            (json!({ "range": { "n": { "gte": 5, "lt": 12 } } }), true),
            (json!({ "range": { "d": { "gte": "2024-03-04", "lte": "2024-03-04" } } }), true),
            (json!({ "range": { "d": { "gt": "2024-03-04" } } }), false),
            (json!({ "range": { "d": { "gte": "now/d" } } }), true),
            (json!({ "range": { "d": { "lt": "2024-03-04T06:00:00", "time_zone": "UTC" } } }), true),
            (json!({ "range": { "d": { "lt": "2024-03-04T06:00:00", "time_zone": "+01:00" } } }), false),
            (json!({ "range": { "d": { "lt": "2024-03-04T06:00:00Z", "time_zone": "+01:00" } } }), true),
            (json!({ "exists": { "field": "o" } }), true),
            (json!({ "exists": { "field": "z" } }), false),
            (json!({ "prefix": { "k": "Exact" } }), true),
            (json!({ "wildcard": { "k": "E*V?lue" } }), true),
            (json!({ "regexp": { "k": "Ex.*e" } }), true),
            (json!({ "fuzzy": { "t": "foxx" } }), true),
            (json!({ "fuzzy": { "t": { "value": "boxx", "prefix_length": 1, "fuzziness": 2 } } }), false),
            (json!({ "fuzzy": { "t": { "value": "ofx", "transpositions": false } } }), false),
            (json!({ "bool": { "must_not": { "term": { "n": 5 } } } }), false),
            (
                json!({ "bool": { "should": [{ "term": { "n": 1 } }, { "term": { "n": 5 } }], "minimum_should_match": 2 } }),
                false,
            ),
            (json!({ "bool": { "filter": { "term": { "n": 5 } }, "should": { "term": { "n": 1 } } } }), true),
            (json!({ "query_string": { "query": "t:(quick AND fox) -n:7" } }), true),
            (json!({ "query_string": { "query": "n:[6 TO 20] AND k:\"Exact Value\"" } }), true),
            (json!({ "query_string": { "query": "slow" } }), false),
            (json!({ "query_string": { "query": "_exists_:b AND NOT t:slow" } }), true),
        ] {
            check(query, expected);
        }
    }
}
