use std::ops::Range;

use millrace_linguistics::TextToken;
use millrace_plan::WordPattern;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, Look};

use crate::Error;
use crate::fuzzy::FuzzyMatcher;

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
        ends: RequiredEnds,
        /// Bytes that are in each match, with or without case.
        part: Option<Box<[u8]>>,
    },
    Fuzzy(FuzzyMatcher),
}

/// Condition of a pattern on a word, for searches that treat some of them in a way of their own.
pub(crate) enum WordShape<'m> {
    /// Words that end with this.
    Suffix(&'m str),
    /// Words that contain this.
    Substring(&'m str),
    /// Words with few differences.
    Fuzzy(&'m FuzzyMatcher),
    /// Any other condition.
    Other,
}

/// Memory limit of a compiled regular expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;

impl WordMatcher {
    /// Prepares a pattern of `field` for its words, which are folded: a regular expression ignores case.
    ///
    /// # Errors
    /// [`Error::Pattern`] for an invalid regular expression.
    pub fn new(field: &str, pattern: &WordPattern) -> Result<Self, Error> {
        Self::with_case(field, pattern, false)
    }

    /// Prepares a pattern of `field` for whole values. With `cased`, a regular expression heeds case.
    ///
    /// # Errors
    /// Those of [`WordMatcher::new`].
    pub fn with_case(field: &str, pattern: &WordPattern, cased: bool) -> Result<Self, Error> {
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
                    ends: RequiredEnds::of(pattern),
                    part: required_part(pattern),
                    regex,
                })
                .map_err(|error| Error::Pattern {
                    field: field.to_owned(),
                    pattern: pattern.clone(),
                    reason: error.to_string(),
                })?,
            WordPattern::Fuzzy { word, max_edits, prefix_length, prefix } => {
                PatternKind::Fuzzy(FuzzyMatcher::new(word, *max_edits, *prefix_length, *prefix))
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
            PatternKind::Regex { regex, ends, .. } => ends.admit(word) && regex.is_match(word),
            PatternKind::Fuzzy(fuzzy) => fuzzy.pattern().matches(word),
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

    /// True if the pattern names its words, by their stems or as written: they are looked up.
    pub(crate) fn names_words(&self) -> bool {
        self.stems().is_some() || self.written().is_some()
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

    /// Common prefix of the written forms of all matching words; empty if they have none.
    pub fn prefix(&self) -> &str {
        match &self.kind {
            PatternKind::Prefix(prefix) => prefix,
            PatternKind::Fuzzy(fuzzy) => fuzzy.pattern().exact(),
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
            PatternKind::Regex { regex, free: true, .. } => Some(regex),
            _ => None,
        }
    }

    /// Bytes that are in each text that a regular expression matches, in the case of its letters or another.
    pub(crate) fn required_part(&self) -> Option<&[u8]> {
        match &self.kind {
            PatternKind::Regex { part, .. } => part.as_deref(),
            _ => None,
        }
    }

    /// True for a regular expression, which compares letters without folding, except for case.
    pub(crate) const fn is_regex(&self) -> bool {
        matches!(self.kind, PatternKind::Regex { .. })
    }

    /// True if words are only compared with texts, which takes little time.
    pub(crate) const fn is_comparison(&self) -> bool {
        !matches!(self.kind, PatternKind::Regex { .. } | PatternKind::Fuzzy(_) | PatternKind::Substring(_))
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
            PatternKind::Fuzzy(fuzzy) => fuzzy.pattern().len(),
            PatternKind::Regex { .. } => 0,
        }
    }
}

/// Literals with which each match of a regular expression begins and ends, where it is tied to the start or
/// the end of the text: comparing them costs much less than running the expression.
#[derive(Debug, Default, Clone)]
struct RequiredEnds {
    /// One of these begins the text; no condition if there are none.
    starts: Vec<Box<[u8]>>,
    /// One of these ends it.
    ends: Vec<Box<[u8]>>,
}

impl RequiredEnds {
    fn of(pattern: &str) -> Self {
        let Ok(parsed) = regex_syntax::parse(pattern) else { return RequiredEnds::default() };
        let properties = parsed.properties();
        let literals = |is_tied: bool, kind: ExtractKind| match is_tied {
            true => literals(&parsed, kind).unwrap_or_default(),
            false => Vec::new(),
        };
        RequiredEnds {
            starts: literals(properties.look_set_prefix().contains(Look::Start), ExtractKind::Prefix),
            ends: literals(properties.look_set_suffix().contains(Look::End), ExtractKind::Suffix),
        }
    }

    /// False if the expression certainly does not match, with case or without. Letters beyond ASCII have
    /// other forms, so that texts with them are left to the expression.
    fn admit(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let starts = |literal: &[u8]| {
            text.get(..literal.len()).is_some_and(|start| start.eq_ignore_ascii_case(literal))
        };
        let ends = |literal: &[u8]| {
            let end = text.len().checked_sub(literal.len()).map(|at| &text[at..]);
            end.is_some_and(|end| end.eq_ignore_ascii_case(literal))
        };
        let holds = (self.starts.is_empty() || self.starts.iter().any(|literal| starts(literal)))
            && (self.ends.is_empty() || self.ends.iter().any(|literal| ends(literal)));
        holds || !text.is_ascii()
    }
}

/// Literals with which all matches begin or end; `None` if there are too many, or some say nothing.
fn literals(parsed: &Hir, kind: ExtractKind) -> Option<Vec<Box<[u8]>>> {
    let found = Extractor::new().kind(kind).extract(parsed);
    let literals = found.literals()?.iter().map(|literal| literal.as_bytes());
    // A letter beyond ASCII can match one of ASCII without case.
    literals.map(|literal| (!literal.is_empty() && literal.is_ascii()).then(|| literal.into())).collect()
}

/// The longer of the literals with which all matches of a regular expression begin and end.
fn required_part(pattern: &str) -> Option<Box<[u8]>> {
    let parsed = regex_syntax::parse(pattern).ok()?;
    let literals = |kind| Extractor::new().kind(kind).extract(&parsed);
    let (starts, ends) = (literals(ExtractKind::Prefix), literals(ExtractKind::Suffix));
    let parts = [starts.longest_common_prefix(), ends.longest_common_suffix()];
    parts.into_iter().flatten().max_by_key(|part| part.len()).map(Box::from)
}

/// True if an expression depends on the start or end of a text or word, or if that cannot be determined.
fn looks_around(pattern: &str) -> bool {
    regex_syntax::parse(pattern).map_or(true, |parsed| !parsed.properties().look_set().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn required_ends_leave_no_match_out(
            pattern in prop::collection::vec(
                prop::sample::select(vec![
                    "^", "$", "a", "b", "K", "é", "\u{212A}", ".", ".*", "[ab]", "[^a]", "(?:a|bb)", "(?i)", "b?", "k+", "|",
                ]),
                0..8,
            ),
            texts in prop::collection::vec("[abkKAé\u{212A}ſ]{0,5}", 20),
            cased in any::<bool>(),
        ) {
            let pattern = pattern.concat();
            let plain = RegexBuilder::new(&pattern).case_insensitive(!cased).build();
            if let (Ok(plain), Ok(matcher)) =
                (plain, WordMatcher::with_case("f", &WordPattern::Regex(pattern.clone()), cased))
            {
                for text in &texts {
                    prop_assert_eq!(matcher.matches(text), plain.is_match(text), "{} in {}", pattern, text);
                }
            }
        }
    }

    #[test]
    fn required_ends_of_expressions() {
        for (pattern, starts, ends) in [
            ("^uid00.*7$", &["uid00"][..], &["7"][..]),
            ("e0.7$", &[], &["7"]),
            ("^(?:ab|cd)x", &["abx", "cdx"], &[]),
            ("^a|b", &[], &[]),
            ("^.a", &[], &[]),
            ("^é", &[], &[]),
            ("dat[ae]", &[], &[]),
            ("", &[], &[]),
        ] {
            let required = RequiredEnds::of(pattern);
            let text = |literals: &[Box<[u8]>]| -> Vec<String> {
                literals.iter().map(|literal| String::from_utf8_lossy(literal).into_owned()).collect()
            };
            assert_eq!(
                (text(&required.starts), text(&required.ends)),
                (
                    starts.iter().map(|text| (*text).to_owned()).collect(),
                    ends.iter().map(|text| (*text).to_owned()).collect(),
                ),
                "{pattern}"
            );
        }
    }

    #[test]
    fn required_parts_of_expressions() {
        for (pattern, part) in [
            ("dat[ae]", "dat"),
            ("^uid00.*7$", "uid00"),
            (".*ing", "ing"),
            ("abc|abd", "ab"),
            ("a|b", ""),
            ("", ""),
        ] {
            let required = required_part(pattern).unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&required), part, "{pattern}");
        }
    }

    #[track_caller]
    fn check(pattern: WordPattern, yes: &[&str], no: &[&str]) {
        let matcher = WordMatcher::new("f", &pattern).unwrap();
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
        let error = WordMatcher::new("title", &WordPattern::Regex("(".into())).unwrap_err().to_string();
        assert!(error.contains("'(' of field 'title'"), "{error}");
        assert!(WordMatcher::new("title", &WordPattern::Regex("(a{1000}){1000}".into())).is_err());
    }
}
