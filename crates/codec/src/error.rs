use std::io;

/// Errors of the bytes of messages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not a message.
    #[error("{0}")]
    Malformed(&'static str),
    /// The message is of a protocol that is newer than this program's, or has a value that its type refuses.
    #[error("{0}")]
    Unknown(&'static str),
    /// The message is one that is not sent.
    #[error("a message that stays in its process was to be sent: {0}")]
    Encode(postcard::Error),
    /// [`Error::Encode`] in protocol 1.
    #[error("a message that stays in its process was to be sent: {0}")]
    EncodeCbor(ciborium::ser::Error<io::Error>),
    /// The bytes are not a message of protocol 1.
    #[error(transparent)]
    DecodeCbor(ciborium::de::Error<io::Error>),
}
