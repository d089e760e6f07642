//! Validation of a query's sort order against a schema.

use std::sync::Arc;

use millrace_document::DataType;
use millrace_query::{Query, QuerySortKey, SortOrder};
use millrace_schema::{Schema, SchemaField};

use crate::target::{self, holds_text};
use crate::{Error, LocaleCollation, MissingOrder, PlanContext, SortBy, SortColumn, TextOrder, number};

/// Sort keys, the most significant first.
pub(crate) fn columns(
    query: &Query,
    schema: &Schema,
    context: &PlanContext<'_>,
) -> Result<Vec<SortColumn>, Error> {
    let mut columns = Vec::with_capacity(query.sorting.len());
    for key in &query.sorting {
        let special = match key.field.as_str() {
            "[relevance]" => Some((SortBy::Relevance, true)),
            "[docid]" => Some((SortBy::DocumentId, false)),
            "[source]" => Some((SortBy::Source, false)),
            _ => None,
        };
        columns.push(match special {
            Some((by, descending)) => SortColumn {
                by,
                descending: key.order.map_or(descending, |order| order == SortOrder::Descending),
                missing: None,
            },
            None => match column(key, query, schema) {
                Err(Error::UnknownField { .. }) if (context.known_elsewhere)(&key.field).is_some() => {
                    column_of_other_schema(key)
                }
                column => column?,
            },
        });
    }
    Ok(columns)
}

/// Sort key on a field of other schemas.
fn column_of_other_schema(key: &QuerySortKey) -> SortColumn {
    SortColumn {
        by: SortBy::Elsewhere(key.field.as_str().into()),
        descending: key.order == Some(SortOrder::Descending),
        missing: match key.missing.as_ref().map(|(policy, _)| policy.as_str()) {
            Some("first") => Some(MissingOrder::First),
            Some("last") => Some(MissingOrder::Last),
            _ => None,
        },
    }
}

fn column(key: &QuerySortKey, query: &Query, schema: &Schema) -> Result<SortColumn, Error> {
    let wrong = |reason: String| Error::Sorting { field: key.field.clone(), reason };
    // Positions are sorted by their numbers on a z-curve, under a name of its own.
    let zcurve = schema.field_of_zcurve(&key.field);
    let targets = match target::resolve(schema, zcurve.map_or(key.field.as_str(), |field| &*field.name)) {
        Err(Error::Field { .. }) => {
            return Err(wrong("it is not an attribute; write: indexing: attribute".to_owned()));
        }
        targets => targets?,
    };
    let [target] = targets.as_slice() else {
        return Err(wrong("it stands for several fields; sort by one of them".to_owned()));
    };
    if !target.keys.is_empty() {
        return Err(wrong(
            "documents are not sorted by one entry of a map; sort by another field".to_owned(),
        ));
    }
    let attribute = |field: &SchemaField| field.attribute.is_some();
    let part = target.field.struct_fields.iter().any(|(_, part)| attribute(part));
    if !attribute(target.field) && !part {
        return Err(wrong("it is not an attribute; write: indexing: attribute".to_owned()));
    }
    let settings = target.sorting();
    let setting = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let by = if zcurve.is_some() {
        SortBy::Number(key.field.as_str().into())
    } else if holds_text(target.value_type) {
        SortBy::Text(Arc::clone(&target.path), text_order(key, query, setting)?)
    } else if number::kind(target.value_type).is_some() || *target.value_type == DataType::Bool {
        SortBy::Number(Arc::clone(&target.path))
    } else if *target.value_type == DataType::Raw {
        SortBy::Bytes(Arc::clone(&target.path))
    } else {
        let cure = match target.value_type {
            DataType::Position => format!("; write {}_zcurve", target.field.name),
            _ => String::new(),
        };
        return Err(wrong(format!("values of type {} have no order{cure}", target.value_type)));
    };
    let given = key.missing.as_ref().map(|(policy, value)| (policy.as_str(), value.clone()));
    let of_schema = setting("missing").map(|text| match text.strip_prefix("as ") {
        Some(value) => ("as", Some(value.to_owned())),
        None => (text, None),
    });
    let missing = match given.or(of_schema) {
        Some(("first", _)) => Some(MissingOrder::First),
        Some(("last", _)) => Some(MissingOrder::Last),
        Some(("as", Some(value))) => {
            if matches!(by, SortBy::Number(_)) && value.parse::<f64>().is_err() {
                return Err(wrong(format!(
                    "Failed converting string '{value}' to a number: missing values can be as any {}",
                    target.value_type
                )));
            }
            Some(MissingOrder::As(value))
        }
        // A document without a truth value is one whose value is false, as in conditions and groups.
        _ if target.field.data_type == DataType::Bool => Some(MissingOrder::As("0".to_owned())),
        _ => None,
    };
    let descending = match key.order {
        Some(order) => order == SortOrder::Descending,
        None => setting("order").is_some_and(|order| order.eq_ignore_ascii_case("descending")),
    };
    Ok(SortColumn { by, descending, missing })
}

/// Locale of a collation that is asked for by name, where neither it, the schema nor the query has one.
const DEFAULT_LOCALE: &str = "en_US";

/// Order of a key of text. The locale of a collation is the key's own, that of the schema, or the language of
/// the query. Where there is none, a collation that the query asks for is English, and any other is the order
/// of the letters.
fn text_order<'s>(
    key: &QuerySortKey,
    query: &Query,
    setting: impl Fn(&str) -> Option<&'s str>,
) -> Result<TextOrder, Error> {
    let (function, arguments) = match &key.function {
        Some((function, arguments)) => (function.as_str(), arguments.as_slice()),
        None => (setting("function").unwrap_or("uca"), [].as_slice()),
    };
    Ok(match function.to_ascii_lowercase().as_str() {
        "raw" => TextOrder::Raw,
        "lowercase" => TextOrder::Lowercase,
        _ => {
            let locale = arguments.first().map(String::as_str).or_else(|| setting("locale"));
            let locale = locale.filter(|locale| !locale.is_empty()).or(query.language.as_deref());
            let locale = locale.or(key.function.is_some().then_some(DEFAULT_LOCALE));
            let strength =
                arguments.get(1).map(String::as_str).or_else(|| setting("strength")).unwrap_or("PRIMARY");
            match locale {
                Some(locale) => {
                    TextOrder::Collated(LocaleCollation::new(locale, &strength.to_ascii_uppercase())?)
                }
                None => TextOrder::Lowercase,
            }
        }
    })
}
