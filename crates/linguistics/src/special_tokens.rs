//! Special tokens: texts of queries that are one word, whatever their characters are.

use std::collections::BTreeMap;

/// A special token.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SpecialToken {
    /// Its text in lower case.
    text: String,
    /// The word in its place.
    word: String,
}

/// A list of texts that are one word in a query, such as `c++`, each with the word that takes its place.
///
/// The map has them by their first letter, longer texts before shorter ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecialTokens(BTreeMap<char, Vec<SpecialToken>>);

/// A special token found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialTokenMatch<'a> {
    /// Length in the text, in bytes.
    pub length: usize,
    /// The word in its place.
    pub word: &'a str,
}

impl SpecialTokens {
    /// Adds a text and the word in its place, which by default is the text itself. Both are made lower case.
    /// Returns false, and adds nothing, if the text is empty or the list has it already.
    pub fn add(&mut self, text: &str, word: Option<&str>) -> bool {
        let text = text.to_lowercase();
        let Some(first) = text.chars().next() else { return false };
        let tokens = self.0.entry(first).or_default();
        if tokens.iter().any(|token| token.text == text) {
            return false;
        }
        let word =
            word.filter(|word| !word.trim().is_empty()).map_or_else(|| text.clone(), str::to_lowercase);
        let at = tokens.partition_point(|token| token.text.len() >= text.len());
        tokens.insert(at, SpecialToken { text, word });
        true
    }

    /// Adds the tokens of another list that this one lacks.
    pub fn extend(&mut self, other: &SpecialTokens) {
        for token in other.0.values().flatten() {
            self.add(&token.text, Some(&token.word));
        }
    }

    /// True if tokens are also found inside of words in this language, whose script does not separate words.
    pub fn are_inside_words(language: Option<&str>) -> bool {
        let first = language.map(|tag| tag.split(['-', '_']).next().unwrap_or_default());
        first.is_some_and(|first| {
            ["zh", "ja", "ko", "th"].iter().any(|known| first.eq_ignore_ascii_case(known))
        })
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The longest token at the start of a text, in any case of letters. It ends where the text ends or where
    /// neither a letter nor a digit follows, unless it may be `inside` of a word.
    pub fn at_start(&self, text: &str, inside: bool) -> Option<SpecialTokenMatch<'_>> {
        let first = text.chars().next()?.to_lowercase().next()?;
        self.0.get(&first)?.iter().find_map(|token| {
            let length = prefix_length(text, &token.text)?;
            let ends = inside || !text[length..].starts_with(char::is_alphanumeric);
            ends.then_some(SpecialTokenMatch { length, word: &token.word })
        })
    }
}

/// Length of the start of `text` that is equal to `prefix` in lower case.
fn prefix_length(text: &str, prefix: &str) -> Option<usize> {
    let mut wanted = prefix.chars();
    for (at, letter) in text.char_indices() {
        if wanted.as_str().is_empty() {
            return Some(at);
        }
        for lower in letter.to_lowercase() {
            if wanted.next() != Some(lower) {
                return None;
            }
        }
    }
    wanted.as_str().is_empty().then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_at_the_start_counts() {
        let mut tokens = SpecialTokens::default();
        for (text, word) in [
            ("c+", None),
            ("C++", Some("cpp")),
            ("tcp/ip", Some(" ")),
            ("b.s.d.", None),
            ("Å/Ö", None),
            ("c++", Some("again")),
        ] {
            tokens.add(text, word);
        }
        for (text, outside, inside) in [
            ("c++", "3 cpp", "3 cpp"),
            ("C++ now", "3 cpp", "3 cpp"),
            ("c+", "2 c+", "2 c+"),
            ("c+x", "none", "2 c+"),
            ("c+++", "3 cpp", "3 cpp"),
            ("c++x", "2 c+", "3 cpp"),
            ("TCP/IP,", "6 tcp/ip", "6 tcp/ip"),
            ("b.s.d.!", "6 b.s.d.", "6 b.s.d."),
            ("b.s.d", "none", "none"),
            ("å/ö", "5 å/ö", "5 å/ö"),
            ("Å/Ö1", "none", "5 å/ö"),
            (" c++", "none", "none"),
            ("", "none", "none"),
        ] {
            let show = |inside| {
                let found = tokens.at_start(text, inside);
                found.map_or("none".to_owned(), |found| format!("{} {}", found.length, found.word))
            };
            assert_eq!((show(false), show(true)), (outside.to_owned(), inside.to_owned()), "{text}");
        }
    }
}
