//! Fields of a document whose values their mapping passes over: `_ignored`.

use serde_json::{Map, Value};

use crate::fields::all_at;
use crate::mapping::{all_fields, check_value, field_at, is_flag, type_of, unfit_fields};
use crate::query::text_of;

/// Names of the fields that have a value which is not searched: malformed where the mapping allows that, or
/// longer than it says. Of a document in `logs` mode, also those that do not fit the mapping, and those that
/// it has no room for; a search finds them where it reads documents.
pub(crate) fn ignored(
    mappings: &Map<String, Value>,
    document: &Map<String, Value>,
    is_log: bool,
) -> Vec<String> {
    let mut names = if is_log { unfit_fields(mappings, document) } else { Vec::new() };
    for (path, definition) in all_fields(mappings) {
        let longest = definition.get("ignore_above").and_then(Value::as_u64);
        let takes_malformed = is_flag(definition, "ignore_malformed");
        if longest.is_none() && !takes_malformed {
            continue;
        }
        let Some((_, source_path)) = field_at(mappings, &path) else { continue };
        let is_ignored = |value: &&Value| {
            takes_malformed && check_value(definition, type_of(definition), value).is_err()
                || longest.is_some_and(|limit| text_of(value).chars().count() as u64 > limit)
        };
        if all_at(document, &source_path).iter().any(is_ignored) {
            names.push(path);
        }
    }
    names.sort();
    names.dedup();
    names
}
