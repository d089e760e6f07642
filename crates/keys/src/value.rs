//! Encoding of one value.

use millrace_linguistics::FieldAnalyzer;

use crate::layout::{CUT_LENGTH, ComponentValue};
use crate::{KeyType, KeyedValue};

/// First byte of a component without a value, and of one with a value.
pub(crate) const MISSING: u8 = 1;
pub(crate) const PRESENT: u8 = 2;
/// Byte after which a text is escaped or ends, and the bytes that follow it.
pub(crate) const ESCAPE: u8 = 0;
pub(crate) const ESCAPED: u8 = 0xff;
const WHOLE: u8 = 1;
const CUT: u8 = 2;

/// Appends the component of a value; returns `false`, and appends nothing, if the value is not of the type.
/// Text is folded in `folded`.
pub(crate) fn write_value(
    key_type: KeyType,
    analyzer: Option<&FieldAnalyzer>,
    value: KeyedValue<'_>,
    folded: &mut String,
    out: &mut Vec<u8>,
) -> bool {
    match (key_type, value) {
        (KeyType::Bool, KeyedValue::Bool(value)) => out.extend([PRESENT, u8::from(value)]),
        (KeyType::Integer, KeyedValue::Integer(number)) => write_integer(number, out),
        (KeyType::Float, KeyedValue::Float(number)) => write_float(number, out),
        (KeyType::Text, KeyedValue::Text(text)) => match analyzer {
            Some(analyzer) => {
                folded.clear();
                analyzer.fold_value_into(text, folded);
                write_text(folded, out);
            }
            None => write_text(text, out),
        },
        _ => return false,
    }
    true
}

/// Reads the value of a component, with the bytes of ascending order; `None` if it was cut, or there is none.
pub(crate) fn read_value(key_type: KeyType, part: &[u8]) -> Option<ComponentValue> {
    let (first, rest) = part.split_first()?;
    let bits = || rest.try_into().ok().map(u64::from_be_bytes);
    match (*first, key_type) {
        (MISSING, _) => Some(ComponentValue::Missing),
        (PRESENT, KeyType::Bool) => rest.first().map(|byte| ComponentValue::Bool(*byte != 0)),
        (PRESENT, KeyType::Integer) => bits().map(|bits| ComponentValue::Integer((bits ^ (1 << 63)) as i64)),
        (PRESENT, KeyType::Float) => bits().map(|bits| ComponentValue::Float(number_of(bits))),
        (PRESENT, KeyType::Text) => read_text(rest).map(ComponentValue::Text),
        _ => None,
    }
}

fn read_text(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    loop {
        match *rest.next()? {
            ESCAPE => match *rest.next()? {
                ESCAPED => text.push(ESCAPE),
                WHOLE => break String::from_utf8(text).ok(),
                _ => break None,
            },
            byte => text.push(byte),
        }
    }
}

pub(crate) fn write_integer(number: i64, out: &mut Vec<u8>) {
    out.push(PRESENT);
    out.extend_from_slice(&((number as u64) ^ (1 << 63)).to_be_bytes());
}

pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    out.push(PRESENT);
    out.extend_from_slice(&ordered_bits(number).to_be_bytes());
}

/// Bits of a number that compare as unsigned integers in the order of the numbers; NaN is above all.
fn ordered_bits(number: f64) -> u64 {
    if number.is_nan() {
        return u64::MAX;
    }
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Number with these ordered bits.
fn number_of(bits: u64) -> f64 {
    if bits == u64::MAX {
        return f64::NAN;
    }
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

/// The text as it is compared.
pub(crate) fn folded(analyzer: Option<&FieldAnalyzer>, text: &str) -> String {
    analyzer.map_or_else(|| text.to_owned(), |analyzer| analyzer.fold_value(text))
}

/// Appends the component of a folded text.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(PRESENT);
    write_escaped(text, out);
    out.extend([ESCAPE, if text.len() > CUT_LENGTH { CUT } else { WHOLE }]);
}

/// Appends the beginning of the components of all texts that begin with this folded text.
pub(crate) fn write_prefix(text: &str, out: &mut Vec<u8>) {
    out.push(PRESENT);
    write_escaped(text, out);
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = &text.as_bytes()[..text.len().min(CUT_LENGTH)];
    for piece in bytes.split_inclusive(|byte| *byte == ESCAPE) {
        out.extend_from_slice(piece);
        if piece.ends_with(&[ESCAPE]) {
            out.push(ESCAPED);
        }
    }
}
