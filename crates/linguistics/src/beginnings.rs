/// Beginnings of words, by which the words of a text that may be looked for are told from all others.
#[derive(Debug)]
pub struct WordBeginnings {
    /// A bit for each two ASCII characters: 1 if they can be the first ones of such a word and what follows
    /// it.
    pairs: [u64; 1 << 8],
    /// The beginnings in small letters, in order, none of which begins with another. Empty if the pairs alone
    /// decide.
    compared: Vec<String>,
}

impl WordBeginnings {
    /// Number of beginnings that are compared with a word: of more of them, most pairs begin one.
    const COMPARED_MAX: usize = 64;

    /// Prepares beginnings of ASCII characters, in either case; an empty one is that of every word.
    pub(crate) fn new<'b>(beginnings: impl Iterator<Item = &'b str>) -> Self {
        let mut compared: Vec<String> = beginnings.map(str::to_ascii_lowercase).collect();
        compared.sort_unstable();
        compared.dedup_by(|next, kept| next.starts_with(kept.as_str()));
        let mut pairs = [0u64; 1 << 8];
        for beginning in &compared {
            let [first, second] = [0, 1].map(|at: usize| either_case(beginning.as_bytes().get(at).copied()));
            for pair in first.iter().flat_map(|first| second.iter().map(move |second| pair(*first, *second)))
            {
                pairs[pair / 64] |= 1 << (pair % 64);
            }
        }
        if compared.len() > Self::COMPARED_MAX || compared.iter().any(String::is_empty) {
            compared.clear();
        }
        WordBeginnings { pairs, compared }
    }

    /// True if the word that is first in this ASCII text may be looked for.
    #[inline]
    pub(crate) fn admit(&self, text: &[u8]) -> bool {
        let [first, second] = [0, 1].map(|at: usize| text.get(at).copied().unwrap_or_default());
        let pair = pair(first, second);
        self.pairs[pair / 64] >> (pair % 64) & 1 == 1 && (self.compared.is_empty() || self.begins(text))
    }

    /// True if the text begins with one of those that are compared: it can only be the last that does not
    /// come after the text, since none begins with another.
    fn begins(&self, text: &[u8]) -> bool {
        let start = |length: usize| text.iter().take(length).map(u8::to_ascii_lowercase);
        let after =
            self.compared.partition_point(|beginning| beginning.bytes().cmp(start(beginning.len())).is_le());
        let last = after.checked_sub(1).map(|at| &self.compared[at]);
        last.is_some_and(|beginning| beginning.bytes().eq(start(beginning.len())))
    }
}

/// The number of a pair of ASCII characters.
fn pair(first: u8, second: u8) -> usize {
    usize::from(first & 0x7f) << 7 | usize::from(second & 0x7f)
}

/// A letter in both cases; all characters in place of none.
fn either_case(letter: Option<u8>) -> Vec<u8> {
    letter.map_or_else(|| (0..128).collect(), |letter| vec![letter, letter.to_ascii_uppercase()])
}
