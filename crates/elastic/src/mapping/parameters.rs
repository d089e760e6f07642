//! Parameters of fields in mappings: what each means here, or the reason why it is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{all_fields, check_value, is_flag, is_object, nested_around, type_of};
use crate::Error;
use crate::analyzers::{self, ANALYZER_PARAMETERS};
use crate::date_patterns::is_date_format;
use crate::fields::names_of;
use crate::normalizer::ValueNormalizer;
use crate::query::text_of;
use crate::source::SourceFilter;
use crate::vector_similarity::{VECTOR_LENGTH_MAX, VectorSimilarity, dimensions_of};

/// Treatment of a parameter.
#[derive(Clone, Copy, PartialEq)]
enum ParameterUse {
    /// Supported with the same effect.
    Obeyed,
    /// About an index, a column or an estimate that is not here: no answer depends on it.
    WithoutEffect,
    /// The value that means what is here is taken, and each other one refused.
    Only(&'static [&'static str]),
    /// Refused.
    Refused,
}

use ParameterUse::{Obeyed, Only, Refused, WithoutEffect};

/// Parameters that there are, of fields of all types.
const PARAMETERS: &[(&str, ParameterUse)] = &[
    ("type", Obeyed),
    ("properties", Obeyed),
    ("fields", Obeyed),
    ("dynamic", Obeyed),
    ("enabled", Obeyed),
    ("format", Obeyed),
    ("path", Obeyed),
    ("meta", Obeyed),
    ("store", Obeyed),
    ("index", Obeyed),
    ("doc_values", Obeyed),
    ("fielddata", Obeyed),
    ("copy_to", Obeyed),
    ("null_value", Obeyed),
    ("normalizer", Obeyed),
    ("analyzer", Obeyed),
    ("search_analyzer", Obeyed),
    ("search_quote_analyzer", Obeyed),
    ("ignore_above", Obeyed),
    ("ignore_malformed", Obeyed),
    ("coerce", Obeyed),
    ("scaling_factor", Obeyed),
    ("value", Obeyed),
    ("norms", WithoutEffect),
    ("index_options", WithoutEffect),
    ("index_phrases", WithoutEffect),
    ("index_prefixes", WithoutEffect),
    ("term_vector", WithoutEffect),
    ("eager_global_ordinals", WithoutEffect),
    ("fielddata_frequency_filter", WithoutEffect),
    ("max_shingle_size", WithoutEffect),
    ("depth_limit", WithoutEffect),
    ("ignore_z_value", WithoutEffect),
    ("include_in_parent", WithoutEffect),
    ("include_in_root", WithoutEffect),
    ("time_series_dimension", WithoutEffect),
    ("time_series_dimensions", WithoutEffect),
    ("time_series_metric", WithoutEffect),
    ("synthetic_source_keep", WithoutEffect),
    ("store_array_source", WithoutEffect),
    ("similarity", WithoutEffect),
    ("enable_position_increments", Only(&["true"])),
    ("skip_list", WithoutEffect),
    ("boost", Only(&["1", "1.0"])),
    ("split_queries_on_whitespace", Only(&["false"])),
    ("subobjects", Only(&["true", "auto"])),
    ("disable_objects", Only(&["false"])),
    ("locale", Only(&["", "ROOT", "root", "en", "en_US", "en-US"])),
    ("on_script_error", Refused),
    ("script", Refused),
    ("position_increment_gap", Obeyed),
    ("priority", Obeyed),
    ("metrics", WithoutEffect),
    ("default_metric", WithoutEffect),
    ("positive_score_impact", WithoutEffect),
    ("orientation", WithoutEffect),
    ("dims", Obeyed),
    ("dimension", Obeyed),
    ("space_type", Obeyed),
    ("method", Obeyed),
    ("element_type", Only(&["bfloat16", "byte", "float"])),
    ("data_type", Only(&["byte", "float"])),
    ("mode", WithoutEffect),
    ("compression_level", WithoutEffect),
];

/// Types of numbers.
const NUMBERS: [&str; 9] =
    ["long", "integer", "short", "byte", "unsigned_long", "double", "float", "half_float", "scaled_float"];

/// Types of texts that are divided into words.
const TEXTS: [&str; 4] = ["text", "match_only_text", "search_as_you_type", "token_count"];

/// Types of which a parameter is, if it is not one of most.
fn is_of_type(parameter: &str, kind: &str) -> bool {
    match parameter {
        "normalizer" => kind == "keyword",
        "split_queries_on_whitespace" => matches!(kind, "keyword" | "flattened" | "flat_object"),
        "analyzer" => TEXTS.contains(&kind),
        "search_analyzer" | "search_quote_analyzer" | "position_increment_gap" => {
            TEXTS.contains(&kind) && kind != "token_count"
        }
        "fielddata" | "index_phrases" | "index_prefixes" => TEXTS.contains(&kind),
        "scaling_factor" => kind == "scaled_float",
        "value" => kind == "constant_keyword",
        "coerce" => NUMBERS.contains(&kind) || kind.ends_with("_range") || kind == "geo_point",
        "null_value" => {
            NUMBERS.contains(&kind)
                || matches!(
                    kind,
                    "keyword" | "wildcard" | "date" | "date_nanos" | "boolean" | "ip" | "token_count"
                )
                || matches!(kind, "flattened" | "flat_object" | "geo_point")
        }
        "ignore_above" => matches!(kind, "keyword" | "wildcard" | "flattened" | "flat_object"),
        "path" => kind == "alias",
        "priority" => kind == "passthrough",
        "metrics" | "default_metric" => kind == "aggregate_metric_double",
        "positive_score_impact" => kind.starts_with("rank_feature"),
        "orientation" => matches!(kind, "geo_shape" | "shape"),
        "dims" | "element_type" => kind == "dense_vector",
        "dimension" | "space_type" | "method" | "data_type" | "mode" | "compression_level" => {
            kind == "knn_vector"
        }
        _ => true,
    }
}

/// Checks the parameters of a field. Those of a dynamic template have a type that is not known yet.
///
/// # Errors
/// One is not known, has another meaning than here, or is not one of the type; a value is malformed.
pub(super) fn check(name: &str, field: &Map<String, Value>, is_template: bool) -> Result<(), Error> {
    for (parameter, value) in field {
        check_parameter(name, field, (parameter, value), is_template)?;
    }
    if !is_template && let Some(reason) = missing_parameter(name, field) {
        return Err(refusal(name, field, &reason));
    }
    let below = field.get("fields").and_then(Value::as_object).into_iter().flatten();
    let mut below = below.filter_map(|(name, field)| Some((name, field.as_object()?)));
    match below.find(|(_, field)| field.contains_key("copy_to")) {
        Some((multi, _)) => {
            let reason =
                format!("[copy_to] may not be used in the multi-field [{multi}]; use it in [{name}]");
            Err(refusal(name, field, &reason))
        }
        None => Ok(()),
    }
}

fn refusal(name: &str, field: &Map<String, Value>, reason: &str) -> Error {
    let kind = type_of(field);
    Error::mapping(format!("Failed to parse mapping [_doc]: field [{name}] of type [{kind}]: {reason}"))
}

/// Checks one parameter of a field, and its value.
fn check_parameter(
    name: &str,
    field: &Map<String, Value>,
    (parameter, value): (&String, &Value),
    is_template: bool,
) -> Result<(), Error> {
    let kind = type_of(field);
    let refuse = |reason: String| Err(refusal(name, field, &reason));
    let usage = PARAMETERS.iter().find(|(known, _)| known == parameter).map(|(_, usage)| *usage);
    if usage.is_none() || usage != Some(Refused) && !is_template && !is_of_type(parameter, kind) {
        return Err(Error::mapping(format!(
            "unknown parameter [{parameter}] on mapper [{name}] of type [{kind}]; docs/elastic.md lists those that there are"
        )));
    }
    let text = text_of(value);
    match usage {
        Some(Refused) => return refuse(format!("[{parameter}] is not supported")),
        Some(Only(values)) if !values.contains(&text.as_str()) => {
            return refuse(format!(
                "[{parameter}] is [{text}], and is supported as [{}] alone",
                values.last().copied().unwrap_or_default()
            ));
        }
        _ => {}
    }
    if parameter == "dynamic" {
        check_dynamic(name, value)?;
    }
    let is_valid = match parameter.as_str() {
        // Those that there are depends on settings.
        "analyzer" | "search_analyzer" | "search_quote_analyzer" => value.is_string(),
        "meta" => {
            value.as_object().is_some_and(|meta| meta.len() <= 5 && meta.values().all(Value::is_string))
        }
        "index" | "doc_values" | "fielddata" | "store" | "coerce" | "ignore_malformed" => {
            ["true", "false"].contains(&text.as_str())
        }
        "format" => text.split("||").all(is_date_format),
        "ignore_above" => text.parse::<u64>().is_ok(),
        "scaling_factor" => text.parse().is_ok_and(|factor: f64| factor > 0.0 && factor.is_finite()),
        "copy_to" => !names_of(value).is_empty(),
        "position_increment_gap" if text == "0" => {
            return refuse(format!(
                "[{parameter}] is [0], and a phrase is in one value of a field here, never over two"
            ));
        }
        "dims" | "dimension" => {
            text.parse::<usize>().is_ok_and(|length| (1..=VECTOR_LENGTH_MAX).contains(&length))
        }
        "similarity" if kind == "dense_vector" => VectorSimilarity::parse(&text).is_some(),
        "space_type" => VectorSimilarity::parse(&text).is_some(),
        "method" => value.as_object().is_some_and(|method| {
            let space = method.get("space_type").map(text_of);
            space.is_none_or(|space| VectorSimilarity::parse(&space).is_some())
        }),
        "null_value" if is_template || kind == "geo_point" => true,
        "null_value" => value.is_null() || check_value(field, kind, value).is_ok(),
        _ => true,
    };
    if !is_valid {
        return refuse(format!("[{parameter}] cannot be [{text}]"));
    }
    Ok(())
}

/// Reason for which the type of a field needs a parameter that it does not have.
fn missing_parameter(name: &str, field: &Map<String, Value>) -> Option<String> {
    match type_of(field) {
        "scaled_float" if !field.contains_key("scaling_factor") => {
            Some("Field [scaling_factor] is required".to_owned())
        }
        "knn_vector" if dimensions_of(field).is_none() => {
            Some("Dimension value missing for vector".to_owned())
        }
        "passthrough" if !field.get("priority").is_some_and(Value::is_u64) => Some(format!(
            "Pass-through object [{name}] is missing a non-negative value for parameter [priority]"
        )),
        "aggregate_metric_double" if !field.get("metrics").is_some_and(Value::is_array) => {
            Some(format!("Property [metrics] is required for field [{name}]"))
        }
        _ => None,
    }
}

/// Checks what a mapping says of all documents.
///
/// # Errors
/// Their sources have a form that there is not, or `dynamic` has such a value.
pub(super) fn check_root(mappings: &Map<String, Value>) -> Result<(), Error> {
    let source = mappings.get("_source").filter(|source| source.is_object());
    source.map(SourceFilter::of_value).transpose()?;
    for (member, value) in source.and_then(Value::as_object).into_iter().flatten() {
        let is_obeyed = match member.as_str() {
            "enabled" => true,
            // What is put together again from fields is shown as it was sent.
            "mode" => value == "stored" || value == "synthetic" || value == "disabled",
            "includes" | "excludes" => value.is_string() || value.is_array(),
            _ => false,
        };
        if !is_obeyed {
            return Err(Error::mapping(format!(
                "Failed to parse mapping [_doc]: [{member}] of [_source] is not supported as [{value}]; there are [enabled], \
                 [includes], [excludes] and the modes [stored], [synthetic] and [disabled]"
            )));
        }
    }
    mappings.get("dynamic").map_or(Ok(()), |dynamic| check_dynamic("_doc", dynamic))
}

fn check_dynamic(name: &str, value: &Value) -> Result<(), Error> {
    const VALUES: [&str; 6] =
        ["true", "false", "strict", "runtime", "strict_allow_templates", "false_allow_templates"];
    match VALUES.contains(&text_of(value).as_str()) {
        true => Ok(()),
        false => Err(Error::mapping(format!(
            "Failed to parse mapping [_doc]: [dynamic] of [{name}] is [{}]; there are [{}]",
            text_of(value),
            VALUES.join(", ")
        ))),
    }
}

/// Checks what the fields of a mapping name outside of it: normalizers and analyzers of the settings, and
/// fields of the whole mapping that they are copied to.
///
/// # Errors
/// One is missing, or a normalizer has filters that there are not.
pub(crate) fn check_named(
    given: &Map<String, Value>,
    whole: &Map<String, Value>,
    settings: &BTreeMap<String, Value>,
) -> Result<(), Error> {
    let templates = given.get("dynamic_templates").and_then(Value::as_array).into_iter().flatten();
    let templates = templates.filter_map(|listed| listed.as_object()?.iter().next());
    let of_templates = templates.filter_map(|(name, template)| {
        Some((format!("of the dynamic template {name}"), template.get("mapping")?.as_object()?))
    });
    let mut checked = BTreeSet::new();
    for (path, field) in all_fields(given).into_iter().chain(of_templates) {
        if let Some(name) = field.get("normalizer").map(text_of) {
            ValueNormalizer::named(&name, settings).map_err(|error| {
                Error::mapping(format!("Failed to parse mapping [_doc]: field [{path}]: {error}"))
            })?;
        }
        let named = ANALYZER_PARAMETERS.iter().filter_map(|member| field.get(*member)?.as_str());
        // A dynamic template has a place for the name of the field.
        for name in named.filter(|name| !name.contains('{') && checked.insert(*name)) {
            analyzers::check_name(name, settings).map_err(|error| {
                Error::mapping(format!("Failed to parse mapping [_doc]: field [{path}]: {error}"))
            })?;
        }
        for target in field.get("copy_to").map(names_of).unwrap_or_default() {
            check_copy(whole, &path, &target)?;
        }
    }
    Ok(())
}

/// Checks that the values of a field can be copied to another one: it is a field, and in no other nested
/// object than one around both.
///
/// # Errors
/// It is an object, or in another nested object.
fn check_copy(whole: &Map<String, Value>, path: &str, target: &str) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::mapping(format!("Failed to parse mapping [_doc]: {reason}")));
    let definition = super::field_at(whole, target).map(|(definition, _)| definition);
    if target.split('.').any(|part| part.trim().is_empty())
        || definition
            .is_some_and(|definition| type_of(definition) == "alias" || is_object(type_of(definition)))
    {
        return refuse(format!("[copy_to] of [{path}] names [{target}], which cannot have its values"));
    }
    let (around, of_target) = (nested_around(whole, path), nested_around(whole, target));
    let is_within = |outer: &str| {
        let rest = around.and_then(|around| around.strip_prefix(outer));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match of_target.filter(|outer| !is_within(outer)) {
        Some(outer) => refuse(format!(
            "Illegal combination of [copy_to] and [nested] mappings: [copy_to] may only copy data to the current nested document \
             or any of its parents, however one [copy_to] directive is trying to copy data from nested object [{}] to [{outer}]",
            around.unwrap_or_default()
        )),
        None => Ok(()),
    }
}

/// Checks that a value has the form of a number of a field that does not convert others.
///
/// # Errors
/// It is a text, or has a part behind the point in a field of whole numbers. The error has a type and a
/// reason.
pub(super) fn check_uncoerced(
    field: &Map<String, Value>,
    value: &Value,
) -> Result<(), (&'static str, String)> {
    let kind = type_of(field);
    if !field.contains_key("coerce") || is_flag(field, "coerce") || !NUMBERS.contains(&kind) {
        return Ok(());
    }
    let is_whole = !matches!(kind, "double" | "float" | "half_float" | "scaled_float");
    match value {
        Value::String(_) => Err(("illegal_argument_exception", format!("{kind} value passed as String"))),
        Value::Number(number) if is_whole && number.as_f64().is_some_and(|number| number.fract() != 0.0) => {
            Err((
                "illegal_argument_exception",
                format!("{number} cannot be converted to {kind} without data loss"),
            ))
        }
        _ => Ok(()),
    }
}
