//! The check of a data directory finds a cut file, whichever it is.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{
    Error, SnapshotAttachment, SnapshotName, StoreOptions, check, repair_tail, restore_point,
    restore_snapshot,
};

use crate::common::{open, options, put};
use crate::snapshots::{copy_all, files};

/// Fills a directory with all kinds of files: segments, a ledger of erasures, a snapshot, and kept logs.
/// Returns a time after its last write.
fn fill(directory: &Path) -> Timestamp {
    let keeping = || StoreOptions { keep_logs: Duration::from_secs(3600), ..options(directory) };
    let store = open(keeping());
    let put_all = || {
        for number in 0..100 {
            put(&store, &format!("id:n:mail:g=user{}:{number}", number % 3), "words", number);
        }
    };
    put_all();
    store.drop_group(None, &DocumentGroup::Name("user0".to_owned())).expect("dropped");
    let active =
        SnapshotAttachment { directory: "application", name: "active".to_owned(), bytes: b"7".to_vec() };
    let name = SnapshotName::parse("one").expect("it is a name");
    store.create_snapshot(&name, store.next_timestamp(), || Ok((7, vec![active]))).expect("made");
    put_all();
    store.seal().expect("sealed");
    let end = store.next_timestamp();
    store.close();
    // All sealed logs are kept by then.
    open(keeping()).close();
    end
}

/// Cuts a file to its half; a log within its last batch.
fn cut(path: &Path) {
    let length = std::fs::metadata(path).expect("it is there").len();
    let kept = if is_log(path) { length - 3 } else { length / 2 };
    File::options().write(true).open(path).expect("it opens").set_len(kept).expect("it is cut");
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

#[test]
fn a_cut_file_is_found_and_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = directory.path().join("whole");
    let end = fill(&whole);
    let report = check(&whole).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let (mut kinds, mut refused) = (Vec::new(), 0);
    for path in files(&whole) {
        let name = path.strip_prefix(&whole).expect("it is below");
        // Zeros follow the batches of a log in use.
        if name.starts_with("tail") || name.ends_with("lock") {
            continue;
        }
        kinds.push(name.display().to_string());
        let copy = tempfile::tempdir().expect("a directory");
        copy_all(&whole, copy.path());
        let damaged = copy.path().join(name);
        cut(&damaged);
        let findings = check(copy.path()).expect("checked").findings;
        let is_named = findings.iter().any(|finding| finding.path == damaged && !finding.cure.is_empty());
        assert!(is_named, "{}: {findings:?}", name.display());
        let snapshot = copy.path().join("snapshots/one");
        let restored = tempfile::tempdir().expect("a directory");
        if name.starts_with("snapshots/one") {
            restore_snapshot(&snapshot, restored.path()).expect_err("a file of it is cut");
        } else if is_log(name) {
            // Logs from before the snapshot are not needed.
            let outcome = restore_point(copy.path(), None, restored.path(), end);
            refused += usize::from(matches!(outcome, Err(Error::Corrupt { .. })));
        }
    }
    assert!(refused > 0, "a log after the snapshot is cut: {kinds:?}");
    for kind in ["manifest", "erasures", "segments/", "snapshots/one/snapshot.json", "snapshots/.logs/"] {
        assert!(kinds.iter().any(|name| name.starts_with(kind)), "{kind}: {kinds:?}");
    }
}

/// A file `lock` would make a start take a directory of something else for a data directory.
#[test]
fn a_check_makes_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let foreign = directory.path().join("thesis.tex");
    std::fs::write(&foreign, "a life's work").expect("written");
    let findings = check(directory.path()).expect("checked").findings;
    assert!(findings.len() == 1 && findings[0].meaning.contains("not a data directory"), "{findings:?}");
    repair_tail(directory.path()).expect_err("there is nothing to repair");
    assert_eq!(files(directory.path()), std::slice::from_ref(&foreign));
    let refused = check(&foreign).expect_err("it is a file").to_string();
    assert!(refused.contains("it is not a directory"), "{refused}");

    let whole = directory.path().join("whole");
    fill(&whole);
    std::fs::remove_file(whole.join("lock")).expect("it is there");
    let before = files(&whole);
    assert!(check(&whole).expect("checked").findings.is_empty());
    assert_eq!(files(&whole), before);
    let store = open(options(&whole));
    check(&whole).expect_err("a process has it open");
    store.close();
    for log in files(&whole.join("tail")).into_iter().filter(|path| is_log(path)) {
        std::fs::remove_file(log).expect("it is there");
    }
    let findings = check(&whole).expect("checked").findings;
    let cures: Vec<&str> = findings.iter().map(|finding| &*finding.cure).collect();
    assert!(!cures.is_empty() && cures.iter().all(|cure| !cure.contains("--repair-tail")), "{findings:?}");
}
