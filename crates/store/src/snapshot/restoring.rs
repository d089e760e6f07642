//! Restoration: a data directory made of a snapshot.
//!
//! Segments are linked where both directories are on one file system, else copied. Every file is read and
//! compared with its checksums, in its new place. The manifest comes last: without it, a start refuses the
//! directory.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_env::{Disk, RealDisk};
use millrace_segment::{SegmentCache, SegmentFile};

use super::{CACHE_BYTES, SnapshotDescription, checksum};
use crate::Error;
use crate::state::manifest::Manifest;

/// Name in the root of a file system, which counts as nothing.
const LOST_AND_FOUND: &str = "lost+found";

/// Makes a data directory of a snapshot: of `DATA_DIR/snapshots/NAME`, or of a copy of it. The snapshot stays
/// as it is, and both directories can go on by themselves.
///
/// # Errors
/// `from` is not a snapshot, or a file of it is damaged or missing; `to` has files already; a file cannot be
/// written. What was made is deleted again.
pub fn restore_snapshot(from: &Path, to: &Path) -> Result<SnapshotDescription, Error> {
    let description = SnapshotDescription::read(from)?;
    check_empty(to)?;
    let restoration = SnapshotRestoration { from, to, description: &description };
    let restored = restoration.run();
    if restored.is_err() {
        restoration.undo();
    }
    restored.map(|()| description)
}

fn check_empty(to: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(to) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(&format!("list {}", to.display()), &error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<_> = names
        .collect::<io::Result<_>>()
        .map_err(|error| Error::io(&format!("list {}", to.display()), &error))?;
    match names.iter().find(|name| *name != LOST_AND_FOUND) {
        None => Ok(()),
        Some(name) => Err(Error::DataDirectory {
            path: to.to_owned(),
            reason: format!(
                "it has files already, such as '{}', and a snapshot is restored into an empty directory only; name another \
                 directory, or stop its server and move the files away first",
                name.display()
            ),
        }),
    }
}

struct SnapshotRestoration<'a> {
    from: &'a Path,
    to: &'a Path,
    description: &'a SnapshotDescription,
}

impl SnapshotRestoration<'_> {
    fn failed(&self, error: &io::Error) -> Error {
        Error::io(&format!("restore into {}", self.to.display()), error)
    }

    fn damaged(&self, path: &str, reason: &str) -> Error {
        Error::Corrupt { path: self.from.join(path), offset: 0, reason: reason.to_owned() }
    }

    fn run(&self) -> Result<(), Error> {
        let segments = self.to.join("segments");
        RealDisk.create_directory(&segments).map_err(|error| self.failed(&error))?;
        let mut manifest = None;
        for (path, wanted) in &self.description.checksums {
            let bytes = self.copied(path, wanted)?;
            match path == Manifest::NAME {
                true => manifest = Some(bytes),
                false => self.write(path, &bytes)?,
            }
        }
        let manifest = manifest.ok_or_else(|| self.damaged("snapshot.json", "it names no manifest"))?;
        let mut numbers: Vec<u64> = Manifest::read(&RealDisk, self.from)?
            .map(|manifest| {
                manifest.buckets.iter().flat_map(|(_, segments)| segments).map(|of| of.number).collect()
            })
            .unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        let cache = Arc::new(SegmentCache::new(CACHE_BYTES));
        for number in numbers {
            let name = format!("segments/{number:016}.seg");
            let (from, to) = (self.from.join(&name), self.to.join(&name));
            if !from.exists() {
                return Err(self.damaged(&name, "the file is not there"));
            }
            if fs::hard_link(&from, &to).is_err() {
                let copy = || fs::copy(&from, &to).and_then(|_| File::open(&to)?.sync_all());
                copy().map_err(|error| self.failed(&error))?;
            }
            let verified = SegmentFile::open(&RealDisk, &to, number, Arc::clone(&cache))
                .and_then(|segment| segment.verify())
                .map_err(Error::from);
            verified.map_err(|error| match error {
                Error::Corrupt { offset, reason, .. } => {
                    Error::Corrupt { path: from.clone(), offset, reason }
                }
                other => other,
            })?;
        }
        RealDisk.sync_directory(&segments).map_err(|error| self.failed(&error))?;
        self.write(Manifest::NAME, &manifest)?;
        RealDisk.sync_directory(self.to).map_err(|error| self.failed(&error))
    }

    /// The bytes of a copied file.
    fn copied(&self, path: &str, wanted: &str) -> Result<Vec<u8>, Error> {
        let bytes = fs::read(self.from.join(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.damaged(path, "the file is not there"),
            _ => self.failed(&error),
        })?;
        match checksum(&bytes) == wanted {
            true => Ok(bytes),
            false => Err(self.damaged(path, "the file does not fit its checksum in snapshot.json")),
        }
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.to.join(path);
        let directory = path.parent().unwrap_or(self.to);
        let write = || {
            RealDisk.create_directory(directory)?;
            let mut file = RealDisk.create(&path)?;
            file.append(bytes)?;
            file.sync()?;
            RealDisk.sync_directory(directory)
        };
        write().map_err(|error| self.failed(&error))
    }

    /// Deletes what was made in the directory, which was empty.
    fn undo(&self) {
        for entry in fs::read_dir(self.to).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() != LOST_AND_FOUND {
                // What cannot be deleted is without a manifest, so that no server starts in it.
                let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            }
        }
    }
}
