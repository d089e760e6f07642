use crate::NodeKey;

/// Errors of cluster states.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a cluster state.
    #[error("this is not a cluster state: {reason}; was it written by another version of the program?")]
    Format {
        /// Reason why it does not parse.
        reason: String,
    },
    /// The state has a protocol that this program does not speak.
    #[error(
        "the cluster speaks protocol {0}, and this program none above {max}: run a version on this node that is not older than the other nodes'",
        max = crate::PROTOCOL
    )]
    Protocol(u16),
    /// A node is in the layout but not in the list of nodes.
    #[error("node {0} has a place in the layout, but is not in the list of nodes")]
    UnknownNode(NodeKey),
    /// The number of distribution bits is out of range.
    #[error("{0} distribution bits are not between 1 and {max}; 10 serve up to a few dozen nodes", max = crate::ClusterState::BITS_MAX)]
    Bits(u8),
    /// Two nodes have the same name.
    #[error("two nodes are named '{0}': give each its own hostalias, and start it with --name of that")]
    Name(String),
    /// All distribution keys have been assigned.
    #[error(
        "no distribution key left for a new node; list the nodes in services.xml with keys of their own choice"
    )]
    Keys,
    /// The text is not a valid wish.
    #[error("'{0}' is not what a node can be: expected up, retired, maintenance, down or removed")]
    Wish(String),
    /// The replicas cannot be placed on the groups of nodes.
    #[error(transparent)]
    Placement(#[from] millrace_placement::Error),
}
