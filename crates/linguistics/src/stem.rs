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

    /// The start of a stem with which all ASCII words begin that have this stem. Stemmers cut off ends. What
    /// else they change is among the last letters of the stem: here are their greatest number, and all
    /// letters that may be among them.
    pub(crate) fn beginning<'s>(&self, stem: &'s str) -> &'s str {
        let (most, letters) = match self.latin() {
            Some(Algorithm::Dutch) => (2, "bcdfghijklmnpqrstvwxyz"), // maan: man, -heden: -heid
            Some(Algorithm::English) => (2, "eily"),                 // flies: fli, hoping: hope, dying: die
            Some(Algorithm::Finnish) => (usize::MAX, "aeiouy"),      // yksikko: yksiko
            Some(Algorithm::French) => (2, "ilnqtux"),               // -emment: -ent, -ication: -iqu
            Some(Algorithm::Hungarian) => (1, "syz"),                // -ggyal: -gy
            Some(Algorithm::Italian | Algorithm::Spanish) => (2, "et"), // -enza: -ent, -arla: -are
            Some(Algorithm::Romanian) => (1, "t"),                   // -ism: -ist
            _ => (0, ""),
        };
        let mut beginning = stem;
        for _ in 0..most {
            let Some(shorter) = beginning.strip_suffix(|letter: char| letters.contains(letter)) else {
                break;
            };
            beginning = shorter;
        }
        beginning
    }

    /// True if some ASCII words have an empty stem, and so no token. [`CachedStemmer::beginning`] is for the
    /// other languages.
    pub(crate) fn drops_words(&self) -> bool {
        self.latin() == Some(Algorithm::Turkish)
    }

    /// The stemmer of ASCII words.
    fn latin(&self) -> Option<Algorithm> {
        self.0.algorithm('a')
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
    use proptest::prelude::*;

    use super::*;

    /// Tags of the languages whose ASCII words all have stems.
    const LATIN: &[&str] = &["da", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "sv"];

    /// Ends of words that stemmers of some languages replace, or whose replacements they change again.
    const ENDS: &str = "abilit|al|amment|ance|arla|at|ation|ator|aux|bl|c|cs|e|ed|eed|emment|en|ence|encia\
        |enza|ended|eren|eus|euse|ggy|heden|ic|ica|ical|ies|ii|ilor|ing|ism|iva|iviti|izer|kkio|kse|li|lijk\
        |logie|lost|luk|ment|mma|ni|nnel|ogi|oot|ri|s|ssa|sse|ssz|t|tional|ul|urile|ution|uys|y|yant|ying|yle\
        |zzs";

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn ascii_words_begin_as_their_stems_say(
            start in "[a-z]{0,6}",
            ends in prop::collection::vec(prop::sample::select(ENDS.split('|').collect::<Vec<_>>()), 0..4),
        ) {
            let word = start + &ends.concat();
            for tag in LATIN {
                let language = TextLanguage::from_tag(tag);
                let stemming = CachedStemmer::new(language).expect("the language has stems");
                let mut stem = word.clone();
                stemming.stem(&mut stem);
                assert!(word.starts_with(stemming.beginning(&stem)), "{tag}: {word} is {stem}");
                assert!(word.is_empty() || !stem.is_empty() && !stemming.drops_words(), "{tag}: {word}");
            }
        }
    }
}
