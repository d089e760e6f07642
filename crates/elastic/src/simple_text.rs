//! The language of `simple_query_string`: what people type. No text is an error: a mark that means nothing
//! where it stands is passed over.
//!
//! `+` is and, `|` is or, `-` before a clause is not; quotes make a phrase, parentheses a group; `*` ends the
//! beginning of a word, `~2` follows a word with up to two edits or a phrase with gaps; `\` takes the meaning
//! from a mark. Operators bind from left to right.

use std::cell::Cell;

use serde_json::Value;

use crate::Error;
use crate::query::{BoolQuery, SearchQuery, text_of};
use crate::query_terms::{FuzzyTerms, TermCase, check_clauses, check_words};
use crate::query_text::TextDefaults;

/// Depth of groups, and changes between operators in one, which are as deep.
const DEPTH_MAX: usize = 20;

/// Marks that have a meaning, as `flags` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimpleMarks(i64);

/// Names of marks, and their bits.
const MARKS: [(&str, i64); 13] = [
    ("AND", 1),
    ("NOT", 1 << 1),
    ("OR", 1 << 2),
    ("PREFIX", 1 << 3),
    ("PHRASE", 1 << 4),
    ("PRECEDENCE", 1 << 5),
    ("ESCAPE", 1 << 6),
    ("WHITESPACE", 1 << 7),
    ("FUZZY", 1 << 8),
    ("NEAR", 1 << 9),
    ("SLOP", 1 << 9),
    ("NONE", 0),
    ("ALL", -1),
];

impl SimpleMarks {
    pub(crate) const ALL: Self = SimpleMarks(-1);

    /// Parses names with `|` between, or the number of their bits.
    ///
    /// # Errors
    /// A name is not one of a mark.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        if let Some(bits) = value.as_i64() {
            return Ok(SimpleMarks(bits));
        }
        let mut bits = 0;
        for name in text_of(value).split('|').map(str::trim).filter(|name| !name.is_empty()) {
            let known = MARKS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            bits |= known.map(|(_, bit)| *bit).ok_or_else(|| {
                let names: Vec<&str> = MARKS.iter().map(|(name, _)| *name).collect();
                Error::IllegalArgument(format!(
                    "[simple_query_string] unknown flag [{name}]; there are [{}]",
                    names.join(", ")
                ))
            })?;
        }
        Ok(SimpleMarks(bits))
    }

    /// True if one of these marks has its meaning.
    fn has(self, names: &[&str]) -> bool {
        MARKS.iter().any(|(name, bit)| self.0 & bit != 0 && names.contains(name))
    }

    /// A letter of the text, which is a mark if it has a meaning.
    fn letter(self, letter: char) -> SimpleLetter {
        let names: &[&str] = match letter {
            '+' => &["AND"],
            '-' => &["NOT"],
            '|' => &["OR"],
            '*' => &["PREFIX"],
            '"' => &["PHRASE"],
            '(' | ')' => &["PRECEDENCE"],
            '~' => &["FUZZY", "NEAR"],
            other if other.is_whitespace() => &["WHITESPACE"],
            other => return SimpleLetter::Open(other),
        };
        if self.has(names) { SimpleLetter::Open(letter) } else { SimpleLetter::Literal(letter) }
    }
}

/// Parses a text.
///
/// # Errors
/// Groups are too deep, operators change too often, or there are too many words.
pub(crate) fn parse(text: &str, marks: SimpleMarks, defaults: &TextDefaults) -> Result<SearchQuery, Error> {
    check_words(text, defaults.fields.len())?;
    let letters = letters_of(text, marks);
    let (closings, clauses) = (closings_of(&letters), Cell::new(0));
    let parser = SimpleParser { closings, letters, marks, defaults, clauses };
    let parsed = parser.part(0, parser.letters.len(), 0)?.unwrap_or(SearchQuery::None);
    Ok(defaults.with_minimum(parsed))
}

/// A letter of the text.
#[derive(Clone, Copy, PartialEq)]
enum SimpleLetter {
    /// One that may be a mark.
    Open(char),
    /// One after a `\`.
    Literal(char),
}

impl SimpleLetter {
    fn letter(self) -> char {
        match self {
            SimpleLetter::Open(letter) | SimpleLetter::Literal(letter) => letter,
        }
    }
}

fn letters_of(text: &str, marks: SimpleMarks) -> Vec<SimpleLetter> {
    let mut letters = Vec::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' if marks.has(&["ESCAPE"]) => letters.extend(rest.next().map(SimpleLetter::Literal)),
            other => letters.push(marks.letter(other)),
        }
    }
    letters
}

/// Place of the closing parenthesis of each opening one that has one.
fn closings_of(letters: &[SimpleLetter]) -> Vec<Option<usize>> {
    let mut closings = vec![None; letters.len()];
    let mut open = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        match letter {
            SimpleLetter::Open('(') => open.push(at),
            SimpleLetter::Open(')') => {
                if let Some(from) = open.pop() {
                    closings[from] = Some(at);
                }
            }
            _ => {}
        }
    }
    closings
}

struct SimpleParser<'t> {
    letters: Vec<SimpleLetter>,
    closings: Vec<Option<usize>>,
    marks: SimpleMarks,
    defaults: &'t TextDefaults,
    /// Number of the words and phrases so far.
    clauses: Cell<usize>,
}

/// Operator between two clauses.
#[derive(Clone, Copy, PartialEq)]
enum SimpleOperator {
    And,
    Or,
}

/// Clauses of a group, combined as far as they were read.
struct SimpleGroup {
    top: Option<SearchQuery>,
    /// Operator that made `top`.
    made_by: Option<SimpleOperator>,
    /// Operator that was read after `top`.
    pending: Option<SimpleOperator>,
    default: SimpleOperator,
    is_not: bool,
    changes: usize,
}

impl SimpleGroup {
    fn read_operator(&mut self, operator: SimpleOperator) {
        if self.top.is_some() && self.pending.is_none() {
            self.pending = Some(operator);
        }
    }

    fn add(&mut self, clause: SearchQuery) -> Result<(), Error> {
        let clause = match self.is_not {
            true => SearchQuery::Bool(BoolQuery { must_not: vec![clause], ..BoolQuery::default() }),
            false => clause,
        };
        let operator = self.pending.take().unwrap_or(self.default);
        let mut combined = match self.top.take() {
            None => {
                self.top = Some(clause);
                return Ok(());
            }
            Some(SearchQuery::Bool(query)) if self.made_by == Some(operator) => query,
            Some(other) => {
                self.changes += 1;
                if self.changes > DEPTH_MAX {
                    return Err(too_deep());
                }
                let mut query = BoolQuery::default();
                push(&mut query, operator, other);
                query
            }
        };
        push(&mut combined, operator, clause);
        self.made_by = Some(operator);
        self.top = Some(SearchQuery::Bool(combined));
        Ok(())
    }
}

fn push(query: &mut BoolQuery, operator: SimpleOperator, clause: SearchQuery) {
    match operator {
        SimpleOperator::And => query.must.push(clause),
        SimpleOperator::Or => query.should.push(clause),
    }
}

fn too_deep() -> Error {
    Error::Parsing(format!(
        "[simple_query_string] groups may be {DEPTH_MAX} deep, and a group may change between + and | as often; use a [bool] \
         query for more"
    ))
}

impl SimpleParser<'_> {
    /// The clauses of a part of the text; `None` if it has none.
    fn part(&self, from: usize, to: usize, depth: usize) -> Result<Option<SearchQuery>, Error> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let default = if self.defaults.needs_all { SimpleOperator::And } else { SimpleOperator::Or };
        let mut group =
            SimpleGroup { top: None, made_by: None, pending: None, default, is_not: false, changes: 0 };
        let mut at = from;
        while at < to {
            match self.letters[at] {
                SimpleLetter::Open('-') => {
                    group.is_not = !group.is_not;
                    at += 1;
                    continue;
                }
                SimpleLetter::Open('(') => match self.closings[at].filter(|end| *end < to) {
                    Some(end) => {
                        if let Some(inner) = self.part(at + 1, end, depth + 1)? {
                            group.add(inner)?;
                        }
                        at = end + 1;
                    }
                    None => at += 1,
                },
                SimpleLetter::Open('"') => at = self.phrase(&mut group, at, to)?,
                SimpleLetter::Open('+') => {
                    group.read_operator(SimpleOperator::And);
                    at += 1;
                }
                SimpleLetter::Open('|') => {
                    group.read_operator(SimpleOperator::Or);
                    at += 1;
                }
                SimpleLetter::Open(letter) if letter == ')' || letter.is_whitespace() => at += 1,
                _ => at = self.word(&mut group, at, to)?,
            }
            group.is_not = false;
        }
        Ok(match group.top {
            Some(SearchQuery::Bool(query)) if group.made_by == Some(SimpleOperator::And) => {
                Some(SearchQuery::Bool(query.without_left_out()))
            }
            other => other,
        })
    }

    /// Counts a word or a phrase: marks can be words, too.
    fn count(&self) -> Result<(), Error> {
        self.clauses.set(self.clauses.get() + 1);
        check_clauses(self.clauses.get(), self.defaults.fields.len())
    }

    /// Reads a phrase; returns the position after it. A quote that is not closed is passed over.
    fn phrase(&self, group: &mut SimpleGroup, at: usize, to: usize) -> Result<usize, Error> {
        let is_quote = |position: &usize| self.letters[*position] == SimpleLetter::Open('"');
        let Some(end) = (at + 1..to).find(is_quote) else { return Ok(at + 1) };
        let phrase = self.text(at + 1, end);
        let mut next = end + 1;
        let mut slop = 0;
        if next < to && self.letters[next] == SimpleLetter::Open('~') && self.marks.has(&["NEAR"]) {
            let from = next + 1;
            next = from;
            while next < to && self.letters[next].letter().is_ascii_digit() {
                next += 1;
            }
            slop = self.text(from, next).parse().unwrap_or(0);
        }
        if !phrase.is_empty() {
            self.count()?;
            group.add(self.defaults.in_fields(None, |field| {
                let options = self.defaults.phrase_options(Some(slop));
                SearchQuery::Match { field, text: phrase.clone().into(), options }
            }))?;
        }
        Ok(next)
    }

    /// Reads a word; returns the position after it.
    fn word(&self, group: &mut SimpleGroup, at: usize, to: usize) -> Result<usize, Error> {
        let ends = |position: &usize| match self.letters[*position] {
            SimpleLetter::Open(letter) => letter.is_whitespace() || "\"|+()".contains(letter),
            SimpleLetter::Literal(_) => false,
        };
        self.count()?;
        let end = (at + 1..to).find(ends).unwrap_or(to);
        let word = &self.letters[at..end];
        let digits_from = word.iter().rposition(|letter| !letter.letter().is_ascii_digit());
        let tilde =
            digits_from.filter(|position| *position > 0 && word[*position] == SimpleLetter::Open('~'));
        let tilde = tilde.filter(|_| self.marks.has(&["FUZZY"]));
        let clause = match (tilde, word.last()) {
            (Some(tilde), _) => {
                let edits = self.text(at + tilde + 1, end).parse().unwrap_or(2);
                let value = self.text(at, at + tilde);
                let fuzziness = self.defaults.near(FuzzyTerms::with_edits(edits));
                self.defaults.in_fields(None, |field| SearchQuery::Fuzzy {
                    field,
                    value: value.clone(),
                    case: TermCase::OfField,
                    fuzziness,
                })
            }
            (None, Some(SimpleLetter::Open('*'))) if word.len() > 1 => {
                let value = self.text(at, end - 1);
                self.defaults.in_fields(None, |field| SearchQuery::Prefix {
                    field,
                    value: value.clone(),
                    case: TermCase::OfField,
                })
            }
            _ => {
                let text = self.text(at, end);
                self.defaults.in_fields(None, |field| SearchQuery::Match {
                    field,
                    text: text.clone().into(),
                    options: self.defaults.options(),
                })
            }
        };
        group.add(clause)?;
        Ok(end)
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.letters[from..to].iter().map(|letter| letter.letter()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query as a short text: words, phrases in quotes, `a*`, `a~1`, and brackets around combined clauses.
    fn shown(query: &SearchQuery) -> String {
        let all = |mark: &str, clauses: &[SearchQuery]| {
            clauses.iter().map(|clause| format!("{mark}{}", shown(clause))).collect::<Vec<_>>()
        };
        match query {
            SearchQuery::None => "nothing".to_owned(),
            SearchQuery::Match { text, options, .. } if options.is_phrase => {
                format!("{text}~{}", options.slop)
            }
            SearchQuery::Match { text, .. } => text.as_str().unwrap_or_default().to_owned(),
            SearchQuery::Prefix { value, .. } => format!("{value}*"),
            SearchQuery::Fuzzy { value, .. } => format!("{value}~"),
            SearchQuery::Bool(query) => {
                let clauses = [all("+", &query.must), all("", &query.should), all("-", &query.must_not)];
                format!("[{}]", clauses.concat().join(" "))
            }
            other => format!("{other:?}"),
        }
    }

    fn defaults(needs_all: bool) -> TextDefaults {
        TextDefaults { needs_all, is_lenient: true, ..TextDefaults::default() }
    }

    #[test]
    fn no_text_is_an_error() {
        for (text, expected) in [
            ("", "nothing"),
            ("-", "nothing"),
            ("+ | )", "nothing"),
            ("()", "nothing"),
            ("\"\"", "nothing"),
            ("quick", "quick"),
            ("quick + zebra", "[+quick +zebra]"),
            ("quick zebra", "[quick zebra]"),
            ("quick | zebra | fox", "[quick zebra fox]"),
            ("a b + c", "[+[a b] +c]"),
            ("a + (b | c)", "[+a +[b c]]"),
            ("a -b", "[a [-b]]"),
            ("a + -b", "[+a +[-b]]"),
            ("a - b", "[a b]"),
            ("--a", "a"),
            ("foo (bar", "[foo bar]"),
            ("foo) bar", "[foo bar]"),
            ("\"unterminated", "unterminated"),
            ("\"a b\"~2 c", "[\"a b\"~2 c]"),
            ("n:1", "n:1"),
            ("a-b", "a-b"),
            ("qui*", "qui*"),
            ("*", "*"),
            ("quick~1", "quick~"),
            ("quick~x", "quick~x"),
            ("~2", "~2"),
            ("a\\+b \\-c", "[a+b -c]"),
            ("a\\", "a"),
        ] {
            let query = parse(text, SimpleMarks::ALL, &defaults(false)).expect(text);
            assert_eq!(shown(&query), expected, "{text}");
        }
        assert_eq!(shown(&parse("a b", SimpleMarks::ALL, &defaults(true)).expect("a text")), "[+a +b]");
        assert_eq!(shown(&parse("a | b", SimpleMarks::ALL, &defaults(true)).expect("a text")), "[a b]");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}a{}", "(".repeat(50), ")".repeat(50));
        assert!(parse(&deep, SimpleMarks::ALL, &defaults(false)).is_err());
        let changing = "a + b | ".repeat(50);
        assert!(parse(&changing, SimpleMarks::ALL, &defaults(false)).is_err());
        assert!(parse(&"(".repeat(100_000), SimpleMarks::ALL, &defaults(false)).is_ok());
        assert!(parse(&"a + ".repeat(1_000), SimpleMarks::ALL, &defaults(false)).is_ok());
        assert!(parse(&"* ".repeat(4_096), SimpleMarks::ALL, &defaults(false)).is_ok());
        for marks in ["* ", "\"?\" "] {
            assert!(parse(&marks.repeat(4_097), SimpleMarks::ALL, &defaults(false)).is_err(), "{marks}");
        }
    }
}
