//! Search for many words, each a leaf of its own, in one pass over the tokens of a chunk: tokens that stand
//! for any of the words are found first, then the words of each. Where no positions are asked for and many
//! tokens are such words, the tokens of each document are counted by the words that they stand for. Where
//! only the documents with any of the words are asked for, a document is left at the first such token.

use millrace_column::{ExecutionPaths, TokenIds, TokensColumn};
use millrace_plan::QueryMemoryError;

use crate::bits::DocumentBits;
use crate::outcome::LeafOutcome;
use crate::pattern::WordMatcher;
use crate::words::{ChunkPositions, TokenNumbers, ascending, named_numbers, of_documents};

/// Minimum number of words for which one pass with a look at a table for each token is faster than a pass
/// with vector instructions for each word.
pub(crate) const MANY_WORDS: usize = 8;

/// Maximum number of sets of a table, and of members of all of them, at which no word is added any more. One
/// word at most doubles them.
const SETS_MAX: usize = 1 << 14;
const MEMBERS_MAX: usize = 1 << 16;

/// Number of occurrences whose memory is taken at once.
const TAKEN_TOGETHER: usize = 1 << 14;

/// Maximum number of sets whose tokens are counted.
const COUNTED_SETS: usize = 32;
/// Number of sets of most questions; half as many counters are cleared and added up for these.
const FEW_SETS: usize = 16;
/// Minimum number of tokens of a document, on average, for which counters are worth clearing and reading.
const COUNTED_TOKENS: usize = 32;
/// Counters of each set: a token need not wait for the one before it, which mostly is of the same set.
const COUNTERS: usize = 4;

/// Callback that takes a number of bytes of memory.
pub(crate) type TakeMemory<'t> = dyn FnMut(usize) -> Result<(), QueryMemoryError> + 't;

/// Occurrences of each word in the documents of `live`, maybe without their positions if these are not
/// `located`: in one pass, or in several where words overlap in so many ways that one table would be large.
/// `take` gets the bytes of the occurrences as they are found: many words can have the same ones.
///
/// # Errors
/// That of `take`.
pub(crate) fn find_each(
    matchers: &[&WordMatcher],
    tokens: &TokensColumn,
    live: &DocumentBits,
    located: bool,
    take: &mut TakeMemory<'_>,
) -> Result<Vec<LeafOutcome>, QueryMemoryError> {
    let named = look_up(matchers, tokens);
    if matchers.iter().zip(&named).all(|(matcher, numbers)| matcher.names_words() && numbers.is_empty()) {
        return Ok(matchers.iter().map(|_| LeafOutcome::Positions(ChunkPositions::default())).collect());
    }
    let mut found: Vec<LeafOutcome> = Vec::with_capacity(matchers.len());
    while found.len() < matchers.len() {
        let table = LeafTable::of_first(&matchers[found.len()..], &named[found.len()..], tokens);
        match tokens.ids() {
            TokenIds::Narrow(ids) if !located && table.is_worth_counting(ids, tokens) => {
                found.extend(table.count(ids, tokens, live, take)?.into_iter().map(LeafOutcome::Counts));
            }
            _ => found.extend(table.find(tokens, live, take)?.into_iter().map(LeafOutcome::Positions)),
        }
    }
    Ok(found)
}

/// Documents of `within` in which any of the words occurs.
pub(crate) fn find_any(
    matchers: &[&WordMatcher],
    tokens: &TokensColumn,
    within: &DocumentBits,
) -> DocumentBits {
    if let [matcher] = matchers {
        return TokenNumbers::of(matcher, tokens, ExecutionPaths::Fast).documents(tokens, within);
    }
    let mut numbers = look_up(matchers, tokens).concat();
    for matcher in matchers.iter().filter(|matcher| !matcher.names_words()) {
        numbers.extend(TokenNumbers::of(matcher, tokens, ExecutionPaths::Fast).iter());
    }
    TokenNumbers::from_ascending(ascending(numbers)).documents(tokens, within)
}

/// Numbers of the words of each matcher that names them, ascending; none for other matchers.
fn look_up(matchers: &[&WordMatcher], tokens: &TokensColumn) -> Vec<Vec<u32>> {
    matchers.iter().map(|matcher| named_numbers(matcher, tokens)).collect()
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
    /// Number of members of all sets.
    members: usize,
}

impl LeafTable {
    /// Creates the table of the first of these words, at least one. `named` has the numbers that [`look_up`]
    /// finds for each.
    fn of_first(matchers: &[&WordMatcher], named: &[Vec<u32>], tokens: &TokensColumn) -> Self {
        let mut table = LeafTable {
            numbers: vec![0; tokens.words() + 1],
            sets: vec![Vec::new()],
            wanted: vec![0; tokens.words() / 64 + 1],
            words: 0,
            members: 0,
        };
        for (matcher, named) in matchers.iter().zip(named).take(usize::from(u16::MAX)) {
            if table.sets.len() > SETS_MAX || table.members > MEMBERS_MAX {
                break;
            }
            if matcher.names_words() {
                table.add(named.iter().copied());
            } else {
                table.add(TokenNumbers::of(matcher, tokens, ExecutionPaths::Fast).iter());
            }
        }
        table
    }

    /// Adds the next word, for which these token numbers stand.
    fn add(&mut self, numbers: impl Iterator<Item = u32>) {
        let (index, before) = (self.words as u16, self.sets.len());
        self.words += 1;
        // For each earlier set, its extension by this word; most words of many are not in the chunk.
        let mut extended: Vec<u16> = Vec::new();
        for number in numbers {
            extended.resize(before, 0);
            let set = &mut self.numbers[number as usize];
            let extension = &mut extended[usize::from(*set)];
            if *extension == 0 {
                let mut longer = self.sets[usize::from(*set)].clone();
                longer.push(index);
                self.members += longer.len();
                *extension = self.sets.len() as u16;
                self.sets.push(longer);
            }
            *set = *extension;
            self.wanted[number as usize / 64] |= 1 << (number % 64);
        }
    }

    /// True if counting costs less than finding: there are few sets, documents are long enough, and among the
    /// first tokens are many that stand for a word.
    fn is_worth_counting(&self, ids: &[u16], tokens: &TokensColumn) -> bool {
        /// Number of tokens that are looked at.
        const FIRST: usize = 1 << 12;
        /// With more than one of this number, finding takes longer.
        const MANY: usize = 12;
        let first = &ids[..ids.len().min(FIRST)];
        let wanted = first.iter().filter(|id| self.numbers[usize::from(**id)] != 0).count();
        let is_few = (2..=COUNTED_SETS).contains(&self.sets.len());
        is_few && ids.len() >= COUNTED_TOKENS * tokens.len() && wanted * MANY > first.len()
    }

    /// Number of occurrences of each word in each document; empty for a word that the chunk lacks. There are
    /// at most [`COUNTED_SETS`] sets.
    fn count(
        &self,
        ids: &[u16],
        tokens: &TokensColumn,
        live: &DocumentBits,
        take: &mut TakeMemory<'_>,
    ) -> Result<Vec<Vec<u32>>, QueryMemoryError> {
        match self.sets.len() {
            ..=FEW_SETS => self.count_few::<FEW_SETS>(ids, tokens, live, take),
            _ => self.count_few::<COUNTED_SETS>(ids, tokens, live, take),
        }
    }

    /// Counts as [`LeafTable::count`] does, of at most `N` sets.
    fn count_few<const N: usize>(
        &self,
        ids: &[u16],
        tokens: &TokensColumn,
        live: &DocumentBits,
        take: &mut TakeMemory<'_>,
    ) -> Result<Vec<Vec<u32>>, QueryMemoryError> {
        let numbers: Vec<u8> = self.numbers.iter().map(|set| *set as u8).collect();
        let (starts, mut by_document) = (tokens.starts(), vec![[0; N]; tokens.len()]);
        for document in live.iter() {
            let ids = &ids[starts[document] as usize..starts[document + 1] as usize];
            by_document[document] = count_sets(ids, &numbers);
        }
        // No branch depends on the words that a document has.
        let mut found: Vec<Vec<u32>> = vec![Vec::new(); self.words];
        for (set, leaves) in self.sets.iter().enumerate() {
            for leaf in leaves {
                let counts = &mut found[usize::from(*leaf)];
                if counts.is_empty() {
                    take(tokens.len() * size_of::<u32>())?;
                    counts.resize(tokens.len(), 0);
                }
                counts.iter_mut().zip(&by_document).for_each(|(count, of_sets)| *count += of_sets[set]);
            }
        }
        Ok(found)
    }

    /// Occurrences of each word.
    fn find(
        self,
        tokens: &TokensColumn,
        live: &DocumentBits,
        take: &mut TakeMemory<'_>,
    ) -> Result<Vec<ChunkPositions>, QueryMemoryError> {
        let mut found: Vec<ChunkPositions> = (0..self.words).map(|_| ChunkPositions::default()).collect();
        if self.sets.len() == 1 {
            return Ok(found);
        }
        let (ids, starts) = (tokens.ids(), tokens.starts());
        let positions = TokenNumbers::Table(self.wanted).find_within(tokens, live);
        let mut added = 0;
        for (document, span, here) in of_documents(&positions, starts) {
            if !live.get(document) {
                continue;
            }
            for position in here {
                let leaves = &self.sets[usize::from(self.numbers[ids.get(*position as usize) as usize])];
                added += leaves.len();
                if added >= TAKEN_TOGETHER {
                    take(std::mem::take(&mut added) * size_of::<u32>())?;
                }
                leaves.iter().for_each(|leaf| found[usize::from(*leaf)].add(document, position - span.start));
            }
        }
        take(added * size_of::<u32>())?;
        Ok(found)
    }
}

/// Number of tokens of each set, given the set of each token number.
fn count_sets<const N: usize>(ids: &[u16], numbers: &[u8]) -> [u32; N] {
    // The remainder is the set itself, and spares a check.
    let set = |id: u16| usize::from(numbers[usize::from(id)]) % N;
    let mut all = [0; N];
    // No counter overflows over one part, and small counters are cleared and added up sooner.
    for ids in ids.chunks(usize::from(u16::MAX)) {
        let mut counters = [[0u16; N]; COUNTERS];
        let (blocks, rest) = ids.as_chunks::<COUNTERS>();
        for block in blocks {
            counters.iter_mut().zip(block).for_each(|(counts, id)| counts[set(*id)] += 1);
        }
        rest.iter().for_each(|id| counters[0][set(*id)] += 1);
        for counts in counters {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += u32::from(count));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use millrace_column::TokensBuilder;
    use millrace_plan::WordPattern;
    use proptest::prelude::*;

    use super::*;
    use crate::LeafMatches;
    use crate::words::{self, DocumentRows};

    proptest! {
        #[test]
        fn one_pass_finds_what_a_pass_for_each_word_finds(
            documents in proptest::collection::vec(proptest::collection::vec(("[abc]{1,2}", any::<bool>()), 0..12), 1..20),
            wanted in proptest::collection::vec(("[abcd]{1,2}", 0usize..5), 1..20),
            dead in 0usize..20,
        ) {
            let mut builder = TokensBuilder::new();
            for document in &documents {
                for (word, has_stem) in document {
                    let stem = if *has_stem { &word[..1] } else { word.as_str() };
                    builder.stemmed(word.as_bytes(), stem.as_bytes());
                }
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
                .map(|(word, kind)| match kind {
                    0 => WordPattern::Prefix(word),
                    1 => WordPattern::Written(word),
                    2 => WordPattern::Any(vec![word.clone(), word[..1].to_owned()]),
                    3 => WordPattern::Word { stems: vec![word[..1].to_owned()], written: word },
                    _ => WordPattern::Exact(word),
                })
                .map(|pattern| WordMatcher::new("f", &pattern).expect("not a regular expression"))
                .collect();
            let all: Vec<&WordMatcher> = matchers.iter().collect();
            let found = find_each(&all, &tokens, &live, true, &mut |_| Ok(())).expect("there is room");
            let table = LeafTable::of_first(&all, &look_up(&all, &tokens), &tokens);
            let is_whole = table.words == all.len() && table.sets.len() <= COUNTED_SETS;
            let counted = match tokens.ids() {
                TokenIds::Narrow(ids) if is_whole => {
                    table.count(ids, &tokens, &live, &mut |_| Ok(())).expect("there is room")
                }
                _ => Vec::new(),
            };
            let rows: Vec<u16> = (0..documents.len() as u16).collect();
            let mut any = DocumentBits::NONE;
            for (index, (matcher, found)) in matchers.iter().zip(found).enumerate() {
                let alone = words::find(std::slice::from_ref(matcher), &tokens, &live, ExecutionPaths::Plain);
                let expected: Vec<u32> =
                    rows.iter().map(|row| alone.of(usize::from(*row)).len() as u32).collect();
                prop_assert_eq!(&alone.counts(&DocumentRows::new(&rows))[..], &expected[..]);
                prop_assert_eq!(&alone.counts(&DocumentRows::new(&rows[1..]))[..], &expected[1..]);
                let mut bits = DocumentBits::NONE;
                alone.add_to(&mut bits);
                if let Some(counted) = counted.get(index) {
                    prop_assert!(counted.is_empty() && bits.is_empty() || *counted == expected);
                    prop_assert_eq!(LeafOutcome::Counts(counted.clone()).bits(), bits);
                }
                prop_assert_eq!(find_any(&[matcher], &tokens, &live), bits);
                any = any.or(&bits);
                let LeafOutcome::Positions(found) = found else { unreachable!("positions were asked for") };
                prop_assert_eq!(found, alone);
            }
            prop_assert_eq!(find_any(&all, &tokens, &live), any);
        }
    }

    #[test]
    fn words_of_long_documents_are_counted() {
        // More than all counters of a word hold that are cleared at once.
        const OFTEN: u32 = 300_000;
        let word = |number: usize| format!("w{number}");
        let mut builder = TokensBuilder::new();
        (0..OFTEN).for_each(|_| builder.word(word(0).as_bytes()));
        builder.end_document();
        builder.end_document();
        for _ in 0..2 {
            (0..120).for_each(|at| builder.word(word(at % 40).as_bytes()));
            builder.end_document();
        }
        let tokens = builder.finish();
        let mut dead = DocumentBits::NONE;
        dead.set(2);
        let live = DocumentBits::first(4).without(&dead);
        // Of 40 words there are more sets than can be counted.
        for (wanted, is_counted) in [(8, true), (20, true), (40, false)] {
            // The last word is in no document.
            let patterns = (0..wanted).chain([99]).map(|number| WordPattern::Exact(word(number)));
            let matchers: Vec<WordMatcher> = patterns
                .map(|pattern| WordMatcher::new("f", &pattern).expect("not a regular expression"))
                .collect();
            let all: Vec<&WordMatcher> = matchers.iter().collect();
            let mut taken = 0;
            let mut take = |bytes| {
                taken += bytes;
                Ok(())
            };
            let found = find_each(&all, &tokens, &live, false, &mut take).expect("there is room");
            assert_eq!(found.len(), wanted + 1);
            for (number, found) in found.iter().enumerate() {
                assert_eq!(matches!(found, LeafOutcome::Counts(_)), is_counted, "{wanted} words");
                let counts = match found.extract(&DocumentRows::new(&[0, 1, 2, 3]), false) {
                    LeafMatches::Words(occurrences) => occurrences.counts,
                    _ => vec![0; 4],
                };
                let often = if number == 0 { OFTEN } else { 0 };
                let expected = if number < wanted { [often, 0, 0, 3] } else { [0; 4] };
                assert_eq!(counts, expected, "word {number} of {wanted}");
            }
            let numbers = if is_counted { wanted * 4 } else { OFTEN as usize + 40 * 3 };
            assert_eq!(taken, numbers * size_of::<u32>(), "{wanted} words");
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
        let table = LeafTable::of_first(&matchers, &look_up(&matchers, &tokens), &tokens);
        let members: usize = table.sets.iter().map(Vec::len).sum();
        assert!(table.words < matchers.len() && members <= 2 * MEMBERS_MAX, "{} {members}", table.words);
        let live = DocumentBits::first(1);
        let mut taken = 0;
        let mut take = |bytes| {
            taken += bytes;
            Ok(())
        };
        let found = find_each(&matchers, &tokens, &live, true, &mut take).expect("there is room");
        assert_eq!(taken, 2000 * 3 * 4, "all occurrences of all words");
        let is_whole = |found: &LeafOutcome| matches!(found, LeafOutcome::Positions(positions) if positions.of(0) == [0, 1, 2]);
        assert!(found.iter().all(is_whole));
    }
}
