//! `_bulk/stream`: operations that are written while the body of their request still comes, batch by batch,
//! each answered by a line of its own.
//!
//! A batch is a request for `_bulk`, which the node that owns the service's documents answers. The next part
//! of the body is read when the answer to a batch was taken, so that a slow store, and a client that does not
//! read, stop the stream. Meanwhile it has a slot among the streams of its client, and room for what it has
//! read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::Method;
use hyper::body::{Body as _, Bytes};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use millrace_elastic::{BulkBatching, BulkSplitter, ElasticRequest, ElasticService};
use millrace_node::Error;
use millrace_node::cluster::ForwardKind;
use tokio::time::Instant;

use super::{ElasticApi, PRODUCT, check_right, http_response, route};
use crate::document_api::feed::{StreamSlot, StreamUse, writer_of};
use crate::edge::{SelfCheckedAnswer, StreamCredential, caller_of};
use crate::http::{BodyBounds, BodyReader, BudgetReservation, counted_page};

/// Memory that a stream may take, in bytes: a batch, and what arrived after it.
const STREAM_BYTES: usize = 3 << 20;

/// Memory of a stream in bytes that is reserved before its body is read, and while it is idle: what arrives
/// together, and a short batch. More is reserved as it is read, and given back with each batch.
const IDLE_BYTES: usize = 256 << 10;

/// Time for which a stream waits for more room. Streams take at most half of all room for bodies, so it comes
/// free as other requests end.
const ROOM_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers a stream of operations.
///
/// # Errors
/// The parameters are out of their ranges, the body is packed, there is no room for a stream, or its client
/// has as many as it gets.
pub(super) async fn answer(
    api: &Arc<ElasticApi>,
    shown: &ElasticRequest,
    request: Request,
) -> Result<Response, Error> {
    if let Err(error) = ElasticService::check_media_types(shown, !request.body().is_end_stream()) {
        return Ok(http_response(ElasticService::refuse_as(shown, error)));
    }
    let caller = caller_of(&request)?;
    check_right(&caller, shown)?;
    let batching = match BulkBatching::of(shown) {
        Ok(batching) => batching,
        Err(error) => return Ok(http_response(ElasticService::refuse_as(shown, error))),
    };
    let credential = StreamCredential::from_request(&api.node, &request);
    let writer = writer_of(&caller, request.extensions().get());
    let (mut parts, body) = request.into_parts();
    if parts
        .headers
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let reason = "a stream of operations is sent as it is; leave out Content-Encoding, or use _bulk";
        return Err(Error::BadRequest(reason.to_owned()));
    }
    for name in [ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING, EXPECT] {
        parts.headers.remove(name);
    }
    let bodies_bytes_max = api.node.settings().limits.bodies_bytes_max;
    let wanted = StreamUse::of_bulks(STREAM_BYTES);
    let slot = StreamSlot::take(&ForwardKind::Client, writer, wanted, bodies_bytes_max)?;
    let mut room = api.node.budget().share();
    room.grow(IDLE_BYTES).await?;
    let bounds = BodyBounds { bytes: usize::MAX, ..api.node.body_bounds() };
    let mut reader = BodyReader::new(&api.node, body, bounds);
    // A client that waits for '100 Continue' gets it before the head of the answer.
    let first = reader.next().await?;
    let (lines, answer) = Channel::<Bytes, Infallible>::new(1);
    let splitter = BulkSplitter::new(batching, api.node.settings().request_bytes_max.min(STREAM_BYTES / 2));
    let path = shown.path.trim_end_matches('/');
    let path = path.strip_suffix("/stream").unwrap_or(path).to_owned();
    let shown =
        ElasticRequest { method: Method::POST.to_string(), path, query: query_of(shown), ..shown.clone() };
    let stream = OperationStream {
        api: Arc::clone(api),
        shown,
        parts,
        credential,
        splitter,
        batching,
        lines,
        room,
        _slot: slot,
    };
    tokio::spawn(stream.run(reader, first));
    let mut response = Response::new(Body::new(answer));
    // The answers of what was written are sent in any case.
    response.extensions_mut().insert(SelfCheckedAnswer);
    let headers = response.headers_mut();
    headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Parameters of the batches: an answer is one line, in JSON.
fn query_of(shown: &ElasticRequest) -> String {
    let is_kept = |pair: &&str| !["pretty", "format"].contains(&pair.split('=').next().unwrap_or_default());
    shown.query.split('&').filter(is_kept).collect::<Vec<_>>().join("&")
}

/// A stream in flight.
struct OperationStream {
    api: Arc<ElasticApi>,
    /// Request of a batch, without its body.
    shown: ElasticRequest,
    parts: Parts,
    credential: Option<StreamCredential>,
    splitter: BulkSplitter,
    batching: BulkBatching,
    lines: Sender<Bytes, Infallible>,
    room: BudgetReservation,
    _slot: StreamSlot,
}

/// Memory of a stream that has read `read` bytes beyond its last batch. Their buffer grows by doubling.
fn room_for(read: usize) -> usize {
    read.saturating_mul(2).clamp(IDLE_BYTES, STREAM_BYTES)
}

impl OperationStream {
    /// Reads the body to its end, and answers its batches. Stops when the client has left.
    async fn run(mut self, mut reader: BodyReader, first: Option<Bytes>) {
        let mut next = first;
        let mut due = None;
        loop {
            let Some(bytes) = next else { break };
            if let Err(error) = self.reserve(bytes.len()).await {
                // As a body that breaks off: what was read before is written.
                next = self.received(Err(error)).await;
                continue;
            }
            let full = match self.splitter.add(&bytes) {
                Ok(full) => full,
                Err(error) => {
                    let line = ElasticService::refuse_as(&self.shown, error).body;
                    // The client may have left.
                    let _ = self.tell(line).await;
                    return;
                }
            };
            drop(bytes);
            if !full.is_empty() {
                due = None;
            }
            for batch in full {
                if self.batch(batch).await.is_err() {
                    return;
                }
            }
            self.give_back();
            if self.splitter.is_broken() {
                return;
            }
            next = loop {
                let interval = self.batching.interval.filter(|_| self.splitter.has_operations());
                let Some(interval) = interval else { break self.read(&mut reader).await };
                let until = *due.get_or_insert_with(|| Instant::now() + interval);
                match tokio::time::timeout_at(until, reader.next()).await {
                    Ok(read) => break self.received(read).await,
                    Err(_) => {
                        due = None;
                        if let Some(batch) = self.splitter.take()
                            && self.batch(batch).await.is_err()
                        {
                            return;
                        }
                        self.give_back();
                    }
                }
            };
        }
        if let Some(batch) = self.splitter.rest() {
            // As above.
            let _ = self.batch(batch).await;
        }
    }

    /// Reserves room for bytes that were read, beside those that no batch had yet.
    ///
    /// # Errors
    /// There was none for a minute.
    async fn reserve(&mut self, read: usize) -> Result<(), Error> {
        let (needed, until) = (room_for(self.splitter.bytes() + read), Instant::now() + ROOM_TIMEOUT);
        loop {
            match self.room.grow_to(needed).await {
                Err(Error::NoRoom { .. }) if Instant::now() < until => {}
                outcome => return outcome,
            }
        }
    }

    /// Gives back what the batches before have needed.
    fn give_back(&mut self) {
        self.room.shrink_to(room_for(self.splitter.bytes()));
    }

    async fn read(&mut self, reader: &mut BodyReader) -> Option<Bytes> {
        let read = reader.next().await;
        self.received(read).await
    }

    /// Bytes of the body. A body that breaks off ends the stream with a line: whole operations before it are
    /// written, the rest is not.
    async fn received(&mut self, read: Result<Option<Bytes>, Error>) -> Option<Bytes> {
        match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.splitter.cut();
                let line = ElasticService::refuse(&self.shown, error).body;
                // As above.
                let _ = self.tell(line).await;
                None
            }
        }
    }

    /// Writes a batch, and answers it. A stream whose credential is not valid any more ends with a line that
    /// says so, without the batch.
    ///
    /// # Errors
    /// The stream has ended, or the client has left.
    async fn batch(&mut self, body: Vec<u8>) -> Result<(), BulkStreamEnd> {
        if let Some(Err(error)) = self.credential.as_ref().map(StreamCredential::check) {
            let line = ElasticService::refuse(&self.shown, error.into()).body;
            self.tell(line).await?;
            return Err(BulkStreamEnd);
        }
        let mut parts = self.parts.clone();
        parts.method = Method::POST;
        let request = Request::from_parts(parts, Body::from(body));
        let line = match route(&self.api, &self.shown, request).await {
            Ok(response) => match response.into_body().collect().await {
                Ok(body) => body.to_bytes().to_vec(),
                Err(error) => {
                    let reason = format!(
                        "the answer to a batch broke off: {error}; whether it was written is not known"
                    );
                    ElasticService::refuse_as(&self.shown, millrace_elastic::Error::Unavailable(reason)).body
                }
            },
            Err(error) => ElasticService::refuse(&self.shown, error).body,
        };
        self.tell(line).await
    }

    async fn tell(&mut self, mut line: Vec<u8>) -> Result<(), BulkStreamEnd> {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let share = self.api.node.budget().count_answer(line.len());
        self.lines.send_data(counted_page(line, share)).await.map_err(|_| BulkStreamEnd)
    }
}

/// Nothing follows: the client no longer reads the answer, or its credential is not valid any more.
struct BulkStreamEnd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_stream_has_little_room_and_none_has_more_than_its_slot() {
        for (read, room) in
            [(0, IDLE_BYTES), (1000, IDLE_BYTES), (1 << 20, 2 << 20), (64 << 20, STREAM_BYTES)]
        {
            assert_eq!(room_for(read), room, "{read}");
        }
    }
}
