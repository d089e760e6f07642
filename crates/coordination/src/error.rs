use crate::Revision;

/// Why coordination did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error(
        "'{text}' is no address of coordination: {reason}; write etcd://host:2379, several of them with commas between"
    )]
    Address {
        /// As given.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// Nothing was done: nobody answers, or those who do have no leader. To be tried again.
    #[error(
        "coordination at {address} cannot be used now: {reason}; is etcd running there, with most of its members?"
    )]
    Unavailable {
        /// Where.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// A write was sent and not answered.
    #[error(
        "whether coordination at {address} wrote is unknown: {reason}; read, and write again where it did not"
    )]
    Unknown {
        /// Where.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// The changes that were asked for are not remembered any more: what there is has to be read whole.
    #[error("changes up to revision {} are forgotten; read what there is, and go on from there", oldest.0)]
    Compacted {
        /// The newest revision that is forgotten, or one before it.
        oldest: Revision,
    },
    /// The lease ended: it was not kept alive in time, or was given back.
    #[error("the lease has ended, and with it the keys that were bound to it; take a new one")]
    LeaseLost,
    /// The request can never be granted.
    #[error("coordination refuses: {0}")]
    Refused(String),
    /// An answer that makes no sense.
    #[error(
        "coordination at {address} answers what is none: {reason}; is it etcd 3.4 or later, with its JSON gateway enabled?"
    )]
    Answer {
        /// Where.
        address: String,
        /// What does not fit.
        reason: String,
    },
    /// The file of the embedded coordination cannot be read or written.
    #[error("{0}")]
    Disk(String),
    /// The file of the embedded coordination is not what was written.
    #[error("{path} is damaged: {reason}; bring it back from a backup, or delete it to begin anew")]
    Damaged {
        /// The file.
        path: String,
        /// What does not fit.
        reason: String,
    },
}

impl Error {
    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Unknown { .. })
    }
}
