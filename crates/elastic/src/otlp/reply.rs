//! Answers: `ExportLogsServiceResponse`, or `google.rpc.Status` for a request that is refused.

use serde_json::{Value, json};

use super::wire::{write_bytes, write_number};
use super::{ExportOutcome, OtlpEncoding};
use crate::Error;
use crate::request::ElasticResponse;

/// Seconds after which a client may repeat a request.
const RETRY_AFTER_S: u64 = 1;

/// Writes an answer in the encoding of its request; in JSON if that is none of both.
pub(super) fn write(
    outcome: Result<ExportOutcome, Error>,
    encoding: Option<OtlpEncoding>,
) -> ElasticResponse {
    let encoding = encoding.unwrap_or(OtlpEncoding::Json);
    let (status, retry_after_s, body) = match outcome {
        Ok(outcome) => (200, None, response(&outcome, encoding)),
        Err(error) => {
            let may_repeat = [429, 503].contains(&error.status());
            (error.status(), may_repeat.then_some(RETRY_AFTER_S), refusal(&error, encoding))
        }
    };
    let content_type = match encoding {
        OtlpEncoding::Protobuf => "application/x-protobuf",
        OtlpEncoding::Json => "application/json",
    };
    let content_type = content_type.to_owned();
    ElasticResponse { status, content_type, retry_after_s, warnings: Vec::new(), body }
}

/// Body of a success. It says nothing if all records are stored and there is no warning.
fn response(outcome: &ExportOutcome, encoding: OtlpEncoding) -> Vec<u8> {
    let is_whole = outcome.rejected == 0 && outcome.reason.is_empty();
    match (encoding, is_whole) {
        (OtlpEncoding::Protobuf, true) => Vec::new(),
        (OtlpEncoding::Protobuf, false) => {
            let (mut partial, mut body) = (Vec::new(), Vec::new());
            write_number(&mut partial, 1, outcome.rejected);
            write_bytes(&mut partial, 2, outcome.reason.as_bytes());
            write_bytes(&mut body, 1, &partial);
            body
        }
        (OtlpEncoding::Json, true) => b"{}".to_vec(),
        // Numbers of 64 bits are texts in the JSON of Protobuf.
        (OtlpEncoding::Json, false) => text_of(&json!({ "partialSuccess": {
            "rejectedLogRecords": outcome.rejected.to_string(), "errorMessage": outcome.reason,
        } })),
    }
}

fn refusal(error: &Error, encoding: OtlpEncoding) -> Vec<u8> {
    let (code, message) = (code_of(error), error.to_string());
    match encoding {
        OtlpEncoding::Protobuf => {
            let mut body = Vec::new();
            write_number(&mut body, 1, code);
            write_bytes(&mut body, 2, message.as_bytes());
            body
        }
        OtlpEncoding::Json => text_of(&json!({ "code": code, "message": message })),
    }
}

fn text_of(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("JSON with names for keys has a text")
}

/// Code of `google.rpc.Code` for an error.
fn code_of(error: &Error) -> u64 {
    match error.status() {
        401 => 16,
        403 => 7,
        404 => 5,
        405 => 12,
        408 => 4,
        409 => 6,
        413 | 429 => 8,
        500 => 13,
        503 => 14,
        _ => 3,
    }
}
