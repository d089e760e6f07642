//! Lookups of documents by their ids in many segments, with filters of ids and without.

use std::collections::BTreeMap;

use millrace_document::DocumentValue;
use millrace_store::{SegmentFormat, StoreOptions};

use crate::common::{get, id, modify_all, open, options, put, remove};

fn id_of(number: i64) -> String {
    let group = ["g=ann", "n=1", ""][number as usize % 3];
    format!("id:n:mail:{group}:{number}")
}

/// Each round writes and removes a quarter of the documents, and is in a segment of its own.
#[test]
fn no_version_is_hidden_by_a_filter() {
    for (format, is_filtered) in [(SegmentFormat::Compressed, false), (SegmentFormat::Filtered, true)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = open(StoreOptions { segment_format: format, ..options(directory.path()) });
        let mut expected: BTreeMap<i64, i64> = BTreeMap::new();
        for round in 0..8 {
            let numbers: Vec<i64> = (0..900).filter(|number| (number + round) % 4 == 0).collect();
            let wanted = |number: i64| (number % 5 != round % 5).then_some(number * 10 + round);
            let changes: Vec<(String, Option<i64>)> =
                numbers.iter().map(|number| (id_of(*number), wanted(*number))).collect();
            for (number, (found, written)) in numbers.iter().zip(modify_all(&store, &changes)) {
                let before = match wanted(*number) {
                    Some(wanted) => expected.insert(*number, wanted),
                    None => expected.remove(number),
                };
                assert_eq!(found.map(|(found, _)| found), before, "{format:?}, round {round}: {number}");
                assert_eq!(written.existed, Some(before.is_some()), "{format:?}, round {round}: {number}");
            }
            store.seal().expect("sealed");
        }
        for is_merged in [false, true] {
            if is_merged {
                store.maintain().expect("merged");
            }
            assert_eq!(store.filter_bytes() > 0, is_filtered, "{format:?}");
            for number in 0..1200 {
                assert_eq!(
                    get(&store, &id_of(number)),
                    expected.get(&number).copied(),
                    "{format:?}: {number}"
                );
            }
        }
    }
}

/// In the tail and in the overflow of files, a document is read as a whole; of columns, only those of the
/// fields that are wanted.
#[test]
fn a_document_is_read_with_the_wanted_fields() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(options(directory.path()));
    let [known, unknown] = ["mail", "unknown"].map(|of| format!("id:n:{of}:g=ann:1"));
    put(&store, &known, "some text", 7);
    put(&store, &unknown, "some text", 7);
    let read = |name: &str, fields: &[&str]| {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let found = store.get_fields(&id(name), Some(&fields)).expect("the store reads");
        let (document, _) = found.expect("the document is there");
        let names: Vec<String> = document.fields.iter().map(|(field, _)| field.to_string()).collect();
        (document, names)
    };
    for sealed in [false, true] {
        if sealed {
            store.seal().expect("sealed");
        }
        for name in [&known, &unknown] {
            let (whole, _) = store.get(&id(name)).expect("the store reads").expect("it is there");
            for field in ["text", "number"] {
                let found = read(name, &[field]).0;
                assert_eq!(found.get(field), whole.get(field), "{name}, sealed: {sealed}");
            }
        }
    }
    assert_eq!(read(&known, &["number"]).1, ["number"]);
    assert_eq!(read(&known, &["absent"]).1, [] as [&str; 0]);
    for name in [&known, &unknown] {
        assert_eq!(read(name, &[]).1, [] as [&str; 0], "{name}");
    }
    // The newest version counts, also where an older one is in a file.
    let number = |name: &str| read(name, &["number"]).0.get("number").cloned();
    put(&store, &known, "other text", 8);
    assert_eq!(number(&known), Some(DocumentValue::Long(8)));
    store.seal().expect("sealed");
    assert_eq!(number(&known), Some(DocumentValue::Long(8)));
    remove(&store, &known);
    let names = ["number".to_owned()];
    for sealed in [false, true] {
        if sealed {
            store.seal().expect("sealed");
        }
        for fields in [None, Some(&names[..0]), Some(&names[..])] {
            let found = store.get_fields(&id(&known), fields).expect("the store reads");
            assert!(found.is_none(), "{fields:?}, sealed: {sealed}");
        }
    }
}
