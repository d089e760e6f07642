//! The values by which documents with several values are sorted.

use std::cmp::Ordering;
use std::ops::Range;

use millrace_column::{BytesBuilder, CellKind, Column, ExecutionPaths, FixedBuilder};
use millrace_document::zcurve;
use millrace_matching::{SingleValue, SingleValueReader, SingleValueRef};

use super::{OrderBy, OrderKeyColumn, is_float};
use crate::sort_key;

impl OrderKeyColumn {
    /// The first values in the order of these documents, as a column of single values.
    pub(super) fn first_values(
        &self,
        inside: &SingleValueReader,
        column: &Column,
        documents: &[u16],
    ) -> Column {
        let paths = ExecutionPaths::Fast;
        let is_before =
            |order: Ordering| order == if self.descending { Ordering::Greater } else { Ordering::Less };
        match &self.by {
            OrderBy::Number(of) if is_float(of) => {
                let mut first: Vec<Option<f64>> = vec![None; documents.len()];
                inside.for_each(column, documents, paths, |SingleValue { row, value, .. }| {
                    let Some(SingleValueRef::Float(number)) = value else { return };
                    let key = sort_key::ordered_float(number);
                    if first[row].is_none_or(|first| is_before(key.cmp(&sort_key::ordered_float(first)))) {
                        first[row] = Some(number);
                    }
                });
                fixed_column(
                    CellKind::F64,
                    documents,
                    first.into_iter().map(|first| first.map(f64::to_le_bytes)),
                )
            }
            OrderBy::Text(_, order) => {
                // Copies of the texts that were the first of their documents so far, one after another.
                let (mut copies, mut first) = (Vec::new(), vec![None; documents.len()]);
                inside.for_each(column, documents, paths, |SingleValue { row, value, .. }| {
                    let Some(SingleValueRef::Text(text)) = value else { return };
                    let other: Option<Range<usize>> = first[row].clone();
                    if other.is_none_or(|other| is_before(sort_key::compare(order, text, &copies[other]))) {
                        first[row] = Some(copies.len()..copies.len() + text.len());
                        copies.extend_from_slice(text);
                    }
                });
                bytes_column(documents, first.into_iter().map(|first| first.map(|first| &copies[first])))
            }
            OrderBy::Bytes(_) => {
                let mut first: Vec<Option<Vec<u8>>> = vec![None; documents.len()];
                inside.for_each(column, documents, paths, |SingleValue { row, value, .. }| {
                    let Some(SingleValueRef::Raw(bytes)) = value else { return };
                    if first[row].as_ref().is_none_or(|first| is_before(bytes.cmp(first))) {
                        first[row] = Some(bytes.to_owned());
                    }
                });
                bytes_column(documents, first.iter().map(|first| first.as_deref()))
            }
            OrderBy::Number(_) | OrderBy::Score | OrderBy::Source | OrderBy::Id | OrderBy::Nothing => {
                let mut first: Vec<Option<i64>> = vec![None; documents.len()];
                inside.for_each(column, documents, paths, |SingleValue { row, value, .. }| {
                    let number = match value {
                        Some(SingleValueRef::Bool(value)) => i64::from(value),
                        Some(SingleValueRef::Integer(number)) => number,
                        Some(SingleValueRef::Position { latitude, longitude }) => zcurve(latitude, longitude),
                        _ => return,
                    };
                    if first[row].is_none_or(|first| is_before(number.cmp(&first))) {
                        first[row] = Some(number);
                    }
                });
                fixed_column(
                    CellKind::I64,
                    documents,
                    first.into_iter().map(|first| first.map(i64::to_le_bytes)),
                )
            }
        }
    }
}

/// A column of numbers of some documents.
fn fixed_column(cell: CellKind, documents: &[u16], numbers: impl Iterator<Item = Option<[u8; 8]>>) -> Column {
    let (mut builder, mut next) = (FixedBuilder::new(cell, 1), 0);
    for (document, number) in documents.iter().zip(numbers) {
        (next..*document).for_each(|_| builder.push_absent());
        match number {
            Some(number) => builder.push(&number),
            None => builder.push_absent(),
        }
        next = document.saturating_add(1);
    }
    Column::Fixed(builder.finish())
}

/// A column of bytes of some documents.
fn bytes_column<'t>(documents: &[u16], texts: impl Iterator<Item = Option<&'t [u8]>>) -> Column {
    let (mut builder, mut next) = (BytesBuilder::new(), 0);
    for (document, text) in documents.iter().zip(texts) {
        (next..*document).for_each(|_| builder.push(None));
        builder.push(text);
        next = document.saturating_add(1);
    }
    Column::Bytes(builder.finish())
}
