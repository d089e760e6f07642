//! Joining of value columns of several parts, written under several schemas, into one.
//!
//! 1. A column has values of one layout: that of its field's type, or, for an undeclared field, that of its
//!    last column.
//! 2. Parts of that layout are taken unchanged. From others the values are taken one by one.
//! 3. A value that the column cannot hold goes to the overflow, with its type. A value of the overflow that
//!    the column can hold goes to the column.
//!
//! No value is lost: each is in the column or in the overflow.

use std::ops::Range;
use std::sync::Arc;

use millrace_document::{DocumentValue, wire};

use crate::stored::present;
use crate::{BytesBuilder, Column, Error, StoredValues, ValueBuilder, ValueLayout};

/// A part of a column: these rows, or as many without a value.
pub type ColumnPart<'a> = (Option<&'a Column>, Range<usize>);

/// The fields of rows that are in no value column.
#[derive(Debug, Clone, Default)]
pub struct OverflowRows {
    rows: Vec<Vec<(Arc<str>, DocumentValue)>>,
    moved: usize,
}

impl OverflowRows {
    /// The rows of overflow columns, one after another.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a column is not of that form.
    pub fn decode(parts: &[ColumnPart<'_>]) -> Result<Self, Error> {
        let mut rows = Vec::new();
        for (column, range) in parts {
            match column {
                None => rows.resize_with(rows.len() + range.len(), Vec::new),
                Some(Column::Bytes(column)) => {
                    for row in range.clone() {
                        rows.push(match column.get(row) {
                            None => Vec::new(),
                            Some(bytes) => wire::decode_named(bytes)
                                .map_err(|_| Error::Corrupt("an overflow value is not a document"))?,
                        });
                    }
                }
                Some(_) => return Err(Error::Corrupt("an overflow column does not hold bytes")),
            }
        }
        Ok(OverflowRows { rows, moved: 0 })
    }

    /// Returns true if a row has a field.
    pub fn has(&self, field: &str) -> bool {
        self.rows.iter().flatten().any(|(name, _)| **name == *field)
    }

    /// Returns the number of values.
    pub fn values(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// Returns the number of values moved from or to columns.
    pub fn moved(&self) -> usize {
        self.moved
    }

    fn take(
        &mut self,
        row: usize,
        field: &str,
        fits: impl Fn(&DocumentValue) -> bool,
    ) -> Option<DocumentValue> {
        let fields = &mut self.rows[row];
        let at = fields.iter().position(|(name, value)| **name == *field && fits(value))?;
        self.moved += 1;
        Some(fields.remove(at).1)
    }

    fn add(&mut self, row: usize, field: &str, value: DocumentValue) {
        self.moved += 1;
        self.rows[row].push((Arc::from(field), value));
    }

    /// The rows as a column; `None` where none has a field.
    pub fn column(&self) -> Option<Column> {
        if self.values() == 0 {
            return None;
        }
        let mut builder = BytesBuilder::new();
        for fields in &self.rows {
            builder.push((!fields.is_empty()).then(|| wire::encode_named(fields)).as_deref());
        }
        Some(Column::Bytes(builder.finish()))
    }
}

/// Joins the values of a field. `declared` is the layout of its type; `None`: the schema has no such field,
/// and its values are kept in case it has it again. Moves values that the column can hold from `overflow` to
/// the column, and the others to `overflow`. `None`: no part has a column, and the overflow has no value for
/// one.
///
/// # Errors
/// [`Error::Corrupt`] if a value does not have the layout that its column records.
///
/// # Panics
/// A value would be lost, or would appear from nowhere: this is an error of the program, and none of the
/// result may be written.
pub fn join_values(
    field: &str,
    declared: Option<&ValueLayout>,
    parts: &[ColumnPart<'_>],
    overflow: &mut OverflowRows,
) -> Result<Option<Column>, Error> {
    let counted = parts.iter().filter_map(|(column, rows)| Some(present((*column)?, rows.clone())));
    let before = counted.sum::<usize>() + overflow.values();
    let wanted = declared.is_some() && overflow.has(field);
    let Some(mut builder) = builder(declared, parts, wanted) else { return Ok(None) };
    let mut at = 0;
    for (column, rows) in parts {
        match column {
            Some(column) if !wanted && builder.takes_as_it_is(column) => builder.extend(column, rows.clone()),
            None if !wanted => rows.clone().for_each(|_| builder.push(None)),
            column => {
                let stored = column.map(|column| StoredValues::new(column.clone(), declared));
                for (index, row) in rows.clone().enumerate() {
                    let own = stored.as_ref().map(|stored| stored.value(row)).transpose()?.flatten();
                    push_value(&mut builder, own, field, overflow, at + index);
                }
            }
        }
        at += rows.len();
    }
    let joined = builder.finish();
    let after = present(&joined, 0..joined.len()) + overflow.values();
    assert!(
        before == after,
        "field '{field}' has {before} values, of which {after} would be left: none may be lost"
    );
    Ok(Some(joined))
}

/// A builder for values of the declared layout; else for those of the last part.
fn builder(declared: Option<&ValueLayout>, parts: &[ColumnPart<'_>], wanted: bool) -> Option<ValueBuilder> {
    let mut columns = parts.iter().rev().filter_map(|(column, _)| *column);
    let last = columns.clone().next();
    match declared {
        Some(layout) => (wanted || last.is_some()).then(|| ValueBuilder::of(layout.clone())),
        None => match columns.find_map(ValueLayout::recorded) {
            Some(layout) => Some(ValueBuilder::of(layout)),
            None => last.and_then(ValueBuilder::unrecorded),
        },
    }
}

/// Adds the value of a row: its own, or the one from its overflow. Values that the column cannot hold go to
/// the overflow.
fn push_value(
    builder: &mut ValueBuilder,
    own: Option<DocumentValue>,
    field: &str,
    overflow: &mut OverflowRows,
    row: usize,
) {
    match own {
        Some(own) if builder.holds(&own) => return builder.push(Some(&own)),
        Some(own) => overflow.add(row, field, own),
        None => {}
    }
    let from_overflow = overflow.take(row, field, |value| builder.holds(value));
    builder.push(from_overflow.as_ref());
}
