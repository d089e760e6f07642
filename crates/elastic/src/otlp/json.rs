//! OTLP in JSON, by its own rules: names in lowerCamelCase, ids in hexadecimal digits, numbers of 64 bits as
//! texts or numbers, enumerations as numbers. Unknown names are passed over, and `null` is a field that is
//! not set.
//!
//! The parts of a request are separated without being read, and each record is read alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::record::{
    OtlpRecord, OtlpResource, OtlpScope, RecordOrigin, RecordVisitor, ValueBounds, number_value,
};
use crate::Error;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestParts<'b> {
    #[serde(borrow)]
    resource_logs: Option<&'b RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceParts<'b> {
    #[serde(borrow)]
    resource: Option<&'b RawValue>,
    #[serde(borrow)]
    scope_logs: Option<&'b RawValue>,
    schema_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScopeParts<'b> {
    #[serde(borrow)]
    scope: Option<&'b RawValue>,
    #[serde(borrow)]
    log_records: Option<&'b RawValue>,
    schema_url: Option<String>,
}

/// Calls `visit` with each record of a request.
///
/// # Errors
/// The body is malformed, or `visit` fails.
pub(crate) fn each_record(body: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Error::Parsing(format!("the body is not UTF-8: {error}")))?;
    let request: RequestParts<'_> = parse(text, "the request")?;
    each_element(request.resource_logs, "resourceLogs", &mut |element| {
        let parts: ResourceParts<'_> = parse(element.get(), "an element of resourceLogs")?;
        let mut resource = part(parts.resource).and_then(read_resource);
        resource.iter_mut().for_each(|known| known.schema_url = parts.schema_url.clone().unwrap_or_default());
        each_element(parts.scope_logs, "scopeLogs", &mut |element| {
            let parts: ScopeParts<'_> = parse(element.get(), "an element of scopeLogs")?;
            let mut scope = part(parts.scope).and_then(read_scope);
            scope
                .iter_mut()
                .for_each(|known| known.schema_url = parts.schema_url.clone().unwrap_or_default());
            each_element(parts.log_records, "logRecords", &mut |element| {
                let origin = RecordOrigin { resource: &resource, scope: &scope };
                visit(origin, part(Some(element)).and_then(read_record))
            })
        })
    })
}

fn parse<'b, T: Deserialize<'b>>(text: &'b str, place: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::Parsing(format!("{place} is not OTLP in JSON: {error}")))
}

/// Calls `visit` with each element of an array, one at a time.
fn each_element<'b>(
    array: Option<&'b RawValue>,
    name: &str,
    visit: &mut dyn FnMut(&'b RawValue) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(array) = array else { return Ok(()) };
    let mut stopped = None;
    let mut parser = serde_json::Deserializer::from_str(array.get());
    let outcome = parser.deserialize_any(ElementVisitor { visit, stopped: &mut stopped });
    match (stopped, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => {
            Err(Error::Parsing(format!("[{name}] must be an array as OTLP has it in JSON: {error}")))
        }
        (None, Ok(())) => Ok(()),
    }
}

struct ElementVisitor<'v, 'b> {
    visit: &'v mut dyn FnMut(&'b RawValue) -> Result<(), Error>,
    stopped: &'v mut Option<Error>,
}

impl<'b> Visitor<'b> for ElementVisitor<'_, 'b> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&'b RawValue>()? {
            if let Err(error) = (self.visit)(element) {
                *self.stopped = Some(error);
                return Err(A::Error::custom("the reading was ended"));
            }
        }
        Ok(())
    }
}

/// An object of a request with the bounds of its values.
struct JsonPart {
    members: Map<String, Value>,
    bounds: ValueBounds,
}

/// Reads a part of a request; one that is missing is empty.
fn part(raw: Option<&RawValue>) -> Result<JsonPart, Error> {
    let text = raw.map_or("null", RawValue::get);
    let bounds = ValueBounds::of_part(text.len())?;
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(JsonPart { members, bounds }),
        Ok(Value::Null) => Ok(JsonPart { members: Map::new(), bounds }),
        Ok(other) => Err(wrong("a record, a resource or a scope", "an object", &other)),
        Err(error) => Err(Error::Content(format!("a part of the request cannot be read: {error}"))),
    }
}

fn read_resource(part: JsonPart) -> Result<OtlpResource, Error> {
    let JsonPart { mut members, mut bounds } = part;
    Ok(OtlpResource {
        attributes: attributes(members.remove("attributes"), &mut bounds)?,
        dropped_attributes: unsigned(&members, "droppedAttributesCount")? as u32,
        schema_url: String::new(),
    })
}

fn read_scope(part: JsonPart) -> Result<OtlpScope, Error> {
    let JsonPart { mut members, mut bounds } = part;
    Ok(OtlpScope {
        name: text(&mut members, "name")?,
        version: text(&mut members, "version")?,
        attributes: attributes(members.remove("attributes"), &mut bounds)?,
        dropped_attributes: unsigned(&members, "droppedAttributesCount")? as u32,
        schema_url: String::new(),
    })
}

fn read_record(part: JsonPart) -> Result<OtlpRecord, Error> {
    let JsonPart { mut members, mut bounds } = part;
    Ok(OtlpRecord {
        time_ns: unsigned(&members, "timeUnixNano")?,
        observed_ns: unsigned(&members, "observedTimeUnixNano")?,
        severity_number: members.get("severityNumber").map_or(Ok(0), |value| {
            integer_of(value).ok_or_else(|| wrong("severityNumber", "a number", value))
        })?,
        severity_text: text(&mut members, "severityText")?,
        body: match members.remove("body") {
            Some(body) => any_value(body, 0, &mut bounds)?,
            None => Value::Null,
        },
        attributes: attributes(members.remove("attributes"), &mut bounds)?,
        dropped_attributes: unsigned(&members, "droppedAttributesCount")? as u32,
        flags: unsigned(&members, "flags")? as u32,
        trace_id: id(&mut members, "traceId")?,
        span_id: id(&mut members, "spanId")?,
        event_name: text(&mut members, "eventName")?,
    })
}

/// Error of a member whose value has the wrong type.
fn wrong(name: &str, expected: &str, found: &Value) -> Error {
    let mut shown: String = found.to_string().chars().take(60).collect();
    if shown.len() < found.to_string().len() {
        shown.push('…');
    }
    Error::Content(format!("{name} is not {expected}, but {shown}"))
}

fn text(members: &mut Map<String, Value>, name: &str) -> Result<String, Error> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong(name, "a text", &other)),
    }
}

/// Digits of an id, in lower case. What is no digit is kept as it came: it refuses no record.
fn id(members: &mut Map<String, Value>, name: &str) -> Result<String, Error> {
    let digits = text(members, name)?;
    Ok(match digits.bytes().all(|digit| digit == b'0') {
        true => String::new(),
        false if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => digits.to_ascii_lowercase(),
        false => digits,
    })
}

fn unsigned(members: &Map<String, Value>, name: &str) -> Result<u64, Error> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => {
            let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
            let number = number.or_else(|| u64::try_from(integer_of(value)?).ok());
            number.ok_or_else(|| wrong(name, "a whole number", value))
        }
    }
}

/// A whole number, as a number or a text.
fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_i64().or_else(|| {
            let number = number.as_f64()?;
            (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
        }),
        _ => None,
    }
}

/// Map of a list of keys with values.
fn attributes(list: Option<Value>, bounds: &mut ValueBounds) -> Result<Map<String, Value>, Error> {
    key_values(list.unwrap_or_default(), 0, bounds)
}

fn key_values(list: Value, depth: usize, bounds: &mut ValueBounds) -> Result<Map<String, Value>, Error> {
    let mut members = Map::new();
    for element in elements(list)? {
        bounds.count(depth)?;
        let mut element = match element {
            Value::Object(element) => element,
            other => return Err(wrong("an attribute", "an object with a key and a value", &other)),
        };
        let key = text(&mut element, "key")?;
        let value = match element.remove("value") {
            Some(value) => any_value(value, depth, bounds)?,
            None => Value::Null,
        };
        members.insert(key, value);
    }
    Ok(members)
}

fn elements(list: Value) -> Result<Vec<Value>, Error> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(elements) => Ok(elements),
        other => Err(wrong("a list", "an array", &other)),
    }
}

/// Value of an `AnyValue`; the last of its known members counts.
fn any_value(value: Value, depth: usize, bounds: &mut ValueBounds) -> Result<Value, Error> {
    bounds.count(depth)?;
    let members = match value {
        Value::Null => return Ok(Value::Null),
        Value::Object(members) => members,
        other => return Err(wrong("a value", "an object such as {\"stringValue\": …}", &other)),
    };
    let mut result = Value::Null;
    for (name, value) in members {
        if value.is_null() {
            continue;
        }
        result = match (name.as_str(), value) {
            ("stringValue", value @ Value::String(_)) | ("boolValue", value @ Value::Bool(_)) => value,
            ("stringValue", other) => return Err(wrong("stringValue", "a text", &other)),
            ("boolValue", other) => return Err(wrong("boolValue", "true or false", &other)),
            ("intValue", value) => match integer_of(&value) {
                Some(number) => number.into(),
                None => return Err(wrong("intValue", "a whole number of 64 bits", &value)),
            },
            ("doubleValue", value) => {
                let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
                number_value(number.ok_or_else(|| wrong("doubleValue", "a number", &value))?)
            }
            ("bytesValue", Value::String(text)) => {
                let bytes = STANDARD.decode(&text);
                let bytes = bytes.map_err(|_| wrong("bytesValue", "base64", &Value::String(text.clone())))?;
                STANDARD.encode(bytes).into()
            }
            ("bytesValue", other) => return Err(wrong("bytesValue", "base64", &other)),
            ("arrayValue", value) => {
                let list = elements(list_of(value, "arrayValue")?)?.into_iter();
                let list = list.map(|element| any_value(element, depth + 1, bounds));
                Value::Array(list.collect::<Result<_, _>>()?)
            }
            ("kvlistValue", value) => {
                Value::Object(key_values(list_of(value, "kvlistValue")?, depth + 1, bounds)?)
            }
            _ => continue,
        };
    }
    Ok(result)
}

/// Member `values` of an array or a map.
fn list_of(value: Value, name: &str) -> Result<Value, Error> {
    match value {
        Value::Object(mut members) => Ok(members.remove("values").unwrap_or_default()),
        other => Err(wrong(name, "an object with values", &other)),
    }
}
