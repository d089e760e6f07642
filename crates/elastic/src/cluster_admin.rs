//! Requests about the node and all indexes: information, settings, fields.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::aggregations::BUCKETS_MAX;
use crate::auto_creation::{AUTO_CREATE, AutoCreation};
use crate::catalog::{CatalogEntries, NamedKind, OpenIndex};
use crate::index_settings::nested;
use crate::kept_hits::take_answer;
use crate::mapping::{all_fields, is_kept, is_object, type_of};
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::query;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::search::run;
use crate::search_request::HitSearch;
use crate::service::ElasticService;

/// Version of the interface that the service announces.
pub(crate) const VERSION: &str = "8.19.0";

/// Setting of the cluster with the number of buckets that one search may have.
pub(crate) const BUCKETS: &str = "search.max_buckets";

/// `GET /`.
pub(crate) fn info() -> Result<ReplyContent, Error> {
    ReplyContent::ok(json!({
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
pub(crate) fn get_settings(
    service: &ElasticService,
    parameters: &ElasticParameters,
) -> Result<ReplyContent, Error> {
    let entries = service.catalog.read()?;
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
    ReplyContent::ok(answer)
}

/// Settings by full names in the form that a request asks for.
fn shown_settings(settings: Map<String, Value>, parameters: &ElasticParameters) -> Result<Value, Error> {
    Ok(match parameters.flag("flat_settings")?.unwrap_or(false) {
        true => Value::Object(settings),
        false => nested(settings),
    })
}

/// A setting of the cluster as a text; transient settings count before persistent ones.
pub(crate) fn setting(service: &ElasticService, name: &str) -> Result<Option<String>, Error> {
    Ok(setting_of(&*service.catalog.read()?, name))
}

/// [`setting`] by a catalog.
pub(crate) fn setting_of(entries: &CatalogEntries, name: &str) -> Option<String> {
    let of = |kind: &str| entries.named(NamedKind::ClusterSettings, kind)?.get(name).map(query::text_of);
    of("transient").or_else(|| of("persistent"))
}

/// `PUT` of settings of the cluster. They are kept; `action.auto_create_index` and `search.max_buckets` have
/// an effect.
pub(crate) fn put_settings(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
) -> Result<ReplyContent, Error> {
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
    let mut change = service.catalog.change()?;
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
    ReplyContent::ok(answer)
}

/// `_field_caps`: types of fields over indexes.
pub(crate) fn field_caps(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let indexes = names::resolve(&*service.catalog.read()?, expression, options)?;
    let indexes = filtered(service, indexes, &object_of(&request.body)?)?;
    let indexes: Vec<OpenIndex> =
        indexes.into_iter().map(|index| index.with_observed(&service.node)).collect::<Result<_, Error>>()?;
    let has_unmapped = parameters.flag("include_unmapped")?.unwrap_or(false);
    let patterns = parameters.list("fields").unwrap_or_else(|| vec!["*".to_owned()]);
    let mut fields: Map<String, Value> = Map::new();
    for index in &indexes {
        for (path, field) in all_fields(&index.entry.mappings) {
            if !patterns.iter().any(|pattern| glob(pattern, &path)) {
                continue;
            }
            let kind = type_of(field);
            let is_leaf = !is_object(kind) && !is_kept(kind);
            let can = |name: &str| is_leaf && field.get(name) != Some(&Value::Bool(false));
            let is_aggregatable = can("doc_values") && kind != "text" && kind != "match_only_text";
            let of_path = fields.entry(path).or_insert_with(|| json!({}));
            if of_path.get(kind).is_none() {
                of_path[kind] = json!({
                    "type": kind, "metadata_field": false, "searchable": true, "aggregatable": true, "indices": [],
                    "non_searchable_indices": [], "non_aggregatable_indices": [],
                });
                take_answer(&service.answer_memory, &of_path[kind])?;
            }
            let lists = [
                ("indices", true),
                ("non_searchable_indices", !can("index")),
                ("non_aggregatable_indices", !is_aggregatable),
            ];
            for (list, _) in lists.into_iter().filter(|(_, has_index)| *has_index) {
                let name: Value = index.entry.name.as_str().into();
                take_answer(&service.answer_memory, &name)?;
                if let Some(of) = of_path[kind][list].as_array_mut() {
                    of.push(name);
                }
            }
        }
    }
    for (path, of_path) in &mut fields {
        let Value::Object(kinds) = of_path else { continue };
        kinds.values_mut().filter_map(Value::as_object_mut).for_each(summarize);
        if has_unmapped {
            let lacks = |index: &&OpenIndex| crate::mapping::field_at(&index.entry.mappings, path).is_none();
            let lacking: Vec<&str> =
                indexes.iter().filter(lacks).map(|index| index.entry.name.as_str()).collect();
            if !lacking.is_empty() {
                let unmapped = json!({
                    "type": "unmapped", "metadata_field": false, "searchable": false, "aggregatable": false,
                    "indices": lacking,
                });
                take_answer(&service.answer_memory, &unmapped)?;
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
    ReplyContent::ok(json!({ "indices": names, "fields": fields }))
}

/// Says of a field of a type whether all its indexes can do something. Those that cannot are listed if others
/// can.
fn summarize(capability: &mut Map<String, Value>) {
    let count = |capability: &Map<String, Value>, list: &str| {
        capability.get(list).and_then(Value::as_array).map_or(0, Vec::len)
    };
    let all = count(capability, "indices");
    for (flag, list) in
        [("searchable", "non_searchable_indices"), ("aggregatable", "non_aggregatable_indices")]
    {
        let without = count(capability, list);
        capability.insert(flag.to_owned(), (without == 0).into());
        if without == 0 || without == all {
            capability.remove(list);
        }
    }
}

/// Indexes with a document that the member `index_filter` of a body matches; all without one.
fn filtered(
    service: &ElasticService,
    indexes: Vec<OpenIndex>,
    body: &Map<String, Value>,
) -> Result<Vec<OpenIndex>, Error> {
    let Some(filter) = body.get("index_filter") else { return Ok(indexes) };
    let mut query = Map::new();
    query.insert("query".to_owned(), filter.clone());
    let mut search = HitSearch::parse(&query, &ElasticParameters::default(), false)?;
    search.size = 0;
    let mut kept = Vec::new();
    for index in indexes {
        if run(service, std::slice::from_ref(&index), &search)?.facts.total > 0 {
            kept.push(index);
        }
    }
    Ok(kept)
}

/// Number of documents of an index.
pub(crate) fn documents_of(service: &ElasticService, index: &OpenIndex) -> Result<u64, Error> {
    let mut all = HitSearch::parse(&Map::new(), &ElasticParameters::default(), false)?;
    all.size = 0;
    Ok(run(service, std::slice::from_ref(index), &all)?.facts.total)
}
