use millrace_cursor::{TextCursor, TextPosition};
use millrace_schema::{SourcePosition, SourcedText};

/// Kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IndexingTokenKind {
    Name(String),
    Text(String),
    Integer(i64),
    /// Number with the suffix `L`, or too large for 32 bits.
    Long(i64),
    Double(f64),
    /// Number with the suffix `f`.
    Float(f32),
    Symbol(&'static str),
    End,
}

/// A token with its offset in the text.
#[derive(Debug, Clone)]
pub(crate) struct IndexingToken {
    pub kind: IndexingTokenKind,
    pub start: usize,
    pub end: usize,
}

/// Longest first, so that `||` is not read as two symbols.
const SYMBOLS: [&str; 24] = [
    "||", "==", "!=", "<=", ">=", "|", ";", "{", "}", "(", ")", ":", ".", "+", "-", "*", "/", "%", "<", ">",
    "=", ",", "[", "]",
];

/// Tokens of a text; the last one is [`IndexingTokenKind::End`].
///
/// # Errors
/// Offset of an invalid token, with the cause.
pub(crate) fn tokens(text: &str) -> Result<Vec<IndexingToken>, (usize, String)> {
    let mut tokens = Vec::new();
    let mut cursor = TextCursor::new(text);
    loop {
        cursor.skip_blanks();
        let (start, rest) = (cursor.offset(), cursor.rest());
        let Some(first) = cursor.peek() else {
            tokens.push(IndexingToken { kind: IndexingTokenKind::End, start, end: start });
            return Ok(tokens);
        };
        let kind = if first == '"' || first == '\'' {
            let (kind, length) = quoted(rest, first).map_err(|fault| (start, fault.to_string()))?;
            cursor.skip(length);
            kind
        } else if first.is_ascii_digit() {
            let (kind, length) = number(rest).map_err(|fault| (start, fault.to_string()))?;
            cursor.skip(length);
            kind
        } else if first.is_alphabetic()
            || first == '_'
            || first == '$' && rest[1..].starts_with(char::is_alphabetic)
        {
            // `$key` and `$value` are the parts of an entry of a map.
            cursor.skip(usize::from(first == '$'));
            cursor.take_while(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
            IndexingTokenKind::Name(rest[..cursor.offset() - start].to_owned())
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| cursor.take(symbol)) {
            IndexingTokenKind::Symbol(symbol)
        } else {
            return Err((start, format!("'{first}' is not part of the language")));
        };
        tokens.push(IndexingToken { kind, start, end: cursor.offset() });
    }
}

/// Location of an offset in text that starts at a location.
pub(crate) fn position(source: &SourcedText<String>, offset: usize) -> SourcePosition {
    let start = TextPosition { line: source.position.line, column: source.position.column };
    let TextPosition { line, column } = start.after(&source.value[..offset]);
    SourcePosition { file: source.position.file.clone(), line, column }
}

/// Fault of a literal.
#[derive(Debug, thiserror::Error)]
enum LiteralFault {
    #[error("\\{escape} needs {digits} hexadecimal digits")]
    Digits { escape: char, digits: usize },
    #[error("\\u{0:04x} is not a character")]
    Character(u32),
    #[error("the {0} is not closed")]
    Unclosed(char),
    #[error("'{0}' is out of range")]
    Range(String),
    #[error("'{0}' is not a number")]
    Number(String),
}

fn quoted(text: &str, quote: char) -> Result<(IndexingTokenKind, usize), LiteralFault> {
    // Bytes, because `\x` writes single ones, of which several may make a character.
    let mut value: Vec<u8> = Vec::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let text = String::from_utf8_lossy(&value).into_owned();
            return Ok((IndexingTokenKind::Text(text), at + 1));
        }
        if c != '\\' {
            value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        let c = match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'f' => '\u{c}',
            'u' | 'x' => {
                let digits = if escaped == 'u' { 4 } else { 2 };
                let mut code = 0;
                for _ in 0..digits {
                    let digit = chars.next().and_then(|(_, c)| c.to_digit(16));
                    code = code * 16 + digit.ok_or(LiteralFault::Digits { escape: escaped, digits })?;
                }
                if escaped == 'x' {
                    value.push(code as u8);
                    continue;
                }
                char::from_u32(code).ok_or(LiteralFault::Character(code))?
            }
            other => other,
        };
        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Err(LiteralFault::Unclosed(quote))
}

fn number(text: &str) -> Result<(IndexingTokenKind, usize), LiteralFault> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if let Some(hexadecimal) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let length = hexadecimal.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
        let written = &text[..length + 2];
        let number = i64::from_str_radix(&hexadecimal[..length], 16)
            .map_err(|_| LiteralFault::Range(written.to_owned()))?;
        return Ok(match hexadecimal[length..].starts_with(['l', 'L']) {
            true => (IndexingTokenKind::Long(number), written.len() + 1),
            false if i32::try_from(number).is_ok() => (IndexingTokenKind::Integer(number), written.len()),
            false => (IndexingTokenKind::Long(number), written.len()),
        });
    }
    let mut length = digits(text);
    let mut fraction = false;
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
        fraction = true;
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[length + 1 + sign..]);
        if exponent > 0 {
            length += 1 + sign + exponent;
            fraction = true;
        }
    }
    let written = &text[..length];
    let wrong = |_| LiteralFault::Range(written.to_owned());
    match text[length..].chars().next() {
        Some('f' | 'F') => Ok((
            IndexingTokenKind::Float(written.parse().map_err(|_| LiteralFault::Number(written.to_owned()))?),
            length + 1,
        )),
        Some('l' | 'L') if !fraction => {
            Ok((IndexingTokenKind::Long(written.parse().map_err(wrong)?), length + 1))
        }
        _ if fraction => Ok((
            IndexingTokenKind::Double(written.parse().map_err(|_| LiteralFault::Number(written.to_owned()))?),
            length,
        )),
        _ => {
            let number: i64 = written.parse().map_err(wrong)?;
            let kind = if i32::try_from(number).is_ok() {
                IndexingTokenKind::Integer(number)
            } else {
                IndexingTokenKind::Long(number)
            };
            Ok((kind, length))
        }
    }
}
