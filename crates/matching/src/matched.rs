//! Matches of a test among many values.

use std::ops::Range;

use millrace_document::LeafColumn;

/// Values that match a test, ascending.
#[derive(Debug, Default)]
pub(crate) struct MatchedValues(Vec<MatchedValue>);

/// A value that matches a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedValue {
    /// Index among the tested values.
    pub(crate) index: usize,
    /// The query's weight of the value; 1 if it gives none.
    pub(crate) weight: i32,
}

impl MatchedValues {
    /// The values that pass a test without weights. The test has no branches for most kinds of values, so
    /// that several values are tested at once.
    #[inline(always)]
    pub(crate) fn passing<T>(values: &[T], test: impl Fn(&T) -> bool) -> Self {
        let mut matched = Vec::new();
        for (block, values) in values.chunks(64).enumerate() {
            let flags =
                values.iter().enumerate().fold(0, |word, (bit, value)| word | u64::from(test(value)) << bit);
            let mut rest = flags;
            while rest != 0 {
                matched.push(MatchedValue { index: block * 64 + rest.trailing_zeros() as usize, weight: 1 });
                rest &= rest - 1;
            }
        }
        MatchedValues(matched)
    }

    /// The values to which the query gives a weight.
    #[inline(always)]
    pub(crate) fn weighed<T>(values: &[T], mut weigh: impl FnMut(&T) -> Option<i32>) -> Self {
        let weighed = |(index, value)| Some(MatchedValue { index, weight: weigh(value)? });
        MatchedValues(values.iter().enumerate().filter_map(weighed).collect())
    }

    /// The same matches of values of which those that were tested have these indices.
    pub(crate) fn at(mut self, indices: &[usize]) -> Self {
        self.0.iter_mut().for_each(|value| value.index = indices[value.index]);
        self
    }

    /// The matching values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &MatchedValue> {
        self.0.iter()
    }

    /// Calls `each` with the rows that have matching values, ascending, and with these values.
    pub(crate) fn each_row(&self, leaves: &LeafColumn<'_>, each: &mut impl FnMut(usize, &[MatchedValue])) {
        let (mut row, mut rest) = (0, &*self.0);
        while let Some(first) = rest.first() {
            let mut here: Range<usize> = leaves.of_row(row);
            while here.end <= first.index {
                row += 1;
                here = leaves.of_row(row);
            }
            let count = rest.iter().take_while(|value| value.index < here.end).count();
            let (matched, after) = rest.split_at(count);
            each(row, matched);
            rest = after;
        }
    }
}
