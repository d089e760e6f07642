//! `ExportTraceServiceRequest` of OTLP in Protobuf: the messages of `opentelemetry/proto/trace/v1`, by their
//! field numbers.

use std::time::Duration;

use super::{FinishedSpan, SpanValue};

/// Types of fields on the wire.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

/// Kinds of spans, and the code of a failed one.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const FAILED: u64 = 2;

/// Encodes spans of this node.
pub(super) fn encode(spans: &[FinishedSpan], instance: &str) -> Vec<u8> {
    let mut request = SpanEncoder::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |resource| {
            let of_resource = [
                ("service.name", "millrace"),
                ("service.version", env!("CARGO_PKG_VERSION")),
                ("service.instance.id", instance),
            ];
            for (name, value) in of_resource {
                resource.attribute(1, name, &SpanValue::Text(value.to_owned()));
            }
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| scope.bytes(1, b"millrace"));
            for span in spans {
                scope_spans.message(2, |message| message.span(span));
            }
        });
    });
    request.0
}

/// Encoder of a message, field by field.
#[derive(Default)]
struct SpanEncoder(Vec<u8>);

impl SpanEncoder {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn time(&mut self, field: u64, time: Duration) {
        self.varint(field << 3 | FIXED64);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.extend_from_slice(&nanoseconds.to_le_bytes());
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut SpanEncoder)) {
        let mut message = SpanEncoder::default();
        write(&mut message);
        self.bytes(field, &message.0);
    }

    fn attribute(&mut self, field: u64, name: &str, value: &SpanValue) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                SpanValue::Text(text) => any.bytes(1, text.as_bytes()),
                SpanValue::Number(number) => any.number(3, *number),
            });
        });
    }

    fn span(&mut self, span: &FinishedSpan) {
        self.bytes(1, &span.context.trace_id);
        self.bytes(2, &span.context.span_id);
        if let Some(parent) = &span.parent {
            self.bytes(4, parent);
        }
        self.bytes(5, span.name.as_bytes());
        self.number(6, if span.is_request { SERVER } else { INTERNAL });
        self.time(7, span.start);
        self.time(8, span.end);
        for (name, value) in &span.attributes {
            self.attribute(9, name, value);
        }
        if span.is_error {
            self.message(15, |status| status.number(3, FAILED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpanContext;
    use super::*;

    /// The bytes were read by the Python library `opentelemetry-proto`.
    #[test]
    fn a_span_has_the_bytes_of_the_protocol() {
        let context = SpanContext { trace_id: [1; 16], span_id: [2; 8] };
        let span = FinishedSpan {
            name: "a".to_owned(),
            context,
            parent: Some([3; 8]),
            is_request: true,
            start: Duration::from_nanos(5),
            end: Duration::from_nanos(6),
            attributes: vec![("n", SpanValue::Number(300)), ("t", SpanValue::Text("x".to_owned()))],
            is_error: true,
        };
        let mut message = SpanEncoder::default();
        message.span(&span);
        let text: String = message.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "0a1001010101010101010101010101010101120802020202020202022208030303030303030\
                        32a016130023905000000000000004106000000000000004a080a016e120318ac024a080a017412030a01787a021802";
        assert_eq!(text, expected);
        let whole = encode(&[span], "one");
        assert_eq!(whole[0], 0x0a);
    }
}
