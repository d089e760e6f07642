//! Compact form of a [`TokensColumn`](crate::TokensColumn), from which LZ4 saves more than from the column
//! itself.
//!
//! Words are stored without the bytes that they share with the word before, stems as changes of their word,
//! and offsets as lengths. Encoded: the numbers of documents, words, tokens and stemmed words, and the width
//! of a token number; the tokens of each document; the words; the stemmed words, in the order of their stems;
//! the token numbers as in the column. Numbers are LEB128; `docs/format.md` has the details.

use crate::stems::StemsBuilder;
use crate::tokens::EncodedTokens;
use crate::{AlignedBuffer, Error, TokenIds, TokensColumn};

/// Largest number in half a byte; it says that the rest follows.
const HALF_MAX: usize = 15;

/// The compact form of a column.
pub(crate) fn encode(column: &TokensColumn) -> Vec<u8> {
    let (starts, ids) = (column.starts(), column.ids());
    let (width, bytes): (u64, &[u8]) = match ids {
        TokenIds::Narrow(ids) => (2, bytemuck::cast_slice(ids)),
        TokenIds::Wide(ids) => (4, bytemuck::cast_slice(ids)),
    };
    let mut stemmed = Vec::new();
    column.each_stem(|stem, number| stemmed.push((stem, number)));
    let mut out = CompactWriter(Vec::with_capacity(bytes.len() * 2));
    let counts = [column.len(), column.words(), ids.len(), stemmed.len()];
    counts.iter().for_each(|count| out.number(*count as u64));
    out.number(width);
    starts.windows(2).for_each(|pair| out.number(u64::from(pair[1] - pair[0])));
    let mut before: &[u8] = b"";
    for number in 1..=column.words() as u32 {
        let word = column.word(number);
        let shared = shared(before, word).min(HALF_MAX);
        out.halves(shared, word.len() - shared);
        out.0.extend_from_slice(&word[shared..]);
        before = word;
    }
    let mut last = 0i64;
    for (stem, number) in stemmed {
        let word = column.word(number);
        let shared = shared(word, stem);
        out.signed(i64::from(number) - last);
        last = i64::from(number);
        out.halves(word.len() - shared, stem.len() - shared);
        if word.len() - shared >= HALF_MAX {
            out.number((word.len() - shared - HALF_MAX) as u64);
        }
        out.0.extend_from_slice(&stem[shared..]);
    }
    out.0.extend_from_slice(bytes);
    out.0
}

/// The bytes of the column, which are `plain` in number.
///
/// # Errors
/// [`Error::Corrupt`] if these are not the bytes of a compact form. Memory is bounded by their number, and
/// `plain`.
pub(crate) fn decode(compact: &[u8], plain: usize) -> Result<AlignedBuffer, Error> {
    read(compact, plain).ok_or(Error::Corrupt("a compressed column of words is damaged"))
}

fn read(compact: &[u8], plain: usize) -> Option<AlignedBuffer> {
    let mut reader = CompactReader(compact);
    // Each of them takes a byte at least, or four of the column.
    let mut count = || reader.number().filter(|count| *count <= compact.len().max(plain));
    let (documents, words, tokens, stemmed) = (count()?, count()?, count()?, count()?);
    let width = reader.number()?;
    let mut starts = vec![0u32];
    let mut end = 0u32;
    for _ in 0..documents {
        end = end.checked_add(u32::try_from(reader.number()?).ok()?)?;
        starts.push(end);
    }
    let (mut bytes, mut offsets) = (Vec::new(), vec![0u32]);
    let mut before = 0;
    for _ in 0..words {
        let (shared, rest) = reader.halves()?;
        let begin = bytes.len();
        if shared > begin - before || begin > plain {
            return None;
        }
        bytes.extend_from_within(before..before + shared);
        bytes.extend_from_slice(reader.take(rest)?);
        offsets.push(u32::try_from(bytes.len()).ok()?);
        before = begin;
    }
    let (mut stem_bytes, mut stem_ends) = (Vec::new(), Vec::new());
    let mut number = 0i64;
    for _ in 0..stemmed {
        number = number.checked_add(reader.signed()?)?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let word = *offsets.get(index)? as usize..*offsets.get(index + 1)? as usize;
        let (mut removed, rest) = reader.halves()?;
        if removed == HALF_MAX {
            removed = removed.checked_add(reader.number()?)?;
        }
        stem_bytes.extend_from_slice(&bytes[word.start..word.end.checked_sub(removed)?.max(word.start)]);
        stem_bytes.extend_from_slice(reader.take(rest)?);
        // A word has one stem, which adds to the bytes that are left of it those that were just taken.
        if stem_bytes.len() > plain.saturating_add(compact.len()) {
            return None;
        }
        stem_ends.push((stem_bytes.len(), number as u32));
    }
    let mut stems = StemsBuilder::default();
    let mut begin = 0;
    for (end, number) in stem_ends {
        stems.push(&stem_bytes[begin..end], number);
        begin = end;
    }
    let ids = reader.0;
    if !matches!(width, 2 | 4) || ids.len() != tokens.checked_mul(width)? {
        return None;
    }
    let encoded =
        EncodedTokens { offsets: &offsets, words: &bytes, starts: &starts, ids, width, stems }.finish();
    (encoded.len() == plain).then_some(encoded)
}

/// Number of bytes at the beginning that both have.
fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

struct CompactWriter(Vec<u8>);

impl CompactWriter {
    /// A number as LEB128.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A number with its sign in the lowest bit.
    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    /// Two numbers in the halves of a byte. The rest of the second follows, if it is [`HALF_MAX`] or more;
    /// the caller writes that of the first.
    fn halves(&mut self, first: usize, second: usize) {
        self.0.push((first.min(HALF_MAX) << 4 | second.min(HALF_MAX)) as u8);
        if second >= HALF_MAX {
            self.number((second - HALF_MAX) as u64);
        }
    }
}

/// Reads what [`CompactWriter`] writes; `None` at the end of the bytes.
struct CompactReader<'a>(&'a [u8]);

impl<'a> CompactReader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()? as u64;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn halves(&mut self) -> Option<(usize, usize)> {
        let byte = usize::from(self.byte()?);
        let second = byte & HALF_MAX;
        let more = if second == HALF_MAX { self.number()? } else { 0 };
        Some((byte >> 4, second.checked_add(more)?))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}
