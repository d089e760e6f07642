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
    // One byte says of most words that they end otherwise.
    let ends = |word: &[u8]| word.last() == suffix.last() && word.ends_with(suffix);
    range.filter(|number| suffix.is_empty() || ends(dictionary.word(*number))).collect()
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

    proptest! {
        #[test]
        fn words_are_found_as_one_by_one(
            words in proptest::collection::vec("[abé]{0,6}", 0..40),
            part in "[abé]{0,3}",
            max_edits in 0u32..3,
            prefix in any::<bool>(),
        ) {
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
