//! Sending of the operations of a feed.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use millrace_document::json::{FeedPosition, split_position};
use millrace_document::{DocumentGroup, DocumentId, OperationKind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::operations::{OperationReader, PreparedOperation, UnreadableOperation};
use super::report::{FeedFailure, FeedLatencies, FeedProgress, FeedReport, FeedStop, FeedTimes};
use super::resume::{CompletionFrontier, ResumeFile};
use super::stream::{StreamedFeed, is_streaming};
use super::throttle::OperationWindow;
use crate::{ClientAnswer, Error, HttpProtocol, NodeClient, OutgoingRequest};

/// Number of operations read ahead of sending.
const READ_AHEAD: usize = 256;

/// Interval of progress reports and of writing the resume file.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// Maximum number of connections: a client for each is made at the start.
const CONNECTIONS_MAX: usize = 1024;

/// Timeout of the initial request to the node.
const GREETING: Duration = Duration::from_secs(20);

/// Options of a feed.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// Number of connections, each of which carries many operations; from 1 to 1,024, others count as the
    /// nearest of these.
    pub connections: usize,
    /// Maximum number of operations in flight.
    pub in_flight_max: usize,
    /// Time during which one operation is retried.
    pub patience: Duration,
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// True to stop at the first permanent failure of an operation.
    pub stop_at_failure: bool,
    /// True to send one stream to a node that takes streams; otherwise each operation is a request.
    pub streams: bool,
}

impl Default for FeedOptions {
    fn default() -> Self {
        FeedOptions {
            connections: 2,
            in_flight_max: 1024,
            patience: Duration::from_secs(60),
            timeout: Duration::from_secs(180),
            stop_at_failure: false,
            streams: true,
        }
    }
}

/// Feeds the content of `stream` to the node at `base`, calling `progress` regularly. `input` is the stream's
/// name in messages and in the resume file.
///
/// # Errors
/// The node cannot be reached; the stream cannot be read, or does not begin with an operation; the resume
/// file cannot be written. Failed operations are part of the report.
pub async fn feed(
    base: &str,
    input: &str,
    stream: impl Read + Send + 'static,
    options: &FeedOptions,
    resume: Option<&mut ResumeFile>,
    progress: impl FnMut(&FeedProgress),
) -> Result<FeedReport, Error> {
    let clients: Vec<NodeClient> = (0..options.connections.clamp(1, CONNECTIONS_MAX))
        .map(|_| NodeClient::new(base, HttpProtocol::Http2))
        .collect::<Result<_, _>>()?;
    check_node(&clients[0]).await?;
    let start = resume.as_ref().map_or(0, |resume| resume.offset(input));
    let operations =
        OperationReader::new(stream, start).map_err(|UnreadableOperation { position, reason, .. }| {
            let reason = format!("{reason}; remove the resume file to start from the beginning");
            Error::Feed { input: input.to_owned(), position, reason }
        })?;
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    let (first_fault, awaited_fault) = oneshot::channel();
    // Reading may block on a pipe, so it has its own thread, which ends when the receiver is dropped.
    let reading = tokio::task::spawn_blocking(move || {
        let mut operations = operations.peekable();
        let fault = if start == 0 { fault_of(operations.peek()) } else { None };
        let is_feed = fault.is_none();
        let _ = first_fault.send(fault);
        for next in operations.take_while(|_| is_feed) {
            if sender.blocking_send(next).is_err() {
                return;
            }
        }
    });
    // A file of another kind would fail line by line.
    if let Ok(Some(UnreadableOperation { position, reason, .. })) = awaited_fault.await {
        return Err(not_a_feed(input, position, &reason));
    }
    let report = if options.streams && is_streaming(&clients[0]).await {
        let client = clients[0].clone();
        StreamedFeed::new(input, options, client, receiver, start).run(resume, progress).await?
    } else {
        let feeding = FeedRun::new(input, options, clients, receiver, start);
        feeding.run(resume, progress).await?
    };
    // The reader has ended, or ends because the receiver is gone; if it panicked, the operations read so far
    // were fed.
    let _ = reading.await;
    Ok(report)
}

/// Reads the first operation of an input.
///
/// # Errors
/// There is another text: the input is not a feed.
pub fn check_start(input: &str, stream: impl Read + Send + 'static) -> Result<(), Error> {
    let unread = OperationReader::new(stream, 0).map(|mut operations| fault_of(operations.next().as_ref()));
    match unread {
        Ok(None) => Ok(()),
        Ok(Some(UnreadableOperation { position, reason, .. }))
        | Err(UnreadableOperation { position, reason, .. }) => Err(not_a_feed(input, position, &reason)),
    }
}

fn fault_of(first: Option<&Result<PreparedOperation, UnreadableOperation>>) -> Option<UnreadableOperation> {
    first?.as_ref().err().cloned()
}

fn not_a_feed(input: &str, position: FeedPosition, reason: &str) -> Error {
    let reason = format!(
        "{reason}. Nothing of it was stored: a feed begins with an operation, such as \
         {{\"put\": \"id:mail:mail:g=me:1\", \"fields\": {{}}}}"
    );
    Error::Feed { input: input.to_owned(), position, reason }
}

/// Waits up to `patience` until the node at `base` can be reached. `waiting` is called once with the first
/// error.
///
/// # Errors
/// The node cannot be reached in that time; it rejects the request, or is not trusted.
pub async fn reach(base: &str, patience: Duration, waiting: impl FnOnce(&Error)) -> Result<(), Error> {
    let client = NodeClient::new(base, HttpProtocol::Http2)?;
    let begun = Instant::now();
    let mut waiting = Some(waiting);
    loop {
        match check_node(&client).await {
            Err(error @ (Error::Unreachable { .. } | Error::Broken { .. })) if begun.elapsed() < patience => {
                if let Some(waiting) = waiting.take() {
                    waiting(&error);
                }
            }
            other => return other,
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Checks that the node responds and has an application, so that a wrong address or a missing deployment is
/// not reported for each operation.
pub(super) async fn check_node(client: &NodeClient) -> Result<(), Error> {
    let request = OutgoingRequest::new(Method::GET, "/state/v1/health").timeout(GREETING);
    let answer = client.send(request).await?;
    let health = answer.json();
    let status = |name: &str| health["status"][name].as_str();
    // Any other response shows that it is running; errors of an operation are reported for the operation.
    match (status("code"), status("message")) {
        (Some("initializing"), Some(message)) => {
            Err(Error::Refused { status: answer.status.as_u16(), message: message.to_owned() })
        }
        _ => Ok(()),
    }
}

/// A feed in progress.
struct FeedRun<'a> {
    input: &'a str,
    options: &'a FeedOptions,
    clients: Vec<NodeClient>,
    receiver: mpsc::Receiver<Result<PreparedOperation, UnreadableOperation>>,
    throttle: OperationWindow,
    sending: JoinSet<OperationOutcome>,
    /// Operations that wait for an earlier one on the same document, by document.
    behind: HashMap<DocumentId, VecDeque<PreparedOperation>>,
    /// Number of these operations.
    waiting: usize,
    frontier: CompletionFrontier,
    report: FeedReport,
    latencies: FeedLatencies,
    next_client: usize,
    started: Instant,
}

/// Result of an operation.
struct OperationOutcome {
    id: DocumentId,
    kind: OperationKind,
    position: FeedPosition,
    end: u64,
    bytes: usize,
    result: Result<OperationAnswer, Error>,
    latency: Duration,
    retries: u64,
    overloaded: bool,
}

/// Response of the node to an operation.
struct OperationAnswer {
    status: StatusCode,
    /// Message; empty on success.
    message: String,
    ignored: bool,
    /// Position of the error, or the start of the operation.
    position: FeedPosition,
}

impl<'a> FeedRun<'a> {
    fn new(
        input: &'a str,
        options: &'a FeedOptions,
        clients: Vec<NodeClient>,
        receiver: mpsc::Receiver<Result<PreparedOperation, UnreadableOperation>>,
        start: u64,
    ) -> Self {
        let now = Instant::now();
        FeedRun {
            input,
            options,
            clients,
            receiver,
            throttle: OperationWindow::new(options.in_flight_max, now),
            sending: JoinSet::new(),
            behind: HashMap::new(),
            waiting: 0,
            frontier: CompletionFrontier::from(start),
            report: FeedReport::default(),
            latencies: FeedLatencies::default(),
            next_client: 0,
            started: now,
        }
    }

    async fn run(
        mut self,
        mut resume: Option<&mut ResumeFile>,
        mut progress: impl FnMut(&FeedProgress),
    ) -> Result<FeedReport, Error> {
        let mut tick = tokio::time::interval(TICK);
        let mut open = true;
        let mut unreadable = None;
        while open || !self.sending.is_empty() {
            let room = self.sending.len() + self.waiting < self.throttle.window();
            tokio::select! {
                biased;
                Some(sent) = self.sending.join_next(), if !self.sending.is_empty() => {
                    if let Ok(sent) = sent {
                        open &= self.sent(sent);
                    }
                }
                next = self.receiver.recv(), if open && room => match next {
                    Some(Ok(operation)) => self.accept(operation),
                    Some(Err(UnreadableOperation { position, reason, ends })) => {
                        self.failed(position, String::new(), 0, reason.clone());
                        if ends {
                            self.report.stop = Some(FeedStop::Unreadable(position));
                            unreadable = Some(reason);
                        } else if self.options.stop_at_failure {
                            self.report.stop = Some(FeedStop::AtFailure);
                        }
                        open &= self.report.stop.is_none();
                    }
                    None => open = false,
                },
                _ = tick.tick() => {
                    if let Some(resume) = resume.as_deref_mut() {
                        resume.save(self.input, self.frontier.offset())?;
                    }
                    progress(&self.progress());
                }
            }
        }
        if let Some(resume) = resume {
            resume.save(self.input, self.frontier.offset())?;
        }
        self.report.progress = self.progress();
        progress(&self.report.progress);
        self.report.ended(
            self.input,
            unreadable,
            FeedTimes { started: self.started, latencies: self.latencies },
        )
    }

    fn progress(&self) -> FeedProgress {
        FeedProgress {
            in_flight: self.sending.len(),
            window: self.throttle.window(),
            ..self.report.progress.clone()
        }
    }

    /// Sends the operation, or queues it behind an earlier one on the same document.
    fn accept(&mut self, operation: PreparedOperation) {
        self.frontier.begin(operation.position.offset);
        self.report.progress.read_bytes = operation.end;
        match self.behind.get_mut(&operation.id) {
            Some(queue) => {
                queue.push_back(operation);
                self.waiting += 1;
            }
            None => {
                self.behind.insert(operation.id.clone(), VecDeque::new());
                self.send(operation);
            }
        }
    }

    fn send(&mut self, operation: PreparedOperation) {
        let client = self.clients[self.next_client % self.clients.len()].clone();
        self.next_client += 1;
        let (patience, timeout) = (self.options.patience, self.options.timeout);
        self.sending.spawn(deliver(client, operation, patience, timeout));
    }

    /// Counts a finished operation, and sends the one queued behind it. Returns false if the feed must stop.
    fn sent(&mut self, sent: OperationOutcome) -> bool {
        let now = Instant::now();
        let progress = &mut self.report.progress;
        progress.retried += sent.retries;
        match sent.overloaded {
            true => self.throttle.refused(now),
            false => self.throttle.answered(sent.latency, now),
        }
        match sent.result {
            Ok(OperationAnswer { status, ignored, .. })
                if status.is_success() || status == StatusCode::PRECONDITION_FAILED =>
            {
                let done = status.is_success() && !ignored;
                match (done, ignored) {
                    (true, _) => progress.done += 1,
                    (false, true) => progress.ignored += 1,
                    (false, false) => progress.condition_not_met += 1,
                }
                let first =
                    self.report.first_ignored.as_ref().map_or(u64::MAX, |(position, _)| position.offset);
                if ignored && sent.position.offset < first {
                    self.report.first_ignored = Some((sent.position, sent.id.to_string()));
                }
                let without_group =
                    sent.kind == OperationKind::Put && matches!(sent.id.group(), DocumentGroup::None);
                progress.without_group += u64::from(done && without_group);
                progress.sent_bytes += sent.bytes as u64;
                self.latencies.add(sent.latency, 1);
            }
            Ok(OperationAnswer { status, message, position, .. }) => {
                self.latencies.add(sent.latency, 1);
                self.failed(position, sent.id.to_string(), status.as_u16(), message);
                if self.options.stop_at_failure {
                    self.report.stop = Some(FeedStop::AtFailure);
                }
            }
            Err(error) => {
                // Further operations would fail, too.
                self.failed(sent.position, sent.id.to_string(), 0, error.to_string());
                self.report.stop = Some(FeedStop::NodeAway);
                return false;
            }
        }
        self.frontier.end(sent.position.offset, sent.end);
        let next = self.behind.get_mut(&sent.id).and_then(VecDeque::pop_front);
        match next {
            Some(operation) => {
                self.waiting -= 1;
                self.send(operation);
            }
            None => {
                self.behind.remove(&sent.id);
            }
        }
        self.report.stop.is_none()
    }

    fn failed(&mut self, position: FeedPosition, id: String, status: u16, message: String) {
        let input = self.input.to_owned();
        self.report.fail(FeedFailure { input, position, id, status, message });
    }
}

impl OperationAnswer {
    /// Converts the response to the operation `json` at `position`. A position in the operation becomes one
    /// in the feed.
    fn new(answer: &ClientAnswer, position: FeedPosition, json: &[u8]) -> Self {
        let status = answer.status;
        if status.is_success() {
            return OperationAnswer {
                status,
                message: String::new(),
                ignored: answer.is_ignored(),
                position,
            };
        }
        let message = answer.message();
        match split_position(&message) {
            Some((reason, line, column)) => {
                let position = position.within(json, line, column);
                OperationAnswer { status, message: reason.to_owned(), ignored: false, position }
            }
            None => OperationAnswer { status, message, ignored: false, position },
        }
    }
}

/// Sends one operation until it has a final result.
async fn deliver(
    client: NodeClient,
    operation: PreparedOperation,
    patience: Duration,
    timeout: Duration,
) -> OperationOutcome {
    let method = match operation.kind {
        OperationKind::Put => Method::POST,
        OperationKind::Update => Method::PUT,
        OperationKind::Remove => Method::DELETE,
    };
    let PreparedOperation { id, kind, target, json, position, end } = operation;
    // A removal has its condition in the target.
    let body = hyper::body::Bytes::from(if kind == OperationKind::Remove { Vec::new() } else { json });
    let bytes = body.len();
    let begun = Instant::now();
    let (mut retries, mut overloaded) = (0, false);
    loop {
        let attempt = Instant::now();
        let request = OutgoingRequest::new(method.clone(), target.clone())
            .body("application/json", body.clone())
            .timeout(timeout);
        let result = client.send(request).await;
        let passing = match &result {
            Ok(answer) => matches!(answer.status.as_u16(), 429 | 502 | 503 | 504),
            Err(_) => true,
        };
        overloaded |= matches!(&result, Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS);
        if !passing || begun.elapsed() > patience {
            let result = result.map(|answer| OperationAnswer::new(&answer, position, &body));
            return OperationOutcome {
                id,
                kind,
                position,
                end,
                bytes,
                result,
                latency: attempt.elapsed(),
                retries,
                overloaded,
            };
        }
        retries += 1;
        let pause = Duration::from_millis(20 << retries.min(7));
        tokio::time::sleep(pause).await;
    }
}
