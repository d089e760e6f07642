//! Parser of lists and weighted tokens in the text of a parameter: `a, b`, `{a: 1, 'b c': 2}`,
//! `[[1, 2], [3, 4]]`.

use millrace_cursor::TextCursor;

use super::arguments::parse_number;
use crate::Error;

/// Parses the values of a list; only values with a comma or a quote need quotes.
pub(crate) fn list(text: &str) -> Result<Vec<String>, Error> {
    let mut reader = WeightReader { cursor: TextCursor::new(text) };
    let mut values = Vec::new();
    if text.trim().is_empty() {
        return Ok(values);
    }
    loop {
        values.push(reader.value(&[','])?);
        if reader.end() {
            return Ok(values);
        }
        reader.expect(',')?;
    }
}

/// Parses weighted tokens.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, f64)>, Error> {
    let mut reader = WeightReader { cursor: TextCursor::new(text) };
    let mut pairs = Vec::new();
    let (close, inner) = match reader.peek() {
        Some('{') => ('}', None),
        Some('[') => (']', Some(('[', ']'))),
        _ => return Err(Error::value("expected {token: weight, …} or [[token, weight], …]")),
    };
    reader.cursor.take_char();
    if reader.peek() == Some(close) {
        reader.cursor.take_char();
        return Ok(pairs);
    }
    loop {
        let separator = match inner {
            Some((open, _)) => {
                reader.expect(open)?;
                ','
            }
            None => ':',
        };
        let token = reader.value(&[separator, close])?;
        reader.expect(separator)?;
        let weight = reader.value(&[',', close])?;
        let weight = parse_number(&weight)
            .ok_or_else(|| Error::value(format!("the weight {weight:?} of {token:?} is not a number")))?;
        if let Some((_, end)) = inner {
            reader.expect(end)?;
        }
        pairs.push((token, weight.as_f64()));
        match reader.peek() {
            Some(',') => reader.cursor.skip(1),
            _ => break,
        }
    }
    reader.expect(close)?;
    if reader.end() {
        Ok(pairs)
    } else {
        Err(Error::value(format!("found {:?} after '{close}'", reader.cursor.rest())))
    }
}

struct WeightReader<'a> {
    cursor: TextCursor<'a>,
}

impl WeightReader<'_> {
    /// Skips blanks, and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.cursor.skip_blanks();
        self.cursor.peek()
    }

    fn end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn expect(&mut self, wanted: char) -> Result<(), Error> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.cursor.take_char();
                Ok(())
            }
            Some(found) => Err(Error::value(format!(
                "expected '{wanted}', found {found:?} at character {}",
                self.character()
            ))),
            None => Err(Error::value(format!("expected '{wanted}', found the end"))),
        }
    }

    /// Reads a quoted string, or the text up to one of `ends`.
    fn value(&mut self, ends: &[char]) -> Result<String, Error> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.cursor.take_char();
                let mut value = String::new();
                let mut escaped = false;
                loop {
                    let Some(c) = self.cursor.take_char() else {
                        return Err(Error::value(format!("a string is not closed; expected {quote}")));
                    };
                    match c {
                        '\\' if !escaped => escaped = true,
                        _ if c == quote && !escaped => return Ok(value),
                        _ => {
                            escaped = false;
                            value.push(c);
                        }
                    }
                }
            }
            _ => {
                let value = self.cursor.take_while(|c| !ends.contains(&c));
                if value.trim().is_empty() {
                    return Err(Error::value(format!("expected a value at character {}", self.character())));
                }
                Ok(value.trim().to_owned())
            }
        }
    }

    /// Position in characters, from 1.
    fn character(&self) -> usize {
        self.cursor.character_at(self.cursor.offset())
    }
}
