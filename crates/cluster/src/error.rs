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
    /// All distribution keys have been assigned.
    #[error(
        "no distribution key left for a new node; list the nodes in services.xml with keys of their own choice"
    )]
    Keys,
    /// The text is not a state that an operator can request.
    #[error("'{0}' is not what a node can be: expected up, retired, maintenance, down or removed")]
    RequestedState(String),
    /// The note about reindexing is not readable.
    #[error(
        "what is to be reindexed cannot be read ({reason}): let all nodes run one version, and mark it again"
    )]
    ReindexRecord {
        /// Reason why it does not parse.
        reason: String,
    },
    /// The replicas cannot be placed on the nodes and groups.
    #[error(transparent)]
    Placement(#[from] millrace_bucket::Error),
}
