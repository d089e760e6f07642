//! Indexes: made, deleted, shown, refreshed; their mappings and settings.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogChange, CatalogEntries, IndexEntry, OpenIndex, now_ms, random_text};
use crate::index_settings::{check_part, flat, shown_settings};
use crate::kept_hits::take_answer;
use crate::mapping::PartOrigin;
use crate::names::{self, NameOptions, check_alias_name, check_index_name};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::{ElasticService, existing};
use crate::writing::WriteAction;
use crate::{analyzers, log_settings, mapping, query, templates, typed};

/// Makes an index from the body of its request and the templates that match its name.
///
/// # Errors
/// The name is taken or invalid, or the body is.
pub(crate) fn create(
    change: &mut CatalogChange<'_>,
    name: &str,
    body: Map<String, Value>,
) -> Result<OpenIndex, Error> {
    create_of(change, name, body, None)
}

/// Like [`create`]; an index of a data stream has a field with the time of its documents.
///
/// # Errors
/// Those of [`create`]; the body asks for the `logs` mode, and there is no data stream.
pub(crate) fn create_of(
    change: &mut CatalogChange<'_>,
    name: &str,
    body: Map<String, Value>,
    time_field: Option<&str>,
) -> Result<OpenIndex, Error> {
    // The name of a document type may break the rules.
    if change.index(name).is_none() {
        check_index_name(name)?;
    }
    if change.index(name).is_some() || change.streams.contains_key(name) {
        let uuid = change.index(name).map_or("_na_", |index| index.entry.uuid.as_str());
        return Err(Error::Exists {
            reason: format!("index [{name}/{uuid}] already exists"),
            index: name.to_owned(),
        });
    }
    if change.with_alias(name).next().is_some() {
        return Err(Error::IndexName { name: name.to_owned(), reason: "already exists as alias".to_owned() });
    }
    // The body of an index of a data stream is that of its templates.
    let origin = if time_field.is_some() { PartOrigin::Kept } else { PartOrigin::Given };
    let names_mode = body
        .get("settings")
        .and_then(Value::as_object)
        .is_some_and(|settings| flat(settings).contains_key(log_settings::MODE));
    let kept = templates::matching(change, name).into_iter().map(|part| (PartOrigin::Kept, part));
    let DeclaredIndex { mut settings, mappings, aliases } =
        DeclaredIndex::of(change, name, kept.chain([(origin, body)]))?;
    log_settings::check(&settings)?;
    settings.retain(|_, value| !value.is_null());
    let mut is_log = log_settings::is_logs_mode(&settings)?;
    if is_log && time_field.is_none() {
        if names_mode {
            return Err(Error::IllegalArgument(format!(
                "[index.mode] of [{name}] is that of logs, which are in data streams here; put it into the template of a data stream"
            )));
        }
        // Its documents are taken as those of other indexes, whatever their template says.
        settings.insert(log_settings::MODE.to_owned(), "standard".into());
        is_log = false;
    }
    let shards = if is_log { log_settings::default_shards(change.node)? } else { 1 };
    for (setting, value) in [("index.number_of_shards", shards), ("index.number_of_replicas", 1)] {
        settings.entry(setting.to_owned()).or_insert_with(|| value.to_string().into());
    }
    check_write_aliases(change, name, &aliases)?;
    let entry = IndexEntry {
        name: name.to_owned(),
        uuid: random_text(22),
        number: change.unused_number(),
        created_ms: now_ms(),
        settings,
        mappings,
        aliases,
        is_closed: false,
        seq_no_reserved: 0,
        time_field: time_field.filter(|_| is_log).map(str::to_owned),
        observed: Map::new(),
    };
    change.put_index(entry)
}

/// Settings, mappings and aliases of an index to be made, from the templates that match its name and the body
/// of its request.
#[derive(Default)]
pub(crate) struct DeclaredIndex {
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) mappings: Map<String, Value>,
    pub(crate) aliases: BTreeMap<String, Map<String, Value>>,
}

impl DeclaredIndex {
    /// Joins the parts of an index, those that count less first.
    ///
    /// # Errors
    /// A part has a member or a value that indexes do not have, or an alias that cannot be one.
    pub(crate) fn of(
        change: &CatalogChange<'_>,
        name: &str,
        parts: impl IntoIterator<Item = (PartOrigin, Map<String, Value>)>,
    ) -> Result<Self, Error> {
        let mut declared = DeclaredIndex::default();
        let (mut given, mut given_settings, mut is_given) = (Vec::new(), BTreeMap::new(), false);
        for (origin, part) in parts {
            for (member, value) in part {
                is_given |= origin == PartOrigin::Given;
                match (member.as_str(), value) {
                    ("settings", Value::Object(of)) => {
                        if origin == PartOrigin::Given {
                            check_part(&of)?;
                            given_settings.extend(flat(&of));
                        }
                        declared.settings.extend(flat(&of));
                    }
                    ("mappings", Value::Object(of)) => {
                        let mut inner = untyped(of);
                        if origin == PartOrigin::Kept {
                            mapping::drop_malformed(&mut inner);
                        }
                        mapping::check(&inner, origin)?;
                        mapping::lay_over(&mut declared.mappings, &inner);
                        if origin == PartOrigin::Given {
                            given.push(inner);
                        }
                    }
                    ("aliases", Value::Object(of)) => declared.add_aliases(change, name, of, origin)?,
                    // Of data streams.
                    ("lifecycle" | "data_stream_options", _) | (_, Value::Null) => {}
                    ("settings" | "mappings" | "aliases", _) => {
                        return Err(Error::Parsing(format!("key [{member}] must be an object")));
                    }
                    (other, _) => {
                        return Err(Error::unknown(&format!("unknown key [{other}] for create index")));
                    }
                }
            }
        }
        mapping::check(&declared.mappings, PartOrigin::Kept)?;
        if is_given {
            mapping::check_limit(&declared.mappings, &declared.settings)?;
        }
        analyzers::check(&given_settings, &declared.settings)?;
        for part in &given {
            mapping::check_named(part, &declared.mappings, &declared.settings)?;
        }
        Ok(declared)
    }

    fn add_aliases(
        &mut self,
        change: &CatalogChange<'_>,
        name: &str,
        aliases: Map<String, Value>,
        origin: PartOrigin,
    ) -> Result<(), Error> {
        for (alias, options) in aliases {
            let alias = alias.replace("{index}", name);
            check_alias_name(change, &alias)?;
            if alias == name {
                return Err(Error::AliasName {
                    name: alias,
                    reason: "an index or data stream exists with the same name as the alias".to_owned(),
                });
            }
            let options = options.as_object().cloned().unwrap_or_default();
            let options = match origin {
                PartOrigin::Given => alias_options(options)?,
                PartOrigin::Kept => with_routing(options),
            };
            self.aliases.insert(alias, options);
        }
        Ok(())
    }
}

/// A mapping without the type that clients before version 7 name around it.
pub(crate) fn untyped(mut mappings: Map<String, Value>) -> Map<String, Value> {
    match mappings.get_mut("_doc").map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => mappings,
    }
}

/// Options of an alias as they are kept: `routing` stands for both kinds.
///
/// # Errors
/// An option is not known, or the filter is no query.
pub(crate) fn alias_options(mut options: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    const KNOWN: [&str; 6] =
        ["filter", "routing", "index_routing", "search_routing", "is_write_index", "is_hidden"];
    options.retain(|_, value| !value.is_null());
    if let Some(unknown) = options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Error::Content(format!("[alias] unknown field [{unknown}]")));
    }
    options.get("filter").map(query::parse).transpose()?;
    Ok(with_routing(options))
}

/// Options of an alias with the routing values of searches and of writes.
fn with_routing(mut options: Map<String, Value>) -> Map<String, Value> {
    if let Some(routing) = options.remove("routing") {
        options.entry("index_routing").or_insert_with(|| routing.clone());
        options.entry("search_routing").or_insert(routing);
    }
    for name in ["index_routing", "search_routing"] {
        if let Some(number @ Value::Number(_)) = options.get(name) {
            let text = number.to_string();
            options.insert(name.to_owned(), text.into());
        }
    }
    options
}

/// Refuses a second write index of an alias.
fn check_write_aliases(
    change: &CatalogChange<'_>,
    name: &str,
    aliases: &BTreeMap<String, Map<String, Value>>,
) -> Result<(), Error> {
    let writes = |options: &Map<String, Value>| options.get("is_write_index") == Some(&Value::Bool(true));
    for (alias, _) in aliases.iter().filter(|(_, options)| writes(options)) {
        let other = change.with_alias(alias).find(|index| writes(&index.entry.aliases[alias]));
        if let Some(other) = other {
            return Err(Error::IllegalArgument(format!(
                "alias [{alias}] has more than one write index [{},{name}]",
                other.entry.name
            )));
        }
    }
    Ok(())
}

/// `PUT` of an index.
pub(crate) fn put(
    service: &ElasticService,
    request: &ElasticRequest,
    name: &str,
) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    let mut change = service.catalog.change()?;
    let index = create(&mut change, name, body)?;
    change.commit()?;
    service.warn(analyzers::notes(&index.entry.settings, &index.entry.mappings));
    ReplyContent::ok(json!({ "acknowledged": true, "shards_acknowledged": true, "index": name }))
}

/// `DELETE` of indexes.
pub(crate) fn delete(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions { closed: true, forbid_closed: false, aliases: false, ..NameOptions::LENIENT };
    let options = options.with(parameters)?;
    let mut change = service.catalog.change()?;
    typed::check_deletable(&change, expression, options)?;
    let found = names::resolve(&change, expression, options)?;
    delete_found(&mut change, expression, &found)?;
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// Deletes the indexes that an expression was found to name. Patterns pass over indexes of data streams.
///
/// # Errors
/// One is the index that a data stream writes to, or the expression names a data stream. Nothing is deleted
/// then.
pub(crate) fn delete_found(
    change: &mut CatalogChange<'_>,
    expression: &str,
    found: &[OpenIndex],
) -> Result<(), Error> {
    if let Some(stream) = expression.split(',').find(|part| change.streams.contains_key(*part)) {
        return Err(Error::IllegalArgument(format!(
            "The provided expression [{stream}] matches a data stream, specify the corresponding concrete indices instead."
        )));
    }
    let mut deleted = Vec::new();
    for index in found {
        let name = &index.entry.name;
        match change.stream_of(name) {
            Some(_) if names::is_pattern(expression) => {}
            Some(stream) if stream.indexes.last() == Some(name) => {
                return Err(Error::IllegalArgument(format!(
                    "index [{name}] is the write index for data stream [{}] and cannot be deleted",
                    stream.name
                )));
            }
            stream => deleted.push((name, stream.cloned())),
        }
    }
    for (name, stream) in deleted {
        if let Some(stream) = stream {
            // As it is now: several of its indexes may be deleted.
            let mut stream = change.streams.get(&stream.name).cloned().unwrap_or(stream);
            stream.indexes.retain(|other| other != name);
            change.put_stream(stream);
        }
        change.delete_index(name)?;
    }
    Ok(())
}

/// Indexes of an expression, with the fields of all their documents in their mappings.
fn observed_indexes(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<impl Iterator<Item = Result<OpenIndex, Error>>, Error> {
    let options = NameOptions { forbid_closed: false, ..NameOptions::LENIENT };
    let found = names::resolve(&*service.catalog.read()?, expression, options.with(parameters)?)?;
    Ok(found.into_iter().map(move |index| index.with_observed(&service.node)))
}

/// `GET` of indexes.
pub(crate) fn get(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let mut answer = Map::new();
    for index in observed_indexes(service, parameters, expression)? {
        let index = index?;
        // Aliases name groups of others.
        let is_whole = service.caller.has_all_groups();
        let aliases = Some(&index.entry.aliases).filter(|_| is_whole).cloned().unwrap_or_default();
        let mut shown = Map::new();
        shown.insert("aliases".to_owned(), json!(aliases));
        shown.insert("mappings".to_owned(), shown_mappings(index.entry.mappings.clone()));
        shown.extend(shown_settings(&index, parameters, None)?);
        let shown = Value::Object(shown);
        take_answer(&service.answer_memory, &shown)?;
        answer.insert(index.entry.name.clone(), shown);
    }
    ReplyContent::ok(Value::Object(answer))
}

/// Mappings as they are shown: `dynamic` is a text, also where it was sent as true or false.
pub(crate) fn shown_mappings(mut mappings: Map<String, Value>) -> Value {
    spell_dynamic(&mut mappings);
    Value::Object(mappings)
}

fn spell_dynamic(object: &mut Map<String, Value>) {
    if let Some(dynamic) = object.get_mut("dynamic").filter(|dynamic| dynamic.is_boolean()) {
        *dynamic = dynamic.to_string().into();
    }
    let properties = object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    properties.filter_map(|(_, field)| field.as_object_mut()).for_each(spell_dynamic);
}

/// `HEAD` of indexes.
pub(crate) fn exists(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions { forbid_closed: false, ..NameOptions::LENIENT }.with(parameters)?;
    let found = names::resolve(&*service.catalog.read()?, expression, options);
    let is_there = found.is_ok_and(|found| !found.is_empty());
    Ok(ReplyContent::Json(if is_there { 200 } else { 404 }, json!({})))
}

/// `GET` of mappings.
pub(crate) fn get_mapping(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let mut answer = Map::new();
    for index in observed_indexes(service, parameters, expression)? {
        let index = index?;
        let shown = json!({ "mappings": shown_mappings(index.entry.mappings.clone()) });
        take_answer(&service.answer_memory, &shown)?;
        answer.insert(index.entry.name.clone(), shown);
    }
    ReplyContent::ok(Value::Object(answer))
}

/// `GET` of the mappings of fields, by names and patterns with commas between.
pub(crate) fn get_field_mapping(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    fields: &str,
) -> Result<ReplyContent, Error> {
    let has_defaults = parameters.flag("include_defaults")?.unwrap_or(false);
    let mut answer = Map::new();
    for index in observed_indexes(service, parameters, expression)? {
        let index = index?;
        let mut shown = Map::new();
        for (path, field) in mapping::all_fields(&index.entry.mappings) {
            let kind = mapping::type_of(field);
            let is_meant = fields.split(',').any(|pattern| glob(pattern, &path));
            if !is_meant || mapping::is_object(kind) {
                continue;
            }
            let mut field = field.clone();
            if has_defaults {
                field.entry("index").or_insert(true.into());
                field.entry("store").or_insert(false.into());
                if kind == "text" {
                    field.entry("analyzer").or_insert("default".into());
                }
            }
            let name = path.rsplit('.').next().unwrap_or(&path);
            let of = json!({ "full_name": path, "mapping": { name: field } });
            take_answer(&service.answer_memory, &of)?;
            shown.insert(path, of);
        }
        answer.insert(index.entry.name.clone(), json!({ "mappings": shown }));
    }
    ReplyContent::ok(Value::Object(answer))
}

/// Indexes of an expression; of aliases and data streams those alone that take writes.
fn write_indexes(
    entries: &CatalogEntries,
    expression: &str,
    options: NameOptions,
) -> Result<Vec<OpenIndex>, Error> {
    let mut all = Vec::new();
    for part in expression.split(',') {
        let written = match names::is_pattern(part) {
            true => None,
            false => existing(entries, part, WriteAction::Create)?,
        };
        match written {
            Some(index) => all.push(index),
            None => all.extend(names::resolve(entries, part, options)?),
        }
    }
    Ok(all)
}

/// `PUT` of a mapping.
pub(crate) fn put_mapping(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    mapping::check(&body, PartOrigin::Given)?;
    let options =
        NameOptions { allow_no_indices: false, forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    let options = options.with(parameters)?;
    let mut change = service.catalog.change()?;
    let found = match parameters.flag("write_index_only")?.unwrap_or(false) {
        true => write_indexes(&change, expression, options)?,
        false => names::resolve(&change, expression, options)?,
    };
    for index in found {
        let mut entry = (*index.entry).clone();
        mapping::merge(&mut entry.mappings, &body)?;
        mapping::check_whole(&entry.mappings)?;
        mapping::check_limit(&entry.mappings, &entry.settings)?;
        mapping::check_named(&body, &entry.mappings, &entry.settings)?;
        if let Some(field) = &entry.time_field
            && mapping::field_at(&entry.mappings, field) != mapping::field_at(&index.entry.mappings, field)
        {
            return Err(Error::IllegalArgument(format!(
                "the field [{field}] has the times by which the partitions of [{}] are read; it stays as it is",
                entry.name
            )));
        }
        let index = change.put_index(entry)?;
        service.warn(analyzers::notes(&index.entry.settings, &index.entry.mappings));
    }
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `_refresh`, and others that have nothing to do here but need the indexes to exist.
pub(crate) fn refresh(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let found = names::resolve(&*service.catalog.read()?, expression, options)?;
    let shards: u64 = found.iter().map(shards_of).sum();
    found.iter().for_each(|index| index.live.refresh());
    ReplyContent::ok(json!({ "_shards": { "total": shards, "successful": shards, "failed": 0 } }))
}

/// Shards that an index says to have.
pub(crate) fn shards_of(index: &OpenIndex) -> u64 {
    index.setting("index.number_of_shards").and_then(|shards| shards.parse().ok()).unwrap_or(1)
}

/// `_close` and `_open`.
pub(crate) fn set_closed(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    is_closed: bool,
) -> Result<ReplyContent, Error> {
    let options =
        NameOptions { forbid_closed: false, open: is_closed, closed: !is_closed, ..NameOptions::LENIENT };
    let mut change = service.catalog.change()?;
    let mut closed = Map::new();
    for index in names::resolve(&change, expression, options.with(parameters)?)? {
        let mut entry = (*index.entry).clone();
        closed.insert(entry.name.clone(), json!({ "closed": true }));
        entry.is_closed = is_closed;
        change.put_index(entry)?;
    }
    change.commit()?;
    let mut answer = json!({ "acknowledged": true, "shards_acknowledged": true });
    if is_closed {
        answer["indices"] = Value::Object(closed);
    }
    ReplyContent::ok(answer)
}
