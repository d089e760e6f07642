//! Stems of a dictionary's words, stored after the numbers of a [`Tokens`](crate::TokensColumn) column.
//!
//! Only words that differ from their stem are listed. Encoded: one bit per word number (the first is unused),
//! in words of 64 bits, set if the stem differs; `stems + 1` offsets of the stems (u32), which are sorted by
//! bytes; `stems + 1` indices (u32) of each stem's first word; the word numbers, stem after stem (u32); the
//! bytes of the stems.

use crate::sorted::{SortedTexts, head, sampled};
use crate::{BufferBuilder, Error};

/// Location of the stems in a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StemsLayout {
    pub at: usize,
    pub stems: usize,
    /// Number of words that differ from their stem.
    pub stemmed: usize,
    pub bytes: usize,
}

/// The stems of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StemTable<'a> {
    has_another: &'a [u64],
    offsets: &'a [u32],
    starts: &'a [u32],
    numbers: &'a [u32],
    bytes: &'a [u8],
    samples: &'a [u64],
}

impl StemsLayout {
    /// End of the column.
    pub fn end(self, words: usize) -> usize {
        self.at + bits(words) * 8 + (2 * (self.stems + 1) + self.stemmed) * 4 + self.bytes
    }

    /// The stems in the bytes of a column, of which they are the last part, with what [`StemTable::sampled`]
    /// gave for them.
    pub fn over<'b>(self, buffer: &'b [u8], words: usize, samples: &'b [u64]) -> StemTable<'b> {
        let mut at = self.at;
        let mut part = |bytes: usize| {
            at += bytes;
            &buffer[at - bytes..at]
        };
        StemTable {
            has_another: bytemuck::cast_slice(part(bits(words) * 8)),
            offsets: bytemuck::cast_slice(part((self.stems + 1) * 4)),
            starts: bytemuck::cast_slice(part((self.stems + 1) * 4)),
            numbers: bytemuck::cast_slice(part(self.stemmed * 4)),
            bytes: part(self.bytes),
            samples,
        }
    }
}

/// Number of 64-bit words needed for the bits of the dictionary's words.
fn bits(words: usize) -> usize {
    (words + 1).div_ceil(64)
}

impl<'a> StemTable<'a> {
    /// True if the stem of a word differs from it.
    pub fn has_another(&self, number: u32) -> bool {
        self.has_another[number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// Numbers of the words with this stem that differ from it.
    pub fn words_of(&self, stem: &[u8]) -> &'a [u32] {
        self.words_at(self.sorted().first_not_below(stem), stem)
    }

    fn sorted(&self) -> SortedTexts<'a> {
        SortedTexts { offsets: self.offsets, bytes: self.bytes, samples: self.samples }
    }

    /// Samples of the stems for their search.
    pub fn sampled(&self) -> Box<[u64]> {
        sampled(self.offsets, self.bytes)
    }

    /// Numbers of the words of the stem at `index`; none if that is another stem, or past the last.
    fn words_at(&self, index: usize, stem: &[u8]) -> &'a [u32] {
        let is_same = index + 1 < self.offsets.len() && self.sorted().get(index) == stem;
        if is_same { self.words(index) } else { &[] }
    }

    /// Calls `visit` with each stem and each of its words.
    pub fn each(&self, mut visit: impl FnMut(&'a [u8], u32)) {
        for index in 0..self.offsets.len() - 1 {
            self.words(index).iter().for_each(|number| visit(self.stem(index), *number));
        }
    }

    fn stem(&self, index: usize) -> &'a [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    fn words(&self, index: usize) -> &'a [u32] {
        &self.numbers[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// Checks that all offsets and numbers are within the column, so that later reads stay in bounds.
    pub fn check(&self, words: usize) -> Result<(), Error> {
        let ascending = |offsets: &[u32], end: usize| {
            offsets[0] == 0
                && offsets.windows(2).all(|pair| pair[0] <= pair[1])
                && offsets.last() == Some(&(end as u32))
        };
        if !ascending(self.offsets, self.bytes.len()) || !ascending(self.starts, self.numbers.len()) {
            return Err(Error::Corrupt("the offsets of its stems do not ascend to their end"));
        }
        match self.numbers.iter().all(|number| (1..=words as u32).contains(number)) {
            true => Ok(()),
            false => Err(Error::Corrupt("a stem is one of a word past the dictionary")),
        }
    }
}

/// Collector of stems while a column is built.
#[derive(Default)]
pub(crate) struct StemsBuilder<'w> {
    /// First bytes as a number, stem, number of the word.
    stems: Vec<(u64, &'w [u8], u32)>,
}

impl<'w> StemsBuilder<'w> {
    /// Adds the stem of the word with this number.
    pub fn push(&mut self, stem: &'w [u8], number: u32) {
        self.stems.push((head(stem), stem, number));
    }

    /// Sorts the stems, and the words of each by their numbers.
    pub fn sorted(self) -> SortedStems<'w> {
        let StemsBuilder { mut stems } = self;
        // Most stems differ in their first bytes. Numbers alone are sorted without branches.
        stems.sort_unstable_by_key(|(head, ..)| *head);
        let alike = stems.chunk_by_mut(|(head, ..), (other, ..)| head == other);
        for alike in alike.filter(|alike| alike.len() > 1) {
            alike.sort_unstable();
        }
        SortedStems { stems }
    }
}

/// The stems of a column in their order.
pub(crate) struct SortedStems<'w> {
    stems: Vec<(u64, &'w [u8], u32)>,
}

impl SortedStems<'_> {
    /// Number of stems, number of words with a stem, and size of the stems in bytes.
    pub fn counts(&self) -> (usize, usize, usize) {
        let stems = self.stems.chunk_by(|a, b| a.1 == b.1).map(|same| same[0].1);
        let (count, bytes) = stems.fold((0, 0), |(count, bytes), stem| (count + 1, bytes + stem.len()));
        (count, self.stems.len(), bytes)
    }

    /// Writes the stems; nothing if there are none.
    pub fn write(&self, words: usize, out: &mut BufferBuilder) {
        if self.stems.is_empty() {
            return;
        }
        let mut has_another = vec![0u64; bits(words)];
        self.stems.iter().for_each(|(.., number)| has_another[*number as usize / 64] |= 1 << (number % 64));
        let (mut offsets, mut starts, mut bytes) = (vec![0u32], vec![0u32], Vec::new());
        for same in self.stems.chunk_by(|a, b| a.1 == b.1) {
            bytes.extend_from_slice(same[0].1);
            offsets.push(bytes.len() as u32);
            starts.push(starts[starts.len() - 1] + same.len() as u32);
        }
        let numbers: Vec<u32> = self.stems.iter().map(|(.., number)| *number).collect();
        out.align();
        out.extend(bytemuck::cast_slice(&has_another));
        [offsets, starts, numbers].iter().for_each(|part| out.extend(bytemuck::cast_slice(part)));
        out.extend(&bytes);
    }
}
