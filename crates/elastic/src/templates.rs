//! Templates of indexes, and data streams.

mod checks;

use serde_json::{Map, Value, json};

use self::checks::{analyzer_notes, check_time_field, check_unused, put_composed};
pub(crate) use self::checks::{check_beside, check_parts, checked};
use crate::Error;
use crate::catalog::{CatalogChange, CatalogEntries, NamedKind, OpenIndex, StreamEntry};
use crate::fields::names_of;
use crate::kept_hits::take_answer;
use crate::lifecycle::{self, StreamLifecycle};
use crate::names::check_index_name;
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;
use crate::small_sort::sort_few;
use crate::{index_admin, index_settings, log_settings};

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
                // One that an earlier version passed over keeps all documents.
                ("lifecycle", Value::Object(of)) => lifecycle = StreamLifecycle::parse(&of).ok(),
                ("settings", Value::Object(of)) => settings.extend(index_settings::flat(&of)),
                _ => {}
            }
        }
    }
    if lifecycle.is_none()
        && let Some(Value::String(policy)) = settings.get("index.lifecycle.name")
    {
        lifecycle = change.named(NamedKind::LifecyclePolicy, policy).and_then(StreamLifecycle::of_policy);
    }
    check_time_field(&mappings, &stream.timestamp_field)?;
    // Settings that let fields take malformed values do not mean the time.
    if let Some(Value::Object(properties)) = mappings.get_mut("properties")
        && let Some(Value::Object(field)) = properties.get_mut(&stream.timestamp_field)
        && settings.contains_key("index.mapping.ignore_malformed")
    {
        field.entry("ignore_malformed").or_insert(Value::Bool(false));
    }
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

/// Name of the field with the time of documents that the template of a data stream has.
fn time_field_of(template: &Value) -> Option<&str> {
    let named = || template.get("data_stream")?.get("timestamp_field")?.get("name")?.as_str();
    template.get("data_stream").map(|_| named().unwrap_or("@timestamp"))
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

fn priority_of(priority: Option<&Value>) -> i64 {
    priority.and_then(Value::as_i64).unwrap_or(0)
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
    let mut notes = analyzer_notes(&body);
    if kind == NamedKind::LifecyclePolicy {
        notes.push(lifecycle::policy_note(name));
    }
    put_composed(&mut change, kind, name, body)?;
    change.commit()?;
    service.warn(notes);
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
        return Err(Error::NotFound(match kind {
            NamedKind::LifecyclePolicy => format!("Lifecycle policy not found: {pattern}"),
            NamedKind::SearchPipeline => format!("search pipeline [{pattern}] not found"),
            _ => format!("index template matching [{pattern}] not found"),
        }));
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
        | NamedKind::TypeAliases
        | NamedKind::LifecyclePolicy
        | NamedKind::SearchPipeline => Value::Object(found.collect()),
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
    if kind == NamedKind::LifecyclePolicy {
        shown["version"] = json!(1);
    }
    let of = match kind {
        NamedKind::IndexTemplate | NamedKind::ComponentTemplate => shown.get_mut("template"),
        NamedKind::LegacyTemplate => Some(&mut shown),
        NamedKind::Pipeline
        | NamedKind::ClusterSettings
        | NamedKind::TypeAliases
        | NamedKind::LifecyclePolicy
        | NamedKind::SearchPipeline => None,
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
        let what = match kind {
            NamedKind::ComponentTemplate => "component_template",
            NamedKind::Pipeline => "pipeline",
            NamedKind::LifecyclePolicy => "lifecycle policy",
            NamedKind::SearchPipeline => "search pipeline",
            _ => "index_template",
        };
        return Err(Error::NotFound(format!("{what} [{pattern}] missing")));
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
