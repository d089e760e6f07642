//! Transfers: contents of a replica in parcels; lists of versions; bodies. One question after another over a
//! connection of its own, on blocking threads.
//!
//! A question is a message: its length in 4 bytes, then a byte for its kind, then its values. So is an
//! answer, whose first byte says if it is one (0) or a reason (1). An export lists its parcels; each is then
//! requested by its index, from a byte offset on, and the next may be requested while one arrives. A parcel's
//! bytes follow its answer in pieces, each after its length in 4 bytes; the last is empty. The receiver
//! checks them by the checksums in them.

use std::io::{self, BufReader, BufWriter, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DroppedScope, Timestamp};
use millrace_trust::NodeTrust;

use crate::Error;
use crate::codec::{self, MessageReader};
use crate::greeting::{ConnectionGreeting, PeerAddress, PeerChannel};
use crate::stream::BulkStream;

/// A version without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerVersionKey {
    /// Id of the document.
    pub id: DocumentId,
    /// Time of the write.
    pub timestamp: Timestamp,
}

/// Some of a replica's versions, in the order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerVersionPage {
    /// The versions.
    pub versions: Vec<PeerVersionKey>,
    /// Start of the next page; `None` at the end.
    pub after: Option<String>,
}

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

/// Header of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParcelHead {
    /// Approximate bytes and documents of each bucket.
    pub shares: Vec<(BucketId, u64, u64)>,
    /// Length in bytes; `None` if it is not known in advance.
    pub bytes: Option<u64>,
    /// Equal for parcels of one node with the same bytes; `None` if they cannot be identified.
    pub identity: Option<u64>,
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

const EXPORT: u8 = 1;
const VERSIONS: u8 = 2;
const BODIES: u8 = 3;
const PARCEL: u8 = 4;
const DROPS: u8 = 5;

/// Maximum size of a question or an answer, in bytes; parcels are sent in smaller pieces.
const BYTES_MAX: usize = 256 << 20;

/// Size of the pieces of a parcel, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Time without a byte after which the connection is closed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Time without a question after which the connection is closed: the asking node writes received data to its
/// disk before it continues.
pub(crate) const QUESTION_PATIENCE: Duration = Duration::from_secs(300);

/// Timeout of connecting to a node.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a node for one transfer.
pub struct TransferConnection {
    address: String,
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
            let mut stream = BulkStream::connect(address, trust, CONNECT_PATIENCE, SILENCE_MAX)?;
            stream.write_all(&ConnectionGreeting::to(PeerChannel::Bulk, peer).encode())?;
            // Small: larger data is read directly to its destination.
            Ok(BufReader::with_capacity(4 << 10, stream))
        };
        let stream = connect().map_err(|source| Error::Connection { address: address.to_owned(), source })?;
        Ok(TransferConnection { address: address.to_owned(), stream })
    }

    /// Requests the current contents of these buckets. The node keeps them until the next export, or until
    /// the connection ends.
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn export(&mut self, buckets: &[BucketId]) -> Result<Vec<ParcelHead>, Error> {
        let mut question = vec![EXPORT];
        codec::count(&mut question, buckets.len());
        buckets.iter().for_each(|bucket| codec::bucket(&mut question, *bucket));
        let answer = self.ask(&question)?;
        let mut reader = MessageReader::new(&answer);
        let heads = reader.list(6, read_head)?;
        reader.end()?;
        Ok(heads)
    }

    /// Requests a parcel of the last export, by its index, from a byte offset on. It arrives after those
    /// requested before: each is read by [`TransferConnection::outline`], and then
    /// [`TransferConnection::piece`] until there is none.
    ///
    /// # Errors
    /// The connection broke.
    pub fn request(&mut self, place: usize, from: u64) -> Result<(), Error> {
        let mut question = vec![PARCEL];
        codec::number(&mut question, place as u64);
        codec::number(&mut question, from);
        write_message(self.stream.get_mut(), &question).map_err(|source| self.broken(source))
    }

    /// Begins to read the parcel that was requested first; returns its [`TransferParcel::outline`].
    ///
    /// # Errors
    /// The connection broke, or the node has no such parcel.
    pub fn outline(&mut self) -> Result<Vec<u32>, Error> {
        let answer = self.answer()?;
        let mut reader = MessageReader::new(&answer);
        let outline = reader.list(8, |reader| {
            u32::try_from(reader.number()?).map_err(|_| Error::Message("a part is longer than any"))
        })?;
        reader.end()?;
        Ok(outline)
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
        let mut question = vec![VERSIONS];
        codec::bucket(&mut question, bucket);
        write_place(&mut question, after);
        let answer = self.ask(&question)?;
        let mut reader = MessageReader::new(&answer);
        let page = read_page(&mut reader)?;
        reader.end()?;
        Ok(page)
    }

    /// Requests [`TransferSource::drops`].
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn drops(&mut self, bucket: BucketId) -> Result<Vec<DroppedScope>, Error> {
        let mut question = vec![DROPS];
        codec::bucket(&mut question, bucket);
        let answer = self.ask(&question)?;
        let mut reader = MessageReader::new(&answer);
        let drops = reader.list(13, MessageReader::drop)?;
        reader.end()?;
        Ok(drops)
    }

    /// Requests [`TransferSource::bodies`].
    ///
    /// # Errors
    /// The connection broke, or the node cannot read them.
    pub fn bodies(&mut self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, Error> {
        let mut question = vec![BODIES];
        codec::count(&mut question, ids.len());
        ids.iter().for_each(|id| codec::text(&mut question, id.as_str()));
        let answer = self.ask(&question)?;
        let mut reader = MessageReader::new(&answer);
        let versions = reader.list(13, MessageReader::version)?;
        reader.end()?;
        Ok(versions)
    }

    fn ask(&mut self, question: &[u8]) -> Result<Vec<u8>, Error> {
        write_message(self.stream.get_mut(), question).map_err(|source| self.broken(source))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<u8>, Error> {
        let mut answer = read_message(&mut self.stream).map_err(|source| self.broken(source))?;
        match answer.first() {
            Some(0) => {
                answer.remove(0);
                Ok(answer)
            }
            Some(1) => {
                let reason = String::from_utf8_lossy(&answer[1..]).into_owned();
                Err(Error::Refused { address: self.address.clone(), reason })
            }
            _ => Err(Error::Unknown("an answer is of no known kind")),
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Connection { address: self.address.clone(), source }
    }
}

/// Answers the questions of one connection until it ends, on a thread that may block. The first bytes of the
/// connection, which give its kind, have been read.
///
/// # Errors
/// The connection broke, or a message is not a question.
pub fn serve_bulk(stream: TcpStream, source: &dyn TransferSource) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    stream.set_read_timeout(Some(QUESTION_PATIENCE))?;
    serve(BulkStream::Plain(stream), source)
}

/// Does the same, encrypted or not.
pub(crate) fn serve(stream: BulkStream, source: &dyn TransferSource) -> io::Result<()> {
    let mut writing = BufWriter::with_capacity(PIECE_BYTES, stream);
    let mut parcels: Vec<Box<dyn TransferParcel>> = Vec::new();
    loop {
        // Everything before it has been answered, so the buffer is empty.
        let question = read_message(writing.get_mut())?;
        let question = match read_question(&question) {
            // It has a message of its own, so that the next can be read.
            Err(error @ Error::Unknown(_)) => {
                refuse(&mut writing, &error.to_string())?;
                writing.flush()?;
                continue;
            }
            question => question.map_err(io::Error::other)?,
        };
        match question {
            TransferQuestion::Export(buckets) => match source.export(&buckets) {
                Ok(exported) => {
                    parcels = exported;
                    let mut answer = vec![0];
                    codec::count(&mut answer, parcels.len());
                    parcels.iter().for_each(|parcel| write_head(&mut answer, &parcel.head()));
                    write_message(&mut writing, &answer)?;
                }
                Err(fault) => refuse(&mut writing, &fault.to_string())?,
            },
            TransferQuestion::Parcel(place, from) => {
                match usize::try_from(place).ok().and_then(|place| parcels.get(place)) {
                    Some(parcel) => write_parcel(&mut writing, &**parcel, from)?,
                    None => refuse(&mut writing, "no such parcel in the last export")?,
                }
            }
            TransferQuestion::Versions(bucket, after) => match source.versions(bucket, after.as_deref()) {
                Ok(page) => {
                    let mut answer = vec![0];
                    write_page(&mut answer, &page);
                    write_message(&mut writing, &answer)?;
                }
                Err(fault) => refuse(&mut writing, &fault.to_string())?,
            },
            TransferQuestion::Drops(bucket) => match source.drops(bucket) {
                Ok(drops) => {
                    let mut answer = vec![0];
                    codec::count(&mut answer, drops.len());
                    drops.iter().for_each(|drop| codec::drop(&mut answer, drop));
                    write_message(&mut writing, &answer)?;
                }
                Err(fault) => refuse(&mut writing, &fault.to_string())?,
            },
            TransferQuestion::Bodies(ids) => match source.bodies(&ids) {
                Ok(versions) => {
                    let mut answer = vec![0];
                    codec::count(&mut answer, versions.len());
                    versions.iter().for_each(|version| codec::version(&mut answer, version));
                    write_message(&mut writing, &answer)?;
                }
                Err(fault) => refuse(&mut writing, &fault.to_string())?,
            },
        }
        writing.flush()?;
    }
}

/// Refuses the first question with a reason, and ends the connection.
pub(crate) fn refuse_all(mut stream: BulkStream, reason: Error) -> io::Result<()> {
    read_message(&mut stream)?;
    refuse(&mut stream, &reason.to_string())?;
    stream.flush()?;
    Err(io::Error::other(reason))
}

enum TransferQuestion {
    Export(Vec<BucketId>),
    Parcel(u64, u64),
    Versions(BucketId, Option<String>),
    Drops(BucketId),
    Bodies(Vec<DocumentId>),
}

fn read_question(bytes: &[u8]) -> Result<TransferQuestion, Error> {
    let mut reader = MessageReader::new(bytes);
    let question = match reader.byte()? {
        EXPORT => TransferQuestion::Export(reader.list(9, MessageReader::bucket)?),
        PARCEL => TransferQuestion::Parcel(reader.number()?, reader.number()?),
        VERSIONS => TransferQuestion::Versions(reader.bucket()?, read_place(&mut reader)?),
        DROPS => TransferQuestion::Drops(reader.bucket()?),
        BODIES => TransferQuestion::Bodies(reader.list(4, MessageReader::id)?),
        _ => return Err(Error::Unknown("a question is of no known kind")),
    };
    reader.end()?;
    Ok(question)
}

fn write_head(out: &mut Vec<u8>, head: &ParcelHead) {
    codec::count(out, head.shares.len());
    for (bucket, bytes, documents) in &head.shares {
        codec::bucket(out, *bucket);
        codec::number(out, *bytes);
        codec::number(out, *documents);
    }
    for number in [head.bytes, head.identity] {
        out.push(u8::from(number.is_some()));
        number.into_iter().for_each(|number| codec::number(out, number));
    }
}

fn read_head(reader: &mut MessageReader<'_>) -> Result<ParcelHead, Error> {
    let share = |reader: &mut MessageReader<'_>| Ok((reader.bucket()?, reader.number()?, reader.number()?));
    let shares = reader.list(25, share)?;
    let optional = |reader: &mut MessageReader<'_>| reader.flag()?.then(|| reader.number()).transpose();
    Ok(ParcelHead { shares, bytes: optional(reader)?, identity: optional(reader)? })
}

/// Sends a parcel. If it cannot be read to its end, the connection is closed: the receiver detects that it is
/// incomplete.
fn write_parcel(out: &mut BufWriter<BulkStream>, parcel: &dyn TransferParcel, from: u64) -> io::Result<()> {
    let mut head = vec![0];
    let outline = parcel.outline();
    codec::count(&mut head, outline.len());
    outline.iter().for_each(|length| codec::number(&mut head, u64::from(*length)));
    write_message(out, &head)?;
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

fn refuse(out: &mut impl Write, reason: &str) -> io::Result<()> {
    let mut answer = vec![1];
    answer.extend_from_slice(reason.as_bytes());
    write_message(out, &answer)
}

fn write_place(out: &mut Vec<u8>, place: Option<&str>) {
    out.push(u8::from(place.is_some()));
    if let Some(place) = place {
        codec::text(out, place);
    }
}

fn read_place(reader: &mut MessageReader<'_>) -> Result<Option<String>, Error> {
    reader.flag()?.then(|| reader.text().map(str::to_owned)).transpose()
}

fn write_page(out: &mut Vec<u8>, page: &PeerVersionPage) {
    codec::count(out, page.versions.len());
    for version in &page.versions {
        codec::text(out, version.id.as_str());
        codec::number(out, version.timestamp.0);
    }
    write_place(out, page.after.as_deref());
}

fn read_page(reader: &mut MessageReader<'_>) -> Result<PeerVersionPage, Error> {
    let key = |reader: &mut MessageReader<'_>| {
        Ok(PeerVersionKey { id: reader.id()?, timestamp: reader.timestamp()? })
    };
    Ok(PeerVersionPage { versions: reader.list(12, key)?, after: read_place(reader)? })
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

/// Parses bytes as every kind of message of a transfer.
pub(crate) fn fuzz(bytes: &[u8]) -> Result<(), Error> {
    // The result does not matter: parsing must end.
    let _ = read_question(bytes);
    let _ = read_head(&mut MessageReader::new(bytes));
    read_page(&mut MessageReader::new(bytes)).map(|_| ())
}
