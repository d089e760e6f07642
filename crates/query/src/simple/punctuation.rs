//! Punctuation of typed text, in all of its forms.

/// The sign of ASCII that a character stands for: quotes of typography, and signs of full width, such as `（`.
pub(super) fn sign(c: char) -> char {
    match c {
        '«' | '»' | '‹' | '›' | '\u{201c}'..='\u{201f}' | '\u{301d}'..='\u{301f}' => '"',
        '！' | '＂' | '＄' | '（' | '）' | '＊' | '＋' | '，' | '－' | '．' | '：' | '；' | '＜' | '＞'
        | '［' | '］' | '＾' | '＿' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    }
}

/// True for white space, and for the comma and the full stop of ideographs.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '、' | '。')
}

/// True for a character that may follow a number.
pub(super) fn ends_number(c: char) -> bool {
    is_blank(c) || matches!(sign(c), ')' | '!' | ']' | ';')
}
