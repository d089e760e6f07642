//! Compressed files of a package: constants by LZ4, significance models by Zstandard.

use std::io::{self, Read};

use crate::package::unpacked_bytes_max;

/// The content of an LZ4 file: one or more frames.
///
/// # Errors
/// The text gives the cause, such as damaged data or a size beyond the limit of packages.
pub(crate) fn lz4(packed: &[u8]) -> Result<Vec<u8>, String> {
    bounded(lz4_flex::frame::FrameDecoder::new(packed), packed.len())
        .map_err(|reason| format!("cannot be unpacked as LZ4: {reason}"))
}

/// The content of a Zstandard file: one or more frames.
///
/// # Errors
/// As for [`lz4`].
pub(crate) fn zstd(packed: &[u8]) -> Result<Vec<u8>, String> {
    let describe = |reason: String| format!("cannot be unpacked as Zstandard: {reason}");
    let (mut rest, mut all) = (packed, Vec::new());
    while !rest.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|error| describe(error.to_string()))?;
        all.extend(bounded(frame, packed.len()).map_err(describe)?);
        if all.len() as u64 > unpacked_bytes_max(packed.len() as u64) {
            return Err(describe(too_large(packed.len())));
        }
    }
    Ok(all)
}

fn bounded(decoder: impl Read, packed_bytes: usize) -> Result<Vec<u8>, String> {
    let limit = unpacked_bytes_max(packed_bytes as u64);
    let mut unpacked = Vec::new();
    let read = decoder.take(limit + 1).read_to_end(&mut unpacked);
    match read.map_err(|error: io::Error| error.to_string()) {
        Ok(_) if unpacked.len() as u64 > limit => Err(too_large(packed_bytes)),
        Ok(_) => Ok(unpacked),
        Err(reason) => Err(reason),
    }
}

fn too_large(packed_bytes: usize) -> String {
    format!("it unpacks to more than {} bytes", unpacked_bytes_max(packed_bytes as u64))
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
        assert!(lz4(b"plain text").unwrap_err().contains("cannot be unpacked as LZ4"));
        assert!(zstd(b"plain text").unwrap_err().contains("cannot be unpacked as Zstandard"));
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; usize::try_from(unpacked_bytes_max(0)).expect("a size") + 1];
        let mut packed = lz4_flex::frame::FrameEncoder::new(Vec::new());
        io::Write::write_all(&mut packed, &zeros).expect("memory");
        let packed = packed.finish().expect("memory");
        if unpacked_bytes_max(packed.len() as u64) < zeros.len() as u64 {
            assert!(lz4(&packed).unwrap_err().contains("it unpacks to more than"));
        }
    }
}
