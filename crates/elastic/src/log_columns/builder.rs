//! Making of columns, document by document.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{JoinedTexts, LogColumn, LogColumnName, MemberColumn, MemberValues, TimeColumn, span_of};
use crate::dates::DateText;
use crate::fields::all_at;
use crate::kept_hits::members_bytes;
use crate::unread::unread_text;

/// Different values of a column whose values repeat, at most: as many as a byte can number.
const DIFFERENT_MAX: usize = 256;

/// Bytes of the members of a chunk that are kept, about.
const BYTES_MAX: usize = 4 << 20;

/// Builder of a column.
pub(crate) enum ColumnBuilder {
    Members(MemberBuilder),
    Times(TimeBuilder),
    SeqNos(Vec<i64>),
}

impl ColumnBuilder {
    pub(crate) fn new(name: &LogColumnName) -> Self {
        match name {
            LogColumnName::Members(source_paths) => ColumnBuilder::Members(MemberBuilder {
                source_paths: source_paths.clone(),
                ..MemberBuilder::default()
            }),
            LogColumnName::Times { source_path, format } => ColumnBuilder::Times(TimeBuilder {
                source_path: source_path.clone(),
                format: format.clone(),
                millis: Some(Vec::new()),
            }),
            LogColumnName::SeqNos => ColumnBuilder::SeqNos(Vec::new()),
        }
    }

    /// Adds the document of the next row, of which it reads the fields of the column, with its sequence
    /// number.
    pub(crate) fn push(&mut self, document: &Map<String, Value>, seq_no: i64) {
        match self {
            ColumnBuilder::Members(builder) => builder.push(document),
            ColumnBuilder::Times(builder) => builder.push(document),
            ColumnBuilder::SeqNos(numbers) => numbers.push(seq_no),
        }
    }

    /// The column.
    pub(crate) fn finish(self) -> LogColumn {
        match self {
            ColumnBuilder::Members(builder) => builder.finish(),
            ColumnBuilder::Times(builder) => match builder.millis {
                Some(millis) => LogColumn::Times(TimeColumn::new(millis)),
                None => LogColumn::Unfit,
            },
            ColumnBuilder::SeqNos(numbers) => LogColumn::SeqNos(numbers),
        }
    }
}

/// Builder of a column of times.
pub(crate) struct TimeBuilder {
    source_path: String,
    format: Option<String>,
    /// `None` once a row has no time, or several.
    millis: Option<Vec<i64>>,
}

impl TimeBuilder {
    fn push(&mut self, document: &Map<String, Value>) {
        let Some(millis) = &mut self.millis else { return };
        let time = match all_at(document, &self.source_path).as_slice() {
            [value] => DateText::parse_value(value, self.format.as_deref()),
            _ => None,
        };
        match time {
            Some(time) => millis.push(time),
            None => self.millis = None,
        }
    }
}

/// Builder of a column of members.
#[derive(Default)]
pub(crate) struct MemberBuilder {
    source_paths: Vec<String>,
    different: Vec<Map<String, Value>>,
    /// Numbers of the different members by their texts.
    by_text: HashMap<String, u8>,
    numbers: Vec<u8>,
    /// Members of each row, once there are too many different ones.
    rows: Option<Vec<Map<String, Value>>>,
    bytes: usize,
}

impl MemberBuilder {
    fn push(&mut self, document: &Map<String, Value>) {
        if self.bytes > BYTES_MAX {
            return;
        }
        let source_paths: Vec<&str> = self.source_paths.iter().map(String::as_str).collect();
        let own = parts_at(document, &source_paths);
        if let Some(rows) = &mut self.rows {
            self.bytes += members_bytes(&own);
            rows.push(own);
            return;
        }
        let own = Value::Object(own);
        let text = own.to_string();
        let Value::Object(own) = own else { return };
        if let Some(number) = self.by_text.get(&text) {
            self.numbers.push(*number);
        } else if let Ok(number) = u8::try_from(self.different.len()) {
            self.bytes += members_bytes(&own) + text.len();
            self.by_text.insert(text, number);
            self.numbers.push(number);
            self.different.push(own);
        } else {
            self.by_text.clear();
            let (different, numbers) =
                (std::mem::take(&mut self.different), std::mem::take(&mut self.numbers));
            let sizes: Vec<usize> = different.iter().map(members_bytes).collect();
            let before: usize = numbers.iter().map(|number| sizes[usize::from(*number)]).sum();
            self.bytes = before + members_bytes(&own);
            // A large value of many rows would be copied for each of them.
            if self.bytes <= BYTES_MAX {
                let before = numbers.into_iter().map(|number| different[usize::from(number)].clone());
                self.rows = Some(before.chain([own]).collect());
            }
        }
    }

    fn finish(self) -> LogColumn {
        assert!(self.different.len() <= DIFFERENT_MAX, "a byte numbers the different members");
        if self.bytes > BYTES_MAX {
            return LogColumn::Unfit;
        }
        let Some(rows) = self.rows else {
            let bytes = self.bytes + self.numbers.len();
            let mut texts = vec![String::new(); self.different.len()];
            self.by_text.into_iter().for_each(|(text, number)| texts[usize::from(number)] = text);
            let values = MemberValues::Repeated { different: self.different, texts, numbers: self.numbers };
            return LogColumn::Members(MemberColumn { values, bytes });
        };
        let (values, bytes) = match joined(&rows) {
            Some(joined) => joined,
            None => (MemberValues::Single(rows), self.bytes),
        };
        LogColumn::Members(MemberColumn { values, bytes })
    }
}

/// Rows that have one text each at the same path, or one whole number each.
fn joined(rows: &[Map<String, Value>]) -> Option<(MemberValues, usize)> {
    let (first, _) = only_value(rows.first()?)?;
    let own = |row| only_value(row).filter(|(names, _)| *names == first).map(|(_, value)| value);
    let values: Vec<&Value> = rows.iter().map(own).collect::<Option<_>>()?;
    let names = || first.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    if let Some(numbers) = values.iter().map(|value| value.as_i64()).collect::<Option<Vec<i64>>>() {
        let bytes = numbers.len() * size_of::<i64>();
        let span = span_of(&numbers);
        return Some((MemberValues::Whole { names: names(), numbers, span }, bytes));
    }
    let texts: Vec<&str> = values.iter().map(|value| value.as_str()).collect::<Option<_>>()?;
    let texts = JoinedTexts::new(texts.into_iter());
    let bytes = texts.bytes();
    Some((MemberValues::Texts { names: names(), texts }, bytes))
}

/// The only value of a document, with the names of the objects that it is in; `None` if there are others.
fn only_value(document: &Map<String, Value>) -> Option<(Vec<&str>, &Value)> {
    let (mut members, mut names) = (document, Vec::new());
    loop {
        let (Some((name, value)), 1) = (members.iter().next(), members.len()) else { return None };
        names.push(name.as_str());
        match value {
            Value::Object(below) if unread_text(below).is_none() => members = below,
            other => return Some((names, other)),
        }
    }
}

/// Parts of a document that are at some paths, or on the way to one.
fn parts_at(document: &Map<String, Value>, source_paths: &[&str]) -> Map<String, Value> {
    let mut parts = Map::new();
    for (name, value) in document {
        if source_paths.contains(&name.as_str()) {
            parts.insert(name.clone(), value.clone());
            continue;
        }
        let below = source_paths
            .iter()
            .filter_map(|source_path| source_path.strip_prefix(name.as_str())?.strip_prefix('.'));
        let below: Vec<&str> = below.collect();
        if !below.is_empty() {
            parts.insert(name.clone(), part_of(value, &below));
        }
    }
    parts
}

/// Part of a value that is at some paths. A value that has no parts is kept: a field can have several names.
fn part_of(value: &Value, source_paths: &[&str]) -> Value {
    match value {
        Value::Object(members) => Value::Object(parts_at(members, source_paths)),
        Value::Array(elements) => {
            Value::Array(elements.iter().map(|element| part_of(element, source_paths)).collect())
        }
        other => other.clone(),
    }
}
