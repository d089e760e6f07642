//! Compact form of a [`TokensColumn`](crate::TokensColumn), from which LZ4 saves more than from the column
//! itself.
//!
//! Words are stored without the bytes that they share with the word before, stems as changes of their word,
//! and offsets as lengths. Encoded: the numbers of documents, words, tokens and stemmed words, and the width
//! of a token number; the tokens of each document; the words; the stemmed words, in the order of their stems;
//! the token numbers as in the column. Numbers are LEB128; `docs/format.md` has the details.

use crate::{AlignedBuffer, Error, TOKENS, TokenDictionary, TokenIds, TokensColumn};

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
    let TokenDictionary { bytes: words, offsets } = column.dictionary();
    let (mut before, mut length_before) = (words, 0);
    for pair in offsets.windows(2) {
        // With what follows the word, so that a few bytes are read and written together.
        let (rest, length) = (&words[pair[0] as usize..], (pair[1] - pair[0]) as usize);
        let shared = shared_start(before, rest).min(length_before).min(length);
        out.halves(shared, length - shared);
        out.copy(&rest[shared..], length - shared);
        (before, length_before) = (rest, length);
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
    // What a byte of the compact form becomes at most: the prefix of a word, its offset, its stem.
    if plain > compact.len().saturating_mul(PLAIN_RATIO_MAX) {
        return None;
    }
    AlignedBuffer::fill_with(plain, |out| write(compact, out).ok_or(())).ok()
}

/// Maximum number of bytes of a column for one of its compact form. A word takes a byte, and gives at most 15
/// bytes of another one, twice (as its stem), 16 bytes of offsets and numbers, and a bit; the padding of
/// seven parts is in the rest.
const PLAIN_RATIO_MAX: usize = 512;

/// Writes the bytes of a column, which are all zero before.
fn write(compact: &[u8], out: &mut [u8]) -> Option<()> {
    let mut reader = CompactReader(compact);
    let mut count = || reader.number().filter(|count| u32::try_from(*count).is_ok());
    let (documents, words, tokens, stemmed) = (count()?, count()?, count()?, count()?);
    let width = reader.number().filter(|width| matches!(width, 2 | 4))?;
    if documents.max(words) > out.len() || stemmed > words {
        return None;
    }
    let mut starts: Vec<u32> = Vec::with_capacity(documents + 1);
    let mut end = 0u32;
    starts.push(end);
    for _ in 0..documents {
        end = end.checked_add(u32::try_from(reader.number()?).ok()?)?;
        starts.push(end);
    }
    let words_at = 64 + ((words + 1) * 4).next_multiple_of(64);
    let (before_words, rest) = out.split_at_mut_checked(words_at)?;
    let offsets: &mut [u32] =
        bytemuck::try_cast_slice_mut(&mut before_words[64..64 + (words + 1) * 4]).ok()?;
    let word_bytes = write_words(&mut reader, &mut offsets[1..], rest)?;
    let (text, rest) = rest.split_at_mut_checked(word_bytes.next_multiple_of(64))?;
    let (starts_bytes, ids_bytes) = (bytemuck::cast_slice::<u32, u8>(&starts), tokens.checked_mul(width)?);
    let ids_at = starts_bytes.len().next_multiple_of(64);
    let stems_at = (ids_at + ids_bytes).next_multiple_of(64);
    rest.get_mut(..starts_bytes.len())?.copy_from_slice(starts_bytes);
    let stems = StemParts::read(&mut reader, offsets, &text[..word_bytes], stemmed, rest.len())?;
    let ids = rest.get_mut(ids_at..ids_at.checked_add(ids_bytes)?)?;
    if ids.len() != reader.0.len() {
        return None;
    }
    ids.copy_from_slice(reader.0);
    let end = match stemmed {
        0 => ids_at + ids_bytes,
        _ => stems_at + stems.write(words, rest.get_mut(stems_at..)?)?,
    };
    let header = &mut before_words[..64];
    header[..2].copy_from_slice(&[TOKENS, width as u8]);
    let counts = [documents, words, word_bytes, tokens, stems.ends.len() - 1, stemmed, stems.bytes.len()];
    for (target, count) in header[4..].chunks_exact_mut(4).zip(counts) {
        target.copy_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
    }
    (end == rest.len()).then_some(())
}

/// Writes the words one after another, and their ends; returns the number of their bytes. Some bytes after
/// them may be written too, for the sake of copies of a fixed length.
fn write_words(reader: &mut CompactReader<'_>, ends: &mut [u32], out: &mut [u8]) -> Option<usize> {
    let (mut before, mut begin) = (0, 0);
    for end in ends {
        let (shared, rest) = reader.halves()?;
        if shared > begin - before {
            return None;
        }
        let middle = begin + shared;
        let near = out.get(before..).and_then(|from| from.first_chunk::<COPIED>()).copied();
        if let (Some(near), Some(target)) = (near, out.get_mut(begin..begin + COPIED)) {
            // What follows the shared bytes is replaced by the next ones.
            target.copy_from_slice(&near);
        } else {
            out.get(..middle)?;
            out.copy_within(before..before + shared, begin);
        }
        reader.copy(rest, out.get_mut(middle..)?)?;
        before = begin;
        begin = middle + rest;
        *end = u32::try_from(begin).ok()?;
    }
    // What copies have written after the last word, and not more than that.
    let after = out.len().min(begin + 2 * COPIED);
    out[begin..after].fill(0);
    Some(begin)
}

/// Bytes that are copied together, for the many texts that are not longer.
const COPIED: usize = 16;

/// The stems of a column, in their order.
struct StemParts {
    bytes: Vec<u8>,
    /// End of each stem, after a zero.
    ends: Vec<u32>,
    /// Index of each stem's first word, followed by their number.
    starts: Vec<u32>,
    /// The numbers of the words, stem after stem.
    numbers: Vec<u32>,
}

impl StemParts {
    /// Reads the stems of `count` words, which are `limit` bytes at most.
    fn read(
        reader: &mut CompactReader<'_>,
        offsets: &[u32],
        words: &[u8],
        count: usize,
        limit: usize,
    ) -> Option<Self> {
        let mut stems = StemParts {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count + 1),
            starts: Vec::with_capacity(count + 1),
            numbers: Vec::with_capacity(count),
        };
        stems.ends.push(0);
        let mut number = 0i64;
        let mut last = 0..0;
        for index in 0..count {
            number = number.checked_add(reader.signed()?)?;
            let word = usize::try_from(number).ok()?.checked_sub(1)?;
            let word = *offsets.get(word)? as usize..*offsets.get(word + 1)? as usize;
            let (mut removed, rest) = reader.halves()?;
            if removed == HALF_MAX {
                removed = removed.checked_add(reader.number()?)?;
            }
            let kept = word.len().saturating_sub(removed);
            let (begin, middle) = (last.end, last.end + kept);
            let end = middle.checked_add(rest)?;
            if end > limit {
                return None;
            }
            if stems.bytes.len() < end + COPIED {
                stems.bytes.resize((end + COPIED) * 2, 0);
            }
            match words[word.start..].first_chunk::<COPIED>() {
                Some(first) if kept <= COPIED => stems.bytes[begin..begin + COPIED].copy_from_slice(first),
                _ => stems.bytes[begin..middle].copy_from_slice(&words[word.start..word.start + kept]),
            }
            reader.copy(rest, &mut stems.bytes[middle..])?;
            let is_same = !stems.starts.is_empty() && stems.bytes[last.clone()] == stems.bytes[begin..end];
            if !is_same {
                stems.starts.push(index as u32);
                stems.ends.push(u32::try_from(end).ok()?);
                last = begin..end;
            }
            stems.numbers.push(u32::try_from(number).ok()?);
        }
        stems.starts.push(count as u32);
        stems.bytes.truncate(last.end);
        Some(stems)
    }

    /// Writes the table; returns the number of its bytes.
    fn write(&self, words: usize, out: &mut [u8]) -> Option<usize> {
        let bits = (words + 1).div_ceil(64) * 8;
        let has_another = out.get_mut(..bits)?;
        for number in &self.numbers {
            *has_another.get_mut(*number as usize / 8)? |= 1 << (number % 8);
        }
        let mut at = bits;
        let numbers = [&self.ends, &self.starts, &self.numbers];
        for part in
            numbers.map(|part| bytemuck::cast_slice::<u32, u8>(part)).into_iter().chain([&self.bytes[..]])
        {
            out.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some(at)
    }
}

/// Number of bytes at the beginning that both have; [`HALF_MAX`] at most.
fn shared_start(one: &[u8], other: &[u8]) -> usize {
    match (one.first_chunk::<8>(), other.first_chunk::<8>()) {
        (Some(first), Some(other_first)) if first != other_first => {
            let differ = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*other_first);
            differ.trailing_zeros() as usize / 8
        }
        _ => shared(one, &other[..other.len().min(HALF_MAX)]),
    }
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

    /// The first `count` of these bytes.
    fn copy(&mut self, bytes: &[u8], count: usize) {
        match bytes.first_chunk::<COPIED>() {
            Some(first) if count <= COPIED => {
                let end = self.0.len() + count;
                self.0.extend_from_slice(first);
                self.0.truncate(end);
            }
            _ => self.0.extend_from_slice(&bytes[..count]),
        }
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

    /// Copies the next bytes to the beginning of `out`; more of it may be written, for the sake of copies of
    /// a fixed length.
    fn copy(&mut self, count: usize, out: &mut [u8]) -> Option<()> {
        match (self.0.first_chunk::<COPIED>(), out.first_chunk_mut::<COPIED>()) {
            (Some(next), Some(out)) if count <= COPIED => *out = *next,
            _ => out.get_mut(..count)?.copy_from_slice(self.0.get(..count)?),
        }
        self.0 = &self.0[count..];
        Some(())
    }
}
