//! The log of the answers to streams with a key, in the data directory.
//!
//! A file has a magic number, and then records: the length and the XXH3 of what follows, the time, the two
//! digests, the answer. Records are appended and synced. A file that has grown is replaced by one with the
//! answers that are still kept: the older file is removed once the new one and its name are durable. A
//! process appends only to files that it has begun. What follows the first damaged record of a file, such as
//! one that a crash has cut off, is ignored: such a record was not acknowledged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::body::Bytes;
use millrace_env::{AppendFile, Disk, read_file};
use xxhash_rust::xxh3::xxh3_64;

use super::key::Sha256Digest;

/// First bytes of a file.
const MAGIC: &[u8; 8] = b"MRANSW01";

/// Bytes of a record before those that its checksum covers.
const HEAD_BYTES: usize = 12;

/// Size in bytes after which a file is replaced.
const FILE_BYTES_MAX: u64 = 48 << 20;

/// Largest size in bytes of a record, beyond which its length is damaged.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A stream that was executed and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnsweredStream {
    /// Time of the answer, in microseconds since 1970.
    pub(super) time_us: u64,
    pub(super) key: Sha256Digest,
    pub(super) body: Sha256Digest,
    /// The answer for those who send it again.
    pub(super) answer: Bytes,
}

impl AnsweredStream {
    fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEAD_BYTES]);
        bytes.extend_from_slice(&self.time_us.to_le_bytes());
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.body);
        bytes.extend_from_slice(&self.answer);
        let payload = &bytes[start + HEAD_BYTES..];
        assert!(payload.len() <= RECORD_BYTES_MAX, "an answer that is kept is small");
        let (length, checksum) = (payload.len() as u32, xxh3_64(payload));
        bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        bytes[start + 4..start + HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Takes a record from the beginning of `bytes`; `None` if there is no whole one.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > RECORD_BYTES_MAX || length > rest.len() {
            return None;
        }
        let (payload, rest) = rest.split_at(length);
        if xxh3_64(payload) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let (time, payload) = payload.split_first_chunk::<8>()?;
        let (key, payload) = payload.split_first_chunk::<32>()?;
        let (body, answer) = payload.split_first_chunk::<32>()?;
        *bytes = rest;
        let (time_us, answer) = (u64::from_le_bytes(*time), Bytes::copy_from_slice(answer));
        Some(AnsweredStream { time_us, key: *key, body: *body, answer })
    }
}

/// The log.
pub(super) struct AnswerLog {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// File that is written, unless none was yet, or one could not be.
    file: Option<Box<dyn AppendFile>>,
    /// Number of the newest file.
    number: u64,
    /// Size of the file that is written.
    bytes: u64,
}

impl AnswerLog {
    /// Opens the log; returns its answers, the oldest first. One may be there twice.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn open(disk: Arc<dyn Disk>, directory: PathBuf) -> io::Result<(Self, Vec<AnsweredStream>)> {
        let mut log = AnswerLog { disk, directory, file: None, number: 0, bytes: 0 };
        let mut answers = Vec::new();
        for (number, path) in log.files()? {
            log.number = number;
            let bytes = read_file(&*log.disk, &path)?.unwrap_or_default();
            let mut rest = bytes.strip_prefix(MAGIC).unwrap_or(&[]);
            let cut = if bytes.starts_with(MAGIC) { 0 } else { bytes.len() };
            while let Some(answered) = AnsweredStream::read(&mut rest) {
                answers.push(answered);
            }
            if cut + rest.len() > 0 {
                tracing::warn!(
                    "{}: {} bytes after its last whole record are ignored: streams that ended there are \
                     executed again if they are sent again",
                    path.display(),
                    cut + rest.len()
                );
            }
        }
        Ok((log, answers))
    }

    /// Files of the log with their numbers, the oldest first.
    fn files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let paths = match self.disk.list(&self.directory) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let numbered = paths.into_iter().filter_map(|path| Some((number_of(&path)?, path)));
        let mut files: Vec<_> = numbered.collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Makes answers durable. `kept` returns those that are still kept, without them.
    ///
    /// # Errors
    /// Those of the disk. The next call writes a new file.
    pub(super) fn append<'a>(
        &mut self,
        answers: impl Iterator<Item = &'a AnsweredStream>,
        kept: impl FnOnce() -> Vec<AnsweredStream>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        answers.for_each(|answered| answered.write(&mut bytes));
        match self.file.take() {
            Some(mut file) if self.bytes + (bytes.len() as u64) < FILE_BYTES_MAX => {
                file.append(&bytes)?;
                file.sync()?;
                self.bytes += bytes.len() as u64;
                self.file = Some(file);
                Ok(())
            }
            _ => {
                let mut all = MAGIC.to_vec();
                kept().iter().for_each(|answered| answered.write(&mut all));
                all.extend_from_slice(&bytes);
                self.replace(&all)
            }
        }
    }

    /// Begins a new file with `bytes`, and removes the older ones.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.create_directory(&self.directory)?;
        let older = self.files()?;
        self.number += 1;
        let mut file = self.disk.create(&self.directory.join(format!("{}.answers", self.number)))?;
        file.append(bytes)?;
        file.sync()?;
        self.disk.sync_directory(&self.directory)?;
        for (_, path) in older {
            self.disk.unlink(&path)?;
        }
        self.bytes = bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

/// Number of a file of the log.
fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".answers")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use millrace_env::RealDisk;

    use super::*;

    fn answered(number: u8) -> AnsweredStream {
        let answer = Bytes::from(format!("answer {number}"));
        AnsweredStream { time_us: number.into(), key: [number; 32], body: [100 + number; 32], answer }
    }

    fn append(log: &mut AnswerLog, number: u8, kept: Vec<AnsweredStream>) {
        log.append([answered(number)].iter(), || kept).expect("it is written");
    }

    fn numbers(directory: &Path) -> Vec<u64> {
        let (_, answers) = AnswerLog::open(Arc::new(RealDisk), directory.to_owned()).expect("it opens");
        assert!(answers.iter().all(|read| *read == answered(read.time_us as u8)));
        answers.iter().map(|answered| answered.time_us).collect()
    }

    #[test]
    fn whole_records_are_read_and_torn_ones_are_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("answers");
        let (mut log, kept) = AnswerLog::open(Arc::new(RealDisk), path.clone()).expect("it opens");
        assert!(kept.is_empty());
        (1..=3).for_each(|number| append(&mut log, number, Vec::new()));
        assert_eq!(numbers(&path), [1, 2, 3]);
        let file = path.join("1.answers");
        let whole = std::fs::read(&file).expect("a file");
        let record = (whole.len() - MAGIC.len()) / 3;
        assert_eq!(record, HEAD_BYTES + 8 + 32 + 32 + "answer 1".len());
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).expect("it is written");
            assert_eq!(numbers(&path).len(), length.saturating_sub(MAGIC.len()) / record, "{length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            std::fs::write(&file, damaged).expect("it is written");
            assert_eq!(numbers(&path).len(), at.saturating_sub(MAGIC.len()) / record, "{at}");
        }
        // The next process writes a file of its own, with what is kept.
        std::fs::write(&file, &whole).expect("it is written");
        let (mut log, kept) = AnswerLog::open(Arc::new(RealDisk), path.clone()).expect("it opens");
        append(&mut log, 4, kept[1..].to_vec());
        assert_eq!(numbers(&path), [2, 3, 4]);
        assert!(!file.exists());
    }
}
