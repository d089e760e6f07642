//! Files of a session, on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use millrace_node::Error;
use millrace_schema::FILES_MAX;

use super::SessionReservation;

/// The files of a package by path, in memory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Files of a package by path, each stored under a number as its name. They are deleted when this is dropped.
pub(crate) struct SessionFiles {
    directory: PathBuf,
    share: SessionReservation,
    by_path: BTreeMap<String, StoredFile>,
    /// Paths of deleted files.
    deleted: BTreeSet<String>,
    /// Number of files written so far.
    written: u64,
}

#[derive(Clone, Copy)]
struct StoredFile {
    number: u64,
    bytes: u64,
    /// True if it replaced another file.
    is_changed: bool,
}

impl SessionFiles {
    /// Writes all files of a package into a new directory.
    ///
    /// # Errors
    /// They exceed the limit of all sessions, or cannot be written.
    pub(super) fn write_all(
        directory: &Path,
        share: SessionReservation,
        files: &Files,
    ) -> Result<Self, Error> {
        std::fs::create_dir(directory).map_err(failed)?;
        let directory = directory.to_owned();
        let (by_path, deleted) = (BTreeMap::new(), BTreeSet::new());
        let mut stored = SessionFiles { directory, share, by_path, deleted, written: 0 };
        for (path, content) in files {
            stored.write(path, content)?;
        }
        Ok(stored)
    }

    /// Writes a file, replacing an existing one.
    ///
    /// # Errors
    /// Those of [`SessionFiles::write_all`]; the existing file then stays.
    pub(crate) fn write(&mut self, path: &str, content: &[u8]) -> Result<(), Error> {
        let bytes = content.len() as u64;
        self.share.grow(bytes)?;
        let number = self.written;
        self.written += 1;
        if let Err(error) = std::fs::write(self.place(number), content) {
            // Nothing refers to the partial file.
            let _ = std::fs::remove_file(self.place(number));
            self.share.shrink(bytes);
            return Err(failed(error));
        }
        let is_changed = self.by_path.contains_key(path);
        if let Some(before) = self.by_path.insert(path.to_owned(), StoredFile { number, bytes, is_changed }) {
            self.forget(before);
        }
        self.deleted.remove(path);
        Ok(())
    }

    /// Removes the files with matching paths; returns their number.
    pub(crate) fn remove(&mut self, goes: impl Fn(&str) -> bool) -> usize {
        let gone: Vec<String> = self.by_path.keys().filter(|path| goes(path)).cloned().collect();
        for path in &gone {
            if let Some(file) = self.by_path.remove(path) {
                self.forget(file);
            }
        }
        let count = gone.len();
        // As many as a package may have files, however often some are written and deleted.
        let room = FILES_MAX.saturating_sub(self.deleted.len());
        self.deleted.extend(gone.into_iter().take(room));
        count
    }

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let file = self.by_path.get(path);
        file.map(|file| std::fs::read(self.place(file.number)).map_err(failed)).transpose()
    }

    /// Reads all files into memory.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn read_all(&self) -> Result<Files, Error> {
        let read = |path: &String| Ok((path.clone(), self.read(path)?.unwrap_or_default()));
        self.by_path.keys().map(read).collect()
    }

    /// Paths with the sizes of their files in bytes, in order.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_path.iter().map(|(path, file)| (path.as_str(), file.bytes))
    }

    /// True if a file was written in place of another.
    pub(crate) fn is_changed(&self, path: &str) -> bool {
        self.by_path.get(path).is_some_and(|file| file.is_changed)
    }

    /// Paths of files that were deleted, in order.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = &str> {
        self.deleted.iter().map(String::as_str)
    }

    fn place(&self, number: u64) -> PathBuf {
        self.directory.join(number.to_string())
    }

    fn forget(&mut self, file: StoredFile) {
        if let Err(error) = std::fs::remove_file(self.place(file.number)) {
            tracing::warn!(%error, "a file of a session stays on disk until the next start");
        }
        self.share.shrink(file.bytes);
    }
}

impl Drop for SessionFiles {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, "the files of a session stay on disk until the next start");
        }
    }
}

/// Converts a disk error to an error of the request.
fn failed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull(format!(
            "the files of a session cannot be written: {error}; make room on the disk of the data directory"
        )),
        _ => Error::Internal(format!("the files of a session: {error}")),
    }
}
