use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::WordBeginnings;

/// Usual bytes of a part of a text. Most are plain ASCII, also of texts that are not.
const PART_BYTES: usize = 1 << 10;

/// The byte range of a piece of a text. No word is in two of them.
enum WordPiece {
    /// ASCII.
    Ascii(Range<usize>),
    /// Text with other characters, without white space.
    Mixed(Range<usize>),
}

/// Calls `word` with the byte range of each word of `text`, in order.
pub(crate) fn words(text: &str, mut word: impl FnMut(Range<usize>)) {
    pieces(text, |piece| match piece {
        WordPiece::Ascii(piece) => ascii_words(&text.as_bytes()[piece.clone()], piece.start, &mut word),
        WordPiece::Mixed(piece) => unicode_words(text, piece, &mut word),
    });
}

/// Calls `word` with the number of words before and the byte range of words of `text`, in order: of those
/// that `beginnings` admits, and of all in pieces that are not ASCII. Returns the number of words.
///
/// `skip` is asked for each piece that is ASCII, and for each of those words, with the number of its bytes;
/// true passes over it without counting.
pub(crate) fn admitted_words(
    text: &str,
    beginnings: &WordBeginnings,
    mut skip: impl FnMut(usize) -> bool,
    mut word: impl FnMut(usize, Range<usize>),
) -> usize {
    let mut count = 0;
    pieces(text, |piece| match piece {
        WordPiece::Ascii(piece) => {
            let bytes = &text.as_bytes()[piece.clone()];
            if skip(bytes.len()) {
                return;
            }
            ascii_word_starts(bytes, |start| {
                let rest = &bytes[start..];
                if beginnings.admit(rest) {
                    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                    if skip(length) {
                        return;
                    }
                    let begin = piece.start + start;
                    word(count, begin..begin + length);
                }
                count += 1;
            });
        }
        WordPiece::Mixed(piece) => unicode_words(text, piece, &mut |range: Range<usize>| {
            if !skip(range.len()) {
                word(count, range);
                count += 1;
            }
        }),
    });
    count
}

/// Calls `piece` with the pieces of a text, in order.
fn pieces(text: &str, mut piece: impl FnMut(WordPiece)) {
    parts(text, |part| match &text[part.clone()] {
        ascii if ascii.is_ascii() => piece(WordPiece::Ascii(part)),
        _ => mixed_pieces(text, part, &mut piece),
    });
}

/// Calls `part` with the byte ranges of consecutive parts of `text`. They end after white space, or at
/// its end, so that no word is in two of them.
pub(crate) fn parts(text: &str, mut part: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let full = bytes.len().min(at + PART_BYTES);
        let end = if full == bytes.len() {
            full
        } else if let Some(space) = bytes[at..full].iter().rposition(u8::is_ascii_whitespace) {
            at + space + 1
        } else {
            bytes[full..]
                .iter()
                .position(u8::is_ascii_whitespace)
                .map_or(bytes.len(), |space| full + space + 1)
        };
        part(at..end);
        at = end;
    }
}

/// Calls `word` with the words of ASCII text that begins at `begin`.
fn ascii_words(text: &[u8], begin: usize, word: &mut impl FnMut(Range<usize>)) {
    let (mut start, mut is_inside) = (begin, false);
    ascii_blocks(text, |at, inside| {
        // Where a byte is not of the kind of the one before it.
        let mut changes = inside ^ (inside << 1 | u64::from(is_inside));
        while changes != 0 {
            let change = begin + at + changes.trailing_zeros() as usize;
            changes &= changes - 1;
            if is_inside {
                word(start..change);
            }
            start = change;
            is_inside = !is_inside;
        }
    });
}

/// Calls `start` with the place of the first byte of each word of ASCII text.
fn ascii_word_starts(text: &[u8], mut start: impl FnMut(usize)) {
    let mut last_inside = 0;
    ascii_blocks(text, |at, inside| {
        let mut starts = inside & !(inside << 1 | last_inside);
        last_inside = inside >> 63;
        while starts != 0 {
            start(at + starts.trailing_zeros() as usize);
            starts &= starts - 1;
        }
    });
}

/// Calls `block` with the place of each 64 bytes of ASCII text, and their letters and digits as bits from the
/// lowest on: to classify them together costs less than a branch for each. After the text comes at least one
/// byte that is neither, so that its last word ends.
fn ascii_blocks(text: &[u8], mut block: impl FnMut(usize, u64)) {
    let (blocks, rest) = text.as_chunks::<64>();
    for (number, bytes) in blocks.iter().enumerate() {
        block(64 * number, alphanumeric(bytes));
    }
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    block(64 * blocks.len(), alphanumeric(&last));
}

/// The letters and digits among ASCII characters, as bits from the lowest on.
fn alphanumeric(block: &[u8; 64]) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    // In each byte, the highest bit of a sum is set from a certain character on.
    let from = |bytes: u64, first: u8| bytes + EACH * u64::from(0x80 - first);
    let mut mask = 0;
    for (number, bytes) in block.as_chunks::<8>().0.iter().enumerate() {
        let bytes = u64::from_le_bytes(*bytes);
        let lower = bytes | (EACH * 0x20);
        let letters = from(lower, b'a') & !from(lower, b'z' + 1);
        let digits = from(bytes, b'0') & !from(bytes, b'9' + 1);
        let highest = (letters | digits) >> 7 & EACH;
        // The product has the eight bits one beside another at its top.
        mask |= highest.wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * number);
    }
    mask
}

/// Calls `piece` with the pieces of a part of a text that has other characters than those of ASCII, too.
fn mixed_pieces(text: &str, part: Range<usize>, piece: &mut impl FnMut(WordPiece)) {
    let is_space = u8::is_ascii_whitespace;
    let mut at = part.start;
    while at < part.end {
        // Words do not cross white space, so only the piece around such a character needs the thorough way.
        let rest = &text.as_bytes()[at..part.end];
        let other = rest.iter().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let space_before = rest[..other].iter().rposition(is_space);
        let mixed = if other == rest.len() { other } else { space_before.map_or(0, |space| space + 1) };
        let end = rest[other..].iter().position(is_space).map_or(rest.len(), |space| other + space);
        if mixed > 0 {
            piece(WordPiece::Ascii(at..at + mixed));
        }
        if mixed < end {
            piece(WordPiece::Mixed(at + mixed..at + end));
        }
        at += end;
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
        fn the_quick_way_gives_what_the_thorough_one_does(text in "[ -~\\t\\n]{0,200}") {
            let (mut quick, mut thorough) = (Vec::new(), Vec::new());
            words(&text, |range| quick.push(range));
            unicode_words(&text, 0..text.len(), &mut |range| thorough.push(range));
            prop_assert_eq!(quick, thorough);
        }

        /// Also where a text has many parts, some of them with characters that ASCII does not have.
        #[test]
        fn words_of_a_text_are_those_of_its_pieces(
            piece in proptest::collection::vec("[!-~]{1,9}|\\PC{1,9}|[a-z]{60,70}", 1..12),
            spaces in "[ \\t\\r\\n\\x0b]{1,3}",
            times in 1usize..80,
        ) {
            let text = piece.join(&spaces).repeat(times);
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            words(&text, |range| found.push(range));
            let mut at = 0;
            for piece in text.split(|c: char| c.is_ascii_whitespace()) {
                unicode_words(&text, at..at + piece.len(), &mut |range| expected.push(range));
                at += piece.len() + 1;
            }
            prop_assert_eq!(found, expected);
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
