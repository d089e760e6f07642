//! Dates in documents, queries and aggregations.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use serde_json::Value;

use crate::date_patterns::{DatePattern, is_whole, reads_iso};

/// Text of a date.
pub(crate) struct DateText;

/// Reading of a date in a query.
pub(crate) struct DateReading<'r> {
    pub(crate) format: Option<&'r str>,
    /// Current time in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// Zone of dates without an offset, and of the days to which dates are rounded.
    pub(crate) zone: &'r TimeZone,
    /// True if a rounded date is the last millisecond of its unit.
    pub(crate) round_up: bool,
}

impl DateText {
    /// True if a text is a date in the form `2024-01-31`, also with a time.
    pub(crate) fn is_detected(text: &str) -> bool {
        let bytes = text.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let begins = (0..4).all(digit) && bytes.len() >= 10 && bytes[4] == b'-';
        begins && Self::parse_iso(text, &TimeZone::UTC).is_some()
    }

    /// Milliseconds since 1970 of a value, by the format of its field.
    pub(crate) fn parse_value(value: &Value, format: Option<&str>) -> Option<i64> {
        match value {
            Value::Number(number) if format.is_none() && number.as_u64().is_none_or(is_no_calendar_date) => {
                number.as_f64().map(|millis| millis as i64)
            }
            Value::Number(number) => Self::parse(&number.to_string(), format),
            Value::String(text) => Self::parse(text, format),
            _ => None,
        }
    }

    /// Milliseconds since 1970 of a text.
    pub(crate) fn parse(text: &str, format: Option<&str>) -> Option<i64> {
        Self::parse_in(text, format, &TimeZone::UTC)
    }

    /// Milliseconds since 1970 of a text, in a zone if the text has no offset.
    fn parse_in(text: &str, format: Option<&str>, zone: &TimeZone) -> Option<i64> {
        let text = text.trim();
        match format {
            None => Self::parse_iso(text, zone).or_else(|| Self::parse_as(text, "epoch_millis", zone)),
            Some(format) => format.split("||").find_map(|format| Self::parse_as(text, format, zone)),
        }
    }

    fn parse_as(text: &str, format: &str, zone: &TimeZone) -> Option<i64> {
        match format {
            "epoch_millis" => text.parse::<f64>().ok().map(|millis| millis as i64),
            "epoch_second" => text.parse::<f64>().ok().map(|seconds| (seconds * 1_000.0) as i64),
            _ if reads_iso(format) => Self::parse_iso(text, zone),
            _ => DatePattern::of(format).read(text, zone).map(|(millis, _)| millis),
        }
    }

    /// Milliseconds since 1970 of the last moment that a text can mean: the parts of the time that it lacks
    /// are the greatest.
    fn parse_end(text: &str, format: Option<&str>, zone: &TimeZone) -> Option<i64> {
        let text = text.trim();
        let mut formats = format.unwrap_or("strict_date_optional_time||epoch_millis").split("||");
        formats.find_map(|format| {
            let (millis, parts) = match format {
                _ if format.starts_with("epoch_") => (Self::parse_as(text, format, zone)?, ROOM.len() - 1),
                _ if reads_iso(format) => (Self::parse_iso(text, zone)?, iso_time_parts(text)),
                _ => DatePattern::of(format).read(text, zone)?,
            };
            Some(millis.saturating_add(ROOM[parts]))
        })
    }

    fn parse_iso(text: &str, zone: &TimeZone) -> Option<i64> {
        // Most of them are milliseconds. The parsers below take long to refuse one.
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !matches!(text.len(), 4 | 8) {
            return None;
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return Some(timestamp.as_millisecond());
        }
        let in_zone =
            |civil: DateTime, zone: &TimeZone| Some(zone.to_timestamp(civil).ok()?.as_millisecond());
        let local = |civil: DateTime| in_zone(civil, zone);
        let digits = |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<i16>().ok());
        match text.len() {
            // A sign makes a number of it.
            4 if text.as_bytes()[0].is_ascii_digit() => {
                local(Date::new(digits(0, 4)?, 1, 1).ok()?.at(0, 0, 0, 0))
            }
            7 if text.as_bytes()[4] == b'-' => {
                local(Date::new(digits(0, 4)?, digits(5, 7)? as i8, 1).ok()?.at(0, 0, 0, 0))
            }
            8.. => {
                // An hour without minutes, and an offset without a colon, are completed.
                let text = text.replacen(' ', "T", usize::from(!text.contains('T')));
                if let Some((date, time)) = text.split_once('T')
                    && time.len() == 2
                {
                    return local(format!("{date}T{time}:00").parse().ok()?);
                }
                if text.ends_with('Z') {
                    return in_zone(text.trim_end_matches('Z').parse().ok()?, &TimeZone::UTC);
                }
                local(text.parse().ok()?)
            }
            _ => None,
        }
    }

    /// Writes a date in a format.
    pub(crate) fn write(millis: i64, format: Option<&str>, zone: &TimeZone) -> String {
        let Ok(timestamp) = Timestamp::from_millisecond(millis) else { return millis.to_string() };
        let zoned = timestamp.to_zoned(zone.clone());
        match format.map(|format| format.split("||").next().unwrap_or(format)) {
            None => Self::write_whole(&zoned),
            Some("epoch_millis") => millis.to_string(),
            Some("epoch_second") => (millis / 1_000).to_string(),
            Some(format) if is_whole(format) => Self::write_whole(&zoned),
            Some(format) => DatePattern::of(format).write(&zoned),
        }
    }

    fn write_whole(zoned: &Zoned) -> String {
        let text = zoned.strftime("%Y-%m-%dT%H:%M:%S.%3f").to_string();
        match zoned.offset().is_zero() {
            true => format!("{text}Z"),
            false => format!("{text}{}", zoned.strftime("%:z")),
        }
    }

    /// Milliseconds of a point in time with date arithmetic, such as `now-1d/d` or `2024-01-01||+1M`.
    pub(crate) fn resolve(text: &str, reading: &DateReading<'_>) -> Option<i64> {
        let DateReading { format, now_ms, zone, round_up } = *reading;
        let (base, steps) = match text.strip_prefix("now") {
            Some(steps) => (now_ms, steps),
            None => match text.split_once("||") {
                Some((date, steps)) => (Self::parse_in(date, format, zone)?, steps),
                None if round_up => return Self::parse_end(text, format, zone),
                None => return Self::parse_in(text, format, zone),
            },
        };
        let mut at = Timestamp::from_millisecond(base).ok()?.to_zoned(zone.clone());
        let mut rest = steps;
        while let Some(sign) = rest.chars().next() {
            rest = &rest[sign.len_utf8()..];
            let count_end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let count: i64 = if count_end == 0 { 1 } else { rest[..count_end].parse().ok()? };
            let unit = rest[count_end..].chars().next()?;
            rest = &rest[count_end + unit.len_utf8()..];
            at = match sign {
                '+' => at.checked_add(span(unit, count)?).ok()?,
                '-' => at.checked_sub(span(unit, count)?).ok()?,
                '/' => {
                    let start = floor(&at, unit)?;
                    match round_up {
                        false => start,
                        true => {
                            let next = start.checked_add(span(unit, 1)?).ok()?;
                            next.checked_sub(Span::new().milliseconds(1)).ok()?
                        }
                    }
                }
                _ => return None,
            };
        }
        Some(at.timestamp().as_millisecond())
    }
}

/// The greatest length of which both are multiples.
pub(crate) fn common_length(one: i64, other: i64) -> i64 {
    if other == 0 { one.abs() } else { common_length(other, one % other) }
}

/// True for numbers that are no calendar date without separators: neither a year nor a day, as in `20240131`.
fn is_no_calendar_date(number: u64) -> bool {
    !(1_000..=9_999).contains(&number) && !(10_000_000..=99_999_999).contains(&number)
}

/// Time zone by its name or offset.
pub(crate) fn zone_of(name: &str) -> Option<TimeZone> {
    if let Ok(zone) = TimeZone::get(name) {
        return Some(zone);
    }
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+')?),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let part = |text: &str| text.parse::<i16>().ok().map(i32::from);
    let seconds = sign * (part(hours)? * 3_600 + part(minutes)? * 60);
    jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Milliseconds from a date that ends with its day, hour, minute, second or a fraction to the last moment
/// that it can mean.
const ROOM: [i64; 5] = [86_399_999, 3_599_999, 59_999, 999, 0];

/// Number of the parts of the time in a date of ISO 8601: hours, minutes, seconds, fractions.
fn iso_time_parts(text: &str) -> usize {
    let Some((_, time)) = text.split_once(['T', 't', ' ']) else { return 0 };
    let time = time.split(['Z', 'z', '+', '-', '[']).next().unwrap_or(time);
    match time.contains(['.', ',']) {
        true => 4,
        false => time.bytes().filter(u8::is_ascii_digit).count().div_ceil(2).min(3),
    }
}

/// Length of time of a unit, as date arithmetic names it.
pub(crate) fn span(unit: char, count: i64) -> Option<Span> {
    let span = Span::new();
    match unit {
        'y' => span.try_years(count).ok(),
        'q' => span.try_months(count.checked_mul(3)?).ok(),
        'M' => span.try_months(count).ok(),
        'w' => span.try_weeks(count).ok(),
        'd' => span.try_days(count).ok(),
        'h' | 'H' => span.try_hours(count).ok(),
        'm' => span.try_minutes(count).ok(),
        's' => span.try_seconds(count).ok(),
        _ => None,
    }
}

/// Beginning of the unit that has a point in time.
pub(crate) fn floor(at: &Zoned, unit: char) -> Option<Zoned> {
    let (date, time) = (at.date(), at.time());
    let civil = match unit {
        'y' => Date::new(date.year(), 1, 1).ok()?.at(0, 0, 0, 0),
        'q' => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok()?.at(0, 0, 0, 0),
        'M' => Date::new(date.year(), date.month(), 1).ok()?.at(0, 0, 0, 0),
        'w' => {
            let back = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(Span::new().days(back)).ok()?.at(0, 0, 0, 0)
        }
        'd' => date.at(0, 0, 0, 0),
        'h' | 'H' => date.at(time.hour(), 0, 0, 0),
        'm' => date.at(time.hour(), time.minute(), 0, 0),
        's' => date.at(time.hour(), time.minute(), time.second(), 0),
        _ => return None,
    };
    civil.to_zoned(at.time_zone().clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("1970-01-02T00:00:00Z", 86_400_000),
            ("1970-01-01T00:00:01.5Z", 1_500),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T00:01", 60_000),
            ("1971", 31_536_000_000),
            ("1970-02", 2_678_400_000),
            ("12345", 12_345),
        ] {
            assert_eq!(DateText::parse(text, None), Some(millis), "{text}");
        }
        assert_eq!(DateText::parse("yesterday", None), None);
        let numbers = "0 7 999 1971 9999 19700102 19701302 123456789 1700000000000 9007199254740993 \
                       18446744073709551615 -1 -123 -1971 -19700102 -1234567 -1700000000000 12.5 1e16 1.5e-10 \
                       1971.0 19700102.0 1700000000000.75 -123.0 -1.7e12";
        for number in numbers.split_whitespace() {
            let value: Value = serde_json::from_str(number).expect("a number");
            let text = value.to_string();
            let by_name = DateText::parse(&text, Some("strict_date_optional_time||epoch_millis"));
            assert!(by_name.is_some(), "{number}");
            assert_eq!(DateText::parse_value(&value, None), by_name, "{number}");
            assert_eq!(DateText::parse(&text, None), by_name, "{number}");
        }
        assert_eq!(DateText::parse("19700102", None), Some(86_400_000));
        assert_eq!(DateText::parse("-123", None), Some(-123), "a number with a sign is not a year");
        assert_eq!(DateText::parse("31/12/1970", Some("dd/MM/yyyy")), Some(364 * 86_400_000));
        let write = |format| DateText::write(1_500, format, &TimeZone::UTC);
        assert_eq!(write(None), "1970-01-01T00:00:01.500Z");
        assert_eq!(write(Some("yyyy/MM/dd HH")), "1970/01/01 00");
        for (name, text) in [
            ("iso8601", "1970-01-01T00:00:01.500Z"),
            ("strict_date", "1970-01-01"),
            ("date_hour_minute_second", "1970-01-01T00:00:01"),
            ("basic_date", "19700101"),
            ("strict_year_month", "1970-01"),
        ] {
            assert_eq!(write(Some(name)), text, "{name}");
            assert!(DateText::parse(text, Some(name)).is_some(), "{name} reads what it writes");
        }
    }

    #[test]
    fn arithmetic_of_dates() {
        let now = 86_400_000 + 3_600_000;
        for (text, zone, round_up, expected) in [
            ("now", "UTC", false, now),
            ("now-1h", "UTC", false, 86_400_000),
            ("now/d", "UTC", false, 86_400_000),
            ("now/d", "UTC", true, 2 * 86_400_000 - 1),
            ("now/d", "+02:00", false, 86_400_000 - 7_200_000),
            ("now/d", "-02:00", false, 7_200_000),
            ("1970-01-01||+1M/M", "UTC", false, 2_678_400_000),
            ("1970-01-01", "UTC", true, 86_399_999),
            ("1970", "UTC", true, 86_399_999),
            ("1970-02", "UTC", true, 2_678_400_000 + 86_399_999),
            ("1970-01-01T01", "UTC", true, 7_199_999),
            ("1970-01-01 01:00", "UTC", true, 3_659_999),
            ("1970-01-01T01:00:00+01:00", "UTC", true, 999),
            ("1970-01-01T00:00:00.5Z", "UTC", true, 500),
            ("1234567", "UTC", true, 1_234_567),
            ("1970-01-01||+1M", "UTC", true, 2_678_400_000),
            ("1970-01-02", "+01:00", false, 86_400_000 - 3_600_000),
            ("1970-01-02T00:00:00Z", "+01:00", false, 86_400_000),
            ("1970-07-01", "Europe/Berlin", false, 181 * 86_400_000 - 3_600_000),
        ] {
            let zone = zone_of(zone).expect("the zone exists");
            let reading = DateReading { format: None, now_ms: now, zone: &zone, round_up };
            assert_eq!(DateText::resolve(text, &reading), Some(expected), "{text}");
        }
        for (text, format, expected) in [
            ("02/01/1970", "dd/MM/yyyy", 2 * 86_400_000 - 1),
            ("1970-01-01 01", "yyyy-MM-dd HH", 7_199_999),
            ("1", "dd/MM/yyyy||epoch_second", 1_000),
            ("000001", "basic_time_no_millis||HHmmss", 1_999),
            ("1970-01-01", "yyyy-MM-dd[ HH:mm[:ss]]", 86_399_999),
            ("1970-01-01 00:01", "yyyy-MM-dd[ HH:mm[:ss]]", 119_999),
            ("1970-01-01 00:00:01", "yyyy-MM-dd[ HH:mm[:ss]]", 1_999),
        ] {
            let reading =
                DateReading { format: Some(format), now_ms: now, zone: &TimeZone::UTC, round_up: true };
            assert_eq!(DateText::resolve(text, &reading), Some(expected), "{text} by {format}");
        }
    }
}
