//! A point in time: the logs after a snapshot, without the writes after the point, as generations of the tail
//! of a restored directory. The server that starts in it seals them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millrace_document::Timestamp;
use millrace_env::{Disk as _, RealDisk};

use super::logs;
use crate::context::tail_path;
use crate::state::manifest::Manifest;
use crate::state::marks::DropMark;
use crate::tail::{
    AppendError, FjallTails, LOG_NAME, LogEntry, NewRow, RowBytes, RowDurability, RowKey, TailFactory as _,
    TailLogFile, TailRows, mark_of,
};
use crate::{Error, StoreOptions};

/// Bytes of rows that are appended at once.
const BATCH_BYTES: usize = 4 << 20;

/// The error of a snapshot after which logs are missing.
pub(super) fn missing_logs(data_dir: &Path) -> Error {
    Error::PointInTime {
        path: data_dir.to_owned(),
        reason: "the logs of writes after the snapshot are not there, or not all any more; take a later snapshot, or \
                 restore without a time; keep-logs-s says for how long logs are kept"
            .to_owned(),
    }
}

/// The logs of a data directory from one generation on.
pub(super) struct LogsAfter {
    /// By generation, the oldest first.
    logs: BTreeMap<u64, PathBuf>,
    /// Drops that the manifest knows: on a full disk they are in no log.
    marks: Vec<DropMark>,
}

impl LogsAfter {
    /// Lists the logs of a data directory from a generation on: kept ones, those of writes that are not
    /// sealed yet, and those that a killed process had sealed and not kept yet.
    ///
    /// # Errors
    /// The generation's log is not kept any more, or one after it is missing, so that writes are.
    pub fn of(data_dir: &Path, first: u64) -> Result<Self, Error> {
        let failed =
            |error: std::io::Error| Error::io(&format!("list the logs of {}", data_dir.display()), &error);
        let manifest = Manifest::read(&RealDisk, data_dir)?.unwrap_or_default();
        let Manifest { generations, marks, next_number, .. } = manifest;
        let options = StoreOptions::new(data_dir);
        let live = generations.into_iter().map(|number| (number, tail_path(&options, number).join(LOG_NAME)));
        // Others than these no manifest has named.
        let mut of_tail = logs::in_tail(&RealDisk, data_dir).map_err(failed)?;
        of_tail.retain(|number, _| *number < next_number);
        let kept = logs::kept(data_dir).map_err(failed)?;
        let of_kept = kept.iter().map(|log| (log.number, log.path.clone()));
        let all: BTreeMap<u64, PathBuf> = live.chain(of_tail).chain(of_kept).collect();
        let is_there = |number| all.contains_key(&number);
        if !is_there(first) || logs::before_gap(&kept, first, is_there).is_some() {
            return Err(missing_logs(data_dir));
        }
        Ok(LogsAfter { logs: all.into_iter().filter(|(number, _)| *number >= first).collect(), marks })
    }

    /// Drops until a time that the manifest of the data directory knows.
    pub fn marks(&self, until: Timestamp) -> impl Iterator<Item = &DropMark> {
        self.marks.iter().filter(move |mark| mark.is_of(until))
    }

    /// Makes the generations of a restored directory, with the writes and drops until a time. Returns their
    /// numbers, the newest first. One log is in memory at a time.
    ///
    /// # Errors
    /// A log is damaged, or cannot be read; a file cannot be written.
    pub fn replay(&self, to: &Path, until: Timestamp) -> Result<Vec<u64>, Error> {
        let options = StoreOptions::new(to);
        let failed = |error: std::io::Error| Error::io(&replaying(to), &error);
        let mut numbers = Vec::new();
        for (number, log) in &self.logs {
            let target = FjallTails.create(&tail_path(&options, *number))?;
            replay_log(log, &*target, to, until)?;
            RealDisk.sync_directory(&tail_path(&options, *number)).map_err(failed)?;
            numbers.insert(0, *number);
        }
        RealDisk.sync_directory(&to.join("tail")).map_err(failed)?;
        Ok(numbers)
    }
}

fn replaying(to: &Path) -> String {
    format!("replay logs into {}", to.display())
}

/// Appends the rows and marks of a log until a time.
fn replay_log(log: &Path, target: &dyn TailRows, to: &Path, until: Timestamp) -> Result<(), Error> {
    let refused = |error: AppendError| match error {
        AppendError::Full => {
            Error::NoSpace { action: replaying(to), reason: "the log does not fit".to_owned() }
        }
        AppendError::NotDurable(reason) => Error::Io { action: replaying(to), reason },
    };
    let append =
        |rows: &mut Vec<NewRow>| target.append(std::mem::take(rows), RowDurability::Synced).map_err(refused);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let batches = TailLogFile::at(log).read()?;
    for entry in batches.entries() {
        match entry? {
            LogEntry::Row { key, value } if RowKey::parse(key)?.timestamp <= until => {
                bytes += key.len() + value.len();
                rows.push((RowBytes::from(key), RowBytes::from(value)));
                if bytes >= BATCH_BYTES {
                    append(&mut rows)?;
                    bytes = 0;
                }
            }
            LogEntry::Row { .. } => {}
            LogEntry::Mark(encoded) => {
                let mark = mark_of(encoded)?;
                if mark.is_of(until) {
                    target.append_marks(vec![(mark.since, encoded.to_vec())]).map_err(refused)?;
                }
            }
        }
    }
    if rows.is_empty() { Ok(()) } else { append(&mut rows) }
}
