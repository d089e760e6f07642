//! Texts of scripts: their members, and the tokens of a source with a reader of them.

use serde_json::{Map, Value};

use crate::Error;
use crate::query::text_of;

/// Letters of a script.
const LETTERS_MAX: usize = 4_096;

/// Signs; of those that begin alike, the longer one first.
const SIGNS: [&str; 36] = [
    "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "++", "--", "->", "?.", "?:", "+", "-",
    "*", "/", "%", "(", ")", "<", ">", "!", "?", ":", ";", ",", ".", "[", "]", "{", "}", "=",
];

/// A script as it is given: a text, or an object with `source` and `params`.
pub(crate) struct ScriptText<'s> {
    pub(crate) source: &'s str,
    pub(crate) parameters: Option<&'s Map<String, Value>>,
    pub(crate) language: Option<String>,
}

impl<'s> ScriptText<'s> {
    /// Reads the members of a script.
    ///
    /// # Errors
    /// It has others, no source, or one that is too long.
    pub(crate) fn of(script: &'s Value) -> Result<Self, Error> {
        let text = match script {
            Value::String(source) => ScriptText { source, parameters: None, language: None },
            Value::Object(members) => {
                const KNOWN: [&str; 4] = ["source", "inline", "lang", "params"];
                if let Some(other) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
                    return Err(Error::unsupported(&format!("[{other}] of a script")));
                }
                let source = members.get("source").or_else(|| members.get("inline"));
                let source = source.and_then(Value::as_str).ok_or_else(|| {
                    Error::IllegalArgument("a script needs a [source] that is a text".to_owned())
                })?;
                let parameters = match members.get("params") {
                    None | Some(Value::Null) => None,
                    Some(Value::Object(parameters)) => Some(parameters),
                    Some(_) => {
                        return Err(Error::IllegalArgument("[params] of a script is an object".to_owned()));
                    }
                };
                ScriptText { source, parameters, language: members.get("lang").map(text_of) }
            }
            _ => return Err(Error::IllegalArgument("a script is a text or an object".to_owned())),
        };
        match text.source.len() > LETTERS_MAX {
            true => Err(Error::IllegalArgument(format!("a script may have {LETTERS_MAX} letters"))),
            false => Ok(text),
        }
    }
}

/// A part of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptToken {
    /// A number without a point and an exponent.
    Whole(i64),
    Number(f64),
    Name(String),
    Text(String),
    Sign(&'static str),
}

/// Reader of the tokens of a source.
pub(crate) struct ScriptCursor {
    tokens: Vec<ScriptToken>,
    at: usize,
    /// Error of a part that is not of the language.
    error: fn(&str) -> Error,
}

impl ScriptCursor {
    /// Divides a source into tokens.
    ///
    /// # Errors
    /// A part is not a token.
    pub(crate) fn new(source: &str, error: fn(&str) -> Error) -> Result<Self, Error> {
        Ok(ScriptCursor { tokens: tokens_of(source, error)?, at: 0, error })
    }

    /// Token here, or one as many after it.
    pub(crate) fn peek(&self, ahead: usize) -> Option<&ScriptToken> {
        self.tokens.get(self.at + ahead)
    }

    /// Passes over the token here, and returns it.
    pub(crate) fn advance(&mut self) -> Option<ScriptToken> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Number of tokens that were passed over.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Goes to a position, at which it was before.
    pub(crate) fn return_to(&mut self, position: usize) {
        self.at = position;
    }

    /// Reads a text in brackets.
    pub(crate) fn text_in_brackets(&mut self) -> Result<String, Error> {
        self.expect("[")?;
        let Some(ScriptToken::Text(text)) = self.peek(0).cloned() else {
            return Err(self.unknown());
        };
        self.at += 1;
        self.expect("]")?;
        Ok(text)
    }

    /// Reads a name.
    pub(crate) fn name(&mut self) -> Result<String, Error> {
        let Some(ScriptToken::Name(name)) = self.peek(0).cloned() else {
            return Err(self.unknown());
        };
        self.at += 1;
        Ok(name)
    }

    /// True if a name is here.
    pub(crate) fn is_at_name(&self, name: &str) -> bool {
        matches!(self.peek(0), Some(ScriptToken::Name(here)) if here == name)
    }

    /// Passes over a name, if it is here.
    pub(crate) fn takes_name(&mut self, name: &str) -> bool {
        let is_here = self.is_at_name(name);
        self.at += usize::from(is_here);
        is_here
    }

    /// True if a sign is here.
    pub(crate) fn is_at(&self, sign: &str) -> bool {
        matches!(self.peek(0), Some(ScriptToken::Sign(here)) if *here == sign)
    }

    /// Passes over a sign, if it is here.
    pub(crate) fn takes(&mut self, sign: &str) -> bool {
        let is_here = self.is_at(sign);
        self.at += usize::from(is_here);
        is_here
    }

    /// Passes over a sign.
    ///
    /// # Errors
    /// It is not here.
    pub(crate) fn expect(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes(sign) { Ok(()) } else { Err(self.unknown()) }
    }

    /// Error of the part here.
    pub(crate) fn unknown(&self) -> Error {
        match self.peek(0) {
            None => (self.error)("the end"),
            Some(ScriptToken::Whole(number)) => (self.error)(&number.to_string()),
            Some(ScriptToken::Number(number)) => (self.error)(&number.to_string()),
            Some(ScriptToken::Name(text) | ScriptToken::Text(text)) => (self.error)(text),
            Some(ScriptToken::Sign(sign)) => (self.error)(sign),
        }
    }
}

/// Parts of a source.
fn tokens_of(source: &str, error: fn(&str) -> Error) -> Result<Vec<ScriptToken>, Error> {
    let mut tokens = Vec::new();
    let mut rest = without_comment(source);
    while let Some(first) = rest.chars().next() {
        let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        let begins_number = |text: &str| text.starts_with(|sign: char| sign.is_ascii_digit());
        let (token, length) = if begins_number(rest) || first == '.' && begins_number(&rest[1..]) {
            number_at(rest).ok_or_else(|| error(rest))?
        } else if is_of_name(first) {
            let length = rest.find(|sign: char| !is_of_name(sign)).unwrap_or(rest.len());
            (ScriptToken::Name(rest[..length].to_owned()), length)
        } else if first == '\'' || first == '"' {
            text_at(rest, first).ok_or_else(|| error(rest))?
        } else {
            // The point of `?.5` is that of the number.
            let is_here = |sign: &&str| {
                rest.strip_prefix(*sign).is_some_and(|after| *sign != "?." || !begins_number(after))
            };
            let sign = SIGNS.into_iter().find(is_here).ok_or_else(|| error(rest))?;
            (ScriptToken::Sign(sign), sign.len())
        };
        tokens.push(token);
        rest = without_comment(&rest[length..]);
    }
    Ok(tokens)
}

/// A text without the blanks and comments at its beginning.
fn without_comment(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let end = match (rest.strip_prefix("//"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n'),
            (None, Some(comment)) => comment.split_once("*/"),
            (None, None) => return rest,
        };
        rest = end.map_or("", |(_, after)| after.trim_start());
    }
}

/// Text at the beginning of a source, and its length there.
fn text_at(source: &str, quote: char) -> Option<(ScriptToken, usize)> {
    let mut signs = source.char_indices().skip(1);
    let mut text = String::new();
    while let Some((at, sign)) = signs.next() {
        match sign {
            sign if sign == quote => return Some((ScriptToken::Text(text), at + 1)),
            '\\' => {
                let (_, escaped) = signs.next().filter(|(_, escaped)| ['\\', quote].contains(escaped))?;
                text.push(escaped);
            }
            other => text.push(other),
        }
    }
    None
}

/// Number at the beginning of a source, and its length with the letter of its type.
fn number_at(text: &str) -> Option<(ScriptToken, usize)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut is_whole = true;
    if bytes.get(length) == Some(&b'.') {
        is_whole = false;
        length += 1;
        length += digits(length);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            is_whole = false;
            length += 1 + sign + exponent;
        }
    }
    let kind = bytes.get(length).map(u8::to_ascii_lowercase);
    let whole = text[..length].parse::<i64>().ok().filter(|_| is_whole && !matches!(kind, Some(b'f' | b'd')));
    let token = match whole {
        Some(whole) => ScriptToken::Whole(whole),
        None => ScriptToken::Number(text[..length].parse().ok()?),
    };
    Some((token, length + usize::from(matches!(kind, Some(b'f' | b'd' | b'l')))))
}
