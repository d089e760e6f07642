//! Count of the documents of a data directory that is not open, by type.
//!
//! A store is opened in a directory for temporary files: a copy of the manifest and of the tail, and links to
//! the segments. So an interrupted write is repaired in the copy, and the data directory does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use millrace_env::{Disk as _, RealDisk};
use millrace_segment::SegmentCache;

use crate::context::{StoreContext, segment_path, tail_path};
use crate::read::columns::EmptyLayout;
use crate::read::group_sources::GroupSources;
use crate::read::masks::GroupOfBucket;
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, GroupPosition, StoreSnapshot};
use crate::state::StoredBucket;
use crate::state::manifest::Manifest;
use crate::state::open::open;
use crate::tail::{FjallTails, RowKey, copy_directory};
use crate::{Error, StoreOptions};

/// Bytes of the cache for directories and keys.
const CACHE_BYTES: u64 = 64 << 20;

/// Counts the documents of each type. No document is read.
pub(super) fn count(data_dir: &Path, manifest: &Manifest) -> Result<BTreeMap<String, u64>, Error> {
    let failed = |error: std::io::Error| {
        Error::io("copy the tail to the directory for temporary files, to count documents", &error)
    };
    let scratch = tempfile::tempdir().map_err(failed)?;
    let data_dir = std::path::absolute(data_dir).map_err(failed)?;
    let (there, here) = (StoreOptions::new(&data_dir), StoreOptions::new(scratch.path()));
    for directory in ["segments", "tail"] {
        RealDisk.create_directory(&scratch.path().join(directory)).map_err(failed)?;
    }
    manifest.write(&RealDisk, scratch.path())?;
    for number in &manifest.generations {
        copy_directory(&tail_path(&there, *number), &tail_path(&here, *number)).map_err(failed)?;
    }
    let segments = manifest.buckets.iter().flat_map(|(_, segments)| segments);
    let numbers: BTreeSet<u64> = segments.map(|segment| segment.number).collect();
    for number in numbers {
        symlink(segment_path(&there, number), segment_path(&here, number)).map_err(failed)?;
    }
    let cache = Arc::new(SegmentCache::new(CACHE_BYTES));
    let opened = open(&here, &FjallTails, &cache)?;
    count_in(&StoreContext::new(here, Box::new(FjallTails), Arc::new(EmptyLayout), cache, opened))
}

fn count_in(shared: &StoreContext) -> Result<BTreeMap<String, u64>, Error> {
    let reading = StoreSnapshot::new(shared, RowOrder::Keys);
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for bucket in &reading.state.buckets {
        for segment in bucket.open_segments()? {
            types.extend(segment.sections().iter().map(|section| (section.document_type.to_string(), 0)));
        }
    }
    for row in reading.tail_rows(&[], None, |_| true)? {
        types.insert(RowKey::parse(row.key())?.document_type().to_owned(), 0);
    }
    for (document_type, documents) in &mut types {
        for bucket in &reading.state.buckets {
            *documents += count_of(&reading, document_type, bucket)?;
        }
    }
    types.retain(|_, documents| *documents > 0);
    Ok(types)
}

/// Number of documents of a type in a bucket.
fn count_of(
    reading: &StoreSnapshot<'_>,
    document_type: &str,
    bucket: &Arc<StoredBucket>,
) -> Result<u64, Error> {
    let mut documents = 0;
    let mut add = |group: &GroupOfBucket<'_>, found: GroupSources| {
        let (parts, tail) = reading.newest(group, found)?;
        documents += parts.iter().map(ChunkPart::live_documents).sum::<u64>();
        for row in tail.iter().filter(|row| !row.removed) {
            let row = RowKey::parse(row.key())?;
            let dropped =
                reading.state.marks.dropped_until(document_type, row.reversed_location(), row.group);
            documents += u64::from(row.timestamp.0 > dropped);
        }
        Ok(ControlFlow::Continue(()))
    };
    let _ = reading.find_groups(document_type, bucket, GroupPosition::FIRST, &mut add)?;
    let (location, range) = (bucket.locations().0, bucket.reversed_range());
    let ungrouped = GroupOfBucket { document_type, location, group: "", range };
    let _ = add(&ungrouped, reading.find_ungrouped(document_type, bucket)?)?;
    Ok(documents)
}
