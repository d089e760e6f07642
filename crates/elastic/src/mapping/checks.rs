//! Checks of mappings: what requests declare, and what templates have kept.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::{DEPTH_MAX, count_fields, dynamic, is_object, parameters, type_of};
use crate::Error;

/// Setting with the number of fields that an index may have.
const FIELDS_LIMIT: &str = "index.mapping.total_fields.limit";

/// Fields that an index may have whose settings name no number.
const FIELDS_BY_DEFAULT: usize = 1_000;

/// Fields that an index may have, at most.
const FIELDS_MAX: usize = 20_000;

/// Field types that mappings may name.
const TYPES: [&str; 47] = [
    "text",
    "keyword",
    "long",
    "integer",
    "short",
    "byte",
    "double",
    "float",
    "half_float",
    "scaled_float",
    "date",
    "date_nanos",
    "boolean",
    "binary",
    "ip",
    "object",
    "nested",
    "wildcard",
    "match_only_text",
    "constant_keyword",
    "unsigned_long",
    "flat_object",
    "flattened",
    "alias",
    "token_count",
    "integer_range",
    "long_range",
    "date_range",
    "search_as_you_type",
    "geo_point",
    "float_range",
    "double_range",
    "ip_range",
    "version",
    "passthrough",
    "counted_keyword",
    "histogram",
    "aggregate_metric_double",
    "rank_feature",
    "rank_features",
    "geo_shape",
    "shape",
    "point",
    "xy_point",
    "xy_shape",
    "dense_vector",
    "knn_vector",
];

/// Origin of a part of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartOrigin {
    /// A request gives it now.
    Given,
    /// It was checked when it was given, perhaps by an earlier version: writes depend on it, and what that
    /// version took has to be taken.
    Kept,
}

/// Checks of the parameters of fields.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterCheck {
    /// Those of fields with types.
    OfType,
    /// Those of fields whose type is not known yet.
    OfAnyType,
    /// None.
    Nothing,
}

/// Checks a mapping by itself.
///
/// # Errors
/// A part of it is malformed, or is not known. Of one that is kept, only what no version took is an error.
pub(crate) fn check(mappings: &Map<String, Value>, origin: PartOrigin) -> Result<(), Error> {
    const KNOWN: [&str; 13] = [
        "properties",
        "dynamic",
        "enabled",
        "_source",
        "_routing",
        "_meta",
        "dynamic_templates",
        "date_detection",
        "numeric_detection",
        "dynamic_date_formats",
        "_data_stream_timestamp",
        "_field_names",
        "_size",
    ];
    if let Some(unknown) = mappings.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Error::mapping(format!(
            "Failed to parse mapping [_doc]: Root mapping definition has unsupported parameters:  [{unknown} : {}]",
            mappings[unknown]
        )));
    }
    match origin {
        PartOrigin::Given => {
            parameters::check_root(mappings)?;
            mappings.get("dynamic_templates").map_or(Ok(()), dynamic::check_templates)?;
            check_properties(mappings.get("properties"), 0, ParameterCheck::OfType)?;
            check_whole(mappings)
        }
        PartOrigin::Kept => {
            check_properties(mappings.get("properties"), 0, ParameterCheck::Nothing)?;
            check_number(mappings, FIELDS_MAX)
        }
    }
}

/// Checks a mapping whose fields were checked before, some of them by an earlier version.
pub(crate) fn check_whole(mappings: &Map<String, Value>) -> Result<(), Error> {
    check_objects(mappings)?;
    check_number(mappings, FIELDS_MAX)
}

/// Refuses a field that is an object by the names of others, and has a type of its own: one of the two would
/// be lost.
fn check_objects(mappings: &Map<String, Value>) -> Result<(), Error> {
    fn walk(
        properties: Option<&Value>,
        before: &str,
        objects: &mut Vec<String>,
        others: &mut HashSet<String>,
    ) {
        for (name, field) in properties.and_then(Value::as_object).into_iter().flatten() {
            let Some(field) = field.as_object() else { continue };
            let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
            if !is_object(type_of(field)) {
                others.insert(path.clone());
            }
            let ends = path.match_indices('.').map(|(end, _)| end).filter(|end| *end > before.len());
            objects.extend(ends.map(|end| path[..end].to_owned()));
            walk(field.get("properties"), &path, objects, others);
        }
    }
    let (mut objects, mut others) = (Vec::new(), HashSet::new());
    walk(mappings.get("properties"), "", &mut objects, &mut others);
    match objects.iter().find(|path| others.contains(*path)) {
        Some(path) => Err(Error::IllegalArgument(format!(
            "can't merge a non object mapping [{path}] with an object mapping"
        ))),
        None => Ok(()),
    }
}

/// Checks the number of the fields of an index by its settings.
///
/// # Errors
/// There are more.
pub(crate) fn check_limit(
    mappings: &Map<String, Value>,
    settings: &BTreeMap<String, Value>,
) -> Result<(), Error> {
    check_number(mappings, limit_of(settings))
}

/// Number of the fields that an index may have by its settings.
pub(super) fn limit_of(settings: &BTreeMap<String, Value>) -> usize {
    let named = settings.get(FIELDS_LIMIT).and_then(Value::as_str).and_then(|limit| limit.parse().ok());
    named.map_or(FIELDS_BY_DEFAULT, |limit: usize| limit.min(FIELDS_MAX))
}

fn check_number(mappings: &Map<String, Value>, limit: usize) -> Result<(), Error> {
    match count_fields(mappings) > limit {
        true => Err(Error::IllegalArgument(format!(
            "Limit of total fields [{limit}] has been exceeded; [{FIELDS_LIMIT}] may be {FIELDS_MAX}"
        ))),
        false => Ok(()),
    }
}

/// Checks fields with those below them: of a mapping, or of a dynamic template.
pub(super) fn check_properties(
    properties: Option<&Value>,
    depth: usize,
    checked: ParameterCheck,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::IllegalArgument(format!(
            "Limit of mapping depth [{DEPTH_MAX}] has been exceeded"
        )));
    }
    let Some(properties) = properties else { return Ok(()) };
    let Some(properties) = properties.as_object() else {
        return Err(Error::mapping("Expected map for property [properties] on field [_doc]"));
    };
    for (name, field) in properties {
        let Some(field) = field.as_object() else {
            return Err(Error::mapping(format!("Expected map for property [fields] on field [{name}]")));
        };
        match field.get("type").and_then(Value::as_str) {
            Some(kind) if !TYPES.contains(&kind) => {
                return Err(Error::mapping(format!(
                    "No handler for type [{kind}] declared on field [{name}]; docs/elastic.md lists the types"
                )));
            }
            None if !field.contains_key("properties")
                && field.keys().any(|key| key != "dynamic" && key != "enabled") =>
            {
                return Err(Error::mapping(format!("No type specified for field [{name}]")));
            }
            _ => {}
        }
        if name.split('.').any(|part| part.trim().is_empty()) {
            return Err(Error::IllegalArgument(format!("name cannot be empty string: field [{name}]")));
        }
        match checked {
            ParameterCheck::OfType => parameters::check(name, field, false)?,
            ParameterCheck::OfAnyType => parameters::check(name, field, true)?,
            ParameterCheck::Nothing => {}
        }
        // A name with dots is that of a field in objects.
        let below = depth + 1 + name.matches('.').count();
        check_properties(field.get("properties"), below, checked)?;
        check_properties(field.get("fields"), below, checked)?;
    }
    Ok(())
}
