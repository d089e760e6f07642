//! Templates of indexes, and data streams.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogChange, CatalogEntries, NamedKind, OpenIndex, StreamEntry};
use crate::few::sort_few;
use crate::fields::names_of;
use crate::kept_hits::take_answer;
use crate::lifecycle::StreamLifecycle;
use crate::mapping::{field_at, type_of};
use crate::names::{NAME_BYTES_MAX, check_index_name};
use crate::patterns::{glob, overlap};
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;
use crate::{index_admin, index_settings, log_settings};

/// Patterns of one template.
const PATTERNS_MAX: usize = 1_000;

/// Parts of indexes that the templates for a name give, those that count less first.
pub(crate) fn matching(entries: &CatalogEntries, name: &str) -> Vec<Map<String, Value>> {
    if let Some((_, template)) = best(entries, name) {
        return parts_of(entries, template);
    }
    let mut older: Vec<&Value> = entries
        .all_named(NamedKind::LegacyTemplate)
        .map(|(_, template)| template)
        .filter(|template| covers(template, name))
        .collect();
    let order_of = |template: &Value| template.get("order").and_then(Value::as_i64).unwrap_or(0);
    sort_few(&mut older, |left, right| order_of(left).cmp(&order_of(right)));
    let part = |template: &Value| {
        let mut part = template.as_object().cloned().unwrap_or_default();
        part.retain(|name, _| ["settings", "mappings", "aliases"].contains(&name.as_str()));
        part
    };
    older.into_iter().map(part).collect()
}

/// Parts that a composable template gives, those that count less first.
pub(crate) fn parts_of(entries: &CatalogEntries, template: &Value) -> Vec<Map<String, Value>> {
    let names = template.get("composed_of").map(names_of).unwrap_or_default();
    let components = names.iter().filter_map(|part| entries.named(NamedKind::ComponentTemplate, part));
    let all = components.chain([template]);
    all.filter_map(|template| template.get("template")?.as_object().cloned()).collect()
}

fn covers(template: &Value, name: &str) -> bool {
    let patterns = template.get("index_patterns").map(names_of).unwrap_or_default();
    patterns.iter().any(|pattern| glob(pattern, name))
}

/// Composable template with the highest priority for a name.
pub(crate) fn best<'e>(entries: &'e CatalogEntries, name: &str) -> Option<(&'e str, &'e Value)> {
    let all = entries.all_named(NamedKind::IndexTemplate).filter(|(_, template)| covers(template, name));
    all.max_by_key(|(_, template)| priority_of(template.get("priority")))
}

/// Template that makes a data stream of this name.
pub(crate) fn stream_template(entries: &CatalogEntries, name: &str) -> Option<String> {
    let (template_name, template) = best(entries, name)?;
    template.get("data_stream").map(|_| template_name.to_owned())
}

/// Template for a name that says whether writes make an index of it, and what it says.
pub(crate) fn auto_creation(entries: &CatalogEntries, name: &str) -> Option<(String, bool)> {
    let (template_name, template) = best(entries, name)?;
    let allowed = template.get("allow_auto_create")?.as_bool()?;
    Some((template_name.to_owned(), allowed))
}

/// Name that a data stream has for its template, if log records made it and no template covers it.
const RECORD_TEMPLATE: &str = "otlp";

/// Makes a data stream with its first backing index.
pub(crate) fn create_stream(
    change: &mut CatalogChange<'_>,
    name: &str,
    template: &str,
) -> Result<OpenIndex, Error> {
    create(change, name, template, false)
}

/// Makes a data stream for log records of OpenTelemetry, with the mapping of such records where the templates
/// for its name have no other.
pub(crate) fn create_record_stream(change: &mut CatalogChange<'_>, name: &str) -> Result<OpenIndex, Error> {
    let template = stream_template(change, name);
    create(change, name, template.as_deref().unwrap_or(RECORD_TEMPLATE), true)
}

fn create(
    change: &mut CatalogChange<'_>,
    name: &str,
    template: &str,
    has_records: bool,
) -> Result<OpenIndex, Error> {
    check_index_name(name)?;
    if change.index(name).is_some() || change.streams.contains_key(name) {
        return Err(Error::Exists {
            reason: format!("data_stream [{name}] already exists"),
            index: name.to_owned(),
        });
    }
    let field = change.named(NamedKind::IndexTemplate, template).and_then(time_field_of).map(str::to_owned);
    let mut stream = StreamEntry {
        name: name.to_owned(),
        indexes: Vec::new(),
        generation: 0,
        template: template.to_owned(),
        timestamp_field: field.unwrap_or_else(|| "@timestamp".to_owned()),
        has_records,
        lifecycle: None,
    };
    let index = next_index(change, &mut stream)?;
    change.put_stream(stream);
    Ok(index)
}

/// Makes the next backing index of a data stream.
///
/// # Errors
/// A part of its templates is malformed, or there are too many indexes.
pub(crate) fn next_index(
    change: &mut CatalogChange<'_>,
    stream: &mut StreamEntry,
) -> Result<OpenIndex, Error> {
    let name = stream.next_name();
    stream.generation += 1;
    // The templates for the stream's name count.
    let mut settings = Map::new();
    let mut lifecycle = None;
    let mut time_field = Map::new();
    time_field.insert(stream.timestamp_field.clone(), json!({ "type": "date" }));
    let mut mappings = Map::new();
    mappings.insert("properties".to_owned(), Value::Object(time_field));
    for part in matching(change, &stream.name) {
        for (member, value) in part {
            match (member.as_str(), value) {
                ("mappings", Value::Object(of)) => {
                    crate::mapping::lay_over(&mut mappings, &index_admin::untyped(of));
                }
                ("lifecycle", Value::Object(of)) => lifecycle = Some(StreamLifecycle::parse(&of)?),
                ("settings", Value::Object(of)) => settings.extend(index_settings::flat(&of)),
                _ => {}
            }
        }
    }
    check_time_field(&mappings, &stream.timestamp_field)?;
    if stream.has_records
        && let Some(Value::Object(own)) = mappings.get_mut("properties")
    {
        for (name, field) in crate::otlp::mapping() {
            own.entry(name).or_insert(field);
        }
    }
    settings.insert("index.hidden".to_owned(), json!("true"));
    if stream.has_records {
        log_settings::default_to_logs(&mut settings);
    }
    let mut body = Map::new();
    body.insert("mappings".to_owned(), Value::Object(mappings));
    body.insert("settings".to_owned(), Value::Object(settings));
    let mut index = index_admin::create_of(change, &name, body, Some(&stream.timestamp_field))?;
    // Aliases of the stream are those of all its indexes.
    let newest = stream.indexes.last().and_then(|newest| change.indexes.get(newest));
    let aliases = newest.map(|newest| newest.entry.aliases.clone()).unwrap_or_default();
    if !aliases.is_empty() {
        let mut entry = (*index.entry).clone();
        entry.aliases.extend(aliases);
        index = change.put_index(entry)?;
    }
    if stream.indexes.is_empty() {
        stream.lifecycle = lifecycle;
    }
    stream.indexes.push(name);
    Ok(index)
}

/// Refuses a mapping in which the time of the documents of a data stream is no date.
fn check_time_field(mappings: &Map<String, Value>, field: &str) -> Result<(), Error> {
    match field_at(mappings, field).map(|(field, _)| type_of(field)) {
        Some("date" | "date_nanos") => Ok(()),
        other => Err(Error::IllegalArgument(format!(
            "data stream timestamp field [{field}] is of type [{}], but [date,date_nanos] is expected",
            other.unwrap_or("none")
        ))),
    }
}

/// Name of the field with the time of documents that the template of a data stream has.
fn time_field_of(template: &Value) -> Option<&str> {
    let named = || template.get("data_stream")?.get("timestamp_field")?.get("name")?.as_str();
    template.get("data_stream").map(|_| named().unwrap_or("@timestamp"))
}

/// Checks the templates of data streams that have a part, or are it, by themselves.
///
/// # Errors
/// The data streams of one could not be made.
fn check_stream_templates(entries: &CatalogEntries, kind: NamedKind, name: &str) -> Result<(), Error> {
    for (template_name, template) in entries.all_named(NamedKind::IndexTemplate) {
        let is_meant = match kind {
            NamedKind::IndexTemplate => template_name == name,
            NamedKind::ComponentTemplate => {
                template.get("composed_of").map(names_of).unwrap_or_default().iter().any(|part| part == name)
            }
            _ => false,
        };
        let Some(field) = time_field_of(template).filter(|_| is_meant) else { continue };
        let mut mappings = Map::new();
        let of_field = json!({ "properties": { field: { "type": "date" } } });
        let parts = parts_of(entries, template).into_iter().filter_map(|mut part| part.remove("mappings"));
        for part in std::iter::once(of_field).chain(parts) {
            if let Value::Object(part) = part {
                crate::mapping::lay_over(&mut mappings, &index_admin::untyped(part));
            }
        }
        check_time_field(&mappings, field).map_err(|error| {
            Error::IllegalArgument(format!("composable template [{template_name}] is invalid: {error}"))
        })?;
    }
    Ok(())
}

/// `PUT` of a data stream.
pub(crate) fn put_stream(service: &ElasticService, name: &str) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    let Some(template) = stream_template(&change, name) else {
        return Err(Error::IllegalArgument(format!(
            "no matching index template found for data stream [{name}]"
        )));
    };
    create_stream(&mut change, name, &template)?;
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `DELETE` of data streams.
pub(crate) fn delete_stream(service: &ElasticService, pattern: &str) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    let names: Vec<String> = change.streams.keys().filter(|name| glob(pattern, name)).cloned().collect();
    if names.is_empty() && !pattern.contains('*') {
        return Err(Error::no_index(pattern));
    }
    names.iter().try_for_each(|name| change.delete_stream(name))?;
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `GET` of data streams.
pub(crate) fn get_streams(service: &ElasticService, pattern: &str) -> Result<ReplyContent, Error> {
    let entries = service.catalog.read()?;
    let wanted = |name: &String| pattern.is_empty() || pattern.split(',').any(|one| glob(one, name));
    let shown = entries.streams.values().filter(|stream| wanted(&stream.name)).map(|stream| {
        let indexes = stream.indexes.iter().filter_map(|name| entries.indexes.get(name));
        let indexes: Vec<Value> = indexes
            .map(|index| json!({ "index_name": index.entry.name, "index_uuid": index.entry.uuid }))
            .collect();
        let mut object = json!({
            "name": stream.name,
            "timestamp_field": { "name": stream.timestamp_field },
            "indices": indexes,
            "generation": stream.generation,
            "status": "GREEN",
            "template": stream.template,
        });
        if let Some(lifecycle) = &stream.lifecycle {
            object["lifecycle"] = lifecycle.object();
        }
        object
    });
    let shown: Vec<Value> = shown.collect();
    if shown.is_empty() && !pattern.is_empty() && !pattern.contains('*') {
        return Err(Error::no_index(pattern));
    }
    ReplyContent::ok(json!({ "data_streams": shown }))
}

/// Refuses members of a template that have no effect because they are not known.
fn check_members(kind: NamedKind, name: &str, body: &Map<String, Value>) -> Result<(), Error> {
    const PARTS: &[&str] = &["settings", "mappings", "aliases", "lifecycle"];
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
        NamedKind::Pipeline | NamedKind::ClusterSettings | NamedKind::TypeAliases => return Ok(()),
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

fn priority_of(priority: Option<&Value>) -> i64 {
    priority.and_then(Value::as_i64).unwrap_or(0)
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
    let of = body.get("template").and_then(Value::as_object).unwrap_or(&body);
    if let Some(lifecycle) = of.get("lifecycle").and_then(Value::as_object) {
        StreamLifecycle::parse(lifecycle)?;
    }
    for options in of.get("aliases").and_then(Value::as_object).iter().flat_map(|aliases| aliases.values()) {
        index_admin::alias_options(options.as_object().cloned().unwrap_or_default())?;
    }
    if let Some(mappings) = of.get("mappings").and_then(Value::as_object) {
        crate::mapping::check(&index_admin::untyped(mappings.clone()))?;
    }
    if let Some(settings) = of.get("settings").and_then(Value::as_object) {
        index_settings::check_template_settings(settings)?;
    }
    Ok(body)
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
    let parts = body.get("composed_of").map(names_of).unwrap_or_default();
    let missing: Vec<String> = parts
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

/// `PUT` of a named object.
pub(crate) fn put_named(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    kind: NamedKind,
    name: &str,
) -> Result<ReplyContent, Error> {
    let body = checked(kind, name, object_of(&request.body)?)?;
    let mut change = service.catalog.change()?;
    if parameters.flag("create")?.unwrap_or(false) && change.named(kind, name).is_some() {
        return Err(Error::IllegalArgument(format!("index_template [{name}] already exists")));
    }
    if kind == NamedKind::IndexTemplate {
        check_beside(&change, name, &body)?;
    }
    change.put_named(kind, name, Value::Object(body))?;
    check_stream_templates(&change, kind, name)?;
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `GET` and `HEAD` of named objects.
pub(crate) fn get_named(
    service: &ElasticService,
    parameters: &ElasticParameters,
    kind: NamedKind,
    pattern: &str,
) -> Result<ReplyContent, Error> {
    let is_flat = parameters.flag("flat_settings")?.unwrap_or(false);
    let entries = service.catalog.read()?;
    let wanted = |name: &str| pattern.is_empty() || pattern.split(',').any(|one| glob(one, name));
    let found: Vec<(&str, &Value)> = entries.all_named(kind).filter(|(name, _)| wanted(name)).collect();
    if found.is_empty() && !pattern.is_empty() && !pattern.contains('*') {
        return Err(Error::NotFound(format!("index template matching [{pattern}] not found")));
    }
    found.iter().try_for_each(|(_, value)| take_answer(&service.answer_memory, value))?;
    let shown = |(name, value): &(&str, &Value)| ((*name).to_owned(), shown_template(kind, value, is_flat));
    let found = found.iter().map(shown);
    let list = |member: &str, inner: &str| {
        let all = found.clone().map(|(name, value)| json!({ "name": name, inner: value }));
        json!({ member: all.collect::<Vec<_>>() })
    };
    ReplyContent::ok(match kind {
        NamedKind::IndexTemplate => list("index_templates", "index_template"),
        NamedKind::ComponentTemplate => list("component_templates", "component_template"),
        NamedKind::LegacyTemplate
        | NamedKind::Pipeline
        | NamedKind::ClusterSettings
        | NamedKind::TypeAliases => Value::Object(found.collect()),
    })
}

/// A named object in the form of answers: settings have their full names.
fn shown_template(kind: NamedKind, kept: &Value, is_flat: bool) -> Value {
    let mut shown = kept.clone();
    if kind == NamedKind::LegacyTemplate {
        for (member, empty) in
            [("order", json!(0)), ("settings", json!({})), ("mappings", json!({})), ("aliases", json!({}))]
        {
            if shown.get(member).is_none() {
                shown[member] = empty;
            }
        }
    }
    let of = match kind {
        NamedKind::IndexTemplate | NamedKind::ComponentTemplate => shown.get_mut("template"),
        NamedKind::LegacyTemplate => Some(&mut shown),
        NamedKind::Pipeline | NamedKind::ClusterSettings | NamedKind::TypeAliases => None,
    };
    if let Some(settings) = of.and_then(|of| of.get_mut("settings"))
        && let Some(given) = settings.as_object()
    {
        let flat = index_settings::flat(given);
        *settings = match is_flat {
            true => Value::Object(flat.into_iter().collect()),
            false => index_settings::nested(flat),
        };
    }
    shown
}

/// Refuses the deletion of component templates that index templates are composed of.
fn check_unused(entries: &CatalogEntries, deleted: &[String]) -> Result<(), Error> {
    let parts = |template: &Value| template.get("composed_of").map(names_of).unwrap_or_default();
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

/// Refuses the deletion of index templates without which the next index of a data stream could not be made.
fn check_streams(entries: &CatalogEntries, deleted: &[String]) -> Result<(), Error> {
    let has_other = |stream: &StreamEntry| {
        entries.all_named(NamedKind::IndexTemplate).any(|(name, template)| {
            template.get("data_stream").is_some()
                && covers(template, &stream.name)
                && deleted.iter().all(|gone| gone != name)
        })
    };
    // The streams of OpenTelemetry need no template.
    let needs = |stream: &&StreamEntry| !stream.has_records && deleted.contains(&stream.template);
    let left: Vec<&str> = entries
        .streams
        .values()
        .filter(needs)
        .filter(|stream| !has_other(stream))
        .map(|stream| stream.name.as_str())
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(Error::IllegalArgument(format!(
            "unable to remove composable templates [{}] as they are in use by data streams [{}]",
            deleted.join(", "),
            left.join(", ")
        ))),
    }
}

/// `DELETE` of named objects.
pub(crate) fn delete_named(
    service: &ElasticService,
    kind: NamedKind,
    pattern: &str,
) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    let found: Vec<String> =
        change.all_named(kind).map(|(name, _)| name.to_owned()).filter(|name| glob(pattern, name)).collect();
    if found.is_empty() && !pattern.contains('*') {
        return Err(Error::NotFound(format!("index_template [{pattern}] missing")));
    }
    match kind {
        NamedKind::ComponentTemplate => check_unused(&change, &found)?,
        NamedKind::IndexTemplate => check_streams(&change, &found)?,
        _ => {}
    }
    found.iter().for_each(|name| change.delete_named(kind, name));
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}
