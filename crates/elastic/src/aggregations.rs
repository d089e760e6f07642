//! Aggregations: terms, dates, numbers and ranges of the matching documents.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::dates::{DateText, floor, span, zone_of};
use crate::evaluation::{FieldValueKind, kind_of, number_of};
use crate::fields::all_at;
use crate::mapping::{field_at, type_of};
use crate::query::{self, text_of};
use crate::search::{SearchHit, searched};

/// Buckets that one aggregation may have.
const BUCKETS_MAX: usize = 65_536;

/// Runs aggregations over documents.
///
/// # Errors
/// One is malformed, or of a kind that there is not.
pub(crate) fn run(
    aggregations: &Map<String, Value>,
    hits: &[&SearchHit],
    names_types: bool,
) -> Result<Value, Error> {
    let mut answer = Map::new();
    for (name, body) in aggregations {
        let Value::Object(body) = body else {
            return Err(Error::Parsing(format!("[{name}] an aggregation is an object")));
        };
        let empty = Map::new();
        let inner = body
            .get("aggs")
            .or_else(|| body.get("aggregations"))
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let mut kinds =
            body.iter().filter(|(kind, _)| !["aggs", "aggregations", "meta"].contains(&kind.as_str()));
        let (Some((kind, options)), None) = (kinds.next(), kinds.next()) else {
            return Err(Error::Parsing(format!(
                "Expected [START_OBJECT] under [{name}] with one type of aggregation"
            )));
        };
        let aggregation = OneAggregation { kind, options, inner, hits, names_types };
        let (typed, mut value) = aggregation.run()?;
        if let Some(meta) = body.get("meta") {
            value["meta"] = meta.clone();
        }
        answer.insert(if names_types { format!("{typed}#{name}") } else { name.clone() }, value);
    }
    Ok(Value::Object(answer))
}

struct OneAggregation<'a> {
    kind: &'a str,
    options: &'a Value,
    inner: &'a Map<String, Value>,
    hits: &'a [&'a SearchHit],
    names_types: bool,
}

impl OneAggregation<'_> {
    fn run(&self) -> Result<(&'static str, Value), Error> {
        match self.kind {
            "terms" => self.terms(),
            "date_histogram" => Ok(("date_histogram", self.date_histogram()?)),
            "histogram" => Ok(("histogram", self.histogram()?)),
            "filter" => {
                let filter = query::parse(self.options)?;
                let hits = self.matching(&filter)?;
                Ok(("filter", self.bucket(&hits, Map::new())?))
            }
            "filters" => Ok(("filters", self.filters()?)),
            "missing" => {
                let field = self.field()?;
                let hits: Vec<&SearchHit> =
                    self.hits.iter().copied().filter(|hit| values(hit, field).is_empty()).collect();
                Ok(("missing", self.bucket(&hits, Map::new())?))
            }
            "range" => Ok(("range", self.ranges()?)),
            "global" => Ok(("global", self.bucket(self.hits, Map::new())?)),
            "value_count" => {
                let field = self.field()?;
                let count: usize = self.hits.iter().map(|hit| values(hit, field).len()).sum();
                Ok(("value_count", json!({ "value": count })))
            }
            "cardinality" => {
                let field = self.field()?;
                let all = self.hits.iter().flat_map(|hit| values(hit, field)).map(|value| value.to_string());
                let different: std::collections::BTreeSet<String> = all.collect();
                Ok(("cardinality", json!({ "value": different.len() })))
            }
            "stats" | "avg" | "sum" | "min" | "max" => self.stats(),
            other => Err(Error::Parsing(format!("Unknown aggregation type [{other}]"))),
        }
    }

    fn field(&self) -> Result<&str, Error> {
        self.options.get("field").and_then(Value::as_str).ok_or_else(|| {
            Error::IllegalArgument(format!(
                "Required one of fields [field, script], but none were specified. [{}]",
                self.kind
            ))
        })
    }

    fn matching(&self, filter: &query::SearchQuery) -> Result<Vec<&SearchHit>, Error> {
        let mut matching = Vec::new();
        for hit in self.hits {
            if searched(hit).score(filter, &mut Vec::new())?.is_some() {
                matching.push(*hit);
            }
        }
        Ok(matching)
    }

    /// A bucket with its inner aggregations.
    fn bucket(&self, hits: &[&SearchHit], head: Map<String, Value>) -> Result<Value, Error> {
        let mut bucket = head;
        bucket.insert("doc_count".to_owned(), hits.len().into());
        if let Value::Object(inner) = run(self.inner, hits, self.names_types)? {
            bucket.extend(inner);
        }
        Ok(Value::Object(bucket))
    }

    fn terms(&self) -> Result<(&'static str, Value), Error> {
        let field = self.field()?;
        let mut by_value: BTreeMap<String, (Value, Vec<&SearchHit>)> = BTreeMap::new();
        for hit in self.hits {
            let mut own = values(hit, field);
            if own.is_empty() {
                own.extend(self.options.get("missing").cloned());
            }
            let mut seen: Vec<String> = Vec::new();
            for value in own {
                let key = text_of(&value);
                if !seen.contains(&key) {
                    by_value.entry(key.clone()).or_insert_with(|| (value, Vec::new())).1.push(hit);
                    seen.push(key);
                }
            }
            if by_value.len() > BUCKETS_MAX {
                return Err(too_many_buckets());
            }
        }
        let size = self.options.get("size").and_then(Value::as_u64).unwrap_or(10) as usize;
        let least = self.options.get("min_doc_count").and_then(Value::as_u64).unwrap_or(1) as usize;
        let mut buckets: Vec<(Value, Vec<&SearchHit>)> =
            by_value.into_values().filter(|(_, hits)| hits.len() >= least).collect();
        let order =
            self.options.get("order").and_then(Value::as_object).and_then(|order| order.iter().next());
        let ascending = order.is_some_and(|(_, way)| way == "asc");
        let by_key = |left: &Value, right: &Value| match (left, right) {
            (Value::Number(_), Value::Number(_)) => {
                crate::evaluation::compare_numbers(left, right).unwrap_or(std::cmp::Ordering::Equal)
            }
            _ => text_of(left).cmp(&text_of(right)),
        };
        buckets.sort_by(|left, right| match order.map(|(by, _)| by.as_str()) {
            Some("_key" | "_term") => {
                let order = by_key(&left.0, &right.0);
                if ascending { order } else { order.reverse() }
            }
            _ => {
                let order = left.1.len().cmp(&right.1.len());
                let order = if ascending { order } else { order.reverse() };
                order.then_with(|| by_key(&left.0, &right.0))
            }
        });
        let others: usize = buckets.iter().skip(size).map(|(_, hits)| hits.len()).sum();
        buckets.truncate(size);
        let kind = self.hits.iter().find_map(|hit| field_kind(hit, field));
        let shown = buckets.iter().map(|(key, hits)| {
            let mut head = Map::new();
            let key = match kind {
                Some(FieldValueKind::Boolean) => {
                    head.insert("key_as_string".to_owned(), text_of(key).into());
                    i64::from(text_of(key) == "true").into()
                }
                Some(FieldValueKind::Date) => {
                    let millis = key.as_i64().unwrap_or(0);
                    head.insert(
                        "key_as_string".to_owned(),
                        DateText::write(millis, None, &TimeZone::UTC).into(),
                    );
                    key.clone()
                }
                _ => key.clone(),
            };
            head.insert("key".to_owned(), key);
            self.bucket(hits, head)
        });
        let shown: Vec<Value> = shown.collect::<Result<_, _>>()?;
        let typed = match kind {
            Some(FieldValueKind::Number | FieldValueKind::Boolean | FieldValueKind::Date) => "lterms",
            _ => "sterms",
        };
        let answer =
            json!({ "doc_count_error_upper_bound": 0, "sum_other_doc_count": others, "buckets": shown });
        Ok((typed, answer))
    }

    fn date_histogram(&self) -> Result<Value, Error> {
        let field = self.field()?;
        let text = |name: &str| self.options.get(name).map(text_of);
        let interval =
            text("calendar_interval").or_else(|| text("fixed_interval")).or_else(|| text("interval"));
        let Some(interval) = interval else {
            return Err(Error::IllegalArgument(
                "Invalid interval specified, must be non-null and non-empty".to_owned(),
            ));
        };
        let zone = match text("time_zone") {
            None => TimeZone::UTC,
            Some(name) => zone_of(&name)
                .ok_or_else(|| Error::IllegalArgument(format!("Unknown time-zone ID: {name}")))?,
        };
        let unit = unit_of(&interval).ok_or_else(|| {
            Error::IllegalArgument(format!("The supplied interval [{interval}] could not be parsed"))
        })?;
        let is_fixed = unit.count != 1 || self.options.get("fixed_interval").is_some();
        let start = |millis: i64| -> Option<i64> {
            if is_fixed {
                let length = unit.fixed_ms()?;
                return Some(millis.div_euclid(length) * length);
            }
            let at = Timestamp::from_millisecond(millis).ok()?.to_zoned(zone.clone());
            Some(floor(&at, unit.letter)?.timestamp().as_millisecond())
        };
        let mut by_start: BTreeMap<i64, Vec<&SearchHit>> = BTreeMap::new();
        for hit in self.hits {
            for value in values(hit, field) {
                if let Some(start) = value.as_i64().and_then(start) {
                    let bucket = by_start.entry(start).or_default();
                    if bucket.last().is_none_or(|last| !std::ptr::eq(*last, *hit)) {
                        bucket.push(hit);
                    }
                }
            }
        }
        let least = self.options.get("min_doc_count").and_then(Value::as_u64).unwrap_or(0) as usize;
        if let (0, Some(first), Some(last)) =
            (least, by_start.keys().next().copied(), by_start.keys().last().copied())
        {
            let mut at = first;
            while at < last {
                let next = match is_fixed {
                    true => unit.fixed_ms().map(|length| at + length),
                    false => Timestamp::from_millisecond(at).ok().and_then(|at| {
                        let next = at.to_zoned(zone.clone()).checked_add(span(unit.letter, 1)?).ok()?;
                        Some(next.timestamp().as_millisecond())
                    }),
                };
                let Some(next) = next.filter(|next| *next > at) else { break };
                at = next;
                by_start.entry(at).or_default();
                if by_start.len() > BUCKETS_MAX {
                    return Err(too_many_buckets());
                }
            }
        }
        let format = text("format");
        let shown = by_start.iter().filter(|(_, hits)| hits.len() >= least).map(|(start, hits)| {
            let mut head = Map::new();
            head.insert("key_as_string".to_owned(), DateText::write(*start, format.as_deref(), &zone).into());
            head.insert("key".to_owned(), (*start).into());
            self.bucket(hits, head)
        });
        Ok(json!({ "buckets": shown.collect::<Result<Vec<_>, _>>()? }))
    }

    fn histogram(&self) -> Result<Value, Error> {
        let field = self.field()?;
        let interval = self.options.get("interval").and_then(number_of).filter(|interval| *interval > 0.0);
        let Some(interval) = interval else {
            return Err(Error::IllegalArgument("[interval] must be >0 for histogram aggregation".to_owned()));
        };
        let mut by_start: BTreeMap<i64, Vec<&SearchHit>> = BTreeMap::new();
        for hit in self.hits {
            for number in values(hit, field).iter().filter_map(number_of) {
                by_start.entry((number / interval).floor() as i64).or_default().push(hit);
            }
        }
        let least = self.options.get("min_doc_count").and_then(Value::as_u64).unwrap_or(0) as usize;
        if let (0, Some(first), Some(last)) =
            (least, by_start.keys().next().copied(), by_start.keys().last().copied())
        {
            if last.saturating_sub(first) > BUCKETS_MAX as i64 {
                return Err(too_many_buckets());
            }
            for at in first..last {
                by_start.entry(at).or_default();
            }
        }
        let shown = by_start.iter().filter(|(_, hits)| hits.len() >= least).map(|(at, hits)| {
            let mut head = Map::new();
            head.insert("key".to_owned(), json!(*at as f64 * interval));
            self.bucket(hits, head)
        });
        Ok(json!({ "buckets": shown.collect::<Result<Vec<_>, _>>()? }))
    }

    fn filters(&self) -> Result<Value, Error> {
        let one = |filter: &Value| self.bucket(&self.matching(&query::parse(filter)?)?, Map::new());
        match self.options.get("filters") {
            Some(Value::Object(named)) => {
                let mut buckets = Map::new();
                for (name, filter) in named {
                    buckets.insert(name.clone(), one(filter)?);
                }
                Ok(json!({ "buckets": buckets }))
            }
            Some(Value::Array(filters)) => {
                Ok(json!({ "buckets": filters.iter().map(one).collect::<Result<Vec<_>, _>>()? }))
            }
            _ => Err(Error::Parsing("[filters] needs filters".to_owned())),
        }
    }

    fn ranges(&self) -> Result<Value, Error> {
        let field = self.field()?;
        let mut buckets = Vec::new();
        for range in self.options.get("ranges").and_then(Value::as_array).into_iter().flatten() {
            let (from, to) = (range.get("from").and_then(number_of), range.get("to").and_then(number_of));
            let is_in = |hit: &&SearchHit| {
                values(hit, field)
                    .iter()
                    .filter_map(number_of)
                    .any(|number| from.is_none_or(|from| number >= from) && to.is_none_or(|to| number < to))
            };
            let hits: Vec<&SearchHit> = self.hits.iter().copied().filter(is_in).collect();
            let end = |end: Option<f64>| end.map_or("*".to_owned(), |end| format!("{end:?}"));
            let mut head = Map::new();
            let key = range.get("key").map(text_of).unwrap_or_else(|| format!("{}-{}", end(from), end(to)));
            head.insert("key".to_owned(), key.into());
            head.extend(from.map(|from| ("from".to_owned(), json!(from))));
            head.extend(to.map(|to| ("to".to_owned(), json!(to))));
            buckets.push(self.bucket(&hits, head)?);
        }
        Ok(json!({ "buckets": buckets }))
    }

    fn stats(&self) -> Result<(&'static str, Value), Error> {
        let field = self.field()?;
        let numbers: Vec<f64> = self
            .hits
            .iter()
            .flat_map(|hit| values(hit, field))
            .filter_map(|value| number_of(&value))
            .collect();
        let sum: f64 = numbers.iter().sum();
        let some = |number: f64| if numbers.is_empty() { Value::Null } else { json!(number) };
        let least = some(numbers.iter().copied().fold(f64::INFINITY, f64::min));
        let most = some(numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let average = some(sum / numbers.len().max(1) as f64);
        Ok(match self.kind {
            "avg" => ("avg", json!({ "value": average })),
            "sum" => ("sum", json!({ "value": sum })),
            "min" => ("min", json!({ "value": least })),
            "max" => ("max", json!({ "value": most })),
            _ => (
                "stats",
                json!({ "count": numbers.len(), "min": least, "max": most, "avg": average, "sum": sum }),
            ),
        })
    }
}

fn too_many_buckets() -> Error {
    Error::IllegalArgument(format!(
        "Trying to create too many buckets. Must be less than or equal to: [{BUCKETS_MAX}]; use a wider interval or a narrower query"
    ))
}

fn field_kind(hit: &SearchHit, field: &str) -> Option<FieldValueKind> {
    field_at(&hit.index.entry.mappings, field).map(|(definition, _)| kind_of(type_of(definition)))
}

/// Values of a field as aggregations see them: dates in milliseconds.
fn values(hit: &SearchHit, field: &str) -> Vec<Value> {
    match field {
        "_index" => return vec![hit.index.entry.name.as_str().into()],
        "_id" => return vec![hit.stored.id.as_str().into()],
        _ => {}
    }
    let Some((definition, place)) = field_at(&hit.index.entry.mappings, field) else { return Vec::new() };
    let format = definition.get("format").and_then(Value::as_str);
    let kind = kind_of(type_of(definition));
    let one = |value: &Value| match kind {
        FieldValueKind::Date => DateText::parse_value(value, format).map(Value::from),
        FieldValueKind::Number => match value {
            Value::String(text) => {
                text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from)).ok()
            }
            other => Some(other.clone()),
        },
        _ => Some(text_of(value).into()),
    };
    all_at(&hit.document, &place).into_iter().filter_map(one).collect()
}

/// An interval of dates.
struct DateInterval {
    count: i64,
    letter: char,
}

impl DateInterval {
    /// Length in milliseconds; `None` if it differs from one to the next.
    fn fixed_ms(&self) -> Option<i64> {
        let unit = match self.letter {
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => 86_400_000,
            'w' => 7 * 86_400_000,
            _ => return None,
        };
        self.count.checked_mul(unit).filter(|length| *length > 0)
    }
}

fn unit_of(text: &str) -> Option<DateInterval> {
    let letter = match text {
        "second" => 's',
        "minute" => 'm',
        "hour" => 'h',
        "day" => 'd',
        "week" => 'w',
        "month" => 'M',
        "quarter" => 'q',
        "year" => 'y',
        other => {
            let at = other.find(|letter: char| !letter.is_ascii_digit())?;
            let (count, unit) = other.split_at(at);
            let count = if count.is_empty() { 1 } else { count.parse().ok()? };
            let mut letters = unit.chars();
            let (letter, None) = (letters.next()?, letters.next()) else { return None };
            return "smhdwMqy".contains(letter).then_some(DateInterval { count, letter });
        }
    };
    Some(DateInterval { count: 1, letter })
}
