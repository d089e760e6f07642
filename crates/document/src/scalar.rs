//! Conversion of single values from and to text: keys of maps and weighted sets, parts of field paths,
//! numbers in quotes.

use std::fmt::{Debug, LowerExp};

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};

use crate::{DataType, DocumentId, DocumentValue, Error, PredicateExpression};

/// Parses `text` as a value of the data type.
///
/// # Errors
/// The text is not a value of the type, or the type is not a single value; the text gives the expected value
/// with an example.
pub fn parse(text: &str, data_type: &DataType) -> Result<DocumentValue, Error> {
    let wrong = || Error::value(format!("'{text}' is not {}", with_article(data_type)));
    Ok(match data_type {
        DataType::Bool => DocumentValue::Bool(match text.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(wrong()),
        }),
        DataType::Byte | DataType::Int | DataType::Long => {
            let number = text.trim().parse().map_err(|_| wrong())?;
            integer(number, data_type).ok_or_else(wrong)?
        }
        DataType::Float16 | DataType::Float | DataType::Double => {
            let number = text.trim().parse().map_err(|_| wrong())?;
            float(number, data_type).ok_or_else(wrong)?
        }
        DataType::String | DataType::Uri => DocumentValue::String(text.to_owned()),
        DataType::Predicate => {
            PredicateExpression::parse(text)
                .map_err(|mistake| Error::value(format!("'{text}' is not a predicate: {mistake}")))?;
            DocumentValue::String(text.to_owned())
        }
        DataType::Reference(target) => {
            if !text.is_empty() && DocumentId::parse(text).ok().is_none_or(|id| id.document_type() != target)
            {
                return Err(wrong());
            }
            DocumentValue::String(text.to_owned())
        }
        DataType::Raw => DocumentValue::Raw(bytes_of_base64(text).map_err(|_| wrong())?),
        DataType::Position => {
            let (latitude, longitude) = position(text).ok_or_else(wrong)?;
            DocumentValue::Position { latitude, longitude }
        }
        DataType::Tensor(_)
        | DataType::Array(_)
        | DataType::WeightedSet { .. }
        | DataType::Map(..)
        | DataType::Struct(_) => return Err(wrong()),
    })
}

/// Text of a single value; `None` for compound values.
pub fn to_text(value: &DocumentValue) -> Option<String> {
    Some(match value {
        DocumentValue::Bool(value) => value.to_string(),
        DocumentValue::Byte(value) => value.to_string(),
        DocumentValue::Int(value) => value.to_string(),
        DocumentValue::Long(value) => value.to_string(),
        DocumentValue::Float(value) => float_text(*value),
        DocumentValue::Double(value) => float_text(*value),
        DocumentValue::String(text) => text.clone(),
        DocumentValue::Raw(bytes) => STANDARD.encode(bytes),
        DocumentValue::Position { latitude, longitude } => {
            let degrees = |micro: i32, positive: char, negative: char| {
                let sign = if micro < 0 { negative } else { positive };
                format!("{sign}{}", f64::from(micro).abs() / 1e6)
            };
            format!("{};{}", degrees(*latitude, 'N', 'S'), degrees(*longitude, 'E', 'W'))
        }
        DocumentValue::Tensor(_)
        | DocumentValue::Array(_)
        | DocumentValue::WeightedSet(_)
        | DocumentValue::Map(_)
        | DocumentValue::Struct(_) => {
            return None;
        }
    })
}

/// Text of a float as Java has it, and so Vespa's conversions: plain from 0.001 up to ten million, with an
/// exponent outside of that, and always with a fraction.
fn float_text<F: Copy + Into<f64> + Debug + LowerExp>(value: F) -> String {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return "NaN".to_owned();
    }
    if wide.is_infinite() {
        return if wide > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    if wide == 0.0 || (1e-3..1e7).contains(&wide.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{fraction}E{power}")
}

/// The integer as a value of the type; `None` if it is out of range.
pub fn integer(number: i64, data_type: &DataType) -> Option<DocumentValue> {
    match data_type {
        DataType::Byte => i8::try_from(number).ok().map(DocumentValue::Byte),
        DataType::Int => i32::try_from(number).ok().map(DocumentValue::Int),
        DataType::Long => Some(DocumentValue::Long(number)),
        _ => None,
    }
}

/// The float as a value of the type; `None` if a finite number is out of range.
pub fn float(number: f64, data_type: &DataType) -> Option<DocumentValue> {
    let rounded = match data_type {
        DataType::Double => return Some(DocumentValue::Double(number)),
        DataType::Float16 => half::f16::from_f64(number).to_f32(),
        _ => number as f32,
    };
    (rounded.is_finite() || !number.is_finite()).then_some(DocumentValue::Float(rounded))
}

/// One of the two directions on a globe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlobeAxis {
    /// North and south.
    Latitude,
    /// East and west.
    Longitude,
}

/// Parses degrees with a letter for their direction, which may replace the degree sign: `N63.5`, `63.5N`,
/// `63N25'47`, `W122o01'28`. South and west are negative.
pub fn degrees(text: &str) -> Option<(f64, GlobeAxis)> {
    let at = text.find(|c: char| "NSEWnsew".contains(c))?;
    let (sign, axis) = match text.as_bytes()[at] {
        b'N' | b'n' => (1.0, GlobeAxis::Latitude),
        b'S' | b's' => (-1.0, GlobeAxis::Latitude),
        b'E' | b'e' => (1.0, GlobeAxis::Longitude),
        _ => (-1.0, GlobeAxis::Longitude),
    };
    let angle = angle(text[..at].trim(), text[at + 1..].trim())?;
    angle.is_finite().then_some((sign * angle, axis))
}

/// Parses degrees with a sign, or none, in place of a letter: `-63.5`, `63o25'47`.
pub fn signed_degrees(text: &str) -> Option<f64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let angle = angle("", rest).filter(|angle| is_number && angle.is_finite())?;
    Some(sign * angle)
}

/// Parses `N37.4;W122` to millionths of a degree, cut off as in Vespa. Either order is valid, and so are
/// `37.4N`, a space in place of the semicolon, minutes and seconds as in `63N25'47` or `63o25'47N`, and `x;y`
/// in millionths, longitude first.
pub fn position(text: &str) -> Option<(i32, i32)> {
    let text = text.trim();
    let (first, second) = text.split_once(';').or_else(|| text.split_once(' '))?;
    let (first, second) = (first.trim(), second.trim());
    if let (Ok(x), Ok(y)) = (first.parse::<i32>(), second.parse::<i32>()) {
        return in_range(i64::from(y), i64::from(x));
    }
    let (mut latitude, mut longitude) = (None, None);
    for part in [first, second] {
        match degrees(part)? {
            (angle, GlobeAxis::Latitude) => latitude = Some(angle),
            (angle, GlobeAxis::Longitude) => longitude = Some(angle),
        }
    }
    in_range((latitude? * 1e6).trunc() as i64, (longitude? * 1e6).trunc() as i64)
}

/// Degrees from the texts before and after a direction letter, which may replace the degree sign.
fn angle(before: &str, after: &str) -> Option<f64> {
    let whole = |text| split_at_sign(text, &['o', '°']);
    let (degrees, rest) = match (before, after) {
        ("", text) | (text, "") => whole(text),
        both => both,
    };
    let (minutes, seconds) = split_at_sign(rest, &['\'']);
    let part = |text: &str| if text.is_empty() { Some(0.0) } else { text.parse::<f64>().ok() };
    Some(degrees.parse::<f64>().ok()? + part(minutes)? / 60.0 + part(seconds.trim_matches('"'))? / 3600.0)
}

fn split_at_sign<'t>(text: &'t str, signs: &[char]) -> (&'t str, &'t str) {
    text.split_once(signs).unwrap_or((text, ""))
}

/// Bytes from base64 as people have it: with or without padding, with line breaks.
///
/// # Errors
/// The text has other characters, or padding within.
pub fn bytes_of_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let plain: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    LENIENT_BASE64.decode(plain)
}

const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Rounds millionths of degrees; `None` if they need more than 32 bits. Positions outside the globe are kept,
/// because feeds contain them.
pub(crate) fn rounded_position(latitude: f64, longitude: f64) -> Option<(i32, i32)> {
    in_range(latitude.round() as i64, longitude.round() as i64)
        .filter(|_| latitude.is_finite() && longitude.is_finite())
}

/// Both numbers, if they fit.
fn in_range(latitude: i64, longitude: i64) -> Option<(i32, i32)> {
    Some((i32::try_from(latitude).ok()?, i32::try_from(longitude).ok()?))
}

/// [`expectation`] with its article, as in "an int (32 bits), for example 42".
pub(crate) fn with_article(data_type: &DataType) -> String {
    let expected = expectation(data_type);
    let article = if expected.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {expected}")
}

/// Description of a data type's values, with an example, as the end of a sentence.
pub(crate) fn expectation(data_type: &DataType) -> String {
    match data_type {
        DataType::Bool => "bool, for example true".to_owned(),
        DataType::Byte => "byte (-128 to 127), for example 42".to_owned(),
        DataType::Int => "int (32 bits), for example 42".to_owned(),
        DataType::Long => "long (64 bits), for example 1742837807000".to_owned(),
        DataType::Float16 | DataType::Float | DataType::Double => format!("{data_type}, for example 1.5"),
        DataType::String => r#"string, for example "text""#.to_owned(),
        DataType::Uri => r#"uri, for example "https://example.com/""#.to_owned(),
        DataType::Predicate => r#"predicate, for example "gender in [Female]""#.to_owned(),
        DataType::Raw => r#"raw as base64, for example "AAEC""#.to_owned(),
        DataType::Position => r#"position, for example {"lat": 37.4, "lng": -122.0}"#.to_owned(),
        DataType::Reference(target) => format!(r#"{data_type}, for example "id:ns:{target}::name""#),
        DataType::Tensor(tensor_type) => tensor_type.to_string(),
        DataType::Array(element) => format!("array<{element}>, for example [{}]", example(element)),
        DataType::WeightedSet { element, .. } => {
            format!(r#"{data_type}, for example {{"{}": 100}}"#, key(element))
        }
        DataType::Map(of, value) => {
            format!(r#"{data_type}, for example {{"{}": {}}}"#, key(of), example(value))
        }
        DataType::Struct(struct_type) => match struct_type.fields.first() {
            None => format!("struct {data_type}: {{}}"),
            Some(member) => format!(
                r#"struct {data_type}, for example {{"{}": {}}}"#,
                member.name,
                example(&member.data_type)
            ),
        },
    }
}

/// Example of a data type's value as the name of a JSON member.
fn key(data_type: &DataType) -> String {
    match data_type {
        DataType::String => "word".to_owned(),
        other => example(other).trim_matches('"').to_owned(),
    }
}

/// Example of a data type's value as JSON, truncated at nested compound values.
fn example(data_type: &DataType) -> String {
    let text = expectation(data_type);
    match text.split_once("for example ") {
        Some((_, example)) => example.to_owned(),
        None => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_in_java() {
        let double = |value: f64| to_text(&DocumentValue::Double(value)).expect("it is a single value");
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (2.0, "2.0"),
            (-3.75, "-3.75"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.25e10, "-1.25E10"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), expected);
            let read = parse(expected, &DataType::Double).expect("it is read");
            assert!(value.is_nan() || read == DocumentValue::Double(value), "{expected}");
        }
        assert_eq!(to_text(&DocumentValue::Float(0.1)).as_deref(), Some("0.1"));
        assert_eq!(to_text(&DocumentValue::Float(1e10)).as_deref(), Some("1.0E10"));
    }
}
