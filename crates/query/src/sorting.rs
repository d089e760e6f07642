//! The sort specification language: `-date +lowercase(sender) +missing(rank,last)`.

use millrace_cursor::TextCursor;

use crate::syntax::SyntaxFault;
use crate::{Error, QuerySortKey, SortOrder};

/// Parses a sort specification, most significant key first.
///
/// # Errors
/// [`Error::Syntax`] with the position in the text.
pub fn parse(text: &str) -> Result<Vec<QuerySortKey>, Error> {
    let mut reader = SortingReader { cursor: TextCursor::new(text) };
    let mut keys = Vec::new();
    loop {
        reader.cursor.skip_blanks();
        if reader.cursor.offset() == text.len() {
            return Ok(keys);
        }
        keys.push(reader.key().map_err(|fault| fault.in_text("sorting", text))?);
    }
}

/// Functions of a sort key, each with the maximum number of its arguments beside the field.
const SORT_FUNCTIONS: [(&str, usize); 3] = [("lowercase", 0), ("raw", 0), ("uca", 2)];

/// Strengths of a collation.
const STRENGTHS: [&str; 5] = ["PRIMARY", "SECONDARY", "TERTIARY", "QUATERNARY", "IDENTICAL"];

/// Names in brackets, which stand for properties of the hit; each with the one that it means.
const SPECIAL_NAMES: [(&str, &str); 6] = [
    ("[docid]", "[docid]"),
    ("[id]", "[docid]"),
    ("[rank]", "[relevance]"),
    ("[relevance]", "[relevance]"),
    ("[relevancy]", "[relevance]"),
    ("[source]", "[source]"),
];

impl QuerySortKey {
    /// Checks the function, and the policy for missing values. All their names are in any letter case, and
    /// are written here as the plan reads them.
    pub(crate) fn check(mut self) -> Result<Self, Error> {
        if let Some((_, special)) =
            SPECIAL_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&self.field))
        {
            (*special).clone_into(&mut self.field);
        }
        if let Some((function, arguments)) = &mut self.function {
            function.make_ascii_lowercase();
            let Some((_, arguments_max)) = SORT_FUNCTIONS.iter().find(|(name, _)| name == function) else {
                return Err(Error::value(format!(
                    "no sort function '{function}'; there are lowercase, raw and uca"
                )));
            };
            if arguments.len() > *arguments_max {
                return Err(Error::value(format!(
                    "{function} cannot have {} arguments beside the field; for example: uca(name,en_US,PRIMARY)",
                    arguments.len()
                )));
            }
            if let Some(strength) = arguments.get_mut(1) {
                strength.make_ascii_uppercase();
                if !STRENGTHS.contains(&strength.as_str()) {
                    return Err(Error::value(format!(
                        "'{strength}' is not a strength; there are {}",
                        STRENGTHS.join(", ")
                    )));
                }
            }
        }
        if let Some((policy, _)) = &mut self.missing {
            policy.make_ascii_lowercase();
        }
        match &self.missing {
            Some((policy, None)) if policy == "first" || policy == "last" => Ok(self),
            Some((policy, None)) if policy == "default" => Ok(QuerySortKey { missing: None, ..self }),
            Some((policy, Some(_))) if policy == "as" => Ok(self),
            None => Ok(self),
            Some(_) => Err(Error::value(format!(
                "what to do with missing values is one of: missing({0},first), missing({0},last), missing({0},as,42)",
                self.field
            ))),
        }
    }
}

struct SortingReader<'a> {
    cursor: TextCursor<'a>,
}

impl SortingReader<'_> {
    fn key(&mut self) -> Result<QuerySortKey, SyntaxFault> {
        let start = self.cursor.offset();
        let order = match self.cursor.peek() {
            Some('+') => Some(SortOrder::Ascending),
            Some('-') => Some(SortOrder::Descending),
            _ => None,
        };
        if order.is_some() {
            self.cursor.skip(1);
        }
        let mut key = self.object(0)?;
        key.order = order;
        let key = key.check().map_err(|reason| SyntaxFault::new(start, reason))?;
        if self.cursor.peek().is_some_and(|c| c != ' ') {
            return Err(self.unexpected("a blank before the next key"));
        }
        Ok(key)
    }

    fn object(&mut self, depth: usize) -> Result<QuerySortKey, SyntaxFault> {
        let name = self.token()?;
        if self.cursor.peek() != Some('(') {
            return Ok(QuerySortKey { field: name, order: None, function: None, missing: None });
        }
        if depth == 2 {
            return Err(self.unexpected("a field"));
        }
        self.cursor.skip(1);
        self.cursor.skip_blanks();
        let mut key = self.object(depth + 1)?;
        let mut arguments = Vec::new();
        loop {
            self.cursor.skip_blanks();
            match self.cursor.peek() {
                Some(',') => {
                    self.cursor.skip(1);
                    self.cursor.skip_blanks();
                    // As in missing(name,as,): the empty text.
                    let is_empty = self.cursor.peek() == Some(')') && name.eq_ignore_ascii_case("missing");
                    arguments.push(if is_empty { String::new() } else { self.token()? });
                }
                Some(')') => break,
                _ => return Err(self.unexpected("',' or ')'")),
            }
        }
        self.cursor.skip(1);
        if name.eq_ignore_ascii_case("missing") && key.missing.is_none() {
            let mut arguments = arguments.into_iter();
            key.missing = Some((arguments.next().unwrap_or_default(), arguments.next()));
        } else if key.function.is_none() && key.missing.is_none() {
            key.function = Some((name, arguments));
        } else {
            return Err(SyntaxFault::new(
                self.cursor.offset(),
                format!("{name}(…) cannot be around another function"),
            ));
        }
        Ok(key)
    }

    /// Reads a quoted string, or the text up to a delimiter.
    fn token(&mut self) -> Result<String, SyntaxFault> {
        let rest = self.cursor.rest();
        if let Some(body) = rest.strip_prefix('"') {
            let mut token = String::new();
            let mut chars = body.char_indices();
            while let Some((offset, c)) = chars.next() {
                match c {
                    '"' => {
                        self.cursor.skip(1 + offset + 1);
                        return Ok(token);
                    }
                    '\\' => token.extend(chars.next().map(|(_, c)| c)),
                    _ => token.push(c),
                }
            }
            return Err(SyntaxFault::new(self.cursor.offset(), "this string is not closed; expected '\"'"));
        }
        let token = self.cursor.take_while(|c| ![' ', ',', '(', ')', '"', '\\'].contains(&c));
        if token.is_empty() {
            return Err(self.unexpected("the name of an attribute"));
        }
        Ok(token.to_owned())
    }

    fn unexpected(&self, expected: &str) -> SyntaxFault {
        let found = self.cursor.peek().map_or("the end".to_owned(), |c| format!("{c:?}"));
        SyntaxFault::new(
            self.cursor.offset(),
            format!("expected {expected}, found {found}; for example: -date +lowercase(sender)"),
        )
    }
}
