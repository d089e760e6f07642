//! ONNX models in profiles: who runs them, and what a profile gives them.
//!
//! A model's output is a feature like others, but it is not computed beside them: before a phase runs, the inputs of all its hits are put
//! together, and the model runs over all of them at once. What comes of it is kept for each hit, until the phase asks.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_schema::OnnxModel;
use millrace_tensor::{Tensor, TensorType};

use crate::compile::Compiled;

/// Where profiles get their models from.
pub trait Models {
    /// The model of an `onnx-model` block, loaded.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn open(&self, name: &str, model: &OnnxModel) -> Result<Arc<dyn Model>, String>;
}

/// A model file.
pub trait Model: Send + Sync {
    /// The names of its inputs.
    fn inputs(&self) -> Vec<String>;

    /// The names of its outputs.
    fn outputs(&self) -> Vec<String>;

    /// Says what each input will be given, and which output is wanted.
    ///
    /// # Errors
    /// What the model takes and gives, and what is asked of it instead.
    fn bind(&self, inputs: &[(&str, &TensorType)], output: &str) -> Result<Arc<dyn Evaluation>, String>;
}

/// A model that is ready to run.
pub trait Evaluation: Send + Sync {
    /// The type of the output.
    fn tensor_type(&self) -> TensorType;

    /// The output for each row, which has the inputs in the order in which they were bound. A row that the model fails on has cells that are
    /// no numbers. `stop` is asked now and then; once it says yes, the work is ended.
    ///
    /// # Errors
    /// There is no output for any row.
    fn run(&self, rows: Vec<Vec<Tensor>>, stop: &dyn Fn() -> bool) -> Result<Vec<Tensor>, ModelFailure>;
}

/// Why a model gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFailure {
    /// It was told to stop.
    Stopped,
    /// Too much waits for it already.
    Overloaded(String),
    /// It cannot run.
    Failed(String),
}

/// For a place without models: a profile that asks for one is refused.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl Models for NoModels {
    fn open(&self, name: &str, _: &OnnxModel) -> Result<Arc<dyn Model>, String> {
        Err(format!("onnx-model {name}: models are not evaluated here"))
    }
}

/// A model's output as a profile uses it.
pub(crate) struct ModelStep {
    pub evaluation: Arc<dyn Evaluation>,
    /// What each input is given.
    pub inputs: Vec<Compiled>,
    /// The place of its output among the profile's features.
    pub feature: usize,
}

/// A tensor for each hit, by chunk and document.
pub(crate) type TensorPerHit = HashMap<(usize, u16), Tensor>;

/// An output by the name that expressions have for it, by its own, or where none is named the first.
pub(crate) fn output_name(
    declared: &OnnxModel,
    model: &dyn Model,
    asked: Option<&str>,
) -> Result<String, String> {
    let outputs = model.outputs();
    let Some(asked) = asked else {
        let first = declared.outputs.first().map(|(onnx, _)| onnx.clone());
        return first
            .or_else(|| outputs.first().cloned())
            .ok_or_else(|| "the model has no output".to_owned());
    };
    let declared_as = declared.outputs.iter().find(|(_, name)| name == asked).map(|(onnx, _)| onnx.clone());
    let own = || outputs.iter().find(|name| plain(name) == asked).cloned();
    declared_as.or_else(own).ok_or_else(|| {
        let names = declared.outputs.iter().map(|(_, name)| name.clone());
        let known: Vec<String> = names.chain(outputs.iter().map(|name| plain(name))).collect();
        format!("there is no output '{asked}', only {}", known.join(", "))
    })
}

/// A name as expressions can write it.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
