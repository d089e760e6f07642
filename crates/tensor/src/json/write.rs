use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::{Cells, DimensionKind, Tensor};

/// How tensors are written as JSON: the values of `format.tensors` and `presentation.format.tensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// How the content is written.
    pub shape: Shape,
    /// Write the content alone, not in an object that has the type.
    pub direct: bool,
}

/// How the content of a tensor is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The shortest form that the type allows.
    Short,
    /// A list of addressed cells.
    Long,
    /// As [`Shape::Short`], with dense cells as hexadecimal digits.
    Hex,
}

impl Default for Format {
    fn default() -> Self {
        Format { shape: Shape::Short, direct: false }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (shape, direct) = match name {
            "short" => (Shape::Short, false),
            "long" => (Shape::Long, false),
            "hex" => (Shape::Hex, false),
            "short-value" => (Shape::Short, true),
            "long-value" => (Shape::Long, true),
            "hex-value" => (Shape::Hex, true),
            _ => {
                return Err(format!(
                    "tensor format '{name}' is not one of short, long, hex, short-value, long-value, hex-value"
                ));
            }
        };
        Ok(Format { shape, direct })
    }
}

impl Tensor {
    /// This tensor, to be serialized as JSON in a format.
    pub const fn rendered(&self, format: Format) -> Rendered<'_> {
        Rendered { tensor: self, format }
    }
}

/// A tensor and the JSON format to write it in. Numbers that JSON cannot hold are written as `"NaN"`, `"Infinity"`, `"-Infinity"`.
#[derive(Debug, Clone, Copy)]
pub struct Rendered<'a> {
    tensor: &'a Tensor,
    format: Format,
}

impl Serialize for Rendered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = Content { tensor: self.tensor, shape: self.format.shape };
        if self.format.direct {
            return content.serialize(serializer);
        }
        let tensor_type = self.tensor.tensor_type();
        let key = match (self.format.shape, tensor_type.mapped().count(), tensor_type.indexed().count()) {
            (Shape::Long, ..) => "cells",
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

struct Content<'a> {
    tensor: &'a Tensor,
    shape: Shape,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tensor_type = self.tensor.tensor_type();
        let mapped = tensor_type.mapped().count();
        let block = |subspace| Block { tensor: self.tensor, subspace, shape: self.shape };
        match (self.shape, mapped) {
            (Shape::Long, _) => {
                let dense = tensor_type.dense_size();
                let mut seq = serializer.serialize_seq(Some(self.tensor.cells().len()))?;
                for at in 0..self.tensor.cells().len() {
                    seq.serialize_element(&LongCell {
                        tensor: self.tensor,
                        subspace: at / dense,
                        index: Some(at % dense),
                    })?;
                }
                seq.end()
            }
            (_, 0) => block(0).serialize(serializer),
            (_, 1) => {
                let mut map = serializer.serialize_map(Some(self.tensor.subspaces()))?;
                for subspace in 0..self.tensor.subspaces() {
                    map.serialize_entry(&self.tensor.labels(subspace)[0], &block(subspace))?;
                }
                map.end()
            }
            _ => {
                let mut seq = serializer.serialize_seq(Some(self.tensor.subspaces()))?;
                for subspace in 0..self.tensor.subspaces() {
                    if tensor_type.indexed().next().is_none() {
                        seq.serialize_element(&LongCell { tensor: self.tensor, subspace, index: Some(0) })?;
                    } else {
                        seq.serialize_element(&AddressedBlock(block(subspace)))?;
                    }
                }
                seq.end()
            }
        }
    }
}

/// The cells of one subspace: nested lists, digits, or a number where no dimension is indexed.
struct Block<'a> {
    tensor: &'a Tensor,
    subspace: usize,
    shape: Shape,
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sizes: Vec<usize> = self.tensor.tensor_type().indexed().map(|(_, size)| size).collect();
        let dense = self.tensor.tensor_type().dense_size();
        let at = self.subspace * dense;
        if sizes.is_empty() {
            Number(self.tensor.cells(), at).serialize(serializer)
        } else if self.shape == Shape::Hex {
            serializer.serialize_str(&self.tensor.cells().to_hex(at..at + dense))
        } else {
            Nested { tensor: self.tensor, at, sizes: &sizes }.serialize(serializer)
        }
    }
}

/// A list over the outermost of `sizes`, of lists over the others.
struct Nested<'a> {
    tensor: &'a Tensor,
    at: usize,
    sizes: &'a [usize],
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((&size, inner)) = self.sizes.split_first() else {
            return Number(self.tensor.cells(), self.at).serialize(serializer);
        };
        let stride: usize = inner.iter().product();
        let mut seq = serializer.serialize_seq(Some(size))?;
        for index in 0..size {
            let at = self.at + index * stride;
            if inner.is_empty() {
                seq.serialize_element(&Number(self.tensor.cells(), at))?;
            } else {
                seq.serialize_element(&Nested { tensor: self.tensor, at, sizes: inner })?;
            }
        }
        seq.end()
    }
}

/// `{"address": {…}, "value": 1}`.
struct LongCell<'a> {
    tensor: &'a Tensor,
    subspace: usize,
    index: Option<usize>,
}

impl Serialize for LongCell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = self.subspace * self.tensor.tensor_type().dense_size() + self.index.unwrap_or(0);
        let address = AddressOf { tensor: self.tensor, subspace: self.subspace, index: self.index };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("address", &address)?;
        map.serialize_entry("value", &Number(self.tensor.cells(), at))?;
        map.end()
    }
}

/// `{"address": {…}, "values": […]}`.
struct AddressedBlock<'a>(Block<'a>);

impl Serialize for AddressedBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = AddressOf { tensor: self.0.tensor, subspace: self.0.subspace, index: None };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("address", &address)?;
        map.serialize_entry("values", &self.0)?;
        map.end()
    }
}

/// Dimension names with labels; with those of the indexed dimensions where a cell is meant.
struct AddressOf<'a> {
    tensor: &'a Tensor,
    subspace: usize,
    index: Option<usize>,
}

impl Serialize for AddressOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dimensions = self.tensor.tensor_type().dimensions();
        let mut labels = self.tensor.labels(self.subspace).iter();
        let mut stride = self.tensor.tensor_type().dense_size();
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

/// A cell, with as many digits as its type needs; or the text that stands for a number that JSON cannot hold.
struct Number<'c>(&'c Cells, usize);

impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.0.get(self.1);
        if number.is_nan() {
            return serializer.serialize_str("NaN");
        }
        if number.is_infinite() {
            return serializer.serialize_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        match self.0 {
            Cells::Double(_) => serializer.serialize_f64(number),
            // The cell is one of these, so nothing is rounded.
            Cells::Float(_) | Cells::BFloat16(_) | Cells::Int8(_) => serializer.serialize_f32(number as f32),
        }
    }
}
