//! `filter_path`: the parts of an answer that a client wants.

use serde_json::{Map, Value};

use crate::patterns::glob;

/// Paths to keep, and paths to leave out, which have a `-` before them.
pub(crate) struct PathFilter {
    includes: Vec<Vec<String>>,
    excludes: Vec<Vec<String>>,
}

impl PathFilter {
    /// Parses paths joined by commas.
    pub(crate) fn parse(text: &str) -> Self {
        let steps = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        let paths = || text.split(',').map(str::trim).filter(|path| !path.is_empty());
        PathFilter {
            includes: paths().filter(|path| !path.starts_with('-')).map(steps).collect(),
            excludes: paths().filter_map(|path| path.strip_prefix('-')).map(steps).collect(),
        }
    }

    /// Returns the wanted parts of `value`; an empty object if there are none.
    pub(crate) fn apply(&self, value: Value) -> Value {
        let mut value = value;
        if !self.includes.is_empty() {
            let paths: Vec<&[String]> = self.includes.iter().map(Vec::as_slice).collect();
            value = keep(value, &paths).unwrap_or_else(|| Value::Object(Map::new()));
        }
        if !self.excludes.is_empty() {
            let paths: Vec<&[String]> = self.excludes.iter().map(Vec::as_slice).collect();
            value = leave_out(value, &paths).unwrap_or_else(|| Value::Object(Map::new()));
        }
        value
    }
}

/// Paths that go on below `name`; `None` if one of them ends there.
fn below<'p>(paths: &[&'p [String]], name: &str) -> Option<Vec<&'p [String]>> {
    let mut rest = Vec::new();
    for path in paths {
        let Some((first, after)) = path.split_first() else { continue };
        if first == "**" {
            rest.push(*path);
            if let Some((second, end)) = after.split_first()
                && glob(second, name)
            {
                if end.is_empty() {
                    return None;
                }
                rest.push(end);
            }
        } else if glob(first, name) {
            if after.is_empty() {
                return None;
            }
            rest.push(after);
        }
    }
    Some(rest)
}

fn keep(value: Value, paths: &[&[String]]) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, member) in members {
                match below(paths, &name) {
                    None => drop(kept.insert(name, member)),
                    Some(rest) if rest.is_empty() => {}
                    Some(rest) => {
                        if let Some(part) = keep(member, &rest) {
                            kept.insert(name, part);
                        }
                    }
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(elements) => {
            let kept: Vec<Value> = elements.into_iter().filter_map(|element| keep(element, paths)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

fn leave_out(value: Value, paths: &[&[String]]) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, member) in members {
                match below(paths, &name) {
                    None => {}
                    Some(rest) if rest.is_empty() => drop(kept.insert(name, member)),
                    Some(rest) => {
                        if let Some(part) = leave_out(member, &rest) {
                            kept.insert(name, part);
                        }
                    }
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(elements) => {
            Some(Value::Array(elements.into_iter().filter_map(|element| leave_out(element, paths)).collect()))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paths: &str, expected: &str) {
        let answer = r#"{"took":1,"errors":false,"items":[{"index":{"_id":"a","status":201}},{"delete":{"_id":"b","status":404}}]}"#;
        let answer: Value = serde_json::from_str(answer).expect("the test's answer is JSON");
        assert_eq!(PathFilter::parse(paths).apply(answer).to_string(), expected, "{paths}");
    }

    #[test]
    fn answers_have_the_wanted_parts() {
        check("errors", r#"{"errors":false}"#);
        check("items.*.status", r#"{"items":[{"index":{"status":201}},{"delete":{"status":404}}]}"#);
        check("**._id", r#"{"items":[{"index":{"_id":"a"}},{"delete":{"_id":"b"}}]}"#);
        check("items.index", r#"{"items":[{"index":{"_id":"a","status":201}}]}"#);
        check("items.*.error", "{}");
        check("-items", r#"{"took":1,"errors":false}"#);
        check("items,-items.*._id", r#"{"items":[{"index":{"status":201}},{"delete":{"status":404}}]}"#);
        check("took,err*", r#"{"took":1,"errors":false}"#);
    }
}
