//! Lexer of rule bases: text to tokens with locations.

use std::fmt;

use millrace_cursor::{CommentStyle, TextCursor, TextPosition};
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
    pub(crate) position: SourcePosition,
}

const COMMENTS: &[CommentStyle] = &[CommentStyle::Line("#")];

/// A symbol comes before its own prefixes.
const SYMBOLS: &[&str] = &[
    "...", ":-", "->", "+>", "<=", ">=", "=~", "!=", "[", "]", "(", ")", ",", ";", ":", "/", "!", "&", ".",
    "=", "<", ">", "+", "-", "$", "?", "*", "@", "~",
];

/// All tokens of a file; the last one is [`RuleToken::End`].
///
/// # Errors
/// An unknown character, or quotes without an end.
pub(crate) fn tokens(file: &str, text: &str) -> Result<Vec<PlacedToken>, Error> {
    let mut tokens = Vec::new();
    let mut cursor = TextCursor::with_comments(text, COMMENTS);
    loop {
        cursor.skip_blanks();
        let TextPosition { line, column } = cursor.position();
        let position = SourcePosition { file: file.to_owned(), line, column };
        let Some(first) = cursor.peek() else {
            tokens.push(PlacedToken { token: RuleToken::End, position });
            return Ok(tokens);
        };
        let token = if cursor.take("'") || cursor.take("\"") {
            let inside = cursor.take_while(|c| c != first && c != '\n');
            if cursor.take_char() != Some(first) {
                let reason = format!("the quote {first} is not closed: close it on the same line");
                return Err(Error::Syntax { position, reason });
            }
            let inside = inside.to_owned();
            if first == '\'' { RuleToken::Literal(inside) } else { RuleToken::Phrase(inside) }
        } else if cursor.take("…") {
            RuleToken::Symbol("...")
        } else if is_of_word(first) {
            let word = &cursor.rest()[..word_length(cursor.rest())];
            cursor.skip(word.len());
            RuleToken::Word(word.to_owned())
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| cursor.take(symbol)) {
            RuleToken::Symbol(symbol)
        } else {
            let reason = format!(
                "'{first}' has no meaning here: terms are letters and digits, as those that a query is split into"
            );
            return Err(Error::Syntax { position, reason });
        };
        tokens.push(PlacedToken { token, position });
    }
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
