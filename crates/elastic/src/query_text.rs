//! The query language of `query_string` and of the parameter `q`: words, phrases, fields, ranges, operators.

use serde_json::{Map, Value};

use crate::Error;
use crate::fields::names_of;
use crate::query::{BoolQuery, MatchOptions, RangeBounds, SearchQuery, text_of};
use crate::query_terms::{FuzzyTerms, check_wildcard, check_words};
use crate::simple_text;

/// Depth of parentheses.
const DEPTH_MAX: usize = 20;

/// A field with the factor of its scores, as in `title^2`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoostedField {
    pub(crate) name: String,
    pub(crate) boost: f64,
}

impl BoostedField {
    /// Parses the text of a field.
    ///
    /// # Errors
    /// No number after `^`, or a negative one.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let Some((name, boost)) = text.split_once('^') else {
            return Ok(BoostedField { name: text.to_owned(), boost: 1.0 });
        };
        match boost.parse::<f64>() {
            Ok(boost) if boost.is_finite() && boost >= 0.0 => {
                Ok(BoostedField { name: name.to_owned(), boost })
            }
            _ => Err(Error::IllegalArgument(format!(
                "the boost of the field [{text}] is not a number of at least 0"
            ))),
        }
    }
}

/// A query with another boost.
fn boosted(query: SearchQuery, boost: f64) -> SearchQuery {
    SearchQuery::Named { query: Box::new(query), boost, name: None }
}

/// Defaults of words without a field or an operator.
pub(crate) struct TextDefaults {
    /// Fields of words; none for all.
    pub(crate) fields: Vec<BoostedField>,
    pub(crate) needs_all: bool,
    /// True if words that do not fit the type of a field match nothing, instead of being an error.
    pub(crate) is_lenient: bool,
    /// Name of the analyzer of words and phrases, in the place of that of their fields.
    pub(crate) analyzer: Option<String>,
}

impl TextDefaults {
    /// Options of words and phrases.
    pub(crate) fn options(&self) -> MatchOptions {
        let TextDefaults { needs_all, is_lenient, ref analyzer, .. } = *self;
        MatchOptions { is_lenient, needs_all, analyzer: analyzer.clone(), ..MatchOptions::default() }
    }

    /// A clause in a field, or in the default fields.
    pub(crate) fn in_fields(&self, field: Option<&str>, make: impl Fn(String) -> SearchQuery) -> SearchQuery {
        let in_default = |field: &BoostedField| match field.boost {
            1.0 => make(field.name.clone()),
            boost => boosted(make(field.name.clone()), boost),
        };
        match (field, self.fields.as_slice()) {
            (Some(field), _) => make(field.to_owned()),
            (None, []) => make("*".to_owned()),
            (None, [only]) => in_default(only),
            (None, several) => {
                let queries = several.iter().map(in_default).collect();
                SearchQuery::Best { queries, tie_breaker: 0.0 }
            }
        }
    }
}

/// Parses the members of a query of this language, or of the simple one.
///
/// # Errors
/// The text is missing or malformed, or the boost of a field is.
pub(crate) fn of_members(kind: &str, members: &Map<String, Value>) -> Result<SearchQuery, Error> {
    let Some(text) = members.get("query").and_then(Value::as_str) else {
        return Err(Error::Parsing(format!("{kind} must be provided with a [query]")));
    };
    let fields = members.get("default_field").or_else(|| members.get("fields"));
    let fields = fields.map(names_of).unwrap_or_default();
    let operator = members.get("default_operator").map(text_of);
    let is_simple = kind == "simple_query_string";
    let defaults = TextDefaults {
        fields: fields.iter().map(|field| BoostedField::parse(field)).collect::<Result<_, _>>()?,
        needs_all: operator.is_some_and(|operator| operator.eq_ignore_ascii_case("and")),
        is_lenient: members.get("lenient") == Some(&Value::Bool(true)) || is_simple,
        analyzer: members.get("analyzer").map(text_of),
    };
    if is_simple { simple_text::parse(text, &defaults) } else { parse(text, &defaults) }
}

/// Parses a text.
///
/// # Errors
/// A parenthesis, a bracket or a quote is not closed, or there are too many words.
pub(crate) fn parse(text: &str, defaults: &TextDefaults) -> Result<SearchQuery, Error> {
    check_words(text, defaults.fields.len())?;
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
            return Err(Error::Parsing(format!(
                "Failed to parse query [{}]: a regular expression between slashes is not supported here; use a [regexp] query, \
                 or write \\/ for a slash that begins a word",
                self.text
            )));
        }
        if self.peek() == Some('"') {
            let phrase = self.quoted()?;
            let slop = self.number_after('~').unwrap_or(0.0) as usize;
            return Ok(self.of_fields(field, |field| {
                let options = MatchOptions { is_phrase: true, slop, ..self.defaults.options() };
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
            return self.clause(Some(&word), depth + 1);
        }
        let edits = (self.peek() == Some('~')).then(|| self.number_after('~').unwrap_or(2.0) as usize);
        Ok(self.of_fields(field, |field| match (word.as_str(), edits) {
            ("*", _) => SearchQuery::Exists(field),
            (_, Some(edits)) => {
                let fuzziness = FuzzyTerms::with_edits(edits);
                SearchQuery::Fuzzy { field, value: word.to_lowercase(), fuzziness }
            }
            _ if has_pattern => SearchQuery::Wildcard { field, value: word.clone(), ignores_case: true },
            _ => SearchQuery::Match { field, text: word.clone().into(), options: self.defaults.options() },
        }))
    }

    /// The clause in its field, or in the default fields.
    fn of_fields(&self, field: Option<&str>, make: impl Fn(String) -> SearchQuery) -> SearchQuery {
        self.defaults.in_fields(field, make)
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
        let word = if self.peek() == Some('"') { self.quoted()? } else { self.word().0 };
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
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_are_not_closed_are_refused() {
        let defaults =
            TextDefaults { fields: Vec::new(), needs_all: false, is_lenient: false, analyzer: None };
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
            "/a/",
            "a:/b.c/",
            &"(".repeat(50),
        ] {
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
            "\"a b\"^2",
            "\"a b\"~2^3",
            "a:[1 TO 2]^2",
            "a:>\"2026-01-18T00:00:00Z\"",
            "(a b)^2",
            "_exists_:\"o.z\"",
            "a/b \\/c",
            "a~",
            "*:*",
            "a\\:b",
        ] {
            assert!(parse(text, &defaults).is_ok(), "{text}");
        }
    }

    #[test]
    fn boosts_of_fields_and_clauses_are_no_part_of_their_names() {
        let of = |text: &str, fields: Value| {
            of_members(
                "query_string",
                json!({ "query": text, "fields": fields }).as_object().expect("an object"),
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
