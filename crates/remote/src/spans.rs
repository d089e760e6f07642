//! Spans of requests for a collector of distributed traces, by OTLP over HTTP.
//!
//! A request hands a finished span on and goes on: spans wait in a bounded queue, and are counted where
//! that is full. A task on a thread of its own sends them in batches.

mod context;
mod protobuf;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use self::context::{SpanContext, TraceParent};
use crate::{Error, OutboundHttp, OutboundPolicy};

/// Maximum number of spans that wait to be sent.
const QUEUE_MAX: usize = 8192;

/// Maximum number of spans in one request.
const BATCH_MAX: usize = 512;

/// Time for which a batch is filled.
const LINGER: Duration = Duration::from_secs(1);

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of attempts to send a batch, and the pause after the first; the next ones are longer.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// Time limit for what waits when the node stops.
const CLOSING: Duration = Duration::from_secs(2);

/// Maximum bytes of an answer of the collector.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Media type of OTLP in Protobuf.
const PROTOBUF: &str = "application/x-protobuf";

/// Path of traces below the endpoint of a collector.
const PATH: &str = "/v1/traces";

/// Settings of the traces of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanSettings {
    /// Address of the collector, such as `http://localhost:4318`; with a path, that of its traces.
    pub endpoint: String,
    /// Share of the requests without a trace of their client that are traced, from 0 to 1.
    pub sampled: f64,
    /// Name of this node in traces.
    pub instance: String,
}

impl SpanSettings {
    /// Rules by which only the collector is connected to. The operator has named it: it may be on this
    /// machine.
    ///
    /// # Errors
    /// The endpoint is not an address.
    pub fn policy(&self) -> Result<OutboundPolicy, Error> {
        OutboundPolicy::for_url(&self.url())
    }

    /// Address of traces at the collector.
    fn url(&self) -> String {
        let endpoint = self.endpoint.trim_end_matches('/');
        let has_path = endpoint.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        if has_path { endpoint.to_owned() } else { format!("{endpoint}{PATH}") }
    }
}

/// Part of a request that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSpan {
    /// Name, the same for all requests of a kind.
    pub name: String,
    /// Trace and identity.
    pub context: SpanContext,
    /// Span that it is a part of.
    pub parent: Option<[u8; 8]>,
    /// True for a request to this node, false for a part of its work.
    pub is_request: bool,
    /// Time of its begin, since 1970.
    pub start: Duration,
    /// Time of its end, since 1970.
    pub end: Duration,
    /// Facts about it.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// True if it failed.
    pub is_error: bool,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanValue {
    /// Text.
    Text(String),
    /// Whole number.
    Number(u64),
}

/// Sender of spans to a collector.
pub struct SpanExporter {
    queue: Mutex<Option<mpsc::Sender<FinishedSpan>>>,
    sampled: f64,
    counters: Arc<SpanCounters>,
    done: Mutex<std::sync::mpsc::Receiver<()>>,
    /// Its thread sends; it ends with this value.
    _http: OutboundHttp,
}

#[derive(Default)]
struct SpanCounters {
    sent: AtomicU64,
    left_out: AtomicU64,
}

impl SpanExporter {
    /// Starts the sender, with a client that connects to the collector.
    pub fn start(settings: &SpanSettings, http: OutboundHttp) -> Self {
        let url = settings.url();
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (ended, done) = std::sync::mpsc::sync_channel(1);
        let counters = Arc::new(SpanCounters::default());
        let sender = BatchSender {
            http: http.clone(),
            url,
            instance: settings.instance.clone(),
            counters: Arc::clone(&counters),
            is_failing: false,
        };
        http.spawn(async move {
            sender.run(waiting).await;
            let _ = ended.send(());
        });
        SpanExporter {
            queue: Mutex::new(Some(queue)),
            sampled: settings.sampled,
            counters,
            done: Mutex::new(done),
            _http: http,
        }
    }

    /// Begins the span of a request with the header `traceparent` that it came with. `None` if its trace is
    /// not recorded.
    pub fn begin(&self, header: Option<&str>) -> Option<(SpanContext, Option<[u8; 8]>)> {
        match header.and_then(TraceParent::parse) {
            Some(parent) if !parent.is_sampled => None,
            Some(parent) => Some((parent.context.child(), Some(parent.context.span_id))),
            None => {
                let context = SpanContext::new();
                context.is_among(self.sampled).then_some((context, None))
            }
        }
    }

    /// Queues a span; never waits.
    pub fn export(&self, span: FinishedSpan) {
        let queue = self.queue.lock();
        if queue.as_ref().is_none_or(|queue| queue.try_send(span).is_err()) {
            self.counters.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of spans that the collector has taken.
    pub fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Number of spans that were left out: the queue was full, or the collector did not take them.
    pub fn left_out(&self) -> u64 {
        self.counters.left_out.load(Ordering::Relaxed)
    }

    /// Sends what waits, for at most two seconds. Spans that come later are left out.
    pub fn close(&self) {
        drop(self.queue.lock().take());
        // It may have ended without a word, or need longer.
        let _ = self.done.lock().recv_timeout(CLOSING);
    }
}

/// Task that sends batches.
struct BatchSender {
    http: OutboundHttp,
    url: String,
    instance: String,
    counters: Arc<SpanCounters>,
    /// True if the last batch was not taken.
    is_failing: bool,
}

impl BatchSender {
    async fn run(mut self, mut waiting: mpsc::Receiver<FinishedSpan>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Some(first) = waiting.recv().await {
            batch.push(first);
            let filled = async {
                while batch.len() < BATCH_MAX {
                    let Some(next) = waiting.recv().await else { return };
                    batch.push(next);
                }
            };
            // It is full, or the time is over.
            let _ = tokio::time::timeout(LINGER, filled).await;
            self.send(&batch).await;
            batch.clear();
        }
    }

    async fn send(&mut self, batch: &[FinishedSpan]) {
        let body = protobuf::encode(batch, &self.instance);
        let mut attempt = 1;
        let outcome = loop {
            let outcome = self.send_once(body.clone()).await;
            let retries = outcome.as_ref().is_err_and(|fault| fault.is_transient);
            if !retries || attempt == ATTEMPTS {
                break outcome;
            }
            tokio::time::sleep(PAUSE * 2u32.pow(attempt - 1)).await;
            attempt += 1;
        };
        let count = batch.len() as u64;
        match outcome {
            Ok(()) => {
                self.is_failing = false;
                self.counters.sent.fetch_add(count, Ordering::Relaxed);
            }
            Err(SendFault { reason, .. }) => {
                self.counters.left_out.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        url = self.url,
                        reason,
                        "spans are left out: the collector does not take them"
                    );
                }
            }
        }
    }

    async fn send_once(&self, body: Vec<u8>) -> Result<(), SendFault> {
        let answer = self.http.post_bytes(&self.url, PROTOBUF, body, TIMEOUT, ANSWER_BYTES_MAX).await;
        match answer {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
            Ok(answer) => {
                let is_transient = matches!(answer.status, 429 | 502 | 503 | 504);
                Err(SendFault { is_transient, reason: format!("it answers {}", answer.status) })
            }
            Err(error) => Err(SendFault { is_transient: true, reason: error.reason }),
        }
    }
}

/// Failure to send a batch.
struct SendFault {
    /// True if the same batch may be taken later.
    is_transient: bool,
    reason: String,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_endpoint_without_a_path_is_that_of_a_collector() {
        for (endpoint, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://traces.example.com/otlp/v1/traces", "https://traces.example.com/otlp/v1/traces"),
        ] {
            assert_eq!(settings(endpoint).url(), expected);
        }
        assert!(settings("localhost:4318").policy().is_err());
    }

    fn settings(endpoint: &str) -> SpanSettings {
        SpanSettings { endpoint: endpoint.to_owned(), sampled: 1.0, instance: "a".to_owned() }
    }

    fn exporter(collector: &TcpListener) -> SpanExporter {
        let settings = settings(&format!("http://{}", collector.local_addr().expect("it is bound")));
        let http = OutboundHttp::new(settings.policy().expect("an address")).expect("a client");
        SpanExporter::start(&settings, http)
    }

    fn span() -> FinishedSpan {
        FinishedSpan {
            name: "match".to_owned(),
            context: SpanContext::new(),
            parent: None,
            is_request: false,
            start: Duration::ZERO,
            end: Duration::ZERO,
            attributes: Vec::new(),
            is_error: false,
        }
    }

    /// The collector never answers: the first batches are with it, the queue is full, and no call waits.
    #[test]
    fn a_slow_collector_costs_spans_and_no_time() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let exporter = exporter(&silent);
        let count = 2 * QUEUE_MAX as u64;
        (0..count).for_each(|_| exporter.export(span()));
        assert!(exporter.left_out() >= count - (QUEUE_MAX + BATCH_MAX) as u64, "{}", exporter.left_out());
        assert_eq!(exporter.sent(), 0);
    }

    #[test]
    fn what_waits_is_sent_at_the_end() {
        let collector = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let exporter = exporter(&collector);
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = collector.accept().expect("a connection");
            let mut head = [0; 1024];
            let read = stream.read(&mut head).expect("a request");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("answered");
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        exporter.export(span());
        exporter.close();
        let head = answering.join().expect("the collector answers");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && head.contains(PROTOBUF), "{head}");
        // The end waits for two seconds, which a busy machine may need.
        let limit = std::time::Instant::now() + Duration::from_secs(120);
        while exporter.sent() == 0 && std::time::Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((exporter.sent(), exporter.left_out()), (1, 0));
    }
}
