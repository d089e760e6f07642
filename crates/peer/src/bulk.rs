//! Transfers: contents of a replica in parcels; lists of versions; bodies. One question after another over a
//! connection of its own, on blocking threads.
//!
//! A question is a message: its length in 4 bytes, then a [`TransferQuestion`]; so is an answer. An export
//! lists its parcels; each is then requested by its index, from a byte offset on, and the next may be
//! requested while one arrives. A parcel's bytes follow its answer in pieces, each after its length in 4
//! bytes; the last is empty. The receiver checks them by the checksums in them.

use std::io::{self, BufReader, BufWriter, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DroppedScope};
use millrace_trust::NodeTrust;

use crate::Error;
use crate::greeting::{ConnectionGreeting, PeerAddress, PeerChannel};
use crate::protocol::ConnectionProtocol;
use crate::stream::BulkStream;
use crate::transfer::{ParcelHead, PeerVersionPage, TransferAnswer, TransferKind, TransferQuestion};

/// Part of a replica's contents, which becomes one file of another replica.
pub trait TransferParcel {
    /// Header, sent before its bytes.
    fn head(&self) -> ParcelHead;

    /// Lengths of the parts of its file that can be checked one by one; empty if they are not known in
    /// advance.
    fn outline(&self) -> Vec<u32>;

    /// Writes its bytes from an offset on, the same each time.
    ///
    /// # Errors
    /// They cannot be read, or `out` cannot be written.
    fn write_to(&self, from: u64, out: &mut (dyn Write + Send)) -> io::Result<()>;
}

/// Failure of a source to read what another node asks for. Its text is sent to that node.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TransferFault(Box<dyn std::error::Error + Send + Sync>);

impl TransferFault {
    /// Failure by this error.
    pub fn of(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        TransferFault(error.into())
    }
}

/// Source of transfers. Called on threads that may block.
pub trait TransferSource: Send + Sync {
    /// Exports the current contents of these buckets.
    ///
    /// # Errors
    /// They cannot be read.
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn TransferParcel>>, TransferFault>;

    /// Returns the newest remembered versions in a bucket, including removals, after the position that the
    /// previous page returned.
    ///
    /// # Errors
    /// They cannot be read.
    fn versions(&self, bucket: BucketId, after: Option<&str>) -> Result<PeerVersionPage, TransferFault>;

    /// Returns the remembered drops that affect a bucket.
    ///
    /// # Errors
    /// They cannot be read.
    fn drops(&self, bucket: BucketId) -> Result<Vec<DroppedScope>, TransferFault>;

    /// Returns the newest versions of these documents, in their order; missing ones are left out. Only the
    /// first ones, at least one, if all would be too much for one answer.
    ///
    /// # Errors
    /// They cannot be read.
    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, TransferFault>;
}

/// Maximum size of a question or an answer, in bytes; parcels are sent in smaller pieces.
const BYTES_MAX: usize = 256 << 20;

/// The other node does not keep to the order of questions and answers.
const UNEXPECTED_ANSWER: Error = Error::Message("an answer is not one to the question");

/// Size of the pieces of a parcel, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Time without a byte after which the connection is closed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Time without a question after which the connection is closed: the asking node writes received data to its
/// disk before it continues.
pub(crate) const QUESTION_TIMEOUT: Duration = Duration::from_secs(300);

/// Timeout of connecting to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a node for one transfer.
pub struct TransferConnection {
    address: String,
    protocol: ConnectionProtocol,
    stream: BufReader<BulkStream>,
}

impl TransferConnection {
    /// Connects to a node; with `trust`, encrypted and to trusted nodes only. If another run of a process
    /// listens at its address, the first question is refused.
    ///
    /// # Errors
    /// It cannot be reached, or is not trusted.
    pub fn connect(peer: &PeerAddress, trust: Option<&NodeTrust>) -> Result<Self, Error> {
        let address = &peer.address;
        let connect = || {
            let mut stream = BulkStream::connect(address, trust, CONNECT_TIMEOUT, SILENCE_MAX)?;
            stream.write_all(&peer.greeting(PeerChannel::Bulk))?;
            // Small: larger data is read directly to its destination.
            Ok(BufReader::with_capacity(4 << 10, stream))
        };
        let stream = connect().map_err(|source| Error::Connection { address: address.to_owned(), source })?;
        let protocol = peer.connection_protocol();
        Ok(TransferConnection { address: address.to_owned(), protocol, stream })
    }

    /// Requests the current contents of these buckets. The node keeps them until the next export, or until
    /// the connection ends.
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn export(&mut self, buckets: &[BucketId]) -> Result<Vec<ParcelHead>, Error> {
        match self.ask(TransferKind::Export, &TransferQuestion::Export(buckets.to_vec()))? {
            TransferAnswer::Export(heads) => Ok(heads),
            _ => Err(UNEXPECTED_ANSWER),
        }
    }

    /// Requests a parcel of the last export, by its index, from a byte offset on. It arrives after those
    /// requested before: each is read by [`TransferConnection::outline`], and then
    /// [`TransferConnection::piece`] until there is none.
    ///
    /// # Errors
    /// The connection broke.
    pub fn request(&mut self, place: usize, from: u64) -> Result<(), Error> {
        self.send(&TransferQuestion::Parcel { place: place as u64, from })
    }

    /// Begins to read the parcel that was requested first; returns its [`TransferParcel::outline`].
    ///
    /// # Errors
    /// The connection broke, or the node has no such parcel.
    pub fn outline(&mut self) -> Result<Vec<u32>, Error> {
        match self.answer(TransferKind::Parcel)? {
            TransferAnswer::Parcel(outline) => Ok(outline),
            _ => Err(UNEXPECTED_ANSWER),
        }
    }

    /// Reads the next bytes of a parcel, which replace the contents of `piece`. Returns false at the end of
    /// the parcel.
    ///
    /// # Errors
    /// The connection broke.
    pub fn piece(&mut self, piece: &mut Vec<u8>) -> Result<bool, Error> {
        let mut read = || {
            let length = read_length(&mut self.stream)?;
            piece.resize(length, 0);
            self.stream.read_exact(piece)
        };
        let outcome = read();
        outcome.map_err(|source| self.broken(source))?;
        Ok(!piece.is_empty())
    }

    /// Requests [`TransferSource::versions`].
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn versions(&mut self, bucket: BucketId, after: Option<&str>) -> Result<PeerVersionPage, Error> {
        let question = TransferQuestion::Versions { bucket, after: after.map(str::to_owned) };
        match self.ask(TransferKind::Versions, &question)? {
            TransferAnswer::Versions(page) => Ok(page),
            _ => Err(UNEXPECTED_ANSWER),
        }
    }

    /// Requests [`TransferSource::drops`].
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn drops(&mut self, bucket: BucketId) -> Result<Vec<DroppedScope>, Error> {
        match self.ask(TransferKind::Drops, &TransferQuestion::Drops(bucket))? {
            TransferAnswer::Drops(drops) => Ok(drops),
            _ => Err(UNEXPECTED_ANSWER),
        }
    }

    /// Requests [`TransferSource::bodies`].
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn bodies(&mut self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, Error> {
        match self.ask(TransferKind::Bodies, &TransferQuestion::Bodies(ids.to_vec()))? {
            TransferAnswer::Bodies(versions) => Ok(versions),
            _ => Err(UNEXPECTED_ANSWER),
        }
    }

    fn ask(&mut self, kind: TransferKind, question: &TransferQuestion) -> Result<TransferAnswer, Error> {
        self.send(question)?;
        self.answer(kind)
    }

    fn send(&mut self, question: &TransferQuestion) -> Result<(), Error> {
        let question = self.protocol.write_question(question);
        write_message(self.stream.get_mut(), &question).map_err(|source| self.broken(source))
    }

    fn answer(&mut self, kind: TransferKind) -> Result<TransferAnswer, Error> {
        let answer = read_message(&mut self.stream).map_err(|source| self.broken(source))?;
        match self.protocol.read_answer(kind, &answer)? {
            TransferAnswer::Refused(reason) => Err(Error::Refused { address: self.address.clone(), reason }),
            answer => Ok(answer),
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Connection { address: self.address.clone(), source }
    }
}

/// Answers the questions of one connection until it ends, on a thread that may block.
///
/// # Errors
/// The connection broke, is not one for transfers, or a message is not a question.
pub fn serve_bulk(mut stream: TcpStream, source: &dyn TransferSource) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    stream.set_read_timeout(Some(QUESTION_TIMEOUT))?;
    match ConnectionGreeting::read_blocking(&mut stream)? {
        (protocol, ConnectionGreeting { channel: PeerChannel::Bulk, .. }) => {
            serve(protocol, BulkStream::Plain(stream), source)
        }
        _ => Err(io::Error::other(Error::Message("the connection is not for transfers"))),
    }
}

/// Does the same, encrypted or not; the greeting was read.
pub(crate) fn serve(
    protocol: ConnectionProtocol,
    stream: BulkStream,
    source: &dyn TransferSource,
) -> io::Result<()> {
    let mut writing = BufWriter::with_capacity(PIECE_BYTES, stream);
    let mut parcels: Vec<Box<dyn TransferParcel>> = Vec::new();
    loop {
        // Everything before it has been answered, so the buffer is empty.
        let question = read_message(writing.get_mut())?;
        let answer = match protocol.read_question(&question) {
            // It has a message of its own, so that the next can be read.
            Err(error @ Error::Unknown(_)) => TransferAnswer::Refused(error.to_string()),
            Err(error) => return Err(io::Error::other(error)),
            Ok(TransferQuestion::Parcel { place, from }) => {
                match usize::try_from(place).ok().and_then(|place| parcels.get(place)) {
                    Some(parcel) => {
                        write_parcel(protocol, &mut writing, &**parcel, from)?;
                        writing.flush()?;
                        continue;
                    }
                    None => TransferAnswer::Refused("no such parcel in the last export".to_owned()),
                }
            }
            Ok(question) => {
                let answer = answer(question, source, &mut parcels);
                answer.unwrap_or_else(|fault| TransferAnswer::Refused(fault.to_string()))
            }
        };
        write_message(&mut writing, &protocol.write_answer(&answer))?;
        writing.flush()?;
    }
}

/// Answers a question that is not for a parcel; an export replaces `parcels`.
fn answer(
    question: TransferQuestion,
    source: &dyn TransferSource,
    parcels: &mut Vec<Box<dyn TransferParcel>>,
) -> Result<TransferAnswer, TransferFault> {
    Ok(match question {
        TransferQuestion::Export(buckets) => {
            *parcels = source.export(&buckets)?;
            TransferAnswer::Export(parcels.iter().map(|parcel| parcel.head()).collect())
        }
        TransferQuestion::Versions { bucket, after } => {
            TransferAnswer::Versions(source.versions(bucket, after.as_deref())?)
        }
        TransferQuestion::Drops(bucket) => TransferAnswer::Drops(source.drops(bucket)?),
        TransferQuestion::Bodies(ids) => TransferAnswer::Bodies(source.bodies(&ids)?),
        TransferQuestion::Parcel { .. } => unreachable!("a parcel is sent in pieces by the caller"),
    })
}

/// Refuses the first question with a reason, and ends the connection.
pub(crate) fn refuse_all(
    protocol: ConnectionProtocol,
    mut stream: BulkStream,
    reason: Error,
) -> io::Result<()> {
    read_message(&mut stream)?;
    write_message(&mut stream, &protocol.write_answer(&TransferAnswer::Refused(reason.to_string())))?;
    stream.flush()?;
    Err(io::Error::other(reason))
}

/// Sends a parcel. If it cannot be read to its end, the connection is closed: the receiver detects that it is
/// incomplete.
fn write_parcel(
    protocol: ConnectionProtocol,
    out: &mut BufWriter<BulkStream>,
    parcel: &dyn TransferParcel,
    from: u64,
) -> io::Result<()> {
    write_message(out, &protocol.write_answer(&TransferAnswer::Parcel(parcel.outline())))?;
    parcel.write_to(from, &mut PieceWriter(out))?;
    out.write_all(&0_u32.to_le_bytes())
}

/// Splits written bytes into pieces.
struct PieceWriter<'o>(&'o mut BufWriter<BulkStream>);

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        if piece.len() < PIECE_BYTES / 4 {
            // Small ones are sent together.
            if !piece.is_empty() {
                write_message(self.0, piece)?;
            }
            return Ok(piece.len());
        }
        self.0.flush()?;
        // The length and the bytes in one packet.
        let length = (piece.len() as u32).to_le_bytes();
        let stream = self.0.get_mut();
        let sent = stream.write_vectored(&[IoSlice::new(&length), IoSlice::new(piece)])?;
        if sent < length.len() {
            stream.write_all(&length[sent..])?;
        }
        stream.write_all(&piece[sent.saturating_sub(length.len())..])?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn write_message(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    // Every message is shorter.
    out.write_all(&(message.len() as u32).to_le_bytes())?;
    out.write_all(message)
}

fn read_length(stream: &mut impl Read) -> io::Result<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX { Err(io::Error::other("a message is longer than any")) } else { Ok(length) }
}

fn read_message(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_length(stream)?;
    let mut message = Vec::with_capacity(length.min(1 << 20));
    let read = stream.take(length as u64).read_to_end(&mut message)?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(message) }
}
