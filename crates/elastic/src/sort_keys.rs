//! Values by which hits are ordered.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;

use crate::dates::DateText;
use crate::evaluation::FieldValueKind;
use crate::query::text_of;
use crate::version_order::version_order;

/// Key of one hit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HitSortKey {
    Number(SortNumber),
    /// A date, with the text that is shown if there is a format.
    Date(i64, Option<String>),
    /// An address; those of the fourth version are as the sixth maps them.
    Address(Ipv6Addr),
    Text(String),
    /// A version of software.
    Version(String),
    /// No value; true if it comes first.
    Missing(bool),
}

/// A number that has a place among all others: it is finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SortNumber(NumberForm);

#[derive(Debug, Clone, Copy, PartialEq)]
enum NumberForm {
    /// All of 64 bits, with a sign or without.
    Whole(i128),
    Real(f64),
}

impl From<i64> for SortNumber {
    fn from(number: i64) -> Self {
        SortNumber(NumberForm::Whole(number.into()))
    }
}

impl SortNumber {
    /// Number of a float; `None` if it is not finite.
    pub(crate) fn of_real(number: f64) -> Option<Self> {
        number.is_finite().then_some(SortNumber(NumberForm::Real(number)))
    }

    /// Number that a value is, or that its text is.
    fn of(value: &Value) -> Option<Self> {
        let (whole, real) = match value {
            Value::Number(number) => {
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                (whole, number.as_f64())
            }
            Value::String(text) => {
                let text = text.trim();
                let whole =
                    text.parse::<i64>().map(i128::from).or_else(|_| text.parse::<u64>().map(i128::from));
                (whole.ok(), text.parse::<f64>().ok())
            }
            _ => return None,
        };
        match whole {
            Some(whole) => Some(SortNumber(NumberForm::Whole(whole))),
            None => real.and_then(SortNumber::of_real),
        }
    }

    /// The nearest number that a half float has, of those within their range.
    fn rounded_to_half(self) -> Self {
        const LARGEST: f64 = 65_504.0;
        let real = match self.0 {
            NumberForm::Whole(number) => number as f64,
            NumberForm::Real(number) => number,
        };
        // There are ten bits behind the first one, and fewer below the least exponent.
        let exponent = real.abs().log2().floor().max(-14.0);
        let step = 2_f64.powi(exponent as i32 - 10);
        let nearest = (real / step).round_ties_even() * step;
        SortNumber::of_real(nearest).filter(|_| nearest.abs() <= LARGEST).unwrap_or(self)
    }

    fn shown(self) -> Value {
        match self.0 {
            NumberForm::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => (number as f64).into(),
            },
            NumberForm::Real(number) => number.into(),
        }
    }

    /// Order of two numbers, exact also between whole ones and floats.
    fn compare(self, other: SortNumber) -> Ordering {
        match (self.0, other.0) {
            (NumberForm::Whole(left), NumberForm::Whole(right)) => left.cmp(&right),
            (NumberForm::Whole(left), NumberForm::Real(right)) => compare_forms(left, right),
            (NumberForm::Real(left), NumberForm::Whole(right)) => compare_forms(right, left).reverse(),
            // Both are finite.
            (NumberForm::Real(left), NumberForm::Real(right)) => {
                left.partial_cmp(&right).unwrap_or(Ordering::Equal)
            }
        }
    }
}

/// Order of a whole number and a float. Floats beyond those of 128 bits become the least or the largest one,
/// which no number of 64 bits is.
fn compare_forms(whole: i128, real: f64) -> Ordering {
    let floor = real.floor();
    let rest = if real > floor { Ordering::Less } else { Ordering::Equal };
    whole.cmp(&(floor as i128)).then(rest)
}

impl HitSortKey {
    /// Key of a value of a field; `None` if the value is none of the kind of the field. Texts of dates are in
    /// one of the formats.
    pub(crate) fn of_kind(value: &Value, kind: FieldValueKind, formats: &[Option<&str>]) -> Option<Self> {
        Some(match (kind, value) {
            (FieldValueKind::Boolean, Value::Bool(flag)) => HitSortKey::Number(i64::from(*flag).into()),
            (FieldValueKind::Boolean, Value::String(text)) => match text.as_str() {
                "true" => HitSortKey::Number(1_i64.into()),
                "false" | "" => HitSortKey::Number(0_i64.into()),
                _ => return None,
            },
            (FieldValueKind::Date, Value::String(text)) => {
                let millis = formats.iter().find_map(|format| DateText::parse(text, *format));
                HitSortKey::Date(millis?, None)
            }
            (FieldValueKind::Number | FieldValueKind::Boolean | FieldValueKind::Date, number) => {
                HitSortKey::Number(SortNumber::of(number)?)
            }
            (FieldValueKind::Ip, address) => HitSortKey::Address(match address.as_str()?.parse().ok()? {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            }),
            (FieldValueKind::Version, version) => HitSortKey::Version(text_of(version)),
            (FieldValueKind::Text | FieldValueKind::Keyword, text) => HitSortKey::Text(text_of(text)),
        })
    }

    /// The key in a field of half floats, which keep fewer digits.
    pub(crate) fn rounded_to_half(self) -> Self {
        match self {
            HitSortKey::Number(number) => HitSortKey::Number(number.rounded_to_half()),
            other => other,
        }
    }

    /// Key as the answer shows it.
    pub(crate) fn shown(&self) -> Value {
        match self {
            HitSortKey::Number(number) => number.shown(),
            HitSortKey::Date(_, Some(text)) => text.as_str().into(),
            HitSortKey::Date(millis, None) => (*millis).into(),
            HitSortKey::Address(address) => address.to_canonical().to_string().into(),
            HitSortKey::Text(text) | HitSortKey::Version(text) => text.as_str().into(),
            HitSortKey::Missing(_) => Value::Null,
        }
    }

    /// Order of two keys. Indexes may have a field with several types: its numbers come before its addresses,
    /// these before its texts, and these before its versions.
    pub(crate) fn compare(&self, other: &HitSortKey, is_descending: bool) -> Ordering {
        let by_value = match (self, other) {
            (HitSortKey::Address(left), HitSortKey::Address(right)) => left.cmp(right),
            (HitSortKey::Text(left), HitSortKey::Text(right)) => left.cmp(right),
            (HitSortKey::Version(left), HitSortKey::Version(right)) => version_order(left, right),
            _ => match (self.number(), other.number()) {
                (Some(left), Some(right)) => left.compare(right),
                _ => self.rank().cmp(&other.rank()),
            },
        };
        let by_value = if is_descending { by_value.reverse() } else { by_value };
        self.place().cmp(&other.place()).then(by_value)
    }

    /// The key as a number.
    fn number(&self) -> Option<SortNumber> {
        match self {
            HitSortKey::Number(number) => Some(*number),
            HitSortKey::Date(millis, _) => Some((*millis).into()),
            _ => None,
        }
    }

    /// Place among keys of other forms.
    fn rank(&self) -> u8 {
        match self {
            HitSortKey::Number(_) | HitSortKey::Date(..) | HitSortKey::Missing(_) => 0,
            HitSortKey::Address(_) => 1,
            HitSortKey::Text(_) => 2,
            HitSortKey::Version(_) => 3,
        }
    }

    /// Place before, among or after the values, in both directions.
    fn place(&self) -> u8 {
        match self {
            HitSortKey::Missing(true) => 0,
            HitSortKey::Missing(false) => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_have_one_order() {
        let of = |kind: FieldValueKind, value: Value| HitSortKey::of_kind(&value, kind, &[None]);
        let number = |value: Value| of(FieldValueKind::Number, value).expect("a number");
        let text = |text: &str| HitSortKey::Text(text.to_owned());
        let address = |text: &str| of(FieldValueKind::Ip, json!(text)).expect("an address");
        // Those of one group are equal.
        let groups = [
            vec![HitSortKey::Missing(true)],
            vec![number(json!(-1e300))],
            vec![number(json!(i64::MIN)), number(json!(i64::MIN as f64))],
            vec![number(json!(-1.5))],
            vec![number(json!(-1)), number(json!("-1.0"))],
            vec![number(json!(0)), number(json!(-0.0)), number(json!(0.0))],
            vec![number(json!(1)), HitSortKey::Date(1, None), number(json!(" 1 "))],
            vec![number(json!(1.5))],
            vec![number(json!(9)), number(json!("9"))],
            vec![number(json!(10))],
            vec![number(json!(1_u64 << 53)), number(json!((1_u64 << 53) as f64))],
            vec![number(json!((1_u64 << 53) + 1)), HitSortKey::Date((1 << 53) + 1, None)],
            vec![number(json!(u64::MAX))],
            vec![number(json!(u64::MAX as f64))],
            vec![number(json!(1e300))],
            vec![address("5.0.0.1")],
            vec![address("10.0.0.1"), address("::ffff:10.0.0.1")],
            vec![address("ff::1")],
            vec![text("10")],
            vec![text("9")],
            vec![text("a")],
            vec![HitSortKey::Missing(false)],
        ];
        let all: Vec<(usize, &HitSortKey)> = groups
            .iter()
            .enumerate()
            .flat_map(|(at, group)| group.iter().map(move |key| (at, key)))
            .collect();
        for (left_at, left) in &all {
            for (right_at, right) in &all {
                let expected = left_at.cmp(right_at);
                assert_eq!(left.compare(right, false), expected, "{left:?} {right:?}");
                let is_placed = left.place() != 1 || right.place() != 1;
                let turned = if is_placed { expected } else { expected.reverse() };
                assert_eq!(left.compare(right, true), turned, "{left:?} {right:?}, descending");
            }
        }
    }

    #[test]
    fn half_floats_keep_eleven_bits() {
        for (number, expected) in [
            (json!(184.4), 184.375),
            (json!(-164.4), -164.375),
            (json!("0.1"), 0.099_975_585_937_5),
            (json!(5), 5.0),
            (json!(2_049), 2_048.0),
            (json!(2_051), 2_052.0),
            (json!(1e-7), 1.192_092_895_507_812_5e-7),
            (json!(0), 0.0),
            (json!(65_504), 65_504.0),
            (json!(1e9), 1e9),
        ] {
            let key = HitSortKey::of_kind(&number, FieldValueKind::Number, &[]).expect("a number");
            assert_eq!(key.rounded_to_half().shown(), json!(expected), "{number}");
        }
    }

    #[test]
    fn what_has_no_place_is_no_key() {
        for (kind, value) in [
            (FieldValueKind::Number, json!("NaN")),
            (FieldValueKind::Number, json!("1e999")),
            (FieldValueKind::Number, json!("inf")),
            (FieldValueKind::Number, json!(true)),
            (FieldValueKind::Number, json!({ "a": 1 })),
            (FieldValueKind::Boolean, json!("yes")),
            (FieldValueKind::Date, json!("soon")),
            (FieldValueKind::Date, json!(["2024"])),
            (FieldValueKind::Ip, json!("10.0.0")),
            (FieldValueKind::Ip, json!(10)),
        ] {
            assert_eq!(HitSortKey::of_kind(&value, kind, &[None]), None, "{kind:?} {value}");
        }
    }
}
