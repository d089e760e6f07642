use std::collections::BTreeMap;
use std::fmt;

/// A node of the query tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Matches every document (`true`, `where true`).
    True,
    /// Matches none.
    False,
    /// All children match.
    And(Vec<Item>),
    /// At least one child matches.
    Or(Vec<Item>),
    /// The first matches and none of the others: `positive and !(negative)`.
    Not {
        /// What must match.
        positive: Box<Item>,
        /// What must not.
        negatives: Vec<Item>,
    },
    /// The first decides; the others only add to the rank.
    Rank(Vec<Item>),
    /// A term in a field or fieldset.
    Term {
        /// Field or fieldset; `default` where none was named.
        field: String,
        /// The word, as the user wrote it.
        text: TermText,
        /// How it matches.
        matching: Match,
        /// Annotations.
        annotations: Annotations,
    },
    /// Words one after another.
    Phrase {
        /// Field or fieldset.
        field: String,
        /// The words in order.
        words: Vec<PhraseWord>,
        /// Annotations.
        annotations: Annotations,
    },
    /// Children near each other: `near` and, `ordered`, `onear`.
    Near {
        /// Field or fieldset.
        field: String,
        /// Words, phrases, equivalents.
        words: Vec<Item>,
        /// What must not stand near them.
        excluded: Vec<Item>,
        /// All words stand within `P..=P + distance`, where P is the position of the first of them.
        distance: u32,
        /// How far from the words those in `excluded` must stay.
        exclusion_distance: u32,
        /// In the order given.
        ordered: bool,
        /// Annotations.
        annotations: Annotations,
    },
    /// Any of the words, each as exact as its number says: `alternatives`.
    Alternatives {
        /// Field or fieldset.
        field: String,
        /// Words, with an exactness of 0 to 1.
        words: Vec<(String, f64)>,
        /// Annotations.
        annotations: Annotations,
    },
    /// Any of the words, ranked as one term.
    Equiv {
        /// Field or fieldset.
        field: String,
        /// Words or phrases.
        words: Vec<Item>,
        /// Annotations.
        annotations: Annotations,
    },
    /// All children match in one and the same element of an array of structs, map or array.
    SameElement {
        /// The field.
        field: String,
        /// Children; their fields are those of the struct (or `key`, `value`), and empty for the element itself.
        children: Vec<Item>,
        /// `elementFilter`: only elements of these indices, ascending; all of them where it is empty.
        elements: Vec<u32>,
        /// Annotations.
        annotations: Annotations,
    },
    /// A number within bounds. `field = 5` has equal bounds.
    Range {
        /// The field.
        field: String,
        /// Lower bound.
        low: Bound,
        /// Upper bound.
        high: Bound,
        /// `hitLimit`: as many as this from the low end (negative: from the high end).
        hit_limit: Option<i64>,
        /// Annotations.
        annotations: Annotations,
    },
    /// The field's value is one of these: `in`.
    In {
        /// The field.
        field: String,
        /// Numbers or words as text.
        values: Vec<String>,
        /// Annotations.
        annotations: Annotations,
    },
    /// Tokens with weights: `weightedSet`, `dotProduct` and `wand`.
    Weighted {
        /// Which operator.
        operator: WeightedOperator,
        /// The field.
        field: String,
        /// Tokens with weights.
        tokens: Vec<(String, i32)>,
        /// Annotations.
        annotations: Annotations,
    },
    /// At least one child matches; the best `target_hits` by the sum of their weights are kept where ranking allows.
    WeakAnd {
        /// Children.
        children: Vec<Item>,
        /// `targetHits`.
        target_hits: u32,
        /// Annotations.
        annotations: Annotations,
    },
    /// The documents nearest to a query tensor.
    NearestNeighbor(NearestNeighbor),
    /// Within a circle on earth.
    GeoLocation {
        /// The position field; empty for the only one.
        field: String,
        /// Degrees, north positive.
        latitude: f64,
        /// Degrees, east positive.
        longitude: f64,
        /// Kilometres; negative for no limit.
        radius_km: f64,
        /// Annotations.
        annotations: Annotations,
    },
    /// Within a box on earth: south, west, north, east in degrees.
    GeoBoundingBox {
        /// The position field.
        field: String,
        /// South, west, north, east.
        corners: [f64; 4],
        /// Annotations.
        annotations: Annotations,
    },
    /// A predicate field is true for these attributes.
    Predicate {
        /// The field.
        field: String,
        /// Attribute and value.
        attributes: Vec<(String, String)>,
        /// Attribute and number.
        ranges: Vec<(String, i64)>,
    },
    /// Text that a user typed, still to be split into words by the field's settings: `userInput`, `text`, `userQuery`.
    Text(UserText),
    /// What a person typed, taken apart: words that do not fit a field match nothing there, instead of failing the query.
    Typed(Box<Item>),
}

/// Text that a user typed. Which `name:` in it are fields only a schema knows, so it stays text here;
/// the simple query language is read with it.
#[derive(Debug, Clone, PartialEq)]
pub struct UserText {
    /// Field or fieldset of words that name none.
    pub field: String,
    /// What the user typed.
    pub text: String,
    /// How it is read.
    pub grammar: Grammar,
    /// More of the simple query language, to be combined with it: `filter`.
    pub filter: Option<String>,
    /// Text without a word is left out of the query instead of failing it.
    pub allow_empty: bool,
    /// Of [`Composite::WeakAnd`].
    pub target_hits: u32,
    /// Of [`Composite::Near`] and [`Composite::OrderedNear`].
    pub distance: u32,
    /// Annotations of each word.
    pub annotations: Annotations,
}

/// How typed text is read: `model.type`, `grammar`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grammar {
    /// What its words are put together to.
    pub composite: Composite,
    /// Which characters have a meaning.
    pub syntax: Syntax,
    /// Who splits it into words.
    pub tokenization: Tokenization,
}

/// How the words of typed text are put together: `model.type.composite`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Composite {
    /// Any word; more of them are better.
    #[default]
    WeakAnd,
    /// All words.
    And,
    /// Any word.
    Or,
    /// The words one after another.
    Phrase,
    /// The words near each other.
    Near,
    /// The words near each other and in order.
    OrderedNear,
}

/// Which characters of typed text have a meaning: `model.type.syntax`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// None: all is words.
    None,
    /// The simple query language.
    #[default]
    Simple,
    /// As simple, but `+word` is the word as it is, and `a OR b` is either.
    Web,
    /// Terms with operators between them: `a AND (b OR c) ANDNOT d`.
    Advanced,
}

/// Who splits typed text into words: `model.type.tokenization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokenization {
    /// The query parser; then each word is treated as its field says.
    #[default]
    Internal,
    /// The linguistics of the field, as for documents.
    Linguistics,
}

/// Which weighted operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WeightedOperator {
    /// Matches any token; its weight is the match weight.
    WeightedSet,
    /// As [`WeightedOperator::WeightedSet`], scored by the sum of products.
    DotProduct,
    /// As [`WeightedOperator::DotProduct`], keeping the best.
    Wand {
        /// How many to keep.
        target_hits: u32,
        /// Scores at or below are dropped.
        score_threshold: f64,
    },
}

/// The text of a term.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TermText {
    /// As the user wrote it.
    pub text: String,
    /// Where it stood in the user's text (`origin`): offset and length in characters.
    pub origin: Option<(u32, u32)>,
}

impl From<&str> for TermText {
    fn from(text: &str) -> Self {
        TermText { text: text.to_owned(), origin: None }
    }
}

/// A word of a phrase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PhraseWord {
    /// As the user wrote it.
    pub text: TermText,
    /// How it matches the word at its place.
    pub matching: Match,
}

impl From<TermText> for PhraseWord {
    /// A word that matches as the field has it.
    fn from(text: TermText) -> Self {
        PhraseWord { text, matching: Match::Word }
    }
}

/// How a term's text matches words of the field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Match {
    /// By the field's own match setting: usually a whole word.
    #[default]
    Word,
    /// A word begins with it.
    Prefix,
    /// A word ends with it.
    Suffix,
    /// A word has it inside.
    Substring,
    /// A regular expression over the whole value or word: `matches`.
    Regex,
    /// Within some edits: `fuzzy`.
    Fuzzy {
        /// The most edits.
        max_edit_distance: u32,
        /// How many first characters must be the same.
        prefix_length: u32,
        /// The rest of the word does not count.
        prefix: bool,
    },
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// No bound.
    Open,
    /// The value itself belongs to the range. The flag keeps whole numbers exact.
    Inclusive(Number),
    /// The value itself does not.
    Exclusive(Number),
}

/// A number as written: whole numbers keep all 64 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// Any other.
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(number) => write!(f, "{number}"),
            Number::Float(number) => write!(f, "{number}"),
        }
    }
}

/// The documents nearest to a query tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestNeighbor {
    /// The tensor field.
    pub field: String,
    /// The query tensor's name: `query(name)`.
    pub query_tensor: String,
    /// `targetHits`: at least this many are exposed to ranking. All closer documents are found; nothing is approximated.
    pub target_hits: u32,
    /// `distanceThreshold`: documents farther away do not match.
    pub distance_threshold: Option<f64>,
    /// Annotations.
    pub annotations: Annotations,
}

/// What annotations say about an item, beyond how it matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotations {
    /// Its weight in percent; 100 where none is given.
    pub weight: i32,
    /// `id`: a number by which others refer to it.
    pub id: Option<i32>,
    /// `label`: a name for rank features.
    pub label: Option<String>,
    /// `significance`, 0 to 1; overrides what the group's statistics say.
    pub significance: Option<f64>,
    /// `documentFrequency`: the share of documents that have it, 0 to 1; overrides what the group's statistics say.
    pub document_frequency: Option<f64>,
    /// `connectivity`: to the item of this id, with this weight.
    pub connectivity: Option<(i32, f64)>,
    /// `ranked`: whether ranking sees it.
    pub ranked: bool,
    /// `filter`: matches without being ranked or highlighted.
    pub filter: bool,
    /// `stem`: whether it is stemmed where the field is.
    pub stem: bool,
    /// `normalizeCase`.
    pub normalize_case: bool,
    /// `accentDrop`.
    pub accent_drop: bool,
    /// `implicitTransforms`: whether the engine may process its text at all.
    pub implicit_transforms: bool,
    /// `usePositionData`.
    pub use_position_data: bool,
    /// `language` of its text.
    pub language: Option<String>,
    /// Others, as text, for later.
    pub other: BTreeMap<String, String>,
}

impl Default for Annotations {
    fn default() -> Self {
        Annotations {
            weight: 100,
            id: None,
            label: None,
            significance: None,
            document_frequency: None,
            connectivity: None,
            ranked: true,
            filter: false,
            stem: true,
            normalize_case: true,
            accent_drop: true,
            implicit_transforms: true,
            use_position_data: true,
            language: None,
            other: BTreeMap::new(),
        }
    }
}

impl Item {
    /// The field of a term or what is like one.
    pub(crate) fn field(&self) -> Option<&str> {
        match self {
            Item::Term { field, .. }
            | Item::Phrase { field, .. }
            | Item::Near { field, .. }
            | Item::Equiv { field, .. } => Some(field),
            _ => None,
        }
    }

    /// What of it has no text to search for, if something has: `a term`, `a phrase`.
    pub(crate) fn find_empty(&self) -> Option<&'static str> {
        let any = |children: &[Item]| children.iter().find_map(Item::find_empty);
        match self {
            Item::Term { text, .. } => text.text.trim().is_empty().then_some("a term"),
            Item::Phrase { words, .. } => {
                words.iter().all(|word| word.text.text.trim().is_empty()).then_some("a phrase")
            }
            Item::Text(text) => text.text.trim().is_empty().then_some("user text"),
            Item::In { values, .. } => values.is_empty().then_some("a list"),
            Item::And(children) | Item::Or(children) | Item::Rank(children) => any(children),
            Item::Near { words: children, .. }
            | Item::Equiv { words: children, .. }
            | Item::SameElement { children, .. }
            | Item::WeakAnd { children, .. } => any(children),
            Item::Not { positive, negatives } => positive.find_empty().or_else(|| any(negatives)),
            Item::Typed(inner) => inner.find_empty(),
            _ => None,
        }
    }
}
