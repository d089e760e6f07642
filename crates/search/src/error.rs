/// Why a search gives no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Documents could not be matched.
    #[error(transparent)]
    Matching(#[from] millrace_matching::Error),
    /// What matched could not be ranked.
    #[error(transparent)]
    Ranking(#[from] millrace_ranking::Error),
    /// A grouping request cannot be done, or what it reads cannot be read.
    #[error(transparent)]
    Grouping(#[from] millrace_grouping::Error),
    /// Hits could not be filled.
    #[error(transparent)]
    Summary(#[from] millrace_summary::Error),
    /// A document's id cannot be read.
    #[error("the id of document {document} in chunk {chunk} cannot be read; check the data directory")]
    Id {
        /// The chunk's number in the view.
        chunk: usize,
        /// The document's place in it.
        document: u16,
    },
    /// The document selection is not one, or names what the schema has not.
    #[error(transparent)]
    Selection(#[from] millrace_selection::Error),
    /// Hits are asked for in an order that the profile's last phase does not know.
    #[error(
        "Sorting is not supported with global phase, which rank profile '{profile}' has; sort by relevance, or use another profile"
    )]
    SortedGlobalPhase {
        /// The profile.
        profile: String,
    },
    /// What a node has found is not of the query that was asked.
    #[error(
        "a node has answered another query than the one that was asked; do all nodes run the same version of the program and the application?"
    )]
    Share,
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] millrace_column::ReadError),
    /// An order by the rules of a language that cannot be had.
    #[error("cannot sort by locale '{locale}' with strength '{strength}': {reason}")]
    Collation {
        /// The locale as given.
        locale: String,
        /// The strength as given.
        strength: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}
