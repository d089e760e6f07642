//! Compression of responses with gzip, for clients that accept it.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body as _;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY};
use libdeflater::{CompressionLvl, Compressor};

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
    // The body is in memory (its size is known), so this neither waits nor fails.
    let Ok(plain) = body.collect().await.map(|collected| collected.to_bytes()) else {
        return Response::from_parts(parts, Body::empty());
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

    #[test]
    fn text_gets_smaller() {
        let text = "the same words again and again ".repeat(100);
        let mut compressor = Compressor::new(level());
        let mut packed = vec![0; compressor.gzip_compress_bound(text.len())];
        let written = compressor.gzip_compress(text.as_bytes(), &mut packed).expect("there is room");
        assert!(written < text.len() / 4, "{written}");
    }
}
