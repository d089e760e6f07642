//! Request bodies: read up to a limit, unpacked where they came packed.

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper::body::{Body as _, Bytes};
use hyper::header::CONTENT_ENCODING;
use libdeflater::{DecompressionError, Decompressor};

use crate::Error;

/// The whole body, unpacked; at most `limit` bytes, packed as well as unpacked.
pub(crate) async fn read_body(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Error> {
    let bytes = collect(body, limit).await?;
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(bytes) };
    match encoding.as_bytes() {
        b"identity" | b"" => Ok(bytes),
        b"gzip" | b"x-gzip" => gunzip(&bytes, limit).map(Bytes::from),
        other => Err(Error::BadRequest(format!(
            "content-encoding '{}' is not known; send the body with gzip, or as it is",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// The whole body as it came, of at most `limit` bytes.
pub(crate) async fn collect(body: Body, limit: usize) -> Result<Bytes, Error> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Error::TooLarge { limit });
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge { limit }),
        Err(error) => Err(Error::BadRequest(format!("the request body broke off: {error}"))),
    }
}

/// Unpacks one gzip member. The length that its trailer tells is taken as a first guess, never as an amount to trust.
fn gunzip(packed: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let told = match packed.last_chunk::<4>() {
        Some(trailer) => u32::from_le_bytes(*trailer) as usize,
        None => 0,
    };
    // Deflate packs at most 1032 to 1, so that a short body cannot ask for much memory.
    let ceiling = packed.len().saturating_mul(1032).min(limit);
    let mut size = told.clamp(1, ceiling.max(1));
    let mut decompressor = Decompressor::new();
    loop {
        let mut unpacked = vec![0; size];
        match decompressor.gzip_decompress(packed, &mut unpacked) {
            Ok(written) => {
                unpacked.truncate(written);
                return Ok(unpacked);
            }
            Err(DecompressionError::InsufficientSpace) if size >= limit => {
                return Err(Error::TooLarge { limit });
            }
            Err(DecompressionError::InsufficientSpace) if size < ceiling => {
                size = size.saturating_mul(2).min(ceiling);
            }
            Err(_) => {
                return Err(Error::BadRequest(
                    "the request body is not the gzip stream that content-encoding promises".to_owned(),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use libdeflater::{CompressionLvl, Compressor};

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut packed = vec![0; compressor.gzip_compress_bound(data.len())];
        let written = compressor.gzip_compress(data, &mut packed).expect("the bound is large enough");
        packed.truncate(written);
        packed
    }

    #[test]
    fn unpacks_what_was_packed() {
        for data in [&b""[..], b"x", &[7; 100_000]] {
            assert_eq!(gunzip(&gzip(data), 1 << 20).expect("it was packed just now"), data);
        }
    }

    proptest::proptest! {
        #[test]
        fn damage_is_an_error_or_another_body(at in 0usize..60, byte: u8) {
            let mut packed = gzip(b"a few words that are packed, a few words");
            let at = at % packed.len();
            packed[at] = byte;
            let _ = gunzip(&packed, 1 << 16);
        }
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        assert!(matches!(gunzip(&gzip(&[0; 1 << 20]), 1 << 16), Err(Error::TooLarge { limit: 65536 })));
    }

    #[test]
    fn a_trailer_that_lies_is_not_believed() {
        let mut packed = gzip(&[1; 5000]);
        let end = packed.len() - 4;
        packed[end..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(gunzip(&packed, 1 << 20), Err(Error::BadRequest(_))));
        assert!(matches!(gunzip(b"not gzip", 1 << 20), Err(Error::BadRequest(_))));
        assert!(matches!(gunzip(b"", 1 << 20), Err(Error::BadRequest(_))));
    }
}
