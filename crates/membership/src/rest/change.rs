//! Changes made by operators.

use axum::extract::Request;
use http_body_util::{BodyExt, Limited};
use millrace_cluster::controller::RequestedNodeState;
use millrace_cluster::{NodeKey, NodeState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::tree::RestTree;
use super::{OperatedCluster, RestPath, RestRefusal};
use crate::CoordinationSnapshot;

/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The body of a `PUT`.
#[derive(Deserialize)]
struct StateRequestBody {
    state: StateRequestStates,
    #[serde(default)]
    condition: StateRequestCondition,
}

#[derive(Deserialize)]
struct StateRequestStates {
    user: StateRequestUser,
}

#[derive(Deserialize)]
struct StateRequestUser {
    state: String,
    #[serde(default)]
    reason: String,
}

/// Condition under which a state is set.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum StateRequestCondition {
    /// Unconditionally.
    #[default]
    Force,
    /// Only if every other node then serves.
    Safe,
}

/// `PUT /cluster/v2/CLUSTER/storage/NODE`.
pub(super) async fn set(
    operated: &dyn OperatedCluster,
    path: &str,
    request: Request,
) -> Result<Value, RestRefusal> {
    const EXAMPLE: &str = r#"{"state": {"user": {"state": "retired", "reason": "it is replaced"}}}"#;
    let snapshot = operated.snapshot();
    let (key, name) = node(operated, &snapshot, path)?;
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let bytes = body.map_err(|error| RestRefusal::wrong(format!("the body: {error}")))?.to_bytes();
    let body: StateRequestBody = serde_json::from_slice(&bytes)
        .map_err(|error| RestRefusal::wrong(format!("the body: {error}; expected {EXAMPLE}")))?;
    let requested = match body.state.user.state.parse() {
        Ok(RequestedNodeState::Removed) => {
            return Err(RestRefusal::wrong("to remove a node, send DELETE instead of PUT"));
        }
        Ok(state) => state,
        Err(error) => return Err(RestRefusal::wrong(format!("{error}"))),
    };
    if body.condition == StateRequestCondition::Safe
        && matches!(requested, RequestedNodeState::Maintenance | RequestedNodeState::Down)
        && let Some(other) = not_serving(&snapshot, key)
    {
        let reason =
            format!("not safe: {other} does not serve either; wait until it does, or set condition to FORCE");
        return Ok(json!({ "wasModified": false, "reason": reason }));
    }
    let modified = operated.request_state(name, requested, body.state.user.reason).await?;
    Ok(json!({ "wasModified": modified, "reason": "ok" }))
}

/// `DELETE /cluster/v2/CLUSTER/storage/NODE`: the node's data does not count any more. Refused if it may have
/// data that is needed, unless `force=true`.
pub(super) async fn remove(
    operated: &dyn OperatedCluster,
    path: &str,
    query: Option<&str>,
) -> Result<Value, RestRefusal> {
    let snapshot = operated.snapshot();
    let (key, name) = node(operated, &snapshot, path)?;
    let forced = query.unwrap_or("").split('&').any(|pair| pair == "force=true");
    if !forced && let Some(reason) = reason_to_keep(operated, &snapshot, key) {
        return Ok(json!({ "wasModified": false, "reason": reason }));
    }
    let modified = operated.request_state(name, RequestedNodeState::Removed, String::new()).await?;
    Ok(json!({ "wasModified": modified, "reason": "ok" }))
}

/// The node of a path.
fn node(
    operated: &dyn OperatedCluster,
    snapshot: &CoordinationSnapshot,
    path: &str,
) -> Result<(NodeKey, String), RestRefusal> {
    let place = RestPath::parse(path, operated)?;
    let Some(key) = place.node else {
        return Err(RestRefusal::wrong("a state is set for one node: /cluster/v2/CLUSTER/storage/NODE"));
    };
    if place.service != Some("storage") {
        return Err(RestRefusal::wrong(
            "distributors do what their nodes do: set the state of the node under storage",
        ));
    }
    let name = snapshot.name_of(key).ok_or_else(|| RestTree::new(operated).absent(key))?;
    Ok((key, name.to_owned()))
}

/// Another node that does not serve.
fn not_serving(snapshot: &CoordinationSnapshot, key: NodeKey) -> Option<String> {
    let nodes = snapshot.state.iter().flat_map(|state| state.nodes());
    let mut others = nodes.filter(|(other, _)| **other != key);
    others.find(|(_, entry)| !entry.state.serves()).map(|(_, entry)| entry.name.clone())
}

/// Reason why a node cannot be removed yet.
fn reason_to_keep(
    operated: &dyn OperatedCluster,
    snapshot: &CoordinationSnapshot,
    key: NodeKey,
) -> Option<String> {
    let state = snapshot.state.as_ref()?;
    const CURE: &str = "or remove it with force, and lose what no other node has";
    match state.node_state(key) {
        NodeState::Up => Some(format!("the node is up: retire it first, {CURE}")),
        NodeState::Maintenance => {
            Some(format!("the node is away, and will be back with its documents: wait, {CURE}"))
        }
        NodeState::Down => None,
        NodeState::Retired => match operated.stats(key).map(|stats| stats.buckets.replicas) {
            Some(0) => None,
            Some(left) => {
                let buckets = if left == 1 { "bucket" } else { "buckets" };
                Some(format!("the node has {left} {buckets} still: wait until it is empty, {CURE}"))
            }
            None => Some(format!("whether the node is empty is not known here: ask the node itself, {CURE}")),
        },
    }
}
