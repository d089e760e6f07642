use millrace_column::CHUNK_DOCS;

const WORDS: usize = CHUNK_DOCS / 64;

/// A set of documents of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentBits([u64; WORDS]);

impl DocumentBits {
    /// The empty set.
    pub(crate) const NONE: DocumentBits = DocumentBits([0; WORDS]);

    /// The first `count` documents, at most as many as a chunk can have.
    pub(crate) fn first(count: usize) -> Self {
        let mut bits = Self::NONE;
        for (index, word) in bits.0.iter_mut().enumerate() {
            *word = match count.saturating_sub(index * 64) {
                0 => 0,
                n if n >= 64 => u64::MAX,
                n => (1 << n) - 1,
            };
        }
        bits
    }

    /// The documents whose bits are set in `words`, lowest bit first.
    pub(crate) fn from_words(words: &[u64]) -> Self {
        let mut bits = Self::NONE;
        bits.0.iter_mut().zip(words).for_each(|(bits, word)| *bits = *word);
        bits
    }

    pub(crate) fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn get(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    /// Replaces the word of documents `64 * index..`.
    pub(crate) fn set_word(&mut self, index: usize, word: u64) {
        self.0[index] = word;
    }

    pub(crate) fn and(mut self, other: &DocumentBits) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        self
    }

    pub(crate) fn or(mut self, other: &DocumentBits) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        self
    }

    pub(crate) fn without(mut self, other: &DocumentBits) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The documents as indices in the chunk, ascending.
    pub(crate) fn rows(&self) -> Vec<u16> {
        let mut rows = Vec::with_capacity(self.count());
        for (index, word) in (0u16..).zip(&self.0) {
            if *word == u64::MAX {
                rows.extend(index * 64..index * 64 + 64);
                continue;
            }
            let mut rest = *word;
            while rest != 0 {
                rows.push(index * 64 + rest.trailing_zeros() as u16);
                rest &= rest - 1;
            }
        }
        rows
    }

    /// The documents, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_documents() {
        for count in [0, 1, 63, 64, 65, 1000, 1024] {
            assert_eq!(DocumentBits::first(count).iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
            assert_eq!(DocumentBits::first(count).rows(), (0..count as u16).collect::<Vec<_>>());
            assert_eq!(DocumentBits::first(count).count(), count);
        }
        let mut some = DocumentBits::NONE;
        [3, 64, 1023].into_iter().for_each(|index| some.set(index));
        assert!(some.get(64) && !some.get(65));
        assert_eq!(some.without(&DocumentBits::first(64)).iter().collect::<Vec<_>>(), [64, 1023]);
        assert_eq!(
            some.and(&DocumentBits::first(64)).or(&DocumentBits::NONE).iter().collect::<Vec<_>>(),
            [3]
        );
    }
}
