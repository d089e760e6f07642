//! JSON as people write it in a shell: strings may stand in single quotes.

use serde_json::{Error, Value};

/// The value of a JSON text. One that is right as it stands is taken so; otherwise single quotes are read as double ones.
pub(super) fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).or_else(|error| {
        if !text.contains(&b'\'') {
            return Err(error);
        }
        serde_json::from_slice(&double_quoted(text)).map_err(|_| error)
    })
}

/// The text with each string in single quotes put in double ones.
fn double_quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                out.push(b'"');
            }
            (Some(open), _) if byte == open => {
                quote = None;
                out.push(b'"');
            }
            (Some(b'\''), b'"') => out.extend(b"\\\""),
            (Some(_), b'\\') => match bytes.next() {
                Some(b'\'') => out.push(b'\''),
                escaped => out.extend(std::iter::once(byte).chain(escaped)),
            },
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_quotes_will_do() {
        for (text, expected) in [
            (r#"{'a': 'b"c', "d": "it's"}"#, r#"{"a":"b\"c","d":"it's"}"#),
            (r#"{'a': 'it\'s', 'b': "x\"y"}"#, r#"{"a":"it's","b":"x\"y"}"#),
            (r#"{'a': ['\n', 1, true]}"#, r#"{"a":["\n",1,true]}"#),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), expected, "{text}");
        }
        for text in ["{'a': 'b}", "{'a' 'b'}", "'", "{\"a\": 'b\\"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
