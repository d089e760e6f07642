//! Values of an expression in many rows at once. Texts and bytes that functions make are appended to one
//! buffer for all rows.

use std::borrow::Cow;
use std::ops::Range;

use crate::batch::GroupingBatch;
use crate::datum::ExpressionDatum;
use crate::functions::{GroupingFunction, GroupingFunctionCode, append_bytes};
use crate::node::{FilterNode, GroupingNode, NarrowType, RowContext, distance_from};
use crate::numbers::NumberColumn;
use crate::zone::GroupingZone;

/// Maximum number of bytes that are made for many rows at once. Longer values are made row by row.
const MADE_MAX: usize = 4 << 20;

/// Values of an expression in some rows: one in each, and none of them a list.
#[derive(Debug)]
pub(crate) enum RowValues<'a> {
    /// The same value in all rows.
    Same(&'a ExpressionDatum<'static>),
    Numbers(NumberColumn),
    /// Texts of a column.
    Texts(Vec<&'a str>),
    /// Bytes of a column.
    Raws(Vec<&'a [u8]>),
    MadeTexts(JoinedRows<String>),
    MadeRaws(JoinedRows<Vec<u8>>),
}

/// Texts or bytes of rows, one after another.
#[derive(Debug)]
pub(crate) struct JoinedRows<B> {
    joined: B,
    /// End of each row.
    ends: Vec<usize>,
}

impl<B> JoinedRows<B> {
    fn range(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

impl RowValues<'_> {
    /// Value at `index`.
    #[inline]
    pub(crate) fn datum(&self, index: usize) -> ExpressionDatum<'_> {
        match self {
            RowValues::Same(value) => value.borrowed(),
            RowValues::Numbers(values) => values.datum(index),
            RowValues::Texts(texts) => ExpressionDatum::Text(Cow::Borrowed(texts[index])),
            RowValues::Raws(raws) => ExpressionDatum::Raw(Cow::Borrowed(raws[index])),
            RowValues::MadeTexts(made) => {
                ExpressionDatum::Text(Cow::Borrowed(&made.joined[made.range(index)]))
            }
            RowValues::MadeRaws(made) => ExpressionDatum::Raw(Cow::Borrowed(&made.joined[made.range(index)])),
        }
    }

    /// The numbers of `rows` rows; `None` if the values are not numbers.
    pub(crate) fn into_numbers(self, rows: usize) -> Option<NumberColumn> {
        match self {
            RowValues::Same(value) => NumberColumn::repeat(value, rows),
            RowValues::Numbers(numbers) => Some(numbers),
            RowValues::Texts(_) | RowValues::Raws(_) | RowValues::MadeTexts(_) | RowValues::MadeRaws(_) => {
                None
            }
        }
    }
}

/// Makes the texts of `rows` rows; `None` if they are too long.
fn made_texts(rows: usize, append: impl Fn(usize, &mut String)) -> Option<RowValues<'static>> {
    let (mut joined, mut ends) = (String::new(), Vec::with_capacity(rows));
    for index in 0..rows {
        append(index, &mut joined);
        if joined.len() > MADE_MAX {
            return None;
        }
        ends.push(joined.len());
    }
    Some(RowValues::MadeTexts(JoinedRows { joined, ends }))
}

/// Makes the bytes of `rows` rows; `None` if they are too long.
fn made_raws(rows: usize, append: impl Fn(usize, &mut Vec<u8>)) -> Option<RowValues<'static>> {
    let (mut joined, mut ends) = (Vec::new(), Vec::with_capacity(rows));
    for index in 0..rows {
        append(index, &mut joined);
        if joined.len() > MADE_MAX {
            return None;
        }
        ends.push(joined.len());
    }
    Some(RowValues::MadeRaws(JoinedRows { joined, ends }))
}

impl GroupingFunction {
    /// Applies the function to the arguments of `rows` rows, with the results of [`GroupingFunction::apply`].
    /// `None` if it is of lists, or if the results are too long, or of several kinds.
    fn apply_rows(
        &self,
        arguments: Vec<RowValues<'_>>,
        zone: &GroupingZone,
        rows: usize,
    ) -> Option<RowValues<'static>> {
        match &self.code {
            GroupingFunctionCode::Number(_) | GroupingFunctionCode::Fold(_) => {
                let numbers = arguments.into_iter().map(|argument| argument.into_numbers(rows));
                self.apply_columns(numbers, zone).map(RowValues::Numbers)
            }
            GroupingFunctionCode::Date(code) => {
                let seconds = arguments.into_iter().next()?.into_numbers(rows)?.into_longs();
                made_texts(rows, |index, out| code(zone.civil(seconds[index]), out))
            }
            GroupingFunctionCode::TextNumber(code) => {
                let of = arguments.first()?;
                let number = |index| code(&of.datum(index).to_text());
                Some(RowValues::Numbers(NumberColumn::Longs((0..rows).map(number).collect())))
            }
            GroupingFunctionCode::Text(code) => {
                let of = arguments.first()?;
                made_texts(rows, |index, out| code(&of.datum(index), out))
            }
            GroupingFunctionCode::Bytes(code) => {
                let of = arguments.first()?;
                made_raws(rows, |index, out| code(&of.datum(index), out))
            }
            GroupingFunctionCode::JoinedTexts => made_texts(rows, |index, out| {
                arguments.iter().for_each(|of| of.datum(index).append_text(out));
            }),
            GroupingFunctionCode::JoinedBytes => made_raws(rows, |index, out| {
                arguments.iter().for_each(|of| append_bytes(&of.datum(index), out));
            }),
            GroupingFunctionCode::Digest(code) => {
                let (of, bits) = (arguments.first()?, arguments.get(1)?);
                made_raws(rows, |index, out| {
                    code(&of.datum(index).to_raw(), bits.datum(index).to_long(), out);
                })
            }
            GroupingFunctionCode::Whole(_)
            | GroupingFunctionCode::Size
            | GroupingFunctionCode::ElementAt
            | GroupingFunctionCode::Lookup => None,
        }
    }
}

impl GroupingNode {
    /// Evaluates the node in many rows at once, in which no element is bound. `None` if it, or a node inside,
    /// may have lists, has buckets, or values that are too long.
    pub(crate) fn values<'b>(
        &'b self,
        batch: &'b GroupingBatch<'_>,
        zone: &GroupingZone,
        rows: &[u32],
    ) -> Option<RowValues<'b>> {
        match self {
            GroupingNode::Constant(value) => Some(RowValues::Same(value)),
            GroupingNode::Field { field, element: None } => batch.values(field, rows),
            GroupingNode::Score => {
                let scores = rows.iter().map(|row| batch.score(*row as usize));
                Some(RowValues::Numbers(NumberColumn::Doubles(scores.collect())))
            }
            GroupingNode::DocumentName => {
                let names = rows.iter().map(|row| batch.document_name(*row as usize));
                Some(RowValues::Texts(names.collect()))
            }
            GroupingNode::Call { function, arguments } => {
                if let Some(values) = function.apply_to_lists(arguments, batch, zone, rows) {
                    return Some(values);
                }
                let arguments = arguments.iter().map(|argument| argument.values(batch, zone, rows));
                function.apply_rows(arguments.collect::<Option<_>>()?, zone, rows.len())
            }
            GroupingNode::Narrow { input, to } => {
                let numbers = input.values(batch, zone, rows)?.into_numbers(rows.len())?;
                match to {
                    NarrowType::Bytes(count) => {
                        let longs = numbers.into_longs();
                        made_raws(rows.len(), |index, out| {
                            out.extend_from_slice(&longs[index].to_be_bytes()[8 - count..]);
                        })
                    }
                    NarrowType::Float => {
                        let mut doubles = numbers.into_doubles();
                        doubles.iter_mut().for_each(|value| *value = NarrowType::shortest(*value));
                        Some(RowValues::Numbers(NumberColumn::Doubles(doubles)))
                    }
                }
            }
            GroupingNode::Collate { input, collator } => {
                let texts = input.values(batch, zone, rows)?;
                made_raws(rows.len(), |index, out| collator.append_key(&texts.datum(index).to_text(), out))
            }
            GroupingNode::Distance { field, latitude, longitude, miles } => {
                let distance = distance_from(*latitude, *longitude, *miles);
                let distances = rows.iter().map(|row| distance(&batch.positions(field, *row as usize)));
                Some(RowValues::Numbers(NumberColumn::Doubles(distances.collect())))
            }
            GroupingNode::Field { .. }
            | GroupingNode::LongWidth { .. }
            | GroupingNode::DoubleWidth { .. }
            | GroupingNode::Predefined { .. } => None,
        }
    }
}

impl FilterNode {
    /// Returns for each of these rows, in which no element is bound, whether it passes.
    pub(crate) fn passing(&self, batch: &GroupingBatch<'_>, zone: &GroupingZone, rows: &[u32]) -> Vec<bool> {
        match self {
            FilterNode::Value(test, input) => match input.values(batch, zone, rows) {
                Some(values) => (0..rows.len()).map(|index| test.passes(&values.datum(index))).collect(),
                None => {
                    let context = |row: &u32| RowContext { batch, zone, row: *row as usize, elements: &[] };
                    rows.iter().map(|row| self.passes(context(row))).collect()
                }
            },
            FilterNode::Not(inner) => {
                inner.passing(batch, zone, rows).into_iter().map(|passes| !passes).collect()
            }
            FilterNode::And(a, b) => {
                let (a, b) = (a.passing(batch, zone, rows), b.passing(batch, zone, rows));
                a.into_iter().zip(b).map(|(a, b)| a && b).collect()
            }
            FilterNode::Or(a, b) => {
                let (a, b) = (a.passing(batch, zone, rows), b.passing(batch, zone, rows));
                a.into_iter().zip(b).map(|(a, b)| a || b).collect()
            }
        }
    }
}
