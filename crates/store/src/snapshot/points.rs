//! A point in time of one group, read from a store in use: the logs after a snapshot, the newest first, and
//! then the snapshot.
//!
//! The tail is sealed at the beginning. So all writes before that are in logs that do not change any more,
//! and at most one of them is in memory. The reader gets versions and drops, and of each document the newest
//! version counts: so it can put together those of several nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Location, Timestamp};
use millrace_env::RealDisk;
use parking_lot::Mutex;

use super::logs::{self, KeptLog};
use super::replaying::missing_logs;
use super::{SnapshotDescription, SnapshotReader, StoredSnapshot};
use crate::context::StoreContext;
use crate::state::StoreState;
use crate::state::manifest::Manifest;
use crate::state::marks::{DropMark, MarkScope};
use crate::tail::{KeyValue, LogBatches, LogEntry, RowKey, TailLogFile, TailRow, mark_of, marks_of};
use crate::{Error, Store, StoreLayout, StoreVisit, VisitedVersion};

/// Bytes of logs that are searched for drops before a page of them ends.
const SEARCHED_BYTES: u64 = 256 << 20;
/// Number of the first generation of a data directory.
const FIRST_GENERATION: u64 = 1;

/// Snapshots from which a time can be restored.
#[derive(Debug)]
pub struct PointReach {
    /// All snapshots, each with the reason why the time cannot be restored from it.
    pub snapshots: Vec<(StoredSnapshot, Option<Error>)>,
    /// The logs have every write since this time; `None`: no time is known.
    pub logs_since: Option<Timestamp>,
}

/// The oldest part of a point in time.
pub enum PointBase<'a> {
    /// A snapshot, and the logs after it.
    Snapshot(&'a StoredSnapshot),
    /// Logs alone, which have every write since a time: another node has the snapshot.
    LogsSince(Timestamp),
}

/// A drop of documents of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropOfGroup {
    /// Dropped document type; `None`: all.
    pub document_type: Option<String>,
    /// Dropped part of a divided group; `None`: all of it.
    pub part: Option<BucketId>,
    /// Versions of this time or before are dropped.
    pub timestamp: Timestamp,
}

impl DropOfGroup {
    /// The drop of documents of a group by a mark; `None`: the mark is about others.
    fn of(mark: &DropMark, group: &DocumentGroup) -> Option<Self> {
        let (document_type, part) = match &mark.scope {
            MarkScope::Group { document_type, group: of, part } => {
                (*of == group.key()).then(|| (document_type.clone(), *part))?
            }
            MarkScope::Type(name) => (Some(name.clone()), None),
            MarkScope::Locations(first, last) => {
                let location = group.location_bits()?.reverse_bits();
                (*first..=*last).contains(&location).then_some((None, None))?
            }
        };
        Some(DropOfGroup { document_type, part, timestamp: Timestamp(mark.timestamp) })
    }

    /// Returns true if a document of this type at this location is dropped, if it is old enough.
    pub fn reaches(&self, document_type: &str, location: Location) -> bool {
        self.document_type.as_deref().is_none_or(|of| of == document_type)
            && self.part.is_none_or(|part| part.contains(location))
    }
}

/// Drops of documents of a group.
#[derive(Debug, Default)]
pub struct DropPage {
    /// The drops.
    pub drops: Vec<DropOfGroup>,
    /// Start of the next page; `None` at the end.
    pub continuation: Option<String>,
}

/// Versions of documents of a group.
#[derive(Debug, Default)]
pub struct PointPage {
    /// The versions. A document can come again with an older one.
    pub versions: Vec<VisitedVersion>,
    /// Start of the next page; `None` at the end.
    pub continuation: Option<String>,
}

/// Logs of a store in use.
struct StoredLogs {
    kept: Vec<KeptLog>,
    /// Logs of sealed generations, kept or about to be, by number.
    sealed: BTreeMap<u64, PathBuf>,
    /// Numbers of generations that are not sealed.
    live: BTreeSet<u64>,
}

impl StoredLogs {
    fn of(shared: &StoreContext, state: &StoreState) -> Result<Self, Error> {
        let options = &shared.options;
        let failed = |error: std::io::Error| Error::io("list the logs", &error);
        if options.keep_logs.is_zero() {
            return Err(missing_logs(&options.data_dir));
        }
        let live: BTreeSet<u64> =
            state.spare.iter().chain(&state.generations).map(|generation| generation.number).collect();
        // Generations are sealed in order, and one that is being made has a higher number.
        let oldest = live.first().copied().unwrap_or(u64::MAX);
        // A log is moved from the tail to the kept ones: in this order none is passed over.
        let mut sealed = logs::in_tail(&*options.disk, &options.data_dir).map_err(failed)?;
        sealed.retain(|number, _| *number < oldest);
        let mut kept = logs::kept(&options.data_dir).map_err(failed)?;
        // Those of generations that were sealed since are followed by ones that the state does not have yet.
        kept.retain(|log| log.number < oldest);
        sealed.extend(kept.iter().map(|log| (log.number, log.path.clone())));
        Ok(StoredLogs { kept, sealed, live })
    }

    /// Checks that a time can be restored from a snapshot.
    fn check(
        &self,
        shared: &StoreContext,
        description: &SnapshotDescription,
        until: Timestamp,
    ) -> Result<(), Error> {
        let path = &shared.options.data_dir;
        if description.until > until.0 {
            let reason = format!(
                "the snapshot '{}' was made after that time; name an earlier one, or a later time",
                description.name
            );
            return Err(Error::PointInTime { path: path.clone(), reason });
        }
        let first = description.first_log;
        match self.has(first) && logs::before_gap(&self.kept, first, |number| self.has(number)).is_none() {
            true => Ok(()),
            false => Err(missing_logs(path)),
        }
    }

    fn has(&self, number: u64) -> bool {
        self.sealed.contains_key(&number) || self.live.contains(&number)
    }

    /// The logs have every write since this time; `None`: that is not known.
    fn since(&self) -> Option<Timestamp> {
        let mut whole = &self.kept[..];
        while let Some((before, _)) = logs::before_gap(whole, 0, |number| self.has(number)) {
            whole = &whole[whole.partition_point(|log| log.number <= before.number)..];
        }
        if whole.len() == self.kept.len() && self.has(FIRST_GENERATION) {
            return Some(Timestamp(0));
        }
        let oldest = whole.iter().map(|log| log.until).find(|until| *until > 0);
        oldest.map(Timestamp)
    }
}

impl Store {
    /// Returns the snapshots from which a time can be restored, and since when the logs have every write.
    ///
    /// # Errors
    /// The snapshots or the logs cannot be listed.
    pub fn reach(&self, until: Timestamp) -> Result<PointReach, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let logs = StoredLogs::of(shared, &shared.state());
        let fault = |snapshot: &StoredSnapshot| match (&logs, &snapshot.description) {
            (Err(error), _) | (_, Err(error)) => Some(error.clone()),
            (Ok(logs), Ok(description)) => logs.check(shared, description, until).err(),
        };
        let snapshots = self.snapshots()?.into_iter().map(|snapshot| {
            let fault = fault(&snapshot);
            (snapshot, fault)
        });
        let snapshots = snapshots.collect();
        Ok(PointReach { snapshots, logs_since: logs.ok().and_then(|logs| logs.since()) })
    }
}

/// A group at a time that has passed.
pub struct PointReader {
    data_dir: PathBuf,
    group: DocumentGroup,
    /// Its key.
    key: String,
    until: Timestamp,
    /// Logs of sealed generations, by number.
    logs: BTreeMap<u64, PathBuf>,
    /// Drops that are known without a look at the logs.
    drops: Vec<DropOfGroup>,
    snapshot: Option<SnapshotReader>,
    /// Logs that were searched: true if one has versions of the group.
    searched: Mutex<BTreeMap<u64, bool>>,
    /// The log that was read last, and the newest version of each document of the group in it, by key.
    open: Mutex<Option<(u64, Arc<Vec<KeyValue>>)>>,
}

/// Position in the versions of a point in time.
enum PointPosition {
    /// In the versions of a log, by its number.
    Log(u64, usize),
    /// In the visit of the snapshot.
    Snapshot(Option<String>),
}

impl PointPosition {
    fn parse(text: &str) -> Result<Self, Error> {
        let parsed = || match text.split_once('/')? {
            ("snapshot", continuation) => {
                Some(PointPosition::Snapshot((!continuation.is_empty()).then(|| continuation.to_owned())))
            }
            (number, row) => Some(PointPosition::Log(number.parse().ok()?, row.parse().ok()?)),
        };
        parsed().ok_or(Error::Continuation)
    }

    fn text(&self) -> String {
        match self {
            PointPosition::Log(number, row) => format!("{number}/{row}"),
            PointPosition::Snapshot(continuation) => {
                format!("snapshot/{}", continuation.as_deref().unwrap_or_default())
            }
        }
    }
}

impl PointReader {
    /// Opens a group of a store as of a time. Seals what was written until now.
    ///
    /// # Errors
    /// The time has not passed; the snapshot is of a later time; the logs after it are not kept any more; the
    /// tail cannot be sealed.
    pub fn open(
        store: &Store,
        base: PointBase<'_>,
        group: &DocumentGroup,
        until: Timestamp,
        layout: Arc<dyn StoreLayout>,
    ) -> Result<Self, Error> {
        let shared = store.shared();
        let path = &shared.options.data_dir;
        if until >= shared.timestamps.now() {
            let reason = "the time to restore has not passed yet; name an earlier one".to_owned();
            return Err(Error::PointInTime { path: path.clone(), reason });
        }
        store.seal()?;
        let state = shared.state();
        let logs = StoredLogs::of(shared, &state)?;
        let mut marks = state.marks.list();
        // Of two drops of one scope the list has the later, which may be after the time.
        for generation in &state.generations {
            marks.extend(marks_of(&*generation.tail)?);
        }
        let (first, snapshot) = match base {
            PointBase::Snapshot(snapshot) => {
                let description = snapshot.description.as_ref().map_err(Clone::clone)?;
                logs.check(shared, description, until)?;
                marks.extend(Manifest::read(&RealDisk, &snapshot.path)?.unwrap_or_default().marks);
                let reader = SnapshotReader::open(&snapshot.path, group, layout)?;
                (description.first_log, Some(reader))
            }
            PointBase::LogsSince(since) => match logs.since().is_some_and(|known| known <= since) {
                true => (0, None),
                false => return Err(missing_logs(path)),
            },
        };
        let of_time = marks.iter().filter(|mark| mark.is_of(until));
        let drops = of_time.filter_map(|mark| DropOfGroup::of(mark, group)).collect();
        Ok(PointReader {
            data_dir: path.clone(),
            group: group.clone(),
            key: group.key(),
            until,
            logs: logs.sealed.into_iter().filter(|(number, _)| *number >= first).collect(),
            drops,
            snapshot,
            searched: Mutex::default(),
            open: Mutex::default(),
        })
    }

    /// Returns the next page of the drops until the time. All logs are searched for them, some for each page.
    ///
    /// # Errors
    /// A log is damaged, or is not kept any more; the continuation is invalid.
    pub fn drops(&self, continuation: Option<&str>) -> Result<DropPage, Error> {
        let first = continuation.map(str::parse::<u64>).transpose().map_err(|_| Error::Continuation)?;
        let mut page = DropPage::default();
        if first.is_none() {
            page.drops.clone_from(&self.drops);
        }
        let mut bytes = 0;
        for (number, path) in self.logs.range(first.unwrap_or(0)..) {
            if bytes >= SEARCHED_BYTES {
                page.continuation = Some(number.to_string());
                break;
            }
            bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            let mut has_some = false;
            for entry in self.read(*number, path)?.entries() {
                match entry? {
                    LogEntry::Row { key, .. } if !has_some => has_some = self.is_wanted(&RowKey::parse(key)?),
                    LogEntry::Row { .. } => {}
                    LogEntry::Mark(bytes) => {
                        let mark = mark_of(bytes)?;
                        page.drops.extend(
                            mark.is_of(self.until).then(|| DropOfGroup::of(&mark, &self.group)).flatten(),
                        );
                    }
                }
            }
            self.searched.lock().insert(*number, has_some);
        }
        Ok(page)
    }

    /// Returns the next versions of documents of these types until the time, at most `wanted`. Drops are not
    /// applied, except for those that the snapshot has.
    ///
    /// # Errors
    /// A file is damaged or cannot be read; a log is not kept any more; the continuation is invalid.
    pub fn versions(
        &self,
        document_types: &[String],
        continuation: Option<&str>,
        wanted: usize,
    ) -> Result<PointPage, Error> {
        let position = match continuation {
            Some(text) => PointPosition::parse(text)?,
            None => self.before(u64::MAX),
        };
        let next = match position {
            PointPosition::Snapshot(continuation) => {
                return self.of_snapshot(document_types, continuation, wanted);
            }
            PointPosition::Log(number, row) => (number, row),
        };
        let (number, from) = next;
        let rows = self.rows(number)?;
        let to = rows.len().min(from.saturating_add(wanted));
        let mut versions = Vec::new();
        for (key, value) in rows.get(from..to).ok_or(Error::Continuation)? {
            let key = RowKey::parse(key)?;
            if document_types.iter().any(|name| name == key.document_type()) {
                let TailRow { document, timestamp, removed } = TailRow::decode(&key, value)?;
                versions.push(match removed {
                    true => VisitedVersion::Removed(document.id, timestamp),
                    false => VisitedVersion::Document(document, timestamp),
                });
            }
        }
        let after = if to < rows.len() { PointPosition::Log(number, to) } else { self.before(number) };
        let is_end = matches!(after, PointPosition::Snapshot(_)) && self.snapshot.is_none();
        Ok(PointPage { versions, continuation: (!is_end).then(|| after.text()) })
    }

    fn of_snapshot(
        &self,
        document_types: &[String],
        continuation: Option<String>,
        wanted: usize,
    ) -> Result<PointPage, Error> {
        let Some(reader) = &self.snapshot else { return Ok(PointPage::default()) };
        let found = reader.visit(&StoreVisit {
            document_types: document_types.to_vec(),
            wanted,
            tombstones: true,
            continuation,
            ..reader.visit_of_group()
        })?;
        let continuation =
            found.continuation.map(|continuation| PointPosition::Snapshot(Some(continuation)).text());
        Ok(PointPage { versions: found.visited, continuation })
    }

    /// The beginning of the newest log before one that can have versions of the group, else of the snapshot.
    fn before(&self, number: u64) -> PointPosition {
        let searched = self.searched.lock();
        let mut older = self.logs.range(..number).rev().map(|(number, _)| *number);
        let next = older.find(|number| searched.get(number).is_none_or(|has_some| *has_some));
        next.map_or(PointPosition::Snapshot(None), |number| PointPosition::Log(number, 0))
    }

    fn is_wanted(&self, key: &RowKey<'_>) -> bool {
        key.group == self.key && key.timestamp <= self.until
    }

    /// The newest versions of the group's documents in a log, by key.
    fn rows(&self, number: u64) -> Result<Arc<Vec<KeyValue>>, Error> {
        let mut open = self.open.lock();
        if let Some((_, rows)) = open.as_ref().filter(|(known, _)| *known == number) {
            return Ok(Arc::clone(rows));
        }
        // Two logs are not in memory at a time.
        *open = None;
        let path = self.logs.get(&number).ok_or(Error::Continuation)?;
        let mut rows = Vec::new();
        for entry in self.read(number, path)?.entries() {
            if let LogEntry::Row { key, value } = entry?
                && self.is_wanted(&RowKey::parse(key)?)
            {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        // The newest version of a document comes first.
        rows.sort_unstable();
        let document = |row: &KeyValue| RowKey::parse(&row.0).map(|key| key.sort_key.to_vec()).ok();
        rows.dedup_by(|later, kept| document(later) == document(kept));
        let rows = Arc::new(rows);
        *open = Some((number, Arc::clone(&rows)));
        Ok(rows)
    }

    fn read(&self, number: u64, path: &Path) -> Result<LogBatches, Error> {
        let found = TailLogFile::at(path).read();
        if path.exists() {
            return found;
        }
        // It was moved, or deleted, as is a log from before a deletion that is to be erased.
        let kept = logs::kept(&self.data_dir).map_err(|error| Error::io("list the logs", &error))?;
        match kept.into_iter().find(|log| log.number == number) {
            Some(log) => TailLogFile::at(&log.path).read(),
            None => Err(missing_logs(&self.data_dir)),
        }
    }
}
