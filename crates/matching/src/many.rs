//! Search for many words, each a leaf of its own, in one pass over the tokens of a chunk.

use millrace_column::{PathChoice, TokenIds, TokensColumn};

use crate::bits::DocumentBits;
use crate::pattern::WordMatcher;
use crate::words::{ChunkPositions, TokenNumbers};

/// Minimum number of words for which one pass with a look at a table for each token is faster than a pass
/// with vector instructions for each word.
pub(crate) const MANY_WORDS: usize = 12;

/// Occurrences of each word in the documents of `live`. `None` if the words overlap in so many ways that the
/// table cannot number them.
pub(crate) fn find_each(
    matchers: &[&WordMatcher],
    tokens: &TokensColumn,
    live: &DocumentBits,
) -> Option<Vec<ChunkPositions>> {
    let table = LeafTable::new(matchers, tokens)?;
    let mut found: Vec<ChunkPositions> = matchers.iter().map(|_| ChunkPositions::default()).collect();
    if table.sets.len() == 1 {
        return Some(found);
    }
    let starts = tokens.starts();
    for document in live.iter() {
        let (start, end) = (starts[document] as usize, starts[document + 1] as usize);
        let mut add = |set: u16, place: usize| {
            for leaf in &table.sets[usize::from(set)] {
                found[usize::from(*leaf)].add(document, place as u32);
            }
        };
        match tokens.ids() {
            TokenIds::Narrow(ids) => table.scan(&ids[start..end], |id| usize::from(*id), &mut add),
            TokenIds::Wide(ids) => table.scan(&ids[start..end], |id| *id as usize, &mut add),
        }
    }
    Some(found)
}

/// The words that each token number stands for.
struct LeafTable {
    /// For each token number the index of its set.
    numbers: Vec<u16>,
    /// Sets of words by their indices. The first is empty.
    sets: Vec<Vec<u16>>,
}

impl LeafTable {
    fn new(matchers: &[&WordMatcher], tokens: &TokensColumn) -> Option<Self> {
        let mut table = LeafTable { numbers: vec![0; tokens.words() + 1], sets: vec![Vec::new()] };
        for (index, matcher) in matchers.iter().enumerate() {
            let index = u16::try_from(index).ok()?;
            // The last set that was extended by this word, with the result: adjacent numbers share it.
            let mut last: Option<(u16, u16)> = None;
            for number in TokenNumbers::of(matcher, tokens, PathChoice::Fast).iter() {
                let before = table.numbers[number as usize];
                let extended = match last {
                    Some((known, extended)) if known == before => extended,
                    _ => {
                        let mut set = table.sets[usize::from(before)].clone();
                        set.push(index);
                        table.sets.push(set);
                        u16::try_from(table.sets.len() - 1).ok()?
                    }
                };
                last = Some((before, extended));
                table.numbers[number as usize] = extended;
            }
        }
        Some(table)
    }

    /// Calls `each` with the set and the index of each token that stands for a word.
    fn scan<T>(&self, ids: &[T], number: impl Fn(&T) -> usize, each: &mut impl FnMut(u16, usize)) {
        for (place, id) in ids.iter().enumerate() {
            let set = self.numbers[number(id)];
            if set != 0 {
                each(set, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_column::TokensBuilder;
    use millrace_plan::WordPattern;
    use proptest::prelude::*;

    use super::*;
    use crate::words;

    proptest! {
        #[test]
        fn one_pass_finds_what_a_pass_for_each_word_finds(
            documents in proptest::collection::vec(proptest::collection::vec("[abc]{1,2}", 0..12), 1..20),
            wanted in proptest::collection::vec(("[abc]{1,2}", any::<bool>()), 1..20),
            dead in 0usize..20,
        ) {
            let mut builder = TokensBuilder::new();
            for document in &documents {
                document.iter().for_each(|word| builder.word(word.as_bytes()));
                builder.end_document();
            }
            let tokens = builder.finish();
            let mut live = DocumentBits::first(documents.len());
            if dead < documents.len() {
                let mut one = DocumentBits::NONE;
                one.set(dead);
                live = live.without(&one);
            }
            let matchers: Vec<WordMatcher> = wanted
                .into_iter()
                .map(|(word, is_prefix)| if is_prefix { WordPattern::Prefix(word) } else { WordPattern::Exact(word) })
                .map(|pattern| WordMatcher::new("f", &pattern, false).expect("not a regular expression"))
                .collect();
            let all: Vec<&WordMatcher> = matchers.iter().collect();
            let found = find_each(&all, &tokens, &live).expect("few sets");
            for (matcher, found) in matchers.iter().zip(found) {
                let alone = words::find(std::slice::from_ref(matcher), &tokens, &live, PathChoice::Plain);
                prop_assert_eq!(found, alone);
            }
        }
    }
}
