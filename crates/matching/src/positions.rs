//! Sets of positions of words in phrases, in blocks of 64 bits, with which a pass over a text finds phrases.
//! A word of the text costs at most a 64th of the words of the phrases, also where a phrase repeats a word
//! and the text repeats nothing else.

use std::collections::HashMap;

use millrace_linguistics::FieldAnalyzer;

use crate::pattern::WordMatcher;

/// A set of positions: blocks of 64 with their numbers, in order, without empty ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PositionSet(Vec<(usize, u64)>);

impl PositionSet {
    /// The set of one position.
    pub fn of(position: usize) -> Self {
        PositionSet(vec![(position / 64, 1 << (position % 64))])
    }

    /// Adds a position that is not below those of the set.
    pub fn push(&mut self, position: usize) {
        let (number, bit) = (position / 64, 1 << (position % 64));
        match self.0.last_mut() {
            Some((last, bits)) if *last == number => *bits |= bit,
            _ => self.0.push((number, bit)),
        }
    }

    /// The positions of all these sets.
    pub fn union<'s>(sets: impl Iterator<Item = &'s PositionSet>) -> Self {
        let mut blocks: Vec<(usize, u64)> = sets.flat_map(|set| set.0.iter().copied()).collect();
        blocks.sort_by_key(|(number, _)| *number);
        blocks.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 |= next.1;
            }
            is_same
        });
        PositionSet(blocks)
    }

    /// Removes all positions.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Blocks with their numbers.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.iter().copied()
    }

    /// True if it has a position.
    fn contains(&self, position: usize) -> bool {
        let block = self.0.binary_search_by_key(&(position / 64), |(number, _)| *number);
        block.is_ok_and(|at| self.0[at].1 >> (position % 64) & 1 == 1)
    }

    /// True if the last of the positions is this one.
    pub fn ends_with(&self, position: usize) -> bool {
        let last = self.0.last();
        last.is_some_and(|(number, bits)| *number == position / 64 && bits >> (position % 64) == 1)
    }

    /// Writes into `next` the positions among `roles`, those of the next word of a text, which begin a phrase
    /// or follow one of these positions, those of the word before.
    pub fn follow(&self, roles: &PositionSet, firsts: &PositionBits, next: &mut PositionSet) {
        next.clear();
        let mut at = 0;
        for (number, bits) in roles.blocks() {
            while self.0.get(at).is_some_and(|(before, _)| before + 1 < number) {
                at += 1;
            }
            let mut possible = firsts.block(number);
            // A block gets its first position from the block before it.
            for (before, bits) in self.0[at..].iter().take(2) {
                if *before == number {
                    possible |= bits << 1;
                } else if before + 1 == number {
                    possible |= bits >> 63;
                }
            }
            let bits = bits & possible;
            if bits != 0 {
                next.0.push((number, bits));
            }
        }
    }
}

/// Positions of a row, one bit for each.
#[derive(Debug, Default)]
pub struct PositionBits(Vec<u64>);

impl PositionBits {
    /// Adds a position.
    pub fn set(&mut self, position: usize) {
        let number = position / 64;
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        self.0[number] |= 1 << (position % 64);
    }

    /// The 64 positions with this number.
    pub fn block(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or_default()
    }
}

/// The words of a long phrase by their positions, for the pass over the tokens of a text.
pub(crate) struct LongPhrase {
    /// Positions by the stem of the word.
    stems: HashMap<String, PositionSet>,
    /// Positions by the written form of the word.
    written: HashMap<String, PositionSet>,
    /// Other words, each with its position and the set of it.
    others: Vec<(usize, PositionSet, WordMatcher)>,
    length: usize,
}

impl LongPhrase {
    /// Words up to which a phrase is compared word by word.
    const SHORT_MAX: usize = 8;

    /// Prepares a phrase; `None` for a short one.
    pub(crate) fn new(words: &[WordMatcher]) -> Option<Self> {
        if words.len() <= Self::SHORT_MAX {
            return None;
        }
        let (mut stems, mut written, mut others) = (HashMap::new(), HashMap::new(), Vec::new());
        for (position, word) in words.iter().enumerate() {
            if !word.names_words() {
                others.push((position, PositionSet::of(position), word.clone()));
                continue;
            }
            let add = |positions: &mut HashMap<String, PositionSet>, word: &str| {
                positions.entry(word.to_owned()).or_default().push(position);
            };
            word.stems().into_iter().flatten().for_each(|stem| add(&mut stems, stem));
            word.written().into_iter().for_each(|word| add(&mut written, word));
        }
        Some(LongPhrase { stems, written, others, length: words.len() })
    }

    /// Calls `each` with the first word of each occurrence in a text. Returns the number of its words.
    pub(crate) fn each_occurrence(
        &self,
        text: &str,
        analyzer: &FieldAnalyzer,
        mut each: impl FnMut(u32),
    ) -> u32 {
        let (mut reached, mut next, mut position) = (PositionSet::default(), PositionSet::default(), 0);
        let mut firsts = PositionBits::default();
        firsts.set(0);
        analyzer.tokens(text, |token| {
            let named = [self.stems.get(token.text), self.written.get(token.written)].into_iter().flatten();
            // Patterns take longer than a look at the word before.
            let follows = |position: usize| position.checked_sub(1).is_none_or(|at| reached.contains(at));
            let others = self.others.iter().filter(|(position, ..)| follows(*position));
            let others = others.filter(|(.., word)| word.matches_token(&token));
            let others = others.map(|(_, positions, _)| positions);
            let roles = PositionSet::union(named.chain(others));
            reached.follow(&roles, &firsts, &mut next);
            std::mem::swap(&mut reached, &mut next);
            position += 1;
            if reached.ends_with(self.length - 1) {
                each(position - self.length as u32);
            }
        });
        position
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Positions, many of them at the ends of blocks.
    fn positions() -> impl Strategy<Value = BTreeSet<usize>> {
        let position = prop_oneof![0usize..4, 61usize..68, 125usize..132, 0usize..400];
        proptest::collection::btree_set(position, 0..20)
    }

    fn set(positions: &BTreeSet<usize>) -> PositionSet {
        let mut set = PositionSet::default();
        positions.iter().for_each(|position| set.push(*position));
        set
    }

    proptest! {
        #[test]
        fn positions_follow_as_one_by_one(before in positions(), roles in positions(), firsts in positions()) {
            let mut first_bits = PositionBits::default();
            firsts.iter().for_each(|position| first_bits.set(*position));
            // What was there is forgotten.
            let mut next = set(&firsts);
            set(&before).follow(&set(&roles), &first_bits, &mut next);
            let follows = |position: &usize| {
                firsts.contains(position) || position.checked_sub(1).is_some_and(|at| before.contains(&at))
            };
            let expected: BTreeSet<usize> = roles.iter().copied().filter(follows).collect();
            prop_assert_eq!(&next, &set(&expected));
            for position in 0..400 {
                prop_assert_eq!(next.ends_with(position), expected.last() == Some(&position));
                prop_assert_eq!(next.contains(position), expected.contains(&position));
            }
            let both = [set(&before), set(&roles)];
            prop_assert_eq!(PositionSet::union(both.iter()), set(&before.union(&roles).copied().collect()));
        }
    }
}
