//! Special tokens in typed text.

use super::SpecialTokenRules;

/// A part of a text.
pub(super) enum WordPart<'a> {
    /// Text between special tokens.
    Text(&'a str),
    /// The word that a special token stands for.
    Special(String),
}

/// A special token in a text: its offset and length in bytes, and its word.
struct FoundToken {
    at: usize,
    length: usize,
    word: String,
}

/// The first special token at or after the start of a text, up to a letter that is not a part of it. A token
/// begins where a word begins or has ended, or anywhere if the rules say so.
fn first(
    text: &str,
    rules: SpecialTokenRules<'_>,
    mut is_part: impl FnMut(char) -> bool,
) -> Option<FoundToken> {
    let mut in_word = false;
    for (at, letter) in text.char_indices() {
        let is_of_word = letter.is_alphanumeric() || letter == '\'';
        let begins = rules.inside_words || !(in_word && is_of_word);
        let found = if begins { (rules.at_start)(&text[at..]) } else { None };
        if let Some((length, word)) = found.filter(|(length, _)| *length > 0) {
            return Some(FoundToken { at, length, word });
        }
        if !is_part(letter) {
            return None;
        }
        in_word = is_of_word;
    }
    None
}

/// Length of the characters at the start of a text that are parts of a word, special tokens among them.
pub(super) fn end_of(text: &str, rules: SpecialTokenRules<'_>, is_part: impl Fn(char) -> bool) -> usize {
    let mut end = 0;
    while let Some(found) = first(&text[end..], rules, &is_part) {
        end += found.at + found.length;
    }
    let rest = &text[end..];
    end + rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())
}

/// A text cut at its special tokens, without empty parts.
pub(super) fn parts<'a>(text: &'a str, rules: SpecialTokenRules<'_>) -> Vec<WordPart<'a>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(FoundToken { at, length, word }) = first(rest, rules, |_| true) {
        if at > 0 {
            parts.push(WordPart::Text(&rest[..at]));
        }
        parts.push(WordPart::Special(word));
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        parts.push(WordPart::Text(rest));
    }
    parts
}
