//! Conversion of a query's numbers to the type of their field.

use millrace_document::DataType;
use millrace_query::{QueryNumber, RangeBound};

use crate::NumberRange;

/// Comparison of a field's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Integer,
    /// Rounded to a float of this many bits before comparison, like the document's numbers.
    Float(u8),
}

/// Comparison for numbers of this type; `None` for other types.
pub(crate) fn kind(value_type: &DataType) -> Option<NumberKind> {
    match value_type {
        DataType::Byte | DataType::Int | DataType::Long => Some(NumberKind::Integer),
        DataType::Float16 => Some(NumberKind::Float(16)),
        DataType::Float => Some(NumberKind::Float(32)),
        DataType::Double => Some(NumberKind::Float(64)),
        _ => None,
    }
}

/// The range between two bounds; `None` if it contains no number.
pub(crate) fn range(kind: NumberKind, low: RangeBound, high: RangeBound) -> Option<NumberRange> {
    let NumberKind::Float(bits) = kind else {
        let low = match low {
            RangeBound::Open => Some(i64::MIN),
            RangeBound::Inclusive(number) => ceiling(number),
            RangeBound::Exclusive(QueryNumber::Integer(number)) => number.checked_add(1),
            RangeBound::Exclusive(QueryNumber::Float(number)) => {
                floor(QueryNumber::Float(number))?.checked_add(1)
            }
        };
        let high = match high {
            RangeBound::Open => Some(i64::MAX),
            RangeBound::Inclusive(number) => floor(number),
            RangeBound::Exclusive(QueryNumber::Integer(number)) => number.checked_sub(1),
            RangeBound::Exclusive(QueryNumber::Float(number)) => {
                ceiling(QueryNumber::Float(number))?.checked_sub(1)
            }
        };
        let (low, high) = (low?, high?);
        return (low <= high).then_some(NumberRange::Integer { low, high });
    };
    let bound = |bound: RangeBound, open: f64| match bound {
        RangeBound::Open => (open, true),
        RangeBound::Inclusive(number) => (rounded(number.as_f64(), bits), true),
        RangeBound::Exclusive(number) => (rounded(number.as_f64(), bits), false),
    };
    let (low, low_inclusive) = bound(low, f64::NEG_INFINITY);
    let (high, high_inclusive) = bound(high, f64::INFINITY);
    let is_empty = low > high || low == high && !(low_inclusive && high_inclusive);
    (!is_empty).then_some(NumberRange::Float { low, low_inclusive, high, high_inclusive })
}

/// The smallest whole number that is not below; `None` if there is none.
fn ceiling(number: QueryNumber) -> Option<i64> {
    match number {
        QueryNumber::Integer(number) => Some(number),
        QueryNumber::Float(number) if number.ceil() >= i64::MAX as f64 => None,
        QueryNumber::Float(number) => Some(number.ceil() as i64),
    }
}

/// The largest whole number that is not above; `None` if there is none.
fn floor(number: QueryNumber) -> Option<i64> {
    match number {
        QueryNumber::Integer(number) => Some(number),
        QueryNumber::Float(number) if number.floor() < i64::MIN as f64 => None,
        QueryNumber::Float(number) => Some(number.floor() as i64),
    }
}

/// Rounds a number to a float of this many bits.
fn rounded(number: f64, bits: u8) -> f64 {
    match bits {
        16 => half::f16::from_f64(number).to_f64(),
        32 => f64::from(number as f32),
        _ => number,
    }
}
