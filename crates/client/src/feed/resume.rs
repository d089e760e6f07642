//! Persistent position of a feed, from which it can be resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// Fed part of each input, stored in a file.
#[derive(Debug)]
pub struct ResumeFile {
    path: PathBuf,
    offsets: BTreeMap<String, u64>,
}

impl ResumeFile {
    /// Reads the file, if it exists.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let offsets = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::Package {
                path: path.to_owned(),
                reason: format!("not a resume file ({error}); remove it to start from the beginning"),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(Error::File { path: path.to_owned(), source }),
        };
        Ok(ResumeFile { path: path.to_owned(), offsets })
    }

    /// Offset up to which `input` was fed.
    pub fn offset(&self, input: &str) -> u64 {
        self.offsets.get(input).copied().unwrap_or(0)
    }

    /// Records that `input` was fed up to this offset.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&mut self, input: &str, offset: u64) -> Result<(), Error> {
        self.offsets.insert(input.to_owned(), offset);
        let next = self.path.with_extension("next");
        let text = serde_json::json!(self.offsets).to_string();
        replace(&next, &self.path, text.as_bytes())
            .map_err(|source| Error::File { path: self.path.clone(), source })
    }

    /// Removes the file, because everything was fed.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn finish(self) -> Result<(), Error> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::File { path: self.path, source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Puts a file in place of another, so that a loss of power leaves one of the two, whole.
fn replace(next: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(next)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(next, path)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The place before which everything is done, though operations end in any order.
#[derive(Debug, Default)]
pub(super) struct CompletionFrontier {
    /// Start offsets of the operations in flight.
    in_flight: BTreeSet<u64>,
    reached: u64,
}

impl From<u64> for CompletionFrontier {
    /// Creates a frontier; everything before this offset was done earlier.
    fn from(reached: u64) -> Self {
        CompletionFrontier { in_flight: BTreeSet::new(), reached }
    }
}

impl CompletionFrontier {
    /// Records the start of the operation at this offset.
    pub(super) fn begin(&mut self, offset: u64) {
        self.in_flight.insert(offset);
    }

    /// Records the end of the operation from `offset` to `end`.
    pub(super) fn end(&mut self, offset: u64, end: u64) {
        self.in_flight.remove(&offset);
        self.reached = self.reached.max(end);
    }

    /// Everything before this offset is done.
    pub(super) fn offset(&self) -> u64 {
        self.in_flight.first().copied().unwrap_or(self.reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_the_first_that_is_not_done() {
        let mut frontier = CompletionFrontier::default();
        for offset in [0, 10, 20] {
            frontier.begin(offset);
        }
        frontier.end(10, 20);
        assert_eq!(frontier.offset(), 0);
        frontier.end(0, 10);
        assert_eq!(frontier.offset(), 20);
        frontier.end(20, 30);
        assert_eq!(frontier.offset(), 30);
    }

    #[test]
    fn what_was_saved_is_read_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("feed.resume");
        let mut resume = ResumeFile::open(&path).expect("a missing file counts as no progress");
        assert_eq!(resume.offset("a"), 0);
        resume.save("a", 42).expect("the directory can be written");
        assert_eq!(ResumeFile::open(&path).expect("it was written just now").offset("a"), 42);
        resume.finish().expect("the file can be removed");
        assert!(!path.exists());
    }
}
