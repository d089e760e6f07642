//! Where buckets belong: the ideal state.
//!
//! A [`Topology`] is the tree of groups and nodes that an operator has set up; an [`IdealState`] is that tree with the nodes that
//! can hold data now. For each bucket it names the nodes that should have a replica, the most preferred first. It is computed and
//! never stored, on every machine alike.
//!
//! Every node draws a number for every bucket, and the highest win; a capacity makes high numbers likelier. So a node that comes
//! takes only what it wins, one that goes leaves only what it had, and between the others nothing moves. The same holds for
//! groups, one level after another.
//!
//! **The draws never change**: data lies on disks where they said. `tests/golden.txt` holds them fixed.
//!
//! This crate does not know where replicas are, nor how they get to where they belong.

mod draw;
mod error;
mod ideal;
mod topology;

pub use error::Error;
pub use ideal::IdealState;
pub use topology::{Distribution, Group, Members, Node, Topology};
