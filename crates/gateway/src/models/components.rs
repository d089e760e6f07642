use std::sync::Arc;

use millrace_document::Value;
use millrace_embedding::{Embedder, Text};
use millrace_indexing::{Caller, ComponentCall, Components, Failure, Wanted};
use millrace_linguistics::Chunker;
use millrace_model::Purpose;
use millrace_tensor::{Tensor, TensorType};

use super::Generator;

/// Embedders and field generators of an application, and the chunkers of every application.
pub(crate) struct ApplicationComponents {
    embedders: Vec<Arc<Embedder>>,
    generators: Vec<Generator>,
    /// True if these are all. Some are left out of an application that is refused, and calls of them are not
    /// errors themselves.
    complete: bool,
}

impl ApplicationComponents {
    /// Creates the components.
    pub(crate) fn new(embedders: Vec<Arc<Embedder>>, generators: Vec<Generator>, complete: bool) -> Self {
        ApplicationComponents { embedders, generators, complete }
    }

    /// The field generator with this id.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
    fn generator(&self, id: Option<&str>) -> Result<&Generator, String> {
        let id = id.ok_or("generate needs the id of a field generator, as in: generate questions")?;
        self.generators.iter().find(|generator| generator.id() == id).ok_or_else(|| {
            let known: Vec<String> =
                self.generators.iter().map(|generator| format!("'{}'", generator.id())).collect();
            match known.as_slice() {
                [] => format!(
                    "there is no field generator '{id}': add a component of class \
                     ai.vespa.llm.generation.LanguageModelFieldGenerator to the container in services.xml"
                ),
                known => format!("there is no field generator '{id}', only {}", known.join(", ")),
            }
        })
    }

    /// The embedder with this id, or the only one.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
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
        match self.embedder(call.id.as_deref()) {
            Err(_) if !self.complete => Ok(()),
            embedder => embedder?.shape(target, chunks, &call.arguments).map(drop),
        }
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
        embedder.embed(text, target, &call.arguments, &feeding(caller)).map_err(failure)
    }

    fn check_chunk(&self, call: &ComponentCall) -> Result<(), String> {
        chunker(call).map(|_| ())
    }

    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<Vec<String>, String> {
        Ok(chunker(call)?.chunks(text).into_iter().map(str::to_owned).collect())
    }

    fn check_generate(&self, call: &ComponentCall, wanted: &Wanted) -> Result<(), String> {
        match self.generator(call.id.as_deref()) {
            Err(_) if !self.complete => Ok(()),
            generator => generator?.check(&wanted.data_type),
        }
    }

    fn generate(
        &self,
        call: &ComponentCall,
        input: &Value,
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Option<Value>, Failure> {
        let generator = self.generator(call.id.as_deref()).map_err(Failure::Input)?;
        generator.generate(input, wanted, &feeding(caller))
    }
}

/// Converts the caller of a document's statements to that of a model.
fn feeding(caller: &Caller) -> millrace_model::Caller {
    millrace_model::Caller {
        purpose: Purpose::Feed,
        deadline: caller.deadline,
        gone: Arc::clone(&caller.gone),
    }
}

/// The text of a string value.
pub(super) fn string(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn chunker(call: &ComponentCall) -> Result<Chunker, String> {
    Chunker::named(call.id.as_deref().unwrap_or("sentence"), &call.arguments)
}

/// Classifies an error of an embedder by its cause.
fn failure(error: millrace_embedding::Error) -> Failure {
    use millrace_embedding::Error as Embedding;
    use millrace_model::Error as Model;
    let reason = error.to_string();
    match error {
        Embedding::Model(Model::Overloaded { .. } | Model::Closed) => Failure::Overloaded(reason),
        Embedding::Model(Model::Deadline { .. } | Model::Abandoned { .. }) => Failure::Timeout(reason),
        Embedding::Remote(error) => of_service(&error),
        _ => Failure::Input(reason),
    }
}

/// Classifies an error of another service by its cause.
pub(super) fn of_service(error: &millrace_remote::Error) -> Failure {
    use millrace_remote::Error as Remote;
    let reason = error.to_string();
    match error {
        Remote::Retry { .. } | Remote::Overloaded { .. } => Failure::Overloaded(reason),
        Remote::Deadline { .. } => Failure::Timeout(reason),
        Remote::Fix { .. } | Remote::GiveUp { .. } | Remote::Download { .. } => Failure::Input(reason),
    }
}
