//! The answer of a feed: lines that are written while the client reads, or kept within bounds until it does.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::body::{Body as HttpBody, Bytes, Frame};
use millrace_document::json::FeedPosition;
use millrace_document::{DocumentGroup, DocumentId};
use millrace_node::Error;
use millrace_store::WriteDurability;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::PIECE_OPERATIONS;
use crate::status::HttpError;

/// Maximum size in bytes of the lines that the client has not read. Further failures are only counted.
const UNREAD_BYTES_MAX: usize = 256 << 10;

/// Room in bytes beyond that for the last lines.
const LAST_LINES_BYTES: usize = 8 << 10;

/// Maximum size in bytes of the failures in an answer that is kept for its key.
const KEPT_LINES_BYTES_MAX: usize = 4 << 10;

/// Maximum size in bytes of the line of a failure for another node.
const RELAYED_LINE_BYTES: usize = 2 << 10;

/// Number of characters that the message of a longer line is cut to. Each takes at most 6 bytes in JSON.
const RELAYED_MESSAGE_CHARS: usize = 256;

/// Reader of an answer, which decides how much of it is kept unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerReader {
    /// A client. Failures beyond [`UNREAD_BYTES_MAX`] are only counted.
    Client,
    /// The node that has sent operations here, at most as many as a piece has. It answers for each of them,
    /// so each failure is listed.
    Node,
}

/// An operation that failed, for the client.
#[derive(Debug)]
pub(super) struct FailedOperation {
    /// Number of the operation in the stream, from 1.
    pub(super) number: u64,
    pub(super) position: FeedPosition,
    /// Id of the document; empty if the text has none.
    pub(super) id: String,
    pub(super) status: u16,
    pub(super) message: String,
}

/// An operation on a document that the selection of its cluster does not take.
#[derive(Debug)]
pub(super) struct IgnoredOperation {
    /// Number of the operation in the stream, from 1.
    pub(super) number: u64,
    pub(super) position: FeedPosition,
    pub(super) id: String,
}

/// Numbers of operations, by their outcome.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FeedTotals {
    pub(super) operations: u64,
    pub(super) ok: u64,
    /// Operations on documents that the selection of their cluster does not take.
    pub(super) ignored: u64,
    pub(super) condition_not_met: u64,
    /// All others.
    pub(super) failed: u64,
    /// Failures without a line, since the client did not read those before.
    pub(super) unlisted: u64,
    /// Bytes of the stream, unpacked, that are done.
    pub(super) bytes: u64,
}

/// Reason why a stream was not read to its end.
#[derive(Debug, Clone)]
pub(super) struct FeedBreak {
    pub(super) status: u16,
    pub(super) message: String,
}

/// The lines that the client has not read yet.
struct UnreadLines {
    lines: Vec<u8>,
    /// Maximum size in bytes of the lines, but for the last.
    bytes_max: usize,
    /// Newest progress that is not in a line.
    progress: Option<Value>,
    is_ended: bool,
    /// True if the client has left.
    is_gone: bool,
    reader: Option<Waker>,
    /// First failures, if the answer is kept for a key.
    kept: Option<FirstFailures>,
}

/// First failures of a stream with a key.
#[derive(Debug, Default)]
struct FirstFailures {
    lines: Vec<u8>,
    count: u64,
}

/// The writing end of an answer.
#[derive(Clone)]
pub(super) struct FeedAnswer {
    written: Arc<WrittenAnswer>,
    reader: AnswerReader,
    /// Durability of what is acknowledged, if the client has asked for one.
    durability: Option<&'static str>,
    /// Group that ids leave out.
    implied_group: Option<Arc<DocumentGroup>>,
}

struct WrittenAnswer(Arc<Mutex<UnreadLines>>);

/// The body of the response.
pub(super) struct FeedAnswerBody(Arc<Mutex<UnreadLines>>);

fn lock(unread: &Mutex<UnreadLines>) -> MutexGuard<'_, UnreadLines> {
    // Lines are appended whole, so the state is consistent even if a thread that held it panicked.
    unread.lock()
}

impl AnswerReader {
    /// Maximum size in bytes of the lines that are kept unread, but for the last.
    const fn bytes_max(self) -> usize {
        match self {
            AnswerReader::Client => UNREAD_BYTES_MAX,
            AnswerReader::Node => PIECE_OPERATIONS * RELAYED_LINE_BYTES,
        }
    }
}

impl FeedAnswer {
    /// Creates an answer to a reader and the body that sends it. Lines that acknowledge operations say their
    /// durability, if one is given, and ids leave out the implied group.
    pub(super) fn new(
        reader: AnswerReader,
        durability: Option<WriteDurability>,
        implied_group: Option<DocumentGroup>,
    ) -> (Self, FeedAnswerBody) {
        let unread = Arc::new(Mutex::new(UnreadLines::new(reader.bytes_max())));
        let written = Arc::new(WrittenAnswer(Arc::clone(&unread)));
        let durability = durability.map(|durability| match durability {
            WriteDurability::Synced => "sync",
            WriteDurability::Deferred => "async",
        });
        let implied_group = implied_group.map(Arc::new);
        (FeedAnswer { written, reader, durability, implied_group }, FeedAnswerBody(unread))
    }

    /// Text of an id for the client.
    pub(super) fn shown_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        let parsed =
            self.implied_group.as_deref().and_then(|group| Some((group, DocumentId::parse(id).ok()?)));
        match parsed {
            Some((group, parsed)) => Cow::Owned(parsed.shown_within(Some(group)).into_owned()),
            None => Cow::Borrowed(id),
        }
    }

    fn unread(&self) -> MutexGuard<'_, UnreadLines> {
        lock(&self.written.0)
    }

    /// Adds the durability to a line that acknowledges operations.
    fn add_durability(&self, line: &mut Value) {
        if let Some(durability) = self.durability {
            line["durability"] = Value::from(durability);
        }
    }

    /// Keeps the first failures from now on, for [`FeedAnswer::answer_to_keep`].
    pub(super) fn keep_lines(&self) {
        self.unread().kept = Some(FirstFailures::default());
    }

    /// Lists a failure. Returns false if there is no room for the line.
    pub(super) fn fail(&self, failed: &FailedOperation) -> bool {
        let mut line = json!({
            "operation": failed.number,
            "line": failed.position.line,
            "column": failed.position.column,
            "id": self.shown_id(&failed.id),
            "status": failed.status,
            "message": failed.message,
        });
        if self.reader == AnswerReader::Node && line.to_string().len() >= RELAYED_LINE_BYTES {
            // The other node knows the id by the number.
            line["id"] = Value::from("");
            line["message"] = Value::from(cut_message(&failed.message));
        }
        let mut unread = self.unread();
        if let Some(kept) = &mut unread.kept {
            kept.add(&line);
        }
        unread.line(&line, 0)
    }

    /// Lists an ignored operation, if there is room for the line.
    pub(super) fn ignore(&self, ignored: &IgnoredOperation) {
        let line = json!({
            "operation": ignored.number,
            "line": ignored.position.line,
            "column": ignored.position.column,
            "id": self.shown_id(&ignored.id),
            "ignored": true,
        });
        self.unread().line(&line, 0);
    }

    /// Reports that all operations counted in the totals are acknowledged or have failed. A later report
    /// replaces one that the client has not read.
    pub(super) fn progress(&self, totals: &FeedTotals) {
        let mut line = json!({ "through": totals.operations, "offset": totals.bytes });
        for (name, count) in [("ignored", totals.ignored), ("unlisted", totals.unlisted)] {
            if count > 0 {
                line[name] = Value::from(count);
            }
        }
        self.add_durability(&mut line);
        let mut unread = self.unread();
        unread.progress = Some(line);
        unread.wake();
    }

    /// Returns the answer of a whole stream for those who send it again: its first failures, unless there is
    /// no room for them, and its totals.
    pub(super) fn answer_to_keep(&self, totals: &FeedTotals, has_lines: bool) -> Bytes {
        let kept = self.unread().kept.take().filter(|_| has_lines).unwrap_or_default();
        let unlisted = totals.condition_not_met + totals.failed - kept.count;
        let mut lines = kept.lines;
        let mut last = FeedTotals { unlisted, ..totals.clone() }.line(None);
        self.add_durability(&mut last);
        lines.extend_from_slice(last.to_string().as_bytes());
        lines.push(b'\n');
        lines.into()
    }

    /// Writes the last line.
    pub(super) fn total(&self, totals: &FeedTotals, stopped: Option<&FeedBreak>) {
        let mut line = totals.line(stopped);
        self.add_durability(&mut line);
        let mut unread = self.unread();
        unread.settle_progress();
        let has_room = unread.line(&line, LAST_LINES_BYTES);
        assert!(has_room, "there is always room for the last lines");
    }

    /// Ends the answer.
    pub(super) fn end(&self) {
        self.written.end();
    }

    /// True if the client has left.
    pub(super) fn is_gone(&self) -> bool {
        self.unread().is_gone
    }
}

impl FeedBreak {
    /// The break because of an error, with its status.
    pub(super) fn from_error(error: &Error) -> Self {
        FeedBreak { status: error.status().as_u16(), message: error.message() }
    }
}

impl FeedTotals {
    /// Last line of an answer.
    fn line(&self, stopped: Option<&FeedBreak>) -> Value {
        let mut line = json!({
            "complete": stopped.is_none(),
            "operations": self.operations,
            "ok": self.ok,
            "ignored": self.ignored,
            "conditionNotMet": self.condition_not_met,
            "failed": self.failed,
            "unlisted": self.unlisted,
            "bytes": self.bytes,
        });
        if let Some(FeedBreak { status, message }) = stopped {
            line["status"] = Value::from(*status);
            line["message"] = Value::from(message.as_str());
        }
        line
    }
}

impl FirstFailures {
    /// Adds the line of a failure, unless there are too many.
    fn add(&mut self, line: &Value) {
        let line = line.to_string();
        if self.lines.len() + line.len() < KEPT_LINES_BYTES_MAX {
            self.lines.extend_from_slice(line.as_bytes());
            self.lines.push(b'\n');
            self.count += 1;
        }
    }
}

impl WrittenAnswer {
    fn end(&self) {
        let mut unread = lock(&self.0);
        unread.is_ended = true;
        unread.wake();
    }
}

impl Drop for WrittenAnswer {
    /// A stream that ended in a panic ends its answer too, without totals.
    fn drop(&mut self) {
        self.end();
    }
}

/// Beginning of a message that is too long for its line.
fn cut_message(message: &str) -> String {
    match message.char_indices().nth(RELAYED_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

impl UnreadLines {
    fn new(bytes_max: usize) -> Self {
        UnreadLines {
            lines: Vec::new(),
            bytes_max,
            progress: None,
            is_ended: false,
            is_gone: false,
            reader: None,
            kept: None,
        }
    }

    /// Appends a line, unless there is no room for it: the maximum, and the bytes `beyond` it.
    fn line(&mut self, line: &Value, beyond: usize) -> bool {
        let line = line.to_string();
        if self.lines.len() + line.len() >= self.bytes_max + beyond {
            return false;
        }
        self.lines.extend_from_slice(line.as_bytes());
        self.lines.push(b'\n');
        self.wake();
        true
    }

    /// Makes a line of the newest progress.
    fn settle_progress(&mut self) {
        if let Some(line) = self.progress.take() {
            let has_room = self.line(&line, LAST_LINES_BYTES);
            assert!(has_room, "there is always room for a line of progress");
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl HttpBody for FeedAnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut unread = lock(&self.0);
        unread.settle_progress();
        if !unread.lines.is_empty() {
            let lines = std::mem::take(&mut unread.lines);
            return Poll::Ready(Some(Ok(Frame::data(lines.into()))));
        }
        if unread.is_ended {
            return Poll::Ready(None);
        }
        unread.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for FeedAnswerBody {
    fn drop(&mut self) {
        lock(&self.0).is_gone = true;
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn failure(number: u64) -> FailedOperation {
        let (id, message) = (format!("id:n:t::{number}"), "x".repeat(900));
        FailedOperation { number, position: FeedPosition::default(), id, status: 400, message }
    }

    #[tokio::test]
    async fn an_unread_answer_is_bounded_and_still_ends_with_its_totals() {
        let (answer, mut body) = FeedAnswer::new(AnswerReader::Client, None, None);
        let listed = (1..=1000).filter(|number| answer.fail(&failure(*number))).count();
        assert!((100..1000).contains(&listed), "{listed}");
        for number in 1..=1000 {
            answer.progress(&FeedTotals { operations: number, bytes: number * 10, ..FeedTotals::default() });
        }
        let totals = FeedTotals { operations: 1000, failed: 1000, ..FeedTotals::default() };
        answer.total(&totals, None);
        answer.end();
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            read.extend_from_slice(frame.expect("it does not fail").data_ref().expect("it has no trailers"));
        }
        assert!(read.len() < UNREAD_BYTES_MAX + LAST_LINES_BYTES);
        let text = String::from_utf8(read).expect("JSON is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), listed + 2);
        let [progress, last] =
            [listed, listed + 1].map(|at| serde_json::from_str::<Value>(lines[at]).expect("it is JSON"));
        assert_eq!(progress, json!({ "through": 1000, "offset": 10000 }));
        assert_eq!((&last["complete"], &last["bytes"]), (&json!(true), &json!(0)), "{last}");
    }

    /// A failure of each operation of a piece, each with the longest line.
    #[tokio::test]
    async fn another_node_gets_a_line_for_each_failure() {
        let (answer, mut body) = FeedAnswer::new(AnswerReader::Node, None, None);
        let position = FeedPosition { line: u64::MAX, column: u64::MAX, ..FeedPosition::default() };
        for number in 1..=PIECE_OPERATIONS as u64 {
            // Each of these characters takes six bytes in JSON.
            let (id, message) = ("\u{1}".repeat(500), "\u{1}".repeat(5000));
            let failed = FailedOperation { number: u64::MAX - number, position, id, status: 507, message };
            assert!(answer.fail(&failed), "{number}");
        }
        answer.progress(&FeedTotals { operations: 1, bytes: 1, ..FeedTotals::default() });
        answer.total(&FeedTotals::default(), None);
        answer.end();
        let frame = body.frame().await.expect("it has lines").expect("it does not fail");
        let data = frame.data_ref().expect("it has no trailers");
        let lines: Vec<Value> = data
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("it is JSON"))
            .collect();
        assert_eq!(lines.len(), PIECE_OPERATIONS + 2);
        assert_eq!(lines[0]["message"], format!("{}…", "\u{1}".repeat(RELAYED_MESSAGE_CHARS)));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let short = "ü".repeat(RELAYED_MESSAGE_CHARS);
        assert_eq!(cut_message(&short), short);
        assert_eq!(cut_message(&format!("{short}ü")), format!("{short}…"));
    }

    #[test]
    fn a_kept_answer_has_the_first_failures_and_counts_the_others() {
        let (answer, _body) = FeedAnswer::new(AnswerReader::Client, None, None);
        answer.keep_lines();
        assert!((1..=10).all(|number| answer.fail(&failure(number))));
        let totals = FeedTotals { operations: 12, ok: 2, failed: 10, ..FeedTotals::default() };
        let text = String::from_utf8(answer.answer_to_keep(&totals, true).to_vec()).expect("JSON is text");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!((&lines[0]["operation"], &lines[3]["operation"]), (&json!(1), &json!(4)));
        assert_eq!(
            (&lines[4]["failed"], &lines[4]["unlisted"], &lines[4]["complete"]),
            (&json!(10), &json!(6), &json!(true))
        );
        let text = String::from_utf8(answer.answer_to_keep(&totals, false).to_vec()).expect("JSON is text");
        assert!(text.starts_with("{\"complete\":true") && text.contains("\"unlisted\":10"), "{text}");
    }

    #[tokio::test]
    async fn lines_that_were_read_make_room() {
        let (answer, mut body) = FeedAnswer::new(AnswerReader::Client, None, None);
        for number in 1..=2000 {
            assert!(answer.fail(&failure(number)), "{number}");
            assert!(body.frame().await.is_some());
        }
        drop(body);
        assert!(answer.is_gone());
    }
}
