use std::path::PathBuf;

/// What goes wrong with a model.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// ONNX Runtime is not there, or not usable.
    #[error(
        "models need ONNX Runtime, and {reason}; run scripts/onnxruntime (make build does), or set ORT_DYLIB_PATH to libonnxruntime.so"
    )]
    Runtime {
        /// What was tried.
        reason: String,
    },
    /// The file is no model that can run here.
    #[error("{}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The model does not have the inputs and outputs that its user works with.
    #[error("{}: {reason}", path.display())]
    Signature {
        /// The file.
        path: PathBuf,
        /// What was expected, and what was found.
        reason: String,
    },
    /// The model failed on an input.
    #[error("the model '{model}' failed: {reason}")]
    Run {
        /// Its name.
        model: String,
        /// What it said.
        reason: String,
    },
    /// Too much waits already.
    #[error("the model '{model}' has {waiting} texts waiting: try again later")]
    Overloaded {
        /// Its name.
        model: String,
        /// How many wait.
        waiting: usize,
    },
    /// The caller's time was up.
    #[error("the model '{model}' did not answer in time")]
    Deadline {
        /// Its name.
        model: String,
    },
    /// Nobody waits for the answer any more, so it was not computed.
    #[error("nobody waited for the model '{model}' any more")]
    Abandoned {
        /// Its name.
        model: String,
    },
    /// The scheduler is shutting down.
    #[error("the node is stopping")]
    Closed,
}
