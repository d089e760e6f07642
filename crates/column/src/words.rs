//! Distinct words with their stems, remembered from column to column.

use std::hash::BuildHasher;
use std::hint::select_unpredictable;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::Mutex;

/// Words that are kept for the next column, one for each stemmer that has it. With more, it begins without.
const KEPT_WORDS: usize = 1 << 16;
/// Bytes of words and stems that are kept.
const KEPT_BYTES: usize = 1 << 20;

/// The words of columns that were built before.
static KEPT: WordInternerPool = WordInternerPool(Mutex::new(Vec::new()));

/// Number of columns that are built at the same time, about.
static KEPT_MAX: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// Words that are kept for the next columns. Chunks of a field repeat each other's words, so what is hashed,
/// stemmed and copied for one is found for the next. The words are not kept by thread, since the threads that
/// seal end with each file. An interner takes about 8 MB when it is full, and at most 12 MB.
struct WordInternerPool(Mutex<Vec<WordInterner>>);

/// Gives back the memory of words that are remembered for the next columns, when none are built for a while.
pub fn forget_words() {
    KEPT.forget();
}

impl WordInternerPool {
    /// The words that were used last, for a column.
    fn take(&self) -> WordInterner {
        let mut words = self.0.lock().pop().unwrap_or_default();
        words.begin_column();
        words
    }

    fn keep(&self, words: WordInterner) {
        let is_small = words.known.len() <= KEPT_WORDS && words.words.bytes.len() <= KEPT_BYTES;
        let mut kept = self.0.lock();
        if is_small && kept.len() < *KEPT_MAX {
            kept.push(words);
        }
    }

    fn forget(&self) {
        *self.0.lock() = Vec::new();
    }
}

/// Distinct words with their stems, numbered from 1 in order of their appearance in a column.
#[derive(Default)]
pub(crate) struct WordInterner {
    known: HashTable<KnownWord>,
    hasher: WordHasher,
    words: InternedWords,
    /// Number of this column.
    column: u32,
    stemmers: ColumnStemmers,
}

/// The stemmers of the words of a column so far.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ColumnStemmers {
    #[default]
    None,
    /// One stemmer for all words, as in most columns: a word has one entry, which has its number.
    One(u8),
    /// Several stemmers, or given stems: words with equal text and stem have one number.
    Several,
}

/// A word as one stemmer has it. Texts have far more words than a core's cache, so all that is needed to find
/// a word again lies in one line of it.
#[repr(align(32))]
struct KnownWord {
    start: WordStart,
    /// [`ANY_STEMMER`] where the stem was given.
    stemmer: u8,
    /// True if its stem differs from it.
    has_stem: bool,
    index: u32,
    /// The column for which the number was found last.
    column: u32,
    /// Number of the word in that column.
    number: u32,
}

/// Stemmer of words whose stem was given.
const ANY_STEMMER: u8 = u8::MAX;

/// First bytes of a word, with zeros after a shorter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WordStart {
    bytes: [u8; WordStart::BYTES],
    /// Length of the word; [`WordStart::LONG`] for one that goes on.
    length: u8,
}

impl WordStart {
    const BYTES: usize = 16;
    const LONG: u8 = u8::MAX;

    fn of(word: &[u8]) -> Self {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let length = word.len();
        // Loads that overlap, since a copy of any length is a call. The bytes that both have are the same.
        let (first, second) = if let Some((first, second)) = word.first_chunk::<16>().map(halves) {
            (first, second)
        } else if let (Some(first), Some(last)) = (word.first_chunk::<8>(), word.last_chunk::<8>()) {
            // All bytes of a word of eight are in the first number.
            let after = number(last).checked_shr(8 * (16 - length as u32)).unwrap_or(0);
            (number(first), after)
        } else if let (Some(first), Some(last)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
            (half(first) | half(last) << (8 * (length - 4)), 0)
        } else {
            let byte = |at: usize| word.get(at).map_or(0, |byte| u64::from(*byte) << (8 * at));
            (byte(0) | byte(1) | byte(2), 0)
        };
        let bytes = (u128::from(first) | u128::from(second) << 64).to_le_bytes();
        WordStart { bytes, length: if length > Self::BYTES { Self::LONG } else { length as u8 } }
    }

    /// The start of the word of this length at the beginning of a text. Where enough of the text is there,
    /// the length is not branched on: processors do not foresee it.
    fn at(text: &[u8], length: usize) -> Self {
        let Some(bytes) = text.first_chunk::<{ WordStart::BYTES }>() else {
            return Self::of(&text[..length]);
        };
        let beyond = Self::BYTES - length.min(Self::BYTES);
        let mask = u128::MAX.checked_shr(8 * beyond as u32).unwrap_or(0);
        let bytes = (u128::from_le_bytes(*bytes) & mask).to_le_bytes();
        WordStart { bytes, length: if length > Self::BYTES { Self::LONG } else { length as u8 } }
    }

    fn is_whole(self) -> bool {
        self.length != Self::LONG
    }

    /// The bytes as two numbers: of two words with different ones the lower word has the lower ones.
    fn heads(self) -> (u64, u64) {
        let (first, second) = halves(&self.bytes);
        (first.swap_bytes(), second.swap_bytes())
    }
}

/// The bytes as two numbers.
fn halves(bytes: &[u8; WordStart::BYTES]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

/// Hashes words by their start: most are not longer.
struct WordHasher {
    long: DefaultHashBuilder,
    /// Random numbers: words of the same hash cannot be chosen.
    seeds: [u64; 2],
}

impl Default for WordHasher {
    fn default() -> Self {
        let long = DefaultHashBuilder::default();
        WordHasher { seeds: [0u8, 1].map(|seed| long.hash_one(seed)), long }
    }
}

impl WordHasher {
    /// Hash of a word with this start; `word` is called for a longer one.
    fn hash<'w>(&self, start: WordStart, word: impl FnOnce() -> &'w [u8]) -> u64 {
        if !start.is_whole() {
            return self.long.hash_one(word());
        }
        let (first, second) = halves(&start.bytes);
        let product = u128::from(first ^ self.seeds[0]) * u128::from(second ^ self.seeds[1]);
        product as u64 ^ (product >> 64) as u64
    }
}

/// Words in the order in which they became known.
#[derive(Default)]
struct InternedWords {
    /// Each word, followed by its stem if that differs.
    bytes: Vec<u8>,
    words: Vec<InternedWord>,
    /// The words of this column, in order of appearance.
    used: Vec<UsedWord>,
}

/// A word of a column. Most are sorted and copied without a look at the words that became known.
#[derive(Clone, Copy)]
struct UsedWord {
    start: WordStart,
    /// True if its stem differs from it.
    has_stem: bool,
    index: u32,
}

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

impl InternedWords {
    /// The number of the word in this column.
    fn number(&mut self, start: WordStart, index: u32, column: u32) -> u32 {
        let word = &mut self.words[index as usize];
        if word.column != column {
            self.used.push(UsedWord { start, has_stem: word.stem_end != word.end, index });
            word.column = column;
            word.number = self.used.len() as u32;
        }
        word.number
    }

    /// The number of the word in a column whose words are of one stemmer. It is not branched on whether the
    /// column has the word already: processors do not foresee that.
    fn number_of_one(&mut self, known: &mut KnownWord, column: u32) -> u32 {
        let before = self.used.len();
        let is_new = known.column != column;
        self.used.push(UsedWord { start: known.start, has_stem: known.has_stem, index: known.index });
        self.used.truncate(before + usize::from(is_new));
        known.number = select_unpredictable(is_new, before as u32 + 1, known.number);
        known.column = column;
        known.number
    }

    /// Notes the numbers of the column's words, which are of one stemmer, for those of others.
    fn note_numbers(&mut self, column: u32) {
        for (used, number) in self.used.iter().zip(1..) {
            let word = &mut self.words[used.index as usize];
            (word.column, word.number) = (column, number);
        }
    }

    /// Adds a word; returns its index.
    fn push(&mut self, word: &[u8], stem: &[u8]) -> u32 {
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
        index
    }

    fn word(&self, index: u32) -> &[u8] {
        let word = self.words[index as usize];
        &self.bytes[word.start as usize..word.end as usize]
    }

    fn parts(&self, index: u32) -> (&[u8], Option<&[u8]>) {
        let word = self.words[index as usize];
        let stem = &self.bytes[word.end as usize..word.stem_end as usize];
        (self.word(index), (!stem.is_empty()).then_some(stem))
    }
}

impl WordInterner {
    /// Words of the columns before, for another.
    pub fn begin() -> Self {
        KEPT.take()
    }

    /// Keeps the words for the next column.
    pub fn keep(self) {
        KEPT.keep(self);
    }

    fn begin_column(&mut self) {
        self.words.used.clear();
        self.stemmers = ColumnStemmers::None;
        self.column = match self.column.checked_add(1) {
            Some(next) => next,
            // A word of an earlier column would be taken for one of this.
            None => {
                *self = WordInterner::default();
                1
            }
        };
    }

    /// Number of a word with this stem.
    pub fn number(&mut self, word: &[u8], stem: &[u8]) -> u32 {
        self.note_stemmer(ANY_STEMMER);
        let start = WordStart::of(word);
        let hash = self.hasher.hash(start, || word);
        let stem = if stem.is_empty() { word } else { stem };
        let index = self.find(hash, word, stem).unwrap_or_else(|| {
            let index = self.words.push(word, stem);
            self.remember(hash, ANY_STEMMER, index, 0);
            index
        });
        self.words.number(start, index, self.column)
    }

    /// Number of the word of this length at the beginning of `text`, for a stemmer; `stem` is called where
    /// the word is new to it. `None` if the stem is empty.
    pub fn number_by<'s>(
        &mut self,
        stemmer: u8,
        text: &[u8],
        length: usize,
        stem: impl FnOnce() -> &'s [u8],
    ) -> Option<u32> {
        assert!(stemmer != ANY_STEMMER, "stemmers have numbers below 255");
        let is_of_one = self.note_stemmer(stemmer);
        let (start, word) = (WordStart::at(text, length), &text[..length]);
        let hash = self.hasher.hash(start, || word);
        let WordInterner { known, words, column, .. } = self;
        let is_same = |known: &KnownWord| {
            known.stemmer == stemmer
                && known.start == start
                && (start.is_whole() || words.word(known.index) == word)
        };
        if let Some(known) = known.find_mut(hash, is_same) {
            if is_of_one {
                return Some(words.number_of_one(known, *column));
            }
            if known.column != *column {
                known.number = words.number(start, known.index, *column);
                known.column = *column;
            }
            return Some(known.number);
        }
        let stem = stem();
        if stem.is_empty() {
            return None;
        }
        // Where one stemmer has all words of the column, it has not had this one.
        let index = self.find(hash, word, stem).unwrap_or_else(|| self.words.push(word, stem));
        let number = self.words.number(start, index, self.column);
        self.remember(hash, stemmer, index, number);
        Some(number)
    }

    /// Takes note of the stemmer of a word of this column. Returns true if it has all words so far.
    fn note_stemmer(&mut self, stemmer: u8) -> bool {
        match self.stemmers {
            ColumnStemmers::One(one) if one == stemmer => return true,
            ColumnStemmers::None if stemmer != ANY_STEMMER => {
                self.stemmers = ColumnStemmers::One(stemmer);
                return true;
            }
            ColumnStemmers::One(_) => self.words.note_numbers(self.column),
            ColumnStemmers::None | ColumnStemmers::Several => {}
        }
        self.stemmers = ColumnStemmers::Several;
        false
    }

    fn find(&self, hash: u64, word: &[u8], stem: &[u8]) -> Option<u32> {
        let parts = (word, (stem != word).then_some(stem));
        let known = self.known.find(hash, |known| self.words.parts(known.index) == parts)?;
        Some(known.index)
    }

    /// Makes a word known to a stemmer, with its number in this column.
    fn remember(&mut self, hash: u64, stemmer: u8, index: u32, number: u32) {
        let WordInterner { known, hasher, words, column, .. } = self;
        let (word, stem) = words.parts(index);
        let (start, has_stem) = (WordStart::of(word), stem.is_some());
        let word = KnownWord { start, stemmer, has_stem, index, column: *column, number };
        known.insert_unique(hash, word, |known| hasher.hash(known.start, || words.word(known.index)));
    }

    /// The numbers of the column's words in the order of their words, then of their stems.
    pub fn sorted(&self) -> Vec<u32> {
        let numbered = self.words.used.iter().zip(1..);
        let mut order: Vec<(u64, u32)> =
            numbered.map(|(word, number)| (word.start.heads().0, number)).collect();
        // Most words differ in their first bytes. Numbers alone are sorted without branches.
        order.sort_unstable_by_key(|(head, _)| *head);
        let second = |number: u32| self.used(number).start.heads().1;
        let alike = order.chunk_by_mut(|(head, _), (other, _)| head == other);
        for alike in alike.filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by(|(_, number), (_, other)| {
                let by_second = second(*number).cmp(&second(*other));
                by_second.then_with(|| self.parts(*number).cmp(&self.parts(*other)))
            });
        }
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// Appends the word with this number in the column.
    pub fn append_word(&self, number: u32, out: &mut Vec<u8>) {
        let UsedWord { start, index, .. } = *self.used(number);
        if start.is_whole() {
            // As many bytes for each: that is faster than a copy of their number.
            let end = out.len() + usize::from(start.length);
            out.extend_from_slice(&start.bytes);
            out.truncate(end);
        } else {
            out.extend_from_slice(self.words.word(index));
        }
    }

    /// The stem of the word with this number, if it differs.
    pub fn stem(&self, number: u32) -> Option<&[u8]> {
        let used = self.used(number);
        if used.has_stem { self.words.parts(used.index).1 } else { None }
    }

    /// Number of words in the column.
    #[cfg(test)]
    fn len(&self) -> u32 {
        self.words.used.len() as u32
    }

    fn parts(&self, number: u32) -> (&[u8], Option<&[u8]>) {
        self.words.parts(self.used(number).index)
    }

    fn used(&self, number: u32) -> &UsedWord {
        &self.words.used[number as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn known_words() -> WordInternerPool {
        WordInternerPool(Mutex::default())
    }

    fn number_by(
        words: &mut WordInterner,
        stemmer: u8,
        word: &str,
        stem: impl FnOnce() -> &'static str,
    ) -> Option<u32> {
        words.number_by(stemmer, word.as_bytes(), word.len(), || stem().as_bytes())
    }

    #[test]
    fn a_column_has_its_own_numbers_for_words_that_are_remembered() {
        let kept = known_words();
        let mut first = kept.take();
        let unknown = || -> &'static str { panic!("the stemmer has the word") };
        assert_eq!(number_by(&mut first, 2, "mills", || "mill"), Some(1));
        assert_eq!(first.number(b"race", b""), 2);
        assert_eq!(number_by(&mut first, 2, "mills", unknown), Some(1));
        assert_eq!(number_by(&mut first, 3, "mills", || "mills"), Some(3), "another stemmer, another stem");
        assert_eq!(number_by(&mut first, 4, "mills", || "mill"), Some(1), "another stemmer, the same stem");
        assert_eq!(number_by(&mut first, 2, "--", || ""), None);
        assert_eq!(first.len(), 3);
        kept.keep(first);
        let mut second = kept.take();
        assert_eq!(second.len(), 0);
        assert_eq!(second.number(b"race", b"race"), 1);
        assert_eq!(number_by(&mut second, 4, "mills", unknown), Some(2));
        assert_eq!(number_by(&mut second, 3, "mills", unknown), Some(3));
        let parts = (1..=second.len()).map(|number| second.parts(number)).collect::<Vec<_>>();
        assert_eq!(parts, [(&b"race"[..], None), (b"mills", Some(&b"mill"[..])), (b"mills", None)]);
        kept.keep(second);
        kept.forget();
        assert_eq!(number_by(&mut kept.take(), 4, "mills", || "mil"), Some(1), "nothing is remembered");
    }

    #[test]
    fn words_that_begin_alike_are_different() {
        let alike = ["sixteen", "sixteen\0", "sixteen letters.", "sixteen letters..", "sixteen letters.?"];
        let mut words = known_words().take();
        for round in 0..2 {
            for (number, word) in (1..).zip(alike) {
                let found = number_by(&mut words, 0, word, || word);
                assert_eq!(found, Some(number), "{word} in round {round}");
            }
        }
        assert_eq!(words.len(), alike.len() as u32);
    }

    #[test]
    fn too_many_words_are_not_kept() {
        let kept = known_words();
        let mut words = kept.take();
        for number in 0..=KEPT_WORDS as u32 {
            words.number(&number.to_be_bytes(), b"");
        }
        kept.keep(words);
        assert!(kept.0.lock().is_empty(), "the next column begins with none");
    }

    #[test]
    fn a_word_counts_for_each_of_its_stemmers() {
        let kept = known_words();
        let mut words = kept.take();
        for number in 0..=KEPT_WORDS as u32 / 2 {
            let word = number.to_be_bytes();
            for stemmer in 1..3 {
                words.number_by(stemmer, &word, word.len(), || &word[..]);
            }
        }
        kept.keep(words);
        assert!(kept.0.lock().is_empty(), "the next column begins with none");
    }

    #[test]
    fn no_more_words_are_kept_than_columns_are_built_at_once() {
        let kept = known_words();
        (0..*KEPT_MAX + 3).for_each(|_| kept.keep(WordInterner::default()));
        assert_eq!(kept.0.lock().len(), *KEPT_MAX);
    }

    proptest! {
        #[test]
        fn the_start_of_a_word_does_not_depend_on_what_follows(
            word in "[ -~]{1,20}",
            following in "[ -~]{0,20}",
        ) {
            let text = format!("{word}{following}");
            let start = WordStart::of(word.as_bytes());
            prop_assert_eq!(WordStart::at(text.as_bytes(), word.len()), start);
        }

        /// One column after another, of words of one stemmer or of several, beside a plain map. Stemmer 0
        /// stands for stems that are given; one leaves some words out, the others cut them.
        #[test]
        fn numbers_are_those_of_a_plain_map(
            columns in prop::collection::vec(
                (
                    prop::option::of(1..5_u8),
                    prop::collection::vec(("[ab]{1,2}|[ab]{15,17}", 0..5_u8), 0..40),
                ),
                1..6,
            ),
        ) {
            let kept = known_words();
            for (only, texts) in columns {
                let (mut words, mut plain) = (kept.take(), HashMap::new());
                for (word, stemmer) in &texts {
                    let stemmer = only.unwrap_or(*stemmer);
                    let stem = match stemmer {
                        0 => "a",
                        1 => word.trim_start_matches('b'),
                        _ => &word[..word.len().min(usize::from(stemmer) - 1)],
                    };
                    let stem = stem.as_bytes();
                    let found = match stemmer {
                        0 => Some(words.number(word.as_bytes(), stem)),
                        _ => words.number_by(stemmer, word.as_bytes(), word.len(), || stem),
                    };
                    let next = plain.len() as u32 + 1;
                    let expected = (!stem.is_empty()).then(|| *plain.entry((word, stem)).or_insert(next));
                    prop_assert_eq!(found, expected, "{} by {}", word, stemmer);
                }
                prop_assert_eq!(words.len() as usize, plain.len());
                for ((word, stem), number) in plain {
                    let stem = (stem != word.as_bytes()).then_some(stem);
                    prop_assert_eq!(words.parts(number), (word.as_bytes(), stem));
                    prop_assert_eq!(words.stem(number), stem);
                }
                kept.keep(words);
            }
        }
    }
}
