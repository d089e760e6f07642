use std::ops::Range;

use millrace_column::{BytesBuilder, Column, FixedBuilder, TokensBuilder};

/// The columns one after another, without values where there is no column, or one of another type than the last one: it was
/// written under another schema.
pub(super) fn concat_with_gaps(parts: &[(Option<&Column>, Range<usize>)]) -> Option<Column> {
    let model = parts.iter().rev().find_map(|(column, _)| *column)?;
    let gap = absent_like(model, parts.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0));
    let filled: Vec<(&Column, Range<usize>)> = parts
        .iter()
        .map(|(column, rows)| match column {
            Some(column) if same_layout(column, model) => (*column, rows.clone()),
            _ => (&gap, 0..rows.len()),
        })
        .collect();
    Column::concat(&filled).ok()
}

fn same_layout(a: &Column, b: &Column) -> bool {
    match (a, b) {
        (Column::Fixed(a), Column::Fixed(b)) => a.cell() == b.cell() && a.width() == b.width(),
        (Column::Bytes(_), Column::Bytes(_)) | (Column::Tokens(_), Column::Tokens(_)) => true,
        _ => false,
    }
}

/// A column of the same layout for so many documents, none of which has a value.
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
