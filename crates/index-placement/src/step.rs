use std::fmt;
use std::sync::Arc;

use millrace_bucket::NodeKey;

use crate::{CopyId, DefinitionHash, IndexNumber, PlacementReason, RebalanceCause, SliceId};

/// A change of the table of copies, for logs and for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementStep {
    /// An index comes into the table.
    IndexAdded {
        /// Its number.
        index: IndexNumber,
        /// Its name.
        name: String,
        /// Hash of its definition.
        definition: DefinitionHash,
    },
    /// An index leaves the table with all of its copies.
    IndexRemoved {
        /// Its number.
        index: IndexNumber,
        /// Its name.
        name: String,
        /// Reason for which it leaves.
        reason: IndexRemoval,
    },
    /// Another number of copies is wanted.
    CopiesWanted {
        /// The index.
        index: IndexNumber,
        /// The number.
        copies: u8,
    },
    /// A deferred index is to be built.
    BuildRequested {
        /// The index.
        index: IndexNumber,
    },
    /// Other settings.
    SettingsChanged,
    /// A copy is to be made.
    CopyBegun {
        /// Its slice.
        slice: SliceId,
        /// Its number.
        copy: CopyId,
        /// Its node.
        node: NodeKey,
        /// The node whose files are taken over; `None`: it is built.
        from: Option<NodeKey>,
        /// The node whose copy leaves when this one is ready.
        replaces: Option<NodeKey>,
        /// Its reason.
        reason: PlacementReason,
    },
    /// A copy is made from another source, because its own has gone.
    SourceChanged {
        /// Its slice.
        slice: SliceId,
        /// Its node.
        node: NodeKey,
        /// The node whose files are taken over; `None`: it is built.
        from: Option<NodeKey>,
    },
    /// A copy may be scanned from now on.
    CopyReady {
        /// Its slice.
        slice: SliceId,
        /// Its node.
        node: NodeKey,
    },
    /// A copy is not given to new scans, and its node unlinks it.
    CopyLeaves {
        /// Its slice.
        slice: SliceId,
        /// Its node.
        node: NodeKey,
        /// Reason for which it leaves.
        reason: LeaveReason,
    },
    /// A copy leaves the table.
    CopyForgotten {
        /// Its slice.
        slice: SliceId,
        /// Its node.
        node: NodeKey,
        /// Reason for which it is forgotten.
        reason: ForgetReason,
    },
    /// A rebalance begins.
    RebalanceBegun {
        /// Its number.
        id: u64,
        /// Its beginner.
        cause: RebalanceCause,
    },
    /// A rebalance begins no further moves.
    RebalanceStopped {
        /// Its number.
        id: u64,
    },
    /// A rebalance has ended.
    RebalanceEnded {
        /// Its number.
        id: u64,
    },
    /// A move that was asked for is recorded.
    MoveRequested {
        /// The slice.
        slice: SliceId,
        /// The node that gives its copy up.
        from: NodeKey,
        /// The node that gets it.
        to: NodeKey,
    },
    /// A move that was asked for does not take place.
    MoveDropped {
        /// The slice.
        slice: SliceId,
        /// The node that would have got the copy.
        to: NodeKey,
    },
}

/// Reason for which an index leaves the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexRemoval {
    /// No longer declared.
    NotDeclared,
    /// The one that has superseded it is ready.
    Superseded,
    /// Superseded before it was ready, or since then without a slice.
    Incomplete,
}

/// Reason for which a copy leaves its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// A copy on another node has replaced it.
    Moved(NodeKey),
    /// The slice has more copies than wanted.
    TooMany,
    /// The node is to be emptied before the copy was ready.
    NodeLeaves,
    /// Another definition supersedes that of its index before it was ready.
    Superseded,
    /// Failure at its node.
    Failed(Arc<str>),
}

/// Reason for which a copy leaves the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetReason {
    /// The node has unlinked it.
    Unlinked,
    /// The node does not have it any more.
    Lost,
    /// The node is down, and the copy was not ready, or has been replaced.
    NodeDown,
    /// The node is not a node of the cluster any more.
    NodeRemoved,
}

impl fmt::Display for PlacementStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = |f: &mut fmt::Formatter<'_>, from: &Option<NodeKey>| match from {
            Some(from) => write!(f, "from node {from}"),
            None => f.write_str("from the documents"),
        };
        match self {
            PlacementStep::IndexAdded { index, name, .. } => {
                write!(f, "index {index} ('{name}') is to be placed")
            }
            PlacementStep::IndexRemoved { index, name, reason } => {
                write!(f, "index {index} ('{name}') is removed: {reason}")
            }
            PlacementStep::CopiesWanted { index, copies } => {
                write!(f, "the number of copies of index {index} should be {copies}")
            }
            PlacementStep::BuildRequested { index } => write!(f, "index {index} is to be built"),
            PlacementStep::SettingsChanged => f.write_str("the settings of placement have changed"),
            PlacementStep::CopyBegun { slice, node, from, replaces, reason, .. } => {
                write!(f, "{slice} comes to node {node} ")?;
                source(f, from)?;
                if let Some(node) = replaces {
                    write!(f, ", instead of node {node}")?;
                }
                write!(f, ": {}", reason.sentence())
            }
            PlacementStep::SourceChanged { slice, node, from } => {
                write!(f, "{slice} comes to node {node} ")?;
                source(f, from)?;
                f.write_str(": its source has gone")
            }
            PlacementStep::CopyReady { slice, node } => write!(f, "{slice} is ready on node {node}"),
            PlacementStep::CopyLeaves { slice, node, reason } => {
                write!(f, "{slice} leaves node {node}: {reason}")
            }
            PlacementStep::CopyForgotten { slice, node, reason } => {
                write!(f, "{slice} on node {node} is forgotten: {reason}")
            }
            PlacementStep::RebalanceBegun { id, cause: RebalanceCause::EmptyNode } => {
                write!(f, "rebalance {id} begins: a node has no copies")
            }
            PlacementStep::RebalanceBegun { id, cause: RebalanceCause::Requested(by) } => {
                write!(f, "rebalance {id} begins, as asked for by {by}")
            }
            PlacementStep::RebalanceStopped { id } => write!(f, "rebalance {id} begins no further moves"),
            PlacementStep::RebalanceEnded { id } => write!(f, "rebalance {id} has ended"),
            PlacementStep::MoveRequested { slice, from, to } => {
                write!(f, "{slice} is to move from node {from} to node {to}")
            }
            PlacementStep::MoveDropped { slice, to } => {
                write!(f, "{slice} does not move to node {to}: this is not possible any more")
            }
        }
    }
}

impl fmt::Display for IndexRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IndexRemoval::NotDeclared => "it is not declared any more",
            IndexRemoval::Superseded => "the one that supersedes it is ready",
            IndexRemoval::Incomplete => "it is superseded, and has not a ready copy of each slice",
        })
    }
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaveReason::Moved(node) => write!(f, "it has moved to node {node}"),
            LeaveReason::TooMany => f.write_str("the slice has more copies than wanted"),
            LeaveReason::Superseded => f.write_str("its definition is superseded"),
            LeaveReason::NodeLeaves => f.write_str("the node is to be emptied"),
            LeaveReason::Failed(reason) => write!(f, "the copy failed: {reason}"),
        }
    }
}

impl fmt::Display for ForgetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ForgetReason::Unlinked => "the node has unlinked it",
            ForgetReason::Lost => "the node does not have it any more",
            ForgetReason::NodeDown => "the node is down",
            ForgetReason::NodeRemoved => "the node was removed from the cluster",
        })
    }
}
