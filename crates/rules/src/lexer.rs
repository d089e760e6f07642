//! Lexer of rule bases: text to tokens with locations.

use std::fmt;

use millrace_schema::SourcePosition;

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleToken {
    /// Letters and digits, with `_`, `-` and `.` inside.
    Word(String),
    /// `'…'`.
    Literal(String),
    /// `"…"`.
    Phrase(String),
    Symbol(&'static str),
    End,
}

impl fmt::Display for RuleToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleToken::Word(text) => write!(f, "'{text}'"),
            RuleToken::Literal(text) => write!(f, "the literal '{text}'"),
            RuleToken::Phrase(text) => write!(f, "the phrase \"{text}\""),
            RuleToken::Symbol(symbol) => write!(f, "'{symbol}'"),
            RuleToken::End => f.write_str("the end of the file"),
        }
    }
}

/// A token and its start.
#[derive(Debug, Clone)]
pub(crate) struct PlacedToken {
    pub(crate) token: RuleToken,
    pub(crate) place: SourcePosition,
}

/// A symbol comes before its own prefixes.
const SYMBOLS: &[&str] = &[
    "...", ":-", "->", "+>", "<=", ">=", "=~", "[", "]", "(", ")", ",", ";", ":", "/", "!", "&", ".", "=",
    "<", ">", "+", "-", "$", "?", "*", "@",
];

/// All tokens of a file; the last one is [`RuleToken::End`].
///
/// # Errors
/// An unknown character, or quotes without an end.
pub(crate) fn tokens(file: &str, text: &str) -> Result<Vec<PlacedToken>, Error> {
    let mut tokens = Vec::new();
    let (mut line, mut column) = (1, 1);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let place = SourcePosition { file: file.to_owned(), line, column };
        let wrong = |reason: String| Error::Syntax { place: place.clone(), reason };
        let (token, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if first == '#' {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if first == '\'' || first == '"' {
            let inside = &rest[1..];
            let Some(length) = inside.find([first, '\n']).filter(|end| inside[*end..].starts_with(first))
            else {
                return Err(wrong(format!("the quote {first} is not closed: close it on the same line")));
            };
            let inside = inside[..length].to_owned();
            let token = if first == '\'' { RuleToken::Literal(inside) } else { RuleToken::Phrase(inside) };
            (Some(token), length + 2)
        } else if first == '…' {
            (Some(RuleToken::Symbol("...")), first.len_utf8())
        } else if is_of_word(first) {
            let length = word_length(rest);
            (Some(RuleToken::Word(rest[..length].to_owned())), length)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Some(RuleToken::Symbol(symbol)), symbol.len())
        } else {
            return Err(wrong(format!(
                "'{first}' has no meaning here: terms are letters and digits, as those that a query is split into"
            )));
        };
        if let Some(token) = token {
            tokens.push(PlacedToken { token, place });
        }
        for passed in rest[..length].chars() {
            (line, column) = if passed == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        rest = &rest[length..];
    }
    tokens.push(PlacedToken {
        token: RuleToken::End,
        place: SourcePosition { file: file.to_owned(), line, column },
    });
    Ok(tokens)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || (!c.is_ascii() && !c.is_whitespace() && c != '…')
}

/// Length of the word at the start of the text. A dash or a dot belongs to a word if the word continues after
/// it.
fn word_length(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let goes_on = chars.peek().is_some_and(|(_, next)| is_of_word(*next));
        if !(is_of_word(c) || matches!(c, '-' | '.') && goes_on) {
            return at;
        }
    }
    text.len()
}
