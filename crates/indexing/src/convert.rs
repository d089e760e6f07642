//! Value conversions: functions of the language that depend only on their input.

use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::{self, Date, Time};
use millrace_document::{DataType, DocumentValue, scalar, zcurve};
use regex::Regex;
use siphasher::sip::SipHasher24;

use crate::script::ValueFunction;
use crate::strings::{map_text, normalize, substring};
use crate::{StatementFailure, tensors};

/// Fixed keys of `hash`; its results are part of stored values.
const HASH_KEYS: (u64, u64) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);

impl ValueFunction {
    /// The converted value; `None` if there is none.
    pub fn apply(&self, value: DocumentValue) -> Result<Option<DocumentValue>, StatementFailure> {
        Ok(Some(match self {
            ValueFunction::Convert(to) => convert(value, to)?,
            ValueFunction::ToArray => DocumentValue::Array(vec![value]),
            ValueFunction::ToWeightedSet { .. } => DocumentValue::WeightedSet(vec![(value, 1)]),
            ValueFunction::ToPosition => {
                let text = text_of(&value)?;
                let (latitude, longitude) = scalar::position(&text).ok_or_else(|| {
                    StatementFailure::value(format!("'{text}' is not a position; write N37.4;W122.0"))
                })?;
                DocumentValue::Position { latitude, longitude }
            }
            ValueFunction::ZCurve => match value {
                DocumentValue::Position { latitude, longitude } => {
                    DocumentValue::Long(zcurve(latitude, longitude))
                }
                _ => return Err(StatementFailure::value("zcurve needs a position")),
            },
            ValueFunction::ToEpochSecond => {
                let text = text_of(&value)?;
                let second = epoch_second(&text).ok_or_else(|| {
                    StatementFailure::value(format!("'{text}' is not an instant; write 2023-12-24T17:00:43Z"))
                })?;
                DocumentValue::Long(second)
            }
            ValueFunction::Lowercase => map_text(value, &|text| text.to_lowercase()),
            ValueFunction::Normalize => map_text(value, &normalize),
            // Control characters are spaces; those of other scripts are not.
            ValueFunction::Trim => map_text(value, &|text| text.trim_matches(|c: char| c <= ' ').to_owned()),
            ValueFunction::Substring(from, to) => map_text(value, &|text| substring(text, *from, *to)),
            ValueFunction::Split(pattern) => split(pattern, &text_of(&value)?),
            ValueFunction::Join(delimiter) => {
                let DocumentValue::Array(elements) = value else {
                    return Err(StatementFailure::value("join needs an array"));
                };
                let parts: Vec<String> = elements.iter().map(listed_text_of).collect::<Result<_, _>>()?;
                DocumentValue::String(parts.join(delimiter))
            }
            ValueFunction::Base64Decode => DocumentValue::Long(match value {
                DocumentValue::String(text) if !text.is_empty() => base64_decode(&text)?,
                // The empty text; and other values in statements that were active before they were refused.
                _ => i64::MIN,
            }),
            ValueFunction::Base64Encode => match value {
                DocumentValue::Long(number) => DocumentValue::String(STANDARD.encode(number.to_le_bytes())),
                _ => return Ok(None),
            },
            ValueFunction::HexDecode => DocumentValue::Long(match value {
                DocumentValue::String(text) if !text.is_empty() => hex_decode(&text)?,
                // As above.
                _ => i64::MIN,
            }),
            ValueFunction::HexEncode => match value {
                DocumentValue::Long(number) => DocumentValue::String(format!("{number:x}")),
                _ => return Ok(None),
            },
            ValueFunction::Binarize(threshold) => match value {
                DocumentValue::Tensor(tensor) => {
                    DocumentValue::Tensor(tensors::binarize(&tensor, *threshold)?)
                }
                _ => return Err(StatementFailure::value("binarize needs a tensor")),
            },
            ValueFunction::PackBits => match value {
                DocumentValue::Tensor(tensor) => DocumentValue::Tensor(tensors::pack_bits(&tensor)?),
                _ => return Err(StatementFailure::value("pack_bits needs a tensor")),
            },
            ValueFunction::Annotate => value,
        }))
    }
}

/// Parts of a text between the matches of a pattern, without empty ones at the end.
fn split(pattern: &Regex, text: &str) -> DocumentValue {
    let mut parts: Vec<&str> = pattern.split(text).collect();
    // A match of nothing at the start separates nothing.
    if pattern.find(text).is_some_and(|first| first.end() == 0) {
        parts.remove(0);
    }
    while parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    DocumentValue::Array(parts.into_iter().map(|part| DocumentValue::String(part.to_owned())).collect())
}

/// Converts a value to another type: unchanged if it has that type, otherwise by parsing its text.
pub(crate) fn convert(value: DocumentValue, to: &DataType) -> Result<DocumentValue, StatementFailure> {
    match (&value, to) {
        (_, DataType::Bool) => {
            return Ok(DocumentValue::Bool(match &value {
                DocumentValue::Bool(value) => *value,
                DocumentValue::String(text) => !text.is_empty(),
                // Fractions are cut off, as by the other conversions.
                other => {
                    let number = number(other)
                        .ok_or_else(|| StatementFailure::value("to_bool needs a string or a number"))?;
                    number as i64 != 0
                }
            }));
        }
        (
            DocumentValue::Float(_) | DocumentValue::Double(_),
            DataType::Byte | DataType::Int | DataType::Long,
        ) => {
            let number = number(&value).unwrap_or(f64::NAN).trunc();
            if number.abs() < 9e18 {
                return Ok(scalar::parse(&format!("{}", number as i64), to)?);
            }
        }
        (
            DocumentValue::Bool(value),
            DataType::Byte | DataType::Int | DataType::Long | DataType::Float | DataType::Double,
        ) => {
            return Ok(scalar::parse(if *value { "1" } else { "0" }, to)?);
        }
        (DocumentValue::Array(_), DataType::String) => {
            return Ok(DocumentValue::String(listed_text_of(&value)?));
        }
        _ => {}
    }
    Ok(scalar::parse(&text_of(&value)?, to)?)
}

/// Converts a value for a field whose type differs only in width.
pub(crate) fn fit(value: DocumentValue, to: &DataType) -> Result<DocumentValue, StatementFailure> {
    match (value, to) {
        (DocumentValue::Array(elements), DataType::Array(element)) => {
            let elements: Result<_, _> = elements.into_iter().map(|value| fit(value, element)).collect();
            Ok(DocumentValue::Array(elements?))
        }
        (DocumentValue::WeightedSet(elements), DataType::WeightedSet { element, .. }) => {
            let fitted = |(value, weight)| Ok((fit(value, element)?, weight));
            Ok(DocumentValue::WeightedSet(
                elements.into_iter().map(fitted).collect::<Result<_, StatementFailure>>()?,
            ))
        }
        (
            value @ (DocumentValue::Byte(_)
            | DocumentValue::Int(_)
            | DocumentValue::Long(_)
            | DocumentValue::Float(_)
            | DocumentValue::Double(_)),
            DataType::Byte
            | DataType::Int
            | DataType::Long
            | DataType::Float16
            | DataType::Float
            | DataType::Double,
        ) => convert(value, to),
        (DocumentValue::Tensor(tensor), DataType::Tensor(tensor_type))
            if tensor.tensor_type() != tensor_type =>
        {
            Err(StatementFailure::value(format!(
                "the value is a {}, the field a {tensor_type}",
                tensor.tensor_type()
            )))
        }
        (value, to) if is_of(&value, to) => Ok(value),
        (value, to) => match text_of(&value) {
            Ok(text) => Err(StatementFailure::value(format!("'{text}' cannot be written to a {to}"))),
            Err(_) => Err(StatementFailure::value(format!("the value cannot be written to a {to}"))),
        },
    }
}

/// True if a value has the kind of a type, without checking elements of collections.
const fn is_of(value: &DocumentValue, data_type: &DataType) -> bool {
    matches!(
        (value, data_type),
        (DocumentValue::Bool(_), DataType::Bool)
            | (
                DocumentValue::String(_),
                DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_)
            )
            | (DocumentValue::Raw(_), DataType::Raw)
            | (DocumentValue::Position { .. }, DataType::Position)
            | (DocumentValue::Tensor(_), DataType::Tensor(_))
            | (DocumentValue::Map(_), DataType::Map(..))
            | (DocumentValue::Struct(_), DataType::Struct(_))
    )
}

/// Text of a single value.
pub(crate) fn text_of(value: &DocumentValue) -> Result<String, StatementFailure> {
    scalar::to_text(value)
        .ok_or_else(|| StatementFailure::value("a single value is needed; use for_each or join"))
}

/// Text of a value to be concatenated: arrays are written as lists, as in `[a, b]`.
pub(crate) fn listed_text_of(value: &DocumentValue) -> Result<String, StatementFailure> {
    match value {
        DocumentValue::Array(elements) => {
            let texts: Result<Vec<_>, _> = elements.iter().map(listed_text_of).collect();
            Ok(format!("[{}]", texts?.join(", ")))
        }
        single => text_of(single),
    }
}

/// Number of a numeric value.
pub(crate) fn number(value: &DocumentValue) -> Option<f64> {
    Some(match value {
        DocumentValue::Byte(value) => f64::from(*value),
        DocumentValue::Int(value) => f64::from(*value),
        DocumentValue::Long(value) => *value as f64,
        DocumentValue::Float(value) => f64::from(*value),
        DocumentValue::Double(value) => *value,
        _ => return None,
    })
}

/// Hash of a text: SipHash-2-4; its lower half for 32 bits.
pub(crate) fn hash(text: &str, long: bool) -> DocumentValue {
    let mut hasher = SipHasher24::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
    hasher.write(text.as_bytes());
    let hash = hasher.finish();
    if long { DocumentValue::Long(hash as i64) } else { DocumentValue::Int(hash as i32) }
}

/// Decodes up to eight bytes in base64 as a number, lowest byte first.
fn base64_decode(text: &str) -> Result<i64, StatementFailure> {
    let wrong = || StatementFailure::value(format!("'{text}' is not base64 of at most eight bytes"));
    let bytes = scalar::bytes_of_base64(text).map_err(|_| wrong())?;
    if bytes.len() > 8 {
        return Err(wrong());
    }
    Ok(bytes.iter().rev().fold(0i64, |number, byte| number << 8 | i64::from(*byte)))
}

/// Decodes a hexadecimal number of 64 bits; from 2^63 on it stands for a negative one.
fn hex_decode(text: &str) -> Result<i64, StatementFailure> {
    let range = -(1_i128 << 64)..1_i128 << 64;
    i128::from_str_radix(text.trim(), 16)
        .ok()
        .filter(|number| range.contains(number))
        .map(|number| number as i64)
        .ok_or_else(|| StatementFailure::value(format!("'{text}' is not a hexadecimal number of 64 bits")))
}

/// Seconds since 1970 of an ISO 8601 instant of the years 0 to 9999, with `Z` or an offset; fractions of a
/// second are dropped.
fn epoch_second(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone_at);
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = match parts.next() {
        Some(second) => {
            let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
            digits(fraction)?;
            digits(whole)?
        }
        None => 0,
    };
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "0"));
            let seconds = digits(hours)? * 3600 + digits(minutes)? * 60;
            if sign == "-" { -seconds } else { seconds }
        }
        _ => return None,
    };
    if parts.next().is_some() {
        return None;
    }
    // The end of a day is the start of the next one; a leap second is the second before.
    let (hour, second, days) = match (hour, minute, second) {
        (24, 0, 0) => (0, 0, 1),
        (23, 59, 60) => (23, 59, 0),
        _ => (hour, second, 0),
    };
    let small = |number: i64| i8::try_from(number).ok();
    let date = Date::new(year.try_into().ok()?, small(month)?, small(day)?).ok()?;
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, 0).ok()?;
    let since = date.to_datetime(time).duration_since(civil::date(1970, 1, 1).at(0, 0, 0, 0));
    Some(since.as_secs() + days * 86_400 - offset)
}

/// Parses at most nine digits, so that calculations with the number cannot overflow.
fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
