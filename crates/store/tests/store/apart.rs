//! Groups that have files of their own: their drop removes files, and merges none.

use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::DocumentGroup;
use millrace_store::StoreOptions;

use crate::common::{get, open, options, put};

/// Low 20 bits of the locations of the area.
const AREA: u64 = 0x1_a571;

fn group(number: u64) -> u64 {
    number << 32 | number << 20 | AREA
}

#[test]
fn groups_of_an_area_are_dropped_by_file() {
    const GROUPS: u64 = 8;
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    store.separate_files([BucketId::new(20, AREA)], 8 << 10);
    let id = |number: u64, document: u64| format!("id:n:mail:n={}:{document}", group(number));
    // Words that no compression makes shorter.
    let mut word = 1_u64;
    let mut text = || -> String {
        let mut next = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{word:x}")
        };
        (0..40).map(|_| next()).collect::<Vec<_>>().join(" ")
    };
    for number in 0..GROUPS {
        put(&store, &format!("id:n:mail:g=other{number}:1"), "others", 2);
    }
    store.seal().expect("the rows are sealed");
    for number in 0..GROUPS {
        for document in 0..40 {
            put(&store, &id(number, document), &text(), 1);
        }
        store.seal().expect("the rows are sealed");
        store.maintain().expect("the store is maintained");
    }
    let of_group = |number| DocumentGroup::Number(group(number));
    let files = |number| store.files_with_group(&of_group(number)).expect("the files are read");
    let merges = store.status().merges;
    for number in [0, 3, 6] {
        assert!(files(number) > 0);
        store.drop_group(Some("mail"), &of_group(number)).expect("the group is dropped");
    }
    store.maintain().expect("the store is maintained");
    let left: Vec<u64> = (0..GROUPS).filter(|number| files(*number) > 0).collect();
    assert_eq!(left, [1, 2, 4, 5, 7], "files of dropped groups are gone");
    assert_eq!(store.status().merges, merges, "nothing was merged for that");
    for number in 0..GROUPS {
        let expected = left.contains(&number).then_some(1);
        assert_eq!(get(&store, &id(number, 7)), expected, "group {number}");
        assert_eq!(get(&store, &format!("id:n:mail:g=other{number}:1")), Some(2));
    }
    // In the background, also where drops follow each other closely.
    store.close();
    let store = open(StoreOptions { maintenance: true, ..options(directory.path()) });
    store.separate_files([BucketId::new(20, AREA)], 8 << 10);
    for number in [1, 4, 7] {
        store.drop_group(Some("mail"), &of_group(number)).expect("the group is dropped");
    }
    let files = |number| store.files_with_group(&of_group(number)).expect("the files are read");
    let deadline = Instant::now() + Duration::from_secs(120);
    while [1, 4, 7].into_iter().any(|number| files(number) > 0) {
        assert!(Instant::now() < deadline, "files of dropped groups go by themselves");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.status().merges, 0, "nothing was merged for that");
    for number in 0..GROUPS {
        let expected = [2, 5].contains(&number).then_some(1);
        assert_eq!(get(&store, &id(number, 7)), expected, "group {number}");
        assert_eq!(get(&store, &format!("id:n:mail:g=other{number}:1")), Some(2));
    }
}

#[test]
fn a_file_with_later_writes_of_a_dropped_group_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let id = |document: u64| format!("id:n:mail:n={}:{document}", group(1));
    put(&store, &id(1), "before", 1);
    store.drop_group(Some("mail"), &DocumentGroup::Number(group(1))).expect("the group is dropped");
    store.drop_group(Some("other"), &DocumentGroup::Number(group(1))).expect("the group is dropped");
    put(&store, &id(2), "after", 2);
    store.seal().expect("the rows are sealed");
    store.drop_group(Some("other"), &DocumentGroup::Number(group(1))).expect("the group is dropped");
    store.maintain().expect("the store is maintained");
    assert_eq!((get(&store, &id(1)), get(&store, &id(2))), (None, Some(2)));
}

/// A drop rewrites the files that have the group, and none of the others of its bucket.
#[test]
fn files_without_a_dropped_group_are_not_merged_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let id = |number: u64| format!("id:n:mail:n={}:1", group(number));
    for numbers in [&[1][..], &[2, 3]] {
        for number in numbers {
            put(&store, &id(*number), "text", 1);
        }
        store.seal().expect("the rows are sealed");
    }
    store.maintain().expect("the store is maintained");
    let drop_group = |number: u64| {
        let dropped = DocumentGroup::Number(group(number));
        store.drop_group(None, &dropped).expect("the group is dropped");
        store.maintain().expect("the store is maintained");
        assert_eq!(store.files_with_group(&dropped).expect("the files are read"), 0, "group {number}");
        store.status().merges
    };
    assert_eq!(drop_group(1), 0, "its file is removed, and the other has nothing of it");
    assert_eq!(drop_group(2), 1, "its file has another group");
    assert_eq!([1, 2, 3].map(|number| get(&store, &id(number))), [None, None, Some(1)]);
    store.close();
    let store = open(options(directory.path()));
    assert_eq!([1, 2, 3].map(|number| get(&store, &id(number))), [None, None, Some(1)]);
    assert_eq!(store.status().segments, 1);
}
