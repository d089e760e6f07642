use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;

use crate::{IndexNumber, RefusalKind, SliceId};

/// Errors of the table of copies, of its settings and of commands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a table of copies.
    #[error("this is not a table of copies of indexes: {reason}; was it written by another program?")]
    Format {
        /// Reason why it does not parse.
        reason: String,
    },
    /// The table has a format that this program does not know.
    #[error(
        "the table of copies of indexes has format {0}, and this program knows none above {max}: run a version on this \
         node that is not older than the other nodes'",
        max = crate::table::TABLE_FORMAT
    )]
    Version(u32),
    /// The parts of the table contradict each other.
    #[error(
        "the table of copies of indexes is inconsistent: {place}: {reason}; delete its key, and all indexes are built again"
    )]
    Inconsistent {
        /// Part of the table.
        place: String,
        /// Contradiction.
        reason: String,
    },
    /// The bytes are not reports of a node about its copies.
    #[error(
        "these are not reports of a node about copies of indexes: {reason}; the node publishes others when it \
         starts again"
    )]
    Reports {
        /// Reason why they do not parse.
        reason: String,
    },
    /// A text is not a copy of the table.
    #[error("'{text}' does not describe a copy of an index: {reason}")]
    CopyText {
        /// The text.
        text: String,
        /// Expected in its place.
        reason: &'static str,
    },
    /// The body is not a JSON object of settings.
    #[error("the settings are not a JSON object: {reason}")]
    SettingsFormat {
        /// Reason why it does not parse.
        reason: String,
    },
    /// A setting of another name.
    #[error("unknown setting '{name}'; expected one of {known}", known = crate::settings::NAMES.join(", "))]
    UnknownSetting {
        /// The unknown name.
        name: String,
    },
    /// A setting has a value that it cannot have.
    #[error("{name}: {given}: expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value, as JSON.
        given: String,
        /// Values that it can have.
        expected: &'static str,
    },
    /// The index is not declared, or not yet known to the table.
    #[error("index '{name}' of content cluster '{content}' is not placed; the placed indexes are {known}")]
    UnknownIndex {
        /// Content cluster.
        content: String,
        /// Name of the index.
        name: String,
        /// Placed indexes.
        known: String,
    },
    /// The index has fewer slices.
    #[error("{slice} does not exist: the index has slices 0 to {last}")]
    UnknownSlice {
        /// The slice.
        slice: SliceId,
        /// Last slice of the index.
        last: u8,
    },
    /// The cluster has no node with this key.
    #[error("node {0} is not a node of this cluster")]
    UnknownNode(NodeKey),
    /// The cluster has no node of this name.
    #[error("no node '{name}'; the cluster has {known}")]
    UnknownNodeName {
        /// The unknown name.
        name: String,
        /// Names of all nodes.
        known: String,
    },
    /// The body is not a move.
    #[error(
        "the body does not describe a move: {reason}; expected the slice and the names of two nodes, as in {{\"slice\":3,\"from\":\"n0\",\"to\":\"n4\"}}"
    )]
    MoveFormat {
        /// Reason why it does not parse.
        reason: String,
    },
    /// The node can take no copies.
    #[error("node {node} takes no copies: {reason}")]
    TakesNone {
        /// The node.
        node: NodeKey,
        /// Reason why it takes none.
        reason: NoCopiesReason,
    },
    /// The node of which a copy was to be taken has none that can be moved.
    #[error("node {node} has no ready copy of {slice}; ready copies are on {ready}")]
    NoReadyCopy {
        /// The node.
        node: NodeKey,
        /// The slice.
        slice: SliceId,
        /// Nodes with ready copies.
        ready: String,
    },
    /// The node has a copy of this slice.
    #[error("node {node} has a copy of {slice} already; choose a node without one")]
    HasCopy {
        /// The node.
        node: NodeKey,
        /// The slice.
        slice: SliceId,
    },
    /// The copy is being moved.
    #[error("the copy of {slice} on node {node} is being moved; wait until this has ended")]
    Moving {
        /// The slice.
        slice: SliceId,
        /// Node of the copy.
        node: NodeKey,
    },
    /// A rebalance runs.
    #[error("rebalance {id} runs, with {moves_left} moves left; wait until it has ended, or stop it first")]
    Rebalancing {
        /// Number of the rebalance.
        id: u64,
        /// Moves that are left.
        moves_left: u64,
    },
    /// A rebalance was to be stopped, and none runs.
    #[error("a rebalance is not in progress")]
    NotRebalancing,
    /// A declaration has a number that it cannot have.
    #[error("index '{name}': {reason}")]
    Declaration {
        /// Name of the index.
        name: String,
        /// Numbers that it can have.
        reason: &'static str,
    },
    /// The index is being built again already.
    #[error("index {0} is built beside the one that serves; wait until it is ready")]
    Rebuilding(IndexNumber),
}

impl Error {
    /// Kind of the error, for callers that ask for something.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Error::Format { .. }
            | Error::Version(_)
            | Error::Inconsistent { .. }
            | Error::CopyText { .. }
            | Error::SettingsFormat { .. }
            | Error::MoveFormat { .. }
            | Error::Reports { .. }
            | Error::UnknownSetting { .. }
            | Error::Setting { .. }
            | Error::Declaration { .. } => RefusalKind::Invalid,
            Error::UnknownIndex { .. }
            | Error::UnknownSlice { .. }
            | Error::UnknownNode(_)
            | Error::UnknownNodeName { .. } => RefusalKind::Unknown,
            Error::TakesNone { .. }
            | Error::NoReadyCopy { .. }
            | Error::HasCopy { .. }
            | Error::Moving { .. }
            | Error::Rebalancing { .. }
            | Error::NotRebalancing
            | Error::Rebuilding(_) => RefusalKind::Conflict,
        }
    }
}

/// Reason why a node can take no copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCopiesReason {
    /// Lack of the role `index`.
    Role,
    /// Its state: not serving, or to be emptied.
    State(NodeState),
}

impl std::fmt::Display for NoCopiesReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoCopiesReason::Role => "it does not have the role 'index'",
            NoCopiesReason::State(NodeState::Up) => "it is up",
            NoCopiesReason::State(NodeState::Retired) => "it is retired",
            NoCopiesReason::State(NodeState::Maintenance) => "it is in maintenance",
            NoCopiesReason::State(NodeState::Down) => "it is down",
        })
    }
}
