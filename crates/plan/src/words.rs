//! Conversion of query text to predicates, with the same analysis as the field's documents.

use millrace_document::DataType;
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_query::number_text::{self, NumberText};
use millrace_query::{ItemAnnotations, PhraseWord, TermMatch};
use millrace_schema::{DefaultTerm, FieldMatching, MatchMode, UriPart};
use regex::RegexBuilder;

use crate::number;
use crate::target::{PredicateTarget, holds_text};
use crate::{Error, Predicate, WordPattern};

/// Memory limit of a compiled regular expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;

/// Factory of the predicates of terms in one field.
pub(crate) struct WordPredicates<'t, 's> {
    target: &'t PredicateTarget<'s>,
    annotations: &'t ItemAnnotations,
    matching: FieldMatching,
    language: TextLanguage,
    /// True if documents may be in another language than the query.
    mixed: bool,
    /// False for words as they were written.
    stems: bool,
}

/// Languages of query and documents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlanLanguages<'a> {
    /// Language of the query, if it is given.
    pub query: Option<&'a str>,
    /// True if documents may be in several languages.
    pub of_documents: bool,
    /// True if the words of the query have no stems.
    pub unstemmed: bool,
}

/// Form in which the words of a term are compared with those of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordForm {
    /// By their stems, if the field has them.
    Stem,
    /// Folded words, not stemmed.
    Written,
}

impl<'t, 's> WordPredicates<'t, 's> {
    pub fn new(
        target: &'t PredicateTarget<'s>,
        annotations: &'t ItemAnnotations,
        languages: PlanLanguages<'_>,
    ) -> Self {
        let matching = target.matching().of_queries();
        let tag = annotations.language.as_deref().or(languages.query);
        let language = tag.map_or(TextLanguage::Unknown, TextLanguage::from_tag);
        let mixed = languages.of_documents || language != TextLanguage::Unknown;
        let stems = annotations.stem && !languages.unstemmed;
        WordPredicates { target, annotations, matching, language, mixed, stems }
    }

    /// Predicate of a term; `None` if nothing can match it.
    pub fn term(&self, text: &str, matching: &TermMatch) -> Result<Option<Predicate>, Error> {
        let value_type = self.target.value_type;
        if *value_type == DataType::Bool {
            return match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(Some(Predicate::Bool(true))),
                "false" | "0" => Ok(Some(Predicate::Bool(false))),
                _ => Err(self
                    .wrong(format!("it is true or false, not {text:?}; write: {} = true", self.target.path))),
            };
        }
        if let Some(kind) = number::kind(value_type) {
            let Some(NumberText { low, high, .. }) = number_text::parse(text) else {
                return Err(self.wrong(format!(
                    "it holds {value_type}, and {text:?} is not a number; write for example: {} = 42",
                    self.target.path
                )));
            };
            return Ok(number::range(kind, low, high).map(Predicate::Number));
        }
        if !holds_text(value_type) {
            return Err(self.wrong(format!(
                "it holds {value_type}, which is not text; {text:?} cannot be searched in it"
            )));
        }
        match matching {
            TermMatch::Regex => self.regex(text).map(Some),
            _ if self.target.is_text() => Ok(self.words(text, matching)),
            _ => Ok(Some(self.value(text, matching))),
        }
    }

    /// Predicate of words in sequence; `None` if nothing can match it. In a field that is not split into
    /// words they form one value, which may extend at its start and end if the first and last word may.
    pub fn phrase(&self, words: &[PhraseWord]) -> Result<Option<Predicate>, Error> {
        if !self.target.is_text() {
            let value = words.iter().map(|word| word.text.text.as_str()).collect::<Vec<_>>().join(" ");
            let mut matching = words.iter().map(|word| &word.matching);
            let open_start =
                matches!(matching.clone().next(), Some(TermMatch::Suffix | TermMatch::Substring));
            let open_end = matches!(matching.next_back(), Some(TermMatch::Prefix | TermMatch::Substring));
            return self.term(
                &value,
                match (open_start, open_end) {
                    (false, false) => &TermMatch::Word,
                    (false, true) => &TermMatch::Prefix,
                    (true, false) => &TermMatch::Suffix,
                    (true, true) => &TermMatch::Substring,
                },
            );
        }
        let patterns = words.iter().flat_map(|word| self.patterns(&word.text.text, &word.matching));
        let patterns: Vec<WordPattern> = patterns.collect();
        Ok((!patterns.is_empty()).then_some(Predicate::Words(patterns)))
    }

    /// Stems of a one-word text, in all languages that it may belong to; the word itself, if words have no
    /// stems.
    pub fn stems(&self, text: &str) -> Option<Vec<String>> {
        let [pattern] = <[WordPattern; 1]>::try_from(self.word_patterns(text, WordForm::Stem)).ok()?;
        match pattern {
            WordPattern::Word { stems, .. } => Some(stems),
            WordPattern::Exact(word) | WordPattern::Written(word) => Some(vec![word]),
            _ => None,
        }
    }

    /// A whole value, folded for comparison.
    pub fn folded(&self, text: &str) -> String {
        self.folding()(text)
    }

    /// A function that folds whole values for comparison, for many values.
    pub fn folding(&self) -> impl Fn(&str) -> String {
        let analyzer = (!self.is_cased()).then(|| {
            let analyzer = FieldAnalyzer::new(&self.matching, self.language).without_stemming();
            if self.annotations.accent_drop { analyzer } else { analyzer.with_accents() }
        });
        move |text: &str| {
            let text = match self.matching.mode {
                MatchMode::Exact => text.strip_suffix(self.matching.terminator()).unwrap_or(text),
                _ => text,
            };
            analyzer.as_ref().map_or_else(|| text.to_owned(), |analyzer| analyzer.fold_value(text))
        }
    }

    /// True if whole values are compared with case.
    pub fn is_cased(&self) -> bool {
        self.target.is_cased()
    }

    fn words(&self, text: &str, matching: &TermMatch) -> Option<Predicate> {
        let patterns = self.patterns(text, self.or_default(matching));
        (!patterns.is_empty()).then_some(Predicate::Words(patterns))
    }

    /// Patterns of the words of a text, in sequence.
    fn patterns(&self, text: &str, matching: &TermMatch) -> Vec<WordPattern> {
        let written = || self.word_patterns(text, WordForm::Written);
        let mut patterns = match matching {
            TermMatch::Word | TermMatch::Regex => self.word_patterns(text, WordForm::Stem),
            TermMatch::Uri { start, end } => self.uri_patterns(text, *start, *end),
            TermMatch::Fuzzy { .. } => written(),
            // All words are in their written form; the first and the last may be parts of words.
            TermMatch::Prefix | TermMatch::Suffix | TermMatch::Substring => {
                let (open_start, open_end) = (*matching != TermMatch::Prefix, *matching != TermMatch::Suffix);
                let mut patterns = written();
                match patterns.as_mut_slice() {
                    [WordPattern::Exact(word) | WordPattern::Written(word)] => {
                        patterns = vec![affix_pattern(word, open_start, open_end)]
                    }
                    [first, .., last] => {
                        for (pattern, start, end) in [(first, open_start, false), (last, false, open_end)] {
                            if let WordPattern::Exact(word) | WordPattern::Written(word) = pattern {
                                *pattern = affix_pattern(word, start, end);
                            }
                        }
                    }
                    _ => {}
                }
                patterns
            }
        };
        if let TermMatch::Fuzzy { max_edit_distance, prefix_length, prefix } = matching {
            for pattern in &mut patterns {
                if let WordPattern::Exact(word) | WordPattern::Written(word) = pattern {
                    *pattern = WordPattern::Fuzzy {
                        word: std::mem::take(word),
                        max_edits: *max_edit_distance,
                        prefix_length: *prefix_length,
                        prefix: *prefix,
                    };
                }
            }
        }
        patterns
    }

    /// Patterns of the words of a URI, between those that stand at the start and the end of a hostname.
    fn uri_patterns(&self, text: &str, start: bool, end: Option<bool>) -> Vec<WordPattern> {
        let is_hostname = self.target.matching().mode == MatchMode::Uri(UriPart::Hostname);
        let [first, last] = UriPart::ANCHORS.map(|anchor| WordPattern::Exact(anchor.to_owned()));
        let mut patterns = self.word_patterns(text, WordForm::Stem);
        if start {
            patterns.insert(0, first);
        }
        if end.unwrap_or(is_hostname) {
            patterns.push(last);
        }
        patterns
    }

    /// Patterns of the whole words of a text, in one of their forms.
    fn word_patterns(&self, text: &str, form: WordForm) -> Vec<WordPattern> {
        let of_language = |language| FieldAnalyzer::new(&self.matching, language);
        // If the field's words have no stems, the two are equal.
        let has_stems = self.mixed || of_language(self.language).is_stemming();
        let exact = |word: &str| match has_stems {
            true => WordPattern::Written(word.to_owned()),
            false => WordPattern::Exact(word.to_owned()),
        };
        if !self.annotations.implicit_transforms {
            return vec![exact(text)];
        }
        let analyzer = self.analyzer(form);
        let mut patterns = Vec::new();
        let is_stemmed = form == WordForm::Stem && self.stems && self.annotations.normalize_case;
        if !is_stemmed || !analyzer.is_stemming() && !self.mixed {
            analyzer.tokens(text, |token| patterns.push(exact(token.written)));
            return patterns;
        }
        if !self.mixed {
            analyzer.tokens(text, |token| patterns.push(WordPattern::Exact(token.text.to_owned())));
            return patterns;
        }
        // Both split and fold alike, so they return the same words.
        let mut others = Vec::new();
        let default = self.annotated(of_language(TextLanguage::Unknown));
        default.tokens(text, |token| others.push(token.text.to_owned()));
        let mut others = others.into_iter();
        analyzer.tokens(text, |token| {
            let mut stems = vec![token.text.to_owned()];
            stems.extend(others.next().filter(|other| other != token.text));
            patterns.push(WordPattern::Word { written: token.written.to_owned(), stems });
        });
        patterns
    }

    fn value(&self, text: &str, matching: &TermMatch) -> Predicate {
        let value = self.folded(text);
        let pattern = match self.or_default(matching) {
            TermMatch::Word | TermMatch::Regex | TermMatch::Uri { .. } => WordPattern::Exact(value),
            TermMatch::Prefix => affix_pattern(&value, false, true),
            TermMatch::Suffix => affix_pattern(&value, true, false),
            TermMatch::Substring => affix_pattern(&value, true, true),
            TermMatch::Fuzzy { max_edit_distance, prefix_length, prefix } => WordPattern::Fuzzy {
                word: value,
                max_edits: *max_edit_distance,
                prefix_length: *prefix_length,
                prefix: *prefix,
            },
        };
        Predicate::Value { pattern, cased: self.is_cased() }
    }

    fn regex(&self, pattern: &str) -> Result<Predicate, Error> {
        let cased = self.is_cased();
        RegexBuilder::new(pattern).case_insensitive(!cased).size_limit(REGEX_BYTES).build().map_err(
            |error| {
                let reason = regex_fault(pattern, &error.to_string());
                self.wrong(format!("{pattern:?} is not a regular expression that can be used: {reason}"))
            },
        )?;
        Ok(Predicate::Value { pattern: WordPattern::Regex(pattern.to_owned()), cased })
    }

    /// Default match type of a plain term in the field.
    fn or_default<'m>(&self, matching: &'m TermMatch) -> &'m TermMatch {
        match (matching, self.matching.default_term) {
            (TermMatch::Word, DefaultTerm::Prefix) => &TermMatch::Prefix,
            (TermMatch::Word, DefaultTerm::Suffix) => &TermMatch::Suffix,
            // A prefix within a part of a word is a part of a word.
            (TermMatch::Word | TermMatch::Prefix, DefaultTerm::Substring) => &TermMatch::Substring,
            _ => matching,
        }
    }

    fn analyzer(&self, form: WordForm) -> FieldAnalyzer {
        let analyzer = self.annotated(FieldAnalyzer::new(&self.matching, self.language));
        match form {
            WordForm::Stem => analyzer,
            WordForm::Written => analyzer.without_stemming(),
        }
    }

    /// The analyzer with the settings of the term's annotations.
    fn annotated(&self, mut analyzer: FieldAnalyzer) -> FieldAnalyzer {
        if !self.stems {
            analyzer = analyzer.without_stemming();
        }
        if !self.annotations.accent_drop {
            analyzer = analyzer.with_accents();
        }
        if !self.annotations.normalize_case {
            analyzer = analyzer.with_case();
        }
        analyzer
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Field { field: self.target.path.to_string(), reason }
    }
}

/// Pattern of words that begin with a text, unless `start` is open, and end with it, unless `end` is.
fn affix_pattern(word: &str, start: bool, end: bool) -> WordPattern {
    let word = word.to_owned();
    match (start, end) {
        (false, false) => WordPattern::Exact(word),
        (false, true) => WordPattern::Prefix(word),
        (true, false) => WordPattern::Suffix(word),
        (true, true) => WordPattern::Substring(word),
    }
}

/// The reason for which an expression cannot be used. Java's words for it, which clients of Vespa know, stand
/// for those of the library where both name the same fault.
fn regex_fault(pattern: &str, error: &str) -> String {
    // The last line holds the reason, below a drawing of the position that is indented by four blanks.
    let lines: Vec<&str> = error.lines().collect();
    let reason = lines.last().copied().unwrap_or_default().trim_start_matches("error: ");
    let drawn = lines.iter().rev().find_map(|line| line.find('^')).and_then(|at| at.checked_sub(4));
    let (at, length) = (drawn.unwrap_or_default(), pattern.chars().count());
    match reason {
        "repetition operator missing expression" => {
            let operator = pattern.chars().nth(at).unwrap_or('*');
            format!("Dangling meta character '{operator}' near index {at}")
        }
        "unclosed group" => format!("Unclosed group near index {length}"),
        "unclosed character class" => {
            format!("Unclosed character class near index {}", length.saturating_sub(1))
        }
        "unopened group" => match at.checked_sub(1) {
            Some(before) => format!("Unmatched closing ')' near index {before}"),
            None => "Unmatched closing ')'".to_owned(),
        },
        other => other.to_owned(),
    }
}
