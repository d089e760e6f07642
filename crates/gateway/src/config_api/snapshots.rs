//! Snapshots over HTTP, at `/snapshot/v1/`. In a cluster each node makes one of the same name and time: all
//! are asked, and the answer has each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_access::WantedGroups;
use millrace_node::Error;
use millrace_node::cluster::{
    ListedAnswer, ListedNode, ListedSnapshot, SnapshotAnswer, SnapshotQuestion, SnapshotStats, own_snapshots,
    snapshots_of_all,
};
use millrace_store::SnapshotName;
use serde_json::{Map, Value, json};

use super::{query_parameters, render};
use crate::edge::caller_of;
use crate::{GatewayState, http};

/// First part of the paths.
const PATH: &str = "/snapshot/v1";

/// Time limit of a request, unless it has one: a snapshot waits for the sealing of recent writes.
const TIMEOUT: Duration = Duration::from_secs(600);

pub(super) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    route(&node, request).await.unwrap_or_else(|error| render(&error))
}

async fn route(node: &Arc<GatewayState>, request: Request) -> Result<Response, Error> {
    caller_of(&request)?.permit(WantedGroups::All)?;
    let parameters = query_parameters(node, &request)?;
    let timeout = parameters.duration("timeout")?.unwrap_or(TIMEOUT);
    let deadline = Instant::now() + timeout.min(node.settings().limits.document_timeout_max);
    let (path, method) = (request.uri().path().to_owned(), request.method().as_str().to_owned());
    // Its body is not read, and it must not be held while others are asked.
    drop(request);
    let name = path.strip_prefix(PATH).unwrap_or_default().trim_matches('/');
    let not_allowed = |allowed| Err(Error::MethodNotAllowed { method: method.clone(), allowed });
    match (name, method.as_str()) {
        ("", "GET") => {
            Ok(http::json(StatusCode::OK, &list(ask(node, SnapshotQuestion::List, deadline).await?)))
        }
        ("", "POST") => {
            let unnamed = || Error::parameter("name", "is missing: the name of the snapshot".to_owned());
            let name = SnapshotName::parse(parameters.get("name").ok_or_else(unnamed)?)?;
            let time = node.node().store().next_timestamp();
            created(ask(node, SnapshotQuestion::Create(name, time), deadline).await?)
        }
        ("", _) => not_allowed("GET, POST"),
        (name, "GET") => {
            let name = SnapshotName::parse(name)?;
            let mut listed = list(ask(node, SnapshotQuestion::List, deadline).await?);
            let found = listed["snapshots"].as_array_mut().and_then(|all| {
                let at = all.iter().position(|snapshot| snapshot["name"] == name.as_str())?;
                Some(all.swap_remove(at))
            });
            Ok(http::json(StatusCode::OK, &found.ok_or_else(|| missing(&name))?))
        }
        (name, "DELETE") => {
            let name = SnapshotName::parse(name)?;
            deleted(&name, ask(node, SnapshotQuestion::Delete(name.clone()), deadline).await?)
        }
        (_, _) => not_allowed("GET, DELETE"),
    }
}

fn missing(name: &SnapshotName) -> Error {
    Error::NotFound(format!("the snapshot '{name}' does not exist; GET {PATH}/ lists those that do"))
}

/// Answers of all nodes of a cluster, or of the server that runs alone.
enum SnapshotAnswers {
    Alone(SnapshotAnswer),
    Nodes(Vec<ListedAnswer<SnapshotAnswer>>),
}

async fn ask(
    node: &GatewayState,
    question: SnapshotQuestion,
    deadline: Instant,
) -> Result<SnapshotAnswers, Error> {
    Ok(match node.cluster().view()? {
        None => SnapshotAnswers::Alone(own_snapshots(node.node(), question).await?),
        Some(cluster) => {
            SnapshotAnswers::Nodes(snapshots_of_all(node.node(), cluster, &question, deadline).await?)
        }
    })
}

/// Statistics as members of an answer.
fn stats_of(stats: &SnapshotStats) -> Map<String, Value> {
    let SnapshotStats { time, documents, bytes, files, application } = *stats;
    let members = [
        ("time", time),
        ("documents", documents),
        ("bytes", bytes),
        ("files", files),
        ("application", application),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// A snapshot of one node.
fn value_of(snapshot: &ListedSnapshot) -> Map<String, Value> {
    let mut value = match &snapshot.fault {
        None => stats_of(&snapshot.stats),
        Some(reason) => Map::from_iter([("reason".to_owned(), json!(reason))]),
    };
    value.insert("path".to_owned(), json!(snapshot.path));
    value
}

fn named(name: &str, more: Map<String, Value>) -> Value {
    let mut value = Map::from_iter([("name".to_owned(), json!(name))]);
    value.extend(more);
    Value::Object(value)
}

/// Snapshots by name: of a cluster, the sums of documents, bytes and files over the nodes, and the nodes that
/// lack one.
fn list(answers: SnapshotAnswers) -> Value {
    let nodes = match answers {
        SnapshotAnswers::Alone(SnapshotAnswer::Listed(snapshots, space)) => {
            let all: Vec<Value> =
                snapshots.iter().map(|snapshot| named(snapshot.name.as_str(), value_of(snapshot))).collect();
            return json!({ "snapshots": all, "heldBytes": space.held_bytes, "logBytes": space.log_bytes });
        }
        SnapshotAnswers::Alone(_) => return json!({ "snapshots": [] }),
        SnapshotAnswers::Nodes(nodes) => nodes,
    };
    let (mut held_bytes, mut log_bytes) = (0, 0);
    let mut by_name: BTreeMap<String, Vec<(&ListedNode, &ListedSnapshot)>> = BTreeMap::new();
    for (listed, answer) in &nodes {
        if let Ok(SnapshotAnswer::Listed(snapshots, space)) = answer {
            held_bytes += space.held_bytes;
            log_bytes += space.log_bytes;
            for snapshot in snapshots {
                by_name.entry(snapshot.name.to_string()).or_default().push((listed, snapshot));
            }
        }
    }
    let mut all: Vec<(u64, Value)> = Vec::new();
    for (name, of_nodes) in &by_name {
        let mut sum = SnapshotStats::default();
        for stats in of_nodes.iter().map(|(_, snapshot)| &snapshot.stats) {
            sum.time = sum.time.max(stats.time);
            sum.application = sum.application.max(stats.application);
            sum.documents += stats.documents;
            sum.bytes += stats.bytes;
            sum.files += stats.files;
        }
        let mut value = stats_of(&sum);
        let shown = of_nodes.iter().map(|(listed, snapshot)| named(&listed.name, value_of(snapshot)));
        value.insert("nodes".to_owned(), shown.collect());
        let has_it = |listed: &ListedNode| of_nodes.iter().any(|(known, _)| known.key == listed.key);
        let lacking: Vec<&str> =
            nodes.iter().filter(|(listed, _)| !has_it(listed)).map(|(listed, _)| &*listed.name).collect();
        value.insert("missing".to_owned(), json!(lacking));
        all.push((sum.time, named(name, value)));
    }
    all.sort_by_key(|(time, _)| *time);
    let all: Vec<Value> = all.into_iter().map(|(_, value)| value).collect();
    json!({
        "snapshots": all, "heldBytes": held_bytes, "logBytes": log_bytes, "unknown": failures(&nodes),
    })
}

/// Nodes that have not answered, with the reasons.
fn failures(nodes: &[ListedAnswer<SnapshotAnswer>]) -> Vec<Value> {
    let failed = nodes.iter().filter_map(|(listed, answer)| Some((listed, answer.as_ref().err()?)));
    failed.map(|(listed, error)| json!({ "name": listed.name, "reason": error.message() })).collect()
}

/// Answer to a creation. An error of all nodes is that of the request.
fn created(answers: SnapshotAnswers) -> Result<Response, Error> {
    let nodes = match answers {
        SnapshotAnswers::Alone(SnapshotAnswer::Created(snapshot)) => {
            let value = named(snapshot.name.as_str(), value_of(&snapshot));
            return Ok(http::json(StatusCode::OK, &value));
        }
        SnapshotAnswers::Alone(_) => return Err(Error::Internal("a snapshot was not made".to_owned())),
        SnapshotAnswers::Nodes(nodes) => nodes,
    };
    let failed = failures(&nodes);
    let mut made = Vec::new();
    let mut last_error = None;
    for (listed, answer) in nodes {
        match answer {
            Ok(SnapshotAnswer::Created(snapshot)) => made.push((listed, snapshot)),
            Ok(_) => {}
            Err(error) => last_error = last_error.or((listed.away.is_none()).then_some(error)),
        }
    }
    let Some((_, first)) = made.first() else {
        return Err(
            last_error.unwrap_or_else(|| Error::Unsettled("no node of the cluster serves".to_owned()))
        );
    };
    let mut value = Map::new();
    value.insert("time".to_owned(), json!(first.stats.time));
    let shown = made.iter().map(|(listed, snapshot)| named(&listed.name, value_of(snapshot)));
    value.insert("nodes".to_owned(), shown.collect());
    value.insert("complete".to_owned(), json!(failed.is_empty()));
    value.insert("missing".to_owned(), json!(failed));
    Ok(http::json(StatusCode::OK, &named(first.name.as_str(), value)))
}

fn deleted(name: &SnapshotName, answers: SnapshotAnswers) -> Result<Response, Error> {
    let was_there = |answer: &SnapshotAnswer| *answer == SnapshotAnswer::Deleted(true);
    let mut value = json!({ "name": name.as_str(), "deleted": true });
    let is_known = match &answers {
        SnapshotAnswers::Alone(answer) => was_there(answer),
        SnapshotAnswers::Nodes(nodes) => {
            let failed = failures(nodes);
            value["complete"] = json!(failed.is_empty());
            value["missing"] = json!(failed);
            // A node that does not answer may have it.
            !failed.is_empty() || nodes.iter().any(|(_, answer)| answer.as_ref().is_ok_and(was_there))
        }
    };
    match is_known {
        true => Ok(http::json(StatusCode::OK, &value)),
        false => Err(missing(name)),
    }
}
