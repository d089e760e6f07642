//! Values as they were stored, independent of the current schema.

use millrace_document::{DocumentValue, ValueRef, unrecorded_type, wire};

use crate::layout::{cell_type, is_recorded};
use crate::values::fixed_value;
use crate::{CellKind, Column, ColumnValue, Error, FixedColumn, ValueLayout};

/// A value column, to be read as it was written.
pub struct StoredValues {
    column: Column,
    /// `None`: it has no record, and cannot be of the layout of its field.
    layout: Option<ValueLayout>,
    recorded: bool,
}

impl StoredValues {
    /// Creates the values of a column. If it has no record, it is assumed to have the layout `believed`, if
    /// possible.
    pub fn new(column: Column, believed: Option<&ValueLayout>) -> Self {
        let recorded = is_recorded(&column);
        // Most columns have the believed layout, and need no record.
        let layout = match believed.filter(|believed| believed.takes(&column)) {
            Some(believed) => Some(believed.clone()),
            None => ValueLayout::recorded(&column),
        };
        StoredValues { column, layout, recorded }
    }

    /// The value of the document at `row`; `None`: it has none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not of the layout that the column records.
    pub fn value(&self, row: usize) -> Result<Option<DocumentValue>, Error> {
        match &self.column {
            Column::Fixed(column) if column.presence().get(row) => self.number(column, row).map(Some),
            Column::Bytes(column) => column.get(row).map(|bytes| self.text(bytes)).transpose(),
            Column::Fixed(_) | Column::Tokens(_) => Ok(None),
        }
    }

    /// [`StoredValues::value`], for loops over many documents: texts, collections and structs of columns that
    /// record their layout are read where they lie.
    ///
    /// # Errors
    /// Those of [`StoredValues::value`].
    pub fn read(&self, row: usize) -> Result<Option<ColumnValue<'_>>, Error> {
        let damaged = || Error::Corrupt("a value is not of its column's type");
        if let Column::Bytes(column) = &self.column
            && self.recorded
        {
            let Some(bytes) = column.get(row) else { return Ok(None) };
            match &self.layout {
                Some(ValueLayout::Encoded) => {
                    let value = ValueRef::parse(bytes).map_err(|_| damaged())?;
                    return Ok(Some(ColumnValue::InPlace(value)));
                }
                Some(ValueLayout::Text) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
                    return Ok(Some(ColumnValue::InPlace(ValueRef::String(text))));
                }
                _ => {}
            }
        }
        Ok(self.value(row)?.map(ColumnValue::Decoded))
    }

    fn number(&self, column: &FixedColumn, row: usize) -> Result<DocumentValue, Error> {
        let unknown = || {
            let cell = cell_type(column.cell());
            let number = matches!(column.cell(), CellKind::BF16).then_some(1);
            // A single bfloat16 is not a value of a number's type.
            let cells = if column.width() == 1 { number } else { Some(column.width()) };
            cell.zip(cells).and_then(|(cell, cells)| unrecorded_type(cell, cells)).map(ValueLayout::Dense)
        };
        let unrecorded;
        let layout = match &self.layout {
            Some(layout) => layout,
            None => {
                unrecorded = unknown().unwrap_or(ValueLayout::Number(column.cell()));
                &unrecorded
            }
        };
        fixed_value(column, layout, row).ok_or(Error::Corrupt("a value is not of its column's type"))
    }

    fn text(&self, bytes: &[u8]) -> Result<DocumentValue, Error> {
        let damaged = || Error::Corrupt("a value is not of its column's type");
        match &self.layout {
            Some(ValueLayout::Encoded) if self.recorded => wire::decode_value(bytes).map_err(|_| damaged()),
            Some(ValueLayout::Text) if self.recorded => text(bytes).ok_or_else(damaged),
            Some(ValueLayout::Raw) => Ok(DocumentValue::Raw(bytes.to_vec())),
            Some(ValueLayout::Encoded) => {
                Ok(wire::decode_value(bytes).unwrap_or_else(|_| text_or_raw(bytes)))
            }
            _ => Ok(encoded_collection(bytes).unwrap_or_else(|| text_or_raw(bytes))),
        }
    }
}

fn text(bytes: &[u8]) -> Option<DocumentValue> {
    std::str::from_utf8(bytes).ok().map(|text| DocumentValue::String(text.to_owned()))
}

fn text_or_raw(bytes: &[u8]) -> DocumentValue {
    text(bytes).unwrap_or_else(|| DocumentValue::Raw(bytes.to_vec()))
}

/// The value of bytes that are the wire form of a tensor or a collection. Text is not, unless it was made to
/// be: its tags, counts and lengths would have to be control characters that fit each other up to its end.
pub(crate) fn encoded_collection(bytes: &[u8]) -> Option<DocumentValue> {
    let is_tag = bytes.first().is_some_and(|tag| (10..=14).contains(tag));
    is_tag.then(|| wire::decode_value(bytes).ok()).flatten()
}

/// Returns the number of rows in `rows` that have a value.
pub(crate) fn present(column: &Column, rows: std::ops::Range<usize>) -> usize {
    let count = |presence: crate::Presence<'_>| rows.clone().filter(|row| presence.get(*row)).count();
    match column {
        Column::Fixed(column) => count(column.presence()),
        Column::Bytes(column) => count(column.presence()),
        Column::Tokens(_) => 0,
    }
}
