//! Merging: the choice of runs, and the work.

use std::path::Path;
use std::sync::Arc;

use millrace_env::Disk;

use crate::cursor::{RunMergeCursor, SectionPass};
use crate::record::{DocumentRecord, EntryRecord};
use crate::run::IndexRun;
use crate::run_writer::RunWriter;
use crate::{Error, SliceRange};

/// Number of neighbouring runs of similar size that are merged.
const SIMILAR: usize = 4;

/// Runs are similar while each is at most this many times as large as all newer ones together.
const GROWTH: u64 = 3;

/// Number of the newest runs that should be merged, by the sizes of all from the oldest to the newest; 0 for
/// none.
pub(crate) fn choose(sizes: &[u64]) -> usize {
    let mut sum = 0;
    let mut count = 0;
    for size in sizes.iter().rev() {
        if count > 0 && *size > sum * GROWTH {
            break;
        }
        sum += size;
        count += 1;
    }
    if count >= SIMILAR { count } else { 0 }
}

/// Rows that a merge leaves out.
#[derive(Clone, Copy)]
pub(crate) struct MergeDisposal<'a> {
    /// True if the oldest run is among them, so that nothing is below.
    pub is_bottom: bool,
    /// No version from before this time will be applied any more.
    pub forget_before: u64,
    /// Other documents are left out.
    pub slice: &'a SliceRange,
}

impl MergeDisposal<'_> {
    fn drops_document(&self, record: &DocumentRecord) -> bool {
        let is_forgotten = record.is_forgotten() || record.timestamp < self.forget_before;
        self.is_bottom && record.keys.is_empty() && is_forgotten
    }

    fn drops_entry(&self, key: &[u8], record: &EntryRecord) -> bool {
        let document = &key[record.key_length.min(key.len())..];
        (self.is_bottom && !record.live) || !self.slice.contains(document)
    }
}

/// Reason for which a merge ends early.
pub(crate) enum MergeEnd {
    /// The copy is not needed any more, or merges are ended.
    Unwanted,
    Failed(Error),
}

impl From<Error> for MergeEnd {
    fn from(error: Error) -> Self {
        MergeEnd::Failed(error)
    }
}

/// Writes the rows of these runs as one. Returns the checksums of its parcels of the usual length.
pub(crate) fn merge(
    disk: &dyn Disk,
    path: &Path,
    definition: u64,
    runs: &[Arc<IndexRun>],
    disposal: MergeDisposal<'_>,
) -> Result<Vec<u64>, Error> {
    merge_while(disk, path, definition, runs, disposal, || Ok(()))
}

/// [`merge`] that can be stopped. Ends with the error of `proceed`, which is called before each row.
pub(crate) fn merge_while<E: From<Error>>(
    disk: &dyn Disk,
    path: &Path,
    definition: u64,
    runs: &[Arc<IndexRun>],
    disposal: MergeDisposal<'_>,
    proceed: impl Fn() -> Result<(), E>,
) -> Result<Vec<u64>, E> {
    let mut writer = RunWriter::create(disk, path, definition)?;
    let mut key = Vec::new();
    let SliceRange { low, high } = disposal.slice;
    let mut documents =
        RunMergeCursor::<DocumentRecord>::new(&[], runs, &[], SectionPass::over_all(low, high.as_deref()))?;
    while let Some(record) = documents.next(&mut key)? {
        proceed()?;
        if disposal.slice.is_below(&key) {
            break;
        }
        if !disposal.drops_document(&record) {
            writer.document(&key, &record)?;
        }
    }
    let mut entries = RunMergeCursor::<EntryRecord>::new(&[], runs, &[], SectionPass::over_all(&[], None))?;
    while let Some(record) = entries.next(&mut key)? {
        proceed()?;
        if !disposal.drops_entry(&key, &record) {
            writer.entry(&key, &record)?;
        }
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use std::sync::{OnceLock, Weak};

    use millrace_env::{DiskOperation, ObservedDisk, RealDisk};

    use super::*;
    use crate::{BlockCache, FlushMark, IndexChange, IndexCopy, IndexOptions};

    #[test]
    fn a_merge_ends_when_its_copy_is_discarded() {
        check_end(IndexCopy::discard, true);
    }

    /// A node that stops does not wait for merges; entries that were not written again are not erased.
    #[test]
    fn merges_end_when_the_node_stops() {
        check_end(IndexCopy::end_merges, false);
    }

    /// Merges a copy that is ended when the file of the merge is made. `is_compact`: the result of a
    /// compaction after that.
    fn check_end(end: fn(&IndexCopy), is_compact: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let merging: Arc<OnceLock<Weak<IndexCopy>>> = Arc::default();
        let known = Arc::clone(&merging);
        // The first file that is made once the copy is known is that of the merge.
        let observer = move |operation: DiskOperation, _: &Path| -> std::io::Result<()> {
            let copy = known.get().filter(|_| operation == DiskOperation::Create);
            if let Some(copy) = copy.and_then(Weak::upgrade) {
                let ended = Arc::clone(&copy);
                // What discards it waits for the merge.
                std::thread::spawn(move || end(&ended));
                while copy.goes_on() {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        let copy = IndexCopy::open(IndexOptions {
            directory: directory.path().join("copy"),
            definition: 7,
            slice: SliceRange::default(),
            disk: Arc::new(ObservedDisk::new(Arc::new(RealDisk), Arc::new(observer))),
            cache: Arc::new(BlockCache::new(1 << 20)),
        });
        let copy = Arc::new(copy.expect("it opens"));
        for number in 0..SIMILAR {
            let document = number.to_string().into_bytes();
            let change = IndexChange { keys: vec![document.clone()], document, timestamp: 1 };
            copy.apply(vec![change]).expect("it is taken in");
            copy.flush(FlushMark { complete_until: 1, built: true }).expect("it is written");
        }
        merging.set(Arc::downgrade(&copy)).expect("it is set once");
        assert!(!copy.merge(0).expect("the disk works"), "it was ended");
        assert_eq!(copy.compact(0).expect("the disk works"), is_compact);
        assert_eq!(copy.status().runs, SIMILAR);
    }

    #[test]
    fn neighbours_of_similar_size_are_merged() {
        #[track_caller]
        fn check(sizes: &[u64], expected: usize) {
            assert_eq!(choose(sizes), expected, "{sizes:?}");
        }
        check(&[], 0);
        check(&[5, 5, 5], 0);
        check(&[5, 5, 5, 5], 4);
        check(&[1000, 5, 5, 5], 0);
        check(&[1000, 5, 5, 5, 5], 4);
        check(&[30, 5, 5, 5], 4);
        check(&[1, 1, 1, 100], 4);
    }
}
