//! validation-overrides.xml: permissions for changes that lose data or results.

use jiff::civil;

use crate::{Error, SourcePosition, xml};

/// A permission of validation-overrides.xml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationOverride {
    /// Validation id.
    pub id: String,
    /// Last day of validity, in days since 1970-01-01 (UTC).
    pub until_day: i64,
    /// Location in the file.
    pub position: SourcePosition,
}

/// Path of the file.
pub(crate) const FILE: &str = "validation-overrides.xml";

/// Reads the file.
pub(crate) fn read(text: &str) -> Result<Vec<ValidationOverride>, Error> {
    let document = xml::parse(FILE, text)?;
    let root = document.root_element();
    if root.tag_name().name() != "validation-overrides" {
        return xml::invalid(
            FILE,
            root,
            format!("expected <validation-overrides>, found <{}>", root.tag_name().name()),
        );
    }
    let mut overrides = Vec::new();
    for allow in xml::elements(root) {
        if allow.tag_name().name() != "allow" {
            return xml::invalid(
                FILE,
                allow,
                format!("unknown element <{}>: expected <allow until='YYYY-MM-DD'>", allow.tag_name().name()),
            );
        }
        let Some(until_day) = allow.attribute("until").and_then(day_of) else {
            return xml::invalid(
                FILE,
                allow,
                "<allow> needs the attribute 'until' with a day such as 2026-01-30",
            );
        };
        overrides.push(ValidationOverride {
            id: xml::content(allow).to_owned(),
            until_day,
            position: xml::position_of(FILE, allow),
        });
    }
    Ok(overrides)
}

/// Days from 1970-01-01 to `YYYY-MM-DD`; `None` if that is not a day of the Gregorian calendar.
fn day_of(text: &str) -> Option<i64> {
    let mut parts = text.trim().splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let date = civil::Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    let days = date.duration_since(civil::date(1970, 1, 1)).as_hours() / 24;
    (days >= 0).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(11_016)),
            ("2026-11-21", Some(20_778)),
            ("9999-12-31", Some(2_932_896)),
            ("2026-1-2", Some(20_455)),
            ("1969-12-31", None),
            ("10000-01-01", None),
            ("70000-01-01", None),
            ("2026-00-10", None),
            ("2026-10-0", None),
            ("2026-02-29", None),
            ("2026-13-01", None),
            ("tomorrow", None),
        ] {
            assert_eq!(day_of(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_override_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(
            "<validation-overrides><allow>x</allow></validation-overrides>",
            "1:23: <allow> needs the attribute 'until'",
        );
        check("<overrides/>", "expected <validation-overrides>");
        check("<validation-overrides>", "not well-formed XML");
    }
}
