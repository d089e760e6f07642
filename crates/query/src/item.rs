use std::collections::BTreeMap;
use std::fmt;

/// Default `distance` of `near` and `onear`, in positions.
pub(crate) const NEAR_DISTANCE: u32 = 2;

/// Default number of hits that `weakAnd` and `wand` expose to ranking: `targetHits`.
pub(crate) const TARGET_HITS: u32 = 100;

/// A node of the query tree.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryItem {
    /// Matches every document (`true`, `where true`).
    True,
    /// Matches no document.
    False,
    /// All children match.
    And(Vec<QueryItem>),
    /// At least one child matches.
    Or(Vec<QueryItem>),
    /// The first matches and none of the others: `positive and !(negative)`.
    Not {
        /// Condition that must match.
        positive: Box<QueryItem>,
        /// Conditions that must not match.
        negatives: Vec<QueryItem>,
    },
    /// The first child determines the match; the others only contribute to ranking.
    Rank(Vec<QueryItem>),
    /// A condition that gives the feature `itemRawScore(label)` this score where it matches: `labeled`.
    Labeled {
        /// The item.
        item: Box<QueryItem>,
        /// Name for rank features.
        label: String,
        /// Score where the item matches.
        score: f64,
    },
    /// A term in a field or fieldset.
    Term {
        /// Field or fieldset; by default `default`.
        field: String,
        /// Word as typed by the user.
        text: TermText,
        /// Match type.
        matching: TermMatch,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Words in sequence.
    Phrase {
        /// Field or fieldset.
        field: String,
        /// The words in order.
        words: Vec<PhraseWord>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Children near each other: `near` and, if `ordered`, `onear`.
    Near {
        /// Field or fieldset.
        field: String,
        /// Words, phrases, equivalents.
        words: Vec<QueryItem>,
        /// Items that must not be near.
        excluded: Vec<QueryItem>,
        /// Maximum distance: all words are within `P..=P + distance`, where P is the position of the first of
        /// them.
        distance: u32,
        /// Minimum distance of `excluded` items from the words.
        exclusion_distance: u32,
        /// True if the words must occur in the given order.
        ordered: bool,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Any of the words, each with an exactness: `alternatives`.
    Alternatives {
        /// Field or fieldset.
        field: String,
        /// Words, with an exactness of 0 to 1.
        words: Vec<(String, f64)>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Any of the words, ranked as one term.
    Equiv {
        /// Field or fieldset.
        field: String,
        /// Words or phrases.
        words: Vec<QueryItem>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// All children match in the same element of an array of structs, map or array.
    SameElement {
        /// The field.
        field: String,
        /// Children; their fields are those of the struct (or `key`, `value`), and empty for the element
        /// itself.
        children: Vec<QueryItem>,
        /// `elementFilter`: element indices to consider, ascending; empty for all.
        elements: Vec<u32>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// A number within bounds. `field = 5` has equal bounds.
    Range {
        /// The field.
        field: String,
        /// Lower bound.
        low: RangeBound,
        /// Upper bound.
        high: RangeBound,
        /// `hitLimit`: maximum number of hits from the low end (negative: from the high end).
        hit_limit: Option<i64>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// The field's value is one of a set: `in`.
    In {
        /// The field.
        field: String,
        /// Numbers or words as text.
        values: Vec<String>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Weighted tokens: `weightedSet`, `dotProduct` and `wand`.
    Weighted {
        /// The operator.
        operator: WeightedOperator,
        /// The field.
        field: String,
        /// Tokens with weights.
        tokens: Vec<(String, i32)>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// At least one child matches. Ranking may keep only the best `target_hits` by the sum of their weights.
    WeakAnd {
        /// Children.
        children: Vec<QueryItem>,
        /// `targetHits`.
        target_hits: u32,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// The nearest neighbours of a query tensor.
    NearestNeighbor(NearestNeighbor),
    /// Position within a circle.
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
        annotations: ItemAnnotations,
    },
    /// Position within a box: south, west, north, east in degrees.
    GeoBoundingBox {
        /// The position field.
        field: String,
        /// South, west, north, east.
        corners: [f64; 4],
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// A predicate field is true for these attributes.
    Predicate {
        /// The field.
        field: String,
        /// Attributes with values.
        attributes: Vec<PredicateAttribute<String>>,
        /// Attributes with numbers.
        ranges: Vec<PredicateAttribute<i64>>,
        /// Annotations.
        annotations: ItemAnnotations,
    },
    /// Text typed by a user, not yet split into words by the field's settings: `userInput`, `text`,
    /// `userQuery`.
    Text(UserText),
    /// Parsed typed text: words that do not fit a field match nothing there, instead of failing the query.
    Typed(Box<QueryItem>),
}

/// Text typed by a user. Only a schema determines which `name:` in it are fields, so it stays text here; it
/// is parsed with the schema as the simple query language.
#[derive(Debug, Clone, PartialEq)]
pub struct UserText {
    /// Default field or fieldset of words.
    pub field: String,
    /// The text.
    pub text: String,
    /// Grammar of the text.
    pub grammar: QueryGrammar,
    /// Further text in the simple query language, to be combined with it: `filter`.
    pub filter: Option<String>,
    /// True to omit a text without a word from the query instead of failing it.
    pub allow_empty: bool,
    /// Parameter of [`WordComposite::WeakAnd`].
    pub target_hits: u32,
    /// Parameter of [`WordComposite::Near`] and [`WordComposite::OrderedNear`].
    pub distance: u32,
    /// Annotations of each word.
    pub annotations: ItemAnnotations,
}

/// Grammar of typed text: `model.type`, `grammar`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryGrammar {
    /// Combination of its words.
    pub composite: WordComposite,
    /// Special characters.
    pub syntax: TextSyntax,
    /// Splitting into words.
    pub tokenization: TextTokenization,
}

/// Combination of the words of typed text: `model.type.composite`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WordComposite {
    /// Any word; more matching words rank higher.
    #[default]
    WeakAnd,
    /// All words.
    And,
    /// Any word.
    Or,
    /// The words in sequence.
    Phrase,
    /// The words near each other.
    Near,
    /// The words near each other, in order.
    OrderedNear,
}

impl WordComposite {
    /// Combines terms of a field, with the default number of hits and the default distance.
    pub fn combine(self, field: &str, terms: Vec<QueryItem>) -> QueryItem {
        let annotations = ItemAnnotations::default();
        match self {
            WordComposite::And => QueryItem::And(terms),
            WordComposite::Or => QueryItem::Or(terms),
            WordComposite::WeakAnd => {
                QueryItem::WeakAnd { children: terms, target_hits: TARGET_HITS, annotations }
            }
            WordComposite::Phrase => {
                let words = terms.into_iter().filter_map(|term| match term {
                    QueryItem::Term { text, matching, .. } => Some(PhraseWord { text, matching }),
                    _ => None,
                });
                QueryItem::Phrase { field: field.to_owned(), words: words.collect(), annotations }
            }
            WordComposite::Near | WordComposite::OrderedNear => QueryItem::Near {
                field: field.to_owned(),
                words: terms,
                excluded: Vec::new(),
                distance: NEAR_DISTANCE,
                exclusion_distance: NEAR_DISTANCE.div_ceil(2),
                ordered: self == WordComposite::OrderedNear,
                annotations,
            },
        }
    }
}

/// Special characters of typed text: `model.type.syntax`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextSyntax {
    /// None: the whole text is words.
    None,
    /// The simple query language.
    #[default]
    Simple,
    /// Like simple, but `+word` is the exact word, and `a OR b` is either.
    Web,
    /// Terms with operators between them: `a AND (b OR c) ANDNOT d`.
    Advanced,
}

/// Splitting of typed text into words: `model.type.tokenization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextTokenization {
    /// By the query parser; each word is then processed by its field's settings.
    #[default]
    Internal,
    /// By the linguistics of the field, like documents.
    Linguistics,
}

/// Kind of a weighted operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WeightedOperator {
    /// Matches any token; its weight is the match weight.
    WeightedSet,
    /// Like [`WeightedOperator::WeightedSet`], scored by the dot product.
    DotProduct,
    /// Like [`WeightedOperator::DotProduct`], keeping the best.
    Wand {
        /// Number of hits to keep.
        target_hits: u32,
        /// Hits whose score does not exceed this are dropped.
        score_threshold: f64,
    },
}

/// Text of a term.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TermText {
    /// Text as typed by the user.
    pub text: String,
    /// Position in the user's text (`origin`): offset and length in characters.
    pub origin: Option<(u32, u32)>,
    /// True if its words are neighbours although the text is typed: it was in quotes, or is a special token,
    /// or one value of its field.
    pub together: bool,
}

impl From<&str> for TermText {
    fn from(text: &str) -> Self {
        TermText { text: text.to_owned(), origin: None, together: false }
    }
}

/// A word of a phrase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PhraseWord {
    /// Word as typed by the user.
    pub text: TermText,
    /// Match type at its position.
    pub matching: TermMatch,
}

impl From<TermText> for PhraseWord {
    /// A word with the field's default match type.
    fn from(text: TermText) -> Self {
        PhraseWord { text, matching: TermMatch::Word }
    }
}

/// Comparison of a term's text with words of the field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TermMatch {
    /// The field's own match setting: usually a whole word.
    #[default]
    Word,
    /// Start of a word.
    Prefix,
    /// End of a word.
    Suffix,
    /// Part of a word.
    Substring,
    /// A regular expression over the whole value or word: `matches`.
    Regex,
    /// The words of an address, one after another: `uri`.
    Uri {
        /// True if it must begin at the start of the hostname.
        start: bool,
        /// True if it must end at the end of the hostname; `None` for the default, which is true for
        /// hostnames.
        end: Option<bool>,
    },
    /// Within a number of edits: `fuzzy`.
    Fuzzy {
        /// Maximum number of edits.
        max_edit_distance: u32,
        /// Number of leading characters that must be equal.
        prefix_length: u32,
        /// True to compare only the start of the word.
        prefix: bool,
    },
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RangeBound {
    /// No bound.
    Open,
    /// Inclusive bound. The number type keeps whole numbers exact.
    Inclusive(QueryNumber),
    /// Exclusive bound.
    Exclusive(QueryNumber),
}

/// A number as written: whole numbers keep all 64 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueryNumber {
    /// A whole number.
    Integer(i64),
    /// Any other.
    Float(f64),
}

impl fmt::Display for QueryNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryNumber::Integer(number) => write!(f, "{number}"),
            QueryNumber::Float(number) => write!(f, "{number}"),
        }
    }
}

/// Nearest neighbours of a query tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestNeighbor {
    /// The tensor field.
    pub field: String,
    /// Name of the query tensor: `query(name)`.
    pub query_tensor: String,
    /// `targetHits`: minimum number of hits exposed to ranking. All closer documents are found; nothing is
    /// approximated.
    pub target_hits: u32,
    /// `distanceThreshold`: maximum distance of a match.
    pub distance_threshold: Option<f64>,
    /// Annotations.
    pub annotations: ItemAnnotations,
}

/// Annotations of an item other than its match type.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemAnnotations {
    /// Weight in percent; 100 by default.
    pub weight: i32,
    /// `id`: a number by which other items refer to it.
    pub id: Option<i32>,
    /// `label`: a name for rank features.
    pub label: Option<String>,
    /// `significance`, 0 to 1; overrides the group's statistics.
    pub significance: Option<f64>,
    /// `documentFrequency`: share of documents that contain it, 0 to 1; overrides the group's statistics.
    pub document_frequency: Option<f64>,
    /// `connectivity`: id of the connected item, and weight.
    pub connectivity: Option<(i32, f64)>,
    /// `ranked`: false to hide it from ranking.
    pub ranked: bool,
    /// `filter`: true to match without ranking and highlighting.
    pub filter: bool,
    /// `stem`: false to disable the field's stemming.
    pub stem: bool,
    /// `normalizeCase`.
    pub normalize_case: bool,
    /// `accentDrop`.
    pub accent_drop: bool,
    /// `implicitTransforms`: false to disable all processing of its text.
    pub implicit_transforms: bool,
    /// `usePositionData`.
    pub use_position_data: bool,
    /// `language` of its text.
    pub language: Option<String>,
    /// Other annotations, as text.
    pub other: BTreeMap<String, String>,
}

impl Default for ItemAnnotations {
    fn default() -> Self {
        ItemAnnotations {
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

impl QueryItem {
    /// Field of a term or a similar item.
    pub(crate) fn field(&self) -> Option<&str> {
        match self {
            QueryItem::Term { field, .. }
            | QueryItem::Phrase { field, .. }
            | QueryItem::Near { field, .. }
            | QueryItem::Equiv { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The items directly below it, in the order of the query; none for a leaf.
    pub(crate) fn children(&self) -> impl Iterator<Item = &QueryItem> {
        let (first, others): (&[QueryItem], &[QueryItem]) = match self {
            QueryItem::And(children)
            | QueryItem::Or(children)
            | QueryItem::Rank(children)
            | QueryItem::WeakAnd { children, .. }
            | QueryItem::Equiv { words: children, .. }
            | QueryItem::SameElement { children, .. } => (children.as_slice(), &[]),
            QueryItem::Near { words, excluded, .. } => (words.as_slice(), excluded.as_slice()),
            QueryItem::Not { positive, negatives } => {
                (std::slice::from_ref(positive.as_ref()), negatives.as_slice())
            }
            QueryItem::Typed(inner) | QueryItem::Labeled { item: inner, .. } => {
                (std::slice::from_ref(inner.as_ref()), &[])
            }
            // Leaves are listed, so that a new operator cannot be taken for one.
            QueryItem::True
            | QueryItem::False
            | QueryItem::Term { .. }
            | QueryItem::Phrase { .. }
            | QueryItem::Alternatives { .. }
            | QueryItem::Range { .. }
            | QueryItem::In { .. }
            | QueryItem::Weighted { .. }
            | QueryItem::NearestNeighbor(_)
            | QueryItem::GeoLocation { .. }
            | QueryItem::GeoBoundingBox { .. }
            | QueryItem::Predicate { .. }
            | QueryItem::Text(_) => (&[], &[]),
        };
        first.iter().chain(others)
    }

    /// Description of the first part without text to search for, if any: `a term`, `a phrase`.
    pub(crate) fn find_empty(&self) -> Option<&'static str> {
        match self {
            QueryItem::Term { text, .. } => text.text.trim().is_empty().then_some("a term"),
            QueryItem::Phrase { words, .. } => {
                words.iter().all(|word| word.text.text.trim().is_empty()).then_some("a phrase")
            }
            QueryItem::Text(text) => text.text.trim().is_empty().then_some("user text"),
            QueryItem::In { values, .. } => values.is_empty().then_some("a list"),
            other => other.children().find_map(QueryItem::find_empty),
        }
    }
}

/// An attribute that a query sends to predicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredicateAttribute<V> {
    /// Name of the attribute.
    pub name: String,
    /// Its value.
    pub value: V,
    /// The subqueries that have it: a bit for each, 64 in all.
    pub subqueries: u64,
}

impl<V> PredicateAttribute<V> {
    /// The bits of all subqueries.
    pub const ALL_SUBQUERIES: u64 = u64::MAX;
}

/// `name=value`, with the subqueries if they are not all: `name=value@3`, in hexadecimal.
impl<V: std::fmt::Display> std::fmt::Display for PredicateAttribute<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        if self.subqueries != Self::ALL_SUBQUERIES {
            write!(f, "@{:x}", self.subqueries)?;
        }
        Ok(())
    }
}
