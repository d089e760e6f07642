//! Entry point of the fuzz target.

use xxhash_rust::xxh3::xxh3_64;

use crate::block::{BlockPosition, RunBytes};
use crate::import::ImportPlan;
use crate::manifest::CopyManifest;
use crate::parcel::CopyHeader;
use crate::record::{DocumentRecord, EntryRecord, write_document};
use crate::run::RunFence;

/// Reads bytes as each part of the files of a copy and of its transfer, with the checksum that they need.
///
/// # Panics
/// A part that can be read is another after it is written and read.
pub fn fuzz(bytes: &[u8]) {
    let sealed = [bytes, &xxh3_64(bytes).to_le_bytes()[..]].concat();
    if let Some(manifest) = CopyManifest::decode(&sealed) {
        assert_eq!(CopyManifest::decode(&manifest.encode()), Some(manifest), "a manifest is what it was");
    }
    if let Ok(header) = CopyHeader::decode(&sealed) {
        fuzz_positions(&header);
        assert_eq!(CopyHeader::decode(&header.encode()).ok(), Some(header), "a header is what it was");
    }
    if let Some(plan) = ImportPlan::decode(&sealed) {
        assert_eq!(ImportPlan::decode(&plan.encode()), Some(plan), "a plan is what it was");
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

/// The parcels of a header are all of its bytes, once each.
fn fuzz_positions(header: &CopyHeader) {
    let (mut next, mut bytes) = (header.first_position(), 0);
    while let Some(position) = next {
        let (length, _) = header.parcel_at(position).expect("each position has a parcel");
        bytes += length;
        next = header.position_after(position);
    }
    assert_eq!(bytes, header.bytes(), "the parcels have all bytes");
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
