//! Documents into columns and back: the same for rows of the tail in memory and for segments.

use std::sync::Arc;

use millrace_column::{
    BytesBuilder, BytesColumn, CellKind, Column, ColumnForm, ColumnKey, Compression, FixedBuilder,
    StoredValues, TokenIds, layout as column_layout,
};
use millrace_document::{DataType, Document, DocumentId, DocumentValue, EncodedDocument, wire};
use millrace_env::pace;

use crate::tail::{TailVersion, damaged_row};
use crate::{Error, StoreLayout};

/// Layout that knows no document type: documents are kept whole, and of stored ones only keys are read.
pub(crate) struct EmptyLayout;

impl StoreLayout for EmptyLayout {
    fn columns(&self, _: &str) -> Option<Vec<ColumnKey>> {
        None
    }

    fn build(
        &self,
        _: &str,
        _: &ColumnKey,
        _: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        unreachable!("a layout without columns is asked for none")
    }

    fn derive(&self, _: &str, _: &ColumnKey, _: &Column) -> Option<Column> {
        None
    }

    fn data_type(&self, _: &str, _: &str) -> Option<DataType> {
        None
    }
}

/// The columns of a type in files: the layout's, and those of no field.
pub(crate) fn stored_columns(layout: &dyn StoreLayout, document_type: &str) -> Vec<ColumnKey> {
    let mut columns = layout.columns(document_type).unwrap_or_default();
    columns.extend([ColumnKey::id(), ColumnKey::timestamp(), ColumnKey::removed(), ColumnKey::overflow()]);
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Compression of a column in files. Ids are scanned where versions are compared; what no column holds is
/// only shown.
pub(crate) fn compression(layout: &dyn StoreLayout, document_type: &str, key: &ColumnKey) -> Compression {
    match key.form {
        ColumnForm::Id => Compression::Whole,
        ColumnForm::Timestamp | ColumnForm::Removed => Compression::Small,
        ColumnForm::Overflow => Compression::Blocks,
        ColumnForm::Value | ColumnForm::Tokens => layout.compression(document_type, key),
    }
}

/// The documents of rows, with their values in the memory of the rows.
///
/// # Errors
/// A row cannot be read.
pub(crate) fn encoded(rows: &[TailVersion]) -> Result<Vec<EncodedDocument<'_>>, Error> {
    let of_row = |row| {
        pace::short_step();
        TailVersion::encoded(row)
    };
    rows.iter().map(of_row).collect()
}

/// One column of rows; `None` when no row has a value in it.
///
/// # Errors
/// A row cannot be read.
pub(crate) fn build(
    layout: &dyn StoreLayout,
    document_type: &str,
    key: &ColumnKey,
    rows: &[TailVersion],
) -> Result<Option<Column>, Error> {
    let documents = match key.form {
        ColumnForm::Value | ColumnForm::Tokens | ColumnForm::Overflow => encoded(rows)?,
        ColumnForm::Id | ColumnForm::Timestamp | ColumnForm::Removed => Vec::new(),
    };
    build_of(layout, document_type, key, rows, &documents)
}

/// [`build`], with the documents of the rows where the column has values of fields.
fn build_of(
    layout: &dyn StoreLayout,
    document_type: &str,
    key: &ColumnKey,
    rows: &[TailVersion],
    documents: &[EncodedDocument<'_>],
) -> Result<Option<Column>, Error> {
    let column = match key.form {
        ColumnForm::Id => {
            let mut builder = BytesBuilder::new();
            rows.iter().for_each(|row| builder.push(Some(row.id())));
            Column::Bytes(builder.finish())
        }
        ColumnForm::Timestamp => {
            let mut builder = FixedBuilder::new(CellKind::U64, 1);
            rows.iter().for_each(|row| builder.push(&row.timestamp.0.to_le_bytes()));
            Column::Fixed(builder.finish())
        }
        ColumnForm::Removed if rows.iter().all(|row| !row.removed) => return Ok(None),
        ColumnForm::Removed => {
            let mut builder = FixedBuilder::new(CellKind::Bool, 1);
            rows.iter().for_each(|row| builder.push(&[u8::from(row.removed)]));
            Column::Fixed(builder.finish())
        }
        ColumnForm::Overflow => {
            let mut keys = layout.columns(document_type).unwrap_or_default();
            keys.retain(|key| key.form == ColumnForm::Value);
            keys.push(ColumnKey::overflow());
            let mut columns = build_all(layout, document_type, &keys, rows, documents, &mut |_| {})?;
            return Ok(columns.pop().flatten());
        }
        ColumnForm::Value | ColumnForm::Tokens => {
            layout.build(document_type, key, documents).map_err(|error| damaged_row(&error))?
        }
    };
    Ok(has_values(&column).then_some(column))
}

/// Builds columns of rows and their documents, one for each of `keys`. The overflow contains the values that
/// the value columns among them do not hold, so those are built once. `built` is called with the index of
/// each column, after it.
///
/// # Errors
/// A row cannot be read.
pub(crate) fn build_all(
    layout: &dyn StoreLayout,
    document_type: &str,
    keys: &[ColumnKey],
    rows: &[TailVersion],
    documents: &[EncodedDocument<'_>],
    built: &mut dyn FnMut(usize),
) -> Result<Vec<Option<Column>>, Error> {
    let mut columns: Vec<Option<Column>> = Vec::with_capacity(keys.len());
    for (index, key) in keys.iter().enumerate() {
        columns.push(match key.form {
            ColumnForm::Overflow => None,
            _ => build_of(layout, document_type, key, rows, documents)?,
        });
        built(index);
    }
    let Some(index) = keys.iter().position(|key| key.form == ColumnForm::Overflow) else {
        return Ok(columns);
    };
    let values = keys.iter().zip(&columns).filter(|(key, _)| key.form == ColumnForm::Value);
    let values: Vec<_> =
        values.filter_map(|(key, column)| Some((key.field.as_str(), column.as_ref()?))).collect();
    columns[index] = overflow(&values, documents);
    built(index);
    Ok(columns)
}

/// [`build_all`] with all fields in the overflow: the layout is asked for nothing.
pub(crate) fn keep_all(
    layout: &dyn StoreLayout,
    document_type: &str,
    keys: &[ColumnKey],
    rows: &[TailVersion],
    documents: &[EncodedDocument<'_>],
) -> Result<Vec<Option<Column>>, Error> {
    let of_key = |key: &ColumnKey| match key.form {
        ColumnForm::Value | ColumnForm::Tokens => Ok(None),
        ColumnForm::Overflow => Ok(overflow(&[], documents)),
        ColumnForm::Id | ColumnForm::Timestamp | ColumnForm::Removed => {
            build_of(layout, document_type, key, rows, documents)
        }
    };
    keys.iter().map(of_key).collect()
}

/// The fields that no value column holds: those that the layout does not know, and values that are not of the
/// type which it gives the field.
fn overflow(values: &[(&str, &Column)], documents: &[EncodedDocument<'_>]) -> Option<Column> {
    let mut builder = BytesBuilder::new();
    let mut any = false;
    // The column of the field at each index of the documents before: most have theirs in one order.
    let mut columns: Vec<usize> = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let overflow = document.encode_some(|at, field| {
            if columns.len() <= at {
                columns.resize(at + 1, 0);
            }
            let known = columns[at];
            if values.get(known).is_none_or(|(name, _)| *name != field) {
                let Some(found) = values.iter().position(|(name, _)| *name == field) else { return true };
                columns[at] = found;
            }
            !has_value(values[columns[at]].1, index)
        });
        any |= overflow.is_some();
        builder.push(overflow.as_deref());
    }
    any.then(|| Column::Bytes(builder.finish()))
}

/// True if a column can hold values of these fields; `None`: of any field.
pub(crate) fn can_hold(key: &ColumnKey, fields: Option<&[String]>) -> bool {
    match key.form {
        ColumnForm::Value => fields.is_none_or(|fields| fields.contains(&key.field)),
        // Any field can be in the overflow.
        ColumnForm::Overflow => fields.is_none_or(|fields| !fields.is_empty()),
        ColumnForm::Id | ColumnForm::Timestamp | ColumnForm::Removed | ColumnForm::Tokens => false,
    }
}

/// A column of a chunk that holds values of documents: those of a field, or those that no column of a field
/// holds.
pub(crate) enum ValueColumn {
    Field { name: Arc<str>, values: StoredValues },
    Overflow(BytesColumn),
}

impl ValueColumn {
    /// Prepares a column of a chunk; `None` if it holds no values.
    ///
    /// # Errors
    /// The overflow of the documents is not bytes.
    pub fn new(
        layout: &dyn StoreLayout,
        document_type: &str,
        key: &ColumnKey,
        column: Option<Column>,
    ) -> Result<Option<Self>, millrace_column::Error> {
        let Some(column) = column else { return Ok(None) };
        match (key.form, column) {
            (ColumnForm::Value, column) => {
                // The column may have been written with another layout than the field's values have now.
                let believed = layout.data_type(document_type, &key.field).as_ref().map(column_layout);
                let values = StoredValues::new(column, believed.as_ref());
                Ok(Some(ValueColumn::Field { name: Arc::from(key.field.as_str()), values }))
            }
            (ColumnForm::Overflow, Column::Bytes(column)) => Ok(Some(ValueColumn::Overflow(column))),
            (ColumnForm::Overflow, _) => {
                Err(millrace_column::Error::Corrupt("an overflow column does not hold bytes"))
            }
            _ => Ok(None),
        }
    }
}

/// The document at `index` of a chunk, from its value columns and the overflow: all values that it was stored
/// with, also those of fields that the layout does not have now, or has with another type.
pub(crate) fn document(
    id: DocumentId,
    index: usize,
    columns: &[ValueColumn],
) -> Result<Document, millrace_column::Error> {
    let mut fields: Vec<(Arc<str>, DocumentValue)> = Vec::with_capacity(columns.len());
    let mut overflow = Vec::new();
    for column in columns {
        match column {
            ValueColumn::Field { name, values } => {
                if let Some(found) = values.value(index)? {
                    fields.push((Arc::clone(name), found));
                }
            }
            ValueColumn::Overflow(column) => {
                if let Some(bytes) = column.get(index) {
                    overflow = wire::decode_named(bytes).map_err(|_| {
                        millrace_column::Error::Corrupt("an overflow value is not a document")
                    })?;
                }
            }
        }
    }
    overflow.retain(|(field, _)| !fields.iter().any(|(known, _)| known == field));
    fields.append(&mut overflow);
    Ok(Document { id, fields })
}

fn has_values(column: &Column) -> bool {
    match column {
        Column::Fixed(column) => column.presence().words().iter().any(|word| *word != 0),
        Column::Bytes(column) => column.presence().words().iter().any(|word| *word != 0),
        Column::Tokens(column) => !column.ids().is_empty(),
    }
}

fn has_value(column: &Column, index: usize) -> bool {
    match column {
        Column::Fixed(column) => column.presence().get(index),
        Column::Bytes(column) => column.presence().get(index),
        Column::Tokens(column) => match column.document(index) {
            TokenIds::Narrow(ids) => !ids.is_empty(),
            TokenIds::Wide(ids) => !ids.is_empty(),
        },
    }
}
