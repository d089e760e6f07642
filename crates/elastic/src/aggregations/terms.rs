//! Buckets by value: `terms`, `rare_terms` and `multi_terms`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::pipelines::{PathEnd, end_of_path};
use super::values::{AggregatedValue, FieldSource, ValueForm};
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::fields::names_of;
use crate::query::text_of;
use crate::query_terms::TermPattern;
use crate::search::SearchHit;

/// Values that one aggregation may meet.
const VALUES_MAX: usize = 1_000_000;

/// Fields of one `multi_terms`.
const FIELDS_MAX: usize = 10;

/// One key by which buckets are ordered.
struct BucketOrder {
    path: String,
    is_ascending: bool,
}

/// Documents of each value.
type Parts<'a, K> = BTreeMap<K, Vec<&'a SearchHit>>;

impl<'a> BucketAggregation<'a> {
    pub(super) fn terms(&self) -> Result<(&'static str, Value), Error> {
        let source = self.source()?;
        let wanted = WantedTerms::parse(&self.requested.options, &source)?;
        let documents_min = self.count_of("min_doc_count", 1)?;
        let mut parts = self.parts(&source, &wanted)?;
        if documents_min == 0 {
            self.scope.each(self.scope.everything, |hit| {
                for value in source.of(hit).into_iter().filter(|value| wanted.has(value)) {
                    parts.entry(value).or_default();
                }
                check_values(parts.len())
            })?;
        }
        self.finish_terms(&source, parts)
    }

    /// Buckets of values.
    pub(super) fn finish_terms<K: Ord + Borrow<AggregatedValue>>(
        &self,
        source: &FieldSource,
        parts: BTreeMap<K, impl BucketContent>,
    ) -> Result<(&'static str, Value), Error> {
        let documents_min = self.count_of("min_doc_count", 1)?;
        let mut answer = self.largest(parts, documents_min, &|key| Self::head(source, key.borrow()))?;
        if self.flag("show_term_doc_count_error")
            && let Some(buckets) = answer["buckets"].as_array_mut()
        {
            buckets.iter_mut().for_each(|bucket| bucket["doc_count_error_upper_bound"] = 0.into());
        }
        let kind = match source.form {
            ValueForm::Unmapped => "umterms",
            ValueForm::Whole | ValueForm::Date | ValueForm::Boolean => "lterms",
            ValueForm::Unsigned => "ulterms",
            ValueForm::Real => "dterms",
            _ => "sterms",
        };
        Ok((kind, answer))
    }

    /// Documents by the values of a field.
    fn parts(&self, source: &FieldSource, wanted: &WantedTerms) -> Result<Parts<'a, AggregatedValue>, Error> {
        let mut parts: Parts<'a, AggregatedValue> = BTreeMap::new();
        self.each(|hit| {
            for value in source.of(hit).into_iter().filter(|value| wanted.has(value)) {
                parts.entry(value).or_default().push(hit);
            }
            check_values(parts.len())
        })?;
        Ok(parts)
    }

    /// The first buckets in the order that is asked for, with the documents of the others counted.
    fn largest<K: Ord, B: BucketContent>(
        &self,
        parts: BTreeMap<K, B>,
        documents_min: usize,
        head: &dyn Fn(&K) -> Map<String, Value>,
    ) -> Result<Value, Error> {
        let size = self.count_of("size", 10)?;
        if size == 0 {
            return Err(Error::IllegalArgument(format!(
                "[size] must be greater than 0. Found [0] in [{}]",
                self.requested.name
            )));
        }
        let orders = self.orders()?;
        let is_inside = |order: &BucketOrder| !matches!(order.path.as_str(), "_count" | "_key");
        let mut parts: Vec<(K, B)> =
            parts.into_iter().filter(|(_, part)| part.documents() >= documents_min).collect();
        let buckets = match orders.iter().find(|order| is_inside(order)) {
            None => {
                parts.sort_by(|left, right| {
                    let by = |order: &BucketOrder| match order.path.as_str() {
                        "_key" => left.0.cmp(&right.0),
                        _ => left.1.documents().cmp(&right.1.documents()),
                    };
                    in_order(&orders, by)
                });
                let others: usize = parts.iter().skip(size).map(|(_, part)| part.documents()).sum();
                parts.truncate(size);
                let buckets = parts.iter().map(|(key, part)| self.bucket(head(key), part));
                (buckets.collect::<Result<Vec<_>, _>>()?, others)
            }
            Some(_) => {
                let mut buckets: Vec<(K, Map<String, Value>, Vec<f64>)> = Vec::new();
                for (key, part) in parts {
                    let bucket = self.bucket(head(&key), &part)?;
                    let figures = orders.iter().map(|order| self.figure(&bucket, order));
                    let figures = figures.collect::<Result<_, _>>()?;
                    buckets.push((key, bucket, figures));
                }
                buckets.sort_by(|left, right| {
                    let mut at = 0;
                    in_order(&orders, |order| {
                        at += 1;
                        let (left_figure, right_figure) = (left.2[at - 1], right.2[at - 1]);
                        match (order.path.as_str(), left_figure.is_nan(), right_figure.is_nan()) {
                            ("_key", ..) => left.0.cmp(&right.0),
                            // Buckets without the figure are last in both directions.
                            (_, true, false) => after(order),
                            (_, false, true) => after(order).reverse(),
                            _ => left_figure.total_cmp(&right_figure),
                        }
                    })
                });
                let count = |bucket: &Map<String, Value>| bucket["doc_count"].as_u64().unwrap_or(0) as usize;
                let others = buckets.iter().skip(size).map(|(_, bucket, _)| count(bucket)).sum();
                buckets.truncate(size);
                (buckets.into_iter().map(|(_, bucket, _)| bucket).collect(), others)
            }
        };
        let (buckets, others) = buckets;
        Ok(json!({
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": others,
            "buckets": self.listed(buckets)?,
        }))
    }

    /// Figure of a bucket by which it is ordered; not a number if it has none.
    fn figure(&self, bucket: &Map<String, Value>, order: &BucketOrder) -> Result<f64, Error> {
        if order.path == "_key" {
            return Ok(0.0);
        }
        match end_of_path(bucket, &order.path) {
            PathEnd::Figure(figure) => Ok(figure.unwrap_or(f64::NAN)),
            PathEnd::Buckets(_) | PathEnd::Nowhere => Err(Error::IllegalArgument(format!(
                "Invalid aggregation order path [{}]. Terms buckets can only be sorted on a sub-aggregator path that leads to a \
                 figure of a bucket of [{}]",
                order.path, self.requested.name
            ))),
        }
    }

    /// Keys of the order, with the value of the bucket as the last.
    fn orders(&self) -> Result<Vec<BucketOrder>, Error> {
        let malformed = || Error::Parsing(format!("[order] of [{}] is malformed", self.requested.name));
        let one = |order: &Value| -> Result<Vec<BucketOrder>, Error> {
            let order = order.as_object().ok_or_else(malformed)?;
            let keys = order.iter().map(|(path, way)| {
                let is_ascending = match text_of(way).to_ascii_lowercase().as_str() {
                    "asc" => true,
                    "desc" => false,
                    _ => return Err(Error::Parsing(format!("Unknown order direction [{}]", text_of(way)))),
                };
                let path = match path.as_str() {
                    "_term" | "_time" | "_key" => "_key".to_owned(),
                    other => other.to_owned(),
                };
                Ok(BucketOrder { path, is_ascending })
            });
            keys.collect()
        };
        let mut orders = match self.option("order") {
            None => vec![BucketOrder { path: "_count".to_owned(), is_ascending: false }],
            Some(Value::Array(orders)) => {
                orders.iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Some(order) => one(order)?,
        };
        if orders.iter().all(|order| order.path != "_key") {
            orders.push(BucketOrder { path: "_key".to_owned(), is_ascending: true });
        }
        Ok(orders)
    }

    /// Buckets in the order that is asked for, by their keys otherwise: of histograms.
    pub(super) fn ordered(
        &self,
        mut buckets: Vec<Map<String, Value>>,
    ) -> Result<Vec<Map<String, Value>>, Error> {
        if self.option("order").is_none() {
            return Ok(buckets);
        }
        let orders = self.orders()?;
        for bucket in &buckets {
            for order in &orders {
                self.figure(bucket, order)?;
            }
        }
        let figure = |bucket: &Map<String, Value>, order: &BucketOrder| {
            let path = if order.path == "_key" { "key" } else { order.path.as_str() };
            match path {
                "key" => bucket["key"].as_f64().unwrap_or(f64::NAN),
                path => match end_of_path(bucket, path) {
                    PathEnd::Figure(figure) => figure.unwrap_or(f64::NAN),
                    PathEnd::Buckets(_) | PathEnd::Nowhere => f64::NAN,
                },
            }
        };
        buckets.sort_by(|left, right| {
            in_order(&orders, |order| figure(left, order).total_cmp(&figure(right, order)))
        });
        Ok(buckets)
    }

    pub(super) fn rare_terms(&self) -> Result<(&'static str, Value), Error> {
        let source = self.source()?;
        let wanted = WantedTerms::parse(&self.requested.options, &source)?;
        let documents_max = self.rare_documents_max()?;
        self.finish_rare_terms(&source, documents_max, self.parts(&source, &wanted)?)
    }

    /// Documents that a rare value has at most.
    pub(super) fn rare_documents_max(&self) -> Result<usize, Error> {
        let documents_max = self.count_of("max_doc_count", 1)?;
        match (1..=100).contains(&documents_max) {
            true => Ok(documents_max),
            false => Err(Error::IllegalArgument(format!(
                "[max_doc_count] must be greater than or equal to 1 and at most 100. Found [{documents_max}] in [{}]",
                self.requested.name
            ))),
        }
    }

    /// Buckets of the values that have `documents_max` documents at most.
    pub(super) fn finish_rare_terms<K: Ord + Borrow<AggregatedValue>, B: BucketContent>(
        &self,
        source: &FieldSource,
        documents_max: usize,
        parts: BTreeMap<K, B>,
    ) -> Result<(&'static str, Value), Error> {
        let mut parts: Vec<(K, B)> =
            parts.into_iter().filter(|(_, part)| part.documents() <= documents_max).collect();
        parts.sort_by_key(|(_, part)| part.documents());
        let buckets = parts.iter().map(|(key, part)| self.bucket(Self::head(source, key.borrow()), part));
        let kind = match source.form {
            ValueForm::Unmapped => "umrareterms",
            ValueForm::Whole | ValueForm::Date | ValueForm::Boolean => "lrareterms",
            _ => "srareterms",
        };
        Ok((kind, json!({ "buckets": self.listed(buckets.collect::<Result<_, _>>()?)? })))
    }

    /// Sources of `multi_terms`.
    pub(super) fn multi_sources(&self) -> Result<Vec<FieldSource>, Error> {
        let Some(Value::Array(fields)) = self.option("terms") else {
            return Err(Error::Parsing("[multi_terms] needs [terms], an array of fields".to_owned()));
        };
        if !(2..=FIELDS_MAX).contains(&fields.len()) {
            return Err(Error::IllegalArgument(format!(
                "multi term aggregation must has at least 2 terms and at most {FIELDS_MAX}. Found [{}] in [{}]",
                fields.len(),
                self.requested.name
            )));
        }
        let sources = fields.iter().map(|field| match field {
            Value::Object(options) => FieldSource::new("multi_terms", options, self.scope.indexes),
            _ => Err(Error::Parsing("[terms] of [multi_terms] are objects".to_owned())),
        });
        sources.collect()
    }

    pub(super) fn multi_terms(&self) -> Result<(&'static str, Value), Error> {
        let sources = self.multi_sources()?;
        let mut parts: Parts<'a, Vec<AggregatedValue>> = BTreeMap::new();
        self.each(|hit| {
            for key in combinations(&sources, hit)? {
                parts.entry(key).or_default().push(hit);
            }
            check_values(parts.len())
        })?;
        self.finish_multi_terms(&sources, parts)
    }

    /// Buckets of combinations of values.
    pub(super) fn finish_multi_terms<K: Ord + Borrow<Vec<AggregatedValue>>>(
        &self,
        sources: &[FieldSource],
        parts: BTreeMap<K, impl BucketContent>,
    ) -> Result<(&'static str, Value), Error> {
        let head = |key: &K| {
            let key: &Vec<AggregatedValue> = key.borrow();
            let shown =
                key.iter().zip(sources).map(|(value, source)| match (source.form, source.text(value)) {
                    (ValueForm::Boolean, _) => Value::from(*value != AggregatedValue::Whole(0)),
                    // Dates are shown as their texts alone.
                    (_, Some(text)) => text.into(),
                    _ => value.json(),
                });
            let shown: Vec<Value> = shown.collect();
            let text: Vec<String> = shown.iter().map(text_of).collect();
            let mut head = Map::new();
            head.insert("key".to_owned(), shown.into());
            head.insert("key_as_string".to_owned(), text.join("|").into());
            head
        };
        Ok(("multi_terms", self.largest(parts, self.count_of("min_doc_count", 1)?, &head)?))
    }
}

/// Combinations of the values of several sources that a document has.
pub(super) fn combinations(
    sources: &[FieldSource],
    hit: &SearchHit,
) -> Result<Vec<Vec<AggregatedValue>>, Error> {
    let mut keys = vec![Vec::new()];
    for source in sources {
        let values = source.of(hit);
        check_values(keys.len().saturating_mul(values.len()))?;
        let with = |key: &Vec<AggregatedValue>| {
            let longer = values.iter().map(|value| [key.as_slice(), std::slice::from_ref(value)].concat());
            longer.collect::<Vec<_>>()
        };
        keys = keys.iter().flat_map(with).collect();
    }
    Ok(keys)
}

pub(super) fn check_values(count: usize) -> Result<(), Error> {
    match count > VALUES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "an aggregation may meet {VALUES_MAX} different values; use a narrower query, [include], or [composite]"
        ))),
        false => Ok(()),
    }
}

/// Order that puts the left one last in either direction.
fn after(order: &BucketOrder) -> Ordering {
    if order.is_ascending { Ordering::Greater } else { Ordering::Less }
}

fn in_order(orders: &[BucketOrder], mut by: impl FnMut(&BucketOrder) -> Ordering) -> Ordering {
    let turned =
        |order: &BucketOrder, found: Ordering| if order.is_ascending { found } else { found.reverse() };
    orders.iter().fold(Ordering::Equal, |found, order| {
        let next = by(order);
        found.then(turned(order, next))
    })
}

/// Values that `include` and `exclude` leave.
#[derive(Default)]
pub(super) struct WantedTerms {
    include: Option<TermChoice>,
    exclude: Option<TermChoice>,
    /// One of a number of parts into which the values are divided.
    partition: Option<TermPartition>,
}

enum TermChoice {
    Exact(BTreeSet<AggregatedValue>),
    Pattern(TermPattern),
}

struct TermPartition {
    number: u64,
    count: u64,
}

impl TermChoice {
    fn parse(value: &Value, source: &FieldSource) -> Result<Self, Error> {
        match value {
            Value::Array(values) => {
                let read = values.iter().map(|value| {
                    source.parse(value).ok_or_else(|| {
                        Error::IllegalArgument(format!(
                            "[{}] cannot be read as a value of the field",
                            text_of(value)
                        ))
                    })
                });
                Ok(TermChoice::Exact(read.collect::<Result<_, _>>()?))
            }
            Value::String(pattern) if !matches!(source.form, ValueForm::Text | ValueForm::Unmapped) => {
                Err(Error::IllegalArgument(format!(
                    "the pattern [{pattern}] chooses texts; a field of other values needs an array of them"
                )))
            }
            Value::String(pattern) => Ok(TermChoice::Pattern(TermPattern::new(pattern, false)?)),
            _ => {
                Err(Error::Parsing("[include] and [exclude] are a pattern or an array of values".to_owned()))
            }
        }
    }

    fn pattern_bytes(&self) -> usize {
        match self {
            TermChoice::Exact(_) => 0,
            TermChoice::Pattern(pattern) => pattern.bytes(),
        }
    }

    fn has(&self, value: &AggregatedValue) -> bool {
        match (self, value) {
            (TermChoice::Exact(values), value) => values.contains(value),
            (TermChoice::Pattern(pattern), AggregatedValue::Text(text)) => pattern.matches(text),
            (TermChoice::Pattern(_), _) => false,
        }
    }
}

impl WantedTerms {
    pub(super) fn parse(options: &Map<String, Value>, source: &FieldSource) -> Result<Self, Error> {
        let choice = |name: &str| match options.get(name).filter(|value| !value.is_null()) {
            Some(Value::Object(_)) | None => Ok(None),
            Some(value) => TermChoice::parse(value, source).map(Some),
        };
        let mut wanted =
            WantedTerms { include: choice("include")?, exclude: choice("exclude")?, partition: None };
        if let Some(Value::Object(partition)) = options.get("include") {
            let part = |name: &str| partition.get(name).and_then(Value::as_u64);
            wanted.partition = match (part("partition"), part("num_partitions")) {
                (Some(number), Some(count)) if number < count && partition.len() == 2 => {
                    Some(TermPartition { number, count })
                }
                _ => {
                    return Err(Error::IllegalArgument(format!(
                        "[include] needs [partition], from 0, and a larger [num_partitions]; found {}",
                        names_of(&partition.keys().map(|name| Value::from(name.as_str())).collect())
                            .join(", ")
                    )));
                }
            };
        }
        Ok(wanted)
    }

    /// Bytes that its regular expressions take, about.
    pub(super) fn pattern_bytes(&self) -> usize {
        [&self.include, &self.exclude].into_iter().flatten().map(TermChoice::pattern_bytes).sum()
    }

    pub(super) fn has(&self, value: &AggregatedValue) -> bool {
        self.include.as_ref().is_none_or(|choice| choice.has(value))
            && !self.exclude.as_ref().is_some_and(|choice| choice.has(value))
            && self.partition.as_ref().is_none_or(|part| part_of(value) % part.count == part.number)
    }
}

/// A number that is spread evenly over values, and the same for a value at all times.
fn part_of(value: &AggregatedValue) -> u64 {
    let text = text_of(&value.json());
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    digest ^ digest >> 32
}
