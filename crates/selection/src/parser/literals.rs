//! Numbers and texts.

use super::SelectionParser;
use crate::Error;
use crate::expression::SelectionOperand;

impl SelectionParser<'_> {
    /// Parses a number with its sign, in any form of Java.
    pub(super) fn number(&mut self) -> Result<SelectionOperand, Error> {
        let start = self.cursor.offset();
        let negative = self.cursor.take_here("-");
        if negative || self.cursor.take_here("+") {
            self.cursor.skip_blanks();
        }
        let signed = |number: SelectionOperand| match number {
            SelectionOperand::Integer(number) if negative => SelectionOperand::Integer(-number),
            SelectionOperand::Float(number) if negative => SelectionOperand::Float(-number),
            number => number,
        };
        let rest = self.cursor.rest();
        if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            // All 64 bits can be written; the highest is the sign.
            let Ok(bits) = u64::from_str_radix(&digits[..length], 16) else {
                return Err(self.fail("expected 1 to 16 hexadecimal digits after 0x"));
            };
            self.cursor.skip(2 + length);
            return Ok(signed(SelectionOperand::Integer(i128::from(bits as i64))));
        }
        let mut end = 0;
        let mut exponent = false;
        for c in rest[end..].chars() {
            let after_exponent = rest[..end].ends_with(['e', 'E']);
            if !(c.is_ascii_digit() || c == '.' || (exponent && after_exponent && (c == '-' || c == '+'))) {
                if exponent || !matches!(c, 'e' | 'E') {
                    break;
                }
                exponent = true;
            }
            end += 1;
        }
        let written = &rest[..end];
        let parsed = match written.parse::<i128>() {
            Ok(number) if written.bytes().any(|byte| byte.is_ascii_digit()) => {
                Some(SelectionOperand::Integer(number))
            }
            _ => written.parse::<f64>().ok().filter(|number| number.is_finite()).map(SelectionOperand::Float),
        };
        match parsed {
            Some(number) => {
                self.cursor.skip(end);
                // Suffixes of types, as in Java.
                let suffixes: &[&str] = match number {
                    SelectionOperand::Float(_) if written.contains('.') => &["f", "F", "d", "D"],
                    SelectionOperand::Integer(_) => &["l", "L"],
                    _ => &[],
                };
                let more = self.cursor.rest().chars().nth(1).is_some_and(|c| c.is_alphanumeric() || c == '_');
                if !more
                    && let Some(suffix) =
                        suffixes.iter().find(|suffix| self.cursor.rest().starts_with(**suffix))
                {
                    self.cursor.skip(suffix.len());
                }
                Ok(signed(number))
            }
            None => {
                self.cursor.go_to(start);
                Err(self.fail("expected a number"))
            }
        }
    }

    /// Parses a text in double or single quotes.
    pub(super) fn text_literal(&mut self) -> Result<String, Error> {
        let rest = self.cursor.rest();
        let mut text = String::new();
        let mut chars = rest.char_indices();
        // Single quotes are also valid: they need no escape in JSON.
        let quote = chars.next().map_or('"', |(_, quote)| quote);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.cursor.skip(at + 1);
                    return Ok(text);
                }
                '\\' => {
                    let escaped = match chars.next() {
                        Some((_, 'n')) => '\n',
                        Some((_, 't')) => '\t',
                        Some((_, 'f')) => '\u{c}',
                        Some((_, 'r')) => '\r',
                        Some((_, 'x')) => {
                            let mut digit = || chars.next().and_then(|(_, c)| c.to_digit(16));
                            let code = digit().zip(digit()).map(|(high, low)| high << 4 | low);
                            code.and_then(char::from_u32)
                                .ok_or_else(|| self.fail("\\x needs two hexadecimal digits"))?
                        }
                        Some((_, 'u')) => {
                            let digits = chars.by_ref().take(4).map(|(_, c)| c.to_digit(16));
                            let code = digits.collect::<Option<Vec<u32>>>().filter(|all| all.len() == 4);
                            code.and_then(|all| char::from_u32(all.iter().fold(0, |code, c| code << 4 | c)))
                                .ok_or_else(|| self.fail("\\u needs four hexadecimal digits of a character"))?
                        }
                        Some((_, other)) => other,
                        None => break,
                    };
                    text.push(escaped);
                }
                _ => text.push(c),
            }
        }
        Err(self.fail("the quotes are not closed"))
    }
}
