use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use millrace_cluster::controller;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Role of a node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// The node takes requests.
    Gateway,
    /// The node stores buckets.
    Content,
    /// The node runs for election.
    Controller,
    /// The node takes copies of placed indexes.
    Index,
}

impl NodeRole {
    /// All roles: the default of a node.
    pub const ALL: [NodeRole; 4] =
        [NodeRole::Gateway, NodeRole::Content, NodeRole::Controller, NodeRole::Index];
}

impl FromStr for NodeRole {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "gateway" => Ok(NodeRole::Gateway),
            "content" => Ok(NodeRole::Content),
            "controller" => Ok(NodeRole::Controller),
            "index" => Ok(NodeRole::Index),
            other => Err(Error::Role(other.to_owned())),
        }
    }
}

/// Settings of a node's membership.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name, the same after each start; the name that services.xml lists it with.
    pub name: String,
    /// Its roles.
    pub roles: Vec<NodeRole>,
    /// Address for other nodes, as `host:port`.
    pub address: String,
    /// URL at which it serves documents and queries, as `http://host:port`.
    pub url: String,
    /// Address of its port of Elasticsearch's interfaces, as `host:port`; `None`: it has none.
    pub elastic: Option<String>,
    /// Its share of the data if it is not listed; above 0.
    pub capacity: f64,
    /// Keys of the groups that it asks to be in if it is not listed, the outermost first.
    pub group: Vec<u16>,
    /// True if it has no documents and no replicas when it starts: then it is readmitted even if it was
    /// removed.
    pub is_empty: bool,
    /// Time for which nodes remember removals: a node that was absent for longer is not admitted with its
    /// data. `None`: no such check.
    pub removals_kept: Option<Duration>,
    /// Directory of the data that it must know after a restart.
    pub directory: PathBuf,
    /// Prefix of every key of this cluster, so that several can share one etcd.
    pub prefix: String,
    /// Time that the node may be unreachable before others consider it ended; whole seconds, at least 2.
    pub lease: Duration,
    /// Interval of the checks that the known state is the newest.
    pub confirm: Duration,
    /// Timeouts of the controller while this node leads.
    pub controller: controller::Settings,
}

impl Settings {
    /// Settings of a node with all roles.
    pub fn new(name: impl Into<String>, address: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Settings {
            name: name.into(),
            roles: NodeRole::ALL.to_vec(),
            address: address.into(),
            url: String::new(),
            elastic: None,
            capacity: 1.0,
            group: Vec::new(),
            is_empty: false,
            removals_kept: None,
            directory: directory.into(),
            prefix: "/millrace".to_owned(),
            lease: Duration::from_secs(5),
            confirm: Duration::from_secs(1),
            controller: controller::Settings::default(),
        }
    }

    /// Refuses a name that cannot be part of a key or a path.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match self.name.len() {
            1..=100 if self.name.chars().all(fits) => Ok(()),
            _ => Err(Error::Name(self.name.clone())),
        }
    }
}
