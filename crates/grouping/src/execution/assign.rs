//! Fast paths of the assignment of rows to groups, and the filter of elements.

use millrace_column::{Column, ValueLayout, layout};
use millrace_document::{EncodedLeafValues, LeafColumn};

use super::{BatchCollector, GroupKeys, GroupedRows, ListState};
use crate::GroupingFailure;
use crate::datum::ExpressionDatum;
use crate::field::FieldReach;
use crate::node::GroupingNode;
use crate::numbers::NumberColumn;
use crate::source::SourceColumn;
use crate::table::GroupTable;
use crate::values::RowValues;

impl<'b> BatchCollector<'b, '_> {
    /// Assigns rows by the first fast path that applies. Returns false if none does; `inner` is empty then.
    ///
    /// # Errors
    /// There are too many groups, or places in them.
    pub(super) fn assign_fast(
        &self,
        keys: &GroupKeys<'b>,
        state: &mut ListState,
        rows: &GroupedRows,
        inner: &mut GroupedRows,
    ) -> Result<bool, GroupingFailure> {
        Ok(self.assign_column(keys, &mut state.table, rows, inner)
            || self.assign_elements(keys, &mut state.table, rows, inner)?
            || self.assign_sources(keys, state, rows, inner)?
            || self.assign_values(keys, &mut state.table, rows, inner)?)
    }

    /// Fast path for expressions without lists, and for buckets of them. Returns false if it does not apply.
    fn assign_values(
        &self,
        keys: &GroupKeys<'b>,
        table: &mut GroupTable,
        rows: &GroupedRows,
        inner: &mut GroupedRows,
    ) -> Result<bool, GroupingFailure> {
        let (input, is_bucket) = match keys.by {
            GroupingNode::LongWidth { input, .. }
            | GroupingNode::DoubleWidth { input, .. }
            | GroupingNode::Predefined { input, .. } => (&**input, true),
            by => (by, false),
        };
        let Some(values) = self.values(input, rows) else { return Ok(false) };
        let takes_all = keys.takes_all(rows);
        inner.rows.reserve(rows.rows.len());
        inner.groups.reserve(rows.rows.len());
        for (index, (&row, &group)) in rows.rows.iter().zip(&rows.groups).enumerate() {
            if takes_all || self.bind_element(keys, row, rows.elements(index), 0, inner) {
                let number = match &values {
                    values if is_bucket => table.number(group, &keys.by.bucket_of(values.datum(index))),
                    RowValues::Numbers(NumberColumn::Longs(longs)) => table.long(group, longs[index]),
                    RowValues::Numbers(NumberColumn::Doubles(doubles)) => table.double(group, doubles[index]),
                    values => table.number(group, &values.datum(index)),
                };
                inner.push(row, number);
            }
            inner.check_size(table)?;
        }
        Ok(true)
    }

    /// Fast path for expressions over one field: each of its values is evaluated once. Returns false if it
    /// does not apply.
    fn assign_sources(
        &self,
        keys: &GroupKeys<'b>,
        state: &mut ListState,
        rows: &GroupedRows,
        inner: &mut GroupedRows,
    ) -> Result<bool, GroupingFailure> {
        let (table, sources) = (&mut state.table, &mut state.sources);
        if !keys.takes_all(rows) || !sources.is_worthwhile() {
            return Ok(false);
        }
        let column = keys.by.source().and_then(|field| SourceColumn::of(field, self.batch));
        let Some(column) = column else { return Ok(false) };
        for (&row, &group) in rows.rows.iter().zip(&rows.groups) {
            let value = column.value(usize::from(self.batch.documents[row as usize]));
            let groups =
                sources.groups_of(group, &value, |groups| match keys.by.eval(self.context(row, &[])) {
                    ExpressionDatum::List(keys) => {
                        groups.extend(keys.iter().map(|key| table.number(group, key)))
                    }
                    key => groups.push(table.number(group, &key)),
                });
            groups.iter().for_each(|group| inner.push(row, *group));
            inner.check_size(table)?;
        }
        Ok(true)
    }

    /// Binds a row to the element at `index`, unless the list's filter leaves it out: then it returns false.
    pub(super) fn bind_element(
        &self,
        keys: &GroupKeys<'b>,
        row: u32,
        outer: &[u32],
        index: usize,
        inner: &mut GroupedRows,
    ) -> bool {
        let start = inner.elements.len();
        inner.elements.extend_from_slice(outer);
        if keys.binds {
            inner.elements.push(index as u32);
        }
        let Some(filter) = keys.filter else { return true };
        let passes = filter.passes(self.context(row, &inner.elements[start..]));
        if !passes {
            inner.elements.truncate(start);
        }
        passes
    }

    /// Fast path for the elements of a collection, directly from the values that are read in place. Returns
    /// false if it does not apply.
    fn assign_elements(
        &self,
        keys: &GroupKeys<'b>,
        table: &mut GroupTable,
        rows: &GroupedRows,
        inner: &mut GroupedRows,
    ) -> Result<bool, GroupingFailure> {
        let GroupingNode::Field { field, element: None } = keys.by else { return Ok(false) };
        let leaves = self.batch.all_leaves(field.path).filter(|leaves| leaves.irregular().is_empty());
        let Some(leaves) = leaves.filter(|_| field.is_list()) else { return Ok(false) };
        match leaves.values() {
            EncodedLeafValues::Integers(numbers) => {
                self.each_element(keys, leaves, rows, table, inner, |table, group, index| {
                    table.long(group, index.map_or(0, |index| numbers[index]))
                })?;
            }
            EncodedLeafValues::Texts(texts) => {
                self.each_element(keys, leaves, rows, table, inner, |table, group, index| {
                    table.text_bytes(group, index.map_or(&[], |index| texts[index]))
                })?;
            }
            _ => {
                self.each_element(keys, leaves, rows, table, inner, |table, group, index| {
                    table.number(group, &field.leaf_datum(leaves, index))
                })?;
            }
        }
        Ok(true)
    }

    fn each_element(
        &self,
        keys: &GroupKeys<'b>,
        leaves: &LeafColumn<'_>,
        rows: &GroupedRows,
        table: &mut GroupTable,
        inner: &mut GroupedRows,
        number: impl Fn(&mut GroupTable, u32, Option<usize>) -> u32,
    ) -> Result<(), GroupingFailure> {
        for (index, (&row, &group)) in rows.rows.iter().zip(&rows.groups).enumerate() {
            let outer = rows.elements(index);
            for (element, value) in leaves.by_element(row as usize).enumerate() {
                if self.bind_element(keys, row, outer, element, inner) {
                    inner.push(row, number(table, group, value));
                }
            }
            inner.check_size(table)?;
        }
        Ok(())
    }

    /// Fast path for a plain field of text, without a filter, directly from its column. Returns false if it
    /// does not apply.
    fn assign_column(
        &self,
        keys: &GroupKeys<'b>,
        table: &mut GroupTable,
        rows: &GroupedRows,
        inner: &mut GroupedRows,
    ) -> bool {
        let GroupingNode::Field { field, element: None } = keys.by else { return false };
        if !matches!(field.reach, FieldReach::Whole) || keys.filter.is_some() || rows.width > 0 {
            return false;
        }
        let column = match self.batch.column(field) {
            Some(Column::Bytes(column)) if layout(&field.data_type) == ValueLayout::Text => column,
            _ => return false,
        };
        let (presence, offsets, data) = (column.presence(), column.offsets(), column.data());
        inner.groups.reserve(rows.rows.len());
        for (row, group) in rows.rows.iter().zip(&rows.groups) {
            let document = usize::from(self.batch.documents[*row as usize]);
            let text = match presence.get(document) {
                true => &data[offsets[document] as usize..offsets[document + 1] as usize],
                false => &[],
            };
            inner.groups.push(table.text_bytes(*group, text));
        }
        inner.rows.extend_from_slice(&rows.rows);
        true
    }
}
