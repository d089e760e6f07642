//! Declarations of a schema file as written: without inheritance and defaults.

use millrace_tensor::TensorType;

use super::cursor::Name;
use crate::{
    DictionarySettings, DistanceMetric, FieldStemming, InputDef, InputType, LinguisticsProfile, MatchMode,
    OnnxModelConfig, SourcePosition, SourcedText, SummaryMode,
};

/// A schema file, or a document file.
#[derive(Debug, Clone)]
pub(crate) struct SchemaDecl {
    pub name: Name,
    pub inherits: Option<Name>,
    pub document: Option<DocumentDecl>,
    /// Structs declared beside the document; they also belong to it.
    pub structs: Vec<StructDecl>,
    pub fields: Vec<FieldDecl>,
    pub indexes: Vec<(Name, IndexDecl)>,
    pub fieldsets: Vec<FieldsetDecl>,
    pub summaries: Vec<SummaryDecl>,
    pub profiles: Vec<ProfileDecl>,
    pub constants: Vec<ConstantDecl>,
    pub onnx_models: Vec<(Name, OnnxModelConfig)>,
    pub stemming: Option<FieldStemming>,
    pub raw_as_base64: Option<bool>,
}

#[derive(Debug, Clone)]
pub(crate) struct DocumentDecl {
    pub name: Name,
    pub inherits: Vec<Name>,
    pub structs: Vec<StructDecl>,
    pub fields: Vec<FieldDecl>,
}

#[derive(Debug, Clone)]
pub(crate) struct StructDecl {
    pub name: Name,
    pub inherits: Vec<Name>,
    pub fields: Vec<FieldDecl>,
}

/// A type as written.
#[derive(Debug, Clone)]
pub(crate) enum TypeDecl {
    Named(Name),
    Array(Box<TypeDecl>),
    WeightedSet(Box<TypeDecl>),
    Map(Box<TypeDecl>, Box<TypeDecl>),
    Tensor(TensorType),
    Reference(Name),
}

/// A field or struct-field.
#[derive(Debug, Clone)]
pub(crate) struct FieldDecl {
    pub name: Name,
    /// Type; `None` for a struct-field, whose type is that of the struct.
    pub data_type: Option<TypeDecl>,
    pub indexing: Option<SourcedText<String>>,
    pub attribute: Option<AttributeDecl>,
    pub index: Option<IndexDecl>,
    pub matching: MatchDecl,
    pub sorting: Vec<(String, String)>,
    pub dictionary: Option<DictionarySettings>,
    pub linguistics: Option<LinguisticsProfile>,
    pub stemming: Option<FieldStemming>,
    pub normalizing: Option<bool>,
    pub bolding: Option<SourcedText<bool>>,
    /// True for `rank: filter`, false for `rank: normal`.
    pub rank_filter: Option<bool>,
    /// Place of `rank: literal`.
    pub literal: Option<SourcePosition>,
    pub rank_type: Option<String>,
    pub weight: Option<i32>,
    pub create_if_nonexistent: bool,
    pub remove_if_zero: bool,
    pub aliases: Vec<String>,
    /// Those of `aliases` that an `index` or `attribute` of another name gave.
    pub index_names: Vec<String>,
    /// Further names of indexes that are not the field's own: of fieldsets and other fields.
    pub index_aliases: Vec<IndexAliasDecl>,
    pub query_commands: Vec<String>,
    pub summaries: Vec<SummaryFieldDecl>,
    pub summary_to: Vec<Name>,
    pub struct_fields: Vec<FieldDecl>,
}

impl FieldDecl {
    pub(crate) fn new(name: Name, data_type: Option<TypeDecl>) -> Self {
        FieldDecl {
            name,
            data_type,
            indexing: None,
            attribute: None,
            index: None,
            matching: MatchDecl::default(),
            sorting: Vec::new(),
            dictionary: None,
            linguistics: None,
            stemming: None,
            normalizing: None,
            bolding: None,
            rank_filter: None,
            literal: None,
            rank_type: None,
            weight: None,
            create_if_nonexistent: false,
            remove_if_zero: false,
            aliases: Vec::new(),
            index_names: Vec::new(),
            index_aliases: Vec::new(),
            query_commands: Vec::new(),
            summaries: Vec::new(),
            summary_to: Vec::new(),
            struct_fields: Vec::new(),
        }
    }
}

/// `alias index: name`, in a field.
#[derive(Debug, Clone)]
pub(crate) struct IndexAliasDecl {
    pub index: Name,
    pub alias: Name,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeDecl {
    pub fast_search: bool,
    pub fast_access: bool,
    pub paged: bool,
    pub mutable: bool,
    pub distance_metric: Option<SourcedText<DistanceMetric>>,
    /// Further names of the field in queries.
    pub aliases: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct IndexDecl {
    pub enable_bm25: bool,
    pub stemming: Option<FieldStemming>,
    pub hnsw: Option<SourcePosition>,
    /// Further names of the field in queries.
    pub aliases: Vec<String>,
}

/// `match`.
#[derive(Debug, Clone, Default)]
pub(crate) struct MatchDecl {
    pub position: Option<SourcePosition>,
    pub mode: Option<MatchMode>,
    pub gram_size: Option<usize>,
    pub cased: bool,
    pub default_term: Option<crate::DefaultTerm>,
    pub exact_terminator: Option<String>,
    pub max_length: Option<usize>,
    pub max_occurrences: Option<usize>,
    pub max_token_length: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldsetDecl {
    pub name: Name,
    pub fields: Vec<Name>,
    pub matching: MatchDecl,
    pub query_commands: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct SummaryDecl {
    pub name: Name,
    pub inherits: Vec<Name>,
    pub omit_summary_features: bool,
    pub fields: Vec<SummaryFieldDecl>,
}

/// `summary …`, in a field or a document-summary.
#[derive(Debug, Clone)]
pub(crate) struct SummaryFieldDecl {
    /// Name; `None` for `summary: …` in a field.
    pub name: Option<Name>,
    /// True for `type position` and `type array<position>`.
    pub of_positions: bool,
    pub sources: Vec<Name>,
    pub to: Vec<Name>,
    pub mode: Option<SummaryMode>,
    pub bolding: Option<bool>,
    pub position: SourcePosition,
}

impl SummaryFieldDecl {
    /// A summary field without settings, declared by `keyword`.
    pub(crate) fn new(name: Option<Name>, keyword: &Name) -> Self {
        SummaryFieldDecl {
            name,
            of_positions: false,
            sources: Vec::new(),
            to: Vec::new(),
            mode: None,
            bolding: None,
            position: keyword.position.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ConstantDecl {
    pub name: Name,
    pub constant_type: InputType,
    pub value: TextOrFile,
}

/// Text in the schema, or in a file of the package.
#[derive(Debug, Clone)]
pub(crate) enum TextOrFile {
    Text(SourcedText<String>),
    File(Name),
}

#[derive(Debug, Clone)]
pub(crate) struct ProfileDecl {
    pub name: Name,
    pub inherits: Vec<Name>,
    pub functions: Vec<FunctionDecl>,
    pub inputs: Vec<(Name, InputDef)>,
    pub constants: Vec<ConstantDecl>,
    pub onnx_models: Vec<(Name, OnnxModelConfig)>,
    pub first_phase: Option<PhaseDecl>,
    pub second_phase: Option<PhaseDecl>,
    pub global_phase: Option<PhaseDecl>,
    pub match_features: Option<FeaturesDecl>,
    pub summary_features: Option<FeaturesDecl>,
    pub rank_features: Option<FeaturesDecl>,
    pub properties: Vec<(String, String)>,
    pub rank: Vec<(Name, RankDecl)>,
    pub rank_types: Vec<(Name, String)>,
    pub weights: Vec<(Name, i32)>,
    pub strict: Option<bool>,
    pub diversity: Option<(Name, usize)>,
    pub use_significance_model: Option<bool>,
    pub ignore_default_rank_features: bool,
    /// Inner profiles, with full names.
    pub inner: Vec<ProfileDecl>,
}

impl ProfileDecl {
    pub(crate) fn new(name: Name, inherits: Vec<Name>) -> Self {
        ProfileDecl {
            name,
            inherits,
            functions: Vec::new(),
            inputs: Vec::new(),
            constants: Vec::new(),
            onnx_models: Vec::new(),
            first_phase: None,
            second_phase: None,
            global_phase: None,
            match_features: None,
            summary_features: None,
            rank_features: None,
            properties: Vec::new(),
            rank: Vec::new(),
            rank_types: Vec::new(),
            weights: Vec::new(),
            strict: None,
            diversity: None,
            use_significance_model: None,
            ignore_default_rank_features: false,
            inner: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FunctionDecl {
    pub name: Name,
    pub parameters: Vec<String>,
    pub body: TextOrFile,
    pub inline: bool,
}

/// `rank <field> { … }` of a profile.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RankDecl {
    pub filter: Option<bool>,
    /// `None` if not given, or infinite.
    pub element_gap: Option<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseDecl {
    pub expression: Option<TextOrFile>,
    pub rerank_count: Option<usize>,
    pub score_drop_limit: Option<f64>,
    pub keep_rank_count: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct FeaturesDecl {
    pub inherits: Vec<Name>,
    pub features: Vec<SourcedText<String>>,
}
