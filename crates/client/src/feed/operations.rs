//! Operations of a feed, ready to be sent.

use std::io::Read;

use millrace_document::json::{FeedOperation, FeedPosition, FeedReader};
use millrace_document::{DocumentId, OperationKind};
use serde_json::Value;

use crate::{encoded, path_of};

/// Reader of operations from a stream, from its start or from the end of an operation.
pub(super) struct OperationReader {
    reader: FeedReader<Box<dyn Read + Send>>,
}

/// The reason for a missing operation of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadableOperation {
    pub(super) position: FeedPosition,
    pub(super) reason: String,
    /// True if reading cannot continue after it.
    pub(super) ends: bool,
}

/// One operation, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreparedOperation {
    pub(super) id: DocumentId,
    pub(super) kind: OperationKind,
    /// Path of a request for it alone.
    pub(super) target: String,
    pub(super) json: Vec<u8>,
    /// Position of its first byte.
    pub(super) position: FeedPosition,
    /// Offset of the byte after it, from 0.
    pub(super) end: u64,
}

impl OperationReader {
    /// The operations of `stream` from byte `start` on.
    ///
    /// # Errors
    /// The stream cannot be read, or is shorter.
    pub(super) fn new(stream: impl Read + Send + 'static, start: u64) -> Result<Self, UnreadableOperation> {
        let stream: Box<dyn Read + Send> = Box::new(stream);
        let reader = FeedReader::new(stream);
        let reader = if start > 0 { reader.skip_to(start)? } else { reader };
        Ok(OperationReader { reader })
    }
}

impl Iterator for OperationReader {
    type Item = Result<PreparedOperation, UnreadableOperation>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reader.next()?;
        Some(next.map_err(UnreadableOperation::from).and_then(
            |FeedOperation { kind, id, json, position }| {
                let end = position.offset + json.len() as u64;
                let target = match kind {
                    OperationKind::Remove => removal_path(&id, &json, position)?,
                    _ => path_of(&id),
                };
                Ok(PreparedOperation { target, id, kind, json, position, end })
            },
        ))
    }
}

/// Returns the path of the request for a removal. It has no body, so the condition is a parameter.
///
/// # Errors
/// The condition is not a text.
fn removal_path(id: &DocumentId, json: &[u8], position: FeedPosition) -> Result<String, UnreadableOperation> {
    let unreadable = |reason: String| UnreadableOperation { position, reason, ends: false };
    let operation: Value = serde_json::from_slice(json).map_err(|error| unreadable(error.to_string()))?;
    match operation.get("condition") {
        None | Some(Value::Null) => Ok(path_of(id)),
        Some(Value::String(condition)) => Ok(format!("{}?condition={}", path_of(id), encoded(condition))),
        Some(other) => Err(unreadable(format!("the condition of a remove is not a text: {other}"))),
    }
}

impl From<millrace_document::Error> for UnreadableOperation {
    fn from(error: millrace_document::Error) -> Self {
        use millrace_document::Error::{Feed, Operation};
        match error {
            Operation { position, reason } => UnreadableOperation { position, reason, ends: false },
            Feed { position, reason } => UnreadableOperation { position, reason, ends: true },
            // The reader has no other errors.
            other => UnreadableOperation {
                position: FeedPosition::default(),
                reason: other.to_string(),
                ends: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(feed: &'static str, start: u64) -> Vec<String> {
        let operations = OperationReader::new(feed.as_bytes(), start).expect("the feed is long enough");
        operations
            .map(|next| match next {
                Ok(PreparedOperation { position, end, kind, target, .. }) => {
                    let before = &feed[..position.offset as usize];
                    assert!(feed[before.len()..].starts_with('{') && feed[..end as usize].ends_with('}'));
                    assert_eq!(
                        position,
                        FeedPosition::default().after(before.as_bytes()),
                        "however much was skipped"
                    );
                    format!("{kind:?} {target}")
                }
                Err(unread) => format!("{}: {}", unread.position, unread.reason),
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
        assert!(OperationReader::new("{}".as_bytes(), 10).is_err());
    }

    #[test]
    fn the_condition_of_a_removal_is_sent_with_it() {
        let got = read(
            "{\"remove\":\"id:n:t::1\",\"condition\":\"t.x == 1\"}\n{\"remove\":\"id:n:t::2\",\"condition\":7}\n",
            0,
        );
        assert_eq!(got[0], "Remove /document/v1/n/t/docid/1?condition=t.x%20%3D%3D%201");
        assert!(got[1].ends_with("the condition of a remove is not a text: 7"), "{got:?}");
    }

    #[test]
    fn one_bad_operation_does_not_end_the_feed() {
        let got = read("{\"put\":\"x\",\"fields\":{}}\n{\"remove\":\"id:n:t::1\"}", 0);
        assert_eq!(got.len(), 2, "{got:?}");
        assert!(got[0].starts_with("line 1, column 1: document id 'x'"), "{got:?}");
        assert_eq!(got[1], "Remove /document/v1/n/t/docid/1");
    }
}
