//! Client of an external language model, by OpenAI's chat protocol.
//!
//! 1. A prompt starts a request at once, unless [`ANSWERS_MAX`] are in flight.
//! 2. A request with a transient failure before the begin of its answer is retried after a pause, within the
//!    caller's timeout. If the service sets the length of the pause, it applies to all callers.
//! 3. Pieces of the answer go to the caller as they arrive. A caller that takes none holds the service back;
//!    a caller that leaves ends the request.
//! 4. Whole answers, for document fields, wait their turn instead: [`TURNS_MAX`] are in flight besides those
//!    of queries.

mod events;
mod protocol;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use millrace_env::ModelCaller;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use self::events::EventStream;
pub use self::protocol::InferenceOptions;
use crate::http::{silent, whole};
use crate::protocol::message;
use crate::queue::LOOK_EVERY;
use crate::retry::{RequestFailure, RetryDecision, ServicePause, choose};
use crate::usage::ServiceCounters;
use crate::{Error, OutboundHttp, ServiceUsage};

/// Maximum number of concurrent answers.
const ANSWERS_MAX: usize = 64;
/// Maximum number of concurrent whole answers; further ones wait.
const TURNS_MAX: usize = 16;
/// Maximum number of buffered pieces of one answer.
const PIECES_MAX: usize = 32;
/// Maximum pause within an answer, after which it counts as broken off.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum duration of an answer, regardless of the caller's timeout.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);
/// Maximum size of an answer, in bytes of its protocol.
const ANSWER_MAX: usize = 32 << 20;

/// Client of an external language model.
pub struct ChatModel(Arc<ChatShared>);

struct ChatShared {
    endpoint: String,
    http: OutboundHttp,
    answers: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    pause: ServicePause,
    counters: ServiceCounters,
}

/// A prompt with the options of its answer.
#[derive(Clone)]
pub struct ChatPrompt {
    /// Text of the prompt.
    pub text: String,
    /// Options for the generation of the answer.
    pub inference: InferenceOptions,
    /// True if the answer is streamed in pieces; otherwise it is one piece.
    pub streams: bool,
    /// Credential for the service.
    pub secret: Option<String>,
    /// Maximum time until the answer begins.
    pub timeout: Duration,
}

/// An answer that comes in pieces.
pub struct AnswerPieces(Receiver<Result<String, Error>>);

impl AnswerPieces {
    /// Returns the next piece; `None` after the last one, and after an error.
    pub async fn next(&mut self) -> Option<Result<String, Error>> {
        self.0.recv().await
    }
}

impl ChatModel {
    /// Creates a client of the model at `endpoint`; no request is sent yet. The protocol's path is appended
    /// to an address that does not end with it.
    pub fn new(endpoint: &str, http: OutboundHttp) -> Self {
        ChatModel(Arc::new(ChatShared {
            endpoint: protocol::address(endpoint),
            http,
            answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
            turns: Arc::new(Semaphore::new(TURNS_MAX)),
            pause: ServicePause::default(),
            counters: ServiceCounters::default(),
        }))
    }

    /// Starts a request.
    ///
    /// # Errors
    /// [`Error::Overloaded`]. All other errors are delivered as the answer's last piece.
    pub fn ask(&self, prompt: ChatPrompt) -> Result<AnswerPieces, Error> {
        let permit = Arc::clone(&self.0.answers)
            .try_acquire_owned()
            .map_err(|_| Error::Overloaded { service: self.0.endpoint.clone(), waiting: ANSWERS_MAX })?;
        Ok(self.0.start(prompt, permit))
    }

    /// Returns whole answers to texts, in their order, each in its turn. Blocks until the caller's deadline,
    /// or until the caller has left; only for threads that may block.
    ///
    /// # Errors
    /// The error of the first text without an answer; the others are not waited for.
    pub fn answers(
        &self,
        texts: Vec<String>,
        inference: &InferenceOptions,
        secret: Option<&str>,
        caller: &ModelCaller,
    ) -> Result<Vec<String>, Error> {
        let left = caller.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.unwrap_or(ANSWER_TIME_MAX).min(ANSWER_TIME_MAX);
        let prompt = |text| ChatPrompt {
            text,
            inference: inference.clone(),
            streams: false,
            secret: secret.map(str::to_owned),
            timeout,
        };
        let prompts: Vec<ChatPrompt> = texts.into_iter().map(prompt).collect();
        let (shared, gone) = (Arc::clone(&self.0), Arc::clone(&caller.gone));
        let asked = async move {
            tokio::select! {
                answers = shared.whole_answers(prompts) => answers,
                () = until_left(&gone) => Err(shared.deadline()),
            }
        };
        self.0.http.wait(asked).unwrap_or_else(|| Err(self.0.deadline()))
    }

    /// Counters of the requests.
    pub fn usage(&self) -> ServiceUsage {
        self.0.counters.usage()
    }
}

impl ChatShared {
    /// Starts a request in the background.
    fn start(self: &Arc<Self>, prompt: ChatPrompt, permit: OwnedSemaphorePermit) -> AnswerPieces {
        let (sender, receiver) = channel(PIECES_MAX);
        self.counters.texts(1);
        self.http.spawn(Arc::clone(self).answer(prompt, sender, permit));
        AnswerPieces(receiver)
    }

    async fn whole_answers(self: &Arc<Self>, prompts: Vec<ChatPrompt>) -> Result<Vec<String>, Error> {
        let mut answers = vec![String::new(); prompts.len()];
        // Remaining tasks are aborted when this returns early.
        let mut tasks = JoinSet::new();
        for (place, prompt) in prompts.into_iter().enumerate() {
            let shared = Arc::clone(self);
            tasks.spawn(async move {
                let answer = tokio::time::timeout(prompt.timeout, shared.in_turn(prompt)).await;
                (place, answer.unwrap_or_else(|_| Err(shared.deadline())))
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (place, answer) = done.map_err(|error| self.broken(error.to_string()))?;
            answers[place] = answer?;
        }
        Ok(answers)
    }

    /// Requests one whole answer.
    async fn in_turn(self: &Arc<Self>, prompt: ChatPrompt) -> Result<String, Error> {
        // The semaphore exists as long as the model.
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| self.deadline())?;
        let mut pieces = self.start(prompt, turn);
        let mut answer = String::new();
        while let Some(piece) = pieces.next().await {
            answer.push_str(&piece?);
        }
        Ok(answer)
    }

    async fn answer(
        self: Arc<Self>,
        prompt: ChatPrompt,
        sender: Sender<Result<String, Error>>,
        permit: OwnedSemaphorePermit,
    ) {
        let conversation = tokio::time::timeout(ANSWER_TIME_MAX, self.converse(&prompt, &sender));
        let outcome = tokio::select! {
            outcome = conversation => outcome.unwrap_or_else(|_| Err(self.deadline())),
            () = sender.closed() => return,
        };
        if let Err(error) = outcome {
            self.counters.failed();
            // A caller that receives the error can ask again.
            drop(permit);
            // A caller that does not take it has left.
            let _ = sender.send(Err(error)).await;
        }
    }

    async fn converse(
        &self,
        prompt: &ChatPrompt,
        sender: &Sender<Result<String, Error>>,
    ) -> Result<(), Error> {
        let response = self.begin(prompt).await?;
        if protocol::is_stream(&response) {
            self.pass(response, sender).await
        } else {
            self.one(response, sender).await
        }
    }

    /// Returns the answer as soon as it begins; retries transient failures.
    async fn begin(&self, prompt: &ChatPrompt) -> Result<Response<Incoming>, Error> {
        self.counters.request();
        let body = protocol::request(&self.endpoint, &prompt.text, &prompt.inference, prompt.streams);
        let until = Instant::now() + prompt.timeout;
        let mut tries = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let waited = tokio::time::timeout(left, self.pause.kept()).await;
            let left = until.saturating_duration_since(Instant::now());
            if waited.is_err() || left.is_zero() {
                return Err(self.deadline());
            }
            tries += 1;
            let post = self.http.post(&self.endpoint, prompt.secret.as_deref(), body.clone());
            let (failure, reason) = match tokio::time::timeout(left, post).await {
                Err(_) => return Err(self.deadline()),
                Ok(Ok(response)) if response.status().is_success() => return Ok(response),
                Ok(Ok(response)) => refused(response, left).await,
                Ok(Err(error)) => (error.failure, error.reason),
            };
            let (service, status) = (self.endpoint.clone(), failure.status());
            match choose(failure, tries) {
                RetryDecision::Again(pause) if Instant::now() + pause < until => {
                    self.counters.retry();
                    self.pause.begin(failure, pause).await;
                }
                RetryDecision::Again(_) | RetryDecision::Later => {
                    return Err(Error::Retry { service, status, reason });
                }
                RetryDecision::Fix => return Err(Error::Fix { service, status, reason }),
                RetryDecision::GiveUp => return Err(Error::GiveUp { service, status, reason }),
            }
        }
    }

    /// Passes an answer on as it arrives.
    async fn pass(
        &self,
        response: Response<Incoming>,
        sender: &Sender<Result<String, Error>>,
    ) -> Result<(), Error> {
        let mut body = response.into_body();
        let mut events = EventStream::default();
        let (mut length, mut finished) = (0, false);
        loop {
            let frame = tokio::time::timeout(SILENCE, body.frame()).await;
            let frame = match frame {
                _ if finished && !matches!(frame, Ok(Some(Ok(_)))) => return Ok(()),
                Ok(Some(frame)) => frame.map_err(|error| self.broken(error.to_string()))?,
                Ok(None) => return Err(self.broken("nothing more comes".to_owned())),
                Err(_) => return Err(self.broken(silent(SILENCE))),
            };
            let Some(bytes) = frame.data_ref() else { continue };
            length += bytes.len();
            if length > ANSWER_MAX {
                return Err(self.broken(format!("it is larger than {ANSWER_MAX} bytes")));
            }
            events.push(bytes);
            while let Some(event) = events.next() {
                match protocol::piece(&event) {
                    Ok(protocol::ChatPiece::End) => return Ok(()),
                    // Data after the last piece is not part of the answer.
                    _ if finished => {}
                    Ok(protocol::ChatPiece::Text(text, is_last)) => {
                        finished = is_last;
                        // A caller that does not take it has left, which ends this.
                        if !text.is_empty() && sender.send(Ok(text)).await.is_err() {
                            return Ok(());
                        }
                    }
                    Err(fault) => return Err(self.broken(fault.to_string())),
                }
            }
        }
    }

    /// Passes a whole answer on as one piece.
    async fn one(
        &self,
        response: Response<Incoming>,
        sender: &Sender<Result<String, Error>>,
    ) -> Result<(), Error> {
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, whole(response, ANSWER_MAX)).await;
        let answer = answer.map_err(|_| self.deadline())?.map_err(|fault| self.broken(fault.to_string()))?;
        let text = protocol::text(&answer.body).map_err(|fault| Error::GiveUp {
            service: self.endpoint.clone(),
            status: Some(answer.status),
            reason: fault.to_string(),
        })?;
        // A caller that does not take it has left.
        let _ = sender.send(Ok(text)).await;
        Ok(())
    }

    fn deadline(&self) -> Error {
        Error::Deadline { service: self.endpoint.clone() }
    }

    /// Error of an answer that has begun. It cannot be requested again: the caller has its beginning.
    fn broken(&self, reason: String) -> Error {
        let reason = format!("its answer broke off: {reason}");
        Error::Retry { service: self.endpoint.clone(), status: None, reason }
    }
}

/// Waits until a caller has left.
async fn until_left(gone: &AtomicBool) {
    while !gone.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reason for which a service refuses a request.
async fn refused(response: Response<Incoming>, time_limit: Duration) -> (RequestFailure, String) {
    const REFUSAL_MAX: usize = 64 << 10;
    let status = response.status().as_u16();
    match tokio::time::timeout(time_limit, whole(response, REFUSAL_MAX)).await {
        Ok(Ok(answer)) => (
            RequestFailure::Status(status, answer.retry_after),
            format!("{status}: {}", message(&answer.body)),
        ),
        _ => (RequestFailure::Status(status, None), status.to_string()),
    }
}
