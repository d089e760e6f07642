//! Fields of documents that a search reads. The members without them are passed over when a document is
//! parsed, which takes several times as long for all of them.

use std::collections::BTreeSet;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::aggregations::RequestedAggregation;
use crate::mapping::{field_at, searched_at};
use crate::query::SearchQuery;
use crate::query_nearest::NearestStage;
use crate::searched_form::copied_to;
use crate::unread;

/// Parts of a hit that are not in the text of its document, unless its mapping has a field of the name.
const BESIDE_DOCUMENTS: [&str; 5] = ["_id", "_index", "_routing", "_version", "_seq_no"];

/// Source paths that are read apart from others. To compare each member with more takes as long as reading
/// it.
const PATHS_MAX: usize = 32;

/// Fields of the documents of an index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReadFields {
    /// All of them.
    All,
    /// Those at these source paths, and below them.
    At(Vec<String>),
}

impl ReadFields {
    /// No fields.
    pub(crate) const NONE: ReadFields = ReadFields::At(Vec::new());

    /// Source paths that are read; `None`: all.
    pub(crate) fn source_paths(&self) -> Option<&[String]> {
        match self {
            ReadFields::All => None,
            ReadFields::At(source_paths) => Some(source_paths),
        }
    }

    /// True if none is read.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, ReadFields::At(source_paths) if source_paths.is_empty())
    }

    /// These fields and others.
    pub(crate) fn with(self, other: Self) -> Self {
        match (self, other) {
            (ReadFields::At(mut source_paths), ReadFields::At(others)) => {
                add_new(&mut source_paths, others);
                ReadFields::At(source_paths)
            }
            _ => ReadFields::All,
        }
    }

    /// Adds a field by the name that a search has for it.
    pub(crate) fn add(&mut self, mappings: &Map<String, Value>, field: &str) {
        if BESIDE_DOCUMENTS.contains(&field) && field_at(mappings, field).is_none() {
            return;
        }
        // Patterns name several fields, and others with an underscore depend on the whole document.
        let ReadFields::At(source_paths) = self else { return };
        if field.is_empty() || field.starts_with('_') || field.contains('*') {
            *self = ReadFields::All;
            return;
        }
        let source_path = field_at(mappings, field).map(|(_, source_path)| source_path);
        // Of a field that the mapping lacks, the whole of a text may be meant.
        let whole = field.strip_suffix(".keyword").filter(|_| source_path.is_none()).map(str::to_owned);
        let of_form = searched_at(mappings, field, true).map(|(_, source_path)| source_path);
        let own = std::iter::once(field.to_owned()).chain(source_path).chain(whole).chain(of_form);
        let own: Vec<String> = own.collect();
        let copied = copied_to(mappings, &own);
        add_new(source_paths, own.into_iter().chain(copied));
        if source_paths.len() > PATHS_MAX {
            *self = ReadFields::All;
        }
    }

    /// Adds the fields of a query.
    pub(crate) fn add_query(&mut self, mappings: &Map<String, Value>, query: &SearchQuery) {
        // A query may have thousands of clauses for one field.
        let mut names = BTreeSet::new();
        match add_names(query, &mut names) {
            true => names.into_iter().for_each(|name| self.add(mappings, name)),
            false => *self = ReadFields::All,
        }
    }

    /// Adds the fields of aggregations.
    pub(crate) fn add_aggregations(
        &mut self,
        mappings: &Map<String, Value>,
        requested: &[RequestedAggregation],
    ) {
        for one in requested {
            match one.fields() {
                Some(fields) => fields.iter().for_each(|field| self.add(mappings, field)),
                None => *self = ReadFields::All,
            }
        }
    }

    /// True if a member of a document has one of the fields, or a part of one.
    pub(crate) fn has(&self, member: &str) -> bool {
        let is_above = |source_path: &String| {
            let rest = source_path.strip_prefix(member);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        match self {
            ReadFields::All => true,
            ReadFields::At(source_paths) => source_paths.iter().any(is_above),
        }
    }

    /// Reads the members of a document that have one of the fields.
    ///
    /// # Errors
    /// The text is not JSON, or another value than an object.
    pub(crate) fn read(&self, text: &str) -> Result<Map<String, Value>, serde_json::Error> {
        if *self == ReadFields::All {
            return unread::read_document(text);
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = deserializer.deserialize_map(MembersVisitor(self)).and_then(|members| {
            deserializer.end()?;
            Ok(members)
        });
        match read {
            Ok(members) => Ok(members),
            // Parts of it may be what no tree of values can hold.
            Err(_) => unread::read_document(text),
        }
    }
}

/// Adds the names of the fields that a query reads; false if it reads whole documents.
fn add_names<'q>(query: &'q SearchQuery, names: &mut BTreeSet<&'q str>) -> bool {
    let mut all = |queries: &'q [SearchQuery]| queries.iter().all(|query| add_names(query, names));
    match query {
        SearchQuery::All | SearchQuery::None | SearchQuery::Ids(_) => true,
        SearchQuery::Bool(query) => {
            [&query.must, &query.filter, &query.must_not, &query.should].into_iter().all(|of| all(of))
        }
        SearchQuery::Best { queries, .. } => all(queries),
        SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => add_names(query, names),
        // Ids and scores are known without the documents.
        SearchQuery::Nearest(query) if query.stage != NearestStage::Compared => true,
        SearchQuery::Nearest(query) => {
            names.insert(&query.field);
            query.filter.as_ref().is_none_or(|filter| add_names(filter, names))
        }
        leaf => leaf.single_field().is_some_and(|field| {
            names.insert(field);
            true
        }),
    }
}

/// Adds the paths that a list does not have.
fn add_new(source_paths: &mut Vec<String>, others: impl IntoIterator<Item = String>) {
    for source_path in others {
        if !source_paths.contains(&source_path) {
            source_paths.push(source_path);
        }
    }
}

/// Visitor of the members of a document.
struct MembersVisitor<'r>(&'r ReadFields);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key_seed(NameSeed(self.0))? {
            match name {
                Some(name) => {
                    members.insert(name, access.next_value()?);
                }
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(members)
    }
}

/// Reader of the name of a member; `None`: it is passed over.
struct NameSeed<'r>(&'r ReadFields);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.has(name).then(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_with_a_field_are_read() {
        let text =
            r#"{"a":1,"a.b":{"c":2},"ab":3,"o":{"p":[4,{"q":5}]},"x\u0061":"y","z":"\ud800","n":1e999}"#;
        let whole = unread::read_document(text).expect("a document");
        for (fields, expected) in [
            (vec![], vec![]),
            (vec!["a"], vec!["a"]),
            (vec!["a.b.c"], vec!["a", "a.b"]),
            (vec!["o.p.q", "ab"], vec!["ab", "o"]),
            (vec!["xa"], vec!["xa"]),
            (vec!["missing"], vec![]),
        ] {
            let read = ReadFields::At(fields.iter().map(|field| (*field).to_owned()).collect());
            let members = read.read(text).expect("a document");
            let expected: Map<String, Value> =
                expected.iter().map(|name| ((*name).to_owned(), whole[*name].clone())).collect();
            assert_eq!(members, expected, "{fields:?}");
        }
        // What no tree of values can hold is read as the whole document is.
        let read = ReadFields::At(vec!["n".to_owned()]).read(text).expect("a document");
        assert_eq!(read["n"], whole["n"]);
        assert_eq!(ReadFields::All.read(text).expect("a document"), whole);
        for text in ["", "[]", "1", "{", r#"{"a":1}}"#, r#"{"a" 1}"#] {
            assert!(ReadFields::NONE.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_fields_have_source_paths() {
        let mappings = json!({ "properties": {
            "t": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
            "other": { "type": "alias", "path": "o.p" },
            "o": { "properties": { "p": { "type": "long" } } }, "_version": { "type": "long" },
        } });
        let mappings = mappings.as_object().expect("an object");
        let query = |query: Value| {
            let mut fields = ReadFields::NONE;
            fields.add_query(mappings, &crate::query::parse(&query).expect("the query is one"));
            fields
        };
        let read = |fields: &ReadFields| {
            let members = fields.read(r#"{"t":1,"o":{"p":2},"u":3}"#).expect("a document");
            members.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        for (requested, expected) in [
            (json!({ "match_all": {} }), ""),
            (json!({ "ids": { "values": ["1"] } }), ""),
            (json!({ "term": { "_id": "1" } }), ""),
            (json!({ "term": { "_version": 1 } }), "t o u"),
            (json!({ "term": { "_score": 1 } }), "t o u"),
            (json!({ "term": { "t.raw": "1" } }), "t"),
            (json!({ "range": { "other": { "gt": 1 } } }), "o"),
            (json!({ "exists": { "field": "u" } }), "u"),
            (json!({ "exists": { "field": "u.keyword" } }), "u"),
            (
                json!({ "bool": { "must_not": { "prefix": { "t": "1" } }, "should": { "term": { "u": 1 } } } }),
                "t u",
            ),
            (json!({ "constant_score": { "filter": { "wildcard": { "t": "1*" } } } }), "t"),
            (json!({ "multi_match": { "query": "x", "fields": ["t", "o.*"] } }), "t o u"),
            (json!({ "query_string": { "query": "x" } }), "t o u"),
            (json!({ "exists": { "field": "_ignored" } }), "t o u"),
        ] {
            assert_eq!(read(&query(requested.clone())), expected, "{requested}");
        }
        let of_many = |name: &dyn Fn(usize) -> String| {
            let clauses = (0..100).map(|n| json!({ "exists": { "field": name(n) } }));
            read(&query(json!({ "bool": { "should": clauses.collect::<Vec<_>>() } })))
        };
        assert_eq!(of_many(&|_| "u".to_owned()), "u", "each path is looked for once");
        assert_eq!(of_many(&|n| format!("f{n}")), "t o u", "of many fields all are read");
    }
}
