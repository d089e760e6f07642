use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use millrace_cluster::controller;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What a node does in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It takes requests.
    Gateway,
    /// It has buckets.
    Content,
    /// It runs for election.
    Controller,
}

impl NodeRole {
    /// All roles: what a node does that is told nothing else.
    pub const ALL: [NodeRole; 3] = [NodeRole::Gateway, NodeRole::Content, NodeRole::Controller];
}

impl FromStr for NodeRole {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "gateway" => Ok(NodeRole::Gateway),
            "content" => Ok(NodeRole::Content),
            "controller" => Ok(NodeRole::Controller),
            other => Err(Error::Role(other.to_owned())),
        }
    }
}

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name, the same after each start; the one that services.xml lists it with.
    pub name: String,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Where other nodes reach it, as `host:port`.
    pub address: String,
    /// Where it serves documents and queries, as `http://host:port`.
    pub url: String,
    /// Its share of the data where it is not listed; above 0.
    pub capacity: f64,
    /// The keys of the groups that it wants to be in where it is not listed, the outermost first.
    pub group: Vec<u16>,
    /// It has no documents and no replicas when it starts: then it is taken in anew though it was removed.
    pub is_empty: bool,
    /// How long nodes remember removals: one that was away for longer is not taken in with what it has.
    /// `None`: no such check.
    pub removals_kept: Option<Duration>,
    /// Where it keeps what it must know after a restart.
    pub directory: PathBuf,
    /// Begins every key of this cluster, so that several can share one etcd.
    pub prefix: String,
    /// How long the node may be out of touch before others think that it has ended; whole seconds, at least
    /// 2.
    pub lease: Duration,
    /// How often it asks whether the state that it knows is the newest.
    pub confirm: Duration,
    /// How patient the controller is while this node leads.
    pub controller: controller::Settings,
}

impl Settings {
    /// Those of a node with all roles.
    pub fn new(name: impl Into<String>, address: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Settings {
            name: name.into(),
            roles: NodeRole::ALL.to_vec(),
            address: address.into(),
            url: String::new(),
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

    /// Refuses a name that cannot stand in a key or a path.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match self.name.len() {
            1..=100 if self.name.chars().all(fits) => Ok(()),
            _ => Err(Error::Name(self.name.clone())),
        }
    }
}
