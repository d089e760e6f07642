//! The rows of a table as one stream of `/feed/v1`.
//!
//! The table comes in parts: the message with its columns, and record batches. A part is kept until the node
//! reports that its rows are durable or have failed. If the stream breaks, or the node ends it because it has
//! too much to do, another one begins with the columns and the first part that is kept. Rows are puts, which
//! have the same effect a second time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Instant;

use hyper::StatusCode;
use hyper::body::Bytes;
use millrace_document::json::FeedPosition;
use tokio::sync::mpsc;

use super::FeedOptions;
use super::engine::{TICK, check_node};
use super::report::{FeedFailure, FeedLatencies, FeedProgress, FeedReport, FeedStop, FeedTimes};
use super::resume::ResumeFile;
use super::stream::{
    GRACE, IgnoredOperations, OpenStream, PAUSES, StreamAnswerLine, StreamEnd, is_passing, is_streaming,
    reserve,
};
use crate::{Error, HttpProtocol, NodeClient};

/// Media type of a table.
const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Bytes of parts that are sent before their outcome is known, plus those of one more.
const UNANSWERED_BYTES_MAX: usize = 16 << 20;

/// Some rows of a table, as bytes of an Arrow stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePart {
    /// Number of rows.
    pub rows: u64,
    /// The message, with dictionaries before it.
    pub bytes: Bytes,
    /// Bytes of the file that were read for it and all before it.
    pub read_bytes: u64,
}

/// A table to be fed.
pub struct TableInput<P> {
    /// Name in messages and in the resume file.
    pub name: String,
    /// Parameters of the stream that say what the rows are.
    pub parameters: Vec<(&'static str, String)>,
    /// The message with the columns.
    pub columns: Bytes,
    /// Number of rows before the first part: those fed earlier.
    pub first_row: u64,
    /// The rows, or the reason why there are no more.
    pub parts: P,
}

/// Feeds a table to the node at `base`, calling `progress` regularly. The resume file counts rows.
///
/// # Errors
/// The node cannot be reached, takes no streams, or refuses the columns; the table cannot be read; the resume
/// file cannot be written. Failed rows are part of the report.
pub async fn feed_table(
    base: &str,
    input: TableInput<impl Iterator<Item = io::Result<TablePart>> + Send + 'static>,
    options: &FeedOptions,
    resume: Option<&mut ResumeFile>,
    progress: impl FnMut(&FeedProgress),
) -> Result<FeedReport, Error> {
    let client = NodeClient::new(base, HttpProtocol::Http2)?;
    check_node(&client).await?;
    if !is_streaming(&client).await {
        let reason =
            "the server takes no streams at /feed/v1, which tables need; convert the table to JSON lines";
        let position = FeedPosition::default();
        return Err(Error::Feed { input: input.name, position, reason: reason.to_owned() });
    }
    let TableInput { name, parameters, columns, first_row, parts } = input;
    let (sender, receiver) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || {
        for part in parts {
            if sender.blocking_send(part).is_err() {
                return;
            }
        }
    });
    let feed = TableFeed {
        input: name.clone(),
        options,
        client,
        parameters,
        columns,
        receiver,
        unanswered: VecDeque::new(),
        failures: BTreeMap::new(),
        done_rows: first_row,
        is_open: true,
        report: FeedReport::default(),
        latencies: FeedLatencies::default(),
        started: Instant::now(),
    };
    let report = feed.run(resume, progress).await?;
    // The reader has ended, or ends because the receiver is gone.
    match reading.await {
        Ok(()) => Ok(report),
        Err(_) => {
            let rows = report.progress.done + report.progress.failed;
            let reason = "the table is damaged behind this row: reading it has failed".to_owned();
            Err(Error::Feed { input: name, position: row_position(first_row + rows), reason })
        }
    }
}

/// A table that is being fed.
struct TableFeed<'a> {
    input: String,
    options: &'a FeedOptions,
    client: NodeClient,
    parameters: Vec<(&'static str, String)>,
    columns: Bytes,
    receiver: mpsc::Receiver<io::Result<TablePart>>,
    /// Parts whose rows are not all known to be durable.
    unanswered: VecDeque<UnansweredPart>,
    /// Failures of their rows, by the number of the row in the table, from 0: status, id and message.
    failures: BTreeMap<u64, (u16, String, String)>,
    /// Number of rows before the first of these parts.
    done_rows: u64,
    /// True while there may be more to read.
    is_open: bool,
    report: FeedReport,
    /// Sum of the times of all rows.
    latencies: FeedLatencies,
    started: Instant,
}

/// A part whose rows are not all known to be durable.
struct UnansweredPart {
    part: TablePart,
    /// Time at which it was read.
    read: Instant,
}

/// One request.
struct OpenTable {
    stream: OpenStream,
    /// Number of rows of the table before those of this stream.
    first_row: u64,
    /// Number of parts that were sent.
    sent: usize,
    /// Ignored rows, and failures without a line, that were counted.
    counted: (u64, u64),
}

impl TableFeed<'_> {
    async fn run(
        mut self,
        mut resume: Option<&mut ResumeFile>,
        mut progress: impl FnMut(&FeedProgress),
    ) -> Result<FeedReport, Error> {
        let (mut pause, mut stuck_since) = (PAUSES.0, None);
        let mut is_first = true;
        // A table without rows is sent too: its columns may be wrong.
        while self.is_open || !self.unanswered.is_empty() || is_first {
            is_first = false;
            let before = self.done_rows;
            let (status, message) = match self.stream(&mut resume, &mut progress).await? {
                StreamEnd::Complete => continue,
                StreamEnd::Broken { status, message } if status != 0 && !is_passing(status) => {
                    return Err(Error::Refused { status, message });
                }
                StreamEnd::Broken { status, message } => (status, message),
                StreamEnd::Lost(error @ Error::Refused { status, .. }) if !is_passing(status) => {
                    return Err(error);
                }
                StreamEnd::Lost(error) => (0, error.to_string()),
            };
            if self.done_rows > before {
                (stuck_since, pause) = (None, PAUSES.0);
            }
            if stuck_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience {
                let position = row_position(self.done_rows);
                self.report.fail(FeedFailure {
                    input: self.input.clone(),
                    position,
                    id: String::new(),
                    status,
                    message,
                });
                self.report.stop = Some(FeedStop::NodeAway);
                break;
            }
            self.report.progress.retried += self.unanswered.iter().map(|kept| kept.part.rows).sum::<u64>();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        self.save(&mut resume)?;
        progress(&self.report.progress);
        let times = FeedTimes { started: self.started, latencies: self.latencies };
        self.report.ended(&self.input, None, times)
    }

    /// Sends one stream: what is kept, and what is read meanwhile.
    async fn stream(
        &mut self,
        resume: &mut Option<&mut ResumeFile>,
        progress: &mut impl FnMut(&FeedProgress),
    ) -> Result<StreamEnd, Error> {
        let stream = OpenStream::begin(&self.client, self.options.timeout, ARROW, &self.parameters);
        let mut table = OpenTable { stream, first_row: self.done_rows, sent: 0, counted: (0, 0) };
        let mut outgoing = Some(self.columns.clone());
        let mut tick = tokio::time::interval(TICK);
        loop {
            if outgoing.is_none() {
                outgoing = self.unanswered.get(table.sent).map(|kept| kept.part.bytes.clone());
                table.sent += usize::from(outgoing.is_some());
            }
            if !self.is_open && outgoing.is_none() {
                table.stream.body = None;
            }
            let unanswered_bytes: usize = self.unanswered.iter().map(|kept| kept.part.bytes.len()).sum();
            let reads = self.is_open && outgoing.is_none() && unanswered_bytes < UNANSWERED_BYTES_MAX;
            let body = table.stream.body.clone();
            let silence = table.stream.last_received + self.options.timeout + GRACE;
            tokio::select! {
                biased;
                part = table.stream.answer.recv() => match part {
                    Some(Ok(part)) => {
                        let lines = match table.stream.lines(&part) {
                            Ok(lines) => lines,
                            Err(error) => return Ok(StreamEnd::Lost(error)),
                        };
                        for line in lines {
                            if let Some(end) = self.receive_line(&mut table, line) {
                                return Ok(end);
                            }
                        }
                    }
                    Some(Err(error)) => return Ok(StreamEnd::Lost(error)),
                    None => return Ok(table.stream.broken("the answer has no end")),
                },
                room = reserve(body.as_ref()), if outgoing.is_some() => {
                    // Without room the request has ended; its answer says why.
                    if let (Some(room), Some(part)) = (room, outgoing.take()) {
                        room.send(part);
                    }
                },
                part = self.receiver.recv(), if reads => match part {
                    Some(Ok(part)) => {
                        if self.unanswered.is_empty() {
                            table.stream.last_received = Instant::now();
                        }
                        self.report.progress.read_bytes = part.read_bytes;
                        self.unanswered.push_back(UnansweredPart { part, read: Instant::now() });
                    }
                    Some(Err(error)) => self.stop_reading(error.to_string()),
                    None => self.is_open = false,
                },
                _ = tick.tick() => {
                    self.save(resume)?;
                    progress(&self.report.progress);
                }
                () = tokio::time::sleep_until(silence.into()), if !self.unanswered.is_empty() => {
                    return Ok(table.stream.silent(self.options.timeout));
                }
            }
        }
    }

    /// Stops reading at a row that cannot be read, which becomes a failure of the feed.
    fn stop_reading(&mut self, message: String) {
        self.is_open = false;
        let rows: u64 = self.unanswered.iter().map(|kept| kept.part.rows).sum();
        let (input, position) = (self.input.clone(), row_position(self.done_rows + rows));
        self.report.fail(FeedFailure { input, position, id: String::new(), status: 0, message });
        self.report.stop = Some(FeedStop::Unreadable(position));
    }

    fn receive_line(&mut self, table: &mut OpenTable, line: StreamAnswerLine) -> Option<StreamEnd> {
        if let Some(number) = line.operation {
            let row = table.first_row + number.saturating_sub(1);
            match line.ignored {
                IgnoredOperations::This(true) => {
                    self.report.first_ignored.get_or_insert((row_position(row), line.id));
                }
                _ => {
                    self.failures.insert(row, (line.status, line.id, line.message));
                }
            }
            return None;
        }
        self.answered(table, line.through.unwrap_or_default());
        if let IgnoredOperations::Count(ignored) = line.ignored {
            let progress = &mut self.report.progress;
            let more_ignored = ignored.saturating_sub(table.counted.0);
            let more_failed = line.unlisted.saturating_sub(table.counted.1);
            progress.ignored += more_ignored;
            progress.failed += more_failed;
            progress.done = progress.done.saturating_sub(more_ignored + more_failed);
            table.counted = (ignored.max(table.counted.0), line.unlisted.max(table.counted.1));
        }
        match line.complete? {
            true if self.unanswered.is_empty() => Some(StreamEnd::Complete),
            // The body was not read to its end, though the node took it for whole.
            true => Some(StreamEnd::Broken { status: 0, message: "the stream was cut off".to_owned() }),
            false => Some(StreamEnd::Broken { status: line.status, message: line.message }),
        }
    }

    /// Counts the parts whose rows are among the first `through` of a stream.
    fn answered(&mut self, table: &mut OpenTable, through: u64) {
        let end = table.first_row.saturating_add(through);
        while table.sent > 0
            && let Some(UnansweredPart { part, read }) = self.unanswered.front()
            && self.done_rows + part.rows <= end
        {
            let (rows, bytes) = (part.rows, part.bytes.len());
            self.latencies.add(read.elapsed(), rows);
            self.unanswered.pop_front();
            table.sent -= 1;
            self.done_rows += rows;
            let later = self.failures.split_off(&self.done_rows);
            let failures = std::mem::replace(&mut self.failures, later);
            let progress = &mut self.report.progress;
            progress.done += rows - failures.len() as u64;
            progress.sent_bytes += bytes as u64;
            for (row, (status, id, message)) in failures {
                if status == StatusCode::PRECONDITION_FAILED.as_u16() {
                    self.report.progress.condition_not_met += 1;
                    continue;
                }
                let (input, position) = (self.input.clone(), row_position(row));
                self.report.fail(FeedFailure { input, position, id, status, message });
                if self.options.stop_at_failure {
                    self.report.stop = Some(FeedStop::AtFailure);
                    self.is_open = false;
                }
            }
        }
    }

    fn save(&self, resume: &mut Option<&mut ResumeFile>) -> Result<(), Error> {
        match resume.as_deref_mut() {
            Some(resume) => resume.save(&self.input, self.done_rows),
            None => Ok(()),
        }
    }
}

/// Place of a row, by its number from 0.
fn row_position(row: u64) -> FeedPosition {
    FeedPosition { offset: row, line: row + 1, column: 0 }
}
