//! Positions of the query's words in a text.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use millrace_linguistics::{FieldAnalyzer, TextToken, WordBuffers};
use millrace_matching::WordMatcher;
use millrace_plan::{LeafId, Plan, PlanNode, Predicate};
use millrace_schema::{SnippetLengths, SnippetSettings};

use super::SummaryError;
use super::outcomes::{MatchedWord, WordOutcome, WordOutcomes};
use super::snippet::WordOccurrence;
use super::snippet::candidates::{SnippetNearness, SnippetPart, SnippetQuery};

/// Markup of query words, and size of snippets. Lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighlightStyle {
    /// Markup before a word of the query.
    pub open: String,
    /// Markup after a word of the query.
    pub close: String,
    /// Markup for omitted text.
    pub separator: String,
    /// Target length of all snippets of a text together.
    pub length: usize,
    /// Maximum number of snippets per text.
    pub max_matches: usize,
    /// Length below which there are more snippets than the maximum number.
    pub min_length: usize,
    /// Maximum length of the context on each side of a match.
    pub surround_max: usize,
    /// True to return the start of a text without query words; otherwise it is returned empty.
    pub prefix: bool,
    /// Length of a text within which words of the query belong together.
    pub window: usize,
    /// Maximum number of incomplete matches of a condition that are followed at a time.
    pub max_candidates: usize,
}

impl HighlightStyle {
    /// The default style, with the settings of the application.
    pub fn of(snippets: &SnippetLengths) -> Self {
        let usual = HighlightStyle::default();
        HighlightStyle {
            length: snippets.length.unwrap_or(usual.length),
            max_matches: snippets.max_matches.unwrap_or(usual.max_matches),
            min_length: snippets.min_length.unwrap_or(usual.min_length),
            surround_max: snippets.surround_max.unwrap_or(usual.surround_max),
            prefix: snippets.prefix.unwrap_or(usual.prefix),
            window: snippets.window.unwrap_or(usual.window),
            max_candidates: snippets.max_candidates.unwrap_or(usual.max_candidates),
            ..usual
        }
    }

    /// The same style without markup of query words.
    pub(crate) fn without_marks(&self) -> Self {
        HighlightStyle { open: String::new(), close: String::new(), ..self.clone() }
    }
}

/// Styles of dynamic summaries: one for all fields, and those of single fields.
#[derive(Debug, Clone, Default)]
pub struct HighlightStyles {
    /// The style of fields without one of their own.
    pub usual: HighlightStyle,
    /// Styles of single fields, by the name of the field.
    pub fields: BTreeMap<String, HighlightStyle>,
}

impl HighlightStyles {
    /// The default styles, with the settings of the application.
    pub fn of(settings: &SnippetSettings) -> Self {
        let styles =
            settings.fields.iter().map(|(field, lengths)| (field.clone(), HighlightStyle::of(lengths)));
        HighlightStyles { usual: HighlightStyle::of(&settings.usual), fields: styles.collect() }
    }

    /// The same styles without markup of query words.
    pub(crate) fn without_marks(&self) -> Self {
        let fields = self.fields.iter().map(|(field, style)| (field.clone(), style.without_marks()));
        HighlightStyles { usual: self.usual.without_marks(), fields: fields.collect() }
    }

    /// The style of a field.
    pub fn of_field(&self, field: &str) -> &HighlightStyle {
        self.fields.get(field).unwrap_or(&self.usual)
    }
}

impl From<HighlightStyle> for HighlightStyles {
    fn from(usual: HighlightStyle) -> Self {
        HighlightStyles { usual, fields: BTreeMap::new() }
    }
}

impl Default for HighlightStyle {
    fn default() -> Self {
        HighlightStyle {
            open: "<hi>".to_owned(),
            close: "</hi>".to_owned(),
            separator: "<sep />".to_owned(),
            length: 256,
            max_matches: 3,
            min_length: 128,
            surround_max: 128,
            prefix: true,
            window: 200,
            max_candidates: 1000,
        }
    }
}

/// Query words to highlight in one field.
pub(crate) struct FieldHighlighter {
    analyzer: FieldAnalyzer,
    terms: Vec<HighlightTerm>,
    near: Vec<HighlightNearness>,
    /// Indices of the terms, by leaf.
    index_of: HashMap<LeafId, usize>,
    outcomes: WordOutcomes,
}

/// Terms that are highlighted only near each other.
struct HighlightNearness {
    /// Indices of the terms, in the order of the condition.
    terms: Vec<usize>,
    /// Maximum distance of the last term from the first one in the text, in tokens.
    distance: usize,
    /// True if the terms must be in the order of the condition.
    ordered: bool,
}

enum HighlightTerm {
    /// Words in sequence.
    Phrase(Vec<WordMatcher>),
    /// Any of these words.
    Any(Vec<String>),
}

impl HighlightTerm {
    /// Number of its words.
    fn length(&self) -> usize {
        match self {
            HighlightTerm::Phrase(words) => words.len(),
            HighlightTerm::Any(_) => 1,
        }
    }
}

impl HighlightNearness {
    /// Keeps the occurrences of the terms that are near those of all others. Occurrences are ascending.
    fn keep_near(&self, occurrences: &mut [Vec<usize>]) {
        if self.ordered { self.keep_in_order(occurrences) } else { self.keep_in_windows(occurrences) }
    }

    /// Keeps occurrences in any window in which all terms occur.
    fn keep_in_windows(&self, occurrences: &mut [Vec<usize>]) {
        let mut starts: Vec<usize> =
            self.terms.iter().flat_map(|term| occurrences[*term].iter().copied()).collect();
        starts.sort_unstable();
        let mut windows: Vec<RangeInclusive<usize>> = Vec::new();
        for start in starts {
            let end = start.saturating_add(self.distance);
            if !self
                .terms
                .iter()
                .all(|term| next_from(&occurrences[*term], start).is_some_and(|at| at <= end))
            {
                continue;
            }
            match windows.last_mut() {
                Some(last) if start <= *last.end() => *last = *last.start()..=end,
                _ => windows.push(start..=end),
            }
        }
        for term in &self.terms {
            occurrences[*term].retain(|at| {
                let window = windows.partition_point(|window| window.end() < at);
                windows.get(window).is_some_and(|window| window.contains(at))
            });
        }
    }

    /// Keeps the nearest sequence of the terms after each occurrence of the first one.
    fn keep_in_order(&self, occurrences: &mut [Vec<usize>]) {
        let Some((first, rest)) = self.terms.split_first() else { return };
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); self.terms.len()];
        for start in occurrences[*first].iter().copied() {
            let end = start.saturating_add(self.distance);
            let mut sequence = vec![start];
            for term in rest {
                let after = sequence.last().map_or(start, |last| last + 1);
                sequence.extend(next_from(&occurrences[*term], after).filter(|at| *at <= end));
            }
            if sequence.len() == self.terms.len() {
                sequence.into_iter().zip(&mut kept).for_each(|(at, kept)| kept.push(at));
            }
        }
        for (term, mut kept) in self.terms.iter().zip(kept) {
            kept.sort_unstable();
            kept.dedup();
            occurrences[*term] = kept;
        }
    }
}

/// The first of these ascending positions that is not before `from`.
fn next_from(positions: &[usize], from: usize) -> Option<usize> {
    positions.get(positions.partition_point(|at| *at < from)).copied()
}

/// A token of a text that matches words of the query.
struct HighlightCandidate {
    range: Range<usize>,
    /// Number of tokens before it.
    index: usize,
    /// The same, where parts of tokens count as tokens.
    number: usize,
    matched: Arc<MatchedWord>,
}

/// Words of a text that the query matches.
#[derive(Debug, Default)]
pub(crate) struct TextMarks {
    /// Byte ranges of the words that are marked, in order, not overlapping.
    pub(crate) marks: Vec<Range<usize>>,
    /// Tokens that are words of the query, also those of a phrase that is not there.
    pub(crate) words: Vec<WordOccurrence>,
    /// Byte ranges of words that are parts of a token.
    pub(crate) parts: Vec<Range<usize>>,
    /// Number of the text's tokens.
    pub(crate) tokens: usize,
}

impl TextMarks {
    /// Adds those of a text that begins at this byte after these.
    pub(crate) fn append(&mut self, other: TextMarks, start: usize, first_word: usize) {
        let moved = |range: Range<usize>| range.start + start..range.end + start;
        self.marks.extend(other.marks.into_iter().map(moved));
        self.parts.extend(other.parts.into_iter().map(moved));
        self.words.extend(other.words.into_iter().map(|occurrence| WordOccurrence {
            range: moved(occurrence.range),
            token: occurrence.token + self.tokens,
            words: occurrence.words.into_iter().map(|word| word + first_word).collect(),
        }));
        self.tokens += other.tokens;
    }
}

impl FieldHighlighter {
    /// Collects the words for one field: those of all leaves, except excluded ones and filters. `analyzer` is
    /// the field's.
    pub(crate) fn new(plan: &Plan, field: &str, analyzer: FieldAnalyzer) -> Result<Self, SummaryError> {
        let mut leaves = Vec::new();
        shown_leaves(&plan.root, &mut leaves);
        let mut terms = Vec::new();
        let mut index_of: HashMap<LeafId, usize> = HashMap::new();
        for id in leaves {
            let leaf = &plan.leaves[id.0];
            if &*leaf.field != field {
                continue;
            }
            index_of.insert(id, terms.len());
            let filter = leaf.term.is_none_or(|term| plan.terms[term.0].annotations.filter);
            match &leaf.predicate {
                Predicate::Words(patterns) if !filter => {
                    let matchers = patterns.iter().map(|pattern| WordMatcher::new(field, pattern));
                    terms.push(HighlightTerm::Phrase(matchers.collect::<Result<_, _>>()?));
                }
                Predicate::WordIn(words) if !filter => {
                    terms.push(HighlightTerm::Any(words.iter().map(|(word, _)| word.clone()).collect()));
                }
                _ => {
                    index_of.remove(&id);
                }
            }
        }
        let mut near = Vec::new();
        // Where elements have a distance, words of different ones can be near each other; an element alone
        // does not show that.
        if plan.element_gap(field).is_none() {
            nearness(&plan.root, &index_of, &mut near);
        }
        Ok(FieldHighlighter { analyzer, terms, near, index_of, outcomes: WordOutcomes::default() })
    }

    /// Number of the words of all terms.
    pub(crate) fn words(&self) -> usize {
        self.terms.iter().map(HighlightTerm::length).sum()
    }

    /// The words of a leaf, numbered in the order of the terms; `None` for a leaf that has none here.
    fn words_of(&self, plan: &Plan, leaf: LeafId) -> Option<SnippetPart> {
        const USUAL_WEIGHT: i64 = 100;
        let number = *self.index_of.get(&leaf)?;
        let term = plan.leaves[leaf.0].term;
        let weight = term.map_or(USUAL_WEIGHT, |term| i64::from(plan.terms[term.0].annotations.weight));
        let first: usize = self.terms[..number].iter().map(HighlightTerm::length).sum();
        let words = first..first + self.terms[number].length();
        let words = words.map(|word| SnippetPart::Word { numbers: vec![word], weight });
        SnippetPart::of(words.collect(), Some(SnippetNearness { gap: 0, ordered: true }))
    }

    /// The query's words in `text`.
    pub(crate) fn marks(&self, text: &str) -> TextMarks {
        if self.terms.is_empty() {
            return TextMarks::default();
        }
        let mut found = self.of_terms(text);
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(found.marks.len());
        for mark in found.marks {
            match joined.last_mut() {
                // Grams overlap or touch.
                Some(last) if mark.start <= last.end => last.end = last.end.max(mark.end),
                _ => joined.push(mark),
            }
        }
        found.marks = joined;
        found
    }

    /// The query words that a token matches.
    fn compare(&self, token: &TextToken<'_>) -> WordOutcome {
        let (mut roles, mut part) = (Vec::new(), 0..token.range.len());
        for (number, term) in self.terms.iter().enumerate() {
            match term {
                HighlightTerm::Phrase(words) => {
                    for (at, word) in words.iter().enumerate() {
                        if !word.matches_token(token) {
                            continue;
                        }
                        roles.push((number, at));
                        // If folding changed the length of the word, a part of it cannot be located.
                        if token.written.len() == token.range.len() {
                            part = word.part(token.written);
                        }
                    }
                }
                HighlightTerm::Any(words) => {
                    if words.iter().any(|word| word == token.text) {
                        roles.push((number, 0));
                    }
                }
            }
        }
        match roles.is_empty() {
            true => WordOutcome::Unmatched,
            false => WordOutcome::Matched(Arc::new(MatchedWord { roles, part })),
        }
    }

    /// Calls `sink` with each token of a text and its outcome, in order.
    fn each_outcome(&self, text: &str, mut sink: impl FnMut(Range<usize>, WordOutcome)) {
        if !self.analyzer.is_by_word() {
            return self.analyzer.tokens(text, |token| sink(token.range.clone(), self.compare(&token)));
        }
        let mut buffers = WordBuffers::default();
        let mut outcomes = self.outcomes.remembered();
        self.analyzer.words(text, |range| {
            let word = &text[range.clone()];
            let outcome = outcomes.get(word, || {
                let compared = self.analyzer.word_token(word, &mut buffers, |token| self.compare(&token));
                compared.unwrap_or(WordOutcome::NoToken)
            });
            sink(range, outcome);
        });
    }

    /// Matches of all terms, in order.
    fn of_terms(&self, text: &str) -> TextMarks {
        let mut candidates: Vec<HighlightCandidate> = Vec::new();
        let (mut index, mut number) = (0, 0);
        let mut parts: Vec<Range<usize>> = Vec::new();
        self.each_outcome(text, |token, outcome| match outcome {
            WordOutcome::NoToken => {}
            WordOutcome::Unmatched => {
                index += 1;
                number += 1;
            }
            WordOutcome::Matched(matched) => {
                let range = token.start + matched.part.start..token.start + matched.part.end;
                number += usize::from(token.start < range.start);
                candidates.push(HighlightCandidate { range: range.clone(), index, number, matched });
                index += 1;
                number += 1 + usize::from(range.end < token.end);
                if range != token {
                    parts.push(range);
                }
            }
        });
        let mut occurrences: Vec<Vec<usize>> = Vec::with_capacity(self.terms.len());
        let mut first_words = Vec::with_capacity(self.terms.len());
        let mut first_word = 0;
        for (number, term) in self.terms.iter().enumerate() {
            let length = term.length();
            first_words.push(first_word);
            first_word += length;
            // Tokens in sequence that match are candidates in sequence.
            let is_there = |first: usize| {
                let index = candidates[first].index;
                (0..length).all(|at| {
                    candidates.get(first + at).is_some_and(|candidate| {
                        candidate.index == index + at && candidate.matched.roles.contains(&(number, at))
                    })
                })
            };
            let found = (0..candidates.len()).filter(|first| length > 0 && is_there(*first));
            occurrences.push(found.map(|first| candidates[first].index).collect());
        }
        for nearness in &self.near {
            nearness.keep_near(&mut occurrences);
        }
        let mut marked = vec![false; candidates.len()];
        for (term, found) in self.terms.iter().zip(occurrences) {
            for index in found {
                let first = candidates.partition_point(|candidate| candidate.index < index);
                marked[first..first + term.length()].fill(true);
            }
        }
        let mut found = TextMarks { tokens: number, parts, ..TextMarks::default() };
        for (candidate, is_marked) in candidates.into_iter().zip(marked) {
            let HighlightCandidate { range, number: token, matched, .. } = candidate;
            if is_marked {
                found.marks.push(range.clone());
            }
            let words = matched.roles.iter().map(|(term, at)| first_words[*term] + at).collect();
            found.words.push(WordOccurrence { range, token, words });
        }
        found
    }
}

/// The conditions of the query on the words of these fields, whose numbers go on from field to field.
pub(crate) fn snippet_query(plan: &Plan, fields: &[&FieldHighlighter]) -> SnippetQuery {
    SnippetQuery::new(snippet_part(plan, &plan.root, fields))
}

/// The conditions in a part of the query.
fn snippet_part(plan: &Plan, node: &PlanNode, fields: &[&FieldHighlighter]) -> Option<SnippetPart> {
    let part = |node: &PlanNode| snippet_part(plan, node, fields);
    let leaf = |leaf: LeafId| {
        let mut first = 0;
        let mut words = fields.iter().filter_map(|field| {
            let words = field.words_of(plan, leaf).map(|part| part.renumbered(first));
            first += field.words();
            words
        });
        words.next()
    };
    match node {
        PlanNode::True | PlanNode::False => None,
        PlanNode::And(children) | PlanNode::Or(children) => {
            let mut parts: Vec<SnippetPart> = Vec::new();
            let mut last_term = None;
            for child in children {
                let Some(new) = part(child) else { continue };
                let term = match child {
                    PlanNode::Leaf(leaf) => plan.leaves[leaf.0].term,
                    _ => None,
                };
                // A term that looks at several fields is one condition.
                let is_same = term.is_some() && term == last_term;
                match parts.last_mut().filter(|last| is_same && last.is_like(&new)) {
                    Some(last) => last.join(new),
                    None => parts.push(new),
                }
                last_term = term;
            }
            SnippetPart::of(parts, None)
        }
        PlanNode::AndNot(positive, _) => part(positive),
        PlanNode::Rank(first, others) => {
            SnippetPart::of(std::iter::once(&**first).chain(others).filter_map(part).collect(), None)
        }
        PlanNode::Leaf(id) => leaf(*id),
        PlanNode::Near { leaves, distance, ordered, .. } => {
            let gap = usize::try_from(*distance).unwrap_or(usize::MAX);
            let parts = leaves.iter().filter_map(|id| leaf(*id)).collect();
            SnippetPart::of(parts, Some(SnippetNearness { gap, ordered: *ordered }))
        }
        PlanNode::SameElement { child, .. } => part(child),
    }
}

/// Collects the leaves that can make a document match.
fn shown_leaves(node: &PlanNode, leaves: &mut Vec<LeafId>) {
    match node {
        PlanNode::True | PlanNode::False => {}
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| shown_leaves(child, leaves));
        }
        PlanNode::AndNot(positive, _) => shown_leaves(positive, leaves),
        PlanNode::Rank(first, others) => {
            std::iter::once(&**first).chain(others).for_each(|child| shown_leaves(child, leaves));
        }
        PlanNode::Leaf(leaf) => leaves.push(*leaf),
        PlanNode::Near { leaves: near, .. } => leaves.extend(near),
        PlanNode::SameElement { child, .. } => shown_leaves(child, leaves),
    }
}

/// Collects the conditions of nearness whose leaves all have a term.
fn nearness(node: &PlanNode, index_of: &HashMap<LeafId, usize>, found: &mut Vec<HighlightNearness>) {
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => {}
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| nearness(child, index_of, found));
        }
        PlanNode::AndNot(positive, _) => nearness(positive, index_of, found),
        PlanNode::Rank(first, others) => {
            std::iter::once(&**first).chain(others).for_each(|child| nearness(child, index_of, found));
        }
        PlanNode::Near { leaves, distance, ordered, .. } => {
            let terms: Option<Vec<usize>> = leaves.iter().map(|leaf| index_of.get(leaf).copied()).collect();
            let distance = usize::try_from(*distance).unwrap_or(usize::MAX);
            found.extend(terms.map(|terms| HighlightNearness { terms, distance, ordered: *ordered }));
        }
        PlanNode::SameElement { child, .. } => nearness(child, index_of, found),
    }
}

/// Appends the text with markup around its matches.
pub(crate) fn bolded(
    text: &str,
    range: Range<usize>,
    marks: &[Range<usize>],
    style: &HighlightStyle,
    out: &mut String,
) {
    let mut at = range.start;
    for mark in marks.iter().filter(|mark| mark.start >= range.start && mark.end <= range.end) {
        out.push_str(&text[at..mark.start]);
        out.push_str(&style.open);
        out.push_str(&text[mark.clone()]);
        out.push_str(&style.close);
        at = mark.end;
    }
    out.push_str(&text[at..range.end]);
}
