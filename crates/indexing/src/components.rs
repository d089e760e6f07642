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

/// The components of an application that statements call by name.
///
/// The `check` methods are asked when an application is deployed; their error is shown with the place of the statement.
pub trait Components: Send + Sync {
    /// Whether texts can be embedded into tensors of this type.
    ///
    /// # Errors
    /// What is missing, and what would work.
    fn check_embed(&self, call: &ComponentCall, target: &TensorType) -> Result<(), String>;

    /// The embedding of a string, or of the elements of an array of strings.
    ///
    /// # Errors
    /// Why the input cannot be embedded.
    fn embed(&self, call: &ComponentCall, input: &Value, target: &TensorType) -> Result<Tensor, String>;

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
    fn check_generate(&self, call: &ComponentCall, target: &DataType) -> Result<(), String>;

    /// A value generated from a string, or from the elements of an array of strings.
    ///
    /// # Errors
    /// Why nothing can be generated.
    fn generate(&self, call: &ComponentCall, input: &Value, target: &DataType) -> Result<Value, String>;
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
    fn check_embed(&self, call: &ComponentCall, _: &TensorType) -> Result<(), String> {
        Self::refuse("embedder", call)
    }

    fn embed(&self, call: &ComponentCall, _: &Value, _: &TensorType) -> Result<Tensor, String> {
        Self::refuse("embedder", call)
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), String> {
        Self::refuse("chunker", call)
    }

    fn chunk(&self, call: &ComponentCall, _: &str) -> Result<Vec<String>, String> {
        Self::refuse("chunker", call)
    }

    fn check_generate(&self, call: &ComponentCall, _: &DataType) -> Result<(), String> {
        Self::refuse("field generator", call)
    }

    fn generate(&self, call: &ComponentCall, _: &Value, _: &DataType) -> Result<Value, String> {
        Self::refuse("field generator", call)
    }
}
