use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

/// Differences between words that are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CharacterFolding {
    /// True to ignore case.
    pub case: bool,
    /// True to ignore accents.
    pub accents: bool,
}

impl CharacterFolding {
    /// Appends the folded form of `text` to `out`.
    pub(crate) fn fold(self, text: &str, out: &mut String) {
        if text.is_ascii() {
            let start = out.len();
            out.push_str(text);
            if self.case {
                out[start..].make_ascii_lowercase();
            }
        } else if self.accents {
            let start = out.len();
            if !self.fold_each(text, out) {
                out.truncate(start);
                self.fold_together(text, out);
            }
        } else {
            self.push(text.nfkc(), out);
        }
    }

    /// [`CharacterFolding::fold`] without regard to accents, for any text.
    fn fold_together(self, text: &str, out: &mut String) {
        self.push(text.nfkd().filter(|c| !is_accent(*c)), out);
    }

    /// [`CharacterFolding::fold_together`] character by character, which takes less time. Returns false for a
    /// text with other marks than accents that are not in the order of their classes, which is that of the
    /// folded form; what was appended then is of no use.
    fn fold_each(self, text: &str, out: &mut String) -> bool {
        // The class of the last part that is not an accent.
        let (mut last, mut is_ordered) = (0, true);
        for c in text.chars() {
            if c.is_ascii() {
                out.push(if self.case { c.to_ascii_lowercase() } else { c });
                last = 0;
            } else if self.case
                && let Some(folded) = FOLDED.get(c)
            {
                out.push_str(folded);
                if !folded.is_empty() {
                    last = 0;
                }
            } else {
                decompose_compatible(c, |part| {
                    if !is_accent(part) {
                        let class = canonical_combining_class(part);
                        is_ordered &= class == 0 || last <= class;
                        last = class;
                        self.push(std::iter::once(part), out);
                    }
                });
                if !is_ordered {
                    return false;
                }
            }
        }
        true
    }

    /// Folds case character by character, so that a word folds the same in any context: Greek has a second
    /// small sigma for ends of words.
    fn push(self, chars: impl Iterator<Item = char>, out: &mut String) {
        if !self.case {
            out.extend(chars);
        } else if self.accents {
            out.extend(chars.flat_map(char::to_lowercase).map(final_sigma).filter(|c| !is_accent(*c)));
        } else {
            out.extend(chars.flat_map(char::to_lowercase).map(final_sigma));
        }
    }
}

/// Folded forms of the letters of Latin, Greek and most of Cyrillic, without regard to case and accents. No
/// other marks than accents are among them and their parts.
static FOLDED: LazyLock<FoldedLetters> = LazyLock::new(FoldedLetters::new);

struct FoldedLetters {
    /// The folded forms, one after another.
    forms: String,
    /// Where each of them ends.
    ends: Vec<u16>,
}

impl FoldedLetters {
    const FIRST: char = '\u{80}';
    const LAST: char = '\u{482}';

    fn new() -> Self {
        let folding = CharacterFolding { case: true, accents: true };
        let (mut forms, mut ends) = (String::new(), Vec::new());
        for c in Self::FIRST..=Self::LAST {
            folding.fold_together(c.encode_utf8(&mut [0; 4]), &mut forms);
            ends.push(forms.len() as u16);
        }
        FoldedLetters { forms, ends }
    }

    /// The folded form of a letter; `None` for a character of other scripts.
    #[inline]
    fn get(&self, c: char) -> Option<&str> {
        let at = (c as usize).checked_sub(Self::FIRST as usize)?;
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        Some(&self.forms[usize::from(start)..usize::from(end)])
    }
}

fn final_sigma(c: char) -> char {
    if c == 'ς' { 'σ' } else { c }
}

/// True for Combining Diacritical Marks. Marks of other blocks are vowels and similar signs, without which a
/// word is another word.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Letters and marks of several scripts, among them marks of classes that come in another order, and
    /// characters that have several parts.
    const CHARACTERS: &[char] = &[
        'a',
        'Z',
        '7',
        ' ',
        '\u{e9}',
        '\u{c9}',
        '\u{df}',
        '\u{130}',
        '\u{142}',
        '\u{bd}',
        '\u{3c2}',
        '\u{3a3}',
        '\u{390}',
        '\u{416}',
        '\u{439}',
        '\u{483}',
        '\u{301}',
        '\u{327}',
        '\u{345}',
        '\u{34f}',
        '\u{5e9}',
        '\u{fb2c}',
        '\u{5b8}',
        '\u{5bc}',
        '\u{5c1}',
        '\u{644}',
        '\u{64b}',
        '\u{651}',
        '\u{304b}',
        '\u{304c}',
        '\u{3099}',
        '\u{ff76}',
        '\u{ff9e}',
        '\u{d55c}',
        '\u{6771}',
        '\u{337f}',
        '\u{915}',
        '\u{93c}',
        '\u{94d}',
        '\u{1ec7}',
        '\u{212a}',
        '\u{fb01}',
        '\u{1d165}',
        '\u{1d16d}',
        '\u{1d49c}',
    ];

    proptest! {
        #[test]
        fn characters_are_folded_as_texts_are(
            text in prop::collection::vec(
                prop_oneof![4 => prop::sample::select(CHARACTERS.to_vec()), 1 => any::<char>()],
                0..12,
            ),
            case in any::<bool>(),
        ) {
            let text = String::from_iter(text);
            let folding = CharacterFolding { case, accents: true };
            let (mut folded, mut expected) = ("x".to_owned(), "x".to_owned());
            folding.fold(&text, &mut folded);
            folding.fold_together(&text, &mut expected);
            prop_assert_eq!(folded, expected, "{:?}", text);
        }
    }

    #[test]
    fn each_character_by_itself_is_folded_as_a_text() {
        for (case, c) in [true, false].into_iter().flat_map(|case| ('\0'..=char::MAX).map(move |c| (case, c)))
        {
            let folding = CharacterFolding { case, accents: true };
            let (mut folded, mut expected) = (String::new(), String::new());
            let mut letter = [0; 4];
            let text: &str = c.encode_utf8(&mut letter);
            let is_ordered = folding.fold_each(text, &mut folded);
            folding.fold_together(text, &mut expected);
            assert!(is_ordered, "{c:?}: the marks of one character are in order");
            assert_eq!(folded, expected, "{c:?}");
        }
    }
}
