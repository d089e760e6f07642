/// Error of decoding or of joining columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes contradict their header.
    #[error("column: {0}")]
    Corrupt(&'static str),
    /// Columns of different layouts cannot be concatenated.
    #[error("columns of different layouts cannot be joined")]
    Mixed,
}
