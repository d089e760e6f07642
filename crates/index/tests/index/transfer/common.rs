//! A source of some runs, and the way of its parcels.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use millrace_env::{Disk, PowerLossDisk};
use millrace_index::{
    BlockCache, CopyExport, CopyImport, CopyParcel, Error, FlushMark, IndexChange, IndexCopy, IndexOptions,
    ParcelPosition, SliceRange,
};
use millrace_keys::KeyRange;

pub const DEFINITION: u64 = 7;

/// Bytes of a parcel here: runs of some kilobytes have several.
pub const SMALL: u64 = 300;

pub type FoundEntries = BTreeSet<(Vec<u8>, Vec<u8>)>;

pub fn options_on(directory: &Path, disk: Arc<dyn Disk>, slice: &SliceRange) -> IndexOptions {
    IndexOptions {
        directory: directory.to_owned(),
        definition: DEFINITION,
        slice: slice.clone(),
        disk,
        cache: Arc::new(BlockCache::new(1 << 20)),
    }
}

/// A disk that waits for no sync: it keeps account of a directory that is none of these.
pub fn quick_disk() -> Arc<dyn Disk> {
    let other = Path::new("/of no test");
    Arc::new(PowerLossDisk::new(other, other))
}

pub fn options(directory: &Path) -> IndexOptions {
    options_on(directory, quick_disk(), &SliceRange::default())
}

pub fn open(directory: &Path) -> IndexCopy {
    IndexCopy::open(options(directory)).expect("a copy")
}

pub fn document(number: u64) -> Vec<u8> {
    format!("document {number:03}").into_bytes()
}

pub fn change(number: u64, timestamp: u64, keys: impl IntoIterator<Item = u8>) -> IndexChange {
    let keys: BTreeSet<Vec<u8>> = keys.into_iter().map(|key| vec![b'k', key]).collect();
    IndexChange { document: document(number), timestamp, keys: keys.into_iter().collect() }
}

pub fn all() -> [KeyRange; 1] {
    [KeyRange { low: Vec::new(), high: None }]
}

pub fn entries(copy: &IndexCopy) -> FoundEntries {
    copy.check().expect("every byte is as it was written");
    let page = copy.scan(&all(), None, 100_000).expect("the runs are sound");
    page.entries.iter().map(|entry| (entry.key.to_vec(), entry.document.to_vec())).collect()
}

/// Entries whose documents are in a slice.
pub fn within(entries: &FoundEntries, slice: &SliceRange) -> FoundEntries {
    entries.iter().filter(|(_, document)| slice.contains(document)).cloned().collect()
}

/// Flushes a run of versions of one time.
pub fn round(copy: &IndexCopy, time: u64, documents: u64) {
    let changes = (0..documents).map(|number| change(number, time, [(number * time % 7) as u8, 9]));
    copy.apply(changes.collect()).expect("it fits");
    copy.apply(vec![change(time % documents, time + 1, [])]).expect("it fits");
    copy.flush(FlushMark { complete_until: time, built: time > 1 }).expect("the disk takes it");
}

/// Source with three runs.
pub fn source(directory: &Path) -> IndexCopy {
    let copy = open(directory);
    (1..=3).for_each(|time| round(&copy, time * 10, 60));
    copy
}

pub fn directories<const N: usize>() -> [tempfile::TempDir; N] {
    [(); N].map(|()| tempfile::tempdir().expect("a directory"))
}

/// Parcels as they arrive.
pub fn sent(export: &CopyExport, position: ParcelPosition) -> CopyParcel {
    let parcel = export.parcel(position).expect("the source is sound");
    assert!(parcel.bytes.len() as u64 <= export.header().parcel_bytes);
    parcel
}

/// Receives all parcels that are missing, and publishes.
pub fn receive(export: &CopyExport, mut import: CopyImport) -> Result<IndexCopy, Error> {
    while let Some(position) = import.next() {
        import.accept(&sent(export, position))?;
    }
    import.finish()
}

pub fn begin(export: &CopyExport, directory: &Path) -> CopyImport {
    CopyImport::open(options(directory), export.header().clone()).expect("the import begins")
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect();
    names.sort();
    names
}

/// Halves of the documents of [`source`].
pub fn halves() -> [SliceRange; 2] {
    let middle = document(30);
    [SliceRange { low: Vec::new(), high: Some(middle.clone()) }, SliceRange { low: middle, high: None }]
}
