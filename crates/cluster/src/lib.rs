//! What a cluster agrees on, and what follows from it.
//!
//! A [`ClusterState`] is the one thing all nodes agree on: which nodes there are, what each may do now, and how buckets are
//! placed. It has a version, and a node that has seen one refuses everything older. Which node owns a bucket, and which
//! should have a replica, follow from it by calculation.
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. What is to be sent comes out as a value, what has
//! arrived goes in as one, and the time is an argument. So the same code runs in a node and in a simulation.

mod configuration;
pub mod controller;
mod error;
mod state;

pub use configuration::{Configuration, ConfiguredNode};
pub use error::Error;
pub use state::{ClusterState, Distribution, Layout, NodeEntry, NodeKey, NodeState};
