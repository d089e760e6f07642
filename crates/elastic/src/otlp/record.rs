//! Log records of either encoding, and the documents that they become.

use serde_json::{Map, Number, Value, json};

use crate::Error;

/// Size of a record, a resource or a scope as sent, in bytes.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;

/// Values that a record, a resource or a scope may have. Each takes memory of its own when it is read.
const VALUES_MAX: usize = 1 << 15;

/// Depth of arrays and maps in a value. JSON needs four levels for one of them, and its parser has 128.
const DEPTH_MAX: usize = 24;

/// Attributes that name the data stream of a record, with the default, and the longest name in bytes. The
/// name of a backing index has at most 255 bytes.
const STREAM_PARTS: [StreamPart; 3] = [
    StreamPart { name: "type", attribute: "data_stream.type", default: "logs", bytes_max: 20 },
    StreamPart { name: "dataset", attribute: "data_stream.dataset", default: "generic", bytes_max: 100 },
    StreamPart { name: "namespace", attribute: "data_stream.namespace", default: "default", bytes_max: 100 },
];

/// Part of the name of a data stream.
struct StreamPart {
    name: &'static str,
    attribute: &'static str,
    default: &'static str,
    bytes_max: usize,
}

/// A resource with the schema of its records.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtlpResource {
    pub(crate) attributes: Map<String, Value>,
    pub(crate) dropped_attributes: u32,
    pub(crate) schema_url: String,
}

/// An instrumentation scope with the schema of its records.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtlpScope {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) dropped_attributes: u32,
    pub(crate) schema_url: String,
}

/// A log record. Zero and the empty text stand for a field that is not set.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtlpRecord {
    pub(crate) time_ns: u64,
    pub(crate) observed_ns: u64,
    pub(crate) severity_number: i64,
    pub(crate) severity_text: String,
    pub(crate) body: Value,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) dropped_attributes: u32,
    pub(crate) flags: u32,
    /// Hexadecimal digits.
    pub(crate) trace_id: String,
    /// Hexadecimal digits.
    pub(crate) span_id: String,
    pub(crate) event_name: String,
}

/// Resource and scope of a record; the reason for which all of their records are refused, if they cannot be
/// read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordOrigin<'o> {
    pub(crate) resource: &'o Result<OtlpResource, Error>,
    pub(crate) scope: &'o Result<OtlpScope, Error>,
}

/// Document of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogDocument {
    /// Name of its data stream.
    pub(crate) stream: String,
    pub(crate) fields: Map<String, Value>,
}

/// Receiver of the records of a body, in their order. An error of its own ends the reading.
pub(crate) type RecordVisitor<'v> =
    dyn FnMut(RecordOrigin<'_>, Result<OtlpRecord, Error>) -> Result<(), Error> + 'v;

/// Bounds of the values of one part of a request, used up while it is read.
pub(crate) struct ValueBounds {
    values: usize,
}

impl ValueBounds {
    /// Creates the bounds of a part of this size.
    ///
    /// # Errors
    /// The part is too large.
    pub(crate) fn of_part(bytes: usize) -> Result<Self, Error> {
        match bytes > PART_BYTES_MAX {
            true => Err(Error::Content(format!(
                "a record, a resource or a scope has {bytes} bytes, and the limit is {PART_BYTES_MAX}"
            ))),
            false => Ok(ValueBounds { values: VALUES_MAX }),
        }
    }

    /// Counts a value at a depth.
    ///
    /// # Errors
    /// There are too many, or it is too deep.
    pub(crate) fn count(&mut self, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Content(format!(
                "a value has more than {DEPTH_MAX} levels of arrays and maps"
            )));
        }
        self.values = self.values.checked_sub(1).ok_or_else(|| {
            Error::Content(format!("a record, a resource or a scope has more than {VALUES_MAX} values"))
        })?;
        Ok(())
    }
}

/// Value of a floating-point number; JSON has texts for those that are no numbers.
pub(crate) fn number_value(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

impl OtlpRecord {
    /// Creates the document of a record. `now_ns` is its time if it has none.
    ///
    /// # Errors
    /// Its resource or its scope could not be read.
    pub(crate) fn document(self, origin: RecordOrigin<'_>, now_ns: u64) -> Result<LogDocument, Error> {
        let resource = origin.resource.as_ref().map_err(Clone::clone)?;
        let scope = origin.scope.as_ref().map_err(Clone::clone)?;
        let parts = STREAM_PARTS.map(|part| {
            let given = [&self.attributes, &scope.attributes, &resource.attributes];
            let given = given.into_iter().find_map(|attributes| attributes.get(part.attribute)?.as_str());
            part.clean(given.unwrap_or_default())
        });
        let stream = parts.join("-");
        let mut fields = Map::new();
        let time_ns = [self.time_ns, self.observed_ns].into_iter().find(|time| *time > 0);
        fields.insert("@timestamp".to_owned(), time_text(time_ns.unwrap_or(now_ns)).into());
        if self.observed_ns > 0 {
            fields.insert("observed_timestamp".to_owned(), time_text(self.observed_ns).into());
        }
        let names = STREAM_PARTS.iter().map(|part| part.name.to_owned());
        let named = names.zip(parts.into_iter().map(Value::String));
        fields.insert("data_stream".to_owned(), Value::Object(named.collect()));
        put_number(&mut fields, "severity_number", self.severity_number);
        put_text(&mut fields, "severity_text", self.severity_text);
        match self.body {
            Value::Null => {}
            body @ (Value::Array(_) | Value::Object(_)) => {
                fields.insert("body".to_owned(), json!({ "structured": body }));
            }
            Value::String(text) => drop(fields.insert("body".to_owned(), json!({ "text": text }))),
            scalar => drop(fields.insert("body".to_owned(), json!({ "text": scalar.to_string() }))),
        }
        put_object(&mut fields, "attributes", self.attributes);
        put_number(&mut fields, "dropped_attributes_count", i64::from(self.dropped_attributes));
        put_number(&mut fields, "flags", i64::from(self.flags));
        put_text(&mut fields, "trace_id", self.trace_id);
        put_text(&mut fields, "span_id", self.span_id);
        put_text(&mut fields, "event_name", self.event_name);
        put_object(&mut fields, "resource", resource.object());
        put_object(&mut fields, "scope", scope.object());
        Ok(LogDocument { stream, fields })
    }
}

impl OtlpResource {
    fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        put_object(&mut object, "attributes", self.attributes.clone());
        put_number(&mut object, "dropped_attributes_count", i64::from(self.dropped_attributes));
        put_text(&mut object, "schema_url", self.schema_url.clone());
        object
    }
}

impl OtlpScope {
    fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        put_text(&mut object, "name", self.name.clone());
        put_text(&mut object, "version", self.version.clone());
        put_object(&mut object, "attributes", self.attributes.clone());
        put_number(&mut object, "dropped_attributes_count", i64::from(self.dropped_attributes));
        put_text(&mut object, "schema_url", self.schema_url.clone());
        object
    }
}

impl StreamPart {
    /// Name of the part by the value of its attribute. Letters that names of indexes cannot have become `_`;
    /// so does `-` where it would divide the name otherwise.
    fn clean(&self, given: &str) -> String {
        let divides = self.name != "namespace";
        let mut name = String::new();
        for letter in given.chars().flat_map(char::to_lowercase) {
            let is_invalid = letter.is_control()
                || letter.is_whitespace()
                || "\\/*?\"<>|,#:".contains(letter)
                || divides && letter == '-'
                || name.is_empty() && self.name == "type" && "_+.".contains(letter);
            let letter = if is_invalid { '_' } else { letter };
            if name.len() + letter.len_utf8() > self.bytes_max {
                break;
            }
            // The first part begins the name of the stream, which begins with none of these.
            if !(name.is_empty() && self.name == "type" && letter == '_') {
                name.push(letter);
            }
        }
        if name.is_empty() { self.default.to_owned() } else { name }
    }
}

fn put_text(fields: &mut Map<String, Value>, name: &str, text: String) {
    if !text.is_empty() {
        fields.insert(name.to_owned(), text.into());
    }
}

fn put_number(fields: &mut Map<String, Value>, name: &str, number: i64) {
    if number != 0 {
        fields.insert(name.to_owned(), number.into());
    }
}

fn put_object(fields: &mut Map<String, Value>, name: &str, object: Map<String, Value>) {
    if !object.is_empty() {
        fields.insert(name.to_owned(), Value::Object(object));
    }
}

/// Text of a time in nanoseconds since 1970.
fn time_text(time_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time_ns));
    time.expect("64 bits of nanoseconds end in the year 2554").to_string()
}
