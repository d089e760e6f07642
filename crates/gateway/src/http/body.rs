//! Request bodies: read as fast as they come and no slower than allowed, up to a limit, and unpacked if they
//! are packed.

use std::io::{self, Read as _};
use std::ops::Deref;
use std::time::Duration;

use axum::body::Body;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as _, Bytes};
use hyper::header::CONTENT_ENCODING;
use libdeflater::Decompressor;
use millrace_node::Error;
use millrace_node::pool::BodySizeClass;
use tokio::time::Instant;

use super::budget::BudgetReservation;
use crate::GatewayState;

/// Size that a body may always unpack to, in bytes, however small it is packed.
const RATIO_FREE: usize = 1 << 20;

/// Maximum ratio of the unpacked to the packed size of a body, beyond [`RATIO_FREE`].
const RATIO_MAX: usize = 100;

/// Bytes that are reserved first for a body of unknown length.
const FIRST_STEP: usize = 16 << 10;

/// Factor by which the buffer of a body grows. Memory is taken when it is written, so that a large factor
/// costs only addresses; each growth copies what is there, which is in memory twice meanwhile.
const GROWTH: usize = 8;

/// Seconds in which a body that is kept in memory must be able to bring what it has brought: it holds room
/// that others wait for, the more, the larger it is.
const KEPT_S: usize = 600;

/// End of a body that this server makes for a request of its own, and cannot make whole.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OutgoingBodyError(pub String);

/// Error of a body that broke off: the server's, if it made the body.
fn broken(error: &axum::Error) -> Error {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    match causes.find_map(|cause| cause.downcast_ref::<OutgoingBodyError>()) {
        Some(made) => Error::Internal(made.to_string()),
        None => Error::BadRequest(format!("the request body broke off: {error}")),
    }
}

/// The bounds of one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyBounds {
    /// Maximum size in bytes, as sent and unpacked.
    pub(crate) bytes: usize,
    /// Setting that has this limit.
    pub(crate) setting: &'static str,
    /// Time by which the sender may lag behind the minimum rate.
    pub(crate) timeout: Duration,
    /// True if the bytes as sent are in memory already, under a share of their own.
    pub(crate) is_reserved: bool,
    /// True for the question of another node.
    pub(crate) is_question: bool,
}

/// A body in memory, with its share of the budget, which is released when the body is dropped.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    pub(crate) share: BudgetReservation,
}

impl Deref for ReadBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ReadBody {
    /// Returns the bytes and their share of the budget, which must be kept as long as anything made from
    /// them.
    pub(crate) fn into_parts(self) -> (Bytes, BudgetReservation) {
        (self.bytes, self.share)
    }
}

/// Reads the whole body, unpacked, within its bounds both packed and unpacked. A large one is unpacked in the
/// pool.
///
/// # Errors
/// The body is too large, unpacks to too much, comes too slowly, breaks off, or is not gzip; or there was no
/// room for it.
pub(crate) async fn read_body(
    node: &GatewayState,
    headers: &HeaderMap,
    body: Body,
    bounds: BodyBounds,
) -> Result<ReadBody, Error> {
    let read = collect(node, body, bounds).await?;
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(read) };
    // Names of encodings have no case.
    let encoding = encoding.as_bytes().to_ascii_lowercase();
    match &encoding[..] {
        b"identity" | b"" => Ok(read),
        b"gzip" | b"x-gzip" => unpacked(node, read, bounds).await,
        other => Err(Error::BadRequest(format!(
            "content-encoding '{}' is not known; send the body with gzip, or as it is",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Reads the whole body as sent.
///
/// # Errors
/// Those of [`read_body`].
pub(crate) async fn collect(node: &GatewayState, body: Body, bounds: BodyBounds) -> Result<ReadBody, Error> {
    let budget = node.budget();
    let mut share = if bounds.is_question { budget.question() } else { budget.share() };
    if bounds.is_reserved {
        // There is nothing to wait for, and nothing is copied.
        let bytes = body.collect().await.map_err(|error| Error::BadRequest(error.to_string()))?.to_bytes();
        bounds.check(bytes.len())?;
        return Ok(ReadBody { bytes, share });
    }
    let hint = body.size_hint();
    if hint.lower() > bounds.bytes as u64 {
        return Err(bounds.too_large());
    }
    // The announced length is an order of magnitude, not an amount to trust: memory is allocated as bytes
    // arrive.
    let exact = hint.exact().and_then(|bytes| usize::try_from(bytes).ok());
    if exact.is_some_and(|bytes| bytes <= FIRST_STEP) {
        share.grow(exact.unwrap_or(0)).await?;
    }
    let mut reader = BodyReader::new(node, body, bounds);
    reader.pace.is_kept = true;
    let Some(first) = reader.next().await? else { return Ok(ReadBody { bytes: Bytes::new(), share }) };
    share.grow_to(first.len()).await?;
    if exact == Some(first.len()) || reader.body.is_end_stream() {
        return Ok(ReadBody { bytes: first, share });
    }
    let mut bytes = Vec::new();
    append(&mut bytes, &first, &mut share, exact, bounds).await?;
    drop(first);
    while let Some(data) = reader.next().await? {
        append(&mut bytes, &data, &mut share, exact, bounds).await?;
    }
    Ok(ReadBody { bytes: bytes.into(), share })
}

/// Appends `data`. Room is reserved before it is allocated: at first little, then twice as much each time.
async fn append(
    bytes: &mut Vec<u8>,
    data: &[u8],
    share: &mut BudgetReservation,
    exact: Option<usize>,
    bounds: BodyBounds,
) -> Result<(), Error> {
    let needed = bytes.len() + data.len();
    let capacity_max = exact.unwrap_or(bounds.bytes).max(needed);
    // Room is reserved in steps, so that it is one addition for many parts.
    share.grow_to(needed.next_power_of_two().max(FIRST_STEP).min(capacity_max)).await?;
    if needed > bytes.capacity() {
        let capacity = needed.saturating_mul(GROWTH).max(FIRST_STEP).min(capacity_max);
        bytes.reserve_exact(capacity - bytes.len());
    }
    bytes.extend_from_slice(data);
    Ok(())
}

impl BodyBounds {
    fn too_large(&self) -> Error {
        Error::TooLarge { limit: self.bytes, setting: self.setting }
    }

    fn check(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.bytes { Err(self.too_large()) } else { Ok(()) }
    }
}

/// The pace of a body: time spent waiting for its sender, against the time that its bytes need at the minimum
/// rate. Bytes earn time, but no more than `left_max` is ever left, so that this bounds each silence, however
/// much came before. Time spent on anything else, such as waiting for room, does not count.
struct BodyPace {
    /// Minimum rate, in bytes a second.
    rate: usize,
    /// Maximum of `left`.
    left_max: Duration,
    /// Remaining time for waiting, if no data arrives.
    left: Duration,
    waited: Duration,
    received: usize,
    /// True if what has arrived stays in memory until the whole has: the minimum rate grows with it.
    is_kept: bool,
}

impl BodyPace {
    fn new(rate: usize, left_max: Duration, bounds: BodyBounds) -> Self {
        BodyPace {
            rate: rate.max(1),
            left_max: left_max.max(bounds.timeout),
            left: bounds.timeout,
            waited: Duration::ZERO,
            received: 0,
            is_kept: false,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.waited += time;
        self.left = self.left.saturating_sub(time);
    }

    fn receive(&mut self, bytes: usize) {
        self.received += bytes;
        let rate = if self.is_kept { self.rate.max(self.received / KEPT_S) } else { self.rate };
        let earned = Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.left = self.left.saturating_add(earned).min(self.left_max);
    }

    /// Next data of the body; `None` at its end.
    async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, Error> {
        loop {
            let began = Instant::now();
            let frame = tokio::time::timeout(self.left, body.frame()).await;
            self.wait(began.elapsed());
            let Ok(frame) = frame else {
                return Err(Error::SlowBody { received: self.received, waited: self.waited });
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| broken(&error))?;
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else { continue };
            self.receive(data.len());
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }
}

/// A body that is read part by part, at least at its minimum rate, up to its limit.
pub(crate) struct BodyReader {
    body: Body,
    pace: BodyPace,
    bounds: BodyBounds,
}

impl BodyReader {
    /// Creates a reader of `body`.
    pub(crate) fn new(node: &GatewayState, body: Body, bounds: BodyBounds) -> Self {
        let limits = &node.settings().limits;
        let pace = BodyPace::new(limits.body_rate_min, limits.body_timeout, bounds);
        BodyReader { body, pace, bounds }
    }

    /// Returns the next part; `None` at the end.
    ///
    /// # Errors
    /// The body is too large, comes too slowly, or breaks off.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let data = self.pace.next(&mut self.body).await?;
        self.bounds.check(self.pace.received)?;
        Ok(data)
    }
}

/// Unpacks the body of `packed`; the room for it is reserved before.
async fn unpacked(node: &GatewayState, packed: ReadBody, bounds: BodyBounds) -> Result<ReadBody, Error> {
    let stated = unpacked_size(&packed, bounds);
    let ReadBody { bytes, mut share } = packed;
    let size = match stated {
        Ok(size) => size,
        Err(refusal) => {
            let class = BodySizeClass::of_document(max_unpacked(bytes.len(), bounds));
            let judge = share.held_by(move || refusal_by_trailer(&bytes, bounds, refusal));
            return Err(node.pool().run_sized(class, judge).await?.0);
        }
    };
    share.grow(size).await?;
    let unpack = share.held_by(move || gunzip(&bytes, size));
    let (unpacked, mut share) = node.pool().run_sized(BodySizeClass::of_document(size), unpack).await?;
    let unpacked = unpacked?;
    // The packed bytes are gone.
    share.shrink_to(size);
    Ok(ReadBody { bytes: unpacked.into(), share })
}

/// Size of a body unpacked, as it says of itself: a lie is found when it is unpacked.
pub(crate) fn unpacked_bytes(headers: &HeaderMap, body: &[u8]) -> usize {
    let is_gzip = headers.get(CONTENT_ENCODING).is_some_and(|encoding| {
        ["gzip", "x-gzip"].iter().any(|gzip| encoding.as_bytes().eq_ignore_ascii_case(gzip.as_bytes()))
    });
    match body.last_chunk::<4>() {
        Some(trailer) if is_gzip => u32::from_le_bytes(*trailer) as usize,
        _ => body.len(),
    }
}

/// Unpacked size of a gzip member by its trailer, if a body of its size may unpack to that much. The trailer
/// is a bound for [`gunzip`], so that a lie costs nothing.
fn unpacked_size(packed: &[u8], bounds: BodyBounds) -> Result<usize, Error> {
    let Some(trailer) = packed.last_chunk::<4>() else { return Err(not_gzip()) };
    let stated = u32::from_le_bytes(*trailer) as usize;
    bounds.check(stated)?;
    check_ratio(packed.len(), stated)?;
    Ok(stated)
}

/// Checks the size of a body, or of what there is of it, against the bytes that were sent.
///
/// # Errors
/// [`Error::Inflated`].
pub(crate) fn check_ratio(packed: usize, unpacked: usize) -> Result<(), Error> {
    if unpacked > RATIO_FREE && unpacked / RATIO_MAX > packed {
        return Err(Error::Inflated { packed, unpacked, ratio: RATIO_MAX });
    }
    Ok(())
}

/// Size that a body of `packed` bytes may unpack to.
fn max_unpacked(packed: usize, bounds: BodyBounds) -> usize {
    packed.saturating_mul(RATIO_MAX).max(RATIO_FREE).min(bounds.bytes)
}

/// The reason to refuse a body whose trailer says that it unpacks to too much: that it does, or that it is
/// not gzip, or damaged, so that its last bytes are no trailer. Nothing of it is kept in memory.
fn refusal_by_trailer(packed: &[u8], bounds: BodyBounds, refusal: Error) -> Error {
    let unpacked_max = max_unpacked(packed.len(), bounds) as u64;
    match io::copy(&mut GzDecoder::new(packed).take(unpacked_max + 1), &mut io::sink()) {
        Ok(unpacked) if unpacked > unpacked_max => refusal,
        Ok(_) | Err(_) => not_gzip(),
    }
}

/// Unpacks one gzip member of `size` bytes.
fn gunzip(packed: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    // One byte if the size is zero: nothing can be unpacked into an empty buffer.
    let mut unpacked = vec![0; size.max(1)];
    let written = Decompressor::new().gzip_decompress(packed, &mut unpacked).map_err(|_| not_gzip())?;
    if written != size {
        return Err(not_gzip());
    }
    unpacked.truncate(written);
    Ok(unpacked)
}

fn not_gzip() -> Error {
    let reason = "the request body is not the gzip stream that content-encoding promises, or is damaged; pack it again, or \
                  leave out content-encoding";
    Error::BadRequest(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use libdeflater::{CompressionLvl, Compressor};

    use super::super::budget::{BudgetBounds, RequestBudget};
    use super::*;
    use crate::status::HttpError;

    const BOUNDS: BodyBounds = BodyBounds {
        bytes: 64 << 20,
        setting: "request-bytes-max",
        timeout: Duration::from_secs(2),
        is_reserved: false,
        is_question: false,
    };

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut packed = vec![0; compressor.gzip_compress_bound(data.len())];
        let written = compressor.gzip_compress(data, &mut packed).expect("the bound is large enough");
        packed.truncate(written);
        packed
    }

    fn whole(packed: &[u8], bounds: BodyBounds) -> Result<Vec<u8>, Error> {
        match unpacked_size(packed, bounds) {
            Ok(size) => gunzip(packed, size),
            Err(refusal) => Err(refusal_by_trailer(packed, bounds, refusal)),
        }
    }

    #[tokio::test]
    async fn work_holds_its_share_when_its_client_has_left() {
        let wait_max = Duration::from_secs(3600);
        let bounds = BudgetBounds { bodies: 100, work: 0, answers: 0, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let mut share = budget.share();
        share.grow(60).await.expect("there is room");
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let client = tokio::task::spawn_blocking(share.held_by(move || {
            begin.send(()).expect("the test waits");
            ended.recv().expect("the test ends it");
        }));
        begun.recv().expect("it begins");
        drop(client);
        assert_eq!(budget.of_bodies().reserved, 60);
        end.send(()).expect("it waits");
        while budget.of_bodies().reserved > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn unpacks_what_was_packed() {
        for data in [&b""[..], b"x", &[7; 100_000], &[7; RATIO_FREE]] {
            assert_eq!(whole(&gzip(data), BOUNDS).expect("it was packed just now"), data);
        }
    }

    proptest::proptest! {
        #[test]
        fn damage_is_an_error_or_another_body(at in 0usize..60, byte: u8) {
            let mut packed = gzip(b"a few words that are packed, a few words");
            let at = at % packed.len();
            packed[at] = byte;
            let _ = whole(&packed, BodyBounds { bytes: 1 << 16, ..BOUNDS });
        }
    }

    #[test]
    fn a_bomb_is_refused_before_memory_is_taken() {
        let small = BodyBounds { bytes: 1 << 16, ..BOUNDS };
        assert!(matches!(whole(&gzip(&[0; 1 << 20]), small), Err(Error::TooLarge { limit: 65536, .. })));
        // Ratios of 1,000 to 1, and of ordinary text.
        let error = whole(&gzip(&vec![0; 8 << 20]), BOUNDS).expect_err("a bomb");
        assert!(matches!(error, Error::Inflated { .. }), "{error}");
        let mut number = 1_u32;
        let text: Vec<u8> = std::iter::repeat_with(|| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (number >> 28) as u8
        })
        .take(3 << 20)
        .collect();
        assert_eq!(whole(&gzip(&text), BOUNDS).expect("text"), text);
    }

    #[test]
    fn a_trailer_that_lies_is_not_believed() {
        let mut packed = gzip(&[1; 5000]);
        let end = packed.len() - 4;
        for lie in [u32::MAX, 4999, 5001, 0, 1 << 20] {
            packed[end..].copy_from_slice(&lie.to_le_bytes());
            assert!(matches!(whole(&packed, BOUNDS), Err(Error::BadRequest(_))), "{lie}");
        }
        assert!(matches!(whole(b"not gzip", BOUNDS), Err(Error::BadRequest(_))));
        assert!(matches!(whole(b"", BOUNDS), Err(Error::BadRequest(_))));
    }

    /// The last bytes of a truncated body may give any size.
    #[test]
    fn a_body_that_breaks_off_is_damaged() {
        let mut number = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (number >> 24) as u8
        })
        .take(100_000)
        .collect();
        for packed in [gzip(b"a few words"), gzip(&noise)] {
            for length in [0, 1, 4, 10, packed.len() / 2, packed.len() - 7, packed.len() - 1] {
                let error = whole(&packed[..length], BOUNDS).expect_err("it broke off");
                assert!(matches!(error, Error::BadRequest(_)), "{length}: {error}");
            }
        }
    }

    /// A body whose parts each come after a second, of which `first` bytes came at once.
    fn paced(is_kept: bool, first: usize, part: usize, count: usize) -> BodyPace {
        let mut pace = BodyPace::new(1024, BOUNDS.timeout, BOUNDS);
        pace.is_kept = is_kept;
        pace.receive(first);
        for _ in 0..count {
            pace.wait(Duration::from_secs(1));
            pace.receive(part);
        }
        pace
    }

    #[test]
    fn a_body_may_take_long_and_not_be_slow() {
        let left_after = |part: usize, count: usize| paced(false, 0, part, count).left;
        assert_eq!(left_after(2048, 600), BOUNDS.timeout, "it makes progress, for ten minutes");
        assert_eq!(left_after(1024, 600), BOUNDS.timeout, "just as fast as it must be");
        assert!(left_after(1, 3) < BOUNDS.timeout / 20, "a byte a second is none");
    }

    #[test]
    fn a_silence_is_bounded_however_much_came_before() {
        assert_eq!(paced(false, 33 << 20, 0, 0).left, BOUNDS.timeout);
        assert_eq!(paced(true, 33 << 20, 0, 0).left, BOUNDS.timeout);
        // A document operation with a short time limit has more time once its body comes.
        let short = BodyBounds { timeout: Duration::from_millis(10), ..BOUNDS };
        let mut pace = BodyPace::new(1024, BOUNDS.timeout, short);
        assert_eq!(pace.left, short.timeout);
        pace.receive(33 << 20);
        assert_eq!(pace.left, BOUNDS.timeout);
    }

    #[test]
    fn a_body_in_memory_comes_the_faster_the_larger_it_is() {
        let first = 33 << 20;
        assert!(paced(true, first, 2048, 4).left < BOUNDS.timeout / 20, "it would hold 33 MB for hours");
        assert_eq!(paced(true, first, 128 << 10, 60).left, BOUNDS.timeout, "it comes within minutes");
        assert_eq!(paced(true, 100_000, 1024, 60).left, BOUNDS.timeout, "it holds little");
        assert_eq!(paced(false, first, 2048, 60).left, BOUNDS.timeout, "a stream holds nothing");
    }

    #[tokio::test]
    async fn a_body_that_makes_no_progress_is_refused() {
        let (mut sender, body) = http_body_util::channel::Channel::<Bytes, std::convert::Infallible>::new(1);
        sender.send_data(Bytes::from_static(b"{")).await.expect("it is read");
        let bounds = BodyBounds { timeout: Duration::from_millis(20), ..BOUNDS };
        let (mut body, mut pace) = (Body::new(body), BodyPace::new(1024, bounds.timeout, bounds));
        assert!(pace.next(&mut body).await.is_ok_and(|data| data.is_some()));
        let error = pace.next(&mut body).await.expect_err("nothing more comes");
        assert!(matches!(error, Error::SlowBody { received: 1, .. }), "{error}");
        assert_eq!(error.status(), hyper::StatusCode::REQUEST_TIMEOUT);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_the_fault_of_who_makes_it() {
        async fn error_of<E>(error: E) -> Error
        where
            E: std::error::Error + Send + Sync + 'static,
        {
            let (sender, body) = http_body_util::channel::Channel::<Bytes, E>::new(1);
            sender.abort(error);
            let mut pace = BodyPace::new(1024, BOUNDS.timeout, BOUNDS);
            pace.next(&mut Body::new(Body::new(body))).await.expect_err("it broke off")
        }
        let made = error_of(OutgoingBodyError("a log cannot be read".to_owned())).await;
        assert!(matches!(&made, Error::Internal(reason) if reason == "a log cannot be read"), "{made}");
        let sent = error_of(io::Error::other("reset")).await;
        assert!(matches!(sent, Error::BadRequest(_)), "{sent}");
    }
}
