//! Pruning of removals that need not be remembered any more, and that no merge has reached.

use std::collections::VecDeque;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_segment::SegmentFile;
use parking_lot::Mutex;

use crate::Error;
use crate::state::{StoreState, StoredBucket};

/// Number of chunks of a segment that are looked up at a time.
const CHUNKS_AT_A_TIME: u32 = 1024;

/// Searches all segments once per interval, and returns the buckets whose merging would forget removals.
pub(crate) struct RemovalPruning {
    pass: Mutex<PruningPass>,
}

struct PruningPass {
    began_us: u64,
    found: VecDeque<BucketId>,
}

impl RemovalPruning {
    /// Creates it; the first pass begins one interval from now.
    pub fn new(now_us: u64) -> Self {
        RemovalPruning { pass: Mutex::new(PruningPass { began_us: now_us, found: VecDeque::new() }) }
    }

    /// Returns a bucket to merge completely; `horizon` is the time before which removals are forgotten.
    /// `None`: nothing to do now.
    pub fn next(&self, state: &StoreState, now_us: u64, interval_us: u64, horizon: u64) -> Option<BucketId> {
        let mut pass = self.pass.lock();
        if pass.found.is_empty() && now_us.abs_diff(pass.began_us) >= interval_us {
            pass.began_us = now_us;
            // A damaged bucket is not merged; the damage is reported elsewhere.
            let has_some = |bucket: &&Arc<StoredBucket>| has_old_removals(bucket, horizon).unwrap_or(false);
            pass.found.extend(state.buckets.iter().filter(has_some).map(|bucket| bucket.id));
        }
        pass.found.pop_front()
    }
}

/// True if a chunk of the bucket has removals and nothing younger than the horizon. A chunk with both old and
/// young rows waits: the removals might be the young ones, and the segment would be rewritten for nothing.
fn has_old_removals(bucket: &StoredBucket, horizon: u64) -> Result<bool, Error> {
    for segment in bucket.segments.iter().filter_map(|segment| segment.opened.as_ref().ok()) {
        for section in 0..segment.sections().len() {
            if section_has_old_removals(segment, section, bucket, horizon)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn section_has_old_removals(
    segment: &SegmentFile,
    section: usize,
    bucket: &StoredBucket,
    horizon: u64,
) -> Result<bool, Error> {
    let (first, last) = bucket.locations();
    let count = segment.sections()[section].chunks;
    for begin in (0..count).step_by(CHUNKS_AT_A_TIME as usize) {
        let chunks = segment.chunks(section, begin..count.min(begin + CHUNKS_AT_A_TIME))?;
        let old = chunks.iter().any(|chunk| {
            let location = chunk.first_location.high();
            chunk.removed > 0 && chunk.newest < horizon && (first..=last).contains(&location)
        });
        if old {
            return Ok(true);
        }
    }
    Ok(false)
}
