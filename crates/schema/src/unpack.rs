//! Compressed files of a package: constants by LZ4, significance models by Zstandard.

use std::io::Read;

use crate::package::unpacked_bytes_max;

/// Reason why a compressed file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The data are damaged, or in another form.
    #[error("cannot be unpacked as {form}: {reason}")]
    Damaged {
        /// Form of compression.
        form: &'static str,
        /// Reason of the decoder.
        reason: String,
    },
    /// The content is larger than packages may be.
    #[error("cannot be unpacked as {form}: it unpacks to more than {limit} bytes")]
    TooLarge {
        /// Form of compression.
        form: &'static str,
        /// Maximum size in bytes.
        limit: u64,
    },
}

/// The content of an LZ4 file: one or more frames.
///
/// # Errors
/// The data are damaged, or unpack to more than packages may have.
pub(crate) fn lz4(packed: &[u8]) -> Result<Vec<u8>, UnpackError> {
    bounded("LZ4", lz4_flex::frame::FrameDecoder::new(packed), packed.len())
}

/// The content of a Zstandard file: one or more frames.
///
/// # Errors
/// Those of [`lz4`].
pub(crate) fn zstd(packed: &[u8]) -> Result<Vec<u8>, UnpackError> {
    const FORM: &str = "Zstandard";
    let limit = unpacked_bytes_max(packed.len() as u64);
    let (mut rest, mut all) = (packed, Vec::new());
    while !rest.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|error| UnpackError::Damaged { form: FORM, reason: error.to_string() })?;
        all.extend(bounded(FORM, frame, packed.len())?);
        if all.len() as u64 > limit {
            return Err(UnpackError::TooLarge { form: FORM, limit });
        }
    }
    Ok(all)
}

fn bounded(form: &'static str, decoder: impl Read, packed_bytes: usize) -> Result<Vec<u8>, UnpackError> {
    let limit = unpacked_bytes_max(packed_bytes as u64);
    let mut unpacked = Vec::new();
    match decoder.take(limit + 1).read_to_end(&mut unpacked) {
        Ok(_) if unpacked.len() as u64 > limit => Err(UnpackError::TooLarge { form, limit }),
        Ok(_) => Ok(unpacked),
        Err(error) => Err(UnpackError::Damaged { form, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"values":[1,2]}`, by the tools `lz4` and `zstd`.
    const TEXT: &[u8] = br#"{"values":[1,2]}"#;
    const LZ4: &[u8] = include_bytes!("../tests/compressed/values.json.lz4");
    const ZSTD: &[u8] = include_bytes!("../tests/compressed/values.json.zst");

    #[test]
    fn files_of_the_tools_are_read() {
        assert_eq!(lz4(LZ4).expect("LZ4"), TEXT);
        assert_eq!(zstd(ZSTD).expect("Zstandard"), TEXT);
        let twice = [ZSTD, ZSTD].concat();
        assert_eq!(zstd(&twice).expect("two frames"), [TEXT, TEXT].concat());
    }

    #[test]
    fn damaged_files_are_refused() {
        for at in 0..LZ4.len() - 8 {
            assert!(lz4(&LZ4[..at]).map_or(true, |unpacked| unpacked != TEXT), "{at}");
        }
        for at in 1..ZSTD.len() - 4 {
            assert!(zstd(&ZSTD[..at]).is_err(), "{at}");
        }
        assert!(lz4(b"plain text").unwrap_err().to_string().contains("cannot be unpacked as LZ4"));
        assert!(zstd(b"plain text").unwrap_err().to_string().contains("cannot be unpacked as Zstandard"));
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; usize::try_from(unpacked_bytes_max(0)).expect("a size") + 1];
        let mut packed = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut packed, &zeros).expect("memory");
        let packed = packed.finish().expect("memory");
        if unpacked_bytes_max(packed.len() as u64) < zeros.len() as u64 {
            assert!(lz4(&packed).unwrap_err().to_string().contains("it unpacks to more than"));
        }
    }
}
