//! Java's number format.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// JSON formatter that is compact and writes floats like `Double.toString` and `Float.toString`.
pub(crate) struct JavaNumbers;

impl Formatter for JavaNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write_finite(writer, value)
    }

    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        write_finite(writer, value)
    }
}

/// Text of a float as in Java's `Double.toString`.
pub(crate) fn java_text(value: f64) -> String {
    special(value).map_or_else(|| finite_text(value), str::to_owned)
}

/// Text of a float as in Java's `Float.toString`.
pub(crate) fn java_text_of_float(value: f32) -> String {
    special(f64::from(value)).map_or_else(|| finite_text(value), str::to_owned)
}

fn finite_text(value: impl zmij::Float + Copy + Into<f64>) -> String {
    let mut text = Vec::new();
    // Writing to a Vec cannot fail, and the output is ASCII.
    let _ = write_finite(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes a finite float. Where Java has no exponent, its text is the usual one, whose digits need not be
/// looked at again: most cells of vectors are such numbers.
fn write_finite<W: ?Sized + Write>(
    writer: &mut W,
    value: impl zmij::Float + Copy + Into<f64>,
) -> io::Result<()> {
    let size = Into::<f64>::into(value).abs();
    if size == 0.0 || (0.001..1e7).contains(&size) {
        return writer.write_all(zmij::Buffer::new().format_finite(value).as_bytes());
    }
    Scientific::of(value).write_java(writer)
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

/// The shortest digits that distinguish a finite float from all others: a digit, a point, the other digits,
/// and an exponent of ten. Without digits: zero.
struct Scientific {
    negative: bool,
    digits: [u8; Scientific::LENGTH_MAX],
    length: usize,
    exponent: i32,
}

impl Scientific {
    /// Length of the longest text of a float: a sign, 17 digits with a point and zeros before them, or an
    /// exponent of up to four characters after its letter.
    const LENGTH_MAX: usize = 32;

    fn of(value: impl zmij::Float) -> Self {
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(value).as_bytes();
        let (negative, text) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        let end = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
        let (mantissa, power) = text.split_at(end);
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(end);
        let first = mantissa.iter().position(|byte| (b'1'..=b'9').contains(byte)).unwrap_or(end);
        // Places of the first digit before the point, or after it.
        let place = if first < point { (point - first - 1) as i32 } else { point as i32 - first as i32 };
        let power = str::from_utf8(power.get(1..).unwrap_or_default()).unwrap_or_default();
        let mut scientific = Scientific {
            negative,
            digits: [0; Self::LENGTH_MAX],
            length: 0,
            exponent: place + power.parse::<i32>().unwrap_or(0),
        };
        for (place, digit) in
            scientific.digits.iter_mut().zip(mantissa[first..].iter().filter(|byte| **byte != b'.'))
        {
            *place = *digit;
            scientific.length += 1;
        }
        while scientific.length > 0 && scientific.digits[scientific.length - 1] == b'0' {
            scientific.length -= 1;
        }
        scientific
    }

    /// Writes the digits plainly from 0.001 up to ten million, with an exponent outside that range. At once:
    /// a result may have many thousands of numbers.
    fn write_java<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let mut text = [0; Self::LENGTH_MAX];
        let mut rest = &mut text[..];
        self.write_parts(&mut rest)?;
        let length = Self::LENGTH_MAX - rest.len();
        writer.write_all(&text[..length])
    }

    fn write_parts(&self, text: &mut &mut [u8]) -> io::Result<()> {
        const ZEROS: &[u8] = b"0000000";
        fn or_zero(digits: &[u8]) -> &[u8] {
            if digits.is_empty() { b"0" } else { digits }
        }
        if self.negative {
            text.write_all(b"-")?;
        }
        let Some((whole, fraction)) = self.digits[..self.length].split_at_checked(1) else {
            return text.write_all(b"0.0");
        };
        let exponent = self.exponent;
        if !(-3..7).contains(&exponent) {
            text.write_all(whole)?;
            text.write_all(b".")?;
            text.write_all(or_zero(fraction))?;
            write!(text, "E{exponent}")
        } else if exponent < 0 {
            text.write_all(b"0.")?;
            text.write_all(&ZEROS[..(-exponent - 1) as usize])?;
            text.write_all(whole)?;
            text.write_all(fraction)
        } else {
            let point = exponent as usize;
            let before = &fraction[..point.min(fraction.len())];
            text.write_all(whole)?;
            text.write_all(before)?;
            text.write_all(&ZEROS[..point - before.len()])?;
            text.write_all(b".")?;
            text.write_all(or_zero(&fraction[before.len()..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            (f64::from_bits(4820076237140117380), "1.7900735878303612E14"),
            (f64::MIN, "-1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_text(value), expected);
        }
    }

    /// Digits and exponent as the standard library finds them.
    fn plain(value: impl std::fmt::LowerExp) -> (String, i32) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("it has an exponent");
        let digits: String = digits.chars().filter(|digit| digit.is_ascii_digit()).collect();
        (digits.trim_end_matches('0').to_owned(), exponent.parse().expect("a number"))
    }

    /// True if digits are those of the standard library. Of two that are as near, Java has the even one, and
    /// the standard library the upper one.
    fn are_same(found: &(String, i32), plain: &(String, i32)) -> bool {
        let number = |digits: &str| digits.parse::<u64>().unwrap_or(0);
        let (one, other) = (number(&found.0), number(&plain.0));
        found.1 == plain.1
            && found.0.len() == plain.0.len()
            && (one == other || one + 1 == other && one.is_multiple_of(2))
    }

    fn found(scientific: &Scientific) -> (String, i32) {
        let digits = &scientific.digits[..scientific.length];
        let exponent = if digits.is_empty() { 0 } else { scientific.exponent };
        (String::from_utf8_lossy(digits).into_owned(), exponent)
    }

    /// Text of a float by its digits, whatever its size.
    fn digit_by_digit(value: impl zmij::Float) -> String {
        let mut text = Vec::new();
        Scientific::of(value).write_java(&mut text).expect("a Vec takes all bytes");
        String::from_utf8(text).expect("digits are ASCII")
    }

    proptest! {
        #[test]
        fn digits_are_those_of_the_standard_library(
            bits in any::<u64>(), number in -1e9f64..1e9, whole in any::<i32>(),
        ) {
            let wide = [f64::from_bits(bits), number, number / 1e3, number / 1e9, number / 1e12, f64::from(whole)];
            for value in wide.into_iter().filter(|value| value.is_finite()) {
                let (found, plain) = (found(&Scientific::of(value)), plain(value));
                prop_assert!(are_same(&found, &plain), "{found:?} {plain:?}");
                prop_assert_eq!(finite_text(value), digit_by_digit(value));
            }
            let narrow = [f32::from_bits(bits as u32), number as f32, (number / 1e10) as f32, whole as f32];
            for value in narrow.into_iter().filter(|value| value.is_finite()) {
                let (found, plain) = (found(&Scientific::of(value)), plain(value));
                prop_assert!(are_same(&found, &plain), "{found:?} {plain:?}");
                prop_assert_eq!(finite_text(value), digit_by_digit(value));
            }
        }
    }
}
