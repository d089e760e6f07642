//! Changes of the store that an index may not have on the disk: a file that is written before each of them.
//!
//! After a crash an index reads again what is noted here. So a note is made before the change is durable, and
//! is forgotten only when all indexes have the change in their files.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::{Disk as _, RealDisk, read_file, replace_file};
use millrace_store::DroppingScope;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Maximum number of notes; beyond it they become one for all documents.
const NOTES_MAX: usize = 4096;

/// Time by which indexes say that they are complete earlier than they are, in microseconds: the clocks of
/// the owners of buckets differ, and a row of just before would be noted otherwise.
pub(super) const MARGIN_US: u64 = 60_000_000;

/// A noted change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum NotedChange {
    /// A drop of a group, by its key; of all types where that is `None`.
    Group { document_type: Option<String>, group: String },
    /// A drop of all documents of a type; of all types where that is `None`.
    Type(Option<String>),
    /// Versions that entered or left a bucket other than by commits: the number of its bits, and the bits.
    Bucket(u8, u64),
    /// Rows that came after all indexes were complete for their times, none from before this one.
    Late(u64),
}

impl NotedChange {
    pub fn of_drop(scope: &DroppingScope) -> Self {
        match scope {
            DroppingScope::Group { document_type, group, .. } => {
                NotedChange::Group { document_type: document_type.clone(), group: group.clone() }
            }
            DroppingScope::Type(name) => NotedChange::Type(Some(name.clone())),
            DroppingScope::Locations => NotedChange::Type(None),
        }
    }

    pub fn of_bucket(bucket: BucketId) -> Self {
        let (used_bits, bits) = bucket.parts();
        NotedChange::Bucket(used_bits, bits)
    }

    /// The bucket whose versions changed.
    pub fn bucket(&self) -> Option<BucketId> {
        match self {
            NotedChange::Bucket(used_bits, bits) => {
                Some(BucketId::try_from((*used_bits, *bits)).unwrap_or(BucketId::ROOT))
            }
            _ => None,
        }
    }

    /// True if it is a drop that concerns documents of this type.
    pub fn drops(&self, document_type: &str) -> bool {
        match self {
            NotedChange::Group { document_type: of, .. } | NotedChange::Type(of) => {
                of.as_deref().is_none_or(|of| of == document_type)
            }
            NotedChange::Bucket(..) | NotedChange::Late(_) => false,
        }
    }
}

/// Notes with their numbers: a change that is noted again gets a new one.
type Numbered = BTreeMap<NotedChange, u64>;

/// The noted changes.
pub(super) struct ChangeNotes {
    path: PathBuf,
    notes: Mutex<NumberedNotes>,
    /// Rows of this time and later need no note.
    floor: AtomicU64,
}

#[derive(Default)]
struct NumberedNotes {
    notes: Numbered,
    last: u64,
}

impl NumberedNotes {
    fn late(&self) -> Option<u64> {
        self.notes.keys().find_map(|note| match note {
            NotedChange::Late(from) => Some(*from),
            _ => None,
        })
    }

    /// Gives a note that is there a new number; `false` if it is not there.
    fn repeat(&mut self, note: &NotedChange) -> bool {
        let Some(number) = self.notes.get_mut(note) else { return false };
        self.last += 1;
        *number = self.last;
        true
    }
}

impl ChangeNotes {
    /// Reads the notes of a file. All rows are late until the indexes are open.
    pub fn open(path: PathBuf) -> Self {
        // Of a file that cannot be read everything counts as noted.
        let everything = || vec![NotedChange::Type(None)];
        let noted = match read_file(&RealDisk, &path) {
            Ok(None) => Vec::new(),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|_| everything()),
            Err(error) => {
                tracing::error!(%error, "the notes of changes cannot be read; all indexes are built again");
                everything()
            }
        };
        let notes = noted.into_iter().map(|note| (note, 0)).collect();
        ChangeNotes {
            path,
            notes: Mutex::new(NumberedNotes { notes, last: 0 }),
            floor: AtomicU64::new(u64::MAX),
        }
    }

    /// All notes.
    pub fn all(&self) -> Vec<NotedChange> {
        self.notes.lock().notes.keys().cloned().collect()
    }

    /// Lowest time of a late row that indexes may not have on the disk.
    pub fn late(&self) -> Option<Timestamp> {
        self.notes.lock().late().map(Timestamp)
    }

    /// Makes notes, durably.
    ///
    /// # Errors
    /// The system refuses; then nothing is noted.
    pub fn note(&self, changes: impl IntoIterator<Item = NotedChange>) -> io::Result<()> {
        let mut notes = self.notes.lock();
        let mut new: Vec<NotedChange> = changes.into_iter().filter(|change| !notes.repeat(change)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut next = notes.notes.clone();
        if next.len() + new.len() > NOTES_MAX {
            let all: Vec<NotedChange> = next.into_keys().chain(new).collect();
            (next, new) = (Numbered::new(), general(&all));
        }
        notes.last += 1;
        let number = notes.last;
        next.extend(new.into_iter().map(|change| (change, number)));
        self.write(&next)?;
        notes.notes = next;
        Ok(())
    }

    /// Makes a note of rows of this time, if indexes would not read them again after a crash.
    ///
    /// # Errors
    /// The system refuses.
    pub fn note_rows(&self, oldest: Timestamp) -> io::Result<()> {
        let floor = self.floor.load(Ordering::SeqCst);
        if oldest.0 >= floor {
            return Ok(());
        }
        let mut notes = self.notes.lock();
        let noted = notes.late();
        let from = match noted.filter(|noted| *noted <= oldest.0) {
            Some(noted) => {
                notes.repeat(&NotedChange::Late(noted));
                noted
            }
            None => {
                // As far before the row again as this is late, so that the notes are few.
                let late = if floor == u64::MAX { 0 } else { floor - oldest.0 };
                let from = oldest.0.saturating_sub(late.max(MARGIN_US));
                let mut next = notes.notes.clone();
                noted.map(|noted| next.remove(&NotedChange::Late(noted)));
                notes.last += 1;
                next.insert(NotedChange::Late(from), notes.last);
                self.write(&next)?;
                notes.notes = next;
                from
            }
        };
        self.floor.fetch_min(from, Ordering::SeqCst);
        Ok(())
    }

    /// The indexes are open, and read rows of this time and later again after a crash.
    pub fn open_rows(&self, from: Timestamp) {
        // Rows that came before made a note, and set the time.
        let _ = self.floor.compare_exchange(u64::MAX, from.0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Begins to write the indexes, which will be complete up to this time: from now on earlier rows are
    /// noted. Returns the notes so far.
    pub fn begin_flush(&self, until: Timestamp) -> Numbered {
        let notes = self.notes.lock();
        self.floor.store(until.0, Ordering::SeqCst);
        notes.notes.clone()
    }

    /// Forgets notes whose changes all indexes have on the disk, unless they were made again meanwhile.
    pub fn forget(&self, done: &Numbered) {
        let mut notes = self.notes.lock();
        let mut left = notes.notes.clone();
        left.retain(|note, number| done.get(note) != Some(number));
        if left.len() < notes.notes.len() && self.write(&left).is_ok() {
            notes.notes = left;
        }
    }

    fn write(&self, notes: &Numbered) -> io::Result<()> {
        let notes: Vec<&NotedChange> = notes.keys().collect();
        let bytes = serde_json::to_vec(&notes).expect("names and numbers always have a JSON form");
        if let Some(directory) = self.path.parent() {
            RealDisk.create_directory(directory)?;
        }
        replace_file(&RealDisk, &self.path, &bytes)
    }
}

/// Few notes that include all of these.
fn general(all: &[NotedChange]) -> Vec<NotedChange> {
    let mut general = Vec::new();
    if all.iter().any(|note| matches!(note, NotedChange::Group { .. } | NotedChange::Type(_))) {
        general.push(NotedChange::Type(None));
    }
    if all.iter().any(|note| matches!(note, NotedChange::Bucket(..))) {
        general.push(NotedChange::of_bucket(BucketId::ROOT));
    }
    let late = all.iter().filter(|note| matches!(note, NotedChange::Late(_)));
    general.extend(late.min().cloned());
    general
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shown(notes: &ChangeNotes) -> String {
        let shown: Vec<String> = notes.all().iter().map(|note| format!("{note:?}")).collect();
        shown.join(" ")
    }

    #[test]
    fn rows_are_noted_once_until_the_indexes_are_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("indexes/notes");
        let notes = ChangeNotes::open(path.clone());
        let minutes = |count: u64| Timestamp(count * MARGIN_US);
        notes.begin_flush(minutes(100));
        notes.note_rows(minutes(100)).expect("noted");
        assert_eq!(shown(&notes), "", "a row that is read again anyway");
        notes.note_rows(minutes(99)).expect("noted");
        let late = format!("Late({})", minutes(98).0);
        assert_eq!((shown(&notes), shown(&ChangeNotes::open(path.clone()))), (late.clone(), late.clone()));
        let done = notes.begin_flush(minutes(110));
        notes.note_rows(minutes(99)).expect("noted");
        notes.forget(&done);
        assert_eq!(shown(&notes), late, "a row that came while the indexes were written");
        let done = notes.begin_flush(minutes(110));
        notes.forget(&done);
        assert_eq!((shown(&notes), shown(&ChangeNotes::open(path.clone()))), (String::new(), String::new()));
        notes.note_rows(minutes(50)).expect("noted");
        assert_eq!(shown(&notes), "Late(0)", "as late again");
    }

    #[test]
    fn many_notes_become_one_for_everything() {
        let directory = tempfile::tempdir().expect("a directory");
        let notes = ChangeNotes::open(directory.path().join("notes"));
        let bucket = |bits| NotedChange::of_bucket(BucketId::new(20, bits));
        notes.note((0..NOTES_MAX as u64).map(bucket)).expect("noted");
        assert_eq!(notes.all().len(), NOTES_MAX);
        notes.note([NotedChange::Group { document_type: None, group: "gann".to_owned() }]).expect("noted");
        assert_eq!(shown(&notes), "Type(None) Bucket(0, 0)");
        std::fs::write(directory.path().join("notes"), "{").expect("written");
        assert_eq!(shown(&ChangeNotes::open(directory.path().join("notes"))), "Type(None)");
        std::fs::create_dir(directory.path().join("unreadable")).expect("made");
        assert_eq!(shown(&ChangeNotes::open(directory.path().join("unreadable"))), "Type(None)");
    }

    /// Notes of an earlier version that cannot be read would count as notes of everything.
    #[test]
    fn notes_are_written_as_ever() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notes");
        let kept = concat!(
            r#"[{"Group":{"document_type":"mail","group":"gann"}},{"Group":{"document_type":null,"group":"n7"}},"#,
            r#"{"Type":"mail"},{"Type":null},{"Bucket":[20,5]},{"Late":9}]"#
        );
        std::fs::write(&path, kept).expect("written");
        let group = |document_type: Option<&str>, group: &str| NotedChange::Group {
            document_type: document_type.map(str::to_owned),
            group: group.to_owned(),
        };
        let read: BTreeSet<NotedChange> = ChangeNotes::open(path).all().into_iter().collect();
        let expected = [
            group(Some("mail"), "gann"),
            group(None, "n7"),
            NotedChange::Type(Some("mail".to_owned())),
            NotedChange::Type(None),
            NotedChange::Bucket(20, 5),
            NotedChange::Late(9),
        ];
        assert_eq!(serde_json::to_string(&expected).expect("JSON"), kept);
        assert_eq!(read, BTreeSet::from(expected));
    }
}
