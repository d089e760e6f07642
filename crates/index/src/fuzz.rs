//! Entry point of the fuzz target.

use xxhash_rust::xxh3::xxh3_64;

use crate::block::{BlockPosition, RunBytes};
use crate::manifest::CopyManifest;
use crate::record::{DocumentRecord, EntryRecord, write_document};
use crate::run::RunFence;

/// Reads bytes as each part of the files of a copy, with the checksum that they need.
///
/// # Panics
/// A part that can be read is another after it is written and read.
pub fn fuzz(bytes: &[u8]) {
    let sealed = [bytes, &xxh3_64(bytes).to_le_bytes()[..]].concat();
    if let Some(manifest) = CopyManifest::decode(&sealed) {
        assert_eq!(CopyManifest::decode(&manifest.encode()), Some(manifest), "a manifest is what it was");
    }
    let end = u64::MAX;
    if let Some(fence) = RunFence::decode(bytes, end) {
        assert_eq!(RunFence::decode(&fence.encode(), end), Some(fence), "a fence is what it was");
    }
    let mut position = BlockPosition::default();
    let block = RunBytes::seekable(bytes.to_vec());
    while let Ok(Some(value)) = position.next(&block) {
        fuzz_records(value);
    }
    fuzz_records(bytes);
}

fn fuzz_records(bytes: &[u8]) {
    let mut written = Vec::new();
    if let Some(record) = DocumentRecord::read(bytes) {
        write_document(record.timestamp, record.keys.iter().map(Vec::as_slice), &mut written);
        assert_eq!(DocumentRecord::read(&written), Some(record), "the record of a document is what it was");
    }
    if let Some(record) = EntryRecord::read(bytes) {
        written.clear();
        record.write(&mut written);
        assert_eq!(EntryRecord::read(&written), Some(record), "the record of an entry is what it was");
    }
}
