/// What can be wrong with a column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what their header says.
    #[error("column: {0}")]
    Corrupt(&'static str),
    /// Columns of different layouts were to become one.
    #[error("columns of different layouts cannot be joined")]
    Mixed,
}
