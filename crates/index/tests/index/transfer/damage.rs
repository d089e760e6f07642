//! Bytes that are flipped or cut: at the source, on the way, and at the target; and parcels of another copy.

use std::fs;
use std::path::Path;

use millrace_index::{CopyImport, CopyParcel, Error, IndexCopy, IndexOptions, PARCEL_BYTES, ParcelPosition};
use xxhash_rust::xxh3::xxh3_64;

use super::common::*;

/// Bytes of the source are flipped in turn, and its files are cut everywhere: it offers none of that.
#[test]
fn damage_of_the_source_is_found() {
    let [from] = directories();
    drop(source(from.path()));
    let look = |what: &str| {
        let export = IndexCopy::open(options(from.path())).and_then(|copy| copy.export(PARCEL_BYTES));
        let error = export.map(drop).expect_err(what);
        assert!(error.is_damage(), "{what}: {error}");
    };
    let files = names(from.path());
    assert_eq!(files, ["00000000.run", "00000001.run", "00000002.run", "manifest"]);
    for path in files.iter().map(|name| from.path().join(name)) {
        let content = fs::read(&path).expect("the file");
        for at in (0..content.len()).step_by(41) {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).expect("the disk takes it");
            look(&format!("{} with a bit of byte {at} flipped", path.display()));
            fs::write(&path, &content[..at]).expect("the disk takes it");
            look(&format!("{} cut at {at}", path.display()));
        }
        fs::write(&path, &content).expect("the disk takes it");
    }
}

/// A run whose ends were damaged before the checksums of its parcels were made.
#[test]
fn a_damaged_run_that_is_offered_is_refused() {
    let [from, to] = directories();
    let mut header = source(from.path()).export(SMALL).expect("an export").header().clone();
    let mut bytes = fs::read(from.path().join("00000000.run")).expect("the file");
    let trailer = bytes.len() - 20;
    bytes[trailer] ^= 1;
    header.runs.truncate(1);
    header.runs[0].checksums = bytes.chunks(SMALL as usize).map(xxh3_64).collect();
    let mut import = CopyImport::open(options(to.path()), header).expect("the import begins");
    let error = bytes.chunks(SMALL as usize).find_map(|parcel| {
        let position = import.next().expect("a position");
        import.accept(&CopyParcel { position, bytes: parcel.to_vec() }).err()
    });
    let error = error.expect("it is damaged");
    assert!(matches!(error, Error::DamagedSource { run: 0, .. }), "{error}");
    assert_eq!(import.next(), Some(ParcelPosition::default()));
}

/// A source that was damaged after its checksums were known does not send the damage.
#[test]
fn damage_of_an_open_source_is_found() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let path = from.path().join("00000001.run");
    let mut content = fs::read(&path).expect("the file");
    content[400] ^= 1;
    fs::write(&path, &content).expect("the disk takes it");
    let position = |run, offset| ParcelPosition { run, offset };
    assert!(export.parcel(position(1, SMALL)).expect_err("it is damaged").is_damage());
    export.parcel(position(1, 0)).expect("another parcel");
    let error = export.parcel(position(1, 1)).expect_err("no parcel begins there");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
}

/// Bytes that change in the directory of the import between two of its runs.
#[test]
fn damage_of_the_target_is_found() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    let prepare = |to: &Path| {
        let mut import = begin(&export, to);
        while let Some(position) =
            import.next().filter(|position| position.run == 0 || position.offset < 3 * SMALL)
        {
            import.accept(&sent(&export, position)).expect("the disk takes it");
        }
    };
    let [first] = directories();
    prepare(first.path());
    for name in names(first.path()) {
        let length = fs::metadata(first.path().join(&name)).expect("the file").len() as usize;
        for (at, is_cut) in (0..length).step_by(53).flat_map(|at| [(at, false), (at, true)]) {
            let [to] = directories();
            prepare(to.path());
            let path = to.path().join(&name);
            let mut content = fs::read(&path).expect("the file");
            content[at] ^= 1 << (at % 8);
            content.truncate(if is_cut { at } else { length });
            fs::write(&path, &content).expect("the disk takes it");
            let import = begin(&export, to.path());
            if name == "00000001.part" {
                let kept = ParcelPosition { run: 1, offset: at as u64 / SMALL * SMALL };
                assert_eq!(import.next(), Some(kept), "byte {at} of {name}");
            }
            match receive(&export, import).and_then(|copy| copy.check().map(|()| copy)) {
                Ok(copy) => assert_eq!(entries(&copy), expected, "byte {at} of {name}"),
                // A run that was checked is not read again before it is used.
                Err(error) => assert!(error.is_damage() && name == "00000000.run", "{name}: {error}"),
            }
        }
    }
}

#[test]
fn what_does_not_belong_to_a_copy_is_refused() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let other = IndexOptions { definition: DEFINITION + 1, ..options(to.path()) };
    let error = CopyImport::open(other, export.header().clone()).map(drop).expect_err("another index");
    assert!(matches!(error, Error::OtherDefinition { .. }), "{error}");
    assert_eq!(names(to.path()), Vec::<String>::new());

    let mut import = begin(&export, to.path());
    let first = sent(&export, ParcelPosition::default());
    let second = sent(&export, ParcelPosition { run: 0, offset: SMALL });
    let error = import.accept(&second).expect_err("it is not the next one");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
    for at in 0..first.bytes.len() {
        let mut flipped = first.clone();
        flipped.bytes[at] ^= 1 << (at % 8);
        let error = import.accept(&flipped).expect_err("it is damaged");
        assert!(matches!(error, Error::DamagedTransfer { .. }), "{error}");
        flipped.bytes.truncate(at);
        import.accept(&flipped).expect_err("it is cut");
    }
    let longer = CopyParcel { bytes: [&first.bytes[..], &[0]].concat(), ..first.clone() };
    import.accept(&longer).expect_err("it is longer");
    import.accept(&first).expect("it is whole");
    let error = import.accept(&first).expect_err("it has come");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
    assert_eq!(import.next(), Some(second.position));
}
