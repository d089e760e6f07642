//! A bit flips in some file: the answer is an error or the right one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_store::{Error, Store, StoreTuning, StoreVisit, VisitedVersion};
use xxhash_rust::xxh3::xxh3_64;

use crate::common::{TestLayout, number, open, options, put, remove};

/// A directory with segments, a tail, removals and a drop; and its expected contents.
fn fill(directory: &Path) -> BTreeMap<String, i64> {
    let store = open(options(directory));
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        for name in 0..40 {
            let id = format!("id:n:mail:g=user{}:{name}", name % 3);
            put(&store, &id, &format!("words of round {round}"), round * 100 + name);
            expected.insert(id, round * 100 + name);
        }
        remove(&store, &format!("id:n:mail:g=user0:{}", round * 3));
        expected.remove(&format!("id:n:mail:g=user0:{}", round * 3));
        if round < 2 {
            store.seal().expect("sealed");
        }
    }
    for name in [0, 3] {
        // Written again in a later round.
        let id = format!("id:n:mail:g=user0:{name}");
        let last = if name == 0 { 200 } else { 203 };
        expected.insert(id, last);
    }
    store.close();
    expected
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort_unstable();
    files
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).expect("below"));
        std::fs::create_dir_all(target.parent().expect("a directory")).expect("made");
        std::fs::copy(&path, &target).expect("copied");
    }
}

/// Everything in the store, or the first error.
fn read_all(directory: &Path) -> Result<BTreeMap<String, i64>, Error> {
    let store = Store::open(options(directory), Arc::new(TestLayout))?;
    let mut all = BTreeMap::new();
    let mut visit = StoreVisit { wanted: 30, ..StoreVisit::all(&["mail"]) };
    loop {
        let page = store.visit(&visit)?;
        for visited in page.visited {
            if let VisitedVersion::Document(document, _) = visited {
                all.insert(document.id.as_str().to_owned(), number(&document));
            }
        }
        match page.continuation {
            Some(continuation) => visit.continuation = Some(continuation),
            None => return Ok(all),
        }
    }
}

/// Number of significant bytes of a file: a log is followed by zeros up to 64 MB.
fn meaningful(path: &Path) -> u64 {
    let bytes = std::fs::read(path).expect("read");
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

fn flip(path: &Path, offset: u64, bit: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, offset).expect("written");
}

#[test]
fn a_flipped_bit_gives_an_error_or_the_right_answer() {
    let original = tempfile::tempdir().expect("a directory");
    let expected = fill(original.path());
    assert_eq!(read_all(original.path()).expect("undamaged"), expected);
    // Reading may have changed the tail's files: take the copy after it.
    let flips = std::env::var("MILLRACE_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(6);
    let mut errors = 0;
    for path in files(original.path()) {
        let relative = path.strip_prefix(original.path()).expect("below").to_owned();
        let length = meaningful(&path);
        for number in 0..flips.min(length) {
            let draw =
                xxh3_64(format!("{} {number}", relative.file_name().expect("a name").display()).as_bytes());
            let (offset, bit) = (draw % length, (draw >> 40) as u8 % 8);
            let damaged = tempfile::tempdir().expect("a directory");
            copy(original.path(), damaged.path());
            flip(&damaged.path().join(&relative), offset, bit);
            let place = format!("{} byte {offset} bit {bit}", relative.display());
            match read_all(damaged.path()) {
                Ok(found) => assert!(found == expected, "{place}: a wrong answer"),
                Err(error) => {
                    errors += 1;
                    assert!(!error.to_string().is_empty());
                    let report = millrace_store::check(damaged.path());
                    let found = report.map_or(1, |report| report.findings.len());
                    assert!(found > 0, "{place}: the check finds nothing, reading does: {error}");
                }
            }
        }
    }
    assert!(errors > 0, "some flips are noticed");
}

#[test]
fn a_damaged_segment_makes_only_its_bucket_refuse() {
    let directory = tempfile::tempdir().expect("a directory");
    let small = || millrace_store::StoreOptions {
        tuning: StoreTuning { split_documents: 100, ..StoreTuning::default() },
        ..options(directory.path())
    };
    let store = open(small());
    for name in 0..400 {
        put(&store, &format!("id:n:mail:n={}:{name}", name % 2), "text", name);
    }
    store.seal().expect("sealed");
    store.maintain().expect("split");
    // One more segment, for the bucket of n=1 alone.
    put(&store, "id:n:mail:n=1:0", "text", 1);
    store.seal().expect("sealed");
    store.close();
    let segments = files(&directory.path().join("segments"));
    let last = segments.last().expect("there are segments");
    flip(last, 64, 3);
    let store = open(small());
    let view = |number| {
        let scope = millrace_store::ViewScope::Groups(vec![millrace_document::DocumentGroup::Number(number)]);
        let view = store.view("mail", &scope).map_err(|error| error.to_string())?;
        let key = millrace_column::ColumnKey::id();
        view.columns(&key, 0..view.chunks().len()).map_err(|error| error.to_string())
    };
    assert!(view(0).is_ok());
    let error = view(1).expect_err("damaged");
    assert!(error.contains("damaged at byte") && error.contains(".seg"), "{error}");
}

#[test]
fn a_torn_last_record_is_no_damage() {
    let original = tempfile::tempdir().expect("a directory");
    let expected = fill(original.path());
    let log = files(&original.path().join("tail"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .expect("the tail has a log");
    let end = meaningful(&log);
    let last = expected.len();
    for cut in [1, 5, 12, 13, 20, 60] {
        let torn = tempfile::tempdir().expect("a directory");
        copy(original.path(), torn.path());
        let path = torn.path().join(log.strip_prefix(original.path()).expect("below"));
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        file.set_len(end - cut).expect("cut");
        file.set_len(64 << 20).expect("zeros");
        let found = read_all(torn.path()).unwrap_or_else(|error| panic!("cut by {cut}: {error}"));
        // Only the last write, a removal, can be missing.
        assert!(found.len() == last || found.len() == last + 1, "cut by {cut}: {} of {last}", found.len());
    }
}

/// The manifest alone says which files belong to the store: without it, a start would delete the others.
#[test]
fn a_lost_manifest_keeps_the_store_from_starting() {
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = directory.path().join("manifest");
    // A crash during the first start.
    open(options(directory.path())).close();
    std::fs::remove_file(&manifest).expect("it is there");
    open(options(directory.path())).close();
    let put_and_check = |place: &str, sealed: bool| {
        let store = open(options(directory.path()));
        put(&store, "id:n:mail:g=ann:1", "words", 1);
        if sealed {
            store.seal().expect("sealed");
        }
        store.close();
        let before = std::fs::read(&manifest).expect("it is there");
        std::fs::remove_file(&manifest).expect("it is there");
        let refused = read_all(directory.path()).expect_err("someone's documents").to_string();
        assert!(refused.contains(&format!("there are {place} but no manifest")), "{refused}");
        std::fs::write(&manifest, before).expect("it is put back");
        assert_eq!(read_all(directory.path()).expect("nothing was deleted").len(), 1);
    };
    put_and_check("logs with writes", false);
    put_and_check("segments", true);
}
