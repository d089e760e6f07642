/// Error in the text of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not follow the syntax of its language.
    #[error("{language}: line {line}, column {column}: {reason}")]
    Syntax {
        /// `YQL`, `grouping`, `simple query`, `select`, `sorting`.
        language: &'static str,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Expected and actual text, with the correct form.
        reason: String,
    },
    /// A text is not a value of its kind. The caller adds the parameter or the position.
    #[error("{0}")]
    Value(String),
    /// The request has no query in any of its forms.
    #[error("parameter 'yql': no query; for example: yql=select * from sources * where true, or query=words")]
    NoQuery,
    /// A request has more parameters than it may.
    #[error(
        "the request has more than {max} parameters; send what belongs together as one of them: a list, a map or a tensor counts as one"
    )]
    TooMany {
        /// Maximum number.
        max: usize,
    },
    /// A request parameter has a value it cannot have.
    #[error("parameter '{parameter}': {reason}")]
    Parameter {
        /// Name of the parameter.
        parameter: String,
        /// Cause and remedy.
        reason: String,
    },
}

impl Error {
    /// A text that is not a value of its kind: cause and remedy.
    pub(crate) fn value(reason: impl Into<String>) -> Self {
        Error::Value(reason.into())
    }
}
