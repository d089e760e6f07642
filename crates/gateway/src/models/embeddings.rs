//! The texts of a query that are embedded before it is planned.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use millrace_embedding::Text;
use millrace_model::{Caller, Purpose};
use millrace_plan::Embedding;
use millrace_query::EmbedCall;
use millrace_tensor::{Tensor, TensorType};

use super::ApplicationComponents;
use crate::Error;

/// The tensors that the texts of a query became: each text once for each type of tensor.
#[derive(Default)]
pub(crate) struct Embeddings {
    found: Vec<(EmbedCall, TensorType, Arc<Tensor>)>,
}

impl Embeddings {
    /// Embeds what is wanted.
    ///
    /// # Errors
    /// A text cannot be embedded, or not in time.
    pub(crate) fn make(
        wanted: &[Embedding],
        components: &ApplicationComponents,
        deadline: Instant,
        gone: Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let caller = Caller { purpose: Purpose::Query, deadline: Some(deadline), gone };
        let mut embeddings = Embeddings::default();
        for Embedding { input, call, target } in wanted {
            if embeddings.get(call, target).is_some() {
                continue;
            }
            let wrong =
                |reason: String| Error::Plan(millrace_plan::Error::Input { name: input.clone(), reason });
            let embedder = components.embedder(call.embedder.as_deref()).map_err(wrong)?;
            let tensor = embedder.embed(Text::One(&call.text), target, &[], &caller)?;
            embeddings.found.push((call.clone(), target.clone(), Arc::new(tensor)));
        }
        Ok(embeddings)
    }

    /// What a text became.
    pub(crate) fn get(&self, call: &EmbedCall, target: &TensorType) -> Option<Arc<Tensor>> {
        let same = |found: &&(EmbedCall, TensorType, Arc<Tensor>)| found.0 == *call && found.1 == *target;
        self.found.iter().find(same).map(|(.., tensor)| Arc::clone(tensor))
    }
}
