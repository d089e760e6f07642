//! Answer to `GET`: a tree, of which each answer is one level, with further levels on request.

use std::sync::Arc;

use millrace_cluster::{ClusterState, NodeKey, NodeState};
use serde_json::{Map, Value, json};

use super::{OperatedCluster, RestPath, RestRefusal};
use crate::CoordinationSnapshot;

/// Services of a cluster. Every node has both.
pub(super) const SERVICES: [&str; 2] = ["storage", "distributor"];

/// Number of further levels that `recursive` requests.
pub(super) fn depth(query: Option<&str>) -> Result<usize, RestRefusal> {
    let parameters = query.unwrap_or("").split('&').filter_map(|pair| pair.split_once('='));
    match parameters.filter(|(name, _)| *name == "recursive").map(|(_, value)| value).next_back() {
        None | Some("false") => Ok(0),
        Some("true") => Ok(usize::MAX),
        Some(number) => number.parse().map_err(|_| {
            RestRefusal::wrong(format!("recursive is '{number}': write true, or a number of levels"))
        }),
    }
}

/// The tree, as of one moment.
pub(super) struct RestTree<'a> {
    operated: &'a dyn OperatedCluster,
    snapshot: Arc<CoordinationSnapshot>,
}

impl<'a> RestTree<'a> {
    pub(super) fn new(operated: &'a dyn OperatedCluster) -> Self {
        RestTree { operated, snapshot: operated.snapshot() }
    }

    pub(super) fn root(&self, depth: usize) -> Value {
        let clusters = self.operated.clusters().into_iter().map(|name| {
            let child = linked(depth, format!("/cluster/v2/{name}"), |depth| self.cluster(&name, depth));
            (name, child)
        });
        json!({ "cluster": clusters.collect::<Map<_, _>>() })
    }

    pub(super) fn at(&self, place: &RestPath<'_>, depth: usize) -> Result<Value, RestRefusal> {
        match (place.service, place.node) {
            (None, _) => Ok(self.cluster(place.cluster, depth)),
            (Some(service), None) => Ok(self.service(place.cluster, service, depth)),
            (Some(service), Some(node)) => self.node(service, node).ok_or_else(|| self.absent(node)),
        }
    }

    /// Error for a node that does not exist.
    pub(super) fn absent(&self, node: NodeKey) -> RestRefusal {
        let known = self.snapshot.keys().iter().map(NodeKey::to_string).collect::<Vec<_>>().join(", ");
        RestRefusal::absent(format!("no node {node}; there are: {known}"))
    }

    fn cluster(&self, cluster: &str, depth: usize) -> Value {
        let serving = |state: &Arc<ClusterState>| state.nodes().values().any(|node| node.state.serves());
        let (state, reason) = match self.snapshot.state.as_ref().map(serving) {
            Some(true) => ("up", ""),
            Some(false) => ("down", "no node serves"),
            None if self.snapshot.configuration.is_none() => (
                "down",
                "coordination (etcd) has not answered since this node started, or has no application: bring it back, or deploy",
            ),
            None => ("down", "too few nodes have come up yet"),
        };
        let services = SERVICES.into_iter().map(|service| {
            let link = format!("/cluster/v2/{cluster}/{service}");
            (service.to_owned(), linked(depth, link, |depth| self.service(cluster, service, depth)))
        });
        let version = self.snapshot.state.as_ref().map_or(0, |state| state.version().number());
        let mut cluster = json!({
            "state": { "generated": { "state": state, "reason": reason } },
            "version": version,
            "leader": self.snapshot.leader,
            "service": services.collect::<Map<_, _>>(),
        });
        if self.operated.is_alone() {
            cluster["alone"] = Value::Bool(true);
        }
        cluster
    }

    fn service(&self, cluster: &str, service: &str, depth: usize) -> Value {
        let nodes = self.snapshot.keys().into_iter().map(|key| {
            let link = format!("/cluster/v2/{cluster}/{service}/{key}");
            let child = linked(depth, link, |_| self.node(service, key).unwrap_or(Value::Null));
            (key.to_string(), child)
        });
        json!({ "node": nodes.collect::<Map<_, _>>() })
    }

    fn node(&self, service: &str, key: NodeKey) -> Option<Value> {
        let snapshot = &*self.snapshot;
        let name = snapshot.name_of(key)?;
        let member = snapshot.members.get(name);
        let requested = snapshot.requested_states.get(name);
        let entry = snapshot.state.as_ref().and_then(|state| state.nodes().get(&key));
        let generated = entry.map_or(NodeState::Down, |entry| entry.state);
        let generated = match service {
            // A node that does not serve owns nothing, for any reason.
            "distributor" if generated.serves() => "up",
            "distributor" => "down",
            _ => word(generated),
        };
        let unit = match member {
            Some(member) if member.registration.stopping => "stopping",
            Some(_) => "up",
            None => "down",
        };
        let stated = |state: &str, reason: &str| json!({ "state": state, "reason": reason });
        let mut node = json!({
            "attributes": {
                "hierarchical-group": self.group(key),
                "name": name,
                "url": member.map(|member| &member.url),
                "address": entry.map(|entry| &entry.address),
                "generation": member.map(|member| member.generation),
            },
            "state": {
                "generated": stated(generated, snapshot.reasons.get(name).map_or("", String::as_str)),
                "unit": stated(unit, if member.is_none() { "it is not registered" } else { "" }),
                "user": stated(
                    &requested.map_or_else(|| "up".to_owned(), |record| record.state.to_string()),
                    requested.map_or("", |record| &record.reason),
                ),
            },
        });
        if let Some(stats) = self.operated.stats(key).filter(|_| service == "storage") {
            node["metrics"] = json!({
                "bucket-count": stats.buckets.replicas,
                "unique-document-count": stats.documents,
                "unique-document-total-size": stats.bytes,
            });
        }
        Some(node)
    }

    /// Names of the groups that a node is in; their keys for a node that is not listed.
    fn group(&self, key: NodeKey) -> String {
        let listed = self.snapshot.configuration.as_ref().and_then(|listed| listed.nodes.get(&key));
        if let Some(node) = listed {
            return node.group.clone();
        }
        let layout = self.snapshot.state.as_ref().map(|state| &state.distribution().layout);
        let leaves = layout.map(|layout| layout.leaves()).unwrap_or_default();
        let path = leaves.into_iter().find(|(_, nodes)| nodes.contains(&key)).map(|(path, _)| path);
        path.unwrap_or_default().iter().map(u16::to_string).collect::<Vec<_>>().join(".")
    }
}

/// A link to the child, or the child itself with one level less.
fn linked(depth: usize, link: String, child: impl FnOnce(usize) -> Value) -> Value {
    match depth {
        0 => json!({ "link": link }),
        depth => child(depth - 1),
    }
}

fn word(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Retired => "retired",
        NodeState::Maintenance => "maintenance",
        NodeState::Down => "down",
    }
}
