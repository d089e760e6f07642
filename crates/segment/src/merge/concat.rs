use std::ops::Range;

use millrace_column::{BytesBuilder, Column, ColumnPart, Error, FixedBuilder, TokensBuilder};

/// Concatenates the columns, without values where a column is missing; `None` if all are missing. They belong
/// to no field, or are words: their layout is the same under every schema.
///
/// # Errors
/// [`Error::Mixed`] if their layouts differ.
pub(super) fn concat_with_gaps(parts: &[ColumnPart<'_>]) -> Result<Option<Column>, Error> {
    let Some(model) = parts.iter().find_map(|(column, _)| *column) else { return Ok(None) };
    let gap = absent_like(model, parts.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0));
    let filled: Vec<(&Column, Range<usize>)> = parts
        .iter()
        .map(|(column, rows)| match column {
            Some(column) => (*column, rows.clone()),
            None => (&gap, 0..rows.len()),
        })
        .collect();
    Column::concat(&filled).map(Some)
}

/// Returns a column of the same layout for `documents` documents, none of which has a value.
fn absent_like(model: &Column, documents: usize) -> Column {
    match model {
        Column::Fixed(model) => {
            let mut builder = FixedBuilder::new(model.cell(), model.width());
            (0..documents).for_each(|_| builder.push_absent());
            Column::Fixed(builder.finish())
        }
        Column::Bytes(_) => {
            let mut builder = BytesBuilder::new();
            (0..documents).for_each(|_| builder.push(None));
            Column::Bytes(builder.finish())
        }
        Column::Tokens(_) => {
            let mut builder = TokensBuilder::new();
            (0..documents).for_each(|_| builder.end_document());
            Column::Tokens(builder.finish())
        }
    }
}
