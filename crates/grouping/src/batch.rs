//! Columns of one chunk, as input of expressions.

use std::borrow::Cow;
use std::cell::OnceCell;

use millrace_column::{
    BytesColumn, CellKind, Column, ColumnKey, FixedColumn, ValueLayout, View, layout, value,
};
use millrace_document::{DataType, DocumentValue};

use crate::GroupingFailure;
use crate::datum::ExpressionDatum;
use crate::field::{CheckedField, FieldReach};
use crate::level::CheckedGrouping;

/// Some documents of one chunk, and the columns that a grouping reads.
pub(crate) struct GroupingBatch<'d> {
    pub(crate) documents: &'d [u16],
    /// One score per document; empty if all are 0.
    pub(crate) scores: &'d [f64],
    columns: Vec<FieldColumn>,
    ids: Option<Column>,
}

struct FieldColumn {
    name: String,
    data_type: DataType,
    column: Option<Column>,
    /// Values of `documents`, decoded on first use.
    decoded: OnceCell<Vec<Option<DocumentValue>>>,
}

impl<'d> GroupingBatch<'d> {
    pub(crate) fn read(
        grouping: &CheckedGrouping,
        view: &dyn View,
        chunk: usize,
        documents: &'d [u16],
        scores: &'d [f64],
    ) -> Result<Self, GroupingFailure> {
        let read = |key: &ColumnKey| {
            let columns = view.columns(key, chunk..chunk + 1)?;
            Ok::<_, GroupingFailure>(columns.into_iter().next().flatten())
        };
        let columns = grouping
            .fields
            .iter()
            .map(|(name, data_type)| {
                let column = read(&ColumnKey::value(name))?;
                Ok(FieldColumn {
                    name: name.clone(),
                    data_type: data_type.clone(),
                    column,
                    decoded: OnceCell::new(),
                })
            })
            .collect::<Result<_, GroupingFailure>>()?;
        let ids = if grouping.reads_ids { read(&ColumnKey::id())? } else { None };
        Ok(GroupingBatch { documents, scores, columns, ids })
    }

    pub(crate) fn score(&self, row: usize) -> f64 {
        self.scores.get(row).copied().unwrap_or(0.0)
    }

    /// User-specified part of the document id in `row`.
    pub(crate) fn document_name(&self, row: usize) -> ExpressionDatum<'_> {
        let id = match &self.ids {
            Some(Column::Bytes(ids)) => ids.get(usize::from(self.documents[row])),
            _ => None,
        };
        let id = id.and_then(|id| std::str::from_utf8(id).ok()).unwrap_or_default();
        ExpressionDatum::Text(Cow::Borrowed(id.splitn(5, ':').nth(4).unwrap_or_default()))
    }

    /// The value column of a field, if the chunk has it.
    pub(crate) fn column(&self, field: &CheckedField) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == field.name).and_then(|column| column.column.as_ref())
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
        let key_of = |key: &CheckedField| self.field(key, row, None).to_text().into_owned();
        field.take(self.value(field, row), element, key_of)
    }

    /// Decoded value of a field in the document of `row`.
    pub(crate) fn value(&self, field: &CheckedField, row: usize) -> Option<&DocumentValue> {
        let column = self.columns.iter().find(|column| column.name == field.name)?;
        let values = column.decoded.get_or_init(|| {
            let decode = |document: &u16| {
                column
                    .column
                    .as_ref()
                    .and_then(|cells| value(cells, &column.data_type, usize::from(*document)))
            };
            self.documents.iter().map(decode).collect()
        });
        values.get(row).and_then(Option::as_ref)
    }
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
    column.get(document).map(String::from_utf8_lossy)
}
