//! Zstandard streams, unpacked as they come.

use std::io::{self, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Largest window in bytes, the least that every decoder must support (RFC 8878). Levels up to 19 of the
/// `zstd` command need no more; `--long` and `--ultra` do.
const WINDOW_BYTES_MAX: usize = 8 << 20;

/// Memory in bytes of a stream while it is unpacked: the window, in a buffer that grows by doubling.
pub const ZSTD_BYTES: usize = 2 * WINDOW_BYTES_MAX;

/// Number of bytes with which a frame begins.
const MAGIC_BYTES: usize = 4;

/// The unpacked content of all frames of a source.
pub struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
    /// Fault of a source that cannot be unpacked, before the reason.
    fault: &'static str,
}

impl<R: Read> ZstdReader<R> {
    /// Creates a reader. `fault` begins the message of a source that cannot be unpacked.
    pub fn new(source: R, fault: &'static str) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX as u64);
        ZstdReader { source, decoder, is_in_frame: false, fault }
    }

    /// Begins the next frame with content; false at the end of the source.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            let mut magic = Vec::with_capacity(MAGIC_BYTES);
            self.source.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
            if magic.is_empty() {
                return Ok(false);
            }
            match self.decoder.init((&magic[..]).chain(&mut self.source)) {
                Ok(()) => {
                    self.is_in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(self.damaged("it breaks off"));
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                    return Err(self.damaged(&format!(
                        "its window of {requested} bytes is larger than {WINDOW_BYTES_MAX}; pack it without \
                         --long and --ultra"
                    )));
                }
                Err(FrameDecoderError::DictNotProvided { .. }) => {
                    return Err(self.damaged("it needs a dictionary; pack it without one"));
                }
                Err(error) => return Err(self.damaged(&error.to_string())),
            }
        }
    }

    fn damaged(&self, reason: &str) -> io::Error {
        io::Error::other(format!("{}: {reason}", self.fault))
    }

    /// Ends a frame whose content was read.
    fn end(&mut self) -> io::Result<()> {
        self.is_in_frame = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => Err(self.damaged("its checksum is wrong")),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame && !self.begin()? {
                return Ok(0);
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.end()?;
                continue;
            }
            let decoded = self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
            decoded.map_err(|error| self.damaged(&error.to_string()))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    /// Unpacks; the error as text behind what came before it.
    fn unpacked(packed: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut all = Vec::new();
        let error = ZstdReader::new(packed, "it is not the zstd stream").read_to_end(&mut all).err();
        (all, error.map(|error| error.to_string()))
    }

    #[test]
    fn frames_that_follow_each_other_are_one_stream() {
        let long = b"a few words that are packed, ".repeat(100_000);
        for text in [&b""[..], b"x", &long] {
            assert_eq!(unpacked(&packed(text)), (text.to_vec(), None));
        }
        // A frame without content, as tools write it, between two others.
        let skipped = [&0x184D_2A53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"notes"].concat();
        let all = [packed(b"one"), skipped, packed(b""), packed(b"two")].concat();
        assert_eq!(unpacked(&all), (b"onetwo".to_vec(), None));
        assert_eq!(unpacked(b""), (Vec::new(), None));
    }

    #[test]
    fn what_is_damaged_is_an_error_behind_what_came_before() {
        #[track_caller]
        fn check(bytes: &[u8], before: &[u8], reason: &str) {
            let (found, error) = unpacked(bytes);
            let error = error.expect("it is damaged");
            assert!(found.starts_with(before) && error.contains(reason), "{error} is not {reason}");
        }
        let text = packed(&b"a few words that are packed, ".repeat(100_000));
        for cut in (1..text.len()).step_by(text.len() / 50 + 1) {
            check(&text[..cut], b"", "is not the zstd stream");
        }
        check(b"plain text", b"", "is not the zstd stream");
        check(&[packed(b"one"), b"two".to_vec()].concat(), b"one", "is not the zstd stream");
        let mut wrong = text.clone();
        *wrong.last_mut().expect("it has a checksum") ^= 1;
        check(&wrong, b"a few words", "checksum");
        // A window of 16 MB: descriptor 14 << 3 above 1 KB.
        check(&[0x28, 0xB5, 0x2F, 0xFD, 0, 14 << 3, 1, 0, 0], b"", "without --long");
        check(&[0x28, 0xB5, 0x2F, 0xFD, 1, 1 << 3, 7, 1, 0, 0], b"", "dictionary");
        check(&[0x50, 0x2A, 0x4D, 0x18, 9, 0, 0, 0, 1], b"", "breaks off");
    }
}
