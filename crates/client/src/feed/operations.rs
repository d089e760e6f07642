//! The operations of a feed, ready to be sent.

use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use millrace_document::json::{FeedOperation, FeedReader};
use millrace_document::{DocumentId, OperationKind};

use crate::{Error, path_of};

/// The input of a feed: what comes before the place where reading begins is replaced by the bracket that opens a list.
type Input = Chain<Cursor<&'static [u8]>, Box<dyn BufRead + Send>>;

/// Reads operations from a stream, from its beginning or from a place where an operation ended.
pub(super) struct Operations {
    input: String,
    reader: FeedReader<Input>,
    /// What to add to the reader's offsets.
    base: i64,
    ended: bool,
}

/// One operation, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) id: DocumentId,
    pub(super) kind: OperationKind,
    /// The path.
    pub(super) target: String,
    pub(super) body: Vec<u8>,
    pub(super) place: Place,
}

/// Where an operation stands in its feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its first byte, from 0.
    pub(super) offset: u64,
    /// The byte after it.
    pub(super) end: u64,
}

impl Operations {
    /// The operations of `stream` from byte `start` on; `input` is its name in messages.
    pub(super) fn new(input: &str, stream: impl Read + Send + 'static, start: u64) -> Result<Self, Error> {
        let mut stream: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(1 << 18, stream));
        let fail = |offset: u64, reason: String| Error::Feed { input: input.to_owned(), offset, reason };
        let mut skipped = 0;
        let mut list = false;
        if start > 0 {
            list = first_byte(&mut stream).map_err(|error| fail(0, error.to_string()))? == Some(b'[');
            skipped = skip(&mut stream, start).map_err(|error| fail(0, error.to_string()))?;
            if skipped < start {
                return Err(fail(
                    skipped,
                    "the feed is shorter than what was fed from it before; remove the resume file".to_owned(),
                ));
            }
            if list {
                skipped += skip_separator(&mut stream).map_err(|error| fail(start, error.to_string()))?;
            }
        }
        let opened: &'static [u8] = if list { b"[" } else { b"" };
        let base = skipped as i64 - opened.len() as i64;
        let reader = FeedReader::new(Cursor::new(opened).chain(stream));
        Ok(Operations { input: input.to_owned(), reader, base, ended: false })
    }

    fn offset(&self, of_reader: u64) -> u64 {
        of_reader.saturating_add_signed(self.base)
    }
}

impl Iterator for Operations {
    type Item = Result<Operation, Error>;

    /// The next operation. An operation that cannot be used is an error of its own; text in which no more operations can be found
    /// ends the feed after its error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.reader.next() {
            None => {
                self.ended = true;
                None
            }
            Some(Ok(FeedOperation { kind, id, json, offset })) => {
                let offset = self.offset(offset);
                let place = Place { offset, end: offset + json.len() as u64 };
                let body = if kind == OperationKind::Remove { Vec::new() } else { json };
                Some(Ok(Operation { target: path_of(&id), id, kind, body, place }))
            }
            Some(Err(error)) => {
                let (offset, reason) = match error {
                    millrace_document::Error::Feed { offset, reason } => (offset, reason),
                    other => (self.reader.offset(), other.to_string()),
                };
                Some(Err(Error::Feed { input: self.input.clone(), offset: self.offset(offset), reason }))
            }
        }
    }
}

/// The first byte that is not white space nor a mark before it, without consuming anything.
fn first_byte(stream: &mut dyn BufRead) -> std::io::Result<Option<u8>> {
    let buffer = stream.fill_buf()?;
    let buffer = buffer.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(buffer);
    Ok(buffer.iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}

fn skip(stream: &mut dyn BufRead, bytes: u64) -> std::io::Result<u64> {
    std::io::copy(&mut stream.take(bytes), &mut std::io::sink())
}

/// Passes over the comma between two elements of a list. Answers how many bytes that were.
fn skip_separator(stream: &mut dyn BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        match stream.fill_buf()?.first() {
            Some(b',') => {
                stream.consume(1);
                return Ok(skipped + 1);
            }
            Some(byte) if byte.is_ascii_whitespace() => {
                stream.consume(1);
                skipped += 1;
            }
            _ => return Ok(skipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(feed: &'static str, start: u64) -> Vec<String> {
        let operations = Operations::new("feed", feed.as_bytes(), start).expect("the feed is long enough");
        operations
            .map(|next| match next {
                Ok(operation) => {
                    let Place { offset, end } = operation.place;
                    assert!(feed[offset as usize..].starts_with('{') && feed[..end as usize].ends_with('}'));
                    format!("{:?} {}", operation.kind, operation.target)
                }
                Err(error) => error.to_string(),
            })
            .collect()
    }

    #[test]
    fn lists_and_lines_go_on_where_they_were_left() {
        #[track_caller]
        fn check(feed: &'static str) {
            let whole = ["Put /document/v1/n/t/docid/1", "Remove /document/v1/n/t/docid/2"];
            assert_eq!(read(feed, 0), whole);
            let first_end = feed.find('}').expect("the first operation has an end") + 2;
            assert_eq!(read(feed, first_end as u64), ["Remove /document/v1/n/t/docid/2"]);
            let last_end = feed.rfind('}').expect("the last operation has an end") + 1;
            assert_eq!(read(feed, last_end as u64), [""; 0]);
        }
        check("{\"put\":\"id:n:t::1\",\"fields\":{}}\n{\"remove\":\"id:n:t::2\"}\n");
        check("[{\"put\":\"id:n:t::1\",\"fields\":{}},\n {\"remove\":\"id:n:t::2\"}]");
    }

    #[test]
    fn a_feed_that_became_shorter_is_refused() {
        assert!(Operations::new("feed", "{}".as_bytes(), 10).is_err());
    }

    #[test]
    fn one_bad_operation_does_not_end_the_feed() {
        let got = read("{\"put\":\"x\",\"fields\":{}}\n{\"remove\":\"id:n:t::1\"}", 0);
        assert_eq!(got.len(), 2, "{got:?}");
        assert!(got[0].starts_with("feed, byte "), "{got:?}");
        assert_eq!(got[1], "Remove /document/v1/n/t/docid/1");
    }
}
