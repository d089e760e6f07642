//! JSON as written in a shell: strings may have single quotes, and lines and tabs as they are; names may be
//! without quotes.

use serde_json::{Error, Value};

/// Parses a JSON text of at most `values_max` values: in the tree, a value of two bytes takes many times its
/// size. Valid JSON is used unchanged; otherwise it is read as [`read`] says.
pub(super) fn parse(text: &[u8], values_max: usize) -> Result<Value, Error> {
    // Each value but the first of its list or object follows a comma, and each list or object has a bracket.
    if text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).nth(values_max).is_some()
        && values(text) > values_max
    {
        return Err(serde::de::Error::custom(format!(
            "it has more than {values_max} values; give long lists to 'in' and 'weightedSet' as parameters of their own, by @name"
        )));
    }
    read(text, |text| serde_json::from_slice(text))
}

/// The mark that some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Result of `read` for a JSON text without its byte order mark, or, if that is an error, for the text with
/// single quotes replaced by double ones, names in quotes, and control characters in strings escaped.
pub(super) fn read<T>(text: &[u8], mut read: impl FnMut(&[u8]) -> Result<T, Error>) -> Result<T, Error> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    read(text).or_else(|error| read(&strict(text)).map_err(|_| error))
}

/// Approximate number of values in the text, except those in strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut quote, mut escaped) = (1, None, false);
    for byte in text {
        match (byte, quote) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"' | b'\'', None) => quote = Some(*byte),
            (byte, Some(open)) if *byte == open => quote = None,
            (b',' | b'[' | b'{', None) => count += 1,
            _ => {}
        }
    }
    count
}

/// Replaces the quotes of strings in single quotes by double ones, puts names without quotes into quotes, and
/// replaces control characters in strings by their escapes.
fn strict(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut quote = None;
    // The last byte that is not a blank: a name follows a brace or a comma.
    let mut before = b' ';
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match (quote, byte) {
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                out.push(b'"');
            }
            (None, _) if matches!(before, b'{' | b',') => {
                let rest = &text[text.len() - bytes.len() - 1..];
                match bare_name(rest) {
                    0 => out.push(byte),
                    length => {
                        out.push(b'"');
                        out.extend(&rest[..length]);
                        out.push(b'"');
                        bytes = rest[length..].iter();
                    }
                }
            }
            (Some(open), _) if byte == open => {
                quote = None;
                out.push(b'"');
            }
            (Some(b'\''), b'"') => out.extend(b"\\\""),
            (Some(_), b'\\') => match bytes.next() {
                Some(b'\'') => out.push(b'\''),
                escaped => {
                    out.push(byte);
                    out.extend(escaped);
                }
            },
            (Some(_), 0..0x20) => out.extend(format!("\\u{byte:04x}").into_bytes()),
            _ => out.push(byte),
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    out
}

/// Length of the name without quotes at the start of `text`; 0 if there is none, or no colon after it.
fn bare_name(text: &[u8]) -> usize {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'\\{}[],:".contains(byte);
    let length = text.iter().position(ends).unwrap_or(text.len());
    let after = text[length..].iter().find(|byte| !byte.is_ascii_whitespace());
    if after == Some(&b':') { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_names_and_lines_are_as_in_a_shell() {
        for (text, expected) in [
            (r#"{'a': 'b"c', "d": "it's"}"#, r#"{"a":"b\"c","d":"it's"}"#),
            (r#"{'a': 'it\'s', 'b': "x\"y"}"#, r#"{"a":"it's","b":"x\"y"}"#),
            (r#"{'a': ['\n', 1, true]}"#, r#"{"a":["\n",1,true]}"#),
            ("{\n\"a\":\t\"b\nc\td\",\n 'e': 'f\r\n\\n'}", r#"{"a":"b\nc\td","e":"f\r\n\n"}"#),
            ("\u{feff}{\"a\": 1}", r#"{"a":1}"#),
            (r#"{a: [1, null], b : {"c": 'd', >=:10}}"#, r#"{"a":[1,null],"b":{"c":"d",">=":10}}"#),
            (r#"{"a": 'x, y: {z: 1}', 2003:"b,c:d"}"#, r#"{"a":"x, y: {z: 1}","2003":"b,c:d"}"#),
        ] {
            assert_eq!(parse(text.as_bytes(), 100).unwrap().to_string(), expected, "{text}");
        }
        for text in ["{'a': 'b}", "{'a' 'b'}", "'", "{\"a\": 'b\\", "{a}", "{a 1}", "[a, b: 1]", "{: 1}"] {
            assert!(parse(text.as_bytes(), 100).is_err(), "{text}");
        }
    }
}
