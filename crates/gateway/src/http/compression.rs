//! Compression of responses with gzip, for clients that accept it.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, RETRY_AFTER, VARY};
use hyper::{HeaderMap, StatusCode};
use libdeflater::{CompressionLvl, Compressor};
use serde_json::json;

use super::json;

/// Maximum size of responses that are not compressed, in bytes: they fit a packet, and compression costs more
/// than it saves.
const PLAIN_BYTES_MAX: u64 = 1200;

/// Maximum size of responses compressed on this thread, in bytes: more would block the threads that wait for
/// sockets.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Compresses the response if the request accepts gzip.
pub(crate) async fn compress_response(request: Request, next: Next) -> Response {
    let accepted = accepts_gzip(request.headers());
    let response = next.run(request).await;
    if accepted { pack(response).await } else { response }
}

/// Compresses a response that is completely in memory; streams pass unchanged.
pub(crate) async fn pack(response: Response) -> Response {
    let worth_it = response.body().size_hint().exact().is_some_and(|size| size > PLAIN_BYTES_MAX);
    if !worth_it || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is in memory, or has a known size and comes from another node, which can stop meanwhile.
    let plain = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return broken_off(&error),
    };
    let packed = if plain.len() <= INLINE_BYTES_MAX {
        gzip(&plain)
    } else {
        let copy = plain.clone();
        // The task is neither cancelled nor panics; if it did, the response is sent as it is.
        tokio::task::spawn_blocking(move || gzip(&copy)).await.unwrap_or(None)
    };
    let Some(packed) = packed else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

/// Answer in place of one of which only a part has come from another node: a status by which clients do not
/// take a change as refused.
fn broken_off(error: &axum::Error) -> Response {
    let causes = millrace_env::text_with_causes(error);
    let message = format!(
        "the answer of another node broke off: {causes}; whether it was written is not known: try again in a moment"
    );
    let mut response = json(StatusCode::GATEWAY_TIMEOUT, &json!({ "message": message }));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Returns the compressed bytes; `None` if compression fails.
fn gzip(plain: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(level());
    let mut packed = vec![0; compressor.gzip_compress_bound(plain.len())];
    let written = compressor.gzip_compress(plain, &mut packed).ok()?;
    packed.truncate(written);
    Some(packed)
}

/// Fastest level that compresses: the one that the library calls the fastest stores bytes as they are.
fn level() -> CompressionLvl {
    CompressionLvl::new(1).unwrap_or_default()
}

/// True if the client accepts gzip, by the headers of its request.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|offer| {
            let mut parts = offer.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts.any(|part| matches!(part, "q=0" | "q=0.0"));
            named && !refused
        })
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Bytes, Frame, SizeHint};

    use super::*;

    #[test]
    fn who_accepts_gzip() {
        #[track_caller]
        fn check(value: &str, expected: bool) {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).expect("a header value"));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        check("gzip", true);
        check("deflate, GZIP;q=0.5", true);
        check("br", false);
        check("gzip;q=0", false);
    }

    /// A body of a known size that breaks off, as one of another node.
    struct BrokenBody;

    impl hyper::body::Body for BrokenBody {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(PLAIN_BYTES_MAX + 1)
        }
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_before_it_is_sent_is_an_error() {
        let response = pack(Response::new(Body::new(BrokenBody))).await;
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert!(response.headers().contains_key(RETRY_AFTER));
        let body = response.into_body().collect().await.expect("it is in memory").to_bytes();
        let message = crate::status::message_of(&body);
        assert!(message.starts_with("the answer of another node broke off: "), "{message}");
    }

    #[test]
    fn text_gets_smaller() {
        let text = "the same words again and again ".repeat(100);
        let mut compressor = Compressor::new(level());
        let mut packed = vec![0; compressor.gzip_compress_bound(text.len())];
        let written = compressor.gzip_compress(text.as_bytes(), &mut packed).expect("there is room");
        assert!(written < text.len() / 4, "{written}");
    }
}
