//! The order of hits.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::dates::DateText;
use crate::evaluation::{FieldValueKind, compare_numbers, kind_of};
use crate::fields::all_at;
use crate::mapping::{field_at, type_of};
use crate::partitions::TimeSpan;
use crate::query::text_of;
use crate::search::SearchHit;

/// Order of hits by several keys.
#[derive(Debug, Clone)]
pub(crate) struct HitOrder {
    keys: Vec<HitOrderKey>,
}

#[derive(Debug, Clone)]
struct HitOrderKey {
    field: String,
    is_descending: bool,
    missing: Option<Value>,
    /// `min` or `max` of several values.
    takes_largest: bool,
    format: Option<String>,
}

/// Key of one hit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HitSortKey {
    Number(Value),
    Text(String),
    /// A date, with the text that is shown if there is a format.
    Date(i64, Option<String>),
    /// No value; true if it comes first.
    Missing(bool),
}

impl HitSortKey {
    /// Key as the answer shows it.
    pub(crate) fn shown(&self) -> Value {
        match self {
            HitSortKey::Number(number) => number.clone(),
            HitSortKey::Text(text) => text.as_str().into(),
            HitSortKey::Date(_, Some(text)) => text.as_str().into(),
            HitSortKey::Date(millis, None) => (*millis).into(),
            HitSortKey::Missing(_) => Value::Null,
        }
    }
}

impl HitOrder {
    /// Parses `sort`.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let one = |value: &Value| -> Result<Vec<HitOrderKey>, Error> {
            match value {
                Value::String(field) => Ok(vec![order_key(field, &Map::new())?]),
                Value::Object(fields) => fields
                    .iter()
                    .map(|(field, options)| match options {
                        Value::String(order) => {
                            let mut options = Map::new();
                            options.insert("order".to_owned(), order.as_str().into());
                            order_key(field, &options)
                        }
                        Value::Object(options) => match field.as_str() {
                            "_script" | "_geo_distance" => {
                                Err(Error::unsupported(&format!("a sort by [{field}]")))
                            }
                            _ => order_key(field, options),
                        },
                        _ => Err(Error::Parsing("malformed sort".to_owned())),
                    })
                    .collect(),
                _ => Err(Error::Parsing("malformed sort".to_owned())),
            }
        };
        let keys = match value {
            Value::Array(all) => all.iter().map(one).collect::<Result<Vec<_>, _>>()?.concat(),
            other => one(other)?,
        };
        Ok(HitOrder { keys })
    }

    /// True if the score is a key.
    pub(crate) fn is_by_score(&self) -> bool {
        self.keys.iter().any(|key| key.field == "_score")
    }

    /// True if the hits come in the order in which the store has their documents.
    pub(crate) fn is_by_place(&self) -> bool {
        matches!(self.keys.as_slice(), [key] if key.field == "_doc" && !key.is_descending)
    }

    /// Field whose greatest values come first.
    pub(crate) fn first_descending(&self) -> Option<&str> {
        self.keys.first().filter(|key| key.is_descending).map(|key| key.field.as_str())
    }

    /// True if a hit whose values of a date field are in this span can come before one with these keys, or be
    /// equal to it.
    pub(crate) fn can_precede(&self, field: &str, span: TimeSpan, keys: &[HitSortKey]) -> bool {
        let (Some(first), Some(HitSortKey::Date(last, _))) = (self.keys.first(), keys.first()) else {
            return true;
        };
        // Hits without a value come last, unless it says otherwise.
        let is_placed = first.missing.as_ref().is_some_and(|missing| missing != "_last");
        if first.field != field || is_placed {
            return true;
        }
        if first.is_descending { span.1 >= *last } else { span.0 <= *last }
    }

    /// Keys of a hit.
    pub(crate) fn keys(&self, hit: &SearchHit) -> Vec<HitSortKey> {
        self.keys.iter().map(|key| key.of(hit)).collect()
    }

    /// Order of two hits by their keys.
    pub(crate) fn compare(&self, left: &[HitSortKey], right: &[HitSortKey]) -> Ordering {
        let keys = self.keys.iter().zip(left.iter().zip(right));
        keys.fold(Ordering::Equal, |order, (key, (left, right))| {
            order.then_with(|| compare_keys(left, right, key.is_descending))
        })
    }

    /// Keys of `search_after`.
    ///
    /// # Errors
    /// They are more or fewer than the keys of the order.
    pub(crate) fn after(&self, values: &[Value], indexes: &[OpenIndex]) -> Result<Vec<HitSortKey>, Error> {
        if values.len() != self.keys.len() {
            return Err(Error::IllegalArgument(format!(
                "search_after has {} value(s) but sort has {}.",
                values.len(),
                self.keys.len()
            )));
        }
        let of = |(key, value): (&HitOrderKey, &Value)| match value {
            Value::Null => {
                HitSortKey::Missing(key.missing.as_ref().is_some_and(|missing| missing == "_first"))
            }
            Value::String(text) => {
                let own = indexes.iter().find_map(|index| field_at(&index.entry.mappings, &key.field));
                let own = own.map(|(definition, _)| definition);
                let is_date = own.is_some_and(|own| kind_of(type_of(own)) == FieldValueKind::Date);
                let own_format = own.and_then(|own| own.get("format")).and_then(Value::as_str);
                let formats = [key.format.as_deref(), own_format, None];
                let millis = formats.into_iter().find_map(|format| DateText::parse(text, format));
                match millis.filter(|_| is_date) {
                    Some(millis) => HitSortKey::Date(millis, None),
                    None => HitSortKey::Text(text.clone()),
                }
            }
            number => HitSortKey::Number(number.clone()),
        };
        Ok(self.keys.iter().zip(values).map(of).collect())
    }
}

fn order_key(field: &str, options: &Map<String, Value>) -> Result<HitOrderKey, Error> {
    // Indexes that lack the field have no value, of any type.
    const KNOWN: [&str; 6] = ["order", "mode", "missing", "format", "unmapped_type", "numeric_type"];
    if let Some(unknown) = options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Error::Content(format!("[field_sort] unknown field [{unknown}]")));
    }
    let is_descending = match options.get("order").map(text_of) {
        None => field == "_score",
        Some(order) if order.eq_ignore_ascii_case("desc") => true,
        Some(order) if order.eq_ignore_ascii_case("asc") => false,
        Some(order) => {
            return Err(Error::IllegalArgument(format!(
                "Unknown SortOrder [{order}] of [{field}]; write asc or desc"
            )));
        }
    };
    let takes_largest = match options.get("mode").map(text_of) {
        None => is_descending,
        Some(mode) if mode.eq_ignore_ascii_case("max") => true,
        Some(mode) if mode.eq_ignore_ascii_case("min") => false,
        Some(mode) => return Err(Error::unsupported(&format!("a sort with the mode [{mode}]"))),
    };
    Ok(HitOrderKey {
        field: field.to_owned(),
        is_descending,
        missing: options.get("missing").cloned(),
        takes_largest,
        format: options.get("format").map(text_of),
    })
}

impl HitOrderKey {
    fn of(&self, hit: &SearchHit) -> HitSortKey {
        match self.field.as_str() {
            "_score" => return HitSortKey::Number(hit.score.into()),
            "_doc" | "_shard_doc" | "_seq_no" => return HitSortKey::Number(hit.stored.seq_no.into()),
            "_id" => return HitSortKey::Text(hit.stored.id.clone()),
            "_index" => return HitSortKey::Text(hit.index.entry.name.clone()),
            _ => {}
        }
        let missing = || match &self.missing {
            None => HitSortKey::Missing(false),
            Some(value) if *value == "_last" => HitSortKey::Missing(false),
            Some(value) if *value == "_first" => HitSortKey::Missing(true),
            Some(value @ Value::Number(_)) => HitSortKey::Number(value.clone()),
            Some(value) => HitSortKey::Text(text_of(value)),
        };
        let Some((definition, place)) = field_at(&hit.index.entry.mappings, &self.field) else {
            return missing();
        };
        let own_format = definition.get("format").and_then(Value::as_str);
        let kind = kind_of(type_of(definition));
        let key = |value: &&Value| match kind {
            FieldValueKind::Number => Some(HitSortKey::Number(match value {
                Value::String(text) => text
                    .parse::<i64>()
                    .map(Value::from)
                    .or_else(|_| text.parse::<f64>().map(Value::from))
                    .ok()?,
                other => (*other).clone(),
            })),
            FieldValueKind::Boolean => Some(HitSortKey::Number(i64::from(text_of(value) == "true").into())),
            FieldValueKind::Date => {
                let millis = DateText::parse_value(value, own_format)?;
                let shown = self
                    .format
                    .as_deref()
                    .map(|format| DateText::write(millis, Some(format), &jiff::tz::TimeZone::UTC));
                Some(HitSortKey::Date(millis, shown))
            }
            _ => Some(HitSortKey::Text(text_of(value))),
        };
        let values = all_at(&hit.document, &place);
        let mut keys: Vec<HitSortKey> = values.iter().filter_map(key).collect();
        keys.sort_by(|left, right| compare_keys(left, right, self.takes_largest));
        keys.into_iter().next().unwrap_or_else(missing)
    }
}

fn compare_keys(left: &HitSortKey, right: &HitSortKey, is_descending: bool) -> Ordering {
    let turned = |order: Ordering| if is_descending { order.reverse() } else { order };
    match (left, right) {
        (HitSortKey::Missing(_), HitSortKey::Missing(_)) => Ordering::Equal,
        (HitSortKey::Missing(true), _) | (_, HitSortKey::Missing(false)) => Ordering::Less,
        (HitSortKey::Missing(false), _) | (_, HitSortKey::Missing(true)) => Ordering::Greater,
        (HitSortKey::Number(left), HitSortKey::Number(right)) => {
            turned(compare_numbers(left, right).unwrap_or(Ordering::Equal))
        }
        (HitSortKey::Date(left, _), HitSortKey::Date(right, _)) => turned(left.cmp(right)),
        (HitSortKey::Date(left, _), HitSortKey::Number(right)) => {
            turned(compare_numbers(&Value::from(*left), right).unwrap_or(Ordering::Equal))
        }
        (HitSortKey::Number(left), HitSortKey::Date(right, _)) => {
            turned(compare_numbers(left, &Value::from(*right)).unwrap_or(Ordering::Equal))
        }
        (left, right) => {
            let text = |key: &HitSortKey| text_of(&key.shown());
            turned(text(left).cmp(&text(right)))
        }
    }
}
