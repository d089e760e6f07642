//! Buckets by ranges of numbers, dates and addresses.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Map, Value, json};

use super::values::{AggregatedValue, FieldSource, ValueForm};
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::catalog::now_ms;
use crate::dates::{DateReading, DateText};
use crate::evaluation::number_of;
use crate::query::text_of;
use crate::search::SearchHit;
use crate::small_sort::sort_few;

/// A range of values; its upper end does not belong to it.
struct ValueRange {
    key: Option<String>,
    from: Option<AggregatedValue>,
    to: Option<AggregatedValue>,
}

impl ValueRange {
    fn has(&self, value: &AggregatedValue) -> bool {
        self.from.as_ref().is_none_or(|from| value >= from) && self.to.as_ref().is_none_or(|to| value < to)
    }

    /// Order by lower, then by upper ends; open ends are outermost.
    fn order(&self, other: &Self) -> Ordering {
        let lower = self.from.cmp(&other.from);
        lower.then_with(|| match (&self.to, &other.to) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(left), Some(right)) => left.cmp(right),
        })
    }
}

/// Division of values into ranges, in their order.
pub(super) struct RangeDivision {
    source: FieldSource,
    /// Form of the ends of the ranges.
    wanted: ValueForm,
    ranges: Vec<ValueRange>,
}

impl RangeDivision {
    /// Positions of the ranges that have a document.
    pub(super) fn indices(&self, hit: &SearchHit) -> Vec<usize> {
        let values = self.source.of(hit);
        let has = |range: &ValueRange| values.iter().any(|value| range.has(value));
        let indices = self.ranges.iter().enumerate().filter(|(_, range)| has(range));
        indices.map(|(index, _)| index).collect()
    }

    /// Number of the ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }
}

impl BucketAggregation<'_> {
    pub(super) fn ranges(&self) -> Result<Value, Error> {
        let division = self.range_division()?;
        let mut parts: Vec<Vec<&SearchHit>> = vec![Vec::new(); division.len()];
        self.each(|hit| {
            for index in division.indices(hit) {
                parts[index].push(hit);
            }
            Ok(())
        })?;
        self.finish_ranges(&division, &parts)
    }

    /// Buckets of ranges.
    pub(super) fn finish_ranges(
        &self,
        division: &RangeDivision,
        parts: &[impl BucketContent],
    ) -> Result<Value, Error> {
        let mut shown = division.source.clone();
        shown.form = division.wanted;
        let buckets = division.ranges.iter().zip(parts);
        let buckets = buckets.map(|(range, part)| self.bucket(Self::range_head(&shown, range), part));
        let buckets = buckets.collect::<Result<_, _>>()?;
        Ok(json!({ "buckets": self.listed(buckets)? }))
    }

    pub(super) fn range_division(&self) -> Result<RangeDivision, Error> {
        let source = self.source()?;
        let wanted = match self.requested.kind.as_str() {
            "date_range" => ValueForm::Date,
            "ip_range" => ValueForm::Address,
            _ => ValueForm::Real,
        };
        let is_of_kind = match wanted {
            ValueForm::Real => source.form == ValueForm::Unmapped || source.form.is_numeric(),
            _ => source.form == wanted || source.form == ValueForm::Unmapped,
        };
        if !is_of_kind {
            return Err(Error::IllegalArgument(format!(
                "Field [{}] has values that [{}] does not divide",
                self.text_option("field").unwrap_or_default(),
                self.requested.kind
            )));
        }
        let Some(Value::Array(ranges)) = self.option("ranges") else {
            return Err(Error::IllegalArgument(format!(
                "No [ranges] specified for the [{}] aggregation",
                self.requested.name
            )));
        };
        if ranges.is_empty() {
            return Err(Error::IllegalArgument(format!(
                "No [ranges] specified for the [{}] aggregation",
                self.requested.name
            )));
        }
        let ranges = ranges.iter().map(|range| self.range_of(range, &source, wanted));
        let mut ranges: Vec<ValueRange> = ranges.collect::<Result<_, _>>()?;
        sort_few(&mut ranges, ValueRange::order);
        Ok(RangeDivision { source, wanted, ranges })
    }

    fn range_head(source: &FieldSource, range: &ValueRange) -> Map<String, Value> {
        let text = |end: &Option<AggregatedValue>| match end {
            None => "*".to_owned(),
            Some(value) => source.text(value).unwrap_or_else(|| match value {
                AggregatedValue::Real(number) => format!("{number:?}"),
                other => text_of(&other.json()),
            }),
        };
        let mut head = Map::new();
        let key = range.key.clone().unwrap_or_else(|| format!("{}-{}", text(&range.from), text(&range.to)));
        head.insert("key".to_owned(), key.into());
        for (name, end) in [("from", &range.from), ("to", &range.to)] {
            let Some(value) = end else { continue };
            let shown = match source.form {
                ValueForm::Date => json!(value.number()),
                _ => value.json(),
            };
            head.insert(name.to_owned(), shown);
            head.extend(source.text(value).map(|text| (format!("{name}_as_string"), text.into())));
        }
        head
    }

    fn range_of(&self, range: &Value, source: &FieldSource, wanted: ValueForm) -> Result<ValueRange, Error> {
        let Value::Object(members) = range else {
            return Err(Error::Parsing(format!("[ranges] of [{}] are objects", self.requested.name)));
        };
        let is_known = |name: &str| {
            ["key", "from", "to"].contains(&name) || name == "mask" && wanted == ValueForm::Address
        };
        if let Some(unknown) = members.keys().find(|name| !is_known(name)) {
            return Err(Error::Parsing(format!("[ranges] unknown field [{unknown}]")));
        }
        let key = members.get("key").map(text_of);
        if let Some(mask) = members.get("mask").map(text_of) {
            let [from, to] = network(&mask).ok_or_else(|| {
                Error::IllegalArgument(format!(
                    "invalid CIDR mask [{mask}] in aggregation [{}]",
                    self.requested.name
                ))
            })?;
            return Ok(ValueRange { key: key.or(Some(mask)), from, to });
        }
        let end = |name: &str| match members.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => {
                let read = match wanted {
                    ValueForm::Date => {
                        let (zone, format) = (&source.zone, source.format.as_deref());
                        let reading = DateReading { format, now_ms: now_ms() as i64, zone, round_up: false };
                        DateText::resolve(&text_of(value), &reading)
                            .map(|at| AggregatedValue::Whole(at.into()))
                    }
                    ValueForm::Address => AggregatedValue::address(&text_of(value)),
                    _ => number_of(value).map(AggregatedValue::Real),
                };
                read.map(Some).ok_or_else(|| {
                    Error::Parsing(format!(
                        "[{name}] of a range of [{}] cannot be read: [{}]",
                        self.requested.name,
                        text_of(value)
                    ))
                })
            }
        };
        Ok(ValueRange { key, from: end("from")?, to: end("to")? })
    }
}

/// First address of a network, and the first one after it.
fn network(mask: &str) -> Option<[Option<AggregatedValue>; 2]> {
    let (base, bits) = mask.split_once('/')?;
    let (base, bits): (IpAddr, u32) = (base.parse().ok()?, bits.parse().ok()?);
    let (number, width): (u128, u32) = match base {
        IpAddr::V4(address) => (u128::from(address.to_ipv6_mapped()), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let length = 1_u128.checked_shl(width.checked_sub(bits)?);
    let first = length.map_or(0, |length| number / length * length);
    let after = length.and_then(|length| first.checked_add(length));
    let address = |number: u128| AggregatedValue::Address(Ipv6Addr::from(number));
    Some([Some(address(first)), after.map(address)])
}
