//! The state that all nodes of a cluster agree on, and the decisions that follow from it.
//!
//! A [`ClusterState`] is the only thing that all nodes agree on: the nodes, what each may do now, and the
//! placement of buckets. It has a version, and a node that has seen one refuses everything older. The owner
//! of a bucket, and the nodes that should have a replica, are computed from it.
//!
//! A [`distributor::Distributor`] is the owner's side of a bucket: it orders writes, sends each to all
//! replicas, and has replicas created, filled and deleted as the [`checkers`] propose and the [`scheduler`]
//! decides. A [`replica::ReplicaKeeper`] is the other side: the rules by which a node executes, or refuses,
//! owners' requests. `message` has the messages between the two. A [`reindexing::Reindexer`] decides on a
//! node's part when all documents of a type are to be indexed again.
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. Outgoing and incoming
//! messages are values, and the time is an argument. So the same code runs in a node and in a simulation.

pub mod checkers;
mod clock;
mod confirmation;
pub mod controller;
pub mod distributor;
mod dropped_types;
mod earlier;
mod error;
mod incarnation;
mod message;
mod owners;
mod protocol;
mod rate;
pub mod reindexing;
pub mod replica;
pub mod scheduler;
mod spread;
mod state;
mod time;
mod version;

pub use dropped_types::DroppedTypes;
pub use earlier::SupersededState;
pub use error::Error;
pub use incarnation::Incarnation;
pub use message::{
    FenceRefusal, NodeFailure, NodeReply, NodeRequest, NodeResponse, PullMode, ReplicaContent, ReplicaOrigin,
    ReplicatedRow, ReportedReplica, RequestFence, RowContent,
};
pub use millrace_bucket::{ClusterConfiguration, ConfiguredNode, DividedGroup, NodeHierarchy, NodeKey};
pub use protocol::{COMPRESSED_SEGMENTS, PROTOCOL, SERIALIZED_MESSAGES};
pub use rate::TransferRateLimiter;
pub use spread::DividedGroups;
pub use state::{ClusterState, NodeEntry, NodeState, ReplicaDistribution};
pub use time::MachineTime;
pub use version::ClusterVersion;

#[cfg(test)]
pub(crate) use state::test_state;
