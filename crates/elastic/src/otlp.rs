//! `POST /v1/logs`: log records as OpenTelemetry exporters send them (OTLP over HTTP), in Protobuf and JSON.
//!
//! Each record becomes a document of a data stream, which the attributes `data_stream.*` name. A request is
//! read twice: a body that is malformed, or that would grow beyond its bounds, is refused before anything is
//! written. A record that cannot be stored is refused alone, and the answer has their number.

mod intake;
mod json;
mod protobuf;
mod record;
mod reply;
mod wire;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use self::record::{LogDocument, RecordVisitor};
use crate::Error;
use crate::request::{ElasticRequest, ElasticResponse};
use crate::service::ElasticService;

/// Path of the endpoint.
const PATH: &str = "/v1/logs";

/// Bytes that the documents of a request may have, however small the request is.
const DOCUMENTS_FREE: usize = 4 << 20;

/// Maximum ratio of the size of the documents to that of the request, beyond [`DOCUMENTS_FREE`]. Each
/// document has the attributes of its resource: a large resource with many small records would become any
/// number of bytes.
const DOCUMENTS_RATIO: usize = 64;

/// Encoding of a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtlpEncoding {
    Protobuf,
    Json,
}

impl OtlpEncoding {
    /// Encoding of a media type; `None` for others.
    fn of(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        [(OtlpEncoding::Protobuf, "application/x-protobuf"), (OtlpEncoding::Json, "application/json")]
            .into_iter()
            .find_map(|(encoding, name)| name.eq_ignore_ascii_case(media_type).then_some(encoding))
    }

    fn each_record(self, body: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
        match self {
            OtlpEncoding::Protobuf => protobuf::each_record(body, visit),
            OtlpEncoding::Json => json::each_record(body, visit),
        }
    }
}

/// Records of a request that were not stored, and what else its sender should know.
#[derive(Debug, Default)]
struct ExportOutcome {
    rejected: u64,
    /// Reason of the first rejected record, or else a warning.
    reason: String,
}

/// True if a path is that of the endpoint.
pub(crate) fn is_logs(path: &str) -> bool {
    path.strip_suffix('/').unwrap_or(path) == PATH
}

/// Answers a request.
pub(crate) fn answer(service: &ElasticService, request: &ElasticRequest) -> ElasticResponse {
    reply::write(outcome(service, request), OtlpEncoding::of(&request.content_type))
}

/// Writes the answer for a request that failed before it reached the service.
pub(crate) fn refuse(request: &ElasticRequest, error: Error) -> ElasticResponse {
    reply::write(Err(error), OtlpEncoding::of(&request.content_type))
}

fn outcome(service: &ElasticService, request: &ElasticRequest) -> Result<ExportOutcome, Error> {
    if request.method != "POST" {
        let (uri, method) = (request.path.clone(), request.method.clone());
        return Err(Error::Method { uri, method, allowed: "POST".to_owned() });
    }
    let Some(encoding) = OtlpEncoding::of(&request.content_type) else {
        return Err(Error::MediaType(format!(
            "Content-Type [{}] is not supported; send application/x-protobuf or application/json",
            request.content_type
        )));
    };
    if !request.query.is_empty() {
        return Err(Error::IllegalArgument(format!(
            "request [{PATH}] takes no parameters, and has [{}]; attributes data_stream.* name the data stream",
            request.query
        )));
    }
    let now_ns = millrace_env::unix_time().as_nanos() as u64;
    check_size(encoding, &request.body, now_ns)?;
    intake::store(service, &mut |visit| {
        encoding.each_record(&request.body, &mut |origin, record| {
            visit(record.and_then(|record| record.document(origin, now_ns)))
        })
    })
}

/// Reads the whole request once, and checks that its documents are not too large together.
fn check_size(encoding: OtlpEncoding, body: &[u8], now_ns: u64) -> Result<(), Error> {
    let limit = DOCUMENTS_FREE + DOCUMENTS_RATIO * body.len();
    let mut total = 0_usize;
    encoding.each_record(body, &mut |origin, record| {
        if let Ok(document) = record.and_then(|record| record.document(origin, now_ns)) {
            total = total.saturating_add(document.text().len());
        }
        match total > limit {
            true => Err(Error::TooLarge(format!(
                "the records, each with the attributes of its resource, have more than {DOCUMENTS_RATIO} times the bytes of \
                 the request; send fewer records of a resource in one request"
            ))),
            false => Ok(()),
        }
    })
}

impl LogDocument {
    /// JSON text of the document.
    fn text(&self) -> String {
        serde_json::to_string(&self.fields).expect("a document has names for keys")
    }
}

/// Mapping of data streams that records make. Attributes are of one type that takes all values and adds no
/// fields, so that a record with a new attribute changes no mapping, and none is refused for its type.
pub(crate) fn mapping() -> Map<String, Value> {
    let keyword = json!({ "type": "keyword" });
    let long = json!({ "type": "long" });
    let any = json!({ "type": "flattened" });
    let properties = json!({
        "@timestamp": { "type": "date" },
        "observed_timestamp": { "type": "date" },
        "data_stream": { "properties": { "type": keyword, "dataset": keyword, "namespace": keyword } },
        "severity_number": long,
        "severity_text": keyword,
        "body": { "properties": { "text": { "type": "text" }, "structured": any } },
        "attributes": any,
        "dropped_attributes_count": long,
        "flags": long,
        "trace_id": keyword,
        "span_id": keyword,
        "event_name": keyword,
        "resource": {
            "properties": { "attributes": any, "dropped_attributes_count": long, "schema_url": keyword },
        },
        "scope": {
            "properties": {
                "name": keyword, "version": keyword, "attributes": any, "dropped_attributes_count": long,
                "schema_url": keyword,
            },
        },
    });
    properties.as_object().cloned().unwrap_or_default()
}

/// Reads an input as a request in each encoding, and checks that each document is JSON with names that are
/// valid. For fuzzers.
pub fn fuzz(input: &[u8]) {
    for encoding in [OtlpEncoding::Protobuf, OtlpEncoding::Json] {
        let mut streams: HashMap<String, u64> = HashMap::new();
        let outcome = encoding.each_record(input, &mut |origin, record| {
            match record.and_then(|record| record.document(origin, 1)) {
                Ok(document) => {
                    let read: Map<String, Value> =
                        serde_json::from_str(&document.text()).expect("a document is JSON");
                    assert_eq!(read.len(), document.fields.len(), "a document has other fields as text");
                    crate::names::check_index_name(&document.stream).expect("a stream has a valid name");
                    *streams.entry(document.stream).or_default() += 1;
                }
                Err(error) => assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'"),
            }
            Ok(())
        });
        if let Err(error) = outcome {
            assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'");
        }
    }
}
