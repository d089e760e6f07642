//! The ledger of erasures: which drops of groups are to leave the disk, and by when.
//!
//! It is one small text file, replaced as a whole: the time of the last search for parts that no bucket has,
//! a line for each group, a checksum. A drop is recorded in memory when it is made; its mark, which is
//! durable, brings it back after a crash. A bound that differs from the store's own and a receipt are
//! durable when the file is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use millrace_env::Disk;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::state::marks::{DropMark, MarkScope};

pub(crate) const NAME: &str = "erasures";
const FIRST_LINE: &str = "millrace erasures 1";

/// Time for which the receipt of a finished erasure is kept.
const RECEIPTS_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// Maximum number of receipts; the oldest go first.
const RECEIPTS_MAX: usize = 10_000;

/// The erasure of one group. Times are in microseconds of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErasureRecord {
    /// When this store learned of the last drop.
    pub dropped: u64,
    /// Bytes of what was dropped are gone by then.
    pub due: u64,
    /// When the last of them was gone; 0: some may still be there.
    pub erased: u64,
    /// Files with this or a higher number were begun after the drop.
    pub first_number: u64,
}

impl ErasureRecord {
    /// Time from which files are rewritten for it: until then, ordinary merges may do it at no cost.
    pub fn begins(&self) -> u64 {
        self.dropped + self.due.saturating_sub(self.dropped) / 2
    }

    pub fn is_pending(&self) -> bool {
        self.erased == 0
    }
}

/// All erasures, by the key of the group.
#[derive(Default)]
pub(crate) struct ErasureLedger {
    /// Held while the file is written.
    saving: Mutex<()>,
    records: Mutex<LedgerRecords>,
    /// Number of erasures that are not finished; read without a lock by work that has none to do.
    pending: AtomicUsize,
    /// No finished erasure is of a later drop; 0: none is finished. Read without a lock by every commit of
    /// given versions.
    finished_until: AtomicU64,
    /// Rows of the tail that were written until then are to be sealed.
    seal_before: AtomicU64,
    /// Number of times that a bound was lowered.
    bounds_lowered: AtomicU64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LedgerRecords {
    by_group: BTreeMap<String, ErasureRecord>,
    /// When the last search of all files for parts that no bucket has was begun, of those that are finished.
    searched: u64,
    /// The file differs.
    is_unsaved: bool,
}

impl ErasureLedger {
    /// Reads the ledger of a data directory, and adds drops that are remembered and not in it: a crash came
    /// before it was saved.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn open(
        disk: &dyn Disk,
        directory: &Path,
        marks: &[DropMark],
        within: Duration,
        next_number: u64,
    ) -> Result<Self, Error> {
        let records = read(disk, directory)?;
        let ledger = ErasureLedger { records: Mutex::new(records), ..ErasureLedger::default() };
        marks.iter().for_each(|mark| ledger.record_drop(mark, within, next_number));
        ledger.count();
        Ok(ledger)
    }

    /// Records the drop of a group: it is erased within this time, or sooner where an earlier drop has to be.
    pub fn record_drop(&self, mark: &DropMark, within: Duration, next_number: u64) {
        let MarkScope::Group { group, .. } = &mark.scope else { return };
        let due = mark.since.saturating_add(within.as_micros() as u64);
        let mut records = self.records.lock();
        let known = records.by_group.get(group);
        if known.is_some_and(|known| known.dropped >= mark.since) {
            return;
        }
        let due = known.filter(|known| known.is_pending()).map_or(due, |known| known.due.min(due));
        let record = ErasureRecord { dropped: mark.since, due, erased: 0, first_number: next_number };
        records.by_group.insert(group.clone(), record);
        records.is_unsaved = true;
        drop(records);
        self.count();
    }

    /// Lowers the bound of a pending erasure. Returns true if there is one.
    pub fn bring_forward(&self, group: &str, due: u64) -> bool {
        let mut records = self.records.lock();
        let Some(record) = records.by_group.get_mut(group).filter(|record| record.is_pending()) else {
            return false;
        };
        if due < record.due {
            record.due = due.max(record.dropped);
            records.is_unsaved = true;
        }
        drop(records);
        self.bounds_lowered.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Number of times that a bound was lowered: for work that waits.
    pub fn bounds_lowered(&self) -> u64 {
        self.bounds_lowered.load(Ordering::Relaxed)
    }

    /// Has the rows sealed that were written until then.
    pub fn seal_before(&self, time: u64) {
        self.seal_before.fetch_max(time, Ordering::Relaxed);
    }

    /// Rows that were written until this time are to be sealed.
    pub fn sealed_before(&self) -> u64 {
        self.seal_before.load(Ordering::Relaxed)
    }

    /// Records that nothing of a group is left that was dropped until then.
    pub fn finish(&self, group: &str, dropped: u64, now: u64) {
        let mut records = self.records.lock();
        if let Some(record) = records.by_group.get_mut(group).filter(|record| record.dropped == dropped) {
            record.erased = now.max(1);
            records.is_unsaved = true;
        }
        drop(records);
        self.count();
    }

    /// Records that dropped bytes may have come after an erasure was finished: it begins again as of now,
    /// with as much time as it had.
    pub fn reopen(&self, group: &str, next_number: u64, now: u64) {
        let mut records = self.records.lock();
        if let Some(record) = records.by_group.get_mut(group).filter(|record| !record.is_pending()) {
            let within = record.due.saturating_sub(record.dropped);
            let dropped = now.max(record.dropped);
            let due = dropped.saturating_add(within);
            *record = ErasureRecord { dropped, due, erased: 0, first_number: next_number };
            records.is_unsaved = true;
        }
        drop(records);
        self.count();
    }

    /// Returns true if a version of this time may be of a group whose erasure is finished, and older than its
    /// drop.
    pub fn may_be_late(&self, timestamp: u64) -> bool {
        timestamp <= self.finished_until.load(Ordering::Relaxed)
    }

    /// Returns true if a version of a group is older than the drop whose erasure is finished.
    pub fn is_late(&self, group: &str, timestamp: u64) -> bool {
        let records = self.records.lock();
        let record = records.by_group.get(group);
        record.is_some_and(|record| !record.is_pending() && timestamp <= record.dropped)
    }

    pub fn get(&self, group: &str) -> Option<ErasureRecord> {
        self.records.lock().by_group.get(group).cloned()
    }

    pub fn all(&self) -> BTreeMap<String, ErasureRecord> {
        self.records.lock().by_group.clone()
    }

    /// When the last search of all files for parts that no bucket has was begun; `now` if there was none.
    pub fn searched(&self, now: u64) -> u64 {
        let mut records = self.records.lock();
        if records.searched == 0 || records.searched > now {
            (records.searched, records.is_unsaved) = (now, true);
        }
        records.searched
    }

    /// Records that such a search is finished.
    pub fn finish_search(&self, began: u64) {
        let mut records = self.records.lock();
        (records.searched, records.is_unsaved) = (began, true);
    }

    /// Number of erasures that are not finished.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// When the next erasure begins that has not begun.
    pub fn next_begin(&self, now: u64) -> Option<u64> {
        let records = self.records.lock();
        let pending = records.by_group.values().filter(|record| record.is_pending());
        pending.map(ErasureRecord::begins).filter(|begins| *begins > now).min()
    }

    /// Returns true if marks of a group are still needed.
    pub fn needs(&self, group: &str) -> bool {
        self.pending() > 0 && self.get(group).is_some_and(|record| record.is_pending())
    }

    /// Makes the records durable, if that is necessary, and forgets old receipts.
    ///
    /// # Errors
    /// The file cannot be written. What it had stays.
    pub fn save(&self, disk: &dyn Disk, directory: &Path, now: u64) -> Result<(), Error> {
        let _one_at_a_time = self.saving.lock();
        let bytes = {
            let mut records = self.records.lock();
            if !records.is_unsaved {
                return Ok(());
            }
            records.forget(now);
            records.is_unsaved = false;
            encode(&records)
        };
        let write = || -> io::Result<()> {
            let temporary = directory.join("erasures.writing");
            let mut file = disk.create(&temporary)?;
            file.append(&bytes)?;
            file.sync()?;
            disk.rename(&temporary, &directory.join(NAME))?;
            disk.sync_directory(directory)
        };
        write().map_err(|error| {
            self.records.lock().is_unsaved = true;
            Error::io("write the ledger of erasures", &error)
        })
    }

    fn count(&self) {
        let records = self.records.lock();
        let pending = records.by_group.values().filter(|record| record.is_pending()).count();
        self.pending.store(pending, Ordering::Relaxed);
        let finished = records.by_group.values().filter(|record| !record.is_pending());
        let finished_until = finished.map(|record| record.dropped).max().unwrap_or(0);
        self.finished_until.store(finished_until, Ordering::Relaxed);
    }
}

impl LedgerRecords {
    fn forget(&mut self, now: u64) {
        let from = now.saturating_sub(RECEIPTS_KEPT.as_micros() as u64);
        self.by_group.retain(|_, record| record.is_pending() || record.erased >= from);
        let mut finished: Vec<u64> = self.by_group.values().map(|record| record.erased).collect();
        finished.retain(|erased| *erased > 0);
        finished.sort_unstable();
        if let Some(surplus) = finished.len().checked_sub(RECEIPTS_MAX).filter(|surplus| *surplus > 0) {
            let last = finished[surplus - 1];
            self.by_group.retain(|_, record| record.is_pending() || record.erased > last);
        }
    }
}

fn encode(records: &LedgerRecords) -> Vec<u8> {
    let mut text = format!("{FIRST_LINE}\n{}\n", records.searched);
    for (group, ErasureRecord { dropped, due, erased, first_number }) in &records.by_group {
        // The key of a group has no control characters.
        text.push_str(&format!("{dropped} {due} {erased} {first_number} {group}\n"));
    }
    let checksum = xxh3_64(text.as_bytes());
    text.push_str(&format!("{checksum:016x}\n"));
    text.into_bytes()
}

fn decode(bytes: &[u8]) -> Option<LedgerRecords> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (body, checksum) = text.split_at(text.rfind('\n')? + 1);
    if u64::from_str_radix(checksum, 16).ok()? != xxh3_64(body.as_bytes()) {
        return None;
    }
    let mut lines = body.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?.lines();
    let searched = lines.next()?.parse().ok()?;
    let record = |line: &str| {
        let mut parts = line.splitn(5, ' ');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (dropped, due, erased, first_number) = (number()?, number()?, number()?, number()?);
        Some((parts.next()?.to_owned(), ErasureRecord { dropped, due, erased, first_number }))
    };
    Some(LedgerRecords { by_group: lines.map(record).collect::<Option<_>>()?, searched, is_unsaved: false })
}

/// Bytes of the ledger of a data directory; `None` if there is none.
pub(crate) fn file(disk: &dyn Disk, directory: &Path) -> Result<Option<Vec<u8>>, Error> {
    let read = || -> io::Result<Vec<u8>> {
        let file = disk.open(&directory.join(NAME))?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut [&mut bytes])?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read the ledger of erasures", &error)),
    }
}

/// Checks the ledger of a data directory.
///
/// # Errors
/// It cannot be read, or is damaged.
pub(crate) fn check(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    read(disk, directory).map(drop)
}

fn read(disk: &dyn Disk, directory: &Path) -> Result<LedgerRecords, Error> {
    let path = directory.join(NAME);
    match file(disk, directory)? {
        Some(bytes) => decode(&bytes).ok_or_else(|| Error::Corrupt {
            path,
            offset: 0,
            reason: "the ledger of erasures does not fit its checksum; without the file, drops that are \
                     remembered are erased within the store's own bound"
                .to_owned(),
        }),
        None => Ok(LedgerRecords::default()),
    }
}

#[cfg(test)]
mod tests {
    use millrace_env::RealDisk;

    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn mark(group: &str, since: u64) -> DropMark {
        let scope = MarkScope::Group { document_type: None, group: group.to_owned(), part: None };
        DropMark { scope, timestamp: since, since, given: false }
    }

    /// The groups of a ledger with their times, in hours; `-`: not erased.
    fn shown(ledger: &ErasureLedger) -> String {
        let line = |(group, record): (&String, &ErasureRecord)| {
            let erased = (record.erased > 0).then(|| (record.erased / HOUR).to_string());
            format!(
                "{group} {} {} {}",
                record.dropped / HOUR,
                record.due / HOUR,
                erased.as_deref().unwrap_or("-")
            )
        };
        ledger.all().iter().map(line).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn records_are_there_after_a_start() {
        let directory = tempfile::tempdir().expect("a directory");
        let within = Duration::from_micros(10 * HOUR);
        let open = |marks: &[DropMark]| {
            ErasureLedger::open(&RealDisk, directory.path(), marks, within, 7).expect("it opens")
        };
        let ledger = open(&[mark("gann b", HOUR)]);
        assert_eq!(shown(&ledger), "gann b 1 11 -");
        ledger.record_drop(&mark("n7", 2 * HOUR), within, 8);
        assert!(ledger.bring_forward("n7", 3 * HOUR) && !ledger.bring_forward("gbob", 3 * HOUR));
        // A later drop is due no later than the one that is not finished.
        ledger.record_drop(&mark("n7", 2 * HOUR + HOUR / 2), within, 9);
        ledger.finish("gann b", HOUR, 5 * HOUR);
        assert_eq!((shown(&ledger).as_str(), ledger.pending()), ("gann b 1 11 5, n7 2 3 -", 1));
        ledger.save(&RealDisk, directory.path(), 6 * HOUR).expect("saved");
        // A mark that is still there is no new drop; a later one is.
        let again = open(&[mark("gann b", HOUR), mark("gcarl", 6 * HOUR)]);
        assert_eq!(shown(&again), "gann b 1 11 5, gcarl 6 16 -, n7 2 3 -");
        assert!(again.needs("n7") && !again.needs("gann b"));
        again.record_drop(&mark("gann b", 20 * HOUR), within, 10);
        assert_eq!(shown(&again), "gann b 20 30 -, gcarl 6 16 -, n7 2 3 -");
        let old = 20 * HOUR + RECEIPTS_KEPT.as_micros() as u64 + HOUR;
        again.finish("gann b", 20 * HOUR, 20 * HOUR);
        again.save(&RealDisk, directory.path(), old).expect("saved");
        assert_eq!(shown(&open(&[])), "gcarl 6 16 -, n7 2 3 -");
    }

    #[test]
    fn damage_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(NAME);
        let whole = encode(&LedgerRecords::default());
        for bytes in [&whole[1..], &whole[..whole.len() - 1], b"", b"\n", b"x 1\n"] {
            std::fs::write(&path, bytes).expect("written");
            let opened = ErasureLedger::open(&RealDisk, directory.path(), &[], Duration::ZERO, 1);
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{bytes:?}");
        }
        std::fs::write(&path, whole).expect("written");
        assert!(ErasureLedger::open(&RealDisk, directory.path(), &[], Duration::ZERO, 1).is_ok());
    }
}
