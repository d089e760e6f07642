//! Columns: one field of many documents, typed, aligned, in chunks.
//!
//! A [`Column`] holds one field (or a form derived from it, see [`ColumnForm`]) of the documents of one
//! chunk, by position. It is a view of one [`AlignedBuffer`], which may have been read from a file or built
//! in memory; decoding copies nothing.
//!
//! - [`FixedColumn`]: numbers, and dense tensors as raw cells, in the layout that kernels need;
//! - [`BytesColumn`]: text, or values in the wire form, with offsets;
//! - [`TokensColumn`]: normalized words of text as numbers in a sorted dictionary of the chunk.
//!
//! A chunk holds documents of one type and one group, at most [`CHUNK_DOCS`] of them.
//!
//! This crate is independent of files, schemas, and text analysis.

mod buffer;
mod bytes;
mod compact_tokens;
mod compression;
mod error;
mod fixed;
mod joined_tokens;
mod joining;
mod layout;
mod memory;
mod presence;
mod sorted;
mod stems;
mod store_layout;
mod stored;
mod tokens;
mod values;
mod view;
mod words;

use std::fmt;
use std::ops::Range;

pub use buffer::{AlignedBuffer, BufferBuilder};
pub use bytes::{BytesBuilder, BytesColumn};
pub use compression::{Compression, plain_bytes};
pub use error::Error;
pub use fixed::{CellKind, FixedBuilder, FixedColumn};
pub use joining::{ColumnPart, OverflowRows, join_values};
pub use layout::{ValueLayout, layout};
pub use memory::MemoryView;
pub use presence::Presence;
pub use store_layout::StoreLayout;
pub use stored::StoredValues;
pub use tokens::{ELEMENT_BOUNDARY, TokenDictionary, TokenIds, TokensBuilder, TokensColumn};
pub use values::{ColumnValue, ValueBuilder, encoded_values, read_value, text_values, value};
pub use view::{ChunkIdentity, ExecutionPaths, JoinedView, ReadError, View, ViewChunk};
pub use words::forget_words;

/// Maximum number of documents per chunk.
pub const CHUNK_DOCS: usize = 1024;

/// Form of a field in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnForm {
    /// The value itself. All other forms are derived and can be rebuilt from it.
    Value,
    /// Normalized words of the text, as [`TokensColumn`].
    Tokens,
    /// Document ids as text; not a field.
    Id,
    /// Timestamps of the versions; not a field.
    Timestamp,
    /// Flags of versions that are removals; not a field. Maintained by the store; layouts never list it.
    Removed,
    /// Fields without a column of their own (unknown to the schema), and values that their columns cannot
    /// hold, in the wire form. Maintained by the store; layouts never list it.
    Overflow,
}

/// Identity of a column within a document type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnKey {
    /// Name of the field; for [`ColumnForm::Tokens`] it may be a path to members of its values.
    pub field: String,
    /// Form of the field in the column.
    pub form: ColumnForm,
}

impl ColumnKey {
    /// Key of the field's value.
    pub fn value(field: &str) -> Self {
        ColumnKey { field: field.to_owned(), form: ColumnForm::Value }
    }

    /// Key of the document ids: [`BytesColumn`], present for every document.
    pub const fn id() -> Self {
        ColumnKey { field: String::new(), form: ColumnForm::Id }
    }

    /// Key of the timestamps: [`FixedColumn`] of [`CellKind::U64`], present for every document.
    pub const fn timestamp() -> Self {
        ColumnKey { field: String::new(), form: ColumnForm::Timestamp }
    }

    /// Key of the removals: [`FixedColumn`] of [`CellKind::Bool`], present for every document.
    pub const fn removed() -> Self {
        ColumnKey { field: String::new(), form: ColumnForm::Removed }
    }

    /// Key of the fields without a column of their own: [`BytesColumn`], present for documents that have any.
    pub const fn overflow() -> Self {
        ColumnKey { field: String::new(), form: ColumnForm::Overflow }
    }

    /// Key of a field's tokens, or those of one of its members, by path (`person.name`, `prefs.value`).
    pub fn tokens(path: &str) -> Self {
        ColumnKey { field: path.to_owned(), form: ColumnForm::Tokens }
    }

    /// Name of the field that contains the values: the whole name, or its part before the members' names.
    pub fn root(&self) -> &str {
        self.field.split('.').next().unwrap_or(&self.field)
    }
}

impl fmt::Display for ColumnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            ColumnForm::Value => f.write_str(&self.field),
            ColumnForm::Tokens => write!(f, "{} (tokens)", self.field),
            ColumnForm::Id => f.write_str("(id)"),
            ColumnForm::Timestamp => f.write_str("(timestamp)"),
            ColumnForm::Removed => f.write_str("(removed)"),
            ColumnForm::Overflow => f.write_str("(overflow)"),
        }
    }
}

/// A column of any layout.
#[derive(Debug, Clone)]
pub enum Column {
    /// Numbers and dense tensors.
    Fixed(FixedColumn),
    /// Text and encoded values.
    Bytes(BytesColumn),
    /// Words of texts, as numbers into a dictionary of the column.
    Tokens(TokensColumn),
}

const FIXED: u8 = 1;
const BYTES: u8 = 2;
const TOKENS: u8 = 3;
/// Bytes in compressed blocks.
const BLOCKS: u8 = 4;
/// A compressed column of another layout.
const WHOLE: u8 = 5;

impl Column {
    /// Number of documents.
    pub fn len(&self) -> usize {
        match self {
            Column::Fixed(column) => column.len(),
            Column::Bytes(column) => column.len(),
            Column::Tokens(column) => column.len(),
        }
    }

    /// True if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that [`Column::decode`] reads. Files have the same, or those of [`Column::stored`].
    /// `docs/format.md` describes them.
    pub fn encoded(&self) -> &AlignedBuffer {
        match self {
            Column::Fixed(column) => column.buffer(),
            Column::Bytes(column) => column.buffer(),
            Column::Tokens(column) => column.buffer(),
        }
    }

    /// Decodes a column as a view of the buffer; one that is compressed as a whole is decompressed.
    ///
    /// # Errors
    /// The bytes are not a column. Lengths, offsets and numbers are checked here, so that later reads cannot
    /// fail, except for the contents of compressed blocks: their checksum must have been compared, or
    /// [`Column::check`] called.
    pub fn decode(buffer: AlignedBuffer) -> Result<Self, Error> {
        match buffer.first().copied() {
            Some(WHOLE) => Self::decode_plain(compression::decode_whole(&buffer)?),
            Some(BLOCKS) => BytesColumn::decode_blocks(buffer).map(Column::Bytes),
            _ => Self::decode_plain(buffer),
        }
    }

    fn decode_plain(buffer: AlignedBuffer) -> Result<Self, Error> {
        match buffer.first().copied() {
            Some(FIXED) => FixedColumn::decode(buffer).map(Column::Fixed),
            Some(BYTES) => BytesColumn::decode(buffer).map(Column::Bytes),
            Some(TOKENS) => TokensColumn::decode(buffer).map(Column::Tokens),
            _ => Err(Error::Corrupt("unknown layout")),
        }
    }

    /// Concatenates the documents of `parts` into one column.
    ///
    /// # Errors
    /// The parts have different layouts or cell types.
    pub fn concat<'a>(parts: &[(&'a Column, Range<usize>)]) -> Result<Self, Error> {
        match parts.first() {
            Some((Column::Fixed(first), _)) => {
                let mut builder = FixedBuilder::new(first.cell(), first.width());
                for (column, range) in parts {
                    let Column::Fixed(column) = column else { return Err(Error::Mixed) };
                    if column.cell() != first.cell() || column.width() != first.width() {
                        return Err(Error::Mixed);
                    }
                    builder.extend(column, range.clone());
                }
                Ok(Column::Fixed(builder.finish()))
            }
            Some((Column::Bytes(_), _)) => {
                let mut builder = BytesBuilder::new();
                for (column, range) in parts {
                    let Column::Bytes(column) = column else { return Err(Error::Mixed) };
                    builder.extend(column, range.clone());
                }
                Ok(Column::Bytes(builder.finish()))
            }
            Some((Column::Tokens(_), _)) => {
                let tokens = |(column, range): &(&'a Column, Range<usize>)| match column {
                    Column::Tokens(column) => Ok((column, range.clone())),
                    Column::Fixed(_) | Column::Bytes(_) => Err(Error::Mixed),
                };
                let parts = parts.iter().map(tokens).collect::<Result<Vec<_>, _>>()?;
                Ok(Column::Tokens(joined_tokens::join(&parts)))
            }
            None => Err(Error::Mixed),
        }
    }
}
