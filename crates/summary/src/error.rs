/// Why hits could not be filled.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column could not be read.
    #[error("fill hits: {0}")]
    Read(#[from] millrace_column::ReadError),
    /// The schema has no such document summary.
    #[error("schema '{schema}' has no document-summary '{summary}'; it has {known}")]
    UnknownSummary {
        /// The schema.
        schema: String,
        /// The name asked for.
        summary: String,
        /// The names there are.
        known: String,
    },
    /// The plan's predicates cannot be used on single values.
    #[error("fill hits: {0}")]
    Match(#[from] millrace_matching::Error),
}
