//! Search for words among the token numbers of a chunk.
//!
//! 1. Each word's pattern becomes a set of numbers of the chunk's dictionary. An empty set ends the search in
//!    the chunk.
//! 2. The word that is probably the rarest is searched among all token numbers.
//! 3. The other words must be adjacent to it, in the same document. Words of two elements never are: between
//!    them is a boundary, which no set contains.

use std::collections::HashMap;
use std::ops::Range;

use millrace_column::{CHUNK_DOCS, ExecutionPaths, TokenIds, TokensColumn};

use crate::bits::DocumentBits;
use crate::dictionary;
use crate::kernels::{self, FewNumbers};
use crate::pattern::WordMatcher;
use crate::positions::{PositionBits, PositionSet};

/// A set of token numbers of one dictionary.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum TokenNumbers {
    /// Few ranges (both ends included), ascending.
    Ranges(Vec<(u32, u32)>),
    /// Any set, as one bit per number.
    Table(Vec<u64>),
}

impl TokenNumbers {
    /// Numbers of the words that `matcher` accepts.
    pub(crate) fn of(matcher: &WordMatcher, tokens: &TokensColumn, paths: ExecutionPaths) -> Self {
        match paths {
            ExecutionPaths::Fast => Self::looked_up(matcher, tokens),
            ExecutionPaths::Plain => Self::gone_through(matcher, tokens),
        }
    }

    /// Every word of the dictionary is looked at.
    fn gone_through(matcher: &WordMatcher, tokens: &TokensColumn) -> Self {
        let all = 1..=tokens.words() as u32;
        let word = |number: &u32| std::str::from_utf8(tokens.word(*number)).ok();
        let stems = matcher.stems().into_iter().flatten();
        let mut numbers: Vec<u32> = stems.flat_map(|stem| tokens.stemmed_plainly(stem.as_bytes())).collect();
        if let Some(written) = matcher.written() {
            numbers.extend(all.clone().filter(|number| word(number) == Some(written)));
        }
        if matcher.stems().is_none() && matcher.written().is_none() {
            numbers.extend(all.filter(|number| word(number).is_some_and(|word| matcher.matches(word))));
        }
        Self::from_ascending(ascending(numbers))
    }

    fn looked_up(matcher: &WordMatcher, tokens: &TokensColumn) -> Self {
        if matcher.names_words() {
            return Self::from_ascending(named_numbers(matcher, tokens));
        }
        let range = tokens.prefixed(matcher.prefix().as_bytes());
        if matcher.is_prefix() {
            return TokenNumbers::Ranges(if range.is_empty() {
                Vec::new()
            } else {
                vec![(range.start, range.end - 1)]
            });
        }
        if range.is_empty() {
            return TokenNumbers::Ranges(Vec::new());
        }
        Self::from_ascending(dictionary::numbers_of(matcher, tokens.dictionary(), range))
    }

    pub(crate) fn from_ascending(numbers: Vec<u32>) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in &numbers {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == *number => *high = *number,
                _ => ranges.push((*number, *number)),
            }
        }
        if ranges.len() <= kernels::RANGES {
            return TokenNumbers::Ranges(ranges);
        }
        let mut table = vec![0; numbers.last().map_or(0, |last| *last as usize / 64 + 1)];
        numbers.iter().for_each(|number| table[*number as usize / 64] |= 1 << (number % 64));
        TokenNumbers::Table(table)
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, TokenNumbers::Ranges(ranges) if ranges.is_empty())
    }

    /// The numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (ranges, table) = match self {
            TokenNumbers::Ranges(ranges) => (ranges.as_slice(), &[][..]),
            TokenNumbers::Table(table) => (&[][..], table.as_slice()),
        };
        let of_word = |(index, word): (usize, &u64)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(index as u32 * 64 + bit)
            })
        };
        let in_ranges = ranges.iter().flat_map(|(low, high)| *low..=*high);
        in_ranges.chain(table.iter().enumerate().flat_map(of_word))
    }

    /// Documents of `within` with a number of the set. What else they have is not looked at.
    pub(crate) fn documents(&self, tokens: &TokensColumn, within: &DocumentBits) -> DocumentBits {
        let mut bits = DocumentBits::NONE;
        if self.is_empty() {
            return bits;
        }
        let few = match (self, tokens.ids()) {
            (TokenNumbers::Ranges(_), _) => {
                by_document(&self.find_within(tokens, within), tokens, within, 1).add_to(&mut bits);
                return bits;
            }
            (TokenNumbers::Table(table), TokenIds::Narrow(_)) => {
                FewNumbers::of(table).map(|few| (few, table))
            }
            (TokenNumbers::Table(_), TokenIds::Wide(_)) => None,
        };
        let mut marks = vec![0; if few.is_some() { 0 } else { tokens.words() + 1 }];
        if few.is_none() {
            self.iter().for_each(|number| marks[number as usize] = 1);
        }
        for document in within.iter() {
            let has_any = match (tokens.document(document), &few) {
                (TokenIds::Narrow(ids), Some((few, table))) => few.is_any_in(ids, table),
                (TokenIds::Narrow(ids), None) => has_mark(ids, |id| marks[usize::from(id)]),
                (TokenIds::Wide(ids), _) => has_mark(ids, |id| marks[id as usize]),
            };
            if has_any {
                bits.set(document);
            }
        }
        bits
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        match self {
            TokenNumbers::Ranges(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&number)),
            TokenNumbers::Table(table) => {
                table.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
            }
        }
    }

    /// The same as [`TokenNumbers::find`], one by one.
    fn find_plainly(&self, ids: TokenIds<'_>) -> Vec<u32> {
        let positions = ids.iter().enumerate().filter(|(_, id)| self.contains(*id));
        positions.map(|(position, _)| position as u32).collect()
    }

    /// Indices of the numbers in the set among all of a chunk's; those of documents outside `live` may be
    /// missing. Where few documents are live, only their numbers are looked at.
    pub(crate) fn find_within(&self, tokens: &TokensColumn, live: &DocumentBits) -> Vec<u32> {
        /// Number of numbers that one pass looks at in the time of one that is looked at alone.
        const TOGETHER: usize = 8;
        if live.count() * TOGETHER >= tokens.len() {
            return self.find(tokens.ids());
        }
        let (ids, starts, mut found) = (tokens.ids(), tokens.starts(), Vec::new());
        for document in live.iter() {
            let positions = starts[document]..starts[document + 1];
            found.extend(positions.filter(|position| self.contains(ids.get(*position as usize))));
        }
        found
    }

    /// Indices in `ids` of the numbers in the set, ascending.
    pub(crate) fn find(&self, ids: TokenIds<'_>) -> Vec<u32> {
        let mut found = Vec::new();
        match (self, ids) {
            (TokenNumbers::Ranges(ranges), TokenIds::Narrow(ids)) => {
                // A dictionary of narrow numbers has no number that does not fit.
                let ranges: Vec<(u16, u16)> =
                    ranges.iter().map(|(low, high)| (*low as u16, *high as u16)).collect();
                kernels::find_narrow(ids, &ranges, &mut found);
            }
            (TokenNumbers::Ranges(ranges), TokenIds::Wide(ids)) => {
                kernels::find_wide(ids, ranges, &mut found)
            }
            (TokenNumbers::Table(table), TokenIds::Narrow(ids)) => match FewNumbers::of(table) {
                Some(few) => few.find(ids, table, &mut found),
                None => kernels::find_in_table(ids, table, &mut found),
            },
            (TokenNumbers::Table(table), TokenIds::Wide(ids)) => {
                kernels::find_in_wide_table(ids, table, &mut found);
            }
        }
        found
    }
}

/// True if the mark of any of these numbers is not 0. Eight are decided at once.
fn has_mark<T: Copy>(ids: &[T], mark: impl Fn(T) -> u8) -> bool {
    let any = |ids: &[T]| ids.iter().fold(0, |any, id| any | mark(*id)) != 0;
    let (blocks, rest) = ids.as_chunks::<8>();
    blocks.iter().any(|block| any(block.as_slice())) || any(rest)
}

/// Numbers of the words that a matcher names, ascending; none for another matcher.
pub(crate) fn named_numbers(matcher: &WordMatcher, tokens: &TokensColumn) -> Vec<u32> {
    let mut numbers = Vec::new();
    for stem in matcher.stems().into_iter().flatten() {
        tokens.stemmed(stem.as_bytes(), |number| numbers.push(number));
    }
    numbers.extend(matcher.written().into_iter().flat_map(|word| tokens.numbers(word.as_bytes())));
    ascending(numbers)
}

pub(crate) fn ascending(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Occurrences in a chunk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkPositions {
    /// Documents, ascending, each with the number of occurrences up to its end.
    documents: Vec<(u16, u32)>,
    /// First tokens, as indices among the document's tokens.
    positions: Vec<u32>,
}

impl ChunkPositions {
    /// Adds the documents with at least one occurrence to a set.
    pub(crate) fn add_to(&self, bits: &mut DocumentBits) {
        self.documents.iter().for_each(|(document, _)| bits.set(usize::from(*document)));
    }

    /// Number of documents with an occurrence.
    pub(crate) fn documents(&self) -> usize {
        self.documents.len()
    }

    /// Memory that they take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.documents) + size_of_val(&*self.positions)
    }

    /// Occurrences in a document, ascending.
    pub(crate) fn of(&self, document: usize) -> &[u32] {
        match self.documents.binary_search_by_key(&document, |(document, _)| usize::from(*document)) {
            Ok(at) => self.nth(at),
            Err(_) => &[],
        }
    }

    /// Adds a document, after the existing ones, with its occurrences, ascending.
    pub(crate) fn push(&mut self, document: usize, positions: impl Iterator<Item = u32>) {
        let before = self.positions.len();
        self.positions.extend(positions);
        if self.positions.len() > before {
            self.documents.push((document as u16, self.positions.len() as u32));
        }
    }

    /// Adds an occurrence after the existing ones: in the last document, or in one after it.
    pub(crate) fn add(&mut self, document: usize, position: u32) {
        self.positions.push(position);
        let end = self.positions.len() as u32;
        match self.documents.last_mut() {
            Some((last, until)) if usize::from(*last) == document => *until = end,
            _ => self.documents.push((document as u16, end)),
        }
    }

    /// Adds occurrences in other documents, with their positions.
    pub(crate) fn merge(&mut self, other: &ChunkPositions) {
        let one = std::mem::take(self);
        let mut all: Vec<(u16, &[u32])> = Vec::with_capacity(one.documents.len() + other.documents.len());
        for set in [&one, other] {
            all.extend(set.documents.iter().enumerate().map(|(at, (found, _))| (*found, set.nth(at))));
        }
        all.sort_unstable_by_key(|(document, _)| *document);
        all.into_iter()
            .for_each(|(document, positions)| self.push(usize::from(document), positions.iter().copied()));
    }

    /// Occurrences in the `at`th document that has any.
    fn nth(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.documents[at - 1].1 };
        &self.positions[start as usize..self.documents[at].1 as usize]
    }

    /// Adds the number of occurrences in each document to `counts`, which has all documents of the chunk.
    pub(crate) fn add_counts(&self, counts: &mut [u32]) {
        let mut before = 0;
        for (document, end) in &self.documents {
            counts[usize::from(*document)] += end - before;
            before = *end;
        }
    }

    /// Number of occurrences in each of the documents of `rows`.
    pub(crate) fn counts(&self, rows: &DocumentRows<'_>) -> Vec<u32> {
        // No branch depends on which documents have the words, so that common words cost no more than rare
        // ones.
        let (mut counts, mut before) = (vec![0; rows.documents.len() + 1], 0);
        for (document, end) in &self.documents {
            counts[usize::from(rows.rows[usize::from(*document)])] = end - before;
            before = *end;
        }
        counts.pop();
        counts
    }

    /// Calls `each` with the occurrences of each document of `documents`, which ascend.
    pub(crate) fn for_each(&self, documents: &[u16], mut each: impl FnMut(&[u32])) {
        let mut at = 0;
        for document in documents {
            while self.documents.get(at).is_some_and(|(found, _)| found < document) {
                at += 1;
            }
            let here = self.documents.get(at).is_some_and(|(found, _)| found == document);
            each(if here { self.nth(at) } else { &[] });
        }
    }
}

/// Documents of a chunk, ascending, with the index of each among them.
pub(crate) struct DocumentRows<'d> {
    documents: &'d [u16],
    /// For each document of the chunk its index; the other documents have the index after the last.
    rows: [u16; CHUNK_DOCS],
}

impl<'d> DocumentRows<'d> {
    pub(crate) fn new(documents: &'d [u16]) -> Self {
        let mut rows = [documents.len() as u16; CHUNK_DOCS];
        documents.iter().zip(0..).for_each(|(document, row)| rows[usize::from(*document)] = row);
        DocumentRows { documents, rows }
    }

    /// The documents.
    pub(crate) fn documents(&self) -> &'d [u16] {
        self.documents
    }
}

/// Comparisons for each word of a chunk from which on words in sequence are found in one pass over all words.
const REPEATED: usize = 8;

/// Occurrences of the words in sequence in the documents of `live`.
pub(crate) fn find(
    matchers: &[WordMatcher],
    tokens: &TokensColumn,
    live: &DocumentBits,
    paths: ExecutionPaths,
) -> ChunkPositions {
    let mut sets = Vec::with_capacity(matchers.len());
    for matcher in matchers {
        let numbers = TokenNumbers::of(matcher, tokens, paths);
        if numbers.is_empty() {
            return ChunkPositions::default();
        }
        sets.push(numbers);
    }
    let rarest = (0..sets.len()).max_by_key(|index| matchers[*index].rarity());
    let Some(anchor) = rarest.map(|rarest| if paths.is_fast() { rarest } else { 0 }) else {
        return ChunkPositions::default();
    };
    let ids = tokens.ids();
    let mut found = match paths {
        ExecutionPaths::Fast => sets[anchor].find_within(tokens, live),
        ExecutionPaths::Plain => sets[anchor].find_plainly(ids),
    };
    if sets.len() == 1 {
        return by_document(&found, tokens, live, 1);
    }
    // Where the rarest word is at most positions, the text may repeat what the words in sequence repeat.
    if paths.is_fast() && found.len().saturating_mul(sets.len()) / REPEATED >= ids.len() {
        return by_document(&in_sequence(&sets, ids), tokens, live, sets.len());
    }
    found.retain_mut(|position| {
        let Some(first) = (*position as usize).checked_sub(anchor) else { return false };
        *position = first as u32;
        first + sets.len() <= ids.len()
            && sets
                .iter()
                .enumerate()
                .all(|(offset, set)| offset == anchor || set.contains(ids.get(first + offset)))
    });
    by_document(&found, tokens, live, sets.len())
}

/// First tokens of the sequences that have a number of each set in turn, by one pass over all tokens.
fn in_sequence(sets: &[TokenNumbers], ids: TokenIds<'_>) -> Vec<u32> {
    // Words that are repeated have the same set.
    let mut positions_of: HashMap<&TokenNumbers, PositionSet> = HashMap::new();
    for (position, set) in sets.iter().enumerate() {
        positions_of.entry(set).or_default().push(position);
    }
    let mut roles: HashMap<u32, PositionSet> = HashMap::new();
    for (set, positions) in positions_of {
        for number in set.iter() {
            let known = roles.entry(number).or_default();
            *known = PositionSet::union([&*known, &positions].into_iter());
        }
    }
    let (mut firsts, last) = (PositionBits::default(), sets.len() - 1);
    firsts.set(0);
    let (mut reached, mut next, mut found) = (PositionSet::default(), PositionSet::default(), Vec::new());
    for (position, number) in ids.iter().enumerate() {
        match roles.get(&number) {
            None => reached.clear(),
            Some(roles) => {
                reached.follow(roles, &firsts, &mut next);
                std::mem::swap(&mut reached, &mut next);
                if reached.ends_with(last) {
                    found.push((position - last) as u32);
                }
            }
        }
    }
    found
}

/// Ascending positions by their documents: each document with its range of tokens and its positions. `starts`
/// are the first tokens of the documents.
pub(crate) fn of_documents<'p>(
    mut positions: &'p [u32],
    starts: &'p [u32],
) -> impl Iterator<Item = (usize, Range<u32>, &'p [u32])> {
    let mut document = 0;
    std::iter::from_fn(move || {
        let first = *positions.first()?;
        while starts[document + 1] <= first {
            document += 1;
        }
        let span = starts[document]..starts[document + 1];
        let count = positions.iter().take_while(|position| **position < span.end).count();
        let (here, rest) = positions.split_at(count);
        positions = rest;
        Some((document, span, here))
    })
}

/// Distributes the occurrences over documents. Drops those of dead documents, and those with fewer than
/// `length` tokens up to the end of the document.
fn by_document(found: &[u32], tokens: &TokensColumn, live: &DocumentBits, length: usize) -> ChunkPositions {
    let mut occurrences =
        ChunkPositions { documents: Vec::new(), positions: Vec::with_capacity(found.len()) };
    for (document, Range { start, end }, here) in of_documents(found, tokens.starts()) {
        if live.get(document) {
            if length == 1 {
                occurrences.positions.extend(here.iter().map(|position| position - start));
            } else {
                let whole = here.iter().filter(|position| **position as usize + length <= end as usize);
                occurrences.positions.extend(whole.map(|position| position - start));
            }
            let so_far = occurrences.positions.len() as u32;
            if occurrences.documents.last().map_or(0, |(_, end)| *end) < so_far {
                occurrences.documents.push((document as u16, so_far));
            }
        }
    }
    occurrences
}

#[cfg(test)]
mod tests {
    use millrace_column::TokensBuilder;
    use millrace_plan::WordPattern;

    use super::*;

    /// Words of a document, `|` between elements.
    fn tokens(text: &str) -> TokensColumn {
        let mut builder = TokensBuilder::new();
        for word in text.split_whitespace() {
            if word == "|" { builder.boundary() } else { builder.word(word.as_bytes()) }
        }
        builder.end_document();
        builder.finish()
    }

    /// Occurrences of the words in sequence.
    fn positions(tokens: &TokensColumn, words: &str) -> Vec<u32> {
        let matcher = |word: &str| WordMatcher::new("f", &WordPattern::Exact(word.to_owned())).unwrap();
        let matchers: Vec<WordMatcher> = words.split_whitespace().map(matcher).collect();
        let fast = find(&matchers, tokens, &DocumentBits::first(1), ExecutionPaths::Fast);
        let plain = find(&matchers, tokens, &DocumentBits::first(1), ExecutionPaths::Plain);
        assert_eq!(fast.of(0), plain.of(0), "{words}");
        fast.of(0).to_vec()
    }

    #[test]
    fn phrases_stay_in_one_element() {
        let check = |text: &str, words: &str, expected: &[u32]| {
            assert_eq!(positions(&tokens(text), words), expected, "{words} in {text}");
        };
        check("a b a b c", "a b", &[0, 2]);
        check("a b a b c", "b c", &[3]);
        check("a b a b c", "c a", &[]);
        check("a | b a b", "a b", &[3]);
        check("a a a", "a a", &[0, 1]);
        let (text, words) = ("a ".repeat(300), "a ".repeat(150));
        check(&format!("{text} b {text}"), &format!("{words} b {words}"), &[150]);
        check(&format!("{text} | {text}"), &words, &Vec::from_iter((0..=150).chain(301..=451)));
        check(&text, &format!("{words} b"), &[]);
        check("a b", "a z", &[]);
        check("", "a", &[]);
    }
}
