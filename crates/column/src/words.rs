//! Distinct words with their stems, remembered from column to column.

use std::cell::RefCell;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Words that are kept for the next column of a thread. With more, the thread begins anew.
const KEPT_WORDS: usize = 1 << 16;
/// Bytes of words and stems that are kept.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// The words of the columns that the thread has built. Chunks of a field repeat each other's words: what
    /// is hashed, stemmed and copied for one is found for the next. About 4 MB at most.
    static KEPT: RefCell<Option<Box<WordInterner>>> = const { RefCell::new(None) };
}

/// Distinct words with their stems, numbered from 1 in order of their appearance in a column.
#[derive(Default)]
pub(crate) struct WordInterner {
    known: HashTable<KnownWord>,
    hasher: DefaultHashBuilder,
    /// Each word, followed by its stem if that differs.
    bytes: Vec<u8>,
    words: Vec<InternedWord>,
    /// Number of this column.
    column: u32,
    /// The words of this column, as indexes, in order of appearance.
    used: Vec<u32>,
}

/// A word as one stemmer has it.
struct KnownWord {
    /// Hash of the word without its stem.
    hash: u64,
    index: u32,
    /// [`ANY_STEMMER`] where the stem was given.
    stemmer: u8,
}

/// Stemmer of words whose stem was given.
const ANY_STEMMER: u8 = u8::MAX;

#[derive(Clone, Copy)]
struct InternedWord {
    start: u32,
    end: u32,
    /// End of the stem, which follows the word; the same as `end` if it is the word.
    stem_end: u32,
    /// The column that used the word last.
    column: u32,
    /// Number of the word in that column.
    number: u32,
}

impl WordInterner {
    /// Begins a column.
    pub fn begin() -> Box<Self> {
        let mut words = KEPT.take().unwrap_or_default();
        words.used.clear();
        words.column = match words.column.checked_add(1) {
            Some(next) => next,
            // A word of an earlier column would be taken for one of this.
            None => {
                *words = WordInterner::default();
                1
            }
        };
        words
    }

    /// Keeps the words for the next column of this thread.
    pub fn keep(self: Box<Self>) {
        if self.words.len() <= KEPT_WORDS && self.bytes.len() <= KEPT_BYTES {
            KEPT.set(Some(self));
        }
    }

    /// Number of a word with this stem.
    pub fn number(&mut self, word: &[u8], stem: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(word);
        let stem = if stem.is_empty() { word } else { stem };
        let index = self.find(hash, word, stem).unwrap_or_else(|| self.insert(hash, ANY_STEMMER, word, stem));
        self.use_word(index)
    }

    /// Number of a word of this stemmer; `stem` is called where the word is new to it. `None` if the stem is
    /// empty.
    pub fn number_by<'s>(
        &mut self,
        stemmer: u8,
        word: &[u8],
        stem: impl FnOnce() -> &'s [u8],
    ) -> Option<u32> {
        assert!(stemmer != ANY_STEMMER, "stemmers have numbers below 255");
        let hash = self.hasher.hash_one(word);
        let is_same = |known: &KnownWord| known.stemmer == stemmer && self.word_at(known.index) == word;
        if let Some(known) = self.known.find(hash, is_same) {
            let index = known.index;
            return Some(self.use_word(index));
        }
        let stem = stem();
        if stem.is_empty() {
            return None;
        }
        let index = match self.find(hash, word, stem) {
            Some(index) => {
                self.remember(KnownWord { hash, index, stemmer });
                index
            }
            None => self.insert(hash, stemmer, word, stem),
        };
        Some(self.use_word(index))
    }

    /// The number of the word in this column.
    fn use_word(&mut self, index: u32) -> u32 {
        let word = &mut self.words[index as usize];
        if word.column != self.column {
            self.used.push(index);
            word.column = self.column;
            word.number = self.used.len() as u32;
        }
        word.number
    }

    fn find(&self, hash: u64, word: &[u8], stem: &[u8]) -> Option<u32> {
        let parts = (word, (stem != word).then_some(stem));
        let known = self.known.find(hash, |known| self.parts_at(known.index) == parts)?;
        Some(known.index)
    }

    fn insert(&mut self, hash: u64, stemmer: u8, word: &[u8], stem: &[u8]) -> u32 {
        let end =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("chunks are cut before a column reaches 4 GiB");
        let start = end(&self.bytes);
        self.bytes.extend_from_slice(word);
        let word_end = end(&self.bytes);
        if stem != word {
            self.bytes.extend_from_slice(stem);
        }
        let index = self.words.len() as u32;
        let stem_end = end(&self.bytes);
        self.words.push(InternedWord { start, end: word_end, stem_end, column: 0, number: 0 });
        self.remember(KnownWord { hash, index, stemmer });
        index
    }

    fn remember(&mut self, known: KnownWord) {
        self.known.insert_unique(known.hash, known, |known| known.hash);
    }

    fn word_at(&self, index: u32) -> &[u8] {
        let word = self.words[index as usize];
        &self.bytes[word.start as usize..word.end as usize]
    }

    fn parts_at(&self, index: u32) -> (&[u8], Option<&[u8]>) {
        let word = self.words[index as usize];
        let stem = &self.bytes[word.end as usize..word.stem_end as usize];
        (self.word_at(index), (!stem.is_empty()).then_some(stem))
    }

    /// The word with this number in the column.
    pub fn word(&self, number: u32) -> &[u8] {
        self.word_at(self.used[number as usize - 1])
    }

    /// The word of a number, and its stem if that differs.
    pub fn parts(&self, number: u32) -> (&[u8], Option<&[u8]>) {
        self.parts_at(self.used[number as usize - 1])
    }

    /// Number of words in the column.
    pub fn len(&self) -> u32 {
        self.used.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_its_own_numbers_for_words_that_are_remembered() {
        let mut first = WordInterner::begin();
        let unknown = || -> &[u8] { panic!("the stemmer has the word") };
        assert_eq!(first.number_by(2, b"mills", || b"mill"), Some(1));
        assert_eq!(first.number(b"race", b""), 2);
        assert_eq!(first.number_by(2, b"mills", unknown), Some(1));
        assert_eq!(first.number_by(3, b"mills", || b"mills"), Some(3), "another stemmer, another stem");
        assert_eq!(first.number_by(4, b"mills", || b"mill"), Some(1), "another stemmer, the same stem");
        assert_eq!(first.number_by(2, b"--", || b""), None);
        assert_eq!(first.len(), 3);
        first.keep();
        let mut second = WordInterner::begin();
        assert_eq!(second.len(), 0);
        assert_eq!(second.number(b"race", b"race"), 1);
        assert_eq!(second.number_by(4, b"mills", unknown), Some(2));
        assert_eq!(second.number_by(3, b"mills", unknown), Some(3));
        let parts = (1..=second.len()).map(|number| second.parts(number)).collect::<Vec<_>>();
        assert_eq!(parts, [(&b"race"[..], None), (b"mills", Some(&b"mill"[..])), (b"mills", None)]);
    }

    #[test]
    fn too_many_words_are_not_kept() {
        let mut words = WordInterner::begin();
        for number in 0..=KEPT_WORDS as u32 {
            words.number(&number.to_be_bytes(), b"");
        }
        words.keep();
        assert!(KEPT.take().is_none(), "the next column begins with none");
    }
}
