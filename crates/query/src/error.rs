/// What can be wrong with the text of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text of a language could not be parsed.
    #[error("{language}: line {line}, column {column}: {reason}")]
    Syntax {
        /// `YQL`, `grouping`, `simple query`, `select`, `sorting`.
        language: &'static str,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What was expected, what was found, and how it is written right.
        reason: String,
    },
    /// A request parameter has a value it cannot have.
    #[error("parameter '{parameter}': {reason}")]
    Parameter {
        /// The parameter's name.
        parameter: String,
        /// What is wrong and what works.
        reason: String,
    },
}
