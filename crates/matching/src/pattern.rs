use std::ops::Range;

use millrace_linguistics::Token;
use millrace_plan::WordPattern;
use regex::{Regex, RegexBuilder};

use crate::Error;

/// A [`WordPattern`] made ready to be compared with words or whole values.
///
/// Both sides are folded already, except that a regular expression is compiled here to ignore case where case does not count.
#[derive(Debug, Clone)]
pub struct WordMatcher {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
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
        /// It says the same of a text wherever that stands: it does not look at what is around it, and does not match nothing.
        free: bool,
    },
    Fuzzy(Fuzzy),
}

/// How much memory a compiled regular expression may take.
const REGEX_BYTES: usize = 1 << 20;

impl WordMatcher {
    /// Makes a pattern of `field` ready.
    ///
    /// # Errors
    /// [`Error::Pattern`] for a regular expression that cannot be used.
    pub fn new(field: &str, pattern: &WordPattern, cased: bool) -> Result<Self, Error> {
        let kind = match pattern {
            WordPattern::Exact(word) => Kind::Exact(word.clone()),
            WordPattern::Any(words) => Kind::Any(words.clone()),
            WordPattern::Written(word) => Kind::Written(word.clone()),
            WordPattern::Word { written, stems } => {
                Kind::Word { written: written.clone(), stems: stems.clone() }
            }
            WordPattern::Prefix(prefix) => Kind::Prefix(prefix.clone()),
            WordPattern::Suffix(suffix) => Kind::Suffix(suffix.clone()),
            WordPattern::Substring(part) => Kind::Substring(part.clone()),
            WordPattern::Regex(pattern) => RegexBuilder::new(pattern)
                .case_insensitive(!cased)
                .size_limit(REGEX_BYTES)
                .build()
                .map(|regex| Kind::Regex { free: !looks_around(pattern) && !regex.is_match(""), regex })
                .map_err(|error| Error::Pattern {
                    field: field.to_owned(),
                    pattern: pattern.clone(),
                    reason: error.to_string(),
                })?,
            WordPattern::Fuzzy { word, max_edits, prefix_length, prefix } => {
                Kind::Fuzzy(Fuzzy::new(word, *max_edits, *prefix_length, *prefix))
            }
        };
        Ok(WordMatcher { kind })
    }

    /// Whether a folded word or value is one that the pattern describes.
    pub fn matches(&self, word: &str) -> bool {
        match &self.kind {
            Kind::Exact(exact) | Kind::Written(exact) => word == exact,
            Kind::Word { written, stems } => word == written || stems.iter().any(|stem| stem == word),
            Kind::Any(words) => words.iter().any(|any| any == word),
            Kind::Prefix(prefix) => word.starts_with(prefix.as_str()),
            Kind::Suffix(suffix) => word.ends_with(suffix.as_str()),
            Kind::Substring(part) => word.contains(part.as_str()),
            Kind::Regex { regex, .. } => regex.is_match(word),
            Kind::Fuzzy(fuzzy) => fuzzy.matches(word),
        }
    }

    /// Whether a word of a text is one that the pattern describes: by its stem, or as it was written.
    pub fn matches_token(&self, token: &Token<'_>) -> bool {
        match &self.kind {
            Kind::Exact(_) | Kind::Any(_) => self.matches(token.text),
            Kind::Word { written, stems } => {
                token.written == written || stems.iter().any(|stem| stem == token.text)
            }
            _ => self.matches(token.written),
        }
    }

    /// The stems of the words that it describes, where it is about stems.
    pub(crate) fn stems(&self) -> Option<&[String]> {
        match &self.kind {
            Kind::Exact(word) => Some(std::slice::from_ref(word)),
            Kind::Any(words) | Kind::Word { stems: words, .. } => Some(words),
            _ => None,
        }
    }

    /// The one word that it describes as it was written.
    pub(crate) fn written(&self) -> Option<&str> {
        match &self.kind {
            Kind::Written(word) | Kind::Word { written: word, .. } => Some(word),
            _ => None,
        }
    }

    /// Which bytes of a word that it describes it is about: all of them, but of a part that may stand anywhere.
    pub fn part(&self, word: &str) -> Range<usize> {
        match &self.kind {
            Kind::Substring(part) => word.find(part.as_str()).map_or(0..word.len(), |at| at..at + part.len()),
            _ => 0..word.len(),
        }
    }

    /// What all words that it describes begin with; empty where that can be anything.
    pub(crate) fn prefix(&self) -> &str {
        match &self.kind {
            Kind::Prefix(prefix) => prefix,
            Kind::Fuzzy(fuzzy) => &fuzzy.exact,
            _ => "",
        }
    }

    /// A regular expression that says the same of a text wherever it stands: it does not look at what is around it, and does not match
    /// nothing.
    pub(crate) fn free_regex(&self) -> Option<&Regex> {
        match &self.kind {
            Kind::Regex { regex, free: true } => Some(regex),
            _ => None,
        }
    }

    /// Whether it is a regular expression, which is about letters as they are, but for their case.
    pub(crate) const fn is_regex(&self) -> bool {
        matches!(self.kind, Kind::Regex { .. })
    }

    /// Whether [`WordMatcher::prefix`] says all there is to say.
    pub(crate) const fn is_prefix(&self) -> bool {
        matches!(self.kind, Kind::Prefix(_))
    }

    /// About how rare its words are: of two patterns the one with the greater number is likely to be found less often.
    pub(crate) fn rarity(&self) -> usize {
        match &self.kind {
            Kind::Exact(word) | Kind::Written(word) => 2 * word.len() + 1,
            Kind::Any(words) | Kind::Word { stems: words, .. } => {
                2 * words.iter().map(String::len).min().unwrap_or_default()
            }
            Kind::Prefix(part) | Kind::Suffix(part) | Kind::Substring(part) => part.len(),
            Kind::Fuzzy(fuzzy) => fuzzy.word.len(),
            Kind::Regex { .. } => 0,
        }
    }
}

/// A word and how much may differ from it.
#[derive(Debug, Clone)]
struct Fuzzy {
    /// What must be the same at the beginning.
    exact: String,
    word: Vec<char>,
    max_edits: usize,
    prefix: bool,
}

impl Fuzzy {
    fn new(word: &str, max_edits: u32, prefix_length: u32, prefix: bool) -> Self {
        Fuzzy {
            exact: word.chars().take(prefix_length as usize).collect(),
            word: word.chars().collect(),
            max_edits: max_edits as usize,
            prefix,
        }
    }

    /// Edit distance by rows over the candidate's characters: `row[i]` is the distance of the first `i` characters of the word to
    /// what was read. Stops where no entry can come back below the limit.
    fn matches(&self, candidate: &str) -> bool {
        if !candidate.starts_with(&self.exact) {
            return false;
        }
        let mut row: Vec<usize> = (0..=self.word.len()).collect();
        let mut within = self.prefix && self.word.len() <= self.max_edits;
        for (read, c) in candidate.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = read + 1;
            for i in 1..row.len() {
                let substituted = diagonal + usize::from(self.word[i - 1] != c);
                diagonal = row[i];
                row[i] = substituted.min(row[i] + 1).min(row[i - 1] + 1);
            }
            within |= self.prefix && row[self.word.len()] <= self.max_edits;
            if within || row.iter().all(|distance| *distance > self.max_edits) {
                return within;
            }
        }
        within || row[self.word.len()] <= self.max_edits
    }
}

/// Whether an expression asks where a text or a word begins or ends. Where it cannot be told: yes.
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
