use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Calls `word` with the byte range of each word of `text`, in order.
pub(crate) fn words(text: &str, mut word: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // Words do not cross white space, so each piece in between can use the fast path or the thorough one.
        let mut end = at;
        let mut seen = 0;
        while end < bytes.len() && !bytes[end].is_ascii_whitespace() {
            seen |= bytes[end];
            end += 1;
        }
        if seen < 0x80 {
            ascii_words(bytes, at..end, &mut word);
        } else {
            unicode_words(text, at..end, &mut word);
        }
        at = end + 1;
    }
}

fn ascii_words(bytes: &[u8], piece: Range<usize>, word: &mut impl FnMut(Range<usize>)) {
    let mut at = piece.start;
    while at < piece.end {
        if !bytes[at].is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        let start = at;
        while at < piece.end && bytes[at].is_ascii_alphanumeric() {
            at += 1;
        }
        word(start..at);
    }
}

/// Words of UAX #29, further cut at characters that are neither a letter nor a digit nor a mark after one:
/// `.` in `example.com`.
fn unicode_words(text: &str, piece: Range<usize>, word: &mut impl FnMut(Range<usize>)) {
    for (offset, segment) in text[piece.clone()].unicode_word_indices() {
        let base = piece.start + offset;
        let mut start = None;
        for (at, c) in segment.char_indices() {
            if c.is_alphanumeric() && !is_mark(c) {
                start.get_or_insert(at);
            } else if continues(c) {
                // A mark is part of the word before it; without one it is not a word.
            } else if let Some(start) = start.take() {
                word(base + start..base + at);
            }
        }
        if let Some(start) = start {
            word(base + start..base + segment.len());
        }
    }
}

/// True if a character that is not a letter continues the word before it.
pub(crate) fn continues(c: char) -> bool {
    is_mark(c) || matches!(c, '\u{200c}' | '\u{200d}' | '\u{ad}')
}

fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

/// Calls `gram` with the byte range of each `size`-gram of the word in `word`; a shorter word is one gram. A
/// letter is counted together with its marks.
pub(crate) fn grams(text: &str, word: Range<usize>, size: usize, mut gram: impl FnMut(Range<usize>)) {
    let letters: Vec<usize> = text[word.clone()]
        .char_indices()
        .filter(|(at, c)| *at == 0 || !continues(*c))
        .map(|(at, _)| word.start + at)
        .chain([word.end])
        .collect();
    let size = size.clamp(1, letters.len() - 1);
    letters.windows(size + 1).for_each(|window| gram(window[0]..window[size]));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut found = Vec::new();
        words(text, |range| found.push(&text[range]));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn words_are_letters_and_digits() {
        check("", &[]);
        check(" ,. ", &[]);
        check("Hello, world!", &["Hello", "world"]);
        check("a_b can't example.com 3.14", &["a", "b", "can", "t", "example", "com", "3", "14"]);
        check("A512 x2y", &["A512", "x2y"]);
        check("“Ångström’s”—naïve", &["Ångström", "s", "naïve"]);
        check("cafe\u{301} e\u{301}te", &["cafe\u{301}", "e\u{301}te"]);
        check("日本語のテスト test", &["日", "本", "語", "の", "テスト", "test"]);
        check("हिन्दी भाषा", &["हिन्दी", "भाषा"]);
        check("привет, мир", &["привет", "мир"]);
        check("👍🏽 ok", &["ok"]);
    }

    #[test]
    fn grams_of_a_word() {
        let check = |text: &str, size, expected: &[&str]| {
            let mut found = Vec::new();
            grams(text, 0..text.len(), size, |range| found.push(&text[range]));
            assert_eq!(found, expected, "{text}");
        };
        check("abcd", 2, &["ab", "bc", "cd"]);
        check("ab", 3, &["ab"]);
        check("a", 0, &["a"]);
        check("e\u{301}te\u{301}", 2, &["e\u{301}t", "te\u{301}"]);
    }

    proptest! {
        #[test]
        fn the_quick_way_gives_what_the_thorough_one_does(text in "[ -~\\t\\n]{0,60}") {
            let (mut quick, mut thorough) = (Vec::new(), Vec::new());
            words(&text, |range| quick.push(range));
            unicode_words(&text, 0..text.len(), &mut |range| thorough.push(range));
            prop_assert_eq!(quick, thorough);
        }

        #[test]
        fn ranges_are_words_in_order(text in "\\PC{0,40}") {
            let mut last = 0;
            words(&text, |range| {
                assert!(range.start >= last && range.start < range.end);
                assert!(text[range.clone()].chars().next().is_some_and(char::is_alphanumeric));
                last = range.end;
            });
        }
    }
}
