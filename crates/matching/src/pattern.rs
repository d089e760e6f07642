use std::ops::Range;

use millrace_linguistics::TextToken;
use millrace_plan::WordPattern;
use regex::{Regex, RegexBuilder};

use crate::Error;
use crate::fuzzy::FuzzyPattern;

/// A [`WordPattern`] prepared for comparison with words or whole values.
///
/// Both sides are already folded; only a regular expression is compiled here to ignore case if case does not
/// matter.
#[derive(Debug, Clone)]
pub struct WordMatcher {
    kind: PatternKind,
}

#[derive(Debug, Clone)]
enum PatternKind {
    Exact(String),
    Any(Vec<String>),
    Written(String),
    Word {
        written: String,
        stems: Vec<String>,
    },
    Prefix(String),
    Suffix(String),
    Substring(String),
    Regex {
        regex: Regex,
        /// True if a match does not depend on the surrounding text, and is never empty.
        free: bool,
    },
    Fuzzy(FuzzyPattern),
}

/// Condition of a pattern on a word, for searches that treat some of them in a way of their own.
pub(crate) enum WordShape<'m> {
    /// Words that end with this.
    Suffix(&'m str),
    /// Words that contain this.
    Substring(&'m str),
    /// Words with few differences.
    Fuzzy(&'m FuzzyPattern),
    /// Any other condition.
    Other,
}

/// Memory limit of a compiled regular expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;

impl WordMatcher {
    /// Prepares a pattern of `field`.
    ///
    /// # Errors
    /// [`Error::Pattern`] for an invalid regular expression.
    pub fn new(field: &str, pattern: &WordPattern, cased: bool) -> Result<Self, Error> {
        let kind = match pattern {
            WordPattern::Exact(word) => PatternKind::Exact(word.clone()),
            WordPattern::Any(words) => PatternKind::Any(words.clone()),
            WordPattern::Written(word) => PatternKind::Written(word.clone()),
            WordPattern::Word { written, stems } => {
                PatternKind::Word { written: written.clone(), stems: stems.clone() }
            }
            WordPattern::Prefix(prefix) => PatternKind::Prefix(prefix.clone()),
            WordPattern::Suffix(suffix) => PatternKind::Suffix(suffix.clone()),
            WordPattern::Substring(part) => PatternKind::Substring(part.clone()),
            WordPattern::Regex(pattern) => RegexBuilder::new(pattern)
                .case_insensitive(!cased)
                .size_limit(REGEX_BYTES)
                .build()
                .map(|regex| PatternKind::Regex {
                    free: !looks_around(pattern) && !regex.is_match(""),
                    regex,
                })
                .map_err(|error| Error::Pattern {
                    field: field.to_owned(),
                    pattern: pattern.clone(),
                    reason: error.to_string(),
                })?,
            WordPattern::Fuzzy { word, max_edits, prefix_length, prefix } => {
                PatternKind::Fuzzy(FuzzyPattern::new(word, *max_edits, *prefix_length, *prefix))
            }
        };
        Ok(WordMatcher { kind })
    }

    /// True if the pattern matches a folded word or value.
    pub fn matches(&self, word: &str) -> bool {
        match &self.kind {
            PatternKind::Exact(exact) | PatternKind::Written(exact) => word == exact,
            PatternKind::Word { written, stems } => word == written || stems.iter().any(|stem| stem == word),
            PatternKind::Any(words) => words.iter().any(|any| any == word),
            PatternKind::Prefix(prefix) => word.starts_with(prefix.as_str()),
            PatternKind::Suffix(suffix) => word.ends_with(suffix.as_str()),
            PatternKind::Substring(part) => word.contains(part.as_str()),
            PatternKind::Regex { regex, .. } => regex.is_match(word),
            PatternKind::Fuzzy(fuzzy) => fuzzy.matches(word),
        }
    }

    /// True if the pattern matches a word of a text: by its stem, or by its written form.
    pub fn matches_token(&self, token: &TextToken<'_>) -> bool {
        match &self.kind {
            PatternKind::Exact(_) | PatternKind::Any(_) => self.matches(token.text),
            PatternKind::Word { written, stems } => {
                token.written == written || stems.iter().any(|stem| stem == token.text)
            }
            _ => self.matches(token.written),
        }
    }

    /// Stems of the matching words, for a pattern on stems.
    pub(crate) fn stems(&self) -> Option<&[String]> {
        match &self.kind {
            PatternKind::Exact(word) => Some(std::slice::from_ref(word)),
            PatternKind::Any(words) | PatternKind::Word { stems: words, .. } => Some(words),
            _ => None,
        }
    }

    /// The single word that the pattern matches in its written form.
    pub(crate) fn written(&self) -> Option<&str> {
        match &self.kind {
            PatternKind::Written(word) | PatternKind::Word { written: word, .. } => Some(word),
            _ => None,
        }
    }

    /// The matching bytes of a word: all bytes, except for a pattern that may match a part of it.
    pub fn part(&self, word: &str) -> Range<usize> {
        match &self.kind {
            PatternKind::Substring(part) => {
                word.find(part.as_str()).map_or(0..word.len(), |at| at..at + part.len())
            }
            _ => 0..word.len(),
        }
    }

    /// Common prefix of all matching words; empty if they have none.
    pub(crate) fn prefix(&self) -> &str {
        match &self.kind {
            PatternKind::Prefix(prefix) => prefix,
            PatternKind::Fuzzy(fuzzy) => fuzzy.exact(),
            _ => "",
        }
    }

    /// The condition on a word.
    pub(crate) fn shape(&self) -> WordShape<'_> {
        match &self.kind {
            PatternKind::Suffix(suffix) => WordShape::Suffix(suffix),
            PatternKind::Substring(part) => WordShape::Substring(part),
            PatternKind::Fuzzy(fuzzy) => WordShape::Fuzzy(fuzzy),
            _ => WordShape::Other,
        }
    }

    /// The regular expression, if a match does not depend on the surrounding text and is never empty.
    pub(crate) fn free_regex(&self) -> Option<&Regex> {
        match &self.kind {
            PatternKind::Regex { regex, free: true } => Some(regex),
            _ => None,
        }
    }

    /// True for a regular expression, which compares letters without folding, except for case.
    pub(crate) const fn is_regex(&self) -> bool {
        matches!(self.kind, PatternKind::Regex { .. })
    }

    /// True if [`WordMatcher::prefix`] describes the pattern completely.
    pub(crate) const fn is_prefix(&self) -> bool {
        matches!(self.kind, PatternKind::Prefix(_))
    }

    /// Estimated rarity of the matching words: the pattern with the greater number probably has fewer
    /// matches.
    pub(crate) fn rarity(&self) -> usize {
        match &self.kind {
            PatternKind::Exact(word) | PatternKind::Written(word) => 2 * word.len() + 1,
            PatternKind::Any(words) | PatternKind::Word { stems: words, .. } => {
                2 * words.iter().map(String::len).min().unwrap_or_default()
            }
            PatternKind::Prefix(part) | PatternKind::Suffix(part) | PatternKind::Substring(part) => {
                part.len()
            }
            PatternKind::Fuzzy(fuzzy) => fuzzy.len(),
            PatternKind::Regex { .. } => 0,
        }
    }
}

/// True if an expression depends on the start or end of a text or word, or if that cannot be determined.
fn looks_around(pattern: &str) -> bool {
    regex_syntax::parse(pattern).map_or(true, |parsed| !parsed.properties().look_set().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: WordPattern, yes: &[&str], no: &[&str]) {
        let matcher = WordMatcher::new("f", &pattern, false).unwrap();
        yes.iter().for_each(|word| assert!(matcher.matches(word), "{pattern:?} {word}"));
        no.iter().for_each(|word| assert!(!matcher.matches(word), "{pattern:?} {word}"));
    }

    #[test]
    fn patterns() {
        check(WordPattern::Exact("cat".into()), &["cat"], &["cats", "", "ca"]);
        check(WordPattern::Any(vec!["cat".into(), "dog".into()]), &["cat", "dog"], &["cats"]);
        check(WordPattern::Prefix("ca".into()), &["ca", "cat"], &["c", "acat"]);
        check(WordPattern::Suffix("at".into()), &["cat"], &["cats"]);
        check(WordPattern::Substring("at".into()), &["cats"], &["act"]);
        check(WordPattern::Regex("^c.t$".into()), &["cat", "CUT"], &["cats"]);
        check(WordPattern::Regex("a".into()), &["cats"], &["dog"]);
        let fuzzy = |word: &str, max_edits, prefix_length, prefix| WordPattern::Fuzzy {
            word: word.to_owned(),
            max_edits,
            prefix_length,
            prefix,
        };
        check(
            fuzzy("kitten", 2, 0, false),
            &["kitten", "sitten", "kittens", "kitte", "mittens"],
            &["sitting", "kit"],
        );
        check(fuzzy("kitten", 2, 1, false), &["kitte"], &["sitten"]);
        check(fuzzy("kit", 1, 0, true), &["kitchen", "sitchen", "ktchen", "ki"], &["stchen", "x"]);
        check(fuzzy("été", 1, 0, false), &["étè", "été"], &["xyz"]);
    }

    #[test]
    fn a_bad_regular_expression_is_refused() {
        let error =
            WordMatcher::new("title", &WordPattern::Regex("(".into()), false).unwrap_err().to_string();
        assert!(error.contains("'(' of field 'title'"), "{error}");
        assert!(WordMatcher::new("title", &WordPattern::Regex("(a{1000}){1000}".into()), false).is_err());
    }
}
