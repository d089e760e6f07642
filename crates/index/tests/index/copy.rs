//! A copy beside a map: random changes, flushes, merges and crashes; and files that are torn or flipped.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millrace_env::{Disk, DiskFault, FaultyDisk, PowerLossDisk};
use millrace_index::{
    BlockCache, Error, FlushMark, IndexChange, IndexCopy, IndexOptions, RecordDifference, SliceRange,
    check_copies,
};
use millrace_keys::KeyRange;
use proptest::prelude::*;

const DEFINITION: u64 = 7;

/// Time after which a test has failed.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

fn open_on(directory: &Path, disk: Arc<dyn Disk>) -> Result<IndexCopy, Error> {
    IndexCopy::open(IndexOptions {
        directory: directory.to_owned(),
        definition: DEFINITION,
        slice: SliceRange::default(),
        disk,
        cache: Arc::new(BlockCache::new(1 << 20)),
    })
}

/// A disk that waits for no sync: it keeps account of a directory that is none of these.
fn quick_disk() -> Arc<dyn Disk> {
    let other = Path::new("/of no test");
    Arc::new(PowerLossDisk::new(other, other))
}

fn open(directory: &Path) -> Result<IndexCopy, Error> {
    open_on(directory, quick_disk())
}

fn all() -> KeyRange {
    KeyRange { low: Vec::new(), high: None }
}

/// Keys are of one length, so that none is the beginning of another.
fn index_key(number: u8) -> Vec<u8> {
    vec![b'k', number]
}

fn document(number: u8) -> Vec<u8> {
    format!("document {number:03}").into_bytes()
}

fn change(of: u8, timestamp: u64, keys: &BTreeSet<u8>) -> IndexChange {
    let keys = keys.iter().map(|key| index_key(*key)).collect();
    IndexChange { document: document(of), timestamp, keys }
}

/// Entries as a set, read in pages of this size.
fn entries(copy: &IndexCopy, ranges: &[KeyRange], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut continuation) = (Vec::new(), None);
    loop {
        let page = copy.scan(ranges, continuation.as_deref(), limit).expect("the runs are sound");
        assert!(page.entries.len() <= limit);
        found.extend(page.entries.iter().map(|entry| (entry.key.to_vec(), entry.document.to_vec())));
        match page.continuation {
            Some(next) => continuation = Some(next),
            None => return found,
        }
    }
}

/// Documents with entries, read in pages of this size.
fn documents(copy: &IndexCopy, limit: usize) -> Vec<Vec<u8>> {
    let (mut found, mut from) = (Vec::new(), Vec::new());
    loop {
        let page = copy.documents(&from, limit).expect("the runs are sound");
        assert!(page.documents.len() <= limit);
        if let Some(last) = page.documents.last() {
            from = [&last.document[..], &[0]].concat();
        }
        let with_entries = page.documents.into_iter().filter(|found| !found.record.keys.is_empty());
        found.extend(with_entries.map(|found| found.document));
        if page.is_last {
            return found;
        }
    }
}

#[derive(Debug, Clone)]
enum CopyStep {
    Apply(u8, u64, BTreeSet<u8>),
    Replace(u8, u64, BTreeSet<u8>),
    Forget(u8),
    /// Documents of a first build, all with the same keys.
    Load(BTreeSet<u8>, u64, BTreeSet<u8>),
    /// Of these documents, until a time: a group was dropped.
    Remove(BTreeSet<u8>, u64),
    /// `true`: the first build is done.
    Flush(bool),
    /// Removals from before this time may be forgotten, as far as no version of then can come again.
    Merge(u64),
    Reopen,
}

impl CopyStep {
    /// Time of the version that it brings.
    fn timestamp(&self) -> Option<u64> {
        match self {
            CopyStep::Apply(_, timestamp, _)
            | CopyStep::Replace(_, timestamp, _)
            | CopyStep::Load(_, timestamp, _) => Some(*timestamp),
            CopyStep::Remove(_, until) => Some(*until),
            CopyStep::Forget(_) | CopyStep::Flush(_) | CopyStep::Merge(_) | CopyStep::Reopen => None,
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<CopyStep>> {
    let version = || (0..12_u8, 1..40_u64, prop::collection::btree_set(0..6_u8, 0..3));
    let apply = version().prop_map(|(of, timestamp, keys)| CopyStep::Apply(of, timestamp, keys));
    let replace = version().prop_map(|(of, timestamp, keys)| CopyStep::Replace(of, timestamp, keys));
    let documents = prop::collection::btree_set(0..12_u8, 1..12);
    let load = (documents, 1..40_u64, prop::collection::btree_set(0..6_u8, 0..3))
        .prop_map(|(documents, timestamp, keys)| CopyStep::Load(documents, timestamp, keys));
    let forget = (0..12_u8).prop_map(CopyStep::Forget);
    let group = prop::collection::btree_set(0..12_u8, 1..6);
    let remove = (group, 1..40_u64).prop_map(|(documents, until)| CopyStep::Remove(documents, until));
    let merge = prop_oneof![2 => Just(0), 1 => 1..40_u64].prop_map(CopyStep::Merge);
    prop::collection::vec(
        prop_oneof![12 => apply, 3 => replace, 3 => load, 2 => forget, 2 => remove, 3 => any::<bool>().prop_map(CopyStep::Flush), 2 => merge, 1 => Just(CopyStep::Reopen)],
        1..120,
    )
}

type Model = BTreeMap<u8, (u64, BTreeSet<u8>)>;

fn expected(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of = |(number, (_, keys)): (&u8, &(u64, BTreeSet<u8>))| {
        keys.iter().map(|key| (index_key(*key), document(*number))).collect::<Vec<_>>()
    };
    let mut entries: Vec<_> = model.iter().flat_map(of).collect();
    entries.sort();
    entries
}

/// Repeats a step that changes documents.
fn repeat(copy: &IndexCopy, step: &CopyStep) {
    let outcome = match step {
        CopyStep::Apply(of, timestamp, keys) => copy.apply(vec![change(*of, *timestamp, keys)]),
        CopyStep::Replace(of, timestamp, keys) => copy.replace(vec![change(*of, *timestamp, keys)]),
        CopyStep::Load(documents, timestamp, keys) => {
            copy.load(documents.iter().map(|of| change(*of, *timestamp, keys)).collect())
        }
        CopyStep::Forget(of) => copy.forget(&[document(*of)]),
        CopyStep::Remove(documents, until) => {
            let documents: Vec<_> = documents.iter().map(|number| document(*number)).collect();
            copy.remove(&documents, *until)
        }
        CopyStep::Flush(_) | CopyStep::Merge(_) | CopyStep::Reopen => Ok(0),
    };
    outcome.expect("it fits");
}

fn apply_to_model(model: &mut Model, of: u8, timestamp: u64, keys: &BTreeSet<u8>) {
    let known = model.entry(of).or_default();
    if known.0 < timestamp {
        *known = (timestamp, keys.clone());
    }
}

fn remove_from_model(model: &mut Model, documents: &BTreeSet<u8>, until: u64) {
    for number in documents {
        if let Some(known) = model.get_mut(number)
            && known.0 <= until
            && !known.1.is_empty()
        {
            *known = (until, BTreeSet::new());
        }
    }
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(60))
}

proptest! {
    #![proptest_config(cases())]

    /// After a crash the copy is as at its last flush; what is applied again makes it whole.
    #[test]
    fn a_copy_is_what_a_map_says(steps in steps(), page in 1..5_usize) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut copy = open(directory.path()).expect("a copy");
        let (mut model, mut since): (_, Vec<CopyStep>) = (Model::new(), Vec::new());
        // No more versions from before this time come.
        let mut forgotten = 0;
        for step in steps {
            if step.timestamp().is_some_and(|timestamp| timestamp < forgotten) {
                continue;
            }
            repeat(&copy, &step);
            since.push(step.clone());
            match step {
                CopyStep::Apply(of, timestamp, keys) => apply_to_model(&mut model, of, timestamp, &keys),
                CopyStep::Replace(of, timestamp, keys) => drop(model.insert(of, (timestamp, keys))),
                CopyStep::Load(documents, timestamp, keys) => {
                    model.extend(documents.into_iter().map(|of| (of, (timestamp, keys.clone()))));
                }
                CopyStep::Forget(of) => drop(model.remove(&of)),
                CopyStep::Flush(built) => {
                    copy.flush(FlushMark { complete_until: 1, built }).expect("the disk takes it");
                    since.clear();
                }
                CopyStep::Remove(documents, until) => remove_from_model(&mut model, &documents, until),
                CopyStep::Merge(before) => {
                    // What is applied again after a crash is not forgotten.
                    let repeated = since.iter().filter_map(CopyStep::timestamp).min().unwrap_or(u64::MAX);
                    forgotten = forgotten.max(before.min(repeated));
                    copy.merge(before.min(repeated)).expect("the runs are sound");
                }
                CopyStep::Reopen => {
                    drop(copy);
                    copy = open(directory.path()).expect("a copy");
                    since.iter().for_each(|step| repeat(&copy, step));
                }
            }
            prop_assert_eq!(entries(&copy, &[all()], page), expected(&model));
            let with_entries = model.iter().filter(|(_, (_, keys))| !keys.is_empty());
            let with_entries: Vec<Vec<u8>> = with_entries.map(|(of, _)| document(*of)).collect();
            prop_assert_eq!(documents(&copy, page), with_entries);
            let range = KeyRange { low: index_key(2), high: Some(index_key(4)) };
            let within: Vec<_> = expected(&model).into_iter().filter(|(key, _)| range.contains(key)).collect();
            prop_assert_eq!(copy.count(std::slice::from_ref(&range), u64::MAX, &|_| true).expect("sound"), within.len() as u64);
            let even = |document: &[u8]| document.last().is_some_and(|digit| digit % 2 == 0);
            let of_even = within.iter().filter(|(_, document)| even(document)).count() as u64;
            prop_assert_eq!(copy.count(std::slice::from_ref(&range), u64::MAX, &even).expect("sound"), of_even);
            prop_assert_eq!(entries(&copy, &[range], page), within);
        }
        copy.check().expect("every byte is as it was written");
    }
}

/// Changes wait for no pass over the runs, which may wait for the disk, and a pass is of one instant.
#[test]
fn changes_are_taken_in_while_runs_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = Arc::new(open(directory.path()).expect("a copy"));
    let keys = BTreeSet::from([1]);
    copy.apply(vec![change(1, 1, &keys), change(2, 1, &keys)]).expect("it fits");
    copy.flush(FlushMark { complete_until: 1, built: true }).expect("the disk takes it");
    let seen = Cell::new(0);
    let count = copy.count(&[all()], 10, &|_| {
        if seen.replace(seen.get() + 1) == 0 {
            let (changed, changes) = mpsc::channel();
            let (changing, keys) = (Arc::clone(&copy), keys.clone());
            std::thread::spawn(move || changed.send(changing.apply(vec![change(3, 1, &keys)])));
            let applied =
                changes.recv_timeout(CHANGE_TIMEOUT).expect("the change does not wait for the pass");
            assert_eq!(applied.expect("it fits"), 1);
        }
        true
    });
    assert_eq!(count.expect("the runs are sound"), 2);
    assert_eq!(entries(&copy, &[all()], 10).len(), 3);
}

/// Fills a copy with runs that are flushed, and returns what is in it.
fn filled(copy: &IndexCopy) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut model = Model::new();
    for round in 0..3_u64 {
        for of in 0..200 {
            let keys = BTreeSet::from([(u64::from(of) * (round + 1) % 7) as u8, of % 5]);
            copy.apply(vec![change(of, round + 1, &keys)]).expect("it fits");
            apply_to_model(&mut model, of, round + 1, &keys);
        }
        copy.flush(FlushMark { complete_until: round + 1, built: round == 2 }).expect("the disk takes it");
    }
    expected(&model)
}

/// A copy of which every byte is flipped in turn, and which is cut everywhere: what it returns is either
/// right or an error that calls for a rebuild.
#[test]
fn damage_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = filled(&open(directory.path()).expect("a copy"));
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 4, "three runs and a manifest");
    let (mut refused, mut other) = (0, 0);
    let mut look = |what: &str| match open(directory.path()).and_then(|copy| {
        copy.check()?;
        Ok(entries(&copy, &[all()], 1000))
    }) {
        Ok(found) => {
            other += 1;
            assert_eq!(found, whole, "{what}");
        }
        Err(error) => {
            refused += 1;
            assert!(error.is_damage(), "{what}: {error}");
        }
    };
    for path in files {
        let content = std::fs::read(&path).expect("the file");
        for at in (0..content.len()).step_by(97) {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).expect("the disk takes it");
            look(&format!("{} with a bit of byte {at} flipped", path.display()));
            std::fs::write(&path, &content[..at]).expect("the disk takes it");
            look(&format!("{} cut at {at}", path.display()));
        }
        std::fs::write(&path, &content).expect("the disk takes it");
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(other, 0, "every byte is checked");
}

/// A directory whose copies are checked where they lie: each byte, without a change of a file.
#[test]
fn a_doctor_finds_damage_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let below = directory.path().join("placed").join("mail.due");
    filled(&open(&below).expect("a copy"));
    std::fs::write(directory.path().join("notes"), "no copy").expect("the disk takes it");
    std::fs::write(below.join("00000099.run"), "left over").expect("the disk takes it");
    let disk = quick_disk();
    let check = || check_copies(&*disk, directory.path());
    let sound = check();
    assert_eq!(sound.len(), 1, "{sound:?}");
    assert_eq!((&sound[0].directory, sound[0].runs), (&below, 3));
    assert!(sound[0].faults.is_empty() && sound[0].bytes > 0, "{sound:?}");
    assert!(below.join("00000099.run").exists(), "nothing is removed");
    let run = std::fs::read_dir(&below).expect("the directory").map(|entry| entry.expect("an entry").path());
    let run = run.filter(|path| path.extension().is_some_and(|end| end == "run"));
    let run = run.filter(|path| !path.ends_with("00000099.run")).max().expect("runs");
    let content = std::fs::read(&run).expect("the file");
    for at in (0..content.len()).step_by(211) {
        let mut flipped = content.clone();
        flipped[at] ^= 4;
        std::fs::write(&run, &flipped).expect("the disk takes it");
        let found = check();
        assert!(found[0].faults.iter().any(Error::is_damage), "byte {at}: {found:?}");
    }
    std::fs::remove_file(&run).expect("the disk takes it");
    assert!(check()[0].faults[0].to_string().contains("it is missing"));
}

#[test]
fn a_run_that_cannot_be_written_leaves_no_file() {
    for (fault, reason) in [
        (DiskFault::FailSync, "the sync failed"),
        (DiskFault::ShortWrite, "the write stopped halfway"),
        (DiskFault::Full { remaining: 10 }, "has room for 10 bytes"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = FaultyDisk::new(quick_disk());
        let copy = open_on(directory.path(), Arc::new(disk.clone())).expect("a copy");
        let runs = || {
            let paths = disk.list(directory.path()).expect("listed");
            paths.iter().filter(|path| path.extension().is_some_and(|end| end == "run")).count()
        };
        let put = |number: u8| {
            let changed = change(number, u64::from(number), &BTreeSet::from([number]));
            copy.apply(vec![changed]).expect("it fits");
        };
        let flush = || copy.flush(FlushMark { complete_until: 1, built: true });
        put(1);
        disk.inject(fault.clone());
        let refused = flush().expect_err("the disk refuses").to_string();
        assert!(refused.contains(reason) && runs() == 0, "{refused}: {} files", runs());
        disk.heal();
        flush().expect("what was in memory is written");
        for number in 2..=4 {
            put(number);
            flush().expect("the disk takes it");
        }
        disk.inject(fault);
        let refused = copy.merge(0).expect_err("the disk refuses").to_string();
        assert!(refused.contains(reason) && runs() == 4, "{refused}: {} files", runs());
        disk.heal();
        assert!(copy.merge(0).expect("the runs are merged") && runs() == 1);
        assert_eq!(entries(&copy, &[all()], 10).len(), 4);
    }
}

/// A loss of power at any time: the copy opens, has everything from before its time, and nothing wrong.
#[test]
fn a_loss_of_power_leaves_the_copy_of_a_flush() {
    for power in 0..24_u64 {
        let [directory, kept, after] = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
        let disk = Arc::new(PowerLossDisk::new(directory.path(), kept.path()));
        let copy = open_on(&directory.path().join("copy"), disk.clone()).expect("a copy");
        let mut flushed = 0;
        for round in 1..=power {
            let keys = BTreeSet::from([(round % 6) as u8]);
            copy.apply(vec![change((round % 12) as u8, round, &keys)]).expect("it fits");
            if round % 3 == 0 {
                copy.flush(FlushMark { complete_until: round, built: false }).expect("the disk takes it");
                flushed = round;
            }
            copy.merge(0).expect("the runs are sound");
        }
        disk.lose_power(after.path()).expect("the state after it");
        let copy = open(&after.path().join("copy")).expect("the copy opens");
        assert_eq!(copy.status().complete_until, flushed);
        let mut model = Model::new();
        for round in 1..=power {
            let keys = BTreeSet::from([(round % 6) as u8]);
            if round > flushed {
                copy.apply(vec![change((round % 12) as u8, round, &keys)]).expect("it fits");
            }
            apply_to_model(&mut model, (round % 12) as u8, round, &keys);
        }
        assert_eq!(entries(&copy, &[all()], 1000), expected(&model), "power is lost after {power}");
    }
}

#[test]
fn a_copy_of_another_definition_is_made_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(&open(directory.path()).expect("a copy"));
    let options = IndexOptions {
        directory: directory.path().to_owned(),
        definition: DEFINITION + 1,
        slice: SliceRange::default(),
        disk: quick_disk(),
        cache: Arc::new(BlockCache::new(1 << 20)),
    };
    let copy = IndexCopy::open(options).expect("a copy");
    assert!(copy.scan(&[all()], None, 10).expect("sound").entries.is_empty());
    assert!(!copy.status().built);
}

#[test]
fn merges_forget_what_has_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = open(directory.path()).expect("a copy");
    for round in 1..=8_u64 {
        let keys = if round == 8 { BTreeSet::new() } else { BTreeSet::from([round as u8]) };
        copy.apply(vec![change(1, round, &keys)]).expect("it fits");
        copy.flush(FlushMark { complete_until: round, built: true }).expect("the disk takes it");
    }
    while copy.merge(100).expect("the runs are sound") {}
    let status = copy.status();
    assert_eq!((status.entries, status.runs < 4), (0, true), "{status:?}");
    assert!(copy.documents(&[], 10).expect("sound").documents.len() <= 1);
    assert_eq!(copy.count(&[all()], 10, &|_| true).expect("sound"), 0);
}

/// The directory of a discarded copy is another's: the first writes nothing there, and keeps what it has.
#[test]
fn a_discarded_copy_writes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (discarded, keys) = (open(directory.path()).expect("a copy"), BTreeSet::from([1]));
    discarded.apply(vec![change(1, 1, &keys)]).expect("it fits");
    discarded.load([change(2, 1, &keys)].into_iter().collect()).expect("it fits");
    discarded.discard();
    let files = || std::fs::read_dir(directory.path()).expect("the directory").count();
    let before = files();
    discarded.flush(FlushMark { complete_until: 9, built: true }).expect("nothing is written");
    assert!(!discarded.merge(0).expect("nothing is merged"));
    discarded.compact(0).expect("nothing is merged");
    assert_eq!(files(), before);
    assert_eq!(entries(&discarded, &[all()], 9).len(), 2);
    let status = open(directory.path()).expect("another copy").status();
    assert_eq!((status.runs, status.complete_until, status.built), (0, 0, false));
}

/// Estimates are off by less than a block at each end of a range, for each run; nothing is read for them.
#[test]
fn an_estimate_is_near_the_number() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = open(directory.path()).expect("a copy");
    let key = |number: u64| number.to_be_bytes().to_vec();
    let changes = |numbers: std::ops::Range<u64>, timestamp| -> Vec<IndexChange> {
        let of = |number| IndexChange { document: key(number), timestamp, keys: vec![key(number * 2)] };
        numbers.map(of).collect()
    };
    let check = |low: u64, high: Option<u64>, error: u64| {
        let ranges = [KeyRange { low: key(low), high: high.map(key) }];
        let number = copy.count(&ranges, u64::MAX, &|_| true).expect("sound");
        let estimate = copy.estimate(&ranges, u64::MAX);
        assert!(estimate.abs_diff(number) <= error, "{low}..{high:?}: {estimate} for {number}");
        estimate
    };
    copy.apply(changes(0..1_000, 1)).expect("it fits");
    check(500, Some(700), 0);
    assert_eq!(copy.estimate(&[KeyRange { low: key(0), high: None }], 10), 10, "no more are counted");
    copy.load(changes(1_000..2_000, 1).into_iter().collect()).expect("it fits");
    check(1_500, Some(2_700), 0);
    copy.flush(FlushMark { complete_until: 1, built: true }).expect("the disk takes it");
    copy.apply(changes(2_000..40_000, 1)).expect("it fits");
    copy.flush(FlushMark { complete_until: 1, built: true }).expect("the disk takes it");
    check(0, None, 0);
    // A block of 16 KB has some 1,100 of these entries.
    for (low, high) in [(0, 1), (3_000, 3_001), (10_000, 60_000), (70_000, 79_999), (5_000, 9_000)] {
        check(low, Some(high), 2_400);
    }
    assert!(check(79_999, Some(90_000), 1_200) < check(30_000, Some(60_000), 2_400));
    assert_eq!(copy.estimate(&[], 10), 0);
    copy.compact(0).expect("the runs are sound");
    check(0, None, 0);
    check(20_000, Some(50_000), 1_200);
    // Entries that go are subtracted.
    copy.remove(&(0..39_000).map(key).collect::<Vec<_>>(), 9).expect("sound");
    check(0, None, 0);
}

#[test]
fn a_comparison_finds_each_difference() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = open(directory.path()).expect("a copy");
    let keys = |keys: &[u8]| keys.iter().copied().collect::<BTreeSet<u8>>();
    for of in 0..9 {
        copy.apply(vec![change(of, 10, &keys(&[of, 100]))]).expect("it fits");
        if of % 4 == 0 {
            copy.flush(FlushMark { complete_until: 1, built: true }).expect("the disk takes it");
        }
    }
    copy.apply(vec![change(5, 11, &keys(&[]))]).expect("it fits");
    let expected = |of: u8| -> Result<IndexChange, Error> {
        Ok(match of {
            1 => change(1, 10, &keys(&[1])),
            2 => change(2, 9, &keys(&[2, 100])),
            3 => change(3, 12, &keys(&[])),
            of => change(of, 10, &keys(&[of, 100])),
        })
    };
    let all = SliceRange::default();
    let compare = |slice: &SliceRange, numbers: &[u8], limit| {
        let documents = numbers.iter().map(|of| expected(*of));
        copy.compare(slice, documents, limit).expect("the runs are sound")
    };
    // Document 5 is removed, 7 is not to be there, and 9 is missing.
    let found = compare(&all, &[0, 1, 2, 3, 4, 6, 8, 9], 100);
    let numbers = |differences: &[RecordDifference]| -> Vec<Vec<u8>> {
        differences.iter().map(|difference| difference.document.clone()).collect()
    };
    assert_eq!(numbers(&found.differences), [1, 2, 3, 7, 9].map(document));
    assert_eq!((found.documents, found.different), (9, 5));
    assert_eq!(found.differences[1].expected.timestamp, 9);
    assert_eq!(found.differences[4].found.keys, Vec::<Vec<u8>>::new());
    let first = compare(&all, &[0, 1, 2, 3, 4, 6, 8, 9], 2);
    assert_eq!((first.different, numbers(&first.differences)), (5, [1, 2].map(document).to_vec()));
    assert_eq!(compare(&all, &[], 0).different, 8);
    let slice = SliceRange { low: document(4), high: Some(document(8)) };
    assert_eq!(numbers(&compare(&slice, &[4, 6], 9).differences), [document(7)]);
    assert_eq!(compare(&slice, &[4, 5, 6, 7], 9).different, 1, "5 was removed");
    let unread = [Err(Error::TooLong { length: 1, limit: 0 })];
    copy.compare(&slice, unread, 9).expect_err("a document cannot be read");
}

/// A block gets the places at which a search begins when it is searched for the second time.
#[test]
fn repeated_searches_find_what_the_first_one_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = open(directory.path()).expect("a copy");
    let key = |number: u64| number.to_be_bytes().to_vec();
    let of =
        |number| IndexChange { document: key(number), timestamp: number + 1, keys: vec![key(number * 2)] };
    copy.apply((0..5_000).map(of).collect()).expect("it fits");
    copy.flush(FlushMark { complete_until: 1, built: true }).expect("the disk takes it");
    for round in 0..3 {
        for number in (0..5_000).step_by(61) {
            let record = copy.document(&key(number)).expect("sound").expect("it is there");
            assert_eq!((record.timestamp, record.keys), (number + 1, vec![key(number * 2)]), "{round}");
            assert_eq!(copy.document(&[&key(number)[..], &[0]].concat()).expect("sound"), None);
            let ranges = [KeyRange { low: key(number * 2), high: Some(key(number * 2 + 3)) }];
            let page = copy.scan(&ranges, None, 10).expect("sound");
            let found: Vec<Vec<u8>> = page.entries.iter().map(|entry| entry.document.to_vec()).collect();
            let expected: Vec<Vec<u8>> = (number..(number + 2).min(5_000)).map(key).collect();
            assert_eq!(found, expected, "{round}");
        }
    }
}
