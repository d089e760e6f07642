//! Requests of operators on their way to the leader, and its answers.

use millrace_bucket::NodeKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, IndexNode, PlacementCommand, PlacementSettingsUpdate};

/// Request about placed indexes, which any node takes, and the leader decides on.
///
/// It is a value of coordination: nodes are named as the operator has named them, and the leader, which knows
/// all nodes, looks them up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PlacementRequest {
    /// Begin a rebalance.
    Rebalance {
        /// Node that was asked for it.
        by: String,
    },
    /// Begin no further moves.
    Stop,
    /// Move a copy.
    Move {
        /// Content cluster of the index.
        content: String,
        /// Name of the index.
        name: String,
        /// The slice, and the nodes.
        copy: RequestedCopyMove,
    },
    /// Build a deferred index.
    Build {
        /// Content cluster of the index.
        content: String,
        /// Name of the index.
        name: String,
    },
    /// Build an index once more.
    Rebuild {
        /// Content cluster of the index.
        content: String,
        /// Name of the index.
        name: String,
    },
    /// Change settings.
    Settings(Map<String, Value>),
}

/// Move of a copy of a slice, as an operator asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedCopyMove {
    /// The slice.
    pub slice: u8,
    /// The node that gives its copy up.
    pub from: NodeReference,
    /// The node that gets it.
    pub to: NodeReference,
}

/// A node, as an operator refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NodeReference {
    /// By its key.
    Key(u16),
    /// By its name; a key as text will do.
    Name(String),
}

/// Answer of the leader to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PlacementAnswer {
    /// The table says so from now on.
    Done,
    /// The table is as it was.
    Refused {
        /// Kind of the refusal.
        kind: RefusalKind,
        /// Reason and remedy.
        reason: String,
    },
}

/// Kind of the refusal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request is malformed.
    Invalid,
    /// Something that it names does not exist.
    Unknown,
    /// The table, or a node, does not permit it at present.
    Conflict,
    /// The leader cannot plan at present.
    Unavailable,
}

impl RequestedCopyMove {
    /// Parses `{"slice":3,"from":"n0","to":"n4"}`.
    ///
    /// # Errors
    /// [`Error::MoveFormat`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map_err(|error| Error::MoveFormat { reason: error.to_string() })
    }
}

impl PlacementRequest {
    /// Parses a JSON object with some of the settings.
    ///
    /// # Errors
    /// Those of [`PlacementSettingsUpdate::from_json`].
    pub fn settings(bytes: &[u8]) -> Result<Self, Error> {
        PlacementSettingsUpdate::from_json(bytes)?;
        let given = serde_json::from_slice(bytes)
            .map_err(|error| Error::SettingsFormat { reason: error.to_string() })?;
        Ok(PlacementRequest::Settings(given))
    }

    /// The command that it is, in a cluster of these nodes.
    ///
    /// # Errors
    /// A node that the cluster does not have; settings that cannot be.
    pub fn command(&self, nodes: &[IndexNode]) -> Result<PlacementCommand, Error> {
        let index = |content: &String, name: &String| (content.clone(), name.clone());
        Ok(match self {
            PlacementRequest::Rebalance { by } => PlacementCommand::Rebalance { by: by.clone() },
            PlacementRequest::Stop => PlacementCommand::Stop,
            PlacementRequest::Move { content, name, copy } => PlacementCommand::Move {
                index: index(content, name),
                slice: copy.slice,
                from: copy.from.find(nodes)?,
                to: copy.to.find(nodes)?,
            },
            PlacementRequest::Build { content, name } => {
                PlacementCommand::Build { index: index(content, name) }
            }
            PlacementRequest::Rebuild { content, name } => {
                PlacementCommand::Rebuild { index: index(content, name) }
            }
            PlacementRequest::Settings(given) => {
                PlacementCommand::Settings(PlacementSettingsUpdate::from_members(given)?)
            }
        })
    }
}

impl NodeReference {
    /// The key of the node; a name counts before a key.
    fn find(&self, nodes: &[IndexNode]) -> Result<NodeKey, Error> {
        let text = match self {
            NodeReference::Key(key) => key.to_string(),
            NodeReference::Name(name) => name.clone(),
        };
        let named = nodes.iter().find(|node| *node.name == *text);
        let keyed = || nodes.iter().find(|node| node.key.to_string() == text);
        named.or_else(keyed).map(|node| node.key).ok_or_else(|| {
            let known: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::UnknownNodeName { name: text, known }
        })
    }
}

impl From<&Error> for PlacementAnswer {
    fn from(error: &Error) -> Self {
        PlacementAnswer::Refused { kind: error.kind(), reason: error.to_string() }
    }
}
