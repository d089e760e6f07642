//! Checks of templates: each by itself, beside the others, and with those that it is composed of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{parts_of, priority_of, time_field_of};
use crate::catalog::{CatalogChange, CatalogEntries, NamedKind};
use crate::fields::names_of;
use crate::lifecycle::{StreamLifecycle, check_policy};
use crate::mapping::{PartOrigin, field_at, type_of};
use crate::names::NAME_BYTES_MAX;
use crate::patterns::overlap;
use crate::{Error, analyzers, hybrid, index_admin, index_settings};

/// Patterns of one template.
const PATTERNS_MAX: usize = 1_000;

/// Refuses members of a template that have no effect because they are not known.
fn check_members(kind: NamedKind, name: &str, body: &Map<String, Value>) -> Result<(), Error> {
    const PARTS: &[&str] = &["settings", "mappings", "aliases", "lifecycle", "data_stream_options"];
    let known: &[&str] = match kind {
        NamedKind::IndexTemplate => &[
            "index_patterns",
            "template",
            "composed_of",
            "priority",
            "version",
            "_meta",
            "data_stream",
            "allow_auto_create",
            "deprecated",
            "ignore_missing_component_templates",
        ],
        NamedKind::ComponentTemplate => &["template", "version", "_meta", "allow_auto_create", "deprecated"],
        NamedKind::LegacyTemplate => {
            &["index_patterns", "settings", "mappings", "aliases", "lifecycle", "order", "version", "_meta"]
        }
        NamedKind::Pipeline
        | NamedKind::ClusterSettings
        | NamedKind::TypeAliases
        | NamedKind::LifecyclePolicy
        | NamedKind::SearchPipeline => return Ok(()),
    };
    let refuse = |member: &str| Error::unknown(&format!("unknown key [{member}] in the template [{name}]"));
    if let Some(unknown) = body.keys().find(|member| !known.contains(&member.as_str())) {
        return Err(refuse(unknown));
    }
    let parts = body.get("template").and_then(Value::as_object);
    match parts.and_then(|parts| parts.keys().find(|member| !PARTS.contains(&member.as_str()))) {
        Some(unknown) => Err(refuse(&format!("template.{unknown}"))),
        None => Ok(()),
    }
}

/// Refuses patterns that no name needs: they are compared with those of all other templates while requests
/// wait for the catalog.
fn check_patterns(patterns: &[String]) -> Result<(), Error> {
    let reason = if patterns.len() > PATTERNS_MAX {
        format!("a template has {PATTERNS_MAX} index patterns at most, and this one has {}", patterns.len())
    } else if let Some(long) = patterns.iter().find(|pattern| pattern.len() > NAME_BYTES_MAX) {
        let beginning: String = long.chars().take(40).collect();
        format!(
            "index pattern [{beginning}...] has {} bytes; no index has a name of more than {NAME_BYTES_MAX}",
            long.len()
        )
    } else {
        return Ok(());
    };
    Err(Error::Validation(vec![reason]))
}

/// Refuses a template if another one of its priority may cover the same name: it would not be clear which of
/// them counts.
fn check_priority(entries: &CatalogEntries, name: &str, body: &Map<String, Value>) -> Result<(), Error> {
    let patterns = body.get("index_patterns").map(names_of).unwrap_or_default();
    let priority = priority_of(body.get("priority"));
    for (other, template) in entries.all_named(NamedKind::IndexTemplate) {
        if other == name || priority_of(template.get("priority")) != priority {
            continue;
        }
        let others = template.get("index_patterns").map(names_of).unwrap_or_default();
        if patterns.iter().any(|one| others.iter().any(|other| overlap(one, other))) {
            return Err(Error::IllegalArgument(format!(
                "index template [{name}] has index patterns [{}] matching patterns from existing templates [{other}] with patterns \
                 [{}] that have the same priority [{priority}], multiple index templates may not match during index creation, please \
                 use a different priority",
                patterns.join(", "),
                others.join(", ")
            )));
        }
    }
    Ok(())
}

/// Checks what a named object says by itself, and returns it as it is kept.
///
/// # Errors
/// Its name, a member or a value is not one of such an object.
pub(crate) fn checked(
    kind: NamedKind,
    name: &str,
    mut body: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let has_patterns = matches!(kind, NamedKind::IndexTemplate | NamedKind::LegacyTemplate);
    if has_patterns || kind == NamedKind::ComponentTemplate {
        check_template_name(name)?;
    }
    if has_patterns {
        if let Some(Value::String(pattern)) = body.get("index_patterns").cloned() {
            body.insert("index_patterns".to_owned(), json!([pattern]));
        }
        let patterns = body.get("index_patterns").map(names_of).unwrap_or_default();
        if patterns.is_empty() {
            return Err(Error::Validation(vec!["index patterns are missing".to_owned()]));
        }
        check_patterns(&patterns)?;
    }
    check_members(kind, name, &body)?;
    if kind == NamedKind::Pipeline
        && body.get("processors").and_then(Value::as_array).is_none_or(|all| !all.is_empty())
    {
        return Err(Error::unsupported("a pipeline with processors"));
    }
    if kind == NamedKind::LifecyclePolicy {
        check_policy(&body)?;
        return Ok(body);
    }
    if kind == NamedKind::SearchPipeline {
        hybrid::check_pipeline(&body)?;
        return Ok(body);
    }
    let of = body.get("template").and_then(Value::as_object).unwrap_or(&body);
    if let Some(lifecycle) = of.get("lifecycle").and_then(Value::as_object) {
        StreamLifecycle::parse(lifecycle)?;
    }
    for options in of.get("aliases").and_then(Value::as_object).iter().flat_map(|aliases| aliases.values()) {
        index_admin::alias_options(options.as_object().cloned().unwrap_or_default())?;
    }
    let settings = of.get("settings").and_then(Value::as_object);
    if let Some(settings) = settings {
        index_settings::check_part(settings)?;
        if kind == NamedKind::LegacyTemplate {
            let settings = index_settings::flat(settings);
            analyzers::check(&settings, &settings)?;
        }
    }
    if let Some(mappings) = of.get("mappings").and_then(Value::as_object) {
        let mappings = index_admin::untyped(mappings.clone());
        crate::mapping::check(&mappings, PartOrigin::Given)?;
        // Those of others are checked with the templates that they are parts of.
        if kind == NamedKind::LegacyTemplate {
            let settings = settings.map(index_settings::flat).unwrap_or_default();
            crate::mapping::check_named(&mappings, &mappings, &settings)?;
            crate::mapping::check_limit(&mappings, &settings)?;
        }
    }
    Ok(body)
}

/// Differences of the analyzers that a template defines, and that its fields name, from those of
/// Elasticsearch.
pub(super) fn analyzer_notes(body: &Map<String, Value>) -> Vec<String> {
    let of = body.get("template").and_then(Value::as_object).unwrap_or(body);
    let member = |name: &str| of.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    analyzers::notes(&index_settings::flat(&member("settings")), &index_admin::untyped(member("mappings")))
}

/// Checks the name of a template: paths have names with an underscore at their beginning for other ends.
fn check_template_name(name: &str) -> Result<(), Error> {
    let reason = match name {
        name if name.contains([' ', ',', '#', '*']) => "name must not contain a space, ',', '#' or '*'",
        name if name.starts_with('_') => "name must not start with '_'",
        name if name.to_lowercase() != name => "name must be lower cased",
        _ => return Ok(()),
    };
    Err(Error::IllegalArgument(format!("template [{name}] invalid, cause [{reason}]")))
}

/// Checks a composable template beside those that there are.
///
/// # Errors
/// A part of it does not exist, or another template of its priority may cover the same name.
pub(crate) fn check_beside(
    entries: &CatalogEntries,
    name: &str,
    body: &Map<String, Value>,
) -> Result<(), Error> {
    let missing: Vec<String> = required_parts(|member| body.get(member))
        .into_iter()
        .filter(|part| entries.named(NamedKind::ComponentTemplate, part).is_none())
        .collect();
    if !missing.is_empty() {
        return Err(Error::IllegalArgument(format!(
            "index template [{name}] specifies component templates [{}] that do not exist",
            missing.join(", ")
        )));
    }
    check_priority(entries, name, body)
}

/// Names of the parts of a template that it cannot do without.
fn required_parts<'t>(member: impl Fn(&str) -> Option<&'t Value>) -> Vec<String> {
    let names = |name: &str| member(name).map(names_of).unwrap_or_default();
    let ignored = names("ignore_missing_component_templates");
    names("composed_of").into_iter().filter(|part| !ignored.contains(part)).collect()
}

/// Refuses a mapping in which the time of the documents of a data stream is no date.
pub(super) fn check_time_field(mappings: &Map<String, Value>, field: &str) -> Result<(), Error> {
    match field_at(mappings, field).map(|(field, _)| type_of(field)) {
        Some("date" | "date_nanos") => Ok(()),
        other => Err(Error::IllegalArgument(format!(
            "data stream timestamp field [{field}] is of type [{}], but [date,date_nanos] is expected",
            other.unwrap_or("none")
        ))),
    }
}

/// Checks the index templates that have a part, or are it: what the fields of one part name can be in
/// another.
///
/// # Errors
/// The indexes of one could not be made as it says.
fn check_composed(entries: &CatalogEntries, kind: NamedKind, name: &str) -> Result<(), Error> {
    for (template_name, template) in entries.all_named(NamedKind::IndexTemplate) {
        let is_meant = match kind {
            NamedKind::IndexTemplate => template_name == name,
            NamedKind::ComponentTemplate => {
                template.get("composed_of").map(names_of).unwrap_or_default().iter().any(|part| part == name)
            }
            _ => false,
        };
        if is_meant {
            check_parts(entries, template).map_err(|error| {
                let reason = format!("composable template [{template_name}] is invalid: {error}");
                match error {
                    Error::Mapping(_) => Error::Mapping(reason),
                    _ => Error::IllegalArgument(reason),
                }
            })?;
        }
    }
    Ok(())
}

/// Checks the mapping and the analyzers that the parts of an index template give.
///
/// # Errors
/// A field names what there is not, there are too many, or the time of a data stream is no date.
pub(crate) fn check_parts(entries: &CatalogEntries, template: &Value) -> Result<(), Error> {
    let time_field = time_field_of(template);
    let mut mappings = match time_field.map(|field| json!({ "properties": { field: { "type": "date" } } })) {
        Some(Value::Object(of_field)) => of_field,
        _ => Map::new(),
    };
    let mut settings = BTreeMap::new();
    for part in parts_of(entries, template) {
        for (member, value) in part {
            match (member.as_str(), value) {
                ("mappings", Value::Object(of)) => {
                    crate::mapping::lay_over(&mut mappings, &index_admin::untyped(of));
                }
                ("settings", Value::Object(of)) => settings.extend(index_settings::flat(&of)),
                _ => {}
            }
        }
    }
    analyzers::check(&settings, &settings)?;
    crate::mapping::check_named(&mappings, &mappings, &settings)?;
    crate::mapping::check_limit(&mappings, &settings)?;
    time_field.map_or(Ok(()), |field| check_time_field(&mappings, field))
}

/// Puts a template among the others, and checks those that have it as a part.
///
/// # Errors
/// The indexes of one could not be made as it says. Of a part, only if they could be before: one that an
/// earlier version took does not keep its parts from being changed.
pub(super) fn put_composed(
    change: &mut CatalogChange<'_>,
    kind: NamedKind,
    name: &str,
    body: Map<String, Value>,
) -> Result<(), Error> {
    let is_checked = kind != NamedKind::ComponentTemplate || check_composed(change, kind, name).is_ok();
    change.put_named(kind, name, Value::Object(body))?;
    if is_checked { check_composed(change, kind, name) } else { Ok(()) }
}

/// Refuses the deletion of component templates that index templates are composed of.
pub(super) fn check_unused(entries: &CatalogEntries, deleted: &[String]) -> Result<(), Error> {
    let parts = |template: &Value| required_parts(|member| template.get(member));
    let mut users = entries.all_named(NamedKind::IndexTemplate);
    match users.find(|(_, template)| parts(template).iter().any(|part| deleted.contains(part))) {
        Some((user, template)) => {
            let used: Vec<String> =
                parts(template).into_iter().filter(|part| deleted.contains(part)).collect();
            Err(Error::IllegalArgument(format!(
                "component templates [{}] cannot be removed as they are still in use by index templates [{user}]",
                used.join(", ")
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_node::{Node, Settings};

    use super::*;
    use crate::request::ElasticRequest;
    use crate::service::ElasticService;

    fn ask(service: &ElasticService, request: &str, body: &Value) -> (u16, Value) {
        let (method, path) = request.split_once(' ').expect("a request has a method and a path");
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned).into_bytes();
        let (method, path) = (method.to_owned(), path.to_owned());
        let answer = service.answer(&ElasticRequest { method, path, body, ..ElasticRequest::default() });
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Writes go on after an upgrade; what is given now is checked.
    #[test]
    fn what_an_earlier_version_took_in_templates_is_taken() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = Node::open(Settings::new(directory.path().join("data"))).expect("the node opens");
        let service = ElasticService::new(Arc::clone(&node));
        let part = json!({ "template": {
            "settings": { "index.foo": 1, "index.max_result_window": "none", "analysis.analyzer.default.type": "x" },
            "mappings": { "properties": { "t": { "type": "text", "analyzer": "english", "boost": 2, "norm": 1 } } },
        } });
        let mappings = json!({
            "_source": { "excludes": ["secret"] },
            "dynamic_templates": [{ "d": { "match": "x*", "mapping": { "type": "text", "analyzer": "english" } } },
                { "h": { "match": "*", "mapping": { "type": "completion" } } }, { "two": {}, "names": {} }],
            "properties": { "k": { "type": "keyword", "normalizer": "none", "copy_to": "nowhere", "meta": 1 } },
        });
        let template = |pattern: &str, mode: &str| {
            let template = json!({ "settings": { "index.mode": mode }, "mappings": mappings });
            json!({ "index_patterns": [pattern], "data_stream": {}, "composed_of": ["part"], "template": template })
        };
        let (standard, logs) = (template("s", "standard"), template("l", "logsdb"));
        let old = json!({ "index_patterns": ["o-*"], "settings": { "bar": 1, "index.mode": "logsdb" },
            "aliases": { "other": { "filter": { "none": {} }, "is_new": true } }, "mappings": mappings });
        let fields = json!({ "a": { "type": "long" }, "b": { "type": "long" } });
        let few = json!({ "index_patterns": ["f"], "settings": { "index.mapping.total_fields.limit": 1 },
            "mappings": { "properties": fields } });
        let mut change = service.catalog.change().expect("the catalog is read");
        for (kind, name, body) in [
            (NamedKind::ComponentTemplate, "part", &part),
            (NamedKind::IndexTemplate, "standard", &standard),
            (NamedKind::IndexTemplate, "logs", &logs),
            (NamedKind::LegacyTemplate, "old", &old),
            (NamedKind::LegacyTemplate, "few", &few),
        ] {
            change.put_named(kind, name, body.clone()).expect("there is room");
        }
        change.commit().expect("the change is written");
        let document = json!({ "@timestamp": 1, "t": "Red Foxes", "k": "K", "xyz": "new", "secret": 1 });
        let bulk = json!(format!("{{\"create\":{{}}}}\n{document}\n"));
        for name in ["s", "l", "o-1"] {
            let (status, answer) = ask(&service, &format!("POST /{name}/_bulk"), &bulk);
            assert_eq!((status, &answer["errors"]), (200, &json!(false)), "{name}: {answer}");
            for query in [json!({ "match": { "t": "foxes" } }), json!({ "term": { "k": "K" } })] {
                let (_, found) = ask(&service, &format!("POST /{name}/_count"), &json!({ "query": query }));
                assert_eq!(found["count"], 1, "{name} {query}: {found}");
            }
        }
        let good = json!({ "properties": { "n": { "type": "long" } } });
        for (request, body, expected) in [
            ("POST /s/_rollover", &json!({}), 200),
            ("POST /l/_rollover", &json!({}), 200),
            ("PUT /o-2", &json!({}), 200),
            ("PUT /f/_doc/1", &json!({ "a": 1 }), 201),
            ("PUT /o-1/_mapping", &good, 200),
            ("PUT /s/_mapping", &good, 200),
            (
                "PUT /o-1/_mapping",
                &json!({ "properties": { "m": { "type": "keyword", "normalizer": "none" } } }),
                400,
            ),
            ("PUT /o-3", &json!({ "settings": { "bar": 1 } }), 400),
            ("PUT /o-3", &json!({ "mappings": mappings }), 400),
            // Before a template is given again, this says what will be refused.
            ("POST /_index_template/_simulate/standard", &json!({}), 400),
            ("PUT /_index_template/standard", &standard, 400),
            ("PUT /_template/old", &old, 400),
            ("PUT /_template/few", &few, 400),
            ("PUT /_component_template/part", &part, 400),
            // The templates that have it as a part were no better before.
            ("PUT /_component_template/part", &json!({ "template": { "mappings": good } }), 200),
        ] {
            let (status, answer) = ask(&service, request, body);
            assert_eq!(status, expected, "{request} {body}: {answer}");
        }
        node.close();
    }
}
