use std::sync::Arc;

use millrace_column::ColumnKey;
use millrace_document::DataType;
use millrace_linguistics::{FieldMatching, FieldStemming, MatchMode};

use crate::{SourcePosition, SourcedText};

/// Settings of one field in a schema, with defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaField {
    /// Field name.
    pub name: Arc<str>,
    /// Type of its values.
    pub data_type: DataType,
    /// True for a field outside the document block: its value is created by its indexing statements.
    pub synthetic: bool,
    /// Indexing statements as text; `None` for a field that is only stored.
    pub indexing: Option<SourcedText<String>>,
    /// `indexing: … index`: text that is split into words (or a whole value, depending on
    /// [`FieldMatching::mode`]).
    pub index: Option<IndexSettings>,
    /// `indexing: … attribute`: a value for ranking, sorting, grouping.
    pub attribute: Option<AttributeSettings>,
    /// `indexing: … summary`: the field is part of the default summary.
    pub in_summary: bool,
    /// `bolding: on`.
    pub bolding: bool,
    /// Form of the field in its own `summary`.
    pub summary: SummaryMode,
    /// Matching of query terms.
    pub matching: FieldMatching,
    /// `rank: filter`.
    pub rank_filter: bool,
    /// `rank: literal`: words that are searched in the field are ranked in the field [`literal_name`], too.
    pub has_literal: bool,
    /// `rank-type`.
    pub rank_type: Option<String>,
    /// `weight`; 100 by default.
    pub weight: i32,
    /// `linguistics`: profiles for indexing and searching.
    pub linguistics: Option<LinguisticsProfile>,
    /// `query-command`s, as written.
    pub query_commands: Vec<String>,
    /// `alias` names, and index and attribute names that differ from the field's.
    pub aliases: Vec<String>,
    /// Settings of parts, by path relative to this field (`key`, `value.name`, …); their names are full
    /// paths. These are the parts with a `struct-field` and, if the field is `index`, the other members,
    /// which inherit its settings.
    pub struct_fields: Vec<(String, SchemaField)>,
    /// Location of the declaration.
    pub position: SourcePosition,
}

impl SchemaField {
    /// True if query text is split into words for this field.
    ///
    /// Fields of structs and maps are not text themselves; their parts in [`SchemaField::struct_fields`] may
    /// be.
    pub fn is_text(&self) -> bool {
        self.index.is_some()
            && matches!(self.matching.mode, MatchMode::Text | MatchMode::Gram { .. } | MatchMode::Uri(_))
            && holds_text(&self.data_type)
    }

    /// True for a field of positions, or of arrays of them.
    pub fn has_positions(&self) -> bool {
        self.data_type.has_positions()
    }

    /// True for a field whose values are not split, and that features of text see all the same: each value is
    /// one word, and an element of its own. These are indexed strings that are matched as a whole
    /// (`match: exact`, `match: word`), and searchable numbers inside structs and maps.
    pub fn is_value_word(&self) -> bool {
        let is_number = (self.index.is_some() || self.attribute.is_some())
            && self.name.contains('.')
            && holds_numbers(&self.data_type);
        is_number || self.index.is_some() && !self.is_text() && holds_text(&self.data_type)
    }

    /// True if conditions, ranking, order or grouping read its values, or those of its parts. Values of other
    /// fields are only shown: conditions on text read the columns of its words.
    pub fn is_scanned(&self) -> bool {
        let reads_values = |field: &SchemaField| {
            field.attribute.is_some()
                || field.index.is_some() && !field.is_text() && !holds_members(&field.data_type)
        };
        self.with_parts().any(reads_values)
    }

    /// A part of the field by its path (`name`, `value.name`), if it has settings.
    pub fn part(&self, path: &str) -> Option<&SchemaField> {
        self.struct_fields.iter().find(|(known, _)| known == path).map(|(_, part)| part)
    }

    /// The field itself, and its parts with settings.
    pub fn with_parts(&self) -> impl Iterator<Item = &SchemaField> {
        std::iter::once(self).chain(self.struct_fields.iter().map(|(_, part)| part))
    }

    /// Columns stored in segments for the field.
    pub fn columns(&self) -> Vec<ColumnKey> {
        let texts = self.with_parts().filter(|field| field.is_text());
        std::iter::once(ColumnKey::value(&self.name))
            .chain(texts.map(|text| ColumnKey::tokens(&text.name)))
            .collect()
    }
}

/// Name of the field with the words of a field with `rank: literal` as they are written.
pub fn literal_name(field: &str) -> String {
    format!("{field}_literal")
}

/// True if values are numbers, or collections of numbers.
pub(crate) fn holds_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::Byte | DataType::Int | DataType::Long => true,
        DataType::Float16 | DataType::Float | DataType::Double => true,
        DataType::Array(element) | DataType::WeightedSet { element, .. } => holds_numbers(element),
        _ => false,
    }
}

/// True for structs, maps, and arrays of structs: conditions name their members.
fn holds_members(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => true,
        DataType::Array(element) => holds_members(element),
        _ => false,
    }
}

/// True if values are strings, or collections of strings.
pub(crate) fn holds_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::String | DataType::Uri => true,
        DataType::Array(element) | DataType::WeightedSet { element, .. } => holds_text(element),
        _ => false,
    }
}

/// `index` settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexSettings {
    /// `enable-bm25`; no effect, because bm25 is always available.
    pub enable_bm25: bool,
    /// `stemming` of the index, if given.
    pub stemming: Option<FieldStemming>,
}

/// `attribute` settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttributeSettings {
    /// `fast-search`; this and others without effect are kept for reporting.
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
    pub dictionary: DictionarySettings,
    /// `sorting` settings: order, function, strength, locale, missing.
    pub sorting: Vec<(String, String)>,
}

/// `dictionary` of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DictionarySettings {
    /// `cased`.
    pub cased: bool,
}

/// Distance of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DistanceMetric {
    /// Euclidean distance. The default.
    #[default]
    Euclidean,
    /// Angle, in radians.
    Angular,
    /// Negative dot product, for maximum inner product search.
    DotProduct,
    /// One minus the dot product of vectors of length 1.
    PrenormalizedAngular,
    /// Great-circle distance of latitude and longitude in degrees; in kilometres.
    GeoDegrees,
    /// Number of differing bits.
    Hamming,
}

/// Form of a summary field.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SummaryMode {
    /// The whole value.
    #[default]
    Full,
    /// Snippets around the query's words: `dynamic`.
    Dynamic,
    /// `matched-elements-only`; their texts are snippets if it is `dynamic` as well.
    MatchedElements {
        /// True for snippets.
        dynamic: bool,
    },
    /// `select-elements-by`; their texts are snippets if it is `dynamic` as well.
    SelectElementsBy {
        /// The summary feature.
        feature: String,
        /// True for snippets.
        dynamic: bool,
    },
    /// `tokens`.
    Tokens,
}

impl SummaryMode {
    /// True if texts are shown as snippets.
    pub const fn is_dynamic(&self) -> bool {
        match self {
            SummaryMode::Dynamic => true,
            SummaryMode::MatchedElements { dynamic } | SummaryMode::SelectElementsBy { dynamic, .. } => {
                *dynamic
            }
            SummaryMode::Full | SummaryMode::Tokens => false,
        }
    }

    /// The form in which values of a type can be shown, with the reason if it is another one.
    pub(crate) fn for_type(self, data_type: &DataType) -> (Self, Option<&'static str>) {
        let is_of_elements =
            matches!(self, SummaryMode::MatchedElements { .. } | SummaryMode::SelectElementsBy { .. });
        let has_elements =
            matches!(data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..));
        let holds_text = holds_text(data_type);
        if is_of_elements && !has_elements {
            let dynamic = self.is_dynamic() && holds_text;
            return (
                SummaryMode::Full.with_snippets(dynamic),
                Some("elements are chosen in arrays, weighted sets and maps"),
            );
        }
        if self == SummaryMode::Tokens && !holds_text {
            return (
                SummaryMode::Full,
                Some("tokens are those of strings, and of arrays and weighted sets of strings"),
            );
        }
        if self.is_dynamic() && !holds_text {
            return (
                self.with_snippets(false),
                Some("a dynamic summary is for strings and arrays of strings"),
            );
        }
        (self, None)
    }

    /// The same elements, with snippets of their texts or without.
    pub(crate) fn with_snippets(self, dynamic: bool) -> Self {
        match self {
            SummaryMode::MatchedElements { .. } => SummaryMode::MatchedElements { dynamic },
            SummaryMode::SelectElementsBy { feature, .. } => {
                SummaryMode::SelectElementsBy { feature, dynamic }
            }
            SummaryMode::Full | SummaryMode::Dynamic if dynamic => SummaryMode::Dynamic,
            SummaryMode::Full | SummaryMode::Dynamic => SummaryMode::Full,
            SummaryMode::Tokens => SummaryMode::Tokens,
        }
    }
}

/// `linguistics { profile … }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinguisticsProfile {
    /// Profile for the field's text.
    pub index: String,
    /// Profile for query text.
    pub search: String,
}
