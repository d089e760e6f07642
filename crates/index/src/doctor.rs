//! Check of copies on a disk that no process has open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_env::Disk;

use crate::files::run_path;
use crate::manifest::CopyManifest;
use crate::run::IndexRun;
use crate::{BlockCache, Error};

/// Levels of directories below the first one in which copies are looked for.
const DEPTH_MAX: usize = 4;

/// Memory for blocks: each is read once.
const CACHE_BYTES: u64 = 1 << 20;

/// A copy whose files were checked.
#[derive(Debug, Clone)]
pub struct CheckedCopy {
    /// Its directory.
    pub directory: PathBuf,
    /// Number of its runs.
    pub runs: usize,
    /// Bytes of its runs.
    pub bytes: u64,
    /// Files that cannot be read or are damaged.
    pub faults: Vec<Error>,
}

/// Reads every byte of the copies in a directory and in those below it, and checks it. Nothing is changed.
pub fn check_copies(disk: &dyn Disk, root: &Path) -> Vec<CheckedCopy> {
    let mut found = Vec::new();
    check_below(disk, root, DEPTH_MAX, &mut found);
    found
}

fn check_below(disk: &dyn Disk, directory: &Path, depth: usize, found: &mut Vec<CheckedCopy>) {
    // A file is not a directory, and has no list.
    let Ok(mut paths) = disk.list(directory) else { return };
    match CopyManifest::read(disk, directory) {
        Ok(None) if depth > 0 => {
            paths.sort();
            paths.iter().for_each(|path| check_below(disk, path, depth - 1, found));
        }
        Ok(None) => {}
        Ok(Some(manifest)) => found.push(checked(disk, directory, &manifest)),
        Err(error) => {
            let directory = directory.to_owned();
            found.push(CheckedCopy { directory, runs: 0, bytes: 0, faults: vec![error] });
        }
    }
}

fn checked(disk: &dyn Disk, directory: &Path, manifest: &CopyManifest) -> CheckedCopy {
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let mut copy = CheckedCopy {
        directory: directory.to_owned(),
        runs: manifest.runs.len(),
        bytes: 0,
        faults: Vec::new(),
    };
    for number in &manifest.runs {
        let run = IndexRun::open(disk, &run_path(directory, *number), &cache);
        let outcome = run.and_then(|run| {
            copy.bytes += run.bytes;
            match run.catalog.definition == manifest.definition {
                true => run.check(),
                false => Err(Error::damaged(&run.path, "it is of another index")),
            }
        });
        copy.faults.extend(outcome.err());
    }
    copy
}
