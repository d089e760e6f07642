//! Transformer models over tokens: the file is checked once, then run over batches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ort::value::{DynValue, Tensor};

use crate::batch::BatchLimits;
use crate::lazy::LazyModel;
use crate::onnx::{ModelRunOptions, OnnxModel, RunMemory, list};
use crate::{
    CellElement, Error, ModelPort, ModelThreads, RunGrant, SequenceModel, SequenceStates, TokenizedText,
};

/// Number of cells in the states of a batch, one row per token: as many as stay in a core's own cache during
/// an operation. Larger batches are no faster per token.
const BATCH_CELLS: usize = 192 << 10;
/// Minimum and maximum number of tokens per batch, for any row width. From 256 on no measured model was
/// faster per token, and a caller that misses a long run waits for all of it.
const BATCH_TOKENS: (usize, usize) = (128, 256);

/// Properties that the user of a model requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderOptions {
    /// Name of the model, for messages.
    pub name: String,
    /// Name of the input for token ids.
    pub ids: String,
    /// Name of the input for the attention mask.
    pub mask: String,
    /// Name of the input for token types, if the model has one.
    pub types: Option<String>,
    /// Name of the output.
    pub output: String,
    /// Required number of dimensions of the output: 3 for a row per token, 2 if the model itself pools.
    pub output_rank: usize,
    /// Thread settings.
    pub threads: ModelThreads,
}

/// A loaded model that matches its options.
pub struct TextEncoder {
    model: OnnxModel,
    options: EncoderOptions,
    /// Fixed number of sequences of a run, if the file has one.
    batch: Option<usize>,
    length: Option<usize>,
}

impl TextEncoder {
    /// Loads a file and checks that it has these inputs and this output.
    ///
    /// # Errors
    /// [`Error::Load`] if the file is not a model, [`Error::Signature`] if names, types or shapes differ.
    pub fn load(path: &Path, options: EncoderOptions) -> Result<Self, Error> {
        let model = OnnxModel::load(path, options.threads)?;
        let check = ModelFileCheck { path: model.path(), inputs: &model.inputs, outputs: &model.outputs };
        let (batch, length) = check.inputs(&options)?;
        check.output(&options)?;
        Ok(TextEncoder { model, options, batch, length })
    }

    /// Number of cells of an output row, if the file fixes it.
    pub fn width(&self) -> Option<usize> {
        let output = self.model.outputs.iter().find(|port| port.name == self.options.output)?;
        output.shape.last().copied().flatten()
    }

    fn fail(&self, reason: impl ToString) -> Error {
        Error::Run { model: self.options.name.clone(), reason: reason.to_string() }
    }

    /// Runs the model; returns the output.
    fn output(&self, inputs: &[(&str, DynValue)], tokens: usize, grant: &RunGrant) -> ort::Result<DynValue> {
        let memory = RunMemory::of_size(tokens, self.limits().tokens);
        let terms = ModelRunOptions::new(grant, memory)?;
        let mut values = self.model.run(inputs, &[self.options.output.as_str()], &terms)?;
        values.pop().ok_or_else(|| ort::Error::new("the run gave no output"))
    }

    /// Extracts the states of one sequence from the output.
    fn states(
        &self,
        sequence: &TokenizedText,
        at: usize,
        shape: &[usize],
        cells: &[f32],
    ) -> Option<SequenceStates> {
        let width = *shape.last()?;
        let stride = shape.iter().skip(1).product::<usize>();
        let own = cells.get(at * stride..(at + 1) * stride)?;
        let used = if shape.len() == 3 { sequence.len() * width } else { width };
        Some(SequenceStates { width, values: own.get(..used)?.to_vec() })
    }
}

impl SequenceModel for TextEncoder {
    fn run(&self, sequences: &[&TokenizedText], grant: &RunGrant) -> Result<Vec<SequenceStates>, Error> {
        let longest = sequences.iter().map(|sequence| sequence.len()).max().unwrap_or(0);
        let length = self.length.unwrap_or(longest);
        if longest == 0 {
            return Err(self.fail("the text has no tokens"));
        }
        if longest > length {
            return Err(self.fail(format!("the text has {longest} tokens, and it takes {length}")));
        }
        let rows = self.batch.unwrap_or(sequences.len());
        if sequences.len() > rows {
            return Err(self.fail(format!("{} texts at once, and it takes {rows}", sequences.len())));
        }
        let fill = |of: &dyn Fn(&TokenizedText, &mut [i64])| {
            let mut cells = vec![0_i64; rows * length];
            for (sequence, row) in sequences.iter().zip(cells.chunks_exact_mut(length)) {
                of(sequence, row);
            }
            cells
        };
        let matrix = |cells: Vec<i64>| -> Result<DynValue, Error> {
            let tensor = Tensor::from_array(([rows, length], cells)).map_err(|error| self.fail(error))?;
            Ok(tensor.into_dyn())
        };
        let ids = fill(&|from, row| row[..from.len()].copy_from_slice(&from.ids));
        let mask = fill(&|from, row| row[..from.len().saturating_sub(from.unattended)].fill(1));
        let mut inputs =
            vec![(self.options.ids.as_str(), matrix(ids)?), (self.options.mask.as_str(), matrix(mask)?)];
        if let Some(types) = &self.options.types {
            let cells = fill(&|from, row| {
                let known = from.types.len().min(row.len());
                row[..known].copy_from_slice(&from.types[..known]);
            });
            inputs.push((types.as_str(), matrix(cells)?));
        }
        let output = self.output(&inputs, rows * length, grant).map_err(|error| self.fail(error))?;
        let (shape, cells) = output.try_extract_tensor::<f32>().map_err(|error| self.fail(error))?;
        let shape: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        if shape.len() != self.options.output_rank {
            return Err(self.fail(format!("its output has the shape {shape:?}")));
        }
        let states = |(at, sequence): (usize, &&TokenizedText)| self.states(sequence, at, &shape, cells);
        sequences.iter().enumerate().map(states).collect::<Option<_>>().ok_or_else(|| {
            self.fail(format!("its output has the shape {shape:?} for {rows} texts of {length} tokens"))
        })
    }

    fn limits(&self) -> BatchLimits {
        let tokens = BATCH_CELLS / self.width().unwrap_or(1).max(1);
        BatchLimits {
            tokens: tokens.clamp(BATCH_TOKENS.0, BATCH_TOKENS.1),
            sequences: self.batch.unwrap_or(usize::MAX),
        }
    }
}

/// Comparison of a file with the requirements.
struct ModelFileCheck<'a> {
    path: &'a Path,
    inputs: &'a [ModelPort],
    outputs: &'a [ModelPort],
}

impl ModelFileCheck<'_> {
    fn fail<T>(&self, reason: String) -> Result<T, Error> {
        Err(Error::Signature { path: PathBuf::from(self.path), reason })
    }

    /// Sizes of the two dimensions, if they are fixed.
    fn inputs(&self, options: &EncoderOptions) -> Result<(Option<usize>, Option<usize>), Error> {
        let wanted: Vec<&String> = [&options.ids, &options.mask].into_iter().chain(&options.types).collect();
        let mut sizes = (None, None);
        for name in &wanted {
            let Some(port) = self.inputs.iter().find(|port| port.name == **name) else {
                return self.fail(format!(
                    "Model does not contain required input: '{name}'. Model contains: {}",
                    list(self.inputs)
                ));
            };
            match (port.element, port.shape.as_slice()) {
                (CellElement::Int64, &[batch, length]) => {
                    sizes = (sizes.0.or(batch), sizes.1.or(length));
                }
                _ => {
                    return self
                        .fail(format!("expected an input '{name}' int64[batch,sequence], found {port}"));
                }
            }
        }
        match self.inputs.iter().find(|port| !wanted.contains(&&port.name)) {
            None => Ok(sizes),
            Some(port) => self.fail(format!(
                "the model needs an input {port}, and only {} are given",
                wanted.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    fn output(&self, options: &EncoderOptions) -> Result<(), Error> {
        let name = &options.output;
        let Some(port) = self.outputs.iter().find(|port| port.name == *name) else {
            return self.fail(format!(
                "Model does not contain required output: '{name}'. Model contains: {}",
                list(self.outputs)
            ));
        };
        let expected = if options.output_rank == 3 { "[batch,sequence,cells]" } else { "[batch,cells]" };
        if port.element != CellElement::Float || port.shape.len() != options.output_rank {
            return self.fail(format!("expected an output '{name}' float{expected}, found {port}"));
        }
        Ok(())
    }
}

/// An encoder that is in memory only while it is used.
pub struct LazyEncoder {
    encoder: LazyModel<TextEncoder>,
    limits: BatchLimits,
    width: Option<usize>,
}

impl LazyEncoder {
    /// Loads the model to check it, runs it once, and keeps it.
    ///
    /// # Errors
    /// The errors of [`TextEncoder::load`]; also if the model fails on a short text.
    pub fn new(path: PathBuf, options: EncoderOptions) -> Result<Self, Error> {
        let file = path.clone();
        let (lazy, encoder) = LazyModel::new(move || TextEncoder::load(&file, options.clone()))?;
        // Every vocabulary has these two tokens.
        let text = TokenizedText { ids: vec![0, 1], ..TokenizedText::default() };
        let states = encoder.run(&[&text], &RunGrant::default()).map_err(|error| {
            let reason = format!("it was tried with two tokens: {error}");
            Error::Signature { path, reason }
        })?;
        let width = states.first().map(|states| states.width);
        Ok(LazyEncoder { encoder: lazy, limits: encoder.limits(), width })
    }

    /// Number of cells of an output row.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Unloads the model if it was idle for this time; returns true if it was unloaded. A run in progress
    /// keeps it until it ends.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        self.encoder.unload_idle(idle)
    }

    /// True if the model is in memory; false while it is being loaded.
    pub fn is_loaded(&self) -> bool {
        self.encoder.is_loaded()
    }
}

impl SequenceModel for LazyEncoder {
    fn run(&self, sequences: &[&TokenizedText], grant: &RunGrant) -> Result<Vec<SequenceStates>, Error> {
        self.encoder.get()?.run(sequences, grant)
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }
}
