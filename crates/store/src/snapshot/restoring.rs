//! Restoration: a data directory made of a snapshot.
//!
//! Segments are linked where both directories are on one file system, else copied. Every file is read and
//! compared with its checksums, in its new place. The manifest comes last: without it, a start refuses the
//! directory.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_document::Timestamp;
use millrace_env::{Disk, RealDisk};
use millrace_segment::{SegmentCache, SegmentFile};

use super::replaying::LogsAfter;
use super::{CACHE_BYTES, SnapshotDescription, SnapshotName, checksum, listed, time_of};
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
    restore(from, to, None)
}

/// Makes a data directory with the documents of a point in time: those of the latest snapshot before it, or
/// of the one of this name, with the writes of kept logs until then. The application is that of the snapshot.
///
/// Of a node of a cluster, the directory has the documents that this node had in the snapshot and has taken
/// since, except for those that came to it as files: they are in the snapshot or the logs of the node that
/// sent them. So all nodes have to be restored, from snapshots of one name, which the caller names; their
/// replicas are compared then, and of each document the newest version counts.
///
/// # Errors
/// Those of [`restore_snapshot`]; there is no snapshot before that time; the logs after it are not kept any
/// more.
pub fn restore_point(
    data_dir: &Path,
    name: Option<&SnapshotName>,
    to: &Path,
    until: Timestamp,
) -> Result<SnapshotDescription, Error> {
    let mut snapshots = listed(&RealDisk, data_dir)?;
    snapshots.retain(|snapshot| {
        let description = snapshot.description.as_ref();
        description.is_ok_and(|of| of.until <= until.0) && name.is_none_or(|name| *name == snapshot.name)
    });
    let latest = snapshots.iter().max_by_key(|snapshot| time_of(snapshot));
    let Some(snapshot) = latest else {
        let reason =
            "it has no such snapshot of a time before, whose last writes are some seconds later; `millrace snapshot list` shows \
             the times"
                .to_owned();
        return Err(Error::PointInTime { path: data_dir.to_owned(), reason });
    };
    let description = SnapshotDescription::read(&snapshot.path)?;
    let logs = LogsAfter::of(data_dir, description.first_log)?;
    restore(&snapshot.path, to, Some((&logs, until)))
}

fn restore(
    from: &Path,
    to: &Path,
    point: Option<(&LogsAfter, Timestamp)>,
) -> Result<SnapshotDescription, Error> {
    let description = SnapshotDescription::read(from)?;
    check_empty(to)?;
    let restoration = DirectoryRestoration { from, to, description: &description, point };
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

struct DirectoryRestoration<'a> {
    from: &'a Path,
    to: &'a Path,
    description: &'a SnapshotDescription,
    /// Logs that are replayed, and until when.
    point: Option<(&'a LogsAfter, Timestamp)>,
}

impl DirectoryRestoration<'_> {
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
        let mut manifest = manifest.ok_or_else(|| self.damaged("snapshot.json", "it names no manifest"))?;
        let decoded = Manifest::read(&RealDisk, self.from)?;
        let mut decoded = decoded.ok_or_else(|| self.damaged(Manifest::NAME, "the file is not there"))?;
        let named = decoded.buckets.iter().flat_map(|(_, segments)| segments);
        let mut numbers: Vec<u64> = named.map(|segment| segment.number).collect();
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
        if let Some((logs, until)) = self.point {
            // Each may have what the others lack: so all are read until they are equal, and none counts as
            // one that is being filled.
            decoded.replicas.iter_mut().for_each(|(_, is_complete)| *is_complete = true);
            decoded.marks.extend(logs.marks(until).cloned());
            decoded.generations = logs.replay(self.to, until)?;
            let next = decoded.generations.iter().max().map_or(0, |number| number + 1);
            decoded.next_number = decoded.next_number.max(next);
            manifest = decoded.encode();
        }
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
