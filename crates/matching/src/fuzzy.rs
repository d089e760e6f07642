//! Words with a limited number of differing letters.

/// Maximum number of characters of a word whose rows of the edit table fit into the bits of an integer.
const BITS: usize = 64;

/// A word, and the permitted number of insertions, deletions and substitutions of a character.
#[derive(Debug, Clone)]
pub(crate) struct FuzzyPattern {
    /// Prefix that must be equal.
    exact: String,
    word: Vec<char>,
    max_edits: usize,
    prefix: bool,
    /// `None` if the word is too long for it.
    bits: Option<Box<EditBits>>,
}

impl FuzzyPattern {
    /// Prepares a pattern; with `prefix`, a word matches if one of its prefixes does.
    pub(crate) fn new(word: &str, max_edits: u32, prefix_length: u32, prefix: bool) -> Self {
        let characters: Vec<char> = word.chars().collect();
        FuzzyPattern {
            exact: word.chars().take(prefix_length as usize).collect(),
            bits: (1..=BITS).contains(&characters.len()).then(|| Box::new(EditBits::new(&characters))),
            word: characters,
            max_edits: max_edits as usize,
            prefix,
        }
    }

    /// Prefix that all matching words have.
    pub(crate) fn exact(&self) -> &str {
        &self.exact
    }

    /// A comparison of words in ascending order.
    pub(crate) fn beginning(&self) -> FuzzyBeginning<'_> {
        FuzzyBeginning {
            pattern: self,
            compared: String::new(),
            ends: vec![0],
            // A pattern has fewer characters than a u32 can count.
            rows: (0..=self.word.len() as u32).collect(),
        }
    }

    /// Number of characters of the word.
    pub(crate) fn len(&self) -> usize {
        self.word.len()
    }

    /// True if a candidate matches.
    pub(crate) fn matches(&self, candidate: &str) -> bool {
        if !candidate.starts_with(&self.exact) {
            return false;
        }
        match &self.bits {
            Some(bits) if candidate.is_ascii() => {
                self.may_match_length(candidate.len())
                    && self.within(
                        bits,
                        candidate.len(),
                        candidate.bytes().map(|byte| bits.ascii[byte as usize]),
                    )
            }
            Some(bits) => {
                let count = candidate.chars().count();
                self.may_match_length(count)
                    && self.within(bits, count, candidate.chars().map(|character| bits.of(character)))
            }
            None => self.matches_by_rows(candidate),
        }
    }

    /// False if no candidate with this number of characters matches.
    fn may_match_length(&self, characters: usize) -> bool {
        let is_too_long = !self.prefix && characters > self.word.len() + self.max_edits;
        characters + self.max_edits >= self.word.len() && !is_too_long
    }

    /// The edit distance of the word to each prefix of a candidate, whose characters are given by their
    /// positions in the word: the algorithm of Myers (1999) in Hyyrö's form for whole words. A column of the
    /// edit table is the signs of its vertical differences.
    fn within(&self, bits: &EditBits, count: usize, positions: impl Iterator<Item = u64>) -> bool {
        let mut distance = self.word.len();
        if self.prefix && distance <= self.max_edits {
            return true;
        }
        let (mut rises, mut falls) = (u64::MAX, 0u64);
        for (read, equal) in positions.enumerate() {
            let vertical = equal | falls;
            let diagonal = ((equal & rises).wrapping_add(rises) ^ rises) | equal;
            let (up, down) = (falls | !(diagonal | rises), rises & diagonal);
            distance += usize::from(up & bits.last != 0);
            distance -= usize::from(down & bits.last != 0);
            let up = up << 1 | 1;
            rises = down << 1 | !(vertical | up);
            falls = up & vertical;
            if self.prefix && distance <= self.max_edits {
                return true;
            }
            // Each further character lowers the distance by at most one.
            if distance > self.max_edits + (count - read - 1) {
                return false;
            }
        }
        distance <= self.max_edits
    }

    /// The same for a word of any length, by rows over the candidate's characters: `row[i]` is the distance
    /// of the first `i` characters of the word to the characters read. Stops when no entry can fall below the
    /// limit again.
    fn matches_by_rows(&self, candidate: &str) -> bool {
        let mut row: Vec<usize> = (0..=self.word.len()).collect();
        let mut within = self.prefix && self.word.len() <= self.max_edits;
        for (read, c) in candidate.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = read + 1;
            for i in 1..row.len() {
                let substituted = diagonal + usize::from(self.word[i - 1] != c);
                diagonal = row[i];
                row[i] = substituted.min(row[i] + 1).min(row[i - 1] + 1);
            }
            within |= self.prefix && row[self.word.len()] <= self.max_edits;
            if within || row.iter().all(|distance| *distance > self.max_edits) {
                return within;
            }
        }
        within || row[self.word.len()] <= self.max_edits
    }
}

/// Comparison of words in ascending order with a pattern. What a word has in common with the one before is
/// not compared again.
pub(crate) struct FuzzyBeginning<'p> {
    pattern: &'p FuzzyPattern,
    /// The last word as far as it was compared.
    compared: String,
    /// For each number of its characters, from 0 on, their length in bytes.
    ends: Vec<usize>,
    /// For each of these beginnings a row of the edit table: its distance to each beginning of the pattern.
    rows: Vec<u32>,
}

/// Result of a comparison with a [`FuzzyPattern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FuzzyOutcome {
    /// The word matches.
    Matches,
    /// It does not match.
    Differs,
    /// All words that begin with these bytes of the word match.
    AllMatch { bytes: usize },
    /// All words that begin with these bytes of the word do not match.
    AllDiffer { bytes: usize },
}

impl FuzzyBeginning<'_> {
    /// Compares a word.
    pub(crate) fn compare(&mut self, word: &str) -> FuzzyOutcome {
        let pattern = &self.pattern.word;
        let width = pattern.len() + 1;
        let is_near = |distance: &u32| *distance as usize <= self.pattern.max_edits;
        let shared = self.compared.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        self.ends.retain(|end| *end <= shared);
        let from = self.ends.last().copied().unwrap_or(0);
        self.compared.truncate(from);
        self.rows.truncate(self.ends.len() * width);
        if self.pattern.prefix && is_near(&(pattern.len() as u32)) {
            return FuzzyOutcome::AllMatch { bytes: 0 };
        }
        for character in word[from..].chars() {
            let end = self.rows.len();
            self.rows.resize(end + width, 0);
            let (before, row) = self.rows.split_at_mut(end);
            let above = &before[end - width..];
            let mut last = above[0] + 1;
            let mut least = last;
            row[0] = last;
            for ((out, above), of_pattern) in row[1..].iter_mut().zip(above.windows(2)).zip(pattern) {
                let substituted = above[0] + u32::from(*of_pattern != character);
                last = substituted.min(above[1] + 1).min(last + 1);
                least = least.min(last);
                *out = last;
            }
            self.compared.push(character);
            let bytes = self.compared.len();
            self.ends.push(bytes);
            if self.pattern.prefix && is_near(&last) {
                return FuzzyOutcome::AllMatch { bytes };
            }
            if !is_near(&least) {
                return FuzzyOutcome::AllDiffer { bytes };
            }
        }
        match self.rows.last().is_some_and(is_near) {
            true => FuzzyOutcome::Matches,
            false => FuzzyOutcome::Differs,
        }
    }
}

/// The positions of each character in a word of at most [`BITS`] characters, one bit each.
#[derive(Debug, Clone)]
struct EditBits {
    ascii: [u64; 128],
    others: Vec<(char, u64)>,
    /// Bit of the last character.
    last: u64,
}

impl EditBits {
    fn new(word: &[char]) -> Self {
        let mut bits = EditBits { ascii: [0; 128], others: Vec::new(), last: 1 << (word.len() - 1) };
        for (at, character) in word.iter().enumerate() {
            match bits.ascii.get_mut(*character as usize) {
                Some(positions) => *positions |= 1 << at,
                None => match bits.others.iter_mut().find(|(other, _)| other == character) {
                    Some((_, positions)) => *positions |= 1 << at,
                    None => bits.others.push((*character, 1 << at)),
                },
            }
        }
        bits
    }

    fn of(&self, character: char) -> u64 {
        let other = || self.others.iter().find(|(other, _)| *other == character).map_or(0, |(_, at)| *at);
        self.ascii.get(character as usize).copied().unwrap_or_else(other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_find_what_rows_do(
            word in "[abé]{0,9}",
            candidate in "[abéx]{0,11}",
            max_edits in 0u32..4,
            prefix_length in 0u32..3,
            prefix in any::<bool>(),
        ) {
            let pattern = FuzzyPattern::new(&word, max_edits, prefix_length, prefix);
            let expected = candidate.starts_with(pattern.exact()) && pattern.matches_by_rows(&candidate);
            prop_assert_eq!(pattern.matches(&candidate), expected);
        }

        #[test]
        fn words_around_the_width_of_the_bits_are_as_near(length in 60usize..70, changed in 0usize..60) {
            let word = "ab".repeat(35)[..length].to_owned();
            let mut candidate = word.clone();
            candidate.replace_range(changed..=changed, "x");
            for (max_edits, expected) in [(0, false), (1, true)] {
                prop_assert_eq!(FuzzyPattern::new(&word, max_edits, 0, false).matches(&candidate), expected);
            }
        }
    }
}
