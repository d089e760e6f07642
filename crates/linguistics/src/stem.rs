use std::cell::RefCell;

use rust_stemmers::{Algorithm, Stemmer};

use crate::TextLanguage;

/// Stemmer of one language, and of other scripts by their own stemmers, with a cache of recent words.
/// Stemming takes longer than all other processing of a word, and most text repeats a few hundred words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedStemmer(TextLanguage);

impl CachedStemmer {
    /// Returns `None` for a language whose words have no stems.
    pub(crate) fn new(language: TextLanguage) -> Option<Self> {
        language.has_stems().then_some(CachedStemmer(language))
    }

    /// Number of the language, from 1: words of one number have one stem.
    pub(crate) fn number(&self) -> u8 {
        match self.0 {
            TextLanguage::Stemmed(algorithm) => 2 + algorithm as u8,
            TextLanguage::Unknown | TextLanguage::Unstemmed => 1,
        }
    }

    /// Replaces a folded word by its stem. Words with digits and one-letter words are their own stem.
    pub(crate) fn stem(&self, word: &mut String) {
        if word.len() < 2 || word.bytes().any(|b| b.is_ascii_digit()) {
            return;
        }
        let Some(algorithm) = word.chars().next().and_then(|first| self.0.algorithm(first)) else { return };
        let stemmer = || Stemmer::create(algorithm);
        let Some(key) = StemKey::new(algorithm, word) else {
            *word = stemmer().stem(word).into_owned();
            return;
        };
        RECENT.with_borrow_mut(|recent| {
            if recent.is_empty() {
                recent.resize(RECENT_WORDS, RememberedStems::default());
            }
            let slot = &mut recent[key.hash()];
            if slot.key != key {
                let stemmer = stemmer();
                let stem = stemmer.stem(word);
                let Some(change) = StemChange::between(word, &stem) else {
                    *word = stem.into_owned();
                    return;
                };
                *slot = RememberedStems { key, change };
            }
            slot.change.apply(word);
        });
    }
}

/// Replaces a word in small letters by its stem in a language. Words with digits, and those of one letter,
/// are their own stem.
pub fn stem_word(word: &mut String, language: TextLanguage) {
    if let Some(stemmer) = CachedStemmer::new(language) {
        stemmer.stem(word);
    }
}

/// Number of cached words per thread; at 32 bytes each, at most 512 KB.
const RECENT_WORDS: usize = 1 << 14;

thread_local! {
    /// Cached words with the change to their stem, at the index given by their hash; a later word replaces an
    /// earlier one.
    static RECENT: RefCell<Vec<RememberedStems>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Default)]
struct RememberedStems {
    key: StemKey,
    change: StemChange,
}

/// A word of at most 22 bytes, with its language.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct StemKey {
    word: [u8; 22],
    len: u8,
    algorithm: u8,
}

impl StemKey {
    fn new(algorithm: Algorithm, text: &str) -> Option<Self> {
        let mut word = [0; 22];
        word.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(StemKey { word, len: text.len() as u8, algorithm: algorithm as u8 + 1 })
    }

    fn hash(&self) -> usize {
        let mut bytes = [0; 24];
        bytes[..22].copy_from_slice(&self.word);
        bytes[22] = self.algorithm;
        let mix = |hash: u64, word: &[u8; 8]| {
            (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        let hash = bytes.as_chunks::<8>().0.iter().fold(0, mix);
        (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % RECENT_WORDS
    }
}

/// Change from a word to its stem: length of the common prefix, and the following bytes.
#[derive(Clone, Copy, Default)]
struct StemChange {
    keep: u8,
    len: u8,
    end: [u8; 6],
}

impl StemChange {
    /// Returns `None` if the following bytes do not fit.
    fn between(word: &str, stem: &str) -> Option<Self> {
        let same = |at: &usize| {
            word.is_char_boundary(*at) && stem.is_char_boundary(*at) && word[..*at] == stem[..*at]
        };
        let keep = (0..=word.len().min(stem.len())).rev().find(same)?;
        let rest = &stem.as_bytes()[keep..];
        let mut end = [0; 6];
        end.get_mut(..rest.len())?.copy_from_slice(rest);
        Some(StemChange { keep: keep as u8, len: rest.len() as u8, end })
    }

    fn apply(self, word: &mut String) {
        word.truncate(usize::from(self.keep));
        // The bytes were cut from text at a character boundary.
        word.push_str(std::str::from_utf8(&self.end[..usize::from(self.len)]).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_the_same_whether_remembered_or_not() {
        let stemming = |language: TextLanguage| CachedStemmer::new(language).expect("the language has stems");
        let english = stemming(TextLanguage::Unknown);
        let german = stemming(TextLanguage::Stemmed(Algorithm::German));
        for _ in 0..3 {
            for (stemming, word, expected) in [
                (&english, "running", "run"),
                (&english, "ran", "ran"),
                (&english, "flies", "fli"),
                (&german, "flies", "flies"),
                (&german, "häuser", "haus"),
                (&english, "книгами", "книг"),
                (&german, "книгами", "книг"),
                (&english, "東京", "東京"),
                (&english, "a1s", "a1s"),
                (
                    &english,
                    "incomprehensibilitiesandmorethantwentyfour",
                    "incomprehensibilitiesandmorethantwentyfour",
                ),
            ] {
                let mut stemmed = word.to_owned();
                stemming.stem(&mut stemmed);
                assert_eq!(stemmed, expected, "{word}");
            }
        }
    }
}
