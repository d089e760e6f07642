//! Weights of a model file, mapped into memory, so that several sessions share them.
//!
//! ONNX Runtime shares a weight between sessions only if each session gets it by name; it then also shares
//! the packed form read by its matrix products. The file is therefore searched for its large weights. Only
//! those used by nothing but matrix products and look-ups are shared, because their kernels read from any
//! address, and a position in a file is not aligned. The pages belong to the file; once the packed form
//! exists, hardly any of them is accessed again.

mod external;
mod protobuf;

use std::collections::HashSet;
use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ort::AsPointer as _;
use ort::memory::MemoryInfo;
use ort::sys::ONNXTensorElementDataType as ElementType;
use ort::value::DynValue;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use protobuf::{ProtobufField, fields};

/// Minimum size of shared weights in bytes; smaller ones are left to each session.
const SHARED_BYTES_MIN: usize = 4096;
/// Weights are shared only if the unshared part of a file is at most the whole divided by this number.
const UNSHARED_PART: usize = 8;
/// Operators that read a weight from any address.
const READERS: [&str; 3] = ["MatMul", "Gemm", "Gather"];

/// Weights by name in the file.
pub(crate) struct FileWeights {
    /// Declared before the map that contains them, so that they are dropped first.
    pub values: Vec<(String, Arc<DynValue>)>,
    map: MappedFile,
}

impl FileWeights {
    /// Maps the weights of a file; `None` if too large a part of it cannot be shared.
    pub fn map(path: &Path) -> Option<Self> {
        let map = MappedFile::new(path).ok()?;
        let large = large_weights(map.bytes())?;
        let shared: usize = large.iter().map(|weight| weight.cells.len()).sum();
        if map.bytes().len() - shared > map.bytes().len() / UNSHARED_PART {
            return None;
        }
        let values = large.iter().map(|weight| Some((weight.name.to_owned(), Arc::new(weight.value()?))));
        let values = values.collect::<Option<Vec<_>>>()?;
        Some(FileWeights { values, map })
    }
}

/// Reason for which the weights of a model's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WeightFault {
    #[error("it cannot be read: {0}")]
    Unread(#[from] std::io::Error),
    #[error("it is not an ONNX model: its structure cannot be read")]
    Malformed,
    #[error(
        "it has weights in other files (external data), which are not opened; save it as one file \
         (onnx.save_model with save_as_external_data=False)"
    )]
    External,
}

/// Checks that a model's file has all of its weights in itself, so that loading it opens no other file.
///
/// # Errors
/// It names another file, or cannot be read.
pub(crate) fn check_self_contained(path: &Path) -> Result<(), WeightFault> {
    let map = MappedFile::new(path)?;
    external::check(map.bytes())
}

/// A weight as it stands in the file.
struct FileWeight<'m> {
    name: &'m str,
    element: ElementType,
    shape: Vec<i64>,
    cells: &'m [u8],
}

impl FileWeight<'_> {
    /// Creates a value that reads the file. It must not be used after the file is unmapped.
    fn value(&self) -> Option<DynValue> {
        let memory = MemoryInfo::default();
        let mut value = ptr::null_mut();
        // SAFETY: the cells have the given number of bytes, as the shape requires, which ONNX Runtime checks;
        // it only reads them.
        let made = unsafe {
            ort::Error::result_from_status((ort::api().CreateTensorWithDataAsOrtValue)(
                memory.ptr(),
                self.cells.as_ptr().cast_mut().cast::<c_void>(),
                self.cells.len(),
                self.shape.as_ptr(),
                self.shape.len(),
                self.element,
                &mut value,
            ))
        };
        made.ok()?;
        // SAFETY: the value was just created, and has no other owner.
        NonNull::new(value).map(|value| unsafe { DynValue::from_ptr(value, None) })
    }
}

/// Large weights of a model; `None` if the file is not a model, or has graphs in its nodes.
fn large_weights(model: &[u8]) -> Option<Vec<FileWeight<'_>>> {
    const MODEL_GRAPH: u64 = 7;
    const GRAPH_NODE: u64 = 1;
    const GRAPH_WEIGHT: u64 = 5;
    let graph = fields(model).find_map(|field| field.bytes_of(MODEL_GRAPH))?;
    let mut weights = Vec::new();
    let mut other_inputs = HashSet::new();
    for field in fields(graph) {
        if let Some(node) = field.bytes_of(GRAPH_NODE) {
            if has_graph(node) {
                return None;
            }
            add_inputs(node, &mut other_inputs);
        } else if let Some(tensor) = field.bytes_of(GRAPH_WEIGHT) {
            weights.extend(weight(tensor).filter(|weight| weight.cells.len() >= SHARED_BYTES_MIN));
        }
    }
    weights.retain(|weight| !other_inputs.contains(weight.name.as_bytes()));
    Some(weights)
}

/// True if a node has graphs of its own (If, Loop, Scan): the values that they read from outside are not
/// among its inputs.
fn has_graph(node: &[u8]) -> bool {
    const NODE_ATTRIBUTE: u64 = 5;
    const ATTRIBUTE_GRAPH: u64 = 6;
    const ATTRIBUTE_GRAPHS: u64 = 11;
    let mut attributes = fields(node).filter_map(|field| field.bytes_of(NODE_ATTRIBUTE));
    attributes.any(|attribute| {
        fields(attribute)
            .any(|field| field.bytes_of(ATTRIBUTE_GRAPH).or(field.bytes_of(ATTRIBUTE_GRAPHS)).is_some())
    })
}

/// Adds the inputs of a node, unless it reads weights from any address.
fn add_inputs<'m>(node: &'m [u8], names: &mut HashSet<&'m [u8]>) {
    const NODE_INPUT: u64 = 1;
    const NODE_OPERATOR: u64 = 4;
    let operator = fields(node).find_map(|field| field.bytes_of(NODE_OPERATOR));
    if !READERS.iter().any(|reader| operator == Some(reader.as_bytes())) {
        names.extend(fields(node).filter_map(|field| field.bytes_of(NODE_INPUT)));
    }
}

/// A weight of floating-point numbers or bytes whose cells have the same layout in the file and in memory.
fn weight(tensor: &[u8]) -> Option<FileWeight<'_>> {
    const DIMENSIONS: u64 = 1;
    const ELEMENT: u64 = 2;
    const NAME: u64 = 8;
    const CELLS: u64 = 9;
    let (mut name, mut element, mut cells, mut shape) = (None, 0, None, Vec::new());
    for field in fields(tensor) {
        match field {
            ProtobufField { number: DIMENSIONS, .. } => shape.extend(field.integers()),
            ProtobufField { number: ELEMENT, .. } => element = field.integers().next()?,
            ProtobufField { number: NAME, .. } => name = std::str::from_utf8(field.bytes_of(NAME)?).ok(),
            ProtobufField { number: CELLS, .. } => cells = field.bytes_of(CELLS),
            _ => {}
        }
    }
    let (element, size) = match element {
        1 => (ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, 4),
        2 => (ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, 1),
        3 => (ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 1),
        10 => (ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, 2),
        _ => return None,
    };
    let cells = cells?;
    let shape: Vec<i64> = shape.into_iter().map(i64::try_from).collect::<Result<_, _>>().ok()?;
    let count =
        shape.iter().try_fold(size, |count: usize, &side| count.checked_mul(usize::try_from(side).ok()?));
    (count == Some(cells.len())).then_some(FileWeight { name: name?, element, shape, cells })
}

impl FileWeights {
    /// Announces that the file was read, so that its pages may be discarded; pages that are used again are
    /// reloaded.
    pub fn rest(&self) {
        // SAFETY: the pages belong to a file and were not written to, so their content can be read again.
        let advised = unsafe { madvise(self.map.start, self.map.length, Advice::LinuxDontNeed) };
        debug_assert!(advised.is_ok(), "it is mapped with this place and length");
    }
}

/// A mapped file.
struct MappedFile {
    start: *mut c_void,
    length: usize,
}

// SAFETY: the pages are only read, and stay until the value is dropped.
unsafe impl Send for MappedFile {}
// SAFETY: the pages are only read, and stay until the value is dropped.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    fn new(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(std::io::Error::other)?;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced. Model files are replaced,
        // never written to.
        let start = unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, &file, 0)? };
        Ok(MappedFile { start, length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: this number of bytes is mapped there until the value is dropped.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the values that point into it were dropped before.
        let unmapped = unsafe { munmap(self.start, self.length) };
        debug_assert!(unmapped.is_ok(), "it was mapped with this place and length");
    }
}
