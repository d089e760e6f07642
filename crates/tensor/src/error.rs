/// Error in a tensor type or value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text of a tensor type is malformed.
    #[error("tensor type '{spec}': {reason}; write for example tensor<float>(x[384]) or tensor(tag{{}})")]
    Type {
        /// The text as given.
        spec: String,
        /// Cause of the error.
        reason: String,
    },
    /// A value does not fit its type.
    #[error("tensor value for {tensor_type}: {reason}")]
    Value {
        /// The expected type.
        tensor_type: String,
        /// Cause of the error.
        reason: String,
    },
    /// No such format of tensors.
    #[error("tensor format '{0}' is not one of short, long, hex, short-value, long-value, hex-value")]
    Format(String),
    /// A block of a modification has another number of values than its type.
    #[error("expected {expected} values in a block, got {found}")]
    Block {
        /// Values of a block of the type.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
}
