/// Error in a topology.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
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
}
