//! Cutting a feed into operations: a JSON array of objects, or objects one after another (JSON lines).
//!
//! Only the boundaries of objects are looked for here, so that a feed of any length passes through a buffer of one object.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, document_path};

/// The largest operation, in bytes.
const OPERATION_BYTES_MAX: usize = 64 << 20;

/// Reads operations from a stream.
pub(super) struct Reader<R> {
    stream: R,
    at: Position,
    ended: bool,
}

/// Where the reader is.
struct Position {
    input: String,
    line: u64,
    offset: u64,
}

impl Position {
    fn fail(&self, reason: String) -> Error {
        Error::Feed { input: self.input.clone(), line: self.line, offset: self.offset, reason }
    }

    fn failed(&self, error: &io::Error) -> Error {
        self.fail(format!("cannot be read: {error}"))
    }
}

/// One operation, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Path and parameters.
    pub(super) target: String,
    pub(super) body: Vec<u8>,
    pub(super) place: Place,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Update,
    Remove,
}

/// Where an operation stands in its feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its first line, from 1.
    pub(super) line: u64,
    /// Its first byte, from 0.
    pub(super) offset: u64,
    /// The byte after it.
    pub(super) end: u64,
}

impl<R: BufRead> Reader<R> {
    /// A reader of `stream`, called `input` in messages.
    pub(super) fn new(input: &str, stream: R) -> Self {
        Reader { stream, at: Position { input: input.to_owned(), line: 1, offset: 0 }, ended: false }
    }

    /// Passes over the first `offset` bytes.
    pub(super) fn skip(&mut self, offset: u64) -> Result<(), Error> {
        while self.at.offset < offset {
            let wanted = offset - self.at.offset;
            let read = self.stream.fill_buf().map_err(|error| self.at.failed(&error))?;
            if read.is_empty() {
                return Err(self.at.fail(
                    "the feed is shorter than what was fed from it; remove the resume file".to_owned(),
                ));
            }
            let step = read.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
            let lines = read[..step].iter().filter(|byte| **byte == b'\n').count();
            self.advance(step, lines);
        }
        Ok(())
    }

    /// The next operation; `None` at the end. After [`Error::Feed`] for one operation the next can be read; text that is not JSON
    /// ends the feed.
    pub(super) fn next(&mut self) -> Option<Result<Operation, Error>> {
        if self.ended {
            return None;
        }
        match self.begin() {
            Ok(true) => {}
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Err(error) => {
                self.ended = true;
                return Some(Err(error));
            }
        }
        let (line, offset) = (self.at.line, self.at.offset);
        let object = match self.object() {
            Ok(object) => object,
            Err(error) => {
                self.ended = true;
                return Some(Err(error));
            }
        };
        let place = Place { line, offset, end: self.at.offset };
        Some(operation(&object, place).map_err(|reason| Error::Feed {
            input: self.at.input.clone(),
            line,
            offset,
            reason,
        }))
    }

    fn advance(&mut self, bytes: usize, lines: usize) {
        self.stream.consume(bytes);
        self.at.offset += bytes as u64;
        self.at.line += lines as u64;
    }

    /// Goes to the next `{`; false at the end.
    fn begin(&mut self) -> Result<bool, Error> {
        loop {
            let buffer = self.stream.fill_buf().map_err(|error| self.at.failed(&error))?;
            let Some(&byte) = buffer.first() else { return Ok(false) };
            match byte {
                b'{' => return Ok(true),
                b'\n' => self.advance(1, 1),
                b' ' | b'\t' | b'\r' | b'[' | b']' | b',' => self.advance(1, 0),
                // The mark that some editors put before UTF-8.
                0xef | 0xbb | 0xbf if self.at.offset < 3 => self.advance(1, 0),
                other => {
                    return Err(self.at.fail(format!(
                        "expected an operation such as {{\"put\": \"id:…\", \"fields\": {{…}}}}, found '{}'",
                        char::from(other).escape_default()
                    )));
                }
            }
        }
    }

    /// The bytes of the object that begins here.
    fn object(&mut self) -> Result<Vec<u8>, Error> {
        let mut object = Vec::new();
        let mut scan = Scan::default();
        loop {
            let buffer = self.stream.fill_buf().map_err(|error| self.at.failed(&error))?;
            if buffer.is_empty() {
                return Err(self.at.fail("the feed ends inside an operation".to_owned()));
            }
            let end = scan.end_of_object(buffer);
            let taken = end.unwrap_or(buffer.len());
            object.extend_from_slice(&buffer[..taken]);
            let lines = buffer[..taken].iter().filter(|byte| **byte == b'\n').count();
            self.advance(taken, lines);
            if end.is_some() {
                return Ok(object);
            }
            if object.len() > OPERATION_BYTES_MAX {
                return Err(self.at.fail(format!("an operation is longer than {OPERATION_BYTES_MAX} bytes")));
            }
        }
    }
}

/// How far into an object the scan is.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// The index after the brace that closes the object, if `bytes` has it.
    fn end_of_object(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, &byte) in bytes.iter().enumerate() {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match byte {
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' => self.depth += 1,
                    b'}' => {
                        self.depth -= 1;
                        if self.depth == 0 {
                            return Some(index + 1);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}

/// An operation as feeds have it.
#[derive(Deserialize)]
struct Written<'a> {
    put: Option<String>,
    update: Option<String>,
    remove: Option<String>,
    delete: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
    condition: Option<String>,
    create: Option<bool>,
}

fn operation(object: &[u8], place: Place) -> Result<Operation, String> {
    let written: Written<'_> = serde_json::from_slice(object).map_err(|error| error.to_string())?;
    let ids = [
        (Kind::Put, written.put.or(written.id)),
        (Kind::Update, written.update),
        (Kind::Remove, written.remove.or(written.delete)),
    ];
    let mut named = ids.into_iter().filter_map(|(kind, id)| id.map(|id| (kind, id)));
    let Some((kind, id)) = named.next() else {
        return Err("there is no \"put\", \"update\" or \"remove\" with a document id in it".to_owned());
    };
    if named.next().is_some() {
        return Err("it has more than one of \"put\", \"update\" and \"remove\"".to_owned());
    }
    let mut target = document_path(&id).map_err(|error| error.to_string())?;
    let mut separator = '?';
    let mut parameter = |name: &str, value: &str| {
        target.push(separator);
        target.push_str(&format!("{name}={}", crate::id::Encoded(value)));
        separator = '&';
    };
    if let Some(condition) = &written.condition {
        parameter("condition", condition);
    }
    if written.create == Some(true) {
        parameter("create", "true");
    }
    let body = match (kind, written.fields) {
        (Kind::Remove, _) => Vec::new(),
        (_, Some(fields)) => format!("{{\"fields\":{}}}", fields.get()).into_bytes(),
        (_, None) => return Err(format!("the operation on {id} has no \"fields\"")),
    };
    Ok(Operation { id, kind, target, body, place })
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// The operations of `feed` as text, read through a buffer of every size that may cut them.
    #[track_caller]
    fn check(feed: &str, expected: &[&str]) {
        for size in [1, 2, 7, 4096] {
            let mut reader = Reader::new("feed", BufReader::with_capacity(size, feed.as_bytes()));
            let mut read = Vec::new();
            while let Some(next) = reader.next() {
                read.push(match next {
                    Ok(operation) => format!(
                        "{} {:?} {} {}",
                        operation.place.line,
                        operation.kind,
                        operation.target,
                        String::from_utf8_lossy(&operation.body)
                    ),
                    Err(error) => error.to_string(),
                });
            }
            assert_eq!(read, expected, "with a buffer of {size}");
        }
    }

    #[test]
    fn arrays_and_lines() {
        let put = r#"{"put":"id:n:t::1","fields":{"a":"}\"{"}}"#;
        let read = r#"Put /document/v1/n/t/docid/1 {"fields":{"a":"}\"{"}}"#;
        check(&format!("[{put},\n{put}]\n"), &[&format!("1 {read}"), &format!("2 {read}")]);
        check(&format!("{put}\n\n{put}"), &[&format!("1 {read}"), &format!("3 {read}")]);
        check("", &[]);
        check("[]", &[]);
    }

    #[test]
    fn conditions_and_kinds() {
        check(
            r#"{"update":"id:n:t::1","create":true,"condition":"t.a=='b'","fields":{}}{"remove":"id:n:t:g=x:1"}"#,
            &[
                r#"1 Update /document/v1/n/t/docid/1?condition=t.a%3D%3D%27b%27&create=true {"fields":{}}"#,
                "1 Remove /document/v1/n/t/group/x/1 ",
            ],
        );
    }

    #[test]
    fn one_bad_operation_does_not_end_the_feed() {
        check(
            "{\"put\":\"x\",\"fields\":{}}\n{\"remove\":\"id:n:t::1\"}",
            &[
                "feed, line 1 (byte 0): 'x' is not a document id; write id:<namespace>:<type>:[g=<group>|n=<number>]:<name>",
                "2 Remove /document/v1/n/t/docid/1 ",
            ],
        );
    }

    #[test]
    fn text_that_is_not_json_does() {
        check(
            "hello",
            &[
                "feed, line 1 (byte 0): expected an operation such as {\"put\": \"id:…\", \"fields\": {…}}, found 'h'",
            ],
        );
        check("{\"put\":", &["feed, line 1 (byte 7): the feed ends inside an operation"]);
    }
}
