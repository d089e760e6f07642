use millrace_cluster::Incarnation;

/// Errors of communication between nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection cannot be made, or broke.
    #[error("node {address}: {source}")]
    Connection {
        /// The node's `host:port`.
        address: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The message is not of this protocol.
    #[error("{0}")]
    Message(&'static str),
    /// The message is of a protocol that is newer than this program's.
    #[error("{0}: the other node runs a newer version than this one, which should be upgraded")]
    Unknown(&'static str),
    /// The connection is for another process, which had this address before or has it in another cluster.
    #[error(
        "run {own} of a process was reached, not run {receiver}: the node has started again, and the next \
         cluster state names its new run; or its address belongs to another process now"
    )]
    OtherRun {
        /// The run that the connection is for.
        receiver: Incarnation,
        /// The run that was reached.
        own: Incarnation,
    },
    /// The other node could not answer.
    #[error("node {address}: {reason}")]
    Refused {
        /// The node's `host:port`.
        address: String,
        /// Its own message.
        reason: String,
    },
}

impl From<millrace_codec::Error> for Error {
    fn from(error: millrace_codec::Error) -> Self {
        use millrace_codec::Error as CodecError;
        match error {
            CodecError::Malformed(reason) => Error::Message(reason),
            CodecError::Unknown(reason) => Error::Unknown(reason),
            CodecError::Encode(_) | CodecError::EncodeCbor(_) | CodecError::DecodeCbor(_) => {
                Error::Message("a message is not encoded as one")
            }
        }
    }
}
