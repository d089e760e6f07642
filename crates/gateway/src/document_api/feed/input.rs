//! The body of a feed: received, unpacked, and split into pieces of operations.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Bytes;
use millrace_document::json::{FeedOperation, FeedPosition, FeedReader};
use millrace_node::Error;
use millrace_table::ReadRow;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::answer::FeedBreak;
use super::key::{BodyDigest, Sha256Digest};
use super::operation::ReceivedOperation;
use super::source::{BodyFrame, FrameSource, PackedForm, SourceFailure};
use super::table::FeedFormat;
use super::{DocumentCall, PIECE_BYTES, PIECE_OPERATIONS};
use crate::http::{BodyReader, BudgetReservation};

/// Receives the body, as fast as its bytes are taken.
pub(super) struct BodyPump {
    /// `None` if the body was read before.
    pub(super) reader: Option<BodyReader>,
    pub(super) frames: mpsc::Sender<BodyFrame>,
    pub(super) digest: Option<PumpDigest>,
}

/// The digest of a body that is being received.
pub(super) struct PumpDigest {
    pub(super) digest: BodyDigest,
    /// Gets the digest of a body that has ended.
    pub(super) done: oneshot::Sender<Sha256Digest>,
}

impl BodyPump {
    /// Runs until the body ends, or nothing more of it is needed.
    pub(super) async fn run(mut self, first: Option<Bytes>) {
        let mut next = Ok(first);
        // False if the stream was stopped: then the rest of the body is only received.
        let mut is_taken = true;
        loop {
            let frame = match next {
                Ok(Some(bytes)) => {
                    if let Some(pump) = &mut self.digest {
                        pump.digest.add(&bytes);
                    }
                    BodyFrame::Bytes(bytes)
                }
                Ok(None) => {
                    if let Some(PumpDigest { digest, done }) = self.digest.take() {
                        // The stream may have ended by a panic.
                        let _ = done.send(digest.finish());
                    }
                    BodyFrame::End
                }
                Err(error) => BodyFrame::Broken(error),
            };
            let is_last = !matches!(frame, BodyFrame::Bytes(_));
            is_taken = is_taken && self.frames.send(frame).await.is_ok();
            if is_last {
                return;
            }
            next = match &mut self.reader {
                Some(reader) => reader.next().await,
                None => Ok(None),
            };
        }
    }
}

/// An operation of the stream.
pub(super) struct FeedItem {
    /// Number in the stream, from 1.
    pub(super) number: u64,
    pub(super) position: FeedPosition,
    /// Offset in bytes of its end.
    pub(super) end: u64,
    /// The operation, or the reason why the text is not one.
    pub(super) operation: Result<ReceivedOperation, FeedBreak>,
}

/// Operations that follow each other.
#[derive(Default)]
pub(super) struct FeedPiece {
    pub(super) items: Vec<FeedItem>,
    /// Reason why nothing follows, if the stream is not at its end.
    pub(super) stopped: Option<FeedBreak>,
    /// True if the stream ends with this piece. A stream without an end was not read to it.
    pub(super) is_end: bool,
    /// Size of the operations, in bytes.
    bytes: usize,
    /// Memory of operations that are larger than a piece, or of a batch of rows.
    _room: Option<BudgetReservation>,
}

/// Splits a body into pieces, on a thread of its own.
pub(super) struct OperationSplitter {
    call: Arc<DocumentCall>,
    frames: mpsc::Receiver<BodyFrame>,
    form: PackedForm,
    format: FeedFormat,
    pieces: mpsc::Sender<FeedPiece>,
    handle: Handle,
}

/// The piece that is being gathered.
struct GatheredPiece {
    piece: FeedPiece,
    pieces: mpsc::Sender<FeedPiece>,
    /// Bytes read from the source.
    read: u64,
    /// Offset of the end of the last operation.
    end: u64,
    room: Option<BudgetReservation>,
    /// True while further rows of a batch follow: its memory is held until the last one.
    is_within_batch: bool,
}

impl GatheredPiece {
    /// Hands the piece on, if there is something in it.
    fn send_piece(&mut self) -> io::Result<()> {
        if self.piece.items.is_empty() && self.piece.stopped.is_none() && !self.piece.is_end {
            return Ok(());
        }
        let mut piece = std::mem::take(&mut self.piece);
        piece._room = self.room.take_if(|_| !self.is_within_batch);
        let is_gone = |_| io::Error::other("the stream was stopped");
        self.pieces.blocking_send(piece).map_err(is_gone)
    }
}

impl OperationSplitter {
    pub(super) fn new(
        call: &Arc<DocumentCall>,
        frames: mpsc::Receiver<BodyFrame>,
        form: PackedForm,
        format: FeedFormat,
        pieces: mpsc::Sender<FeedPiece>,
    ) -> Self {
        OperationSplitter { call: Arc::clone(call), frames, form, format, pieces, handle: Handle::current() }
    }

    /// Runs until the body ends, cannot be read further, or the pieces are no longer taken.
    pub(super) fn run(self) {
        let OperationSplitter { call, frames, form, format, pieces, handle } = self;
        let failure = SourceFailure::default();
        let gathered = Rc::new(RefCell::new(GatheredPiece {
            piece: FeedPiece::default(),
            pieces,
            read: 0,
            end: 0,
            room: None,
            is_within_batch: false,
        }));
        let waiting = Rc::clone(&gathered);
        let before_wait = Box::new(move || waiting.borrow_mut().send_piece());
        let frames = FrameSource::new(frames, failure.clone(), before_wait);
        let source = ReservingSource {
            source: form.unpack(frames),
            gathered: Rc::clone(&gathered),
            call: Arc::clone(&call),
            handle,
            failure: failure.clone(),
        };
        let is_taken = match format {
            FeedFormat::Json => {
                let limit = call.node.settings().request_bytes_max;
                let mut operations = FeedReader::with_limit(source, limit);
                gather(&gathered, || operations.next(), GatheredPiece::take, &failure)
            }
            FeedFormat::Table(table) => match table.rows(&call, source) {
                Ok(mut rows) => gather(&gathered, || rows.next(), GatheredPiece::take_row, &failure),
                Err(refused) => {
                    gathered.borrow_mut().piece.stopped = Some(failure.take().unwrap_or(refused));
                    true
                }
            },
        };
        if is_taken {
            let mut gathered = gathered.borrow_mut();
            gathered.piece.is_end = true;
            // If it is not taken, the stream was stopped.
            let _ = gathered.send_piece();
        }
    }
}

/// Gathers the operations of a source in pieces. Returns false if a piece is not taken.
fn gather<T>(
    gathered: &RefCell<GatheredPiece>,
    mut next: impl FnMut() -> Option<T>,
    take: impl Fn(&mut GatheredPiece, u64, T) -> Result<(), FeedBreak>,
    failure: &SourceFailure,
) -> bool {
    let mut number = 0;
    while let Some(next) = next() {
        number += 1;
        let mut gathered = gathered.borrow_mut();
        if let Err(unreadable) = take(&mut gathered, number, next) {
            gathered.piece.stopped = Some(failure.take().unwrap_or(unreadable));
        }
        let piece = &gathered.piece;
        let is_full = piece.bytes >= PIECE_BYTES || piece.items.len() >= PIECE_OPERATIONS;
        if (is_full || piece.stopped.is_some()) && gathered.send_piece().is_err() {
            return false;
        }
    }
    true
}

impl GatheredPiece {
    /// Takes an operation, or text that is not one.
    ///
    /// # Errors
    /// The text cannot be read further.
    fn take(
        &mut self,
        number: u64,
        operation: Result<FeedOperation, millrace_document::Error>,
    ) -> Result<(), FeedBreak> {
        let (position, operation) = match operation {
            Ok(operation) => {
                let position = operation.position;
                self.end = position.offset + operation.json.len() as u64;
                self.piece.bytes += operation.json.len();
                (position, Ok(ReceivedOperation::Json(operation)))
            }
            Err(millrace_document::Error::Operation { position, reason }) => {
                self.end = self.end.max(position.offset);
                (position, Err(unreadable(reason)))
            }
            Err(error) => return Err(unreadable(error.to_string())),
        };
        self.piece.items.push(FeedItem { number, position, end: self.end, operation });
        Ok(())
    }

    /// Takes a row, or one that is no document.
    ///
    /// # Errors
    /// The table cannot be read further.
    fn take_row(
        &mut self,
        number: u64,
        row: Result<ReadRow, millrace_table::Error>,
    ) -> Result<(), FeedBreak> {
        let ReadRow { row, position, end, is_last } = row.map_err(|error| unreadable(error.to_string()))?;
        (self.end, self.is_within_batch) = (end, !is_last);
        let operation = row
            .map(|(id, row)| ReceivedOperation::Row { id, row })
            .map_err(|error| unreadable(error.to_string()));
        self.piece.bytes += operation.as_ref().map_or(0, ReceivedOperation::bytes);
        self.piece.items.push(FeedItem { number, position, end, operation });
        Ok(())
    }
}

fn unreadable(reason: String) -> FeedBreak {
    FeedBreak::from_error(&Error::BadRequest(reason))
}

/// A source that reserves memory for operations that are larger than a piece.
struct ReservingSource {
    source: Box<dyn Read>,
    gathered: Rc<RefCell<GatheredPiece>>,
    call: Arc<DocumentCall>,
    handle: Handle,
    failure: SourceFailure,
}

impl Read for ReservingSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        let mut gathered = self.gathered.borrow_mut();
        gathered.read += count as u64;
        let held = usize::try_from(gathered.read - gathered.end).unwrap_or(usize::MAX);
        if held > 2 * PIECE_BYTES {
            self.reserve(&mut gathered, held)?;
        }
        Ok(count)
    }
}

impl ReservingSource {
    /// Reserves room for a large operation of which there are `held` bytes.
    fn reserve(&self, gathered: &mut GatheredPiece, held: usize) -> io::Result<()> {
        // Longer text is not held: it is skipped.
        let bytes_max = held.next_power_of_two().min(self.call.node.settings().request_bytes_max);
        let share = gathered.room.get_or_insert_with(|| self.call.share());
        let began = Instant::now();
        loop {
            match self.handle.block_on(share.grow_to(bytes_max)) {
                Ok(()) => return Ok(()),
                Err(Error::NoRoom { .. }) if began.elapsed() < self.call.timeout => {}
                Err(error) => return Err(self.failure.keep(&error)),
            }
        }
    }
}
