use std::collections::BTreeMap;

use millrace_tensor::TensorType;

use crate::{InvalidNames, OnnxModelConfig, SchemaConstant, SourcePosition};

/// Text of another language with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcedText<T> {
    /// The text.
    pub value: T,
    /// Location of its start.
    pub position: SourcePosition,
}

/// A rank profile with inherited settings resolved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankProfile {
    /// The name.
    pub name: String,
    /// Names of the profiles it inherits from, nearest first.
    pub inherits: Vec<String>,
    /// Functions by name.
    pub functions: BTreeMap<String, FunctionDef>,
    /// Query features by name (without `query()`).
    pub inputs: BTreeMap<String, InputDef>,
    /// Constants by name, without those of the schema.
    pub constants: BTreeMap<String, SchemaConstant>,
    /// `first-phase`.
    pub first_phase: RankPhase,
    /// `second-phase`.
    pub second_phase: RankPhase,
    /// `global-phase`.
    pub global_phase: RankPhase,
    /// `match-features`, in order.
    pub match_features: Vec<SourcedText<String>>,
    /// `summary-features`, in order.
    pub summary_features: Vec<SourcedText<String>>,
    /// `rank-features` to dump.
    pub rank_features: Vec<SourcedText<String>>,
    /// `rank-properties`.
    pub properties: Vec<(String, String)>,
    /// Fields of `rank <field> { filter }` or `rank <field>: filter`.
    pub filter_fields: Vec<String>,
    /// `rank-type <field>: <type>`.
    pub rank_types: BTreeMap<String, String>,
    /// `weight <field>: <percent>` in the profile.
    pub weights: BTreeMap<String, i32>,
    /// `strict`.
    pub strict: bool,
    /// `diversity { attribute, min-groups }`.
    pub diversity: Option<(String, usize)>,
    /// `use-significance-model`.
    pub use_significance_model: bool,
    /// `onnx-model` blocks by name, without those of the schema.
    pub onnx_models: BTreeMap<String, OnnxModelConfig>,
    /// `rank <field> { element-gap: … }`; fields without one have an infinite gap.
    pub element_gaps: BTreeMap<String, u32>,
    /// `ignore-default-rank-features`.
    pub ignore_default_rank_features: bool,
    /// Location of the declaration.
    pub position: SourcePosition,
}

impl RankProfile {
    /// True if one of its expressions refers to an invalid part.
    pub fn depends_on(&self, invalid: &InvalidNames) -> bool {
        let functions = self.functions.values().map(|function| &function.body);
        let phases = [&self.first_phase, &self.second_phase, &self.global_phase];
        let phases = phases.into_iter().filter_map(|phase| phase.expression.as_ref());
        let features = [&self.match_features, &self.summary_features, &self.rank_features];
        let inputs =
            self.onnx_models.values().flat_map(|model| model.inputs.iter().map(|(_, source)| source));
        let mut texts = functions.chain(phases).chain(features.into_iter().flatten()).chain(inputs);
        texts.any(|text| invalid.is_in(&text.value))
    }
}

/// One ranking phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankPhase {
    /// The expression; `None` for the phase's default.
    pub expression: Option<SourcedText<String>>,
    /// `total-rerank-count` or `rerank-count`.
    pub rerank_count: Option<usize>,
    /// `rank-score-drop-limit`.
    pub score_drop_limit: Option<f64>,
    /// `total-keep-rank-count` or `keep-rank-count` of the first phase.
    pub keep_rank_count: Option<usize>,
}

/// A function of a rank profile.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDef {
    /// Parameter names.
    pub parameters: Vec<String>,
    /// The expression.
    pub body: SourcedText<String>,
    /// True if declared `inline`.
    pub inline: bool,
}

/// A query feature declared in a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct InputDef {
    /// Declared type.
    pub input_type: InputType,
    /// Default as text (a number or tensor literal).
    pub default: Option<SourcedText<String>>,
}

/// The type of an input or constant.
#[derive(Debug, Clone, PartialEq)]
pub enum InputType {
    /// A number or tensor.
    Tensor(TensorType),
    /// A string.
    String,
}
