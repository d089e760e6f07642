/// Errors of a search.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Documents could not be matched.
    #[error(transparent)]
    Matching(#[from] millrace_matching::Error),
    /// The matches could not be ranked.
    #[error(transparent)]
    Ranking(#[from] millrace_ranking::Error),
    /// A grouping request cannot be executed, or its input cannot be read.
    #[error(transparent)]
    Grouping(#[from] millrace_grouping::Error),
    /// Hits could not be filled.
    #[error(transparent)]
    Summary(#[from] crate::SummaryError),
    /// A document's id cannot be read.
    #[error("the id of document {document} in chunk {chunk} cannot be read; check the data directory")]
    Id {
        /// Number of the chunk in the view.
        chunk: usize,
        /// Index of the document in the chunk.
        document: u16,
    },
    /// The document selection is invalid, or uses names that the schema does not have.
    #[error(transparent)]
    Selection(#[from] millrace_selection::Error),
    /// The requested order is not supported by the profile's last phase.
    #[error(
        "Sorting is not supported with global phase, which rank profile '{profile}' has; sort by relevance, or use another profile"
    )]
    SortedGlobalPhase {
        /// Name of the profile.
        profile: String,
    },
    /// A node's answer does not belong to the query.
    #[error(
        "a node has answered another query than the one that was asked; do all nodes run the same version of the program and the application?"
    )]
    Share,
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] millrace_column::ReadError),
    /// The requested collation is not available.
    #[error("cannot sort by locale '{locale}' with strength '{strength}': {reason}")]
    Collation {
        /// The locale as given.
        locale: String,
        /// The strength as given.
        strength: String,
        /// Problem, and valid values.
        reason: String,
    },
}
