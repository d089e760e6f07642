//! Transfers: what a replica has, in parcels; lists of versions; bodies. One question after another over a connection of its own, on threads
//! that block.
//!
//! A question is a message: its length in 4 bytes, then a byte that says which, then its values. So is an answer, whose first byte says
//! whether it is one (0) or a reason (1). A parcel's bytes follow its message in pieces, each after its length in 4 bytes; the last is empty,
//! and the XXH3 of all bytes comes after it.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Drop, Timestamp, Version};
use xxhash_rust::xxh3::Xxh3Default;

use crate::codec::{self, Reader};
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
    /// What it has of which bucket: bytes and documents, about.
    fn shares(&self) -> Vec<(BucketId, u64, u64)>;

    /// Writes its bytes.
    ///
    /// # Errors
    /// They cannot be read, or `out` not be written.
    fn write_to(&self, out: &mut (dyn Write + Send)) -> io::Result<()>;
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

    /// The newest versions of these documents; what is not there is left out.
    ///
    /// # Errors
    /// They cannot be read.
    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<Version>, String>;
}

const EXPORT: u8 = 1;
const VERSIONS: u8 = 2;
const BODIES: u8 = 3;
const DROPS: u8 = 5;

/// A question or an answer has at most so many bytes; parcels come in pieces of less.
const BYTES_MAX: usize = 64 << 20;

/// Bytes of a parcel are sent in pieces of so many.
const PIECE_BYTES: usize = 256 << 10;

/// After so long without a byte the connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// How long a node may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a node for one transfer.
pub struct Bulk {
    address: String,
    reading: BufReader<TcpStream>,
    writing: TcpStream,
}

impl Bulk {
    /// Connects to the node at `address` (`host:port`).
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn connect(address: &str) -> Result<Self, Error> {
        let failed = |source| Error::Connection { address: address.to_owned(), source };
        let connect = || {
            let place = address.to_socket_addrs()?.next();
            let place = place.ok_or_else(|| io::Error::other("the name has no address"))?;
            let stream = TcpStream::connect_timeout(&place, CONNECT_PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            (&stream).write_all(&BULK)?;
            Ok((stream.try_clone()?, stream))
        };
        let (reading, writing) = connect().map_err(failed)?;
        let reading = BufReader::with_capacity(PIECE_BYTES, reading);
        Ok(Bulk { address: address.to_owned(), reading, writing })
    }

    /// Asks for all that there is of these buckets; says how many parcels come, each to be taken with [`Bulk::parcel`].
    ///
    /// # Errors
    /// The connection broke; the node cannot read it.
    pub fn export(&mut self, buckets: &[BucketId]) -> Result<usize, Error> {
        let mut question = vec![EXPORT];
        codec::count(&mut question, buckets.len());
        buckets.iter().for_each(|bucket| codec::bucket(&mut question, *bucket));
        let answer = self.ask(&question)?;
        let mut reader = Reader::new(&answer);
        let parcels = reader.number()?;
        reader.end()?;
        usize::try_from(parcels).map_err(|_| Error::Message("more parcels come than can be counted"))
    }

    /// The next parcel of an export: `begin` is told what is in it (bucket, bytes and documents, about), `take` is given its bytes, piece by
    /// piece. What was taken counts only if this succeeds.
    ///
    /// # Errors
    /// The connection broke; the node cannot read it; the bytes are not those that were sent; `begin` or `take` refused.
    pub fn parcel<T>(
        &mut self,
        begin: impl FnOnce(&[(BucketId, u64, u64)]) -> Result<T, String>,
        mut take: impl FnMut(&mut T, &[u8]) -> Result<(), String>,
    ) -> Result<T, Error> {
        let answer = self.answer()?;
        let mut reader = Reader::new(&answer);
        let shares = reader.list(25, |reader| Ok((reader.bucket()?, reader.number()?, reader.number()?)))?;
        reader.end()?;
        let mut taken = begin(&shares).map_err(Error::Taking)?;
        let mut checksum = Xxh3Default::new();
        let mut piece = Vec::new();
        loop {
            self.piece(&mut piece).map_err(|source| self.broken(source))?;
            if piece.is_empty() {
                break;
            }
            checksum.update(&piece);
            take(&mut taken, &piece).map_err(Error::Taking)?;
        }
        let mut expected = [0; 8];
        self.reading.read_exact(&mut expected).map_err(|source| self.broken(source))?;
        if checksum.digest().to_le_bytes() != expected {
            return Err(Error::Checksum { address: self.address.clone(), what: "a part of a replica" });
        }
        Ok(taken)
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
        write_message(&mut self.writing, question).map_err(|source| self.broken(source))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<u8>, Error> {
        let mut answer = read_message(&mut self.reading).map_err(|source| self.broken(source))?;
        match answer.first() {
            Some(0) => {
                answer.remove(0);
                Ok(answer)
            }
            Some(1) => {
                let reason = String::from_utf8_lossy(&answer[1..]).into_owned();
                Err(Error::Refused { address: self.address.clone(), reason })
            }
            _ => Err(Error::Message("an answer is of no known kind")),
        }
    }

    fn piece(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        let length = read_length(&mut self.reading)?;
        piece.resize(length, 0);
        self.reading.read_exact(piece)
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Connection { address: self.address.clone(), source }
    }
}

/// Answers the questions of one connection until it ends.
pub(crate) fn serve(stream: TcpStream, source: &dyn Source) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut reading = BufReader::new(stream.try_clone()?);
    let mut writing = BufWriter::with_capacity(PIECE_BYTES, stream);
    loop {
        let question = read_message(&mut reading)?;
        match read_question(&question).map_err(io::Error::other)? {
            Question::Export(buckets) => match source.export(&buckets) {
                Ok(parcels) => {
                    let mut answer = vec![0];
                    codec::number(&mut answer, parcels.len() as u64);
                    write_message(&mut writing, &answer)?;
                    for parcel in parcels {
                        write_parcel(&mut writing, &*parcel)?;
                    }
                }
                Err(reason) => refuse(&mut writing, &reason)?,
            },
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
    Versions(BucketId, Option<String>),
    Drops(BucketId),
    Bodies(Vec<DocumentId>),
}

fn read_question(bytes: &[u8]) -> Result<Question, Error> {
    let mut reader = Reader::new(bytes);
    let question = match reader.byte()? {
        EXPORT => Question::Export(reader.list(9, Reader::bucket)?),
        VERSIONS => Question::Versions(reader.bucket()?, read_place(&mut reader)?),
        DROPS => Question::Drops(reader.bucket()?),
        BODIES => Question::Bodies(reader.list(4, Reader::id)?),
        _ => return Err(Error::Message("a question is of no known kind")),
    };
    reader.end()?;
    Ok(question)
}

/// Sends a parcel. When it cannot be read half-way, the connection ends: whoever takes it sees that it is not whole.
fn write_parcel(out: &mut (impl Write + Send), parcel: &dyn Parcel) -> io::Result<()> {
    let mut head = vec![0];
    let shares = parcel.shares();
    codec::count(&mut head, shares.len());
    for (bucket, bytes, documents) in shares {
        codec::bucket(&mut head, bucket);
        codec::number(&mut head, bytes);
        codec::number(&mut head, documents);
    }
    write_message(out, &head)?;
    let mut pieces = Pieces { out: &mut *out, checksum: Xxh3Default::new() };
    parcel.write_to(&mut pieces)?;
    let checksum = pieces.checksum.digest();
    out.write_all(&0_u32.to_le_bytes())?;
    out.write_all(&checksum.to_le_bytes())
}

/// Cuts what is written into pieces, and counts it into a checksum.
struct Pieces<'o, W> {
    out: &'o mut W,
    checksum: Xxh3Default,
}

impl<W: Write> Write for Pieces<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        if !piece.is_empty() {
            self.checksum.update(piece);
            write_message(self.out, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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
    read_page(&mut Reader::new(bytes)).map(|_| ())
}
