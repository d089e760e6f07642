//! Models with tensors as input and output, used for ranking or directly.
//!
//! A model is bound to the types of its inputs ([`ModelEvaluator::bind`]), which reports all errors in them.
//! Binding runs it once to determine the types of its outputs. If its first dimension can have any size, it
//! is also run over two rows together and separately; if the results are equal, later runs combine rows.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::lazy::LazyModel;
use crate::onnx::{ModelRunOptions, OnnxModel, RunMemory, list};
use crate::scheduler::{ModelJob, ModelJobs};
use crate::{CellElement, Error, ModelPort, ModelScheduler, ModelThreads, ModelUsage, RunGrant, values};

/// Maximum number of cells of the rows in one run, except for a single row: larger runs are no faster per
/// row.
const RUN_CELLS: usize = 1 << 14;

/// Minimum number of cells for distributing rows over cores.
const PART_CELLS: usize = 1 << 11;

/// A loaded model file whose runs a scheduler executes.
pub struct ModelEvaluator {
    path: PathBuf,
    model: LazyModel<OnnxModel>,
    jobs: ModelJobs,
    inputs: Vec<ModelPort>,
    outputs: Vec<ModelPort>,
}

/// A model bound to the types of its inputs.
pub struct BoundModel {
    plan: Arc<RunPlan>,
    types: Vec<TensorType>,
}

/// Data needed for a run.
struct RunPlan {
    evaluator: Arc<ModelEvaluator>,
    inputs: Vec<BoundInput>,
    outputs: Vec<BoundOutput>,
    /// True if a run may have several rows.
    is_batched: bool,
}

struct BoundInput {
    name: String,
    element: CellElement,
    /// Shape of one row.
    shape: Vec<usize>,
}

struct BoundOutput {
    name: String,
    element: CellElement,
    tensor_type: TensorType,
}

/// Inputs of a model for several rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRows {
    /// Number of rows.
    pub count: usize,
    /// For each input, in binding order, the cells of all rows, one row after another.
    pub inputs: Vec<Vec<f64>>,
}

impl ModelRows {
    /// A single row: a dense tensor for each input, in binding order.
    pub fn one(row: &[Tensor]) -> Self {
        ModelRows { count: 1, inputs: row.iter().map(|tensor| tensor.cells().iter().collect()).collect() }
    }

    /// Adds the rows of `other`, which has as many inputs.
    pub fn append(&mut self, other: &ModelRows) {
        self.count += other.count;
        self.inputs.iter_mut().zip(&other.inputs).for_each(|(cells, other)| cells.extend_from_slice(other));
    }
}

impl ModelEvaluator {
    /// Loads a file.
    ///
    /// # Errors
    /// [`Error::Load`] if the file is not a model.
    pub fn load(
        name: impl Into<String>,
        path: PathBuf,
        threads: ModelThreads,
        scheduler: &ModelScheduler,
    ) -> Result<Self, Error> {
        let file = path.clone();
        let (lazy, model) = LazyModel::new(move || OnnxModel::load(&file, threads))?;
        Ok(ModelEvaluator {
            path,
            model: lazy,
            jobs: scheduler.jobs(name),
            inputs: model.inputs.clone(),
            outputs: model.outputs.clone(),
        })
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        self.jobs.name()
    }

    /// Inputs of the model.
    pub fn inputs(&self) -> &[ModelPort] {
        &self.inputs
    }

    /// Outputs of the model.
    pub fn outputs(&self) -> &[ModelPort] {
        &self.outputs
    }

    /// Unloads the model if it was idle for this time; the next run loads it again. Returns true if it was
    /// unloaded.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        self.model.unload_idle(idle)
    }

    /// True if the model is in memory.
    pub fn is_loaded(&self) -> bool {
        self.model.is_loaded()
    }

    /// Usage of the model.
    pub fn usage(&self) -> ModelUsage {
        self.jobs.usage()
    }

    /// Binds all inputs, by name, to the types of their values, and selects the outputs.
    ///
    /// # Errors
    /// [`Error::Signature`] with the expected and the actual types; also if the model fails on inputs of
    /// these types.
    pub fn bind(
        self: &Arc<Self>,
        inputs: &[(&str, &TensorType)],
        outputs: &[&str],
    ) -> Result<BoundModel, Error> {
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
            bound.push(BoundInput { name: port.name.clone(), element: port.element, shape });
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
            .collect::<Result<Vec<&ModelPort>, Error>>()?;
        // In the order in which rows contain them.
        bound.sort_by_key(|input| inputs.iter().position(|(name, _)| *name == input.name));
        self.probe(bound, &wanted)
    }

    fn refuse<T>(&self, reason: String) -> Result<T, Error> {
        Err(Error::Signature { path: self.path.clone(), reason })
    }

    /// Shape of an input for tensors of this type. `sizes` are the sizes of named dimensions so far.
    fn shape<'p>(
        &self,
        port: &'p ModelPort,
        given: &TensorType,
        sizes: &mut Vec<(&'p str, usize)>,
    ) -> Result<Vec<usize>, Error> {
        let expected = |reason: &str| {
            self.refuse(format!(
                "the model's input {port} {reason}, and is given {given}: expected {}",
                taken(port)
            ))
        };
        if let CellElement::Other(_) = port.element {
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

    /// Runs the model to determine its output types, and if rows can be combined.
    fn probe(self: &Arc<Self>, inputs: Vec<BoundInput>, outputs: &[&ModelPort]) -> Result<BoundModel, Error> {
        let model = self.model.get()?;
        let output = |port: &&ModelPort| BoundOutput {
            name: port.name.clone(),
            element: port.element,
            tensor_type: TensorType::scalar(),
        };
        let outputs: Vec<BoundOutput> = outputs.iter().map(output).collect();
        let mut plan = RunPlan { evaluator: Arc::clone(self), inputs, outputs, is_batched: false };
        let grant = RunGrant::spreading();
        let terms =
            ModelRunOptions::new(&grant, RunMemory::Returned).map_err(|error| self.jobs.fail(error))?;
        let one = plan.row(1);
        let first = match plan.raw(&model, &one, 0..1, &terms) {
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
            let mut rows = one;
            rows.append(&plan.row(2));
            if let (Ok(second), Ok(both)) =
                (plan.raw(&model, &rows, 1..2, &terms), plan.raw(&model, &rows, 0..2, &terms))
            {
                plan.is_batched =
                    first.iter().zip(&second).zip(&both).all(|((one, two), both)| is_both(one, two, both));
            }
        }
        let types = plan.outputs.iter().map(|output| output.tensor_type.clone()).collect();
        Ok(BoundModel { plan: Arc::new(plan), types })
    }

    /// True if the file does not fix the number of rows.
    fn may_batch(&self, plan: &RunPlan, outputs: &[(Vec<usize>, TensorCells)]) -> bool {
        let open = |ports: &[ModelPort], name: &str| {
            ports.iter().any(|port| port.name == name && port.shape.first() == Some(&None))
        };
        plan.inputs.iter().all(|input| open(&self.inputs, &input.name) && input.shape.first() == Some(&1))
            && plan.outputs.iter().all(|output| open(&self.outputs, &output.name))
            && outputs.iter().all(|(shape, _)| shape.first() == Some(&1))
    }
}

/// A type that an input accepts, with examples for free sizes.
fn taken(port: &ModelPort) -> String {
    let size = |at: usize| port.shape.get(at).copied().flatten().unwrap_or(if at == 0 { 1 } else { 8 });
    let dimensions: Vec<String> = (0..port.shape.len()).map(|at| format!("d{at}[{}]", size(at))).collect();
    format!("a type such as tensor<float>({})", dimensions.join(","))
}

/// True if the output of two rows together equals their separate outputs.
fn is_both(
    one: &(Vec<usize>, TensorCells),
    two: &(Vec<usize>, TensorCells),
    both: &(Vec<usize>, TensorCells),
) -> bool {
    const TOLERANCE: f64 = 1e-3;
    let separate = one.1.iter().chain(two.1.iter());
    let like =
        |(a, b): (f64, f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * (1.0 + a.abs());
    both.0.first() == Some(&2)
        && both.0.get(1..) == one.0.get(1..)
        && both.1.len() == one.1.len() + two.1.len()
        && separate.zip(both.1.iter()).all(like)
}

impl RunPlan {
    /// Number of cells of one row.
    fn cells(&self) -> usize {
        self.inputs.iter().map(BoundInput::size).sum()
    }

    /// A row of small numbers, different for each seed. Token ids are 0 and 1, which every vocabulary has.
    fn row(&self, seed: usize) -> ModelRows {
        let cell = |input: &BoundInput, at: usize| match input.element {
            CellElement::Float | CellElement::Double => ((at * 7 + seed * 3) % 11) as f64 / 11.0,
            _ if seed == 1 => 1.0,
            _ => f64::from(u8::from(at.is_multiple_of(2))),
        };
        let cells = |input: &BoundInput| (0..input.size()).map(|at| cell(input, at)).collect();
        ModelRows { count: 1, inputs: self.inputs.iter().map(cells).collect() }
    }

    /// Makes one run over a range of rows; returns shape and cells of each output.
    fn raw(
        &self,
        model: &OnnxModel,
        rows: &ModelRows,
        range: Range<usize>,
        terms: &ModelRunOptions<'_>,
    ) -> ort::Result<Vec<(Vec<usize>, TensorCells)>> {
        let value = |input: &BoundInput, cells: &[f64]| {
            let mut shape = input.shape.clone();
            if let (Some(first), true) = (shape.first_mut(), range.len() > 1) {
                *first = range.len();
            }
            let size = input.size();
            let cells = cells.get(range.start * size..range.end * size).ok_or_else(|| {
                ort::Error::new(format!("the input '{}' has fewer cells than its rows", input.name))
            })?;
            values::value(input.element, shape, cells)
        };
        let inputs = self.inputs.iter().zip(&rows.inputs);
        let inputs = inputs
            .map(|(input, cells)| Ok((input.name.as_str(), value(input, cells)?)))
            .collect::<ort::Result<Vec<_>>>()?;
        let names: Vec<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        let values = model.run(&inputs, &names, terms)?;
        values.iter().zip(&self.outputs).map(|(value, output)| values::cells(value, output.element)).collect()
    }

    /// Adds the outputs of a range of rows to `found`.
    fn outputs(
        &self,
        model: &OnnxModel,
        rows: &ModelRows,
        range: Range<usize>,
        terms: &ModelRunOptions<'_>,
        found: &mut [TensorCells],
    ) -> ort::Result<()> {
        let outputs = self.raw(model, rows, range.clone(), terms)?;
        for (output, (_, cells)) in self.outputs.iter().zip(&outputs) {
            if cells.len() != output.tensor_type.dense_size() * range.len() {
                let reason = format!(
                    "its output '{}' has {} cells for {} rows of {}",
                    output.name,
                    cells.len(),
                    range.len(),
                    output.tensor_type
                );
                return Err(ort::Error::new(reason));
            }
        }
        for (found, (_, cells)) in found.iter_mut().zip(&outputs) {
            found.extend_from(cells, 0..cells.len());
        }
        Ok(())
    }

    /// Outputs without cells.
    fn no_outputs(&self, rows: usize) -> Vec<TensorCells> {
        let cells = |output: &BoundOutput| {
            let of = &output.tensor_type;
            TensorCells::with_capacity(of.cell(), of.dense_size() * rows)
        };
        self.outputs.iter().map(cells).collect()
    }

    /// Outputs of a range of rows, up to `rows_max` per run. If a run fails, each of its rows runs alone;
    /// rows that fail alone become NaN.
    fn all(
        &self,
        rows: &ModelRows,
        range: Range<usize>,
        rows_max: usize,
        grant: &RunGrant,
    ) -> Result<Vec<TensorCells>, Error> {
        let jobs = &self.evaluator.jobs;
        let model = self.evaluator.model.get()?;
        // Shared by all runs: when one is stopped, so are the others.
        let memory = RunMemory::of_size(self.cells(), RUN_CELLS);
        let terms = ModelRunOptions::new(grant, memory).map_err(|error| jobs.fail(error))?;
        let mut found = self.no_outputs(range.len());
        for first in range.clone().step_by(rows_max) {
            let together = first..range.end.min(first + rows_max);
            match self.outputs(&model, rows, together.clone(), &terms, &mut found) {
                Ok(()) => continue,
                Err(error) if grant.interrupt().raised() => return Err(jobs.fail(error)),
                Err(_) => {}
            }
            for row in together {
                match self.outputs(&model, rows, row..row + 1, &terms, &mut found) {
                    Ok(()) => {}
                    Err(error) if grant.interrupt().raised() => return Err(jobs.fail(error)),
                    Err(_) => {
                        jobs.failed();
                        found.iter_mut().zip(&self.outputs).for_each(|(found, output)| {
                            (0..output.tensor_type.dense_size()).for_each(|_| found.push(f64::NAN));
                        });
                    }
                }
            }
        }
        Ok(found)
    }
}

impl BoundInput {
    /// Number of cells of one row.
    fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

impl BoundModel {
    /// Types of the outputs, in the requested order.
    pub fn output_types(&self) -> &[TensorType] {
        &self.types
    }

    /// True if a run may have several rows.
    pub fn is_batched(&self) -> bool {
        self.plan.is_batched
    }

    /// Outputs of all rows: for each output, in the requested order, the cells of all rows, one row after
    /// another. If the model fails on a row, all its cells are NaN (0 for int8). `stop` is called from time
    /// to time; once it returns true, the runs end.
    ///
    /// # Errors
    /// [`Error::Deadline`] if `stop` returned true, [`Error::Overloaded`] if the queue is full; also if the
    /// model cannot be loaded again.
    pub fn run(&self, rows: ModelRows, stop: &dyn Fn() -> bool) -> Result<Vec<TensorCells>, Error> {
        // As many parts as run in parallel, or a multiple, none larger than a run's maximum. Rows that cannot
        // share a run still share an entry in the queue.
        let slots = self.plan.evaluator.jobs.slots();
        let cells = rows.count.saturating_mul(self.plan.cells());
        let parts = cells.div_ceil(RUN_CELLS).next_multiple_of(slots).min(cells.div_ceil(PART_CELLS));
        let together = rows.count.div_ceil(parts.max(1)).max(1);
        let rows_max = if self.plan.is_batched { together } else { 1 };
        let rows = Arc::new(rows);
        let job = |first: usize| {
            let range = first..rows.count.min(first + together);
            let (plan, rows) = (Arc::clone(&self.plan), Arc::clone(&rows));
            ModelJob {
                rows: range.len(),
                work: Box::new(move |grant: &RunGrant| plan.all(&rows, range, rows_max, grant)),
            }
        };
        let jobs = (0..rows.count).step_by(together).map(job).collect();
        let mut all = self.plan.no_outputs(rows.count);
        for part in self.plan.evaluator.jobs.run(jobs, stop)? {
            all.iter_mut().zip(&part).for_each(|(all, part)| all.extend_from(part, 0..part.len()));
        }
        Ok(all)
    }
}
