//! Mappings: the fields of an index, declared or taken from documents.

mod checks;
mod defaults;
mod dynamic;
mod fitting;
mod layers;
mod parameters;

use serde_json::{Map, Value, json};

pub(crate) use self::checks::{PartOrigin, check, check_limit, check_whole};
pub(crate) use self::defaults::{apply_settings, ignores_beyond_limit};
pub(crate) use self::dynamic::drop_malformed;
pub(crate) use self::fitting::{
    FieldRoom, LenientFit, fit_in_place, inferred, lacks_fields, observe, unfit_fields,
};
pub(crate) use self::layers::lay_over;
pub(crate) use self::parameters::check_named;
use crate::Error;
use crate::dates::DateText;
use crate::query::text_of;
use crate::searched_form::is_formed;
use crate::vector_similarity::{dimensions_of, is_vector, misfit_of, vector_of};

/// Types whose values are kept, shown, and known to exist: no other query, order or aggregation reads them.
const KEPT_TYPES: [&str; 13] = [
    "aggregate_metric_double",
    "binary",
    "dense_vector",
    "geo_point",
    "geo_shape",
    "histogram",
    "knn_vector",
    "point",
    "rank_feature",
    "rank_features",
    "shape",
    "xy_point",
    "xy_shape",
];

/// True if no query, order or aggregation reads the values of a type.
pub(crate) fn is_kept(kind: &str) -> bool {
    KEPT_TYPES.contains(&kind)
}

/// True for the types of objects with fields.
pub(crate) fn is_object(kind: &str) -> bool {
    matches!(kind, "object" | "nested" | "passthrough")
}

/// Depth of objects in a document.
const DEPTH_MAX: usize = 20;

/// Definition of the field at a path, with the name of the field in documents that has its values; `None` if
/// the mapping lacks it. A field that stands for another is that one, which stands for itself.
pub(crate) fn field_at<'m>(
    mappings: &'m Map<String, Value>,
    path: &str,
) -> Option<(&'m Map<String, Value>, String)> {
    found_at(mappings, path, true).map(|(definition, source_path, _)| (definition, source_path))
}

/// Definition of the field at a path as [`field_at`] finds it, with the name that its values have in the
/// [form](crate::searched_form) in which searches read documents. `passes_fields` says that the mapping may
/// have objects that pass their fields through: of a path that is none of a field, all fields are gone
/// through for them.
pub(crate) fn searched_at<'m>(
    mappings: &'m Map<String, Value>,
    path: &str,
    passes_fields: bool,
) -> Option<(&'m Map<String, Value>, String)> {
    let (definition, source_path, target) = found_at(mappings, path, passes_fields)?;
    let own = target.as_deref().unwrap_or(path);
    match is_formed(definition) || is_part_of_formed(mappings, own, &source_path) {
        true => Some((definition, own.to_owned())),
        false => Some((definition, source_path)),
    }
}

/// True for a field in another one, at whose source path its values are, if the values of this one have
/// another form there.
pub(crate) fn is_part_of_formed(mappings: &Map<String, Value>, path: &str, source_path: &str) -> bool {
    path != source_path && declared_at(mappings, source_path).is_some_and(|(around, _)| is_formed(around))
}

/// Definition and source path of a field, and the path of the one that it stands for.
fn found_at<'m>(
    mappings: &'m Map<String, Value>,
    path: &str,
    passes_fields: bool,
) -> Option<(&'m Map<String, Value>, String, Option<String>)> {
    let Some((definition, source_path)) = declared_at(mappings, path) else {
        if !passes_fields {
            return None;
        }
        // A field of an object that passes its fields through has a name without that of the object, too.
        return passed_through(mappings).into_iter().find_map(|object| {
            let own = format!("{object}.{path}");
            let (definition, source_path) = declared_at(mappings, &own)?;
            Some((definition, source_path, Some(own)))
        });
    };
    if type_of(definition) != "alias" {
        return Some((definition, source_path, None));
    }
    let target = definition.get("path").and_then(Value::as_str).unwrap_or_default();
    let (definition, source_path) =
        declared_at(mappings, target).filter(|(field, _)| type_of(field) != "alias")?;
    Some((definition, source_path, Some(target.to_owned())))
}

/// True if a mapping has objects that pass their fields through.
pub(crate) fn passes_fields(mappings: &Map<String, Value>) -> bool {
    !passed_through(mappings).is_empty()
}

/// Paths of the objects that pass their fields through, by their priority.
fn passed_through(mappings: &Map<String, Value>) -> Vec<String> {
    fn walk(properties: Option<&Value>, before: &str, found: &mut Vec<(u64, String)>) {
        for (name, field) in properties.and_then(Value::as_object).into_iter().flatten() {
            let Some(field) = field.as_object() else { continue };
            let kind = type_of(field);
            if !is_object(kind) || kind == "nested" {
                continue;
            }
            let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
            walk(field.get("properties"), &path, found);
            if kind == "passthrough" {
                found.push((field.get("priority").and_then(Value::as_u64).unwrap_or_default(), path));
            }
        }
    }
    let mut found = Vec::new();
    walk(mappings.get("properties"), "", &mut found);
    found.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    found.into_iter().map(|(_, path)| path).collect()
}

fn declared_at<'m>(mappings: &'m Map<String, Value>, path: &str) -> Option<(&'m Map<String, Value>, String)> {
    let mut properties = mappings.get("properties")?.as_object()?;
    if let Some(field) = properties.get(path).and_then(Value::as_object) {
        return Some((field, path.to_owned()));
    }
    let parts: Vec<&str> = path.split('.').collect();
    let mut from = 0;
    // A name may itself have dots: the longest one that is declared counts.
    'walk: while from < parts.len() {
        for to in (from + 1..=parts.len()).rev() {
            let Some(field) = properties.get(&parts[from..to].join(".")).and_then(Value::as_object) else {
                continue;
            };
            if to == parts.len() {
                return Some((field, path.to_owned()));
            }
            if let Some(below) = field.get("properties").and_then(Value::as_object) {
                properties = below;
                from = to;
                continue 'walk;
            }
            let kind = field.get("type").and_then(Value::as_str);
            if matches!(kind, Some("flat_object" | "flattened")) {
                return Some((field, path.to_owned()));
            }
            if to + 1 == parts.len()
                && let Some(multi) = field.get("fields").and_then(|fields| fields.get(parts[to]))
            {
                return Some((multi.as_object()?, parts[..to].join(".")));
            }
            return None;
        }
        return None;
    }
    None
}

/// Type of a field by its definition.
pub(crate) fn type_of(field: &Map<String, Value>) -> &str {
    field.get("type").and_then(Value::as_str).unwrap_or("object")
}

/// All fields with their paths and definitions, multi-fields included.
pub(crate) fn all_fields(mappings: &Map<String, Value>) -> Vec<(String, &Map<String, Value>)> {
    fn walk<'m>(
        properties: Option<&'m Value>,
        before: &str,
        all: &mut Vec<(String, &'m Map<String, Value>)>,
    ) {
        for (name, field) in properties.and_then(Value::as_object).into_iter().flatten() {
            let Some(field) = field.as_object() else { continue };
            let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
            all.push((path.clone(), field));
            walk(field.get("properties"), &path, all);
            walk(field.get("fields"), &path, all);
        }
    }
    let mut all = Vec::new();
    walk(mappings.get("properties"), "", &mut all);
    all
}

/// Path of the innermost nested object around a field.
pub(crate) fn nested_around<'p>(mappings: &Map<String, Value>, path: &'p str) -> Option<&'p str> {
    let mut outer = path.rmatch_indices('.').map(|(end, _)| &path[..end]);
    outer.find(|outer| {
        declared_at(mappings, outer).is_some_and(|(definition, _)| type_of(definition) == "nested")
    })
}

/// Number of all fields, multi-fields included.
pub(crate) fn count_fields(mappings: &Map<String, Value>) -> usize {
    let below = |name: &str| mappings.get(name).and_then(Value::as_object).into_iter().flatten();
    let fields = below("properties").chain(below("fields")).filter_map(|(_, field)| field.as_object());
    fields.map(|field| 1 + count_fields(field)).sum()
}

/// Adds the fields of `added` to a mapping.
///
/// # Errors
/// A field has another type there.
pub(crate) fn merge(mappings: &mut Map<String, Value>, added: &Map<String, Value>) -> Result<(), Error> {
    let added = layers::expanded(added);
    for (name, value) in &added {
        if name != "properties" {
            mappings.insert(name.clone(), value.clone());
        }
    }
    if let Some(Value::Object(properties)) = added.get("properties") {
        let own = mappings.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            *own = layers::expanded_fields(own);
            merge_properties(own, properties, "")?;
        }
    }
    Ok(())
}

fn merge_properties(
    own: &mut Map<String, Value>,
    added: &Map<String, Value>,
    before: &str,
) -> Result<(), Error> {
    for (name, field) in added {
        let path = format!("{before}{name}");
        let Some(field) = field.as_object() else { continue };
        let Some(Value::Object(known)) = own.get_mut(name) else {
            own.insert(name.clone(), Value::Object(field.clone()));
            continue;
        };
        let (was, is) = (type_of(known).to_owned(), type_of(field));
        if was != is {
            return Err(Error::IllegalArgument(format!(
                "mapper [{path}] cannot be changed from type [{was}] to [{is}]"
            )));
        }
        for (key, value) in field {
            match (key.as_str(), value) {
                ("properties" | "fields", Value::Object(added)) => {
                    let below = known.entry(key.clone()).or_insert_with(|| json!({}));
                    if let Value::Object(below) = below {
                        merge_properties(below, added, &format!("{path}."))?;
                    }
                }
                _ => drop(known.insert(key.clone(), value.clone())),
            }
        }
    }
    Ok(())
}

/// Adds the fields of another mapping that this one lacks.
pub(crate) fn add_missing(own: &mut Map<String, Value>, other: &Map<String, Value>) {
    let Some(Value::Object(added)) = other.get("properties") else { return };
    let properties = own.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else { return };
    for (name, field) in added {
        match (properties.get_mut(name), field) {
            (None, field) => drop(properties.insert(name.clone(), field.clone())),
            (Some(Value::Object(own)), Value::Object(field)) if type_of(own) == type_of(field) => {
                add_missing(own, field);
            }
            _ => {}
        }
    }
}

/// True if searches find a value of a field: it is not longer than `ignore_above` says, and not malformed
/// where that is allowed.
pub(crate) fn is_searched(field: &Map<String, Value>, value: &Value) -> bool {
    let is_long = field.get("ignore_above").and_then(Value::as_u64).is_some_and(|limit| match value {
        // Each letter has a byte at least.
        Value::String(text) => text.len() as u64 > limit && text.chars().count() as u64 > limit,
        other => text_of(other).chars().count() as u64 > limit,
    });
    let is_left_out =
        is_flag(field, "ignore_malformed") && check_value(field, type_of(field), value).is_err();
    !is_long && !is_left_out
}

/// Checks that the field at a path can be searched.
///
/// # Errors
/// Its mapping says that it cannot.
pub(crate) fn check_searchable(mappings: &Map<String, Value>, path: &str) -> Result<(), Error> {
    let Some((field, _)) = field_at(mappings, path) else { return Ok(()) };
    if is_on(field, "index") {
        return Ok(());
    }
    let reason = match type_of(field) {
        "text" | "match_only_text" | "search_as_you_type" => "not indexed",
        _ if is_on(field, "doc_values") => return Ok(()),
        _ => "not indexed nor has doc values",
    };
    Err(Error::IllegalArgument(format!(
        "failed to create query: Cannot search on field [{path}] since it is {reason}."
    )))
}

/// Checks that a query can compare the values of the field at a path.
///
/// # Errors
/// They are of a type whose values are kept, and no more.
pub(crate) fn check_compared(mappings: &Map<String, Value>, path: &str) -> Result<(), Error> {
    match field_at(mappings, path).map(|(field, _)| type_of(field)).filter(|kind| is_kept(kind)) {
        Some(kind) => Err(Error::IllegalArgument(format!(
            "failed to create query: the values of [{path}] are of type [{kind}], which is kept and shown here; of queries there \
             is [exists]"
        ))),
        None => Ok(()),
    }
}

/// Checks that the values of the field at a path can be sorted and aggregated.
///
/// # Errors
/// Its mapping says that they cannot, or their type does.
pub(crate) fn check_doc_values(mappings: &Map<String, Value>, path: &str) -> Result<(), Error> {
    match field_at(mappings, path) {
        Some((field, _)) if is_kept(type_of(field)) => Err(Error::IllegalArgument(format!(
            "[{path}] is of type [{}], whose values are kept and shown here, and neither sorted nor aggregated",
            type_of(field)
        ))),
        Some((field, _)) if !is_on(field, "doc_values") => Err(Error::IllegalArgument(format!(
            "Can't load fielddata on [{path}] because fielddata is unsupported on fields of type [{}]. Use doc values \
             instead.",
            type_of(field)
        ))),
        _ => Ok(()),
    }
}

/// True if a parameter of a field that is set by default is not unset.
fn is_on(field: &Map<String, Value>, name: &str) -> bool {
    field.get(name).is_none_or(|flag| *flag != false && *flag != "false")
}

/// True if a parameter of a field is set.
pub(crate) fn is_flag(field: &Map<String, Value>, name: &str) -> bool {
    field.get(name).is_some_and(|flag| *flag == true || *flag == "true")
}

/// Checks that a value can be one of a type. The error has a type and a reason.
pub(crate) fn check_value(
    field: &Map<String, Value>,
    kind: &str,
    value: &Value,
) -> Result<(), (&'static str, String)> {
    let number = || match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    let illegal = |reason: String| Err(("illegal_argument_exception", reason));
    let shown = || text_of(value);
    let within = |min: f64, max: f64| match number() {
        None if value.is_object() => illegal("Cannot parse object as number".to_owned()),
        None => Err(("number_format_exception", format!("For input string: \"{}\"", shown()))),
        Some(number) if number < min || number > max => {
            illegal(format!("Value [{}] is out of range for a {kind}", shown()))
        }
        Some(_) => Ok(()),
    };
    parameters::check_uncoerced(field, value)?;
    match kind {
        "long" => within(i64::MIN as f64, i64::MAX as f64),
        "integer" => within(f64::from(i32::MIN), f64::from(i32::MAX)),
        "short" => within(f64::from(i16::MIN), f64::from(i16::MAX)),
        "byte" => within(f64::from(i8::MIN), f64::from(i8::MAX)),
        "unsigned_long" => within(0.0, u64::MAX as f64),
        "double" | "float" | "half_float" | "scaled_float" => within(f64::MIN, f64::MAX),
        "boolean" => match value {
            Value::Bool(_) => Ok(()),
            Value::String(text) if ["true", "false", ""].contains(&text.as_str()) => Ok(()),
            _ => {
                illegal(format!("Failed to parse value [{}] as only [true] or [false] are allowed.", shown()))
            }
        },
        "date" | "date_nanos" => fault_of_date(field, kind, value).map_or(Ok(()), illegal),
        "histogram" if !is_histogram(value) => {
            illegal("a histogram has numbers as [values], and as many [counts]".to_owned())
        }
        "rank_feature" if number().is_none_or(|number| number <= 0.0) => {
            illegal(format!("a rank feature is a positive number, and [{}] is not", shown()))
        }
        "rank_features" | "aggregate_metric_double"
            if !value.as_object().is_some_and(|members| members.values().all(Value::is_number)) =>
        {
            illegal(format!("an object of numbers is expected, found [{}]", shown()))
        }
        kind if is_vector(kind) => fault_of_vector(field, kind, value).map_or(Ok(()), illegal),
        "geo_shape" | "shape" | "xy_shape" if !value.is_object() && !value.is_string() => {
            illegal(format!("a shape is an object or a text, and [{}] is neither", shown()))
        }
        "ip" => match value.as_str().map(|text| text.parse::<std::net::IpAddr>()) {
            Some(Ok(_)) => Ok(()),
            _ => illegal(format!("'{}' is not an IP string literal.", shown())),
        },
        "text" | "keyword" | "wildcard" | "match_only_text" | "constant_keyword" | "counted_keyword"
        | "version" | "token_count" | "search_as_you_type"
            if value.is_object() =>
        {
            illegal("Can't get text on a START_OBJECT at 1:1".to_owned())
        }
        "constant_keyword" => match field.get("value").map(text_of) {
            Some(constant) if constant != shown() => illegal(format!(
                "[constant_keyword] field only accepts values that are equal to the value defined in the mappings \
                 [{constant}], but got [{}]",
                shown()
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Reason for which a date cannot be stored.
fn fault_of_date(field: &Map<String, Value>, kind: &str, value: &Value) -> Option<String> {
    let format = field.get("format").and_then(Value::as_str);
    let is_nanos = kind == "date_nanos";
    match DateText::parse_value(value, format) {
        Some(millis) if is_nanos && millis < 0 => Some(format!(
            "date[{}] is before the epoch in 1970 and cannot be stored in nanosecond resolution",
            text_of(value)
        )),
        Some(millis) if is_nanos && millis > 9_223_372_036_854 => Some(format!(
            "date[{}] is after 2262-04-11T23:47:16.854775807 and cannot be stored in nanosecond resolution",
            text_of(value)
        )),
        Some(_) => None,
        None => Some(format!(
            "failed to parse date field [{}] with format [{}]",
            text_of(value),
            format.unwrap_or("strict_date_optional_time||epoch_millis")
        )),
    }
}

fn is_histogram(value: &Value) -> bool {
    let list = |name: &str| value.get(name).and_then(Value::as_array);
    list("values").zip(list("counts")).is_some_and(|(values, counts)| {
        values.len() == counts.len()
            && values.iter().all(Value::is_number)
            && counts.iter().all(Value::is_u64)
    })
}

/// Reason for which a vector cannot be stored.
fn fault_of_vector(field: &Map<String, Value>, kind: &str, value: &Value) -> Option<String> {
    let Some(vector) = vector_of(value) else {
        return Some(format!("a [{kind}] is an array of numbers, one at least"));
    };
    if let Some(wanted) = dimensions_of(field).filter(|wanted| *wanted != vector.len()) {
        return Some(format!(
            "The [{kind}] field has a different number of dimensions [{}] than defined in the mapping [{wanted}]",
            vector.len()
        ));
    }
    let element = misfit_of(field, &vector)?;
    Some(format!(
        "element_type [byte] vectors only support integers between [-128, 127] but found [{element}]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("the test's text is an object")
    }

    #[test]
    fn new_fields_are_added_by_their_values() {
        let mut mappings = Map::new();
        let document = object(
            r#"{"n":1,"x":1.5,"t":"a b","d":"2024-01-02","b":true,"o":{"p":[null,2]},"e":null,"l":[],"a.b":"c"}"#,
        );
        assert!(fit_in_place(&mut mappings, &document).expect("it fits"));
        for (path, kind) in [
            ("n", "long"),
            ("x", "float"),
            ("t", "text"),
            ("t.keyword", "keyword"),
            ("d", "date"),
            ("b", "boolean"),
            ("o", "object"),
            ("o.p", "long"),
            ("a.b", "text"),
            ("a.b.keyword", "keyword"),
        ] {
            let found = field_at(&mappings, path).map(|(field, _)| type_of(field).to_owned());
            assert_eq!(found.as_deref(), Some(kind), "{path}");
        }
        assert!(field_at(&mappings, "e").is_none(), "null has no type");
        assert_eq!(count_fields(&mappings), all_fields(&mappings).len());
        assert!(!fit_in_place(&mut mappings, &document).expect("it fits"), "nothing is new");
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let mappings = object(
            r#"{"properties":{"n":{"type":"long"},"i":{"type":"byte"},"d":{"type":"date"},"t":{"type":"text"},
            "o":{"properties":{}},"b":{"type":"boolean"},"p":{"type":"ip"},"m":{"type":"long","ignore_malformed":true}}}"#,
        );
        for (document, expected) in [
            (r#"{"n":"x"}"#, "failed to parse field [n] of type [long]"),
            (r#"{"n":{"deep":1}}"#, "failed to parse field [n] of type [long]"),
            (r#"{"i":300}"#, "failed to parse field [i] of type [byte]"),
            (r#"{"d":"yesterday"}"#, "failed to parse field [d] of type [date]"),
            (r#"{"t":{"a":1}}"#, "failed to parse field [t] of type [text]"),
            (
                r#"{"o":1}"#,
                "object mapping for [o] tried to parse field [o] as object, but found a concrete value",
            ),
            (r#"{"b":"yes"}"#, "failed to parse field [b] of type [boolean]"),
            (r#"{"p":"300.1.1.1"}"#, "failed to parse field [p] of type [ip]"),
            (r#"{"":1}"#, "failed to parse"),
        ] {
            let error = fit_in_place(&mut mappings.clone(), &object(document)).expect_err(document);
            assert_eq!(error.to_string(), expected, "{document}");
            assert_eq!((error.kind(), error.status()), ("document_parsing_exception", 400));
        }
        let fits = r#"{"n":"12","m":"x","d":1700000000000,"b":"false","p":"::1","o":{"q":1}}"#;
        assert!(fit_in_place(&mut mappings.clone(), &object(fits)).is_ok());
    }

    #[test]
    fn strict_mappings_take_no_new_field() {
        let mut mappings =
            object(r#"{"dynamic":"strict","properties":{"o":{"dynamic":true,"properties":{}}}}"#);
        assert!(fit_in_place(&mut mappings, &object(r#"{"o":{"new":1}}"#)).expect("the object is dynamic"));
        let error = fit_in_place(&mut mappings, &object(r#"{"x":1}"#)).expect_err("the root is strict");
        assert_eq!(
            error.to_string(),
            "mapping set to strict, dynamic introduction of [x] within [_doc] is not allowed"
        );
        let mut ignoring = object(r#"{"dynamic":false}"#);
        assert!(!fit_in_place(&mut ignoring, &object(r#"{"x":1}"#)).expect("it is passed over"));
    }
}
