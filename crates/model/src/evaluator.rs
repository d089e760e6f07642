//! Models with tensors in and tensors out: what ranks documents, or is asked by itself.
//!
//! A model is bound to the types of what it is given ([`Evaluator::bind`]), and everything that can be wrong with them is found there. While it
//! is bound it is run once, which tells the types of its outputs; and where its first dimension can have any size it is run over
//! two rows together and apart. Where that comes to the same, rows are run together from then on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_tensor::{Cells, Tensor, TensorType};

use crate::lazy::Lazy;
use crate::onnx::{OnnxModel, Terms, list};
use crate::scheduler::{Job, Jobs};
use crate::{Element, Error, Grant, Port, Scheduler, Threads, Usage, values};

/// Rows have no more cells in one run than this, except for a single one: what is larger is no faster per row.
const RUN_CELLS: usize = 1 << 14;

/// Rows with fewer cells are not shared out between cores.
const PART_CELLS: usize = 1 << 11;

/// A model file, loaded, whose runs a scheduler has.
pub struct Evaluator {
    path: PathBuf,
    model: Lazy<OnnxModel>,
    jobs: Jobs,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

/// A model bound to the types of its inputs.
pub struct Evaluation {
    plan: Arc<Plan>,
    types: Vec<TensorType>,
}

/// What a run needs to know.
struct Plan {
    evaluator: Arc<Evaluator>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Whether several rows go into one run.
    is_batched: bool,
}

struct Input {
    name: String,
    element: Element,
    /// Of one row.
    shape: Vec<usize>,
}

struct Output {
    name: String,
    element: Element,
    tensor_type: TensorType,
}

/// The inputs of a row, in the order in which they were bound.
pub type Row = Vec<Tensor>;

impl Evaluator {
    /// Loads a file.
    ///
    /// # Errors
    /// [`Error::Load`] for what is no model.
    pub fn load(
        name: impl Into<String>,
        path: PathBuf,
        threads: Threads,
        scheduler: &Scheduler,
    ) -> Result<Self, Error> {
        let file = path.clone();
        let (lazy, model) = Lazy::new(move || OnnxModel::load(&file, threads))?;
        Ok(Evaluator {
            path,
            model: lazy,
            jobs: scheduler.jobs(name),
            inputs: model.inputs.clone(),
            outputs: model.outputs.clone(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.jobs.name()
    }

    /// What it takes.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// What it gives.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Lets the model go if nothing has run on it for so long; the next run loads it again.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        self.model.unload_idle(idle)
    }

    /// Whether the model is in memory.
    pub fn is_loaded(&self) -> bool {
        self.model.is_loaded()
    }

    /// What the model has done.
    pub fn usage(&self) -> Usage {
        self.jobs.usage()
    }

    /// Binds the inputs, all of them and by name, to what they will be given, and says which outputs are wanted.
    ///
    /// # Errors
    /// [`Error::Signature`] with what is expected and what was found; also for a model that fails on inputs of these types.
    pub fn bind(
        self: &Arc<Self>,
        inputs: &[(&str, &TensorType)],
        outputs: &[&str],
    ) -> Result<Evaluation, Error> {
        if let Some((name, _)) =
            inputs.iter().find(|(name, _)| !self.inputs.iter().any(|port| port.name == *name))
        {
            return self.refuse(format!(
                "Model does not contain input: '{name}'. Model contains: {}",
                list(&self.inputs)
            ));
        }
        let mut sizes: Vec<(&str, usize)> = Vec::new();
        let mut bound = Vec::with_capacity(inputs.len());
        for port in &self.inputs {
            let Some((_, given)) = inputs.iter().find(|(name, _)| *name == port.name) else {
                return self.refuse(format!("the model's input {port} is given nothing"));
            };
            let shape = self.shape(port, given, &mut sizes)?;
            bound.push(Input { name: port.name.clone(), element: port.element, shape });
        }
        let wanted = outputs
            .iter()
            .map(|name| {
                let port = self.outputs.iter().find(|port| port.name == *name);
                port.map_or_else(
                    || {
                        self.refuse(format!(
                            "Model does not contain required output: '{name}'. Model contains: {}",
                            list(&self.outputs)
                        ))
                    },
                    Ok,
                )
            })
            .collect::<Result<Vec<&Port>, Error>>()?;
        // In the order in which rows bring them.
        bound.sort_by_key(|input| inputs.iter().position(|(name, _)| *name == input.name));
        self.probe(bound, &wanted)
    }

    fn refuse<T>(&self, reason: String) -> Result<T, Error> {
        Err(Error::Signature { path: self.path.clone(), reason })
    }

    /// The shape of an input that is given tensors of this type. `sizes` are those that named dimensions have so far.
    fn shape<'p>(
        &self,
        port: &'p Port,
        given: &TensorType,
        sizes: &mut Vec<(&'p str, usize)>,
    ) -> Result<Vec<usize>, Error> {
        let expected = |reason: &str| {
            self.refuse(format!(
                "the model's input {port} {reason}, and is given {given}: expected {}",
                taken(port)
            ))
        };
        if let Element::Other(_) = port.element {
            return self.refuse(format!("the model's input {port} has cells that no tensor has"));
        }
        let shape: Vec<usize> = given.indexed().map(|(_, size)| size).collect();
        if !given.is_dense() || shape.len() != port.shape.len() {
            return expected(&format!("has {} dimensions, each with a size", port.shape.len()));
        }
        for (at, (&size, wanted)) in shape.iter().zip(&port.shape).enumerate() {
            match wanted {
                Some(wanted) if *wanted != size => return expected(&format!("has size {wanted} in d{at}")),
                Some(_) => {}
                None => {
                    let Some(symbol) = port.symbols.get(at).filter(|symbol| !symbol.is_empty()) else {
                        continue;
                    };
                    match sizes.iter().find(|(known, _)| known == symbol) {
                        Some((_, known)) if *known != size => {
                            return expected(&format!(
                                "has size {known} in '{symbol}', as another input does"
                            ));
                        }
                        Some(_) => {}
                        None => sizes.push((symbol, size)),
                    }
                }
            }
        }
        Ok(shape)
    }

    /// Runs the model to see what it gives, and whether rows can be run together.
    fn probe(self: &Arc<Self>, inputs: Vec<Input>, outputs: &[&Port]) -> Result<Evaluation, Error> {
        let model = self.model.get()?;
        let output = |port: &&Port| Output {
            name: port.name.clone(),
            element: port.element,
            tensor_type: TensorType::scalar(),
        };
        let outputs: Vec<Output> = outputs.iter().map(output).collect();
        let mut plan = Plan { evaluator: Arc::clone(self), inputs, outputs, is_batched: false };
        let grant = Grant::new(true);
        let terms = Terms::new(&grant, true).map_err(|error| self.jobs.fail(error))?;
        let one = plan.row(1);
        let first = match plan.raw(&model, &[&one], &terms) {
            Ok(first) => first,
            Err(error) => {
                return self.refuse(format!("the model fails on inputs of these types: {error}"));
            }
        };
        for (output, (shape, _)) in plan.outputs.iter_mut().zip(&first) {
            output.tensor_type = values::tensor_type(output.element, shape)
                .or_else(|reason| self.refuse(format!("the output '{}': {reason}", output.name)))?;
        }
        if self.may_batch(&plan, &first) {
            let other = plan.row(2);
            if let (Ok(second), Ok(both)) =
                (plan.raw(&model, &[&other], &terms), plan.raw(&model, &[&one, &other], &terms))
            {
                plan.is_batched =
                    first.iter().zip(&second).zip(&both).all(|((one, two), both)| is_both(one, two, both));
            }
        }
        let types = plan.outputs.iter().map(|output| output.tensor_type.clone()).collect();
        Ok(Evaluation { plan: Arc::new(plan), types })
    }

    /// Whether the file leaves open how many rows there are.
    fn may_batch(&self, plan: &Plan, outputs: &[(Vec<usize>, Cells)]) -> bool {
        let open = |ports: &[Port], name: &str| {
            ports.iter().any(|port| port.name == name && port.shape.first() == Some(&None))
        };
        plan.inputs.iter().all(|input| open(&self.inputs, &input.name) && input.shape.first() == Some(&1))
            && plan.outputs.iter().all(|output| open(&self.outputs, &output.name))
            && outputs.iter().all(|(shape, _)| shape.first() == Some(&1))
    }
}

/// A type that an input takes, where sizes are free an example.
fn taken(port: &Port) -> String {
    let size = |at: usize| port.shape.get(at).copied().flatten().unwrap_or(if at == 0 { 1 } else { 8 });
    let dimensions: Vec<String> = (0..port.shape.len()).map(|at| format!("d{at}[{}]", size(at))).collect();
    format!("a type such as tensor<float>({})", dimensions.join(","))
}

/// Whether the output of two rows together is what they gave apart.
fn is_both(one: &(Vec<usize>, Cells), two: &(Vec<usize>, Cells), both: &(Vec<usize>, Cells)) -> bool {
    const TOLERANCE: f64 = 1e-3;
    let apart = one.1.iter().chain(two.1.iter());
    let like =
        |(a, b): (f64, f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * (1.0 + a.abs());
    both.0.first() == Some(&2)
        && both.0.get(1..) == one.0.get(1..)
        && both.1.len() == one.1.len() + two.1.len()
        && apart.zip(both.1.iter()).all(like)
}

impl Plan {
    /// Of one row.
    fn cells(&self) -> usize {
        self.inputs.iter().map(|input| input.shape.iter().product::<usize>()).sum()
    }

    /// A row of small numbers, other ones for another seed. Numbers that name tokens are 0 and 1, which every vocabulary has.
    fn row(&self, seed: usize) -> Row {
        let cell = |input: &Input, at: usize| match input.element {
            Element::Float | Element::Double => ((at * 7 + seed * 3) % 11) as f64 / 11.0,
            _ if seed == 1 => 1.0,
            _ => f64::from(u8::from(at.is_multiple_of(2))),
        };
        let tensor = |input: &Input| {
            let size = input.shape.iter().product();
            let cells = Cells::Double((0..size).map(|at| cell(input, at)).collect());
            let tensor_type = values::tensor_type(Element::Double, &input.shape);
            let tensor = tensor_type.ok().and_then(|of| Tensor::new(of, Vec::new(), cells).ok());
            tensor.unwrap_or_else(|| Tensor::scalar(0.0))
        };
        self.inputs.iter().map(tensor).collect()
    }

    /// One run: shape and cells of each output.
    fn raw(
        &self,
        model: &OnnxModel,
        rows: &[&Row],
        terms: &Terms<'_>,
    ) -> ort::Result<Vec<(Vec<usize>, Cells)>> {
        let value = |(at, input): (usize, &Input)| {
            let mut shape = input.shape.clone();
            if let (Some(first), true) = (shape.first_mut(), rows.len() > 1) {
                *first = rows.len();
            }
            let of_rows = rows.iter().filter_map(|row| row.get(at));
            Ok((self.inputs[at].name.as_str(), values::value(input.element, shape, of_rows)?))
        };
        let inputs = self.inputs.iter().enumerate().map(value).collect::<ort::Result<Vec<_>>>()?;
        let names: Vec<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        let values = model.run(&inputs, &names, terms)?;
        values.iter().zip(&self.outputs).map(|(value, output)| values::cells(value, output.element)).collect()
    }

    /// The outputs of each row.
    fn outputs(&self, model: &OnnxModel, rows: &[&Row], terms: &Terms<'_>) -> ort::Result<Vec<Vec<Tensor>>> {
        let outputs = self.raw(model, rows, terms)?;
        let tensor = |row: usize, output: &Output, cells: &Cells| {
            let size = output.tensor_type.dense_size();
            if cells.len() != size * rows.len() {
                let reason = format!(
                    "its output '{}' has {} cells for {} rows of {}",
                    output.name,
                    cells.len(),
                    rows.len(),
                    output.tensor_type
                );
                return Err(ort::Error::new(reason));
            }
            Tensor::new(output.tensor_type.clone(), Vec::new(), cells.slice(row * size..(row + 1) * size))
                .map_err(|error| ort::Error::new(error.to_string()))
        };
        (0..rows.len())
            .map(|row| {
                self.outputs
                    .iter()
                    .zip(&outputs)
                    .map(|(output, (_, cells))| tensor(row, output, cells))
                    .collect()
            })
            .collect()
    }

    /// The outputs of each row, so many at a time; where that fails, each row by itself, and NaN for those that fail alone.
    fn all(&self, rows: &[Row], rows_max: usize, grant: &Grant) -> Result<Vec<Vec<Tensor>>, Error> {
        let jobs = &self.evaluator.jobs;
        let model = self.evaluator.model.get()?;
        // Shared by all runs: once one of them was ended, so are the others.
        let terms = Terms::new(grant, self.cells() > RUN_CELLS).map_err(|error| jobs.fail(error))?;
        let mut found = Vec::with_capacity(rows.len());
        for rows in rows.chunks(rows_max) {
            let together: Vec<&Row> = rows.iter().collect();
            match self.outputs(&model, &together, &terms) {
                Ok(outputs) => {
                    found.extend(outputs);
                    continue;
                }
                Err(error) if grant.interrupt().raised() => return Err(jobs.fail(error)),
                Err(_) => {}
            }
            for row in rows {
                match self.outputs(&model, &[row], &terms) {
                    Ok(outputs) => found.extend(outputs),
                    Err(error) if grant.interrupt().raised() => return Err(jobs.fail(error)),
                    Err(_) => {
                        jobs.failed();
                        found.push(self.outputs.iter().map(Output::undefined).collect());
                    }
                }
            }
        }
        Ok(found)
    }
}

impl Output {
    /// What stands for the output where the model failed.
    fn undefined(&self) -> Tensor {
        let size = self.tensor_type.dense_size();
        let mut cells = Cells::with_capacity(self.tensor_type.cell(), size);
        (0..size).for_each(|_| cells.push(f64::NAN));
        Tensor::new(self.tensor_type.clone(), Vec::new(), cells)
            .expect("a dense type has as many cells as its size says")
    }
}

impl Evaluation {
    /// The types of the outputs, in the order in which they were asked for.
    pub fn output_types(&self) -> &[TensorType] {
        &self.types
    }

    /// Whether several rows go into one run.
    pub fn is_batched(&self) -> bool {
        self.plan.is_batched
    }

    /// The outputs of each row. A row that the model fails on has NaN in all cells (0 in those of int8). `stop` is asked now and then; once it
    /// says yes, the runs are ended.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `stop` said yes, [`Error::Overloaded`] when too much waits; the model cannot be loaded again.
    pub fn run(&self, rows: Vec<Row>, stop: &dyn Fn() -> bool) -> Result<Vec<Vec<Tensor>>, Error> {
        // As many parts as go side by side, or a multiple of it, and none larger than a run takes. Rows that cannot share a run still share
        // a place in the queue.
        let slots = self.plan.evaluator.jobs.slots();
        let cells = rows.len().saturating_mul(self.plan.cells());
        let parts = cells.div_ceil(RUN_CELLS).next_multiple_of(slots).min(cells.div_ceil(PART_CELLS));
        let together = rows.len().div_ceil(parts.max(1)).max(1);
        let rows_max = if self.plan.is_batched { together } else { 1 };
        let mut rows = rows.into_iter();
        let mut jobs = Vec::new();
        loop {
            let part: Vec<Row> = rows.by_ref().take(together).collect();
            if part.is_empty() {
                break;
            }
            let plan = Arc::clone(&self.plan);
            jobs.push(Job {
                rows: part.len(),
                work: Box::new(move |grant: &Grant| plan.all(&part, rows_max, grant)),
            });
        }
        Ok(self.plan.evaluator.jobs.run(jobs, stop)?.concat())
    }
}
