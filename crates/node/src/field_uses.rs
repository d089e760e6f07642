//! Uses of fields by queries, counted by day, for the decision which fields are worth their space.
//!
//! The counts are in a file beside the application, which is replaced every minute if they have changed, and
//! when the node stops. They are figures: a process that is killed loses those of its last minute, and a file
//! that cannot be read is begun again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_search::{FieldUseKind, PreparedSearch};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::deployments::replace_file;

/// Name of the file.
const FILE: &str = "field-uses";

/// Number of days that are counted, today among them.
const DAYS_MAX: u64 = 30;

const DAY_S: u64 = 24 * 60 * 60;

/// Numbers of queries by kind of use, in the order of [`FieldUseKind::ALL`].
pub type FieldUseCounts = [u64; FieldUseKind::ALL.len()];

/// Counts by document type and field.
type CountsByField = BTreeMap<String, BTreeMap<String, FieldUseCounts>>;

/// Counts of the uses of fields by the queries of this node.
pub struct FieldUseLog {
    directory: PathBuf,
    counted: Mutex<CountedDays>,
}

#[derive(Default, Serialize, Deserialize)]
struct CountedDays {
    /// Day on which counting began, since 1970.
    first: u64,
    /// Counts by day since 1970.
    days: BTreeMap<u64, CountsByField>,
    /// True if the file lacks some.
    #[serde(skip)]
    has_changed: bool,
}

impl CountedDays {
    /// Forgets the days that do not count any more.
    fn forget_before(&mut self, today: u64) {
        self.days.retain(|day, _| day + DAYS_MAX > today);
    }
}

/// Uses of fields in the days that are counted.
pub struct FieldUseSummary {
    /// Number of days, today among them; 30, or fewer if counting began later.
    pub days: u64,
    types: CountsByField,
}

impl FieldUseSummary {
    /// Numbers of the queries that used a field.
    pub fn counts(&self, document_type: &str, field: &str) -> FieldUseCounts {
        self.types.get(document_type).and_then(|fields| fields.get(field)).copied().unwrap_or_default()
    }
}

impl FieldUseLog {
    /// Reads the counts of a directory.
    pub(crate) fn open(directory: &Path) -> Self {
        Self::open_on(directory, today())
    }

    fn open_on(directory: &Path, today: u64) -> Self {
        let path = directory.join(FILE);
        let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice::<CountedDays>(&bytes)?));
        let counted = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let (file, reason) = (path.display(), error.to_string());
                tracing::warn!(%file, reason, "uses of fields cannot be read; they are counted from today");
            }
            CountedDays { first: today, ..CountedDays::default() }
        });
        FieldUseLog { directory: directory.to_owned(), counted: Mutex::new(counted) }
    }

    /// Counts the fields that the searches of a query use.
    pub(crate) fn count(&self, searches: &[Arc<PreparedSearch>]) {
        for search in searches {
            let uses = search.field_uses();
            self.add(today(), &search.plan().schema.name, uses.into_iter());
        }
    }

    fn add<'f>(&self, today: u64, document_type: &str, uses: impl Iterator<Item = (&'f str, FieldUseKind)>) {
        let mut counted = self.counted.lock();
        counted.has_changed = true;
        let of_day = counted.days.entry(today).or_default();
        let of_type = of_day.entry(document_type.to_owned()).or_default();
        for (field, kind) in uses {
            of_type.entry(field.to_owned()).or_default()[kind as usize] += 1;
        }
    }

    /// The sums over the days that are counted.
    pub fn summary(&self) -> FieldUseSummary {
        self.summary_on(today())
    }

    fn summary_on(&self, today: u64) -> FieldUseSummary {
        let mut counted = self.counted.lock();
        counted.forget_before(today);
        let mut types = CountsByField::new();
        for (document_type, fields) in counted.days.values().flatten() {
            let of_type = types.entry(document_type.clone()).or_default();
            for (field, counts) in fields {
                let sums = of_type.entry(field.clone()).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let days = (today.saturating_sub(counted.first) + 1).min(DAYS_MAX);
        FieldUseSummary { days, types }
    }

    /// Writes the counts to the disk, if they have changed. An error is logged; they are written again after
    /// the next query.
    pub(crate) fn keep(&self) {
        if let Err(error) = self.save(today()) {
            tracing::warn!(reason = %error, "uses of fields cannot be kept");
        }
    }

    fn save(&self, today: u64) -> io::Result<()> {
        let bytes = {
            let mut counted = self.counted.lock();
            if !std::mem::take(&mut counted.has_changed) {
                return Ok(());
            }
            counted.forget_before(today);
            serde_json::to_vec(&*counted)?
        };
        replace_file(&self.directory, FILE, &bytes)
    }
}

/// Today, in days since 1970.
fn today() -> u64 {
    millrace_env::unix_time().as_secs() / DAY_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_count_also_after_a_restart() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = |today| FieldUseLog::open_on(directory.path(), today);
        let log = open(100);
        let text = |log: &FieldUseLog, today| {
            let summary = log.summary_on(today);
            format!("{} days, {:?}", summary.days, summary.counts("mail", "title"))
        };
        assert_eq!(text(&log, 100), "1 days, [0, 0, 0, 0, 0]");
        let uses = [("title", FieldUseKind::Matched), ("title", FieldUseKind::Shown)];
        log.add(100, "mail", uses.into_iter());
        log.add(110, "mail", uses.into_iter().take(1));
        log.add(110, "note", uses.into_iter());
        assert_eq!(text(&log, 110), "11 days, [2, 0, 0, 0, 1]");
        log.save(110).expect("it is saved");
        assert_eq!(text(&open(110), 129), "30 days, [2, 0, 0, 0, 1]");
        assert_eq!(text(&open(110), 130), "30 days, [1, 0, 0, 0, 0]");
        let log = open(140);
        assert_eq!(text(&log, 140), "30 days, [0, 0, 0, 0, 0]");
        // Nothing is written that has not changed.
        std::fs::remove_file(directory.path().join(FILE)).expect("there is a file");
        log.save(140).expect("there is nothing to save");
        assert!(!directory.path().join(FILE).exists());
    }

    #[test]
    fn a_damaged_file_is_begun_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join(FILE), "{\"first\":").expect("a file");
        let log = FieldUseLog::open_on(directory.path(), 7);
        assert_eq!(log.summary_on(8).days, 2);
        log.add(8, "mail", [("title", FieldUseKind::Ranked)].into_iter());
        log.save(8).expect("it is saved");
        let again = FieldUseLog::open_on(directory.path(), 8).summary_on(8);
        assert_eq!((again.days, again.counts("mail", "title")), (2, [0, 1, 0, 0, 0]));
    }

    #[test]
    fn the_file_is_written_as_ever() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = FieldUseLog::open_on(directory.path(), 7);
        let uses = [("title", FieldUseKind::Matched), ("title", FieldUseKind::Shown)];
        log.add(8, "mail", uses.into_iter());
        log.save(8).expect("it is saved");
        let written = std::fs::read_to_string(directory.path().join(FILE)).expect("there is a file");
        assert_eq!(written, r#"{"first":7,"days":{"8":{"mail":{"title":[1,0,0,0,1]}}}}"#);
    }
}
