//! Sets of the rows of a chunk.

use millrace_column::ViewChunk;

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
    /// No row of `len`.
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

#[cfg(test)]
mod tests {
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
}
