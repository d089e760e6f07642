//! Nodes of a cluster, for clients that ask which there are.

use super::ListedNode;

/// Nodes of a cluster, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberNodes {
    /// Nodes of the cluster state, by their keys; none before the first state.
    pub nodes: Vec<MemberNode>,
    /// Number of replicas that each document should have.
    pub redundancy: usize,
}

/// Node of a cluster, as its state and its registration have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberNode {
    /// Its key and name, and whether it serves.
    pub listed: ListedNode,
    /// Its `host:port` for other nodes.
    pub address: String,
    /// `host:port` of its port of Elasticsearch's interfaces; `None`: it does not run, has no such port, or
    /// is of a version that does not announce it.
    pub elastic: Option<String>,
    /// Its roles while it runs.
    pub roles: Vec<MemberRole>,
    /// True if it leads the cluster.
    pub is_leader: bool,
    /// True if it may have documents: it has run.
    pub has_run: bool,
}

/// Role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRole {
    /// Answering requests of clients.
    Requests,
    /// Storing documents.
    Documents,
    /// Running for election as the controller.
    Election,
}

impl MemberNode {
    /// True if it serves.
    pub fn serves(&self) -> bool {
        self.listed.away.is_none()
    }
}
