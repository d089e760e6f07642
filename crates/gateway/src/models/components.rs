use std::sync::Arc;

use millrace_document::{DataType, Value};
use millrace_embedding::{Embedder, Text};
use millrace_indexing::{Caller, ComponentCall, Components, Failure};
use millrace_linguistics::Chunker;
use millrace_model::Purpose;
use millrace_tensor::{Tensor, TensorType};

/// The embedders of an application, and the chunkers that every application has.
pub(crate) struct ApplicationComponents {
    embedders: Vec<Arc<Embedder>>,
}

impl ApplicationComponents {
    /// Of these embedders.
    pub(crate) fn new(embedders: Vec<Arc<Embedder>>) -> Self {
        ApplicationComponents { embedders }
    }

    /// The embedder of this id, or the only one there is.
    ///
    /// # Errors
    /// Which there are.
    pub(crate) fn embedder(&self, id: Option<&str>) -> Result<&Arc<Embedder>, String> {
        let known = || {
            let ids: Vec<String> =
                self.embedders.iter().map(|embedder| format!("'{}'", embedder.id())).collect();
            ids.join(", ")
        };
        match (id, self.embedders.as_slice()) {
            (_, []) => Err("the application has no embedder: add a component of type hugging-face-embedder \
                 to the container in services.xml"
                .to_owned()),
            (Some(id), all) => all
                .iter()
                .find(|embedder| embedder.id() == id)
                .ok_or_else(|| format!("there is no embedder '{id}', only {}", known())),
            (None, [only]) => Ok(only),
            (None, _) => Err(format!("the application has several embedders, so name one of {}", known())),
        }
    }
}

impl Components for ApplicationComponents {
    fn check_embed(&self, call: &ComponentCall, chunks: bool, target: &TensorType) -> Result<(), String> {
        let embedder = self.embedder(call.id.as_deref())?;
        embedder.shape(target, chunks, &call.arguments).map(|_| ())
    }

    fn embed(
        &self,
        call: &ComponentCall,
        input: &Value,
        target: &TensorType,
        caller: &Caller,
    ) -> Result<Tensor, Failure> {
        let embedder = self.embedder(call.id.as_deref()).map_err(Failure::Input)?;
        let wrong = || Failure::Input("only strings are embedded".to_owned());
        let chunks: Vec<&str>;
        let text = match input {
            Value::String(text) => Text::One(text),
            Value::Array(values) => {
                chunks = values.iter().map(string).collect::<Option<_>>().ok_or_else(wrong)?;
                Text::Chunks(&chunks)
            }
            _ => return Err(wrong()),
        };
        let caller = millrace_model::Caller {
            purpose: Purpose::Feed,
            deadline: caller.deadline,
            gone: Arc::clone(&caller.gone),
        };
        embedder.embed(text, target, &call.arguments, &caller).map_err(failure)
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), String> {
        chunker(call).map(|_| ())
    }

    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<Vec<String>, String> {
        Ok(chunker(call)?.chunks(text).into_iter().map(str::to_owned).collect())
    }

    fn check_generate(&self, call: &ComponentCall, _: &DataType) -> Result<(), String> {
        let name = call.id.as_deref().unwrap_or("(without id)");
        Err(format!("there is no field generator '{name}'; feed the result in a field of its own"))
    }

    fn generate(&self, call: &ComponentCall, _: &Value, target: &DataType) -> Result<Value, String> {
        self.check_generate(call, target).map(|()| Value::String(String::new()))
    }
}

fn string(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn chunker(call: &ComponentCall) -> Result<Chunker, String> {
    Chunker::named(call.id.as_deref().unwrap_or("sentence"), &call.arguments)
}

/// Whose fault it is.
fn failure(error: millrace_embedding::Error) -> Failure {
    use millrace_embedding::Error as Embedding;
    use millrace_model::Error as Model;
    use millrace_remote::Error as Remote;
    let reason = error.to_string();
    match error {
        Embedding::Model(Model::Overloaded { .. } | Model::Closed)
        | Embedding::Remote(Remote::Retry { .. } | Remote::Overloaded { .. }) => Failure::Overloaded(reason),
        Embedding::Model(Model::Deadline { .. } | Model::Abandoned { .. })
        | Embedding::Remote(Remote::Deadline { .. }) => Failure::Timeout(reason),
        _ => Failure::Input(reason),
    }
}
