//! Requests and answers, as the server of HTTP hands them in and takes them out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use millrace_node::work::JsonCounts;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::Error;
use crate::caller::ElasticCaller;
use crate::filter_path::PathFilter;
use crate::unread::SentValue;

/// A request with its whole body, unpacked.
#[derive(Debug, Clone, Default)]
pub struct ElasticRequest {
    /// Method in capitals.
    pub method: String,
    /// Path as received, percent-encoded, from the root of the service.
    pub path: String,
    /// Parameters as received.
    pub query: String,
    /// Host by which the client reaches the server, with or without a port.
    pub host: String,
    /// Value of `Content-Type`.
    pub content_type: String,
    /// Value of `Accept`.
    pub accept: String,
    /// Sender.
    pub caller: ElasticCaller,
    /// True once the client has left: what only reads ends then.
    pub gone: Arc<AtomicBool>,
    /// Body.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElasticResponse {
    /// HTTP status.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: String,
    /// Value of `Retry-After` in seconds, if the request may be repeated.
    pub retry_after_s: Option<u64>,
    /// Values of `Warning`.
    pub warnings: Vec<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Answer before it is written: a status with JSON, or with text.
#[derive(Debug)]
pub(crate) enum ReplyContent {
    Json(u16, Value),
    Text(u16, String),
    /// JSON that is written already, in the form that was asked for.
    Written(u16, Vec<u8>),
}

impl ReplyContent {
    /// Creates an answer of 200.
    pub(crate) fn ok(value: Value) -> Result<ReplyContent, Error> {
        Ok(ReplyContent::Json(200, value))
    }
}

/// Parameters of a request, by name; of a repeated one the last counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct ElasticParameters(BTreeMap<String, String>);

impl ElasticParameters {
    /// The same parameters with another value of one.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut parameters = self.0.clone();
        parameters.insert(name.to_owned(), value.to_owned());
        ElasticParameters(parameters)
    }

    /// Parses the part of a URI after `?`.
    pub(crate) fn parse(query: &str) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(1_000).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        ElasticParameters(pairs.collect())
    }

    /// Parameters of a request that another one leads to.
    pub(crate) fn given(parameters: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        ElasticParameters(parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Names of all parameters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// True if the parameter is there, with any value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// True if JSON is wanted on several lines.
    pub(crate) fn is_pretty(&self) -> bool {
        self.has("pretty") && self.get("pretty") != Some("false")
    }

    /// Value as true or false; the empty text is true.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some("true" | "") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(Error::IllegalArgument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        }
    }

    /// Value as a whole number.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Error::IllegalArgument(format!(
                        "Failed to parse int parameter [{name}] with value [{text}]"
                    ))
                })
            })
            .transpose()
    }

    /// Value as a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Error::IllegalArgument(format!(
                        "Failed to parse float parameter [{name}] with value [{text}]"
                    ))
                })
            })
            .transpose()
    }

    /// Values joined by commas.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let list = self.get(name)?.split(',').filter(|part| !part.is_empty());
        Some(list.map(str::to_owned).collect())
    }
}

/// Checks the number of values in a text before it is parsed: in the tree, a value of two bytes takes many
/// times its size.
///
/// # Errors
/// It has more than `values_max`.
pub(crate) fn check_values(text: &[u8], values_max: usize) -> Result<(), Error> {
    match JsonCounts::fit(text, JsonCounts::values, values_max) {
        true => Ok(()),
        false => Err(Error::IllegalArgument(format!(
            "the body has more than {values_max} values, and is not read; divide it into several requests, or raise query-values-max"
        ))),
    }
}

/// Checks the memory of the tree of a document before it is parsed.
///
/// # Errors
/// It takes more than `bytes_max`.
pub(crate) fn check_tree(text: &[u8], bytes_max: usize) -> Result<(), Error> {
    match JsonCounts::fit(text, JsonCounts::tree_bytes, bytes_max) {
        true => Ok(()),
        false => Err(Error::IllegalArgument(format!(
            "the values of the document take more than {bytes_max} bytes of memory without their text; divide it into several \
             documents, or raise element-bytes-max"
        ))),
    }
}

/// Parses the body as a JSON object; no body is an empty one.
pub(crate) fn object_of(body: &[u8]) -> Result<Map<String, Value>, Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Error::Parsing("Expected [START_OBJECT] at the start of the body".to_owned())),
        Err(error) => Err(Error::Json(error.to_string())),
    }
}

/// Decoded segments of a path.
pub(crate) fn segments_of(path: &str) -> Result<Vec<String>, Error> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let decode = |part: &str| {
        percent_decode_str(part).decode_utf8().map(|text| text.into_owned()).map_err(|_| {
            Error::IllegalArgument(format!("the path segment [{part}] is not percent-encoded UTF-8"))
        })
    };
    parts.map(decode).collect()
}

/// Writes a reply in the media type that was asked for.
pub(crate) fn write_reply(
    outcome: Result<ReplyContent, Error>,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
) -> ElasticResponse {
    let retry_after_s =
        outcome.as_ref().err().filter(|error| [429, 503].contains(&error.status())).map(|_| 1);
    let is_head = request.method == "HEAD";
    let reply = outcome.unwrap_or_else(|error| ReplyContent::Json(error.status(), error.body()));
    let (status, content_type, body) = match reply {
        ReplyContent::Text(status, text) => {
            (status, "text/plain; charset=UTF-8".to_owned(), text.into_bytes())
        }
        ReplyContent::Written(status, body) => (status, media_type(&request.accept), body),
        ReplyContent::Json(status, mut value) => {
            if status < 300
                && let Some(paths) = parameters.get("filter_path").filter(|paths| !paths.is_empty())
            {
                value = PathFilter::parse(paths).apply(value);
            }
            let sent = SentValue(&value);
            let body = if parameters.is_pretty() {
                serde_json::to_vec_pretty(&sent)
            } else {
                serde_json::to_vec(&sent)
            };
            (status, media_type(&request.accept), body.expect("JSON with names for keys has a text"))
        }
    };
    let body = if is_head { Vec::new() } else { body };
    ElasticResponse { status, content_type, retry_after_s, warnings: Vec::new(), body }
}

/// Media type of an answer: one with `compatible-with` if the client asked for it.
fn media_type(accept: &str) -> String {
    let versioned = accept.split(',').map(str::trim).find(|one| {
        one.starts_with("application/vnd.elasticsearch+json") && one.is_ascii() && one.len() < 100
    });
    versioned.unwrap_or("application/json; charset=UTF-8").to_owned()
}
