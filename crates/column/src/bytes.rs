use std::ops::Range;

use crate::fixed::u32_at;
use crate::presence::{PresenceBuilder, presence_bytes};
use crate::{AlignedBuffer, BYTES, BufferBuilder, Error, Presence};

/// Byte strings, one per document: text as UTF-8, other values in the wire form.
///
/// Encoded: a header of 64 bytes (layout, three zero bytes, count u32, four zero bytes, the record of the
/// layout of its values), the presence words padded to 64, `count + 1` offsets (u32) padded to 64, the bytes.
#[derive(Debug, Clone)]
pub struct BytesColumn {
    buffer: AlignedBuffer,
    len: usize,
}

impl BytesColumn {
    pub(crate) fn decode(buffer: AlignedBuffer) -> Result<Self, Error> {
        if buffer.len() < 64 {
            return Err(Error::Corrupt("shorter than its header"));
        }
        let len = u32_at(&buffer, 4);
        let data_at = 64 + presence_bytes(len) + ((len + 1) * 4).next_multiple_of(64);
        if buffer.len() < data_at {
            return Err(Error::Corrupt("shorter than its offsets"));
        }
        let column = BytesColumn { buffer, len };
        let offsets = column.offsets();
        if offsets[0] != 0
            || offsets.windows(2).any(|pair| pair[0] > pair[1])
            || data_at + offsets[len] as usize != column.buffer.len()
        {
            return Err(Error::Corrupt("its offsets do not ascend to its length"));
        }
        Ok(column)
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

    /// The documents that have a value.
    #[inline]
    pub fn presence(&self) -> Presence<'_> {
        let words = bytemuck::cast_slice(&self.buffer[64..64 + self.len.div_ceil(64) * 8]);
        Presence::new(words, self.len)
    }

    /// Start of each document's bytes in [`BytesColumn::data`], followed by the end of the last.
    #[inline]
    pub fn offsets(&self) -> &[u32] {
        let at = 64 + presence_bytes(self.len);
        bytemuck::cast_slice(&self.buffer[at..at + (self.len + 1) * 4])
    }

    /// Bytes of all documents, concatenated.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.buffer[64 + presence_bytes(self.len) + ((self.len + 1) * 4).next_multiple_of(64)..]
    }

    /// Bytes of the document at `index`; `None` without a value.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.presence().get(index).then(|| {
            let offsets = self.offsets();
            &self.data()[offsets[index] as usize..offsets[index + 1] as usize]
        })
    }
}

/// Builder of a [`BytesColumn`] column, document by document.
#[derive(Default)]
pub struct BytesBuilder {
    record: Vec<u8>,
    presence: PresenceBuilder,
    offsets: Vec<u32>,
    data: Vec<u8>,
}

impl BytesBuilder {
    /// Creates a builder without documents.
    pub fn new() -> Self {
        Self::recorded(Vec::new())
    }

    /// Creates a builder with a record of the layout of the values.
    pub(crate) fn recorded(record: Vec<u8>) -> Self {
        BytesBuilder { record, presence: PresenceBuilder::default(), offsets: vec![0], data: Vec::new() }
    }

    /// Appends a document with these bytes, or without a value.
    ///
    /// # Panics
    /// The column would reach 4 GiB. Chunks are cut long before that.
    pub fn push(&mut self, bytes: Option<&[u8]>) {
        self.presence.push(bytes.is_some());
        self.data.extend_from_slice(bytes.unwrap_or_default());
        self.offsets
            .push(u32::try_from(self.data.len()).expect("chunks are cut before a column reaches 4 GiB"));
    }

    /// Appends the documents of `column` in `range`.
    pub fn extend(&mut self, column: &BytesColumn, range: Range<usize>) {
        range.for_each(|index| self.push(column.get(index)));
    }

    /// Returns the column.
    pub fn finish(self) -> BytesColumn {
        let len = self.presence.len();
        let mut out = BufferBuilder::with_capacity(192 + presence_bytes(len) + len * 4 + self.data.len());
        out.extend(&[BYTES, 0, 0, 0]);
        out.extend(&(len as u32).to_le_bytes());
        out.extend(&[0; 4]);
        out.extend(&self.record);
        out.align();
        self.presence.write(&mut out);
        out.extend(bytemuck::cast_slice(&self.offsets));
        out.align();
        out.extend(&self.data);
        BytesColumn { buffer: out.finish(), len }
    }
}
