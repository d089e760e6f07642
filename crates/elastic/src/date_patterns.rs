//! Patterns of dates as Java writes them, such as `dd/MMM/yyyy:HH:mm:ss Z`, and the names that stand for
//! some.

use jiff::civil::{Date, ISOWeekDate, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Zoned};

/// Depth of optional parts in optional parts.
const DEPTH_MAX: usize = 8;

/// Bytes of a pattern, at most: each date is read or written by it. A longer one is that of no date.
const PATTERN_BYTES_MAX: usize = 1_000;

/// Patterns of the formats that have names, beside those of a whole date in any form of ISO 8601.
const NAMED: [(&str, &str); 42] = [
    ("date", "yyyy-MM-dd"),
    ("date_hour", "yyyy-MM-dd'T'HH"),
    ("date_hour_minute", "yyyy-MM-dd'T'HH:mm"),
    ("date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"),
    ("date_hour_minute_second_millis", "yyyy-MM-dd'T'HH:mm:ss.SSS"),
    ("date_hour_minute_second_fraction", "yyyy-MM-dd'T'HH:mm:ss.SSS"),
    ("date_time_no_millis", "yyyy-MM-dd'T'HH:mm:ssXXX"),
    ("basic_date", "yyyyMMdd"),
    ("basic_date_time", "yyyyMMdd'T'HHmmss.SSSXX"),
    ("basic_date_time_no_millis", "yyyyMMdd'T'HHmmssXX"),
    ("basic_ordinal_date", "yyyyDDD"),
    ("basic_ordinal_date_time", "yyyyDDD'T'HHmmss.SSSXX"),
    ("basic_ordinal_date_time_no_millis", "yyyyDDD'T'HHmmssXX"),
    ("basic_t_time", "'T'HHmmss.SSSXX"),
    ("basic_t_time_no_millis", "'T'HHmmssXX"),
    ("basic_time", "HHmmss.SSSXX"),
    ("basic_time_no_millis", "HHmmssXX"),
    ("basic_week_date", "YYYY'W'wwe"),
    ("basic_week_date_time", "YYYY'W'wwe'T'HHmmss.SSSXX"),
    ("basic_week_date_time_no_millis", "YYYY'W'wwe'T'HHmmssXX"),
    ("hour", "HH"),
    ("hour_minute", "HH:mm"),
    ("hour_minute_second", "HH:mm:ss"),
    ("hour_minute_second_millis", "HH:mm:ss.SSS"),
    ("hour_minute_second_fraction", "HH:mm:ss.SSS"),
    ("ordinal_date", "yyyy-DDD"),
    ("ordinal_date_time", "yyyy-DDD'T'HH:mm:ss.SSSXXX"),
    ("ordinal_date_time_no_millis", "yyyy-DDD'T'HH:mm:ssXXX"),
    ("t_time", "'T'HH:mm:ss.SSSXXX"),
    ("t_time_no_millis", "'T'HH:mm:ssXXX"),
    ("time", "HH:mm:ss.SSSXXX"),
    ("time_no_millis", "HH:mm:ssXXX"),
    ("week_date", "YYYY-'W'ww-e"),
    ("week_date_time", "YYYY-'W'ww-e'T'HH:mm:ss.SSSXXX"),
    ("week_date_time_no_millis", "YYYY-'W'ww-e'T'HH:mm:ssXXX"),
    ("week_year", "YYYY"),
    ("weekyear", "YYYY"),
    ("weekyear_week", "YYYY-'W'ww"),
    ("weekyear_week_day", "YYYY-'W'ww-e"),
    ("year", "yyyy"),
    ("year_month", "yyyy-MM"),
    ("year_month_day", "yyyy-MM-dd"),
];

/// Formats of a whole date in any form of ISO 8601.
const WHOLE: [&str; 5] =
    ["date_optional_time", "date_optional_time_nanos", "date_time", "iso8601", "rfc3339_lenient"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatePattern<'p>(&'p str);

/// Name without the prefix that asks for all digits.
fn plain_name(name: &str) -> &str {
    name.strip_prefix("strict_").unwrap_or(name)
}

/// True for a format whose dates are written as whole dates of ISO 8601.
pub(crate) fn is_whole(format: &str) -> bool {
    WHOLE.contains(&plain_name(format))
}

/// True for a format of dates: one with a name, or a pattern of parts of dates.
pub(crate) fn is_date_format(format: &str) -> bool {
    let is_number = matches!(format, "epoch_millis" | "epoch_second");
    let has_length = (1..=PATTERN_BYTES_MAX).contains(&format.len());
    is_number || is_whole(format) || has_length && DatePattern::of(format).is_known()
}

/// True for a format whose dates are read in all forms of ISO 8601.
pub(crate) fn reads_iso(format: &str) -> bool {
    let name = plain_name(format);
    let begins = NAMED.iter().any(|(known, pattern)| *known == name && pattern.starts_with("yyyy-MM-dd"));
    is_whole(format) || begins && name != "year_month_day"
}

impl<'p> DatePattern<'p> {
    /// Pattern of a format, which is one or has a name.
    pub(crate) fn of(format: &'p str) -> Self {
        let name = plain_name(format);
        let named = NAMED.iter().find(|(known, _)| *known == name);
        let own = if format.len() > PATTERN_BYTES_MAX { "" } else { format };
        DatePattern(named.map_or(own, |(_, pattern)| *pattern))
    }

    /// True if all letters outside of quotes stand for parts of dates.
    pub(crate) fn is_known(self) -> bool {
        let is_known =
            |letter: char| !letter.is_ascii_alphabetic() || "yuYMLwdDEecaHkhKmsSXxZzV".contains(letter);
        // Every other part is within quotes.
        self.0.split('\'').step_by(2).all(|part| part.chars().all(is_known))
    }

    /// Milliseconds since 1970 of a text, in a zone if the text has no offset, and the number of the parts of
    /// a time that it has: hours, minutes, seconds, fractions. What it lacks is the first day, and midnight.
    pub(crate) fn read(self, text: &str, zone: &TimeZone) -> Option<(i64, usize)> {
        let mut parts = DateParts::default();
        let rest = read_parts(self.0, text, &mut parts, 0)?;
        if rest.is_empty() { Some((parts.millis(zone)?, parts.time_parts)) } else { None }
    }

    /// Writes a date.
    pub(crate) fn write(self, at: &Zoned) -> String {
        let mut written = String::new();
        write_parts(self.0, at, &mut written, 0);
        written
    }
}

/// Part of a pattern.
enum PatternPart<'p> {
    /// A letter that stands for a part of a date, and the number of its repetitions.
    Field(char, usize),
    Literal(&'p str),
    /// A pattern that a text may lack.
    Optional(&'p str),
}

/// The first part of a pattern, and what follows it.
fn next_part(pattern: &str) -> Option<(PatternPart<'_>, &str)> {
    let first = pattern.chars().next()?;
    let rest = &pattern[first.len_utf8()..];
    Some(match first {
        '\'' => match rest.strip_prefix('\'') {
            // Two quotes are one.
            Some(after) => (PatternPart::Literal("'"), after),
            None => match rest.find('\'') {
                // Two in a literal are one as well: the second one begins the rest of the literal.
                Some(end) if rest[end + 1..].starts_with('\'') => {
                    (PatternPart::Literal(&rest[..=end]), &rest[end + 1..])
                }
                Some(end) => (PatternPart::Literal(&rest[..end]), &rest[end + 1..]),
                None => (PatternPart::Literal(rest), ""),
            },
        },
        '[' => {
            let (mut depth, mut is_quoted) = (1, false);
            let end = rest.find(|letter: char| {
                match letter {
                    '\'' => is_quoted = !is_quoted,
                    '[' if !is_quoted => depth += 1,
                    ']' if !is_quoted => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            match end {
                Some(end) => (PatternPart::Optional(&rest[..end]), &rest[end + 1..]),
                None => (PatternPart::Optional(rest), ""),
            }
        }
        letter if letter.is_ascii_alphabetic() => {
            let count = pattern.chars().take_while(|next| *next == letter).count();
            (PatternPart::Field(letter, count), &pattern[count..])
        }
        _ => (PatternPart::Literal(&pattern[..first.len_utf8()]), rest),
    })
}

/// Parts of a date that a text has.
#[derive(Debug, Clone, Default)]
struct DateParts {
    year: Option<i16>,
    /// Year of the week.
    week_year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    week: Option<i8>,
    /// Number from Monday.
    weekday: Option<i8>,
    hour: i8,
    is_afternoon: bool,
    minute: i8,
    second: i8,
    nanos: i32,
    /// Number of the parts of a time that were read: hours, minutes, seconds, fractions.
    time_parts: usize,
    zone: Option<TimeZone>,
}

/// Reads a pattern from a text; returns the rest of the text.
fn read_parts<'t>(pattern: &str, text: &'t str, parts: &mut DateParts, depth: usize) -> Option<&'t str> {
    if depth > DEPTH_MAX {
        return None;
    }
    let (mut pattern, mut text) = (pattern, text);
    while let Some((part, rest)) = next_part(pattern) {
        text = match part {
            PatternPart::Literal(literal) => text.strip_prefix(literal)?,
            PatternPart::Optional(inner) => {
                let mut with = parts.clone();
                match read_parts(inner, text, &mut with, depth + 1) {
                    Some(after) => {
                        *parts = with;
                        after
                    }
                    None => text,
                }
            }
            PatternPart::Field(letter, count) => parts.read(letter, count, text)?,
        };
        pattern = rest;
    }
    Some(text)
}

/// Number at the beginning of a text that has digits, up to `most`; and what follows it.
fn digits(text: &str, most: usize) -> Option<(i32, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    Some((text[..count].parse().ok()?, &text[count..]))
}

/// Number from one of the name with which a text begins, whole or by its first three letters; and what
/// follows.
fn name_of<'t>(names: &[&str], text: &'t str) -> Option<(i8, &'t str)> {
    let begins = |name: &str| text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    let whole = names.iter().position(|name| begins(name)).map(|at| (at, names[at].len()));
    let (at, length) = whole.or_else(|| Some((names.iter().position(|name| begins(&name[..3]))?, 3)))?;
    Some((at as i8 + 1, &text[length..]))
}

/// Offset at the beginning of a text, as `Z`, `+01`, `+0100` or `+01:00`; and what follows it.
fn offset_of(text: &str) -> Option<(Offset, &str)> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        return Some((Offset::UTC, rest));
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let two = |text: &str| -> Option<i32> {
        text.get(..2).filter(|two| two.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    };
    let rest = text.strip_prefix(['+', '-'])?;
    let hours = two(rest)?;
    let rest = &rest[2..];
    let after_colon = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = match two(after_colon) {
        Some(minutes) => (minutes, &after_colon[2..]),
        None => (0, rest),
    };
    Some((Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()?, rest))
}

impl DateParts {
    /// Reads a field from a text; returns the rest of the text.
    fn read<'t>(&mut self, letter: char, count: usize, text: &'t str) -> Option<&'t str> {
        let part = ["HkhK", "m", "s", "S"].iter().position(|letters| letters.contains(letter));
        self.time_parts = self.time_parts.max(part.map_or(0, |part| part + 1));
        let small = |most: usize| digits(text, most).map(|(number, rest)| (number as i8, rest));
        match letter {
            'y' | 'u' | 'Y' => {
                let (year, rest) = digits(text, if count == 2 { 2 } else { 4 })?;
                let year = year as i16 + if count == 2 { 2_000 } else { 0 };
                *(if letter == 'Y' { &mut self.week_year } else { &mut self.year }) = Some(year);
                return Some(rest);
            }
            'M' | 'L' => {
                let (month, rest) = if count > 2 { name_of(&MONTHS, text)? } else { small(2)? };
                self.month = Some(month);
                return Some(rest);
            }
            'D' => {
                let (day, rest) = digits(text, 3)?;
                self.day_of_year = Some(day as i16);
                return Some(rest);
            }
            'E' | 'e' | 'c' => {
                let is_name = letter == 'E' || count > 2;
                let (weekday, rest) = if is_name { name_of(&WEEKDAYS, text)? } else { small(1)? };
                self.weekday = Some(weekday);
                return Some(rest);
            }
            'a' => {
                let half = text.get(..2)?;
                self.is_afternoon = half.eq_ignore_ascii_case("pm");
                return (self.is_afternoon || half.eq_ignore_ascii_case("am")).then_some(&text[2..]);
            }
            'S' => {
                let taken = text.bytes().take(9).take_while(u8::is_ascii_digit).count();
                let (fraction, rest) = digits(text, taken)?;
                self.nanos = fraction * 10_i32.pow(9 - taken as u32);
                return Some(rest);
            }
            'X' | 'x' | 'Z' => {
                let (offset, rest) = offset_of(text)?;
                self.zone = Some(TimeZone::fixed(offset));
                return Some(rest);
            }
            'z' | 'V' => {
                let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "/_+-:".contains(letter);
                let end = text.find(|letter: char| !is_inner(letter)).unwrap_or(text.len());
                self.zone = Some(crate::dates::zone_of(&text[..end])?);
                return Some(&text[end..]);
            }
            _ => {}
        }
        let (number, rest) = small(2)?;
        match letter {
            'd' => self.day = Some(number),
            'w' => self.week = Some(number),
            // Midnight is 24 or 12 in the forms that begin at 1.
            'k' => self.hour = number % 24,
            'h' => self.hour = number % 12,
            'H' | 'K' => self.hour = number,
            'm' => self.minute = number,
            's' => self.second = number,
            _ => return None,
        }
        Some(rest)
    }

    fn millis(&self, zone: &TimeZone) -> Option<i64> {
        let year = self.year.unwrap_or(1970);
        let date = match (self.day_of_year, self.week_year, self.week) {
            (Some(day), ..) => {
                let first = Date::new(year, 1, 1).ok()?;
                let date = first.checked_add(Span::new().try_days(i64::from(day) - 1).ok()?).ok()?;
                Some(date).filter(|date| date.year() == year)?
            }
            (None, None, None) => Date::new(year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok()?,
            (None, week_year, week) => {
                let weekday = Weekday::from_monday_one_offset(self.weekday.unwrap_or(1)).ok()?;
                ISOWeekDate::new(week_year.unwrap_or(year), week.unwrap_or(1), weekday).ok()?.date()
            }
        };
        let hour = if self.is_afternoon { self.hour.checked_add(12)? } else { self.hour };
        let time = Time::new(hour, self.minute, self.second, self.nanos).ok()?;
        let zone = self.zone.as_ref().unwrap_or(zone);
        Some(zone.to_timestamp(date.to_datetime(time)).ok()?.as_millisecond())
    }
}

/// Writes a date by a pattern.
fn write_parts(pattern: &str, at: &Zoned, written: &mut String, depth: usize) {
    let mut pattern = pattern;
    while let Some((part, rest)) = next_part(pattern) {
        match part {
            PatternPart::Literal(literal) => written.push_str(literal),
            PatternPart::Optional(inner) if depth < DEPTH_MAX => {
                write_parts(inner, at, written, depth + 1);
            }
            PatternPart::Optional(_) => {}
            PatternPart::Field(letter, count) => written.push_str(&field_text(letter, count, at)),
        }
        pattern = rest;
    }
}

/// Text of an offset, with a mark between hours and minutes.
fn offset_text(offset: Offset, mark: &str) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    format!("{sign}{:02}{mark}{:02}", minutes / 60, minutes % 60)
}

/// Text of a field of a date.
fn field_text(letter: char, count: usize, at: &Zoned) -> String {
    // A pattern of a client may repeat a letter as often as it likes.
    let count = count.min(19);
    let padded = |number: i32| format!("{number:0count$}");
    let name = |names: &[&str], number: i8| {
        let name = names[usize::try_from(number - 1).unwrap_or_default() % names.len()];
        if count == 3 { name[..3].to_owned() } else { name.to_owned() }
    };
    let year = |year: i16| match count {
        2 => format!("{:02}", year.rem_euclid(100)),
        _ => padded(year.into()),
    };
    let week = at.date().iso_week_date();
    let hour = i32::from(at.hour());
    let offset = at.offset();
    match letter {
        'y' | 'u' => year(at.year()),
        'Y' => year(week.year()),
        'M' | 'L' if count > 2 => name(&MONTHS, at.month()),
        'M' | 'L' => padded(at.month().into()),
        'd' => padded(at.day().into()),
        'D' => padded(at.day_of_year().into()),
        'w' => padded(week.week().into()),
        'e' | 'c' if count < 3 => padded(week.weekday().to_monday_one_offset().into()),
        'e' | 'c' => name(&WEEKDAYS, week.weekday().to_monday_one_offset()),
        'E' => {
            let name = WEEKDAYS[usize::try_from(week.weekday().to_monday_zero_offset()).unwrap_or_default()];
            if count < 4 { name[..3].to_owned() } else { name.to_owned() }
        }
        'H' => padded(hour),
        'k' => padded(if hour == 0 { 24 } else { hour }),
        'K' => padded(hour % 12),
        'h' => padded(if hour % 12 == 0 { 12 } else { hour % 12 }),
        'm' => padded(at.minute().into()),
        's' => padded(at.second().into()),
        'S' => {
            let nanos = format!("{:09}", at.subsec_nanosecond());
            nanos[..count.min(9)].to_owned()
        }
        'a' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
        'X' if offset.is_zero() => "Z".to_owned(),
        'Z' if count == 5 && offset.is_zero() => "Z".to_owned(),
        'X' | 'x' if count < 3 => offset_text(offset, ""),
        'Z' if count < 4 => offset_text(offset, ""),
        'X' | 'x' | 'Z' => offset_text(offset, ":"),
        'z' | 'V' => at.time_zone().iana_name().map_or_else(|| offset_text(offset, ":"), str::to_owned),
        other => other.to_string().repeat(count),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// The date and its time in seconds since 1970.
    #[track_caller]
    fn check(format: &str, text: &str, expected: Option<&str>) {
        let read = DatePattern::of(format).read(text, &TimeZone::UTC).map(|(millis, _)| millis);
        let expected = expected.map(|date| date.parse::<Timestamp>().expect("a date").as_millisecond());
        assert_eq!(read, expected, "{text} by {format}");
    }

    #[test]
    fn texts_are_read_by_patterns() {
        for (format, text, expected) in [
            ("dd/MMM/yyyy:HH:mm:ss Z", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
            ("EEE, dd MMM yyyy HH:mm:ss Z", "Tue, 10 Oct 2000 13:55:36 +0000", "2000-10-10T13:55:36Z"),
            ("EEEE d MMMM yy", "Tuesday 3 may 01", "2001-05-03T00:00:00Z"),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "2000-10-10T13:55:36Z", "2000-10-10T13:55:36Z"),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "2000-10-10T13:55:36+01:00", "2000-10-10T12:55:36Z"),
            ("yyyy-MM-dd'T'HH:mm:ssX", "2000-10-10T13:55:36+01", "2000-10-10T12:55:36Z"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2000-10-10T13:55:36.123+0130", "2000-10-10T12:25:36.123Z"),
            ("yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX", "2000-10-10T13:55:36Z", "2000-10-10T13:55:36Z"),
            ("yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX", "2000-10-10T13:55:36.5Z", "2000-10-10T13:55:36.5Z"),
            ("yyyy-MM-dd[ HH:mm[:ss]]", "2000-10-10 13:55", "2000-10-10T13:55:00Z"),
            ("yyyy-MM-dd HH:mm:ss,SSSSSS", "2000-10-10 13:55:36,123456", "2000-10-10T13:55:36.123Z"),
            ("yyyyMMddHHmmssSSS", "20001010135536123", "2000-10-10T13:55:36.123Z"),
            ("M/d/yyyy h:mm a", "1/2/2000 12:04 AM", "2000-01-02T00:04:00Z"),
            ("M/d/yyyy h:mm a", "1/2/2000 3:04 pm", "2000-01-02T15:04:00Z"),
            ("yyyy-MM-dd HH:mm VV", "2000-07-10 12:00 Europe/Berlin", "2000-07-10T10:00:00Z"),
            ("yyyy 'o''clock' HH", "2000 o'clock 07", "2000-01-01T07:00:00Z"),
            ("basic_date_time", "20001010T135536.123Z", "2000-10-10T13:55:36.123Z"),
            ("strict_basic_week_date", "2000W023", "2000-01-12T00:00:00Z"),
            ("week_date", "2000-W02-3", "2000-01-12T00:00:00Z"),
            ("weekyear_week", "2000-W02", "2000-01-10T00:00:00Z"),
            ("ordinal_date", "2000-366", "2000-12-31T00:00:00Z"),
            ("t_time_no_millis", "T01:00:00+01:00", "1970-01-01T00:00:00Z"),
            ("HH:mm", "01:02", "1970-01-01T01:02:00Z"),
        ] {
            check(format, text, Some(expected));
        }
        for (format, text) in [
            ("yyyy-MM-dd", "2000-13-01"),
            ("yyyy-MM-dd", "2000-01-01x"),
            ("yyyy-MM-dd", ""),
            ("HH:mm", "25:00"),
            ("ordinal_date", "2001-366"),
            ("dd MMM yyyy", "01 Foo 2000"),
            ("dd MMM yyyy", "01 \u{e4}\u{f6} 2000"),
            ("HH:mmX", "01:00\u{e4}"),
            ("a", "\u{e4}m"),
            ("HH:mm VV", "01:00 +999999999:00"),
            ("HH:mm VV", "01:00 -9:999999999"),
            ("nonsense", "x"),
            ("[".repeat(100).as_str(), "x"),
        ] {
            check(format, text, None);
        }
    }

    #[test]
    fn dates_are_written_by_patterns() {
        let at: Timestamp = "2000-01-02T15:04:05.678Z".parse().expect("a date");
        let write = |format: &str, zone: &str| {
            let zone = crate::dates::zone_of(zone).expect("a zone");
            DatePattern::of(format).write(&at.to_zoned(zone))
        };
        for (format, zone, expected) in [
            ("dd/MMM/yyyy:HH:mm:ss Z", "-07:00", "02/Jan/2000:08:04:05 -0700"),
            ("d/M/yy h:mm a", "UTC", "2/1/00 3:04 PM"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "UTC", "2000-01-02T15:04:05.678Z"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSSxxx", "+01:30", "2000-01-02T16:34:05.678000000+01:30"),
            ("EEE EEEE MMMM D [S]", "UTC", "Sun Sunday January 2 6"),
            ("basic_date_time_no_millis", "UTC", "20000102T150405Z"),
            ("strict_date_time_no_millis", "+01:00", "2000-01-02T16:04:05+01:00"),
            ("week_date", "UTC", "1999-W52-7"),
            ("basic_ordinal_date", "UTC", "2000002"),
            ("HH 'o''clock' k K VV", "UTC", "15 o'clock 15 3 UTC"),
        ] {
            assert_eq!(write(format, zone), expected, "{format}");
        }
        assert!(write(&"y".repeat(1_000), "UTC").len() < 100);
        assert_eq!(write(&format!("'{}'", "x".repeat(998)), "UTC").len(), 998);
        assert_eq!(write(&format!("'{}'", "x".repeat(999)), "UTC"), "");
    }

    #[test]
    fn letters_of_patterns_are_known() {
        for (format, expected) in [
            ("yyyy 'at' HH", true),
            ("yyyy.MM.dd||epoch_millis", false),
            ("nonsense", false),
            ("strict_week_date", true),
        ] {
            assert_eq!(DatePattern::of(format).is_known(), expected, "{format}");
        }
        let too_long = "yyyy ".repeat(201);
        for (format, expected) in [
            (too_long.as_str(), false),
            ("epoch_second", true),
            ("strict_date_optional_time_nanos", true),
            ("rfc3339_lenient", true),
            ("dd/MMM/yyyy:HH:mm:ss Z", true),
            ("", false),
            ("iso", false),
        ] {
            assert_eq!(is_date_format(format), expected, "{format}");
        }
    }
}
