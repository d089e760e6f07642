//! Durations in requests.

use std::time::Duration;

/// Maximum duration of a request. It limits the waiting time, and can be added to any instant.
const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a duration: seconds, or with one of the units `ks`, `m`, `s`, `ms`, `us`, `µs`. Durations longer
/// than a year are reduced to a year.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let mut end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // An exponent belongs to the number: no unit begins like one.
    if let Some(power) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(power.starts_with(['+', '-']));
        let digits = power[sign..].bytes().take_while(u8::is_ascii_digit).count();
        end += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    let (number, unit) = text.split_at(end);
    let seconds = number.parse::<f64>().ok()?
        * match unit.trim() {
            "" | "s" => 1.0,
            "ks" => 1e3,
            "m" => 60.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            _ => return None,
        };
    Duration::try_from_secs_f64(seconds.min(DURATION_MAX.as_secs_f64())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        #[track_caller]
        fn check(text: &str, expected: Option<Duration>) {
            assert_eq!(duration(text), expected, "{text}");
        }
        check("10", Some(Duration::from_secs(10)));
        check("0.5", Some(Duration::from_millis(500)));
        check("240000ms", Some(Duration::from_secs(240)));
        check("2m", Some(Duration::from_secs(120)));
        check("1ks", Some(Duration::from_secs(1000)));
        check("5 µs", Some(Duration::from_micros(5)));
        check("10000000000000000000", Some(DURATION_MAX));
        check(&"9".repeat(400), Some(DURATION_MAX));
        check("soon", None);
        check("1e1s", Some(Duration::from_secs(10)));
        check("5E-1", Some(Duration::from_millis(500)));
        check("1e99999s", Some(DURATION_MAX));
        check("1es", None);
        check("e1s", None);
        check("", None);
        check("-1", None);
    }
}
