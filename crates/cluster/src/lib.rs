//! The state that all nodes of a cluster agree on, and the messages between nodes about their replicas.
//!
//! A [`ClusterState`] has the nodes with the state of each, and the placement of buckets. Nothing else is
//! agreed on. It has a version, and a node that has seen one refuses messages with an older one. The owner
//! of a bucket, and the nodes that should have a replica, are computed from it.
//!
//! A [`controller::Controller`] makes the states, one after another. A [`NodeRequest`] goes from the owner of
//! a bucket to a node with a replica, a [`NodeReply`] back; crate `replication` has both sides. A
//! [`reindexing::Reindexer`] decides on a node's part when all documents of a type are to be indexed again.
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. Outgoing and incoming
//! messages are values, and the time is an argument. So the same code runs in a node and in a simulation.

pub mod controller;
mod dropped_types;
mod earlier;
mod error;
mod horizon;
mod incarnation;
mod message;
mod protocol;
mod rate;
pub mod reindexing;
mod spread;
mod state;
mod time;
mod version;

pub use dropped_types::DroppedTypes;
pub use earlier::SupersededState;
pub use error::Error;
pub use horizon::DropHorizon;
pub use incarnation::Incarnation;
pub use message::{
    FenceRefusal, NodeFailure, NodeReply, NodeRequest, NodeResponse, PullMode, REMOVALS_COMPARED,
    REMOVALS_REMEMBERED, ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica, RequestFence,
    RowContent, UnfinishedRow,
};
pub use millrace_bucket::{ClusterConfiguration, ConfiguredNode, DividedGroup, NodeHierarchy, NodeKey};
pub use protocol::{
    BUCKET_PAGES, COMPRESSED_SEGMENTS, CONDITIONAL_CHANGES, FILTERED_SEGMENTS, PLACED_INDEXES, PROTOCOL,
    SERIALIZED_MESSAGES, SHORT_IDS, SPREAD_PARTITIONS, STORED_LIMITS,
};
pub use rate::TransferRateLimiter;
pub use spread::DividedGroups;
pub use state::{ClusterState, NodeEntry, NodeState, ReplicaDistribution};
pub use time::MachineTime;
pub use version::ClusterVersion;

/// Directory below the data directory in which a node keeps its persistent state about its cluster. A node
/// that has never been in one does not have it.
pub const CLUSTER_DIRECTORY: &str = "cluster";
