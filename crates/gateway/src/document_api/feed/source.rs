//! The bytes of a body, unpacked, for a thread that may block.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use millrace_env::{ZSTD_BYTES, ZstdReader};
use millrace_node::Error;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::answer::FeedBreak;
use crate::http::check_ratio;

/// Fault of a body that is not packed by zstd, or damaged.
const NOT_ZSTD: &str = "the body is not the zstd stream that content-encoding promises";

/// Form in which a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackedForm {
    Plain,
    Gzip,
    Zstd,
}

impl PackedForm {
    /// Form that a header names.
    ///
    /// # Errors
    /// It names another one.
    pub(super) fn from_header(encoding: Option<&HeaderValue>) -> Result<Self, Error> {
        // Names of encodings have no case.
        let encoding = encoding.map_or(&b""[..], HeaderValue::as_bytes).to_ascii_lowercase();
        match &encoding[..] {
            b"" | b"identity" => Ok(PackedForm::Plain),
            b"gzip" | b"x-gzip" => Ok(PackedForm::Gzip),
            b"zstd" => Ok(PackedForm::Zstd),
            other => Err(Error::BadRequest(format!(
                "content-encoding '{}' is not known; send the feed with gzip or zstd, or as it is",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// Memory in bytes for the unpacking.
    pub(super) fn bytes(self) -> usize {
        match self {
            PackedForm::Plain | PackedForm::Gzip => 0,
            PackedForm::Zstd => ZSTD_BYTES,
        }
    }

    /// Returns the unpacked bytes of `frames`. They end with an error where they are too many for the bytes
    /// that were sent: a few of these could keep a thread busy for hours.
    pub(super) fn unpack(self, frames: FrameSource) -> Box<dyn Read> {
        let (packed, failure) = (Rc::clone(&frames.received), frames.failure.clone());
        let source: Box<dyn Read> = match self {
            PackedForm::Plain => return Box::new(frames),
            PackedForm::Gzip => Box::new(MultiGzDecoder::new(frames)),
            PackedForm::Zstd => Box::new(ZstdReader::new(frames, NOT_ZSTD)),
        };
        Box::new(UnpackedSource { source, packed, unpacked: 0, failure })
    }
}

/// The bytes of a packed body, within their ratio to those that were sent.
struct UnpackedSource {
    source: Box<dyn Read>,
    /// Bytes received so far.
    packed: Rc<Cell<usize>>,
    unpacked: usize,
    failure: SourceFailure,
}

impl Read for UnpackedSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.unpacked += count;
        check_ratio(self.packed.get(), self.unpacked).map_err(|error| self.failure.keep(&error))?;
        Ok(count)
    }
}

/// Reason why a source failed, as an error for the client; a reader gives only its text.
#[derive(Clone, Default)]
pub(super) struct SourceFailure(Arc<Mutex<Option<FeedBreak>>>);

impl SourceFailure {
    /// Keeps the reason, and returns an error for the reader.
    pub(super) fn keep(&self, error: &Error) -> io::Error {
        let broken = FeedBreak::from_error(error);
        let text = broken.message.clone();
        *self.0.lock() = Some(broken);
        io::Error::other(text)
    }

    /// Takes the reason, if there is one.
    pub(super) fn take(&self) -> Option<FeedBreak> {
        self.0.lock().take()
    }
}

/// A frame of a body, or its end.
pub(super) enum BodyFrame {
    Bytes(Bytes),
    End,
    Broken(Error),
}

/// The frames of a body as bytes. It calls a function before it waits for the next frame.
pub(super) struct FrameSource {
    frames: mpsc::Receiver<BodyFrame>,
    frame: Bytes,
    /// Bytes received so far.
    received: Rc<Cell<usize>>,
    is_ended: bool,
    before_wait: Box<dyn FnMut() -> io::Result<()>>,
    failure: SourceFailure,
}

impl FrameSource {
    pub(super) fn new(
        frames: mpsc::Receiver<BodyFrame>,
        failure: SourceFailure,
        before_wait: Box<dyn FnMut() -> io::Result<()>>,
    ) -> Self {
        let received = Rc::default();
        FrameSource { frames, frame: Bytes::new(), received, is_ended: false, before_wait, failure }
    }
}

impl Read for FrameSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.is_empty() && !self.is_ended {
            let next = match self.frames.try_recv() {
                Ok(next) => Some(next),
                Err(mpsc::error::TryRecvError::Disconnected) => None,
                Err(mpsc::error::TryRecvError::Empty) => {
                    (self.before_wait)()?;
                    self.frames.blocking_recv()
                }
            };
            match next {
                Some(BodyFrame::Bytes(frame)) => {
                    self.received.set(self.received.get() + frame.len());
                    self.frame = frame;
                }
                Some(BodyFrame::End) => self.is_ended = true,
                Some(BodyFrame::Broken(error)) => return Err(self.failure.keep(&error)),
                None => {
                    let error =
                        Error::Internal("the server stopped reading the body; see its log".to_owned());
                    return Err(self.failure.keep(&error));
                }
            }
        }
        let count = self.frame.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.frame.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body of `frames` whose sender ends without a word.
    fn read(frames: Vec<BodyFrame>) -> (io::Result<usize>, String) {
        let (sender, receiver) = mpsc::channel(8);
        frames.into_iter().for_each(|frame| assert!(sender.try_send(frame).is_ok(), "there is room"));
        drop(sender);
        let mut text = String::new();
        let mut source = FrameSource::new(receiver, SourceFailure::default(), Box::new(|| Ok(())));
        (source.read_to_string(&mut text), text)
    }

    #[test]
    fn only_a_body_with_an_end_is_whole() {
        let bytes = |text: &'static str| BodyFrame::Bytes(Bytes::from_static(text.as_bytes()));
        let (whole, text) = read(vec![bytes("a"), bytes(""), bytes("b"), BodyFrame::End]);
        assert_eq!((whole.expect("it ends"), &*text), (2, "ab"));
        // The task that receives the body has failed.
        let (lost, _) = read(vec![bytes("a")]);
        let message = lost.expect_err("it has no end").to_string();
        assert!(message.contains("stopped reading the body"), "{message}");
        let (broken, _) = read(vec![bytes("a"), BodyFrame::Broken(Error::Overloaded)]);
        assert!(broken.is_err());
    }

    #[test]
    fn what_unpacks_to_far_more_than_was_sent_ends() {
        use std::io::Write;

        use flate2::Compression;
        use flate2::write::GzEncoder;
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};

        let gzip = |body: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body).expect("memory");
            encoder.finish().expect("memory")
        };
        let zstd = |body: &[u8]| compress_to_vec(body, CompressionLevel::Fastest);
        let mut number = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (number >> 28) as u8
        })
        .take(3 << 20)
        .collect();
        let unpacked = |form: PackedForm, packed: Vec<u8>| {
            let (sender, receiver) = mpsc::channel(8);
            for frame in [BodyFrame::Bytes(packed.into()), BodyFrame::End] {
                assert!(sender.try_send(frame).is_ok(), "there is room");
            }
            let failure = SourceFailure::default();
            let frames = FrameSource::new(receiver, failure.clone(), Box::new(|| Ok(())));
            let read = io::copy(&mut form.unpack(frames), &mut io::sink());
            (read.ok(), failure.take().map(|failure| (failure.status, failure.message)))
        };
        let pack = |form, body: &[u8]| match form {
            PackedForm::Gzip => gzip(body),
            PackedForm::Zstd => zstd(body),
            PackedForm::Plain => body.to_vec(),
        };
        for form in [PackedForm::Gzip, PackedForm::Zstd] {
            for body in [&vec![b'\n'; 1 << 20], &noise] {
                assert_eq!(unpacked(form, pack(form, body)), (Some(body.len() as u64), None), "{form:?}");
            }
            let (read, failure) = unpacked(form, pack(form, &vec![b'\n'; 64 << 20]));
            let (status, message) = failure.expect("it is refused");
            assert!(read.is_none() && message.contains("more than 100 times"), "{form:?}: {message}");
            assert_eq!(status, 413, "{form:?}");
        }
    }
}
