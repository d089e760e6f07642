/// Error while filling hits.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SummaryError {
    /// A column could not be read.
    #[error("fill hits: {0}")]
    Read(#[from] millrace_column::ReadError),
    /// The schema does not have this document summary.
    #[error("schema '{schema}' has no document-summary '{summary}'; it has {known}")]
    UnknownSummary {
        /// Name of the schema.
        schema: String,
        /// The requested summary.
        summary: String,
        /// The existing summaries.
        known: String,
    },
    /// The values of hits take too much memory.
    #[error(transparent)]
    Memory(#[from] millrace_plan::QueryMemoryError),
    /// The plan's predicates cannot be applied to single values.
    #[error("fill hits: {0}")]
    Match(#[from] millrace_matching::Error),
}
