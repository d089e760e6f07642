//! Answers that their clients do not read: each holds memory, and what makes a stream waits for it. They end
//! after a time, alone, since other requests of their connection may go on.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connections::{ConnectionActivity, InFlightRequest};

/// Error of an answer that ended since its client did not read it. The client sees a broken answer, if it
/// ever reads.
#[derive(Debug, thiserror::Error)]
#[error("the client did not read its answer for too long")]
struct UnreadAnswerError;

/// Answers of a connection that are being sent.
#[derive(Default)]
pub(crate) struct SentAnswers(Mutex<Vec<Weak<WatchedAnswer>>>);

impl SentAnswers {
    /// Returns the body as one that ends early if its client does not read it, and that counts as a request
    /// in flight while the client waits for the server.
    pub(crate) fn send(&self, body: Body, activity: Arc<ConnectionActivity>) -> Body {
        let part = SentPart { body: Some(body), unread_since: Some(Instant::now()) };
        let answer = Arc::new(WatchedAnswer(Mutex::new(part)));
        let mut answers = self.0.lock();
        answers.retain(|answer| answer.strong_count() > 0);
        answers.push(Arc::downgrade(&answer));
        drop(answers);
        Body::new(SentBody { answer, activity, waiting: None })
    }

    /// Ends the answers of which the client took nothing for `timeout`. Returns their number.
    pub(crate) fn end_unread(&self, timeout: Duration) -> usize {
        let answers: Vec<Arc<WatchedAnswer>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        // A dropped body may wake the task that makes the stream: no lock is held then.
        let ended = answers.iter().filter_map(|answer| answer.0.lock().take_unread(timeout));
        ended.count()
    }

    /// True if the connection still has an answer that has ended early: HTTP/2 keeps what it was given of it
    /// until the client reads, and asks for no more.
    pub(crate) fn keep_ended(&self) -> bool {
        let answers: Vec<Arc<WatchedAnswer>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        answers.iter().any(|answer| answer.0.lock().body.is_none())
    }
}

/// An answer that is being sent.
struct WatchedAnswer(Mutex<SentPart>);

struct SentPart {
    /// `None` once it has ended early.
    body: Option<Body>,
    /// Time since which the client has taken nothing; `None` while it waits for the server.
    unread_since: Option<Instant>,
}

impl SentPart {
    fn take_unread(&mut self, timeout: Duration) -> Option<Body> {
        let is_unread = self.unread_since.is_some_and(|since| since.elapsed() >= timeout);
        if is_unread { self.body.take() } else { None }
    }
}

/// Body of a [`WatchedAnswer`].
struct SentBody {
    answer: Arc<WatchedAnswer>,
    activity: Arc<ConnectionActivity>,
    /// Present while the client waits for the server.
    waiting: Option<InFlightRequest>,
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut part = self.answer.0.lock();
        let Some(body) = &mut part.body else {
            return Poll::Ready(Some(Err(axum::Error::new(UnreadAnswerError))));
        };
        let frame = Pin::new(body).poll_frame(context);
        part.unread_since = frame.is_ready().then(Instant::now);
        drop(part);
        if frame.is_ready() {
            self.waiting = None;
        } else if self.waiting.is_none() {
            self.waiting = Some(self.activity.begin());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.answer.0.lock().body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.0.lock().body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use http_body_util::channel::Channel;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_not_read_ends_and_its_maker_learns_of_it() {
        let activity = Arc::new(ConnectionActivity::default());
        let answers = SentAnswers::default();
        let (mut maker, stream) = Channel::<Bytes, std::convert::Infallible>::new(1);
        let mut body = answers.send(Body::new(stream), Arc::clone(&activity));
        maker.send_data(Bytes::from("first")).await.expect("the body is there");
        let first = body.frame().await.expect("a frame").expect("it is sent").into_data();
        assert_eq!(first.ok(), Some(Bytes::from("first")));
        assert_eq!(answers.end_unread(Duration::from_secs(3600)), 0, "it was read lately");
        // The client waits for the next piece, and not the server for the client.
        let next = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
        assert!(next.is_err(), "nothing more was sent");
        assert_eq!(answers.end_unread(Duration::ZERO), 0, "it waits for the server");
        maker.send_data(Bytes::from("second")).await.expect("the body is there");
        assert!(body.frame().await.expect("a frame").is_ok());
        maker.send_data(Bytes::from("third")).await.expect("the body is there");
        assert!(!answers.keep_ended());
        assert_eq!(answers.end_unread(Duration::ZERO), 1);
        assert!(answers.keep_ended(), "the connection has not noticed");
        assert!(maker.send_data(Bytes::from("fourth")).await.is_err(), "its maker ends");
        assert!(body.frame().await.expect("an end").is_err(), "the client sees that it is not whole");
        drop(body);
        assert!(!answers.keep_ended());
        assert_eq!(answers.end_unread(Duration::ZERO), 0);
    }
}
