use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::request::DisplayDouble;

/// A value during evaluation. Text and bytes are borrowed from their column if possible.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Datum<'a> {
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
    List(Vec<Datum<'a>>),
}

impl<'a> Datum<'a> {
    pub(crate) fn text(text: String) -> Self {
        Datum::Text(Cow::Owned(text))
    }

    /// Converts to a whole number: rounds floats to the nearest, and parses the numeric prefix of text (0
    /// without one).
    pub(crate) fn to_long(&self) -> i64 {
        match self {
            Datum::Bool(value) => i64::from(*value),
            Datum::Long(value) => *value,
            Datum::Double(value) => value.round() as i64,
            Datum::Text(text) => {
                let text = text.trim();
                let digits = text
                    .char_indices()
                    .take_while(|(at, c)| c.is_ascii_digit() || (*at == 0 && matches!(c, '-' | '+')));
                text[..digits.count()].parse().unwrap_or(0)
            }
            Datum::Raw(bytes) => last_eight(bytes) as i64,
            _ => 0,
        }
    }

    /// Converts to a float; text that is not a number is 0.
    pub(crate) fn to_double(&self) -> f64 {
        match self {
            Datum::Double(value) => *value,
            Datum::Text(text) => text.trim().parse().unwrap_or(0.0),
            other => other.to_long() as f64,
        }
    }

    /// Converts to text.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Datum::Text(text) => Cow::Borrowed(text),
            Datum::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Datum::Long(value) => Cow::Owned(value.to_string()),
            Datum::Double(value) => Cow::Owned(DisplayDouble(*value).to_string()),
            Datum::Raw(bytes) => String::from_utf8_lossy(bytes),
            _ => Cow::Borrowed(""),
        }
    }

    /// The binary representation: numbers as 8 bytes, most significant first; text as UTF-8.
    pub(crate) fn to_raw(&self) -> Cow<'_, [u8]> {
        match self {
            Datum::Raw(bytes) => Cow::Borrowed(bytes),
            Datum::Text(text) => Cow::Borrowed(text.as_bytes()),
            Datum::Double(value) => Cow::Owned(value.to_be_bytes().to_vec()),
            Datum::List(list) => {
                Cow::Owned(list.iter().flat_map(|item| item.to_raw().into_owned()).collect())
            }
            other => Cow::Owned(other.to_long().to_be_bytes().to_vec()),
        }
    }

    /// Least significant 64 bits of the binary representation; a number is first converted to a whole number.
    pub(crate) fn low_bits(&self) -> u64 {
        match self {
            Datum::Bool(_) | Datum::Long(_) | Datum::Double(_) => self.to_long() as u64,
            other => last_eight(&other.to_raw()),
        }
    }

    /// Compares values: of one kind by value, of different kinds by kind. NaN precedes all other floats.
    pub(crate) fn order(&self, other: &Datum<'_>) -> Ordering {
        match (self, other) {
            (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
            (Datum::Raw(a), Datum::Raw(b)) => a.cmp(b),
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Long(a), Datum::Long(b)) => a.cmp(b),
            (Datum::LongBucket(a, x), Datum::LongBucket(b, y)) => (a, x).cmp(&(b, y)),
            (Datum::DoubleBucket(a, x), Datum::DoubleBucket(b, y)) => {
                double_order(*a, *b).then(double_order(*x, *y))
            }
            (Datum::TextBucket(a, x), Datum::TextBucket(b, y)) => (a, x).cmp(&(b, y)),
            (Datum::RawBucket(a, x), Datum::RawBucket(b, y)) => (a, x).cmp(&(b, y)),
            (Datum::List(a), Datum::List(b)) => a
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
        matches!(self, Datum::Bool(_) | Datum::Long(_) | Datum::Double(_))
    }

    const fn kind(&self) -> u8 {
        match self {
            Datum::Null => 0,
            Datum::Bool(_) | Datum::Long(_) | Datum::Double(_) => 1,
            Datum::Text(_) => 2,
            Datum::Raw(_) => 3,
            Datum::LongBucket(..) => 4,
            Datum::DoubleBucket(..) => 5,
            Datum::TextBucket(..) => 6,
            Datum::RawBucket(..) => 7,
            Datum::List(_) => 8,
        }
    }

    /// Copies the value out of its column.
    pub(crate) fn into_owned(self) -> Datum<'static> {
        match self {
            Datum::Null => Datum::Null,
            Datum::Bool(value) => Datum::Bool(value),
            Datum::Long(value) => Datum::Long(value),
            Datum::Double(value) => Datum::Double(value),
            Datum::Text(text) => Datum::Text(Cow::Owned(text.into_owned())),
            Datum::Raw(bytes) => Datum::Raw(Cow::Owned(bytes.into_owned())),
            Datum::LongBucket(from, to) => Datum::LongBucket(from, to),
            Datum::DoubleBucket(from, to) => Datum::DoubleBucket(from, to),
            Datum::TextBucket(from, to) => {
                Datum::TextBucket(Cow::Owned(from.into_owned()), Cow::Owned(to.into_owned()))
            }
            Datum::RawBucket(from, to) => {
                Datum::RawBucket(Cow::Owned(from.into_owned()), Cow::Owned(to.into_owned()))
            }
            Datum::List(list) => Datum::List(list.into_iter().map(Datum::into_owned).collect()),
        }
    }
}

/// Compares floats: NaN first, both zeros equal.
pub(crate) fn double_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn last_eight(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}
