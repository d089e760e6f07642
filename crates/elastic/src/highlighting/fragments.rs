//! Parts of a text around marked words.

use std::ops::Range;

/// A part of a text with the marks in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextFragment {
    pub(super) range: Range<usize>,
    pub(super) marks: Vec<Range<usize>>,
}

/// Parts of a text that have all of its marks, of about `size` letters each. The marks are in their order,
/// and apart from each other.
pub(super) fn fragments_of(text: &str, marks: Vec<Range<usize>>, size: usize) -> Vec<TextFragment> {
    let (mut fragments, mut floor) = (Vec::new(), 0);
    let mut marks = marks.into_iter().peekable();
    while let Some(first) = marks.next() {
        let from = begin_of(text, floor, first.start, size / 2);
        let mut to = end_of(text, from, first.end, size);
        let mut inside = vec![first];
        while let Some(mark) = marks.next_if(|mark| mark.start < to) {
            to = to.max(mark.end);
            inside.push(mark);
        }
        floor = to;
        // Marks neither begin nor end with blanks.
        let own = &text[from..to];
        let range = from + (own.len() - own.trim_start().len())..from + own.trim_end().len();
        fragments.push(TextFragment { range, marks: inside });
    }
    fragments
}

/// The beginning of a text of about `size` letters, with its place.
pub(super) fn cut(text: &str, size: usize) -> (&str, Range<usize>) {
    let end = end_of(text, 0, 0, size);
    (text, 0..text[..end].trim_end().len())
}

/// Place where a fragment begins: that of a sentence, or of a word, at most `length_max` letters before a
/// mark.
fn begin_of(text: &str, floor: usize, mark: usize, length_max: usize) -> usize {
    let before = &text[floor..mark];
    let earliest = match length_max.checked_sub(1) {
        None => mark,
        Some(nth) => before.char_indices().rev().nth(nth).map_or(floor, |(at, _)| floor + at),
    };
    let sentence = last_sentence_end(text, earliest, mark);
    let is_between = earliest == floor || text[..earliest].ends_with(char::is_whitespace);
    sentence.unwrap_or_else(|| match is_between {
        true => earliest,
        false => text[earliest..mark].find(char::is_whitespace).map_or(earliest, |at| earliest + at),
    })
}

/// Place where a fragment ends: that of a sentence, or of a word, at most `length_max` letters after its
/// beginning, and not before `earliest`.
fn end_of(text: &str, from: usize, earliest: usize, length_max: usize) -> usize {
    let limit = text[from..].char_indices().nth(length_max).map_or(text.len(), |(at, _)| from + at);
    if limit <= earliest {
        return earliest;
    }
    let sentence = last_sentence_end(text, earliest, limit);
    let is_between = limit == text.len() || text[limit..].starts_with(char::is_whitespace);
    sentence.unwrap_or_else(|| match is_between {
        true => limit,
        false => text[earliest..limit].rfind(char::is_whitespace).map_or(limit, |at| earliest + at),
    })
}

/// End of the last sentence that ends in a part of a text.
fn last_sentence_end(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut places = text[from..to].char_indices().rev().map(|(at, letter)| from + at + letter.len_utf8());
    places.find(|at| {
        let is_before_blank = text[*at..].chars().next().is_none_or(char::is_whitespace);
        match text[..*at].chars().next_back() {
            Some('\n' | '。' | '！' | '？') => true,
            Some('.' | '!' | '?') => is_before_blank,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fragments of a text around the words that stand in brackets.
    #[track_caller]
    fn check(marked: &str, size: usize, expected: &[&str]) {
        let (mut text, mut marks, mut from) = (String::new(), Vec::new(), 0);
        for letter in marked.chars() {
            match letter {
                '[' => from = text.len(),
                ']' => marks.push(from..text.len()),
                other => text.push(other),
            }
        }
        let shown = fragments_of(&text, marks, size).into_iter().map(|fragment| {
            let mut shown = String::new();
            let mut at = fragment.range.start;
            for mark in fragment.marks {
                shown.push_str(&format!("{}[{}]", &text[at..mark.start], &text[mark.clone()]));
                at = mark.end;
            }
            shown + &text[at..fragment.range.end]
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{marked} {size}");
    }

    #[test]
    fn fragments_end_with_sentences_or_words() {
        check("one [two] three", 100, &["one [two] three"]);
        check("First. A [second] one. Third.", 12, &["A [second]"]);
        check("First. A [second] one. Third.", 18, &["A [second] one."]);
        check("a b c d e f [g] h i j k l m", 8, &["e f [g] h"]);
        check("[a] b c d e f g h i [j] k", 6, &["[a] b c", "i [j] k"]);
        check("[a] [b] [c]", 4, &["[a] [b]", "[c]"]);
        // What begins in a fragment ends there.
        check("a [long phrase] b", 4, &["a [long phrase]"]);
        check("[averylongword] x", 3, &["[averylongword]"]);
        check("ää öö üü [ßß] éé èè", 6, &["üü [ßß]"]);
        check("一二三[四]五六七。八", 4, &["二三[四]五"]);
    }

    #[test]
    fn beginnings_end_with_words() {
        for (text, size, expected) in [
            ("one two three", 5, "one"),
            ("one two three", 7, "one two"),
            ("one two three", 100, "one two three"),
            ("One. Two three", 9, "One."),
            ("averylongword", 4, "aver"),
            ("", 4, ""),
        ] {
            let (whole, range) = cut(text, size);
            assert_eq!(&whole[range], expected, "{text} {size}");
        }
    }
}
