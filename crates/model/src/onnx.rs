//! A model file in ONNX Runtime: what it takes and gives, and running it.

use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ort::AsPointer as _;
use ort::logging::LogLevel;
use ort::session::{NoSelectedOutputs, RunOptions, Session};
use ort::value::{DynValue, Outlet, Tensor, TensorElementType, ValueType};

use crate::{Error, runtime};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The type of its cells.
    pub element: Element,
    /// Its dimensions; `None` where any size goes.
    pub shape: Vec<Option<usize>>,
    /// The names of its dimensions, for messages; empty where they have none.
    symbols: Vec<String>,
}

/// The type of the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    Float,
    /// 64-bit integers.
    Int64,
    /// Something else, which nothing here works with.
    Other(&'static str),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::Float => "float",
            Element::Int64 => "int64",
            Element::Other(name) => name,
        })
    }
}

impl fmt::Display for Port {
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

impl Port {
    fn new(outlet: &Outlet) -> Self {
        let name = outlet.name().to_owned();
        match outlet.dtype() {
            ValueType::Tensor { ty, shape, dimension_symbols } => Port {
                name,
                element: element(*ty),
                shape: shape.iter().map(|&size| usize::try_from(size).ok()).collect(),
                symbols: dimension_symbols.iter().map(|symbol| symbol.to_string()).collect(),
            },
            _ => Port {
                name,
                element: Element::Other("a sequence or map"),
                shape: Vec::new(),
                symbols: Vec::new(),
            },
        }
    }
}

fn element(ty: TensorElementType) -> Element {
    match ty {
        TensorElementType::Float32 => Element::Float,
        TensorElementType::Int64 => Element::Int64,
        TensorElementType::Float16 => Element::Other("float16"),
        TensorElementType::Bfloat16 => Element::Other("bfloat16"),
        TensorElementType::Float64 => Element::Other("double"),
        TensorElementType::Int32 => Element::Other("int32"),
        TensorElementType::Bool => Element::Other("bool"),
        TensorElementType::String => Element::Other("string"),
        _ => Element::Other("another type"),
    }
}

/// How a model is executed when services.xml says so; the default shares the threads of all models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// Threads of its own for the parts of an operation.
    pub intra_op: Option<usize>,
    /// Threads of its own for operations side by side.
    pub inter_op: Option<usize>,
    /// Whether operations run side by side.
    pub mode: ExecutionMode,
}

/// Whether operations that do not depend on each other run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionMode {
    /// One after another.
    #[default]
    Sequential,
    /// Side by side.
    Parallel,
}

impl Threads {
    /// Whether anything differs from the shared threads.
    fn own(self) -> bool {
        self.intra_op.is_some() || self.inter_op.is_some() || self.mode == ExecutionMode::Parallel
    }
}

/// A loaded model. Any number of threads may run it at the same time.
pub(crate) struct OnnxModel {
    session: Session,
    path: PathBuf,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl OnnxModel {
    /// Reads a file.
    pub fn load(path: &Path, threads: Threads) -> Result<Self, Error> {
        runtime::load()?;
        let fail = |reason: String| Error::Load { path: path.to_owned(), reason };
        let session = build(path, threads).map_err(|error| fail(error.to_string()))?;
        let ports = |outlets: &[Outlet]| outlets.iter().map(Port::new).collect();
        Ok(OnnxModel {
            inputs: ports(session.inputs()),
            outputs: ports(session.outputs()),
            session,
            path: path.to_owned(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the model over matrices of integers with these sizes, and gives one output: its shape and its cells.
    pub fn run(
        &self,
        inputs: Vec<(&str, Vec<i64>)>,
        sizes: [usize; 2],
        output: &str,
        options: &RunOptions<NoSelectedOutputs>,
    ) -> ort::Result<(Vec<usize>, Vec<f32>)> {
        let mut names = Vec::with_capacity(inputs.len());
        let mut values = Vec::with_capacity(inputs.len());
        for (name, cells) in inputs {
            names.push(c_string(name)?);
            values.push(Tensor::from_array((sizes, cells))?);
        }
        let output = self.call(&names, &values, &c_string(output)?, options)?;
        let (shape, cells) = output.try_extract_tensor::<f32>()?;
        let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        Ok((shape, cells.to_vec()))
    }

    /// `OrtApi::Run`, without the exclusive reference that `ort`'s own method wants.
    fn call(
        &self,
        names: &[CString],
        values: &[Tensor<i64>],
        output: &CString,
        options: &RunOptions<NoSelectedOutputs>,
    ) -> ort::Result<DynValue> {
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let values: Vec<_> = values.iter().map(ort::AsPointer::ptr).collect();
        let mut result = ptr::null_mut();
        // SAFETY: ONNX Runtime documents that any number of threads may call Run on one session; `ort` is stricter for the sake of
        // execution providers that are not used here. The pointers are to values that live until the call returns, as many as
        // their number says; `result` is one place for the one output that is named.
        unsafe {
            ort::Error::result_from_status((ort::api().Run)(
                self.session.ptr().cast_mut(),
                options.ptr(),
                names.as_ptr(),
                values.as_ptr(),
                values.len(),
                &output.as_ptr(),
                1,
                &mut result,
            ))?;
        }
        let result = NonNull::new(result).ok_or_else(|| ort::Error::new("the run gave no output"))?;
        // SAFETY: the run succeeded, so this is a value that nobody else owns; it keeps the session alive.
        Ok(unsafe { DynValue::from_ptr(result, Some(Arc::clone(&self.session.inner()))) })
    }
}

fn c_string(name: &str) -> ort::Result<CString> {
    CString::new(name).map_err(|_| ort::Error::new("a name holds a zero byte"))
}

fn build(path: &Path, threads: Threads) -> ort::Result<Session> {
    // What goes wrong comes back as an error, and is told once.
    let mut builder = Session::builder()?.with_log_level(LogLevel::Fatal)?;
    if threads.own() {
        builder = builder
            .with_independent_thread_pool()?
            .with_intra_op_spinning(false)?
            .with_inter_op_spinning(false)?
            .with_intra_threads(threads.intra_op.unwrap_or(1))?
            .with_inter_threads(threads.inter_op.unwrap_or(1))?
            .with_parallel_execution(threads.mode == ExecutionMode::Parallel)?;
    }
    builder.commit_from_file(path)
}
