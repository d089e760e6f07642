//! Requests about the node and all indexes: information, settings, fields.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::aggregations::BUCKETS_MAX;
use crate::auto_creation::{AUTO_CREATE, AutoCreation};
use crate::catalog::{CatalogEntries, NamedKind, OpenIndex};
use crate::fields::names_of;
use crate::index_settings::nested;
use crate::kept_hits::take_answer;
use crate::mapping::{all_fields, field_at, is_kept, is_object, type_of};
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

/// Choice of the fields that `_field_caps` shows.
struct ShownFields {
    patterns: Vec<String>,
    types: Option<Vec<String>>,
    filters: Vec<String>,
}

impl ShownFields {
    /// Reads the choice of a request.
    ///
    /// # Errors
    /// It has a filter that is unknown.
    fn parse(parameters: &ElasticParameters, body: &Map<String, Value>) -> Result<Self, Error> {
        const FILTERS: [&str; 5] = ["metadata", "-metadata", "-parent", "-nested", "-multifield"];
        // A plus sign in a URI may have become a space.
        let sign = |filter: String| filter.trim_start_matches(['+', ' ']).to_owned();
        let filters: Vec<String> =
            parameters.list("filters").unwrap_or_default().into_iter().map(sign).collect();
        if let Some(unknown) = filters.iter().find(|filter| !FILTERS.contains(&filter.as_str())) {
            return Err(Error::IllegalArgument(format!(
                "unknown [filters] of fields: [{unknown}]; write {}",
                FILTERS.join(", ")
            )));
        }
        // It changes only which fields without values are shown.
        parameters.flag("include_empty_fields")?;
        let of_body = body.get("fields").map(names_of).filter(|names| !names.is_empty());
        let patterns = parameters.list("fields").or(of_body).unwrap_or_else(|| vec!["*".to_owned()]);
        Ok(ShownFields { patterns, types: parameters.list("types"), filters })
    }

    /// True if it shows a field of a type.
    fn has(&self, mappings: &Map<String, Value>, path: &str, kind: &str) -> bool {
        let around = move || {
            let paths = path.match_indices('.').map(move |(at, _)| &path[..at]);
            paths.filter_map(move |path| field_at(mappings, path)).map(|(field, _)| type_of(field))
        };
        let passes = |filter: &String| match filter.as_str() {
            // No field here is one of all documents.
            "metadata" => false,
            "-parent" => !is_object(kind),
            "-nested" => kind != "nested" && around().all(|kind| kind != "nested"),
            "-multifield" => around().all(is_object),
            _ => true,
        };
        self.patterns.iter().any(|pattern| glob(pattern, path))
            && self.types.as_ref().is_none_or(|types| types.iter().any(|wanted| wanted == kind))
            && self.filters.iter().all(passes)
    }
}

/// `_field_caps`: types of fields over indexes.
pub(crate) fn field_caps(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions::LENIENT.with(parameters)?;
    let body = object_of(&request.body)?;
    let is_known = |(name, value): &(&String, &Value)| match name.as_str() {
        "fields" | "index_filter" => true,
        "runtime_mappings" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if let Some((unknown, _)) = body.iter().find(|member| !is_known(member)) {
        return Err(Error::unsupported(&format!("[{unknown}] in a request for the types of fields")));
    }
    let shown = ShownFields::parse(parameters, &body)?;
    let indexes = names::resolve(&*service.catalog.read()?, expression, options)?;
    let indexes = filtered(service, indexes, &body)?;
    let indexes: Vec<OpenIndex> =
        indexes.into_iter().map(|index| index.with_observed(&service.node)).collect::<Result<_, Error>>()?;
    let has_unmapped = parameters.flag("include_unmapped")?.unwrap_or(false);
    let mut fields: Map<String, Value> = Map::new();
    for index in &indexes {
        for (path, field) in all_fields(&index.entry.mappings) {
            let kind = type_of(field);
            if !shown.has(&index.entry.mappings, &path, kind) {
                continue;
            }
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
            let lacks = |index: &&OpenIndex| field_at(&index.entry.mappings, path).is_none();
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
