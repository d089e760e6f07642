//! Words of texts, and the words of a match in them.

use std::ops::Range;

use crate::query::MatchOptions;
use crate::text_division::TextDivision;

/// Words of a text as they are searched: lower case, split at what is neither letter nor number.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    word_spans(text).into_iter().map(|span| text[span].to_lowercase()).collect()
}

/// Places of the words of a text.
pub(crate) fn word_spans(text: &str) -> Vec<Range<usize>> {
    let is_inner = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '\'';
    let (mut spans, mut begin) = (Vec::new(), None);
    for (at, letter) in text.char_indices() {
        match begin {
            None if is_inner(letter) || letter == '.' => begin = Some(at),
            Some(from) if !is_inner(letter) && letter != '.' => {
                add_words(text, from..at, &mut spans);
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(from) = begin {
        add_words(text, from..text.len(), &mut spans);
    }
    spans
}

/// Adds the words of a part of a text that has letters, numbers and dots.
fn add_words(text: &str, part: Range<usize>, spans: &mut Vec<Range<usize>>) {
    let trimmed = text[part.clone()].trim_start_matches('.');
    let mut from = part.end - trimmed.len();
    let end = from + trimmed.trim_end_matches('.').len();
    while let Some(at) = text[from..end].find('.').map(|at| from + at) {
        // A dot stays between two digits, as in 1.5.
        let is_number = text[from..at].ends_with(|letter: char| letter.is_ascii_digit())
            && text[at + 1..].starts_with(|letter: char| letter.is_ascii_digit());
        if is_number {
            break;
        }
        if from < at {
            spans.push(from..at);
        }
        from = at + 1;
    }
    if from < end {
        spans.push(from..end);
    }
}

impl MatchOptions {
    /// Words of the text of a match in a field whose texts are divided in a way.
    pub(crate) fn words_of(&self, text: &str, of_field: TextDivision) -> Vec<String> {
        self.analyzer.unwrap_or(of_field).words(text)
    }

    /// True if a word is the one at a position of those that are wanted.
    pub(crate) fn fits(&self, wanted: &[String], at: usize, word: &str) -> bool {
        let is_last = self.is_prefix && at + 1 == wanted.len();
        match (is_last, self.fuzziness) {
            (true, _) => word.starts_with(&wanted[at]),
            (false, Some(fuzziness)) => fuzziness.has(word, &wanted[at]),
            (false, None) => word == wanted[at],
        }
    }
}

/// True if a phrase of `length` words is in a text, with up to `slop` words between.
pub(super) fn has_phrase(
    words: &[String],
    length: usize,
    slop: usize,
    fits: &impl Fn(usize, &str) -> bool,
) -> bool {
    (0..words.len()).any(|start| phrase_end(words, start, length, slop, fits).is_some())
}

/// End of a phrase that begins at a word of a text.
pub(crate) fn phrase_end(
    words: &[String],
    start: usize,
    length: usize,
    slop: usize,
    fits: &impl Fn(usize, &str) -> bool,
) -> Option<usize> {
    let (mut at, mut left) = (start, slop);
    for number in 0..length {
        loop {
            match words.get(at) {
                Some(word) if fits(number, word) => break,
                Some(_) if left > 0 && number > 0 => (at, left) = (at + 1, left - 1),
                _ => return None,
            }
        }
        at += 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_what_is_neither_letter_nor_number() {
        for (text, expected) in [
            ("", ""),
            ("One two", "one two"),
            ("...a..b. c.", "a b c"),
            ("v1.5, 2.x and x.2", "v1.5 2 x and x 2"),
            ("it's snake_case e-mail", "it's snake_case e mail"),
            ("ÄÖ/ü \u{1f600} 3", "äö ü 3"),
        ] {
            assert_eq!(words_of(text).join(" "), expected, "{text}");
        }
    }
}
