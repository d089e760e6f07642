//! Models in `models/` of a package, evaluated by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_model::{self as model, BoundModel, ModelEvaluator, ModelPort};
use millrace_ranking::TreeModel;
use millrace_schema::{Application, ModelExecution, ModelFile, PackageFindings, PackageMistake};
use millrace_tensor::{CellType, DimensionKind, Tensor, TensorDimension, TensorType};
use parking_lot::Mutex;

use super::NodeModels;
use crate::Error;

/// Maximum number of cached bindings to argument types, for each model.
const BINDINGS_MAX: usize = 8;
/// Maximum number of dimensions of an argument.
const NESTING_MAX: usize = 9;

/// Models of an application that enables their evaluation, by name.
#[derive(Default)]
pub struct StatelessModels(BTreeMap<String, StatelessModel>);

/// A model.
pub enum StatelessModel {
    /// ONNX: a function for each output.
    Onnx(EvaluatedModel),
    /// Decision trees: one function.
    Trees(String, TreeModel),
}

/// An ONNX model, with its recent bindings.
pub struct EvaluatedModel {
    evaluator: Arc<ModelEvaluator>,
    bindings: Mutex<Vec<Arc<ModelBinding>>>,
}

struct ModelBinding {
    output: String,
    types: Vec<TensorType>,
    evaluation: BoundModel,
}

/// Argument of a function: its name, and its type in readable form.
pub struct ModelArgument {
    /// Name of the argument.
    pub name: String,
    /// Type of its tensor.
    pub tensor_type: String,
}

impl StatelessModels {
    /// Loads the models of an application; none if it does not enable their evaluation. Files that look like
    /// models and are not are reported, except those that were `blamed` before; those of `.ubj` as warnings.
    pub fn load(
        application: &Application,
        models: &NodeModels,
        blamed: &BTreeSet<String>,
        findings: &mut PackageFindings,
    ) -> Self {
        let Some(executions) = &application.container.model_evaluation else { return Self::default() };
        let mut found: BTreeMap<String, StatelessModel> = BTreeMap::new();
        for (path, content) in &application.files {
            let Some((name, ending)) = path.strip_prefix("models/").and_then(|file| file.rsplit_once('.'))
            else {
                continue;
            };
            if blamed.contains(path) {
                continue;
            }
            let name = name.replace(['/', '.'], "_");
            let model = match ending {
                "onnx" => {
                    let file = ModelFile::Path(path.clone());
                    let execution = executions.get(&name).cloned().unwrap_or_else(ModelExecution::default);
                    let evaluator = models.evaluator(&name, &file, &execution, application);
                    let model = evaluator.map(|evaluator| {
                        StatelessModel::Onnx(EvaluatedModel { evaluator, bindings: Mutex::default() })
                    });
                    model.map_err(|fault| fault.to_string())
                }
                "json" => match std::str::from_utf8(content).ok().and_then(TreeModel::read) {
                    Some(trees) => trees
                        .map(|trees| StatelessModel::Trees(name.clone(), trees))
                        .map_err(|error| error.to_string()),
                    // Another file that models need, such as a tokenizer.
                    None => continue,
                },
                "ubj" => {
                    let names = TreeModel::names_path(path).and_then(|names| application.files.get(&names));
                    let reason = match TreeModel::read_saved(content, names.map(Vec::as_slice)) {
                        Ok(_) if found.contains_key(&name) => {
                            "another file has the model of this name".into()
                        }
                        Ok(trees) => {
                            found.insert(name.clone(), StatelessModel::Trees(name, trees));
                            continue;
                        }
                        Err(error) => error.to_string(),
                    };
                    // Earlier versions took all such files, and no rank profile uses this one.
                    findings.warnings.push(format!("{path}: the model is not evaluated: {reason}"));
                    continue;
                }
                "model" => {
                    findings.warnings.push(format!(
                        "{path}: models in Vespa's own form are not evaluated: write the functions into a rank \
                         profile"
                    ));
                    continue;
                }
                _ => continue,
            };
            let model = model.map_err(|reason| PackageMistake::in_file(path, format!("{path}: {reason}")));
            found.extend(findings.ok_or_report(model).map(|model| (name, model)));
        }
        StatelessModels(found)
    }

    /// Names of the models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The model with this name.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
    pub fn get(&self, name: &str) -> Result<&StatelessModel, Error> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            Error::NotFound(match known.is_empty() {
                true => "no models are evaluated here: add <model-evaluation/> to the container in services.xml, and models to models/".to_owned(),
                false => format!("No model named '{name}'. Available models: {}", known.join(", ")),
            })
        })
    }
}

impl StatelessModel {
    /// Names of its functions.
    pub fn functions(&self) -> Vec<&str> {
        match self {
            StatelessModel::Onnx(onnx) => {
                onnx.evaluator.outputs().iter().map(|port| port.name.as_str()).collect()
            }
            StatelessModel::Trees(name, _) => vec![name],
        }
    }

    /// The function with this name, or the only one.
    ///
    /// # Errors
    /// There is none; the message lists the existing ones.
    pub fn function(&self, name: Option<&str>) -> Result<&str, Error> {
        let functions = self.functions();
        match (name, functions.as_slice()) {
            (None, [only]) => Ok(only),
            (Some(name), all) if all.contains(&name) => {
                Ok(all.iter().copied().find(|known| *known == name).unwrap_or_default())
            }
            (_, all) => Err(Error::NotFound(format!(
                "{}. Available functions: {}",
                match name {
                    Some(name) => format!("No function named '{name}'"),
                    None => "The model has several functions, so name one".to_owned(),
                },
                all.join(", ")
            ))),
        }
    }

    /// Arguments of its functions.
    pub fn arguments(&self) -> Vec<ModelArgument> {
        match self {
            StatelessModel::Onnx(onnx) => {
                let argument = |port: &ModelPort| ModelArgument {
                    name: port.name.clone(),
                    tensor_type: open_type(port),
                };
                onnx.evaluator.inputs().iter().map(argument).collect()
            }
            StatelessModel::Trees(_, trees) => {
                let argument = |name: String| {
                    let tensor_type = if trees.is_named(&name) { "string" } else { "tensor()" }.to_owned();
                    ModelArgument { name, tensor_type }
                };
                trees.features().into_iter().map(argument).collect()
            }
        }
    }

    /// Evaluates a function for arguments given as text.
    ///
    /// # Errors
    /// An argument is missing or has another type than the model accepts, or the model fails.
    pub fn evaluate<'a>(
        &self,
        function: &str,
        argument: &dyn Fn(&str) -> Option<&'a str>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Tensor, Error> {
        match self {
            StatelessModel::Onnx(onnx) => onnx.evaluate(function, argument, stop),
            StatelessModel::Trees(_, trees) => {
                let mut numbers = BTreeMap::new();
                for name in trees.features() {
                    // Decision trees are made for missing features.
                    let Some(text) = argument(&name) else { continue };
                    if trees.is_named(&name) {
                        numbers.insert(name, TreeModel::category(text));
                        continue;
                    }
                    let tensor = Tensor::parse(text, Some(&TensorType::scalar()));
                    let tensor =
                        tensor.map_err(|error| Error::BadRequest(format!("Argument '{name}': {error}")))?;
                    numbers.insert(name, tensor.cells().get(0));
                }
                let value = trees.evaluate(|name| numbers.get(name).copied().unwrap_or(f64::NAN));
                Ok(Tensor::scalar(value))
            }
        }
    }
}

impl EvaluatedModel {
    fn evaluate<'a>(
        &self,
        output: &str,
        argument: &dyn Fn(&str) -> Option<&'a str>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Tensor, Error> {
        let read = |port: &ModelPort| {
            let wrong = |reason: String| {
                Error::BadRequest(format!(
                    "Argument '{}' must be a value of type {}: {reason}",
                    port.name,
                    open_type(port)
                ))
            };
            let text = argument(&port.name).ok_or_else(|| wrong("it is not given".to_owned()))?;
            tensor(port, text).map_err(|error| wrong(error.to_string()))
        };
        let arguments = self.evaluator.inputs().iter().map(read).collect::<Result<Vec<Tensor>, Error>>()?;
        let types = arguments.iter().map(|tensor| tensor.tensor_type().clone()).collect();
        let binding = self.binding(output, types)?;
        let rows = model::ModelRows::one(&arguments);
        let outputs = binding.evaluation.run(rows, stop).map_err(|error| failed(&error))?;
        let of = binding.evaluation.output_types().iter().zip(outputs).next();
        let (of, cells) = of.ok_or_else(|| Error::Internal("the model gave nothing".to_owned()))?;
        Tensor::new(of.clone(), Vec::new(), cells).map_err(|error| Error::Internal(error.to_string()))
    }

    /// The model bound to these types; a recent binding is reused.
    fn binding(&self, output: &str, types: Vec<TensorType>) -> Result<Arc<ModelBinding>, Error> {
        let lock = || self.bindings.lock();
        let same = |known: &&Arc<ModelBinding>| known.output == output && known.types == types;
        if let Some(known) = lock().iter().find(same) {
            return Ok(Arc::clone(known));
        }
        let inputs: Vec<(&str, &TensorType)> =
            self.evaluator.inputs().iter().map(|port| port.name.as_str()).zip(&types).collect();
        let evaluation = self.evaluator.bind(&inputs, &[output]).map_err(|error| failed(&error))?;
        let binding = Arc::new(ModelBinding { output: output.to_owned(), types, evaluation });
        let mut bindings = lock();
        bindings.truncate(BINDINGS_MAX - 1);
        bindings.insert(0, Arc::clone(&binding));
        Ok(binding)
    }
}

/// Error of a failed model, by what the caller can do about it.
fn failed(error: &model::Error) -> Error {
    match error {
        model::Error::Signature { reason, .. } => Error::BadRequest(reason.clone()),
        model::Error::Overloaded { .. } => Error::Overloaded,
        other => Error::Internal(other.to_string()),
    }
}

/// Type of a port, with dimensions of any size left open.
fn open_type(port: &ModelPort) -> String {
    let cell = match port.element {
        model::CellElement::Double => "",
        model::CellElement::Int8 => "<int8>",
        _ => "<float>",
    };
    let size = |size: &Option<usize>| size.map(|size| size.to_string()).unwrap_or_default();
    let dimensions: Vec<String> =
        port.shape.iter().enumerate().map(|(at, of)| format!("d{at}[{}]", size(of))).collect();
    format!("tensor{cell}({})", dimensions.join(","))
}

/// Parses a value for a port: nested lists in brackets, a tensor with its type, or cells with their addresses
/// if the port has all sizes.
fn tensor(port: &ModelPort, text: &str) -> Result<Tensor, millrace_tensor::Error> {
    let text = text.trim();
    if text.starts_with("tensor") {
        return Tensor::parse(text, None);
    }
    let sizes = match text.starts_with('[') {
        true => nested_sizes(text, port.shape.len()),
        false => port.shape.iter().map(|size| size.unwrap_or(1)).collect(),
    };
    let dimension =
        |(at, size)| TensorDimension { name: format!("d{at}"), kind: DimensionKind::Indexed(size) };
    let dimensions = sizes.into_iter().enumerate().map(dimension).collect();
    let tensor_type = TensorType::new(CellType::Float, dimensions)?;
    Tensor::parse(text, Some(&tensor_type))
}

/// Sizes of nested lists by their first elements; a flat list is the innermost of `dimensions`.
fn nested_sizes(text: &str, dimensions: usize) -> Vec<usize> {
    let depth = text.chars().take_while(|c| *c == '[' || c.is_whitespace()).filter(|c| *c == '[').count();
    let depth = depth.min(NESTING_MAX);
    let mut sizes = vec![1; depth];
    let mut level = 0;
    // True if the first list of each level has ended.
    let mut ended = vec![false; depth];
    for c in text.chars() {
        match c {
            '[' => level += 1,
            ']' => {
                if let Some(ended) = (level as usize).checked_sub(1).and_then(|at| ended.get_mut(at)) {
                    *ended = true;
                }
                level -= 1;
            }
            ',' => {
                let at = (level as usize).wrapping_sub(1);
                if ended.get(at) == Some(&false) {
                    sizes[at] += 1;
                }
            }
            _ => {}
        }
        if level < 0 {
            break;
        }
    }
    let missing = dimensions.saturating_sub(depth).min(NESTING_MAX);
    std::iter::repeat_n(1, missing).chain(sizes).collect()
}

#[cfg(test)]
mod tests {
    use super::nested_sizes;

    #[test]
    fn nested_lists_have_the_sizes_of_their_first_elements() {
        let check = |text: &str, dimensions, expected: &[usize]| {
            assert_eq!(nested_sizes(text, dimensions), expected, "{text}");
        };
        check("[1,2,3]", 1, &[3]);
        check("[1,2,3]", 2, &[1, 3]);
        check("[[1, 2], [3, 4], [5, 6]]", 2, &[3, 2]);
        check("[[[1],[2]]]", 3, &[1, 2, 1]);
        check("[[1,2],[3]]", 2, &[2, 2]);
        check("]]]", 1, &[1]);
        check(&"[".repeat(100), 2, &[1; 9]);
    }
}
