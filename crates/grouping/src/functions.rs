//! Functions of the grouping language: one table row each, with arguments, result, description and code.

use std::borrow::Cow;
use std::cmp::Ordering;

use md5::{Digest, Md5};

use crate::datum::{ExpressionDatum, append_decimal, double_order};
use crate::numbers::{NumberCode, NumberPairCode};
use crate::zone::{CivilTime, GroupingZone};

/// A function over values of a document.
#[derive(Debug)]
pub struct GroupingFunction {
    /// Name in the language.
    pub name: &'static str,
    /// Minimum number of arguments.
    pub min_arguments: usize,
    /// Maximum number of arguments.
    pub max_arguments: usize,
    /// Accepted arguments.
    pub accepts: ArgumentKinds,
    /// Kind of the result.
    pub returns: ReturnKind,
    /// Description.
    pub doc: &'static str,
    pub(crate) code: GroupingFunctionCode,
}

impl PartialEq for GroupingFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Accepted arguments of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKinds {
    /// Values of any kind.
    Any,
    /// Numbers and truth values.
    Numbers,
    /// A list of any kind, then numbers.
    ListThenNumbers,
    /// Values of any kind, converted to text.
    Texts,
    /// Values of any kind, converted to bytes of the type's width.
    Bytes,
}

/// Result of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnKind {
    /// A whole number.
    Long,
    /// A float.
    Double,
    /// Text.
    Text,
    /// Bytes.
    Raw,
    /// A float if an argument is a float, otherwise a whole number.
    Number,
    /// Kind of the first argument.
    Same,
    /// Element kind of the first argument.
    Element,
}

/// Implementation of a function.
pub(crate) enum GroupingFunctionCode {
    /// Of one number; for a list, applied to each element.
    Number(NumberCode),
    /// Whole number of one text; for a list, applied to each element.
    TextNumber(fn(&str) -> i64),
    /// Text of one value, appended; for a list, applied to each element.
    Text(fn(&ExpressionDatum<'_>, &mut String)),
    /// Bytes of one value, appended; for a list, applied to each element.
    Bytes(fn(&ExpressionDatum<'_>, &mut Vec<u8>)),
    /// Text of a time in a zone, appended; for a list, applied to each element.
    Date(fn(CivilTime, &mut String)),
    /// Texts of all arguments one after another, with lists flattened.
    JoinedTexts,
    /// Bytes of all arguments one after another, with lists flattened.
    JoinedBytes,
    /// Of the bytes of one value, and a number of bits, appended; a list is one value.
    Digest(fn(&[u8], i64, &mut Vec<u8>)),
    /// Fold from left to right. One list is folded over its elements. Several arguments are folded element by
    /// element, with shorter ones repeated.
    Fold(NumberPairCode),
    /// Of one value; a list is one value.
    Whole(for<'a> fn(ExpressionDatum<'a>) -> ExpressionDatum<'a>),
    /// Number of elements of a list; 1 for anything else.
    Size,
    /// Element of a list at a place.
    ElementAt,
    /// Interpolated place of a number among the elements of a list.
    Lookup,
}

impl std::fmt::Debug for GroupingFunctionCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("code")
    }
}

impl GroupingFunction {
    /// Applies the function. The number of arguments was checked by the plan.
    pub(crate) fn apply<'a>(
        &self,
        arguments: impl Iterator<Item = ExpressionDatum<'a>>,
        zone: &GroupingZone,
    ) -> ExpressionDatum<'a> {
        let mut arguments = arguments;
        let first = arguments.next().unwrap_or(ExpressionDatum::Null);
        match &self.code {
            GroupingFunctionCode::Number(code) => first.map_elements(|value| code.apply(&value, zone)),
            GroupingFunctionCode::TextNumber(code) => {
                first.map_elements(|value| ExpressionDatum::Long(code(&value.to_text())))
            }
            GroupingFunctionCode::Text(code) => first.map_elements(|value| text_by(|out| code(&value, out))),
            GroupingFunctionCode::Bytes(code) => {
                first.map_elements(|value| bytes_by(|out| code(&value, out)))
            }
            GroupingFunctionCode::Date(code) => {
                first.map_elements(|value| text_by(|out| code(zone.civil(value.to_long()), out)))
            }
            GroupingFunctionCode::JoinedTexts => text_by(|out| {
                for_each_flat(std::iter::once(first).chain(arguments), |value| value.append_text(out));
            }),
            GroupingFunctionCode::JoinedBytes => bytes_by(|out| {
                for_each_flat(std::iter::once(first).chain(arguments), |value| append_bytes(value, out));
            }),
            GroupingFunctionCode::Digest(code) => {
                let bits = arguments.next().unwrap_or(ExpressionDatum::Null).to_long();
                bytes_by(|out| code(&first.to_raw(), bits, out))
            }
            GroupingFunctionCode::Whole(code) => code(first),
            GroupingFunctionCode::Size => ExpressionDatum::Long(match first {
                ExpressionDatum::List(list) => list.len() as i64,
                _ => 1,
            }),
            GroupingFunctionCode::ElementAt => {
                element_at(first, &arguments.next().unwrap_or(ExpressionDatum::Null))
            }
            GroupingFunctionCode::Lookup => {
                interpolated_lookup(&first, &arguments.next().unwrap_or(ExpressionDatum::Null))
            }
            GroupingFunctionCode::Fold(code) => match arguments.next() {
                None => match first {
                    ExpressionDatum::List(list) => {
                        let all = list.into_iter().reduce(|a, b| code.apply(a, b));
                        all.unwrap_or(ExpressionDatum::Long(0))
                    }
                    value => value,
                },
                Some(second) => {
                    arguments.fold(apply_pairwise(first, second, code), |a, b| apply_pairwise(a, b, code))
                }
            },
        }
    }
}

impl GroupingFunction {
    /// True if the elements of the result list correspond to those of the argument list one by one.
    pub(crate) fn maps_elements(&self, arguments: usize) -> bool {
        match self.code {
            GroupingFunctionCode::Number(_)
            | GroupingFunctionCode::TextNumber(_)
            | GroupingFunctionCode::Text(_)
            | GroupingFunctionCode::Bytes(_)
            | GroupingFunctionCode::Date(_) => true,
            GroupingFunctionCode::Fold(_) => arguments > 1,
            GroupingFunctionCode::JoinedTexts
            | GroupingFunctionCode::JoinedBytes
            | GroupingFunctionCode::Digest(_)
            | GroupingFunctionCode::Whole(_)
            | GroupingFunctionCode::Size
            | GroupingFunctionCode::ElementAt
            | GroupingFunctionCode::Lookup => false,
        }
    }
}

fn text_by(append: impl FnOnce(&mut String)) -> ExpressionDatum<'static> {
    let mut text = String::new();
    append(&mut text);
    ExpressionDatum::text(text)
}

fn bytes_by(append: impl FnOnce(&mut Vec<u8>)) -> ExpressionDatum<'static> {
    let mut bytes = Vec::new();
    append(&mut bytes);
    ExpressionDatum::Raw(Cow::Owned(bytes))
}

/// Calls `of` for each value, and for each element of a list.
fn for_each_flat<'a>(
    values: impl Iterator<Item = ExpressionDatum<'a>>,
    mut of: impl FnMut(&ExpressionDatum<'a>),
) {
    for value in values {
        match &value {
            ExpressionDatum::List(list) => list.iter().for_each(&mut of),
            value => of(value),
        }
    }
}

/// Applies a function of two numbers. Where one of them is a list, it is applied to pairs of elements, and
/// the shorter list is repeated.
fn apply_pairwise<'a>(
    a: ExpressionDatum<'a>,
    b: ExpressionDatum<'a>,
    code: &NumberPairCode,
) -> ExpressionDatum<'a> {
    let list = |value| match value {
        ExpressionDatum::List(list) => list,
        value => vec![value],
    };
    match (a, b) {
        (a @ ExpressionDatum::List(_), b) | (a, b @ ExpressionDatum::List(_)) => {
            let (a, b) = (list(a), list(b));
            if a.is_empty() || b.is_empty() {
                return ExpressionDatum::List(if a.is_empty() { b } else { a });
            }
            let len = a.len().max(b.len());
            let at = |list: &[ExpressionDatum<'a>], index: usize| list[index % list.len()].clone();
            ExpressionDatum::List((0..len).map(|index| code.apply(at(&a, index), at(&b, index))).collect())
        }
        (a, b) => code.apply(a, b),
    }
}

/// Looks up a function by name.
pub(crate) fn find(name: &str) -> Option<&'static GroupingFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

const fn function(
    name: &'static str,
    (min_arguments, max_arguments): (usize, usize),
    accepts: ArgumentKinds,
    returns: ReturnKind,
    code: GroupingFunctionCode,
    doc: &'static str,
) -> GroupingFunction {
    GroupingFunction { name, min_arguments, max_arguments, accepts, returns, doc, code }
}

const MANY: usize = 1000;

/// All functions whose arguments are values; the others are [`FORMS`](crate::FORMS).
#[rustfmt::skip]
pub static FUNCTIONS: &[GroupingFunction] = {
    use ArgumentKinds::*;
    use ReturnKind::*;
    &[
        function("add", (1, MANY), Numbers, Number, GroupingFunctionCode::Fold(NumberPairCode::Either(i64::wrapping_add, |a, b| a + b)), "The sum; of one list, of its elements."),
        function("sub", (1, MANY), Numbers, Number, GroupingFunctionCode::Fold(NumberPairCode::Either(i64::wrapping_sub, |a, b| a - b)), "The first less all others."),
        function("mul", (1, MANY), Numbers, Number, GroupingFunctionCode::Fold(NumberPairCode::Either(i64::wrapping_mul, |a, b| a * b)), "The product."),
        function("div", (1, MANY), Numbers, Number, GroupingFunctionCode::Fold(NumberPairCode::Either(divide, |a, b| a / b)), "The first divided by all others; whole numbers are cut towards 0, and divided by 0 give 0."),
        function("mod", (1, MANY), Numbers, Number, GroupingFunctionCode::Fold(NumberPairCode::Either(modulo, |a, b| a % b)), "The remainder of the first divided by all others in turn; of whole numbers by 0, it is 0."),
        function("neg", (1, 1), Numbers, Number, GroupingFunctionCode::Number(NumberCode::Either(i64::wrapping_neg, |a| -a)), "The negative."),
        function("min", (1, MANY), Any, Number, GroupingFunctionCode::Fold(NumberPairCode::Extreme(Ordering::Less)), "The smallest."),
        function("max", (1, MANY), Any, Number, GroupingFunctionCode::Fold(NumberPairCode::Extreme(Ordering::Greater)), "The largest."),
        function("and", (1, MANY), Numbers, Long, GroupingFunctionCode::Fold(NumberPairCode::Long(|a, b| a & b)), "Bitwise and."),
        function("or", (1, MANY), Numbers, Long, GroupingFunctionCode::Fold(NumberPairCode::Long(|a, b| a | b)), "Bitwise or."),
        function("xor", (1, MANY), Numbers, Long, GroupingFunctionCode::Fold(NumberPairCode::Long(|a, b| a ^ b)), "Bitwise exclusive or."),
        function("strlen", (1, 1), Texts, Long, GroupingFunctionCode::TextNumber(|text| text.len() as i64), "The length of a text in bytes."),
        function("strcat", (1, MANY), Texts, Text, GroupingFunctionCode::JoinedTexts, "The texts one after another, those of a list too."),
        function("normalizesubject", (1, 1), Any, Text, GroupingFunctionCode::Text(append_subject), "The subject of a mail without the marks of replies and forwards before it."),
        function("todouble", (1, 1), Any, Double, GroupingFunctionCode::Number(NumberCode::Double(|a| a)), "As a float."),
        function("tolong", (1, 1), Any, Long, GroupingFunctionCode::Number(NumberCode::Long(|a| a)), "As a whole number."),
        function("tostring", (1, 1), Texts, Text, GroupingFunctionCode::Text(|value, out| value.append_text(out)), "As text."),
        function("toraw", (1, 1), Any, Raw, GroupingFunctionCode::Bytes(|value, out| value.append_raw(out)), "As bytes."),
        function("cat", (1, MANY), Bytes, Raw, GroupingFunctionCode::JoinedBytes, "The binary representations one after another, those of a list too: whole numbers in as many bytes as their type has, most significant first."),
        function("md5", (2, 2), Bytes, Raw, GroupingFunctionCode::Digest(append_md5), "The first bits, as many as the second argument says, of the MD5 of the binary representation."),
        function("xorbit", (2, 2), Bytes, Raw, GroupingFunctionCode::Digest(append_xorbit), "The binary representation in pieces of as many bits as the second argument says (whole bytes), combined by exclusive or."),
        function("array.at", (2, 2), ListThenNumbers, Element, GroupingFunctionCode::ElementAt, "The element at a place; places outside are the nearest end."),
        function("interpolatedlookup", (2, 2), ListThenNumbers, Double, GroupingFunctionCode::Lookup, "How many elements of an ascending list are smaller than the second argument, interpolated between two."),
        function("size", (1, 1), Any, Long, GroupingFunctionCode::Size, "How many elements a list has; 1 for anything else."),
        function("sort", (1, 1), Any, Same, GroupingFunctionCode::Whole(|value| match value { ExpressionDatum::List(mut list) => { list.sort_by(ExpressionDatum::order); ExpressionDatum::List(list) } value => value }), "A list in ascending order."),
        function("reverse", (1, 1), Any, Same, GroupingFunctionCode::Whole(|value| match value { ExpressionDatum::List(mut list) => { list.reverse(); ExpressionDatum::List(list) } value => value }), "A list from its end to its beginning."),
        function("time.date", (1, 1), Numbers, Text, GroupingFunctionCode::Date(append_date), "The date, as Vespa writes it: 2009-1-10."),
        function("time.year", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.year)), "The year."),
        function("time.monthofyear", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.month)), "The month, 1 to 12."),
        function("time.dayofmonth", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.day)), "The day of the month, 1 to 31."),
        function("time.dayofyear", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.day_of_year)), "The day of the year, 0 to 365."),
        function("time.dayofweek", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.day_of_week)), "The day of the week, Sunday 0 to Saturday 6."),
        function("time.hourofday", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.second_of_day / 3600)), "The hour, 0 to 23."),
        function("time.minuteofhour", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.second_of_day / 60 % 60)), "The minute, 0 to 59."),
        function("time.secondofminute", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Time(|time| time.second_of_day % 60)), "The second, 0 to 59."),
        function("math.exp", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::exp)), "e to this power."),
        function("math.log", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::ln)), "The natural logarithm."),
        function("math.log1p", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::ln_1p)), "The natural logarithm of 1 more."),
        function("math.log10", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::log10)), "The logarithm to base 10."),
        function("math.sqrt", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::sqrt)), "The square root."),
        function("math.cbrt", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::cbrt)), "The cube root."),
        function("math.floor", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::floor)), "The greatest whole number that is not greater."),
        function("math.sin", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::sin)), "The sine of radians."),
        function("math.cos", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::cos)), "The cosine of radians."),
        function("math.tan", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::tan)), "The tangent of radians."),
        function("math.asin", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::asin)), "The arc sine."),
        function("math.acos", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::acos)), "The arc cosine."),
        function("math.atan", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::atan)), "The arc tangent."),
        function("math.sinh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::sinh)), "The hyperbolic sine."),
        function("math.cosh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::cosh)), "The hyperbolic cosine."),
        function("math.tanh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::tanh)), "The hyperbolic tangent."),
        function("math.asinh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::asinh)), "The inverse hyperbolic sine."),
        function("math.acosh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::acosh)), "The inverse hyperbolic cosine."),
        function("math.atanh", (1, 1), Numbers, Double, GroupingFunctionCode::Number(NumberCode::Double(f64::atanh)), "The inverse hyperbolic tangent."),
        function("math.pow", (2, 2), Numbers, Double, GroupingFunctionCode::Fold(NumberPairCode::Double(f64::powf)), "The first to the power of the second."),
        function("math.hypot", (2, 2), Numbers, Double, GroupingFunctionCode::Fold(NumberPairCode::Double(f64::hypot)), "The hypotenuse of two sides."),
        function("zcurve.x", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Long(zcurve_part)), "The x (longitude) of a z-curve value."),
        function("zcurve.y", (1, 1), Numbers, Long, GroupingFunctionCode::Number(NumberCode::Long(|bits| zcurve_part(bits >> 1))), "The y (latitude) of a z-curve value."),
    ]
};

fn divide(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

fn modulo(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

fn append_date(civil: CivilTime, out: &mut String) {
    append_decimal(civil.year, out);
    for part in [civil.month, civil.day] {
        out.push('-');
        append_decimal(part, out);
    }
}

/// Appends the binary representation of a value; nothing for no value.
pub(crate) fn append_bytes(value: &ExpressionDatum<'_>, out: &mut Vec<u8>) {
    if !matches!(value, ExpressionDatum::Null) {
        value.append_raw(out);
    }
}

fn append_md5(bytes: &[u8], bits: i64, out: &mut Vec<u8>) {
    let digest = Md5::digest(bytes);
    out.extend_from_slice(&digest[..(bits.clamp(0, 128) as usize).div_ceil(8)]);
}

fn append_xorbit(bytes: &[u8], bits: i64, out: &mut Vec<u8>) {
    let width = (bits.clamp(8, 4096) as usize).div_ceil(8);
    let start = out.len();
    out.resize(start + width, 0);
    for piece in bytes.chunks(width) {
        out[start..].iter_mut().zip(piece).for_each(|(folded, byte)| *folded ^= byte);
    }
}

fn element_at<'a>(list: ExpressionDatum<'a>, index: &ExpressionDatum<'_>) -> ExpressionDatum<'a> {
    let ExpressionDatum::List(mut list) = list else { return list };
    if list.is_empty() {
        return ExpressionDatum::Null;
    }
    let index = index.to_long().clamp(0, list.len() as i64 - 1);
    list.swap_remove(index as usize)
}

fn interpolated_lookup(list: &ExpressionDatum<'_>, wanted: &ExpressionDatum<'_>) -> ExpressionDatum<'static> {
    let ExpressionDatum::List(list) = list else { return ExpressionDatum::Double(0.0) };
    let list: Vec<f64> = list.iter().map(ExpressionDatum::to_double).collect();
    ExpressionDatum::Double(interpolated(&list, wanted.to_double()))
}

/// Number of elements of an ascending list that are smaller than the sought number, interpolated between two.
pub(crate) fn interpolated(list: &[f64], wanted: f64) -> f64 {
    match list.iter().position(|item| double_order(*item, wanted).is_ge()) {
        None => list.len().saturating_sub(1) as f64,
        Some(0) => 0.0,
        Some(index) => {
            let (low, high) = (list[index - 1], list[index]);
            index as f64 - 1.0 + (wanted - low) / (high - low)
        }
    }
}

/// Collects every second bit, from the lowest, into a signed 32-bit number.
fn zcurve_part(bits: i64) -> i64 {
    let mut part = bits as u64 & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        part = (part | part >> shift) & mask;
    }
    i64::from(part as u32 as i32)
}

fn append_subject(value: &ExpressionDatum<'_>, out: &mut String) {
    let text = value.to_text();
    let mut rest = text.trim();
    while let Some(after) = after_mark(rest) {
        rest = after.trim_start();
    }
    out.push_str(rest);
}

/// The text after a mark of a reply or of a forward, such as `Re[2]:`; `None` if it begins with none.
fn after_mark(text: &str) -> Option<&str> {
    ["re", "fw", "fwd", "sv", "vs"].into_iter().find_map(|mark| {
        let (start, after) = text.split_at_checked(mark.len())?;
        if !start.eq_ignore_ascii_case(mark) {
            return None;
        }
        let counted = after
            .strip_prefix(['[', '('])
            .and_then(|count| count.split_once([']', ')']))
            .filter(|(count, _)| !count.is_empty() && count.bytes().all(|c| c.is_ascii_digit()));
        counted.map_or(after, |(_, after)| after).strip_prefix(':')
    })
}
