//! The query language of `query_string` and of the parameter `q`: words, phrases, fields, ranges, operators.

mod defaults;

use serde_json::{Map, Value};

use self::defaults::boosted;
pub(crate) use self::defaults::{BoostedField, FieldsKind, TextDefaults};
use crate::Error;
use crate::query::{BoolQuery, CLAUSES_MAX, MatchOptions, RangeBounds, SearchQuery};
use crate::query_scope::ParseScope;
use crate::query_terms::{FuzzyTerms, TermCase, check_clauses, check_name, check_wildcard, check_words};
use crate::regexp_signs::RegexpSigns;
use crate::simple_text::{self, SimpleMarks};

/// Depth of parentheses.
const DEPTH_MAX: usize = 20;

/// Parses the members of a query of this language, or of the simple one.
///
/// # Errors
/// The text is missing or malformed, or another member is.
pub(crate) fn of_members(
    kind: &str,
    members: &Map<String, Value>,
    scope: ParseScope<'_>,
) -> Result<SearchQuery, Error> {
    let Some(text) = members.get("query").and_then(Value::as_str) else {
        return Err(Error::Parsing(format!("{kind} must be provided with a [query]")));
    };
    let defaults = TextDefaults::of_members(members)?;
    if kind == "simple_query_string" {
        let marks = members.get("flags").map_or(Ok(SimpleMarks::ALL), SimpleMarks::parse)?;
        return simple_text::parse(text, marks, &TextDefaults { is_lenient: true, ..defaults });
    }
    match members.get("escape") {
        Some(Value::Bool(true)) => parse(&escaped(text), &defaults, scope),
        _ => parse(text, &defaults, scope),
    }
}

/// A text whose marks have no meaning.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\+-!():^[]\"{}~*?|&/<>=".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Parses a text.
///
/// # Errors
/// A parenthesis, a bracket, a quote or a regular expression is not closed, or there are too many words.
pub(crate) fn parse(
    text: &str,
    defaults: &TextDefaults,
    scope: ParseScope<'_>,
) -> Result<SearchQuery, Error> {
    check_words(text, defaults.fields.len())?;
    let letters: Vec<char> = text.chars().collect();
    let mut parser = TextParser { letters: &letters, at: 0, defaults, text, scope, leaves: 0, groups: 0 };
    let parsed = parser.group(None, 0)?;
    match parser.at < letters.len() {
        true => Err(parser.fail()),
        false => Ok(defaults.with_minimum(parsed)),
    }
}

struct TextParser<'t> {
    letters: &'t [char],
    at: usize,
    defaults: &'t TextDefaults,
    text: &'t str,
    /// Place of the text in a query, whose regular expressions have bounds together.
    scope: ParseScope<'t>,
    /// Number of the clauses so far, and of the groups in parentheses.
    leaves: usize,
    groups: usize,
}

/// Role of a clause.
#[derive(Clone, Copy, PartialEq)]
enum ClauseRole {
    Must,
    Should,
    Not,
}

impl TextParser<'_> {
    fn fail(&self) -> Error {
        Error::Parsing(format!("Failed to parse query [{}]", self.text))
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Takes an operator, if it stands here as a word of its own.
    fn takes(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let is_here =
            self.letters.get(self.at..end).is_some_and(|here| here.iter().copied().eq(word.chars()));
        let ends = self.letters.get(end).is_none_or(|next| next.is_whitespace() || *next == '(');
        if is_here && ends {
            self.at = end;
        }
        is_here && ends
    }

    /// True if one of these operators stands here.
    fn is_at(&mut self, operators: &[&str]) -> bool {
        let before = self.at;
        let is_here = operators.iter().any(|word| self.takes(word));
        self.at = before;
        is_here
    }

    /// Clauses up to the end or the closing parenthesis.
    fn group(&mut self, field: Option<&str>, depth: usize) -> Result<SearchQuery, Error> {
        if depth > DEPTH_MAX {
            return Err(self.fail());
        }
        let mut clauses: Vec<(ClauseRole, SearchQuery)> = Vec::new();
        let mut pending = None;
        loop {
            self.skip_space();
            if self.peek().is_none_or(|letter| letter == ')') {
                break;
            }
            let operator = match self.takes("AND") || self.takes("&&") {
                true => Some(ClauseRole::Must),
                false => (self.takes("OR") || self.takes("||")).then_some(ClauseRole::Should),
            };
            if let Some(operator) = operator {
                // It stands between two clauses.
                let Some((before, _)) = clauses.last_mut().filter(|_| pending.is_none()) else {
                    return Err(self.fail());
                };
                let changes = match operator {
                    ClauseRole::Must => *before == ClauseRole::Should,
                    _ => *before == ClauseRole::Must && self.defaults.needs_all,
                };
                if changes {
                    *before = operator;
                }
                pending = Some(operator);
                continue;
            }
            if let Some(text) = self.joined_words(field, pending) {
                let minimum = self.defaults.minimum.clone();
                let options = MatchOptions { minimum, ..self.defaults.options() };
                let role = if self.defaults.needs_all { ClauseRole::Must } else { ClauseRole::Should };
                let clause = self.of_fields(field, |field| SearchQuery::Match {
                    field,
                    text: text.clone().into(),
                    options: options.clone(),
                });
                clauses.push((role, clause));
                continue;
            }
            let mut role = pending.take().unwrap_or(match self.defaults.needs_all {
                true => ClauseRole::Must,
                false => ClauseRole::Should,
            });
            if self.takes("NOT") {
                role = ClauseRole::Not;
                self.skip_space();
            }
            match self.peek() {
                Some('+') => (role, self.at) = (ClauseRole::Must, self.at + 1),
                Some('-' | '!') => (role, self.at) = (ClauseRole::Not, self.at + 1),
                _ => {}
            }
            self.count()?;
            let clause = self.clause(field, depth)?;
            clauses.push((role, clause));
        }
        if pending.is_some() {
            return Err(self.fail());
        }
        if let [(ClauseRole::Must | ClauseRole::Should, _)] = clauses.as_slice()
            && let Some((_, only)) = clauses.pop()
        {
            return Ok(only);
        }
        if clauses.is_empty() {
            return Ok(SearchQuery::None);
        }
        let mut query = BoolQuery::default();
        for (role, clause) in clauses {
            match role {
                ClauseRole::Must => query.must.push(clause),
                ClauseRole::Should => query.should.push(clause),
                ClauseRole::Not => query.must_not.push(clause),
            }
        }
        Ok(SearchQuery::Bool(query.without_left_out()))
    }

    /// Counts the clause that begins here: marks without a word are clauses, too.
    fn count(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some('(') => self.groups += 1,
            _ => self.leaves += 1,
        }
        if self.groups > CLAUSES_MAX {
            return Err(self.fail());
        }
        check_clauses(self.leaves, self.defaults.fields.len())
    }

    /// A clause with its boost.
    fn clause(&mut self, field: Option<&str>, depth: usize) -> Result<SearchQuery, Error> {
        if depth > DEPTH_MAX {
            return Err(self.fail());
        }
        let clause = self.plain_clause(field, depth)?;
        if self.peek() != Some('^') {
            return Ok(clause);
        }
        match self.number_after('^') {
            Some(boost) => Ok(boosted(clause, boost)),
            None => Err(self.fail()),
        }
    }

    fn plain_clause(&mut self, field: Option<&str>, depth: usize) -> Result<SearchQuery, Error> {
        if self.peek() == Some('(') {
            self.at += 1;
            let inner = self.group(field, depth + 1)?;
            if self.peek() != Some(')') {
                return Err(self.fail());
            }
            self.at += 1;
            return Ok(inner);
        }
        if self.peek() == Some('/') {
            let pattern = self.between_slashes()?;
            let pattern = self.scope.pattern(&pattern, RegexpSigns::ALL, false)?;
            return Ok(self.of_fields(field, |field| SearchQuery::Regexp { field, pattern: pattern.clone() }));
        }
        if self.peek() == Some('"') {
            let phrase = self.quoted()?;
            let slop = self.number_after('~').map(|slop| slop as usize);
            return Ok(self.of_fields(field, |field| {
                let options = self.defaults.phrase_options(slop);
                SearchQuery::Match { field, text: phrase.clone().into(), options }
            }));
        }
        if let Some('[' | '{') = self.peek() {
            return self.range(field);
        }
        if let Some(operator) = self.peek().filter(|letter| ['<', '>'].contains(letter)) {
            return self.comparison(field, operator);
        }
        let (word, has_pattern) = self.word();
        if word.is_empty() {
            return Err(self.fail());
        }
        if has_pattern {
            check_wildcard(&word)?;
            if self.defaults.refuses_leading_wildcard && word.len() > 1 && word.starts_with(['*', '?']) {
                return Err(Error::Parsing(format!(
                    "Failed to parse query [{}]: '*' or '?' not allowed as first character in a wildcard, since \
                     [allow_leading_wildcard] is false",
                    self.text
                )));
            }
        }
        if self.peek() == Some(':') && field.is_none() {
            self.at += 1;
            self.skip_space();
            if word == "_exists_" {
                let named = if self.peek() == Some('"') { self.quoted()? } else { self.word().0 };
                if named.is_empty() {
                    return Err(self.fail());
                }
                return Ok(SearchQuery::Exists(named));
            }
            if word == "*" && self.peek() == Some('*') {
                self.at += 1;
                return Ok(SearchQuery::All);
            }
            check_name(&word)?;
            return self.clause(Some(&word), depth + 1);
        }
        let fuzziness = match self.peek() {
            Some('~') => Some(match self.number_after('~') {
                Some(edits) => FuzzyTerms::with_edits(edits as usize),
                None => self.defaults.fuzziness.map_or_else(|| FuzzyTerms::parse(None), Ok)?,
            }),
            _ => None,
        };
        Ok(self.of_fields(field, |field| match (word.as_str(), fuzziness) {
            ("*", _) => SearchQuery::Exists(field),
            (_, Some(fuzziness)) => {
                let fuzziness = self.defaults.near(fuzziness);
                SearchQuery::Fuzzy { field, value: word.clone(), case: TermCase::OfField, fuzziness }
            }
            _ if has_pattern => SearchQuery::Wildcard { field, value: word.clone(), case: TermCase::OfField },
            _ => SearchQuery::Match { field, text: word.clone().into(), options: self.defaults.options() },
        }))
    }

    /// Takes words without marks that stand beside each other, if there are several and they are looked for
    /// together. A word before an operator, or with a mark behind it, is a clause of its own.
    fn joined_words(&mut self, field: Option<&str>, pending: Option<ClauseRole>) -> Option<String> {
        if field.is_some() || pending.is_some() || !self.defaults.joins_words() {
            return None;
        }
        let before = self.at;
        let (mut words, mut end): (Vec<String>, usize) = (Vec::new(), before);
        loop {
            self.skip_space();
            let is_sign = self.peek().is_none_or(|letter| "+-!/<>".contains(letter));
            if is_sign || self.is_at(&["AND", "OR", "NOT", "&&", "||"]) {
                break;
            }
            let (word, has_pattern) = self.word();
            let is_marked = has_pattern || self.peek().is_some_and(|letter| ":~^".contains(letter));
            let after = self.at;
            self.skip_space();
            if word.is_empty() || is_marked || self.is_at(&["AND", "OR", "&&", "||"]) {
                break;
            }
            words.push(word);
            end = after;
        }
        self.at = before;
        (words.len() > 1).then(|| {
            self.at = end;
            words.join(" ")
        })
    }

    /// The clause in its field, or in the default fields.
    fn of_fields(&self, field: Option<&str>, make: impl Fn(String) -> SearchQuery) -> SearchQuery {
        self.defaults.in_fields(field, make)
    }

    /// A regular expression, in which a slash has a backslash before it.
    fn between_slashes(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut pattern = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '/' => return Ok(pattern),
                '\\' => {
                    let escaped = self.peek().ok_or_else(|| self.fail())?;
                    self.at += 1;
                    if escaped != '/' {
                        pattern.push('\\');
                    }
                    pattern.push(escaped);
                }
                other => pattern.push(other),
            }
        }
        Err(self.fail())
    }

    fn quoted(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '"' => return Ok(text),
                '\\' => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                other => text.push(other),
            }
        }
        Err(self.fail())
    }

    /// A number after a mark; `None` if the mark does not stand here.
    fn number_after(&mut self, mark: char) -> Option<f64> {
        if self.peek() != Some(mark) {
            return None;
        }
        self.at += 1;
        let from = self.at;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit() || letter == '.') {
            self.at += 1;
        }
        self.letters[from..self.at].iter().collect::<String>().parse().ok()
    }

    /// A word, and true if it has wildcards.
    fn word(&mut self) -> (String, bool) {
        let (mut word, mut has_pattern) = (String::new(), false);
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.at += 1;
                    word.extend(self.peek());
                }
                '*' | '?' => {
                    has_pattern = true;
                    word.push(letter);
                }
                _ if letter.is_whitespace() || "():\"[]{}^~".contains(letter) => break,
                other => word.push(other),
            }
            self.at += 1;
        }
        (word, has_pattern)
    }

    fn range(&mut self, field: Option<&str>) -> Result<SearchQuery, Error> {
        let includes_lower = self.peek() == Some('[');
        self.at += 1;
        let rest = &self.letters[self.at..];
        let Some(end) = rest.iter().position(|letter| [']', '}'].contains(letter)) else {
            return Err(self.fail());
        };
        let inner: String = rest[..end].iter().collect();
        let includes_upper = rest[end] == ']';
        self.at += end + 1;
        let Some((from, to)) = inner.split_once(" TO ") else { return Err(self.fail()) };
        let bound = |text: &str, includes| {
            let text = text.trim().trim_matches('"');
            (text != "*").then(|| (Value::from(text), includes))
        };
        let bounds = RangeBounds {
            from: bound(from, includes_lower),
            to: bound(to, includes_upper),
            zone: self.defaults.zone.clone(),
            ..RangeBounds::default()
        };
        Ok(self.of_fields(field, |field| SearchQuery::Range { field, bounds: bounds.clone() }))
    }

    fn comparison(&mut self, field: Option<&str>, operator: char) -> Result<SearchQuery, Error> {
        self.at += 1;
        let includes = self.peek() == Some('=');
        self.at += usize::from(includes);
        let word = if self.peek() == Some('"') { self.quoted()? } else { self.word().0 };
        if word.is_empty() {
            return Err(self.fail());
        }
        let bound = Some((Value::from(word), includes));
        let open = RangeBounds { zone: self.defaults.zone.clone(), ..RangeBounds::default() };
        let bounds = match operator {
            '>' => RangeBounds { from: bound, ..open },
            _ => RangeBounds { to: bound, ..open },
        };
        Ok(self.of_fields(field, |field| SearchQuery::Range { field, bounds: bounds.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_are_not_closed_are_refused() {
        let defaults = TextDefaults::default();
        let parse = |text: &str| super::parse(text, &defaults, ParseScope::of(&Cell::new(0)));
        let marks = ["* ".repeat(4_097), "(*)".repeat(4_097), "()".repeat(65_537)];
        for text in marks.iter().map(String::as_str).chain([&*format!("{}:a", "a".repeat(1_001))]) {
            assert!(parse(text).is_err(), "{} letters", text.len());
        }
        assert!(parse(&"* ".repeat(4_096)).is_ok());
        for text in [
            "(a",
            "a)",
            "\"a",
            "a:[1 TO 2",
            "a:[1 2]",
            ":",
            "a:>",
            "a^",
            "\"a\"^b",
            "/a",
            "a:/b.c",
            "/a\\/",
            "/(a/",
            &"(".repeat(50),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "",
            "a",
            "a AND b",
            "a:b",
            "a:(b c)",
            "+a -b",
            "a:[1 TO *]",
            "\"a b\"~2",
            "a^2",
            "\"a b\"^2",
            "\"a b\"~2^3",
            "a:[1 TO 2]^2",
            "a:>\"2026-01-18T00:00:00Z\"",
            "(a b)^2",
            "_exists_:\"o.z\"",
            "a/b \\/c",
            "/a/",
            "a:/b.c/ -/d\\/e/^2",
            "a~",
            "*:*",
            "a\\:b",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn boosts_of_fields_and_clauses_are_no_part_of_their_names() {
        let of = |text: &str, fields: Value| {
            of_members(
                "query_string",
                json!({ "query": text, "fields": fields }).as_object().expect("an object"),
                ParseScope::of(&Cell::new(0)),
            )
        };
        let word = |field: &str| SearchQuery::Match {
            field: field.to_owned(),
            text: "a".into(),
            options: MatchOptions::default(),
        };
        let boost = |query| boosted(query, 2.0);
        let best = |queries| SearchQuery::Best { queries, tie_breaker: 0.0 };
        for (text, fields, expected) in [
            ("a", json!(["t^2", "k"]), best(vec![boost(word("t")), word("k")])),
            ("a", json!(["t^2"]), boost(word("t"))),
            ("a", json!("t"), word("t")),
            ("k:a^2", json!(["t^3"]), boost(word("k"))),
            ("(a)^2", json!("t"), boost(word("t"))),
        ] {
            assert_eq!(of(text, fields).expect(text), expected, "{text}");
        }
        for field in ["t^", "t^x", "t^-1", "t^inf", "t^2^3"] {
            assert!(of("a", json!([field])).is_err(), "{field}");
        }
    }
}
