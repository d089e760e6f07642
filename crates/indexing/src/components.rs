use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use millrace_document::{DataType, Value};
use millrace_tensor::{Tensor, TensorType};

/// How a statement names a component: `embed colbert chunk` has the id `colbert` and one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentCall {
    /// The component's id; `None` where the only one there is is meant.
    pub id: Option<String>,
    /// What follows the id.
    pub arguments: Vec<String>,
}

/// What a generator is to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Its type.
    pub data_type: DataType,
    /// The field that it is for, as in `passage.questions`: what a model is told that it makes.
    pub name: String,
}

/// Who waits for a document to be processed, and until when.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// When the document is of no use any more.
    pub deadline: Option<Instant>,
    /// Set by someone else when nobody waits any more.
    pub gone: Arc<AtomicBool>,
}

/// Why a component gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The input cannot be worked on: change it.
    #[error("{0}")]
    Input(String),
    /// Too much waits for the component: try again later.
    #[error("{0}")]
    Overloaded(String),
    /// The caller's time was up.
    #[error("{0}")]
    Timeout(String),
}

/// The components of an application that statements call by name.
///
/// The `check` methods are asked when an application is deployed; their error is shown with the place of the statement.
pub trait Components: Send + Sync {
    /// Whether texts can be embedded into tensors of this type: one text, or with `chunks` an array of them.
    ///
    /// # Errors
    /// What is missing, and what would work.
    fn check_embed(&self, call: &ComponentCall, chunks: bool, target: &TensorType) -> Result<(), String>;

    /// The embedding of a string, or of the elements of an array of strings.
    ///
    /// # Errors
    /// Why the input was not embedded.
    fn embed(
        &self,
        call: &ComponentCall,
        input: &Value,
        target: &TensorType,
        caller: &Caller,
    ) -> Result<Tensor, Failure>;

    /// Whether texts can be cut into chunks.
    ///
    /// # Errors
    /// What is missing, and what would work.
    fn check_chunk(&self, call: &ComponentCall) -> Result<(), String>;

    /// The chunks of a text, in order.
    ///
    /// # Errors
    /// Why the text cannot be cut.
    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<Vec<String>, String>;

    /// Whether values of this type can be generated from text.
    ///
    /// # Errors
    /// What is missing, and what would work.
    fn check_generate(&self, call: &ComponentCall, wanted: &Wanted) -> Result<(), String>;

    /// A value generated from a string; or an array, with an element for each string of an array. None where the
    /// generator gives nothing that is of use, and leaves the field empty for it.
    ///
    /// # Errors
    /// Why nothing can be generated.
    fn generate(
        &self,
        call: &ComponentCall,
        input: &Value,
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Option<Value>, Failure>;
}

/// No components: statements that call one are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoComponents;

impl NoComponents {
    fn refuse<T>(what: &str, call: &ComponentCall) -> Result<T, String> {
        let name = call.id.as_deref().unwrap_or("(without id)");
        Err(format!("there is no {what} '{name}'; feed the result in a field of its own"))
    }
}

impl Components for NoComponents {
    fn check_embed(&self, call: &ComponentCall, _: bool, _: &TensorType) -> Result<(), String> {
        Self::refuse("embedder", call)
    }

    fn embed(&self, call: &ComponentCall, _: &Value, _: &TensorType, _: &Caller) -> Result<Tensor, Failure> {
        Self::refuse("embedder", call).map_err(Failure::Input)
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), String> {
        Self::refuse("chunker", call)
    }

    fn chunk(&self, call: &ComponentCall, _: &str) -> Result<Vec<String>, String> {
        Self::refuse("chunker", call)
    }

    fn check_generate(&self, call: &ComponentCall, _: &Wanted) -> Result<(), String> {
        Self::refuse("field generator", call)
    }

    fn generate(
        &self,
        call: &ComponentCall,
        _: &Value,
        _: &Wanted,
        _: &Caller,
    ) -> Result<Option<Value>, Failure> {
        Self::refuse("field generator", call).map_err(Failure::Input)
    }
}
