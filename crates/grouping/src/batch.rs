//! Columns of one chunk, as input of expressions.

use std::borrow::Cow;
use std::cell::OnceCell;

use millrace_column::{
    BytesColumn, CellKind, Column, ColumnKey, ExecutionPaths, FixedColumn, Presence, ValueLayout, View,
    encoded_values, layout, value,
};
use millrace_document::{DocumentValue, EncodedLeafValues, LeafColumn};

use crate::GroupingFailure;
use crate::datum::ExpressionDatum;
use crate::field::{CheckedField, FieldReach, position_of};
use crate::level::{CheckedGrouping, GroupingFieldPath, GroupingReads};
use crate::numbers::NumberColumn;
use crate::values::RowValues;

/// The columns of one chunk that a grouping reads.
pub(crate) struct GroupingColumns {
    /// Columns of the fields that are read.
    fields: Vec<Option<Column>>,
    ids: Option<Column>,
    paths: ExecutionPaths,
}

impl GroupingColumns {
    pub(crate) fn read(
        grouping: &CheckedGrouping,
        view: &dyn View,
        chunk: usize,
    ) -> Result<Self, GroupingFailure> {
        let read = |key: &ColumnKey| {
            let columns = view.columns(key, chunk..chunk + 1)?;
            Ok::<_, GroupingFailure>(columns.into_iter().next().flatten())
        };
        let names = grouping.reads.fields.iter().map(|(name, _)| ColumnKey::value(name));
        let fields = names.map(|key| read(&key)).collect::<Result<_, _>>()?;
        let ids = if grouping.reads.ids { read(&ColumnKey::id())? } else { None };
        Ok(GroupingColumns { fields, ids, paths: view.paths() })
    }
}

/// Some documents of one chunk, with their values.
pub(crate) struct GroupingBatch<'d> {
    pub(crate) documents: &'d [u16],
    /// One score per document; empty if all are 0.
    pub(crate) scores: &'d [f64],
    reads: &'d GroupingReads,
    columns: &'d GroupingColumns,
    /// By field: the values of `documents`, each decoded on its first use.
    decoded: Vec<OnceCell<Vec<OnceCell<Option<DocumentValue>>>>>,
    /// By path: the values of `documents` at its end, read on first use.
    leaves: Vec<OnceCell<Option<LeafColumn<'d>>>>,
}

impl<'d> GroupingBatch<'d> {
    pub(crate) fn new(
        reads: &'d GroupingReads,
        columns: &'d GroupingColumns,
        documents: &'d [u16],
        scores: &'d [f64],
    ) -> Self {
        let decoded = reads.fields.iter().map(|_| OnceCell::new()).collect();
        let leaves = reads.paths.iter().map(|_| OnceCell::new()).collect();
        GroupingBatch { documents, scores, reads, columns, decoded, leaves }
    }

    pub(crate) fn score(&self, row: usize) -> f64 {
        self.scores.get(row).copied().unwrap_or(0.0)
    }

    /// User-specified part of the document id in `row`.
    pub(crate) fn document_name(&self, row: usize) -> &str {
        let id = match &self.columns.ids {
            Some(Column::Bytes(ids)) => ids.get(usize::from(self.documents[row])),
            _ => None,
        };
        let id = id.and_then(|id| std::str::from_utf8(id).ok()).unwrap_or_default();
        id.splitn(5, ':').nth(4).unwrap_or_default()
    }

    /// The value column of a field, if the chunk has it.
    pub(crate) fn column(&self, field: &CheckedField) -> Option<&Column> {
        self.columns.fields[field.column].as_ref()
    }

    /// Value of a field in the document of `row`; with `element`, only that element of a list.
    pub(crate) fn field(
        &self,
        field: &CheckedField,
        row: usize,
        element: Option<usize>,
    ) -> ExpressionDatum<'_> {
        if let (FieldReach::Whole, Some(column)) = (&field.reach, self.column(field)) {
            let document = usize::from(self.documents[row]);
            let direct = match (column, layout(&field.data_type)) {
                (Column::Fixed(column), ValueLayout::Number(cell))
                    if column.cell() == cell && column.width() == 1 =>
                {
                    Some(number_at(column, document))
                }
                (Column::Bytes(column), ValueLayout::Text) => {
                    Some(text_at(column, document).map(ExpressionDatum::Text))
                }
                _ => None,
            };
            if let Some(datum) = direct {
                return datum.unwrap_or_else(|| field.undefined());
            }
        }
        if let Some(datum) = field.take_in_place(self, row, element) {
            return datum;
        }
        let key_of = |key: &CheckedField| self.field(key, row, None).to_text().into_owned();
        field.take(self.value(field, row), element, key_of)
    }

    /// Values of a field in these rows; `None` unless it has one number, text or raw value a document, whole
    /// or in a struct.
    pub(crate) fn values(&self, field: &CheckedField, rows: &[u32]) -> Option<RowValues<'_>> {
        match layout(&field.data_type) {
            ValueLayout::Number(cell) => self.numbers(field, cell, rows).map(RowValues::Numbers),
            ValueLayout::Text => {
                self.bytes(field, rows, |text| std::str::from_utf8(text).ok()).map(RowValues::Texts)
            }
            ValueLayout::Raw => self.bytes(field, rows, Some).map(RowValues::Raws),
            ValueLayout::Encoded => self.member_values(field, rows),
            ValueLayout::Dense(_) => None,
        }
    }

    /// Results of `of` over the bytes of a field in these rows. `None` if the column is not of bytes, or as
    /// soon as `of` returns it.
    fn bytes<'s, T>(
        &'s self,
        field: &CheckedField,
        rows: &[u32],
        of: impl Fn(&'s [u8]) -> Option<T>,
    ) -> Option<Vec<T>> {
        let column = match self.column(field) {
            None => None,
            Some(Column::Bytes(column)) => Some(column),
            Some(_) => return None,
        };
        let document = |row: &u32| usize::from(self.documents[*row as usize]);
        let bytes = |row| column.and_then(|column| column.get(document(row))).unwrap_or_default();
        rows.iter().map(|row| of(bytes(row))).collect()
    }

    fn numbers(&self, field: &CheckedField, cell: CellKind, rows: &[u32]) -> Option<NumberColumn> {
        let column = match self.column(field) {
            None => return NumberColumn::repeat(&field.undefined(), rows.len()),
            Some(Column::Fixed(column)) if column.cell() == cell && column.width() == 1 => column,
            Some(_) => return None,
        };
        let documents = rows.iter().map(|row| usize::from(self.documents[*row as usize]));
        let present = column.presence();
        Some(match cell {
            CellKind::Bool => {
                let cells = column.cells::<u8>();
                NumberColumn::Bools(documents.map(|at| present.get(at) && cells[at] != 0).collect())
            }
            CellKind::I8 => {
                let cells = column.cells::<i8>();
                NumberColumn::Longs(gather(present, documents, |at| i64::from(cells[at])))
            }
            CellKind::I32 => {
                let cells = column.cells::<i32>();
                NumberColumn::Longs(gather(present, documents, |at| i64::from(cells[at])))
            }
            CellKind::I64 => {
                let cells = column.cells::<i64>();
                NumberColumn::Longs(gather(present, documents, |at| cells[at]))
            }
            CellKind::F32 => {
                let cells = column.cells::<f32>();
                NumberColumn::Doubles(gather(present, documents, |at| f64::from(cells[at])))
            }
            CellKind::F64 => {
                let cells = column.cells::<f64>();
                NumberColumn::Doubles(gather(present, documents, |at| cells[at]))
            }
            CellKind::U64 | CellKind::BF16 => return None,
        })
    }

    /// Decoded value of a field in the document of `row`.
    pub(crate) fn value(&self, field: &CheckedField, row: usize) -> Option<&DocumentValue> {
        let decode = || value(self.column(field)?, &field.data_type, usize::from(self.documents[row]));
        let values = self.decoded[field.column]
            .get_or_init(|| self.documents.iter().map(|_| OnceCell::new()).collect());
        values.get(row)?.get_or_init(decode).as_ref()
    }

    /// Values at the end of a path in all rows, if they are read in place.
    pub(crate) fn all_leaves(&self, path: Option<usize>) -> Option<&LeafColumn<'d>> {
        let path = path.filter(|_| self.columns.paths.is_fast())?;
        let leaves = self.leaves[path].get_or_init(|| {
            let GroupingFieldPath { field, reader, .. } = &self.reads.paths[path];
            let encoded = encoded_values(self.columns.fields[*field].as_ref()?)?;
            Some(reader.column(encoded.get_each(self.documents)))
        });
        leaves.as_ref()
    }

    /// Values at the end of a path, if those of `row` are read in place.
    pub(crate) fn leaves(&self, path: Option<usize>, row: usize) -> Option<&LeafColumn<'d>> {
        self.all_leaves(path).filter(|leaves| leaves.irregular().binary_search(&row).is_err())
    }

    /// Latitudes and longitudes of a field's positions in a row, in millionths of a degree.
    pub(crate) fn positions(&self, field: &CheckedField, row: usize) -> Cow<'_, [[i32; 2]]> {
        let leaves = self.leaves(field.path, row);
        if let Some((EncodedLeafValues::Positions(positions), leaves)) =
            leaves.map(|leaves| (leaves.values(), leaves))
        {
            return Cow::Borrowed(&positions[leaves.of_row(row)]);
        }
        match self.value(field, row) {
            Some(DocumentValue::Array(positions)) => positions.iter().filter_map(position_of).collect(),
            value => value.and_then(position_of).into_iter().collect(),
        }
    }
}

/// Numbers of documents; 0, the undefined value of numbers, of those that have none.
fn gather<N: Default>(
    present: Presence<'_>,
    documents: impl Iterator<Item = usize>,
    at: impl Fn(usize) -> N,
) -> Vec<N> {
    documents.map(|document| if present.get(document) { at(document) } else { N::default() }).collect()
}

/// Number of a document in a column with one number per document.
pub(crate) fn number_at(column: &FixedColumn, document: usize) -> Option<ExpressionDatum<'static>> {
    column.presence().get(document).then(|| match column.cell() {
        CellKind::Bool => ExpressionDatum::Bool(column.cells::<u8>()[document] != 0),
        CellKind::I8 => ExpressionDatum::Long(i64::from(column.cells::<i8>()[document])),
        CellKind::I32 => ExpressionDatum::Long(i64::from(column.cells::<i32>()[document])),
        CellKind::I64 => ExpressionDatum::Long(column.cells::<i64>()[document]),
        CellKind::U64 => ExpressionDatum::Long(column.cells::<u64>()[document] as i64),
        CellKind::F32 => ExpressionDatum::Double(f64::from(column.cells::<f32>()[document])),
        CellKind::F64 => ExpressionDatum::Double(column.cells::<f64>()[document]),
        CellKind::BF16 => ExpressionDatum::Double(column.number(document).unwrap_or(f64::NAN)),
    })
}

/// Text of a document in a text column.
pub(crate) fn text_at(column: &BytesColumn, document: usize) -> Option<Cow<'_, str>> {
    // Text is checked a word of memory at a time; only what is wrong is replaced, character by character.
    column.get(document).map(|bytes| {
        std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
    })
}
