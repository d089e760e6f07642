use std::ops::Range;

use icu_segmenter::WordSegmenter;
use icu_segmenter::options::WordBreakInvariantOptions;

/// Word ranges of a text that contains a script without spaces, determined by the dictionaries and models of
/// ICU. `None` for other text.
///
/// Intended for query text. In documents each character of such scripts is a token, so that a word is found
/// in any context, independent of the segmentation of its surroundings.
///
/// ```
/// use millrace_linguistics::segments;
///
/// let text = "東京都の天気";
/// let words: Vec<&str> = segments(text).unwrap_or_default().into_iter().map(|range| &text[range]).collect();
/// assert_eq!(words, ["東京", "都", "の", "天気"]);
/// assert_eq!(segments("plain words"), None);
/// ```
pub fn segments(text: &str) -> Option<Vec<Range<usize>>> {
    if text.is_ascii() || !text.chars().any(is_unspaced) {
        return None;
    }
    let segmenter = WordSegmenter::new_auto(WordBreakInvariantOptions::default());
    let mut start = 0;
    let mut words = Vec::new();
    for (end, kind) in segmenter.segment_str(text).iter_with_word_type() {
        if kind.is_word_like() && start < end {
            words.push(start..end);
        }
        start = end;
    }
    Some(words)
}

/// True if a character's script has no separators between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai and Lao, Burmese, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Kana, Chinese characters and their extensions.
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}
