//! Sizes of rows.

use std::ops::Add;

use millrace_document::{DataType, DocumentValue};

/// Size of values in bytes. Sums are cut off at the largest number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowSize {
    /// Memory once they are read, without the bytes that allocations round up to.
    pub(crate) memory: usize,
    /// The contents alone: numbers at their width, texts, cells and labels.
    pub(crate) content: usize,
}

impl RowSize {
    /// A value with a content of `content` bytes, all of them within the value.
    pub(crate) const fn value(content: usize) -> Self {
        RowSize { memory: size_of::<DocumentValue>(), content }
    }

    /// Bytes that a value points to.
    pub(crate) const fn bytes(bytes: usize) -> Self {
        RowSize { memory: bytes, content: bytes }
    }

    /// Size of `count` values of this size.
    pub(crate) const fn times(self, count: usize) -> Self {
        RowSize { memory: self.memory.saturating_mul(count), content: self.content.saturating_mul(count) }
    }
}

impl Add for RowSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        RowSize {
            memory: self.memory.saturating_add(other.memory),
            content: self.content.saturating_add(other.content),
        }
    }
}

/// Width of a number of a type, in bytes.
pub(crate) const fn number_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Byte => 1,
        DataType::Float16 => 2,
        DataType::Int | DataType::Float => 4,
        _ => 8,
    }
}
