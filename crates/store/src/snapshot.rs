//! Snapshots: the store as it was at one instant, in a directory of its own.
//!
//! A snapshot is a directory below `DATA_DIR/snapshots`. Its segments are second names of the store's files,
//! which never change; the manifest, the ledger of erasures and files of the caller are copies. The file
//! `snapshot.json` is written last, and deleted first: a directory without it is a leftover of a crash, which
//! the next start deletes.
//!
//! Indexes are not in a snapshot. They are built again.

mod checking;
mod creating;
pub(crate) mod logs;
mod naming;
mod points;
mod reading;
mod replaying;
mod restoring;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_document::DocumentGroup;
use millrace_env::{Disk, RealDisk};
use millrace_segment::{SegmentCache, SegmentFile};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use self::checking::SnapshotCheck;
pub use self::creating::SnapshotAttachment;
pub use self::naming::SnapshotName;
pub use self::points::{DropOfGroup, DropPage, PointBase, PointPage, PointReach, PointReader};
pub use self::reading::SnapshotReader;
pub use self::restoring::{restore_point, restore_snapshot};
use crate::upkeep::erasing::has_group_of;
use crate::{Error, Store, StoreOptions};

/// Directory of the snapshots, below the data directory.
const DIRECTORY: &str = "snapshots";
/// File that makes a directory a snapshot.
const DESCRIPTION: &str = "snapshot.json";
/// Format of that file.
const FORMAT: u32 = 1;

/// Bytes of directory pages in memory while the files of a snapshot are searched.
const CACHE_BYTES: u64 = 1 << 20;

/// Time for which the space of snapshots is not measured again.
const SPACE_KEPT: Duration = Duration::from_secs(60);

/// A snapshot, as its file `snapshot.json` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDescription {
    /// Version of this description.
    format: u32,
    /// Name under which it was made.
    pub name: String,
    /// Time of the snapshot, in microseconds since 1970.
    pub time: u64,
    /// Number of documents; counted like [`StoreStatus::documents`](crate::StoreStatus::documents).
    pub documents: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of segment files.
    pub files: u64,
    /// Generation of the application.
    pub application: u64,
    /// No write in it is of a later time, in microseconds since 1970.
    until: u64,
    /// Number of the first generation of the tail whose writes are not in it.
    first_log: u64,
    /// Checksums of the copied files by path, in hexadecimal. Segments have checksums of their own.
    checksums: BTreeMap<String, String>,
}

/// A snapshot of a data directory.
#[derive(Debug, Clone)]
pub struct StoredSnapshot {
    /// Name of its directory.
    pub name: SnapshotName,
    /// Its directory.
    pub path: PathBuf,
    /// Its description, or why that cannot be read.
    pub description: Result<SnapshotDescription, Error>,
}

/// Space of all snapshots of a data directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotSpace {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Bytes of files that only snapshots have: deleting all snapshots frees them.
    pub held_bytes: u64,
    /// Bytes of kept logs.
    pub log_bytes: u64,
}

/// Changes of the snapshots of a store.
#[derive(Default)]
pub(crate) struct SnapshotRegistry {
    /// Held while a snapshot is made or deleted.
    changing: Mutex<()>,
    /// Space when it was last measured, and the time in microseconds of the clock.
    measured: Mutex<Option<(u64, SnapshotSpace)>>,
}

impl SnapshotRegistry {
    /// The right to change snapshots, while it is held.
    fn change(&self) -> MutexGuard<'_, ()> {
        let changing = self.changing.lock();
        *self.measured.lock() = None;
        changing
    }
}

/// The file `snapshot.json`.
#[derive(Serialize, Deserialize)]
struct DescriptionFile {
    snapshot: SnapshotDescription,
    /// Of the compact JSON of the other member.
    checksum: String,
}

/// Part of a description that all formats have: others may have other members.
#[derive(Deserialize)]
struct AnyDescriptionFile {
    snapshot: AnyDescription,
}

#[derive(Deserialize)]
struct AnyDescription {
    format: u32,
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

impl SnapshotDescription {
    fn encode(&self) -> Vec<u8> {
        let reason = "names and numbers always have a JSON form";
        let checksum = checksum(&serde_json::to_vec(self).expect(reason));
        let file = DescriptionFile { snapshot: self.clone(), checksum };
        let mut bytes = serde_json::to_vec_pretty(&file).expect(reason);
        bytes.push(b'\n');
        bytes
    }

    /// Reads the description of the snapshot in a directory.
    fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(DESCRIPTION);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::DataDirectory {
                path: directory.to_owned(),
                reason: format!(
                    "it is not a snapshot: it has no file {DESCRIPTION}; name a directory below DATA_DIR/{DIRECTORY}, or a \
                     whole copy of one"
                ),
            },
            _ => Error::io(&format!("read {}", path.display()), &error),
        })?;
        let damaged =
            |reason: &str| Error::Corrupt { path: path.clone(), offset: 0, reason: reason.to_owned() };
        let any: AnyDescriptionFile = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(&format!("it is not JSON as written: {error}")))?;
        if any.snapshot.format > FORMAT {
            let format = any.snapshot.format;
            let reason = format!(
                "its format is {format}, and this program knows {FORMAT}; use the program that made the snapshot"
            );
            return Err(Error::DataDirectory { path: directory.to_owned(), reason });
        }
        let file: DescriptionFile = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(&format!("it is not JSON as written: {error}")))?;
        let written = serde_json::to_vec(&file.snapshot).expect("names and numbers always have a JSON form");
        match checksum(&written) == file.checksum {
            true => Ok(file.snapshot),
            false => Err(damaged("the description does not fit its checksum")),
        }
    }
}

impl Store {
    /// Snapshots of this store, in the order of their times; those with a damaged description come last.
    ///
    /// # Errors
    /// The directory of the snapshots cannot be listed.
    pub fn snapshots(&self) -> Result<Vec<StoredSnapshot>, Error> {
        let mut all = self.listed_snapshots()?;
        all.sort_by(|one, other| time_of(one).cmp(&time_of(other)).then_with(|| one.name.cmp(&other.name)));
        Ok(all)
    }

    fn listed_snapshots(&self) -> Result<Vec<StoredSnapshot>, Error> {
        let options = &self.shared().options;
        listed(&*options.disk, &options.data_dir)
    }

    /// Returns a snapshot by its name; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Store::snapshots`].
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Option<StoredSnapshot>, Error> {
        Ok(self.listed_snapshots()?.into_iter().find(|snapshot| snapshot.name == *name))
    }

    /// Directory of a snapshot of this name.
    pub fn snapshot_path(&self, name: &SnapshotName) -> PathBuf {
        path_of(&self.shared().options, name)
    }

    /// Deletes a snapshot. Returns false if there is none of this name.
    ///
    /// # Errors
    /// A file cannot be deleted. Once its description is gone the next start deletes the rest.
    pub fn delete_snapshot(&self, name: &SnapshotName) -> Result<bool, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let _changing = shared.snapshots.change();
        let path = path_of(&shared.options, name);
        let description = path.join(DESCRIPTION);
        if !description.exists() {
            return Ok(false);
        }
        let disk = &*shared.options.disk;
        let failed = |error: io::Error| Error::io(&format!("delete the snapshot '{name}'"), &error);
        disk.unlink(&description).and_then(|()| disk.sync_directory(&path)).map_err(failed)?;
        fs::remove_dir_all(&path).map_err(failed)?;
        Ok(true)
    }

    /// Names of the snapshots that have versions of a group, and of those that cannot be read.
    ///
    /// Cost: reads the directory of each of their files, once for those that they share.
    ///
    /// # Errors
    /// Those of [`Store::snapshots`].
    pub fn snapshots_with_group(&self, group: &DocumentGroup) -> Result<Vec<SnapshotName>, Error> {
        let mut known = BTreeMap::new();
        let mut has_some =
            |snapshot: &StoredSnapshot| has_group(&snapshot.path, group, &mut known).unwrap_or(true);
        let mut snapshots = self.snapshots()?;
        snapshots.retain(&mut has_some);
        Ok(snapshots.into_iter().map(|snapshot| snapshot.name).collect())
    }

    /// Space of all snapshots. It is measured once a minute at most, with a look at each file's entry.
    pub fn snapshot_space(&self) -> SnapshotSpace {
        let shared = self.shared();
        let now = shared.timestamps.now().0;
        let mut measured = shared.snapshots.measured.lock();
        let kept = measured.filter(|(at, _)| now.abs_diff(*at) < SPACE_KEPT.as_micros() as u64);
        let (_, space) = *measured.insert(kept.unwrap_or_else(|| (now, measure(&shared.options))));
        space
    }
}

fn time_of(snapshot: &StoredSnapshot) -> u64 {
    snapshot.description.as_ref().map_or(u64::MAX, |description| description.time)
}

fn path_of(options: &StoreOptions, name: &SnapshotName) -> PathBuf {
    options.data_dir.join(DIRECTORY).join(name.as_str())
}

/// Directories with the names of snapshots, whole or not.
fn directories(disk: &dyn Disk, data_dir: &Path) -> Result<Vec<(SnapshotName, PathBuf)>, Error> {
    let root = data_dir.join(DIRECTORY);
    let paths = match disk.list(&root) {
        Ok(paths) => paths,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list the snapshots", &error)),
    };
    let named = |path: PathBuf| {
        let name = SnapshotName::parse(path.file_name()?.to_str()?).ok()?;
        path.is_dir().then_some((name, path))
    };
    Ok(paths.into_iter().filter_map(named).collect())
}

/// Names of the files of segments that snapshots have.
pub(crate) fn segment_names(disk: &dyn Disk, data_dir: &Path) -> Result<BTreeSet<OsString>, Error> {
    let mut names = BTreeSet::new();
    for (_, path) in directories(disk, data_dir)? {
        let failed = |error: io::Error| Error::io(&format!("list the snapshot {}", path.display()), &error);
        let files = disk.list(&path.join("segments")).map_err(failed)?;
        names.extend(files.iter().filter_map(|file| Some(file.file_name()?.to_owned())));
    }
    Ok(names)
}

fn listed(disk: &dyn Disk, data_dir: &Path) -> Result<Vec<StoredSnapshot>, Error> {
    let whole = directories(disk, data_dir)?.into_iter().filter(|(_, path)| path.join(DESCRIPTION).exists());
    let read = |(name, path): (SnapshotName, PathBuf)| {
        let description = SnapshotDescription::read(&path);
        StoredSnapshot { name, path, description }
    };
    Ok(whole.map(read).collect())
}

/// Deletes directories of snapshots that a crash left half made, or half deleted, and kept logs beyond their
/// bounds.
pub(crate) fn sweep(options: &StoreOptions) -> Result<(), Error> {
    for (name, path) in directories(&*options.disk, &options.data_dir)? {
        if !path.join(DESCRIPTION).exists() {
            tracing::warn!(%name, "a snapshot that a crash left unfinished is deleted");
            let failed = |error: io::Error| Error::io(&format!("delete {}", path.display()), &error);
            fs::remove_dir_all(&path).map_err(failed)?;
        }
    }
    let action = || format!("delete kept logs below {}", options.data_dir.join(DIRECTORY).display());
    logs::delete_unkept(options).map_err(|error| Error::io(&action(), &error))
}

/// Returns true if a segment of a snapshot has versions of a group. `known` has the answers for files by
/// their inodes.
fn has_group(snapshot: &Path, group: &DocumentGroup, known: &mut BTreeMap<u64, bool>) -> Result<bool, Error> {
    let failed = |error: io::Error| Error::io(&format!("list the snapshot {}", snapshot.display()), &error);
    for path in RealDisk.list(&snapshot.join("segments")).map_err(failed)? {
        let inode = fs::metadata(&path).map_err(failed)?.ino();
        let has_some = match known.get(&inode) {
            Some(has_some) => *has_some,
            None => {
                let cache = Arc::new(SegmentCache::new(CACHE_BYTES));
                let segment = SegmentFile::open(&RealDisk, &path, inode, cache)?;
                has_group_of(&segment, group)?
            }
        };
        known.insert(inode, has_some);
        if has_some {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Measures files that lie in snapshots alone, each once. What cannot be read counts as nothing.
fn measure(options: &StoreOptions) -> SnapshotSpace {
    let snapshots = listed(&*options.disk, &options.data_dir).unwrap_or_default();
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let mut counted: BTreeSet<u64> = match snapshots.is_empty() {
        true => BTreeSet::new(),
        false => entries(&options.data_dir.join("segments")).map(|entry| entry.ino()).collect(),
    };
    let mut held_bytes = 0;
    for snapshot in &snapshots {
        let below =
            entries(&snapshot.path).filter(|entry| !is_file(entry)).flat_map(|entry| entries(&entry.path()));
        for file in entries(&snapshot.path).chain(below).filter(is_file) {
            let Ok(metadata) = file.metadata() else { continue };
            if counted.insert(metadata.ino()) {
                held_bytes += metadata.len();
            }
        }
    }
    let log_bytes = logs::bytes(&options.data_dir);
    SnapshotSpace { snapshots: snapshots.len() as u64, held_bytes, log_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With other names the checksum of a description would not fit.
    #[test]
    fn descriptions_are_written_as_ever() {
        let snapshot = concat!(
            r#"{"format":1,"name":"a","time":2,"documents":3,"bytes":4,"files":5,"application":6,"until":7,"#,
            r#""first_log":8,"checksums":{"manifest":"0a"}}"#
        );
        let kept = format!("{{\"snapshot\":{snapshot},\"checksum\":\"ec4f01b0c4d24932\"}}");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(DESCRIPTION), &kept).expect("it is written");
        let read = SnapshotDescription::read(directory.path()).expect("it is read");
        let written: serde_json::Value = serde_json::from_slice(&read.encode()).expect("JSON");
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(&kept).expect("JSON"));
    }
}
