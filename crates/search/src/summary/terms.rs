//! The terms of a query in one field, and the pass over the words of a text that finds them all.
//!
//! The words of all terms have positions in one row, those of a term in sequence. A set of positions is kept
//! in blocks of 64 bits. So a word of a text costs at most a 64th of the query's words, also where a phrase
//! repeats a word and the text repeats nothing else.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::ops::Range;

use millrace_linguistics::{FieldAnalyzer, TextToken, WordBeginnings};
use millrace_matching::{PositionBits, PositionSet, WordMatcher};
use millrace_plan::WordPattern;

use super::SummaryError;
use super::outcomes::MatchedWord;

/// The terms of a query in one field, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct QueryTerms {
    /// Positions of the words of each term.
    terms: Vec<Range<usize>>,
    /// The term at each position.
    term_of: Vec<usize>,
    /// Positions by the stem of the word.
    stems: HashMap<String, PositionSet>,
    /// Positions by the written form of the word.
    written: HashMap<String, PositionSet>,
    /// Patterns that have more words than can be listed.
    patterns: Vec<(PositionSet, WordMatcher)>,
    /// Positions of first words.
    firsts: PositionBits,
    /// Positions of last words.
    lasts: PositionBits,
    /// Positions of words that are marked wherever they are.
    free: PositionBits,
    /// Positions of last words of other terms: those of several words, and those that are marked only near
    /// others.
    bound: PositionBits,
}

impl QueryTerms {
    /// Adds words in sequence as a term, and returns its number.
    pub fn add_sequence(&mut self, field: &str, words: &[WordPattern]) -> Result<usize, SummaryError> {
        let first = self.term_of.len();
        for (position, word) in (first..).zip(words) {
            let (stems, written): (&[String], Option<&String>) = match word {
                WordPattern::Exact(stem) => (std::slice::from_ref(stem), None),
                WordPattern::Any(stems) => (stems.as_slice(), None),
                WordPattern::Written(written) => (&[], Some(written)),
                WordPattern::Word { written, stems } => (stems.as_slice(), Some(written)),
                WordPattern::Prefix(_)
                | WordPattern::Suffix(_)
                | WordPattern::Substring(_)
                | WordPattern::Regex(_)
                | WordPattern::Fuzzy { .. } => {
                    self.patterns.push((PositionSet::of(position), WordMatcher::new(field, word)?));
                    continue;
                }
            };
            stems.iter().for_each(|stem| add(&mut self.stems, stem, position));
            written.into_iter().for_each(|written| add(&mut self.written, written, position));
        }
        Ok(self.end_term(words.len()))
    }

    /// Adds any of some words as a term, and returns its number.
    pub fn add_any<'w>(&mut self, words: impl Iterator<Item = &'w str>) -> usize {
        let position = self.term_of.len();
        words.for_each(|word| add(&mut self.stems, word, position));
        self.end_term(1)
    }

    /// Ends the addition of terms. `near` are those that are marked only near others.
    pub fn finish(mut self, near: &HashSet<usize>) -> Self {
        for (term, positions) in self.terms.iter().enumerate() {
            if positions.is_empty() {
                continue;
            }
            let last = positions.end - 1;
            let is_free = positions.len() == 1 && !near.contains(&term);
            if is_free { self.free.set(last) } else { self.bound.set(last) }
        }
        self
    }

    fn end_term(&mut self, length: usize) -> usize {
        let (term, first) = (self.terms.len(), self.term_of.len());
        self.terms.push(first..first + length);
        self.term_of.resize(first + length, term);
        if length > 0 {
            self.firsts.set(first);
            self.lasts.set(first + length - 1);
        }
        term
    }

    /// The number of terms.
    pub fn count(&self) -> usize {
        self.terms.len()
    }

    /// The number of words of a term.
    pub fn length(&self, term: usize) -> usize {
        self.terms[term].len()
    }

    /// The beginnings of the words that match in texts of this analyzer.
    pub fn beginnings(&self, analyzer: &FieldAnalyzer) -> WordBeginnings {
        let of_patterns = self.patterns.iter().map(|(_, matcher)| matcher.prefix());
        let written = self.written.keys().map(String::as_str).chain(of_patterns);
        analyzer.beginnings(self.stems.keys().map(String::as_str), written)
    }

    /// The query words that a token matches; `None` if there are none.
    pub fn matched(&self, token: &TextToken<'_>) -> Option<MatchedWord> {
        let mut sets: Vec<&PositionSet> = Vec::new();
        let mut part = 0..token.range.len();
        for (positions, matcher) in &self.patterns {
            if matcher.matches_token(token) {
                sets.push(positions);
                // If folding changed the length of the word, a part of it cannot be located.
                if token.written.len() == token.range.len() {
                    part = matcher.part(token.written);
                }
            }
        }
        let named = [self.stems.get(token.text), self.written.get(token.written)];
        if named.iter().any(Option::is_some) {
            part = 0..token.range.len();
            sets.extend(named.into_iter().flatten());
        }
        (!sets.is_empty()).then(|| MatchedWord { roles: PositionSet::union(sets.into_iter()), part })
    }

    /// Begins a pass over a text.
    pub fn pass(&self) -> TermPass<'_> {
        TermPass { terms: self, reached: PositionSet::default(), next: PositionSet::default() }
    }
}

fn add(positions: &mut HashMap<String, PositionSet>, word: &str, position: usize) {
    match positions.get_mut(word) {
        Some(known) => known.push(position),
        None => _ = positions.insert(word.to_owned(), PositionSet::of(position)),
    }
}

/// A pass over the words of a text.
pub(super) struct TermPass<'t> {
    terms: &'t QueryTerms,
    /// Positions of the last word of the text in the terms that all words up to it agree with.
    reached: PositionSet,
    /// Memory for the next ones.
    next: PositionSet,
}

impl TermPass<'_> {
    /// Forgets the words so far, because the next one does not follow them.
    pub fn interrupt(&mut self) {
        self.reached.clear();
    }

    /// Goes on to the next word, which has these positions in the query.
    pub fn go_on(&mut self, roles: &PositionSet) {
        self.reached.follow(roles, &self.terms.firsts, &mut self.next);
        std::mem::swap(&mut self.reached, &mut self.next);
    }

    /// True if the last word is marked wherever it is.
    pub fn is_free(&self) -> bool {
        self.reached.blocks().any(|(number, bits)| bits & self.terms.free.block(number) != 0)
    }

    /// The terms that end with the last word, in order.
    pub fn ended(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_ends(&self.terms.lasts)
    }

    /// Those of [`TermPass::ended`] that have several words, or are marked only near others.
    pub fn bound(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_ends(&self.terms.bound)
    }

    fn of_ends<'a>(&'a self, ends: &'a PositionBits) -> impl Iterator<Item = usize> + 'a {
        let terms = self.terms;
        self.reached.blocks().flat_map(move |(number, bits)| {
            let ends = bits & ends.block(number);
            let rests = iter::successors((ends != 0).then_some(ends), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            });
            rests.map(move |rest| terms.term_of[64 * number + rest.trailing_zeros() as usize])
        })
    }
}
