//! A model file in ONNX Runtime: its signature, and its runs.

use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Instant;

use ort::AsPointer as _;
use ort::ep::CUDA;
use ort::logging::LogLevel;
use ort::session::builder::{PrepackedWeights, SessionBuilder};
use ort::session::{NoSelectedOutputs, RunOptions, Session};
use ort::value::{DynValue, Outlet, TensorElementType, ValueType};

use crate::weights::{FileWeights, check_self_contained};
use crate::{Error, RunGrant, runtime};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPort {
    /// Name of the port.
    pub name: String,
    /// Type of the cells.
    pub element: CellElement,
    /// Dimensions; `None` for any size.
    pub shape: Vec<Option<usize>>,
    /// Names of the dimensions, for messages; empty for unnamed ones.
    pub(crate) symbols: Vec<String>,
}

/// Type of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellElement {
    /// 32-bit floats.
    Float,
    /// 64-bit floats.
    Double,
    /// 64-bit integers.
    Int64,
    /// 32-bit integers.
    Int32,
    /// Signed bytes.
    Int8,
    /// Bytes.
    Uint8,
    /// True or false.
    Bool,
    /// Another type, which is not supported.
    Other(&'static str),
}

impl fmt::Display for CellElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CellElement::Float => "float",
            CellElement::Double => "double",
            CellElement::Int64 => "int64",
            CellElement::Int32 => "int32",
            CellElement::Int8 => "int8",
            CellElement::Uint8 => "uint8",
            CellElement::Bool => "bool",
            CellElement::Other(name) => name,
        })
    }
}

impl fmt::Display for ModelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}[", self.name, self.element)?;
        for (at, size) in self.shape.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let symbol = self.symbols.get(at).filter(|symbol| !symbol.is_empty());
            match (size, symbol) {
                (Some(size), _) => write!(f, "{separator}{size}")?,
                (None, Some(symbol)) => write!(f, "{separator}{symbol}")?,
                (None, None) => write!(f, "{separator}?")?,
            }
        }
        f.write_str("]")
    }
}

impl ModelPort {
    fn new(outlet: &Outlet) -> Self {
        let name = outlet.name().to_owned();
        match outlet.dtype() {
            ValueType::Tensor { ty, shape, dimension_symbols } => ModelPort {
                name,
                element: element(*ty),
                shape: shape.iter().map(|&size| usize::try_from(size).ok()).collect(),
                symbols: dimension_symbols.iter().map(|symbol| symbol.to_string()).collect(),
            },
            _ => ModelPort {
                name,
                element: CellElement::Other("a sequence or map"),
                shape: Vec::new(),
                symbols: Vec::new(),
            },
        }
    }
}

/// Text of ports, for messages.
pub(crate) fn list(ports: &[ModelPort]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn element(ty: TensorElementType) -> CellElement {
    match ty {
        TensorElementType::Float32 => CellElement::Float,
        TensorElementType::Float64 => CellElement::Double,
        TensorElementType::Int64 => CellElement::Int64,
        TensorElementType::Int32 => CellElement::Int32,
        TensorElementType::Int8 => CellElement::Int8,
        TensorElementType::Uint8 => CellElement::Uint8,
        TensorElementType::Bool => CellElement::Bool,
        TensorElementType::Float16 => CellElement::Other("float16"),
        TensorElementType::Bfloat16 => CellElement::Other("bfloat16"),
        TensorElementType::String => CellElement::Other("string"),
        _ => CellElement::Other("another type"),
    }
}

/// Thread settings from services.xml; by default all models share threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelThreads {
    /// Number of dedicated threads within an operation.
    pub intra_op: Option<usize>,
    /// Number of dedicated threads for parallel operations.
    pub inter_op: Option<usize>,
    /// Order of operations.
    pub mode: ExecutionMode,
    /// Number of the GPU to use, if there is one and ONNX Runtime supports it.
    pub gpu_device: Option<i32>,
}

/// Order of operations that do not depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionMode {
    /// One after another.
    #[default]
    Sequential,
    /// In parallel.
    Parallel,
}

impl ModelThreads {
    /// True if anything differs from the shared threads.
    fn own(self) -> bool {
        self.intra_op.is_some() || self.inter_op.is_some() || self.mode == ExecutionMode::Parallel
    }
}

/// A loaded model. Any number of threads may run it at the same time.
///
/// If its weights can be shared, two sessions use them; each run selects one of the two.
pub(crate) struct OnnxModel {
    /// Session whose runs spread over the shared threads, or over dedicated ones.
    spread: Session,
    /// Number of these threads.
    threads: usize,
    /// Session whose runs stay on the calling thread.
    alone: Option<Session>,
    /// Weights used by both; declared after the sessions, so that it is dropped after them.
    _weights: Option<FileWeights>,
    path: PathBuf,
    pub inputs: Vec<ModelPort>,
    pub outputs: Vec<ModelPort>,
}

impl OnnxModel {
    /// Loads a file.
    pub fn load(path: &Path, threads: ModelThreads) -> Result<Self, Error> {
        runtime::load()?;
        let fail = |reason: String| Error::Load { path: path.to_owned(), reason };
        check_self_contained(path).map_err(|fault| fail(fault.to_string()))?;
        let sharable = !threads.own() && threads.gpu_device.is_none() && runtime::threads() > 1;
        let weights = if sharable { FileWeights::map(path) } else { None };
        let packed = PrepackedWeights::new();
        let build = |threads| build(path, threads, weights.as_ref(), &packed);
        let spread = build(threads).map_err(|error| fail(error.to_string()))?;
        let one_thread = ModelThreads { intra_op: Some(1), ..threads };
        let alone = weights.is_some().then(|| build(one_thread)).transpose();
        weights.as_ref().inspect(|weights| weights.rest());
        runtime::trim();
        let ports = |outlets: &[Outlet]| outlets.iter().map(ModelPort::new).collect();
        Ok(OnnxModel {
            inputs: ports(spread.inputs()),
            outputs: ports(spread.outputs()),
            spread,
            threads: if threads.own() { threads.intra_op.unwrap_or(1) } else { runtime::threads() },
            alone: alone.map_err(|error| fail(error.to_string()))?,
            _weights: weights,
            path: path.to_owned(),
        })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the model and returns these outputs, in this order. Names are those of the model.
    pub fn run(
        &self,
        inputs: &[(&str, DynValue)],
        outputs: &[&str],
        terms: &ModelRunOptions<'_>,
    ) -> ort::Result<Vec<DynValue>> {
        let (session, threads) = match &self.alone {
            Some(alone) if !terms.grant.spreads() => (alone, 1),
            _ => (&self.spread, self.threads),
        };
        let input_names = inputs.iter().map(|(name, _)| c_string(name)).collect::<ort::Result<Vec<_>>>()?;
        let output_names = outputs.iter().map(|name| c_string(name)).collect::<ort::Result<Vec<_>>>()?;
        let pointers = |names: &[CString]| names.iter().map(|name| name.as_ptr()).collect::<Vec<_>>();
        let (input_pointers, output_pointers) = (pointers(&input_names), pointers(&output_names));
        let values: Vec<_> = inputs.iter().map(|(_, value)| value.ptr()).collect();
        let mut results = vec![ptr::null_mut(); outputs.len()];
        let began = Instant::now();
        // SAFETY: ONNX Runtime documents that any number of threads may call Run on one session; `ort` is
        // stricter because of execution providers that are not used here. The pointers refer to values that
        // live until the call returns, and the counts are correct; `results` has an entry for each named
        // output.
        unsafe {
            ort::Error::result_from_status((ort::api().Run)(
                session.ptr().cast_mut(),
                terms.options.ptr(),
                input_pointers.as_ptr(),
                values.as_ptr(),
                values.len(),
                output_pointers.as_ptr(),
                output_pointers.len(),
                results.as_mut_ptr(),
            ))?;
        }
        terms.grant.note(threads, began.elapsed());
        let own = |result| {
            let result = NonNull::new(result).ok_or_else(|| ort::Error::new("the run gave no output"))?;
            // SAFETY: the run succeeded, so this is a value without another owner; it keeps the session
            // alive.
            Ok(unsafe { DynValue::from_ptr(result, Some(Arc::clone(&session.inner()))) })
        };
        results.into_iter().map(own).collect()
    }
}

/// Memory that a run uses beside that of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMemory {
    /// Kept for later runs.
    Kept,
    /// Returned to the system after the run.
    Returned,
}

impl RunMemory {
    /// Memory of a run over `size` values: that of a run over more than `size_max` is returned.
    pub fn of_size(size: usize, size_max: usize) -> Self {
        if size > size_max { RunMemory::Returned } else { RunMemory::Kept }
    }
}

/// Conditions under which a model runs, once or several times.
pub(crate) struct ModelRunOptions<'g> {
    options: Arc<RunOptions<NoSelectedOutputs>>,
    grant: &'g RunGrant,
}

impl<'g> ModelRunOptions<'g> {
    /// Conditions for runs that end when no caller waits for them.
    pub fn new(grant: &'g RunGrant, memory: RunMemory) -> ort::Result<Self> {
        let mut options = RunOptions::new()?;
        if memory == RunMemory::Returned {
            options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
        }
        let options = Arc::new(options);
        let terminate = Arc::clone(&options);
        grant.interrupt().install(move || {
            // A run that cannot be stopped ends by itself, only later.
            let _ = terminate.terminate();
        });
        Ok(ModelRunOptions { options, grant })
    }
}

fn c_string(name: &str) -> ort::Result<CString> {
    CString::new(name).map_err(|_| ort::Error::new("a name holds a zero byte"))
}

fn build(
    path: &Path,
    threads: ModelThreads,
    weights: Option<&FileWeights>,
    packed: &PrepackedWeights,
) -> ort::Result<Session> {
    // Failures are returned as errors, and reported once.
    let mut builder = Session::builder()?.with_log_level(LogLevel::Fatal)?;
    if let Some(weights) = weights {
        builder = weights.values.iter().try_fold(
            builder,
            |builder, (name, value)| -> ort::Result<SessionBuilder> {
                Ok(builder.with_initializer(name, Arc::clone(value))?)
            },
        )?;
        builder = builder.with_prepacked_weights(packed)?;
    }
    if threads.own() {
        builder = builder
            .with_independent_thread_pool()?
            .with_intra_op_spinning(false)?
            .with_inter_op_spinning(false)?
            .with_intra_threads(threads.intra_op.unwrap_or(1))?
            .with_inter_threads(threads.inter_op.unwrap_or(1))?
            .with_parallel_execution(threads.mode == ExecutionMode::Parallel)?;
    }
    if let Some(device) = threads.gpu_device {
        let cuda = CUDA::default().with_device_id(device).build().error_on_failure();
        builder = match builder.with_execution_providers([cuda]) {
            Ok(builder) => builder,
            Err(error) => {
                tracing::warn!(path = %path.display(), device, "the model runs on the processor: {error}");
                error.recover()
            }
        };
    }
    builder.commit_from_file(path)
}

#[cfg(test)]
mod tests {
    use ort::value::Tensor;

    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/wide.onnx");

    /// The file's only output for a row of ones.
    fn score(model: &OnnxModel, grant: &RunGrant) -> Vec<f32> {
        let row = Tensor::from_array(([1, 64], vec![1.0_f32; 64])).expect("a value").into_dyn();
        let terms = ModelRunOptions::new(grant, RunMemory::Kept).expect("options");
        let outputs = model.run(&[("features", row)], &["score"], &terms).expect("it runs");
        outputs[0].try_extract_tensor::<f32>().expect("floats").1.to_vec()
    }

    #[test]
    fn a_run_spreads_or_keeps_to_its_thread_over_the_same_weights() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/onnxruntime");
        let fetched = std::process::Command::new(script).status().expect("the script runs");
        assert!(fetched.success(), "ONNX Runtime is not there and cannot be fetched");
        let expected: Vec<f32> = (0..64).map(|i| 64.0 * i as f32).collect();
        let model = OnnxModel::load(Path::new(FILE), ModelThreads::default()).expect("a model");
        assert_eq!(model.alone.is_some(), runtime::threads() > 1);
        for (spread, threads) in [(true, runtime::threads()), (false, 1)] {
            let grant = RunGrant::new(spread);
            assert_eq!(score(&model, &grant), expected, "{spread}");
            assert_eq!(grant.spent().threads, threads);
        }
        let own = ModelThreads { intra_op: Some(3), ..ModelThreads::default() };
        let model = OnnxModel::load(Path::new(FILE), own).expect("a model");
        assert!(model.alone.is_none());
        let grant = RunGrant::default();
        assert_eq!((score(&model, &grant), grant.spent().threads), (expected, 3));
    }
}
