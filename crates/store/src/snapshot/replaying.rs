//! A point in time: the logs after a snapshot, without the writes after the point, as generations of the tail
//! of a restored directory. The server that starts in it seals them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use millrace_document::Timestamp;
use millrace_env::{Disk as _, RealDisk};

use super::logs;
use crate::shared::tail_path;
use crate::state::manifest::Manifest;
use crate::tail::{
    AppendError, FjallTails, KeyValue, LOG_NAME, RowDurability, RowKey, TailFactory as _, marks_of,
};
use crate::{Error, StoreOptions};

/// Bytes of rows that are appended at once.
const BATCH_BYTES: usize = 4 << 20;

/// The logs of a data directory from one generation on.
pub(super) struct LogsAfter {
    /// By generation, the oldest first.
    logs: Vec<(u64, PathBuf)>,
}

impl LogsAfter {
    /// Lists the logs of a data directory from a generation on: kept ones, and those of writes that are not
    /// sealed yet.
    ///
    /// # Errors
    /// The generation's log is not kept any more, so that writes are missing.
    pub fn of(data_dir: &Path, first: u64) -> Result<Self, Error> {
        let failed =
            |error: std::io::Error| Error::io(&format!("list the logs of {}", data_dir.display()), &error);
        let manifest = Manifest::read(&RealDisk, data_dir)?;
        let options = StoreOptions::new(data_dir);
        let live = manifest.map(|manifest| manifest.generations).unwrap_or_default();
        let live = live.into_iter().map(|number| (number, tail_path(&options, number).join(LOG_NAME)));
        let kept = logs::kept(data_dir).map_err(failed)?.into_iter().map(|log| (log.number, log.path));
        let mut logs: Vec<(u64, PathBuf)> = kept.chain(live).filter(|(number, _)| *number >= first).collect();
        logs.sort();
        logs.dedup_by_key(|(number, _)| *number);
        match logs.first().is_some_and(|(number, _)| *number == first) {
            true => Ok(LogsAfter { logs }),
            false => Err(Error::DataDirectory {
                path: data_dir.to_owned(),
                reason: "the logs of writes after the snapshot are not there, or not all any more; take a later snapshot, or \
                         restore without a time; keep-logs-s says for how long logs are kept"
                    .to_owned(),
            }),
        }
    }

    /// Makes the generations of a restored directory, with the writes and drops until a time. Returns their
    /// numbers, the newest first.
    ///
    /// # Errors
    /// A log is damaged, or cannot be read; a file cannot be written.
    pub fn replay(&self, to: &Path, until: Timestamp) -> Result<Vec<u64>, Error> {
        let options = StoreOptions::new(to);
        let failed = |error: std::io::Error| Error::io(&format!("replay logs into {}", to.display()), &error);
        let mut numbers = Vec::new();
        for (number, log) in &self.logs {
            // Opening a log completes what a crash left, so it is done with a copy.
            let scratch = tempfile::tempdir_in(to).map_err(failed)?;
            let copy = scratch.path().join("tail").join(format!("{number:016}"));
            fs::create_dir_all(&copy).map_err(failed)?;
            fs::copy(log, copy.join(LOG_NAME)).map_err(failed)?;
            let from = FjallTails.open(&copy)?;
            let target = FjallTails.create(&tail_path(&options, *number))?;
            let append = |rows: Vec<KeyValue>| {
                target.append(rows, RowDurability::Synced).map_err(|error| match error {
                    AppendError::Full => Error::NoSpace {
                        action: format!("replay logs into {}", to.display()),
                        reason: "the log does not fit".to_owned(),
                    },
                    AppendError::NotDurable(reason) => Error::Poisoned { reason },
                })
            };
            let (mut rows, mut bytes) = (Vec::new(), 0);
            from.snapshot().range(&[], None, &mut |key, value| {
                if RowKey::parse(key)?.timestamp <= until {
                    bytes += key.len() + value.len();
                    rows.push((key.to_vec(), value.to_vec()));
                    if bytes >= BATCH_BYTES {
                        append(std::mem::take(&mut rows))?;
                        bytes = 0;
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if !rows.is_empty() {
                append(rows)?;
            }
            for mark in marks_of(&*from)?.iter().filter(|mark| mark.since <= until.0) {
                let mut bytes = Vec::new();
                mark.encode(&mut bytes);
                let appended = target.append_mark(mark.since, bytes);
                appended.map_err(|error| Error::Io {
                    action: format!("replay logs into {}", to.display()),
                    reason: format!("{error:?}"),
                })?;
            }
            RealDisk.sync_directory(&tail_path(&options, *number)).map_err(failed)?;
            numbers.insert(0, *number);
        }
        RealDisk.sync_directory(&to.join("tail")).map_err(failed)?;
        Ok(numbers)
    }
}
