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

/// Maximum memory in bytes of the values of all arguments of a function. With more, it is applied row by row.
const ARGUMENTS_MAX: usize = 16 << 20;

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

    fn memory_bytes(&self) -> usize {
        match self {
            RowValues::Same(_) => 0,
            RowValues::Numbers(NumberColumn::Bools(values)) => size_of_val(&**values),
            RowValues::Numbers(NumberColumn::Longs(values)) => size_of_val(&**values),
            RowValues::Numbers(NumberColumn::Doubles(values)) => size_of_val(&**values),
            RowValues::Texts(texts) => size_of_val(&**texts),
            RowValues::Raws(raws) => size_of_val(&**raws),
            RowValues::MadeTexts(made) => made.joined.len() + size_of_val(&*made.ends),
            RowValues::MadeRaws(made) => made.joined.len() + size_of_val(&*made.ends),
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

/// Makes the texts or bytes of `rows` rows; `None` if they are too long.
fn joined_rows<B: Default + AsRef<[u8]>>(
    rows: usize,
    append: impl Fn(usize, &mut B),
) -> Option<JoinedRows<B>> {
    let (mut joined, mut ends) = (B::default(), Vec::with_capacity(rows));
    for index in 0..rows {
        append(index, &mut joined);
        let len = joined.as_ref().len();
        if len > MADE_MAX {
            return None;
        }
        ends.push(len);
    }
    Some(JoinedRows { joined, ends })
}

fn texts_by(rows: usize, append: impl Fn(usize, &mut String)) -> Option<RowValues<'static>> {
    joined_rows(rows, append).map(RowValues::MadeTexts)
}

fn bytes_by(rows: usize, append: impl Fn(usize, &mut Vec<u8>)) -> Option<RowValues<'static>> {
    joined_rows(rows, append).map(RowValues::MadeRaws)
}

/// The values of all arguments of a function; `None` as soon as one has none, or they take too much memory.
fn bounded<'b>(arguments: impl Iterator<Item = Option<RowValues<'b>>>) -> Option<Vec<RowValues<'b>>> {
    let mut bytes = 0;
    let within = |values: Option<RowValues<'b>>| {
        let values = values?;
        bytes += values.memory_bytes();
        (bytes <= ARGUMENTS_MAX).then_some(values)
    };
    arguments.map(within).collect()
}

impl GroupingFunction {
    /// Applies the function to the arguments of `rows` rows, with the results of [`GroupingFunction::apply`].
    /// `None` if it is of lists, or if the results or arguments are too long, or of several kinds. Arguments
    /// are evaluated on the way, so that numbers of no more than two are in memory.
    fn apply_rows<'b>(
        &self,
        arguments: impl Iterator<Item = Option<RowValues<'b>>>,
        zone: &GroupingZone,
        rows: usize,
    ) -> Option<RowValues<'static>> {
        let mut arguments = arguments;
        match &self.code {
            GroupingFunctionCode::Number(_) | GroupingFunctionCode::Fold(_) => {
                let numbers = arguments.map(|argument| argument?.into_numbers(rows));
                self.apply_columns(numbers, zone).map(RowValues::Numbers)
            }
            GroupingFunctionCode::Date(code) => {
                let seconds = arguments.next()??.into_numbers(rows)?.into_longs();
                texts_by(rows, |index, out| code(zone.civil(seconds[index]), out))
            }
            GroupingFunctionCode::TextNumber(code) => {
                let of = arguments.next()??;
                let number = |index| code(&of.datum(index).to_text());
                Some(RowValues::Numbers(NumberColumn::Longs((0..rows).map(number).collect())))
            }
            GroupingFunctionCode::Text(code) => {
                let of = arguments.next()??;
                texts_by(rows, |index, out| code(&of.datum(index), out))
            }
            GroupingFunctionCode::Bytes(code) => {
                let of = arguments.next()??;
                bytes_by(rows, |index, out| code(&of.datum(index), out))
            }
            GroupingFunctionCode::JoinedTexts => {
                let all = bounded(arguments)?;
                texts_by(rows, |index, out| all.iter().for_each(|of| of.datum(index).append_text(out)))
            }
            GroupingFunctionCode::JoinedBytes => {
                let all = bounded(arguments)?;
                bytes_by(rows, |index, out| all.iter().for_each(|of| append_bytes(&of.datum(index), out)))
            }
            GroupingFunctionCode::Digest(code) => {
                let (of, bits) = (arguments.next()??, arguments.next()??);
                bytes_by(rows, |index, out| {
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
                function.apply_rows(arguments, zone, rows.len())
            }
            GroupingNode::Narrow { input, to } => {
                let numbers = input.values(batch, zone, rows)?.into_numbers(rows.len())?;
                match to {
                    NarrowType::Bytes(count) => {
                        let longs = numbers.into_longs();
                        bytes_by(rows.len(), |index, out| {
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
                bytes_by(rows.len(), |index, out| collator.append_key(&texts.datum(index).to_text(), out))
            }
            GroupingNode::Distance { field, latitude, longitude, unit } => {
                let distance = distance_from(*latitude, *longitude, *unit);
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

#[cfg(test)]
mod tests {
    use super::{ARGUMENTS_MAX, NumberColumn, RowValues, bounded};

    #[test]
    fn arguments_are_evaluated_until_they_take_too_much_memory() {
        let mut evaluated = 0;
        let arguments = std::iter::repeat_with(|| {
            evaluated += 1;
            Some(RowValues::Numbers(NumberColumn::Longs(vec![0; ARGUMENTS_MAX / 32])))
        });
        assert!(bounded(arguments.take(100)).is_none());
        assert_eq!(evaluated, 5, "four take all of the memory");
        let few = || Some(RowValues::Texts(vec!["text"; 3]));
        assert!(bounded([few(), few()].into_iter()).is_some_and(|all| all.len() == 2));
        assert!(bounded([few(), None].into_iter()).is_none());
    }
}
