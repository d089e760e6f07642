//! Groups by the values that their keys are computed from: where documents share such values, a key is
//! computed once for each of them.

use std::ops::Range;

use millrace_column::{Column, ValueLayout, layout};

use crate::batch::{GroupingBatch, number_at};
use crate::datum::ExpressionDatum;
use crate::field::{CheckedField, FieldReach};
use crate::functions::{GroupingFunctionCode, ReturnKind};
use crate::node::{GroupingNode, NarrowType, ValueKind};
use crate::table::GroupTable;

/// Maximum number of values.
const VALUES_MAX: usize = 1 << 16;

/// Maximum length in bytes of texts that are remembered: longer ones rarely repeat, and would take the memory
/// of the query.
const TEXT_MAX: usize = 128;

/// Number of rows after which it is known how often values repeat.
const ROWS_MIN: usize = 1024;

/// Values among as many rows, in thousandths, from which on keys are computed row by row.
const VALUES_SHARE_MAX: usize = 750;

/// The groups of each value of a field.
#[derive(Debug, Default)]
pub(crate) struct SourceGroups {
    /// Values, by enclosing group.
    values: GroupTable,
    /// By value: its part of `groups`.
    ranges: Vec<Range<usize>>,
    groups: Vec<u32>,
    /// Groups of a value that is not remembered.
    unshared: Vec<u32>,
    /// Number of rows that were looked up.
    rows: usize,
    is_off: bool,
}

impl SourceGroups {
    /// True if values repeat so often that looking them up saves work. Otherwise they are forgotten.
    pub(crate) fn is_worthwhile(&mut self) -> bool {
        let values = self.ranges.len();
        let is_rare = self.rows >= ROWS_MIN && values * 1000 > self.rows * VALUES_SHARE_MAX;
        if !self.is_off && (is_rare || values > VALUES_MAX) {
            *self = SourceGroups { is_off: true, ..SourceGroups::default() };
        }
        !self.is_off
    }

    /// Groups of a value in the enclosing group `parent`; for a new one, `compute` adds them.
    pub(crate) fn groups_of(
        &mut self,
        parent: u32,
        value: &SourceValue<'_>,
        compute: impl FnOnce(&mut Vec<u32>),
    ) -> &[u32] {
        let number = match value {
            SourceValue::Text(text) if text.len() > TEXT_MAX => {
                self.unshared.clear();
                compute(&mut self.unshared);
                return &self.unshared;
            }
            SourceValue::Text(text) => self.values.text_bytes(parent, text),
            SourceValue::Other(datum) => self.values.number(parent, datum),
        };
        self.rows += 1;
        if number as usize == self.ranges.len() {
            let start = self.groups.len();
            compute(&mut self.groups);
            self.ranges.push(start..self.groups.len());
        }
        &self.groups[self.ranges[number as usize].clone()]
    }

    /// Memory that it takes, in bytes, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.values.memory_bytes() + size_of_val(&*self.ranges) + size_of_val(&*self.groups)
    }
}

/// A value that keys are computed from.
pub(crate) enum SourceValue<'a> {
    /// A text, by its bytes.
    Text(&'a [u8]),
    /// Any other; [`ExpressionDatum::Null`] if the document has none.
    Other(ExpressionDatum<'static>),
}

/// A column with one text or number for each document.
pub(crate) struct SourceColumn<'a>(&'a Column);

impl<'a> SourceColumn<'a> {
    /// The column of a field in a batch. `None` if its values cannot be read in place.
    pub(crate) fn of(field: &CheckedField, batch: &'a GroupingBatch<'_>) -> Option<Self> {
        let column = batch.column(field)?;
        let is_plain = match (column, layout(&field.data_type)) {
            (Column::Fixed(column), ValueLayout::Number(cell)) => {
                column.cell() == cell && column.width() == 1
            }
            (Column::Bytes(_), ValueLayout::Text) => true,
            _ => false,
        };
        is_plain.then_some(SourceColumn(column))
    }

    /// Value of a document.
    pub(crate) fn value(&self, document: usize) -> SourceValue<'a> {
        let number = match self.0 {
            Column::Bytes(column) => match column.get(document) {
                Some(text) => return SourceValue::Text(text),
                None => None,
            },
            Column::Fixed(column) => number_at(column, document),
            Column::Tokens(_) => None,
        };
        SourceValue::Other(match number {
            // Of equal numbers, -0 and 0 have different texts.
            Some(ExpressionDatum::Double(number)) => ExpressionDatum::Long(number.to_bits().cast_signed()),
            Some(number) => number,
            None => ExpressionDatum::Null,
        })
    }
}

impl GroupingNode {
    /// The field whose whole value alone determines the result. `None` if there is none, or if the result
    /// costs less than to find the value.
    pub(crate) fn source(&self) -> Option<&CheckedField> {
        if !self.is_costly() {
            return None;
        }
        let mut sources = Vec::new();
        self.sources(&mut sources)?;
        let (first, others) = sources.split_first()?;
        others.iter().all(|other| other.column == first.column).then_some(first)
    }

    /// True if digests, keys of a collation or texts of floats are made.
    fn is_costly(&self) -> bool {
        match self {
            GroupingNode::Collate { .. } | GroupingNode::Narrow { to: NarrowType::Float, .. } => true,
            GroupingNode::Call { function, arguments } => {
                matches!(function.code, GroupingFunctionCode::Digest(_))
                    || (function.returns == ReturnKind::Text && arguments.iter().any(GroupingNode::is_float))
                    || arguments.iter().any(GroupingNode::is_costly)
            }
            GroupingNode::Narrow { input, .. }
            | GroupingNode::LongWidth { input, .. }
            | GroupingNode::DoubleWidth { input, .. }
            | GroupingNode::Predefined { input, .. } => input.is_costly(),
            GroupingNode::Constant(_)
            | GroupingNode::Field { .. }
            | GroupingNode::Score
            | GroupingNode::DocumentName
            | GroupingNode::Distance { .. } => false,
        }
    }

    fn is_float(&self) -> bool {
        matches!(self, GroupingNode::Field { field, .. } if field.kind == ValueKind::Double)
    }

    /// Adds the fields that are read. `None` if anything else of a document is.
    fn sources<'n>(&'n self, fields: &mut Vec<&'n CheckedField>) -> Option<()> {
        match self {
            GroupingNode::Constant(_) => Some(()),
            GroupingNode::Field { field, element: None } if matches!(field.reach, FieldReach::Whole) => {
                fields.push(field);
                Some(())
            }
            GroupingNode::Call { arguments, .. } => {
                arguments.iter().try_for_each(|argument| argument.sources(fields))
            }
            GroupingNode::Narrow { input, .. }
            | GroupingNode::LongWidth { input, .. }
            | GroupingNode::DoubleWidth { input, .. }
            | GroupingNode::Predefined { input, .. }
            | GroupingNode::Collate { input, .. } => input.sources(fields),
            GroupingNode::Field { .. }
            | GroupingNode::Score
            | GroupingNode::DocumentName
            | GroupingNode::Distance { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of evaluations of values that repeat after `distinct` of them.
    fn evaluations(rows: i64, distinct: i64) -> (i64, bool) {
        let (mut sources, mut count) = (SourceGroups::default(), 0);
        for row in 0..rows {
            let value = SourceValue::Other(ExpressionDatum::Long(row % distinct));
            let groups = sources.groups_of(0, &value, |groups| {
                count += 1;
                groups.extend([row as u32, 7]);
            });
            assert_eq!(groups, [(row % distinct) as u32, 7]);
        }
        (count, sources.is_worthwhile())
    }

    #[test]
    fn values_are_evaluated_once_while_they_repeat() {
        assert_eq!(evaluations(3000, 10), (10, true));
        assert_eq!(evaluations(900, 900), (900, true), "too few to tell");
        assert_eq!(evaluations(2000, 1400), (1400, true));
        assert_eq!(evaluations(2000, 1600), (1600, false));
        assert_eq!(evaluations(300_000, 70_000), (70_000, false), "too many");
        let (mut sources, long) = (SourceGroups::default(), "x".repeat(TEXT_MAX + 1));
        for group in 0..3 {
            let value = SourceValue::Text(long.as_bytes());
            assert_eq!(sources.groups_of(0, &value, |groups| groups.push(group)), [group], "a long text");
        }
        assert_eq!(sources.memory_bytes(), SourceGroups::default().memory_bytes());
    }
}
