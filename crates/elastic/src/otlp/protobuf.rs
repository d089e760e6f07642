//! OTLP in Protobuf: the messages of `opentelemetry/proto/logs/v1`, by their field numbers.
//!
//! A field that is not known is passed over, as the specification says. A record that cannot be read is
//! refused alone; a request whose messages cannot be separated is refused as a whole.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::record::{
    OtlpRecord, OtlpResource, OtlpScope, RecordOrigin, RecordVisitor, ValueBounds, number_value,
};
use super::wire::{ProtobufReader, WireField};
use crate::Error;

/// Calls `visit` with each record of an `ExportLogsServiceRequest`.
///
/// # Errors
/// The body is malformed, or `visit` fails.
pub(crate) fn each_record(body: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
    each_field(body, |field| match field.number {
        1 => resource_logs(field.bytes("resource_logs")?, visit),
        _ => Ok(()),
    })
}

fn each_field<'b>(
    message: &'b [u8],
    mut visit: impl FnMut(WireField<'b>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = ProtobufReader::new(message);
    while let Some(field) = reader.next_field()? {
        visit(field)?;
    }
    Ok(())
}

fn resource_logs(message: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
    // Fields come in any order: the resource is read before the records that it belongs to.
    let mut resource = Ok(OtlpResource::default());
    each_field(message, |field| {
        match field.number {
            1 => resource_into(&mut resource, field.bytes("resource")?),
            3 => {
                let url = field.text("schema_url")?;
                resource.iter_mut().for_each(|resource| resource.schema_url.clone_from(&url));
            }
            _ => {}
        }
        Ok(())
    })?;
    each_field(message, |field| match field.number {
        2 => scope_logs(field.bytes("scope_logs")?, &resource, visit),
        _ => Ok(()),
    })
}

fn scope_logs(
    message: &[u8],
    resource: &Result<OtlpResource, Error>,
    visit: &mut RecordVisitor<'_>,
) -> Result<(), Error> {
    let mut scope = Ok(OtlpScope::default());
    each_field(message, |field| {
        match field.number {
            1 => scope_into(&mut scope, field.bytes("scope")?),
            3 => {
                let url = field.text("schema_url")?;
                scope.iter_mut().for_each(|scope| scope.schema_url.clone_from(&url));
            }
            _ => {}
        }
        Ok(())
    })?;
    each_field(message, |field| match field.number {
        2 => visit(RecordOrigin { resource, scope: &scope }, record(field.bytes("log_records")?)),
        _ => Ok(()),
    })
}

/// Reads a resource; one that comes twice is merged, as in other decoders.
fn resource_into(resource: &mut Result<OtlpResource, Error>, message: &[u8]) {
    let Ok(known) = resource else { return };
    let outcome = ValueBounds::of_part(message.len()).and_then(|mut bounds| {
        each_field(message, |field| {
            match field.number {
                1 => attribute(&mut known.attributes, field.bytes("attributes")?, &mut bounds)?,
                2 => known.dropped_attributes = field.varint("dropped_attributes_count")? as u32,
                _ => {}
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        *resource = Err(error);
    }
}

fn scope_into(scope: &mut Result<OtlpScope, Error>, message: &[u8]) {
    let Ok(known) = scope else { return };
    let outcome = ValueBounds::of_part(message.len()).and_then(|mut bounds| {
        each_field(message, |field| {
            match field.number {
                1 => known.name = field.text("name")?,
                2 => known.version = field.text("version")?,
                3 => attribute(&mut known.attributes, field.bytes("attributes")?, &mut bounds)?,
                4 => known.dropped_attributes = field.varint("dropped_attributes_count")? as u32,
                _ => {}
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        *scope = Err(error);
    }
}

fn record(message: &[u8]) -> Result<OtlpRecord, Error> {
    let mut bounds = ValueBounds::of_part(message.len())?;
    let mut record = OtlpRecord::default();
    each_field(message, |field| {
        match field.number {
            1 => record.time_ns = field.fixed64("time_unix_nano")?,
            2 => record.severity_number = i64::from(field.varint("severity_number")? as i32),
            3 => record.severity_text = field.text("severity_text")?,
            5 => record.body = any_value(field.bytes("body")?, 0, &mut bounds)?,
            6 => attribute(&mut record.attributes, field.bytes("attributes")?, &mut bounds)?,
            7 => record.dropped_attributes = field.varint("dropped_attributes_count")? as u32,
            8 => record.flags = field.fixed32("flags")?,
            9 => record.trace_id = hex_of(field.bytes("trace_id")?),
            10 => record.span_id = hex_of(field.bytes("span_id")?),
            11 => record.observed_ns = field.fixed64("observed_time_unix_nano")?,
            12 => record.event_name = field.text("event_name")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(record)
}

/// Digits of an id; none for one that is all zeros, which stands for no id.
fn hex_of(id: &[u8]) -> String {
    match id.iter().all(|byte| *byte == 0) {
        true => String::new(),
        false => id.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn attribute(
    attributes: &mut Map<String, Value>,
    message: &[u8],
    bounds: &mut ValueBounds,
) -> Result<(), Error> {
    key_value(attributes, message, 0, bounds)
}

fn key_value(
    members: &mut Map<String, Value>,
    message: &[u8],
    depth: usize,
    bounds: &mut ValueBounds,
) -> Result<(), Error> {
    bounds.count(depth)?;
    let (mut key, mut value) = (String::new(), Value::Null);
    each_field(message, |field| {
        match field.number {
            1 => key = field.text("key")?,
            2 => value = any_value(field.bytes("value")?, depth, bounds)?,
            _ => {}
        }
        Ok(())
    })?;
    members.insert(key, value);
    Ok(())
}

/// Value of an `AnyValue`; the last of its fields counts.
fn any_value(message: &[u8], depth: usize, bounds: &mut ValueBounds) -> Result<Value, Error> {
    bounds.count(depth)?;
    let mut value = Value::Null;
    each_field(message, |field| {
        value = match field.number {
            1 => field.text("string_value")?.into(),
            2 => (field.varint("bool_value")? != 0).into(),
            3 => (field.varint("int_value")? as i64).into(),
            4 => number_value(f64::from_bits(field.fixed64("double_value")?)),
            5 => {
                let mut elements = Vec::new();
                each_field(field.bytes("array_value")?, |field| {
                    if field.number == 1 {
                        elements.push(any_value(field.bytes("values")?, depth + 1, bounds)?);
                    }
                    Ok(())
                })?;
                Value::Array(elements)
            }
            6 => {
                let mut members = Map::new();
                each_field(field.bytes("kvlist_value")?, |field| match field.number {
                    1 => key_value(&mut members, field.bytes("values")?, depth + 1, bounds),
                    _ => Ok(()),
                })?;
                Value::Object(members)
            }
            7 => STANDARD.encode(field.bytes("bytes_value")?).into(),
            _ => return Ok(()),
        };
        Ok(())
    })?;
    Ok(value)
}
