//! The query language of `query_string` and of the parameter `q`: words, phrases, fields, ranges, operators.

use serde_json::Value;

use crate::Error;
use crate::query::{BoolQuery, MatchOptions, RangeBounds, SearchQuery};
use crate::query_terms::FuzzyTerms;

/// Depth of parentheses.
const DEPTH_MAX: usize = 20;

/// Defaults of words without a field or an operator.
pub(crate) struct TextDefaults {
    /// Fields of words; none for all.
    pub(crate) fields: Vec<String>,
    pub(crate) needs_all: bool,
    /// True if words that do not fit the type of a field match nothing, instead of being an error.
    pub(crate) is_lenient: bool,
}

/// Parses a text.
///
/// # Errors
/// A parenthesis, a bracket or a quote is not closed.
pub(crate) fn parse(text: &str, defaults: &TextDefaults) -> Result<SearchQuery, Error> {
    let letters: Vec<char> = text.chars().collect();
    let mut parser = TextParser { letters: &letters, at: 0, defaults, text };
    let parsed = parser.group(None, 0)?;
    match parser.at < letters.len() {
        true => Err(parser.fail()),
        false => Ok(parsed),
    }
}

struct TextParser<'t> {
    letters: &'t [char],
    at: usize,
    defaults: &'t TextDefaults,
    text: &'t str,
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
            if self.takes("AND") || self.takes("&&") {
                if let Some((role, _)) = clauses.last_mut().filter(|(role, _)| *role == ClauseRole::Should) {
                    *role = ClauseRole::Must;
                }
                pending = Some(ClauseRole::Must);
                continue;
            }
            if self.takes("OR") || self.takes("||") {
                pending = Some(ClauseRole::Should);
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
            let clause = self.clause(field, depth)?;
            clauses.push((role, clause));
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
        Ok(SearchQuery::Bool(query))
    }

    fn clause(&mut self, field: Option<&str>, depth: usize) -> Result<SearchQuery, Error> {
        if self.peek() == Some('(') {
            self.at += 1;
            let inner = self.group(field, depth + 1)?;
            return self.closed(inner);
        }
        if self.peek() == Some('"') {
            let phrase = self.quoted()?;
            let slop = self.number_after('~').unwrap_or(0.0) as usize;
            return Ok(self.of_fields(field, |field| {
                let options = MatchOptions { is_phrase: true, slop, ..self.options() };
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
        if self.peek() == Some(':') && field.is_none() {
            self.at += 1;
            self.skip_space();
            if word == "_exists_" {
                let (named, _) = self.word();
                return Ok(SearchQuery::Exists(named));
            }
            if word == "*" && self.peek() == Some('*') {
                self.at += 1;
                return Ok(SearchQuery::All);
            }
            return self.clause(Some(&word), depth + 1);
        }
        let edits = (self.peek() == Some('~')).then(|| self.number_after('~').unwrap_or(2.0) as usize);
        let boost = self.number_after('^');
        let query = self.of_fields(field, |field| match (word.as_str(), edits) {
            ("*", _) => SearchQuery::Exists(field),
            (_, Some(edits)) => {
                let fuzziness = FuzzyTerms::with_edits(edits);
                SearchQuery::Fuzzy { field, value: word.to_lowercase(), fuzziness }
            }
            _ if has_pattern => SearchQuery::Wildcard { field, value: word.clone(), ignores_case: true },
            _ => SearchQuery::Match { field, text: word.clone().into(), options: self.options() },
        });
        Ok(match boost {
            Some(boost) => SearchQuery::Named { query: Box::new(query), boost, name: None },
            None => query,
        })
    }

    fn options(&self) -> MatchOptions {
        MatchOptions {
            is_lenient: self.defaults.is_lenient,
            needs_all: self.defaults.needs_all,
            ..MatchOptions::default()
        }
    }

    /// The clause in its field, or in the default fields.
    fn of_fields(&self, field: Option<&str>, make: impl Fn(String) -> SearchQuery) -> SearchQuery {
        match (field, self.defaults.fields.as_slice()) {
            (Some(field), _) => make(field.to_owned()),
            (None, []) => make("*".to_owned()),
            (None, [only]) => make(only.split('^').next().unwrap_or(only).to_owned()),
            (None, several) => {
                let queries = several.iter().map(|field| make(field.clone())).collect();
                SearchQuery::Best { queries, tie_breaker: 0.0 }
            }
        }
    }

    fn closed(&mut self, inner: SearchQuery) -> Result<SearchQuery, Error> {
        if self.peek() != Some(')') {
            return Err(self.fail());
        }
        self.at += 1;
        match self.number_after('^') {
            Some(boost) => Ok(SearchQuery::Named { query: Box::new(inner), boost, name: None }),
            None => Ok(inner),
        }
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
            ..RangeBounds::default()
        };
        Ok(self.of_fields(field, |field| SearchQuery::Range { field, bounds: bounds.clone() }))
    }

    fn comparison(&mut self, field: Option<&str>, operator: char) -> Result<SearchQuery, Error> {
        self.at += 1;
        let includes = self.peek() == Some('=');
        self.at += usize::from(includes);
        let (word, _) = self.word();
        if word.is_empty() {
            return Err(self.fail());
        }
        let bound = Some((Value::from(word), includes));
        let bounds = match operator {
            '>' => RangeBounds { from: bound, ..RangeBounds::default() },
            _ => RangeBounds { to: bound, ..RangeBounds::default() },
        };
        Ok(self.of_fields(field, |field| SearchQuery::Range { field, bounds: bounds.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_not_closed_are_refused() {
        let defaults = TextDefaults { fields: Vec::new(), needs_all: false, is_lenient: false };
        for text in ["(a", "a)", "\"a", "a:[1 TO 2", "a:[1 2]", ":", "a:>", &"(".repeat(50)] {
            assert!(parse(text, &defaults).is_err(), "{text}");
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
            "a~",
            "*:*",
            "a\\:b",
        ] {
            assert!(parse(text, &defaults).is_ok(), "{text}");
        }
    }
}
