//! An encoder of requests in Protobuf, from their form in JSON, and a decoder of answers. It shares no code
//! with the product.

use serde_json::{Value, json};

/// Kind of a field, by the name that it has in JSON.
enum FieldKind {
    Text,
    Fixed64,
    Fixed32,
    Number,
    Digits,
    Double,
    Base64,
    Message,
}

/// Number and kind of a field. Names are unique but for `attributes`, `schemaUrl`, `values` and those of
/// dropped attributes, whose numbers depend on the message around them.
fn field(parent: &str, name: &str) -> (u8, FieldKind) {
    use FieldKind::{Base64, Digits, Double, Fixed32, Fixed64, Message, Number, Text};
    match (parent, name) {
        (_, "resourceLogs") | ("resourceLogs", "resource") | ("scopeLogs", "scope") => (1, Message),
        (_, "scopeLogs" | "logRecords") => (2, Message),
        (_, "schemaUrl") => (3, Text),
        ("resource", "attributes") => (1, Message),
        ("resource", "droppedAttributesCount") => (2, Number),
        ("scope", "name") => (1, Text),
        ("scope", "version") => (2, Text),
        ("scope", "attributes") => (3, Message),
        ("scope", "droppedAttributesCount") => (4, Number),
        (_, "timeUnixNano") => (1, Fixed64),
        (_, "severityNumber") => (2, Number),
        (_, "severityText") => (3, Text),
        (_, "body") => (5, Message),
        ("logRecords", "attributes") => (6, Message),
        ("logRecords", "droppedAttributesCount") => (7, Number),
        (_, "flags") => (8, Fixed32),
        (_, "traceId") => (9, Digits),
        (_, "spanId") => (10, Digits),
        (_, "observedTimeUnixNano") => (11, Fixed64),
        (_, "eventName") => (12, Text),
        (_, "key") => (1, Text),
        (_, "value") => (2, Message),
        (_, "stringValue") => (1, Text),
        (_, "boolValue") => (2, Number),
        (_, "intValue") => (3, Number),
        (_, "doubleValue") => (4, Double),
        (_, "arrayValue") => (5, Message),
        (_, "kvlistValue") => (6, Message),
        (_, "bytesValue") => (7, Base64),
        (_, "values") => (1, Message),
        other => panic!("the tests' encoder does not know {other:?}"),
    }
}

/// Encodes a request.
pub fn message_of(request: &Value) -> Vec<u8> {
    message("", request)
}

fn message(parent: &str, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in object.as_object().expect("a message is an object") {
        let (number, kind) = field(parent, name);
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for value in values {
            append(&mut bytes, &EncodedField { name, number, kind: &kind }, &value);
        }
    }
    bytes
}

struct EncodedField<'f> {
    name: &'f str,
    number: u8,
    kind: &'f FieldKind,
}

fn append(bytes: &mut Vec<u8>, field: &EncodedField<'_>, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let number = || match value {
        Value::Bool(value) => i128::from(*value),
        Value::Number(number) => i128::from(number.as_i64().expect("a whole number")),
        _ => text.parse().expect("a number"),
    };
    let tag = |wire_type: u8| field.number << 3 | wire_type;
    let mut with_length = |inner: &[u8]| {
        bytes.push(tag(2));
        varint(bytes, inner.len() as u64);
        bytes.extend_from_slice(inner);
    };
    match field.kind {
        FieldKind::Text => with_length(text.as_bytes()),
        FieldKind::Message => with_length(&message(field.name, value)),
        FieldKind::Digits => {
            let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
            let digits: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect();
            with_length(&digits);
        }
        FieldKind::Base64 => with_length(match text {
            "AAH/" => &[0, 1, 255],
            other => panic!("the tests' encoder does not know the bytes {other}"),
        }),
        FieldKind::Number => {
            bytes.push(tag(0));
            varint(bytes, number() as u64);
        }
        FieldKind::Fixed64 => {
            bytes.push(tag(1));
            bytes.extend_from_slice(&(number() as u64).to_le_bytes());
        }
        FieldKind::Fixed32 => {
            bytes.push(tag(5));
            bytes.extend_from_slice(&(number() as u32).to_le_bytes());
        }
        FieldKind::Double => {
            let double = value.as_f64().unwrap_or_else(|| text.parse().expect("a number"));
            bytes.push(tag(1));
            bytes.extend_from_slice(&double.to_le_bytes());
        }
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Number of the first field and text of the second, as messages of answers have them.
fn number_and_text(mut bytes: &[u8]) -> (u64, String) {
    let (mut number, mut text) = (0, String::new());
    while let Some((tag, rest)) = bytes.split_first() {
        bytes = rest;
        let mut value = 0_u64;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a number ends");
            bytes = rest;
            value |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                break;
            }
        }
        match tag {
            0x08 => number = value,
            0x12 => {
                let (own, rest) = bytes.split_at(value as usize);
                text = String::from_utf8(own.to_vec()).expect("a message is UTF-8");
                bytes = rest;
            }
            other => panic!("an answer has no tag {other}"),
        }
    }
    (number, text)
}

/// JSON of an `ExportLogsServiceResponse`.
pub fn response_of(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return json!({});
    }
    // The one field has a length of one or two bytes.
    let start = if bytes[1] < 128 { 2 } else { 3 };
    assert_eq!(bytes[0], 0x0a, "the first field is partial_success");
    let (rejected, reason) = number_and_text(&bytes[start..]);
    json!({ "partialSuccess": { "rejectedLogRecords": rejected.to_string(), "errorMessage": reason } })
}

/// JSON of a `google.rpc.Status`.
pub fn status_of(bytes: &[u8]) -> Value {
    let (code, message) = number_and_text(bytes);
    json!({ "code": code, "message": message })
}
