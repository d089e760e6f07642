//! Files that the embedded store keeps beside a log: the list of keyspaces, and their settings.
//!
//! They have no rows, since no memtable is ever written out: all rows are in the log. The embedded store
//! trusts them, however: if one is lost, it assumes that a keyspace was never created, and leaves out its
//! rows. So its contents after opening are compared with the log, and if they differ, the files are made
//! again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Made last and looked for first by the embedded store. Where it is missing, the others are not complete.
const VERSION_FILE: &str = "version";
const KEYSPACES: &str = "keyspaces";
const LOCK: &str = "lock";
/// The directory in which they are made again.
const SCRATCH: &str = "scratch";

/// Makes the files again. `make` makes a whole generation without rows in a directory. Can be done again
/// after a crash at any point: the version file goes first and comes last.
pub(crate) fn remake_keyspace_files(
    directory: &Path,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let scratch = directory.join(SCRATCH);
    remove_directory(&scratch)?;
    make(&scratch)?;
    remove_file(&directory.join(VERSION_FILE))?;
    sync(directory)?;
    remove_directory(&directory.join(KEYSPACES))?;
    fs::rename(scratch.join(KEYSPACES), directory.join(KEYSPACES))?;
    File::options().create(true).truncate(false).write(true).open(directory.join(LOCK))?;
    for path in directories_of(directory)? {
        sync(&path)?;
    }
    fs::rename(scratch.join(VERSION_FILE), directory.join(VERSION_FILE))?;
    remove_directory(&scratch)?;
    sync(directory)
}

/// The directories of a generation, itself included, those inside before those that have them.
pub(super) fn directories_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            directories.extend(directories_of(&path)?);
        }
    }
    directories.push(directory.to_owned());
    Ok(directories)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
