//! Kept logs: the logs of sealed generations, from which points in time between snapshots are restored.
//!
//! They lie in `DATA_DIR/snapshots/.logs`, each under the number of its generation and the time until which
//! it has writes. Only the oldest are deleted: so those that are there follow one another without a gap.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreOptions;
use crate::snapshot::DIRECTORY;
use crate::tail::{LOG_NAME, TailLogFile};

/// Directory of the kept logs. It is not a name of a snapshot.
const LOGS: &str = ".logs";

/// A kept log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptLog {
    /// Number of its generation.
    pub number: u64,
    /// No write in it is of a later time, in microseconds since 1970.
    pub until: u64,
    pub path: PathBuf,
}

fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY).join(LOGS)
}

/// The kept logs of a data directory, the oldest first.
pub(super) fn kept(data_dir: &Path) -> io::Result<Vec<KeptLog>> {
    let entries = match fs::read_dir(directory(data_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let named = || {
            let (number, until) = path.file_name()?.to_str()?.strip_suffix(".jnl")?.split_once('-')?;
            Some((number.parse().ok()?, until.parse().ok()?))
        };
        if let Some((number, until)) = named() {
            found.push(KeptLog { number, until, path });
        }
    }
    found.sort_by_key(|log| log.number);
    Ok(found)
}

/// Keeps the log of a sealed generation that no one has open, and deletes logs beyond the bounds. If it
/// cannot be kept, all are deleted: a gap would be taken for a time without writes.
pub(crate) fn keep(options: &StoreOptions, generation: &Path, until: u64) -> io::Result<()> {
    if options.keep_logs.is_zero() {
        return Ok(());
    }
    let moved = put_aside(options, generation, until);
    let bounded = moved.and_then(|()| expire(options));
    bounded.inspect_err(|_| {
        // The reason is reported; what cannot be deleted either is found by the next start.
        let _ = fs::remove_dir_all(directory(&options.data_dir));
    })
}

/// Number of the generation in a directory.
pub(crate) fn number_of(generation: &Path) -> Option<u64> {
    generation.file_name()?.to_str()?.parse().ok()
}

fn put_aside(options: &StoreOptions, generation: &Path, until: u64) -> io::Result<()> {
    let Some(number) = number_of(generation) else { return Ok(()) };
    let log = generation.join(LOG_NAME);
    if !log.exists() {
        return Ok(());
    }
    // Zeros were written ahead of the rows.
    let (content, _) = TailLogFile::of(generation).check().map_err(io::Error::other)?;
    File::options().write(true).open(&log)?.set_len(content.end.bytes)?;
    let directory = directory(&options.data_dir);
    options.disk.create_directory(&directory)?;
    options.disk.rename(&log, &directory.join(format!("{number:016}-{until:016}.jnl")))?;
    options.disk.sync_directory(&directory)
}

/// Deletes the oldest logs that are older than the bound, or do not fit into the bytes.
fn expire(options: &StoreOptions) -> io::Result<()> {
    let logs = kept(&options.data_dir)?;
    let from = options.clock.now_us().saturating_sub(options.keep_logs.as_micros() as u64);
    let mut bytes: u64 = sizes(&logs).iter().sum();
    for (log, size) in logs.iter().zip(sizes(&logs)) {
        if log.until >= from && bytes <= options.keep_logs_bytes {
            break;
        }
        options.disk.unlink(&log.path)?;
        bytes -= size;
    }
    Ok(())
}

fn sizes(logs: &[KeptLog]) -> Vec<u64> {
    logs.iter().map(|log| fs::metadata(&log.path).map_or(0, |metadata| metadata.len())).collect()
}

/// Bytes of all kept logs.
pub(super) fn bytes(data_dir: &Path) -> u64 {
    sizes(&kept(data_dir).unwrap_or_default()).iter().sum()
}

/// Returns true if there are logs of generations that were begun before a number.
pub(crate) fn are_before(options: &StoreOptions, first_number: u64) -> bool {
    let logs = kept(&options.data_dir);
    logs.map_or(true, |logs| logs.iter().any(|log| log.number < first_number))
}

/// Deletes the logs of generations that were begun before a number. Returns true if none of them is left.
pub(crate) fn erase_before(options: &StoreOptions, first_number: u64) -> bool {
    let Ok(logs) = kept(&options.data_dir) else { return false };
    let old = logs.iter().filter(|log| log.number < first_number);
    old.map(|log| options.disk.unlink(&log.path)).all(|unlinked| unlinked.is_ok())
}

/// Deletes all logs if none are kept any more: those that follow would be missing. Otherwise those beyond the
/// bounds.
pub(crate) fn delete_unkept(options: &StoreOptions) -> io::Result<()> {
    if !options.keep_logs.is_zero() {
        return expire(options);
    }
    match fs::remove_dir_all(directory(&options.data_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
