//! `composite`: all combinations of values of several sources, page by page.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::histograms::DateRounding;
use super::options;
use super::values::{AggregatedValue, FieldSource, ValueForm};
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::dates::{DateReading, DateText};
use crate::evaluation::number_of;
use crate::query::text_of;
use crate::search::SearchHit;

/// Sources of one aggregation.
const SOURCES_MAX: usize = 32;

/// One source of keys.
struct CompositeSource {
    name: String,
    source: FieldSource,
    division: SourceDivision,
    is_descending: bool,
    /// True if documents without a value have a bucket.
    has_missing: bool,
    /// True if these come first in either order; `None` if they are least.
    missing_first: Option<bool>,
}

/// Keys that a source makes of values.
enum SourceDivision {
    Values,
    Interval(f64),
    Dates(DateRounding),
}

/// A combination of keys; a key is missing where the document has none.
type CompositeKey = Vec<Option<AggregatedValue>>;

/// A key that has its place in the order of the sources.
#[derive(Clone)]
pub(super) struct PlacedKey {
    key: CompositeKey,
    sources: Arc<[CompositeSource]>,
}

impl PlacedKey {
    /// Its values, one for each source.
    pub(super) fn values(&self) -> impl Iterator<Item = Option<&AggregatedValue>> {
        self.key.iter().map(Option::as_ref)
    }
}

impl PartialEq for PlacedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PlacedKey {}

impl PartialOrd for PlacedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PlacedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.sources.iter().zip(self.key.iter().zip(&other.key));
        keys.fold(Ordering::Equal, |order, (source, (left, right))| {
            order.then_with(|| source.compare(left.as_ref(), right.as_ref()))
        })
    }
}

impl CompositeSource {
    fn compare(&self, left: Option<&AggregatedValue>, right: Option<&AggregatedValue>) -> Ordering {
        let placed = match (left, right, self.missing_first) {
            (None, Some(_), Some(true)) | (Some(_), None, Some(false)) => Some(Ordering::Less),
            (Some(_), None, Some(true)) | (None, Some(_), Some(false)) => Some(Ordering::Greater),
            _ => None,
        };
        let turned = |order: Ordering| if self.is_descending { order.reverse() } else { order };
        placed.unwrap_or_else(|| turned(left.cmp(&right)))
    }

    /// Keys of a document.
    fn keys(&self, hit: &SearchHit) -> Vec<Option<AggregatedValue>> {
        let key = |value: AggregatedValue| match &self.division {
            SourceDivision::Values => Some(value),
            SourceDivision::Interval(interval) => {
                value.number().map(|number| AggregatedValue::Real((number / interval).floor() * interval))
            }
            SourceDivision::Dates(rounding) => match value {
                AggregatedValue::Whole(millis) => {
                    let start = rounding.start(i64::try_from(millis).ok()?)?;
                    Some(AggregatedValue::Whole(start.into()))
                }
                _ => None,
            },
        };
        let mut keys: Vec<Option<AggregatedValue>> =
            self.source.of(hit).into_iter().filter_map(key).map(Some).collect();
        keys.dedup();
        if keys.is_empty() && self.has_missing {
            keys.push(None);
        }
        keys
    }

    /// A key as the answer has it: dates as texts if there is a format, and in milliseconds otherwise.
    fn shown(&self, key: Option<&AggregatedValue>) -> Value {
        let format = self.source.format.as_deref();
        match (key, self.source.form) {
            (None, _) => Value::Null,
            (Some(AggregatedValue::Whole(millis)), ValueForm::Date) if format.is_some() => {
                let millis = i64::try_from(*millis).unwrap_or(0);
                DateText::write(millis, format, &self.source.zone).into()
            }
            (Some(AggregatedValue::Whole(flag)), ValueForm::Boolean) => (*flag != 0).into(),
            (Some(key), _) => key.json(),
        }
    }

    /// A key of `after`.
    fn read(&self, value: &Value) -> Result<Option<AggregatedValue>, Error> {
        if value.is_null() && self.has_missing {
            return Ok(None);
        }
        let is_number = value.is_number();
        let read = match (self.source.form, &self.division) {
            (_, SourceDivision::Interval(_)) => number_of(value).map(AggregatedValue::Real),
            (ValueForm::Date, _) if is_number => {
                value.as_i64().map(|millis| AggregatedValue::Whole(millis.into()))
            }
            (ValueForm::Date, _) => {
                let (zone, format) = (&self.source.zone, self.source.format.as_deref());
                let reading = DateReading { format, now_ms: 0, zone, round_up: false };
                DateText::resolve(&text_of(value), &reading).map(|at| AggregatedValue::Whole(at.into()))
            }
            _ => self.source.parse(value),
        };
        read.map(Some).ok_or_else(|| {
            Error::Parsing(format!("[after] has a value for [{}] that cannot be read: {value}", self.name))
        })
    }
}

/// Division of documents by combinations of keys: the first ones after a key.
pub(super) struct CompositeDivision {
    sources: Arc<[CompositeSource]>,
    after: Option<PlacedKey>,
    /// Number of combinations.
    pub(super) size: usize,
}

impl BucketAggregation<'_> {
    pub(super) fn composite_division(&self) -> Result<CompositeDivision, Error> {
        let sources: Arc<[CompositeSource]> = self.composite_sources()?.into();
        let size = self.count_of("size", 10)?;
        if size == 0 {
            return Err(Error::IllegalArgument("[size] must be greater than 0. Found [0]".to_owned()));
        }
        self.check_size(size)?;
        let after = match self.option("after") {
            None => None,
            Some(Value::Object(after)) => {
                if after.len() != sources.len() {
                    return Err(Error::IllegalArgument(format!(
                        "[after] has {} value(s) but [sources] has {}",
                        after.len(),
                        sources.len()
                    )));
                }
                let keys = sources.iter().map(|source| match after.get(&source.name) {
                    Some(value) => source.read(value),
                    None => {
                        Err(Error::IllegalArgument(format!("[after] has no value for [{}]", source.name)))
                    }
                });
                let key = keys.collect::<Result<_, _>>()?;
                Some(PlacedKey { key, sources: Arc::clone(&sources) })
            }
            Some(_) => return Err(Error::Parsing("[after] must be an object".to_owned())),
        };
        Ok(CompositeDivision { sources, after, size })
    }

    /// Combinations of the keys of a document, those after the one that is asked for.
    pub(super) fn composite_keys(
        &self,
        division: &CompositeDivision,
        hit: &SearchHit,
    ) -> Result<Vec<PlacedKey>, Error> {
        let mut keys: Vec<CompositeKey> = vec![Vec::new()];
        for source in division.sources.iter() {
            let own = source.keys(hit);
            self.check_size(keys.len().saturating_mul(own.len()))?;
            let with = |key: &CompositeKey| {
                let longer = own.iter().map(|value| [key.as_slice(), std::slice::from_ref(value)].concat());
                longer.collect::<Vec<_>>()
            };
            keys = keys.iter().flat_map(with).collect();
        }
        let placed = keys.into_iter().map(|key| PlacedKey { key, sources: Arc::clone(&division.sources) });
        Ok(placed.filter(|key| division.after.as_ref().is_none_or(|after| key > after)).collect())
    }

    pub(super) fn composite(&self) -> Result<Value, Error> {
        let division = self.composite_division()?;
        let mut parts: BTreeMap<PlacedKey, Vec<&SearchHit>> = BTreeMap::new();
        self.each(|hit| {
            for key in self.composite_keys(&division, hit)? {
                parts.entry(key).or_default().push(hit);
            }
            // Only the first ones are wanted.
            while parts.len() > division.size {
                parts.pop_last();
            }
            Ok(())
        })?;
        self.finish_composite(&division, parts)
    }

    /// Buckets of combinations of keys.
    pub(super) fn finish_composite<K: Ord + Borrow<PlacedKey>>(
        &self,
        division: &CompositeDivision,
        parts: BTreeMap<K, impl BucketContent>,
    ) -> Result<Value, Error> {
        let mut last = Value::Null;
        let mut buckets = Vec::new();
        for (placed, part) in &parts {
            let placed: &PlacedKey = placed.borrow();
            let shown = division.sources.iter().zip(&placed.key);
            let key: Map<String, Value> =
                shown.map(|(source, key)| (source.name.clone(), source.shown(key.as_ref()))).collect();
            last = Value::Object(key.clone());
            buckets.push(self.bucket([("key".to_owned(), Value::Object(key))].into_iter().collect(), part)?);
        }
        let mut answer = json!({ "buckets": self.listed(buckets)? });
        if !last.is_null() {
            answer["after_key"] = last;
        }
        Ok(answer)
    }

    fn check_size(&self, size: usize) -> Result<(), Error> {
        match size > self.scope.buckets_max {
            true => self.scope.count(size),
            false => Ok(()),
        }
    }

    fn composite_sources(&self) -> Result<Vec<CompositeSource>, Error> {
        let sources = match self.option("sources") {
            Some(Value::Array(sources)) if !sources.is_empty() => sources.clone(),
            Some(source @ Value::Object(_)) => vec![source.clone()],
            _ => {
                return Err(Error::IllegalArgument("Composite [sources] cannot be null or empty".to_owned()));
            }
        };
        if sources.len() > SOURCES_MAX {
            return Err(Error::IllegalArgument(format!("[sources] may be {SOURCES_MAX} at most")));
        }
        let mut read: Vec<CompositeSource> = Vec::new();
        for source in &sources {
            let source = self.composite_source(source)?;
            if read.iter().any(|other| other.name == source.name) {
                return Err(Error::IllegalArgument(format!(
                    "Composite source names must be unique, found duplicates: [{}]",
                    source.name
                )));
            }
            read.push(source);
        }
        Ok(read)
    }

    fn composite_source(&self, source: &Value) -> Result<CompositeSource, Error> {
        let malformed = || Error::Parsing(format!("[sources] of [{}] are malformed", self.requested.name));
        let only = |value: &Value| match value {
            Value::Object(members) if members.len() == 1 => {
                members.iter().next().map(|(name, value)| (name.clone(), value.clone()))
            }
            _ => None,
        };
        let (name, body) = only(source).ok_or_else(malformed)?;
        let (kind, requested) = only(&body).ok_or_else(malformed)?;
        let Value::Object(mut requested) = requested else { return Err(malformed()) };
        if !["terms", "histogram", "date_histogram"].contains(&kind.as_str()) {
            return Err(Error::Parsing(format!("invalid source type: {kind}")));
        }
        let order = requested.remove("order").map(|order| text_of(&order));
        let is_descending = match order.as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(other) => return Err(Error::IllegalArgument(format!("Unknown sort order [{other}]"))),
        };
        let has_missing = requested.remove("missing_bucket") == Some(Value::Bool(true));
        let missing_first = match requested.remove("missing_order").map(|order| text_of(&order)).as_deref() {
            None | Some("default") => None,
            Some("first") => Some(true),
            Some("last") => Some(false),
            Some(other) => return Err(Error::IllegalArgument(format!("Unknown missing order [{other}]"))),
        };
        if missing_first.is_some() && !has_missing {
            return Err(Error::IllegalArgument(
                "missingOrder can only be specified if missingBucket is set to true".to_owned(),
            ));
        }
        options::check(&kind, &requested)?;
        let mut source = FieldSource::new(&kind, &requested, self.scope.indexes)?;
        let division = match kind.as_str() {
            "terms" => SourceDivision::Values,
            "histogram" => match requested.get("interval").and_then(number_of) {
                Some(interval) if interval > 0.0 => SourceDivision::Interval(interval),
                _ => return Err(Error::IllegalArgument("[interval] must be greater than 0".to_owned())),
            },
            _ => match DateRounding::parse(&requested, &source.zone) {
                Some(rounding) => SourceDivision::Dates(rounding),
                None => {
                    return Err(Error::IllegalArgument(format!(
                        "[date_histogram] of [{name}] has no interval that can be read"
                    )));
                }
            },
        };
        // The format of a mapping shows nothing here; that of the source does.
        source.format = requested.get("format").and_then(Value::as_str).map(str::to_owned);
        Ok(CompositeSource { name, source, division, is_descending, has_missing, missing_first })
    }
}
