//! Loads and changes beside flushes and merges.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use millrace_env::PowerLossDisk;
use millrace_index::{BlockCache, FlushMark, IndexChange, IndexCopy, IndexOptions, SliceRange};
use millrace_keys::KeyRange;

const DOCUMENTS: u64 = 6_000;
const PAGE: u64 = 40;

fn document(of: u64) -> Vec<u8> {
    format!("document {of:05}").into_bytes()
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:02}").into_bytes()
}

/// A version of a document with one key; a removal without one.
fn change(of: u64, timestamp: u64, number: Option<u64>) -> IndexChange {
    IndexChange { document: document(of), timestamp, keys: number.map(key).into_iter().collect() }
}

/// Loads pages of documents. Of each page some documents are known before it, some change after it, and every
/// third one is loaded again. Returns the key of each document.
fn load(copy: &IndexCopy) -> BTreeMap<u64, Option<u64>> {
    let mut model = BTreeMap::new();
    for first in (0..DOCUMENTS).step_by(PAGE as usize) {
        let load = |timestamp: u64, key_of: fn(u64) -> u64| {
            let rows = (first..first + PAGE).map(|of| change(of, timestamp, Some(key_of(of))));
            copy.load(rows.collect()).expect("it fits");
            (first..first + PAGE).map(move |of| (of, Some(key_of(of)))).collect::<Vec<_>>()
        };
        copy.apply(vec![change(first + 1, 5, Some(50)), change(first + 2, 5, None)]).expect("it fits");
        model.extend(load(2, |of| of % 7));
        if first % (3 * PAGE) == 0 {
            model.extend(load(3, |of| 10 + of % 5));
        }
        copy.apply(vec![change(first + 3, 9, None), change(first + 4, 9, Some(60))]).expect("it fits");
        copy.forget(&[document(first + 5)]).expect("the runs are sound");
        model.extend([(first + 3, None), (first + 4, Some(60)), (first + 5, None)]);
    }
    model
}

#[test]
fn loads_beside_flushes_lose_and_double_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    // It waits for no sync: it keeps account of a directory that is none of these.
    let other = Path::new("/of no test");
    let copy = IndexCopy::open(IndexOptions {
        directory: directory.path().to_owned(),
        definition: 7,
        slice: SliceRange::default(),
        disk: Arc::new(PowerLossDisk::new(other, other)),
        cache: Arc::new(BlockCache::new(1 << 20)),
    });
    let copy = copy.expect("it opens");
    let flush = |built| copy.flush(FlushMark { complete_until: 1, built }).expect("the disk takes it");
    let model = thread::scope(|scope| {
        let loading = scope.spawn(|| load(&copy));
        while !loading.is_finished() {
            flush(false);
            copy.merge(0).expect("the runs are sound");
        }
        loading.join().expect("it loads")
    });
    let with_key = model.iter().filter_map(|(of, number)| Some((key((*number)?), document(*of))));
    let mut expected: Vec<_> = with_key.collect();
    expected.sort();
    let all = [KeyRange { low: Vec::new(), high: None }];
    for built in [false, true] {
        let page = copy.scan(&all, None, 2 * DOCUMENTS as usize).expect("the runs are sound");
        let found: Vec<_> =
            page.entries.iter().map(|entry| (entry.key.to_vec(), entry.document.to_vec())).collect();
        assert!(found == expected, "{} entries, and not {}", found.len(), expected.len());
        flush(built);
    }
    copy.check().expect("every byte is as it was written");
}
