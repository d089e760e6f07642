//! Values by which hits are ordered.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;

use crate::dates::DateText;
use crate::evaluation::FieldValueKind;
use crate::query::text_of;
use crate::version_order::version_order;

/// Value of several that a hit has in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortMode {
    Least,
    Most,
    Sum,
    Average,
    Median,
}

impl SortMode {
    /// Mode of a name; `None` if there is no such mode.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "min" => SortMode::Least,
            "max" => SortMode::Most,
            "sum" => SortMode::Sum,
            "avg" => SortMode::Average,
            "median" => SortMode::Median,
            _ => return None,
        })
    }

    /// True if the value is computed, and may be none of those that there are.
    pub(crate) fn is_computed(self) -> bool {
        !matches!(self, SortMode::Least | SortMode::Most)
    }

    /// Key that is computed of several numbers or dates, rounded if they are whole; `None` if there are none.
    pub(crate) fn combined(self, keys: Vec<HitSortKey>, is_whole: bool) -> Option<HitSortKey> {
        let is_date = matches!(keys.first(), Some(HitSortKey::Date(..)));
        let mut numbers: Vec<f64> =
            keys.iter().filter_map(HitSortKey::number).map(SortNumber::real).collect();
        numbers.sort_by(f64::total_cmp);
        let count = numbers.len();
        let sum: f64 = numbers.iter().sum();
        let value = match self {
            _ if count == 0 => return None,
            SortMode::Least => numbers[0],
            SortMode::Most => numbers[count - 1],
            SortMode::Sum => sum,
            SortMode::Average => sum / count as f64,
            SortMode::Median => (numbers[(count - 1) / 2] + numbers[count / 2]) / 2.0,
        };
        let number = SortNumber::of_real(value.clamp(f64::MIN, f64::MAX))?;
        if !is_whole {
            return Some(HitSortKey::Number(number));
        }
        let rounded = (value + 0.5).floor();
        Some(match is_date {
            true => HitSortKey::Date(rounded as i64, None),
            false => HitSortKey::Number(SortNumber::of_real(rounded).unwrap_or(number).whole()),
        })
    }
}

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
        let real = self.real();
        // There are ten bits behind the first one, and fewer below the least exponent.
        let exponent = real.abs().log2().floor().max(-14.0);
        let step = 2_f64.powi(exponent as i32 - 10);
        let nearest = (real / step).round_ties_even() * step;
        SortNumber::of_real(nearest).filter(|_| nearest.abs() <= LARGEST).unwrap_or(self)
    }

    fn real(self) -> f64 {
        match self.0 {
            NumberForm::Whole(number) => number as f64,
            NumberForm::Real(number) => number,
        }
    }

    /// The number as a field without fractions has it. Those beyond all of 64 bits stay as they are.
    fn whole(self) -> Self {
        match self.0 {
            NumberForm::Real(number) if number.abs() < 1.8e19 => {
                SortNumber(NumberForm::Whole(number.trunc() as i128))
            }
            _ => self,
        }
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
    /// Bytes of its text.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            HitSortKey::Date(_, text) => text.as_ref().map_or(0, String::len),
            HitSortKey::Text(text) | HitSortKey::Version(text) => text.len(),
            HitSortKey::Number(_) | HitSortKey::Address(_) | HitSortKey::Missing(_) => 0,
        }
    }

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

    /// The key as a field of a type has it: those of half floats keep fewer digits, and those of other floats
    /// are no whole numbers.
    pub(crate) fn stored_as(self, field_type: &str) -> Self {
        let HitSortKey::Number(number) = self else { return self };
        HitSortKey::Number(match field_type {
            "half_float" => number.rounded_to_half(),
            "double" | "float" | "scaled_float" => SortNumber::of_real(number.real()).unwrap_or(number),
            "long" | "integer" | "short" | "byte" | "unsigned_long" => number.whole(),
            _ => number,
        })
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
            assert_eq!(key.stored_as("half_float").shown(), json!(expected), "{number}");
        }
    }

    #[test]
    fn several_numbers_have_a_sum_an_average_and_a_median() {
        let keys = |numbers: &[Value]| -> Vec<HitSortKey> {
            numbers.iter().filter_map(|n| HitSortKey::of_kind(n, FieldValueKind::Number, &[])).collect()
        };
        let (odd, even) = ([json!(5), json!(1), json!(4)], [json!(1), json!(4)]);
        for (mode, numbers, whole, real) in [
            ("sum", odd.as_slice(), json!(10), json!(10.0)),
            ("avg", odd.as_slice(), json!(3), json!(10.0 / 3.0)),
            ("AVG", even.as_slice(), json!(3), json!(2.5)),
            ("median", odd.as_slice(), json!(4), json!(4.0)),
            ("median", even.as_slice(), json!(3), json!(2.5)),
        ] {
            let mode = SortMode::parse(mode).expect(mode);
            for (is_whole, expected) in [(true, whole), (false, real)] {
                let found = mode.combined(keys(numbers), is_whole).map(|key| key.shown());
                assert_eq!(found, Some(expected), "{mode:?} of {numbers:?}");
            }
            assert_eq!(mode.combined(Vec::new(), true), None);
        }
        let dates = vec![HitSortKey::Date(10, None), HitSortKey::Date(21, None)];
        assert_eq!(SortMode::Average.combined(dates, true), Some(HitSortKey::Date(16, None)));
        assert_eq!(SortMode::parse("best"), None);
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
