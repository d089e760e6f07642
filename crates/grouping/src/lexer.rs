use millrace_cursor::{CommentStyle, TextCursor, TextPosition};

use crate::Error;
use crate::request::GroupingNumber;

/// Comments: from `//` or `#` to the end of the line, and between `/*` and `*/`.
const COMMENTS: &[CommentStyle] =
    &[CommentStyle::Line("//"), CommentStyle::Line("#"), CommentStyle::Block("/*", "*/")];

/// Lexer for words, numbers, texts and symbols. White space and comments between them are ignored.
#[derive(Clone)]
pub(crate) struct GroupingLexer<'a> {
    cursor: TextCursor<'a>,
}

impl<'a> GroupingLexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        GroupingLexer { cursor: TextCursor::with_comments(text, COMMENTS) }
    }

    fn rest(&mut self) -> &'a str {
        self.cursor.skip_blanks();
        self.cursor.rest()
    }

    pub(crate) fn at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn peek_symbol(&mut self, symbol: char) -> bool {
        self.rest().starts_with(symbol)
    }

    pub(crate) fn take_symbol(&mut self, symbol: char) -> bool {
        self.cursor.take(symbol.encode_utf8(&mut [0; 4]))
    }

    pub(crate) fn symbol(&mut self, symbol: char) -> Result<(), Error> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.expected(&format!("'{symbol}'"))) }
    }

    /// A name of letters, digits and underscores that does not begin with a digit.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.word_with(|_| false)
    }

    /// Like [`GroupingLexer::word`], with dashes allowed inside.
    pub(crate) fn dashed_word(&mut self) -> Option<&'a str> {
        self.word_with(|c| c == '-')
    }

    fn word_with(&mut self, also: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit() || also(c)) {
            return None;
        }
        self.cursor.word(|c| c.is_alphanumeric() || c == '_' || c == '@' || also(c))
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let before = self.cursor.offset();
        let found = self.word() == Some(word);
        if !found {
            self.cursor.go_to(before);
        }
        found
    }

    /// A number with an optional sign directly before it.
    pub(crate) fn number(&mut self) -> Result<Option<GroupingNumber>, Error> {
        let rest = self.rest();
        let unsigned = rest.strip_prefix('-').unwrap_or(rest);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut len = digits(unsigned);
        let mut float = false;
        if len == 0 {
            return Ok(None);
        }
        if unsigned[len..].starts_with('.') {
            len += 1 + digits(&unsigned[len + 1..]);
            float = true;
        }
        if unsigned[len..].starts_with(['e', 'E']) {
            let exponent = &unsigned[len + 1..];
            let sign = usize::from(exponent.starts_with(['+', '-']));
            if digits(&exponent[sign..]) > 0 {
                len += 1 + sign + digits(&exponent[sign..]);
                float = true;
            }
        }
        let text = &rest[..rest.len() - unsigned.len() + len];
        let whole = if float { None } else { text.parse().ok().map(GroupingNumber::Long) };
        let Some(number) = whole.or_else(|| text.parse().ok().map(GroupingNumber::Double)) else {
            return Err(self.expected("a number"));
        };
        self.cursor.skip(text.len());
        // The suffix of a type, as in Java.
        let rest = self.cursor.rest();
        if float && rest.starts_with(['f', 'F', 'd', 'D']) && !rest[1..].starts_with(char::is_alphanumeric) {
            self.cursor.skip(1);
        }
        Ok(Some(number))
    }

    pub(crate) fn float(&mut self) -> Result<f64, Error> {
        let before = self.cursor.offset();
        let negative = self.take_symbol('-');
        if self.take_word("inf") {
            return Ok(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        self.cursor.go_to(before);
        match self.number()? {
            Some(GroupingNumber::Long(value)) => Ok(value as f64),
            Some(GroupingNumber::Double(value)) => Ok(value),
            None => Err(self.expected("a number")),
        }
    }

    /// A text in double or single quotes.
    pub(crate) fn string(&mut self) -> Result<Option<String>, Error> {
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|c| *c == '"' || *c == '\'') else { return Ok(None) };
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.cursor.skip(at + 1);
                    return Ok(Some(text));
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('f') => text.push('\u{c}'),
                    Some('x') => {
                        let code: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        match u8::from_str_radix(&code, 16) {
                            Ok(code) => text.push(char::from(code)),
                            Err(_) => return Err(self.error("\\x wants two hexadecimal digits".to_owned())),
                        }
                    }
                    // A backslash before any other character is kept, for regular expressions.
                    Some(c @ ('"' | '\'' | '\\')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(self.error(format!("the text that begins here is not closed by {quote}")))
    }

    /// An error at the current position with the expected and the actual text.
    pub(crate) fn expected(&mut self, what: &str) -> Error {
        self.cursor.skip_blanks();
        self.error(format!("expected {what}, found {}", self.cursor.found()))
    }

    /// An error at the current position.
    pub(crate) fn error(&self, reason: String) -> Error {
        let TextPosition { line, column } = self.cursor.position();
        Error::Syntax { line, column, reason }
    }
}
