//! ONNX models in profiles: the traits behind which they run, and their inputs.
//!
//! A model's output is a feature, but it is not computed together with the others. Before a phase runs, the
//! inputs of all its hits are collected, and the model runs over all of them at once. Its output is kept per
//! hit until the phase reads it.

use std::sync::Arc;

use millrace_schema::OnnxModelConfig;
use millrace_tensor::{TensorCells, TensorType};

use crate::compile::CompiledExpression;
use crate::{Error, RankedHit};

/// Source of a profile's models.
pub trait ModelSource {
    /// Loads the model of an `onnx-model` block.
    ///
    /// # Errors
    /// The model cannot be used; the text gives the reason.
    fn open(&self, name: &str, model: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error>;
}

/// A loaded model, with the names of its inputs and outputs. Binding adds the types that a profile gives
/// them.
pub trait RankModelFile: Send + Sync {
    /// Names of the inputs.
    fn inputs(&self) -> Vec<String>;

    /// Names of the outputs.
    fn outputs(&self) -> Vec<String>;

    /// Binds the model to the types of its inputs and to the wanted output.
    ///
    /// # Errors
    /// The model's own inputs and outputs differ from the requested ones; the text states both.
    fn bind(
        &self,
        inputs: &[(&str, &TensorType)],
        output: &str,
    ) -> Result<Arc<dyn RankModelEvaluation>, Error>;
}

/// A model bound to its inputs and to one of its outputs. Requests share it.
pub trait RankModelEvaluation: Send + Sync {
    /// Type of the output for one row.
    fn tensor_type(&self) -> TensorType;

    /// Computes the outputs of all rows: their cells, one row after another. If the model fails on a row, its
    /// cells are NaN. `stop` is called from time to time; once it returns true, the run ends.
    ///
    /// # Errors
    /// The model was not run, or was stopped: there is no output for any row.
    fn run(&self, rows: ModelInputRows, stop: &dyn Fn() -> bool) -> Result<TensorCells, ModelFailure>;
}

/// Inputs of a model for the hits of a phase.
#[derive(Debug, Clone)]
pub struct ModelInputRows {
    /// Number of rows.
    pub count: usize,
    /// For each input, in the order in which they were bound, the cells of all rows, one row after another.
    pub inputs: Vec<Vec<f64>>,
}

/// The reason for missing model output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFailure {
    /// The run was stopped.
    Stopped,
    /// The queue is full.
    Overloaded(String),
    /// The model cannot run.
    Failed(String),
}

/// An environment without models: profiles that use a model are rejected.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl ModelSource for NoModels {
    fn open(&self, name: &str, _: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error> {
        Err(Error::setup(format!("onnx-model {name}: models are not evaluated here")))
    }
}

/// A model's output as a profile uses it.
pub(crate) struct ModelStep {
    pub evaluation: Arc<dyn RankModelEvaluation>,
    /// Compiled expression of each input.
    pub inputs: Vec<CompiledExpression>,
    /// Index of the output among the profile's features.
    pub feature: usize,
}

/// Output of a model for hits.
#[derive(Debug, Default)]
pub(crate) struct ModelOutputs {
    /// Rows of the documents, ordered by chunk and document.
    rows: Vec<OutputRow>,
    /// Cells of all rows; `None` before the model has run.
    cells: Option<TensorCells>,
}

/// Row of the output that belongs to a document.
#[derive(Debug)]
struct OutputRow {
    chunk: usize,
    document: u16,
    row: usize,
}

impl ModelOutputs {
    /// Outputs of these hits, in their order.
    pub fn new(hits: &[RankedHit], cells: TensorCells) -> Self {
        let row =
            |(row, hit): (usize, &RankedHit)| OutputRow { chunk: hit.chunk, document: hit.document, row };
        let mut rows: Vec<OutputRow> = hits.iter().enumerate().map(row).collect();
        rows.sort_unstable_by_key(|row| (row.chunk, row.document));
        ModelOutputs { rows, cells: Some(cells) }
    }

    /// Memory that they take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.rows) + self.cells.as_ref().map_or(0, |cells| cells.as_bytes().len())
    }

    /// Cells of these documents of a chunk, `width` for each, in their order; NaN for others than hits. The
    /// documents ascend.
    pub fn write(&self, chunk: usize, documents: &[u16], width: usize, out: &mut TensorCells) {
        let first = self.rows.partition_point(|row| row.chunk < chunk);
        // Before a phase over all matches, the outputs of a chunk are one after another.
        if let (Some(cells), Some(rows)) = (&self.cells, self.rows[first..].get(..documents.len()))
            && let Some(OutputRow { row: first, .. }) = rows.first()
            && rows
                .iter()
                .zip(documents)
                .zip(*first..)
                .all(|((row, document), next)| (row.chunk, row.document, row.row) == (chunk, *document, next))
        {
            out.extend_from(cells, first * width..(first + documents.len()) * width);
            return;
        }
        let mut rows = self.rows[first..].iter().take_while(|row| row.chunk == chunk).peekable();
        for document in documents {
            while rows.next_if(|row| row.document < *document).is_some() {}
            match (rows.peek().filter(|row| row.document == *document), &self.cells) {
                (Some(row), Some(cells)) => out.extend_from(cells, row.row * width..(row.row + 1) * width),
                _ => (0..width).for_each(|_| out.push(f64::NAN)),
            }
        }
    }
}

/// Resolves an output by its alias in expressions or by its own name; the first output if no name is given.
pub(crate) fn output_name(
    declared: &OnnxModelConfig,
    model: &dyn RankModelFile,
    asked: Option<&str>,
) -> Result<String, Error> {
    let outputs = model.outputs();
    let Some(asked) = asked else {
        let first = declared.outputs.first().map(|(onnx, _)| onnx.clone());
        return first
            .or_else(|| outputs.first().cloned())
            .ok_or_else(|| Error::setup("the model has no output"));
    };
    let declared_as = declared.outputs.iter().find(|(_, name)| name == asked).map(|(onnx, _)| onnx.clone());
    let own = || outputs.iter().find(|name| plain(name) == asked).cloned();
    declared_as.or_else(own).ok_or_else(|| {
        let names = declared.outputs.iter().map(|(_, name)| name.clone());
        let known: Vec<String> = names.chain(outputs.iter().map(|name| plain(name))).collect();
        Error::setup(format!("no output '{asked}', only {}", known.join(", ")))
    })
}

/// A name with the characters that expressions allow.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
