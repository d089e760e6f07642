use std::fmt;

/// Why an expression is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not follow the syntax.
    #[error("{spot}: {reason}")]
    Syntax {
        /// Where.
        spot: Spot,
        /// What was expected and found.
        reason: String,
    },
    /// The syntax is right, but it has no meaning: an unknown name, types that do not go together.
    #[error("{spot}: {reason}")]
    Meaning {
        /// Where.
        spot: Spot,
        /// What was expected and found.
        reason: String,
    },
}

impl Error {
    /// Where.
    pub const fn spot(&self) -> &Spot {
        match self {
            Error::Syntax { spot, .. } | Error::Meaning { spot, .. } => spot,
        }
    }

    /// What was expected and found.
    pub fn reason(&self) -> &str {
        match self {
            Error::Syntax { reason, .. } | Error::Meaning { reason, .. } => reason,
        }
    }
}

/// A spot in the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The function whose body the text is; none for the expression that was compiled itself.
    pub function: Option<String>,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Spot {
    /// The spot of byte `at` of `text`.
    pub(crate) fn of(text: &str, at: usize, function: Option<&str>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Spot {
            function: function.map(str::to_owned),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = &self.function {
            write!(f, "function {function}, ")?;
        }
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
