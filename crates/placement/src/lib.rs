//! Placement of buckets: the ideal state.
//!
//! A [`Topology`] is the tree of groups and nodes configured by an operator; an [`IdealState`] is that tree
//! reduced to the nodes that can currently hold data. For each bucket it gives the nodes that should have a
//! replica, most preferred first. It is computed and never stored; all machines get the same result.
//!
//! Every node draws a number for every bucket, and the highest numbers win; a capacity makes high numbers
//! more likely. A new node therefore takes only the buckets that it wins, a removed node gives up only those
//! that it had, and nothing moves between the others. The same holds for groups, level by level.
//!
//! **The draws never change**: they determine where existing data is stored. `tests/golden.txt` pins them.
//!
//! This crate is independent of the actual location of replicas and of their movement.

mod draw;
mod error;
mod ideal;
mod topology;

pub use error::Error;
pub use ideal::IdealState;
pub use topology::{GroupDistribution, GroupMembers, NodeGroup, Topology, TopologyNode};
