use std::ops::Range;

use crate::presence::{PresenceBuilder, presence_bytes};
use crate::{AlignedBuffer, BufferBuilder, Error, FIXED, Presence};

/// Type of the numbers in a [`FixedColumn`] column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellKind {
    /// A truth value: 0 or 1 in a byte.
    Bool = 0,
    /// 8-bit signed.
    I8 = 1,
    /// 32-bit signed.
    I32 = 2,
    /// 64-bit signed.
    I64 = 3,
    /// 64-bit unsigned (timestamps).
    U64 = 4,
    /// 16-bit float with 8 exponent bits (bfloat16).
    BF16 = 5,
    /// 32-bit float.
    F32 = 6,
    /// 64-bit float.
    F64 = 7,
}

impl CellKind {
    /// Size of one number in bytes.
    pub const fn size(self) -> usize {
        match self {
            CellKind::Bool | CellKind::I8 => 1,
            CellKind::BF16 => 2,
            CellKind::I32 | CellKind::F32 => 4,
            CellKind::I64 | CellKind::U64 | CellKind::F64 => 8,
        }
    }

    /// All kinds, in the order of their codes in headers.
    pub const ALL: [CellKind; 8] = [
        CellKind::Bool,
        CellKind::I8,
        CellKind::I32,
        CellKind::I64,
        CellKind::U64,
        CellKind::BF16,
        CellKind::F32,
        CellKind::F64,
    ];
}

/// `width` numbers per document, one document after another, aligned to 64 bytes.
///
/// A document without a value has zeros and no presence bit. Encoded: a header of 64 bytes (layout, cell, two
/// zero bytes, count u32, width u32, the record of the layout of its values), the presence words padded to
/// 64, the numbers.
#[derive(Debug, Clone)]
pub struct FixedColumn {
    buffer: AlignedBuffer,
    cell: CellKind,
    width: usize,
    len: usize,
}

impl FixedColumn {
    pub(crate) fn decode(buffer: AlignedBuffer) -> Result<Self, Error> {
        if buffer.len() < 64 {
            return Err(Error::Corrupt("shorter than its header"));
        }
        let cell = *CellKind::ALL.get(buffer[1] as usize).ok_or(Error::Corrupt("unknown cell type"))?;
        let len = u32_at(&buffer, 4);
        let width = u32_at(&buffer, 8);
        let size = len.checked_mul(width).and_then(|n| n.checked_mul(cell.size()));
        if size.and_then(|size| size.checked_add(64 + presence_bytes(len))) != Some(buffer.len()) {
            return Err(Error::Corrupt("its length is not what its header says"));
        }
        Ok(FixedColumn { buffer, cell, width, len })
    }

    pub(crate) fn buffer(&self) -> &AlignedBuffer {
        &self.buffer
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number type.
    #[inline]
    pub fn cell(&self) -> CellKind {
        self.cell
    }

    /// Numbers per document: 1, or the size of a dense tensor.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The documents that have a value.
    #[inline]
    pub fn presence(&self) -> Presence<'_> {
        let words = bytemuck::cast_slice(&self.buffer[64..64 + self.len.div_ceil(64) * 8]);
        Presence::new(words, self.len)
    }

    /// All numbers as bytes: `len × width × cell.size()`, aligned to 64.
    #[inline]
    pub fn raw(&self) -> &[u8] {
        &self.buffer[64 + presence_bytes(self.len)..]
    }

    /// All numbers as `T`: `i8` for [`CellKind::I8`], `u8` for [`CellKind::Bool`], `half::bf16` for
    /// [`CellKind::BF16`] and so on.
    ///
    /// # Panics
    /// The size of `T` differs from that of the cell.
    #[inline]
    pub fn cells<T: bytemuck::AnyBitPattern>(&self) -> &[T] {
        assert_eq!(size_of::<T>(), self.cell.size(), "numbers are read as the type they are stored as");
        bytemuck::cast_slice(self.raw())
    }

    /// The first number of the document at `index` as `f64`; `None` without a value.
    pub fn number(&self, index: usize) -> Option<f64> {
        self.presence().get(index).then(|| self.at(index * self.width))
    }

    /// The first number of the document at `index` as `i64` (floats are truncated); `None` without a value.
    pub fn integer(&self, index: usize) -> Option<i64> {
        self.presence().get(index).then(|| {
            let at = index * self.width;
            match self.cell {
                CellKind::I64 => self.cells::<i64>()[at],
                CellKind::U64 => self.cells::<u64>()[at] as i64,
                _ => self.at(at) as i64,
            }
        })
    }

    fn at(&self, at: usize) -> f64 {
        match self.cell {
            CellKind::Bool => f64::from(self.cells::<u8>()[at]),
            CellKind::I8 => f64::from(self.cells::<i8>()[at]),
            CellKind::I32 => f64::from(self.cells::<i32>()[at]),
            CellKind::I64 => self.cells::<i64>()[at] as f64,
            CellKind::U64 => self.cells::<u64>()[at] as f64,
            CellKind::BF16 => self.cells::<half::bf16>()[at].to_f64(),
            CellKind::F32 => f64::from(self.cells::<f32>()[at]),
            CellKind::F64 => self.cells::<f64>()[at],
        }
    }
}

/// Builder of a [`FixedColumn`] column, document by document.
pub struct FixedBuilder {
    cell: CellKind,
    width: usize,
    record: Vec<u8>,
    presence: PresenceBuilder,
    data: Vec<u8>,
}

impl FixedBuilder {
    /// Creates a builder without documents; each document will have `width` numbers.
    pub fn new(cell: CellKind, width: usize) -> Self {
        Self::recorded(cell, width, Vec::new())
    }

    /// Creates a builder with a record of the layout of the values.
    pub(crate) fn recorded(cell: CellKind, width: usize, record: Vec<u8>) -> Self {
        FixedBuilder { cell, width, record, presence: PresenceBuilder::default(), data: Vec::new() }
    }

    /// Returns true if a column has the same cell kind and width.
    pub(crate) fn is_like(&self, column: &FixedColumn) -> bool {
        self.cell == column.cell && self.width == column.width
    }

    /// Bytes of the numbers of a document.
    pub(crate) fn document_bytes(&self) -> usize {
        self.width * self.cell.size()
    }

    /// Appends a document with these numbers, as little-endian bytes.
    ///
    /// # Panics
    /// The length is not `width × cell.size()`.
    pub fn push(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.width * self.cell.size(), "a document has `width` numbers");
        self.presence.push(true);
        self.data.extend_from_slice(bytes);
    }

    /// Appends a document without a value.
    pub fn push_absent(&mut self) {
        self.presence.push(false);
        self.data.resize(self.data.len() + self.width * self.cell.size(), 0);
    }

    /// Appends the documents of `column` in `range`.
    pub fn extend(&mut self, column: &FixedColumn, range: Range<usize>) {
        let presence = column.presence();
        range.clone().for_each(|index| self.presence.push(presence.get(index)));
        let size = self.width * self.cell.size();
        self.data.extend_from_slice(&column.raw()[range.start * size..range.end * size]);
    }

    /// Returns the column.
    pub fn finish(self) -> FixedColumn {
        let len = self.presence.len();
        let mut out = BufferBuilder::with_capacity(64 + presence_bytes(len) + self.data.len());
        out.extend(&[FIXED, self.cell as u8, 0, 0]);
        out.extend(&(len as u32).to_le_bytes());
        out.extend(&(self.width as u32).to_le_bytes());
        out.extend(&self.record);
        out.align();
        self.presence.write(&mut out);
        out.extend(&self.data);
        FixedColumn { buffer: out.finish(), cell: self.cell, width: self.width, len }
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}
