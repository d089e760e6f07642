/// Error in a table, or in a document that does not fit into one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a stream of Arrow IPC.
    #[error("the body is not an Arrow stream: {0}")]
    Stream(String),
    /// A message of the stream is too large.
    #[error(
        "a message of the Arrow stream has {bytes} bytes, more than {limit}; write smaller record batches, as by \
         write_table(table, max_chunksize=1000)"
    )]
    Large {
        /// Size of the message in bytes.
        bytes: u64,
        /// Maximum.
        limit: usize,
    },
    /// The columns do not fit the document type. The text names each column with its cure.
    #[error("{0}")]
    Columns(String),
    /// A document does not fit the columns.
    #[error("document '{id}': {reason}")]
    Document {
        /// Id of the document.
        id: String,
        /// Cause.
        reason: String,
    },
    /// A value of a cell does not fit the type of its field. The caller adds the column.
    #[error("{0}")]
    Value(String),
}

impl Error {
    pub(crate) fn value(reason: impl Into<String>) -> Self {
        Error::Value(reason.into())
    }
}
