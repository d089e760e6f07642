//! The log of a generation as a file: read, checked, and cut to its whole batches before the embedded store
//! opens it.
//!
//! The embedded store would cut a log too, but at any byte it cannot read, and it refuses a log whose last
//! batch has a hole. So it is given only whole batches.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use millrace_env::{Disk as _, RealDisk};
use rustix::fs::{SeekFrom, seek};

use super::journal::{LogEnd, LogEntry, LogKeys, LogTailState, LogVerdict, entries, judge};
use crate::Error;

/// Size of the blocks in which zeros at the end of a log are read.
const PIECE: usize = 256 << 10;

/// The log of a generation. The embedded store begins no second one: see `open_database`.
pub(crate) const LOG_NAME: &str = "0.jnl";

/// Prefix of the name of an empty file that gives the byte at which the log ends, even if more bytes follow.
const END_MARKER: &str = "ends-at-";

/// Name of an empty file beside a log that had a first batch, durably, before any manifest named it.
const BEGUN: &str = "begun";

/// Number of copies of cut bytes that are kept, the newest ones.
const COPIES_MAX: usize = 8;
/// Bytes of one copy: more than a batch has.
const COPY_BYTES_MAX: u64 = 256 << 20;

/// Damage at the end of a log, to be cut or already cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogCut {
    pub log: PathBuf,
    /// The byte at which the log ends from now on.
    pub end: u64,
    /// Bytes that were, or are to be, cut.
    pub bytes: u64,
    /// File with a copy of them; `None` if there is no copy.
    pub copy: Option<PathBuf>,
}

/// The whole batches of a log.
pub(crate) struct LogContent {
    pub end: LogEnd,
    /// The byte before which all is known to be synced.
    pub synced: u64,
    pub keys: LogKeys,
}

/// The whole batches of a log, in memory.
pub(crate) struct LogBatches {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl LogBatches {
    /// Its rows and marks, in the order in which they were written.
    pub fn entries(&self) -> impl Iterator<Item = Result<LogEntry<'_>, Error>> {
        entries(&self.bytes).map(|entry| {
            entry.ok_or_else(|| Error::Corrupt {
                path: self.path.clone(),
                offset: 0,
                reason: "it has an item that is neither a row nor a mark".to_owned(),
            })
        })
    }
}

/// The log of a generation.
pub(crate) struct TailLogFile {
    path: PathBuf,
    directory: PathBuf,
    /// It was moved out of its generation, and cut to its whole batches before.
    is_kept: bool,
}

impl TailLogFile {
    pub fn of(directory: &Path) -> Self {
        TailLogFile { path: directory.join(LOG_NAME), directory: directory.to_owned(), is_kept: false }
    }

    /// The log at a path: that of a generation, or one that was moved out of its generation, under another
    /// name, to be kept.
    pub fn at(path: &Path) -> Self {
        let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
        let is_kept = path.file_name().is_none_or(|name| name != LOG_NAME);
        TailLogFile { path: path.to_owned(), directory, is_kept }
    }

    /// Reads the whole batches of the log. Changes nothing; what a crash left after them is left out.
    ///
    /// # Errors
    /// Those of [`TailLogFile::check`]; a kept log does not end with a whole batch.
    pub fn read(&self) -> Result<LogBatches, Error> {
        let (verdict, mut bytes) = self.judge()?;
        let fault = match verdict.rest {
            LogTailState::Damaged(reason) => Some(reason),
            LogTailState::Torn(_) if self.is_kept => Some("the kept log ends within a batch: it was cut"),
            LogTailState::Blank if self.is_kept && verdict.end.bytes == 0 => {
                Some("the kept log has no batch: it was cut")
            }
            LogTailState::Torn(_) | LogTailState::Blank => None,
        };
        if let Some(reason) = fault {
            let (path, offset) = (self.path.clone(), verdict.end.bytes);
            return Err(Error::Corrupt { path, offset, reason: reason.to_owned() });
        }
        let end = usize::try_from(verdict.end.bytes);
        bytes.truncate(end.expect("a log in memory is shorter than the address space"));
        Ok(LogBatches { path: self.path.clone(), bytes })
    }

    /// Returns true if the log has a row or a mark in a whole batch.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn has_entries(&self) -> Result<bool, Error> {
        let (verdict, mut bytes) = self.judge()?;
        let end = usize::try_from(verdict.end.bytes);
        bytes.truncate(end.expect("a log in memory is shorter than the address space"));
        Ok(entries(&bytes).next().is_some())
    }

    /// Reads and judges the log. Changes nothing.
    ///
    /// # Errors
    /// The log is damaged, is not there, or cannot be read.
    pub fn check(&self) -> Result<(LogContent, Option<LogCut>), Error> {
        let (verdict, _) = self.judge()?;
        let content = LogContent { end: verdict.end, synced: verdict.synced, keys: verdict.keys };
        let offset = content.end.bytes;
        match verdict.rest {
            LogTailState::Blank => Ok((content, None)),
            LogTailState::Torn(bytes) => Ok((content, Some(self.cut_at(offset, bytes)))),
            LogTailState::Damaged(reason) => {
                Err(Error::Corrupt { path: self.path.clone(), offset, reason: reason.to_owned() })
            }
        }
    }

    /// Has the log end after its whole batches, durably. What a crash left after them is copied to `copies`.
    ///
    /// # Errors
    /// Those of [`TailLogFile::check`]; the log cannot be cut.
    pub fn cut_torn_end(&self, copies: &Path) -> Result<LogContent, Error> {
        self.apply_end_marker()?;
        let (content, cut) = self.check()?;
        if let Some(mut cut) = cut {
            // What was not synced need not be kept; without space for a copy the store starts all the
            // same.
            cut.copy = self.copy_end(&cut, copies).ok();
            self.truncate(content.end.bytes)?;
            tracing::warn!(
                log = %cut.log.display(), end = cut.end, bytes = cut.bytes,
                copy = cut.copy.as_ref().map(|copy| copy.display().to_string()),
                "the log of the tail ended in writes that a crash interrupted, which were not synced; they were cut off"
            );
        }
        Ok(content)
    }

    /// Makes the whole batches of the log durable. Those that may not be are written again: after a sync that
    /// failed, the system takes bytes in its memory for written that are not on the disk.
    ///
    /// # Errors
    /// The system cannot.
    pub fn sync(&self, content: &LogContent) -> Result<(), Error> {
        let sync = || {
            let file = File::options().read(true).write(true).open(&self.path)?;
            let (mut at, end) = (content.synced, content.end.bytes);
            let mut bytes = vec![0; PIECE];
            while at < end {
                let piece = &mut bytes[..(end - at).min(PIECE as u64) as usize];
                file.read_exact_at(piece, at)?;
                file.write_all_at(piece, at)?;
                at += piece.len() as u64;
            }
            file.sync_data()
        };
        sync().map_err(|error| self.failed("sync", &error))
    }

    /// Notes that the log has its first batch: it is damaged if it has none from now on. The directory has
    /// yet to be synced.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn mark_begun(&self) -> io::Result<()> {
        File::create(self.directory.join(BEGUN)).map(drop)
    }

    /// Forgets that the log had a batch.
    fn unmark_begun(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join(BEGUN)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        File::open(&self.directory)?.sync_all()
    }

    /// Cuts a damaged log after the last batch that is whole, though batches that were acknowledged may
    /// follow. They are copied to `copies`. Returns `None` where the log is not damaged.
    ///
    /// # Errors
    /// The log cannot be read, copied or cut.
    pub fn cut_damaged_end(&self, copies: &Path) -> Result<Option<LogCut>, Error> {
        self.apply_end_marker()?;
        let (verdict, bytes) = self.judge()?;
        if !matches!(verdict.rest, LogTailState::Damaged(_)) {
            return Ok(None);
        }
        let (written, end) = (bytes.len() as u64, verdict.end.bytes);
        drop(bytes);
        let mut cut = self.cut_at(end, written - end);
        cut.copy = Some(self.copy_end(&cut, copies)?);
        if end == 0 {
            // First: an empty log with the mark would be damaged again, and repaired over its copy.
            self.unmark_begun().map_err(|error| self.failed("cut", &error))?;
        }
        self.truncate(end)?;
        Ok(Some(cut))
    }

    /// Ends the log at a byte durably, even if more is, or will be, written after it. Takes no space except
    /// for a name.
    pub fn mark_end(&self, end: u64) -> io::Result<()> {
        let marker = self.directory.join(format!("{END_MARKER}{end}"));
        if fs::hard_link(self.directory.join("lock"), &marker).is_err() {
            // A file system without hard links, or the marker is there.
            File::create(&marker)?;
        }
        File::open(&self.directory)?.sync_all()?;
        // Versions that do not know the marker find the log cut, too, unless the embedded store writes once
        // more when it is closed.
        let file = File::options().write(true).open(&self.path)?;
        file.set_len(end)?;
        file.sync_all()
    }

    /// Cuts the log where a marker says that it ends, and takes the marker away.
    fn apply_end_marker(&self) -> Result<(), Error> {
        let failed = |error: io::Error| self.failed("cut", &error);
        for (end, marker) in self.end_markers().map_err(failed)? {
            if fs::metadata(&self.path).map_err(failed)?.len() > end {
                self.truncate(end)?;
            }
            fs::remove_file(marker).map_err(failed)?;
            File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    fn end_markers(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut markers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let end = path.file_name().and_then(|name| name.to_str()?.strip_prefix(END_MARKER)?.parse().ok());
            markers.extend(end.map(|end| (end, path)));
        }
        Ok(markers)
    }

    /// The verdict, and the bytes up to the last one that is not zero.
    fn judge(&self) -> Result<(LogVerdict, Vec<u8>), Error> {
        let mut bytes = read_written(&self.path).map_err(|error| self.failed("read", &error))?;
        let markers = self.end_markers().map_err(|error| self.failed("read", &error))?;
        let end = markers.iter().map(|(end, _)| *end).min().unwrap_or(u64::MAX);
        bytes.truncate(usize::try_from(end).unwrap_or(usize::MAX));
        let mut verdict = judge(&bytes);
        let is_damaged = matches!(verdict.rest, LogTailState::Damaged(_));
        if verdict.end.bytes == 0 && !is_damaged && self.directory.join(BEGUN).exists() {
            verdict.rest = LogTailState::Damaged(
                "the log has no whole batch, and had one from its beginning: it is damaged there, or was cut",
            );
        }
        Ok((verdict, bytes))
    }

    fn cut_at(&self, end: u64, bytes: u64) -> LogCut {
        LogCut { log: self.path.clone(), end, bytes, copy: None }
    }

    fn truncate(&self, end: u64) -> Result<(), Error> {
        let cut = || {
            let file = File::options().write(true).open(&self.path)?;
            file.set_len(end)?;
            file.sync_all()
        };
        cut().map_err(|error| self.failed("cut", &error))
    }

    /// Copies the bytes after the end of the log, durably, and deletes older copies.
    fn copy_end(&self, cut: &LogCut, copies: &Path) -> Result<PathBuf, Error> {
        let generation = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let target = copies.join(format!("{generation}-{:012}", cut.end));
        let copy = || -> io::Result<()> {
            RealDisk.create_directory(copies)?;
            let mut from = File::open(&self.path)?;
            from.seek(io::SeekFrom::Start(cut.end))?;
            let mut to = File::create(&target)?;
            io::copy(&mut from.take(cut.bytes.min(COPY_BYTES_MAX)), &mut to)?;
            to.sync_all()?;
            File::open(copies)?.sync_all()?;
            delete_old_copies(copies)
        };
        copy().map_err(|error| self.failed("copy the end of", &error))?;
        Ok(target)
    }

    fn failed(&self, verb: &str, error: &io::Error) -> Error {
        let action = format!("{verb} {}", self.path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Error::Corrupt {
                path: self.path.clone(),
                offset: 0,
                reason: "the log of the latest writes is not there".to_owned(),
            },
            _ => Error::io(&action, error),
        }
    }
}

/// Keeps the copies that were made last. Their names ascend with the numbers of generations.
fn delete_old_copies(copies: &Path) -> io::Result<()> {
    let mut paths = fs::read_dir(copies)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    let surplus = paths.len().saturating_sub(COPIES_MAX);
    paths[..surplus].iter().try_for_each(fs::remove_file)
}

/// The bytes of a file up to its last one that is not zero: logs are made long at once, as holes or as zeros,
/// which need not be in memory. The zeros at the end may be cut off meanwhile, as they are when a log is
/// kept.
fn read_written(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = loop {
        match length_written(&file) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            length => break length?,
        }
    };
    file.rewind()?;
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Length of a file up to its last byte that is not zero. Fails with `UnexpectedEof` if it is cut meanwhile.
fn length_written(file: &File) -> io::Result<u64> {
    let mut length = 0;
    loop {
        match seek(file, SeekFrom::Data(length)).and_then(|data| seek(file, SeekFrom::Hole(data))) {
            Ok(hole) => length = hole,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that does not know holes.
            Err(_) => {
                length = file.metadata()?.len();
                break;
            }
        }
    }
    let mut piece = vec![0; PIECE];
    while length > 0 {
        let from = length.saturating_sub(PIECE as u64);
        let piece = &mut piece[..(length - from) as usize];
        file.read_exact_at(piece, from)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            return Ok(from + last as u64 + 1);
        }
        length = from;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_log_is_read_whole_while_its_blank_end_is_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = TailLogFile::of(directory.path());
        std::fs::write(&log.path, [7; 1000]).expect("written");
        let file = File::options().write(true).open(&log.path).expect("opened");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // Zeros that are no hole, and their end.
                    file.write_all_at(&[0; 3 * PIECE], 1000).expect("written");
                    file.set_len(1000).expect("cut");
                }
            });
            for _ in 0..1000 {
                let bytes = read_written(&log.path).map_err(|error| error.to_string());
                if bytes != Ok(vec![7; 1000]) {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!(bytes, Ok(vec![7; 1000]));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
