//! Streaming of visit results.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use millrace_node::Error;
use millrace_node::metrics::CountedMetric;
use serde_json::{Value, json};

use super::pages::{PAGE_BYTES, VisitPageFormat, VisitPages};
use super::{PAGE, head, tail};
use crate::document_api::DocumentCall;
use crate::edge::{SelfCheckedAnswer, StreamCredential};
use crate::http::{self, AnswerShare};

/// Response that is sent while the visit runs.
pub(super) fn answer(call: &DocumentCall, pages: VisitPages, deadline: Instant) -> Response {
    let (sender, body) = Channel::<Bytes, std::convert::Infallible>::new(1);
    let content_type = match pages.form() {
        VisitPageFormat::Lines => "application/jsonl;charset=utf-8",
        VisitPageFormat::List => "application/json;charset=utf-8",
    };
    let (path, credential, timeout) = (call.path.clone(), call.credential.clone(), call.timeout);
    tokio::spawn(StreamedVisit { pages, deadline, timeout, path, credential, sender }.run());
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(SelfCheckedAnswer);
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

/// A visit whose response is being sent.
struct StreamedVisit {
    pages: VisitPages,
    deadline: Instant,
    /// Timeout of the request.
    timeout: Duration,
    path: String,
    credential: Option<StreamCredential>,
    sender: Sender<Bytes, std::convert::Infallible>,
}

impl StreamedVisit {
    /// Sends page after page, no faster than the client reads them. Ends when the client leaves.
    async fn run(mut self) {
        let mut continuation = self.pages.start();
        let mut count = 0;
        let lines = self.pages.form() == VisitPageFormat::Lines;
        let mut pending = if lines { Vec::new() } else { head(&self.path) };
        let failure = loop {
            // A client that does not read keeps others waiting here, and takes no more memory.
            let until = self.deadline.into();
            let Some(mut room) = self.pages.node().budget().page(PAGE_BYTES, until).await else {
                // Without a place to continue, the end would say that all documents were sent.
                break continuation.is_none().then_some(Error::Timeout(self.timeout));
            };
            // A page that was read for long is of a valid credential, too.
            let page = match self.pages.next(continuation.clone(), PAGE, Some(room.bytes())).await {
                Ok(page) => self.check_credential().map(|()| page),
                Err(error) => Err(error),
            };
            let page = match page {
                Ok(page) => page,
                Err(error) => break Some(error),
            };
            if !lines && count > 0 && page.documents > 0 {
                pending.push(b',');
            }
            count += page.documents;
            pending.extend_from_slice(&page.bytes);
            if lines && let Some(token) = self.pages.continuation(page.next.clone()) {
                line(&mut pending, &json!({ "continuation": { "token": token } }));
            }
            room.settle(pending.len());
            if !self.send(&mut pending, Some(room)).await {
                return;
            }
            continuation = page.next;
            if continuation.is_none() || Instant::now() >= self.deadline {
                break None;
            }
        };
        self.pages.node().metrics().add(CountedMetric::DocumentsVisited, count as u64);
        self.end(pending, count, continuation, failure).await;
    }

    fn check_credential(&self) -> Result<(), Error> {
        Ok(self.credential.as_ref().map_or(Ok(()), StreamCredential::check)?)
    }

    /// Sends the part after the documents.
    async fn end(
        mut self,
        mut pending: Vec<u8>,
        count: usize,
        continuation: Option<String>,
        failure: Option<Error>,
    ) {
        let continuation = self.pages.continuation(continuation);
        match (self.pages.form() == VisitPageFormat::Lines, failure) {
            (true, failure) => {
                if let Some(error) = &failure {
                    let message = json!({ "message": { "text": error.message(), "severity": "error" } });
                    line(&mut pending, &message);
                }
                line(&mut pending, &json!({ "sessionStats": { "documentCount": count } }));
                match continuation {
                    Some(token) => line(&mut pending, &json!({ "continuation": { "token": token } })),
                    None if failure.is_none() => {
                        line(&mut pending, &json!({ "continuation": { "percentFinished": 100.0 } }));
                    }
                    None => {}
                }
            }
            (false, failure) => {
                let message = failure.map(|error| error.message());
                tail(&mut pending, count, continuation.as_deref(), message.as_deref());
            }
        }
        self.send(&mut pending, None).await;
    }

    /// Sends `bytes`, with their share of the memory of answers, and empties them. Returns false if the
    /// client has left.
    async fn send(&mut self, bytes: &mut Vec<u8>, room: Option<AnswerShare>) -> bool {
        let bytes = std::mem::take(bytes);
        if bytes.is_empty() {
            return true;
        }
        let bytes = match room {
            Some(room) => http::counted_page(bytes, room),
            None => Bytes::from(bytes),
        };
        self.sender.send_data(bytes).await.is_ok()
    }
}

fn line(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}
