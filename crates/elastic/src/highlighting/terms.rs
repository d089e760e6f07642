//! The words that a query finds in texts.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::analyzers::IndexAnalyzers;
use crate::evaluation::{FieldValueKind, kind_of, phrases};
use crate::mapping::type_of;
use crate::patterns::{glob, wildcard};
use crate::query::{MatchOptions, SearchQuery, text_of};
use crate::query_terms::{CasedText, FuzzyTerms, TermCase, TermPattern};
use crate::text_division::{TextDivision, TextWords};

/// A part of a query that finds words, with the name or the pattern of its field.
pub(super) struct HighlightedTerm<'q> {
    field: &'q str,
    query: &'q SearchQuery,
}

/// Parts of a query that find words. What must not match finds none.
pub(super) fn terms_of(query: &SearchQuery) -> Vec<HighlightedTerm<'_>> {
    let mut terms = Vec::new();
    add_terms(query, &mut terms);
    terms
}

fn add_terms<'q>(query: &'q SearchQuery, terms: &mut Vec<HighlightedTerm<'q>>) {
    match query {
        SearchQuery::Terms { field, .. }
        | SearchQuery::Match { field, .. }
        | SearchQuery::Prefix { field, .. }
        | SearchQuery::Wildcard { field, .. }
        | SearchQuery::Regexp { field, .. }
        | SearchQuery::Fuzzy { field, .. } => terms.push(HighlightedTerm { field, query }),
        SearchQuery::Nested(nested) => add_terms(&nested.query, terms),
        SearchQuery::Bool(query) => {
            let matching = query.must.iter().chain(&query.filter).chain(&query.should);
            matching.for_each(|query| add_terms(query, terms));
        }
        SearchQuery::Best { queries, .. } => queries.iter().for_each(|query| add_terms(query, terms)),
        SearchQuery::Functions(query) => add_terms(&query.query, terms),
        SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => add_terms(query, terms),
        SearchQuery::Intervals { .. }
        | SearchQuery::Distance(_)
        | SearchQuery::Nearest(_)
        | SearchQuery::All
        | SearchQuery::None
        | SearchQuery::Ids(_)
        | SearchQuery::Range { .. }
        | SearchQuery::Exists(_) => {}
    }
}

impl HighlightedTerm<'_> {
    /// True if it seeks in a field.
    pub(super) fn is_of(&self, path: &str) -> bool {
        self.field == path || self.field.contains('*') && glob(self.field, path)
    }
}

/// Finder of the words of some queries in the texts of a field.
pub(super) struct TermMarks<'q> {
    kind: FieldValueKind,
    /// Division of the texts of the field.
    division: TextDivision,
    /// Words as they are, and in lower case for those that are compared so.
    exact: HashSet<String>,
    folded: HashSet<String>,
    tests: Vec<WordTest<'q>>,
    phrases: Vec<(TextWords, &'q MatchOptions)>,
}

/// Words that are not listed.
enum WordTest<'q> {
    Prefix(CasedText, bool),
    Wildcard(CasedText, bool),
    Regexp(&'q TermPattern),
    Fuzzy { wanted: CasedText, is_lower: bool, fuzziness: FuzzyTerms },
}

impl WordTest<'_> {
    fn has(&self, word: &str) -> bool {
        match self {
            WordTest::Prefix(wanted, is_lower) => {
                wanted.passes(word, *is_lower, |wanted, word| word.starts_with(wanted))
            }
            WordTest::Wildcard(wanted, is_lower) => wanted.passes(word, *is_lower, wildcard),
            WordTest::Regexp(pattern) => pattern.matches(word),
            WordTest::Fuzzy { wanted, is_lower, fuzziness } => {
                wanted.passes(word, *is_lower, |wanted, word| fuzziness.has(word, wanted))
            }
        }
    }
}

impl<'q> TermMarks<'q> {
    /// Creates the finder of the words of these queries in a field.
    pub(super) fn new<'t>(
        terms: impl Iterator<Item = &'t HighlightedTerm<'q>>,
        definition: &Map<String, Value>,
        analyzers: &IndexAnalyzers,
    ) -> Self
    where
        'q: 't,
    {
        let mut marks = TermMarks {
            kind: kind_of(type_of(definition)),
            division: analyzers.of_field(definition),
            exact: HashSet::new(),
            folded: HashSet::new(),
            tests: Vec::new(),
            phrases: Vec::new(),
        };
        for term in terms {
            match term.query {
                SearchQuery::Match { text, options, .. } => {
                    marks.add_match(&text_of(text), options, &options.division(analyzers, definition));
                }
                other => marks.add(other),
            }
        }
        marks
    }

    fn add(&mut self, query: &'q SearchQuery) {
        let is_lower = self.kind == FieldValueKind::Text && self.division.compared("A") == "a";
        match query {
            SearchQuery::Terms { values, ignores_case: true, .. } => {
                self.folded.extend(values.iter().map(|value| text_of(value).to_lowercase()));
            }
            SearchQuery::Terms { values, .. } => self.exact.extend(values.iter().map(text_of)),
            SearchQuery::Prefix { value, case, .. } => {
                self.tests.push(WordTest::Prefix(CasedText::new(value, *case), is_lower));
            }
            SearchQuery::Wildcard { value, case, .. } => {
                self.tests.push(WordTest::Wildcard(CasedText::new(value, *case), is_lower));
            }
            SearchQuery::Regexp { pattern, .. } => self.tests.push(WordTest::Regexp(pattern)),
            SearchQuery::Fuzzy { value, case, fuzziness, .. } => {
                let wanted = CasedText::new(value, *case);
                self.tests.push(WordTest::Fuzzy { wanted, is_lower, fuzziness: *fuzziness });
            }
            // They find no words themselves.
            _ => {}
        }
    }

    fn add_match(&mut self, text: &str, options: &'q MatchOptions, division: &TextDivision) {
        let is_text = self.kind == FieldValueKind::Text;
        let words = if is_text { division.words(text) } else { TextDivision::Whole.words(text) };
        if is_text && options.is_phrase && words.len() > 1 {
            self.phrases.push((words, options));
            return;
        }
        let last = if options.is_prefix { words.len().checked_sub(1) } else { None };
        let (prefixes, words): (Vec<_>, Vec<_>) =
            words.placed().partition(|(position, _)| Some(*position) == last);
        let exact = |value: &String| CasedText::new(value, TermCase::Exact);
        self.tests.extend(prefixes.into_iter().map(|(_, value)| WordTest::Prefix(exact(value), is_text)));
        let words = words.into_iter().map(|(_, word)| word);
        match options.fuzziness.filter(|_| is_text && !options.is_phrase) {
            Some(fuzziness) => self.tests.extend(words.map(|value| {
                let wanted = exact(value);
                WordTest::Fuzzy { wanted, is_lower: is_text, fuzziness }
            })),
            None => self.exact.extend(words.cloned()),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.exact.contains(word)
            || !self.folded.is_empty() && self.folded.contains(&word.to_lowercase())
            || self.tests.iter().any(|test| test.has(word))
    }

    /// Places of the words in a text, in their order and apart from each other.
    pub(super) fn of(&self, text: &str) -> Vec<Range<usize>> {
        if self.kind != FieldValueKind::Text {
            let whole = 0..text.len();
            return if !text.is_empty() && self.has(text) { vec![whole] } else { Vec::new() };
        }
        let divided = self.division.divided(text);
        let single = divided.iter().filter(|word| self.has(&word.text));
        let mut marks: Vec<Range<usize>> = single.map(|word| word.span.clone()).collect();
        if !self.phrases.is_empty() {
            let words = TextWords::of(&divided);
            let first = divided.first().map_or(0, |word| word.position);
            // The first word at a position, or behind it.
            let at = |position: usize| divided.partition_point(|word| word.position - first < position);
            for (wanted, options) in &self.phrases {
                let fits = |at: usize, words: &[String]| options.fits_any(wanted, at, words);
                let found = phrases(&words, wanted, options.slop, &fits);
                marks.extend(found.filter_map(|(start, end)| {
                    Some(divided.get(at(start))?.span.start..divided.get(at(end).checked_sub(1)?)?.span.end)
                }));
            }
        }
        marks.sort_by_key(|mark| (mark.start, mark.end));
        let mut disjoint: Vec<Range<usize>> = Vec::with_capacity(marks.len());
        for mark in marks {
            match disjoint.last_mut() {
                Some(last) if mark.start < last.end => last.end = last.end.max(mark.end),
                _ => disjoint.push(mark),
            }
        }
        disjoint
    }
}
