//! Defaults for all fields of an index, from its settings.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::type_of;

/// Setting by which fields take malformed values that do not say otherwise.
const TAKES_MALFORMED: &str = "index.mapping.ignore_malformed";

/// Setting by which documents are taken whose new fields are too many.
const IGNORES_BEYOND_LIMIT: &str = "index.mapping.total_fields.ignore_dynamic_beyond_limit";

/// Types of fields that take malformed values by a setting.
const CAN_BE_MALFORMED: [&str; 20] = [
    "long",
    "integer",
    "short",
    "byte",
    "unsigned_long",
    "double",
    "float",
    "half_float",
    "scaled_float",
    "boolean",
    "date",
    "date_nanos",
    "ip",
    "geo_point",
    "integer_range",
    "long_range",
    "float_range",
    "double_range",
    "date_range",
    "ip_range",
];

/// True if settings say that new fields of a document which are too many are passed over.
pub(crate) fn ignores_beyond_limit(settings: &BTreeMap<String, Value>) -> bool {
    is_true(settings, IGNORES_BEYOND_LIMIT)
}

/// Gives the fields of a mapping what settings say of all fields.
pub(crate) fn apply_settings(mappings: &mut Map<String, Value>, settings: &BTreeMap<String, Value>) {
    if is_true(settings, TAKES_MALFORMED) {
        take_malformed(mappings);
    }
}

fn is_true(settings: &BTreeMap<String, Value>, name: &str) -> bool {
    settings.get(name).is_some_and(|value| value == "true")
}

fn take_malformed(definition: &mut Map<String, Value>) {
    for below in ["properties", "fields"] {
        let Some(Value::Object(fields)) = definition.get_mut(below) else { continue };
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            if CAN_BE_MALFORMED.contains(&type_of(field)) && !field.contains_key("ignore_malformed") {
                field.insert("ignore_malformed".to_owned(), Value::Bool(true));
            }
            take_malformed(field);
        }
    }
}
