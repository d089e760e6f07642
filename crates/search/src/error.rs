use millrace_plan::QueryMemoryError;

/// Errors of a search. None has its cause in the request, which is checked when it is planned.
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
    Grouping(#[from] millrace_grouping::GroupingFailure),
    /// Hits could not be filled.
    #[error(transparent)]
    Summary(#[from] crate::SummaryError),
    /// The results take too much memory.
    #[error(transparent)]
    Memory(#[from] QueryMemoryError),
    /// A document's id cannot be read.
    #[error("the id of document {document} in chunk {chunk} cannot be read; check the data directory")]
    Id {
        /// Number of the chunk in the view.
        chunk: usize,
        /// Index of the document in the chunk.
        document: u16,
    },
    /// A node's answer does not belong to the query.
    #[error(
        "a node has answered another query than the one that was asked; do all nodes run the same version of the program and the application?"
    )]
    Share,
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] millrace_column::ReadError),
}

impl Error {
    /// Returns the refusal of memory, if that is the cause.
    pub fn memory(&self) -> Option<QueryMemoryError> {
        use millrace_matching::Error as Matching;
        match self {
            Error::Memory(error)
            | Error::Matching(Matching::Memory(error))
            | Error::Ranking(millrace_ranking::Error::Memory(error))
            | Error::Summary(
                crate::SummaryError::Memory(error) | crate::SummaryError::Match(Matching::Memory(error)),
            ) => Some(*error),
            _ => None,
        }
    }
}
