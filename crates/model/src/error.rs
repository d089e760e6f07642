use std::path::PathBuf;

/// Error of a model.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// ONNX Runtime is missing or unusable.
    #[error(
        "models need ONNX Runtime, and {reason}; run scripts/onnxruntime (make build does), or set ORT_DYLIB_PATH to libonnxruntime.so"
    )]
    Runtime {
        /// Locations that were tried.
        reason: String,
    },
    /// The file is not a supported model.
    #[error("{}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        reason: String,
    },
    /// The inputs and outputs of the model differ from those its user requires.
    #[error("{}: {reason}", path.display())]
    Signature {
        /// The file.
        path: PathBuf,
        /// Expected and actual signature.
        reason: String,
    },
    /// The model failed on an input.
    #[error("the model '{model}' failed: {reason}")]
    Run {
        /// Name of the model.
        model: String,
        /// Message of the model.
        reason: String,
    },
    /// The queue is full.
    #[error("the model '{model}' has {waiting} texts waiting: try again later")]
    Overloaded {
        /// Name of the model.
        model: String,
        /// Number of waiting sequences.
        waiting: usize,
    },
    /// The caller's deadline passed.
    #[error("the model '{model}' did not answer in time")]
    Deadline {
        /// Name of the model.
        model: String,
    },
    /// The caller no longer waits, so the result was not computed.
    #[error("the caller of the model '{model}' has left")]
    Abandoned {
        /// Name of the model.
        model: String,
    },
    /// The scheduler is shutting down.
    #[error("the node is stopping")]
    Closed,
}
