//! `_cluster/state`: the nodes, and what the catalog has, in one answer.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::NamedKind;
use crate::cluster_health::KnownNodes;
use crate::index_admin::{shards_of, shown_mappings};
use crate::index_settings::{blocks_of, shown_settings};
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions};
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent};
use crate::service::ElasticService;

/// Parts of the state.
const PARTS: [&str; 9] = [
    "_all",
    "blocks",
    "cluster_manager_node",
    "master_node",
    "metadata",
    "nodes",
    "routing_nodes",
    "routing_table",
    "version",
];

/// Answers with parts of the state by their names, with commas between, for some indexes or all.
pub(crate) fn get(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    path: &[String],
) -> Result<ReplyContent, Error> {
    let (parts, expression) = match path {
        [] => ("_all", ""),
        [parts] => (parts.as_str(), ""),
        [parts, expression] => (parts.as_str(), expression.as_str()),
        _ => {
            return Err(Error::IllegalArgument(format!(
                "no handler found for uri [{}] and method [{}]; docs/elastic.md lists what there is",
                request.path, request.method
            )));
        }
    };
    if let Some(unknown) = parts.split(',').find(|part| !PARTS.contains(part)) {
        return Err(Error::IllegalArgument(format!(
            "request [{}] contains unrecognized metric: [{unknown}]",
            request.path
        )));
    }
    let wanted = |part: &str| parts.split(',').any(|one| one == "_all" || one == part);
    let known = KnownNodes::of(service, &request.host);
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let entries = service.catalog.read()?;
    let indexes = names::resolve(&entries, expression, options.with(parameters)?)?;
    let leader = known.leader_name();
    let mut state = json!({ "cluster_name": "millrace", "cluster_uuid": "millrace" });
    if wanted("version") {
        // A number that grows with each change of the state is not kept.
        state["version"] = 1.into();
        state["state_uuid"] = "millrace".into();
    }
    for part in ["master_node", "cluster_manager_node"].into_iter().filter(|part| wanted(part)) {
        state[part] = leader.into();
    }
    if wanted("nodes") {
        state["nodes"] = known.described(|_| true);
    }
    let (mut metadata, mut routing, mut blocks) = (Map::new(), Map::new(), Map::new());
    for index in indexes {
        let index = index.with_observed(&service.node)?;
        let name = index.entry.name.clone();
        if wanted("metadata") {
            let aliases: Vec<&str> = index.entry.aliases.keys().map(String::as_str).collect();
            let mut shown = json!({
                "state": if index.entry.is_closed { "close" } else { "open" },
                "mappings": { "_doc": shown_mappings(index.entry.mappings.clone()) },
                "aliases": aliases,
                "system": false,
            });
            for (member, value) in shown_settings(&index, parameters, None)? {
                shown[member] = value;
            }
            take_answer(&service.answer_memory, &shown)?;
            metadata.insert(name.clone(), shown);
        }
        if wanted("routing_table") {
            let shard = |number: u64| {
                let shard = json!({
                    "state": "STARTED", "primary": true, "node": leader, "relocating_node": null, "shard": number,
                    "index": name,
                });
                (number.to_string(), json!([shard]))
            };
            let shards = json!({ "shards": (0..shards_of(&index)).map(shard).collect::<Map<_, _>>() });
            take_answer(&service.answer_memory, &shards)?;
            routing.insert(name.clone(), shards);
        }
        let of_index = blocks_of(&index);
        if wanted("blocks") && !of_index.is_empty() {
            blocks.insert(name, Value::Object(of_index));
        }
    }
    if wanted("blocks") {
        let indexes = (!blocks.is_empty()).then(|| ("indices".to_owned(), Value::Object(blocks)));
        state["blocks"] = Value::Object(indexes.into_iter().collect());
    }
    if wanted("metadata") {
        let named = |kind: NamedKind| -> Result<Value, Error> {
            let named = entries.all_named(kind).map(|(name, value)| (name.to_owned(), value.clone()));
            let named = Value::Object(named.collect());
            take_answer(&service.answer_memory, &named)?;
            Ok(named)
        };
        state["metadata"] = json!({
            "cluster_uuid": "millrace",
            "templates": named(NamedKind::LegacyTemplate)?,
            "component_template": { "component_template": named(NamedKind::ComponentTemplate)? },
            "index_template": { "index_template": named(NamedKind::IndexTemplate)? },
            "indices": metadata,
        });
    }
    if wanted("routing_table") {
        state["routing_table"] = json!({ "indices": routing });
    }
    if wanted("routing_nodes") {
        state["routing_nodes"] = json!({ "unassigned": [], "nodes": {} });
    }
    ReplyContent::ok(state)
}
