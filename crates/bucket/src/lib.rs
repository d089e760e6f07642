//! Buckets: the unit of placement of documents, the order in which keys are stored, and the ideal state.
//!
//! A [`BucketId`] is defined by some of the lowest bits of a location. A [`DocumentSortKey`] is the order of
//! documents in every file: the low 32 location bits reversed, then the group, then the other location bits
//! reversed, then the id. A bucket of at most 32 bits is therefore one contiguous range of keys, and a group
//! is one contiguous range inside it even if two groups share their location bits. Splitting and joining only
//! redefine ranges; no document is rewritten.
//!
//! A [`Topology`] is the tree of groups and nodes configured by an operator ([`ClusterConfiguration`]); an
//! [`IdealState`] is that tree reduced to the nodes that can currently hold data. For each bucket it gives
//! the nodes that should have a replica, most preferred first. It is computed and never stored; all machines
//! get the same result.
//!
//! Every node draws a number for every bucket, and the highest numbers win; a capacity makes high numbers
//! more likely. A new node therefore takes only the buckets that it wins, a removed node gives up only those
//! that it had, and nothing moves between the others. The same holds for groups, level by level.
//!
//! **The draws never change**: they determine where existing data is stored. `tests/golden.txt` pins them.
//!
//! This crate is independent of files, of the actual location of replicas and of their movement.

mod configuration;
mod divided;
mod draw;
mod error;
mod hierarchy;
mod id;
mod ideal;
mod key;
mod range;
mod topology;

pub use configuration::{ClusterConfiguration, ConfiguredNode};
pub use divided::DividedGroup;
pub use error::Error;
pub use hierarchy::{NodeHierarchy, NodeKey};
pub use id::BucketId;
pub use ideal::IdealState;
pub use key::{DocumentSortKey, group_prefix, reversed_location};
pub use range::LocationRange;
pub use topology::{GroupDistribution, GroupMembers, NodeGroup, Topology, TopologyNode};
