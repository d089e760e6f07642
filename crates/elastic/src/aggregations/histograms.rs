//! Buckets by intervals of numbers and of time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::values::{AggregatedValue, FieldSource, ValueForm};
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::catalog::now_ms;
use crate::dates::{DateReading, DateText, common_length, floor, span};
use crate::evaluation::number_of;
use crate::query::text_of;
use crate::search::SearchHit;

/// Documents of each interval, by its number or its beginning.
type Intervals<'a> = BTreeMap<i64, Vec<&'a SearchHit>>;

/// Beginning of ranges of dates without a lower end, about 9,500 years before the epoch.
const DATE_LEAST_MS: f64 = -3e14;

/// Bounds of the keys of a histogram, each as an interval.
#[derive(Debug, Clone, Copy, Default)]
struct KeyBounds {
    min: Option<i64>,
    max: Option<i64>,
}

impl KeyBounds {
    fn has(self, key: i64) -> bool {
        self.min.is_none_or(|min| key >= min) && self.max.is_none_or(|max| key <= max)
    }
}

/// Division of numbers into intervals of one length.
pub(super) struct NumberDivision {
    source: FieldSource,
    interval: f64,
    offset: f64,
    hard: KeyBounds,
    extended: KeyBounds,
}

impl NumberDivision {
    fn key_of(&self, number: f64) -> i64 {
        ((number - self.offset) / self.interval).floor() as i64
    }
}

/// Division of points in time into intervals.
pub(super) struct DateDivision {
    source: FieldSource,
    rounding: DateRounding,
    hard: KeyBounds,
    extended: KeyBounds,
}

impl DateDivision {
    /// Length in milliseconds of stretches of time, from multiples of it on, that have one interval each;
    /// `None` if that is not known.
    pub(super) fn alike_ms(&self) -> Option<i64> {
        self.rounding.alike_ms()
    }
}

impl<'a> BucketAggregation<'a> {
    pub(super) fn number_division(&self) -> Result<NumberDivision, Error> {
        let source = self.source()?;
        check_points(&source, "histogram")?;
        let interval = self.option("interval").and_then(number_of).filter(|interval| *interval > 0.0);
        let Some(interval) = interval else {
            return Err(Error::IllegalArgument("[interval] must be >0 for histogram aggregation".to_owned()));
        };
        let offset = self.number_of("offset", 0.0)?;
        let (hard, extended) = (KeyBounds::default(), KeyBounds::default());
        let mut division = NumberDivision { source, interval, offset, hard, extended };
        let bound = |value: &Value| number_of(value).map(|number| division.key_of(number));
        let (hard, extended) = (self.bounds("hard_bounds", &bound)?, self.bounds("extended_bounds", &bound)?);
        (division.hard, division.extended) = (hard, extended);
        Ok(division)
    }

    /// Numbers of the intervals that have a document, each once.
    pub(super) fn number_keys(&self, division: &NumberDivision, hit: &SearchHit) -> Result<Vec<i64>, Error> {
        let mut keys = Vec::new();
        for span in division.source.spans(hit) {
            let first = division.key_of(span.from).max(division.hard.min.unwrap_or(i64::MIN));
            let last = division.key_of(span.to).min(division.hard.max.unwrap_or(i64::MAX));
            self.check_steps(last.saturating_sub(first))?;
            keys.extend(first..=last);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    pub(super) fn histogram(&self) -> Result<Value, Error> {
        let division = self.number_division()?;
        let mut parts = Intervals::new();
        self.each(|hit| {
            for key in self.number_keys(&division, hit)? {
                parts.entry(key).or_default().push(hit);
            }
            Ok(())
        })?;
        self.finish_histogram(&division, parts, Vec::new)
    }

    /// Buckets of intervals of numbers, with the empty ones between them.
    pub(super) fn finish_histogram<B: BucketContent>(
        &self,
        division: &NumberDivision,
        mut parts: BTreeMap<i64, B>,
        empty: impl Fn() -> B,
    ) -> Result<Value, Error> {
        let min = self.count_of("min_doc_count", 0)?;
        if let (0, Some([first, last])) = (min, ends(&parts, division.hard, division.extended)) {
            self.check_steps(last.saturating_sub(first))?;
            for key in first..=last {
                parts.entry(key).or_insert_with(&empty);
            }
        }
        let mut shown = division.source.clone();
        shown.form = ValueForm::Real;
        let value = |key: i64| AggregatedValue::Real(key as f64 * division.interval + division.offset);
        self.intervals(parts, min, &|key| Self::head(&shown, &value(key)))
    }

    pub(super) fn date_division(&self) -> Result<DateDivision, Error> {
        let source = self.source()?;
        check_points(&source, "date_histogram")?;
        let text = |name: &str| self.text_option(name);
        let interval =
            text("calendar_interval").or_else(|| text("fixed_interval")).or_else(|| text("interval"));
        let Some(interval) = interval else {
            return Err(Error::IllegalArgument(
                "Invalid interval specified, must be non-null and non-empty".to_owned(),
            ));
        };
        let unit = unit_of(&interval).ok_or_else(|| {
            Error::IllegalArgument(format!("The supplied interval [{interval}] could not be parsed"))
        })?;
        let is_fixed = self.option("fixed_interval").is_some() || unit.count != 1 || unit.letter == 'S';
        if self.option("calendar_interval").is_some() && is_fixed {
            return Err(Error::IllegalArgument(format!(
                "The supplied interval [{interval}] could not be parsed as a calendar interval."
            )));
        }
        if is_fixed && unit.fixed_ms().is_none() {
            return Err(Error::IllegalArgument(format!(
                "failed to parse setting [date_histogram.fixedInterval] with value [{interval}] as a time value: unit is missing \
                 or unrecognized"
            )));
        }
        let offset_ms = match text("offset") {
            None => 0,
            Some(text) => offset_of(&text)
                .ok_or_else(|| Error::IllegalArgument(format!("failed to parse [offset] [{text}]")))?,
        };
        let rounding = DateRounding { unit, is_fixed, zone: source.zone.clone(), offset_ms };
        let bound = |value: &Value| {
            let zone = &source.zone;
            let reading = DateReading {
                format: source.format.as_deref(),
                now_ms: now_ms() as i64,
                zone,
                round_up: false,
            };
            rounding.start(DateText::resolve(&text_of(value), &reading)?)
        };
        let (hard, extended) = (self.bounds("hard_bounds", &bound)?, self.bounds("extended_bounds", &bound)?);
        Ok(DateDivision { source, rounding, hard, extended })
    }

    /// Beginnings of the intervals that have a document, each once.
    pub(super) fn date_keys(&self, division: &DateDivision, hit: &SearchHit) -> Result<Vec<i64>, Error> {
        let DateDivision { source, rounding, hard, .. } = division;
        let mut keys = Vec::new();
        for span in source.spans(hit) {
            let from = span.from.max(hard.min.map_or(DATE_LEAST_MS, |min| min as f64));
            let Some(mut at) = rounding.start(from as i64) else { continue };
            let mut steps = 0;
            while at as f64 <= span.to && hard.max.is_none_or(|max| at <= max) {
                keys.push(at);
                let Some(next) = rounding.next(at) else { break };
                at = next;
                steps += 1;
                self.check_steps(steps)?;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    pub(super) fn date_histogram(&self) -> Result<Value, Error> {
        let division = self.date_division()?;
        let mut parts = Intervals::new();
        self.each(|hit| {
            for key in self.date_keys(&division, hit)? {
                parts.entry(key).or_default().push(hit);
            }
            Ok(())
        })?;
        self.finish_date_histogram(&division, parts, Vec::new)
    }

    /// Buckets of intervals of time, with the empty ones between them.
    pub(super) fn finish_date_histogram<B: BucketContent>(
        &self,
        division: &DateDivision,
        mut parts: BTreeMap<i64, B>,
        empty: impl Fn() -> B,
    ) -> Result<Value, Error> {
        let min = self.count_of("min_doc_count", 0)?;
        if let (0, Some([first, last])) = (min, ends(&parts, division.hard, division.extended)) {
            let mut at = first;
            while at <= last {
                parts.entry(at).or_insert_with(&empty);
                self.check_steps(parts.len() as i64)?;
                match division.rounding.next(at) {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
        self.intervals(parts, min, &|key| date_head(&division.source, key))
    }

    /// Buckets of intervals.
    pub(super) fn intervals<B: BucketContent>(
        &self,
        parts: BTreeMap<i64, B>,
        min: usize,
        head: &dyn Fn(i64) -> Map<String, Value>,
    ) -> Result<Value, Error> {
        let buckets = parts.iter().filter(|(_, part)| part.documents() >= min);
        let buckets = buckets.map(|(key, part)| self.bucket(head(*key), part)).collect::<Result<_, _>>()?;
        Ok(json!({ "buckets": self.listed(self.ordered(buckets)?)? }))
    }

    /// Bounds of the keys, `extended_bounds` or `hard_bounds`.
    fn bounds(&self, name: &str, key_of: &dyn Fn(&Value) -> Option<i64>) -> Result<KeyBounds, Error> {
        let Some(bounds) = self.option(name) else { return Ok(KeyBounds::default()) };
        let end = |end: &str| match bounds.get(end).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => key_of(value).map(Some).ok_or_else(|| {
                Error::IllegalArgument(format!(
                    "[{name}] has a [{end}] that is malformed: [{}]",
                    text_of(value)
                ))
            }),
        };
        let bounds = KeyBounds { min: end("min")?, max: end("max")? };
        match (bounds.min, bounds.max) {
            (Some(min), Some(max)) if min > max => {
                Err(Error::IllegalArgument(format!("[{name}] has a [min] that is larger than its [max]")))
            }
            _ => Ok(bounds),
        }
    }

    pub(super) fn check_steps(&self, steps: i64) -> Result<(), Error> {
        match steps > self.scope.buckets_max as i64 {
            true => self.scope.count(steps as usize),
            false => Ok(()),
        }
    }
}

/// First and last key, the empty ones counted.
fn ends<B>(parts: &BTreeMap<i64, B>, hard: KeyBounds, extended: KeyBounds) -> Option<[i64; 2]> {
    let (first, last) = (parts.keys().next().copied(), parts.keys().last().copied());
    let first = first.into_iter().chain(extended.min).min()?;
    let last = last.into_iter().chain(extended.max).max()?;
    let inside = |key: i64| key.max(hard.min.unwrap_or(key)).min(hard.max.unwrap_or(key));
    (hard.has(first) || hard.has(last) || first <= last).then(|| [inside(first), inside(last)])
}

pub(super) fn date_head(source: &FieldSource, key: i64) -> Map<String, Value> {
    let mut head = Map::new();
    let text = DateText::write(key, source.format.as_deref(), &source.zone);
    head.insert("key_as_string".to_owned(), text.into());
    head.insert("key".to_owned(), key.into());
    head
}

pub(super) fn check_points(source: &FieldSource, kind: &str) -> Result<(), Error> {
    match source.form {
        ValueForm::Text | ValueForm::Address => {
            Err(Error::IllegalArgument(format!("[{kind}] needs a field of numbers, dates or ranges of them")))
        }
        _ => Ok(()),
    }
}

/// Rounding of dates to the beginning of their interval.
pub(super) struct DateRounding {
    unit: DateInterval,
    is_fixed: bool,
    zone: TimeZone,
    offset_ms: i64,
}

impl DateRounding {
    /// Rounding to units of the calendar, by their letter; an interval has `count` of them.
    pub(super) fn of_units(count: i64, letter: char, zone: &TimeZone) -> Self {
        DateRounding {
            unit: DateInterval { count, letter },
            is_fixed: false,
            zone: zone.clone(),
            offset_ms: 0,
        }
    }

    /// Reads the interval of a source of `composite`.
    pub(super) fn parse(options: &Map<String, Value>, zone: &TimeZone) -> Option<Self> {
        let text = |name: &str| options.get(name).map(text_of);
        let fixed = text("fixed_interval");
        let interval = text("calendar_interval").or(fixed.clone()).or_else(|| text("interval"))?;
        let unit = unit_of(&interval)?;
        let is_fixed = fixed.is_some() || unit.count != 1 || unit.letter == 'S';
        let offset_ms = text("offset").map_or(Some(0), |offset| offset_of(&offset))?;
        (!is_fixed || unit.fixed_ms().is_some()).then(|| DateRounding {
            unit,
            is_fixed,
            zone: zone.clone(),
            offset_ms,
        })
    }

    /// Beginning of the interval that has a point in time.
    pub(super) fn start(&self, millis: i64) -> Option<i64> {
        let millis = millis.checked_sub(self.offset_ms)?;
        let start = if self.is_fixed {
            let length = self.unit.fixed_ms()?;
            let at = Timestamp::from_millisecond(millis).ok()?;
            let local = i64::from(self.zone.to_offset(at).seconds()) * 1_000;
            (millis + local).div_euclid(length) * length - local
        } else {
            let at = Timestamp::from_millisecond(millis).ok()?.to_zoned(self.zone.clone());
            floor(&at, self.unit.letter)?.timestamp().as_millisecond()
        };
        start.checked_add(self.offset_ms)
    }

    /// Length of stretches that have one interval each, if the offset of the zone never changes.
    fn alike_ms(&self) -> Option<i64> {
        if self.zone != TimeZone::UTC {
            return None;
        }
        let length = match self.unit.letter {
            _ if self.is_fixed => self.unit.fixed_ms()?,
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            _ => 86_400_000,
        };
        Some(common_length(length, self.offset_ms))
    }

    /// Beginning of the interval after one that begins at `start`.
    fn next(&self, start: i64) -> Option<i64> {
        let next = match self.is_fixed {
            true => start.checked_add(self.unit.fixed_ms()?)?,
            false => {
                let at =
                    Timestamp::from_millisecond(start - self.offset_ms).ok()?.to_zoned(self.zone.clone());
                let next = at.checked_add(span(self.unit.letter, self.unit.count)?).ok()?;
                next.timestamp().as_millisecond().checked_add(self.offset_ms)?
            }
        };
        (next > start).then_some(next)
    }

    /// Beginnings of the intervals from one point in time to another, one more than `count_max` at most.
    pub(super) fn starts(&self, first: i64, last: i64, count_max: usize) -> Vec<i64> {
        let mut starts = Vec::new();
        let mut at = self.start(first);
        while let Some(start) = at.filter(|start| *start <= last && starts.len() <= count_max) {
            starts.push(start);
            at = self.next(start);
        }
        starts
    }
}

/// An interval of dates.
#[derive(Debug, Clone, Copy)]
struct DateInterval {
    count: i64,
    /// Unit as date arithmetic names it; `S` for milliseconds.
    letter: char,
}

impl DateInterval {
    /// Length in milliseconds; `None` if it differs from one to the next.
    fn fixed_ms(self) -> Option<i64> {
        let unit = match self.letter {
            'S' => 1,
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
            if unit == "ms" {
                return Some(DateInterval { count, letter: 'S' });
            }
            let mut letters = unit.chars();
            let (letter, None) = (letters.next()?, letters.next()) else { return None };
            return "smhdwMqy".contains(letter).then_some(DateInterval { count, letter });
        }
    };
    Some(DateInterval { count: 1, letter })
}

/// Milliseconds of an offset such as `+6h`.
fn offset_of(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse::<i64>() {
        return Some(millis);
    }
    let (sign, length) = match text.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    Some(sign * unit_of(length)?.fixed_ms()?)
}
