//! Functions of lists, and members of structs, in many rows at once, over values that are read in place.

use millrace_document::{EncodedLeafValues, LeafColumn};

use crate::batch::GroupingBatch;
use crate::field::{CheckedField, FieldReach};
use crate::functions::{GroupingFunction, GroupingFunctionCode, interpolated};
use crate::node::GroupingNode;
use crate::numbers::NumberColumn;
use crate::values::RowValues;
use crate::zone::GroupingZone;

impl<'d> GroupingBatch<'d> {
    /// Values at the end of a field's path, if all of them are read in place.
    fn regular_leaves(&self, field: &CheckedField) -> Option<&LeafColumn<'d>> {
        self.all_leaves(field.path).filter(|leaves| leaves.irregular().is_empty())
    }

    /// Values in these rows of a member of structs; `None` if they are not read in place, or lists.
    pub(crate) fn member_values(&self, field: &CheckedField, rows: &[u32]) -> Option<RowValues<'_>> {
        let leaves = self.regular_leaves(field).filter(|_| matches!(field.reach, FieldReach::Whole))?;
        values_at(leaves, rows.iter().map(|row| leaves.of_row(*row as usize).next()))
    }
}

impl GroupingFunction {
    /// Applies a function of one list to many rows, with the results of [`GroupingFunction::apply`]. `None`
    /// if it is not such a function, if the lists are not read in place, or if a row has no result.
    pub(crate) fn apply_to_lists<'b>(
        &self,
        arguments: &'b [GroupingNode],
        batch: &'b GroupingBatch<'_>,
        zone: &GroupingZone,
        rows: &[u32],
    ) -> Option<RowValues<'b>> {
        let [GroupingNode::Field { field, element: None }, others @ ..] = arguments else { return None };
        let leaves = || batch.regular_leaves(field).filter(|_| field.is_list());
        let numbers = || others.first()?.values(batch, zone, rows)?.into_numbers(rows.len());
        let rows = rows.iter().map(|row| *row as usize);
        match &self.code {
            GroupingFunctionCode::Size => {
                let leaves = leaves()?;
                let sizes = rows.map(|row| leaves.elements(row).len() as i64);
                Some(RowValues::Numbers(NumberColumn::Longs(sizes.collect())))
            }
            GroupingFunctionCode::ElementAt => {
                let (leaves, wanted) = (leaves()?, numbers()?.into_longs());
                let index = |(row, wanted): (usize, i64)| {
                    let last = leaves.elements(row).len().checked_sub(1)?;
                    Some(leaves.of_element(row, wanted.clamp(0, last as i64) as usize))
                };
                let indices: Vec<Option<usize>> = rows.zip(wanted).map(index).collect::<Option<_>>()?;
                values_at(leaves, indices.into_iter())
            }
            GroupingFunctionCode::Lookup => {
                let (leaves, wanted) = (leaves()?, numbers()?.into_doubles());
                let all: Vec<f64> = match leaves.values() {
                    EncodedLeafValues::Integers(values) => values.iter().map(|value| *value as f64).collect(),
                    EncodedLeafValues::Floats(values) => values.clone(),
                    _ => return None,
                };
                let mut list = Vec::new();
                let found = rows.zip(wanted).map(|(row, wanted)| {
                    list.clear();
                    list.extend(leaves.by_element(row).map(|index| index.map_or(0.0, |index| all[index])));
                    interpolated(&list, wanted)
                });
                Some(RowValues::Numbers(NumberColumn::Doubles(found.collect())))
            }
            _ => None,
        }
    }
}

/// Values at these indices; without an index, that of a document that has none. `None` for positions, and
/// where a text is not UTF-8.
fn values_at<'a>(
    leaves: &'a LeafColumn<'_>,
    indices: impl Iterator<Item = Option<usize>>,
) -> Option<RowValues<'a>> {
    Some(match leaves.values() {
        EncodedLeafValues::Bools(values) => {
            let bools = indices.map(|index| index.is_some_and(|index| values[index]));
            RowValues::Numbers(NumberColumn::Bools(bools.collect()))
        }
        EncodedLeafValues::Integers(values) => {
            let longs = indices.map(|index| index.map_or(0, |index| values[index]));
            RowValues::Numbers(NumberColumn::Longs(longs.collect()))
        }
        EncodedLeafValues::Floats(values) => {
            let doubles = indices.map(|index| index.map_or(0.0, |index| values[index]));
            RowValues::Numbers(NumberColumn::Doubles(doubles.collect()))
        }
        EncodedLeafValues::Texts(texts) => {
            let text = |index: Option<usize>| match index {
                Some(index) => std::str::from_utf8(texts[index]).ok(),
                None => Some(""),
            };
            RowValues::Texts(indices.map(text).collect::<Option<_>>()?)
        }
        EncodedLeafValues::Raws(raws) => {
            let none: &[u8] = &[];
            RowValues::Raws(indices.map(|index| index.map_or(none, |index| raws[index])).collect())
        }
        EncodedLeafValues::Positions(_) => return None,
    })
}
