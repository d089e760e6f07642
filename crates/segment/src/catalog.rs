//! Catalog: contents of a file by document type. The only part that an open segment keeps in memory.

use millrace_column::{ColumnForm, ColumnKey};

use crate::SegmentFormat;
use crate::chunk::RowLayout;
use crate::filter::FilterLayout;
use crate::format::{FormatReader, write_text};

/// The documents of one type in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeSection {
    /// The document type.
    pub document_type: String,
    /// Columns of the chunks, sorted; a single chunk may lack some.
    pub columns: Vec<ColumnKey>,
    /// Number of document versions.
    pub documents: u64,
    /// Number of removals among them.
    pub removed: u64,
    /// Number of chunks.
    pub chunks: u32,
    /// Number of entries of the group directory.
    pub groups: u32,
    /// Lowest timestamp.
    pub oldest: u64,
    /// Highest timestamp.
    pub newest: u64,
    /// Offset of the chunk directory.
    pub(crate) rows_offset: u64,
    /// Offset of the fence of the group directory; the pages are before it.
    pub(crate) fence_offset: u64,
    pub(crate) fence_length: u32,
    pub(crate) fence_checksum: u64,
    /// Offset of the filter of the ids; 0: there is none.
    pub(crate) filter_offset: u64,
}

impl TypeSection {
    pub(crate) fn rows(&self) -> RowLayout {
        RowLayout::new(self.columns.len())
    }

    /// Layout of the filter of the ids; `None`: there is none.
    pub(crate) fn filter(&self) -> Option<FilterLayout> {
        if self.filter_offset > 0 { FilterLayout::of(self.documents) } else { None }
    }

    /// Index of a column in [`TypeSection::columns`].
    pub(crate) fn column(&self, key: &ColumnKey) -> Option<usize> {
        self.columns.binary_search(key).ok()
    }
}

fn form_code(form: ColumnForm) -> u8 {
    match form {
        ColumnForm::Value => 0,
        ColumnForm::Tokens => 1,
        ColumnForm::Id => 2,
        ColumnForm::Timestamp => 3,
        ColumnForm::Removed => 4,
        ColumnForm::Overflow => 5,
    }
}

fn form(code: u8) -> Option<ColumnForm> {
    [
        ColumnForm::Value,
        ColumnForm::Tokens,
        ColumnForm::Id,
        ColumnForm::Timestamp,
        ColumnForm::Removed,
        ColumnForm::Overflow,
    ]
    .into_iter()
    .find(|form| form_code(*form) == code)
}

pub(crate) fn encode(sections: &[TypeSection], format: SegmentFormat) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((sections.len() as u32).to_le_bytes());
    for section in sections {
        write_text(&mut out, &section.document_type);
        out.extend((section.columns.len() as u32).to_le_bytes());
        for column in &section.columns {
            out.push(form_code(column.form));
            write_text(&mut out, &column.field);
        }
        out.extend(section.documents.to_le_bytes());
        out.extend(section.removed.to_le_bytes());
        out.extend(section.chunks.to_le_bytes());
        out.extend(section.groups.to_le_bytes());
        out.extend(section.oldest.to_le_bytes());
        out.extend(section.newest.to_le_bytes());
        out.extend(section.rows_offset.to_le_bytes());
        out.extend(section.fence_offset.to_le_bytes());
        out.extend(section.fence_length.to_le_bytes());
        out.extend(section.fence_checksum.to_le_bytes());
        if format >= SegmentFormat::Filtered {
            out.extend(section.filter_offset.to_le_bytes());
        }
    }
    out
}

/// Decodes a catalog; `None` if the bytes are not one.
pub(crate) fn decode(bytes: &[u8], format: SegmentFormat) -> Option<Vec<TypeSection>> {
    let mut reader = FormatReader::new(bytes);
    let mut sections = Vec::new();
    for _ in 0..reader.u32()? {
        let document_type = reader.text()?.to_owned();
        let mut columns = Vec::new();
        for _ in 0..reader.u32()? {
            let form = form(reader.u8()?)?;
            columns.push(ColumnKey { field: reader.text()?.to_owned(), form });
        }
        sections.push(TypeSection {
            document_type,
            columns,
            documents: reader.u64()?,
            removed: reader.u64()?,
            chunks: reader.u32()?,
            groups: reader.u32()?,
            oldest: reader.u64()?,
            newest: reader.u64()?,
            rows_offset: reader.u64()?,
            fence_offset: reader.u64()?,
            fence_length: reader.u32()?,
            fence_checksum: reader.u64()?,
            filter_offset: if format >= SegmentFormat::Filtered { reader.u64()? } else { 0 },
        });
    }
    reader.is_empty().then_some(sections)
}
