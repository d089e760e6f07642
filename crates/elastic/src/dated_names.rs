//! Date math in names of indexes: `<logs-{now/d}>` is `logs-2024.05.06` on that day.

use std::borrow::Cow;

use crate::Error;
use crate::catalog::now_ms;
use crate::date_patterns::DatePattern;
use crate::dates::{DateReading, DateText, zone_of};

/// Format of a date that names none.
const FORMAT: &str = "yyyy.MM.dd";

/// Zone of a date that names none.
const ZONE: &str = "UTC";

/// An expression with the dates of its names written out.
///
/// # Errors
/// A name in angle brackets is malformed.
pub(crate) fn with_dates(expression: &str) -> Result<Cow<'_, str>, Error> {
    match expression.contains('<') {
        true => written(expression, now_ms() as i64).map(Cow::Owned),
        false => Ok(Cow::Borrowed(expression)),
    }
}

fn written(expression: &str, now_ms: i64) -> Result<String, Error> {
    let one = |part: &str| -> Result<String, Error> {
        let (sign, name) = match part.strip_prefix('-') {
            Some(excluded) => ("-", excluded),
            None => ("", part),
        };
        match name.strip_prefix('<').and_then(|name| name.strip_suffix('>')) {
            Some(inner) => Ok(format!("{sign}{}", name_of(inner, now_ms)?)),
            None => Ok(part.to_owned()),
        }
    };
    let parts: Result<Vec<String>, Error> = parts_of(expression).into_iter().map(one).collect();
    Ok(parts?.join(","))
}

/// Names of an expression. A comma within angle brackets is part of a format.
fn parts_of(expression: &str) -> Vec<&str> {
    let (mut parts, mut from, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in expression.char_indices() {
        match letter {
            '<' => is_inside = true,
            '>' => is_inside = false,
            ',' if !is_inside => {
                parts.push(&expression[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&expression[from..]);
    parts
}

/// The name for what is within angle brackets.
fn name_of(inner: &str, now_ms: i64) -> Result<String, Error> {
    let fail = |reason: &str| Error::Parsing(format!("invalid dynamic name expression [{inner}]. {reason}"));
    let mut name = String::new();
    let mut rest = inner;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\\' => {
                let escaped = rest.chars().next().ok_or_else(|| fail("nothing follows the last [\\]"))?;
                name.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
            '{' => {
                let (date, after) = DateInName::parse(rest, fail)?;
                name.push_str(&date.text(now_ms, fail)?);
                rest = after;
            }
            '}' => return Err(fail("[}] closes no date; write [\\}] for the character")),
            other => name.push(other),
        }
    }
    match name.is_empty() {
        true => Err(fail("nothing is between the angle brackets")),
        false => Ok(name),
    }
}

/// A date in a name, as it is written.
struct DateInName<'n> {
    math: &'n str,
    format: &'n str,
    zone: &'n str,
}

impl<'n> DateInName<'n> {
    /// Parses what follows `{`; returns the date, and what follows it.
    fn parse(rest: &'n str, fail: impl Fn(&str) -> Error) -> Result<(Self, &'n str), Error> {
        let open = || fail("date math placeholder is open ended");
        let end = rest.find(['{', '}']).ok_or_else(open)?;
        let (math, after) = (&rest[..end], &rest[end..]);
        let Some(inner) = after.strip_prefix('{') else {
            return Ok((DateInName { math, format: FORMAT, zone: ZONE }, &after[1..]));
        };
        let (written, after) = inner.split_once('}').ok_or_else(open)?;
        let after = after.strip_prefix('}').ok_or_else(|| fail("[}}] must follow the format of a date"))?;
        let (format, zone) = written.split_once('|').unwrap_or((written, ZONE));
        match format.is_empty() {
            true => Err(fail("missing date format")),
            false => Ok((DateInName { math, format, zone }, after)),
        }
    }

    /// The date as text.
    fn text(&self, now_ms: i64, fail: impl Fn(&str) -> Error) -> Result<String, Error> {
        let DateInName { math, format, zone: name } = *self;
        let zone = zone_of(name).ok_or_else(|| fail(&format!("[{name}] is not a time zone")))?;
        if !DatePattern::of(format).is_known() {
            return Err(fail(&format!("[{format}] is not a date format; write one such as [{FORMAT}]")));
        }
        let reading = DateReading { format: None, now_ms, zone: &zone, round_up: false };
        let millis = DateText::resolve(math.trim(), &reading)
            .ok_or_else(|| fail(&format!("[{math}] is not date math; write it as [now/d] or [now-1M/M]")))?;
        Ok(DateText::write(millis, Some(format), &zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 22 March 2024, 23:30 UTC: a Friday.
    const NOW_MS: i64 = 1_711_150_200_000;

    #[test]
    fn dates_in_names_are_written_out() {
        for (expression, expected) in [
            ("logs", "logs"),
            ("<logs-{now/d}>", "logs-2024.03.22"),
            ("<logs-{now}>", "logs-2024.03.22"),
            ("<logs-{now/M}>", "logs-2024.03.01"),
            ("<logs-{now/M{yyyy.MM}}>", "logs-2024.03"),
            ("<logs-{now/M-1M{yyyy.MM}}>", "logs-2024.02"),
            ("<logs-{now+1d/d}>", "logs-2024.03.23"),
            ("<logs-{now/d{yyyy.MM.dd|+12:00}}>", "logs-2024.03.23"),
            ("<logs-{now/d{yyyy-MM-dd|Europe/Berlin}}>", "logs-2024-03-23"),
            ("<logs-{now{yyyy.MM.dd.HH}}-x>", "logs-2024.03.22.23-x"),
            ("<logs-{now/w{YYYY.ww}}>", "logs-2024.12"),
            ("<logs-{now/d{'%Q'dd}}>", "logs-%Q22"),
            ("<{now/y{yyyy}}-{now/d{MMdd}}>", "2024-0322"),
            ("<elastic\\{ON\\}-{now/M}>", "elastic{ON}-2024.03.01"),
            ("<a>", "a"),
            ("<a-{2024-01-01||+1M/d{yyyy.MM.dd}}>", "a-2024.02.01"),
            ("a,<b-{now/d}>,c*,-<c-{now-1d/d}>", "a,b-2024.03.22,c*,-c-2024.03.21"),
            ("<a-{now{yyyy','MM}}>,b", "a-2024,03,b"),
            ("a<b", "a<b"),
        ] {
            let found = written(expression, NOW_MS).unwrap_or_else(|error| panic!("{expression}: {error}"));
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn malformed_dates_are_errors() {
        for expression in [
            "<>",
            "<a-{now/d>",
            "<a-{now/d{yyyy}>",
            "<a-{now/d{yyyy}x}>",
            "<a-{now/d{}}>",
            "<a-{now/d{yyyy|nowhere}}>",
            "<a-{now/d{what}}>",
            "<a-{tomorrow}>",
            "<a-{now/x}>",
            "<a-{}>",
            "<a}>",
            "<a\\>",
        ] {
            let error = written(expression, NOW_MS).expect_err(expression);
            assert_eq!(error.status(), 400, "{expression}");
            assert!(error.to_string().contains("invalid dynamic name expression"), "{error}");
        }
    }
}
