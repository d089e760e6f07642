use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::{DimensionKind, Error, Tensor, TensorCells};

/// JSON format of tensors: the values of `format.tensors` and `presentation.format.tensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFormat {
    /// Form of the content.
    pub shape: TensorShape,
    /// True to write only the content, false to write an object with the type.
    pub direct: bool,
    /// Form of the cells.
    pub numbers: CellNumbers,
}

/// Form of a tensor's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellNumbers {
    /// For readers of results: the fewest digits that distinguish the cell from others of its type, as `0.1`
    /// for a float, and `null` for numbers that JSON cannot represent.
    Shown,
    /// For readers that feed the tensor again: the fewest digits that distinguish the value from other
    /// doubles, as `0.10000000149011612` for a float of 0.1, and `"NaN"`, `"Infinity"`, `"-Infinity"`.
    Exact,
}

impl TensorFormat {
    /// The same format with another form of the cells.
    pub const fn with_numbers(self, numbers: CellNumbers) -> Self {
        TensorFormat { numbers, ..self }
    }
}

/// Form of a tensor's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorShape {
    /// The shortest form that the type allows.
    Short,
    /// A list of addressed cells.
    Long,
    /// Like [`TensorShape::Short`], with dense cells as hexadecimal digits.
    Hex,
}

impl Default for TensorFormat {
    fn default() -> Self {
        TensorFormat { shape: TensorShape::Short, direct: false, numbers: CellNumbers::Shown }
    }
}

impl FromStr for TensorFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let (shape, direct) = match name {
            "short" => (TensorShape::Short, false),
            "long" => (TensorShape::Long, false),
            "hex" => (TensorShape::Hex, false),
            "short-value" => (TensorShape::Short, true),
            "long-value" => (TensorShape::Long, true),
            "hex-value" => (TensorShape::Hex, true),
            _ => return Err(Error::Format(name.to_owned())),
        };
        Ok(TensorFormat { shape, direct, numbers: CellNumbers::Shown })
    }
}

impl Tensor {
    /// Returns this tensor for serialization as JSON in a format.
    pub const fn rendered(&self, format: TensorFormat) -> RenderedTensor<'_> {
        RenderedTensor { tensor: self, format }
    }
}

/// A tensor and its JSON format.
#[derive(Debug, Clone, Copy)]
pub struct RenderedTensor<'a> {
    tensor: &'a Tensor,
    format: TensorFormat,
}

impl Serialize for RenderedTensor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = RenderedContent { of: *self };
        if self.format.direct {
            return content.serialize(serializer);
        }
        let tensor_type = self.tensor.tensor_type();
        let key = match (self.format.shape, tensor_type.mapped().count(), tensor_type.indexed().count()) {
            (TensorShape::Long, ..) => "cells",
            (_, 0, _) => "values",
            (_, _, 0) => "cells",
            _ => "blocks",
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", &tensor_type.to_string())?;
        map.serialize_entry(key, &content)?;
        map.end()
    }
}

struct RenderedContent<'a> {
    of: RenderedTensor<'a>,
}

impl Serialize for RenderedContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tensor_type = self.of.tensor.tensor_type();
        let mapped = tensor_type.mapped().count();
        let block = |subspace| RenderedBlock { of: self.of, subspace };
        match (self.of.format.shape, mapped) {
            (TensorShape::Long, _) => {
                let dense = tensor_type.dense_size();
                let mut seq = serializer.serialize_seq(Some(self.of.tensor.cells().len()))?;
                for at in 0..self.of.tensor.cells().len() {
                    seq.serialize_element(&LongCell {
                        of: self.of,
                        subspace: at / dense,
                        index: Some(at % dense),
                    })?;
                }
                seq.end()
            }
            // The number of a tensor without dimensions is in a list, like those of any other.
            (TensorShape::Short, 0) if tensor_type.is_scalar() => [self.of.number(0)].serialize(serializer),
            (TensorShape::Hex, 0) if tensor_type.is_scalar() => {
                serializer.serialize_str(&self.of.tensor.cells().to_hex(0..1))
            }
            (_, 0) => block(0).serialize(serializer),
            (_, 1) => {
                let mut map = serializer.serialize_map(Some(self.of.tensor.subspaces()))?;
                for subspace in 0..self.of.tensor.subspaces() {
                    map.serialize_entry(&self.of.tensor.labels(subspace)[0], &block(subspace))?;
                }
                map.end()
            }
            _ => {
                let mut seq = serializer.serialize_seq(Some(self.of.tensor.subspaces()))?;
                for subspace in 0..self.of.tensor.subspaces() {
                    if tensor_type.indexed().next().is_none() {
                        seq.serialize_element(&LongCell { of: self.of, subspace, index: Some(0) })?;
                    } else {
                        seq.serialize_element(&AddressedBlock(block(subspace)))?;
                    }
                }
                seq.end()
            }
        }
    }
}

/// Cells of one subspace: nested lists, digits, or a number if no dimension is indexed.
struct RenderedBlock<'a> {
    of: RenderedTensor<'a>,
    subspace: usize,
}

impl Serialize for RenderedBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sizes: Vec<usize> = self.of.tensor.tensor_type().indexed().map(|(_, size)| size).collect();
        let dense = self.of.tensor.tensor_type().dense_size();
        let at = self.subspace * dense;
        if sizes.is_empty() {
            self.of.number(at).serialize(serializer)
        } else if self.of.format.shape == TensorShape::Hex {
            serializer.serialize_str(&self.of.tensor.cells().to_hex(at..at + dense))
        } else {
            NestedList { of: self.of, at, sizes: &sizes }.serialize(serializer)
        }
    }
}

/// A list over the outermost of `sizes`, of lists over the others.
struct NestedList<'a> {
    of: RenderedTensor<'a>,
    at: usize,
    sizes: &'a [usize],
}

impl Serialize for NestedList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((&size, inner)) = self.sizes.split_first() else {
            return self.of.number(self.at).serialize(serializer);
        };
        let stride: usize = inner.iter().product();
        let mut seq = serializer.serialize_seq(Some(size))?;
        for index in 0..size {
            let at = self.at + index * stride;
            if inner.is_empty() {
                seq.serialize_element(&self.of.number(at))?;
            } else {
                seq.serialize_element(&NestedList { of: self.of, at, sizes: inner })?;
            }
        }
        seq.end()
    }
}

/// `{"address": {…}, "value": 1}`.
struct LongCell<'a> {
    of: RenderedTensor<'a>,
    subspace: usize,
    index: Option<usize>,
}

impl Serialize for LongCell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = self.subspace * self.of.tensor.tensor_type().dense_size() + self.index.unwrap_or(0);
        let address = AddressOf { of: self.of, subspace: self.subspace, index: self.index };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("address", &address)?;
        map.serialize_entry("value", &self.of.number(at))?;
        map.end()
    }
}

/// `{"address": {…}, "values": […]}`.
struct AddressedBlock<'a>(RenderedBlock<'a>);

impl Serialize for AddressedBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = AddressOf { of: self.0.of, subspace: self.0.subspace, index: None };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("address", &address)?;
        map.serialize_entry("values", &self.0)?;
        map.end()
    }
}

/// Dimension names with labels; for a cell, those of indexed dimensions, too.
struct AddressOf<'a> {
    of: RenderedTensor<'a>,
    subspace: usize,
    index: Option<usize>,
}

impl Serialize for AddressOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dimensions = self.of.tensor.tensor_type().dimensions();
        let mut labels = self.of.tensor.labels(self.subspace).iter();
        let mut stride = self.of.tensor.tensor_type().dense_size();
        let mut map = serializer.serialize_map(None)?;
        for dimension in dimensions {
            match dimension.kind {
                DimensionKind::Mapped => map.serialize_entry(&dimension.name, &labels.next())?,
                DimensionKind::Indexed(size) => {
                    stride /= size;
                    if let Some(index) = self.index {
                        map.serialize_entry(&dimension.name, &(index / stride % size).to_string())?;
                    }
                }
            }
        }
        map.end()
    }
}

/// A cell.
enum RenderedNumber {
    /// A number that JSON cannot represent, in a result.
    Null,
    /// Likewise, in a document.
    Name(&'static str),
    Whole(i8),
    Float(f32),
    Double(f64),
}

impl RenderedTensor<'_> {
    fn number(&self, at: usize) -> RenderedNumber {
        let (cells, number) = (self.tensor.cells(), self.tensor.cells().get(at));
        match (cells, self.format.numbers) {
            (_, CellNumbers::Shown) if !number.is_finite() => RenderedNumber::Null,
            (_, CellNumbers::Exact) if number.is_nan() => RenderedNumber::Name("NaN"),
            (_, CellNumbers::Exact) if number == f64::INFINITY => RenderedNumber::Name("Infinity"),
            (_, CellNumbers::Exact) if number == f64::NEG_INFINITY => RenderedNumber::Name("-Infinity"),
            (TensorCells::Int8(cells), _) => RenderedNumber::Whole(cells[at]),
            (TensorCells::Double(_), _) | (_, CellNumbers::Exact) => RenderedNumber::Double(number),
            // The cell has one of these types, so nothing is rounded.
            (TensorCells::Float(_) | TensorCells::BFloat16(_), CellNumbers::Shown) => {
                RenderedNumber::Float(number as f32)
            }
        }
    }
}

impl Serialize for RenderedNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RenderedNumber::Null => serializer.serialize_unit(),
            RenderedNumber::Name(name) => serializer.serialize_str(name),
            RenderedNumber::Whole(number) => serializer.serialize_i8(*number),
            RenderedNumber::Float(number) => serializer.serialize_f32(*number),
            RenderedNumber::Double(number) => serializer.serialize_f64(*number),
        }
    }
}
