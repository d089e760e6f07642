//! `/feed/v1`: a stream of operations in one request, answered by a stream of lines.
//!
//! The body is read, split, parsed and committed piece by piece, each step on its own:
//!
//! 1. `input` receives the body, unpacks it, and splits it into operations: JSON, or the rows of a table
//!    (`table`, `operation`). A piece ends when it is large, or when no more of the body has arrived.
//! 2. `prepare` reads the values of the operations of a piece, and runs their indexing statements.
//! 3. `commit` writes them: what needs no other node and no model as one batch of the store, with one sync.
//!    In a cluster, what other nodes own is sent to them as streams of their own (`relay`). Operations on one
//!    document keep their order.
//! 4. `answer` lists what failed, and how far the stream is durable.
//!
//! Each step has at most one piece waiting for the next, so that a slow store stops the reading of the body.
//! What is committed is answered before more of the body comes: clients wait for that. The answer takes
//! bounded memory, even if the client reads none of it before it has sent everything.

mod answer;
mod answer_log;
mod answered;
mod commit;
mod forward;
mod input;
mod key;
mod operation;
mod prepare;
mod relay;
mod slots;
mod source;
mod table;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use millrace_access::{AccessRight, WantedGroups};
use millrace_node::Error;
use millrace_node::cluster::ForwardKind;
use millrace_store::WriteDurability;
use tokio::sync::{mpsc, oneshot};

use self::answer::{AnswerReader, FeedAnswer};
use self::answer_log::AnsweredStream;
use self::answered::{ActiveStreamKey, KeyState};
use self::commit::{FeedCommitter, StreamKey};
use self::input::{BodyPump, OperationSplitter, PumpDigest};
use self::key::{BodyDigest, RequestedKey};
use self::source::PackedForm;
use self::table::FeedFormat;
use super::{DocumentCall, render};
use crate::GatewayState;
use crate::edge::{SelfCheckedAnswer, StreamCredential, caller_of};
use crate::forwarding;
use crate::http::{self, BodyBounds, BodyReader, BudgetReservation, ReadBody, RequestParameters, collect};

pub(crate) use self::answered::{AnsweredKeyBounds, AnsweredKeys};
pub(crate) use self::slots::{StreamSlot, StreamUse, streams_max, writer_of};
pub(crate) use self::table::{ARROW, TABLE_PARAMETERS, accepts_table};

/// Bytes of operations after which a piece ends.
const PIECE_BYTES: usize = STREAM_BYTES / PIECES;

/// Pieces of a stream that are in memory at a time: what has arrived, one in each step and one that waits for
/// it, and in the last step two more, which are committed.
const PIECES: usize = 8;

/// Number of operations after which a piece ends.
const PIECE_OPERATIONS: usize = 2048;

/// Memory of a stream in bytes, reserved before its body is read.
const STREAM_BYTES: usize = 3 << 20;

/// Time during which the rest of the body of a stopped stream is read.
const DISCARD: Duration = Duration::from_secs(5);

const ALLOWED: &str = "GET, POST, OPTIONS";

/// Header of an answer that was kept for the key of the stream.
const REPLAYED: &str = "idempotency-replayed";

/// Answers a request at `/feed/v1`.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
        return response;
    }
    let mut call = DocumentCall::new(node, request.uri().path());
    if request.method() == Method::GET {
        return match columns(&mut call, &request) {
            Ok(table) => http::answer(StatusCode::OK, ARROW, table),
            Err(error) => render(&call, None, &error),
        };
    }
    match begin(&mut call, request).await {
        Ok(AdmittedFeed::Stream(start)) => start.run(call),
        Ok(AdmittedFeed::Answered(answer)) => {
            call.node.feed_keys().count_repeated();
            let mut response = lines_response(answer.into());
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            response
        }
        Err(error) => render(&call, None, &error),
    }
}

/// The columns of a table of the document type that a request names, as a table without rows.
///
/// # Errors
/// It names none that exists.
fn columns(call: &mut DocumentCall, request: &Request) -> Result<Vec<u8>, Error> {
    caller_of(request)?.check_right(&[AccessRight::Read, AccessRight::Write])?;
    let parameters_max = call.node.settings().limits.parameters_max;
    call.parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), parameters_max)?;
    table::empty_table(call)
}

/// Returns the response with an answer.
fn lines_response(body: Body) -> Response {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static("application/jsonl;charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A feed that was admitted.
enum AdmittedFeed {
    Stream(Box<FeedStart>),
    /// Answer of an earlier stream with the same key and body.
    Answered(Bytes),
}

/// A stream that was admitted.
struct FeedStart {
    /// `None` if the body was read before.
    reader: Option<BodyReader>,
    first: Option<Bytes>,
    form: PackedForm,
    format: FeedFormat,
    key: Option<StartedKey>,
    slot: StreamSlot,
    /// Memory of the stream, and of a body that was read before.
    room: [Option<BudgetReservation>; 2],
}

/// The key of a stream, and the digest of its body, which is yet to be received.
struct StartedKey {
    key: ActiveStreamKey,
    digest: BodyDigest,
}

/// Checks a request and reserves what its stream needs.
///
/// # Errors
/// The request is not a feed; there are too many streams, or no room for one more; the body does not begin;
/// the key of the stream is in use.
async fn begin(call: &mut DocumentCall, request: Request) -> Result<AdmittedFeed, Error> {
    if request.method() != Method::POST {
        return Err(Error::MethodNotAllowed { method: request.method().to_string(), allowed: ALLOWED });
    }
    let caller = caller_of(&request)?;
    // It covers the groups of the caller; each operation is checked when it is parsed.
    call.permit = caller.permit(WantedGroups::These(&[]))?;
    call.caller = Some(Arc::clone(&caller));
    call.credential = StreamCredential::from_request(&call.node, &request);
    call.writer = writer_of(&caller, request.extensions().get());
    let limits = &call.node.settings().limits;
    call.parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), limits.parameters_max)?;
    if let Some(timeout) = call.parameters.duration("timeout")? {
        call.timeout = timeout.min(limits.document_timeout_max);
    }
    call.durability = durability_of(call)?;
    check_single_parameters(&call.parameters)?;
    call.deployment()?;
    if call.node.is_from_client(request.headers()) {
        let (quotas, metrics) = (call.node.quotas(), call.node.metrics());
        quotas.admit_address(request.extensions().get(), call.started, metrics)?;
        // Later, the stream is slowed down instead.
        call.admit_fed(caller.only_group(), 0)?;
    } else {
        call.stage = forwarding::stage_of(request.headers())?;
    }
    let format = FeedFormat::read(request.headers(), &call.parameters)?;
    let form = PackedForm::from_header(request.headers().get(CONTENT_ENCODING))?;
    let requested = match call.stage {
        ForwardKind::Client => RequestedKey::read(request.headers(), &call.parameters)?,
        // The node that the client sent the stream to keeps its key.
        _ => RequestedKey::None,
    };
    if requested != RequestedKey::None && call.durability == WriteDurability::Deferred {
        let reason = "durability=async does not go together with Idempotency-Key or dedupe=body: a stream that was \
                      answered would not be executed again after a loss of power; leave out one of the two";
        return Err(Error::BadRequest(reason.to_owned()));
    }
    let digest = BodyDigest::new(request.headers(), &call.parameters);
    let bytes = STREAM_BYTES + form.bytes();
    let wanted = StreamUse::of_feed(bytes);
    let slot = StreamSlot::take(&call.stage, call.writer, wanted, limits.bodies_bytes_max)?;
    let mut room = call.share();
    room.grow(bytes).await?;
    if requested == RequestedKey::Body {
        return begin_whole(call, request.into_body(), digest, FeedRoom { form, format, slot, room }).await;
    }
    // A stream may be of any length; its memory is bounded by that of its pieces.
    let bounds = BodyBounds { bytes: usize::MAX, ..call.node.body_bounds() };
    let mut reader = BodyReader::new(&call.node, request.into_body(), bounds);
    let key = match requested {
        RequestedKey::Header(text) => match call.node.feed_keys().find(key::header_key(&caller, &text))? {
            KeyState::New(key) => Some(StartedKey { key, digest }),
            KeyState::Answered(answered) => return repeated(reader, digest, answered).await,
        },
        RequestedKey::None | RequestedKey::Body => None,
    };
    // A client that waits for '100 Continue' gets it before the head of the answer.
    let first = reader.next().await?;
    let (reader, room) = (Some(reader), [Some(room), None]);
    Ok(AdmittedFeed::Stream(Box::new(FeedStart { reader, first, form, format, key, slot, room })))
}

/// Memory that is reserved for a stream.
struct FeedRoom {
    form: PackedForm,
    format: FeedFormat,
    slot: StreamSlot,
    room: BudgetReservation,
}

/// Reads the whole body, whose digest is the key of the stream.
///
/// # Errors
/// There is no room for the body; it does not end; a stream with the same body is in flight.
async fn begin_whole(
    call: &DocumentCall,
    body: Body,
    digest: BodyDigest,
    reserved: FeedRoom,
) -> Result<AdmittedFeed, Error> {
    let FeedRoom { form, format, slot, room } = reserved;
    let ReadBody { bytes, share } = collect(&call.node, body, call.node.body_bounds()).await?;
    let (mut whole, read) = (digest.clone(), bytes.clone());
    let whole = tokio::task::spawn_blocking(share.held_by(move || {
        whole.add(&read);
        whole.finish()
    }));
    let failed = |_| Error::Internal("the digest of the body failed; see the log".to_owned());
    let (whole, share) = whole.await.map_err(failed)?;
    let caller = call.caller.as_ref().expect("a feed begins with its caller");
    match call.node.feed_keys().find(key::body_key(caller, &whole))? {
        KeyState::Answered(answered) => Ok(AdmittedFeed::Answered(answered.answer)),
        KeyState::New(key) => {
            let key = Some(StartedKey { key, digest });
            let first = Some(bytes).filter(|bytes| !bytes.is_empty());
            let room = [Some(room), Some(share)];
            let start = FeedStart { reader: None, first, form, format, key, slot, room };
            Ok(AdmittedFeed::Stream(Box::new(start)))
        }
    }
}

/// Compares a body with that of the stream that was answered under its key.
///
/// # Errors
/// It is another one, or does not end.
async fn repeated(
    mut reader: BodyReader,
    mut digest: BodyDigest,
    answered: AnsweredStream,
) -> Result<AdmittedFeed, Error> {
    while let Some(bytes) = reader.next().await? {
        digest.add(&bytes);
    }
    match digest.finish() == answered.body {
        true => Ok(AdmittedFeed::Answered(answered.answer)),
        false => Err(Error::Conflict(
            "this Idempotency-Key was used for a stream with another body, encoding, route or cluster; choose a new key \
             for each stream"
                .to_owned(),
        )),
    }
}

/// Durability that the client wants of what is acknowledged. In a cluster all of it is synced.
///
/// # Errors
/// The parameter is unknown.
fn durability_of(call: &DocumentCall) -> Result<WriteDurability, Error> {
    match call.parameters.get("durability") {
        None | Some("sync") => Ok(WriteDurability::Synced),
        Some("async") if !call.node.cluster().is_alone() => Ok(WriteDurability::Synced),
        Some("async") => Ok(WriteDurability::Deferred),
        Some(other) => {
            let reason = format!(
                "'{other}' is not supported; leave it out, or say sync: what is acknowledged is durable; or say async: it \
                 is synced soon"
            );
            Err(Error::parameter("durability", reason))
        }
    }
}

/// Refuses the parameters of single operations that would be without effect on a stream.
///
/// # Errors
/// One is there.
fn check_single_parameters(parameters: &RequestParameters) -> Result<(), Error> {
    if let Some(name) = ["condition", "create"].into_iter().find(|name| parameters.get(name).is_some()) {
        let reason = "is for single operations; in a stream it is a member of each operation, beside fields";
        return Err(Error::parameter(name, reason));
    }
    match parameters.flag("dryRun")? {
        Some(true) => {
            Err(Error::parameter("dryRun", "is for single operations; a stream is always executed"))
        }
        Some(false) | None => Ok(()),
    }
}

impl FeedStart {
    /// Starts the steps of the stream, and returns the answer that they write.
    fn run(self, call: DocumentCall) -> Response {
        let FeedStart { reader, first, form, format, key, slot, room } = self;
        let durability = call.parameters.get("durability").map(|_| call.durability);
        let answer_reader = match call.stage {
            ForwardKind::Client => AnswerReader::Client,
            _ => AnswerReader::Node,
        };
        let (answer, body) = FeedAnswer::new(answer_reader, durability, call.implied_group().cloned());
        let (frames, received) = mpsc::channel(2);
        let (pieces, split) = mpsc::channel(1);
        let (prepared, to_commit) = mpsc::channel(1);
        let call = Arc::new(call);
        let splitter = OperationSplitter::new(&call, received, form, format, pieces);
        let (key, digest) = match key {
            None => (None, None),
            Some(StartedKey { key, digest }) => {
                let (done, body) = oneshot::channel();
                (Some(StreamKey { key, body }), Some(PumpDigest { digest, done }))
            }
        };
        let mut pump = tokio::spawn(BodyPump { reader, frames, digest }.run(first));
        // It blocks until more of the body arrives, so it has a thread of its own.
        tokio::task::spawn_blocking(move || splitter.run());
        tokio::spawn(prepare::run(Arc::clone(&call), split, prepared));
        tokio::spawn(async move {
            let _kept = (slot, room);
            FeedCommitter::new(call, answer.clone(), key).run(to_commit).await;
            // The rest of the body of a stopped stream is read for a while, so that the client gets to its
            // answer.
            if tokio::time::timeout(DISCARD, &mut pump).await.is_err() {
                pump.abort();
            }
            answer.end();
        });
        let mut response = lines_response(Body::new(body));
        // The answers of what was written are sent in any case.
        response.extensions_mut().insert(SelfCheckedAnswer);
        response
    }
}
