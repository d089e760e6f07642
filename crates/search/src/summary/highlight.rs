//! Positions of the query's words in a text.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};

use millrace_linguistics::FieldAnalyzer;
use millrace_matching::WordMatcher;
use millrace_plan::{LeafId, Plan, PlanNode, Predicate};
use millrace_schema::{SnippetLengths, SnippetSettings};

use super::SummaryError;

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
            ..usual
        }
    }

    /// The same style without markup of query words.
    pub fn without_marks(&self) -> Self {
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
    pub fn without_marks(&self) -> Self {
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
        }
    }
}

/// Query words to highlight in one field.
pub(crate) struct FieldHighlighter {
    analyzer: FieldAnalyzer,
    terms: Vec<HighlightTerm>,
    near: Vec<HighlightNearness>,
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

/// A token of a text, and the query words it matches: the term, and the index of the word in it.
struct HighlightCandidate {
    range: Range<usize>,
    roles: Vec<(usize, usize)>,
}

/// A match of the query in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextMark {
    /// Byte range in the text.
    pub(crate) range: Range<usize>,
    /// Index of the query term.
    pub(crate) term: usize,
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
                    let matchers = patterns.iter().map(|pattern| WordMatcher::new(field, pattern, false));
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
        Ok(FieldHighlighter { analyzer, terms, near })
    }

    /// The query's matches in `text`, in order, not overlapping.
    pub(crate) fn marks(&self, text: &str) -> Vec<TextMark> {
        if self.terms.is_empty() {
            return Vec::new();
        }
        let marks = self.of_terms(text);
        let mut joined: Vec<TextMark> = Vec::with_capacity(marks.len());
        for mark in marks {
            match joined.last_mut() {
                // Grams overlap or touch.
                Some(last) if mark.range.start <= last.range.end => {
                    last.range.end = last.range.end.max(mark.range.end);
                }
                _ => joined.push(mark),
            }
        }
        joined
    }

    /// Matches of all terms, in order.
    fn of_terms(&self, text: &str) -> Vec<TextMark> {
        let mut tokens: Vec<HighlightCandidate> = Vec::new();
        self.analyzer.tokens(text, |token| {
            let mut roles = Vec::new();
            let mut range = token.range.clone();
            for (number, term) in self.terms.iter().enumerate() {
                match term {
                    HighlightTerm::Phrase(words) => {
                        for (at, word) in words.iter().enumerate() {
                            if !word.matches_token(&token) {
                                continue;
                            }
                            roles.push((number, at));
                            // If folding changed the length of the word, a part of it cannot be located.
                            if token.written.len() == token.range.len() {
                                let part = word.part(token.written);
                                range = token.range.start + part.start..token.range.start + part.end;
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
            tokens.push(HighlightCandidate { range, roles });
        });
        let mut occurrences: Vec<Vec<usize>> = Vec::with_capacity(self.terms.len());
        for (number, term) in self.terms.iter().enumerate() {
            let length = term.length();
            let is_there = |first: &usize| {
                length > 0 && (0..length).all(|at| tokens[first + at].roles.contains(&(number, at)))
            };
            let last = (tokens.len() + 1).saturating_sub(length.max(1));
            occurrences.push((0..last).filter(is_there).collect());
        }
        for nearness in &self.near {
            nearness.keep_near(&mut occurrences);
        }
        let mut marked: Vec<Option<usize>> = vec![None; tokens.len()];
        for (number, (term, found)) in self.terms.iter().zip(occurrences).enumerate() {
            for first in found {
                let words = first..first + term.length();
                marked[words].iter_mut().for_each(|mark| *mark = mark.or(Some(number)));
            }
        }
        let marked = tokens.into_iter().zip(marked);
        marked
            .filter_map(|(HighlightCandidate { range, .. }, term)| Some(TextMark { range, term: term? }))
            .collect()
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
    marks: &[TextMark],
    style: &HighlightStyle,
    out: &mut String,
) {
    let mut at = range.start;
    for mark in marks.iter().filter(|mark| mark.range.start >= range.start && mark.range.end <= range.end) {
        out.push_str(&text[at..mark.range.start]);
        out.push_str(&style.open);
        out.push_str(&text[mark.range.clone()]);
        out.push_str(&style.close);
        at = mark.range.end;
    }
    out.push_str(&text[at..range.end]);
}
