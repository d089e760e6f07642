//! ONNX models in profiles: the traits behind which they run, and their inputs.
//!
//! A model's output is a feature, but it is not computed together with the others. Before a phase runs, the
//! inputs of all its hits are collected, and the model runs over all of them at once. Its output is kept per
//! hit until the phase reads it.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_schema::OnnxModelConfig;
use millrace_tensor::{Tensor, TensorType};

use crate::Error;
use crate::compile::CompiledExpression;

/// Source of a profile's models.
pub trait ModelSource {
    /// Loads the model of an `onnx-model` block.
    ///
    /// # Errors
    /// The model cannot be used; the text gives the reason.
    fn open(&self, name: &str, model: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error>;
}

/// A model file.
pub trait RankModelFile: Send + Sync {
    /// Names of the inputs.
    fn inputs(&self) -> Vec<String>;

    /// Names of the outputs.
    fn outputs(&self) -> Vec<String>;

    /// Binds the model to the types of its inputs and to the wanted output.
    ///
    /// # Errors
    /// The model's own inputs and outputs differ from the requested ones; the text states both.
    fn bind(
        &self,
        inputs: &[(&str, &TensorType)],
        output: &str,
    ) -> Result<Arc<dyn RankModelEvaluation>, Error>;
}

/// A model ready to run.
pub trait RankModelEvaluation: Send + Sync {
    /// Type of the output.
    fn tensor_type(&self) -> TensorType;

    /// Computes the output of each row. A row holds the inputs in the order in which they were bound. If the
    /// model fails on a row, its cells are NaN. `stop` is called from time to time; once it returns true, the
    /// run ends.
    ///
    /// # Errors
    /// No row has an output.
    fn run(&self, rows: Vec<Vec<Tensor>>, stop: &dyn Fn() -> bool) -> Result<Vec<Tensor>, ModelFailure>;
}

/// The reason for missing model output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFailure {
    /// The run was stopped.
    Stopped,
    /// The queue is full.
    Overloaded(String),
    /// The model cannot run.
    Failed(String),
}

/// An environment without models: profiles that use a model are rejected.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl ModelSource for NoModels {
    fn open(&self, name: &str, _: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error> {
        Err(Error::setup(format!("onnx-model {name}: models are not evaluated here")))
    }
}

/// A model's output as a profile uses it.
pub(crate) struct ModelStep {
    pub evaluation: Arc<dyn RankModelEvaluation>,
    /// Compiled expression of each input.
    pub inputs: Vec<CompiledExpression>,
    /// Index of the output among the profile's features.
    pub feature: usize,
}

/// A tensor per hit, by chunk and document.
pub(crate) type TensorPerHit = HashMap<(usize, u16), Tensor>;

/// Resolves an output by its alias in expressions or by its own name; the first output if no name is given.
pub(crate) fn output_name(
    declared: &OnnxModelConfig,
    model: &dyn RankModelFile,
    asked: Option<&str>,
) -> Result<String, Error> {
    let outputs = model.outputs();
    let Some(asked) = asked else {
        let first = declared.outputs.first().map(|(onnx, _)| onnx.clone());
        return first
            .or_else(|| outputs.first().cloned())
            .ok_or_else(|| Error::setup("the model has no output"));
    };
    let declared_as = declared.outputs.iter().find(|(_, name)| name == asked).map(|(onnx, _)| onnx.clone());
    let own = || outputs.iter().find(|name| plain(name) == asked).cloned();
    declared_as.or_else(own).ok_or_else(|| {
        let names = declared.outputs.iter().map(|(_, name)| name.clone());
        let known: Vec<String> = names.chain(outputs.iter().map(|name| plain(name))).collect();
        Error::setup(format!("no output '{asked}', only {}", known.join(", ")))
    })
}

/// A name with the characters that expressions allow.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
