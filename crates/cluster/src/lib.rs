//! What a cluster agrees on, and what follows from it.
//!
//! A [`ClusterState`] is the one thing all nodes agree on: which nodes there are, what each may do now, and
//! how buckets are placed. It has a version, and a node that has seen one refuses everything older. Which
//! node owns a bucket, and which should have a replica, follow from it by calculation.
//!
//! A [`distributor::Distributor`] is the owner's side of a bucket: it orders writes, brings each to all
//! replicas, and has replicas made, filled and deleted as the [`checkers`] propose and the [`scheduler`]
//! says. A [`replica::ReplicaKeeper`] is the other side: the rules by which a node does, or refuses, what
//! owners ask. `message` has what the two say to each other.
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. What is to be sent comes
//! out as a value, what has arrived goes in as one, and the time is an argument. So the same code runs in a
//! node and in a simulation.

pub mod checkers;
mod clock;
mod configuration;
mod confirmation;
pub mod controller;
pub mod distributor;
mod dropped_types;
mod earlier;
mod error;
mod message;
mod owners;
mod protocol;
mod rate;
pub mod replica;
pub mod scheduler;
mod spread;
mod state;
mod time;

pub use configuration::{ClusterConfiguration, ConfiguredNode};
pub use dropped_types::DroppedTypes;
pub use earlier::SupersededState;
pub use error::Error;
pub use message::{
    FenceRefusal, NodeFailure, NodeReply, NodeRequest, NodeResponse, PullMode, ReplicaContent, ReplicaOrigin,
    ReplicatedRow, ReportedReplica, RequestFence, RowContent,
};
pub use protocol::PROTOCOL;
pub use rate::MovementRate;
pub use spread::GroupDivisions;
pub use state::{ClusterState, NodeEntry, NodeHierarchy, NodeKey, NodeState, ReplicaDistribution};
pub use time::MachineTime;

#[cfg(test)]
pub(crate) use state::test_state;
