use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::ColumnKey;
use millrace_document::{DocumentType, ZCURVE_SUFFIX};

use crate::{
    FieldMatching, FieldStemming, InputType, ModelExecution, ModelFile, RankProfile, SchemaField,
    SourcePosition, SourcedText, SummaryMode,
};

/// A validated schema with inheritance resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// Name of the schema and of its document type.
    pub name: Arc<str>,
    /// Type of the fields that feeds may set.
    pub document_type: Arc<DocumentType>,
    /// All fields by name, including those outside the document.
    pub fields: BTreeMap<Arc<str>, SchemaField>,
    /// Fieldsets by name.
    pub fieldsets: BTreeMap<String, Fieldset>,
    /// Names of fields and fieldsets by an alias that another field declares (`alias index: name`).
    pub index_aliases: BTreeMap<String, String>,
    /// Document summaries by name; `default` always exists.
    pub summaries: BTreeMap<String, DocumentSummary>,
    /// Rank profiles by name; `default` and `unranked` always exist.
    pub rank_profiles: BTreeMap<String, RankProfile>,
    /// Constants by name.
    pub constants: BTreeMap<String, SchemaConstant>,
    /// `onnx-model` blocks by name.
    pub onnx_models: BTreeMap<String, OnnxModelConfig>,
    /// Text files, and `.ubj` files with their `-features.txt`, in `models/`, by path below it: input of
    /// `xgboost` and `lightgbm`.
    pub models: Arc<BTreeMap<String, Vec<u8>>>,
    /// Inherited document types, nearest first, including indirect ones.
    pub ancestors: Vec<Arc<str>>,
    /// `raw-as-base64-in-summary`; true by default.
    pub raw_as_base64: bool,
    /// Default of `stemming`.
    pub stemming: FieldStemming,
    /// Location of the declaration.
    pub position: SourcePosition,
}

pub(crate) fn field_of_zcurve<'f>(
    name: &str,
    fields: &'f BTreeMap<Arc<str>, SchemaField>,
) -> Option<&'f SchemaField> {
    let positions = name.strip_suffix(ZCURVE_SUFFIX).filter(|_| !fields.contains_key(name))?;
    fields.get(positions).filter(|field| field.has_positions())
}

impl Schema {
    /// Columns stored in segments for documents of this type, sorted.
    pub fn columns(&self) -> Vec<ColumnKey> {
        self.fields.values().flat_map(SchemaField::columns).collect()
    }

    /// A field by name, or a part of one with settings by path (`person.name`).
    pub fn field_or_part(&self, path: &str) -> Option<&SchemaField> {
        match path.split_once('.') {
            None => self.fields.get(path),
            Some((field, part)) => self.fields.get(field)?.part(part),
        }
    }

    /// The field of positions whose numbers on a z-curve have this name: `place` for `place_zcurve`, unless
    /// there is a field `place_zcurve`.
    pub fn field_of_zcurve(&self, name: &str) -> Option<&SchemaField> {
        field_of_zcurve(name, &self.fields)
    }

    /// True if indexing statements set the language of texts.
    pub fn sets_languages(&self) -> bool {
        let statements = self.fields.values().filter_map(|field| field.indexing.as_ref());
        statements.into_iter().any(|statements| statements.value.contains("set_language"))
    }
}

/// Fields that are searched together.
#[derive(Debug, Clone, PartialEq)]
pub struct Fieldset {
    /// Names of the fields.
    pub fields: Vec<String>,
    /// Processing of query text, if `match` says how; otherwise that of the fields.
    pub matching: Option<FieldMatching>,
    /// `query-command`.
    pub query_commands: Vec<String>,
}

/// A document summary.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentSummary {
    /// The name.
    pub name: String,
    /// The fields in order.
    pub fields: Vec<SummaryField>,
    /// `omit-summary-features`.
    pub omit_summary_features: bool,
}

/// A field of a document summary.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryField {
    /// Name in results.
    pub name: Arc<str>,
    /// The document field with its value, or a path to members of its structs.
    pub source: Arc<str>,
    /// Further sources, whose texts follow.
    pub more_sources: Vec<Arc<str>>,
    /// Form of the value.
    pub mode: SummaryMode,
    /// True if query words are bolded.
    pub bolding: bool,
}

/// A constant of a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaConstant {
    /// Its type.
    pub constant_type: InputType,
    /// Value as text: a literal, or the JSON of the constant's file.
    pub value: SourcedText<String>,
}

/// An `onnx-model` block.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxModelConfig {
    /// Source of the model.
    pub file: SourcedText<ModelFile>,
    /// ONNX input names with the ranking expressions of their values.
    pub inputs: Vec<(String, SourcedText<String>)>,
    /// ONNX output names with their names in expressions.
    pub outputs: Vec<(String, String)>,
    /// Execution settings.
    pub execution: ModelExecution,
}
