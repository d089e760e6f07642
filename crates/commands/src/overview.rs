//! A cluster as reported by its nodes.

use std::time::Duration;

use hyper::Method;
use indicatif::{HumanBytes, HumanCount};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_cluster::ClusterVersion;
use millrace_membership::NodeStats;
use serde_json::{Value, json};

use crate::commands::index::PlacedOverview;
use crate::error::Error;
use crate::output::counted;

/// Timeout of one node's statistics.
const FIGURES_TIMEOUT: Duration = Duration::from_secs(3);

/// Nodes of a cluster and their states.
pub struct ClusterOverview {
    /// Name of a content cluster, by which the nodes can be addressed.
    cluster: String,
    version: ClusterVersion,
    leader: Option<String>,
    /// Success if the cluster serves, otherwise the reason.
    up: Result<(), String>,
    pub nodes: Vec<NodeView>,
    /// Placed indexes, where there are some.
    indexes: Option<PlacedOverview>,
}

/// A node of a cluster.
pub struct NodeView {
    pub name: String,
    /// State in the cluster state.
    pub state: String,
    /// State that an operator set.
    requested: String,
    /// True if it reports that it runs.
    runs: bool,
    key: u64,
    reason: String,
    url: Option<String>,
    /// Its own statistics, once queried; or the reason why there are none.
    answer: Option<Result<NodeStats, StatsFault>>,
}

impl ClusterOverview {
    /// Reads the cluster from any node.
    pub async fn read(client: &NodeClient) -> Result<Self, Error> {
        let request = OutgoingRequest::new(Method::GET, "/cluster/v2/").parameter("recursive", "true");
        let answer = client.send(request).await?;
        let tree = answer.checked()?.json();
        let clusters = || tree["cluster"].as_object().into_iter().flat_map(|clusters| clusters.values());
        if clusters().any(|cluster| cluster["alone"] == true) {
            return Err(Error::Argument(format!(
                "the node at {} is in no cluster: it was started without --cluster",
                client.base()
            )));
        }
        Self::parse(&tree).ok_or_else(|| Error::NoCluster { base: client.base().to_owned() })
    }

    fn parse(tree: &Value) -> Option<Self> {
        let (cluster, content) = tree["cluster"].as_object()?.iter().next()?;
        let generated = &content["state"]["generated"];
        let reason = generated["reason"].as_str().unwrap_or("").to_owned();
        let nodes = content["service"]["storage"]["node"].as_object()?.iter().filter_map(|(key, node)| {
            let (attributes, generated) = (&node["attributes"], &node["state"]["generated"]);
            Some(NodeView {
                name: attributes["name"].as_str()?.to_owned(),
                state: generated["state"].as_str()?.to_owned(),
                requested: node["state"]["user"]["state"].as_str().unwrap_or("up").to_owned(),
                runs: node["state"]["unit"]["state"] == "up",
                key: key.parse().ok()?,
                reason: generated["reason"].as_str().unwrap_or("").to_owned(),
                url: attributes["url"].as_str().filter(|url| !url.is_empty()).map(str::to_owned),
                answer: None,
            })
        });
        let mut nodes: Vec<NodeView> = nodes.collect();
        nodes.sort_by_key(|node| node.key);
        Some(ClusterOverview {
            cluster: cluster.clone(),
            version: ClusterVersion::new(content["version"].as_u64().unwrap_or(0)),
            leader: content["leader"].as_str().map(str::to_owned),
            up: if generated["state"] == "up" { Ok(()) } else { Err(reason) },
            nodes,
            indexes: None,
        })
    }

    /// Asks for the placed indexes. They are left out for a caller that may not see them.
    pub async fn ask_indexes(&mut self, client: &NodeClient) {
        self.indexes = PlacedOverview::read(client).await.unwrap_or_default();
    }

    /// Path at which a node's state is set.
    pub fn path_of(&self, name: &str) -> Result<String, Error> {
        match self.nodes.iter().find(|node| node.name == name) {
            Some(node) => Ok(format!("/cluster/v2/{}/storage/{}", self.cluster, node.key)),
            None => {
                let known: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
                Err(Error::Argument(format!("no node '{name}'; the cluster has {}", known.join(", "))))
            }
        }
    }

    /// Queries every serving node for its statistics.
    pub async fn ask_nodes(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.serves()) {
            node.answer = Some(node.stats().await);
        }
    }

    /// Remaining work until the cluster is up, all expected nodes are present, and all of them act by its
    /// newest state; or until it is in the ideal state.
    pub fn remaining_work(&self, ideal: bool) -> Option<String> {
        if let Err(reason) = &self.up {
            return Some(format!("the cluster is down: {reason}"));
        }
        self.nodes.iter().find_map(|node| match node.serves() {
            true => node.remaining_work(self.version, ideal),
            false => node.expected(ideal),
        })
    }

    /// Absent nodes, and nodes that run though they were removed; `None`: all serve.
    pub fn away(&self) -> Option<String> {
        let away = self.nodes.iter().filter(|node| !node.serves());
        let absence = |node: &NodeView| match (&*node.requested, node.runs) {
            ("removed", true) => {
                Some(format!("{} runs, and is not in the cluster: {}", node.name, node.reason))
            }
            ("removed", false) => None,
            _ => Some(format!("{} is not there ({})", node.name, node.state)),
        };
        let away: Vec<String> = away.filter_map(absence).collect();
        (!away.is_empty()).then(|| away.join(", "))
    }

    /// JSON form.
    pub fn value(&self) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            let stats = node.answer.as_ref().map(|answer| match answer {
                Ok(stats) => json!(stats),
                Err(error) => json!({ "error": error.to_string() }),
            });
            json!({ "name": node.name, "key": node.key, "state": node.state, "reason": node.reason, "figures": stats })
        });
        json!({
            "version": self.version,
            "leader": self.leader,
            "up": self.up.is_ok(),
            "nodes": nodes.collect::<Value>(),
            "indexes": self.indexes.as_ref().map(PlacedOverview::value),
        })
    }

    /// Number of groups that are divided by the newest state that a node acts by.
    fn divided_groups(&self) -> u64 {
        let stats = self.nodes.iter().filter_map(|node| node.answer.as_ref()?.as_ref().ok());
        stats.max_by_key(|stats| stats.version).map_or(0, |stats| stats.divided_groups)
    }

    /// Table form, with a line for each transfer.
    pub fn text(&self) -> String {
        let leader = self.leader.as_deref().unwrap_or("none");
        let divided = match self.divided_groups() {
            0 => String::new(),
            1 => "; 1 large group is divided".to_owned(),
            count => format!("; {} large groups are divided", HumanCount(count)),
        };
        let mut lines = vec![match &self.up {
            Ok(()) => format!("cluster      up; state {}, {leader} leads{divided}", self.version),
            Err(reason) => {
                format!("cluster      down: {reason}; state {}, {leader} leads{divided}", self.version)
            }
        }];
        let widest = self.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0).max(4);
        lines.push(format!(
            "{:widest$}  {:11}  {}",
            "node", "state", "buckets (owned, incomplete), documents, left to do"
        ));
        let mut transfers = Vec::new();
        for node in &self.nodes {
            lines.push(format!("{:widest$}  {:11}  {}", node.name, node.state, node.report()));
            let Some(Ok(stats)) = &node.answer else { continue };
            // Both ends report a transfer.
            transfers.extend(stats.transfers.iter().filter(|transfer| transfer.to == node.name));
        }
        for transfer in transfers {
            let eta = transfer.eta_s.map_or_else(String::new, |seconds| format!(", {seconds:.0} s left"));
            lines.push(format!(
                "{} → {}: {} of {} buckets, {} of {} at {}/s{eta}",
                transfer.from,
                transfer.to,
                transfer.reason,
                transfer.buckets,
                HumanBytes(transfer.bytes_done),
                HumanBytes(transfer.bytes_total),
                HumanBytes(transfer.bytes_per_second as u64),
            ));
        }
        for node in &self.nodes {
            let Some(Ok(stats)) = &node.answer else { continue };
            lines.extend(stats.warnings.iter().map(|warning| format!("{}: warning: {warning}", node.name)));
            if let Some(limit) = stats.pace.limit.filter(|_| stats.pace.bytes_per_second > 0) {
                lines.push(format!(
                    "{} moves {}/s, {:.0} % of the {}/s that it may now",
                    node.name,
                    HumanBytes(stats.pace.bytes_per_second),
                    100.0 * stats.pace.bytes_per_second as f64 / limit.max(1) as f64,
                    HumanBytes(limit)
                ));
            }
            lines.extend(stats.operations.iter().map(|operation| {
                let cause =
                    operation.failure_cause.as_ref().map_or_else(String::new, |cause| format!("; {cause}"));
                format!(
                    "{}: {}: {} ({}{cause})",
                    node.name, operation.bucket, operation.reason, operation.progress
                )
            }));
            let untold = stats.operations_count - (stats.operations.len() as u64).min(stats.operations_count);
            if untold > 0 {
                lines.push(format!("{}: and {} more operations", node.name, HumanCount(untold)));
            }
        }
        let mut stats = self.nodes.iter().filter_map(|node| node.answer.as_ref()?.as_ref().ok());
        if stats.any(|stats| !stats.operations.is_empty()) {
            let named: Vec<String> =
                self.nodes.iter().map(|node| format!("{} {}", node.key, node.name)).collect();
            lines.push(format!("nodes by number: {}", named.join(", ")));
        }
        lines.extend(self.indexes.iter().flat_map(PlacedOverview::lines));
        lines.join("\n")
    }
}

/// Reason for which a node has given no statistics.
#[derive(Debug, thiserror::Error)]
pub enum StatsFault {
    #[error("it is not registered: it has ended, or does not reach coordination (etcd)")]
    NoAddress,
    #[error(transparent)]
    Client(millrace_client::Error),
    #[error(
        "{address} did not answer within {seconds} seconds: the node is busy, stands still, or cannot be reached; its log says more"
    )]
    Late { address: String, seconds: f64 },
    #[error("{url}: {source}")]
    Answer { url: String, source: serde_json::Error },
    #[error(
        "at {url}, where it says that it is, there is '{name}'; start it with --advertise and the host by which others reach it"
    )]
    OtherNode { url: String, name: String },
}

impl NodeView {
    fn serves(&self) -> bool {
        matches!(&*self.state, "up" | "retired")
    }

    /// Queries the node for its statistics.
    pub async fn stats(&self) -> Result<NodeStats, StatsFault> {
        let url = self.url.as_deref().ok_or(StatsFault::NoAddress)?;
        let client = NodeClient::new(url, HttpProtocol::Http1).map_err(StatsFault::Client)?;
        let request = OutgoingRequest::new(Method::GET, "/state/v1/cluster").timeout(FIGURES_TIMEOUT);
        let answer = client.send(request).await.and_then(millrace_client::ClientAnswer::checked);
        // The time is not that of the command, which --timeout extends.
        let answer = answer.map_err(|error| match error {
            millrace_client::Error::Timeout { address, seconds } => StatsFault::Late { address, seconds },
            error => StatsFault::Client(error),
        });
        let wrong = |source| StatsFault::Answer { url: url.to_owned(), source };
        let stats: NodeStats = serde_json::from_slice(&answer?.body).map_err(wrong)?;
        match stats.name == self.name {
            true => Ok(stats),
            false => Err(StatsFault::OtherNode { url: url.to_owned(), name: stats.name }),
        }
    }

    /// Reason to wait for a node that does not serve.
    fn expected(&self, ideal: bool) -> Option<String> {
        let name = &self.name;
        match (&*self.state, &*self.requested) {
            ("maintenance", "maintenance") => ideal.then(|| {
                format!("{name} is under maintenance, and its replicas are not recreated elsewhere; when it is back: millrace node up {name}")
            }),
            ("maintenance", _) => Some(format!("{name} is away, and expected back")),
            ("down", "up" | "retired") if self.runs => Some(format!("{name} runs, and does not serve yet")),
            _ => None,
        }
    }

    fn remaining_work(&self, version: ClusterVersion, ideal: bool) -> Option<String> {
        let name = &self.name;
        let stats = match &self.answer {
            Some(Ok(stats)) => stats,
            Some(Err(error)) => return Some(format!("{name}: {error}")),
            None => return Some(format!("{name} was not asked")),
        };
        if stats.version < version || !stats.confirmed {
            return Some(format!("{name} does not go by state {version} yet"));
        }
        if ideal && !stats.ideal.is_ideal() {
            let ideal = &stats.ideal;
            return Some(format!(
                "{name} has {} to make, fill or delete, and {} to find out about",
                counted(ideal.distance, "replica", "replicas"),
                counted(ideal.unknown, "bucket", "buckets")
            ));
        }
        None
    }

    /// Its own report, for people.
    fn report(&self) -> String {
        match &self.answer {
            Some(Ok(stats)) => {
                let buckets = stats.buckets;
                format!(
                    "{} ({}, {}), {}, {}",
                    HumanCount(buckets.replicas),
                    HumanCount(buckets.owned),
                    HumanCount(buckets.incomplete),
                    HumanCount(stats.documents),
                    HumanCount(stats.ideal.distance)
                )
            }
            Some(Err(error)) => error.to_string(),
            None => self.reason.clone(),
        }
    }
}
