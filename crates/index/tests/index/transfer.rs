//! Copies that move by file: whole and in slices, beside merges, and across restarts.

mod common;
mod crashes;
mod damage;

use std::path::Path;
use std::time::Duration;

use millrace_env::RealDisk;
use millrace_index::{
    CopyImport, EXPORTS_MAX, Error, HeldExports, IndexCopy, PARCEL_BYTES, ParcelPosition, SliceRange,
};

use self::common::*;

#[test]
fn a_copy_goes_on_at_every_parcel() {
    let [from, done] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let (expected, header) = (entries(&copy), export.header());
    assert_eq!((header.complete_until, header.built, header.runs.len()), (30, true, 3));
    let positions: Vec<ParcelPosition> =
        std::iter::successors(header.first_position(), |position| header.position_after(*position)).collect();
    assert!(positions.len() > 12, "{positions:?}");
    for stop in 0..=positions.len() {
        let [to] = directories();
        let mut moved = 0;
        for part in [&positions[..stop], &positions[stop..]] {
            let mut import = begin(&export, to.path());
            assert_eq!(import.progress().received, moved, "nothing comes twice");
            for position in part {
                assert_eq!(import.next(), Some(*position));
                import.accept(&sent(&export, *position)).expect("the disk takes it");
            }
            moved += import.progress().moved;
        }
        assert_eq!(moved, header.bytes());
        assert_eq!(CopyImport::pending(&RealDisk, to.path()).expect("a plan").as_ref(), Some(header));
        let received = receive(&export, begin(&export, to.path())).expect("all is here");
        assert_eq!(entries(&received), expected);
        assert_eq!(received.status(), copy.status());
        assert_eq!(names(to.path()), ["00000000.run", "00000001.run", "00000002.run", "manifest"]);
        drop(received);
        assert_eq!(entries(&open(to.path())), expected);
    }
    let usual = copy.export(PARCEL_BYTES).expect("an export");
    assert_eq!(entries(&receive(&usual, begin(&usual, done.path())).expect("it comes")), expected);
}

/// The checksums that runs have from when they were written are those of their files.
#[test]
fn a_reopened_copy_offers_the_same() {
    let [from] = directories();
    let copy = source(from.path());
    copy.merge(0).expect("the runs are sound");
    let header = copy.export(PARCEL_BYTES).expect("an export").header().clone();
    drop(copy);
    assert_eq!(open(from.path()).export(PARCEL_BYTES).expect("an export").header(), &header);
}

#[test]
fn merges_do_not_disturb_an_export() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    let mut import = begin(&export, to.path());
    let mut time = 40;
    while let Some(position) = import.next() {
        import.accept(&sent(&export, position)).expect("the disk takes it");
        time += 10;
        round(&copy, time, 20);
        copy.merge(0).expect("the runs are sound");
        if time % 50 == 0 {
            copy.compact(0).expect("the runs are sound");
        }
    }
    assert_ne!(entries(&copy), expected);
    let received = import.finish().expect("all is here");
    assert_eq!(entries(&received), expected);
    assert_eq!(received.status().complete_until, 30);
    // It follows from there.
    while time > 40 {
        let changes = (0..20).map(|number| change(number, time, [(number * time % 7) as u8, 9]));
        received.apply(changes.collect()).expect("it fits");
        received.apply(vec![change(time % 20, time + 1, [])]).expect("it fits");
        time -= 10;
    }
    assert_eq!(entries(&received), entries(&copy));
}

/// The source has written and merged runs before the transfer goes on: those that are in both come once.
#[test]
fn another_header_keeps_the_runs_in_common() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while let Some(position) =
        import.next().filter(|position| position.run < 2 || position.offset < 3 * SMALL)
    {
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    let received = import.progress().received;
    drop(import);
    round(&copy, 40, 60);
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    assert_eq!(import.progress().received, received);
    while let Some(position) = import.next().filter(|position| position.run < 3) {
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    drop(import);
    copy.compact(0).expect("the runs are sound");
    let export = copy.export(SMALL).expect("an export");
    let import = begin(&export, to.path());
    assert_eq!(import.progress().received, 0, "a merged run is another one");
    assert_eq!(names(to.path()), ["import"]);
    let received = receive(&export, import).expect("it comes");
    assert_eq!(entries(&received), entries(&copy));
    drop(received);
    assert_eq!(entries(&open(to.path())), entries(&copy));
}

/// A copy that is replaced stays until the other one is complete.
#[test]
fn a_copy_is_replaced_at_once() {
    let [from, to] = directories();
    let copy = source(from.path());
    let before = open(to.path());
    round(&before, 5, 10);
    before.discard();
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while import.next().is_some_and(|position| position.run < 2) {
        let position = import.next().expect("a position");
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    let error = import.finish().map(drop).expect_err("parcels are missing");
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    let old = entries(&before);
    begin(&export, to.path()).abandon().expect("it is removed");
    assert_eq!(names(to.path()), ["00000000.run", "manifest"]);
    assert_eq!(entries(&open(to.path())), old);
    let received = receive(&export, begin(&export, to.path())).expect("it comes");
    assert_eq!(entries(&received), entries(&copy));
    assert_eq!(entries(&before), old, "it serves on from open files");
    assert_eq!(names(to.path()), ["00000001.run", "00000002.run", "00000003.run", "manifest"]);
    round(&received, 50, 60);
    drop(received);
    assert_eq!(open(to.path()).status().complete_until, 50);
}

#[test]
fn an_opened_copy_removes_what_an_import_has_left() {
    let [from, to] = directories();
    let export = source(from.path()).export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while let Some(position) = import.next().filter(|position| position.run == 0 || position.offset == 0) {
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    drop(import);
    assert_eq!(names(to.path()), ["00000000.run", "00000001.part", "import"]);
    let copy = open(to.path());
    assert_eq!((entries(&copy).len(), copy.status().built), (0, false));
    assert_eq!(names(to.path()), ["manifest"]);
    assert_eq!(CopyImport::pending(&RealDisk, to.path()).expect("no plan"), None);
}

#[test]
fn exports_are_bounded() {
    let [from] = directories();
    let copy = source(from.path());
    let mut held = HeldExports::new(Duration::from_secs(60), 1000);
    let at = Duration::from_secs;
    let numbers: Vec<u64> = (0..EXPORTS_MAX as u64)
        .map(|second| held.add(copy.export(SMALL).expect("an export"), at(second)))
        .collect();
    let error = copy.export(SMALL).map(drop).expect_err("too many");
    assert!(matches!(error, Error::ExportsBusy { .. }), "{error}");
    held.close(numbers[0]);
    copy.export(SMALL).map(drop).expect("one was closed");
    assert!(held.get(numbers[1], at(61)).is_some());
    assert!(held.get(numbers[2], at(63)).is_none(), "it was not read");
    held.expire(at(121));
    assert_eq!(held.len(), 1);
    assert!(held.get(numbers[1], at(122)).is_none() && held.is_empty());
    (0..EXPORTS_MAX).map(|_| copy.export(SMALL).expect("all were closed")).for_each(drop);
}

#[test]
fn slices_double() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    for slice in halves() {
        let [by_file, quarter] = directories();
        let options = |directory: &Path| options_on(directory, quick_disk(), &slice);
        let import = CopyImport::open(options(by_file.path()), export.header().clone()).expect("it begins");
        let half = receive(&export, import).expect("it comes");
        assert_eq!(names(by_file.path()), ["00000000.run", "00000001.run", "00000002.run", "manifest"]);
        let wanted = within(&expected, &slice);
        assert!(!wanted.is_empty() && wanted.len() < expected.len());
        assert_eq!(entries(&half), wanted);
        assert_eq!((half.status().complete_until, half.status().built), (30, true));
        let documents = half.documents(&[], 1000).expect("sound").documents;
        assert!(documents.iter().all(|found| slice.contains(&found.document)));
        // What is said about documents of others has no effect.
        let others: Vec<_> = (0..60).map(|number| change(number, 99, [1, 2, 3])).collect();
        assert_eq!(half.apply(others.clone()).expect("it fits"), 30);
        assert_eq!(half.replace(others.clone()).expect("it fits"), 0);
        assert_eq!(half.load(others.into_iter().collect()).expect("it fits"), 0);
        assert_eq!(entries(&half).len(), 90);
        // A part of it can be made, and nothing that it lacks.
        let offered = half.export(SMALL).expect("an export");
        let whole = options_on(quarter.path(), quick_disk(), &SliceRange::default());
        let error = CopyImport::open(whole, offered.header().clone());
        assert!(matches!(error.map(drop).expect_err("too much"), Error::OtherSlice));
        drop(half);
        let again = IndexCopy::open(options(by_file.path())).expect("a copy");
        assert_eq!(entries(&again), wanted, "the earlier flush");
        drop(again);
        assert_eq!(entries(&open(by_file.path())).len(), 0, "a copy of other documents is made empty");
    }
}
