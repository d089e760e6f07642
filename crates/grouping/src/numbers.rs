//! Numbers of many rows at once: a vector for each expression, and a loop for each function.

use std::cmp::Ordering;

use crate::datum::{ExpressionDatum, double_order};
use crate::functions::{GroupingFunction, GroupingFunctionCode};
use crate::zone::{CivilTime, GroupingZone};

/// Values of an expression in some rows, all of one kind. No row is without a value: fields have their type's
/// undefined value.
#[derive(Debug)]
pub(crate) enum NumberColumn {
    Bools(Vec<bool>),
    Longs(Vec<i64>),
    Doubles(Vec<f64>),
}

impl NumberColumn {
    /// The same value in `len` rows; `None` if it is not a number.
    pub(crate) fn repeat(value: &ExpressionDatum<'_>, len: usize) -> Option<Self> {
        match value {
            ExpressionDatum::Bool(value) => Some(NumberColumn::Bools(vec![*value; len])),
            ExpressionDatum::Long(value) => Some(NumberColumn::Longs(vec![*value; len])),
            ExpressionDatum::Double(value) => Some(NumberColumn::Doubles(vec![*value; len])),
            _ => None,
        }
    }

    /// Value at `index`.
    #[inline]
    pub(crate) fn datum(&self, index: usize) -> ExpressionDatum<'static> {
        match self {
            NumberColumn::Bools(values) => ExpressionDatum::Bool(values[index]),
            NumberColumn::Longs(values) => ExpressionDatum::Long(values[index]),
            NumberColumn::Doubles(values) => ExpressionDatum::Double(values[index]),
        }
    }

    /// Converts as [`ExpressionDatum::to_long`] does.
    pub(crate) fn into_longs(self) -> Vec<i64> {
        match self {
            NumberColumn::Bools(values) => values.into_iter().map(i64::from).collect(),
            NumberColumn::Longs(values) => values,
            NumberColumn::Doubles(values) => values.into_iter().map(|value| value.round() as i64).collect(),
        }
    }

    /// Converts as [`ExpressionDatum::to_double`] does.
    pub(crate) fn into_doubles(self) -> Vec<f64> {
        match self {
            NumberColumn::Doubles(values) => values,
            values => values.into_longs().into_iter().map(|value| value as f64).collect(),
        }
    }
}

/// Code of a function of one number.
pub(crate) enum NumberCode {
    /// Whole number to whole number.
    Long(fn(i64) -> i64),
    /// Float to float.
    Double(fn(f64) -> f64),
    /// Floats to floats, all others to whole numbers.
    Either(fn(i64) -> i64, fn(f64) -> f64),
    /// Seconds since 1970 to a part of the time in a zone.
    Time(fn(CivilTime) -> i64),
}

impl NumberCode {
    pub(crate) fn apply(&self, value: &ExpressionDatum<'_>, zone: &GroupingZone) -> ExpressionDatum<'static> {
        match (self, value) {
            (NumberCode::Double(code) | NumberCode::Either(_, code), ExpressionDatum::Double(value)) => {
                ExpressionDatum::Double(code(*value))
            }
            (NumberCode::Double(code), value) => ExpressionDatum::Double(code(value.to_double())),
            (NumberCode::Long(code) | NumberCode::Either(code, _), value) => {
                ExpressionDatum::Long(code(value.to_long()))
            }
            (NumberCode::Time(code), value) => ExpressionDatum::Long(code(zone.civil(value.to_long()))),
        }
    }

    fn apply_to_column(&self, values: NumberColumn, zone: &GroupingZone) -> NumberColumn {
        match (self, values) {
            (NumberCode::Either(_, code), NumberColumn::Doubles(values)) => {
                NumberColumn::Doubles(values.into_iter().map(code).collect())
            }
            (NumberCode::Double(code), values) => {
                NumberColumn::Doubles(values.into_doubles().into_iter().map(code).collect())
            }
            (NumberCode::Long(code) | NumberCode::Either(code, _), values) => {
                NumberColumn::Longs(values.into_longs().into_iter().map(code).collect())
            }
            (NumberCode::Time(code), values) => {
                let seconds = values.into_longs().into_iter();
                NumberColumn::Longs(seconds.map(|seconds| code(zone.civil(seconds))).collect())
            }
        }
    }
}

/// Code of a function of two numbers.
pub(crate) enum NumberPairCode {
    /// Of whole numbers.
    Long(fn(i64, i64) -> i64),
    /// Of floats.
    Double(fn(f64, f64) -> f64),
    /// Of floats if one of the two is a float, otherwise of whole numbers.
    Either(fn(i64, i64) -> i64, fn(f64, f64) -> f64),
    /// The one, of any kind, that is less or greater than the other; the first of two equal ones.
    Extreme(Ordering),
}

impl NumberPairCode {
    pub(crate) fn apply<'a>(&self, a: ExpressionDatum<'a>, b: ExpressionDatum<'a>) -> ExpressionDatum<'a> {
        let is_float = |value: &ExpressionDatum<'_>| matches!(value, ExpressionDatum::Double(_));
        match self {
            NumberPairCode::Extreme(wanted) => {
                if b.order(&a) == *wanted {
                    b
                } else {
                    a
                }
            }
            NumberPairCode::Either(whole, _) if !is_float(&a) && !is_float(&b) => {
                ExpressionDatum::Long(whole(a.to_long(), b.to_long()))
            }
            NumberPairCode::Long(code) => ExpressionDatum::Long(code(a.to_long(), b.to_long())),
            NumberPairCode::Double(code) | NumberPairCode::Either(_, code) => {
                ExpressionDatum::Double(code(a.to_double(), b.to_double()))
            }
        }
    }

    /// Applies the code row by row; `None` if the results may be of several kinds.
    fn apply_to_columns(&self, a: NumberColumn, b: NumberColumn) -> Option<NumberColumn> {
        let is_float = |values: &NumberColumn| matches!(values, NumberColumn::Doubles(_));
        Some(match (self, a, b) {
            (NumberPairCode::Extreme(wanted), NumberColumn::Longs(a), NumberColumn::Longs(b)) => {
                NumberColumn::Longs(pairs(a, &b, |a, b| if b.cmp(&a) == *wanted { b } else { a }))
            }
            (NumberPairCode::Extreme(wanted), NumberColumn::Doubles(a), NumberColumn::Doubles(b)) => {
                NumberColumn::Doubles(pairs(a, &b, |a, b| if double_order(b, a) == *wanted { b } else { a }))
            }
            (NumberPairCode::Extreme(_), ..) => return None,
            (NumberPairCode::Either(whole, _), a, b) if !is_float(&a) && !is_float(&b) => {
                NumberColumn::Longs(pairs(a.into_longs(), &b.into_longs(), whole))
            }
            (NumberPairCode::Long(code), a, b) => {
                NumberColumn::Longs(pairs(a.into_longs(), &b.into_longs(), code))
            }
            (NumberPairCode::Double(code) | NumberPairCode::Either(_, code), a, b) => {
                NumberColumn::Doubles(pairs(a.into_doubles(), &b.into_doubles(), code))
            }
        })
    }
}

fn pairs<T: Copy>(mut a: Vec<T>, b: &[T], code: impl Fn(T, T) -> T) -> Vec<T> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = code(*a, *b));
    a
}

impl GroupingFunction {
    /// Applies the function to columns of arguments, with the results of [`GroupingFunction::apply`]. `None`
    /// if an argument has no column, or the results do not fit in one.
    pub(crate) fn apply_columns(
        &self,
        arguments: impl Iterator<Item = Option<NumberColumn>>,
        zone: &GroupingZone,
    ) -> Option<NumberColumn> {
        let mut arguments = arguments;
        match &self.code {
            GroupingFunctionCode::Number(code) => Some(code.apply_to_column(arguments.next()??, zone)),
            GroupingFunctionCode::Fold(code) => {
                let first = arguments.next()??;
                arguments.try_fold(first, |done, next| code.apply_to_columns(done, next?))
            }
            GroupingFunctionCode::TextNumber(_)
            | GroupingFunctionCode::Text(_)
            | GroupingFunctionCode::Bytes(_)
            | GroupingFunctionCode::Date(_)
            | GroupingFunctionCode::JoinedTexts
            | GroupingFunctionCode::JoinedBytes
            | GroupingFunctionCode::Digest(_)
            | GroupingFunctionCode::Whole(_)
            | GroupingFunctionCode::Size
            | GroupingFunctionCode::ElementAt
            | GroupingFunctionCode::Lookup => None,
        }
    }
}
