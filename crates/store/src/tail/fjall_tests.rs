use super::*;
use crate::tail::keyspace_files::directories_of;
use crate::tail::{KeyValue, LogEntry};

fn row(number: u64, length: usize) -> KeyValue {
    (format!("{number:020}").into_bytes(), vec![number as u8; length])
}

fn append_as(tail: &dyn TailRows, rows: Vec<KeyValue>, durability: RowDurability) -> Result<(), AppendError> {
    let rows = rows
        .into_iter()
        .map(|(key, value)| (RowBytes::from(key.as_slice()), RowBytes::from(value.as_slice())));
    tail.append(rows.collect(), durability)
}

fn append(tail: &dyn TailRows, rows: Vec<KeyValue>) -> Result<(), AppendError> {
    append_as(tail, rows, RowDurability::Synced)
}

fn rows(tail: &dyn TailRows) -> Vec<KeyValue> {
    let mut rows = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    };
    tail.snapshot().range(&[], None, &mut visit).expect("the rows can be read");
    rows
}

/// A generation in a directory of a store.
fn generation() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().expect("a directory");
    let directory = root.path().join("tail/1");
    (root, directory)
}

fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for inside in directories_of(directory).expect("listed") {
        for entry in std::fs::read_dir(inside).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_file() && path.file_name().is_some_and(|name| name != LOG_NAME) {
                files.push((path.clone(), std::fs::read(path).expect("read")));
            }
        }
    }
    files.sort();
    files
}

/// The log is written by fjall and read by `journal` as well: another version of fjall that writes it
/// otherwise fails here.
#[test]
fn the_embedded_store_writes_logs_as_they_are_read_here() {
    let (_root, directory) = generation();
    let log = TailLogFile::of(&directory);
    let tail = FjallTails.create(&directory).expect("made");
    let mut ends = vec![log.check().expect("whole").0.end];
    assert!(ends[0].is_linked && !ends[0].has_rows && ends[0].bytes > 0, "it begins with its salt");
    for number in 0..5 {
        append(&*tail, vec![row(number, 10), row(100 + number, 9000)]).expect("appended");
        tail.append_marks(vec![(2 * number, vec![1; 20]), (2 * number + 1, vec![1; 20])]).expect("appended");
        ends.push(log.check().expect("whole").0.end);
    }
    assert!(ends.is_sorted_by(|before, after| before.bytes < after.bytes && before.salt == after.salt));
    let (mut found, mut marks) = (Vec::new(), 0);
    for entry in log.read().expect("whole").entries() {
        match entry.expect("the store writes nothing else") {
            LogEntry::Row { key, value } => found.push((key.to_vec(), value.to_vec())),
            LogEntry::Mark(mark) => marks += usize::from(mark == [1; 20]),
        }
    }
    found.sort();
    assert_eq!((found, marks), (rows(&*tail), 10));
    let bytes = std::fs::read(directory.join(LOG_NAME)).expect("read");
    let end = ends.last().expect("there are some").bytes as usize;
    assert_eq!(&bytes[end - 4..end], b"FJL\x03", "the log's magic");
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    drop(tail);
    let closed = log.check().expect("whole").0.end;
    assert!(closed.bytes > end as u64 && !closed.has_rows, "a link closes it");
    let tail = FjallTails.open(&directory).expect("opened");
    assert_eq!((rows(&*tail).len(), tail.marks().expect("read").len()), (10, 10));
    drop(tail);
    assert_eq!(log.check().expect("whole").0.end.bytes, closed.bytes, "closing twice writes one link");
}

#[test]
fn files_beside_a_log_that_are_damaged_are_made_again() {
    let (_root, directory) = generation();
    let tail = FjallTails.create(&directory).expect("made");
    append(&*tail, vec![row(1, 10)]).expect("appended");
    tail.append_marks(vec![(7, vec![1; 20])]).expect("appended");
    drop(tail);
    // The next start takes away what was of use only while the files were made.
    drop(FjallTails.open(&directory).expect("opened"));
    let made = files(&directory);
    for (path, bytes) in &made {
        let mut flipped = bytes.clone();
        if let Some(byte) = flipped.last_mut() {
            *byte ^= 1;
        }
        for damage in [None, Some(Vec::new()), Some(vec![0; bytes.len()]), Some(flipped)] {
            match &damage {
                None => std::fs::remove_file(path).expect("removed"),
                Some(bytes) => std::fs::write(path, bytes).expect("written"),
            }
            let tail = FjallTails.open(&directory).expect("opened");
            let damage = damage.as_ref().map(Vec::len);
            assert_eq!(rows(&*tail), [row(1, 10)], "{} {damage:?}", path.display());
            assert_eq!(tail.marks().expect("read").len(), 1, "{} {damage:?}", path.display());
        }
    }
}

/// A log that lost all of its bytes looks like one that never had any.
#[test]
fn a_log_that_was_emptied_is_damaged() {
    for left in [0, 20] {
        let (_root, directory) = generation();
        let tail = FjallTails.create(&directory).expect("made");
        append(&*tail, vec![row(1, 10)]).expect("appended");
        drop(tail);
        let log = File::options().write(true).open(directory.join(LOG_NAME)).expect("opened");
        log.set_len(left).expect("cut");
        // Nothing is changed by the attempt.
        for _ in 0..2 {
            assert!(matches!(FjallTails.check(&directory), Err(Error::Corrupt { .. })), "{left}");
            assert!(matches!(FjallTails.open(&directory), Err(Error::Corrupt { .. })), "{left}");
        }
        let cut = FjallTails::repair(&directory).expect("repaired").expect("it was damaged");
        assert!(cut.end == 0 && cut.copy.is_some(), "{cut:?}");
        for _ in 0..2 {
            assert!(rows(&*FjallTails.open(&directory).expect("opened")).is_empty(), "{left}");
        }
    }
}

#[test]
fn a_crash_while_the_files_beside_a_log_are_made_again_is_made_good() {
    for left in ["version", "keyspaces", "lock"] {
        let (_root, directory) = generation();
        let tail = FjallTails.create(&directory).expect("made");
        append(&*tail, vec![row(1, 10)]).expect("appended");
        drop(tail);
        // As far as it had come: all gone but this.
        for name in ["version", "keyspaces", "lock"].iter().filter(|name| **name != left) {
            let path = directory.join(name);
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
                .expect("removed");
        }
        if left == "version" {
            // The version file is the first to go and the last to come.
            std::fs::remove_file(directory.join(left)).expect("removed");
        }
        let tail = FjallTails.open(&directory).expect("opened");
        assert_eq!(rows(&*tail), [row(1, 10)], "{left}");
    }
}

#[test]
fn a_batch_that_was_refused_for_space_is_gone_at_the_next_start() {
    // What is in the log of it when the system says that there is no space: nothing, a part, all.
    for written in [0, 60, 10_000, usize::MAX] {
        let (_root, directory) = generation();
        let tail = open_database(&directory, LogEnd::default()).expect("made");
        append(&tail, vec![row(1, 10)]).expect("appended");
        let log_path = directory.join(LOG_NAME);
        let before = std::fs::read(&log_path).expect("read");
        let end = tail.log().end;
        append(&tail, vec![row(2, 20_000)]).expect("appended");
        let after = tail.log().end;
        *tail.log() = WrittenLog { end, synced: end.bytes };
        let file = File::options().write(true).open(&log_path).expect("opened");
        let kept = written.min((after.bytes - end.bytes) as usize);
        file.write_all_at(&before[end.bytes as usize + kept..], end.bytes + kept as u64).expect("written");
        let full = fjall::Error::Io(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(tail.fail(&end, &full), AppendError::Full));
        // The embedded store writes out what it still has when it is closed.
        file.write_all_at(&std::fs::read(&log_path).map(|_| vec![9; 30]).expect("read"), end.bytes + 40)
            .expect("written");
        drop(tail);
        for _ in 0..2 {
            let tail = FjallTails.open(&directory).expect("opened");
            assert_eq!(rows(&*tail), [row(1, 10)], "{written}");
        }
    }
}

/// An earlier version knows rows and marks, and writes no links.
#[test]
fn an_earlier_version_opens_a_generation_and_writes_on() {
    let (_root, directory) = generation();
    let tail = FjallTails.create(&directory).expect("made");
    append(&*tail, vec![row(1, 3000)]).expect("appended");
    drop(tail);
    for number in 2..4 {
        let database = Database::builder(&directory).worker_threads(1).open().expect("opened");
        let rows_of = database.keyspace(ROWS, KeyspaceCreateOptions::default).expect("opened");
        database.keyspace(MARKS, KeyspaceCreateOptions::default).expect("opened");
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        let (key, value) = row(number * 10, 3000);
        batch.insert(&rows_of, key, value);
        batch.commit().expect("committed");
        drop((rows_of, database));
        let tail = FjallTails.open(&directory).expect("opened");
        append(&*tail, vec![row(number * 10 + 1, 3000)]).expect("appended");
        drop(tail);
    }
    let tail = FjallTails.open(&directory).expect("opened");
    assert_eq!(rows(&*tail), [1, 20, 21, 30, 31].map(|number| row(number, 3000)));
}

/// A generation as an earlier version makes it.
#[test]
fn a_generation_of_an_earlier_version_goes_on() {
    let (_root, directory) = generation();
    let database = Database::builder(&directory).worker_threads(1).open().expect("made");
    let [rows_of, _marks] =
        [ROWS, MARKS].map(|name| database.keyspace(name, KeyspaceCreateOptions::default).expect("made"));
    for number in 1..3 {
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        let (key, value) = row(number, 3000);
        batch.insert(&rows_of, key, value);
        batch.commit().expect("committed");
    }
    drop((rows_of, _marks, database));
    for number in 3..6 {
        let tail = FjallTails.open(&directory).expect("opened");
        assert_eq!(rows(&*tail).len() as u64, number - 1);
        append(&*tail, vec![row(number, 3000)]).expect("appended");
    }
    let (content, cut) = TailLogFile::of(&directory).check().expect("whole");
    assert!(content.end.is_linked && cut.is_none());
}

/// Rows that are not synced yet say so in the log, and the first sync covers them.
#[test]
fn a_log_says_how_much_of_it_was_synced() {
    let (_root, directory) = generation();
    let log = TailLogFile::of(&directory);
    let tail = FjallTails.create(&directory).expect("made");
    append(&*tail, vec![row(7, 3000)]).expect("appended");
    let synced = log.check().expect("whole").0.end.bytes;
    for number in 1..4 {
        append_as(&*tail, vec![row(number, 3000)], RowDurability::Written).expect("appended");
    }
    let written = log.check().expect("the system has them").0.end.bytes;
    assert!(written > synced + 9000);
    // A hole in what was not synced, in what was, and in what is by now.
    let hole = |at: u64| {
        let copy = tempfile::tempdir().expect("a directory");
        let mut bytes = std::fs::read(directory.join(LOG_NAME)).expect("read");
        bytes[at as usize..at as usize + 1024].fill(0);
        std::fs::write(copy.path().join(LOG_NAME), bytes).expect("written");
        TailLogFile::of(copy.path()).check().map(|(content, _)| content.end.bytes)
    };
    let first = hole(synced + 1000).expect("it is torn");
    assert_eq!(first, synced);
    assert!(hole(written - 2000).expect("it is torn") > synced);
    assert!(hole(1000).is_err(), "it was synced");
    tail.sync().expect("synced");
    append(&*tail, vec![row(4, 3000)]).expect("appended");
    assert!(hole(synced + 1000).is_err(), "it was synced before the last row was written");
    drop(tail);
    let tail = FjallTails.open(&directory).expect("it opens");
    assert_eq!(rows(&*tail).len(), 5);
}

/// Bytes of the log that are allotted.
fn allotted(directory: &Path) -> u64 {
    let metadata = std::fs::metadata(directory.join(LOG_NAME)).expect("the log is there");
    metadata.blocks() * 512
}

#[test]
fn a_log_is_laid_out_until_it_is_wanted() {
    let (_root, directory) = generation();
    let tail = FjallTails.create(&directory).expect("made");
    let before = allotted(&directory);
    FjallTails.lay_out(&directory, 4 * FILLED_AT_ONCE, &|| true);
    assert_eq!(allotted(&directory), before, "a full generation waits for it");
    let asked = std::cell::Cell::new(0);
    FjallTails.lay_out(&directory, 4 * FILLED_AT_ONCE, &|| asked.replace(asked.get() + 1) >= 2);
    let half = allotted(&directory);
    assert!(half > before && half < 3 * FILLED_AT_ONCE, "two pieces of four: {half}");
    FjallTails.lay_out(&directory, 4 * FILLED_AT_ONCE, &|| false);
    assert!(allotted(&directory) >= 4 * FILLED_AT_ONCE);
    // The rows are where they belong, and no zeros before them.
    append(&*tail, vec![row(1, 10)]).expect("appended");
    drop(tail);
    assert_eq!(rows(&*FjallTails.open(&directory).expect("opened")), [row(1, 10)]);
}

/// After a sync that failed, the system may take bytes for written that are not on the disk.
#[test]
fn what_may_not_be_on_the_disk_is_written_again() {
    let (root, directory) = generation();
    let tail = FjallTails.create(&directory).expect("made");
    append(&*tail, vec![row(1, 100)]).expect("synced");
    // A process that was killed leaves this.
    let copy = root.path().join("tail/2");
    copy_directory(&directory, &copy).expect("copied");
    let (path, log) = (copy.join(LOG_NAME), TailLogFile::of(&copy));
    let before = std::fs::read(&path).expect("read");
    let file = File::options().write(true).open(&path).expect("opened");
    file.set_modified(std::time::UNIX_EPOCH).expect("set");
    let (content, _) = log.check().expect("it is whole");
    assert!(0 < content.synced && content.synced < content.end.bytes);
    log.sync(&content).expect("synced");
    let written = file.metadata().and_then(|metadata| metadata.modified()).expect("known");
    assert!(written > std::time::UNIX_EPOCH);
    assert!(std::fs::read(&path).expect("read") == before, "the bytes stay as they are");
}
