use std::fmt;

use millrace_cursor::TextPosition;

/// Error in an expression, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not follow the syntax.
    #[error("{spot}: {reason}")]
    Syntax {
        /// Position of the error.
        spot: ExpressionSpot,
        /// Expected and actual text.
        reason: String,
    },
    /// The syntax is valid, but the expression is not: an unknown name, or incompatible types.
    #[error("{spot}: {reason}")]
    Meaning {
        /// Position of the error.
        spot: ExpressionSpot,
        /// Expected and actual meaning.
        reason: String,
    },
}

impl Error {
    /// Position of the error.
    pub const fn spot(&self) -> &ExpressionSpot {
        match self {
            Error::Syntax { spot, .. } | Error::Meaning { spot, .. } => spot,
        }
    }

    /// Expected and actual text or meaning.
    pub fn reason(&self) -> &str {
        match self {
            Error::Syntax { reason, .. } | Error::Meaning { reason, .. } => reason,
        }
    }
}

/// Reason why an expression is invalid, without its position: the code that reads the text adds it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionFault(String);

impl ExpressionFault {
    /// A fault with this text: expected and actual meaning.
    pub fn new(reason: impl Into<String>) -> Self {
        ExpressionFault(reason.into())
    }
}

impl From<ExpressionFault> for String {
    fn from(fault: ExpressionFault) -> Self {
        fault.0
    }
}

/// A position in the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionSpot {
    /// The function whose body the text is; `None` for the compiled expression itself.
    pub function: Option<String>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl ExpressionSpot {
    /// The position of byte `at` of `text`.
    pub(crate) fn of(text: &str, at: usize, function: Option<&str>) -> Self {
        let TextPosition { line, column } = TextPosition::of(text, at);
        ExpressionSpot { function: function.map(str::to_owned), line, column }
    }
}

impl fmt::Display for ExpressionSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = &self.function {
            write!(f, "function {function}, ")?;
        }
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
