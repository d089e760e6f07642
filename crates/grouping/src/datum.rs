use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::nesting;
use crate::request::DisplayDouble;

/// A value during evaluation. Text and bytes are borrowed from their column if possible.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ExpressionDatum<'a> {
    Null,
    Bool(bool),
    Long(i64),
    Double(f64),
    Text(Cow<'a, str>),
    Raw(Cow<'a, [u8]>),
    LongBucket(i64, i64),
    DoubleBucket(f64, f64),
    TextBucket(Cow<'a, str>, Cow<'a, str>),
    RawBucket(Cow<'a, [u8]>, Cow<'a, [u8]>),
    List(#[serde(deserialize_with = "nesting::deserialize")] Vec<ExpressionDatum<'a>>),
}

impl<'a> ExpressionDatum<'a> {
    pub(crate) fn text(text: String) -> Self {
        ExpressionDatum::Text(Cow::Owned(text))
    }

    /// Applies a function to the value; to each element of a list.
    pub(crate) fn map_elements(self, function: impl Fn(ExpressionDatum<'a>) -> ExpressionDatum<'a>) -> Self {
        match self {
            ExpressionDatum::List(list) => ExpressionDatum::List(list.into_iter().map(function).collect()),
            value => function(value),
        }
    }

    /// Memory of its text or bytes, or of the entries of a list, beside the datum itself.
    pub(crate) fn content_bytes(&self) -> usize {
        match self {
            ExpressionDatum::Text(text) => text.len(),
            ExpressionDatum::Raw(bytes) => bytes.len(),
            ExpressionDatum::TextBucket(from, to) => from.len() + to.len(),
            ExpressionDatum::RawBucket(from, to) => from.len() + to.len(),
            ExpressionDatum::List(values) => {
                values.iter().map(|value| size_of_val(value) + value.content_bytes()).sum()
            }
            ExpressionDatum::Null
            | ExpressionDatum::Bool(_)
            | ExpressionDatum::Long(_)
            | ExpressionDatum::Double(_)
            | ExpressionDatum::LongBucket(..)
            | ExpressionDatum::DoubleBucket(..) => 0,
        }
    }

    /// Converts to a whole number: rounds floats to the nearest, and parses the numeric prefix of text (0
    /// without one).
    pub(crate) fn to_long(&self) -> i64 {
        match self {
            ExpressionDatum::Bool(value) => i64::from(*value),
            ExpressionDatum::Long(value) => *value,
            ExpressionDatum::Double(value) => value.round() as i64,
            ExpressionDatum::Text(text) => {
                let text = text.trim();
                let digits = text
                    .char_indices()
                    .take_while(|(at, c)| c.is_ascii_digit() || (*at == 0 && matches!(c, '-' | '+')));
                text[..digits.count()].parse().unwrap_or(0)
            }
            ExpressionDatum::Raw(bytes) => last_eight(bytes) as i64,
            _ => 0,
        }
    }

    /// Converts to a float; text that is not a number is 0.
    pub(crate) fn to_double(&self) -> f64 {
        match self {
            ExpressionDatum::Double(value) => *value,
            ExpressionDatum::Text(text) => text.trim().parse().unwrap_or(0.0),
            other => other.to_long() as f64,
        }
    }

    /// The value, with its text or bytes borrowed.
    pub(crate) fn borrowed(&self) -> ExpressionDatum<'_> {
        match self {
            ExpressionDatum::Text(text) => ExpressionDatum::Text(Cow::Borrowed(text)),
            ExpressionDatum::Raw(bytes) => ExpressionDatum::Raw(Cow::Borrowed(bytes)),
            value => value.clone(),
        }
    }

    /// Converts to text.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        match self {
            ExpressionDatum::Text(text) => Cow::Borrowed(text),
            ExpressionDatum::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            ExpressionDatum::Long(value) => Cow::Owned(value.to_string()),
            ExpressionDatum::Double(value) => Cow::Owned(DisplayDouble(*value).to_string()),
            ExpressionDatum::Raw(bytes) => String::from_utf8_lossy(bytes),
            _ => Cow::Borrowed(""),
        }
    }

    /// Appends the text.
    pub(crate) fn append_text(&self, out: &mut String) {
        match self {
            ExpressionDatum::Long(value) => append_decimal(*value, out),
            value => out.push_str(&value.to_text()),
        }
    }

    /// The binary representation: numbers as 8 bytes, most significant first; text as UTF-8.
    pub(crate) fn to_raw(&self) -> Cow<'_, [u8]> {
        match self {
            ExpressionDatum::Raw(bytes) => Cow::Borrowed(bytes),
            ExpressionDatum::Text(text) => Cow::Borrowed(text.as_bytes()),
            other => {
                let mut bytes = Vec::new();
                other.append_raw(&mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// Appends the binary representation.
    pub(crate) fn append_raw(&self, out: &mut Vec<u8>) {
        match self {
            ExpressionDatum::Raw(bytes) => out.extend_from_slice(bytes),
            ExpressionDatum::Text(text) => out.extend_from_slice(text.as_bytes()),
            ExpressionDatum::Double(value) => out.extend_from_slice(&value.to_be_bytes()),
            ExpressionDatum::List(list) => list.iter().for_each(|item| item.append_raw(out)),
            other => out.extend_from_slice(&other.to_long().to_be_bytes()),
        }
    }

    /// Least significant 64 bits of the binary representation; a number is first converted to a whole number.
    pub(crate) fn low_bits(&self) -> u64 {
        match self {
            ExpressionDatum::Bool(_) | ExpressionDatum::Long(_) | ExpressionDatum::Double(_) => {
                self.to_long() as u64
            }
            other => last_eight(&other.to_raw()),
        }
    }

    /// Compares values: of one kind by value, of different kinds by kind. NaN precedes all other floats.
    pub(crate) fn order(&self, other: &ExpressionDatum<'_>) -> Ordering {
        match (self, other) {
            (ExpressionDatum::Text(a), ExpressionDatum::Text(b)) => a.cmp(b),
            (ExpressionDatum::Raw(a), ExpressionDatum::Raw(b)) => a.cmp(b),
            (ExpressionDatum::Bool(a), ExpressionDatum::Bool(b)) => a.cmp(b),
            (ExpressionDatum::Long(a), ExpressionDatum::Long(b)) => a.cmp(b),
            (ExpressionDatum::LongBucket(a, x), ExpressionDatum::LongBucket(b, y)) => (a, x).cmp(&(b, y)),
            (ExpressionDatum::DoubleBucket(a, x), ExpressionDatum::DoubleBucket(b, y)) => {
                double_order(*a, *b).then(double_order(*x, *y))
            }
            (ExpressionDatum::TextBucket(a, x), ExpressionDatum::TextBucket(b, y)) => (a, x).cmp(&(b, y)),
            (ExpressionDatum::RawBucket(a, x), ExpressionDatum::RawBucket(b, y)) => (a, x).cmp(&(b, y)),
            (ExpressionDatum::List(a), ExpressionDatum::List(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.order(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            _ if self.is_number() && other.is_number() => double_order(self.to_double(), other.to_double()),
            _ => self.kind().cmp(&other.kind()),
        }
    }

    pub(crate) const fn is_number(&self) -> bool {
        matches!(self, ExpressionDatum::Bool(_) | ExpressionDatum::Long(_) | ExpressionDatum::Double(_))
    }

    const fn kind(&self) -> u8 {
        match self {
            ExpressionDatum::Null => 0,
            ExpressionDatum::Bool(_) | ExpressionDatum::Long(_) | ExpressionDatum::Double(_) => 1,
            ExpressionDatum::Text(_) => 2,
            ExpressionDatum::Raw(_) => 3,
            ExpressionDatum::LongBucket(..) => 4,
            ExpressionDatum::DoubleBucket(..) => 5,
            ExpressionDatum::TextBucket(..) => 6,
            ExpressionDatum::RawBucket(..) => 7,
            ExpressionDatum::List(_) => 8,
        }
    }

    /// Copies the value out of its column.
    pub(crate) fn into_owned(self) -> ExpressionDatum<'static> {
        match self {
            ExpressionDatum::Null => ExpressionDatum::Null,
            ExpressionDatum::Bool(value) => ExpressionDatum::Bool(value),
            ExpressionDatum::Long(value) => ExpressionDatum::Long(value),
            ExpressionDatum::Double(value) => ExpressionDatum::Double(value),
            ExpressionDatum::Text(text) => ExpressionDatum::Text(Cow::Owned(text.into_owned())),
            ExpressionDatum::Raw(bytes) => ExpressionDatum::Raw(Cow::Owned(bytes.into_owned())),
            ExpressionDatum::LongBucket(from, to) => ExpressionDatum::LongBucket(from, to),
            ExpressionDatum::DoubleBucket(from, to) => ExpressionDatum::DoubleBucket(from, to),
            ExpressionDatum::TextBucket(from, to) => {
                ExpressionDatum::TextBucket(Cow::Owned(from.into_owned()), Cow::Owned(to.into_owned()))
            }
            ExpressionDatum::RawBucket(from, to) => {
                ExpressionDatum::RawBucket(Cow::Owned(from.into_owned()), Cow::Owned(to.into_owned()))
            }
            ExpressionDatum::List(list) => {
                ExpressionDatum::List(list.into_iter().map(ExpressionDatum::into_owned).collect())
            }
        }
    }
}

/// Compares floats: NaN first, both zeros equal.
pub(crate) fn double_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Appends a whole number in decimal digits, several times as fast as formatting.
pub(crate) fn append_decimal(number: i64, out: &mut String) {
    let mut digits = ['0'; 20];
    let (mut start, mut rest) = (digits.len(), number.unsigned_abs());
    loop {
        start -= 1;
        digits[start] = char::from(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    out.extend(&digits[start..]);
}

fn last_eight(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::append_decimal;

    #[test]
    fn whole_numbers_are_written_as_formatting_writes_them() {
        for number in [0, 7, -1, 10, -10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut text = "x".to_owned();
            append_decimal(number, &mut text);
            assert_eq!(text, format!("x{number}"));
        }
    }
}
