//! Bodies of answers: watched while they are sent, and counted while they are in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use hyper::Version;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::header::RETRY_AFTER;
use millrace_node::Error;
use serde_json::json;

use super::budget::{AnswerShare, RequestBudget};
use super::json;
use crate::status::HttpError;

/// Size of an answer, in bytes, from which on it is counted: a smaller one is not worth it.
pub(super) const COUNTED_BYTES_MIN: u64 = 16 << 10;

/// The same over HTTP/2, where a client may leave many unread on a connection. What is smaller than
/// [`COUNTED_BYTES_MIN`] is counted and never refused.
const MULTIPLEXED_BYTES_MIN: u64 = 4 << 10;

/// Size of an answer in bytes from which on it is counted.
pub(super) fn counted_bytes_min(version: Version) -> u64 {
    if version == Version::HTTP_2 { MULTIPLEXED_BYTES_MIN } else { COUNTED_BYTES_MIN }
}

/// Bytes of a counted answer that are handed to the connection at a time. They are counted until they are
/// sent: a client may have many answers on a connection of HTTP/2, and read none.
const PIECE_BYTES: usize = 64 << 10;

/// Returns a body whose frames are shown to `see` as they are sent; `see` is dropped with the body.
pub(crate) fn observed(body: Body, mut see: impl FnMut(&Frame<Bytes>) + Send + Unpin + 'static) -> Body {
    checked(body, move |frame| {
        see(frame);
        Ok(())
    })
}

/// Returns a body whose frames are shown to `check` before they are sent. It breaks off with the first error,
/// in place of that frame.
pub(crate) fn checked(
    body: Body,
    check: impl FnMut(&Frame<Bytes>) -> Result<(), axum::Error> + Send + Unpin + 'static,
) -> Body {
    Body::new(CheckedBody { body, check })
}

struct CheckedBody<C> {
    body: Body,
    check: C,
}

impl<C: FnMut(&Frame<Bytes>) -> Result<(), axum::Error> + Unpin> HttpBody for CheckedBody<C> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Err(error) = (self.check)(frame)
        {
            return Poll::Ready(Some(Err(error)));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A page of a streamed answer, with its share of the memory of answers until it is sent.
pub(crate) fn counted_page(bytes: Vec<u8>, share: AnswerShare) -> Bytes {
    Bytes::from_owner(CountedPage { bytes, _share: share })
}

struct CountedPage {
    bytes: Vec<u8>,
    _share: AnswerShare,
}

impl AsRef<[u8]> for CountedPage {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Mark of a response, as an extension, that is not counted: figures are wanted most when no memory is left
/// for answers, and another node reads what it has asked for. Its size must have a bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UncountedAnswer;

/// Returns the response with its share of the memory of answers, if it has `bytes_min` bytes and is in
/// memory; 429 if there is no room for a large one. A client that does not read its answer holds this share
/// until the answer ends early ([`super::unread`]).
pub(crate) async fn counted(budget: &Arc<RequestBudget>, response: Response, bytes_min: u64) -> Response {
    if response.extensions().get::<UncountedAnswer>().is_some() {
        return response;
    }
    let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes >= bytes_min) else {
        return response;
    };
    let is_small = bytes < COUNTED_BYTES_MIN;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let share = if is_small { Ok(budget.count_answer(bytes)) } else { budget.answer(bytes).await };
    match share {
        Ok(share) => response.map(|body| Body::new(CountedAnswer { body, left: Bytes::new(), share })),
        Err(error) => {
            // Its memory is free before the refusal is sent.
            drop(response);
            refusal(&error)
        }
    }
}

/// Returns the refusal of a request that no endpoint has seen, or whose answer is not sent.
pub(super) fn refusal(error: &Error) -> Response {
    let mut refusal = json(error.status(), &json!({ "message": error.to_string() }));
    refusal.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
    refusal
}

/// A body in memory that is sent in pieces.
struct CountedAnswer {
    body: Body,
    /// Rest of the current frame.
    left: Bytes,
    share: AnswerShare,
}

impl HttpBody for CountedAnswer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.left.is_empty() {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            };
            match frame.into_data() {
                Ok(data) => self.left = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let piece = self.left.len().min(PIECE_BYTES);
        // A copy: a part of the whole would keep all of it in memory for as long as the connection has it.
        let piece = self.left.split_to(piece).to_vec();
        let share = self.share.count_more(piece.len());
        Poll::Ready(Some(Ok(Frame::data(counted_page(piece, share)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.left.len() as u64;
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + left),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::super::budget::BudgetBounds;
    use super::*;

    #[tokio::test]
    async fn a_large_answer_is_sent_in_pieces_and_counted_to_its_end() {
        let wait_max = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 0, work: 0, answers: 200_000, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let bytes: Vec<u8> = (0..150_000_u32).map(|number| number as u8).collect();
        let mut answer = counted(&budget, Response::new(Body::from(bytes.clone())), COUNTED_BYTES_MIN).await;
        assert_eq!(answer.body().size_hint().exact(), Some(150_000));
        assert_eq!(budget.of_answers().reserved, 150_000);
        let other = counted(&budget, Response::new(Body::from(bytes.clone())), COUNTED_BYTES_MIN).await;
        assert_eq!(other.status(), hyper::StatusCode::TOO_MANY_REQUESTS);
        assert!(other.headers().contains_key(RETRY_AFTER));
        let mut figures = Response::new(Body::from(bytes.clone()));
        figures.extensions_mut().insert(UncountedAnswer);
        assert_eq!(
            counted(&budget, figures, COUNTED_BYTES_MIN).await.status(),
            hyper::StatusCode::OK,
            "figures are not counted"
        );
        let small = counted(&budget, Response::new(Body::from(vec![1; 1000])), COUNTED_BYTES_MIN).await;
        assert_eq!(small.status(), hyper::StatusCode::OK, "a small one is not counted");
        let mut read = Vec::new();
        while let Some(frame) = answer.body_mut().frame().await {
            let data = frame.expect("it is in memory").into_data().expect("it has only data");
            assert!(data.len() <= PIECE_BYTES);
            read.extend_from_slice(&data);
            assert_eq!(answer.body().size_hint().exact(), Some((bytes.len() - read.len()) as u64));
        }
        assert!(answer.body().is_end_stream() && read == bytes);
        drop(answer);
        assert_eq!(budget.of_answers().reserved, 0);
    }

    #[tokio::test]
    async fn what_a_connection_has_not_sent_is_counted() {
        let wait_max = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 0, work: 0, answers: 200_000, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let mut answer =
            counted(&budget, Response::new(Body::from(vec![7; 100_000])), COUNTED_BYTES_MIN).await;
        let mut unsent = Vec::new();
        while let Some(frame) = answer.body_mut().frame().await {
            unsent.push(frame.expect("it is in memory").into_data().expect("it has only data"));
        }
        drop(answer);
        assert_eq!(budget.of_answers().reserved, 100_000);
        drop(unsent);
        assert_eq!(budget.of_answers().reserved, 0);
    }

    #[tokio::test]
    async fn small_answers_over_http_2_are_counted_and_not_refused() {
        let wait_max = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 0, work: 0, answers: 10_000, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let answer = |version, bytes: usize| {
            counted(&budget, Response::new(Body::from(vec![1; bytes])), counted_bytes_min(version))
        };
        let uncounted = [answer(Version::HTTP_11, 9000).await, answer(Version::HTTP_2, 1000).await];
        assert_eq!(budget.of_answers().reserved, 0);
        let small = [answer(Version::HTTP_2, 9000).await, answer(Version::HTTP_2, 9000).await];
        assert_eq!(budget.of_answers().reserved, 18_000);
        assert!(small.iter().all(|answer| answer.status() == hyper::StatusCode::OK));
        assert_eq!(answer(Version::HTTP_2, 20_000).await.status(), hyper::StatusCode::TOO_MANY_REQUESTS);
        drop((uncounted, small));
        assert_eq!(budget.of_answers().reserved, 0);
    }
}
