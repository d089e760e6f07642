//! Search for many words, each a leaf of its own, in one pass over the tokens of a chunk: tokens that stand
//! for any of the words are found first, then the words of each.

use millrace_column::{ExecutionPaths, TokensColumn};
use millrace_plan::QueryMemoryError;

use crate::bits::DocumentBits;
use crate::pattern::WordMatcher;
use crate::words::{ChunkPositions, TokenNumbers};

/// Minimum number of words for which one pass with a look at a table for each token is faster than a pass
/// with vector instructions for each word.
pub(crate) const MANY_WORDS: usize = 12;

/// Maximum number of sets of a table, and of members of all of them, at which no word is added any more. One
/// word at most doubles them.
const SETS_MAX: usize = 1 << 14;
const MEMBERS_MAX: usize = 1 << 16;

/// Number of occurrences whose memory is taken at once.
const TAKEN_TOGETHER: usize = 1 << 14;

/// Callback that takes a number of bytes of memory.
pub(crate) type TakeMemory<'t> = dyn FnMut(usize) -> Result<(), QueryMemoryError> + 't;

/// Occurrences of each word in the documents of `live`: in one pass, or in several where words overlap in so
/// many ways that one table would be large. `take` gets the bytes of the occurrences as they are found: many
/// words can have the same ones.
///
/// # Errors
/// That of `take`.
pub(crate) fn find_each(
    matchers: &[&WordMatcher],
    tokens: &TokensColumn,
    live: &DocumentBits,
    take: &mut TakeMemory<'_>,
) -> Result<Vec<ChunkPositions>, QueryMemoryError> {
    let mut found: Vec<ChunkPositions> = matchers.iter().map(|_| ChunkPositions::default()).collect();
    let mut rest = 0;
    while rest < matchers.len() {
        let table = LeafTable::of_first(&matchers[rest..], tokens);
        let end = rest + table.words;
        table.find(tokens, live, &mut found[rest..end], take)?;
        rest = end;
    }
    Ok(found)
}

/// The words that each token number stands for.
struct LeafTable {
    /// For each token number the index of its set.
    numbers: Vec<u16>,
    /// Sets of words by their indices. The first is empty.
    sets: Vec<Vec<u16>>,
    /// Token numbers that stand for a word, as one bit for each.
    wanted: Vec<u64>,
    /// Number of words.
    words: usize,
}

impl LeafTable {
    /// Creates the table of the first of these words, at least one.
    fn of_first(matchers: &[&WordMatcher], tokens: &TokensColumn) -> Self {
        let mut table = LeafTable {
            numbers: vec![0; tokens.words() + 1],
            sets: vec![Vec::new()],
            wanted: vec![0; tokens.words() / 64 + 1],
            words: 0,
        };
        let mut members = 0;
        for (index, matcher) in (0..u16::MAX).zip(matchers) {
            if table.sets.len() > SETS_MAX || members > MEMBERS_MAX {
                break;
            }
            // For each set of before, its extension by this word.
            let mut extended = vec![0; table.sets.len()];
            for number in TokenNumbers::of(matcher, tokens, ExecutionPaths::Fast).iter() {
                let set = &mut table.numbers[number as usize];
                let extension: &mut u16 = &mut extended[usize::from(*set)];
                if *extension == 0 {
                    let mut longer = table.sets[usize::from(*set)].clone();
                    longer.push(index);
                    members += longer.len();
                    *extension = table.sets.len() as u16;
                    table.sets.push(longer);
                }
                *set = *extension;
                table.wanted[number as usize / 64] |= 1 << (number % 64);
            }
            table.words += 1;
        }
        table
    }

    /// Adds the occurrences of each word to `found`.
    fn find(
        self,
        tokens: &TokensColumn,
        live: &DocumentBits,
        found: &mut [ChunkPositions],
        take: &mut TakeMemory<'_>,
    ) -> Result<(), QueryMemoryError> {
        if self.sets.len() == 1 {
            return Ok(());
        }
        let (ids, starts) = (tokens.ids(), tokens.starts());
        let places = TokenNumbers::Table(self.wanted).find_within(tokens, live);
        let (mut rest, mut document, mut added) = (places.as_slice(), 0, 0);
        while let Some(first) = rest.first() {
            while starts[document + 1] <= *first {
                document += 1;
            }
            let (start, end) = (starts[document], starts[document + 1]);
            let here;
            (here, rest) = rest.split_at(rest.iter().take_while(|place| **place < end).count());
            if !live.get(document) {
                continue;
            }
            for place in here {
                let leaves = &self.sets[usize::from(self.numbers[ids.get(*place as usize) as usize])];
                added += leaves.len();
                if added >= TAKEN_TOGETHER {
                    take(std::mem::take(&mut added) * size_of::<u32>())?;
                }
                leaves.iter().for_each(|leaf| found[usize::from(*leaf)].add(document, place - start));
            }
        }
        take(added * size_of::<u32>())
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
                .map(|pattern| WordMatcher::new("f", &pattern).expect("not a regular expression"))
                .collect();
            let all: Vec<&WordMatcher> = matchers.iter().collect();
            let found = find_each(&all, &tokens, &live, &mut |_| Ok(())).expect("there is room");
            for (matcher, found) in matchers.iter().zip(found) {
                let alone = words::find(std::slice::from_ref(matcher), &tokens, &live, ExecutionPaths::Plain);
                prop_assert_eq!(found, alone);
            }
        }
    }

    #[test]
    fn many_overlapping_words_have_tables_of_bounded_size() {
        let mut builder = TokensBuilder::new();
        ["a", "ab", "abc"].iter().for_each(|word| builder.word(word.as_bytes()));
        builder.end_document();
        let tokens = builder.finish();
        let prefix = WordPattern::Prefix("a".to_owned());
        let matcher = WordMatcher::new("f", &prefix).expect("not a regular expression");
        let matchers = vec![&matcher; 2000];
        let table = LeafTable::of_first(&matchers, &tokens);
        let members: usize = table.sets.iter().map(Vec::len).sum();
        assert!(table.words < matchers.len() && members <= 2 * MEMBERS_MAX, "{} {members}", table.words);
        let live = DocumentBits::first(1);
        let mut taken = 0;
        let mut take = |bytes| {
            taken += bytes;
            Ok(())
        };
        let found = find_each(&matchers, &tokens, &live, &mut take).expect("there is room");
        assert_eq!(taken, 2000 * 3 * 4, "all occurrences of all words");
        assert!(found.iter().all(|places| places.of(0) == [0, 1, 2]));
    }
}
