use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::ColumnKey;
use millrace_document::DocumentType;

use crate::{
    Execution, InputType, Matching, ModelFile, Place, RankProfile, SchemaField, Sourced, Stemming,
    SummaryMode,
};

/// A schema, checked, with what it inherits put in.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The name; also that of its document type.
    pub name: Arc<str>,
    /// What feeds may set.
    pub document_type: Arc<DocumentType>,
    /// All fields by name, those outside the document included.
    pub fields: BTreeMap<Arc<str>, SchemaField>,
    /// Fieldsets by name.
    pub fieldsets: BTreeMap<String, Fieldset>,
    /// Document summaries by name; `default` is always there.
    pub summaries: BTreeMap<String, DocumentSummary>,
    /// Rank profiles by name; `default` and `unranked` are always there.
    pub rank_profiles: BTreeMap<String, RankProfile>,
    /// Constants by name.
    pub constants: BTreeMap<String, Constant>,
    /// `onnx-model` blocks by name.
    pub onnx_models: BTreeMap<String, OnnxModel>,
    /// The files of `models/` that are text, by path below it: what `xgboost` and `lightgbm` read.
    pub models: Arc<BTreeMap<String, String>>,
    /// The document types that this one inherits, nearest first, those that they inherit included.
    pub ancestors: Vec<Arc<str>>,
    /// `raw-as-base64-in-summary`; true by default.
    pub raw_as_base64: bool,
    /// The default of `stemming`.
    pub stemming: Stemming,
    /// Where it is declared.
    pub place: Place,
}

impl Schema {
    /// The columns that segments keep for documents of this type, sorted.
    pub fn columns(&self) -> Vec<ColumnKey> {
        self.fields.values().flat_map(SchemaField::columns).collect()
    }

    /// A field by its name, or a part of one with settings by its path (`person.name`).
    pub fn field_or_part(&self, path: &str) -> Option<&SchemaField> {
        match path.split_once('.') {
            None => self.fields.get(path),
            Some((field, part)) => self.fields.get(field)?.part(part),
        }
    }

    /// Whether indexing statements say of what language texts are.
    pub fn sets_languages(&self) -> bool {
        let statements = self.fields.values().filter_map(|field| field.indexing.as_ref());
        statements.into_iter().any(|statements| statements.value.contains("set_language"))
    }
}

/// Fields that are searched as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Fieldset {
    /// The fields.
    pub fields: Vec<String>,
    /// How query text is processed for it; that of the first field where it is not said.
    pub matching: Option<Matching>,
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
    /// The name in results.
    pub name: Arc<str>,
    /// The document field it shows.
    pub source: Arc<str>,
    /// Fields to show, in this order, where `source` has no value.
    pub fallbacks: Vec<Arc<str>>,
    /// How it is made.
    pub mode: SummaryMode,
    /// Whether the query's words are bolded in it.
    pub bolding: bool,
}

/// A constant of a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    /// Its type.
    pub constant_type: InputType,
    /// The value as text: a literal, or the JSON of the constant's file.
    pub value: Sourced<String>,
}

/// An `onnx-model` block.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxModel {
    /// Where the model comes from.
    pub file: Sourced<ModelFile>,
    /// ONNX input names with the ranking expressions that feed them.
    pub inputs: Vec<(String, Sourced<String>)>,
    /// ONNX output names with the names they have in expressions.
    pub outputs: Vec<(String, String)>,
    /// How it is executed.
    pub execution: Execution,
}
