//! Transfers: what a replica has, in parcels; lists of versions; bodies. One question after another over a connection of its own, on threads
//! that block.
//!
//! A question is a message: its length in 4 bytes, then a byte that says which, then its values. So is an answer, whose first byte says
//! whether it is one (0) or a reason (1). An export names its parcels; each is then asked for by its place, from a byte on, and the next may be
//! asked for while one comes. A parcel's bytes follow its answer in pieces, each after its length in 4 bytes; the last is empty. They are
//! checked where they arrive, by the checksums that are in them.

use std::io::{self, BufReader, BufWriter, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Drop, Timestamp, Version};
use millrace_trust::Trust;

use crate::codec::{self, Reader};
use crate::stream::BulkStream;
use crate::{BULK, Error};

/// A version without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionKey {
    /// Which document.
    pub id: DocumentId,
    /// When it was written.
    pub timestamp: Timestamp,
}

/// Some of a replica's versions, in the order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// The versions.
    pub versions: Vec<VersionKey>,
    /// Where the next page begins; `None` at the end.
    pub after: Option<String>,
}

/// A part of what a replica has, to become one file of another's.
pub trait Parcel {
    /// What is told of it before it comes.
    fn head(&self) -> Head;

    /// How long the parts of its file are that can be checked one by one; empty where that is not known before.
    fn outline(&self) -> Vec<u32>;

    /// Writes its bytes from one on, each time the same.
    ///
    /// # Errors
    /// They cannot be read, or `out` not be written.
    fn write_to(&self, from: u64, out: &mut (dyn Write + Send)) -> io::Result<()>;
}

/// What is told of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What it has of which bucket: bytes and documents, about.
    pub shares: Vec<(BucketId, u64, u64)>,
    /// How long it is; `None` where that is not known before.
    pub bytes: Option<u64>,
    /// Equal for parcels of one node with the same bytes; `None` where that cannot be told.
    pub identity: Option<u64>,
}

/// What transfers are answered from. Called on threads that may block. The reasons of errors are for people.
pub trait Source: Send + Sync {
    /// All that there is of these buckets, as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn Parcel>>, String>;

    /// The newest versions in a bucket that are remembered, removals among them, after a place that a page before named.
    ///
    /// # Errors
    /// They cannot be read.
    fn versions(&self, bucket: BucketId, after: Option<&str>) -> Result<VersionPage, String>;

    /// What is remembered of drops that reach a bucket.
    ///
    /// # Errors
    /// They cannot be read.
    fn drops(&self, bucket: BucketId) -> Result<Vec<Drop>, String>;

    /// The newest versions of these documents, in their order; what is not there is left out. Only the first ones where all would be too
    /// much for one answer, at least one.
    ///
    /// # Errors
    /// They cannot be read.
    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<Version>, String>;
}

const EXPORT: u8 = 1;
const VERSIONS: u8 = 2;
const BODIES: u8 = 3;
const PARCEL: u8 = 4;
const DROPS: u8 = 5;

/// A question or an answer has at most so many bytes; parcels come in pieces of less.
const BYTES_MAX: usize = 256 << 20;

/// Bytes of a parcel are sent in pieces of so many.
const PIECE_BYTES: usize = 256 << 10;

/// After so long without a byte the connection is given up.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// After so long without a question the connection is given up: whoever asks writes what it has got to its disk before it asks on.
pub(crate) const QUESTION_PATIENCE: Duration = Duration::from_secs(300);

/// How long a node may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a node for one transfer.
pub struct Bulk {
    address: String,
    stream: BufReader<BulkStream>,
}

impl Bulk {
    /// Connects to the node at `address` (`host:port`); where there is trust, encrypted and to nobody else.
    ///
    /// # Errors
    /// It cannot be reached, or is not to be trusted.
    pub fn connect(address: &str, trust: Option<&Trust>) -> Result<Self, Error> {
        let connect = || {
            let mut stream = BulkStream::connect(address, trust, CONNECT_PATIENCE, SILENCE_MAX)?;
            stream.write_all(&BULK)?;
            // Small: what is larger is read to its place.
            Ok(BufReader::with_capacity(4 << 10, stream))
        };
        let stream = connect().map_err(|source| Error::Connection { address: address.to_owned(), source })?;
        Ok(Bulk { address: address.to_owned(), stream })
    }

    /// Asks what there is of these buckets, as it is now. The node keeps that until it is asked for another export, or the connection ends.
    ///
    /// # Errors
    /// The connection broke; the node cannot read it.
    pub fn export(&mut self, buckets: &[BucketId]) -> Result<Vec<Head>, Error> {
        let mut question = vec![EXPORT];
        codec::count(&mut question, buckets.len());
        buckets.iter().for_each(|bucket| codec::bucket(&mut question, *bucket));
        let answer = self.ask(&question)?;
        let mut reader = Reader::new(&answer);
        let heads = reader.list(6, read_head)?;
        reader.end()?;
        Ok(heads)
    }

    /// Asks for a parcel of the last export, by its place, from a byte on. It comes after those that were asked for before: each is to be taken with
    /// [`Bulk::outline`], and then [`Bulk::piece`] until there is none.
    ///
    /// # Errors
    /// The connection broke.
    pub fn request(&mut self, place: usize, from: u64) -> Result<(), Error> {
        let mut question = vec![PARCEL];
        codec::number(&mut question, place as u64);
        codec::number(&mut question, from);
        write_message(self.stream.get_mut(), &question).map_err(|source| self.broken(source))
    }

    /// Begins to take the parcel that was asked for first: how long its parts are, as [`Parcel::outline`].
    ///
    /// # Errors
    /// The connection broke; the node has no such parcel.
    pub fn outline(&mut self) -> Result<Vec<u32>, Error> {
        let answer = self.answer()?;
        let mut reader = Reader::new(&answer);
        let outline = reader.list(8, |reader| {
            u32::try_from(reader.number()?).map_err(|_| Error::Message("a part is longer than any"))
        })?;
        reader.end()?;
        Ok(outline)
    }

    /// Takes the next bytes of a parcel, in place of what is in `piece`. Returns whether there were any: if not, that was all.
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

    /// As [`Source::versions`].
    ///
    /// # Errors
    /// The connection broke; the node cannot read them.
    pub fn versions(&mut self, bucket: BucketId, after: Option<&str>) -> Result<VersionPage, Error> {
        let mut question = vec![VERSIONS];
        codec::bucket(&mut question, bucket);
        write_place(&mut question, after);
        let answer = self.ask(&question)?;
        let mut reader = Reader::new(&answer);
        let page = read_page(&mut reader)?;
        reader.end()?;
        Ok(page)
    }

    /// As [`Source::drops`].
    ///
    /// # Errors
    /// The connection broke; the node cannot read them.
    pub fn drops(&mut self, bucket: BucketId) -> Result<Vec<Drop>, Error> {
        let mut question = vec![DROPS];
        codec::bucket(&mut question, bucket);
        let answer = self.ask(&question)?;
        let mut reader = Reader::new(&answer);
        let drops = reader.list(13, Reader::drop)?;
        reader.end()?;
        Ok(drops)
    }

    /// As [`Source::bodies`].
    ///
    /// # Errors
    /// The connection broke; the node cannot read them.
    pub fn bodies(&mut self, ids: &[DocumentId]) -> Result<Vec<Version>, Error> {
        let mut question = vec![BODIES];
        codec::count(&mut question, ids.len());
        ids.iter().for_each(|id| codec::text(&mut question, id.as_str()));
        let answer = self.ask(&question)?;
        let mut reader = Reader::new(&answer);
        let versions = reader.list(13, Reader::version)?;
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

/// Answers the questions of one connection until it ends, on a thread that may block. The connection has said what it is for.
///
/// # Errors
/// The connection broke, or what came is no question.
pub fn serve_bulk(stream: TcpStream, source: &dyn Source) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    stream.set_read_timeout(Some(QUESTION_PATIENCE))?;
    serve(BulkStream::Plain(stream), source)
}

/// The same, encrypted or not.
pub(crate) fn serve(stream: BulkStream, source: &dyn Source) -> io::Result<()> {
    let mut writing = BufWriter::with_capacity(PIECE_BYTES, stream);
    let mut parcels: Vec<Box<dyn Parcel>> = Vec::new();
    loop {
        // Everything before it has been answered, so nothing waits in the buffer.
        let question = read_message(writing.get_mut())?;
        let question = match read_question(&question) {
            // It stands alone in its message, so that the next can be read.
            Err(error @ Error::Unknown(_)) => {
                refuse(&mut writing, &error.to_string())?;
                writing.flush()?;
                continue;
            }
            question => question.map_err(io::Error::other)?,
        };
        match question {
            Question::Export(buckets) => match source.export(&buckets) {
                Ok(exported) => {
                    parcels = exported;
                    let mut answer = vec![0];
                    codec::count(&mut answer, parcels.len());
                    parcels.iter().for_each(|parcel| write_head(&mut answer, &parcel.head()));
                    write_message(&mut writing, &answer)?;
                }
                Err(reason) => refuse(&mut writing, &reason)?,
            },
            Question::Parcel(place, from) => {
                match usize::try_from(place).ok().and_then(|place| parcels.get(place)) {
                    Some(parcel) => write_parcel(&mut writing, &**parcel, from)?,
                    None => refuse(&mut writing, "there is no such parcel in the last export")?,
                }
            }
            Question::Versions(bucket, after) => match source.versions(bucket, after.as_deref()) {
                Ok(page) => {
                    let mut answer = vec![0];
                    write_page(&mut answer, &page);
                    write_message(&mut writing, &answer)?;
                }
                Err(reason) => refuse(&mut writing, &reason)?,
            },
            Question::Drops(bucket) => match source.drops(bucket) {
                Ok(drops) => {
                    let mut answer = vec![0];
                    codec::count(&mut answer, drops.len());
                    drops.iter().for_each(|drop| codec::drop(&mut answer, drop));
                    write_message(&mut writing, &answer)?;
                }
                Err(reason) => refuse(&mut writing, &reason)?,
            },
            Question::Bodies(ids) => match source.bodies(&ids) {
                Ok(versions) => {
                    let mut answer = vec![0];
                    codec::count(&mut answer, versions.len());
                    versions.iter().for_each(|version| codec::version(&mut answer, version));
                    write_message(&mut writing, &answer)?;
                }
                Err(reason) => refuse(&mut writing, &reason)?,
            },
        }
        writing.flush()?;
    }
}

enum Question {
    Export(Vec<BucketId>),
    Parcel(u64, u64),
    Versions(BucketId, Option<String>),
    Drops(BucketId),
    Bodies(Vec<DocumentId>),
}

fn read_question(bytes: &[u8]) -> Result<Question, Error> {
    let mut reader = Reader::new(bytes);
    let question = match reader.byte()? {
        EXPORT => Question::Export(reader.list(9, Reader::bucket)?),
        PARCEL => Question::Parcel(reader.number()?, reader.number()?),
        VERSIONS => Question::Versions(reader.bucket()?, read_place(&mut reader)?),
        DROPS => Question::Drops(reader.bucket()?),
        BODIES => Question::Bodies(reader.list(4, Reader::id)?),
        _ => return Err(Error::Unknown("a question is of no known kind")),
    };
    reader.end()?;
    Ok(question)
}

fn write_head(out: &mut Vec<u8>, head: &Head) {
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

fn read_head(reader: &mut Reader<'_>) -> Result<Head, Error> {
    let share = |reader: &mut Reader<'_>| Ok((reader.bucket()?, reader.number()?, reader.number()?));
    let shares = reader.list(25, share)?;
    let optional = |reader: &mut Reader<'_>| reader.flag()?.then(|| reader.number()).transpose();
    Ok(Head { shares, bytes: optional(reader)?, identity: optional(reader)? })
}

/// Sends a parcel. When it cannot be read half-way, the connection ends: whoever takes it sees that it is not whole.
fn write_parcel(out: &mut BufWriter<BulkStream>, parcel: &dyn Parcel, from: u64) -> io::Result<()> {
    let mut head = vec![0];
    let outline = parcel.outline();
    codec::count(&mut head, outline.len());
    outline.iter().for_each(|length| codec::number(&mut head, u64::from(*length)));
    write_message(out, &head)?;
    parcel.write_to(from, &mut Pieces(out))?;
    out.write_all(&0_u32.to_le_bytes())
}

/// Cuts what is written into pieces.
struct Pieces<'o>(&'o mut BufWriter<BulkStream>);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        if piece.len() < PIECE_BYTES / 4 {
            // Small ones go together.
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

fn read_place(reader: &mut Reader<'_>) -> Result<Option<String>, Error> {
    reader.flag()?.then(|| reader.text().map(str::to_owned)).transpose()
}

fn write_page(out: &mut Vec<u8>, page: &VersionPage) {
    codec::count(out, page.versions.len());
    for version in &page.versions {
        codec::text(out, version.id.as_str());
        codec::number(out, version.timestamp.0);
    }
    write_place(out, page.after.as_deref());
}

fn read_page(reader: &mut Reader<'_>) -> Result<VersionPage, Error> {
    let key = |reader: &mut Reader<'_>| Ok(VersionKey { id: reader.id()?, timestamp: reader.timestamp()? });
    Ok(VersionPage { versions: reader.list(12, key)?, after: read_place(reader)? })
}

fn write_message(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    // No message is so long.
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

/// Reads bytes as any message of a transfer.
pub(crate) fn fuzz(bytes: &[u8]) -> Result<(), Error> {
    // Whether they are one does not matter: reading them must end.
    let _ = read_question(bytes);
    let _ = read_head(&mut Reader::new(bytes));
    read_page(&mut Reader::new(bytes)).map(|_| ())
}
