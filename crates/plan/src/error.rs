/// What can be wrong with a request, given a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name in the query is neither a field nor a fieldset.
    #[error("Field '{field}' does not exist in schema '{schema}'{hint}")]
    UnknownField {
        /// The name.
        field: String,
        /// The schema.
        schema: String,
        /// A name that it may be meant for, or what would make it exist.
        hint: String,
    },
    /// A field cannot do what the query asks of it.
    #[error("Field '{field}': {reason}")]
    Field {
        /// The field.
        field: String,
        /// Why, and what would work.
        reason: String,
    },
    /// There is nothing to search for.
    #[error(
        "{0:?} has no word that can be searched for; give at least one letter or digit, or set allowEmpty"
    )]
    Empty(String),
    /// A query feature is missing or has a value of another type.
    #[error("query({name}): {reason}")]
    Input {
        /// The feature's name.
        name: String,
        /// What is wrong, and how it is given right.
        reason: String,
    },
    /// The value that the request gives a rank feature is none.
    #[error("ranking.features.{name}: {reason}")]
    FeatureValue {
        /// The feature's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The request names something that the schema has not: a rank profile, a document summary.
    #[error("schema '{schema}' has no {kind} '{name}'{hint}")]
    Unknown {
        /// `rank profile`, `document summary`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The schema.
        schema: String,
        /// A name that it may be meant for.
        hint: String,
    },
    /// The order cannot be followed.
    #[error("sorting by '{field}': {reason}")]
    Sorting {
        /// The field.
        field: String,
        /// Why, and what would work.
        reason: String,
    },
    /// No significance model is of the query's language.
    #[error("no significance model has the language '{language}'; {known}")]
    Significance {
        /// The language.
        language: String,
        /// Those that there are.
        known: String,
    },
    /// It is not clear which documents to read.
    #[error("streaming: {0}")]
    Scope(String),
    /// The query is larger than it may be.
    #[error(
        "the query has more than {limit} terms; give many alternatives as one: field in (…), or weightedSet"
    )]
    TooLarge {
        /// The most terms.
        limit: usize,
    },
}
