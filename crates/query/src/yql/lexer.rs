//! YQL's tokens.

use std::borrow::Cow;
use std::fmt;

use millrace_cursor::{CommentStyle, TextCursor};

use crate::QueryNumber;
use crate::syntax::SyntaxFault;

/// A token of YQL.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum YqlToken<'a> {
    /// A name, possibly a keyword, without its dots.
    Word(&'a str),
    Number(QueryNumber),
    String(Cow<'a, str>),
    /// `@name`.
    Parameter(&'a str),
    /// One of `( ) [ ] { } , : ; . * | ! + - = < > <= >=`.
    Mark(&'static str),
    End,
}

impl fmt::Display for YqlToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            YqlToken::Word(word) => write!(f, "'{word}'"),
            YqlToken::Number(number) => write!(f, "the number {number}"),
            YqlToken::String(text) => write!(f, "the string {text:?}"),
            YqlToken::Parameter(name) => write!(f, "'@{name}'"),
            YqlToken::Mark(mark) => write!(f, "'{mark}'"),
            YqlToken::End => f.write_str("the end of the query"),
        }
    }
}

const MARKS: [&str; 21] = [
    "<=", ">=", "==", "(", ")", "[", "]", "{", "}", ",", ":", ";", ".", "*", "|", "!", "=", "<", ">", "+",
    "-",
];

/// Reader of single tokens, so that the text after `|` can be left unread.
pub(super) struct YqlLexer<'a> {
    pub cursor: TextCursor<'a>,
}

const COMMENTS: &[CommentStyle] =
    &[CommentStyle::Line("//"), CommentStyle::Line("#"), CommentStyle::Block("/*", "*/")];

impl<'a> YqlLexer<'a> {
    pub fn new(text: &'a str) -> Self {
        YqlLexer { cursor: TextCursor::with_comments(text, COMMENTS) }
    }

    /// The next token, with its offset.
    pub fn next(&mut self) -> Result<(usize, YqlToken<'a>), SyntaxFault> {
        self.skip_blanks()?;
        let start = self.cursor.offset();
        let rest = self.cursor.rest();
        let Some(first) = self.cursor.peek() else { return Ok((start, YqlToken::End)) };
        let token = match first {
            '"' | '\'' => YqlToken::String(self.string(first)?),
            '@' => {
                let name = take(&rest[1..], |c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
                if name.is_empty() {
                    return Err(SyntaxFault::new(
                        start,
                        "expected a parameter's name after '@', as in @text",
                    ));
                }
                self.cursor.skip(1 + name.len());
                YqlToken::Parameter(name)
            }
            '0'..='9' => YqlToken::Number(self.number()?),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => YqlToken::Number(self.number()?),
            '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                YqlToken::Number(self.number()?)
            }
            '-' if take(&rest[1..], char::is_alphabetic).eq_ignore_ascii_case("infinity") => {
                self.cursor.skip(1 + "infinity".len());
                YqlToken::Number(QueryNumber::Float(f64::NEG_INFINITY))
            }
            _ if first.is_alphabetic() || first == '_' => {
                // A hyphen belongs to a name if another letter follows: names of clusters contain hyphens.
                let mut word = take(rest, is_word);
                while let Some(more) = rest[word.len()..].strip_prefix('-') {
                    let part = take(more, is_word);
                    if part.is_empty() {
                        break;
                    }
                    word = &rest[..word.len() + 1 + part.len()];
                }
                self.cursor.skip(word.len());
                YqlToken::Word(word)
            }
            _ => match MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
                Some(mark) => {
                    self.cursor.skip(mark.len());
                    YqlToken::Mark(if mark == "==" { "=" } else { mark })
                }
                None => {
                    let hint = match first {
                        '“' | '”' | '‘' | '’' => "; quote with plain \" or '",
                        '&' => "; write 'and'",
                        _ => "",
                    };
                    return Err(SyntaxFault::new(
                        start,
                        format!("found {first:?}, which has no meaning here{hint}"),
                    ));
                }
            },
        };
        Ok((start, token))
    }

    fn skip_blanks(&mut self) -> Result<(), SyntaxFault> {
        self.cursor.skip_blanks();
        if self.cursor.rest().starts_with("/*") {
            let reason = "this comment is not closed; expected '*/'";
            return Err(SyntaxFault::new(self.cursor.offset(), reason));
        }
        Ok(())
    }

    /// Reads a string literal, starting at its opening quote.
    fn string(&mut self, quote: char) -> Result<Cow<'a, str>, SyntaxFault> {
        let start = self.cursor.offset();
        let body = &self.cursor.rest()[1..];
        let unclosed = || {
            SyntaxFault::new(
                start,
                format!("this string is not closed; expected {quote} before the end of the query"),
            )
        };
        let plain = body.find([quote, '\\']).ok_or_else(unclosed)?;
        if body[plain..].starts_with(quote) {
            self.cursor.go_to(start + 1 + plain + 1);
            return Ok(Cow::Borrowed(&body[..plain]));
        }
        let mut text = body[..plain].to_owned();
        let mut chars = body[plain..].char_indices();
        while let Some((offset, c)) = chars.next() {
            if c == quote {
                self.cursor.go_to(start + 1 + plain + offset + 1);
                return Ok(Cow::Owned(text));
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let here = start + 1 + plain + offset;
            match chars.next().ok_or_else(unclosed)?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                    text.push(code.and_then(char::from_u32).ok_or_else(|| {
                        SyntaxFault::new(
                            here,
                            "expected four hexadecimal digits of a character after \\u, as in \\u00e6",
                        )
                    })?);
                }
                same @ ('"' | '\'' | '\\' | '/') => text.push(same),
                other => {
                    return Err(SyntaxFault::new(
                        here,
                        format!(
                            "'\\{other}' is not an escape; write '\\\\{other}' for a backslash and {other:?}"
                        ),
                    ));
                }
            }
        }
        Err(unclosed())
    }

    fn number(&mut self) -> Result<QueryNumber, SyntaxFault> {
        let start = self.cursor.offset();
        let rest = self.cursor.rest();
        let sign = usize::from(rest.starts_with('-'));
        let mut end = sign + take(&rest[sign..], |c| c.is_ascii_digit()).len();
        let mut whole = true;
        if rest[end..].starts_with('.') {
            whole = false;
            end += 1 + take(&rest[end + 1..], |c| c.is_ascii_digit()).len();
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let digits = take(&rest[end + 1 + sign..], |c| c.is_ascii_digit()).len();
            if digits > 0 {
                whole = false;
                end += 1 + sign + digits;
            }
        }
        let literal = &rest[..end];
        self.cursor.skip(end);
        if whole && rest[end..].starts_with(['l', 'L']) {
            self.cursor.skip(1);
        }
        if self.cursor.peek().is_some_and(char::is_alphanumeric) {
            return Err(SyntaxFault::new(
                start,
                format!("expected a number, found {:?}; quote text", take(rest, |c| !c.is_whitespace())),
            ));
        }
        let number = if whole { literal.parse().ok().map(QueryNumber::Integer) } else { None };
        number
            .or_else(|| literal.parse().ok().map(QueryNumber::Float))
            .ok_or_else(|| SyntaxFault::new(start, format!("{literal:?} is not a number")))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The longest prefix of `text` that consists of wanted characters.
fn take(text: &str, wanted: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !wanted(c)).unwrap_or(text.len())]
}
