/// First letters of ASCII words that may be looked for, by which the other words of a text are passed over.
#[derive(Debug)]
pub struct WordBeginnings {
    /// A bit for each three characters: 1 if such a word, with what follows it, can begin with them.
    bits: [u64; 1 << 9],
}

impl WordBeginnings {
    /// Collects beginnings of ASCII characters, in either case; an empty one is that of every word.
    pub(crate) fn new<'b>(beginnings: impl Iterator<Item = &'b str>) -> Self {
        let mut bits = [0u64; 1 << 9];
        for beginning in beginnings {
            let first = place(beginning.as_bytes());
            let open = 3 - beginning.len().min(3);
            // The places of all that begin with fewer characters are in a row.
            for place in first..first + (1 << (5 * open)) {
                bits[place / 64] |= 1 << (place % 64);
            }
        }
        WordBeginnings { bits }
    }

    /// False if the word at the start of this ASCII text begins otherwise. True for some other words, too.
    #[inline]
    pub(crate) fn admit(&self, text: &[u8]) -> bool {
        let place = place(text);
        self.bits[place / 64] >> (place % 64) & 1 == 1
    }
}

/// The place of the first three characters of an ASCII text, by the five bits of each that are the same for
/// a small and a capital letter.
fn place(text: &[u8]) -> usize {
    let bits = |at: usize| text.get(at).map_or(0, |byte| usize::from(byte & 0x1f));
    bits(0) << 10 | bits(1) << 5 | bits(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(beginnings: &str, text: &str, expected: &str) {
        let beginnings = WordBeginnings::new(beginnings.split(' '));
        let admitted = text.split(' ').filter(|word| beginnings.admit(word.as_bytes()));
        assert_eq!(admitted.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn words_with_these_first_letters_are_admitted() {
        check("budget", "budget BUDGET, Budapest bu bu. bad a 7", "budget BUDGET, Budapest");
        check("ho Man", "ho Hope h, how hi man, MANY ma map", "ho Hope how man, MANY");
        check("s x1", "s S. some x1 X1a x2 x t", "s S. some x1 X1a");
        check("", "a B 7", "a B 7");
        let none = WordBeginnings::new(std::iter::empty());
        assert!(!none.admit(b"a") && !none.admit(b"budget"));
    }
}
