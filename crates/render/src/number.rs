//! Java's number format.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// JSON formatter that is compact and writes floats like `Double.toString` and `Float.toString`.
pub(crate) struct JavaNumbers;

impl Formatter for JavaNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write_java(writer, &format!("{value:e}"))
    }

    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        write_java(writer, &format!("{value:e}"))
    }
}

/// Text of a float as in Java's `Double.toString`.
pub(crate) fn java_text(value: f64) -> String {
    if let Some(name) = special(value) {
        return name.to_owned();
    }
    let mut text = Vec::new();
    // Writing to a Vec cannot fail, and the output is ASCII.
    let _ = write_java(&mut text, &format!("{value:e}"));
    String::from_utf8_lossy(&text).into_owned()
}

/// Name of a float that JSON cannot represent.
pub(crate) fn special(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        value if value.is_nan() => Some("NaN"),
        _ => None,
    }
}

/// Writes the shortest distinguishing digits, given as Rust's `1.25e-3`: plain from 0.001 up to ten million,
/// with an exponent outside that range.
fn write_java<W: ?Sized + Write>(writer: &mut W, scientific: &str) -> io::Result<()> {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    if whole == "0" {
        write!(writer, "{sign}0.0")
    } else if !(-3..7).contains(&exponent) {
        write!(writer, "{sign}{whole}.{}E{exponent}", or_zero(fraction))
    } else if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        write!(writer, "{sign}0.{zeros}{whole}{fraction}")
    } else {
        let point = exponent as usize;
        let padded = format!("{fraction:0<point$}");
        write!(writer, "{sign}{whole}{}.{}", &padded[..point], or_zero(&padded[point..]))
    }
}

#[cfg(test)]
mod tests {
    use super::java_text;

    #[test]
    fn floats_look_like_javas() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.16343879032006284, "0.16343879032006284"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12345678.9, "1.23456789E7"),
            (123456.75, "123456.75"),
            (f64::MIN, "-1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_text(value), expected);
        }
    }
}
