//! Value columns of a chunk that is merged from runs, and the columns that depend on them.
//!
//! The runs can have been written under different schemas. A column has the values that the current schema
//! gives its field; others are kept in the overflow, with their types ([`join_values`]). A merge never makes
//! a value absent: that is asserted for each column.

use std::collections::BTreeMap;

use millrace_column::{Column, ColumnForm, ColumnKey, ColumnPart, OverflowRows, join_values};
use millrace_env::pace;

use super::output::{MergedChunkRows, TypeOutput};
use crate::{Error, SegmentFile};

/// The value columns of a chunk.
pub(super) struct JoinedValues {
    fields: BTreeMap<String, JoinedField>,
    overflow: OverflowRows,
}

struct JoinedField {
    column: Option<Column>,
    /// A source has other values in its column: derived columns must be derived again.
    changed: bool,
}

impl JoinedValues {
    /// Joins the values of these rows.
    pub fn new(output: &TypeOutput<'_>, taken: &MergedChunkRows) -> Result<Self, Error> {
        let damaged = |error| damaged(taken.segment(), &error);
        let overflow = output.columns_of(&ColumnKey::overflow(), taken)?;
        let mut overflow = OverflowRows::decode(&parts(&overflow, taken)).map_err(damaged)?;
        let mut fields = BTreeMap::new();
        for key in output.columns.iter().filter(|key| key.form == ColumnForm::Value) {
            pace::step();
            let columns = output.columns_of(key, taken)?;
            let declared = output.policy.layout(output.document_type, &key.field);
            let moved = overflow.moved();
            let column = join_values(&key.field, declared.as_ref(), &parts(&columns, taken), &mut overflow)
                .map_err(damaged)?;
            let is_other = |of: &Column| declared.as_ref().is_some_and(|declared| !declared.takes(of));
            let changed = overflow.moved() != moved || columns.iter().flatten().any(is_other);
            fields.insert(key.field.clone(), JoinedField { column, changed });
        }
        Ok(JoinedValues { fields, overflow })
    }

    /// The value column of a field.
    pub fn column(&self, field: &str) -> Option<&Column> {
        self.fields.get(field)?.column.as_ref()
    }

    /// True if the words of a field must be extracted again from its value column.
    pub fn has_changed(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|field| field.changed)
    }

    /// The fields that no column holds.
    pub fn overflow(&self) -> Option<Column> {
        self.overflow.column()
    }
}

/// A segment of which a column cannot be joined with others.
pub(super) fn damaged(segment: &SegmentFile, error: &millrace_column::Error) -> Error {
    let reason = match error {
        millrace_column::Error::Corrupt(reason) => reason,
        millrace_column::Error::Mixed => {
            "columns of one name, which is that of no value, are of several layouts"
        }
    };
    segment.corrupt(0, reason)
}

/// The rows that are taken, given a column of each of their chunks.
pub(super) fn parts<'a>(columns: &'a [Option<Column>], taken: &MergedChunkRows) -> Vec<ColumnPart<'a>> {
    assert!(columns.len() == taken.chunks.len(), "each chunk has a column, or lacks it");
    taken.runs.iter().map(|run| (columns[run.chunk].as_ref(), run.rows.clone())).collect()
}
