//! Java's number format.

use std::fmt;
use std::io::{self, Write};

use serde_json::ser::Formatter;

/// JSON formatter that is compact and writes floats like `Double.toString` and `Float.toString`.
pub(crate) struct JavaNumbers;

impl Formatter for JavaNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        Scientific::of(value).write_java(writer)
    }

    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        Scientific::of(value).write_java(writer)
    }
}

/// Text of a float as in Java's `Double.toString`.
pub(crate) fn java_text(value: f64) -> String {
    if let Some(name) = special(value) {
        return name.to_owned();
    }
    let mut text = Vec::new();
    // Writing to a Vec cannot fail, and the output is ASCII.
    let _ = Scientific::of(value).write_java(&mut text);
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

/// The shortest distinguishing digits of a float, as Rust writes them: `-1.25e-3`. On the stack, because a
/// result may have many thousands of numbers.
struct Scientific {
    text: [u8; Scientific::LENGTH_MAX],
    length: usize,
}

impl Scientific {
    /// A sign, 17 digits with a point, and an exponent of up to four characters after its letter.
    const LENGTH_MAX: usize = 32;

    fn of(value: impl fmt::LowerExp) -> Self {
        let mut text = [0; Self::LENGTH_MAX];
        let mut rest = &mut text[..];
        write!(rest, "{value:e}").expect("the text of a float is shorter than the buffer");
        let length = Self::LENGTH_MAX - rest.len();
        Scientific { text, length }
    }

    /// Writes the digits plainly from 0.001 up to ten million, with an exponent outside that range.
    fn write_java<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        const ZEROS: &[u8] = b"0000000";
        let text = &self.text[..self.length];
        let (sign, text) = text.split_at(usize::from(text.starts_with(b"-")));
        let end = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
        let exponent: i32 =
            text.get(end + 1..).and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0);
        // A digit, and a point and more digits if there are more.
        let (whole, fraction) = (&text[..end.min(1)], text.get(2..end).unwrap_or_default());
        fn or_zero(digits: &[u8]) -> &[u8] {
            if digits.is_empty() { b"0" } else { digits }
        }
        writer.write_all(sign)?;
        if whole == b"0" {
            writer.write_all(b"0.0")
        } else if !(-3..7).contains(&exponent) {
            writer.write_all(whole)?;
            writer.write_all(b".")?;
            writer.write_all(or_zero(fraction))?;
            write!(writer, "E{exponent}")
        } else if exponent < 0 {
            writer.write_all(b"0.")?;
            writer.write_all(&ZEROS[..(-exponent - 1) as usize])?;
            writer.write_all(whole)?;
            writer.write_all(fraction)
        } else {
            let point = exponent as usize;
            let before = &fraction[..point.min(fraction.len())];
            writer.write_all(whole)?;
            writer.write_all(before)?;
            writer.write_all(&ZEROS[..point - before.len()])?;
            writer.write_all(b".")?;
            writer.write_all(or_zero(&fraction[before.len()..]))
        }
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
