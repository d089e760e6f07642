//! Search in a chunk's dictionary for words by a part of them, or with differences.
//!
//! The words lie one after another, so a part is searched in all of them at once. Each word is looked at only
//! by conditions that need it.

use std::ops::Range;

use memchr::memmem::Finder;
use millrace_column::TokenDictionary;

use crate::pattern::{WordMatcher, WordShape};

/// Numbers in `range` of the words that `matcher` accepts, ascending.
pub(crate) fn numbers_of(
    matcher: &WordMatcher,
    dictionary: TokenDictionary<'_>,
    range: Range<u32>,
) -> Vec<u32> {
    match matcher.shape() {
        WordShape::Substring(part) if !part.is_empty() => with_part(part.as_bytes(), dictionary, range),
        WordShape::Suffix(suffix) => with_suffix(suffix.as_bytes(), dictionary, range),
        WordShape::Fuzzy(fuzzy) => fuzzy.matching(dictionary, range),
        WordShape::Substring(_) | WordShape::Other => {
            let matches =
                |number: &u32| text(dictionary.word(*number)).is_some_and(|word| matcher.matches(word));
            range.filter(matches).collect()
        }
    }
}

/// A word as text; columns hold text, but their bytes are not checked when they are read.
fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

fn with_part(part: &[u8], dictionary: TokenDictionary<'_>, range: Range<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    let (bytes, offsets) = (dictionary.bytes, dictionary.offsets);
    let (mut number, end) = (range.start, offsets[range.end as usize - 1] as usize);
    let mut from = offsets[number as usize - 1] as usize;
    let finder = Finder::new(part);
    while let Some(at) = finder.find(&bytes[from..end]) {
        let at = from + at;
        while offsets[number as usize] as usize <= at {
            number += 1;
        }
        let end_of_word = offsets[number as usize] as usize;
        from = if at + part.len() <= end_of_word {
            found.push(number);
            end_of_word
        } else {
            // It begins in this word and ends in a later one.
            at + 1
        };
    }
    found
}

fn with_suffix(suffix: &[u8], dictionary: TokenDictionary<'_>, range: Range<u32>) -> Vec<u32> {
    let ending = BytesAtEnd::new(suffix);
    let mut found = candidates(dictionary, range, |_, tail| ending.may_be(tail));
    found.retain(|number| dictionary.word(*number).ends_with(suffix));
    found
}

/// Bytes near the beginning of a word, as far as they are in its [`head`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesInHead {
    bytes: u64,
    mask: u64,
}

impl BytesInHead {
    /// Some bytes at an offset below [`HEAD`].
    pub(crate) fn new(bytes: &[u8], offset: usize) -> Self {
        let first = &bytes[..bytes.len().min(HEAD)];
        let shift = 8 * offset as u32;
        BytesInHead { bytes: head(first) << shift, mask: mask_of(first.len()) << shift }
    }

    /// False if a word with this head certainly does not have the bytes.
    #[inline(always)]
    pub(crate) fn may_be(self, head: u64) -> bool {
        head & self.mask == self.bytes
    }
}

/// Bytes that a word ends with, as far as they are in its [`tail`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesAtEnd {
    bytes: u64,
    mask: u64,
}

impl BytesAtEnd {
    /// Some bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let last = &bytes[bytes.len().saturating_sub(HEAD)..];
        // From the lowest bytes to the highest.
        BytesAtEnd { bytes: tail(last), mask: mask_of(last.len()).rotate_right(8 * last.len() as u32) }
    }

    /// False if a word with this tail certainly does not end with the bytes.
    #[inline(always)]
    pub(crate) fn may_be(self, tail: u64) -> bool {
        tail & self.mask == self.bytes
    }
}

/// A mask of the lowest bytes, at most [`HEAD`].
fn mask_of(bytes: usize) -> u64 {
    if bytes < HEAD { (1 << (8 * bytes)) - 1 } else { u64::MAX }
}

/// Bytes of a [`head`] and of a [`tail`].
pub(crate) const HEAD: usize = 8;

/// The first bytes as a number, the first one lowest; with fewer bytes, zeros after them.
#[inline(always)]
pub(crate) fn head(bytes: &[u8]) -> u64 {
    let padded = || {
        let mut first = [0; HEAD];
        first[..bytes.len()].copy_from_slice(bytes);
        first
    };
    u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_else(padded))
}

/// The last bytes as a number, the last one highest; with fewer bytes, zeros before them.
#[inline(always)]
fn tail(bytes: &[u8]) -> u64 {
    let padded = || {
        let mut last = [0; HEAD];
        last[HEAD - bytes.len()..].copy_from_slice(bytes);
        last
    };
    u64::from_le_bytes(bytes.last_chunk().copied().unwrap_or_else(padded))
}

/// Numbers in `range`, ascending, of the words that `may_match` does not exclude by their [`head`] and their
/// [`tail`]: those of a short word have bytes of the words around it, too.
///
/// No branch depends on a word, so that all words cost the same few instructions.
#[inline(always)]
pub(crate) fn candidates(
    dictionary: TokenDictionary<'_>,
    range: Range<u32>,
    may_match: impl Fn(u64, u64) -> bool,
) -> Vec<u32> {
    let TokenDictionary { bytes, offsets } = dictionary;
    let mut found = Vec::new();
    for first in range.clone().step_by(64) {
        let count = (range.end - first).min(64) as usize;
        let bounds = &offsets[first as usize - 1..first as usize + count];
        let mut mask = 0u64;
        for (at, bound) in bounds.windows(2).enumerate() {
            let (from, to) = (bound[0] as usize, bound[1] as usize);
            mask |= u64::from(may_match(head(&bytes[from..]), tail(&bytes[..to]))) << at;
        }
        while mask != 0 {
            found.push(first + mask.trailing_zeros());
            mask &= mask - 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use millrace_column::{TokensBuilder, TokensColumn};
    use millrace_plan::WordPattern;
    use proptest::prelude::*;

    use super::*;

    fn column(words: &[String]) -> TokensColumn {
        let mut builder = TokensBuilder::new();
        words.iter().for_each(|word| builder.word(word.as_bytes()));
        builder.end_document();
        builder.finish()
    }

    /// Kind, place and letter of an edit.
    fn edit() -> impl Strategy<Value = (usize, usize, char)> {
        (0usize..3, 0usize..13, prop::sample::select(vec!['a', 'x', 'é', '漢']))
    }

    /// A word with letters inserted, replaced and deleted, each at a place.
    fn edited(word: &str, edits: &[(usize, usize, char)]) -> String {
        let mut letters: Vec<char> = word.chars().collect();
        for (kind, index, letter) in edits {
            let index = index % (letters.len() + 1);
            match kind {
                0 => letters.insert(index, *letter),
                1 if index < letters.len() => letters[index] = *letter,
                _ if index < letters.len() => {
                    letters.remove(index);
                }
                _ => {}
            }
        }
        letters.into_iter().collect()
    }

    proptest! {
        #[test]
        fn words_are_found_as_one_by_one(
            words in proptest::collection::vec("[abé]{0,6}", 0..40),
            part in "[abcde]{0,12}|[abé]{0,3}|[abcdé]{3,9}",
            edits in proptest::collection::vec(proptest::collection::vec(edit(), 0..4), 0..20),
            max_edits in 0u32..4,
            prefix in any::<bool>(),
        ) {
            let near = edits.iter().map(|edits| edited(&part, edits));
            let words: Vec<String> = words.into_iter().chain(near).collect();
            let column = column(&words);
            let fuzzy = WordPattern::Fuzzy { word: part.clone(), max_edits, prefix_length: 0, prefix };
            for pattern in [WordPattern::Suffix(part.clone()), WordPattern::Substring(part), fuzzy] {
                let matcher = WordMatcher::new("f", &pattern).expect("not a regular expression");
                let all = 1..column.words() as u32 + 1;
                for from in all.clone() {
                    let found = numbers_of(&matcher, column.dictionary(), from..all.end);
                    let matches = |number: &u32| text(column.word(*number)).is_some_and(|word| matcher.matches(word));
                    let expected: Vec<u32> = (from..all.end).filter(matches).collect();
                    prop_assert_eq!(found, expected, "{:?}", pattern);
                }
            }
        }
    }
}
