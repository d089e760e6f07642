use std::cell::RefCell;

use rust_stemmers::{Algorithm, Stemmer};

/// Stems words of one language, and remembers those that it met lately: a stemmer takes longer than everything else that is
/// done to a word, and most of a text is a few hundred words again and again.
pub(crate) struct Stemming {
    algorithm: Algorithm,
    stemmer: Stemmer,
}

impl Stemming {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Stemming { algorithm, stemmer: Stemmer::create(algorithm) }
    }

    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Replaces a folded word by its stem. Words with digits, and those of a single letter, are their own stem.
    pub(crate) fn stem(&self, word: &mut String) {
        if word.len() < 2 || word.bytes().any(|b| b.is_ascii_digit()) {
            return;
        }
        let Some(key) = Key::new(self.algorithm, word) else {
            *word = self.stemmer.stem(word).into_owned();
            return;
        };
        RECENT.with_borrow_mut(|recent| {
            if recent.is_empty() {
                recent.resize(RECENT_WORDS, Remembered::default());
            }
            let place = &mut recent[key.hash()];
            if place.key != key {
                let stem = self.stemmer.stem(word);
                let Some(stem) = Short::new(&stem) else {
                    *word = stem.into_owned();
                    return;
                };
                *place = Remembered { key, stem };
            }
            word.clear();
            word.push_str(place.stem.as_str());
        });
    }
}

/// How many words each thread remembers; with 64 bytes each, 256 KB at most.
const RECENT_WORDS: usize = 4096;

thread_local! {
    /// Words with their stems, each at the place that its hash names; a later word takes an earlier one's place.
    static RECENT: RefCell<Vec<Remembered>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Default)]
struct Remembered {
    key: Key,
    stem: Short,
}

/// A word in a language.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Key {
    word: Short,
    algorithm: u8,
}

impl Key {
    fn new(algorithm: Algorithm, word: &str) -> Option<Self> {
        Short::new(word).map(|word| Key { word, algorithm: algorithm as u8 + 1 })
    }

    fn hash(&self) -> usize {
        let mut hash = u64::from(self.algorithm);
        for word in self.word.bytes.as_chunks::<8>().0 {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % RECENT_WORDS
    }
}

/// A text of at most 24 bytes, kept in place.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Short {
    bytes: [u8; 24],
    len: u8,
}

impl Short {
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; 24];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Short { bytes, len: text.len() as u8 })
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len as usize]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_the_same_whether_remembered_or_not() {
        let english = Stemming::new(Algorithm::English);
        let german = Stemming::new(Algorithm::German);
        for _ in 0..3 {
            for (stemming, word, expected) in [
                (&english, "running", "run"),
                (&english, "ran", "ran"),
                (&english, "flies", "fli"),
                (&german, "flies", "flies"),
                (&german, "häuser", "haus"),
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
