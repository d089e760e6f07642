//! Nodes of the cluster and their health, as clients ask for them.

use std::net::SocketAddr;

use millrace_cluster::NodeKey;
use millrace_node::cluster::{ListedNode, MemberNode, MemberNodes, MemberRole, NodeCluster};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::cluster_admin::{VERSION, documents_of};
use crate::index_admin::shards_of;
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent};
use crate::service::ElasticService;

/// Name of a node that is alone.
const ALONE: &str = "millrace";

/// Parts of the description of a node: `_nodes/http` has those of all nodes, and no node has such a name.
const NODE_PARTS: [&str; 16] = [
    "_all",
    "aggregations",
    "hot_threads",
    "http",
    "indices",
    "info",
    "ingest",
    "jvm",
    "os",
    "plugins",
    "process",
    "settings",
    "stats",
    "thread_pool",
    "transport",
    "usage",
];

/// Health of the cluster, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClusterStatus {
    /// All nodes serving.
    Green,
    /// Some nodes are away, and the others have a replica of each document.
    Yellow,
    /// No node serves, or as many are away as documents have replicas.
    Red,
}

impl ClusterStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClusterStatus::Green => "green",
            ClusterStatus::Yellow => "yellow",
            ClusterStatus::Red => "red",
        }
    }

    /// Reads a status that a parameter names.
    pub(crate) fn of_parameter(parameters: &ElasticParameters, name: &str) -> Result<Option<Self>, Error> {
        let all = [ClusterStatus::Green, ClusterStatus::Yellow, ClusterStatus::Red];
        let Some(text) = parameters.get(name) else { return Ok(None) };
        match all.into_iter().find(|status| status.name() == text) {
            Some(status) => Ok(Some(status)),
            None => Err(Error::IllegalArgument(format!("unknown cluster health status [{text}]"))),
        }
    }
}

/// The nodes as this one knows them.
pub(crate) struct KnownNodes {
    members: MemberNodes,
    /// Key of this node.
    own: Option<NodeKey>,
}

impl KnownNodes {
    /// Nodes of the cluster; this one if it is alone.
    pub(crate) fn of(service: &ElasticService, host: &str) -> Self {
        match service.node.cluster() {
            NodeCluster::Alone => {
                let address = service.port.and_then(|port| reached_at(port, host));
                KnownNodes { members: alone(address), own: Some(NodeKey(0)) }
            }
            NodeCluster::Joining(member) => KnownNodes { members: member.nodes(), own: None },
            NodeCluster::Joined(member, view) => {
                KnownNodes { members: member.nodes(), own: Some(view.own().key) }
            }
        }
    }

    pub(crate) fn status(&self) -> ClusterStatus {
        let away = self.members.nodes.iter().filter(|node| !node.serves() && node.has_run).count();
        match away {
            _ if self.serving().next().is_none() => ClusterStatus::Red,
            0 => ClusterStatus::Green,
            away if away < self.members.redundancy => ClusterStatus::Yellow,
            _ => ClusterStatus::Red,
        }
    }

    /// Nodes that serve.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &MemberNode> {
        self.members.nodes.iter().filter(|node| node.serves())
    }

    fn with_role(&self, role: MemberRole) -> usize {
        self.serving().filter(|node| node.roles.contains(&role)).count()
    }

    /// Nodes that serve, in a hundred of those that should.
    fn percentage(&self) -> f64 {
        let expected = self.members.nodes.iter().filter(|node| node.serves() || node.has_run).count();
        100.0 * self.serving().count() as f64 / expected.max(1) as f64
    }

    /// Numbers of nodes that were asked, and that answered.
    fn answered(&self) -> Value {
        let (total, serving) = (self.members.nodes.len(), self.serving().count());
        json!({ "total": total, "successful": serving, "failed": total - serving })
    }

    /// True if the text of a path that names nodes is about this one.
    fn is_named(&self, names: &str, node: &MemberNode) -> bool {
        names.split(',').any(|name| match name {
            "_all" => true,
            "_local" => self.own == Some(node.listed.key),
            "_master" | "_cluster_manager" => node.is_leader,
            name => glob(name, &node.listed.name),
        })
    }

    /// Descriptions of nodes that serve, by their names.
    pub(crate) fn described(&self, is_meant: impl Fn(&MemberNode) -> bool) -> Value {
        let described = self.serving().filter(|node| is_meant(node)).map(|node| {
            let mut shown = json!({ "name": node.listed.name, "version": VERSION, "roles": roles_of(node) });
            if let Some(address) = &node.elastic {
                shown["host"] = host_of(address).into();
                shown["http"] = json!({ "publish_address": address });
            }
            (node.listed.name.clone(), shown)
        });
        Value::Object(described.collect())
    }

    /// Name of the node that leads, if one does.
    pub(crate) fn leader_name(&self) -> Option<&str> {
        self.serving().find(|node| node.is_leader).map(|node| node.listed.name.as_str())
    }

    /// Rows of `_cat/nodes`.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |node: &MemberNode| {
            let letters: String = roles_of(node).iter().map(|role| &role[..1]).collect();
            let leads = if node.is_leader { "*" } else { "-" };
            let host = host_of(node.elastic.as_deref().unwrap_or(&node.address));
            vec![host.to_owned(), letters, leads.to_owned(), node.listed.name.clone()]
        };
        self.serving().map(row).collect()
    }

    /// True for this node, in the order of the rows of nodes.
    pub(crate) fn are_own(&self) -> impl Iterator<Item = bool> {
        self.serving().map(|node| self.own == Some(node.listed.key))
    }

    /// Rows of `_cat/master`: the node that leads, if one does.
    pub(crate) fn leader_rows(&self) -> Vec<Vec<String>> {
        let row = |node: &MemberNode| {
            let host = host_of(node.elastic.as_deref().unwrap_or(&node.address)).to_owned();
            vec![node.listed.name.clone(), host.clone(), host, node.listed.name.clone()]
        };
        self.serving().filter(|node| node.is_leader).map(row).collect()
    }

    /// The row of `_cat/health` with a number of shards, from the name of the cluster on.
    pub(crate) fn health_row(&self, shards: u64) -> Vec<String> {
        let (all, data) = (self.serving().count(), self.with_role(MemberRole::Documents));
        let status = self.status();
        let (shards, none) = (shards.to_string(), || "0".to_owned());
        vec![
            ALONE.to_owned(),
            status.name().to_owned(),
            all.to_string(),
            data.to_string(),
            (status != ClusterStatus::Red).to_string(),
            shards.clone(),
            shards,
            none(),
            none(),
            none(),
            none(),
            "-".to_owned(),
            format!("{:.1}%", self.percentage()),
        ]
    }
}

/// The nodes of one that is alone.
fn alone(elastic: Option<String>) -> MemberNodes {
    let listed = ListedNode { key: NodeKey(0), name: ALONE.to_owned(), away: None };
    let node = MemberNode {
        listed,
        address: "127.0.0.1".to_owned(),
        elastic,
        roles: vec![MemberRole::Requests, MemberRole::Documents, MemberRole::Election],
        is_leader: true,
        has_run: true,
    };
    MemberNodes { nodes: vec![node], redundancy: 1 }
}

/// Address of a port for a client that reaches the server by `host`. A port at all addresses has that host.
fn reached_at(port: SocketAddr, host: &str) -> Option<String> {
    if !port.ip().is_unspecified() {
        return Some(port.to_string());
    }
    let host = host_of(host);
    (!host.is_empty()).then(|| format!("{host}:{}", port.port()))
}

/// Host of `host[:port]`.
fn host_of(authority: &str) -> &str {
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[end..].find(':') {
        Some(colon) => &authority[..end + colon],
        None => authority,
    }
}

/// Roles of a node by the names that clients know, in alphabetical order.
fn roles_of(node: &MemberNode) -> Vec<&'static str> {
    let name = |role: &MemberRole| match role {
        MemberRole::Requests => "ingest",
        MemberRole::Documents => "data",
        MemberRole::Election => "master",
    };
    let mut roles: Vec<&str> = node.roles.iter().map(name).collect();
    roles.sort_unstable();
    roles
}

/// `_nodes`: the nodes that serve. A node has the address of its own port of these interfaces, so that
/// clients send requests there; one without such a port names none, and clients leave it out.
pub(crate) fn nodes(
    service: &ElasticService,
    request: &ElasticRequest,
    path: &[String],
) -> Result<ReplyContent, Error> {
    let known = KnownNodes::of(service, &request.host);
    // `_nodes/http,os` has parts of all nodes, `_nodes/a,b` and `_nodes/a,b/http` are about two of them.
    let is_part = |text: &&String| text.split(',').all(|one| NODE_PARTS.contains(&one));
    let names = path.first().filter(|first| !is_part(first)).map_or("_all", String::as_str);
    ReplyContent::ok(json!({
        "_nodes": known.answered(),
        "cluster_name": ALONE,
        "nodes": known.described(|node| known.is_named(names, node)),
    }))
}

/// `_cluster/health`. It answers at once: a state that is waited for is there, or the answer says
/// `timed_out`.
pub(crate) fn health(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let known = KnownNodes::of(service, "");
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let found = match service.owns_home() {
        Ok(_) => {
            let options = options.with(parameters)?;
            match names::resolve(&*service.catalog.read()?, expression, options) {
                // One that is waited for is not there yet.
                Err(Error::NoIndex { .. }) => None,
                other => Some((known.status(), other?)),
            }
        }
        // No node knows the indexes now.
        Err(_) => Some((ClusterStatus::Red, Vec::new())),
    };
    let is_missing = found.is_none();
    let (status, indexes) = found.unwrap_or((ClusterStatus::Red, Vec::new()));
    let shards: u64 = indexes.iter().map(shards_of).sum();
    let (all, data) = (known.serving().count(), known.with_role(MemberRole::Documents));
    let wanted_shards = match parameters.get("wait_for_active_shards") {
        None | Some("all" | "index-setting") => 0,
        Some(_) => parameters.integer("wait_for_active_shards")?.unwrap_or(0),
    };
    let wanted_status = ClusterStatus::of_parameter(parameters, "wait_for_status")?;
    let has_nodes = parameters.get("wait_for_nodes").map_or(Ok(true), |wanted| has_number(wanted, all))?;
    let is_late = is_missing
        || !has_nodes
        || wanted_status.is_some_and(|wanted| status > wanted)
        || i64::try_from(shards).is_ok_and(|shards| wanted_shards > shards);
    let mut answer = json!({
        "cluster_name": ALONE,
        "status": status.name(),
        "timed_out": is_late,
        "number_of_nodes": all,
        "number_of_data_nodes": data,
        "discovered_master": status != ClusterStatus::Red,
        "discovered_cluster_manager": status != ClusterStatus::Red,
        "active_primary_shards": shards,
        "active_shards": shards,
        "relocating_shards": 0,
        "initializing_shards": 0,
        "unassigned_shards": 0,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": known.percentage(),
    });
    let level = parameters.get("level").unwrap_or("cluster");
    if matches!(level, "indices" | "shards") {
        let mut described = Map::new();
        for index in &indexes {
            let shards = shards_of(index);
            let replicas: u64 =
                index.setting("index.number_of_replicas").and_then(|count| count.parse().ok()).unwrap_or(0);
            let mut one = json!({
                "status": status.name(), "number_of_shards": shards, "number_of_replicas": replicas,
                "active_primary_shards": shards, "active_shards": shards, "relocating_shards": 0,
                "initializing_shards": 0, "unassigned_shards": 0,
            });
            if level == "shards" {
                let shard = json!({
                    "status": status.name(), "primary_active": true, "active_shards": 1, "relocating_shards": 0,
                    "initializing_shards": 0, "unassigned_shards": 0,
                });
                let all = (0..shards).map(|number| (number.to_string(), shard.clone()));
                one["shards"] = Value::Object(all.collect());
            }
            take_answer(&service.answer_memory, &one)?;
            described.insert(index.entry.name.clone(), one);
        }
        answer["indices"] = Value::Object(described);
    }
    Ok(ReplyContent::Json(if is_late { 408 } else { 200 }, answer))
}

/// `_cluster/stats`.
pub(crate) fn figures(service: &ElasticService) -> Result<ReplyContent, Error> {
    let known = KnownNodes::of(service, "");
    let options = NameOptions { forbid_closed: false, hidden: true, ..NameOptions::LENIENT };
    let indexes = names::resolve(&*service.catalog.read()?, "", options)?;
    let shards: u64 = indexes.iter().map(shards_of).sum();
    let mut documents = 0;
    for index in indexes.iter().filter(|index| index.typed.is_none()) {
        documents += documents_of(service, index)?;
    }
    ReplyContent::ok(json!({
        "_nodes": known.answered(),
        "cluster_name": ALONE,
        "cluster_uuid": ALONE,
        "status": known.status().name(),
        "indices": {
            "count": indexes.len(),
            "shards": { "total": shards, "primaries": shards },
            "docs": { "count": documents, "deleted": 0 },
        },
        "nodes": {
            "count": {
                "total": known.serving().count(),
                "data": known.with_role(MemberRole::Documents),
                "ingest": known.with_role(MemberRole::Requests),
                "master": known.with_role(MemberRole::Election),
            },
            "versions": [VERSION],
        },
    }))
}

/// True if a number is the one that `wait_for_nodes` asks for: `3`, `>=3`, `ge(3)` and the like.
fn has_number(wanted: &str, number: usize) -> Result<bool, Error> {
    type IsMet = fn(&usize, &usize) -> bool;
    const FORMS: [(&str, &str, IsMet); 8] = [
        (">=", "", usize::ge),
        ("<=", "", usize::le),
        (">", "", usize::gt),
        ("<", "", usize::lt),
        ("ge(", ")", usize::ge),
        ("le(", ")", usize::le),
        ("gt(", ")", usize::gt),
        ("lt(", ")", usize::lt),
    ];
    let bare = |before: &str, after: &str| wanted.strip_prefix(before)?.strip_suffix(after);
    let equals: IsMet = |number, count| number == count;
    let found = FORMS.iter().find_map(|(before, after, is_met)| Some((bare(before, after)?, *is_met)));
    let (text, is_met) = found.unwrap_or((wanted, equals));
    match text.trim().parse() {
        Ok(count) => Ok(is_met(&number, &count)),
        Err(_) => Err(Error::IllegalArgument(format!(
            "wait_for_nodes is [{wanted}]; write a number, such as 3 or >=3"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes with one letter each: `u`p, `d`own, and `n`ever started.
    fn known(states: &str, redundancy: usize) -> KnownNodes {
        let node = |(key, state): (usize, char)| {
            let key = u16::try_from(key).expect("the test has few nodes");
            let away = (state != 'u').then_some("down");
            let listed = ListedNode { key: NodeKey(key), name: format!("n{key}"), away };
            MemberNode { listed, has_run: state != 'n', is_leader: key == 0, ..alone(None).nodes.remove(0) }
        };
        let nodes = states.chars().enumerate().map(node).collect();
        KnownNodes { members: MemberNodes { nodes, redundancy }, own: Some(NodeKey(1)) }
    }

    #[test]
    fn the_status_follows_from_the_nodes_that_are_away() {
        for (states, redundancy, expected) in [
            ("u", 1, ClusterStatus::Green),
            ("uuu", 2, ClusterStatus::Green),
            ("uun", 2, ClusterStatus::Green),
            ("uud", 2, ClusterStatus::Yellow),
            ("udd", 2, ClusterStatus::Red),
            ("uud", 1, ClusterStatus::Red),
            ("ddd", 4, ClusterStatus::Red),
            ("", 1, ClusterStatus::Red),
        ] {
            assert_eq!(known(states, redundancy).status(), expected, "{states} {redundancy}");
        }
    }

    #[test]
    fn paths_name_nodes() {
        let known = known("uud", 2);
        for (names, expected) in [
            ("_all", "n0 n1"),
            ("_local", "n1"),
            ("_master", "n0"),
            ("n*", "n0 n1"),
            ("n0,n2", "n0"),
            ("x", ""),
            ("x,_local", "n1"),
        ] {
            let named = known.serving().filter(|node| known.is_named(names, node));
            let named: Vec<&str> = named.map(|node| node.listed.name.as_str()).collect();
            assert_eq!(named.join(" "), expected, "{names}");
        }
    }

    #[test]
    fn clients_get_an_address_that_they_can_reach() {
        for (port, host, expected) in [
            ("127.0.0.1:9200", "a:1", Some("127.0.0.1:9200")),
            ("[::1]:9200", "", Some("[::1]:9200")),
            ("0.0.0.0:9200", "a.example:80", Some("a.example:9200")),
            ("0.0.0.0:9200", "a.example", Some("a.example:9200")),
            ("[::]:9200", "[fd00::1]:80", Some("[fd00::1]:9200")),
            ("[::]:9200", "[fd00::1]", Some("[fd00::1]:9200")),
            ("0.0.0.0:9200", "", None),
        ] {
            let port = port.parse().expect("the test's text is an address");
            assert_eq!(reached_at(port, host).as_deref(), expected, "{port} {host}");
        }
    }

    #[test]
    fn numbers_of_nodes_are_compared() {
        for (wanted, expected) in [
            ("3", Some(true)),
            ("2", Some(false)),
            (">=3", Some(true)),
            (">3", Some(false)),
            ("<=2", Some(false)),
            ("<4", Some(true)),
            ("ge(4)", Some(false)),
            ("le(3)", Some(true)),
            ("gt(2)", Some(true)),
            ("lt(3)", Some(false)),
            ("", None),
            ("many", None),
            ("ge(3", None),
            ("-1", None),
        ] {
            assert_eq!(has_number(wanted, 3).ok(), expected, "{wanted}");
        }
    }
}
