//! A loss of power leaves the last write in any state, and nothing else: the store starts with all
//! acknowledged writes. Damage in acknowledged writes is reported, and repaired by `repair_tail`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_store::{
    DocumentWrite, Error, Store, StoreChange, StoreOptions, StoreVisit, VisitedVersion, WriteDurability,
    WriterId,
};

use crate::common::{TestLayout, document, id, number, open, options, put};

/// Step between mutated sectors of each size; 1 tries all of them.
const STEP: &str = "MILLRACE_SECTOR_STEP";

/// Rows whose values have no blank sectors.
fn text(seed: i64) -> String {
    let mut state = seed as u64 + 1;
    let mut letter = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..18_000).map(|index| if index % 9 == 8 { ' ' } else { letter() }).collect()
}

struct CrashedStore {
    directory: tempfile::TempDir,
    /// The log, and where its last three batches begin and the last one ends.
    log: PathBuf,
    ends: Vec<u64>,
}

/// A directory as a kill leaves it, right after the last of some writes.
fn crash() -> CrashedStore {
    let original = tempfile::tempdir().expect("a directory");
    let store = open(options(original.path()));
    put(&store, "id:n:mail:g=ann:sealed", "in a segment", 100);
    store.seal().expect("sealed");
    let mut ends = Vec::new();
    for number in 0..4 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), &text(number), number);
        ends.push(written(&newest_log(original.path())));
    }
    let directory = tempfile::tempdir().expect("a directory");
    copy(original.path(), directory.path());
    let log = newest_log(directory.path());
    CrashedStore { directory, log, ends }
}

fn newest_log(directory: &Path) -> PathBuf {
    let generations = std::fs::read_dir(directory.join("tail")).expect("listed");
    let logs = generations.map(|entry| entry.expect("an entry").path().join("0.jnl"));
    logs.max_by_key(|log| written(log)).expect("there is a generation")
}

/// Bytes of a log up to its last one that is not zero.
fn written(log: &Path) -> u64 {
    let bytes = std::fs::read(log).expect("read");
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

/// Copies a directory, the blank ends of logs as holes.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "jnl") {
            let bytes = std::fs::read(&path).expect("read");
            std::fs::write(&target, &bytes[..written(&path) as usize]).expect("written");
            std::fs::File::options()
                .write(true)
                .open(&target)
                .and_then(|file| file.set_len(1 << 20))
                .expect("made long");
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

fn read_all(directory: &Path) -> Result<BTreeMap<String, i64>, Error> {
    let store = Store::open(options(directory), Arc::new(TestLayout))?;
    let page = store.visit(&StoreVisit { wanted: 1000, ..StoreVisit::all(&["mail"]) })?;
    let documents = page.visited.iter().filter_map(|visited| match visited {
        VisitedVersion::Document(document, _) => Some((document.id.as_str().to_owned(), number(document))),
        VisitedVersion::Removed(..) => None,
    });
    Ok(documents.collect())
}

/// Expected contents with the first `count` rows of the tail.
fn first(count: i64) -> BTreeMap<String, i64> {
    let rows = (0..count).map(|number| (format!("id:n:mail:g=ann:{number}"), number));
    rows.chain([("id:n:mail:g=ann:sealed".to_owned(), 100)]).collect()
}

#[derive(Debug, Clone, Copy)]
enum SectorMutation {
    Blank,
    /// Content of the sector before it.
    Doubled,
    /// With the sector before it.
    Swapped,
    /// The file ends here.
    Cut,
}

impl SectorMutation {
    fn apply(self, bytes: &mut Vec<u8>, sector: usize, size: usize) {
        match self {
            SectorMutation::Blank => bytes[sector..sector + size].fill(0),
            SectorMutation::Doubled => bytes.copy_within(sector - size..sector, sector),
            SectorMutation::Swapped => {
                let (before, after) = bytes.split_at_mut(sector);
                before[sector - size..].swap_with_slice(&mut after[..size]);
            }
            SectorMutation::Cut => bytes.truncate(sector),
        }
    }
}

fn step() -> usize {
    std::env::var(STEP).ok().and_then(|step| step.parse().ok()).unwrap_or(11)
}

/// Mutates sectors that lie within a part of the log, and calls `judge` with what became of each.
fn mutate(
    crashed: &CrashedStore,
    from: u64,
    to: u64,
    judge: impl Fn(SectorMutation, &str, Result<BTreeMap<String, i64>, Error>),
) {
    let whole = std::fs::read(&crashed.log).expect("read");
    let relative = crashed.log.strip_prefix(crashed.directory.path()).expect("below");
    for size in [512, 4096] {
        // With one before it in the same part, for those that become as that is.
        let first = from.next_multiple_of(size as u64) as usize + size;
        let sectors = (first..to as usize - size).step_by(size);
        for (index, sector) in sectors.enumerate() {
            for mutation in
                [SectorMutation::Blank, SectorMutation::Doubled, SectorMutation::Swapped, SectorMutation::Cut]
            {
                if !(index * 4 + mutation as usize).is_multiple_of(step()) {
                    continue;
                }
                let directory = tempfile::tempdir().expect("a directory");
                copy(crashed.directory.path(), directory.path());
                let mut bytes = whole.clone();
                mutation.apply(&mut bytes, sector, size);
                std::fs::write(directory.path().join(relative), bytes).expect("written");
                let place = format!("{mutation:?} sector of {size} at {sector}");
                judge(mutation, &place, read_all(directory.path()));
            }
        }
    }
}

#[test]
fn an_unfinished_last_write_never_keeps_the_store_from_starting() {
    let crashed = crash();
    assert_eq!(read_all(crashed.directory.path()).expect("undamaged"), first(4));
    let crashed = crash();
    mutate(&crashed, crashed.ends[2], crashed.ends[3], |mutation, place, outcome| {
        match (mutation, outcome) {
            (SectorMutation::Blank | SectorMutation::Cut, outcome) => {
                assert_eq!(outcome.expect(place), first(3), "{place}: all that was acknowledged before");
            }
            // No disk does so to a write that it did not finish.
            (_, Err(Error::Corrupt { path, offset, .. })) => {
                assert!(path.ends_with("0.jnl") && offset == crashed.ends[2], "{place}");
            }
            (_, Ok(found)) => assert_eq!(found, first(4), "{place}: nothing was changed"),
            (_, Err(error)) => panic!("{place}: {error}"),
        }
    });
}

/// Writes a row that is acknowledged before its sync.
fn put_deferred(store: &Store, number: i64) {
    let id_text = format!("id:n:mail:g=ann:{number}");
    let change = StoreChange::Put(document(&id_text, &text(number), number));
    let (sender, done) = std::sync::mpsc::channel();
    let send = move |outcomes: Vec<Result<_, Error>>| sender.send(outcomes).expect("the test waits");
    let writes = vec![DocumentWrite { id: id(&id_text), change }];
    store.write_batch(writes, WriterId::default(), WriteDurability::Deferred, send).expect("it is taken on");
    let outcomes = done.recv_timeout(Duration::from_secs(120)).expect("it is answered");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// [`crash`] with rows that are not synced, the first of them after two that are.
fn crash_before_the_sync() -> CrashedStore {
    let original = tempfile::tempdir().expect("a directory");
    let never = Duration::from_secs(24 * 3600);
    let store = open(StoreOptions { deferred_sync: never, ..options(original.path()) });
    put(&store, "id:n:mail:g=ann:sealed", "in a segment", 100);
    store.seal().expect("sealed");
    let mut ends = Vec::new();
    for number in 0..2 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), &text(number), number);
        ends.push(written(&newest_log(original.path())));
    }
    for number in 2..5 {
        put_deferred(&store, number);
        ends.push(written(&newest_log(original.path())));
    }
    assert_eq!(store.status().deferred_rows, 3);
    let directory = tempfile::tempdir().expect("a directory");
    copy(original.path(), directory.path());
    let log = newest_log(directory.path());
    CrashedStore { directory, log, ends }
}

#[test]
fn a_loss_of_power_takes_only_writes_that_were_acknowledged_before_their_sync() {
    let crashed = crash_before_the_sync();
    assert_eq!(read_all(crashed.directory.path()).expect("a kill takes nothing"), first(5));
    let crashed = crash_before_the_sync();
    for part in 1..4 {
        mutate(&crashed, crashed.ends[part], crashed.ends[part + 1], |mutation, place, outcome| {
            if matches!(mutation, SectorMutation::Blank | SectorMutation::Cut) {
                let kept = outcome.expect(place);
                assert_eq!(kept, first(part as i64 + 1), "{place}: all before the lost sector");
            }
        });
    }
    // What was synced is not cut, though it lies before what was not.
    mutate(&crashed, crashed.ends[0], crashed.ends[1], |mutation, place, outcome| {
        if matches!(mutation, SectorMutation::Blank) {
            assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{place}: {outcome:?}");
        }
    });
}

#[test]
fn damage_of_acknowledged_writes_is_reported_with_its_place() {
    let crashed = crash();
    mutate(&crashed, crashed.ends[1], crashed.ends[2], |mutation, place, outcome| {
        match (mutation, outcome) {
            // A file that was cut has nothing that would say so.
            (SectorMutation::Cut, outcome) => assert_eq!(outcome.expect(place), first(2), "{place}"),
            (_, Err(error @ Error::Corrupt { .. })) => {
                let Error::Corrupt { path, offset, .. } = &error else { unreachable!("it was matched") };
                assert!(path.ends_with("0.jnl") && *offset == crashed.ends[1], "{place}: {error}");
                assert!(error.to_string().contains("millrace doctor"), "{place}: {error}");
            }
            (_, Ok(found)) => assert_eq!(found, first(4), "{place}: nothing was changed"),
            (_, Err(error)) => panic!("{place}: {error}"),
        }
    });
}

#[test]
fn a_store_that_was_closed_has_no_write_that_could_be_unfinished() {
    let original = tempfile::tempdir().expect("a directory");
    let store = open(options(original.path()));
    put(&store, "id:n:mail:g=ann:0", &text(0), 0);
    let end = written(&newest_log(original.path()));
    store.close();
    let log = newest_log(original.path());
    assert!(written(&log) > end);
    let mut bytes = std::fs::read(&log).expect("read");
    bytes[4096..4608].fill(0);
    std::fs::write(&log, bytes).expect("written");
    assert!(matches!(read_all(original.path()), Err(Error::Corrupt { .. })), "the write was acknowledged");
}

#[test]
fn a_damaged_log_is_repaired_and_what_is_cut_is_kept() {
    let crashed = crash();
    let directory = crashed.directory.path();
    assert_eq!(millrace_store::repair_tail(directory).expect("repaired"), [], "there is nothing to repair");
    let whole = std::fs::read(&crashed.log).expect("read");
    let mut bytes = whole.clone();
    bytes[crashed.ends[1] as usize + 600] ^= 1;
    std::fs::write(&crashed.log, bytes).expect("written");
    let report = millrace_store::check(directory).expect("checked");
    let [finding] = &report.findings[..] else { panic!("one finding, not {:?}", report.findings) };
    assert_eq!((finding.path.clone(), finding.offset), (crashed.log.clone(), Some(crashed.ends[1])));
    assert!(finding.cure.contains("--repair-tail"));
    let repairs = millrace_store::repair_tail(directory).expect("repaired");
    let [repair] = &repairs[..] else { panic!("one repair, not {repairs:?}") };
    assert_eq!((repair.end, repair.bytes), (crashed.ends[1], crashed.ends[3] - crashed.ends[1]));
    let kept = std::fs::read(&repair.copy).expect("read");
    assert_eq!(kept[700..], whole[crashed.ends[1] as usize + 700..crashed.ends[3] as usize]);
    assert_eq!(read_all(directory).expect("it starts"), first(2));
}

#[test]
fn the_rest_of_an_unfinished_write_is_reported_and_kept() {
    let crashed = crash();
    let directory = crashed.directory.path();
    let log = std::fs::File::options().write(true).open(&crashed.log).expect("opened");
    log.set_len(crashed.ends[3] - 1000).expect("cut");
    let report = millrace_store::check(directory).expect("checked");
    let [finding] = &report.findings[..] else { panic!("one finding, not {:?}", report.findings) };
    assert!(finding.cure.starts_with("nothing") && finding.offset == Some(crashed.ends[2]), "{finding:?}");
    assert_eq!(read_all(directory).expect("it starts"), first(3));
    let copies: Vec<_> = std::fs::read_dir(directory.join("torn")).expect("listed").collect();
    assert_eq!(copies.len(), 1);
    let report = millrace_store::check(directory).expect("checked");
    assert_eq!(report.findings, []);
}

/// The directory that the server's tests keep was written by an earlier version, whose logs have no links.
#[test]
fn a_directory_of_an_earlier_version_opens_and_goes_on() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/fixtures/format-1");
    let directory = tempfile::tempdir().expect("a directory");
    copy(&kept, directory.path());
    let report = millrace_store::check(directory.path()).expect("checked");
    assert_eq!(report.findings, []);
    let store = open(options(directory.path()));
    let before = (store.status().tail_rows, store.status().documents);
    assert!(before.0 > 0 && before.1 > before.0, "it has rows and segments: {before:?}");
    put(&store, "id:n:mail:g=ann:new", "text", 1);
    store.close();
    let store = open(options(directory.path()));
    assert_eq!((store.status().tail_rows, store.status().documents), (before.0 + 1, before.1 + 1));
    store.seal().expect("sealed");
    assert_eq!(crate::common::get(&store, "id:n:mail:g=ann:new"), Some(1));
}
