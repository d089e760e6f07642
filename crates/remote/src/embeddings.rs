//! Client of an external embedding model.
//!
//! 1. A call puts its texts into the queue. While fewer than [`REQUESTS_MAX`] requests are in flight, a new
//!    one starts with the waiting texts; no text waits for others.
//! 2. A request with a transient failure is retried after a pause, as long as a caller waits. If the service
//!    sets the length of the pause, it applies to all requests.
//! 3. A request of several texts that is refused for its content is split, so that only the text at fault is
//!    refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_env::{ModelCaller, SequencePurpose};
use parking_lot::{Mutex, MutexGuard};

use crate::queue::{TextCall, TextEntry, TextQueue};
use crate::retry::{RequestFailure, RetryDecision, ServicePause, choose};
use crate::usage::ServiceCounters;
use crate::{Error, OutboundHttp, ServiceDialect, ServiceUsage, VectorCells, protocol};

/// Maximum number of concurrent requests.
const REQUESTS_MAX: usize = 4;
/// Maximum duration of a single attempt.
const TRY_MAX: Duration = Duration::from_secs(30);
/// Maximum number of waiting texts.
const WAITING_MAX: usize = 4096;
/// Maximum size of an answer in bytes.
const ANSWER_MAX: usize = 256 << 20;

/// Settings of an external embedding model.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbeddingOptions {
    /// Protocol of the service.
    pub dialect: ServiceDialect,
    /// Address of the service.
    pub endpoint: String,
    /// Name of the model at the service.
    pub model: String,
    /// Dimensions of its vectors.
    pub dimensions: usize,
    /// Maximum number of texts in a request.
    pub batch_max: usize,
    /// Credential for the service.
    pub secret: Option<String>,
}

/// Client of an external embedding model.
pub struct RemoteEmbeddings(Arc<EmbeddingShared>);

struct EmbeddingShared {
    options: EmbeddingOptions,
    http: OutboundHttp,
    state: Mutex<EmbeddingState>,
    pause: ServicePause,
    counters: ServiceCounters,
}

#[derive(Default)]
struct EmbeddingState {
    queue: TextQueue,
    /// Number of requests in flight.
    running: usize,
}

impl RemoteEmbeddings {
    /// Creates a client; no request is sent yet.
    pub fn new(options: EmbeddingOptions, http: OutboundHttp) -> Self {
        let options = EmbeddingOptions { batch_max: options.batch_max.max(1), ..options };
        RemoteEmbeddings(Arc::new(EmbeddingShared {
            options,
            http,
            state: Mutex::default(),
            pause: ServicePause::default(),
            counters: ServiceCounters::default(),
        }))
    }

    /// Dimensions of its vectors.
    pub fn dimensions(&self) -> usize {
        self.0.options.dimensions
    }

    /// Returns the vectors of texts, in their order. Blocks; only for threads that may block.
    ///
    /// # Errors
    /// The error of the first text without a vector.
    pub fn embed(
        &self,
        texts: Vec<String>,
        cells: VectorCells,
        caller: &ModelCaller,
    ) -> Result<Vec<Vec<f32>>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let service = &self.0.options.endpoint;
        let (call, entries) = TextCall::new(texts, cells, caller);
        {
            let mut state = self.0.lock();
            let waiting = state.queue.len();
            if waiting > 0 && waiting + entries.len() > WAITING_MAX {
                return Err(Error::Overloaded { service: service.clone(), waiting });
            }
            state.queue.push(caller.purpose, entries);
        }
        self.0.start();
        call.wait(service)
    }

    /// Counters of the requests.
    pub fn usage(&self) -> ServiceUsage {
        self.0.counters.usage()
    }
}

fn texts(entries: &[TextEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

impl Drop for RemoteEmbeddings {
    fn drop(&mut self) {
        let left = self.0.lock().queue.drain();
        for entry in left {
            entry.finish(Err(Error::Deadline { service: self.0.options.endpoint.clone() }));
        }
    }
}

impl EmbeddingShared {
    fn lock(&self) -> MutexGuard<'_, EmbeddingState> {
        // No code that can panic runs while it is held.
        self.state.lock()
    }

    /// Starts requests for waiting texts, within the limit of concurrent requests.
    fn start(self: &Arc<Self>) {
        loop {
            let batch = {
                let mut state = self.lock();
                if state.running >= REQUESTS_MAX {
                    return;
                }
                let batch = state.queue.take(self.options.batch_max, self.in_context());
                if batch.is_empty() {
                    return;
                }
                state.running += 1;
                batch
            };
            let shared = Arc::clone(self);
            self.http.spawn(async move {
                shared.serve(batch).await;
                shared.lock().running -= 1;
                shared.start();
            });
        }
    }

    /// Requests a batch, and its parts separately if its texts are refused together.
    async fn serve(&self, batch: Vec<TextEntry>) {
        self.counters.texts(batch.len());
        match self.ask(&batch).await {
            Ok(vectors) => {
                for (entry, vector) in batch.into_iter().zip(vectors) {
                    entry.finish(Ok(vector));
                }
            }
            Err(error @ Error::Fix { .. }) => {
                let mut parts = self.split_batch(batch);
                if parts.len() == 1 {
                    return self.fail(parts.swap_remove(0), &error);
                }
                for part in parts {
                    match self.ask(&part).await {
                        Ok(vectors) => {
                            part.into_iter()
                                .zip(vectors)
                                .for_each(|(entry, vector)| entry.finish(Ok(vector)));
                        }
                        Err(error) => self.fail(part, &error),
                    }
                }
            }
            Err(error) => self.fail(batch, &error),
        }
    }

    /// True if the texts of a call are embedded together.
    fn in_context(&self) -> bool {
        self.options.dialect == ServiceDialect::VoyageInContext
    }

    /// Splits a batch into parts that can be requested separately: single texts, or calls if their texts are
    /// embedded together.
    fn split_batch(&self, batch: Vec<TextEntry>) -> Vec<Vec<TextEntry>> {
        let mut parts: Vec<Vec<TextEntry>> = Vec::new();
        for entry in batch {
            match parts.last_mut() {
                Some(part) if self.in_context() && part[0].is_of_call(&entry) => part.push(entry),
                _ => parts.push(vec![entry]),
            }
        }
        parts
    }

    fn fail(&self, entries: Vec<TextEntry>, error: &Error) {
        for entry in entries {
            self.counters.failed();
            entry.finish(Err(error.clone()));
        }
    }

    /// Requests the vectors of some texts: one for each.
    async fn ask(&self, batch: &[TextEntry]) -> Result<Vec<Vec<f32>>, Error> {
        self.counters.request();
        let options = &self.options;
        let service = || options.endpoint.clone();
        let question = protocol::EmbeddingQuestion {
            dialect: options.dialect,
            model: &options.model,
            dimensions: options.dimensions,
            // A batch has at least one text, and all of them have the same cells and purpose.
            cells: batch.first().map_or(VectorCells::Float, TextEntry::cells),
            purpose: batch.first().map_or(SequencePurpose::Query, TextEntry::purpose),
            calls: batch.chunk_by(TextEntry::is_of_call).map(texts).collect(),
        };
        let body = question.body();
        let mut tries = 0;
        loop {
            self.pause.kept().await;
            // The latest deadline decides: the request is useful until then.
            let deadlines: Option<Vec<Instant>> = batch.iter().map(TextEntry::deadline).collect();
            let last = deadlines.and_then(|deadlines| deadlines.into_iter().max());
            let left = last.map_or(TRY_MAX, |last| last.saturating_duration_since(Instant::now()));
            if left.is_zero() || batch.iter().all(TextEntry::abandoned) {
                return Err(Error::Deadline { service: service() });
            }
            tries += 1;
            let answer = self.http.post_json(
                &options.endpoint,
                options.secret.as_deref(),
                body.clone(),
                left.min(TRY_MAX),
                ANSWER_MAX,
            );
            let (failure, reason) = match answer.await {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    return question.answer(&answer.body).map_err(|fault| Error::GiveUp {
                        service: service(),
                        status: Some(answer.status),
                        reason: fault.to_string(),
                    });
                }
                Ok(answer) => {
                    let reason = format!("{}: {}", answer.status, protocol::message(&answer.body));
                    (RequestFailure::Status(answer.status, answer.retry_after), reason)
                }
                Err(error) => (error.failure, error.reason),
            };
            let status = failure.status();
            match choose(failure, tries) {
                RetryDecision::Again(pause) => {
                    self.counters.retry();
                    self.pause.begin(failure, pause).await;
                }
                RetryDecision::Later => return Err(Error::Retry { service: service(), status, reason }),
                RetryDecision::Fix => return Err(Error::Fix { service: service(), status, reason }),
                RetryDecision::GiveUp => return Err(Error::GiveUp { service: service(), status, reason }),
            }
        }
    }
}
