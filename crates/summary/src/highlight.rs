//! Positions of the query's words in a text.

use std::ops::Range;

use millrace_linguistics::Analyzer;
use millrace_matching::WordMatcher;
use millrace_plan::{LeafId, Node, Plan, Predicate};
use millrace_schema::Snippets;

use crate::Error;

/// Markup of query words, and size of snippets. Lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
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
    /// Texts up to this length are returned whole, even if the target length is shorter.
    pub min_length: usize,
    /// Maximum length of the context on each side of a match.
    pub surround_max: usize,
    /// True to return the start of a text without query words; otherwise it is returned empty.
    pub prefix: bool,
}

impl Style {
    /// The default style, with the settings of the application.
    pub fn of(snippets: &Snippets) -> Self {
        let usual = Style::default();
        Style {
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
        Style { open: String::new(), close: String::new(), ..self.clone() }
    }
}

impl Default for Style {
    fn default() -> Self {
        Style {
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
pub(crate) struct Highlighter {
    analyzer: Analyzer,
    terms: Vec<Term>,
}

enum Term {
    /// Words in sequence.
    Phrase(Vec<WordMatcher>),
    /// Any of these words.
    Any(Vec<String>),
}

/// A token of a text, and the query words it matches: the term, and the index of the word in it.
struct Candidate {
    range: Range<usize>,
    roles: Vec<(usize, usize)>,
}

/// A match of the query in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Byte range in the text.
    pub(crate) range: Range<usize>,
    /// Index of the query term.
    pub(crate) term: usize,
}

impl Highlighter {
    /// Collects the words for one field: those of all leaves, except excluded ones and filters. `analyzer` is
    /// the field's.
    pub(crate) fn new(plan: &Plan, field: &str, analyzer: Analyzer) -> Result<Self, Error> {
        let mut leaves = Vec::new();
        shown_leaves(&plan.root, &mut leaves);
        let mut terms = Vec::new();
        for leaf in leaves.iter().map(|leaf| &plan.leaves[leaf.0]).filter(|leaf| &*leaf.field == field) {
            let filter = leaf.term.is_none_or(|term| plan.terms[term.0].annotations.filter);
            match &leaf.predicate {
                Predicate::Words(patterns) if !filter => {
                    let matchers = patterns.iter().map(|pattern| WordMatcher::new(field, pattern, false));
                    terms.push(Term::Phrase(matchers.collect::<Result<_, _>>()?));
                }
                Predicate::WordIn(words) if !filter => {
                    terms.push(Term::Any(words.iter().map(|(word, _)| word.clone()).collect()));
                }
                _ => {}
            }
        }
        Ok(Highlighter { analyzer, terms })
    }

    /// The query's matches in `text`, in order, not overlapping.
    pub(crate) fn marks(&self, text: &str) -> Vec<Mark> {
        if self.terms.is_empty() {
            return Vec::new();
        }
        let marks = self.of_terms(text);
        let mut joined: Vec<Mark> = Vec::with_capacity(marks.len());
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
    fn of_terms(&self, text: &str) -> Vec<Mark> {
        let mut tokens: Vec<Candidate> = Vec::new();
        self.analyzer.tokens(text, |token| {
            let mut roles = Vec::new();
            let mut range = token.range.clone();
            for (number, term) in self.terms.iter().enumerate() {
                match term {
                    Term::Phrase(words) => {
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
                    Term::Any(words) => {
                        if words.iter().any(|word| word == token.text) {
                            roles.push((number, 0));
                        }
                    }
                }
            }
            tokens.push(Candidate { range, roles });
        });
        let mut marked: Vec<Option<usize>> = vec![None; tokens.len()];
        for (number, term) in self.terms.iter().enumerate() {
            let length = match term {
                Term::Phrase(words) => words.len(),
                Term::Any(_) => 1,
            };
            for first in 0..(tokens.len() + 1).saturating_sub(length.max(1)) {
                let all = (0..length).all(|at| tokens[first + at].roles.contains(&(number, at)));
                if length > 0 && all {
                    marked[first..first + length].iter_mut().for_each(|mark| *mark = mark.or(Some(number)));
                }
            }
        }
        let marked = tokens.into_iter().zip(marked);
        marked.filter_map(|(Candidate { range, .. }, term)| Some(Mark { range, term: term? })).collect()
    }
}

/// Collects the leaves that can make a document match.
fn shown_leaves(node: &Node, leaves: &mut Vec<LeafId>) {
    match node {
        Node::True | Node::False => {}
        Node::And(children) | Node::Or(children) => {
            children.iter().for_each(|child| shown_leaves(child, leaves));
        }
        Node::AndNot(positive, _) => shown_leaves(positive, leaves),
        Node::Rank(first, others) => {
            std::iter::once(&**first).chain(others).for_each(|child| shown_leaves(child, leaves));
        }
        Node::Leaf(leaf) => leaves.push(*leaf),
        Node::Near { leaves: near, .. } => leaves.extend(near),
        Node::SameElement { child, .. } => shown_leaves(child, leaves),
    }
}

/// Appends the text with markup around its matches.
pub(crate) fn bolded(text: &str, range: Range<usize>, marks: &[Mark], style: &Style, out: &mut String) {
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
