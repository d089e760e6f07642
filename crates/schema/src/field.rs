use millrace_column::ColumnKey;
use millrace_document::DataType;
use std::sync::Arc;

use crate::{Place, Sourced};

/// What a schema says of one field, defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaField {
    /// The name.
    pub name: Arc<str>,
    /// What it holds.
    pub data_type: DataType,
    /// Declared outside the document block: its value is made by its indexing statements.
    pub synthetic: bool,
    /// The indexing statements as text; none for a field that is only stored.
    pub indexing: Option<Sourced<String>>,
    /// `indexing: … index`: text that is split into words (or a whole value, by [`Matching::mode`]).
    pub index: Option<IndexSettings>,
    /// `indexing: … attribute`: a value for ranking, sorting, grouping.
    pub attribute: Option<Attribute>,
    /// `indexing: … summary`: in the default summary.
    pub in_summary: bool,
    /// `bolding: on`.
    pub bolding: bool,
    /// How the `summary` of the field itself is made.
    pub summary: SummaryMode,
    /// How query terms match.
    pub matching: Matching,
    /// `rank: filter`.
    pub rank_filter: bool,
    /// `rank-type`.
    pub rank_type: Option<String>,
    /// `weight`; 100 by default.
    pub weight: i32,
    /// `linguistics`: the profiles for indexing and searching.
    pub linguistics: Option<LinguisticsProfile>,
    /// `query-command`s, as written.
    pub query_commands: Vec<String>,
    /// `alias` names, and index and attribute names that differ from the field's.
    pub aliases: Vec<String>,
    /// Settings of parts, by path relative to this field (`key`, `value.name`, …); their names are full paths. Those of a
    /// `struct-field`, and where the field is `index`, those that its other members take from it.
    pub struct_fields: Vec<(String, SchemaField)>,
    /// Where it is declared.
    pub place: Place,
}

impl SchemaField {
    /// Whether query text is split into words for this field.
    ///
    /// Fields of structs and maps are not text themselves: their parts are, by [`SchemaField::struct_fields`].
    pub fn is_text(&self) -> bool {
        self.index.is_some()
            && matches!(self.matching.mode, MatchMode::Text | MatchMode::Gram { .. })
            && holds_text(&self.data_type)
    }

    /// Whether it is a number inside of a struct or map that can be searched: features of text take each for a word.
    pub fn is_number_word(&self) -> bool {
        let is_searched = self.index.is_some() || self.attribute.is_some();
        is_searched && self.name.contains('.') && holds_numbers(&self.data_type)
    }

    /// A part of the field by its path in it (`name`, `value.name`), where it has settings.
    pub fn part(&self, path: &str) -> Option<&SchemaField> {
        self.struct_fields.iter().find(|(known, _)| known == path).map(|(_, part)| part)
    }

    /// The field itself and its parts that have settings.
    pub fn with_parts(&self) -> impl Iterator<Item = &SchemaField> {
        std::iter::once(self).chain(self.struct_fields.iter().map(|(_, part)| part))
    }

    /// The columns that segments keep for the field.
    pub fn columns(&self) -> Vec<ColumnKey> {
        let texts = self.with_parts().filter(|field| field.is_text());
        std::iter::once(ColumnKey::value(&self.name))
            .chain(texts.map(|text| ColumnKey::tokens(&text.name)))
            .collect()
    }
}

/// Whether values are numbers, or collections of numbers.
fn holds_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::Byte | DataType::Int | DataType::Long => true,
        DataType::Float16 | DataType::Float | DataType::Double => true,
        DataType::Array(element) | DataType::WeightedSet { element, .. } => holds_numbers(element),
        _ => false,
    }
}

/// Whether values are strings, or collections of strings.
pub(crate) fn holds_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::String | DataType::Uri => true,
        DataType::Array(element) | DataType::WeightedSet { element, .. } => holds_text(element),
        _ => false,
    }
}

/// How query terms match a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// The unit that is matched.
    pub mode: MatchMode,
    /// `cased`: upper and lower case differ.
    pub cased: bool,
    /// `prefix`, `substring`, `suffix` as the field's default for terms.
    pub default_term: DefaultTerm,
    /// `exact-terminator`.
    pub exact_terminator: Option<String>,
    /// `max-length` of text that is looked at, in characters.
    pub max_length: Option<usize>,
    /// `max-occurrences`.
    pub max_occurrences: Option<usize>,
    /// `max-token-length`.
    pub max_token_length: Option<usize>,
    /// `stemming`.
    pub stemming: Stemming,
    /// `normalizing`: accents are dropped.
    pub normalizing: bool,
}

impl Matching {
    /// What ends the text of a term of `match: exact` in query strings.
    pub fn terminator(&self) -> &str {
        self.exact_terminator.as_deref().unwrap_or("@@")
    }
}

/// What a plain term means for a field.
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

/// The unit that is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// Words of the text. The default of `index` fields.
    Text,
    /// The whole value as one word. The default of string attributes.
    Word,
    /// The whole value, to the letter (case folded unless cased).
    Exact,
    /// All n-grams of the text.
    Gram {
        /// `gram-size`; 2 by default.
        size: usize,
    },
}

/// `stemming`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stemming {
    /// Words as they are.
    None,
    /// The best stem. The default.
    #[default]
    Best,
    /// The shortest stem.
    Shortest,
    /// Several stems.
    Multiple,
}

/// `index` settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexSettings {
    /// `enable-bm25`; has no effect, bm25 always works here.
    pub enable_bm25: bool,
    /// `stemming` of the index, where it says one.
    pub stemming: Option<Stemming>,
}

/// `attribute` settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attribute {
    /// `fast-search` and others that change nothing here, kept for what reports them.
    pub fast_search: bool,
    /// `fast-access`.
    pub fast_access: bool,
    /// `paged`.
    pub paged: bool,
    /// `mutable`.
    pub mutable: bool,
    /// `distance-metric`.
    pub distance_metric: DistanceMetric,
    /// `dictionary`.
    pub dictionary: Dictionary,
    /// `sorting` settings: order, function, strength, locale, missing.
    pub sorting: Vec<(String, String)>,
}

/// `dictionary` of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dictionary {
    /// `cased`.
    pub cased: bool,
}

/// How far apart two vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DistanceMetric {
    /// Straight line. The default.
    #[default]
    Euclidean,
    /// Angle, in radians.
    Angular,
    /// Negative dot product, for maximum inner product search.
    DotProduct,
    /// One minus the dot product of vectors that have length 1.
    PrenormalizedAngular,
    /// Great circle of latitude and longitude in degrees; kilometres.
    GeoDegrees,
    /// Bits that differ.
    Hamming,
}

/// How a summary field is made from its source.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SummaryMode {
    /// The value.
    #[default]
    Full,
    /// Parts around the query's words: `dynamic`.
    Dynamic,
    /// `matched-elements-only`.
    MatchedElements,
    /// `select-elements-by` this summary feature.
    SelectElementsBy(String),
    /// `tokens`.
    Tokens,
}

/// `linguistics { profile … }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinguisticsProfile {
    /// For the field's text.
    pub index: String,
    /// For query text.
    pub search: String,
}
