use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::ops::{Bound, ControlFlow, Deref};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot, UserKey, UserValue};
use millrace_bucket::reversed_location;
use millrace_env::{error_causes, pace};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::SeekFrom;

use super::journal::{BatchMeasure, LINK_KEY, LogEnd, LogSalt};
use super::keyspace_files::remake_keyspace_files;
use super::log_file::{LOG_NAME, LogContent, LogCut, TailLogFile};
use super::{
    AppendError, NewRow, RowDurability, RowKey, SharedRowVisitor, TailFactory, TailFilter, TailRow, TailRows,
    TailSnapshot, marks_of,
};
use crate::error::is_no_space;
use crate::{CheckFinding, Error};

/// Generations as fjall databases, with one keyspace for rows, one for marks, and one for the links of the
/// log.
pub(crate) struct FjallTails;

const ROWS: &str = "rows";
const MARKS: &str = "marks";
const LINKS: &str = "links";

/// Maximum size of a memtable in bytes. Its rows are sealed long before, so that no row is written twice.
const MEMTABLE_BYTES: u64 = 1 << 40;
/// Maximum size of a log in bytes, never reached: all rows of a generation are in one log.
const LOG_BYTES: u64 = 1 << 40;

impl TailFactory for FjallTails {
    fn create(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        self.delete(directory)?;
        create_generation(directory).inspect_err(|_| {
            // The partial files are useless, and take space.
            let _ = self.delete(directory);
        })
    }

    fn lay_out(&self, directory: &Path, bytes: u64, is_wanted: &dyn Fn() -> bool) {
        // Only an optimisation: errors are ignored.
        let _ = fill_holes(directory, bytes, is_wanted);
    }

    fn open(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        Ok(open_or_remake(directory)?.0)
    }

    fn check(&self, directory: &Path) -> Result<Vec<CheckFinding>, Error> {
        check_logs(directory)?;
        let mut findings = Vec::new();
        let (_, cut) = TailLogFile::of(directory).check()?;
        if let Some(LogCut { log, end, bytes, .. }) = cut {
            findings.push(CheckFinding {
                path: log,
                offset: Some(end),
                meaning: format!(
                    "a crash interrupted writes that were not synced: {bytes} bytes of them are there"
                ),
                cure: "nothing: the next start cuts them off".to_owned(),
            });
        }
        let failed =
            |error: io::Error| Error::io("copy the tail to the directory for temporary files", &error);
        // Opening completes work left undone by a crash, so it is tried on a copy.
        let root = tempfile::tempdir().map_err(failed)?;
        let copy = root.path().join("tail/copy");
        copy_directory(directory, &copy).map_err(failed)?;
        let (tail, is_remade) = open_or_remake(&copy)?;
        if is_remade {
            findings.push(CheckFinding {
                path: directory.to_owned(),
                offset: None,
                meaning: "a file beside the log is damaged or missing; it has no documents".to_owned(),
                cure: "nothing: the next start makes it again".to_owned(),
            });
        }
        marks_of(&*tail)?;
        tail.snapshot().range(&[], None, &mut |key, value| {
            TailRow::decode(&RowKey::parse(key)?, value)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(findings)
    }

    fn delete(&self, directory: &Path) -> Result<(), Error> {
        match shrink_files(directory).and_then(|()| std::fs::remove_dir_all(directory)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(&format!("delete the sealed tail {}", directory.display()), &error))
            }
            _ => Ok(()),
        }
    }
}

impl FjallTails {
    /// Cuts the log of a generation if it is damaged, and copies the cut bytes. `None`: it is not damaged.
    ///
    /// # Errors
    /// The log cannot be read, copied or cut.
    pub fn repair(directory: &Path) -> Result<Option<LogCut>, Error> {
        check_logs(directory)?;
        TailLogFile::of(directory).cut_damaged_end(&copies_of(directory))
    }
}

/// Directory for copies of bytes cut from logs: beside the directory of all generations.
fn copies_of(directory: &Path) -> PathBuf {
    directory.ancestors().nth(2).unwrap_or(directory).join("torn")
}

/// There must be one log and no other: rows in another would be left out.
fn check_logs(directory: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::io(&format!("read {}", directory.display()), &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_log = path.extension().is_some_and(|extension| extension == "jnl");
        if is_log && path.file_name().is_some_and(|name| name != LOG_NAME) {
            let reason = format!(
                "it is a log beside {LOG_NAME}, and a generation has one; open the directory once with the version that wrote it"
            );
            return Err(Error::DataDirectory { path, reason });
        }
    }
    Ok(())
}

fn create_generation(directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
    let action = || format!("make a generation of the tail in {}", directory.display());
    let tail = open_database(directory, LogEnd::default()).map_err(|error| match io_error(&error) {
        Some(source) => Error::io(&action(), source),
        None => Error::Io { action: action(), reason: error.to_string() },
    })?;
    // From the first byte on the log has its salt.
    tail.write(&mut tail.log(), &tail.rows, Vec::new(), RowDurability::Synced).map_err(
        |error| match error {
            AppendError::Full => Error::NoSpace { action: action(), reason: "write the log".to_owned() },
            AppendError::NotDurable(reason) => Error::Io { action: action(), reason },
        },
    )?;
    TailLogFile::of(directory).mark_begun().map_err(|error| Error::io(&action(), &error))?;
    Ok(Arc::new(tail))
}

/// A database without rows.
fn make_empty(directory: &Path) -> io::Result<()> {
    let made = open_database(directory, LogEnd::default());
    made.map(drop).map_err(|error| {
        let kind = io_error(&error).map_or(io::ErrorKind::Other, io::Error::kind);
        io::Error::new(kind, error.to_string())
    })
}

/// Number of bytes in which logs are filled at once, so that no sync waits for more.
const FILLED_AT_ONCE: u64 = 256 << 10;

/// Writes zeros where the logs of a directory have none yet, until they are wanted: they are made long at
/// once, but as holes.
fn fill_holes(directory: &Path, bytes: u64, is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    let zeros = vec![0; FILLED_AT_ONCE as usize];
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let file = File::options().read(true).write(true).open(path)?;
        let end = bytes.min(file.metadata()?.len());
        let mut at = rustix::fs::seek(&file, SeekFrom::Hole(0))?;
        while at < end && !is_wanted() {
            pace::step();
            let piece = FILLED_AT_ONCE.min(end - at);
            file.write_all_at(&zeros[..piece as usize], at)?;
            file.sync_data()?;
            at += piece;
        }
    }
    Ok(())
}

/// Number of bytes of a file that are freed at once,
const FREED_AT_ONCE: u64 = 2 << 20;
/// with this pause in between.
const FREED_EVERY: Duration = Duration::from_millis(2);

/// Truncates the large files of a directory step by step. A file system that discards freed blocks does so at
/// once, and for a whole log that can take so long that the syncs of the next log are delayed.
fn shrink_files(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        // Bytes beyond the allotted space of a log are a hole.
        let mut length = metadata.len().min(metadata.blocks() * 512);
        if !metadata.is_file() || length <= FREED_AT_ONCE {
            continue;
        }
        let file = File::options().write(true).open(entry.path())?;
        while length > FREED_AT_ONCE {
            length -= FREED_AT_ONCE;
            file.set_len(length)?;
            std::thread::sleep(FREED_EVERY);
        }
    }
    Ok(())
}

/// Copies a directory with everything in it.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Opens a generation that was written before. Returns also true if the files beside the log had to be made
/// again.
fn open_or_remake(directory: &Path) -> Result<(Arc<dyn TailRows>, bool), Error> {
    check_logs(directory)?;
    let log = TailLogFile::of(directory).cut_torn_end(&copies_of(directory))?;
    // What a killed process has written and not synced is acknowledged, and visible from now on.
    TailLogFile::of(directory).sync(&log)?;
    match open_existing(directory, &log) {
        Ok(tail) => Ok((Arc::new(tail), false)),
        Err(error @ Error::NoSpace { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the files beside the log of the tail are damaged, and are made again; they have no documents");
            let action = format!("make the files beside the log in {} again", directory.display());
            remake_keyspace_files(directory, make_empty).map_err(|error| Error::io(&action, &error))?;
            Ok((Arc::new(open_existing(directory, &log)?), true))
        }
    }
}

/// Opens a generation, and compares its contents in the embedded store with its log.
fn open_existing(directory: &Path, log: &LogContent) -> Result<FjallTail, Error> {
    let failed = |reason: &dyn fmt::Display| Error::Tail {
        action: "open the tail",
        reason: format!("{}: {reason}; run `millrace doctor`", directory.display()),
    };
    // The embedded store may panic on damaged files.
    let opened = catch_unwind(|| open_database(directory, log.end));
    let tail = opened.map_err(|_| failed(&"a file beside the log is damaged"))?.map_err(|error| {
        match io_error(&error) {
            Some(source) if is_no_space(source) => {
                Error::io(&format!("open the tail in {}", directory.display()), source)
            }
            _ => failed(&error),
        }
    })?;
    let keyspaces = [Some(&tail.rows), Some(&tail.marks), tail.links.as_ref()];
    let numbers: Vec<u64> = keyspaces.iter().flatten().map(|keyspace| keyspace.id()).collect();
    let rows = tail.add_ids().map_err(|error| failed(&error))?;
    let marks = tail.marks.len().map_err(|error| failed(&error))?;
    for (keyspace, found) in [(&tail.rows, rows), (&tail.marks, marks)] {
        let written = log.keys.count(keyspace.id());
        if found != written || !log.keys.are_within(&numbers) {
            let name = keyspace.name();
            // It writes nothing more when it is closed: another is opened with the log as it was read.
            tail.has_failed.store(true, Ordering::SeqCst);
            return Err(failed(&format!("of {written} {name} in the log, {found} were found")));
        }
    }
    Ok(tail)
}

fn open_database(directory: &Path, end: LogEnd) -> Result<FjallTail, fjall::Error> {
    let builder = Database::builder(directory).worker_threads(1).cache_size(1 << 20);
    let database = builder.max_journaling_size(LOG_BYTES).open()?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
    let rows = database.keyspace(ROWS, options)?;
    let marks = database.keyspace(MARKS, options)?;
    // Earlier versions made generations without; on a full disk those stay so, and the store starts all the
    // same.
    let links = match database.keyspace(LINKS, options) {
        Err(error) if io_error(&error).is_some_and(is_no_space) => None,
        links => Some(links?),
    };
    let end = LogEnd { salt: Some(end.salt.unwrap_or_else(new_salt)), ..end };
    let log = Mutex::new(WrittenLog { end, synced: end.bytes });
    Ok(FjallTail {
        database,
        rows,
        ids: TailFilter::default(),
        marks,
        links,
        log,
        has_failed: AtomicBool::new(false),
        directory: directory.to_owned(),
    })
}

/// Random bytes that cannot be foreseen.
fn new_salt() -> LogSalt {
    let [first, second] = [0, 1].map(|number: u8| RandomState::new().hash_one(number).to_le_bytes());
    let mut salt = LogSalt::default();
    salt[..8].copy_from_slice(&first);
    salt[8..].copy_from_slice(&second);
    salt
}

/// Returns the error of the system, if there is one.
fn io_error(error: &fjall::Error) -> Option<&io::Error> {
    error_causes(error).find_map(|cause| cause.downcast_ref())
}

struct FjallTail {
    database: Database,
    rows: Keyspace,
    /// The ids of all rows, and of rows that could not be written.
    ids: TailFilter,
    marks: Keyspace,
    /// `None` in a generation of an earlier version, as long as the disk is full.
    links: Option<Keyspace>,
    /// Held while a batch is written.
    log: Mutex<WrittenLog>,
    /// A batch could not be written: nothing is written after it.
    has_failed: AtomicBool,
    directory: PathBuf,
}

/// The log of a generation that is open.
struct WrittenLog {
    end: LogEnd,
    /// The byte before which all is synced.
    synced: u64,
}

impl TailRows for FjallTail {
    fn append(&self, mut rows: Vec<NewRow>, durability: RowDurability) -> Result<(), AppendError> {
        self.ids.add(rows.iter().map(|(key, _)| &**key));
        // In memory they are sorted: the way to a row is much the same as that to the one before.
        rows.sort_by_cached_key(|(key, _)| reversed_location(key));
        self.write(&mut self.log(), &self.rows, rows, durability)
    }

    fn sync(&self) -> Result<(), AppendError> {
        let mut log = self.log();
        if log.synced == log.end.bytes {
            return Ok(());
        }
        self.database.persist(PersistMode::SyncData).map_err(|error| {
            self.has_failed.store(true, Ordering::SeqCst);
            AppendError::NotDurable(error.to_string())
        })?;
        log.synced = log.end.bytes;
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn TailSnapshot> {
        Box::new(FjallSnapshot { snapshot: self.database.snapshot(), rows: self.rows.clone() })
    }

    fn ids(&self) -> &TailFilter {
        &self.ids
    }

    fn append_marks(&self, marks: Vec<(u64, Vec<u8>)>) -> Result<(), AppendError> {
        let entry = |(timestamp, mark): (u64, Vec<u8>)| {
            (RowBytes::from(&timestamp.to_be_bytes()[..]), RowBytes::from(mark.as_slice()))
        };
        let entries = marks.into_iter().map(entry).collect();
        self.write(&mut self.log(), &self.marks, entries, RowDurability::Synced)
    }

    fn marks(&self) -> Result<Vec<Vec<u8>>, Error> {
        let failed = |error: fjall::Error| Error::Tail {
            action: "read the marks of the tail",
            reason: error.to_string(),
        };
        let value = |guard: fjall::Guard| guard.into_inner().map(|(_, value)| value.to_vec()).map_err(failed);
        self.marks.iter().map(value).collect()
    }
}

impl FjallTail {
    fn log(&self) -> MutexGuard<'_, WrittenLog> {
        self.log.lock()
    }

    /// Adds the ids of the rows that were written before to the filter. Returns the number of rows.
    fn add_ids(&self) -> Result<usize, fjall::Error> {
        let keys: Vec<fjall::Slice> = self.rows.iter().map(fjall::Guard::key).collect::<Result<_, _>>()?;
        self.ids.add(keys.iter().map(|key| &**key));
        Ok(keys.len())
    }

    /// Writes all of a batch or nothing.
    fn write(
        &self,
        log: &mut WrittenLog,
        keyspace: &Keyspace,
        entries: Vec<NewRow>,
        durability: RowDurability,
    ) -> Result<(), AppendError> {
        assert!(
            !self.has_failed.load(Ordering::SeqCst),
            "a generation takes no rows after a write of it failed"
        );
        let has_rows = !entries.is_empty();
        let mode = match durability {
            RowDurability::Synced => PersistMode::SyncData,
            RowDurability::Written => PersistMode::Buffer,
        };
        let mut batch = self.database.batch().durability(Some(mode));
        let mut measure = BatchMeasure::default();
        if let Some(links) = &self.links {
            let link = log.end.link(log.synced).encode();
            measure.add_link(links.id(), &link);
            batch.insert(links, LINK_KEY.as_slice(), link);
        }
        for (key, value) in entries {
            measure.add(keyspace.id(), &key, &value);
            batch.insert(keyspace, key.0, value.0);
        }
        let committed = batch.commit();
        if committed.is_ok() {
            log.end = measure.after(&log.end, has_rows);
            if durability == RowDurability::Synced {
                log.synced = log.end.bytes;
            }
        }
        committed.map_err(|error| self.fail(&log.end, &error))
    }

    /// Handles a batch that could not be written: some of it may be in the log, and the rest in a buffer that
    /// the embedded store writes out when it is closed. A client that gets a no-space error must not find the
    /// batch at the next start.
    fn fail(&self, log: &LogEnd, error: &fjall::Error) -> AppendError {
        self.has_failed.store(true, Ordering::SeqCst);
        if !io_error(error).is_some_and(is_no_space) {
            return AppendError::NotDurable(error.to_string());
        }
        match TailLogFile::of(&self.directory).mark_end(log.bytes) {
            Ok(()) => AppendError::Full,
            Err(marking) => {
                AppendError::NotDurable(format!("{error}; and the log could not be cut: {marking}"))
            }
        }
    }
}

impl Drop for FjallTail {
    /// Closes the log with a link alone, which says that all before it was acknowledged.
    fn drop(&mut self) {
        let mut log = self.log();
        if log.end.has_rows && self.links.is_some() && !self.has_failed.load(Ordering::SeqCst) {
            // Without it, too, the log is whole.
            let _ = self.write(&mut log, &self.rows, Vec::new(), RowDurability::Synced);
        }
    }
}

struct FjallSnapshot {
    snapshot: Snapshot,
    rows: Keyspace,
}

/// Key or value of a row as a generation has it in memory, so that it is not copied when it is added.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowBytes(UserValue);

impl From<&[u8]> for RowBytes {
    fn from(bytes: &[u8]) -> Self {
        RowBytes(UserValue::from(bytes))
    }
}

impl Deref for RowBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A row in the memory of its generation. It holds this row there, and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedRow {
    key: UserKey,
    value: UserValue,
}

impl SharedRow {
    #[cfg(test)]
    pub fn new(key: RowBytes, value: RowBytes) -> Self {
        SharedRow { key: key.0, value: value.0 }
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    pub fn value(&self) -> &[u8] {
        &self.value
    }
}

impl TailSnapshot for FjallSnapshot {
    fn shared_range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut SharedRowVisitor<'_>,
    ) -> Result<(), Error> {
        let range = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        for guard in self.snapshot.range::<&[u8], _>(&self.rows, range) {
            let (key, value) = guard.into_inner().map_err(|error| unread(&error))?;
            if let ControlFlow::Break(()) = visit(SharedRow { key, value })? {
                break;
            }
        }
        Ok(())
    }
}

fn unread(error: &fjall::Error) -> Error {
    Error::Tail { action: "read the tail", reason: error.to_string() }
}

#[cfg(test)]
#[path = "fjall_tests.rs"]
mod tests;
