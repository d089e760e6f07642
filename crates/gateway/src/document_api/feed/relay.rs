//! Operations of a wave that another node owns, sent to it as one stream.
//!
//! The other node executes what it owns, and lists everything that failed, also what may succeed later; it
//! sends nothing on. What was certainly not executed is then tried like single requests, which find the owner
//! of the moment. A node that does not take streams of other nodes, because it runs an earlier version,
//! refuses the request as a whole, and gets single requests too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_document::json::FeedPosition;
use millrace_node::Error;
use millrace_node::cluster::{ForwardKind, RemoteNode};
use serde::Deserialize;
use serde_json::Value;

use super::DocumentCall;
use super::answer::{FailedOperation, IgnoredOperation};
use super::commit::{CommittedWave, StreamOutcome};
use super::forward::{ForwardedOperation, parameters_of};
use crate::document_api::retry::RetryPause;
use crate::edge::attach_caller;
use crate::forwarding::ForwardedRequest;

/// Maximum size in bytes of the answer to a piece.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Time beyond that of an operation after which no answer will come.
const GRACE: Duration = Duration::from_secs(5);

/// Operations for one node.
pub(super) struct RelayedPart {
    /// The node.
    pub(super) remote: RemoteNode,
    pub(super) operations: Vec<ForwardedOperation>,
}

/// Line of an answer, of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RelayAnswerLine {
    operation: Option<u64>,
    line: u64,
    column: u64,
    status: u16,
    message: String,
    through: Option<u64>,
    complete: Option<bool>,
    /// Number of ignored operations; `true` in the line of one.
    ignored: Value,
    unlisted: u64,
}

/// A list of operations as text, and the line on which each begins.
struct OperationList {
    text: Vec<u8>,
    lines: Vec<u64>,
}

impl OperationList {
    fn new(operations: &[ForwardedOperation]) -> Self {
        let bytes =
            operations.iter().map(|operation| operation.single.operation.json.len() + 2).sum::<usize>();
        let mut text = Vec::with_capacity(bytes + 4);
        let (mut lines, mut line) = (Vec::with_capacity(operations.len()), 2);
        text.extend_from_slice(b"[\n");
        for (at, operation) in operations.iter().enumerate() {
            if at > 0 {
                text.extend_from_slice(b",\n");
                line += 1;
            }
            lines.push(line);
            let json = &operation.single.operation.json;
            line = FeedPosition { line, ..FeedPosition::default() }.after(json).line;
            text.extend_from_slice(json);
        }
        text.extend_from_slice(b"\n]");
        OperationList { text, lines }
    }

    /// Position in the stream of one in the list, which lies in the operation `at`, begun at `start`.
    fn position(&self, at: usize, start: FeedPosition, line: u64, column: u64) -> FeedPosition {
        match line.saturating_sub(self.lines[at]) {
            _ if start.is_row() => start,
            0 => FeedPosition { column: start.column + column.saturating_sub(1), ..start },
            further => FeedPosition { line: start.line + further, column, ..start },
        }
    }
}

/// Reason for which a part has no answer.
enum RelayFailure {
    /// Nothing of it was executed, and the node does not take it as it is.
    NotTaken,
    /// Nothing of it was executed; it may be later.
    Passing(Error),
    /// Unknown effect: any part may have been executed.
    Unknown(Error),
}

impl RelayedPart {
    /// Executes the operations. Those that were certainly not executed are returned.
    pub(super) async fn run(self, call: Arc<DocumentCall>) -> CommittedWave {
        let RelayedPart { remote, operations } = self;
        let mut list = OperationList::new(&operations);
        let text = Bytes::from(std::mem::take(&mut list.text));
        let mut retry = RetryPause::until(Instant::now() + call.timeout);
        loop {
            let error = match ask(&call, &remote, text.clone()).await {
                Ok(answer) => return outcomes(&list, operations, &answer),
                Err(RelayFailure::NotTaken) => {
                    return CommittedWave { finished: Vec::new(), again: operations };
                }
                Err(RelayFailure::Passing(error)) => match retry.after(error).await {
                    Ok(()) => continue,
                    // Their own requests say what is wrong.
                    Err(_) => return CommittedWave { finished: Vec::new(), again: operations },
                },
                Err(RelayFailure::Unknown(error)) => error,
            };
            let failed = |operation: &ForwardedOperation| {
                let ForwardedOperation { number, position, single } = operation;
                StreamOutcome::Failed(FailedOperation::new(*number, *position, single.id(), &error))
            };
            return CommittedWave { finished: operations.iter().map(failed).collect(), again: Vec::new() };
        }
    }
}

/// Sends a list of operations to a node, and reads its answer.
async fn ask(
    call: &DocumentCall,
    remote: &RemoteNode,
    body: Bytes,
) -> Result<Vec<RelayAnswerLine>, RelayFailure> {
    let cluster = call.node.cluster().view().map_err(|error| RelayFailure::Passing(error.into()))?;
    let me = cluster.expect("only a node of a cluster has others to send operations to").own().key;
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    if let Some(caller) = &call.caller {
        attach_caller(&mut headers, caller);
    }
    let target = format!("/feed/v1?{}", parameters_of(call));
    let request = ForwardedRequest { method: Method::POST, target, headers, body, room: None };
    let exchange = async {
        let stage = ForwardKind::Owner(me, None);
        let response = match call.node.forwarder().send(remote, request, &stage).await {
            Ok(response) => response,
            Err(Error::Unreachable { sent: false, .. }) => return Err(RelayFailure::NotTaken),
            Err(error) => return Err(RelayFailure::Unknown(error.of_change())),
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS => return Err(RelayFailure::Passing(Error::Overloaded)),
            _ => return Err(RelayFailure::NotTaken),
        }
        let answer = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let answer = answer.map_err(|error| unknown(remote, &error.to_string()))?.to_bytes();
        let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines: Result<Vec<RelayAnswerLine>, _> = lines.map(serde_json::from_slice).collect();
        lines.map_err(|error| unknown(remote, &error.to_string()))
    };
    match tokio::time::timeout(call.timeout + GRACE, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(unknown(remote, "it has not answered in time")),
    }
}

fn unknown(remote: &RemoteNode, reason: &str) -> RelayFailure {
    let error = Error::Unreachable { address: remote.address.clone(), reason: reason.to_owned(), sent: true };
    RelayFailure::Unknown(error.of_change())
}

/// Outcomes of the operations by the lines of an answer.
fn outcomes(
    list: &OperationList,
    operations: Vec<ForwardedOperation>,
    answer: &[RelayAnswerLine],
) -> CommittedWave {
    let last = answer.iter().find(|line| line.complete.is_some());
    let is_whole = last.is_some_and(|last| last.complete == Some(true));
    let is_listed = last.is_none_or(|last| last.unlisted == 0);
    let through = answer.iter().filter_map(|line| line.through).max().unwrap_or_default();
    let mut failed: Vec<Option<&RelayAnswerLine>> = vec![None; operations.len()];
    for line in answer {
        let at = line.operation.and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
        if let Some(slot) = at.and_then(|at| failed.get_mut(at)) {
            *slot = Some(line);
        }
    }
    // One is listed, and the others are counted.
    let mut ignored = last.and_then(|last| last.ignored.as_u64()).unwrap_or_default();
    let mut wave = CommittedWave::default();
    for (at, (operation, line)) in operations.into_iter().zip(failed).enumerate() {
        let is_done = is_listed && (is_whole || (at as u64) < through);
        let Some(line) = line else {
            let outcome = match is_done {
                true if ignored > 1 => {
                    ignored -= 1;
                    StreamOutcome::Ignored(ignored_operation(&operation))
                }
                true => StreamOutcome::Ok,
                false => broken(operation, last),
            };
            wave.finished.push(outcome);
            continue;
        };
        if line.ignored == Value::Bool(true) {
            wave.finished.push(StreamOutcome::Ignored(ignored_operation(&operation)));
            continue;
        }
        let is_passing = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE]
            .iter()
            .any(|status| status.as_u16() == line.status);
        if is_passing {
            wave.again.push(operation);
            continue;
        }
        let ForwardedOperation { number, position, single } = operation;
        let position = list.position(at, position, line.line, line.column);
        let (id, status, message) = (single.id().to_string(), line.status, line.message.clone());
        wave.finished.push(StreamOutcome::Failed(FailedOperation { number, position, id, status, message }));
    }
    wave
}

fn ignored_operation(operation: &ForwardedOperation) -> IgnoredOperation {
    let ForwardedOperation { number, position, single } = operation;
    IgnoredOperation { number: *number, position: *position, id: single.id().to_string() }
}

/// Outcome of an operation of which the other node has not said what became of it.
fn broken(operation: ForwardedOperation, last: Option<&RelayAnswerLine>) -> StreamOutcome {
    let ForwardedOperation { number, position, single } = operation;
    let reason = match last {
        None => "its answer broke off",
        Some(last) if last.message.is_empty() => "its answer lists only some of the failures",
        Some(last) => last.message.as_str(),
    };
    let error = Error::Unknown(format!("the owner has not said what became of it: {reason}"));
    StreamOutcome::Failed(FailedOperation::new(number, position, single.id(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document_api::feed::forward::SingleOperation;
    use millrace_document::json::FeedReader;

    /// Checks the outcomes of the operations in `feed` by the answer to their list.
    #[track_caller]
    fn check(feed: &str, answer: &str, expected: &[&str]) {
        let operations: Vec<ForwardedOperation> = FeedReader::new(feed.as_bytes())
            .zip(7..)
            .map(|(operation, number)| {
                let operation = operation.expect("an operation");
                let position = operation.position;
                ForwardedOperation {
                    number,
                    position,
                    single: SingleOperation { operation, condition: None },
                }
            })
            .collect();
        let list = OperationList::new(&operations);
        let count = FeedReader::new(&list.text[..]).filter(Result::is_ok).count();
        assert_eq!(count, operations.len(), "the list has all operations");
        let lines: Vec<RelayAnswerLine> =
            answer.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
        let CommittedWave { finished, again } = outcomes(&list, operations, &lines);
        let finished = finished.into_iter().map(|outcome| match outcome {
            StreamOutcome::Ok => "ok".to_owned(),
            StreamOutcome::Ignored(_) => "ignored".to_owned(),
            StreamOutcome::Failed(FailedOperation { number, position, status, message, .. }) => {
                let reason = message.split("; whether").next().unwrap_or_default();
                let text = format!("{number} at {}:{} {status} {reason}", position.line, position.column);
                text.trim_end().to_owned()
            }
        });
        let again = again.into_iter().map(|operation| format!("{} again", operation.number));
        assert_eq!(finished.chain(again).collect::<Vec<_>>(), expected, "{answer}");
    }

    #[test]
    fn an_answer_says_what_became_of_each_operation() {
        let feed = r#"{"put": "id:n:t::1", "fields": {}}
  {"put": "id:n:t::2",
   "fields": {"a": 1}} {"remove": "id:n:t::3"}
{"remove": "id:n:t::4"}"#;
        check(feed, r#"{"complete": true}"#, &["ok"; 4]);
        let answer = r#"{"operation": 3, "line": 5, "column": 1, "id": "id:n:t::3", "ignored": true}
{"complete": true, "ignored": 2}"#;
        check(feed, answer, &["ignored", "ok", "ignored", "ok"]);
        // A position in the list is one in the feed again.
        let answer = r#"{"operation": 2, "line": 4, "column": 20, "status": 400, "message": "no"}
{"operation": 3, "line": 5, "column": 12, "status": 412, "message": "not"}
{"operation": 4, "line": 6, "column": 1, "status": 503, "message": "moved"}
{"complete": true}"#;
        check(feed, answer, &["ok", "8 at 3:20 400 no", "9 at 3:35 412 not", "10 again"]);
        // The other node stopped: what is behind is not known.
        const UNKNOWN: &str = "504 the owner has not said what became of it:";
        let answer = r#"{"through": 2, "offset": 50}
{"complete": false, "status": 503, "message": "no room"}"#;
        let lost = |reason: &str, places: &[&str]| -> Vec<String> {
            places.iter().map(|position| format!("{position} {UNKNOWN} {reason}")).collect()
        };
        let behind = lost("no room", &["9 at 3:24", "10 at 4:1"]);
        check(feed, answer, &["ok", "ok", &behind[0], &behind[1]]);
        const ALL: [&str; 4] = ["7 at 1:1", "8 at 2:3", "9 at 3:24", "10 at 4:1"];
        let all = lost("its answer broke off", &ALL);
        check(feed, "", &all.iter().map(String::as_str).collect::<Vec<_>>());
        // Failures without a line: none of the others is known to have succeeded.
        let answer = r#"{"through": 4, "offset": 90}
{"complete": true, "unlisted": 1}"#;
        let all = lost("its answer lists only some of the failures", &ALL);
        check(feed, answer, &all.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
