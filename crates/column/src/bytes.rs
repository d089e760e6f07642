use std::ops::Range;

use crate::compression::CompressedBlocks;
use crate::fixed::u32_at;
use crate::presence::{PresenceBuilder, presence_bytes};
use crate::{AlignedBuffer, BYTES, BufferBuilder, Error, Presence};

/// Byte strings, one per document: text as UTF-8, other values in the wire form.
///
/// Encoded: a header of 64 bytes (layout, three zero bytes, count u32, four zero bytes, the record of the
/// layout of its values), the presence words padded to 64, `count + 1` offsets (u32) padded to 64, the bytes.
///
/// The bytes can be compressed in blocks; a block is decompressed when one of its documents is read first,
/// and kept as long as the column.
#[derive(Debug, Clone)]
pub struct BytesColumn {
    buffer: AlignedBuffer,
    len: usize,
    /// `None`: the bytes lie in the buffer as they are.
    blocks: Option<CompressedBlocks>,
}

impl BytesColumn {
    pub(crate) fn decode(buffer: AlignedBuffer) -> Result<Self, Error> {
        let (column, data_at) = Self::decode_head(buffer)?;
        if column.buffer.len() - data_at != column.plain_bytes() {
            return Err(Error::Corrupt("its offsets do not ascend to its length"));
        }
        Ok(column)
    }

    /// Decodes a column whose bytes are compressed in blocks.
    pub(crate) fn decode_blocks(buffer: AlignedBuffer) -> Result<Self, Error> {
        let (column, table_at) = Self::decode_head(buffer)?;
        if u32_at(&column.buffer, 8) != column.plain_bytes() {
            return Err(Error::Corrupt("its header and its offsets have different lengths"));
        }
        let blocks = CompressedBlocks::decode(&column.buffer, table_at, column.len)?;
        Ok(BytesColumn { blocks: Some(blocks), ..column })
    }

    /// Decodes header, presence and offsets; also returns where they end.
    fn decode_head(buffer: AlignedBuffer) -> Result<(Self, usize), Error> {
        if buffer.len() < 64 {
            return Err(Error::Corrupt("shorter than its header"));
        }
        let len = u32_at(&buffer, 4);
        let end = 64 + presence_bytes(len) + ((len + 1) * 4).next_multiple_of(64);
        if buffer.len() < end {
            return Err(Error::Corrupt("shorter than its offsets"));
        }
        let column = BytesColumn { buffer, len, blocks: None };
        let offsets = column.offsets();
        if offsets[0] != 0 || !offsets.is_sorted() {
            return Err(Error::Corrupt("its offsets do not ascend to its length"));
        }
        Ok((column, end))
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

    /// Number of bytes of all documents.
    pub(crate) fn plain_bytes(&self) -> usize {
        self.offsets()[self.len] as usize
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.blocks.is_some()
    }

    /// A copy that is not compressed.
    pub(crate) fn decompressed(&self) -> BytesColumn {
        let mut builder = BytesBuilder::recorded(self.buffer[12..64].to_vec());
        builder.extend(self, 0..self.len);
        builder.finish()
    }

    pub(crate) fn check_blocks(&self) -> Result<(), Error> {
        match &self.blocks {
            None => Ok(()),
            Some(blocks) => blocks.check(&self.buffer, self.offsets()),
        }
    }

    /// Bytes of all documents, concatenated. Decompresses all blocks of a compressed column.
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.blocks {
            None => &self.buffer[64 + presence_bytes(self.len) + ((self.len + 1) * 4).next_multiple_of(64)..],
            Some(blocks) => blocks.whole(&self.buffer, self.offsets()),
        }
    }

    /// Bytes of the document at `index`; `None` without a value. Decompresses its block of a compressed
    /// column.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.presence().get(index).then(|| {
            let offsets = self.offsets();
            match &self.blocks {
                None => &self.data()[offsets[index] as usize..offsets[index + 1] as usize],
                Some(blocks) => blocks.get(&self.buffer, offsets, index),
            }
        })
    }
}

impl BytesColumn {
    /// Bytes of all documents, concatenated; `None` if they are compressed.
    #[inline]
    pub fn plain_data(&self) -> Option<&[u8]> {
        self.blocks.is_none().then(|| self.data())
    }

    /// Bytes of the documents at these indices, in their order; `None` for one without a value. The column is
    /// looked at once, and not for each of them.
    #[inline]
    pub fn get_each<'c>(&'c self, documents: &[u16]) -> impl Iterator<Item = Option<&'c [u8]>> {
        let (presence, offsets, plain) = (self.presence(), self.offsets(), self.plain_data());
        documents.iter().map(move |document| {
            let index = usize::from(*document);
            match plain {
                Some(data) if presence.get(index) => {
                    Some(&data[offsets[index] as usize..offsets[index + 1] as usize])
                }
                Some(_) => None,
                None => self.get(index),
            }
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
        BytesColumn { buffer: out.finish(), len, blocks: None }
    }
}
