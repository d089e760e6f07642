//! The first documents in an order other than relevance.

mod first_values;

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, View, read_value};
use millrace_document::{DataType, ValueRef};
use millrace_matching::{MatchedDocuments, SingleValueReader, single_values_at};
use millrace_plan::{MissingOrder, Plan, QueryMemory, QueryMemoryError, SortBy, SortColumn, TextOrder};
use millrace_ranking::RankedHit;
use millrace_result::SortValue;

use crate::Error;
use crate::sort_bound::{SortBound, ValueBound};
use crate::sort_key::{self, TextKeys};

/// Number of matched chunks whose columns are read together.
const CHUNKS_PER_READ: usize = 32;

/// A document in the order of the hits.
#[derive(Debug, Clone, PartialEq)]
pub struct SortedHit {
    /// Values that it is sorted by.
    pub keys: Vec<SortValue>,
    /// Its score; 0 if nothing was ranked.
    pub score: f64,
    /// The chunk's number in the view.
    pub chunk: usize,
    /// The document's index in the chunk.
    pub document: u16,
}

impl From<RankedHit> for SortedHit {
    /// A hit in the order of the scores.
    fn from(RankedHit { chunk, document, score }: RankedHit) -> Self {
        SortedHit { keys: Vec::new(), score, chunk, document }
    }
}

impl SortedHit {
    /// Memory that it takes, in bytes.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.keys.iter().map(SortValue::memory_bytes).sum::<usize>()
    }

    /// The hit without its keys.
    pub(crate) fn ranked(&self) -> RankedHit {
        RankedHit { chunk: self.chunk, document: self.document, score: self.score }
    }

    /// By keys, then score, then chunk and document, so that the order is the same on every run.
    fn order(&self, other: &Self) -> Ordering {
        self.keys
            .cmp(&other.keys)
            .then_with(|| other.score.total_cmp(&self.score))
            .then_with(|| (self.chunk, self.document).cmp(&(other.chunk, other.document)))
    }
}

/// The first matches in an order.
pub struct FirstHits {
    /// The hits, in order.
    pub hits: Vec<SortedHit>,
    /// True if there was time to look at all matches.
    pub is_complete: bool,
}

/// A plan's order, made ready.
pub struct PreparedOrder {
    keys: Vec<OrderKeyColumn>,
    memory: Arc<QueryMemory>,
}

impl PreparedOrder {
    /// Returns the order of a plan that has one.
    pub fn new(plan: &Plan) -> Self {
        let keys = plan.sorting.iter().map(|column| OrderKeyColumn::new(plan, column)).collect();
        PreparedOrder { keys, memory: Arc::clone(&plan.memory) }
    }

    /// Returns true if the order uses scores.
    pub(crate) fn needs_scores(&self) -> bool {
        self.keys.iter().any(|key| matches!(key.by, OrderBy::Score))
    }

    /// Returns the first `wanted` matches. `scores` has one list for each chunk of `matches`, or none if no
    /// scores are needed.
    ///
    /// The keys of a document are computed one after another, and only as many as needed to see that it is
    /// not among the first.
    ///
    /// # Errors
    /// A column cannot be read, or the keys take too much memory.
    pub fn first(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        scores: &[Vec<f64>],
        wanted: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<FirstHits, Error> {
        if wanted == 0 {
            return Ok(FirstHits { hits: Vec::new(), is_complete: true });
        }
        let mut first = FirstDocuments { memory: &self.memory, wanted, best: BinaryHeap::new() };
        let keys = vec![SortValue::First; self.keys.len()];
        let mut candidate = SortedHit { keys, score: 0.0, chunk: 0, document: 0 };
        let orders = self.keys.len();
        let mut known: Vec<TextKeys> = self.keys.iter().map(|_| TextKeys::of_orders(orders)).collect();
        let mut scores = scores.iter();
        for chunks in matches.chunks.chunks(CHUNKS_PER_READ) {
            if stop() {
                return Ok(FirstHits { hits: first.in_order(), is_complete: false });
            }
            let range = chunks[0].chunk..chunks[chunks.len() - 1].chunk + 1;
            let columns = self.keys.iter().map(|key| match &key.column {
                Some(column) => view.columns(column, range.clone()),
                None => Ok(vec![None; range.len()]),
            });
            let columns: Vec<Vec<Option<Column>>> = columns.collect::<Result<_, _>>()?;
            for chunk in chunks {
                let scores = scores.next();
                candidate.chunk = chunk.chunk;
                let all_scores = scores.map(Vec::as_slice).unwrap_or_default();
                let shared = self.write_shared(all_scores, &mut candidate.keys);
                let mut bound = self.bound(&first, &candidate.keys[..shared]);
                // Of values inside others the first ones are found when a document is compared by them.
                let inside: Vec<OnceCell<Column>> = vec![OnceCell::new(); self.keys.len()];
                let column = |key: usize| {
                    let stored = columns.get(key)?.get(chunk.chunk - range.start)?.as_ref()?;
                    let order = &self.keys[key];
                    Some(match &order.inside {
                        None => stored,
                        Some(reader) => {
                            inside[key].get_or_init(|| order.first_values(reader, stored, &chunk.documents))
                        }
                    })
                };
                let next = |bound: &Option<SortBound>, from: usize| match bound {
                    Some(bound) => bound.skip(column(shared), &chunk.documents, from),
                    None => from,
                };
                let mut row = next(&bound, 0);
                while let Some(document) = chunk.documents.get(row) {
                    candidate.document = *document;
                    candidate.score = scores.and_then(|scores| scores.get(row)).copied().unwrap_or(0.0);
                    let text = || self.keys.first()?.collated_text(column(0), *document);
                    if self.complete(&mut candidate, &first, column, &mut known)
                        && first.offer(&candidate, text)?
                    {
                        bound = self.bound(&first, &candidate.keys[..shared]);
                    }
                    row = next(&bound, row + 1);
                }
            }
        }
        Ok(FirstHits { hits: first.in_order(), is_complete: true })
    }

    /// Writes the keys at the beginning that are the same for all documents with these scores, and returns
    /// how many they are.
    fn write_shared(&self, scores: &[f64], keys: &mut [SortValue]) -> usize {
        let is_shared = |key: &&OrderKeyColumn| match key.by {
            OrderBy::Score => scores.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits()),
            OrderBy::Source => true,
            _ => false,
        };
        let count = self.keys.iter().take_while(is_shared).count();
        let score = scores.first().copied().unwrap_or(0.0);
        for (key, value) in self.keys[..count].iter().zip(keys) {
            key.write(None, 0, score, &mut TextKeys::default(), value);
        }
        count
    }

    /// The bound of the first key after those that all documents of a chunk share, once there are as many
    /// documents as wanted.
    fn bound(&self, first: &FirstDocuments<'_>, shared: &[SortValue]) -> Option<SortBound> {
        let last = first.last().filter(|last| last.hit.keys.starts_with(shared))?;
        let text = last.text.as_deref().filter(|_| shared.is_empty());
        self.keys.get(shared.len())?.bound(last.hit.keys.get(shared.len())?, text)
    }

    /// Makes the keys of a candidate. False as soon as it cannot be among the first.
    fn complete<'c>(
        &self,
        candidate: &mut SortedHit,
        first: &FirstDocuments<'_>,
        column: impl Fn(usize) -> Option<&'c Column>,
        known: &mut [TextKeys],
    ) -> bool {
        let mut last = first.last().map(|last| &last.hit);
        for (index, (key, known)) in self.keys.iter().zip(known).enumerate() {
            let (document, score) = (candidate.document, candidate.score);
            key.write(column(index), document, score, known, &mut candidate.keys[index]);
            match last.map(|last| candidate.keys[index].cmp(&last.keys[index])) {
                Some(Ordering::Greater) => return false,
                Some(Ordering::Less) => last = None,
                Some(Ordering::Equal) | None => {}
            }
        }
        true
    }
}

/// The first documents so far.
struct FirstDocuments<'m> {
    memory: &'m QueryMemory,
    wanted: usize,
    best: BinaryHeap<LastFirst>,
}

impl FirstDocuments<'_> {
    /// The one that goes when another comes in.
    fn last(&self) -> Option<&LastFirst> {
        self.best.peek().filter(|_| self.best.len() >= self.wanted)
    }

    /// Takes a candidate that is among the first, with its [`LastFirst::text`]. False if it is not.
    fn offer(
        &mut self,
        candidate: &SortedHit,
        text: impl FnOnce() -> Option<String>,
    ) -> Result<bool, QueryMemoryError> {
        if self.best.len() < self.wanted {
            let hit = LastFirst { hit: candidate.clone(), text: text() };
            self.memory.take(hit.memory_bytes())?;
            self.best.push(hit);
        } else if let Some(mut last) = self.best.peek_mut()
            && candidate.order(&last.hit).is_lt()
        {
            let fewer = last.memory_bytes();
            last.hit.clone_from(candidate);
            last.text = text();
            let more = last.memory_bytes();
            self.memory.take(more.saturating_sub(fewer))?;
            self.memory.give_back(fewer.saturating_sub(more));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn in_order(self) -> Vec<SortedHit> {
        self.best.into_sorted_vec().into_iter().map(|last| last.hit).collect()
    }
}

/// A hit that compares greater the later it comes.
struct LastFirst {
    hit: SortedHit,
    /// The text of the first key, where its order is that of a locale: comparing two texts costs a fraction
    /// of making the key of one.
    text: Option<String>,
}

impl LastFirst {
    /// Memory that it takes, in bytes.
    fn memory_bytes(&self) -> usize {
        self.hit.memory_bytes() + self.text.as_ref().map_or(0, String::len)
    }
}

impl PartialEq for LastFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for LastFirst {}

impl PartialOrd for LastFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LastFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hit.order(&other.hit)
    }
}

/// One key of the order.
struct OrderKeyColumn {
    by: OrderBy,
    column: Option<ColumnKey>,
    /// Reader of the compared values, where they lie inside the column's values.
    inside: Option<SingleValueReader>,
    descending: bool,
    /// Value used for a missing one.
    missing: SortValue,
}

/// Kind of a key, with the type of the compared values.
enum OrderBy {
    Score,
    /// The same for all documents of a cluster.
    Source,
    Id,
    Number(DataType),
    Text(DataType, TextOrder),
    Bytes(DataType),
    /// No document has a value.
    Nothing,
}

impl OrderKeyColumn {
    fn new(plan: &Plan, sort: &SortColumn) -> Self {
        let (field, path) = match &sort.by {
            SortBy::Number(path) | SortBy::Text(path, _) | SortBy::Bytes(path) => {
                path.split_once('.').unwrap_or((path, ""))
            }
            SortBy::Relevance | SortBy::Source | SortBy::DocumentId | SortBy::Elsewhere(_) => ("", ""),
        };
        let zcurve = plan.schema.field_of_zcurve(field);
        let field = zcurve.map_or(field, |of| &*of.name);
        let data_type =
            plan.schema.fields.get(field).map_or(DataType::String, |field| field.data_type.clone());
        let of = match zcurve {
            Some(_) => DataType::Long,
            None => millrace_plan::value_type(&data_type, path).cloned().unwrap_or(DataType::String),
        };
        let (by, column) = match &sort.by {
            SortBy::Relevance => (OrderBy::Score, None),
            SortBy::Source => (OrderBy::Source, None),
            SortBy::Elsewhere(_) => (OrderBy::Nothing, None),
            SortBy::DocumentId => (OrderBy::Id, Some(ColumnKey::id())),
            SortBy::Number(_) => (OrderBy::Number(of.clone()), Some(ColumnKey::value(field))),
            SortBy::Bytes(_) => (OrderBy::Bytes(of.clone()), Some(ColumnKey::value(field))),
            SortBy::Text(_, order) => {
                (OrderBy::Text(of.clone(), order.clone()), Some(ColumnKey::value(field)))
            }
        };
        let path: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
        let inside = (data_type != of).then(|| SingleValueReader::new(&data_type, &path));
        let mut key =
            OrderKeyColumn { by, column, inside, descending: sort.descending, missing: SortValue::First };
        let several = is_multivalued(&data_type) && key.column.is_some();
        key.missing = match &sort.missing {
            Some(MissingOrder::First) => SortValue::First,
            Some(MissingOrder::Last) => SortValue::Last,
            Some(MissingOrder::As(text)) => key.of_text(text),
            // A missing value sorts before the smallest one; in a field with several values, absence does
            // not.
            None if sort.descending || several => SortValue::Last,
            None => SortValue::First,
        };
        key
    }

    /// The key of a value written as text in the request.
    fn of_text(&self, text: &str) -> SortValue {
        let mut bytes = Vec::new();
        match &self.by {
            OrderBy::Number(of) if is_float(of) => {
                sort_key::float(text.trim().parse().unwrap_or(f64::NAN), &mut bytes);
            }
            OrderBy::Number(_) | OrderBy::Score | OrderBy::Source => {
                sort_key::integer(text.trim().parse().unwrap_or(i64::MIN), &mut bytes);
            }
            OrderBy::Text(_, order) => sort_key::text(order, text, &mut bytes),
            OrderBy::Bytes(_) => sort_key::bytes(text.as_bytes(), &mut bytes),
            OrderBy::Id | OrderBy::Nothing => sort_key::text(&TextOrder::Raw, text, &mut bytes),
        }
        if self.descending {
            sort_key::reverse(&mut bytes);
        }
        SortValue::Key(bytes)
    }

    /// The text of a document, if the order is that of a locale.
    fn collated_text(&self, column: Option<&Column>, document: u16) -> Option<String> {
        match (&self.by, column) {
            (OrderBy::Text(_, TextOrder::Collated(_)), Some(Column::Bytes(column))) => {
                std::str::from_utf8(column.get(usize::from(document))?).ok().map(str::to_owned)
            }
            _ => None,
        }
    }

    /// The bound of values after the key `last`, which is that of `text` if the order is that of a locale.
    /// `None` if the order is not by values.
    fn bound(&self, last: &SortValue, text: Option<&str>) -> Option<SortBound> {
        if matches!(self.by, OrderBy::Score | OrderBy::Source | OrderBy::Nothing) {
            return None;
        }
        let values = match last {
            SortValue::First => ValueBound::All,
            SortValue::Last => ValueBound::Unknown,
            SortValue::Key(key) => self.value_bound(key, text),
        };
        Some(SortBound { values, descending: self.descending, missing_after: self.missing > *last })
    }

    fn value_bound(&self, key: &[u8], text: Option<&str>) -> ValueBound {
        let bytes = || sort_key::bytes_of(key, self.descending);
        match &self.by {
            OrderBy::Number(data_type) if is_float(data_type) => {
                sort_key::number_of(key).map_or(ValueBound::Unknown, ValueBound::Float)
            }
            OrderBy::Number(_) => sort_key::number_of(key).map_or(ValueBound::Unknown, ValueBound::Integer),
            OrderBy::Id | OrderBy::Text(DataType::String, TextOrder::Raw) | OrderBy::Bytes(DataType::Raw) => {
                ValueBound::Bytes(bytes())
            }
            OrderBy::Text(DataType::String, TextOrder::Lowercase) => ValueBound::Lowercase(bytes()),
            OrderBy::Text(DataType::String, TextOrder::Collated(collation)) => match text {
                Some(text) => ValueBound::Collated(collation.clone(), text.to_owned()),
                None => ValueBound::Unknown,
            },
            OrderBy::Text(..) | OrderBy::Bytes(_) | OrderBy::Score | OrderBy::Source | OrderBy::Nothing => {
                ValueBound::Unknown
            }
        }
    }

    /// Writes the key of a document, replacing the contents of `out`.
    fn write(
        &self,
        column: Option<&Column>,
        document: u16,
        score: f64,
        known: &mut TextKeys,
        out: &mut SortValue,
    ) {
        let mut bytes = match std::mem::replace(out, SortValue::First) {
            SortValue::Key(mut bytes) => {
                bytes.clear();
                bytes
            }
            SortValue::First | SortValue::Last => Vec::new(),
        };
        if !self.append(column, usize::from(document), score, known, &mut bytes) {
            out.clone_from(&self.missing);
            return;
        }
        if self.descending {
            sort_key::reverse(&mut bytes);
        }
        *out = SortValue::Key(bytes);
    }

    /// Appends the key of a document, as for ascending order. False where it has no value.
    fn append(
        &self,
        column: Option<&Column>,
        document: usize,
        score: f64,
        known: &mut TextKeys,
        key: &mut Vec<u8>,
    ) -> bool {
        match (&self.by, column) {
            (OrderBy::Score, _) => sort_key::float(score, key),
            (OrderBy::Source, _) => {}
            (OrderBy::Id, Some(Column::Bytes(column))) => match column.get(document).map(std::str::from_utf8)
            {
                Some(Ok(id)) => sort_key::text(&TextOrder::Raw, id, key),
                _ => return false,
            },
            (OrderBy::Number(data_type), Some(Column::Fixed(column))) if column.width() == 1 => {
                if is_float(data_type) {
                    let Some(number) = column.number(document) else { return false };
                    sort_key::float(number, key);
                } else {
                    let Some(number) = column.integer(document) else { return false };
                    sort_key::integer(number, key);
                }
            }
            (OrderBy::Text(DataType::String, order), Some(Column::Bytes(column))) => {
                match column.get(document).map(std::str::from_utf8) {
                    Some(Ok(value)) => known.append(order, value, key),
                    _ => return false,
                }
            }
            (OrderBy::Bytes(DataType::Raw), Some(Column::Bytes(column))) => match column.get(document) {
                Some(value) => sort_key::bytes(value, key),
                None => return false,
            },
            (
                OrderBy::Number(data_type) | OrderBy::Text(data_type, _) | OrderBy::Bytes(data_type),
                Some(column),
            ) => {
                let Some(value) = read_value(column, data_type, document) else { return false };
                let (whole, mut is_written): (&[&str], _) = (&[], false);
                single_values_at(&value, whole, &mut |value, _| {
                    is_written = value.is_some_and(|value| self.append_single(value, key));
                });
                return is_written;
            }
            (OrderBy::Id | OrderBy::Number(_) | OrderBy::Text(..) | OrderBy::Bytes(_), None)
            | (OrderBy::Id, Some(_))
            | (OrderBy::Nothing, _) => {
                return false;
            }
        }
        true
    }

    /// Appends the key of one value; false for a value that has no order.
    fn append_single(&self, value: ValueRef<'_>, key: &mut Vec<u8>) -> bool {
        match (value, &self.by) {
            (ValueRef::Bool(value), _) => sort_key::integer(i64::from(value), key),
            (ValueRef::Byte(number), _) => sort_key::integer(i64::from(number), key),
            (ValueRef::Int(number), _) => sort_key::integer(i64::from(number), key),
            (ValueRef::Long(number), _) => sort_key::integer(number, key),
            (ValueRef::Float(number), _) => sort_key::float(f64::from(number), key),
            (ValueRef::Double(number), _) => sort_key::float(number, key),
            (ValueRef::String(value), OrderBy::Text(_, order)) => sort_key::text(order, value, key),
            (ValueRef::Raw(value), _) => sort_key::bytes(value, key),
            _ => return false,
        }
        true
    }
}

fn is_multivalued(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float | DataType::Double)
}
