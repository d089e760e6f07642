use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use millrace_document::{DataType, DocumentValue};
use millrace_tensor::{Tensor, TensorType};

/// Reference of a statement to a component: `embed colbert chunk` has the id `colbert` and one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentCall {
    /// Id of the component; `None` for the only one.
    pub id: Option<String>,
    /// Arguments after the id.
    pub arguments: Vec<String>,
}

/// Output requested from a generator.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorTarget {
    /// Type of the output.
    pub data_type: DataType,
    /// Name of the target field, as in `passage.questions`; models get it as a description of the output.
    pub name: String,
}

/// The caller that waits for a document to be processed, with its deadline.
#[derive(Debug, Clone, Default)]
pub struct IndexingCaller {
    /// Time after which the result is not needed.
    pub deadline: Option<Instant>,
    /// Set by another thread when the caller no longer waits.
    pub gone: Arc<AtomicBool>,
}

/// The reason for missing output of a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComponentFailure {
    /// The input cannot be processed and has to be changed.
    #[error("{0}")]
    Input(String),
    /// The component's queue is full; the caller should try again later.
    #[error("{0}")]
    Overloaded(String),
    /// The deadline passed.
    #[error("{0}")]
    Timeout(String),
    /// The component cannot be used: a change of the input does not help.
    #[error("{0}")]
    Fault(String),
}

/// Components of an application that statements refer to by name.
///
/// The `check` methods are called when an application is deployed; their errors are shown with the location
/// of the statement.
pub trait IndexingComponents: Send + Sync {
    /// Checks that texts can be embedded into tensors of this type: one text, or with `chunks` an array of
    /// them.
    ///
    /// # Errors
    /// The missing part, with a remedy.
    fn check_embed(
        &self,
        call: &ComponentCall,
        chunks: bool,
        target: &TensorType,
    ) -> Result<(), ComponentFailure>;

    /// Embedding of a string, or of the elements of an array of strings.
    ///
    /// # Errors
    /// The input could not be embedded.
    fn embed(
        &self,
        call: &ComponentCall,
        input: &DocumentValue,
        target: &TensorType,
        caller: &IndexingCaller,
    ) -> Result<Tensor, ComponentFailure>;

    /// Checks that texts can be cut into chunks.
    ///
    /// # Errors
    /// The missing part, with a remedy.
    fn check_chunk(&self, call: &ComponentCall) -> Result<(), ComponentFailure>;

    /// Chunks of a text, in order.
    ///
    /// # Errors
    /// The text cannot be cut.
    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<Vec<String>, ComponentFailure>;

    /// Checks that values of this type can be generated from text.
    ///
    /// # Errors
    /// The missing part, with a remedy.
    fn check_generate(&self, call: &ComponentCall, wanted: &GeneratorTarget) -> Result<(), ComponentFailure>;

    /// A value generated from a string; or an array, with an element for each string of an array. `None` if
    /// the generator has no usable output and leaves the field empty.
    ///
    /// # Errors
    /// Nothing could be generated.
    fn generate(
        &self,
        call: &ComponentCall,
        input: &DocumentValue,
        wanted: &GeneratorTarget,
        caller: &IndexingCaller,
    ) -> Result<Option<DocumentValue>, ComponentFailure>;
}

/// An environment without components: statements that use one are rejected.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoComponents;

impl NoComponents {
    fn refuse<T>(what: &str, call: &ComponentCall) -> Result<T, ComponentFailure> {
        let name = call.id.as_deref().unwrap_or("(without id)");
        let reason = format!("no {what} '{name}'; feed the result in a field of its own");
        Err(ComponentFailure::Input(reason))
    }
}

impl IndexingComponents for NoComponents {
    fn check_embed(&self, call: &ComponentCall, _: bool, _: &TensorType) -> Result<(), ComponentFailure> {
        Self::refuse("embedder", call)
    }

    fn embed(
        &self,
        call: &ComponentCall,
        _: &DocumentValue,
        _: &TensorType,
        _: &IndexingCaller,
    ) -> Result<Tensor, ComponentFailure> {
        Self::refuse("embedder", call)
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), ComponentFailure> {
        Self::refuse("chunker", call)
    }

    fn chunk(&self, call: &ComponentCall, _: &str) -> Result<Vec<String>, ComponentFailure> {
        Self::refuse("chunker", call)
    }

    fn check_generate(&self, call: &ComponentCall, _: &GeneratorTarget) -> Result<(), ComponentFailure> {
        Self::refuse("field generator", call)
    }

    fn generate(
        &self,
        call: &ComponentCall,
        _: &DocumentValue,
        _: &GeneratorTarget,
        _: &IndexingCaller,
    ) -> Result<Option<DocumentValue>, ComponentFailure> {
        Self::refuse("field generator", call)
    }
}
