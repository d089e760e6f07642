use std::fs::File;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use millrace_env::pace;
use rustix::fs::SeekFrom;

use super::{
    AppendError, KeyValue, Row, RowKey, RowVisitor, Tail, TailSnapshot, Tails, check_journals, marks_of,
};
use crate::Error;
use crate::error::is_no_space;

/// Generations as fjall databases, with one keyspace for rows and one for marks.
pub(crate) struct FjallTails;

const ROWS: &str = "rows";
const MARKS: &str = "marks";

/// Rows are sealed long before their memtable has so many bytes, so that none is written twice.
const MEMTABLE_BYTES: u64 = 1 << 40;

impl Tails for FjallTails {
    fn create(&self, directory: &Path) -> Result<Arc<dyn Tail>, Error> {
        self.delete(directory)?;
        open_database(directory).map_err(|error| {
            // What stands of it is of no use, and takes space.
            let _ = self.delete(directory);
            let action = format!("make a generation of the tail in {}", directory.display());
            match io_error(&error) {
                Some(source) => Error::io(&action, source),
                None => Error::Io { action, reason: error.to_string() },
            }
        })
    }

    fn lay_out(&self, directory: &Path, bytes: u64) {
        // Appending works as well without.
        let _ = fill_holes(directory, bytes);
    }

    fn open(&self, directory: &Path) -> Result<Arc<dyn Tail>, Error> {
        check_journals(directory)?;
        open_existing(directory)
    }

    fn check(&self, directory: &Path) -> Result<(), Error> {
        check_journals(directory)?;
        // Opening completes what a crash left undone, so it is tried on a copy.
        let failed =
            |error: io::Error| Error::io("copy the tail to the directory for temporary files", &error);
        let copy = tempfile::tempdir().map_err(failed)?;
        copy_directory(directory, copy.path()).map_err(failed)?;
        let tail = open_existing(copy.path())?;
        marks_of(&*tail)?;
        tail.snapshot().range(&[], None, &mut |key, value| {
            Row::decode(&RowKey::parse(key)?, value)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    fn delete(&self, directory: &Path) -> Result<(), Error> {
        match shrink_files(directory).and_then(|()| std::fs::remove_dir_all(directory)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::Io {
                action: format!("delete the sealed tail {}", directory.display()),
                reason: error.to_string(),
            }),
            _ => Ok(()),
        }
    }
}

/// Logs are filled in pieces of so much, so that nobody's sync waits for more.
const FILLED_AT_ONCE: u64 = 256 << 10;

/// Writes zeros where the logs of a directory have none yet: they are made long at once, but as holes.
fn fill_holes(directory: &Path, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; FILLED_AT_ONCE as usize];
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let file = File::options().read(true).write(true).open(path)?;
        let end = bytes.min(file.metadata()?.len());
        let mut at = rustix::fs::seek(&file, SeekFrom::Hole(0))?;
        while at < end {
            pace::step();
            let piece = FILLED_AT_ONCE.min(end - at);
            file.write_all_at(&zeros[..piece as usize], at)?;
            file.sync_data()?;
            at += piece;
        }
    }
    Ok(())
}

/// Space comes free in pieces of so much,
const FREED_AT_ONCE: u64 = 2 << 20;
/// with so much time between them.
const FREED_EVERY: Duration = Duration::from_millis(2);

/// Makes the large files of a directory small, a piece at a time. A file system that tells the disk which space comes free does so
/// at once, and for a whole log that can take so long that the syncs of the next log wait.
fn shrink_files(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        // What lies past the space that a log takes is a hole.
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

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
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

fn open_existing(directory: &Path) -> Result<Arc<dyn Tail>, Error> {
    open_database(directory).map_err(|error| match io_error(&error) {
        Some(source) if is_no_space(source) => {
            Error::io(&format!("open the tail in {}", directory.display()), source)
        }
        _ => Error::Tail {
            action: "open the tail",
            reason: format!("{}: {error}; run `millrace doctor`", directory.display()),
        },
    })
}

fn open_database(directory: &Path) -> Result<Arc<dyn Tail>, fjall::Error> {
    let database = Database::builder(directory).worker_threads(1).cache_size(1 << 20).open()?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
    let rows = database.keyspace(ROWS, options)?;
    let marks = database.keyspace(MARKS, options)?;
    Ok(Arc::new(FjallTail { database, rows, marks }))
}

/// What the system said, where it did.
fn io_error(error: &fjall::Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

struct FjallTail {
    database: Database,
    rows: Keyspace,
    marks: Keyspace,
}

impl Tail for FjallTail {
    fn append(&self, rows: Vec<KeyValue>) -> Result<(), AppendError> {
        self.commit(&self.rows, rows)
    }

    fn snapshot(&self) -> Box<dyn TailSnapshot> {
        Box::new(FjallSnapshot { snapshot: self.database.snapshot(), rows: self.rows.clone() })
    }

    fn append_mark(&self, timestamp: u64, mark: Vec<u8>) -> Result<(), AppendError> {
        self.commit(&self.marks, vec![(timestamp.to_be_bytes().to_vec(), mark)])
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
    /// Writes all of a batch or nothing, durably.
    fn commit(&self, keyspace: &Keyspace, entries: Vec<KeyValue>) -> Result<(), AppendError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in entries {
            batch.insert(keyspace, key, value);
        }
        batch.commit().map_err(|error| {
            if io_error(&error).is_some_and(is_no_space) {
                AppendError::Full
            } else {
                AppendError::NotDurable(error.to_string())
            }
        })
    }
}

struct FjallSnapshot {
    snapshot: Snapshot,
    rows: Keyspace,
}

impl TailSnapshot for FjallSnapshot {
    fn range(&self, from: &[u8], to: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<(), Error> {
        let range = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        for guard in self.snapshot.range::<&[u8], _>(&self.rows, range) {
            let (key, value) = guard
                .into_inner()
                .map_err(|error| Error::Tail { action: "read the tail", reason: error.to_string() })?;
            if let ControlFlow::Break(()) = visit(&key, &value)? {
                break;
            }
        }
        Ok(())
    }
}
