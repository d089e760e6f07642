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
