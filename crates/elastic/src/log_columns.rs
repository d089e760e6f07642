//! Columns of the fields of logs: what searches have read of the documents of a chunk, kept for the next
//! ones.
//!
//! The store has the texts of logs, and no type of a field is agreed on. A search that needs a field of a
//! chunk reads the texts of its documents once, and keeps of each document the members that have the field.
//! Each chunk has the columns that its own documents make: values that repeat are kept once, with the number
//! of that of each row; texts and whole numbers of all rows lie one after the other. All else is kept as it
//! is. So a condition on the members of a row has the answer that the whole document has, whatever their
//! shape.

mod builder;
mod classes;
mod recent;
mod rows;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem::Finder;
use millrace_column::ChunkIdentity;
use quick_cache::{UnitWeighter, Weighter};
use serde_json::{Map, Value};

pub(crate) use self::builder::ColumnBuilder;
pub(crate) use self::classes::{RowDimension, RowTally};
use self::recent::RecentColumns;
pub(crate) use self::rows::RowSet;
use crate::Error;
use crate::catalog::now_ms;
use crate::partitions::TimeSpan;
use crate::read_fields::ReadFields;

/// Content of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LogColumnName {
    /// Members of the documents that are at some source paths, or on the way to one.
    Members(Vec<String>),
    /// Times at a source path, by the format of the field.
    Times { source_path: String, format: Option<String> },
    /// Sequence numbers of the documents.
    SeqNos,
}

impl LogColumnName {
    /// Fields that are read for it.
    pub(crate) fn fields(&self) -> ReadFields {
        match self {
            LogColumnName::Members(source_paths) => ReadFields::At(source_paths.clone()),
            LogColumnName::Times { source_path, .. } => ReadFields::At(vec![source_path.clone()]),
            LogColumnName::SeqNos => ReadFields::NONE,
        }
    }

    /// Bytes of its texts: searches may name fields of any length.
    fn bytes(&self) -> usize {
        match self {
            LogColumnName::Members(source_paths) => source_paths.iter().map(String::len).sum(),
            LogColumnName::Times { source_path, format } => {
                source_path.len() + format.as_ref().map_or(0, String::len)
            }
            LogColumnName::SeqNos => 0,
        }
    }
}

/// A column of a chunk.
#[derive(Debug)]
pub(crate) enum LogColumn {
    Members(MemberColumn),
    Times(TimeColumn),
    SeqNos(Vec<i64>),
    /// Not made: a row has no time or several, or the values take too much memory.
    Unfit,
}

impl LogColumn {
    /// Bytes that it takes, about.
    fn bytes(&self) -> usize {
        match self {
            LogColumn::Members(column) => column.bytes,
            LogColumn::Times(column) => column.millis.len() * size_of::<i64>(),
            LogColumn::SeqNos(numbers) => numbers.len() * size_of::<i64>(),
            LogColumn::Unfit => 0,
        }
    }
}

/// Times of the rows of a chunk, in milliseconds since 1970: each row has one.
#[derive(Debug)]
pub(crate) struct TimeColumn {
    pub(crate) millis: Vec<i64>,
    /// First and last one.
    span: TimeSpan,
}

impl TimeColumn {
    fn new(millis: Vec<i64>) -> Self {
        TimeColumn { span: span_of(&millis), millis }
    }

    /// Rows among others whose times are in a span.
    pub(crate) fn within(&self, span: TimeSpan, among: &RowSet) -> RowSet {
        if span.0 <= self.span.0 && self.span.1 <= span.1 {
            return among.clone();
        }
        if self.span.1 < span.0 || span.1 < self.span.0 {
            return RowSet::none(among.len());
        }
        among.keep_each(|row| self.millis.get(row).is_some_and(|time| (span.0..=span.1).contains(time)))
    }
}

/// The least number and the greatest; those of none are in the wrong order.
fn span_of(numbers: &[i64]) -> (i64, i64) {
    let least = numbers.iter().copied().min().unwrap_or(i64::MAX);
    (least, numbers.iter().copied().max().unwrap_or(i64::MIN))
}

/// Members of the documents of a chunk.
#[derive(Debug)]
pub(crate) struct MemberColumn {
    values: MemberValues,
    bytes: usize,
}

#[derive(Debug)]
enum MemberValues {
    /// Members that repeat, each once with its text, and for each row the number of its own.
    Repeated { different: Vec<Map<String, Value>>, texts: Vec<String>, numbers: Vec<u8> },
    /// A text in each row, with the names of the objects around it.
    Texts { names: Vec<String>, texts: JoinedTexts },
    /// A whole number in each row, with the least and the greatest of all.
    Whole { names: Vec<String>, numbers: Vec<i64>, span: (i64, i64) },
    /// Members of each row.
    Single(Vec<Map<String, Value>>),
}

/// Texts, one after the other.
#[derive(Debug)]
struct JoinedTexts {
    text: String,
    /// The joined texts with ASCII letters in lower case.
    folded: String,
    /// End of each text.
    ends: Vec<usize>,
}

impl JoinedTexts {
    fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for one in texts {
            text.push_str(one);
            ends.push(text.len());
        }
        text.shrink_to_fit();
        JoinedTexts { folded: text.to_ascii_lowercase(), text, ends }
    }

    fn bytes(&self) -> usize {
        2 * self.text.len() + self.ends.len() * size_of::<usize>()
    }

    fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn get(&self, row: usize) -> &str {
        &self.text[self.start(row)..self.ends[row]]
    }

    /// Rows whose text, in small letters, may have one of some parts: all that have, and all with letters
    /// that ASCII lacks.
    fn with_any(&self, parts: &[String]) -> RowSet {
        if parts.iter().any(String::is_empty) {
            return RowSet::all(self.ends.len());
        }
        let mut rows = RowSet::none(self.ends.len());
        if !self.text.is_ascii() {
            let others = (0..self.ends.len()).filter(|row| !self.get(*row).is_ascii());
            others.for_each(|row| rows.insert(row));
        }
        for part in parts {
            let finder = Finder::new(part);
            let mut from = 0;
            while let Some(at) = finder.find(&self.folded.as_bytes()[from..]).map(|at| from + at) {
                let row = self.ends.partition_point(|end| *end <= at);
                let end = self.ends.get(row).copied().unwrap_or(self.text.len());
                match at + part.len() <= end {
                    true => {
                        rows.insert(row);
                        from = end;
                    }
                    // It begins in one text and ends in another.
                    false => from = at + 1,
                }
            }
        }
        rows
    }
}

impl MemberColumn {
    /// Members of a row.
    pub(crate) fn document(&self, row: usize) -> Cow<'_, Map<String, Value>> {
        match &self.values {
            MemberValues::Repeated { different, numbers, .. } => {
                Cow::Borrowed(&different[usize::from(numbers[row])])
            }
            MemberValues::Texts { names, texts } => Cow::Owned(member_at(names, texts.get(row).into())),
            MemberValues::Whole { names, numbers, .. } => Cow::Owned(member_at(names, numbers[row].into())),
            MemberValues::Single(documents) => Cow::Borrowed(&documents[row]),
        }
    }

    /// Rows among others whose members match. Where each row has one text, only those are looked at whose
    /// text may have one of some parts, in small letters.
    ///
    /// # Errors
    /// That of `matches`.
    pub(crate) fn matching(
        &self,
        among: &RowSet,
        parts: Option<&[String]>,
        mut matches: impl FnMut(&Map<String, Value>) -> Result<bool, Error>,
    ) -> Result<RowSet, Error> {
        if let MemberValues::Repeated { different, numbers, .. } = &self.values {
            let mut is_used = vec![false; different.len()];
            among.iter().for_each(|row| is_used[usize::from(numbers[row])] = true);
            let mut is_match = vec![false; different.len()];
            for ((document, is_match), _) in
                different.iter().zip(&mut is_match).zip(is_used).filter(|(_, is_used)| *is_used)
            {
                *is_match = matches(document)?;
            }
            return Ok(among.keep_each(|row| is_match[usize::from(numbers[row])]));
        }
        let mut looked_at = among.clone();
        if let (MemberValues::Texts { texts, .. }, Some(parts)) = (&self.values, parts) {
            looked_at.retain(&texts.with_any(parts));
        }
        let mut rows = RowSet::none(among.len());
        for row in looked_at.iter() {
            if matches(&self.document(row))? {
                rows.insert(row);
            }
        }
        Ok(rows)
    }
}

/// A value with the names of the objects that it is in.
fn member_at(names: &[String], value: Value) -> Map<String, Value> {
    let mut members = Map::new();
    if let Some((name, below)) = names.split_first() {
        let value = if below.is_empty() { value } else { Value::Object(member_at(below, value)) };
        members.insert(name.clone(), value);
    }
    members
}

/// Adds the parts of a document that another column has.
pub(crate) fn add_members(own: &mut Map<String, Value>, others: &Map<String, Value>) {
    for (name, other) in others {
        match own.get_mut(name) {
            None => {
                own.insert(name.clone(), other.clone());
            }
            Some(own) => add_parts(own, other),
        }
    }
}

fn add_parts(own: &mut Value, other: &Value) {
    match (own, other) {
        (Value::Object(own), Value::Object(others)) => add_members(own, others),
        // Both have all elements of the document.
        (Value::Array(own), Value::Array(others)) => {
            own.iter_mut().zip(others).for_each(|(own, other)| add_parts(own, other));
        }
        _ => {}
    }
}

/// Columns that were made lately, up to a number of bytes, and the names of those that searches have read.
pub(crate) struct LogColumnCache {
    columns: quick_cache::sync::Cache<LogColumnKey, Arc<LogColumn>, LogColumnWeigher>,
    /// Columns that were made ahead of searches, those that were dropped since among them.
    made_ahead: quick_cache::sync::Cache<LogColumnKey, ()>,
    read: RecentColumns,
}

type LogColumnKey = (ChunkIdentity, Arc<LogColumnName>);

/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: usize = 192;
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 256;

/// Columns that are known to have been made ahead of searches, at most.
const AHEAD_MAX: u64 = 1 << 16;

#[derive(Clone)]
struct LogColumnWeigher;

impl Weighter<LogColumnKey, Arc<LogColumn>> for LogColumnWeigher {
    fn weight(&self, (_, name): &LogColumnKey, column: &Arc<LogColumn>) -> u64 {
        (name.bytes() + column.bytes() + ENTRY_BYTES) as u64
    }
}

impl LogColumnCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let columns = quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, bytes, LogColumnWeigher);
        let made_ahead = quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, AHEAD_MAX, UnitWeighter);
        LogColumnCache { columns, made_ahead, read: RecentColumns::default() }
    }

    pub(crate) fn get(&self, chunk: ChunkIdentity, name: &Arc<LogColumnName>) -> Option<Arc<LogColumn>> {
        self.columns.get(&(chunk, Arc::clone(name)))
    }

    pub(crate) fn insert(&self, chunk: ChunkIdentity, name: &Arc<LogColumnName>, column: Arc<LogColumn>) {
        self.columns.insert((chunk, Arc::clone(name)), column);
    }

    /// True if it lacks a column that was not made ahead of searches before. Those that have no room here
    /// would otherwise be made again and again.
    pub(crate) fn is_wanted_ahead(&self, chunk: ChunkIdentity, name: &Arc<LogColumnName>) -> bool {
        let key = (chunk, Arc::clone(name));
        !self.columns.contains_key(&key) && !self.made_ahead.contains_key(&key)
    }

    /// Notes that a column is made ahead of searches.
    pub(crate) fn note_ahead(&self, chunk: ChunkIdentity, name: &Arc<LogColumnName>) {
        self.made_ahead.insert((chunk, Arc::clone(name)), ());
    }

    /// Notes that a search reads columns of an index, by its id.
    pub(crate) fn note_read<'n>(&self, index: &str, names: impl Iterator<Item = &'n Arc<LogColumnName>>) {
        self.read.note(index, names, now_ms());
    }

    /// True if searches have read columns lately, and some are kept.
    pub(crate) fn is_read(&self) -> bool {
        self.columns.capacity() > 0 && !self.read.is_empty(now_ms())
    }

    /// Columns of an index that searches have read lately.
    pub(crate) fn read_of(&self, index: &str) -> Vec<Arc<LogColumnName>> {
        self.read.of(index, now_ms())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::all_at;

    fn column(source_paths: &[&str], documents: &[Value]) -> LogColumn {
        let source_paths = source_paths.iter().map(|source_path| (*source_path).to_owned()).collect();
        let mut builder = ColumnBuilder::new(&LogColumnName::Members(source_paths));
        documents.iter().for_each(|document| builder.push(document.as_object().expect("an object"), 0));
        builder.finish()
    }

    fn members(source_paths: &[&str], documents: &[Value]) -> MemberColumn {
        match column(source_paths, documents) {
            LogColumn::Members(column) => column,
            other => panic!("the members of {source_paths:?} are kept: {other:?}"),
        }
    }

    #[test]
    fn a_column_has_the_values_of_its_documents() {
        let shapes = [
            json!({ "a": 1, "x": "y" }),
            json!({ "a": { "b": "deep", "c": 5 } }),
            json!({ "a.b": "dotted", "a": { "b": ["first", { "b": 2 }] } }),
            json!({ "a": [{ "b": 1, "c": 2 }, { "b": null }, "scalar", [{ "b": 3.5 }]] }),
            json!({ "a": null }),
            json!({}),
        ];
        let many = |value: &dyn Fn(usize) -> Value| (0..600).map(value).collect::<Vec<Value>>();
        let kinds = [
            ("Repeated", shapes.to_vec()),
            ("Repeated", many(&|n| shapes[n % shapes.len()].clone())),
            ("Whole", many(&|n| json!({ "a": { "b": n }, "x": 1 }))),
            ("Texts", many(&|n| json!({ "x": 1, "a.b": format!("Text Ä{n}") }))),
            ("Single", many(&|n| json!({ "a": { "b": [n] } }))),
            ("Single", many(&|n| if n == 300 { json!({ "a": { "b": n } }) } else { json!({ "a.b": n }) })),
            ("Single", many(&|n| if n == 599 { json!({}) } else { json!({ "a": { "b": n.to_string() } }) })),
        ];
        for (kind, documents) in kinds {
            let column = members(&["a.b"], &documents);
            assert!(format!("{column:?}").contains(kind), "{kind}");
            for (row, document) in documents.iter().enumerate() {
                let document = document.as_object().expect("an object");
                let own = column.document(row);
                assert_eq!(all_at(&own, "a.b"), all_at(document, "a.b"), "{kind}, row {row}");
                assert!(!own.contains_key("x"), "{kind}, row {row}: {own:?}");
            }
            let mut looked_at = 0;
            let rows = column.matching(&RowSet::all(documents.len()), None, |own| {
                looked_at += 1;
                Ok(all_at(own, "a.b").len() == 1)
            });
            let rows: Vec<usize> = rows.expect("no condition fails").iter().collect();
            let has_one = |row: &usize| all_at(documents[*row].as_object().expect("one"), "a.b").len() == 1;
            assert_eq!(rows, (0..documents.len()).filter(has_one).collect::<Vec<_>>(), "{kind}");
            assert!(looked_at <= documents.len() && (kind != "Repeated" || looked_at <= shapes.len()));
        }
    }

    #[test]
    fn columns_of_one_document_make_it_up() {
        let document = json!({
            "a": { "b": 1, "c": { "d": 2, "e": 3 } }, "f": [{ "g": 4, "h": 5 }, 6, { "g": 7 }], "i": "j", "k": 8,
        });
        let mut own = Map::new();
        for source_path in ["a.b", "f.g", "a.c.e", "i", "f.h", "missing", "a.c"] {
            add_members(&mut own, &members(&[source_path], std::slice::from_ref(&document)).document(0));
        }
        let mut expected = document;
        expected.as_object_mut().expect("an object").remove("k");
        assert_eq!(Value::Object(own), expected);
    }

    #[test]
    fn texts_are_passed_over_that_lack_a_part() {
        let texts = ["none", "Over", "flow", "an OVERFLOW", "overflow", "", "Überflow", "x", "overflowover"];
        let documents: Vec<Value> =
            (0..70).flat_map(|n| texts.map(|text| json!({ "t": format!("{text}{n:03}") }))).collect();
        let column = members(&["t"], &documents);
        // The last one begins in one text and ends in the next.
        let parts = ["overflow", "none06", "over000flow"].map(str::to_owned);
        let mut looked_at = Vec::new();
        let all = RowSet::all(documents.len());
        let rows = column.matching(&all, Some(&parts), |own| {
            looked_at.push(own["t"].as_str().unwrap_or_default().to_owned());
            Ok(true)
        });
        let expected: Vec<&str> = documents.iter().filter_map(|document| document["t"].as_str()).collect();
        let may_have = |text: &&&str| {
            let folded = text.to_lowercase();
            !text.is_ascii() || parts.iter().any(|part| folded.contains(part.as_str()))
        };
        assert_eq!(looked_at, expected.iter().filter(may_have).copied().collect::<Vec<_>>());
        assert_eq!(rows.expect("no condition fails").count(), looked_at.len());
    }

    #[test]
    fn times_are_found_by_their_span() {
        let name = LogColumnName::Times { source_path: "t".to_owned(), format: None };
        let times = |values: &[Value]| {
            let mut builder = ColumnBuilder::new(&name);
            for value in values {
                builder.push(json!({ "t": value }).as_object().expect("an object"), 0);
            }
            builder.finish()
        };
        let LogColumn::Times(column) = times(&[json!(5), json!("1970-01-01T00:00:01Z"), json!([300])]) else {
            panic!("each row has a time");
        };
        let all = RowSet::all(3);
        for (span, expected) in
            [((0, 9), vec![0]), ((5, 1_000), vec![0, 1, 2]), ((6, 999), vec![2]), ((2_000, 9_000), vec![])]
        {
            assert_eq!(column.within(span, &all).iter().collect::<Vec<_>>(), expected, "{span:?}");
        }
        for odd in [json!(null), json!([1, 2]), json!("soon"), json!({ "u": 1 })] {
            assert!(matches!(times(&[json!(5), odd.clone()]), LogColumn::Unfit), "{odd}");
        }
    }

    #[test]
    fn what_takes_too_much_is_not_kept() {
        let text = "x".repeat(10_000);
        let documents: Vec<Value> = (0..1_000).map(|n| json!({ "t": format!("{text}{n}") })).collect();
        assert!(matches!(column(&["t"], &documents), LogColumn::Unfit));
        let documents: Vec<Value> = (0..1_000).map(|n| json!({ "t": text.clone(), "n": n })).collect();
        assert!(column(&["t"], &documents).bytes() < 40_000, "the text is kept once");
        // Few different texts, until there is one too many.
        let text = |n: usize| if n < 900 { 0 } else { n };
        let documents: Vec<Value> =
            (0..1_160).map(|n| json!({ "t": format!("{}{}", "x".repeat(5_000), text(n)) })).collect();
        assert!(matches!(column(&["t"], &documents), LogColumn::Unfit));
        let key = |name: LogColumnName| -> LogColumnKey { (ChunkIdentity::Rows(1), Arc::new(name)) };
        let named = key(LogColumnName::Members(vec!["n".repeat(5_000), "m".repeat(5_000)]));
        let column = Arc::new(LogColumn::Unfit);
        assert!(LogColumnWeigher.weight(&named, &column) > 10_000, "names are counted");
        let format = Some("f".repeat(5_000));
        let named = key(LogColumnName::Times { source_path: "t".to_owned(), format });
        assert!(LogColumnWeigher.weight(&named, &column) > 5_000, "so are formats");
    }
}
