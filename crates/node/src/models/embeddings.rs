//! Embedding of a query's texts before it is planned.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use millrace_embedding::EmbeddedText;
use millrace_model::{ModelCaller, SequencePurpose};
use millrace_plan::EmbeddedInput;
use millrace_query::EmbedCall;
use millrace_tensor::{Tensor, TensorBuilder, TensorType};

use super::{ApplicationComponents, ComponentFault};
use crate::Error;

/// Tensors of the embedded texts of a query: each text once for each tensor type.
#[derive(Default)]
pub struct QueryEmbeddings {
    found: Vec<(EmbedCall, TensorType, Arc<Tensor>)>,
}

impl QueryEmbeddings {
    /// Computes the wanted embeddings.
    ///
    /// # Errors
    /// A text cannot be embedded, or not in time.
    pub fn make(
        wanted: &[EmbeddedInput],
        components: &ApplicationComponents,
        deadline: Instant,
        gone: Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let caller = ModelCaller { purpose: SequencePurpose::Query, deadline: Some(deadline), gone };
        let mut embeddings = QueryEmbeddings::default();
        for EmbeddedInput { input, call, target } in wanted {
            if embeddings.get(call, target).is_some() {
                continue;
            }
            let wrong = |fault: ComponentFault| {
                Error::Plan(millrace_plan::Error::Input { name: input.clone(), reason: fault.to_string() })
            };
            let embedder = components.embedder(call.embedder.as_deref()).map_err(wrong)?;
            // Models and services make something of a text without words, or refuse it. Its vector is
            // zero, as in Vespa, so that an empty field of a search is a search without it.
            let tensor = match call.text.trim() {
                "" => TensorBuilder::new(target).finish(),
                _ => embedder.embed(EmbeddedText::One(&call.text), target, &[], &caller)?,
            };
            embeddings.found.push((call.clone(), target.clone(), Arc::new(tensor)));
        }
        Ok(embeddings)
    }

    /// The tensor of a text.
    pub fn get(&self, call: &EmbedCall, target: &TensorType) -> Option<Arc<Tensor>> {
        let same = |found: &&(EmbedCall, TensorType, Arc<Tensor>)| found.0 == *call && found.1 == *target;
        self.found.iter().find(same).map(|(.., tensor)| Arc::clone(tensor))
    }
}
