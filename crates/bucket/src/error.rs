use crate::{ClusterConfiguration, NodeKey};

/// Error in a topology, or in the text of a bucket.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Two nodes, or two groups within a group, have the same distribution key.
    #[error("distribution key {key} is given to two {what}: give each one of its own, and never change it")]
    Key {
        /// The distribution key.
        key: u16,
        /// Nodes or groups.
        what: &'static str,
    },
    /// The capacity is not a positive number.
    #[error(
        "node {key} has capacity {capacity}: write a number above 0, twice as high for twice as much data"
    )]
    Capacity {
        /// Distribution key of the node.
        key: u16,
        /// The given capacity.
        capacity: f64,
    },
    /// The text is not a distribution.
    #[error(
        "'{text}' does not say how replicas spread over groups: write * for one group, 1|* for two, 1|1|* for three"
    )]
    Distribution {
        /// The text as given.
        text: String,
    },
    /// A group requires more replicas than the redundancy allows.
    #[error(
        "distribution {distribution} places {placed} replicas, but there are {redundancy}: lower its numbers or raise the redundancy"
    )]
    Redundancy {
        /// The distribution.
        distribution: String,
        /// Sum of its numbers.
        placed: u16,
        /// Number of replicas that the group has to place.
        redundancy: u16,
    },
    /// A node is in the layout but not in the list of nodes.
    #[error("node {0} has a place in the layout, but is not in the list of nodes")]
    UnknownNode(NodeKey),
    /// The number of distribution bits is out of range.
    #[error(
        "{0} distribution bits are not between 1 and {max}; 10 serve up to a few dozen nodes",
        max = ClusterConfiguration::BITS_MAX
    )]
    Bits(u8),
    /// A bucket uses more bits than a location has.
    #[error("a bucket uses at most {max} bits, not {0}", max = millrace_document::Location::BITS)]
    BucketBits(u8),
    /// The text is not a bucket.
    #[error("'{0}' is not a bucket: expected BucketId(0x…) with 16 hexadecimal digits")]
    BucketText(String),
    /// Two nodes have the same name.
    #[error("two nodes are named '{0}': give each its own hostalias, and start it with --name of that")]
    Name(String),
}
