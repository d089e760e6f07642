use std::ops::Range;
use std::sync::Arc;

use crate::fixed::u32_at;
use crate::sorted::{SortedTexts, sampled};
use crate::stems::{StemTable, StemsBuilder, StemsLayout};
use crate::words::WordInterner;
use crate::{AlignedBuffer, BufferBuilder, Error, TOKENS};

/// Token number that separates the elements of an array; not used for words.
pub const ELEMENT_BOUNDARY: u32 = 0;

/// Words of text as numbers in a dictionary of the chunk.
///
/// - The dictionary is sorted by bytes, so the words with a common prefix are one range of numbers. Numbers
///   start at 1.
/// - Words are stored in their written form, with a separate stem if that differs. A word that was stemmed in
///   two ways (in two languages) has a number for each.
/// - A document's tokens are in text order; position `p` in the text is index `p` (elements of an array are
///   separated by [`ELEMENT_BOUNDARY`]). A document without a value has no tokens.
/// - Numbers are 16 bits wide if the dictionary has fewer than 65,536 words, otherwise 32.
///
/// Encoded: a header of 64 bytes (layout, width of a number, two zero bytes, count u32, words u32, bytes of
/// words u32, numbers u32, stems u32, stemmed words u32, bytes of stems u32), `words + 1` offsets (u32), the
/// words, `count + 1` starts (u32), the numbers; each part padded to 64. The layout of stems, if there are
/// any, is in docs/format.md.
#[derive(Debug, Clone)]
pub struct TokensColumn {
    buffer: AlignedBuffer,
    len: usize,
    words: usize,
    words_at: usize,
    starts_at: usize,
    ids_at: usize,
    ids: usize,
    width: usize,
    stems: StemsLayout,
    samples: Arc<DictionarySamples>,
}

/// Samples of the words and of the stems of a dictionary for their search.
#[derive(Debug, Default)]
struct DictionarySamples {
    words: Box<[u64]>,
    stems: Box<[u64]>,
}

/// Token numbers in their stored width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenIds<'a> {
    /// 16 bits.
    Narrow(&'a [u16]),
    /// 32 bits.
    Wide(&'a [u32]),
}

impl<'a> TokenIds<'a> {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        match self {
            TokenIds::Narrow(ids) => ids.len(),
            TokenIds::Wide(ids) => ids.len(),
        }
    }

    /// True if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token number at `index`.
    pub fn get(&self, index: usize) -> u32 {
        match self {
            TokenIds::Narrow(ids) => u32::from(ids[index]),
            TokenIds::Wide(ids) => ids[index],
        }
    }

    /// The tokens in `range`.
    pub fn slice(&self, range: Range<usize>) -> TokenIds<'a> {
        match self {
            TokenIds::Narrow(ids) => TokenIds::Narrow(&ids[range]),
            TokenIds::Wide(ids) => TokenIds::Wide(&ids[range]),
        }
    }

    /// Number of positions from the word at `from` to the word at `to`. Adjacent elements are `gap` positions
    /// apart. `None` if they have no distance, and across more than one boundary. Reads all tokens in
    /// between.
    pub fn distance(&self, from: u32, to: u32, gap: Option<u32>) -> Option<u32> {
        let between = self.slice(from as usize..to as usize);
        let boundaries = between.iter().filter(|id| *id == ELEMENT_BOUNDARY).count();
        Self::distance_over(from, to, boundaries, gap)
    }

    /// [`TokenIds::distance`] for words with `boundaries` boundaries between them.
    pub const fn distance_over(from: u32, to: u32, boundaries: usize, gap: Option<u32>) -> Option<u32> {
        match (boundaries, gap) {
            (0, _) => Some(to - from),
            // The boundary has an index of its own, which is not a position.
            (1, Some(gap)) => Some((to - from - 1).saturating_add(gap)),
            _ => None,
        }
    }

    /// All token numbers in order.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        (0..self.len()).map(move |index| self.get(index))
    }
}

/// The words of a [`TokensColumn`], sorted by bytes and concatenated.
#[derive(Debug, Clone, Copy)]
pub struct TokenDictionary<'a> {
    /// Bytes of all words.
    pub bytes: &'a [u8],
    /// Start of the word with the number `index + 1`, followed by the end of the last.
    pub offsets: &'a [u32],
}

impl<'a> TokenDictionary<'a> {
    /// The word of a number, which counts from 1.
    pub fn word(&self, number: u32) -> &'a [u8] {
        let index = number as usize - 1;
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

impl TokensColumn {
    pub(crate) fn decode(buffer: AlignedBuffer) -> Result<Self, Error> {
        if buffer.len() < 64 {
            return Err(Error::Corrupt("shorter than its header"));
        }
        let width = buffer[1] as usize;
        if width != 2 && width != 4 {
            return Err(Error::Corrupt("token numbers are 2 or 4 bytes wide"));
        }
        let (len, words) = (u32_at(&buffer, 4), u32_at(&buffer, 8));
        let (word_bytes, ids) = (u32_at(&buffer, 12), u32_at(&buffer, 16));
        let words_at = 64 + ((words + 1) * 4).next_multiple_of(64);
        let starts_at = words_at + word_bytes.next_multiple_of(64);
        let ids_at = starts_at + ((len + 1) * 4).next_multiple_of(64);
        let stems = StemsLayout {
            at: (ids_at + ids * width).next_multiple_of(64),
            stems: u32_at(&buffer, 20),
            stemmed: u32_at(&buffer, 24),
            bytes: u32_at(&buffer, 28),
        };
        let end = if stems.stems == 0 { ids_at + ids * width } else { stems.end(words) };
        if end != buffer.len() {
            return Err(Error::Corrupt("its length is not what its header says"));
        }
        let samples = Arc::default();
        let mut column =
            TokensColumn { buffer, len, words, words_at, starts_at, ids_at, ids, width, stems, samples };
        let ascending = |offsets: &[u32], end: usize| {
            offsets[0] == 0
                && offsets.windows(2).all(|pair| pair[0] <= pair[1])
                && offsets.last() == Some(&(end as u32))
        };
        if !ascending(column.word_offsets(), word_bytes) || !ascending(column.starts(), ids) {
            return Err(Error::Corrupt("its offsets do not ascend to its length"));
        }
        let largest = match column.ids() {
            TokenIds::Narrow(ids) => ids.iter().copied().max().map_or(0, u32::from),
            TokenIds::Wide(ids) => ids.iter().copied().max().unwrap_or(0),
        };
        if largest as usize > words {
            return Err(Error::Corrupt("a token number is past the dictionary"));
        }
        column.stems().map_or(Ok(()), |stems| stems.check(words))?;
        let TokenDictionary { offsets, bytes } = column.dictionary();
        let stems = column.stems().map(|stems| stems.sampled()).unwrap_or_default();
        column.samples = Arc::new(DictionarySamples { words: sampled(offsets, bytes), stems });
        Ok(column)
    }

    pub(crate) fn buffer(&self) -> &AlignedBuffer {
        &self.buffer
    }

    /// Bytes in memory beside the buffer.
    pub(crate) fn sample_bytes(&self) -> usize {
        size_of_val(&*self.samples.words) + size_of_val(&*self.samples.stems)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of words in the dictionary; their numbers are `1..=words()`.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The word of a number in `1..=words()`.
    pub fn word(&self, number: u32) -> &[u8] {
        let offsets = self.word_offsets();
        let index = number as usize - 1;
        &self.buffer[self.words_at + offsets[index] as usize..self.words_at + offsets[index + 1] as usize]
    }

    /// Numbers of a word by its written form: none, one, or one per stem. Costs a binary search.
    pub fn numbers(&self, word: &[u8]) -> Range<u32> {
        let first = self.first_not_below(word);
        let same = |number: &u32| *number as usize <= self.words && self.word(*number) == word;
        first..(first..).find(|number| !same(number)).unwrap_or(first)
    }

    /// Calls `each` with the numbers of the words with this stem. A word without a separate stem is its own
    /// stem. Costs two binary searches.
    pub fn stemmed(&self, stem: &[u8], mut each: impl FnMut(u32)) {
        let stems = self.stems();
        let own = self.numbers(stem);
        own.filter(|number| stems.is_none_or(|stems| !stems.has_another(*number))).for_each(&mut each);
        if let Some(stems) = stems {
            stems.words_of(stem).iter().copied().for_each(each);
        }
    }

    /// The numbers that [`TokensColumn::stemmed`] finds, in any order, by a look at each stem and each word.
    pub fn stemmed_plainly(&self, stem: &[u8]) -> Vec<u32> {
        let stems = self.stems();
        let has_another = |number: &u32| stems.is_some_and(|stems| stems.has_another(*number));
        let own = (1..=self.words as u32).filter(|number| !has_another(number) && self.word(*number) == stem);
        let mut numbers: Vec<u32> = own.collect();
        if let Some(stems) = stems {
            stems.each(|of, number| numbers.extend((of == stem).then_some(number)));
        }
        numbers
    }

    /// Calls `visit` with each stem and the number of each of its words, in the order of stems, then of
    /// numbers.
    pub(crate) fn each_stem<'s>(&'s self, visit: impl FnMut(&'s [u8], u32)) {
        if let Some(stems) = self.stems() {
            stems.each(visit);
        }
    }

    fn stems(&self) -> Option<StemTable<'_>> {
        (self.stems.stems > 0).then(|| self.stems.over(&self.buffer, self.words, &self.samples.stems))
    }

    /// Numbers of the words that start with `prefix`.
    pub fn prefixed(&self, prefix: &[u8]) -> Range<u32> {
        let first = self.first_not_below(prefix);
        let (mut low, mut high) = (first, self.words as u32 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.word(middle).starts_with(prefix) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        first..low
    }

    /// Start of each document's tokens in [`TokensColumn::ids`], followed by the end of the last.
    pub fn starts(&self) -> &[u32] {
        bytemuck::cast_slice(&self.buffer[self.starts_at..self.starts_at + (self.len + 1) * 4])
    }

    /// Tokens of all documents, concatenated.
    pub fn ids(&self) -> TokenIds<'_> {
        let bytes = &self.buffer[self.ids_at..self.ids_at + self.ids * self.width];
        if self.width == 2 {
            TokenIds::Narrow(bytemuck::cast_slice(bytes))
        } else {
            TokenIds::Wide(bytemuck::cast_slice(bytes))
        }
    }

    /// Tokens of the document at `index`.
    pub fn document(&self, index: usize) -> TokenIds<'_> {
        let starts = self.starts();
        self.ids().slice(starts[index] as usize..starts[index + 1] as usize)
    }

    /// The words of the dictionary.
    pub fn dictionary(&self) -> TokenDictionary<'_> {
        let offsets = self.word_offsets();
        let end = self.words_at + offsets[self.words] as usize;
        TokenDictionary { bytes: &self.buffer[self.words_at..end], offsets }
    }

    fn word_offsets(&self) -> &[u32] {
        bytemuck::cast_slice(&self.buffer[64..64 + (self.words + 1) * 4])
    }

    fn first_not_below(&self, word: &[u8]) -> u32 {
        let TokenDictionary { offsets, bytes } = self.dictionary();
        SortedTexts { offsets, bytes, samples: &self.samples.words }.first_not_below(word) as u32 + 1
    }
}

/// Usual bytes of a word.
const WORD_BYTES: usize = 8;

/// Builder of a [`TokensColumn`] column, document by document.
pub struct TokensBuilder {
    words: WordInterner,
    starts: Vec<u32>,
    ids: Vec<u32>,
    /// Reusable buffer.
    stem: String,
}

impl Default for TokensBuilder {
    fn default() -> Self {
        TokensBuilder::new()
    }
}

impl TokensBuilder {
    /// Creates a builder without documents.
    pub fn new() -> Self {
        TokensBuilder { words: WordInterner::begin(), starts: vec![0], ids: Vec::new(), stem: String::new() }
    }

    /// Adds a word to the current document.
    pub fn word(&mut self, word: &[u8]) {
        self.stemmed(word, word);
    }

    /// Adds a word with its stem; an empty one stands for the word itself.
    pub fn stemmed(&mut self, word: &[u8], stem: &[u8]) {
        let id = self.words.number(word, stem);
        self.ids.push(id);
    }

    /// Adds the word of this length at the beginning of `text`, as the stemmer with this number, below 255,
    /// has it: what follows the word in its text makes it cheaper to read. `stem` is called where the word is
    /// new to the stemmer, and appends the stem; a word with an empty stem is left out. Stems are remembered
    /// from column to column: a stemmer has one for each word.
    pub fn stemmed_by(&mut self, stemmer: u8, text: &[u8], length: usize, stem: impl FnOnce(&mut String)) {
        let TokensBuilder { words, ids, stem: stemmed, .. } = self;
        let number = words.number_by(stemmer, text, length, || {
            stemmed.clear();
            stem(stemmed);
            stemmed.as_bytes()
        });
        ids.extend(number);
    }

    /// Separates two elements of the current document.
    pub fn boundary(&mut self) {
        self.ids.push(ELEMENT_BOUNDARY);
    }

    /// Ends the current document.
    pub fn end_document(&mut self) {
        self.starts
            .push(u32::try_from(self.ids.len()).expect("chunks are cut before a column has 4 Gi tokens"));
    }

    /// Returns the column, with a sorted dictionary.
    pub fn finish(self) -> TokensColumn {
        let words = &self.words;
        let order = words.sorted();
        let width = token_width(order.len());
        let mut sorted = vec![ELEMENT_BOUNDARY; order.len() + 1];
        let mut stems = StemsBuilder::default();
        let mut bytes = Vec::with_capacity(order.len() * WORD_BYTES);
        let mut offsets = Vec::with_capacity(order.len() + 1);
        offsets.push(0u32);
        for (id, number) in order.iter().zip(1..) {
            sorted[*id as usize] = number;
            words.append_word(*id, &mut bytes);
            offsets.push(bytes.len() as u32);
            words.stem(*id).iter().for_each(|stem| stems.push(stem, number));
        }
        let ids = self.ids.iter().map(|id| sorted[*id as usize]);
        let (narrow, wide): (Vec<u16>, Vec<u32>);
        let ids: &[u8] = if width == 2 {
            narrow = ids.map(|id| id as u16).collect();
            bytemuck::cast_slice(&narrow)
        } else {
            wide = ids.collect();
            bytemuck::cast_slice(&wide)
        };
        let encoded =
            EncodedTokens { offsets: &offsets, words: &bytes, starts: &self.starts, ids, width, stems };
        let encoded = encoded.finish();
        self.words.keep();
        TokensColumn::decode(encoded).expect("what was just encoded decodes")
    }
}

/// Bytes of a token number in a column with a dictionary of this many words.
pub(crate) fn token_width(words: usize) -> usize {
    if words < usize::from(u16::MAX) { 2 } else { 4 }
}

/// The parts of a column, in the order of its bytes.
pub(crate) struct EncodedTokens<'a> {
    /// Start of each word, followed by the end of the last.
    pub offsets: &'a [u32],
    /// The words, sorted and concatenated.
    pub words: &'a [u8],
    /// Start of each document's tokens, followed by the end of the last.
    pub starts: &'a [u32],
    /// The token numbers.
    pub ids: &'a [u8],
    /// Bytes of a token number.
    pub width: usize,
    /// The stems that differ from their word.
    pub stems: StemsBuilder<'a>,
}

impl EncodedTokens<'_> {
    /// The bytes of the column.
    pub fn finish(self) -> AlignedBuffer {
        let (documents, words) = (self.starts.len() - 1, self.offsets.len() - 1);
        let bytes = self.words.len() + self.ids.len() + (words + documents) * 4;
        let mut out = BufferBuilder::with_capacity(512 + bytes + words * 4);
        out.extend(&[TOKENS, self.width as u8, 0, 0]);
        let sorted = self.stems.sorted();
        let (stems, stemmed, stem_bytes) = sorted.counts();
        let tokens = self.ids.len() / self.width;
        for number in [documents, words, self.words.len(), tokens, stems, stemmed, stem_bytes] {
            out.extend(&(number as u32).to_le_bytes());
        }
        out.align();
        out.extend(bytemuck::cast_slice(self.offsets));
        out.align();
        out.extend(self.words);
        out.align();
        out.extend(bytemuck::cast_slice(self.starts));
        out.align();
        out.extend(self.ids);
        sorted.write(words, &mut out);
        out.finish()
    }
}
