use crate::StoreRevision;

/// Errors of coordination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address is invalid.
    #[error(
        "'{text}' is not an address of coordination: {reason}; write etcd://host:2379, several of them with commas between"
    )]
    Address {
        /// Text of the address.
        text: String,
        /// Reason.
        reason: String,
    },
    /// Nothing was done: no member answers, or those that do have no leader. May be retried.
    #[error(
        "coordination at {address} cannot be used now: {reason}; is etcd running there, with most of its members?"
    )]
    Unavailable {
        /// Address.
        address: String,
        /// Observed failure.
        reason: String,
    },
    /// A write was sent and not answered.
    #[error(
        "whether coordination at {address} wrote is unknown: {reason}; read, and write again where it did not"
    )]
    Unknown {
        /// Address.
        address: String,
        /// Observed failure.
        reason: String,
    },
    /// The requested changes are not remembered any more: the keys must be read completely.
    #[error("changes up to revision {} are forgotten; read what there is, and go on from there", oldest.0)]
    Compacted {
        /// The newest forgotten revision, or one before it.
        oldest: StoreRevision,
    },
    /// The lease ended: it was not kept alive in time, or was released.
    #[error("the lease has ended, and with it the keys that were bound to it; take a new one")]
    LeaseLost,
    /// The request can never be granted.
    #[error("coordination refuses: {0}")]
    Refused(String),
    /// The answer is malformed.
    #[error(
        "coordination at {address} answers what is none: {reason}; is it etcd 3.4 or later, with its JSON gateway enabled?"
    )]
    Answer {
        /// Address.
        address: String,
        /// Reason.
        reason: String,
    },
    /// The file of the embedded coordination cannot be read or written.
    #[error("{0}")]
    Disk(String),
    /// The file of the embedded coordination is damaged.
    #[error(
        "{path} is damaged: {reason}; bring it back from a backup, or delete it to start with an empty one"
    )]
    Damaged {
        /// The file.
        path: String,
        /// Reason.
        reason: String,
    },
}

impl Error {
    /// True if the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Unknown { .. })
    }
}
