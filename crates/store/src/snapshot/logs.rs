//! Kept logs: the logs of sealed generations, from which points in time between snapshots are restored.
//!
//! They lie in `DATA_DIR/snapshots/.logs`, each under the number of its generation, the time until which it
//! has writes, and the number of the generation that followed it. Only the oldest are deleted: so those that
//! are there follow one another, and a gap is a loss.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use millrace_env::Disk;

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
    /// Number of the generation that followed it; `None`: an earlier version did not note it.
    pub next: Option<u64>,
    pub path: PathBuf,
}

impl KeptLog {
    /// The log at a path; `None`: the name is of another file.
    fn of(path: PathBuf) -> Option<Self> {
        let mut parts = path.file_name()?.to_str()?.strip_suffix(".jnl")?.splitn(3, '-');
        let number = parts.next()?.parse().ok()?;
        let until = parts.next()?.parse().ok()?;
        let next = parts.next().map(str::parse).transpose().ok()?;
        Some(KeptLog { number, until, next, path })
    }

    /// Name of the file of a log.
    fn name(number: u64, until: u64, next: Option<u64>) -> String {
        let next = next.map(|next| format!("-{next:016}")).unwrap_or_default();
        format!("{number:016}-{until:016}{next}.jnl")
    }
}

/// Directory of the kept logs of a data directory.
pub(crate) fn directory(data_dir: &Path) -> PathBuf {
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
        found.extend(KeptLog::of(entry?.path()));
    }
    found.sort_by_key(|log| log.number);
    Ok(found)
}

/// The logs of the generations in the tail of a data directory, by number: of those that take writes, and of
/// sealed ones that are yet to be kept.
pub(super) fn in_tail(disk: &dyn Disk, data_dir: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let generations = match disk.list(&data_dir.join("tail")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        generations => generations?,
    };
    let logs = generations.iter().filter_map(|generation| {
        let log = generation.join(LOG_NAME);
        Some((number_of(generation)?, log)).filter(|(_, log)| log.exists())
    });
    Ok(logs.collect())
}

/// The first kept log from a number on whose next one is missing, with the number of that.
pub(super) fn before_gap(
    logs: &[KeptLog],
    first: u64,
    is_there: impl Fn(u64) -> bool,
) -> Option<(&KeptLog, u64)> {
    let mut nexts = logs.iter().filter_map(|log| Some((log, log.next?)));
    nexts.find(|(log, next)| log.number >= first && !is_there(*next))
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
    if content.end.bytes == 0 {
        // A crash came before its first batch, and no manifest named it.
        return Ok(());
    }
    let file = File::options().write(true).open(&log)?;
    file.set_len(content.end.bytes)?;
    // Writes that no one waited for are in a segment by now; a kept log that ends within one is damaged.
    file.sync_all()?;
    let directory = directory(&options.data_dir);
    options.disk.create_directory(&directory)?;
    let name = KeptLog::name(number, until, following(options, number)?);
    options.disk.rename(&log, &directory.join(name))?;
    options.disk.sync_directory(&directory)
}

/// Number of the generation that followed one that is sealed: the writes went on in it.
fn following(options: &StoreOptions, number: u64) -> io::Result<Option<u64>> {
    // A log is moved from the tail to the kept ones: in this order none is passed over.
    let tail = in_tail(&*options.disk, &options.data_dir)?;
    let kept = kept(&options.data_dir)?;
    let numbers = tail.into_keys().chain(kept.iter().map(|log| log.number));
    Ok(numbers.filter(|other| *other > number).min())
}

/// Notes in the names of logs that an earlier version kept which one followed each. That version does not
/// know these names: it refuses points in time for which it would lack later logs.
fn note_following(options: &StoreOptions) -> io::Result<()> {
    let mut logs = kept(&options.data_dir)?;
    logs.retain(|log| log.next.is_none());
    for log in &logs {
        let name = KeptLog::name(log.number, log.until, following(options, log.number)?);
        options.disk.rename(&log.path, &log.path.with_file_name(name))?;
    }
    if logs.is_empty() { Ok(()) } else { options.disk.sync_directory(&directory(&options.data_dir)) }
}

/// Deletes the oldest logs that are older than the bound, or do not fit into the bytes.
pub(crate) fn expire(options: &StoreOptions) -> io::Result<()> {
    let logs = kept(&options.data_dir)?;
    let from = options.clock.now_us().saturating_sub(options.keep_logs.as_micros() as u64);
    let mut bytes: u64 = sizes(&logs).iter().sum();
    for (log, size) in logs.iter().zip(sizes(&logs)) {
        if log.until >= from && bytes <= options.keep_logs_bytes {
            break;
        }
        match options.disk.unlink(&log.path) {
            // Another thread has just deleted it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => bytes -= size,
        }
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
        if let Err(error) = note_following(options) {
            tracing::warn!(%error, "kept logs of an earlier version do not name the next one: a gap would not be noticed");
        }
        return expire(options);
    }
    match fs::remove_dir_all(directory(&options.data_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
