//! Sets of terms that a query names by a pattern, or by a word that they are near to.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::Error;
use crate::evaluation::word_spans;
use crate::query::{CLAUSES_MAX, text_of};
use crate::regexp_signs::RegexpSigns;

/// Letters of a regular expression, as in Elasticsearch, and of a pattern with stars.
const LETTERS_MAX: usize = 1_000;

/// Bytes that the program of an expression may have, tried one after the other: the first that is enough is
/// counted.
const PROGRAM_BYTES: [usize; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Bytes of each automaton that is made while terms are compared.
const AUTOMATON_BYTES: usize = 128 << 10;

/// Bytes of the automaton for expressions with groups or word boundaries, at most.
const GROUPS_BYTES: usize = 1 << 20;

/// A regular expression for whole terms.
#[derive(Debug, Clone)]
pub(crate) struct TermPattern {
    regex: Regex,
    bytes: usize,
}

impl TermPattern {
    /// Compiles an expression, in which all signs have their meaning.
    ///
    /// # Errors
    /// Those of [`TermPattern::with_signs`].
    pub(crate) fn new(text: &str, ignores_case: bool) -> Result<Self, Error> {
        Self::with_signs(text, RegexpSigns::ALL, ignores_case)
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// It is malformed, has more than 1,000 letters or a sign that is not supported, or compiles to more than
    /// 4 MB.
    pub(crate) fn with_signs(text: &str, signs: RegexpSigns, ignores_case: bool) -> Result<Self, Error> {
        let letters = text.chars().count();
        if letters > LETTERS_MAX {
            return Err(Error::IllegalArgument(format!(
                "The length of regex [{letters}] used in the Regexp Query request has exceeded the allowed maximum of \
                 [{LETTERS_MAX}]: write several shorter ones"
            )));
        }
        let text = signs.translated(text)?;
        let flag = if ignores_case { "(?is)" } else { "(?s)" };
        let whole = format!("{flag}^(?:{text})$");
        for program in PROGRAM_BYTES {
            let mut builder = RegexBuilder::new(&whole);
            match builder.size_limit(program).dfa_size_limit(AUTOMATON_BYTES).build() {
                Ok(regex) => {
                    let has_groups = ["(", "\\b", "\\B"].iter().any(|sign| text.contains(sign));
                    let of_groups = if has_groups { GROUPS_BYTES } else { 0 };
                    // A program and an automaton for each direction, and as much again around the programs.
                    let bytes = 4 * program + 2 * AUTOMATON_BYTES + of_groups;
                    return Ok(TermPattern { regex, bytes });
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(Error::IllegalArgument(format!("[regexp] {error}"))),
            }
        }
        let bytes_max = PROGRAM_BYTES[PROGRAM_BYTES.len() - 1];
        Err(Error::IllegalArgument(format!(
            "[regexp] an expression compiles to more than {bytes_max} bytes: repeat less in it, or use smaller classes of letters"
        )))
    }

    /// Bytes that it takes while terms are compared, about, and at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a term matches.
    pub(crate) fn matches(&self, term: &str) -> bool {
        self.regex.is_match(term)
    }
}

impl PartialEq for TermPattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

/// Capital letters in a text that is compared with terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermCase {
    /// Words and terms as they stand.
    Exact,
    /// Words in lower case, as are the terms.
    Ignored,
    /// Words in lower case where the terms of a field are.
    OfField,
}

/// A text that is compared with terms.
pub(crate) struct CasedText {
    exact: String,
    lower: String,
    case: TermCase,
}

impl CasedText {
    pub(crate) fn new(text: &str, case: TermCase) -> Self {
        CasedText { exact: text.to_owned(), lower: text.to_lowercase(), case }
    }

    /// True if the text and a term pass a test. `is_lower` says that all terms of the field are in lower
    /// case.
    pub(crate) fn passes(&self, term: &str, is_lower: bool, test: impl Fn(&str, &str) -> bool) -> bool {
        match self.case {
            TermCase::Ignored => test(&self.lower, &term.to_lowercase()),
            TermCase::OfField if is_lower => test(&self.lower, term),
            TermCase::OfField | TermCase::Exact => test(&self.exact, term),
        }
    }
}

/// Terms that are near to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FuzzyTerms {
    /// Letters of a word from which on one edit and two edits are allowed; `(0, n)` allows one at least.
    one_from: usize,
    two_from: usize,
    /// Letters at the start that must be equal.
    pub(crate) prefix_length: usize,
    /// True if two letters that change places are one edit.
    pub(crate) has_swaps: bool,
}

impl FuzzyTerms {
    /// Terms with a fixed number of edits.
    pub(crate) fn with_edits(edits: usize) -> Self {
        let from = |least: usize| if edits >= least { 0 } else { usize::MAX };
        FuzzyTerms { one_from: from(1), two_from: from(2), prefix_length: 0, has_swaps: true }
    }

    /// Parses `fuzziness`: a number of edits, `AUTO` or `AUTO:3,6`.
    pub(crate) fn parse(value: Option<&Value>) -> Result<Self, Error> {
        let text = value.map_or_else(|| "AUTO".to_owned(), text_of);
        let malformed = || Error::IllegalArgument(format!("Invalid fuzziness value: {text}"));
        let upper = text.to_ascii_uppercase();
        if let Some(lengths) = upper.strip_prefix("AUTO") {
            let (low, high) = match lengths.strip_prefix(':') {
                None if lengths.is_empty() => (3, 6),
                None => return Err(malformed()),
                Some(lengths) => {
                    let (low, high) = lengths.split_once(',').ok_or_else(malformed)?;
                    let length = |text: &str| text.trim().parse::<usize>().map_err(|_| malformed());
                    (length(low)?, length(high)?)
                }
            };
            if low > high {
                return Err(malformed());
            }
            return Ok(FuzzyTerms { one_from: low, two_from: high, prefix_length: 0, has_swaps: true });
        }
        match text.parse::<f64>() {
            Ok(edits) if (0.0..=2.0).contains(&edits) => Ok(FuzzyTerms::with_edits(edits as usize)),
            _ => Err(malformed()),
        }
    }

    /// Number of edits that a word may have.
    fn edits(&self, word: &str) -> usize {
        let length = word.chars().count();
        usize::from(length >= self.one_from) + usize::from(length >= self.two_from)
    }

    /// True if a term is near to a word: by few letters added, removed, replaced or swapped.
    pub(crate) fn has(&self, term: &str, word: &str) -> bool {
        let edits = self.edits(word);
        let (left, right): (Vec<char>, Vec<char>) = (term.chars().collect(), word.chars().collect());
        let prefix = self.prefix_length.min(right.len());
        if left.len().abs_diff(right.len()) > edits || left.get(..prefix) != right.get(..prefix) {
            return false;
        }
        // Rows of the table of distances, of which only cells near the diagonal can be within the limit: the
        // one at `edits + to - at` is that of the first letters of both.
        let far = edits + 1;
        let cell = |row: &[usize], at: usize, to: usize| {
            (edits + to).checked_sub(at).and_then(|column| row.get(column)).copied().unwrap_or(far)
        };
        let mut before: Vec<usize> = Vec::new();
        let mut row: Vec<usize> =
            (0..=2 * edits).map(|column| column.checked_sub(edits).unwrap_or(far)).collect();
        for (at, letter) in (1usize..).zip(&left) {
            let mut next: Vec<usize> = Vec::with_capacity(row.len());
            for column in 0..=2 * edits {
                let cost = match (at + column).checked_sub(edits) {
                    Some(0) => at,
                    Some(to) if to <= right.len() => {
                        let substituted = cell(&row, at - 1, to - 1) + usize::from(*letter != right[to - 1]);
                        let shorter = column.checked_sub(1).map_or(far, |column| next[column]);
                        let cost = substituted.min(cell(&row, at - 1, to) + 1).min(shorter + 1);
                        let is_swap = self.has_swaps
                            && at > 1
                            && to > 1
                            && *letter == right[to - 2]
                            && left[at - 2] == right[to - 1];
                        if is_swap { cost.min(cell(&before, at - 2, to - 2) + 1) } else { cost }
                    }
                    _ => far,
                };
                next.push(cost);
            }
            before = std::mem::replace(&mut row, next);
        }
        cell(&row, left.len(), right.len()) <= edits
    }
}

/// Checks that a pattern with stars is short enough: its letters are compared with those of each value.
///
/// # Errors
/// It has more than 1,000 letters.
pub(crate) fn check_wildcard(pattern: &str) -> Result<(), Error> {
    let letters = pattern.chars().count();
    if letters <= LETTERS_MAX {
        return Ok(());
    }
    Err(Error::IllegalArgument(format!(
        "The length of wildcard [{letters}] has exceeded the allowed maximum of [{LETTERS_MAX}]: write several shorter ones"
    )))
}

/// Words of the text of a query.
pub(crate) const WORDS_MAX: usize = 4_096;

/// Bytes of the text of a query, once for each of its fields.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Bytes of a name in a query for words.
const NAME_BYTES_MAX: usize = 1_000;

/// Checks the name of a field or an analyzer in a query for words: it is kept with each of them.
///
/// # Errors
/// It has more than 1,000 bytes.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match name.len() > NAME_BYTES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "a name in a query for words has {} bytes, and may have {NAME_BYTES_MAX}; a [term] query takes any name",
            name.len()
        ))),
        false => Ok(()),
    }
}

/// Checks that the text of a query does not have too many words for the number of its fields: each word is
/// compared with those of each field, and the text is kept for each.
///
/// # Errors
/// It has more than 4,096 words, or more than 65,536 for all fields together, or more than 16 MB.
pub(crate) fn check_words(text: &str, fields: usize) -> Result<(), Error> {
    check_clauses(word_spans(text).len(), fields)?;
    match text.len().saturating_mul(fields) > TEXT_BYTES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "the text of a query has {} bytes and {fields} fields, and may have {TEXT_BYTES_MAX} bytes for all of them; search for \
             fewer words or in fewer fields",
            text.len()
        ))),
        false => Ok(()),
    }
}

/// Checks the number of the words of the text of a query, or of its clauses, some of which have no words.
///
/// # Errors
/// There are more than 4,096, or more than 65,536 for all fields together.
pub(crate) fn check_clauses(words: usize, fields: usize) -> Result<(), Error> {
    let fields = fields.max(1);
    let words_max = WORDS_MAX.min(CLAUSES_MAX / fields);
    if words <= words_max {
        return Ok(());
    }
    Err(Error::IllegalArgument(format!(
        "maxClauseCount is set to {words_max} words of a text for {fields} fields, and the text of a query has {words}: search \
         for fewer words or in fewer fields, or for exact values by a [terms] query"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_counted_by_the_size_of_their_programs() {
        let bytes = |text: &str| TermPattern::new(text, false).expect("the expression compiles").bytes();
        assert!(bytes("x.*") < bytes(r"\w{3}"), "a larger program counts more");
        assert!(bytes("ab") < bytes("(ab)"), "so do groups");
        assert_eq!(bytes("ab"), bytes(&"ab".repeat(50)), "small ones count alike");
        let too_long = "a".repeat(1_001);
        for (text, expected) in [
            ("a(", "[regexp]"),
            (r"\w{1000}", "repeat less"),
            ("(a{1000}){1000}", "repeat less"),
            (too_long.as_str(), "The length of regex [1001]"),
        ] {
            let error = TermPattern::new(text, false).expect_err("the expression is refused");
            assert_eq!(error.status(), 400);
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        let long = TermPattern::new(&"a".repeat(1_000), true).expect("the expression compiles");
        assert!(long.matches(&"A".repeat(1_000)) && !long.matches("a"));
    }

    #[test]
    fn fuzziness_is_a_number_or_by_length() {
        for (fuzziness, word, expected) in [
            (json!(0), "abcdefgh", 0),
            (json!(1), "a", 1),
            (json!("2"), "abc", 2),
            (json!("AUTO"), "ab", 0),
            (json!("AUTO"), "abc", 1),
            (json!("auto"), "abcdef", 2),
            (json!("AUTO:4,7"), "abc", 0),
            (json!("AUTO:4,7"), "abcdefg", 2),
        ] {
            let parsed = FuzzyTerms::parse(Some(&fuzziness)).expect("the fuzziness is well-formed");
            assert_eq!(parsed.edits(word), expected, "{fuzziness} of {word}");
        }
        for malformed in
            [json!(3), json!(-1), json!("many"), json!("AUTO:6,3"), json!("AUTO:1"), json!("AUTOMATIC")]
        {
            assert!(FuzzyTerms::parse(Some(&malformed)).is_err(), "{malformed} is taken");
        }
    }

    /// Distances by the whole table.
    fn edits_between(left: &[char], right: &[char], has_swaps: bool) -> usize {
        let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
        for at in 1..=left.len() {
            let mut row = vec![at];
            for to in 1..=right.len() {
                let substituted = rows[at - 1][to - 1] + usize::from(left[at - 1] != right[to - 1]);
                let mut cost = substituted.min(rows[at - 1][to] + 1).min(row[to - 1] + 1);
                if has_swaps
                    && at > 1
                    && to > 1
                    && left[at - 1] == right[to - 2]
                    && left[at - 2] == right[to - 1]
                {
                    cost = cost.min(rows[at - 2][to - 2] + 1);
                }
                row.push(cost);
            }
            rows.push(row);
        }
        rows[left.len()][right.len()]
    }

    #[test]
    fn words_are_near_by_the_number_of_their_edits() {
        let mut words = vec![String::new()];
        let mut at = 0;
        while at < words.len() {
            if words[at].len() < 5 {
                words.extend(["a", "b"].map(|letter| format!("{}{letter}", words[at])));
            }
            at += 1;
        }
        words.push("a".repeat(100_000));
        words.push(format!("{}ba", "a".repeat(99_998)));
        let letters: Vec<Vec<char>> = words.iter().map(|word| word.chars().collect()).collect();
        for (one, left) in words.iter().zip(&letters) {
            for (other, right) in words.iter().zip(&letters) {
                for (edits, has_swaps) in [(0, false), (1, false), (1, true), (2, true)] {
                    let fuzziness = FuzzyTerms { has_swaps, ..FuzzyTerms::with_edits(edits) };
                    let is_long = left.len().min(right.len()) > 5;
                    let expected = match is_long {
                        true => one == other || edits > 0,
                        false => {
                            left.len().abs_diff(right.len()) <= edits
                                && edits_between(left, right, has_swaps) <= edits
                        }
                    };
                    assert_eq!(fuzziness.has(one, other), expected, "{edits} between two words, {has_swaps}");
                }
            }
        }
    }

    #[test]
    fn texts_of_queries_have_few_words() {
        assert!(check_wildcard(&"*a".repeat(500)).is_ok());
        let error = check_wildcard(&"*a".repeat(501)).expect_err("a longer pattern is refused");
        assert!(error.to_string().contains("[1002]"), "{error}");
        for (words, fields, is_accepted) in
            [(4_096, 0, true), (4_097, 1, false), (64, 1_024, true), (65, 1_024, false), (1, 65_537, false)]
        {
            let checked = check_words(&"a ".repeat(words), fields);
            assert_eq!(checked.is_ok(), is_accepted, "{words} words for {fields} fields: {checked:?}");
        }
        let long = "a".repeat(1 << 20);
        assert!(check_words(&long, 16).is_ok() && check_words(&long, 17).is_err());
        assert!(check_name(&long[..1_000]).is_ok() && check_name(&long[..1_001]).is_err());
    }
}
