use std::sync::Arc;

use millrace_document::DocumentValue;
use millrace_embedding::{EmbeddedText, TextEmbedder};
use millrace_indexing::{
    ComponentCall, ComponentFailure, GeneratorTarget, IndexingCaller, IndexingComponents,
};
use millrace_linguistics::{ChunkerFault, TextChunker};
use millrace_model::SequencePurpose;
use millrace_tensor::{Tensor, TensorType};

use super::{ComponentFault, DeployedGenerator};
use crate::ErrorKind;
use crate::error::embedding_kind;

/// Embedders and field generators of an application, and the chunkers of every application.
pub struct ApplicationComponents {
    embedders: Vec<Arc<TextEmbedder>>,
    generators: Vec<DeployedGenerator>,
    /// True if these are all. Some are left out of an application that is refused, and calls of them are not
    /// errors themselves.
    complete: bool,
}

impl ApplicationComponents {
    /// Creates the components.
    pub fn new(
        embedders: Vec<Arc<TextEmbedder>>,
        generators: Vec<DeployedGenerator>,
        complete: bool,
    ) -> Self {
        ApplicationComponents { embedders, generators, complete }
    }

    /// The field generator with this id.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
    fn generator(&self, id: Option<&str>) -> Result<&DeployedGenerator, ComponentFault> {
        let id = id.ok_or(ComponentFault::UnnamedGenerator)?;
        self.generators.iter().find(|generator| generator.id() == id).ok_or_else(|| {
            let known: Vec<String> =
                self.generators.iter().map(|generator| format!("'{}'", generator.id())).collect();
            match known.as_slice() {
                [] => ComponentFault::NoGenerators(id.to_owned()),
                known => ComponentFault::NoGenerator { id: id.to_owned(), known: known.join(", ") },
            }
        })
    }

    /// The embedder with this id, or the only one.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
    pub fn embedder(&self, id: Option<&str>) -> Result<&Arc<TextEmbedder>, ComponentFault> {
        let known = || {
            let ids: Vec<String> =
                self.embedders.iter().map(|embedder| format!("'{}'", embedder.id())).collect();
            ids.join(", ")
        };
        match (id, self.embedders.as_slice()) {
            (_, []) => Err(ComponentFault::NoEmbedders),
            (Some(id), all) => all
                .iter()
                .find(|embedder| embedder.id() == id)
                .ok_or_else(|| ComponentFault::NoEmbedder { id: id.to_owned(), known: known() }),
            (None, [only]) => Ok(only),
            (None, _) => Err(ComponentFault::UnnamedEmbedder(known())),
        }
    }
}

impl IndexingComponents for ApplicationComponents {
    fn check_embed(
        &self,
        call: &ComponentCall,
        chunks: bool,
        target: &TensorType,
    ) -> Result<(), ComponentFailure> {
        match self.embedder(call.id.as_deref()) {
            Err(_) if !self.complete => Ok(()),
            embedder => embedder
                .and_then(|embedder| Ok(embedder.shape(target, chunks, &call.arguments)?))
                .map(drop)
                .map_err(by_input),
        }
    }

    fn embed(
        &self,
        call: &ComponentCall,
        input: &DocumentValue,
        target: &TensorType,
        caller: &IndexingCaller,
    ) -> Result<Tensor, ComponentFailure> {
        let embedder = self.embedder(call.id.as_deref()).map_err(by_input)?;
        let wrong = || ComponentFailure::Input("only strings are embedded".to_owned());
        let chunks: Vec<&str>;
        let text = match input {
            DocumentValue::String(text) => EmbeddedText::One(text),
            DocumentValue::Array(values) => {
                chunks = values.iter().map(string).collect::<Option<_>>().ok_or_else(wrong)?;
                EmbeddedText::Chunks(&chunks)
            }
            _ => return Err(wrong()),
        };
        embedder
            .embed(text, target, &call.arguments, &feeding(caller))
            .map_err(|error| failure(embedding_kind(&error), &error))
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), ComponentFailure> {
        chunker(call).map(|_| ()).map_err(by_input)
    }

    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<Vec<String>, ComponentFailure> {
        let chunker = chunker(call).map_err(by_input)?;
        Ok(chunker.chunks(text).into_iter().map(str::to_owned).collect())
    }

    fn check_generate(&self, call: &ComponentCall, wanted: &GeneratorTarget) -> Result<(), ComponentFailure> {
        match self.generator(call.id.as_deref()) {
            Err(_) if !self.complete => Ok(()),
            generator => generator.and_then(|generator| generator.check(&wanted.data_type)).map_err(by_input),
        }
    }

    fn generate(
        &self,
        call: &ComponentCall,
        input: &DocumentValue,
        wanted: &GeneratorTarget,
        caller: &IndexingCaller,
    ) -> Result<Option<DocumentValue>, ComponentFailure> {
        let generator = self.generator(call.id.as_deref()).map_err(by_input)?;
        generator.generate(input, wanted, &feeding(caller))
    }
}

/// Converts the caller of a document's statements to that of a model.
fn feeding(caller: &IndexingCaller) -> millrace_model::ModelCaller {
    millrace_model::ModelCaller {
        purpose: SequencePurpose::Feed,
        deadline: caller.deadline,
        gone: Arc::clone(&caller.gone),
    }
}

/// The text of a string value.
pub(super) fn string(value: &DocumentValue) -> Option<&str> {
    match value {
        DocumentValue::String(text) => Some(text),
        _ => None,
    }
}

/// Failure by the input of a statement, or by its component.
fn by_input(error: impl std::fmt::Display) -> ComponentFailure {
    ComponentFailure::Input(error.to_string())
}

fn chunker(call: &ComponentCall) -> Result<TextChunker, ChunkerFault> {
    TextChunker::named(call.id.as_deref().unwrap_or("sentence"), &call.arguments)
}

/// Failure of a component by the kind of its error: the client has to wait, or to change the document, or the
/// operator has to act.
pub(super) fn failure(kind: ErrorKind, error: &impl std::fmt::Display) -> ComponentFailure {
    let reason = error.to_string();
    match kind {
        ErrorKind::Overloaded | ErrorKind::Unavailable => ComponentFailure::Overloaded(reason),
        ErrorKind::Timeout => ComponentFailure::Timeout(reason),
        ErrorKind::BadRequest
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::MethodNotAllowed
        | ErrorKind::Conflict
        | ErrorKind::Precondition
        | ErrorKind::TooLarge => ComponentFailure::Input(reason),
        ErrorKind::Storage | ErrorKind::Internal => ComponentFailure::Fault(reason),
    }
}
