mod documents;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_env::{Disk, RealDisk};
use millrace_segment::{SegmentCache, SegmentFile};

use crate::context::{segment_path, tail_path};
use crate::snapshot::SnapshotCheck;
use crate::state::erasures;
use crate::state::manifest::Manifest;
use crate::state::open::DirectoryLock;
use crate::tail::{FjallTails, LOG_NAME, LogCut, TailFactory};
use crate::{Error, StoreOptions};

/// Result of [`crate::check`] on a data directory.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Errors found; empty if there are none.
    pub findings: Vec<CheckFinding>,
    /// Files read.
    pub files: usize,
    /// Bytes read and compared with their checksums.
    pub bytes: u64,
    /// Versions of documents in segments: also those that were replaced or removed, until a merge leaves them
    /// out.
    pub versions: u64,
    /// Exact number of documents of each type; `None` where something is damaged.
    pub documents: Option<BTreeMap<String, u64>>,
    /// True if a file cannot be read.
    is_damaged: bool,
}

/// An error in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// File of the error.
    pub path: PathBuf,
    /// Position in the file, in bytes, if it is known.
    pub offset: Option<u64>,
    /// Description of the error and its consequences.
    pub meaning: String,
    /// Recommended action.
    pub cure: String,
}

impl CheckFinding {
    /// A finding of an error: in the file that the error names, else in this one.
    pub(crate) fn of(error: &Error, path: PathBuf, consequence: &str, cure: &str) -> Self {
        let (path, offset, reason) = match error {
            Error::Corrupt { path, offset, reason } => (path.clone(), Some(*offset), reason.clone()),
            other => (path, None, other.to_string()),
        };
        CheckFinding { path, offset, meaning: format!("{reason}: {consequence}"), cure: cure.to_owned() }
    }
}

/// Checks every file that a store writes into a data directory, which no process may have open, and changes
/// nothing. What is wrong is part of the report.
///
/// # Errors
/// The directory is in use, or cannot be listed.
pub fn check(data_dir: &Path) -> Result<CheckReport, Error> {
    check_directory(data_dir)?;
    let _lock = DirectoryLock::take_existing(data_dir)?;
    let options = StoreOptions::new(data_dir);
    let mut report = CheckReport::default();
    let manifest = match Manifest::read(&RealDisk, data_dir) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            report.find(
                data_dir.join("manifest"),
                None,
                "no manifest: this is not a data directory, or its manifest was lost",
                "restore the file from a copy of the directory",
            );
            return Ok(report);
        }
        Err(error) => {
            report.add(
                &error,
                data_dir.join("manifest"),
                "which segments there are is unknown",
                "restore the file from a copy of the directory",
            );
            return Ok(report);
        }
    };
    report.files += 1;
    for number in &manifest.generations {
        report.check_generation(&tail_path(&options, *number));
    }
    if let Err(error) = erasures::check(&RealDisk, data_dir) {
        report.findings.push(CheckFinding::of(
            &error,
            data_dir.join(erasures::NAME),
            "the store does not start",
            "restore the file from a copy; or remove it: receipts of erasures and bounds of their own are lost then",
        ));
    }
    let mut numbers: Vec<u64> =
        manifest.buckets.iter().flat_map(|(_, segments)| segments).map(|segment| segment.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let known: HashSet<PathBuf> = numbers.iter().map(|number| segment_path(&options, *number)).collect();
    let mut read = HashSet::new();
    for number in &numbers {
        let path = segment_path(&options, *number);
        if report.check_segment(&path) {
            read.extend(fs::metadata(&path).map(|metadata| metadata.ino()));
        }
    }
    let directory = data_dir.join("segments");
    for path in RealDisk.list(&directory).map_err(|error| Error::io("list segments", &error))? {
        if !known.contains(&path) {
            report.find(
                path,
                None,
                "no bucket has this file: a crash left it behind",
                "nothing: the next start deletes it",
            );
        }
    }
    let snapshots = SnapshotCheck::run(data_dir, read)?;
    report.files += snapshots.files;
    report.bytes += snapshots.bytes;
    report.findings.extend(snapshots.findings);
    if !report.is_damaged {
        report.documents = Some(documents::count(data_dir, &manifest)?);
    }
    Ok(report)
}

/// Bytes that [`repair_tail`] cut off a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRepair {
    /// The log.
    pub log: PathBuf,
    /// The byte at which it ends now.
    pub end: u64,
    /// Bytes that were cut.
    pub bytes: u64,
    /// File with a copy of the cut bytes.
    pub copy: PathBuf,
}

/// Cuts the logs of a data directory where they are damaged, so that the store starts again. **Loses
/// acknowledged writes**: those from the damage on. What is cut is copied to the directory `torn` first. No
/// process may have the directory open.
///
/// # Errors
/// The directory is in use, or has no manifest that can be read; a log cannot be read, copied or cut.
pub fn repair_tail(data_dir: &Path) -> Result<Vec<TailRepair>, Error> {
    let _lock = lock_existing(data_dir)?;
    let Some(manifest) = Manifest::read(&RealDisk, data_dir)? else {
        let reason = "no manifest, so which logs belong to it is unknown; restore the file".to_owned();
        return Err(Error::DataDirectory { path: data_dir.to_owned(), reason });
    };
    let options = StoreOptions::new(data_dir);
    let mut repairs = Vec::new();
    for number in &manifest.generations {
        let cut = FjallTails::repair(&tail_path(&options, *number))?;
        repairs.extend(cut.map(|LogCut { log, end, bytes, copy }| {
            let copy = copy.expect("a damaged log is cut only after it was copied");
            TailRepair { log, end, bytes, copy }
        }));
    }
    Ok(repairs)
}

/// Takes the lock of a data directory that is to be changed. `None` if it has no manifest: no file is made in
/// a directory of something else.
pub(crate) fn lock_existing(data_dir: &Path) -> Result<Option<DirectoryLock>, Error> {
    check_directory(data_dir)?;
    let is_store = data_dir.join(Manifest::NAME).exists();
    is_store.then(|| DirectoryLock::take(data_dir)).transpose()
}

/// Checks that a path is a directory.
fn check_directory(data_dir: &Path) -> Result<(), Error> {
    let reason = match data_dir.exists() {
        _ if data_dir.is_dir() => return Ok(()),
        true => "it is not a directory; name the data directory of a server",
        false => "no such directory",
    };
    Err(Error::DataDirectory { path: data_dir.to_owned(), reason: reason.to_owned() })
}

impl CheckReport {
    fn find(&mut self, path: PathBuf, offset: Option<u64>, meaning: &str, cure: &str) {
        self.findings.push(CheckFinding { path, offset, meaning: meaning.to_owned(), cure: cure.to_owned() });
    }

    fn add(&mut self, error: &Error, path: PathBuf, consequence: &str, cure: &str) {
        self.is_damaged = true;
        self.findings.push(CheckFinding::of(error, path, consequence, cure));
    }

    fn check_generation(&mut self, directory: &Path) {
        self.files += 1;
        let error = match FjallTails.check(directory) {
            Ok(findings) => return self.findings.extend(findings),
            Err(error) => error,
        };
        let cure = match &error {
            Error::Corrupt { .. } if directory.join(LOG_NAME).exists() => {
                "restore the directory from a copy or a replica; or `millrace doctor --repair-tail`, which cuts the log off \
                 there, and loses the writes from there on"
            }
            _ => "restore the directory from a copy or a replica",
        };
        let consequence = "the latest writes cannot be read, and the store does not start";
        self.add(&error, directory.to_owned(), consequence, cure);
    }

    /// Checks a segment. Returns true if it is whole.
    fn check_segment(&mut self, path: &Path) -> bool {
        self.files += 1;
        let verified = SegmentFile::open(&RealDisk, path, 0, Arc::new(SegmentCache::new(1 << 20)))
            .and_then(|segment| segment.verify())
            .map_err(Error::from);
        let is_whole = verified.is_ok();
        match verified {
            Ok(verified) => {
                self.bytes += verified.bytes;
                self.versions += verified.documents;
            }
            Err(error) => self.add(
                &error,
                path.to_owned(),
                "the documents of its bucket cannot be read",
                "restore the file from a copy or a replica",
            ),
        }
        is_whole
    }
}
