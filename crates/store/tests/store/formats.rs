//! Segments of an earlier format.

use millrace_store::{SegmentFormat, Store, StoreOptions};

use crate::common::{get, open, options, put};

fn options_of(directory: &std::path::Path, segment_format: SegmentFormat) -> StoreOptions {
    StoreOptions { segment_format, ..options(directory) }
}

fn check(store: &Store) {
    for number in 0..300 {
        assert_eq!(get(store, &format!("id:n:mail:g=ann:{number}")), Some(number), "{number}");
    }
}

#[test]
fn segments_of_an_earlier_format_are_written_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(options_of(directory.path(), SegmentFormat::Plain));
    for number in 0..300 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), &"some words ".repeat(40), number);
    }
    store.seal().expect("sealed");
    store.maintain().expect("there is nothing to do");
    let plain = store.status().segment_bytes;
    drop(store);

    let store = open(options_of(directory.path(), SegmentFormat::Compressed));
    check(&store);
    assert_eq!(store.status().segment_bytes, plain, "nothing happens by itself");
    store.maintain().expect("written again");
    let compressed = store.status().segment_bytes;
    assert!(compressed * 4 < plain, "{compressed} of {plain}");
    check(&store);
    store.maintain().expect("there is nothing to do");
    assert_eq!(store.status().segment_bytes, compressed);

    drop(store);

    let store = open(options_of(directory.path(), SegmentFormat::Filtered));
    check(&store);
    assert_eq!(store.filter_bytes(), 0, "nothing happens by itself");
    store.maintain().expect("written again");
    let (filters, filtered) = (store.filter_bytes(), store.status().segment_bytes);
    assert!(filters > 300 && filtered < compressed + 2 * filters, "{filters} of {filtered}");
    check(&store);
    for number in 300..600 {
        assert_eq!(get(&store, &format!("id:n:mail:g=ann:{number}")), None, "{number}");
    }

    // A cluster with nodes of an earlier version gets segments of its format, and does not turn back others.
    store.set_segment_format(SegmentFormat::Plain);
    store.maintain().expect("there is nothing to do");
    assert_eq!(store.status().segment_bytes, filtered);
}
