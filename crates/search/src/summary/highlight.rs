//! Positions of the query's words in a text.
//!
//! Words that begin unlike all words of the query are only counted. The others are compared, each different
//! one once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use millrace_linguistics::{FieldAnalyzer, TextToken, WordBeginnings, WordBuffers};
use millrace_plan::{LeafId, Plan, PlanNode, Predicate};
use millrace_schema::{SnippetLengths, SnippetSettings, SummaryMarkup};

use super::SummaryError;
use super::nearness::HighlightNearness;
use super::outcomes::{MatchedWord, WordOutcome, WordOutcomes};
use super::snippet::WordOccurrence;
use super::snippet::candidates::{SnippetNearness, SnippetPart, SnippetQuery};
use super::terms::QueryTerms;

/// Bytes of a text between two questions if it is time to stop.
const BYTES_PER_STOP: usize = 64 << 10;

/// Terms of one word of a text that snippets take into account.
const TERMS_PER_WORD: usize = 256;

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

    /// The style with the markup of the application.
    fn with_markup(self, markup: &SummaryMarkup) -> Self {
        HighlightStyle {
            open: markup.open.clone().unwrap_or(self.open),
            close: markup.close.clone().unwrap_or(self.close),
            separator: markup.separator.clone().unwrap_or(self.separator),
            ..self
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
        let style = |lengths: &SnippetLengths| HighlightStyle::of(lengths).with_markup(&settings.markup);
        let fields = settings.fields.iter().map(|(field, lengths)| (field.clone(), style(lengths)));
        HighlightStyles { usual: style(&settings.usual), fields: fields.collect() }
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
    terms: QueryTerms,
    beginnings: WordBeginnings,
    near: Vec<HighlightNearness>,
    /// The terms of `near`.
    near_terms: HashSet<usize>,
    /// Indices of the terms, by leaf.
    index_of: HashMap<LeafId, usize>,
    outcomes: WordOutcomes,
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
    pub(crate) fn append(&mut self, other: TextMarks, start: usize, first_term: usize) {
        let moved = |range: Range<usize>| range.start + start..range.end + start;
        self.marks.extend(other.marks.into_iter().map(moved));
        self.parts.extend(other.parts.into_iter().map(moved));
        self.words.extend(other.words.into_iter().map(|occurrence| WordOccurrence {
            range: moved(occurrence.range),
            token: occurrence.token + self.tokens,
            terms: occurrence.terms.into_iter().map(|term| term + first_term).collect(),
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
        let mut terms = QueryTerms::default();
        let mut index_of: HashMap<LeafId, usize> = HashMap::new();
        for id in leaves {
            let leaf = &plan.leaves[id.0];
            if &*leaf.field != field {
                continue;
            }
            let filter = leaf.term.is_none_or(|term| plan.terms[term.0].annotations.filter);
            let term = match &leaf.predicate {
                Predicate::Words(words) if !filter => terms.add_sequence(field, words)?,
                Predicate::WordIn(words) if !filter => {
                    terms.add_any(words.iter().map(|(word, _)| word.as_str()))
                }
                _ => continue,
            };
            index_of.insert(id, term);
        }
        let mut near = Vec::new();
        // Where elements have a distance, words of different ones can be near each other; an element alone
        // does not show that.
        if plan.element_gap(field).is_none() {
            nearness(&plan.root, &index_of, &mut near);
        }
        let near_terms: HashSet<usize> = near.iter().flat_map(HighlightNearness::terms).collect();
        let terms = terms.finish(&near_terms);
        let (beginnings, outcomes) = (terms.beginnings(&analyzer), WordOutcomes::default());
        Ok(FieldHighlighter { analyzer, terms, beginnings, near, near_terms, index_of, outcomes })
    }

    /// Number of the terms.
    pub(crate) fn terms(&self) -> usize {
        self.terms.count()
    }

    /// The term of a leaf, by its number; `None` for a leaf that has none here.
    fn term_of(&self, plan: &Plan, leaf: LeafId) -> Option<SnippetPart> {
        const USUAL_WEIGHT: i64 = 100;
        let number = *self.index_of.get(&leaf)?;
        let term = plan.leaves[leaf.0].term;
        let weight = term.map_or(USUAL_WEIGHT, |term| i64::from(plan.terms[term.0].annotations.weight));
        let words = self.terms.length(number);
        let weight = weight.saturating_mul(i64::try_from(words).unwrap_or(i64::MAX));
        (words > 0).then(|| SnippetPart::Term { numbers: vec![number], weight, words })
    }

    /// The query's words in `text`; none once `stop` is true, which is called now and then.
    pub(crate) fn marks(&self, text: &str, stop: &dyn Fn() -> bool) -> TextMarks {
        if self.terms.count() == 0 || stop() {
            return TextMarks::default();
        }
        let mut found = self.of_terms(text, stop);
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
        self.terms
            .matched(token)
            .map_or(WordOutcome::Unmatched, |matched| WordOutcome::Matched(Arc::new(matched)))
    }

    /// Calls `sink` with words of a text and their outcomes, in order, and the number of words before each:
    /// with all that match or have no token, and some others. Returns the number of words. `skip` is that of
    /// [`FieldAnalyzer::admitted_words`].
    fn each_outcome(
        &self,
        text: &str,
        mut skip: impl FnMut(usize) -> bool,
        mut sink: impl FnMut(usize, Range<usize>, WordOutcome),
    ) -> usize {
        if !self.analyzer.is_by_word() {
            let mut count = 0;
            self.analyzer.tokens(text, |token| {
                if !skip(token.range.len()) {
                    sink(count, token.range.clone(), self.compare(&token));
                    count += 1;
                }
            });
            return count;
        }
        let mut buffers = WordBuffers::default();
        let mut outcomes = self.outcomes.remembered();
        self.analyzer.admitted_words(text, &self.beginnings, skip, |before, range| {
            let word = &text[range.clone()];
            let outcome = outcomes.get(word, || {
                let compared = self.analyzer.word_token(word, &mut buffers, |token| self.compare(&token));
                compared.unwrap_or(WordOutcome::NoToken)
            });
            sink(before, range, outcome);
        })
    }

    /// The tokens of a text that match words of the query, and the rest of [`TextMarks`] without them; `None`
    /// if `stop` was true.
    fn candidates(
        &self,
        text: &str,
        stop: &dyn Fn() -> bool,
    ) -> Option<(Vec<HighlightCandidate>, TextMarks)> {
        let mut candidates: Vec<HighlightCandidate> = Vec::new();
        let mut parts: Vec<Range<usize>> = Vec::new();
        let (mut stopped, mut left) = (false, BYTES_PER_STOP);
        let skip = |bytes: usize| {
            left = left.saturating_sub(bytes);
            if left == 0 {
                stopped = stopped || stop();
                left = BYTES_PER_STOP;
            }
            stopped
        };
        // Words without a token, and tokens beside parts of tokens.
        let (mut missing, mut beside) = (0, 0);
        let words = self.each_outcome(text, skip, |before, token, outcome| match outcome {
            WordOutcome::NoToken => missing += 1,
            WordOutcome::Unmatched => {}
            WordOutcome::Matched(matched) => {
                let index = before - missing;
                let range = token.start + matched.part.start..token.start + matched.part.end;
                beside += usize::from(token.start < range.start);
                candidates.push(HighlightCandidate {
                    range: range.clone(),
                    index,
                    number: index + beside,
                    matched,
                });
                beside += usize::from(range.end < token.end);
                if range != token {
                    parts.push(range);
                }
            }
        });
        let tokens = words - missing + beside;
        (!stopped).then(|| (candidates, TextMarks { tokens, parts, ..TextMarks::default() }))
    }

    /// Matches of all terms, in order.
    fn of_terms(&self, text: &str, stop: &dyn Fn() -> bool) -> TextMarks {
        let Some((candidates, mut found)) = self.candidates(text, stop) else { return TextMarks::default() };
        let mut near: HashMap<usize, Vec<usize>> = HashMap::new();
        // The number of marks that begin at each candidate, less those that end before it.
        let mut changes = vec![0isize; candidates.len() + 1];
        let mut mark = |candidates: Range<usize>| {
            changes[candidates.start] += 1;
            changes[candidates.end] -= 1;
        };
        let mut pass = self.terms.pass();
        let mut joined = 0;
        for (at, candidate) in candidates.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &candidates[before]);
            if before.is_none_or(|before| before.index + 1 != candidate.index) {
                pass.interrupt();
            }
            pass.go_on(&candidate.matched.roles);
            // Snippets show phrases whose words follow each other and do not overlap, as grams do.
            let is_joined = before.is_some_and(|before| {
                before.number + 1 == candidate.number && before.range.end <= candidate.range.start
            });
            joined = if is_joined { joined + 1 } else { 1 };
            if pass.is_free() {
                mark(at..at + 1);
            }
            for term in pass.bound() {
                let length = self.terms.length(term);
                match self.near_terms.contains(&term) {
                    true => near.entry(term).or_default().push(candidate.index + 1 - length),
                    false => mark(at + 1 - length..at + 1),
                }
            }
            let ended = pass.ended().filter(|term| self.terms.length(*term) <= joined);
            found.words.push(WordOccurrence {
                range: candidate.range.clone(),
                token: candidate.number,
                terms: ended.take(TERMS_PER_WORD).collect(),
            });
        }
        for nearness in &self.near {
            nearness.keep_near(&mut near);
        }
        for (term, indices) in near {
            for index in indices {
                let first = candidates.partition_point(|candidate| candidate.index < index);
                mark(first..first + self.terms.length(term));
            }
        }
        let mut open = 0;
        for (candidate, change) in candidates.iter().zip(changes) {
            open += change;
            if open > 0 {
                found.marks.push(candidate.range.clone());
            }
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
        let mut terms = fields.iter().filter_map(|field| {
            let term = field.term_of(plan, leaf).map(|part| part.renumbered(first));
            first += field.terms();
            term
        });
        terms.next()
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
            found.extend(terms.map(|terms| HighlightNearness::new(terms, distance, *ordered)));
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

#[cfg(test)]
mod tests;
