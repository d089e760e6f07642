//! Words with a limited number of differing letters.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use millrace_column::TokenDictionary;
use parking_lot::Mutex;

use crate::dictionary::{BytesAtEnd, BytesInHead, HEAD, candidates, head};

/// Maximum number of characters of a word whose rows of the edit table fit into the bits of an integer.
const BITS: usize = 64;

/// A [`FuzzyPattern`], with automata for dictionaries that threads have used and others can use again.
#[derive(Debug, Clone)]
pub(crate) struct FuzzyMatcher {
    pattern: Arc<FuzzyPattern>,
    unused: Arc<Mutex<Vec<FuzzyAutomaton>>>,
}

impl FuzzyMatcher {
    /// Prepares a pattern; with `prefix`, a word matches if one of its prefixes does.
    pub(crate) fn new(word: &str, max_edits: u32, prefix_length: u32, prefix: bool) -> Self {
        let pattern = Arc::new(FuzzyPattern::new(word, max_edits, prefix_length, prefix));
        FuzzyMatcher { pattern, unused: Arc::default() }
    }

    /// The pattern.
    pub(crate) fn pattern(&self) -> &FuzzyPattern {
        &self.pattern
    }

    /// Numbers in `range` of the words that match; each has the prefix that must be equal.
    pub(crate) fn matching(&self, dictionary: TokenDictionary<'_>, range: Range<u32>) -> Vec<u32> {
        let mut matching: Vec<u32> = match &self.pattern.parts {
            Some(parts) => candidates(dictionary, range, |head, tail| parts.may_match(head, tail)),
            None => range.collect(),
        };
        let unused = self.unused.lock().pop();
        let Some(mut automaton) = unused.or_else(|| FuzzyAutomaton::new(&self.pattern)) else {
            let text = |number: u32| std::str::from_utf8(dictionary.word(number)).ok();
            matching.retain(|number| text(*number).is_some_and(|word| self.pattern.matches(word)));
            return matching;
        };
        let mut path = WordPath::default();
        matching.retain(|number| {
            let start = dictionary.offsets[*number as usize - 1] as usize;
            automaton.matches(&mut path, dictionary.word(*number), head(&dictionary.bytes[start..]))
        });
        self.unused.lock().push(automaton);
        matching
    }
}

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
    parts: Option<FuzzyParts>,
}

impl FuzzyPattern {
    fn new(word: &str, max_edits: u32, prefix_length: u32, prefix: bool) -> Self {
        let characters: Vec<char> = word.chars().collect();
        FuzzyPattern {
            exact: word.chars().take(prefix_length as usize).collect(),
            bits: (1..=BITS).contains(&characters.len()).then(|| Box::new(EditBits::new(&characters))),
            parts: if prefix { None } else { FuzzyParts::new(&characters, max_edits) },
            word: characters,
            max_edits: max_edits as usize,
            prefix,
        }
    }

    /// Prefix that all matching words have.
    pub(crate) fn exact(&self) -> &str {
        &self.exact
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
            None => self.may_match_length(candidate.chars().count()) && self.matches_by_rows(candidate),
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
    /// of the first `i` characters of the word to the characters read. Only entries whose lengths differ so
    /// little that the distance can be within the limit are computed. Stops when no entry can fall below the
    /// limit again.
    fn matches_by_rows(&self, candidate: &str) -> bool {
        let (length, edits_max) = (self.word.len(), self.max_edits);
        if edits_max >= length.max(candidate.chars().count()) {
            return true;
        }
        let mut row: Vec<usize> = (0..=length).collect();
        let mut within = self.prefix && length <= edits_max;
        for (read, c) in (1usize..).zip(candidate.chars()) {
            let (low, high) =
                (read.saturating_sub(edits_max).max(1), read.saturating_add(edits_max).min(length));
            if low > high && low > 1 {
                return within;
            }
            let mut diagonal = row[low - 1];
            row[low - 1] = if low == 1 { read } else { edits_max + 1 };
            for i in low..=high {
                let substituted = diagonal + usize::from(self.word[i - 1] != c);
                diagonal = row[i];
                row[i] = substituted.min(row[i] + 1).min(row[i - 1] + 1);
            }
            within |= self.prefix && high == length && row[length] <= edits_max;
            if within || row[low - 1..=high].iter().all(|distance| *distance > edits_max) {
                return within;
            }
        }
        within || row[length] <= edits_max
    }
}

/// Parts that a word is divided into, one more than edits are permitted: each word that matches has one of
/// them without an edit.
///
/// If that is the first part, the other word begins with it, and if it is the last one, it ends with it. If
/// it can only be the middle one of three, each of the others has one edit: the part is at its place or
/// beside it.
#[derive(Debug, Clone)]
struct FuzzyParts {
    first: BytesInHead,
    /// The middle part at each place where it can be, and the highest bits of the bytes before: after a
    /// character beyond ASCII it can be elsewhere.
    middle: Option<([BytesInHead; 3], u64)>,
    last: BytesAtEnd,
}

impl FuzzyParts {
    /// The parts of a word. `None` if there are none, too many, or some whose places are not known.
    fn new(word: &[char], max_edits: u32) -> Option<Self> {
        let text = |part: &[char]| part.iter().collect::<String>().into_bytes();
        let (first, rest) = match max_edits {
            1 if word.len() >= 2 => word.split_at(word.len() / 2),
            2 if word.len() >= 3 && word.iter().all(char::is_ascii) => word.split_at((word.len() / 3).min(4)),
            _ => return None,
        };
        let (middle, last) = rest.split_at(if max_edits == 2 { (rest.len() / 2).min(3) } else { 0 });
        let middle = (max_edits == 2).then(|| {
            let (offset, middle) = (first.len(), text(middle));
            let at = [offset - 1, offset, offset + 1].map(|offset| BytesInHead::new(&middle, offset));
            let before = u64::MAX >> (8 * (HEAD - offset - 1));
            (at, before & u64::from_ne_bytes([0x80; HEAD]))
        });
        Some(FuzzyParts {
            first: BytesInHead::new(&text(first), 0),
            middle,
            last: BytesAtEnd::new(&text(last)),
        })
    }

    /// False if a word with this head and this tail certainly does not match.
    #[inline(always)]
    fn may_match(&self, head: u64, tail: u64) -> bool {
        let at_ends = self.first.may_be(head) | self.last.may_be(tail);
        match &self.middle {
            None => at_ends,
            Some(([before, here, after], wide)) => {
                let in_middle = before.may_be(head) | here.may_be(head) | after.may_be(head);
                at_ends | in_middle | (head & wide != 0)
            }
        }
    }
}

/// A deterministic automaton that accepts the words near a pattern, made as far as words need it.
///
/// A state is a row of the edit table: the distances of what was read to each beginning of the pattern, where
/// all above the limit are the same. A character leads to the same state as each other one that the pattern
/// has at the same positions, so all that it lacks are one class.
#[derive(Debug)]
pub(crate) struct FuzzyAutomaton {
    pattern: Arc<FuzzyPattern>,
    /// Class of each ASCII character; 0 for those that the pattern lacks.
    ascii: [u8; 128],
    /// Other characters of the pattern with their classes.
    others: Vec<(char, u8)>,
    /// The character of each class but the first.
    characters: Vec<char>,
    /// Rows of all states, one after another.
    rows: Vec<u8>,
    states: HashMap<Box<[u8]>, u16>,
    /// For each state the next one by class, or [`FuzzyAutomaton::UNKNOWN`].
    next: Vec<u16>,
    accepts: Vec<bool>,
    /// Number of times that states were forgotten.
    restarts: u32,
}

/// The bytes that an automaton has read of a word, and its states. The words of a dictionary are sorted: most
/// begin as the one before, and are decided by what that has in common with them.
#[derive(Debug, Default)]
struct WordPath<'w> {
    word: &'w [u8],
    /// The [`head`] of the word.
    head: u64,
    /// State before the first byte, and after each byte that was read.
    states: Vec<u16>,
    /// [`FuzzyAutomaton::restarts`] since which the states are known.
    restarts: Option<u32>,
}

impl WordPath<'_> {
    /// Number of bytes at the start that another word has as well.
    fn common(&self, word: &[u8], head: u64) -> usize {
        let shorter = self.word.len().min(word.len());
        match (self.head ^ head).trailing_zeros() as usize / 8 {
            HEAD if shorter > HEAD => {
                self.word.iter().zip(word).take_while(|(one, other)| one == other).count()
            }
            same => same.min(shorter),
        }
    }
}

impl FuzzyAutomaton {
    /// The state from which nothing is accepted.
    const DEAD: u16 = 0;
    const START: u16 = 1;
    const UNKNOWN: u16 = u16::MAX;
    /// Maximum size of the rows in bytes, above which states are forgotten. All of an automaton takes some
    /// five times as much, and each fuzzy word of a query has one for each thread.
    const ROWS_MAX: usize = 1 << 16;

    /// Creates an automaton; `None` for a pattern that is too long, or permits too many edits.
    fn new(pattern: &Arc<FuzzyPattern>) -> Option<Self> {
        let mut automaton = FuzzyAutomaton {
            pattern: Arc::clone(pattern),
            ascii: [0; 128],
            others: Vec::new(),
            characters: Vec::new(),
            rows: Vec::new(),
            states: HashMap::new(),
            next: Vec::new(),
            accepts: Vec::new(),
            restarts: 0,
        };
        // Distances up to the limit and one above it fit in a byte.
        if pattern.word.len() > BITS || pattern.max_edits + 1 >= usize::from(u8::MAX) {
            return None;
        }
        for character in &pattern.word {
            if !automaton.characters.contains(character) {
                automaton.characters.push(*character);
                let class = automaton.characters.len() as u8;
                match automaton.ascii.get_mut(*character as usize) {
                    Some(known) => *known = class,
                    None => automaton.others.push((*character, class)),
                }
            }
        }
        automaton.restart();
        Some(automaton)
    }

    /// Forgets all states but the first ones.
    fn restart(&mut self) {
        let above = self.above();
        let columns = 0..=self.pattern.word.len();
        self.restarts = self.restarts.wrapping_add(1);
        self.rows.clear();
        self.states.clear();
        self.next.clear();
        self.accepts.clear();
        let dead = self.state(columns.clone().map(|_| above).collect());
        let start = self.state(columns.map(|column| column.min(usize::from(above)) as u8).collect());
        assert_eq!((dead, start), (Self::DEAD, Self::START), "the empty word is within any limit of itself");
    }

    /// Stands for all distances above the limit.
    fn above(&self) -> u8 {
        self.pattern.max_edits as u8 + 1
    }

    /// True if a word matches, which has this [`head`]. Bytes that are no text never do. `path` is that of
    /// the word before.
    fn matches<'w>(&mut self, path: &mut WordPath<'w>, word: &'w [u8], head: u64) -> bool {
        if path.restarts != Some(self.restarts) {
            path.states.clear();
            path.states.push(Self::START);
            path.restarts = Some(self.restarts);
        }
        let known = path.common(word, head).min(path.states.len() - 1);
        path.states.truncate(known + 1);
        (path.word, path.head) = (word, head);
        let mut state = path.states[known];
        if state == Self::DEAD {
            return false;
        }
        for (read, byte) in word.iter().enumerate().skip(known) {
            let Some(class) = self.ascii.get(usize::from(*byte)) else {
                let rest = std::str::from_utf8(&word[read..]);
                return rest.is_ok_and(|rest| self.matches_from(state, rest));
            };
            if self.pattern.prefix && self.accepts[usize::from(state)] {
                return true;
            }
            state = self.step(state, *class);
            path.states.push(state);
            if state == Self::DEAD {
                return false;
            }
        }
        self.accepts[usize::from(state)]
    }

    fn matches_from(&mut self, mut state: u16, rest: &str) -> bool {
        for character in rest.chars() {
            if state == Self::DEAD || self.pattern.prefix && self.accepts[usize::from(state)] {
                break;
            }
            let other =
                || self.others.iter().find(|(other, _)| *other == character).map_or(0, |(_, class)| *class);
            let class = self.ascii.get(character as usize).copied().unwrap_or_else(other);
            state = self.step(state, class);
        }
        self.accepts[usize::from(state)]
    }

    #[inline]
    fn step(&mut self, state: u16, class: u8) -> u16 {
        let at = usize::from(state) * (self.characters.len() + 1) + usize::from(class);
        match self.next[at] {
            Self::UNKNOWN => self.make(state, class),
            next => next,
        }
    }

    /// Makes the state after another one.
    #[cold]
    fn make(&mut self, state: u16, class: u8) -> u16 {
        let above = self.above();
        let width = self.pattern.word.len() + 1;
        let character = usize::from(class).checked_sub(1).map(|class| self.characters[class]);
        let before = &self.rows[usize::from(state) * width..][..width];
        let mut row = Vec::with_capacity(width);
        let mut last = (before[0] + 1).min(above);
        row.push(last);
        for (pair, of_pattern) in before.windows(2).zip(&self.pattern.word) {
            let substituted = pair[0] + u8::from(Some(*of_pattern) != character);
            last = substituted.min(pair[1] + 1).min(last + 1).min(above);
            row.push(last);
        }
        if self.rows.len() > Self::ROWS_MAX || self.accepts.len() + 1 >= usize::from(Self::UNKNOWN) {
            self.restart();
            return self.state(row);
        }
        let next = self.state(row);
        self.next[usize::from(state) * (self.characters.len() + 1) + usize::from(class)] = next;
        next
    }

    /// The state of a row, which is made if it is new.
    fn state(&mut self, row: Vec<u8>) -> u16 {
        if let Some(known) = self.states.get(&*row) {
            return *known;
        }
        let state = self.accepts.len() as u16;
        self.rows.extend_from_slice(&row);
        self.next.extend(std::iter::repeat_n(Self::UNKNOWN, self.characters.len() + 1));
        self.accepts.push(row.last().is_some_and(|distance| *distance < self.above()));
        self.states.insert(row.into(), state);
        state
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
        fn an_automaton_accepts_what_rows_do_also_after_it_forgot(
            start in "[ab]{0,9}",
            word in "[abé]{0,9}",
            candidates in proptest::collection::vec("[abéx]{0,11}", 1..20),
            max_edits in 0u32..4,
            prefix in any::<bool>(),
            forgets in any::<bool>(),
        ) {
            // Words that begin alike for more and for fewer bytes than a head has.
            let candidates: Vec<String> =
                candidates.iter().map(|candidate| format!("{start}{candidate}")).collect();
            let matcher = FuzzyMatcher::new(&format!("{start}{word}"), max_edits, 0, prefix);
            let mut automaton = FuzzyAutomaton::new(&matcher.pattern).expect("a short word");
            let mut path = WordPath::default();
            for candidate in &candidates {
                let expected = matcher.pattern.matches_by_rows(candidate);
                let bytes = candidate.as_bytes();
                prop_assert_eq!(automaton.matches(&mut path, bytes, head(bytes)), expected, "{}", candidate);
                if forgets {
                    automaton.restart();
                }
            }
        }
    }

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

        #[test]
        fn rows_have_the_distance_of_the_whole_table(word in "[ab]{0,9}", candidate in "[abx]{0,11}") {
            let (word_bytes, mut table) = (word.as_bytes(), vec![(0..=word.len()).collect::<Vec<usize>>()]);
            for (read, byte) in candidate.bytes().enumerate() {
                let (before, mut row) = (&table[read], vec![read + 1]);
                for (at, other) in word_bytes.iter().enumerate() {
                    let substituted = before[at] + usize::from(*other != byte);
                    row.push(substituted.min(before[at + 1] + 1).min(row[at] + 1));
                }
                table.push(row);
            }
            for max_edits in 0..12 {
                for prefix in [false, true] {
                    // The beginnings of the candidate that count.
                    let beginnings = if prefix { 0 } else { candidate.len() };
                    let is_near = |row: &Vec<usize>| row[word.len()] <= max_edits as usize;
                    let expected = table[beginnings..].iter().any(is_near);
                    let pattern = FuzzyPattern::new(&word, max_edits, 0, prefix);
                    prop_assert_eq!(pattern.matches_by_rows(&candidate), expected, "{} {}", max_edits, prefix);
                }
            }
        }
    }
}
