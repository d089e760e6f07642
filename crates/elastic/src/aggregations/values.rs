//! Values of fields as aggregations see them.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::dates::{DateText, zone_of};
use crate::evaluation::number_of;
use crate::fields::all_at;
use crate::ignored::ignored;
use crate::mapping::{check_doc_values, field_at, is_flag, is_searched, type_of};
use crate::query::text_of;
use crate::search::SearchHit;

/// Form of the values of a field over all indexes of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// No index has the field.
    Unmapped,
    Text,
    Whole,
    Unsigned,
    Real,
    Date,
    Boolean,
    Address,
    /// Ranges of numbers.
    Span,
    /// Ranges of dates.
    DateSpan,
}

impl ValueForm {
    /// Form of a type of fields.
    fn of_type(field_type: &str) -> Option<Self> {
        Some(match field_type {
            "long" | "integer" | "short" | "byte" | "token_count" => ValueForm::Whole,
            "unsigned_long" => ValueForm::Unsigned,
            "double" | "float" | "half_float" | "scaled_float" => ValueForm::Real,
            "date" | "date_nanos" => ValueForm::Date,
            "boolean" => ValueForm::Boolean,
            "ip" => ValueForm::Address,
            "date_range" => ValueForm::DateSpan,
            "integer_range" | "long_range" | "float_range" | "double_range" => ValueForm::Span,
            "keyword" | "constant_keyword" | "counted_keyword" | "wildcard" | "version" | "flattened"
            | "flat_object" | "text" | "match_only_text" => ValueForm::Text,
            _ => return None,
        })
    }

    /// Form of `value_type`, which an aggregation may give for a field that no index has.
    fn of_value_type(name: &str) -> Option<Self> {
        match name {
            "string" => Some(ValueForm::Text),
            "number" | "numeric" => Some(ValueForm::Real),
            other => Self::of_type(other),
        }
    }

    /// Form of the values of two indexes together.
    fn with(self, other: Self) -> Self {
        let is_number = |form| matches!(form, ValueForm::Whole | ValueForm::Unsigned | ValueForm::Real);
        match (self, other) {
            (ValueForm::Unmapped, form) | (form, ValueForm::Unmapped) => form,
            (left, right) if left == right => left,
            (left, right) if is_number(left) && is_number(right) => ValueForm::Real,
            _ => ValueForm::Text,
        }
    }

    /// True if the values are points on a line.
    pub(super) fn is_numeric(self) -> bool {
        matches!(
            self,
            ValueForm::Whole | ValueForm::Unsigned | ValueForm::Real | ValueForm::Date | ValueForm::Boolean
        )
    }
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AggregatedValue {
    /// Also dates in milliseconds, and truth values as 0 and 1.
    Whole(i128),
    Real(f64),
    /// Those of the fourth version as the sixth maps them, so that all are on one line.
    Address(Ipv6Addr),
    Text(String),
}

impl Eq for AggregatedValue {}

impl PartialOrd for AggregatedValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AggregatedValue {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &AggregatedValue| match value {
            AggregatedValue::Whole(_) | AggregatedValue::Real(_) => 0,
            AggregatedValue::Address(_) => 1,
            AggregatedValue::Text(_) => 2,
        };
        match (self, other) {
            (AggregatedValue::Whole(left), AggregatedValue::Whole(right)) => left.cmp(right),
            (AggregatedValue::Address(left), AggregatedValue::Address(right)) => left.cmp(right),
            (AggregatedValue::Text(left), AggregatedValue::Text(right)) => left.cmp(right),
            (left, right) => match (left.number(), right.number()) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => rank(left).cmp(&rank(right)),
            },
        }
    }
}

impl AggregatedValue {
    /// The value as a number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            AggregatedValue::Whole(number) => Some(*number as f64),
            AggregatedValue::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// Address of a text.
    pub(super) fn address(text: &str) -> Option<Self> {
        Some(AggregatedValue::Address(match text.parse().ok()? {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        }))
    }

    /// The value as JSON has it.
    pub(super) fn json(&self) -> Value {
        match self {
            AggregatedValue::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => json!(*number as f64),
            },
            AggregatedValue::Real(number) => json!(number),
            AggregatedValue::Address(address) => address.to_canonical().to_string().into(),
            AggregatedValue::Text(text) => text.as_str().into(),
        }
    }
}

/// A range that is the value of a field; its ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ValueSpan {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// A field as the source of values.
#[derive(Debug, Clone)]
pub(super) struct FieldSource {
    field: String,
    pub(super) form: ValueForm,
    /// Value of documents that have none.
    missing: Option<AggregatedValue>,
    /// Format of numbers and dates in the answer.
    pub(super) format: Option<String>,
    pub(super) zone: TimeZone,
}

impl FieldSource {
    /// Reads `field`, `missing`, `format`, `time_zone` and `value_type` of an aggregation of a kind.
    ///
    /// # Errors
    /// One is missing or malformed, or the field has a type that cannot be aggregated.
    pub(super) fn new(
        kind: &str,
        options: &Map<String, Value>,
        indexes: &[OpenIndex],
    ) -> Result<Self, Error> {
        let Some(field) = options.get("field").and_then(Value::as_str) else {
            return Err(Error::IllegalArgument(format!(
                "Required one of fields [field, script], but none were specified. [{kind}]"
            )));
        };
        let mut form = match field {
            "_id" | "_index" | "_routing" | "_ignored" => ValueForm::Text,
            "_version" | "_seq_no" => ValueForm::Whole,
            _ => ValueForm::Unmapped,
        };
        let mut own_format = None;
        for index in indexes {
            let Some((definition, _)) = field_at(&index.entry.mappings, field) else { continue };
            let field_type = type_of(definition);
            if matches!(field_type, "object" | "passthrough") {
                continue;
            }
            if matches!(field_type, "text" | "match_only_text") && !is_flag(definition, "fielddata") {
                return Err(Error::IllegalArgument(format!(
                    "Text fields are not optimised for operations that require per-document field data like aggregations and \
                     sorting, so these operations are disabled by default. Please use a keyword field instead. Alternatively, set \
                     fielddata=true on [{field}] in order to load field data by uninverting the inverted index."
                )));
            }
            check_doc_values(&index.entry.mappings, field)?;
            let Some(own) = ValueForm::of_type(field_type) else {
                return Err(wrong_type(field, field_type, kind));
            };
            form = form.with(own);
            own_format = definition.get("format").and_then(Value::as_str).or(own_format);
        }
        let missing = options.get("missing").filter(|missing| !missing.is_null());
        if form == ValueForm::Unmapped {
            let named = options.get("value_type").and_then(Value::as_str);
            form = match (named, missing) {
                (Some(name), _) => ValueForm::of_value_type(name).ok_or_else(|| {
                    Error::IllegalArgument(format!("[{name}] is not a [value_type] that there is"))
                })?,
                (None, Some(Value::Number(number))) if number.is_f64() => ValueForm::Real,
                (None, Some(Value::Number(_))) => ValueForm::Whole,
                (None, Some(Value::Bool(_))) => ValueForm::Boolean,
                (None, Some(_)) => ValueForm::Text,
                (None, None) => ValueForm::Unmapped,
            };
        }
        let format = options.get("format").and_then(Value::as_str);
        let format = format.or(own_format.filter(|_| form == ValueForm::Date));
        let zone = match options.get("time_zone").map(text_of) {
            None => TimeZone::UTC,
            Some(name) => zone_of(&name)
                .ok_or_else(|| Error::IllegalArgument(format!("Unknown time-zone ID: {name}")))?,
        };
        let mut source = FieldSource {
            field: field.to_owned(),
            form,
            missing: None,
            format: format.map(str::to_owned),
            zone,
        };
        if let Some(missing) = missing {
            let value = source.parse(missing).ok_or_else(|| {
                Error::IllegalArgument(format!(
                    "[missing] [{}] cannot be read as a value of [{field}]",
                    text_of(missing)
                ))
            })?;
            source.missing = Some(value);
        }
        Ok(source)
    }

    /// A source of figures of buckets, which has no field.
    pub(super) fn of_figures(format: Option<&Value>) -> Self {
        FieldSource {
            field: String::new(),
            form: ValueForm::Real,
            missing: None,
            format: format.and_then(Value::as_str).map(str::to_owned),
            zone: TimeZone::UTC,
        }
    }

    /// Reads a source of numbers.
    ///
    /// # Errors
    /// Those of [`FieldSource::new`]; or the field has other values.
    pub(super) fn of_numbers(
        kind: &str,
        options: &Map<String, Value>,
        indexes: &[OpenIndex],
    ) -> Result<Self, Error> {
        let source = Self::new(kind, options, indexes)?;
        if source.form == ValueForm::Unmapped || source.form.is_numeric() {
            return Ok(source);
        }
        let definition = indexes.iter().find_map(|index| field_at(&index.entry.mappings, &source.field));
        match definition {
            Some((definition, _)) => Err(wrong_type(&source.field, type_of(definition), kind)),
            None => Err(Error::IllegalArgument(format!("[missing] of [{}] must be a number", source.field))),
        }
    }

    /// Reads a value as one of this field: of a document, or of a request.
    pub(super) fn parse(&self, value: &Value) -> Option<AggregatedValue> {
        self.parse_as(value, self.format.as_deref())
    }

    fn parse_as(&self, value: &Value, format: Option<&str>) -> Option<AggregatedValue> {
        let whole = |value: &Value| {
            let exact = match value {
                Value::Number(number) => {
                    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
                }
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            exact.or_else(|| number_of(value).map(|number| number.trunc() as i128))
        };
        match self.form {
            ValueForm::Whole | ValueForm::Unsigned => whole(value).map(AggregatedValue::Whole),
            ValueForm::Real => number_of(value).map(|number| AggregatedValue::Real(number + 0.0)),
            ValueForm::Date => {
                DateText::parse_value(value, format).map(|millis| AggregatedValue::Whole(millis.into()))
            }
            ValueForm::Boolean => match text_of(value).as_str() {
                "true" | "1" => Some(AggregatedValue::Whole(1)),
                "false" | "0" | "" => Some(AggregatedValue::Whole(0)),
                _ => None,
            },
            ValueForm::Address => AggregatedValue::address(&text_of(value)),
            ValueForm::Text | ValueForm::Unmapped => Some(AggregatedValue::Text(text_of(value))),
            ValueForm::Span | ValueForm::DateSpan => None,
        }
    }

    /// Values of a document, each once; that for documents without any if it has none.
    pub(super) fn of(&self, hit: &SearchHit) -> Vec<AggregatedValue> {
        let mut values = self.all(hit);
        values.sort();
        values.dedup();
        values
    }

    /// Values of a document as they stand there; that for documents without any if it has none.
    pub(super) fn all(&self, hit: &SearchHit) -> Vec<AggregatedValue> {
        let mut values = self.own(hit);
        if values.is_empty() {
            values.extend(self.missing.clone());
        }
        values
    }

    fn own(&self, hit: &SearchHit) -> Vec<AggregatedValue> {
        let text = |text: &str| vec![AggregatedValue::Text(text.to_owned())];
        match self.field.as_str() {
            "_index" => return text(&hit.index.entry.name),
            "_id" => return text(&hit.stored.id),
            "_routing" => return hit.stored.routing.as_deref().map(text).unwrap_or_default(),
            "_ignored" => {
                let names = ignored(&hit.index.entry.mappings, &hit.document, hit.index.is_log());
                return names.into_iter().map(AggregatedValue::Text).collect();
            }
            "_version" => return vec![AggregatedValue::Whole(hit.stored.version.into())],
            "_seq_no" => return vec![AggregatedValue::Whole(hit.stored.seq_no.into())],
            _ => {}
        }
        let Some((definition, source_path)) = hit.index.searched_at(&self.field) else {
            return Vec::new();
        };
        let values = all_at(hit.searched_members(), &source_path);
        if matches!(type_of(definition), "text" | "match_only_text") {
            let division = hit.index.analyzers.of_field(definition);
            let words = values.iter().flat_map(|value| division.words(&text_of(value)).into_words());
            return words.take(division.words_max()).map(AggregatedValue::Text).collect();
        }
        let fits = |value: &&&Value| is_searched(definition, value);
        let format = definition.get("format").and_then(Value::as_str);
        values.iter().filter(fits).filter_map(|value| self.parse_as(value, format)).collect()
    }

    /// Values of a document as numbers.
    pub(super) fn numbers(&self, hit: &SearchHit) -> Vec<f64> {
        self.all(hit).iter().filter_map(AggregatedValue::number).collect()
    }

    /// Ranges of a document; points are ranges of one value.
    pub(super) fn spans(&self, hit: &SearchHit) -> Vec<ValueSpan> {
        if !matches!(self.form, ValueForm::Span | ValueForm::DateSpan) {
            return self.numbers(hit).into_iter().map(|at| ValueSpan { from: at, to: at }).collect();
        }
        let Some((definition, source_path)) = hit.index.searched_at(&self.field) else {
            return Vec::new();
        };
        let field_type = type_of(definition);
        let format = definition.get("format").and_then(Value::as_str);
        let spans = all_at(hit.searched_members(), &source_path).into_iter().filter_map(Value::as_object);
        spans.map(|span| span_of(span, field_type, format)).collect()
    }

    /// Text of a value where an answer has one beside the value: of dates, of truth values, and by a format.
    pub(super) fn text(&self, value: &AggregatedValue) -> Option<String> {
        match (self.form, value) {
            (ValueForm::Date | ValueForm::DateSpan, AggregatedValue::Whole(millis)) => {
                let millis = i64::try_from(*millis).ok()?;
                Some(DateText::write(millis, self.format.as_deref(), &self.zone))
            }
            (ValueForm::Boolean, AggregatedValue::Whole(flag)) => Some((*flag != 0).to_string()),
            (_, value) => Some(decimal(value.number()?, self.format.as_deref()?)),
        }
    }

    /// Text of a number that was computed from values.
    pub(super) fn text_of_number(&self, number: f64) -> Option<String> {
        match self.form {
            ValueForm::Date => self.text(&AggregatedValue::Whole(number as i128)),
            ValueForm::Boolean => self.text(&AggregatedValue::Whole(i128::from(number != 0.0))),
            _ => self.text(&AggregatedValue::Real(number)),
        }
    }
}

fn wrong_type(field: &str, field_type: &str, kind: &str) -> Error {
    Error::IllegalArgument(format!(
        "Field [{field}] of type [{field_type}] is not supported for aggregation [{kind}]"
    ))
}

/// Reads a range as documents have it. Ends that do not belong to it go one step inwards.
pub(crate) fn span_of(span: &Map<String, Value>, field_type: &str, format: Option<&str>) -> ValueSpan {
    let is_real = matches!(field_type, "float_range" | "double_range");
    let end = |name: &str| -> Option<f64> {
        let value = span.get(name).filter(|value| !value.is_null())?;
        match field_type {
            "date_range" => DateText::parse_value(value, format).map(|millis| millis as f64),
            _ => number_of(value),
        }
    };
    let up = |number: f64| if is_real { number.next_up() } else { number.floor() + 1.0 };
    let down = |number: f64| if is_real { number.next_down() } else { number.ceil() - 1.0 };
    ValueSpan {
        from: end("gte").or(end("gt").map(up)).unwrap_or(f64::NEG_INFINITY),
        to: end("lte").or(end("lt").map(down)).unwrap_or(f64::INFINITY),
    }
}

/// Digits before the point that a pattern fills up to, and those after it.
const DIGITS_MAX: usize = 300;

/// Number by a pattern such as `#,##0.00`, with any text before and after it.
fn decimal(number: f64, pattern: &str) -> String {
    let is_part = |letter: char| "#0,.".contains(letter);
    let start = pattern.find(is_part).unwrap_or(pattern.len());
    let end = pattern.rfind(is_part).map_or(start, |end| end + 1);
    let (before, digits, after) = (&pattern[..start], &pattern[start..end], &pattern[end..]);
    let number = if after.starts_with('%') { number * 100.0 } else { number };
    let (whole_part, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let least = fraction.chars().filter(|digit| *digit == '0').count();
    let mut text = format!("{:.*}", fraction.len().min(DIGITS_MAX), number.abs());
    while text.contains('.') && text.split('.').next_back().map_or(0, str::len) > least && text.ends_with('0')
    {
        text.pop();
    }
    let text = text.trim_end_matches('.');
    let (whole, rest) =
        text.split_once('.').map_or((text, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let width = whole_part.chars().filter(|digit| *digit == '0').count().min(DIGITS_MAX);
    let whole = format!("{whole:0>width$}");
    let group = whole_part.rfind(',').map_or(usize::MAX, |at| whole_part.len() - at - 1).max(1);
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % group == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let quoted = |text: &str| text.replace('\'', "");
    format!("{sign}{}{grouped}{rest}{}", quoted(before), quoted(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_by_patterns() {
        for (number, pattern, expected) in [
            (3.0, "0.0", "3.0"),
            (1234567.891, "#,##0.00", "1,234,567.89"),
            (0.5, "#.##", "0.5"),
            (12.0, "#.##", "12"),
            (7.0, "000", "007"),
            (0.256, "0.#%", "25.6%"),
            (-4.5, "$0.00", "-$4.50"),
            (5.0, "Value is ##0.0", "Value is 5.0"),
        ] {
            assert_eq!(decimal(number, pattern), expected, "{pattern}");
        }
    }
}
