//! Filters: no document of a segment is missing in them, and few others are in them.

use std::path::Path;

use millrace_bucket::BucketId;
use millrace_env::RealDisk;
use millrace_env::filter::{self, KeyHash};
use millrace_segment::{MergeInput, SegmentCut, SegmentFile, SegmentFormat, SegmentWriter, merge};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::{TestPolicy, Versions, arrived, open, read, versions, write, write_as};

/// Versions of so many documents, removals among them, in groups and without one.
fn some(count: u64) -> Versions {
    let groups = ["g=ann", "n=1", ""];
    versions((0..count).map(|n| (format!("id:x:mail:{}:{n}", groups[n as usize % 3]), n + 1, n % 5 == 0)))
}

fn hash(id: &str) -> KeyHash {
    KeyHash::of(id.as_bytes())
}

/// Checks that each version of a segment is in its filter, and of 10,000 others at most so many.
fn check(segment: &SegmentFile, others_max: usize) {
    for (id, ..) in read(segment) {
        assert!(segment.may_have(0, hash(&id)).expect("read"), "{id}");
    }
    let has = |n: &i32| segment.may_have(0, hash(&format!("id:x:mail:g=ann:other{n}"))).expect("read");
    let others = (0..10_000).filter(has).count();
    assert!(others <= others_max, "{others} of 10,000 others");
    segment.verify().expect("whole");
}

fn others_max(is_filtered: bool) -> usize {
    if is_filtered { 200 } else { 10_000 }
}

#[test]
fn a_segment_of_many_documents_has_a_filter_of_several_pages() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    write(&path, &some(40_000), 1000, false);
    let segment = open(&path, 1).expect("opened");
    check(&segment, others_max(true));
    let bytes = segment.filter_bytes();
    assert!((50_000..51_000).contains(&bytes), "10 bits a document, and checksums: {bytes}");
}

/// Files of earlier versions and types with few documents have no filters: all documents are possible.
#[test]
fn a_segment_without_a_filter_may_have_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    for (format, count, is_filtered) in [
        (SegmentFormat::Plain, 200, false),
        (SegmentFormat::Compressed, 200, false),
        (SegmentFormat::Filtered, 63, false),
        (SegmentFormat::Filtered, 64, true),
    ] {
        write_as(format, &path, &some(count), 100, true);
        let segment = open(&path, 1).expect("opened");
        assert_eq!(segment.format(), format);
        assert_eq!(
            (segment.has_filter(0), segment.filter_bytes() > 0),
            (is_filtered, is_filtered),
            "{format:?}"
        );
        check(&segment, others_max(is_filtered));
        let is_possible = segment.may_have(0, hash("id:x:mail:g=ann:nothing")).expect("read");
        assert!(is_possible || is_filtered, "{format:?}");
    }
}

/// A file that is cut or merged has a filter of what is in it, and of nothing else.
#[test]
fn cuts_and_merges_make_filters() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let all = versions((0..2000u64).map(|n| (format!("id:x:mail:n={}:{n}", n % 8), n + 1, n % 7 == 0)));
    write(&path("a.seg"), &all, 100, true);
    let segment = open(&path("a.seg"), 1).expect("opened");
    let half = BucketId::new(1, 0).reversed_range();
    let cut = SegmentCut::of(&segment, &[half]).expect("read").expect("half of the groups");
    let (_, part) = arrived(&cut, &path("part.seg"));
    assert!(part.has_filter(0));
    check(&part, others_max(true));
    let left: Vec<_> = read(&part).into_iter().map(|(id, ..)| id).collect();
    let gone = all.values().filter(|(id, ..)| !left.contains(id));
    let found = gone.filter(|(id, ..)| part.may_have(0, hash(id)).expect("read")).count();
    assert!(left.len() == 1000 && found < 30, "{found} of 1000 others");

    // Groups are copied as a whole, or row by row where both files have some.
    write_as(SegmentFormat::Compressed, &path("b.seg"), &some(500), 100, true);
    let inputs = [segment, open(&path("b.seg"), 2).expect("opened")]
        .map(|segment| MergeInput { segment, locations: vec![BucketId::ROOT.reversed_range()] });
    let mut writer =
        SegmentWriter::create(&RealDisk, &path("merged.seg"), SegmentFormat::Filtered).expect("created");
    assert!(merge(&inputs, &mut writer, &TestPolicy { dropped: 0, forget: 0 }).expect("merged"));
    writer.finish().expect("finished");
    let merged = open(&path("merged.seg"), 3).expect("opened");
    assert!(merged.has_filter(0));
    check(&merged, others_max(true));
}

/// A file whose filter lacks a document, with the checksum that this filter has, and the document's id.
fn with_a_gap(path: &Path) -> String {
    let all = some(100);
    write(path, &all, 100, true);
    let hashes: Vec<KeyHash> = all.values().map(|(id, ..)| hash(id)).collect();
    let page = filter::build(&hashes);
    let mut bytes = std::fs::read(path).expect("read");
    let at = bytes.windows(page.len()).position(|bytes| bytes == page).expect("the filter is in the file");
    bytes[at..at + page.len()].fill(0);
    let checksum = xxh3_64(&bytes[at..at + page.len()]).to_le_bytes();
    bytes[at + page.len()..at + page.len() + 8].copy_from_slice(&checksum);
    std::fs::write(path, bytes).expect("written");
    all.into_values().next().map(|(id, ..)| id).expect("there are documents")
}

#[test]
fn a_filter_that_lacks_a_document_is_damage() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let id = with_a_gap(&path);
    let segment = open(&path, 1).expect("opened");
    assert!(!segment.may_have(0, hash(&id)).expect("its checksum fits"));
    let error = segment.verify().expect_err("a document is missing").to_string();
    assert!(error.contains("the filter of a type lacks one of its documents"), "{error}");
}

#[test]
fn no_flipped_bit_of_a_filter_hides_a_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.seg");
    let all = some(100);
    write(&path, &all, 100, false);
    let whole = std::fs::read(&path).expect("read");
    let mut errors = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("written");
        let Ok(segment) = open(&path, 1) else { continue };
        for (id, ..) in all.values() {
            match segment.may_have(0, hash(id)) {
                Ok(is_possible) => assert!(is_possible, "{id} with byte {at} flipped"),
                Err(error) => {
                    assert!(error.to_string().contains("filter"), "{error}");
                    errors += 1;
                    break;
                }
            }
        }
    }
    let filter = open_whole(&path, &whole).filter_bytes();
    assert_eq!(errors, filter, "each byte of the filter is under its checksum");
}

fn open_whole(path: &Path, whole: &[u8]) -> std::sync::Arc<SegmentFile> {
    std::fs::write(path, whole).expect("written");
    open(path, 1).expect("opened")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn all_documents_are_in_the_filter(count in 1..3000u64, chunk in 1..1024usize) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.seg");
        write(&path, &some(count), chunk, false);
        check(&open(&path, 1).expect("opened"), others_max(count >= 64));
    }
}
