//! Filters of `_source`: the parts of a document that an answer has.

use serde_json::{Map, Value};

use crate::Error;
use crate::patterns::glob;
use crate::request::ElasticParameters;

/// Patterns of a filter in a body: each is compared with each name in each document that is shown.
const PATTERNS_MAX: usize = 1_000;

/// Parts of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SourceFilter {
    pub(crate) is_off: bool,
    includes: Vec<String>,
    excludes: Vec<String>,
}

impl SourceFilter {
    /// Reads the parameters `_source`, `_source_includes` and `_source_excludes`; `None` if there are none.
    pub(crate) fn of_parameters(parameters: &ElasticParameters) -> Option<Self> {
        let names = ["_source", "_source_includes", "_source_excludes", "_source_include", "_source_exclude"];
        if !names.iter().any(|name| parameters.has(name)) {
            return None;
        }
        let mut filter = SourceFilter::default();
        match parameters.get("_source") {
            None | Some("true" | "") => {}
            Some("false") => filter.is_off = true,
            Some(_) => filter.includes = parameters.list("_source").unwrap_or_default(),
        }
        for name in ["_source_includes", "_source_include"] {
            filter.includes.extend(parameters.list(name).unwrap_or_default());
        }
        for name in ["_source_excludes", "_source_exclude"] {
            filter.excludes.extend(parameters.list(name).unwrap_or_default());
        }
        if !filter.includes.is_empty() || !filter.excludes.is_empty() {
            filter.is_off = false;
        }
        Some(filter)
    }

    /// Reads the member `_source` of a body.
    pub(crate) fn of_value(value: &Value) -> Result<Self, Error> {
        let list = |value: Option<&Value>| match value {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(several)) => {
                several.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let filter = match value {
            Value::Bool(is_on) => SourceFilter { is_off: !is_on, ..SourceFilter::default() },
            Value::String(_) | Value::Array(_) => {
                SourceFilter { includes: list(Some(value)), ..SourceFilter::default() }
            }
            Value::Object(members) => SourceFilter {
                is_off: false,
                includes: list(members.get("includes").or_else(|| members.get("include"))),
                excludes: list(members.get("excludes").or_else(|| members.get("exclude"))),
            },
            _ => {
                return Err(Error::Parsing(
                    "Expected one of [VALUE_BOOLEAN, VALUE_STRING, START_ARRAY, START_OBJECT] for [_source]"
                        .to_owned(),
                ));
            }
        };
        let patterns = filter.includes.len() + filter.excludes.len();
        if patterns > PATTERNS_MAX {
            return Err(Error::IllegalArgument(format!(
                "[_source] may have {PATTERNS_MAX} patterns at most, found {patterns}: name an object around the fields, \
                 or use a pattern with a star"
            )));
        }
        Ok(filter)
    }

    /// The part of its documents that an index shows by its mapping; `None` if it shows them as they are.
    pub(crate) fn of_mapping(mappings: &Map<String, Value>) -> Option<Self> {
        let source = mappings.get("_source")?;
        let is_off = source.get("enabled").is_some_and(|enabled| *enabled == false || *enabled == "false")
            || source.get("mode").is_some_and(|mode| *mode == "disabled");
        let filter = SourceFilter { is_off, ..Self::of_value(source).ok()? };
        (!filter.is_whole()).then_some(filter)
    }

    /// The shown part of a document of an index; `None` if its mapping shows none.
    pub(crate) fn apply_in(
        &self,
        mappings: &Map<String, Value>,
        document: &Map<String, Value>,
    ) -> Option<Map<String, Value>> {
        match Self::of_mapping(mappings) {
            Some(own) if own.is_off => None,
            Some(own) => Some(self.apply(&own.apply(document))),
            None => Some(self.apply(document)),
        }
    }

    /// True if the whole document is shown.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_off && self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Returns the shown part of a document.
    pub(crate) fn apply(&self, document: &Map<String, Value>) -> Map<String, Value> {
        if self.is_whole() {
            return document.clone();
        }
        self.members(document, "", self.includes.is_empty())
    }

    /// Members of an object that are shown; `is_whole` is true where only excludes count.
    fn members(&self, document: &Map<String, Value>, before: &str, is_whole: bool) -> Map<String, Value> {
        let mut shown = Map::new();
        for (name, value) in document {
            let path = format!("{before}{name}");
            if self.excludes.iter().any(|pattern| covers(pattern, &path)) {
                continue;
            }
            let is_included = is_whole || self.includes.iter().any(|pattern| covers(pattern, &path));
            let part = match value {
                Value::Object(_) | Value::Array(_) => self.part(value, &format!("{path}."), is_included),
                other => is_included.then(|| other.clone()),
            };
            if let Some(part) = part {
                shown.insert(name.clone(), part);
            }
        }
        shown
    }

    fn part(&self, value: &Value, before: &str, is_included: bool) -> Option<Value> {
        match value {
            Value::Object(members) => {
                let shown = self.members(members, before, is_included);
                (is_included || !shown.is_empty()).then_some(Value::Object(shown))
            }
            Value::Array(elements) => {
                let shown = elements.iter().filter_map(|element| self.part(element, before, is_included));
                let shown: Vec<Value> = shown.collect();
                (is_included || !shown.is_empty()).then_some(Value::Array(shown))
            }
            other => is_included.then(|| other.clone()),
        }
    }
}

/// True if a pattern names a path, or an object around it.
fn covers(pattern: &str, path: &str) -> bool {
    glob(pattern, path)
        || path.match_indices('.').any(|(at, _)| glob(pattern, &path[..at]))
        || pattern.strip_suffix(".*").is_some_and(|_| glob(pattern, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_have_the_wanted_parts() {
        let document = json!({ "a": { "b": 1, "c": 2 }, "d": [{ "e": 1, "f": 2 }], "g": null });
        let document = document.as_object().expect("the test's document is an object");
        for (filter, expected) in [
            (json!(true), document.clone().into()),
            (json!("a.b"), json!({ "a": { "b": 1 } })),
            (json!(["a", "g"]), json!({ "a": { "b": 1, "c": 2 }, "g": null })),
            (json!({ "includes": "a", "excludes": "*.c" }), json!({ "a": { "b": 1 } })),
            (json!({ "exclude": ["d.e"] }), json!({ "a": { "b": 1, "c": 2 }, "d": [{ "f": 2 }], "g": null })),
            (json!("d.*"), json!({ "d": [{ "e": 1, "f": 2 }] })),
            (json!("*.f"), json!({ "d": [{ "f": 2 }] })),
        ] {
            let shown = SourceFilter::of_value(&filter).expect("the filter is one").apply(document);
            assert_eq!(Value::Object(shown), expected, "{filter}");
        }
        let error =
            SourceFilter::of_value(&json!(vec!["a"; 1_001])).expect_err("there are too many patterns");
        assert!(error.to_string().contains("1000 patterns at most"), "{error}");
    }
}
