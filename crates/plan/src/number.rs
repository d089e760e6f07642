//! Numbers of a query in the type of their field.

use millrace_document::DataType;
use millrace_query::{Bound, Number};

use crate::NumberRange;

/// How the numbers of a field are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    /// Rounded to this many bits of a float before they are compared, as the document's are.
    Float(u8),
}

/// How numbers of this type are compared; none where it is no number.
pub(crate) fn kind(value_type: &DataType) -> Option<Kind> {
    match value_type {
        DataType::Byte | DataType::Int | DataType::Long => Some(Kind::Integer),
        DataType::Float16 => Some(Kind::Float(16)),
        DataType::Float => Some(Kind::Float(32)),
        DataType::Double => Some(Kind::Float(64)),
        _ => None,
    }
}

/// The range between two bounds; none where no number is in it.
pub(crate) fn range(kind: Kind, low: Bound, high: Bound) -> Option<NumberRange> {
    let Kind::Float(bits) = kind else {
        let low = match low {
            Bound::Open => Some(i64::MIN),
            Bound::Inclusive(number) => ceiling(number),
            Bound::Exclusive(Number::Integer(number)) => number.checked_add(1),
            Bound::Exclusive(Number::Float(number)) => floor(Number::Float(number))?.checked_add(1),
        };
        let high = match high {
            Bound::Open => Some(i64::MAX),
            Bound::Inclusive(number) => floor(number),
            Bound::Exclusive(Number::Integer(number)) => number.checked_sub(1),
            Bound::Exclusive(Number::Float(number)) => ceiling(Number::Float(number))?.checked_sub(1),
        };
        let (low, high) = (low?, high?);
        return (low <= high).then_some(NumberRange::Integer { low, high });
    };
    let bound = |bound: Bound, open: f64| match bound {
        Bound::Open => (open, true),
        Bound::Inclusive(number) => (rounded(number.as_f64(), bits), true),
        Bound::Exclusive(number) => (rounded(number.as_f64(), bits), false),
    };
    let (low, low_inclusive) = bound(low, f64::NEG_INFINITY);
    let (high, high_inclusive) = bound(high, f64::INFINITY);
    let is_empty = low > high || low == high && !(low_inclusive && high_inclusive);
    (!is_empty).then_some(NumberRange::Float { low, low_inclusive, high, high_inclusive })
}

/// The smallest whole number that is not below; none above all.
fn ceiling(number: Number) -> Option<i64> {
    match number {
        Number::Integer(number) => Some(number),
        Number::Float(number) if number.ceil() >= i64::MAX as f64 => None,
        Number::Float(number) => Some(number.ceil() as i64),
    }
}

/// The largest whole number that is not above; none below all.
fn floor(number: Number) -> Option<i64> {
    match number {
        Number::Integer(number) => Some(number),
        Number::Float(number) if number.floor() < i64::MIN as f64 => None,
        Number::Float(number) => Some(number.floor() as i64),
    }
}

/// A number as it is after being stored with this many bits.
fn rounded(number: f64, bits: u8) -> f64 {
    match bits {
        16 => half::f16::from_f64(number).to_f64(),
        32 => f64::from(number as f32),
        _ => number,
    }
}
