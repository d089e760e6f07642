//! Streams of operations, cut into bulks: `_bulk/stream`.

use std::time::Duration;

use crate::action_line::action_line;
use crate::request::ElasticParameters;
use crate::writing::WriteAction;
use crate::{ElasticRequest, Error};

/// Bytes of operations after which a batch ends, however many it has.
const BATCH_BYTES: usize = 1 << 20;

/// Longest time for which operations wait for others of their batch.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Sizes of the batches of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkBatching {
    /// Operations in a batch.
    pub operations: usize,
    /// Time after which a batch ends, however few it has.
    pub interval: Option<Duration>,
}

impl BulkBatching {
    /// True if a request is a stream of operations.
    pub fn is_stream(request: &ElasticRequest) -> bool {
        let mut segments = request.path.rsplit('/').filter(|part| !part.is_empty());
        let is_path = (segments.next(), segments.next()) == (Some("stream"), Some("_bulk"));
        // An index with this path has at most one segment before it.
        is_path && segments.count() <= 1 && ["POST", "PUT"].contains(&request.method.as_str())
    }

    /// Reads the parameters `batch_size` and `batch_interval` of a request. With an interval alone, a batch
    /// has as many operations as come in it; otherwise one is the default.
    ///
    /// # Errors
    /// One is out of its range.
    pub fn of(request: &ElasticRequest) -> Result<Self, Error> {
        let parameters = ElasticParameters::parse(&request.query);
        let interval = parameters.get("batch_interval").map(interval_of).transpose()?;
        let operations = match (parameters.integer("batch_size")?, interval) {
            (None, None) => 1,
            (None, Some(_)) => usize::MAX,
            (Some(size), _) if size > 0 => size as usize,
            (Some(size), _) => {
                return Err(Error::IllegalArgument(format!(
                    "batch_size must be greater than 0, found [{size}]"
                )));
            }
        };
        Ok(BulkBatching { operations, interval })
    }
}

fn interval_of(text: &str) -> Result<Duration, Error> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => 0,
    };
    let millis = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match millis.map(Duration::from_millis) {
        Some(interval) if !interval.is_zero() && interval <= INTERVAL_MAX => Ok(interval),
        _ => Err(Error::IllegalArgument(format!(
            "batch_interval must be a time such as [100ms] or [5s] of at most one minute, found [{text}]"
        ))),
    }
}

/// Cuts the bytes of a stream into bodies of bulks.
#[derive(Debug)]
pub struct BulkSplitter {
    operations_max: usize,
    /// Longest operation in bytes.
    operation_bytes_max: usize,
    bytes: Vec<u8>,
    /// End of the last whole operation.
    complete: usize,
    /// Whole operations.
    operations: usize,
    /// End of the last whole line.
    scanned: usize,
    /// True if a document follows the last whole line.
    needs_document: bool,
    /// True after a line that is not an action: what follows it is not read.
    is_broken: bool,
}

impl BulkSplitter {
    /// Creates a splitter, which refuses operations of more bytes than this.
    pub fn new(batching: BulkBatching, operation_bytes_max: usize) -> Self {
        BulkSplitter {
            operations_max: batching.operations,
            operation_bytes_max,
            bytes: Vec::new(),
            complete: 0,
            operations: 0,
            scanned: 0,
            needs_document: false,
            is_broken: false,
        }
    }

    /// Adds bytes of the stream. Returns the batches that are full.
    ///
    /// # Errors
    /// An operation is too long.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut full = Vec::new();
        if self.is_broken {
            return Ok(full);
        }
        self.bytes.extend_from_slice(bytes);
        while let Some(length) = memchr::memchr(b'\n', &self.bytes[self.scanned..]) {
            let end = self.scanned + length + 1;
            let is_action = !self.needs_document;
            if is_action && self.bytes[self.scanned..end].iter().all(u8::is_ascii_whitespace) {
                self.scanned = end;
                continue;
            }
            if is_action {
                match action_line(1, &self.bytes[self.scanned..end - 1]) {
                    Ok((WriteAction::Delete, _)) => {}
                    Ok(_) => self.needs_document = true,
                    Err(_) => {
                        // The answer to a batch of this line alone has the error.
                        self.bytes.truncate(end);
                        full.extend(self.take());
                        full.push(std::mem::take(&mut self.bytes));
                        self.is_broken = true;
                        return Ok(full);
                    }
                }
            } else {
                self.needs_document = false;
            }
            self.scanned = end;
            if !self.needs_document {
                self.complete = end;
                self.operations += 1;
            }
            if self.operations >= self.operations_max || self.complete >= BATCH_BYTES {
                full.extend(self.take());
            }
        }
        match self.bytes.len() - self.complete > self.operation_bytes_max {
            true => Err(Error::TooLarge(format!(
                "an operation has more than {} bytes, the most of one in a stream; send it with _bulk",
                self.operation_bytes_max
            ))),
            false => Ok(full),
        }
    }

    /// Whole operations that no batch had yet.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.operations == 0 {
            return None;
        }
        let rest = self.bytes.split_off(self.complete);
        self.scanned -= self.complete;
        (self.complete, self.operations) = (0, 0);
        Some(std::mem::replace(&mut self.bytes, rest))
    }

    /// Takes what is left at the end of the stream. The last line needs no newline.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let mut rest = std::mem::take(&mut self.bytes);
        if rest.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if rest.last() != Some(&b'\n') {
            rest.push(b'\n');
        }
        Some(rest)
    }

    /// Forgets the beginning of an operation: the stream broke off in it.
    pub fn cut(&mut self) {
        self.bytes.truncate(self.complete);
        self.needs_document = false;
        self.scanned = self.complete;
    }

    /// Bytes that no batch had yet.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are whole operations that no batch had yet.
    pub fn has_operations(&self) -> bool {
        self.operations > 0
    }

    /// True after a line that is not an action.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETE: &str = "{\"delete\":{\"_id\":\"1\"}}\n";
    const INDEX: &str = "{\"index\":{}}\n{\"a\":1}\n";

    /// Batches of a stream that comes in pieces of some bytes, with their lines counted.
    fn batches(stream: &str, operations: usize, piece: usize) -> Vec<usize> {
        let mut splitter = BulkSplitter::new(BulkBatching { operations, interval: None }, 100);
        let mut all = Vec::new();
        for piece in stream.as_bytes().chunks(piece) {
            all.extend(splitter.add(piece).expect("no operation is long"));
        }
        let is_broken = splitter.is_broken();
        all.extend(splitter.rest());
        let whole = String::from_utf8(all.concat()).expect("the stream is text");
        assert!(is_broken || whole.trim() == stream.trim(), "{whole}");
        all.iter().map(|batch| batch.iter().filter(|byte| **byte == b'\n').count()).collect()
    }

    #[test]
    fn batches_have_whole_operations_however_the_bytes_come() {
        let mixed = [DELETE, INDEX, DELETE, INDEX].concat();
        let unended = mixed.trim_end();
        let broken = [DELETE, "{\"what\":{}}\n", DELETE].concat();
        for piece in [1, 3, 7, 1_000] {
            assert_eq!(batches(&mixed, 1, piece), [1, 2, 1, 2]);
            assert_eq!(batches(&mixed, 3, piece), [4, 2]);
            assert_eq!(batches(unended, 2, piece), [3, 3]);
            assert_eq!(batches(&format!("\n{mixed}\n"), 4, piece), [7]);
            assert_eq!(
                batches(&broken, 8, piece),
                [1, 1],
                "what follows a line that is not an action is not read"
            );
        }
        let mut splitter = BulkSplitter::new(BulkBatching { operations: 1, interval: None }, 100);
        assert_eq!(splitter.add(format!("{DELETE}{{\"del").as_bytes()).map(|full| full.len()).ok(), Some(1));
        assert_eq!(splitter.bytes(), "{\"del".len(), "a batch takes its bytes along");
        let mut splitter = BulkSplitter::new(BulkBatching { operations: 1, interval: None }, 100);
        let error = splitter.add(&[b'x'; 101]).expect_err("a line of 101 bytes is too long");
        assert_eq!(error.status(), 413);
        assert!(error.to_string().contains("send it with _bulk"), "{error}");
    }

    #[test]
    fn parameters_have_ranges() {
        let of = |query: &str| {
            let batching =
                BulkBatching::of(&ElasticRequest { query: query.to_owned(), ..ElasticRequest::default() });
            match batching {
                Ok(BulkBatching { operations, interval }) => format!("{operations} {interval:?}"),
                Err(error) => format!("{}", error.status()),
            }
        };
        for (query, expected) in [
            ("", "1 None"),
            ("batch_size=5", "5 None"),
            ("batch_interval=100ms&batch_size=5", "5 Some(100ms)"),
            ("batch_interval=2s", "18446744073709551615 Some(2s)"),
            ("batch_size=0", "400"),
            ("batch_size=x", "400"),
            ("batch_interval=0s", "400"),
            ("batch_interval=2", "400"),
            ("batch_interval=2h", "400"),
        ] {
            assert_eq!(of(query), expected, "{query}");
        }
        for (path, expected) in [
            ("/_bulk/stream", true),
            ("/a/_bulk/stream", true),
            ("/a/b/_bulk/stream", false),
            ("/_bulk", false),
            ("/stream", false),
        ] {
            let request = ElasticRequest {
                method: "POST".to_owned(),
                path: path.to_owned(),
                ..ElasticRequest::default()
            };
            assert_eq!(BulkBatching::is_stream(&request), expected, "{path}");
        }
    }
}
