//! The manifest: the generations of the tail, the segments bucket by bucket, and the drops.
//!
//! It is one small file, replaced as a whole: written under another name, synced, renamed. So it is either
//! the old or the new one, and a wrong checksum means damage, never a crash. `docs/format.md` describes its
//! bytes.

use std::io;
use std::path::{Path, PathBuf};

use millrace_bucket::BucketId;
use millrace_env::Disk;
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::state::marks::{DropMark, MarkScope};

const MAGIC: [u8; 8] = *b"MILLMAN\x01";
const VERSION: u32 = 3;
/// Version written if no group is divided: programs without support for divided groups can read it.
const UNDIVIDED: u32 = 2;

/// Content of the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Numbers of generations and segments from here on are free.
    pub next_number: u64,
    /// No higher timestamp had been given, except for those of rows in the tail.
    pub clock: u64,
    /// Generations of the tail, newest first.
    pub generations: Vec<u64>,
    /// Buckets in the order of keys.
    pub buckets: Vec<(BucketId, Vec<SegmentRecord>)>,
    /// Marks of drops.
    pub marks: Vec<DropMark>,
    /// Buckets with a replica here; true if it is complete.
    pub replicas: Vec<(BucketId, bool)>,
}

/// A segment as a bucket has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentRecord {
    /// Names the file.
    pub number: u64,
    /// Bytes of it that are the bucket's, about.
    pub bytes: u64,
    /// Versions of documents in it that are the bucket's, about.
    pub documents: u64,
    /// Nothing in it was dropped at this time or before and is still there.
    pub applied: u64,
}

/// A manifest could not be put in place durably.
#[derive(Debug)]
pub(crate) struct ManifestWriteError {
    pub error: Error,
    pub in_place: RenameDurability,
}

/// State of a manifest that could not be made durable: `Unknown` if the next start may find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameDurability {
    No,
    Unknown,
}

impl From<ManifestWriteError> for Error {
    fn from(unwritten: ManifestWriteError) -> Self {
        unwritten.error
    }
}

impl Manifest {
    /// Name of the file.
    pub const NAME: &str = "manifest";

    /// Reads the manifest of a data directory; `None` if there is none.
    pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, Error> {
        let path = path(directory);
        let bytes = match disk.open(&path).and_then(|file| {
            let mut bytes = vec![0; file.len()? as usize];
            file.read_at(0, &mut [&mut bytes])?;
            Ok(bytes)
        }) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read the manifest", &error)),
        };
        let damaged =
            |offset, reason: &str| Error::Corrupt { path: path.clone(), offset, reason: reason.to_owned() };
        let body = bytes.len().checked_sub(8).ok_or_else(|| damaged(0, "it is shorter than a manifest"))?;
        if bytes[body..] != xxh3_64(&bytes[..body]).to_le_bytes() {
            return Err(damaged(body as u64, "the manifest does not fit its checksum"));
        }
        let mut reader = ManifestReader(&bytes[..body]);
        if reader.array() != Some(MAGIC) {
            return Err(damaged(0, "the file does not begin as a manifest does"));
        }
        let version = match reader.u32() {
            Some(version @ 1..=VERSION) => version,
            version => {
                return Err(Error::DataDirectory {
                    path: directory.to_owned(),
                    reason: format!(
                        "its format version is {}, and this program knows version {VERSION}; use the program that wrote it",
                        version.unwrap_or(0)
                    ),
                });
            }
        };
        Self::decode(&mut reader, version)
            .map(Some)
            .ok_or_else(|| damaged(12, "the manifest's lists do not add up"))
    }

    /// Puts it in place of the one that is there.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), ManifestWriteError> {
        let temporary = directory.join("manifest.writing");
        let write = || -> io::Result<()> {
            let mut file = disk.create(&temporary)?;
            file.append(&self.encode())?;
            file.sync()
        };
        let place = || -> io::Result<()> {
            disk.rename(&temporary, &path(directory))?;
            disk.sync_directory(directory)
        };
        let failed = |error| Error::io("write the manifest", &error);
        write()
            .map_err(|error| ManifestWriteError { error: failed(error), in_place: RenameDurability::No })?;
        place()
            .map_err(|error| ManifestWriteError { error: failed(error), in_place: RenameDurability::Unknown })
    }

    /// Returns true if a group is divided, or was when a part of it was dropped.
    fn is_divided(&self) -> bool {
        let is_part = |bucket: &BucketId| bucket.used_bits() > BucketId::GROUP_BITS;
        let of_part = |mark: &DropMark| matches!(mark.scope, MarkScope::Group { part: Some(_), .. });
        self.buckets.iter().any(|(bucket, _)| is_part(bucket))
            || self.replicas.iter().any(|(bucket, _)| is_part(bucket))
            || self.marks.iter().any(of_part)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.buckets.len() * 64);
        out.extend(MAGIC);
        out.extend(if self.is_divided() { VERSION } else { UNDIVIDED }.to_le_bytes());
        let number = |out: &mut Vec<u8>, number: u64| out.extend(number.to_le_bytes());
        let count = |out: &mut Vec<u8>, count: usize| out.extend((count as u32).to_le_bytes());
        number(&mut out, self.next_number);
        number(&mut out, self.clock);
        count(&mut out, self.generations.len());
        self.generations.iter().for_each(|generation| number(&mut out, *generation));
        count(&mut out, self.buckets.len());
        for (bucket, segments) in &self.buckets {
            out.push(bucket.used_bits());
            number(&mut out, bucket.bits());
            count(&mut out, segments.len());
            for segment in segments {
                for field in [segment.number, segment.bytes, segment.documents, segment.applied] {
                    number(&mut out, field);
                }
            }
        }
        count(&mut out, self.marks.len());
        self.marks.iter().for_each(|mark| mark.encode(&mut out));
        count(&mut out, self.replicas.len());
        for (bucket, complete) in &self.replicas {
            out.push(bucket.used_bits());
            number(&mut out, bucket.bits());
            out.push(u8::from(*complete));
        }
        let checksum = xxh3_64(&out);
        number(&mut out, checksum);
        out
    }

    fn decode(reader: &mut ManifestReader<'_>, version: u32) -> Option<Self> {
        let mut manifest =
            Manifest { next_number: reader.u64()?, clock: reader.u64()?, ..Manifest::default() };
        for _ in 0..reader.u32()? {
            manifest.generations.push(reader.u64()?);
        }
        for _ in 0..reader.u32()? {
            let bucket = reader.bucket()?;
            let mut segments = Vec::new();
            for _ in 0..reader.u32()? {
                segments.push(SegmentRecord {
                    number: reader.u64()?,
                    bytes: reader.u64()?,
                    documents: reader.u64()?,
                    applied: reader.u64()?,
                });
            }
            manifest.buckets.push((bucket, segments));
        }
        for _ in 0..reader.u32()? {
            manifest.marks.push(DropMark::read(reader)?);
        }
        if version >= 2 {
            for _ in 0..reader.u32()? {
                manifest.replicas.push((reader.bucket()?, reader.u8()? == 1));
            }
        }
        reader.0.is_empty().then_some(manifest)
    }
}

/// Tag before the kind of a mark whose time differs from the time at which the store learned of it; followed
/// by the latter. Such a mark is read as one with a timestamp of another clock: it is remembered for longer
/// than is necessary for the store's own.
const TIMED_ELSEWHERE: u8 = 4;
/// Tag before the kind of a mark of a group if only the documents in one bucket are dropped; followed by that
/// bucket.
const PART: u8 = 5;

impl DropMark {
    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        };
        out.extend(self.timestamp.to_le_bytes());
        if self.given || self.since != self.timestamp {
            out.push(TIMED_ELSEWHERE);
            out.extend(self.since.to_le_bytes());
        }
        match &self.scope {
            MarkScope::Group { document_type, group, part } => {
                if let Some(part) = part {
                    out.push(PART);
                    out.push(part.used_bits());
                    out.extend(part.bits().to_le_bytes());
                }
                out.push(if document_type.is_some() { 1 } else { 0 });
                text(out, document_type.as_deref().unwrap_or_default());
                text(out, group);
            }
            MarkScope::Type(name) => {
                out.push(2);
                text(out, name);
            }
            MarkScope::Locations(first, last) => {
                out.push(3);
                out.extend(first.to_le_bytes());
                out.extend(last.to_le_bytes());
            }
        }
    }

    /// Decodes a mark; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ManifestReader(bytes);
        Self::read(&mut reader).filter(|_| reader.0.is_empty())
    }

    fn read(reader: &mut ManifestReader<'_>) -> Option<Self> {
        let timestamp = reader.u64()?;
        let (mut since, mut kind) = (timestamp, reader.u8()?);
        let given = kind == TIMED_ELSEWHERE;
        if given {
            (since, kind) = (reader.u64()?, reader.u8()?);
        }
        let mut part = None;
        if kind == PART {
            part = Some(reader.bucket()?);
            kind = reader.u8().filter(|kind| *kind <= 1)?;
        }
        let scope = match kind {
            0 => {
                reader.text()?;
                MarkScope::Group { document_type: None, group: reader.text()?, part }
            }
            1 => MarkScope::Group { document_type: Some(reader.text()?), group: reader.text()?, part },
            2 => MarkScope::Type(reader.text()?),
            3 => MarkScope::Locations(reader.u32()?, reader.u32()?),
            _ => return None,
        };
        Some(DropMark { scope, timestamp, since, given })
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(Manifest::NAME)
}

struct ManifestReader<'a>(&'a [u8]);

impl ManifestReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bucket(&mut self) -> Option<BucketId> {
        BucketId::try_from((self.u8()?, self.u64()?)).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(taken.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use millrace_env::RealDisk;

    use super::*;

    fn manifest() -> Manifest {
        let mark = |timestamp, since, given: bool| DropMark {
            scope: MarkScope::Group {
                document_type: Some("mail".to_owned()),
                group: "gann".to_owned(),
                part: given.then(|| BucketId::new(34, 0x3_0000_0007)),
            },
            timestamp,
            since,
            given,
        };
        let record = SegmentRecord { number: 5, bytes: 6, documents: 7, applied: 8 };
        Manifest {
            next_number: 9,
            clock: 70,
            generations: vec![4, 3],
            buckets: BucketId::ROOT.children().into_iter().flatten().map(|id| (id, vec![record])).collect(),
            marks: vec![mark(11, 11, false), mark(12, 60, true)],
            replicas: vec![(BucketId::new(3, 5), true), (BucketId::new(3, 6), false)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        manifest().write(&RealDisk, directory.path()).map_err(|unwritten| unwritten.error).expect("written");
        assert_eq!(Manifest::read(&RealDisk, directory.path()).expect("read"), Some(manifest()));
    }

    /// Nothing of a divided group: it is as programs wrote it that know of none.
    #[test]
    fn what_is_not_divided_is_written_as_before() {
        let mut whole = manifest();
        whole.marks.pop();
        assert_eq!(whole.encode()[8..12], UNDIVIDED.to_le_bytes());
        assert_eq!(manifest().encode()[8..12], VERSION.to_le_bytes());
        whole.replicas.push((BucketId::new(33, 7), true));
        assert_eq!(whole.encode()[8..12], VERSION.to_le_bytes());
    }

    /// The first version ends after the marks, of which none has a time of its own.
    #[test]
    fn the_first_version_is_read() {
        let mut first = Manifest { replicas: Vec::new(), ..manifest() };
        first.marks.pop();
        let mut bytes = first.encode();
        bytes.truncate(bytes.len() - 8 - 4);
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        let checksum = xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(path(directory.path()), bytes).expect("written");
        assert_eq!(Manifest::read(&RealDisk, directory.path()).expect("read"), Some(first));
    }
}
