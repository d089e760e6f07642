//! Settings of a field for the matching of its text, as a schema declares them.

use crate::UriPart;

/// Matching of query terms in a field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldMatching {
    /// Unit of matching.
    pub mode: MatchMode,
    /// `cased`: true if case matters.
    pub cased: bool,
    /// `prefix`, `substring`, `suffix` as the field's default for terms.
    pub default_term: DefaultTerm,
    /// `exact-terminator`.
    pub exact_terminator: Option<String>,
    /// `max-length` of indexed text in characters.
    pub max_length: Option<usize>,
    /// `max-occurrences`.
    pub max_occurrences: Option<usize>,
    /// `max-token-length`.
    pub max_token_length: Option<usize>,
    /// `stemming`.
    pub stemming: FieldStemming,
    /// `normalizing`: true to drop accents.
    pub normalizing: bool,
}

impl FieldMatching {
    /// Creates settings with this mode and the defaults: of folded case, without limits, with stems and
    /// without accents.
    pub fn new(mode: MatchMode) -> Self {
        FieldMatching {
            mode,
            cased: false,
            default_term: DefaultTerm::Word,
            exact_terminator: None,
            max_length: None,
            max_occurrences: None,
            max_token_length: None,
            stemming: FieldStemming::Best,
            normalizing: true,
        }
    }

    /// Text that ends a term of `match: exact` in query strings.
    pub fn terminator(&self) -> &str {
        self.exact_terminator.as_deref().unwrap_or("@@")
    }

    /// Settings for query text: without limits of length, and of an address all words, independent of their
    /// part.
    pub fn of_queries(&self) -> Self {
        let mode = match self.mode {
            MatchMode::Uri(_) => MatchMode::Uri(UriPart::All),
            mode => mode,
        };
        FieldMatching {
            mode,
            max_length: None,
            max_occurrences: None,
            max_token_length: None,
            ..self.clone()
        }
    }
}

/// Meaning of a plain term for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultTerm {
    /// A whole word.
    #[default]
    Word,
    /// `match: prefix`.
    Prefix,
    /// `match: substring`.
    Substring,
    /// `match: suffix`.
    Suffix,
}

/// Unit of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// Words of the text. The default of `index` fields.
    Text,
    /// The whole value as one word. The default of string attributes.
    Word,
    /// The whole value exactly (case is folded unless `cased`).
    Exact,
    /// All n-grams of the text.
    Gram {
        /// `gram-size`; 2 by default.
        size: usize,
    },
    /// The words of a part of an address. The mode of fields of type `uri`, and of their parts.
    Uri(UriPart),
}

/// `stemming`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldStemming {
    /// Unchanged words.
    None,
    /// The best stem. The default.
    #[default]
    Best,
    /// The shortest stem.
    Shortest,
    /// Several stems.
    Multiple,
}
