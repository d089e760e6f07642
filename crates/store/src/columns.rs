//! Documents into columns and back: the same for rows of the tail in memory and for segments.

use std::sync::Arc;

use millrace_column::{BytesBuilder, Cell, Column, ColumnKey, FixedBuilder, Form, TokenIds, value};
use millrace_document::{Document, DocumentId, Value, wire};

use crate::Layout;
use crate::tail::Row;

/// The columns of a type in files: the layout's, and those of no field.
pub(crate) fn stored_columns(layout: &dyn Layout, document_type: &str) -> Vec<ColumnKey> {
    let mut columns = layout.columns(document_type).unwrap_or_default();
    columns.extend([ColumnKey::id(), ColumnKey::timestamp(), ColumnKey::removed(), ColumnKey::rest()]);
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// One column of rows; `None` when no row has a value in it.
pub(crate) fn build(
    layout: &dyn Layout,
    document_type: &str,
    key: &ColumnKey,
    rows: &[Row],
) -> Option<Column> {
    let column = match key.form {
        Form::Id => {
            let mut builder = BytesBuilder::new();
            rows.iter().for_each(|row| builder.push(Some(row.document.id.as_str().as_bytes())));
            Column::Bytes(builder.finish())
        }
        Form::Timestamp => {
            let mut builder = FixedBuilder::new(Cell::U64, 1);
            rows.iter().for_each(|row| builder.push(&row.timestamp.0.to_le_bytes()));
            Column::Fixed(builder.finish())
        }
        Form::Removed if rows.iter().all(|row| !row.removed) => return None,
        Form::Removed => {
            let mut builder = FixedBuilder::new(Cell::Bool, 1);
            rows.iter().for_each(|row| builder.push(&[u8::from(row.removed)]));
            Column::Fixed(builder.finish())
        }
        Form::Rest => return rest(layout, document_type, rows),
        Form::Value | Form::Tokens => {
            let documents: Vec<&Document> = rows.iter().map(|row| &row.document).collect();
            layout.build(document_type, key, &documents)
        }
    };
    has_values(&column).then_some(column)
}

/// The fields that the layout's value columns do not hold: those that it does not know, and values that are not of the type
/// which it gives the field.
fn rest(layout: &dyn Layout, document_type: &str, rows: &[Row]) -> Option<Column> {
    let documents: Vec<&Document> = rows.iter().map(|row| &row.document).collect();
    let columns: Vec<(String, Column)> = layout
        .columns(document_type)
        .unwrap_or_default()
        .into_iter()
        .filter(|key| key.form == Form::Value)
        .map(|key| {
            let column = layout.build(document_type, &key, &documents);
            (key.field, column)
        })
        .collect();
    let mut builder = BytesBuilder::new();
    let mut any = false;
    for (index, document) in documents.iter().enumerate() {
        let held =
            |field: &str| columns.iter().any(|(name, column)| name == field && has_value(column, index));
        let fields: Vec<(Arc<str>, Value)> =
            document.fields.iter().filter(|(field, _)| !held(field)).cloned().collect();
        if fields.is_empty() {
            builder.push(None);
        } else {
            any = true;
            let rest = Document { id: document.id.clone(), fields };
            builder.push(Some(&wire::encode_fields(&rest)));
        }
    }
    any.then(|| Column::Bytes(builder.finish()))
}

/// The document at `index` of a chunk, from its value columns and the rest.
pub(crate) fn document(
    layout: &dyn Layout,
    document_type: &str,
    id: DocumentId,
    index: usize,
    columns: &[(ColumnKey, Option<Column>)],
) -> Result<Document, millrace_document::Error> {
    let mut fields = Vec::new();
    let mut rest = Vec::new();
    for (key, column) in columns {
        let Some(column) = column else { continue };
        match (key.form, column) {
            (Form::Value, column) => {
                let data_type = layout.data_type(document_type, &key.field);
                if let Some(found) = data_type.and_then(|data_type| value(column, &data_type, index)) {
                    fields.push((Arc::from(key.field.as_str()), found));
                }
            }
            (Form::Rest, Column::Bytes(column)) => {
                if let Some(bytes) = column.get(index) {
                    rest = wire::decode_fields(id.clone(), bytes)?.fields;
                }
            }
            _ => {}
        }
    }
    rest.retain(|(field, _)| !fields.iter().any(|(known, _)| known == field));
    fields.append(&mut rest);
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
