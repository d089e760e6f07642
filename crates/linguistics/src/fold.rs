use unicode_normalization::UnicodeNormalization;

/// What differences between words do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Folding {
    /// Upper and lower case are the same.
    pub case: bool,
    /// Letters with and without accents are the same.
    pub accents: bool,
}

impl Folding {
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

    /// Case is folded character by character, so that a word folds alike wherever it stands: Greek has a second small sigma
    /// for ends of words.
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

/// Combining Diacritical Marks. Marks of other blocks are vowels and the like, without which a word is another word.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}
