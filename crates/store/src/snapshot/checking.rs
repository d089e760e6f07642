//! Check of snapshots and kept logs: every file is read, and compared with its checksums.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use millrace_env::RealDisk;
use millrace_segment::{SegmentCache, SegmentFile};

use super::{CACHE_BYTES, SnapshotDescription, StoredSnapshot, checksum, listed, logs};
use crate::state::manifest::Manifest;
use crate::tail::TailLogFile;
use crate::{CheckFinding, Error};

/// Cure for a kept log that is damaged or missing.
const LOG_CURE: &str = "put a copy of the file back, or make a snapshot for points in time from now on";

/// Result of the check of the snapshots and kept logs of a data directory.
pub(crate) struct SnapshotCheck {
    /// Number of files read.
    pub files: usize,
    /// Bytes read and compared with their checksums.
    pub bytes: u64,
    /// Files that are damaged or missing.
    pub findings: Vec<CheckFinding>,
    /// Devices and inodes of segments that were read and are whole: snapshots share them with each other and
    /// with the store.
    read: HashSet<(u64, u64)>,
}

impl SnapshotCheck {
    /// Checks all but the segments of these inodes, which were read already and are whole.
    ///
    /// # Errors
    /// The snapshots or the kept logs cannot be listed.
    pub fn run(data_dir: &Path, read: HashSet<(u64, u64)>) -> Result<Self, Error> {
        let mut check = SnapshotCheck { files: 0, bytes: 0, findings: Vec::new(), read };
        for snapshot in listed(&RealDisk, data_dir)? {
            check.files += 1;
            match &snapshot.description {
                Ok(description) => check.check_snapshot(&snapshot, description),
                Err(error) => check.find_in(&snapshot, error),
            }
        }
        let failed = |error: io::Error| Error::io("list the kept logs", &error);
        let tail = logs::in_tail(&RealDisk, data_dir).map_err(failed)?;
        let kept = logs::kept(data_dir).map_err(failed)?;
        let is_kept = |number: u64| kept.iter().any(|log| log.number == number);
        for log in &kept {
            if let Some(next) = log.next.filter(|next| !is_kept(*next) && !tail.contains_key(next)) {
                check.findings.push(CheckFinding {
                    path: log.path.clone(),
                    offset: None,
                    meaning: format!(
                        "the log {next:016} that followed this one is not there: points in time after it cannot be \
                         restored from a snapshot before it"
                    ),
                    cure: LOG_CURE.to_owned(),
                });
            }
            check.files += 1;
            if let Err(error) = TailLogFile::at(&log.path).read() {
                check.findings.push(CheckFinding::of(
                    &error,
                    log.path.clone(),
                    "points in time from its first write on cannot be restored from an earlier snapshot",
                    LOG_CURE,
                ));
            }
        }
        Ok(check)
    }

    fn check_snapshot(&mut self, snapshot: &StoredSnapshot, description: &SnapshotDescription) {
        for (name, wanted) in &description.checksums {
            self.files += 1;
            match checked_copy(&snapshot.path.join(name), wanted) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => self.find_in(snapshot, &error),
            }
        }
        // A damaged one was found by its checksum.
        let Ok(Some(manifest)) = Manifest::read(&RealDisk, &snapshot.path) else { return };
        let named = manifest.buckets.iter().flat_map(|(_, segments)| segments);
        let numbers: HashSet<u64> = named.map(|segment| segment.number).collect();
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        for number in numbers {
            let path = snapshot.path.join(format!("segments/{number:016}.seg"));
            let inode = fs::metadata(&path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
            if inode.is_some_and(|inode| self.read.contains(&inode)) {
                continue;
            }
            self.files += 1;
            let verified = SegmentFile::open(&RealDisk, &path, 0, Arc::new(SegmentCache::new(CACHE_BYTES)))
                .and_then(|segment| segment.verify());
            match verified {
                Ok(verified) => {
                    self.bytes += verified.bytes;
                    self.read.extend(inode);
                }
                Err(error) => self.find_in(snapshot, &error.into()),
            }
        }
    }

    fn find_in(&mut self, snapshot: &StoredSnapshot, error: &Error) {
        self.findings.push(CheckFinding::of(
            error,
            snapshot.path.clone(),
            &format!("the snapshot '{}' cannot be restored as a whole", snapshot.name),
            "put a copy of the file back, or delete the snapshot: millrace snapshot delete NAME",
        ));
    }
}

/// Compares a copied file with its checksum. Returns its length in bytes.
fn checked_copy(path: &Path, wanted: &str) -> Result<u64, Error> {
    let damaged =
        |reason: &str| Error::Corrupt { path: path.to_owned(), offset: 0, reason: reason.to_owned() };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("the file is not there"));
        }
        Err(error) => return Err(Error::io(&format!("read {}", path.display()), &error)),
    };
    match checksum(&bytes) == wanted {
        true => Ok(bytes.len() as u64),
        false => Err(damaged("the file does not fit its checksum in snapshot.json")),
    }
}
