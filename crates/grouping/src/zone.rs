use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Error;

/// The time zone of the `time.*` functions.
#[derive(Debug, Clone, Default)]
pub enum GroupingZone {
    /// UTC, without offset.
    #[default]
    Utc,
    /// A zone whose offset from UTC may change.
    Local(TimeZone),
}

impl GroupingZone {
    /// Parses the name of a zone in the IANA database (`America/Los_Angeles`), or `utc`, or an offset:
    /// `GMT-8`, `UTC+05:30`, `+01:00`.
    ///
    /// # Errors
    /// The name is not one of these.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let trimmed = name.trim();
        let upper = trimmed.to_ascii_uppercase();
        if ["", "UTC", "GMT", "Z"].contains(&upper.as_str()) {
            return Ok(GroupingZone::Utc);
        }
        let offset = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC")).unwrap_or(&upper);
        if let Some(offset) = parse_offset(offset) {
            return Ok(GroupingZone::Local(TimeZone::fixed(offset)));
        }
        TimeZone::get(trimmed).map(GroupingZone::Local).map_err(|_| {
            Error::invalid(format!(
                "no time zone '{name}'; write a name of the IANA database such as Europe/Oslo, or an offset such as GMT-8"
            ))
        })
    }

    /// Calendar date and time of day of an instant, in seconds since 1970.
    pub(crate) fn civil(&self, seconds: i64) -> CivilTime {
        let offset = match self {
            GroupingZone::Utc => 0,
            GroupingZone::Local(zone) => Timestamp::from_second(seconds)
                .map_or(0, |instant| i64::from(zone.to_offset(instant).seconds())),
        };
        CivilTime::from_seconds(seconds.saturating_add(offset))
    }
}

fn parse_offset(text: &str) -> Option<jiff::tz::Offset> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?),
        None if digits.len() == 4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
        None => (digits.parse().ok()?, 0),
    };
    if !(0..=23).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    jiff::tz::Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

/// A date of the proleptic Gregorian calendar and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CivilTime {
    pub(crate) year: i64,
    /// Month, from 1.
    pub(crate) month: i64,
    /// Day of the month, from 1.
    pub(crate) day: i64,
    /// Day of the year, from 0.
    pub(crate) day_of_year: i64,
    /// Day of the week, from 0 = Sunday.
    pub(crate) day_of_week: i64,
    pub(crate) second_of_day: i64,
}

impl CivilTime {
    /// Converts any number of seconds since 1970: fields may contain numbers beyond the years that libraries
    /// can represent. Days are counted in eras of 400 years that begin on 1 March, so that the
    /// leap day is the last day of a year.
    fn from_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let since_march_0000 = days + 719_468;
        let era = since_march_0000.div_euclid(146_097);
        let day_of_era = since_march_0000.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let day = day_from_march - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year =
            if month > 2 { day_from_march + 59 + i64::from(leap) } else { day_from_march - 306 };
        CivilTime {
            year,
            month,
            day,
            day_of_year,
            day_of_week: (days + 4).rem_euclid(7),
            second_of_day: seconds.rem_euclid(86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(zone: &str, seconds: i64, expected: &str) {
        let civil = GroupingZone::parse(zone).expect("the test's zone").civil(seconds);
        let text = format!(
            "{}-{}-{} day {} weekday {} second {}",
            civil.year, civil.month, civil.day, civil.day_of_year, civil.day_of_week, civil.second_of_day
        );
        assert_eq!(text, expected, "{zone} {seconds}");
    }

    #[test]
    fn instants_become_dates() {
        check("utc", 0, "1970-1-1 day 0 weekday 4 second 0");
        check("utc", -1, "1969-12-31 day 364 weekday 3 second 86399");
        check("utc", 951_782_400, "2000-2-29 day 59 weekday 2 second 0");
        check("utc", 951_868_800, "2000-3-1 day 60 weekday 3 second 0");
        check("utc", 1_230_768_000, "2009-1-1 day 0 weekday 4 second 0");
        check("utc", 1_230_767_999, "2008-12-31 day 365 weekday 3 second 86399");
        check("GMT-1", 0, "1969-12-31 day 364 weekday 3 second 82800");
        check("UTC+05:30", 0, "1970-1-1 day 0 weekday 4 second 19800");
        check("America/Los_Angeles", 1_157_526_000, "2006-9-6 day 248 weekday 3 second 0");
        check("America/Los_Angeles", 1_165_305_600, "2006-12-5 day 338 weekday 2 second 0");
    }

    #[test]
    fn unknown_zones_are_refused() {
        let error = GroupingZone::parse("Mars/Olympus").expect_err("no such zone").to_string();
        assert!(error.contains("Mars/Olympus") && error.contains("GMT-8"), "{error}");
        assert!(GroupingZone::parse("GMT+99").is_err());
    }
}
