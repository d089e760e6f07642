/// Error in a request, given a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name in the query is neither a field nor a fieldset.
    #[error("Field '{field}' does not exist in schema '{schema}'{hint}")]
    UnknownField {
        /// The name.
        field: String,
        /// Name of the schema.
        schema: String,
        /// A similar name, or a way to define the name.
        hint: String,
    },
    /// A field does not support the use in the query.
    #[error("Field '{field}': {reason}")]
    Field {
        /// Name of the field.
        field: String,
        /// Cause and remedy.
        reason: String,
    },
    /// Nothing to search for.
    #[error(
        "{0:?} has no word that can be searched for; give at least one letter or digit, or set allowEmpty"
    )]
    Empty(String),
    /// A query feature is missing or has a value of another type.
    #[error("query({name}): {reason}")]
    Input {
        /// Name of the feature.
        name: String,
        /// Cause, and the correct form.
        reason: String,
    },
    /// The request's value of a rank feature is invalid.
    #[error("ranking.features.{name}: {reason}")]
    FeatureValue {
        /// Name of the feature.
        name: String,
        /// Cause of the error.
        reason: String,
    },
    /// A rank property of the request has a name of the engine's that it does not have.
    #[error("ranking.properties.{name}: {reason}")]
    RankProperty {
        /// Name of the property.
        name: String,
        /// Cause of the error.
        reason: String,
    },
    /// The request refers to a rank profile or document summary that the schema does not have.
    #[error("schema '{schema}' has no {kind} '{name}'{hint}")]
    Unknown {
        /// `rank profile`, `document summary`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Name of the schema.
        schema: String,
        /// A similar name.
        hint: String,
    },
    /// The sort order is invalid.
    #[error("sorting by '{field}': {reason}")]
    Sorting {
        /// Name of the field.
        field: String,
        /// Cause and remedy.
        reason: String,
    },
    /// No significance model for the query's language.
    #[error("no significance model has the language '{language}'; {known}")]
    Significance {
        /// The language.
        language: String,
        /// Languages with a model.
        known: String,
    },
    /// The scope of documents to read is missing or ambiguous.
    #[error("streaming: {0}")]
    Scope(String),
    /// The selection of documents is invalid, or uses names that the schema does not have.
    #[error(transparent)]
    Selection(#[from] millrace_selection::Error),
    /// A grouping request is invalid.
    #[error(transparent)]
    Grouping(#[from] millrace_grouping::Error),
    /// The requested order is not supported by the profile's last phase.
    #[error(
        "Sorting is not supported with global phase, which rank profile '{profile}' has; sort by relevance, or use another profile"
    )]
    SortedGlobalPhase {
        /// Name of the profile.
        profile: String,
    },
    /// The requested collation is not available.
    #[error("cannot sort by locale '{locale}' with strength '{strength}': {reason}")]
    Collation {
        /// The locale as given.
        locale: String,
        /// The strength as given.
        strength: String,
        /// Problem, and valid values.
        reason: String,
    },
    /// The query exceeds the maximum size.
    #[error(
        "the query has more than {limit} terms; give many alternatives as one: field in (…), or weightedSet"
    )]
    TooLarge {
        /// Maximum number of terms.
        limit: usize,
    },
    /// The query has more regular expressions than it may have.
    #[error(
        "the query has more than {limit} regular expressions, counted in each field that they look at; join alternatives into one: (a|b)"
    )]
    TooManyExpressions {
        /// Maximum number of regular expressions.
        limit: usize,
    },
}
