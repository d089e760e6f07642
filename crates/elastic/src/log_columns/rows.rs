//! Sets of the rows of a chunk.

use millrace_column::ViewChunk;

use super::{LogColumn, MemberValues};

/// Bits of a word.
const WORD_BITS: usize = 64;

/// Rows of a chunk: one bit a row, lowest first, in words of 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowSet {
    words: Vec<u64>,
    /// Rows of the chunk.
    len: usize,
}

impl RowSet {
    /// No row of so many.
    pub(crate) fn none(len: usize) -> Self {
        RowSet { words: vec![0; len.div_ceil(WORD_BITS)], len }
    }

    /// All rows.
    pub(crate) fn all(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(WORD_BITS)];
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(WORD_BITS)
        {
            *last = (1 << (len % WORD_BITS)) - 1;
        }
        RowSet { words, len }
    }

    /// Rows of the documents of a chunk that are live.
    pub(crate) fn live(chunk: &ViewChunk) -> Self {
        let mut rows = Self::all(chunk.documents);
        if let Some(live) = &chunk.live {
            rows.words.iter_mut().zip(live).for_each(|(word, live)| *word &= live);
        }
        rows
    }

    /// Number of the rows of the chunk.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of the rows in the set.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if no row is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, row: usize) {
        self.words[row / WORD_BITS] |= 1 << (row % WORD_BITS);
    }

    /// Adds the rows of another set.
    pub(crate) fn add(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes the rows of another set.
    pub(crate) fn remove(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
    }

    /// Removes all rows but those of another set.
    pub(crate) fn retain(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Rows of the set for which a test holds, which is called for all rows of words with one of them.
    pub(crate) fn keep_each(&self, test: impl Fn(usize) -> bool) -> RowSet {
        let word_of = |(at, word): (usize, &u64)| {
            if *word == 0 {
                return 0;
            }
            let first = at * WORD_BITS;
            let rows = first..self.len.min(first + WORD_BITS);
            rows.fold(0_u64, |bits, row| bits | u64::from(test(row)) << (row - first)) & word
        };
        RowSet { words: self.words.iter().enumerate().map(word_of).collect(), len: self.len }
    }

    /// The rows, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * WORD_BITS + bit)
            })
        })
    }
}

/// Rows that have the same values in some columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowClass {
    /// One of them.
    pub(crate) row: usize,
    /// Number of the rows.
    pub(crate) count: usize,
}

/// Classes of the rows of a set by their values in columns. Where values of one column do not repeat, each row
/// is a class.
pub(crate) fn row_classes<'c>(rows: &RowSet, columns: impl Iterator<Item = &'c LogColumn>) -> Vec<RowClass> {
    const NEW: u16 = u16::MAX;
    let each_row = || -> Vec<RowClass> { rows.iter().map(|row| RowClass { row, count: 1 }).collect() };
    let mut class_of = vec![0_u16; rows.len()];
    let mut classes: u16 = 1;
    for column in columns {
        let LogColumn::Members(column) = column else { return each_row() };
        let MemberValues::Repeated { different, numbers } = &column.values else { return each_row() };
        // A class for each pair of a class and a value that is there.
        let mut pairs = vec![NEW; usize::from(classes) * different.len()];
        let mut next = 0;
        for row in rows.iter() {
            let pair = &mut pairs[usize::from(class_of[row]) * different.len() + usize::from(numbers[row])];
            if *pair == NEW {
                if next == NEW {
                    return each_row();
                }
                *pair = next;
                next += 1;
            }
            class_of[row] = *pair;
        }
        classes = next.max(1);
    }
    let mut found: Vec<Option<RowClass>> = vec![None; usize::from(classes)];
    for row in rows.iter() {
        found[usize::from(class_of[row])].get_or_insert(RowClass { row, count: 0 }).count += 1;
    }
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::{ColumnBuilder, LogColumnName};
    use super::*;

    #[test]
    fn sets_of_rows_are_those_of_numbers() {
        for len in [0, 1, 63, 64, 65, 200] {
            let (mut own, mut others) = (RowSet::none(len), RowSet::none(len));
            (0..len).filter(|row| row % 3 == 0).for_each(|row| own.insert(row));
            (0..len).filter(|row| row % 5 < 2).for_each(|row| others.insert(row));
            let check = |set: &RowSet, expected: &dyn Fn(usize) -> bool| {
                let expected: Vec<usize> = (0..len).filter(|row| expected(*row)).collect();
                assert_eq!(set.iter().collect::<Vec<_>>(), expected, "of {len}");
                assert_eq!((set.count(), set.is_empty()), (expected.len(), expected.is_empty()));
            };
            let with = |change: &dyn Fn(&mut RowSet)| {
                let mut set = own.clone();
                change(&mut set);
                set
            };
            check(&RowSet::all(len), &|_| true);
            check(&with(&|set| set.add(&others)), &|row| row % 3 == 0 || row % 5 < 2);
            check(&with(&|set| set.remove(&others)), &|row| row % 3 == 0 && row % 5 >= 2);
            check(&with(&|set| set.retain(&others)), &|row| row % 3 == 0 && row % 5 < 2);
            check(&own.keep_each(|row| row % 2 == 0), &|row| row % 6 == 0);
            let live = ViewChunk { documents: len, live: Some(own.words.clone()) };
            check(&RowSet::live(&live), &|row| row % 3 == 0);
            check(&RowSet::live(&ViewChunk { documents: len, live: None }), &|_| true);
        }
    }

    #[test]
    fn classes_have_the_rows_with_their_values() {
        let documents: Vec<Value> =
            (0..700).map(|n| json!({ "a": n % 4, "b": n % 7 == 0, "c": n, "d": n % 250 })).collect();
        let column = |place: &str| {
            let mut builder = ColumnBuilder::new(&LogColumnName::Members(vec![place.to_owned()]));
            documents.iter().for_each(|document| builder.push(document.as_object().expect("an object")));
            builder.finish()
        };
        let rows = RowSet::all(documents.len()).keep_each(|row| row % 3 > 0);
        for places in
            [vec![], vec!["a"], vec!["a", "b"], vec!["d", "a", "b"], vec!["a", "c"], vec!["missing"]]
        {
            let columns: Vec<LogColumn> = places.iter().map(|place| column(place)).collect();
            let values = |row: usize| {
                places.iter().map(|place| documents[row][*place].to_string()).collect::<Vec<_>>().join(" ")
            };
            let mut expected: BTreeMap<String, usize> = BTreeMap::new();
            rows.iter().for_each(|row| *expected.entry(values(row)).or_default() += 1);
            let mut found: BTreeMap<String, usize> = BTreeMap::new();
            for class in row_classes(&rows, columns.iter()) {
                *found.entry(values(class.row)).or_default() += class.count;
            }
            assert_eq!(found, expected, "{places:?}");
        }
        assert!(row_classes(&RowSet::none(9), [column("a")].iter()).is_empty());
        assert_eq!(row_classes(&rows, [column("a")].iter()).len(), 4);
    }
}
