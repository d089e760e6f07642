use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

use serde::Deserialize;

use super::failure::reason;
use super::feed_position::FeedPosition;
use super::nesting::DEPTH;
use crate::{DocumentId, Error, OperationKind};

/// Default maximum size of one operation in bytes; [`FeedReader::with_limit`] overrides it.
const OPERATION_BYTES_MAX: usize = 256 << 20;

/// One operation of a feed: its kind, its document, and its unparsed JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedOperation {
    /// The kind.
    pub kind: OperationKind,
    /// The document.
    pub id: DocumentId,
    /// JSON of the whole object, for [`parse`](super::parse).
    pub json: Vec<u8>,
    /// Start of the object in the feed.
    pub position: FeedPosition,
}

/// Iterator that splits a feed into operations: a JSON list of objects, or a sequence of objects (JSON
/// lines).
///
/// Memory is bounded by the largest operation. An operation with invalid JSON, without an id, or with an
/// invalid one is an error of its own ([`Error::Operation`]), and the next call continues after it. The same
/// holds for a line that is not an operation or is truncated: the next line is read normally. In a list, the
/// start of the next operation is then unknown: the iterator ends after the error ([`Error::Feed`]), as it
/// does if the input cannot be read.
pub struct FeedReader<R> {
    input: BufReader<R>,
    position: FeedPosition,
    limit: usize,
    list: Option<bool>,
    after_element: bool,
    /// True if the rest of the line belongs to a rejected operation.
    in_refused_line: bool,
    ended: bool,
}

impl<R: Read> FeedReader<R> {
    /// Creates a reader at the start of `input`.
    pub fn new(input: R) -> Self {
        Self::with_limit(input, OPERATION_BYTES_MAX)
    }

    /// Creates a reader that rejects operations of more than `limit` bytes.
    pub fn with_limit(input: R, limit: usize) -> Self {
        let input = BufReader::with_capacity(1 << 16, input);
        FeedReader {
            input,
            position: FeedPosition::default(),
            limit,
            list: None,
            after_element: false,
            in_refused_line: false,
            ended: false,
        }
    }

    /// Skips the input before byte `offset`, which must be the start or the end of an operation.
    ///
    /// # Errors
    /// [`Error::Feed`]: the input cannot be read, or is shorter.
    pub fn skip_to(mut self, offset: u64) -> Result<Self, Error> {
        self.begin()?;
        while self.position.offset < offset {
            let left = usize::try_from(offset - self.position.offset).unwrap_or(usize::MAX);
            let count = self.buffered()?.len().min(left);
            if count == 0 {
                return Err(self.fail("the feed has ended before the place to go on from"));
            }
            self.consume(count);
        }
        if self.peek()? == Some(b',') {
            self.consume(1);
        }
        Ok(self)
    }

    /// Ends the iteration with an error.
    fn fail(&mut self, reason: impl Into<String>) -> Error {
        self.fail_at(self.position, reason)
    }

    fn fail_at(&mut self, position: FeedPosition, reason: impl Into<String>) -> Error {
        self.ended = true;
        Error::Feed { position, reason: reason.into() }
    }

    /// Rejects the text at `position`, which is not an operation. JSON lines continue with the next line; in
    /// a list the start of the next element is unknown.
    fn refuse(&mut self, position: FeedPosition, reason: impl Into<String>) -> Error {
        if self.list == Some(true) {
            return self.fail_at(position, reason);
        }
        self.in_refused_line = true;
        Error::Operation { position, reason: reason.into() }
    }

    fn skip_line(&mut self) -> Result<(), Error> {
        while self.in_refused_line {
            let bytes = self.buffered()?;
            let end = memchr::memchr(b'\n', bytes);
            let count = end.map_or(bytes.len(), |end| end + 1);
            self.in_refused_line = end.is_none() && count > 0;
            self.consume(count);
        }
        self.after_element = false;
        Ok(())
    }

    fn buffered(&mut self) -> Result<&[u8], Error> {
        // The buffer is requested again after the error check because of the borrow checker.
        if let Err(error) = self.input.fill_buf() {
            return Err(self.fail(format!(
                "the feed cannot be read from here on: {error}; where it is compressed, it is cut or damaged"
            )));
        }
        Ok(self.input.buffer())
    }

    fn consume(&mut self, count: usize) {
        self.position.advance(&self.input.buffer()[..count]);
        self.input.consume(count);
    }

    /// The next byte that is not white space, without consuming it; `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, Error> {
        loop {
            let bytes = self.buffered()?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = bytes.get(blank).copied();
            self.consume(blank);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Detects a list, and enters it.
    fn begin(&mut self) -> Result<(), Error> {
        if self.buffered()?.starts_with(b"\xEF\xBB\xBF") {
            self.consume(3);
            // The byte order mark is not a character of the line.
            self.position.column = 1;
        }
        self.list = Some(self.peek()? == Some(b'['));
        if self.list == Some(true) {
            self.consume(1);
        }
        Ok(())
    }

    /// Moves to the `{` of the next operation; false at the end of the feed.
    fn seek(&mut self) -> Result<bool, Error> {
        if self.list.is_none() {
            self.begin()?;
        }
        if self.in_refused_line {
            self.skip_line()?;
        }
        let list = self.list == Some(true);
        match (self.peek()?, list) {
            (None, false) => Ok(false),
            (None, true) => Err(self.fail("the feed ends inside its list; expected ',' or ']'")),
            (Some(b']'), true) => {
                self.consume(1);
                match self.peek()? {
                    None => Ok(false),
                    Some(_) => Err(self.fail("text after the list of operations")),
                }
            }
            // Lines may also be separated by commas: a list whose brackets were removed.
            (Some(b','), _) if self.after_element => {
                self.consume(1);
                self.after_element = false;
                self.seek()
            }
            (Some(b'{'), true) if self.after_element => Err(self.fail("expected ',' between operations")),
            (Some(b'{'), _) => Ok(true),
            (Some(_), _) => {
                const EXPECTED: &str = "this is not an operation; expected '{', as in {\"put\": \"id:ns:type::name\", \"fields\": {}}";
                Err(self.refuse(self.position, EXPECTED))
            }
        }
    }

    /// Reads the object that starts here, up to its closing brace.
    fn object(&mut self) -> Result<Vec<u8>, Error> {
        let (begin, limit) = (self.position, self.limit);
        let mut json = Vec::new();
        let mut scan = ObjectScan { lines: self.list == Some(false), ..ObjectScan::default() };
        loop {
            let bytes = self.buffered()?;
            if bytes.is_empty() {
                return Err(self.refuse(begin, "the feed ends inside an operation; expected '}'"));
            }
            let (count, end) = scan.advance(bytes);
            if scan.depth > DEPTH || scan.brackets > DEPTH {
                return Err(self.refuse(begin, format!("an operation is nested deeper than {DEPTH}")));
            }
            if json.len() + count > limit {
                return Err(self.refuse(begin, format!("an operation is larger than {limit} bytes")));
            }
            json.extend_from_slice(&bytes[..count]);
            self.consume(count);
            match end {
                None => {}
                Some(ObjectEnd::Closed) => {
                    self.after_element = true;
                    return Ok(json);
                }
                Some(ObjectEnd::CutOff) => {
                    let reason = "the line ends inside an operation; expected '}'".to_owned();
                    return Err(Error::Operation { position: begin, reason });
                }
            }
        }
    }
}

impl<R: Read> Iterator for FeedReader<R> {
    type Item = Result<FeedOperation, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.seek() {
            Ok(true) => {}
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Err(error) => return Some(Err(error)),
        }
        let position = self.position;
        Some(self.object().and_then(|json| {
            let (kind, id) = header(&json, position)?;
            Ok(FeedOperation { kind, id, json, position })
        }))
    }
}

/// Scanner for the end of an object across buffers; counts braces outside of strings. Brackets are counted
/// only to bound the nesting, because the parser of the object is recursive.
#[derive(Default)]
struct ObjectScan {
    /// True for a sequence of objects that each start on a new line.
    lines: bool,
    depth: usize,
    brackets: usize,
    in_string: bool,
    escaped: bool,
    /// True if the last byte ended a line.
    at_line: bool,
}

/// Outcome of a scan.
enum ObjectEnd {
    Closed,
    /// The object is truncated: strings do not contain line ends, and no line inside an object starts with a
    /// brace.
    CutOff,
}

impl ObjectScan {
    /// Number of `bytes` that belong to the object, and the outcome if it ends with them.
    fn advance(&mut self, bytes: &[u8]) -> (usize, Option<ObjectEnd>) {
        let mut at = 0;
        while at < bytes.len() {
            if self.escaped {
                self.escaped = false;
                at += 1;
            } else if self.in_string {
                let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', &bytes[at..]) else { break };
                at += found + 1;
                match bytes[at - 1] {
                    b'"' => self.in_string = false,
                    b'\\' => self.escaped = true,
                    _ if self.lines => return (at, Some(ObjectEnd::CutOff)),
                    _ => {}
                }
            } else {
                let found = memchr::memchr3(b'"', b'{', b'}', &bytes[at..]);
                self.count_brackets(&bytes[at..found.map_or(bytes.len(), |found| at + found)]);
                let Some(found) = found else { break };
                at += found + 1;
                match bytes[at - 1] {
                    b'"' => self.in_string = true,
                    b'{' => {
                        let at_line = if at > 1 { bytes[at - 2] == b'\n' } else { self.at_line };
                        if self.lines && self.depth > 0 && at_line {
                            return (at - 1, Some(ObjectEnd::CutOff));
                        }
                        self.depth += 1;
                        if self.depth > DEPTH {
                            return (at, None);
                        }
                    }
                    _ => {
                        self.depth -= 1;
                        if self.depth == 0 {
                            return (at, Some(ObjectEnd::Closed));
                        }
                    }
                }
            }
        }
        self.at_line = bytes.last() == Some(&b'\n');
        (bytes.len(), None)
    }

    /// Counts the nesting of lists. Unbalanced closing brackets are left to the parser.
    fn count_brackets(&mut self, bytes: &[u8]) {
        for at in memchr::memchr2_iter(b'[', b']', bytes) {
            if self.brackets > DEPTH {
                return;
            }
            self.brackets =
                if bytes[at] == b'[' { self.brackets + 1 } else { self.brackets.saturating_sub(1) };
        }
    }
}

/// Members of an operation that identify its document.
#[derive(Deserialize)]
struct OperationHeader<'a> {
    #[serde(borrow)]
    put: Option<Cow<'a, str>>,
    #[serde(borrow)]
    update: Option<Cow<'a, str>>,
    #[serde(borrow)]
    remove: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

fn header(json: &[u8], position: FeedPosition) -> Result<(OperationKind, DocumentId), Error> {
    let header: OperationHeader<'_> = sonic_rs::from_slice(json).map_err(|error| Error::Operation {
        position: position.within(json, error.line(), error.column()),
        reason: reason(&error),
    })?;
    let (kind, id) = match header {
        OperationHeader { put: Some(id), update: None, remove: None, .. } => (OperationKind::Put, id),
        OperationHeader { put: None, update: Some(id), remove: None, .. } => (OperationKind::Update, id),
        OperationHeader { put: None, update: None, remove: Some(id), .. } => (OperationKind::Remove, id),
        // The output of a visit can be fed again.
        OperationHeader { put: None, update: None, remove: None, id: Some(id) } => (OperationKind::Put, id),
        _ => {
            let reason =
                "an operation has one of put, update and remove, as in {\"put\": \"id:ns:type::name\", …}";
            return Err(Error::Operation { position, reason: reason.to_owned() });
        }
    };
    let id =
        DocumentId::parse(&id).map_err(|error| Error::Operation { position, reason: error.to_string() })?;
    Ok((kind, id))
}
