//! Requests about the node and all indexes: information, settings, fields, tables.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::aggregations::BUCKETS_MAX;
use crate::auto_creation::{AUTO_CREATE, AutoCreation};
use crate::catalog::{CatalogEntries, NamedKind, OpenIndex};
use crate::cluster_health::{ClusterStatus, KnownNodes};
use crate::door::ElasticDoor;
use crate::few::sort_few;
use crate::index_admin::shards_of;
use crate::index_settings::nested;
use crate::kept_hits::take_answer;
use crate::mapping::{all_fields, type_of};
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::query;
use crate::request::{DoorParameters, DoorReply, DoorRequest, object_of};
use crate::search::run;
use crate::search_request::HitSearch;

/// Version of the interface that the door announces.
pub(crate) const VERSION: &str = "8.19.0";

/// Setting of the cluster with the number of buckets that one search may have.
pub(crate) const BUCKETS: &str = "search.max_buckets";

/// `GET /`.
pub(crate) fn info() -> Result<DoorReply, Error> {
    DoorReply::ok(json!({
        "name": "millrace",
        "cluster_name": "millrace",
        "cluster_uuid": "millrace",
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "build_type": "tar",
            "build_hash": "unknown",
            "build_date": "2025-01-01T00:00:00Z",
            "build_snapshot": false,
            "lucene_version": "9.12.0",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    }))
}

/// `GET` of the settings of the cluster.
pub(crate) fn get_settings(door: &ElasticDoor, parameters: &DoorParameters) -> Result<DoorReply, Error> {
    let entries = door.catalog.read()?;
    let of = |kind: &str| {
        let kept = entries.named(NamedKind::ClusterSettings, kind).and_then(Value::as_object);
        shown_settings(kept.cloned().unwrap_or_default(), parameters)
    };
    let mut answer = json!({ "persistent": of("persistent")?, "transient": of("transient")? });
    if parameters.flag("include_defaults")?.unwrap_or(false) {
        let mut defaults = Map::new();
        for (name, value) in [(AUTO_CREATE, "true".to_owned()), (BUCKETS, BUCKETS_MAX.to_string())] {
            if setting_of(&entries, name).is_none() {
                defaults.insert(name.to_owned(), value.into());
            }
        }
        answer["defaults"] = shown_settings(defaults, parameters)?;
    }
    DoorReply::ok(answer)
}

/// Settings by full names in the form that a request asks for.
fn shown_settings(settings: Map<String, Value>, parameters: &DoorParameters) -> Result<Value, Error> {
    Ok(match parameters.flag("flat_settings")?.unwrap_or(false) {
        true => Value::Object(settings),
        false => nested(settings),
    })
}

/// A setting of the cluster as a text; transient settings count before persistent ones.
pub(crate) fn setting(door: &ElasticDoor, name: &str) -> Result<Option<String>, Error> {
    Ok(setting_of(&*door.catalog.read()?, name))
}

/// [`setting`] by a catalog.
pub(crate) fn setting_of(entries: &CatalogEntries, name: &str) -> Option<String> {
    let of = |kind: &str| entries.named(NamedKind::ClusterSettings, kind)?.get(name).map(query::text_of);
    of("transient").or_else(|| of("persistent"))
}

/// `PUT` of settings of the cluster. They are kept; `action.auto_create_index` and `search.max_buckets` have
/// an effect.
pub(crate) fn put_settings(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
) -> Result<DoorReply, Error> {
    fn flatten(settings: &Map<String, Value>, before: &str, flat: &mut Map<String, Value>) {
        for (name, value) in settings {
            match value {
                Value::Object(below) => flatten(below, &format!("{before}{name}."), flat),
                Value::Null | Value::Array(_) => drop(flat.insert(format!("{before}{name}"), value.clone())),
                value => drop(flat.insert(format!("{before}{name}"), query::text_of(value).into())),
            }
        }
    }
    const KINDS: [&str; 2] = ["persistent", "transient"];
    let body = object_of(&request.body)?;
    if let Some(unknown) = body.keys().find(|member| !KINDS.contains(&member.as_str())) {
        return Err(Error::Content(format!("[cluster_update_settings_request] unknown field [{unknown}]")));
    }
    let is_empty = |kind: &str| body.get(kind).and_then(Value::as_object).is_none_or(Map::is_empty);
    if KINDS.iter().all(|kind| is_empty(kind)) {
        return Err(Error::Validation(vec!["no settings to update".to_owned()]));
    }
    let mut all = Vec::new();
    for kind in KINDS {
        let Some(given) = body.get(kind).and_then(Value::as_object) else { continue };
        let mut flat = Map::new();
        flatten(given, "", &mut flat);
        if let Some(value) = flat.get(AUTO_CREATE).filter(|value| !value.is_null()) {
            AutoCreation::parse(&query::text_of(value))?;
        }
        all.push((kind, flat));
    }
    let mut change = door.catalog.change()?;
    let mut answer = json!({ "acknowledged": true, "persistent": {}, "transient": {} });
    for (kind, flat) in all {
        let kept = change.named(NamedKind::ClusterSettings, kind).and_then(Value::as_object);
        let mut kept = kept.cloned().unwrap_or_default();
        for (name, value) in &flat {
            match value {
                Value::Null => kept.retain(|own, _| !glob(name, own)),
                value => drop(kept.insert(name.clone(), value.clone())),
            }
        }
        change.put_named(NamedKind::ClusterSettings, kind, Value::Object(kept))?;
        let changed = flat.into_iter().filter(|(_, value)| !value.is_null()).collect();
        answer[kind] = shown_settings(changed, parameters)?;
    }
    change.commit()?;
    DoorReply::ok(answer)
}

/// `_field_caps`: types of fields over indexes.
pub(crate) fn field_caps(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    expression: &str,
) -> Result<DoorReply, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let indexes = names::resolve(&*door.catalog.read()?, expression, options)?;
    let indexes = filtered(door, indexes, &object_of(&request.body)?)?;
    let indexes: Vec<OpenIndex> =
        indexes.into_iter().map(|index| index.with_observed(&door.node)).collect::<Result<_, Error>>()?;
    let has_unmapped = parameters.flag("include_unmapped")?.unwrap_or(false);
    let patterns = parameters.list("fields").unwrap_or_else(|| vec!["*".to_owned()]);
    let mut fields: Map<String, Value> = Map::new();
    for index in &indexes {
        for (path, field) in all_fields(&index.entry.mappings) {
            if !patterns.iter().any(|pattern| glob(pattern, &path)) {
                continue;
            }
            let kind = type_of(field);
            let is_leaf = kind != "object" && kind != "nested";
            let can = |name: &str| is_leaf && field.get(name) != Some(&Value::Bool(false));
            let of_path = fields.entry(path).or_insert_with(|| json!({}));
            if of_path.get(kind).is_none() {
                let aggregatable = can("doc_values") && kind != "text" && kind != "match_only_text";
                of_path[kind] = json!({
                    "type": kind, "searchable": can("index"), "aggregatable": aggregatable, "indices": [],
                });
                take_answer(&door.answer_memory, &of_path[kind])?;
            }
            if let Some(of) = of_path[kind]["indices"].as_array_mut() {
                let name: Value = index.entry.name.as_str().into();
                take_answer(&door.answer_memory, &name)?;
                of.push(name);
            }
        }
    }
    for (path, of_path) in &mut fields {
        let Value::Object(kinds) = of_path else { continue };
        if has_unmapped {
            let lacks = |index: &&OpenIndex| crate::mapping::field_at(&index.entry.mappings, path).is_none();
            let lacking: Vec<&str> =
                indexes.iter().filter(lacks).map(|index| index.entry.name.as_str()).collect();
            if !lacking.is_empty() {
                let unmapped = json!({
                    "type": "unmapped", "searchable": false, "aggregatable": false, "indices": lacking,
                });
                take_answer(&door.answer_memory, &unmapped)?;
                kinds.insert("unmapped".to_owned(), unmapped);
            }
        }
        let is_single = kinds.len() == 1;
        for capability in kinds.values_mut() {
            if let (true, Value::Object(capability)) = (is_single, capability) {
                capability.remove("indices");
            }
        }
    }
    let names: Vec<&str> = indexes.iter().map(|index| index.entry.name.as_str()).collect();
    DoorReply::ok(json!({ "indices": names, "fields": fields }))
}

/// Indexes with a document that the member `index_filter` of a body matches; all without one.
fn filtered(
    door: &ElasticDoor,
    indexes: Vec<OpenIndex>,
    body: &Map<String, Value>,
) -> Result<Vec<OpenIndex>, Error> {
    let Some(filter) = body.get("index_filter") else { return Ok(indexes) };
    let mut query = Map::new();
    query.insert("query".to_owned(), filter.clone());
    let mut search = HitSearch::parse(&query, &DoorParameters::default(), false)?;
    search.size = 0;
    let mut kept = Vec::new();
    for index in indexes {
        if run(door, std::slice::from_ref(&index), &search)?.facts.total > 0 {
            kept.push(index);
        }
    }
    Ok(kept)
}

/// A table of `_cat`.
struct CatTable {
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// `_cat`: tables as text or JSON.
pub(crate) fn cat(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    path: &[&str],
) -> Result<DoorReply, Error> {
    let table = match path {
        ["indices", rest @ ..] => cat_indices(door, parameters, rest.first().copied().unwrap_or_default())?,
        ["count", rest @ ..] => {
            let expression = rest.first().copied().unwrap_or_default();
            let indexes = names::resolve(&*door.catalog.read()?, expression, NameOptions::LENIENT)?;
            let mut count = 0;
            for index in &indexes {
                count += documents_of(door, index)?;
            }
            CatTable { columns: &["count"], rows: vec![vec![count.to_string()]] }
        }
        ["health"] => CatTable {
            columns: &["cluster", "status", "node.total", "node.data", "shards"],
            rows: vec![KnownNodes::of(door, "").health_row()],
        },
        ["nodes"] => CatTable {
            columns: &["ip", "node.role", "master", "name"],
            rows: KnownNodes::of(door, &request.host).rows(),
        },
        ["aliases", rest @ ..] => cat_aliases(&*door.catalog.read()?, rest.first().copied().unwrap_or("*")),
        ["templates", rest @ ..] => {
            cat_templates(&*door.catalog.read()?, rest.first().copied().unwrap_or("*"))
        }
        _ => {
            return Err(Error::IllegalArgument(format!(
                "no handler found for uri [{}] and method [{}]; docs/elastic.md lists what there is",
                request.path, request.method
            )));
        }
    };
    table.reply(request, parameters)
}

/// Aliases of indexes, by patterns with commas between.
fn cat_aliases(entries: &CatalogEntries, patterns: &str) -> CatTable {
    let mut rows = Vec::new();
    for index in entries.indexes.values() {
        for (alias, options) in &index.entry.aliases {
            if patterns.split(',').any(|pattern| glob(pattern, alias)) {
                let text = |name: &str| options.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
                let filter = if options.contains_key("filter") { "*" } else { "-" };
                let writes = options.get("is_write_index").map_or("-".to_owned(), Value::to_string);
                rows.push(vec![
                    alias.clone(),
                    index.entry.name.clone(),
                    filter.to_owned(),
                    text("index_routing"),
                    text("search_routing"),
                    writes,
                ]);
            }
        }
    }
    let columns = &["alias", "index", "filter", "routing.index", "routing.search", "is_write_index"];
    CatTable { columns, rows }
}

/// Templates of indexes of both kinds, by a pattern.
fn cat_templates(entries: &CatalogEntries, pattern: &str) -> CatTable {
    let all = [NamedKind::LegacyTemplate, NamedKind::IndexTemplate].into_iter();
    let all = all.flat_map(|kind| entries.all_named(kind).collect::<Vec<_>>());
    let rows = all.filter(|(name, _)| glob(pattern, name)).map(|(name, template)| {
        let patterns = template.get("index_patterns").map(query::text_of).unwrap_or_default();
        vec![name.to_owned(), patterns.replace('"', "")]
    });
    CatTable { columns: &["name", "index_patterns"], rows: rows.collect() }
}

/// Number of documents of an index.
pub(crate) fn documents_of(door: &ElasticDoor, index: &OpenIndex) -> Result<u64, Error> {
    let mut all = HitSearch::parse(&Map::new(), &DoorParameters::default(), false)?;
    all.size = 0;
    Ok(run(door, std::slice::from_ref(index), &all)?.facts.total)
}

fn cat_indices(door: &ElasticDoor, parameters: &DoorParameters, expression: &str) -> Result<CatTable, Error> {
    const COLUMNS: [&str; 10] = [
        "health",
        "status",
        "index",
        "uuid",
        "pri",
        "rep",
        "docs.count",
        "docs.deleted",
        "store.size",
        "pri.store.size",
    ];
    let health = KnownNodes::of(door, "").status();
    let wanted = ClusterStatus::of_parameter(parameters, "health")?;
    let mut options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    options = options.with(parameters)?;
    let indexes = names::resolve(&*door.catalog.read()?, expression, options)?;
    let mut rows = Vec::new();
    for index in indexes {
        if wanted.is_some_and(|wanted| wanted != health) {
            continue;
        }
        let count = match index.entry.is_closed || index.typed.is_some() {
            true => String::new(),
            false => documents_of(door, &index)?.to_string(),
        };
        let is_closed = index.entry.is_closed;
        let size = |size: &str| if is_closed { String::new() } else { size.to_owned() };
        rows.push(vec![
            health.name().to_owned(),
            if index.entry.is_closed { "close" } else { "open" }.to_owned(),
            index.entry.name.clone(),
            index.entry.uuid.clone(),
            shards_of(&index).to_string(),
            index.setting("index.number_of_replicas").unwrap_or("0").to_owned(),
            count,
            size("0"),
            size("0b"),
            size("0b"),
        ]);
    }
    Ok(CatTable { columns: &COLUMNS, rows })
}

impl CatTable {
    /// Position of a column by its name or short name.
    fn position(&self, name: &str) -> Option<usize> {
        let long = match name {
            "i" | "idx" => "index",
            "h" => "health",
            "s" => "status",
            "id" => "uuid",
            "p" | "shards.primary" => "pri",
            "r" | "shards.replica" => "rep",
            "dc" | "docsCount" => "docs.count",
            "a" => "alias",
            "n" => "name",
            other => other,
        };
        self.columns.iter().position(|column| *column == long)
    }

    fn reply(mut self, request: &DoorRequest, parameters: &DoorParameters) -> Result<DoorReply, Error> {
        if parameters.has("help") {
            let lines = self.columns.iter().map(|column| format!("{column} | | \n"));
            return Ok(DoorReply::Text(200, lines.collect()));
        }
        for key in parameters.list("s").unwrap_or_default().iter().rev() {
            let (name, order) = key.split_once(':').unwrap_or((key, "asc"));
            let Some(at) = self.position(name) else { continue };
            let number = |row: &Vec<String>| row[at].parse::<f64>().unwrap_or(f64::MAX);
            sort_few(&mut self.rows, |left, right| {
                let by = number(left).total_cmp(&number(right)).then_with(|| left[at].cmp(&right[at]));
                if order == "desc" { by.reverse() } else { by }
            });
        }
        let shown: Vec<usize> = match parameters.list("h") {
            Some(names) => names.iter().filter_map(|name| self.position(name)).collect(),
            None => (0..self.columns.len()).collect(),
        };
        if parameters.get("format") == Some("json") || request.accept.contains("json") {
            let row = |row: &Vec<String>| {
                let cells =
                    shown.iter().map(|at| (self.columns[*at].to_owned(), Value::from(row[*at].as_str())));
                Value::Object(cells.collect())
            };
            return DoorReply::ok(Value::Array(self.rows.iter().map(row).collect()));
        }
        let mut lines: Vec<Vec<&str>> = Vec::new();
        if parameters.flag("v")?.unwrap_or(false) {
            lines.push(shown.iter().map(|at| self.columns[*at]).collect());
        }
        lines.extend(self.rows.iter().map(|row| shown.iter().map(|at| row[*at].as_str()).collect()));
        let mut text = String::new();
        for line in &lines {
            for (at, cell) in line.iter().enumerate() {
                let width = lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
                let separator = if at > 0 { " " } else { "" };
                text.push_str(&format!("{separator}{cell:<width$}"));
            }
            text.push('\n');
        }
        Ok(DoorReply::Text(200, text))
    }
}
