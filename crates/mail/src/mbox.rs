//! Reader of mbox files: consecutive messages, each after a line that begins with `From `.

use std::io::{self, BufRead};

/// Maximum size of a message, in bytes; larger ones are skipped.
const MESSAGE_MAX: usize = 64 << 20;

/// Messages of an mbox file, read one at a time.
///
/// A message begins at a `From ` line with a time in it, at the start of the file or after an empty line: so
/// a paragraph that begins with "From" and was not quoted stays part of its message. `>From ` and `>>From `
/// lose one `>`.
pub(crate) struct MboxMessages<R> {
    reader: R,
    line: Vec<u8>,
    /// True if the message is not empty.
    any: bool,
    /// True if the separator of the next message has been read.
    begun: bool,
    ended: bool,
}

/// Raw message of an mbox file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawMessage {
    /// Its bytes, with quoting removed.
    Whole(Vec<u8>),
    /// Larger than the maximum size.
    TooLarge,
}

impl<R: BufRead> MboxMessages<R> {
    pub(crate) fn new(reader: R) -> Self {
        MboxMessages { reader, line: Vec::new(), any: false, begun: false, ended: false }
    }

    /// Reads a line with its end; the excess over a message's maximum size is skipped. Returns false at the
    /// end.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut any = false;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(any);
            }
            any = true;
            let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
            let taken = end.unwrap_or(buffer.len());
            let kept = taken.min(MESSAGE_MAX.saturating_sub(self.line.len()));
            self.line.extend_from_slice(&buffer[..kept]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn read_message(&mut self) -> io::Result<Option<RawMessage>> {
        let mut message = Vec::new();
        let mut too_large = false;
        // The line before the first of a file counts as empty.
        let mut after_empty = true;
        loop {
            if !self.read_line()? {
                if self.any && !self.begun {
                    let reason = "it is not an mbox: no line has 'From ', a sender and a time in it";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                self.ended = true;
                break;
            }
            self.any = true;
            if after_empty && is_separator(&self.line) {
                if self.begun {
                    break;
                }
                self.begun = true;
                after_empty = false;
                continue;
            }
            after_empty = self.line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if !self.begun {
                continue;
            }
            too_large |= message.len() + self.line.len() > MESSAGE_MAX;
            if too_large {
                message = Vec::new();
            } else {
                message.extend_from_slice(unquoted(&self.line));
            }
        }
        Ok(match (too_large, message.is_empty()) {
            (true, _) => Some(RawMessage::TooLarge),
            (false, false) => Some(RawMessage::Whole(message)),
            (false, true) => None,
        })
    }
}

impl<R: BufRead> Iterator for MboxMessages<R> {
    type Item = io::Result<RawMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.read_message() {
                Ok(Some(message)) => return Some(Ok(message)),
                // There is nothing between two separators in a row.
                Ok(None) => {}
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// True for a separator such as `From someone Sat Jan  3 01:05:34 1996`, which has a time of day.
fn is_separator(line: &[u8]) -> bool {
    let time = |window: &[u8]| {
        let [a, b, colon, c, d] = window else { return false };
        *colon == b':' && [a, b, c, d].into_iter().all(u8::is_ascii_digit)
    };
    line.starts_with(b"From ") && line.len() < 1_000 && line.windows(5).any(time)
}

/// A line without the `>` that keeps it from being a separator.
fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|&&byte| byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") { &line[1..] } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, expected: &[&str]) {
        let messages: Vec<String> = MboxMessages::new(file.as_bytes())
            .map(|message| match message.unwrap() {
                RawMessage::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                RawMessage::TooLarge => "too large".to_owned(),
            })
            .collect();
        assert_eq!(messages, expected, "{file}");
    }

    const FROM: &str = "From ann@example.com Sat Jan  3 01:05:34 1996\n";

    #[test]
    fn messages_are_separated() {
        check("", &[]);
        let found: Vec<_> = MboxMessages::new(&b"no mbox at all\n"[..]).collect();
        assert!(
            matches!(&found[..], [Err(error)] if error.to_string().contains("it is not an mbox")),
            "{found:?}"
        );
        check(&format!("{FROM}a: 1\n\nx\n\n{FROM}b: 2\n\ny"), &["a: 1\n\nx\n\n", "b: 2\n\ny"]);
        check(&format!("{FROM}{FROM}\n{FROM}c: 3\n"), &[&format!("{FROM}\n"), "c: 3\n"]);
    }

    #[test]
    fn quoting_is_undone() {
        check(
            &format!("{FROM}a: 1\n\n>From here\n>>From there\n> From\n"),
            &["a: 1\n\nFrom here\n>From there\n> From\n"],
        );
    }

    #[test]
    fn paragraphs_that_begin_with_from_stay() {
        check(
            &format!("{FROM}a: 1\n\nFrom Monday on, it rains.\n"),
            &["a: 1\n\nFrom Monday on, it rains.\n"],
        );
        check(&format!("{FROM}a: 1\nx\n{FROM}"), &[&format!("a: 1\nx\n{FROM}")]);
    }

    #[test]
    fn what_is_too_large_is_passed_over() {
        let large = "x".repeat(MESSAGE_MAX + 1);
        check(&format!("{FROM}a: 1\n\n{large}\n\n{FROM}b: 2\n"), &["too large", "b: 2\n"]);
    }
}
