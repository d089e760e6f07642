//! A feed as one stream of `/feed/v1`.
//!
//! Operations are kept until the node reports that they are durable or have failed. If the stream breaks, or
//! the node ends it because it has too much to do, another one begins with the first operation that is kept.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::header::ALLOW;
use hyper::{Method, StatusCode};
use millrace_document::json::FeedPosition;
use millrace_document::{DocumentGroup, OperationKind};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::FeedOptions;
use super::engine::TICK;
use super::operations::{PreparedOperation, UnreadableOperation};
use super::report::{FeedFailure, FeedLatencies, FeedProgress, FeedReport, FeedStop, FeedTimes};
use super::resume::ResumeFile;
use crate::{Error, NodeClient, OutgoingRequest, StreamedBody};

/// Path of streams.
const PATH: &str = "/feed/v1";

/// Bytes of operations that are sent before their outcome is known, plus those of one more.
const UNANSWERED_BYTES_MAX: usize = 8 << 20;

/// Bytes that are gathered for one part of the body, plus those of one more operation.
const PART_BYTES: usize = 128 << 10;

/// Operations that are taken from the feed at a time.
const TAKEN_MAX: usize = 128;

/// Time beyond that of an operation after which the node is not expected to answer.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Shortest and longest pause before another stream begins.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Time for which the node is asked if it takes streams.
const QUESTION: Duration = Duration::from_secs(20);

/// True if a node takes streams. Another one, such as a Vespa container, does not know the path.
pub(super) async fn is_streaming(client: &NodeClient) -> bool {
    let request = OutgoingRequest::new(Method::OPTIONS, PATH).timeout(QUESTION);
    let Ok(answer) = client.send(request).await else { return false };
    let allowed = answer.headers.get(ALLOW).map(|value| String::from_utf8_lossy(value.as_bytes()));
    answer.status.is_success() && allowed.is_some_and(|allowed| allowed.contains("POST"))
}

/// Line of the answer, of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamAnswerLine {
    pub(super) operation: Option<u64>,
    pub(super) line: u64,
    column: u64,
    pub(super) id: String,
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) through: Option<u64>,
    pub(super) complete: Option<bool>,
    pub(super) ignored: IgnoredOperations,
    pub(super) unlisted: u64,
}

/// Operations whose documents no cluster takes: the first is listed, and all are counted.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum IgnoredOperations {
    This(bool),
    Count(u64),
}

impl Default for IgnoredOperations {
    fn default() -> Self {
        IgnoredOperations::Count(0)
    }
}

/// An operation whose outcome is not known to be durable.
struct UnansweredOperation {
    operation: PreparedOperation,
    sent: Instant,
    /// Line of the stream on which it begins, from 1.
    line: u64,
    /// Its failure, if the node has listed one: status, message and position.
    failure: Option<(u16, String, FeedPosition)>,
}

/// A feed that is sent as a stream.
pub(super) struct StreamedFeed<'a> {
    input: &'a str,
    options: &'a FeedOptions,
    client: NodeClient,
    receiver: mpsc::Receiver<Result<PreparedOperation, UnreadableOperation>>,
    unanswered: VecDeque<UnansweredOperation>,
    unanswered_bytes: usize,
    /// Offset in the feed before which everything is done.
    reached: u64,
    /// True while there may be more to read.
    is_open: bool,
    unreadable: Option<String>,
    report: FeedReport,
    latencies: FeedLatencies,
    started: Instant,
    /// Time since which no operation was answered although streams ended.
    stuck_since: Option<Instant>,
}

/// One request.
pub(super) struct OpenStream {
    /// Sender of the body, until all is sent.
    pub(super) body: Option<mpsc::Sender<Bytes>>,
    pub(super) answer: mpsc::Receiver<Result<Bytes, Error>>,
    address: String,
    /// Bytes of the answer after its last whole line.
    rest: Vec<u8>,
    pub(super) last_received: Instant,
}

/// One request with operations as JSON lines.
struct OpenFeed {
    stream: OpenStream,
    /// Operations to be sent next, as text.
    outgoing: Vec<u8>,
    /// Line on which the next operation begins.
    line: u64,
    /// Number of operations of this stream that were answered.
    answered: u64,
    /// Ignored operations, and failures without a line, that were counted.
    counted: (u64, u64),
}

/// End of a stream.
pub(super) enum StreamEnd {
    /// The node has executed all.
    Complete,
    /// The node has ended it.
    Broken {
        status: u16,
        message: String,
    },
    Lost(Error),
}

impl<'a> StreamedFeed<'a> {
    pub(super) fn new(
        input: &'a str,
        options: &'a FeedOptions,
        client: NodeClient,
        receiver: mpsc::Receiver<Result<PreparedOperation, UnreadableOperation>>,
        start: u64,
    ) -> Self {
        StreamedFeed {
            input,
            options,
            client,
            receiver,
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            reached: start,
            is_open: true,
            unreadable: None,
            report: FeedReport::default(),
            latencies: FeedLatencies::default(),
            started: Instant::now(),
            stuck_since: None,
        }
    }

    /// Sends everything.
    ///
    /// # Errors
    /// The resume file cannot be written; the input is not a feed; the node refuses streams.
    pub(super) async fn run(
        mut self,
        mut resume: Option<&mut ResumeFile>,
        mut progress: impl FnMut(&FeedProgress),
    ) -> Result<FeedReport, Error> {
        let mut pause = PAUSES.0;
        while self.is_open || !self.unanswered.is_empty() {
            if self.unanswered.is_empty() && !self.read_first(&mut resume, &mut progress).await? {
                continue;
            }
            let answered = self.answered();
            let (status, message) = match self.stream(&mut resume, &mut progress).await? {
                StreamEnd::Complete => continue,
                StreamEnd::Broken { status, message } => (status, message),
                StreamEnd::Lost(error @ Error::Refused { status, .. }) if !is_passing(status) => {
                    return Err(error);
                }
                StreamEnd::Lost(error) => (0, error.to_string()),
            };
            if self.answered() > answered {
                (self.stuck_since, pause) = (None, PAUSES.0);
            }
            if self.unanswered.is_empty() {
                continue;
            }
            let stuck_since = *self.stuck_since.get_or_insert_with(Instant::now);
            if stuck_since.elapsed() > self.options.patience {
                self.give_up(status, message);
                break;
            }
            self.report.progress.retried += self.unanswered.len() as u64;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        self.save(&mut resume)?;
        self.report.progress = self.progress();
        progress(&self.report.progress);
        let times = FeedTimes { started: self.started, latencies: self.latencies };
        self.report.ended(self.input, self.unreadable, times)
    }

    /// Number of operations with an outcome.
    fn answered(&self) -> u64 {
        let FeedProgress { done, ignored, condition_not_met, failed, .. } = self.report.progress;
        done + ignored + condition_not_met + failed
    }

    /// Reads on until there is an operation; false at the end of the feed. A feed that comes slowly keeps no
    /// stream open.
    async fn read_first(
        &mut self,
        resume: &mut Option<&mut ResumeFile>,
        progress: &mut impl FnMut(&FeedProgress),
    ) -> Result<bool, Error> {
        while self.is_open && self.unanswered.is_empty() {
            match tokio::time::timeout(TICK, self.receiver.recv()).await {
                Ok(Some(next)) => self.keep(next),
                Ok(None) => self.is_open = false,
                Err(_) => {
                    self.save(resume)?;
                    progress(&self.progress());
                }
            }
        }
        Ok(!self.unanswered.is_empty())
    }

    /// Keeps an operation for the stream, or counts what is not one.
    fn keep(&mut self, next: Result<PreparedOperation, UnreadableOperation>) {
        match next {
            Ok(operation) => {
                self.report.progress.read_bytes = operation.end;
                self.unanswered_bytes += operation.json.len();
                let (sent, line) = (Instant::now(), 0);
                self.unanswered.push_back(UnansweredOperation { operation, sent, line, failure: None });
            }
            Err(UnreadableOperation { position, reason, ends }) => {
                let (input, message) = (self.input.to_owned(), reason.clone());
                self.report.fail(FeedFailure { input, position, id: String::new(), status: 0, message });
                if ends {
                    self.report.stop = Some(FeedStop::Unreadable(position));
                    self.unreadable = Some(reason);
                } else if self.options.stop_at_failure {
                    self.report.stop = Some(FeedStop::AtFailure);
                }
                self.is_open &= self.report.stop.is_none();
            }
        }
    }

    /// Sends one stream: what is kept, and what is read meanwhile.
    async fn stream(
        &mut self,
        resume: &mut Option<&mut ResumeFile>,
        progress: &mut impl FnMut(&FeedProgress),
    ) -> Result<StreamEnd, Error> {
        let stream = OpenStream::begin(&self.client, self.options.timeout, "application/jsonl", &[]);
        let mut feed = OpenFeed { stream, outgoing: Vec::new(), line: 1, answered: 0, counted: (0, 0) };
        self.unanswered.iter_mut().for_each(|unanswered| feed.write(unanswered));
        let mut tick = tokio::time::interval(TICK);
        let mut taken = Vec::new();
        loop {
            if !self.is_open && feed.outgoing.is_empty() {
                feed.stream.body = None;
            }
            let reads = self.is_open
                && feed.outgoing.len() < PART_BYTES
                && self.unanswered_bytes < UNANSWERED_BYTES_MAX;
            let body = feed.stream.body.clone();
            let silence = feed.stream.last_received + self.options.timeout + GRACE;
            tokio::select! {
                biased;
                part = feed.stream.answer.recv() => match part {
                    Some(Ok(part)) => {
                        if let Some(end) = self.receive(&mut feed, &part) {
                            return Ok(end);
                        }
                    }
                    Some(Err(error)) => return Ok(StreamEnd::Lost(error)),
                    None => return Ok(feed.stream.broken("the answer has no end")),
                },
                room = reserve(body.as_ref()), if !feed.outgoing.is_empty() => match room {
                    Some(room) => room.send(Bytes::from(std::mem::take(&mut feed.outgoing))),
                    // The request has ended; its answer says why.
                    None => feed.outgoing.clear(),
                },
                count = self.receiver.recv_many(&mut taken, TAKEN_MAX), if reads => {
                    self.is_open &= count > 0;
                    for next in taken.drain(..) {
                        // Of what was taken together, nothing behind the end counts.
                        if !self.is_open {
                            break;
                        }
                        let before = self.unanswered.len();
                        if before == 0 {
                            feed.stream.last_received = Instant::now();
                        }
                        self.keep(next);
                        self.unanswered.iter_mut().skip(before).for_each(|unanswered| feed.write(unanswered));
                    }
                },
                _ = tick.tick() => {
                    self.save(resume)?;
                    progress(&self.progress());
                }
                () = tokio::time::sleep_until(silence.into()), if !self.unanswered.is_empty() => {
                    return Ok(feed.stream.silent(self.options.timeout));
                }
            }
        }
    }

    /// Takes in a part of the answer. Returns the end of the stream, if it has come.
    fn receive(&mut self, feed: &mut OpenFeed, part: &[u8]) -> Option<StreamEnd> {
        match feed.stream.lines(part) {
            Ok(lines) => lines.into_iter().find_map(|line| self.receive_line(feed, line)),
            Err(error) => Some(StreamEnd::Lost(error)),
        }
    }

    fn receive_line(&mut self, feed: &mut OpenFeed, line: StreamAnswerLine) -> Option<StreamEnd> {
        if let Some(number) = line.operation {
            let at = number.checked_sub(feed.answered + 1).and_then(|at| usize::try_from(at).ok());
            let unanswered = at.and_then(|at| self.unanswered.get_mut(at))?;
            let UnansweredOperation { operation, line: start, failure, .. } = unanswered;
            if matches!(line.ignored, IgnoredOperations::This(true)) {
                let first = (operation.position, operation.id.to_string());
                self.report.first_ignored.get_or_insert(first);
                return None;
            }
            let position = operation.position;
            let position = match line.line.saturating_sub(*start) {
                0 => FeedPosition { column: position.column + line.column.saturating_sub(1), ..position },
                further => FeedPosition { line: position.line + further, column: line.column, ..position },
            };
            *failure = Some((line.status, line.message, position));
            return None;
        }
        let through = line.through.unwrap_or_default();
        while feed.answered < through {
            let Some(unanswered) = self.unanswered.pop_front() else { break };
            feed.answered += 1;
            self.answer(unanswered);
        }
        if let IgnoredOperations::Count(ignored) = line.ignored {
            self.count_unlisted(&mut feed.counted, (ignored, line.unlisted));
        }
        match line.complete? {
            true if self.unanswered.is_empty() => Some(StreamEnd::Complete),
            // The body was not read to its end, though the node took it for whole.
            true => Some(StreamEnd::Broken { status: 0, message: "the stream was cut off".to_owned() }),
            false => Some(StreamEnd::Broken { status: line.status, message: line.message }),
        }
    }

    /// Counts operations that were counted as done: ignored ones, and failures without a line, of which there
    /// are so many in this stream by now.
    fn count_unlisted(&mut self, counted: &mut (u64, u64), (ignored, unlisted): (u64, u64)) {
        let progress = &mut self.report.progress;
        let (more_ignored, more_failed) =
            (ignored.saturating_sub(counted.0), unlisted.saturating_sub(counted.1));
        progress.ignored += more_ignored;
        progress.failed += more_failed;
        progress.done = progress.done.saturating_sub(more_ignored + more_failed);
        *counted = (ignored.max(counted.0), unlisted.max(counted.1));
    }

    /// Counts an operation that is durable, or has failed.
    fn answer(&mut self, unanswered: UnansweredOperation) {
        let UnansweredOperation { operation, sent, failure, .. } = unanswered;
        self.latencies.add(sent.elapsed(), 1);
        self.unanswered_bytes -= operation.json.len();
        self.reached = operation.end;
        let progress = &mut self.report.progress;
        match failure {
            None => {
                progress.done += 1;
                let is_put = operation.kind == OperationKind::Put;
                let without_group = is_put && matches!(operation.id.group(), DocumentGroup::None);
                progress.without_group += u64::from(without_group);
                progress.sent_bytes += operation.json.len() as u64;
            }
            Some((status, ..)) if status == StatusCode::PRECONDITION_FAILED.as_u16() => {
                progress.condition_not_met += 1;
            }
            Some((status, message, position)) => {
                let (input, id) = (self.input.to_owned(), operation.id.to_string());
                self.report.fail(FeedFailure { input, position, id, status, message });
                if self.options.stop_at_failure {
                    self.report.stop = Some(FeedStop::AtFailure);
                    self.is_open = false;
                }
            }
        }
    }

    /// Ends the feed: no operation was answered for the whole time.
    fn give_up(&mut self, status: u16, message: String) {
        if let Some(UnansweredOperation { operation, .. }) = self.unanswered.front() {
            let (input, position, id) = (self.input.to_owned(), operation.position, operation.id.to_string());
            self.report.fail(FeedFailure { input, position, id, status, message });
        }
        self.report.stop = Some(FeedStop::NodeAway);
    }

    fn save(&self, resume: &mut Option<&mut ResumeFile>) -> Result<(), Error> {
        match resume.as_deref_mut() {
            Some(resume) => resume.save(self.input, self.reached),
            None => Ok(()),
        }
    }

    fn progress(&self) -> FeedProgress {
        let in_flight = self.unanswered.len();
        FeedProgress { in_flight, window: in_flight, ..self.report.progress.clone() }
    }
}

/// True if a request with this status may succeed later as it is.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

/// Waits until the connection takes a further part of a body; `None` if it takes no more.
pub(super) async fn reserve(body: Option<&mpsc::Sender<Bytes>>) -> Option<mpsc::Permit<'_, Bytes>> {
    body?.reserve().await.ok()
}

impl OpenStream {
    /// Begins a request, whose answer is received by a task of its own.
    pub(super) fn begin(
        client: &NodeClient,
        timeout: Duration,
        content_type: &'static str,
        parameters: &[(&str, String)],
    ) -> Self {
        let (body, streamed) = StreamedBody::new(2);
        let (parts, answer) = mpsc::channel(16);
        let (client, address) = (client.clone(), client.base().to_owned());
        let mut request = OutgoingRequest::new(Method::POST, PATH)
            .parameter("timeout", &format!("{}ms", timeout.as_millis()))
            .body(content_type, Bytes::new());
        for (name, value) in parameters {
            request = request.parameter(name, value);
        }
        tokio::spawn(async move {
            let mut answer = match client.exchange(request, streamed).await {
                Ok(answer) => answer,
                // The feed may have ended.
                Err(error) => return drop(parts.send(Err(error)).await),
            };
            while let Some(part) = answer.next().await.transpose() {
                if parts.send(part).await.is_err() {
                    return;
                }
            }
        });
        OpenStream { body: Some(body), answer, address, rest: Vec::new(), last_received: Instant::now() }
    }

    /// Takes in a part of the answer, and returns the lines that have ended.
    pub(super) fn lines(&mut self, part: &[u8]) -> Result<Vec<StreamAnswerLine>, Error> {
        self.last_received = Instant::now();
        self.rest.extend_from_slice(part);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        let lines = std::mem::replace(&mut self.rest, rest);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                serde_json::from_slice(line).map_err(|error| Error::Broken {
                    address: self.address.clone(),
                    reason: format!("a line of its answer is not known: {error}"),
                })
            })
            .collect()
    }

    /// The end of a stream whose answer is not whole.
    pub(super) fn broken(&self, reason: &str) -> StreamEnd {
        StreamEnd::Lost(Error::Broken { address: self.address.clone(), reason: reason.to_owned() })
    }

    /// The end of a stream whose node says nothing.
    pub(super) fn silent(&self, timeout: Duration) -> StreamEnd {
        StreamEnd::Lost(Error::Timeout { address: self.address.clone(), seconds: timeout.as_secs_f64() })
    }
}

impl OpenFeed {
    /// Appends an operation to what is sent next.
    fn write(&mut self, unanswered: &mut UnansweredOperation) {
        let UnansweredOperation { operation, line, failure, .. } = unanswered;
        (*line, *failure) = (self.line, None);
        self.outgoing.extend_from_slice(&operation.json);
        self.outgoing.push(b'\n');
        self.line =
            FeedPosition { line: self.line, ..FeedPosition::default() }.after(&operation.json).line + 1;
    }
}
