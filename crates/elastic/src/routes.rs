//! The operation of each path.

use serde_json::json;

use crate::Error;
use crate::catalog::NamedKind;
use crate::door::ElasticDoor;
use crate::request::{DoorParameters, DoorReply, DoorRequest, segments_of};
use crate::writing::WriteAction;
use crate::{aliases, bulk, cluster_admin, index_admin, lifecycle, scrolls, search, single, templates};

/// Answers a request by its method and path.
pub(crate) fn dispatch(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
) -> Result<DoorReply, Error> {
    let segments = segments_of(&request.path)?;
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.split_first() {
        None => cluster_admin::info(request),
        Some((first, rest)) if first.starts_with('_') && *first != "_all" => {
            of_all(door, request, parameters, first, rest)
        }
        Some((index, [])) => of_index(door, request, parameters, index),
        Some((index, rest)) => below_index(door, request, parameters, index, rest),
    }
}

/// Error of a path that exists, but not for this method.
fn method(request: &DoorRequest, allowed: &'static str) -> Result<DoorReply, Error> {
    Err(Error::Method { uri: request.path.clone(), method: request.method.clone(), allowed })
}

/// Error of a path that does not exist.
fn unknown(request: &DoorRequest) -> Error {
    Error::IllegalArgument(format!(
        "no handler found for uri [{}] and method [{}]; docs/elastic.md lists what there is",
        request.path, request.method
    ))
}

fn of_index(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: &str,
) -> Result<DoorReply, Error> {
    match request.method.as_str() {
        "GET" => index_admin::get(door, parameters, index),
        "HEAD" => index_admin::exists(door, parameters, index),
        "PUT" => index_admin::put(door, request, index),
        "DELETE" => index_admin::delete(door, parameters, index),
        _ => method(request, "GET, HEAD, PUT, DELETE"),
    }
}

/// Paths without an index.
fn of_all(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    first: &str,
    rest: &[&str],
) -> Result<DoorReply, Error> {
    let is_read = ["GET", "HEAD"].contains(&request.method.as_str());
    match (first, rest) {
        ("_bulk", []) => bulk::bulk(door, request, parameters, None),
        ("_mget", []) => single::multi_get(door, request, parameters, None),
        ("_search", ["scroll"]) | ("_search", ["scroll", _]) => {
            let id = rest.get(1).copied();
            match request.method.as_str() {
                "DELETE" => scrolls::clear(door, request, parameters, id),
                _ => scrolls::next(door, request, parameters, id),
            }
        }
        ("_search" | "_count" | "_msearch" | "_field_caps" | "_refresh" | "_flush" | "_forcemerge", []) => {
            on_indexes(door, request, parameters, "", first)
        }
        ("_mapping" | "_mappings" | "_settings", rest) => {
            on_metadata(door, request, parameters, "", first, rest)
        }
        ("_alias" | "_aliases", []) if request.method == "POST" => aliases::actions(door, request),
        ("_alias" | "_aliases", rest @ ([] | [_])) if is_read => {
            aliases::get(door, parameters, "", rest.first().copied())
        }
        ("_index_template", rest @ ([] | [_])) => {
            named(door, request, parameters, NamedKind::IndexTemplate, rest.first().copied())
        }
        ("_component_template", rest @ ([] | [_])) => {
            named(door, request, parameters, NamedKind::ComponentTemplate, rest.first().copied())
        }
        ("_template", rest @ ([] | [_])) => {
            named(door, request, parameters, NamedKind::LegacyTemplate, rest.first().copied())
        }
        ("_ingest", ["pipeline"]) => named(door, request, parameters, NamedKind::Pipeline, None),
        ("_ingest", ["pipeline", name]) => named(door, request, parameters, NamedKind::Pipeline, Some(name)),
        ("_data_stream", [name, "_lifecycle"]) => lifecycle::answer(door, request, name),
        ("_data_stream", rest @ ([] | [_])) => {
            let name = rest.first().copied().unwrap_or_default();
            match request.method.as_str() {
                "PUT" => templates::put_stream(door, name),
                "DELETE" => templates::delete_stream(door, name),
                _ => templates::get_streams(door, name),
            }
        }
        ("_cluster", ["health", rest @ ..]) => {
            cluster_admin::health(door, parameters, rest.first().copied().unwrap_or_default())
        }
        ("_cluster", ["settings"]) => match request.method.as_str() {
            "PUT" => cluster_admin::put_settings(door, request),
            _ => cluster_admin::get_settings(door),
        },
        ("_cat", rest) if is_read => cluster_admin::cat(door, request, parameters, rest),
        ("_nodes", _) if is_read => cluster_admin::nodes(),
        ("_license", []) if is_read => DoorReply::ok(json!({
            "license": { "status": "active", "type": "basic", "uid": "-", "mode": "basic" },
        })),
        ("_xpack", []) if is_read => DoorReply::ok(json!({ "features": {} })),
        ("_ilm", ["policy", ..]) => ilm(request),
        _ => Err(unknown(request)),
    }
}

/// Lifecycle policies: there are none, and none can be made.
fn ilm(request: &DoorRequest) -> Result<DoorReply, Error> {
    match request.method.as_str() {
        "GET" | "HEAD" => Ok(DoorReply::Json(404, json!({}))),
        _ => Err(Error::unsupported("a lifecycle policy")),
    }
}

fn named(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    kind: NamedKind,
    name: Option<&str>,
) -> Result<DoorReply, Error> {
    match (request.method.as_str(), name) {
        ("GET" | "HEAD", name) => templates::get_named(door, kind, name.unwrap_or_default()),
        ("PUT" | "POST", Some(name)) => templates::put_named(door, request, parameters, kind, name),
        ("DELETE", Some(name)) => templates::delete_named(door, kind, name),
        _ => method(request, "GET, HEAD, PUT, POST, DELETE"),
    }
}

/// Operations on indexes that read documents or show writes.
fn on_indexes(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: &str,
    operation: &str,
) -> Result<DoorReply, Error> {
    match operation {
        "_search" => search::search(door, request, parameters, index),
        "_count" => search::count(door, request, parameters, index),
        "_msearch" => {
            let index = Some(index).filter(|index| !index.is_empty());
            search::multi_search(door, request, parameters, index)
        }
        "_field_caps" => cluster_admin::field_caps(door, request, parameters, index),
        _ => index_admin::refresh(door, parameters, index),
    }
}

/// Mappings and settings.
fn on_metadata(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: &str,
    operation: &str,
    rest: &[&str],
) -> Result<DoorReply, Error> {
    let is_mapping = operation.starts_with("_mapping");
    match (request.method.as_str(), rest) {
        ("GET" | "HEAD", []) if is_mapping => index_admin::get_mapping(door, parameters, index),
        ("PUT" | "POST", []) if is_mapping => index_admin::put_mapping(door, request, parameters, index),
        ("GET", [name]) if !is_mapping => index_admin::get_settings(door, parameters, index, Some(name)),
        ("GET", []) => index_admin::get_settings(door, parameters, index, None),
        ("PUT", []) => index_admin::put_settings(door, request, parameters, index),
        _ => Err(unknown(request)),
    }
}

/// Paths below an index.
fn below_index(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    index: &str,
    rest: &[&str],
) -> Result<DoorReply, Error> {
    let write = |action, id| single::write(door, request, parameters, action, index, id);
    match (rest, request.method.as_str()) {
        (["_doc"], "POST" | "PUT") => write(WriteAction::Index, None),
        (["_doc", id], "POST" | "PUT") => write(WriteAction::Index, Some(id)),
        (["_create", id], "POST" | "PUT") => write(WriteAction::Create, Some(id)),
        (["_update", id], "POST" | "PUT") => write(WriteAction::Update, Some(id)),
        (["_doc", id], "DELETE") => write(WriteAction::Delete, Some(id)),
        (["_doc", id], "GET" | "HEAD") => single::get(door, parameters, index, id),
        (["_source", id], "GET" | "HEAD") => single::get_source(door, parameters, index, id),
        (["_doc", _], _) => method(request, "GET, HEAD, PUT, POST, DELETE"),
        (["_bulk"], "POST" | "PUT") => bulk::bulk(door, request, parameters, Some(index)),
        (["_mget"], _) => single::multi_get(door, request, parameters, Some(index)),
        (["_mapping" | "_mappings" | "_settings", rest @ ..], _) => {
            let operation =
                request.path.split('/').find(|part| part.starts_with("_mapping") || *part == "_settings");
            on_metadata(door, request, parameters, index, operation.unwrap_or_default(), rest)
        }
        (["_alias" | "_aliases"], "GET" | "HEAD") => aliases::get(door, parameters, index, None),
        (["_alias" | "_aliases", name], "GET" | "HEAD") => aliases::get(door, parameters, index, Some(name)),
        (["_alias" | "_aliases", name], "PUT" | "POST") => aliases::put(door, request, index, name),
        (["_alias" | "_aliases", name], "DELETE") => aliases::delete(door, index, name),
        (["_close"], "POST") => index_admin::set_closed(door, parameters, index, true),
        (["_open"], "POST") => index_admin::set_closed(door, parameters, index, false),
        (["_lifecycle", "explain"], "GET") => lifecycle::explain(door, parameters, index),
        (["_rollover"], "POST") => templates::rollover(door, request, parameters, index),
        (
            [
                operation @ ("_search" | "_count" | "_msearch" | "_field_caps" | "_refresh" | "_flush"
                | "_forcemerge"),
            ],
            _,
        ) => on_indexes(door, request, parameters, index, operation),
        _ => Err(unknown(request)),
    }
}
