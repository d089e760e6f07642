//! Range queries: on fields of single values, and on fields of ranges.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Error;
use crate::dates::{DateReading, DateText};
use crate::evaluation::{
    FieldValueKind, SearchedDocument, compare_numbers, kind_of, number_of, stored_number,
};
use crate::fields::{all_at, each_at};
use crate::mapping::{field_at, is_searched, type_of};
use crate::normalizer::ValueNormalizer;
use crate::partitions::TimeSpan;
use crate::query::{RangeBounds, SearchQuery, text_of};
use crate::version_order::version_order;

/// Ranges of dates of one query whose ends are read before the documents.
const ENDS_MAX: usize = 16;

/// Relation of a range in a document to that of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RangeRelation {
    #[default]
    Intersects,
    Within,
    Contains,
    Disjoint,
}

impl RangeRelation {
    /// Parses `relation`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "intersects" => RangeRelation::Intersects,
            "within" => RangeRelation::Within,
            "contains" => RangeRelation::Contains,
            "disjoint" => RangeRelation::Disjoint,
            _ => {
                return Err(Error::Parsing(format!("[range] query does not support relation [{text}]")));
            }
        })
    }
}

/// True for types whose values are ranges.
pub(crate) fn is_range(field_type: &str) -> bool {
    field_type.ends_with("_range")
}

/// End of a range that belongs to it; numbers of one field are all whole or all real.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum RangeEnd {
    Whole(i128),
    Real(f64),
    Address(u128),
}

impl RangeEnd {
    /// The next one above, or below.
    fn moved(self, is_up: bool) -> Self {
        match self {
            RangeEnd::Whole(number) => RangeEnd::Whole(number.saturating_add(if is_up { 1 } else { -1 })),
            RangeEnd::Real(number) => {
                RangeEnd::Real(if is_up { number.next_up() } else { number.next_down() })
            }
            RangeEnd::Address(number) => RangeEnd::Address(match is_up {
                true => number.saturating_add(1),
                false => number.saturating_sub(1),
            }),
        }
    }
}

/// A range; an end that is not given is open.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct RangeSpan {
    from: Option<RangeEnd>,
    to: Option<RangeEnd>,
}

impl RangeSpan {
    /// True if this range begins at the other or before it.
    fn begins_before(self, other: Self) -> bool {
        self.from.is_none_or(|from| other.from.is_some_and(|other| from <= other))
    }

    fn ends_after(self, other: Self) -> bool {
        self.to.is_none_or(|to| other.to.is_some_and(|other| to >= other))
    }

    fn intersects(self, other: Self) -> bool {
        let reaches = |to: Option<RangeEnd>, from: Option<RangeEnd>| {
            to.is_none_or(|to| from.is_none_or(|from| from <= to))
        };
        reaches(self.to, other.from) && reaches(other.to, self.from)
    }

    /// True if this range, of a document, has a relation to that of a query.
    fn is(self, relation: RangeRelation, wanted: Self) -> bool {
        match relation {
            RangeRelation::Intersects => self.intersects(wanted),
            RangeRelation::Disjoint => !self.intersects(wanted),
            RangeRelation::Within => wanted.begins_before(self) && wanted.ends_after(self),
            RangeRelation::Contains => self.begins_before(wanted) && self.ends_after(wanted),
        }
    }
}

fn address_of(text: &str) -> Option<u128> {
    Some(u128::from(match text.parse().ok()? {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }))
}

/// Range of the addresses of a network.
fn network_of(text: &str) -> Option<RangeSpan> {
    let (base, bits) = text.split_once('/')?;
    let first = address_of(base)?;
    let width = if base.contains(':') { 128 } else { 32 };
    let free = u32::checked_sub(width, bits.parse().ok()?)?;
    let mask = 1_u128.checked_shl(free).map_or(u128::MAX, |length| length - 1);
    let end = |number: u128| Some(RangeEnd::Address(u128::from(Ipv6Addr::from(number))));
    Some(RangeSpan { from: end(first & !mask), to: end(first | mask) })
}

/// Reading of an end of a range by the type of its field.
struct EndReading<'r> {
    field_type: &'r str,
    format: Option<&'r str>,
    zone: &'r TimeZone,
    now_ms: i64,
}

impl EndReading<'_> {
    fn end(&self, value: &Value, round_up: bool) -> Option<RangeEnd> {
        match self.field_type {
            "date_range" => {
                let EndReading { format, zone, now_ms, .. } = *self;
                let reading = DateReading { format, now_ms, zone, round_up };
                DateText::resolve(&text_of(value), &reading).map(|millis| RangeEnd::Whole(millis.into()))
            }
            "ip_range" => address_of(&text_of(value)).map(RangeEnd::Address),
            "float_range" | "double_range" => number_of(value).map(RangeEnd::Real),
            _ => match value {
                Value::Number(number) if number.is_u64() => {
                    number.as_u64().map(|number| RangeEnd::Whole(number.into()))
                }
                Value::Number(number) if number.is_i64() => {
                    number.as_i64().map(|number| RangeEnd::Whole(number.into()))
                }
                other => text_of(other)
                    .parse()
                    .ok()
                    .or_else(|| number_of(other).map(|number| number.trunc() as i128))
                    .map(RangeEnd::Whole),
            },
        }
    }

    /// Range of a document.
    fn span(&self, value: &Value) -> Option<RangeSpan> {
        if let (Value::String(text), "ip_range") = (value, self.field_type) {
            return network_of(text);
        }
        let members = value.as_object()?;
        let given = |name: &str| members.get(name).filter(|value| !value.is_null());
        let mut span = RangeSpan::default();
        for (name, is_lower, belongs) in
            [("gte", true, true), ("gt", true, false), ("lte", false, true), ("lt", false, false)]
        {
            let Some(value) = given(name) else { continue };
            // The whole of a rounded date belongs to an upper end, and is left behind by an open lower one.
            let end = self.end(value, is_lower != belongs)?;
            let end = if belongs { end } else { end.moved(is_lower) };
            match is_lower {
                true => span.from = Some(end),
                false => span.to = Some(end),
            }
        }
        Some(span)
    }
}

/// Ends of a range of dates in milliseconds. They are the same for all documents of an index.
#[derive(Debug)]
pub(crate) struct DateEnds<'q> {
    bounds: &'q RangeBounds,
    from: Option<(Value, bool)>,
    to: Option<(Value, bool)>,
}

impl<'q> DateEnds<'q> {
    /// Ends of the ranges of a query whose fields are dates in an index, as far as they can be read: of the
    /// first ones, since those of a range are looked for one by one.
    pub(crate) fn of_query(query: &'q SearchQuery, mappings: &Map<String, Value>, now_ms: i64) -> Vec<Self> {
        let mut all = Vec::new();
        Self::add(query, mappings, now_ms, &mut all);
        all
    }

    fn add(query: &'q SearchQuery, mappings: &Map<String, Value>, now_ms: i64, all: &mut Vec<Self>) {
        if all.len() >= ENDS_MAX {
            return;
        }
        let mut each = |queries: &'q [SearchQuery]| {
            queries.iter().for_each(|query| Self::add(query, mappings, now_ms, all));
        };
        match query {
            SearchQuery::Range { field, bounds } => {
                let definition = field_at(mappings, field).map(|(definition, _)| definition);
                let date = definition.filter(|field| kind_of(type_of(field)) == FieldValueKind::Date);
                all.extend(date.and_then(|definition| Self::read(definition, bounds, now_ms).ok()));
            }
            SearchQuery::Bool(query) => {
                each(&query.must);
                each(&query.filter);
                each(&query.must_not);
                each(&query.should);
            }
            SearchQuery::Best { queries, .. } => each(queries),
            SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => {
                Self::add(query, mappings, now_ms, all);
            }
            _ => {}
        }
    }

    /// Span of the times in a range, if its ends were read before.
    pub(crate) fn span_of(all: &[Self], bounds: &RangeBounds) -> Option<TimeSpan> {
        let ends = all.iter().find(|ends| std::ptr::eq(ends.bounds, bounds))?;
        if bounds.relation == RangeRelation::Disjoint {
            return None;
        }
        let time = |end: &Option<(Value, bool)>, inwards: i64, open: i64| match end {
            None => Some(open),
            Some((bound, true)) => bound.as_i64(),
            Some((bound, false)) => bound.as_i64()?.checked_add(inwards),
        };
        Some((time(&ends.from, 1, i64::MIN)?, time(&ends.to, -1, i64::MAX)?))
    }

    /// Reads the ends of a range of a date field.
    ///
    /// # Errors
    /// One is no date.
    fn read(definition: &Map<String, Value>, bounds: &'q RangeBounds, now_ms: i64) -> Result<Self, Error> {
        let format = bounds.format.as_deref().or_else(|| definition.get("format").and_then(Value::as_str));
        let utc = TimeZone::UTC;
        let zone = bounds.zone.as_ref().unwrap_or(&utc);
        let end = |bound: &Option<(Value, bool)>, is_upper: bool| -> Result<Option<(Value, bool)>, Error> {
            let Some((value, includes)) = bound else { return Ok(None) };
            let text = text_of(value);
            // The end of a rounded date counts for its upper end, and for what comes after it.
            let round_up = is_upper == *includes;
            match DateText::resolve(&text, &DateReading { format, now_ms, zone, round_up }) {
                Some(millis) => Ok(Some((millis.into(), *includes))),
                None => Err(Error::Parsing(format!(
                    "failed to parse date field [{text}] with format [{}]",
                    format.unwrap_or("strict_date_optional_time||epoch_millis")
                ))),
            }
        };
        Ok(DateEnds { bounds, from: end(&bounds.from, false)?, to: end(&bounds.to, true)? })
    }
}

impl SearchedDocument<'_> {
    /// True if a range of the document has the relation that is asked for.
    fn has_range(
        &self,
        definition: &Map<String, Value>,
        source_path: &str,
        bounds: &RangeBounds,
    ) -> Result<bool, Error> {
        let field_type = type_of(definition);
        let own = definition.get("format").and_then(Value::as_str);
        let reading = EndReading {
            field_type,
            format: bounds.format.as_deref().or(own),
            zone: &bounds.zone.clone().unwrap_or(TimeZone::UTC),
            now_ms: self.now_ms,
        };
        let wanted = |bound: &Option<(Value, bool)>, is_lower: bool| match bound {
            None => Ok(None),
            Some((value, belongs)) => match reading.end(value, is_lower != *belongs) {
                Some(end) => Ok(Some(if *belongs { end } else { end.moved(is_lower) })),
                None => Err(Error::IllegalArgument(format!(
                    "failed to create query: [{}] is not an end of a [{field_type}]",
                    text_of(value)
                ))),
            },
        };
        let wanted = RangeSpan { from: wanted(&bounds.from, true)?, to: wanted(&bounds.to, false)? };
        let reading = EndReading { format: own, zone: &TimeZone::UTC, ..reading };
        let spans = all_at(self.source, source_path).into_iter().filter_map(|value| reading.span(value));
        let mut spans = spans.into_iter();
        Ok(spans.any(|span| span.is(bounds.relation, wanted)))
    }

    pub(crate) fn is_in_range(&self, field: &str, bounds: &RangeBounds) -> Result<bool, Error> {
        if let Some(own) = self.meta(field) {
            let own = Value::from(own);
            return Ok(is_between(&bounds.from, &bounds.to, |bound| compare_numbers(&own, bound)));
        }
        let Some((definition, source_path)) = self.field(field) else { return Ok(false) };
        let definition = &*definition;
        if is_range(type_of(definition)) {
            return self.has_range(definition, &source_path, bounds);
        }
        if bounds.relation == RangeRelation::Disjoint {
            return Err(Error::IllegalArgument(
                "[range] queries on fields of single values don't support DISJOINT relations".to_owned(),
            ));
        }
        let kind = kind_of(type_of(definition));
        let is_flat = matches!(type_of(definition), "flattened" | "flat_object");
        let read;
        let (from, to) = match self.ends.iter().find(|ends| std::ptr::eq(ends.bounds, bounds)) {
            Some(ends) => (&ends.from, &ends.to),
            None if kind == FieldValueKind::Date => {
                read = DateEnds::read(definition, bounds, self.now_ms)?;
                (&read.from, &read.to)
            }
            None => (&bounds.from, &bounds.to),
        };
        if kind == FieldValueKind::Number {
            [from, to].into_iter().flatten().try_for_each(|(value, _)| check_number(value))?;
        }
        let own_format = definition.get("format").and_then(Value::as_str);
        let normalizer = ValueNormalizer::of(definition, self.settings);
        let normalized = |bound: &Value| match &normalizer {
            Some(normalizer) => normalizer.apply(&text_of(bound)),
            None => text_of(bound),
        };
        let compare = |own: &Value, bound: &Value| match kind {
            FieldValueKind::Number => compare_numbers(&stored_number(definition, own), bound),
            FieldValueKind::Date => {
                let own = DateText::parse_value(own, own_format)?;
                Some(own.cmp(&bound.as_i64()?))
            }
            FieldValueKind::Ip => {
                let address = |value: &Value| text_of(value).parse::<std::net::IpAddr>().ok();
                Some(address(own)?.cmp(&address(bound)?))
            }
            FieldValueKind::Version => Some(version_order(&text_of(own), &text_of(bound))),
            // Values below such a field have types of their own.
            _ if is_flat && own.is_number() => compare_numbers(own, bound),
            _ => Some(text_of(own).cmp(&normalized(bound))),
        };
        let mut found = false;
        each_at(self.source, &source_path, &mut |own| {
            found |= is_searched(definition, own) && is_between(from, to, |bound| compare(own, bound));
        });
        Ok(found)
    }
}

/// True if a value is between two bounds, each of which may be left open, and may be included. `order_to` is
/// its order to a bound, if there is one.
fn is_between(
    from: &Option<(Value, bool)>,
    to: &Option<(Value, bool)>,
    order_to: impl Fn(&Value) -> Option<Ordering>,
) -> bool {
    let is_kept = |end: &Option<(Value, bool)>, side: Ordering| {
        end.as_ref().is_none_or(|(bound, includes)| {
            order_to(bound).is_some_and(|order| order == side || *includes && order == Ordering::Equal)
        })
    };
    is_kept(from, Ordering::Greater) && is_kept(to, Ordering::Less)
}

/// Checks that a bound is a number.
fn check_number(value: &Value) -> Result<(), Error> {
    match number_of(value) {
        Some(_) => Ok(()),
        None => Err(Error::IllegalArgument(format!(
            "failed to create query: For input string: \"{}\"",
            text_of(value)
        ))),
    }
}
