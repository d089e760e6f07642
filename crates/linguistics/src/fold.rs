use unicode_normalization::UnicodeNormalization;

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
            self.push(text.nfkd().filter(|c| !is_accent(*c)), out);
        } else {
            self.push(text.nfkc(), out);
        }
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

fn final_sigma(c: char) -> char {
    if c == 'ς' { 'σ' } else { c }
}

/// True for Combining Diacritical Marks. Marks of other blocks are vowels and similar signs, without which a
/// word is another word.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}
